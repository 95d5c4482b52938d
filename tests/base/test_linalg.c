/* SPDX-License-Identifier: Apache-2.0 */
/* Linear algebra: definitions in long double, factors multiplied back, spectra known in closed form, refusals. */
#include "base/linalg.h"
#include "base/random.h"
#include "dpmf.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const double pi = 3.14159265358979323846;

/* Arrays live until release_all, at the end of a case. */
static void *arrays[16];
static int array_count;

static double *new_doubles(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(x);
    assert_true(array_count < 16);
    arrays[array_count++] = x;
    return x;
}

static void release_all(void) {
    while (array_count > 0) {
        free(arrays[--array_count]);
    }
}

static double *new_numbers(int64_t count, uint64_t seed) {
    double *x = new_doubles(count);
    for (int64_t i = 0; i < count; i++) {
        x[i] = base_scatter(&seed);
    }
    return x;
}

static double *new_copy(int64_t count, const double *x) {
    double *copy = new_doubles(count);
    memcpy(copy, x, (size_t)count * sizeof(double));
    return copy;
}

/* Random below the diagonal, dominated by it: well conditioned. */
static double *new_lower(int64_t n, uint64_t seed) {
    double *a = new_numbers(n * n, seed);
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < n; j++) {
            a[i * n + j] = j > i ? 0 : j == i ? 2 + a[i * n + j] : a[i * n + j] / (double)n;
        }
    }
    return a;
}

static void assert_close(int64_t count, const double *x, const double *y, double tolerance) {
    for (int64_t i = 0; i < count; i++) {
        assert_true(fabs(x[i] - y[i]) <= tolerance);
    }
}

/* y = M x for a whole n x n matrix. */
static void multiply_directly(int64_t n, const double *m, const double *x, double *y) {
    for (int64_t i = 0; i < n; i++) {
        long double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            sum += (long double)m[i * n + j] * x[j];
        }
        y[i] = (double)sum;
    }
}

static void assert_lower(int64_t n, const double *a) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = i + 1; j < n; j++) {
            assert_true(a[i * n + j] == 0 && !signbit(a[i * n + j]));
        }
    }
}

static void test_sums_are_accurate(void **state) {
    (void)state;
    for (int64_t n = 0; n < 700; n++) {
        double *x = new_numbers(n, 1), *y = new_numbers(n, 2);
        long double sum = 0, product = 0, squares = 0;
        for (int64_t i = 0; i < n; i++) {
            sum += x[i];
            product += (long double)x[i] * y[i];
            squares += (long double)x[i] * x[i];
        }
        assert_true(fabsl(base_sum(n, x) - sum) <= 1e-14L);
        assert_true(fabsl(base_dot(n, x, y) - product) <= 1e-14L);
        assert_true(fabsl(base_norm(n, x) - sqrtl(squares)) <= 1e-15L * sqrtl(squares));
        release_all();
    }
    /* Ten million tenths: a plain loop is off by 1.6e-10 relative; pairwise, by a few roundings. */
    const int64_t n = 10000000;
    double *x = new_doubles(n), *y = new_doubles(n);
    for (int64_t i = 0; i < n; i++) {
        x[i] = 0.1, y[i] = 3;
    }
    const long double tenth = 0.1;
    assert_true(fabsl(base_sum(n, x) - tenth * (long double)n) <= 1e-15L * tenth * (long double)n);
    assert_true(fabsl(base_dot(n, x, y) - 3 * tenth * (long double)n) <= 2e-15L * 3 * tenth * (long double)n);
    release_all();
}

