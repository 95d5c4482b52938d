/* SPDX-License-Identifier: Apache-2.0 */
/* Accounting as users call it: sampling and strategy to numbers, calibration in every unknown, statements. */
#include "account/account.h"
#include "account/question.h"
#include "strategy/strategy.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define OK(call) assert_int_equal(call, DPMF_OK)

static void assert_near(double found, double expected, double relative) {
    if (!(fabs(found - expected) <= relative * fabs(expected))) fail_msg("%.17g is not %.17g", found, expected);
}

static dpmf_account_options poisson(double q, int64_t n) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.compositions = n;
    return o;
}

static dpmf_strategy *banded_root(int64_t steps, int64_t bands) {
    dpmf_workload *workload = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_strategy_options options = dpmf_strategy_options_defaults();
    options.bands = bands;
    OK(dpmf_workload_parse("prefix", steps, &workload));
    OK(dpmf_strategy_create("bsr", workload, &options, &strategy));
    dpmf_workload_free(workload);
    return strategy;
}

/* ---- texts ---- */

static void test_samplings_are_read_and_written_and_others_refused(void **state) {
    (void)state;
    static const char *const texts[] = {"none", "poisson:0.01", "block-cyclic:0.001,16", "balls-in-bins:7",
                                        "min-sep:0.25,3"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_sampling sampling;
        char out[64];
        OK(dpmf_sampling_parse(texts[i], &sampling));
        assert_int_equal(sampling.kind, i);
        OK(dpmf_sampling_format(&sampling, out));
        assert_string_equal(out, texts[i]);
    }
    static const char *const bad[] = {"",
                                      "x",
                                      "none:",
                                      "poisson",
                                      "poisson:",
                                      "poisson:2",
                                      "poisson:-1",
                                      "poisson:nan",
                                      "poisson:0.1,1",
                                      "block-cyclic:0.1",
                                      "block-cyclic:0.1,0",
                                      "block-cyclic:0.1,1.5",
                                      "block-cyclic:,3",
                                      "balls-in-bins:",
                                      "balls-in-bins:-2",
                                      "min-sep:0.1,2,3",
                                      "Poisson:0.1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        dpmf_sampling sampling = {DPMF_SAMPLING_NONE, 7, 7, 0, 0, 0};
        assert_int_equal(dpmf_sampling_parse(bad[i], &sampling), DPMF_ERROR_ARGUMENT);
        assert_true(sampling.probability == 7); /* unchanged */
    }
    dpmf_engine engine;
    for (int i = 0; i < 5; i++) {
        OK(dpmf_engine_parse(account_engine_name((dpmf_engine)i), &engine));
        assert_int_equal(engine, i);
    }
    assert_int_equal(dpmf_engine_parse("prv", &engine), DPMF_ERROR_ARGUMENT);
}

/* ---- amplification ---- */

static void test_sampling_amplifies_a_banded_strategy(void **state) {
    (void)state;
    dpmf_strategy *c = banded_root(100, 8);
    account_amplification found;
    dpmf_sampling sampling = {DPMF_SAMPLING_BLOCK_CYCLIC, 0.01, 8, 0, 0, 0};
    OK(account_amplify(c, &sampling, 0, &found));
    assert_int_equal(found.compositions, 13);
    assert_near(found.probability, 0.08, 1e-15);
    double norm = 0, square = 1; /* 1, 1/2, 3/8, ...: c_j = c_{j-1} (2j-1)/(2j) */
    for (int j = 1; j <= 8; j++) {
        norm += square * square;
        square *= (2.0 * j - 1) / (2.0 * j);
    }
    assert_near(found.sensitivity.value, sqrt(norm), 1e-14);
    assert_int_equal(found.sensitivity.of, DPMF_SENSITIVITY_COLUMN);
    OK(account_amplify(c, &sampling, sqrt(norm), &found));
    assert_int_equal(account_amplify(c, &sampling, sqrt(norm) * (1 - 1e-9), &found), DPMF_ERROR_ARGUMENT);
    sampling.count = 200;
    sampling.probability = 0.01;
    OK(account_amplify(c, &sampling, 0, &found));
    assert_int_equal(found.compositions, 1);
    assert_true(found.probability == 1);
    sampling.count = 7;
    assert_int_equal(account_amplify(c, &sampling, 0, &found), DPMF_ERROR_ARGUMENT);
    sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.01, 0, 0, 0, 0}; /* several bands: an account of its own */
    OK(account_amplify(c, &sampling, 0, &found));
    assert_int_equal(found.compositions, 100);
    assert_true(found.overlap > 5 && found.overlap < 8);
    sampling.cap = 5;
    assert_int_equal(account_amplify(c, &sampling, 0, &found), DPMF_ERROR_ARGUMENT);
    sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 4, 0, 0, 0};
    assert_int_equal(account_amplify(c, &sampling, 0, &found), DPMF_ERROR_UNSUPPORTED);
    dpmf_strategy_free(c);
}

