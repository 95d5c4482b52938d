/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified epsilon and delta of random allocation: each unit in exactly k of t steps of independent noise, chosen at
 * random, once or freshly in every epoch.
 *
 * One of t, once: the two curves themselves (account/allocation/curve.c), which are known from above and from below; epsilon is
 * where the larger of the bounds from above falls to delta. That the slack holds is itself proven, by the bounds from below
 * a slack lower; if they do not show it, the grid is halved. Everything else is a list of such pairs (below),
 * composed in account/grid/grid.c.
 *
 * A random choice of steps is never worse than a known one: the Gaussian mechanism with mu = sqrt(k epochs)/sigma
 * always bounds it, and the caller takes the smaller.
 */
#include "account/allocation/allocation.h"

#include "account/grid/grid.h"
#include "base/memory.h"

#include <math.h>

enum { REFINEMENTS = 4, SEARCH_MAX = 60 };
static const double COARSE = 0.02; /* slack that costs little, and shows in most cases which direction is the worse */
static const double LEAST = 1e-3;  /* part of delta that the cuts of a law may reach */
static const double SCALES_FINENESS = 0.02;

/* Where sigma is small, few large ratios carry everything, and a coarse grid is as good. */
static double first_fineness(double sigma) {
    return sigma < 0.6 ? 0.4 : 0.05;
}

static dpmf_status log_value(const account_question *q, int add, int lower, double fineness, double log_least,
                             double epsilon, double *out) {
    const allocation_scheme s = {
        .sigma = q->sigma, .bins = q->bins, .least = exp(log_least), .fineness = fineness, .lower = lower};
    double value = 0;
    TRY(allocation_curve(&s, add, 1, &epsilon, q->run, &value));
    *out = value > 0 ? log(value) : -INFINITY;
    return DPMF_OK;
}

/* Finds the least epsilon in [0, high] where the bound is at most delta (high: none), with `low` as a guess from below. */
static dpmf_status solve(const account_question *q, int add, double fineness, double log_delta, double low, double high,
                         double tolerance, double *out) {
    double above = 0, below = 0, y = 0, weight_low, weight_high;
    TRY(log_value(q, add, 0, fineness, log_delta, low, &above));
    *out = low;
    if (above <= log_delta && low == 0) return DPMF_OK;
    *out = high;
    if (above <= log_delta) {
        high = low;
        low = 0;
        below = above;
        TRY(log_value(q, add, 0, fineness, log_delta, low, &above));
        *out = above <= log_delta ? low : high;
        if (above <= log_delta) return DPMF_OK;
    } else {
        TRY(log_value(q, add, 0, fineness, log_delta, high, &below));
        if (!(below <= log_delta)) return DPMF_OK;
    }
    weight_low = above - log_delta;
    weight_high = fmax(below - log_delta, -200);
    for (int i = 0; i < SEARCH_MAX && high - low > tolerance; i++) {
        double x = low + (high - low) * weight_low / (weight_low - weight_high), margin = 0.02 * (high - low);
        x = fmin(fmax(x, low + margin), high - margin);
        if (i % 4 == 3) x = 0.5 * (low + high);
        TRY(log_value(q, add, 0, fineness, log_delta, x, &y));
        const double excess = fmax(y - log_delta, -200);
        if (excess > 0) {
            low = x;
            weight_low = excess;
            weight_high *= 0.5;
        } else {
            high = x;
            weight_high = excess;
            weight_low *= 0.5;
            if (excess > -1e-6) break;
        }
    }
    *out = high;
    return DPMF_OK;
}

/* Is it proven that a slack below epsilon the larger curve is still at least delta? */
static dpmf_status is_proven(const account_question *q, double fineness, double log_delta, double epsilon, double slack,
                             int *met) {
    double log_lower = -INFINITY;
    *met = epsilon <= slack;
    for (int add = 0; add < 2 && !*met; add++) {
        TRY(log_value(q, add, 1, 0.5 * fineness, log_delta, epsilon - slack, &log_lower));
        *met = log_lower >= log_delta;
    }
    return DPMF_OK;
}

