/* SPDX-License-Identifier: Apache-2.0 */
/* The loss of a BLT as a smooth function of free unknowns: what optimize/blt/blt.c minimizes. */
#ifndef DPMF_OPTIMIZE_BLT_H
#define DPMF_OPTIMIZE_BLT_H

#include "base/minimize.h"
#include "optimize/optimize.h"
#include "strategy/strategy.h"

enum { DPMF_I_OPTIMIZE_BLT_UNKNOWNS = 2 * DPMF_I_STRATEGY_BLT_MAX };

/* Memory for the loss with normalized columns (optimize/blt/normalized.c), n numbers each, q and r n x count. */
typedef struct dpmf_i_optimize_blt_normalized {
    double *memory, *coefficient, *norm, *variance, *by_norm, *q, *r;
} dpmf_i_optimize_blt_normalized;
DPMF_MUST_CHECK dpmf_status dpmf_i_optimize_blt_normalized_open(int64_t n, dpmf_i_optimize_blt_normalized *w);
void dpmf_i_optimize_blt_normalized_free(dpmf_i_optimize_blt_normalized *w);

typedef struct dpmf_i_optimize_blt_problem {
    int count; /* buffers */
    int64_t n, k, b;
    int max_loss;
    const double *response; /* first column of a Toeplitz workload; NULL: prefix sums */
    const double *emphasis; /* of the squares of the first column of B; NULL: n - t, or 1 for the max loss */
    const dpmf_i_optimize_blt_normalized
        *normalized; /* NULL: C as it is; else prefix sums, single participation, RMS loss */
} dpmf_i_optimize_blt_problem;

/* Has it a closed form, whose cost does not depend on n? */
static inline int dpmf_i_optimize_blt_is_closed(const dpmf_i_optimize_blt_problem *p) {
    return p->response == NULL && p->emphasis == NULL && p->normalized == NULL;
}

/* C = BLT(alpha, 1 - g) and C^-1 = BLT(-a, 1 - h), and derivatives of a function of the four as if they were free. */
typedef struct dpmf_i_optimize_blt_pair {
    double alpha[DPMF_I_STRATEGY_BLT_MAX], g[DPMF_I_STRATEGY_BLT_MAX], a[DPMF_I_STRATEGY_BLT_MAX],
        h[DPMF_I_STRATEGY_BLT_MAX];
} dpmf_i_optimize_blt_pair;
typedef struct dpmf_i_optimize_blt_slopes {
    double by_log_alpha[DPMF_I_STRATEGY_BLT_MAX], by_g[DPMF_I_STRATEGY_BLT_MAX], by_log_a[DPMF_I_STRATEGY_BLT_MAX],
        by_h[DPMF_I_STRATEGY_BLT_MAX];
} dpmf_i_optimize_blt_slopes;

/* |B|_F^2 with normalized columns, rows weighted as the problem says, and its derivatives. */
double dpmf_i_optimize_blt_normalized_error(const dpmf_i_optimize_blt_problem *p, const dpmf_i_optimize_blt_pair *c,
                                            dpmf_i_optimize_blt_slopes *out);

/* ln(loss) and its gradient at 2 x count unknowns; a dpmf_i_base_objective (base/minimize.h), never fails. */
DPMF_MUST_CHECK dpmf_status dpmf_i_optimize_blt_loss(void *problem, const double *x, double *f, double *gradient);

/* The BLT at x. */
dpmf_i_strategy_blt_parameters dpmf_i_optimize_blt_at(int count, const double *x);

/*
 * The gaps of C and C^-1 at x, interlaced, g_0 < h_0 < g_1 < ... < h_{count-1}, and back; then all but the last must be
 * below 1 and sum (h - g) at most 1.
 */
void dpmf_i_optimize_blt_gaps(int count, const double *x, double *gaps);
void dpmf_i_optimize_blt_unknowns(int count, const double *gaps, double *x);

/* ---- scales of any sign: optimize/blt/cascade.c ---- */

/* C as a cascade. The unknowns are `count` coordinates and `count` logarithms of spacings between ln gaps. */
typedef struct dpmf_i_optimize_blt_cascade {
    int count;
    double gap[DPMF_I_STRATEGY_BLT_MAX], keep[DPMF_I_STRATEGY_BLT_MAX]; /* gaps rise */
    double square[DPMF_I_STRATEGY_BLT_MAX], unit[DPMF_I_STRATEGY_BLT_MAX], weight[DPMF_I_STRATEGY_BLT_MAX],
        rise[DPMF_I_STRATEGY_BLT_MAX];
} dpmf_i_optimize_blt_cascade;

/* 0: a decay is too near 1. */
int dpmf_i_optimize_blt_cascade_set(int count, int64_t n, const double *x, dpmf_i_optimize_blt_cascade *out);

/* C w, unless `out` is NULL, and the states before each step, n x count. */
void dpmf_i_optimize_blt_cascade_run(const dpmf_i_optimize_blt_cascade *k, int64_t n, const double *w, double *states,
                                     double *out);

/* In place C^-1 y, or with a step of -1 and y at the last number C^-T y. */
void dpmf_i_optimize_blt_cascade_divide(const dpmf_i_optimize_blt_cascade *k, int64_t n, int step, double *y);

/* Adds factor times the gradient of <v, C w> by the unknowns, from the states of w. */
void dpmf_i_optimize_blt_cascade_pull(const dpmf_i_optimize_blt_cascade *k, int64_t n, const double *states,
                                      const double *v, double factor, double *gradient);

/* factor x sum alpha^2; its gradient is added. */
double dpmf_i_optimize_blt_cascade_size(const dpmf_i_optimize_blt_cascade *k, const double *x, double factor,
                                        double *gradient);

/* The BLT at x; and back, with gaps that rise moved apart where they are too near each other. */
dpmf_i_strategy_blt_parameters dpmf_i_optimize_blt_cascade_at(int count, int64_t n, const double *x);
void dpmf_i_optimize_blt_cascade_unknowns(int count, int64_t n, const double *scale, const double *gap, double *x);

/* ---- the search among them: optimize/blt/mixed.c ---- */

/* Single, cyclic or full participation, and small enough? */
int dpmf_i_optimize_blt_mixed_fits(const dpmf_i_optimize_task *task);

/*
 * The best of `count` buffers. positive[d - 1] is a start of d buffers, its gaps rising, for d <= count; the last one is
 * the best with positive scales, whose ln loss is `before`: *blt and *out, which hold it, are unchanged, but for the
 * iterations, if none is better.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_optimize_blt_mixed(const dpmf_i_optimize_task *task, int count,
                                                      const dpmf_i_strategy_blt_parameters *positive, double before,
                                                      dpmf_i_strategy_blt_parameters *blt, dpmf_i_base_minimum *out);

#endif
