/* SPDX-License-Identifier: Apache-2.0 */
/* Sensitivity, error and losses: published values, weights, adjacency, progress, refusals. */
#include "optimum/optimum.h"
#include "support/check.h"

#include "strategy/strategy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    dpmf_workload *a;
    dpmf_strategy *c;
} setting;

static setting make(const char *family, const char *workload, int64_t steps, int normalize) {
    setting s = {0};
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.column_normalize = normalize;
    check_ok(dpmf_workload_parse(workload, steps, &s.a));
    check_ok(dpmf_strategy_create(family, s.a, &o, &s.c));
    return s;
}

static void drop(setting *s) {
    dpmf_workload_free(s->a);
    dpmf_strategy_free(s->c);
}

static dpmf_evaluation evaluate(const char *family, int64_t steps, int normalize) {
    setting s = make(family, "prefix", steps, normalize);
    dpmf_evaluation e;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.lower_bound = DPMF_LOWER_BOUND_NONE; /* it has its own tests, and takes long */
    check_ok(dpmf_evaluate(s.a, NULL, s.c, &o, &e, NULL));
    drop(&s);
    return e;
}

/* Square root of prefix sums, max loss, and its column-normalized form: Pillutla et al. 2025, Table 2.2, to 7 digits.
 */
static void test_losses_of_the_square_root_are_the_published_ones(void **unused) {
    static const struct {
        int64_t n;
        double max_loss, normalized;
    } table[] = {{8, 1.718379, 1.572546},    {64, 2.388848, 2.211769},   {256, 2.831050, 2.644961},
                 {1024, 3.272554, 3.080744}, {2048, 3.493229, 3.299245}, {8192, 3.934529, 3.737074}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        check_near(evaluate("toeplitz", table[i].n, 0).max_loss, table[i].max_loss, 4e-7);
        dpmf_evaluation e = evaluate("toeplitz", table[i].n, 1);
        check_near(e.max_loss, table[i].normalized, 4e-7);
        assert_true(e.sensitivity.value == 1 && e.sensitivity.kind == DPMF_EXACT);
    }
    check_near(evaluate("toeplitz", 8, 0).rms_loss, 1.585857, 4e-7);
    check_near(evaluate("toeplitz", 1024, 0).rms_loss, 3.109790, 4e-7);
    check_near(evaluate("toeplitz", 1000000, 0).max_loss, 5.46388937, 1e-8);
}

/* Both trees of Honaker, max and RMS loss: Pillutla et al. 2025, Tables 2.2 and 2.3, computed independently to 7
 * digits. */
static void test_losses_of_trees_are_the_published_ones(void **unused) {
    static const struct {
        int64_t n;
        double max_online, max_full, rms_online, rms_full;
    } table[] = {{8, 2.992053, 2.009501, 2.177810, 1.656157},    {64, 5.154460, 3.069294, 3.652307, 2.517806},
                 {256, 6.573624, 3.757130, 4.650148, 3.102237},  {1024, 7.989459, 4.438312, 5.649876, 3.686159},
                 {2048, 8.696967, 4.777360, 6.149923, 3.977631}, {8192, 10.111677, 5.453270, 7.150095, 4.559663}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_evaluation online = evaluate("tree-online", table[i].n, 0), full = evaluate("tree-full", table[i].n, 0);
        check_near(online.max_loss, table[i].max_online, 4e-7);
        check_near(online.rms_loss, table[i].rms_online, 4e-7);
        check_near(full.max_loss, table[i].max_full, 4e-7);
        check_near(full.rms_loss, table[i].rms_full, 4e-7);
    }
    /* sums of complete nodes alone (no table has them; from the definition) */
    check_near(evaluate("tree", 8, 0).max_loss, 3.464102, 4e-7);
    check_near(evaluate("tree", 8, 0).rms_loss, 2.549510, 4e-7);
    check_near(evaluate("tree", 1024, 0).max_loss, 10.488088, 4e-7);
    check_near(evaluate("tree", 1024, 0).rms_loss, 7.416923, 4e-7);
}

