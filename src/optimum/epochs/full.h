/* SPDX-License-Identifier: Apache-2.0 */
/* The optimum under full participation with X = C'C diagonal (Pillutla et al. 2025, Proposition 4.9). */
#ifndef DPMF_OPTIMUM_EPOCHS_FULL_H
#define DPMF_OPTIMUM_EPOCHS_FULL_H

#include "base/status.h"

typedef struct epochs_full_optimum {
    double *diagonal;    /* of C: n numbers > 0, squares summing to 1; the caller frees it */
    double lower, upper; /* on the total squared loss, or the squared max loss */
    int iterations, converged;
} epochs_full_optimum;

/* Max loss: up to 8192 steps. weights: NULL or positive, RMS only. */
DPMF_MUST_CHECK dpmf_status epochs_full_solve(const dpmf_workload *workload, int max_loss, const double *weights,
                                              double tolerance, const dpmf_run *run, epochs_full_optimum *out);

#endif
