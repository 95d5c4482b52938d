/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: the best strategy of a family for a workload, a participation and a loss, with the bounds or the
 * stationarity that say how good it is. Each family is in a file of its own; this file dispatches to them.
 */
#include "optimize/optimize.h"

#include "base/memory.h"
#include "base/text.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* ---- dense and tvblt under single participation, from one solution of the dual ---- */

static dpmf_status make_strategy(int tvblt, const dpmf_workload *workload, const dpmf_optimize_options *o,
                                 const optimum_answer *optimum, dpmf_strategy **out) {
    if (tvblt) {
        double wanted = o->wanted_ratio > 1 ? o->wanted_ratio : 1.001;
        return tvblt_optimize(workload, o->loss == DPMF_LOSS_MAX, o->buffers, wanted, optimum, &o->run, out, NULL);
    }
    if (workload->steps > DPMF_DENSE_STEPS_MAX) return DPMF_OK; /* the bounds are the answer */
    return optimum_explicit(workload, optimum, &o->run, out);
}

static dpmf_status optimize_optimum(const optimize_task *task, int tvblt, dpmf_strategy **out,
                                    dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    optimum_answer optimum = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(optimum_solve(task->workload, o->loss == DPMF_LOSS_MAX, o->weights, o->tolerance, &o->run, &optimum));
    if (out != NULL) TRY_DONE(make_strategy(tvblt, task->workload, o, &optimum, &strategy));
    const tvblt_parameters *made = strategy == NULL ? NULL : strategy_tvblt(strategy);
    *result = (dpmf_optimization){.nodes = made == NULL ? 0 : made->nodes,
                                  .outcome = optimum.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = optimum.iterations,
                                  .optimum_lower = optimum.lower,
                                  .optimum_upper = optimum.upper,
                                  .scope = "any mechanism: dual of the optimum"};
    if (out != NULL) *out = strategy;
done:
    optimum_free(&optimum);
    return status;
}

static int is_single(const optimize_task *task) {
    return dpmf_participation_is_single(task->participation);
}

static dpmf_status optimize_dense(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    if (!is_single(task)) return optimize_epochs(task, out, result);
    if (task->options->constraint != DPMF_CONSTRAINT_ZERO)
        return base_fail(DPMF_ERROR_ARGUMENT, "constraint %d is for several participations",
                         (int)task->options->constraint);
    return optimize_optimum(task, 0, out, result);
}

static dpmf_status optimize_tvblt(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    if (!is_single(task)) return replay_epochs(task, out, result);
    if (task->options->shared_seeds != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "%d shared seeds, but only several epochs have seeds to share",
                         task->options->shared_seeds);
    return optimize_optimum(task, 1, out, result);
}

static dpmf_status optimize_banded_toeplitz(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    if (o->sweep || o->taper != 0 || o->settled_after != 0) return toeplitz_variant(task, out, result);
    return toeplitz_optimize_banded(task, out, result);
}

/* ---- who answers ---- */

static const optimize_call CALLS[STRATEGY_FAMILY_COUNT] = {
    [STRATEGY_FAMILY_DENSE] = optimize_dense,
    [STRATEGY_FAMILY_TVBLT] = optimize_tvblt,
    [STRATEGY_FAMILY_BANDED] = optimize_banded,
    [STRATEGY_FAMILY_TOEPLITZ] = optimize_toeplitz,
    [STRATEGY_FAMILY_BANDED_TOEPLITZ] = optimize_banded_toeplitz,
    [STRATEGY_FAMILY_BISR] = toeplitz_banded_inverse,
    [STRATEGY_FAMILY_BLT] = optimize_blt,
    [STRATEGY_FAMILY_LOWRANK] = optimize_lowrank,
};

int optimize_knows(strategy_family_id family) {
    return family < STRATEGY_FAMILY_COUNT && CALLS[family] != NULL;
}

static int optimized_place(const dpmf_family *f) {
    return f->optimized;
}

static dpmf_status run_call(const optimize_task *task, optimize_call call, dpmf_strategy **out,
                            dpmf_optimization *result) {
    dpmf_optimization found = {.optimum_upper = INFINITY};
    dpmf_strategy *strategy = NULL;
    TRY(call(task, out == NULL ? NULL : &strategy, &found));
    if (out != NULL) *out = strategy;
    *result = found;
    return DPMF_OK;
}

dpmf_status optimize_problem(const char *family, const problem_facts *p, const dpmf_optimize_options *options,
                             dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_workload *workload = p->workload;
    const dpmf_participation *participation = p->participation;
    dpmf_optimize_options o = options == NULL ? dpmf_optimize_options_defaults() : *options;
    dpmf_participation *single = NULL;
    dpmf_status status = DPMF_OK;
    char shown[64], list[STRATEGY_FAMILY_LIST];
    if (family == NULL || workload == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: the family or the workload is NULL");
    const strategy_family_id id = strategy_family_find(family, strlen(family));
    if (!optimize_knows(id))
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: family '%s', accepted: %s",
                         base_show(family, strlen(family), shown), strategy_family_list(optimized_place, ", ", list));
    TRY(optimize_check(dpmf_family_info(id), workload->steps, &o));
    if (participation != NULL && dpmf_participation_steps(participation) != workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: a participation of %lld steps for a workload of %lld",
                         (long long)dpmf_participation_steps(participation), (long long)workload->steps);
    if (participation == NULL) TRY(workload_participation_single(workload->steps, &single));
    optimize_task task = {workload, participation == NULL ? single : participation, &o, p};
    TRY_DONE(run_call(&task, CALLS[id], out, result));
done:
    dpmf_participation_free(single);
    return status;
}

dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_optimize_options *options, dpmf_strategy **out, dpmf_optimization *result) {
    const problem_facts p = {.workload = workload, .participation = participation};
    return optimize_problem(family, &p, options, out, result);
}
