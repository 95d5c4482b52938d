/* SPDX-License-Identifier: Apache-2.0 */
/* Random allocation against simulation, all settings. */
#include "support/allocation_simulated.h"

static void test_fifty_allocations_agree_with_simulation(void **state) {
    (void)state;
    for (int i = 0; i < ALLOCATION_SETTINGS; i++)
        check_allocation_setting(i);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fifty_allocations_agree_with_simulation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
