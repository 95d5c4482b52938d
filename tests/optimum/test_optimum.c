/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certified optimum: published values, other routes to the same, weights, hard cases, threads, cancelling, refusals
 * and failing allocations. Against 50-digit arithmetic: optimum/test_dual_bound.c; as a matrix: optimum/test_explicit.c.
 */
#include "optimum/optimum.h"

#include "optimum/phi.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static optimum_answer solve(const dpmf_workload *a, int max_loss, const double *weights, double tolerance) {
    optimum_answer o = {0};
    check_ok(optimum_solve(a, max_loss, weights, tolerance, NULL, &o));
    if (!o.converged || !(o.upper >= o.lower) || !(o.upper <= o.lower * (1 + tolerance)))
        fail_msg("%s, n = %lld, max %d: not to %g: %.12g to %.12g", a->text, (long long)a->steps, max_loss, tolerance,
                 o.lower, o.upper);
    assert_true(o.steps == a->steps && o.iterations > 0);
    return o;
}

/* The bounds are around `value`, which is right to `digits` (relative), and close. */
static void assert_optimum(const char *text, int64_t n, int max_loss, double value, double digits, double tolerance) {
    dpmf_workload *a = workload_of(text, n);
    optimum_answer o = solve(a, max_loss, NULL, tolerance);
    if (!(o.lower <= value * (1 + digits) && o.upper >= value * (1 - digits)))
        fail_msg("%s, n = %lld, max %d: %.12g to %.12g, not %.12g", text, (long long)n, max_loss, o.lower, o.upper,
                 value);
    optimum_free(&o);
    dpmf_workload_free(a);
}

/* Prefix sums: Pillutla et al. 2025, Tables 2.2 and 2.3, the Dense columns, recomputed to seven digits. */
static void test_optima_of_prefix_sums_are_the_published_ones(void **unused) {
    static const struct {
        int64_t n;
        double rms, max;
    } table[] = {{8, 1.494414, 1.510484},    {64, 2.099856, 2.111367},   {256, 2.524414, 2.532716},
                 {1024, 2.955452, 2.961465}, {2048, 3.172315, 3.177477}, {8192, 3.607685, 3.611574}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_optimum("prefix", table[i].n, 0, table[i].rms, 4e-7, 1e-6);
        assert_optimum("prefix", table[i].n, 1, table[i].max, 4e-7, 1e-6);
    }
}

/* Total squared losses for few steps, and the optimal column of Denisov et al. 2022, Table 2 (roots of totals). */
static void test_total_losses_of_few_steps_are_the_published_ones(void **unused) {
    static const struct {
        int64_t n;
        double total;
    } small[] = {{2, 2.618034}, {3, 4.607862}, {4, 6.874144}, {5, 9.363315}, {8, 17.866177}, {16, 45.665357}};
    static const struct {
        int64_t n;
        double root;
    } table[] = {{256, 40.390631}, {512, 61.985199}, {1024, 94.574464}, {2048, 143.562585}, {4096, 216.945401}};
    (void)unused;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++)
        assert_optimum("prefix", small[i].n, 0, sqrt(small[i].total / (double)small[i].n), 2e-7, 1e-8);
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        assert_optimum("prefix", table[i].n, 0, table[i].root / sqrt((double)table[i].n), 2e-8, 1e-7);
}

/* v is the fixed point of phi, and its sum the total squared loss (Denisov et al. 2022, Theorem 3.2). */
static void test_v_is_the_fixed_point_of_phi(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.9,cooldown:0.25:0.1"};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        int64_t n = 100;
        dpmf_workload *a = workload_of(texts[i], n);
        optimum_answer o = solve(a, 0, NULL, 1e-9);
        base_pool *pool = NULL;
        optimum_phi *phi = NULL;
        double columns[100], error = 0, total = 0;
        check_ok(base_pool_create(1, &pool));
        check_ok(optimum_phi_create(a, pool, &phi));
        check_ok(optimum_phi_eval(phi, o.v, NULL, 1e-12, 0, columns, NULL, &error));
        for (int64_t t = 0; t < n; t++) {
            total += o.v[t];
            assert_true(columns[t] <= o.v[t] * (1 + 4e-9)); /* the largest ratio is what the gap bounds ... */
            check_near(columns[t] / o.v[t], 1, 1e-5);       /* ... and the others are near it */
        }
        check_near(sqrt(total / (double)n) / o.lower, 1, 1e-8);
        assert_null(o.p);
        optimum_phi_free(phi);
        base_pool_free(pool);
        optimum_free(&o);
        dpmf_workload_free(a);
    }
}

/* ---- the matrix route ---- */

