/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linear algebra: sums, Toeplitz, banded and dense triangular products and solves, and the LAPACK calls that we use.
 *
 * Sums and inner products are pairwise (Higham 2002, Section 4.2): halves are summed apart down to blocks of 128, which
 * keeps the error near log2(n/128) + 16 roundings where a plain loop has n. Products with a vector are ours and not
 * BLAS's: they are bound by memory, and so give the same bits for any number of BLAS threads.
 *
 * LAPACK is column-major. A row-major matrix is the transpose of the column-major one with the same bytes, so we pass
 * our matrices as they are and solve the transposed problem: our lower L is its upper U = L^T, A = L L^T is A = U^T U,
 * and L Q is (Q^T L^T)^T. The _work calls with column-major order neither copy nor allocate; we allocate the work
 * space. A matrix that is factored in place is lost if the factorization itself fails.
 */
#include "base/linalg.h"
#include "base/fft.h"
#include "base/memory.h"

#include <assert.h>
#include <cblas.h>
#include <float.h>
#include <inttypes.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <string.h>

enum {
    SUM_BLOCK = 128,    /* summed with eight running sums; shorter halves would cost more calls than they save */
    DIRECT_TERMS = 64,  /* Toeplitz matrices with no more diagonals are applied directly, without work space */
    COLUMNS = 256,      /* block of columns of a triangular product */
    EIGEN_LIMIT = 32766 /* dsyevd counts 1 + 6n + 2n^2 numbers of work space in 32 bits */
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The inner product of x and y, or the sum of x where y is NULL. */
static inline double sum_block(int64_t n, const double *x, const double *y) {
    double s[8] = {0};
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int64_t j = 0; j < 8; j++)
            s[j] += y != NULL ? x[i + j] * y[i + j] : x[i + j];
    double sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
    for (; i < n; i++)
        sum += y != NULL ? x[i] * y[i] : x[i];
    return sum;
}

/* Half of n, rounded to whole blocks of eight. */
static int64_t first_half(int64_t n) {
    return n / 16 * 8;
}

double base_sum(int64_t n, const double *x) {
    if (n <= SUM_BLOCK) return sum_block(n, x, NULL);
    const int64_t half = first_half(n);
    return base_sum(half, x) + base_sum(n - half, x + half);
}

double base_dot(int64_t n, const double *x, const double *y) {
    if (n <= SUM_BLOCK) return sum_block(n, x, y);
    const int64_t half = first_half(n);
    return base_dot(half, x, y) + base_dot(n - half, x + half, y + half);
}

static double sum_of_scaled_squares(int64_t n, const double *x, double scale) {
    if (n <= SUM_BLOCK) {
        double sum = 0;
        for (int64_t i = 0; i < n; i++)
            sum += x[i] * scale * (x[i] * scale);
        return sum;
    }
    const int64_t half = first_half(n);
    return sum_of_scaled_squares(half, x, scale) + sum_of_scaled_squares(n - half, x + half, scale);
}

double base_norm(int64_t n, const double *x) {
    const double squares = base_dot(n, x, x);
    const double safe = DBL_MIN / DBL_EPSILON; /* below it, squares that underflowed may have mattered */
    if (isnan(squares) || (squares >= safe && squares <= DBL_MAX)) return sqrt(squares);
    /* 2^600 brings the least double's square into range, and 2^-600 the square of the largest times any n. */
    const int shift = squares < safe ? 600 : -600;
    return ldexp(sqrt(sum_of_scaled_squares(n, x, ldexp(1, shift))), -shift);
}

