/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluation: sensitivity and error put together into the losses, beside their bounds. */
#include "base/memory.h"
#include "base/sum.h"
#include "error/error.h"
#include "mechanism/mechanism.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* Above this many steps an array of all errors, 128 MB, is not made where the sums are known without it. */
static const int64_t CLOSED_FORM_STEPS = (int64_t)1 << 24;

/* Computes the losses from the sensitivity and the errors of all steps, which go to `per_step` if that is not NULL. */
static dpmf_status put_together(const dpmf_workload *workload, const dpmf_strategy *strategy,
                                const dpmf_evaluate_options *o, dpmf_evaluation *result, double *per_step) {
    double *errors = NULL, s = result->sensitivity.value, sum = 0, largest = 0;
    int64_t n = strategy->steps;
    base_running total = {0};
    dpmf_status status = DPMF_OK;
    if (n > CLOSED_FORM_STEPS && per_step == NULL && o->weights == NULL &&
        error_sums(workload, strategy, &sum, &largest)) {
        result->total_squared_loss = s * s * sum;
        result->max_loss = s * sqrt(largest);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(n, "the errors", &errors));
    TRY_DONE(dpmf_error_compute(workload, strategy, &o->run, errors));
    for (int64_t t = 0; t < n; t++) {
        errors[t] *= s * (o->weights == NULL ? 1 : sqrt(o->weights[t]));
        base_running_add(&total, errors[t] * errors[t]);
        result->max_loss = fmax(result->max_loss, errors[t]);
    }
    result->total_squared_loss = base_running_value(&total);
    if (per_step != NULL && isfinite(result->total_squared_loss)) memcpy(per_step, errors, (size_t)n * sizeof *errors);
done:
    base_free(errors);
    return status;
}

dpmf_status mechanism_bound(const problem_facts *p, const dpmf_evaluate_options *o, dpmf_lower_bound *out) {
    const dpmf_lower_bound *known = p->bound_known == PROBLEM_BOUND_UNKNOWN ? NULL : &p->evaluation.lower_bound;
    if (p->bound_known == PROBLEM_BOUND_BOTH) {
        *out = *known;
        return DPMF_OK;
    }
    return optimum_lower_bound(p->workload, p->participation, o, EPOCHS_BOTH, known, out);
}

dpmf_status mechanism_evaluate(problem_facts *p, const dpmf_strategy *strategy, const dpmf_evaluate_options *how,
                               double *per_step) {
    dpmf_evaluate_options o = *how;
    dpmf_evaluation result = {0};
    const int64_t n = strategy->steps;
    o.weights = p->weights;
    o.adjacency = p->adjacency;
    if (p->workload->steps != n)
        return base_fail(DPMF_ERROR_ARGUMENT, "the workload has %lld steps, the strategy %lld: they must agree",
                         (long long)p->workload->steps, (long long)n);
    if (o.weights != NULL) TRY(optimum_check_weights(n, o.weights));
    TRY(dpmf_sensitivity_compute(strategy, p->participation, &o, &result.sensitivity));
    if (o.of == DPMF_SENSITIVITY_PARTICIPATION) TRY(mechanism_bound(p, &o, &result.lower_bound));
    TRY(put_together(p->workload, strategy, &o, &result, per_step));
    result.rms_loss = sqrt(result.total_squared_loss / (double)n);
    if (!isfinite(result.total_squared_loss))
        return base_fail(DPMF_ERROR_NUMERICAL, "the loss is beyond the range of a double");
    p->evaluation = result;
    return DPMF_OK;
}

dpmf_status dpmf_evaluate(const dpmf_workload *workload, const dpmf_participation *participation,
                          const dpmf_strategy *strategy, const dpmf_evaluate_options *options, dpmf_evaluation *out,
                          double *per_step) {
    const dpmf_evaluate_options o = options == NULL ? dpmf_evaluate_options_defaults() : *options;
    if (workload == NULL || strategy == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "evaluate: the workload or the strategy is NULL");
    problem_facts p = {.steps = strategy->steps,
                       .workload = workload,
                       .participation = participation,
                       .weights = o.weights,
                       .adjacency = o.adjacency};
    TRY(mechanism_evaluate(&p, strategy, &o, per_step));
    *out = p.evaluation;
    return DPMF_OK;
}
