/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for TV-BLT with replayed seeds: its distance to the certified bound for all mechanisms, its result
 * compared with dense matrices, the number of buffers for a wanted ratio, threads, refusals.
 */
#include "families/families.h"
#include "families/replay/replay.h"
#include "support/check.h"

#include "optimize/optimize.h"
#include "support/failing_allocator.h"
#include "support/replay_cases.h"

#include <math.h>
#include <stdio.h>

/* The certified lower bound of the dense optimum. */
static double bound(const dpmf_workload *a, int64_t b, int max_loss) {
    char text[64];
    const int64_t n = dpmf_workload_get(a).steps;
    dpmf_participation *p = NULL;
    dpmf_optimization found = {0};
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    o.loss = max_loss ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
    o.tolerance = max_loss ? 1e-4 : 1e-5;
    snprintf(text, sizeof text, "cyclic:%lld,%lld", (long long)((n + b - 1) / b), (long long)b);
    check_ok(dpmf_participation_parse(text, n, &p));
    optimize_task task = {a, p, &o, NULL};
    check_ok(dense_optimize_epochs(&task, NULL, &found));
    dpmf_participation_free(p);
    return found.optimum_lower;
}

typedef struct wish {
    const char *workload;
    int64_t n, b;
    int buffers, max_loss;
    double ratio; /* to the bound, at most */
    double lower; /* the bound, where finding it would take long: dpmf optimize --family dense; 0: found here */
} wish;

static void check_wish(const wish *w) {
    dpmf_workload *a = workload_of(w->workload, w->n);
    replay_result found = {0};
    const replay_options o = {.buffers = w->buffers, .max_loss = w->max_loss};
    const double lower = w->lower > 0 ? w->lower : bound(a, w->b, w->max_loss);
    check_ok(replay_search(a, w->b, &o, &found));
    if (!(found.loss <= w->ratio * lower && found.loss >= lower * (1 - 1e-9)))
        fail_msg("%s, n = %lld, b = %lld, %d buffers: loss %.10g, bound %.10g, ratio %.7f, wanted %g", w->workload,
                 (long long)w->n, (long long)w->b, w->buffers, found.loss, lower, found.loss / lower, w->ratio);
    replay_result_free(&found);
    dpmf_workload_free(a);
}

static void test_the_search_comes_near_the_bound(void **unused) {
    static const wish WISHES[] = {{"prefix", 256, 32, 3, 0, 1.0005, 0},
                                  {"prefix", 256, 32, 4, 0, 1.0003, 0},
                                  {"prefix", 240, 80, 4, 0, 1.0003, 0},
                                  {"prefix", 240, 32, 4, 0, 1.0006, 0},
                                  {"prefix", 250, 32, 4, 0, 1.0006, 0},
                                  {"prefix", 256, 32, 4, 1, 1.003, 9.13016765},
                                  {"momentum:0.9", 256, 32, 4, 0, 1.004, 57.591071},
                                  {"nesterov:0.9", 128, 32, 4, 0, 1.01, 0},
                                  {"decay:0.05", 128, 32, 4, 0, 1.002, 0},
                                  {"cooldown:0.5:0.1", 128, 32, 4, 0, 1.004, 0},
                                  {"prefix", 64, 2, 2, 0, 1.001, 22.3438793},
                                  {"prefix", 40, 40, 4, 0, 1.002, 0}};
    (void)unused;
    for (size_t i = 0; i < sizeof WISHES / sizeof *WISHES; i++)
        check_wish(WISHES + i);
}

/* The result, as a mechanism, has the claimed figures. */
static void test_found_is_dense(void **unused) {
    static const char *const WORKLOADS[] = {"prefix", "momentum:0.9", "nesterov:0.8", "decay:0.02", "cooldown:0.3:0.2"};
    (void)unused;
    for (int i = 0; i < 20; i++) {
        const int64_t b = 4 + 3 * (i % 7), n = b * (2 + i % 4) - i % 3;
        dpmf_workload *a = workload_of(WORKLOADS[i % 5], n);
        replay_result found = {0};
        const replay_options o = {.buffers = 1 + i % 4, .max_loss = i % 6 == 5, .iterations = 60};
        replay c = {0};
        check_ok(replay_search(a, b, &o, &found));
        check_ok(replay_create(&found.shape, found.parameters, NULL, &c));
        check_dense(&c, WORKLOADS[i % 5]);
        double *squares = doubles(n), sum = 0, largest = 0;
        check_ok(replay_errors(a, &c, NULL, squares));
        for (int64_t t = 0; t < n; t++) {
            sum += squares[t] / (double)n;
            largest = fmax(largest, squares[t]);
        }
        check_near(found.loss / sqrt(o.max_loss ? largest : sum), 1, 1e-12);
        free(squares);
        replay_free(&c);
        replay_result_free(&found);
        dpmf_workload_free(a);
    }
}

