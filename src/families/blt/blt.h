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

#include "base/minimize.h"
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

blt_parameters blt_make(int count, const double *scale, const double *gap);

/* Are all scales positive and the gaps different? Then its inverse is a BLT too (Pillutla et al. 2025, Lemma 2.16). */
int blt_is_positive(const blt_parameters *c);

/*
 * The inverse of a BLT whose scales are all positive, or all negative with 0 < total; gaps are different. The answer's
 * gaps rise, interlaced with those of `c`, and its scales have the other sign.
 */
blt_parameters blt_invert(const blt_parameters *c);

/* The scales that belong to the gaps of a BLT and of its inverse, all different (Pillutla et al. 2025, Lemma 4.13). */
void blt_scales(int count, const double *gap, const double *inverse_gap, double *scale);

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

/* ---- the family of these, for prefix sums over n steps: families/blt/rational.c ---- */

/* How far the max loss may be above the best Toeplitz mechanism's, where the number of buffers is not given. */
#define BLT_RATIONAL_SLACK 0.01

double blt_root_loss(int64_t n); /* the least max loss of a Toeplitz mechanism */
blt_parameters blt_rational_of(int count, int64_t n);
blt_parameters blt_rational_fewest(int64_t n, double slack); /* at most BLT_MAX, if none is near enough */
int blt_is_rational(const blt_parameters *c, int64_t n);
DPMF_MUST_CHECK dpmf_status blt_rational_create(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                dpmf_strategy **out);

/* The strategy. Scales may have any sign; 0 < gap <= 1. */
DPMF_MUST_CHECK dpmf_status blt_create(int64_t steps, const blt_parameters *parameters, dpmf_strategy **out);

typedef struct blt_strategy {
    dpmf_strategy base;
    blt_parameters c;
    blt_parameters inverse; /* C^-1; count 0: it is not known to be a BLT */
    double *column;         /* c_0, c_1, ...; NULL: too many */
} blt_strategy;

/* The parameters of a strategy that is a BLT. */
const blt_parameters *blt_of(const dpmf_strategy *s);

DPMF_MUST_CHECK dpmf_status blt_read(const strategy_source *source, dpmf_strategy **out);

/*
 * Covariances of a BLT's buffers with each other, the momentum and the answer; rows of mm are BLT_MAX apart. A step (object.c):
 * y = seed - scale'm with Var seed = variance, m <- (1 - gap) m + y, and the workload is fed factor x y.
 */
typedef struct blt_buffers {
    double mm[BLT_MAX * BLT_MAX];
    double mom[BLT_MAX], mo[BLT_MAX];
} blt_buffers;
void blt_buffers_advance(int count, const double *scale, const double *gap, double variance, double factor,
                         const error_drive *drive, blt_buffers *k, error_moments *moments);

DPMF_MUST_CHECK dpmf_status blt_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status blt_candidates(dpmf_design *d);
struct design_federated_range;
DPMF_MUST_CHECK dpmf_status blt_separated_candidates(dpmf_design *d, struct design_federated_range *f, int64_t i);

/* The loss of a BLT as a smooth function of free unknowns: what families/blt/optimize.c minimizes. */

enum { BLT_UNKNOWNS = 2 * BLT_MAX };

/* Memory for the loss with normalized columns (families/blt/loss.c), n numbers each, q and r n x count. */
typedef struct blt_normalized {
    double *memory, *coefficient, *norm, *variance, *by_norm, *q, *r;
} blt_normalized;
DPMF_MUST_CHECK dpmf_status blt_normalized_open(int64_t n, blt_normalized *w);
void blt_normalized_free(blt_normalized *w);

typedef struct blt_problem {
    int count; /* buffers */
    int64_t n, k, b;
    int max_loss;
    const double *response;           /* first column of a Toeplitz workload; NULL: prefix sums */
    const double *emphasis;           /* of the squares of the first column of B; NULL: n - t, or 1 for the max loss */
    const blt_normalized *normalized; /* NULL: C as it is; else prefix sums, single participation, RMS loss */
    double barrier;                   /* mu of the logarithmic barrier (families/blt/loss.c); 0: none */
    const double *form; /* n x n: the error is h' form h, h the first column of C^-1; NULL unless A is not Toeplitz */
    double *work;       /* 2 n numbers with `form`: h, form h */
    struct toeplitz_listed *listed; /* NULL: k steps, b apart; else patterns from a file */
} blt_problem;

