/* SPDX-License-Identifier: Apache-2.0 */
/* Lower bounds: the nuclear norms behind them, and the names of their scopes, which a mechanism file spells out. */
#ifndef DPMF_BOUND_H
#define DPMF_BOUND_H

#include "base/status.h"
#include "workload/workload.h"

/* Weights of the steps: finite, not negative, not all zero. */
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_check_weights(int64_t steps, const double *weights);

/* The constant equal to `text` among the scopes of lower bounds, or NULL. */
const char *dpmf_i_optimum_lower_bound_scope(const char *text);

/*
 * bound_nuclear.c. A number that the nuclear norm of diag(sqrt(weights)) A is not below, whatever the rounding; 0 where
 * none is known. `weights` may be NULL, and so may `run`.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_nuclear_norm(const dpmf_workload *a, const double *weights,
                                                        const dpmf_run *run, double *out);

/* The routes to it, for those who know which they want. */
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_nuclear_prefix(int64_t steps, const dpmf_run *run, double *out);
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_nuclear_banded(const dpmf_workload *a, const double *weights, double *out);
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_nuclear_dense(const dpmf_workload *a, const double *weights, double *out);
DPMF_MUST_CHECK dpmf_status dpmf_i_optimum_nuclear_averaged(const dpmf_workload *a, double *out);

#endif
