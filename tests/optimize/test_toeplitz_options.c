/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Toeplitz optimizers: weights, normalization, dense workloads, refusals, failing allocations; the sweep and the
 * taper.
 */
#include "families/toeplitz/toeplitz.h"
#include "oracle/oracle.h"
#include "support/failing_allocator.h"
#include "support/optimize_toeplitz_wish.h"

#include <math.h>

static void test_toeplitz_families_take_weights(void **unused) {
    double ones[100], last[100];
    (void)unused;
    for (int t = 0; t < 100; t++) {
        ones[t] = 1;
        last[t] = t == 99 ? 100 : 1e-9;
    }
    for (int f = 0; f < 3; f++) {
        optimize_call family = f == 0   ? toeplitz_optimize
                               : f == 1 ? toeplitz_optimize_banded
                                        : toeplitz_optimize_inverse;
        wish w = {family, "momentum:0.5", "single", 100, {.bands = 9}};
        double plain = loss_of(&w);
        w.options.weights = ones;
        check_near(loss_of(&w) / plain, 1, 1e-9);
        w.options.weights = last; /* only the last step counts: the max loss */
        double weighted = loss_of(&w);
        w.options.weights = NULL;
        w.options.loss = DPMF_LOSS_MAX;
        check_near(weighted / loss_of(&w), 1, 1e-6);
    }
}

static void test_toeplitz_families_give_the_strategy_they_name(void **unused) {
    wish w = {toeplitz_optimize, "prefix", "single", 40, {.bands = 5}};
    (void)unused;
    made m = make(&w);
    assert_string_equal(dpmf_strategy_get(m.strategy).family, "toeplitz");
    check_factorization(m.workload, m.strategy, 1e-11);
    undo(&m);
    w.family = toeplitz_optimize_banded;
    m = make(&w);
    assert_string_equal(dpmf_strategy_get(m.strategy).family, "banded-toeplitz");
    assert_int_equal(dpmf_strategy_get(m.strategy).bands, 5);
    check_near(m.figures.sensitivity.value, 1, 1e-12);
    assert_true(m.result.stationarity < 1e-6 && m.result.iterations > 0);
    undo(&m);
    w.options.normalize = DPMF_NORMALIZE_AFTER;
    m = make(&w);
    assert_true(dpmf_strategy_get(m.strategy).is_normalized);
    undo(&m);
}

/* A Toeplitz matrix is optimized like the workload that it is. */
static void test_a_toeplitz_matrix_is_optimized_like_its_workload(void **unused) {
    double matrix[20 * 20] = {0};
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimization result;
    dpmf_evaluation figures;
    const dpmf_optimize_options o = {.bands = 6};
    (void)unused;
    for (int t = 0; t < 20; t++)
        for (int u = 0; u <= t; u++)
            matrix[t * 20 + u] = 1;
    check_ok(dpmf_workload_create_dense(20, matrix, &a));
    check_ok(dpmf_participation_parse("single", 20, &p));
    check_ok(toeplitz_optimize_banded(&(optimize_task){a, p, &o, NULL}, &s, &result));
    check_ok(dpmf_evaluate(a, p, s, NULL, &figures, NULL));
    const wish named = {toeplitz_optimize_banded, "prefix", "single", 20, o};
    check_near(figures.rms_loss, loss_of(&named), 1e-9);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
    s = NULL;
    matrix[10 * 20 + 3] = 2; /* not Toeplitz */
    check_ok(dpmf_workload_create_dense(20, matrix, &a));
    const dpmf_optimize_options max_loss = {.bands = 6, .loss = DPMF_LOSS_MAX};
    check_fails(DPMF_ERROR_UNSUPPORTED, toeplitz_optimize_banded(&(optimize_task){a, p, &max_loss, NULL}, &s, &result));
    check_message("--optimize-workload");
    check_ok(toeplitz_optimize_banded(&(optimize_task){a, p, &o, NULL}, &s, &result));
    check_ok(dpmf_evaluate(a, p, s, NULL, &figures, NULL));
    assert_true(result.stationarity < 1e-6 && figures.rms_loss > loss_of(&named)); /* one entry is larger */
    dpmf_strategy_free(s);
    s = NULL;
    check_fails(DPMF_ERROR_UNSUPPORTED, toeplitz_optimize_inverse(&(optimize_task){a, p, &o, NULL}, &s, &result));
    assert_null(s);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
}

static void test_toeplitz_families_refuse_what_has_no_theorem(void **unused) {
    const optimize_call banded = toeplitz_optimize_banded;
    const struct {
        wish wish;
        const char *message;
    } cases[] = {
        {{banded, "prefix", "shuffled:4,16", 64, {.bands = 4}}, "--optimize-participation"},
        {{banded, "cooldown:0.2:0.1", "single", 10000, {.bands = 4}}, "--optimize-workload"},
        {{banded, "prefix", "single", 1 << 20, {.bands = 1024, .normalize = DPMF_NORMALIZE_WITHIN}}, "536870912"},
        {{banded, "prefix", "minsep:4,16", 64, {.bands = 17, .normalize = DPMF_NORMALIZE_WITHIN}}, "up to 16"},
        {{toeplitz_optimize_inverse, "cooldown:0.2:0.1", "single", 64, {.bands = 4}}, "bisr"},
        {{toeplitz_optimize_inverse, "prefix", "single", 64, {.bands = 4, .normalize = DPMF_NORMALIZE_WITHIN}}, "bisr"},
        {{toeplitz_optimize_inverse, "prefix", "shuffled:4,16", 64, {.bands = 4}}, "shuffled:4,16"}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        made m = {0};
        check_fails(DPMF_ERROR_UNSUPPORTED, try_wish(&cases[i].wish, &m));
        check_message(cases[i].message);
    }
}

