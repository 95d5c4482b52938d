/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT: the stream against dense matrices, its exact norms and errors, its losses against known optima, refusals. */
#include "support/check.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "error/error.h"
#include "families/tvblt/tvblt.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static dpmf_workload *workload(const char *text, int64_t n) {
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse(text, n, &a));
    return a;
}

static optimum_answer optimum_of(const dpmf_workload *a, int max_loss, const double *weights) {
    optimum_answer o = {0};
    check_ok(optimum_solve(a, max_loss, weights, 1e-7, NULL, &o));
    return o;
}

/* The TV-BLT of a workload and its loss; the optimum's lower bound in *lower if that is not NULL. */
static dpmf_strategy *tvblt(const dpmf_workload *a, int max_loss, int nodes, double *loss, double *lower) {
    optimum_answer o = optimum_of(a, max_loss, NULL);
    dpmf_strategy *c = NULL;
    check_ok(tvblt_search(a, max_loss, nodes, 0, &o, NULL, &c, loss));
    assert_string_equal(dpmf_strategy_get(c).family, "tvblt");
    if (lower != NULL) *lower = o.lower;
    optimum_free(&o);
    return c;
}

/* ---- against dense matrices ---- */

/* C^-1, n x n, by running the stream on all unit seeds at once. */
static double *stream_matrix(const dpmf_strategy *c) {
    int64_t n = dpmf_strategy_get(c).steps;
    double *matrix = calloc((size_t)(n * n), sizeof *matrix), *seed = calloc((size_t)n, sizeof *seed);
    double *state = calloc((size_t)(n * dpmf_strategy_get(c).buffers), sizeof *state);
    for (int64_t t = 0; t < n; t++) {
        seed[t] = 1;
        check_ok(dpmf_strategy_step(c, t, n, seed, state, matrix + t * n));
        seed[t] = 0;
    }
    free(seed), free(state);
    return matrix;
}

/* Row norms squared of A times a matrix. */
static void row_squares(const dpmf_workload *a, const double *matrix, double *squares) {
    int64_t n = dpmf_workload_get(a).steps;
    double *state = calloc((size_t)(n * workload_buffers(a)), sizeof *state);
    double *row = calloc((size_t)n, sizeof *row);
    for (int64_t t = 0; t < n; t++) {
        workload_step(a, t, n, matrix + t * n, state, row);
        squares[t] = base_dot(n, row, row);
    }
    free(state), free(row);
}

/*
 * Columns of C have norm 1, the errors and the loss are those of the dense matrices, and one vector goes to and fro.
 * The weights (or NULL) are those of the steps.
 */
static void check_dense(const dpmf_workload *a, int max_loss, int nodes, const double *weights) {
    int64_t n = dpmf_workload_get(a).steps;
    optimum_answer o = optimum_of(a, max_loss, weights);
    dpmf_strategy *c = NULL;
    double loss = 0, total = 0, largest = 0, *squares = calloc((size_t)n, sizeof *squares);
    double *ours = calloc((size_t)n, sizeof *ours), *x = calloc((size_t)n, sizeof *x);
    uint64_t seed = 5;
    check_ok(tvblt_search(a, max_loss, nodes, 0, &o, NULL, &c, &loss));
    assert_true(loss >= o.lower * (1 - 1e-9));

    double *inverse = stream_matrix(c);
    row_squares(a, inverse, squares);
    check_ok(tvblt_errors(a, tvblt_of(c), 1, NULL, NULL, ours));
    double tolerance = 1e-10;
    for (int64_t t = 0; t < n; t++) {
        check_near(ours[t] / squares[t], 1, tolerance);
        total += squares[t] * (weights == NULL ? 1 : weights[t]);
        largest = fmax(largest, squares[t]);
    }
    check_near(loss / (max_loss ? sqrt(largest) : sqrt(total / (double)n)), 1, tolerance);

    tolerance = max_loss ? 1e-10 : weights != NULL ? 1e-11 : 1e-12; /* weights make the dense inverse less accurate */
    check_ok(base_lower_invert(n, inverse));
    check_ok(dpmf_strategy_column_norms(c, ours));
    for (int64_t j = 0; j < n; j++) {
        double square = 0;
        for (int64_t t = j; t < n; t++)
            square += inverse[t * n + j] * inverse[t * n + j];
        check_near(sqrt(square), 1, tolerance);
        check_near(ours[j], 1, tolerance);
    }

    for (int64_t t = 0; t < n; t++)
        x[t] = check_random(&seed);
    check_ok(dpmf_strategy_apply(c, x, ours));
    check_ok(dpmf_strategy_solve(c, ours, ours));
    for (int64_t t = 0; t < n; t++)
        check_near(ours[t], x[t], 1e-10);
    free(squares), free(ours), free(x), free(inverse);
    dpmf_strategy_free(c);
    optimum_free(&o);
}

