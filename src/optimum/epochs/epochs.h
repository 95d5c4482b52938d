/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimum under cyclic participation, among the mechanisms whose X = C'C vanishes between two steps of one unit
 * (Choquette-Choo et al. 2023; Pillutla et al. 2025, Problem 4.6): its dual, evaluated and maximised, and the X and C
 * that a point of the dual gives. Steps t = i + e b: unit (class) i takes part at e = 0..k-1, where t < n.
 */
#ifndef DPMF_OPTIMUM_EPOCHS_H
#define DPMF_OPTIMUM_EPOCHS_H

#include "base/special.h"
#include "base/status.h"
#include "base/threads.h"
#include "kernels/block/block.h"
#include "optimum/phi.h"

/*
 * ---- optimum/epochs/node.c: one node of the quadrature ----
 *
 * (K + sV)^-1 for a few shifts s side by side, where V couples the steps of one unit: the blocks that the dual needs, and
 * the factors that determine the others. Position i < b within epoch e < k. Steps past the last, n <= t < k b, are
 * padding: 1 on the diagonal of A^-1 and of V, coupled to nothing.
 */

enum { EPOCHS_SIDE = KERNELS_BLOCK_SIDE }; /* shifts */

typedef struct epochs_shape {
    int64_t n, k, b;
    int p;           /* sub-diagonals of A^-1 = Q, 1 or 2; b > p */
    int64_t inner;   /* b - p positions, eliminated in order; the p others are the border */
    int64_t width;   /* of a row over position i, the p after it, and the border: (2p+1) k */
    int64_t beside;  /* of a row over all of these but position i: 2 p k */
    int64_t border;  /* of a row over the border: p k */
    double *band[3]; /* band[j][i k + e] = Q[t+j, t] / sqrt(p_t), p the weights of the steps */
    /*
     * For rows instead of columns, time runs backwards (t becomes k b - 1 - t), band[j] of t is Q[t, t-j], and
     * mix[i k k ...], upper triangular, holds the reversed L_i^-1 that couples the rows of a position.
     */
    double *mix;
} epochs_shape;

/* Named workloads without Nesterov momentum, b > p. `reversed` as for `mix`, which the caller fills. */
DPMF_MUST_CHECK dpmf_status epochs_shape_create(const dpmf_workload *workload, int64_t k, int64_t b, int reversed,
                                                epochs_shape *out);
/* Not for a reversed one. weights NULL: all ones. */
void epochs_shape_weigh(epochs_shape *shape, const dpmf_workload *workload, const double *weights);
void epochs_shape_free(epochs_shape *shape);

/* The results of a few shifts, side by side. With T = (K + sV)^-1, J the p positions after i and the border: */
typedef struct epochs_node {
    kernels_block_side
        *rows; /* inner x k x width: the factor; afterwards E_i, from column k on, with T[i,c] = E_i T[J,c] */
    kernels_block_side *blocks; /* inner x k x width: T[i,i], then T[i,J] from column k on */
    kernels_block_side *border; /* border x border: T of the border */
    kernels_block_side *work;   /* scratch */
} epochs_node;

DPMF_MUST_CHECK dpmf_status epochs_node_create(const epochs_shape *shape, epochs_node *out);
void epochs_node_free(epochs_node *node);

/* lower: b blocks of k x k, V_i = L_i L_i'. */
void epochs_node_run(const epochs_shape *shape, const double *lower, const double shift[EPOCHS_SIDE],
                     epochs_node *node);

/* T[i,i], k rows; *stride: from one to the next. */
const kernels_block_side *epochs_node_block(const epochs_shape *shape, const epochs_node *node, int64_t i,
                                            int64_t *stride);

/* ---- the dual ---- */

enum { EPOCHS_DENSE_MAX = 1024 }; /* steps, where K is not banded or epochs are too short for bands to help */

