/* SPDX-License-Identifier: Apache-2.0 */
/* The law of noise that is drawn late (noise/lazy_law.c), for the lazy stream (noise/lazy.c) and its tests. */
#ifndef DPMF_NOISE_LAZY_H
#define DPMF_NOISE_LAZY_H

#include "strategy/strategy.h"

/* A strategy with more buffers is refused: its draws would take longer than the rows that they replace. */
enum { NOISE_LAZY_BUFFERS = 16, NOISE_LAZY_OUTPUTS = NOISE_LAZY_BUFFERS + 1 };

/*
 * (S, m') = P m + L x: S is the sum of factor[u] x row u of W Z for u = from .. to-1, m and m' are the buffers before steps
 * `from` and `to`, x are standard normals. P is (1 + r) x r, L is (1 + r) x (1 + r) and lower triangular; both row-major with
 * 1 + r rows, output 0 being S.
 */
typedef struct noise_lazy_law {
    const dpmf_strategy *strategy;
    const double *factor;
    int64_t buffers, from, to;
    int64_t seeds_max;
    double p[NOISE_LAZY_OUTPUTS * NOISE_LAZY_BUFFERS], l[NOISE_LAZY_OUTPUTS * NOISE_LAZY_OUTPUTS];
    double *memory, *state, *seed, *row; /* of one step as a matrix: see noise_lazy_back */
} noise_lazy_law;

/* Whether the noise of a strategy can be drawn late; else the message has the reason. */
DPMF_MUST_CHECK dpmf_status noise_lazy_check(const dpmf_strategy *strategy);

/* `factor` has a number for each step and is borrowed, like the strategy. */
DPMF_MUST_CHECK dpmf_status noise_lazy_open(const dpmf_strategy *strategy, const double *factor, noise_lazy_law *law);
void noise_lazy_close(noise_lazy_law *law);

/* From step `to` to itself: S = 0 and m' = m. */
void noise_lazy_begin(noise_lazy_law *law, int64_t to);

/* One step more: `from` becomes from - 1 >= 0. Never allocates. */
void noise_lazy_back(noise_lazy_law *law);

#endif
