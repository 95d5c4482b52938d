/* SPDX-License-Identifier: Apache-2.0 */
/* Renyi divergences: closed forms, the conversion, and refusals. The comparison with 32 digits is account/test_oracle.c. */
#include "account/account.h"
#include "account/pair.h"
#include "oracle/oracle.h"
#include "support/account_ask.h"
#include "support/check.h"

#include <float.h>
#include <math.h>

/* Of the composed mechanism, an upper bound. */
static double divergence(const account_pair *pair, double order) {
    return account_rdp_cumulant(pair, order - 1) / (order - 1);
}

/* ln E[w^a] for an integer a by the binomial theorem: E[e^(k (2x-1)/(2 sigma^2))] = e^(k (k-1)/(2 sigma^2)). */
static double integer_cumulant(double sigma, double q, int a) {
    double largest = -INFINITY, sum = 0, term[64];
    for (int k = 0; k <= a; k++) {
        term[k] = lgamma(a + 1) - lgamma(k + 1) - lgamma(a - k + 1) + k * log(q) + (a - k) * log1p(-q) +
                  0.5 * k * (k - 1) / (sigma * sigma);
        largest = fmax(largest, term[k]);
    }
    for (int k = 0; k <= a; k++) {
        sum += exp(term[k] - largest);
    }
    return largest + log(sum);
}

/* Order a of remove, and order a+1 backwards of add: E[w^-t], t = a - 1, has no closed form, but M is convex. */
static void test_divergences_of_whole_orders_agree_with_the_closed_form(void **state) {
    (void)state;
    static const double sigmas[] = {0.3, 0.8, 2, 10}, probabilities[] = {0.9, 0.3, 0.01, 1e-4};
    for (int i = 0; i < 4; i++) {
        for (int j = 0; j < 4; j++) {
            for (int a = 2; a < 40; a += 3) {
                const account_pair pair = {ACCOUNT_REMOVE, sigmas[i], probabilities[j], 1000};
                const double exact = 1000 * integer_cumulant(sigmas[i], probabilities[j], a) / (a - 1);
                const double got = divergence(&pair, a);
                /* the sum of the closed form cancels its 1: 1e-12 of it is lost */
                if (!(got >= exact - 1e-11 && got <= exact * (1 + 1e-10) + 1e-11))
                    fail_msg("sigma %g q %g order %d: %.17g, exactly %.17g", sigmas[i], probabilities[j], a, got,
                             exact);
            }
        }
    }
}

static void test_renyi_accounting_of_the_gaussian_is_that_of_zcdp(void **state) {
    (void)state;
    for (int d = 0; d < 3; d++) {
        const account_pair pair = {(account_direction)d, 3, 1, 7};
        const double rho = (d == ACCOUNT_REPLACE ? 4 : 1) * 7 / 18.0;
        double got = divergence(&pair, 4.5);
        check_near(got, 4.5 * rho, 1e-12);
        assert_true(got >= 4.5 * rho);
        check_ok(ask_rdp(&pair, epsilon_at((account_question){0}, -12), &got));
        check_near(got, account_zcdp_epsilon(rho, -12), 1e-11);
        check_ok(ask_rdp(&pair, log_delta_at((account_question){0}, 4), &got));
        check_near(got, oracle_zcdp_log_delta(rho, 4), 1e-11);
    }
}

/* q close to 1 is close to the Gaussian mechanism; divergences grow with the order; replace is the worst direction. */
static void test_divergences_grow_with_the_order_and_replacing_is_worst(void **state) {
    (void)state;
    for (int d = 0; d < 3; d++) {
        const account_pair nearly = {(account_direction)d, 1.5, 1 - 1e-12, 3},
                           whole = {(account_direction)d, 1.5, 1, 3};
        check_near(divergence(&nearly, 2.25), divergence(&whole, 2.25), 1e-9);
        double last = 0;
        for (double order = 1.01; order < 300; order *= 1.2) {
            const account_pair pair = {(account_direction)d, 0.9, 0.02, 100}, swap = {ACCOUNT_REPLACE, 0.9, 0.02, 100};
            const double a = divergence(&pair, order), b = divergence(&swap, order);
            assert_true(a > last && b >= a);
            last = a;
        }
    }
}

/*
 * The proven error of the quadrature holds where the step is so coarse that it shows, and is negligible where it is
 * fine.
 */
