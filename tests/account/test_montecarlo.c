/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Monte Carlo accounting: log ratios at known outcomes, samples against integrals, bounds against exact values.
 * Statistical checks have fixed seeds and allow five standard errors: 6e-7 false alarms each over the choice of seeds.
 */
#include "account/montecarlo/montecarlo.h"

#include "account/montecarlo/scheme.h"
#include "base/random.h"
#include "support/account_schemes.h"
#include "support/check.h"
#include "support/failing_allocator.h"

static const double HALF[2] = {1, 0.5};

static montecarlo_scheme bins_of(double sigma, int64_t bins, const double *gram) {
    return (montecarlo_scheme){.kind = MONTECARLO_SCHEME_BINS, .sigma = sigma, .bins = bins, .gram = gram};
}

static montecarlo_scheme separated_of(double sigma, int64_t steps, int64_t separation, int64_t bands,
                                      double probability, int warm, const double *columns) {
    return (montecarlo_scheme){.kind = MONTECARLO_SCHEME_SEPARATED,
                               .sigma = sigma,
                               .steps = steps,
                               .separation = separation,
                               .bands = bands,
                               .probability = probability,
                               .warm = warm,
                               .columns = columns};
}

/* ---- log ratios ---- */

static void test_ratios_of_small_schemes_are_the_known_ones(void **unused) {
    /* <m_j, y> for y = (1, .5, 1, .5): m_0 = (1, .5, 1, .5), m_1 = (0, 1, .5, 1) */
    static const double u[2] = {2.5, 1.5};
    static const double ones[3] = {1, 1, 1};
    double out = 0, *gram = toeplitz_gram(4, 2, 2, HALF), *columns = toeplitz_columns(3, 2, HALF);
    (void)unused;
    const montecarlo_scheme bins = bins_of(1, 2, gram);
    check_ok(montecarlo_scheme_log_ratio(&bins, u, &out));
    check_near(out, 0.9052974004451105, 1e-12);
    const montecarlo_scheme cold = separated_of(1, 3, 2, 2, 0.5, 0, columns),
                            warm = separated_of(1, 3, 2, 2, 0.5, 1, columns);
    check_ok(montecarlo_scheme_log_ratio(&cold, ones, &out));
    check_near(out, 0.9239798890121712, 1e-12);
    check_ok(montecarlo_scheme_log_ratio(&warm, ones, &out));
    check_near(out, 0.8329398380809252, 1e-12);
    free(gram);
    free(columns);
}

/* The mixture by enumeration of all patterns: probabilities and |C x|^2, <C x, y>. */
static double enumerate(const montecarlo_scheme *s, int64_t i, const double *y) {
    if (i >= s->steps) return 1;
    double dot = 0, square = 0;
    for (int64_t j = 0; j < s->bands; j++) {
        const double c = s->columns[i * s->bands + j];
        square += c * c;
        if (i + j < s->steps) dot += c * y[i + j];
    }
    return (1 - s->probability) * enumerate(s, i + 1, y) +
           s->probability * exp((dot - square / 2) / (s->sigma * s->sigma)) * enumerate(s, i + s->separation, y);
}

