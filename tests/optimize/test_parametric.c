/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's own strategies: the one-buffer BLT as coefficients and as an operator, with and without a gradient, at
 * domains with edges; weights, refusals, failing allocations, cancelling.
 */
#include "support/check.h"

#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 64 };

typedef struct user {
    int64_t steps;
    int made, gradients;
    double edge;             /* lambda above it is refused; 0: no edge but 1 */
    dpmf_status refuse_with; /* at the edge */
    int64_t wrong_steps;     /* 0, or those of what is made */
    int nothing;             /* DPMF_OK and no strategy */
    const dpmf_participation *participation;
    dpmf_loss loss;
} user;

/* c_0 = 1, c_t = alpha lambda^(t-1). */
static dpmf_status make_coefficients(void *context, const double *theta, dpmf_strategy **out) {
    user *u = context;
    double c[STEPS_MAX] = {1}, power = theta[0];
    u->made++;
    if (u->nothing) return DPMF_OK;
    if (!(theta[1] > 0 && theta[1] <= (u->edge > 0 ? u->edge : 1))) return u->refuse_with;
    for (int64_t t = 1; t < u->steps; t++, power *= theta[1])
        c[t] = power;
    return dpmf_strategy_create_toeplitz(u->wrong_steps > 0 ? u->wrong_steps : u->steps, DPMF_TOEPLITZ,
                                         u->wrong_steps > 0 ? u->wrong_steps : u->steps, c, out);
}

/* The same C as a stream: y_t = x_t + alpha s_t, s_{t+1} = lambda s_t + x_t. */
static void stream(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    const double *theta = context;
    (void)t;
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] + theta[0] * state[i];
        state[i] = theta[1] * state[i] + x[i];
    }
}

static dpmf_status make_operator(void *context, const double *theta, dpmf_strategy **out) {
    user *u = context;
    double *own = malloc(2 * sizeof *own);
    if (own == NULL) return DPMF_ERROR_MEMORY;
    memcpy(own, theta, 2 * sizeof *own);
    const dpmf_operator operator_ = {.context = own, .buffers = 1, .step = stream, .release = free};
    dpmf_status status = dpmf_strategy_create_operator(u->steps, &operator_, 0, out);
    if (status != DPMF_OK) free(own);
    return status;
}

static double loss_at(const user *u, const dpmf_workload *a, const double *theta) {
    user copy = *u;
    dpmf_strategy *s = NULL;
    dpmf_evaluation found;
    check_ok(make_coefficients(&copy, theta, &s));
    check_ok(dpmf_evaluate(a, u->participation, s, NULL, &found, NULL));
    dpmf_strategy_free(s);
    return u->loss == DPMF_LOSS_MAX ? found.max_loss : found.rms_loss;
}

static user user_of(int64_t steps) {
    return (user){.steps = steps, .refuse_with = DPMF_ERROR_NUMERICAL};
}

static dpmf_workload *prefix(int64_t steps) {
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_create(steps, NULL, &a));
    return a;
}

/* The best one-buffer BLT at 64 steps, from plain dense optimization (tests/python/brute_force.py with one buffer). */
static const struct {
    const char *participation;
    dpmf_loss loss;
    double value, alpha, lambda;
} BEST[] = {{"single", DPMF_LOSS_RMS, 2.2161937855, 0.37624679, 0.93181930},
            {"single", DPMF_LOSS_MAX, 2.4798649851, 0.32073375, 0.95827914},
            {"cyclic:4,16", DPMF_LOSS_RMS, 4.9168383021, 0.52096721, 0.86485393},
            {"minsep:4,16", DPMF_LOSS_MAX, 5.9495345860, 0.49184209, 0.90036870}};
enum { BEST_COUNT = sizeof BEST / sizeof BEST[0] };

