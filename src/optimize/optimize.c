/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize: the best strategy of a family for a workload, a participation and a loss, with the bounds or the
 * stationarity that show how good it is. The families' own searches are in their folders; this file asks the table for them.
 */
#include "optimize/optimize.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "base/status.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
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

static int takes_losses(const dpmf_family *f) {
    return f->optimize_losses;
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
    char list[STRATEGY_FAMILY_LIST], asked[PROBLEM_LOSS_TEXT];
    const problem_loss loss = {o->loss, o->loss_power, o->own_loss};
    TRY(problem_loss_check(&loss, f->name));
    problem_loss_text(&loss, asked);
    if (o->loss > DPMF_LOSS_MAX && !f->optimize_losses)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s is optimized for the losses rms and max, not for %s, which is for %s", f->name,
                         asked, strategy_family_list(takes_losses, " and ", list));
    if (o->loss > DPMF_LOSS_MAX && (o->normalize == DPMF_NORMALIZE_WITHIN || o->sweep || o->taper != 0))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s: loss %s with columns normalized within, sweep or taper, accepted: rms and max",
                         f->name, asked);
    if ((unsigned)o->normalize > DPMF_NORMALIZE_WITHIN || (o->normalize != 0 && !f->optimize_normalize))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: column normalization %d, accepted 0%s", f->name,
                         (int)o->normalize, f->optimize_normalize ? " to 2" : "");
    if ((unsigned)o->constraint > DPMF_CONSTRAINT_CORNERS || (o->constraint != 0 && !f->optimize_constraint))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: constraint %d, accepted 0%s", f->name, (int)o->constraint,
                         f->optimize_constraint ? " to 2" : "");
    if ((o->sweep || o->taper != 0) && !f->optimize_variants)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: sweep and taper are for %s", f->name,
                         strategy_family_list(takes_variants, " and ", list));
    if ((unsigned)o->signs > DPMF_SIGNS_ANY || (o->signs != 0 && !f->optimize_signs))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: signs %d, accepted 0%s", f->name, (int)o->signs,
                         f->optimize_signs ? " (auto), 1 (non-negative) or 2 (any)" : "");
    if ((unsigned)o->damped > 1 || (o->damped && !f->optimize_damped))
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: damped %d, accepted 0%s", f->name, o->damped,
                         f->optimize_damped ? " or 1" : "");
    if (!(o->tolerance >= 1e-10 && o->tolerance <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "tolerance %g, accepted 1e-10 to 1", o->tolerance);
    if (o->weights != NULL && o->loss != DPMF_LOSS_RMS)
        return base_fail(DPMF_ERROR_ARGUMENT, "weights are for the RMS loss, not for the %s loss", asked);
    return DPMF_OK;
}

dpmf_status optimize_check_options(const dpmf_family *family, int64_t steps, const dpmf_optimize_options *options) {
    TRY(check_choices(family, options));
    TRY(check_bands(family, steps, options->bands));
    TRY(check_buffers(family, options));
    return options->weights == NULL ? DPMF_OK : optimum_check_weights(steps, options->weights);
}

static int has_zero(int64_t steps, const double *weights) {
    for (int64_t t = 0; weights != NULL && t < steps; t++)
        if (weights[t] == 0) return 1;
    return 0;
}

/*
 * Sums, matrices of any shape and, unless C is Toeplitz, weights of 0: solved for the triangular matrix that has the same RMS
 * losses (workload/stack.c). Errors of a Toeplitz C rise with the steps for a sum of Toeplitz workloads, so that its max loss
 * is the RMS loss with all weight on the last step.
 */
static dpmf_status optimize_reduced(const strategy_family *family, const optimize_task *task, dpmf_strategy **out,
                                    dpmf_optimization *result) {
    const int64_t n = task->workload->steps;
    dpmf_optimize_options o = *task->options;
    dpmf_workload *reduced = NULL;
    double *last = NULL, added = 0;
    dpmf_status status = DPMF_OK;
    if (o.loss == DPMF_LOSS_MAX) {
        if (!family->shown.toeplitz || !workload_rises(task->workload) || o.normalize != DPMF_NORMALIZE_NONE)
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "family %s: the max loss of workload %s is not optimized, accepted: the RMS loss%s",
                             family->shown.name, task->workload->text,
                             family->shown.toeplitz ? ", or sums of workloads that are the same at every step" : "");
        TRY_DONE(base_alloc_doubles(n, "the weights", &last));
        last[n - 1] = (double)n;
        o.loss = DPMF_LOSS_RMS;
        o.weights = last;
    }
    TRY_DONE(workload_reduce(task->workload, o.weights, 0.1 * o.tolerance, &reduced, &added));
    o.weights = NULL;
    const optimize_task plain = {reduced, task->participation, &o, NULL};
    TRY_DONE(family->optimize(&plain, out, result));
    result->optimum_lower = fmax(0, result->optimum_lower - added * sqrt((double)task->participation->count));
