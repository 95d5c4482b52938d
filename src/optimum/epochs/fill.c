/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The complete X = sum_j w_j (K + s_j V)^-1 from the results of optimum/epochs/node.c for each node: with T the inverse
 * of a node and c a column of a position not before i,
 *
 *     T[i,c] = E_i T[J,c],    J the p positions after i and the border,
 *
 * so that a chunk of columns is computed from its own positions to the first, all nodes side by side: 4 p k operations
 * per entry and node. Chunks are independent, and each entry is the sum over the nodes in their order.
 */
#include "base/memory.h"
#include "kernels/block/block.h"
#include "optimum/epochs/epochs.h"

#include <string.h>

enum { CHUNK = 128 }; /* columns, about: the states of 40 nodes then fit a second-level cache */

/* One node alone, rows of width (2p+1) k */
typedef struct single {
    double *rows;   /* inner x k: [R_ii^-1 | E_i] */
    double *blocks; /* inner x k: [T[i,i] | T[i,J]] */
    double *border; /* p k x p k: T of the border */
} single;

typedef struct filler {
    optimum_epochs *e;
    const double *lower;
    single *nodes;
    int64_t first;     /* group or chunk of the first item */
    int64_t positions; /* in a chunk */
    int64_t columns;   /* stride of a state: the columns of a chunk, padded */
    double *states;    /* workers x (nodes x 2pk + 2k) x columns */
    double *x;
} filler;

static void take_lane(int64_t count, const kernels_block_side *from, int lane, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i][lane];
}

static dpmf_status run_group(void *context, int64_t item, int worker) {
    const filler *f = context;
    const epochs_shape *s = &f->e->shape;
    const epochs_node *node = &f->e->scratch[worker];
    const int64_t group = f->first + item, size = s->inner * s->k * s->width;
    double shift[EPOCHS_SIDE], weight[EPOCHS_SIDE];
    epochs_group(f->e, group, shift, weight);
    epochs_node_run(s, f->lower, shift, &f->e->scratch[worker]);
    for (int lane = 0; lane < EPOCHS_SIDE; lane++) {
        const int64_t j = group * EPOCHS_SIDE + lane;
        if (j >= f->e->rule.count) break;
        take_lane(size, node->rows, lane, f->nodes[j].rows);
        take_lane(size, node->blocks, lane, f->nodes[j].blocks);
        take_lane(s->border * s->border, node->border, lane, f->nodes[j].border);
    }
    return DPMF_OK;
}

/* The k columns of position q enter a node's state: T[J,q] = T[q,J]'. */
static void enter(const filler *f, const single *node, int64_t q, int64_t at, double *state) {
    const epochs_shape *s = &f->e->shape;
    const double *blocks = node->blocks + q * s->k * s->width;
    for (int64_t j = 0; j < 2 * s->p * s->k; j++)
        for (int64_t c = 0; c < s->k; c++)
            state[j * f->columns + at + c] = blocks[c * s->width + s->k + j];
}

static void enter_border(const filler *f, const single *node, double *state) {
    const epochs_shape *s = &f->e->shape;
    int64_t m = s->p * s->k;
    for (int64_t j = 0; j < m; j++)
        memcpy(state + (m + j) * f->columns, node->border + j * s->border, (size_t)m * sizeof *state);
}

/* Writes a block of rows of position i: k rows over the columns of positions [first, last) that are not before i. */
static void write_rows(const filler *f, int64_t i, int64_t first, int64_t last, const double *rows) {
    const optimum_epochs *e = f->e;
    int64_t k = e->k, b = e->b, n = e->n;
    for (int64_t r = 0; r < k && i + r * b < n; r++)
        for (int64_t q = i > first ? i : first; q < last; q++)
            for (int64_t c = 0; c < k && q + c * b < n; c++) {
                double value = rows[r * f->columns + (q - first) * k + c];
                f->x[(i + r * b) * n + q + c * b] = f->x[(q + c * b) * n + i + r * b] = value;
            }
}

/* One node at position i: `row` becomes T[i, columns], and the state that of i - 1. */
static void step_node(const filler *f, const kernels_block_set *kernels, const single *node, int64_t i, int64_t first,
                      int inside, double *state, double *row) {
    const epochs_shape *s = &f->e->shape;
    int64_t k = s->k, slots = s->p * k;
    kernels->multiply(k, 2 * slots, f->columns, node->rows + i * k * s->width + k, s->width, state, f->columns, row,
                      f->columns);
    if (inside) {
        enter(f, node, i, (i - first) * k, state);
        for (int64_t r = 0; r < k; r++)
            memcpy(row + r * f->columns + (i - first) * k, node->blocks + (i * k + r) * s->width,
                   (size_t)k * sizeof *row);
    }
    memmove(state + k * f->columns, state, (size_t)((slots - k) * f->columns) * sizeof *state);
    memcpy(state, row, (size_t)(k * f->columns) * sizeof *state);
}

