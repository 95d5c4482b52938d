/* SPDX-License-Identifier: Apache-2.0 */
/* Optima of sums, of matrices of any shape and with weights of 0: against a semidefinite program and against plain workloads. */
#include "support/check.h"

#include "oracle/oracle.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double random_between(uint64_t *seed, double low, double high) {
    return low + (high - low) * (check_random(seed) + 1) / 2;
}

/* M = sum of weight A' P A by plain loops. */
static void add_products(int n, int64_t rows, const double *a, double weight, const double *p, double *m) {
    for (int64_t r = 0; r < rows; r++) {
        int last = n - 1;
        while (a[r * n + last] == 0)
            last--;
        for (int i = 0; i < n; i++)
            for (int j = 0; j < n; j++)
                m[i * n + j] += weight * (p == NULL ? 1 : p[last]) * a[r * n + i] * a[r * n + j];
    }
}

/* A sum of two named workloads and, in every other case, a full matrix of random rows. */
typedef struct sum_case {
    int n, b;
    double m[144], weights[12];
    dpmf_workload *workload;
    dpmf_participation *participation;
} sum_case;

static sum_case make_case(int trial, uint64_t *seed) {
    static const char *const PART[] = {"prefix",     "decay:0.1", "momentum:0.7", "identity",
                                       "linear:0.2", "window:3",  "mean"};
    sum_case c = {.n = 4 + trial % 9};
    dpmf_workload *part[3] = {0};
    double weight[3];
    c.b = trial % 2 == 0 ? c.n : 2 + trial % 3;
    for (int t = 0; t < c.n; t++)
        c.weights[t] = random_between(seed, 0.2, 2);
    for (int k = 0; k < 2; k++) {
        part[k] = workload_of(PART[(trial + 3 * k) % 7], c.n);
        weight[k] = random_between(seed, 0.1, 3);
        double *a = check_workload_matrix(part[k]);
        add_products(c.n, c.n, a, weight[k], c.weights, c.m);
        free(a);
    }
    const int rows = 1 + trial % 15;
    double full[15 * 12];
    for (int i = 0; i < rows * c.n; i++)
        full[i] = check_random(seed);
    weight[2] = 0.5;
    check_ok(dpmf_workload_create(c.n, &(dpmf_workload_options){.rows = rows, .matrix = full}, &part[2]));
    const int parts = trial % 4 < 2 ? 2 : 3;
    if (parts == 3) add_products(c.n, rows, full, weight[2], c.weights, c.m);
    check_ok(dpmf_workload_create(
        c.n,
        &(dpmf_workload_options){.parts = parts, .part = (const dpmf_workload *const *)part, .part_weights = weight},
        &c.workload));
    const int64_t k = (c.n + c.b - 1) / c.b;
    check_ok(dpmf_participation_create(k == 1 ? DPMF_PARTICIPATION_SINGLE : DPMF_PARTICIPATION_CYCLIC, c.n, k, c.b,
                                       &c.participation));
    for (int i = 0; i < 3; i++)
        dpmf_workload_free(part[i]);
    return c;
}

static void test_optima_of_sums_are_those_of_the_semidefinite_program(void **state) {
    uint64_t seed = 17;
    double below = 0, above = 0;
    (void)state;
    for (int trial = 0; trial < 24; trial++) {
        sum_case c = make_case(trial, &seed);
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
        dpmf_optimization found = {0};
        dpmf_evaluation figures = {0};
        dpmf_strategy *s = NULL;
        o.weights = e.weights = c.weights;
        o.tolerance = 1e-7;
        const double want = sqrt(oracle_semidefinite(c.n, c.m, c.b) / c.n);
        assert_true(isfinite(want));
        check_ok(dpmf_optimize("dense", c.workload, c.participation, &o, &s, &found));
        check_ok(dpmf_evaluate(c.workload, c.participation, s, &e, &figures, NULL));
        assert_int_equal(found.outcome, DPMF_CONVERGED);
        below = fmax(below, fmax(1 - found.optimum_lower / want, found.optimum_lower / want - 1));
        above = fmax(above, fabs(figures.rms_loss / want - 1));
        assert_true(found.optimum_lower <= want * (1 + 1e-9) && figures.lower_bound.rms_loss <= want * (1 + 1e-9));
        assert_true(figures.rms_loss >= want * (1 - 1e-9));
        check_near(found.optimum_lower / want, 1, 2e-7);
        check_near(figures.rms_loss / want, 1, 2e-7);
        dpmf_strategy_free(s);
        dpmf_workload_free(c.workload);
        dpmf_participation_free(c.participation);
    }
    printf("24 sums: lower bound within %.2g, loss within %.2g of the program\n", below, above);
}

