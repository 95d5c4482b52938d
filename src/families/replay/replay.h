/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds: a noise stream for several epochs in a fixed order. n steps, period b, k = ceil(n/b) epochs; step
 * t = f b + p is position p of epoch f, and the steps p, p+b, p+2b, ... are those of one unit, class p. Seeds are functions of
 * (key, step), so the seeds of earlier epochs cost no memory: they are made again. With r buffers x
 *
 *     u_t = sum_{j=0..f} a_j(f,p) z_{t-jb}        a mix of the class's seeds
 *     y_t = d_p (u_t + h(f,p)'x)                  the row of noise
 *     x  <- rho o (x + kappa(f,p) u_t)
 *
 * that is W = C^-1 = D F U: U block diagonal over the classes, F a filter of r states, D one scale a class. The law of
 * the noise depends on U_p through V_p = U_p U_p' alone; P_p = V_p^-1 is the precision. With G = F^-1
 *
 *     X = C'C = D^-1 G'P G D^-1
 *
 * and P is not free: it is solved from F so that X vanishes between two steps of one class and has the wanted diagonal
 * (sensitivity.c). Then the sensitivity is exactly 1 for contributions that are vectors of norm 1, one at each participation.
 *
 * Arrays. Rows of t = f b + p, also past n (a last epoch that is partial): "by step". Symmetric k x k matrices, one for each
 * position, are held as their lower triangle, pair by pair: entry (e, g), e >= g, of position p is [pair(e, g) * b + p].
 */
#ifndef DPMF_FAMILIES_REPLAY_H
#define DPMF_FAMILIES_REPLAY_H

#include "base/threads.h"
#include "error/error.h"
#include "noise/noise.h"
#include "optimize/optimize.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

enum {
    REPLAY_BUFFERS_MAX = 12,
    REPLAY_STATES_MAX = REPLAY_BUFFERS_MAX + 2,
    REPLAY_EPOCHS_MAX = 1024,
    REPLAY_NODES_MAX = 4096,
    REPLAY_PAIRS_MAX = 1 << 26 /* pairs x b, numbers of which several arrays are held */
};

/* ---- shape.c: nodes and parameters ---- */

/* h, kappa, the profile and the scale are piecewise linear in the position, with these nodes. */
typedef struct replay_shape {
    int64_t steps, period; /* n, b */
    int64_t last;          /* positions of the last epoch, 1..b */
    int epochs, buffers;   /* k, r */
    int nodes;
    int64_t *node; /* rising, from 0 to b-1 */
} replay_shape;

/* density: nodes per octave of the distance from an epoch's ends (1 is usual). Freeing a zeroed shape is fine. */
DPMF_MUST_CHECK dpmf_status replay_shape_create(int64_t steps, int64_t period, int buffers, int density,
                                                replay_shape *out);
DPMF_MUST_CHECK dpmf_status replay_shape_from(int64_t steps, int64_t period, int buffers, int nodes,
                                              const int64_t *node, replay_shape *out);
DPMF_MUST_CHECK dpmf_status replay_shape_copy(const replay_shape *shape, replay_shape *out);
void replay_shape_free(replay_shape *shape);

/* What a mechanism file holds, one vector of parameters in this order. */
typedef struct replay_view {
    double *h, *kappa; /* epochs x nodes x buffers */
    double *logit;     /* buffers: rho = 1 / (1 + exp(-logit)) */
    double *profile;   /* epochs x nodes: the diagonal of X in a class is the softmax of it over the class's epochs */
    double *scale;     /* nodes: log d */
} replay_view;

int64_t replay_count(const replay_shape *shape);
replay_view replay_look(const replay_shape *shape, double *parameters);

/* Values at all positions from values at the nodes, `width` numbers each, and the transpose: node += sum over p. */
void replay_spread(const replay_shape *shape, int width, const double *node, double *position);
void replay_gather(const replay_shape *shape, int width, const double *position, double *node);

int64_t replay_pair(int e, int g);
int64_t replay_pairs(const replay_shape *s);
/* Epochs that have position p. */
int replay_members(const replay_shape *s, int64_t p);

/* ---- shape.c: the coefficients of every step ---- */

typedef struct replay_coefficients {
    replay_shape shape;
    double *h, *beta;   /* by step, x buffers; beta = rho o kappa */
    double *profile;    /* by step: the diagonal of X, which sums to 1 over a class */
    double *scale;      /* b: d */
    double *precision;  /* pairs: P */
    double *factor;     /* pairs: M = U^-1, lower triangular, P = M'M */
    double *mix;        /* pairs: U */
    double *covariance; /* pairs: V = U U' */
    double rho[REPLAY_BUFFERS_MAX];
} replay_coefficients;

/* Room for it, zeroed; takes a copy of the shape. */
DPMF_MUST_CHECK dpmf_status replay_alloc(const replay_shape *shape, replay_coefficients *out);
void replay_free(replay_coefficients *c);

/* Everything but P, M, U, V from the parameters. */
void replay_expand(const double *parameters, replay_coefficients *c);

/* M, U, V from P at each position; *definite = 0, and nothing else of use, where P is not definite. Then P, M and U from V. */
DPMF_MUST_CHECK dpmf_status replay_factor(replay_coefficients *c, base_pool *pool, int *definite);
DPMF_MUST_CHECK dpmf_status replay_unfactor(replay_coefficients *c, base_pool *pool, int *definite);

/*
 * From parameters, as a mechanism file gives them: P by cancellation, and all that follows. The same bits for any
 * number of threads; `pool` may be NULL. DPMF_ERROR_NUMERICAL where P is not positive definite.
 */
DPMF_MUST_CHECK dpmf_status replay_create(const replay_shape *shape, const double *parameters, base_pool *pool,
                                          replay_coefficients *out);

/* ---- sensitivity.c: transitions of F^-1 through an epoch ---- */

/* F^-1 has the state matrix R - beta h' (R = diag(rho)) and the input beta. All by epoch, then position. */
typedef struct replay_filter {
    double *phi; /* k x (b+1) x r x r: from the start of the epoch to position p */
    double *psi; /* k x (b+1) x r x r: from position p to its end */
    double *q;   /* by step, x r: phi_p'h_p */
    double *w;   /* by step, x r: psi_{p+1} beta_p */
} replay_filter;

DPMF_MUST_CHECK dpmf_status replay_filter_alloc(const replay_shape *shape, replay_filter *out);
void replay_filter_free(replay_filter *f);
DPMF_MUST_CHECK dpmf_status replay_filter_fill(const replay_coefficients *c, base_pool *pool, replay_filter *f);

/* ---- sensitivity.c: X within the classes ---- */

typedef struct replay_gram {
    int keep;       /* 1: `gram` at every position, for the adjoint; 0: only the last one visited */
    double *zeta;   /* k x k x b x r, see sensitivity.c */
    double *gram;   /* pairs x (keep ? b+1 : 1) x r x r */
    double *values; /* pairs: the wanted X (solve) or the one found (evaluate), before D */
} replay_gram;

DPMF_MUST_CHECK dpmf_status replay_gram_alloc(const replay_shape *shape, int keep, replay_gram *out);
void replay_gram_free(replay_gram *g);

/* values = D diag(profile) D, what the classes' blocks of G'P G are to be. */
void replay_wanted(const replay_coefficients *c, replay_gram *g);

/* The P for which the classes' blocks of G'P G are `values`; or, with solve = 0, these blocks for the P of c. */
DPMF_MUST_CHECK dpmf_status replay_blocks(replay_coefficients *c, const replay_filter *f, int solve, base_pool *pool,
                                          replay_gram *g);

/* Stages of pairs: stage s has the pairs (e, g), e >= g, e + g = s, which do not depend on each other. */
int replay_stage_first(const replay_shape *shape, int s);
int replay_stage_end(const replay_shape *shape, int s);

/* function(r, context) with the usual numbers of buffers compiled in, so that the loops over them unroll. */
#define REPLAY_CASE(r, function, context)                                                                              \
    case r:                                                                                                            \
        function(r, context);                                                                                          \
        break;
#define REPLAY_UNROLLED(function, r, context)                                                                          \
    switch (r) {                                                                                                       \
        REPLAY_CASE(1, function, context)                                                                              \
        REPLAY_CASE(2, function, context)                                                                              \
        REPLAY_CASE(3, function, context)                                                                              \
        REPLAY_CASE(4, function, context)                                                                              \
        REPLAY_CASE(5, function, context)                                                                              \
        REPLAY_CASE(6, function, context)                                                                              \
        REPLAY_CASE(7, function, context)                                                                              \
        REPLAY_CASE(8, function, context)                                                                              \
    default:                                                                                                           \
        function(r, context);                                                                                          \
    }

/* work(context, item, worker) for all items: by the pool where there is one and the work is worth it. */
DPMF_MUST_CHECK dpmf_status replay_run(base_pool *pool, int64_t flops, int64_t count, base_work work, void *context);

/*
 * X of class p, k x k (zero for a step past n), from G'P G for all p: `blocks` is pairs. And for every class an upper
 * bound on its squared sensitivity, max tr(X R) over correlation matrices R: the sum of |X|, or, with exact = 1, the
 * least sum of y with diag(y) >= X to about 1e-9, the smaller of the two; never below the true one but for rounding.
 */
DPMF_MUST_CHECK dpmf_status replay_sensitivities(replay_coefficients *c, int exact, base_pool *pool, double *squares);
/* The same for one symmetric k x k matrix x. */
DPMF_MUST_CHECK dpmf_status replay_class_bound(int k, const double *x, double *square);

/* y = C x and x = C^-1 y, O(n (k + r)); in place allowed. */
DPMF_MUST_CHECK dpmf_status replay_apply(const replay_coefficients *c, const double *x, double *y);
DPMF_MUST_CHECK dpmf_status replay_solve(const replay_coefficients *c, const double *y, double *x);

/* What step t of the noise stream needs. */
typedef struct replay_step {
    int seeds;              /* f + 1: z_t, z_{t-b}, ..., z_{t-fb} */
    double scale;           /* d */
    const double *h, *beta; /* r: y = d (u + h'x), x <- rho o x + beta u */
    const double *rho;      /* r */
} replay_step;

/* a: room for k numbers, a_j for j = 0..f. */
replay_step replay_at(const replay_coefficients *c, int64_t t, double *a);

/* ---- shape.c: shared class seeds ---- */

/*
 * Only V_p matters for the law of the noise. With V_p = diag(g^2) + L L', L of l columns, the mix of seeds can be made
 *
 *     u_t = g(f,p) z_t + sum_i L_i(f,p) zeta_{p,i}
 *
 * from z_t and l seeds zeta that belong to the class: 1 + l normal numbers however many epochs there are. P is then not free to
 * cancel; X is what it is, and d_p is the square root of the sum of |X| over class p, so that the sensitivity is at most 1.
 */
typedef struct replay_shared {
    int seeds;      /* l, 1 to 8 */
    double *own;    /* by step: g */
    double *weight; /* by step, x l: L */
} replay_shared;

enum { REPLAY_SHARED_MAX = 8 };

/* The parameters: h, kappa and logit as above; then */
typedef struct replay_shared_view {
    double *h, *kappa, *logit;
    double *own;    /* epochs x nodes: log g */
    double *weight; /* epochs x nodes x l */
} replay_shared_view;

int64_t replay_shared_count(const replay_shape *shape, int seeds);
replay_shared_view replay_shared_look(const replay_shape *shape, int seeds, double *parameters);
DPMF_MUST_CHECK dpmf_status replay_shared_alloc(const replay_shape *shape, int seeds, replay_shared *out);
void replay_shared_free(replay_shared *s);
/* h, beta, rho, V of c, and g, L; d is set to 1. */
void replay_shared_expand(const double *parameters, replay_coefficients *c, replay_shared *s);
/* All of a mechanism: c as for replayed seeds (its `profile` is 0), and g, L for the stream. */
DPMF_MUST_CHECK dpmf_status replay_shared_create(const replay_shape *shape, int seeds, const double *parameters,
                                                 base_pool *pool, replay_coefficients *c, replay_shared *out);

/* y = C x, n + b l numbers, and x = W y (C as in object.c). */
DPMF_MUST_CHECK dpmf_status replay_shared_apply(const replay_coefficients *c, const replay_shared *s, const double *x,
                                                double *y);
void replay_shared_solve(const replay_coefficients *c, const replay_shared *s, const double *y, double *x);

/* ---- error.c: its errors, and what their derivatives need of the way there ---- */

/* State of the workload (o, or o and m) and the buffers, m numbers; o first. */
typedef struct replay_error {
    int heads, states;  /* 1 or 2; heads + r */
    double *drive;      /* by step, x 4: beta, keep, p, g of the workload */
    double *power;      /* (b+1) x r: rho^p */
    double *phi, *psi;  /* k x (b+1) x heads x m: the workload's rows of the transitions, as in the filter */
    double *w;          /* by step, x m: psi_{p+1} times the input */
    double *through;    /* k x k x m x m: [f][e] from the end of epoch e to the start of epoch f > e */
    double *whole;      /* k x m x m: from the start of an epoch to its end */
    double *omega;      /* by step, x m: Cov(state at the start of the epoch, u_t) */
    double *gamma;      /* by step, x m: Cov(state, u_t) */
    double *covariance; /* (k b + 1) x m x m: Cov(state) before step t */
    double *squares;    /* by step: |B[t,:]|^2, B = A W; 0 past n */
} replay_error;

DPMF_MUST_CHECK dpmf_status replay_error_alloc(const dpmf_workload *workload, const replay_shape *shape,
                                               replay_error *out);
void replay_error_free(replay_error *e);
/* From h, beta, rho, d and V of c. */
DPMF_MUST_CHECK dpmf_status replay_error_fill(const replay_coefficients *c, base_pool *pool, replay_error *e);
/* K (row-major, heads x heads) and c of step t: the workload's rows of a step are (K, c h') on the state, c on u. */
typedef struct replay_error_head {
    double k[4], c[2];
} replay_error_head;

replay_error_head replay_error_head_at(const replay_error *e, const replay_coefficients *c, int64_t t);

/* function(heads, buffers, ...) with the usual numbers compiled in: the loops unroll, a factor of two to three. */
#define REPLAY_USUAL(function, heads, buffers, ...)                                                                    \
    do {                                                                                                               \
        if ((buffers) == 4 && (heads) == 1)                                                                            \
            function(1, 4, __VA_ARGS__);                                                                               \
        else if ((buffers) == 4)                                                                                       \
            function(2, 4, __VA_ARGS__);                                                                               \
        else                                                                                                           \
            function(heads, buffers, __VA_ARGS__);                                                                     \
    } while (0)

/* All of it in one call: n squared row norms of B. Named workloads. */
DPMF_MUST_CHECK dpmf_status replay_errors(const dpmf_workload *workload, const replay_coefficients *c, base_pool *pool,
                                          double *per_step);

#define REPLAY_CLASS "tvblt-replayed"

typedef struct replay_parts {
    replay_coefficients c;
    replay_shared shared; /* seeds = 0: earlier epochs' seeds are replayed */
    double *blocks;       /* pairs: X within the classes */
    int64_t count;
    double *parameters, *nodes; /* as a file holds them */
} replay_parts;

typedef struct replay_object {
    dpmf_strategy base;
    replay_parts parts;
} replay_object;

/* The parts of a strategy that is of this class. */
const replay_parts *replay_of(const dpmf_strategy *s);

/* seeds = 0: replayed; else the number of shared class seeds. */
DPMF_MUST_CHECK dpmf_status replay_make(const replay_shape *shape, int seeds, const double *parameters, base_pool *pool,
                                        dpmf_strategy **out);

DPMF_MUST_CHECK dpmf_status replay_read(const strategy_source *source, dpmf_strategy **out);

/* Under its own cyclic participation, or a multiple of it. */
DPMF_MUST_CHECK dpmf_status replay_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                                               sensitivity_found *out);
/* The family tvblt under several participations. */
DPMF_MUST_CHECK dpmf_status replay_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);

