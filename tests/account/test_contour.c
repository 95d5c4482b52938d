/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contour: known values, its two questions compared with each other, closed forms, hard corners. The comparison
 * with 32 digits is account/test_oracle.c.
 */
#include "account/account.h"
#include "support/account_ask.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

static double epsilon_of(account_direction direction, double sigma, double q, double n, double delta, double *error) {
    const account_pair pair = {direction, sigma, q, (int64_t)n};
    double epsilon = NAN;
    check_ok(ask_contour(&pair, epsilon_at((account_question){0}, log(delta)), &epsilon, error));
    return epsilon;
}

/* Computed independently, by another program. */
static void test_the_contour_gives_known_values(void **state) {
    (void)state;
    static const struct {
        account_direction direction;
        double sigma, q, n, delta, epsilon;
    } known[] = {
        {ACCOUNT_REMOVE, .8, .001, 100, 1e-6, .260337095},   {ACCOUNT_REMOVE, .8, .2, 100, 1e-6, 24.322620180},
        {ACCOUNT_REMOVE, 1.5, .05, 1000, 1e-6, 6.199691689}, {ACCOUNT_REMOVE, 2, .001, 20000, 1e-6, .295801002},
        {ACCOUNT_REMOVE, .8, .001, 1e5, 1e-6, 2.914478209},  {ACCOUNT_REMOVE, .8, .05, 50000, 1e-6, 291.369926153},
        {ACCOUNT_REMOVE, 5, .1, 1e5, 1e-6, 49.982678346},    {ACCOUNT_ADD, 1, 1e-5, 1e6, 1e-8, .058530241},
        {ACCOUNT_REMOVE, 10, 1e-3, 1e5, 1e-10, .175162821},  {ACCOUNT_ADD, 10, 1e-3, 1e5, 1e-10, .174845487},
        {ACCOUNT_REMOVE, 1, 1e-3, 1e6, 1e-10, 8.883000319},  {ACCOUNT_ADD, 1, 1e-3, 1e6, 1e-10, 8.748532295},
        {ACCOUNT_REPLACE, 1, .1, 1, 1e-5, 1.78915},          {ACCOUNT_REMOVE, 3, .001, 100, 1e-6, .011204115},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        double error = NAN;
        const double got =
            epsilon_of(known[i].direction, known[i].sigma, known[i].q, known[i].n, known[i].delta, &error);
        assert_true(isfinite(error));
        /* 3e-6: not all of their digits hold; tests/data/accounting.csv has values of 32 digits */
        if (!(fabs(got - known[i].epsilon) <= 3e-6 * known[i].epsilon + 5e-10 + error && error < 1e-6))
            fail_msg("row %zu: %.12g +- %g instead of %.12g", i, got, error, known[i].epsilon);
    }
}

/* delta(epsilon(delta)) = delta within the errors, and the contour lies below the Renyi bound. */
static void test_epsilon_of_the_contour_gives_delta_back(void **state) {
    (void)state;
    int answered = 0, asked = 0;
    for (int d = 0; d < 3; d++) {
        for (double sigma = 0.4; sigma < 50; sigma *= 5.1) {
            for (double q = 0.7; q > 1e-5; q *= 0.17) {
                const account_pair pair = {(account_direction)d, sigma, q, (int64_t)ceil(3 / q)};
                double epsilon = NAN, error = NAN, back = NAN, back_error = NAN, bound = NAN, above = NAN,
                       above_error = NAN;
                asked++;
                check_ok(ask_contour(&pair, epsilon_at((account_question){0}, -18), &epsilon, &error));
                check_ok(ask_rdp(&pair, epsilon_at((account_question){0}, -18), &bound));
                if (isinf(error)) continue;
                assert_true(epsilon - error <= bound);
                check_ok(ask_contour(&pair, log_delta_at((account_question){0}, epsilon), &back, &back_error));
                check_ok(
                    ask_contour(&pair, log_delta_at((account_question){0}, epsilon + error), &above, &above_error));
                if (isinf(back_error) || isinf(above_error)) continue;
                answered++;
                /* the error of epsilon covers that of ln delta by the slope */
                assert_true(fabs(back + 18) <= back_error + 2 * fabs(above - back) + 1e-9);
            }
        }
    }
    print_message("%d of %d answered\n", answered, asked);
    assert_true(answered >= asked * 8 / 10);
}

