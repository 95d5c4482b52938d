/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clipping a block of units, and the product that sums them.
 *
 * The gradient of a user with the examples i = 1..n is g_u = (1/n) sum_i g_i: the mean, so that users count alike
 * however much data they have, and clip means the same for all. Its norm is taken from g_u itself, formed one user at a
 * time: n outputs x features multiplications, which for more than a few examples is less than the n^2 inner products that
 * a Gram matrix needs. The derivatives are then multiplied by f_u/n, and the sum is that of examples.
 */
#include "train.h"

#include <math.h>
#include <string.h>

/* Scaled derivatives and their products with inputs are each rounded to float, 2^-24 relative: stay below by more. */
static const double MARGIN = 1.0 - 0x1p-21;

enum { COLUMNS = 256 }; /* of one item: enough that a product is worth a thread */

static int64_t pieces(int64_t columns) {
    return (columns + COLUMNS - 1) / COLUMNS;
}

int64_t dpmf_i_sum_items(const dpmf_i_model *m) {
    return pieces(m->features) + pieces(m->hidden) + 1;
}

/* sums[i, j] += sum over examples of d[example, i] rows[example][j], for one piece of the columns j. */
static void add_layer(int64_t outputs, int64_t inputs, int64_t from, int64_t to, const float *d,
                      const float *const *rows, int64_t piece, float *sums) {
    const int64_t first = piece * COLUMNS, left = inputs - first;
    const dpmf_i_product job = {.rows = outputs,
                                .columns = left < COLUMNS ? left : COLUMNS,
                                .terms = to - from,
                                .a = d + from * outputs,
                                .a_stride = outputs,
                                .b = rows + from,
                                .b_first = first,
                                .c = sums + first,
                                .c_stride = inputs};
    dpmf_i_multiply_kernels_get()->multiply(&job);
}

static void add_bias(int64_t outputs, int64_t from, int64_t to, const float *d, float *sums) {
    for (int64_t k = from; k < to; k++)
        for (int64_t i = 0; i < outputs; i++)
            sums[i] += d[k * outputs + i];
}

void dpmf_i_sum_item(const dpmf_i_model *m, const dpmf_i_block *b, int64_t from, int64_t to, int64_t item,
                     float *sums) {
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

/* |sum of the gradients of a unit's examples|^2 */
static double unit_square(const dpmf_i_gradient *g, int64_t from, int64_t to, float *scratch) {
    double sum = 0.0;
    if (to - from == 1) return g->block.square[from];
    memset(scratch, 0, (size_t)g->model.dim * sizeof *scratch);
    for (int64_t item = 0; item < dpmf_i_sum_items(&g->model); item++)
        dpmf_i_sum_item(&g->model, &g->block, from, to, item, scratch);
    for (int64_t i = 0; i < g->model.dim; i++)
        sum += (double)scratch[i] * (double)scratch[i];
    return sum;
}

/* The factor of one unit; NaN if its gradient is not finite. */
static dpmf_status find_factor(void *context, int64_t unit, int worker) {
    dpmf_i_gradient *g = context;
    const int64_t from = g->block.start[unit], to = g->block.start[unit + 1];
    const double size = (double)(to - from), square = unit_square(g, from, to, g->scratch[worker]);
    const double norm = sqrt(square) / size, limit = g->clip.clip * MARGIN;
    double factor = norm > limit ? limit / norm : 1.0;
    if (g->clip.zero_above > 0.0 && norm > g->clip.zero_above) factor = 0.0;
    g->block.factor[unit] = isfinite(norm) ? factor / size : NAN;
    return DPMF_OK;
}

static void scale_rows(int64_t width, int64_t from, int64_t to, double factor, float *rows) {
    for (int64_t i = from * width; i < to * width; i++)
        rows[i] = (float)(factor * (double)rows[i]);
}

dpmf_status dpmf_i_clip_block(dpmf_i_gradient *g) {
    const dpmf_i_model *m = &g->model;
    dpmf_i_block *b = &g->block;
    if (g->clip.by_unit) {
        TRY(dpmf_i_gradient_run(g, b->units, find_factor));
    } else {
        for (int64_t u = 0; u < b->units; u++)
            TRY(find_factor(g, u, 0));
    }
    for (int64_t u = 0; u < b->units; u++) {
        const int64_t from = b->start[u], to = b->start[u + 1];
        if (isnan(b->factor[u])) return dpmf_i_fail(DPMF_ERROR_NUMERICAL, "a gradient is not finite");
        g->clipped += b->factor[u] * (double)(to - from) < 1.0;
        scale_rows(m->outputs, from, to, b->factor[u], b->first);
        if (m->hidden > 0) scale_rows(m->classes, from, to, b->factor[u], b->second);
    }
    return DPMF_OK;
}
