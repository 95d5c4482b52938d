/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mechanism that design chooses is not clearly worse than any other of the library: random settings of up to 2000
 * steps.
 */
#include "support/design_rivals.h"

static void test_design_misses_nothing_at_length(void **unused) {
    uint64_t seed = 41;
    (void)unused;
    for (int i = 0; i < 40; i++) {
        const rival_setting s = rival_random(i, &seed, 20, 2000);
        check_no_rival(&s);
    }
}

static void test_design_misses_nothing_in_more_short_runs(void **unused) {
    (void)unused;
    check_short_rivals(40);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_design_misses_nothing_at_length),
        cmocka_unit_test(test_design_misses_nothing_in_more_short_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
