/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual of optimum/epochs/epochs.c by singular values: P^1/2 A L = U Sigma Z', L the triangular factor of V, gives
 *
 *     tr V X = tr Sigma,    X = Y'Y with Y = Sigma^1/2 Z' L^-1,    P^1/2 A X^-1 A' P^1/2 = U Sigma U'.
 *
 * This serves workloads whose inverse is not banded and very short epochs. L couples only the steps of one class, so
 * that everything except the decomposition costs O(n^2 k).
 */
#include "base/linalg.h"

#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

dpmf_status epochs_dense_create(optimum_epochs *e) {
    int64_t n = e->n;
    TRY(base_alloc_square(n, "the workload", &e->matrix));
    TRY(base_alloc_square(n, "the weighted workload", &e->work));
    TRY(base_alloc_square(n, "its singular vectors", &e->left));
    TRY(base_alloc_doubles(n, "its singular values", &e->values));
    double *unit = e->values; /* A by its columns, kept as rows */
    for (int64_t t = 0; t < n; t++) {
        unit[t] = 1;
        TRY(dpmf_workload_apply(e->workload, unit, e->matrix + t * n));
        unit[t] = 0;
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < t; u++) {
            double kept = e->matrix[t * n + u];
            e->matrix[t * n + u] = e->matrix[u * n + t];
            e->matrix[u * n + t] = kept;
        }
    return DPMF_OK;
}

static int64_t members(const optimum_epochs *e, int64_t i) {
    return (e->n - i + e->b - 1) / e->b;
}

/* row = row of A times L, scaled. */
static void times_lower(const optimum_epochs *e, const double *lower, double scale, const double *from, double *to) {
    int64_t k = e->k, b = e->b;
    for (int64_t i = 0; i < b && i < e->n; i++) {
        const double *l = lower + i * k * k;
        int64_t m = members(e, i);
        for (int64_t c = 0; c < m; c++) {
            double sum = 0;
            for (int64_t r = c; r < m; r++)
                sum += from[i + r * b] * l[r * k + c];
            to[i + c * b] = scale * sum;
        }
    }
}

/* row = row times L^-1, scaled. */
static void over_lower(const optimum_epochs *e, const double *lower, double scale, double *row) {
    int64_t k = e->k, b = e->b;
    for (int64_t i = 0; i < b && i < e->n; i++) {
        const double *l = lower + i * k * k;
        for (int64_t c = members(e, i) - 1; c >= 0; c--) {
            double sum = scale * row[i + c * b];
            for (int64_t r = c + 1; r < members(e, i); r++)
                sum -= row[i + r * b] * l[r * k + c];
            row[i + c * b] = sum / l[c * k + c];
        }
    }
}

dpmf_status epochs_dense_eval(optimum_epochs *e, epochs_point *point) {
    int64_t n = e->n;
    const double *p = e->max_loss ? point->p : e->weights;
    for (int64_t t = 0; t < n; t++)
        times_lower(e, point->lower, p == NULL ? 1 : sqrt(p[t]), e->matrix + t * n, e->work + t * n);
    TRY(base_svd(n, e->work, e->values, e->left));
    point->trace = base_sum(n, e->values);
    /* backward stable: |sum of errors| <= sqrt(n) |change|_F, and |W|_F <= the trace */
    point->error = 32 * (double)n * DBL_EPSILON;
    memset(point->blocks, 0, (size_t)(e->b * e->k * e->k) * sizeof *point->blocks);
    for (int64_t j = 0; j < n; j++) {
        over_lower(e, point->lower, sqrt(e->values[j]), e->work + j * n);
        const int64_t k = e->k, b = e->b;
        const double *row = e->work + j * n;
        for (int64_t i = 0; i < b && i < e->n; i++)
            for (int64_t r = 0; r < members(e, i); r++)
                for (int64_t c = 0; c < members(e, i); c++)
                    point->blocks[(i * k + r) * k + c] += row[i + r * b] * row[i + c * b];
    }
    for (int64_t t = 0; e->max_loss && t < n; t++) {
        point->rows[t] = 0;
        for (int64_t j = 0; j < n; j++)
            point->rows[t] += e->values[j] * e->left[t * n + j] * e->left[t * n + j];
    }
    return DPMF_OK;
}

dpmf_status epochs_fill_dense(optimum_epochs *e, double *x) {
    int64_t n = e->n;
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t j = 0; j < n; j++) {
        const double *row = e->work + j * n;
        for (int64_t t = 0; t < n; t++)
            for (int64_t u = 0; u < n; u++)
                x[t * n + u] += row[t] * row[u];
    }
    return DPMF_OK;
}

dpmf_status epochs_nuclear(const optimum_epochs *e, const epochs_point *point, double *trace, double *error) {
    int64_t n = e->n, k = e->k, b = e->b;
    const double *p = e->max_loss ? point->p : e->weights;
    double *w = NULL, *values = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "the weighted workload", &w));
    TRY_DONE(base_alloc_doubles(n, "its singular values", &values));
    for (int64_t u = 0; u < n; u++) { /* column u of L, then of A L, as row u */
        double *row = w + u * n;
        const double *l = point->lower + u % b * k * k;
        for (int64_t r = u / b; u % b + r * b < n; r++)
            row[u % b + r * b] = l[r * k + u / b];
        TRY_DONE(dpmf_workload_apply(e->workload, row, row));
        for (int64_t t = 0; p != NULL && t < n; t++)
            row[t] *= sqrt(p[t]);
    }
    TRY_DONE(base_singular_values(n, n, w, values));
    *trace = base_sum(n, values);
    *error = 32 * (double)n * DBL_EPSILON; /* as in epochs_dense_eval */
done:
    base_free(w);
    base_free(values);
    return status;
}

/*
 * ---- X from a V without structure ----
 *
 * X(V) = V^-1 # A'PA by singular values, for a V without structure. With V = L L' and P^1/2 A L = U Sigma Z',
 *
 *     T = |P^1/2 A L|_* = sum Sigma,   X = Y'Y,  Y = Sigma^1/2 Z' L^-1,   p_t [A X^-1 A']_tt = sum_j Sigma_j U_tj^2.
 *
 * O(n^3); the loops run along rows.
 */

dpmf_status epochs_mean_make(const epochs_mean *m, const double *v, const double *p, double *trace, int *inside) {
    const int64_t n = m->n;
    memcpy(m->lower, v, (size_t)(n * n) * sizeof *v);
    dpmf_status status = base_cholesky(n, m->lower);
    *inside = status == DPMF_OK;
    if (status != DPMF_OK) return status == DPMF_ERROR_NUMERICAL ? DPMF_OK : status;
    /* w = P^1/2 A L. */
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
    TRY(base_svd(n, m->w, m->values, m->left));
    *trace = base_sum(n, m->values);
    /* Rows of w, which are Z', become those of Y. */
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
