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
#include "workload/workload.h"

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

/* The same by rows, O(R) for each number: q (steps x R) from the first call; the second gives (C'C)[t, t+1+i] for i < count. */
void tvblt_gram_vectors(const tvblt_parameters *c, double *q);
void tvblt_gram_row(const tvblt_parameters *c, const double *q, int64_t t, int64_t count, double *values);

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

DPMF_MUST_CHECK dpmf_status tvblt_read(const strategy_source *source, dpmf_strategy **out);

/*
 * Row norms squared of B = A C^-1 for a named workload, C a TV-BLT repeated `stamps` times, each time restarted, and
 * the noise of step t multiplied by scale[t] if `scale` is not NULL. O(n R^2) time, O(R^2) memory.
 */
DPMF_MUST_CHECK dpmf_status tvblt_errors(const dpmf_workload *a, const tvblt_parameters *c, int64_t stamps,
                                         const double *scale, const dpmf_run *run, double *per_step);

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

/* TV-BLT: what the construction (families/tvblt/build.c) and the tuning (families/tvblt/optimize.c) know of each other. */

/* The problem: A^-1 = R^-1 Q, R = r0 I + r1 N, and the weights of the optimum, which tuning for max loss changes. */
typedef struct tvblt_problem {
    const dpmf_workload *workload;
    int64_t steps;
    int order; /* sub-diagonals of Q, 1 or 2 */
    double r0, r1;
    double *q;        /* steps x 3: Q[t, t-j] */
    double *v;        /* steps, > 0 */
    double *p;        /* steps, > 0, or NULL: all 1 */
    double low, high; /* the spectrum of M = V^-1/2 K V^-1/2, K = A^-1 P^-1 A^-T; 0: not asked for yet */
} tvblt_problem;

/* X^-1 = V^1/2 f(M) V^1/2, f(x) = sum_j w_j x / (x + s_j). */
typedef struct tvblt_filter {
    int nodes;
    double shift[TVBLT_NODES_MAX], weight[TVBLT_NODES_MAX];
} tvblt_filter;

/* families/tvblt/build.c: the problem; its spectrum, found once; the weights of the optimum, where tuning changed them. */
struct optimum_answer;
DPMF_MUST_CHECK dpmf_status tvblt_problem_create(const dpmf_workload *workload, int max_loss,
                                                 const struct optimum_answer *optimum, tvblt_problem *out);
DPMF_MUST_CHECK dpmf_status tvblt_spectrum(const dpmf_run *run, tvblt_problem *problem);
void tvblt_problem_free(tvblt_problem *problem);
void tvblt_take_weights(const struct optimum_answer *optimum, int max_loss, tvblt_problem *problem);

/* Where it is built; room for `nodes_room` nodes, 0: for norms and squares alone. */
typedef struct tvblt_work {
    int nodes_room;
    tvblt_parameters c; /* before and after normalization */
    double *cross;      /* steps x R: Cov(x_{t+1}, y_t) */
    double *variance;   /* steps: Var y_t */
    double *norms;      /* steps: the column norms d_t of C before normalization */
    double *squares;    /* steps: squared errors of the normalized mechanism */
} tvblt_work;

DPMF_MUST_CHECK dpmf_status tvblt_work_alloc(const tvblt_problem *problem, int nodes, tvblt_work *out);
void tvblt_work_free(tvblt_work *work);
/* Room for the coefficients of exactly this number of nodes, 1 or more; what was there is lost. */
DPMF_MUST_CHECK dpmf_status tvblt_work_room(const tvblt_problem *problem, int nodes, tvblt_work *work);

/* Coefficients, norms and squares; not yet normalized. DPMF_ERROR_NUMERICAL names the step where it breaks down. */
DPMF_MUST_CHECK dpmf_status tvblt_build(const tvblt_problem *problem, const tvblt_filter *filter, tvblt_work *work);

