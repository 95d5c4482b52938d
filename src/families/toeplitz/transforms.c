/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of Toeplitz C of many bands by fast Fourier transforms, O(n log n).
 *
 *     h = 1/c as a power series (Newton),   w = A h,   E = sum_i u_i w_i^2
 *     v = C^-T g, g_i = 2 u_i w_i:   v_{n-1-i} = sum_j h_j g_{n-1-(i-j)},   a product of two series
 *     dE/dc_j = -sum_i v_i w_{i-j} = -(v reversed times w)_{n-1-j}
 *
 * The errors of the transforms are about 1e-16 sqrt(log n) of the largest norms, far below what a loss needs.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/fft.h"
#include "base/memory.h"
#include "base/sum.h"

#include <math.h>

static int all_finite(int64_t n, const double *x) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* h = 1/c; *stable = 0 if it passes the range of a double. */
static dpmf_status invert(const toeplitz_error *e, const double *c, double *h, int *stable) {
    *stable = all_finite(e->bands, c);
    if (!*stable) return DPMF_OK;
    dpmf_status status = base_series_inverse(e->bands, c, e->n, h);
    if (status == DPMF_ERROR_NUMERICAL) {
        *stable = 0;
        return DPMF_OK;
    }
    return status;
}

dpmf_status toeplitz_error_transforms(toeplitz_error *e, const double *c, double *value, double *gradient) {
    const int64_t n = e->n;
    double *h = e->forcing, *w = e->response, *source = e->source, *v = e->adjoint;
    base_running sum = {0};
    int stable = 0;
    *value = INFINITY;
    TRY(invert(e, c, h, &stable));
    if (!stable) return DPMF_OK;
    TRY(dpmf_workload_apply(e->workload, h, w));
    for (int64_t i = 0; i < n; i++) {
        double u = toeplitz_weight(e, i);
        base_running_add(&sum, u * w[i] * w[i]);
        source[n - 1 - i] = 2 * u * w[i];
    }
    e->used = n;
    if (!isfinite(base_running_value(&sum))) return DPMF_OK;
    if (gradient != NULL) {
        TRY(base_convolve(n, h, n, source, n, v)); /* reversed */
        if (!all_finite(n, v)) return DPMF_OK;
        TRY(base_convolve(n, v, n, w, n, source));
        for (int64_t j = 0; j < e->bands; j++)
            gradient[j] = -source[n - 1 - j];
    }
    *value = base_running_value(&sum);
    return DPMF_OK;
}
