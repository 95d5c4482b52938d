/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of Toeplitz C with normalized columns and under schedules, against the whole matrix and the other routes. */
#include "error/error.h"
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <stdlib.h>

static dpmf_strategy *toeplitz(int64_t steps, int64_t bands) {
    dpmf_strategy *s = NULL;
    double *c = malloc((size_t)bands * sizeof *c);
    for (int64_t i = 0; i < bands; i++)
        c[i] = 1.3 / (double)(1 + i) + (i == 1 ? -0.2 : 0.01);
    check_ok(dpmf_strategy_create_toeplitz(steps, DPMF_TOEPLITZ_BANDED, bands, c, &s));
    free(c);
    return s;
}

static const char *const WORKLOADS[] = {"prefix", "momentum:0.9", "nesterov:0.8,decay:0.02", "cooldown:0.5:0.1",
                                        "nesterov:0.8,decay:0.02,cooldown:0.5:0.1"};
enum { WORKLOAD_COUNT = sizeof WORKLOADS / sizeof WORKLOADS[0] };

static void test_errors_of_toeplitz_strategies_are_those_of_the_matrix(void **state) {
    (void)state;
    static const int64_t BANDS[] = {1, 2, 5, 17, 59, 60};
    for (int i = 0; i < WORKLOAD_COUNT; i++)
        for (size_t j = 0; j < sizeof BANDS / sizeof BANDS[0]; j++) {
            dpmf_workload *a = NULL;
            dpmf_strategy *s = toeplitz(60, BANDS[j]), *normalized = NULL;
            check_ok(dpmf_workload_parse(WORKLOADS[i], 60, &a));
            check_ok(dpmf_strategy_create_normalized(s, &normalized));
            check_factorization(a, s, 1e-11);
            check_factorization(a, normalized, 1e-11);
            dpmf_strategy_free(normalized);
            dpmf_strategy_free(s);
            dpmf_workload_free(a);
        }
}

/* The route itself, where error/error.c might take another, and the covariance of past outputs. */
static void test_the_toeplitz_route_agrees_with_feeding_back(void **state) {
    (void)state;
    enum { N = 301, B = 7 };
    double found[N], expected[N];
    for (int i = 0; i < WORKLOAD_COUNT; i++) {
        dpmf_workload *a = NULL;
        dpmf_strategy *s = toeplitz(N, B), *normalized = NULL;
        const double *scale = NULL, *c = NULL, *inverse = NULL;
        int64_t count = 0, inverse_count = 0;
        check_ok(dpmf_workload_parse(WORKLOADS[i], N, &a));
        check_ok(dpmf_strategy_create_normalized(s, &normalized));
        assert_ptr_equal(strategy_scaled(normalized, &scale), s);
        assert_true(strategy_toeplitz(s, &count, &c, &inverse_count, &inverse));
        check_ok(error_toeplitz_columns(a, count, c, scale, NULL, found));
        check_ok(error_fed_back(a, normalized, NULL, expected));
        for (int t = 0; t < N; t++)
            check_near(found[t], expected[t], 1e-11);
        check_ok(error_toeplitz_columns(a, count, c, NULL, NULL, found));
        check_ok(error_fed_back(a, s, NULL, expected));
        for (int t = 0; t < N; t++)
            check_near(found[t], expected[t], 1e-11);
        FAIL_EACH(error_toeplitz_columns(a, count, c, scale, NULL, found));
        dpmf_strategy_free(normalized);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors_of_toeplitz_strategies_are_those_of_the_matrix),
        cmocka_unit_test(test_the_toeplitz_route_agrees_with_feeding_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