/* Fast and exact forms of the separated ratio agree, also where numbers leave the range of doubles. */
static void test_fast_and_exact_ratios_agree(void **unused) {
    static const struct {
        int64_t steps, separation, bands;
        double probability, sigma;
    } cases[] = {{6, 2, 2, 0.5, 1},    {9, 3, 2, 0.2, 0.7},    {7, 12, 2, 0.9, 1},    {1, 1, 1, 0.3, 1},
                 {1500, 4, 2, 0.9, 1}, {200, 1, 1, 1, 2},      {300, 40, 2, 0.99, 1}, {50, 5, 2, 0.1, 0.02},
                 {1500, 3, 2, 0.5, 6}, {500, 7, 2, 0.01, 0.09}};
    uint64_t seed = 5;
    (void)unused;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int warm = 0; warm < 2; warm++) {
            const int64_t n = cases[c].steps;
            double *columns = toeplitz_columns(n, cases[c].bands, HALF);
            const montecarlo_scheme scheme = separated_of(cases[c].sigma, n, cases[c].separation, cases[c].bands,
                                                          cases[c].probability, warm, columns);
            montecarlo_draws draws;
            check_ok(montecarlo_draws_create(&scheme, &draws));
            double *y = malloc((size_t)(n * MONTECARLO_LANES) * sizeof *y), *one = malloc((size_t)n * sizeof *one);
            double *window = malloc((size_t)(n * MONTECARLO_LANES) * sizeof *window), ratio[MONTECARLO_LANES];
            for (int64_t i = 0; i < n * MONTECARLO_LANES; i++)
                y[i] = 4 * check_random(&seed);
            for (double s = 1; s < 3; s += 1.5) {
                montecarlo_separated_log_ratios(&draws, s, y, window, ratio);
                for (int k = 0; k < MONTECARLO_LANES; k++) {
                    const double want = montecarlo_separated_log_ratio(&draws, s, y + k, MONTECARLO_LANES, window);
                    check_near(ratio[k], want, 1e-11);
                    if (s > 1) continue;
                    double out = 0;
                    for (int64_t i = 0; i < n; i++)
                        one[i] = y[i * MONTECARLO_LANES + k] * scheme.sigma;
                    check_ok(montecarlo_scheme_log_ratio(&scheme, one, &out));
                    check_near(out, want, 1e-11);
                    if (n < 10 && !warm) check_near(out, log(enumerate(&scheme, 0, one)), 1e-12);
                }
            }
            free(y), free(one), free(window), free(columns);
            montecarlo_draws_free(&draws);
        }
}

/* E_Q[dP/dQ] = 1 for any scheme, over outcomes without the example. */
static void test_ratios_average_to_one(void **unused) {
    enum { COUNT = 20000, MOST = 12 };
    static const double slow[4] = {1, 0.5, 0.375, 0.3125};
    double *gram = toeplitz_gram(12, 4, 4, slow), *columns = toeplitz_columns(12, 4, slow);
    static const double same[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}; /* singular: three times the same bin */
    const montecarlo_scheme schemes[] = {
        bins_of(2.5, 4, gram), bins_of(1.5, 3, same), separated_of(2, 12, 4, 4, 0.3, 0, columns),
        separated_of(2, 12, 4, 4, 0.3, 1, columns), separated_of(2, 12, 20, 4, 0.7, 1, columns)};
    (void)unused;
    for (size_t c = 0; c < sizeof schemes / sizeof *schemes; c++) {
        montecarlo_draws draws;
        double sum = 0, square = 0;
        check_ok(montecarlo_draws_create(&schemes[c], &draws));
        const int64_t dimension = draws.dimension;
        for (int i = 0; i < COUNT; i++) {
            double z[MOST], outcome[MOST], ratio = 0;
            base_random_normals(c, (uint64_t)i, dimension, z);
            for (int64_t j = 0; j < dimension; j++) {
                outcome[j] = schemes[c].sigma * z[j];
                if (schemes[c].kind == MONTECARLO_SCHEME_SEPARATED) continue;
                outcome[j] = 0;
                for (int64_t k = 0; k <= j; k++)
                    outcome[j] += schemes[c].sigma * draws.root[j * dimension + k] * z[k];
            }
            check_ok(montecarlo_scheme_log_ratio(&schemes[c], outcome, &ratio));
            sum += exp(ratio);
            square += exp(2 * ratio);
        }
        const double mean = sum / COUNT, error = sqrt((square / COUNT - mean * mean) / COUNT);
        assert_true(error < 0.03 && fabs(mean - 1) < 5 * error);
        montecarlo_draws_free(&draws);
    }
    free(gram);
    free(columns);
}

/* ---- samples ---- */

/* Means of both directions from the samples, plain or tilted, must be `want` within five standard errors. */
static void check_means(const montecarlo_scheme *scheme, double epsilon, int tilted, const double want[2]) {
    const dpmf_run run = {.threads = 1};
    montecarlo_passes passes;
    montecarlo_side side[2];
    const double bet[2] = {0, 0};
    int64_t samples = 30000;
    check_ok(montecarlo_passes_open(scheme, 11, &run, &passes));
    montecarlo_draws_aim(&passes.draws, scheme->sigma, epsilon, tilted);
    check_ok(montecarlo_passes_draw(&passes, 0, bet, &samples, side));
    for (int d = 0; d < 2; d++) {
        const double most = exp(side[d].log_most), mean = most * side[d].mean;
        assert_true(tilted ? most <= 1 : most == 1);
        assert_true(want[d] <= most * (1 + 1e-9)); /* what the tilt claims of every sample holds for their mean */
        const double error = most * sqrt(side[d].square / (double)samples);
        if (!(fabs(mean - want[d]) <= 5 * error + 1e-3 * want[d] + 5e-5 * most))
            fail_msg("direction %d, tilted %d: %g, not %g", d, tilted, mean, want[d]);
    }
    montecarlo_passes_close(&passes);
}

