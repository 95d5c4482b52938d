/* SPDX-License-Identifier: Apache-2.0 */
/* The certified optimum: published and 50-digit values, the bound as a bound, other routes, kernels, refusals. */
#include "check.h"
#include "failing_allocator.h"

#include "base/threads.h"
#include "kernels/ladder.h"
#include "optimum.h"
#include "optimum_phi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dpmf_workload *parse(const char *text, int64_t steps) {
    dpmf_workload *w = NULL;
    check_ok(dpmf_workload_parse(text, steps, &w));
    return w;
}

/* Lower and upper within `tolerance` of each other and around `value`, which is known to `digits`. */
static void assert_optimum(const dpmf_workload *a, int max_loss, double value, double digits, double tolerance) {
    dpmf_i_optimum o = {0};
    check_ok(dpmf_i_optimum_solve(a, max_loss, NULL, tolerance, NULL, &o));
    assert_true(o.converged);
    assert_true(o.upper / o.lower - 1 <= tolerance);
    assert_true(o.lower <= value * (1 + digits));
    assert_true(o.upper >= value * (1 - digits));
    check_near(o.lower / value, 1, tolerance + digits);
    dpmf_i_optimum_free(&o);
}

/* Prefix sums: Pillutla et al. 2025, Tables 2.2 and 2.3, the Dense columns, recomputed to seven digits. */
static void test_prefix(void **unused) {
    static const struct {
        int64_t n;
        double rms, max;
    } table[] = {{8, 1.494414, 1.510484},    {64, 2.099856, 2.111367},   {256, 2.524414, 2.532716},
                 {1024, 2.955452, 2.961465}, {2048, 3.172315, 3.177477}, {8192, 3.607685, 3.611574}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_workload *a = parse("prefix", table[i].n);
        assert_optimum(a, 0, table[i].rms, 4e-7, 1e-6);
        assert_optimum(a, 1, table[i].max, 4e-7, 1e-6);
        dpmf_workload_free(a);
    }
}

/* Total squared losses for few steps, and the optimal column of Denisov et al. 2022, Table 2 (square roots of totals).
 */
static void test_totals(void **unused) {
    static const struct {
        int64_t n;
        double total;
    } small[] = {{2, 2.618034}, {3, 4.607862}, {4, 6.874144}, {5, 9.363315}, {8, 17.866177}, {16, 45.665357}};
    static const struct {
        int64_t n;
        double root;
    } table[] = {{256, 40.390631}, {512, 61.985199}, {1024, 94.574464}, {2048, 143.562585}, {4096, 216.945401}};
    (void)unused;
    for (size_t i = 0; i < sizeof small / sizeof small[0]; i++) {
        dpmf_workload *a = parse("prefix", small[i].n);
        assert_optimum(a, 0, sqrt(small[i].total / (double)small[i].n), 2e-7, 1e-8);
        dpmf_workload_free(a);
    }
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_workload *a = parse("prefix", table[i].n);
        assert_optimum(a, 0, table[i].root / sqrt((double)table[i].n), 2e-8, 1e-7);
        dpmf_workload_free(a);
    }
}

/* ---- against 50-digit arithmetic (tests/python/reference_optimum.py) ---- */

typedef void (*reference_case)(const char *text, int64_t n, double rms);

static void each_reference(reference_case use) {
    const char *source = getenv("DPMF_SOURCE");
    char path[1024], line[256], text[128];
    snprintf(path, sizeof path, "%s/tests/data/optimum.csv", source == NULL ? "." : source);
    FILE *file = fopen(path, "r");
    int count = 0;
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file)); /* the heading */
    while (fgets(line, sizeof line, file) != NULL) {
        long long n = 0;
        double rms = 0;
        assert_int_equal(sscanf(line, "%127[^;];%lld;%lf", text, &n, &rms), 3);
        use(text, n, rms);
        count++;
    }
    fclose(file);
    assert_true(count >= 20);
}

static void assert_value(const char *text, int64_t n, double rms) {
    dpmf_workload *a = parse(text, n);
    assert_optimum(a, 0, rms, 1e-15, 1e-9);
    dpmf_workload_free(a);
}

/*
 * Any v gives a bound: random v over six decades, with the full rule and with eight nodes, never above the optimum. The
 * claimed error of phi is tested too: with eight nodes the bound is far away or void, but true.
 */
