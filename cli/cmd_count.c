/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf count: private running sums of a stream.
 *
 * With x_t = g_t + noise row t the answer is o = A x. A^-1 = R^-1 Q with few bands, so Q o = R x gives it row by row:
 * o_t = (sum_j R[t,t-j] x_{t-j} - sum_{j>0} Q[t,t-j] o_{t-j}) / Q[t,t]. Its standard deviation is scale x |B[t,:]|.
 *
 * g and the noise are put on one grid, 2^-40 of the noise's size, and added there in 128-bit integers, so that no size of
 * the numbers swallows the noise; what is made of x after that is post-processing. Running sums themselves (A = prefix)
 * stay integers until they are printed. Numbers that could not be held in all steps are refused.
 */
#include "fixed.h"
#include "options/numbers.h"
#include "options/verbs.h"
#include "output.h"
#include "privacy/ledger.h"
#include "problem.h"
#include "progress.h"
#include "rows.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HISTORY = 3, PIECE = 1 << 16, LONGEST_NUMBER = 400, WHY = 200 };

typedef struct counter {
    const arguments *given;
    dpmf_mechanism *mechanism;
    const dpmf_workload *workload;
    dpmf_noise *noise;
    int64_t steps, columns, t;
    int q_bands, r_bands;
    double *error; /* |B[t,:]|, all steps */
    int places;    /* the grid is 2^-places */
    fixed limit;   /* what numbers must stay below, in steps of the grid */
    fixed *sum;    /* the row that is read, then its noisy sum x_t on the grid */
    fixed *total;  /* running sums; NULL: the workload is another */
    double *noisy; /* a row of noise */
    double *x, *o; /* the last HISTORY rows of each: row t at (t mod HISTORY) * columns */
    char *line;    /* the line that is being read */
    size_t used, room;
    text_buffer answer; /* lines that are not written yet */
    row_output out;
    bool explained;
} counter;

/* ---- one row ---- */

static double *row_of(const counter *c, double *rows, int64_t t) {
    return rows + t % HISTORY * c->columns;
}

/* x_t on the grid. The noise is below 2^100 steps: prepare() sees to that but for what no normal number ever is. */
static dpmf_status add_noise(counter *c) {
    dpmf_status status = dpmf_noise_next(c->noise, c->noisy);
    for (int64_t i = 0; status == DPMF_OK && i < c->columns; ++i) {
        fixed noise = 0;
        if (!fixed_round(c->noisy[i], c->places, &noise)) return DPMF_ERROR_NUMERICAL;
        c->sum[i] += noise;
        if (c->total != NULL) c->total[i] += c->sum[i];
    }
    return status;
}

static dpmf_status next_sums(counter *c) {
    double q[3], r[2];
    dpmf_status status = dpmf_workload_inverse_row(c->workload, c->t, q, r);
    if (status == DPMF_OK) status = add_noise(c);
    if (status != DPMF_OK || c->total != NULL) return status;
    double *sums = row_of(c, c->o, c->t);
    for (int64_t i = 0; i < c->columns; ++i)
        row_of(c, c->x, c->t)[i] = fixed_value(c->sum[i], c->places);
    for (int64_t i = 0; i < c->columns; ++i) {
        double sum = 0.0;
        for (int j = 0; j <= c->r_bands && j <= c->t; ++j)
            sum += r[j] * row_of(c, c->x, c->t - j)[i];
        for (int j = 1; j <= c->q_bands && j <= c->t; ++j)
            sum -= q[j] * row_of(c, c->o, c->t - j)[i];
        sums[i] = sum / q[0];
    }
    return DPMF_OK;
}

/* Four digits beyond the first one that the noise leaves uncertain; more would only show rounding. */
static int decimals(double error) {
    if (!(error > 0.0)) return 17;
    int digits = 4 - (int)floor(log10(error));
    return digits < 0 ? 0 : digits > 18 ? 18 : digits;
}

static void add_answer(counter *c) {
    const double error = dpmf_noise_scale(c->noise) * c->error[c->t];
    const double *sums = row_of(c, c->o, c->t);
    for (int64_t i = 0; i < c->columns; ++i) {
        if (c->total != NULL)
            fixed_print(&c->answer, c->total[i], c->places, decimals(error));
        else
            text_add(&c->answer, "%.*f", decimals(error), sums[i]);
        text_add(&c->answer, " ");
    }
    text_add(&c->answer, "%.6g\n", error);
}

/* ---- lines ---- */

static bool is_separator(char letter) {
    return letter == ' ' || letter == '\t' || letter == ',';
}

/* The next word of *at, ended with a zero; NULL: no more. */
static char *next_number(char **at) {
    char *start = *at;
    while (is_separator(*start))
        ++start;
    if (*start == '\0') return NULL;
    char *end = start;
    while (*end != '\0' && !is_separator(*end))
        ++end;
    *at = *end != '\0' ? end + 1 : end;
    *end = '\0';
    return start;
}

