/* SPDX-License-Identifier: Apache-2.0 */
/* Convolution and power-series inverse: sums in long double, and products and inverses known in closed form. */
#include "base/fft.h"
#include "base/random.h"
#include "dpmf.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static double *new_doubles(int64_t count) {
    double *x = calloc((size_t)count + 1, sizeof(double));
    assert_non_null(x);
    return x;
}

static double *new_numbers(int64_t count, uint64_t seed) {
    double *x = new_doubles(count);
    for (int64_t i = 0; i < count; i++) {
        x[i] = base_scatter(&seed);
    }
    return x;
}

static double norm(int64_t count, const double *x) {
    long double squares = 0;
    for (int64_t i = 0; i < count; i++) {
        squares += (long double)x[i] * x[i];
    }
    return (double)sqrtl(squares);
}

/* out_i by its definition, each sum in long double. */
static long double product_term(int64_t a_count, const double *a, int64_t b_count, const double *b, int64_t i) {
    long double sum = 0;
    for (int64_t j = i < b_count ? 0 : i - b_count + 1; j <= i && j < a_count; j++) {
        sum += (long double)a[j] * b[i - j];
    }
    return sum;
}

static void test_products_are_their_definition(void **state) {
    (void)state;
    /* Around every change of method: 64 terms, one piece and several, more and fewer terms wanted than there are. */
    static const int64_t cases[][3] = {{1, 1, 1},          {1, 1, 5},          {3, 2, 4},         {3, 2, 9},
                                       {64, 64, 127},      {65, 65, 129},      {64, 5000, 5063},  {65, 5000, 5064},
                                       {130, 5000, 5129},  {130, 5000, 7000},  {130, 5000, 5000}, {130, 5000, 4000},
                                       {5000, 130, 1500},  {1000, 1000, 1000}, {1000, 999, 1998}, {1024, 1025, 2048},
                                       {1024, 1024, 2047}, {3000, 700, 3699},  {3000, 700, 100},  {1000, 9000, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const int64_t a_count = cases[c][0], b_count = cases[c][1], count = cases[c][2];
        double *a = new_numbers(a_count, 11), *b = new_numbers(b_count, 12), *out = new_doubles(count);
        out[count] = 42;
        for (int64_t i = 0; i < count; i++) {
            out[i] = NAN; /* every term must be written */
        }
        assert_int_equal(base_convolve(a_count, a, b_count, b, count, out), DPMF_OK);
        const double tolerance = 1e-15 * norm(a_count, a) * norm(b_count, b);
        for (int64_t i = 0; i < count; i++) {
            assert_true(fabsl(out[i] - product_term(a_count, a, b_count, b, i)) <= tolerance);
        }
        assert_true(out[count] == 42);
        free(a);
        free(b);
        free(out);
    }
}

/* (1 + x + ... + x^(n-1))^2 has the terms 1, 2, ..., n, ..., 2, 1. */
static void test_squares_of_whole_numbers_are_right(void **state) {
    (void)state;
    static const int64_t counts[] = {100, 1000, 4097, 100000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const int64_t n = counts[c];
        double *ones = new_doubles(n), *copy = new_doubles(n), *out = new_doubles(2 * n - 1);
        for (int64_t i = 0; i < n; i++) {
            ones[i] = copy[i] = 1;
        }
        for (int same = 0; same < 2; same++) {
            assert_int_equal(base_convolve(n, ones, n, same ? ones : copy, 2 * n - 1, out), DPMF_OK);
            for (int64_t i = 0; i < 2 * n - 1; i++) {
                assert_true(fabs(out[i] - (double)(i < n ? i + 1 : 2 * n - 1 - i)) <= 1e-15 * 4 * (double)n);
            }
        }
        free(ones);
        free(copy);
        free(out);
    }
}

static void test_empty_products_are_zero(void **state) {
    (void)state;
    const double a[3] = {1, 2, 3};
    double out[4] = {9, 9, 9, 9};
    assert_int_equal(base_convolve(0, NULL, 3, a, 4, out), DPMF_OK);
    for (int i = 0; i < 4; i++) {
        assert_true(out[i] == 0);
        out[i] = 9;
    }
    assert_int_equal(base_convolve(3, a, 0, NULL, 4, out), DPMF_OK);
    assert_true(out[0] == 0 && out[3] == 0);
    assert_int_equal(base_convolve(3, a, 3, a, 0, NULL), DPMF_OK);
}

/* (1-x)^power, whose terms are products of ratios: c_i = c_{i-1} (i - 1 - power)/i. */
static double *binomial_series(int64_t count, double power) {
    double *c = new_doubles(count);
    long double term = 1;
    for (int64_t i = 0; i < count; i++) {
        c[i] = (double)term;
        term *= ((long double)i - power) / ((long double)i + 1);
    }
    return c;
}

static void test_known_series_are_inverted(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 4096, 4097, 100000};
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        const int64_t n = counts[c];
        double *root = binomial_series(n, 0.5), *expected = binomial_series(n, -0.5), *got = new_doubles(n);
        got[n] = 42;
        assert_int_equal(base_series_inverse(n, root, n, got), DPMF_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(fabs(got[i] - expected[i]) <= 2e-15);
        }
        assert_true(got[n] == 42);
        assert_int_equal(base_series_inverse(n, expected, n, got), DPMF_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(fabs(got[i] - root[i]) <= 2e-15);
        }
        free(root);
        free(expected);
        free(got);
    }
}