static void assert_best(int which, dpmf_status (*make)(void *, const double *, dpmf_strategy **)) {
    user u = user_of(64);
    dpmf_workload *a = prefix(64);
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    dpmf_evaluation found;
    dpmf_parametric family = {.context = &u, .parameters = 2, .make = make};
    double theta[2] = {0.3, 0.5};
    o.loss = BEST[which].loss;
    check_ok(dpmf_participation_parse(BEST[which].participation, 64, &p));
    check_ok(dpmf_optimize_parametric(&family, a, p, &o, theta, &s, &result));
    check_ok(dpmf_evaluate(a, p, s, NULL, &found, NULL));
    assert_int_equal(found.sensitivity.kind, DPMF_EXACT);
    check_near(o.loss == DPMF_LOSS_MAX ? found.max_loss : found.rms_loss, BEST[which].value, 1e-8);
    check_near(theta[0], BEST[which].alpha, 1e-4);
    check_near(theta[1], BEST[which].lambda, 1e-4);
    assert_int_equal(result.outcome, DPMF_CONVERGED);
    assert_true(result.iterations > 0 && result.stationarity < 1e-5);
    assert_true(result.optimum_lower == 0 && isinf(result.optimum_upper) && result.scope == NULL);
    dpmf_strategy_free(s);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static void test_coefficients_of_a_users_family_are_optimized(void **unused) {
    (void)unused;
    for (int i = 0; i < BEST_COUNT; i++)
        assert_best(i, make_coefficients);
}

static void test_a_users_operator_is_optimized(void **unused) {
    (void)unused;
    assert_best(0, make_operator);
    assert_best(1, make_operator);
}

/* ---- the user's gradient ---- */

static dpmf_status gradient_of(void *context, const double *theta, double *gradient) {
    user *u = context;
    dpmf_workload *a = prefix(u->steps);
    u->gradients++;
    for (int i = 0; i < 2; i++) {
        double above[2] = {theta[0], theta[1]}, below[2] = {theta[0], theta[1]};
        above[i] += 1e-5;
        below[i] -= 1e-5;
        gradient[i] = log(loss_at(u, a, above) / loss_at(u, a, below)) / 2e-5;
    }
    dpmf_workload_free(a);
    return DPMF_OK;
}

static void test_a_users_gradient_is_used(void **unused) {
    user u = user_of(64);
    dpmf_workload *a = prefix(64);
    dpmf_optimization result;
    dpmf_parametric family = {.context = &u, .parameters = 2, .make = make_coefficients, .gradient = gradient_of};
    double theta[2] = {0.3, 0.5};
    (void)unused;
    check_ok(dpmf_optimize_parametric(&family, a, NULL, NULL, theta, NULL, &result));
    check_near(loss_at(&u, a, theta), BEST[0].value, 1e-8);
    assert_true(u.gradients > 3);
    assert_true(u.made <= u.gradients * 2 + 10); /* no differences beside it */
    dpmf_workload_free(a);
}

/* ---- the domain ---- */

/* The best point lies beyond the edge: the call ends well, in the domain, near it. */
static void test_a_best_point_beyond_the_edge_ends_at_the_edge(void **unused) {
    (void)unused;
    for (int status = 0; status < 2; status++) {
        user u = user_of(64);
        u.edge = 0.8;
        u.refuse_with = status ? DPMF_ERROR_ARGUMENT : DPMF_ERROR_NUMERICAL;
        dpmf_workload *a = prefix(64);
        dpmf_strategy *s = NULL;
        dpmf_optimization result;
        dpmf_parametric family = {.context = &u, .parameters = 2, .make = make_coefficients};
        double theta[2] = {0.3, 0.5};
        double before = loss_at(&u, a, theta);
        check_ok(dpmf_optimize_parametric(&family, a, NULL, NULL, theta, &s, &result));
        assert_true(theta[1] <= 0.8 && theta[1] > 0.7);
        assert_true(loss_at(&u, a, theta) < before);
        dpmf_strategy_free(s);
        dpmf_workload_free(a);
    }
}

/* With weights on the first half only, the second half is free: the mean over the first half is minimized. */
static void test_weighted_steps_are_what_is_minimized(void **unused) {
    user u = user_of(64);
    dpmf_workload *a = prefix(64);
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    dpmf_parametric family = {.context = &u, .parameters = 2, .make = make_coefficients};
    double theta[2] = {0.3, 0.5}, plain[2] = {0.3, 0.5}, weights[64];
    (void)unused;
    for (int t = 0; t < 64; t++)
        weights[t] = t < 32 ? 2 : 1e-9;
    o.weights = weights;
    check_ok(dpmf_optimize_parametric(&family, a, NULL, &o, theta, NULL, &result));
    o.weights = NULL;
    check_ok(dpmf_optimize_parametric(&family, a, NULL, &o, plain, NULL, &result));
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    e.weights = weights;
    double loss[2];
    for (int i = 0; i < 2; i++) {
        dpmf_strategy *s = NULL;
        dpmf_evaluation found;
        check_ok(make_coefficients(&u, i == 0 ? theta : plain, &s));
        check_ok(dpmf_evaluate(a, NULL, s, &e, &found, NULL));
        loss[i] = found.rms_loss;
        dpmf_strategy_free(s);
    }
    assert_true(loss[0] < loss[1] * 0.999);
    dpmf_workload_free(a);
}

/* ---- refusals ---- */

static int stop(void *context, const char *what, double done) {
    (void)context;
    (void)done;
    return strstr(what, "parametric") != NULL;
}

static void test_a_start_outside_and_a_failing_family_are_refused(void **unused) {
    user u = user_of(8);
    dpmf_workload *a = prefix(8);
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result = {.iterations = -7};
    dpmf_parametric family = {.context = &u, .parameters = 2, .make = make_coefficients}, bad = family;
    double theta[2] = {0.3, 2}, finite[2] = {0.3, 0.5}, infinite[2] = {0.3, INFINITY};
    (void)unused;
    check_fails(DPMF_ERROR_NUMERICAL, dpmf_optimize_parametric(&family, a, NULL, NULL, theta, &s, &result));
    check_message("outside the domain");
    assert_true(theta[0] == 0.3 && theta[1] == 2 && result.iterations == -7);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, NULL, NULL, infinite, &s, &result));
    check_message("theta[1]");
    u.refuse_with = DPMF_ERROR_IO; /* not a question of the domain */
    dpmf_status status = dpmf_optimize_parametric(&family, a, NULL, NULL, theta, &s, &result);
    assert_int_equal(status, DPMF_ERROR_IO);
    u.wrong_steps = 5;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, NULL, NULL, finite, &s, &result));
    check_message("5 steps");
    u.wrong_steps = 0;
    u.nothing = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, NULL, NULL, finite, &s, &result));
    u.nothing = 0;
    bad.parameters = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&bad, a, NULL, NULL, finite, &s, &result));
    check_message("accepted 1 to");
    bad = family;
    bad.make = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&bad, a, NULL, NULL, finite, &s, &result));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, NULL, NULL, NULL, finite, &s, &result));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, NULL, NULL, NULL, &s, &result));
    check_ok(dpmf_participation_parse("single", 9, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, p, NULL, finite, &s, &result));
    o.bands = 3;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize_parametric(&family, a, NULL, &o, finite, &s, &result));
    o.bands = 0;
    o.run.progress = stop;
    check_fails(DPMF_ERROR_CANCELLED, dpmf_optimize_parametric(&family, a, NULL, &o, finite, &s, &result));
    assert_true(s == NULL && result.iterations == -7 && finite[0] == 0.3 && finite[1] == 0.5);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