/* Two outcomes: P = sum_x weight N(m_x), integrated over the plane: both deltas by the trapezoid rule. */
static void integrate(int count, const double *weight, double (*m)[2], double sigma, double epsilon, double delta[2]) {
    enum { GRID = 300 };
    const double low = -9 * sigma, step = (18 * sigma + 2) / GRID;
    delta[0] = delta[1] = 0;
    for (int i = 0; i <= GRID; i++)
        for (int j = 0; j <= GRID; j++) {
            const double x = low + i * step, y = low + j * step;
            const double q = exp(-(x * x + y * y) / (2 * sigma * sigma));
            double p = 0;
            for (int k = 0; k < count; k++)
                p += weight[k] * exp(-(pow(x - m[k][0], 2) + pow(y - m[k][1], 2)) / (2 * sigma * sigma));
            delta[0] += fmax(p - exp(epsilon) * q, 0);
            delta[1] += fmax(q - exp(epsilon) * p, 0);
        }
    for (int d = 0; d < 2; d++)
        delta[d] *= step * step / (2 * 3.14159265358979323846 * sigma * sigma);
}

static void test_means_agree_with_integrals_over_the_plane(void **unused) {
    const double p = 0.4;
    double m[3][2] = {{1, 0.5}, {0, 1}, {0, 0}}, delta[2];
    double *gram = toeplitz_gram(2, 2, 2, HALF), *columns = toeplitz_columns(2, 2, HALF);
    (void)unused;
    for (double epsilon = 0.1; epsilon < 6; epsilon *= 4)
        for (double sigma = 0.5; sigma < 2; sigma *= 2) {
            const double half[2] = {0.5, 0.5};
            const montecarlo_scheme bins = bins_of(sigma, 2, gram);
            integrate(2, half, m, sigma, epsilon, delta);
            for (int tilted = 0; tilted < 2; tilted++)
                check_means(&bins, epsilon, tilted, delta);
            for (int warm = 0; warm < 2; warm++) { /* warm: first free at step 0, or at step 1 with weight p */
                const montecarlo_scheme separated = separated_of(sigma, 2, 2, 2, p, warm, columns);
                const double all = 1 + (warm ? p : 0);
                const double weight[3] = {p / all, ((1 - p) * p + (warm ? p * p : 0)) / all,
                                          ((1 - p) * (1 - p) + (warm ? p * (1 - p) : 0)) / all};
                integrate(3, weight, m, sigma, epsilon, delta);
                for (int tilted = 0; tilted < 2; tilted++)
                    check_means(&separated, epsilon, tilted, delta);
            }
        }
    free(gram);
    free(columns);
}

/* One bin, and copies of one bin, are the Gaussian mechanism with mu = |m| / sigma; so is one step joined for sure. */
static void test_one_bin_is_the_gaussian_mechanism(void **unused) {
    static const double same[9] = {4, 4, 4, 4, 4, 4, 4, 4, 4}, column[3] = {2, 2, 2};
    (void)unused;
    for (double sigma = 0.25; sigma < 5; sigma *= 2)
        for (double epsilon = 0.5; epsilon < 5; epsilon *= 2) {
            const double mu = 2 / sigma, delta = gaussian_delta(mu, epsilon), want[2] = {delta, delta};
            const montecarlo_scheme one = bins_of(sigma, 1, same), three = bins_of(sigma, 3, same),
                                    step = separated_of(sigma, 1, 3, 1, 1, 0, column);
            for (int tilted = 0; tilted < 2; tilted++) {
                if (!tilted && delta < 1e-4) continue; /* too rare for a short plain run */
                check_means(&one, epsilon, tilted, want);
                check_means(&three, epsilon, tilted, want);
                check_means(&step, epsilon, tilted, want);
            }
        }
}

/* ---- bounds ---- */

static const dpmf_run ONE = {.threads = 1};