typedef struct optimum_epochs {
    const dpmf_workload *workload;
    base_pool *pool;
    const dpmf_run *run; /* progress callback for long evaluations, or NULL */
    int64_t n, k, b;
    int max_loss;
    const double *weights; /* RMS: NULL or p */
    int dense;             /* by singular values of an n x n matrix; otherwise by blocks */
    /* blocks */
    optimum_phi *phi; /* for the interval */
    epochs_shape shape, reversed;
    epochs_node *scratch; /* one per worker */
    int workers;
    double *partial, *partial_rows; /* the results of each group of nodes: b k k numbers, k b numbers */
    int room;                       /* for this many groups */
    int only_traces;                /* partial is work space of each worker: the blocks are not kept */
    double *v;                      /* b x k x k: V_i, 0 for steps past the last */
    double traces[BASE_NODES_MAX];
    double *small, *large; /* n each: bounds on the eigenvalues of V at each step */
    base_quadrature rule;  /* of the last evaluation, for [low, high] */
    double low, high;
    /* dense */
    double *matrix, *work, *left; /* A; P^1/2 A L, then Y with Y'Y = X; left singular vectors */
    double *values;               /* singular values */
} optimum_epochs;

/* weights: NULL or positive, RMS only; borrowed, as is the workload. */
DPMF_MUST_CHECK dpmf_status epochs_create(const dpmf_workload *workload, int64_t k, int64_t b, int max_loss,
                                          const double *weights, base_pool *pool, optimum_epochs *out);
void epochs_free(optimum_epochs *epochs);
/* The approximate time of one evaluation, in microseconds of one core: it decides how many are worthwhile. */
double epochs_cost(const optimum_epochs *epochs);

typedef struct epochs_point {
    double *lower;  /* b x k x k: V_i = L_i L_i', L_i lower triangular; 1 on the diagonal for steps past the last */
    double *p;      /* max loss: n weights > 0; NULL otherwise */
    double *blocks; /* b x k x k: the blocks of X = sum_j w_j (K + s_j V)^-1 */
    double *added;  /* b x k x k: mu N V_i^-1 of the climb's barrier, 0 if there is none */
    double *rows;   /* max loss: n numbers p_t [A X^-1 A']_tt, which sum to the trace too */
    double trace;   /* tr V X = nuclear norm of P^1/2 A L */
    double error;   /* its relative error: quadrature, proven, and an allowance for rounding */
} epochs_point;

/* Sets *outside to 1, and nothing else, where V is too close to singular. */
DPMF_MUST_CHECK dpmf_status epochs_eval(optimum_epochs *epochs, double tolerance, epochs_point *point, int *outside);

/* The squared sensitivity of X(V) at an evaluated point, from above; add: `added` + X has blocks without a larger trace. */
DPMF_MUST_CHECK dpmf_status epochs_cover(const optimum_epochs *epochs, epochs_point *point, int add, double *largest);

/* Shifts and weights of the nodes that run side by side. */
void epochs_group(const optimum_epochs *epochs, int64_t group, double shift[EPOCHS_SIDE], double weight[EPOCHS_SIDE]);

/* l^-1 for a lower triangular k x k block. */
void epochs_invert_block(int64_t k, const double *l, double *inverse);

/* The complete X with the terms of the barrier, both triangles, for the point that was evaluated last. */
DPMF_MUST_CHECK dpmf_status epochs_fill(optimum_epochs *epochs, const epochs_point *point, double *x);
DPMF_MUST_CHECK dpmf_status epochs_fill_dense(optimum_epochs *epochs, double *x);

/* X(V) for a V without structure (optimum/epochs/dense.c): A is given, the others are n x n (values, rows: n) and filled. */
typedef struct epochs_mean {
    int64_t n;
    const double *a;
    double *lower, *w, *left, *x, *values, *rows;
} epochs_mean;
/* p: weights of the steps, or NULL. `inside` = 0, and nothing else, where V is not positive definite. */
DPMF_MUST_CHECK dpmf_status epochs_mean_make(const epochs_mean *m, const double *v, const double *p, double *trace,
                                             int *inside);
/* A as a matrix; uses m->rows and m->values. */
DPMF_MUST_CHECK dpmf_status epochs_mean_load(const dpmf_workload *workload, const epochs_mean *m, double *a);

/* By singular values (optimum/epochs/dense.c). */
DPMF_MUST_CHECK dpmf_status epochs_dense_create(optimum_epochs *epochs);
DPMF_MUST_CHECK dpmf_status epochs_dense_eval(optimum_epochs *epochs, epochs_point *point);

