/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best BLT: gradients against differences, losses against known ones and against brute force (tests/data/blt.csv,
 * made by tests/python/reference_blt.py), options, refusals.
 */
#include "families/blt/blt.h"
#include "oracle/oracle.h"
#include "support/check.h"

#include "optimize/optimize.h"
#include "support/failing_allocator.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct answer {
    dpmf_strategy *strategy;
    dpmf_optimization result;
    double loss; /* of the strategy, by its own closed form where there is one, else by evaluation */
} answer;

static dpmf_status optimize(const char *workload, const char *participation, int64_t n, dpmf_optimize_options options,
                            dpmf_strategy **strategy, dpmf_optimization *result) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    check_ok(dpmf_workload_parse(workload, n, &a));
    check_ok(dpmf_participation_parse(participation, n, &p));
    const optimize_task task = {a, p, &options, NULL};
    dpmf_status status = blt_optimize(&task, strategy, result);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return status;
}

static dpmf_optimize_options with(dpmf_loss loss, int buffers) {
    return (dpmf_optimize_options){.loss = loss, .buffers = buffers, .run = dpmf_run_defaults()};
}

static double evaluated(const char *workload, const char *participation, int64_t n, const dpmf_strategy *s,
                        dpmf_loss loss, const double *weights) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    dpmf_evaluation e;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.lower_bound = DPMF_LOWER_BOUND_NONE;
    o.weights = weights;
    check_ok(dpmf_workload_parse(workload, n, &a));
    check_ok(dpmf_participation_parse(participation, n, &p));
    check_ok(dpmf_evaluate(a, p, s, &o, &e, NULL));
    if (strncmp(participation, "cyclic", 6) != 0) /* scales of any sign there, where a bound may be all that is known */
        assert_int_equal(e.sensitivity.kind, DPMF_EXACT);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
    return loss == DPMF_LOSS_MAX ? e.max_loss : e.rms_loss;
}

/* Optimizes, and evaluates what comes out with the general code. */
static double best(const char *workload, const char *participation, int64_t n, dpmf_loss loss, int buffers) {
    dpmf_strategy *s = NULL;
    dpmf_optimization r = {0};
    check_ok(optimize(workload, participation, n, with(loss, buffers), &s, &r));
    assert_int_equal(r.nodes + r.dropped, buffers);
    assert_int_equal(dpmf_strategy_get(s).buffers, r.nodes);
    assert_int_equal(r.outcome, DPMF_CONVERGED);
    /* scales of any sign often end in a kink of the sensitivity, beside which its smooth version is steep */
    const double flat = strncmp(participation, "cyclic", 6) == 0 ? 1e-4 : 1e-5;
    assert_true(r.stationarity < flat && r.iterations > 0 && r.scope == NULL);
    double value = evaluated(workload, participation, n, s, loss, NULL);
    dpmf_strategy_free(s);
    return value;
}

/* ---- the gradient ---- */

static double loss_at(blt_problem *p, double *x, int i, double move) {
    double f = 0, unused[BLT_UNKNOWNS], kept = x[i];
    x[i] = kept + move;
    check_ok(blt_loss(p, x, &f, unused));
    x[i] = kept;
    return f;
}