/* What has been answered goes out; the first time with the notes that belong to it. */
static int flush_answers(counter *c) {
    if (c->answer.failed) return fail_memory();
    if (c->answer.length == 0) return 0;
    int code = rows_write(&c->out, c->answer.bytes, c->answer.length);
    c->answer.length = 0;
    if (code != 0 || c->explained) return code;
    c->explained = true;
    if (!dpmf_noise_calibrated(c->noise)) fail(0, "not calibrated: the mechanism has no sigma, and sigma = 1 is used");
    if (option_given(c->given, OPTION_TESTING_SEED))
        fail(0, "not private: anybody can compute the key of a testing seed");
    return 0;
}

/* The line's numbers become row t; false, and why, if there are not `columns` of them. */
static bool read_line(counter *c, char *line, size_t length, char why[WHY]) {
    char *word, *at = line;
    int64_t found = 0;
    snprintf(why, WHY, "it has a zero byte: numbers are accepted");
    if (strlen(line) != length) return false;
    for (; (word = next_number(&at)) != NULL; ++found) {
        double value = 0.0;
        fixed exact = 0;
        /* The same words whatever is wrong: they tell where, and nothing of what was there. */
        snprintf(why, WHY, "number %lld is not a finite decimal number below %.3g in size, which is what is accepted",
                 (long long)found + 1, fixed_value(c->limit, c->places));
        if (!read_number(word, &value) || !fixed_read(word, c->places, c->limit, &exact)) return false;
        if (found < c->columns) c->sum[found] = exact;
    }
    snprintf(why, WHY, "it has %lld numbers: %lld are accepted (--columns)", (long long)found, (long long)c->columns);
    return found == c->columns;
}

/* Answers to earlier lines go out before the complaint about this one. */
static int refuse_line(counter *c, const char *why) {
    int code = flush_answers(c);
    return code != 0 ? code : fail(EXIT_UNABLE, "line %lld: %s", (long long)c->t + 1, why);
}

static int take_line(counter *c, char *line, size_t length) {
    char why[WHY];
    if (length > 0 && line[length - 1] == '\r') line[--length] = '\0';
    snprintf(why, sizeof why, "the mechanism has %lld steps, and no noise for more", (long long)c->steps);
    if (c->t >= c->steps || !read_line(c, line, length, why)) return refuse_line(c, why);
    dpmf_status status = next_sums(c);
    if (status != DPMF_OK) return fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_IO : status, NULL);
    add_answer(c);
    ++c->t;
    return 0;
}

/* All whole lines of what has been read; the rest moves to the front. */
static int take_lines(counter *c) {
    size_t start = 0;
    char *end;
    while ((end = memchr(c->line + start, '\n', c->used - start)) != NULL) {
        size_t length = (size_t)(end - (c->line + start));
        *end = '\0';
        int code = take_line(c, c->line + start, length);
        if (code != 0) return code;
        start += length + 1;
    }
    c->used -= start;
    memmove(c->line, c->line + start, c->used);
    return 0;
}

