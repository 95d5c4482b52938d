/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 10 000 random questions: the certified epsilon is never below the contour's less its stated error, and close to it
 * (0.1 % or 1e-4) in 99 % of those that the contour can answer. The seed is fixed: no chance is involved.
 */
#include "support/account_ask.h"
#include "support/check.h"

#include <math.h>

/* log-uniform in [low, high] */
static double draw(uint64_t *seed, double low, double high) {
    return low * exp(0.5 * (check_random(seed) + 1) * log(high / low));
}

static void test_certified_values_are_above_the_contour_at_random(void **state) {
    (void)state;
    enum { QUESTIONS = 10000 };
    uint64_t seed = 20250711;
    int answered = 0, close = 0;
    for (int i = 0; i < QUESTIONS; i++) {
        account_pair pair = {(account_direction)(i % 3), draw(&seed, 0.3, 100), draw(&seed, 1e-6, 1),
                             (int64_t)draw(&seed, 1, 1e6)};
        const double log_delta = log(draw(&seed, 1e-15, 1e-2));
        double epsilon = NAN, error = NAN, certified = NAN;
        int met = 0;
        check_ok(ask_contour(&pair, epsilon_at((account_question){0}, log_delta), &epsilon, &error));
        assert_true(!isnan(epsilon) && error >= 0);
        if (isinf(error)) continue;
        const account_question options = {.relative = 5e-4, .absolute = 5e-5};
        check_ok(ask_dots(&pair, epsilon_at(options, log_delta), &certified, &met));
        if (!(certified >= epsilon - error - 1e-12 * epsilon))
            fail_msg("certified %.12g, contour %.12g +- %g: direction %d sigma %.17g q %.17g n %lld ln delta %.17g",
                     certified, epsilon, error, (int)pair.direction, pair.sigma, pair.probability,
                     (long long)pair.compositions, log_delta);
        answered++;
        close += certified <= fmax(1.001 * epsilon, epsilon + 1e-4);
    }
    print_message("%d answered by the contour, %d close\n", answered, close);
    assert_true(answered >= QUESTIONS * 6 / 10);
    assert_true(close >= answered * 99 / 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_certified_values_are_above_the_contour_at_random)};
    return cmocka_run_group_tests_name("random accounting questions", tests, NULL, NULL);
}
