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

/* In mechanism files: a text may be added, never changed. */
static const char *const METHODS[] = {
    [DPMF_I_SENSITIVITY_METHOD_COLUMN] = "largest column norm",
    [DPMF_I_SENSITIVITY_METHOD_EARLIEST] = "earliest pattern of a non-negative Toeplitz matrix",
    [DPMF_I_SENSITIVITY_METHOD_NODES] = "participations counted under every node of the tree",
    [DPMF_I_SENSITIVITY_METHOD_NON_NEGATIVE] = "sum of C'C over a pattern, non-negative there",
    [DPMF_I_SENSITIVITY_METHOD_BALANCED] = "sum of |C'C| over a pattern, attained by signs",
    [DPMF_I_SENSITIVITY_METHOD_CERTIFIED] = "best signs of a pattern, proven by a Cholesky factorization",
    [DPMF_I_SENSITIVITY_METHOD_SEPARATE] = "dynamic program over separated columns",
    [DPMF_I_SENSITIVITY_METHOD_NEIGHBOURS] = "dynamic program over neighbouring participations",
    [DPMF_I_SENSITIVITY_METHOD_EVEN] = "bound by distance, attained by evenly spaced steps",
    [DPMF_I_SENSITIVITY_METHOD_RESTARTS] = "sum over restarts",
    [DPMF_I_SENSITIVITY_METHOD_SPECTRAL] = "participations times the largest eigenvalue of C'C on a pattern",
    [DPMF_I_SENSITIVITY_METHOD_ABSOLUTE] = "sum of |C'C| over a pattern",
    [DPMF_I_SENSITIVITY_METHOD_SIGNS] = "pi/2 times the maximum over signs on a pattern",
    [DPMF_I_SENSITIVITY_METHOD_DUAL] = "semidefinite dual bound of a pattern",
    [DPMF_I_SENSITIVITY_METHOD_ROWS] = "rows of |C'C|",
    [DPMF_I_SENSITIVITY_METHOD_DISTANCE] = "largest |C'C| by distance",
    [DPMF_I_SENSITIVITY_METHOD_MAJORANT] = "non-increasing majorant of a Toeplitz matrix, by distance",
    [DPMF_I_SENSITIVITY_METHOD_LEVELS] = "most participations on every level of the tree",
    [DPMF_I_SENSITIVITY_METHOD_LARGEST] = "participations times the largest squared column norm",
    [DPMF_I_SENSITIVITY_METHOD_TOO_LARGE] = "sum of |C'C| over a pattern (too large for a closer bound)",
    [DPMF_I_SENSITIVITY_METHOD_NORMS] = "sum of column norms over a pattern",
};

_Static_assert(sizeof METHODS / sizeof METHODS[0] == DPMF_I_SENSITIVITY_METHOD_COUNT, "every method has a text");

const char *dpmf_i_sensitivity_method(const char *text) {
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (strcmp(text, METHODS[i]) == 0) return METHODS[i];
    return NULL;
}

void dpmf_i_sensitivity_found_improve(dpmf_i_sensitivity_found *best, double square,
                                      dpmf_i_sensitivity_method_kind method) {
    if (best->square >= 0 && square >= best->square) return;
    *best = (dpmf_i_sensitivity_found){square, DPMF_UPPER_BOUND, method};
}

void dpmf_i_sensitivity_found_sum(const dpmf_i_sensitivity_task *task, double square,
                                  dpmf_i_sensitivity_method_kind method, dpmf_i_sensitivity_found *out) {
    *out = (dpmf_i_sensitivity_found){square, DPMF_EXACT, method};
    if (task->bound == DPMF_BOUND_ABSOLUTE)
        *out = (dpmf_i_sensitivity_found){square, DPMF_UPPER_BOUND, DPMF_I_SENSITIVITY_METHOD_ABSOLUTE};
    if (task->bound == DPMF_BOUND_SIGNS)
        *out = (dpmf_i_sensitivity_found){M_PI_2 * square, DPMF_UPPER_BOUND, DPMF_I_SENSITIVITY_METHOD_SIGNS};
}

dpmf_status dpmf_i_sensitivity_too_many(const dpmf_i_sensitivity_task *task) {
    return dpmf_i_base_fail(
        DPMF_ERROR_UNSUPPORTED,
        "sensitivity bound %s: the patterns of this participation are too many to try (up to %d are "
        "tried): use auto or absolute",
        task->bound == DPMF_BOUND_SPECTRAL ? "spectral" : "signs", DPMF_I_SENSITIVITY_ENUMERATE_MAX);
}