/* One step of the subsampled Gaussian, q = 1/10, sigma = 1: delta is known, and the bound is above it but not far. */
static void test_simulated_bounds_are_above_the_truth_and_near(void **unused) {
    static const double column = 1;
    const montecarlo_scheme scheme = separated_of(1, 1, 1, 1, 0.1, 0, &column);
    const montecarlo_options options = {.samples = 200000, .confidence = 0.999, .seed = 3, .run = &ONE};
    double delta = 0, epsilon = 0, scale = 0;
    (void)unused;
    /* wrong with probability 1e-3 over the seeds, and this is one */
    check_ok(montecarlo_delta(&scheme, 1, &options, &delta));
    assert_true(delta >= subsampled_delta(0.1, 1, 1) && delta <= 1.15 * subsampled_delta(0.1, 1, 1));
    check_ok(montecarlo_epsilon(&scheme, 1e-3, &options, &epsilon));
    assert_true(subsampled_delta(0.1, 1, epsilon) <= 1e-3 && subsampled_delta(0.1, 1, epsilon) >= 0.75e-3);
    check_ok(montecarlo_scale(&scheme, 1, 1e-3, &options, &scale));
    const double found = subsampled_delta(0.1, 1 / scale, 1);
    assert_true(found <= 1e-3 && found >= 0.75e-3);
}

/*
 * Claims about the same step, tested with other samples. A claim above the truth is shown, and with the figure that is shown above it;
 * one below it is not, in 10 tests of which each would wrongly show it with probability 1e-3, and a clearly false one ends early.
 */
static void test_true_claims_are_shown_and_false_ones_are_not(void **unused) {
    static const double column = 1;
    const montecarlo_scheme scheme = separated_of(1, 1, 1, 1, 0.1, 0, &column);
    const double exact = subsampled_delta(0.1, 1, 1), claims[] = {1.1, 0.9};
    (void)unused;
    for (uint64_t seed = 0; seed < 20; seed++) {
        const montecarlo_options options = {.confidence = 0.999, .seed = seed, .run = &ONE};
        const double claim = claims[seed % 2] * exact;
        double found = 0;
        int shown = -1;
        check_ok(montecarlo_shows(&scheme, 1, claim, &options, &shown, &found));
        assert_int_equal(shown, seed % 2 == 0);
        if (!shown) check_near(found, exact, 0.1);
        if (shown && !(found >= exact && found <= claim)) fail_msg("%g shown, true: %g", found, exact);
    }
    int shown = -1;
    double found = 0;
    const montecarlo_options options = {.confidence = 0.999, .run = &ONE};
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_shows(&scheme, 1, 0, &options, &shown, &found));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_shows(&scheme, -1, 1e-3, &options, &shown, &found));
}

/* With two bins the samples are tilted, and a claim of a bound that no sample passes is true without any. */
static void test_claims_of_tilted_samples(void **unused) {
    double *gram = toeplitz_gram(2, 2, 2, HALF), m[2][2] = {{1, 0.5}, {0, 1}}, exact[2];
    const double half[2] = {0.5, 0.5};
    const montecarlo_scheme scheme = bins_of(1, 2, gram);
    const montecarlo_options options = {.confidence = 0.999, .seed = 5, .run = &ONE};
    double found = 0;
    int shown = 0;
    (void)unused;
    integrate(2, half, m, 1, 4.5, exact);
    check_ok(montecarlo_shows(&scheme, 4.5, 1.05 * exact[0], &options, &shown, &found));
    assert_true(shown && found >= exact[0]);
    check_ok(montecarlo_shows(&scheme, 4.5, 0.9 * exact[0], &options, &shown, &found));
    assert_true(!shown);
    check_ok(montecarlo_shows(&scheme, 4.5, 0.999, &options, &shown, &found));
    assert_true(shown && found < 0.5);
    free(gram);
}

