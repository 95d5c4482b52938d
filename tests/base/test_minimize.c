/* SPDX-License-Identifier: Apache-2.0 */
/* Limited-memory BFGS: known minima, walls of infinite value, how it ends, what it refuses, failing allocations. */
#include "base/minimize.h"

#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <string.h>

enum { MOST = 64 };

static base_minimize_options options_to(double gradient) {
    return (base_minimize_options){.gradient = gradient, .iterations = 1000};
}

/* f = 1/2 sum (i+1) (x_i - i)^2 + 3 */
static dpmf_status quadratic(void *context, const double *x, double *f, double *gradient) {
    int64_t n = *(const int64_t *)context;
    *f = 3;
    for (int64_t i = 0; i < n; i++) {
        double from = x[i] - (double)i;
        *f += 0.5 * (double)(i + 1) * from * from;
        gradient[i] = (double)(i + 1) * from;
    }
    return DPMF_OK;
}

/* Sizes around the number of sums side by side in the memory of pairs. */
static void test_quadratics_of_any_size_are_solved(void **unused) {
    static const int64_t sizes[] = {1, 2, 7, 8, 9, 40};
    (void)unused;
    for (int s = 0; s < 6; s++) {
        int64_t n = sizes[s];
        double x[MOST] = {0};
        base_minimum found = {0};
        base_objective objective = {n, &n, quadratic};
        base_minimize_options o = options_to(1e-9);
        check_ok(base_minimize(&objective, &o, x, &found));
        assert_true(found.converged);
        assert_true(found.gradient <= 1e-9 * 300);
        assert_true(found.iterations >= (n > 1) && found.evaluations >= found.iterations);
        check_near(found.f, 3, 1e-14);
        for (int64_t i = 0; i < n; i++)
            check_near(x[i], (double)i, 1e-7);
    }
}

static dpmf_status rosenbrock(void *context, const double *x, double *f, double *gradient) {
    double a = 1 - x[0], b = x[1] - x[0] * x[0];
    (void)context;
    *f = a * a + 100 * b * b;
    gradient[0] = -2 * a - 400 * x[0] * b;
    gradient[1] = 200 * b;
    return DPMF_OK;
}

static void test_a_curved_valley_is_followed_to_its_end(void **unused) {
    double x[2] = {-1.2, 1};
    base_minimum found = {0};
    base_objective objective = {2, NULL, rosenbrock};
    base_minimize_options o = options_to(1e-10);
    (void)unused;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_true(found.converged);
    check_near(x[0], 1, 1e-8);
    check_near(x[1], 1, 1e-8);
    assert_true(found.iterations < 100);
}

/* The memory of one search serves the next: from another start the minimum takes fewer steps. */
static void test_a_memory_that_is_kept_serves_the_next_search(void **unused) {
    int64_t n = 8;
    double x[MOST] = {0};
    base_minimum first = {0}, fresh = {0}, next = {0};
    minimize_lbfgs memory = {0};
    base_objective objective = {n, &n, quadratic};
    base_minimize_options o = options_to(1e-6);
    (void)unused;
    check_ok(minimize_lbfgs_create(n, 60, &memory));
    o.memory = &memory;
    check_ok(base_minimize(&objective, &o, x, &first));
    assert_true(first.converged && memory.used > 0);
    memset(x, 0, sizeof x);
    x[0] = 5;
    check_ok(base_minimize(&objective, &o, x, &next));
    assert_true(next.converged);
    for (int64_t i = 0; i < n; i++)
        check_near(x[i], (double)i, 1e-5);
    memset(x, 0, sizeof x);
    x[0] = 5;
    o.memory = NULL;
    check_ok(base_minimize(&objective, &o, x, &fresh));
    assert_true(next.iterations < fresh.iterations);
    minimize_lbfgs_free(&memory);
}

/* A memory of nonsense (a walk uphill in all but name) is given up, not the search. */
static void test_a_memory_that_misleads_is_forgotten(void **unused) {
    double x[2] = {-1.2, 1};
    const double from[2] = {0, 0}, to[2] = {1, 0}, low[2] = {0, 0}, high[2] = {1e-290, 0};
    base_minimum found = {0};
    minimize_lbfgs memory = {0};
    base_objective objective = {2, NULL, rosenbrock};
    base_minimize_options o = options_to(1e-10);
    (void)unused;
    check_ok(minimize_lbfgs_create(2, 10, &memory));
    minimize_lbfgs_remember(&memory, from, low, to, high); /* as flat as numbers are */
    assert_int_equal(memory.used, 1);
    o.memory = &memory;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_true(found.converged);
    check_near(x[0], 1, 1e-8);
    check_near(x[1], 1, 1e-8);
    minimize_lbfgs_free(&memory);
}

