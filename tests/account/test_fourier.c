/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Fourier sum with proven errors: never below values of 32 digits, within the slack of them, at any number of steps; and the parts
 * that its proof rests on, each against another way to the same number.
 */
#include "account/fourier/fourier.h"
#include "support/account_ask.h"
#include "support/account_rows.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

static const double RELATIVE = 5e-5, ABSOLUTE = 5e-6;
static const account_question usual = {.relative = 5e-5, .absolute = 5e-6};

static double epsilon_of(const account_pair *pair, double log_delta, double slack, int *met) {
    const account_question how = {.relative = slack, .absolute = 0.1 * slack};
    double epsilon = NAN;
    check_ok(ask_fourier(pair, epsilon_at(how, log_delta), &epsilon, met));
    assert_true(epsilon >= 0); /* not NaN */
    return epsilon;
}

/* A bound above the true value, and near it where `met` is set. */
static void check_row(const account_row *r, int *answered) {
    double epsilon = NAN, log_delta = NAN;
    int met = -1, delta_met = -1;
    check_ok(ask_fourier(&r->pair, epsilon_at(usual, r->log_delta), &epsilon, &met));
    check_ok(ask_fourier(&r->pair, log_delta_at(usual, r->epsilon), &log_delta, &delta_met));
    const double slack = fmax(RELATIVE * r->epsilon, ABSOLUTE), digits = 1e-12 * fmax(1, r->epsilon);
    if (!(epsilon >= r->epsilon - digits && log_delta >= r->log_delta - 1e-11 * fabs(r->log_delta)) ||
        (met && epsilon > r->epsilon + slack + digits))
        fail_msg("epsilon %.12g, ln delta %.12g for " ACCOUNT_ROW_FORMAT, epsilon, log_delta, ACCOUNT_ROW_VALUES(r));
    *answered += met && delta_met;
}

static void test_the_sum_is_above_values_of_32_digits_and_near(void **state) {
    (void)state;
    static account_row rows[ACCOUNT_ROWS_MAX];
    const int count = account_rows_read(rows);
    int answered = 0, asked = 0;
    for (int i = 0; i < count; i++) {
        if (rows[i].direct || rows[i].pair.probability == 1) continue;
        asked++;
        check_row(&rows[i], &answered);
    }
    assert_true(asked > 150 && answered > 0.85 * asked);
}

/* The same contour in 90 digits as the rows of that file (tests/python/reference_accounting.py). */
static void test_as_many_steps_as_anybody_takes(void **state) {
    (void)state;
    static const account_row rows[] = {
        {0, {ACCOUNT_REMOVE, 1, 1e-6, 1000000000000}, 5, -8.46522423433017925530539505273805141859},
        {0, {ACCOUNT_ADD, 1, 1e-6, 1000000000000}, 5, -8.465357153895980821508688260097437110593},
        {0, {ACCOUNT_REMOVE, 2, 1e-7, 1000000000000000}, 6, -6.782588608178164259952059999722525289145},
        {0, {ACCOUNT_REPLACE, 5, 3e-8, 1000000000000000}, 1.5, -11.87395452366701864608808040007489650183},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int answered = 0;
        check_row(&rows[i], &answered);
        assert_int_equal(answered, 1);
    }
}

/*
 * Rare sampling, where outcomes are set apart. Values in quadruple precision, which share nothing with the library: M by Gauss-Legendre
 * panels, the same sum over frequencies with a smooth end, doubled until nine digits stay; outcomes of e^-30 of delta are left out, so
 * that they are at most as much too small.
 */
