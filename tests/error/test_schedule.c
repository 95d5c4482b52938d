/* SPDX-License-Identifier: Apache-2.0 */
/* A Toeplitz C under a schedule: the near linear route against all columns. */
#include "error/error.h"

#include "support/check.h"

#include <math.h>
#include <stdlib.h>

static void compare(const char *workload, int64_t n, int64_t bands, int expected) {
    dpmf_workload *a = workload_of(workload, n);
    double *c = calloc((size_t)bands, sizeof *c), *want = calloc((size_t)n, sizeof *want),
           *got = calloc((size_t)n, sizeof *got);
    int done = -1;
    c[0] = 1;
    for (int64_t i = 1; i < bands; i++) /* the square root of prefix sums, tapered */
        c[i] = c[i - 1] * (1 - 0.5 / (double)i) * (1 - 1 / (double)(2 * bands));
    check_ok(dpmf_i_error_toeplitz_columns(a, bands, c, NULL, NULL, want));
    check_ok(dpmf_i_error_schedule(a, bands, c, NULL, &done, got));
    assert_int_equal(done, expected);
    for (int64_t t = 0; t < n && done; t++)
        check_near(got[t], want[t], 1e-10);
    free(c);
    free(want);
    free(got);
    dpmf_workload_free(a);
}

static void test_both_routes_agree(void **unused) {
    (void)unused;
    compare("cooldown:0.3:0.01", 3000, 2, 1);
    compare("cooldown:0.3:0.01", 3000, 16, 1);
    compare("momentum:0.9,cooldown:0.5:0.01", 3000, 7, 1);
    compare("nesterov:0.8,cooldown:0.5:0.1", 4000, 24, 1);
    compare("momentum:0.9,cooldown:0.5:0.01", 1000, 900, 0); /* no gain: left to the columns */
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_routes_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
