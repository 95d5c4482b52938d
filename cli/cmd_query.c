/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf query: the accuracy of a released stream. All results are post-processing of what count has written: estimates
 * from its lines, standard deviations from the mechanism (src/error/query.c).
 */
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "released.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one number ---- */

/* `text`: the range, of which `less` may be subtracted. */
static int print_range(const arguments *given, const released *r, const char *text, const char *less, span plus,
                       span minus, double deviation) {
    const double level = given->number[OPTION_LEVEL], estimate = released_sum(r, plus) - released_sum(r, minus);
    double times = 0.0;
    text_buffer t = {0};
    dpmf_status status = dpmf_query_multiplier(level, 1, &times);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (option_given(given, OPTION_JSON)) {
        json_begin(&t);
        json_integer(&t, "lines", r->lines);
        json_text(&t, "range", text);
        if (less != NULL) json_text(&t, "minus", less);
        json_double(&t, "estimate", estimate);
        json_double(&t, "deviation", deviation);
        json_double(&t, "level", level);
        json_double(&t, "lower", estimate - times * deviation);
        json_double(&t, "upper", estimate + times * deviation);
        json_end(&t);
    } else {
        table_double(&t, "estimate", estimate, NULL);
        table_double(&t, "deviation", deviation, "exact");
        table_double(&t, "level", level, NULL);
        table_lower(&t, "lower", estimate - times * deviation, NULL);
        table_upper(&t, "upper", estimate + times * deviation, NULL);
    }
    return text_finish(&t);
}

static int answer_range(const arguments *given, const released *r) {
    span plus = {0}, minus = {0};
    double deviation = 0.0;
    char *text = strdup(given->text[OPTION_RANGE]);
    if (text == NULL) return fail_memory();
    char *less = strchr(text, '-');
    if (less != NULL) *less++ = '\0';
    int code = released_span(r, "--range", text, &plus);
    if (code == 0 && less != NULL) code = released_span(r, "--range: minus", less, &minus);
    if (code == 0) code = released_deviation(r, plus, minus, &deviation);
    if (code == 0) code = print_range(given, r, text, less, plus, minus, deviation);
    free(text);
    return code;
}

/* ---- all totals ---- */

typedef struct series {
    double *estimate, *lower, *upper;
} series;

static int fill_series(const arguments *given, const released *r, series *s) {
    const int64_t together = option_given(given, OPTION_CDF) ? r->lines : 1;
    double times = 0.0;
    dpmf_status status = dpmf_query_multiplier(given->number[OPTION_LEVEL], together, &times);
    if (status != DPMF_OK) return fail_status(status, NULL);
    s->estimate = allocate(r->lines, sizeof(double));
    s->lower = allocate(r->lines, sizeof(double));
    s->upper = allocate(r->lines, sizeof(double));
    if (s->estimate == NULL || s->lower == NULL || s->upper == NULL) return fail_memory();
    for (int64_t t = 0; t < r->lines; t++) {
        s->estimate[t] = r->total[t];
        s->lower[t] = r->total[t] - times * r->error[t];
        s->upper[t] = r->total[t] + times * r->error[t];
    }
    if (!option_given(given, OPTION_MONOTONE)) return 0;
    status = dpmf_query_monotone(r->lines, r->total, r->error, 0.0, s->estimate);
    if (status != DPMF_OK) return fail_status(status, NULL);
    for (int64_t t = 0; t < r->lines; t++) {
        s->lower[t] = fmax(s->lower[t], 0.0);
        s->upper[t] = fmax(s->upper[t], 0.0);
    }
    if (option_given(given, OPTION_CDF)) dpmf_query_monotone_bands(r->lines, s->lower, s->upper);
    return 0;
}