static void test_norms_neither_overflow_nor_underflow(void **state) {
    (void)state;
    enum { N = 300 };
    static const double sizes[] = {1e308, 1e300, 1e160, 1e150, 1, 1e-150, 1e-160, 1e-300, 4e-320, DBL_TRUE_MIN};
    double x[N];
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int i = 0; i < N; i++) {
            x[i] = i % 100 == 0 ? (i % 200 == 0 ? sizes[s] : -sizes[s]) : 0; /* three of them */
        }
        /* Subnormal numbers have few digits: half a unit of theirs is allowed. */
        const double expected = sizes[s] * sqrt(3);
        assert_true(fabs(base_norm(N, x) - expected) <= fmax(1e-15 * expected, DBL_TRUE_MIN / 2));
    }
    for (int i = 0; i < N; i++) {
        x[i] = 1.7e308;
    }
    assert_true(base_norm(N, x) == INFINITY);
    x[7] = -INFINITY;
    assert_true(base_norm(N, x) == INFINITY);
    x[8] = NAN;
    assert_true(isnan(base_norm(N, x)));
    memset(x, 0, sizeof x);
    assert_true(base_norm(N, x) == 0 && base_norm(0, x) == 0);
}

static void test_toeplitz_products_and_solves_are_their_definition(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{1, 1},    {5, 1},    {5, 5},     {5, 9},     {100, 3},
                                       {500, 64}, {500, 65}, {500, 500}, {3000, 130}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int64_t n = cases[k][0], count = cases[k][1];
        double *c = new_numbers(count, 3), *x = new_numbers(n, 4), *y = new_doubles(n), *expected = new_doubles(n);
        c[0] = 2;
        for (int64_t j = 1; j < count; j++) {
            c[j] /= (double)(j * j); /* the inverse stays bounded */
        }
        for (int64_t t = 0; t < n; t++) {
            long double sum = 0;
            for (int64_t j = 0; j < count && j <= t; j++) {
                sum += (long double)c[j] * x[t - j];
            }
            expected[t] = (double)sum;
        }
        assert_int_equal(base_toeplitz_apply(n, count, c, x, y), DPMF_OK);
        assert_close(n, y, expected, 2e-14);
        double *in_place = new_copy(n, x);
        assert_int_equal(base_toeplitz_apply(n, count, c, in_place, in_place), DPMF_OK);
        assert_memory_equal(in_place, y, (size_t)n * sizeof(double));
        base_toeplitz_solve_banded(n, count, c, expected, y);
        assert_close(n, y, x, 1e-14);
        base_toeplitz_solve_banded(n, count, c, expected, expected);
        assert_memory_equal(expected, y, (size_t)n * sizeof(double));
        release_all();
    }
}

static void test_banded_products_and_solves_are_their_definition(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{1, 1}, {7, 1}, {7, 3}, {7, 7}, {7, 20}, {200, 12}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int64_t n = cases[k][0], bands = cases[k][1];
        double *rows = new_numbers(n * bands, 5), *m = new_doubles(n * n), *x = new_numbers(n, 6);
        double *y = new_doubles(n), *expected = new_doubles(n);
        for (int64_t t = 0; t < n; t++) {
            rows[t * bands] = 4 + rows[t * bands];
            for (int64_t j = 0; j < bands; j++) {
                if (j > 0) rows[t * bands + j] /= (double)bands;
                if (j <= t)
                    m[t * n + t - j] = rows[t * bands + j];
                else
                    rows[t * bands + j] = 0;
            }
        }
        multiply_directly(n, m, x, expected);
        base_banded_apply(n, bands, rows, x, y);
        assert_close(n, y, expected, 1e-14);
        double *in_place = new_copy(n, x);
        base_banded_apply(n, bands, rows, in_place, in_place);
        assert_memory_equal(in_place, y, (size_t)n * sizeof(double));
        base_banded_solve(n, bands, rows, expected, y);
        assert_close(n, y, x, 1e-14);
        base_banded_solve(n, bands, rows, expected, expected);
        assert_memory_equal(expected, y, (size_t)n * sizeof(double));
        release_all();
    }
}