/* The trace of a point by the singular values of an n x n matrix, with the error of these alone. */
DPMF_MUST_CHECK dpmf_status epochs_nuclear(const optimum_epochs *epochs, const epochs_point *point, double *trace,
                                           double *error);

/* Unknowns of the dual: b logs of the diagonals of V_i, correlations as triangular rows; max loss: n roots of weights. */
typedef struct epochs_climb {
    optimum_epochs *epochs;
    const dpmf_run *run; /* progress callback, or NULL */
    int64_t unknowns, correlations, first_weight;
    double tolerance; /* of the quadrature */
    double *y;
    double *trend;      /* the change of V's unknowns by the last longer start: the trend (optimum/epochs/climb.c) */
    epochs_point point; /* of the last evaluation */
    double scale;       /* f = scale / value */
    double barrier;     /* mu: keeps V from being singular and weights from 0; 0: none */
    int iterations, converged;
    double lower, upper; /* the best of all evaluations, on the total squared loss or the squared max loss */
    double *best;        /* the unknowns that gave this upper bound, and the barrier */
    double best_barrier;
    double spend;    /* on each level of the start, in the units of epochs_cost; 0: 200 iterations */
    int covers;      /* compute the upper bound by optimum/epochs/primal.c too: if it decides when to stop */
    double enough;   /* stop as soon as upper/lower is no larger than this; 0: never */
    int stopped;     /* the run ended for this reason */
    int evaluations; /* in the last run */
} epochs_climb;

DPMF_MUST_CHECK dpmf_status epochs_climb_create(optimum_epochs *epochs, double tolerance, const dpmf_run *run,
                                                epochs_climb *out);
void epochs_climb_free(epochs_climb *climb);
/* y from a closed form, or from the solution for a quarter of the positions, where that is faster. */
DPMF_MUST_CHECK dpmf_status epochs_climb_start(epochs_climb *climb);
/* Ascends from that start with at most `spend` of work; the trend is then the change by the ascent. */
DPMF_MUST_CHECK dpmf_status epochs_climb_coarse(epochs_climb *climb, double spend);
/* The V of this ascent expected at position i of epochs of b positions: theta, and the correlations. */
void epochs_climb_longer(const epochs_climb *climb, int64_t b, int64_t i, double *theta, double *correlations);
/* Ascends until a few steps gain less than `decrease` of the value; the point is then that of y. */
DPMF_MUST_CHECK dpmf_status epochs_climb_run(epochs_climb *climb, double decrease, int iterations);
/* Raises the lower bound at y, nothing else: for long runs, where the blocks of all nodes need too much memory. */
DPMF_MUST_CHECK dpmf_status epochs_climb_lower(epochs_climb *climb);
/* The point becomes that of the best upper bound; y stays. */
DPMF_MUST_CHECK dpmf_status epochs_climb_revisit(epochs_climb *climb);
/* Raises the lower bound by epochs_nuclear at the point of the ascent. */
DPMF_MUST_CHECK dpmf_status epochs_climb_confirm(epochs_climb *climb);
/* scale/value, the barrier included, and its gradient: to be minimised; f = INFINITY outside. */
DPMF_MUST_CHECK dpmf_status epochs_climb_value(void *climb, const double *y, double *f, double *gradient);
/* Losses that no mechanism can beat (0: unknown), and their relative distances to a known mechanism's (infinite: unknown). */
typedef struct epochs_lower {
    double rms_loss, max_loss, rms_gap, max_gap;
    int foretold; /* the RMS bound is from a V that shorter epochs predict */
} epochs_lower;
/* The losses that are needed. The max loss alone: the RMS loss is known, from a V that shorter epochs predict. */
typedef enum epochs_losses { EPOCHS_BOTH = 0, EPOCHS_RMS_LOSS, EPOCHS_MAX_LOSS } epochs_losses;
DPMF_MUST_CHECK dpmf_status epochs_lower_bound(const dpmf_workload *workload, int64_t k, int64_t b,
                                               const double *weights, epochs_losses losses, const dpmf_run *run,
                                               epochs_lower *out);
