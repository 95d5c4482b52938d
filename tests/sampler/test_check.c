/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samplers that a mechanism accepts. Without sampling they are compared with the definition, by listing every set
 * of steps of both sides for small numbers of steps; with sampling, by cases.
 */
#include "mechanism/mechanism.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

enum { STEPS_MAX = 8 };
static const uint8_t key[DPMF_KEY_SIZE] = {1, 2, 3};

/* Is `set` of steps one that the participation allows (a unit may always stay away)? */
static int allows(const dpmf_participation *p, unsigned set) {
    const int n = (int)dpmf_participation_get(p).steps, b = (int)dpmf_participation_get(p).separation;
    const dpmf_participation_kind kind = dpmf_participation_get(p).kind;
    int count = 0;
    for (int i = 0; i < n; i++) {
        count += (int)(set >> i & 1);
        for (int j = 0; j < i; j++) {
            if (!(set >> i & 1) || !(set >> j & 1)) continue;
            if (kind == DPMF_PARTICIPATION_CYCLIC && (i - j) % b != 0) return 0;
            if (kind == DPMF_PARTICIPATION_SHUFFLED && i / b == j / b) return 0;
            if (kind == DPMF_PARTICIPATION_MIN_SEPARATION && i - j < b) return 0;
        }
    }
    return count <= dpmf_participation_get(p).count;
}

static int inside(const dpmf_participation *realised, const dpmf_participation *assumed) {
    for (unsigned set = 0; set < 1u << dpmf_participation_get(assumed).steps; set++)
        if (allows(realised, set) && !allows(assumed, set)) return 0;
    return 1;
}

static dpmf_status check_of(const dpmf_sampler *s, const dpmf_participation *assumed) {
    const dpmf_mechanism mechanism = {.problem.steps = dpmf_participation_get(assumed).steps,
                                      .problem.participation = (dpmf_participation *)assumed};
    return dpmf_sampler_check(s, &mechanism);
}

/* The one case that is inside and still refused: two participations at the two ends of the run, in a cyclic order. */
static int ends_only(const dpmf_participation *r, const dpmf_participation *a) {
    return dpmf_participation_get(a).kind == DPMF_PARTICIPATION_CYCLIC &&
           dpmf_participation_get(r).kind == DPMF_PARTICIPATION_MIN_SEPARATION &&
           dpmf_participation_get(r).separation == dpmf_participation_get(r).steps - 1;
}

static int compare(const char *text, int64_t units, int64_t n, const dpmf_participation *assumed) {
    dpmf_sampler *s = NULL;
    dpmf_participation *r = NULL;
    check_ok(dpmf_sampler_create(text, units, n, key, NULL, &s));
    check_ok(dpmf_participation_parse(dpmf_sampler_get(s).participation, n, &r));
    const int accepted = check_of(s, assumed) == DPMF_OK, right = inside(r, assumed);
    if (accepted != right && !(right && ends_only(r, assumed)))
        fail_msg("%s of %d units, %d steps (%s) for %s: accepted %d, inside %d", text, (int)units, (int)n,
                 dpmf_participation_get(r).text, dpmf_participation_get(assumed).text, accepted, right);
    dpmf_participation_free(r);
    dpmf_sampler_free(s);
    return accepted;
}

static int compare_all(int64_t n, const dpmf_participation *assumed) {
    char text[64];
    int accepted = 0;
    for (int64_t units = 1; units <= n + 2; units++) {
        accepted += compare("cyclic:1", units, n, assumed);
        accepted += compare("shuffled:1", units, n, assumed);
    }
    for (int64_t b = 1; b <= n; b++)
        for (int64_t k = 1; (k - 1) * b < n; k++) {
            snprintf(text, sizeof text, "scheduled:1,%d,%d", (int)k, (int)b);
            accepted += compare(text, 3, n, assumed);
        }
    return accepted;
}

static void test_a_sampler_fits_where_its_patterns_are_among_the_assumed(void **state) {
    (void)state;
    static const dpmf_participation_kind kinds[] = {DPMF_PARTICIPATION_SINGLE, DPMF_PARTICIPATION_CYCLIC,
                                                    DPMF_PARTICIPATION_MIN_SEPARATION, DPMF_PARTICIPATION_SHUFFLED,
                                                    DPMF_PARTICIPATION_FULL};
    int accepted = 0, participations = 0;
    for (int64_t n = 1; n <= STEPS_MAX; n++)
        for (int i = 0; i < 5; i++)
            for (int64_t k = 1; k <= n; k++)
                for (int64_t b = 1; b <= n; b++) {
                    dpmf_participation *assumed = NULL;
                    const int plain = i == 0 || i == 4;
                    if (plain && (k > 1 || b > 1)) continue;
                    if (dpmf_participation_create(kinds[i], n, k, b, &assumed) != DPMF_OK) continue;
                    participations++;
                    accepted += compare_all(n, assumed);
                    dpmf_participation_free(assumed);
                }
    assert_true(participations > 100 && accepted > 1000);
}

