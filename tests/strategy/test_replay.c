/* SPDX-License-Identifier: Apache-2.0 */
/* TV-BLT with replayed seeds: random parameters against dense matrices, the stream's coefficients, threads, refusals. */
#include "families/replay/replay.h"
#include "support/check.h"

#include "support/replay_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const WORKLOADS[] = {"prefix",           "momentum:0.9",
                                        "nesterov:0.9",     "decay:0.05",
                                        "cooldown:0.5:0.1", "momentum:0.95,decay:0.01,cooldown:0.25:0.05"};
enum { WORKLOADS_COUNT = sizeof WORKLOADS / sizeof *WORKLOADS };

/* Parameters of a filter that decays like the square root of a difference, shaken at every node. */
static double *shaken(const shape_t *s, double size, uint64_t *seed) {
    double *x = doubles(replay_count(s));
    replay_view v = replay_look(s, x);
    for (int64_t i = 0; i < (int64_t)s->epochs * s->nodes * s->buffers; i++) {
        v.h[i] = -0.4 / (1 + (double)(i % s->buffers)) + size * check_random(seed);
        v.kappa[i] = 0.4 / (1 + (double)(i % s->buffers)) + size * check_random(seed);
    }
    for (int j = 0; j < s->buffers; j++)
        v.logit[j] = 2.0 * j - 1 + check_random(seed);
    for (int64_t i = 0; i < (int64_t)s->epochs * s->nodes; i++)
        v.profile[i] = 5 * size * check_random(seed);
    for (int i = 0; i < s->nodes; i++)
        v.scale[i] = 5 * size * check_random(seed);
    return x;
}

/* A mechanism near random parameters: the filter is made weaker until there is one. */
static replay mechanism(const shape_t *s, double *parameters) {
    replay_view v = replay_look(s, parameters);
    replay c = {0};
    for (int tries = 0; tries < 8; tries++) {
        if (replay_create(s, parameters, NULL, &c) == DPMF_OK) return c;
        for (int64_t i = 0; i < (int64_t)s->epochs * s->nodes * s->buffers; i++)
            v.h[i] *= 0.7;
    }
    fail_msg("no mechanism near these parameters");
    return c;
}

static void test_random_parameters_agree_with_dense_algebra(void **unused) {
    uint64_t seed = 1;
    (void)unused;
    for (int i = 0; i < 50; i++) {
        int64_t b = 1 + (int64_t)(20 * fabs(check_random(&seed))),
                n = b + (int64_t)((double)(199 - b) * fabs(check_random(&seed)));
        if (n > 10 * b) n = 10 * b - i % 3 % b;
        shape_t s = {0};
        check_ok(replay_shape_create(n, b, 1 + i % 5, 1 + i % 2, &s));
        double *x = shaken(&s, 0.02, &seed);
        replay c = mechanism(&s, x);
        check_dense(&c, WORKLOADS[i % WORKLOADS_COUNT]);
        replay_free(&c);
        free(x);
        replay_shape_free(&s);
    }
}

/* P that was not solved for: X and both bounds against the dense X, and vectors that try to beat them. */
static void check_uncancelled(replay *c, uint64_t *seed) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double *dense = matrix_of(c, 0), *bound[2] = {doubles(b), doubles(b)}, *x = doubles(100);
    check_ok(replay_sensitivities(c, 0, NULL, bound[0]));
    check_ok(replay_sensitivities(c, 1, NULL, bound[1]));
    for (int64_t p = 0; p < b; p++) {
        int k = replay_members(&c->shape, p);
        double sum = 0, best = 0;
        for (int i = 0; i < k; i++)
            for (int j = 0; j < k; j++) {
                x[i * k + j] = 0;
                for (int64_t t = 0; t < n; t++)
                    x[i * k + j] += dense[t * n + i * b + p] * dense[t * n + j * b + p];
                sum += fabs(x[i * k + j]);
            }
        check_near(bound[0][p] / sum, 1, 1e-10);
        assert_true(bound[1][p] <= bound[0][p] * (1 + 1e-12));
        for (int trial = 0; trial < 200; trial++) { /* contributions of norm 1 with two coordinates */
            double value = 0, angle[10];
            for (int i = 0; i < k; i++)
                angle[i] = trial == 0 ? 0 : 4 * check_random(seed);
            for (int i = 0; i < k; i++)
                for (int j = 0; j < k; j++)
                    value += x[i * k + j] * cos(angle[i] - angle[j]);
            best = fmax(best, value);
        }
        assert_true(best <= bound[1][p] * (1 + 1e-12));
        assert_true(bound[1][p] <= 1.5 * best);
    }
    free(dense), free(bound[0]), free(bound[1]), free(x);
}

