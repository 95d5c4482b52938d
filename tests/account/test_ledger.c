/* SPDX-License-Identifier: Apache-2.0 */
/* Ledgers: equal parts are the n-fold account, order does not matter, Gaussians are exact; refusals. */
#include "account/account.h"
#include "support/check.h"

#include <math.h>

static dpmf_ledger *make(void) {
    dpmf_ledger *ledger = NULL;
    check_ok(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &ledger));
    return ledger;
}

static dpmf_account_options poisson(double q, int64_t steps) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.compositions = steps;
    return o;
}

static void add(dpmf_ledger *ledger, double sigma, dpmf_account_options o, int64_t times) {
    check_ok(dpmf_ledger_add_sampled(ledger, sigma, &o, times));
}

static double epsilon_of(const dpmf_ledger *ledger, double delta) {
    dpmf_privacy p;
    check_ok(dpmf_ledger_epsilon(ledger, delta, NULL, &p));
    assert_true(p.slack_met);
    return p.epsilon;
}

static void test_equal_parts_are_one_run(void **state) {
    dpmf_account_options all = poisson(0.02, 600);
    dpmf_ledger *ledger = make();
    dpmf_privacy p;
    (void)state;
    add(ledger, 1.2, poisson(0.02, 100), 3);
    add(ledger, 1.2, poisson(0.02, 300), 1);
    check_ok(dpmf_account_epsilon(1.2, 1e-6, &all, &p));
    assert_true(epsilon_of(ledger, 1e-6) == p.epsilon);
    dpmf_ledger_free(ledger);
}

static void test_gaussian_runs_add_up(void **state) {
    dpmf_account_options none = dpmf_account_options_defaults();
    dpmf_ledger *ledger = make();
    dpmf_privacy p;
    (void)state;
    assert_true(epsilon_of(ledger, 1e-6) == 0); /* nothing was run */
    add(ledger, 2, none, 1);
    check_ok(dpmf_ledger_add_gaussian(ledger, 0.5, 3));
    check_ok(dpmf_ledger_epsilon(ledger, 1e-6, NULL, &p));
    assert_int_equal(p.kind, DPMF_EXACT);
    check_near(p.epsilon, account_gaussian_epsilon(1, log(1e-6)), 1e-12);
    check_near(p.total_mu, 1, 1e-15);
    check_ok(dpmf_ledger_delta(ledger, 1e4, NULL, &p)); /* below every double, but not 0 */
    assert_true(p.delta > 0 && p.kind == DPMF_UPPER_BOUND);
    dpmf_ledger_free(ledger);
}

/* One kind of run after the other, and back: the same to the last bit; more than the larger, less than the sum. */
static void test_order_does_not_matter(void **state) {
    dpmf_ledger *one = make(), *other = make();
    dpmf_account_options once = dpmf_account_options_defaults();
    (void)state;
    once.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 20, 1, 0, 0};
    check_ok(dpmf_ledger_add_gaussian(one, 0.3, 1));
    add(one, 1, poisson(0.02, 200), 1);
    add(one, 2, poisson(0.05, 100), 1);
    add(one, 4, once, 2);
    add(other, 4, once, 2);
    add(other, 2, poisson(0.05, 100), 1);
    add(other, 1, poisson(0.02, 200), 1);
    check_ok(dpmf_ledger_add_gaussian(other, 0.3, 1));
    const double together = epsilon_of(one, 1e-6);
    assert_true(together == epsilon_of(other, 1e-6));
    dpmf_privacy back, alone;
    dpmf_account_options first = poisson(0.02, 200);
    check_ok(dpmf_ledger_delta(one, together, NULL, &back));
    assert_true(back.delta <= 1.01e-6 && back.delta >= 0.99e-6);
    check_ok(dpmf_account_epsilon(1, 1e-6, &first, &alone));
    assert_true(together > alone.epsilon);
    dpmf_ledger_free(one);
    dpmf_ledger_free(other);
}

/*
 * Gaussian of mu 0.3, 200 steps of q = 0.02 at sigma 1 and 100 of q = 0.05 at sigma 2, removing: ln delta by the contour integral
 * of the product of the three moment generating functions, each by the trapezoid rule (20001 points, 8001 on the contour).
 */
static void test_mixed_against_a_contour(void **state) {
    static const double known[][2] = {{1, 0.0129638153296}, {2, 1.224365588e-4}, {4, 6.36944081e-10}};
    dpmf_ledger *ledger = make();
    (void)state;
    check_ok(dpmf_ledger_add_gaussian(ledger, 0.3, 1));
    add(ledger, 1, poisson(0.02, 200), 1);
    add(ledger, 2, poisson(0.05, 100), 1);
    for (size_t i = 0; i < 3; i++) {
        dpmf_privacy p;
        check_ok(dpmf_ledger_delta(ledger, known[i][0], NULL, &p));
        assert_true(p.delta >= known[i][1] * (1 - 1e-3) && p.delta <= known[i][1] * (1 + 2e-3));
    }
    dpmf_ledger_free(ledger);
}

static void test_bad_runs_are_refused(void **state) {
    dpmf_ledger *ledger = make();
    dpmf_account_options o = poisson(0.1, 10);
    (void)state;
    assert_int_equal(dpmf_ledger_add_sampled(ledger, 1, &o, 0), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_ledger_add_gaussian(ledger, -1, 1), DPMF_ERROR_ARGUMENT);
    o.adjacency = DPMF_ADJACENCY_ADD_REMOVE;
    assert_int_equal(dpmf_ledger_add_sampled(ledger, 1, &o, 1), DPMF_ERROR_ARGUMENT);
    o.adjacency = DPMF_ADJACENCY_ZERO_OUT;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_MIN_SEPARATION, 0.1, 2, 0, 0, 0};
    assert_int_equal(dpmf_ledger_add_sampled(ledger, 1, &o, 1), DPMF_ERROR_UNSUPPORTED);
    assert_true(epsilon_of(ledger, 1e-6) == 0); /* nothing of it was added */
    dpmf_ledger_free(ledger);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_parts_are_one_run), cmocka_unit_test(test_gaussian_runs_add_up),
        cmocka_unit_test(test_order_does_not_matter),   cmocka_unit_test(test_mixed_against_a_contour),
        cmocka_unit_test(test_bad_runs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
