/* SPDX-License-Identifier: Apache-2.0 */
/* What design chooses is not clearly worse than anything that the optimizers make: short runs. */
#include "support/design_rivals.h"

static void test_design_misses_nothing(void **unused) {
    (void)unused;
    check_no_rival(24, 3, "prefix", DPMF_LOSS_RMS, 0);
    check_no_rival(30, 2, "momentum:0.9", DPMF_LOSS_RMS, 1);
    check_no_rival(20, 4, "momentum:0.8,cooldown:0.5:0.1", DPMF_LOSS_RMS, 0);
    check_no_rival(16, 2, "prefix", DPMF_LOSS_MAX, 0);
    check_no_rival(40, 1, "nesterov:0.8", DPMF_LOSS_RMS, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_design_misses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
