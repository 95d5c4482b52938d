/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf bound: events of users (CSV, as they come) to the lines that count reads, with at most K rows of each user in a
 * window. Which rows are kept is the library's choice, by a key.
 *
 * What an attacker may see: the dates of the lines and their number follow from --range, not from the data; a row that cannot
 * be read is left out, alone and in silence, so that neither the exit code nor a message depends on it. Refusals are about
 * the options, the header line, the state file, or, on request (--bad-lines stop), a bad row.
 */
#define DPMF_EXPERIMENTAL
#include "calendar.h"
#include "count/count.h"
#include "dpmf_experimental.h"
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { USER, TIME, VALUE, FIELDS };

typedef struct bound {
    const arguments *given;
    period by, per;
    day_span range;
    int64_t first, lines, columns;
    int64_t *window;
    char *list;          /* a copy of --columns, its words ended by zeros; NULL: one column of all rows */
    const char **values; /* `columns` of them */
    const char *name[FIELDS];
    int64_t place[FIELDS], places, line; /* fields from 0; of a line; the line that is read */
    char separator;
    dpmf_limiter *limiter;
    int64_t *counts;
    text_buffer binding, state, user, time, value;
} bound;

/* ---- options ---- */

/* COLUMN:VALUE,VALUE,... */
static int read_values(bound *b) {
    const char *text = b->given->text[OPTION_COLUMNS];
    char shown[SHOWN];
    int64_t room = 1;
    b->columns = 1;
    if (text == NULL) return 0;
    b->list = strdup(text);
    for (const char *at = text; *at != '\0'; ++at)
        room += *at == ',';
    b->values = allocate(room, sizeof *b->values);
    if (b->list == NULL || b->values == NULL) return fail_memory();
    char *at = strchr(b->list, ':');
    b->name[VALUE] = b->list;
    b->columns = 0;
    for (char *next = at; next != NULL; at = next) {
        *at++ = '\0';
        next = strchr(at, ',');
        if (next != NULL) *next = '\0';
        bool good = *at != '\0' && strpbrk(at, "\"\r\n;\t") == NULL;
        for (int64_t i = 0; i < b->columns; ++i)
            good = good && strcmp(b->values[i], at) != 0;
        if (!good || *b->list == '\0') b->columns = room + 1;
        if (!good) break;
        b->values[b->columns++] = at;
    }
    if (b->columns >= 1 && b->columns <= room) return 0;
    return fail(EXIT_USAGE,
                "--columns %s: COLUMN:VALUE,VALUE,... is accepted, as in country:DE,FR, each value once: the rows of "
                "each value are counted in a column of their own",
                show(text, shown));
}

/* The lines and their windows: whole periods alone, so that no line is counted in two calls. */
static int read_lines(bound *b) {
    const char *text = b->given->text[OPTION_RANGE];
    char shown[SHOWN], a[PERIOD_NAME], z[PERIOD_NAME];
    period_read(option_text(b->given, OPTION_BY), &b->by);
    period_read(option_text(b->given, OPTION_PER), &b->per);
    if (!calendar_nested(b->by, b->per))
        return fail(EXIT_USAGE, "--by %s: a line must lie within one %s (--per)", option_text(b->given, OPTION_BY),
                    option_text(b->given, OPTION_PER));
    if (!calendar_read_range(text, strlen(text), &b->range))
        return fail(EXIT_USAGE, "--range %s: dates are accepted: 2024-02-01:2024-02-29, 2024-02 or 2024-02-29",
                    show(text, shown));
    const int64_t last = calendar_period(b->by, b->range.last, 23);
    b->first = calendar_period(b->by, b->range.first, 0);
    b->lines = last - b->first + 1;
    if (calendar_begin(b->by, b->first) != b->range.first || calendar_begin(b->by, last + 1) != b->range.last + 1)
        return fail(EXIT_USAGE, "--range %s: it must have whole lines: with --by %s, %s to %s", show(text, shown),
                    option_text(b->given, OPTION_BY), calendar_name(PERIOD_DAY, calendar_begin(b->by, b->first), a),
                    calendar_name(PERIOD_DAY, calendar_begin(b->by, last + 1) - 1, z));
    b->window = allocate(b->lines + 1, sizeof *b->window);
    b->counts = b->lines <= ((int64_t)1 << 28) / b->columns ? allocate(b->lines * b->columns, sizeof *b->counts) : NULL;
    if (b->window == NULL || b->counts == NULL) return fail_memory();
    for (int64_t i = 0; i <= b->lines; ++i)
        b->window[i] = calendar_period(b->per, calendar_begin(b->by, b->first + i), 0);
    return 0;
}

