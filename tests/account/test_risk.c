/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Risks: the Gaussian mechanism in closed form, the best test of up to three sampled steps to 30 digits (tests/data/risk.csv, by
 * tests/python/reference_risk.py), the least mu by brute force over the curve, targets, and refusals.
 */
#include "dpmf.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static dpmf_account_options sampled(double probability, int64_t steps) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, probability, 0, 0, 0, 0};
    o.compositions = steps;
    return o;
}

static double phi(double x) {
    return 0.5 * erfc(-x / sqrt(2));
}

/* Quantiles of the normal distribution, 20 digits (mpmath). */
static const double quantiles[][2] = {{1e-12, -7.0344838253011319299}, {1e-6, -4.7534243088228990482},
                                      {1e-3, -3.0902323061678134988},  {0.01, -2.3263478740408411009},
                                      {0.1, -1.2815515655446004353},   {0.5, 0},
                                      {0.9, 1.2815515655446004353},    {0.99, 2.3263478740408411009}};
enum { QUANTILES = sizeof quantiles / sizeof *quantiles };

static void test_the_gaussian_mechanism_has_its_closed_form(void **state) {
    (void)state;
    int compared = 0;
    for (double mu = 1e-3; mu < 8; mu *= 2.7)
        for (int doubled = 0; doubled < 2; doubled++) {
            double fpr[QUANTILES], tpr[QUANTILES];
            dpmf_account_options o = dpmf_account_options_defaults();
            dpmf_risk_options asked = dpmf_risk_options_defaults();
            dpmf_risk found;
            for (int i = 0; i < QUANTILES; i++)
                fpr[i] = quantiles[i][0];
            o.adjacency = doubled ? DPMF_ADJACENCY_REPLACE_ONE : DPMF_ADJACENCY_ZERO_OUT;
            asked.fpr = fpr;
            asked.count = QUANTILES;
            check_ok(dpmf_account_risk((doubled ? 2 : 1) / mu, &o, &asked, tpr, &found));
            assert_int_equal(found.kind, DPMF_EXACT);
            check_near(found.mu, mu, 1e-15 * mu);
            assert_true(found.remainder == 0);
            const double advantage = erf(mu / sqrt(8)); /* 2 Phi(mu/2) - 1 */
            if (!(found.advantage >= advantage * (1 - 1e-14) && found.advantage <= advantage * (1 + 1e-12)))
                fail_msg("mu %g: advantage %.17g instead of %.17g", mu, found.advantage, advantage);
            check_near(found.bayes_error, 0.5 * (1 - advantage), 1e-12);
            for (int i = 0; i < QUANTILES; i++, compared++) {
                const double want = phi(quantiles[i][1] + mu);
                if (!(tpr[i] >= want * (1 - 2e-14) && tpr[i] <= want * (1 + 1e-12)))
                    fail_msg("mu %g, FPR %g: %.17g instead of %.17g", mu, fpr[i], tpr[i], want);
            }
        }
    assert_true(compared >= 100);
}

/* The curve alone, by an engine that does not know the closed form, comes to the same rates from above. */
static void test_a_curve_gives_the_rates_of_the_closed_form(void **state) {
    (void)state;
    for (double mu = 0.1; mu < 4; mu *= 2) {
        double fpr[QUANTILES], tpr[QUANTILES];
        dpmf_account_options o = sampled(1, 1);
        dpmf_risk_options asked = dpmf_risk_options_defaults();
        dpmf_risk found;
        for (int i = 0; i < QUANTILES; i++)
            fpr[i] = quantiles[i][0];
        asked.fpr = fpr;
        asked.count = QUANTILES;
        check_ok(dpmf_account_risk(1 / mu, &o, &asked, tpr, &found));
        for (int i = 0; i < QUANTILES; i++) {
            const double want = phi(quantiles[i][1] + mu);
            if (!(tpr[i] >= want * (1 - 1e-13) && 1 - tpr[i] >= (1 - want) * (1 - 1e-4) - 1e-12 &&
                  tpr[i] <= want * (1 + 3e-6)))
                fail_msg("mu %g, FPR %g: %.17g instead of %.17g", mu, fpr[i], tpr[i], want);
        }
        assert_true(found.mu >= mu * (1 - 1e-12) && found.mu <= mu * (1 + 1e-12));
    }
}

typedef struct row {
    char direction[8];
    double sigma, q, fpr, tpr;
    long long steps;
} row;

