/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X(V) = V^-1 # A'PA by singular values, for a V without structure. With V = L L' and P^1/2 A L = U Sigma Z',
 *
 *     T = |P^1/2 A L|_* = sum Sigma,   X = Y'Y,  Y = Sigma^1/2 Z' L^-1,   p_t [A X^-1 A']_tt = sum_j Sigma_j U_tj^2.
 *
 * O(n^3); the loops run along rows.
 */
#include "base/linalg.h"
#include "optimum/epochs/epochs.h"

#include <math.h>
#include <string.h>

/* w = P^1/2 A L. */
static void multiply(const epochs_mean *m, const double *p) {
    const int64_t n = m->n;
    memset(m->w, 0, (size_t)(n * n) * sizeof *m->w);
    for (int64_t t = 0; t < n; t++) {
        double *to = m->w + t * n;
        const double root = p == NULL ? 1 : sqrt(p[t]);
        for (int64_t j = 0; j <= t; j++) {
            const double by = root * m->a[t * n + j], *row = m->lower + j * n;
            for (int64_t u = 0; u <= j; u++)
                to[u] += by * row[u];
        }
    }
}

/* Rows of w, which are Z', become those of Y. */
static void divide(const epochs_mean *m) {
    const int64_t n = m->n;
    for (int64_t j = 0; j < n; j++) {
        double *row = m->w + j * n;
        const double root = sqrt(m->values[j]);
        for (int64_t c = 0; c < n; c++)
            row[c] *= root;
        for (int64_t r = n - 1; r >= 0; r--) {
            const double *lower = m->lower + r * n, here = row[r] /= lower[r];
            for (int64_t c = 0; c < r; c++)
                row[c] -= here * lower[c];
        }
    }
}

dpmf_status epochs_mean_make(const epochs_mean *m, const double *v, const double *p, double *trace, int *inside) {
    const int64_t n = m->n;
    memcpy(m->lower, v, (size_t)(n * n) * sizeof *v);
    dpmf_status status = base_cholesky(n, m->lower);
    *inside = status == DPMF_OK;
    if (status != DPMF_OK) return status == DPMF_ERROR_NUMERICAL ? DPMF_OK : status;
    multiply(m, p);
    TRY(base_svd(n, m->w, m->values, m->left));
    *trace = base_sum(n, m->values);
    divide(m);
    memset(m->x, 0, (size_t)(n * n) * sizeof *m->x);
    for (int64_t j = 0; j < n; j++)
        for (int64_t t = 0; t < n; t++) {
            const double *row = m->w + j * n, by = row[t];
            for (int64_t u = 0; u < n; u++)
                m->x[t * n + u] += by * row[u];
        }
    for (int64_t t = 0; t < n; t++) {
        m->rows[t] = 0;
        for (int64_t j = 0; j < n; j++)
            m->rows[t] += m->values[j] * m->left[t * n + j] * m->left[t * n + j];
    }
    return DPMF_OK;
}

dpmf_status epochs_mean_load(const dpmf_workload *workload, const epochs_mean *m, double *a) {
    const int64_t n = m->n;
    for (int64_t t = 0; t < n; t++) {
        memset(m->rows, 0, (size_t)n * sizeof *m->rows);
        m->rows[t] = 1;
        TRY(dpmf_workload_apply(workload, m->rows, m->values));
        for (int64_t u = 0; u < n; u++)
            a[u * n + t] = m->values[u];
    }
    return DPMF_OK;
}
