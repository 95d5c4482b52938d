/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best of a random number of runs: known values, the laws' means, texts, one run, never below the result of a
 * search.
 */
#include "account/account.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dpmf_tuning binomial(double eta, double runs) {
    dpmf_tuning t = {.kind = DPMF_TUNING_NEGATIVE_BINOMIAL, .eta = eta};
    double low = 1e-9, high = 1 - 1e-12;
    for (int i = 0; i < 200; i++) {
        t.gamma = 0.5 * (low + high);
        if (dpmf_tuning_runs(&t) > runs)
            low = t.gamma;
        else
            high = t.gamma;
    }
    return t;
}

static double epsilon_of(double sigma, double delta, const dpmf_account_options *o, dpmf_tuning t) {
    dpmf_privacy p;
    check_ok(dpmf_account_tuning(sigma, delta, o, &t, &p));
    assert_int_equal(p.kind, DPMF_UPPER_BOUND);
    return p.epsilon;
}

/* A Gaussian with epsilon 1 at delta 1e-6; values of an independent program, to three decimals. */
static void test_the_known_values_are_met(void **state) {
    dpmf_privacy one;
    (void)state;
    check_ok(dpmf_calibrate_sigma(1, 1e-6, NULL, &one));
    const double s = one.sigma;
    assert_true(fabs(epsilon_of(s, 1e-6, NULL, binomial(0, 10)) - 1.798) < 6e-4);
    assert_true(fabs(epsilon_of(s, 1e-6, NULL, binomial(0.5, 10)) - 1.984) < 6e-4);
    assert_true(fabs(epsilon_of(s, 1e-6, NULL, binomial(1, 10)) - 2.150) < 6e-4);
    assert_true(fabs(epsilon_of(s, 1e-6, NULL, (dpmf_tuning){DPMF_TUNING_POISSON, 10, 0, 0}) - 1.925) < 6e-4);
    assert_true(fabs(epsilon_of(s, 1e-6, NULL, binomial(0, 100)) - 2.116) < 6e-4);
}

/* Theorem 2 at one pair of orders, Gaussian, from its formula: any choice is a bound, the one found is no worse. */
static void test_no_worse_than_any_orders(void **state) {
    const double sigma = 3, mu2 = 1.0 / 9, delta = 1e-5;
    (void)state;
    for (double eta = -0.5; eta <= 2; eta += 0.5) {
        const dpmf_tuning t = binomial(eta, 25);
        const double found = epsilon_of(sigma, delta, NULL, t);
        double best = INFINITY;
        for (double order = 1.1; order < 200; order *= 1.07)
            for (double other = 1.01; other < 200; other *= 1.07) {
                const double paid = (1 - 1 / other) * other * mu2 / 2 - log(t.gamma) / other;
                const double divergence = order * mu2 / 2 + (1 + eta) * paid + log(25) / (order - 1);
                best = fmin(best, divergence + log1p(-1 / order) - log(delta * order) / (order - 1));
            }
        assert_true(found <= best * (1 + 1e-9));
        assert_true(found >= best * 0.998);
    }
}

static void test_one_run_is_the_run(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_tuning once = {DPMF_TUNING_NEGATIVE_BINOMIAL, 0, 0.5, 1};
    dpmf_privacy tuned, plain;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.02, 0, 0, 0, 0};
    o.compositions = 200;
    check_ok(dpmf_account_tuning(1, 1e-6, &o, &once, &tuned));
    check_ok(dpmf_account_epsilon(1, 1e-6, &o, &plain));
    assert_true(tuned.epsilon == plain.epsilon);
    assert_true(epsilon_of(1, 1e-6, &o, binomial(1, 2)) > plain.epsilon);
    assert_true(dpmf_tuning_runs(&once) == 1);
}

static void test_more_runs_cost_more(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    double before = 0;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.01, 0, 0, 0, 0};
    o.compositions = 500;
    for (double mean = 2; mean <= 2000; mean *= 10) {
        const double found = epsilon_of(1, 1e-6, &o, binomial(1, mean));
        assert_true(found > before);
        before = found;
    }
}

static void test_texts_there_and_back(void **state) {
    static const char *const accepted[] = {"poisson:10", "negative-binomial:0,0.25", "negative-binomial:-0.5,1"};
    static const char *const refused[] = {"",
                                          "poisson",
                                          "poisson:-1",
                                          "poisson:nan",
                                          "negative-binomial:1",
                                          "poisson:1x",
                                          "best:1,2",
                                          "negative-binomial:-1,0.5",
                                          "negative-binomial:1,1.5"};
    dpmf_tuning t = {DPMF_TUNING_POISSON, 7, 0, 0};
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        check_ok(dpmf_tuning_parse(accepted[i], &t));
        char *rest = NULL;
        const double first = strtod(strchr(accepted[i], ':') + 1, &rest);
        assert_int_equal(t.kind, accepted[i][0] == 'p' ? DPMF_TUNING_POISSON : DPMF_TUNING_NEGATIVE_BINOMIAL);
        assert_true(t.kind == DPMF_TUNING_POISSON ? t.mean == first
                                                  : t.eta == first && t.gamma == strtod(rest + 1, NULL));
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        assert_int_equal(dpmf_tuning_parse(refused[i], &t), DPMF_ERROR_ARGUMENT);
    assert_true(t.gamma == 1); /* as it was */
}

static void test_what_has_no_divergences_is_refused(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    const dpmf_tuning t = {DPMF_TUNING_POISSON, 3, 0, 0};
    dpmf_privacy p;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 10, 1, 0, 0};
    assert_int_equal(dpmf_account_tuning(1, 1e-6, &o, &t, &p), DPMF_ERROR_UNSUPPORTED);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0};
    o.batch_cap = 20;
    o.units = 100;
    assert_int_equal(dpmf_account_tuning(1, 1e-6, &o, &t, &p), DPMF_ERROR_UNSUPPORTED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_known_values_are_met), cmocka_unit_test(test_no_worse_than_any_orders),
        cmocka_unit_test(test_one_run_is_the_run),       cmocka_unit_test(test_more_runs_cost_more),
        cmocka_unit_test(test_texts_there_and_back),     cmocka_unit_test(test_what_has_no_divergences_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
