/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adding a block of units to a sum, each clipped on the grid of train/grid.c, which has the mathematics.
 *
 * Examples: their derivatives are rounded and scaled, and one exact product adds them all. Users: the gradient of a user
 * with the examples i = 1..n is the mean g_u = (1/n) sum_i g_i, so that users count alike however much data they have. It
 * is formed in float, whatever rounding makes of it, then rounded to the grid, clipped there and added. Users go through
 * in groups, as many as there is room for their vectors.
 *
 * Without a clip norm there is no bound, hence no grid: gradients are summed in float, in the order of the batch. That is
 * for runs without noise only.
 */
#include "train/train.h"

#include "kernels/exact/exact.h"

#include <math.h>

enum { COLUMNS = 256 }; /* of one item: enough that a product is worth a thread */

dpmf_status train_share(train_gradient *g, int64_t items, base_work work) {
    if ((double)g->block.count * (double)g->model.dim >= g->worth) return base_pool_run(g->pool, items, work, g);
    for (int64_t i = 0; i < items; i++)
        TRY(work(g, i, 0));
    return DPMF_OK;
}

static int64_t pieces(int64_t columns) {
    return (columns + COLUMNS - 1) / COLUMNS;
}

static int64_t add_items(const train_model *m) {
    return pieces(m->features) + pieces(m->hidden) + 1;
}

/* ---- in float ---- */

/* sums[i, j] += sum over examples of d[example, i] rows[example][j], for one piece of the columns j. */
static void add_layer(int64_t outputs, int64_t inputs, int64_t from, int64_t to, const float *d,
                      const float *const *rows, int64_t piece, float *sums) {
    const int64_t first = piece * COLUMNS, left = inputs - first;
    const kernels_product job = {.rows = outputs,
                                 .columns = left < COLUMNS ? left : COLUMNS,
                                 .terms = to - from,
                                 .a = d + from * outputs,
                                 .a_stride = outputs,
                                 .b = rows + from,
                                 .b_first = first,
                                 .c = sums + first,
                                 .c_stride = inputs};
    kernels_multiply_get()->multiply(&job);
}

static void add_bias(int64_t outputs, int64_t from, int64_t to, const float *d, float *sums) {
    for (int64_t k = from; k < to; k++)
        for (int64_t i = 0; i < outputs; i++)
            sums[i] += d[k * outputs + i];
}

/* The sum over [from, to) of the block of derivatives x inputs, added to `sums` (columns of one item). */
static void add_item(const train_model *m, const train_block *b, int64_t from, int64_t to, int64_t item, float *sums) {
    const int64_t first = pieces(m->features), second = pieces(m->hidden);
    if (item < first) {
        add_layer(m->outputs, m->features, from, to, b->first, b->x, item, sums);
    } else if (item < first + second) {
        add_layer(m->classes, m->hidden, from, to, b->second, b->hidden_rows, item - first, sums + m->second);
    } else {
        add_bias(m->outputs, from, to, b->first, sums + m->first_bias);
        if (m->hidden > 0) add_bias(m->classes, from, to, b->second, sums + m->second_bias);
    }
}

/* ---- on the grid ---- */

static void add_layer_exactly(const train_gradient *g, int64_t outputs, int64_t inputs, const double *d,
                              const float *const *rows, int64_t piece, int64_t *sums) {
    const int64_t first = piece * COLUMNS, left = inputs - first;
    const kernels_exact job = {.rows = outputs,
                               .columns = left < COLUMNS ? left : COLUMNS,
                               .terms = g->block.count,
                               .a = d,
                               .a_stride = train_stride(outputs),
                               .b = rows,
                               .b_first = first,
                               .per_grid = g->grid.per_step,
                               .c = sums + first,
                               .c_stride = inputs};
    kernels_exact_get()->multiply(&job);
}

static void add_bias_exactly(const train_gradient *g, int64_t outputs, const double *d, const train_input *input,
                             int64_t *sums) {
    for (int64_t k = 0; k < g->block.count; k++, d += train_stride(outputs)) {
        const double scale = train_one_of(&input[k]) * g->grid.per_step;
        for (int64_t i = 0; i < outputs; i++)
            sums[i] += train_integer(d[i] * scale);
    }
}

static dpmf_status add_exactly(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    const train_block *b = &g->block;
    const int64_t first = pieces(m->features), second = pieces(m->hidden);
    (void)worker;
    if (item < first) {
        add_layer_exactly(g, m->outputs, m->features, b->first_clipped, b->x, item, g->sums);
    } else if (item < first + second) {
        add_layer_exactly(g, m->classes, m->hidden, b->second_clipped, b->hidden_rows, item - first,
                          g->sums + m->second);
    } else {
        add_bias_exactly(g, m->outputs, b->first_clipped, b->input, g->sums + m->first_bias);
        if (m->hidden > 0)
            add_bias_exactly(g, m->classes, b->second_clipped, b->hidden_input, g->sums + m->second_bias);
    }
    return DPMF_OK;
}

