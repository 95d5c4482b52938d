/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clipped sum of a batch: G = sum over units u of f_u g_u, with f_u = min(1, clip/|g_u|), or clip/(|g_u| + gamma) where
 * contributions are normalised, in integers (train/grid.c).
 *
 * A layer's gradient for one example is d x' (d the derivative by its outputs, x its inputs with a 1 for the bias), so
 * |g|^2 = sum over layers |d|^2 (|x|^2 + 1): norms need no gradient (Goodfellow 2015). Once the rows d are multiplied by
 * f, one product gives the sum of all clipped gradients. Gradients of users are formed, and so are their updates
 * (train/local.c), which go the same way from there.
 *
 * Scaled gradients, f_u s g_u coordinate by coordinate with f_u for s g_u, are no such products: those of examples are formed too.
 *
 * A batch goes through in blocks of whole units: TRAIN_LANES examples at a time through the model, in parallel; then the
 * product, in parallel over columns.
 */
#include "train/train.h"

#include "base/memory.h"
#include "train/kernels/exact/exact.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/*
 * ---- clipping ----
 *
 * Adding a block of units to a sum, each clipped on the grid of train/grid.c, which has the mathematics.
 *
 * Examples: their derivatives are rounded and scaled, and one exact product adds them all. Users: the gradient of a user
 * with the examples i = 1..n is the mean g_u = (1/n) sum_i g_i, so that users count alike however much data they have. It
 * is formed in float with its rounding errors, then rounded to the grid, clipped there and added. Users go through
 * in groups, as many as there is room for their vectors.
 *
 * Without a clip norm there is no bound, hence no grid: gradients are summed in float, in the order of the batch. That is
 * for runs without noise only.
 */

/* Doubles from one row to the next: an odd number of cache lines, or rows would meet in the same places of the cache. */
static int64_t stride(int64_t outputs) {
    return 8 * (((outputs + 7) / 8) | 1);
}

/* Are the gradients of units formed, one by one? */
static int is_formed(const train_gradient *g) {
    return g->clip.by_unit || g->clip.scaled;
}

static dpmf_status share_work(train_gradient *g, int64_t items, base_work work) {
    const train_local *local = &g->clip.local;
    const double each = local->batch > 0 ? (double)g->members * (double)local->batch : (double)g->count;
    const double examples = local->steps > 0 ? each * (double)local->steps : (double)g->count;
    if (examples * (double)g->model.dim >= g->worth) return base_pool_run(g->pool, items, work, g);
    for (int64_t i = 0; i < items; i++)
        TRY(work(g, i, 0));
    return DPMF_OK;
}

static void add_layer_exactly(const train_gradient *g, int64_t outputs, int64_t inputs, const double *d,
                              const float *const *rows, int64_t piece, int64_t *sums) {
    const int64_t first = piece * TRAIN_COLUMNS, left = inputs - first;
    const kernels_exact job = {.rows = outputs,
                               .columns = left < TRAIN_COLUMNS ? left : TRAIN_COLUMNS,
                               .terms = g->count,
                               .a = d,
                               .a_stride = stride(outputs),
                               .b = rows,
                               .b_first = first,
                               .per_grid = g->grid.per_step,
                               .c = sums + first,
                               .c_stride = inputs};
    kernels_exact_get()->multiply(&job);
}

static void add_bias_exactly(const train_gradient *g, int64_t outputs, const double *d, const train_input *input,
                             int64_t *sums) {
    for (int64_t k = 0; k < g->count; k++, d += stride(outputs)) {
        const double scale = train_one_of(&input[k]) * g->grid.per_step;
        for (int64_t i = 0; i < outputs; i++)
            sums[i] += train_integer(d[i] * scale);
    }
}

static dpmf_status add_exactly(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    const int64_t first = train_pieces(m->features), second = train_pieces(m->hidden);
    (void)worker;
    if (item < first) {
        add_layer_exactly(g, m->outputs, m->features, g->first_clipped, g->block.x, item, g->sums);
    } else if (item < first + second) {
        add_layer_exactly(g, m->classes, m->hidden, g->second_clipped, g->block.hidden_rows, item - first,
                          g->sums + m->second);
    } else {
        add_bias_exactly(g, m->outputs, g->first_clipped, g->input, g->sums + m->first_bias);
        if (m->hidden > 0)
            add_bias_exactly(g, m->classes, g->second_clipped, g->hidden_input, g->sums + m->second_bias);
    }
    return DPMF_OK;
}