dpmf_status base_toeplitz_apply(int64_t n, int64_t count, const double *c, const double *x, double *y) {
    if (x != y) return base_convolve(count, c, n, x, n, y);
    if (count <= DIRECT_TERMS) {
        for (int64_t t = n - 1; t >= 0; t--) { /* from the end: row t reads x at and before t only */
            const int64_t terms = smaller(count, t + 1);
            double sum = 0;
            for (int64_t j = 0; j < terms; j++)
                sum += c[j] * x[t - j];
            y[t] = sum;
        }
        return DPMF_OK;
    }
    double *product = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "the product with a Toeplitz matrix", &product));
    TRY_DONE(base_convolve(count, c, n, x, n, product));
    memcpy(y, product, (size_t)n * sizeof(double));
done:
    base_free(product);
    return status;
}

void base_toeplitz_solve_banded(int64_t n, int64_t count, const double *c, const double *y, double *x) {
    assert(count >= 1 && c[0] != 0);
    for (int64_t t = 0; t < n; t++) {
        const int64_t terms = smaller(count, t + 1);
        double sum = 0;
        for (int64_t j = 1; j < terms; j++)
            sum += c[j] * x[t - j];
        x[t] = (y[t] - sum) / c[0];
    }
}

void base_banded_apply(int64_t n, int64_t bands, const double *rows, const double *x, double *y) {
    for (int64_t t = n - 1; t >= 0; t--) {
        const double *row = rows + t * bands;
        const int64_t terms = smaller(bands, t + 1);
        double sum = 0;
        for (int64_t j = 0; j < terms; j++)
            sum += row[j] * x[t - j];
        y[t] = sum;
    }
}

void base_banded_solve(int64_t n, int64_t bands, const double *rows, const double *y, double *x) {
    for (int64_t t = 0; t < n; t++) {
        const double *row = rows + t * bands;
        const int64_t terms = smaller(bands, t + 1);
        double sum = 0;
        for (int64_t j = 1; j < terms; j++)
            sum += row[j] * x[t - j];
        x[t] = (y[t] - sum) / row[0];
    }
}

void base_lower_apply(int64_t n, const double *lower, const double *x, double *y) {
    for (int64_t t = n - 1; t >= 0; t--)
        y[t] = base_dot(t + 1, lower + t * n, x);
}

void base_lower_solve(int64_t n, const double *lower, const double *y, double *x) {
    for (int64_t t = 0; t < n; t++) {
        const double *row = lower + t * n;
        x[t] = (y[t] - base_dot(t, row, x)) / row[t];
    }
}

static void clear_above_diagonal(int64_t n, double *a) {
    for (int64_t i = 0; i < n; i++)
        memset(a + i * n + i + 1, 0, (size_t)(n - i - 1) * sizeof(double));
}

/* Columns j.. of M are zero above row j, so a block of columns needs only the part of L below and right of (j, j). */
void base_lower_multiply(int64_t n, const double *lower, double *m) {
    assert(n <= INT_MAX);
    for (int64_t j = 0; j < n; j += COLUMNS) {
        const int64_t corner = j * n + j;
        cblas_dtrmm(CblasRowMajor, CblasLeft, CblasLower, CblasNoTrans, CblasNonUnit, (int)(n - j),
                    (int)smaller(COLUMNS, n - j), 1.0, lower + corner, (int)n, m + corner, (int)n);
    }
    clear_above_diagonal(n, m); /* sums of zeros, some of them negative */
}

static dpmf_status check_size(int64_t n, int64_t limit, const char *what) {
    if (n <= limit) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "%s of a matrix with %" PRId64 " rows or columns: at most %" PRId64 " are possible", what, n,
                     limit);
}

static dpmf_status check_finite(int64_t count, const double *a, const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(a[i])) return base_fail(DPMF_ERROR_NUMERICAL, "%s has an entry that is not finite", what);
    return DPMF_OK;
}

/* The size of LAPACK's work space from the answer to its query, an integer in a double. */
static dpmf_status work_space(double answer, double **work, lapack_int *size) {
    if (!(answer >= 1 && answer <= INT_MAX))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "a factorization needs %.0f numbers of work space: at most %d are possible", answer, INT_MAX);
    TRY(base_alloc_doubles((int64_t)answer, "the work space of a factorization", work));
    *size = (lapack_int)answer;
    return DPMF_OK;
}

