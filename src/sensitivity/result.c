/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the parts of the sensitivity have found: how it is called, improved, refused, and made the public figure; and the
 * check of the arguments that the public calls share. Calls none of the parts.
 */

#include "base/status.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* In mechanism files: a text may be added, never changed. */
static const char *const METHODS[] = {
    [SENSITIVITY_METHOD_COLUMN] = "largest column norm",
    [SENSITIVITY_METHOD_EARLIEST] = "earliest pattern of a non-negative Toeplitz matrix",
    [SENSITIVITY_METHOD_NODES] = "participations counted under every node of the tree",
    [SENSITIVITY_METHOD_NON_NEGATIVE] = "sum of C'C over a pattern, non-negative there",
    [SENSITIVITY_METHOD_BALANCED] = "sum of |C'C| over a pattern, attained by signs",
    [SENSITIVITY_METHOD_CERTIFIED] = "best signs of a pattern, proven by a Cholesky factorization",
    [SENSITIVITY_METHOD_SEPARATE] = "dynamic program over separated columns",
    [SENSITIVITY_METHOD_NEIGHBOURS] = "dynamic program over neighbouring participations",
    [SENSITIVITY_METHOD_EVEN] = "bound by distance, attained by evenly spaced steps",
    [SENSITIVITY_METHOD_RESTARTS] = "sum over restarts",
    [SENSITIVITY_METHOD_CANCELLED] = "sum of C'C over a pattern, diagonal there",
    [SENSITIVITY_METHOD_SPECTRAL] = "participations times the largest eigenvalue of C'C on a pattern",
    [SENSITIVITY_METHOD_ABSOLUTE] = "sum of |C'C| over a pattern",
    [SENSITIVITY_METHOD_SIGNS] = "pi/2 times the maximum over signs on a pattern",
    [SENSITIVITY_METHOD_DUAL] = "semidefinite dual bound of a pattern",
    [SENSITIVITY_METHOD_ROWS] = "rows of |C'C|",
    [SENSITIVITY_METHOD_DISTANCE] = "largest |C'C| by distance",
    [SENSITIVITY_METHOD_MAJORANT] = "non-increasing majorant of a Toeplitz matrix, by distance",
    [SENSITIVITY_METHOD_LEVELS] = "most participations on every level of the tree",
    [SENSITIVITY_METHOD_LARGEST] = "participations times the largest squared column norm",
    [SENSITIVITY_METHOD_TOO_LARGE] = "sum of |C'C| over a pattern (too large for a closer bound)",
    [SENSITIVITY_METHOD_NORMS] = "sum of column norms over a pattern",
    [SENSITIVITY_METHOD_FOR_EVER] = "largest column norm of a stream that never ends",
};

_Static_assert(sizeof METHODS / sizeof METHODS[0] == SENSITIVITY_METHOD_COUNT, "every method has a text");

const char *sensitivity_method(const char *text) {
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (strcmp(text, METHODS[i]) == 0) return METHODS[i];
    return NULL;
}

const char *sensitivity_method_text(sensitivity_method_kind method) {
    assert((unsigned)method < SENSITIVITY_METHOD_COUNT);
    return METHODS[method];
}

void sensitivity_found_improve(sensitivity_found *best, double square, sensitivity_method_kind method) {
    if (best->square >= 0 && square >= best->square) return;
    *best = (sensitivity_found){square, DPMF_UPPER_BOUND, method};
}

void sensitivity_found_sum(const sensitivity_task *task, double square, sensitivity_method_kind method,
                           sensitivity_found *out) {
    *out = (sensitivity_found){square, DPMF_EXACT, method};
    if (task->bound == DPMF_BOUND_ABSOLUTE)
        *out = (sensitivity_found){square, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE};
    if (task->bound == DPMF_BOUND_SIGNS)
        *out = (sensitivity_found){M_PI_2 * square, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_SIGNS};
}

dpmf_status sensitivity_too_many(const sensitivity_task *task) {
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "sensitivity bound %s: the patterns of this participation are too many to try (up to %d are "
                     "tried): use auto or absolute",
                     task->bound == DPMF_BOUND_SPECTRAL ? "spectral" : "signs", SENSITIVITY_ENUMERATE_MAX);
}

/*
 * An upper bound must not come out below by rounding. Entries of X are off by a few roundings where their sums are
 * compensated or closed forms (Toeplitz, trees, FFT), else by at most one for each of their terms; a pattern adds some
 * more.
 */
static double rounded_up(const sensitivity_task *task, double square) {
    int plain = !strategy_can(task->core, STRATEGY_CAN_TOEPLITZ) &&
                (!strategy_can(task->core, STRATEGY_CAN_GRAM) || strategy_matrix(task->core) != NULL);
    double terms = (plain ? (double)task->reach : 0) + (double)task->k + 16;
    return square * (1 + 2 * DBL_EPSILON * terms);
}