static void test_triangular_products_solves_and_inverses_agree(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 17, 100, 300, 520};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k];
        double *lower = new_lower(n, 7), *x = new_numbers(n, 8), *y = new_doubles(n), *expected = new_doubles(n);
        multiply_directly(n, lower, x, expected);
        base_lower_apply(n, lower, x, y);
        assert_close(n, y, expected, 1e-14);
        double *in_place = new_copy(n, x);
        base_lower_apply(n, lower, in_place, in_place);
        assert_memory_equal(in_place, y, (size_t)n * sizeof(double));
        base_lower_solve(n, lower, expected, y);
        assert_close(n, y, x, 1e-14);
        base_lower_solve(n, lower, expected, expected);
        assert_memory_equal(expected, y, (size_t)n * sizeof(double));

        double *inverse = new_copy(n * n, lower);
        assert_int_equal(base_lower_invert(n, inverse), DPMF_OK);
        assert_lower(n, inverse);
        double *product = new_copy(n * n, inverse);
        base_lower_multiply(n, lower, product);
        assert_lower(n, product);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j <= i; j++) {
                assert_true(fabs(product[i * n + j] - (i == j)) <= 1e-14);
            }
        }
        /* The order of the factors matters in general: L M x = L (M x). */
        double *m = new_lower(n, 9);
        base_lower_apply(n, m, x, y);
        base_lower_apply(n, lower, y, y);
        base_lower_multiply(n, lower, m);
        multiply_directly(n, m, x, expected);
        assert_close(n, y, expected, 1e-13);
        release_all();
    }
}

/* a = L L^T for a lower L with positive diagonal has one Cholesky factor: L. */
static void test_cholesky_finds_the_factor(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 50, 200};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        const int64_t n = sizes[k];
        double *lower = new_lower(n, 10), *a = new_doubles(n * n);
        for (int64_t i = 0; i < n; i++) {
            for (int64_t j = 0; j < n; j++) {
                a[i * n + j] = base_dot(n, lower + i * n, lower + j * n);
            }
        }
        assert_int_equal(base_cholesky(n, a), DPMF_OK);
        assert_lower(n, a);
        assert_close(n * n, a, lower, 1e-14);
        release_all();
    }
}

/* The second difference matrix has eigenvalues 2 - 2 cos(k pi/(n+1)) and eigenvectors sin(k t pi/(n+1)), k, t = 1..n.
 */
static void test_eigenvalues_of_the_second_difference_are_the_known_ones(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 10, 32, 33, 60}; /* up to 32 by base/eigen.c */
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const int64_t n = sizes[s];
        double *a = new_doubles(n * n), *values = new_doubles(n);
        for (int64_t i = 0; i < n; i++) {
            a[i * n + i] = 2;
            if (i + 1 < n) a[i * n + i + 1] = a[(i + 1) * n + i] = -1;
        }
        assert_int_equal(base_symmetric_eigen(n, a, values), DPMF_OK);
        for (int64_t k = 1; k <= n; k++) {
            const double angle = (double)k * pi / (double)(n + 1), scale = sqrt(2 / (double)(n + 1));
            const double *vector = a + (k - 1) * n;
            assert_true(fabs(values[k - 1] - (2 - 2 * cos(angle))) <= 1e-14);
            const double sign = vector[0] * sin(angle) < 0 ? -1 : 1;
            for (int64_t t = 1; t <= n; t++) {
                assert_true(fabs(sign * vector[t - 1] - scale * sin(angle * (double)t)) <= 1e-12);
            }
        }
        release_all();
    }
}

/* 0: no order; 1: all equal; 2: rank one; 3: graded over many orders; 4: mostly zeros; 5: nothing but zeros. */
static double entry_of(int kind, int64_t i, int64_t j) {
    const double x = sin(1 + 3 * (double)i + 7 * (double)(j * j));
    const double numbers[] = {
        x, i == j, (double)(i + 1) * (double)(j + 1), x * exp(-3 * (double)(i + j)), (i + 2 * j) % 5 == 0 ? x : 0, 0};
    return numbers[kind];
}

