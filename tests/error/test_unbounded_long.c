/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams without a horizon: at all powers of two and at 1000 other steps to 2^24 the error is at most 1.29 of the
 * certified optimum for that very step, and no mechanism stays below 1.25 at the first 2048 steps.
 *
 * The optimum does not fall with the steps (the first part of a mechanism is one), so that of a step on a grid below
 * stands for it: every step to 1024; 32 steps per octave to 2^16; 4 to 2^20; 2 to 2^22. Beyond, the nuclear norm, which
 * is in closed form, is near enough, with 8 per octave.
 */
#include "support/unbounded_ratio.h"

typedef struct known {
    int64_t at;
    double optimum;
} known;

enum { KNOWN = 4096, CASES = 1000 };
static known table[KNOWN];
static int in_table;

static int64_t grid_below(int64_t t) {
    int64_t per = t <= 1024 ? 0 : t < 1 << 16 ? 32 : t < 1 << 20 ? 4 : t < 1 << 22 ? 2 : 8;
    if (per == 0) return t;
    int octave = (int)floor(log2((double)t));
    int64_t below = (int64_t)1 << octave;
    for (int64_t i = 1; i < per; i++) {
        int64_t next = (int64_t)ceil(exp2(octave + (double)i / (double)per));
        if (next <= t) below = next;
    }
    return below;
}

static double optimum_below(int64_t t) {
    int64_t at = grid_below(t);
    double found = 0;
    for (int i = 0; i < in_table; i++)
        if (table[i].at == at) return table[i].optimum;
    if (at < 1 << 22) {
        found = certified_optimum(at, 0);
    } else {
        check_ok(optimum_nuclear_prefix(at, NULL, &found));
        found /= (double)at; /* RMS loss >= |A|_* / n, and the max loss is not less */
    }
    assert_true(in_table < KNOWN);
    table[in_table++] = (known){at, found};
    return found;
}

static void test_1000_steps_to_2_to_the_24_are_within_1_29_of_the_optimum(void **state) {
    dpmf_strategy *endless = endless_strategy();
    uint64_t x = 2024;
    (void)state;
    for (int64_t t = 1; t <= 1 << 24; t *= 2)
        check_ratio(endless, t, optimum_below(t));
    for (int i = 0; i < CASES; i++) {
        int64_t t = (int64_t)exp2(12 + 12 * check_random(&x));
        check_ratio(endless, t, optimum_below(t));
    }
    dpmf_strategy_free(endless);
}

static void test_no_mechanism_without_a_horizon_stays_below_1_25(void **state) {
    enum { STEPS = 2048 };
    double optimum[STEPS];
    (void)state;
    for (int64_t t = STEPS; t >= 1; t--) /* from above: that of a later step */
        optimum[t - 1] = t == STEPS || t <= 256 || t % (t <= 1024 ? 2 : 4) == 0 ? certified_optimum(t, 1) : optimum[t];
    double least = least_ratio(STEPS, optimum);
    if (!(least > DPMF_UNBOUNDED_LOWER_BOUND)) fail_msg("the least ratio is %.6f", least);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_1000_steps_to_2_to_the_24_are_within_1_29_of_the_optimum),
        cmocka_unit_test(test_no_mechanism_without_a_horizon_stays_below_1_25),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
