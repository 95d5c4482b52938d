/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocation: bounds from both sides that meet, simulation between them, and exact reductions.
 * account/test_product.c tests the pairs on a grid that make up several epochs.
 */
#include "account/allocation/allocation.h"
#include "base/random.h"
#include "support/allocation_simulated.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

static dpmf_privacy epsilon_of(double sigma, double delta, int64_t picks, int64_t bins, int64_t epochs) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, bins, picks, 0, 0};
    o.epochs = epochs;
    check_ok(dpmf_account_epsilon(sigma, delta, &o, &p));
    return p;
}

/* epsilon by the bound from above on a grid four times as fine, whose bound from below agrees to the digits given. */
typedef struct reference {
    double sigma;
    int64_t bins;
    double delta, epsilon;
} reference;

static void test_allocation_has_its_known_values(void **state) {
    static const reference known[] = {{.5, 10, 1e-5, 7.69513},  {1, 10, 1e-5, 2.18886}, {1, 100, 1e-5, .62095},
                                      {1, 100, 1e-12, 2.70238}, {2, 100, 1e-6, .20496}, {5, 10, 1e-5, .20920}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const reference *r = &known[i];
        const dpmf_privacy p = epsilon_of(r->sigma, r->delta, 1, r->bins, 1);
        assert_int_equal(p.kind, DPMF_UPPER_BOUND);
        assert_true(p.slack_met);
        if (!(p.epsilon > r->epsilon - 2e-4 && p.epsilon < r->epsilon * 1.001 + 1e-4))
            fail_msg("sigma %g, %lld bins, delta %g: %.9g, not %.9g", r->sigma, (long long)r->bins, r->delta, p.epsilon,
                     r->epsilon);
    }
}

/* Exact reductions: all of the steps, or one of one. */
static void test_all_of_the_steps_is_the_gaussian(void **state) {
    (void)state;
    for (int64_t t = 1; t <= 7; t += 3) {
        const dpmf_privacy p = epsilon_of(1.5, 1e-6, t, t, 2);
        assert_int_equal(p.kind, DPMF_EXACT);
        assert_true(p.epsilon == account_gaussian_epsilon(sqrt(2.0 * (double)t) / 1.5, log(1e-6)));
    }
}

/*
 * 50 settings: the bound is not below the simulated value minus five standard errors (a false alarm in 3e-7 of them),
 * and the bound from below is near it.
 */
static void test_allocation_is_not_below_simulation(void **state) {
    (void)state;
    enum { SETTINGS = 50, SAMPLES = 4000, BINS_MAX = 14 };
    double *z = malloc(sizeof *z * SAMPLES * BINS_MAX);
    assert_non_null(z);
    for (int i = 0; i < SETTINGS; i++) {
        const double sigma = 0.6 + 0.1 * (i % 10), epsilon = 0.1 * (1 + i % 7);
        const int64_t bins = 2 + 3 * (i / 10);
        double upper[2], lower[2], sum[2] = {0, 0}, squares[2] = {0, 0};
        for (int add = 0; add < 2; add++) {
            allocation_scheme s = {.sigma = sigma, .bins = bins, .least = 1e-8, .fineness = 0.05};
            check_ok(allocation_curve(&s, add, 1, &epsilon, NULL, &upper[add]));
            s.lower = 1;
            s.fineness = 0.02; /* the bound from below loses more */
            check_ok(allocation_curve(&s, add, 1, &epsilon, NULL, &lower[add]));
            if (!(lower[add] <= upper[add] && lower[add] >= 0.8 * upper[add] - 1e-4))
                fail_msg("sigma %g, %lld bins, epsilon %g: %g to %g", sigma, (long long)bins, epsilon, lower[add],
                         upper[add]);
        }
        base_random_normals(77, (uint64_t)i, SAMPLES * bins, z);
        for (int j = 0; j < SAMPLES; j++) {
            double mean = 0;
            for (int64_t k = 0; k < bins; k++)
                mean += exp(z[j * bins + k] / sigma - 0.5 / (sigma * sigma)) / (double)bins;
            const double pays[2] = {fmax(mean - exp(epsilon), 0), fmax(1 - exp(epsilon) * mean, 0)};
            for (int add = 0; add < 2; add++) {
                sum[add] += pays[add];
                squares[add] += pays[add] * pays[add];
            }
        }
        for (int add = 0; add < 2; add++) {
            const double mean = sum[add] / SAMPLES;
            const double error = sqrt(fmax(squares[add] / SAMPLES - mean * mean, 1e-12) / SAMPLES);
            assert_true(upper[add] >= mean - 5 * error);
        }
    }
    free(z);
}

