/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of streams without a horizon: all routes agree, and at steps to 4096 they are within 1.29 of the certified
 * optimum for that very step (to 2^24 in test_unbounded_long.c), below which 1.25 is impossible.
 */
#include "error/error.h"
#include "support/failing_allocator.h"
#include "support/unbounded_ratio.h"

static void test_a_range_of_errors_is_part_of_all_of_them(void **state) {
    enum { STEPS = 30000 };
    static const int64_t FIRST[] = {0, 0, 5, 31, 32, 33, 700, 9999, 29999},
                         COUNT[] = {30000, 1, 40, 2, 1, 7, 300, 1, 1};
    dpmf_strategy *brief = NULL, *endless = endless_strategy();
    dpmf_workload *a = workload_of("prefix", STEPS), *whole = workload_of("prefix", DPMF_UNBOUNDED_STEPS_MAX);
    double *all = malloc(STEPS * sizeof *all), *part = malloc(STEPS * sizeof *part);
    (void)state;
    check_ok(strategy_cut(endless, STEPS, &brief));
    check_ok(dpmf_error_compute(a, brief, NULL, all));
    for (size_t i = 0; i < sizeof FIRST / sizeof FIRST[0]; i++) {
        check_ok(dpmf_error_range(whole, endless, FIRST[i], COUNT[i], NULL, part));
        for (int64_t t = 0; t < COUNT[i]; t++)
            check_near(part[t], all[FIRST[i] + t], 1e-11);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_error_range(a, brief, 29999, 2, NULL, part));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_error_range(a, brief, -1, 1, NULL, part));
    free(all);
    free(part);
    dpmf_workload_free(a);
    dpmf_workload_free(whole);
    dpmf_strategy_free(brief);
    dpmf_strategy_free(endless);
}

static void test_errors_of_a_running_stream_are_the_same_in_any_order(void **state) {
    enum { STEPS = 10000 };
    static const int64_t AT[] = {0, 1, 4095, 4096, 9999, 17, 8192, 5000};
    dpmf_strategy *brief = NULL, *endless = endless_strategy(), *other = NULL;
    dpmf_workload *a = workload_of("prefix", STEPS), *whole = workload_of("prefix", DPMF_UNBOUNDED_STEPS_MAX);
    error_lookup *far = NULL, *near = NULL;
    double *all = malloc(STEPS * sizeof *all), last = 0;
    (void)state;
    check_ok(strategy_cut(endless, STEPS, &brief));
    check_ok(dpmf_error_compute(a, brief, NULL, all));
    FAIL_EACH(error_lookup_create(whole, endless, NULL, &far));
    for (size_t i = 0; i < sizeof AT / sizeof AT[0]; i++)
        check_near(error_lookup_at(far, AT[i]), all[AT[i]], 1e-11);
    check_ok(dpmf_error_range(whole, endless, DPMF_UNBOUNDED_STEPS_MAX - 1, 1, NULL, &last));
    check_near(error_lookup_at(far, DPMF_UNBOUNDED_STEPS_MAX - 1), last, 1e-9);
    check_ok(dpmf_strategy_create("toeplitz", a, NULL, &other));
    check_ok(error_lookup_create(a, other, NULL, &near));
    check_ok(dpmf_error_compute(a, other, NULL, all));
    for (int64_t t = 0; t < STEPS; t++)
        assert_true(error_lookup_at(near, t) == all[t]);
    free(all);
    error_lookup_free(far);
    error_lookup_free(near);
    dpmf_workload_free(a);
    dpmf_workload_free(whole);
    dpmf_strategy_free(other);
    dpmf_strategy_free(brief);
    dpmf_strategy_free(endless);
}