static void test_rare_sampling_is_near_exact(void **state) {
    (void)state;
    static const account_row rows[] = {
        {0, {ACCOUNT_REMOVE, 1.0, 1e-12, 1000000000000000}, 6.5e-05, -13.777856220026},
        {0, {ACCOUNT_ADD, 1.0, 1e-12, 1000000000000000}, 6.5e-05, -13.777856696196},
        {0, {ACCOUNT_REPLACE, 1.0, 1e-12, 1000000000000000}, 0.00012, -13.712638870504},
        {0, {ACCOUNT_REMOVE, 0.5671, 7.969e-11, 1000000000000000}, 0.0476, -16.645052962595},
        {0, {ACCOUNT_REPLACE, 0.6181, 6.55e-11, 1000000000000000}, 0.07, -30.16430359411},
        {0, {ACCOUNT_REMOVE, 1.0, 1e-05, 1000000}, 0.0591, -18.420693030365},
        {0, {ACCOUNT_REMOVE, 3.0, 0.001, 100}, 0.0112041, -13.81551252988},
        {0, {ACCOUNT_REPLACE, 1.668, 5.932e-07, 202240000}, 0.0730905, -35.0075610887},
        {0, {ACCOUNT_ADD, 1.981, 4.888e-08, 125520000000000}, 1.57485, -19.054197568036},
        {0, {ACCOUNT_REPLACE, 0.3797, 0.000288, 51652}, 42.0386, -44.934262409255},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const account_row *r = &rows[i];
        double epsilon = NAN, log_delta = NAN;
        int met = 0, delta_met = 0;
        check_ok(ask_fourier(&r->pair, epsilon_at(usual, r->log_delta), &epsilon, &met));
        check_ok(ask_fourier(&r->pair, log_delta_at(usual, r->epsilon), &log_delta, &delta_met));
        const double slack = fmax(RELATIVE * r->epsilon, ABSOLUTE);
        if (!(met && delta_met && log_delta >= r->log_delta - 2e-9 && epsilon >= r->epsilon * (1 - 2e-9) &&
              epsilon <= r->epsilon + slack))
            fail_msg("epsilon %.12g, ln delta %.12g for " ACCOUNT_ROW_FORMAT, epsilon, log_delta,
                     ACCOUNT_ROW_VALUES(r));
    }
}

/*
 * n -> inf with q sqrt(n) kept: the Gaussian mechanism with mu^2 = n q^2 (e^(1/sigma^2) - 1) (Dong, Roth and Su 2022), and what is left falls
 * like q.
 */
static void test_the_limit_of_many_steps_is_gaussian(void **state) {
    (void)state;
    static const double sigmas[] = {0.8, 2, 30};
    static const int64_t steps[] = {10000000000, 1000000000000, 100000000000000, 1000000000000000};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            const double mu = 1.5, q = mu / sqrt((double)steps[j] * expm1(1 / (sigmas[i] * sigmas[i])));
            for (int d = 0; d < 2; d++) {
                const account_pair pair = {(account_direction)d, sigmas[i], q, steps[j]};
                int met = 0;
                const double epsilon = epsilon_of(&pair, log(1e-7), RELATIVE, &met);
                assert_int_equal(met, 1);
                check_near(epsilon / account_gaussian_epsilon(mu, log(1e-7)), 1, 1e-9 + 30 * q);
            }
        }
    }
}

static void test_more_steps_lose_more_and_finer_slack_less(void **state) {
    (void)state;
    static const double sigmas[] = {0.7, 1, 4}, probabilities[] = {1e-2, 1e-3, 1e-4};
    for (int i = 0; i < 3; i++) {
        double before = 0;
        for (int64_t n = 100000; n < 100000000; n *= 2) {
            const account_pair pair = {ACCOUNT_REMOVE, sigmas[i], probabilities[i], n};
            int met = 0;
            const double coarse = epsilon_of(&pair, log(1e-6), 1e-2, &met);
            const double epsilon = epsilon_of(&pair, log(1e-6), RELATIVE, &met);
            if (isinf(epsilon)) continue;
            assert_true(epsilon > before && epsilon <= coarse * (1 + 1e-9));
            before = epsilon;
        }
        assert_true(before > 0);
    }
}

/* Where it has no answer it reports that, and nothing wrong. */
static void test_few_steps_are_left_to_others(void **state) {
    (void)state;
    static const account_pair pairs[] = {{ACCOUNT_REMOVE, 1, 0.1, 1},
                                         {ACCOUNT_ADD, 1, 0.1, 15},
                                         {ACCOUNT_REMOVE, 1, 1, 1000},
                                         {ACCOUNT_REMOVE, 0.4, 1e-9, 100}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        double log_delta = NAN;
        int met = -1;
        assert_true(isinf(epsilon_of(&pairs[i], -10, RELATIVE, &met)) && met == 0);
        check_ok(ask_fourier(&pairs[i], log_delta_at(usual, 1), &log_delta, &met));
        assert_true(log_delta == 0 && met == 0);
    }
}