static int read_stream(counter *c) {
    for (;;) {
        if (c->used + 1 >= c->room) return refuse_line(c, "it is too long");
        if (!wait_readable(STDIN_FILENO)) return fail(EXIT_CANCELLED, "cancelled");
        ssize_t got = read(STDIN_FILENO, c->line + c->used, c->room - 1 - c->used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fail(EXIT_UNABLE, "cannot read standard input: %s", strerror(errno));
        if (got == 0) break;
        c->used += (size_t)got;
        int code = take_lines(c);
        if (code == 0) code = flush_answers(c);
        if (code != 0) return code;
    }
    if (c->used == 0) return 0;
    c->line[c->used] = '\0'; /* a last line without its end */
    int code = take_line(c, c->line, c->used);
    return code != 0 ? code : flush_answers(c);
}

/* ---- before and after ---- */

static int allocate_memory(counter *c) {
    c->room = PIECE + (size_t)c->columns * LONGEST_NUMBER;
    c->error = allocate(c->steps, sizeof *c->error);
    c->x = allocate(HISTORY * c->columns, sizeof *c->x);
    c->o = allocate(HISTORY * c->columns, sizeof *c->o);
    c->sum = allocate(c->columns, sizeof *c->sum);
    c->noisy = allocate(c->columns, sizeof *c->noisy);
    c->line = allocate((int64_t)c->room, 1);
    if (strcmp(dpmf_workload_text(c->workload), "prefix") == 0) {
        c->total = allocate(c->columns, sizeof *c->total);
        if (c->total == NULL) return fail_memory();
        memset(c->total, 0, (size_t)c->columns * sizeof *c->total);
    }
    return c->error != NULL && c->x != NULL && c->o != NULL && c->sum != NULL && c->noisy != NULL && c->line != NULL
               ? 0
               : fail_memory();
}

/* The grid, and what fits all steps on it; both follow from the options and the mechanism alone. */
static int choose_grid(counter *c) {
    const double scale = dpmf_noise_scale(c->noise), least = 0x1p-40, most = 0x1p50;
    int exponent = 0;
    if (!(scale >= least && scale <= most))
        return fail(EXIT_USAGE, "clip x sigma x sensitivity = %.6g: %.3g to %.3g are accepted by count", scale, least,
                    most);
    frexp(scale, &exponent);
    c->places = exponent > 40 ? 0 : 40 - exponent > FIXED_PLACES_MAX ? FIXED_PLACES_MAX : 40 - exponent;
    c->limit = ((fixed)1 << 125) / c->steps; /* as much again is left for the noise */
    return 0;
}

static int open_noise(counter *c) {
    dpmf_noise_options wanted = dpmf_noise_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    char binding[96];
    wanted.precision = DPMF_FLOAT64;
    wanted.run.threads = 1;
    dpmf_status status = option_given(c->given, OPTION_TESTING_SEED)
                             ? dpmf_key_testing((uint64_t)c->given->count[OPTION_TESTING_SEED], key)
                             : dpmf_key_create(key);
    if (status == DPMF_OK)
        status = dpmf_noise_create(c->mechanism, c->columns, c->given->number[OPTION_CLIP], key, &wanted, &c->noise);
    int code = status == DPMF_OK ? 0 : fail_status(status, NULL);
    snprintf(binding, sizeof binding, "count %lld %.17g", (long long)c->columns, c->given->number[OPTION_CLIP]);
    if (code == 0) code = ledger_enter(c->given, c->mechanism, key, binding);
    dpmf_key_wipe(key);
    return code;
}

/* Streams have no sampler: a guarantee that rests on one would not hold. */
static int check_sampling(const counter *c) {
    char sampling[64], shown[SHOWN];
    const dpmf_sampling assumed = dpmf_mechanism_sampling(c->mechanism);
    if (dpmf_sampling_is_none(&assumed)) return 0;
    if (dpmf_sampling_format(&assumed, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    return fail(EXIT_UNABLE,
                "%s: its epsilon rests on secret sampling of the data (%s), and count draws nothing: a mechanism "
                "without sampling is accepted",
                show(c->given->operand, shown), sampling);
}

static int prepare_counter(counter *c) {
    int code = load_confirmed(c->given->operand, 0, &c->mechanism);
    if (code == 0) code = check_sampling(c);
    if (code != 0) return code;
    const dpmf_strategy *strategy = dpmf_mechanism_strategy(c->mechanism);
    c->workload = dpmf_mechanism_workload(c->mechanism);
    c->steps = dpmf_strategy_steps(strategy);
    c->columns = c->given->count[OPTION_COLUMNS];
    dpmf_workload_inverse_bands(c->workload, &c->q_bands, &c->r_bands);
    if (c->q_bands < 0)
        return fail(EXIT_UNABLE, "the workload of the mechanism is a matrix: count takes the named ones (prefix, ...)");
    code = allocate_memory(c);
    if (code != 0) return code;
    dpmf_run run = run_with(0);
    dpmf_status status = dpmf_error_compute(c->workload, strategy, &run, c->error);
    code = status == DPMF_OK ? open_noise(c) : fail_status(status, NULL);
    return code == 0 ? choose_grid(c) : code;
}

static int print_done(const counter *c) {
    text_buffer t = {0};
    json_begin(&t);
    json_text(&t, "family", dpmf_strategy_family(dpmf_mechanism_strategy(c->mechanism)));
    json_integer(&t, "steps", c->steps);
    json_text(&t, "workload", dpmf_workload_text(c->workload));
    json_integer(&t, "rows", c->t);
    json_integer(&t, "columns", c->columns);
    json_double(&t, "clip", c->given->number[OPTION_CLIP]);
    json_known(&t, "sigma", dpmf_mechanism_sigma(c->mechanism));
    json_double(&t, "scale", dpmf_noise_scale(c->noise));
    json_bool(&t, "calibrated", dpmf_noise_calibrated(c->noise) != 0);
    json_bool(&t, "private", !option_given(c->given, OPTION_TESTING_SEED));
    json_text(&t, "out", c->given->text[OPTION_OUT]);
    json_end(&t);
    int code = text_print(&t);
    text_free(&t);
    return code;
}

int cmd_count(const arguments *given) {
    counter c = {.given = given};
    if (option_given(given, OPTION_JSON) && !option_given(given, OPTION_OUT))
        return fail(EXIT_USAGE, "--json needs --out: sums and JSON would both go to standard output");
    int code = ledger_check(given);
    if (code == 0) code = rows_open(given->text[OPTION_OUT], false, &c.out);
    if (code == 0) code = prepare_counter(&c);
    if (code == 0) code = read_stream(&c);
    if (code == 0) code = rows_finish(&c.out);
    rows_close(&c.out);
    if (code == 0 && option_given(given, OPTION_JSON)) code = print_done(&c);
    text_free(&c.answer);
    free(c.error);
    free(c.x);
    free(c.o);
    free(c.sum);
    free(c.total);
    free(c.noisy);
    free(c.line);
    dpmf_noise_free(c.noise);
    dpmf_mechanism_free(c.mechanism);
    return code;
}
