/* SPDX-License-Identifier: Apache-2.0 */
/* Errors on several threads, under the thread sanitizer too. */
#include "support/check.h"

static void test_errors_have_the_same_bits_for_any_threads(void **unused) {
    enum { N = 3000 };
    static double errors[4][N];
    dpmf_strategy_options normalized = dpmf_strategy_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    (void)unused;
    normalized.column_normalize = 1;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(dpmf_strategy_create("toeplitz", a, &normalized, &c));
    for (int threads = 1; threads <= 4; threads++) {
        dpmf_run run = dpmf_run_defaults();
        run.threads = threads;
        check_ok(dpmf_error_compute(a, c, &run, errors[threads - 1]));
        assert_memory_equal(errors[0], errors[threads - 1], sizeof errors[0]);
    }
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_errors_have_the_same_bits_for_any_threads)};
    return cmocka_run_group_tests_name("errors on several threads", tests, NULL, NULL);
}
