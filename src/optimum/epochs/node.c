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
 * with a cooldown that square is 1e13 and more, and the sum of K and sV would keep two or three digits of what matters.
 *
 * R x = z with z standard normal has T as its covariance, so from the border upwards, adding and never subtracting,
 *
 *     E_i = -R_ii^-1 R_iJ,    T[i,J] = E_i T[J,J],    T[i,i] = R_ii^-1 R_ii^-T + T[i,J] E_i'.
 *
 * O(k^3) a position, where a dense inverse costs O(n^3). Rows wait in `pending`, triangular, until their position comes.
 */
#include "optimum/epochs/node.h"

#include "base/memory.h"
#include "kernels/block.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- the shape ---- */

void dpmf_i_optimum_epochs_shape_free(dpmf_i_optimum_epochs_shape *shape) {
    for (int j = 0; j < 3; j++)
        dpmf_i_base_free(shape->band[j]);
    dpmf_i_base_free(shape->mix);
    *shape = (dpmf_i_optimum_epochs_shape){0};
}

void dpmf_i_optimum_epochs_shape_weigh(dpmf_i_optimum_epochs_shape *s, const dpmf_workload *workload,
                                       const double *weights) {
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

static void reverse_bands(dpmf_i_optimum_epochs_shape *s, const dpmf_workload *workload) {
    for (int64_t t = 0; t < s->k * s->b; t++) {
        int64_t back = s->k * s->b - 1 - t, at = back % s->b * s->k + back / s->b;
        double q[3] = {1, 0, 0}, r[2];
        if (t < s->n && dpmf_workload_inverse_row(workload, t, q, r) != DPMF_OK) q[0] = NAN;
        for (int j = 0; j <= s->p; j++)
            s->band[j][at] = j <= t ? q[j] : 0;
    }
}

dpmf_status dpmf_i_optimum_epochs_shape_create(const dpmf_workload *workload, int64_t k, int64_t b, int reversed,
                                               dpmf_i_optimum_epochs_shape *out) {
    dpmf_i_optimum_epochs_shape s = {.n = workload->steps, .k = k, .b = b};
    int q_bands = 0, r_bands = 0;
    dpmf_status status = DPMF_OK;
    dpmf_workload_inverse_bands(workload, &q_bands, &r_bands);
    s.p = q_bands < 1 ? 1 : q_bands;
    assert(r_bands == 0 && s.p <= 2 && b > s.p && (k - 1) * b < s.n && s.n <= k * b);
    s.inner = b - s.p;
    s.beside = dpmf_i_kernels_block_pad(2 * s.p * k);
    s.border = dpmf_i_kernels_block_pad(s.p * k);
    s.width = dpmf_i_kernels_block_pad((2 * s.p + 1) * k) +
              DPMF_I_KERNELS_BLOCK_LANES; /* room for the padding of each part */
    for (int j = 0; j <= s.p; j++)
        TRY_DONE(dpmf_i_base_alloc_doubles(k * b, "the bands of the inverse workload", &s.band[j]));
    if (reversed) {
        TRY_DONE(dpmf_i_base_alloc_doubles(b * k * k, "inverse blocks", &s.mix));
        reverse_bands(&s, workload);
    } else {
        dpmf_i_optimum_epochs_shape_weigh(&s, workload, NULL);
    }
    *out = s;
    s = (dpmf_i_optimum_epochs_shape){0};
done:
    dpmf_i_optimum_epochs_shape_free(&s);
    return status;
}

/* ---- scratch ---- */

typedef struct scratch {
    double *pending; /* p k rows */
    double *fresh;   /* 2k rows */
    double *x;       /* a column of them */
    double *s;       /* T[J,J]: 2 p k x beside */
    double *left, *right, *solved;
} scratch;

static int64_t scratch_layout(const dpmf_i_optimum_epochs_shape *s, double *from, scratch *out) {
    int64_t k = s->k, inner = (2 * s->p + 1) * k, at = 0;
    int64_t size[] = {s->p * k * s->width, 2 * k * s->width,   2 * k, 2 * s->p * k * s->beside, k * inner,
                      inner * s->border,   s->p * k * s->width};
    double **part[] = {&out->pending, &out->fresh, &out->x, &out->s, &out->left, &out->right, &out->solved};
    for (int i = 0; i < 7; i++) {
        *part[i] = from == NULL ? NULL : from + at;
        at += dpmf_i_kernels_block_pad(size[i]);
    }
    return at;
}

dpmf_status dpmf_i_optimum_epochs_node_create(const dpmf_i_optimum_epochs_shape *s, dpmf_i_optimum_epochs_node *out) {
    dpmf_i_optimum_epochs_node node = {0};
    scratch unused;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_base_alloc_doubles(s->inner * s->k * s->width, "the factor of a node", &node.rows));
    TRY_DONE(dpmf_i_base_alloc_doubles(s->inner * s->k * s->width, "the blocks of a node", &node.blocks));
    TRY_DONE(dpmf_i_base_alloc_doubles(s->p * s->k * s->border, "the border of a node", &node.border));
    TRY_DONE(dpmf_i_base_alloc_doubles(scratch_layout(s, NULL, &unused), "scratch", &node.work));
    *out = node;
    node = (dpmf_i_optimum_epochs_node){0};
done:
    dpmf_i_optimum_epochs_node_free(&node);
    return status;
}

