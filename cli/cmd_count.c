/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf count: private running sums of a stream, by the library's counter. Lines are read as they come (count/input.c,
 * count/lines.c), and batches of answers are released in the order that count/release.c explains.
 */
#include "count/count.h"
#include "ledger.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH_BYTES = 1 << 23 }; /* of answers: a batch is then large enough for any disk */

typedef struct count {
    const arguments *given;
    dpmf_mechanism *mechanism;
    dpmf_counter *counter;
    line_reader reader;
    input in;
    release out;
    fixed *row; /* the row that is read, then its sums */
    bad_lines bad;
    line_format format;
    int64_t steps, step, resumed_at, batch, batch_most; /* batch: rows that are not released yet */
    bool at_start;                                      /* the next line is the first of its input */
    bool kept, explained;
    count_note before;  /* of the program before this one ... */
    text_buffer passed; /* ... and the time of its last line */
    run_guarantee stated;
    bool going; /* the input is at the position of the state file: what was read may be recorded */
} count;

/* ---- batches ---- */

/* The notes are printed after the first answers, so that a refusal is a single line on stderr. */
static void explain(count *c) {
    if (c->explained) return;
    c->explained = true;
    if (!dpmf_counter_get(c->counter).calibrated)
        fail(0, "not calibrated: the mechanism has no sigma, and sigma = 1 is used");
    if (!option_given(c->given, OPTION_RELEASE) && !(dpmf_counter_get(c->counter).grid > 0))
        fail(0, "plain release: this mechanism has no exact one (--release exact prints the reason)");
    if (option_given(c->given, OPTION_TESTING_SEED))
        fail(0, "not private: anybody can compute the key of a testing seed");
}

static int release_batch(count *c) {
    int code = c->kept ? input_taken(&c->in, c->counter) : 0;
    if (code != 0 || c->batch == 0) return code;
    code = release_lines(&c->out);
    if (code != 0) return code;
    c->batch = 0;
    explain(c);
    return 0;
}

/* ---- lines ---- */

/* Bytes of this line must not be in the hash of the batch before it. */
static int refuse_line(count *c, size_t before, const char *why) {
    c->in.taken = before;
    int code = release_batch(c);
    return code != 0 ? code : fail(EXIT_UNABLE, "line %" PRId64 ": %s", c->out.note.lines + 1, why);
}

/* Numbers by their size, other times letter by letter, as those of ISO 8601 are. */
static bool is_later(slice time, slice than) {
    char a[64], b[64];
    double x, y;
    const size_t both = time.length < than.length ? time.length : than.length;
    if (time.length < sizeof a && than.length < sizeof b) {
        snprintf(a, sizeof a, "%.*s", (int)time.length, time.start);
        snprintf(b, sizeof b, "%.*s", (int)than.length, than.start);
        if (read_number(a, &x) && read_number(b, &y)) return x > y;
    }
    const int order = both > 0 ? memcmp(time.start, than.start, both) : 0;
    return order > 0 || (order == 0 && time.length > than.length);
}

/* `before`: where the line begins in the input's buffer. */
static int take_line(count *c, slice line, size_t before, bool open) {
    char why[WHY];
    slice time;
    snprintf(why, sizeof why, "the mechanism has %" PRId64 " steps, and no noise for more", c->steps);
    if (c->step >= c->steps) return refuse_line(c, before, why);
    snprintf(why, sizeof why, "it is too long");
    if (line.length > c->in.longest) return refuse_line(c, before, why);
    const line_kind kind = lines_read(&c->reader, line.start, line.length, c->at_start, c->row, &time, why);
    if (kind == LINE_BAD && (c->bad == BAD_STOP || !c->reader.ready)) return refuse_line(c, before, why);
    if (kind != LINE_HEADER && time.start != NULL && c->passed.length > 0 &&
        !is_later(time, (slice){c->passed.bytes, c->passed.length})) {
        snprintf(why, sizeof why,
                 "its time is not after that of the last line that was counted: it may have been counted (--input "
                 "whole compares and skips such lines, --input again counts them)");
        return refuse_line(c, before, why);
    }
    c->at_start = false;
    c->out.note.lines++;
    c->out.note.open_line = open;
    if (kind == LINE_HEADER) return 0;
    if (kind == LINE_BAD) {
        fail(0, "line %" PRId64 ": %s: it is %s", c->out.note.lines, why,
             c->bad == BAD_ZERO ? "counted as zeros" : "left out");
        if (c->bad == BAD_SKIP) return 0;
        memset(c->row, 0, (size_t)c->reader.columns * sizeof *c->row);
    }
    text_buffer *t = &c->out.text;
    dpmf_status status = dpmf_counter_prepare(c->counter, 1, (const dpmf_int128 *)c->row, (dpmf_int128 *)c->row);
    if (status != DPMF_OK) return fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_IO : status, NULL);
    if (c->format == FORMAT_CSV && c->out.note.header == 0) print_titles(t, &c->reader);
    c->out.note.header = 1;
    print_sums(t, c->format, &c->reader, c->step + 1, time, c->row, dpmf_counter_error(c->counter, c->step));
    if (time.length > 0) {
        c->out.time.length = 0;
        text_add_bytes(&c->out.time, time.start, time.length);
    }
    c->step++;
    c->batch++;
    return 0;
}

