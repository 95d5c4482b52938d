/* SPDX-License-Identifier: Apache-2.0 */
/* A TV-BLT with replayed seeds, or with shared class seeds, from random parameters near a filter that decays. */
#ifndef DPMF_TESTS_REPLAY_STRATEGY_H
#define DPMF_TESTS_REPLAY_STRATEGY_H

#include "families/replay/replay.h"
#include "support/check.h"

#include "strategy/strategy.h"

#include <stdlib.h>

static inline void fill_filter(int64_t count, int buffers, uint64_t *seed, double *h, double *kappa, double *logit) {
    for (int64_t i = 0; i < count * buffers; i++) {
        h[i] = -0.3 / (1 + (double)(i % buffers)) + 0.02 * check_random(seed);
        kappa[i] = 0.3 / (1 + (double)(i % buffers)) + 0.02 * check_random(seed);
    }
    for (int j = 0; j < buffers; j++)
        logit[j] = 1.5 * j - 1 + check_random(seed);
}

/* seeds = 0: replayed. */
static inline dpmf_strategy *replay_strategy(int64_t n, int64_t b, int buffers, int seeds) {
    replay_shape s = {0};
    dpmf_strategy *out = NULL;
    uint64_t x = 17;
    check_ok(replay_shape_create(n, b, buffers, 1, &s));
    const int64_t count = seeds == 0 ? replay_count(&s) : replay_shared_count(&s, seeds);
    const int64_t nodes = (int64_t)s.epochs * s.nodes;
    double *parameters = calloc((size_t)count, sizeof *parameters);
    assert_non_null(parameters);
    if (seeds == 0) {
        replay_view v = replay_look(&s, parameters);
        fill_filter(nodes, buffers, &x, v.h, v.kappa, v.logit);
        for (int64_t i = 0; i < nodes; i++)
            v.profile[i] = 0.1 * check_random(&x);
        for (int i = 0; i < s.nodes; i++)
            v.scale[i] = 0.1 * check_random(&x);
    } else {
        replay_shared_view v = replay_shared_look(&s, seeds, parameters);
        fill_filter(nodes, buffers, &x, v.h, v.kappa, v.logit);
        for (int64_t i = 0; i < nodes; i++)
            v.own[i] = 0.1 * check_random(&x);
        for (int64_t i = 0; i < nodes * seeds; i++)
            v.weight[i] = 0.4 * check_random(&x);
    }
    check_ok(replay_make(&s, seeds, parameters, NULL, &out));
    free(parameters);
    replay_shape_free(&s);
    return out;
}

#endif
