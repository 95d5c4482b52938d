/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf query: the accuracy of a released stream. All results are post-processing of what count has written: estimates
 * from its lines, standard deviations from the mechanism (src/error/query.c).
 */
#include "options/options.h"
#include "options/verbs.h"
#include "output.h"
#include "problem.h"
#include "questions.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one number ---- */

static int print_range(const arguments *given, const released *r, const questions *q) {
    const double level = given->number[OPTION_LEVEL], times = q->alone, deviation = q->of[0].deviation;
    const double estimate = released_sum(r, 0, q->of[0].weights);
    char *text = q->of[0].name, *less = strstr(text, " minus "), *dash = strchr(text, '-');
    text_buffer t = {0};
    if (less != NULL) {
        *less = '\0';
        less += strlen(" minus ");
    } else if (dash != NULL && strchr(text, ':') != NULL && dash > strchr(text, ':')) {
        *dash = '\0';
        less = dash + 1;
    }
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

/* ---- several numbers ---- */

static void add_row(text_buffer *t, const released *r, const questions *q, int64_t column, const question *one,
                    bool json, char between) {
    const double x = released_sum(r, column, one->weights), d = one->deviation;
    const double ends[4] = {x - q->alone * d, x + q->alone * d, x - q->together * d, x + q->together * d};
    static const char *const names[] = {"lower", "upper", "lower_together", "upper_together"};
    if (json) {
        json_open(t, NULL, '{');
        json_text(t, "range", one->name);
        json_text(t, "column", released_title(r, column));
        json_integer(t, "lines", one->lines);
        json_double(t, "estimate", x);
        json_double(t, "deviation", d);
        for (int i = 0; i < 4; i++)
            json_double(t, names[i], ends[i]);
        json_close(t, '}');
        return;
    }
    if (between == ',')
        text_add(t, "%s,%s,%" PRId64 ",%.9g,%.9g", one->name, released_title(r, column), one->lines, x,
                 safe_digits(d, DIGITS, 1));
    else
        text_add(t, "%-24s %-10s %6" PRId64 " %14.9g %14.9g", one->name, released_title(r, column), one->lines, x,
                 safe_digits(d, DIGITS, 1));
    for (int i = 0; i < 4; i++)
        text_add(t, between == ',' ? ",%.9g" : " %14.9g", safe_digits(ends[i], DIGITS, i % 2 == 0 ? -1 : 1));
    text_add(t, "\n");
}

static int print_questions(const arguments *given, const released *r, const questions *q) {
    const bool json = option_given(given, OPTION_JSON), csv = option_is(given, OPTION_FORMAT, "csv");
    text_buffer t = {0};
    if (json) {
        json_begin(&t);
        json_integer(&t, "lines", r->lines);
        json_double(&t, "level", given->number[OPTION_LEVEL]);
        json_double(&t, "multiplier", q->alone);
        json_double(&t, "multiplier_together", q->together);
        json_integer(&t, "simulated", q->simulated);
        json_open(&t, "ranges", '[');
    } else if (csv) {
        text_add(&t, "range,column,lines,estimate,deviation,lower,upper,lower_together,upper_together\n");
    } else {
        text_add(&t, "%-24s %-10s %6s %14s %14s %14s %14s %14s %14s\n", "range", "column", "lines", "estimate",
                 "deviation", "lower", "upper", "lower together", "upper together");
    }
    for (int64_t k = 0; k < r->columns; k++)
        for (int64_t i = 0; i < q->count; i++)
            add_row(&t, r, q, k, &q->of[i], json, csv ? ',' : ' ');
    if (json) {
        json_close(&t, ']');
        json_end(&t);
    }
    return text_finish(&t);
}

/* One range of lines keeps the form of one answer. */
static int answer_questions(const arguments *given, const released *r) {
    const char *text = given->text[OPTION_RANGE];
    questions q = {0};
    int code = questions_make(given, r, &q);
    const bool one = q.count == 1 && r->columns == 1 && text != NULL && !option_given(given, OPTION_FORMAT) &&
                     !option_given(given, OPTION_BY);
    if (code == 0 && !one) code = print_questions(given, r, &q);
    if (code == 0 && one) code = print_range(given, r, &q);
    questions_free(&q);
    return code;
}

/* ---- all totals ---- */

typedef struct series {
    double *estimate, *lower, *upper, times;
    int64_t simulated;
} series;

static int fill_series(const arguments *given, const released *r, series *s) {
    int code = 0;
    dpmf_status status = dpmf_query_multiplier(given->number[OPTION_LEVEL], 1, &s->times);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (option_given(given, OPTION_CDF))
        code = together_totals(r, given->number[OPTION_LEVEL], &s->times, &s->simulated);
    if (code != 0) return code;
    const double times = s->times;
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
        json_double(&t, "multiplier", s->times);
        json_integer(&t, "simulated", s->simulated);
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
    if (r->columns > 1) return fail(EXIT_USAGE, "--column: one is accepted with --cdf and --smooth");
    int code = fill_series(given, r, &s);
    if (code == 0) code = print_series(given, r, &s);
    free(s.estimate);
    free(s.lower);
    free(s.upper);
    return code;
}

static int check_usage(const arguments *given) {
    const int asked = questions_asked(given) + option_given(given, OPTION_CDF) + option_given(given, OPTION_SMOOTH);
    if (asked != 1)
        return fail(EXIT_USAGE, "one of --range, --cdf and --smooth is required (or --last, --by), %d are given",
                    asked);
    if (option_given(given, OPTION_RANGE) && option_given(given, OPTION_LAST) && option_given(given, OPTION_BY))
        return fail(EXIT_USAGE, "--by: with --range or --last, not with both");
    if (!questions_asked(given) && option_given(given, OPTION_FORMAT))
        return fail(EXIT_USAGE, "--format: for ranges; --cdf and --smooth print text or JSON");
    if (option_given(given, OPTION_MONOTONE) && questions_asked(given))
        return fail(EXIT_USAGE, "--monotone is for all totals: use it with --cdf or --smooth");
    return 0;
}

int cmd_query(const arguments *given) {
    released r = {0};
    int code = check_usage(given);
    if (code == 0 && !end_at_once(NULL)) code = fail(EXIT_CANCELLED, "cancelled"); /* until text_print */
    if (code == 0) code = released_read(given, &r);
    if (code == 0) code = questions_asked(given) ? answer_questions(given, &r) : answer_all(given, &r);
    released_free(&r);
    return code;
}