static int take_lines(count *c) {
    slice line;
    bool open;
    for (size_t before = c->in.taken; input_line(&c->in, &line, &open); before = c->in.taken) {
        int code = take_line(c, line, before, open);
        const bool full = c->batch >= c->batch_most || c->out.text.length > BATCH_BYTES;
        if (code == 0 && (full || interrupted())) {
            code = release_batch(c);
            if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
        }
        if (code != 0) return code;
    }
    if (c->in.used - c->in.taken > c->in.longest) return refuse_line(c, c->in.taken, "it is too long");
    return release_batch(c);
}

/* ---- from start to end ---- */

/* A last line without an end must not have grown since it was counted; its end is skipped. */
static int pass_line_end(count *c) {
    input *in = &c->in;
    int code = 0;
    while (code == 0 && !in->ended &&
           (in->used == in->taken || (in->used - in->taken == 1 && in->bytes[in->taken] == '\r')))
        code = input_fill(in);
    if (code != 0) return code;
    const char *at = in->bytes + in->taken;
    const size_t left = in->used - in->taken;
    const size_t end = left > 1 && at[0] == '\r' && at[1] == '\n' ? 2 : left > 0 && at[0] == '\n' ? 1 : 0;
    if (left > 0 && end == 0)
        return fail(EXIT_UNABLE, "line %" PRId64 " was counted without its line end, and is longer now",
                    c->out.note.lines);
    in->taken += end;
    c->out.note.open_line = end == 0; /* nothing has come: the input is unchanged */
    return 0;
}

/* After a restart: checks the input that was counted and the header in it, and finds where to continue. */
static int resume_input(count *c) {
    slice first, time;
    char why[WHY];
    c->before = c->out.note;
    c->at_start = true;
    int code = input_resume(&c->in, c->counter, c->step, c->out.note.lines, &first);
    if (code == 0 && first.start != NULL) {
        c->at_start = false;
        if (lines_read(&c->reader, first.start, first.length, true, c->row, &time, why) == LINE_BAD && !c->reader.ready)
            code = fail(EXIT_UNABLE, "line 1: %s", why);
        if (code == 0 && c->out.note.open_line != 0) code = pass_line_end(c);
    } else if (code == 0 && c->step > 0) {
        fail(0,
             "resuming after line %" PRId64
             ": the input must begin after it (with --input whole, it begins at its start)",
             c->out.note.lines);
        if (c->in.rest && c->out.time.length > 0) text_add_bytes(&c->passed, c->out.time.bytes, c->out.time.length);
        if (c->passed.failed) code = fail_memory();
        c->out.note.open_line = 0;
    }
    free((void *)first.start);
    return code;
}

static int count_stream(count *c) {
    int code = c->kept ? resume_input(c) : 0;
    if (!c->kept) c->at_start = true;
    c->going = code == 0;
    /* Bytes that came together with the counted ones are already in the buffer. */
    if (code == 0) code = take_lines(c);
    while (code == 0 && !c->in.ended) {
        code = input_fill(&c->in);
        if (code == 0) code = take_lines(c);
    }
    return code;
}

/* ---- before and after ---- */

static int check_usage(const arguments *given) {
    const bool key = option_given(given, OPTION_KEY_FILE), seed = option_given(given, OPTION_TESTING_SEED);
    const bool state = option_given(given, OPTION_STATE);
    if (option_given(given, OPTION_JSON) && !option_given(given, OPTION_OUT))
        return fail(EXIT_USAGE, "--json needs --out: sums and JSON would both go to standard output");
    if (key && seed) return fail(EXIT_USAGE, "--key-file and --testing-seed: only one of them gives the key");
    if (option_is(given, OPTION_STATE, "none"))
        return fail(EXIT_USAGE, "--state none is for noise and train: a count with a key file keeps its sums");
    if (state && !key && !seed)
        return fail(EXIT_USAGE, "--state needs --key-file: without it the key is fresh, and nothing can be resumed");
    if (!state && !key && option_given(given, OPTION_SYNC_EVERY))
        return fail(EXIT_USAGE, "--sync-every needs --key-file or --state: there is no state file to sync");
    if (!state && !key && option_given(given, OPTION_INPUT))
        return fail(EXIT_USAGE, "--input needs --key-file or --state: it is for resuming");
    return 0;
}