done:
    base_free(last);
    dpmf_workload_free(reduced);
    return status;
}

static int optimized_place(const dpmf_family *f) {
    return f->optimized;
}

/* One stamp, by the family's search. */
static dpmf_status search_family(const char *family, const problem_facts *p, const dpmf_optimize_options *options,
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
    TRY(optimize_check_options(&known->shown, workload->steps, &o));
    if (participation != NULL && participation->steps != workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: a participation of %lld steps for a workload of %lld",
                         (long long)participation->steps, (long long)workload->steps);
    if (participation == NULL) TRY(workload_participation_single(workload->steps, &single));
    optimize_task task = {workload, participation == NULL ? single : participation, &o, p};
    const int matrix = workload->form == WORKLOAD_DENSE && !workload->toeplitz && o.weights != NULL;
    const int reduce =
        workload_is_stack(workload) || matrix || (!known->shown.toeplitz && has_zero(workload->steps, o.weights));
    TRY_DONE((reduce ? optimize_reduced(known, &task, out == NULL ? NULL : &strategy, &found)
                     : known->optimize(&task, out == NULL ? NULL : &strategy, &found)));
    if (out != NULL) *out = strategy;
    *result = found;
done:
    dpmf_participation_free(single);
    return status;
}

/*
 * Stamps (Choquette-Choo et al. 2023, Section 5 and Appendix D.4): the best strategy of n/S steps repeated S times. One stamp is
 * made for the first n/S steps of the workload, and for the part of the participation that happens in it. The loss of all
 * stamps together decides their number: more of them make the contributions of a unit add up less, and the noise of
 * a finished stamp stays.
 */
typedef struct stamps_question {
    const char *family;
    const problem_facts *p;
    const dpmf_optimize_options *o;
} stamps_question;

/* The mean weights of a step of a stamp, or NULL; from base_alloc. */
static dpmf_status mean_weights(const stamps_question *q, int64_t stamps, double **out) {
    const int64_t block = q->p->workload->steps / stamps;
    if (q->o->weights == NULL) return DPMF_OK;
    TRY(base_alloc_doubles(block, "the weights of a stamp", out));
    for (int64_t t = 0; t < stamps * block; t++)
        (*out)[t % block] += q->o->weights[t] / (double)stamps;
    return DPMF_OK;
}

/* What one stamp is optimized for. */
static dpmf_status stamp_participation(const stamps_question *q, int64_t block, dpmf_participation **out) {
    const dpmf_participation *asked = q->o->stamp_participation, *whole = q->p->participation;
    if (asked == NULL && whole == NULL) return workload_participation_single(block, out);
    if (asked == NULL) return workload_participation_part(whole, block, out);
    if (asked->steps != block && asked->count > 1 && asked->count < asked->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "stamps: participation %s of %lld steps for a stamp of %lld", asked->text,
                         (long long)asked->steps, (long long)block);
    return workload_participation_part(asked, block, out);
}

/* *out stays NULL where the family has bounds and no strategy for a stamp. */
static dpmf_status make_stamps(const stamps_question *q, int64_t stamps, dpmf_strategy **out,
                               dpmf_optimization *result) {
    const int64_t block = q->p->workload->steps / stamps;
    problem_facts part = {0};
    dpmf_workload *head = NULL;
    dpmf_participation *participation = NULL;
    dpmf_strategy *one = NULL;
    double *weights = NULL;
    dpmf_status status = DPMF_OK;
    *result = (dpmf_optimization){.optimum_upper = INFINITY};
    if (q->o->closed_form != NULL) {
        dpmf_strategy_options made = *q->o->closed_form;
        made.stamps = stamps;
        return dpmf_strategy_create(q->family, q->p->workload, &made, out);
    }
    dpmf_optimize_options o = *q->o;
    TRY_DONE(workload_head(q->p->workload, block, &head));
    TRY_DONE(stamp_participation(q, block, &participation));
    TRY_DONE(mean_weights(q, stamps, &weights));
    o.weights = weights;
    part = (problem_facts){.workload = head, .participation = participation};
    TRY_DONE(search_family(q->family, &part, &o, &one, result));
    if (one != NULL) TRY_DONE(strategy_create_repeated(one, stamps, out));
    if (stamps > 1 || q->o->stamp_participation != NULL) { /* the bounds are those of another problem */
        result->optimum_lower = 0;
        result->optimum_upper = INFINITY;
        result->scope = NULL;
    }
done:
    dpmf_workload_free(head);
    dpmf_participation_free(participation);
    dpmf_strategy_free(one);
    base_free(weights);
    return status;
}

