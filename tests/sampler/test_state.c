/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentic states that no run can have: a holder of the key can make them. They are refused, and the sampler stays as
 * it was. (An earlier version accepted a step of 2^62, and a past that ends at -2^63 was replayed step by step.)
 */
#include "noise/noise.h"
#include "sampler/sampler.h"
#include "support/check.h"

#include <string.h>

enum { UNITS = 6, STEPS = 10, STEP_AT = 40, PAST_AT = 224 };

/* The state of a sampler after 4 steps, with one number changed and the code that fits. */
static void check_refused(const char *text, size_t at, int64_t value) {
    uint8_t key[DPMF_KEY_SIZE], *bytes = NULL;
    int64_t batch[UNITS], count = 0;
    size_t size = 0;
    dpmf_sampler *s = NULL;
    check_ok(dpmf_key_testing(3, key));
    check_ok(dpmf_sampler_create(text, UNITS, STEPS, key, NULL, &s));
    for (int t = 0; t < 4; t++)
        check_ok(dpmf_sampler_next(s, batch, &count));
    check_ok(dpmf_sampler_encode(s, &bytes, &size));
    assert_true(at + 8 <= size - NOISE_MAC);
    memcpy(bytes + at, &value, sizeof value);
    check_ok(noise_mac(s->mac_key, bytes, size - NOISE_MAC, bytes + size - NOISE_MAC));
    check_fails(DPMF_ERROR_FORMAT, dpmf_sampler_decode(s, bytes, size));
    assert_int_equal(dpmf_sampler_get(s).step, 4);
    check_ok(dpmf_sampler_next(s, batch, &count));
    dpmf_bytes_free(bytes);
    dpmf_sampler_free(s);
}

static void test_a_step_that_the_run_does_not_have_is_refused(void **unused) {
    const int64_t values[] = {-1, STEPS + 1, INT64_MAX, INT64_MIN};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        check_refused("cyclic:2", STEP_AT, values[i]);
        check_refused("min-sep:0.5,2", STEP_AT, values[i]);
        check_refused("scheduled:2,3,2", STEP_AT, values[i]);
    }
}

static void test_a_past_that_no_run_has_is_refused(void **unused) {
    (void)unused;
    check_refused("min-sep:0.5,2", PAST_AT, INT64_MIN); /* the step that it reaches */
    check_refused("min-sep:0.5,2", PAST_AT, STEPS + 1);
    check_refused("scheduled:2,3,2", PAST_AT, -1);                    /* when a unit is free */
    check_refused("scheduled:2,3,2", PAST_AT + 8 * UNITS, INT64_MAX); /* how often it took part */
    check_refused("scheduled:2,3,2", PAST_AT + 16 * UNITS - 8, STEPS + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_step_that_the_run_does_not_have_is_refused),
                                       cmocka_unit_test(test_a_past_that_no_run_has_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