/* At the deltas that people ask for, within 1 %: some of the 50 settings, the others in test_allocation_long.c. */
static void test_some_allocations_agree_with_simulation(void **state) {
    (void)state;
    for (int i = 1; i < ALLOCATION_SETTINGS; i += 7)
        check_allocation_setting(i);
}

/*
 * The law on several scales: above the bound from below on one grid, and near it; both curves, two noises, a law that was made for
 * a smaller delta too.
 */
static void test_scales_are_above_the_bound_from_below(void **state) {
    static const double sigmas[] = {0.5, 1.2}, epsilons[] = {0.05, 0.4, 1.1}, leasts[] = {1e-9, 1e-14};
    enum { BINS = 100 };
    (void)state;
    for (int i = 0; i < 6; i++) {
        const double sigma = sigmas[i % 2], epsilon = epsilons[i / 2 % 3], least = leasts[i / 2 % 2];
        allocation_scales scales;
        check_ok(allocation_scales_create(sigma, BINS, least, 0.02, NULL, &scales));
        assert_true(scales.count > 0);
        for (int add = 0; add < 2; add++) {
            const allocation_scheme one = {sigma, BINS, 1e-9, 0.004, 1}; /* it loses more */
            double lower, upper[2];
            check_ok(allocation_curve(&one, add, 1, &epsilon, NULL, &lower));
            allocation_scales_curve(&scales, add, 2, epsilon, upper);
            if (!(upper[1] >= lower && upper[1] <= 1.02 * lower + 2e-4 * upper[0] + 1e-9))
                fail_msg("sigma %g, epsilon %g, %s: %g to %g", sigma, epsilon, add ? "add" : "remove", lower, upper[1]);
        }
        allocation_scales_free(&scales);
    }
}

/* Several epochs of many steps, where one grid would need millions of points: below Poisson sampling of the same rate. */
static void test_epochs_of_many_steps_at_little_noise(void **state) {
    static const double sigmas[] = {0.4, 0.8};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const dpmf_privacy p = epsilon_of(sigmas[i], 1e-8, 1, 2048, 8);
        dpmf_account_options o = dpmf_account_options_defaults();
        dpmf_privacy poisson;
        o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 1.0 / 2048, 0, 0, 0, 0};
        o.compositions = 8 * 2048;
        check_ok(dpmf_account_epsilon(sigmas[i], 1e-8, &o, &poisson));
        assert_true(p.slack_met);
        assert_true(p.epsilon < 1.001 * poisson.epsilon && p.epsilon > 0.5 * poisson.epsilon);
    }
}

/* Several epochs and several picks: values from a grid twice as fine; more epochs cost more; less than when known. */
static void test_picks_and_epochs_compose(void **state) {
    (void)state;
    const dpmf_privacy four = epsilon_of(2, 1e-4, 4, 40, 1), ten = epsilon_of(3, 1e-4, 10, 100, 1);
    assert_true(four.epsilon > 1.0875 && four.epsilon < 1.0895);
    assert_true(ten.epsilon > 1.1025 && ten.epsilon < 1.1045);
    const dpmf_privacy twice = epsilon_of(3, 1e-5, 1, 10, 2), thrice = epsilon_of(3, 1e-5, 1, 10, 3);
    const dpmf_privacy once = epsilon_of(3, 1e-5, 1, 10, 1);
    assert_true(once.epsilon < twice.epsilon && twice.epsilon < thrice.epsilon);
    assert_true(thrice.epsilon < thrice.without_sampling);
    const dpmf_privacy uneven = epsilon_of(3, 1e-5, 3, 10, 1); /* blocks of 3, 3 and 4 */
    assert_true(uneven.epsilon > twice.epsilon && uneven.epsilon < uneven.without_sampling);
}

/* delta and sigma are inverse questions; bins that stay are one use with less noise. */
static void test_delta_falls_with_epsilon(void **state) {
    (void)state;
    for (int64_t bins = 2; bins <= 10; bins += bins == 3 ? 7 : 1)
        check_allocation_falls(bins, 2, 24, 0.25);
}

/* One of five at little noise: sigma was that without any sampling, 15 % more than is needed, though epsilon from sigma was not. */
static void test_few_steps_at_little_noise_are_amplified(void **state) {
    static const double cases[][3] = {{5, 8, 1e-3}, {5, 12, 1e-6}, {8, 10, 1e-4}}; /* steps, epsilon, delta */
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_account_options o = dpmf_account_options_defaults();
        dpmf_privacy p;
        o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, (int64_t)cases[i][0], 1, 0, 0};
        check_ok(dpmf_calibrate_sigma(cases[i][1], cases[i][2], &o, &p));
        const double whole = 1 / account_gaussian_mu(cases[i][1], log(cases[i][2]));
        if (!(p.sigma < 0.95 * whole))
            fail_msg("1 of %g, epsilon %g, delta %g: sigma %.6g, without sampling %.6g", cases[i][0], cases[i][1],
                     cases[i][2], p.sigma, whole);
    }
}

