/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal C as a matrix: it is a mechanism of sensitivity 1 whose loss, evaluated by the library's other code, lies
 * between the bounds; for any v its loss keeps that v's bound; the matrix route gives the same C.
 */
#include "optimum/optimum.h"

#include "optimum/phi.h"
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const TEXTS[] = {"prefix",
                                    "decay:0.5",
                                    "cooldown:0.25:0.001",
                                    "momentum:0.95",
                                    "momentum:0.999",
                                    "momentum:0.95,cooldown:0.25:0.05",
                                    "nesterov:0.9",
                                    "nesterov:0.9,decay:0.02,cooldown:0.5:0.1"};
enum { TEXT_COUNT = sizeof TEXTS / sizeof TEXTS[0] };

static dpmf_workload *as_matrix(const dpmf_workload *a) {
    double *matrix = check_workload_matrix(a);
    dpmf_workload *dense = NULL;
    check_ok(dpmf_workload_create_dense(a->steps, matrix, &dense));
    free(matrix);
    return dense;
}

/* The loss of C; its sensitivity is 1 and its columns are normalised. */
static double loss_of(const dpmf_workload *a, const dpmf_strategy *c, int max_loss, const double *weights) {
    dpmf_evaluation result;
    dpmf_evaluate_options options = dpmf_evaluate_options_defaults();
    options.lower_bound = DPMF_LOWER_BOUND_NONE;
    options.weights = weights;
    check_ok(dpmf_evaluate(a, NULL, c, &options, &result, NULL));
    check_near(result.sensitivity.value, 1, 1e-12);
    assert_int_equal(result.sensitivity.kind, DPMF_EXACT);
    double *norms = calloc((size_t)a->steps, sizeof *norms);
    check_ok(dpmf_strategy_column_norms(c, norms));
    for (int64_t t = 0; t < a->steps; t++)
        check_near(norms[t], 1, 1e-12);
    free(norms);
    return max_loss ? result.max_loss : result.rms_loss;
}

static void assert_between_bounds(const dpmf_workload *a, int max_loss, const double *weights, double tolerance) {
    optimum_answer o = {0};
    dpmf_strategy *c = NULL;
    check_ok(optimum_solve(a, max_loss, weights, tolerance, NULL, &o));
    assert_true(o.converged);
    check_ok(optimum_explicit(a, &o, NULL, &c));
    assert_int_equal(dpmf_strategy_get(c).steps, a->steps);
    assert_string_equal(dpmf_strategy_get(c).family, "dense");
    double loss = loss_of(a, c, max_loss, weights);
    if (!(loss <= o.upper * (1 + 1e-11) && loss >= o.lower * (1 - 1e-11)))
        fail_msg("%s, n = %lld, max %d: loss %.15g, bounds %.15g and %.15g", a->text, (long long)a->steps, max_loss,
                 loss, o.lower, o.upper);
    dpmf_strategy_free(c);
    optimum_free(&o);
}

static void test_the_explicit_strategy_is_between_the_bounds(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 64, 65, 300};
    (void)unused;
    for (int i = 0; i < TEXT_COUNT; i++)
        for (int k = 0; k < 6; k++)
            for (int max_loss = 0; max_loss < 2; max_loss++) {
                dpmf_workload *a = workload_of(TEXTS[i], sizes[k]);
                assert_between_bounds(a, max_loss, NULL, sizes[k] < 60 ? 1e-9 : 1e-6);
                dpmf_workload_free(a);
            }
}

static void test_matrices_and_weights_give_the_same_strategy(void **unused) {
    (void)unused;
    for (int i = 0; i < TEXT_COUNT; i++) {
        double weights[40];
        uint64_t seed = 9;
        for (int t = 0; t < 40; t++)
            weights[t] = pow(10, check_random(&seed));
        dpmf_workload *a = workload_of(TEXTS[i], 40), *dense = as_matrix(a);
        assert_between_bounds(a, 0, weights, 1e-7);
        assert_between_bounds(dense, 0, weights, 1e-7);
        assert_between_bounds(dense, 1, NULL, 1e-5);
        /* the same C from either route, for the same v */
        optimum_answer o = {0};
        dpmf_strategy *one = NULL, *other = NULL;
        check_ok(optimum_solve(a, 0, NULL, 1e-6, NULL, &o));
        check_ok(optimum_explicit(a, &o, NULL, &one));
        check_ok(optimum_explicit(dense, &o, NULL, &other));
        const double *x = strategy_matrix(one), *y = strategy_matrix(other);
        for (int k = 0; k < 40 * 40; k++)
            check_near(x[k], y[k], 1e-10);
        dpmf_strategy_free(one);
        dpmf_strategy_free(other);
        optimum_free(&o);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
    }
}

