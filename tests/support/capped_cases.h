/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capped sampling of tiny data sets, by all outcomes: every set that may be drawn, every choice of those kept, numerical integration
 * over what is released. For test_capped.c and test_capped_long.c.
 */
#ifndef DPMF_TESTS_SUPPORT_CAPPED_CASES_H
#define DPMF_TESTS_SUPPORT_CAPPED_CASES_H

#include "account/capped/capped.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

enum { UNITS_MAX = 8, SUMS = 2 * UNITS_MAX + 1, POINTS = 1600, EVERY = 8 };

/* Weights of the sums of those who take part, values[0..n) in {-1, 0, 1}, over all draws and all choices of M of them. */
static inline void draw(int n, const int *values, double q, int cap, double weights[SUMS]) {
    memset(weights, 0, sizeof(double) * SUMS);
    for (unsigned drawn = 0; drawn < 1u << n; drawn++) {
        const int count = __builtin_popcount(drawn);
        const double chance = pow(q, count) * pow(1 - q, n - count);
        int kept_sets = 0;
        for (unsigned kept = drawn;; kept = (kept - 1) & drawn) {
            kept_sets += __builtin_popcount(kept) == (count < cap ? count : cap);
            if (kept == 0) break;
        }
        for (unsigned kept = drawn;; kept = (kept - 1) & drawn) {
            if (__builtin_popcount(kept) == (count < cap ? count : cap)) {
                int sum = 0;
                for (int i = 0; i < n; i++)
                    sum += kept >> i & 1 ? values[i] : 0;
                weights[sum + UNITS_MAX] += chance / kept_sets;
            }
            if (kept == 0) break;
        }
    }
}

typedef struct density {
    double at[POINTS];
} density;

static inline double width_of(double sigma) {
    return 2 * (UNITS_MAX + 6 * sigma) / POINTS;
}

static inline void density_of(const double weights[SUMS], double sigma, density *out) {
    for (int i = 0; i < POINTS; i++) {
        const double y = -(UNITS_MAX + 6 * sigma) + (i + 0.5) * width_of(sigma);
        out->at[i] = 0;
        for (int s = 0; s < SUMS; s++)
            out->at[i] += weights[s] * exp(-0.5 * (y - s + UNITS_MAX) * (y - s + UNITS_MAX) / (sigma * sigma)) /
                          (sigma * 2.5066282746310002);
    }
}

static inline double delta_once(const density *p, const density *q, double a, double width) {
    double sum = 0;
    for (int i = 0; i < POINTS; i++)
        sum += fmax(p->at[i] - a * q->at[i], 0) * width;
    return sum;
}

/* Every EVERY-th point: the edge of the set is then blurred by about 1e-3 of delta. */
static inline double delta_twice(const density *p, const density *q, double a, double width) {
    double sum = 0;
    for (int i = EVERY / 2; i < POINTS; i += EVERY)
        for (int j = EVERY / 2; j < POINTS; j += EVERY)
            sum += fmax(p->at[i] * p->at[j] - a * q->at[i] * q->at[j], 0);
    return sum * EVERY * EVERY * width * width;
}

/* The two worlds, the unit's value 1: in the other it is 0, absent, or -1. */
static inline void worlds(int n, int minus, int plus, double q, int cap, double sigma, dpmf_adjacency adjacency,
                          density *with, density *without) {
    int values[UNITS_MAX] = {0};
    double weights[SUMS];
    for (int i = 0; i < n - 1; i++)
        values[i] = i < minus ? -1 : i < minus + plus ? 1 : 0;
    values[n - 1] = 1;
    draw(n, values, q, cap, weights);
    density_of(weights, sigma, with);
    values[n - 1] = adjacency == DPMF_ADJACENCY_REPLACE_ONE ? -1 : 0;
    draw(adjacency == DPMF_ADJACENCY_ADD_REMOVE ? n - 1 : n, values, q, cap, weights);
    density_of(weights, sigma, without);
}

/* One step, and where `composed` two of them, against every way in which the other units may weigh in. */
static inline void check_capped_case(int n, int cap, double q, double sigma, dpmf_adjacency adjacency, double epsilon,
                                     int composed) {
    capped_scheme s;
    capped_make(q, sigma, cap, n, adjacency, &s);
    const double a = exp(epsilon), width = width_of(sigma);
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy twice;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.adjacency = adjacency;
    o.compositions = 2;
    o.batch_cap = cap;
    o.units = n;
    o.slack = 0.02;
    check_ok(dpmf_account_delta(sigma, epsilon, &o, &twice));
    for (int minus = 0; minus < n; minus++)
        for (int plus = 0; minus + plus < n; plus += minus == 0 ? 1 : n) { /* mixed signs of the others do less harm */
            density with, without;
            worlds(n, minus, plus, q, cap, sigma, adjacency, &with, &without);
            const double remove = delta_once(&with, &without, a, width), add = delta_once(&without, &with, a, width);
            assert_true(capped_curve(&s, 0, a - 1) >= remove - 2e-5);
            assert_true(capped_curve(&s, 1, a - 1) >= add - 2e-5);
            if (!composed) continue;
            assert_true(twice.delta >= 0.998 * delta_twice(&with, &without, a, width) - 1e-5);
            assert_true(twice.delta >= 0.998 * delta_twice(&without, &with, a, width) - 1e-5);
        }
}

#endif
