/* SPDX-License-Identifier: Apache-2.0 */
/* Strategies around any other: columns normalized, and repeated, restarted each time; as a mechanism file has them. */
#ifndef DPMF_FAMILIES_WRAPPERS_H
#define DPMF_FAMILIES_WRAPPERS_H

#include "strategy/strategy.h"

DPMF_MUST_CHECK dpmf_status wrappers_read_normalized(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status wrappers_read_stamped(const strategy_source *source, dpmf_strategy **out);

#endif
