/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mechanism whose sensitivity holds for one column alone: every way to a stream of more columns is tried and refused by
 * name, one column works, and its file, its copies, its account and its statement carry the number of columns.
 */
#include "mechanism/mechanism.h"
#include "support/check.h"
#include "support/noise_cases.h"

#include <math.h>

enum { STEPS = 3 };

/* C'C = [6 3 3; 3 6 -3; 3 -3 6]/24 + I/100: signs reach less than vectors (Choquette-Choo et al. 2023, Appendix H.2). */
static dpmf_mechanism *make(int64_t columns, double sigma) {
    const double last = sqrt(0.26), below = 0.125 / last, middle = sqrt(0.26 - below * below);
    const double left = (0.125 + below * below) / middle;
    const double matrix[STEPS * STEPS] = {
        sqrt(0.26 - below * below - left * left), 0, 0, left, middle, 0, below, -below, last};
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_participation *p = NULL;
    dpmf_mechanism *m = NULL;
    o.sigma = sigma;
    o.evaluate.columns = columns;
    check_ok(dpmf_workload_parse("prefix", STEPS, &a));
    check_ok(dpmf_strategy_create_dense(STEPS, matrix, &c));
    check_ok(dpmf_participation_parse("full", STEPS, &p));
    check_ok(dpmf_mechanism_create(a, p, c, &o, &m));
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    dpmf_participation_free(p);
    return m;
}

static void check_refused(dpmf_status status) {
    check_fails(DPMF_ERROR_ARGUMENT, status);
    assert_non_null(strstr(dpmf_last_error(), "one column"));
}

static void check_doors(const dpmf_mechanism *m) {
    static const int64_t dims[] = {2, 3, 1000, (int64_t)1 << 53};
    dpmf_noise *noise = NULL;
    dpmf_counter *counter = NULL;
    dpmf_exact exact;
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        for (int way = 0; way < 6; way++) {
            dpmf_noise_options o = dpmf_noise_options_defaults();
            dpmf_counter_options c = dpmf_counter_options_defaults();
            o.uncalibrated = c.uncalibrated = 1;
            o.count = way > 0;   /* one column of the row: a shard */
            o.offset = way == 2; /* the second one */
            o.exact = way == 3;
            o.precision = way == 4 ? DPMF_FLOAT64 : DPMF_FLOAT32;
            o.prefetch = way == 5;
            c.release = (dpmf_release)(way % 3);
            check_refused(dpmf_noise_create(m, dims[i], 1.0, case_key, &o, &noise));
            check_refused(dpmf_noise_memory(m, dims[i], &o, &bytes, NULL));
            check_refused(dpmf_exact_plan(m, dims[i], 1.0, 0, NULL, &exact));
            if (dims[i] <= 1000000) check_refused(dpmf_counter_create(m, dims[i], 1.0, case_key, &c, &counter));
            assert_true(noise == NULL && counter == NULL);
        }
}

static void check_one(const dpmf_mechanism *m, int64_t columns) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_counter_options c = dpmf_counter_options_defaults();
    dpmf_noise *noise = NULL;
    dpmf_counter *counter = NULL;
    double row[2], sums[2];
    const double counted[2] = {1, 1};
    o.precision = DPMF_FLOAT64;
    check_ok(dpmf_noise_create(m, columns, 1.0, case_key, &o, &noise));
    check_ok(dpmf_noise_next(noise, row));
    check_ok(dpmf_counter_create(m, columns, 1.0, case_key, &c, &counter));
    check_ok(dpmf_counter_add(counter, 1, counted, sums));
    dpmf_noise_free(noise);
    dpmf_counter_free(counter);
}

static void test_a_mechanism_for_one_column_opens_no_stream_of_more(void **unused) {
    dpmf_mechanism *m = make(1, 2), *vectors = make(0, 2), *plain = make(1, 0);
    const dpmf_sensitivity one = dpmf_mechanism_get(m).evaluation.sensitivity;
    const dpmf_sensitivity any = dpmf_mechanism_get(vectors).evaluation.sensitivity;
    (void)unused;
    assert_true(one.columns == 1 && one.kind == DPMF_EXACT && any.columns == 0 && one.value < 0.95 * any.value);
    check_near(one.value * one.value, 1.03, 1e-12);
    check_doors(m);
    check_doors(plain);
    check_one(m, 1);
    check_one(vectors, 1);
    check_one(vectors, 2);
    assert_string_not_equal(dpmf_mechanism_get(m).digest, dpmf_mechanism_get(vectors).digest);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(vectors);
    dpmf_mechanism_free(plain);
}