/* The best one for a named workload under cyclic participation: the search, the loss, and its gradient by adjoints. */

/* Derivatives of the loss by what is named; "x" stands for a quantity of families/replay/replay.h. */
typedef struct replay_adjoint {
    double *h, *beta;      /* by step, x r */
    double *profile;       /* by step */
    double *scale;         /* by step: sum over the epochs for d */
    double *rho;           /* items x r, to be summed in order; items = pairs + epochs */
    double *covariance;    /* pairs: V */
    double *precision;     /* pairs: P, what comes through V; after the pairs (evaluate): all of it */
    double *through_zeta;  /* k x k x b: P, what comes through zeta[a][c+1] at [a][c+1] */
    double *values;        /* pairs: the wanted X (solve), or given: the X found (evaluate) */
    double *zeta;          /* k x k x b x r */
    double *gram;          /* pairs x r x r: O at the end of the epoch */
    double *q, *w;         /* by step, x r */
    double *psi;           /* k x (b+1) x r x r */
    double *whole;         /* k x r x r: Z of F^-1 */
    double *squares;       /* by step: the errors; given */
    double *gamma, *omega; /* by step, x m */
    double *error_w;       /* by step, x m */
    double *error_through; /* k x k x m x m */
    double *error_whole;   /* k x m x m */
} replay_adjoint;

