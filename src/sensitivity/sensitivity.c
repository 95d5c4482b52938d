/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity: how far C g moves in l2 norm when the contributions of one unit, each of norm at most 1, are taken out
 * (Pillutla et al. 2025, Definition 3.13; Choquette-Choo et al. 2023, Section 2). For a unit that takes part in the
 * steps of a pattern p its square is f(X_p), the largest sum_{t,u in p} X[t,u] <g_t, g_u> over vectors of norm at most
 * 1, with X = C'C; the sensitivity is the largest over the patterns that the participation allows.
 *
 *     single       the largest column norm of C (Denisov et al. 2022, Section 2)
 *     cyclic       b patterns: sensitivity/cyclic.c; full participation is one pattern, b = 1
 *     min-sep      dynamic programs: sensitivity/separated.c
 *     shuffled     dynamic programs: sensitivity/shuffled.c
 *
 * f itself is found exactly where a theorem or a certificate says so, and bounded from above elsewhere
 * (sensitivity/pattern.c). "Exact" holds for contributions of every dimension: the values are attained by multiples of
 * one vector. A maximum over such multiples alone is never called exact: vectors can do better.
 *
 * Replacing one unit by another moves C g by at most twice as far, and for some pair by exactly that.
 */
#include "sensitivity/sensitivity.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- one participation ---- */

static dpmf_status largest_column(const dpmf_strategy *s, double *out) {
    double *norms = NULL;
    TRY(base_alloc_doubles(s->steps, "the column norms", &norms));
    dpmf_status status = dpmf_strategy_column_norms(s, norms);
    double largest = 0;
    for (int64_t t = 0; t < s->steps && status == DPMF_OK; t++) {
        if (!isfinite(norms[t]))
            status = base_fail(DPMF_ERROR_NUMERICAL, "the norm of column %lld is not finite", (long long)t);
        if (norms[t] > largest) largest = norms[t];
    }
    base_free(norms);
    if (status == DPMF_OK) *out = largest;
    return status;
}

/* The longest column of C: the family's own answer, if there is one that `exact` allows; else from all norms. */
static dpmf_status longest_column(const dpmf_strategy *s, int exact, dpmf_sensitivity *out) {
    dpmf_sensitivity found = {.kind = DPMF_EXACT, .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    if (s->ops->longest_column == NULL || !s->ops->longest_column(s, &found) || (exact && found.kind != DPMF_EXACT)) {
        found = (dpmf_sensitivity){.kind = DPMF_EXACT, .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
        TRY(largest_column(s, &found.value));
    }
    *out = found;
    return DPMF_OK;
}

/* A bound that was asked for by name is given by name, though the column norm is what it comes to. */
static dpmf_status single(const dpmf_strategy *s, dpmf_sensitivity_bound bound, dpmf_sensitivity *out) {
    static const sensitivity_method_kind methods[] = {[DPMF_BOUND_SPECTRAL] = SENSITIVITY_METHOD_SPECTRAL,
                                                      [DPMF_BOUND_ABSOLUTE] = SENSITIVITY_METHOD_ABSOLUTE,
                                                      [DPMF_BOUND_SIGNS] = SENSITIVITY_METHOD_SIGNS};
    TRY(longest_column(s, bound != DPMF_BOUND_AUTO, out));
    out->of = DPMF_SENSITIVITY_PARTICIPATION;
    if (bound == DPMF_BOUND_AUTO) return DPMF_OK;
    if (bound == DPMF_BOUND_SIGNS) out->value *= sqrt(M_PI_2);
    out->kind = DPMF_UPPER_BOUND;
    out->method = sensitivity_method_text(methods[bound]);
    return DPMF_OK;
}

/* ---- several ---- */

workload_pattern sensitivity_task_pattern(const sensitivity_task *task) {
    const int fixed = task->pattern == WORKLOAD_EPOCHS ? task->b == 1 : task->k == task->n;
    return fixed ? WORKLOAD_FIXED : task->pattern;
}

static dpmf_status by_pattern(sensitivity_task *task, sensitivity_found *out) {
    task->pattern = sensitivity_task_pattern(task);
    if (task->pattern == WORKLOAD_APART) return sensitivity_separated(task, out);
    if (task->pattern == WORKLOAD_EPOCHS) return sensitivity_shuffled(task, out);
    return sensitivity_cyclic(task, out);
}

static dpmf_status several(const dpmf_strategy *strategy, const dpmf_participation *participation,
                           dpmf_sensitivity_bound bound, const dpmf_run *run, dpmf_sensitivity *out) {
    sensitivity_task task = {.strategy = strategy,
                             .pattern = participation->pattern,
                             .bound = bound,
                             .n = strategy->steps,
                             .k = participation->count,
                             .b = participation->separation,
                             .run = run};
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    dpmf_status status = DPMF_OK;
    int done = 0;
    if (bound == DPMF_BOUND_SIGNS && task.k > SENSITIVITY_SIGNS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound signs: %lld participations, accepted up to %d",
                         (long long)task.k, SENSITIVITY_SIGNS_MAX);
    TRY(base_pool_create(run->threads, &task.pool));
    sensitivity_task_unwrap(&task);
    if (task.core->ops->sensitivity != NULL) TRY_DONE(task.core->ops->sensitivity(task.core, &task, &done, &found));
    if (!done) {
        TRY_DONE(sensitivity_task_open(&task));
        TRY_DONE(by_pattern(&task, &found));
    }
    TRY_DONE(sensitivity_conclude(&task, &found, out));
done:
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    return status;
}

dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *options, dpmf_sensitivity *out) {
    const dpmf_evaluate_options o = options == NULL ? (dpmf_evaluate_options){.run = dpmf_run_defaults()} : *options;
    dpmf_sensitivity found = {0};
    TRY(sensitivity_check(strategy, participation, &o));
    if (o.of ==
        DPMF_SENSITIVITY_COLUMN) { /* what sampling needs, under any adjacency: accounting knows what neighbours make of it */
        TRY(longest_column(strategy, 0, out));
        out->of = DPMF_SENSITIVITY_COLUMN;
        return DPMF_OK;
    }
    if (participation == NULL || participation->count == 1)
        TRY(single(strategy, o.sensitivity, &found));
    else
        TRY(several(strategy, participation, o.sensitivity, &o.run, &found));
    if (o.adjacency == DPMF_ADJACENCY_REPLACE_ONE) found.value *= 2;
    *out = found;
    return DPMF_OK;
}
