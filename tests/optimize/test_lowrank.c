/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-rank decoders: the strategy against plain dense arithmetic and through the file; the optimizer against the
 * published losses; refusals, failing allocations, cancelling.
 */
#include "support/check.h"

#include "families/lowrank/lowrank.h"
#include "optimize/optimize.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 40, RANK_MOST = 5 };

typedef struct parts {
    double rows[STEPS_MAX * STEPS_MAX], left[STEPS_MAX * RANK_MOST], right[STEPS_MAX * RANK_MOST];
} parts;

static void random_parts(int64_t n, int64_t bands, int64_t rank, uint64_t seed, parts *p) {
    for (int64_t t = 0; t < n; t++) {
        for (int64_t j = 0; j < bands; j++)
            p->rows[t * bands + j] = j > t ? 0 : j == 0 ? 1.5 + check_random(&seed) / 2 : check_random(&seed) / 4;
        for (int64_t k = 0; k < rank; k++) {
            p->left[t * rank + k] = check_random(&seed) / 4;
            p->right[t * rank + k] = check_random(&seed) / 4;
        }
    }
}

static dpmf_strategy *random_strategy(int64_t n, int64_t bands, int64_t rank, uint64_t seed) {
    parts p;
    dpmf_strategy *s = NULL;
    random_parts(n, bands, rank, seed, &p);
    check_ok(dpmf_strategy_create_lowrank(n, bands, rank, p.rows, p.left, p.right, &s));
    return s;
}

/* W is the given matrix entry by entry, and everything else follows from it. */
static void test_a_low_rank_strategy_is_its_band_plus_its_rank(void **unused) {
    static const int sizes[][3] = {{1, 1, 1}, {2, 1, 1}, {2, 2, 1}, {9, 1, 2}, {23, 3, 2}, {40, 6, 5}, {12, 12, 3}};
    (void)unused;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t n = sizes[i][0], bands = sizes[i][1], rank = sizes[i][2];
        parts p;
        random_parts(n, bands, rank, i + 1, &p);
        dpmf_strategy *s = random_strategy(n, bands, rank, i + 1);
        double *w = check_strategy_inverse(s);
        for (int64_t t = 0; t < n; t++)
            for (int64_t u = 0; u < n; u++) {
                double want = u > t || t - u >= bands ? 0 : p.rows[t * bands + t - u];
                for (int64_t k = 0; t - u >= bands && k < rank; k++)
                    want += p.left[t * rank + k] * p.right[u * rank + k];
                check_near(w[t * n + u], want, 1e-14);
            }
        free(w);
        assert_string_equal(dpmf_strategy_get(s).family, "lowrank");
        assert_int_equal(dpmf_strategy_get(s).buffers, bands - 1 + rank);
        check_strategy(s, 1e-10);
        dpmf_workload *a = NULL;
        check_ok(dpmf_workload_parse("momentum:0.5", n, &a));
        check_factorization(a, s, 1e-10);
        dpmf_workload_free(a);
        dpmf_strategy_free(s);
    }
}

/* Through a mechanism file: the same noise and the same figures. */
static void test_a_low_rank_strategy_comes_back_from_its_bytes(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = random_strategy(30, 4, 3, 5);
    dpmf_mechanism *made = NULL, *read = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    double x[30] = {0}, y[30], z[30];
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", 30, &a));
    check_ok(dpmf_mechanism_create(a, NULL, s, NULL, &made));
    check_ok(dpmf_mechanism_encode(made, &bytes, &size));
    check_ok(dpmf_mechanism_decode(bytes, size, &read));
    assert_string_equal(dpmf_strategy_get(dpmf_mechanism_get(read).strategy).family, "lowrank");
    assert_string_equal(dpmf_mechanism_get(read).digest, dpmf_mechanism_get(made).digest);
    assert_true(dpmf_mechanism_get(read).evaluation.rms_loss == dpmf_mechanism_get(made).evaluation.rms_loss);
    x[0] = 1;
    x[7] = -2;
    check_ok(dpmf_strategy_solve(s, x, y));
    check_ok(dpmf_strategy_solve(dpmf_mechanism_get(read).strategy, x, z));
    assert_memory_equal(y, z, sizeof y);
    dpmf_bytes_free(bytes);
    dpmf_mechanism_free(read);
    dpmf_mechanism_free(made);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
}

