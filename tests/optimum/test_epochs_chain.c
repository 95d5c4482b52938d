/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prefix sums over long epochs: the traces of a chain of runs compared with those of single positions, and the bound
 * from a V that shorter epochs predict with the maximum of the dual.
 */
#include "optimum/epochs/epochs.h"
#include "optimum/optimum.h"

#include "base/threads.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>

/* ---- traces ---- */

/* One random factor of V for each run; padding past the last step. */
typedef struct chain {
    int64_t n, k, b, count;
    epochs_run *runs;
    double *lower, *v; /* for each position */
} chain;

static void fill_position(chain *c, int64_t i, const double *factor) {
    const int64_t k = c->k;
    for (int64_t e = 0; e < k; e++)
        for (int64_t f = 0; f < k; f++) {
            const int past = i + e * c->b >= c->n;
            c->lower[(i * k + e) * k + f] = past ? e == f : f <= e ? factor[e * k + f] : 0;
        }
    for (int64_t e = 0; e < k; e++)
        for (int64_t f = 0; f < k; f++)
            for (int64_t j = 0; j < k; j++)
                c->v[(i * k + e) * k + f] += c->lower[(i * k + e) * k + j] * c->lower[(i * k + f) * k + j];
}

static chain make_chain(int64_t n, int64_t k, int64_t b, uint64_t *seed) {
    const int64_t last = n - (k - 1) * b;
    chain c = {.n = n, .k = k, .b = b};
    double factor[20 * 20];
    c.runs = calloc((size_t)b, sizeof *c.runs);
    c.lower = calloc((size_t)(b * k * k), sizeof *c.lower);
    c.v = calloc((size_t)(b * k * k), sizeof *c.v);
    for (int64_t i = 0; i < b;) {
        int64_t length = 1 + (int64_t)(6 * (1 + check_random(seed)));
        if (i == 0 || i == b - 1 || i == last - 1) length = 1;
        if (i < b - 1 && i + length > b - 1) length = b - 1 - i;
        if (i < last - 1 && i + length > last - 1) length = last - 1 - i;
        for (int64_t j = 0; j < k * k; j++)
            factor[j] = j % (k + 1) == 0 ? 1.5 + check_random(seed) : 0.5 * check_random(seed);
        for (int64_t j = i; j < i + length; j++)
            fill_position(&c, j, factor);
        c.runs[c.count++] = (epochs_run){length, i < last ? k : k - 1, i == last - 1, c.v + i * k * k};
        i += length;
    }
    return c;
}

static void free_chain(chain *c) {
    free(c->runs);
    free(c->lower);
    free(c->v);
}

/* tr V (K + sV)^-1 by orthogonal transformations, position by position. */
static double trace_of_positions(const chain *c, const dpmf_workload *a, double shift) {
    epochs_shape shape = {0};
    epochs_node node = {0};
    const int64_t k = c->k;
    const double others[EPOCHS_SIDE] = {3 * shift, 1e-3 * shift, shift, 0.7 * shift}; /* run beside it */
    double sum = 0;
    check_ok(epochs_shape_create(a, k, c->b, 0, &shape));
    check_ok(epochs_node_create(&shape, &node));
    epochs_node_run(&shape, c->lower, others, &node);
    for (int64_t i = 0; i < c->b; i++) {
        int64_t stride = 0;
        const kernels_block_side *block = epochs_node_block(&shape, &node, i, &stride);
        for (int64_t e = 0; e < k && i + e * c->b < c->n; e++)
            for (int64_t f = 0; f < k && i + f * c->b < c->n; f++)
                sum += c->v[(i * k + e) * k + f] * block[e * stride + f][2];
    }
    epochs_node_free(&node);
    epochs_shape_free(&shape);
    return sum;
}

