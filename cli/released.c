/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what count has written: text, CSV or JSON lines, with the mechanism that it was made with. */
#include "released.h"

#include "output.h"
#include "problem.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* count prints a deviation with six digits. */
static const double AGREES = 2e-5;

typedef struct reader {
    const char *path;
    FILE *file;
    char *line;
    size_t room;
    char *asked;     /* a copy of --column: numbers and names, joined by commas */
    char *header;    /* of CSV: a copy, its fields ended by zeros; NULL: none */
    int64_t titles;  /* fields in it */
    int64_t *column; /* from 1: those that are wanted, `wanted` of them; 0: not known yet */
    int64_t wanted;
    int64_t columns;        /* sums of a line; 0: not known yet */
    int64_t before;         /* fields before them: the step, the time */
    bool csv;               /* a header was there: the first field is the step */
    int64_t lines, places;  /* read; room for */
    double *total, *stated; /* `wanted` sums of each line */
    day_span *when;         /* of each line; last below first: it has no date */
} reader;

static bool grow(double **array, int64_t places) {
    double *more = realloc(*array, (size_t)places * sizeof **array);
    if (more != NULL) *array = more;
    return more != NULL;
}

static bool grow_all(reader *r) {
    r->places = 2 * r->places + 1024;
    day_span *more = realloc(r->when, (size_t)r->places * sizeof *more);
    if (more != NULL) r->when = more;
    return more != NULL && grow(&r->total, r->wanted * r->places) && grow(&r->stated, r->places);
}

/* The next field of count's text or CSV, ended with a zero; NULL: no more. What is in quotes is one field. */
static char *next_field(const reader *r, char **at) {
    const char *between = r->csv ? ",\r\n" : " \t\r\n";
    char *start = *at + (r->csv ? 0 : strspn(*at, between));
    if (*start == '\0') return NULL;
    char *end = start;
    if (*start == '"') {
        for (end = ++start; *end != '\0' && (*end != '"' || end[1] == '"');)
            end += *end == '"' ? 2 : 1;
        if (*end == '"') *end++ = '\0';
    }
    end += strcspn(end, between);
    *at = *end == '\0' ? end : end + 1;
    if (*end == '\r') *at += strspn(*at, "\n");
    *end = '\0';
    return start;
}

static int fail_line(const reader *r, const char *why) {
    char shown[SHOWN];
    return fail(EXIT_UNABLE, "%s, line %" PRId64 ": %s", show(r->path, shown), r->lines + 1, why);
}

/*
 * A time that is a number looks like a sum, so nothing is guessed: the first row decides only where its fields leave one
 * meaning, and --columns decides elsewhere. `between`: its sums, and a time or none.
 */
static int place_columns(reader *r, int64_t between, const char *first) {
    double number;
    char shown[SHOWN];
    const bool word = first != NULL && !read_number(first, &number);
    r->before = r->csv;
    if (between < 1) return fail_line(r, "a sum and its standard deviation are needed, as count writes them");
    if (r->columns == 0 && between > 1 && !word)
        return fail(EXIT_USAGE,
                    "%s: a line has %" PRId64
                    " numbers before its deviation, and the first may be a time: use --columns "
                    "%" PRId64 " if it is one, --columns %" PRId64 " if all are sums",
                    show(r->path, shown), between, between - 1, between);
    if (r->columns == 0) r->columns = between > 1 ? between - 1 : 1;
    if (between < r->columns || between > r->columns + 1)
        return fail(EXIT_USAGE,
                    "--columns %" PRId64 ": %s has %" PRId64
                    " fields before the deviation: the sums, and a time or none",
                    r->columns, show(r->path, shown), between);
    r->before += between - r->columns;
    return 0;
}