static FILE *open_rows(void) {
    const char *source = getenv("DPMF_SOURCE");
    char path[1024], line[512];
    snprintf(path, sizeof path, "%s%stests/data/risk.csv", source == NULL ? "" : source, source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s cannot be opened (run from the top of the source tree, or set DPMF_SOURCE)", path);
    assert_non_null(fgets(line, sizeof line, file)); /* its header */
    return file;
}

/*
 * Both directions of the best test are below the bound. The bound is for the worse direction at every FPR, and for mixtures of tests
 * of both; where removing is clearly the worse one, at small FPR, it is the best test's rate itself, to the slack of the account.
 */
static void test_no_test_of_sampled_steps_is_better(void **state) {
    (void)state;
    enum { ROWS = 200 };
    FILE *file = open_rows();
    row rows[ROWS];
    int count = 0, near = 0;
    while (count < ROWS && fscanf(file, " %7[^,],%lf,%lf,%lld,%lf,%lf", rows[count].direction, &rows[count].sigma,
                                  &rows[count].q, &rows[count].steps, &rows[count].fpr, &rows[count].tpr) == 6)
        count++;
    fclose(file);
    assert_true(count >= 100);
    for (int i = 0, last; i < count; i = last) {
        double fpr[ROWS], tpr[ROWS];
        const dpmf_account_options o = sampled(rows[i].q, rows[i].steps);
        dpmf_risk_options asked = dpmf_risk_options_defaults();
        dpmf_risk found;
        for (last = i; last < count && rows[last].sigma == rows[i].sigma && rows[last].q == rows[i].q &&
                       rows[last].steps == rows[i].steps;
             last++)
            fpr[asked.count++] = rows[last].fpr;
        asked.fpr = fpr;
        check_ok(dpmf_account_risk(rows[i].sigma, &o, &asked, tpr, &found));
        for (int j = i; j < last; j++) {
            const row *r = &rows[j];
            const double bound = tpr[j - i];
            if (!(bound >= r->tpr * (1 - 1e-13)))
                fail_msg("%s %g %g %lld, FPR %.17g: %.17g, the best test has %.17g", r->direction, r->sigma, r->q,
                         r->steps, r->fpr, bound, r->tpr);
            assert_true(found.advantage >= (r->tpr - r->fpr) * (1 - 1e-13));
            assert_true(found.bayes_error <= 0.5 * (1 - r->tpr + r->fpr) * (1 + 1e-13));
            near += bound <= r->tpr * (1 + 2e-4);
            if (getenv("DPMF_SHOW") != NULL)
                printf("%s %g %g %lld %g %.9g %.3g\n", r->direction, r->sigma, r->q, r->steps, r->fpr, r->tpr,
                       bound / r->tpr - 1);
        }
    }
    if (near < count / 3) fail_msg("only %d of %d rates are within 2e-4 of the best test's", near, count);
}

/* delta(epsilon) <= delta_mu(epsilon) + D on a fine grid, and a mu that is 1 % smaller fails somewhere. */
static void test_mu_dominates_and_is_near_the_least(void **state) {
    (void)state;
    static const double cases[][3] = {{1, 0.01, 1000}, {0.7, 0.1, 10}, {2, 0.5, 5}, {1, 0.001, 10000}, {0.5, 0.02, 1}};
    static const double remainders[] = {1e-3, 1e-6, 1e-10};
    for (int i = 0; i < 5; i++)
        for (int k = i % 3; k < 3; k += 2) {
            const dpmf_account_options o = sampled(cases[i][1], (int64_t)cases[i][2]);
            const dpmf_account_options plain = dpmf_account_options_defaults();
            dpmf_risk_options asked = dpmf_risk_options_defaults();
            dpmf_risk found;
            dpmf_privacy here, gaussian, less, far;
            int below = 0;
            asked.remainder = remainders[k];
            check_ok(dpmf_account_risk(cases[i][0], &o, &asked, NULL, &found));
            assert_true(found.remainder == remainders[k]);
            check_ok(dpmf_account_epsilon(cases[i][0], remainders[k], &o, &far));
            for (int j = 0; j <= 40; j++) {
                const double epsilon = 1.2 * far.epsilon * j / 40;
                check_ok(dpmf_account_delta(cases[i][0], epsilon, &o, &here));
                check_ok(dpmf_account_delta(1 / found.mu, epsilon, &plain, &gaussian));
                check_ok(dpmf_account_delta(1.01 / found.mu, epsilon, &plain, &less));
                /* the bounds of two calls differ by their slack */
                if (!(here.delta * (1 - 1e-4) <= gaussian.delta + remainders[k]))
                    fail_msg("case %d, epsilon %g: %g above %g", i, epsilon, here.delta, gaussian.delta);
                below += here.delta > less.delta && epsilon <= far.epsilon;
            }
            if (below == 0)
                fail_msg("case %d, remainder %g: mu %g is not near the least", i, asked.remainder, found.mu);
        }
}

static void test_bayes_error_at_a_prior(void **state) {
    (void)state;
    /* of a Gaussian mechanism: p (1 - TPR) + (1-p) FPR at the threshold ln((1-p)/p) of the loss */
    for (int i = 1; i < 10; i++) {
        const double p = i / 10.0, mu = 0.8, x = mu / 2 + log((1 - p) / p) / mu;
        const double want = p * phi(x - mu) + (1 - p) * phi(-x);
        dpmf_risk_options asked = dpmf_risk_options_defaults();
        dpmf_risk found;
        asked.prior = p;
        check_ok(dpmf_account_risk(1 / mu, NULL, &asked, NULL, &found));
        if (!(found.bayes_error <= want * (1 + 1e-14) && found.bayes_error >= want * (1 - 1e-11)))
            fail_msg("prior %g: %.17g instead of %.17g", p, found.bayes_error, want);
    }
}

/* A target is met by the answer of the risk itself, and a sigma 1 % smaller does not meet it. */
static void test_targets_are_met_and_hardly_more(void **state) {
    (void)state;
    static const double rates[][2] = {{0.02, 0.01}, {0.1, 0.01}, {0.99, 0.9}, {1e-4, 1e-6}, {0.5, 0.45}, {0.9, 0.2}};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < (i == 0 || i == 2 ? 2 : 1); k++) { /* the accounts of samplings are slow: a few */
            dpmf_account_options o = k == 0 ? dpmf_account_options_defaults() : sampled(0.02, 100);
            dpmf_risk_options asked = dpmf_risk_options_defaults();
            dpmf_risk found;
            dpmf_privacy proof;
            double tpr;
            asked.fpr = &rates[i][1];
            asked.count = 1;
            check_ok(dpmf_calibrate_risk(rates[i][0], rates[i][1], &o, &proof));
            check_ok(dpmf_account_risk(proof.sigma, &o, &asked, &tpr, &found));
            if (!(tpr <= rates[i][0])) fail_msg("case %d %d: %.17g above %g", i, k, tpr, rates[i][0]);
            check_ok(dpmf_account_risk(0.99 * proof.sigma, &o, &asked, &tpr, &found));
            if (!(tpr > rates[i][0])) fail_msg("case %d %d: sigma %g is not the least", i, k, proof.sigma);
        }
}

