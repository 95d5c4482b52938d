/* SPDX-License-Identifier: Apache-2.0 */
/* Binomial tails: against sums of exact terms and 150-digit references. */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_tails_of_few_trials_are_the_sums_of_their_terms),
                                       cmocka_unit_test(test_far_tails_are_accurate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