static dpmf_workload *as_matrix(const dpmf_workload *a, const double *weights) {
    double *matrix = check_workload_matrix(a);
    dpmf_workload *dense = NULL;
    for (int64_t t = 0; t < a->steps && weights != NULL; t++)
        for (int64_t u = 0; u < a->steps; u++)
            matrix[t * a->steps + u] *= sqrt(weights[t]);
    check_ok(dpmf_workload_create_dense(a->steps, matrix, &dense));
    free(matrix);
    return dense;
}

static void assert_same_optimum(const dpmf_workload *a, const dpmf_workload *b, int max_loss, const double *weights,
                                double tolerance) {
    optimum_answer one = solve(a, max_loss, weights, tolerance), other = solve(b, max_loss, NULL, tolerance);
    assert_true(one.lower <= other.upper && other.lower <= one.upper);
    check_near(one.upper / other.upper, 1, tolerance);
    optimum_free(&one);
    optimum_free(&other);
}

/* Named workloads against the singular value decomposition of the same matrix; max loss too. */
static void test_the_matrix_route_finds_the_same_optimum(void **unused) {
    static const char *const texts[] = {"prefix",
                                        "decay:0.1",
                                        "cooldown:0.5:0.01",
                                        "momentum:0.95",
                                        "momentum:0.95,cooldown:0.25:0.05",
                                        "nesterov:0.9",
                                        "nesterov:0.9,decay:0.05,cooldown:0.5:0.1"};
    (void)unused;
    for (int i = 0; i < 7; i++) {
        dpmf_workload *a = workload_of(texts[i], 60), *dense = as_matrix(a, NULL);
        assert_same_optimum(a, dense, 0, NULL, 1e-8);
        assert_same_optimum(a, dense, 1, NULL, 1e-6);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
    }
}

/* n = 512: the same bounds from one decomposition at the v that the ladders found. */
static void test_one_decomposition_gives_the_same_bounds(void **unused) {
    static const char *const texts[] = {"momentum:0.95", "momentum:0.95,cooldown:0.25:0.05"};
    enum { N = 512 };
    (void)unused;
    for (int i = 0; i < 2; i++) {
        dpmf_workload *a = workload_of(texts[i], N), *dense = as_matrix(a, NULL);
        optimum_answer o = solve(a, 0, NULL, 1e-9);
        base_pool *pool = NULL;
        optimum_phi *phi = NULL;
        double columns[N], error = 0, sum = 0, total = 0, most = 0;
        check_ok(base_pool_create(1, &pool));
        check_ok(optimum_phi_create(dense, pool, &phi));
        check_ok(optimum_phi_eval(phi, o.v, NULL, 1e-12, 0, columns, NULL, &error));
        for (int t = 0; t < N; t++) {
            sum += columns[t];
            total += o.v[t];
            most = fmax(most, columns[t] / o.v[t]);
        }
        assert_true(error < 1e-9);
        check_near(sum / sqrt(total * N) / o.lower, 1, 1e-8);
        check_near(sqrt(sum * most / N) / o.upper, 1, 1e-8);
        optimum_phi_free(phi);
        base_pool_free(pool);
        optimum_free(&o);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
    }
}

/* Weights p are the workload diag(sqrt(p)) A; their scale is that of the squared loss. */
static void test_weights_scale_the_workload(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.5,decay:0.1"};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        double weights[60], scaled[60];
        uint64_t seed = 3;
        for (int t = 0; t < 60; t++)
            weights[t] = pow(10, 2 * check_random(&seed)), scaled[t] = 100 * weights[t];
        dpmf_workload *a = workload_of(texts[i], 60), *dense = as_matrix(a, weights);
        assert_same_optimum(a, dense, 0, weights, 1e-8);
        optimum_answer one = solve(a, 0, weights, 1e-8), ten = solve(a, 0, scaled, 1e-8);
        check_near(ten.upper / one.upper, 10, 1e-7);
        assert_memory_equal(one.p, weights, sizeof weights);
        optimum_free(&one);
        optimum_free(&ten);
        dpmf_workload_free(a);
        dpmf_workload_free(dense);
    }
}

/* ---- hard cases ---- */

/*
 * Max loss where most weights vanish; condition numbers of 1e20; two bands at one and two steps; rates of any size. All
 * must converge; a short run of momentum is as bad as its largest entry, since the last answer must be given.
 */
