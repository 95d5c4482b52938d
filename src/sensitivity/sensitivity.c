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
    const blt_parameters *blt = blt_of(s);
    if (blt != NULL && !strategy_can(s, STRATEGY_CAN_TOEPLITZ)) { /* too long to be held: the closed form */
        *out = sqrt(blt_pattern_square(blt, s->steps, 1, s->steps));
        return DPMF_OK;
    }
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

/* A stream without a horizon has one sensitivity, whatever number of steps a machine gives it: 1, else 0. */
static int for_ever(const dpmf_strategy *s, dpmf_sensitivity_of of, dpmf_sensitivity *out) {
    const unbounded_shape *shape = unbounded_of(s);
    if (shape == NULL) return 0;
    *out = (dpmf_sensitivity){unbounded_longest(shape), DPMF_UPPER_BOUND, of,
                              sensitivity_method_text(SENSITIVITY_METHOD_FOR_EVER)};
    return 1;
}

/* A bound that was asked for by name is given by name, though the column norm is what it comes to. */
static dpmf_status single(const dpmf_strategy *s, dpmf_sensitivity_bound bound, dpmf_sensitivity *out) {
    static const sensitivity_method_kind methods[] = {[DPMF_BOUND_AUTO] = SENSITIVITY_METHOD_COLUMN,
                                                      [DPMF_BOUND_SPECTRAL] = SENSITIVITY_METHOD_SPECTRAL,
                                                      [DPMF_BOUND_ABSOLUTE] = SENSITIVITY_METHOD_ABSOLUTE,
                                                      [DPMF_BOUND_SIGNS] = SENSITIVITY_METHOD_SIGNS};
    double value = 0;
    if (bound == DPMF_BOUND_AUTO && for_ever(s, DPMF_SENSITIVITY_PARTICIPATION, out)) return DPMF_OK;
    TRY(largest_column(s, &value));
    if (bound == DPMF_BOUND_SIGNS) value *= sqrt(M_PI_2);
    *out = (dpmf_sensitivity){value, bound == DPMF_BOUND_AUTO ? DPMF_EXACT : DPMF_UPPER_BOUND,
                              DPMF_SENSITIVITY_PARTICIPATION, sensitivity_method_text(methods[bound])};
    return DPMF_OK;
}

/* What sampling needs, under any adjacency: accounting knows what neighbours make of it. */
static dpmf_status column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    double value = 0;
    if (for_ever(s, DPMF_SENSITIVITY_COLUMN, out)) return DPMF_OK;
    TRY(largest_column(s, &value));
    *out = (dpmf_sensitivity){value, DPMF_EXACT, DPMF_SENSITIVITY_COLUMN,
                              sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    return DPMF_OK;
}

/* ---- several ---- */

/* A BLT that is too long to be held, non-negative and falling: the earliest pattern in closed form. */
static int long_blt(const dpmf_strategy *s, const dpmf_participation *p, dpmf_sensitivity_bound bound, double *square) {
    const blt_parameters *c = blt_of(s);
    double sum = 0;
    if (c == NULL || strategy_can(s, STRATEGY_CAN_TOEPLITZ) || bound != DPMF_BOUND_AUTO) return 0;
    if (p->pattern == WORKLOAD_EPOCHS && p->separation > 1) return 0;
    for (int i = 0; i < c->count; i++) {
        if (!(c->scale[i] >= 0)) return 0;
        sum += c->scale[i];
    }
    if (!(sum <= 1)) return 0;
    *square = blt_pattern_square(c, s->steps, p->count, p->separation);
    return 1;
}

static dpmf_status by_pattern(sensitivity_task *task, sensitivity_found *out) {
    if (task->pattern == WORKLOAD_EPOCHS && task->b == 1) task->pattern = WORKLOAD_FIXED;
    if (task->pattern == WORKLOAD_APART && task->k == task->n) task->pattern = WORKLOAD_FIXED;
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
                             .run = run,
                             .core = strategy,
                             .stamps = 1,
                             .length = strategy->steps,
                             .reach = strategy->steps};
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    double square = 0;
    int there = 0;
    if (long_blt(strategy, participation, bound, &square)) {
        *out = (dpmf_sensitivity){sqrt(square), DPMF_EXACT, DPMF_SENSITIVITY_PARTICIPATION,
                                  sensitivity_method_text(SENSITIVITY_METHOD_EARLIEST)};
        return DPMF_OK;
    }
    if (bound == DPMF_BOUND_SIGNS && task.k > SENSITIVITY_SIGNS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound signs: %lld participations, accepted up to %d",
                         (long long)task.k, SENSITIVITY_SIGNS_MAX);
    TRY(base_pool_create(run->threads, &task.pool));
    dpmf_status status = replay_sensitivity(&task, &there, &found);
    if (status == DPMF_OK && !there) status = sensitivity_task_open(&task);
    if (status == DPMF_OK && !there) status = by_pattern(&task, &found);
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    if (status != DPMF_OK) return status;
    return sensitivity_conclude(&task, &found, out);
}

dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *options, dpmf_sensitivity *out) {
    const dpmf_evaluate_options o = options == NULL ? (dpmf_evaluate_options){.run = dpmf_run_defaults()} : *options;
    dpmf_sensitivity found = {0};
    TRY(sensitivity_check(strategy, participation, &o));
    if (o.of == DPMF_SENSITIVITY_COLUMN) return column(strategy, out);
    if (participation == NULL || participation->count == 1)
        TRY(single(strategy, o.sensitivity, &found));
    else
        TRY(several(strategy, participation, o.sensitivity, &o.run, &found));
    if (o.adjacency == DPMF_ADJACENCY_REPLACE_ONE) found.value *= 2;
    *out = found;
    return DPMF_OK;
}
