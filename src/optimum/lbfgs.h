/* SPDX-License-Identifier: Apache-2.0 */
/* Limited-memory BFGS: the direction alone; the caller searches along it and stops. */
#ifndef DPMF_OPTIMUM_LBFGS_H
#define DPMF_OPTIMUM_LBFGS_H

#include "base/status.h"

enum { DPMF_I_OPTIMUM_LBFGS_PAIRS = 10 };

typedef struct dpmf_i_optimum_lbfgs {
    int64_t n;
    int used;     /* pairs held */
    int64_t turn; /* where the next one goes, modulo DPMF_I_OPTIMUM_LBFGS_PAIRS */
    double *step[DPMF_I_OPTIMUM_LBFGS_PAIRS],
        *change[DPMF_I_OPTIMUM_LBFGS_PAIRS];    /* x_{k+1} - x_k and the same of the gradients */
    double product[DPMF_I_OPTIMUM_LBFGS_PAIRS]; /* step . change > 0 */
} dpmf_i_optimum_lbfgs;

DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_lbfgs_create(int64_t n, dpmf_i_optimum_lbfgs *out);
void dpmf_i_optimum_lbfgs_free(dpmf_i_optimum_lbfgs *memory);
void dpmf_i_optimum_lbfgs_forget(dpmf_i_optimum_lbfgs *memory);

/* direction = - H gradient, H the estimate of the inverse Hessian; minus the gradient itself when nothing is held. */
void dpmf_i_optimum_lbfgs_direction(const dpmf_i_optimum_lbfgs *memory, const double *gradient, double *direction);

/* Takes in a step from (x, gradient) to (next, next_gradient); a pair that shows no positive curvature is dropped. */
void dpmf_i_optimum_lbfgs_remember(dpmf_i_optimum_lbfgs *memory, const double *x, const double *gradient,
                                   const double *next, const double *next_gradient);

#endif