static void test_the_advantage_is_a_target_at_epsilon_zero(void **state) {
    (void)state;
    dpmf_account_options o = sampled(0.01, 1000);
    dpmf_privacy found;
    dpmf_risk risk;
    check_ok(dpmf_calibrate_sigma(0, 0.05, &o, &found));
    check_ok(dpmf_account_risk(found.sigma, &o, NULL, NULL, &risk));
    assert_true(risk.advantage <= 0.05 && risk.advantage > 0.0499);
}

/* Simulated: the figures hold together; at the same law by a proven account, balls in bins with independent noise. */
static void test_simulated_risks_are_near_the_proven_ones(void **state) {
    (void)state;
    static const double fpr[] = {0.01, 0.2};
    double simulated[2], proven[2];
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_risk_options asked = dpmf_risk_options_defaults();
    dpmf_risk found, certain;
    dpmf_privacy unused;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 8, 0, 0, 0};
    o.compositions = 8;
    asked.fpr = fpr;
    asked.count = 2;
    asked.remainder = 1e-4;
    check_ok(dpmf_account_risk(1, &o, &asked, proven, &certain));
    o.engine = DPMF_ENGINE_MONTE_CARLO;
    o.samples = 200000;
    check_ok(dpmf_account_risk(1, &o, &asked, simulated, &found));
    assert_true(found.confidence == 0.999 && certain.confidence == 0);
    for (int i = 0; i < 2;
         i++) /* 24 bounds of 1 - 0.001/24 each on fixed samples: the same at every run of this test */
        if (!(simulated[i] >= proven[i] * (1 - 1e-4) && simulated[i] <= proven[i] * 1.05))
            fail_msg("%g simulated, %g proven", simulated[i], proven[i]);
    assert_true(found.advantage >= certain.advantage * (1 - 1e-4) && found.mu >= certain.mu * 0.99);
    o.unconditional = 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_risk(1, &o, &asked, simulated, &found));
    check_message("several epsilons");
    o.unconditional = 0;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_calibrate_risk(0.1, 0.01, &o, &unused));
    check_message("without simulation");
}

static void test_bad_questions_are_refused(void **state) {
    (void)state;
    double rate = 0, tpr = 0;
    dpmf_risk_options asked = dpmf_risk_options_defaults();
    dpmf_risk found;
    dpmf_privacy proof;
    asked.fpr = &rate;
    asked.count = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_risk(1, NULL, &asked, &tpr, &found));
    check_message("1e-100 to below 1");
    rate = 0.1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_risk(1, NULL, &asked, NULL, &found));
    check_message("room");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_risk(0, NULL, &asked, &tpr, &found));
    check_message("sigma 0");
    asked.prior = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_risk(1, NULL, &asked, &tpr, &found));
    check_message("prior 1");
    asked.prior = 0.5;
    asked.remainder = 0.5;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_risk(1, NULL, &asked, &tpr, &found));
    check_message("remainder 0.5");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_calibrate_risk(0.1, 0.2, NULL, &proof));
    check_message("above it");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_calibrate_risk(0.1, 0, NULL, &proof));
    check_message("1e-100 to below 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gaussian_mechanism_has_its_closed_form),
        cmocka_unit_test(test_a_curve_gives_the_rates_of_the_closed_form),
        cmocka_unit_test(test_no_test_of_sampled_steps_is_better),
        cmocka_unit_test(test_mu_dominates_and_is_near_the_least),
        cmocka_unit_test(test_bayes_error_at_a_prior),
        cmocka_unit_test(test_targets_are_met_and_hardly_more),
        cmocka_unit_test(test_the_advantage_is_a_target_at_epsilon_zero),
        cmocka_unit_test(test_simulated_risks_are_near_the_proven_ones),
        cmocka_unit_test(test_bad_questions_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
