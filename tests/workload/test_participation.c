/* SPDX-License-Identifier: Apache-2.0 */
/* Participation: feasibility, and its text. */
#include "support/check.h"

#include "workload/workload.h"

static void assert_pattern(const char *text, int64_t steps, int64_t k, int64_t b) {
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse(text, steps, &p));
    assert_string_equal(dpmf_participation_get(p).text, text);
    assert_int_equal(dpmf_participation_get(p).steps, steps);
    assert_int_equal(dpmf_participation_get(p).count, k);
    assert_int_equal(dpmf_participation_get(p).separation, b);
    dpmf_participation_free(p);
}

static void test_patterns_that_fit_are_accepted(void **unused) {
    (void)unused;
    assert_pattern("single", 10, 1, 10);
    assert_pattern("full", 10, 10, 1);
    assert_pattern("cyclic:20,100", 2000, 20, 100);
    assert_pattern("cyclic:20,100", 1901, 20, 100); /* a short last pass */
    assert_pattern("minsep:3,4", 9, 3, 4);
    assert_pattern("minsep:2,4", 9, 2, 4); /* fewer than would fit */
    assert_pattern("shuffled:4,16", 64, 4, 16);
    assert_pattern("cyclic:1,5", 5, 1, 5);
    assert_pattern("minsep:1,1", 1, 1, 1);
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse("cyclic:1e1,1e5", 1000000, &p));
    assert_string_equal(dpmf_participation_get(p).text, "cyclic:10,100000");
    dpmf_participation_free(p);
}

/* People type min-sep, files contain minsep: both are read, and messages use the former. */
static void test_min_sep_is_read_with_and_without_its_hyphen(void **unused) {
    dpmf_participation *p = NULL;
    (void)unused;
    check_ok(dpmf_participation_parse("min-sep:3,4", 9, &p));
    assert_int_equal(dpmf_participation_get(p).kind, DPMF_PARTICIPATION_MIN_SEPARATION);
    assert_string_equal(dpmf_participation_get(p).text, "minsep:3,4");
    dpmf_participation_free(p);
    p = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse("minsep:3", 9, &p));
    check_message("accepted min-sep:K,B");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse("min-sep:4,4", 9, &p));
    check_message("participation min-sep:4,4");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse("min_sep:3,4", 9, &p));
    check_message("cyclic:K,B, min-sep:K,B");
    assert_null(p);
}

static void test_patterns_that_do_not_fit_and_other_texts_are_refused(void **unused) {
    static const struct {
        const char *text;
        int64_t steps;
        const char *message;
    } bad[] = {{"cyclic:20,100", 1900, "does not fit"},
               {"cyclic:20,100", 2001, "(k-1) b < steps <= k b"},
               {"minsep:3,4", 8, "k up to 2"},
               {"shuffled:4,16", 65, "shuffled"},
               {"cyclic:0,5", 10, "k = 0"},
               {"cyclic:-1,5", 10, "k = -1"},
               {"cyclic:5,0", 10, "b = 0"},
               {"minsep:11,1", 10, "k = 11"},
               {"cyclic:2", 10, "K,B"},
               {"cyclic:", 10, "K,B"},
               {"cyclic", 10, "cyclic"},
               {"cyclic:2,5,1", 10, "K,B"},
               {"cyclic:2.5,4", 10, "whole"},
               {"single:1", 10, "single:1"},
               {"fulll", 10, "fulll"},
               {"", 10, "''"},
               {"minsep:9223372036854775807,2", 10, "whole"}};
    dpmf_participation *p = NULL;
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse(bad[i].text, bad[i].steps, &p));
        check_message(bad[i].message);
        assert_null(p);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_parse(NULL, 10, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_create((dpmf_participation_kind)7, 10, 1, 1, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, 0, 0, 0, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_participation_create(DPMF_PARTICIPATION_CYCLIC, 10, INT64_MAX, 2, &p));
    assert_null(p);
    dpmf_participation_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patterns_that_fit_are_accepted),
                                       cmocka_unit_test(test_min_sep_is_read_with_and_without_its_hyphen),
                                       cmocka_unit_test(test_patterns_that_do_not_fit_and_other_texts_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
