/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the best banded C: workloads, participations and matrices to try. */
#ifndef DPMF_TESTS_OPTIMIZE_BANDED_CASES_H
#define DPMF_TESTS_OPTIMIZE_BANDED_CASES_H

#include "support/check.h"

#include "families/banded/banded.h"

#include <stdlib.h>

static const char *const WORKLOADS[] = {"prefix", "momentum:0.9", "decay:0.05",
                                        "nesterov:0.8,decay:0.01,cooldown:0.5:0.2"};
enum { WORKLOADS_COUNT = sizeof WORKLOADS / sizeof WORKLOADS[0] };

static inline dpmf_workload *workload(const char *text, int64_t n) {
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse(text, n, &a));
    return a;
}

static inline dpmf_participation *participation(const char *text, int64_t n) {
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse(text, n, &p));
    return p;
}

static inline double *numbers(int64_t count) {
    double *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    return x;
}

/* A C whose inverse stays small: a diagonal near 1 and little beside it. */
static inline void random_rows(int64_t n, int64_t bands, uint64_t *seed, double *rows) {
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < bands; j++)
            rows[t * bands + j] = j > t    ? 0
                                  : j == 0 ? 1 + 0.3 * check_random(seed)
                                           : (0.3 + 0.3 * check_random(seed)) / (double)j;
}

/* sum_t p_t q_t. */
static inline double weighted(banded_pass *pass, const double *rows, const double *p, double *squares) {
    double sum = 0;
    assert_true(banded_forward(pass, rows, squares));
    for (int64_t t = 0; t < pass->n; t++)
        sum += p[t] * squares[t];
    return sum;
}

#endif
