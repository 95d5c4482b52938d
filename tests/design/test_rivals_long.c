/* SPDX-License-Identifier: Apache-2.0 */
/* What design chooses is not clearly worse than anything that the optimizers make: random settings, longer runs. */
#include "support/design_rivals.h"

static void test_design_misses_nothing_at_length(void **unused) {
    static const char *const workloads[] = {"prefix", "momentum:0.9", "decay:0.01", "nesterov:0.8",
                                            "momentum:0.9,cooldown:0.3:0.01"};
    uint64_t seed = 41;
    (void)unused;
    for (int i = 0; i < 40; i++) {
        int64_t n = (int64_t)(20 * pow(i % 8 == 0 ? 100 : 15, 0.5 * (check_random(&seed) + 1)));
        int64_t epochs = 1 + (int64_t)(4 * (check_random(&seed) + 1));
        check_no_rival(n, epochs, workloads[i % 5], i % 3 == 0 ? DPMF_LOSS_MAX : DPMF_LOSS_RMS, i % 2);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_design_misses_nothing_at_length)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