static void assert_bound(const char *text, int64_t n, double rms) {
    dpmf_workload *a = parse(text, n);
    dpmf_i_pool *pool = NULL;
    dpmf_i_phi *phi = NULL;
    double *v = calloc((size_t)n, sizeof *v), *exact = calloc((size_t)n, sizeof *exact);
    double *columns = calloc((size_t)n, sizeof *columns);
    uint64_t seed = (uint64_t)n;
    check_ok(dpmf_i_pool_create(1, &pool));
    check_ok(dpmf_i_phi_create(a, pool, &phi));
    for (int trial = 0; trial < 20; trial++) {
        double total = 0, error = 0, full = 0;
        for (int64_t t = 0; t < n; t++) {
            v[t] = pow(10, 3 * check_random(&seed));
            total += v[t];
        }
        check_ok(dpmf_i_phi_eval(phi, v, NULL, 1e-13, 0, exact, NULL, &full));
        assert_true(full < 1e-9);
        for (int nodes = 0; nodes <= 8; nodes += 4) {
            double sum = 0;
            check_ok(dpmf_i_phi_eval(phi, v, NULL, 1e-12, nodes, columns, NULL, &error));
            for (int64_t t = 0; t < n; t++) {
                sum += columns[t];
                if (isfinite(error)) assert_true(fabs(columns[t] / exact[t] - 1) <= error + full);
            }
            double lower = isfinite(error) ? sum * (1 - error) / sqrt(total * (double)n) : 0;
            assert_true(lower <= rms);
        }
    }
    dpmf_i_phi_free(phi);
    dpmf_i_pool_free(pool);
    free(v), free(exact), free(columns);
    dpmf_workload_free(a);
}

static void test_reference(void **unused) {
    (void)unused;
    each_reference(assert_value);
}

static void test_any_v_bounds(void **unused) {
    (void)unused;
    each_reference(assert_bound);
}

/* ---- the matrix route, by singular values ---- */

static void test_matrix_route(void **unused) {
    static const struct {
        const char *text;
        int64_t n;
    } cases[] = {{"momentum:0.95", 128},
                 {"momentum:0.95,cooldown:0.25:0.05", 128},
                 {"nesterov:0.9", 60},
                 {"decay:0.1,cooldown:0.5:0.01", 60}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_workload *named = parse(cases[i].text, cases[i].n), *dense = NULL;
        double *matrix = check_workload_matrix(named);
        dpmf_i_optimum o[2] = {{0}, {0}};
        check_ok(dpmf_workload_create_dense(cases[i].n, matrix, &dense));
        check_ok(dpmf_i_optimum_solve(named, 0, NULL, 1e-8, NULL, &o[0]));
        check_ok(dpmf_i_optimum_solve(dense, 0, NULL, 1e-8, NULL, &o[1]));
        assert_true(o[0].converged && o[1].converged);
        check_near(o[0].lower / o[1].lower, 1, 1e-8);
        dpmf_i_optimum_free(&o[0]);
        dpmf_i_optimum_free(&o[1]);
        free(matrix);
        dpmf_workload_free(named);
        dpmf_workload_free(dense);
    }
}

/* Weights are the workload diag(sqrt p) A. */
static void test_weights(void **unused) {
    enum { N = 40 };
    dpmf_workload *named = parse("momentum:0.8", N), *dense = NULL;
    double *matrix = check_workload_matrix(named), weights[N];
    dpmf_i_optimum o[2] = {{0}, {0}};
    (void)unused;
    for (int t = 0; t < N; t++) {
        weights[t] = 0.1 + t % 7;
        for (int u = 0; u < N; u++)
            matrix[t * N + u] *= sqrt(weights[t]);
    }
    check_ok(dpmf_workload_create_dense(N, matrix, &dense));
    check_ok(dpmf_i_optimum_solve(named, 0, weights, 1e-8, NULL, &o[0]));
    check_ok(dpmf_i_optimum_solve(dense, 0, NULL, 1e-8, NULL, &o[1]));
    check_near(o[0].lower / o[1].lower, 1, 1e-8);
    dpmf_i_optimum_free(&o[0]);
    dpmf_i_optimum_free(&o[1]);
    free(matrix);
    dpmf_workload_free(named);
    dpmf_workload_free(dense);
}

