/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capped sampling: never below the sum over all outcomes for tiny data sets, equal to uncapped sampling when the cap
 * cannot bind, known values, and refusals.
 */
#include "account/capped/capped.h"
#include "base/special.h"
#include "support/capped_cases.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

static void test_never_below_all_outcomes(void **state) {
    static const double epsilons[] = {0, 0.3, 1};
    (void)state;
    for (int n = 2; n <= 6; n++)
        for (int cap = 1; cap < n; cap++)
            for (int adjacency = 0; adjacency <= 2; adjacency++)
                for (size_t e = 0; e < 3; e++)
                    check_capped_case(n, cap, e == 1 ? 0.5 : 0.2, n % 2 ? 0.7 : 1.5, (dpmf_adjacency)adjacency,
                                      epsilons[e], n <= 4);
}

/* Without accounting for the cap the true delta would be larger: the reason for these tests. */
static void test_ignoring_the_cap_is_wrong(void **state) {
    density with, without;
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy uncapped;
    (void)state;
    worlds(4, 3, 0, 0.5, 1, 0.7, DPMF_ADJACENCY_ADD_REMOVE, &with, &without);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.5, 0, 0, 0, 0};
    check_ok(dpmf_account_delta(0.7, 3, &o, &uncapped));
    assert_true(delta_once(&with, &without, exp(3), width_of(0.7)) > 1.05 * uncapped.delta);
}

static dpmf_privacy epsilon_of(double q, double sigma, int64_t n, double delta, int64_t cap, int64_t units) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.compositions = n;
    o.batch_cap = cap;
    o.units = units;
    check_ok(dpmf_account_epsilon(sigma, delta, &o, &p));
    return p;
}

/* A prototype of the same curves on a grid of 4e-4; at + 5 and + 6 deviations the cap costs next to nothing. */
static void test_capped_sampling_has_its_known_values(void **state) {
    (void)state;
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 567, 50000).epsilon, 2.890, 2e-3);
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 589, 50000).epsilon, 1.869, 2e-3);
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 612, 50000).epsilon, 1.8288, 1e-3);
    check_near(epsilon_of(.001, .8, 2000, 1e-6, 1159, 1000000).epsilon, .5639, 1e-3);
    const dpmf_privacy none = epsilon_of(.01, 1, 1000, 1e-5, 0, 0),
                       never = epsilon_of(.01, 1, 1000, 1e-5, 50000, 50000);
    assert_true(none.epsilon == never.epsilon);
    assert_true(epsilon_of(.01, 1, 1000, 1e-5, 49999, 50000).epsilon <= 1.001 * none.epsilon);
}

/* Coupling: (1 + e^epsilon) sum of tau above the uncapped delta, and nothing where the cap cannot bind. */
static void test_min_separation_is_coupled_with_the_uncapped_run(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy plain, capped, never;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_MIN_SEPARATION, 0.2, 2, 0, 0, 0};
    o.compositions = 4;
    o.samples = 1 << 14;
    check_ok(dpmf_account_delta(1, 1, &o, &plain));
    o.sampling.cap = 260; /* of 1000, 200 in the first step and fewer later */
    o.sampling.units = 1000;
    check_ok(dpmf_account_delta(1, 1, &o, &capped));
    double tau = 0, drawn[4] = {0.2, 0.2 * 0.8, 0.2 * (0.8 * 0.8 + 0.2), 0};
    drawn[3] = 0.2 * (1 - drawn[2]);
    for (int t = 0; t < 4; t++)
        tau += 0.26 * base_binomial_at_least(261, 1000, drawn[t]);
    assert_true(tau > 1e-7);
    check_near(capped.delta - plain.delta, (1 + exp(1)) * tau, 1e-6 * tau + 1e-15);
    assert_non_null(strstr(capped.method, "coupled"));
    o.sampling.cap = 1000;
    check_ok(dpmf_account_delta(1, 1, &o, &never));
    assert_true(never.delta == plain.delta);
}

static void test_the_least_cap_costs_a_thousandth_and_one_less_more(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy plain, with;
    int64_t cap = 0;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.01, 0, 0, 0, 0};
    o.compositions = 1000;
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &plain));
    o.units = 50000;
    check_ok(account_calibrate_cap(2, 1e-5, 0, &o, &cap, &with));
    assert_true(cap > 500 + 4 * 22 && cap < 500 + 7 * 23);
    assert_true(with.sigma <= plain.sigma * 1.0011);
    o.sampling.cap = cap - 8; /* a look at delta has a slack of its own */
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &with));
    assert_true(with.sigma > plain.sigma * 1.0009);
    check_fails(DPMF_ERROR_ARGUMENT, account_calibrate_cap(2, 1e-5, 2, &o, &cap, NULL));
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 10, 1, 0, 0};
    check_fails(DPMF_ERROR_ARGUMENT, account_calibrate_cap(2, 1e-5, 0, &o, &cap, NULL));
}

static void test_questions_and_refusals(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p, back;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC, 0.01, 4, 0, 0, 0};
    o.compositions = 100;
    o.batch_cap = 130; /* blocks of 2500 and 2501 units, of which 100 on average */
    o.units = 10001;
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &p));
    check_ok(dpmf_account_delta(p.sigma, 2, &o, &back));
    assert_true(back.delta <= 1e-5 && back.delta > 0.95e-5);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 4, 0, 0, 0};
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_UNSUPPORTED);
    check_message("balls-in-bins");
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 20, 10001};
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
    check_message("the same");
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0};
    o.units = 0;
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_below_all_outcomes),
        cmocka_unit_test(test_ignoring_the_cap_is_wrong),
        cmocka_unit_test(test_capped_sampling_has_its_known_values),
        cmocka_unit_test(test_min_separation_is_coupled_with_the_uncapped_run),
        cmocka_unit_test(test_the_least_cap_costs_a_thousandth_and_one_less_more),
        cmocka_unit_test(test_questions_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