static int stop_at_once(void *context, const char *what, double done) {
    (void)context, (void)what, (void)done;
    return 1;
}

static void test_toeplitz_optimizers_may_be_cancelled(void **unused) {
    const optimize_call families[] = {toeplitz_optimize, toeplitz_optimize_banded, toeplitz_optimize_inverse};
    (void)unused;
    for (int f = 0; f < 3; f++) {
        made m = {0};
        const wish w = {families[f], "prefix", "single", 64, {.bands = 4, .run = {.progress = stop_at_once}}};
        check_fails(DPMF_ERROR_CANCELLED, try_wish(&w, &m));
    }
}

static dpmf_status run_task(optimize_call family, const optimize_task *task) {
    dpmf_strategy *s = NULL;
    dpmf_optimization result;
    dpmf_status status = family(task, &s, &result);
    dpmf_strategy_free(s);
    return status;
}

static void test_any_allocation_of_a_toeplitz_optimizer_may_fail(void **unused) {
    dpmf_workload *a = NULL, *scheduled = NULL;
    dpmf_participation *p = NULL;
    (void)unused;
    check_ok(dpmf_workload_parse("momentum:0.9", 24, &a));
    check_ok(dpmf_workload_parse("cooldown:0.5:0.1", 24, &scheduled));
    check_ok(dpmf_participation_parse("minsep:3,8", 24, &p));
    const dpmf_optimize_options o = {.bands = 10}, max = {.bands = 4, .loss = DPMF_LOSS_MAX, .normalize = 2};
    const optimize_task task = {a, p, &o, NULL}, columns = {scheduled, p, &max, NULL};
    FAIL_EACH(run_task(toeplitz_optimize, &task));
    FAIL_EACH(run_task(toeplitz_optimize_banded, &columns));
    FAIL_EACH(run_task(toeplitz_optimize_inverse, &task));
    dpmf_workload_free(a);
    dpmf_workload_free(scheduled);
    dpmf_participation_free(p);
}

/* ---- without gradients ---- */

/* Close to the optimum for n much larger than the bands (McKenna 2024, Figure 11), never below it. */
static void test_the_sweep_is_close_to_the_optimum_and_never_below(void **unused) {
    dpmf_workload *a = NULL;
    toeplitz_sweep_result r = {0};
    double c[64], loss = 0;
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 65536, &a));
    check_ok(toeplitz_sweep(a, 64, DPMF_LOSS_MAX, c, &r));
    assert_true(r.loss >= 32.75872 && r.loss <= 32.75872 * 1.003);
    check_near(c[0], 1 + r.shift, 1e-15);
    check_near(c[63], 1.0 / 64 + r.shift, 1e-15);
    double norm = 0;
    for (int i = 0; i < 64; i++)
        norm += c[i] * c[i];
    check_ok(oracle_toeplitz_error(a, 64, c, DPMF_LOSS_MAX, &loss));
    check_near(sqrt(norm * loss) / r.loss, 1, 1e-12);
    for (int k = -1; k <= 1; k += 2) { /* no better shift nearby */
        double other = r.shift * (1 + 0.01 * k), square = 0;
        for (int i = 0; i < 64; i++)
            c[i] = 1.0 / (i + 1) + other, square += c[i] * c[i];
        check_ok(oracle_toeplitz_error(a, 64, c, DPMF_LOSS_MAX, &loss));
        assert_true(sqrt(square * loss) > r.loss);
    }
    check_fails(DPMF_ERROR_ARGUMENT, toeplitz_sweep(a, 0, DPMF_LOSS_MAX, c, &r));
    FAIL_EACH(toeplitz_sweep(a, 8, DPMF_LOSS_RMS, NULL, &r));
    dpmf_workload_free(a);
}

static void test_a_taper_fades_the_bands_out(void **unused) {
    double c[6] = {1, 1, 1, 1, 1, 1};
    const double want[6] = {1, 1, 0.75, 0.5, 0.25, 0}; /* from the second on: (6-i)/4 */
    (void)unused;
    check_ok(toeplitz_taper(6, 2, c));
    for (int i = 0; i < 6; i++)
        check_near(c[i], want[i], 1e-15);
    check_fails(DPMF_ERROR_ARGUMENT, toeplitz_taper(6, 6, c));
    check_fails(DPMF_ERROR_ARGUMENT, toeplitz_taper(6, 0, c));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_toeplitz_families_take_weights),
                                       cmocka_unit_test(test_toeplitz_families_give_the_strategy_they_name),
                                       cmocka_unit_test(test_a_toeplitz_matrix_is_optimized_like_its_workload),
                                       cmocka_unit_test(test_toeplitz_families_refuse_what_has_no_theorem),
                                       cmocka_unit_test(test_toeplitz_optimizers_may_be_cancelled),
                                       cmocka_unit_test(test_any_allocation_of_a_toeplitz_optimizer_may_fail),
                                       cmocka_unit_test(test_the_sweep_is_close_to_the_optimum_and_never_below),
                                       cmocka_unit_test(test_a_taper_fades_the_bands_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
