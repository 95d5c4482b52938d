/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT: what the construction (families/tvblt/build.c) and the tuning (families/tvblt/optimize.c) know of each other. */
#ifndef DPMF_OPTIMIZE_TVBLT_H
#define DPMF_OPTIMIZE_TVBLT_H

#include "families/tvblt/tvblt.h"
#include "workload/workload.h"

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
/* Room for the coefficients of exactly so many nodes, 1 or more; what was there is lost. */
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
 * The filter improved for this problem, from near, by so many steps of Newton's method at most; its excess. With a model of a
 * run of another length, whose Hessian is nearly this one's, a step takes a gradient alone; else the model is filled.
 */
DPMF_MUST_CHECK dpmf_status tvblt_polish(tvblt_tuner *u, int steps, tvblt_model *model, tvblt_filter *filter,
                                         double *excess);
/* From the filters of runs of n, 4n, and perhaps 16n steps that of the next one, by their logarithms. */
void tvblt_extrapolate(int count, const tvblt_filter *at, tvblt_filter *out);

/* Multiplies the noise of step t by d_t, so that columns of C have norm 1. */
void tvblt_normalize(tvblt_parameters *c, const double *d);

#endif