/* Few steps, and a start near the end: every allocation is tried. */
static dpmf_status from_near(const dpmf_parametric *family, const dpmf_workload *a, const dpmf_optimize_options *o,
                             dpmf_strategy **out, dpmf_optimization *result) {
    double theta[2] = {0.4, 0.6};
    return dpmf_optimize_parametric(family, a, NULL, o, theta, out, result);
}

static void test_any_allocation_of_the_parametric_optimizer_may_fail(void **unused) {
    user u = user_of(4);
    dpmf_workload *a = prefix(4);
    dpmf_strategy *s = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization result;
    dpmf_parametric family = {.context = &u, .parameters = 2, .make = make_coefficients};
    (void)unused;
    o.tolerance = 0.1;
    o.run.threads = 1;
    FAIL_EACH(from_near(&family, a, &o, &s, &result));
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_coefficients_of_a_users_family_are_optimized),
                                       cmocka_unit_test(test_a_users_operator_is_optimized),
                                       cmocka_unit_test(test_a_users_gradient_is_used),
                                       cmocka_unit_test(test_a_best_point_beyond_the_edge_ends_at_the_edge),
                                       cmocka_unit_test(test_weighted_steps_are_what_is_minimized),
                                       cmocka_unit_test(test_a_start_outside_and_a_failing_family_are_refused),
                                       cmocka_unit_test(test_any_allocation_of_the_parametric_optimizer_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
