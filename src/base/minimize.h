/* SPDX-License-Identifier: Apache-2.0 */
/* Unconstrained minimization of a smooth function by limited-memory BFGS. */
#ifndef DPMF_BASE_MINIMIZE_H
#define DPMF_BASE_MINIMIZE_H

#include "base/status.h"

/* Limited-memory BFGS: the direction alone; the caller searches along it and stops. */
enum { MINIMIZE_LBFGS_PAIRS_MAX = 160 };

typedef struct minimize_lbfgs {
    int64_t n;
    int pairs;                                /* capacity */
    int used;                                 /* pairs held */
    int64_t turn;                             /* where the next one goes, modulo pairs */
    int64_t stride;                           /* from one vector to the next */
    double *vectors;                          /* x_{k+1} - x_k of every pair, then the same of the gradients */
    double length;                            /* of the newest pair's change */
    double product[MINIMIZE_LBFGS_PAIRS_MAX]; /* step . change > 0 */
} minimize_lbfgs;

/* 1 <= pairs <= MINIMIZE_LBFGS_PAIRS_MAX */
DPMF_MUST_CHECK dpmf_status minimize_lbfgs_create(int64_t n, int pairs, minimize_lbfgs *out);
void minimize_lbfgs_free(minimize_lbfgs *memory);
void minimize_lbfgs_forget(minimize_lbfgs *memory);

/* direction = - H gradient, H the estimate of the inverse Hessian; minus the gradient itself when nothing is held. */
void minimize_lbfgs_direction(const minimize_lbfgs *memory, const double *gradient, double *direction);

/* Stores a step from (x, gradient) to (next, next_gradient); a pair that shows no positive curvature is dropped. */
void minimize_lbfgs_remember(minimize_lbfgs *memory, const double *x, const double *gradient, const double *next,
                             const double *next_gradient);

/* value: f and its gradient at x. Outside the domain f is INFINITY or NaN, the gradient is not read, the search turns back. */
typedef struct base_objective {
    int64_t count;
    void *context;
    dpmf_status (*value)(void *context, const double *x, double *f, double *gradient);
} base_objective;

typedef struct base_minimize_options {
    double gradient;  /* stop when |gradient| <= this x max(1, |x|) */
    double decrease;  /* or when f fell by less than this part of itself over `past` steps; 0: never */
    int past;         /* 0 means 5 */
    int iterations;   /* at most */
    int pairs;        /* of the memory, 0 means 10; not read where there is a memory already */
    const char *what; /* for the progress callback, with f and the step appended; NULL: silent, cannot be cancelled */
    const dpmf_run *run;
    /* NULL, or the caller's stopping rule after each step: may evaluate anything, sets *end to stop. `gradient` is the norm. */
    dpmf_status (*enough)(void *context, const double *x, double gradient, int *end);
    /* NULL, or the caller's memory of as many unknowns: the search starts with the pairs that are in it and leaves its own. */
    minimize_lbfgs *memory;
} base_minimize_options;

typedef struct base_minimum {
    double f;
    double gradient; /* its norm */
    int iterations;
    int evaluations;
    int converged; /* one of the two rules was met, or no step down can be resolved any more in double precision */
} base_minimum;

/* From x, which becomes the best point; unchanged on failure. Where f(x) is not finite: DPMF_ERROR_NUMERICAL. */
DPMF_MUST_CHECK dpmf_status base_minimize(const base_objective *objective, const base_minimize_options *options,
                                          double *x, base_minimum *out);

/* A search along a line for a step that lowers phi(step) = f(x + step d) and flattens it enough; the caller evaluates phi. */
typedef struct minimize_line_point {
    double step, value, slope;
} minimize_line_point;

typedef struct minimize_line_search {
    minimize_line_point start;       /* step 0 */
    minimize_line_point best, other; /* the ends of the interval; other is the start until there is one */
    double width, width_before;      /* of the interval now and one trial before */
    double next;                     /* the step to try */
    int bracketed;                   /* the interval holds a minimum */
    int early; /* no trial has met the first condition while rising enough: phi - MU phi'(0) step is searched */
    int trials;
} minimize_line_search;

typedef enum minimize_line_end {
    MINIMIZE_LINE_GOES_ON, /* search->next is to be tried */
    MINIMIZE_LINE_FOUND,   /* the last trial meets both conditions */
    MINIMIZE_LINE_STUCK    /* the interval cannot be divided any more, or too many trials */
} minimize_line_end;

/* value and slope < 0 at step 0; `step` > 0 is the first to try. */
void minimize_line_start(minimize_line_search *search, double value, double slope, double step);

/* Reports the value and slope at search->next. */
minimize_line_end minimize_line_take(minimize_line_search *search, double value, double slope);

/* Reports that phi is infinite or NaN at search->next, an end that is never accepted: a parabola, the start's slope turned. */
minimize_line_end minimize_line_take_wall(minimize_line_search *search);

#endif
