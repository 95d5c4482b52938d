/* SPDX-License-Identifier: Apache-2.0 */
/* A TV-BLT with replayed seeds against dense matrices, for the tests of the strategy and of its search. */
#ifndef DPMF_TESTS_REPLAY_CASES_H
#define DPMF_TESTS_REPLAY_CASES_H

#include "support/check.h"

#include "base/linalg.h"
#include "error/error.h"
#include "families/replay/replay.h"

#include <stdlib.h>
#include <string.h>

typedef replay_coefficients replay;
typedef replay_shape shape_t;

static inline double *doubles(int64_t count) {
    double *x = calloc((size_t)count, sizeof *x);
    assert_non_null(x);
    return x;
}

/* W and C as matrices, by impulses. */
static inline double *matrix_of(const replay *c, int inverse) {
    const int64_t n = c->shape.steps;
    double *out = doubles(n * n), *x = doubles(n);
    for (int64_t j = 0; j < n; j++) {
        memset(x, 0, (size_t)n * sizeof *x);
        x[j] = 1;
        check_ok(inverse ? replay_solve(c, x, x) : replay_apply(c, x, x));
        for (int64_t t = 0; t < n; t++)
            out[t * n + j] = x[t];
    }
    free(x);
    return out;
}

/* W by the stream as a noise generator would run it, from the coefficients of each step. */
static inline double *streamed(const replay *c) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers;
    double *out = doubles(n * n), *state = doubles(r * n), *a = doubles(c->shape.epochs), *u = doubles(n);
    for (int64_t t = 0; t < n; t++) {
        replay_step now = replay_at(c, t, a);
        memset(u, 0, (size_t)n * sizeof *u);
        for (int j = 0; j < now.seeds; j++)
            u[t - j * b] = a[j];
        for (int64_t i = 0; i < n; i++) {
            double sum = u[i];
            for (int j = 0; j < r; j++) {
                sum += now.h[j] * state[j * n + i];
                state[j * n + i] = now.rho[j] * state[j * n + i] + now.beta[j] * u[i];
            }
            out[t * n + i] = now.scale * sum;
        }
    }
    free(state), free(a), free(u);
    return out;
}

static inline void check_errors(const replay *c, const char *text, const double *w) {
    const int64_t n = c->shape.steps;
    dpmf_workload *a = NULL;
    check_ok(dpmf_workload_parse(text, n, &a));
    double *ours = doubles(n), *state = doubles(n * workload_buffers(a)), *row = doubles(n);
    check_ok(replay_errors(a, c, NULL, ours));
    for (int64_t t = 0; t < n; t++) {
        workload_step(a, t, n, w + t * n, state, row);
        check_near(ours[t] / base_dot(n, row, row), 1, 1e-10);
    }
    free(ours), free(state), free(row);
    dpmf_workload_free(a);
}

/* The blocks of X = C'C in the classes are diag(profile), and the sensitivities that are claimed are 1. */
static inline void check_cancelled(replay *c, const double *dense) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double *squares = doubles(b);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i % b; j <= i; j += b) {
            double sum = 0;
            for (int64_t t = i; t < n; t++)
                sum += dense[t * n + i] * dense[t * n + j];
            check_near(sum, i == j ? c->profile[i] : 0, 1e-10);
        }
    for (int exact = 0; exact <= 1; exact++) {
        check_ok(replay_sensitivities(c, exact, NULL, squares));
        for (int64_t p = 0; p < b; p++)
            check_near(squares[p], 1, 1e-10);
    }
    free(squares);
}

/* All of it. */
static inline void check_dense(replay *c, const char *workload) {
    const int64_t n = c->shape.steps;
    double *w = matrix_of(c, 1), *dense = matrix_of(c, 0), *again = streamed(c);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t t = j; t <= i; t++)
                sum += w[i * n + t] * dense[t * n + j];
            check_near(sum, i == j, 1e-10);
            check_near(again[i * n + j], w[i * n + j], 1e-12);
            if (j > i) assert_true(w[i * n + j] == 0);
        }
    check_cancelled(c, dense);
    check_errors(c, workload, w);
    free(w), free(dense), free(again);
}

#endif
