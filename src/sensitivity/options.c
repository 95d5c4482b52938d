/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an evaluation is asked for and what it answers, in words: adjacency, bound of the sensitivity, kind of a figure;
 * and the presets. Here because the sensitivity is the first stage that reads these options; bounds, accounting and
 * evaluation read them after it.
 */
#include "base/status.h"
#include "base/text.h"

#include <string.h>

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
