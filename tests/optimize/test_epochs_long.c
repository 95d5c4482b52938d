/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dense optimum under cyclic participation at the sizes that people train with: total squared losses of
 * Choquette-Choo et al. 2023, Table 1 (with more digits, found with full eigendecompositions), a workload with momentum
 * and cooldown whose condition is 1e13, and more steps than a matrix can have.
 */
#include "families/families.h"
#include "optimize/optimize.h"
#include "support/check.h"

#include <math.h>

static dpmf_strategy *optimum_of(const char *text, int64_t n, const char *participation, double tolerance,
                                 dpmf_loss loss, dpmf_optimization *r) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_strategy *c = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    check_ok(dpmf_workload_parse(text, n, &a));
    check_ok(dpmf_participation_parse(participation, n, &p));
    o.tolerance = tolerance;
    o.loss = loss;
    optimize_task task = {a, p, &o, NULL};
    check_ok(dense_optimize_epochs(&task, &c, r));
    assert_int_equal(r->outcome, DPMF_CONVERGED);
    assert_true(r->optimum_lower <= r->optimum_upper && r->optimum_upper <= r->optimum_lower * (1 + tolerance));
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return c;
}

static double total_of(const char *text, int64_t n, const char *participation, const dpmf_strategy *c) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_workload_parse(text, n, &a));
    check_ok(dpmf_participation_parse(participation, n, &p));
    check_ok(dpmf_evaluate(a, p, c, &o, &found, NULL));
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return found.total_squared_loss;
}

static void test_twenty_epochs_of_100_have_their_known_optimum(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    dpmf_strategy *c = optimum_of("prefix", 2000, "cyclic:20,100", 1e-6, DPMF_LOSS_RMS, &r);
    check_near(2000 * r.optimum_lower * r.optimum_lower / 653163.0565, 1, 2e-6);
    check_near(total_of("prefix", 2000, "cyclic:20,100", c) / 653163.1, 1, 2e-6);
    dpmf_strategy_free(c);
}

/* Optimal for part of the epochs, then repeated. */
static void test_optima_of_fewer_epochs_repeated_have_their_known_losses(void **unused) {
    dpmf_optimization r = {0};
    dpmf_strategy *stamped = NULL;
    (void)unused;
    dpmf_strategy *c = optimum_of("prefix", 1000, "cyclic:10,100", 1e-6, DPMF_LOSS_RMS, &r);
    check_ok(dpmf_strategy_create_stamped(c, 2, &stamped));
    check_near(total_of("prefix", 2000, "cyclic:20,100", stamped) / 877754, 1, 1e-5);
    dpmf_strategy_free(stamped);
    dpmf_strategy_free(c);
    c = optimum_of("prefix", 500, "cyclic:5,100", 1e-6, DPMF_LOSS_RMS, &r);
    check_ok(dpmf_strategy_create_stamped(c, 4, &stamped));
    check_near(total_of("prefix", 2000, "cyclic:20,100", stamped) / 1.2e6, 1, 0.05 / 1.2); /* as printed */
    dpmf_strategy_free(stamped);
    dpmf_strategy_free(c);
}

static void test_momentum_with_a_cooldown_reaches_its_bound(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    dpmf_strategy *c = optimum_of("momentum:0.95,cooldown:0.25:0.05", 2052, "cyclic:6,342", 1e-4, DPMF_LOSS_RMS, &r);
    double total = total_of("momentum:0.95,cooldown:0.25:0.05", 2052, "cyclic:6,342", c);
    check_near(sqrt(total / 2052) / r.optimum_upper, 1, 1e-9);
    dpmf_strategy_free(c);
}

/* Many epochs with momentum: V is nearly singular at the optimum; without a barrier the climb ends 2 and 6 % away. */
static void test_long_runs_near_a_singular_dual_are_certified(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    dpmf_strategy_free(optimum_of("momentum:0.9", 96, "cyclic:32,3", 1e-4, DPMF_LOSS_RMS, &r));
    dpmf_strategy_free(optimum_of("momentum:0.9", 400, "cyclic:20,20", 1e-4, DPMF_LOSS_RMS, &r));
}

static void test_the_max_loss_of_a_long_run_is_certified(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    dpmf_strategy_free(optimum_of("prefix", 1024, "cyclic:4,256", 1e-4, DPMF_LOSS_MAX, &r));
}

/*
 * Weights that go to 0 and a V that is nearly singular: 71 steps instead of 552 with sums of |X| as the stopping rule.
 */
static void test_the_max_loss_of_momentum_is_certified_in_few_steps(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    dpmf_strategy_free(optimum_of("momentum:0.9", 1000, "cyclic:10,100", 1e-3, DPMF_LOSS_MAX, &r));
    assert_true(r.iterations <= 150);
}

/* Bounds alone, without a matrix. */
static void test_the_bounds_of_20000_steps_need_no_matrix(void **unused) {
    dpmf_optimization r = {0};
    (void)unused;
    assert_null(optimum_of("prefix", 20000, "cyclic:10,2000", 1e-3, DPMF_LOSS_RMS, &r));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_twenty_epochs_of_100_have_their_known_optimum),
        cmocka_unit_test(test_optima_of_fewer_epochs_repeated_have_their_known_losses),
        cmocka_unit_test(test_momentum_with_a_cooldown_reaches_its_bound),
        cmocka_unit_test(test_long_runs_near_a_singular_dual_are_certified),
        cmocka_unit_test(test_the_max_loss_of_a_long_run_is_certified),
        cmocka_unit_test(test_the_max_loss_of_momentum_is_certified_in_few_steps),
        cmocka_unit_test(test_the_bounds_of_20000_steps_need_no_matrix),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
