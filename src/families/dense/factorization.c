/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A factorization of the user's own, A = B C with C of any shape and form (m x n, n the steps), as the lower-triangular C' that
 * streams. Z is standard normal, W a left inverse of C, and step t adds row t of W Z to its gradient.
 *
 *     without B    W = C^+, and Cov(W Z) = (C'C)^-1. With C = Q L, Q of orthonormal columns and L lower triangular, L'L = C'C: the
 *                  noise of L has the same law, and L moves as far as C under every participation, because both distances
 *                  depend on C'C alone (Pillutla et al. 2025, Remarks 1.16 and 1.17).
 *     with B       W = A^-1 B. With W = L Q, Q of orthonormal rows, the noise W Z has the law of L Z, and L^-1 = Q C moves
 *                  no farther than C because Q only projects (Denisov et al. 2022, Proposition 2.2).
 *
 * At the sensitivity of C no decoder has less noise than C^+ (Gauss and Markov). But where B leaves rows of C unused, Q C can be
 * shorter than C, and B with Q C better than C^+ with C: so a decoder that is given is the one that is used.
 *
 * Q L comes from Householder reflections of the columns in reversed order and not from C^+ or C'C, which would square the
 * condition number. The mechanism is C' as it is stored: its sensitivity and its stream are both computed from it, so
 * roundings here, or a B C that is only nearly A, cannot make the noise too small.
 */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

static int is_lower(int64_t n, const double *c) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++)
            if (c[i * n + j] != 0) return 0;
    return 1;
}

static dpmf_status check_shape(int64_t n, const dpmf_strategy_options *o) {
    if (o->u != NULL || o->v != NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "family " DPMF_FAMILY_DENSE ": u and v are given, but it takes none");
    if (n > DPMF_TRIANGULAR_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "C of your own: %lld steps, accepted up to %d (it is dense)",
                         (long long)n, DPMF_TRIANGULAR_STEPS_MAX);
    if (o->matrix_rows < 1 || o->matrix_rows > INT64_MAX / (8 * n))
        return base_fail(DPMF_ERROR_ARGUMENT, "C of your own: %lld rows, accepted 1 and up", (long long)o->matrix_rows);
    if (o->matrix_rows < n)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "C is %lld x %lld, accepted: full column rank (%lld or more rows). With a lower rank some "
                         "gradients leave no trace in C g, and no decoder finds the outputs",
                         (long long)o->matrix_rows, (long long)n, (long long)n);
    return base_check_finite(o->matrix_rows * n, o->matrix, "C of your own: entry");
}

/* The columns of C, one after the other, in reversed order: row i is column n-1-i. */
static void copy_columns(int64_t m, int64_t n, const double *c, double *columns) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < m; k++)
            columns[i * m + k] = c[k * n + n - 1 - i];
}

/* B C = A, to what single precision can hold: |B[t,:]| |C[:,j]| is the scale on which entry (t, j) is rounded. */
static dpmf_status check_decoder(const dpmf_workload *a, int64_t m, const double *b, const double *columns) {
    static const double tolerance = 1e-6;
    const int64_t n = a->steps;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_check_finite(n * m, b, "the decoder: entry"));
    TRY_DONE(base_alloc_doubles(n, "a column of the workload", &column));
    for (int64_t j = 0; j < n; j++) {
        const double *c = columns + (n - 1 - j) * m;
        const double size = base_norm(m, c);
        memset(column, 0, (size_t)n * sizeof *column);
        column[j] = 1;
        TRY_DONE(dpmf_workload_apply(a, column, column));
        for (int64_t t = 0; t < n; t++) {
            const double found = base_dot(m, b + t * m, c);
            if (fabs(found - column[t]) <= tolerance * (size * base_norm(m, b + t * m) + fabs(column[t]))) continue;
            status =
                base_fail(DPMF_ERROR_ARGUMENT,
                          "the decoder B: (B C)[%lld,%lld] = %.9g, accepted: %.9g, as the workload has it (B C = A)",
                          (long long)t, (long long)j, found, column[t]);
            goto done;
        }
    }
