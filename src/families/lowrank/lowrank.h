/* SPDX-License-Identifier: Apache-2.0 */
/* Low-rank decoders: the alternating least squares that families/lowrank/optimize.c needs. */
#ifndef DPMF_FAMILIES_LOWRANK_H
#define DPMF_FAMILIES_LOWRANK_H

#include "optimize/optimize.h"
#include "strategy/strategy.h"

/* left[t] . right[u] is to be near target[t,u] wherever t - u >= bands. Rows of `rank` numbers, one for each step. */
typedef struct lowrank_fit {
    int64_t steps, bands, rank;
    const double *target; /* steps x steps */
    double *left, *right;
    double residual; /* root of the sum of squares, over that of the target's part */
    int sweeps;
    int converged;
} lowrank_fit;

static inline int64_t lowrank_smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* Fills left and right, which the caller has made room for. */
DPMF_MUST_CHECK dpmf_status lowrank_solve(lowrank_fit *fit, const dpmf_run *run);

DPMF_MUST_CHECK dpmf_status lowrank_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status lowrank_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status lowrank_candidates(dpmf_design *d);

#endif
