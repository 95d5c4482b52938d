/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From X to a mechanism and its loss. X(V) of a nearly optimal V nearly satisfies the constraints. It is repaired by a
 * congruence: X becomes T X T', T nearly the identity and coupling the steps of one class only, such that the blocks of
 * the classes become diagonal with trace 1. (Overwriting the entries that should be 0 would add white noise to X, far
 * above its small eigenvalues, which dominate X^-1 and the loss; T changes slowly along an epoch and keeps the
 * cancellations.) Alternatively it is repaired by adding to the diagonal, which only lowers errors but costs
 * sensitivity: never worse than the bound of optimum/epochs/climb.c. With J the reversal of the steps, J X J = L L'
 * gives the lower triangular C = J L' J with C'C = X.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

dpmf_status epochs_factor(int64_t n, double *x, int *definite) {
    base_reverse(n * n, x);
    dpmf_status status = base_cholesky(n, x);
    *definite = status != DPMF_ERROR_NUMERICAL;
    if (status != DPMF_OK) return *definite ? status : DPMF_OK;
    base_reverse_across(n, x);
    return DPMF_OK;
}

/* ---- the repair ---- */

/*
 * T for class i, m x m: with D^2 the diagonal of its block X_i and R = D^-1 X_i D^-1, T = D R^-1/2 D^-1 / sqrt(trace).
 * 0 if the block is not positive definite.
 */
static dpmf_status class_transform(int64_t n, int64_t b, int64_t i, int64_t m, const double *x, double *vectors,
                                   double *values, double *transform, int *definite) {
    double trace = 0;
    for (int64_t r = 0; r < m; r++) {
        double d = x[(i + r * b) * n + i + r * b];
        trace += d;
        if (!(d > 0 && isfinite(d))) *definite = 0;
        for (int64_t q = 0; q < m && *definite; q++)
            vectors[r * m + q] =
                x[(i + r * b) * n + i + q * b] / sqrt(d * fmax(x[(i + q * b) * n + i + q * b], DBL_MIN));
    }
    if (!*definite) return DPMF_OK;
    TRY(base_symmetric_eigen(m, vectors, values));
    if (!(values[0] > 0)) *definite = 0;
    for (int64_t r = 0; r < m && *definite; r++)
        for (int64_t q = 0; q < m; q++) {
            double sum = 0;
            for (int64_t j = 0; j < m; j++)
                sum += vectors[j * m + r] * vectors[j * m + q] / sqrt(values[j]);
            transform[r * m + q] =
                sum * sqrt(x[(i + r * b) * n + i + r * b] / (x[(i + q * b) * n + i + q * b] * trace));
        }
    return DPMF_OK;
}

/* rows of class i = T times them; `mixed`: m x n numbers. */
static void mix_rows(int64_t n, int64_t b, int64_t i, int64_t m, const double *transform, double *x, double *mixed) {
    memset(mixed, 0, (size_t)(m * n) * sizeof *mixed);
    for (int64_t r = 0; r < m; r++)
        for (int64_t q = 0; q < m; q++) {
            const double *from = x + (i + q * b) * n;
            double by = transform[r * m + q], *to = mixed + r * n;
            for (int64_t u = 0; u < n; u++)
                to[u] += by * from[u];
        }
    for (int64_t r = 0; r < m; r++)
        memcpy(x + (i + r * b) * n, mixed + r * n, (size_t)n * sizeof *x);
}

/* The same for columns, all classes in one pass over the rows. */
static void mix_columns(int64_t n, int64_t b, int64_t k, const double *transforms, double *x, double *mixed) {
    for (int64_t t = 0; t < n; t++) {
        double *row = x + t * n;
        for (int64_t i = 0; i < b; i++) {
            int64_t m = (n - i + b - 1) / b;
            const double *transform = transforms + i * k * k;
            for (int64_t r = 0; r < m; r++) {
                double sum = 0;
                for (int64_t q = 0; q < m; q++)
                    sum += transform[r * m + q] * row[i + q * b];
                mixed[i + r * b] = sum;
            }
        }
        memcpy(row, mixed, (size_t)n * sizeof *row);
    }
}

/* Makes both triangles equal, with zeros where they belong. */
static void settle(int64_t n, int64_t b, double *x) {
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < t; u++)
            x[t * n + u] = x[u * n + t] = (t - u) % b == 0 ? 0 : 0.5 * (x[t * n + u] + x[u * n + t]);
}