/* ---- the parts ---- */

static const account_pair parts[] = {
    {ACCOUNT_REMOVE, 1, 1e-3, 1000000},        {ACCOUNT_ADD, 1, 1e-3, 1000000}, {ACCOUNT_REPLACE, 2, 0.05, 1000},
    {ACCOUNT_REMOVE, 20, 1e-7, 1000000000000}, {ACCOUNT_REPLACE, 0.6, 0.3, 50}, {ACCOUNT_ADD, 0.7, 0.6, 200},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* phi by the rule and by the path in the complex plane, which shares nothing with it but the integrand. */
static void test_the_rule_is_within_its_error(void **state) {
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        const double t = i == 3 ? 5 : 1.5, spacing = i == 3 ? 0.5 : 0.3;
        const double allowed = fourier_rule_off(&parts[i], 0);
        enum { NODES = 20 };
        fourier_rule rule;
        contour_moment moment;
        check_ok(fourier_rule_create(&parts[i], INFINITY, t, spacing, NODES, 100000, allowed, &rule));
        assert_non_null(rule.phase);
        contour_moment_start(&parts[i], &moment);
        const account_cumulant k = pair_cumulant(&parts[i], INFINITY, t, 2);
        assert_true(rule.log_moment_low <= k.value + k.error && k.value - k.error <= rule.log_moment_high);
        assert_true(rule.log_moment_high - rule.log_moment_low <= 1e-11 * fabs(k.value));
        for (int j = 0; j < NODES; j++) {
            double error, other_error;
            const double complex got = fourier_rule_next(&rule, &error);
            const double complex z = pair_complex(t, spacing * j);
            const double complex want = contour_moment_log(&moment, z, k.value, &other_error) - k.value;
            const double complex logarithm = cabs(got) < 1e-6 ? got * (1 - 0.5 * got) : clog(1 + got);
            const double off = cabs(logarithm - want), n = (double)parts[i].compositions;
            if (j < 1) assert_true(cabs(got) <= error);
            /* 1e-9: the path's quadrature stops at 1e-8/n, and the series above at a third of x^2 */
            assert_true(off <= error / cabs(1 + got) + other_error + k.error + 1e-9 / n + 1e-11 * cabs(want));
            assert_true(n * error <= 1e-9 * (1 + n * cabs(got)));
        }
        fourier_rule_free(&rule);
    }
}

/* Rare sampling with rare outcomes apart, at an order where without that M would be beyond all numbers. */
static const struct apart {
    account_pair pair;
    double cut, t, spacing;
} aparts[] = {
    {{ACCOUNT_REMOVE, 1, 1e-5, 1000000}, 8.8, 369, 83},
    {{ACCOUNT_ADD, 3, 1e-3, 100}, 24, 1330, 200},
    {{ACCOUNT_REPLACE, 1, 1e-5, 1000000}, 8.8, 180, 83},
};
enum { APARTS = sizeof aparts / sizeof aparts[0] };

/* A step five times as fine, whose error is far smaller. */
static void test_moments_with_outcomes_apart_are_within_their_error(void **state) {
    (void)state;
    for (int i = 0; i < APARTS; i++) {
        const struct apart *a = &aparts[i];
        const account_cumulant fine = pair_cumulant(&a->pair, a->cut, a->t, 40);
        for (double fineness = 1; fineness < 8; fineness *= 1.5) {
            const account_cumulant k = pair_cumulant(&a->pair, a->cut, a->t, fineness);
            const double log_off = pair_log_error(&a->pair, a->cut, a->t, 0, fineness, -INFINITY);
            assert_true(isfinite(k.error) && isfinite(log_off) && log_off < 0);
            assert_true(fabs(k.value - fine.value) <= (exp(log_off - fine.value) + k.error + fine.error) * 1.01);
        }
    }
    /* without them apart there is no number at this order; and the mass apart is a normal tail */
    assert_true(pair_cumulant(&aparts[0].pair, INFINITY, 369, 1).value > 1e4);
    check_near(pair_log_apart(&aparts[0].pair, 9.7), log(1e-5 * 1.6594e-18 + 1.5075e-22), 1e-4);
}

