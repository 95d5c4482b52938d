/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of TV-BLT with replayed or shared seeds (strategy/replay/replay.h): r buffers, and a mix u of several seeds in
 * the place of one,
 *
 *     replayed   u = ((0 + a_f z_{t-fb}) + ...) + a_0 z_t                 the oldest seed first, made again from its row
 *     shared     u = ((0 + g z_t) + L_0 zeta_{p,0}) + ...                 zeta_{p,i} is row n + p l + i of the same Z
 *     both       y = d ((u + h_0 x_0) + ...),   x_j <- x_j + ((rho_j - 1) x_j + beta_j u)
 *
 * In an exact stream (docs/exactness.md) a step's own seed comes last and by itself, the earlier ones as the whole numbers
 * that they were, divided by their own weights.
 *
 * Rows 0..n-1 of Z are those of the steps, so those of the classes are never one of them; where the strategy is repeated,
 * block i has rows i (n + b l) on. Nothing but the buffers is kept from step to step: a row costs f + 1 or 1 + l seeds.
 */
#include "noise/plan.h"

#include "strategy/strategy.h"

#include <string.h>

enum { CHUNK = 4 };   /* seeds in the cache at a time */
enum { REPLAY = 16 }; /* steps for which a tile stays in the cache when no row is emitted */

/* Seeds, mix and buffers of a tile are to stay in the fastest caches. */
static const int64_t CACHE = 48000;

typedef struct shared {
    int64_t step;
} shared;

static int64_t head_bytes(void) {
    return noise_round_up((int64_t)sizeof(shared), 64);
}

static const replay_parts *parts_of(const noise_plan *plan) {
    return replay_of(plan->leaf);
}

/* Seeds of a step at most, which come first; then h, rho - 1, beta, and the factor. */
static int64_t seeds_most(const noise_plan *plan) {
    const replay_parts *p = parts_of(plan);
    return p->shared.seeds > 0 ? 1 + p->shared.seeds : p->c.shape.epochs;
}

static int64_t weight_count(const noise_plan *plan) {
    return seeds_most(plan) + 3 * plan->slots + 2; /* the last: exact streams alone */
}

static char *weights_at(const noise_stream *s, int64_t row) {
    return s->shared + head_bytes() + (size_t)(row * weight_count(&s->plan)) * s->plan.size;
}

/* Seeds of step t of the block, and which row of Z seed i of it is, counted from the block's first. */
static int64_t seeds_of(const replay_parts *p, int64_t t) {
    return p->shared.seeds > 0 ? 1 + p->shared.seeds : t / p->c.shape.period + 1;
}

static int64_t seed_row(const replay_parts *p, int64_t t, int64_t i) {
    const int64_t b = p->c.shape.period;
    if (p->shared.seeds == 0) return t % b + i * b;
    return i == 0 ? t : p->c.shape.steps + t % b * p->shared.seeds + i - 1;
}

static double seed_weight(const replay_parts *p, int64_t t, int64_t i) {
    const int64_t b = p->c.shape.period;
    if (p->shared.seeds == 0) return p->c.mix[replay_pair((int)(t / b), (int)i) * b + t % b];
    return i == 0 ? p->shared.own[t] : p->shared.weight[t * p->shared.seeds + i - 1];
}

/* W[t,t] of a step of the run. */
static double own_weight(const noise_plan *plan, int64_t t) {
    const replay_parts *p = parts_of(plan);
    const int64_t local = t % plan->length, b = p->c.shape.period;
    return p->c.scale[local % b] * noise_route_factor(plan, t) * seed_weight(p, local, local / b);
}

static void prepare_replay(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const replay_parts *p = parts_of(plan);
    const int64_t r = plan->slots, most = seeds_most(plan);
    ((shared *)s->shared)->step = t;
    for (int64_t k = 0; k < rows; k++) {
        const int64_t local = (t + k) % plan->length;
        char *weight = weights_at(s, k);
        for (int64_t i = 0; i < seeds_of(p, local); i++) {
            double value = seed_weight(p, local, i);
            if (plan->exact > 0) value /= own_weight(plan, t + k - local + seed_row(p, local, i));
            noise_put(s, weight, i, value);
        }
        for (int64_t j = 0; j < r; j++) {
            noise_put(s, weight, most + j, p->c.h[local * r + j]);
            noise_put(s, weight, most + r + j, p->c.rho[j] - 1);
            noise_put(s, weight, most + 2 * r + j, p->c.beta[local * r + j]);
        }
        noise_put(s, weight, most + 3 * r, p->c.scale[local % p->c.shape.period] * noise_route_factor(plan, t + k));
        if (plan->exact > 0)
            noise_put(s, weight, most + 3 * r + 1,
                      seed_weight(p, local, local / p->c.shape.period) / own_weight(plan, t + k));
    }
}

