/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Capped sampling: never below what all outcomes of sampling give for tiny data sets, equal to uncapped sampling when the cap
 * cannot bind, known values, and what is refused.
 */
#include "account/capped/capped.h"
#include "base/binomial.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

enum { UNITS_MAX = 6, SUMS = 2 * UNITS_MAX + 1, POINTS = 1600, EVERY = 8 };

/* Weights of the sums of those who take part, values[0..n) in {-1, 0, 1}, over all draws and all choices of M of them. */
static void draw(int n, const int *values, double q, int cap, double weights[SUMS]) {
    memset(weights, 0, sizeof(double) * SUMS);
    for (unsigned drawn = 0; drawn < 1u << n; drawn++) {
        const int count = __builtin_popcount(drawn);
        const double chance = pow(q, count) * pow(1 - q, n - count);
        int kept_sets = 0;
        for (unsigned kept = drawn;; kept = (kept - 1) & drawn) {
            kept_sets += __builtin_popcount(kept) == (count < cap ? count : cap);
            if (kept == 0) break;
        }
        for (unsigned kept = drawn;; kept = (kept - 1) & drawn) {
            if (__builtin_popcount(kept) == (count < cap ? count : cap)) {
                int sum = 0;
                for (int i = 0; i < n; i++)
                    sum += kept >> i & 1 ? values[i] : 0;
                weights[sum + UNITS_MAX] += chance / kept_sets;
            }
            if (kept == 0) break;
        }
    }
}

typedef struct density {
    double at[POINTS];
} density;

static double width_of(double sigma) {
    return 2 * (UNITS_MAX + 6 * sigma) / POINTS;
}

static void density_of(const double weights[SUMS], double sigma, density *out) {
    for (int i = 0; i < POINTS; i++) {
        const double y = -(UNITS_MAX + 6 * sigma) + (i + 0.5) * width_of(sigma);
        out->at[i] = 0;
        for (int s = 0; s < SUMS; s++)
            out->at[i] += weights[s] * exp(-0.5 * (y - s + UNITS_MAX) * (y - s + UNITS_MAX) / (sigma * sigma)) /
                          (sigma * 2.5066282746310002);
    }
}

static double delta_once(const density *p, const density *q, double a, double width) {
    double sum = 0;
    for (int i = 0; i < POINTS; i++)
        sum += fmax(p->at[i] - a * q->at[i], 0) * width;
    return sum;
}

/* Every EVERY-th point: the edge of the set is then blurred by about 1e-3 of delta. */
static double delta_twice(const density *p, const density *q, double a, double width) {
    double sum = 0;
    for (int i = EVERY / 2; i < POINTS; i += EVERY)
        for (int j = EVERY / 2; j < POINTS; j += EVERY)
            sum += fmax(p->at[i] * p->at[j] - a * q->at[i] * q->at[j], 0);
    return sum * EVERY * EVERY * width * width;
}

/* The two worlds, the unit's value 1: in the other it is 0, absent, or -1. */
static void worlds(int n, int minus, int plus, double q, int cap, double sigma, dpmf_adjacency adjacency, density *with,
                   density *without) {
    int values[UNITS_MAX] = {0};
    double weights[SUMS];
    for (int i = 0; i < n - 1; i++)
        values[i] = i < minus ? -1 : i < minus + plus ? 1 : 0;
    values[n - 1] = 1;
    draw(n, values, q, cap, weights);
    density_of(weights, sigma, with);
    values[n - 1] = adjacency == DPMF_ADJACENCY_REPLACE_ONE ? -1 : 0;
    draw(adjacency == DPMF_ADJACENCY_ADD_REMOVE ? n - 1 : n, values, q, cap, weights);
    density_of(weights, sigma, without);
}

static void check_case(int n, int cap, double q, double sigma, dpmf_adjacency adjacency, double epsilon) {
    dpmf_i_account_capped_scheme s;
    dpmf_i_account_capped_make(q, sigma, cap, n, adjacency, &s);
    const double a = exp(epsilon), width = width_of(sigma);
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy twice;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.adjacency = adjacency;
    o.compositions = 2;
    o.batch_cap = cap;
    o.units = n;
    o.slack = 0.02;
    check_ok(dpmf_account_delta(sigma, epsilon, &o, &twice));
    for (int minus = 0; minus < n; minus++)
        for (int plus = 0; minus + plus < n; plus += minus == 0 ? 1 : n) { /* mixed signs of the others do less harm */
            density with, without;
            worlds(n, minus, plus, q, cap, sigma, adjacency, &with, &without);
            const double remove = delta_once(&with, &without, a, width), add = delta_once(&without, &with, a, width);
            assert_true(dpmf_i_account_capped_curve(&s, 0, a - 1) >= remove - 2e-5);
            assert_true(dpmf_i_account_capped_curve(&s, 1, a - 1) >= add - 2e-5);
            if (n > 4) continue;
            assert_true(twice.delta >= 0.998 * delta_twice(&with, &without, a, width) - 1e-5);
            assert_true(twice.delta >= 0.998 * delta_twice(&without, &with, a, width) - 1e-5);
        }
}

static void test_never_below_all_outcomes(void **state) {
    static const double epsilons[] = {0, 0.3, 1};
    (void)state;
    for (int n = 2; n <= UNITS_MAX; n++)
        for (int cap = 1; cap < n; cap++)
            for (int adjacency = 0; adjacency <= 2; adjacency++)
                for (size_t e = 0; e < 3; e++)
                    check_case(n, cap, e == 1 ? 0.5 : 0.2, n % 2 ? 0.7 : 1.5, (dpmf_adjacency)adjacency, epsilons[e]);
}