static void test_the_gradient_of_a_blt_is_that_of_differences(void **unused) {
    enum { N = 60 };
    static const int64_t patterns[][2] = {{1, N}, {4, 15}, {N, 1}, {3, 17}, {2, 40}};
    double emphasis[N], response[N], x[BLT_UNKNOWNS], gradient[BLT_UNKNOWNS], f = 0;
    blt_normalized work = {0};
    uint64_t seed = 77;
    (void)unused;
    check_ok(blt_normalized_open(N, &work));
    for (int t = 0; t < N; t++) {
        emphasis[t] = 1 + t % 3;
        response[t] = 1 / (1 + 0.01 * t);
    }
    for (int trial = 0; trial < 240; trial++) {
        blt_problem p = {.count = 1 + trial % 6,
                         .n = N,
                         .k = patterns[trial % 5][0],
                         .b = patterns[trial % 5][1],
                         .max_loss = trial & 1,
                         .response = trial % 7 == 3 ? response : NULL,
                         .emphasis = trial % 11 == 3 ? emphasis : NULL,
                         .barrier = trial % 3 == 1 ? 0.01 : 0};
        if (trial % 5 == 0 && p.response == NULL && !p.max_loss) p.normalized = &work;
        for (int i = 0; i < 2 * p.count; i++)
            x[i] = 1.5 * check_random(&seed) - 0.3;
        check_ok(blt_loss(&p, x, &f, gradient));
        assert_true(isfinite(f));
        for (int i = 0; i < 2 * p.count; i++) { /* fourth order: the rest is about 1e-12 */
            const double h = 1e-3;
            double near = loss_at(&p, x, i, h) - loss_at(&p, x, i, -h);
            double far = loss_at(&p, x, i, 2 * h) - loss_at(&p, x, i, -2 * h);
            check_near(gradient[i], (8 * near - far) / (12 * h), 1e-9);
        }
    }
    blt_normalized_free(&work);
}

/* The function is the ln(loss) of the BLT it stands for, also where unknowns run away. Gaps to unknowns and back. */
static void test_the_function_is_the_log_loss_of_the_blt(void **unused) {
    uint64_t seed = 9;
    (void)unused;
    for (int trial = 0; trial < 200; trial++) {
        blt_problem p = {
            .count = 1 + trial % 16, .n = 1000, .k = trial % 3 == 0 ? 10 : 1, .b = 100, .max_loss = trial & 1};
        double x[BLT_UNKNOWNS], again[BLT_UNKNOWNS], gaps[BLT_UNKNOWNS];
        double gradient[BLT_UNKNOWNS], f = 0, wild = trial >= 100 ? 12 : 1;
        for (int i = 0; i < 2 * p.count; i++)
            x[i] = wild * check_random(&seed);
        check_ok(blt_loss(&p, x, &f, gradient));
        blt_parameters c = blt_at(p.count, x);
        oracle_losses losses;
        if (!blt_is_positive(&c)) continue; /* two gaps the same to a double */
        check_ok(oracle_blt_losses(&c, p.n, p.k, p.b, &losses));
        check_near(f, log(p.max_loss ? losses.max_loss : losses.rms_loss), wild > 1 ? 1e-9 : 1e-12);
        if (wild > 1) continue;
        blt_gaps(p.count, x, gaps);
        blt_unknowns(p.count, gaps, again);
        for (int i = 0; i < 2 * p.count; i++)
            check_near(again[i], x[i], 1e-9);
    }
}

/* Without weights and with weights of 1, and prefix sums as a response, the O(n) route gives the closed form. */
static void test_the_linear_route_gives_the_closed_form(void **unused) {
    enum { N = 500 };
    double ones[N], emphasis[N], x[8] = {1, -0.5, 0.3, 0, 1, -2, 0.5, 0.1}, f[3], g[3][BLT_UNKNOWNS];
    (void)unused;
    for (int t = 0; t < N; t++) {
        ones[t] = 1;
        emphasis[t] = N - t;
    }
    blt_problem p = {.count = 4, .n = N, .k = 5, .b = 100};
    check_ok(blt_loss(&p, x, &f[0], g[0]));
    p.response = ones;
    check_ok(blt_loss(&p, x, &f[1], g[1]));
    p.emphasis = emphasis;
    check_ok(blt_loss(&p, x, &f[2], g[2]));
    for (int r = 1; r < 3; r++) {
        check_near(f[r], f[0], 1e-13);
        for (int i = 0; i < 8; i++)
            check_near(g[r][i], g[0][i], 1e-12);
    }
}

/* ---- losses ---- */

/* Computed independently; they tend to the square root's own max losses (2.388848, 3.272554, 3.934529). */
static void test_losses_of_the_best_blt_are_the_known_ones(void **unused) {
    static const struct {
        int64_t n;
        dpmf_loss loss;
        double values[5];
    } known[] = {{64, DPMF_LOSS_MAX, {2.479865, 2.391338, 2.388895, 2.388849, 2.388848}},
                 {1024, DPMF_LOSS_MAX, {3.864890, 3.329793, 3.277600, 3.272944, 3.272585}},
                 {8192, DPMF_LOSS_MAX, {5.410531, 4.132130, 3.965354, 3.938797, 3.935096}},
                 {8192, DPMF_LOSS_RMS, {4.833001, 3.846143, 3.733701, 3.720309, 3.718965}}};
    (void)unused;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        for (int d = 1; d <= 5; d++)
            check_near(best("prefix", "single", known[i].n, known[i].loss, d), known[i].values[d - 1], 1e-6);
}

