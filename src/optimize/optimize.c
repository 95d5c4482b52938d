/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: the best strategy of a family for a workload, a participation and a loss, with the bounds or the
 * stationarity that show how good it is. The families' own searches are in their folders; this file asks the table for them.
 */

#include "optimize/optimize.h"
#include "base/memory.h"
#include "base/status.h"
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

static int optimized_place(const dpmf_family *f) {
    return f->optimized;
}

dpmf_status optimize_problem(const char *family, const problem_facts *p, const dpmf_optimize_options *options,
                             dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_workload *workload = p->workload;
    const dpmf_participation *participation = p->participation;
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
    if (participation != NULL && participation->steps != workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: a participation of %lld steps for a workload of %lld",
                         (long long)participation->steps, (long long)workload->steps);
    if (participation == NULL) TRY(workload_participation_single(workload->steps, &single));
    optimize_task task = {workload, participation == NULL ? single : participation, &o, p};
    TRY_DONE(known->optimize(&task, out == NULL ? NULL : &strategy, &found));
    if (out != NULL) *out = strategy;
    *result = found;
done:
    dpmf_participation_free(single);
    return status;
}

dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_optimize_options *options, dpmf_strategy **out, dpmf_optimization *result) {
    const problem_facts p = {.workload = workload, .participation = participation};
    return optimize_problem(family, &p, options, out, result);
}

/* Optimize: defaults, names, and the checks that all families share. */

dpmf_optimize_options dpmf_optimize_options_defaults(void) {
    return (dpmf_optimize_options){.tolerance = 1e-6, .run = dpmf_run_defaults()};
}

static const char *const OUTCOMES[] = {[DPMF_CONVERGED] = "converged", [DPMF_ITERATION_LIMIT] = "iteration limit"};

const char *dpmf_outcome_name(dpmf_outcome outcome) {
    return (unsigned)outcome < sizeof OUTCOMES / sizeof OUTCOMES[0] ? OUTCOMES[outcome] : "unknown";
}

static int may_choose(const dpmf_family *f) {
    return f->optimize_chooses;
}

static int takes_variants(const dpmf_family *f) {
    return f->optimize_variants;
}

static dpmf_status check_bands(const dpmf_family *f, int64_t steps, int64_t bands) {
    if (!f->optimize_bands && bands != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %lld bands, but it has none to choose", f->name,
                         (long long)bands);
    if (f->optimize_bands && (bands < 1 || bands > steps))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %lld bands, accepted 1 to %lld (the steps)", f->name,
                         (long long)bands, (long long)steps);
    return DPMF_OK;
}

static dpmf_status check_buffers(const dpmf_family *f, const dpmf_optimize_options *o) {
    char list[STRATEGY_FAMILY_LIST];
    if (f->optimize_buffers == 0 && o->buffers != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %d buffers, but it has none to choose", f->name, o->buffers);
    if (f->optimize_buffers > 0 &&
        (o->buffers < 0 || o->buffers > f->optimize_buffers || (o->buffers == 0 && !f->optimize_chooses)))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %d buffers, accepted 1 to %d%s", f->name, o->buffers,
                         f->optimize_buffers, f->optimize_chooses ? ", or 0 to choose" : "");
    if (o->shared_seeds != 0 && (o->shared_seeds < 0 || o->shared_seeds > f->optimize_shared_seeds))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %d shared seeds, accepted 0%s", f->name, o->shared_seeds,
                         f->optimize_shared_seeds > 0 ? " (replayed) to 8" : "");
    if (o->wanted_ratio != 0 && !(f->optimize_chooses && o->wanted_ratio > 1 && isfinite(o->wanted_ratio)))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: wanted ratio %g, accepted: above 1, for %s", f->name,
                         o->wanted_ratio, strategy_family_list(may_choose, " and ", list));
    return DPMF_OK;
}

static dpmf_status check_choices(const dpmf_family *f, const dpmf_optimize_options *o) {
    char list[STRATEGY_FAMILY_LIST];
    if ((unsigned)o->loss > DPMF_LOSS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "loss %d, accepted 0 (rms) or 1 (max)", (int)o->loss);
    if ((unsigned)o->normalize > DPMF_NORMALIZE_WITHIN || (o->normalize != 0 && !f->optimize_normalize))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: column normalization %d, accepted 0%s", f->name,
                         (int)o->normalize, f->optimize_normalize ? " to 2" : "");
    if ((unsigned)o->constraint > DPMF_CONSTRAINT_CORNERS || (o->constraint != 0 && !f->optimize_constraint))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: constraint %d, accepted 0%s", f->name, (int)o->constraint,
                         f->optimize_constraint ? " to 2" : "");
    if ((o->sweep || o->taper != 0) && !f->optimize_variants)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: sweep and taper are for %s", f->name,
                         strategy_family_list(takes_variants, " and ", list));
    if (!(o->tolerance >= 1e-10 && o->tolerance <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "tolerance %g, accepted 1e-10 to 1", o->tolerance);
    if (o->weights != NULL && o->loss == DPMF_LOSS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "weights are for the RMS loss, not for the max loss");
    return DPMF_OK;
}

static dpmf_status check_weights(int64_t n, const double *weights) {
    for (int64_t t = 0; weights != NULL && t < n; t++)
        if (!(weights[t] > 0 && isfinite(weights[t])))
            return base_fail(DPMF_ERROR_ARGUMENT, "weight %g at step %lld, accepted: above 0", weights[t],
                             (long long)t);
    return DPMF_OK;
}

dpmf_status optimize_check(const dpmf_family *family, int64_t steps, const dpmf_optimize_options *options) {
    TRY(check_choices(family, options));
    TRY(check_bands(family, steps, options->bands));
    TRY(check_buffers(family, options));
    return check_weights(steps, options->weights);
}
