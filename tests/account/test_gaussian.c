/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Gaussian mechanism and zCDP against values of 22 digits (from the definition, Phi(a) - e^epsilon Phi(b) by
 * mpmath 1.4 at 900 digits), against one another, and at their limits.
 */
#include "account/account.h"
#include "oracle/oracle.h"
#include "support/check.h"

#include <math.h>

static const double exact[][3] = {
    /* mu, epsilon, ln delta */
    {1.0, 0.0, -0.9599163336956223193328},      {1.0, 1.0, -2.064066446500390534493},
    {1.0, 5.0, -14.36132078660681579653},       {0.25, 1.0, -12.74246496129005461468},
    {0.001, 0.0, -7.82669385385347574524},      {0.001, 0.001, -9.392376384039412691727},
    {0.001, 0.037, -699.5322155670707583985},   {1e-06, 3.7e-05, -706.4584522212347968652},
    {4.0, 0.5, -0.05983901400629392556697},     {4.0, 8.0, -0.9024140630009321847181},
    {4.0, 150.0, -636.9056197121064643258},     {20.0, 0.0, -1.523970604832105213195e-23},
    {20.0, 150.0, -0.007234146894399129647265}, {20.0, 250.0, -5.215418516217648995426},
    {20.0, 900.0, -617.9875503711168400697},    {141.5, 10000.0, -0.6376723274530831878702},
    {135.0, 10000.0, -24.48185506069310793486}, {100.0, 9000.0, -804.945143547355995499},
    {0.0625, 4.0, -2058.010513262429738385},    {1e-08, 0.0, -19.33961927715703819717},
    {1e-08, 2e-08, -23.18946425786947961793},   {2.0, 80.0, -768.1047987009781983472},
    {0.5, 0.125, -1.894582106162146250282},
};

enum { EXACT = sizeof exact / sizeof exact[0] };

static void assert_relative(double got, double want, double tolerance) {
    if (!(fabs(got - want) <= tolerance * fabs(want))) fail_msg("%.17g instead of %.17g", got, want);
}

static void test_delta_of_a_gaussian_is_accurate(void **state) {
    (void)state;
    for (int i = 0; i < EXACT; i++) {
        /* relative to ln delta, and as delta's own relative error */
        assert_relative(account_gaussian_log_delta(exact[i][0], exact[i][1]), exact[i][2], 1e-14);
        check_near(exp(account_gaussian_log_delta(exact[i][0], exact[i][1]) - exact[i][2]), 1, 1e-12);
    }
}

static void test_epsilon_and_mu_of_a_gaussian_are_accurate(void **state) {
    (void)state;
    for (int i = 0; i < EXACT; i++) {
        const double mu = exact[i][0], epsilon = exact[i][1], log_delta = exact[i][2];
        if (log_delta > -1e-10) continue; /* 1 - delta is lost in ln delta as a double's neighbour of 0 */
        if (epsilon > 0) assert_relative(account_gaussian_epsilon(mu, log_delta), epsilon, 1e-12);
        assert_relative(account_gaussian_mu(epsilon, log_delta), mu, 1e-12);
    }
    /* sigma for (1, 1e-5), (1, 1e-10), (8, 1e-5) */
    assert_relative(1 / account_gaussian_mu(1, log(1e-5)), 3.73063163481594183, 1e-13);
    assert_relative(1 / account_gaussian_mu(1, log(1e-10)), 5.86777774963052639, 1e-13);
    assert_relative(1 / account_gaussian_mu(8, log(1e-5)), 0.600229072198951559, 1e-13);
}

/* A sweep of the whole range: each inverse undoes, delta falls with epsilon and grows with mu. */
static void test_the_inverses_undo_delta_over_the_whole_range(void **state) {
    (void)state;
    for (double mu = 1e-4; mu < 150; mu *= 1.7) {
        double last = 1;
        for (double x = -3; x < 45; x += 0.83) {
            const double epsilon = mu * x + 0.5 * mu * mu;
            if (!(epsilon > 0 && epsilon <= 1.1e4)) continue;
            const double log_delta = account_gaussian_log_delta(mu, epsilon);
            assert_true(log_delta < last && log_delta < 0);
            assert_true(account_gaussian_log_delta(mu * 1.01, epsilon) > log_delta);
            /* where epsilon or 1 - delta is small the question itself is ill-conditioned: a rounding of ln delta counts */
            const double shift = fabs(account_gaussian_log_delta(mu, epsilon * (1 + 1e-6)) - log_delta) * 1e6;
            const double rounding = 2e-15 * fabs(log_delta) / shift + 1e-13;
            assert_relative(account_gaussian_epsilon(mu, log_delta), epsilon, rounding);
            last = log_delta;
        }
    }
}

