/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the sensitivity have found: how it is called, improved, refused, and made the public figure; and the
 * check of the arguments that the public calls share. Calls none of the parts.
 */
#include "sensitivity/sensitivity.h"

#include "strategy/strategy.h"

#include <assert.h>
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
    [DPMF_I_SENSITIVITY_METHOD_CANCELLED] = "sum of C'C over a pattern, diagonal there",
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
    [DPMF_I_SENSITIVITY_METHOD_FOR_EVER] = "largest column norm of a stream that never ends",
};

_Static_assert(sizeof METHODS / sizeof METHODS[0] == DPMF_I_SENSITIVITY_METHOD_COUNT, "every method has a text");

const char *dpmf_i_sensitivity_method(const char *text) {
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (strcmp(text, METHODS[i]) == 0) return METHODS[i];
    return NULL;
}

const char *dpmf_i_sensitivity_method_text(dpmf_i_sensitivity_method_kind method) {
    assert((unsigned)method < DPMF_I_SENSITIVITY_METHOD_COUNT);
    return METHODS[method];
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
    *out = (dpmf_sensitivity){sqrt(square), found->kind, DPMF_SENSITIVITY_PARTICIPATION,
                              dpmf_i_sensitivity_method_text(found->method)};
    return DPMF_OK;
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
