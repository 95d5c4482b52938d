/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a BLT as a smooth function of free unknowns: what families/blt/optimize.c minimizes. */
#ifndef DPMF_FAMILIES_BLT_SEARCH_H
#define DPMF_FAMILIES_BLT_SEARCH_H

#include "base/minimize.h"
#include "families/blt/blt.h"

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

/* The BLT at x. */
blt_parameters blt_at(int count, const double *x);

/*
 * The gaps of C and C^-1 at x, interlaced, g_0 < h_0 < g_1 < ... < h_{count-1}, and back; then all but the last must be
 * below 1 and sum (h - g) at most 1.
 */
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

/* Single, cyclic or full participation, and small enough? */
int blt_mixed_fits(const optimize_task *task);

/*
 * The best of `count` buffers. positive[d - 1] is a start of d buffers, its gaps rising, for d <= count; the last one is
 * the best with positive scales, whose ln loss is `before`: *blt and *out, which hold it, are unchanged, but for the
 * iterations, if none is better.
 */
DPMF_MUST_CHECK dpmf_status blt_mixed(const optimize_task *task, int count, const blt_parameters *positive,
                                      double before, blt_parameters *blt, base_minimum *out);

#endif
