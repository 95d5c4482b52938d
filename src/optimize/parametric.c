/* SPDX-License-Identifier: Apache-2.0 */
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
#include "optimize/optimize.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "base/status.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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
    TRY(optimize_check_options(&none, workload->steps, &o));
    const optimize_task task = {workload, participation, &o, NULL};
    search s = {.family = family, .task = &task, .best_loss = INFINITY};
    dpmf_optimization found = {.optimum_upper = INFINITY};
    TRY(run_search(&s, theta, out, &found));
    *result = found;
    return DPMF_OK;
}