static dpmf_status repair_by_mixing(int64_t n, int64_t b, double *x, int *definite) {
    int64_t k = (n + b - 1) / b;
    double *transforms = NULL, *vectors = NULL, *values = NULL, *mixed = NULL;
    dpmf_status status = DPMF_OK;
    *definite = 1;
    TRY_DONE(base_alloc_doubles(b * k * k, "the repair of each class", &transforms));
    TRY_DONE(base_alloc_doubles(k * k, "eigenvectors", &vectors));
    TRY_DONE(base_alloc_doubles(k, "eigenvalues", &values));
    TRY_DONE(base_alloc_doubles(k * n, "rows of X", &mixed));
    for (int64_t i = 0; i < b && *definite; i++)
        TRY_DONE(class_transform(n, b, i, (n - i + b - 1) / b, x, vectors, values, transforms + i * k * k, definite));
    if (!*definite) goto done;
    for (int64_t i = 0; i < b; i++)
        mix_rows(n, b, i, (n - i + b - 1) / b, transforms + i * k * k, x, mixed);
    mix_columns(n, b, k, transforms, x, mixed);
    settle(n, b, x);
done:
    base_free(transforms);
    base_free(vectors);
    base_free(values);
    base_free(mixed);
    return status;
}

/* Adds the |X| of zeroed entries to the diagonal; then all is scaled alike, and diagonals are raised to trace 1. */
static void repair_by_adding(int64_t n, int64_t b, double *x) {
    double largest = 0;
    for (int64_t i = 0; i < b; i++) {
        double trace = 0;
        for (int64_t t = i; t < n; t += b) {
            for (int64_t u = i; u < n; u += b) {
                if (u == t) continue;
                x[t * n + t] += fabs(x[t * n + u]);
                x[t * n + u] = 0;
            }
            trace += x[t * n + t];
        }
        largest = fmax(largest, trace);
    }
    for (int64_t j = 0; j < n * n; j++)
        x[j] /= largest;
    for (int64_t i = 0; i < b; i++) {
        double trace = 0;
        for (int64_t t = i; t < n; t += b)
            trace += x[t * n + t];
        for (int64_t t = i; t < n; t += b)
            x[t * n + t] += fmax(0, 1 - trace) / (double)((n - i + b - 1) / b);
    }
}

dpmf_status epochs_repair(int64_t n, int64_t b, int by_adding, double *x, int *definite) {
    *definite = 1;
    if (by_adding)
        repair_by_adding(n, b, x);
    else
        TRY(repair_by_mixing(n, b, x, definite));
    return *definite ? epochs_factor(n, x, definite) : DPMF_OK;
}

/* ---- the loss ---- */

dpmf_status epochs_sensitivity(int64_t n, int64_t b, const double *c, double *squared) {
    int64_t k = (n + b - 1) / b;
    double *grams = NULL, largest = 0;
    TRY(base_alloc_doubles(b * k * k, "inner products of columns", &grams));
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < b && i <= t; i++) {
            double *gram = grams + i * k * k;
            const double *row = c + t * n;
            for (int64_t r = 0; i + r * b <= t; r++)
                for (int64_t q = 0; q <= r; q++)
                    gram[r * k + q] += row[i + r * b] * row[i + q * b];
        }
    for (int64_t i = 0; i < b; i++) {
        double sum = 0;
        for (int64_t r = 0; r < k; r++)
            for (int64_t q = 0; q <= r; q++)
                sum += (r == q ? 1 : 2) * fabs(grams[(i * k + r) * k + q]);
        largest = fmax(largest, sum);
    }
    base_free(grams);
    *squared = largest * (1 + 2 * (double)(n + k * k) * DBL_EPSILON);
    return DPMF_OK;
}

dpmf_status epochs_loss(const dpmf_workload *a, int max_loss, const double *weights, double *c, double *squared) {
    int64_t n = a->steps;
    double *state = NULL, *row = NULL, total = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_lower_invert(n, c));
    TRY_DONE(base_alloc_doubles(workload_buffers(a) * n + 1, "the state of the workload", &state));
    TRY_DONE(base_alloc_doubles(n, "a row", &row));
    for (int64_t t = 0; t < n; t++) {
        workload_step(a, t, n, c + t * n, state, row);
        double here = base_dot(n, row, row);
        total = max_loss ? fmax(total, here) : total + (weights == NULL ? 1 : weights[t]) * here;
    }
    *squared = total;
done:
    base_free(state);
    base_free(row);
    return status;
}
