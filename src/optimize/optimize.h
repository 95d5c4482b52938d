/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: what optimize/optimize.c asks of each family. Its entry in the table of families finds the best strategy for the
 * workload, the participation and the options, and reports how it ended. Options have been checked for their ranges when it is
 * called (bands within the steps, tolerance, loss); what only the family knows it checks itself. `out` is NULL when no strategy
 * is wanted.
 */
#ifndef DPMF_OPTIMIZE_H
#define DPMF_OPTIMIZE_H

#include "base/status.h"
#include "optimum/optimum.h"
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

/* One participation: the dual of the optimum is solved; `make` makes a strategy from it, or none where bounds are the answer. */
typedef dpmf_status (*optimize_maker)(const optimize_task *task, const optimum_answer *optimum, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status optimize_single(const optimize_task *task, optimize_maker make, dpmf_strategy **out,
                                            dpmf_optimization *result);

/* Are the options those that the family takes for this number of steps? */
DPMF_MUST_CHECK dpmf_status optimize_check_options(const dpmf_family *family, int64_t steps,
                                                   const dpmf_optimize_options *options);

#endif
