/* SPDX-License-Identifier: Apache-2.0 */
/* Certified accounting at random: 2000 queries with the usual slack against a slack of a twenty-fifth of it. */
#include "account/account.h"
#include "support/account_ask.h"
#include "support/check.h"

#include <math.h>

static void test_thousands_of_random_queries_are_tight(void **state) {
    (void)state;
    static const account_question usual = {.relative = 5e-4, .absolute = 5e-5},
                                  fine = {.relative = 2e-5, .absolute = 2e-6};
    enum { QUERIES = 2000 };
    uint64_t seed = 2026;
    int loose = 0, unmet = 0;
    for (int i = 0; i < QUERIES; i++) {
        /* sigma in [0.3, 100], q in [1e-6, 1], n in [1, 1e6], delta in [1e-15, 1e-2], all in the logarithm */
        const double sigma = 0.3 * pow(100 / 0.3, (check_random(&seed) + 1) / 2);
        const double q = pow(10, 3 * (check_random(&seed) - 1)), n = pow(10, 3 * (check_random(&seed) + 1));
        const double log_delta = log(10) * (-8.5 + 6.5 * check_random(&seed));
        const account_pair pair = {(account_direction)(i % 3), sigma, q, (int64_t)n};
        double epsilon = 0, tight = 0;
        int met = 0, tight_met = 0;
        check_ok(ask_dots(&pair, epsilon_at(usual, log_delta), &epsilon, &met));
        check_ok(ask_dots(&pair, epsilon_at(fine, log_delta), &tight, &tight_met));
        unmet += !met;
        if (!tight_met) continue;
        const int within = epsilon <= fmax(1.001 * tight, tight + 1e-4);
        loose += !within;
        if (met && !within) fail_msg("query %d: %.12g claims to be tight, but %.12g is", i, epsilon, tight);
        assert_true(epsilon >= tight * (1 - 2e-5) - 2e-6);
    }
    assert_true(unmet <= QUERIES / 100);
    assert_true(loose <= QUERIES / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_thousands_of_random_queries_are_tight)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
