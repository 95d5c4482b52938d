/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches of a fixed size, and groups: never below the sum over all outcomes for tiny data sets, the Gaussian mechanism where
 * every batch is all units, 40-digit integrals of the mixtures, known reductions, and refusals.
 */
#include "account/capped/counted.h"
#include "support/check.h"
#include "support/counted_reference.h"

#include <math.h>
#include <string.h>

/* ---- all outcomes: no code of the library ---- */

enum { UNITS_MAX = 8, SUMS = 4 * UNITS_MAX + 1, POINTS = 3200, EVERY = 16 };

/* Values are in halves, and so are sums. */
typedef struct law {
    double of[SUMS];
} law;

typedef enum way { WITHOUT, WITH, POISSON } way;

static void add_outcome(law *out, int sum, double chance) {
    assert_true(sum >= -2 * UNITS_MAX && sum <= 2 * UNITS_MAX);
    out->of[sum + 2 * UNITS_MAX] += chance;
}

/* The law of the sum of a batch: all sets of m, all m^n lists of draws, or all sets with their chances. */
static law sums_of(way how, int n, const int *values, int m, double q) {
    law out = {{0}};
    int64_t lists = 1;
    for (int i = 0; how == WITH && i < m; i++)
        lists *= n;
    for (int64_t list = 0; how == WITH && list < lists; list++) {
        int sum = 0;
        for (int64_t rest = list, i = 0; i < m; i++, rest /= n)
            sum += values[rest % n];
        add_outcome(&out, sum, 1.0 / (double)lists);
    }
    double sets = 0;
    for (unsigned set = 0; how != WITH && set < 1u << n; set++)
        sets += __builtin_popcount(set) == m;
    for (unsigned set = 0; how != WITH && set < 1u << n; set++) {
        const int size = __builtin_popcount(set);
        int sum = 0;
        for (int i = 0; i < n; i++)
            sum += set >> i & 1 ? values[i] : 0;
        if (how == WITHOUT && size == m) add_outcome(&out, sum, 1 / sets);
        if (how == POISSON) add_outcome(&out, sum, pow(q, size) * pow(1 - q, n - size));
    }
    return out;
}

typedef struct density {
    double at[POINTS];
} density;

static double width_of(double sigma) {
    return 2 * (UNITS_MAX + 7 * sigma) / POINTS;
}

static void density_of(const law *sums, double sigma, density *out) {
    for (int i = 0; i < POINTS; i++) {
        const double y = -(UNITS_MAX + 7 * sigma) + (i + 0.5) * width_of(sigma);
        out->at[i] = 0;
        for (int s = 0; s < SUMS; s++) {
            const double z = (y - 0.5 * (s - 2 * UNITS_MAX)) / sigma;
            if (sums->of[s] > 0) out->at[i] += sums->of[s] * exp(-0.5 * z * z) / (sigma * 2.5066282746310002);
        }
    }
}

static double delta_once(const density *p, const density *q, double a, double width) {
    double sum = 0;
    for (int i = 0; i < POINTS; i++)
        sum += fmax(p->at[i] - a * q->at[i], 0) * width;
    return sum;
}

/* Two steps, whose data may differ: p[0], p[1] against q[0], q[1]. Every EVERY-th point. */
static double delta_twice(const density *p, const density *q, const density *p2, const density *q2, double a,
                          double width) {
    double sum = 0;
    for (int i = EVERY / 2; i < POINTS; i += EVERY)
        for (int j = EVERY / 2; j < POINTS; j += EVERY)
            sum += fmax(p->at[i] * p2->at[j] - a * q->at[i] * q2->at[j], 0);
    return sum * EVERY * EVERY * width * width;
}

typedef struct setting {
    way how;
    int units, group, draws;
    double q, sigma, epsilon;
    dpmf_adjacency adjacency;
} setting;

/* The others weigh in by `minus` times -1, `plus` times 1, and else -1/2; the group is 1 and becomes 0, absent or -1. */
static void worlds(const setting *s, int minus, int plus, density *with, density *without) {
    const int n = s->units, g = s->group, gone = s->adjacency == DPMF_ADJACENCY_ADD_REMOVE;
    int values[UNITS_MAX] = {0};
    for (int i = 0; i < n; i++)
        values[i] = i >= n - g ? 2 : i < minus ? -2 : i < minus + plus ? 2 : -1;
    law sums = sums_of(s->how, n, values, s->draws, s->q);
    density_of(&sums, s->sigma, with);
    for (int i = n - g; i < n; i++)
        values[i] = s->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? -2 : 0;
    sums = sums_of(s->how, gone ? n - g : n, values, s->draws, s->q);
    density_of(&sums, s->sigma, without);
}

