/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of a Toeplitz C for named workloads with a learning-rate schedule, and of C with normalized columns.
 *
 * B = A D C^-1, with D = I or diag(d), d_t = |C[:,t]|/|c|; h = 1/c is the first column of C^-1. Column u of B is the
 * recursion of A (workload/workload.h) driven by y_t = d_t h_{t-u}:
 *
 *     m_t = beta m_{t-1} + y_t,   o_t = k_t o_{t-1} + rate_t (from_m m_t + from_y y_t),   B[t,u] = o_t
 *
 * and E = sum_t omega_t |B[t,:]|^2, omega_t = p_t/n for the RMS loss. For the max loss E is the norm
 * (sum_t mu_t |B[t,:]|^2q)^(1/q) and omega_t = mu_t (|B[t,:]|^2/E)^(q-1): E is homogeneous of degree 1 in the squares,
 * so that it is the same sum. At a minimum the multipliers mu_t take up the factor (|B[t,:]|^2/E)^q, and so on until
 * the rows that bind have equal squares: the exponential method of multipliers (Tseng and Bertsekas 1993). Adjoint of a
 * column, from the last row:
 *
 *     l_t = 2 omega_t o_t + k_{t+1} l_{t+1},   n_t = beta n_{t+1} + rate_t from_m l_t,   y'_t = n_t + rate_t from_y l_t
 *     h'_{t-u} += d_t y'_t,   d'_t += h_{t-u} y'_t.
 *
 * Columns are taken in blocks; O(n^2) in all. But where A is Toeplitz and only the last bands - 1 columns of C are
 * shorter than |c|, all rows before them are those of a Toeplitz matrix, |B[t,:]|^2 = w_0^2 + ... + w_t^2, and columns
 * start there from the series of m and o = w: O(n bands).
 *
 * Then h' becomes dE/dc: r = C^-T h', c'_j -= sum_i r_i h_{i-j}; and d_t^2 = sum_{i<n-t} c_i^2/|c|^2 gives
 * c'_i += c_i/|c|^2 sum_t d'_t ([i < n-t]/d_t - d_t).
 */
#include "families/toeplitz/toeplitz.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 64 }; /* columns at a time */

dpmf_status toeplitz_columns_create(const dpmf_workload *workload, int64_t bands, int normalized, const double *weights,
                                    toeplitz_columns *out) {
    const int64_t n = workload->steps;
    toeplitz_columns e = {.workload = workload,
                          .n = n,
                          .bands = bands,
                          .normalized = normalized,
                          .given = weights,
                          .table = {.bands = bands}};
    dpmf_status status = DPMF_OK;
    assert(workload->form == WORKLOAD_NAMED && n <= TOEPLITZ_COLUMNS_MAX);
    e.first = workload->toeplitz ? n - bands + 1 : 0;
    TRY_DONE(base_alloc_doubles(13 * n + 2 * BLOCK + (n - e.first) * BLOCK, "columns of B", &e.memory));
    TRY_DONE(base_alloc_doubles(kernels_toeplitz_table_size(bands), "a table", &e.table.rows));
    double *next = e.memory + BLOCK; /* zeros before h, so that h_{t-u} is there for u > t */
    double **const arrays[] = {&e.inverse,           &e.momentum,    &e.response,       &e.momentum_gradient,
                               &e.response_gradient, &e.scale,       &e.scale_gradient, &e.row_squares,
                               &e.row_weights,       &e.multipliers, &e.scratch};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, next += n)
        *arrays[i] = next;
    e.inverse_gradient = next + n + BLOCK; /* scratch has 2n */
    e.outputs = e.inverse_gradient + n;
    for (int64_t t = 0; t < n; t++)
        e.multipliers[t] = 1;
    *out = e;
done:
    if (status != DPMF_OK) toeplitz_columns_free(&e);
    return status;
}

void toeplitz_columns_free(toeplitz_columns *e) {
    base_free(e->memory);
    base_free(e->table.rows);
    *e = (toeplitz_columns){0};
}

/* ---- forward ---- */

static void fill_series(toeplitz_columns *e, const double *c) {
    const workload_recursion_form r = workload_recursion(e->workload, 0);
    double m = 0, o = 0;
    kernels_toeplitz_get()->fill(c, &e->table);
    e->scratch[0] = 1;
    kernels_toeplitz_get()->solve(&e->table, 0, e->n, 1, e->scratch, e->inverse);
    for (int64_t i = 0; i < e->first; i++) {
        m = e->momentum[i] = r.momentum * m + e->inverse[i];
        o = e->response[i] = r.keep * o + r.rate * (r.from_m * m + r.from_y * e->inverse[i]);
    }
}