void dpmf_i_optimum_epochs_node_free(dpmf_i_optimum_epochs_node *node) {
    dpmf_i_base_free(node->rows);
    dpmf_i_base_free(node->blocks);
    dpmf_i_base_free(node->border);
    dpmf_i_base_free(node->work);
    *node = (dpmf_i_optimum_epochs_node){0};
}

/* ---- the factor ---- */

/* In a row at step i, the column of position q >= i. */
static int64_t column_of(const dpmf_i_optimum_epochs_shape *s, int64_t i, int64_t q) {
    return (q < s->inner ? q - i : s->p + 1 + q - s->inner) * s->k;
}

/* Turns column `at` of the rows into zeros by a reflection with the pivot row. */
static void eliminate(const dpmf_i_kernels_block_set *kernels, int64_t rows, int64_t at, int64_t columns, double *x,
                      double *pivot, double *m, int64_t stride) {
    double squares = 0, head = pivot[at];
    for (int64_t r = 0; r < rows; r++) {
        x[r] = m[r * stride + at];
        squares += x[r] * x[r];
    }
    if (squares == 0) return;
    double norm = sqrt(head * head + squares), lead = head + copysign(norm, head);
    int64_t from =
        at / DPMF_I_KERNELS_BLOCK_LANES * DPMF_I_KERNELS_BLOCK_LANES; /* what lies before `at` is zero in all rows */
    kernels->reflect(rows, columns - from, lead, x, 1 / (norm * (norm + fabs(head))), pivot + from, m + from, stride);
    pivot[at] = copysign(norm, -head);
    for (int64_t r = 0; r < rows; r++)
        m[r * stride + at] = 0;
}

/* Rows that touch the border alone, from row `first` on. */
static void to_border(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_kernels_block_set *kernels, int64_t first,
                      int64_t rows, scratch *w, double *border) {
    double *m = w->fresh + first * s->width + (s->p + 1) * s->k;
    for (int64_t j = 0; j < s->p * s->k; j++)
        eliminate(kernels, rows - first, j, s->border, w->x, border + j * s->border, m, s->width);
}

/*
 * The fresh rows at step i go into the pending ones, then, where a new position enters, form its pending rows, and what
 * is left over goes to the border. `ladder`: rows 2e and 2e+1 are zero before member e of position i.
 */
static int absorb(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_kernels_block_set *kernels, int64_t i,
                  int64_t rows, int ladder, scratch *w, double *border) {
    int64_t k = s->k, waiting = s->inner - i < s->p ? s->inner - i : s->p;
    int enters = ladder && i + s->p < s->inner;
    for (int64_t at = 0; at < waiting * k; at++) {
        int64_t touched = ladder && at < k ? 2 * (at + 1) : rows;
        eliminate(kernels, touched, at, s->width, w->x, w->pending + at * s->width, w->fresh, s->width);
    }
    for (int64_t j = 0; j < k && enters; j++)
        eliminate(kernels, rows - j - 1, s->p * k + j, s->width, w->x, w->fresh + j * s->width,
                  w->fresh + (j + 1) * s->width, s->width);
    to_border(s, kernels, enters ? k : 0, rows, w, border);
    return enters;
}

/* Row e of position q, its part at the members before `end` of the position j later. */
static void fill_step(const dpmf_i_optimum_epochs_shape *s, int64_t q, int64_t e, int j, int64_t end, double *row) {
    int64_t k = s->k;
    if (s->mix == NULL && e < end) row[e] = s->band[j][q * k + e];
    for (int64_t f = e; s->mix != NULL && f < end; f++)
        row[f] = s->mix[(q * k + e) * k + f] * s->band[j][q * k + f];
}

/* The steps whose rows reach across the end of an epoch: those of the border. */
static void load_wrapped(const dpmf_i_optimum_epochs_shape *s, scratch *w) {
    memset(w->fresh, 0, (size_t)(2 * s->k * s->width) * sizeof *w->fresh);
    for (int64_t q = s->inner; q < s->b; q++)
        for (int64_t e = 0; e < s->k; e++)
            for (int j = 0; j <= s->p; j++) {
                int64_t over = q + j >= s->b, column = column_of(s, 0, over ? q + j - s->b : q + j) + over;
                double *row = w->fresh + ((q - s->inner) * s->k + e) * s->width + column;
                fill_step(s, q, e, j, s->k - over, row);
            }
}

