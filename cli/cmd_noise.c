/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf noise: rows of a mechanism's noise to a pipe or a file. */
#include "ledger.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct request {
    const arguments *given;
    dpmf_mechanism *mechanism;
    int64_t dim, first, last; /* rows [first, last) */
    int64_t count;            /* numbers of a row of the shard */
    size_t number_size;
    dpmf_noise_options options;
    dpmf_noise *noise;
    char *rows;      /* memory for `at_once` of them */
    int64_t at_once; /* rows made before they are written; 1 with a state file */
    bool kept;       /* a state file records the rows */
    bool unfinished; /* a signal ends the program in the middle of a row; else it finishes the row */
    bool explained;  /* the notes on stderr have been printed */
} request;

/* ---- options ---- */

static int check_usage(const arguments *given) {
    bool dry = option_given(given, OPTION_DRY_RUN), key = option_given(given, OPTION_KEY_FILE);
    bool seed = option_given(given, OPTION_TESTING_SEED), state = option_given(given, OPTION_STATE);
    bool without = option_is(given, OPTION_STATE, "none");
    if (!option_given(given, OPTION_DIM)) return fail(EXIT_USAGE, "--dim is required: --dim M, the numbers in a row");
    if (!option_given(given, OPTION_ROWS) && !dry) return fail(EXIT_USAGE, "--rows is required: --rows A:B, from 0");
    if (key && seed) return fail(EXIT_USAGE, "--key-file and --testing-seed: only one of them gives the key");
    if (state && !without && !key && !seed)
        return fail(EXIT_USAGE, "--state needs --key-file: without it the key is fresh, and nothing can be resumed");
    if (option_given(given, OPTION_REPLAY) && (without || (!state && !key)))
        return fail(EXIT_USAGE, "--replay needs --state: it is for rows that the state file records");
    if (option_is(given, OPTION_RELEASE, "exact") && option_is(given, OPTION_FORMAT, "f32"))
        return fail(EXIT_USAGE, "--release exact and --format f32: exact rows are float64 (f64, npy), which hold them");
    if (option_given(given, OPTION_JSON) && !option_given(given, OPTION_OUT) && !dry)
        return fail(EXIT_USAGE, "--json needs --out: rows and JSON would both go to standard output");
    return 0;
}

/* "A:B" with A < B <= steps. */
static int read_rows(const arguments *given, int64_t steps, request *r) {
    const char *text = given->text[OPTION_ROWS];
    char first[64], shown[SHOWN];
    if (text == NULL) return 0;
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (colon != NULL && length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
        if (read_count(first, &r->first) && read_count(colon + 1, &r->last) && r->first >= 0 && r->first < r->last &&
            r->last <= steps)
            return 0;
    }
    return fail(EXIT_USAGE, "--rows %s: A:B is accepted, with 0 <= A < B <= %" PRId64 " (the steps of the mechanism)",
                show(text, shown), steps);
}

static void read_options(const arguments *given, request *r) {
    r->dim = given->count[OPTION_DIM];
    r->options = dpmf_noise_options_defaults();
    r->options.exact = option_is(given, OPTION_RELEASE, "exact");
    r->options.precision = r->options.exact || option_is(given, OPTION_FORMAT, "f64") ? DPMF_FLOAT64 : DPMF_FLOAT32;
    r->options.offset = given->count[OPTION_OFFSET];
    r->options.count = option_given(given, OPTION_SHARD) ? given->count[OPTION_SHARD] : 0;
    r->options.replay = option_given(given, OPTION_REPLAY);
    r->options.uncalibrated = option_given(given, OPTION_UNCALIBRATED);
    r->options.key_file = given->text[OPTION_KEY_FILE];
    r->options.rows_may_repeat = option_is(given, OPTION_STATE, "none");
    r->options.state = r->options.rows_may_repeat ? NULL : given->text[OPTION_STATE];
    r->options.memory = memory_limit(given);
    r->options.run = run_with((int)given->count[OPTION_THREADS]);
    r->kept = r->options.state != NULL || (r->options.key_file != NULL && !r->options.rows_may_repeat);
    r->options.state_now = r->kept && option_given(given, OPTION_LEDGER);
    r->number_size = r->options.precision == DPMF_FLOAT64 ? sizeof(double) : sizeof(float);
    r->count = r->options.count > 0 ? r->options.count : r->dim - r->options.offset;
}

/* Exact rows are float64, except in a NumPy file, which records its type. */
static const char *format_text(const request *r) {
    const char *asked = option_text(r->given, OPTION_FORMAT);
    return asked != NULL ? asked : r->options.exact ? "f64" : "f32";
}

/* ---- dry run ---- */

