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

static dpmf_status check_options(const dpmf_family *family, int64_t steps, const dpmf_optimize_options *options) {
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
    TRY(check_options(&known->shown, workload->steps, &o));
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

/*
 * Optimize a user's own parametrized strategy (McKenna 2024, Appendix D.2): any strategy that a vector theta makes, an
 * operator above all, by
 *
 *     minimize ln loss(theta),    loss = sensitivity x error,
 *
 * both evaluated exactly as dpmf_evaluate would (for an operator by impulse responses, Algorithm 5 there), with
 * limited-memory BFGS. The gradient is the user's, or central differences: 2 evaluations per parameter, O(n^2) each for
 * an operator. The logarithm makes the steps of theta independent of the scale of C and of the workload.
 *
 * Steps of the differences: eps^(1/3) of the parameter, where the error of the formula and the rounding of the loss are
 * about equal, near 1e-10. Where one side leaves the domain the other side is used alone.
 *
 * The max loss has corners, where differences say little: ln max_t e_t is replaced by ln(sum e_t^p)/p with p rising.
 * The best point is chosen by the loss itself. With the user's gradient it is not replaced.
 */

static const double POWERS[] = {16, 128, 1024, 8192};
enum { POWER_COUNT = sizeof POWERS / sizeof POWERS[0], ITERATIONS = 500, SHRINKS = 8 };

static const double STEP = 6e-6;           /* eps^(1/3) */
static const double STEP_SCALE = 0.1;      /* smaller parameters have the step of this one: rounding of the loss */
static const double GRADIENT_LEAST = 1e-9; /* what differences can resolve */

typedef struct search {
    const dpmf_parametric *family;
    const optimize_task *task;
    double power;     /* of the errors in place of the maximum; INFINITY: the maximum. Not read for the RMS loss */
    double *errors;   /* steps, and as many squares of them */
    double *beside;   /* a point of the differences */
    double *best;     /* of all points seen */
    double best_loss; /* its ln loss itself */
} search;

static int is_outside(dpmf_status status) {
    return status == DPMF_ERROR_NUMERICAL || status == DPMF_ERROR_ARGUMENT;
}

/* The user's strategy at theta; *out stays NULL outside the domain. */
static dpmf_status make_strategy(const search *s, const double *theta, dpmf_strategy **out) {
    dpmf_strategy *made = NULL;
    int64_t steps = s->task->workload->steps;
    dpmf_status status = s->family->make(s->family->context, theta, &made);
    if (is_outside(status)) return DPMF_OK;
    if (status == DPMF_OK && made == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "parametric: make gave DPMF_OK and no strategy");
    if (status == DPMF_OK && made->steps != steps) {
        status = base_fail(DPMF_ERROR_ARGUMENT, "parametric: make gave a strategy of %lld steps, accepted %lld",
                           (long long)made->steps, (long long)steps);
        dpmf_strategy_free(made);
        return status;
    }
    if (status == DPMF_OK) *out = made;
    return status;
}

/* ln of the root of the mean square, of the maximum, or of the power mean in its place. */
static double log_error(const search *s, double power) {
    int64_t n = s->task->workload->steps;
    const dpmf_optimize_options *o = s->task->options;
    double largest = 0, sum = 0;
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, s->errors[t]);
    if (o->loss == DPMF_LOSS_RMS) {
        for (int64_t t = 0; t < n; t++)
            sum += (o->weights == NULL ? 1 : o->weights[t]) * (s->errors[t] / largest) * (s->errors[t] / largest);
        return log(largest) + log(sum / (double)n) / 2;
    }
    if (!isfinite(power)) return log(largest);
    for (int64_t t = 0; t < n; t++)
        sum += pow(s->errors[t] / largest, power);
    return log(largest) + log(sum) / power;
}

/* ln of another loss than these two. */
static double log_loss(const search *s, double sensitivity) {
    const dpmf_optimize_options *o = s->task->options;
    const problem_loss loss = {o->loss, o->loss_power, o->own_loss};
    const int64_t n = s->task->workload->steps;
    double *squares = s->errors + n;
    for (int64_t t = 0; t < n; t++)
        squares[t] = sensitivity * sensitivity * s->errors[t] * s->errors[t];
    const double value = problem_loss_value(&loss, n, squares, NULL);
    return value > 0 ? log(value) : INFINITY;
}

/* What is minimized, at theta; INFINITY outside the domain. */
static dpmf_status value_at(search *s, const double *theta, double *value) {
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_sensitivity sensitivity = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    e.run = s->task->options->run;
    *value = INFINITY;
    TRY_DONE(make_strategy(s, theta, &strategy));
    if (strategy == NULL) goto done;
    TRY_DONE(dpmf_sensitivity_compute(strategy, s->task->participation, &e, &sensitivity));
    TRY_DONE(dpmf_error_compute(s->task->workload, strategy, &e.run, s->errors));
    double base = log(sensitivity.value), exact = base + log_error(s, INFINITY);
    *value = base + log_error(s, s->power);
    if (s->task->options->loss > DPMF_LOSS_MAX) *value = exact = log_loss(s, sensitivity.value);
    if (!isfinite(*value)) *value = INFINITY;
    if (isfinite(exact) && exact < s->best_loss) {
        s->best_loss = exact;
        memcpy(s->best, theta, (size_t)s->family->parameters * sizeof *theta);
    }
done:
    dpmf_strategy_free(strategy);
    if (status != DPMF_ERROR_NUMERICAL) return status;
    *value = INFINITY; /* a noise that diverges is outside the domain too */
    return DPMF_OK;
}

