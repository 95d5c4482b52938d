/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taps: W = C^-1 has few entries in a row, at the same distances before every step,
 *
 *     y_t = sum_i w_i(t) z_{t - lag_i},    0 = lag_0 < lag_1 < ...,  w_0(t) != 0
 *
 * so that the noise stream keeps nothing: seeds are functions of (key, step, coordinate), and a row makes again the ones that it
 * takes. A number of a row costs as many normal numbers as there are taps. Lags near the period of the participation take the
 * seeds of the same unit's earlier steps.
 */
#ifndef DPMF_FAMILIES_TAPS_H
#define DPMF_FAMILIES_TAPS_H

#include "base/minimize.h"
#include "optimize/optimize.h"
#include "strategy/strategy.h"

enum { TAPS_MAX = 64 };

/* `weight`: `rows` lines of `taps` numbers; rows is 1 (the same at every step) or the number of steps. Lags are below the steps. */
DPMF_MUST_CHECK dpmf_status taps_create(int64_t steps, int64_t taps, const int64_t *lag, int64_t rows,
                                        const double *weight, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status taps_read(const strategy_source *source, dpmf_strategy **out);

/* ---- search.c, tune.c, optimize.c ---- */

/* The problem that both searches are for: cyclic participation (one: b = n) and the RMS loss of any workload. */
typedef struct taps_problem {
    const dpmf_workload *workload;
    int64_t n, b, k;       /* steps, period, participations */
    const double *weights; /* of the steps; NULL: all ones */
    const dpmf_run *run;
    double *gram; /* n x n: A' diag(weights) A / n; NULL: not made */
} taps_problem;

/* The same weights at every step: chooses the lags, lag[0] = 0, and the weights, `taps` numbers each. *loss is above the true one. */
DPMF_MUST_CHECK dpmf_status taps_choose(const taps_problem *p, int64_t taps, int64_t *lag, double *weight, double *loss,
                                        int *iterations);

enum { TAPS_TUNED_STEPS = 2048 }; /* an evaluation takes O(n^2 (taps + k)) */

/* Weights for every step, n x taps, from those that are the same for all. `gram` must be there. */
DPMF_MUST_CHECK dpmf_status taps_tune(const taps_problem *p, int64_t taps, const int64_t *lag, const double *start,
                                      double *weight, double *loss, base_minimum *found);

/* log of the loss and its gradient by the unknowns that taps_tune descends on: `count` of them; for the tests. */
DPMF_MUST_CHECK dpmf_status taps_tune_value(const taps_problem *p, int64_t taps, const int64_t *lag, int64_t *count,
                                            const double *x, double *f, double *gradient);

DPMF_MUST_CHECK dpmf_status taps_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status taps_candidates(dpmf_design *d);

#endif
