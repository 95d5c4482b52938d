/* SPDX-License-Identifier: Apache-2.0 */
/* The certified optimum where it takes time: long runs, and momentum against the route by singular values. */
#include "check.h"

#include "optimum.h"

#include <math.h>
#include <stdlib.h>

static void assert_optimum(int64_t n, int max_loss, double value, double tolerance) {
    dpmf_workload *a = NULL;
    dpmf_i_optimum o = {0};
    check_ok(dpmf_workload_parse("prefix", n, &a));
    check_ok(dpmf_i_optimum_solve(a, max_loss, NULL, tolerance, NULL, &o));
    assert_true(o.converged);
    check_near(o.lower / value, 1, tolerance);
    check_near(o.upper / value, 1, tolerance);
    dpmf_i_optimum_free(&o);
    dpmf_workload_free(a);
}

static void test_long_runs(void **unused) {
    (void)unused;
    assert_optimum(131072, 0, 4.482308, 1e-6);
    assert_optimum(131072, 1, 4.484709, 1e-6);
    assert_optimum(1048576, 0, 5.140191, 5e-6);
    assert_optimum(1048576, 1, 5.141968, 5e-6);
}

static void test_momentum(void **unused) {
    static const char *const texts[] = {"momentum:0.95", "momentum:0.95,cooldown:0.25:0.05"};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        dpmf_workload *named = NULL, *dense = NULL;
        dpmf_i_optimum o[2] = {{0}, {0}};
        check_ok(dpmf_workload_parse(texts[i], 512, &named));
        double *matrix = check_workload_matrix(named);
        check_ok(dpmf_workload_create_dense(512, matrix, &dense));
        check_ok(dpmf_i_optimum_solve(named, 0, NULL, 1e-8, NULL, &o[0]));
        check_ok(dpmf_i_optimum_solve(dense, 0, NULL, 1e-8, NULL, &o[1]));
        assert_true(o[0].converged && o[1].converged);
        check_near(o[0].lower / o[1].lower, 1, 1e-8);
        check_near(o[0].upper / o[1].upper, 1, 1e-8);
        dpmf_i_optimum_free(&o[0]);
        dpmf_i_optimum_free(&o[1]);
        free(matrix);
        dpmf_workload_free(named);
        dpmf_workload_free(dense);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_long_runs), cmocka_unit_test(test_momentum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