/* ---- one participation ---- */

static dpmf_status largest_column(const dpmf_strategy *s, double *out) {
    const dpmf_i_strategy_blt_parameters *blt = dpmf_i_strategy_blt(s);
    if (blt != NULL &&
        !dpmf_i_strategy_can(s, DPMF_I_STRATEGY_CAN_TOEPLITZ)) { /* too long to be held: the closed form */
        *out = sqrt(dpmf_i_strategy_blt_pattern_square(blt, s->steps, 1, s->steps));
        return DPMF_OK;
    }
    double *norms = NULL;
    TRY(dpmf_i_base_alloc_doubles(s->steps, "the column norms", &norms));
    dpmf_status status = dpmf_strategy_column_norms(s, norms);
    double largest = 0;
    for (int64_t t = 0; t < s->steps && status == DPMF_OK; t++) {
        if (!isfinite(norms[t]))
            status = dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "the norm of column %lld is not finite", (long long)t);
        if (norms[t] > largest) largest = norms[t];
    }
    dpmf_i_base_free(norms);
    if (status == DPMF_OK) *out = largest;
    return status;
}

/* A bound that was asked for by name is given by name, though the column norm is what it comes to. */
static dpmf_status single(const dpmf_strategy *s, dpmf_sensitivity_bound bound, dpmf_sensitivity *out) {
    static const dpmf_i_sensitivity_method_kind methods[] = {[DPMF_BOUND_AUTO] = DPMF_I_SENSITIVITY_METHOD_COLUMN,
                                                             [DPMF_BOUND_SPECTRAL] = DPMF_I_SENSITIVITY_METHOD_SPECTRAL,
                                                             [DPMF_BOUND_ABSOLUTE] = DPMF_I_SENSITIVITY_METHOD_ABSOLUTE,
                                                             [DPMF_BOUND_SIGNS] = DPMF_I_SENSITIVITY_METHOD_SIGNS};
    double value = 0;
    TRY(largest_column(s, &value));
    if (bound == DPMF_BOUND_SIGNS) value *= sqrt(M_PI_2);
    *out = (dpmf_sensitivity){value, bound == DPMF_BOUND_AUTO ? DPMF_EXACT : DPMF_UPPER_BOUND,
                              DPMF_SENSITIVITY_PARTICIPATION, METHODS[methods[bound]]};
    return DPMF_OK;
}

/* What sampling needs, under any adjacency: accounting knows what neighbours make of it. */
static dpmf_status column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    double value = 0;
    TRY(largest_column(s, &value));
    *out = (dpmf_sensitivity){value, DPMF_EXACT, DPMF_SENSITIVITY_COLUMN, METHODS[DPMF_I_SENSITIVITY_METHOD_COLUMN]};
    return DPMF_OK;
}

/* ---- several ---- */

/* A BLT that is too long to be held, non-negative and falling: the earliest pattern in closed form. */
static int long_blt(const dpmf_strategy *s, const dpmf_participation *p, dpmf_sensitivity_bound bound, double *square) {
    const dpmf_i_strategy_blt_parameters *c = dpmf_i_strategy_blt(s);
    double sum = 0;
    if (c == NULL || dpmf_i_strategy_can(s, DPMF_I_STRATEGY_CAN_TOEPLITZ) || bound != DPMF_BOUND_AUTO) return 0;
    if (p->kind == DPMF_PARTICIPATION_SHUFFLED && p->separation > 1) return 0;
    for (int i = 0; i < c->count; i++) {
        if (!(c->scale[i] >= 0)) return 0;
        sum += c->scale[i];
    }
    if (!(sum <= 1)) return 0;
    *square = dpmf_i_strategy_blt_pattern_square(c, s->steps, p->count, p->separation);
    return 1;
}

static dpmf_status by_kind(dpmf_i_sensitivity_task *task, dpmf_i_sensitivity_found *out) {
    if (task->kind == DPMF_PARTICIPATION_SHUFFLED && task->b == 1) task->kind = DPMF_PARTICIPATION_FULL;
    if (task->kind == DPMF_PARTICIPATION_MIN_SEPARATION && task->k == task->n) task->kind = DPMF_PARTICIPATION_FULL;
    if (task->kind == DPMF_PARTICIPATION_MIN_SEPARATION) return dpmf_i_sensitivity_separated(task, out);
    if (task->kind == DPMF_PARTICIPATION_SHUFFLED) return dpmf_i_sensitivity_shuffled(task, out);
    return dpmf_i_sensitivity_cyclic(task, out);
}

