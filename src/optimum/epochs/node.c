/* SPDX-License-Identifier: Apache-2.0 */
/*
 * T = (K + sV)^-1 by orthogonal transformations. With G = P^-1 and V = L L',
 *
 *     K + sV = Q G Q' + s L L' = W'W,   W = [ G^1/2 Q' ; sqrt(s) L' ],
 *
 * and, ordered by position within the epoch, W has rows that touch position i and the p after it (steps) or position i
 * alone (V). The last p positions, which the first ones touch across the end of an epoch, are eliminated last: a
 * border. Householder reflections turn W into a triangular R = [ R_ii  R_iJ ], k rows for each position, J the p
 * positions after i and the border. K + sV itself, whose condition is the square of W's, is never formed: for momentum
 * with a cooldown that square is 1e13 and more, and the sum of K and sV would keep two or three digits of the result.
 *
 * R x = z with z standard normal has T as its covariance, so from the border upwards, adding and never subtracting,
 *
 *     E_i = -R_ii^-1 R_iJ,    T[i,J] = E_i T[J,J],    T[i,i] = R_ii^-1 R_ii^-T + T[i,J] E_i'.
 *
 * This takes O(k^3) per position, where a dense inverse costs O(n^3). Rows stay in `pending`, triangular, until their
 * position comes.
 *
 * All shifts have the same V and the same zeros, so a few of them run side by side, one in each lane of a vector: the
 * blocks are small, and lanes along their rows would be half empty.
 */
#include "optimum/epochs/epochs.h"

#include "base/memory.h"
#include "kernels/block/block.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef kernels_block_side side;

void epochs_shape_free(epochs_shape *shape) {
    for (int j = 0; j < 3; j++)
        base_free(shape->band[j]);
    base_free(shape->mix);
    *shape = (epochs_shape){0};
}

void epochs_shape_weigh(epochs_shape *s, const dpmf_workload *workload, const double *weights) {
    for (int64_t t = 0; t < s->k * s->b; t++) {
        int64_t at = t % s->b * s->k + t / s->b;
        double scale = t < s->n && weights != NULL ? 1 / sqrt(weights[t]) : 1;
        for (int j = 0; j <= s->p; j++) {
            double q[3] = {0}, r[2];
            /* a row within the steps never fails */
            if (t + j < s->n && dpmf_workload_inverse_row(workload, t + j, q, r) != DPMF_OK) q[j] = NAN;
            s->band[j][at] = t + j < s->n ? q[j] * scale : t >= s->n && j == 0 ? 1 : 0;
        }
    }
}

dpmf_status epochs_shape_create(const dpmf_workload *workload, int64_t k, int64_t b, int reversed, epochs_shape *out) {
    epochs_shape s = {.n = workload->steps, .k = k, .b = b};
    int q_bands = 0, r_bands = 0;
    dpmf_status status = DPMF_OK;
    workload_inverse_bands(workload, &q_bands, &r_bands);
    s.p = q_bands < 1 ? 1 : q_bands;
    assert(r_bands == 0 && s.p <= 2 && b > s.p && (k - 1) * b < s.n && s.n <= k * b);
    s.inner = b - s.p;
    s.beside = 2 * s.p * k;
    s.border = s.p * k;
    s.width = s.beside + k;
    for (int j = 0; j <= s.p; j++)
        TRY_DONE(base_alloc_doubles(k * b, "the bands of the inverse workload", &s.band[j]));
    if (reversed) {
        TRY_DONE(base_alloc_doubles(b * k * k, "inverse blocks", &s.mix));
        for (int64_t t = 0; t < s.k * s.b; t++) {
            int64_t back = s.k * s.b - 1 - t, at = back % s.b * s.k + back / s.b;
            double q[3] = {1, 0, 0}, r[2];
            if (t < s.n && dpmf_workload_inverse_row(workload, t, q, r) != DPMF_OK) q[0] = NAN;
            for (int j = 0; j <= s.p; j++)
                s.band[j][at] = j <= t ? q[j] : 0;
        }
    } else {
        epochs_shape_weigh(&s, workload, NULL);
    }
    *out = s;
    s = (epochs_shape){0};
done:
    epochs_shape_free(&s);
    return status;
}

