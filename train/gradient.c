/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clipped sum of a batch: G = sum over units u of f_u g_u, with f_u = min(1, clip/|g_u|), in integers (train/grid.c).
 *
 * A layer's gradient for one example is d x' (d the derivative by its outputs, x its inputs with a 1 for the bias), so
 * |g|^2 = sum over layers |d|^2 (|x|^2 + 1): norms need no gradient (Goodfellow 2015). Once the rows d are multiplied by
 * f, one product gives the sum of all clipped gradients. Gradients of users are formed (train/clip.c).
 *
 * A batch goes through in blocks of whole units: TRAIN_LANES examples at a time through the model, in parallel; then the
 * product, in parallel over columns.
 */
#include "train/train.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Multiplications that threads are woken for: some milliseconds, less would be lost in the waking. */
static const double WORTH = 3e7;

enum {
    BLOCK = 512 /* examples: their rows stay in the second cache for the product, chunks keep threads busy, and the sums
                 * of a block are exact in double (train/grid.c) */
};

enum { USERS_ROOM = 1 << 20 }; /* numbers: users whose gradients are formed at once, enough to keep threads busy */

/* Without a clip norm: the step that sums in float are put on, far below what they round by. */
static const double PLAIN_STEP = 0x1p-36;

/* ---- who has which examples ---- */

static dpmf_status group_units(train_gradient *g) {
    const dpmf_dataset *data = g->data;
    TRY(base_alloc(data->units + 2, sizeof(int64_t), "the users", (void **)&g->unit_start));
    TRY(base_alloc(data->count, sizeof(int64_t), "the users", (void **)&g->unit_member));
    int64_t *next = g->unit_start + 1; /* shifted by one while filling: next[u] is where unit u goes on */
    for (int64_t i = 0; i < data->count; i++)
        next[data->unit[i] + 1]++;
    for (int64_t u = 1; u <= data->units; u++)
        next[u] += next[u - 1];
    for (int64_t i = 0; i < data->count; i++)
        g->unit_member[next[data->unit[i]]++] = i;
    return DPMF_OK;
}

static int64_t unit_size(const train_gradient *g, int64_t unit) {
    return g->clip.by_unit ? g->unit_start[unit + 1] - g->unit_start[unit] : 1;
}

static int64_t largest_unit(const train_gradient *g) {
    int64_t largest = 1;
    for (int64_t u = 0; g->clip.by_unit && u < g->data->units; u++)
        if (unit_size(g, u) > largest) largest = unit_size(g, u);
    return largest;
}

/* ---- room ---- */

static dpmf_status allocate_block(train_gradient *g) {
    const train_model *m = &g->model;
    train_block *b = &g->block;
    const int64_t largest = largest_unit(g);
    b->room = largest > BLOCK ? largest : BLOCK;
    TRY(base_alloc(b->room, sizeof *b->x, "a batch", (void **)&b->x));
    TRY(base_alloc(b->room, sizeof *b->label, "a batch", (void **)&b->label));
    TRY(base_alloc(b->room + 1, sizeof *b->start, "a batch", (void **)&b->start));
    TRY(base_alloc(b->room * m->outputs, sizeof(float), "a batch", (void **)&b->first));
    TRY(base_alloc(b->room * m->classes, sizeof(float), "a batch", (void **)&b->second));
    TRY(base_alloc(b->room * m->hidden, sizeof(float), "a batch", (void **)&b->hidden));
    TRY(base_alloc(b->room, sizeof *b->hidden_rows, "a batch", (void **)&b->hidden_rows));
    TRY(base_alloc(b->room, sizeof *b->input, "a batch", (void **)&b->input));
    TRY(base_alloc(b->room, sizeof *b->hidden_input, "a batch", (void **)&b->hidden_input));
    TRY(base_alloc(b->room, sizeof *b->clipped, "a batch", (void **)&b->clipped));
    TRY(base_alloc_doubles(b->room, "a batch", &b->factor));
    if (!g->clip.by_unit && isfinite(g->clip.clip)) {
        TRY(base_alloc_doubles(b->room * train_stride(m->outputs), "a batch", &b->first_clipped));
        TRY(base_alloc_doubles(b->room * train_stride(m->classes), "a batch", &b->second_clipped));
    }
    for (int64_t i = 0; i < b->room; i++)
        b->hidden_rows[i] = b->hidden + i * m->hidden;
    return DPMF_OK;
}