static void test_no_contribution_beats_the_bound_of_an_uncancelled_class(void **unused) {
    uint64_t seed = 7;
    (void)unused;
    for (int i = 0; i < 20; i++) {
        int64_t b = 3 + i % 7, n = b * (2 + i % 4) + i % 3;
        int definite = 0;
        shape_t s = {0};
        replay c = {0};
        check_ok(replay_shape_create(n, b, 1 + i % 4, 1, &s));
        double *x = shaken(&s, 0.05, &seed);
        check_ok(replay_create(&s, x, NULL, &c));
        for (int e = 0; e < s.epochs; e++)
            for (int g = 0; g < e; g++)
                for (int64_t p = 0; p < (e == s.epochs - 1 ? s.last : b); p++)
                    c.precision[replay_pair(e, g) * b + p] += 0.02 * check_random(&seed);
        check_ok(replay_factor(&c, NULL, &definite));
        assert_true(definite);
        check_uncancelled(&c, &seed);
        check_ok(replay_unfactor(&c, NULL, &definite));
        assert_true(definite);
        check_uncancelled(&c, &seed);
        free(x);
        replay_free(&c);
        replay_shape_free(&s);
    }
}

static void test_the_class_bound_is_the_least(void **unused) {
    const double frustrated[] = {1, -0.4, -0.4, -0.4, 1, -0.4, -0.4, -0.4, 1}; /* three vectors at 120 degrees: 4.2 */
    double square = 0;
    (void)unused;
    check_ok(replay_class_bound(3, frustrated, &square));
    check_near(square, 4.2, 1e-8);
    assert_true(square >= 4.2 - 1e-14);
}

static void test_threads_do_not_change_replayed_coefficients(void **unused) {
    uint64_t seed = 3;
    shape_t s = {0};
    replay one = {0}, two = {0};
    base_pool *pool = NULL;
    (void)unused;
    check_ok(base_pool_create(3, &pool));
    check_ok(replay_shape_create(4 * 600 - 77, 600, 4, 1, &s));
    double *x = shaken(&s, 0.01, &seed);
    check_ok(replay_create(&s, x, NULL, &one));
    check_ok(replay_create(&s, x, pool, &two));
    size_t bytes = (size_t)(replay_pairs(&s) * s.period) * sizeof *one.mix;
    assert_memory_equal(one.mix, two.mix, bytes);
    assert_memory_equal(one.factor, two.factor, bytes);
    free(x);
    replay_free(&one);
    replay_free(&two);
    replay_shape_free(&s);
    base_pool_free(pool);
}

static void test_bad_replay_shapes_are_refused(void **unused) {
    shape_t s = {0};
    replay c = {0};
    uint64_t seed = 9;
    const int64_t bad[] = {0, 3, 2, 9};
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, replay_shape_create(10, 11, 2, 1, &s));
    check_fails(DPMF_ERROR_ARGUMENT, replay_shape_create(10, 5, 0, 1, &s));
    check_fails(DPMF_ERROR_UNSUPPORTED, replay_shape_create(100000, 2, 2, 1, &s));
    check_fails(DPMF_ERROR_ARGUMENT, replay_shape_from(20, 10, 2, 4, bad, &s));
    check_ok(replay_shape_create(40, 10, 2, 1, &s));
    double *x = shaken(&s, 0.01, &seed);
    replay_look(&s, x).h[3] = 1e3;
    check_fails(DPMF_ERROR_NUMERICAL, replay_create(&s, x, NULL, &c));
    free(x);
    replay_shape_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_parameters_agree_with_dense_algebra),
        cmocka_unit_test(test_no_contribution_beats_the_bound_of_an_uncancelled_class),
        cmocka_unit_test(test_the_class_bound_is_the_least),
        cmocka_unit_test(test_threads_do_not_change_replayed_coefficients),
        cmocka_unit_test(test_bad_replay_shapes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
