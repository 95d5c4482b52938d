/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proven bounds on the arithmetic of exact streams (docs/exactness.md, "The arithmetic's part"). Notation: eps = 2^-53;
 * seeds have standard deviation 1; no number of a run exceeds TAILS = 41 standard deviations except with a probability of
 * 2^-1000 (40 of them are for the seeds and one is for the rounding to the grid).
 *
 *     banded    the sum of b - 1 products in order: (b + 3) eps B sum |C[t,u]/C[t,t]|
 *     filters   (terms + 4) eps TAILS sum |W[t,u]|
 *
 * The shift's error. Where C is applied to what was released (fed back), the error of a step is one grid step and twice the
 * arithmetic, times C[t,t]: spread = (sum C[t,t]^2)^(1/2). Where W is applied to seeds (filters, replayed), the shift is
 * C Delta + C e with |e| that much each: spread = sqrt(n) |C|_F <= n x the largest column of C.
 */
#include "noise/plan.h"

#include "base/memory.h"
#include "error/error.h"
#include "sensitivity/sensitivity.h"

#include <math.h>

static const double EPS = NOISE_EPS, TAILS = NOISE_TAILS;

/* E: the largest error of running sums of the strategy's rows. */
dpmf_status noise_bound_running_sums(const dpmf_strategy *s, const dpmf_run *run, double *out) {
    dpmf_workload *prefix = NULL;
    double *per_step = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_workload_parse("prefix", s->steps, &prefix));
    TRY_DONE(base_alloc_doubles(s->steps, "the sizes of running sums", &per_step));
    TRY_DONE(dpmf_error_compute(prefix, s, run, per_step));
    *out = 0;
    for (int64_t t = 0; t < s->steps; t++)
        *out = noise_larger(*out, per_step[t]);
done:
    base_free(per_step);
    dpmf_workload_free(prefix);
    return status;
}

dpmf_status noise_bound_feedback(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const dpmf_strategy *c = plan->strategy;
    double sums = 0, worst = 0, squares = 0, *row = NULL;
    TRY(noise_bound_running_sums(c, run, &sums));
    TRY(base_alloc_doubles(plan->lags + 1, "a row of C", &row));
    for (int64_t t = 0; t < c->steps; t++) {
        double total = 0;
        c->ops->row(c, t, row);
        for (int64_t j = 1; j <= plan->lags && j <= t % plan->length; j++)
            total += fabs(row[j] / row[0]);
        worst = noise_larger(worst, total);
        squares += row[0] * row[0];
    }
    base_free(row);
    const double size = TAILS * 2 * sums;
    *out = (noise_exact_bounds){worst * (double)(plan->lags + 4) * EPS * size, size, sqrt(squares)};
    return DPMF_OK;
}

dpmf_status noise_bound_forward_spread(const noise_plan *plan, const dpmf_run *run, double *spread) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity column;
    if (run != NULL) o.run = *run;
    TRY(dpmf_sensitivity_compute(plan->strategy, NULL, &o, &column));
    *spread = (double)plan->strategy->steps * column.value;
    return DPMF_OK;
}

dpmf_status noise_bound_filter(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const dpmf_strategy *c = plan->strategy;
    double sums = 0, total = 0, *row = NULL;
    TRY(noise_bound_running_sums(c, run, &sums));
    const int constant = plan->leaf->ops->is_toeplitz; /* rows of one sequence */
    const int by_rows = strategy_can(c, STRATEGY_CAN_INVERSE_ROW) && c->ops->inverse_row != NULL &&
                        c->steps < ((int64_t)1 << 31) / plan->lags;
    if (constant && strategy_can(plan->leaf, STRATEGY_CAN_INVERSE_ROW)) {
        double largest = 0;
        TRY(base_alloc_doubles(plan->lags, "a row of W", &row));
        plan->leaf->ops->inverse_row(plan->leaf, plan->length - 1, row);
        for (int64_t j = 0; j < plan->lags; j++)
            total += fabs(row[j]);
        for (int64_t t = 0; t < c->steps; t++)
            largest = noise_larger(largest, fabs(noise_route_factor(plan, t)));
        total *= largest;
        base_free(row);
    } else if (by_rows) {
        TRY(base_alloc_doubles(plan->lags, "a row of W", &row));
        for (int64_t t = 0; t < c->steps; t++) {
            double here = 0;
            c->ops->inverse_row(c, t, row);
            for (int64_t j = 0; j < plan->lags && j <= t % plan->length; j++)
                here += fabs(row[j]);
            total = noise_larger(total, here);
        }
        base_free(row);
    } else {
        total = sqrt((double)plan->lags) * 2 * sums; /* |W[t,:]| <= 2 E */
    }
    out->arithmetic = (double)(plan->lags + 4) * EPS * TAILS * total;
    out->reach = TAILS * 2 * sums;
    return noise_bound_forward_spread(plan, run, &out->spread);
}

dpmf_status noise_bound_own(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const dpmf_strategy *c = plan->strategy;
    (void)run;
    *out = (noise_exact_bounds){.reach = TAILS}; /* independent noise: a row is its seed, and nothing is rounded */
    for (int64_t t = 0; t < c->steps; t++) {
        double own = 0;
        if (strategy_can(c, STRATEGY_CAN_INVERSE_ROW) && c->ops->inverse_bands(c) == 1) {
            c->ops->inverse_row(c, t, &own);
        } else {
            c->ops->row(c, t, &own);
            own = 1 / own;
        }
        out->reach = noise_larger(out->reach, TAILS * fabs(own));
    }
    return DPMF_OK;
}