/* Which columns: numbers, and names where the stream has a header. */
static int find_columns(reader *r) {
    char shown[SHOWN];
    if (r->column[0] != 0) return 0;
    char *rest = NULL, *word = strtok_r(r->asked, ",", &rest);
    for (r->wanted = 0; word != NULL; word = strtok_r(NULL, ",", &rest)) {
        int64_t number = 0;
        const char *title = r->header;
        if (!read_count(word, &number) || number < 1 || number > 1000000)
            for (number = -r->before; title != NULL && number + r->before < r->titles; title += strlen(title) + 1)
                if (++number > 0 && strcmp(title, word) == 0) break;
        if (number < 1 || number > r->columns)
            return fail(EXIT_UNABLE, "--column %s: column %s is not there, %s has %" PRId64 "%s", show(word, shown),
                        word, r->path, r->columns, r->header == NULL ? " without names" : "");
        r->column[r->wanted++] = number;
    }
    if (r->wanted == 0) return fail(EXIT_USAGE, "--column: a name or a number is accepted between commas");
    return grow_all(r) ? 0 : fail_memory();
}

static void take_time(reader *r, const char *text, size_t length) {
    if (text == NULL || !calendar_read(text, length, &r->when[r->lines])) r->when[r->lines] = (day_span){0, -1, -1};
}

/* "[step,] [time] v_1 ... v_D deviation": the sums of the requested columns, and the deviation. */
static int read_row(reader *r) {
    char *at = r->line, *word, *first = NULL, *last = NULL;
    int64_t count = 0;
    if (r->lines == 0) { /* how many, in a copy */
        char *copy = strdup(r->line), *from = copy;
        if (copy == NULL) return fail_memory();
        for (; (word = next_field(r, &from)) != NULL; ++count)
            if (count == r->csv) first = word;
        int code = place_columns(r, count - r->csv - 1, first);
        free(copy);
        if (code == 0) code = find_columns(r);
        if (code != 0) return code;
        count = 0;
    }
    double *const row = r->total + r->lines * r->wanted;
    take_time(r, NULL, 0);
    for (int64_t k = 0; k < r->wanted; ++k)
        row[k] = NAN;
    for (; (word = next_field(r, &at)) != NULL; last = word) {
        if (++count == r->before && r->before == r->csv + 1) take_time(r, word, strlen(word));
        for (int64_t k = 0; k < r->wanted; ++k)
            if (count == r->before + r->column[k] && !read_number(word, &row[k])) row[k] = NAN;
    }
    if (count != r->before + r->columns + 1) return fail_line(r, "it has another number of fields than the first line");
    bool good = last != NULL && read_number(last, &r->stated[r->lines]);
    for (int64_t k = 0; k < r->wanted; ++k)
        good = good && !isnan(row[k]);
    return good ? 0 : fail_line(r, "the sum or the deviation is not a number");
}

static int64_t sums_of(const char *at) {
    int64_t count = 1;
    for (; *at != ']' && *at != '\0'; ++at)
        count += *at == ',';
    return count;
}

/* {"step":..., "sums":[v_1, ..., v_D], "standard_deviation":...}: in a time, count puts a backslash before a quote. */
static int read_object(reader *r) {
    static const char sums[] = "\"sums\":[", stated[] = "\"standard_deviation\":", time[] = "\"time\":\"";
    char *at = strstr(r->line, sums), *end = at != NULL ? strchr(at, ']') : NULL;
    const char *last = end != NULL ? strstr(end, stated) : NULL, *when = strstr(r->line, time);
    int64_t found = 0;
    if (last == NULL) return fail_line(r, "its sums or its standard_deviation are missing");
    if (r->columns == 0) r->columns = sums_of(at);
    const int code = find_columns(r);
    if (code != 0) return code;
    take_time(r, when != NULL ? when + strlen(time) : NULL, when != NULL ? strcspn(when + strlen(time), "\"") : 0);
    for (char *stop = at += strlen(sums); at < end; at = stop + 1) {
        const double value = strtod(at, &stop);
        if (stop == at || !isfinite(value) || (*stop != ',' && *stop != ']'))
            return fail_line(r, "a sum is not a number");
        ++found;
        for (int64_t k = 0; k < r->wanted; ++k)
            if (found == r->column[k]) r->total[r->lines * r->wanted + k] = value;
    }
    r->stated[r->lines] = strtod(last + strlen(stated), NULL);
    return found == r->columns ? 0 : fail_line(r, "it has another number of sums than the first line or --columns");
}