/* A tree has more rows than columns: nothing of the theorem applies. */
static void test_amplification_refuses_strategies_that_are_not_square(void **state) {
    (void)state;
    dpmf_workload *workload = NULL;
    dpmf_strategy *tree = NULL;
    account_amplification found;
    dpmf_sampling sampling = {DPMF_SAMPLING_BLOCK_CYCLIC, 0.01, 64, 0, 0, 0};
    OK(dpmf_workload_parse("prefix", 64, &workload));
    OK(dpmf_strategy_create("tree-online", workload, NULL, &tree));
    assert_true(dpmf_strategy_get(tree).rows > 64);
    assert_int_equal(account_amplify(tree, &sampling, 0, &found), DPMF_ERROR_ARGUMENT);
    dpmf_strategy_free(tree);
    dpmf_workload_free(workload);
}

/* Columns and Gram matrices by their definitions, from complete columns. */
static void test_schemes_have_the_columns_and_gram_matrices_of_the_definition(void **state) {
    (void)state;
    enum { N = 12, B = 3 };
    dpmf_strategy *c = banded_root(N, B);
    dpmf_run run = dpmf_run_defaults();
    account_amplified bins, separated;
    dpmf_sampling in_bins = {DPMF_SAMPLING_BALLS_IN_BINS, 0, B, 0, 0, 0},
                  apart = {DPMF_SAMPLING_MIN_SEPARATION, 0.3, B, 0, 0, 0};
    double columns[N][N], means[B][N] = {{0}};
    OK(account_amplify_scheme(c, &in_bins, 0, &run, &bins));
    OK(account_amplify_scheme(c, &apart, 1, &run, &separated));
    for (int t = 0; t < N; t++) {
        OK(dpmf_strategy_column(c, t, columns[t]));
        for (int i = 0; i < N; i++)
            means[t % B][i] += columns[t][i];
        for (int j = 0; j < B; j++)
            assert_near(separated.numbers[t * B + j] + 1, (t + j < N ? columns[t][t + j] : 0) + 1, 1e-14);
    }
    for (int i = 0; i < B; i++)
        for (int j = 0; j < B; j++) {
            double sum = 0;
            for (int t = 0; t < N; t++)
                sum += means[i][t] * means[j][t];
            assert_near(bins.numbers[i * B + j], sum, 1e-13);
        }
    assert_near(bins.sensed.value, sqrt(bins.numbers[0]), 1e-12); /* the first bin is the worst pattern */
    assert_int_equal(separated.scheme.warm, 1);
    account_amplified_free(&bins);
    account_amplified_free(&separated);
    dpmf_strategy_free(c);
}

static void test_negative_entries_are_refused(void **state) {
    (void)state;
    static const double coefficients[] = {1, -0.5};
    dpmf_strategy *c = NULL;
    dpmf_privacy found;
    OK(dpmf_strategy_create_toeplitz(8, DPMF_TOEPLITZ_BANDED, 2, coefficients, &c));
    dpmf_account_options o = dpmf_account_options_defaults();
    o.strategy = c;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 2, 0, 0, 0};
    assert_int_equal(dpmf_account_epsilon(1, 1e-2, &o, &found), DPMF_ERROR_UNSUPPORTED);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_MIN_SEPARATION, 0.1, 2, 0, 0, 0};
    assert_int_equal(dpmf_account_epsilon(1, 1e-2, &o, &found), DPMF_ERROR_UNSUPPORTED);
    dpmf_strategy_free(c);
}

/* ---- answers ---- */