static void read_options(count *c) {
    const arguments *given = c->given;
    c->bad = !option_given(given, OPTION_BAD_LINES) || option_is(given, OPTION_BAD_LINES, "stop") ? BAD_STOP
             : option_is(given, OPTION_BAD_LINES, "zero")                                         ? BAD_ZERO
                                                                                                  : BAD_SKIP;
    c->format = option_is(given, OPTION_FORMAT, "jsonl") ? FORMAT_JSONL
                : option_is(given, OPTION_FORMAT, "csv") ? FORMAT_CSV
                                                         : FORMAT_TEXT;
    c->kept = option_given(given, OPTION_STATE) || option_given(given, OPTION_KEY_FILE);
    c->batch_most = option_given(given, OPTION_SYNC_EVERY) ? given->count[OPTION_SYNC_EVERY] : INT64_MAX;
}

/* Streams have no sampler, so a guarantee that needs one would not hold. */
static int check_sampling(const count *c) {
    char sampling[64], shown[SHOWN];
    const dpmf_sampling assumed = dpmf_mechanism_get(c->mechanism).sampling;
    if (dpmf_sampling_is_none(&assumed)) return 0;
    if (dpmf_sampling_format(&assumed, sampling) != DPMF_OK) return fail_status(DPMF_ERROR_ARGUMENT, NULL);
    return fail(EXIT_UNABLE,
                "%s: its epsilon assumes secret sampling of the data (%s), and count samples nothing: a mechanism "
                "without sampling is accepted",
                show(c->given->operand, shown), sampling);
}

static int open_counter(count *c) {
    dpmf_counter_options wanted = dpmf_counter_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    char binding[96];
    wanted.state = c->given->text[OPTION_STATE];
    wanted.key_file = c->given->text[OPTION_KEY_FILE];
    wanted.clip_rows = option_given(c->given, OPTION_CLIP_ROWS);
    wanted.uncalibrated = option_given(c->given, OPTION_UNCALIBRATED);
    wanted.run = run_with(0);
    wanted.release = option_is(c->given, OPTION_RELEASE, "exact")   ? DPMF_RELEASE_EXACT
                     : option_is(c->given, OPTION_RELEASE, "plain") ? DPMF_RELEASE_PLAIN
                                                                    : DPMF_RELEASE_AUTO;
    wanted.state_now = c->kept && option_given(c->given, OPTION_LEDGER);
    dpmf_status status = key_from_options(c->given, key);
    if (status != DPMF_OK) return fail_status(status, NULL);
    status =
        dpmf_counter_create(c->mechanism, c->reader.columns, c->given->number[OPTION_CLIP], key, &wanted, &c->counter);
    /* Before anything is released; a stream that continues is already in the ledger. */
    snprintf(binding, sizeof binding, "count %" PRId64 " %.17g", c->reader.columns, c->given->number[OPTION_CLIP]);
    int code = status == DPMF_OK ? ledger_enter(c->given, c->mechanism, key, dpmf_counter_get(c->counter).salt, binding)
                                 : fail_status(status, NULL);
    dpmf_key_wipe(key);
    if (code != 0) return code;
    const dpmf_int128 limit = dpmf_counter_get(c->counter).limit;
    memcpy(&c->reader.limit, &limit, sizeof limit);
    c->reader.grid = dpmf_counter_get(c->counter).places;
    c->step = c->resumed_at = dpmf_counter_get(c->counter).step;
    return 0;
}

/* A count cannot see who is behind a line: with several participations the caller must know what it limits. */
static int check_unit(const count *c) {
    char shown[SHOWN];
    const dpmf_participation_info taken = dpmf_participation_get(dpmf_mechanism_get(c->mechanism).participation);
    if (taken.count == 1 || c->stated.how.covered.unit != NULL) return 0;
    return fail(
        EXIT_USAGE,
        "%s: one unit may be in up to %" PRId64
        " lines, and the file does not record what it is: count needs --unit NAME (example, user or another word), "
        "for example --unit user",
        show(c->given->operand, shown), taken.count);
}

