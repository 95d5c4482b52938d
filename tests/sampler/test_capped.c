/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches with a cap: never more than M, all of those drawn where they are no more, every unit as likely to be kept, a function
 * of (key, step) alone; and the guarantees that a capped sampler realises. Statistical tests fail with probability
 * below 1e-9 for a right sampler, and keys are fixed.
 */
#include "mechanism/mechanism.h"
#include "sampler/sampler.h"
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UNITS = 200, STEPS = 400, CAP = 20 };

static dpmf_sampler *make(const char *text, int64_t units, int64_t steps) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_sampler *s = NULL;
    check_ok(dpmf_key_testing(5, key));
    check_ok(dpmf_sampler_create(text, units, steps, key, NULL, &s));
    return s;
}

static void check_rising(const int64_t *batch, int64_t count) {
    for (int64_t i = 1; i < count; i++)
        assert_true(batch[i] > batch[i - 1]);
}

static void test_no_batch_is_larger_than_its_cap(void **state) {
    static const char *const texts[] = {"poisson:0.1,cap:20", "block-cyclic:0.1,2,cap:20", "min-sep:0.2,3,cap:20",
                                        "poisson:0.1,cap:20:200"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_sampler *s = make(texts[i], UNITS, STEPS);
        int64_t batch[CAP], count = 0, full = 0, sum = 0;
        assert_int_equal(dpmf_sampler_get(s).capacity, CAP);
        for (int64_t t = 0; t < STEPS; t++) {
            check_ok(dpmf_sampler_next(s, batch, &count));
            assert_true(count <= CAP);
            check_rising(batch, count);
            full += count == CAP;
            sum += count;
        }
        assert_true(full > STEPS / 4 && full < STEPS);
        /* batches between 0 and 20: Hoeffding, 6.5 deviations of 10/sqrt(steps); min-sep's steps hang together: twice that */
        check_near((double)sum / STEPS, dpmf_sampler_get(s).expected, 2 * 6.5 * 0.5 * CAP / sqrt(STEPS));
        dpmf_sampler_free(s);
    }
}

static void test_what_fits_is_kept_and_the_rest_is_chosen_evenly(void **state) {
    enum { MANY = 20000 };
    dpmf_sampler *s = make("poisson:0.5,cap:4", 10, MANY);
    int64_t batch[4], count = 0, times[10] = {0};
    double sum = 0;
    (void)state;
    for (int64_t t = 0; t < MANY; t++) {
        check_ok(dpmf_sampler_next(s, batch, &count));
        sum += (double)count;
        for (int64_t i = 0; i < count; i++)
            times[batch[i]]++;
    }
    /* E min(Bin(10, 1/2), 4) = 4 - (4 1 + 3 10 + 2 45 + 1 120)/1024 */
    const double expected = 4 - 244.0 / 1024;
    check_near(dpmf_sampler_get(s).expected, expected, 1e-12);
    check_near(sum / MANY, expected, 6.5 * 2 / sqrt(MANY));
    for (int u = 0; u < 10; u++)
        check_near((double)times[u] / MANY, expected / 10, 6.5 * 0.5 / sqrt(MANY));
    dpmf_sampler_free(s);
}

static void test_a_capped_batch_is_a_function_of_key_and_step(void **state) {
    (void)state;
    static const char *const texts[] = {"poisson:0.1,cap:20", "min-sep:0.2,3,cap:20", "block-cyclic:0.1,2,cap:20"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_sampler *s = make(texts[i], UNITS, STEPS), *again = make(texts[i], UNITS, STEPS);
        int64_t a[CAP], b[CAP], n = 0, m = 0;
        for (int64_t t = 0; t < 60; t++)
            check_ok(dpmf_sampler_next(s, a, &n));
        check_ok(dpmf_sampler_seek(again, 59));
        check_ok(dpmf_sampler_next(again, b, &m));
        assert_int_equal(n, m);
        assert_memory_equal(a, b, (size_t)n * sizeof *a);
        dpmf_sampler_free(s);
        dpmf_sampler_free(again);
    }
}