static int print_series(const arguments *given, const released *r, const series *s) {
    text_buffer t = {0};
    if (option_given(given, OPTION_JSON)) {
        json_begin(&t);
        json_integer(&t, "lines", r->lines);
        json_double(&t, "level", given->number[OPTION_LEVEL]);
        json_bool(&t, "simultaneous", option_given(given, OPTION_CDF));
        json_bool(&t, "monotone", option_given(given, OPTION_MONOTONE));
        json_doubles(&t, "estimate", r->lines, s->estimate);
        json_doubles(&t, "deviation", r->lines, r->error);
        json_doubles(&t, "lower", r->lines, s->lower);
        json_doubles(&t, "upper", r->lines, s->upper);
        json_end(&t);
    } else {
        text_add(&t, "line estimate lower upper\n");
        for (int64_t i = 0; i < r->lines; i++)
            text_add(&t, "%" PRId64 " %.9g %.9g %.9g\n", i + 1, s->estimate[i], safe_digits(s->lower[i], DIGITS, -1),
                     safe_digits(s->upper[i], DIGITS, 1));
    }
    return text_finish(&t);
}

static int answer_all(const arguments *given, const released *r) {
    series s = {0};
    int code = fill_series(given, r, &s);
    if (code == 0) code = print_series(given, r, &s);
    free(s.estimate);
    free(s.lower);
    free(s.upper);
    return code;
}

static int check_usage(const arguments *given) {
    const int asked =
        option_given(given, OPTION_RANGE) + option_given(given, OPTION_CDF) + option_given(given, OPTION_SMOOTH);
    if (asked != 1) return fail(EXIT_USAGE, "one of --range, --cdf and --smooth is required, %d are given", asked);
    if (option_given(given, OPTION_MONOTONE) && option_given(given, OPTION_RANGE))
        return fail(EXIT_USAGE, "--monotone is for all totals: use it with --cdf or --smooth");
    return 0;
}

int cmd_query(const arguments *given) {
    released r = {0};
    int code = check_usage(given);
    if (code == 0 && !end_at_once(NULL)) code = fail(EXIT_CANCELLED, "cancelled"); /* until text_print */
    if (code == 0) code = released_read(given, &r);
    if (code == 0) code = option_given(given, OPTION_RANGE) ? answer_range(given, &r) : answer_all(given, &r);
    released_free(&r);
    return code;
}

/* count prints a deviation with six digits. */
static const double AGREES = 2e-5;

typedef struct reader {
    const char *path;
    FILE *file;
    char *line;
    size_t room;
    int64_t column;        /* from 1 */
    int64_t columns;       /* sums of a line; 0: not known yet */
    int64_t before;        /* fields before them: the step, the time */
    bool csv;              /* a header was there: the first field is the step */
    int64_t lines, places; /* read; room for */
    double *total, *stated;
} reader;