static void test_file_copies_account_and_statement_carry_the_column(void **unused) {
    dpmf_mechanism *m = make(1, 2), *again = NULL, *made = NULL, *third = NULL;
    dpmf_account_options how, first;
    dpmf_privacy found = {0};
    char statement[6000];
    uint8_t *bytes = NULL;
    size_t size = 0;
    double sigma = 0;
    (void)unused;
    check_ok(dpmf_mechanism_encode(m, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &again));
    dpmf_bytes_free(bytes);
    check_doors(again);
    check_ok(dpmf_mechanism_calibrate(again, 1.0, 1e-6, NULL, NULL, NULL, &made, &found));
    check_doors(made);
    check_ok(dpmf_mechanism_confirm(made, NULL, NULL));
    check_ok(dpmf_mechanism_calibrate(made, 2.0, 1e-6, NULL, "user", NULL, &third, NULL));
    check_doors(third);
    how = dpmf_mechanism_account_options(made);
    assert_int_equal(how.covered.sensitivity.columns, 1);
    dpmf_privacy_statement(&found, &how, statement, sizeof statement);
    assert_non_null(strstr(statement, "holds for streams of one column alone"));
    check_ok(dpmf_mechanism_account_first(made, 2, NULL, &sigma, &first));
    assert_true(sigma >= dpmf_mechanism_get(made).sigma);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(again);
    dpmf_mechanism_free(made);
    dpmf_mechanism_free(third);
}

/* Somebody takes the word out of the file and makes its digest right: what is claimed for vectors does not hold. */
static void test_a_file_without_the_word_claims_too_little(void **unused) {
    dpmf_mechanism *m = make(1, 2), *forged = NULL;
    dpmf_verification *v = NULL;
    const char *path = case_path("forged.dpmf");
    (void)unused;
    m->problem.evaluation.sensitivity.columns = 0;
    check_ok(mechanism_finish(m));
    check_ok(dpmf_mechanism_save(m, path));
    check_ok(dpmf_mechanism_load(path, &forged));
    check_fails(DPMF_ERROR_FORMAT, dpmf_mechanism_confirm(forged, NULL, NULL));
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = forged}, NULL, &v));
    assert_int_equal(dpmf_verification_get(v).ok, 0);
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(forged);
    m = make(1, 2);
    check_ok(dpmf_verify(&(dpmf_verify_source){.mechanism = m}, NULL, &v));
    assert_int_equal(dpmf_verification_get(v).ok, 1);
    dpmf_verification_free(v);
    dpmf_mechanism_free(m);
}

/* The run that happened, for one column: the signs of the units' own steps. */
static void test_a_log_is_valued_for_one_column_too(void **unused) {
    const int64_t unit[] = {4, 4, 4, 9}, step[] = {0, 1, 2, 1};
    dpmf_mechanism *m = make(1, 2);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_sensitivity any = {0}, one = {0};
    int64_t worst = 0;
    (void)unused;
    check_ok(dpmf_sensitivity_observed(m->strategy, 4, unit, step, &o, &any, &worst));
    o.columns = 1;
    check_ok(dpmf_sensitivity_observed(m->strategy, 4, unit, step, &o, &one, &worst));
    assert_true(one.columns == 1 && any.columns == 0 && worst == 4 && one.value < any.value);
    check_near(one.value, dpmf_mechanism_get(m).evaluation.sensitivity.value, 1e-14);
    dpmf_mechanism_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_mechanism_for_one_column_opens_no_stream_of_more),
        cmocka_unit_test(test_file_copies_account_and_statement_carry_the_column),
        cmocka_unit_test(test_a_file_without_the_word_claims_too_little),
        cmocka_unit_test(test_a_log_is_valued_for_one_column_too),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