static const char *const WORKLOADS[] = {"prefix",
                                        "decay:0.05",
                                        "cooldown:0.5:0.1",
                                        "momentum:0.95",
                                        "nesterov:0.9",
                                        "momentum:0.95,cooldown:0.25:0.05",
                                        "nesterov:0.5,decay:0.01,cooldown:0.5:0.2"};
enum { WORKLOAD_COUNT = sizeof WORKLOADS / sizeof WORKLOADS[0] };

static void test_a_tvblt_of_1024_steps_is_its_matrix(void **unused) {
    (void)unused;
    for (int w = 0; w < WORKLOAD_COUNT; w++) {
        dpmf_workload *a = workload(WORKLOADS[w], 1024);
        check_dense(a, 0, 4, NULL);
        dpmf_workload_free(a);
    }
}

static void test_a_tvblt_for_max_loss_or_weights_is_its_matrix(void **unused) {
    double weights[300];
    (void)unused;
    for (int t = 0; t < 300; t++)
        weights[t] = 0.1 + t % 7;
    for (int w = 0; w < WORKLOAD_COUNT; w++) {
        dpmf_workload *a = workload(WORKLOADS[w], 300);
        check_dense(a, 1, 5, NULL);
        check_dense(a, 0, 5, weights);
        dpmf_workload_free(a);
    }
}

/* Every claim of the strategy's table, and A = B C, for few steps and many nodes too. */
static void test_a_tvblt_is_a_strategy_of_few_buffers(void **unused) {
    static const int64_t sizes[] = {1, 2, 3, 9, 70};
    static const int nodes[] = {1, 3, 6, 32};
    (void)unused;
    for (int w = 0; w < WORKLOAD_COUNT; w++)
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
            for (size_t k = 0; k < sizeof nodes / sizeof nodes[0]; k++) {
                dpmf_workload *a = workload(WORKLOADS[w], sizes[i]);
                dpmf_strategy *c = tvblt(a, 0, nodes[k], NULL, NULL);
                int order = strstr(WORKLOADS[w], "m:") != NULL || strstr(WORKLOADS[w], "nesterov") != NULL ? 2 : 1;
                assert_int_equal(dpmf_strategy_get(c).buffers, nodes[k] * order);
                check_strategy(c, 1e-11);
                check_factorization(a, c, 1e-10);
                dpmf_strategy_free(c);
                dpmf_workload_free(a);
            }
}

/* The error's route for repeated and rescaled mechanisms, under workloads that the mechanism was not made for. */
static void test_errors_of_repeated_and_scaled_tvblts_are_right(void **unused) {
    enum { BLOCK = 24, STAMPS = 3, STEPS = BLOCK * STAMPS };
    (void)unused;
    for (int made = 0; made < WORKLOAD_COUNT; made += 3)
        for (int used = 0; used < WORKLOAD_COUNT; used++) {
            dpmf_workload *own = workload(WORKLOADS[made], BLOCK), *a = workload(WORKLOADS[used], STEPS);
            dpmf_strategy *c = tvblt(own, 0, 3, NULL, NULL), *repeated = NULL;
            double squares[STEPS], scaled[STEPS], want[STEPS], scale[STEPS];
            check_ok(dpmf_strategy_create_stamped(c, STAMPS, &repeated));
            double *inverse = stream_matrix(repeated);
            check_ok(tvblt_errors(a, tvblt_of(c), STAMPS, NULL, NULL, squares));
            row_squares(a, inverse, want);
            for (int t = 0; t < STEPS; t++) {
                check_near(squares[t] / want[t], 1, 1e-11);
                scale[t] = 1 + 0.5 * sin(t);
                for (int u = 0; u < STEPS; u++)
                    inverse[t * STEPS + u] *= scale[t];
            }
            check_ok(tvblt_errors(a, tvblt_of(c), STAMPS, scale, NULL, scaled));
            row_squares(a, inverse, want);
            for (int t = 0; t < STEPS; t++)
                check_near(scaled[t] / want[t], 1, 1e-11);
            free(inverse);
            dpmf_strategy_free(c), dpmf_strategy_free(repeated);
            dpmf_workload_free(own), dpmf_workload_free(a);
        }
}

