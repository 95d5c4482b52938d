/* SPDX-License-Identifier: Apache-2.0 */
/* What routes share, and those that take rows of C or W (feedback, filters of seeds). Those with buffers are in plan.c. */
#include "noise/plan.h"

#include "base/linalg.h"

#include <assert.h>
#include <string.h>

int64_t noise_round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

int64_t noise_aligned(int64_t bytes) {
    return noise_round_up(bytes, 64);
}

static int64_t part(int64_t count, size_t size) {
    return noise_aligned(count * (int64_t)size);
}

int64_t noise_at_most(int64_t value, int64_t most) {
    return value < most ? value : most;
}

noise_work noise_work_recursion(double normals, int64_t buffers) {
    return (noise_work){normals, (double)((buffers <= 8 ? 2 : 3) * buffers + 1)};
}

noise_work noise_work_replay(double normals, int64_t buffers) {
    noise_work work = noise_work_recursion(normals, buffers);
    work.touched++;
    return work;
}

double noise_route_factor(const noise_plan *plan, int64_t t) {
    const dpmf_strategy *s = plan->strategy;
    double factor = 1;
    while (s != plan->leaf) {
        const double *norms = NULL;
        int64_t stamps = 1;
        s = strategy_scaled(s, &norms);
        if (norms != NULL) factor *= norms[t];
        s = strategy_block(s, &stamps);
        t %= s->steps;
    }
    return factor;
}

/* Counts block by block, then step by step inside one: few families take other than one seed per step. */
uint64_t noise_route_seed_row(noise_stream *s, int64_t t) {
    const noise_plan *plan = &s->plan;
    int64_t local = t % plan->length, start = t - local;
    uint64_t before = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
    if (plan->leaf->ops->seeds == NULL) return before + (uint64_t)local;
    if (s->seed_step > t || s->seed_step < start) {
        s->seed_step = start;
        s->seed_row = before;
    }
    for (; s->seed_step < t; s->seed_step++)
        s->seed_row += (uint64_t)dpmf_strategy_seeds(plan->leaf, s->seed_step - start);
    return s->seed_row;
}

/*
 * Streams that filter seeds,
 *
 *     y_t = ((0 + W[t,u0] z_u0) + W[t,u0+1] z_{u0+1}) + ...      the first seed that matters first,
 *
 * for C^-1 of few bands (bisr, output perturbation; with one band the identity), for a full Toeplitz C^-1, and for
 * strategies whose rows need every seed (dense, fft: Pillutla et al. 2025, Section 4.4.5). Seeds are made again from
 * their row and coordinate, which costs about as much as reading them from memory would: nothing has to be kept from
 * step to step. Rows made ahead share the seeds: with `ahead` rows at a time and b terms per row, a row takes
 * (b - 1 + ahead)/ahead seeds and the stream keeps `ahead` rows, in a file if the caller names a directory. A W whose rows
 * have zeros between their entries (families/taps) is made one row at a time, since its rows share few seeds.
 */
enum { ROWS = KERNELS_COMBINE_ROWS };
enum { CHUNK = 16 };        /* seeds in the cache at a time */
enum { AHEAD_BANDED = 64 }; /* at b - 1 rows ahead every seed is made twice; beyond 64 the gain is small */
enum { AHEAD_WHOLE = 16 };  /* where a row takes every seed, each row ahead is memory that no buffer count includes */
enum { AHEAD_FILE = 256 };  /* a file has room */
enum { FEW_TERMS = 4 };     /* up to this many terms, making seeds again is cheaper than keeping a row */
enum { WEIGHTS_MAX = 1 << 22 }; /* numbers in the table of weights, unless the caller asks for more rows ahead */

static const int64_t CACHE = 400000;

typedef struct group {
    int64_t slot;   /* of its first row */
    uint64_t seeds; /* the row of Z that is seed 0 of its block */
    int rows;
    int64_t from[ROWS], to[ROWS]; /* seeds of its block that each row takes */
    int64_t factor;               /* weights: (u - from[0]) * rows + r */
} group;