done:
    base_free(column);
    return status;
}

/*
 * Is C of full column rank? Its columns are brought to length 1 first, because one that is short is not lost: the reflections
 * are right to the last digits of every column by itself. `lower` has their lengths and inner products.
 */
static dpmf_status check_rank(int64_t m, int64_t n, const double *lower) {
    double *unit = NULL, *norms = NULL;
    int64_t worst = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "a copy of the triangular form", &unit));
    TRY_DONE(base_alloc_doubles(n, "the lengths of the columns", &norms));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            norms[j] = hypot(norms[j], lower[i * n + j]);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            unit[i * n + j] = norms[j] == 0 ? 0 : lower[i * n + j] / norms[j];
    for (int64_t j = 1; j < n; j++)
        if (unit[j * n + j] < unit[worst * n + worst]) worst = j;
    const double least = unit[worst * n + worst];
    double condition = INFINITY;
    if (least > 0 && base_lower_invert(n, unit) == DPMF_OK) condition = sqrt((double)n) * base_norm(n * n, unit);
    if (!(condition * (double)m * DBL_EPSILON < 1))
        status = base_fail(DPMF_ERROR_NUMERICAL,
                           "C is rank-deficient (%lld x %lld, condition number %.3g): column %lld is %s. Accepted: "
                           "full column rank in "
                           "double precision, because along a lost direction no decoder finds the outputs",
                           (long long)m, (long long)n, condition, (long long)worst,
                           norms[worst] == 0 ? "0" : "a combination of later ones, or nearly");
done:
    base_free(unit);
    base_free(norms);
    return status;
}

/* C = Q L: (J C')  = L1 Q1 is an LQ factorization, and then C = (Q1' J) (J L1' J). `columns` is destroyed. */
static dpmf_status triangular_of_encoder(int64_t m, int64_t n, double *columns, double *lower) {
    TRY(base_lq(n, m, columns, lower));
    base_reverse_across(n, lower);
    return check_rank(m, n, lower);
}

/* L^-1 with A^-1 B = L Q; `decoder` has B and is destroyed. */
static dpmf_status triangular_of_decoder(const dpmf_workload *a, int64_t m, double *decoder, double *lower) {
    const int64_t n = a->steps;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(n, "a column of the decoder", &column));
    for (int64_t j = 0; j < m; j++) {
        for (int64_t t = 0; t < n; t++)
            column[t] = decoder[t * m + j];
        TRY_DONE(dpmf_workload_solve(a, column, column));
        for (int64_t t = 0; t < n; t++)
            decoder[t * m + j] = column[t];
    }
    TRY_DONE(base_lq(n, m, decoder, lower));
    TRY_DONE(base_lower_invert(n, lower));
done:
    base_free(column);
    return status;
}

dpmf_status dense_create_given(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    const int64_t n = workload->steps, m = o->matrix_rows;
    double *tall = NULL, *lower = NULL;
    dpmf_status status = DPMF_OK;
    TRY(check_shape(n, o));
    const int stays = m == n && is_lower(n, o->matrix);
    if (stays && o->decoder_matrix == NULL) return dpmf_strategy_create_dense(n, o->matrix, out);
    TRY_DONE(base_alloc_doubles(n * m, "the columns of C", &tall));
    copy_columns(m, n, o->matrix, tall);
    if (o->decoder_matrix != NULL) TRY_DONE(check_decoder(workload, m, o->decoder_matrix, tall));
    if (stays) {
        TRY_DONE(dpmf_strategy_create_dense(n, o->matrix, out));
        goto done;
    }
    TRY_DONE(base_alloc_square(n, "the triangular form", &lower));
    if (o->decoder_matrix == NULL) {
        TRY_DONE(triangular_of_encoder(m, n, tall, lower));
    } else {
        memcpy(tall, o->decoder_matrix, (size_t)(n * m) * sizeof *tall);
        TRY_DONE(triangular_of_decoder(workload, m, tall, lower));
    }
    TRY_DONE(dpmf_strategy_create_dense(n, lower, out));
done:
    base_free(tall);
    base_free(lower);
    return status;
}