static dpmf_account_options options_of(const setting *s) {
    dpmf_account_options o = dpmf_account_options_defaults();
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, s->q, 0, 0, 0, 0};
    if (s->how != POISSON)
        o.sampling = (dpmf_sampling){
            s->how == WITH ? DPMF_SAMPLING_FIXED_REPLACE : DPMF_SAMPLING_FIXED, 0, 1, s->draws, 0, s->units};
    o.adjacency = s->adjacency;
    o.group = s->group;
    o.slack = 0.01;
    return o;
}

static int cases;

/* 3e-6: what the rule misses at the edge of the set; two steps have a sixteenth of the points. */
static void check_setting(const setting *s, int composed) {
    enum { MIXES = 4 };
    const double a = exp(s->epsilon), width = width_of(s->sigma);
    const int others = s->units - s->group;
    const int mixes[MIXES][2] = {{others, 0}, {0, others}, {others / 2, others - others / 2}, {0, 0}};
    static density with[MIXES], without[MIXES];
    dpmf_account_options o = options_of(s);
    dpmf_privacy once, twice;
    check_ok(dpmf_account_delta(s->sigma, s->epsilon, &o, &once));
    o.compositions = 2;
    check_ok(dpmf_account_delta(s->sigma, s->epsilon, &o, &twice));
    for (int i = 0; i < MIXES; i++) {
        worlds(s, mixes[i][0], mixes[i][1], &with[i], &without[i]);
        assert_true(once.delta >= delta_once(&with[i], &without[i], a, width) - 3e-6);
        assert_true(once.delta >= delta_once(&without[i], &with[i], a, width) - 3e-6);
        cases += 2;
    }
    for (int i = 0; composed && i < MIXES; i++)
        for (int j = 0; j <= i; j++) {
            const double away = delta_twice(&with[i], &without[i], &with[j], &without[j], a, width);
            const double back = delta_twice(&without[i], &with[i], &without[j], &with[j], a, width);
            assert_true(twice.delta >= 0.998 * fmax(away, back) - 2e-5);
            cases += 2;
        }
}

static void test_fixed_sizes_are_never_below_all_outcomes(void **state) {
    static const double epsilons[] = {0, 0.4, 1.5};
    (void)state;
    for (int n = 2; n <= 8; n++)
        for (int m = 1; m <= n; m++)
            for (int adjacency = 0; adjacency <= 2; adjacency++)
                for (int e = 0; e < 3; e++) {
                    setting s = {WITHOUT, n, 1, m, 0, (n + m) % 2 ? 0.8 : 1.6, epsilons[e], (dpmf_adjacency)adjacency};
                    /* with M = N there is no batch of M without the unit */
                    if (m < n || adjacency != DPMF_ADJACENCY_ADD_REMOVE) check_setting(&s, e == 1 && n % 3 == 2);
                    s.how = WITH;
                    if (n <= 5 && m <= 4) check_setting(&s, e == 1 && m == 3);
                }
    print_message("%d cases\n", cases);
    assert_true(cases > 2000);
}

static void test_groups_are_never_below_all_outcomes(void **state) {
    (void)state;
    for (int g = 2; g <= 4; g++)
        for (int adjacency = 0; adjacency <= 2; adjacency++)
            for (int e = 0; e <= 2; e++) {
                setting s = {POISSON, g, g, 0, e == 1 ? 0.3 : 0.1, 0.7 + 0.5 * e, 0.7 * e, (dpmf_adjacency)adjacency};
                check_setting(&s, 1);
                s = (setting){WITHOUT, 7, g, 3, 0, s.sigma, s.epsilon, s.adjacency};
                check_setting(&s, e == 1);
                s = (setting){WITH, 5, g, 3, 0, s.sigma, s.epsilon, s.adjacency};
                check_setting(&s, e == 1);
            }
}

/* ---- against integrals of 40 digits (tests/python/reference_counted.py) ---- */