static void load_position(const dpmf_i_optimum_epochs_shape *s, const double *lower, double root, int64_t i,
                          scratch *w) {
    int64_t k = s->k;
    const double *l = lower + i * k * k;
    memset(w->fresh, 0, (size_t)(2 * k * s->width) * sizeof *w->fresh);
    for (int64_t e = 0; e < k; e++) {
        double *row = w->fresh + 2 * e * s->width;
        for (int64_t f = e; f < k; f++)
            row[f] = root * l[f * k + e];
        for (int j = 0; j <= s->p; j++)
            fill_step(s, i, e, j, k, row + s->width + column_of(s, i, i + j));
    }
}

static void load_border(const dpmf_i_optimum_epochs_shape *s, const double *lower, double root, int64_t q, scratch *w) {
    int64_t k = s->k, column = column_of(s, 0, q);
    const double *l = lower + q * k * k;
    memset(w->fresh, 0, (size_t)(k * s->width) * sizeof *w->fresh);
    for (int64_t e = 0; e < k; e++)
        for (int64_t f = e; f < k; f++)
            w->fresh[e * s->width + column + f] = root * l[f * k + e];
}

/* Pending rows move up by one position, the fresh ones of the position that enters behind them. */
static void advance_pending(const dpmf_i_optimum_epochs_shape *s, int enters, scratch *w) {
    int64_t k = s->k, slots = (s->p + 1) * k;
    int64_t kept = (s->p - 1) * k;
    memmove(w->pending, w->pending + k * s->width, (size_t)(kept * s->width) * sizeof *w->pending);
    if (enters)
        memcpy(w->pending + kept * s->width, w->fresh, (size_t)(k * s->width) * sizeof *w->pending);
    else
        memset(w->pending + kept * s->width, 0, (size_t)(k * s->width) * sizeof *w->pending);
    for (int64_t r = 0; r < s->p * k; r++) {
        double *row = w->pending + r * s->width;
        memmove(row, row + k, (size_t)(slots - k) * sizeof *row);
        memset(row + slots - k, 0, (size_t)k * sizeof *row);
    }
}

static void factor(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_kernels_block_set *kernels, const double *lower,
                   double root, scratch *w, dpmf_i_optimum_epochs_node *node) {
    memset(w->pending, 0, (size_t)(s->p * s->k * s->width) * sizeof *w->pending);
    memset(node->border, 0, (size_t)(s->p * s->k * s->border) * sizeof *node->border);
    load_wrapped(s, w);
    (void)absorb(s, kernels, 0, s->p * s->k, 0, w, node->border);
    for (int64_t i = 0; i < s->inner; i++) {
        load_position(s, lower, root, i, w);
        int enters = absorb(s, kernels, i, 2 * s->k, 1, w, node->border);
        memcpy(node->rows + i * s->k * s->width, w->pending, (size_t)(s->k * s->width) * sizeof *node->rows);
        advance_pending(s, enters, w);
    }
    for (int64_t q = s->inner; q < s->b; q++) {
        load_border(s, lower, root, q, w);
        to_border(s, kernels, 0, s->k, w, node->border);
    }
}

/* ---- the covariances ---- */

/* b = r^-1 b for r upper triangular, row by row from the last. */
static void solve_upper(int64_t rows, int64_t columns, const double *r, int64_t stride, double *b, int64_t b_stride) {
    for (int64_t i = rows - 1; i >= 0; i--) {
        double *row = b + i * b_stride, inverse = 1 / r[i * stride + i];
        for (int64_t j = i + 1; j < rows; j++) {
            const double *other = b + j * b_stride;
            double by = r[i * stride + j];
            for (int64_t c = 0; c < columns; c++)
                row[c] -= by * other[c];
        }
        for (int64_t c = 0; c < columns; c++)
            row[c] *= inverse;
    }
}

static void symmetrize(int64_t n, double *a, int64_t stride) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            a[i * stride + j] = a[j * stride + i] = 0.5 * (a[i * stride + j] + a[j * stride + i]);
}

/* The border's triangle R becomes R^-1 R^-T. */
static void invert_border(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_kernels_block_set *kernels, scratch *w,
                          double *border) {
    int64_t m = s->p * s->k;
    memset(w->solved, 0, (size_t)(m * s->border) * sizeof *w->solved);
    for (int64_t i = 0; i < m; i++)
        w->solved[i * s->border + i] = 1;
    solve_upper(m, s->border, border, s->border, w->solved, s->border);
    memset(w->right, 0, (size_t)(m * s->border) * sizeof *w->right);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = i; j < m; j++)
            w->right[j * s->border + i] = w->solved[i * s->border + j];
    kernels->multiply(m, m, s->border, w->solved, s->border, w->right, s->border, border, s->border);
    symmetrize(m, border, s->border);
}

