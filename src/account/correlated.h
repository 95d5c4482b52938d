/* SPDX-License-Identifier: Apache-2.0 */
/* Balls in bins with correlated noise, without simulation: certified upper bounds from the Gram matrix of the bins. */
#ifndef DPMF_ACCOUNT_CORRELATED_H
#define DPMF_ACCOUNT_CORRELATED_H

#include "account/grid/product.h"
#include "account/montecarlo/montecarlo.h"

/* A scheme of kind bins, entries of the Gram matrix not negative; both directions. */
DPMF_MUST_CHECK dpmf_status account_correlated_epsilon(const montecarlo_scheme *scheme, double log_delta,
                                                       const grid_list_options *how, double *epsilon, int *met);
DPMF_MUST_CHECK dpmf_status account_correlated_log_delta(const montecarlo_scheme *scheme, double epsilon,
                                                         const grid_list_options *how, double *log_delta, int *met);
/* A sigma (in the scheme's own unit) that is enough, near the least; the scheme's own does not matter. */
DPMF_MUST_CHECK dpmf_status account_correlated_sigma(const montecarlo_scheme *scheme, double epsilon, double log_delta,
                                                     const grid_list_options *how, double *sigma);

#endif
