/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C for a workload that is a matrix: the squared errors, their derivative and the certificate, where there is no recursion to
 * carry a covariance along (families/banded/pass.c does that for the named workloads).
 *
 *     Y = A C^-1, row by row from the right: q_t = |Y[t,:]|^2,    V = A X^-1 = Y C^-T, from the left,    X = C'C
 *     D = d(sum_t p_t q_t)/dC = -2 Y' diag(p) V within the bands
 *
 * O(n^2 b) each. The certificate is that of Lagrange: with M = A' diag(p) A, every allowed X and any L >= 0 obey
 *
 *     tr(M X^-1) tr(L X) >= |P^1/2 A L^1/2|_*^2        (Cauchy and Schwarz, for nuclear norms)
 *
 * and tr(L X) = sum_t nu_t X_tt where the entries of L beside its diagonal nu vanish within the bands: X has none outside. The
 * largest sum nu_t X_tt that the participation allows is known (families/banded/class.c). At the optimum L = X^-1 M X^-1 = V' P V
 * has such zeros (Pillutla et al. 2025, Problem 4.8); near it they are put there, which costs a second-order error, and the diagonal
 * is raised until a Cholesky factorization proves L >= 0.
 */
#include "families/banded/banded.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { RAISES = 60 };

dpmf_status banded_matrix_create(banded_pass *p) {
    const int64_t n = p->n;
    if (n > BANDED_MATRIX_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "banded C for workload %s: %lld steps, accepted up to %d (it is a matrix)", p->workload->text,
                         (long long)n, BANDED_MATRIX_MAX);
    TRY(base_alloc_square(n, "A C^-1", &p->y));
    TRY(base_alloc_square(n, "A X^-1", &p->v));
    return base_alloc_doubles(n * p->bands, "the columns of C", &p->columns);
}

void banded_matrix_free(banded_pass *p) {
    base_free(p->y);
    base_free(p->v);
    base_free(p->columns);
}

/* columns[s * b + j] = C[s+j, s] */
static void turn(const banded_pass *p, const double *rows) {
    const int64_t b = p->bands;
    for (int64_t s = 0; s < p->n; s++)
        for (int64_t j = 0; j < b; j++)
            p->columns[s * b + j] = s + j < p->n ? rows[(s + j) * b + j] : 0;
}

int banded_matrix_forward(banded_pass *p, const double *rows, double *squares) {
    const int64_t n = p->n, b = p->bands;
    turn(p, rows);
    for (int64_t t = 0; t < n; t++) {
        const double *a = p->workload->matrix + t * n;
        double *y = p->y + t * n, square = 0;
        for (int64_t s = t; s >= 0; s--) {
            const double *c = p->columns + s * b;
            double sum = a[s];
            for (int64_t j = 1; j < b && s + j <= t; j++)
                sum -= y[s + j] * c[j];
            y[s] = sum / c[0];
            square += y[s] * y[s];
        }
        squares[t] = square;
        if (!(square < 1e300)) return 0; /* infinite or not a number */
    }
    return 1;
}

void banded_matrix_backward(banded_pass *p, const double *rows, const double *weights, double *d) {
    const int64_t n = p->n, b = p->bands;
    memset(d, 0, (size_t)(n * b) * sizeof *d);
    for (int64_t t = 0; t < n; t++) {
        const double *y = p->y + t * n;
        double *v = p->v + t * n;
        for (int64_t s = 0; s < n; s++) {
            const double *c = rows + s * b;
            double sum = y[s];
            for (int64_t j = 1; j < b && j <= s; j++)
                sum -= v[s - j] * c[j];
            v[s] = sum / c[0];
        }
        for (int64_t s = 0; s <= t; s++) {
            const double scaled = -2 * weights[t] * y[s];
            for (int64_t j = 0; j < b && j <= s; j++)
                d[s * b + j] += scaled * v[s - j];
        }
    }
}

/* L = V' P V, with zeros beside its diagonal within the bands. */
static void fill_dual(const banded_pass *p, const double *weights, double *dual) {
    const int64_t n = p->n;
    memset(dual, 0, (size_t)(n * n) * sizeof *dual);
    for (int64_t t = 0; t < n; t++) {
        const double *v = p->v + t * n;
        for (int64_t i = 0; i < n; i++) {
            const double scaled = weights[t] * v[i];
            for (int64_t j = 0; j <= i; j++)
                dual[i * n + j] += scaled * v[j];
        }
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++) {
            if (i - j < p->bands) dual[i * n + j] = 0;
            dual[j * n + i] = dual[i * n + j];
        }
}

/* The factor of L with diagonal nu, which is raised as little as makes it one; 0: it cannot. */
static dpmf_status factor_dual(int64_t n, const double *dual, double *nu, double *factor, int *found) {
    double mean = base_sum(n, nu) / (double)n, raise = 0;
    for (int i = 0; i < RAISES; i++, raise = raise == 0 ? 1e-15 * mean : 3 * raise) {
        memcpy(factor, dual, (size_t)(n * n) * sizeof *factor);
        for (int64_t t = 0; t < n; t++)
            factor[t * n + t] = nu[t] + raise;
        const dpmf_status status = base_cholesky(n, factor);
        if (status != DPMF_OK && status != DPMF_ERROR_NUMERICAL) return status;
        if (status != DPMF_OK) continue;
        for (int64_t t = 0; t < n; t++)
            nu[t] += raise;
        *found = 1;
        return DPMF_OK;
    }
    *found = 0;
    return DPMF_OK;
}

/* P^1/2 A K, K lower triangular, in the place of K. */
static void multiply_factor(const banded_pass *p, const double *weights, double *factor) {
    const int64_t n = p->n;
    base_lower_multiply(n, p->workload->matrix, factor);
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i <= t; i++)
            factor[t * n + i] *= sqrt(weights[t]);
}

dpmf_status banded_matrix_bound(const banded_pass *p, banded_class *c, const double *weights, double *lower) {
    const int64_t n = p->n;
    const double size = (double)n;
    double *dual = NULL, *factor = NULL, *nu = NULL, level = 0;
    int found = 0;
    dpmf_status status = DPMF_OK;
    *lower = 0;
    TRY_DONE(base_alloc_square(n, "the dual matrix", &dual));
    TRY_DONE(base_alloc_square(n, "its factor", &factor));
    TRY_DONE(base_alloc_doubles(2 * n, "its diagonal", &nu));
    fill_dual(p, weights, dual);
    for (int64_t t = 0; t < n; t++) {
        nu[t] = dual[t * n + t];
        level += nu[t] * c->diagonal[t];
    }
    banded_class_level(c, level, nu);
    TRY_DONE(factor_dual(n, dual, nu, factor, &found));
    if (!found) goto done;
    multiply_factor(p, weights, factor);
    TRY_DONE(base_singular_values(n, n, factor, nu + n));
    /* The decomposition's error is at most 16 n^2 u |.|_F, and sqrt n times that in the sum (optimum/bound.c); zeros of L that are
     * roundings of the factorization instead weigh less. */
    const double nuclear = base_sum(n, nu + n) * fmax(0, 1 - 16 * size * size * sqrt(size) * DBL_EPSILON);
    const double bound = nuclear * nuclear / banded_class_support(c, nu);
    *lower = isfinite(bound) ? bound : 0;
done:
    base_free(dual);
    base_free(factor);
    base_free(nu);
    return status;
}
