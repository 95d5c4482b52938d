/* SPDX-License-Identifier: Apache-2.0 */
/* Design: the published figures at the other three epsilons, and large problems. */
#include "support/check.h"
#include "support/design_cases.h"

static void test_amplified_designs_at_larger_epsilon_are_the_published_ones(void **state) {
    (void)state;
    check_published(2, 64, 20.0633, 3.0896, 1.6387, 1.7133);
    check_published(4, 128, 12.5955, 4.1469, 1.3732, 1.4356);
    check_published(8, 256, 8.2129, 5.2100, 1.1293, 1.1807);
}

static void test_a_million_steps_can_be_designed_for(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(10);
    o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    dpmf_design *d = make_design("prefix", 1000000, &o);
    assert_int_equal(chosen_of(d)->sampling.kind, DPMF_SAMPLING_BLOCK_CYCLIC);
    dpmf_design_free(d);
    o.sampling = DPMF_SAMPLING_NONE;
    o.epochs = 1;
    d = make_design("momentum:0.9,cooldown:0.2:0.1", 1000000, &o);
    assert_true(chosen_of(d)->buffers <= 16);
    dpmf_design_free(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_amplified_designs_at_larger_epsilon_are_the_published_ones),
        cmocka_unit_test(test_a_million_steps_can_be_designed_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
