/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: the best strategy of a family for a workload, a participation and a loss, with the bounds or the
 * stationarity that say how good it is. The families' own searches are in their folders; this file asks the table for them.
 */
#include "optimize/optimize.h"

#include "base/memory.h"
#include "base/text.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

dpmf_status optimize_single(const optimize_task *task, optimize_maker make, dpmf_strategy **out,
                            dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    optimum_answer optimum = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(optimum_solve(task->workload, o->loss == DPMF_LOSS_MAX, o->weights, o->tolerance, &o->run, &optimum));
    if (out != NULL) TRY_DONE(make(task, &optimum, &strategy));
    *result = (dpmf_optimization){.outcome = optimum.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = optimum.iterations,
                                  .optimum_lower = optimum.lower,
                                  .optimum_upper = optimum.upper,
                                  .scope = "any mechanism: dual of the optimum"};
    if (out != NULL) *out = strategy;
done:
    optimum_free(&optimum);
    return status;
}

dpmf_status optimize_taper(int64_t bands, int64_t least, double *c) {
    if (bands < 2 || least < 1 || least >= bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld of %lld bands, accepted: 1 to bands - 1",
                         (long long)least, (long long)bands);
    for (int64_t i = least; i <= bands; i++)
        c[i - 1] *= (double)(bands - i) / (double)(bands - least);
    return DPMF_OK;
}

static int optimized_place(const dpmf_family *f) {
    return f->optimized;
}

dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_optimize_options *options, dpmf_strategy **out, dpmf_optimization *result) {
    dpmf_optimize_options o = options == NULL ? dpmf_optimize_options_defaults() : *options;
    dpmf_participation *single = NULL;
    dpmf_optimization found = {.optimum_upper = INFINITY};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    char shown[64], list[STRATEGY_FAMILY_LIST];
    if (family == NULL || workload == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: the family or the workload is NULL");
    const strategy_family *known = strategy_family_find(family, strlen(family));
    if (known == NULL || known->optimize == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: family '%s', accepted: %s",
                         base_show(family, strlen(family), shown), strategy_family_list(optimized_place, ", ", list));
    TRY(optimize_check(&known->shown, workload->steps, &o));
    if (participation != NULL && dpmf_participation_steps(participation) != workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: a participation of %lld steps for a workload of %lld",
                         (long long)dpmf_participation_steps(participation), (long long)workload->steps);
    if (participation == NULL) TRY(workload_participation_single(workload->steps, &single));
    optimize_task task = {workload, participation == NULL ? single : participation, &o};
    TRY_DONE(known->optimize(&task, out == NULL ? NULL : &strategy, &found));
    if (out != NULL) *out = strategy;
    *result = found;
done:
    dpmf_participation_free(single);
    return status;
}