static dpmf_status fill_chunk(void *context, int64_t item, int worker) {
    const filler *f = context;
    const epochs_shape *s = &f->e->shape;
    const kernels_block_set *kernels = kernels_block_get();
    int64_t k = s->k, first = (f->first + item) * f->positions, last = first + f->positions,
            each = 2 * s->p * k * f->columns;
    int nodes = f->e->rule.count, border = first >= s->inner;
    double *states = f->states + worker * (nodes * each + 2 * k * f->columns), *row = states + nodes * each,
           *sum = row + k * f->columns;
    if (last > s->inner) last = s->inner;
    if (border) {
        first = s->inner;
        last = s->b;
    }
    memset(states, 0, (size_t)(nodes * each) * sizeof *states);
    for (int j = 0; j < nodes && border; j++)
        enter_border(f, &f->nodes[j], states + j * each);
    for (int64_t q = first; q < last && border; q++) {
        memset(sum, 0, (size_t)(k * f->columns) * sizeof *sum);
        for (int j = 0; j < nodes; j++)
            for (int64_t r = 0; r < k; r++)
                for (int64_t c = 0; c < s->p * k; c++)
                    sum[r * f->columns + c] +=
                        f->e->rule.weight[j] * f->nodes[j].border[((q - first) * k + r) * s->border + c];
        write_rows(f, q, first, last, sum);
    }
    for (int64_t i = (border ? s->inner : last) - 1; i >= 0; i--) {
        memset(sum, 0, (size_t)(k * f->columns) * sizeof *sum);
        for (int j = 0; j < nodes; j++) {
            step_node(f, kernels, &f->nodes[j], i, first, i >= first, states + j * each, row);
            for (int64_t c = 0; c < k * f->columns; c++)
                sum[c] += f->e->rule.weight[j] * row[c];
        }
        write_rows(f, i, first, last, sum);
    }
    return DPMF_OK;
}

/* Runs as many at a time as there are workers: between them the caller may cancel. */
static dpmf_status run_items(filler *f, int64_t count, base_work work) {
    const int64_t workers = f->e->workers;
    for (f->first = 0; f->first < count; f->first += workers) {
        TRY(base_progress(f->e->run, "cyclic optimum: the matrix", -1));
        TRY(base_pool_run(f->e->pool, count - f->first < workers ? count - f->first : workers, work, f));
    }
    return DPMF_OK;
}

static dpmf_status fill_blocks(optimum_epochs *e, const epochs_point *point, double *x) {
    const epochs_shape *s = &e->shape;
    int nodes = e->rule.count;
    filler f = {.e = e, .lower = point->lower, .x = x};
    dpmf_status status = DPMF_OK;
    f.positions = CHUNK / s->k < 2 ? 2 : CHUNK / s->k;
    f.columns = kernels_block_pad(f.positions * s->k); /* the border's p <= 2 positions fit too */
    int64_t chunks = (s->inner + f.positions - 1) / f.positions;
    TRY_DONE(base_alloc(nodes, sizeof *f.nodes, "nodes", (void **)&f.nodes));
    for (int j = 0; j < nodes; j++) {
        TRY_DONE(base_alloc_doubles(s->inner * s->k * s->width, "the factor of a node", &f.nodes[j].rows));
        TRY_DONE(base_alloc_doubles(s->inner * s->k * s->width, "the blocks of a node", &f.nodes[j].blocks));
        TRY_DONE(base_alloc_doubles(s->border * s->border, "the border of a node", &f.nodes[j].border));
    }
    TRY_DONE(base_alloc_doubles(e->workers * (2 * s->p * nodes + 2) * s->k * f.columns, "columns of X", &f.states));
    TRY_DONE(run_items(&f, (nodes + EPOCHS_SIDE - 1) / EPOCHS_SIDE, run_group));
    /* one more chunk than the inner positions need is for the border */
    f.positions = (s->inner + chunks - 1) / chunks;
    chunks = (s->inner + f.positions - 1) / f.positions;
    TRY_DONE(run_items(&f, chunks + 1, fill_chunk));
done:
    for (int j = 0; f.nodes != NULL && j < nodes; j++) {
        base_free(f.nodes[j].rows);
        base_free(f.nodes[j].blocks);
        base_free(f.nodes[j].border);
    }
    base_free(f.nodes);
    base_free(f.states);
    return status;
}

dpmf_status epochs_fill(optimum_epochs *e, const epochs_point *point, double *x) {
    int64_t k = e->k, b = e->b;
    TRY(e->dense ? epochs_fill_dense(e, x) : fill_blocks(e, point, x));
    for (int64_t i = 0; i < b; i++)
        for (int64_t r = 0; i + r * b < e->n; r++)
            for (int64_t q = 0; i + q * b < e->n; q++)
                x[(i + r * b) * e->n + i + q * b] += point->added[(i * k + r) * k + q];
    return DPMF_OK;
}