static int take_header(reader *r) {
    char *from = r->line, *word, *to;
    r->csv = true;
    r->header = to = allocate((int64_t)strlen(r->line) + 2, 1);
    if (to == NULL) return fail_memory();
    for (; (word = next_field(r, &from)) != NULL; r->titles++)
        to = stpcpy(to, word) + 1;
    return 0;
}

static int take_line(reader *r) {
    if (r->lines == 0 && !r->csv && strncmp(r->line, "step,", 5) == 0) return take_header(r);
    if (r->lines > 0 && r->lines == r->places && !grow_all(r)) return fail_memory();
    const int code = r->line[0] == '{' ? read_object(r) : read_row(r);
    if (code == 0) r->lines++;
    return code;
}

static int read_lines(reader *r) {
    char shown[SHOWN];
    int code = 0;
    r->file = fopen(r->path, "r");
    if (r->file == NULL) return fail(EXIT_UNABLE, "cannot open %s: %s", show(r->path, shown), strerror(errno));
    while (code == 0 && getline(&r->line, &r->room, r->file) >= 0)
        code = take_line(r);
    if (code == 0 && ferror(r->file)) code = fail(EXIT_UNABLE, "cannot read %s", show(r->path, shown));
    if (code == 0 && r->lines == 0) code = fail(EXIT_UNABLE, "%s has no lines", show(r->path, shown));
    return code;
}

/* Reads the deviations of the lines and checks that they agree with the stream's. */
static int compute_errors(const arguments *given, const reader *from, released *r) {
    const double sigma = dpmf_mechanism_get(r->mechanism).sigma;
    char shown[SHOWN];
    r->scale = given->number[OPTION_CLIP] * (sigma > 0.0 ? sigma : 1.0) *
               dpmf_mechanism_get(r->mechanism).evaluation.sensitivity.value;
    r->error = allocate(r->lines, sizeof *r->error);
    if (r->error == NULL) return fail_memory();
    dpmf_run run = run_with(0);
    dpmf_status status = dpmf_error_range(r->workload, r->strategy, 0, r->lines, &run, r->error);
    if (status != DPMF_OK) return fail_status(status, NULL);
    for (int64_t t = 0; t < r->lines; t++) {
        r->error[t] *= r->scale;
        if (!(fabs(from->stated[t] / r->error[t] - 1.0) <= AGREES))
            return fail(EXIT_UNABLE,
                        "%s, line %" PRId64 ": the standard deviation is %.6g there but %.6g by the mechanism: another "
                        "mechanism, or another --clip",
                        show(from->path, shown), t + 1, from->stated[t], r->error[t]);
    }
    return 0;
}

static int combine(const arguments *given, reader *from, released *r) {
    r->workload = dpmf_mechanism_get(r->mechanism).workload;
    r->strategy = dpmf_mechanism_get(r->mechanism).strategy;
    if (from->lines > dpmf_strategy_get(r->strategy).steps)
        return fail(EXIT_UNABLE, "the stream has %" PRId64 " lines, the mechanism %" PRId64 " steps", from->lines,
                    dpmf_strategy_get(r->strategy).steps);
    r->lines = from->lines;
    r->columns = from->wanted;
    r->column = from->column;
    r->when = from->when;
    r->total = allocate(r->lines * r->columns, sizeof *r->total);
    from->column = NULL;
    from->when = NULL;
    if (r->total == NULL) return fail_memory();
    for (int64_t t = 0; t < r->lines; t++)
        for (int64_t k = 0; k < r->columns; k++)
            r->total[k * r->lines + t] = from->total[t * r->columns + k];
    for (int64_t k = 0; k < r->columns; k++) {
        const char *title = from->header;
        for (int64_t i = 1; title != NULL && i < from->before + r->column[k]; i++)
            title += strlen(title) + 1;
        if (title != NULL)
            text_add_bytes(&r->titles, title, strlen(title) + 1);
        else
            text_add(&r->titles, "%" PRId64, r->column[k]), text_add_bytes(&r->titles, "", 1);
    }
    if (r->titles.failed) return fail_memory();
    return compute_errors(given, from, r);
}

