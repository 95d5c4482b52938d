/* SPDX-License-Identifier: Apache-2.0 */
/*
 * x = A' y. For a named workload this is the adjoint of its recursion (workload/workload.c), run backwards:
 *
 *     lo_t = y_t + keep_{t+1} lo_{t+1},   lm_t = from_m rate_t lo_t + momentum lm_{t+1},
 *     x_t = from_y rate_t lo_t + lm_t.
 */
#include "workload/workload.h"

#include <string.h>

static void named_transpose(const dpmf_workload *w, const double *y, double *x) {
    double sum = 0, momentum = 0, keep = 0;
    for (int64_t t = w->steps - 1; t >= 0; t--) {
        workload_recursion_form r = workload_recursion(w, t);
        sum = y[t] + keep * sum;
        momentum = r.from_m * r.rate * sum + r.momentum * momentum;
        x[t] = r.from_y * r.rate * sum + momentum;
        keep = r.keep;
    }
}

static void prefix_transpose(int64_t n, const double *y, double *x) {
    double sum = 0;
    for (int64_t t = n - 1; t >= 0; t--)
        x[t] = sum += y[t];
}

static void dense_transpose(const dpmf_workload *w, const double *y, double *x) {
    int64_t n = w->steps;
    for (int64_t u = 0; u < n; u++) { /* x_u needs y_t for t >= u only: in place is fine */
        double sum = 0;
        for (int64_t t = u; t < n; t++)
            sum += w->matrix[t * n + u] * y[t];
        x[u] = sum;
    }
}

dpmf_status workload_apply_transpose(const dpmf_workload *w, const double *y, double *x) {
    if (w->form == WORKLOAD_OPERATOR) return base_fail(DPMF_ERROR_UNSUPPORTED, "a user's operator has no transpose");
    if (workload_is_prefix(w))
        prefix_transpose(w->steps, y, x);
    else if (w->form == WORKLOAD_NAMED)
        named_transpose(w, y, x);
    else
        dense_transpose(w, y, x);
    return DPMF_OK;
}
