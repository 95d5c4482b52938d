/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise of a BLT, for the route of few buffers (noise/states.c): y = z - sum_j scale_j m_j, m_j <- (m_j - gap_j m_j) + y.
 *
 * The arithmetic of its exact rows (docs/exactness.md): s_j <- (s_j - gap s_j) + m/f has five roundings of at most eps B per
 * step, B = 41 x 2 E, so that s_j is off by at most 5 eps B min(n, 1/gap_j). E = max |rows of (prefix sums) W|: both m_t and
 * s_j are sums by parts of running sums, with weights of total 2.
 */
#include "families/blt/blt.h"

#include <math.h>

static void fill_weights(const noise_stream *s, int64_t t, double factor, void *weight) {
    const blt_parameters *c = blt_of(s->plan.leaf);
    (void)t;
    for (int j = 0; j < c->count; j++) {
        noise_put(s, weight, j, c->scale[j]);
        noise_put(s, weight, c->count + j, c->gap[j]);
    }
    noise_put(s, weight, 2 * c->count, factor);
    if (s->plan.exact > 0) noise_put(s, weight, 2 * c->count + 1, 1 / factor);
}

static dpmf_status bound_arithmetic(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const blt_parameters *c = blt_of(plan->leaf);
    double sums = 0, largest = 0, squares = 0, eta = 0;
    TRY(noise_bound_running_sums(plan->leaf, run, &sums));
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const double factor = fabs(noise_route_factor(plan, t));
        largest = noise_larger(largest, factor);
        squares += 1 / (factor * factor);
    }
    const double size = NOISE_TAILS * 2 * sums;
    for (int j = 0; j < c->count; j++) {
        if (!(c->gap[j] <= 1))
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "exact noise of a BLT: decay %g, accepted: 0 to 1 (its buffers' size is not known)",
                             1 - c->gap[j]);
        eta += fabs(c->scale[j]) * (5 * fmin((double)plan->length, 1 / c->gap[j]) + c->count + 3);
    }
    *out = (noise_exact_bounds){largest * eta * NOISE_EPS * size, largest * size, sqrt(squares)};
    return DPMF_OK;
}

void blt_plan_noise(noise_plan *plan) {
    const noise_states states = {DPMF_RECIPE_BLT, (int)dpmf_strategy_buffers(plan->leaf), fill_weights};
    noise_plan_states(plan, &states);
    plan->bound = bound_arithmetic;
}
