/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified accounting: its values lie above high-precision ones, and within the slack of them. The parts that the
 * certificate rests on are in account/test_dots_parts.c.
 */
#include "account/grid/grid.h"
#include "base/special.h"
#include "support/account_ask.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>

static const account_question usual = {.relative = 5e-4, .absolute = 5e-5};

static double epsilon_of(account_direction direction, double sigma, double q, int64_t n, double log_delta) {
    const account_pair pair = {direction, sigma, q, n};
    double epsilon = NAN;
    int met = -1;
    check_ok(ask_dots(&pair, epsilon_at(usual, log_delta), &epsilon, &met));
    assert_true(met == 0 || met == 1);
    assert_true(epsilon >= 0); /* not NaN */
    return epsilon;
}

static double log_delta_of(account_direction direction, double sigma, double q, int64_t n, double epsilon) {
    const account_pair pair = {direction, sigma, q, n};
    double log_delta = NAN;
    int met = -1;
    check_ok(ask_dots(&pair, log_delta_at(usual, epsilon), &log_delta, &met));
    assert_true(met == 0 || met == 1);
    assert_true(log_delta <= 0);
    return log_delta;
}

/* tight <= got <= 1.001 tight, or tight + 1e-4. `digits`: to which the tight value is known. */
static void check_certified(double got, double tight, double digits, const char *what) {
    if (got < tight - digits || !(got <= fmax(1.001 * tight, tight + 1e-4) + digits)) {
        fail_msg("%s: %.12g is not within 1.001 of %.12g from above", what, got, tight);
    }
}

/*
 * ln delta(epsilon), n = 1: ln(P[L > epsilon] - e^epsilon Q[L > epsilon]) by normal distribution functions, 60 digits.
 * n > 1: (1/pi) Re int_0^inf M(t+is)^n e^(-(t+is) epsilon) / ((t+is)(t+1+is)) ds along the saddle order t, M(z) =
 * E_P[e^(zL)], both integrals by the trapezoid rule in 45 digits (mpmath), terms down to 1e-32.
 */
typedef struct reference {
    account_direction direction;
    double sigma, q;
    int64_t n;
    double epsilon, log_delta;
} reference;

static const reference references[] = {
    {ACCOUNT_REMOVE, 1, .1, 1, 1.5, -10.686612250907249505},
    {ACCOUNT_ADD, 1, .1, 1, .09, -7.9873354456635252163},
    {ACCOUNT_REPLACE, 1, .1, 1, 1.78915, -11.512904934226703427},
    {ACCOUNT_REMOVE, .5, 1e-5, 1, .5, -25.530243828818261183},
    {ACCOUNT_REMOVE, .8, .2, 100, 24, -13.50794186893574947},
    {ACCOUNT_REMOVE, .8, .2, 100, 58.8, -57.501614247688664036},
    {ACCOUNT_REMOVE, 1.5, .05, 1000, 6.2, -13.816626963308264848},
    {ACCOUNT_REMOVE, 2, .001, 20000, .3, -14.05240093529651776},
    {ACCOUNT_REMOVE, .8, .05, 50000, 291, -13.732662547389268191},
    {ACCOUNT_REMOVE, 1, .001, 1000000, 14.385, -57.570479295649328104},
    {ACCOUNT_REMOVE, 10, .001, 100000, .3135, -57.564942426805595517},
    {ACCOUNT_ADD, 1, .001, 1000000, 8.75, -23.033094875612553444},
    {ACCOUNT_ADD, 5, .1, 1000, 3, -14.571313618264723905},
    {ACCOUNT_REPLACE, 1, .1, 100, 6, -4.5379968686365555046},
    {ACCOUNT_REPLACE, 3, .01, 10000, 1, -3.4737066050440345818},
    {ACCOUNT_REMOVE, 50, .5, 10000, 1, -2.0639277982789848237},
    {ACCOUNT_REPLACE, 2, .2, 100, 25, -69.216895627169582553},
};
enum { REFERENCES = sizeof references / sizeof *references };

