/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of a Toeplitz C for named workloads with a learning-rate schedule, and of C with normalized columns.
 *
 * B = A D C^-1, with D = I or diag(d), d_t = |C[:,t]|/|c|; h = 1/c is the first column of C^-1. Column u of B is the
 * recursion of A (workload/workload.h) driven by y_t = d_t h_{t-u}:
 *
 *     m_t = beta m_{t-1} + y_t,   o_t = k_t o_{t-1} + rate_t (from_m m_t + from_y y_t),   B[t,u] = o_t
 *
 * and E = sum_t omega_t |B[t,:]|^2, omega_t = p_t/n for the RMS loss. For the max loss E is the norm (sum_t mu_t
 * |B[t,:]|^2q)^(1/q) and omega_t = mu_t (|B[t,:]|^2/E)^(q-1): E is homogeneous of degree 1 in the squares, so that it is the
 * same sum. At a minimum the multipliers mu_t take up the factor (|B[t,:]|^2/E)^q, and so on until the rows that bind have
 * equal squares: the exponential method of multipliers (Tseng and Bertsekas 1993). Adjoint of a column, from the last row:
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

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

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
    assert(workload->form == WORKLOAD_NAMED && (workload->toeplitz || n <= TOEPLITZ_COLUMNS_MAX));
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
    const workload_recursion_form r = workload_recursion(e->workload, 0);
    double m = 0, o = 0;
    kernels_toeplitz_get()->fill(c, &e->table);
    e->scratch[0] = 1;
    kernels_toeplitz_get()->solve(&e->table, 0, e->n, 1, e->scratch, e->inverse);
    for (int64_t i = 0; i < e->first; i++) {
        m = e->momentum[i] = r.momentum * m + e->inverse[i];
        o = e->response[i] = r.keep * o + r.rate * (r.from_m * m + r.from_y * e->inverse[i]);
    }
    const double square = fill_scale(e, c);
    /* Lanes of columns past the last are zero all along: their h is before its first entry in every row. */
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

/*
 * The squared sensitivity of a Toeplitz C whose coefficients may have any signs, under cyclic or full participation,
 * as a smooth function with its gradient.
 *
 * The columns of a later pattern are those of {0, b, 2b, ...} moved down and cut off, so that one is enough
 * (sensitivity/sensitivity.c). With X = C'C on it, X_ij = sum_{u < n - jb} c_u c_{u+(j-i)b} for i <= j,
 *
 *     S = max { <X,Y> : Y psd, Y_ii = 1 } = min { sum d : Diag(d) - X psd }     (sensitivity/pattern.c).
 *
 * S has kinks, and the best coefficients often lie in one: where X vanishes between two steps of a unit any Y is best.
 * So a search follows
 *
 *     S_mu = max <X,Y> + mu t ln det Y,   t = tr X / k,   S_mu <= S,
 *
 * with mu falling. It is smooth, and scales like S. Its dual is min sum d - mu t ln det(Diag(d) - X), found by Newton's method:
 * Y = mu t (Diag(d) - X)^-1 has ones on its diagonal there, and sum d - <X,Y> = k mu t. So sum d is an upper bound of
 * S, proven and as near as mu is small; searches are judged by it. dS_mu/dX = Y + mu ln det(Y)/k I.
 */

enum { NEWTON_MAX = 60, ITERATIONS = 1000 };
static const double FAR_BEHIND = 1e-3, SAME_PLACE = 1e-8; /* of ln loss there */
static const double FIRST_MU = 1e-2, SCREEN_MU = 1e-3 /* after which searches are compared */, LAST_MU = 1e-8,
                    PROOF_MU = 1e-10;
static const double SMALL = 1e-8, TINY = 1e-11; /* decreases that end a stage: the next one goes on */

int toeplitz_mixed_fits(const dpmf_participation *participation, int64_t n) {
    return participation->pattern == WORKLOAD_FIXED && participation->count > 1 &&
           participation->count <= TOEPLITZ_MIXED_COUNT_MAX && n <= TOEPLITZ_MIXED_STEPS_MAX;
}