/* Has it a closed form, whose cost does not depend on n? */
int blt_is_closed(const blt_problem *p);

/* C = BLT(alpha, 1 - g) and C^-1 = BLT(-a, 1 - h), and derivatives of a function of the four as if they were free. */
typedef struct blt_pair {
    double alpha[BLT_MAX], g[BLT_MAX], a[BLT_MAX], h[BLT_MAX];
} blt_pair;
typedef struct blt_slopes {
    double by_log_alpha[BLT_MAX], by_g[BLT_MAX], by_log_a[BLT_MAX], by_h[BLT_MAX];
} blt_slopes;

/* ln(loss) and its gradient at 2 x count unknowns; a base_objective (base/minimize.h), never fails. */
DPMF_MUST_CHECK dpmf_status blt_loss(void *problem, const double *x, double *f, double *gradient);

blt_parameters blt_at(int count, const double *x);

/* Gaps of C and C^-1 at x, interlaced, g_0 < h_0 < g_1 < ..., and back: all but the last below 1, sum (h - g) at most 1. */
void blt_gaps(int count, const double *x, double *gaps);
void blt_unknowns(int count, const double *gaps, double *x);

/* ---- scales of any sign: families/blt/mixed.c ---- */

/* C as a cascade. The unknowns are `count` coordinates and `count` logarithms of spacings between ln gaps. */
typedef struct blt_cascade {
    int count;
    double gap[BLT_MAX], keep[BLT_MAX]; /* gaps rise */
    double square[BLT_MAX], unit[BLT_MAX], weight[BLT_MAX], rise[BLT_MAX];
} blt_cascade;

/* 0: a decay is too near 1. */
int blt_cascade_set(int count, int64_t n, const double *x, blt_cascade *out);

/* C w, unless `out` is NULL, and the states before each step, n x count. */
void blt_cascade_run(const blt_cascade *k, int64_t n, const double *w, double *states, double *out);

/* In place C^-1 y, or with a step of -1 and y at the last number C^-T y. */
void blt_cascade_divide(const blt_cascade *k, int64_t n, int step, double *y);

/* Adds factor times the gradient of <v, C w> by the unknowns, from the states of w. */
void blt_cascade_pull(const blt_cascade *k, int64_t n, const double *states, const double *v, double factor,
                      double *gradient);

/* factor x sum alpha^2; its gradient is added. */
double blt_cascade_size(const blt_cascade *k, const double *x, double factor, double *gradient);

/* The BLT at x; and back, with gaps that rise moved apart where they are too near each other. */
blt_parameters blt_cascade_at(int count, int64_t n, const double *x);
void blt_cascade_unknowns(int count, int64_t n, const double *scale, const double *gap, double *x);

/* ---- the search among them: families/blt/mixed.c ---- */

/* Single, cyclic or full participation, and small enough? And is it worthwhile where no signs are asked for? */
int blt_mixed_can(const optimize_task *task);
int blt_mixed_fits(const optimize_task *task);

/* Of ln loss: a buffer that gains less is superfluous, and is dropped. The barrier hides about a tenth of this. */
#define BLT_SUPERFLUOUS 1e-7

/*
 * The best of `count` buffers. positive[d - 1] is a start of d buffers, its gaps rising, for d <= count; the last one is
 * the best with positive scales, whose ln loss is `before`: *blt and *out, which hold it, are unchanged, but for the
 * iterations, if none is better. Where one buffer less does as well, *blt has one less: then ask again with that count.
 */
DPMF_MUST_CHECK dpmf_status blt_mixed(const optimize_task *task, int count, const blt_parameters *positive,
                                      double before, blt_parameters *blt, base_minimum *out);

#endif