dpmf_status base_lower_invert(int64_t n, double *lower) {
    if (n == 0) return DPMF_OK;
    TRY(check_size(n, INT_MAX, "the inverse"));
    TRY(check_finite(n * n, lower, "a triangular matrix to be inverted"));
    for (int64_t i = 0; i < n; i++) {
        if (lower[i * n + i] != 0) continue;
        return base_fail(DPMF_ERROR_NUMERICAL,
                         "a triangular matrix whose diagonal is 0 in row %" PRId64 " has no inverse", i);
    }
    const lapack_int info = LAPACKE_dtrtri_work(LAPACK_COL_MAJOR, 'U', 'N', (lapack_int)n, lower, (lapack_int)n);
    assert(info == 0);
    (void)info;
    return check_finite(n * n, lower, "the inverse of a triangular matrix");
}

dpmf_status base_cholesky(int64_t n, double *a) {
    if (n == 0) return DPMF_OK;
    TRY(check_size(n, INT_MAX, "the Cholesky factor"));
    TRY(check_finite(n * n, a, "a matrix for a Cholesky factorization"));
    const lapack_int info = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', (lapack_int)n, a, (lapack_int)n);
    assert(info >= 0);
    if (info > 0)
        return base_fail(
            DPMF_ERROR_NUMERICAL,
            "a matrix is not positive definite: its leading %d x %d part is not, so it has no Cholesky factor", info,
            info);
    clear_above_diagonal(n, a);
    return DPMF_OK;
}

dpmf_status base_symmetric_eigen(int64_t n, double *a, double *values) {
    if (n == 0) return DPMF_OK;
    TRY(check_size(n, EIGEN_LIMIT, "the eigenvalues"));
    TRY(check_finite(n * n, a, "a matrix for its eigenvalues"));
    if (n <= BASE_EIGEN_SMALL) return base_eigen_small((int)n, a, values);
    const lapack_int order = (lapack_int)n;
    double answer = 0, *work = NULL, *found = NULL;
    void *integers = NULL;
    lapack_int size = 0, integer_size = 0;
    dpmf_status status = DPMF_OK;
    lapack_int info =
        LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', order, a, order, values, &answer, -1, &integer_size, -1);
    assert(info == 0);
    TRY_DONE(work_space(answer, &work, &size));
    TRY_DONE(base_alloc(integer_size, sizeof(lapack_int), "the work space of a factorization", &integers));
    TRY_DONE(base_alloc_doubles(n, "the eigenvalues of a matrix", &found));
    info = LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', order, a, order, found, work, size, integers, integer_size);
    if (info != 0) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "the eigenvalues of a %d x %d matrix did not converge", order, order);
        goto done;
    }
    memcpy(values, found, (size_t)n * sizeof(double));
done:
    base_free(found);
    base_free(integers);
    base_free(work);
    return status;
}

dpmf_status base_singular_values(int64_t m, int64_t n, double *a, double *values) {
    if (m == 0 || n == 0) return DPMF_OK;
    TRY(check_size(m > n ? m : n, INT_MAX, "the singular values"));
    TRY(check_finite(m * n, a, "a matrix for its singular values"));
    const lapack_int rows = (lapack_int)n, columns = (lapack_int)m; /* of the transpose */
    double answer = 0, *work = NULL, *found = NULL;
    lapack_int size = 0;
    dpmf_status status = DPMF_OK;
    lapack_int info =
        LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', rows, columns, a, rows, values, NULL, 1, NULL, 1, &answer, -1);
    assert(info == 0);
    TRY_DONE(work_space(answer, &work, &size));
    TRY_DONE(base_alloc_doubles(smaller(m, n), "the singular values of a matrix", &found));
    info = LAPACKE_dgesvd_work(LAPACK_COL_MAJOR, 'N', 'N', rows, columns, a, rows, found, NULL, 1, NULL, 1, work, size);
    if (info != 0) {
        status =
            base_fail(DPMF_ERROR_NUMERICAL, "the singular values of a %d x %d matrix did not converge", columns, rows);
        goto done;
    }
    memcpy(values, found, (size_t)smaller(m, n) * sizeof(double));
done:
    base_free(found);
    base_free(work);
    return status;
}