/* So little noise that numbers leave the range of doubles: a claim was shown where they became NaN or infinite. */
static void test_losses_beyond_doubles_show_nothing(void **unused) {
    static const double sigmas[] = {1e-120, 1e-141, 1e-155, 1e-200};
    const montecarlo_options options = {.confidence = 0.999, .seed = 5, .run = &ONE};
    (void)unused;
    for (int i = 0; i < 8; i++) { /* the second with columns as small as the noise */
        const double sigma = sigmas[i / 2], c = i % 2 == 0 ? 1 : 1e6 * sigma;
        const double apart[4] = {c * c, 0, 0, c * c}, columns[6] = {c, 0.5 * c, c, 0.5 * c, c, 0};
        const montecarlo_scheme schemes[] = {bins_of(sigma, 2, apart), separated_of(sigma, 3, 2, 2, 0.2, 1, columns)};
        for (int k = 0; k < 2; k++) {
            double found = 0;
            int shown = 0;
            if (i == 1) {
                check_ok(montecarlo_shows(&schemes[k], 1, 1e-3, &options, &shown, &found));
                assert_true(!shown && found > 1e-2);
            } else if (c > 1e-150) {
                check_fails(DPMF_ERROR_NUMERICAL, montecarlo_shows(&schemes[k], 1, 1e-3, &options, &shown, &found));
                check_message("sigma");
            } else {
                check_fails(DPMF_ERROR_NUMERICAL, montecarlo_delta(&schemes[k], 1, &options, &found));
            }
        }
    }
}

/* Few bins at delta = 1e-6: the tilted samples find it to a few percent where 2e5 plain ones see nothing. */
static void test_tilted_samples_find_a_small_delta(void **unused) {
    double *gram = toeplitz_gram(2, 2, 2, HALF), m[2][2] = {{1, 0.5}, {0, 1}}, exact[2];
    const double half[2] = {0.5, 0.5};
    const montecarlo_scheme scheme = bins_of(1, 2, gram);
    const montecarlo_options options = {.samples = 200000, .confidence = 0.999, .seed = 8, .run = &ONE};
    double epsilon = 0, delta = 0;
    (void)unused;
    check_ok(montecarlo_epsilon(&scheme, 1e-6, &options, &epsilon));
    integrate(2, half, m, 1, epsilon, exact);
    if (!(exact[0] <= 1e-6 && exact[0] >= 0.9e-6)) fail_msg("delta(%g) = %g, not just below 1e-6", epsilon, exact[0]);
    check_ok(montecarlo_delta(&scheme, epsilon, &options, &delta));
    assert_true(delta >= exact[0] && delta <= 1.1 * exact[0]);
    free(gram);
}

/* Where nothing is amplified the Gaussian bound is the answer, and delta(0) below delta makes epsilon 0. */
static void test_where_nothing_is_amplified_the_gaussian_is_the_answer(void **unused) {
    static const double one = 1;
    const montecarlo_options options = {.samples = 20000, .confidence = 0.99, .seed = 3, .run = &ONE};
    double value = -1;
    const montecarlo_scheme loud = bins_of(1, 1, &one), quiet = bins_of(1e5, 1, &one);
    (void)unused;
    check_ok(montecarlo_epsilon(&loud, 1e-5, &options, &value));
    check_near(gaussian_delta(1, value) / 1e-5, 1, 1e-6);
    check_ok(montecarlo_scale(&loud, value, 1e-5, &options, &value));
    check_near(value, 1, 1e-6);
    check_ok(montecarlo_epsilon(&quiet, 0.1, &options, &value));
    assert_true(value == 0);
}

static void test_simulations_have_the_same_bits_for_any_threads(void **unused) {
    double *gram = toeplitz_gram(12, 3, 2, HALF), *columns = toeplitz_columns(12, 2, HALF);
    const montecarlo_scheme schemes[] = {bins_of(4, 3, gram), separated_of(2, 12, 4, 2, 0.05, 1, columns)};
    (void)unused;
    for (int c = 0; c < 2; c++) {
        double first[4] = {0};
        for (int threads = 1; threads <= 3; threads++) {
            const dpmf_run run = {.threads = threads};
            const montecarlo_options options = {.samples = 20000, .confidence = 0.99, .seed = 1, .run = &run};
            double got[4];
            int passed;
            check_ok(montecarlo_delta(&schemes[c], 0.5, &options, &got[0]));
            check_ok(montecarlo_epsilon(&schemes[c], 0.01, &options, &got[1]));
            check_ok(montecarlo_scale(&schemes[c], 1, 0.01, &options, &got[2]));
            check_ok(montecarlo_test(&schemes[c], 0.5, 0.01, 20000, 1, &run, &passed, &got[3]));
            for (int i = 0; i < 4; i++) {
                if (threads == 1) first[i] = got[i];
                assert_true(got[i] == first[i] && got[i] > 0);
            }
        }
    }
    free(gram);
    free(columns);
}

/* ---- the test inside the mechanism ---- */