static void test_the_error_of_the_quadrature_is_proven(void **state) {
    static const double sigmas[] = {0.6, 1, 3}, probabilities[] = {0.01, 0.3, 0.9}, orders[] = {0.7, 4, 60};
    int seen = 0;
    (void)state;
    for (int i = 0; i < 81; i++) {
        const account_pair pair = {(account_direction)(i % 3), sigmas[i / 3 % 3], probabilities[i / 9 % 3], 1};
        const double t = orders[i / 27], fine = pair_cumulant(&pair, INFINITY, t, 8).value;
        for (double fineness = 0.15; fineness < 0.7; fineness *= 1.4) {
            const account_cumulant coarse = pair_cumulant(&pair, INFINITY, t, fineness);
            const double bound = pair_log_error(&pair, INFINITY, t, 0, fineness, -INFINITY) - fine;
            const double off = fabs(expm1(coarse.value - fine)), rounding = 1e-12 * (1 + fabs(fine));
            if (!isfinite(coarse.error)) continue;
            if (!(off <= exp(bound) + rounding))
                fail_msg("direction %d, sigma %g, q %g, t %g, step 1/%g: off by %g, bound %g", i % 3, pair.sigma,
                         pair.probability, t, fineness, off, exp(bound));
            seen += off > 100 * rounding;
        }
        /* replace: the two ends of its range do not cancel */
        const double nothing = pair.direction == ACCOUNT_REPLACE ? 1e-13 : 1e-15;
        assert_true(pair_log_error(&pair, INFINITY, t, 0, 8, -INFINITY) - fine < log(nothing));
    }
    assert_true(seen > 20);
}

/* For any numbers the bounds are finite or INFINITY, never NaN. */
static void test_renyi_bounds_are_never_nan(void **state) {
    (void)state;
    static const double sigmas[] = {0.05, 0.3, 1, 30, 1e3}, probabilities[] = {1e-9, 1e-4, 0.5, 1 - DBL_EPSILON, 1};
    static const int64_t compositions[] = {1, 1000, 1000000000000};
    for (int i = 0; i < 5 * 5 * 3 * 3; i += 4) { /* 4: every value of each in turn */
        const account_pair pair = {(account_direction)(i % 3), sigmas[i / 3 % 5], probabilities[i / 15 % 5],
                                   compositions[i / 75]};
        double epsilon = NAN, log_delta = NAN, contour = NAN, error = NAN;
        check_ok(ask_rdp(&pair, epsilon_at((account_question){0}, -300), &epsilon));
        assert_true(epsilon >= 0);
        check_ok(ask_rdp(&pair, log_delta_at((account_question){0}, 1), &log_delta));
        assert_true(log_delta <= 0);
        check_ok(ask_contour(&pair, epsilon_at((account_question){0}, -300), &contour, &error));
        assert_true(contour >= 0 && error >= 0);
        if (isfinite(error)) assert_true(epsilon >= contour - error);
    }
}

static void test_renyi_accounting_refuses_pairs_out_of_range(void **state) {
    (void)state;
    const account_pair good = {ACCOUNT_REMOVE, 1, 0.1, 10};
    account_pair bad[] = {good, good, good, good, good, good, good};
    bad[0].sigma = 0;
    bad[1].sigma = INFINITY;
    bad[2].sigma = NAN;
    bad[3].probability = 0;
    bad[4].probability = 1.5;
    bad[5].probability = NAN;
    bad[6].compositions = 0;
    double out = 17;
    for (int i = 0; i < 7; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, ask_rdp(&bad[i], epsilon_at((account_question){0}, -10), &out));
        check_fails(DPMF_ERROR_ARGUMENT, ask_rdp(&bad[i], log_delta_at((account_question){0}, 1), &out));
    }
    check_fails(DPMF_ERROR_ARGUMENT, ask_rdp(&good, epsilon_at((account_question){0}, 0), &out));
    check_fails(DPMF_ERROR_ARGUMENT, ask_rdp(&good, log_delta_at((account_question){0}, -1), &out));
    assert_true(out == 17);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_divergences_of_whole_orders_agree_with_the_closed_form),
                                       cmocka_unit_test(test_renyi_accounting_of_the_gaussian_is_that_of_zcdp),
                                       cmocka_unit_test(test_divergences_grow_with_the_order_and_replacing_is_worst),
                                       cmocka_unit_test(test_the_error_of_the_quadrature_is_proven),
                                       cmocka_unit_test(test_renyi_bounds_are_never_nan),
                                       cmocka_unit_test(test_renyi_accounting_refuses_pairs_out_of_range)};
    return cmocka_run_group_tests_name("Renyi divergences", tests, NULL, NULL);
}