enum { SLICE = 4096 }; /* coordinates of a group that one item adds up: enough to be worth a thread */

/* An example whose features are not finite is of a user whose gradient is not. */
static int usable(const train_gradient *g, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        if (isnan(g->input[i].square)) return 0;
    return 1;
}

static train_zero zero_of(const train_gradient *g) {
    return (train_zero){g->clip.zero_above, g->clip.zero_largest};
}

/* v and f of one user of the group: v/n is the mean of its gradients, or v is its update. */
static dpmf_status form_user(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    const train_block *b = &g->block;
    const int64_t unit = g->group + item, from = g->start[unit], to = g->start[unit + 1];
    float *v = g->users + item * m->dim;
    int64_t count = to - from;
    if (g->clip.local.steps > 0) {
        const train_local_user user = {g->name[unit], count, b->x + from, b->label + from};
        train_local_update(&g->clip.local, m, g->weights, g->round, &user, worker, &g->lanes[worker], v);
        count = 1;
    } else {
        memset(v, 0, (size_t)m->dim * sizeof *v);
        for (int64_t k = 0; k < train_block_items(m); k++)
            train_block_add(m, b, from, to, k, v);
    }
    for (int64_t i = 0; g->scale != NULL && i < m->dim; i++)
        v[i] *= g->scale[i];
    if (isinf(g->clip.clip)) {
        g->factor[unit] = 1;
        g->changed[unit] = 0;
    } else {
        train_clip_vector(&g->grid, zero_of(g), m->dim, v, count, &g->factor[unit], &g->changed[unit]);
    }
    if (!usable(g, from, to)) g->factor[unit] = 0;
    return DPMF_OK;
}

static dpmf_status add_slice(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const int64_t dim = g->model.dim, from = item * SLICE, to = from + SLICE < dim ? from + SLICE : dim;
    (void)worker;
    for (int64_t k = 0; k < g->group_size; k++) {
        const double factor = g->factor[g->group + k];
        const float *v = g->users + k * dim;
        for (int64_t i = from; factor > 0 && i < to && g->plain != NULL; i++)
            g->plain[i] += v[i];
        for (int64_t i = from; factor > 0 && i < to && g->plain == NULL; i++)
            g->sums[i] += train_integer((double)v[i] * factor);
    }
    return DPMF_OK;
}

static dpmf_status add_freely(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    (void)worker;
    train_block_add(&g->model, &g->block, 0, g->count, item, g->plain);
    return DPMF_OK;
}

static void scale_row(int64_t width, int64_t example, double factor, float *rows) {
    for (int64_t i = example * width; i < (example + 1) * width; i++)
        rows[i] = factor > 0 ? (float)(factor * (double)rows[i]) : 0;
}

/* ... which at the end of the batch becomes gradient->sums. */
static dpmf_status finish_plain(train_gradient *g) {
    for (int64_t i = 0; i < g->model.dim; i++) {
        const double value = (double)g->plain[i] * g->grid.per_step;
        if (!(fabs(value) < 0x1p62)) return base_fail(DPMF_ERROR_NUMERICAL, "a gradient is not finite");
        g->sums[i] = (int64_t)value;
    }
    return DPMF_OK;
}

/* Adds the clipped gradients of the block's units to the sums, or, without a clip norm, to gradient->plain ... */
static dpmf_status clip_and_add(train_gradient *g) {
    if (isinf(g->clip.clip) && g->clip.local.steps == 0) {
        /* A user's derivatives are divided by the number of its examples. */
        for (int64_t u = 0; u < g->members; u++) {
            const int64_t from = g->start[u], to = g->start[u + 1];
            const double share = usable(g, from, to) ? 1.0 / (double)(to - from) : 0;
            for (int64_t i = from; i < to && share < 1; i++) {
                scale_row(g->model.outputs, i, share, g->block.first);
                if (g->model.hidden > 0) scale_row(g->model.classes, i, share, g->block.second);
            }
        }
        return share_work(g, train_block_items(&g->model), add_freely);
    }
    if (is_formed(g)) {
        for (g->group = 0; g->group < g->members; g->group += g->group_size) {
            const int64_t left = g->members - g->group;
            g->group_size = left < g->users_room ? left : g->users_room;
            TRY(share_work(g, g->group_size, form_user));
            for (int64_t u = g->group; u < g->group + g->group_size; u++)
                g->clipped += g->changed[u];
            TRY(share_work(g, (g->model.dim + SLICE - 1) / SLICE, add_slice));
        }
        return DPMF_OK;
    }
    for (int64_t i = 0; i < g->count; i++)
        g->clipped += g->changed[i];
    return share_work(g, train_block_items(&g->model), add_exactly);
}

