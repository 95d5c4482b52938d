/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dense optimum under several participations: optima against values found by varying X itself
 * (tests/python/reference_epochs.py) and against Choquette-Choo et al. 2023, Table 6; every upper bound is the loss
 * that the library's other code finds for the strategy.
 */
#include "families/families.h"
#include "optimize/optimize.h"

#include "strategy/strategy.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct wish {
    const char *text, *participation;
    int64_t n;
    dpmf_loss loss;
    dpmf_constraint constraint;
    double tolerance, value; /* expected; 0: not known */
} wish;

/* Optimizes and compares the result with the library's own evaluation. */
static void assert_optimum(const wish *w, const double *weights, double within) {
    dpmf_workload *a = workload_of(w->text, w->n);
    dpmf_participation *p = NULL;
    dpmf_strategy *c = NULL;
    dpmf_optimization r = {0};
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_evaluate_options evaluate = dpmf_evaluate_options_defaults();
    dpmf_evaluation found;
    check_ok(dpmf_participation_parse(w->participation, w->n, &p));
    o.loss = w->loss;
    o.constraint = w->constraint;
    o.tolerance = w->tolerance;
    o.weights = evaluate.weights = weights;
    evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    optimize_task task = {a, p, &o, NULL};
    check_ok(dense_optimize_epochs(&task, &c, &r));
    assert_int_equal(r.outcome, DPMF_CONVERGED);
    assert_non_null(r.scope);
    assert_true(r.optimum_lower <= r.optimum_upper && r.optimum_upper <= r.optimum_lower * (1 + w->tolerance));
    if (w->value > 0) {
        if (!(r.optimum_lower <= w->value * (1 + within) && r.optimum_upper >= w->value * (1 - within)))
            fail_msg("%s, %s: [%.10g, %.10g], wanted %.10g", w->text, w->participation, r.optimum_lower,
                     r.optimum_upper, w->value);
    }
    check_ok(dpmf_evaluate(a, p, c, &evaluate, &found, NULL));
    double loss = w->loss == DPMF_LOSS_MAX ? found.max_loss : found.rms_loss;
    /* corners bound contributions of one coordinate; the evaluation, of any number */
    if (w->constraint == DPMF_CONSTRAINT_CORNERS) loss /= found.sensitivity.value;
    check_near(loss / r.optimum_upper, 1, 1e-9);
    dpmf_strategy_free(c);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static void test_dense_optima_of_epochs_are_the_known_ones(void **unused) {
    double ramp[24];
    (void)unused;
    static const wish wishes[] = {
        {"prefix", "cyclic:3,2", 6, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-8, 2.637645183},
        {"momentum:0.95", "cyclic:3,2", 6, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-8, 6.585581688},
        {"prefix", "cyclic:3,4", 12, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-7, 2.922785677},
        {"momentum:0.9", "cyclic:3,4", 11, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-7, 8.772031001},
        {"nesterov:0.9", "cyclic:2,10", 20, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-7, 11.094013874},
        {"prefix", "cyclic:4,16", 64, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-7, 4.407853385}};
    for (int i = 0; i < 6; i++)
        assert_optimum(&wishes[i], NULL, 1e-8);
    for (int t = 0; t < 24; t++)
        ramp[t] = 1 + t / 8.0;
    wish weighted = {"prefix", "cyclic:4,6", 24, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-7, 6.413938950};
    assert_optimum(&weighted, ramp, 1e-8);
}

/* Many epochs with momentum: V is nearly singular at the optimum. */
static void test_dense_optima_near_a_singular_dual_are_certified(void **unused) {
    static const wish wishes[] = {{"momentum:0.9", "cyclic:10,3", 30, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-4, 0},
                                  {"momentum:0.9", "cyclic:8,4", 30, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-4, 0}};
    (void)unused;
    for (int i = 0; i < 2; i++)
        assert_optimum(&wishes[i], NULL, 0);
}

/* The references are losses of mechanisms here: upper bounds. */
static void test_dense_optima_of_the_max_loss_are_near_the_known_ones(void **unused) {
    (void)unused;
    static const wish wishes[] = {
        {"prefix", "cyclic:3,4", 12, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 1e-4, 3.3073859},
        {"momentum:0.9", "cyclic:3,4", 11, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 1e-4, 14.7889250},
        {"prefix", "cyclic:4,16", 64, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 1e-4, 4.8153666},
        {"nesterov:0.9", "cyclic:2,10", 20, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 1e-4, 0}};
    for (int i = 0; i < 4; i++)
        assert_optimum(&wishes[i], NULL, 1e-4);
}

/* Choquette-Choo et al. 2023, Table 6, with more digits: root of the total squared loss. */
static void test_all_three_constraints_give_the_published_table(void **unused) {
    static const double prefix = 6.460885, momentum[] = {16.131315, 16.133908, 16.114420};
    (void)unused;
    for (int i = 0; i < 3; i++) {
        wish w = {"prefix", "cyclic:3,2", 6, DPMF_LOSS_RMS, (dpmf_constraint)i, 1e-7, prefix / sqrt(6)};
        assert_optimum(&w, NULL, 1e-7);
        w.text = "momentum:0.95";
        w.value = momentum[i] / sqrt(6);
        assert_optimum(&w, NULL, 1e-7);
    }
}

/* Weaker constraints never cost. */
static void test_weaker_constraints_never_cost(void **unused) {
    double upper[3], lower[3];
    dpmf_workload *a = workload_of("momentum:0.9", 14);
    dpmf_participation *p = NULL;
    (void)unused;
    check_ok(dpmf_participation_parse("cyclic:4,4", 14, &p));
    for (int max_loss = 0; max_loss < 2; max_loss++) {
        for (int i = 0; i < 3; i++) {
            dpmf_optimize_options o = dpmf_optimize_options_defaults();
            dpmf_optimization r = {0};
            optimize_task task = {a, p, &o, NULL};
            o.loss = (dpmf_loss)max_loss;
            o.constraint = (dpmf_constraint)i;
            o.tolerance = 1e-4;
            check_ok(dense_optimize_epochs(&task, NULL, &r));
            upper[i] = r.optimum_upper;
            lower[i] = r.optimum_lower;
            assert_true(lower[i] <= upper[i]);
        }
        assert_true(lower[DPMF_CONSTRAINT_CORNERS] <= upper[DPMF_CONSTRAINT_ZERO]);
    }
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static dpmf_status run(const char *text, int64_t n, const char *participation, const dpmf_optimize_options *options,
                       dpmf_strategy **out, dpmf_optimization *r) {
    dpmf_optimize_options o = options == NULL ? dpmf_optimize_options_defaults() : *options;
    dpmf_workload *a = workload_of(text, n);
    dpmf_participation *p = NULL;
    check_ok(dpmf_participation_parse(participation, n, &p));
    optimize_task task = {a, p, &o, NULL};
    dpmf_status status = dense_optimize_epochs(&task, out, r);
    dpmf_participation_free(p);
    dpmf_workload_free(a);
    return status;
}

/* Diagonal C: closed forms for prefix sums, and a workload where two rows share the largest error. */
static void test_full_participation_has_closed_forms(void **unused) {
    dpmf_optimization r = {0};
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    double sum = 0;
    (void)unused;
    for (int t = 1; t <= 10; t++)
        sum += sqrt(t);
    wish w = {"prefix", "full", 10, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-9, sum / sqrt(10)};
    assert_optimum(&w, NULL, 1e-13);
    w.participation = "cyclic:10,1";
    assert_optimum(&w, NULL, 1e-13);
    w.loss = DPMF_LOSS_MAX;
    w.value = 10; /* Pillutla et al. 2025, Proposition 3.11 */
    assert_optimum(&w, NULL, 1e-13);
    wish decay = {"decay:0.5", "full", 10, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 1e-5, sqrt(13)};
    assert_optimum(&decay, NULL, 1e-5);
    wish weighted = {"prefix", "full", 2, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 1e-9, (2 + sqrt(3)) / sqrt(2)};
    static const double weights[] = {1, 3}; /* columns (1, sqrt 3) and (0, sqrt 3) */
    assert_optimum(&weighted, weights, 1e-13);
    o.loss = DPMF_LOSS_MAX;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 8193, "full", &o, NULL, &r));
}