/* No worse than the best of many random starts over positive scales and decays. */
static void test_the_best_blt_is_no_worse_than_many_random_starts(void **unused) {
    const char *source = getenv("DPMF_SOURCE");
    char path[4096], line[4096], participation[64], loss[8];
    int lines = 0;
    (void)unused;
    snprintf(path, sizeof path, "%s%stests/data/blt.csv", source == NULL ? "" : source, source == NULL ? "" : "/");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        int n = 0, d = 0;
        double value = 0;
        if (sscanf(line, "best;%d;%63[^;];%7[^;];%d;%lf", &n, participation, loss, &d, &value) != 5) continue;
        dpmf_loss kind = strcmp(loss, "max") == 0 ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
        double ours = best("prefix", participation, n, kind, d);
        assert_true(ours <= value * (1 + 1e-7));
        if (strncmp(participation, "cyclic", 6) != 0) assert_true(ours >= value * (1 - 1e-4)); /* the same problem */
        lines++;
    }
    fclose(file);
    assert_int_equal(lines, 18);
}

/*
 * One more buffer never hurts, at ten thousand million steps as well; and the losses stay above the best Toeplitz one.
 */
static void test_a_buffer_more_never_hurts_at_ten_billion_steps(void **unused) {
    const double n = 1e10;
    /* the square root's max loss: (ln n + 4 ln 2 + Euler's constant) / pi, to O(1/n) (Landau's constants) */
    const double root = (log(n) + 4 * log(2) + 0.57721566490153286) / M_PI;
    (void)unused;
    for (int loss = 0; loss < 2; loss++) {
        double before = INFINITY;
        for (int d = 2; d <= 8; d += 2) {
            dpmf_strategy *s = NULL;
            dpmf_optimization r = {0};
            oracle_losses losses;
            check_ok(optimize("prefix", "single", (int64_t)n, with((dpmf_loss)loss, d), &s, &r));
            check_ok(oracle_blt_losses(blt_of(s), (int64_t)n, 1, (int64_t)n, &losses));
            double value = loss == DPMF_LOSS_MAX ? losses.max_loss : losses.rms_loss;
            assert_true(value < before);
            before = value;
            if (loss == DPMF_LOSS_MAX) assert_true(value > root && (d < 8 || value < 1.005 * root));
            dpmf_strategy_free(s);
        }
    }
}

/* The optimum of another workload beats that of prefix sums there, and neighbours of it do not beat it. */
static void test_no_neighbour_beats_the_best_blt_of_another_workload(void **unused) {
    static const char *const workloads[] = {"momentum:0.9", "nesterov:0.8,decay:0.01", "decay:0.05"};
    static const char *const participations[] = {"single", "cyclic:4,50"};
    enum { N = 200 };
    (void)unused;
    for (int i = 0; i < 6; i++) {
        const char *w = workloads[i % 3], *p = participations[i / 3];
        dpmf_loss loss = i % 2 == 0 ? DPMF_LOSS_RMS : DPMF_LOSS_MAX;
        dpmf_strategy *s = NULL, *prefix = NULL, *moved = NULL;
        dpmf_optimization r = {0};
        const double *scale = NULL, *gap = NULL;
        check_ok(optimize(w, p, N, with(loss, 2), &s, &r));
        check_ok(optimize("prefix", p, N, with(loss, 2), &prefix, &r));
        double ours = evaluated(w, p, N, s, loss, NULL);
        assert_true(ours <= evaluated(w, p, N, prefix, loss, NULL));
        assert_int_equal(check_blt(s, &scale, &gap), 2);
        for (int j = 0; j < 8; j++) {
            double a[2] = {scale[0], scale[1]}, g[2] = {gap[0], gap[1]}, by = j < 4 ? 0.98 : 1.02;
            if (j % 4 < 2)
                a[j % 2] *= by;
            else
                g[j % 2] = fmin(g[j % 2] * by, 1);
            if (a[0] + a[1] > 1) continue;
            check_ok(dpmf_strategy_create_blt(N, 2, a, NULL, g, &moved));
            assert_true(evaluated(w, p, N, moved, loss, NULL) >= ours * (1 - 1e-9));
            dpmf_strategy_free(moved);
        }
        dpmf_strategy_free(s);
        dpmf_strategy_free(prefix);
    }
}

