/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra. Matrices are row-major; lower triangular ones are stored whole (n x n) with zeros above the diagonal. */
#ifndef DPMF_BASE_LINALG_H
#define DPMF_BASE_LINALG_H

#include "base/status.h"

double base_sum(int64_t n, const double *x);  /* pairwise: error grows like log n */
double base_norm(int64_t n, const double *x); /* Euclidean, safe against overflow */
double base_dot(int64_t n, const double *x, const double *y);

/* y = T x with T lower-triangular Toeplitz of first column c (count terms, then zeros). In place allowed. */
DPMF_MUST_CHECK dpmf_status base_toeplitz_apply(int64_t n, int64_t count, const double *c, const double *x, double *y);

/* x = T^-1 y for T with few terms: direct recursion, O(n count). In place allowed. c[0] != 0. */
void base_toeplitz_solve_banded(int64_t n, int64_t count, const double *c, const double *y, double *x);

/* Banded lower triangular, rows[t * bands + j] = C[t, t-j]. In place allowed (x == y). */
void base_banded_apply(int64_t n, int64_t bands, const double *rows, const double *x, double *y);
void base_banded_solve(int64_t n, int64_t bands, const double *rows, const double *y, double *x);

/* Dense lower triangular n x n: y = L x, x = L^-1 y (in place allowed), inverse in place, product M = L M, M lower. */
void base_lower_apply(int64_t n, const double *lower, const double *x, double *y);
void base_lower_solve(int64_t n, const double *lower, const double *y, double *x);
DPMF_MUST_CHECK dpmf_status base_lower_invert(int64_t n, double *lower); /* singular: DPMF_ERROR_NUMERICAL */
void base_lower_multiply(int64_t n, const double *lower, double *m);

/* Symmetric positive definite n x n, both triangles given: lower Cholesky factor in place, zeros above. */
DPMF_MUST_CHECK dpmf_status base_cholesky(int64_t n, double *a);

/* Eigenvalues ascending, eigenvectors in the rows of `a` on return (row i belongs to values[i]). */
DPMF_MUST_CHECK dpmf_status base_symmetric_eigen(int64_t n, double *a, double *values);
/* The same without LAPACK, for 1 <= n <= BASE_EIGEN_SMALL and finite numbers (base/eigen.c). */
enum { BASE_EIGEN_SMALL = 32 };
DPMF_MUST_CHECK dpmf_status base_eigen_small(int n, double *a, double *values);

/* Singular values of an m x n matrix, descending, min(m,n) of them; `a` is destroyed. */
DPMF_MUST_CHECK dpmf_status base_singular_values(int64_t m, int64_t n, double *a, double *values);

/* Singular values, descending, of rows as above: small relative errors for up to two bands, else relative to the norm. */
DPMF_MUST_CHECK dpmf_status base_banded_singular_values(int64_t n, int64_t bands, const double *rows, double *values);

/* a (m x n, m <= n) = L Q, Q with orthonormal rows: writes the m x m lower L, diagonal non-negative; a is destroyed. */
DPMF_MUST_CHECK dpmf_status base_lq(int64_t m, int64_t n, double *a, double *lower);

/* x in the opposite order: J x, or J X J for the count = n x n numbers of a matrix. */
void base_reverse(int64_t count, double *x);

/* J X' J in place, X n x n: entries change places across the other diagonal. */
void base_reverse_across(int64_t n, double *x);

/* n x n doubles, with n * n checked for overflow. */
DPMF_MUST_CHECK dpmf_status base_alloc_square(int64_t n, const char *what, double **out);

/* Finite, zero above the diagonal and, with `need_inverse`, no zero on it. `what` names the matrix in the message. */
DPMF_MUST_CHECK dpmf_status base_lower_check(int64_t n, const double *matrix, const char *what, int need_inverse);

DPMF_MUST_CHECK dpmf_status base_check_finite(int64_t count, const double *values, const char *what);

/* The singular value decomposition: a (n x n) = u diag(values) a': on return the rows of `a` are the right singular vectors. */
DPMF_MUST_CHECK dpmf_status base_svd(int64_t n, double *a, double *values, double *u);

#endif