static int cancel_at(void *context, const char *what, double done) {
    int *left = context;
    (void)what, (void)done;
    return (*left)-- <= 0;
}

static void test_the_optimizer_of_epochs_refuses_sizes_and_constraints(void **unused) {
    dpmf_strategy *c = NULL;
    dpmf_optimization r = {.iterations = 77};
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    double weights[6] = {1, 1, 1, 1, 1, 0};
    int left = 5;
    (void)unused;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 501, "shuffled:3,167", &o, &c, &r));
    check_message("--optimize-participation");
    check_fails(DPMF_ERROR_ARGUMENT, run("prefix", 6, "single", &o, &c, &r));
    check_fails(DPMF_ERROR_UNSUPPORTED, run("nesterov:0.9", 1025, "cyclic:5,205", &o, &c, &r));
    check_message("1024");
    check_fails(DPMF_ERROR_UNSUPPORTED, run("momentum:0.9", 1026, "cyclic:513,2", &o, &c, &r));
    o.constraint = (dpmf_constraint)3;
    check_fails(DPMF_ERROR_ARGUMENT, run("prefix", 6, "cyclic:3,2", &o, &c, &r));
    o.constraint = DPMF_CONSTRAINT_NON_NEGATIVE;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 2049, "cyclic:2,1025", &o, &c, &r));
    check_message("2048");
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 6, "minsep:3,2", &o, &c, &r));
    o.constraint = DPMF_CONSTRAINT_CORNERS;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 65, "cyclic:5,13", &o, &c, &r));
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 27, "cyclic:9,3", &o, &c, &r));
    check_message("8");
    o = dpmf_optimize_options_defaults();
    o.tolerance = 0;
    check_fails(DPMF_ERROR_ARGUMENT, run("prefix", 6, "cyclic:3,2", &o, &c, &r));
    o.tolerance = 1e-4;
    o.weights = weights;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 6, "cyclic:3,2", &o, &c, &r));
    weights[5] = 1;
    o.loss = DPMF_LOSS_MAX;
    check_fails(DPMF_ERROR_UNSUPPORTED, run("prefix", 6, "cyclic:3,2", &o, &c, &r));
    o = dpmf_optimize_options_defaults();
    o.run.progress = cancel_at;
    o.run.context = &left;
    check_fails(DPMF_ERROR_CANCELLED, run("prefix", 64, "cyclic:4,16", &o, &c, &r));
    assert_null(c);
    assert_int_equal(r.iterations, 77);
}