static void test_curves_are_those_of_forty_digits(void **state) {
    double loosest = 0;
    (void)state;
    for (size_t i = 0; i < sizeof COUNTED_REFERENCE / sizeof *COUNTED_REFERENCE; i++) {
        const counted_reference *r = &COUNTED_REFERENCE[i];
        counted_scheme s = {.mu = 1 / r->sigma,
                            .adjacency = r->replace ? DPMF_ADJACENCY_REPLACE_ONE : DPMF_ADJACENCY_ZERO_OUT};
        counted_binomial(r->group, r->q, &s.law);
        const double remove = counted_curve(&s, 0, expm1(r->epsilon), 1e-300);
        const double add = counted_curve(&s, 1, expm1(r->epsilon), 1e-300);
        assert_true(remove >= r->remove && add >= r->add);
        loosest = fmax(loosest, fmax(remove / r->remove, 1) - 1);
        assert_true(add <= r->add * (1 + 5e-6) + 1e-11); /* near the largest loss of adding, where it ends */
    }
    assert_true(loosest < 3e-8);
}

/* The same through the account: one composition, by delta. */
static void test_accounts_of_groups_are_near_the_integrals(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof COUNTED_REFERENCE / sizeof *COUNTED_REFERENCE; i += 3) {
        const counted_reference *r = &COUNTED_REFERENCE[i];
        dpmf_account_options o = dpmf_account_options_defaults();
        dpmf_privacy found;
        o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, r->q, 0, 0, 0, 0};
        o.group = r->group;
        if (r->replace) o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
        const double delta = fmax(r->remove, r->add);
        check_ok(dpmf_account_epsilon(r->sigma, delta, &o, &found));
        assert_true(found.epsilon >= r->epsilon * (1 - 1e-12));
        assert_true(found.epsilon <= r->epsilon * (1 + 3e-4) + 1e-4);
    }
}

/* ---- reductions ---- */

static dpmf_privacy epsilon_of(dpmf_sampling sampling, int64_t group, double sigma, int64_t n,
                               dpmf_adjacency adjacency) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy found;
    o.sampling = sampling;
    o.group = group;
    o.compositions = n;
    o.adjacency = adjacency;
    check_ok(dpmf_account_epsilon(sigma, 1e-6, &o, &found));
    return found;
}

static void test_a_group_of_one_is_a_unit(void **state) {
    const dpmf_sampling samplings[] = {{DPMF_SAMPLING_NONE, 0, 0, 0, 0, 0},
                                       {DPMF_SAMPLING_POISSON, 0.02, 0, 0, 0, 0},
                                       {DPMF_SAMPLING_BLOCK_CYCLIC, 0.02, 4, 0, 0, 0},
                                       {DPMF_SAMPLING_ALLOCATION, 0, 50, 1, 0, 0},
                                       {DPMF_SAMPLING_FIXED, 0, 1, 20, 0, 1000}};
    (void)state;
    for (size_t i = 0; i < sizeof samplings / sizeof *samplings; i++)
        assert_true(epsilon_of(samplings[i], 0, 1.5, 50, DPMF_ADJACENCY_ZERO_OUT).epsilon ==
                    epsilon_of(samplings[i], 1, 1.5, 50, DPMF_ADJACENCY_ZERO_OUT).epsilon);
    for (int i = 1; i <= 40; i++) { /* the curve of a group of one is that of a unit */
        const double q = pow(10, -0.1 * i), less_one = 0.03 * i * q, mu = 0.2 + 0.07 * i;
        counted_scheme s = {.mu = mu};
        counted_binomial(1, q, &s.law);
        check_near(counted_curve(&s, 0, less_one, 1e-300) / grid_poisson_remove(q, mu, less_one), 1, 1e-9);
        check_near(counted_curve(&s, 1, less_one, 1e-300), grid_poisson_add(q, mu, less_one),
                   1e-7 * grid_poisson_add(q, mu, less_one) + 1e-11 * q);
        s.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
        check_near(counted_curve(&s, 0, less_one, 1e-300) / grid_poisson_replace(q, mu, less_one), 1, 1e-9);
    }
}

static void test_a_group_without_sampling_moves_as_often(void **state) {
    const dpmf_sampling none = {0};
    (void)state;
    for (int64_t g = 2; g <= 1000; g *= 3) {
        const dpmf_privacy group = epsilon_of(none, g, 10, 3, DPMF_ADJACENCY_ZERO_OUT),
                           one = epsilon_of(none, 1, 10.0 / (double)g, 3, DPMF_ADJACENCY_ZERO_OUT);
        check_near(group.epsilon / one.epsilon, 1, 1e-12);
        assert_int_equal(group.kind, DPMF_EXACT);
    }
}

