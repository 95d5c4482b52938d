/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of examples: their way through the model, and sums of their gradients in float.
 *
 * A layer's gradient for one example is d x', d the derivative by its outputs and x its inputs with a 1 for the bias. A block
 * keeps d, the activations and pointers to the features of its examples, so that the sum over any of them is one product.
 */
#include "train/train.h"

#include "base/memory.h"

#include <string.h>

enum { COLUMNS = TRAIN_COLUMNS };

dpmf_status train_block_create(const train_model *m, int64_t room, train_block *b) {
    b->room = room;
    TRY(base_alloc(room, sizeof *b->x, "a batch", (void **)&b->x));
    TRY(base_alloc(room, sizeof *b->label, "a batch", (void **)&b->label));
    TRY(base_alloc(room * m->outputs, sizeof(float), "a batch", (void **)&b->first));
    TRY(base_alloc(room * m->classes, sizeof(float), "a batch", (void **)&b->second));
    TRY(base_alloc(room * m->hidden, sizeof(float), "a batch", (void **)&b->hidden));
    TRY(base_alloc(room, sizeof *b->hidden_rows, "a batch", (void **)&b->hidden_rows));
    for (int64_t i = 0; i < room; i++)
        b->hidden_rows[i] = b->hidden + i * m->hidden;
    return DPMF_OK;
}

void train_block_free(train_block *b) {
    base_free((void *)b->x);
    base_free(b->label);
    base_free(b->first);
    base_free(b->second);
    base_free(b->hidden);
    base_free((void *)b->hidden_rows);
    *b = (train_block){0};
}

/* Rows of `count` lanes as rows of examples. */
static void take_rows(int64_t width, int64_t count, const float *lanes, float *rows) {
    for (int64_t l = 0; l < count; l++)
        for (int64_t i = 0; i < width; i++)
            rows[l * width + i] = lanes[i * TRAIN_LANES + l];
}

void train_block_derive(const train_model *m, const float *weights, const train_turned *turned, int64_t from,
                        int64_t count, train_lanes *lanes, train_block *b) {
    train_model_forward(m, weights, turned, count, b->x + from, lanes);
    train_model_backward(m, weights, count, b->label + from, lanes);
    take_rows(m->outputs, count, m->hidden > 0 ? lanes->back : lanes->first, b->first + from * m->outputs);
    if (m->hidden > 0) {
        take_rows(m->hidden, count, lanes->first, b->hidden + from * m->hidden);
        take_rows(m->classes, count, lanes->second, b->second + from * m->classes);
    }
}

int64_t train_block_items(const train_model *m) {
    return train_pieces(m->features) + train_pieces(m->hidden) + 1;
}

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

void train_block_add(const train_model *m, const train_block *b, int64_t from, int64_t to, int64_t item, float *sums) {
    const int64_t first = train_pieces(m->features), second = train_pieces(m->hidden);
    if (item < first) {
        add_layer(m->outputs, m->features, from, to, b->first, b->x, item, sums);
    } else if (item < first + second) {
        add_layer(m->classes, m->hidden, from, to, b->second, b->hidden_rows, item - first, sums + m->second);
    } else {
        add_bias(m->outputs, from, to, b->first, sums + m->first_bias);
        if (m->hidden > 0) add_bias(m->classes, from, to, b->second, sums + m->second_bias);
    }
}