/* The squared total loss that no mechanism for prefix sums can beat; its time hardly depends on b. 0: V is not definite. */
DPMF_MUST_CHECK dpmf_status epochs_long(const dpmf_workload *workload, int64_t k, int64_t b, base_pool *pool,
                                        const dpmf_run *run, double *lower);
/*
 * The mechanism of X (optimum/epochs/primal.c): x, n x n, becomes the lower triangular C with C'C = X after X was made to
 * vanish within each class, with trace 1, by mixing steps or by adding to the diagonal. *definite 0: it is not, and x is lost.
 */
DPMF_MUST_CHECK dpmf_status epochs_repair(int64_t n, int64_t b, int by_adding, double *x, int *definite);
DPMF_MUST_CHECK dpmf_status epochs_factor(int64_t n, double *x, int *definite);
/* An upper bound on the squared sensitivity of C: the largest sum of |X| over a class, times one plus rounding. */
DPMF_MUST_CHECK dpmf_status epochs_sensitivity(int64_t n, int64_t b, const double *c, double *squared);
/* Sum over t of p_t |B[t,:]|^2 (weights NULL: ones), or the largest |B[t,:]|^2, for B = A C^-1; c becomes C^-1. */
DPMF_MUST_CHECK dpmf_status epochs_loss(const dpmf_workload *workload, int max_loss, const double *weights, double *c,
                                        double *squared);

/* ---- optimum/epochs/chain.c: prefix sums over long epochs with a V that is the same over runs of positions ---- */

typedef struct epochs_run {
    int64_t length;  /* positions */
    int64_t members; /* epochs that have them: k, or k - 1 after the last step */
    int grounded;    /* the last of all steps is here, in the last epoch: length 1 */
    const double *v; /* k x k, the first `members` rows and columns are read */
} epochs_run;

/*
 * tr V (K + shift V)^-1. Three runs at least; the first, the last, and one before fewer members have length 1; a last run
 * with all members is grounded.
 */
DPMF_MUST_CHECK dpmf_status epochs_chain_trace(int64_t k, int64_t count, const epochs_run *runs, double shift,
                                               double *trace);

/* ---- optimum/epochs/forms.c: X = C'C diagonal under full participation (Pillutla et al. 2025, Proposition 4.9) ---- */

typedef struct epochs_full_optimum {
    double *diagonal;    /* of C: n numbers > 0, squares summing to 1; the caller frees it */
    double lower, upper; /* on the total squared loss, or the squared max loss */
    int iterations, converged;
} epochs_full_optimum;

/* Max loss: up to 8192 steps. weights: NULL or positive, RMS only. */
DPMF_MUST_CHECK dpmf_status epochs_full_solve(const dpmf_workload *workload, int max_loss, const double *weights,
                                              double tolerance, const dpmf_run *run, epochs_full_optimum *out);

/* ---- weaker constraints on X = C'C than zeros between the steps of one unit ---- */

enum { EPOCHS_NON_NEGATIVE_STEPS_MAX = 2048, EPOCHS_CORNERS_STEPS_MAX = 64, EPOCHS_CORNERS_COUNT_MAX = 8 };

typedef struct epochs_forms_task {
    const dpmf_workload *workload;
    int64_t k, b;
    dpmf_constraint constraint; /* not ZERO */
    int max_loss;
    const double *weights; /* RMS: NULL or positive */
    double tolerance;
    const dpmf_run *run;
    /* non-negative: the optimum with zeros within the classes, its C, lower bound, factors of V and, max loss, p; NULL: none */
    const double *zero_c, *zero_factors, *zero_p;
    double zero_lower;
} epochs_forms_task;

typedef struct epochs_forms_answer {
    double lower, upper; /* on the total squared loss, or the squared max loss */
    int iterations, converged;
    double *c; /* n x n, lower triangular, the mechanism of `upper`; the caller frees it */
} epochs_forms_answer;

/* Is it small enough? */
DPMF_MUST_CHECK dpmf_status epochs_forms_check(const epochs_forms_task *task);
DPMF_MUST_CHECK dpmf_status epochs_forms_solve(const epochs_forms_task *task, epochs_forms_answer *out);

#endif
