/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route for a Toeplitz C under a learning-rate schedule, near linear in the steps: named workloads without decay. Columns
 * divided by their norms d are a schedule too, of rates r_s d_s, where no momentum stands between the two.
 *
 * h is the first column of C^-1, g_i = from_m (momentum filter of h)_i + from_y h_i, so that step s changes the answer by
 * r_s times the noise sum_u g_{s-u} z_u. Row t of B has B[t,u] = sum_{u <= s <= t} r_s g_{s-u}, and its square grows by
 *
 *     e_t - e_{t-1} = r_t^2 sum_{i <= t} g_i^2 + 2 r_t sum_{s < t} r_s sum_{i <= s} g_i g_{i+t-s}.
 *
 * With seeds from before step 0 as well, the inner sum were Gamma(t-s) = sum_i g_i g_{i+t-s}, and the sum over s one
 * convolution. What those seeds would add is
 *
 *     sum_{u >= 1} g_{t+u} sum_{s < t} r_s g_{s+u},
 *
 * which ends where g does: for b bands g falls below rounding after some dozens of b. So O(n log n + l^2) with l the
 * length of g, against O(n^2) by columns (error/toeplitz.c) and O(n b^2) by the covariance of past outputs. A g that does not
 * end within half of the run, as that of the square root, goes by error/triangle.c, O(n log^2 n).
 */
#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "error/error.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* g from h in place. */
static void filter(const dpmf_workload *a, int64_t n, double *g) {
    const workload_recursion_form r = workload_recursion(a, 0);
    double m = 0;
    for (int64_t i = 0; i < n; i++) {
        m = r.momentum * m + g[i];
        g[i] = r.from_m * m + r.from_y * g[i];
    }
}

/* Beyond this all of g together is below the rounding of its largest number. */
static int64_t length_of(int64_t n, const double *g) {
    double largest = 0, tail = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(g[i]));
    int64_t length = n;
    while (length > 1 && tail + fabs(g[length - 1]) <= 0.01 * DBL_EPSILON * largest)
        tail += fabs(g[--length]);
    return length;
}

/* Gamma(d), d = 0..length-1: g against itself reversed. */
static dpmf_status autocorrelate(int64_t length, const double *g, double *gamma) {
    double *reversed = NULL, *product = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(length, "reversed", &reversed));
    TRY_DONE(base_alloc_doubles(2 * length - 1, "a product", &product));
    for (int64_t i = 0; i < length; i++)
        reversed[i] = g[length - 1 - i];
    TRY_DONE(base_convolve(length, g, length, reversed, 2 * length - 1, product));
    memcpy(gamma, product + length - 1, (size_t)length * sizeof *gamma);
done:
    base_free(reversed);
    base_free(product);
    return status;
}

/* Takes off q_t what seeds from before step 0 would add, t < length; `sums` is room for length numbers. */
static dpmf_status without_the_past(int64_t length, const double *g, const double *rates, double *sums, double *q,
                                    const dpmf_run *run) {
    memset(sums, 0, (size_t)length * sizeof *sums);
    for (int64_t t = 1; t < length; t++) {
        const double rate = rates[t - 1], *before = g + t - 1, *now = g + t;
        double past = 0;
        for (int64_t u = 1; u < length - t; u++) {
            sums[u] += rate * before[u]; /* over s < t */
            past += now[u] * sums[u];
        }
        q[t] -= past;
        if ((t & 0xff) == 0) TRY(base_progress(run, "error", -1));
    }
    return DPMF_OK;
}

/* q_t = sum over s < t of r_s sum_{i <= s} g_i g_{i+t-s}, for a g that ends. */
static dpmf_status short_filter(int64_t n, int64_t length, const double *g, const double *rates, const dpmf_run *run,
                                double *q) {
    double *gamma = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(length, "its products", &gamma));
    TRY_DONE(autocorrelate(length, g, gamma));
    gamma[0] = 0; /* s < t */
    TRY_DONE(base_convolve(n, rates, length, gamma, n, q));
    TRY_DONE(without_the_past(length, g, rates, gamma, q, run));
done:
    base_free(gamma);
    return status;
}

/* h: by its recursion, or for many bands as a power series. */
static dpmf_status fill_inverse(int64_t n, int64_t count, const double *c, double *h) {
    enum { MANY = 4096 };
    if (count > MANY) return base_series_inverse(count, c, n, h);
    h[0] = 1;
    base_toeplitz_solve_banded(n, count, c, h, h);
    return DPMF_OK;
}

dpmf_status error_schedule(const dpmf_workload *a, int64_t count, const double *c, const double *scale,
                           const dpmf_run *run, int *done, double *per_step) {
    enum { LONG = 4096 }; /* up to here columns are as fast where g does not end, and exact */
    const int64_t n = a->steps;
    double *g = NULL, *rates = NULL, *q = NULL, squares = 0;
    dpmf_status status = DPMF_OK;
    *done = 0;
    if (scale != NULL && a->momentum > 0) return DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a filter", &g));
    TRY_DONE(fill_inverse(n, count, c, g));
    filter(a, n, g);
    const int64_t length = length_of(n, g);
    if (!isfinite(base_norm(n, g)) || (length > n / 2 && n < LONG)) goto done;
    TRY_DONE(base_alloc_doubles(n, "learning rates", &rates));
    TRY_DONE(base_alloc_doubles(n, "covariances", &q));
    for (int64_t t = 0; t < n; t++)
        rates[t] = workload_recursion(a, t).rate * (scale == NULL ? 1 : scale[t]);
    TRY_DONE(length > n / 2 ? error_triangle(n, g, rates, run, q) : short_filter(n, length, g, rates, run, q));
    base_running total = {0};
    for (int64_t t = 0; t < n; t++) {
        squares = t < length ? squares + g[t] * g[t] : squares;
        base_running_add(&total, rates[t] * (rates[t] * squares + 2 * q[t]));
        per_step[t] = base_running_value(&total);
    }
    *done = 1;
done:
    base_free(g);
    base_free(rates);
    base_free(q);
    return status;
}
