/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that filter seeds,
 *
 *     y_t = ((0 + W[t,u0] z_u0) + W[t,u0+1] z_{u0+1}) + ...      the first seed that matters first,
 *
 * for C^-1 of few bands (bisr, output perturbation; with one band the identity), for a full Toeplitz C^-1, and for
 * strategies whose rows need every seed (dense, fft: Pillutla et al. 2025, Section 4.4.5). Seeds are made again from
 * their row and coordinate, which costs about as much as reading them from memory would: nothing has to be kept from
 * step to step. Rows made ahead share the seeds: with `ahead` rows at a time and b terms per row, a row takes
 * (b - 1 + ahead)/ahead seeds and the stream keeps `ahead` rows, in a file if the caller names a directory.
 */
#include "noise/plan.h"

#include "base/linalg.h"

#include <assert.h>
#include <string.h>

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

static int64_t part(int64_t count, size_t size) {
    return noise_round_up(count * (int64_t)size, 64);
}

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

/* Is W[t, .] of the leaf lower triangular? A strategy with more seeds than steps may use all of them. */
static int64_t last_seed(const noise_plan *plan, int64_t local) {
    return plan->leaf_rows == plan->length ? local + 1 : plan->leaf_rows;
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
            g->to[r] = last_seed(plan, local + r);
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

/* Adds all seeds of the groups first..last-1, which are in one block, chunk by chunk. */
static void make_block(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t first, int64_t last) {
    const shared *head = (const shared *)s->shared;
    const group *end = &head->group[last - 1];
    int64_t to = end->to[end->rows - 1], count = 0;
    for (int64_t u = head->group[first].from[0]; u < to; u += count) {
        count = noise_at_most(CHUNK, to - u);
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
    out->seeds = out->weights = g->to[0] - g->from[0];
    for (int64_t i = 0; i < out->seeds; i++)
        out->seed[i] = g->seeds + (uint64_t)(g->from[0] + i);
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

/* Row t of a triangular W has at most t + 1 terms. A strategy with more rows than steps takes every seed in each step. */
static double terms_on_average(const noise_plan *plan) {
    const double terms = (double)plan->lags;
    return plan->leaf_rows == plan->length ? terms - terms * (terms - 1) / (2 * (double)plan->length) : terms;
}

static void plan_rows(noise_plan *plan, int64_t chosen, int64_t lookahead) {
    plan->bound = noise_bound_filter;
    int64_t ahead = lookahead > 0 ? lookahead : plan->mapped ? AHEAD_FILE : chosen;
    if (lookahead == 0 && ahead > WEIGHTS_MAX / plan->lags) ahead = WEIGHTS_MAX / plan->lags;
    plan->seeds = plan->lags;
    plan->ahead = noise_at_most(ahead < 1 ? 1 : ahead, plan->strategy->steps);
    plan->slots = plan->ahead > 1 ? plan->ahead : 0;
    plan->work.touched = terms_on_average(plan);
    plan->work.normals = 1 + (plan->work.touched - 1) / (double)plan->ahead;
    plan->scratch_rows = CHUNK + (plan->slots == 0);
    plan->cache = CACHE;
    plan->cache_rows = CHUNK + plan->ahead;
    plan->shared_bytes = shared_bytes(plan);
}

/* ---- one band ---- */

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
        plan->bound = noise_bound_own;
        plan->work = (noise_work){1, 0};
        plan->mapped = 0;
        plan->scratch_rows = 2;
        plan->cache = CACHE / 16; /* the first-level cache */
        plan->cache_rows = 3;
        plan->shared_bytes = part(1, sizeof(shared));
        return;
    }
    int64_t chosen = plan->lags <= FEW_TERMS    ? 1
                     : plan->lags < leaf->steps ? noise_at_most(plan->lags - 1, AHEAD_BANDED)
                                                : noise_at_most(plan->lags - 1, AHEAD_WHOLE);
    plan_rows(plan, chosen, lookahead);
}

void noise_plan_whole(noise_plan *plan, int64_t lookahead) {
    plan->route = &WHOLE;
    plan->lags = plan->leaf_rows;
    plan_rows(plan, noise_at_most(AHEAD_WHOLE, plan->length), lookahead);
}
