/* SPDX-License-Identifier: Apache-2.0 */
/* The best banded C: known optima, bounds that hold, refusals, cancellation, memory. */
#include "families/banded/banded.h"
#include "support/optimize_banded_cases.h"

#include "optimize/optimize.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <string.h>

/* ---- the optimum ---- */

typedef struct answer {
    dpmf_optimization result;
    dpmf_evaluation evaluation;
    dpmf_strategy *strategy;
} answer;

static answer optimize(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss,
                       const double *weights, double tolerance) {
    dpmf_workload *a = workload(work, n);
    dpmf_participation *p = participation(who, n);
    dpmf_optimize_options options = {.loss = loss, .bands = bands, .tolerance = tolerance, .weights = weights};
    const optimize_task task = {a, p, &options, NULL};
    dpmf_evaluate_options evaluate = dpmf_evaluate_options_defaults();
    answer out = {0};
    evaluate.weights = weights;
    evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(banded_optimize(&task, &out.strategy, &out.result));
    check_ok(dpmf_evaluate(a, p, out.strategy, &evaluate, &out.evaluation, NULL));
    assert_int_equal(dpmf_strategy_get(out.strategy).bands, bands);
    assert_int_equal(out.evaluation.sensitivity.kind, DPMF_EXACT);
    assert_true(out.evaluation.sensitivity.value <= 1 + 1e-12);
    double found = loss == DPMF_LOSS_MAX ? out.evaluation.max_loss : out.evaluation.rms_loss;
    check_near(found / out.result.optimum_upper, 1, 1e-6); /* the sensitivity may be a little below 1 */
    assert_true(found <= out.result.optimum_upper * (1 + 1e-12));
    assert_true(out.result.optimum_lower <= out.result.optimum_upper);
    assert_int_equal(out.result.outcome == DPMF_CONVERGED,
                     out.result.optimum_upper <= out.result.optimum_lower * (1 + tolerance));
    assert_string_equal(out.result.scope, "C of these bands with this participation");
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return out;
}

/* Converged, and both bounds near the value. */
static void check_optimum(const char *work, int64_t n, int64_t bands, const char *who, dpmf_loss loss, double want,
                          double tolerance) {
    answer got = optimize(work, n, bands, who, loss, NULL, 1e-6);
    assert_int_equal(got.result.outcome, DPMF_CONVERGED);
    check_near(got.result.optimum_upper / want, 1, tolerance);
    check_near(got.result.optimum_lower / want, 1, tolerance);
    dpmf_strategy_free(got.strategy);
}

/* McKenna 2024, Example B.1: the optimal C of 3 bands for 9 steps, as printed. */
static void test_the_printed_optimum_of_three_bands_is_found(void **state) {
    (void)state;
    static const double PRINTED[9][3] = {{.740, 0, 0},       {.822, .500, 0},    {.876, .492, .450},
                                         {.821, .395, .286}, {.855, .462, .278}, {.882, .442, .335},
                                         {.892, .403, .272}, {.936, .409, .243}, {1.000, .353, .194}};
    answer got = optimize("prefix", 9, 3, "single", DPMF_LOSS_RMS, NULL, 1e-9);
    double *c = check_strategy_matrix(got.strategy);
    for (int64_t t = 0; t < 9; t++)
        for (int64_t j = 0; j <= t && j < 3; j++)
            check_near(c[t * 9 + t - j], PRINTED[t][j], 5.01e-4);
    check_near(got.evaluation.total_squared_loss, 24.880865, 1e-7);
    assert_int_equal(got.result.outcome, DPMF_CONVERGED);
    free(c);
    dpmf_strategy_free(got.strategy);
}

/* With all bands it is the optimum of all mechanisms (Denisov et al. 2022, Theorem 3.2; values by its fixed point). */
static void test_all_bands_give_the_optimum_of_all_mechanisms(void **state) {
    (void)state;
    check_optimum("prefix", 5, 5, "single", DPMF_LOSS_RMS, sqrt(9.363315 / 5), 1e-6);
    check_optimum("prefix", 16, 16, "single", DPMF_LOSS_RMS, sqrt(45.665357 / 16), 1e-6);
    check_optimum("prefix", 8, 8, "single", DPMF_LOSS_MAX, 1.5104836, 1e-5);
    check_optimum("prefix", 16, 16, "minsep:1,4", DPMF_LOSS_MAX, 1.7044802, 1e-5);
}