static void test_a_low_rank_strategy_out_of_range_is_refused(void **unused) {
    parts p;
    dpmf_strategy *s = NULL;
    (void)unused;
    random_parts(6, 3, 2, 1, &p);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 0, 2, p.rows, p.left, p.right, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 7, 2, p.rows, p.left, p.right, &s));
    check_message("accepted 1 to 6");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 0, p.rows, p.left, p.right, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 65, p.rows, p.left, p.right, &s));
    check_message("accepted 1 to 64");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(0, 1, 1, p.rows, p.left, p.right, &s));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 2, p.rows, NULL, p.right, &s));
    p.rows[1] = 1; /* left of column 0 */
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 2, p.rows, p.left, p.right, &s));
    check_message("left of column 0");
    p.rows[1] = 0;
    p.rows[2 * 3] = 0;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 2, p.rows, p.left, p.right, &s));
    check_message("W[2,2]");
    p.rows[2 * 3] = 1;
    p.left[4] = NAN;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_strategy_create_lowrank(6, 3, 2, p.rows, p.left, p.right, &s));
    assert_null(s);
    p.left[4] = 0;
    FAIL_EACH(dpmf_strategy_create_lowrank(6, 3, 2, p.rows, p.left, p.right, &s));
    dpmf_strategy_free(s);
}

/* ---- the optimizer ---- */

static dpmf_status optimize_(const dpmf_workload *a, const char *participation, const dpmf_optimize_options *options,
                             dpmf_strategy **out, dpmf_optimization *result) {
    dpmf_participation *p = NULL;
    dpmf_status status = dpmf_participation_parse(participation, dpmf_workload_get(a).steps, &p);
    optimize_task task = {a, p, options, NULL};
    if (status == DPMF_OK) status = lowrank_optimize(&task, out, result);
    dpmf_participation_free(p);
    return status;
}

/* The loss over its lower bound; `total` gets the root of the total squared loss. */
static double ratio(const char *text, int64_t n, int64_t bands, int rank, dpmf_loss loss, const double *weights,
                    double *total) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimization result;
    dpmf_evaluation found;
    o.bands = bands;
    o.buffers = rank;
    o.loss = loss;
    o.weights = e.weights = weights;
    check_ok(dpmf_workload_parse(text, n, &a));
    check_ok(optimize_(a, "single", &o, &s, &result));
    check_ok(dpmf_evaluate(a, NULL, s, &e, &found, NULL));
    assert_int_equal(found.sensitivity.kind, DPMF_EXACT);
    check_near(found.sensitivity.value, 1, 1e-9); /* every column of C has norm 1 */
    assert_true(result.optimum_lower > 0 && result.optimum_lower <= result.optimum_upper);
    assert_non_null(result.scope);
    double value = loss == DPMF_LOSS_MAX ? found.max_loss : found.rms_loss;
    assert_true(value >= result.optimum_lower * (1 - 1e-9));
    if (total != NULL) *total = sqrt(found.total_squared_loss);
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
    return value / result.optimum_lower;
}

/* Denisov et al. 2022, Table 2, the efficient column: not above the printed value, up to its last digit. */
static void test_low_rank_losses_are_not_above_the_published_ones(void **unused) {
    static const struct {
        int n, bands, rank;
        double root;
    } table[] = {{256, 4, 4, 40.4}, {512, 5, 4, 62.2}, {1024, 5, 5, 95.5}};
    (void)unused;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        double total = 0;
        ratio("prefix", table[i].n, table[i].bands, table[i].rank, DPMF_LOSS_RMS, NULL, &total);
        if (!(total <= table[i].root + 0.05))
            fail_msg("n = %d: %.4f, published %.1f", table[i].n, total, table[i].root);
    }
}

/* Other workloads and losses come near the optimum too. */
static void test_low_rank_losses_are_near_the_optimum(void **unused) {
    double weights[200];
    (void)unused;
    for (int t = 0; t < 200; t++)
        weights[t] = t < 100 ? 1 : 0.05;
    assert_true(ratio("prefix", 200, 4, 4, DPMF_LOSS_MAX, NULL, NULL) < 1.002);
    assert_true(ratio("prefix", 200, 4, 4, DPMF_LOSS_RMS, weights, NULL) < 1.002);
    assert_true(ratio("momentum:0.9", 200, 4, 4, DPMF_LOSS_RMS, NULL, NULL) < 1.005);
    assert_true(ratio("momentum:0.9,cooldown:0.25:0.1", 200, 4, 4, DPMF_LOSS_RMS, NULL, NULL) < 1.005);
    assert_true(ratio("nesterov:0.9", 200, 6, 4, DPMF_LOSS_RMS, NULL, NULL) < 1.02);
}