/* At least one per thread, at most as many as a block can have. */
static dpmf_status allocate_users(train_gradient *g) {
    const int64_t threads = base_pool_threads(g->pool), dim = g->model.dim;
    g->users_room = USERS_ROOM / dim > threads ? USERS_ROOM / dim : threads;
    if (g->users_room > g->block.room) g->users_room = g->block.room;
    return base_alloc(g->users_room * dim, sizeof(float), "gradients of users", (void **)&g->users);
}

static dpmf_status allocate_all(train_gradient *g) {
    const train_model *m = &g->model;
    const int threads = base_pool_threads(g->pool);
    if (g->clip.by_unit) TRY(group_units(g));
    TRY(allocate_block(g));
    TRY(base_alloc(m->dim, sizeof *g->sums, "the sum of gradients", (void **)&g->sums));
    if (isinf(g->clip.clip)) TRY(base_alloc(m->dim, sizeof *g->plain, "the sum of gradients", (void **)&g->plain));
    TRY(base_alloc(m->outputs * m->features, sizeof(float), "the model", (void **)&g->turned.first));
    TRY(base_alloc(m->classes * m->hidden, sizeof(float), "the model", (void **)&g->turned.second));
    TRY(base_alloc(threads, sizeof *g->lanes, "examples", (void **)&g->lanes));
    for (int i = 0; i < threads; i++)
        TRY(train_lanes_create(m, &g->lanes[i]));
    return g->clip.by_unit ? allocate_users(g) : DPMF_OK;
}

dpmf_status train_gradient_create(const dpmf_dataset *data, const train_model *model, train_clip clip, base_pool *pool,
                                  train_gradient **out) {
    train_gradient *made = NULL;
    train_grid grid = {PLAIN_STEP, 1 / PLAIN_STEP, 0};
    const int64_t outputs = model->outputs + (model->hidden > 0 ? model->classes : 0);
    if (isinf(clip.clip) && clip.zero_above > 0) clip.clip = 1.001 * clip.zero_above; /* no unit is clipped by that */
    if (!isinf(clip.clip)) TRY(train_grid_choose(clip.clip, clip.units, clip.noise, clip.grid, outputs, &grid));
    TRY(base_alloc(1, sizeof *made, "the gradient", (void **)&made));
    made->grid = grid;
    made->data = data;
    made->model = *model;
    made->clip = clip;
    made->pool = pool;
    made->worth = WORTH;
    dpmf_status status = allocate_all(made);
    if (status == DPMF_OK)
        *out = made;
    else
        train_gradient_free(made);
    return status;
}

void train_gradient_free(train_gradient *g) {
    if (g == NULL) return;
    for (int i = 0; g->lanes != NULL && i < base_pool_threads(g->pool); i++)
        train_lanes_free(&g->lanes[i]);
    base_free(g->lanes);
    base_free(g->users);
    base_free((void *)g->block.x);
    base_free(g->block.label);
    base_free(g->block.start);
    base_free(g->block.first);
    base_free(g->block.second);
    base_free(g->block.hidden);
    base_free((void *)g->block.hidden_rows);
    base_free(g->block.input);
    base_free(g->block.hidden_input);
    base_free(g->block.clipped);
    base_free(g->block.first_clipped);
    base_free(g->block.second_clipped);
    base_free(g->block.factor);
    base_free(g->turned.first);
    base_free(g->turned.second);
    base_free(g->unit_start);
    base_free(g->unit_member);
    base_free(g->sums);
    base_free(g->plain);
    base_free(g);
}

