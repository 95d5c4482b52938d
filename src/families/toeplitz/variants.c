/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded Toeplitz coefficients by other ways than the exact optimum (McKenna 2024): the sweep of Appendix J and the taper
 * of Appendix H.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

dpmf_status toeplitz_taper(int64_t bands, int64_t least, double *c) {
    if (bands < 2 || least < 1 || least >= bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld of %lld bands, accepted: 1 to bands - 1",
                         (long long)least, (long long)bands);
    for (int64_t i = least; i <= bands; i++)
        c[i - 1] *= (double)(bands - i) / (double)(bands - least);
    return DPMF_OK;
}

static dpmf_status optimize_tapered(const optimize_task *task, double *c, dpmf_optimization *result) {
    dpmf_optimize_options plain = *task->options;
    optimize_task inner = {task->workload, task->participation, &plain, NULL};
    dpmf_strategy *strategy = NULL;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    plain.taper = 0;
    plain.normalize = DPMF_NORMALIZE_NONE;
    TRY_DONE(toeplitz_optimize_banded(&inner, &strategy, result));
    TRY_DONE(base_alloc_doubles(task->workload->steps, "a column", &column));
    TRY_DONE(dpmf_strategy_column(strategy, 0, column));
    memcpy(c, column, (size_t)plain.bands * sizeof *c);
    TRY_DONE(toeplitz_taper(plain.bands, task->options->taper, c));
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
    if (o->sweep && (!workload_is_single(task->participation) || o->weights != NULL))
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
    TRY(dpmf_strategy_create_toeplitz(task->workload->steps, DPMF_TOEPLITZ_BANDED, o->bands, c, &plain));
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

/*
 * Toeplitz coefficients without gradients: c_i = 1/(i+1) + shift, which fits the optimal ones closely for n much larger
 * than the bands, with the best shift found by trying a range of them and closing in on the best (McKenna 2024,
 * Appendix J); and the taper of Appendix H, which makes banded coefficients robust when the separation of
 * participations is only known to lie between two numbers.
 */

enum { GRID = 29 }; /* shifts from 1e-4 to 1e3, four a decade: 0 and infinity are no better for prefix sums */

static dpmf_status loss_at(toeplitz_error *e, double shift, double *c, toeplitz_sweep_result *best) {
    double error = INFINITY;
    for (int64_t i = 0; i < e->bands; i++)
        c[i] = 1 / (double)(i + 1) + shift;
    TRY(toeplitz_error_value(e, c, &error, NULL));
    double loss = base_norm(e->bands, c) * sqrt(error);
    best->evaluations++;
    if (loss < best->loss) {
        best->loss = loss;
        best->shift = shift;
    }
    return DPMF_OK;
}

/* Golden section around the best point of the grid: the loss is smooth there, and flat, so 40 steps are plenty. */
static dpmf_status close_in(toeplitz_error *e, double *c, toeplitz_sweep_result *best) {
    const double golden = 0.5 * (sqrt(5) - 1);
    double width = 0.25; /* decades */
    for (int step = 0; step < 40; step++, width *= golden) {
        const double centre = best->shift;
        TRY(loss_at(e, centre * pow(10, -width), c, best));
        TRY(loss_at(e, centre * pow(10, width), c, best));
    }
    return DPMF_OK;
}

dpmf_status toeplitz_sweep(const dpmf_workload *workload, int64_t bands, dpmf_loss loss, double *coefficients,
                           toeplitz_sweep_result *out) {
    toeplitz_error e = {0};
    toeplitz_sweep_result best = {.loss = INFINITY};
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    if (!workload->toeplitz)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the sweep takes Toeplitz workloads only, not %s", workload->text);
    if (bands < 1 || bands > workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld bands, accepted 1 to the %lld steps", (long long)bands,
                         (long long)workload->steps);
    TRY_DONE(toeplitz_error_create(workload, bands, loss, NULL, &e));
    TRY_DONE(base_alloc_doubles(bands, "the coefficients", &c));
    for (int i = 0; i < GRID; i++)
        TRY_DONE(loss_at(&e, pow(10, -4 + 0.25 * i), c, &best));
    TRY_DONE(loss_at(&e, 0, c, &best));
    if (!isfinite(best.loss)) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "no shift gives coefficients of finite loss");
        goto done;
    }
    if (best.shift > 0) TRY_DONE(close_in(&e, c, &best));
    for (int64_t i = 0; i < bands && coefficients != NULL; i++)
        coefficients[i] = 1 / (double)(i + 1) + best.shift;
    *out = best;
done:
    toeplitz_error_free(&e);
    base_free(c);
    return status;
}