/* ---- the sum of a batch ---- */

/* Multiplications that threads are woken for: some milliseconds, less would be lost in the waking. */
static const double WORTH = 3e7;

enum {
    BLOCK = 512 /* examples: their rows stay in the second cache for the product, chunks keep threads busy, and the sums
                 * of a block are exact in double (train/grid.c) */
};

enum { USERS_ROOM = 1 << 20 }; /* numbers: users whose gradients are formed at once, enough to keep threads busy */

/* Without a clip norm: the step that sums in float are put on, far below what they round by. */
static const double PLAIN_STEP = 0x1p-36;

static int64_t unit_size(const train_gradient *g, int64_t unit) {
    return g->clip.by_unit ? g->unit_start[unit + 1] - g->unit_start[unit] : 1;
}

static dpmf_status allocate_block(train_gradient *g) {
    const train_model *m = &g->model;
    int64_t largest = 1;
    for (int64_t u = 0; g->clip.by_unit && u < g->data->units; u++)
        if (unit_size(g, u) > largest) largest = unit_size(g, u);
    const int64_t room = largest > BLOCK ? largest : BLOCK;
    TRY(train_block_create(m, room, &g->block));
    TRY(base_alloc(room + 1, sizeof *g->start, "a batch", (void **)&g->start));
    TRY(base_alloc(room, sizeof *g->name, "a batch", (void **)&g->name));
    TRY(base_alloc(room, sizeof *g->input, "a batch", (void **)&g->input));
    TRY(base_alloc(room, sizeof *g->hidden_input, "a batch", (void **)&g->hidden_input));
    TRY(base_alloc(room, sizeof *g->changed, "a batch", (void **)&g->changed));
    TRY(base_alloc_doubles(room, "a batch", &g->factor));
    if (!is_formed(g) && isfinite(g->clip.clip)) {
        TRY(base_alloc_doubles(room * stride(m->outputs), "a batch", &g->first_clipped));
        TRY(base_alloc_doubles(room * stride(m->classes), "a batch", &g->second_clipped));
    }
    if (g->clip.local.steps > 0) TRY(train_local_open(m, base_pool_threads(g->pool), largest, &g->clip.local));
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
    if (g->clip.by_unit) {
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
    }
    TRY(allocate_block(g));
    TRY(base_alloc(m->dim, sizeof *g->sums, "the sum of gradients", (void **)&g->sums));
    if (isinf(g->clip.clip)) TRY(base_alloc(m->dim, sizeof *g->plain, "the sum of gradients", (void **)&g->plain));
    TRY(base_alloc(m->outputs * m->features, sizeof(float), "the model", (void **)&g->turned.first));
    TRY(base_alloc(m->classes * m->hidden, sizeof(float), "the model", (void **)&g->turned.second));
    TRY(base_alloc(threads, sizeof *g->lanes, "examples", (void **)&g->lanes));
    for (int i = 0; i < threads; i++)
        TRY(train_lanes_create(m, &g->lanes[i]));
    return is_formed(g) ? allocate_users(g) : DPMF_OK;
}