static void test_dots_are_above_the_references_and_near(void **state) {
    (void)state;
    for (int i = 0; i < REFERENCES; i++) {
        const reference *r = &references[i];
        const account_pair pair = {r->direction, r->sigma, r->q, r->n};
        for (double part = 1; part > 0.05; part *= 0.1) { /* the usual slack, and a tenth of it */
            const account_question options = {.relative = part * 5e-4, .absolute = part * 5e-5};
            const double slack = fmax(options.relative * r->epsilon, options.absolute);
            double epsilon = NAN, log_delta = NAN, back = NAN;
            int met = 0;
            check_ok(ask_dots(&pair, epsilon_at(options, r->log_delta), &epsilon, &met));
            assert_int_equal(met, 1);
            if (!(epsilon >= r->epsilon * (1 - 1e-15) && epsilon <= r->epsilon + slack)) {
                fail_msg("point %d: epsilon %.15g, tight %.15g, slack %g", i, epsilon, r->epsilon, slack);
            }
            check_ok(ask_dots(&pair, log_delta_at(options, r->epsilon), &log_delta, &met));
            assert_int_equal(met, 1);
            check_ok(ask_dots(&pair, epsilon_at(options, log_delta), &back, &met));
            if (!(log_delta >= r->log_delta && fabs(back - r->epsilon) <= slack)) {
                fail_msg("point %d: ln delta %.15g, tight %.15g", i, log_delta, r->log_delta);
            }
        }
    }
}

/* Tight values of epsilon by the contour integral to nine digits. */
static void test_usual_queries_are_tight(void **state) {
    (void)state;
    static const struct {
        account_direction direction;
        double sigma, q;
        int64_t n;
        double delta, epsilon;
    } q[] = {
        {ACCOUNT_REMOVE, .8, .001, 100, 1e-6, .260337095},     {ACCOUNT_REMOVE, 3, .001, 100, 1e-6, .011204115},
        {ACCOUNT_REMOVE, .8, .2, 100, 1e-6, 24.322620180},     {ACCOUNT_REMOVE, 1.5, .05, 1000, 1e-6, 6.199691689},
        {ACCOUNT_REMOVE, 2, .001, 20000, 1e-6, .295801002},    {ACCOUNT_REMOVE, .8, .001, 100000, 1e-6, 2.914478209},
        {ACCOUNT_REMOVE, .8, .05, 50000, 1e-6, 291.369926153}, {ACCOUNT_REMOVE, 1, 1e-5, 1000000, 1e-8, .059100002},
        {ACCOUNT_ADD, 1, 1e-5, 1000000, 1e-8, .058530241},     {ACCOUNT_REMOVE, 10, 1e-3, 100000, 1e-10, .175162821},
        {ACCOUNT_ADD, 10, 1e-3, 100000, 1e-10, .174845487},    {ACCOUNT_REMOVE, 1, 1e-3, 1000000, 1e-10, 8.883000319},
        {ACCOUNT_ADD, 1, 1e-3, 1000000, 1e-10, 8.748532295},   {ACCOUNT_REMOVE, 5, .1, 100000, 1e-6, 49.982678346},
        {ACCOUNT_REMOVE, 1.289967807, .04, 2000, 1e-5, 8},     {ACCOUNT_REMOVE, .594348590, 1e-4, 1000000, 1e-8, 3},
        {ACCOUNT_ADD, .523581329, 1e-4, 1000000, 1e-8, 3},
    };
    for (size_t i = 0; i < sizeof q / sizeof *q; i++) {
        const double got = epsilon_of(q[i].direction, q[i].sigma, q[i].q, q[i].n, log(q[i].delta));
        check_certified(got, q[i].epsilon, 1e-8 * fmax(1, q[i].epsilon), "a usual query");
    }
    check_certified(epsilon_of(ACCOUNT_REPLACE, 1, .1, 1, log(1e-5)), 1.78915, 1e-5, "replace, one step");
}

/* ln delta of the Gaussian mechanism (Balle and Wang 2018, Theorem 8), where its two terms do not cancel too much. */
static double gaussian_log_delta(double mu, double epsilon) {
    const double a = base_log_normal_cdf(mu / 2 - epsilon / mu);
    const double b = epsilon + base_log_normal_cdf(-mu / 2 - epsilon / mu);
    return base_log_sub(a, b);
}

static void test_no_sampling_is_gaussian(void **state) {
    (void)state;
    static const double sigmas[] = {.3, 1, 7, 300}, deviations[] = {.5, 3, 12};
    for (int s = 0; s < 4; s++) {
        for (int64_t n = 1; n <= 10000; n *= 100) {
            for (int d = 0; d < 3; d++) {
                for (int direction = 0; direction < 3; direction++) {
                    const double mu = sqrt((double)n) / sigmas[s] * (direction == ACCOUNT_REPLACE ? 2 : 1);
                    const double epsilon = mu * mu / 2 + deviations[d] * mu;
                    const double tight = gaussian_log_delta(mu, epsilon);
                    check_certified(epsilon_of((account_direction)direction, sigmas[s], 1, n, tight), epsilon,
                                    1e-11 * epsilon, "no sampling");
                    assert_true(log_delta_of((account_direction)direction, sigmas[s], 1, n, epsilon) >= tight - 1e-10);
                }
            }
        }
    }
}