/* The transpose, upper with as many bands, has row t of L as column t; rotations chase it to two bands. */
static void bidiagonalize(int64_t n, int64_t bands, const double *rows, double *band, double *diagonal, double *beside,
                          double *work) {
    if (bands <= 2) {
        for (int64_t t = 0; t < n; t++) {
            diagonal[t] = rows[t * bands];
            if (t > 0) beside[t - 1] = bands == 2 ? rows[t * bands + 1] : 0;
        }
        return;
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < bands; j++)
            band[t * bands + bands - 1 - j] = j <= t ? rows[t * bands + j] : 0;
    double none = 0;
    const lapack_int order = (lapack_int)n, above = (lapack_int)(bands - 1);
    const lapack_int info = LAPACKE_dgbbrd_work(LAPACK_COL_MAJOR, 'N', order, order, 0, 0, above, band, above + 1,
                                                diagonal, beside, &none, 1, &none, 1, &none, 1, work);
    assert(info == 0);
    (void)info;
}

dpmf_status base_banded_singular_values(int64_t n, int64_t bands, const double *rows, double *values) {
    if (n == 0) return DPMF_OK;
    assert(bands >= 1 && bands <= n);
    TRY(check_size(n, INT_MAX / 4, "the singular values"));
    TRY(check_finite(n * bands, rows, "a banded matrix for its singular values"));
    const lapack_int order = (lapack_int)n;
    double *work = NULL, *band = NULL, none = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(6 * n, "the work space of a factorization", &work)); /* two diagonals, 4n to work */
    if (bands > 2) TRY_DONE(base_alloc_doubles(n * bands, "a copy of a banded matrix", &band));
    double *diagonal = work, *beside = work + n;
    bidiagonalize(n, bands, rows, band, diagonal, beside, work + 2 * n);
    const lapack_int info = LAPACKE_dbdsqr_work(LAPACK_COL_MAJOR, 'U', order, 0, 0, 0, diagonal, beside, &none, 1,
                                                &none, 1, &none, 1, work + 2 * n);
    if (info != 0) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "the singular values of a banded %d x %d matrix did not converge",
                           order, order);
        goto done;
    }
    memcpy(values, diagonal, (size_t)n * sizeof *values);
done:
    base_free(band);
    base_free(work);
    return status;
}

/* a^T = Q^T L^T is a QR factorization, whose R = L^T lies, column-major, where L lies row-major, rows n apart. */
dpmf_status base_lq(int64_t m, int64_t n, double *a, double *lower) {
    assert(m <= n);
    if (m == 0) return DPMF_OK;
    TRY(check_size(n, INT_MAX, "the LQ factors"));
    TRY(check_finite(m * n, a, "a matrix for an LQ factorization"));
    const lapack_int rows = (lapack_int)n, columns = (lapack_int)m; /* of the transpose */
    double answer = 0, unused = 0, *work = NULL, *scales = NULL;
    lapack_int size = 0;
    dpmf_status status = DPMF_OK;
    lapack_int info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, rows, columns, a, rows, &unused, &answer, -1);
    assert(info == 0);
    TRY_DONE(work_space(answer, &work, &size));
    TRY_DONE(base_alloc_doubles(m, "the scales of an LQ factorization", &scales));
    info = LAPACKE_dgeqrf_work(LAPACK_COL_MAJOR, rows, columns, a, rows, scales, work, size);
    assert(info == 0);
    (void)info;
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < m; j++) {
            const double sign = signbit(a[j * n + j]) ? -1 : 1;
            lower[i * m + j] = j <= i ? sign * a[i * n + j] : 0;
        }
    }