/* Everything that an evaluation needs, allocated once. */
typedef struct replay_work {
    base_pool *pool;     /* may be NULL */
    const dpmf_run *run; /* asked several times in an evaluation, which can take seconds; may be NULL */
    replay_coefficients c;
    replay_filter filter;
    replay_gram gram;
    replay_error error;
    replay_adjoint adjoint;
    const double *weights; /* n weights of the squared errors, or NULL: ones */
    double norm;           /* 1: RMS; p > 1: the p-norm of the squared errors, for max loss */
    double *parameters;
    double *scales; /* parameter = scale x unknown of the search */
} replay_work;

DPMF_MUST_CHECK dpmf_status replay_work_create(const dpmf_workload *workload, const replay_shape *shape,
                                               base_pool *pool, replay_work *out);
void replay_work_free(replay_work *w);

/* log of (mean of weight x squared error^norm)^(1/(2 norm)); INFINITY: no mechanism has the parameters. `gradient` or NULL. */
DPMF_MUST_CHECK dpmf_status replay_loss(replay_work *w, const double *parameters, double *loss, double *gradient);

/* The loss of what was evaluated last: RMS or the largest. */
double replay_rms(const replay_work *w);
double replay_largest(const replay_work *w);

/* Does the caller want to go on? Between the parts of an evaluation. */
DPMF_MUST_CHECK dpmf_status replay_ask(const replay_work *w);