static int read_options(bound *b) {
    static const option_id needed[] = {OPTION_USER, OPTION_TIME, OPTION_AT_MOST, OPTION_RANGE, OPTION_SEED_KEY};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!option_given(b->given, needed[i]))
            return fail(EXIT_USAGE, "bound needs --%s %s", options[needed[i]].name, options[needed[i]].argument);
    if (option_is(b->given, OPTION_BAD_LINES, "zero"))
        return fail(EXIT_USAGE, "--bad-lines zero: stop and skip are accepted, because a row is no line of its own");
    b->name[USER] = b->given->text[OPTION_USER];
    b->name[TIME] = b->given->text[OPTION_TIME];
    int code = read_values(b);
    if (code == 0) code = read_lines(b);
    return code;
}

/* ---- rows ---- */

/* Which field is which, by name or by number from 1. */
static int take_header(bound *b, slice line) {
    char shown[SHOWN], *end = NULL;
    slice field;
    if (line.length >= 3 && memcmp(line.start, "\xef\xbb\xbf", 3) == 0) line.start += 3, line.length -= 3;
    b->separator = lines_separator(line.start, line.length);
    line_cutter c = {.at = line.start, .end = line.start + line.length, .separator = b->separator, .more = true};
    for (int k = 0; k < FIELDS; k++)
        b->place[k] = -1;
    for (b->places = 0; lines_cut(&c, &field); b->places++)
        for (int k = 0; k < FIELDS; k++) {
            if (b->name[k] == NULL) continue;
            const long number = strtol(b->name[k], &end, 10);
            const bool is_number = *end == '\0' && number >= 1;
            const slice title = lines_unquote(&b->value, field);
            if (is_number ? number == b->places + 1
                          : title.length == strlen(b->name[k]) && memcmp(title.start, b->name[k], title.length) == 0)
                b->place[k] = b->place[k] == -1 ? b->places : -2;
        }
    if (c.wrong != NULL) return fail(EXIT_UNABLE, "line 1, the header: %s", c.wrong);
    for (int k = 0; k < FIELDS; k++)
        if (b->name[k] != NULL && b->place[k] < 0)
            return fail(EXIT_UNABLE, "line 1, the header: it has %" PRId64 " fields, and %s column %s", b->places,
                        b->place[k] == -2 ? "more than one" : "no", show(b->name[k], shown));
    return 0;
}

static int64_t column_of(const bound *b, slice value) {
    if (b->values == NULL) return 0;
    for (int64_t i = 0; i < b->columns; ++i)
        if (strlen(b->values[i]) == value.length && memcmp(b->values[i], value.start, value.length) == 0) return i;
    return -1;
}

/* NULL, or why the row is bad. A row outside the range, or of a value that was not asked for, is good and not counted. */
static const char *take_row(bound *b, slice line, dpmf_status *status) {
    line_cutter c = {.at = line.start, .end = line.start + line.length, .separator = b->separator, .more = true};
    slice field, found[FIELDS] = {{NULL, 0}};
    int64_t count = 0;
    day_span when;
    text_buffer *const spare[FIELDS] = {&b->user, &b->time, &b->value};
    for (; lines_cut(&c, &field); count++)
        for (int k = 0; k < FIELDS; k++)
            if (b->place[k] == count) found[k] = lines_unquote(spare[k], field);
    if (c.wrong != NULL) return c.wrong;
    if (count != b->places) return "it has another number of fields than the header";
    if (found[USER].length == 0) return "it has no user";
    if (found[USER].length > 1 << 16 || !calendar_read(found[TIME].start, found[TIME].length, &when) ||
        (b->by == PERIOD_HOUR && when.hour < 0) ||
        calendar_period(b->by, when.first, when.hour) != calendar_period(b->by, when.last, when.hour))
        return "its time is not a date (ISO 8601) within one line";
    const int64_t at = calendar_period(b->by, when.first, when.hour) - b->first, column = column_of(b, found[VALUE]);
    if (at >= 0 && at < b->lines && column >= 0)
        *status = dpmf_limiter_add(b->limiter, found[USER].start, (int64_t)found[USER].length, at, column);
    return NULL;
}

static int take_line(bound *b, slice line) {
    dpmf_status status = DPMF_OK;
    if (line.length > 0 && line.start[line.length - 1] == '\r') line.length--;
    const char *wrong = take_row(b, line, &status);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (wrong == NULL || !option_given(b->given, OPTION_BAD_LINES) || option_is(b->given, OPTION_BAD_LINES, "skip"))
        return 0;
    return fail(EXIT_UNABLE, "line %" PRId64 ": %s", b->line, wrong);
}