static void test_weights_make_another_blt_best(void **unused) {
    enum { N = 300 };
    double ones[N], late[N];
    dpmf_strategy *plain = NULL, *same = NULL, *weighted = NULL;
    dpmf_optimization r = {0};
    dpmf_optimize_options o = with(DPMF_LOSS_RMS, 3);
    (void)unused;
    for (int t = 0; t < N; t++) {
        ones[t] = 1;
        late[t] = t < N - 20 ? 1e-3 : 1;
    }
    check_ok(optimize("prefix", "single", N, o, &plain, &r));
    o.weights = ones;
    check_ok(optimize("prefix", "single", N, o, &same, &r));
    o.weights = late;
    check_ok(optimize("prefix", "single", N, o, &weighted, &r));
    check_near(evaluated("prefix", "single", N, same, DPMF_LOSS_RMS, NULL),
               evaluated("prefix", "single", N, plain, DPMF_LOSS_RMS, NULL), 1e-8);
    assert_true(evaluated("prefix", "single", N, weighted, DPMF_LOSS_RMS, late) <
                0.999 * evaluated("prefix", "single", N, plain, DPMF_LOSS_RMS, late));
    dpmf_strategy_free(plain);
    dpmf_strategy_free(same);
    dpmf_strategy_free(weighted);
}

/* ---- options ---- */

/* The smallest number within the ratio: one less is not enough. Max loss: relative to the square root's. */
static void test_as_few_buffers_are_taken_as_the_ratio_needs(void **unused) {
    static const double wanted[] = {1.1, 1.01, 1.001};
    /* the square root's max losses and, for the RMS loss, what 8 buffers reach */
    static const struct {
        int64_t n;
        const char *participation;
        dpmf_loss loss;
        double reference, slack;
    } cases[] = {{8192, "single", DPMF_LOSS_MAX, 3.934529, 1e-6},
                 {100000, "single", DPMF_LOSS_MAX, 0, 0},
                 {8192, "single", DPMF_LOSS_RMS, 0, 3e-4},
                 {8192, "cyclic:4,2048", DPMF_LOSS_RMS, 0, 3e-4}};
    (void)unused;
    for (int c = 0; c < 4; c++) {
        double reference = cases[c].reference;
        int before = 0;
        if (reference == 0 && cases[c].loss == DPMF_LOSS_MAX) {
            double term = 1; /* the sum of squares of the coefficients of (1-x)^(-1/2) */
            for (int64_t t = 0; t < cases[c].n; t++, term *= (2 * (double)t - 1) / (2 * (double)t))
                reference += term * term;
        } else if (reference == 0) {
            reference = best("prefix", cases[c].participation, cases[c].n, cases[c].loss, 8);
        }
        for (int i = 0; i < 3; i++) {
            dpmf_strategy *s = NULL;
            dpmf_optimization r = {0};
            dpmf_optimize_options o = with(cases[c].loss, 0);
            double most = reference * wanted[i] * (1 + cases[c].slack);
            o.wanted_ratio = i == 2 ? 0 : wanted[i]; /* 0 means 1.001 */
            check_ok(optimize("prefix", cases[c].participation, cases[c].n, o, &s, &r));
            assert_true(evaluated("prefix", cases[c].participation, cases[c].n, s, cases[c].loss, NULL) <= most);
            dpmf_strategy_free(s);
            assert_true(r.nodes >= before);
            before = r.nodes;
            if (i == 2) assert_true(r.nodes > 2);
            if (r.nodes > 1)
                assert_true(best("prefix", cases[c].participation, cases[c].n, cases[c].loss, r.nodes - 1) >
                            reference * wanted[i] * (1 - cases[c].slack));
        }
    }
}