static void test_the_optimum_of_epochs_has_the_same_bits_for_any_threads(void **unused) {
    dpmf_strategy *c[2] = {NULL, NULL};
    dpmf_optimization r[2] = {0};
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    (void)unused;
    for (int i = 0; i < 2; i++) { /* with a coarse start and a shortened last epoch */
        o.run.threads = 1 + 2 * i;
        check_ok(run("momentum:0.9", 190, "cyclic:3,64", &o, &c[i], &r[i]));
    }
    assert_memory_equal(&r[0].optimum_lower, &r[1].optimum_lower, sizeof(double));
    assert_memory_equal(strategy_matrix(c[0]), strategy_matrix(c[1]), 190 * 190 * sizeof(double));
    dpmf_strategy_free(c[0]);
    dpmf_strategy_free(c[1]);
}

static void test_any_allocation_of_the_optimizer_of_epochs_may_fail(void **unused) {
    static const wish few[] = {{"prefix", "cyclic:3,2", 6, DPMF_LOSS_RMS, DPMF_CONSTRAINT_ZERO, 0.1, 0},
                               {"prefix", "cyclic:3,2", 5, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 0.1, 0},
                               {"momentum:0.5", "cyclic:3,2", 6, DPMF_LOSS_RMS, DPMF_CONSTRAINT_NON_NEGATIVE, 0.1, 0},
                               {"decay:0.5", "full", 4, DPMF_LOSS_MAX, DPMF_CONSTRAINT_ZERO, 0.1, 0}};
    (void)unused;
    for (int i = 0; i < 4; i++) {
        dpmf_workload *a = workload_of(few[i].text, few[i].n);
        dpmf_participation *p = NULL;
        dpmf_strategy *c = NULL;
        dpmf_optimization r = {0};
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        check_ok(dpmf_participation_parse(few[i].participation, few[i].n, &p));
        o.loss = few[i].loss;
        o.constraint = few[i].constraint;
        o.tolerance = few[i].tolerance;
        o.run.threads = 1;
        optimize_task task = {a, p, &o, NULL};
        FAIL_EACH(dense_optimize_epochs(&task, &c, &r));
        dpmf_strategy_free(c);
        dpmf_participation_free(p);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_optima_of_epochs_are_the_known_ones),
        cmocka_unit_test(test_dense_optima_near_a_singular_dual_are_certified),
        cmocka_unit_test(test_dense_optima_of_the_max_loss_are_near_the_known_ones),
        cmocka_unit_test(test_all_three_constraints_give_the_published_table),
        cmocka_unit_test(test_weaker_constraints_never_cost),
        cmocka_unit_test(test_full_participation_has_closed_forms),
        cmocka_unit_test(test_the_optimizer_of_epochs_refuses_sizes_and_constraints),
        cmocka_unit_test(test_the_optimum_of_epochs_has_the_same_bits_for_any_threads),
        cmocka_unit_test(test_any_allocation_of_the_optimizer_of_epochs_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
