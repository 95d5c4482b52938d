/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Toeplitz coefficients without gradients: c_i = 1/(i+1) + shift, which fits the optimal ones closely for n much larger
 * than the bands, with the best shift found by trying a range of them and closing in on the best (McKenna 2024,
 * Appendix J); and the taper of Appendix H, which makes banded coefficients robust when the separation of
 * participations is only known to lie between two numbers.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>

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