static void test_banded_optima_of_prefix_sums_are_the_known_ones(void **state) {
    (void)state;
    static const struct {
        int64_t n;
        double loss;
    } KNOWN[] = {{32, 1.934325}, {64, 2.292618}, {128, 2.818767}, {256, 3.586968}, {512, 4.699375}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        check_optimum("prefix", KNOWN[i].n, 16, "single", DPMF_LOSS_RMS, KNOWN[i].loss, 2e-6);
}

/* Several participations; the values were found and certified independently, with dense matrices and all patterns. */
static void test_banded_optima_of_several_participations_are_the_known_ones(void **state) {
    (void)state;
    check_optimum("prefix", 64, 8, "cyclic:4,16", DPMF_LOSS_RMS, 5.0748958, 2e-6);
    check_optimum("prefix", 64, 16, "cyclic:4,16", DPMF_LOSS_RMS, 4.4760324, 2e-6);
    check_optimum("prefix", 64, 8, "minsep:4,16", DPMF_LOSS_RMS, 5.0864154, 2e-6);
    check_optimum("prefix", 64, 16, "minsep:4,16", DPMF_LOSS_RMS, 4.4859142, 2e-6);
    check_optimum("prefix", 64, 16, "cyclic:4,16", DPMF_LOSS_MAX, 4.9268569, 3e-6);
    /* one class of all steps: d_t in proportion to sqrt(n - t), by Cauchy and Schwarz */
    double sum = 0;
    for (int64_t t = 0; t < 12; t++)
        sum += sqrt((double)(12 - t));
    check_optimum("prefix", 12, 1, "full", DPMF_LOSS_RMS, sum / sqrt(12), 2e-6);
}

static void test_a_weighted_banded_optimum_is_certified(void **state) {
    (void)state;
    enum { N = 40 };
    double weights[N];
    for (int64_t t = 0; t < N; t++)
        weights[t] = 0.2 + (double)(t % 5);
    answer got =
        optimize("nesterov:0.8,decay:0.01,cooldown:0.5:0.2", N, 6, "minsep:3,11", DPMF_LOSS_RMS, weights, 1e-6);
    assert_int_equal(got.result.outcome, DPMF_CONVERGED);
    dpmf_strategy_free(got.strategy);
}

/*
 * The bound from a C that is not the best holds for the best, and comes up to it quadratically: ten times nearer, a
 * hundred times less.
 */
static void check_bound(const char *work, const char *who, int64_t n, int64_t bands) {
    dpmf_workload *a = workload(work, n);
    dpmf_participation *p = participation(who, n);
    answer best = optimize(work, n, bands, who, DPMF_LOSS_RMS, NULL, 1e-10);
    banded_class class_ = {0};
    banded_pass pass = {0};
    check_ok(banded_class_create(p, bands, &class_));
    check_ok(banded_pass_create(a, bands, &pass));
    double *rows = numbers(n * bands), *d = numbers(n * bands), *squares = numbers(n), *even = numbers(n);
    double *x = numbers(class_.unknowns), *c = check_strategy_matrix(best.strategy);
    double *slopes = numbers(n * (pass.stride + 2));
    double gap[4], optimum = pow(best.result.optimum_upper, 2);
    for (int64_t t = 0; t < n; t++)
        even[t] = 1 / (double)n;
    for (int i = 0; i < 4; i++) {
        static const double SIZES[4] = {1e-2, 1e-3, 1e-4, 0.5}; /* the last one is far away: a poor bound, but one */
        double size = SIZES[i], lower = -1;
        uint64_t seed = 5; /* the same direction each time */
        for (int64_t t = 0; t < n; t++)
            for (int64_t j = 0; j < bands && j <= t; j++)
                rows[t * bands + j] = c[t * n + t - j] * (1 + size * check_random(&seed));
        banded_class_unknowns(&class_, rows, x);
        assert_true(banded_class_build(&class_, x, rows));
        double total = weighted(&pass, rows, even, squares);
        banded_backward(&pass, rows, even, d, slopes);
        check_ok(banded_bound(&pass, &class_, rows, d, slopes, even, &lower));
        assert_true(total >= optimum * (1 - 1e-9));
        assert_true(lower > 0 && lower <= optimum * (1 + 1e-9));
        gap[i] = 1 - lower / optimum;
    }
    assert_true(gap[1] < 0.02 * gap[0] + 1e-9 && gap[2] < 0.02 * gap[1] + 1e-9);
    banded_class_free(&class_);
    banded_pass_free(&pass);
    dpmf_strategy_free(best.strategy);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    free(rows), free(d), free(squares), free(even), free(x), free(c), free(slopes);
}

static void test_the_bound_of_banded_strategies_holds(void **state) {
    (void)state;
    for (int i = 0; i < WORKLOADS_COUNT; i++) {
        check_bound(WORKLOADS[i], "single", 30, 5);
        check_bound(WORKLOADS[i], "cyclic:3,10", 30, 10);
        check_bound(WORKLOADS[i], "cyclic:4,9", 31, 4);
    }
}

/*
 * Weights of many orders of magnitude make the best C nearly singular: the result of a search is never below a bound,
 * not even one of another search.
 */
static void test_the_bound_holds_for_weights_of_many_orders(void **state) {
    (void)state;
    static const char *const WHO[] = {"single", "cyclic:3,6", "minsep:2,6"};
    enum { N = 18 };
    for (int i = 0; i < 12; i++) {
        double weights[N], low = 0, up = INFINITY;
        for (int t = 0; t < N; t++)
            weights[t] = t == 10 || t == 15 || t == 17 ? 6 : pow(10, -4 - 4 * (i / 3));
        for (int k = 0; k < 4; k++) {
            static const double TOLERANCES[4] = {1e-10, 1e-6, 1e-3, 0.1};
            dpmf_optimize_options options = {.bands = 4, .tolerance = TOLERANCES[k], .weights = weights};
            dpmf_workload *a = workload("momentum:0.9", N);
            dpmf_participation *p = participation(WHO[i % 3], N);
            dpmf_strategy *found = NULL;
            dpmf_optimization result = {0};
            check_ok(banded_optimize(&(const optimize_task){a, p, &options, NULL}, &found, &result));
            low = fmax(low, result.optimum_lower);
            up = fmin(up, result.optimum_upper);
            dpmf_strategy_free(found);
            dpmf_workload_free(a);
            dpmf_participation_free(p);
        }
        assert_true(low > 0 || i >= 9);      /* with weights from 6 to 1e-16 double precision leaves none */
        assert_true(low <= up * (1 + 1e-9)); /* the loss of a nearly singular C has its own rounding errors */
    }
}

/* Variable column norms help as soon as a unit takes part twice, and never hurt. */
static void test_free_column_norms_gain_as_soon_as_a_unit_returns(void **state) {
    (void)state;
    answer one = optimize("prefix", 48, 8, "single", DPMF_LOSS_RMS, NULL, 1e-6);
    answer cyclic = optimize("prefix", 48, 8, "cyclic:4,12", DPMF_LOSS_RMS, NULL, 1e-6);
    answer apart = optimize("prefix", 48, 8, "minsep:4,12", DPMF_LOSS_RMS, NULL, 1e-6);
    assert_true(cyclic.result.optimum_upper < 0.99 * sqrt(4) * one.result.optimum_lower);
    assert_true(apart.result.optimum_upper < 0.99 * sqrt(4) * one.result.optimum_lower);
    assert_true(cyclic.result.optimum_lower <= apart.result.optimum_upper); /* fewer patterns */
    dpmf_strategy_free(one.strategy);
    dpmf_strategy_free(cyclic.strategy);
    dpmf_strategy_free(apart.strategy);
}

/* ---- refusals, cancellation, memory ---- */

static dpmf_status attempt(const char *work, int64_t n, int64_t bands, const char *who) {
    dpmf_workload *a = workload(work, n);
    dpmf_participation *p = participation(who, n);
    dpmf_optimize_options options = {.bands = bands, .tolerance = 1e-6};
    const optimize_task task = {a, p, &options, NULL};
    dpmf_strategy *c = NULL;
    dpmf_optimization result = {.iterations = -7};
    dpmf_status status = banded_optimize(&task, &c, &result);
    assert_null(c);
    assert_int_equal(result.iterations, -7);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return status;
}

static void test_bands_out_of_range_and_shuffled_epochs_are_refused(void **state) {
    (void)state;
    check_fails(DPMF_ERROR_ARGUMENT, attempt("prefix", 30, 0, "single"));
    check_message("accepted 1 to 30");
    check_fails(DPMF_ERROR_ARGUMENT, attempt("prefix", 30, 31, "single"));
    check_message("bands = 31");
    check_fails(DPMF_ERROR_ARGUMENT, attempt("prefix", 30, 11, "minsep:3,10"));
    check_message("accepted 1 to 10");
    check_fails(DPMF_ERROR_ARGUMENT, attempt("prefix", 30, 2, "full"));
    check_message("accepted 1 to 1");
    check_fails(DPMF_ERROR_ARGUMENT, attempt("prefix", INT64_C(1) << 40, INT64_C(1) << 30, "single"));
    check_message("accepted up to");
    check_fails(DPMF_ERROR_UNSUPPORTED, attempt("prefix", 30, 5, "shuffled:3,10"));
    check_message("--optimize-participation");
    dpmf_workload *a = workload_of("window:3", 2049); /* held as a matrix */
    dpmf_participation *p = participation("single", 2049);
    dpmf_optimize_options options = {.bands = 1, .tolerance = 1e-6};
    dpmf_optimization result;
    const optimize_task task = {a, p, &options, NULL};
    check_fails(DPMF_ERROR_UNSUPPORTED, banded_optimize(&task, NULL, &result));
    check_message("accepted up to 2048");
    dpmf_workload_free(a);
    dpmf_participation_free(p);
}

static int stop_later(void *context, const char *what, double done) {
    int *calls = context;
    assert_non_null(what);
    (void)done;
    return ++*calls > 5;
}

static void test_the_banded_optimizer_may_be_cancelled(void **state) {
    (void)state;
    int calls = 0;
    dpmf_workload *a = workload("prefix", 100);
    dpmf_participation *p = participation("single", 100);
    dpmf_optimize_options options = {
        .bands = 10, .tolerance = 1e-6, .run = {.progress = stop_later, .context = &calls}};
    const optimize_task task = {a, p, &options, NULL};
    dpmf_strategy *c = NULL;
    dpmf_optimization result;
    const uint64_t before = dpmf_memory_in_use();
    check_fails(DPMF_ERROR_CANCELLED, banded_optimize(&task, &c, &result));
    assert_int_equal(calls, 6);
    assert_int_equal(dpmf_memory_in_use(), before);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
}

static void test_any_allocation_of_the_banded_optimizer_may_fail(void **state) {
    (void)state;
    dpmf_workload *a = workload("prefix", 256); /* started from a smaller one */
    dpmf_participation *p = participation("minsep:4,64", 256);
    dpmf_optimize_options options = {.bands = 2, .tolerance = 0.1};
    const optimize_task task = {a, p, &options, NULL};
    dpmf_strategy *c = NULL;
    dpmf_optimization result;
    FAIL_EACH(banded_optimize(&task, &c, &result));
    assert_int_equal(result.outcome, DPMF_CONVERGED);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_printed_optimum_of_three_bands_is_found),
        cmocka_unit_test(test_all_bands_give_the_optimum_of_all_mechanisms),
        cmocka_unit_test(test_banded_optima_of_prefix_sums_are_the_known_ones),
        cmocka_unit_test(test_banded_optima_of_several_participations_are_the_known_ones),
        cmocka_unit_test(test_a_weighted_banded_optimum_is_certified),
        cmocka_unit_test(test_the_bound_of_banded_strategies_holds),
        cmocka_unit_test(test_the_bound_holds_for_weights_of_many_orders),
        cmocka_unit_test(test_free_column_norms_gain_as_soon_as_a_unit_returns),
        cmocka_unit_test(test_bands_out_of_range_and_shuffled_epochs_are_refused),
        cmocka_unit_test(test_the_banded_optimizer_may_be_cancelled),
        cmocka_unit_test(test_any_allocation_of_the_banded_optimizer_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
