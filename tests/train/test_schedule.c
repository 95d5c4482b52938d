/* SPDX-License-Identifier: Apache-2.0 */
/* Factors of a learning rate: the numbers of the workload with the same schedule, and 0 is one of them; refusals. */
#include "support/check.h"

#include "dpmf_train.h"

#include <math.h>
#include <string.h>

enum { N = 40 };

static double rate_of(const dpmf_workload *w, int64_t t) {
    double q[3], r[2];
    check_ok(dpmf_workload_inverse_row(w, t, q, r));
    return 1 / q[0];
}

static void test_factors_are_the_rates_of_the_workload(void **unused) {
    static const char *const texts[] = {"cosine:0.1", "linear:0.1", "linear", "warmup:0.25,cosine:0.1", "step:15:0.5"};
    double factors[N];
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpmf_workload *w = NULL;
        check_ok(dpmf_workload_parse(texts[i], N, &w));
        check_ok(dpmf_schedule_parse(texts[i], N, factors));
        for (int t = 0; t < N; t++)
            check_near(factors[t], rate_of(w, t), 1e-15);
        dpmf_workload_free(w);
    }
    check_ok(dpmf_schedule_parse("constant", N, factors));
    for (int t = 0; t < N; t++)
        assert_true(factors[t] == 1);
}

static void test_factors_may_be_zero_and_are_never_below(void **unused) {
    static const char *const texts[] = {"cosine", "cosine:0", "cooldown:0.5:0", "warmup:0.1,cosine"};
    static const int64_t steps[] = {1, 2, 3, 997};
    double factors[997], again[997];
    (void)unused;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (size_t j = 0; j < sizeof steps / sizeof *steps; j++) {
            check_ok(dpmf_schedule_parse(texts[i], steps[j], factors));
            for (int64_t t = 0; t < steps[j]; t++)
                assert_true(factors[t] >= 0 && factors[t] <= 1);
            if (steps[j] > 1) assert_true(factors[steps[j] - 1] < 1e-16);
        }
    check_ok(dpmf_schedule_parse("cosine", N, factors));
    check_ok(dpmf_schedule_parse("cosine:0", N, again));
    assert_memory_equal(factors, again, N * sizeof *factors);
    check_ok(dpmf_schedule_parse("linear", N, factors));
    check_near(factors[N - 1], 1.0 / N, 1e-15);
}

static void test_schedules_that_are_refused(void **unused) {
    static const struct {
        const char *text, *message;
    } bad[] = {{"cosine:-0.1", "schedule: cosine floor = -0.1, accepted 0 to 1"},
               {"linear:x", "schedule: linear floor = 'x'"},
               {"momentum:0.5", "schedule: 'momentum:0.5', accepted: linear[:FLOOR]"},
               {"prefix", "'prefix'"},
               {"linear,", "schedule: ''"},
               {"linear,constant", "'constant'"},
               {"", "schedule: ''"},
               {"step:3:0", "factor = 0"},
               {"cooldown", "'cooldown'"}};
    double factors[N];
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_schedule_parse(bad[i].text, N, factors));
        check_message(bad[i].message);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_schedule_parse(NULL, N, factors));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_schedule_parse("linear", N, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_schedule_parse("linear", 0, factors));
    check_message("steps = 0");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factors_are_the_rates_of_the_workload),
        cmocka_unit_test(test_factors_may_be_zero_and_are_never_below),
        cmocka_unit_test(test_schedules_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
