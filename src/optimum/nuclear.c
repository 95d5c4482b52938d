/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nuclear norm |A|_* of a workload, the sum of its singular values, from below. Each route subtracts a bound on its
 * rounding errors, so that the result is a true lower bound; u = 2^-53 is the unit roundoff.
 *
 *     prefix sums   (S'S)^-1 = S^-1 S^-T is the tridiagonal matrix (-1, 2, -1) with a 1 in its first corner, whose
 *                   eigenvalues are 4 sin^2 x_t, x_t = (2t-1) pi/(2(2n+1)), t = 1..n: |S|_* = sum_t 1/(2 sin x_t), O(n)
 *     banded        the singular values of A are the reciprocals of those of A^-1, which has at most three bands for
 *                   the named workloads but Nesterov's: O(n^2) by rotations
 *     dense         singular values by Householder reflections, O(n^3)
 *     averaged      for a Toeplitz A with first column a, |A|_* >= tr U'A for every U with |U| <= 1. Take the n x n
 *                   corners of the unitary circulant matrices of order m >= n, and of the skew-circulant ones (the m-th
 *                   roots of 1, and those of -1); the best of them gives
 *
 *                       |A|_* >= (n/m) sum over these roots w of |sum_{d<n} (1 - d/n) a_d w^d|
 *
 *                   by one FFT, O(n log n), for any n: 3 % below |S|_* for prefix sums at n = 1024
 */
#include "optimum/optimum.h"

#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BANDED_STEPS_MAX = 8192 }; /* 2 seconds */

int optimum_all_positive(int64_t n, const double *weights) {
    for (int64_t t = 0; t < n; t++)
        if (weights[t] == 0) return 0;
    return 1;
}

static const double U = 0x1p-53;

/*
 * x_t has three roundings, the sine at most two more (its relative condition x cot x is below 1), the reciprocal one:
 * 8 u for a term. Compensated summation of positive terms adds u + 2 (n u)^2 (Ogita, Rump and Oishi 2005, Section 4).
 */
dpmf_status optimum_nuclear_prefix(int64_t n, const dpmf_run *run, double *out) {
    const double pi = 3.14159265358979323846;
    base_running sum = {0};
    for (int64_t t = 1; t <= n; t++) {
        if (t % (1 << 20) == 0) TRY(base_progress(run, "lower bound", (double)t / (double)n));
        base_running_add(&sum, 0.5 / sin((double)(2 * t - 1) * pi / (double)(2 * (2 * n + 1))));
    }
    double nu = (double)n * U;
    *out = base_running_value(&sum) * fmax(0, 1 - 16 * U - 4 * nu * nu);
    return DPMF_OK;
}

/*
 * Two bands are bidiagonal already, and roundings of its entries and the dqds iteration change each singular value by a
 * relative error of a few n u (Fernando and Parlett 1994). Three bands are first chased to two by rotations, about 3 n
 * layers of disjoint ones, each a backward error of at most 6 u |M|_F (Higham 2002, Lemma 19.9), added to every value.
 */
dpmf_status optimum_nuclear_banded(const dpmf_workload *a, const double *weights, double *out) {
    int64_t n = a->steps;
    int q_bands = 0, r_bands = 0;
    double *rows = NULL, *values = NULL, norm = 0;
    dpmf_status status = DPMF_OK;
    workload_inverse_bands(a, &q_bands, &r_bands);
    assert(q_bands >= 1 && r_bands == 0);
    int64_t bands = q_bands + 1 < n ? q_bands + 1 : n;
    TRY_DONE(base_alloc_doubles(n * bands, "the bands of an inverse", &rows));
    TRY_DONE(base_alloc_doubles(n, "the singular values", &values));
    /* The rows of A^-1 diag(1/sqrt(p)), rows[t * bands + j] = entry (t, t-j); its Frobenius norm. */
    base_running squares = {0};
    for (int64_t t = 0; t < a->steps; t++) {
        double q[3], r[2];
        TRY_DONE(dpmf_workload_inverse_row(a, t, q, r));
        for (int64_t j = 0; j < bands; j++) {
            double x = t < j ? 0 : weights == NULL ? q[j] : q[j] / sqrt(weights[t - j]);
            rows[t * bands + j] = x;
            base_running_add(&squares, x * x);
        }
    }
    norm = sqrt(base_running_value(&squares));
    *out = 0;
    if (!isfinite(norm)) goto done; /* the weights are too small for a bound */
    TRY_DONE(base_banded_singular_values(n, bands, rows, values));
    base_running sum = {0};
    double relative = 64 * (double)n * U, absolute = bands <= 2 ? 0 : 32 * (double)n * U * norm;
    for (int64_t i = 0; i < n; i++)
        base_running_add(&sum, 1 / (values[i] * (1 + relative) + absolute));
    *out = base_running_value(&sum) * (1 - 16 * U);
done:
    base_free(rows);
    base_free(values);
    return status;
}

static dpmf_status weighted_matrix(const dpmf_workload *a, const double *weights, double *matrix) {
    int64_t n = a->steps;
    double *column = NULL;
    if (a->form == WORKLOAD_DENSE) {
        memcpy(matrix, a->matrix, (size_t)(n * n) * sizeof *matrix);
    } else {
        TRY(base_alloc_doubles(n, "a column", &column));
        dpmf_status status = DPMF_OK;
        for (int64_t j = 0; j < n && status == DPMF_OK; j++) {
            memset(column, 0, (size_t)n * sizeof *column);
            column[j] = 1;
            status = dpmf_workload_apply(a, column, column);
            for (int64_t t = 0; t < n; t++)
                matrix[t * n + j] = column[t];
        }
        base_free(column);
        TRY(status);
    }
    for (int64_t t = 0; t < n && weights != NULL; t++)
        for (int64_t j = 0; j <= t; j++)
            matrix[t * n + j] *= sqrt(weights[t]);
    return DPMF_OK;
}

/*
 * The values found are those of A + E with |E|_F <= c n^2 u |A|_F (Higham 2002, Theorem 19.4, from both sides; the
 * entries themselves have at most 8 n roundings), and |E|_* <= sqrt(n) |E|_F. c = 16 has room to spare.
 */
dpmf_status optimum_nuclear_dense(const dpmf_workload *a, const double *weights, double *out) {
    int64_t n = a->steps;
    double *matrix = NULL, *values = NULL, size = (double)n;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "the workload as a matrix", &matrix));
    TRY_DONE(base_alloc_doubles(n, "the singular values", &values));
    TRY_DONE(weighted_matrix(a, weights, matrix));
    double frobenius = base_norm(n * n, matrix);
    TRY_DONE(base_singular_values(n, n, matrix, values));
    *out = fmax(0, base_sum(n, values) - 16 * size * size * U * sqrt(size) * frobenius);
