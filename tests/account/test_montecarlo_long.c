/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monte Carlo accounting, long runs: do the bounds hold as often as stated, and how close are they?
 *
 * Coverage: 400 repeats at confidence 0.9 with other seeds. If the probability were 0.9, fewer than 336 of 400 would
 * hold in 1e-4 of the tests (four standard deviations of 6).
 */
#include "account/montecarlo/scheme.h"
#include "support/account_schemes.h"
#include "support/check.h"

enum { REPEATS = 400, LEAST = 336 };

static const double COLUMN = 1;

static montecarlo_scheme subsampled(void) {
    return (montecarlo_scheme){.kind = MONTECARLO_SCHEME_SEPARATED,
                               .sigma = 1,
                               .steps = 1,
                               .separation = 1,
                               .bands = 1,
                               .probability = 0.1,
                               .columns = &COLUMN};
}

/* One step of the subsampled Gaussian: delta(1) is 2.4e-3, and 20000 samples see some tens of losses. */
static void test_simulated_deltas_hold_as_often_as_they_say(void **unused) {
    const montecarlo_scheme scheme = subsampled();
    const double exact = subsampled_delta(0.1, 1, 1);
    const dpmf_run run = {.threads = 0};
    int holds = 0;
    double sum = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < REPEATS; seed++) {
        const montecarlo_options options = {.samples = 20000, .confidence = 0.9, .seed = seed, .run = &run};
        double delta = 0;
        check_ok(montecarlo_delta(&scheme, 1, &options, &delta));
        holds += delta >= exact;
        sum += delta;
    }
    print_message("delta: %d of %d hold, %.3f of the true value on average\n", holds, REPEATS, sum / REPEATS / exact);
    assert_true(holds >= LEAST);
    assert_true(sum / REPEATS < 1.6 * exact);
}

/* False claims, by so little that the tests go on to their last sample: each wrongly shows one with probability 0.1. */
static void test_claims_are_wrong_as_often_as_they_say(void **unused) {
    const montecarlo_scheme scheme = subsampled();
    const double exact = subsampled_delta(0.1, 1, 1);
    const dpmf_run run = {.threads = 0};
    int shown[2] = {0, 0};
    (void)unused;
    for (uint64_t seed = 0; seed < REPEATS; seed++) {
        const montecarlo_options options = {.confidence = 0.9, .seed = seed, .run = &run};
        for (int i = 0; i < 2; i++) {
            int here = 0;
            double found = 0;
            check_ok(montecarlo_shows(&scheme, 1, exact * (i == 0 ? 0.998 : 1.02), &options, &here, &found));
            shown[i] += here;
        }
    }
    print_message("claims: %d of %d false ones shown, %d true ones\n", shown[0], REPEATS, shown[1]);
    assert_true(shown[0] <= REPEATS - LEAST);
    assert_int_equal(shown[1], REPEATS);
}

/* Searched and confirmed values: epsilon and the scale of sigma. */
static void test_searched_values_hold_as_often_as_they_say(void **unused) {
    const montecarlo_scheme scheme = subsampled();
    const dpmf_run run = {.threads = 0};
    int epsilon_holds = 0, scale_holds = 0;
    double epsilon_sum = 0, scale_sum = 0;
    (void)unused;
    for (uint64_t seed = 0; seed < REPEATS; seed++) {
        const montecarlo_options options = {.samples = 40000, .confidence = 0.9, .seed = seed, .run = &run};
        double epsilon = 0, scale = 0;
        check_ok(montecarlo_epsilon(&scheme, 2e-3, &options, &epsilon));
        check_ok(montecarlo_scale(&scheme, 1, 2e-3, &options, &scale));
        const double at_epsilon = subsampled_delta(0.1, 1, epsilon), at_scale = subsampled_delta(0.1, 1 / scale, 1);
        epsilon_holds += at_epsilon <= 2e-3;
        scale_holds += at_scale <= 2e-3;
        epsilon_sum += at_epsilon;
        scale_sum += at_scale;
    }
    print_message("epsilon: %d of %d hold, delta spent %.3f; scale: %d, %.3f\n", epsilon_holds, REPEATS,
                  epsilon_sum / REPEATS / 2e-3, scale_holds, scale_sum / REPEATS / 2e-3);
    assert_true(epsilon_holds >= LEAST && scale_holds >= LEAST);
    assert_true(epsilon_sum / REPEATS > 0.5 * 2e-3 && scale_sum / REPEATS > 0.5 * 2e-3);
}

/* Plain and tilted samples of the same delta agree, for many bins and long runs; five standard errors of both. */
static void test_plain_and_tilted_samples_agree(void **unused) {
    static const double slow[6] = {1, 0.5, 0.375, 0.3125, 0.2734375, 0.24609375};
    double *gram = toeplitz_gram(80, 16, 6, slow), *columns = toeplitz_columns(80, 6, slow);
    const montecarlo_scheme schemes[] = {{.kind = MONTECARLO_SCHEME_BINS, .sigma = 3, .bins = 16, .gram = gram},
                                         {.kind = MONTECARLO_SCHEME_BINS, .sigma = 1.5, .bins = 16, .gram = gram},
                                         {.kind = MONTECARLO_SCHEME_SEPARATED,
                                          .sigma = 2,
                                          .steps = 80,
                                          .separation = 16,
                                          .bands = 6,
                                          .probability = 0.2,
                                          .warm = 1,
                                          .columns = columns},
                                         {.kind = MONTECARLO_SCHEME_SEPARATED,
                                          .sigma = 3,
                                          .steps = 80,
                                          .separation = 6,
                                          .bands = 6,
                                          .probability = 0.5,
                                          .warm = 0,
                                          .columns = columns}};
    static const double epsilons[4] = {1.7, 5, 2.2, 2.5};
    const dpmf_run run = {.threads = 0};
    const double bet[2] = {0, 0};
    int tilts = 0;
    (void)unused;
    for (int c = 0; c < 4; c++) {
        montecarlo_passes passes;
        montecarlo_side side[2][2];
        int64_t samples = 2000000;
        check_ok(montecarlo_passes_open(&schemes[c], 5, &run, &passes));
        for (int tilted = 0; tilted < 2; tilted++) {
            montecarlo_draws_aim(&passes.draws, schemes[c].sigma, epsilons[c], tilted);
            check_ok(montecarlo_passes_draw(&passes, tilted, bet, &samples, side[tilted]));
        }
        for (int d = 0; d < 2; d++) {
            const double most = exp(side[1][d].log_most), plain = side[0][d].mean, tilted = most * side[1][d].mean;
            const double variance = side[0][d].square + most * most * side[1][d].square;
            print_message("scheme %d, direction %d: plain %.4g, tilted %.4g (M = %.3g)\n", c, d, plain, tilted, most);
            /* where a plain run sees nothing, its error is of the size of one sample */
            assert_true(fabs(plain - tilted) <= 5 * sqrt(variance / (double)samples) + 5 / (double)samples);
            tilts += most < 1;
        }
        montecarlo_passes_close(&passes);
    }
    assert_true(tilts >= 4);
    free(gram);
    free(columns);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_simulated_deltas_hold_as_often_as_they_say),
                                       cmocka_unit_test(test_claims_are_wrong_as_often_as_they_say),
                                       cmocka_unit_test(test_searched_values_hold_as_often_as_they_say),
                                       cmocka_unit_test(test_plain_and_tilted_samples_agree)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