typedef struct shared {
    int64_t groups, step;
    double weight; /* of a filter with one band */
    double *row;
    group *group;
    char *factor;
    double *w;   /* length x leaf_rows */
    double *own; /* exact: W[t,t] of every step */
} shared;

static int is_whole(const noise_plan *plan);

static shared *filter_parts(const noise_stream *s) {
    const noise_plan *plan = &s->plan;
    shared *head = (shared *)s->shared;
    char *at = s->shared + part(1, sizeof(shared));
    head->row = (double *)at;
    at += part(plan->lags, sizeof(double));
    head->group = (group *)at;
    at += part(plan->ahead, sizeof(group));
    head->factor = at;
    at += part(plan->ahead * (plan->lags + ROWS), plan->size);
    head->w = (double *)at;
    at += is_whole(plan) ? part(plan->length * plan->leaf_rows, sizeof(double)) : 0;
    head->own = (double *)at;
    return head;
}

static int64_t shared_bytes(const noise_plan *plan) {
    int64_t terms = plan->ahead * (plan->lags + ROWS);
    return part(1, sizeof(shared)) + part(plan->lags, sizeof(double)) + part(plan->ahead, sizeof(group)) +
           part(terms, plan->size) + (is_whole(plan) ? part(plan->length * plan->leaf_rows, sizeof(double)) : 0) +
           (plan->exact > 0 ? part(plan->strategy->steps, sizeof(double)) : 0);
}

/* Writes row t of W to the weights of row r of the group, whose window is set. */
static void fill_row(noise_stream *s, const shared *head, const group *g, int64_t t, int r) {
    const noise_plan *plan = &s->plan;
    int64_t local = t % plan->length;
    double factor = 1;
    if (is_whole(plan))
        factor = noise_route_factor(plan, t);
    else
        plan->strategy->ops->inverse_row(plan->strategy, t, head->row);
    for (int64_t u = g->from[r]; u < g->to[r]; u++) {
        double value = is_whole(plan) ? factor * head->w[local * plan->leaf_rows + u] : head->row[local - u];
        /* An exact row's own seed is added last, and the others are already multiplied by their own weights. */
        if (plan->exact > 0) value = u == local ? 0 : value / head->own[t - local + u];
        noise_put(s, head->factor, g->factor + (u - g->from[0]) * g->rows + r, value);
    }
}

static void prepare_filter(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    shared *head = filter_parts(s);
    int64_t end = t + rows, factor = 0;
    head->step = t;
    head->groups = 0;
    while (t < end) {
        int64_t local = t % plan->length;
        group *g = &head->group[head->groups++];
        g->slot = t % plan->ahead;
        g->seeds = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
        g->rows = (int)noise_at_most(noise_at_most(ROWS, end - t), plan->length - local);
        g->rows = (int)noise_at_most(g->rows, plan->ahead - g->slot);
        g->factor = factor;
        for (int r = 0; r < g->rows; r++) {
            g->from[r] = is_whole(plan) || local + r < plan->lags ? 0 : local + r - plan->lags + 1;
            /* a strategy with more seeds than steps, whose W is not triangular, may use all of them */
            g->to[r] = plan->leaf_rows == plan->length ? local + r + 1 : plan->leaf_rows;
        }
        for (int r = 0; r < g->rows; r++)
            fill_row(s, head, g, t + r, r);
        factor += (g->to[g->rows - 1] - g->from[0]) * g->rows;
        t += g->rows;
    }
    assert(factor <= plan->ahead * (plan->lags + ROWS));
}

/* The row of step t is in its slot, or behind the seeds. */
static char *row_of(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    if (s->plan.slots > 0) return tile->slots + (size_t)(t % s->plan.ahead * tile->stride) * s->plan.size;
    return (char *)scratch + (size_t)(CHUNK * tile->count) * s->plan.size;
}