static void test_batches_of_all_units_are_the_gaussian_mechanism(void **state) {
    (void)state;
    for (int adjacency = 0; adjacency <= 2; adjacency++) {
        const dpmf_privacy all =
            epsilon_of((dpmf_sampling){DPMF_SAMPLING_FIXED, 0, 1, 40, 0, 40}, 0, 2, 7, (dpmf_adjacency)adjacency);
        /* under add-remove adjacency the data set with one more leaves another unit out */
        const double sigma = adjacency == DPMF_ADJACENCY_ZERO_OUT ? 2 : 1;
        const dpmf_privacy gaussian = epsilon_of((dpmf_sampling){0}, 0, sigma, 7, DPMF_ADJACENCY_ZERO_OUT);
        assert_true(all.epsilon == gaussian.epsilon);
        assert_int_equal(all.kind, DPMF_EXACT);
        const dpmf_privacy nearly = epsilon_of((dpmf_sampling){DPMF_SAMPLING_FIXED, 0, 1, 999999, 0, 1000000}, 0, 2, 7,
                                               (dpmf_adjacency)adjacency);
        check_near(nearly.epsilon / gaussian.epsilon, 1, adjacency == DPMF_ADJACENCY_ZERO_OUT ? 0.2 : 1e-3);
    }
}

/* Blocks of N/B units are drawn from as a data set of N/B units is, in every B-th step. */
static void test_blocks_are_smaller_data_sets(void **state) {
    (void)state;
    for (int adjacency = 0; adjacency <= 2; adjacency++)
        for (int kind = DPMF_SAMPLING_FIXED; kind <= DPMF_SAMPLING_FIXED_REPLACE; kind++) {
            const dpmf_sampling blocks = {(dpmf_sampling_kind)kind, 0, 4, 10, 0, 4000},
                                whole = {(dpmf_sampling_kind)kind, 0, 1, 10, 0, 1000},
                                uneven = {(dpmf_sampling_kind)kind, 0, 4, 10, 0, 4003};
            const double one = epsilon_of(whole, 0, 1.2, 25, (dpmf_adjacency)adjacency).epsilon;
            assert_true(epsilon_of(blocks, 0, 1.2, 100, (dpmf_adjacency)adjacency).epsilon == one);
            const double larger = epsilon_of(uneven, 0, 1.2, 100, (dpmf_adjacency)adjacency).epsilon;
            assert_true(larger <= one * (1 + 1e-6) && larger >= one * 0.999);
        }
}

/* A cap that always binds draws batches of a fixed size: another account of the same law (account/capped/capped.c). */
static void test_a_cap_that_always_binds_is_a_fixed_size(void **state) {
    (void)state;
    for (int adjacency = 0; adjacency <= 2; adjacency++) {
        const dpmf_sampling fixed = {DPMF_SAMPLING_FIXED, 0, 1, 30, 0, 2000},
                            capped = {DPMF_SAMPLING_POISSON, 1, 0, 0, 30, 2000};
        check_near(epsilon_of(fixed, 0, 1, 200, (dpmf_adjacency)adjacency).epsilon /
                       epsilon_of(capped, 0, 1, 200, (dpmf_adjacency)adjacency).epsilon,
                   1, 1e-4);
    }
}

static void test_noise_for_groups_and_fixed_sizes_is_found(void **state) {
    (void)state;
    for (int i = 0; i < 6; i++) {
        dpmf_account_options o = dpmf_account_options_defaults();
        dpmf_privacy found, back;
        int64_t steps = 0;
        o.sampling = i % 2 ? (dpmf_sampling){DPMF_SAMPLING_FIXED, 0, 1, 50, 0, 10000}
                           : (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.005, 0, 0, 0, 0};
        o.group = i % 3 + (i % 2 == 0) + 1;
        o.compositions = 400;
        check_ok(dpmf_calibrate_sigma(2, 1e-6, &o, &found));
        check_ok(dpmf_account_epsilon(found.sigma, 1e-6, &o, &back));
        assert_true(back.epsilon <= 2 && back.epsilon > 1.997);
        o.compositions = 0;
        check_ok(dpmf_calibrate_compositions(found.sigma, 2, 1e-6, &o, &steps, &back));
        assert_true(steps >= 399 && steps <= 402);
    }
}