/* families/tvblt/loss.c: norms and errors without coefficients, for searches; the problem as arrays, and room. */
typedef struct tvblt_meter {
    struct base_pool *pool; /* of one thread */
    struct optimum_phi *phi;
    double *band[3], *root_v;           /* what kernels/tvblt/tvblt.h takes */
    double *keep, *pass, *gain, *drive; /* the workload, and drive = norm x weight of a column */
    double beta;
    double *scratch, *part[3], *sum[3];
} tvblt_meter;

DPMF_MUST_CHECK dpmf_status tvblt_meter_create(const tvblt_problem *problem, tvblt_meter *out);
void tvblt_meter_free(tvblt_meter *meter);
/* To be called when v or p of the problem have changed; nothing for a meter that is not made yet. */
void tvblt_meter_weigh(const tvblt_problem *problem, tvblt_meter *meter);
/* What construction would find, but for rounding: the column norms of C, and the squared errors of C with columns of norm 1. */
DPMF_MUST_CHECK dpmf_status tvblt_measure(const tvblt_problem *problem, const tvblt_filter *filter, tvblt_meter *meter,
                                          double *norms, double *squares);

/* families/tvblt/tune.c: the search for a filter. */
struct tvblt_model;
typedef struct tvblt_tuner {
    tvblt_problem problem;
    tvblt_work work;
    tvblt_meter meter;   /* made when it is first needed */
    tvblt_filter filter; /* the one chosen */
    int built;           /* are the coefficients in `work` its own? */
    const struct optimum_answer *optimum;
    const dpmf_run *run;
    int max_loss, nodes;
    int careful; /* every filter is built: in short runs, and where the coefficients of the one chosen broke down */
    int64_t evaluations, evaluations_max;
    double interval[4]; /* of the last tuning: ln f1, ln f2, and of the factors on the first node */
} tvblt_tuner;

/* The norms and squares of a filter in u->work. DPMF_ERROR_NUMERICAL: it breaks down. */
DPMF_MUST_CHECK dpmf_status tvblt_try(tvblt_tuner *u, const tvblt_filter *filter);

/* The RMS loss (max_loss: the weighted one) of what was tried or built last. */
double tvblt_mean_loss(const tvblt_tuner *u);

/*
 * A good filter of u->nodes nodes and its excess, mean loss / lower bound - 1; a coarse one unless `thorough`. model: NULL, or
 * where the excess around it goes, if it was found.
 */
DPMF_MUST_CHECK dpmf_status tvblt_tune(tvblt_tuner *u, int thorough, tvblt_filter *filter, double *excess,
                                       struct tvblt_model *model);

/* The filter that `from` was tuned to last, for the spectrum of `to`; in place. */
void tvblt_transfer(const tvblt_tuner *from, const tvblt_tuner *to, tvblt_filter *filter);
/* The excess around a filter, in the logarithms of its shifts and weights; count = 0: not known yet. */
enum { TVBLT_UNKNOWNS_MAX = 2 * TVBLT_NODES_MAX };
typedef struct tvblt_model {
    int count;
    double gradient[TVBLT_UNKNOWNS_MAX];
    double hessian[TVBLT_UNKNOWNS_MAX * TVBLT_UNKNOWNS_MAX];
    double scale[TVBLT_UNKNOWNS_MAX]; /* root of the Hessian's diagonal */
} tvblt_model;
/*
 * The filter improved for this problem, from near, by at most this number of steps of Newton's method; its excess. With a model
 * of a run of another length, whose Hessian is nearly this one's, a step takes a gradient alone; else the model is filled.
 */
DPMF_MUST_CHECK dpmf_status tvblt_polish(tvblt_tuner *u, int steps, tvblt_model *model, tvblt_filter *filter,
                                         double *excess);
/* From the filters of runs of n, 4n, and perhaps 16n steps that of the next one, by their logarithms. */
void tvblt_extrapolate(int count, const tvblt_filter *at, tvblt_filter *out);

/* Multiplies the noise of step t by d_t, so that columns of C have norm 1. */
void tvblt_normalize(tvblt_parameters *c, const double *d);

#endif
