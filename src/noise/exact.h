/* SPDX-License-Identifier: Apache-2.0 */
/* The exact release: what its roundings add to the sensitivity (noise/exact.c over noise/exact_bounds.c). */
#ifndef DPMF_NOISE_EXACT_H
#define DPMF_NOISE_EXACT_H

#include "noise/plan.h"

/* DPMF_ERROR_UNSUPPORTED: the guarantee of this sampling does not cover the exact release of this route. */
DPMF_MUST_CHECK dpmf_status noise_exact_covers(const noise_plan *plan, const dpmf_sampling *sampling,
                                               dpmf_adjacency adjacency);

#endif