/* The optimal C as a matrix: columns of norm 1, and the loss that was promised. */
static void test_explicit(void **unused) {
    static const char *const texts[] = {"prefix", "momentum:0.9", "nesterov:0.9", "decay:0.05,cooldown:0.5:0.1"};
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int max_loss = 0; max_loss <= (i == 0); max_loss++) {
            dpmf_workload *a = parse(texts[i], 150);
            dpmf_i_optimum o = {0};
            dpmf_strategy *c = NULL;
            dpmf_evaluation e;
            check_ok(dpmf_i_optimum_solve(a, max_loss, NULL, 1e-6, NULL, &o));
            check_ok(dpmf_i_optimum_explicit(a, &o, NULL, &c));
            check_ok(dpmf_evaluate(a, NULL, c, NULL, &e, NULL));
            double loss = max_loss ? e.max_loss : e.rms_loss;
            check_near(e.sensitivity.value, 1, 1e-12);
            assert_true(loss >= o.lower * (1 - 1e-12));
            assert_true(loss <= o.upper * (1 + 1e-6));
            dpmf_strategy_free(c);
            dpmf_i_optimum_free(&o);
            dpmf_workload_free(a);
        }
}

/* ---- kernels, threads, cancelling, memory, refusals ---- */

static void test_instruction_sets_agree(void **unused) {
    static const char *const names[] = {"avx2", "avx512"};
    enum { N = 1000 };
    static double diagonal[N], below[N], v[N], scratch[N * DPMF_I_LANES], want[N], got[N];
    uint64_t seed = 77;
    (void)unused;
    for (int t = 0; t < N; t++) {
        diagonal[t] = 1.5 + check_random(&seed);
        below[t] = 1.5 + check_random(&seed);
        v[t] = exp(5 * check_random(&seed));
    }
    for (int64_t n = 1; n <= N; n = n < 4 ? n + 1 : n * 7) {
        dpmf_i_ladder_one job = {.n = n, .diagonal = diagonal, .below = below, .v = v, .scratch = scratch, .out = want};
        for (int j = 0; j < DPMF_I_LANES; j++) {
            job.shift[j] = pow(10, -2 * j);
            job.weight[j] = 1 + j;
        }
        dpmf_i_kernels_find("ref")->ladder_one(&job);
        for (int i = 0; i < 2; i++) {
            const dpmf_i_kernels *set = dpmf_i_kernels_find(names[i]);
            if (set == NULL) continue; /* not on this machine */
            job.out = got;
            set->ladder_one(&job);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
        }
    }
    assert_null(dpmf_i_kernels_find("abacus"));
}

/* The same for workloads of two bands; any non-negative chain will do. */
static void test_instruction_sets_agree_on_two_bands(void **unused) {
    static const char *const names[] = {"avx2", "avx512"};
    enum { N = 700 };
    static double keep[N], momentum[N], fresh[N], offset[N], cross[N], p[N], v[N], want[N], got[N];
    double *scratch = calloc((size_t)dpmf_i_ladder_two_scratch(N), sizeof *scratch);
    uint64_t seed = 99;
    (void)unused;
    for (int t = 0; t < N; t++) {
        keep[t] = 0.9 + 0.1 * check_random(&seed);
        momentum[t] = 0.5 + 0.4 * check_random(&seed);
        fresh[t] = 1 + 0.5 * check_random(&seed);
        offset[t] = 0.2 + 0.2 * check_random(&seed);
        cross[t] = 0.3 + 0.3 * check_random(&seed);
        p[t] = exp(check_random(&seed));
        v[t] = exp(4 * check_random(&seed));
    }
    for (int64_t n = 1; n <= N; n = n < 4 ? n + 1 : n * 5) {
        dpmf_i_ladder_two job = {.n = n,
                                 .keep = keep,
                                 .momentum = momentum,
                                 .fresh = fresh,
                                 .offset = offset,
                                 .cross = cross,
                                 .p = p,
                                 .v = v,
                                 .scratch = scratch,
                                 .out = want};
        for (int j = 0; j < DPMF_I_LANES; j++) {
            job.shift[j] = pow(10, -2 * j);
            job.weight[j] = 1 + j;
        }
        dpmf_i_kernels_find("ref")->ladder_two(&job);
        for (int i = 0; i < 2; i++) {
            const dpmf_i_kernels *set = dpmf_i_kernels_find(names[i]);
            if (set == NULL) continue; /* not on this machine */
            job.out = got;
            set->ladder_two(&job);
            assert_memory_equal(got, want, (size_t)n * sizeof *got);
        }
    }
    free(scratch);
}