/* -ln x_0 + x_0 + 100 x_1^2 where x_0 > 0; the first step from far out jumps over the wall. */
static dpmf_status walled(void *context, const double *x, double *f, double *gradient) {
    const double *outside = context;
    *f = *outside;
    gradient[0] = gradient[1] = NAN; /* not to be read outside */
    if (!(x[0] > 0)) return DPMF_OK;
    *f = -log(x[0]) + x[0] + 100 * x[1] * x[1];
    gradient[0] = 1 - 1 / x[0];
    gradient[1] = 200 * x[1];
    return DPMF_OK;
}

static void test_a_wall_of_infinite_loss_is_walked_around(void **unused) {
    static const double outside[] = {INFINITY, NAN, -INFINITY};
    static const double starts[] = {1e-3, 0.5, 3, 40};
    (void)unused;
    for (int k = 0; k < 3; k++)
        for (int s = 0; s < 4; s++) {
            double x[2] = {starts[s], 2}, value = outside[k];
            base_minimum found = {0};
            base_objective objective = {2, &value, walled};
            base_minimize_options o = options_to(1e-8);
            check_ok(base_minimize(&objective, &o, x, &found));
            assert_true(found.converged);
            check_near(x[0], 1, 1e-6);
            check_near(x[1], 0, 1e-8);
            check_near(found.f, 1, 1e-12);
        }
}

/* f falls up to the wall, and there is no minimum: it must come to the edge, stop there, and not call it converged. */
static dpmf_status cliff(void *context, const double *x, double *f, double *gradient) {
    (void)context;
    *f = x[0] <= 1 ? -x[0] + 0.5 * (x[1] - 1) * (x[1] - 1) : INFINITY;
    gradient[0] = -1;
    gradient[1] = x[1] - 1;
    return DPMF_OK;
}

static void test_a_minimum_at_a_cliff_is_not_called_converged(void **unused) {
    double x[2] = {-3, 5};
    base_minimum found = {0};
    base_objective objective = {2, NULL, cliff};
    base_minimize_options o = options_to(1e-9);
    (void)unused;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_false(found.converged); /* the gradient is not small, and it does not say otherwise */
    assert_true(x[0] > 0.9 && x[0] <= 1);
    assert_true(found.f < 3); /* 11 at the start */
}

/* ---- how it ends ---- */

static void test_a_start_at_the_minimum_takes_no_iteration(void **unused) {
    int64_t n = 3;
    double x[3] = {0, 1, 2};
    base_minimum found = {0};
    base_objective objective = {n, &n, quadratic};
    base_minimize_options o = options_to(1e-9);
    (void)unused;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_true(found.converged);
    assert_int_equal(found.iterations, 0);
    assert_true(found.f == 3 && x[0] == 0 && x[1] == 1 && x[2] == 2);
}

static void test_the_iteration_limit_is_kept(void **unused) {
    double x[2] = {-1.2, 1};
    base_minimum found = {0};
    base_objective objective = {2, NULL, rosenbrock};
    base_minimize_options o = options_to(1e-10);
    (void)unused;
    o.iterations = 4;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_false(found.converged);
    assert_int_equal(found.iterations, 4);
    assert_true(found.f < 24.2); /* f at the start */
}

static void test_the_decrease_rule_stops_earlier(void **unused) {
    int64_t n = 40;
    double x[MOST] = {0}, y[MOST] = {0};
    base_minimum rough = {0}, fine = {0};
    base_objective objective = {n, &n, quadratic};
    base_minimize_options o = options_to(1e-12);
    (void)unused;
    check_ok(base_minimize(&objective, &o, x, &fine));
    o.decrease = 1e-2;
    o.past = 1;
    check_ok(base_minimize(&objective, &o, y, &rough));
    assert_true(rough.converged);
    assert_true(rough.iterations < fine.iterations);
}

/* A gradient that can never be met ends by rounding, not by the limit. */
/* The caller's own rule: the third step is enough, or the rule fails. */
static dpmf_status third(void *context, const double *x, double gradient, int *end) {
    int *seen = context;
    assert_true(isfinite(x[0]) && gradient > 0);
    if (*seen < 0) return base_fail(DPMF_ERROR_UNSUPPORTED, "the rule gave up");
    *end = ++*seen == 3;
    return DPMF_OK;
}

