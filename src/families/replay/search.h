/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best TV-BLT with replayed seeds (families/replay/replay.h) for a named workload under cyclic participation: the
 * loss and its gradient by hand-written adjoints, and the search.
 */
#ifndef DPMF_FAMILIES_REPLAY_SEARCH_H
#define DPMF_FAMILIES_REPLAY_SEARCH_H

#include "families/replay/replay.h"

/* ---- loss.c ---- */

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

/*
 * log of the loss, (mean of weight x squared error^norm)^(1/(2 norm)), at parameters; INFINITY where no mechanism has
 * them. `gradient` by the parameters, or NULL.
 */
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

/* ---- search.c: the start ---- */

/* w->scales, which make the curvature of the loss about the same in all unknowns near w->parameters. */
void replay_scale(replay_work *w);

/* ---- search.c ---- */

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