/* Adds the seeds u..u+count-1, which are in the scratch, to the rows of one group. */
static void add_seeds(const noise_stream *s, const noise_tile *tile, char *scratch, const group *g, int64_t u,
                      int64_t count) {
    const shared *head = (const shared *)s->shared;
    size_t size = s->plan.size;
    int64_t skip = g->from[0] > u ? g->from[0] - u : 0; /* seeds that come before the group's */
    if (skip >= count || g->to[g->rows - 1] <= u) return;
    kernels_accumulate job = {.count = tile->count, .stride = tile->stride, .rows = g->rows};
    for (int r = 0; r < g->rows; r++) {
        int64_t from = g->from[r] - u - skip, to = g->to[r] - u - skip;
        job.from[r] = from < 0 ? 0 : noise_at_most(from, count - skip);
        job.to[r] = to < 0 ? 0 : noise_at_most(to, count - skip);
    }
    job.factor = head->factor + (size_t)(g->factor + (u + skip - g->from[0]) * g->rows) * size;
    job.x = scratch + (size_t)(skip * tile->count) * size;
    job.y = row_of(s, tile, scratch, g->slot);
    s->kernels->accumulate(&job);
}

/* The seeds of exact streams are as many as the steps, so that row and step are the same number. */
static void fill_one_seed(const noise_stream *s, const noise_tile *tile, uint64_t row, char *out) {
    if (s->plan.exact > 0)
        noise_fill_whole(s, tile, row, ((const shared *)s->shared)->own[row], out);
    else
        noise_fill_seed(s, tile, row, out);
}

/* Has seed u of the block a weight in a row of the group? W may be sparse, and a seed that no row takes is not made. */
static int takes(const noise_stream *s, const group *g, int64_t u) {
    const shared *head = (const shared *)s->shared;
    for (int r = 0; r < g->rows; r++) {
        const int64_t at = g->factor + (u - g->from[0]) * g->rows + r;
        const int is_zero = s->plan.size == sizeof(float) ? ((const float *)head->factor)[at] == 0
                                                          : ((const double *)head->factor)[at] == 0;
        if (u >= g->from[r] && u < g->to[r] && !is_zero) return 1;
    }
    return 0;
}

static int any_takes(const noise_stream *s, int64_t first, int64_t last, int64_t u) {
    const shared *head = (const shared *)s->shared;
    for (int64_t g = first; g < last; g++)
        if (takes(s, &head->group[g], u)) return 1;
    return 0;
}

/* Adds all seeds of the groups first..last-1, which are in one block, chunk by chunk. */
static void make_block(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t first, int64_t last) {
    const shared *head = (const shared *)s->shared;
    const group *end = &head->group[last - 1];
    int64_t to = end->to[end->rows - 1], count = 0;
    for (int64_t u = head->group[first].from[0]; u < to; u += count) {
        for (count = 0; u < to && !any_takes(s, first, last, u);)
            u++;
        while (count < CHUNK && u + count < to && any_takes(s, first, last, u + count))
            count++;
        for (int64_t k = 0; k < count; k++)
            fill_one_seed(s, tile, end->seeds + (uint64_t)(u + k), scratch + (size_t)(k * tile->count) * s->plan.size);
        for (int64_t g = first; g < last; g++)
            add_seeds(s, tile, scratch, &head->group[g], u, count);
    }
}

static void make_filtered_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const shared *head = (const shared *)s->shared;
    for (int64_t r = 0; r < rows; r++)
        memset(row_of(s, tile, scratch, head->step + r), 0, (size_t)tile->count * s->plan.size);
    for (int64_t first = 0, last = 0; first < head->groups; first = last) {
        while (last < head->groups && head->group[last].seeds == head->group[first].seeds)
            last++;
        make_block(s, tile, scratch, first, last);
    }
    for (int64_t r = 0; r < rows && s->plan.exact > 0; r++) {
        fill_one_seed(s, tile, (uint64_t)(head->step + r), scratch);
        s->wholes->finish(tile->count, (const double *)scratch, (double *)row_of(s, tile, scratch, head->step + r));
    }
}

static const void *filtered_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    return row_of(s, tile, scratch, t);
}

