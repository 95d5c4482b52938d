/* SPDX-License-Identifier: Apache-2.0 */
/* Capped sampling is never below all outcomes, for up to 8 units, in one step and in two. */
#include "support/capped_cases.h"

static void test_never_below_all_outcomes_of_eight_units(void **state) {
    static const double epsilons[] = {0, 0.3, 1}, sigmas[] = {0.7, 1.5};
    (void)state;
    for (int n = 5; n <= UNITS_MAX; n++)
        for (int cap = 1; cap < n; cap++)
            for (int adjacency = 0; adjacency <= 2; adjacency++)
                for (size_t e = 0; e < sizeof epsilons / sizeof *epsilons; e++)
                    for (size_t i = 0; i < 2; i++)
                        check_capped_case(n, cap, e == 1 ? 0.5 : 0.2, sigmas[i], (dpmf_adjacency)adjacency, epsilons[e],
                                          1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_below_all_outcomes_of_eight_units)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