/* ---- quality ---- */

/*
 * Losses over the known optimum. Optima: prefix sums from dual bounds computed independently, 7 digits (0: from the
 * solver here, whose lower bound is certified).
 */
static void test_few_nodes_come_near_the_optimum(void **unused) {
    static const struct {
        const char *text;
        int64_t steps;
        int max_loss, nodes;
        double optimum, ratio;
    } cases[] = {
        {"prefix", 1024, 0, 1, 2.955452, 1.67},
        {"prefix", 1024, 0, 2, 2.955452, 1.046},
        {"prefix", 1024, 0, 3, 2.955452, 1.0040},
        {"prefix", 1024, 0, 4, 2.955452, 1.00036},
        {"prefix", 1024, 0, 5, 2.955452, 1.000035},
        {"prefix", 1024, 0, 6, 2.955452, 1.000004},
        {"prefix", 1024, 0, 12, 2.955452, 1.0000003},
        {"prefix", 2048, 0, 4, 3.172315, 1.0007},
        {"prefix", 8192, 0, 5, 3.607685, 1.00033},
        {"prefix", 8192, 0, 6, 3.607685, 1.00005},
        {"prefix", 256, 1, 4, 2.532716, 1.0001},
        {"prefix", 256, 1, 6, 2.532716, 1.000005},
        {"prefix", 1024, 1, 4, 2.961465, 1.0005},
        {"prefix", 1024, 1, 6, 2.961465, 1.00002},
        {"prefix", 16384, 1, 6, 0, 1.0003},
        {"momentum:0.95", 200, 0, 4, 0, 1.001},
        {"momentum:0.95", 200, 0, 6, 0, 1.00005},
        {"momentum:0.95", 200, 0, 8, 0, 1.000004},
        {"momentum:0.95,cooldown:1:0.05", 200, 0, 4, 0, 1.001},
        {"momentum:0.95,cooldown:1:0.05", 200, 0, 6, 0, 1.0001},
        {"momentum:0.95,cooldown:1:0.05", 200, 0, 8, 0, 1.00001},
        {"nesterov:0.95", 200, 0, 6, 0, 1.00005},
        {"cooldown:1:0.05", 1024, 0, 4, 0, 1.003},
        {"decay:0.01", 1024, 0, 4, 0, 1.0005},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double loss = 0, lower = 0;
        dpmf_workload *a = workload(cases[i].text, cases[i].steps);
        dpmf_strategy *c = tvblt(a, cases[i].max_loss, cases[i].nodes, &loss, &lower);
        double optimum = cases[i].optimum > 0 ? cases[i].optimum : lower;
        check_near(lower, optimum, 1e-6); /* the bound that the ratio is against */
        if (!(loss <= cases[i].ratio * optimum && loss >= lower * (1 - 1e-12)))
            fail_msg("%s, %lld steps, %d nodes: ratio %.8f, wanted at most %.8f", cases[i].text,
                     (long long)cases[i].steps, cases[i].nodes, loss / optimum, cases[i].ratio);
        dpmf_strategy_free(c);
        dpmf_workload_free(a);
    }
}

