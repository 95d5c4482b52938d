/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize, Toeplitz families: what their parts share. c_0, ..., c_{bands-1} is the first column of C, and
 *
 *     loss^2 = S(c) E(c),   S the squared sensitivity,   E = sum_i u_i w_i^2,   w = C^-1 (A e_0)
 *
 * with u_i = 1 for the max loss, (n-i)/n for the RMS loss, sum_{t>=i} p_t / n with weights (McKenna 2024, Propositions
 * 3.1 and D.1).
 */
#ifndef DPMF_FAMILIES_TOEPLITZ_H
#define DPMF_FAMILIES_TOEPLITZ_H

#include "base/minimize.h"
#include "kernels/toeplitz/toeplitz.h"
#include "optimize/optimize.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

/* ---- E for Toeplitz workloads, and for matrices: error.c ---- */

typedef struct toeplitz_error {
    const dpmf_workload *workload; /* borrowed */
    int64_t n, bands;
    int rms;              /* u_i = (n-i)/n, else 1 */
    double *weights;      /* u_i if given, else NULL */
    int by_transforms;    /* many bands: FFT */
    int steady;           /* w settles to x k^i, which is taken out of the sum */
    double k, steady_sum; /* its rate, and sum_i u_i k^2i */
    int64_t room;         /* of each of the four arrays below */
    double *forcing, *response, *source, *adjoint;
    double *first_column; /* of A; NULL where it is not needed */
    double *tail;         /* bands numbers */
    kernels_toeplitz_table table;
    int64_t used;    /* how many w_i the last value took */
    double *squares; /* of another loss than RMS and max: the squared errors; NULL: none */
    double *form;    /* n E = h' form h, h = 1/c, for a matrix that is not Toeplitz; else NULL */
} toeplitz_error;

/* Its form, n x n, for the caller to free, and the product with it. */
enum { TOEPLITZ_FORM_MAX = 4096 };
DPMF_MUST_CHECK dpmf_status toeplitz_form_create(const dpmf_workload *workload, double **out);
void toeplitz_form_apply(int64_t n, const double *form, const double *h, double *out);

/* Is the error of Toeplitz strategies known as such a form, for this loss and these weights? */
static inline int toeplitz_has_form(const optimize_task *task) {
    return task->workload->form == WORKLOAD_DENSE && task->options->loss == DPMF_LOSS_RMS &&
           task->options->weights == NULL;
}

DPMF_MUST_CHECK dpmf_status toeplitz_error_create(const dpmf_workload *workload, int64_t bands, dpmf_loss loss,
                                                  const double *weights, toeplitz_error *out);
void toeplitz_error_free(toeplitz_error *e);

/* E and, unless NULL, dE/dc. Coefficients that diverge give *value = INFINITY and no gradient. */
DPMF_MUST_CHECK dpmf_status toeplitz_error_value(toeplitz_error *e, const double *c, double *value, double *gradient);

/*
 * Any other loss f of the squared errors S sum_{i<=t} w_i^2: its value, its derivative by S, and unless NULL by c. The error must
 * have been created for such a loss. INFINITY where c diverges, or f has no finite value.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_error_loss(toeplitz_error *e, const problem_loss *loss, double square,
                                                const double *c, double *value, double *by_square, double *gradient);

double toeplitz_weight(const toeplitz_error *e, int64_t i);

/* ---- S: error.c ---- */

/*
 * The squared norm of the sum of the columns 0, b, ..., (k-1) b of C, and its gradient (or NULL). It is the squared
 * sensitivity for bands <= b and any signs; under cyclic and full participation for c >= 0; under min-separation
 * for c >= 0 that does not rise (Pillutla et al. 2025, Eq. 3.25).
 */
typedef struct toeplitz_pattern {
    int64_t n, k, b;
} toeplitz_pattern;

DPMF_MUST_CHECK dpmf_status toeplitz_pattern_of(const dpmf_participation *participation, int64_t n,
                                                toeplitz_pattern *out);
DPMF_MUST_CHECK dpmf_status toeplitz_square(const toeplitz_pattern *pattern, int64_t bands, const double *c,
                                            double *value, double *gradient);

/* ---- S for patterns from a file: listed.c ---- */

enum { TOEPLITZ_LISTED_MAX = 64 }; /* patterns that are looked at in one round */

