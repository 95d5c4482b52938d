/* SPDX-License-Identifier: Apache-2.0 */
/* The certified optimum at full size: a million steps, LAPACK's route at n = 512, the largest matrix, the reference. */
#include "optimum/optimum.h"

#include "support/check.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static optimum_answer solve(const dpmf_workload *a, int max_loss, double tolerance) {
    optimum_answer o = {0};
    check_ok(optimum_solve(a, max_loss, NULL, tolerance, NULL, &o));
    assert_true(o.converged);
    assert_true(o.upper >= o.lower && o.upper <= o.lower * (1 + tolerance));
    return o;
}

/* Pillutla et al. 2025, Tables 2.2 and 2.3 continued: prefix sums, computed independently to seven digits. */
static void test_optima_of_a_million_prefix_sums_are_the_known_ones(void **unused) {
    static const struct {
        int64_t n;
        int max_loss;
        double value;
    } table[] = {{131072, 0, 4.482308}, {131072, 1, 4.484709}, {1048576, 0, 5.140191}, {1048576, 1, 5.141968}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_workload *a = workload_of("prefix", table[i].n);
        optimum_answer o = solve(a, table[i].max_loss, 1e-6);
        assert_true(o.lower <= table[i].value * (1 + 2e-7) && o.upper >= table[i].value * (1 - 2e-7));
        check_near(o.upper / table[i].value, 1, 5e-6);
        optimum_free(&o);
        dpmf_workload_free(a);
    }
}

/*
 * A long run starts so near the top that a few evaluations at full length are enough; without the correction of its
 * ends it takes dozens.
 */
static void test_long_runs_begin_near_the_top(void **unused) {
    static const char *const texts[] = {"prefix", "cooldown:0.25:0.05", "momentum:0.9"};
    (void)unused;
    for (int i = 0; i < 3; i++)
        for (int max_loss = 0; max_loss < (i == 0 ? 2 : 1); max_loss++) {
            dpmf_workload *a = workload_of(texts[i], 200000);
            optimum_answer o = solve(a, max_loss, 5e-6);
            if (o.iterations > 20) fail_msg("%s, max loss %d: %d evaluations", texts[i], max_loss, o.iterations);
            optimum_free(&o);
            dpmf_workload_free(a);
        }
}

/* Two bands and schedules over many steps: the bounds meet. */
static void test_bounds_of_momentum_over_many_steps_meet(void **unused) {
    static const char *const texts[] = {"momentum:0.95", "momentum:0.999", "nesterov:0.9,cooldown:0.25:0.05",
                                        "momentum:0.95,cooldown:0.25:0.001"};
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int max_loss = 0; max_loss < 2; max_loss++) {
            dpmf_workload *a = workload_of(texts[i], 65536);
            optimum_answer o = solve(a, max_loss, 1e-5);
            optimum_free(&o);
            dpmf_workload_free(a);
        }
}

/*
 * The whole ascent by singular value decompositions of the matrix, n = 512. Their lower bound is as sharp; their upper
 * bound is held back by the rounding of small entries of phi (optimum_phi_floor), 4e-8 with the cooldown, and the ascent
 * must stop there instead of trying for ever.
 */
static void test_the_whole_ascent_by_decompositions_agrees_and_stops(void **unused) {
    static const char *const texts[] = {"momentum:0.95", "momentum:0.95,cooldown:0.25:0.05"};
    (void)unused;
    for (int i = 0; i < 2; i++) {
        dpmf_workload *a = workload_of(texts[i], 512), *dense = NULL;
        double *matrix = check_workload_matrix(a);
        check_ok(dpmf_workload_create_dense(512, matrix, &dense));
        free(matrix);
        optimum_answer one = solve(a, 0, 1e-9), other = {0};
        check_ok(optimum_solve(dense, 0, NULL, 1e-9, NULL, &other));
        check_near(other.lower / one.lower, 1, 1e-8);
        check_near(other.upper / one.upper, 1, 1e-7);
        assert_true(one.lower <= other.upper && other.lower <= one.upper);
        assert_true(other.iterations < 500);
        optimum_free(&one);
        optimum_free(&other);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
    }
}

static void test_the_largest_explicit_matrix_is_between_the_bounds(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.999", 8192);
    optimum_answer o = solve(a, 0, 1e-6);
    dpmf_strategy *c = NULL;
    dpmf_evaluation result;
    dpmf_evaluate_options options = dpmf_evaluate_options_defaults();
    (void)unused;
    options.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(optimum_explicit(a, &o, NULL, &c));
    check_ok(dpmf_evaluate(a, NULL, c, &options, &result, NULL));
    check_near(result.sensitivity.value, 1, 1e-12);
    assert_true(result.rms_loss <= o.upper * (1 + 1e-10) && result.rms_loss >= o.lower * (1 - 1e-10));
    dpmf_strategy_free(c);
    optimum_free(&o);
    dpmf_workload_free(a);
}

/* Some lines of tests/data/optimum.csv once more, where Python has numpy and mpmath. */
static void test_python_computes_reference_optima_again(void **unused) {
    const char *source = getenv("DPMF_SOURCE");
    char command[2048];
    (void)unused;
    if (system("python3 -c 'import numpy, mpmath' 2>/dev/null") != 0) skip();
    snprintf(
        command, sizeof command,
        "cd '%s' && PYTHONDONTWRITEBYTECODE=1 python3 tests/python/reference_optimum.py check tests/data/optimum.csv",
        source == NULL ? "." : source);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_optima_of_a_million_prefix_sums_are_the_known_ones),
                                       cmocka_unit_test(test_long_runs_begin_near_the_top),
                                       cmocka_unit_test(test_bounds_of_momentum_over_many_steps_meet),
                                       cmocka_unit_test(test_the_whole_ascent_by_decompositions_agrees_and_stops),
                                       cmocka_unit_test(test_the_largest_explicit_matrix_is_between_the_bounds),
                                       cmocka_unit_test(test_python_computes_reference_optima_again)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