static dpmf_status bowl_of_five(void *context, const double *x, double *f, double *gradient) {
    int64_t five = 5;
    (void)context;
    return quadratic(&five, x, f, gradient);
}

static void test_a_rule_of_the_callers_own_stops_the_walk(void **unused) {
    (void)unused;
    double x[5] = {0};
    int seen = 0;
    base_objective objective = {5, &seen, bowl_of_five};
    base_minimize_options o = {.gradient = 1e-12, .iterations = 100, .enough = third};
    base_minimum found;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_int_equal(seen, 3);
    assert_int_equal(found.iterations, 3);
    assert_true(found.converged);
    seen = -1;
    x[0] = 0;
    check_fails(DPMF_ERROR_UNSUPPORTED, base_minimize(&objective, &o, x, &found));
}

static void test_an_unreachable_gradient_ends_by_rounding(void **unused) {
    double x[2] = {-1.2, 1};
    base_minimum found = {0};
    base_objective objective = {2, NULL, rosenbrock};
    base_minimize_options o = options_to(1e-300);
    (void)unused;
    check_ok(base_minimize(&objective, &o, x, &found));
    assert_true(found.converged);
    assert_true(found.iterations < 200);
    assert_true(found.f < 1e-14);
}

/* ---- refusals ---- */

static dpmf_status fails_later(void *context, const double *x, double *f, double *gradient) {
    int *left = context;
    if ((*left)-- == 0) return base_fail(DPMF_ERROR_UNSUPPORTED, "the objective gave up");
    return rosenbrock(NULL, x, f, gradient);
}

static int cancel_third(void *context, const char *what, double done) {
    int *calls = context;
    (void)done;
    assert_non_null(strstr(what, "walking, step "));
    return ++*calls == 3;
}

static void test_a_bad_start_and_a_failing_objective_leave_x_unchanged(void **unused) {
    double x[2] = {-1.2, 1}, value = INFINITY;
    base_minimum found = {.iterations = -7};
    base_minimize_options o = options_to(1e-9);
    base_objective objective = {2, &value, walled};
    (void)unused;
    check_fails(DPMF_ERROR_NUMERICAL, base_minimize(&objective, &o, x, &found));
    check_message("infinite loss");
    objective.count = 0;
    check_fails(DPMF_ERROR_ARGUMENT, base_minimize(&objective, &o, x, &found));
    for (int after = 0; after < 8; after += 7) {
        int left = after;
        objective = (base_objective){2, &left, fails_later};
        check_fails(DPMF_ERROR_UNSUPPORTED, base_minimize(&objective, &o, x, &found));
        check_message("gave up");
    }
    int calls = 0;
    const dpmf_run run = {.progress = cancel_third, .context = &calls};
    o.run = &run;
    o.what = "walking";
    objective = (base_objective){2, NULL, rosenbrock};
    check_fails(DPMF_ERROR_CANCELLED, base_minimize(&objective, &o, x, &found));
    assert_int_equal(calls, 3);
    assert_true(x[0] == -1.2 && x[1] == 1);
    assert_int_equal(found.iterations, -7);
}

static void test_any_allocation_of_the_minimizer_may_fail(void **unused) {
    double x[2] = {-1.2, 1};
    base_minimum found = {0};
    base_objective objective = {2, NULL, rosenbrock};
    base_minimize_options o = options_to(1e-9);
    (void)unused;
    FAIL_EACH(base_minimize(&objective, &o, x, &found));
    check_near(x[0], 1, 1e-7);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_quadratics_of_any_size_are_solved),
                                       cmocka_unit_test(test_a_curved_valley_is_followed_to_its_end),
                                       cmocka_unit_test(test_a_memory_that_is_kept_serves_the_next_search),
                                       cmocka_unit_test(test_a_memory_that_misleads_is_forgotten),
                                       cmocka_unit_test(test_a_wall_of_infinite_loss_is_walked_around),
                                       cmocka_unit_test(test_a_minimum_at_a_cliff_is_not_called_converged),
                                       cmocka_unit_test(test_a_start_at_the_minimum_takes_no_iteration),
                                       cmocka_unit_test(test_the_iteration_limit_is_kept),
                                       cmocka_unit_test(test_the_decrease_rule_stops_earlier),
                                       cmocka_unit_test(test_an_unreachable_gradient_ends_by_rounding),
                                       cmocka_unit_test(test_a_rule_of_the_callers_own_stops_the_walk),
                                       cmocka_unit_test(test_a_bad_start_and_a_failing_objective_leave_x_unchanged),
                                       cmocka_unit_test(test_any_allocation_of_the_minimizer_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