static void test_a_chain_of_runs_has_the_trace_of_its_positions(void **unused) {
    static const struct {
        int64_t n, k, b;
    } table[] = {{6, 2, 3},   {10, 2, 5},   {90, 3, 30},  {75, 3, 30},
                 {61, 3, 30}, {400, 8, 50}, {383, 8, 50}, {1000, 20, 50}};
    uint64_t seed = 4;
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        dpmf_workload *a = workload_of("prefix", table[i].n);
        chain c = make_chain(table[i].n, table[i].k, table[i].b, &seed);
        for (double shift = 1e-7; shift < 1e3; shift *= 30) {
            double found = 0;
            check_ok(epochs_chain_trace(c.k, c.count, c.runs, shift, &found));
            check_near(found, trace_of_positions(&c, a, shift), 1e-11);
        }
        free_chain(&c);
        dpmf_workload_free(a);
    }
}

/* ---- bounds ---- */

static double foretold(int64_t n, int64_t k, int64_t b) {
    dpmf_workload *a = workload_of("prefix", n);
    base_pool *pool = NULL;
    double lower = 0;
    check_ok(base_pool_create(1, &pool));
    check_ok(epochs_long(a, k, b, pool, NULL, &lower));
    base_pool_free(pool);
    dpmf_workload_free(a);
    return sqrt(lower / (double)n);
}

/* Both bounds of the dual at its maximum. */
static void climb(int64_t n, int64_t k, int64_t b, double *lower, double *upper) {
    dpmf_workload *a = workload_of("prefix", n);
    base_pool *pool = NULL;
    optimum_epochs epochs = {0};
    epochs_climb c = {0};
    check_ok(base_pool_create(1, &pool));
    check_ok(epochs_create(a, k, b, 0, NULL, pool, &epochs));
    check_ok(epochs_climb_create(&epochs, 1e-9, NULL, &c));
    c.barrier = 1e-7 / (double)n;
    c.enough = 1 + 2e-5;
    check_ok(epochs_climb_start(&c));
    check_ok(epochs_climb_run(&c, 1e-10, 300));
    *lower = sqrt(c.lower / (double)n);
    *upper = sqrt(c.upper / (double)n);
    epochs_climb_free(&c);
    epochs_free(&epochs);
    base_pool_free(pool);
    dpmf_workload_free(a);
}

/* gap: the relative distance of the bound from the maximum. */
static void test_what_is_foretold_is_a_bound_and_near_the_top(void **unused) {
    static const struct {
        int64_t n, k, b;
        double gap;
    } table[] = {{400, 2, 200, 1e-4},  {2000, 2, 1000, 1e-4}, {300, 3, 100, 1e-4}, {270, 3, 100, 5e-4},
                 {1000, 4, 250, 1e-4}, {810, 4, 250, 2e-3},   {512, 8, 64, 1e-4}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double lower = 0, upper = 0, found = foretold(table[i].n, table[i].k, table[i].b);
        climb(table[i].n, table[i].k, table[i].b, &lower, &upper);
        assert_true(upper / lower < 1 + 2e-4);
        if (!(found <= upper && found >= lower * (1 - table[i].gap)))
            fail_msg("%lld steps, %lld epochs: %.9g, the optimum is between %.9g and %.9g", (long long)table[i].n,
                     (long long)table[i].k, found, lower, upper);
    }
}

/* The optimum rises with the length of the run, and by no more than a logarithm does. */
static void test_bounds_of_very_long_runs_go_on_rising(void **unused) {
    double before = foretold(4000, 4, 1000);
    (void)unused;
    for (int64_t b = 10000; b <= 1000000; b *= 10) {
        const double now = foretold(4 * b, 4, b);
        assert_true(now > before + 0.5 && now < before + 2);
        before = now;
    }
}

static void test_any_allocation_of_a_long_bound_may_fail(void **unused) {
    dpmf_workload *a = workload_of("prefix", 500);
    base_pool *pool = NULL;
    double lower = 0;
    (void)unused;
    check_ok(base_pool_create(1, &pool));
    FAIL_EACH(epochs_long(a, 2, 250, pool, NULL, &lower));
    base_pool_free(pool);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_chain_of_runs_has_the_trace_of_its_positions),
        cmocka_unit_test(test_what_is_foretold_is_a_bound_and_near_the_top),
        cmocka_unit_test(test_bounds_of_very_long_runs_go_on_rising),
        cmocka_unit_test(test_any_allocation_of_a_long_bound_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