/* Accounted for as if there were no cap, the true delta would be above: the reason for all this. */
static void test_ignoring_the_cap_is_wrong(void **state) {
    density with, without;
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy uncapped;
    (void)state;
    worlds(4, 3, 0, 0.5, 1, 0.7, DPMF_ADJACENCY_ADD_REMOVE, &with, &without);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.5, 0, 0, 0, 0};
    check_ok(dpmf_account_delta(0.7, 3, &o, &uncapped));
    assert_true(delta_once(&with, &without, exp(3), width_of(0.7)) > 1.05 * uncapped.delta);
}

static dpmf_privacy epsilon_of(double q, double sigma, int64_t n, double delta, int64_t cap, int64_t units) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, q, 0, 0, 0, 0};
    o.compositions = n;
    o.batch_cap = cap;
    o.units = units;
    check_ok(dpmf_account_epsilon(sigma, delta, &o, &p));
    return p;
}

/* A prototype of the same curves on a grid of 4e-4; at + 5 and + 6 deviations the cap costs next to nothing. */
static void test_capped_sampling_has_its_known_values(void **state) {
    (void)state;
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 567, 50000).epsilon, 2.890, 2e-3);
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 589, 50000).epsilon, 1.869, 2e-3);
    check_near(epsilon_of(.01, 1, 1000, 1e-5, 612, 50000).epsilon, 1.8288, 1e-3);
    check_near(epsilon_of(.001, .8, 2000, 1e-6, 1159, 1000000).epsilon, .5639, 1e-3);
    const dpmf_privacy none = epsilon_of(.01, 1, 1000, 1e-5, 0, 0),
                       never = epsilon_of(.01, 1, 1000, 1e-5, 50000, 50000);
    assert_true(none.epsilon == never.epsilon);
    assert_true(epsilon_of(.01, 1, 1000, 1e-5, 49999, 50000).epsilon <= 1.001 * none.epsilon);
}

/* Coupling: (1 + e^epsilon) sum of tau above the uncapped delta, and nothing where the cap cannot bind. */
static void test_min_separation_is_coupled_with_the_uncapped_run(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy plain, capped, never;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_MIN_SEPARATION, 0.2, 2, 0, 0, 0};
    o.compositions = 4;
    o.samples = 1 << 14;
    check_ok(dpmf_account_delta(1, 1, &o, &plain));
    o.sampling.cap = 260; /* of 1000, 200 in the first step and fewer later */
    o.sampling.units = 1000;
    check_ok(dpmf_account_delta(1, 1, &o, &capped));
    double tau = 0, drawn[4] = {0.2, 0.2 * 0.8, 0.2 * (0.8 * 0.8 + 0.2), 0};
    drawn[3] = 0.2 * (1 - drawn[2]);
    for (int t = 0; t < 4; t++)
        tau += 0.26 * dpmf_i_base_binomial_at_least(261, 1000, drawn[t]);
    assert_true(tau > 1e-7);
    check_near(capped.delta - plain.delta, (1 + exp(1)) * tau, 1e-6 * tau + 1e-15);
    assert_non_null(strstr(capped.method, "coupled"));
    o.sampling.cap = 1000;
    check_ok(dpmf_account_delta(1, 1, &o, &never));
    assert_true(never.delta == plain.delta);
}

static void test_the_least_cap_costs_a_thousandth_and_one_less_more(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy plain, with;
    int64_t cap = 0;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.01, 0, 0, 0, 0};
    o.compositions = 1000;
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &plain));
    o.units = 50000;
    check_ok(dpmf_calibrate_cap(2, 1e-5, 0, &o, &cap, &with));
    assert_true(cap > 500 + 4 * 22 && cap < 500 + 7 * 23);
    assert_true(with.sigma <= plain.sigma * 1.0011);
    o.sampling.cap = cap - 8; /* a look at delta has a slack of its own */
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &with));
    assert_true(with.sigma > plain.sigma * 1.0009);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_calibrate_cap(2, 1e-5, 2, &o, &cap, NULL));
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_ALLOCATION, 0, 10, 1, 0, 0};
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_calibrate_cap(2, 1e-5, 0, &o, &cap, NULL));
}

static void test_questions_and_refusals(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p, back;
    (void)state;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC, 0.01, 4, 0, 0, 0};
    o.compositions = 100;
    o.batch_cap = 130; /* blocks of 2500 and 2501 units, of which 100 on average */
    o.units = 10001;
    check_ok(dpmf_calibrate_sigma(2, 1e-5, &o, &p));
    check_ok(dpmf_account_delta(p.sigma, 2, &o, &back));
    assert_true(back.delta <= 1e-5 && back.delta > 0.95e-5);
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_BALLS_IN_BINS, 0, 4, 0, 0, 0};
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_UNSUPPORTED);
    check_message("balls-in-bins");
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 20, 10001};
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
    check_message("the same");
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0};
    o.units = 0;
    assert_int_equal(dpmf_account_epsilon(1, 1e-5, &o, &p), DPMF_ERROR_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_never_below_all_outcomes),
        cmocka_unit_test(test_ignoring_the_cap_is_wrong),
        cmocka_unit_test(test_capped_sampling_has_its_known_values),
        cmocka_unit_test(test_min_separation_is_coupled_with_the_uncapped_run),
        cmocka_unit_test(test_the_least_cap_costs_a_thousandth_and_one_less_more),
        cmocka_unit_test(test_questions_and_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