static void test_the_fewest_buffers_are_found(void **unused) {
    dpmf_workload *a = workload_of("prefix", 96);
    replay_result found = {0};
    replay_options o = {.wanted_ratio = 1.002, .lower = bound(a, 24, 0)};
    (void)unused;
    check_ok(replay_search(a, 24, &o, &found));
    assert_true(found.loss <= 1.002 * o.lower);
    assert_in_range(found.shape.buffers, 2, 4);
    replay_result_free(&found);
    o.wanted_ratio = 1;
    check_fails(DPMF_ERROR_ARGUMENT, replay_search(a, 24, &o, &found));
    o = (replay_options){.buffers = 13};
    check_fails(DPMF_ERROR_ARGUMENT, replay_search(a, 24, &o, &found));
    dpmf_workload_free(a);
}

static void test_threads_do_not_change_the_search(void **unused) {
    dpmf_workload *a = workload_of("momentum:0.5", 1500);
    replay_result one = {0}, two = {0};
    replay_options o = {.buffers = 3, .iterations = 5};
    (void)unused;
    check_ok(replay_search(a, 500, &o, &one));
    check_ok(base_pool_create(3, &o.pool));
    check_ok(replay_search(a, 500, &o, &two));
    assert_memory_equal(one.parameters, two.parameters, (size_t)replay_count(&one.shape) * sizeof *one.parameters);
    base_pool_free(o.pool);
    replay_result_free(&one);
    replay_result_free(&two);
    dpmf_workload_free(a);
}

/* --tolerance: from the bound, and no further than that takes; with shared seeds too. */
static void test_the_search_ends_where_the_tolerance_is_met(void **unused) {
    dpmf_workload *a = workload_of("prefix", 256);
    dpmf_participation *p = NULL;
    (void)unused;
    check_ok(dpmf_participation_parse("cyclic:8,32", 256, &p));
    for (int seeds = 0; seeds <= 2; seeds += 2) {
        dpmf_optimize_options o = dpmf_optimize_options_defaults();
        dpmf_optimization whole, early;
        dpmf_strategy *s = NULL;
        o.buffers = 4;
        o.shared_seeds = seeds;
        check_ok(dpmf_optimize("tvblt", a, p, &o, &s, &whole));
        dpmf_strategy_free(s);
        o.tolerance = 0.05;
        check_ok(dpmf_optimize("tvblt", a, p, &o, &s, &early));
        dpmf_strategy_free(s);
        assert_true(early.optimum_upper <= 1.05 * early.optimum_lower && early.optimum_upper > whole.optimum_upper);
        assert_true(2 * early.iterations < whole.iterations);
        assert_true(early.optimum_lower == whole.optimum_lower);
    }
    dpmf_participation_free(p);
    dpmf_workload_free(a);
}

static void test_any_allocation_of_the_search_may_fail(void **unused) {
    dpmf_workload *a = workload_of("prefix", 12);
    replay_result found = {0};
    replay_options o = {.buffers = 1, .iterations = 1};
    replay c = {0};
    (void)unused;
    FAIL_EACH(replay_search(a, 6, &o, &found));
    FAIL_EACH(replay_create(&found.shape, found.parameters, NULL, &c));
    replay_free(&c);
    replay_result_free(&found);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_search_comes_near_the_bound),
                                       cmocka_unit_test(test_found_is_dense),
                                       cmocka_unit_test(test_the_fewest_buffers_are_found),
                                       cmocka_unit_test(test_threads_do_not_change_the_search),
                                       cmocka_unit_test(test_the_search_ends_where_the_tolerance_is_met),
                                       cmocka_unit_test(test_any_allocation_of_the_search_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