/* The same y by rules of different steps: the first goes far beyond them. */
static void test_the_rule_with_outcomes_apart_is_within_its_error(void **state) {
    (void)state;
    for (int i = 0; i < APARTS; i++) {
        const struct apart *a = &aparts[i];
        const double n = (double)a->pair.compositions, off = log(1e-3 / n);
        fourier_rule rules[2];
        for (int j = 0; j < 2; j++) {
            check_ok(fourier_rule_create(&a->pair, a->cut, a->t, a->spacing, j == 0 ? 60 : 20, 100000, off, &rules[j]));
            assert_non_null(rules[j].phase);
        }
        assert_true(rules[0].count > rules[1].count);
        for (int j = 0; j < 20; j++) {
            double errors[2];
            const double complex one = fourier_rule_next(&rules[0], &errors[0]);
            const double complex other = fourier_rule_next(&rules[1], &errors[1]);
            assert_true(cabs(one - other) <= errors[0] + errors[1] && n * (errors[0] + errors[1]) < 0.1);
        }
        fourier_rule_free(&rules[0]);
        fourier_rule_free(&rules[1]);
    }
}

/* 1 - |phi| is at least the promised value, at y and beyond; and the promise is not trivial. */
static void test_the_decay_holds_beyond_y(void **state) {
    (void)state;
    for (int i = 0; i < PARTS; i++) {
        enum { NODES = 400 };
        const double t = i == 3 ? 5 : 1.5, variance = pair_cumulant(&parts[i], INFINITY, t, 1).second;
        const double spacing = 0.05 / sqrt((double)parts[i].compositions * variance);
        const double allowed = fourier_rule_off(&parts[i], 0);
        fourier_rule rule;
        fourier_decay decay;
        double least = INFINITY, seen[NODES];
        check_ok(fourier_rule_create(&parts[i], INFINITY, t, spacing, NODES, 100000, allowed, &rule));
        assert_non_null(rule.phase);
        fourier_decay_fill(&parts[i], INFINITY, t, rule.log_moment_high, &decay);
        for (int j = 0; j < NODES; j++) {
            double error;
            const double complex x = fourier_rule_next(&rule, &error);
            seen[j] = -(2 * creal(x) + creal(x) * creal(x) + cimag(x) * cimag(x)) / (1 + cabs(1 + x)) + error;
        }
        for (int j = NODES - 1; j > 0; j--) {
            least = fmin(least, seen[j]);
            const double promised = fourier_decay_from(&decay, spacing * j);
            assert_true(promised <= least);
            if (i == 3 && j == 20) assert_true(promised >= 0.2 * least); /* near Gaussian: 0.3 of it */
        }
        fourier_rule_free(&rule);
    }
}

static void test_any_allocation_of_the_sum_may_fail(void **state) {
    (void)state;
    const account_pair pair = {ACCOUNT_REMOVE, 1, .1, 100};
    double epsilon = 0, log_delta = 0;
    int met = 0;
    FAIL_EACH(ask_fourier(&pair, epsilon_at(usual, -12), &epsilon, &met));
    FAIL_EACH(ask_fourier(&pair, log_delta_at(usual, epsilon), &log_delta, &met));
    check_near(log_delta, -12, 1e-7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sum_is_above_values_of_32_digits_and_near),
        cmocka_unit_test(test_as_many_steps_as_anybody_takes),
        cmocka_unit_test(test_rare_sampling_is_near_exact),
        cmocka_unit_test(test_the_limit_of_many_steps_is_gaussian),
        cmocka_unit_test(test_more_steps_lose_more_and_finer_slack_less),
        cmocka_unit_test(test_few_steps_are_left_to_others),
        cmocka_unit_test(test_the_rule_is_within_its_error),
        cmocka_unit_test(test_moments_with_outcomes_apart_are_within_their_error),
        cmocka_unit_test(test_the_rule_with_outcomes_apart_is_within_its_error),
        cmocka_unit_test(test_the_decay_holds_beyond_y),
        cmocka_unit_test(test_any_allocation_of_the_sum_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