static void test_the_contour_meets_its_closed_forms(void **state) {
    (void)state;
    const account_pair add = {ACCOUNT_ADD, 1, 0.1, 3};
    double value = NAN, error = NAN;
    check_ok(ask_contour(&add, log_delta_at((account_question){0}, 3.01 * -log1p(-0.1)), &value, &error));
    assert_true(value == -INFINITY && error == 0); /* beyond the largest loss */
    const account_pair gaussian = {ACCOUNT_REPLACE, 4, 1, 9};
    check_ok(ask_contour(&gaussian, epsilon_at((account_question){0}, -10), &value, &error));
    check_near(value, account_gaussian_epsilon(1.5, -10), 1e-14);
    /* delta(0) is the total variation: of one step, q (2 Phi(1/(2 sigma)) - 1), the same both ways */
    const double distance = log(0.1 * erf(0.5 / sqrt(2.0)));
    for (int d = 0; d < 2; d++) {
        const account_pair one = {(account_direction)d, 1, 0.1, 1};
        check_ok(ask_contour(&one, log_delta_at((account_question){0}, 0), &value, &error));
        check_near(value, distance, 1e-13);
        check_ok(ask_contour(&one, epsilon_at((account_question){0}, distance + 1e-9), &value, &error));
        assert_true(value == 0 && isfinite(error));
    }
    const account_pair many = {ACCOUNT_REMOVE, 50, 0.01, 100};
    check_ok(ask_contour(&many, epsilon_at((account_question){0}, -0.1), &value, &error));
    assert_true(value == 0);
}

/* In the corners the result is a number with an honest error, or INFINITY. */
static void test_corners_of_the_contour_give_a_number_and_an_error(void **state) {
    (void)state;
    static const double sigmas[] = {0.05, 0.5, 8, 1e3}, probabilities[] = {1e-9, 1e-5, 0.1, 0.999999};
    static const double deltas[] = {-0.7, -20, -690};
    static const int64_t compositions[] = {1, 2, 40, 1000000, 1000000000000};
    for (int i = 0; i < 4 * 4 * 3 * 5; i += 13) { /* 13: every value of each in turn */
        const account_pair pair = {(account_direction)(i % 3), sigmas[i % 4], probabilities[i / 4 % 4],
                                   compositions[i / 16 % 5]};
        double epsilon = NAN, error = NAN, log_delta = NAN;
        check_ok(ask_contour(&pair, epsilon_at((account_question){0}, deltas[i / 80]), &epsilon, &error));
        assert_true(epsilon >= 0 && error >= 0 && isfinite(epsilon));
        check_ok(ask_contour(&pair, log_delta_at((account_question){0}, 0.01 * (i % 7)), &log_delta, &error));
        assert_true(log_delta <= 1e-9 && error >= 0);
    }
}

static void test_the_contour_refuses_pairs_out_of_range(void **state) {
    (void)state;
    const account_pair good = {ACCOUNT_REMOVE, 1, 0.1, 10};
    account_pair bad[] = {good, good, good, good};
    bad[0].sigma = -1;
    bad[1].probability = 2;
    bad[2].compositions = -5;
    bad[3].direction = (account_direction)3;
    double value = 17, error = 17;
    for (int i = 0; i < 4; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&bad[i], log_delta_at((account_question){0}, 1), &value, &error));
        check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&bad[i], epsilon_at((account_question){0}, -10), &value, &error));
    }
    check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&good, log_delta_at((account_question){0}, -1), &value, &error));
    check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&good, log_delta_at((account_question){0}, NAN), &value, &error));
    check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&good, epsilon_at((account_question){0}, 0), &value, &error));
    check_message("ln delta 0");
    check_fails(DPMF_ERROR_ARGUMENT, ask_contour(&good, epsilon_at((account_question){0}, -INFINITY), &value, &error));
    assert_true(value == 17 && error == 17);
}

static void test_any_allocation_of_the_contour_may_fail(void **state) {
    (void)state;
    const account_pair pair = {ACCOUNT_REMOVE, 1, 0.1, 10};
    double value = 17, error = 17;
    FAIL_EACH(ask_contour(&pair, log_delta_at((account_question){0}, 1), &value, &error));
    FAIL_EACH(ask_contour(&pair, epsilon_at((account_question){0}, -10), &value, &error));
    assert_int_equal(dpmf_memory_in_use(), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_contour_gives_known_values),
                                       cmocka_unit_test(test_epsilon_of_the_contour_gives_delta_back),
                                       cmocka_unit_test(test_the_contour_meets_its_closed_forms),
                                       cmocka_unit_test(test_corners_of_the_contour_give_a_number_and_an_error),
                                       cmocka_unit_test(test_the_contour_refuses_pairs_out_of_range),
                                       cmocka_unit_test(test_any_allocation_of_the_contour_may_fail)};
    return cmocka_run_group_tests_name("the contour", tests, NULL, NULL);
}