/*
 * Where adding a unit pays next to nothing, where the cut is far above what pays, and where noise is large: the bounds rose there to
 * the account without sampling, tens of orders of magnitude above the answer at a smaller epsilon.
 */
static void test_delta_falls_far_in_the_tail(void **state) {
    static const struct {
        double sigma;
        int64_t bins;
        double epsilon; /* from here on */
    } settings[] = {{2, 2, 6.4}, {2, 2, 7.36}, {3, 2, 6.24}, {5, 2, 3.52}, {5, 3, 3.52}, {3, 7, 5.28}, {3, 10, 4.88}};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        double before = 0;
        for (int step = 0; step < 3; step++) {
            const double epsilon = settings[i].epsilon + 0.08 * step;
            const double at = allocation_log_delta(settings[i].sigma, settings[i].bins, epsilon);
            if (!(at < before))
                fail_msg("sigma %g, 1 of %lld, epsilon %g: ln delta rises from %.9g to %.9g", settings[i].sigma,
                         (long long)settings[i].bins, epsilon, before, at);
            before = at;
        }
    }
}

/*
 * Few steps at little noise: delta by nested Gauss quadrature, one ratio after the other, right to the digits given. The law on several
 * scales ends far above it there, by a factor of 2 in these settings, and delta rose with the number of steps.
 */
static void test_delta_of_few_steps_agrees_with_quadrature(void **state) {
    static const struct {
        double sigma;
        int64_t bins;
        double epsilon, delta;
    } known[] = {{.6, 3, 5.04, 7.370158843e-4},  {.6, 4, 5.12, 3.465782794e-4}, {.65, 3, 5.12, 1.575479853e-4},
                 {.55, 5, 5.12, 9.445506805e-4}, {.8, 5, 4, 1.340112804e-5},    {2, 3, 1.5, 2.529214648e-7},
                 {1, 4, 8, 3.137058637e-20}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const double found = exp(allocation_log_delta(known[i].sigma, known[i].bins, known[i].epsilon));
        if (!(found >= known[i].delta * (1 - 1e-9) && found <= 1.001 * known[i].delta))
            fail_msg("sigma %g, 1 of %lld, epsilon %g: delta %.10g, not %.10g", known[i].sigma,
                     (long long)known[i].bins, known[i].epsilon, found, known[i].delta);
    }
}

static long double upper_tail(long double z) {
    return 0.5L * erfcl(z / sqrtl(2.0L));
}

/* A difference of two numbers that were both raised was below the truth by 6e-12 of itself. */
static void test_what_one_big_ratio_pays_is_not_below_the_truth(void **state) {
    (void)state;
    for (double sigma = 0.1; sigma < 20; sigma *= 1.3)
        for (double place = 0.5; place < 30; place += 0.37) {
            const double cut = exp(place / sigma - 0.5 / (sigma * sigma));
            allocation_law law;
            if (!(cut > 1.5 && cut < 1e100)) continue;
            check_ok(allocation_law_create(sigma, cut / 64, 64, ALLOCATION_UPPER, &law));
            const long double z = sigma * logl(law.cut) + 0.5L / sigma;
            for (int part = 8; part <= 16; part++) {
                const double k = part / 16.0 * law.cut;
                const long double truth = upper_tail(z - 1 / (long double)sigma) - k * upper_tail(z);
                if (!(allocation_call(&law, k) >= truth))
                    fail_msg("sigma %g, cut %g, k %g: %.17g, below %.17g", sigma, law.cut, k, allocation_call(&law, k),
                             (double)truth);
            }
            allocation_law_free(&law);
        }
}

/* e^(order x) underflows in every cell that has mass: the moment was 0, and with it the bound of what is below a window. */
static void test_a_moment_far_below_every_double_has_a_logarithm(void **state) {
    const double orders[] = {-500, -2000, -20000};
    allocation_law law;
    (void)state;
    check_ok(allocation_law_create(100, 1e-3, 1200, ALLOCATION_UPPER, &law));
    for (int i = 0; i < 3; i++) {
        const double found = allocation_log_moment(&law, orders[i]);
        double most = -INFINITY;
        for (int64_t j = 0; j < law.count; j++)
            if (law.mass[j] > 0) most = fmax(most, log(law.mass[j]) + orders[i] * law.step * (double)j);
        if (!(found >= most && found <= most + log((double)law.count)))
            fail_msg("order %g: %.17g, the largest term %.17g", orders[i], found, most);
    }
    allocation_law_free(&law);
}