/* The exact delta of one step, from tails at the point of loss epsilon. */
static double one_step_log_delta(const account_pair *pair, double epsilon) {
    const pair_constants p = pair_prepare(pair);
    account_pair other = *pair;
    const double z = pair_inverse(&p, epsilon);
    if (isinf(z)) return -INFINITY;
    const double above = pair_log_above(&p, z);
    double q_above;
    if (pair->direction == ACCOUNT_REPLACE) {
        q_above = pair_log_below(&p, -z); /* M(-1) above z is M(1) below -z */
    } else {
        other.direction = pair->direction == ACCOUNT_ADD ? ACCOUNT_REMOVE : ACCOUNT_ADD;
        const pair_constants swapped = pair_prepare(&other);
        q_above = pair_log_below(&swapped, z);
    }
    if (!(above > epsilon + q_above)) return -INFINITY;
    return base_log_sub(above, epsilon + q_above);
}

static void test_one_step_is_exact(void **state) {
    (void)state;
    uint64_t seed = 5;
    int compared = 0, mets = 0;
    for (int i = 0; i < 200; i++) {
        const account_pair pair = {(account_direction)(i % 3), exp(1 + 2 * check_random(&seed)),
                                   exp(7 * (check_random(&seed) - 1)), 1};
        const double epsilon = exp(4 * check_random(&seed) - 2);
        const double tight = one_step_log_delta(&pair, epsilon);
        if (!(tight > -600 && tight < -0.7)) continue;
        /* what the difference of two tails has lost of its digits */
        const double digits = 1e-13 * (1 - tight) * (1 + 1 / epsilon);
        double log_delta = NAN, back = NAN;
        int met = 0;
        check_ok(ask_dots(&pair, log_delta_at(usual, epsilon), &log_delta, &met));
        if (log_delta < tight - digits) fail_msg("case %d: ln delta %.15g below %.15g", i, log_delta, tight);
        check_ok(ask_dots(&pair, epsilon_at(usual, tight), &back, &met));
        assert_true(back >= epsilon * (1 - 1e-9));
        if (met) check_certified(back, epsilon, 1e-9 * epsilon, "one step");
        mets += met;
        compared++;
    }
    assert_true(compared > 75 && mets > 0.9 * compared);
}

static void test_dots_are_monotone(void **state) {
    (void)state;
    for (int d = 0; d < 3; d++) {
        const account_direction direction = (account_direction)d;
        double last = INFINITY;
        for (double sigma = .4; sigma < 60; sigma *= 1.5) {
            const double epsilon = epsilon_of(direction, sigma, .01, 1000, -15);
            assert_true(epsilon < last);
            last = epsilon;
        }
        last = 0;
        for (double q = 1e-4; q <= 1; q *= 2) {
            const double epsilon = epsilon_of(direction, 1.2, q, 300, -15);
            assert_true(epsilon > last);
            last = epsilon;
        }
        last = 0;
        for (int64_t n = 1; n < 1000000; n = 3 * n + 1) {
            const double epsilon = epsilon_of(direction, 1.2, .01, n, -15);
            assert_true(epsilon > last);
            last = epsilon;
        }
        last = 0;
        for (double log_delta = -2; log_delta > -700; log_delta *= 1.4) {
            const double epsilon = epsilon_of(direction, 1.2, .01, 1000, log_delta);
            assert_true(epsilon > last || (epsilon == 0 && last == 0));
            last = epsilon;
        }
    }
}

/* The far corners: a number, not NaN, and not below what is certain. */
static void test_corners_of_the_dots_are_not_below_what_is_certain(void **state) {
    (void)state;
    static const double sigmas[] = {.05, 1, 1000}, qs[] = {1e-9, 1e-3, .5}, log_deltas[] = {-690, -25, -.7};
    for (int i = 0; i < 54; i++) {
        const double sigma = sigmas[i % 3], q = qs[i / 3 % 3], log_delta = log_deltas[i / 9 % 3];
        const int64_t n = i < 27 ? 1 : 1000;
        const double add = epsilon_of(ACCOUNT_ADD, sigma, q, n, log_delta);
        assert_true(add <= -(double)n * log1p(-q) * (1 + 1e-9)); /* the loss of adding is bounded */
        const double remove = epsilon_of(ACCOUNT_REMOVE, sigma, q, n, log_delta);
        /* A single step of the n is a bound too. */
        const account_pair one = {ACCOUNT_REMOVE, sigma, q, 1};
        if (isfinite(remove) && remove > 1e-3) assert_true(one_step_log_delta(&one, remove) <= log_delta + 1e-6);
    }
    /* A million million steps: q^2 n (e^(1/sigma^2) - 1) = mu^2, to which the limit is Gaussian (Dong et al. 2022). */
    const double mu = 1e-6 * sqrt(1e12 * expm1(1e-6)), log_delta = -23;
    const double many = epsilon_of(ACCOUNT_REMOVE, 1000, 1e-6, 1000000000000, log_delta);
    assert_true(gaussian_log_delta(mu, many) <= log_delta + 1e-3);
    assert_true(gaussian_log_delta(mu, many / 1.15) > log_delta); /* 2^22 points do not resolve more */
    /* Beyond the method's range: a worse pair, or no bound at all. */
    assert_true(isinf(epsilon_of(ACCOUNT_REMOVE, 1e-3, .1, 10, -20)));
    assert_true(epsilon_of(ACCOUNT_ADD, 1e-3, .1, 10, -20) <= -10 * log1p(-.1) * (1 + 1e-9));
    assert_true(isinf(epsilon_of(ACCOUNT_REMOVE, 1, .1, INT64_MAX, -20)));
    assert_true(log_delta_of(ACCOUNT_REMOVE, 1e-3, .1, 10, 1) == 0);
    assert_true(epsilon_of(ACCOUNT_REMOVE, 1e9, 1e-30, 10, -20) < 1e-4);
    /* Beyond the largest loss delta is 0; what is reported is a bound of it. */
    assert_true(log_delta_of(ACCOUNT_ADD, .7, .3, 64, 60) < -300);
}