/* A v = value v, orthonormal v, rising values. */
static void check_eigen(int64_t n, int kind, double scale) {
    double *a = new_doubles(n * n), *v = new_doubles(n * n), *values = new_doubles(n);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++)
            a[i * n + j] = a[j * n + i] = scale * entry_of(kind, i, j);
    memcpy(v, a, (size_t)(n * n) * sizeof *a);
    assert_int_equal(base_symmetric_eigen(n, v, values), DPMF_OK);
    const double size = base_norm(n * n, a);
    for (int64_t i = 0; i < n; i++) {
        assert_true(i == 0 || values[i - 1] <= values[i]);
        for (int64_t j = 0; j < n; j++) {
            const double product = base_dot(n, a + j * n, v + i * n);
            const double inner = base_dot(n, v + i * n, v + j * n);
            assert_true(fabs(product - values[i] * v[i * n + j]) <= 1e-14 * size);
            assert_true(fabs(inner - (i == j)) <= 1e-13);
        }
    }
    release_all();
}

/* By both routes; products of two numbers can be too large or too small for a double. */
static void test_eigenvectors_of_any_kind_of_matrix(void **state) {
    static const double scales[] = {1, 1e-280, 1e-155, 1e155, 1e280};
    (void)state;
    for (int64_t n = 1; n <= BASE_EIGEN_SMALL + 2; n++)
        for (int kind = 0; kind < 6; kind++)
            for (size_t i = 0; i < sizeof scales / sizeof scales[0]; i++)
                check_eigen(n, kind, scales[i]);
}

/* Bounds are proven with the eigenvalues: none that is infinite or not a number is given as an answer. */
static void test_eigenvalues_too_large_for_a_double_are_an_error(void **state) {
    double a[16], values[4] = {1, 2, 3, 4};
    (void)state;
    for (int i = 0; i < 16; i++)
        a[i] = 1e308;
    assert_int_equal(base_symmetric_eigen(4, a, values), DPMF_ERROR_NUMERICAL);
    assert_true(values[0] == 1 && values[3] == 4);
}

/* Prefix sums: 1/(2 sin((2j-1) pi/(4n+2))), j = 1..n; with every column twice, sqrt 2 times that. */
static void test_singular_values_of_prefix_sums_are_the_known_ones(void **state) {
    (void)state;
    static const int64_t sizes[] = {1, 2, 3, 50, 200};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (int64_t copies = 1; copies <= 2; copies++) {
            for (int tall = 0; tall < 2; tall++) {
                const int64_t n = sizes[s], wide = n * copies;
                double *a = new_doubles(n * wide), *values = new_doubles(n);
                for (int64_t i = 0; i < n; i++) {
                    for (int64_t j = 0; j < wide; j++) {
                        a[tall ? j * n + i : i * wide + j] = j % n <= i;
                    }
                }
                values[n] = 42;
                assert_int_equal(base_singular_values(tall ? wide : n, tall ? n : wide, a, values), DPMF_OK);
                for (int64_t j = 1; j <= n; j++) {
                    const double expected =
                        sqrt((double)copies) / (2 * sin((double)(2 * j - 1) * pi / (double)(4 * n + 2)));
                    assert_true(fabs(values[j - 1] - expected) <=
                                1e-15 * (double)(4 * n)); /* relative to the largest */
                }
                assert_true(values[n] == 42);
                release_all();
            }
        }
    }
}

static void test_lq_factors_give_the_same_gram_matrix(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{1, 1}, {1, 5}, {3, 3}, {4, 9}, {60, 200}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const int64_t m = cases[k][0], n = cases[k][1];
        double *a = new_numbers(m * n, 12), *kept = new_copy(m * n, a), *lower = new_doubles(m * m);
        assert_int_equal(base_lq(m, n, a, lower), DPMF_OK);
        assert_lower(m, lower);
        for (int64_t i = 0; i < m; i++) {
            assert_true(lower[i * m + i] >= 0);
            for (int64_t j = 0; j < m; j++) {
                const double expected = base_dot(n, kept + i * n, kept + j * n);
                assert_true(fabs(base_dot(m, lower + i * m, lower + j * m) - expected) <= 1e-15 * (double)(4 * n));
            }
        }
        release_all();
    }
}