/* Root of the total squared loss of Honaker's online estimator: Denisov et al. 2022, Table 2, to 7 digits. */
static void test_total_losses_of_the_online_tree_are_the_published_ones(void **unused) {
    static const double expected[] = {74.40237, 116.52928, 180.79603, 278.31374, 425.60025};
    (void)unused;
    for (int i = 0; i < 5; i++)
        check_near(sqrt(evaluate("tree-online", (int64_t)256 << i, 0).total_squared_loss), expected[i], 1e-7);
}

static dpmf_evaluation evaluate_stamped(const char *family, int64_t stamps, dpmf_sensitivity_bound bound) {
    dpmf_strategy_options s = dpmf_strategy_options_defaults();
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_participation *p = NULL;
    static dpmf_lower_bound least; /* of the problem, which is the same for all strategies */
    dpmf_evaluation e;
    s.stamps = stamps;
    o.sensitivity = bound;
    check_ok(dpmf_workload_parse("prefix", 2000, &a));
    check_ok(dpmf_participation_parse("cyclic:20,100", 2000, &p));
    check_ok(dpmf_strategy_create(family, a, &s, &c));
    assert_int_equal(dpmf_strategy_get(c).stamps, stamps);
    if (least.scope == NULL) check_ok(optimum_find_bound(a, p, &o, &least));
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_evaluate(a, p, c, &o, &e, NULL));
    assert_true(e.rms_loss > least.rms_loss && least.rms_loss > 0);
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    dpmf_participation_free(p);
    return e;
}

/*
 * Total squared loss of 2000 steps in 20 epochs of 100: Choquette-Choo et al. 2023, Table 1, computed independently to
 * 8 digits. Its FFT columns use the spectral bound on the sensitivity (Theorem 2.1 there); the exact one is lower.
 */
static void test_losses_of_stamped_mechanisms_are_the_published_ones(void **unused) {
    static const int64_t stamps[] = {1, 2, 5, 10, 20};
    static const double squares[] = {926, 524, 300, 220, 160}; /* of the trees' sensitivity */
    static const double online[] = {5773821.3, 3267241.5, 2077249.8, 1953697.5, 2129630.9};
    static const double full[] = {2431441.5, 1550672.2, 1224786.6, 1388436.3, 1752906.9};
    static const double fft[] = {2344050.2, 1790875.3, 1628825.7, 1859192.4, 2515156.9};
    static const double fft_opt[] = {2242999.9, 1451611.2, 1132526.2, 1241462.0, 1700140.0};
    static const double fft_exact[] = {2306688.2, 1766911.2, 1618298.6, 1859192.4, 2515156.9};
    static const double fft_opt_exact[] = {2207248.5, 1432186.8, 1125206.6, 1241462.0, 1700140.0};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        dpmf_evaluation e = evaluate_stamped("tree-online", stamps[i], DPMF_BOUND_AUTO);
        check_near(e.total_squared_loss, online[i], 1e-7);
        check_near(e.sensitivity.value * e.sensitivity.value, squares[i], 1e-12);
        assert_int_equal(e.sensitivity.kind, DPMF_EXACT);
        e = evaluate_stamped("tree-full", stamps[i], DPMF_BOUND_AUTO);
        check_near(e.total_squared_loss, full[i], 1e-7);
        assert_int_equal(e.sensitivity.kind, DPMF_EXACT);
        e = evaluate_stamped("fft", stamps[i], DPMF_BOUND_SPECTRAL);
        check_near(e.total_squared_loss, fft[i], 1e-7);
        assert_int_equal(e.sensitivity.kind, DPMF_UPPER_BOUND);
        e = evaluate_stamped("fft-opt", stamps[i], DPMF_BOUND_SPECTRAL);
        check_near(e.total_squared_loss, fft_opt[i], 1e-7);
        e = evaluate_stamped("fft", stamps[i], DPMF_BOUND_AUTO);
        check_near(e.total_squared_loss, fft_exact[i], 1e-7);
        assert_int_equal(e.sensitivity.kind, DPMF_EXACT);
        check_near(evaluate_stamped("fft-opt", stamps[i], DPMF_BOUND_AUTO).total_squared_loss, fft_opt_exact[i], 1e-7);
    }
}