void toeplitz_mixed_free(toeplitz_mixed *m) {
    base_free(m->memory);
    *m = (toeplitz_mixed){0};
}

dpmf_status toeplitz_mixed_create(const toeplitz_pattern *pattern, toeplitz_mixed *out) {
    const int64_t k = pattern->k;
    assert(k <= TOEPLITZ_MIXED_COUNT_MAX);
    toeplitz_mixed m = {.pattern = *pattern, .mu = FIRST_MU, .lead = INFINITY};
    TRY(base_alloc_doubles(3 * k * k + 3 * k, "the matrix of a pattern", &m.memory));
    m.x = m.memory;
    m.y = m.x + k * k;
    m.hessian = m.y + k * k;
    m.d = m.hessian + k * k;
    m.slope = m.d + k;
    m.lag = m.slope + k;
    *out = m;
    return DPMF_OK;
}

/* The rows u of column 0 that step j and none later sees; column l b below has as many, as far as the bands go. */
static int64_t rows_end(const toeplitz_mixed *m, int64_t j, int64_t l, int64_t bands) {
    const int64_t end = m->pattern.n - j * m->pattern.b, last = bands - l * m->pattern.b;
    return end < last ? end : last;
}

static void fill_matrix(toeplitz_mixed *m, int64_t bands, const double *c) {
    const int64_t k = m->pattern.k, b = m->pattern.b;
    for (int64_t l = 0; l < k; l++) {
        double sum = 0;
        int64_t u = 0;
        for (int64_t j = k - 1; j >= l; j--) { /* each step sees n - j b rows, the last one fewest */
            const int64_t end = rows_end(m, j, l, bands);
            if (end > u) {
                sum += base_dot(end - u, c + u, c + u + l * b);
                u = end;
            }
            m->x[j * k + j - l] = m->x[(j - l) * k + j] = sum;
        }
    }
}

static void add_multiple(int64_t n, double factor, const double *restrict x, double *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

static void pull_matrix(const toeplitz_mixed *m, int64_t bands, const double *c, double extra, double *gradient) {
    const int64_t k = m->pattern.k, b = m->pattern.b;
    memset(gradient, 0, (size_t)bands * sizeof *gradient);
    for (int64_t l = 0; l < k && l * b < bands; l++) {
        double weight = 0;
        for (int64_t j = l; j < k; j++)
            weight += m->y[j * k + j - l] + (l == 0 ? extra : 0);
        if (l > 0) weight *= 2;
        for (int64_t j = k - 1, u = 0; j >= l; j--) {
            const int64_t end = rows_end(m, j, l, bands);
            if (end > u) {
                add_multiple(end - u, weight, c + u + l * b, gradient + u);
                add_multiple(end - u, weight, c + u, gradient + u + l * b);
                u = end;
            }
            weight -= (l > 0 ? 2 : 1) * (m->y[j * k + j - l] + (l == 0 ? extra : 0));
        }
    }
}

/* ---- matrices of a handful of rows, for which a call of LAPACK takes several times as long ---- */

/* a = L L', L in its place; 0: a is not positive definite. Above the diagonal nothing is read or written. */
static int factor(int64_t k, double *a) {
    for (int64_t i = 0; i < k; i++) {
        double *row = a + i * k;
        for (int64_t j = 0; j <= i; j++) {
            const double *other = a + j * k;
            double sum = row[j];
            for (int64_t r = 0; r < j; r++)
                sum -= row[r] * other[r];
            if (j == i && !(sum > 0 && isfinite(sum))) return 0;
            row[j] = j == i ? sqrt(sum) : sum / other[j];
        }
    }
    return 1;
}

/* Y for d and mu t; its log determinant; 0 if Diag(d) - X is not positive definite. */
static int dual_point(toeplitz_mixed *m, double mu_t, double *log_det) {
    const int64_t k = m->pattern.k;
    double *lower = m->hessian;
    for (int64_t i = 0; i < k * k; i++)
        lower[i] = -m->x[i];
    for (int64_t i = 0; i < k; i++)
        lower[i * k + i] += m->d[i];
    if (!factor(k, lower)) return 0;
    /* L^-1 in the place of L. */
    for (int64_t i = 0; i < k; i++) {
        double sum[TOEPLITZ_MIXED_COUNT_MAX] = {0}, *row = lower + i * k;
        const double scale = 1 / row[i];
        for (int64_t r = 0; r < i; r++)
            add_multiple(r + 1, row[r], lower + r * k, sum);
        for (int64_t j = 0; j < i; j++)
            row[j] = -sum[j] * scale;
        row[i] = scale;
    }
    *log_det = (double)k * log(mu_t);
    memset(m->y, 0, (size_t)(k * k) * sizeof *m->y);
    for (int64_t r = 0; r < k; r++) {
        *log_det += 2 * log(lower[r * k + r]);
        for (int64_t i = 0; i <= r; i++)
            add_multiple(i + 1, lower[r * k + i], lower + r * k, m->y + i * k);
    }
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j <= i; j++)
            m->y[i * k + j] = m->y[j * k + i] = mu_t * m->y[i * k + j];
    return 1;
}

