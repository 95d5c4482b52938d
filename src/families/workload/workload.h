/* SPDX-License-Identifier: Apache-2.0 */
/* Output perturbation, C = A (families/workload/workload.c). */
#ifndef DPMF_FAMILIES_WORKLOAD_H
#define DPMF_FAMILIES_WORKLOAD_H

#include "strategy/strategy.h"

DPMF_MUST_CHECK dpmf_status workload_strategy_create(const dpmf_workload *workload, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status workload_strategy_read(const strategy_source *source, dpmf_strategy **out);

#endif