/* All bands, and a rank that is enough for what is left: the optimum itself. */
static void test_all_bands_or_all_ranks_give_the_optimum_itself(void **unused) {
    (void)unused;
    check_near(ratio("prefix", 24, 24, 1, DPMF_LOSS_RMS, NULL, NULL), 1, 1e-6);
    check_near(ratio("prefix", 24, 1, 24, DPMF_LOSS_RMS, NULL, NULL), 1, 1e-5);
    check_near(ratio("momentum:0.9", 24, 23, 1, DPMF_LOSS_RMS, NULL, NULL), 1, 1e-6);
    check_near(ratio("prefix", 1, 1, 1, DPMF_LOSS_RMS, NULL, NULL), 1, 1e-6);
    check_near(ratio("nesterov:0.5", 3, 2, 1, DPMF_LOSS_MAX, NULL, NULL), 1, 1e-5);
}

/* A matrix that has rank 2 below its band is found again, from the start and by way of the coarse one. */
static void test_a_matrix_of_rank_two_is_found_again(void **unused) {
    (void)unused;
    for (int64_t n = 60; n <= 1500; n += 1440) {
        double *target = calloc((size_t)(n * n), sizeof *target), *left = calloc((size_t)(2 * n), sizeof *left),
               *right = calloc((size_t)(2 * n), sizeof *right);
        assert_true(target != NULL && left != NULL && right != NULL);
        for (int64_t t = 0; t < n; t++)
            for (int64_t u = 0; u <= t; u++) {
                double x = (double)t / (double)n, y = (double)u / (double)n;
                target[t * n + u] = t - u < 3 ? 100 : (1 + x) * exp(y) + x * x * cos(3 * y);
            }
        lowrank_fit fit = {.steps = n, .bands = 3, .rank = 2, .target = target, .left = left, .right = right};
        check_ok(lowrank_solve(&fit, NULL));
        assert_true(fit.converged);
        assert_true(fit.residual < 1e-3);
        double worst = 0;
        for (int64_t t = 3; t < n; t++)
            for (int64_t u = 0; u <= t - 3; u++)
                worst = fmax(worst,
                             fabs(left[2 * t] * right[2 * u] + left[2 * t + 1] * right[2 * u + 1] - target[t * n + u]));
        assert_true(worst < 0.05);
        free(target);
        free(left);
        free(right);
    }
}

static int stop(void *context, const char *what, double done) {
    (void)context;
    (void)done;
    return strstr(what, "lowrank") != NULL;
}

static void test_the_low_rank_optimizer_refuses_epochs_and_long_runs(void **unused) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    dpmf_workload *a = NULL, *large = NULL;
    dpmf_strategy *s = NULL;
    dpmf_optimization result = {.iterations = -7};
    (void)unused;
    o.bands = 3;
    o.buffers = 2;
    check_ok(dpmf_workload_parse("prefix", 32, &a));
    check_ok(dpmf_workload_parse("prefix", 9000, &large));
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize_(a, "cyclic:2,16", &o, &s, &result));
    check_message("single");
    check_fails(DPMF_ERROR_ARGUMENT, optimize_(large, "single", &o, &s, &result));
    check_message("8192");
    o.run.progress = stop;
    check_fails(DPMF_ERROR_CANCELLED, optimize_(a, "single", &o, &s, &result));
    assert_null(s);
    assert_int_equal(result.iterations, -7);
    o.run.progress = NULL;
    o.run.threads = 1; /* a thread allocates when it starts */
    FAIL_EACH(optimize_(a, "single", &o, &s, &result));
    dpmf_strategy_free(s);
    check_ok(optimize_(a, "single", &o, NULL, &result)); /* the bounds alone */
    assert_true(result.optimum_lower > 0 && result.iterations == 0);
    dpmf_workload_free(a);
    dpmf_workload_free(large);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_low_rank_strategy_is_its_band_plus_its_rank),
                                       cmocka_unit_test(test_a_low_rank_strategy_comes_back_from_its_bytes),
                                       cmocka_unit_test(test_a_low_rank_strategy_out_of_range_is_refused),
                                       cmocka_unit_test(test_low_rank_losses_are_not_above_the_published_ones),
                                       cmocka_unit_test(test_low_rank_losses_are_near_the_optimum),
                                       cmocka_unit_test(test_all_bands_or_all_ranks_give_the_optimum_itself),
                                       cmocka_unit_test(test_a_matrix_of_rank_two_is_found_again),
                                       cmocka_unit_test(test_the_low_rank_optimizer_refuses_epochs_and_long_runs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
