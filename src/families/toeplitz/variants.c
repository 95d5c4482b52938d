/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded Toeplitz coefficients by other ways than the exact optimum (McKenna 2024): the sweep of Appendix J and the taper
 * of Appendix H.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/memory.h"

#include <string.h>

static dpmf_status optimize_tapered(const optimize_task *task, double *c, dpmf_optimization *result) {
    dpmf_optimize_options plain = *task->options;
    optimize_task inner = {task->workload, task->participation, &plain};
    dpmf_strategy *strategy = NULL;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    plain.taper = 0;
    plain.normalize = DPMF_NORMALIZE_NONE;
    TRY_DONE(toeplitz_optimize_banded(&inner, &strategy, result));
    TRY_DONE(base_alloc_doubles(task->workload->steps, "a column", &column));
    TRY_DONE(dpmf_strategy_column(strategy, 0, column));
    memcpy(c, column, (size_t)plain.bands * sizeof *c);
    TRY_DONE(optimize_taper(plain.bands, task->options->taper, c));
    result->stationarity = 0; /* of the coefficients before the taper: says nothing of these */
done:
    dpmf_strategy_free(strategy);
    base_free(column);
    return status;
}

static dpmf_status check_variant(const optimize_task *task) {
    const dpmf_optimize_options *o = task->options;
    if (o->sweep && o->taper != 0) return base_fail(DPMF_ERROR_ARGUMENT, "sweep and taper exclude each other");
    if (o->taper < 0 || o->taper >= o->bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld, accepted 1 to below the %lld bands",
                         (long long)o->taper, (long long)o->bands);
    if (o->sweep && (!dpmf_participation_is_single(task->participation) || o->weights != NULL))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the sweep is for single participation, no weights");
    if (o->normalize == DPMF_NORMALIZE_WITHIN)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sweep and taper are normalized after, not within");
    return DPMF_OK;
}

static dpmf_status make_variant(const optimize_task *task, const double *c, dpmf_strategy **out) {
    const dpmf_optimize_options *o = task->options;
    dpmf_strategy *plain = NULL;
    dpmf_status status = DPMF_OK;
    if (out == NULL) return DPMF_OK;
    TRY(dpmf_strategy_create_banded_toeplitz(task->workload->steps, o->bands, c, &plain));
    if (o->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

dpmf_status toeplitz_optimize_variant(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    toeplitz_sweep_result swept;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    if (!o->sweep && o->taper == 0) return toeplitz_optimize_banded(task, out, result);
    TRY(check_variant(task));
    TRY_DONE(base_alloc_doubles(o->bands, "the coefficients", &c));
    if (o->sweep) {
        TRY_DONE(toeplitz_sweep(task->workload, o->bands, o->loss, c, &swept));
        result->iterations = swept.evaluations;
    } else {
        TRY_DONE(optimize_tapered(task, c, result));
    }
    TRY_DONE(make_variant(task, c, out));
done:
    base_free(c);
    return status;
}
