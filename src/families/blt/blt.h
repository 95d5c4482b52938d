/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLT: buffered linear Toeplitz matrices (Dvijotham et al. 2024; Pillutla et al. 2025, Section 2.5). C = BLT(alpha,
 * lambda) is the lower-triangular Toeplitz matrix with
 *
 *     c_0 = 1,   c_t = sum_i alpha_i lambda_i^(t-1)  for t >= 1,     C(x) = 1 + sum_i alpha_i x / (1 - lambda_i x).
 *
 * A decay lambda that matters over n steps is about 1/n away from 1, so its distance from 1 is what is held: gap g = 1
 * - lambda, to full relative precision. Scales are called alpha and those of the inverse -a; gaps of the inverse are h.
 */
#ifndef DPMF_FAMILIES_BLT_H
#define DPMF_FAMILIES_BLT_H

#include "error/error.h"
#include "noise/noise.h"
#include "optimize/optimize.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"

enum { BLT_MAX = DPMF_BLT_BUFFERS_MAX };

typedef struct blt_parameters {
    int count;
    double scale[BLT_MAX];
    double gap[BLT_MAX]; /* 0 < gap; of a decay in [0, 1): at most 1 */
    double total;        /* the sum of all coefficients, C(1) = 1 + sum scale/gap */
} blt_parameters;

/* From scales and gaps; fills in `total`. */
blt_parameters blt_make(int count, const double *scale, const double *gap);

/* Are all scales positive and the gaps different? Then its inverse is a BLT too (Pillutla et al. 2025, Lemma 2.16). */
int blt_is_positive(const blt_parameters *c);

/*
 * The inverse of a BLT whose scales are all positive, or all negative with 0 < total; gaps are different. The answer's
 * gaps rise, interlaced with those of `c`, and its scales have the other sign.
 */
blt_parameters blt_invert(const blt_parameters *c);

/* c_0, ..., c_{count-1}, each to full precision. */
void blt_coefficients(const blt_parameters *c, int64_t count, double *out);

/* ---- sums over n steps, in closed form: O(d^2), or O(k d^2) for k participations; for BLTs that are positive ---- */

/* A sum and its derivative with respect to y = 1 - x, accurate for all y in [0, 2). n is whole, up to 2^53. */
typedef struct blt_slope {
    double value, slope;
} blt_slope;
blt_slope blt_geometric(double n, double y);      /* sum_{t<n} x^t */
blt_slope blt_geometric_ramp(double n, double y); /* sum_{t<n} (n-t) x^t */

/* |C[:,0] + C[:,b] + ... + C[:,(k-1)b]|^2; k = 1: the largest column norm. */
double blt_pattern_square(const blt_parameters *c, int64_t n, int64_t k, int64_t b);

/* Prefix sums: the last row of B = A C^-1, squared, and the sum over all rows, from the inverse. */
double blt_last_row_square(const blt_parameters *inverse, int64_t n);
double blt_frobenius_square(const blt_parameters *inverse, int64_t n);

/*
 * A BLT from a rational approximation of (1-x)^(-1/2) that is good for 1/range <= 1 - x, hence over about `range` steps
 * (Pillutla et al. 2025, Theorem 2.18 in the form of a quadrature). Its coefficients are positive and falling.
 */
blt_parameters blt_rational(int count, double range);

/* ---- object.c ---- */

/* The strategy. Scales may have any sign; 0 < gap <= 1. */
DPMF_MUST_CHECK dpmf_status blt_create(int64_t steps, const blt_parameters *parameters, dpmf_strategy **out);

typedef struct blt_strategy {
    dpmf_strategy base;
    blt_parameters c;
    double *column; /* c_0, c_1, ...; NULL: too many */
} blt_strategy;

/* The parameters of a strategy that is a BLT. */
const blt_parameters *blt_of(const dpmf_strategy *s);

/* From a mechanism file. */
DPMF_MUST_CHECK dpmf_status blt_read(const strategy_source *source, dpmf_strategy **out);

/* ---- error.c ---- */

/*
 * Covariances of a BLT's buffers with each other, the momentum and the answer; rows of mm are BLT_MAX
 * apart. A step (error.c): y = seed - scale'm with Var seed = variance, m <- (1 - gap) m + y, and the workload is fed
 * factor x y.
 */
typedef struct blt_buffers {
    double mm[BLT_MAX * BLT_MAX];
    double mom[BLT_MAX], mo[BLT_MAX];
} blt_buffers;
void blt_buffers_advance(int count, const double *scale, const double *gap, double variance, double factor,
                         const error_drive *drive, blt_buffers *k, error_moments *moments);

/* ---- sensitivity.c, noise.c, optimize.c ---- */

DPMF_MUST_CHECK dpmf_status blt_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status blt_candidates(dpmf_design *d);
struct design_federated_range;
DPMF_MUST_CHECK dpmf_status blt_separated_candidates(dpmf_design *d, struct design_federated_range *f, int64_t i);

#endif
