/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clipping a block of units, so that the vector that a unit adds, as it is in float, has a norm of at most clip.
 *
 * Examples. The rows d of derivatives are multiplied by f, and one product adds them all: d' = fl(f d) and fl(d'_i x_j) is
 * what an example adds to coordinate (i, j). A d' below the smallest normal number is put to zero, so that rounding it is
 * relative: |d'_i| <= (1 + u) f |d_i|, u = 2^-24, however small f is. The products are rounded by at most u relatively, or
 * 2^-150 where they are subnormal. With |g|^2 = sum over layers |d|^2 (|x|^2 + 1) in double, and f |g| <= limit,
 *
 *     |added| <= (1 + u)^2 limit (1 + 2^-25) + sqrt(dim) 2^-150  <=  clip,
 *
 * since limit = clip (1 - 8u), and clip >= 2^-100 and dim <= 2^40 (four terabytes) keep the last term below clip 2^-25.
 * (1 + 2^-25 is more than double loses in |g|: sums of up to 2^24 terms by four, and in slices where a vector is longer.)
 *
 * Users. The gradient of a user with the examples i = 1..n is g_u = (1/n) sum_i g_i: the mean, so that users count alike
 * however much data they have, and clip means the same for all. The sum v = fl(sum_i g_i) rounds, and where examples
 * cancel it may round to anything of the size of its terms; multiplied derivatives would round to something else again.
 * So the vector that is measured is the one that is added: v is formed, |v| taken, and fl((f/n) v) added, again with zero
 * for subnormal numbers, so |added| <= (1 + u) limit (1 + 2^-25) <= clip whatever rounding made of v.
 *
 * Users go through in groups, as many as there is room for their vectors: formed side by side, then added in order, each
 * coordinate by one thread. So the bits depend neither on the groups nor on the threads.
 */
#include "train/train.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const double MARGIN = 1.0 - 0x1p-21; /* 8u: above, 2u + 2 x 2^-25 and their products are used */

enum { COLUMNS = 256 }; /* of one item: enough that a product is worth a thread */

static int64_t pieces(int64_t columns) {
    return (columns + COLUMNS - 1) / COLUMNS;
}

static int64_t add_items(const dpmf_i_train_model *m) {
    return pieces(m->features) + pieces(m->hidden) + 1;
}

/* sums[i, j] += sum over examples of d[example, i] rows[example][j], for one piece of the columns j. */
static void add_layer(int64_t outputs, int64_t inputs, int64_t from, int64_t to, const float *d,
                      const float *const *rows, int64_t piece, float *sums) {
    const int64_t first = piece * COLUMNS, left = inputs - first;
    const dpmf_i_kernels_product job = {.rows = outputs,
                                        .columns = left < COLUMNS ? left : COLUMNS,
                                        .terms = to - from,
                                        .a = d + from * outputs,
                                        .a_stride = outputs,
                                        .b = rows + from,
                                        .b_first = first,
                                        .c = sums + first,
                                        .c_stride = inputs};
    dpmf_i_kernels_multiply_get()->multiply(&job);
}

static void add_bias(int64_t outputs, int64_t from, int64_t to, const float *d, float *sums) {
    for (int64_t k = from; k < to; k++)
        for (int64_t i = 0; i < outputs; i++)
            sums[i] += d[k * outputs + i];
}

