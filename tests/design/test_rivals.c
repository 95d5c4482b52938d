/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mechanism that design chooses is not clearly worse than any other of the library: 14 random settings of up to 300
 * steps, each workload twice. test_rivals_long.c has more of them.
 */
#include "support/design_rivals.h"

static void test_design_misses_nothing(void **unused) {
    (void)unused;
    check_short_rivals(14);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_design_misses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
