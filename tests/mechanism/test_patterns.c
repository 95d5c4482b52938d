/* SPDX-License-Identifier: Apache-2.0 */
/* Mechanism files that hold patterns: the same bytes again, every change refused, no other file opened, samplers, first steps. */
#include "support/patterns_files.h"

#include "sampler/sampler.h"

#include <math.h>

static dpmf_mechanism *made(const char *text, int64_t steps, const char *family) {
    dpmf_workload *a = workload_of("prefix", steps);
    dpmf_participation *p = patterns_of_text(text, steps);
    dpmf_strategy *s = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.sigma = 2;
    o.unit = "user";
    check_ok(dpmf_strategy_create(family, a, NULL, &s));
    check_ok(dpmf_mechanism_create(a, p, s, &o, &m));
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return m;
}

static const char OWN[] = "0 3 7\n1 2\n4 6\n5\n";

static void test_a_mechanism_file_holds_its_patterns(void **unused) {
    dpmf_mechanism *m = made(OWN, 8, "toeplitz"), *again = NULL;
    uint8_t *bytes = NULL, *twice = NULL;
    size_t size = 0, twice_size = 0;
    (void)unused;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &again));
    check_ok(dpmf_mechanism_encode(again, &twice, &twice_size));
    assert_int_equal(size, twice_size);
    assert_memory_equal(bytes, twice, size);
    const dpmf_participation *p = dpmf_mechanism_get(again).participation;
    assert_int_equal(p->patterns, 4);
    assert_int_equal(p->listed[2], 7);
    check_ok(dpmf_mechanism_confirm(again, NULL, NULL));
    dpmf_bytes_free(bytes);
    dpmf_bytes_free(twice);
    dpmf_mechanism_free(again);
    dpmf_mechanism_free(m);
}

static void test_every_changed_byte_of_the_patterns_is_refused(void **unused) {
    dpmf_mechanism *m = made(OWN, 8, "toeplitz"), *again = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)unused;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 1;
        assert_true(dpmf_mechanism_decode(bytes, size, &again) != DPMF_OK);
        bytes[i] ^= 1;
    }
    assert_null(again);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(m);
}

/* The patterns are in the statement's participation, and the first steps have only those that have begun. */
static void test_the_first_steps_are_accounted_by_the_patterns_that_have_begun(void **unused) {
    dpmf_mechanism *m = made("0 5 6\n1\n2 3 4\n7\n", 8, "identity");
    dpmf_account_options how;
    double sigma = 0;
    (void)unused;
    check_near(dpmf_mechanism_get(m).evaluation.sensitivity.value, sqrt(3), 1e-15);
    check_ok(dpmf_mechanism_account_first(m, 2, NULL, &sigma, &how)); /* one participation at most so far */
    check_near(sigma, 2 * sqrt(3), 1e-14);
    check_ok(dpmf_mechanism_account_first(m, 4, NULL, &sigma, &how));
    check_near(sigma, 2 * sqrt(1.5), 1e-14);
    dpmf_mechanism_free(m);
}

static dpmf_status sampled(const char *sampler, int64_t units, const dpmf_mechanism *m) {
    const uint8_t key[DPMF_KEY_SIZE] = {1};
    dpmf_sampler *s = NULL;
    check_ok(dpmf_sampler_create(sampler, units, dpmf_mechanism_get(m).participation->steps, key, "t", &s));
    const dpmf_status status = dpmf_sampler_check(s, m);
    dpmf_sampler_free(s);
    return status;
}

static void test_only_samplers_inside_the_patterns_are_accepted(void **unused) {
    /* 12 units in batches of 3: four batches per pass, so that a unit's steps are 4 apart */
    dpmf_mechanism *fits = made("0 4\n1 5\n2 6\n3 7 0\n", 8, "identity"),
                   *less = made("0 4\n1 5\n2 6\n3\n7\n", 8, "identity");
    dpmf_mechanism *gap = made("0\n1\n2\n3\n4\n5\n7\n", 8, "identity"), *all = made("0-7\n", 8, "identity");
    (void)unused;
    check_ok(sampled("cyclic:3", 12, fits));
    check_fails(DPMF_ERROR_ARGUMENT, sampled("cyclic:3", 12, less));
    check_message("the guarantee would not hold");
    check_fails(DPMF_ERROR_ARGUMENT, sampled("shuffled:3", 12, fits));
    check_fails(DPMF_ERROR_ARGUMENT, sampled("poisson:0.25", 12, fits));
    check_fails(DPMF_ERROR_ARGUMENT, sampled("cyclic:1", 8, gap)); /* one step each, but step 6 is in no pattern */
    check_ok(sampled("cyclic:1", 8, less));
    check_ok(sampled("poisson:0.25", 12, all));
    dpmf_mechanism_free(fits);
    dpmf_mechanism_free(less);
    dpmf_mechanism_free(gap);
    dpmf_mechanism_free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mechanism_file_holds_its_patterns),
        cmocka_unit_test(test_every_changed_byte_of_the_patterns_is_refused),
        cmocka_unit_test(test_the_first_steps_are_accounted_by_the_patterns_that_have_begun),
        cmocka_unit_test(test_only_samplers_inside_the_patterns_are_accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
