/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules by name: compared with their definitions, their texts through a mechanism file, refusals. */
#include "support/check.h"

#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { N = 40 };

static const double PI = 3.14159265358979323846;

static double rate_of(const dpmf_workload *w, int64_t t) {
    double q[3], r[2];
    check_ok(dpmf_workload_inverse_row(w, t, q, r));
    return 1 / q[0];
}

static double cosine(int t) {
    return 0.1 + 0.9 * (1 + cos(PI * t / (N - 1.0))) / 2;
}

static double linear(int t) {
    return 0.1 + 0.9 * (1 - t / (double)N);
}

static double linear_to_zero(int t) {
    return 1 - t / (double)N;
}

static double warmup(int t) {
    return t < 10 ? (t + 1) / 10.0 : 1;
}

static double stepped(int t) {
    return pow(0.5, t / 15); /* whole steps */
}

static double both(int t) {
    return warmup(t) * cosine(t);
}

static double cooled(int t) {
    return t < 30 ? 1 : 1 - 0.95 * (t - 29) / 10.0;
}

static void test_they_are_what_they_say(void **unused) {
    static const struct {
        const char *text;
        double (*rate)(int t);
    } cases[] = {{"cosine:0.1", cosine},        {"linear:0.1", linear},   {"linear:0", linear_to_zero},
                 {"warmup:0.25", warmup},       {"step:15:0.5", stepped}, {"warmup:0.25,cosine:0.1", both},
                 {"cooldown:0.25:0.05", cooled}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_workload *w = NULL;
        check_ok(dpmf_workload_parse(cases[i].text, N, &w));
        assert_string_equal(dpmf_workload_get(w).text, cases[i].text);
        for (int t = 0; t < N; t++)
            check_near(rate_of(w, t), cases[i].rate(t), 4e-16 * N);
        dpmf_workload_free(w);
    }
}

/* One step, two, and many: positive, at most 1, and the ends where they belong. */
static void test_any_number_of_steps(void **unused) {
    static const char *const texts[] = {"cosine:0.01", "warmup:1",         "warmup:0",
                                        "step:1:0.99", "step:1000000:0.1", "linear:0"};
    static const int64_t steps[] = {1, 2, 3, 1000};
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            dpmf_workload *w = NULL;
            check_ok(dpmf_workload_parse(texts[i], steps[j], &w));
            for (int64_t t = 0; t < steps[j]; t++)
                assert_true(rate_of(w, t) > 0 && rate_of(w, t) <= 1);
            if (i == 0 && steps[j] > 1) check_near(rate_of(w, steps[j] - 1), 0.01, 1e-15);
            if (i == 5) check_near(rate_of(w, steps[j] - 1), 1 / (double)steps[j], 1e-15);
            dpmf_workload_free(w);
        }
}

/* A reader compares numbers and text bit by bit. */
static void test_files_hold_them(void **unused) {
    dpmf_workload *w = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_mechanism *made = NULL, *read = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    (void)unused;
    check_ok(dpmf_workload_parse("momentum:0.9,warmup:0.1,cosine:0.3,step:7:0.9,linear", N, &w));
    assert_string_equal(dpmf_workload_get(w).text, "momentum:0.9,warmup:0.1,cosine:0.3,step:7:0.9,linear:0");
    check_ok(dpmf_strategy_create("identity", w, NULL, &strategy));
    check_ok(dpmf_mechanism_create(w, NULL, strategy, NULL, &made));
    check_ok(dpmf_mechanism_encode(made, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &read));
    assert_string_equal(dpmf_workload_get(dpmf_mechanism_get(read).workload).text, dpmf_workload_get(w).text);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(made);
    dpmf_mechanism_free(read);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(w);
}

static void test_what_is_refused(void **unused) {
    static const struct {
        const char *text, *message;
    } bad[] = {{"cosine:0", "floor = 0"},     {"cosine:", "floor = ''"},        {"cosine:1.5", "1.5"},
               {"warmup:-0.1", "-0.1"},       {"warmup:2", "fraction = 2"},     {"step:10", "EVERY:FACTOR"},
               {"step:0:0.5", "every = 0"},   {"step:2.5:0.5", "whole"},        {"step:3:0", "factor = 0"},
               {"step:3:0.5:1", "factor"},    {"cosine:0.1:0.2", "floor"},      {"cosine", "floor = 0"},
               {"linear:1.5", "floor = 1.5"}, {"cooldown:0.5:0", "no inverse"}, {"constant", "'constant'"}};
    dpmf_workload *w = NULL;
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse(bad[i].text, N, &w));
        check_message(bad[i].message);
        assert_null(w);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_workload_parse("step:1:1e-200", N, &w)); /* the rates come to 0 */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_they_are_what_they_say),
        cmocka_unit_test(test_any_number_of_steps),
        cmocka_unit_test(test_files_hold_them),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