static void test_a_blt_normalized_after_has_less_loss(void **unused) {
    dpmf_strategy *plain = NULL, *normal = NULL;
    dpmf_optimization r = {0};
    dpmf_optimize_options o = with(DPMF_LOSS_RMS, 3);
    (void)unused;
    check_ok(optimize("prefix", "single", 64, o, &plain, &r));
    o.normalize = DPMF_NORMALIZE_AFTER;
    check_ok(optimize("prefix", "single", 64, o, &normal, &r));
    assert_true(dpmf_strategy_get(normal).is_normalized);
    assert_int_equal(dpmf_strategy_get(normal).buffers, 3);
    check_strategy(normal, 1e-12);
    assert_true(evaluated("prefix", "single", 64, normal, DPMF_LOSS_RMS, NULL) <
                evaluated("prefix", "single", 64, plain, DPMF_LOSS_RMS, NULL));
    dpmf_strategy_free(plain);
    dpmf_strategy_free(normal);
}

/* Normalized within: its loss is the one that was minimized, and below that of normalizing after. */
static void test_a_blt_normalized_within_has_still_less_loss(void **unused) {
    enum { N = 256 };
    double weights[N];
    (void)unused;
    for (int t = 0; t < N; t++)
        weights[t] = 1 + t % 7;
    for (int i = 0; i < 2; i++) {
        dpmf_strategy *after = NULL, *within = NULL;
        dpmf_optimization r = {0};
        dpmf_optimize_options o = with(DPMF_LOSS_RMS, 3);
        o.weights = i == 1 ? weights : NULL;
        o.normalize = DPMF_NORMALIZE_AFTER;
        check_ok(optimize("prefix", "single", N, o, &after, &r));
        o.normalize = DPMF_NORMALIZE_WITHIN;
        check_ok(optimize("prefix", "single", N, o, &within, &r));
        assert_true(dpmf_strategy_get(within).is_normalized);
        assert_true(r.stationarity < 1e-5);
        double ours = evaluated("prefix", "single", N, within, DPMF_LOSS_RMS, o.weights);
        assert_true(ours < (1 - 1e-4) * evaluated("prefix", "single", N, after, DPMF_LOSS_RMS, o.weights));
        if (i == 0) assert_true(ours > 2.524414 && ours < 2.566780); /* between the dense optimum and Toeplitz, after */
        dpmf_strategy_free(after);
        dpmf_strategy_free(within);
    }
}

/* One step, more buffers than steps, no strategy wanted; the same bits every time. */
static void test_one_step_and_more_buffers_than_steps_are_fine(void **unused) {
    dpmf_optimization r = {0};
    dpmf_strategy *s = NULL, *again = NULL;
    const double *scale[2], *gap[2];
    (void)unused;
    check_near(best("prefix", "single", 2, DPMF_LOSS_MAX, 2), 1.25, 1e-9); /* c = (1, 1/2) */
    check_ok(optimize("prefix", "single", 1, with(DPMF_LOSS_RMS, 2), &s, &r));
    check_near(evaluated("prefix", "single", 1, s, DPMF_LOSS_RMS, NULL), 1, 1e-15);
    dpmf_strategy_free(s);
    check_ok(optimize("prefix", "single", 3, with(DPMF_LOSS_RMS, 5), NULL, &r));
    assert_int_equal(r.nodes,
                     1); /* a scale and a decay make two coefficients after the first: the rest is superfluous */
    assert_int_equal(r.dropped, 4);
    check_ok(optimize("prefix", "cyclic:3,100", 300, with(DPMF_LOSS_RMS, 3), &s, &r));
    check_ok(optimize("prefix", "cyclic:3,100", 300, with(DPMF_LOSS_RMS, 3), &again, &r));
    assert_int_equal(check_blt(s, &scale[0], &gap[0]), 3);
    assert_int_equal(check_blt(again, &scale[1], &gap[1]), 3);
    assert_memory_equal(scale[0], scale[1], 3 * sizeof(double));
    assert_memory_equal(gap[0], gap[1], 3 * sizeof(double));
    dpmf_strategy_free(s);
    dpmf_strategy_free(again);
}

