/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf query: the accuracy of a released stream. All results are post-processing of what count has written: estimates
 * from its lines, standard deviations from the mechanism (src/error/query.c).
 */
#include "options/verbs.h"
#include "output.h"
#include "progress.h"
#include "released.h"

#include <inttypes.h>
#include <math.h>
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
        table_double(&t, "lower", estimate - times * deviation, NULL);
        table_double(&t, "upper", estimate + times * deviation, NULL);
    }
    int code = text_print(&t);
    text_free(&t);
    return code;
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

static void json_values(text_buffer *t, const char *key, int64_t count, const double *values) {
    json_open(t, key, '[');
    for (int64_t i = 0; i < count; i++)
        json_double(t, NULL, values[i]);
    json_close(t, ']');
}

static int print_series(const arguments *given, const released *r, const series *s) {
    text_buffer t = {0};
    if (option_given(given, OPTION_JSON)) {
        json_begin(&t);
        json_integer(&t, "lines", r->lines);
        json_double(&t, "level", given->number[OPTION_LEVEL]);
        json_bool(&t, "simultaneous", option_given(given, OPTION_CDF));
        json_bool(&t, "monotone", option_given(given, OPTION_MONOTONE));
        json_values(&t, "estimate", r->lines, s->estimate);
        json_values(&t, "deviation", r->lines, r->error);
        json_values(&t, "lower", r->lines, s->lower);
        json_values(&t, "upper", r->lines, s->upper);
        json_end(&t);
    } else {
        text_add(&t, "line estimate lower upper\n");
        for (int64_t i = 0; i < r->lines; i++)
            text_add(&t, "%" PRId64 " %.9g %.9g %.9g\n", i + 1, s->estimate[i], s->lower[i], s->upper[i]);
    }
    int code = text_print(&t);
    text_free(&t);
    return code;
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