/* One step; `size` is the Newton decrement before it, in units in which the function is self-concordant. 0: none. */
static int newton_step(toeplitz_mixed *m, double mu_t, double *size) {
    const int64_t k = m->pattern.k;
    double square = 0;
    for (int64_t i = 0; i < k * k; i++)
        m->hessian[i] = m->y[i] * m->y[i];
    if (!factor(k, m->hessian)) return 0;
    for (int64_t i = 0; i < k; i++)
        m->slope[i] = 1 - m->y[i * k + i];
    base_lower_solve(k, m->hessian, m->slope, m->lag);
    for (int64_t i = 0; i < k; i++)
        square += m->lag[i] * m->lag[i];
    for (int64_t i = k - 1; i >= 0; i--) {
        for (int64_t j = i + 1; j < k; j++)
            m->lag[i] -= m->hessian[j * k + i] * m->lag[j];
        m->lag[i] /= m->hessian[i * k + i];
    }
    *size = sqrt(square);
    const double length = *size < 0.25 ? 1 : 1 / (1 + *size);
    for (int64_t i = 0; i < k; i++)
        m->d[i] -= length * mu_t * m->lag[i];
    return 1;
}

/* The dual for one mu, from the d that is there; 0 if it is not reached from it. */
static int solve_dual(toeplitz_mixed *m, double mu_t, double *log_det) {
    double size = INFINITY;
    for (int i = 0; i < NEWTON_MAX; i++) {
        if (!dual_point(m, mu_t, log_det)) return 0;
        if (size < 1e-6) return 1; /* the step after 1e-6 is to 1e-12 */
        if (!newton_step(m, mu_t, &size)) return 0;
    }
    return 0;
}

/* From far away: mu falls from 1, where d is nearly known, by a factor that Newton's method follows. */
static int follow_path(toeplitz_mixed *m, double t, double *log_det) {
    const int64_t k = m->pattern.k;
    for (int64_t i = 0; i < k; i++) {
        m->d[i] = t;
        for (int64_t j = 0; j < k; j++)
            m->d[i] += fabs(m->x[i * k + j]);
    }
    for (double mu = 1;; mu = fmax(0.1 * mu, m->mu)) {
        if (!solve_dual(m, mu * t, log_det)) return 0;
        if (mu <= m->mu) return 1;
    }
}

dpmf_status toeplitz_mixed_square(toeplitz_mixed *m, int64_t bands, const double *c, double *value, double *gradient) {
    const int64_t k = m->pattern.k;
    double t = 0, log_det = 0, sum = 0;
    *value = INFINITY;
    fill_matrix(m, bands, c);
    for (int64_t i = 0; i < k; i++)
        t += m->x[i * k + i] / (double)k;
    if (!(t > 0 && isfinite(t))) return DPMF_OK;
    m->warm = (m->warm && solve_dual(m, m->mu * t, &log_det)) || follow_path(m, t, &log_det);
    if (!m->warm) return DPMF_OK;
    for (int64_t i = 0; i < k; i++)
        sum += m->d[i];
    *value = m->proven ? sum : sum - m->mu * t * ((double)k - log_det);
    if (gradient != NULL) pull_matrix(m, bands, c, m->mu * log_det / (double)k, gradient);
    return DPMF_OK;
}