static void test_calibration_without_sampling_is_exact(void **state) {
    (void)state;
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy found, other;
    o.compositions = 9;
    OK(dpmf_calibrate_sigma(2, 1e-7, &o, &found));
    assert_int_equal(found.kind, DPMF_EXACT);
    OK(dpmf_account_epsilon(found.sigma, 1e-7, &o, &other));
    assert_near(other.epsilon, 2, 1e-12);
    assert_near(other.total_mu, 3 * other.mu, 1e-14);
    OK(dpmf_account_delta(found.sigma, 2, &o, &other));
    assert_near(other.delta, 1e-7, 1e-10);
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    OK(dpmf_calibrate_sigma(2, 1e-7, &o, &other));
    assert_near(other.sigma, 2 * found.sigma, 1e-13);
    o.sigma_unit = 2;
    OK(dpmf_calibrate_sigma(2, 1e-7, &o, &other));
    assert_near(other.sigma, found.sigma, 1e-13);
}

/* Replace-one without sampling is the Gaussian of twice the sensitivity, by the engine too. */
static void test_replace_one_at_probability_1_is_twice_the_gaussian(void **state) {
    (void)state;
    dpmf_account_options o = poisson(1, 5);
    dpmf_privacy found;
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    o.engine = DPMF_ENGINE_CONNECT_THE_DOTS;
    OK(dpmf_account_epsilon(6, 1e-6, &o, &found));
    double exact = account_gaussian_epsilon(2 * sqrt(5) / 6, log(1e-6));
    assert_true(found.epsilon >= exact * (1 - 1e-12) && found.epsilon <= exact * 1.001);
    o.engine = DPMF_ENGINE_AUTO;
    OK(dpmf_account_epsilon(6, 1e-6, &o, &found));
    assert_near(found.epsilon, exact, 1e-12);
}

static void test_a_calibrated_sigma_is_certified(void **state) {
    (void)state;
    static const struct {
        double epsilon, delta, q;
        int64_t n;
        double tight;
    } cases[] = {{8, 1e-5, 0.04, 2000, 1.289967807},
                 {3, 1e-8, 1e-4, 1000000, 0.594348590},
                 {8.824, 1e-6, 1000.0 / 342477, 2052, 0.489775}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_account_options o = poisson(cases[i].q, cases[i].n);
        dpmf_privacy found, again;
        OK(dpmf_calibrate_sigma(cases[i].epsilon, cases[i].delta, &o, &found));
        assert_true(found.sigma >= cases[i].tight * (1 - 2e-6));
        assert_true(found.sigma <= cases[i].tight * 1.001);
        assert_int_equal(found.kind, DPMF_UPPER_BOUND);
        assert_true(found.slack_met);
        OK(dpmf_account_delta(found.sigma, cases[i].epsilon, &o, &again));
        assert_true(again.delta <= cases[i].delta);
        assert_true(found.without_sampling > cases[i].epsilon);
    }
}

/*
 * A file says epsilon = 2; the person who is handed it asks for its account and reads 2.0002, or that the file is refused. What a
 * calibration writes is what an account of the result finds, or more.
 */
static void test_a_file_claims_what_its_account_finds(void **state) {
    static const char *const samplings[] = {"none",          "block-cyclic:0.05,4", "balls-in-bins:5",
                                            "min-sep:0.1,4", "min-sep:0.2,6",       "balls-in-bins:10"};
    static const double epsilons[] = {0.5, 2, 8}, deltas[] = {1e-3, 1e-9};
    (void)state;
    for (int i = 0; i < 6 * 3 * 2; i++) {
        const int64_t bands = i / 6 % 2 == 0 ? 4 : 1;
        const double epsilon = epsilons[i / 6 % 3], delta = deltas[i / 18];
        dpmf_workload *workload = NULL;
        dpmf_strategy *strategy = banded_root(20, bands);
        dpmf_mechanism *plain = NULL, *made = NULL;
        dpmf_sampling sampling;
        dpmf_privacy found;
        OK(dpmf_workload_parse("prefix", 20, &workload));
        OK(dpmf_sampling_parse(samplings[i % 6], &sampling));
        OK(dpmf_mechanism_create(workload, NULL, strategy, NULL, &plain));
        OK(dpmf_mechanism_calibrate(plain, epsilon, delta, &sampling, NULL, NULL, &made, NULL));
        const dpmf_account_options o = dpmf_mechanism_account_options(made);
        OK(dpmf_account_epsilon(dpmf_mechanism_get(made).sigma, delta, &o, &found));
        if (!(found.epsilon <= dpmf_mechanism_get(made).epsilon))
            fail_msg("%s, %lld bands, epsilon %g, delta %g: the account finds %.17g", samplings[i % 6],
                     (long long)bands, epsilon, delta, found.epsilon);
        if (!(found.epsilon >= 0.99 * epsilon))
            fail_msg("%s, %lld bands, epsilon %g, delta %g: the account finds only %.17g: too much noise",
                     samplings[i % 6], (long long)bands, epsilon, delta, found.epsilon);
        OK(dpmf_mechanism_confirm(made, NULL, &found));
        dpmf_mechanism_free(plain);
        dpmf_mechanism_free(made);
        dpmf_strategy_free(strategy);
        dpmf_workload_free(workload);
    }
}

