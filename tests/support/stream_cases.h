/* SPDX-License-Identifier: Apache-2.0 */
/* One strategy of every family, plain, normalized, repeated, and both, for the tests of the noise stream. */
#ifndef DPMF_TESTS_STREAM_CASES_H
#define DPMF_TESTS_STREAM_CASES_H

#include "families/blt/blt.h"
#include "families/taps/taps.h"
#include "families/tvblt/tvblt.h"
#include "strategy/strategy.h"
#include "support/check.h"
#include "support/replay_strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dpmf_strategy *named_case(const char *family, const char *workload, int64_t n, int64_t bands) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.bands = bands < n ? bands : n; /* a repeated block may be short */
    check_ok(dpmf_workload_parse(workload, n, &a));
    check_ok(dpmf_strategy_create(family, a, &o, &s));
    dpmf_workload_free(a);
    return s;
}

static dpmf_strategy *tree_case(const char *family, int64_t n, int64_t branching, dpmf_decoder decoder) {
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.branching = branching;
    o.decoder = decoder;
    check_ok(dpmf_workload_parse("prefix", n, &a));
    check_ok(dpmf_strategy_create(family, a, &o, &s));
    dpmf_workload_free(a);
    return s;
}

/* Lower triangular, near the identity: its inverse is of the same size. */
static void fill_lower(int64_t n, double *matrix) {
    uint64_t x = 7;
    memset(matrix, 0, (size_t)(n * n) * sizeof *matrix);
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t; u++)
            matrix[t * n + u] = t == u ? 1.5 + check_random(&x) / 2 : check_random(&x) / (double)(2 + t - u);
}

static dpmf_strategy *dense_case(int64_t n, int workload) {
    double *matrix = calloc((size_t)(n * n), sizeof(double));
    dpmf_strategy *s = NULL;
    dpmf_workload *a = NULL;
    fill_lower(n, matrix);
    if (workload) {
        check_ok(dpmf_workload_create_dense(n, matrix, &a));
        check_ok(dpmf_strategy_create("workload", a, NULL, &s));
        dpmf_workload_free(a);
    } else {
        check_ok(dpmf_strategy_create_dense(n, matrix, &s));
    }
    free(matrix);
    return s;
}

static dpmf_strategy *banded_case(int64_t n, int64_t most) {
    int64_t bands = most < n ? most : n;
    double *rows = calloc((size_t)(n * bands), sizeof(double));
    uint64_t x = 3;
    dpmf_strategy *s = NULL;
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < bands && j <= t; j++)
            rows[t * bands + j] = j == 0 ? 1.5 + check_random(&x) / 2 : check_random(&x) / (double)(1 + j);
    check_ok(dpmf_strategy_create_banded(n, bands, rows, &s));
    free(rows);
    return s;
}

static dpmf_strategy *blt_case(int64_t n, int buffers) {
    double scale[8], decay[8];
    dpmf_strategy *s = NULL;
    for (int i = 0; i < buffers; i++) {
        scale[i] = 0.3 / (1 + i);
        decay[i] = 1 - pow(0.2, i + 1);
    }
    check_ok(dpmf_strategy_create_blt(n, buffers, scale, decay, NULL, &s));
    return s;
}

static dpmf_strategy *tvblt_case(int64_t n, int nodes, int order) {
    tvblt_parameters c = {0};
    uint64_t x = 11;
    dpmf_strategy *s = NULL;
    check_ok(tvblt_alloc(n, nodes, order, &c));
    for (int64_t t = 0; t < n; t++) {
        c.diagonal[t] = 1.2 + check_random(&x) / 5;
        for (int j = 0; j < nodes * order && t < n - 1; j++) {
            c.keep[t * nodes * order + j] = order == 1 ? 0.8 + check_random(&x) / 10 : -0.2 + check_random(&x) / 10;
            c.gain[t * nodes * order + j] = check_random(&x) / 4;
        }
    }
    check_ok(tvblt_create(&c, &s));
    return s;
}

static dpmf_strategy *lowrank_case(int64_t n, int64_t bands, int64_t rank) {
    double *rows = calloc((size_t)(n * bands), sizeof(double));
    double *left = calloc((size_t)(n * rank), sizeof(double)), *right = calloc((size_t)(n * rank), sizeof(double));
    uint64_t x = 5;
    dpmf_strategy *s = NULL;
    for (int64_t t = 0; t < n; t++) {
        for (int64_t j = 0; j < bands && j <= t; j++)
            rows[t * bands + j] = j == 0 ? 1.3 : check_random(&x) / 4;
        for (int64_t k = 0; k < rank; k++) {
            left[t * rank + k] = check_random(&x) / 8;
            right[t * rank + k] = check_random(&x) / 8;
        }
    }
    check_ok(dpmf_strategy_create_lowrank(n, bands, rank, rows, left, right, &s));
    free(rows);
    free(left);
    free(right);
    return s;
}

/* Four taps with gaps, and one at half of the steps, as of a second epoch. */
static dpmf_strategy *taps_case(int64_t n, int by_step) {
    const int64_t lag[] = {0, 1, 3, n / 2 > 3 ? n / 2 : 4};
    double *weight = calloc((size_t)(n * 4), sizeof(double));
    uint64_t x = 13;
    int taps = 0;
    dpmf_strategy *s = NULL;
    while (taps < 4 && lag[taps] < n)
        taps++;
    for (int64_t t = 0; t < (by_step ? n : 1); t++)
        for (int i = 0; i < taps; i++)
            if (!by_step || lag[i] <= t) weight[t * taps + i] = i == 0 ? 1.1 : -check_random(&x) / 4;
    check_ok(taps_create(n, taps, lag, by_step ? n : 1, weight, &s));
    free(weight);
    return s;
}

