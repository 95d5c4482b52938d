/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tails and Clopper and Pearson's limits: against sums of exact terms, 150-digit references, and coverage. */
#include "base/special.h"

#include "support/check.h"
#include <math.h>

static double choose(int n, int k) {
    double c = 1;
    for (int i = 1; i <= k; i++)
        c = c * (n - k + i) / i;
    return c;
}

static void test_tails_of_few_trials_are_the_sums_of_their_terms(void **unused) {
    static const double p[] = {0, 1e-9, 0.01, 0.3, 0.5, 0.77, 0.999, 1};
    (void)unused;
    for (int n = 1; n <= 30; n++)
        for (int i = 0; i < 8; i++) {
            double below = 0;
            for (int k = -1; k <= n + 1; k++) {
                const double term = k < 0 || k > n ? 0 : choose(n, k) * pow(p[i], k) * pow(1 - p[i], n - k);
                check_near(base_binomial_at_least(k, n, p[i]), 1 - below, 1e-13);
                below += term;
                check_near(base_binomial_at_most(k, n, p[i]), below, 1e-13);
            }
        }
}

/* References by summation with 150 digits. */
static void test_far_tails_are_accurate(void **unused) {
    (void)unused;
    check_near(base_binomial_at_most(100, 10000000, 1.5e-5) / 9.0490874867429795e-6, 1, 1e-12);
    check_near(base_binomial_at_most(12, 10000000000, 1e-8) / 8.8120350563056197e-29, 1, 1e-12);
    check_near(base_binomial_at_most(40, 100, 0.7) / 5.1299498155831936e-10, 1, 1e-12);
    check_near(base_binomial_at_least(200, 10000000, 1e-5) / 9.3384813771127705e-19, 1, 1e-12);
}

static void test_limits_agree_with_known_ones(void **unused) {
    static const struct {
        int64_t k, n;
        double failure, upper, lower;
    } known[] = {{100, 10000000, 0.005, 1.2876039495837874e-5, 7.6120582923937451e-6},
                 {7, 1000000000, 0.01, 1.5999963382408048e-8, 2.3302125356045765e-9},
                 {3, 1000000000000, 1e-9, 2.9153806563361573e-11, 1.8179466000288319e-15},
                 {5, 20, 0.025, 0.49104587170795754, 0.086571469101434539},
                 {300, 1000000000, 0.001, 3.5747468749688508e-7, 2.4931144296745881e-7}};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        check_near(base_binomial_upper(known[i].k, known[i].n, known[i].failure) / known[i].upper, 1, 1e-12);
        check_near(base_binomial_lower(known[i].k, known[i].n, known[i].failure) / known[i].lower, 1, 1e-12);
    }
    check_near(base_binomial_upper(0, 1000000000, 0.05) / (-log(0.05) * 1e-9), 1, 1e-8);
    assert_true(base_binomial_upper(8, 8, 0.1) == 1);
    assert_true(base_binomial_lower(0, 8, 0.1) == 0);
    check_near(base_binomial_lower(8, 8, 0.1), pow(0.1, 1.0 / 8), 1e-15);
}

/* For every p the limits fail with at most the probability allowed, exactly computed over all k. */
static void test_limits_fail_no_more_often_than_is_allowed(void **unused) {
    enum { N = 25 };
    (void)unused;
    for (double failure = 0.003; failure < 0.6; failure *= 3)
        for (double p = 0.005; p < 1; p += 0.005) {
            double above = 0, below = 0;
            for (int k = 0; k <= N; k++) {
                const double mass = choose(N, k) * pow(p, k) * pow(1 - p, N - k);
                if (base_binomial_upper(k, N, failure) < p) above += mass;
                if (base_binomial_lower(k, N, failure) > p) below += mass;
            }
            assert_true(above <= failure * (1 + 1e-9) && below <= failure * (1 + 1e-9));
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tails_of_few_trials_are_the_sums_of_their_terms),
                                       cmocka_unit_test(test_far_tails_are_accurate),
                                       cmocka_unit_test(test_limits_agree_with_known_ones),
                                       cmocka_unit_test(test_limits_fail_no_more_often_than_is_allowed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