/* Input perturbation: max sqrt(n), RMS sqrt((n+1)/2). Output perturbation: sqrt(n) for both. */
static void test_input_and_output_perturbation_have_closed_forms(void **unused) {
    static const int64_t steps[] = {1, 2, 10, 1000, 100000};
    (void)unused;
    for (int i = 0; i < 5; i++) {
        double n = (double)steps[i];
        dpmf_evaluation identity = evaluate("identity", steps[i], 0), workload = evaluate("workload", steps[i], 0);
        check_near(identity.max_loss / sqrt(n), 1, 1e-14);
        check_near(identity.rms_loss / sqrt((n + 1) / 2), 1, 1e-14);
        check_near(identity.total_squared_loss / (n * (n + 1) / 2), 1, 1e-14);
        check_near(workload.max_loss / sqrt(n), 1, 1e-14);
        check_near(workload.rms_loss / sqrt(n), 1, 1e-14);
    }
}

/* The same strategy by different routes: Toeplitz, banded recursion, impulse responses, matrices. */
static void test_one_strategy_has_the_same_errors_by_every_route(void **unused) {
    enum { N = 300, B = 12 };
    static const char *const workloads[] = {"prefix", "momentum:0.95,cooldown:0.25:0.05", "nesterov:0.9,decay:0.01"};
    double *rows = calloc(N * B, sizeof *rows), *matrix = calloc((size_t)N * N, sizeof *matrix), c[B];
    double errors[3][N];
    (void)unused;
    for (int j = 0; j < B; j++)
        c[j] = 1 / sqrt(1 + j);
    for (int t = 0; t < N; t++)
        for (int j = 0; j < B && j <= t; j++)
            rows[t * B + j] = matrix[t * N + t - j] = c[j];
    dpmf_strategy *s[3] = {0};
    check_ok(dpmf_strategy_create_toeplitz(N, DPMF_TOEPLITZ, B, c, &s[0]));
    check_ok(dpmf_strategy_create_banded(N, B, rows, &s[1]));
    check_ok(dpmf_strategy_create_dense(N, matrix, &s[2]));
    for (int w = 0; w < 3; w++) {
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse(workloads[w], N, &a));
        for (int i = 0; i < 3; i++)
            check_ok(dpmf_error_compute(a, s[i], NULL, errors[i]));
        for (int t = 0; t < N; t++) {
            check_near(errors[1][t] / errors[0][t], 1, 1e-11);
            check_near(errors[2][t] / errors[0][t], 1, 1e-11);
        }
        dpmf_workload_free(a);
    }
    for (int i = 0; i < 3; i++)
        dpmf_strategy_free(s[i]);
    free(rows);
    free(matrix);
}

