/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exact release: integers in, integers out (docs/exactness.md has the theorem and its proof). Contributions are on the
 * grid xi, seeds are exactly rounded normal numbers on it, and
 *
 *     m_t = z_t - R(f_t(m_0, ..., m_{t-1})),   released: S_t + m_t.
 *
 * This file chooses the grid and bounds the sensitivity of what is released. The shift that a unit causes differs from
 * C Delta by at most (xi + 2 eta) spread sqrt(dim) in norm, eta = arithmetic x scale, scale = clip sigma (s + a); so with
 * K = spread sqrt(dim)
 *
 *     a clip = (xi + 2 arithmetic clip sigma (s + a)) K,
 *
 * which is solved for a: noise of sigma (s + a) clip gives what is released the guarantee of sigma. Independent noise
 * needs no a.
 */
#include "noise/plan.h"

#include "account/account.h"
#include "mechanism/mechanism.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* A seed has about 2^36 grid steps: coarse enough that double arithmetic decides all but 2^-11 of the numbers. */
enum { GRID_BITS = 36 };

/* Rows must stay below this: the kernels hold whole numbers of up to 51 bits. */
static const double MOST_STEPS = 0x1p50;

/* Does the guarantee of this sampling cover the exact release of this route? */
static dpmf_status check_covered(const noise_plan *plan, const dpmf_sampling *sampling, dpmf_adjacency adjacency) {
    char text[64] = "";
    if (dpmf_sampling_is_none(sampling) || plan->route->exact == NOISE_EXACT_OWN) return DPMF_OK;
    if (account_sampling_composes(sampling) && sampling->cap == 0 && account_sampling_draws(sampling, NULL) == 0 &&
        adjacency != DPMF_ADJACENCY_REPLACE_ONE && plan->route->exact == NOISE_EXACT_FEEDBACK &&
        !account_sampling_overlaps(sampling))
        return DPMF_OK;
    TRY(dpmf_sampling_format(sampling, text));
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "exact noise: its proof covers no sampling, block-cyclic sampling of banded strategies without "
                     "a cap, and any sampling of independent noise; it is %s here, of %s",
                     text, plan->leaf->ops->class_name);
}

static dpmf_status choose_grid(const noise_exact_bounds *b, double scale, double asked, double *grid) {
    int exponent = 0;
    if (asked == 0) {
        frexp(scale, &exponent); /* scale < 2^exponent */
        *grid = ldexp(1, exponent - GRID_BITS);
        while (b->reach * scale / *grid > MOST_STEPS)
            *grid *= 2;
        return DPMF_OK;
    }
    if (!(asked > 0) || frexp(asked, &exponent) != 0.5 || !(b->reach * scale / asked <= MOST_STEPS) ||
        !(asked <= 16 * scale))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "grid = %g, accepted: powers of two from %g to %g (the noise's scale is %g)", asked,
                         b->reach * scale / MOST_STEPS, 16 * scale, scale);
    *grid = asked;
    return DPMF_OK;
}

dpmf_status dpmf_exact_plan(const dpmf_mechanism *m, int64_t dim, double clip, double grid, const dpmf_run *run,
                            dpmf_exact *out) {
    const noise_stream_options wanted = {.precision = DPMF_FLOAT64, .count = 1, .exact = 1};
    noise_exact_bounds b;
    noise_plan plan;
    if (m == NULL || dim < 1 || !(clip > 0 && isfinite(clip)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "exact noise: the mechanism is NULL, or dim = %lld, accepted 1 or more, or clip = %g, "
                         "accepted: positive and finite",
                         (long long)dim, clip);
    TRY(mechanism_check_columns(m, dim));
    TRY(noise_plan_make(m->strategy, &wanted, 1, &plan));
    TRY(check_covered(&plan, &m->sampling, m->problem.adjacency));
    TRY(plan.bound(&plan, run, &b));
    const double sigma = m->sigma > 0 ? m->sigma : 1, s = m->problem.evaluation.sensitivity.value;
    const double spread = b.spread * sqrt((double)dim), share = 2 * b.arithmetic * sigma * spread;
    dpmf_exact made = {0};
    TRY(choose_grid(&b, clip * sigma * s, grid, &made.grid));
    if (!(share < 0.5))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "exact noise: %lld steps of %lld numbers: the arithmetic's part of the sensitivity cannot "
                         "be bounded by less than the sensitivity itself",
                         (long long)m->problem.steps, (long long)dim);
    made.rounding = made.grid * spread / clip;
    made.arithmetic = (made.rounding + s) / (1 - share) - made.rounding - s;
    made.sensitivity = (s + made.rounding + made.arithmetic) * (1 + 0x1p-40); /* the errors of this computation */
    made.scale = clip * sigma * made.sensitivity;
    *out = made;
    return DPMF_OK;
}

size_t dpmf_exact_statement(const dpmf_exact *exact, const char *statement, char *out, size_t size) {
    const char *old = account_real_noise(), *at = strstr(statement, old);
    const size_t before = at != NULL ? (size_t)(at - statement) : strlen(statement);
    const int made =
        snprintf(out, size,
                 "%.*sArithmetic: exact. Sums and noise are whole multiples of the grid %.9g, the noise is normal "
                 "noise exactly rounded to it, and the guarantee is proven for the released numbers with all their "
                 "bits. The sensitivity %.9g of the exact release includes %.3g for rounding and %.3g for arithmetic. "
                 "The remaining assumption is that AES-256 is a random function; add 2^-256 to delta%s",
                 (int)before, statement, exact->grid, exact->sensitivity, exact->rounding, exact->arithmetic,
                 at != NULL ? at + strlen(old) : "");
    return made > 0 ? (size_t)made : 0;
}