static int dry_run(const request *r) {
    text_buffer t = {0};
    uint64_t bytes = 0, buffers = 0;
    const dpmf_strategy *strategy = dpmf_mechanism_get(r->mechanism).strategy;
    const int64_t row = r->count * (int64_t)r->number_size;
    dpmf_status status = dpmf_noise_memory(r->mechanism, r->dim, &r->options, &bytes, &buffers);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (option_given(r->given, OPTION_JSON)) {
        json_begin(&t);
        json_text(&t, "family", dpmf_strategy_get(strategy).family);
        json_integer(&t, "steps", dpmf_strategy_get(strategy).steps);
        json_integer(&t, "dim", r->dim);
        json_integer(&t, "offset", r->options.offset);
        json_integer(&t, "count", r->count);
        json_text(&t, "format", format_text(r));
        json_integer(&t, "buffers", dpmf_strategy_get(strategy).buffers);
        json_integer(&t, "memory_bytes", (int64_t)bytes);
        json_integer(&t, "buffer_bytes", (int64_t)buffers);
        json_integer(&t, "row_bytes", row);
        json_end(&t);
    } else {
        table_text(&t, "family", dpmf_strategy_get(strategy).family);
        table_integer(&t, "buffers", dpmf_strategy_get(strategy).buffers);
        table_integer(&t, "memory, bytes", (int64_t)bytes);
        table_integer(&t, "of that, buffers", (int64_t)buffers);
        table_integer(&t, "and a row", row);
    }
    return text_finish(&t);
}

/* ---- the rows ---- */

static int open_noise(request *r, const row_output *out) {
    uint8_t key[DPMF_KEY_SIZE];
    char binding[128];
    uint64_t bytes = 0;
    /* All checks come before the key file is made. */
    dpmf_status status = dpmf_noise_memory(r->mechanism, r->dim, &r->options, &bytes, NULL);
    /*
     * Does a signal end the program before the current row is written? The output has whole rows either way. But a state
     * file has recorded the row, and the reader of a pipe would then need --replay to get it: so a row that takes a moment
     * is finished.
     */
    r->unfinished = !r->kept || r->given->text[OPTION_OUT] != NULL || bytes > (uint64_t)1 << 26;
    if (status == DPMF_OK) status = key_from_options(r->given, key);
    if (status != DPMF_OK) return fail_status(status, NULL);
    status = dpmf_noise_create(r->mechanism, r->dim, r->given->number[OPTION_CLIP], key, &r->options, &r->noise);
    if (status == DPMF_OK && !end_at_once(rows_left_behind(out))) status = DPMF_ERROR_CANCELLED;
    if (status == DPMF_OK) status = dpmf_noise_seek(r->noise, r->first); /* may take the time of the rows before it */
    end_later();
    int code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    /* Shards of one run are the same run; another clip norm, size or precision is another run. */
    snprintf(binding, sizeof binding, "noise %" PRId64 " %.17g %s", r->dim, r->given->number[OPTION_CLIP],
             r->options.exact ? "exact" : format_text(r));
    if (code == 0) code = ledger_enter(r->given, r->mechanism, key, dpmf_noise_get(r->noise).salt, binding);
    dpmf_key_wipe(key);
    return code;
}

/* Makes several rows at a time, so that short ones do not each cost a system call. */
static int allocate_rows(request *r) {
    const int64_t row = r->count * (int64_t)r->number_size, together = 1 << 20;
    r->at_once = r->kept || row >= together ? 1 : together / row;
    if (r->at_once > r->last - r->first) r->at_once = r->last - r->first;
    r->rows = allocate(r->at_once, row);
    return r->rows != NULL ? 0 : fail_memory();
}

/* Printed after the first rows: a refusal would have come before, as a single line. */
static void explain(request *r) {
    if (r->explained) return;
    r->explained = true;
    if (!dpmf_noise_get(r->noise).calibrated)
        fail(0, "not calibrated: the mechanism has no sigma, and sigma = 1 is used");
    if (option_given(r->given, OPTION_TESTING_SEED))
        fail(0, "not private: anybody can compute the key of a testing seed");
    const dpmf_sampling assumed = dpmf_mechanism_get(r->mechanism).sampling;
    char sampling[64];
    if (assumed.kind != DPMF_SAMPLING_NONE && dpmf_sampling_format(&assumed, sampling) == DPMF_OK)
        fail(0, "the mechanism's epsilon holds only for a run that draws its batches in secret by %s", sampling);
}

static int write_header(const request *r, row_output *out) {
    char header[128], padded[256];
    int length = snprintf(header, sizeof header,
                          "{'descr': '<f%d', 'fortran_order': False, 'shape': (%" PRId64 ", %" PRId64 "), }",
                          (int)r->number_size, r->last - r->first, r->count);
    int body = (10 + length + 1 + 63) / 64 * 64 - 10; /* the data starts at a multiple of 64 */
    memcpy(padded, "\x93NUMPY\x01", 7);
    padded[7] = '\0';
    padded[8] = (char)(body & 0xff);
    padded[9] = (char)(body >> 8);
    memset(padded + 10, ' ', (size_t)body);
    memcpy(padded + 10, header, (size_t)length);
    padded[10 + body - 1] = '\n';
    return rows_write(out, padded, (size_t)(10 + body));
}