static void test_losses_are_sums_over_weighted_steps(void **unused) {
    enum { N = 50 };
    double per_step[N], weighted[N], weights[N];
    setting s = make("toeplitz", "momentum:0.9", N, 0);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_evaluation plain, with, doubled;
    (void)unused;
    for (int t = 0; t < N; t++)
        weights[t] = t < 10 ? 0 : t / 7.0;
    check_ok(dpmf_evaluate(s.a, NULL, s.c, NULL, &plain, per_step));
    o.weights = weights;
    check_ok(dpmf_evaluate(s.a, NULL, s.c, &o, &with, weighted));
    double total = 0, worst = 0, plain_total = 0;
    for (int t = 0; t < N; t++) {
        total += weights[t] * per_step[t] * per_step[t];
        plain_total += per_step[t] * per_step[t];
        worst = fmax(worst, sqrt(weights[t]) * per_step[t]);
        check_near(weighted[t], sqrt(weights[t]) * per_step[t], 1e-14);
    }
    check_near(plain.total_squared_loss / plain_total, 1, 1e-13);
    check_near(with.total_squared_loss / total, 1, 1e-13);
    check_near(with.rms_loss / sqrt(total / N), 1, 1e-13);
    check_near(with.max_loss / worst, 1, 1e-13);

    o = dpmf_evaluate_options_defaults();
    o.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    check_ok(dpmf_evaluate(s.a, NULL, s.c, &o, &doubled, NULL));
    check_near(doubled.sensitivity.value, 2 * plain.sensitivity.value, 1e-15);
    check_near(doubled.rms_loss, 2 * plain.rms_loss, 1e-14);
    o.adjacency = DPMF_ADJACENCY_ADD_REMOVE;
    check_ok(dpmf_evaluate(s.a, NULL, s.c, &o, &doubled, NULL));
    assert_true(doubled.rms_loss == plain.rms_loss);

    weights[3] = -1;
    o.weights = weights;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_evaluate(s.a, NULL, s.c, &o, &doubled, NULL));
    check_message("step 3 = -1");
    weights[3] = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_evaluate(s.a, NULL, s.c, &o, &doubled, NULL));
    memset(weights, 0, sizeof weights);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_evaluate(s.a, NULL, s.c, &o, &doubled, NULL));
    drop(&s);
}

static int stop_later(void *context, const char *what, double done) {
    int *calls = context;
    assert_non_null(what);
    assert_true(done <= 1);
    return ++*calls >= 3;
}

static void test_an_evaluation_that_is_cancelled_leaves_nothing(void **unused) {
    enum { N = 3000 };
    int calls = 0;
    double errors[N];
    setting s = make("toeplitz", "prefix", N, 1);
    dpmf_run run = dpmf_run_defaults();
    (void)unused;
    run.progress = stop_later;
    run.context = &calls;
    errors[0] = -7;
    uint64_t before = dpmf_memory_in_use();
    check_fails(DPMF_ERROR_CANCELLED, dpmf_error_compute(s.a, s.c, &run, errors));
    assert_int_equal(calls, 3);
    assert_true(errors[0] == -7 && dpmf_memory_in_use() == before);
    drop(&s);
}

static void step_identity(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

/* dpmf_evaluate reports the bound of optimum_find_bound, for the same options. */
static void test_the_reported_lower_bound_is_the_computed_one(void **unused) {
    enum { N = 40 };
    double weights[N];
    setting s = make("toeplitz", "momentum:0.9", N, 0);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    (void)unused;
    for (int t = 0; t < N; t++)
        weights[t] = t % 5;
    for (int i = 0; i < 6; i++) {
        dpmf_evaluation e;
        dpmf_lower_bound b;
        o.adjacency = i == 1 ? DPMF_ADJACENCY_REPLACE_ONE : DPMF_ADJACENCY_ZERO_OUT;
        o.weights = i == 2 ? weights : NULL;
        o.lower_bound = i == 3 ? DPMF_LOWER_BOUND_NONE : i == 4 ? DPMF_LOWER_BOUND_FORCE : DPMF_LOWER_BOUND_AUTO;
        check_ok(dpmf_evaluate(s.a, NULL, s.c, i == 5 ? NULL : &o, &e, NULL));
        check_ok(optimum_find_bound(s.a, NULL, i == 5 ? NULL : &o, &b));
        assert_true(e.lower_bound.rms_loss == b.rms_loss && e.lower_bound.max_loss == b.max_loss);
        assert_ptr_equal(e.lower_bound.scope, b.scope);
        assert_int_equal(b.scope == NULL, i == 3);
        assert_true(e.rms_loss >= b.rms_loss && e.max_loss >= b.max_loss);
    }
    drop(&s);
}

static void test_objects_of_different_steps_are_refused(void **unused) {
    setting s = make("toeplitz", "prefix", 10, 0), other = make("toeplitz", "prefix", 11, 0);
    dpmf_participation *p = NULL;
    dpmf_sensitivity sensitivity = {-1, DPMF_ESTIMATE, DPMF_SENSITIVITY_COLUMN, NULL, 0};
    dpmf_evaluation e;
    double errors[11];
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_error_compute(s.a, other.c, NULL, errors));
    check_message("10 steps");
    check_ok(dpmf_participation_parse("single", 11, &p));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(s.c, p, NULL, &sensitivity));
    dpmf_participation_free(p);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.adjacency = (dpmf_adjacency)9;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_compute(s.c, NULL, &o, &sensitivity));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_evaluate(NULL, NULL, s.c, NULL, &e, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_evaluate(other.a, NULL, s.c, NULL, &e, NULL));
    check_message("the workload has 11 steps, the strategy 10");
    dpmf_operator op = {NULL, 0, step_identity, NULL}; /* a workload for which no lower bound is known */
    dpmf_workload *custom = NULL;
    check_ok(dpmf_workload_create_operator(10, &op, &custom));
    check_ok(dpmf_evaluate(custom, NULL, s.c, NULL, &e, NULL));
    assert_null(e.lower_bound.scope);
    dpmf_evaluate_options forced = dpmf_evaluate_options_defaults();
    forced.lower_bound = DPMF_LOWER_BOUND_FORCE;
    check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_evaluate(custom, NULL, s.c, &forced, &e, NULL));
    dpmf_workload_free(custom);
    assert_true(sensitivity.value == -1);
    /* noise that doubles at every step leaves the range of a double: an error, not a figure */
    const double growing[2] = {1, 2};
    dpmf_strategy *c = NULL;
    dpmf_workload *a = NULL;
    check_ok(dpmf_strategy_create_toeplitz(2000, DPMF_TOEPLITZ, 2, growing, &c));
    check_ok(dpmf_workload_parse("prefix", 2000, &a));
    check_fails(DPMF_ERROR_NUMERICAL, dpmf_evaluate(a, NULL, c, NULL, &e, NULL));
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    drop(&s);
    drop(&other);
}