done:
    base_free(scales);
    base_free(work);
    return status;
}

void base_reverse(int64_t count, double *x) {
    for (int64_t i = 0, j = count - 1; i < j; i++, j--) {
        double kept = x[i];
        x[i] = x[j];
        x[j] = kept;
    }
}

/* In tiles, since one side is read by columns. */
void base_reverse_across(int64_t n, double *x) {
    enum { TILE = 32 };
    for (int64_t top = 0; top < n; top += TILE)
        for (int64_t side = 0; side < n - top; side += TILE)
            for (int64_t i = top; i < top + TILE && i < n; i++)
                for (int64_t j = side; j < side + TILE && j < n - 1 - i; j++) {
                    double *one = x + i * n + j, *other = x + (n - 1 - j) * n + n - 1 - i, kept = *one;
                    *one = *other;
                    *other = kept;
                }
}

/* LAPACK's left vectors of a^T = Z Sigma U^T, which it can write over the matrix, are our right ones. */
dpmf_status base_svd(int64_t n, double *a, double *values, double *u) {
    double *work = NULL, size = 0;
    lapack_int *integers = NULL, order = (lapack_int)n;
    dpmf_status status = DPMF_OK;
    if (n < 1 || n > 20000)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "singular vectors of a %" PRId64 " x %" PRId64 " matrix, accepted up to 20000", n, n);
    TRY(base_check_finite(n * n, a, "an entry of a matrix whose singular vectors are wanted:"));
    TRY_DONE(base_alloc(8 * n, sizeof *integers, "work space", (void **)&integers));
    lapack_int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'O', order, order, a, order, values, NULL, order, u, order,
                                          &size, -1, integers);
    if (info == 0) {
        TRY_DONE(base_alloc_doubles((int64_t)size, "work space", &work));
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'O', order, order, a, order, values, NULL, order, u, order, work,
                                   (lapack_int)size, integers);
    }
    if (info != 0)
        status = base_fail(DPMF_ERROR_NUMERICAL,
                           "the singular vectors of a %" PRId64 " x %" PRId64 " matrix did not converge", n, n);
done:
    base_free(work);
    base_free(integers);
    return status;
}

/* ---- lower-triangular matrices as users give them ---- */

dpmf_status base_alloc_square(int64_t n, const char *what, double **out) {
    /* 2^31 squared still fits an int64_t; the allocator refuses what does not fit the machine */
    if (n > ((int64_t)1 << 31))
        return base_fail(DPMF_ERROR_MEMORY, "%s: %" PRId64 " x %" PRId64 " numbers are beyond any memory", what, n, n);
    return base_alloc_doubles(n * n, what, out);
}

dpmf_status base_lower_check(int64_t n, const double *matrix, const char *what, int need_inverse) {
    for (int64_t t = 0; t < n; t++) {
        for (int64_t u = 0; u < n; u++) {
            double x = matrix[t * n + u];
            if (!isfinite(x))
                return base_fail(DPMF_ERROR_ARGUMENT, "%s[%" PRId64 ",%" PRId64 "] = %g, accepted: finite numbers",
                                 what, t, u, x);
            if (u > t && x != 0)
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "%s[%" PRId64 ",%" PRId64 "] = %g, accepted: 0 above the diagonal (lower triangular)",
                                 what, t, u, x);
        }
        if (need_inverse && matrix[t * n + t] == 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "%s[%" PRId64 ",%" PRId64 "] = 0, accepted: a non-zero diagonal",
                             what, t, t);
    }
    return DPMF_OK;
}

dpmf_status base_check_finite(int64_t count, const double *values, const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return base_fail(DPMF_ERROR_ARGUMENT, "%s %" PRId64 " = %g, accepted: finite numbers", what, i, values[i]);
    return DPMF_OK;
}
