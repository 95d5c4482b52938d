/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity: how far C g moves in l2 norm when the contributions of one unit, each of norm at most 1, are taken out
 * (Pillutla et al. 2025, Definition 3.13; Choquette-Choo et al. 2023, Section 2).
 *
 *     single participation   the largest column norm of C, exactly (Denisov et al. 2022, Section 2)
 *
 * Replacing one unit by another moves C g by at most twice as far, and for some pair by exactly that.
 */
#include "sensitivity.h"

#include "base/memory.h"
#include "participation.h"
#include "strategy.h"

#include <math.h>
#include <string.h>

static const char LARGEST_COLUMN[] = "largest column norm";
static const char *const METHODS[] = {LARGEST_COLUMN};

const char *dpmf_i_sensitivity_method(const char *text) {
    for (size_t i = 0; i < sizeof METHODS / sizeof METHODS[0]; i++)
        if (strcmp(text, METHODS[i]) == 0) return METHODS[i];
    return NULL;
}

static dpmf_status largest_column(const dpmf_strategy *s, double *out) {
    double *norms = NULL;
    TRY(dpmf_i_alloc_doubles(s->steps, "the column norms", &norms));
    dpmf_status status = dpmf_strategy_column_norms(s, norms);
    double largest = 0;
    for (int64_t t = 0; t < s->steps && status == DPMF_OK; t++) {
        if (!isfinite(norms[t]))
            status = dpmf_i_fail(DPMF_ERROR_NUMERICAL, "the norm of column %lld is not finite", (long long)t);
        if (norms[t] > largest) largest = norms[t];
    }
    dpmf_i_free(norms);
    if (status == DPMF_OK) *out = largest;
    return status;
}

dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     dpmf_adjacency adjacency, const dpmf_run *run, dpmf_sensitivity *out) {
    double value = 0;
    (void)run;
    if (participation != NULL && participation->steps != strategy->steps)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "the participation has %lld steps, the strategy %lld: they must agree",
                           (long long)participation->steps, (long long)strategy->steps);
    if ((int)adjacency < 0 || adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return dpmf_i_fail(DPMF_ERROR_ARGUMENT, "adjacency %d, accepted 0 to 2", (int)adjacency);
    if (participation != NULL && participation->count > 1)
        return dpmf_i_fail(DPMF_ERROR_UNSUPPORTED,
                           "participation %s: sensitivity is known here for single participation", participation->text);
    TRY(largest_column(strategy, &value));
    if (adjacency == DPMF_ADJACENCY_REPLACE_ONE) value *= 2;
    *out = (dpmf_sensitivity){value, DPMF_EXACT, DPMF_SENSITIVITY_PARTICIPATION, LARGEST_COLUMN};
    return DPMF_OK;
}
