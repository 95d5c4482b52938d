/* SPDX-License-Identifier: Apache-2.0 */
/* Entries of the table of families whose folders need no header: fft, workload, dense, recurrent and the wrappers. */
#ifndef DPMF_FAMILIES_H
#define DPMF_FAMILIES_H

#include "optimize/optimize.h"
#include "strategy/strategy.h"

DPMF_MUST_CHECK dpmf_status fft_create(int64_t steps, int best, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status fft_read(const strategy_source *source, dpmf_strategy **out);

DPMF_MUST_CHECK dpmf_status workload_strategy_create(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                     dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status workload_strategy_read(const strategy_source *source, dpmf_strategy **out);

DPMF_MUST_CHECK dpmf_status wrappers_read_normalized(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status wrappers_read_stamped(const strategy_source *source, dpmf_strategy **out);

DPMF_MUST_CHECK dpmf_status dense_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status dense_create_given(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                               dpmf_strategy **out);

DPMF_MUST_CHECK dpmf_status recurrent_create_given(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                                   dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status recurrent_read(const strategy_source *source, dpmf_strategy **out);

/* The optimum under any participation: one, several, min-separation and shuffled. */
DPMF_MUST_CHECK dpmf_status dense_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status dense_candidates(dpmf_design *d);
struct design_federated_range;
DPMF_MUST_CHECK dpmf_status dense_separated_candidates(dpmf_design *d, struct design_federated_range *f, int64_t i);
DPMF_MUST_CHECK dpmf_status dense_optimize_epochs(const optimize_task *task, dpmf_strategy **out,
                                                  dpmf_optimization *result);

/* The bounds alone, cyclic and full participation, at a tolerance of their own. */
DPMF_MUST_CHECK dpmf_status dense_optimize_bound(const optimize_task *task, double tolerance,
                                                 dpmf_optimization *result);

#endif