int released_read(const arguments *given, released *out) {
    reader from = {.path = given->operand, .asked = strdup(option_text(given, OPTION_COLUMN))};
    char shown[SHOWN];
    int code = 0;
    if (option_given(given, OPTION_COLUMNS) &&
        (!read_count(given->text[OPTION_COLUMNS], &from.columns) || from.columns < 1 || from.columns > 1000000))
        code = fail(EXIT_USAGE, "--columns %s: the number of sums on a line is accepted, 1 to 1000000",
                    show(given->text[OPTION_COLUMNS], shown));
    if (code == 0 && !option_given(given, OPTION_MECHANISM))
        code = fail(EXIT_USAGE, "--mechanism is required: the file that the stream was made with");
    from.column = from.asked != NULL ? allocate((int64_t)strlen(from.asked) + 1, sizeof *from.column) : NULL;
    if (code == 0 && from.column == NULL) code = fail_memory();
    if (code == 0) code = load_confirmed(given->text[OPTION_MECHANISM], 0, &out->mechanism);
    if (code == 0) code = read_lines(&from);
    if (code == 0) code = combine(given, &from, out);
    if (from.file != NULL) fclose(from.file);
    free(from.line);
    free(from.total);
    free(from.stated);
    free(from.asked);
    free(from.header);
    free(from.column);
    free(from.when);
    return code;
}

void released_free(released *r) {
    free(r->total);
    free(r->error);
    free(r->column);
    free(r->when);
    text_free(&r->titles);
    dpmf_mechanism_free(r->mechanism);
    *r = (released){0};
}

/* ---- ranges ---- */

int released_span(const released *r, const char *name, const char *text, span *out) {
    char first[64], shown[SHOWN];
    if (strcmp(dpmf_workload_get(r->workload).text, "prefix") != 0)
        return fail(EXIT_UNABLE, "%s: the stream's workload is %s; running sums (prefix) are accepted", name,
                    dpmf_workload_get(r->workload).text);
    const char *colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (colon != NULL && length < sizeof first) {
        memcpy(first, text, length);
        first[length] = '\0';
        if (read_count(first, &out->first) && read_count(colon + 1, &out->last) && out->first >= 1 &&
            out->first <= out->last && out->last <= r->lines)
            return 0;
    }
    return fail(EXIT_USAGE, "%s %s: A:B is accepted, with 1 <= A <= B <= %" PRId64 " (the lines of the stream)", name,
                show(text, shown), r->lines);
}

const char *released_title(const released *r, int64_t column) {
    const char *title = r->titles.bytes;
    for (; column > 0; column--)
        title += strlen(title) + 1;
    return title;
}

double released_sum(const released *r, int64_t column, const double *weights) {
    const double *total = r->total + column * r->lines;
    double sum = 0.0;
    for (int64_t t = 0; t < r->lines; t++) /* a range is two totals, whose difference is exact to one rounding */
        sum += total[t] * (weights[t] - (t + 1 < r->lines ? weights[t + 1] : 0.0));
    return sum;
}

int released_deviation(const released *r, const double *weights, double *out) {
    dpmf_run run = run_with(0);
    dpmf_status status = dpmf_query_deviation(r->strategy, r->lines, weights, &run, out);
    *out *= r->scale;
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}
