/* SPDX-License-Identifier: Apache-2.0 */
/* Windows, powers and the mean so far: against their definitions, with their certified optimum, through files. */
#include "support/check.h"

#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 30 };

static double entry(int kind, int64_t t, int64_t u) {
    return kind == 0   ? 1 / (double)(t + 1)
           : kind == 1 ? (double)(t - u < 7)
           : kind == 2 ? pow((double)(t - u + 1), -0.75)
                       : 1;
}

static const char *const TEXT[] = {"mean", "window:7", "decay-power:0.75", "window:100", "decay-power:0"};
enum { TEXTS = sizeof TEXT / sizeof TEXT[0] };

static void test_windows_powers_and_the_mean_are_their_definitions(void **state) {
    (void)state;
    for (int i = 0; i < TEXTS; i++) {
        dpmf_workload *w = workload_of(TEXT[i], STEPS);
        double *matrix = check_workload_matrix(w);
        assert_string_equal(dpmf_workload_get(w).text, TEXT[i]);
        assert_int_equal(dpmf_workload_get(w).is_toeplitz, i > 0);
        for (int64_t t = 0; t < STEPS; t++)
            for (int64_t u = 0; u <= t; u++)
                check_near(matrix[t * STEPS + u], entry(i < 3 ? i : 3, t, u), 1e-14);
        check_workload(w, 1e-11);
        free(matrix);
        dpmf_workload_free(w);
    }
}

/* The enclosed optimum; prefix sums under another name have the optimum of prefix sums. */
static void test_windows_powers_and_the_mean_have_a_certified_optimum(void **state) {
    double found[TEXTS + 1];
    dpmf_run run = dpmf_run_defaults();
    (void)state;
    for (int i = 0; i <= TEXTS; i++) {
        dpmf_workload *w = workload_of(i < TEXTS ? TEXT[i] : "prefix", STEPS);
        optimum_answer optimum = {0};
        check_ok(optimum_solve(w, 0, NULL, 1e-6, &run, &optimum));
        assert_int_equal(optimum.converged, 1);
        found[i] = optimum.lower;
        optimum_free(&optimum);
        dpmf_workload_free(w);
    }
    check_near(found[3], found[TEXTS], 2e-6);
    check_near(found[4], found[TEXTS], 2e-6);
    assert_true(found[1] < found[TEXTS] && found[2] < found[TEXTS] && found[0] < 1);
}

static void test_mechanisms_for_windows_come_back_from_their_file(void **state) {
    (void)state;
    for (int i = 0; i < TEXTS; i++) {
        dpmf_workload *w = workload_of(TEXT[i], STEPS);
        dpmf_strategy *s = NULL;
        dpmf_mechanism *m = NULL, *back = NULL;
        uint8_t *bytes = NULL;
        size_t size = 0;
        check_ok(dpmf_strategy_create("toeplitz", w, NULL, &s));
        check_factorization(w, s, 1e-10);
        check_ok(dpmf_mechanism_create(w, NULL, s, NULL, &m));
        check_ok(dpmf_mechanism_encode(m, &bytes, &size));
        assert_true(size < 4000 + 8 * 3 * STEPS); /* the matrix is not in it */
        check_ok(dpmf_mechanism_decode(bytes, size, &back));
        assert_true(workload_equal(w, dpmf_mechanism_get(back).workload));
        assert_string_equal(dpmf_workload_get(dpmf_mechanism_get(back).workload).text, TEXT[i]);
        assert_string_equal(dpmf_mechanism_get(back).digest, dpmf_mechanism_get(m).digest);
        dpmf_bytes_free(bytes);
        dpmf_mechanism_free(m);
        dpmf_mechanism_free(back);
        dpmf_strategy_free(s);
        dpmf_workload_free(w);
    }
}

static void test_the_first_steps_of_a_window_are_that_window(void **state) {
    (void)state;
    for (int i = 1; i < TEXTS; i++) {
        dpmf_workload *w = workload_of(TEXT[i], STEPS), *wanted = workload_of(TEXT[i], 12), *head = NULL;
        check_ok(workload_head(w, 12, &head));
        assert_string_equal(dpmf_workload_get(head).text, TEXT[i]);
        assert_true(workload_equal(head, wanted));
        dpmf_workload_free(head);
        dpmf_workload_free(wanted);
        dpmf_workload_free(w);
    }
}

static void test_windows_out_of_range_are_refused(void **state) {
    static const char *const BAD[] = {"window:0",       "window:1.5",        "window:",         "window:-3",
                                      "decay-power:-1", "decay-power:",      "decay-power:nan", "mean,lr:x",
                                      "prefix,mean",    "window:3,decay:0.1"};
    dpmf_workload *w = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(BAD[i], STEPS, &w));
    assert_null(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_powers_and_the_mean_are_their_definitions),
        cmocka_unit_test(test_windows_powers_and_the_mean_have_a_certified_optimum),
        cmocka_unit_test(test_mechanisms_for_windows_come_back_from_their_file),
        cmocka_unit_test(test_the_first_steps_of_a_window_are_that_window),
        cmocka_unit_test(test_windows_out_of_range_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