static void test_names_of_choices_are_read_back(void **unused) {
    dpmf_adjacency adjacency = DPMF_ADJACENCY_ZERO_OUT;
    (void)unused;
    for (int i = 0; i < 3; i++) {
        check_ok(dpmf_adjacency_parse(dpmf_adjacency_name((dpmf_adjacency)i), &adjacency));
        assert_int_equal(adjacency, i);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_adjacency_parse("neighbour", &adjacency));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_adjacency_parse(NULL, &adjacency));
    dpmf_sensitivity_bound bound = DPMF_BOUND_AUTO;
    for (int i = 0; i < 4; i++) {
        check_ok(dpmf_sensitivity_bound_parse(dpmf_sensitivity_bound_name((dpmf_sensitivity_bound)i), &bound));
        assert_int_equal(bound, i);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_bound_parse("Auto", &bound));
    check_message("accepted: auto, spectral, absolute, signs");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_sensitivity_bound_parse(NULL, &bound));
    assert_int_equal(bound, DPMF_BOUND_SIGNS);
    assert_string_equal(dpmf_sensitivity_bound_name((dpmf_sensitivity_bound)4), "unknown");
    assert_string_equal(dpmf_certainty_name(DPMF_UPPER_BOUND), "upper bound");
    assert_string_equal(dpmf_certainty_name((dpmf_certainty)77), "unknown");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_losses_of_trees_are_the_published_ones),
        cmocka_unit_test(test_total_losses_of_the_online_tree_are_the_published_ones),
        cmocka_unit_test(test_losses_of_stamped_mechanisms_are_the_published_ones),
        cmocka_unit_test(test_the_reported_lower_bound_is_the_computed_one),
        cmocka_unit_test(test_losses_of_the_square_root_are_the_published_ones),
        cmocka_unit_test(test_input_and_output_perturbation_have_closed_forms),
        cmocka_unit_test(test_one_strategy_has_the_same_errors_by_every_route),
        cmocka_unit_test(test_losses_are_sums_over_weighted_steps),
        cmocka_unit_test(test_an_evaluation_that_is_cancelled_leaves_nothing),
        cmocka_unit_test(test_objects_of_different_steps_are_refused),
        cmocka_unit_test(test_names_of_choices_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