typedef struct toeplitz_listed {
    const dpmf_participation *p;
    int64_t n;
    double sharpness; /* tau */
    int count;        /* patterns of this round */
    int64_t which[TOEPLITZ_LISTED_MAX];
    double multiplier[TOEPLITZ_LISTED_MAX];
    double *memory, *sums, *c, *by_c; /* c and by_c: n numbers each, for callers */
    double *values;                   /* of all patterns, for _renew */
} toeplitz_listed;

DPMF_MUST_CHECK dpmf_status toeplitz_listed_create(const dpmf_participation *participation, int64_t bands,
                                                   toeplitz_listed *out);
void toeplitz_listed_free(toeplitz_listed *l);

/* The smooth maximum of S over the patterns of this round, c >= 0 or columns of one pattern apart; its gradient. */
DPMF_MUST_CHECK dpmf_status toeplitz_listed_square(toeplitz_listed *l, int64_t bands, const double *c, double *value,
                                                   double *gradient);

/* Ends a round: the largest S of all patterns, new multipliers, and new patterns among those of the next round. */
DPMF_MUST_CHECK dpmf_status toeplitz_listed_update(toeplitz_listed *l, int64_t bands, const double *c, double *largest);
void toeplitz_listed_renew(toeplitz_listed *l, double *largest); /* the same from l->values, which it destroys */

/* ---- S for coefficients of any sign: columns.c ---- */

enum { TOEPLITZ_MIXED_STEPS_MAX = 1024, TOEPLITZ_MIXED_COUNT_MAX = 32 };

typedef struct toeplitz_mixed {
    toeplitz_pattern pattern;
    double mu;           /* how smooth */
    int proven;          /* the value is an upper bound of S, not S_mu */
    int warm;            /* d is that of a point nearby */
    double lead;         /* the least value of searches so far at the stage where they are compared */
    double *memory;      /* all of the arrays below */
    double *x, *y;       /* k x k: X on the first pattern, the best Y */
    double *hessian;     /* k x k */
    double *d;           /* k: sum d >= S */
    double *slope, *lag; /* k */
} toeplitz_mixed;

/* Cyclic or full participation, several times, and small enough for the search? */
int toeplitz_mixed_fits(const dpmf_participation *participation, int64_t n);

DPMF_MUST_CHECK dpmf_status toeplitz_mixed_create(const toeplitz_pattern *pattern, toeplitz_mixed *out);
void toeplitz_mixed_free(toeplitz_mixed *m);

/* S_mu, or the upper bound, and its gradient unless NULL. INFINITY where c is no use. */
DPMF_MUST_CHECK dpmf_status toeplitz_mixed_square(toeplitz_mixed *m, int64_t bands, const double *c, double *value,
                                                  double *gradient);

/*
 * Minimizes an objective that uses m, with mu falling; out->f is the value with the proven S. INFINITY, and x as it has
 * become, where the start is outside the domain, or where the search was given up: it would not have come below an
 * earlier one of the same objective with the same m.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_mixed_descend(toeplitz_mixed *m, const base_objective *objective,
                                                   const dpmf_run *run, double *x, base_minimum *out);

/*
 * Its parts. One stage, for one mu: out->f is INFINITY where the start is outside the domain. The last stages, from `first_mu`
 * on, each with a limit on its iterations, and the value with the proven S.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_mixed_stage(toeplitz_mixed *m, const base_objective *objective,
                                                 const dpmf_run *run, double mu, double decrease, int iterations,
                                                 double *x, base_minimum *out);
DPMF_MUST_CHECK dpmf_status toeplitz_mixed_finish(toeplitz_mixed *m, const base_objective *objective,
                                                  const dpmf_run *run, double first_mu, int iterations, double *x,
                                                  base_minimum *out);

/* ---- E for schedules and normalized columns: columns.c ---- */

enum { TOEPLITZ_COLUMNS_MAX = 8192 };                          /* steps: O(n^2) in general */
static const double TOEPLITZ_COLUMNS_WORK = (double)(1 << 29); /* steps x bands, where the workload is Toeplitz */

typedef struct toeplitz_columns {
    const dpmf_workload *workload; /* borrowed; a named one */
    int64_t n, bands;
    int normalized;                     /* columns of C divided by their norms, times |c| */
    const double *given;                /* weights p_t or NULL; borrowed */
    double sharpness;                   /* 0: RMS; else q, for the max loss */
    int64_t first;                      /* rows before it are those of a Toeplitz matrix */
    double *memory;                     /* all of the arrays below */
    double *inverse, *inverse_gradient; /* of C, with room for a block of columns before it */
    double *momentum, *response, *momentum_gradient, *response_gradient; /* of a Toeplitz workload */
    double *scale, *scale_gradient;                                      /* of each row of C^-1 */
    double *row_squares, *row_weights;                                   /* |B[t,:]|^2 and how much each counts */
    double *multipliers;                                                 /* max loss: of the rows, ones at first */
    double *outputs; /* rows first..n-1 of a block of columns of B */
    double *scratch;
    kernels_toeplitz_table table;
} toeplitz_columns;

