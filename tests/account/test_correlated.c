/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balls in bins with correlated noise, without simulation: equal to allocation where bins share nothing, to the Gaussian mechanism
 * where they share everything, never below an integral over all outcomes for two bins, and calibration is its inverse.
 */
#include "account/question.h"

#include "account/account.h"
#include "account/allocation/allocation.h"
#include "support/account_ask.h"
#include "support/check.h"

#include <math.h>

static const account_question HOW = {.relative = 5e-3, .absolute = 5e-4};

static double log_delta_of(int64_t bins, const double *gram, double sigma, double epsilon) {
    const montecarlo_scheme s = {.kind = MONTECARLO_SCHEME_BINS, .sigma = sigma, .bins = bins, .gram = gram};
    const account_question q = log_delta_at(HOW, epsilon);
    account_answer found;
    check_ok(account_correlated(&s, &q, &found));
    return found.value;
}

static void test_bins_that_share_nothing_are_allocation(void **state) {
    enum { B = 8 };
    double gram[B * B] = {0};
    const account_question q = epsilon_at(HOW, log(1e-6));
    const account_question a = {.of_epsilon = 1,
                                .given = log(1e-6),
                                .sigma = 1.6,
                                .picks = 1,
                                .bins = B,
                                .compositions = 1,
                                .relative = 1e-3,
                                .absolute = 1e-4};
    const montecarlo_scheme s = {.kind = MONTECARLO_SCHEME_BINS, .sigma = 3.2, .bins = B, .gram = gram};
    account_answer shared, alone;
    (void)state;
    for (int i = 0; i < B; i++)
        gram[i * B + i] = 4;
    check_ok(account_correlated(&s, &q, &shared));
    check_ok(allocation_answer(&a, &alone));
    check_near(shared.value, alone.value, 1.2e-2 * alone.value);
}

static void test_bins_that_share_all_are_one_gaussian(void **state) {
    const double gram[4] = {4, 4, 4, 4};
    (void)state;
    check_near(log_delta_of(2, gram, 2, 1), account_gaussian_log_delta(1, 1), 1e-6);
}

/* delta of two bins by the midpoint rule in the plane that the two means span; the larger of both directions. */
static double integrate(double d, double rho, double sigma, double epsilon) {
    const double x[2] = {sqrt(d), rho / sqrt(d)}, y1 = sqrt(d - x[1] * x[1]), reach = 8 * sigma + sqrt(d);
    const int points = 700;
    const double width = 2 * reach / points, a = exp(epsilon);
    double remove = 0, add = 0;
    for (int i = 0; i < points; i++)
        for (int j = 0; j < points; j++) {
            const double u = -reach + (i + 0.5) * width, v = -reach + (j + 0.5) * width, s = 2 * sigma * sigma;
            const double q = exp(-(u * u + v * v) / s) / (3.14159265358979323846 * s);
            const double p = 0.5 *
                             (exp(-((u - x[0]) * (u - x[0]) + v * v) / s) +
                              exp(-((u - x[1]) * (u - x[1]) + (v - y1) * (v - y1)) / s)) /
                             (3.14159265358979323846 * s);
            remove += fmax(p - a * q, 0) * width * width;
            add += fmax(q - a * p, 0) * width * width;
        }
    return fmax(remove, add);
}

static void test_never_below_an_integral_over_all_outcomes(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        const double d = 1, rho = 0.1 + 0.2 * i, sigma = 1.5 + 0.3 * i, epsilon = 0.3 + 0.2 * i;
        const double gram[4] = {d, rho, rho, d}, exact = integrate(d, rho, sigma, epsilon);
        const double found = exp(log_delta_of(2, gram, sigma, epsilon));
        assert_true(found >= exact * (1 - 1e-4) - 1e-12);
        assert_true(found <= exact * 1.05 + 1e-9); /* two bins: the bounding matrix is the matrix */
    }
}

static void test_calibration_is_enough_and_not_much_more(void **state) {
    enum { B = 16 };
    double gram[B * B], sigma = 0;
    montecarlo_scheme s = {.kind = MONTECARLO_SCHEME_BINS, .sigma = 1, .bins = B, .gram = gram};
    (void)state;
    for (int i = 0; i < B; i++)
        for (int j = 0; j < B; j++)
            gram[i * B + j] = 0.2 + 0.8 * exp(-0.7 * fabs((double)(i - j)));
    const account_question q = log_delta_at(HOW, 1);
    check_ok(account_correlated_sigma(&s, &q, log(1e-7), &sigma));
    assert_true(log_delta_of(B, gram, sigma, 1) <= log(1e-7) + 1e-6);
    assert_true(log_delta_of(B, gram, 0.99 * sigma, 1) > log(1e-7));
    assert_true(sigma < 0.95 / account_gaussian_mu(1, log(1e-7)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bins_that_share_nothing_are_allocation),
        cmocka_unit_test(test_bins_that_share_all_are_one_gaussian),
        cmocka_unit_test(test_never_below_an_integral_over_all_outcomes),
        cmocka_unit_test(test_calibration_is_enough_and_not_much_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