typedef struct optimized {
    double rms, max, lower;
} optimized;

static optimized optimize_text(const char *family, const char *text, const char *participation, dpmf_loss loss,
                               int64_t n, int64_t bands, int buffers) {
    dpmf_workload *w = workload_of(text, n);
    dpmf_participation *p = NULL;
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found = {0};
    dpmf_evaluation e = {0};
    dpmf_strategy *s = NULL;
    o.bands = bands;
    o.buffers = buffers;
    o.loss = loss;
    check_ok(dpmf_participation_parse(participation, n, &p));
    check_ok(dpmf_optimize(family, w, p, &o, &s, &found));
    check_ok(dpmf_evaluate(w, p, s, NULL, &e, NULL));
    dpmf_strategy_free(s);
    dpmf_workload_free(w);
    dpmf_participation_free(p);
    return (optimized){e.rms_loss, e.max_loss, found.optimum_lower};
}

/* W + W is sqrt 2 times W, by the routes of matrices in place of W's own. */
static void test_twice_a_workload_has_the_optimum_of_the_workload_in_every_family(void **state) {
    static const struct {
        const char *family, *participation;
        int64_t bands;
        int buffers;
    } CASE[] = {
        {"dense", "single", 0, 0},        {"dense", "cyclic:4,8", 0, 0},       {"toeplitz", "single", 0, 0},
        {"toeplitz", "cyclic:4,8", 0, 0}, {"banded-toeplitz", "single", 5, 0}, {"banded-toeplitz", "min-sep:3,8", 6, 0},
        {"blt", "single", 0, 3},          {"blt", "min-sep:4,8", 0, 2},        {"banded", "single", 5, 0},
        {"banded", "cyclic:4,8", 6, 0},   {"banded", "min-sep:3,8", 6, 0},     {"dense", "min-sep:2,10", 0, 0}};
    static const char *const WORKLOAD[][2] = {{"prefix", "prefix + prefix"},
                                              {"decay:0.1", "0.5*decay:0.1 + 1.5*decay:0.1"}};
    double largest = 0;
    (void)state;
    for (size_t i = 0; i < sizeof CASE / sizeof CASE[0]; i++)
        for (int w = 0; w < 2; w++) {
            const optimized one = optimize_text(CASE[i].family, WORKLOAD[w][0], CASE[i].participation, DPMF_LOSS_RMS,
                                                32, CASE[i].bands, CASE[i].buffers);
            const optimized two = optimize_text(CASE[i].family, WORKLOAD[w][1], CASE[i].participation, DPMF_LOSS_RMS,
                                                32, CASE[i].bands, CASE[i].buffers);
            /* Under one participation BLTs of prefix sums keep to positive scales, as published tables do: those of sums may be better. */
            const int may_gain = CASE[i].buffers > 0 && CASE[i].participation[0] == 's' && w == 0;
            const double ratio = two.rms / (sqrt(2) * one.rms), off = may_gain ? fmax(0, ratio - 1) : fabs(ratio - 1);
            largest = fmax(largest, off);
            if (off > 1e-5)
                fail_msg("%s %s %s: %.9g, twice %.9g", CASE[i].family, CASE[i].participation, WORKLOAD[w][0], one.rms,
                         two.rms);
        }
    printf("12 families and participations x 2: largest deviation %.2g\n", largest);
}

/* Errors of a Toeplitz C rise for a sum of Toeplitz workloads: its max loss is optimized as that of the last step. */
static void test_the_max_loss_of_a_sum_is_that_of_the_last_step_for_toeplitz_strategies(void **state) {
    static const char *const FAMILY[] = {"toeplitz", "blt"};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const optimized one = optimize_text(FAMILY[i], "prefix", "cyclic:4,8", DPMF_LOSS_MAX, 32, 0, i == 0 ? 0 : 2);
        const optimized two =
            optimize_text(FAMILY[i], "prefix + prefix", "cyclic:4,8", DPMF_LOSS_MAX, 32, 0, i == 0 ? 0 : 2);
        check_near(two.max / (sqrt(2) * one.max), 1, 1e-5);
    }
}

