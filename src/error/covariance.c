/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of any strategy whose noise covariance Y = W W' has cheap rows, under a named workload (error/error.h): carry
 * Cov(m_{t-1}, y_u) and Cov(o_{t-1}, y_u) for all u >= t. O(n^2) time, O(n) memory, one pass.
 */
#include "base/memory.h"
#include "error/error.h"
#include "strategy/strategy.h"

dpmf_status error_covariance(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps;
    double *y = NULL, *ym = NULL, *yo = NULL;
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a covariance row", &y));
    TRY_DONE(base_alloc_doubles(n, "covariances", &ym));
    TRY_DONE(base_alloc_doubles(n, "covariances", &yo));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 8 * n));
        error_drive d = error_drive_at(a, t);
        s->ops->covariance(s, t, y);
        error_moments_advance(&d, y[0], ym[t], yo[t], &v);
        per_step[t] = v.oo;
        for (int64_t u = t + 1; u < n; u++) {
            yo[u] = d.keep * yo[u] + d.p * ym[u] + d.g * y[u - t];
            ym[u] = d.beta * ym[u] + y[u - t];
        }
    }
done:
    base_free(y);
    base_free(ym);
    base_free(yo);
    return status;
}