/*
 * An upper bound must not come out below by rounding. Entries of X are off by a few roundings where their sums are
 * compensated or closed forms (Toeplitz, trees, FFT), else by at most one for each of their terms; a pattern adds some
 * more.
 */
static double rounded_up(const dpmf_i_sensitivity_task *task, double square) {
    int plain = !dpmf_i_strategy_can(task->core, DPMF_I_STRATEGY_CAN_TOEPLITZ) &&
                (!dpmf_i_strategy_can(task->core, DPMF_I_STRATEGY_CAN_GRAM) ||
                 dpmf_i_strategy_dense_matrix(task->core) != NULL);
    double terms = (plain ? (double)task->reach : 0) + (double)task->k + 16;
    return square * (1 + 2 * DBL_EPSILON * terms);
}

dpmf_status dpmf_i_sensitivity_conclude(const dpmf_i_sensitivity_task *task, const dpmf_i_sensitivity_found *found,
                                        dpmf_sensitivity *out) {
    double square = found->kind == DPMF_EXACT ? found->square : rounded_up(task, found->square);
    if (!(square >= 0 && isfinite(square)))
        return dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "the sensitivity is beyond the range of a double");
    *out = (dpmf_sensitivity){sqrt(square), found->kind, DPMF_SENSITIVITY_PARTICIPATION, METHODS[found->method]};
    return DPMF_OK;
}

static dpmf_status several(const dpmf_strategy *strategy, const dpmf_participation *participation,
                           dpmf_sensitivity_bound bound, const dpmf_run *run, dpmf_sensitivity *out) {
    dpmf_i_sensitivity_task task = {.strategy = strategy,
                                    .kind = participation->kind,
                                    .bound = bound,
                                    .n = strategy->steps,
                                    .k = participation->count,
                                    .b = participation->separation,
                                    .run = run};
    dpmf_i_sensitivity_found found = DPMF_I_SENSITIVITY_NOT_FOUND;
    double square = 0;
    if (long_blt(strategy, participation, bound, &square)) {
        *out = (dpmf_sensitivity){sqrt(square), DPMF_EXACT, DPMF_SENSITIVITY_PARTICIPATION,
                                  METHODS[DPMF_I_SENSITIVITY_METHOD_EARLIEST]};
        return DPMF_OK;
    }
    if (bound == DPMF_BOUND_SIGNS && task.k > DPMF_I_SENSITIVITY_SIGNS_MAX)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound signs: %lld participations, accepted up to %d",
                                (long long)task.k, DPMF_I_SENSITIVITY_SIGNS_MAX);
    TRY(dpmf_i_base_pool_create(run->threads, &task.pool));
    dpmf_status status = dpmf_i_sensitivity_task_open(&task);
    if (status == DPMF_OK) status = by_kind(&task, &found);
    dpmf_i_sensitivity_task_close(&task);
    dpmf_i_base_pool_free(task.pool);
    if (status != DPMF_OK) return status;
    return dpmf_i_sensitivity_conclude(&task, &found, out);
}

dpmf_status dpmf_i_sensitivity_check(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *o) {
    if (strategy == NULL) return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sensitivity: the strategy is NULL");
    if (participation != NULL && participation->steps != strategy->steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                "the participation has %lld steps, the strategy %lld: they must agree",
                                (long long)participation->steps, (long long)strategy->steps);
    if ((int)o->adjacency < 0 || o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((int)o->sensitivity < 0 || o->sensitivity > DPMF_BOUND_SIGNS)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound %d, accepted 0 to 3", (int)o->sensitivity);
    if ((int)o->of < 0 || o->of > DPMF_SENSITIVITY_COLUMN)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "sensitivity of %d, accepted 0 to 1", (int)o->of);
    return DPMF_OK;
}

dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *options, dpmf_sensitivity *out) {
    const dpmf_evaluate_options o = options == NULL ? (dpmf_evaluate_options){.run = dpmf_run_defaults()} : *options;
    dpmf_sensitivity found = {0};
    TRY(dpmf_i_sensitivity_check(strategy, participation, &o));
    if (o.of == DPMF_SENSITIVITY_COLUMN) return column(strategy, out);
    if (participation == NULL || participation->count == 1)
        TRY(single(strategy, o.sensitivity, &found));
    else
        TRY(several(strategy, participation, o.sensitivity, &o.run, &found));
    if (o.adjacency == DPMF_ADJACENCY_REPLACE_ONE) found.value *= 2;
    *out = found;
    return DPMF_OK;
}