static void test_the_gaussian_has_its_limits(void **state) {
    (void)state;
    assert_true(account_gaussian_log_delta(0, 1) == -INFINITY && account_gaussian_log_delta(0, 0) == -INFINITY);
    assert_true(account_gaussian_log_delta(1, INFINITY) == -INFINITY && account_gaussian_log_delta(INFINITY, 1) == 0);
    assert_true(isnan(account_gaussian_log_delta(NAN, 1)) && isnan(account_gaussian_log_delta(1, NAN)));
    assert_true(account_gaussian_log_delta(1e-200, 1) < -1e300);
    assert_true(account_gaussian_epsilon(0, -10) == 0 && account_gaussian_epsilon(1, -0.5) == 0);
    assert_true(account_gaussian_epsilon(INFINITY, -10) == INFINITY && isnan(account_gaussian_epsilon(NAN, -1)));
    assert_true(account_gaussian_mu(1, 0) == INFINITY && account_gaussian_mu(INFINITY, -1) == INFINITY);
    assert_true(account_gaussian_mu(1, -INFINITY) == 0 && isnan(account_gaussian_mu(NAN, -1)));
    assert_relative(account_gaussian_mu(0, -700), 2.50662827463100050242 * exp(-700),
                    1e-12);                                /* delta = mu/sqrt(2 pi) */
    assert_true(account_gaussian_epsilon(1, -1e6) > 1400); /* far beyond the least double */
    check_near(account_gaussian_log_delta(1, account_gaussian_epsilon(1, -1e6)), -1e6, 1e-13);
}

static double zcdp_bound(double rho, double log_delta, double order) {
    return rho * order + log1p(-1 / order) - (log_delta + log(order)) / (order - 1);
}

static void test_zcdp_takes_the_best_order(void **state) {
    (void)state;
    const double log_delta = log(1e-6);
    assert_relative(account_zcdp_epsilon(0.1, log_delta), 2.14193892838547, 1e-14);
    assert_relative(account_gaussian_epsilon(sqrt(0.2), log_delta), 1.99452690, 5e-9);
    for (double rho = 1e-6; rho < 1e3; rho *= 3.7) {
        for (double target = -1; target > -700; target *= 1.9) {
            const double epsilon = account_zcdp_epsilon(rho, target);
            for (double t = 1e-3; t < 1e6; t *= 1.3) { /* no order does better */
                assert_true(epsilon <= fmax(0, zcdp_bound(rho, target, 1 + t)) + 1e-12 * (1 + epsilon));
            }
            assert_true(epsilon >= account_gaussian_epsilon(sqrt(2 * rho), target)); /* a Gaussian is one of them */
            if (!(epsilon > 1e-6)) continue;
            assert_relative(oracle_zcdp_log_delta(rho, epsilon), target, 1e-11);
        }
    }
    assert_true(account_zcdp_epsilon(0, -3) == 0 && account_zcdp_epsilon(1, 0) == 0);
    assert_true(isnan(account_zcdp_epsilon(NAN, -1)) && isnan(account_zcdp_epsilon(1, NAN)));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_delta_of_a_gaussian_is_accurate),
                                       cmocka_unit_test(test_epsilon_and_mu_of_a_gaussian_are_accurate),
                                       cmocka_unit_test(test_the_inverses_undo_delta_over_the_whole_range),
                                       cmocka_unit_test(test_the_gaussian_has_its_limits),
                                       cmocka_unit_test(test_zcdp_takes_the_best_order)};
    return cmocka_run_group_tests_name("the Gaussian mechanism", tests, NULL, NULL);
}