/* With few bins at more noise one grid is nearer, and not long (account/allocation/measure.c). */
enum { MANY = 64 };
static int is_wide(const account_question *q) {
    return q->bins >= MANY || q->sigma < 0.7;
}

static double log_larger(const allocation_scales *scales, double epsilon) {
    double values[2], larger = 0;
    for (int add = 0; add < 2; add++) {
        allocation_scales_curve(scales, add, 2, epsilon, values);
        larger = fmax(larger, values[1]);
    }
    return log(larger);
}

/* Finds epsilon by the law of the sum on several scales, which is made once; `most` where there is none. */
static dpmf_status scaled_epsilon(const account_question *q, double log_delta, double most, double *out) {
    allocation_scales scales;
    double low = 0, high = most;
    *out = most;
    if (!is_wide(q)) return DPMF_OK;
    TRY(allocation_scales_create(q->sigma, q->bins, LEAST * exp(log_delta), SCALES_FINENESS, q->run, &scales));
    if (scales.count > 0 && log_larger(&scales, 0) <= log_delta) high = 0;
    if (scales.count > 0 && log_larger(&scales, high) <= log_delta)
        while (high - low > 1e-7 * high) {
            const double middle = 0.5 * (low + high);
            *(log_larger(&scales, middle) <= log_delta ? &high : &low) = middle;
        }
    *out = high;
    allocation_scales_free(&scales);
    return DPMF_OK;
}

static dpmf_status single_epsilon(const account_question *q, double *epsilon, int *met) {
    const double log_delta = q->given;
    const double most = account_gaussian_epsilon(1 / q->sigma, log_delta);
    double found = most, low = 0, fineness = first_fineness(q->sigma);
    TRY(scaled_epsilon(q, log_delta, most, &found));
    TRY(is_proven(q, fineness, log_delta, found, account_slack(q, found), met));
    for (int i = 0; i < REFINEMENTS && !*met; i++, fineness *= 0.5) {
        double slack = account_slack(q, found), at = 0, also = 0;
        TRY(solve(q, 0, fineness, log_delta, low, found, 0.1 * slack, &at));
        TRY(log_value(q, 1, 0, fineness, log_delta, at, &also));
        if (also > log_delta) TRY(solve(q, 1, fineness, log_delta, at, found, 0.1 * slack, &at));
        found = fmin(found, at);
        slack = account_slack(q, found);
        TRY(is_proven(q, fineness, log_delta, found, slack, met));
        low = fmax(0.97 * found - slack, 0);
    }
    *epsilon = found;
    return DPMF_OK;
}

/* The larger of both curves on one grid, whose cuts are made for `guess`, of ln delta. */
static dpmf_status log_larger_curve(const account_question *q, double guess, double *out) {
    double found[2];
    for (int add = 0; add < 2; add++)
        TRY(log_value(q, add, 0, 0.5 * first_fineness(q->sigma), guess, q->given, &found[add]));
    *out = fmax(found[0], found[1]);
    return DPMF_OK;
}

/*
 * Answers for one pick, once, in both directions. `guess`, of ln delta, is where the cuts are made: the Gaussian value minus twice
 * the gain from sampling, then lower as long as the answer is. S is at least U_1, so that delta is at least E[(U_1 - t
 * a)_+]/t, the Gaussian value at epsilon + ln t over t: cuts for less than that only make the grid coarser. Every round is a
 * bound, and the least is the answer. Of few bins the scales can end far above the curves, at little noise by a factor of 2;
 * of many they do not, and the curves, which take long, are asked only where the slack is not proven.
 */