/* Without the barrier the first ended at decays of 1 and 1 - 1e-15, with a buffer that gained nothing. */
static void test_superfluous_buffers_are_dropped_and_decays_stay_below_1(void **unused) {
    static const struct {
        int64_t n;
        const char *workload, *participation;
        dpmf_loss loss;
    } cases[] = {{64, "prefix", "minsep:4,16", DPMF_LOSS_MAX},
                 {64, "decay:0.1", "minsep:4,16", DPMF_LOSS_MAX},
                 {48, "prefix", "minsep:8,3", DPMF_LOSS_RMS},
                 {20, "prefix", "single", DPMF_LOSS_RMS}};
    (void)unused;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpmf_strategy *s = NULL, *again = NULL;
        dpmf_optimization r = {0};
        const double *scale = NULL, *gap = NULL;
        double decay[DPMF_BLT_BUFFERS_MAX], few = 0, many = 0;
        check_ok(optimize(cases[i].workload, cases[i].participation, cases[i].n, with(cases[i].loss, 7), &s, &r));
        assert_true(r.dropped > 0 && r.nodes + r.dropped == 7);
        assert_int_equal(check_blt(s, &scale, &gap), r.nodes);
        for (int j = 0; j < r.nodes; j++) {
            assert_true(gap[j] > 1e-12 / (double)cases[i].n && gap[j] < 1 && scale[j] > 1e-12);
            decay[j] = 1 - gap[j];
        }
        check_ok(dpmf_strategy_create_blt(cases[i].n, r.nodes, scale, decay, NULL, &again));
        many = evaluated(cases[i].workload, cases[i].participation, cases[i].n, again, cases[i].loss, NULL);
        few = best(cases[i].workload, cases[i].participation, cases[i].n, cases[i].loss, r.nodes);
        assert_true(many <= few * (1 + 3e-7)); /* a way through more buffers may find a better place */
        dpmf_strategy_free(again);
        dpmf_strategy_free(s);
    }
}

static void test_signs_of_scales_can_be_chosen(void **unused) {
    dpmf_optimize_options o = with(DPMF_LOSS_RMS, 3);
    dpmf_strategy *s = NULL;
    dpmf_optimization r = {0};
    double any = 0, falling = 0;
    const double *scale = NULL, *gap = NULL;
    (void)unused;
    o.signs = DPMF_SIGNS_NON_NEGATIVE;
    check_ok(optimize("momentum:0.9", "cyclic:5,40", 200, o, &s, &r));
    assert_string_equal(r.searched, "non-negative coefficients that do not rise");
    for (int i = 0; i < check_blt(s, &scale, &gap); i++)
        assert_true(scale[i] > 0);
    falling = evaluated("momentum:0.9", "cyclic:5,40", 200, s, DPMF_LOSS_RMS, NULL);
    dpmf_strategy_free(s);
    o.signs = DPMF_SIGNS_ANY;
    check_ok(optimize("momentum:0.9", "cyclic:5,40", 200, o, &s, &r));
    assert_string_equal(r.searched, "coefficients of any sign");
    any = evaluated("momentum:0.9", "cyclic:5,40", 200, s, DPMF_LOSS_RMS, NULL);
    assert_true(any < 0.999 * falling);
    dpmf_strategy_free(s);
    s = NULL;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("prefix", "minsep:4,16", 64, o, &s, &r));
    check_message("signs any");
    assert_null(s);
}

static int stop(void *context, const char *what, double done) {
    (void)done;
    assert_non_null(strstr(what, "blt"));
    return ++*(int *)context > 5;
}

