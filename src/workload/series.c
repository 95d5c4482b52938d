/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Powers of a Toeplitz workload: A = a(N) with N the down-shift, so A^p has the power series a(x)^p as first column
 * (the square root of prefix sums: Fichtenberger, Henzinger and Upadhyay 2023; of momentum and weight decay: Kalinin
 * and Lampert 2024).
 *
 * For the named workloads a(x) = scale * prod_i (1 - a_i x)^e_i with at most three factors
 *
 *     (1 - k x)^-1     k = 1 - eta lambda, the running sum
 *     (1 - beta x)^-1  momentum
 *     (1 - beta/(1+beta) x)^+1  and scale (1 + beta), Nesterov
 *
 * and f = a^p obeys D f' = M f with D = prod (1 - a_i x), M = sum_i -p e_i a_i prod_{j != i} (1 - a_j x), which is a
 * recursion of at most three terms:
 *
 *     (k+1) f_{k+1} = sum_{j>=0} M_j f_{k-j} - sum_{j>=1} D_j (k+1-j) f_{k+1-j}.
 *
 * O(n), relative accuracy (f is its dominant solution), no FFT. For a dense Toeplitz matrix, a f' = p a' f takes
 * O(n^2).
 */
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { FACTORS_MAX = 3 };

typedef struct factored {
    double scale;
    int count;
    double a[FACTORS_MAX], e[FACTORS_MAX];
} factored;

static factored factors_of(const dpmf_workload *w) {
    double eta = w->toeplitz && w->learning_rate != NULL ? w->learning_rate[0] : 1;
    factored f = {.scale = eta, .count = 1, .a = {1 - eta * w->decay}, .e = {-1}};
    if (w->momentum > 0) {
        f.a[f.count] = w->momentum;
        f.e[f.count++] = -1;
    }
    if (w->nesterov) {
        f.scale *= 1 + w->momentum;
        f.a[f.count] = w->momentum / (1 + w->momentum);
        f.e[f.count++] = 1;
    }
    return f;
}

/* poly *= (1 - a x), degree rising by one. */
static void multiply_factor(double *poly, int *degree, double a) {
    poly[*degree + 1] = 0;
    for (int j = *degree + 1; j >= 1; j--)
        poly[j] -= a * poly[j - 1];
    (*degree)++;
}

static void named_series(const factored *f, double power, int64_t count, double *out) {
    double d[FACTORS_MAX + 1] = {1}, m[FACTORS_MAX + 1] = {0};
    int degree = 0;
    for (int i = 0; i < f->count; i++)
        multiply_factor(d, &degree, f->a[i]);
    for (int i = 0; i < f->count; i++) {
        double others[FACTORS_MAX + 1] = {1};
        int others_degree = 0;
        for (int j = 0; j < f->count; j++)
            if (j != i) multiply_factor(others, &others_degree, f->a[j]);
        for (int j = 0; j <= others_degree; j++)
            m[j] -= power * f->e[i] * f->a[i] * others[j];
    }
    out[0] = pow(f->scale, power);
    for (int64_t k = 0; k + 1 < count; k++) {
        double sum = 0;
        /* the sums are combined term by term: for prefix sums this is the exact ratio (k + p)/(k + 1) */
        for (int j = 0; j < f->count && j <= k; j++)
            sum += (m[j] - d[j + 1] * (double)(k - j)) * out[k - j];
        out[k + 1] = sum / (double)(k + 1);
    }
}

/* First column of a dense Toeplitz matrix to a power: k a_0 g_k = sum_{j=1..k} (p j - (k - j)) a_j g_{k-j}. */
static void dense_series(const dpmf_workload *w, double power, int64_t count, double *out) {
    int64_t n = w->steps;
    double a0 = w->matrix[0];
    out[0] = pow(a0, power);
    for (int64_t k = 1; k < count; k++) {
        double sum = 0;
        for (int64_t j = 1; j <= k; j++)
            sum += (power * (double)j - (double)(k - j)) * w->matrix[j * n] * out[k - j];
        out[k] = sum / ((double)k * a0);
    }
}

dpmf_status workload_series(const dpmf_workload *w, double power, int64_t count, double *out) {
    assert(count >= 1 && count <= w->steps);
    if (w->form == WORKLOAD_NAMED) {
        factored f = factors_of(w);
        named_series(&f, power, count, out);
        return DPMF_OK;
    }
    if (!w->toeplitz)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s has no square root here: it is not Toeplitz; accepted: prefix, momentum, "
                         "nesterov, decay, schedules (taken without them), or a Toeplitz matrix",
                         w->text);
    if (!(w->matrix[0] > 0))
        return base_fail(DPMF_ERROR_NUMERICAL, "workload %s: diagonal %g has no real square root, accepted > 0",
                         w->text, w->matrix[0]);
    dense_series(w, power, count, out);
    return DPMF_OK;
}