static dpmf_status start_own(noise_stream *s) {
    shared *head = filter_parts(s);
    const dpmf_strategy *c = s->plan.strategy;
    for (int64_t t = 0; t < c->steps && s->plan.exact > 0; t++) {
        const int64_t local = t % s->plan.length;
        if (is_whole(&s->plan)) {
            head->own[t] = noise_route_factor(&s->plan, t) * head->w[local * s->plan.leaf_rows + local];
        } else {
            c->ops->inverse_row(c, t, head->row);
            head->own[t] = head->row[0];
        }
    }
    return DPMF_OK;
}

/* The full W, length x seeds doubles. A dense C is inverted in place; else column j is the output for unit vector j. */
static dpmf_status start_whole(noise_stream *s) {
    const dpmf_strategy *leaf = s->plan.leaf;
    const double *matrix = strategy_matrix(leaf);
    double *w = filter_parts(s)->w;
    if (matrix == NULL) {
        TRY(strategy_left_inverse(leaf, w));
        return start_own(s);
    }
    memcpy(w, matrix, (size_t)(leaf->steps * leaf->steps) * sizeof *w);
    TRY(base_lower_invert(leaf->steps, w));
    return start_own(s);
}

static void filter_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    const shared *head = (const shared *)s->shared;
    const group *g = &head->group[0];
    assert(head->step == t && g->rows == 1), (void)t;
    out->kind = DPMF_RECIPE_SUM;
    for (int64_t u = g->from[0]; u < g->to[0]; u++) {
        if (!takes(s, g, u)) continue;
        memmove(head->factor + (size_t)out->seeds * s->plan.size,
                head->factor + (size_t)(u - g->from[0]) * s->plan.size, s->plan.size);
        out->seed[out->seeds++] = g->seeds + (uint64_t)u;
    }
    out->weights = out->seeds;
    out->weight = head->factor;
}

static const noise_route FILTER = {.holds = 1,
                                   .exact = NOISE_EXACT_FILTER,
                                   .prepare = prepare_filter,
                                   .make = make_filtered_rows,
                                   .row = filtered_row,
                                   .start = start_own,
                                   .recipe = filter_recipe};
static const noise_route WHOLE = {.holds = 1,
                                  .exact = NOISE_EXACT_FILTER,
                                  .prepare = prepare_filter,
                                  .make = make_filtered_rows,
                                  .row = filtered_row,
                                  .start = start_whole,
                                  .recipe = filter_recipe};

static int is_whole(const noise_plan *plan) {
    return plan->route == &WHOLE;
}

static void plan_rows(noise_plan *plan, int64_t chosen, int64_t lookahead) {
    int64_t ahead = lookahead > 0 ? lookahead : plan->mapped ? AHEAD_FILE : chosen;
    if (lookahead == 0 && ahead > WEIGHTS_MAX / plan->lags) ahead = WEIGHTS_MAX / plan->lags;
    plan->seeds = plan->lags;
    plan->ahead = noise_at_most(ahead < 1 ? 1 : ahead, plan->strategy->steps);
    plan->slots = plan->ahead > 1 ? plan->ahead : 0;
    /* Row t of a triangular W has at most t + 1 terms; with more rows than steps each step takes every seed. */
    const double terms = (double)plan->lags, triangle = terms * (terms - 1) / (2 * (double)plan->length);
    plan->work.touched = plan->leaf_rows == plan->length ? terms - triangle : terms;
    if (plan->leaf->ops->normals != NULL) plan->work.touched = plan->leaf->ops->normals(plan->leaf); /* W is sparse */
    plan->work.normals = 1 + (plan->work.touched - 1) / (double)plan->ahead;
    plan->scratch_rows = CHUNK + (plan->slots == 0);
    plan->cache = CACHE;
    plan->cache_rows = CHUNK + plan->ahead;
    plan->shared_bytes = shared_bytes(plan);
}