/* At these ends of the range a grid had no whole number of cells, or a search for its first cut took hours. */
static void test_extreme_noise_and_epsilon_have_answers(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    (void)state;
    const dpmf_privacy little = epsilon_of(0.01, 1e-5, 1, 2, 1), much = epsilon_of(9e11, 1e-5, 1, 100, 1);
    assert_true(little.epsilon <= little.without_sampling && little.epsilon > 5000);
    assert_true(much.epsilon >= 0 && much.epsilon < 1e-6);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 2, 1, 0, 0};
    check_ok(dpmf_account_delta(1, 900, &o, &p));
    assert_true(p.delta > 0 && p.delta < 1e-300);
    check_ok(dpmf_account_delta(0.02, 2000, &o, &p));
    assert_true(p.delta > 0 && p.delta < 1e-50);
}

static void test_the_questions_turn_round(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p, back, bins;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 10, 1, 0, 0};
    check_ok(dpmf_calibrate_sigma(1, 1e-5, &o, &p));
    check_ok(dpmf_account_delta(p.sigma, 1, &o, &back));
    assert_true(back.delta <= 1e-5 && back.delta > 0.99e-5);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 10, 0, 0, 0};
    o.compositions = 40;
    check_ok(dpmf_account_epsilon(2 * p.sigma, 1e-5, &o, &bins));
    check_near(bins.epsilon, 1, 2e-3);
    o.epochs = 4;
    check_ok(dpmf_account_epsilon(2 * p.sigma, 1e-5, &o, &back));
    assert_true(back.epsilon < bins.epsilon); /* fresh choices hide more */
}

/* At little noise the delta of adding a unit is far below every double; the answer is that of removing it. */
static void test_epochs_at_little_noise_turn_round(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy found, back;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 400, 1, 0, 0};
    o.epochs = 2;
    check_ok(dpmf_account_delta(0.42, 8, &o, &found));
    assert_true(found.slack_met);
    check_ok(dpmf_account_epsilon(0.42, found.delta, &o, &back));
    check_near(back.epsilon, 8, 2e-2);
    check_ok(dpmf_calibrate_sigma(8, 1e-5, &o, &found));
    check_ok(dpmf_account_epsilon(found.sigma, 1e-5, &o, &back));
    assert_true(back.epsilon <= 8 && back.epsilon > 7.99);
}

static void test_bad_allocations_are_refused(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    dpmf_sampling s;
    (void)state;
    assert_int_equal(dpmf_sampling_parse("allocation:5,4", &s), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_sampling_parse("allocation:5", &s), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_sampling_parse("allocation:0,4", &s), DPMF_ERROR_ARGUMENT);
    check_ok(dpmf_sampling_parse("allocation:3,4", &o.sampling));
    char text[64];
    check_ok(dpmf_sampling_format(&o.sampling, text));
    assert_string_equal(text, "allocation:3,4");
    o.compositions = 9; /* not whole epochs */
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
    o.compositions = 0;
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_UNSUPPORTED);
    o.adjacency = DPMF_ADJACENCY_ZERO_OUT;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0};
    o.epochs = 2;
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocation_has_its_known_values),
        cmocka_unit_test(test_all_of_the_steps_is_the_gaussian),
        cmocka_unit_test(test_allocation_is_not_below_simulation),
        cmocka_unit_test(test_some_allocations_agree_with_simulation),
        cmocka_unit_test(test_scales_are_above_the_bound_from_below),
        cmocka_unit_test(test_epochs_of_many_steps_at_little_noise),
        cmocka_unit_test(test_picks_and_epochs_compose),
        cmocka_unit_test(test_delta_falls_with_epsilon),
        cmocka_unit_test(test_few_steps_at_little_noise_are_amplified),
        cmocka_unit_test(test_delta_falls_far_in_the_tail),
        cmocka_unit_test(test_delta_of_few_steps_agrees_with_quadrature),
        cmocka_unit_test(test_what_one_big_ratio_pays_is_not_below_the_truth),
        cmocka_unit_test(test_a_moment_far_below_every_double_has_a_logarithm),
        cmocka_unit_test(test_extreme_noise_and_epsilon_have_answers),
        cmocka_unit_test(test_the_questions_turn_round),
        cmocka_unit_test(test_epochs_at_little_noise_turn_round),
        cmocka_unit_test(test_bad_allocations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