static void test_hard_workloads_converge(void **unused) {
    static const char *const texts[] = {
        "momentum:0.95", "momentum:0.999",       "momentum:0.95,cooldown:0.25:0.001",
        "nesterov:0.99", "cooldown:0.1:0.0001",  "decay:0.5",
        "decay:1",       "momentum:0.9,decay:1", "nesterov:0.9,decay:0.01,cooldown:0.5:0.01"};
    static const int64_t sizes[] = {1, 2, 3, 300};
    (void)unused;
    for (int i = 0; i < 9; i++)
        for (int k = 0; k < 4; k++)
            for (int max_loss = 0; max_loss < 2; max_loss++) {
                dpmf_workload *a = workload_of(texts[i], sizes[k]);
                optimum_answer o = solve(a, max_loss, NULL, 1e-6);
                for (int64_t t = 0; t < sizes[k]; t++) {
                    assert_true(o.v[t] > 0 && isfinite(o.v[t]));
                    if (max_loss) assert_true(o.p[t] > 0 && isfinite(o.p[t]));
                }
                optimum_free(&o);
                dpmf_workload_free(a);
            }
    assert_optimum("nesterov:0.9", 1, 0, 1.9, 1e-15, 1e-9);
    assert_optimum("nesterov:0.9", 1, 1, 1.9, 1e-15, 1e-9);
    assert_optimum("momentum:0.95", 2, 1, 1.95, 1e-15, 1e-9);
    assert_optimum("momentum:0.999", 3, 1, 2.997001, 1e-12, 1e-9);
    assert_optimum("decay:1", 50, 0, 1, 1e-15, 1e-9);
    assert_optimum("momentum:0.95", 64, 1, 20.3086798634, 1e-11, 1e-9);
}

static void test_the_optimum_scales_with_the_learning_rate(void **unused) {
    double rates[50];
    (void)unused;
    for (int k = -12; k <= 12; k += 4) {
        dpmf_workload *a = NULL;
        for (int t = 0; t < 50; t++)
            rates[t] = pow(10, k);
        dpmf_workload_options options = {.momentum = 0.5, .learning_rate = rates};
        check_ok(dpmf_workload_create(50, &options, &a));
        dpmf_workload *plain = workload_of("momentum:0.5", 50);
        optimum_answer one = solve(plain, 0, NULL, 1e-8), other = solve(a, 0, NULL, 1e-8);
        check_near(other.upper / rates[0] / one.upper, 1, 1e-8);
        optimum_free(&one);
        optimum_free(&other);
        dpmf_workload_free(plain);
        dpmf_workload_free(a);
    }
    /* beyond the range of products of their squares: a result that is not finite is refused */
    for (int t = 0; t < 50; t++)
        rates[t] = t % 2 == 0 ? 1e100 : 1e-100;
    dpmf_workload_options options = {.learning_rate = rates};
    dpmf_workload *a = NULL;
    optimum_answer o = {0};
    check_ok(dpmf_workload_create(50, &options, &a));
    check_fails(DPMF_ERROR_NUMERICAL, optimum_solve(a, 0, NULL, 1e-6, NULL, &o));
    check_message("beyond double precision");
    assert_null(o.v);
    dpmf_workload_free(a);
}

/* ---- threads, cancelling ---- */

static void test_the_optimum_has_the_same_bits_for_any_threads(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.95,cooldown:0.25:0.05"};
    enum { N = 5000 };
    (void)unused;
    for (int i = 0; i < 2; i++)
        for (int max_loss = 0; max_loss < 2; max_loss++) {
            dpmf_workload *a = workload_of(texts[i], N);
            optimum_answer one = {0}, other = {0};
            dpmf_run run = dpmf_run_defaults();
            run.threads = 1;
            check_ok(optimum_solve(a, max_loss, NULL, 1e-4, &run, &one));
            for (int threads = 2; threads <= 5; threads += 3) {
                run.threads = threads;
                check_ok(optimum_solve(a, max_loss, NULL, 1e-4, &run, &other));
                assert_true(one.lower == other.lower && one.upper == other.upper);
                assert_int_equal(one.iterations, other.iterations);
                assert_memory_equal(one.v, other.v, N * sizeof *one.v);
                if (max_loss) assert_memory_equal(one.p, other.p, N * sizeof *one.p);
                optimum_free(&other);
            }
            optimum_free(&one);
            dpmf_workload_free(a);
        }
}

typedef struct watcher {
    int calls, stop_at;
    double last;
} watcher;

static int watch(void *context, const char *what, double done) {
    watcher *w = context;
    assert_string_equal(what, "optimum");
    assert_true(done >= w->last && done <= 1); /* never backwards */
    w->last = done;
    return w->calls++ == w->stop_at;
}

static void test_the_optimum_may_be_cancelled_at_every_call(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.9", 300);
    watcher w = {.stop_at = -1};
    dpmf_run run = {.threads = 1, .progress = watch, .context = &w};
    optimum_answer o = {0};
    (void)unused;
    check_ok(optimum_solve(a, 0, NULL, 1e-6, &run, &o));
    optimum_free(&o);
    int calls = w.calls;
    assert_true(calls > 5);
    uint64_t before = dpmf_memory_in_use();
    for (int stop = 0; stop < calls; stop += 3) {
        w = (watcher){.stop_at = stop};
        check_fails(DPMF_ERROR_CANCELLED, optimum_solve(a, 0, NULL, 1e-6, &run, &o));
        assert_int_equal(w.calls, stop + 1);
        assert_null(o.v);
        assert_int_equal(dpmf_memory_in_use(), before);
    }
    dpmf_workload_free(a);
}

