/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams with a few buffers that are updated at every step, in one pass over seed, buffers and output:
 *
 *     BLT (families/blt)         y = z - sum_j alpha_j m_j,   m_j <- (m_j - gap_j m_j) + y
 *     TV-BLT (families/tvblt)    y = diagonal z + sum_j x_j,  x_j <- x_j + ((keep_j - 1) x_j + gain_j z),  or of order 2
 *
 * Decays that matter over n steps are about 1/n from 1. Rounded to float, a decay that is 1 - 1e-7 would be 1 or 1 -
 * 6e-8; its distance from 1 is held to full relative precision instead, and the buffer itself is what is rounded.
 *
 * Rows are not made ahead: they would need separate memory. Without a row to emit (a replay), a tile's buffers stay
 * in the cache for many steps. With one, buffers that no cache holds are read and written at every step, which takes as
 * long as making the seeds, and seeds need no memory: so the next tile's buffers are prefetched while the seeds of this
 * one are made, a few at a time, since a processor has room for about two dozen memory requests.
 */
#include "noise/plan.h"

#include "strategy/strategy.h"

#include <string.h>

/* The steps of a replay during which a tile stays in the cache. */
enum { REPLAY = 64 };

/* The seed and buffers of a tile should stay in the first-level cache, 32 KB or more. */
static const int64_t CACHE = 26000;

static int64_t weight_count(const noise_plan *plan) {
    return 2 * plan->slots + 2; /* a BLT has one less, unless it is exact */
}

typedef struct shared {
    int64_t step;
    uint64_t seed;
} shared;

static int64_t head_bytes(void) {
    return noise_round_up((int64_t)sizeof(shared), 64);
}

static char *weights_at(const noise_stream *s, int64_t row) {
    return s->shared + head_bytes() + (size_t)(row * weight_count(&s->plan)) * s->plan.size;
}

static void prepare_states(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    shared *head = (shared *)s->shared;
    head->step = t;
    head->seed = noise_route_seed_row(s, t); /* one per step, also from one block to the next */
    for (int64_t r = 0; r < rows; r++)
        plan->states.fill(s, (t + r) % plan->length, noise_route_factor(plan, t + r), weights_at(s, r));
}

/* The factor of an exact row's own seed. */
static double own_weight(const noise_stream *s, int64_t r) {
    const double *weight = (const double *)weights_at(s, r);
    return s->plan.states.kernel == DPMF_RECIPE_BLT ? weight[2 * s->plan.slots]
                                                    : weight[0] * weight[1 + 2 * s->plan.slots];
}

/* Buffers of NO_CACHE bytes fit no cache. SEEDS are made at a time, with their share of the next buffers: 32 lines. */
static const int64_t NO_CACHE = 1 << 24, SEEDS = 128;
enum { LINE = 64 };

/* Makes the seeds of a row and prefetches the buffers of the next tile, if there is one: they follow this tile's. */
static void fill_and_fetch(const noise_stream *s, const noise_tile *tile, uint64_t row, char *out) {
    const noise_plan *plan = &s->plan;
    const int64_t size = (int64_t)plan->size, bytes = plan->slots * tile->count * size;
    const int last = tile->start + tile->count >= plan->base + plan->padded;
    if (plan->slot_bytes < NO_CACHE || last) {
        noise_fill_seed(s, tile, row, out);
        return;
    }
    noise_tile part = {.start = tile->start};
    for (int64_t at = 0, asked = 0; at < tile->count; at += part.count) {
        part.start = tile->start + at;
        part.count = noise_at_most(SEEDS, tile->count - at);
        for (const int64_t to = bytes / tile->count * (at + part.count); asked < to; asked += LINE)
            __builtin_prefetch(tile->slots + bytes + asked, 1);
        noise_fill_seed(s, &part, row, out + at * size);
    }
}

static void make_state_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const shared *head = (const shared *)s->shared;
    const dpmf_recipe_kind kernel = plan->states.kernel;
    kernels_recursion_job job = {.count = tile->count,
                                 .stride = tile->count,
                                 .states = plan->states.nodes,
                                 .state = tile->slots,
                                 .row = scratch};
    for (int64_t r = 0; r < rows; r++) {
        if ((head->step + r) % plan->length == 0)
            memset(tile->slots, 0, (size_t)(plan->slots * tile->count) * plan->size);
        job.weight = weights_at(s, r);
        if (plan->exact > 0) {
            noise_fill_whole(s, tile, head->seed + (uint64_t)r, own_weight(s, r), scratch);
            (kernel == DPMF_RECIPE_BLT     ? s->wholes->blt
             : kernel == DPMF_RECIPE_TVBLT ? s->wholes->tvblt
                                           : s->wholes->tvblt_second)(&job);
        } else {
            if (r + 1 == rows)
                fill_and_fetch(s, tile, head->seed + (uint64_t)r, scratch);
            else
                noise_fill_seed(s, tile, head->seed + (uint64_t)r, scratch);
            (kernel == DPMF_RECIPE_BLT     ? s->kernels->blt
             : kernel == DPMF_RECIPE_TVBLT ? s->kernels->tvblt
                                           : s->kernels->tvblt_second)(&job);
        }
    }
}

static const void *state_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

static void state_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    (void)t;
    out->kind = s->plan.states.kernel;
    out->seeds = 1;
    out->seed[0] = ((const shared *)s->shared)->seed;
    out->weights = weight_count(&s->plan) - (out->kind == DPMF_RECIPE_BLT);
    out->weight = weights_at(s, 0);
}

static const noise_route STATES = {.exact = NOISE_EXACT_STATES,
                                   .has_state = 1,
                                   .prepare = prepare_states,
                                   .make = make_state_rows,
                                   .row = state_row,
                                   .recipe = state_recipe};

void noise_plan_states(noise_plan *plan, const noise_states *states) {
    plan->route = &STATES;
    plan->states = *states;
    plan->slots = strategy_buffers(plan->leaf);
    plan->work = noise_work_recursion(1, plan->slots);
    plan->replay = REPLAY;
    plan->mapped = 0;
    plan->scratch_rows = 1;
    plan->cache = CACHE;
    plan->cache_rows = plan->slots + 2;
    plan->shared_bytes = head_bytes() + REPLAY * weight_count(plan) * (int64_t)plan->size;
}
