/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best dense C where the patterns of a unit overlap in many ways: min-separation and shuffled participation.
 *
 *     up to PATTERNS_STEPS_MAX steps   the optimum of all mechanisms, with its bounds
 *                                                     (optimum/patterns/patterns.h)
 *     above, min-separation                           the best of what can be streamed: banded with as many bands as
 *                                                     the separation, whose C'C vanishes between the steps of one unit
 *                                                     (Pillutla et al. 2025, Problem 4.8), and, where units can leave
 *                                                     gaps (n > k b), Toeplitz, as it is and with its columns
 *                                                     normalized. With gaps the vanishing costs up to 10 percent:
 *                                                     few of the many patterns that it protects are ever the worst.
 */
#include "optimize/optimize.h"

#include "base/memory.h"
#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>

static const char SCOPE_ALL[] = "all mechanisms (contributions of as many coordinates as participations, or more)";
static const char STREAMED[] =
    "banded of the separation; Toeplitz with non-negative, falling coefficients, also normalized";

/* ---- what can be streamed ---- */

/* The loss of a strategy: the sensitivity, or its bound, times the error. */
static dpmf_status loss_of(const optimize_task *task, const dpmf_strategy *strategy, double *loss) {
    const int64_t n = task->workload->steps;
    const dpmf_optimize_options *o = task->options;
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_sensitivity sensitivity = {0};
    double *errors = NULL, sum = 0, largest = 0;
    dpmf_status status = DPMF_OK;
    e.run = o->run;
    TRY_DONE(base_alloc_doubles(n, "the errors", &errors));
    TRY_DONE(dpmf_sensitivity_compute(strategy, task->participation, &e, &sensitivity));
    TRY_DONE(dpmf_error_compute(task->workload, strategy, &e.run, errors));
    for (int64_t t = 0; t < n; t++) {
        sum += (o->weights == NULL ? 1 : o->weights[t]) * errors[t] * errors[t];
        largest = fmax(largest, errors[t]);
    }
    *loss = sensitivity.value * (o->loss == DPMF_LOSS_MAX ? largest : sqrt(sum / (double)n));
done:
    base_free(errors);
    return status;
}

/* Keeps the better of *best and the answer of `call`; a family that does not know the workload is passed over. */
static dpmf_status try_call(const optimize_task *task, optimize_call call, double *least, dpmf_strategy **best,
                            dpmf_optimization *result) {
    dpmf_strategy *made = NULL;
    dpmf_optimization found = {.optimum_upper = INFINITY};
    double loss = INFINITY;
    dpmf_status status = call(task, &made, &found);
    if (status == DPMF_ERROR_UNSUPPORTED) return DPMF_OK;
    TRY(status);
    TRY_DONE(loss_of(task, made, &loss));
    const int iterations = result->iterations + found.iterations;
    if (loss < *least) {
        dpmf_strategy *worse = *best;
        *least = loss;
        *best = made;
        made = worse;
        *result = found;
    }
    result->iterations = iterations;
done:
    dpmf_strategy_free(made);
    return status;
}

static dpmf_status best_streamed(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const int64_t n = task->workload->steps, k = task->participation->count, b = task->participation->separation;
    dpmf_optimize_options options = *task->options;
    optimize_task part = {task->workload, task->participation, &options, NULL};
    dpmf_optimization found = {.optimum_upper = INFINITY};
    dpmf_strategy *best = NULL;
    double least = INFINITY, banded = INFINITY;
    dpmf_status status = DPMF_OK;
    options.bands = b < n ? b : n;
    if (n <= k * b) return optimize_banded(&part, out, result);
    TRY_DONE(try_call(&part, optimize_banded, &least, &best, &found));
    banded = least;
    options.bands = 0;
    for (int normalize = DPMF_NORMALIZE_NONE; normalize <= DPMF_NORMALIZE_AFTER; normalize++) {
        options.normalize = (dpmf_normalize)normalize;
        TRY_DONE(try_call(&part, optimize_toeplitz, &least, &best, &found));
    }
    if (least < banded) found.searched = STREAMED;
    *result = found;
    if (out != NULL) {
        *out = best;
        best = NULL;
    }
done:
    dpmf_strategy_free(best);
    return status;
}

/* ---- the optimum ---- */

/* Bounds that were left apart: what can be streamed may be better than the mechanism between them. */
static dpmf_status take_streamed(const optimize_task *task, dpmf_strategy **best, dpmf_optimization *result) {
    dpmf_strategy *streamed = NULL;
    dpmf_optimization ignored = {0};
    double loss = INFINITY;
    if (task->participation->pattern != WORKLOAD_APART) return DPMF_OK;
    dpmf_status status = best_streamed(task, &streamed, &ignored);
    if (status == DPMF_ERROR_UNSUPPORTED) return DPMF_OK;
    TRY(status);
    TRY_DONE(loss_of(task, streamed, &loss));
    if (loss < result->optimum_upper) {
        dpmf_strategy *worse = *best;
        *best = streamed;
        streamed = worse;
        result->optimum_upper = loss;
    }
done:
    dpmf_strategy_free(streamed);
    return status;
}

static dpmf_status optimum_of(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    const int64_t n = task->workload->steps;
    const patterns_task problem = {.workload = task->workload,
                                   .participation = task->participation,
                                   .max_loss = o->loss == DPMF_LOSS_MAX,
                                   .weights = o->weights,
                                   .tolerance = o->tolerance,
                                   .run = &o->run};
    patterns_answer found = {0};
    dpmf_strategy *strategy = NULL;
    TRY(patterns_solve(&problem, &found));
    dpmf_status status = dpmf_strategy_create_dense(n, found.c, &strategy);
    base_free(found.c);
    if (status != DPMF_OK) return status;
    const double steps = problem.max_loss ? 1 : (double)n;
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations,
                                  .optimum_lower = sqrt(found.lower / steps),
                                  .optimum_upper = sqrt(found.upper / steps),
                                  .scope = SCOPE_ALL};
    if (!found.converged) status = take_streamed(task, &strategy, result);
    if (out != NULL && status == DPMF_OK)
        *out = strategy;
    else
        dpmf_strategy_free(strategy);
    return status;
}

dpmf_status optimize_patterns(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_participation *p = task->participation;
    const int64_t n = task->workload->steps;
    const int whole_matrix = task->workload->form != WORKLOAD_OPERATOR;
    if (n <= PATTERNS_STEPS_MAX && whole_matrix) return optimum_of(task, out, result);
    if (p->pattern == WORKLOAD_APART) return best_streamed(task, out, result);
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "family dense, participation %s: %lld steps, accepted up to %d; optimize for another one with "
                     "--optimize-participation, for example cyclic:%lld,%lld",
                     p->text, (long long)n, PATTERNS_STEPS_MAX, (long long)p->count, (long long)p->separation);
}