/* Far from the solution: X(v) over its largest entry, its diagonal filled up, is no worse than the bound of v. */
static void test_far_from_the_solution_the_strategy_keeps_the_bound_of_v(void **unused) {
    enum { N = 50 };
    uint64_t seed = 4;
    (void)unused;
    for (int i = 0; i < TEXT_COUNT; i++)
        for (int trial = 0; trial < 5; trial++) {
            double v[N], p[N], columns[N], rows[N], error = 0, most = 0, most_rows = 0;
            for (int t = 0; t < N; t++)
                v[t] = pow(10, check_random(&seed)), p[t] = pow(10, check_random(&seed));
            dpmf_workload *a = workload_of(TEXTS[i], N);
            optimum_answer o = {.steps = N, .v = v, .p = p};
            base_pool *pool = NULL;
            optimum_phi *phi = NULL;
            dpmf_strategy *c = NULL;
            check_ok(base_pool_create(1, &pool));
            check_ok(optimum_phi_create(a, pool, &phi));
            check_ok(optimum_phi_eval(phi, v, p, 1e-12, 0, columns, rows, &error));
            for (int t = 0; t < N; t++) {
                most = fmax(most, columns[t] / v[t]);
                most_rows = fmax(most_rows, rows[t] / p[t]);
            }
            check_ok(optimum_explicit(a, &o, NULL, &c));
            assert_true(loss_of(a, c, 1, NULL) <= sqrt(most * most_rows) * (1 + 1e-10));
            dpmf_strategy_free(c);
            optimum_phi_free(phi);
            base_pool_free(pool);
            dpmf_workload_free(a);
        }
}

static void test_the_explicit_strategy_has_the_same_bits_for_any_threads(void **unused) {
    enum { N = 333 };
    dpmf_workload *a = workload_of("nesterov:0.9,cooldown:0.5:0.1", N);
    optimum_answer o = {0};
    dpmf_strategy *one = NULL;
    dpmf_run run = dpmf_run_defaults();
    (void)unused;
    check_ok(optimum_solve(a, 0, NULL, 1e-5, NULL, &o));
    run.threads = 1;
    check_ok(optimum_explicit(a, &o, &run, &one));
    for (int threads = 2; threads <= 7; threads += 5) {
        dpmf_strategy *other = NULL;
        run.threads = threads;
        check_ok(optimum_explicit(a, &o, &run, &other));
        assert_memory_equal(strategy_matrix(one), strategy_matrix(other), N * N * sizeof(double));
        dpmf_strategy_free(other);
    }
    dpmf_strategy_free(one);
    optimum_free(&o);
    dpmf_workload_free(a);
}

static int stop_at(void *context, const char *what, double done) {
    int *left = context;
    assert_string_equal(what, "matrix");
    assert_true(done >= 0 && done <= 1);
    return (*left)-- == 0;
}

static void echo(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

static void test_an_explicit_strategy_of_other_or_too_many_steps_is_refused(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.9", 20), *large = workload_of("prefix", 8193), *user = NULL;
    const dpmf_operator identity = {.step = echo};
    optimum_answer o = {0};
    dpmf_strategy *c = NULL;
    (void)unused;
    check_ok(optimum_solve(a, 0, NULL, 1e-3, NULL, &o));
    o.steps = 8193;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimum_explicit(large, &o, NULL, &c));
    check_message("8193");
    check_fails(DPMF_ERROR_ARGUMENT, optimum_explicit(a, &o, NULL, &c));
    check_message("20");
    check_ok(dpmf_workload_create_operator(20, &identity, &user));
    o.steps = 20;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimum_explicit(user, &o, NULL, &c));
    for (int calls = 0; calls < 5; calls += 2) {
        int left = calls;
        dpmf_run run = {.threads = 1, .progress = stop_at, .context = &left};
        uint64_t before = dpmf_memory_in_use();
        check_fails(DPMF_ERROR_CANCELLED, optimum_explicit(a, &o, &run, &c));
        assert_int_equal(dpmf_memory_in_use(), before);
    }
    assert_null(c);
    optimum_free(&o);
    dpmf_workload_free(user);
    dpmf_workload_free(large);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_an_explicit_strategy_may_fail(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.9", 6), *dense = as_matrix(a);
    optimum_answer o = {0};
    dpmf_strategy *c = NULL;
    dpmf_run run = {.threads = 1};
    (void)unused;
    check_ok(optimum_solve(a, 1, NULL, 1e-3, NULL, &o));
    FAIL_EACH(optimum_explicit(a, &o, &run, &c));
    dpmf_strategy_free(c);
    FAIL_EACH(optimum_explicit(dense, &o, &run, &c));
    dpmf_strategy_free(c);
    optimum_free(&o);
    dpmf_workload_free(a);
    dpmf_workload_free(dense);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_explicit_strategy_is_between_the_bounds),
        cmocka_unit_test(test_matrices_and_weights_give_the_same_strategy),
        cmocka_unit_test(test_far_from_the_solution_the_strategy_keeps_the_bound_of_v),
        cmocka_unit_test(test_the_explicit_strategy_has_the_same_bits_for_any_threads),
        cmocka_unit_test(test_an_explicit_strategy_of_other_or_too_many_steps_is_refused),
        cmocka_unit_test(test_any_allocation_of_an_explicit_strategy_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