static void test_the_blt_optimizer_refuses_what_has_no_theorem(void **unused) {
    const double weights[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    dpmf_strategy *s = NULL;
    dpmf_optimization r = {.nodes = 99};
    dpmf_optimize_options o = with(DPMF_LOSS_RMS, 17);
    int calls = 0;
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, optimize("prefix", "single", 8, o, &s, &r));
    check_message("17");
    o = with(DPMF_LOSS_RMS, -1);
    check_fails(DPMF_ERROR_ARGUMENT, optimize("prefix", "single", 8, o, &s, &r));
    o = with(DPMF_LOSS_RMS, 0);
    o.wanted_ratio = 1;
    check_fails(DPMF_ERROR_ARGUMENT, optimize("prefix", "single", 8, o, &s, &r));
    o = with(DPMF_LOSS_MAX, 2);
    o.weights = weights;
    check_fails(DPMF_ERROR_ARGUMENT, optimize("prefix", "single", 8, o, &s, &r));
    o = with(DPMF_LOSS_RMS, 2);
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("cooldown:0.5:0.1", "single", 8, o, &s, &r));
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("prefix", "shuffled:2,4", 8, o, &s, &r));
    o.normalize = DPMF_NORMALIZE_WITHIN;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("momentum:0.5", "single", 8, o, &s, &r));
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("prefix", "cyclic:2,4", 8, o, &s, &r));
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("prefix", "single", (1 << 20) + 1, o, &s, &r));
    check_message("1048577");
    o.loss = DPMF_LOSS_MAX;
    check_fails(DPMF_ERROR_UNSUPPORTED, optimize("prefix", "single", 8, o, &s, &r));
    o = with(DPMF_LOSS_RMS, 2);
    o.run.progress = stop;
    o.run.context = &calls;
    check_fails(DPMF_ERROR_CANCELLED, optimize("prefix", "single", 800, o, &s, &r));
    assert_true(s == NULL && r.nodes == 99);
}

static void test_any_allocation_of_the_blt_optimizer_may_fail(void **unused) {
    dpmf_workload *a = NULL;
    dpmf_participation *p = NULL;
    double weights[20];
    dpmf_strategy *s = NULL;
    dpmf_optimization r = {0};
    dpmf_optimize_options o = with(DPMF_LOSS_RMS, 1);
    const optimize_task task = {NULL, NULL, &o, NULL};
    optimize_task full = task;
    (void)unused;
    for (int t = 0; t < 20; t++)
        weights[t] = 1 + t;
    o.weights = weights;
    o.normalize = DPMF_NORMALIZE_AFTER;
    check_ok(dpmf_workload_parse("momentum:0.9", 20, &a));
    check_ok(dpmf_participation_parse("single", 20, &p));
    full.workload = a;
    full.participation = p;
    FAIL_EACH(blt_optimize(&full, &s, &r));
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
    check_ok(dpmf_workload_parse("prefix", 20, &a));
    full.workload = a;
    o.normalize = DPMF_NORMALIZE_WITHIN;
    FAIL_EACH(blt_optimize(&full, &s, &r));
    dpmf_strategy_free(s);
    dpmf_workload_free(a);
    dpmf_participation_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_gradient_of_a_blt_is_that_of_differences),
        cmocka_unit_test(test_the_function_is_the_log_loss_of_the_blt),
        cmocka_unit_test(test_the_linear_route_gives_the_closed_form),
        cmocka_unit_test(test_losses_of_the_best_blt_are_the_known_ones),
        cmocka_unit_test(test_the_best_blt_is_no_worse_than_many_random_starts),
        cmocka_unit_test(test_a_buffer_more_never_hurts_at_ten_billion_steps),
        cmocka_unit_test(test_weights_make_another_blt_best),
        cmocka_unit_test(test_no_neighbour_beats_the_best_blt_of_another_workload),
        cmocka_unit_test(test_as_few_buffers_are_taken_as_the_ratio_needs),
        cmocka_unit_test(test_a_blt_normalized_after_has_less_loss),
        cmocka_unit_test(test_a_blt_normalized_within_has_still_less_loss),
        cmocka_unit_test(test_one_step_and_more_buffers_than_steps_are_fine),
        cmocka_unit_test(test_superfluous_buffers_are_dropped_and_decays_stay_below_1),
        cmocka_unit_test(test_signs_of_scales_can_be_chosen),
        cmocka_unit_test(test_the_blt_optimizer_refuses_what_has_no_theorem),
        cmocka_unit_test(test_any_allocation_of_the_blt_optimizer_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
