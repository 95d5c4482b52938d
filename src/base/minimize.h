/* SPDX-License-Identifier: Apache-2.0 */
/* Unconstrained minimization of a smooth function by limited-memory BFGS. */
#ifndef DPMF_BASE_MINIMIZE_H
#define DPMF_BASE_MINIMIZE_H

#include "base/descent/lbfgs.h"
#include "base/status.h"

/*
 * value: f and its gradient at x. Outside the domain, f = INFINITY (the gradient is then not read): the line search
 * turns back. NaN counts as infinity.
 */
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
    /*
     * NULL, or the caller's own stopping rule. It is called after every step with the objective's context, may evaluate
     * anything, and sets *end to stop there. `gradient` is the norm.
     */
    dpmf_status (*enough)(void *context, const double *x, double gradient, int *end);
    /*
     * NULL, or the caller's memory for as many unknowns: the search starts with the pairs that an earlier search of a
     * similar function left there, and leaves its own.
     */
    descent_lbfgs *memory;
} base_minimize_options;

typedef struct base_minimum {
    double f;
    double gradient; /* its norm */
    int iterations;
    int evaluations;
    int converged; /* one of the two rules was met, or no step down can be resolved any more in double precision */
} base_minimum;

/* From x, which becomes the best point. f(x) must be finite: DPMF_ERROR_NUMERICAL otherwise. x is unchanged on failure.
 */
DPMF_MUST_CHECK dpmf_status base_minimize(const base_objective *objective, const base_minimize_options *options,
                                          double *x, base_minimum *out);

#endif
