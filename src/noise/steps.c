/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that call the strategy's own step, in double, tile by tile. Strategies without a faster route use it: a user's
 * operators and Nesterov's workloads. Buffers are double for any precision; seeds and rows are converted.
 */
#include "noise/plan.h"

#include <string.h>

typedef struct shared {
    int64_t step;
    uint64_t seed;
} shared;

enum { REPLAY = 64 };
static const int64_t CACHE = 200000;

static void prepare_steps(noise_stream *s, int64_t t, int64_t rows) {
    shared *head = (shared *)s->shared;
    (void)rows;
    head->step = t;
    head->seed = noise_route_seed_row(s, t); /* one per step */
}

/* The scratch has the row, then the seed as it is made, then the seed and the row in double. */
static void make_step_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const shared *head = (const shared *)s->shared;
    const dpmf_strategy *c = s->plan.strategy;
    int64_t count = tile->count;
    float *single_row = (float *)scratch;
    double *z = (double *)scratch + count, *y = s->precision == DPMF_FLOAT64 ? (double *)scratch : z + count;
    float *single_seed = (float *)(z + 2 * count);
    for (int64_t r = 0; r < rows; r++) {
        noise_fill_seed(s, tile, head->seed + (uint64_t)r,
                        s->precision == DPMF_FLOAT64 ? (void *)z : (void *)single_seed);
        for (int64_t i = 0; i < count && s->precision == DPMF_FLOAT32; i++)
            z[i] = single_seed[i];
        c->ops->step(c, head->step + r, count, z, (double *)tile->slots, y);
    }
    for (int64_t i = 0; i < count && s->precision == DPMF_FLOAT32; i++)
        single_row[i] = (float)y[i];
}

static const void *step_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

static const noise_route STEPS = {
    .in_doubles = 1, .has_state = 1, .prepare = prepare_steps, .make = make_step_rows, .row = step_row};

void noise_plan_steps(noise_plan *plan) {
    plan->route = &STEPS;
    plan->slots = strategy_buffers(plan->leaf);
    plan->work =
        (noise_work){1, 50 * (double)plan->slots}; /* loops in double, one number at a time, with conversions */
    plan->replay = REPLAY;
    plan->mapped = 0;
    plan->scratch_rows = 4;
    plan->cache = CACHE;
    plan->cache_rows = 2 * plan->slots + 8; /* of the precision's size, which may be half of these */
    plan->shared_bytes = noise_round_up((int64_t)sizeof(shared), 64);
}