/* d_t; all ones without normalization. |c|^2 is returned. */
static double fill_scale(toeplitz_columns *e, const double *c) {
    double sum = 0;
    for (int64_t t = e->n - 1; t >= 0; t--) {
        if (e->n - 1 - t < e->bands) sum += c[e->n - 1 - t] * c[e->n - 1 - t];
        e->scale[t] = e->normalized ? sqrt(sum) : 1;
    }
    for (int64_t t = 0; t < e->n && e->normalized; t++)
        e->scale[t] /= sqrt(sum);
    return sum;
}

/* One block of columns, from..from+BLOCK-1, the last first: lane q is column from + BLOCK-1-q. */
typedef struct block {
    int64_t from, start; /* its first row: e->first, or `from` if that is later */
    double m[BLOCK], o[BLOCK];
} block;

static void open_block(const toeplitz_columns *e, int64_t from, block *b) {
    b->from = from;
    b->start = from > e->first ? from : e->first;
    for (int q = 0; q < BLOCK; q++) {
        int64_t i = e->first - 1 - (from + BLOCK - 1 - q);
        b->m[q] = i >= 0 ? e->momentum[i] : 0;
        b->o[q] = i >= 0 ? e->response[i] : 0;
    }
}

/* h_{t-u} of lane 0 in row t. Rows begin at `from`, and h has zeros before it: columns that have not begun get them. */
static int64_t lag_of(const block *b, int64_t t) {
    return t - (b->from + BLOCK - 1);
}

static void forward(toeplitz_columns *e, block *b) {
    for (int64_t t = b->start; t < e->n; t++) {
        const workload_recursion_form r = workload_recursion(e->workload, t);
        const double *h = e->inverse + lag_of(b, t), scale = e->scale[t];
        double *out = e->outputs + (t - e->first) * BLOCK;
        for (int q = 0; q < BLOCK; q++) {
            double y = scale * h[q];
            b->m[q] = r.momentum * b->m[q] + y;
            b->o[q] = r.keep * b->o[q] + r.rate * (r.from_m * b->m[q] + r.from_y * y);
            out[q] = b->o[q];
        }
    }
}

static void add_row_squares(toeplitz_columns *e, const block *b) {
    for (int64_t t = b->start; t < e->n; t++) {
        const double *o = e->outputs + (t - e->first) * BLOCK;
        double sum = 0;
        for (int q = 0; q < BLOCK; q++)
            sum += o[q] * o[q];
        e->row_squares[t] += sum;
    }
}

/* Lanes of columns past the last are zero all along: their h is before its first entry in every row. */
static void all_row_squares(toeplitz_columns *e) {
    double sum = 0;
    for (int64_t t = 0; t < e->first; t++)
        e->row_squares[t] = sum += e->response[t] * e->response[t];
    memset(e->row_squares + e->first, 0, (size_t)(e->n - e->first) * sizeof *e->row_squares);
    for (int64_t from = 0; from < e->n; from += BLOCK) {
        block b;
        open_block(e, from, &b);
        forward(e, &b);
        add_row_squares(e, &b);
    }
}

/* E, and how much each row counts. */
static double weigh_rows(toeplitz_columns *e) {
    double largest = 0, sum = 0;
    for (int64_t t = 0; t < e->n; t++) {
        if (!isfinite(e->row_squares[t])) return INFINITY;
        largest = fmax(largest, e->row_squares[t]);
    }
    if (e->sharpness == 0) {
        for (int64_t t = 0; t < e->n; t++) {
            e->row_weights[t] = (e->given == NULL ? 1 : e->given[t]) / (double)e->n;
            sum += e->row_weights[t] * e->row_squares[t];
        }
        return sum;
    }
    const double q = e->sharpness;
    for (int64_t t = 0; t < e->n; t++)
        sum += e->multipliers[t] * pow(e->row_squares[t] / largest, q);
    const double norm = largest * pow(sum, 1 / q);
    for (int64_t t = 0; t < e->n; t++)
        e->row_weights[t] = e->multipliers[t] * pow(e->row_squares[t] / norm, q - 1);
    return norm;
}

double toeplitz_columns_sharpen(toeplitz_columns *e) {
    const double least = 1e-9; /* of the largest: a row that does not bind may come to bind */
    double largest = 0, top = 0;
    for (int64_t t = 0; t < e->n; t++)
        largest = fmax(largest, e->row_squares[t]);
    for (int64_t t = 0; t < e->n; t++) {
        e->multipliers[t] *= pow(e->row_squares[t] / largest, e->sharpness);
        top = fmax(top, e->multipliers[t]);
    }
    for (int64_t t = 0; t < e->n; t++)
        e->multipliers[t] = fmax(e->multipliers[t] / top, least);
    return largest;
}