static int write_rows(request *r, row_output *out) {
    const size_t row = (size_t)r->count * r->number_size;
    int code = option_is(r->given, OPTION_FORMAT, "npy") ? write_header(r, out) : 0;
    for (int64_t t = r->first; code == 0 && t < r->last;) {
        int64_t some = r->last - t < r->at_once ? r->last - t : r->at_once;
        for (int64_t i = 0; i < some; i++) {
            if (r->unfinished ? !end_at_once(rows_left_behind(out)) : interrupted())
                return fail(EXIT_CANCELLED, "cancelled");
            dpmf_status status = dpmf_noise_next(r->noise, r->rows + (size_t)i * row);
            end_later();
            if (status != DPMF_OK) return fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_IO : status, NULL);
        }
        code = rows_write(out, r->rows, (size_t)some * row);
        if (code == 0) explain(r);
        t += some;
        progress_show("rows of noise", (double)(t - r->first) / (double)(r->last - r->first));
    }
    progress_clear();
    return code;
}

static int print_done(const request *r) {
    text_buffer t = {0};
    const dpmf_strategy *strategy = dpmf_mechanism_get(r->mechanism).strategy;
    const dpmf_sampling assumed = dpmf_mechanism_get(r->mechanism).sampling;
    char sampling[64];
    if (dpmf_sampling_format(&assumed, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    json_begin(&t);
    json_text(&t, "family", dpmf_strategy_get(strategy).family);
    json_integer(&t, "steps", dpmf_strategy_get(strategy).steps);
    json_integer(&t, "dim", r->dim);
    json_integer(&t, "offset", r->options.offset);
    json_integer(&t, "count", r->count);
    json_open(&t, "rows", '[');
    json_integer(&t, NULL, r->first);
    json_integer(&t, NULL, r->last);
    json_close(&t, ']');
    json_text(&t, "format", format_text(r));
    json_text(&t, "release", r->options.exact ? "exact" : "plain");
    if (r->options.exact) {
        json_double(&t, "grid", dpmf_noise_get(r->noise).grid);
        json_double(&t, "sensitivity", dpmf_noise_get(r->noise).release.sensitivity);
    }
    json_double(&t, "clip", r->given->number[OPTION_CLIP]);
    json_known(&t, "sigma", dpmf_mechanism_get(r->mechanism).sigma);
    json_double(&t, "scale", dpmf_noise_get(r->noise).release.scale);
    json_bool(&t, "calibrated", dpmf_noise_get(r->noise).calibrated != 0);
    json_bool(&t, "private", dpmf_noise_get(r->noise).calibrated != 0 && !option_given(r->given, OPTION_TESTING_SEED));
    json_text(&t, "sampling", sampling);
    json_integer(&t, "stream_version", DPMF_STREAM_VERSION);
    json_text(&t, "digest", dpmf_mechanism_get(r->mechanism).digest);
    json_text(&t, "out", r->given->text[OPTION_OUT]);
    json_end(&t);
    return text_finish(&t);
}

static int make_rows(request *r) {
    row_output out = {0};
    const char *path = r->given->text[OPTION_OUT];
    if (path == NULL && isatty(STDOUT_FILENO) != 0)
        return fail(EXIT_USAGE, "standard output is a terminal, and rows are bytes: use --out FILE, or a pipe");
    int code = rows_open(path, true, &out);
    if (code == 0) code = open_noise(r, &out);
    if (code == 0) code = allocate_rows(r);
    if (code == 0) code = write_rows(r, &out);
    if (code == 0) code = rows_finish(&out);
    rows_close(&out);
    if (code == 0 && option_given(r->given, OPTION_JSON)) code = print_done(r);
    return code;
}

int cmd_noise(const arguments *given) {
    request r = {.given = given};
    int code = check_usage(given);
    if (code == 0) code = ledger_check(given);
    if (code != 0) return code;
    read_options(given, &r);
    code = load_confirmed(given->operand, (int)given->count[OPTION_THREADS], &r.mechanism);
    if (code == 0) code = read_rows(given, dpmf_strategy_get(dpmf_mechanism_get(r.mechanism).strategy).steps, &r);
    const bool dry = option_given(given, OPTION_DRY_RUN);
    if (code == 0 && !dry) code = check_calibrated(given, r.mechanism);
    if (code == 0) code = dry ? dry_run(&r) : make_rows(&r);
    free(r.rows);
    dpmf_noise_free(r.noise);
    dpmf_mechanism_free(r.mechanism);
    return code;
}
