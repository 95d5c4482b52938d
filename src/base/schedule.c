/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning-rate schedules by name, as factors over n steps, t = 0..n-1:
 *
 *     cooldown F, L   with m = round(F n): 1 before the last m steps, then 1 - (1-L) j/m for j = 1..m
 *     linear L        L + (1-L) (1 - t/n): from 1 to L + (1-L)/n, so that the last step still counts where L is 0
 *     cosine L        L + (1-L) (1 + cos(pi t/(n-1)))/2: from 1 to L
 *     warmup F        with m = round(F n): j/m for j = 1..m, then 1
 *     step E, G       G^floor(t/E)
 *
 * A mechanism file holds both the text and the numbers and its reader compares them bit by bit, so that nothing here may
 * depend on a machine's mathematical library: additions, products and quotients only.
 *
 * Workloads are inverted and need factors above 0. A trainer's schedule is post-processing, and its factors may be 0.
 */
#include "base/schedule.h"

#include "base/status.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum low_end { CLOSED, OPEN, OPEN_IN_WORKLOADS } low_end;

typedef struct parameter {
    const char *name;
    low_end at_low; /* OPEN: `low` itself is not accepted */
    double low, high;
    int whole; /* 1: a whole number */
} parameter;

typedef struct schedule_row {
    const char *name, *form, *example;
    int values;
    int optional; /* 1: the last value may be left out, and is then its `low` */
    parameter value[2];
    void (*fill)(int64_t steps, const double *value, double *rates); /* a multiplication */
} schedule_row;

/* cos(pi x) for x in [0, 1] as the series of sin(pi (1/2 - x)), whose terms after the twelfth are below 1e-17. */
static double half_cosine(double x) {
    const double y = 3.14159265358979323846 * (0.5 - x), square = y * y;
    double term = y, sum = 0;
    for (int k = 1; k <= 12; k++) {
        sum += term;
        term *= -square / (double)(2 * k * (2 * k + 1));
    }
    return sum;
}

static void cool_down(int64_t steps, const double *value, double *rates) {
    const int64_t m = (int64_t)round(value[0] * (double)steps);
    for (int64_t j = 1; j <= m; j++)
        rates[steps - m + j - 1] *= 1 - (1 - value[1]) * (double)j / (double)m;
}

static void fall_linearly(int64_t steps, const double *value, double *rates) {
    for (int64_t t = 1; t < steps; t++)
        rates[t] *= value[0] + (1 - value[0]) * ((double)(steps - t) / (double)steps);
}

static void follow_cosine(int64_t steps, const double *value, double *rates) {
    const double floor_ = value[0];
    for (int64_t t = 1; t < steps; t++)
        rates[t] *= fmax(floor_, floor_ + (1 - floor_) * (1 + half_cosine((double)t / (double)(steps - 1))) / 2);
}

static void warm_up(int64_t steps, const double *value, double *rates) {
    const int64_t m = (int64_t)round(value[0] * (double)steps);
    for (int64_t j = 1; j <= m; j++)
        rates[j - 1] *= (double)j / (double)m;
}

static void take_steps(int64_t steps, const double *value, double *rates) {
    const double every = value[0];
    double factor = 1, next = every;
    for (int64_t t = 0; t < steps; t++) {
        if ((double)t >= next) {
            factor *= value[1];
            next += every;
        }
        rates[t] *= factor;
    }
}

static const schedule_row SCHEDULES[] = {
    {"cooldown",
     "FRACTION:FLOOR",
     "cooldown:0.25:0.05",
     2,
     0,
     {{"fraction", CLOSED, 0, 1, 0}, {"floor", OPEN_IN_WORKLOADS, 0, 1, 0}},
     cool_down},
    {"linear", "FLOOR", "linear:0.1", 1, 1, {{"floor", CLOSED, 0, 1, 0}}, fall_linearly},
    {"cosine", "FLOOR", "cosine:0.1", 1, 1, {{"floor", OPEN_IN_WORKLOADS, 0, 1, 0}}, follow_cosine},
    {"warmup", "FRACTION", "warmup:0.05", 1, 0, {{"fraction", CLOSED, 0, 1, 0}}, warm_up},
    {"step",
     "EVERY:FACTOR",
     "step:1000:0.5",
     2,
     0,
     {{"every", CLOSED, 1, 9007199254740992.0, 1}, {"factor", OPEN, 0, 1, 0}},
     take_steps},
};
enum { SCHEDULE_COUNT = sizeof SCHEDULES / sizeof SCHEDULES[0] };

static dpmf_status check_value(const char *what, int inverted, const char *name, const parameter *v, double x) {
    const int open = v->at_low == OPEN || (v->at_low == OPEN_IN_WORKLOADS && inverted);
    if ((open ? x > v->low : x >= v->low) && x <= v->high && (!v->whole || x == floor(x))) return DPMF_OK;
    return base_fail(
        DPMF_ERROR_ARGUMENT, "%s: %s %s = %g, accepted%s %g%s %g%s%s", what, name, v->name, x, open ? ": above" : "",
        v->low, open ? ", up to" : " to", v->high, v->whole ? ", whole" : "",
        v->at_low == OPEN_IN_WORKLOADS && inverted && x == v->low ? " (a learning rate of 0 has no inverse)" : "");
}

/* The row that text[0..length) names, with or without values; NULL: none. */
static const schedule_row *find(const char *text, size_t length) {
    const char *colon = memchr(text, ':', length);
    const size_t name = colon == NULL ? length : (size_t)(colon - text);
    for (int i = 0; i < SCHEDULE_COUNT; i++)
        if (strlen(SCHEDULES[i].name) == name && memcmp(SCHEDULES[i].name, text, name) == 0)
            return colon != NULL || SCHEDULES[i].optional ? &SCHEDULES[i] : NULL;
    return NULL;
}

int base_schedule_knows(const char *text, size_t length) {
    return find(text, length) != NULL;
}

dpmf_status base_schedule_apply(const char *what, int inverted, const char *text, size_t length, int64_t steps,
                                double *factors, char out[BASE_SCHEDULE_TEXT]) {
    const schedule_row *kind = find(text, length);
    const char *end = text + length, *at = memchr(text, ':', length);
    char number[32], shown[64];
    double value[2] = {0};
    int used = snprintf(out, BASE_SCHEDULE_TEXT, "%s", kind->name);
    for (int i = 0; i < kind->values; i++) {
        const parameter *v = &kind->value[i];
        const char *from = at == NULL ? NULL : at + 1, *stop = end;
        if (i + 1 < kind->values) {
            stop = memchr(from, ':', (size_t)(end - from));
            if (stop == NULL)
                return base_fail(DPMF_ERROR_ARGUMENT, "%s: %s needs %s, as in %s", what, kind->name, kind->form,
                                 kind->example);
        }
        value[i] = v->low;
        if (from != NULL && !base_parse_double(from, (size_t)(stop - from), &value[i]))
            return base_fail(DPMF_ERROR_ARGUMENT, "%s: %s %s = '%s', accepted: a number", what, kind->name, v->name,
                             base_show(from, (size_t)(stop - from), shown));
        TRY(check_value(what, inverted, kind->name, v, value[i]));
        base_format_double(value[i], number);
        used += snprintf(out + used, BASE_SCHEDULE_TEXT - (size_t)used, ":%s", number);
        at = stop;
    }
    kind->fill(steps, value, factors);
    return DPMF_OK;
}
