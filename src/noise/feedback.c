/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that feed their outputs back: C of few bands b (McKenna 2024, Algorithm 1), Toeplitz or not, column-normalized
 * or repeated,
 *
 *     y_t = (z_t - sum_{j=1..b-1} C[t,t-j] y_{t-j}) / C[t,t],
 *
 * as one combination with weights 1/C[t,t] and -C[t,t-j]/C[t,t], oldest row first. The wrappers' own rows of C are
 * used, so the ring holds the emitted rows for any norms.
 *
 * A ring of b - 1 rows of the whole model is far larger than any cache, and reading it for every step is what limits a
 * plain stream. Noise does not depend on data, so up to b - 1 rows are made at once, tile by tile: row t+r takes the
 * place of row t+r-(b-1), which no later row needs, so rows made ahead need no memory. A tile is then read and written
 * once per b - 1 steps.
 */
#include "noise/plan.h"

#include <assert.h>

enum { ROWS = KERNELS_COMBINE_ROWS };

/* At most this many rows are made ahead: then reading the ring costs almost nothing, and weights take rows x bands. */
enum { AHEAD_MAX = 64 };

/* A tile's ring should stay in a processor's second-level cache, 512 KB or more, beside the next tile's. */
static const int64_t CACHE = 160000;

typedef struct group { /* rows made by one call of the kernel; they are in one block of a repeated strategy */
    int64_t step, past, seed;
    int rows;
    int64_t factor; /* where its weights start */
    double near[ROWS * ROWS];
} group;

typedef struct shared {
    int64_t groups;
    double *row; /* bands */
    group *group;
    char *factor;
} shared;

static int64_t head_bytes(void) {
    return noise_round_up((int64_t)sizeof(shared), 64);
}

/* The table of pointers is filled in each time: this is cheap, and the plan determines where the parts are. */
static shared *feedback_parts(const noise_stream *s) {
    const noise_plan *plan = &s->plan;
    shared *head = (shared *)s->shared;
    char *at = s->shared + head_bytes();
    head->row = (double *)at;
    at += noise_round_up((plan->lags + 1) * (int64_t)sizeof(double), 64);
    head->group = (group *)at;
    at += noise_round_up(plan->ahead * (int64_t)sizeof(group), 64);
    head->factor = at;
    return head;
}

/* Fills in the weights of rows t..t+rows-1, at `factor`. */
static void fill_group(noise_stream *s, shared *head, group *g) {
    const dpmf_strategy *c = s->plan.strategy;
    int64_t lags = s->plan.lags;
    for (int r = 0; r < g->rows; r++) {
        c->ops->row(c, g->step + r, head->row);
        double inverse = 1 / head->row[0];
        noise_put(s, head->factor, g->factor + r, inverse);
        for (int64_t p = 1; p + r <= lags; p++)
            noise_put(s, head->factor, g->factor + p * g->rows + r, -head->row[p + r] / head->row[0]);
        for (int q = 0; q < r; q++)
            noise_put(s, g->near, r * ROWS + q, -head->row[r - q] / head->row[0]);
    }
}

static void prepare_feedback(noise_stream *s, int64_t t, int64_t rows) {
    shared *head = feedback_parts(s);
    int64_t end = t + rows, factor = 0;
    head->groups = 0;
    while (t < end) {
        int64_t local = t % s->plan.length;
        group *g = &head->group[head->groups++];
        g->step = t;
        g->past = local;
        g->seed = (int64_t)noise_route_seed_row(s, t);
        g->rows = (int)noise_at_most(noise_at_most(ROWS, end - t), s->plan.length - local);
        g->factor = factor;
        fill_group(s, head, g);
        factor += g->rows * (s->plan.lags + 1);
        t += g->rows;
    }
}

/* The seed of row r of the group: in an exact stream it is added as it is, so it comes divided by C[t,t]. */
static void fill_one(const noise_stream *s, const noise_tile *tile, const shared *head, const group *g, int r,
                     char *out) {
    if (s->plan.exact > 0)
        noise_fill_whole(s, tile, (uint64_t)(g->seed + r), ((const double *)head->factor)[g->factor + r], out);
    else
        noise_fill_seed(s, tile, (uint64_t)(g->seed + r), out);
}

static void make_feedback_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const shared *head = (const shared *)s->shared;
    const noise_plan *plan = &s->plan;
    const int64_t next = tile->start + tile->count - plan->base;
    const int64_t further = plan->stride > 0 ? tile->count : plan->lags * tile->count;
    (void)rows;
    for (int64_t k = 0; k < head->groups; k++) {
        const group *g = &head->group[k];
        for (int r = 0; r < g->rows; r++)
            fill_one(s, tile, head, g, r, scratch + (size_t)(r * tile->count) * plan->size);
        kernels_feedback job = {.count = tile->count,
                                .lags = plan->lags,
                                .past = g->past,
                                .rows = g->rows,
                                .slot = g->step % plan->lags,
                                .stride = tile->stride,
                                .fetch = k == 0 && next + tile->count <= plan->padded ? further : 0,
                                .factor = head->factor + (size_t)g->factor * plan->size,
                                .near = g->near,
                                .seed = scratch,
                                .ring = tile->slots};
        (plan->exact > 0 ? s->wholes->feedback : s->kernels->feedback)(&job);
    }
}

static const void *feedback_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)scratch;
    return tile->slots + (size_t)(t % s->plan.lags * tile->stride) * s->plan.size;
}

/* One row: weight p is that of row t - p, and the first that of the seed. */
static void feedback_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    const shared *head = (const shared *)s->shared;
    const group *g = &head->group[0];
    assert(g->step == t && g->rows == 1), (void)t;
    out->kind = DPMF_RECIPE_FEEDBACK;
    out->seeds = 1;
    out->seed[0] = (uint64_t)g->seed;
    out->weights = 1 + noise_at_most(g->past, s->plan.lags);
    out->weight = head->factor;
}

static const noise_route FEEDBACK = {.holds = 1,
                                     .exact = NOISE_EXACT_FEEDBACK,
                                     .has_state = 1,
                                     .prepare = prepare_feedback,
                                     .make = make_feedback_rows,
                                     .row = feedback_row,
                                     .recipe = feedback_recipe};

void noise_plan_feedback(noise_plan *plan, int64_t lookahead) {
    plan->route = &FEEDBACK;
    plan->bound = noise_bound_feedback;
    plan->lags = plan->leaf->ops->bands(plan->leaf) - 1;
    assert(plan->lags >= 1);
    plan->slots = plan->lags;
    plan->work =
        (noise_work){1, (double)plan->lags + 2}; /* the ring is read from memory and written once per `ahead` rows */
    plan->ahead = noise_at_most(plan->lags, lookahead == 0 ? AHEAD_MAX : lookahead);
    plan->replay = plan->ahead;
    plan->mapped = 0;
    plan->scratch_rows = ROWS;
    plan->cache = CACHE;
    plan->cache_rows = plan->slots + ROWS;
    plan->shared_bytes = head_bytes() + noise_round_up((plan->lags + 1) * (int64_t)sizeof(double), 64) +
                         noise_round_up(plan->ahead * (int64_t)sizeof(group), 64) +
                         plan->ahead * (plan->lags + 1) * (int64_t)plan->size;
}
