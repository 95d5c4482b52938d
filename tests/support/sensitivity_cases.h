/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies for the tests of the sensitivity, and its calls with the participation as text. */
#ifndef DPMF_TESTS_SENSITIVITY_CASES_H
#define DPMF_TESTS_SENSITIVITY_CASES_H

#include "support/check.h"

#include <stdlib.h>
#include <string.h>

static inline dpmf_strategy *family(const char *name, int64_t steps, int64_t stamps, int normalize) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.stamps = stamps;
    o.column_normalize = normalize;
    check_ok(dpmf_workload_parse("prefix", steps, &a));
    check_ok(dpmf_strategy_create(name, a, &o, &s));
    dpmf_workload_free(a);
    return s;
}

static inline dpmf_strategy *dense(int64_t n, const double *matrix) {
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create_dense(n, matrix, &s));
    return s;
}

/* Lower triangular with entries of either sign, but a large diagonal: `bands` of them, all if 0. */
static inline dpmf_strategy *random_dense(int64_t n, int64_t bands, uint64_t seed) {
    double *matrix = calloc((size_t)(n * n), sizeof *matrix);
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t; u++)
            if (bands == 0 || t - u < bands) matrix[t * n + u] = check_random(&seed) + (t == u ? 2 : 0);
    dpmf_strategy *s = dense(n, matrix);
    free(matrix);
    return s;
}

static inline dpmf_sensitivity compute_with(const dpmf_strategy *s, const char *participation,
                                            dpmf_evaluate_options o) {
    dpmf_participation *p = NULL;
    dpmf_sensitivity found = {0};
    check_ok(dpmf_participation_parse(participation, dpmf_strategy_get(s).steps, &p));
    check_ok(dpmf_sensitivity_compute(s, p, &o, &found));
    dpmf_participation_free(p);
    return found;
}

static inline dpmf_sensitivity compute(const dpmf_strategy *s, const char *participation,
                                       dpmf_sensitivity_bound bound) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.sensitivity = bound;
    return compute_with(s, participation, o);
}

static inline dpmf_status status_of(const dpmf_strategy *s, const char *participation, dpmf_evaluate_options o) {
    dpmf_participation *p = NULL;
    dpmf_sensitivity found = {-7, DPMF_ESTIMATE, DPMF_SENSITIVITY_COLUMN, NULL, 0};
    check_ok(dpmf_participation_parse(participation, dpmf_strategy_get(s).steps, &p));
    dpmf_status status = dpmf_sensitivity_compute(s, p, &o, &found);
    dpmf_participation_free(p);
    assert_true((found.value == -7) == (status != DPMF_OK)); /* unchanged on failure */
    return status;
}

/* A user's operator: a moving sum of `count` terms with weights c. */
typedef struct filter {
    int64_t count;
    double c[40];
} filter;

static inline void filter_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    const filter *f = context;
    int64_t kept = f->count - 1;
    for (int64_t i = 0; i < count; i++)
        y[i] = f->c[0] * x[i];
    for (int64_t j = 1; j <= kept && j <= t; j++)
        for (int64_t i = 0; i < count; i++)
            y[i] += f->c[j] * state[(t - j) % kept * count + i];
    if (kept > 0) memcpy(state + t % kept * count, x, (size_t)count * sizeof *x);
}

#endif