static void test_every_engine_calibrates(void **state) {
    (void)state;
    double sigma[4];
    static const dpmf_engine engines[] = {DPMF_ENGINE_FOURIER, DPMF_ENGINE_AUTO, DPMF_ENGINE_CONNECT_THE_DOTS,
                                          DPMF_ENGINE_RDP};
    for (int i = 0; i < 4; i++) {
        dpmf_account_options o = poisson(0.02, 500);
        dpmf_privacy found;
        o.engine = engines[i];
        OK(dpmf_calibrate_sigma(2, 1e-6, &o, &found));
        assert_int_equal(found.kind, DPMF_UPPER_BOUND);
        sigma[i] = found.sigma;
    }
    assert_true(sigma[1] == sigma[0]);
    for (int i = 0; i <= 2; i++) { /* against the contour integral, which is no bound but near exact */
        const dpmf_account_options o = poisson(0.02, 500);
        double epsilon = 0;
        int found = 0;
        OK(account_estimate_epsilon(sigma[i], 1e-6, &o, &epsilon, &found));
        assert_true(found && epsilon <= 2 * (1 + 1e-8) && epsilon >= 2 * (1 - (i == 2 ? 2e-4 : 2e-5)));
    }
    assert_true(sigma[3] > sigma[1] && sigma[3] < 1.2 * sigma[1]);
}

static void test_budgets_of_steps_and_probability_are_the_largest(void **state) {
    (void)state;
    dpmf_account_options o = poisson(0.01, 0);
    dpmf_privacy found, more;
    int64_t n = 0;
    double q = 0, epsilon = 0;
    int answered = 0;
    OK(dpmf_calibrate_compositions(1, 3, 1e-6, &o, &n, &found));
    assert_int_equal(found.compositions, n);
    o.compositions = n + n / 100;
    OK(account_estimate_epsilon(1, 1e-6, &o, &epsilon, &answered));
    assert_true(answered && epsilon > 3);
    o.compositions = 1000;
    OK(dpmf_calibrate_probability(1, 3, 1e-6, &o, &q, &found));
    o.sampling.probability = q;
    OK(dpmf_account_delta(1, 3, &o, &more));
    assert_true(more.delta <= 1.001e-6);
    o.sampling.probability = 1.01 * q;
    OK(account_estimate_epsilon(1, 1e-6, &o, &epsilon, &answered));
    assert_true(answered && epsilon > 3);

    dpmf_account_options plain = dpmf_account_options_defaults();
    OK(dpmf_calibrate_compositions(50, 1, 1e-6, &plain, &n, &found)); /* exact: mu^2 sigma^2 whole times */
    double mu = account_gaussian_mu(1, log(1e-6));
    assert_int_equal(n, (int64_t)floor(mu * mu * 2500));
    assert_int_equal(dpmf_calibrate_compositions(0.01, 1, 1e-6, &plain, &n, &found), DPMF_ERROR_UNSUPPORTED);
    assert_int_equal(dpmf_calibrate_probability(1, 1, 1e-6, &plain, &q, &found), DPMF_ERROR_ARGUMENT);

    o = poisson(0, 0);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC, 0.001, 10, 0, 0, 0};
    OK(dpmf_calibrate_compositions(1, 3, 1e-6, &o, &n, &found));
    assert_int_equal(n, 10 * found.compositions);
}

