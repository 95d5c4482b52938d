/* SPDX-License-Identifier: Apache-2.0 */
/* Random allocation against simulation, all settings. */
#include "support/allocation_simulated.h"

static void test_fifty_allocations_agree_with_simulation(void **state) {
    (void)state;
    for (int i = 0; i < ALLOCATION_SETTINGS; i++)
        check_allocation_setting(i);
}

static void test_delta_falls_with_epsilon_in_10000_settings(void **state) {
    static const int64_t BINS[] = {2, 3, 4, 5, 7, 10, 20, 40, 100, 300};
    (void)state;
    for (int i = 0; i < 10; i++)
        check_allocation_falls(BINS[i], 10, 100, 0.08);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fifty_allocations_agree_with_simulation),
                                       cmocka_unit_test(test_delta_falls_with_epsilon_in_10000_settings)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