static void test_ledgers_hold_groups_and_fixed_sizes(void **state) {
    dpmf_account_options fixed = dpmf_account_options_defaults(), group = fixed;
    dpmf_ledger *ledger = NULL, *alone = NULL;
    dpmf_privacy both, one, single;
    (void)state;
    fixed.sampling = (dpmf_sampling){DPMF_SAMPLING_FIXED, 0, 1, 50, 0, 10000};
    fixed.compositions = 300;
    fixed.group = 3;
    group.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.005, 0, 0, 0, 0};
    group.compositions = 200;
    group.group = 3;
    check_ok(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &ledger));
    check_ok(dpmf_ledger_create(DPMF_ADJACENCY_ZERO_OUT, &alone));
    check_ok(dpmf_ledger_add_sampled(alone, 1.5, &group, 2));
    check_ok(dpmf_ledger_epsilon(alone, 1e-6, NULL, &one));
    group.compositions = 400;
    check_ok(dpmf_account_epsilon(1.5, 1e-6, &group, &single));
    check_near(one.epsilon / single.epsilon, 1, 1e-4);
    check_ok(dpmf_ledger_add_sampled(ledger, 1.5, &fixed, 1));
    check_ok(dpmf_ledger_add_ledger(ledger, alone));
    check_ok(dpmf_ledger_epsilon(ledger, 1e-6, NULL, &both));
    check_ok(dpmf_account_epsilon(1.5, 1e-6, &fixed, &single));
    assert_true(both.epsilon > fmax(one.epsilon, single.epsilon) && both.epsilon < one.epsilon + single.epsilon);
    fixed.sampling.picks = 10000; /* all of them: Gaussian */
    fixed.compositions = 1;
    check_ok(dpmf_ledger_add_sampled(ledger, 1.5, &fixed, 1));
    check_ok(dpmf_ledger_epsilon(ledger, 1e-6, NULL, &both));
    assert_true(isfinite(both.epsilon));
    fixed.group = 1; /* a unit alone is another guarantee */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_ledger_add_sampled(ledger, 1.5, &fixed, 1));
    dpmf_ledger_free(ledger);
    dpmf_ledger_free(alone);
}

/* ---- texts and refusals ---- */

static void test_texts_of_fixed_sizes(void **state) {
    static const char *const good[] = {"fixed:5,10", "fixed-replace:12,10", "fixed:10,10", "fixed:5,20,4"};
    static const char *const bad[] = {
        "fixed",          "fixed:5",     "fixed:11,10", "fixed:0,10",       "fixed:5,20,5",
        "fixed:5,10,1,1", "fixed:5,10,", "fixed:-1,10", "fixed:5,10,cap:3", "fixed-replace:5"};
    dpmf_sampling s;
    char text[64];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        check_ok(dpmf_sampling_parse(good[i], &s));
        check_ok(dpmf_sampling_format(&s, text));
        assert_string_equal(text, good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(dpmf_sampling_parse(bad[i], &s) != DPMF_OK);
}

static void test_groups_without_an_account_are_refused(void **state) {
    dpmf_account_options o = dpmf_account_options_defaults();
    dpmf_privacy p;
    (void)state;
    o.group = -1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_epsilon(1, 1e-6, &o, &p));
    o.group = 3;
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 20, 1000};
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &p));
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_MIN_SEPARATION, 0.1, 4, 0, 0, 0};
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &p));
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_FIXED, 0, 4, 5, 0, 400};
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_account_epsilon(1, 1e-6, &o, &p));
    o.sampling = (dpmf_sampling){DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0};
    o.group = COUNTED_GROUP_MAX + 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_epsilon(1, 1e-6, &o, &p));
    o.group = 2;
    o.engine = DPMF_ENGINE_RDP;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_account_epsilon(1, 1e-6, &o, &p));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_sizes_are_never_below_all_outcomes),
        cmocka_unit_test(test_groups_are_never_below_all_outcomes),
        cmocka_unit_test(test_curves_are_those_of_forty_digits),
        cmocka_unit_test(test_accounts_of_groups_are_near_the_integrals),
        cmocka_unit_test(test_a_group_of_one_is_a_unit),
        cmocka_unit_test(test_a_group_without_sampling_moves_as_often),
        cmocka_unit_test(test_batches_of_all_units_are_the_gaussian_mechanism),
        cmocka_unit_test(test_blocks_are_smaller_data_sets),
        cmocka_unit_test(test_a_cap_that_always_binds_is_a_fixed_size),
        cmocka_unit_test(test_noise_for_groups_and_fixed_sizes_is_found),
        cmocka_unit_test(test_ledgers_hold_groups_and_fixed_sizes),
        cmocka_unit_test(test_texts_of_fixed_sizes),
        cmocka_unit_test(test_groups_without_an_account_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