/* As few nodes as the wanted ratio needs, and one less is not enough. */
static void test_as_few_nodes_are_taken_as_the_ratio_needs(void **unused) {
    static const struct {
        const char *text;
        int max_loss;
        double wanted;
    } cases[] = {{"prefix", 0, 2},       {"prefix", 0, 1.01},       {"prefix", 0, 1.0005},
                 {"prefix", 0, 1.00001}, {"momentum:0.9", 0, 1.01}, {"momentum:0.9", 0, 1.00005},
                 {"prefix", 1, 1.001},   {"momentum:0.9", 1, 1.001}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dpmf_workload *a = workload(cases[i].text, 500);
        optimum_answer o = optimum_of(a, cases[i].max_loss, NULL);
        dpmf_strategy *c = NULL, *fewer = NULL;
        double loss = 0, less = 0;
        check_ok(tvblt_search(a, cases[i].max_loss, 0, cases[i].wanted, &o, NULL, &c, &loss));
        int nodes = tvblt_of(c)->nodes;
        assert_true(loss <= cases[i].wanted * o.lower);
        if (nodes > 1) {
            check_ok(tvblt_search(a, cases[i].max_loss, nodes - 1, 0, &o, NULL, &fewer, &less));
            assert_true(less > cases[i].wanted * o.lower);
        }
        dpmf_strategy_free(c), dpmf_strategy_free(fewer);
        optimum_free(&o);
        dpmf_workload_free(a);
    }
}

/* ---- files ---- */

typedef struct saved {
    base_writer writer;
    base_tensors tensors;
    cJSON *object;
} saved;

static saved save(const dpmf_strategy *c) {
    saved s = {0};
    base_json_open(&s.writer, NULL, '{');
    strategy_write(c, &s.writer, &s.tensors);
    base_json_close(&s.writer, '}');
    check_ok(s.writer.status);
    check_ok(base_json_parse(s.writer.text, s.writer.length, 4, "test", &s.object));
    return s;
}

static void saved_free(saved *s) {
    base_writer_free(&s->writer);
    cJSON_Delete(s->object);
}

static base_tensor *tensor(saved *s, const char *name) {
    for (int i = 0; i < s->tensors.count; i++)
        if (strcmp(s->tensors.tensor[i].name, name) == 0) return &s->tensors.tensor[i];
    fail_msg("no array %s", name);
    return NULL;
}

static void test_a_tvblt_comes_back_from_its_tensors(void **unused) {
    enum { STEPS = 40 };
    (void)unused;
    for (int w = 0; w < WORKLOAD_COUNT; w++) {
        dpmf_workload *a = workload(WORKLOADS[w], STEPS);
        dpmf_strategy *c = tvblt(a, 0, 3, NULL, NULL), *again = NULL;
        saved s = save(c);
        strategy_source source = {s.object, &s.tensors, a, "tvblt", STEPS};
        check_ok(tvblt_read(&source, &again));
        double *before = stream_matrix(c), *after = stream_matrix(again);
        assert_memory_equal(before, after, STEPS * STEPS * sizeof *before);
        assert_string_equal(dpmf_strategy_get(again).family, "tvblt");
        free(before), free(after);
        dpmf_strategy_free(again);

        dpmf_strategy *none = NULL;
        double zero[STEPS] = {0};
        const double *diagonal = tensor(&s, "strategy.diagonal")->values;
        tensor(&s, "strategy.diagonal")->values = zero;
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        tensor(&s, "strategy.diagonal")->values = diagonal;
        tensor(&s, "strategy.gain")->shape[1]--;
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        tensor(&s, "strategy.keep")->shape[1] = 0;
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        tensor(&s, "strategy.keep")->shape[1] = 65;
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        strcpy(tensor(&s, "strategy.keep")->name, "strategy.hold");
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        cJSON_SetNumberValue(cJSON_GetObjectItem(s.object, "order"), 3);
        check_fails(DPMF_ERROR_FORMAT, tvblt_read(&source, &none));
        assert_null(none);
        saved_free(&s);
        dpmf_strategy_free(c);
        dpmf_workload_free(a);
    }
}

/* ---- refusals ---- */

static int stop_at_once(void *context, const char *what, double done) {
    (void)what, (void)done;
    return ++*(int *)context > 3;
}

