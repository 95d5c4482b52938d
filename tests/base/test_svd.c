/* SPDX-License-Identifier: Apache-2.0 */
/* The singular value decomposition: A = U S Z', orthogonal factors, ordered values, refusals, failing allocations. */
#include "base/linalg.h"

#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double *random_matrix(int64_t n, uint64_t seed) {
    double *a = calloc((size_t)(n * n), sizeof *a);
    for (int64_t i = 0; i < n * n; i++)
        a[i] = check_random(&seed);
    return a;
}

static void assert_orthogonal_rows(int64_t n, const double *a) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t k = 0; k < n; k++)
                sum += a[i * n + k] * a[j * n + k];
            check_near(sum, i == j ? 1 : 0, 1e-13);
        }
}

static void test_the_factors_multiply_to_the_matrix(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 10, 61};
    (void)unused;
    for (int s = 0; s < 5; s++) {
        int64_t n = sizes[s];
        double *a = random_matrix(n, (uint64_t)n), *z = calloc((size_t)(n * n), sizeof *z);
        double *u = calloc((size_t)(n * n), sizeof *u), *values = calloc((size_t)n, sizeof *values);
        memcpy(z, a, (size_t)(n * n) * sizeof *a);
        check_ok(base_svd(n, z, values, u));
        for (int64_t i = 0; i < n; i++) {
            assert_true(values[i] >= 0);
            if (i > 0) assert_true(values[i] <= values[i - 1]);
            for (int64_t j = 0; j < n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < n; k++)
                    sum += u[i * n + k] * values[k] * z[k * n + j];
                check_near(sum, a[i * n + j], 1e-13);
            }
        }
        assert_orthogonal_rows(n, z);
        assert_orthogonal_rows(n, u);
        free(a), free(z), free(u), free(values);
    }
}

/* Prefix sums have the values 1/(2 sin((2k-1) pi/(4n+2))). */
static void test_singular_values_of_prefix_sums_come_with_vectors_too(void **unused) {
    enum { N = 24 };
    double a[N * N] = {0}, u[N * N], values[N];
    (void)unused;
    for (int i = 0; i < N; i++)
        for (int j = 0; j <= i; j++)
            a[i * N + j] = 1;
    check_ok(base_svd(N, a, values, u));
    for (int k = 1; k <= N; k++)
        check_near(values[k - 1], 0.5 / sin((2 * k - 1) * 3.14159265358979323846 / (4 * N + 2)), 1e-13);
}

static void test_matrices_with_nan_and_sizes_out_of_range_are_refused(void **unused) {
    double a[4] = {1, 0, NAN, 1}, u[4], values[2] = {7, 7};
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, base_svd(2, a, values, u));
    assert_true(values[0] == 7 && values[1] == 7);
    check_fails(DPMF_ERROR_UNSUPPORTED, base_svd(0, a, values, u));
    check_fails(DPMF_ERROR_UNSUPPORTED, base_svd(20001, a, values, u));
    check_message("20001");
}

static void test_any_allocation_of_the_svd_may_fail(void **unused) {
    double a[9] = {2, 0, 0, 1, 3, 0, 1, 1, 4}, u[9], values[3];
    (void)unused;
    FAIL_EACH(base_svd(3, a, values, u));
    check_near(values[0] * values[1] * values[2], 24, 1e-13);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_factors_multiply_to_the_matrix),
                                       cmocka_unit_test(test_singular_values_of_prefix_sums_come_with_vectors_too),
                                       cmocka_unit_test(test_matrices_with_nan_and_sizes_out_of_range_are_refused),
                                       cmocka_unit_test(test_any_allocation_of_the_svd_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
