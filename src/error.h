/* SPDX-License-Identifier: Apache-2.0 */
/* The routes to the row norms of B = A C^-1; error.c chooses among them. Each fills per_step with |B[t,:]|^2. */
#ifndef DPMF_ERROR_H
#define DPMF_ERROR_H

#include "base/status.h"

/* error_recursion.c: covariance recursions for named workloads, O(n b) and O(n b^2). */
DPMF_MUST_CHECK dpmf_status dpmf_i_error_filtered(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                                  double *per_step);
DPMF_MUST_CHECK dpmf_status dpmf_i_error_fed_back(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                                  double *per_step);

/* error_columns.c: impulse responses, O(n^2) time and O(n) memory; and whole matrices with BLAS. */
DPMF_MUST_CHECK dpmf_status dpmf_i_error_columns(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                                 double *per_step);
DPMF_MUST_CHECK dpmf_status dpmf_i_error_dense(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                               double *per_step);

#endif