/* Terms of `a` that are not given are zero, and those past `count` do not matter. */
static void test_the_inverse_undoes_the_product(void **state) {
    (void)state;
    static const int64_t cases[][2] = {{1, 500},    {5, 500},    {64, 2000},  {65, 2000},
                                       {700, 2000}, {2000, 700}, {1999, 2000}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const int64_t a_count = cases[c][0], n = cases[c][1];
        double *a = new_numbers(a_count, 17), *g = new_doubles(n);
        for (int64_t i = 0; i < a_count; i++) {
            a[i] *= 0.4 / (double)((i + 1) * (i + 1)); /* |a_1| + |a_2| + ... < |a_0|: the inverse stays bounded */
        }
        a[0] = -0.75;
        assert_int_equal(base_series_inverse(a_count, a, n, g), DPMF_OK);
        for (int64_t i = 0; i < n; i++) {
            assert_true(fabsl(product_term(a_count, a, n, g, i) - (i == 0)) <= 4e-16L);
        }
        free(a);
        free(g);
    }
}

static void test_the_inverse_may_take_the_place_of_its_series(void **state) {
    (void)state;
    double *a = binomial_series(500, 0.5), *expected = new_doubles(500);
    assert_int_equal(base_series_inverse(500, a, 500, expected), DPMF_OK);
    assert_int_equal(base_series_inverse(500, a, 500, a), DPMF_OK);
    assert_memory_equal(a, expected, 500 * sizeof(double));
    free(a);
    free(expected);
}

static void test_series_without_inverse_are_refused(void **state) {
    (void)state;
    enum { N = 2000 };
    static double a[N], out[N];
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    static const int64_t counts[] = {10, N};
    for (size_t c = 0; c < 2; c++) {
        const int64_t n = counts[c];
        memset(a, 0, sizeof a);
        memset(out, 0, sizeof out);
        assert_int_equal(base_series_inverse(n, a, n, out), DPMF_ERROR_NUMERICAL);
        assert_int_equal(base_series_inverse(0, NULL, n, out), DPMF_ERROR_NUMERICAL);
        a[0] = 1;
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            a[n - 1] = bad[i];
            assert_int_equal(base_series_inverse(n, a, n, out), DPMF_ERROR_NUMERICAL);
            assert_int_equal(base_series_inverse(n, a, n - 1, out), DPMF_OK); /* does not reach it */
            out[0] = 0;
        }
        /* 1/(1 - 1e100 x): the fourth power leaves the range of a double. */
        a[n - 1] = 0;
        a[1] = -1e100;
        assert_int_equal(base_series_inverse(n, a, n, out), DPMF_ERROR_NUMERICAL);
        a[n - 1] = 1e-3; /* the same by Newton's iteration where n is large */
        assert_int_equal(base_series_inverse(n, a, n, out), DPMF_ERROR_NUMERICAL);
        for (int64_t i = 0; i < n; i++) {
            assert_true(out[i] == 0);
        }
        a[1] = 0;
    }
    assert_int_equal(base_series_inverse(1, a, 0, out), DPMF_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products_are_their_definition),
        cmocka_unit_test(test_squares_of_whole_numbers_are_right),
        cmocka_unit_test(test_empty_products_are_zero),
        cmocka_unit_test(test_known_series_are_inverted),
        cmocka_unit_test(test_the_inverse_undoes_the_product),
        cmocka_unit_test(test_the_inverse_may_take_the_place_of_its_series),
        cmocka_unit_test(test_series_without_inverse_are_refused),
    };
    return cmocka_run_group_tests_name("convolution", tests, NULL, NULL);
}
