/* SPDX-License-Identifier: Apache-2.0 */
/* Limited-memory BFGS: the direction alone; the caller searches along it and stops. */
#ifndef DPMF_BASE_DESCENT_LBFGS_H
#define DPMF_BASE_DESCENT_LBFGS_H

#include "base/status.h"

enum { DESCENT_LBFGS_PAIRS_MAX = 160 };

typedef struct descent_lbfgs {
    int64_t n;
    int pairs;                               /* capacity */
    int used;                                /* pairs held */
    int64_t turn;                            /* where the next one goes, modulo pairs */
    int64_t stride;                          /* from one vector to the next */
    double *vectors;                         /* x_{k+1} - x_k of every pair, then the same of the gradients */
    double length;                           /* of the newest pair's change */
    double product[DESCENT_LBFGS_PAIRS_MAX]; /* step . change > 0 */
} descent_lbfgs;

/* 1 <= pairs <= DESCENT_LBFGS_PAIRS_MAX */
DPMF_MUST_CHECK dpmf_status descent_lbfgs_create(int64_t n, int pairs, descent_lbfgs *out);
void descent_lbfgs_free(descent_lbfgs *memory);
void descent_lbfgs_forget(descent_lbfgs *memory);

/* direction = - H gradient, H the estimate of the inverse Hessian; minus the gradient itself when nothing is held. */
void descent_lbfgs_direction(const descent_lbfgs *memory, const double *gradient, double *direction);

/* Stores a step from (x, gradient) to (next, next_gradient); a pair that shows no positive curvature is dropped. */
void descent_lbfgs_remember(descent_lbfgs *memory, const double *x, const double *gradient, const double *next,
                            const double *next_gradient);

#endif
