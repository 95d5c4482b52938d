/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: what optimize/optimize.c asks of each family. A family's function finds its best strategy for the workload, the
 * participation and the options, and reports how it ended. Options have been checked for their ranges when it is called
 * (bands within the steps, tolerance, loss); what only the family knows it checks itself. `out` is NULL when no
 * strategy is wanted.
 */
#ifndef DPMF_OPTIMIZE_H
#define DPMF_OPTIMIZE_H

#include "base/status.h"
#include "problem/problem.h"
#include "strategy/strategy.h"

typedef struct optimize_task {
    const dpmf_workload *workload;
    const dpmf_participation *participation; /* never NULL */
    const dpmf_optimize_options *options;
    const problem_facts *problem; /* what is known of it: its bound; NULL: nothing */
} optimize_task;

/* dpmf_optimize for a problem of which a bound may be known already. */
DPMF_MUST_CHECK dpmf_status optimize_problem(const char *family, const problem_facts *p,
                                             const dpmf_optimize_options *options, dpmf_strategy **out,
                                             dpmf_optimization *result);

typedef dpmf_status (*optimize_call)(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);

/* What dpmf_optimization.searched says of Toeplitz families, where no bound speaks. */
#define OPTIMIZE_ANY_SIGN "coefficients of any sign"
#define OPTIMIZE_NON_NEGATIVE "non-negative coefficients"
#define OPTIMIZE_FALLING "non-negative coefficients that do not rise"

/* Is there a function for it? The family's row (strategy/families.c) says the same: a test holds them together. */
int optimize_knows(strategy_family_id family);

/* The options against what the family takes (optimize/options.c). */
DPMF_MUST_CHECK dpmf_status optimize_check(const dpmf_family *family, int64_t steps,
                                           const dpmf_optimize_options *options);

/* optimize/toeplitz/toeplitz.c: the best Toeplitz C, whole or of few bands; the best C^-1 of few bands */
DPMF_MUST_CHECK dpmf_status optimize_toeplitz(const optimize_task *task, dpmf_strategy **out,
                                              dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status toeplitz_optimize_banded(const optimize_task *task, dpmf_strategy **out,
                                                     dpmf_optimization *result);
/* The same by the sweep, with the taper, or with errors taken as settled (optimize/toeplitz/variants.c). */
DPMF_MUST_CHECK dpmf_status toeplitz_variant(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
DPMF_MUST_CHECK dpmf_status toeplitz_banded_inverse(const optimize_task *task, dpmf_strategy **out,
                                                    dpmf_optimization *result);
/* optimize/banded/banded.c */
DPMF_MUST_CHECK dpmf_status optimize_banded(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
/* optimize/blt/blt.c */
DPMF_MUST_CHECK dpmf_status optimize_blt(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
/* optimize/epochs.c: dense C under several participations */
DPMF_MUST_CHECK dpmf_status optimize_epochs(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
/* The bounds alone, cyclic and full participation, at a tolerance of their own. */
DPMF_MUST_CHECK dpmf_status optimize_epochs_bound(const optimize_task *task, double tolerance,
                                                  dpmf_optimization *result);
/* optimize/replay/optimize.c: tvblt under cyclic participation, with replayed or shared seeds */
DPMF_MUST_CHECK dpmf_status replay_epochs(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);
/* optimize/patterns.c: the same under min-separation and shuffled participation */
DPMF_MUST_CHECK dpmf_status optimize_patterns(const optimize_task *task, dpmf_strategy **out,
                                              dpmf_optimization *result);
/* optimize/lowrank/lowrank.c */
DPMF_MUST_CHECK dpmf_status optimize_lowrank(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);

/*
 * The taper for separations that are known to lie between `least` and `bands` (McKenna 2024, Appendix H): coefficient i,
 * counted from 1, is multiplied by (bands-i)/(bands-least) for i >= least. 1 <= least < bands.
 */
DPMF_MUST_CHECK dpmf_status toeplitz_taper(int64_t bands, int64_t least, double *c);

#endif