typedef struct scratch {
    side *pending; /* p k rows */
    side *fresh;   /* 2k rows */
    side *x;       /* a column of them */
    side *s;       /* T[J,J]: beside x beside */
    side *left, *right;
} scratch;

static int64_t scratch_layout(const epochs_shape *s, side *from, scratch *out) {
    const int64_t k = s->k, size[] = {s->border * s->width,  2 * k * s->width,     2 * k,
                                      s->beside * s->beside, s->border * s->width, s->border * s->width};
    side **part[] = {&out->pending, &out->fresh, &out->x, &out->s, &out->left, &out->right};
    int64_t at = 0;
    for (int i = 0; i < 6; i++) {
        *part[i] = from == NULL ? NULL : from + at;
        at += size[i];
    }
    return at;
}

static dpmf_status alloc_sides(int64_t count, const char *what, side **out) {
    double *numbers = NULL;
    TRY(base_alloc_doubles(count * KERNELS_BLOCK_SIDE, what, &numbers));
    *out = (side *)numbers;
    return DPMF_OK;
}

dpmf_status epochs_node_create(const epochs_shape *s, epochs_node *out) {
    epochs_node node = {0};
    scratch unused;
    dpmf_status status = DPMF_OK;
    TRY_DONE(alloc_sides(s->inner * s->k * s->width, "the factor of a node", &node.rows));
    TRY_DONE(alloc_sides(s->inner * s->k * s->width, "the blocks of a node", &node.blocks));
    TRY_DONE(alloc_sides(s->border * s->border, "the border of a node", &node.border));
    TRY_DONE(alloc_sides(scratch_layout(s, NULL, &unused), "scratch", &node.work));
    *out = node;
    node = (epochs_node){0};
done:
    epochs_node_free(&node);
    return status;
}

void epochs_node_free(epochs_node *node) {
    base_free(node->rows);
    base_free(node->blocks);
    base_free(node->border);
    base_free(node->work);
    *node = (epochs_node){0};
}

/* ---- the factor ---- */

/* In a row at step i, the column of position q >= i. */
static int64_t column_of(const epochs_shape *s, int64_t i, int64_t q) {
    return (q < s->inner ? q - i : s->p + 1 + q - s->inner) * s->k;
}

/* Rows that touch the border alone, from row `first` on. */
static void to_border(const epochs_shape *s, const kernels_block_set *kernels, int64_t first, int64_t rows, scratch *w,
                      side *border) {
    side *m = w->fresh + first * s->width + (s->p + 1) * s->k;
    for (int64_t j = 0; j < s->border; j++)
        kernels->eliminate(rows - first, s->border - j, w->x, border + j * s->border + j, m + j, s->width);
}

/*
 * The fresh rows at step i are merged into the pending ones, then, where a new position enters, form its pending rows;
 * the rest goes to the border. `ladder`: rows 2e and 2e+1 are zero before member e of position i.
 */
static int absorb(const epochs_shape *s, const kernels_block_set *kernels, int64_t i, int64_t rows, int ladder,
                  scratch *w, side *border) {
    int64_t k = s->k, waiting = s->inner - i < s->p ? s->inner - i : s->p;
    int enters = ladder && i + s->p < s->inner;
    for (int64_t at = 0; at < waiting * k; at++) {
        int64_t touched = ladder && at < k ? 2 * (at + 1) : rows;
        kernels->eliminate(touched, s->width - at, w->x, w->pending + at * s->width + at, w->fresh + at, s->width);
    }
    for (int64_t j = 0; j < k && enters; j++) {
        const int64_t at = s->p * k + j;
        kernels->eliminate(rows - j - 1, s->width - at, w->x, w->fresh + j * s->width + at,
                           w->fresh + (j + 1) * s->width + at, s->width);
    }
    to_border(s, kernels, enters ? k : 0, rows, w, border);
    return enters;
}