static dpmf_status single_log_delta(const account_question *q, double *log_delta, int *met) {
    enum { ROUNDS = 4 }; /* until what the cuts may cost is little */
    const double epsilon = q->given, log_bins = log((double)q->bins), fineness = 0.5 * first_fineness(q->sigma);
    const double least = fmax(account_gaussian_log_delta(1 / q->sigma, epsilon + log_bins) - log_bins, -600);
    double guess = fmax(account_gaussian_log_delta(1 / q->sigma, epsilon) - 2 * log_bins, least);
    allocation_scales scales = {0};
    double larger = INFINITY, curves = INFINITY;
    for (int i = 0; i < ROUNDS; i++, guess = fmax(2 * guess, least)) {
        if (is_wide(q))
            TRY(allocation_scales_create(q->sigma, q->bins, LEAST * exp(guess), SCALES_FINENESS, q->run, &scales));
        const int made = scales.count > 0;
        if (made) larger = fmin(larger, log_larger(&scales, epsilon));
        allocation_scales_free(&scales);
        if (!made || q->bins < MANY) TRY(log_larger_curve(q, guess, &curves));
        larger = fmin(larger, curves);
        if (larger > guess - 2 || guess <= least) break;
    }
    *met = 1;
    /* A coarse result only guides a search, which does not use `met`. */
    if (larger > -600 && q->relative < COARSE) {
        TRY(is_proven(q, fineness, larger, epsilon, account_slack(q, epsilon), met));
        if (!*met && isinf(curves)) {
            TRY(log_larger_curve(q, guess, &curves));
            larger = fmin(larger, curves);
            TRY(is_proven(q, fineness, larger, epsilon, account_slack(q, epsilon), met));
        }
    }
    *log_delta = larger;
    return DPMF_OK;
}

/* Adding a unit, usually the better direction, is computed finely only where a coarse bound does not settle it. */
static dpmf_status answer_blocks(const account_question *q, account_answer *out) {
    const double relative[] = {q->relative, fmax(COARSE, q->relative), q->relative};
    account_question at = *q;
    allocation_blocks blocks;
    dpmf_status status = DPMF_OK;
    out->value = account_least(q);
    TRY(allocation_blocks_create(q, &blocks));
    for (int i = 0; i < 3; i++) {
        account_answer found;
        at.relative = relative[i];
        const grid_source source = {
            .count = blocks.count, .reversed = i > 0, .parts = blocks.parts, .enough = q->of_epsilon ? 0 : out->value};
        TRY_DONE(grid_answer(&source, &at, &found));
        if (i == 1 && found.value > out->value) continue;
        if (found.value >= out->value) out->met = found.met;
        out->value = fmax(out->value, found.value);
        if (i == 1) break;
    }
done:
    allocation_blocks_free(&blocks);
    return status;
}

dpmf_status allocation_answer(const account_question *q, account_answer *out) {
    out->met = 1;
    if (q->picks > 1 || q->compositions > 1)
        TRY(answer_blocks(q, out));
    else
        TRY(q->of_epsilon ? single_epsilon(q, &out->value, &out->met) : single_log_delta(q, &out->value, &out->met));
    out->value = fmin(out->value, account_worst(q));
    return DPMF_OK;
}

/*
 * ---- k of t and epochs as lists of pairs ----
 *
 * k of t: split the t steps at random into k blocks, sizes as equal as may be, and pick one step of each: a k-set that
 * is uniform, since every permutation of the steps leaves the law of both choices as it is. Revealing the split, which
 * does not depend on the unit, can only add to delta (joint convexity); given it the blocks are independent, each one
 * of t/k steps, and compose.
 *
 * A curve that is known at the points e^(i g) only, from above, is made into a pair on a grid by its lower convex hull
 * (account/grid/atoms.c). Epochs with choices of their own compose too.
 */

/* With fewer bins at more noise one grid is nearer, and not long (account/allocation/measure.c). */
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
    if ((told.bins >= BINS_MIN || told.sigma < SIGMA_SMALL) && !(b->scales->least > 0 && b->scales->least <= mass)) {
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

/* About a Gaussian of variance (e^(mu^2) - 1)/t, as the mean of t ratios has; upwards one may reach as far as under Poisson. */
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
