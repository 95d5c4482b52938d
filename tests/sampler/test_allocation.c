/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocation: every unit in exactly K of the T steps of every epoch, every set of K steps as likely,
 * independently in each epoch. Statistical tests fail with probability below 1e-9 for a right sampler, and keys are
 * fixed.
 */
#include "sampler/sampler.h"
#include "support/check.h"

#include <math.h>
#include <string.h>

static dpmf_sampler *make(const char *text, int64_t units, int64_t steps) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_sampler *s = NULL;
    check_ok(dpmf_key_testing(6, key));
    check_ok(dpmf_sampler_create(text, units, steps, key, NULL, &s));
    return s;
}

static void test_every_unit_is_in_exactly_k_of_t_steps(void **state) {
    enum { UNITS = 57 };
    static const struct {
        const char *text;
        int64_t picks, bins, steps;
    } cases[] = {{"allocation:1,7", 1, 7, 21}, {"allocation:3,5", 3, 5, 15}, {"allocation:4,4", 4, 4, 8}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_sampler *s = make(cases[i].text, UNITS, cases[i].steps);
        int64_t batch[UNITS], count = 0, times[UNITS] = {0};
        check_near(dpmf_sampler_get(s).expected, (double)(UNITS * cases[i].picks) / (double)cases[i].bins, 1e-12);
        for (int64_t t = 0; t < cases[i].steps; t++) {
            check_ok(dpmf_sampler_next(s, batch, &count));
            for (int64_t j = 0; j < count; j++) {
                assert_true(j == 0 || batch[j] > batch[j - 1]);
                times[batch[j]]++;
            }
            if ((t + 1) % cases[i].bins != 0) continue;
            for (int64_t u = 0; u < UNITS; u++)
                assert_int_equal(times[u], cases[i].picks);
            memset(times, 0, sizeof times);
        }
        dpmf_sampler_free(s);
    }
}

/* All 10 sets of 3 steps out of 5, over the epochs of several units: counts within 6.5 deviations. */
static void test_all_sets_of_steps_are_as_likely_and_fresh_in_each_epoch(void **state) {
    enum { UNITS = 40, EPOCHS = 1000 };
    dpmf_sampler *s = make("allocation:3,5", UNITS, 5 * EPOCHS);
    int64_t batch[UNITS], count = 0, seen[32] = {0}, equal = 0;
    unsigned before[UNITS] = {0};
    (void)state;
    for (int64_t epoch = 0; epoch < EPOCHS; epoch++) {
        unsigned sets[UNITS] = {0};
        for (int t = 0; t < 5; t++) {
            check_ok(dpmf_sampler_next(s, batch, &count));
            for (int64_t j = 0; j < count; j++)
                sets[batch[j]] |= 1u << t;
        }
        for (int u = 0; u < UNITS; u++) {
            seen[sets[u]]++;
            equal += sets[u] == before[u];
            before[u] = sets[u];
        }
    }
    const double n = UNITS * EPOCHS;
    for (unsigned set = 0; set < 32; set++)
        check_near((double)seen[set] / n, __builtin_popcount(set) == 3 ? 0.1 : 0, 6.5 * 0.5 / sqrt(n));
    check_near((double)equal / n, 0.1, 6.5 * 0.5 / sqrt(n));
    dpmf_sampler_free(s);
}

static void test_going_back_gives_the_same_batches(void **state) {
    dpmf_sampler *s = make("allocation:2,6", 30, 24);
    int64_t a[30], b[30], n = 0, m = 0;
    (void)state;
    check_ok(dpmf_sampler_seek(s, 9));
    check_ok(dpmf_sampler_next(s, a, &n));
    check_ok(dpmf_sampler_seek(s, 20));
    check_ok(dpmf_sampler_next(s, b, &m));
    check_ok(dpmf_sampler_seek(s, 9));
    check_ok(dpmf_sampler_next(s, b, &m));
    assert_int_equal(n, m);
    assert_memory_equal(a, b, (size_t)n * sizeof *a);
    dpmf_sampler_free(s);
}

static void test_steps_that_are_not_whole_epochs_are_refused(void **state) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_sampler *s = NULL;
    (void)state;
    check_ok(dpmf_key_testing(6, key));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_create("allocation:1,7", 10, 20, key, NULL, &s));
    check_message("whole epochs");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sampler_create("allocation:8,7", 10, 21, key, NULL, &s));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_unit_is_in_exactly_k_of_t_steps),
        cmocka_unit_test(test_all_sets_of_steps_are_as_likely_and_fresh_in_each_epoch),
        cmocka_unit_test(test_going_back_gives_the_same_batches),
        cmocka_unit_test(test_steps_that_are_not_whole_epochs_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