/* ---- refusals ---- */

static void echo(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

static void refuse(const dpmf_workload *a, int max_loss, const double *weights, double tolerance, dpmf_status status,
                   const char *message) {
    optimum_answer o = {.steps = 7};
    check_fails(status, optimum_solve(a, max_loss, weights, tolerance, NULL, &o));
    check_message(message);
    assert_true(o.steps == 7 && o.v == NULL);
}

static void test_the_optimum_refuses_tolerances_weights_and_operators(void **unused) {
    dpmf_workload *a = workload_of("prefix", 3), *user = NULL, *large = NULL;
    const dpmf_operator identity = {.step = echo};
    double weights[3] = {1, 1, 1};
    (void)unused;
    refuse(a, 0, NULL, 1e-11, DPMF_ERROR_ARGUMENT, "1e-11");
    refuse(a, 0, NULL, 0, DPMF_ERROR_ARGUMENT, "tolerance");
    refuse(a, 0, NULL, 1, DPMF_ERROR_ARGUMENT, "tolerance");
    refuse(a, 0, NULL, NAN, DPMF_ERROR_ARGUMENT, "nan");
    refuse(a, 1, weights, 1e-6, DPMF_ERROR_UNSUPPORTED, "weights");
    static const double bad[] = {0, -1, NAN, INFINITY};
    for (int i = 0; i < 4; i++) {
        weights[1] = bad[i];
        refuse(a, 0, weights, 1e-6, DPMF_ERROR_UNSUPPORTED, "step 1");
    }
    check_ok(dpmf_workload_create_operator(3, &identity, &user));
    refuse(user, 0, NULL, 1e-6, DPMF_ERROR_UNSUPPORTED, "operator");
    double *matrix = calloc(4097 * 4097, sizeof *matrix);
    assert_non_null(matrix);
    for (int64_t t = 0; t < 4097; t++)
        matrix[t * 4098] = 1;
    check_ok(dpmf_workload_create_dense(4097, matrix, &large));
    free(matrix);
    refuse(large, 0, NULL, 1e-6, DPMF_ERROR_UNSUPPORTED, "4097");
    dpmf_workload_free(large);
    dpmf_workload_free(user);
    dpmf_workload_free(a);
    a = workload_of("nesterov:0.9,decay:1,cooldown:0.5:0.5", 4);
    refuse(a, 1, NULL, 1e-6, DPMF_ERROR_UNSUPPORTED, "decay");
    dpmf_workload_free(a);
}

static void fail_each(const dpmf_workload *a, int max_loss, const double *weights) {
    optimum_answer o = {0};
    FAIL_EACH(optimum_solve(a, max_loss, weights, 0.01, NULL, &o));
    assert_true(o.converged);
    optimum_free(&o);
}

static void test_any_allocation_of_the_optimum_may_fail(void **unused) {
    double weights[256];
    (void)unused;
    for (int t = 0; t < 256; t++)
        weights[t] = 1 + t % 3;
    dpmf_workload *small = workload_of("prefix", 5), *dense = as_matrix(small, NULL);
    dpmf_workload *coarse = workload_of("nesterov:0.5,cooldown:0.5:0.5", 256); /* starts from 64 steps */
    fail_each(small, 0, NULL);
    fail_each(small, 0, weights);
    fail_each(dense, 0, NULL);
    fail_each(coarse, 0, weights);
    fail_each(coarse, 1, NULL);
    dpmf_workload_free(small);
    dpmf_workload_free(dense);
    dpmf_workload_free(coarse);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optima_of_prefix_sums_are_the_published_ones),
        cmocka_unit_test(test_total_losses_of_few_steps_are_the_published_ones),
        cmocka_unit_test(test_v_is_the_fixed_point_of_phi),
        cmocka_unit_test(test_the_matrix_route_finds_the_same_optimum),
        cmocka_unit_test(test_one_decomposition_gives_the_same_bounds),
        cmocka_unit_test(test_weights_scale_the_workload),
        cmocka_unit_test(test_hard_workloads_converge),
        cmocka_unit_test(test_the_optimum_scales_with_the_learning_rate),
        cmocka_unit_test(test_the_optimum_has_the_same_bits_for_any_threads),
        cmocka_unit_test(test_the_optimum_may_be_cancelled_at_every_call),
        cmocka_unit_test(test_the_optimum_refuses_tolerances_weights_and_operators),
        cmocka_unit_test(test_any_allocation_of_the_optimum_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