static void test_bad_matrices_are_refused(void **state) {
    (void)state;
    double a[4] = {1, 0, 5, 0}, out[4] = {9, 9, 9, 9};
    assert_int_equal(base_lower_invert(2, a), DPMF_ERROR_NUMERICAL);
    assert_true(a[0] == 1 && a[2] == 5 && a[3] == 0);
    a[3] = 1e-310; /* its inverse is no double */
    assert_int_equal(base_lower_invert(2, a), DPMF_ERROR_NUMERICAL);
    double indefinite[4] = {1, 2, 2, 1};
    assert_int_equal(base_cholesky(2, indefinite), DPMF_ERROR_NUMERICAL);
    assert_non_null(strstr(dpmf_last_error(), "leading 2 x 2"));
    static const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        double b[4] = {1, 0, bad[i], 1};
        assert_int_equal(base_lower_invert(2, b), DPMF_ERROR_NUMERICAL);
        assert_int_equal(base_cholesky(2, b), DPMF_ERROR_NUMERICAL);
        assert_int_equal(base_symmetric_eigen(2, b, out), DPMF_ERROR_NUMERICAL);
        assert_int_equal(base_singular_values(2, 2, b, out), DPMF_ERROR_NUMERICAL);
        assert_int_equal(base_lq(2, 2, b, out), DPMF_ERROR_NUMERICAL);
    }
    for (int i = 0; i < 4; i++) {
        assert_true(out[i] == 9);
    }
}

/* The size is looked at before the matrix. */
static void test_sizes_past_lapack_are_refused(void **state) {
    (void)state;
    const int64_t large = (int64_t)INT_MAX + 1;
    double a = 1, out = 9;
    assert_int_equal(base_lower_invert(large, &a), DPMF_ERROR_UNSUPPORTED);
    assert_non_null(strstr(dpmf_last_error(), "2147483648"));
    assert_int_equal(base_cholesky(large, &a), DPMF_ERROR_UNSUPPORTED);
    assert_int_equal(base_symmetric_eigen(40000, &a, &out), DPMF_ERROR_UNSUPPORTED);
    assert_int_equal(base_singular_values(1, large, &a, &out), DPMF_ERROR_UNSUPPORTED);
    assert_int_equal(base_singular_values(large, 1, &a, &out), DPMF_ERROR_UNSUPPORTED);
    assert_int_equal(base_lq(1, large, &a, &out), DPMF_ERROR_UNSUPPORTED);
    assert_true(a == 1 && out == 9);
    assert_int_equal(base_lower_invert(0, NULL), DPMF_OK);
    assert_int_equal(base_cholesky(0, NULL), DPMF_OK);
    assert_int_equal(base_symmetric_eigen(0, NULL, NULL), DPMF_OK);
    assert_int_equal(base_singular_values(0, 5, NULL, NULL), DPMF_OK);
    assert_int_equal(base_lq(0, 5, NULL, NULL), DPMF_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums_are_accurate),
        cmocka_unit_test(test_norms_neither_overflow_nor_underflow),
        cmocka_unit_test(test_toeplitz_products_and_solves_are_their_definition),
        cmocka_unit_test(test_banded_products_and_solves_are_their_definition),
        cmocka_unit_test(test_triangular_products_solves_and_inverses_agree),
        cmocka_unit_test(test_cholesky_finds_the_factor),
        cmocka_unit_test(test_eigenvalues_of_the_second_difference_are_the_known_ones),
        cmocka_unit_test(test_eigenvectors_of_any_kind_of_matrix),
        cmocka_unit_test(test_eigenvalues_too_large_for_a_double_are_an_error),
        cmocka_unit_test(test_singular_values_of_prefix_sums_are_the_known_ones),
        cmocka_unit_test(test_lq_factors_give_the_same_gram_matrix),
        cmocka_unit_test(test_bad_matrices_are_refused),
        cmocka_unit_test(test_sizes_past_lapack_are_refused),
    };
    return cmocka_run_group_tests_name("linear algebra", tests, NULL, NULL);
}
