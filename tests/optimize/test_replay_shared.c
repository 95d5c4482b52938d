/* SPDX-License-Identifier: Apache-2.0 */
/* Shared class seeds: the gradient against differences, what the search finds against dense matrices, its ratio. */
#include "families/replay/replay.h"
#include "support/check.h"

#include "support/replay_cases.h"

#include <math.h>

static double at(replay_shared_work *s) {
    double loss = 0;
    check_ok(replay_shared_loss(s, s->parameters, &loss, NULL));
    assert_true(isfinite(loss));
    return loss;
}

/* At the start that a short search with replayed seeds gives. */
static void check_gradient(const char *text, int64_t n, int64_t b, int seeds) {
    dpmf_workload *a = workload_of(text, n);
    const replay_options o = {.buffers = 2, .iterations = 10};
    replay_result r = {0};
    replay_shared_work s = {0};
    replay c = {0};
    check_ok(replay_search(a, b, &o, &r));
    check_ok(replay_create(&r.shape, r.parameters, NULL, &c));
    check_ok(replay_shared_work_alloc(a, &r.shape, seeds, NULL, &s));
    check_ok(replay_shared_start(&c, r.parameters, &s));
    s.smoothing = 0.5;
    const int64_t count = replay_shared_count(&r.shape, seeds);
    double *gradient = doubles(count), loss = 0, size = 1e-5;
    check_ok(replay_shared_loss(&s, s.parameters, &loss, gradient));
    for (int64_t i = 0; i < count; i++) {
        const double here = s.parameters[i];
        s.parameters[i] = here + size;
        const double above = at(&s);
        s.parameters[i] = here - size;
        check_near(gradient[i], (above - at(&s)) / (2 * size), 1e-8);
        s.parameters[i] = here;
    }
    free(gradient);
    replay_shared_work_free(&s);
    replay_free(&c);
    replay_result_free(&r);
    dpmf_workload_free(a);
}

static void test_the_shared_gradient_is_that_of_differences(void **unused) {
    (void)unused;
    check_gradient("prefix", 24, 8, 2);
    check_gradient("momentum:0.5", 22, 8, 1);
}

/* The covariance of the noise from own and shared seeds is W W', and the sensitivity is at most 1. */
static void check_law(replay *c, const replay_shared *s) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers, l = s->seeds;
    double *w = matrix_of(c, 1), *squares = doubles(b), *state = doubles(r * (n + b * l)), *u = doubles(n + b * l);
    double *rows = doubles(n * (n + b * l)), *unused_mix = doubles(c->shape.epochs);
    const int64_t wide = n + b * l; /* seeds: n own ones, then l per class */
    for (int64_t t = 0; t < n; t++) {
        const replay_step now = replay_at(c, t, unused_mix);
        memset(u, 0, (size_t)wide * sizeof *u);
        u[t] = s->own[t];
        for (int i = 0; i < l; i++)
            u[n + t % b * l + i] = s->weight[t * l + i];
        for (int64_t i = 0; i < wide; i++) {
            double sum = u[i];
            for (int j = 0; j < r; j++) {
                sum += now.h[j] * state[j * wide + i];
                state[j * wide + i] = now.rho[j] * state[j * wide + i] + now.beta[j] * u[i];
            }
            rows[t * wide + i] = now.scale * sum;
        }
        for (int64_t i = 0; i <= t; i++)
            check_near(base_dot(wide, rows + t * wide, rows + i * wide), base_dot(n, w + t * n, w + i * n), 1e-10);
    }
    for (int exact = 0; exact <= 1; exact++) {
        check_ok(replay_sensitivities(c, exact, NULL, squares));
        for (int64_t p = 0; p < b; p++)
            assert_true(squares[p] <= 1 + 1e-12 && squares[p] > 0.9);
    }
    free(w), free(squares), free(state), free(u), free(rows), free(unused_mix);
}

static void check_found(const char *text, int64_t n, int64_t b, int seeds, int iterations, double largest_loss) {
    dpmf_workload *a = workload_of(text, n);
    const replay_options o = {.buffers = 4, .iterations = iterations};
    replay_shared_result found = {0};
    replay_shared s = {0};
    replay c = {0};
    check_ok(replay_shared_search(a, b, seeds, &o, &found));
    check_ok(replay_shared_create(&found.shape, seeds, found.parameters, NULL, &c, &s));
    double *squares = doubles(n);
    check_ok(replay_errors(a, &c, NULL, squares));
    check_near(found.loss / sqrt(base_sum(n, squares) / (double)n), 1, 1e-10);
    if (!(found.loss <= largest_loss))
        fail_msg("%s, n = %lld, %d shared seeds: loss %.8g, wanted %.8g", text, (long long)n, seeds, found.loss,
                 largest_loss);
    if (n <= 64) check_law(&c, &s);
    free(squares);
    replay_shared_free(&s);
    replay_free(&c);
    replay_shared_result_free(&found);
    dpmf_workload_free(a);
}

static void test_shared_seeds_come_near_the_bound(void **unused) {
    (void)unused;
    check_found("prefix", 64, 16, 2, 30, INFINITY);
    check_found("momentum:0.9", 59, 16, 1, 30, INFINITY);
    check_found("prefix", 256, 32, 3, 0, 1.005 * 8.0343196); /* the bound of dpmf optimize --family dense */
}

static void test_max_loss_and_bad_seed_counts_are_refused(void **unused) {
    dpmf_workload *a = workload_of("prefix", 32);
    const replay_options o = {.buffers = 2, .max_loss = 1}, p = {.buffers = 2, .iterations = 2};
    replay_shared_result found = {0};
    (void)unused;
    check_fails(DPMF_ERROR_UNSUPPORTED, replay_shared_search(a, 8, 1, &o, &found));
    check_fails(DPMF_ERROR_ARGUMENT, replay_shared_search(a, 8, 9, &p, &found));
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_shared_gradient_is_that_of_differences),
                                       cmocka_unit_test(test_shared_seeds_come_near_the_bound),
                                       cmocka_unit_test(test_max_loss_and_bad_seed_counts_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