/* Row e of position q, its part at the members before `end` of the position j later. */
static void fill_step(const epochs_shape *s, int64_t q, int64_t e, int j, int64_t end, side *row) {
    int64_t k = s->k;
    if (s->mix == NULL && e < end) row[e] = (side){0} + s->band[j][q * k + e];
    for (int64_t f = e; s->mix != NULL && f < end; f++)
        row[f] = (side){0} + s->mix[(q * k + e) * k + f] * s->band[j][q * k + f];
}

/* Pending rows move up by one position, the fresh ones of the position that enters behind them. */
static void advance_pending(const epochs_shape *s, int enters, scratch *w) {
    int64_t k = s->k, slots = (s->p + 1) * k;
    int64_t kept = (s->p - 1) * k;
    memmove(w->pending, w->pending + k * s->width, (size_t)(kept * s->width) * sizeof *w->pending);
    if (enters)
        memcpy(w->pending + kept * s->width, w->fresh, (size_t)(k * s->width) * sizeof *w->pending);
    else
        memset(w->pending + kept * s->width, 0, (size_t)(k * s->width) * sizeof *w->pending);
    for (int64_t r = 0; r < s->p * k; r++) {
        side *row = w->pending + r * s->width;
        memmove(row, row + k, (size_t)(slots - k) * sizeof *row);
        memset(row + slots - k, 0, (size_t)k * sizeof *row);
    }
}

static void factor(const epochs_shape *s, const kernels_block_set *kernels, const double *lower, const side *root,
                   scratch *w, epochs_node *node) {
    memset(w->pending, 0, (size_t)(s->p * s->k * s->width) * sizeof *w->pending);
    memset(node->border, 0, (size_t)(s->border * s->border) * sizeof *node->border);
    /* The steps whose rows reach across the end of an epoch: those of the border. */
    memset(w->fresh, 0, (size_t)(2 * s->k * s->width) * sizeof *w->fresh);
    for (int64_t q = s->inner; q < s->b; q++)
        for (int64_t e = 0; e < s->k; e++)
            for (int j = 0; j <= s->p; j++) {
                int64_t over = q + j >= s->b, column = column_of(s, 0, over ? q + j - s->b : q + j) + over;
                side *row = w->fresh + ((q - s->inner) * s->k + e) * s->width + column;
                fill_step(s, q, e, j, s->k - over, row);
            }
    (void)absorb(s, kernels, 0, s->p * s->k, 0, w, node->border);
    for (int64_t i = 0; i < s->inner; i++) {
        int64_t k = s->k;
        const double *l = lower + i * k * k;
        memset(w->fresh, 0, (size_t)(2 * k * s->width) * sizeof *w->fresh);
        for (int64_t e = 0; e < k; e++) {
            side *row = w->fresh + 2 * e * s->width;
            for (int64_t f = e; f < k; f++)
                row[f] = *root * l[f * k + e];
            for (int j = 0; j <= s->p; j++)
                fill_step(s, i, e, j, k, row + s->width + column_of(s, i, i + j));
        }
        int enters = absorb(s, kernels, i, 2 * s->k, 1, w, node->border);
        memcpy(node->rows + i * s->k * s->width, w->pending, (size_t)(s->k * s->width) * sizeof *node->rows);
        advance_pending(s, enters, w);
    }
    for (int64_t q = s->inner; q < s->b; q++) {
        int64_t k = s->k, column = column_of(s, 0, q);
        const double *l = lower + q * k * k;
        memset(w->fresh, 0, (size_t)(k * s->width) * sizeof *w->fresh);
        for (int64_t e = 0; e < k; e++)
            for (int64_t f = e; f < k; f++)
                w->fresh[e * s->width + column + f] = *root * l[f * k + e];
        to_border(s, kernels, 0, s->k, w, node->border);
    }
}

/* ---- the covariances ---- */

static void symmetrize(int64_t n, side *a, int64_t stride) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            a[i * stride + j] = a[j * stride + i] = 0.5 * (a[i * stride + j] + a[j * stride + i]);
}