/* Parts of it, for shared class seeds: log of the loss from the errors, with its derivatives by them; zeros; logits of rho. */
double replay_loss_of_errors(replay_work *w);
void replay_adjoint_clear(replay_work *w);
void replay_rho_adjoint(replay_work *w, double *logit);

/* ---- adjoints, each of one file of the strategy: they add to what is there unless said otherwise ---- */

DPMF_MUST_CHECK dpmf_status replay_error_adjoint(replay_work *w);
/* precision <- from covariance (by = 0), or covariance += from precision (by = 1), through P V = I. */
DPMF_MUST_CHECK dpmf_status replay_class_adjoint(replay_work *w, int by);
DPMF_MUST_CHECK dpmf_status replay_pairs_adjoint(replay_work *w, int solve);
DPMF_MUST_CHECK dpmf_status replay_filter_adjoint(replay_work *w);

/* w->scales, which make the curvature of the loss about the same in all unknowns near w->parameters. */
void replay_scale(replay_work *w);

typedef struct replay_options {
    int max_loss;
    int buffers;           /* 1 to 12, or 0: the fewest whose loss is at most wanted_ratio x lower */
    int density;           /* nodes per octave, 0 means 1; with buffers = 0, 2 is tried as well */
    double wanted_ratio;   /* above 1 */
    double settled;        /* with buffers = 0: 0, or the best is taken when a buffer gains less than this part */
    double lower;          /* a lower bound on the loss of any mechanism; may be 0 if buffers > 0 */
    int iterations;        /* at most, of each stage of the search; 0 means 400 */
    double decrease;       /* stop when ten steps gain less than this part of the loss; 0 means 1e-5 */
    double enough;         /* RMS: stop at this loss; 0: never */
    const double *weights; /* RMS: n weights of the squared errors, or NULL */
    const dpmf_run *run;   /* may be NULL */
    base_pool *pool;       /* may be NULL */
} replay_options;