static void prepare_one(noise_stream *s, int64_t t, int64_t rows) {
    const dpmf_strategy *c = s->plan.strategy;
    shared *head = (shared *)s->shared;
    double value[1];
    (void)rows;
    if (strategy_can(c, STRATEGY_CAN_INVERSE_ROW) && c->ops->inverse_bands(c) == 1) {
        c->ops->inverse_row(c, t, value);
        head->weight = value[0];
    } else {
        c->ops->row(c, t, value);
        head->weight = 1 / value[0];
    }
    head->step = t;
    noise_put(s, &head->factor, 0, head->weight); /* its place holds the number itself here */
}

static void make_one(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const shared *head = (const shared *)s->shared;
    char *x = scratch + (size_t)tile->count * s->plan.size;
    (void)rows;
    if (s->plan.exact > 0) {
        noise_fill_whole(s, tile, (uint64_t)head->step, head->weight, scratch);
        return;
    }
    if (head->weight == 1) {
        noise_fill_seed(s, tile, (uint64_t)head->step, scratch);
        return;
    }
    noise_fill_seed(s, tile, (uint64_t)head->step, x);
    s->kernels->sum(tile->count, 1, &head->factor, (const void *const[]){x}, scratch);
}

static const void *row_one(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

static void recipe_one(const noise_stream *s, int64_t t, noise_recipe *out) {
    const shared *head = (const shared *)s->shared;
    out->kind = DPMF_RECIPE_SUM;
    out->seeds = out->weights = 1;
    out->seed[0] = (uint64_t)t;
    out->weight = &head->factor;
}

static const noise_route ONE = {
    .exact = NOISE_EXACT_OWN, .prepare = prepare_one, .make = make_one, .row = row_one, .recipe = recipe_one};

void noise_plan_filter(noise_plan *plan, int64_t lookahead) {
    const dpmf_strategy *leaf = plan->leaf;
    int by_inverse = strategy_can(leaf, STRATEGY_CAN_INVERSE_ROW);
    plan->lags = by_inverse ? leaf->ops->inverse_bands(leaf) : 1; /* else C has one band */
    plan->route = &FILTER;
    if (plan->lags == 1) {
        plan->route = &ONE;
        plan->work = (noise_work){1, 0};
        plan->mapped = 0;
        plan->scratch_rows = 2;
        plan->cache = CACHE / 16; /* the first-level cache */
        plan->cache_rows = 3;
        plan->shared_bytes = part(1, sizeof(shared));
        return;
    }
    int64_t chosen = plan->lags <= FEW_TERMS || leaf->ops->normals != NULL ? 1
                     : plan->lags < leaf->steps                            ? noise_at_most(plan->lags - 1, AHEAD_BANDED)
                                                                           : noise_at_most(plan->lags - 1, AHEAD_WHOLE);
    plan_rows(plan, chosen, lookahead);
}

void noise_plan_whole(noise_plan *plan, int64_t lookahead) {
    plan->route = &WHOLE;
    plan->lags = plan->leaf_rows;
    plan_rows(plan, noise_at_most(AHEAD_WHOLE, plan->length), lookahead);
}

/*
 * Streams that feed their outputs back: C of few bands b (McKenna 2024, Algorithm 1), Toeplitz or not, column-normalized
 * or repeated,
 *
 *     y_t = (z_t - sum_{j=1..b-1} C[t,t-j] y_{t-j}) / C[t,t],
 *
 * as one combination with weights 1/C[t,t] and -C[t,t-j]/C[t,t], oldest row first. The wrappers' own rows of C are
 * used, so the ring holds the emitted rows for any norms.
 *
 * A ring of b - 1 rows of the whole model is far larger than any cache, and reading it for every step is what limits a plain
 * stream. Noise does not depend on data, so up to b - 1 rows are made at once, tile by tile: row t+r takes the place of row
 * t+r-(b-1), which no later row needs, so rows made ahead need no memory. A tile is then read and written once per b - 1 steps.
 */
/* At most this many rows are made ahead: then reading the ring costs almost nothing, and weights take rows x bands. */
enum { AHEAD_MAX = 64 };

/* A tile's ring should stay in a processor's second-level cache, 512 KB or more, beside the next tile's. */
static const int64_t RING_CACHE = 160000;

typedef struct ring_group { /* rows made by one call of the kernel; they are in one block of a repeated strategy */
    int64_t step, past, seed;
    int rows;
    int64_t factor; /* where its weights start */
    double near[ROWS * ROWS];
} ring_group;

typedef struct ring_shared {
    int64_t groups;
    double *row; /* bands */
    ring_group *group;
    char *factor;
} ring_shared;

/* The table of pointers is filled in each time: this is cheap, and the plan determines where the parts are. */
static ring_shared *feedback_parts(const noise_stream *s) {
    const noise_plan *plan = &s->plan;
    ring_shared *head = (ring_shared *)s->shared;
    char *at = s->shared + part(1, sizeof(ring_shared));
    head->row = (double *)at;
    at += part(plan->lags + 1, sizeof(double));
    head->group = (ring_group *)at;
    at += part(plan->ahead, sizeof(ring_group));
    head->factor = at;
    return head;
}

static void prepare_feedback(noise_stream *s, int64_t t, int64_t rows) {
    ring_shared *head = feedback_parts(s);
    int64_t end = t + rows, factor = 0;
    head->groups = 0;
    while (t < end) {
        int64_t local = t % s->plan.length;
        ring_group *g = &head->group[head->groups++];
        g->step = t;
        g->past = local;
        g->seed = (int64_t)noise_route_seed_row(s, t);
        g->rows = (int)noise_at_most(noise_at_most(ROWS, end - t), s->plan.length - local);
        g->factor = factor;
        const dpmf_strategy *c = s->plan.strategy;
        for (int r = 0; r < g->rows; r++) {
            c->ops->row(c, g->step + r, head->row);
            noise_put(s, head->factor, g->factor + r, 1 / head->row[0]);
            for (int64_t p = 1; p + r <= s->plan.lags; p++)
                noise_put(s, head->factor, g->factor + p * g->rows + r, -head->row[p + r] / head->row[0]);
            for (int q = 0; q < r; q++)
                noise_put(s, g->near, r * ROWS + q, -head->row[r - q] / head->row[0]);
        }
        factor += g->rows * (s->plan.lags + 1);
        t += g->rows;
    }
}

static void make_feedback_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const ring_shared *head = (const ring_shared *)s->shared;
    const noise_plan *plan = &s->plan;
    const int64_t next = tile->start + tile->count - plan->base;
    const int64_t further = plan->stride > 0 ? tile->count : plan->lags * tile->count;
    (void)rows;
    for (int64_t k = 0; k < head->groups; k++) {
        const ring_group *g = &head->group[k];
        for (int r = 0; r < g->rows; r++) {
            char *out = scratch + (size_t)(r * tile->count) * plan->size;
            const uint64_t seed = (uint64_t)(g->seed + r);
            if (plan->exact > 0) /* the seed is added as it is, so it comes divided by C[t,t] */
                noise_fill_whole(s, tile, seed, ((const double *)head->factor)[g->factor + r], out);
            else
                noise_fill_seed(s, tile, seed, out);
        }
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
    const ring_shared *head = (const ring_shared *)s->shared;
    const ring_group *g = &head->group[0];
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
    plan->lags = plan->leaf->ops->bands(plan->leaf) - 1;
    assert(plan->lags >= 1);
    plan->slots = plan->lags;
    plan->work =
        (noise_work){1, (double)plan->lags + 2}; /* the ring is read from memory and written once per `ahead` rows */
    plan->ahead = noise_at_most(plan->lags, lookahead == 0 ? AHEAD_MAX : lookahead);
    plan->replay = plan->ahead;
    plan->mapped = 0;
    plan->scratch_rows = ROWS;
    plan->cache = RING_CACHE;
    plan->cache_rows = plan->slots + ROWS;
    plan->shared_bytes = part(1, sizeof(ring_shared)) + part(plan->lags + 1, sizeof(double)) +
                         part(plan->ahead, sizeof(ring_group)) + plan->ahead * (plan->lags + 1) * (int64_t)plan->size;
}