void train_clip_example(train_gradient *g, int64_t i) {
    const train_model *m = &g->model;
    train_block *b = &g->block;
    const train_layer layer[2] = {
        {m->outputs, b->first + i * m->outputs, b->input[i], b->first_clipped + i * train_stride(m->outputs)},
        {m->classes, b->second + i * m->classes, b->hidden_input[i], b->second_clipped + i * train_stride(m->classes)}};
    train_clip_layers(&g->grid, g->clip.zero_above, m->hidden > 0 ? 2 : 1, layer, &b->clipped[i]);
}

static dpmf_status add_examples(train_gradient *g) {
    for (int64_t i = 0; i < g->block.count; i++)
        g->clipped += g->block.clipped[i];
    return train_share(g, add_items(&g->model), add_exactly);
}

/* ---- users ---- */

enum { SLICE = 4096 }; /* coordinates of a group that one item adds up: enough to be worth a thread */

/* An example whose features are not finite is of a user whose gradient is not. */
static int usable(const train_block *b, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        if (isnan(b->input[i].square)) return 0;
    return 1;
}

/* v and f of one user of the group. */
static dpmf_status form_user(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const train_model *m = &g->model;
    train_block *b = &g->block;
    const int64_t unit = g->group + item, from = b->start[unit], to = b->start[unit + 1];
    float *v = g->users + item * m->dim;
    (void)worker;
    memset(v, 0, (size_t)m->dim * sizeof *v);
    for (int64_t k = 0; k < add_items(m); k++)
        add_item(m, b, from, to, k, v);
    train_clip_vector(&g->grid, g->clip.zero_above, m->dim, v, to - from, &b->factor[unit], &b->clipped[unit]);
    if (!usable(b, from, to)) b->factor[unit] = 0;
    return DPMF_OK;
}

static dpmf_status add_slice(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    const int64_t dim = g->model.dim, from = item * SLICE, to = from + SLICE < dim ? from + SLICE : dim;
    (void)worker;
    for (int64_t k = 0; k < g->group_size; k++) {
        const double factor = g->block.factor[g->group + k];
        const float *v = g->users + k * dim;
        for (int64_t i = from; factor > 0 && i < to; i++)
            g->sums[i] += train_integer((double)v[i] * factor);
    }
    return DPMF_OK;
}

static dpmf_status add_users(train_gradient *g) {
    const train_block *b = &g->block;
    for (g->group = 0; g->group < b->units; g->group += g->group_size) {
        const int64_t left = b->units - g->group;
        g->group_size = left < g->users_room ? left : g->users_room;
        TRY(train_share(g, g->group_size, form_user));
        for (int64_t u = g->group; u < g->group + g->group_size; u++)
            g->clipped += b->clipped[u];
        TRY(train_share(g, (g->model.dim + SLICE - 1) / SLICE, add_slice));
    }
    return DPMF_OK;
}

/* ---- without a clip norm ---- */

static dpmf_status add_freely(void *context, int64_t item, int worker) {
    train_gradient *g = context;
    (void)worker;
    add_item(&g->model, &g->block, 0, g->block.count, item, g->plain);
    return DPMF_OK;
}

static void scale_row(int64_t width, int64_t example, double factor, float *rows) {
    for (int64_t i = example * width; i < (example + 1) * width; i++)
        rows[i] = factor > 0 ? (float)(factor * (double)rows[i]) : 0;
}

/* A user's derivatives are divided by the number of its examples. */
static void average_users(const train_gradient *g) {
    const train_block *b = &g->block;
    for (int64_t u = 0; u < b->units; u++) {
        const int64_t from = b->start[u], to = b->start[u + 1];
        const double share = usable(b, from, to) ? 1.0 / (double)(to - from) : 0;
        for (int64_t i = from; i < to && share < 1; i++) {
            scale_row(g->model.outputs, i, share, b->first);
            if (g->model.hidden > 0) scale_row(g->model.classes, i, share, b->second);
        }
    }
}

dpmf_status train_plain_finish(train_gradient *g) {
    for (int64_t i = 0; i < g->model.dim; i++) {
        const double value = (double)g->plain[i] * g->grid.per_step;
        if (!(fabs(value) < 0x1p62)) return base_fail(DPMF_ERROR_NUMERICAL, "a gradient is not finite");
        g->sums[i] = (int64_t)value;
    }
    return DPMF_OK;
}

dpmf_status train_clip_and_add(train_gradient *g) {
    if (isinf(g->clip.clip)) {
        average_users(g);
        return train_share(g, add_items(&g->model), add_freely);
    }
    return g->clip.by_unit ? add_users(g) : add_examples(g);
}