dpmf_status sensitivity_conclude(const sensitivity_task *task, const sensitivity_found *found, dpmf_sensitivity *out) {
    double square = found->kind == DPMF_EXACT ? found->square : rounded_up(task, found->square);
    if (!(square >= 0 && isfinite(square)))
        return base_fail(DPMF_ERROR_NUMERICAL, "the sensitivity is beyond the range of a double");
    *out = (dpmf_sensitivity){sqrt(square), found->kind, DPMF_SENSITIVITY_PARTICIPATION,
                              sensitivity_method_text(found->method)};
    return DPMF_OK;
}

dpmf_status sensitivity_check(const dpmf_strategy *strategy, const dpmf_participation *participation,
                              const dpmf_evaluate_options *o) {
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity: the strategy is NULL");
    if (participation != NULL && participation->steps != strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the participation has %lld steps, the strategy %lld: they must agree",
                         (long long)participation->steps, (long long)strategy->steps);
    if ((int)o->adjacency < 0 || o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((int)o->sensitivity < 0 || o->sensitivity > DPMF_BOUND_SIGNS)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound %d, accepted 0 to 3", (int)o->sensitivity);
    if ((int)o->of < 0 || o->of > DPMF_SENSITIVITY_COLUMN)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity of %d, accepted 0 to 1", (int)o->of);
    return DPMF_OK;
}

/*
 * How an evaluation is asked for and what it answers, in words: adjacency, bound of the sensitivity, kind of a figure;
 * and the presets. Here because the sensitivity is the first stage that reads these options; bounds, accounting and
 * evaluation read them after it.
 */

static const char *const KINDS[] = {[DPMF_EXACT] = "exact",
                                    [DPMF_UPPER_BOUND] = "upper bound",
                                    [DPMF_LOWER_BOUND] = "lower bound",
                                    [DPMF_ESTIMATE] = "estimate"};
static const char *const ADJACENCIES[] = {[DPMF_ADJACENCY_ZERO_OUT] = "zero-out",
                                          [DPMF_ADJACENCY_ADD_REMOVE] = "add-remove",
                                          [DPMF_ADJACENCY_REPLACE_ONE] = "replace-one"};
static const char *const BOUNDS[] = {[DPMF_BOUND_AUTO] = "auto",
                                     [DPMF_BOUND_SPECTRAL] = "spectral",
                                     [DPMF_BOUND_ABSOLUTE] = "absolute",
                                     [DPMF_BOUND_SIGNS] = "signs"};
enum { ADJACENCY_COUNT = sizeof ADJACENCIES / sizeof ADJACENCIES[0], BOUND_COUNT = sizeof BOUNDS / sizeof BOUNDS[0] };

/* The place of `text` among the names, or -1. */
static int find_name(int count, const char *const *names, const char *text) {
    for (int i = 0; text != NULL && i < count; i++)
        if (strcmp(text, names[i]) == 0) return i;
    return -1;
}

const char *dpmf_kind_name(dpmf_kind kind) {
    return (unsigned)kind < sizeof KINDS / sizeof KINDS[0] ? KINDS[kind] : "unknown";
}

const char *dpmf_adjacency_name(dpmf_adjacency adjacency) {
    return (unsigned)adjacency < ADJACENCY_COUNT ? ADJACENCIES[adjacency] : "unknown";
}

dpmf_status dpmf_adjacency_parse(const char *text, dpmf_adjacency *out) {
    char shown[64];
    int found = find_name(ADJACENCY_COUNT, ADJACENCIES, text);
    if (found < 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "adjacency '%s', accepted: zero-out, add-remove, replace-one",
                         text == NULL ? "NULL" : base_show(text, strlen(text), shown));
    *out = (dpmf_adjacency)found;
    return DPMF_OK;
}

const char *dpmf_sensitivity_bound_name(dpmf_sensitivity_bound bound) {
    return (unsigned)bound < BOUND_COUNT ? BOUNDS[bound] : "unknown";
}

dpmf_status dpmf_sensitivity_bound_parse(const char *text, dpmf_sensitivity_bound *out) {
    char shown[64];
    int found = find_name(BOUND_COUNT, BOUNDS, text);
    if (found < 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity '%s', accepted: auto, spectral, absolute, signs",
                         text == NULL ? "NULL" : base_show(text, strlen(text), shown));
    *out = (dpmf_sensitivity_bound)found;
    return DPMF_OK;
}

dpmf_evaluate_options dpmf_evaluate_options_defaults(void) {
    return (dpmf_evaluate_options){.run = dpmf_run_defaults()};
}