static void test_the_optimum_for_the_last_sum_alone_releases_it_alone(void **state) {
    enum { N = 20 };
    dpmf_workload *w = workload_of("prefix", N);
    dpmf_participation *p = NULL;
    double weights[N] = {0};
    (void)state;
    weights[N - 1] = N;
    for (int several = 0; several < 2; several++) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
        dpmf_optimization found = {0};
        dpmf_evaluation figures = {0};
        dpmf_strategy *s = NULL;
        o.weights = e.weights = weights;
        check_ok(dpmf_participation_parse(several ? "cyclic:4,5" : "single", N, &p));
        check_ok(dpmf_optimize("dense", w, p, &o, &s, &found));
        check_ok(dpmf_evaluate(w, p, s, &e, &figures, NULL));
        const double want = several ? 4 : 1; /* one unit adds at most 1 to the sum in each of its steps */
        check_near(figures.rms_loss / want, 1, 2e-6);
        check_near(found.optimum_lower / want, 1, 2e-6);
        assert_true(found.optimum_lower <= want && figures.lower_bound.rms_loss <= want && figures.rms_loss >= want);
        dpmf_strategy_free(s);
        dpmf_participation_free(p);
    }
    dpmf_workload_free(w);
}

/*
 * Rectangular and singular: between its bounds. Where a step is hardly needed the fixed point is approached slowly, and the search says
 * that it has not converged; all cases seen end within 3e-4.
 */
static void test_matrices_with_fewer_rows_than_steps_have_an_enclosed_optimum(void **state) {
    uint64_t seed = 23;
    int converged = 0;
    (void)state;
    for (int trial = 0; trial < 10; trial++) {
        const int n = 6 + trial, rows = 1 + trial / 2;
        double a[15 * 8];
        dpmf_workload *w = NULL;
        dpmf_optimization found = {0};
        dpmf_evaluation e = {0};
        dpmf_strategy *s = NULL;
        for (int i = 0; i < rows * n; i++)
            a[i] = check_random(&seed);
        check_ok(dpmf_workload_create(n, &(dpmf_workload_options){.rows = rows, .matrix = a}, &w));
        check_ok(dpmf_optimize("dense", w, NULL, NULL, &s, &found));
        check_ok(dpmf_evaluate(w, NULL, s, NULL, &e, NULL));
        assert_true(found.optimum_lower <= e.rms_loss && e.lower_bound.rms_loss <= e.rms_loss);
        check_near(e.rms_loss / found.optimum_lower, 1, found.outcome == DPMF_CONVERGED ? 2e-6 : 1e-3);
        converged += found.outcome == DPMF_CONVERGED;
        dpmf_strategy_free(s);
        dpmf_workload_free(w);
    }
    assert_true(converged >= 5);
}

static void test_what_is_not_optimized_for_sums_is_refused_by_name(void **state) {
    dpmf_workload *w = workload_of("prefix + identity", 16);
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_optimization found = {0};
    dpmf_strategy *s = NULL;
    double weights[16] = {0};
    (void)state;
    o.loss = DPMF_LOSS_MAX;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("dense", w, NULL, &o, &s, &found));
    check_message("the max loss of workload prefix + decay:1");
    o.loss = DPMF_LOSS_RMS;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_optimize("tvblt", w, NULL, &o, &s, &found));
    o.weights = weights;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", w, NULL, &o, &s, &found));
    weights[3] = -1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_optimize("dense", w, NULL, &o, &s, &found));
    check_message("weight of step 3 = -1");
    assert_null(s);
    dpmf_workload_free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optima_of_sums_are_those_of_the_semidefinite_program),
        cmocka_unit_test(test_twice_a_workload_has_the_optimum_of_the_workload_in_every_family),
        cmocka_unit_test(test_the_max_loss_of_a_sum_is_that_of_the_last_step_for_toeplitz_strategies),
        cmocka_unit_test(test_the_optimum_for_the_last_sum_alone_releases_it_alone),
        cmocka_unit_test(test_matrices_with_fewer_rows_than_steps_have_an_enclosed_optimum),
        cmocka_unit_test(test_what_is_not_optimized_for_sums_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