dpmf_status train_gradient_create(const dpmf_dataset *data, const train_model *model, train_clip clip, base_pool *pool,
                                  train_gradient **out) {
    train_gradient *made = NULL;
    train_grid grid = {PLAIN_STEP, 1 / PLAIN_STEP, 0, 0};
    const int64_t outputs = model->outputs + (model->hidden > 0 ? model->classes : 0);
    if (isinf(clip.clip) && clip.zero_above > 0) /* no unit is clipped by that */
        clip.clip = 1.001 * clip.zero_above * (clip.zero_largest ? sqrt((double)model->dim) : 1);
    if (!isinf(clip.clip)) TRY(train_grid_choose(clip.clip, clip.units, clip.noise, clip.grid, outputs, &grid));
    TRY(base_alloc(1, sizeof *made, "the gradient", (void **)&made));
    made->grid = grid;
    made->grid.gamma = clip.gamma;
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
    train_block_free(&g->block);
    train_local_close(&g->clip.local);
    base_free(g->start);
    base_free(g->name);
    base_free(g->input);
    base_free(g->hidden_input);
    base_free(g->changed);
    base_free(g->first_clipped);
    base_free(g->second_clipped);
    base_free(g->factor);
    base_free(g->turned.first);
    base_free(g->turned.second);
    base_free(g->unit_start);
    base_free(g->unit_member);
    base_free(g->sums);
    base_free(g->plain);
    base_free(g);
}

static void add_example(train_gradient *g, int64_t example) {
    g->block.x[g->count] = g->data->x + example * g->data->features;
    g->block.label[g->count] = g->data->label[example];
    g->input[g->count++] = g->data->input[example];
}

/* Examples [64 item, ...) of the block: derivatives, and where the unit is the example those as clipped. */
static dpmf_status derive_chunk(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    train_block *b = &g->block;
    const int64_t from = item * TRAIN_LANES, left = g->count - from;
    const int64_t count = left < TRAIN_LANES ? left : TRAIN_LANES;
    train_block_derive(m, g->weights, &g->turned, from, count, &g->lanes[worker], b);
    for (int64_t i = from; i < from + count && g->first_clipped != NULL; i++) {
        if (m->hidden > 0) g->hidden_input[i] = train_round_inputs(m->hidden, b->hidden + i * m->hidden);
        /* The clipped derivatives of one example of the block; any thread. */
        const train_layer layer[2] = {{m->outputs, b->first + i * m->outputs, g->input[i], m->features, b->x[i],
                                       g->first_clipped + i * stride(m->outputs)},
                                      {m->classes, b->second + i * m->classes, g->hidden_input[i], m->hidden,
                                       b->hidden_rows[i], g->second_clipped + i * stride(m->classes)}};
        train_clip_layers(&g->grid, zero_of(g), m->hidden > 0 ? 2 : 1, layer, &g->changed[i]);
    }
    return DPMF_OK;
}

static dpmf_status finish_block(train_gradient *g) {
    if (g->count == 0) return DPMF_OK;
    if (g->clip.local.steps == 0) TRY(share_work(g, (g->count + TRAIN_LANES - 1) / TRAIN_LANES, derive_chunk));
    TRY(clip_and_add(g));
    g->count = g->members = 0;
    return DPMF_OK;
}

dpmf_status train_gradient_sum(train_gradient *g, const float *weights, int64_t count, const int64_t *batch,
                               int64_t part, int64_t parts) {
    const int64_t units = g->clip.by_unit ? g->data->units : g->data->count;
    memset(g->sums, 0, (size_t)g->model.dim * sizeof *g->sums);
    if (g->plain != NULL) memset(g->plain, 0, (size_t)g->model.dim * sizeof *g->plain);
    g->weights = weights;
    g->units = g->clipped = 0;
    g->count = g->members = 0;
    train_model_turn(&g->model, weights, &g->turned);
    for (int64_t i = part; i < count; i += parts) {
        if (batch[i] < 0 || batch[i] >= units)
            return base_fail(DPMF_ERROR_ARGUMENT, "a batch has unit %" PRId64 ", accepted: 0 to %" PRId64, batch[i],
                             units - 1);
        const int64_t size = unit_size(g, batch[i]);
        if (size == 0) continue; /* a user without examples adds nothing */
        if (g->count + size > g->block.room) TRY(finish_block(g));
        g->name[g->members] = batch[i];
        g->start[g->members++] = g->count;
        if (!g->clip.by_unit)
            add_example(g, batch[i]);
        else
            for (int64_t k = g->unit_start[batch[i]]; k < g->unit_start[batch[i] + 1]; k++)
                add_example(g, g->unit_member[k]);
        g->start[g->members] = g->count;
        g->units++;
    }
    TRY(finish_block(g));
    return g->plain != NULL ? finish_plain(g) : DPMF_OK;
}
