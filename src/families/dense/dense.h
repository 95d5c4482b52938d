/* SPDX-License-Identifier: Apache-2.0 */
/* Any lower-triangular C, and the best of them. */
#ifndef DPMF_FAMILIES_DENSE_H
#define DPMF_FAMILIES_DENSE_H

#include "optimize/optimize.h"
#include "strategy/strategy.h"

DPMF_MUST_CHECK dpmf_status dense_read(const strategy_source *source, dpmf_strategy **out);

/* The optimum under any participation: one, several (epochs.c), min-separation and shuffled (patterns.c). */
DPMF_MUST_CHECK dpmf_status dense_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status dense_candidates(dpmf_design *d);
DPMF_MUST_CHECK dpmf_status dense_optimize_epochs(const optimize_task *task, dpmf_strategy **out,
                                                  dpmf_optimization *result);

/* The bounds alone, cyclic and full participation, at a tolerance of their own. */
DPMF_MUST_CHECK dpmf_status dense_optimize_bound(const optimize_task *task, double tolerance,
                                                 dpmf_optimization *result);

#endif
