/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Learning-rate schedules by name, as factors over n steps, t = 0..n-1:
 *
 *     cooldown F, L   with m = round(F n): 1 before the last m steps, then 1 - (1-L) j/m for j = 1..m
 *     cosine L        L + (1-L) (1 + cos(pi t/(n-1)))/2: from 1 to L
 *     warmup F        with m = round(F n): j/m for j = 1..m, then 1
 *     step E, G       G^floor(t/E)
 *
 * A mechanism file holds both the text and the numbers and its reader compares them bit by bit, so that nothing here may
 * depend on a machine's mathematical library: additions, products and quotients only.
 */
#include "workload/schedule.h"

#include <math.h>

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

static const workload_schedule SCHEDULES[] = {
    {"cooldown",
     "FRACTION:FLOOR",
     "cooldown:0.25:0.05",
     2,
     {{"fraction", 0, 0, 1, 0}, {"floor", 1, 0, 1, 0}},
     cool_down},
    {"cosine", "FLOOR", "cosine:0.1", 1, {{"floor", 1, 0, 1, 0}}, follow_cosine},
    {"warmup", "FRACTION", "warmup:0.05", 1, {{"fraction", 0, 0, 1, 0}}, warm_up},
    {"step",
     "EVERY:FACTOR",
     "step:1000:0.5",
     2,
     {{"every", 0, 1, 9007199254740992.0, 1}, {"factor", 1, 0, 1, 0}},
     take_steps},
};

int64_t workload_schedule_count(void) {
    return (int64_t)(sizeof SCHEDULES / sizeof SCHEDULES[0]);
}

const workload_schedule *workload_schedule_at(int64_t i) {
    return i >= 0 && i < workload_schedule_count() ? &SCHEDULES[i] : NULL;
}