static void test_dots_refuse_pairs_out_of_range(void **state) {
    (void)state;
    const account_pair good = {ACCOUNT_REMOVE, 1, .1, 10};
    account_pair bad = good;
    double out = 42;
    int met = 42;
    bad.sigma = 0;
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&bad, epsilon_at(usual, -10), &out, &met));
    check_message("sigma 0");
    bad.sigma = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&bad, log_delta_at(usual, 1), &out, &met));
    bad = good;
    bad.probability = 1.5;
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&bad, epsilon_at(usual, -10), &out, &met));
    check_message("1.5");
    bad = good;
    bad.compositions = 0;
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&bad, log_delta_at(usual, 1), &out, &met));
    bad = good;
    bad.direction = (account_direction)7;
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&bad, epsilon_at(usual, -10), &out, &met));
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, epsilon_at(usual, 0), &out, &met));
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, epsilon_at(usual, NAN), &out, &met));
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, epsilon_at(usual, -INFINITY), &out, &met));
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, log_delta_at(usual, -1), &out, &met));
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, log_delta_at(usual, INFINITY), &out, &met));
    const account_question no_slack = {.relative = 0, .absolute = 0};
    check_fails(DPMF_ERROR_ARGUMENT, ask_dots(&good, epsilon_at(no_slack, -10), &out, &met));
    assert_true(out == 42 && met == 42);
}

static int stop_after(void *context, const char *what, double done) {
    int *left = context;
    assert_non_null(what);
    assert_true(done <= 1);
    return (*left)-- <= 0;
}

static void test_dots_may_be_cancelled(void **state) {
    (void)state;
    const account_pair pair = {ACCOUNT_REMOVE, .594348590, 1e-4, 1000000};
    const uint64_t before = dpmf_memory_in_use();
    for (int calls = 0; calls < 4; calls++) {
        int left = calls;
        dpmf_run run = dpmf_run_defaults();
        run.progress = stop_after;
        run.context = &left;
        const account_question options = {.relative = 5e-4, .absolute = 5e-5, .run = &run};
        double epsilon = 42;
        int met = 42;
        assert_int_equal(ask_dots(&pair, epsilon_at(options, log(1e-8)), &epsilon, &met), DPMF_ERROR_CANCELLED);
        assert_true(epsilon == 42 && met == 42);
        assert_int_equal(dpmf_memory_in_use(), before);
    }
}

static void test_any_allocation_of_the_dots_may_fail(void **state) {
    (void)state;
    const account_pair pair = {ACCOUNT_REMOVE, 1, .1, 10};
    double epsilon = 0, log_delta = 0;
    int met = 0;
    FAIL_EACH(ask_dots(&pair, epsilon_at(usual, -12), &epsilon, &met));
    FAIL_EACH(ask_dots(&pair, log_delta_at(usual, epsilon), &log_delta, &met));
    assert_true(fabs(log_delta + 12) < 0.01);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dots_are_above_the_references_and_near),
        cmocka_unit_test(test_usual_queries_are_tight),
        cmocka_unit_test(test_no_sampling_is_gaussian),
        cmocka_unit_test(test_one_step_is_exact),
        cmocka_unit_test(test_dots_are_monotone),
        cmocka_unit_test(test_corners_of_the_dots_are_not_below_what_is_certain),
        cmocka_unit_test(test_dots_refuse_pairs_out_of_range),
        cmocka_unit_test(test_dots_may_be_cancelled),
        cmocka_unit_test(test_any_allocation_of_the_dots_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
