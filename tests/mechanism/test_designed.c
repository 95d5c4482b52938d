/* SPDX-License-Identifier: Apache-2.0 */
/* The constraints of a design in a mechanism: they come back from the file, are part of its digest, and are checked. */
#include "support/check.h"

#include <math.h>
#include <string.h>

enum { N = 8 };

static dpmf_status make(dpmf_design_limits designed, dpmf_mechanism **out) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.sigma = 1;
    o.designed = designed;
    check_ok(dpmf_workload_parse("prefix", N, &a));
    check_ok(dpmf_strategy_create("toeplitz", a, NULL, &c));
    dpmf_status status = dpmf_mechanism_create(a, NULL, c, &o, out);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    return status;
}

static void test_the_constraints_come_back(void **unused) {
    static const dpmf_design_limits cases[] = {{0, 0, 0, DPMF_LOSS_RMS, 0, 0},
                                               {1, 0, 0, DPMF_LOSS_RMS, 0, 0},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_MAX, 0, 0},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_RMS, 0, 0},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_RMS, 40, 0},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_LP, 0, 2.5},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_LP, 0, 0.1 + 0.2 + 3},
                                               {1000, 1 << 20, 3.5, DPMF_LOSS_LAST, 0, 0}};
    enum { CASES = sizeof cases / sizeof *cases };
    char digests[CASES][65];
    (void)unused;
    for (int i = 0; i < CASES; i++) {
        dpmf_mechanism *m = NULL, *again = NULL, *calibrated = NULL;
        uint8_t *bytes = NULL;
        size_t size = 0;
        check_ok(make(cases[i], &m));
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        check_ok(dpmf_mechanism_decode(bytes, size, &again));
        check_ok(dpmf_mechanism_calibrate(again, 1, 1e-5, NULL, NULL, NULL, &calibrated, NULL));
        const dpmf_design_limits found[] = {dpmf_mechanism_get(m).designed, dpmf_mechanism_get(again).designed,
                                            dpmf_mechanism_get(calibrated).designed};
        for (int j = 0; j < 3; j++) {
            assert_int_equal(found[j].dim, cases[i].dim);
            assert_int_equal(found[j].memory, cases[i].memory);
            assert_true(found[j].max_overhead == cases[i].max_overhead);
            assert_int_equal(found[j].loss, cases[i].loss);
            assert_true(found[j].loss_power == cases[i].loss_power);
            assert_int_equal(found[j].separation_high, cases[i].separation_high);
        }
        memcpy(digests[i], dpmf_mechanism_get(m).digest, 65);
        for (int j = 0; j < i; j++)
            assert_string_not_equal(digests[i], digests[j]);
        dpmf_bytes_free(bytes);
        dpmf_mechanism_free(calibrated);
        dpmf_mechanism_free(again);
        dpmf_mechanism_free(m);
    }
}

static void test_constraints_that_no_file_can_hold_are_refused(void **unused) {
    static const dpmf_design_limits cases[] = {
        {-1, 0, 0, DPMF_LOSS_RMS, 0, 0},         {INT64_MAX, 0, 0, DPMF_LOSS_RMS, 0, 0},
        {1, UINT64_MAX, 0, DPMF_LOSS_RMS, 0, 0}, {1, 0, 0.5, DPMF_LOSS_RMS, 0, 0},
        {1, 0, NAN, DPMF_LOSS_RMS, 0, 0},        {1, 0, INFINITY, DPMF_LOSS_RMS, 0, 0},
        {1, 0, 0, (dpmf_loss)7, 0, 0},           {1, 0, 0, DPMF_LOSS_RMS, -1, 0},
        {1, 0, 0, DPMF_LOSS_LP, 0, 0.5},         {1, 0, 0, DPMF_LOSS_OWN, 0, 0}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_mechanism *m = NULL;
        check_fails(DPMF_ERROR_ARGUMENT, make(cases[i], &m));
        assert_null(m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_constraints_come_back),
        cmocka_unit_test(test_constraints_that_no_file_can_hold_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