/* ---- backward ---- */

static void backward(toeplitz_columns *e, const block *b) {
    double l[BLOCK] = {0}, m[BLOCK] = {0};
    double keep = 0, momentum = 0;
    for (int64_t t = e->n - 1; t >= b->start; t--) {
        const workload_recursion_form r = workload_recursion(e->workload, t);
        const double *o = e->outputs + (t - e->first) * BLOCK, *h = e->inverse + lag_of(b, t);
        double *h_gradient = e->inverse_gradient + lag_of(b, t), by_scale = 0;
        const double weight = 2 * e->row_weights[t], scale = e->scale[t];
        double y[BLOCK];
        for (int q = 0; q < BLOCK; q++) {
            l[q] = weight * o[q] + keep * l[q];
            m[q] = momentum * m[q] + r.rate * r.from_m * l[q];
            y[q] = m[q] + r.rate * r.from_y * l[q];
            h_gradient[q] += scale * y[q];
        }
        for (int q = 0; e->normalized && q < BLOCK; q++)
            by_scale += h[q] * y[q];
        e->scale_gradient[t] += by_scale;
        keep = r.keep;
        momentum = r.momentum;
    }
    for (int q = 0; q < BLOCK; q++) { /* to the state that the block began with */
        int64_t i = e->first - 1 - (b->from + BLOCK - 1 - q);
        if (i < 0) continue;
        e->momentum_gradient[i] += momentum * m[q];
        e->response_gradient[i] += keep * l[q];
    }
}

/* The rows before `first`, and the series m and w that they and the blocks stand on. */
static void series_backward(toeplitz_columns *e) {
    double weight = 0, l = 0, m = 0;
    const workload_recursion_form r = workload_recursion(e->workload, 0);
    for (int64_t i = e->first - 1; i >= 0; i--) {
        weight += e->row_weights[i];
        l = r.keep * l + e->response_gradient[i] + 2 * weight * e->response[i];
        m = r.momentum * m + e->momentum_gradient[i] + r.rate * r.from_m * l;
        e->inverse_gradient[i] += m + r.rate * r.from_y * l;
    }
}

static void through_inverse(toeplitz_columns *e, double *gradient) {
    const int64_t n = e->n;
    double *reversed = e->scratch, *r = e->scratch + n;
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    kernels->reverse(n, e->inverse_gradient, 1, 0, reversed);
    kernels->solve(&e->table, 0, n, n, reversed, r);
    kernels->correlate(n, e->bands, r, e->inverse, gradient);
    for (int64_t j = 0; j < e->bands; j++)
        gradient[j] = -gradient[j];
}

static void through_scale(const toeplitz_columns *e, const double *c, double square, double *gradient) {
    double all = 0, reached = 0; /* sum of d'_t d_t; sum over t < n-i of d'_t/d_t */
    for (int64_t t = 0; t < e->n; t++) {
        all += e->scale_gradient[t] * e->scale[t];
        if (t <= e->n - e->bands) reached += e->scale_gradient[t] / e->scale[t];
    }
    for (int64_t i = e->bands - 1; i >= 0; i--) {
        gradient[i] += c[i] / square * (reached - all);
        if (i > 0) reached += e->scale_gradient[e->n - i] / e->scale[e->n - i];
    }
}

dpmf_status toeplitz_columns_value(toeplitz_columns *e, const double *c, double *value, double *gradient) {
    const size_t size = (size_t)e->n * sizeof(double);
    *value = INFINITY;
    if (!(c[0] > 0)) return DPMF_OK;
    fill_series(e, c);
    const double square = fill_scale(e, c);
    all_row_squares(e);
    *value = weigh_rows(e);
    if (!isfinite(*value)) *value = INFINITY;
    if (gradient == NULL || *value == INFINITY) return DPMF_OK;
    memset(e->inverse_gradient - BLOCK, 0, size + BLOCK * sizeof(double));
    memset(e->scale_gradient, 0, size);
    memset(e->momentum_gradient, 0, size);
    memset(e->response_gradient, 0, size);
    for (int64_t from = 0; from < e->n; from += BLOCK) {
        block b;
        open_block(e, from, &b);
        forward(e, &b);
        backward(e, &b);
    }
    series_backward(e);
    through_inverse(e, gradient);
    if (e->normalized) through_scale(e, c, square, gradient);
    return DPMF_OK;
}
