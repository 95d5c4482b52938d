/* SPDX-License-Identifier: Apache-2.0 */
/*
 * k of t steps, and several epochs, as a list of pairs.
 *
 * k of t: split the t steps at random into k blocks, sizes as equal as may be, and pick one step of each: a k-set that
 * is uniform, since every permutation of the steps leaves the law of both choices as it is. Revealing the split, which
 * does not depend on the unit, can only add to delta (joint convexity); given it the blocks are independent, each one
 * of t/k steps, and compose.
 *
 * A curve that is known at the points e^(i g) only, from above, is made into a pair on a grid by its lower convex hull
 * (account/grid/hull.c). Epochs with choices of their own compose too.
 */
#include "account/allocation/allocation.h"

#include "account/grid/curves.h"
#include "base/memory.h"
#include <math.h>

/* With fewer bins at more noise one grid is nearer, and not long (account/allocation/scales.c). */
enum { BINS_MIN = 8 };
static const double SIGMA_SMALL = 0.7;
static const double FINENESS = 0.03, SPARE = 0.01; /* a law serves smaller masses of later calls, too */

/* Uses one law of the sum for all points; where there is none, it works point by point. */
static dpmf_status fill(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out) {
    const allocation_block *b = of;
    allocation_scheme told = b->scheme;
    double *epsilons = NULL;
    if (told.bins == 1) {
        for (int64_t i = 0; i < count; i++)
            out[i] = grid_hockey(1 / told.sigma, exp((double)i * step));
        return DPMF_OK;
    }
    const int is_wide = told.bins >= BINS_MIN || told.sigma < SIGMA_SMALL;
    if (is_wide && !(b->scales->least > 0 && b->scales->least <= mass)) {
        allocation_scales_free(b->scales);
        TRY(allocation_scales_create(told.sigma, told.bins, SPARE * mass, 0.5 * told.fineness, run, b->scales));
    }
    if (b->scales->count > 0) {
        allocation_scales_curve(b->scales, reversed, count, step, out);
        return DPMF_OK;
    }
    told.least = mass;
    TRY(base_alloc_doubles(count, "the points of a curve", &epsilons));
    for (int64_t i = 0; i < count; i++)
        epsilons[i] = (double)i * step;
    const dpmf_status status = allocation_curve(&told, reversed, count, epsilons, run, out);
    base_free(epsilons);
    return status;
}

/*
 * The mean of t ratios has the variance (e^(mu^2) - 1)/t: about a Gaussian of that mu; upwards one large ratio may reach
 * further, about as far as Poisson sampling of the same rate.
 */
static double reach(const void *of, int reversed, double mass) {
    const allocation_scheme *s = &((const allocation_block *)of)->scheme;
    const double q = 1 / (double)s->bins, mu = 1 / s->sigma;
    if (s->bins == 1) return account_gaussian_epsilon(mu, log(mass));
    const double spread = sqrt(expm1(fmin(mu * mu, 600)) * q), near = account_gaussian_epsilon(spread, log(mass));
    const double far = grid_poisson_reach(q, mu, 0, fmin(mass, 0.5 * q));
    return reversed ? fmin(near, account_gaussian_epsilon(mu, log(mass))) : fmax(near, far);
}

dpmf_status allocation_blocks_create(const account_question *q, allocation_blocks *out) {
    const int64_t size = q->bins / q->picks, larger = q->bins % q->picks;
    const int64_t times[] = {q->picks - larger, larger};
    allocation_scales *scales = NULL;
    TRY(base_alloc(ALLOCATION_PARTS, sizeof *scales, "the sums of an allocation", (void **)&scales));
    *out = (allocation_blocks){.scales = scales};
    for (int i = 0; i < ALLOCATION_PARTS; i++) {
        if (times[i] == 0) continue;
        allocation_block *block = &out->blocks[out->count];
        block->scheme = (allocation_scheme){.sigma = q->sigma, .bins = size + i, .fineness = FINENESS};
        block->scales = &scales[out->count];
        out->parts[out->count++] = (grid_part){block, fill, reach, times[i] * q->compositions};
    }
    return DPMF_OK;
}

void allocation_blocks_free(allocation_blocks *b) {
    for (int i = 0; b->scales != NULL && i < b->count; i++)
        allocation_scales_free(&b->scales[i]);
    base_free(b->scales);
    *b = (allocation_blocks){0};
}