/* T[J,J] for the position before i. */
static void slide(const dpmf_i_optimum_epochs_shape *s, const double *blocks, scratch *w) {
    int64_t k = s->k, all = 2 * s->p * k, slots = s->p * k;
    for (int64_t r = slots - 1; r >= k; r--) /* the other slots move down by one, the last drops out */
        for (int64_t c = slots - 1; c >= k; c--)
            w->s[r * s->beside + c] = w->s[(r - k) * s->beside + c - k];
    for (int64_t r = slots - 1; r >= k; r--)
        for (int64_t c = slots; c < all; c++)
            w->s[r * s->beside + c] = w->s[c * s->beside + r] = w->s[(r - k) * s->beside + c];
    for (int64_t r = 0; r < k; r++) {
        const double *row = blocks + r * s->width;
        for (int64_t c = 0; c < slots; c++) /* T[i,i], then T[i,i+1] */
            w->s[r * s->beside + c] = w->s[c * s->beside + r] = row[c];
        for (int64_t c = slots; c < all; c++)
            w->s[r * s->beside + c] = w->s[c * s->beside + r] = row[k + c];
    }
}

static void covariances(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_kernels_block_set *kernels, scratch *w,
                        dpmf_i_optimum_epochs_node *node) {
    int64_t k = s->k, m = s->p * k, all = 2 * m, inner = all + k, narrow = dpmf_i_kernels_block_pad(k);
    invert_border(s, kernels, w, node->border);
    memset(w->s, 0, (size_t)(all * s->beside) * sizeof *w->s);
    for (int64_t r = 0; r < m; r++)
        memcpy(w->s + (m + r) * s->beside + m, node->border + r * s->border, (size_t)m * sizeof *w->s);
    memset(w->right, 0, (size_t)(inner * s->border) * sizeof *w->right);
    for (int64_t i = s->inner - 1; i >= 0; i--) {
        double *rows = node->rows + i * k * s->width, *blocks = node->blocks + i * k * s->width;
        for (int64_t r = 0; r < k; r++) { /* left = R_ii^-1 [R_iJ | I] */
            memcpy(w->left + r * inner, rows + r * s->width + k, (size_t)all * sizeof *w->left);
            memset(w->left + r * inner + all, 0, (size_t)k * sizeof *w->left);
            w->left[r * inner + all + r] = 1;
        }
        solve_upper(k, inner, rows, s->width, w->left, inner);
        for (int64_t r = 0; r < k; r++) {
            for (int64_t c = 0; c < all; c++)
                rows[r * s->width + k + c] = -w->left[r * inner + c];
            for (int64_t c = 0; c < inner; c++)
                w->right[c * s->border + r] = c < all ? -w->left[r * inner + c] : w->left[r * inner + c];
        }
        kernels->multiply(k, all, s->beside, rows + k, s->width, w->s, s->beside, blocks + k, s->width);
        for (int64_t r = 0; r < k; r++) /* left = [T[i,J] | R_ii^-1], right = [E_i | R_ii^-1]' */
            memcpy(w->left + r * inner, blocks + r * s->width + k, (size_t)all * sizeof *w->left);
        kernels->multiply(k, inner, narrow, w->left, inner, w->right, s->border, w->solved, narrow);
        symmetrize(k, w->solved, narrow);
        for (int64_t r = 0; r < k; r++)
            memcpy(blocks + r * s->width, w->solved + r * narrow, (size_t)k * sizeof *blocks);
        slide(s, blocks, w);
    }
}

void dpmf_i_optimum_epochs_node_run(const dpmf_i_optimum_epochs_shape *shape, const double *lower, double shift,
                                    dpmf_i_optimum_epochs_node *node) {
    const dpmf_i_kernels_block_set *kernels = dpmf_i_kernels_block_get();
    scratch w;
    (void)scratch_layout(shape, node->work, &w);
    factor(shape, kernels, lower, sqrt(shift), &w, node);
    covariances(shape, kernels, &w, node);
}

void dpmf_i_optimum_epochs_node_diagonal(const dpmf_i_optimum_epochs_shape *s, const dpmf_i_optimum_epochs_node *node,
                                         double *out) {
    int64_t k = s->k;
    for (int64_t i = 0; i < s->b; i++)
        for (int64_t r = 0; r < k; r++) {
            const double *row = i < s->inner ? node->blocks + (i * k + r) * s->width
                                             : node->border + ((i - s->inner) * k + r) * s->border + (i - s->inner) * k;
            memcpy(out + (i * k + r) * k, row, (size_t)k * sizeof *out);
        }
}