static bool grow(double **array, int64_t places) {
    double *more = realloc(*array, (size_t)places * sizeof **array);
    if (more != NULL) *array = more;
    return more != NULL;
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

/* "[step,] [time] v_1 ... v_D deviation": the sum of the requested column, and the deviation. */
static int read_row(reader *r, double *wanted, double *deviation) {
    char *at = r->line, *word, *first = NULL, *last = NULL, *sum = NULL;
    int64_t count = 0;
    if (r->lines == 0) { /* how many, in a copy */
        char *copy = strdup(r->line), *from = copy;
        if (copy == NULL) return fail_memory();
        for (; (word = next_field(r, &from)) != NULL; ++count)
            if (count == r->csv) first = word;
        const int code = place_columns(r, count - r->csv - 1, first);
        free(copy);
        if (code != 0) return code;
        count = 0;
    }
    for (; (word = next_field(r, &at)) != NULL; last = word)
        if (++count == r->before + r->column) sum = word;
    if (count != r->before + r->columns + 1) return fail_line(r, "it has another number of fields than the first line");
    if (sum == NULL || !read_number(sum, wanted) || !read_number(last, deviation))
        return fail_line(r, "the sum or the deviation is not a number");
    return 0;
}

/* {"step":..., "sums":[v_1, ..., v_D], "standard_deviation":...}: in a time, count puts a backslash before a quote. */
static int read_object(reader *r, double *wanted, double *deviation) {
    static const char sums[] = "\"sums\":[", stated[] = "\"standard_deviation\":";
    char *at = strstr(r->line, sums), *end = at != NULL ? strchr(at, ']') : NULL;
    const char *last = end != NULL ? strstr(end, stated) : NULL;
    int64_t found = 0;
    *wanted = NAN;
    if (last == NULL) return fail_line(r, "its sums or its standard_deviation are missing");
    for (char *stop = at += strlen(sums); at < end; at = stop + 1) {
        const double value = strtod(at, &stop);
        if (stop == at || (*stop != ',' && *stop != ']')) return fail_line(r, "a sum is not a number");
        if (++found == r->column) *wanted = value;
    }
    *deviation = strtod(last + strlen(stated), NULL);
    if (r->columns == 0) r->columns = found;
    return found == r->columns ? 0 : fail_line(r, "it has another number of sums than the first line or --columns");
}

static int take_line(reader *r) {
    double wanted = NAN, deviation = 0.0;
    char shown[SHOWN];
    if (r->lines == 0 && !r->csv && strncmp(r->line, "step,", 5) == 0) { /* the header of CSV */
        r->csv = true;
        return 0;
    }
    const int code = r->line[0] == '{' ? read_object(r, &wanted, &deviation) : read_row(r, &wanted, &deviation);
    if (r->columns > 0 && r->column > r->columns)
        return fail(EXIT_UNABLE, "--column %" PRId64 ": column %" PRId64 " is not there, %s has %" PRId64, r->column,
                    r->column, show(r->path, shown), r->columns);
    if (code != 0) return code;
    if (r->lines == r->places) {
        r->places = 2 * r->places + 1024;
        if (!grow(&r->total, r->places) || !grow(&r->stated, r->places)) return fail_memory();
    }
    r->total[r->lines] = wanted;
    r->stated[r->lines++] = deviation;
    return 0;
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
    r->total = from->total;
    from->total = NULL;
    return compute_errors(given, from, r);
}

int released_read(const arguments *given, released *out) {
    reader from = {.path = given->operand, .column = given->count[OPTION_COLUMN]};
    char shown[SHOWN];
    if (option_given(given, OPTION_COLUMNS) &&
        (!read_count(given->text[OPTION_COLUMNS], &from.columns) || from.columns < 1 || from.columns > 1000000))
        return fail(EXIT_USAGE, "--columns %s: the number of sums on a line is accepted, 1 to 1000000",
                    show(given->text[OPTION_COLUMNS], shown));
    if (!option_given(given, OPTION_MECHANISM))
        return fail(EXIT_USAGE, "--mechanism is required: the file that the stream was made with");
    int code = load_confirmed(given->text[OPTION_MECHANISM], 0, &out->mechanism);
    if (code == 0) code = read_lines(&from);
    if (code == 0) code = combine(given, &from, out);
    if (from.file != NULL) fclose(from.file);
    free(from.line);
    free(from.total);
    free(from.stated);
    return code;
}

void released_free(released *r) {
    free(r->total);
    free(r->error);
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

double released_sum(const released *r, span s) {
    if (s.first == 0) return 0.0;
    return r->total[s.last - 1] - (s.first > 1 ? r->total[s.first - 2] : 0.0);
}

static void add_weights(double *weights, span s, double by) {
    for (int64_t t = s.first; t >= 1 && t <= s.last; t++)
        weights[t - 1] += by;
}

int released_deviation(const released *r, span plus, span minus, double *out) {
    double *weights = allocate(r->lines, sizeof *weights);
    if (weights == NULL) return fail_memory();
    add_weights(weights, plus, 1.0);
    add_weights(weights, minus, -1.0);
    dpmf_run run = run_with(0);
    dpmf_status status = dpmf_query_deviation(r->strategy, r->lines, weights, &run, out);
    free(weights);
    *out *= r->scale;
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}