DPMF_MUST_CHECK dpmf_status toeplitz_columns_create(const dpmf_workload *workload, int64_t bands, int normalized,
                                                    const double *weights, toeplitz_columns *out);
void toeplitz_columns_free(toeplitz_columns *e);

/*
 * E with |c|^2 (or S) left outside: sum of row weights times row squares of B, B = A D C^-1, D the column norms over
 * |c| or I. Its gradient unless NULL. INFINITY where it diverges.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_columns_value(toeplitz_columns *e, const double *c, double *value,
                                                   double *gradient);

/* After a minimum of E for the max loss: the next multipliers, and the largest row square there. */
double toeplitz_columns_sharpen(toeplitz_columns *e);

/* ---- C^-1 of few bands: inverse.c ---- */

/* ln loss and its gradient by h, task->options->bands numbers; INFINITY where it is no use. For the tests. */
DPMF_MUST_CHECK dpmf_status toeplitz_inverse_value(const optimize_task *task, double barrier, const double *h,
                                                   double *f, double *gradient);

/* ---- families without gradients: optimize.c ---- */

/* The best c_i = 1/(i+1) + shift, shift >= 0, for one participation (McKenna 2024, Appendix J); `coefficients` may be NULL. */
typedef struct toeplitz_sweep_result {
    double shift, loss;
    int evaluations;
} toeplitz_sweep_result;
DPMF_MUST_CHECK dpmf_status toeplitz_sweep(const dpmf_workload *workload, int64_t bands, dpmf_loss loss,
                                           double *coefficients, toeplitz_sweep_result *out);

/*
 * The taper for separations that are known to lie between `least` and `bands` (McKenna 2024, Appendix H): coefficient i,
 * counted from 1, is multiplied by (bands-i)/(bands-least) for i >= least. 1 <= least < bands.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_taper(int64_t bands, int64_t least, double *c);

/* Fails with `code` unless the series are proven to be each other's inverse to 1e-8 of the noise (1e-6 for long ones): object.c. */
DPMF_MUST_CHECK dpmf_status toeplitz_check_pair(int64_t steps, int64_t count, const double *c, int64_t inverse_count,
                                                const double *inverse, dpmf_status code);

DPMF_MUST_CHECK dpmf_status toeplitz_create_identity(int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_root(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                 dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_bsr(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_create_bisr(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                 dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status toeplitz_read(const strategy_source *source, dpmf_strategy **out);

/* optimize.c: the best Toeplitz C, whole or of few bands; inverse.c: the best C^-1 of few bands */
DPMF_MUST_CHECK dpmf_status toeplitz_optimize(const optimize_task *task, dpmf_strategy **out,
                                              dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status toeplitz_optimize_damped(const optimize_task *task, dpmf_strategy **out,
                                                     dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status toeplitz_optimize_banded(const optimize_task *task, dpmf_strategy **out,
                                                     dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status toeplitz_optimize_inverse(const optimize_task *task, dpmf_strategy **out,
                                                      dpmf_optimization *result);
/* optimize.c: few bands, as the options ask: the best ones, or by the sweep, tapered, with errors taken as settled */
DPMF_MUST_CHECK dpmf_status toeplitz_optimize_variant(const optimize_task *task, dpmf_strategy **out,
                                                      dpmf_optimization *result);

/* candidates.c: candidates of a design: whole C; C of few bands, Toeplitz or not, and as many as a row's time allows; C^-1 */
DPMF_MUST_CHECK dpmf_status toeplitz_candidates(dpmf_design *d);
DPMF_MUST_CHECK dpmf_status toeplitz_band_candidates(dpmf_design *d);
DPMF_MUST_CHECK dpmf_status toeplitz_bands_in_time(dpmf_design *d);
DPMF_MUST_CHECK dpmf_status toeplitz_inverse_candidates(dpmf_design *d);
struct design_federated_range;
DPMF_MUST_CHECK dpmf_status toeplitz_separated_candidates(dpmf_design *d, struct design_federated_range *f, int64_t i);
DPMF_MUST_CHECK dpmf_status toeplitz_general_separated_candidates(dpmf_design *d, struct design_federated_range *f,
                                                                  int64_t i);

#endif