static int open_limiter(bound *b) {
    const arguments *given = b->given;
    const char *path = given->text[OPTION_SEED_KEY];
    uint8_t key[DPMF_KEY_SIZE];
    text_add(&b->binding, "by %s per %s of", option_text(given, OPTION_BY), option_text(given, OPTION_PER));
    for (int64_t i = 0; b->values != NULL && i < b->columns; ++i)
        text_add(&b->binding, ",%s", b->values[i]);
    if (!option_given(given, OPTION_STATE)) text_add(&b->state, "%s.state", path);
    if (b->binding.failed || b->state.failed) return fail_memory();
    const dpmf_limiter_options how = {.at_most = given->count[OPTION_AT_MOST],
                                      .once = option_given(given, OPTION_ONCE),
                                      .first = b->first,
                                      .lines = b->lines,
                                      .columns = b->columns,
                                      .window = b->window,
                                      .state = option_given(given, OPTION_STATE) ? given->text[OPTION_STATE]
                                                                                 : b->state.bytes,
                                      .begin = access(path, F_OK) != 0,
                                      .binding = b->binding.bytes};
    dpmf_status status = dpmf_key_load(path, 1, key);
    if (status == DPMF_OK) status = dpmf_limiter_create(key, &how, &b->limiter);
    dpmf_key_wipe(key);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/* The rest of a line that is too long is left out with it. */
static int read_events(bound *b, input *in) {
    slice line;
    bool open = false, inside = false;
    int code = 0;
    while (code == 0) {
        while (code == 0 && input_line(in, &line, &open)) {
            const bool whole = !inside;
            inside = false;
            if (whole) b->line++;
            if (b->line == 1 && whole) {
                if (line.length > 0 && line.start[line.length - 1] == '\r') line.length--;
                code = take_header(b, line);
                if (code == 0) code = open_limiter(b);
            } else if (whole) {
                code = take_line(b, line);
            }
        }
        if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
        if (code != 0 || in->ended) break;
        if (in->used - in->taken > in->longest) {
            if (!inside) b->line++;
            if (b->line == 1) return fail(EXIT_UNABLE, "line 1, the header, is too long");
            if (!inside && option_is(b->given, OPTION_BAD_LINES, "stop"))
                return fail(EXIT_UNABLE, "line %" PRId64 ": it is too long", b->line);
            inside = true;
            in->taken = in->used;
        }
        code = input_fill(in);
    }
    if (code == 0 && b->limiter == NULL) code = fail(EXIT_UNABLE, "the input has no header line");
    return code;
}

/* ---- the answer ---- */

static int print_counts(bound *b) {
    char name[PERIOD_NAME];
    text_buffer t = {0};
    row_output out = {0};
    int is_first = 0;
    const char *path = b->given->text[OPTION_OUT];
    dpmf_status status = dpmf_limiter_finish(b->limiter, b->counts, &is_first);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (is_first) {
        text_add(&t, "time%s", b->values == NULL ? ",rows" : "");
        for (int64_t i = 0; b->values != NULL && i < b->columns; ++i)
            text_add(&t, ",%s", b->values[i]);
        text_add(&t, "\n");
    }
    for (int64_t i = 0; i < b->lines; ++i) {
        text_add(&t, "%s", calendar_name(b->by, b->first + i, name));
        for (int64_t k = 0; k < b->columns; ++k)
            text_add(&t, ",%" PRId64, b->counts[i * b->columns + k]);
        text_add(&t, "\n");
    }
    if (path == NULL || t.failed) return text_finish(&t);
    int code = rows_open(path, true, &out);
    if (code == 0) code = rows_write(&out, t.bytes, t.length);
    if (code == 0) code = rows_finish(&out);
    rows_close(&out);
    text_free(&t);
    return code;
}

int cmd_bound(const arguments *given) {
    bound b = {.given = given};
    input in = {.file = -1};
    int code = read_options(&b);
    if (code == 0) code = input_open(&in, given, 1);
    if (code == 0) code = read_events(&b, &in);
    if (code == 0) code = print_counts(&b);
    input_close(&in);
    dpmf_limiter_free(b.limiter);
    free(b.window);
    free(b.counts);
    free(b.list);
    free(b.values);
    text_free(&b.binding);
    text_free(&b.state);
    text_free(&b.user);
    text_free(&b.time);
    text_free(&b.value);
    return code;
}