/* The sum over [from, to) of the block of derivatives x inputs, added to `sums` (columns of one item). */
static void add_item(const dpmf_i_train_model *m, const dpmf_i_train_block *b, int64_t from, int64_t to, int64_t item,
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

/* What a gradient of this norm is multiplied by; NaN if it is not finite. */
static double factor_of(const dpmf_i_train_clip *clip, double norm) {
    const double limit = clip->clip * MARGIN;
    if (!isfinite(norm)) return NAN;
    if (clip->zero_above > 0.0 && norm > clip->zero_above) return 0.0;
    return norm > limit ? limit / norm : 1.0;
}

/* To float, upwards by at most 2^-24 relative: subnormal numbers, which may round to twice themselves, become 0. */
static float scaled(double factor, float value) {
    const double exact = factor * (double)value;
    return fabs(exact) < (double)FLT_MIN ? 0.0f : (float)exact;
}

/* ---- examples ---- */

static void scale_row(int64_t width, int64_t example, double factor, float *rows) {
    for (int64_t i = example * width; i < (example + 1) * width; i++)
        rows[i] = scaled(factor, rows[i]);
}

static dpmf_status sum_item(void *context, int64_t item, int worker) {
    dpmf_i_train_gradient *g = context;
    (void)worker;
    add_item(&g->model, &g->block, 0, g->block.count, item, g->sums);
    return DPMF_OK;
}

static dpmf_status add_examples(dpmf_i_train_gradient *g) {
    const dpmf_i_train_model *m = &g->model;
    dpmf_i_train_block *b = &g->block;
    for (int64_t i = 0; i < b->count; i++) {
        const double factor = factor_of(&g->clip, sqrt(b->square[i]));
        if (isnan(factor)) return dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "a gradient is not finite");
        g->clipped += factor < 1.0;
        scale_row(m->outputs, i, factor, b->first);
        if (m->hidden > 0) scale_row(m->classes, i, factor, b->second);
    }
    return dpmf_i_train_gradient_run(g, add_items(m), sum_item);
}

/* ---- users ---- */

enum { SLICE = 4096 }; /* coordinates of a group that one item adds up: enough to be worth a thread */

/* |v|, a slice at a time: (SLICE/4 + dim/SLICE) 2^-54 relative is below 2^-25 up to dim = 2^40. */
static double norm_of(int64_t dim, const float *v) {
    double sum = 0.0;
    for (int64_t from = 0; from < dim; from += SLICE)
        sum += dpmf_i_train_square_of(dim - from < SLICE ? dim - from : SLICE, v + from);
    return sqrt(sum);
}

/* v and f of one user of the group. */
static dpmf_status form_user(void *context, int64_t item, int worker) {
    dpmf_i_train_gradient *g = context;
    const dpmf_i_train_model *m = &g->model;
    const int64_t unit = g->group + item, from = g->block.start[unit], to = g->block.start[unit + 1];
    float *v = g->users + item * m->dim;
    (void)worker;
    memset(v, 0, (size_t)m->dim * sizeof *v);
    for (int64_t k = 0; k < add_items(m); k++)
        add_item(m, &g->block, from, to, k, v);
    g->block.factor[unit] = factor_of(&g->clip, norm_of(m->dim, v) / (double)(to - from));
    return DPMF_OK;
}

/* Adds a slice of the group's vectors, in order. */
static dpmf_status add_slice(void *context, int64_t item, int worker) {
    dpmf_i_train_gradient *g = context;
    const int64_t dim = g->model.dim, from = item * SLICE, to = from + SLICE < dim ? from + SLICE : dim;
    (void)worker;
    for (int64_t k = 0; k < g->group_size; k++) {
        const int64_t unit = g->group + k;
        const double factor = g->block.factor[unit] / (double)(g->block.start[unit + 1] - g->block.start[unit]);
        const float *v = g->users + k * dim;
        float *sums = g->sums;
        for (int64_t i = from; i < to; i++)
            sums[i] += scaled(factor, v[i]);
    }
    return DPMF_OK;
}

static dpmf_status add_users(dpmf_i_train_gradient *g) {
    const dpmf_i_train_block *b = &g->block;
    for (g->group = 0; g->group < b->units; g->group += g->group_size) {
        const int64_t left = b->units - g->group;
        g->group_size = left < g->users_room ? left : g->users_room;
        TRY(dpmf_i_train_gradient_run(g, g->group_size, form_user));
        for (int64_t u = g->group; u < g->group + g->group_size; u++) {
            if (isnan(b->factor[u])) return dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "a gradient is not finite");
            g->clipped += b->factor[u] < 1.0;
        }
        TRY(dpmf_i_train_gradient_run(g, (g->model.dim + SLICE - 1) / SLICE, add_slice));
    }
    return DPMF_OK;
}

dpmf_status dpmf_i_train_clip_and_add(dpmf_i_train_gradient *g) {
    return g->clip.by_unit ? add_users(g) : add_examples(g);
}