/* Samplers that draw at random have no guaranteed participation: only full is accepted. */
static void test_random_samplers_fit_full_participation_alone(void **state) {
    (void)state;
    static const char *const texts[] = {"poisson:0.1", "block-cyclic:0.1,3", "balls-in-bins:3", "min-sep:0.1,3",
                                        "poisson:1"};
    static const char *const refused[] = {"single", "cyclic:4,3", "minsep:4,3", "shuffled:4,3", "minsep:11,1"};
    static const char *const accepted[] = {"full", "cyclic:12,1", "minsep:12,1", "shuffled:12,1"};
    for (int i = 0; i < 5; i++) {
        dpmf_sampler *s = NULL;
        check_ok(dpmf_sampler_create(texts[i], 100, 12, key, NULL, &s));
        for (int j = 0; j < 5; j++) {
            dpmf_participation *p = NULL;
            check_ok(dpmf_participation_parse(refused[j], 12, &p));
            check_fails(DPMF_ERROR_ARGUMENT, check_of(s, p));
            check_message(refused[j]);
            check_message(texts[i]);
            dpmf_participation_free(p);
        }
        for (int j = 0; j < 4; j++) {
            dpmf_participation *p = NULL;
            check_ok(dpmf_participation_parse(accepted[j], 12, &p));
            check_ok(check_of(s, p));
            dpmf_participation_free(p);
        }
        dpmf_sampler_free(s);
    }
}

/* ---- with sampling ---- */

static void check_sampled(const char *assumed, const char *text, int accepted) {
    dpmf_mechanism mechanism = {.problem.steps = 12};
    dpmf_participation *p = NULL;
    dpmf_sampler *s = NULL;
    check_ok(dpmf_sampling_parse(assumed, &mechanism.sampling));
    check_ok(dpmf_participation_parse("full", 12, &p));
    mechanism.problem.participation = p;
    check_ok(dpmf_sampler_create(text, 100, 12, key, NULL, &s));
    if (accepted)
        check_ok(dpmf_sampler_check(s, &mechanism));
    else {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(s, &mechanism));
        check_message(assumed);
        check_message(text);
    }
    mechanism.problem.steps = 13;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(s, &mechanism));
    check_message("it has 12 steps and the mechanism 13");
    dpmf_sampler_free(s);
    dpmf_participation_free(p);
}

