/* SPDX-License-Identifier: Apache-2.0 */
/* What design chooses is not clearly worse than anything that the library makes: 40 random settings of up to 300 steps. */
#include "support/design_rivals.h"

static void test_design_misses_nothing(void **unused) {
    uint64_t seed = 2026;
    (void)unused;
    for (int i = 0; i < 40; i++) {
        const int max_loss = i % 3 == 2; /* takes longer */
        const rival_setting s = rival_random(i, &seed, 6, max_loss ? 40 : 300);
        assert_true(max_loss == (s.loss == DPMF_LOSS_MAX));
        check_no_rival(&s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_design_misses_nothing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