/* A cap that nothing reaches does not change the draws. */
static void test_a_cap_above_all_units_keeps_everybody(void **state) {
    dpmf_sampler *s = make("poisson:0.1,cap:200", UNITS, STEPS);
    int64_t batch[UNITS], count = 0, sum = 0;
    (void)state;
    assert_int_equal(dpmf_sampler_get(s).capacity, UNITS);
    check_near(dpmf_sampler_get(s).expected, 20, 1e-12);
    for (int64_t t = 0; t < STEPS; t++) {
        check_ok(dpmf_sampler_next(s, batch, &count));
        sum += count;
    }
    check_near((double)sum / (UNITS * STEPS), 0.1, 6.5 * 0.5 / sqrt(UNITS * STEPS));
    dpmf_sampler_free(s);
}

static dpmf_status fits(const char *realised, const char *assumed) {
    dpmf_sampler *s = make(realised, UNITS, 20);
    dpmf_participation *full = NULL;
    check_ok(dpmf_participation_create(DPMF_PARTICIPATION_FULL, 20, 0, 0, &full));
    dpmf_mechanism mechanism = {.problem = {.steps = 20, .participation = full}};
    check_ok(dpmf_sampling_parse(assumed, &mechanism.sampling));
    const dpmf_status status = dpmf_sampler_check(s, &mechanism);
    dpmf_participation_free(full);
    dpmf_sampler_free(s);
    return status;
}

static void test_a_capped_sampler_passes_for_the_same_cap_alone(void **state) {
    (void)state;
    check_ok(fits("poisson:0.1,cap:20", "poisson:0.1,cap:20:200"));
    check_ok(fits("poisson:0.1,cap:200", "poisson:0.1"));
    check_ok(fits("block-cyclic:0.1,4,cap:50", "block-cyclic:0.1,4"));
    check_fails(DPMF_ERROR_ARGUMENT, fits("poisson:0.1,cap:20", "poisson:0.1"));
    check_message("assumes poisson:0.1 sampling, but the sampler poisson:0.1,cap:20:200 does");
    check_fails(DPMF_ERROR_ARGUMENT, fits("poisson:0.1", "poisson:0.1,cap:20:200"));
    check_fails(DPMF_ERROR_ARGUMENT, fits("poisson:0.1,cap:21", "poisson:0.1,cap:20:200"));
    check_fails(DPMF_ERROR_ARGUMENT, fits("poisson:0.1,cap:20", "poisson:0.1,cap:20:300"));
    check_fails(DPMF_ERROR_ARGUMENT, fits("poisson:0.05,cap:20", "poisson:0.1,cap:20:200"));
    check_fails(DPMF_ERROR_ARGUMENT, fits("block-cyclic:0.1,4,cap:49", "block-cyclic:0.1,4"));
}

static void test_caps_are_refused_where_they_mean_nothing(void **state) {
    static const char *const texts[] = {
        "balls-in-bins:4,cap:3", "cyclic:4,cap:3",         "poisson:0.1,cap:0",    "poisson:0.1,cap:3:201",
        "poisson:0.1,cap:",      "poisson:0.1,cap:3:",     "allocation:1,4,cap:3", "none,cap:3",
        "poisson:0.1,cap:-1",    "poisson:0.1,cap:3:200:1"};
    uint8_t key[DPMF_KEY_SIZE];
    (void)state;
    check_ok(dpmf_key_testing(5, key));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_sampler *s = NULL;
        assert_true(dpmf_sampler_create(texts[i], UNITS, STEPS, key, NULL, &s) != DPMF_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_batch_is_larger_than_its_cap),
        cmocka_unit_test(test_what_fits_is_kept_and_the_rest_is_chosen_evenly),
        cmocka_unit_test(test_a_capped_batch_is_a_function_of_key_and_step),
        cmocka_unit_test(test_a_cap_above_all_units_keeps_everybody),
        cmocka_unit_test(test_a_capped_sampler_passes_for_the_same_cap_alone),
        cmocka_unit_test(test_caps_are_refused_where_they_mean_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