static void test_a_sampling_fits_where_it_is_the_assumed_or_less(void **state) {
    (void)state;
    static const struct {
        const char *assumed, *text;
        int accepted;
    } cases[] = {
        {"poisson:0.1", "poisson:0.1", 1},
        {"poisson:0.1", "poisson:0.05", 1},
        {"poisson:0.1", "poisson:0.1000000000000001", 1},
        {"poisson:0.1", "poisson:0.1000001", 0},
        {"poisson:0.1", "block-cyclic:0.1,1", 1},
        {"poisson:0.1", "min-sep:0.1,1", 1},
        {"poisson:0.1", "block-cyclic:0.1,2", 0},
        {"poisson:0.1", "cyclic:10", 0},
        {"poisson:0.1", "shuffled:10", 0},
        {"poisson:0.1", "scheduled:10,1,1", 0},
        {"poisson:0.1", "balls-in-bins:10", 0},
        {"block-cyclic:0.1,3", "block-cyclic:0.1,3", 1},
        {"block-cyclic:0.1,3", "block-cyclic:0.09,3", 1},
        {"block-cyclic:0.1,3", "block-cyclic:0.11,3", 0},
        {"block-cyclic:0.1,3", "block-cyclic:0.1,4", 0},
        {"block-cyclic:0.1,3", "block-cyclic:0.1,2", 0},
        {"block-cyclic:0.1,3", "poisson:0.1", 0},
        {"block-cyclic:0.1,3", "cyclic:34", 0},
        {"block-cyclic:0.1,1", "poisson:0.1", 1},
        {"balls-in-bins:4", "balls-in-bins:4", 1},
        {"balls-in-bins:4", "balls-in-bins:5", 0},
        {"balls-in-bins:4", "cyclic:25", 0},
        {"min-sep:0.1,3", "min-sep:0.1,3", 1},
        {"min-sep:0.1,3", "min-sep:0.09,3", 0},
        {"min-sep:0.1,3", "min-sep:0.11,3", 0},
        {"min-sep:0.1,3", "min-sep:0.1,4", 0},
        {"min-sep:0.1,3", "scheduled:10,4,3", 0},
        {"min-sep:0.1,3", "poisson:0.1", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        check_sampled(cases[i].assumed, cases[i].text, cases[i].accepted);
}

/* Mechanisms as they are made, for a plain run and an amplified one. */
/*
 * Adding or removing a unit moves others: only samplers that decide about each unit separately realise add-remove
 * adjacency.
 */
static void test_add_remove_needs_coins_of_a_units_own(void **state) {
    static const struct {
        const char *text;
        dpmf_sampling sampling;
        int accepted;
    } cases[] = {
        {"cyclic:5", {DPMF_SAMPLING_NONE, 0, 0, 0, 0, 0}, 0},
        {"shuffled:5", {DPMF_SAMPLING_NONE, 0, 0, 0, 0, 0}, 0},
        {"scheduled:2,1,20", {DPMF_SAMPLING_NONE, 0, 0, 0, 0, 0}, 0},
        {"block-cyclic:0.1,4", {DPMF_SAMPLING_BLOCK_CYCLIC, 0.1, 4, 0, 0, 0}, 0},
        {"block-cyclic:0.1,1", {DPMF_SAMPLING_BLOCK_CYCLIC, 0.1, 1, 0, 0, 0}, 1},
        {"poisson:0.1", {DPMF_SAMPLING_POISSON, 0.1, 0, 0, 0, 0}, 1},
        {"balls-in-bins:4", {DPMF_SAMPLING_BALLS_IN_BINS, 0, 4, 0, 0, 0}, 1},
        {"min-sep:0.1,4", {DPMF_SAMPLING_MIN_SEPARATION, 0.1, 4, 0, 0, 0}, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_sampler *s = NULL;
        dpmf_participation *full = NULL;
        check_ok(dpmf_sampler_create(cases[i].text, 100, 20, key, NULL, &s));
        check_ok(dpmf_participation_create(DPMF_PARTICIPATION_FULL, 20, 0, 0, &full));
        dpmf_mechanism mechanism = {.problem = {.steps = 20, .participation = full}, .sampling = cases[i].sampling};
        check_ok(dpmf_sampler_check(s, &mechanism));
        mechanism.problem.adjacency = DPMF_ADJACENCY_ADD_REMOVE;
        assert_int_equal(dpmf_sampler_check(s, &mechanism) == DPMF_OK, cases[i].accepted);
        dpmf_participation_free(full);
        dpmf_sampler_free(s);
    }
}

static void test_a_mechanism_says_what_it_assumes_and_what_is_done(void **state) {
    (void)state;
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_strategy *c = NULL;
    dpmf_mechanism *plain = NULL, *amplified = NULL;
    dpmf_sampler *cyclic = NULL, *blocks = NULL;
    dpmf_mechanism_options options = dpmf_mechanism_options_defaults();
    check_ok(dpmf_workload_parse("prefix", 12, &a));
    check_ok(dpmf_participation_parse("cyclic:3,4", 12, &p));
    check_ok(dpmf_strategy_create("identity", a, NULL, &c));
    check_ok(dpmf_mechanism_create(a, p, c, NULL, &plain));
    options.sampling = (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC, 0.125, 4, 0, 0, 0};
    check_ok(dpmf_mechanism_create(a, p, c, &options, &amplified));
    check_ok(dpmf_sampler_create("cyclic:25", 100, 12, key, NULL, &cyclic));
    check_ok(dpmf_sampler_create("block-cyclic:0.125,4", 100, 12, key, NULL, &blocks));
    check_ok(dpmf_sampler_check(cyclic, plain));
    check_ok(dpmf_sampler_check(blocks, amplified));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(cyclic, amplified));
    check_message("assumes block-cyclic:0.125,4 sampling, but the sampler cyclic:25 does participation cyclic:3,4");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(blocks, plain));
    check_message("assumes participation cyclic:3,4 and no secret sampling, but the sampler block-cyclic:0.125,4 does");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(NULL, plain));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_check(cyclic, NULL));
    dpmf_sampler_free(cyclic);
    dpmf_sampler_free(blocks);
    dpmf_mechanism_free(plain);
    dpmf_mechanism_free(amplified);
    dpmf_strategy_free(c);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sampler_fits_where_its_patterns_are_among_the_assumed),
        cmocka_unit_test(test_random_samplers_fit_full_participation_alone),
        cmocka_unit_test(test_a_sampling_fits_where_it_is_the_assumed_or_less),
        cmocka_unit_test(test_add_remove_needs_coins_of_a_units_own),
        cmocka_unit_test(test_a_mechanism_says_what_it_assumes_and_what_is_done),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