/* ln loss with the proven S, at the smallest mu where Newton's method ends: near a singular Y rounding stops it before. */
static dpmf_status proven_value(toeplitz_mixed *m, const base_objective *objective, const double *x, double *gradient,
                                double *f) {
    dpmf_status status = DPMF_OK;
    *f = INFINITY;
    m->proven = 1;
    for (double mu = PROOF_MU; status == DPMF_OK && !isfinite(*f) && mu <= FIRST_MU; mu *= 10) {
        m->mu = mu;
        m->warm = 0;
        status = objective->value(objective->context, x, f, gradient);
    }
    m->proven = 0;
    return status;
}

/*
 * Is a search from another start that has come to f worth its end? Not where an earlier one had the same f there: most
 * starts lead to the same place. Nor where it is far behind: what mu still hides differs by less than 3e-4 of ln loss
 * between such searches (1000 steps, 10 epochs, 1 to 5 buffers).
 */
static int is_worth(toeplitz_mixed *m, double f) {
    if (f > m->lead + FAR_BEHIND || fabs(f - m->lead) <= SAME_PLACE) return 0;
    m->lead = fmin(m->lead, f);
    return 1;
}

dpmf_status toeplitz_mixed_stage(toeplitz_mixed *m, const base_objective *objective, const dpmf_run *run, double mu,
                                 double decrease, int iterations, double *x, base_minimum *out) {
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = decrease,
                                           .past = 5,
                                           .pairs = 20,
                                           .iterations = iterations,
                                           .what = "optimizing coefficients of any sign",
                                           .run = run};
    double *gradient = NULL, start = INFINITY;
    dpmf_status status = DPMF_OK;
    *out = (base_minimum){.f = INFINITY};
    m->mu = mu;
    m->warm = 0;
    TRY(base_alloc_doubles(objective->count, "a gradient", &gradient));
    TRY_DONE(objective->value(objective->context, x, &start, gradient));
    if (isfinite(start)) TRY_DONE(base_minimize(objective, &options, x, out));
done:
    base_free(gradient);
    return status;
}

dpmf_status toeplitz_mixed_finish(toeplitz_mixed *m, const base_objective *objective, const dpmf_run *run,
                                  double first_mu, int iterations, double *x, base_minimum *out) {
    base_minimum found = {.f = INFINITY};
    double *gradient = NULL;
    int all = 0;
    dpmf_status status = DPMF_OK;
    *out = found;
    for (double mu = first_mu; mu >= 0.9 * LAST_MU; mu *= 0.1) {
        TRY(toeplitz_mixed_stage(m, objective, run, mu, mu > 1e-6 ? SMALL : TINY, iterations, x, &found));
        all += found.iterations;
        out->iterations = all;
        if (!isfinite(found.f)) return DPMF_OK;
    }
    TRY(base_alloc_doubles(objective->count, "a gradient", &gradient));
    TRY_DONE(proven_value(m, objective, x, gradient, &found.f));
    found.iterations = all;
    *out = found;
done:
    base_free(gradient);
    return status;
}

dpmf_status toeplitz_mixed_descend(toeplitz_mixed *m, const base_objective *objective, const dpmf_run *run, double *x,
                                   base_minimum *out) {
    base_minimum first, second;
    TRY(toeplitz_mixed_stage(m, objective, run, FIRST_MU, SMALL, ITERATIONS, x, &first));
    TRY(toeplitz_mixed_stage(m, objective, run, SCREEN_MU, SMALL, ITERATIONS, x, &second));
    const int iterations = first.iterations + second.iterations, inside = isfinite(second.f);
    *out = (base_minimum){.f = INFINITY};
    if (inside && is_worth(m, second.f))
        TRY(toeplitz_mixed_finish(m, objective, run, 0.1 * SCREEN_MU, ITERATIONS, x, out));
    if (!inside) m->lead = INFINITY; /* no answer, and none that others need to beat */
    out->iterations += iterations;
    return DPMF_OK;
}