static void test_queries_out_of_range_are_refused(void **state) {
    (void)state;
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy found = {.epsilon = 7};
    static const double bad_sigma[] = {0, -1, NAN, INFINITY, 1e-7, 1e13}, bad_delta[] = {0, -1e-5, 1, 2, NAN, INFINITY},
                        bad_epsilon[] = {-1, NAN, INFINITY, 1e7};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(dpmf_account_epsilon(bad_sigma[i], 1e-5, &o, &found), DPMF_ERROR_ARGUMENT);
        assert_int_equal(dpmf_account_epsilon(1, bad_delta[i], &o, &found), DPMF_ERROR_ARGUMENT);
        assert_int_equal(dpmf_calibrate_sigma(1, bad_delta[i], &o, &found), DPMF_ERROR_ARGUMENT);
        assert_int_equal(
            dpmf_account_zcdp(bad_delta[i] == 1 || bad_delta[i] == 2 ? -1 : bad_delta[i], 1e-5, 0, 1, &found),
            DPMF_ERROR_ARGUMENT);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(dpmf_account_delta(1, bad_epsilon[i], &o, &found), DPMF_ERROR_ARGUMENT);
        assert_int_equal(dpmf_calibrate_sigma(bad_epsilon[i], 1e-5, &o, &found), DPMF_ERROR_ARGUMENT);
    }
    static const double bad_q[] = {-0.1, 1.1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        o = poisson(bad_q[i], 10);
        assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &found), DPMF_ERROR_ARGUMENT);
    }
    o = poisson(0.1, -1);
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &found), DPMF_ERROR_ARGUMENT);
    o = poisson(0.1, 1000000000000001);
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &found), DPMF_ERROR_ARGUMENT);
    assert_true(found.epsilon == 7); /* unchanged throughout */
    o = poisson(0, 10);
    OK(dpmf_account_epsilon(1, 1e-5, &o, &found));
    assert_true(found.epsilon == 0);
}

static void test_a_statement_names_unit_and_bound_and_may_be_cut(void **state) {
    (void)state;
    dpmf_account_options o = poisson(0.01, 1000);
    dpmf_privacy found;
    char text[4096], cut[32];
    o.covered.unit = "user";
    OK(dpmf_account_epsilon(1, 1e-5, &o, &found));
    size_t length = dpmf_privacy_statement(&found, &o, text, sizeof text);
    assert_int_equal(length, strlen(text));
    assert_non_null(strstr(text, "one user"));
    assert_non_null(strstr(text, "proven upper bound"));
    assert_int_equal(dpmf_privacy_statement(&found, &o, cut, sizeof cut), length);
    assert_memory_equal(cut, text, sizeof cut - 1);
    assert_int_equal(cut[sizeof cut - 1], 0);
    assert_int_equal(dpmf_privacy_statement(&found, &o, NULL, 0), length);
    found.kind = DPMF_ESTIMATE;
    dpmf_privacy_statement(&found, &o, text, sizeof text);
    assert_non_null(strstr(text, "do not publish"));
}

static dpmf_status calibrate_once(void) {
    dpmf_account_options o = poisson(0.02, 300);
    dpmf_privacy found;
    return dpmf_calibrate_sigma(2, 1e-5, &o, &found);
}

static dpmf_status simulate_once(void) {
    dpmf_strategy *c = NULL;
    static const double coefficients[] = {1, 0.5};
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy found;
    dpmf_status status = dpmf_strategy_create_toeplitz(8, DPMF_TOEPLITZ_BANDED, 2, coefficients, &c);
    o.strategy = c;
    o.samples = 2000;
    o.run.threads = 1;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 2, 0, 0, 0};
    if (status == DPMF_OK) status = dpmf_account_epsilon(2, 0.05, &o, &found);
    dpmf_strategy_free(c);
    return status;
}

static void test_any_allocation_of_a_calibration_may_fail(void **state) {
    (void)state;
    FAIL_EACH(calibrate_once());
    FAIL_EACH(simulate_once());
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_samplings_are_read_and_written_and_others_refused),
        cmocka_unit_test(test_sampling_amplifies_a_banded_strategy),
        cmocka_unit_test(test_amplification_refuses_strategies_that_are_not_square),
        cmocka_unit_test(test_schemes_have_the_columns_and_gram_matrices_of_the_definition),
        cmocka_unit_test(test_negative_entries_are_refused),
        cmocka_unit_test(test_calibration_without_sampling_is_exact),
        cmocka_unit_test(test_replace_one_at_probability_1_is_twice_the_gaussian),
        cmocka_unit_test(test_a_calibrated_sigma_is_certified),
        cmocka_unit_test(test_a_file_claims_what_its_account_finds),
        cmocka_unit_test(test_every_engine_calibrates),
        cmocka_unit_test(test_budgets_of_steps_and_probability_are_the_largest),
        cmocka_unit_test(test_queries_out_of_range_are_refused),
        cmocka_unit_test(test_a_statement_names_unit_and_bound_and_may_be_cut),
        cmocka_unit_test(test_any_allocation_of_a_calibration_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
