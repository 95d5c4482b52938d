/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of different pairs: against closed forms and against the engine for equal steps. */
#include "account/grid/grid.h"
#include "support/account_ask.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

static const account_question usual = {.relative = 5e-4, .absolute = 5e-5};

static double epsilon_of(int count, const grid_part *parts, int reversed, double log_delta) {
    double epsilon = NAN;
    int met = -1;
    check_ok(ask_list(count, parts, reversed, epsilon_at(usual, log_delta), &epsilon, &met));
    assert_int_equal(met, 1);
    return epsilon;
}

/* Gaussians compose to one whose mu is the root of the sum of squares. */
static void test_gaussians_are_exact(void **state) {
    const grid_gaussian a = {.5}, b = {.8}, c = {.1};
    const grid_part parts[] = {grid_gaussian_part(&a, 1), grid_gaussian_part(&b, 1), grid_gaussian_part(&c, 9)};
    const double mu = sqrt(.25 + .64 + .09);
    (void)state;
    for (double log_delta = -5; log_delta > -60; log_delta *= 2) {
        const double exact = account_gaussian_epsilon(mu, log_delta), got = epsilon_of(3, parts, 0, log_delta);
        assert_true(got >= exact && got <= exact * 1.001 + 1e-4);
        double delta = 1;
        int met;
        check_ok(ask_list(3, parts, 1, log_delta_at(usual, exact), &delta, &met));
        assert_true(delta >= log_delta && delta <= log_delta + 0.05);
    }
}

/* Equal steps of Poisson sampling: within the slack of the engine that knows their densities, on either side. */
static void test_equal_steps_are_tight(void **state) {
    static const double cases[][4] = {{1, .01, 1000, -11.5}, {.8, .2, 20, -20}, {3, .001, 100000, -14}};
    const account_question fine = {.relative = 1e-5, .absolute = 1e-6};
    (void)state;
    for (size_t i = 0; i < 3; i++)
        for (int direction = 0; direction < 3; direction++) {
            const grid_poisson p = {cases[i][1], 1 / cases[i][0], direction == 2};
            const grid_part part = grid_poisson_part(&p, (int64_t)cases[i][2]);
            const account_pair pair = {(account_direction)direction, cases[i][0], cases[i][1], (int64_t)cases[i][2]};
            double tight = 0;
            int met;
            check_ok(ask_dots(&pair, epsilon_at(fine, cases[i][3]), &tight, &met));
            const double got = epsilon_of(1, &part, direction == 1, cases[i][3]);
            assert_true(got >= tight * (1 - 3e-5) && got <= tight * 1.001 + 1e-4);
        }
}

static void test_any_allocation_may_fail(void **state) {
    const grid_gaussian a = {.5};
    const grid_part part = grid_gaussian_part(&a, 2);
    double epsilon;
    int met;
    (void)state;
    FAIL_EACH(ask_list(1, &part, 0, epsilon_at(usual, -10), &epsilon, &met));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gaussians_are_exact),
        cmocka_unit_test(test_equal_steps_are_tight),
        cmocka_unit_test(test_any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