static void fill_one(const noise_stream *s, const noise_tile *tile, uint64_t row, char *out) {
    if (s->plan.exact > 0)
        noise_fill_whole(s, tile, row, own_weight(&s->plan, (int64_t)row), out);
    else
        noise_fill_seed(s, tile, row, out);
}

/* The mix of step `local` of the block whose seeds begin at row `first`, into the scratch's row 0; seeds go behind it. */
static void mix_seeds(const noise_stream *s, const noise_tile *tile, char *scratch, uint64_t first, int64_t local,
                      const char *weight) {
    const replay_parts *p = parts_of(&s->plan);
    const size_t row = (size_t)tile->count * s->plan.size;
    const int64_t seeds = seeds_of(p, local) - (s->plan.exact > 0);
    const void *chunk[CHUNK];
    if (seeds == 0) memset(scratch, 0, row);
    for (int64_t k = 0; k < CHUNK; k++)
        chunk[k] = scratch + (size_t)(1 + k) * row;
    for (int64_t i = 0; i < seeds; i += CHUNK) {
        const int64_t count = noise_at_most(CHUNK, seeds - i);
        for (int64_t k = 0; k < count; k++)
            fill_one(s, tile, first + (uint64_t)seed_row(p, local, i + k), scratch + (size_t)(1 + k) * row);
        if (i == 0) {
            s->kernels->sum(tile->count, count, weight, chunk, scratch);
            continue;
        }
        const kernels_accumulate job = {.count = tile->count,
                                        .stride = tile->count,
                                        .rows = 1,
                                        .to = {count},
                                        .factor = weight + (size_t)i * s->plan.size,
                                        .x = scratch + row,
                                        .y = scratch};
        s->kernels->accumulate(&job);
    }
}

static void make_replay_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const shared *head = (const shared *)s->shared;
    kernels_recursion_job job = {
        .count = tile->count, .stride = tile->count, .states = (int)plan->slots, .state = tile->slots, .row = scratch};
    for (int64_t k = 0; k < rows; k++) {
        const int64_t t = head->step + k, local = t % plan->length;
        const char *weight = weights_at(s, k);
        if (local == 0) memset(tile->slots, 0, (size_t)(plan->slots * tile->count) * plan->size);
        mix_seeds(s, tile, scratch, (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows, local, weight);
        job.weight = weight + (size_t)seeds_most(plan) * plan->size;
        if (plan->exact > 0) {
            fill_one(s, tile, (uint64_t)t, scratch + (size_t)tile->count * plan->size);
            s->wholes->replay(&job, (const double *)scratch + tile->count);
        } else {
            s->kernels->replay(&job);
        }
    }
}

static const void *replay_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

/* The weights of the seeds, of which a step of an early epoch takes fewer than there is room for, then the others. */
static void replay_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    const noise_plan *plan = &s->plan;
    const replay_parts *p = parts_of(plan);
    const int64_t local = t % plan->length;
    const uint64_t first = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
    char *weight = weights_at(s, 0);
    out->kind = DPMF_RECIPE_REPLAY;
    out->seeds = seeds_of(p, local);
    for (int64_t i = 0; i < out->seeds; i++)
        out->seed[i] = first + (uint64_t)seed_row(p, local, i);
    out->weights = out->seeds + 3 * plan->slots + 1;
    memmove(weight + (size_t)out->seeds * plan->size, weight + (size_t)seeds_most(plan) * plan->size,
            (size_t)(3 * plan->slots + 1) * plan->size);
    out->weight = weight;
}

static const noise_route ROUTE = {.exact = NOISE_EXACT_REPLAY,
                                  .has_state = 1,
                                  .prepare = prepare_replay,
                                  .make = make_replay_rows,
                                  .row = replay_row,
                                  .recipe = replay_recipe};

void noise_plan_replay(noise_plan *plan) {
    plan->route = &ROUTE;
    plan->slots = dpmf_strategy_buffers(plan->leaf);
    plan->seeds = seeds_most(plan);
    plan->work = noise_work_replay(dpmf_strategy_normals(plan->leaf), plan->slots);
    plan->replay = REPLAY;
    plan->mapped = 0;
    plan->scratch_rows = 1 + CHUNK;
    plan->cache = CACHE;
    plan->cache_rows = plan->slots + 1 + CHUNK;
    plan->shared_bytes = head_bytes() + REPLAY * weight_count(plan) * (int64_t)plan->size;
}