static void test_the_unconditional_delta_pays_for_the_test(void **unused) {
    double claim = 0, mean = 0;
    int passed = -1;
    (void)unused;
    const double delta = montecarlo_unconditional(5e-6, 11000000);
    check_near(delta / 9.93e-6, 1, 5e-4); /* 9.93e-6, at tau = 1.95 */
    const double x = 1.95 * 5e-6, kl = 5e-6 * log(5e-6 / x) + (1 - 5e-6) * log1p((x - 5e-6) / (1 - x));
    assert_true(delta <= x + (1 - x) * exp(-1.1e7 * kl));
    assert_true(delta >= 0.999 * (x + (1 - x) * exp(-1.1e7 * kl))); /* and that is nearly the best tau */
    assert_true(montecarlo_unconditional(5e-6, 100) > 0.01);        /* too few: x + (1-x)^101 at best */
    check_ok(montecarlo_claim(1e-5, 11000000, &claim));
    check_near(montecarlo_unconditional(claim, 11000000) / 1e-5, 1, 1e-6);
    assert_true(claim > 5e-6 && claim < 5.2e-6);
    claim = 7;
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_claim(1e-5, 1000, &claim));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_claim(0, 1000, &claim));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_claim(0.1, 0, &claim));
    assert_true(claim == 7);

    static const double one = 1;
    const montecarlo_scheme scheme = bins_of(1, 1, &one);
    const double exact = gaussian_delta(1, 1);
    check_ok(montecarlo_test(&scheme, 1, 1.05 * exact, 100000, 2, &ONE, &passed, &mean));
    assert_int_equal(passed, 1);
    check_near(mean / exact, 1, 0.04);
    check_ok(montecarlo_test(&scheme, 1, 0.95 * exact, 100000, 2, &ONE, &passed, &mean));
    assert_int_equal(passed, 0);
}

/* ---- refusals ---- */

static void refuse(const montecarlo_scheme *scheme, const char *part) {
    const montecarlo_options options = {.samples = 1000, .confidence = 0.9, .seed = 1, .run = &ONE};
    double out = 7;
    static const double outcome[4] = {0};
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_delta(scheme, 1, &options, &out));
    check_message(part);
    if (scheme->kind == MONTECARLO_SCHEME_SEPARATED)
        check_fails(DPMF_ERROR_ARGUMENT, montecarlo_scheme_log_ratio(scheme, outcome, &out));
    assert_true(out == 7);
}