static void test_the_tvblt_optimizer_refuses_other_optima_and_nodes(void **unused) {
    enum { STEPS = 50 };
    dpmf_workload *a = workload("prefix", STEPS), *dense = NULL, *longer = workload("prefix", STEPS + 1);
    optimum_answer o = optimum_of(a, 0, NULL);
    dpmf_strategy *none = NULL;
    double loss = 7, matrix[4] = {1, 0, 1, 1}, two[2] = {1, 1}, *own = o.v;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 0, -1, 1.1, &o, NULL, &none, &loss));
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 0, 33, 1.1, &o, NULL, &none, &loss));
    check_message("33 nodes, accepted 1 to 32");
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 0, 0, 1, &o, NULL, &none, &loss));
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 0, 0, NAN, &o, NULL, &none, &loss));
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(longer, 0, 2, 0, &o, NULL, &none, &loss));
    check_message("50 steps, the workload 51");
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 1, 2, 0, &o, NULL, &none, &loss));
    check_message("max loss");
    check_fails(DPMF_ERROR_NUMERICAL, tvblt_search(a, 0, 0, 1 + 1e-15, &o, NULL, &none, &loss));
    check_message("nodes reach a loss of");

    check_ok(dpmf_workload_create_dense(2, matrix, &dense));
    optimum_answer small = {.steps = 2, .v = two, .lower = 1, .upper = 2};
    check_fails(DPMF_ERROR_UNSUPPORTED, tvblt_search(dense, 0, 2, 0, &small, NULL, &none, &loss));

    double bad[STEPS];
    memcpy(bad, own, sizeof bad);
    bad[20] = 0;
    o.v = bad;
    check_fails(DPMF_ERROR_ARGUMENT, tvblt_search(a, 0, 2, 0, &o, NULL, &none, &loss));
    check_message("column weight 20");
    for (int t = 0; t < STEPS; t++)
        bad[t] = t % 2 == 0 ? 1e300 : 1e-300;
    check_fails(DPMF_ERROR_NUMERICAL, tvblt_search(a, 0, 2, 0, &o, NULL, &none, &loss));
    o.v = own;

    int asked = 0;
    dpmf_run run = {.progress = stop_at_once, .context = &asked};
    check_fails(DPMF_ERROR_CANCELLED, tvblt_search(a, 0, 4, 0, &o, &run, &none, &loss));

    dpmf_memory_set_limit(dpmf_memory_in_use() + STEPS * 8 * 20);
    check_fails(DPMF_ERROR_MEMORY, tvblt_search(a, 0, 32, 0, &o, NULL, &none, &loss));
    dpmf_memory_set_limit(0);
    assert_null(none);
    assert_true(loss == 7);

    tvblt_parameters c = {0};
    check_fails(DPMF_ERROR_MEMORY, tvblt_alloc((int64_t)1 << 60, 32, 2, &c));
    check_fails(DPMF_ERROR_MEMORY, tvblt_alloc((int64_t)1 << 50, 32, 2, &c));
    assert_null(c.keep);
    optimum_free(&o);
    dpmf_workload_free(a), dpmf_workload_free(dense), dpmf_workload_free(longer);
}

static void test_any_allocation_of_the_tvblt_optimizer_may_fail(void **unused) {
    (void)unused;
    for (int max_loss = 0; max_loss <= 1; max_loss++) {
        dpmf_workload *a = workload("momentum:0.5", 20);
        optimum_answer o = optimum_of(a, max_loss, NULL);
        dpmf_strategy *c = NULL, *again = NULL;
        double values[20];
        FAIL_EACH(tvblt_search(a, max_loss, 2, 0, &o, NULL, &c, NULL));
        FAIL_EACH(tvblt_gram(tvblt_of(c), 3, values));
        saved s = save(c);
        strategy_source source = {s.object, &s.tensors, a, "tvblt", 20};
        FAIL_EACH(tvblt_read(&source, &again));
        saved_free(&s);
        dpmf_strategy_free(c), dpmf_strategy_free(again);
        optimum_free(&o);
        dpmf_workload_free(a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_tvblt_of_1024_steps_is_its_matrix),
                                       cmocka_unit_test(test_a_tvblt_for_max_loss_or_weights_is_its_matrix),
                                       cmocka_unit_test(test_a_tvblt_is_a_strategy_of_few_buffers),
                                       cmocka_unit_test(test_errors_of_repeated_and_scaled_tvblts_are_right),
                                       cmocka_unit_test(test_few_nodes_come_near_the_optimum),
                                       cmocka_unit_test(test_as_few_nodes_are_taken_as_the_ratio_needs),
                                       cmocka_unit_test(test_a_tvblt_comes_back_from_its_tensors),
                                       cmocka_unit_test(test_the_tvblt_optimizer_refuses_other_optima_and_nodes),
                                       cmocka_unit_test(test_any_allocation_of_the_tvblt_optimizer_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
