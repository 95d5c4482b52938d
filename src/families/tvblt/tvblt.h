/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: a buffered linear Toeplitz (BLT) mechanism whose coefficients vary with time, so that with a handful of
 * buffers it follows the optimal dense mechanism. The stream of C^-1 Z with R = nodes x order buffers x is
 *
 *     y_t = diagonal_t z_t + sum over nodes of x_node,   x <- F_t x + gain_t z_t
 *
 * A node has `order` numbers of state, of which the first enters the sum; a row of coefficients (or of state) holds the
 * first numbers of all nodes, then the second ones:
 *
 *     order 1    x <- keep x + gain z                                             (A^-1 has one sub-diagonal)
 *     order 2    u = keep x + keep' x',   x <- x + u + gain z,   x' <- u + gain' z    (two, or Nesterov's)
 *
 * In order 2, x' is the last change of x and not its last value: rounding errors in the two of them then stay apart.
 * Every scale (v of the optimum, the column norms) is folded into the coefficients. Row n-1 of keep and gain is 0.
 */
#ifndef DPMF_FAMILIES_TVBLT_H
#define DPMF_FAMILIES_TVBLT_H

#include "error/error.h"
#include "noise/noise.h"
#include "optimize/optimize.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"

enum { TVBLT_NODES_MAX = 32, TVBLT_STATES_MAX = 2 * TVBLT_NODES_MAX };

typedef struct tvblt_parameters {
    int64_t steps;
    int nodes, order;
    double *diagonal; /* steps */
    double *keep;     /* steps x R */
    double *gain;     /* steps x R */
} tvblt_parameters;

static inline int tvblt_states(const tvblt_parameters *c) {
    return c->nodes * c->order;
}

/* ---- coefficients.c ---- */

/* Zeroed arrays; on failure nothing is left. Freeing a zeroed struct is fine. */
DPMF_MUST_CHECK dpmf_status tvblt_alloc(int64_t steps, int nodes, int order, tvblt_parameters *out);
void tvblt_free(tvblt_parameters *c);

/* On the state: h'x; x <- F_t x; x <- F_t x + g_t z. */
static inline double tvblt_output(const tvblt_parameters *c, const double *x) {
    double sum = 0;
    for (int j = 0; j < c->nodes; j++)
        sum += x[j];
    return sum;
}
void tvblt_push(const tvblt_parameters *c, int64_t t, double *x);
void tvblt_advance(const tvblt_parameters *c, int64_t t, double z, double *x);

/* On its covariance P, R x R: P h; P <- F_t P F_t' + g_t g_t'. */
void tvblt_seen(const tvblt_parameters *c, const double *covariance, double *out);
void tvblt_push_covariance(const tvblt_parameters *c, int64_t t, double *covariance);

/* Squared column norms of C, exactly, O(n R^2). A step whose value is not positive and finite is returned; -1: none. */
int64_t tvblt_square_norms(const tvblt_parameters *c, double *squares);

/* (C'C)[t, t+lag] for t = 0..steps-lag-1, O(n R^2) for any lag. */
DPMF_MUST_CHECK dpmf_status tvblt_gram(const tvblt_parameters *c, int64_t lag, double *values);

/*
 * The same by rows, O(R) a number, for those who need most of them: with q (steps x R numbers) from the first call, the
 * second gives (C'C)[t, t+1+i] for i < count.
 */
void tvblt_gram_vectors(const tvblt_parameters *c, double *q);
void tvblt_gram_row(const tvblt_parameters *c, const double *q, int64_t t, int64_t count, double *values);

/* ---- object.c ---- */

/* The strategy; takes the arrays over on success and zeroes `coefficients`. */
DPMF_MUST_CHECK dpmf_status tvblt_create(tvblt_parameters *coefficients, dpmf_strategy **out);

typedef struct tvblt_strategy {
    dpmf_strategy base;
    tvblt_parameters c;
} tvblt_strategy;

/* The coefficients of a strategy that is a TV-BLT. */
static inline const tvblt_parameters *tvblt_of(const dpmf_strategy *s) {
    return &((const tvblt_strategy *)s)->c;
}

/* From a mechanism file. */
DPMF_MUST_CHECK dpmf_status tvblt_read(const strategy_source *source, dpmf_strategy **out);

/* ---- noise.c ---- */

/* ---- error.c ---- */

/*
 * Row norms squared of B = A C^-1 for a named workload, C a TV-BLT repeated `stamps` times, each time restarted, and
 * the noise of step t multiplied by scale[t] if `scale` is not NULL. O(n R^2) time, O(R^2) memory.
 */
DPMF_MUST_CHECK dpmf_status tvblt_errors(const dpmf_workload *a, const tvblt_parameters *c, int64_t stamps,
                                         const double *scale, const dpmf_run *run, double *per_step);

/* ---- optimize.c ---- */

DPMF_MUST_CHECK dpmf_status tvblt_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status tvblt_candidates(dpmf_design *d);
struct design_federated_range;
DPMF_MUST_CHECK dpmf_status tvblt_separated_candidates(dpmf_design *d, struct design_federated_range *f, int64_t i);

/*
 * The best TV-BLT under single participation for a named workload: RMS loss (max_loss = 0; with the optimum's weights)
 * or max loss (1). nodes 1 to 32; or 0: the fewest whose loss is at most wanted_ratio x the optimum's lower bound.
 * Columns of C have norm 1, so the sensitivity is 1 and *loss (may be NULL) is the loss itself.
 */
DPMF_MUST_CHECK dpmf_status tvblt_search(const dpmf_workload *workload, int max_loss, int nodes, double wanted_ratio,
                                         const optimum_answer *optimum, const dpmf_run *run, dpmf_strategy **out,
                                         double *loss);

#endif