/* One derivative by differences; where both sides leave the domain the step shrinks, and 0 is the last answer. */
static dpmf_status difference(search *s, const double *theta, int64_t i, double center, double *slope) {
    double step = STEP * fmax(fabs(theta[i]), STEP_SCALE);
    memcpy(s->beside, theta, (size_t)s->family->parameters * sizeof *theta);
    *slope = 0;
    for (int shrink = 0; shrink < SHRINKS; shrink++, step /= 8) {
        double above = INFINITY, below = INFINITY, right = theta[i] + step, left = theta[i] - step;
        s->beside[i] = right;
        TRY(value_at(s, s->beside, &above));
        s->beside[i] = left;
        TRY(value_at(s, s->beside, &below));
        if (!isfinite(above) && !isfinite(below)) continue;
        if (isfinite(above) && isfinite(below))
            *slope = (above - below) / (right - left);
        else
            *slope = isfinite(above) ? (above - center) / (right - theta[i]) : (center - below) / (theta[i] - left);
        break;
    }
    return DPMF_OK;
}

static dpmf_status objective(void *context, const double *theta, double *f, double *gradient) {
    search *s = context;
    TRY(value_at(s, theta, f));
    if (!isfinite(*f)) return DPMF_OK;
    if (s->family->gradient != NULL) {
        dpmf_status status = s->family->gradient(s->family->context, theta, gradient);
        if (is_outside(status)) *f = INFINITY;
        return is_outside(status) ? DPMF_OK : status;
    }
    for (int64_t i = 0; i < s->family->parameters; i++)
        TRY(difference(s, theta, i, *f, &gradient[i]));
    return DPMF_OK;
}

/* From theta, which becomes the best point. */
static dpmf_status minimize(search *s, double *theta, dpmf_optimization *result) {
    const dpmf_optimize_options *o = s->task->options;
    const base_objective f = {.count = s->family->parameters, .context = s, .value = objective};
    const base_minimize_options how = {.gradient = fmax(0.01 * o->tolerance, GRADIENT_LEAST),
                                       .iterations = ITERATIONS,
                                       .what = "parametric",
                                       .run = &o->run};
    int smooth = o->loss != DPMF_LOSS_MAX || s->family->gradient != NULL;
    for (int stage = 0; stage < (smooth ? 1 : POWER_COUNT); stage++) {
        base_minimum found = {0};
        s->power = smooth ? INFINITY : POWERS[stage];
        TRY(base_minimize(&f, &how, theta, &found));
        result->outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT;
        result->iterations += found.iterations;
        result->stationarity = found.gradient;
    }
    memcpy(theta, s->best, (size_t)s->family->parameters * sizeof *theta);
    return DPMF_OK;
}

/* The loss at the start, so that a start outside the domain is refused with the message of the call that refused it. */
static dpmf_status check_start(search *s, const double *theta) {
    double value = INFINITY;
    char why[400];
    s->power = INFINITY;
    dpmf_set_last_error("make refused it, or the loss is not finite");
    TRY(value_at(s, theta, &value));
    if (isfinite(value)) return DPMF_OK;
    snprintf(why, sizeof why, "%s", dpmf_last_error());
    return base_fail(DPMF_ERROR_NUMERICAL, "parametric: the start is outside the domain: %s", why);
}

static dpmf_status run_search(search *s, double *theta, dpmf_strategy **out, dpmf_optimization *result) {
    int64_t n = s->task->workload->steps, count = s->family->parameters;
    dpmf_strategy *strategy = NULL;
    double *point = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(2 * n, "the errors", &s->errors));
    TRY_DONE(base_alloc_doubles(count, "a point", &s->beside));
    TRY_DONE(base_alloc_doubles(count, "the best point", &s->best));
    TRY_DONE(base_alloc_doubles(count, "the point", &point));
    memcpy(point, theta, (size_t)count * sizeof *theta);
    TRY_DONE(check_start(s, point));
    TRY_DONE(minimize(s, point, result));
    if (out != NULL) {
        TRY_DONE(make_strategy(s, point, &strategy));
        if (strategy == NULL) {
            status = base_fail(DPMF_ERROR_NUMERICAL, "parametric: make refused a point that it had accepted");
            goto done;
        }
        *out = strategy;
    }
    memcpy(theta, point, (size_t)count * sizeof *theta);
done:
    base_free(s->errors);
    base_free(s->beside);
    base_free(s->best);
    base_free(point);
    return status;
}

dpmf_status dpmf_optimize_parametric(const dpmf_parametric *family, const dpmf_workload *workload,
                                     const dpmf_participation *participation, const dpmf_optimize_options *options,
                                     double *theta, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options o = options == NULL ? dpmf_optimize_options_defaults() : *options;
    static const dpmf_family none = {.name = "parametric", .optimize_losses = 1};
    if (family == NULL || family->make == NULL || workload == NULL || theta == NULL || result == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "parametric: family, make, workload, theta or result is NULL");
    if (family->parameters < 1 || family->parameters > DPMF_PARAMETERS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "parametric: %lld parameters, accepted 1 to %d",
                         (long long)family->parameters, DPMF_PARAMETERS_MAX);
    for (int64_t i = 0; i < family->parameters; i++)
        if (!isfinite(theta[i]))
            return base_fail(DPMF_ERROR_ARGUMENT, "parametric: theta[%lld] = %g, accepted: finite", (long long)i,
                             theta[i]);
    if (participation != NULL && participation->steps != workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "parametric: a participation of %lld steps for a workload of %lld",
                         (long long)participation->steps, (long long)workload->steps);
    TRY(check_options(&none, workload->steps, &o));
    const optimize_task task = {workload, participation, &o, NULL};
    search s = {.family = family, .task = &task, .best_loss = INFINITY};
    dpmf_optimization found = {.optimum_upper = INFINITY};
    TRY(run_search(&s, theta, out, &found));
    *result = found;
    return DPMF_OK;
}