static int prepare(count *c) {
    int code = load_confirmed(c->given->operand, 0, &c->mechanism);
    if (code == 0) code = check_calibrated(c->given, c->mechanism);
    if (code == 0) code = check_sampling(c);
    if (code == 0) code = state_run(c->given, c->mechanism, c->given->number[OPTION_CLIP], 0, &c->stated);
    if (code == 0) code = check_unit(c);
    if (code == 0) code = lines_open(c->given, &c->reader);
    if (code == 0) code = input_open(&c->in, c->given, c->reader.columns);
    if (code != 0) return code;
    c->steps = dpmf_strategy_get(dpmf_mechanism_get(c->mechanism).strategy).steps;
    c->row = allocate(c->reader.columns, sizeof *c->row);
    if (c->row == NULL || text_room(&c->out.text, sizeof c->out.note) == NULL) return fail_memory();
    text_used(&c->out.text, sizeof c->out.note);
    return open_counter(c);
}

static int print_done(count *c) {
    text_buffer t = {0};
    dpmf_exact exact = {0};
    char of_exact[RUN_STATEMENT_MAX];
    int code = state_run(c->given, c->mechanism, c->given->number[OPTION_CLIP], c->step, &c->stated);
    const double grid = dpmf_counter_get(c->counter).grid;
    if (code == 0 && grid > 0 && c->stated.found.delta > 0.0) {
        const dpmf_run run = run_with(0);
        dpmf_status status =
            dpmf_exact_plan(c->mechanism, c->reader.columns, c->given->number[OPTION_CLIP], grid, &run, &exact);
        if (status != DPMF_OK) return fail_status(status, NULL);
        dpmf_exact_statement(&exact, c->stated.statement, of_exact, sizeof of_exact);
    }
    if (code != 0) return code;
    json_begin(&t);
    json_text(&t, "family", dpmf_strategy_get(dpmf_mechanism_get(c->mechanism).strategy).family);
    json_integer(&t, "steps", c->steps);
    json_text(&t, "workload", dpmf_workload_get(dpmf_mechanism_get(c->mechanism).workload).text);
    json_integer(&t, "rows", c->step);
    json_integer(&t, "columns", c->reader.columns);
    json_double(&t, "clip", c->given->number[OPTION_CLIP]);
    json_known(&t, "sigma", dpmf_mechanism_get(c->mechanism).sigma);
    json_double(&t, "scale", dpmf_counter_get(c->counter).scale);
    json_text(&t, "release", dpmf_counter_get(c->counter).grid > 0 ? "exact" : "plain");
    json_bool(&t, "calibrated", dpmf_counter_get(c->counter).calibrated != 0);
    json_bool(&t, "private",
              dpmf_counter_get(c->counter).calibrated != 0 && !option_given(c->given, OPTION_TESTING_SEED));
    json_text(&t, "out", c->given->text[OPTION_OUT]);
    json_integer(&t, "resumed_at", c->resumed_at);
    json_integer(&t, "lines", c->out.note.lines);
    json_known(&t, "epsilon", c->stated.found.epsilon);
    json_known(&t, "delta", c->stated.found.delta);
    json_protected(&t, &c->stated.how);
    json_text(&t, "statement",
              option_given(c->given, OPTION_TESTING_SEED)
                  ? "Not private: anybody can compute the key of a testing seed."
              : exact.grid > 0 ? of_exact
                               : c->stated.statement);
    json_end(&t);
    return text_finish(&t);
}

/* Bad lines and signals end a stream properly: the state file then records that all its lines are written. */
static int run(count *c) {
    int code = prepare(c);
    if (code == 0) code = release_open(&c->out, c->counter, c->given->text[OPTION_OUT], c->kept);
    if (code != 0) return code;
    code = count_stream(c);
    if (!c->in.whole && c->kept && c->step == c->resumed_at) { /* it gave no row: the record of the input stays */
        c->out.note.lines = c->before.lines;
        c->out.note.open_line = c->before.open_line;
    }
    const int closed = release_close(&c->out, code == 0, c->going && c->batch == 0);
    if (code == 0) code = closed;
    return code == 0 && option_given(c->given, OPTION_JSON) ? print_done(c) : code;
}

int cmd_count(const arguments *given) {
    count c = {.given = given, .in = {.file = -1}, .out = {.file = -1}};
    int code = check_usage(given);
    if (code == 0) code = ledger_check(given);
    if (code != 0) return code;
    read_options(&c);
    code = run(&c);
    text_free(&c.out.text);
    text_free(&c.out.time);
    text_free(&c.passed);
    input_close(&c.in);
    lines_close(&c.reader);
    free(c.row);
    dpmf_counter_free(c.counter);
    dpmf_mechanism_free(c.mechanism);
    return code;
}