/* ---- a block ---- */

static void add_example(train_gradient *g, int64_t example) {
    train_block *b = &g->block;
    b->x[b->count] = g->data->x + example * g->data->features;
    b->input[b->count] = g->data->input[example];
    b->label[b->count++] = g->data->label[example];
}

static void add_unit(train_gradient *g, int64_t unit) {
    train_block *b = &g->block;
    b->start[b->units++] = b->count;
    if (!g->clip.by_unit) {
        add_example(g, unit);
    } else {
        for (int64_t k = g->unit_start[unit]; k < g->unit_start[unit + 1]; k++)
            add_example(g, g->unit_member[k]);
    }
    b->start[b->units] = b->count;
}

/* Rows of `count` lanes as rows of examples. */
static void take_rows(int64_t width, int64_t count, const float *lanes, float *rows) {
    for (int64_t l = 0; l < count; l++)
        for (int64_t i = 0; i < width; i++)
            rows[l * width + i] = lanes[i * TRAIN_LANES + l];
}

/* Examples [64 item, ...) of the block: derivatives, and where the unit is the example those as clipped. */
static dpmf_status derive_chunk(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    train_block *b = &g->block;
    train_lanes *lanes = &g->lanes[worker];
    const int64_t from = item * TRAIN_LANES, left = b->count - from;
    const int64_t count = left < TRAIN_LANES ? left : TRAIN_LANES;
    train_model_forward(m, g->weights, &g->turned, count, b->x + from, lanes);
    train_model_backward(m, g->weights, count, b->label + from, lanes);
    take_rows(m->outputs, count, m->hidden > 0 ? lanes->back : lanes->first, b->first + from * m->outputs);
    if (m->hidden > 0) {
        take_rows(m->hidden, count, lanes->first, b->hidden + from * m->hidden);
        take_rows(m->classes, count, lanes->second, b->second + from * m->classes);
    }
    for (int64_t i = from; i < from + count && b->first_clipped != NULL; i++) {
        if (m->hidden > 0) b->hidden_input[i] = train_round_inputs(m->hidden, b->hidden + i * m->hidden);
        train_clip_example(g, i);
    }
    return DPMF_OK;
}

static dpmf_status finish_block(train_gradient *g) {
    train_block *b = &g->block;
    if (b->count == 0) return DPMF_OK;
    TRY(train_share(g, (b->count + TRAIN_LANES - 1) / TRAIN_LANES, derive_chunk));
    TRY(train_clip_and_add(g));
    b->count = b->units = 0;
    return DPMF_OK;
}

dpmf_status train_gradient_sum(train_gradient *g, const float *weights, int64_t count, const int64_t *batch,
                               int64_t part, int64_t parts) {
    const int64_t units = g->clip.by_unit ? g->data->units : g->data->count;
    memset(g->sums, 0, (size_t)g->model.dim * sizeof *g->sums);
    if (g->plain != NULL) memset(g->plain, 0, (size_t)g->model.dim * sizeof *g->plain);
    g->weights = weights;
    g->units = g->clipped = 0;
    g->block.count = g->block.units = 0;
    train_model_turn(&g->model, weights, &g->turned);
    for (int64_t i = part; i < count; i += parts) {
        if (batch[i] < 0 || batch[i] >= units)
            return base_fail(DPMF_ERROR_ARGUMENT, "a batch has unit %" PRId64 ", accepted: 0 to %" PRId64, batch[i],
                             units - 1);
        const int64_t size = unit_size(g, batch[i]);
        if (size == 0) continue; /* a user without examples adds nothing */
        if (g->block.count + size > g->block.room) TRY(finish_block(g));
        add_unit(g, batch[i]);
        g->units++;
    }
    TRY(finish_block(g));
    return g->plain != NULL ? train_plain_finish(g) : DPMF_OK;
}