static dpmf_status stamped_loss(const stamps_question *q, const dpmf_strategy *strategy, double *out) {
    const int64_t n = q->p->workload->steps;
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_sensitivity sensitivity = {0};
    double *errors = NULL, sum = 0, largest = 0;
    dpmf_status status = DPMF_OK;
    e.run = q->o->run;
    TRY_DONE(base_alloc_doubles(n, "the errors", &errors));
    TRY_DONE(dpmf_sensitivity_compute(strategy, q->p->participation, &e, &sensitivity));
    TRY_DONE(dpmf_error_compute(q->p->workload, strategy, &e.run, errors));
    for (int64_t t = 0; t < n; t++) {
        sum += (q->o->weights == NULL ? 1 : q->o->weights[t]) * errors[t] * errors[t];
        largest = fmax(largest, errors[t]);
    }
    *out = sensitivity.value * (q->o->loss == DPMF_LOSS_MAX ? largest : sqrt(sum / (double)n));
done:
    base_free(errors);
    return status;
}

/* A family may have no strategy for short stamps, or none with a finite loss. */
static int may_skip(dpmf_status status) {
    return status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL || status == DPMF_ERROR_ARGUMENT;
}

/* Less than this is rounding, for example of independent noise, for which stamps change nothing. */
static const double STAMPS_GAIN = 1e-9;

/* Every divisor is tried: the loss has several minima, for example where a stamp becomes as short as an epoch. */
static dpmf_status choose_stamps(const stamps_question *q, dpmf_strategy **out, dpmf_optimization *result) {
    const int64_t n = q->p->workload->steps;
    dpmf_strategy *best = NULL, *strategy = NULL;
    dpmf_optimization found = {0}, best_found = {0};
    double least = INFINITY, loss = INFINITY;
    dpmf_status status = DPMF_OK, failed = DPMF_OK;
    for (int64_t stamps = 1; stamps <= n; stamps++) {
        if (n % stamps != 0) continue;
        TRY_DONE(base_progress(&q->o->run, "trying stamps", -1));
        status = make_stamps(q, stamps, &strategy, &found);
        if (status == DPMF_OK && strategy != NULL) status = stamped_loss(q, strategy, &loss);
        if (may_skip(status)) failed = status;
        if (status != DPMF_OK && !may_skip(status)) goto done;
        if (status == DPMF_OK && strategy != NULL && loss < least * (1 - STAMPS_GAIN)) {
            least = loss;
            dpmf_strategy_free(best);
            best = strategy;
            strategy = NULL;
            best_found = found;
        }
        status = DPMF_OK;
        dpmf_strategy_free(strategy);
        strategy = NULL;
    }
    if (best == NULL) {
        status = failed != DPMF_OK
                     ? failed /* with the message of the last attempt */
                     : base_fail(DPMF_ERROR_UNSUPPORTED, "family %s: no number of stamps has a strategy", q->family);
        goto done;
    }
    *result = best_found;
    if (out != NULL) {
        *out = best;
        best = NULL;
    }
done:
    dpmf_strategy_free(strategy);
    dpmf_strategy_free(best);
    return status;
}

dpmf_status optimize_problem(const char *family, const problem_facts *p, const dpmf_optimize_options *options,
                             dpmf_strategy **out, dpmf_optimization *result) {
    const stamps_question q = {family, p, options};
    if (options == NULL || family == NULL || p->workload == NULL ||
        (options->closed_form == NULL && options->stamp_participation == NULL &&
         (options->stamps == 0 || options->stamps == 1)))
        return search_family(family, p, options, out, result);
    const int64_t steps = p->workload->steps, stamps = options->stamps == 0 ? 1 : options->stamps;
    if (stamps != DPMF_STAMPS_AUTO && (stamps < 1 || steps % stamps != 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "stamps = %lld, accepted: a divisor of the %lld steps, or %d to choose",
                         (long long)stamps, (long long)steps, DPMF_STAMPS_AUTO);
    if (p->participation != NULL && p->participation->steps != steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "optimize: a participation of %lld steps for a workload of %lld",
                         (long long)p->participation->steps, (long long)steps);
    if (stamps == DPMF_STAMPS_AUTO) return choose_stamps(&q, out, result);
    dpmf_strategy *strategy = NULL;
    dpmf_optimization found;
    TRY(make_stamps(&q, stamps, &strategy, &found));
    if (strategy == NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s: its matrix is not formed for %lld steps, and stamps need it", family,
                         (long long)(steps / stamps));
    *result = found;
    if (out != NULL)
        *out = strategy;
    else
        dpmf_strategy_free(strategy);
    return DPMF_OK;
}

dpmf_status dpmf_optimize(const char *family, const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_optimize_options *options, dpmf_strategy **out, dpmf_optimization *result) {
    const problem_facts p = {.workload = workload, .participation = participation};
    return optimize_problem(family, &p, options, out, result);
}