static void test_schemes_that_are_none_are_refused(void **unused) {
    static const double good[4] = {1, 0.5, 0.5, 1}, lopsided[4] = {1, 0.5, 0.2, 1}, negative[4] = {1, -0.5, -0.5, 1},
                        indefinite[4] = {1, 2, 2, 1}, zero[4] = {0}, infinite[4] = {1, INFINITY, INFINITY, 1};
    static const double columns[4] = {1, 0.5, 1, 0}, past[4] = {1, 0.5, 1, 0.5}, minus[4] = {1, -0.5, 1, 0};
    const montecarlo_scheme bad[] = {bins_of(0, 2, good),
                                     bins_of(NAN, 2, good),
                                     bins_of(1, 0, good),
                                     bins_of(1, 2, NULL),
                                     bins_of(1, 2, lopsided),
                                     bins_of(1, 2, negative),
                                     bins_of(1, 2, indefinite),
                                     bins_of(1, 2, zero),
                                     bins_of(1, 2, infinite),
                                     separated_of(1, 0, 2, 2, 0.5, 0, columns),
                                     separated_of(1, 2, 1, 2, 0.5, 0, columns),
                                     separated_of(1, 2, 2, 2, 0, 0, columns),
                                     separated_of(1, 2, 2, 2, 1.5, 0, columns),
                                     separated_of(1, 2, 2, 2, 0.5, 0, past),
                                     separated_of(1, 2, 2, 2, 0.5, 0, minus),
                                     separated_of(1, 2, 2, 2, 0.5, 0, zero),
                                     separated_of(1, 2, 2, 2, 0.5, 0, NULL)};
    static const char *parts[] = {
        "sigma",      "sigma",      "1 to 65536", "1 to 65536",        "symmetric",           "at least 0",
        "eigenvalue", "positive",   "finite",     "at least 1",        "bands <= separation", "(0, 1]",
        "(0, 1]",     "at least 0", "at least 0", "all columns are 0", "at least 1"};
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(&bad[i], parts[i]);

    const montecarlo_scheme scheme = bins_of(1, 2, good);
    montecarlo_options options = {.samples = 1000, .confidence = 0.9, .seed = 1, .run = &ONE};
    double out = 7;
    int passed = 7;
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_delta(&scheme, -1, &options, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_delta(&scheme, INFINITY, &options, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_epsilon(&scheme, 9e-7, &options, &out));
    check_message("[1e-6, 1)");
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_epsilon(&scheme, 1, &options, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_scale(&scheme, NAN, 1e-5, &options, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_scale(&scheme, 1, 1e-9, &options, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_test(&scheme, 1, 0, 100, 1, &ONE, &passed, &out));
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_test(&scheme, 1, 0.1, 0, 1, &ONE, &passed, &out));
    options.samples = -1;
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_delta(&scheme, 1, &options, &out));
    options.samples = 1000;
    options.confidence = 1;
    check_fails(DPMF_ERROR_ARGUMENT, montecarlo_delta(&scheme, 1, &options, &out));
    assert_true(out == 7 && passed == 7);
}

static int stop_later(void *context, const char *what, double done) {
    int *left = context;
    assert_true(what[0] != 0 && done >= 0 && done <= 1);
    return --*left < 0;
}

static void test_simulations_may_be_cancelled_and_lose_memory(void **unused) {
    static const double same[4] = {1, 1, 1, 1}, columns[6] = {1, 0.5, 1, 0.5, 1, 0}; /* singular: the longest route */
    static const double apart[4] = {1, 0.2, 0.2, 1};
    const montecarlo_scheme schemes[] = {bins_of(1, 2, same), separated_of(1, 3, 2, 2, 0.2, 1, columns),
                                         bins_of(1, 2, apart)};
    const uint64_t before = dpmf_memory_in_use();
    (void)unused;
    for (int c = 1; c < 3; c++) /* the first is not amplified, and done after one look */
        for (int calls = 0; calls < 4; calls++) {
            int left = calls;
            double out = 7;
            const dpmf_run run = {.threads = 2, .progress = stop_later, .context = &left};
            const montecarlo_options options = {.samples = 50000, .confidence = 0.9, .seed = 1, .run = &run};
            check_fails(DPMF_ERROR_CANCELLED, montecarlo_scale(&schemes[c], 0.5, 0.01, &options, &out));
            assert_true(out == 7 && dpmf_memory_in_use() == before);
        }
    const montecarlo_options options = {.samples = 500, .confidence = 0.9, .seed = 1, .run = &ONE};
    double out = 0;
    static const double outcome[3] = {1, 2, 3};
    for (int c = 0; c < 3; c++) {
        FAIL_EACH(montecarlo_delta(&schemes[c], 1, &options, &out));
        FAIL_EACH(montecarlo_epsilon(&schemes[c], 0.1, &options, &out));
    }
    FAIL_EACH(montecarlo_scheme_log_ratio(&schemes[1], outcome, &out));
    assert_true(dpmf_memory_in_use() == before);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_ratios_of_small_schemes_are_the_known_ones),
                                       cmocka_unit_test(test_fast_and_exact_ratios_agree),
                                       cmocka_unit_test(test_ratios_average_to_one),
                                       cmocka_unit_test(test_means_agree_with_integrals_over_the_plane),
                                       cmocka_unit_test(test_one_bin_is_the_gaussian_mechanism),
                                       cmocka_unit_test(test_simulated_bounds_are_above_the_truth_and_near),
                                       cmocka_unit_test(test_true_claims_are_shown_and_false_ones_are_not),
                                       cmocka_unit_test(test_claims_of_tilted_samples),
                                       cmocka_unit_test(test_losses_beyond_doubles_show_nothing),
                                       cmocka_unit_test(test_tilted_samples_find_a_small_delta),
                                       cmocka_unit_test(test_where_nothing_is_amplified_the_gaussian_is_the_answer),
                                       cmocka_unit_test(test_simulations_have_the_same_bits_for_any_threads),
                                       cmocka_unit_test(test_the_unconditional_delta_pays_for_the_test),
                                       cmocka_unit_test(test_schemes_that_are_none_are_refused),
                                       cmocka_unit_test(test_simulations_may_be_cancelled_and_lose_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