/* m <- m/2 + x, y = x + m/4. */
static void case_step(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t;
    for (int64_t i = 0; i < count; i++) {
        y[i] = x[i] + state[i] / 4;
        state[i] = state[i] / 2 + x[i];
    }
}

static dpmf_strategy *operator_case(int64_t n, int inverse) {
    const dpmf_operator op = {NULL, 1, case_step, NULL};
    dpmf_strategy *s = NULL;
    check_ok(dpmf_strategy_create_operator(n, &op, inverse, &s));
    return s;
}

enum { PLAIN_CASES = 41, WRAPPINGS = 4, STREAM_CASES = PLAIN_CASES * WRAPPINGS };

static dpmf_strategy *plain_case(int which, int64_t n) {
    const double coefficients[] = {1, -0.4, 0.3, 0.2, -0.1, 0.05};
    dpmf_strategy *s = NULL;
    switch (which) {
    case 0:
        return named_case("identity", "prefix", n, 0);
    case 1:
        return named_case("workload", "prefix", n, 0);
    case 2:
        return named_case("workload", "momentum:0.9,cooldown:0.5:0.1", n, 0);
    case 3:
        return named_case("workload", "nesterov:0.5", n, 0);
    case 4:
        return dense_case(n, 1);
    case 5:
        return named_case("toeplitz", "prefix", n, 0);
    case 6:
        return named_case("bsr", "prefix", n, 2);
    case 7:
        return named_case("bsr", "prefix", n, 5);
    case 8:
        return named_case("bsr", "momentum:0.5", n, 12);
    case 9:
        return named_case("bisr", "prefix", n, 3);
    case 10:
        return named_case("bisr", "prefix", n, 7);
    case 11:
        return named_case("tree", "prefix", n, 0);
    case 12:
        return named_case("tree-online", "prefix", n, 0);
    case 13:
        return named_case("tree-full", "prefix", n, 0);
    case 14:
        return named_case("fft", "prefix", n, 0);
    case 15:
        return named_case("fft-opt", "prefix", n, 0);
    case 16:
        return dense_case(n, 0);
    case 17:
        return banded_case(n, 1);
    case 18:
        return banded_case(n, 2);
    case 19:
        return banded_case(n, 9);
    case 20:
        return blt_case(n, 1);
    case 21:
        return blt_case(n, 7);
    case 22:
        return tvblt_case(n, 4, 1);
    case 23:
        return tvblt_case(n, 9, 1);
    case 24:
        return tvblt_case(n, 3, 2);
    case 25:
        return lowrank_case(n, 4, 3);
    case 26:
        return lowrank_case(n, 1, 2);
    case 27:
        return operator_case(n, 0);
    case 28:
        return replay_strategy(n, (n + 2) / 3, 2, 0);
    case 29:
        return replay_strategy(n, n / 7 > 0 ? n / 7 : 1, 9, 0);
    case 30:
        return replay_strategy(n, (n + 3) / 4, 4, 2);
    case 31:
        return named_case("unbounded", "prefix", n, 0);
    case 32:
        return named_case("blt-rational", "prefix", n, 0);
    case 33:
        return named_case("blt-tree", "prefix", n, 0);
    case 34:
        return tree_case("tree", n, 3, DPMF_DECODER_DEFAULT);
    case 35:
        return tree_case("tree-online", n, 5, DPMF_DECODER_DEFAULT);
    case 36:
        return tree_case("tree-full", n, 3, DPMF_DECODER_DEFAULT);
    case 37:
        return tree_case("smooth-binary", n, 0, DPMF_DECODER_RESTART);
    case 38:
        return tree_case("smooth-binary", n, 0, DPMF_DECODER_OPTIMAL);
    case 39:
        return taps_case(n, 1);
    default:
        check_ok(dpmf_strategy_create_toeplitz(n, DPMF_TOEPLITZ_BANDED, n < 6 ? n : 6, coefficients, &s));
        return s;
    }
}

/* Case k over n steps, n a multiple of 4: plain, normalized, repeated 4 times, repeated and normalized. */
static inline dpmf_strategy *stream_case(int k, int64_t n, char name[96]) {
    static const char *const how[] = {"", ", normalized", ", repeated", ", repeated and normalized"};
    int wrapping = k / PLAIN_CASES;
    dpmf_strategy *plain = plain_case(k % PLAIN_CASES, wrapping >= 2 ? n / 4 : n), *repeated = NULL, *s = NULL;
    check_ok(dpmf_strategy_create_stamped(plain, wrapping >= 2 ? 4 : 1, &repeated));
    if (wrapping % 2 == 1)
        check_ok(dpmf_strategy_create_normalized(repeated, &s));
    else
        s = strategy_retain(repeated);
    snprintf(name, 96, "case %d: %s%s", k % PLAIN_CASES, dpmf_strategy_get(s).family, how[wrapping]);
    dpmf_strategy_free(plain);
    dpmf_strategy_free(repeated);
    return s;
}

#endif