static void test_a_range_of_errors_of_another_family_is_part_of_all(void **state) {
    dpmf_workload *a = workload_of("momentum:0.5", 50);
    dpmf_strategy *s = NULL;
    double all[50], part[10];
    (void)state;
    check_ok(dpmf_strategy_create("toeplitz", a, NULL, &s));
    check_ok(dpmf_error_compute(a, s, NULL, all));
    check_ok(dpmf_error_range(a, s, 17, 10, NULL, part));
    for (int t = 0; t < 10; t++)
        assert_true(part[t] == all[17 + t]);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

static void test_sums_of_errors_in_leaps_are_those_step_by_step(void **state) {
    static const int64_t STEPS[] = {1, 31, 33, 100, 5000, 70000, 80000, 90000};
    dpmf_strategy *endless = endless_strategy();
    (void)state;
    for (size_t i = 0; i < sizeof STEPS / sizeof STEPS[0]; i++) {
        dpmf_workload *a = workload_of("prefix", STEPS[i]);
        dpmf_strategy *s = NULL;
        double *all = malloc((size_t)STEPS[i] * sizeof *all), sum = 0, largest = 0, total = 0, most = 0;
        check_ok(strategy_cut(endless, STEPS[i], &s));
        check_ok(dpmf_error_compute(a, s, NULL, all));
        for (int64_t t = 0; t < STEPS[i]; t++) {
            sum += all[t] * all[t];
            largest = fmax(largest, all[t]);
        }
        assert_int_equal(error_sums(a, s, &total, &most), 1);
        check_near(total / sum, 1, 1e-11);
        check_near(sqrt(most) / largest, 1, 2e-4); /* there may be several tops */
        free(all);
        dpmf_workload_free(a);
        dpmf_strategy_free(s);
    }
    dpmf_strategy_free(endless);
}

static void test_powers_of_two_are_within_1_29_of_the_optimum(void **state) {
    dpmf_strategy *endless = endless_strategy();
    (void)state;
    for (int64_t t = 1; t <= 4096; t *= 2)
        check_ratio(endless, t, certified_optimum(t, 0));
    dpmf_strategy_free(endless);
}

/* The worst steps of all are 119 to 259. */
static void test_the_worst_steps_are_within_1_29_of_the_optimum(void **state) {
    dpmf_strategy *endless = endless_strategy();
    (void)state;
    for (int64_t t = 1; t <= 320; t++)
        check_ratio(endless, t, certified_optimum(t, 0));
    dpmf_strategy_free(endless);
}

/* The figures of docs/unbounded.md. */
static void test_errors_at_far_steps_are_as_printed(void **state) {
    dpmf_strategy *endless = endless_strategy();
    (void)state;
    check_near(unbounded_error(endless, 1 << 10), 3.76968741, 1e-8);
    check_near(unbounded_error(endless, 1 << 20), 6.3682763, 1e-8);
    check_near(unbounded_error(endless, 1 << 30), 8.69309067, 1e-8);
    dpmf_strategy_free(endless);
}

static void test_no_mechanism_without_a_horizon_stays_below_1_23(void **state) {
    enum { STEPS = 192 };
    double optimum[STEPS];
    (void)state;
    for (int64_t t = 0; t < STEPS; t++)
        optimum[t] = certified_optimum(t + 1, 1);
    double least = least_ratio(STEPS, optimum);
    assert_true(least > 1.23 && least < DPMF_UNBOUNDED_LOWER_BOUND);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_range_of_errors_is_part_of_all_of_them),
        cmocka_unit_test(test_errors_of_a_running_stream_are_the_same_in_any_order),
        cmocka_unit_test(test_a_range_of_errors_of_another_family_is_part_of_all),
        cmocka_unit_test(test_sums_of_errors_in_leaps_are_those_step_by_step),
        cmocka_unit_test(test_powers_of_two_are_within_1_29_of_the_optimum),
        cmocka_unit_test(test_the_worst_steps_are_within_1_29_of_the_optimum),
        cmocka_unit_test(test_errors_at_far_steps_are_as_printed),
        cmocka_unit_test(test_no_mechanism_without_a_horizon_stays_below_1_23),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
