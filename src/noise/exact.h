/* SPDX-License-Identifier: Apache-2.0 */
/* The exact release: what its roundings add to the sensitivity (noise/exact.c over noise/exact_bounds.c). */
#ifndef DPMF_NOISE_EXACT_H
#define DPMF_NOISE_EXACT_H

#include "noise/plan.h"

/*
 * What a route's arithmetic can be off by, for seeds of standard deviation 1; the probability that a number of the run
 * leaves `reach` is below 2^-1000.
 */
typedef struct noise_exact_bounds {
    double arithmetic; /* the largest error of what is fed back, relative to one seed */
    double reach;      /* the largest number of a row */
    double spread;     /* so much larger than one grid step is the norm of the shift's error, for one coordinate */
} noise_exact_bounds;
DPMF_MUST_CHECK dpmf_status noise_exact_bound(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out);

/* DPMF_ERROR_UNSUPPORTED: the guarantee of this sampling does not cover the exact release of this route. */
DPMF_MUST_CHECK dpmf_status noise_exact_covers(const noise_plan *plan, const dpmf_sampling *sampling,
                                               dpmf_adjacency adjacency);

#endif