done:
    base_free(matrix);
    base_free(values);
    return status;
}

/*
 * Rounding: an error e in the n terms moves the sum by at most n |e|_2. The terms, all positive, have at most 8 n
 * roundings each; the FFT adds at most 16 u for each of its passes, relative to the norm (Higham 2002, Theorem 24.2).
 */
dpmf_status optimum_nuclear_averaged(const dpmf_workload *a, double *out) {
    int64_t n = a->steps, m = 2;
    double *x = NULL, even = 0, odd = 0;
    base_fft *fft = NULL;
    dpmf_status status = DPMF_OK;
    assert(a->toeplitz && a->form == WORKLOAD_NAMED);
    while (m < n)
        m *= 2;
    TRY_DONE(base_alloc_doubles(2 * m, "a spectrum", &x));
    TRY_DONE(base_fft_create(2 * m, &fft));
    x[0] = 1;
    TRY_DONE(dpmf_workload_apply(a, x, x));
    for (int64_t d = 0; d < n; d++)
        x[d] *= (double)(n - d) / (double)n;
    double norm = base_norm(n, x), passes = log2((double)(2 * m));
    base_fft_forward(fft, x);
    /* Sums of |X_f| over all 2m frequencies of a packed real spectrum: the even ones, and the odd ones. */
    base_running sums[2] = {{fabs(x[0]) + (m % 2 == 0 ? fabs(x[1]) : 0), 0}, {m % 2 == 0 ? 0 : fabs(x[1]), 0}};
    for (int64_t f = 1; f < m; f++)
        base_running_add(&sums[f % 2], 2 * hypot(x[2 * f], x[2 * f + 1]));
    even = base_running_value(&sums[0]);
    odd = base_running_value(&sums[1]);
    double allowance = (double)n * norm * U * (16 * (double)n + 32 * passes);
    *out = fmax(0, (double)n / (double)m * fmax(even, odd) * (1 - 16 * U) - allowance);
done:
    base_fft_free(fft);
    base_free(x);
    return status;
}

/* Weights may span many orders of magnitude, which the rotations of three bands would mix: this route is then not used. */
static int banded_is_sure(const dpmf_workload *a, const double *weights) {
    int q_bands = 0, r_bands = 0;
    workload_inverse_bands(a, &q_bands, &r_bands);
    return q_bands > 0 && r_bands == 0 &&
           (weights == NULL || (q_bands == 1 && optimum_all_positive(a->steps, weights)));
}

dpmf_status optimum_nuclear_norm(const dpmf_workload *a, const double *weights, const dpmf_run *run, double *out) {
    double value = 0;
    TRY(base_progress(run, "lower bound", 0));
    if (a->form == WORKLOAD_OPERATOR) { /* its rounding errors are not known */
        *out = 0;
        return DPMF_OK;
    }
    if (weights == NULL && workload_is_prefix(a))
        TRY(optimum_nuclear_prefix(a->steps, run, &value));
    else if (a->steps <= BANDED_STEPS_MAX && banded_is_sure(a, weights))
        TRY(optimum_nuclear_banded(a, weights, &value));
    else if (a->steps <= OPTIMUM_DENSE_STEPS_MAX)
        TRY(optimum_nuclear_dense(a, weights, &value));
    else if (weights == NULL && a->form == WORKLOAD_NAMED && a->toeplitz)
        TRY(optimum_nuclear_averaged(a, &value));
    *out = value;
    return DPMF_OK;
}