static void test_threads(void **unused) {
    dpmf_workload *a = parse("prefix", 5000);
    dpmf_i_optimum o[3] = {{0}, {0}, {0}};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        dpmf_run run = dpmf_run_defaults();
        run.threads = i + 1;
        check_ok(dpmf_i_optimum_solve(a, 0, NULL, 1e-5, &run, &o[i]));
        assert_memory_equal(o[i].v, o[0].v, 5000 * sizeof(double));
        assert_true(o[i].lower == o[0].lower && o[i].upper == o[0].upper);
    }
    for (int i = 0; i < 3; i++)
        dpmf_i_optimum_free(&o[i]);
    dpmf_workload_free(a);
}

static int stop(void *context, const char *what, double done) {
    (void)what, (void)done;
    return ++*(int *)context >= 2;
}

static void test_cancel(void **unused) {
    dpmf_workload *a = parse("prefix", 300);
    dpmf_i_optimum o = {0};
    dpmf_run run = dpmf_run_defaults();
    int calls = 0;
    uint64_t before = dpmf_memory_in_use();
    (void)unused;
    run.progress = stop;
    run.context = &calls;
    check_fails(DPMF_ERROR_CANCELLED, dpmf_i_optimum_solve(a, 0, NULL, 1e-6, &run, &o));
    assert_int_equal(dpmf_memory_in_use(), before);
    assert_null(o.v);
    dpmf_workload_free(a);
}

static dpmf_status solve_and_form(const dpmf_workload *a) {
    dpmf_i_optimum o = {0};
    dpmf_strategy *c = NULL;
    dpmf_status status = dpmf_i_optimum_solve(a, 0, NULL, 1e-3, NULL, &o);
    if (status == DPMF_OK) status = dpmf_i_optimum_explicit(a, &o, NULL, &c);
    dpmf_i_optimum_free(&o);
    dpmf_strategy_free(c);
    return status;
}

static void test_every_allocation_may_fail(void **unused) {
    dpmf_workload *one = parse("prefix", 12), *two = parse("momentum:0.5", 12);
    (void)unused;
    FAIL_EACH(solve_and_form(one));
    FAIL_EACH(solve_and_form(two));
    dpmf_workload_free(one);
    dpmf_workload_free(two);
}

static void test_refusals(void **unused) {
    static const double bad[] = {1e-11, 0, -1, 1, NAN};
    dpmf_workload *a = parse("prefix", 3);
    dpmf_i_optimum o = {0};
    double weights[3] = {1, 0, 1};
    dpmf_optimization result;
    dpmf_strategy *c = NULL;
    dpmf_optimize_options options = dpmf_optimize_options_defaults();
    (void)unused;
    for (int i = 0; i < 5; i++)
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_i_optimum_solve(a, 0, NULL, bad[i], NULL, &o));
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_i_optimum_solve(a, 0, weights, 1e-3, NULL, &o));
    weights[1] = 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_i_optimum_solve(a, 1, weights, 1e-3, NULL, &o));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("bsr", a, NULL, &c, &result));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize(NULL, a, NULL, &c, &result));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", NULL, NULL, &c, &result));
    options.nodes = 33;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("tvblt", a, &options, &c, &result));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", a, &options, &c, &result));
    options.nodes = 0;
    options.wanted_ratio = 0.5;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("tvblt", a, &options, &c, &result));
    assert_null(c);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_totals),
        cmocka_unit_test(test_reference),
        cmocka_unit_test(test_any_v_bounds),
        cmocka_unit_test(test_matrix_route),
        cmocka_unit_test(test_weights),
        cmocka_unit_test(test_explicit),
        cmocka_unit_test(test_instruction_sets_agree),
        cmocka_unit_test(test_instruction_sets_agree_on_two_bands),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
