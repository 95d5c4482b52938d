/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimum under cyclic participation with weaker constraints on X = C'C than zeros between the steps of one unit.
 */
#ifndef DPMF_OPTIMUM_EPOCHS_FORMS_H
#define DPMF_OPTIMUM_EPOCHS_FORMS_H

#include "base/status.h"

enum { EPOCHS_NON_NEGATIVE_STEPS_MAX = 256, EPOCHS_CORNERS_STEPS_MAX = 64, EPOCHS_CORNERS_COUNT_MAX = 8 };

typedef struct epochs_forms_task {
    const dpmf_workload *workload;
    int64_t k, b;
    dpmf_constraint constraint; /* not ZERO */
    int max_loss;
    const double *weights; /* RMS: NULL or positive */
    double tolerance;
    const dpmf_run *run;
} epochs_forms_task;

typedef struct epochs_forms_answer {
    double lower, upper; /* on the total squared loss, or the squared max loss */
    int iterations, converged;
    double *c; /* n x n, lower triangular, the mechanism of `upper`; the caller frees it */
} epochs_forms_answer;

DPMF_MUST_CHECK dpmf_status epochs_forms_solve(const epochs_forms_task *task, epochs_forms_answer *out);

#endif
