/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design on several threads, in a separate file because the thread sanitizer makes the arithmetic of other designs take
 * minutes.
 */
#include "design/design.h"
#include "support/check.h"
#include "support/design_cases.h"

/* Without measurements nothing depends on threads, not even the last bit. */
static void test_a_design_without_times_is_the_same_for_any_threads(void **state) {
    (void)state;
    dpmf_design_options o = quick_options(3);
    o.sampling = DPMF_SAMPLING_BLOCK_CYCLIC;
    o.families = "identity,blt,banded-toeplitz";
    o.run.threads = 1;
    dpmf_design *one = make_design("momentum:0.5", 100, &o);
    o.run.threads = 3;
    dpmf_design *three = make_design("momentum:0.5", 100, &o);
    assert_int_equal(dpmf_design_get(one).count, dpmf_design_get(three).count);
    assert_int_equal(dpmf_design_get(one).chosen, dpmf_design_get(three).chosen);
    for (int64_t i = 0; i < dpmf_design_get(one).count; i++) {
        const dpmf_candidate *a = dpmf_design_candidate(one, i), *b = dpmf_design_candidate(three, i);
        assert_true(a->noise_rms == b->noise_rms && a->noise_max == b->noise_max && a->sigma == b->sigma);
        assert_true(a->memory_bytes == b->memory_bytes && a->eligible == b->eligible);
    }
    assert_string_equal(dpmf_mechanism_get(dpmf_design_get(one).mechanism).digest,
                        dpmf_mechanism_get(dpmf_design_get(three).mechanism).digest);
    assert_string_equal(dpmf_design_get(one).why, dpmf_design_get(three).why);
    dpmf_design_free(three);
    dpmf_design_free(one);
}

/* The points run side by side. */
static void test_a_plan_is_the_same_for_any_threads(void **state) {
    (void)state;
    dpmf_plan_options o = dpmf_plan_options_defaults();
    dpmf_plan *one = NULL, *three = NULL;
    o.units = 120;
    o.epochs_low = 1;
    o.epochs_high = 2;
    o.batch_low = 5;
    o.batch_high = 20;
    o.design.families = "identity,blt";
    o.design.run.threads = 1;
    check_ok(dpmf_plan_create(&o, &one));
    o.design.run.threads = 3;
    check_ok(dpmf_plan_create(&o, &three));
    assert_int_equal(dpmf_plan_get(one).count, dpmf_plan_get(three).count);
    for (int64_t i = 0; i < dpmf_plan_get(one).count; i++) {
        const dpmf_plan_row *a = &dpmf_plan_get(one).rows[i], *b = &dpmf_plan_get(three).rows[i];
        assert_true(a->noise_per_epoch == b->noise_per_epoch);
        assert_true(a->independent_noise_per_epoch == b->independent_noise_per_epoch);
    }
    assert_string_equal(dpmf_plan_get(one).text, dpmf_plan_get(three).text);
    dpmf_plan_free(three);
    dpmf_plan_free(one);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_design_without_times_is_the_same_for_any_threads),
                                       cmocka_unit_test(test_a_plan_is_the_same_for_any_threads)};
    return cmocka_run_group_tests_name("design on several threads", tests, NULL, NULL);
}