/* T[J,J] for the position before i. */
static void slide(const epochs_shape *s, const side *blocks, scratch *w) {
    int64_t k = s->k, all = s->beside, slots = s->border;
    for (int64_t r = slots - 1; r >= k; r--) /* the other slots move down by one, the last drops out */
        for (int64_t c = slots - 1; c >= k; c--)
            w->s[r * all + c] = w->s[(r - k) * all + c - k];
    for (int64_t r = slots - 1; r >= k; r--)
        for (int64_t c = slots; c < all; c++)
            w->s[r * all + c] = w->s[c * all + r] = w->s[(r - k) * all + c];
    for (int64_t r = 0; r < k; r++) {
        const side *row = blocks + r * s->width;
        for (int64_t c = 0; c < slots; c++) /* T[i,i], then T[i,i+1] */
            w->s[r * all + c] = w->s[c * all + r] = row[c];
        for (int64_t c = slots; c < all; c++)
            w->s[r * all + c] = w->s[c * all + r] = row[k + c];
    }
}

/* [R_ii | R_iJ] becomes [R_ii^-1 | E_i], and blocks [T[i,i] | T[i,J]]. */
static void step_back(const epochs_shape *s, const kernels_block_set *kernels, scratch *w, side *rows, side *blocks) {
    const int64_t k = s->k, all = s->beside, width = s->width;
    for (int64_t r = 0; r < k; r++) { /* right = R_ii^-1 [I | -R_iJ] */
        memset(w->right + r * width, 0, (size_t)k * sizeof *w->right);
        w->right[r * width + r] = (side){0} + 1;
        for (int64_t c = k; c < width; c++)
            w->right[r * width + c] = -rows[r * width + c];
    }
    kernels->solve_upper(k, width, rows, width, w->right, width);
    memcpy(rows, w->right, (size_t)(k * width) * sizeof *rows);
    memcpy(w->left, w->right, (size_t)(k * width) * sizeof *rows); /* [R_ii^-1 | T[i,J]]; T[J,J] is symmetric */
    kernels->multiply_rows(k, all, all, rows + k, width, w->s, all, w->left + k, width);
    memcpy(blocks, w->left, (size_t)(k * width) * sizeof *blocks);
    kernels->multiply_rows(k, width, k, w->left, width, w->right, width, blocks, width);
    symmetrize(k, blocks, width);
}

void epochs_node_run(const epochs_shape *shape, const double *lower, const double shift[EPOCHS_SIDE],
                     epochs_node *node) {
    const kernels_block_set *kernels = kernels_block_get();
    scratch w;
    side root;
    for (int j = 0; j < EPOCHS_SIDE; j++)
        root[j] = sqrt(shift[j]);
    (void)scratch_layout(shape, node->work, &w);
    factor(shape, kernels, lower, &root, &w, node);
    const int64_t k = shape->k, m = shape->border, all = shape->beside;
    /* The border's triangle R becomes R^-1 R^-T. */
    memset(w.left, 0, (size_t)(m * m) * sizeof *w.left);
    for (int64_t i = 0; i < m; i++)
        w.left[i * m + i] = (side){0} + 1;
    kernels->solve_upper(m, m, node->border, m, w.left, m);
    kernels->multiply_rows(m, m, m, w.left, m, w.left, m, node->border, m);
    symmetrize(m, node->border, m);
    memset(w.s, 0, (size_t)(all * all) * sizeof *w.s);
    for (int64_t r = 0; r < m; r++)
        memcpy(w.s + (m + r) * all + m, node->border + r * m, (size_t)m * sizeof *w.s);
    for (int64_t i = shape->inner - 1; i >= 0; i--) {
        side *rows = node->rows + i * k * shape->width, *blocks = node->blocks + i * k * shape->width;
        step_back(shape, kernels, &w, rows, blocks);
        slide(shape, blocks, &w);
    }
}

const kernels_block_side *epochs_node_block(const epochs_shape *s, const epochs_node *node, int64_t i,
                                            int64_t *stride) {
    *stride = i < s->inner ? s->width : s->border;
    return i < s->inner ? node->blocks + i * s->k * s->width
                        : node->border + (i - s->inner) * s->k * s->border + (i - s->inner) * s->k;
}
