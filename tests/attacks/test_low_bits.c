/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attack: the low-order bits of a release. Independent noise at epsilon = 1, 200 coordinates, two data sets: sums of 0, and
 * sums of norm 1. Noise in float is fl(scale z), z a float, and not every float is one: a released number that is none
 * cannot have come from the sum 0. 200 coordinates nearly always reveal the data set, for any claimed epsilon. Every
 * whole number of grid steps can be exact noise, so this attack finds nothing there; another one, by agreement of
 * low-order bits, is right as often as a coin. (The claim: docs/exactness.md.)
 */
#include "support/noise_cases.h"

#include <math.h>

enum { COORDINATES = 200, TRIALS = 200 };

/* sigma of epsilon = 1, delta = 1e-5 */
static dpmf_mechanism *make_mechanism(void) {
    return case_mechanism("identity", TRIALS, 3.730631634944469);
}

static int truth_of(int64_t trial) {
    return (int)(trial * 7 / 3 % 2);
}

/* Is x equal to scale z, rounded, for some float z? */
static int could_be_noise(float y, float scale) {
    float z = y / scale;
    for (int i = 0; i < 3; i++)
        z = nextafterf(z, -INFINITY);
    for (int i = 0; i < 7; i++, z = nextafterf(z, INFINITY))
        if (scale * z == y) return 1;
    return 0;
}

static void test_floats_tell_who_was_in(void **unused) {
    dpmf_mechanism *m = make_mechanism();
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    int right = 0;
    (void)unused;
    check_ok(dpmf_noise_create(m, COORDINATES, 1.0, case_key, &o, &noise));
    const float scale = (float)dpmf_noise_get(noise).release.scale;
    for (int64_t t = 0; t < TRIALS; t++) {
        float y[COORDINATES];
        const dpmf_segment all = {y, COORDINATES};
        int possible = 1;
        for (int i = 0; i < COORDINATES; i++)
            y[i] = truth_of(t) ? (float)(1 / sqrt(COORDINATES)) : 0;
        check_ok(dpmf_noise_add(noise, 1, 1, &all));
        for (int i = 0; i < COORDINATES; i++)
            possible = possible && could_be_noise(y[i], scale);
        right += possible == !truth_of(t);
    }
    assert_true(right >= 195); /* the attack is real; epsilon = 1 allows about 60 % */
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

/*
 * Guesses from the exact release: by every low-order bit from the first to the 16th, do those of y agree more often with
 * the sum's or with those of 0? Each guess is right in 100 +- 36 of 200 trials but for 5.1 standard deviations: false alarm
 * 16 x 4e-7.
 */
static void test_the_exact_release_tells_nothing_by_its_low_bits(void **unused) {
    dpmf_mechanism *m = make_mechanism();
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    int right[16] = {0};
    (void)unused;
    o.exact = 1;
    check_ok(dpmf_noise_create(m, COORDINATES, 1.0, case_key, &o, &noise));
    const double grid = dpmf_noise_get(noise).grid;
    const int64_t each = (int64_t)(1 / sqrt(COORDINATES) / grid) | 0xFFFF; /* all low bits set: they would show */
    for (int64_t t = 0; t < TRIALS; t++) {
        int64_t y[COORDINATES];
        const dpmf_segment all = {y, COORDINATES};
        for (int i = 0; i < COORDINATES; i++)
            y[i] = truth_of(t) ? each : 0;
        check_ok(dpmf_noise_add_whole(noise, 1, &all));
        for (int b = 0; b < 16; b++) {
            int as_sum = 0;
            for (int i = 0; i < COORDINATES; i++)
                as_sum += (y[i] >> b & 1) == (each >> b & 1);
            right[b] += (2 * as_sum > COORDINATES) == truth_of(t);
        }
    }
    for (int b = 0; b < 16; b++)
        assert_in_range(right[b], 64, 136);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

/* The counter's default: the same guess from its sums, 3000 of them. 1500 +- 5.1 standard deviations. */
static void test_counts_tell_nothing_by_their_low_bits(void **unused) {
    enum { COUNTS = 3000 };
    dpmf_mechanism *m = case_mechanism("identity", COUNTS, 1.0);
    dpmf_counter_options o = dpmf_counter_options_defaults();
    dpmf_counter *counter = NULL;
    double before = 0;
    int right = 0;
    (void)unused;
    check_ok(dpmf_counter_create(m, 1, 1.0, case_key, &o, &counter));
    const double grid = dpmf_counter_get(counter).grid;
    assert_true(grid > 0);
    const double added = 1 - grid; /* an odd number of grid steps */
    for (int64_t t = 0; t < COUNTS; t++) {
        const double value = truth_of(t) ? added : 0;
        double sum = 0;
        check_ok(dpmf_counter_add(counter, 1, &value, &sum));
        assert_true(fmod(sum, grid) == 0); /* every number is on the grid */
        const int odd = fmod(fabs(sum - before) / grid, 2) == 1;
        right += odd == truth_of(t);
        before = sum;
    }
    assert_in_range(right, 1360, 1640);
    dpmf_counter_free(counter);
    dpmf_mechanism_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floats_tell_who_was_in),
        cmocka_unit_test(test_the_exact_release_tells_nothing_by_its_low_bits),
        cmocka_unit_test(test_counts_tell_nothing_by_their_low_bits),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
