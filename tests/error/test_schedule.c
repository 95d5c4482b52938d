/* SPDX-License-Identifier: Apache-2.0 */
/* A Toeplitz C under a schedule: the near linear route against all columns. */
#include "error/error.h"

#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>

/* taper: 1, or less for coefficients that fall faster than those of the square root; scaled: columns divided. */
static void compare(const char *workload, int64_t n, int64_t bands, double taper, int scaled, int expected) {
    dpmf_workload *a = workload_of(workload, n);
    double *c = calloc((size_t)bands, sizeof *c), *want = calloc((size_t)n, sizeof *want),
           *got = calloc((size_t)n, sizeof *got), *scale = calloc((size_t)n, sizeof *scale);
    int done = -1;
    c[0] = 1;
    for (int64_t i = 1; i < bands; i++) /* the square root of prefix sums, tapered */
        c[i] = c[i - 1] * (1 - 0.5 / (double)i) * taper;
    for (int64_t t = 0; t < n; t++)
        scale[t] = 2 - sin((double)t);
    check_ok(error_toeplitz_columns(a, bands, c, scaled ? scale : NULL, NULL, want));
    check_ok(error_schedule(a, bands, c, scaled ? scale : NULL, NULL, &done, got));
    assert_int_equal(done, expected);
    for (int64_t t = 0; t < n && done; t++)
        check_near(got[t], want[t], 1e-10);
    free(c);
    free(want), free(got), free(scale);
    dpmf_workload_free(a);
}

static void test_both_routes_agree(void **unused) {
    (void)unused;
    compare("cooldown:0.3:0.01", 3000, 2, 0.75, 0, 1);
    compare("cooldown:0.3:0.01", 3000, 16, 0.97, 0, 1);
    compare("cooldown:0.3:0.01", 3000, 16, 0.97, 1, 1);
    compare("momentum:0.9,cooldown:0.5:0.01", 3000, 7, 0.9, 0, 1);
    compare("nesterov:0.8,cooldown:0.5:0.1", 4000, 24, 0.98, 0, 1);
    compare("momentum:0.9,cooldown:0.5:0.01", 1000, 900, 0.999, 0, 0); /* no gain: left to the columns */
    compare("momentum:0.9,cooldown:0.5:0.01", 3000, 7, 0.9, 1, 0);     /* momentum between rates and norms: the same */
}

/* A filter that does not end: in squares of every size, whole and cut off. */
static void test_long_filters_agree(void **unused) {
    (void)unused;
    compare("cooldown:0.3:0.01", 5000, 5000, 1, 0, 1);
    compare("prefix", 4096, 4096, 1, 1, 1);
    compare("cooldown:0.3:0.01", 4097, 4000, 1, 1, 1);
    compare("momentum:0.9,cooldown:0.5:0.01", 6000, 6000, 1, 0, 1);
}

/* Against the sum itself, around every size of a square. */
static void test_the_triangle_is_the_sum(void **unused) {
    static const int64_t SIZES[] = {1, 2, 127, 128, 129, 255, 256, 257, 383, 384, 385, 640, 700};
    uint64_t seed = 3;
    double g[700], rates[700], q[700];
    (void)unused;
    for (int i = 0; i < 700; i++) {
        g[i] = check_random(&seed);
        rates[i] = check_random(&seed);
    }
    for (size_t k = 0; k < sizeof SIZES / sizeof *SIZES; k++) {
        const int64_t n = SIZES[k];
        check_ok(error_triangle(n, g, rates, NULL, q));
        for (int64_t t = 0; t < n; t++) {
            double want = 0;
            for (int64_t s = 0; s < t; s++)
                for (int64_t i = 0; i <= s; i++)
                    want += rates[s] * g[i] * g[i + t - s];
            check_near(q[t], want, 1e-10);
        }
    }
    FAIL_EACH(error_triangle(700, g, rates, NULL, q));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_both_routes_agree),
                                       cmocka_unit_test(test_long_filters_agree),
                                       cmocka_unit_test(test_the_triangle_is_the_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