typedef struct replay_result {
    replay_shape shape; /* with the parameters, what replay_create takes */
    double *parameters;
    double loss; /* RMS or largest error, at sensitivity 1 */
    int iterations, evaluations, converged;
} replay_result;

/* n steps, period b; the workload has n steps and is a named one. */
DPMF_MUST_CHECK dpmf_status replay_search(const dpmf_workload *workload, int64_t period, const replay_options *options,
                                          replay_result *out);
void replay_result_free(replay_result *result);

/* ---- shared class seeds (optimize.c): 1 + l normal numbers per number of noise, however many epochs ---- */

typedef struct replay_shared_work {
    replay_work base; /* its parameters and scales are not used */
    replay_shared shared;
    double *multiplier; /* pairs: m */
    double smoothing;   /* eps; 0: |x| itself */
    double *scales, *parameters;
    double *weight_bar; /* within an evaluation */
} replay_shared_work;

DPMF_MUST_CHECK dpmf_status replay_shared_work_alloc(const dpmf_workload *workload, const replay_shape *shape,
                                                     int seeds, base_pool *pool, replay_shared_work *out);
void replay_shared_work_free(replay_shared_work *s);

/* log of the loss at these parameters (INFINITY: none), with the smoothed sensitivity. gradient may be NULL. */
DPMF_MUST_CHECK dpmf_status replay_shared_loss(replay_shared_work *s, const double *parameters, double *loss,
                                               double *gradient);

/* s->parameters from a mechanism with replayed seeds and the parameters it came from; and s->scales. */
DPMF_MUST_CHECK dpmf_status replay_shared_start(const replay_coefficients *c, double *parameters,
                                                replay_shared_work *s);

typedef struct replay_shared_result {
    replay_shape shape;
    int seeds;
    double *parameters; /* what replay_shared_create takes */
    double loss;        /* at a sensitivity of at most 1 */
    int evaluations;
} replay_shared_result;

/* The options' buffers are needed; max_loss is refused. */
DPMF_MUST_CHECK dpmf_status replay_shared_search(const dpmf_workload *workload, int64_t period, int seeds,
                                                 const replay_options *options, replay_shared_result *out);
void replay_shared_result_free(replay_shared_result *result);

#endif
