/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower-triangular form of any factorization (Denisov et al. 2022, Proposition 2.2). With W = L Q, L lower
 * triangular and Q of orthonormal rows, the noise W Z has the law of L Z' with Z' = Q Z again white, and C' = L^-1 = Q
 * C is square and lower triangular. It makes the same errors, and its sensitivity is no larger since Q only projects.
 * It also shows that every mechanism here is private under adaptive inputs, however its own seeds run.
 */
#include "base/linalg.h"
#include "base/lower.h"
#include "base/memory.h"
#include "strategy/strategy.h"

#include <string.h>

/* Column j is the answer to the unit vector j. */
dpmf_status strategy_left_inverse(const dpmf_strategy *s, double *w) {
    int64_t n = s->steps, rows = dpmf_strategy_rows(s);
    double *unit = NULL, *column = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(rows, "a unit vector", &unit));
    TRY_DONE(base_alloc_doubles(n, "a column", &column));
    for (int64_t j = 0; j < rows; j++) {
        unit[j] = 1;
        TRY_DONE(dpmf_strategy_solve(s, unit, column));
        unit[j] = 0;
        for (int64_t t = 0; t < n; t++)
            w[t * rows + j] = column[t];
    }
done:
    base_free(unit);
    base_free(column);
    return status;
}

dpmf_status dpmf_strategy_create_triangular(const dpmf_strategy *strategy, dpmf_strategy **out) {
    double *w = NULL, *lower = NULL;
    dpmf_status status = DPMF_OK;
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "strategy: NULL");
    int64_t n = strategy->steps, rows = dpmf_strategy_rows(strategy);
    if (n > DPMF_TRIANGULAR_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "triangular form: %lld steps, accepted up to %d (it is dense)",
                         (long long)n, DPMF_TRIANGULAR_STEPS_MAX);
    TRY_DONE(base_alloc_doubles(n * rows, "the left inverse", &w));
    TRY_DONE(strategy_left_inverse(strategy, w));
    TRY_DONE(base_alloc_square(n, "the triangular factor", &lower));
    TRY_DONE(base_lq(n, rows, w, lower));
    TRY_DONE(base_lower_invert(n, lower));
    TRY_DONE(strategy_create_matrix(n, lower, out));
done:
    base_free(w);
    base_free(lower);
    return status;
}
