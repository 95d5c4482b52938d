/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The route for a Toeplitz C whose columns are normalized, or under a learning-rate schedule: named workloads.
 *
 * B = A D C^-1 with d_t the norm of column t of C (1 without normalization) and h the first column of C^-1. Column u of
 * B is the recursion of A (workload/workload.h) driven by y_t = d_t h_{t-u}:
 *
 *     m_t = beta m_{t-1} + y_t,   o_t = keep_t o_{t-1} + rate_t (from_m m_t + from_y y_t),   B[t,u] = o_t.
 *
 * All columns go from row to row together: O(n) a row. Where A is Toeplitz and C has b bands, only the last b - 1
 * columns of C are short, d_t is constant before them, and the rows before them are those of a Toeplitz matrix
 * (error/error.c); columns start there from its series. So O(n b) in all, against O(n b^2) by the covariance of past outputs
 * (error/error.c), and O(n^2) under a schedule.
 */

#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "error/error.h"
#include "strategy/strategy.h"

#include <float.h>
#include <math.h>
#include <string.h>

dpmf_status error_report(const dpmf_run *run, int64_t t, int64_t n, int64_t operations) {
    static const int64_t OPERATIONS = (int64_t)1 << 24, STEPS = 1 << 16; /* between two questions, at most */
    const int64_t apart = operations < OPERATIONS / STEPS ? STEPS : OPERATIONS / operations + 1;
    return t % apart == 0 ? base_progress(run, "error", (double)t / (double)n) : DPMF_OK;
}

enum { LANES = 8 };

typedef struct columns {
    int64_t n, first;
    double *memory;
    double *reversed; /* h_{n-1}, ..., h_0, then LANES zeros */
    double *m, *o;    /* of every column, with room for a whole last vector */
} columns;

static dpmf_status create(int64_t n, int64_t first, columns *out) {
    const int64_t room = n + LANES;
    columns e = {.n = n, .first = first};
    TRY(base_alloc_doubles(3 * room, "columns of B", &e.memory));
    e.reversed = e.memory;
    e.m = e.reversed + room;
    e.o = e.m + room;
    *out = e;
    return DPMF_OK;
}

/* The rows before `first`, and the columns as they are after them. `scale` is constant there. */
static void fill_series(columns *e, const dpmf_workload *a, double scale, double *squares) {
    const workload_recursion_form r = workload_recursion(a, 0);
    base_running sum = {0};
    double m = 0, o = 0;
    for (int64_t i = 0; i < e->first; i++) {
        double y = scale * e->reversed[e->n - 1 - i];
        m = r.momentum * m + y;
        o = r.keep * o + r.rate * (r.from_m * m + r.from_y * y);
        base_running_add(&sum, o * o);
        squares[i] = base_running_value(&sum);
        e->m[e->first - 1 - i] = m;
        e->o[e->first - 1 - i] = o;
    }
}

static double add_lanes(const double *sums) {
    double sum = 0;
    for (int i = 0; i < LANES; i++)
        sum += sums[i];
    return sum;
}

/* Columns beyond t see the zeros after h_0, and stay zero. */
static double row_with_momentum(columns *e, const workload_recursion_form *r, double scale, int64_t t) {
    const double *restrict h = e->reversed + e->n - 1 - t;
    double *restrict m = e->m, *restrict o = e->o;
    double sums[LANES] = {0};
    const double beta = r->momentum, keep = r->keep, from_m = r->rate * r->from_m, from_y = r->rate * r->from_y;
    for (int64_t u = 0; u <= t; u += LANES)
        for (int i = 0; i < LANES; i++) {
            double y = scale * h[u + i];
            m[u + i] = beta * m[u + i] + y;
            o[u + i] = keep * o[u + i] + (from_m * m[u + i] + from_y * y);
            sums[i] += o[u + i] * o[u + i];
        }
    return add_lanes(sums);
}

static double row_without(columns *e, const workload_recursion_form *r, double scale, int64_t t) {
    const double *restrict h = e->reversed + e->n - 1 - t;
    double *restrict o = e->o;
    double sums[LANES] = {0};
    const double keep = r->keep, gain = scale * r->rate * (r->from_m + r->from_y);
    for (int64_t u = 0; u <= t; u += LANES)
        for (int i = 0; i < LANES; i++) {
            o[u + i] = keep * o[u + i] + gain * h[u + i];
            sums[i] += o[u + i] * o[u + i];
        }
    return add_lanes(sums);
}

dpmf_status error_toeplitz_columns(const dpmf_workload *a, int64_t count, const double *c, const double *scale,
                                   const dpmf_run *run, double *per_step) {
    const int64_t n = a->steps;
    columns e = {0};
    dpmf_status status = DPMF_OK;
    TRY(create(n, a->toeplitz ? n - count + 1 : 0, &e));
    /* h into `reversed`, by way of `o`. */
    e.o[0] = 1;
    base_toeplitz_solve_banded(e.n, count, c, e.o, e.o);
    for (int64_t i = 0; i < e.n; i++)
        e.reversed[e.n - 1 - i] = e.o[i];
    memset(e.o, 0, (size_t)e.n * sizeof *e.o);
    if (e.first > 0) fill_series(&e, a, scale == NULL ? 1 : scale[0], per_step);
    for (int64_t t = e.first; t < n; t++) {
        const workload_recursion_form r = workload_recursion(a, t);
        const double d = scale == NULL ? 1 : scale[t];
        per_step[t] = r.momentum == 0 ? row_without(&e, &r, d, t) : row_with_momentum(&e, &r, d, t);
        TRY_DONE(error_report(run, t, n, 4 * n));
    }
done:
    base_free(e.memory);
    return status;
}

/*
 * The route for a Toeplitz C under a learning-rate schedule, near linear in the steps: named workloads without decay. Columns
 * divided by their norms d are a schedule too, of rates r_s d_s, where no momentum stands between the two.
 *
 * h is the first column of C^-1, g_i = from_m (momentum filter of h)_i + from_y h_i, so that step s changes the answer by
 * r_s times the noise sum_u g_{s-u} z_u. Row t of B has B[t,u] = sum_{u <= s <= t} r_s g_{s-u}, and its square grows by
 *
 *     e_t - e_{t-1} = r_t^2 sum_{i <= t} g_i^2 + 2 r_t sum_{s < t} r_s sum_{i <= s} g_i g_{i+t-s}.
 *
 * With seeds from before step 0 as well, the inner sum were Gamma(t-s) = sum_i g_i g_{i+t-s}, and the sum over s one
 * convolution. What those seeds would add is
 *
 *     sum_{u >= 1} g_{t+u} sum_{s < t} r_s g_{s+u},
 *
 * which ends where g does: for b bands g falls below rounding after some dozens of b. So O(n log n + l^2) with l the
 * length of g, against O(n^2) by the columns above and O(n b^2) by the covariance of past outputs. A g that does not
 * end within half of the run, as that of the square root, goes by the last part of this file, O(n log^2 n).
 */

/* Beyond this all of g together is below the rounding of its largest number. */
static int64_t length_of(int64_t n, const double *g) {
    double largest = 0, tail = 0;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs(g[i]));
    int64_t length = n;
    while (length > 1 && tail + fabs(g[length - 1]) <= 0.01 * DBL_EPSILON * largest)
        tail += fabs(g[--length]);
    return length;
}

/* Gamma(d), d = 0..length-1: g against itself reversed. */
static dpmf_status autocorrelate(int64_t length, const double *g, double *gamma) {
    double *reversed = NULL, *product = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(length, "reversed", &reversed));
    TRY_DONE(base_alloc_doubles(2 * length - 1, "a product", &product));
    for (int64_t i = 0; i < length; i++)
        reversed[i] = g[length - 1 - i];
    TRY_DONE(base_convolve(length, g, length, reversed, 2 * length - 1, product));
    memcpy(gamma, product + length - 1, (size_t)length * sizeof *gamma);
done:
    base_free(reversed);
    base_free(product);
    return status;
}

/* Takes off q_t what seeds from before step 0 would add, t < length; `sums` is room for length numbers. */
static dpmf_status without_the_past(int64_t length, const double *g, const double *rates, double *sums, double *q,
                                    const dpmf_run *run) {
    memset(sums, 0, (size_t)length * sizeof *sums);
    for (int64_t t = 1; t < length; t++) {
        const double rate = rates[t - 1], *before = g + t - 1, *now = g + t;
        double past = 0;
        for (int64_t u = 1; u < length - t; u++) {
            sums[u] += rate * before[u]; /* over s < t */
            past += now[u] * sums[u];
        }
        q[t] -= past;
        if ((t & 0xff) == 0) TRY(base_progress(run, "error", -1));
    }
    return DPMF_OK;
}

/* q_t = sum over s < t of r_s sum_{i <= s} g_i g_{i+t-s}, for a g that ends. */
static dpmf_status short_filter(int64_t n, int64_t length, const double *g, const double *rates, const dpmf_run *run,
                                double *q) {
    double *gamma = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(length, "its products", &gamma));
    TRY_DONE(autocorrelate(length, g, gamma));
    gamma[0] = 0; /* s < t */
    TRY_DONE(base_convolve(n, rates, length, gamma, n, q));
    TRY_DONE(without_the_past(length, g, rates, gamma, q, run));
done:
    base_free(gamma);
    return status;
}

/* h: by its recursion, or for many bands as a power series. */
static dpmf_status invert_series(int64_t n, int64_t count, const double *c, double *h) {
    enum { MANY = 4096 };
    if (count > MANY) return base_series_inverse(count, c, n, h);
    h[0] = 1;
    base_toeplitz_solve_banded(n, count, c, h, h);
    return DPMF_OK;
}

dpmf_status error_schedule(const dpmf_workload *a, int64_t count, const double *c, const double *scale,
                           const dpmf_run *run, int *done, double *per_step) {
    enum { LONG = 4096 }; /* up to here columns are as fast where g does not end, and exact */
    const int64_t n = a->steps;
    double *g = NULL, *rates = NULL, *q = NULL, squares = 0;
    dpmf_status status = DPMF_OK;
    *done = 0;
    if (scale != NULL && a->momentum > 0) return DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a filter", &g));
    TRY_DONE(invert_series(n, count, c, g));
    /* g from h in place. */
    const workload_recursion_form r = workload_recursion(a, 0);
    double m = 0;
    for (int64_t i = 0; i < n; i++) {
        m = r.momentum * m + g[i];
        g[i] = r.from_m * m + r.from_y * g[i];
    }
    const int64_t length = length_of(n, g);
    if (!isfinite(base_norm(n, g)) || (length > n / 2 && n < LONG)) goto done;
    TRY_DONE(base_alloc_doubles(n, "learning rates", &rates));
    TRY_DONE(base_alloc_doubles(n, "covariances", &q));
    for (int64_t t = 0; t < n; t++)
        rates[t] = workload_recursion(a, t).rate * (scale == NULL ? 1 : scale[t]);
    TRY_DONE(length > n / 2 ? error_triangle(n, g, rates, run, q) : short_filter(n, length, g, rates, run, q));
    base_running total = {0};
    for (int64_t t = 0; t < n; t++) {
        squares = t < length ? squares + g[t] * g[t] : squares;
        base_running_add(&total, rates[t] * (rates[t] * squares + 2 * q[t]));
        per_step[t] = base_running_value(&total);
    }
    *done = 1;
done:
    base_free(g);
    base_free(rates);
    base_free(q);
    return status;
}

/*
 * q_t = sum over s < t of rates_s N[t,s], N = H H' with H lower triangular and Toeplitz, first column g: the sums above
 * need it where g does not end. All of N would take O(n^2); this is exact, but for rounding, in O(n log^2 n).
 *
 *     N[t,s] = sum_{i <= s} g_i g_{i+t-s} = P_{t-s}(s),      P_d(x) = sum_{i <= x} g_i g_{i+d}
 *
 * The triangle s < t is cut into squares, lo <= s < lo + m <= t < lo + 2m for lo = 0, 2m, 4m, ... and m = LEAF, 2 LEAF, ...,
 * and triangles of side LEAF along the diagonal. Within a square
 *
 *     N[t,s] = P_{t-s}(lo-1) + sum_{v=0}^{s-lo} g_{s-v} g_{t-v},
 *
 * a Toeplitz matrix and the product of two: three convolutions of length m. From one square of a size to the next P_d, d < 2m,
 * grows by the correlation of the 2m numbers of g between them. So each size costs O(n log n), and there are log n of them.
 */

enum { LEAF = 128 };

typedef struct triangle {
    int64_t n;
    const double *g, *rates;
    const dpmf_run *run;
    double *q;
    double *lags;     /* P_d(lo-1), d < 2m */
    double *reversed; /* 2m */
    double *middle;   /* m */
    double *product;  /* 4m */
} triangle;

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* The triangles along the diagonal, one lag after the other. */
static void add_leaves(triangle *w) {
    memset(w->lags, 0, LEAF * sizeof *w->lags);
    for (int64_t lo = 0; lo < w->n; lo += LEAF)
        for (int64_t d = 1; d < LEAF; d++) {
            double sum = w->lags[d];
            for (int64_t s = lo; s < lo + LEAF && s + d < w->n; s++) {
                sum += w->g[s] * w->g[s + d];
                if (s + d < lo + LEAF) w->q[s + d] += w->rates[s] * sum;
            }
            w->lags[d] = sum;
        }
}

/* Adds product[m-1 ...] to the rows of the square. */
static void add_rows(triangle *w, int64_t lo, int64_t m) {
    const int64_t rows = smaller(m, w->n - lo - m);
    for (int64_t b = 0; b < rows; b++)
        w->q[lo + m + b] += w->product[m - 1 + b];
}

static dpmf_status add_squares(triangle *w, int64_t m) {
    memset(w->lags, 0, (size_t)(2 * m) * sizeof *w->lags);
    for (int64_t lo = 0; lo + m < w->n; lo += 2 * m) {
        TRY(base_progress(w->run, "error", -1));
        const double *g = w->g + lo, *rates = w->rates + lo;
        if (lo > 0) {
            TRY(base_convolve(m, rates, 2 * m - 1, w->lags + 1, 2 * m - 1, w->product));
            add_rows(w, lo, m);
        }
        for (int64_t i = 0; i < m; i++)
            w->reversed[i] = rates[m - 1 - i];
        TRY(base_convolve(m, g, m, w->reversed, m, w->middle)); /* sum_a g_{lo+a-v} rates_a at m-1-v */
        base_reverse(m, w->middle);
        TRY(base_convolve(smaller(2 * m - 1, w->n - lo - 1), g + 1, m, w->middle, 2 * m - 1, w->product));
        add_rows(w, lo, m);
        if (lo + 3 * m < w->n) {
            /* P_d from lo - 1 to lo + 2m - 1. */
            for (int64_t i = 0; i < 2 * m; i++)
                w->reversed[i] = w->g[lo + 2 * m - 1 - i];
            TRY(base_convolve(2 * m, w->reversed, smaller(4 * m, w->n - lo), w->g + lo, 4 * m - 1, w->product));
            for (int64_t d = 1; d < 2 * m; d++)
                w->lags[d] += w->product[2 * m - 1 + d];
        } /* there is a next one */
    }
    return DPMF_OK;
}

dpmf_status error_triangle(int64_t n, const double *g, const double *rates, const dpmf_run *run, double *q) {
    triangle w = {.n = n, .g = g, .rates = rates, .run = run, .q = q};
    int64_t largest = LEAF;
    dpmf_status status = DPMF_OK;
    while (2 * largest < n)
        largest *= 2;
    TRY_DONE(BASE_ARRAYS("sums of products", {&w.lags, 2 * largest}, {&w.reversed, 2 * largest}, {&w.middle, largest},
                         {&w.product, 4 * largest}));
    memset(q, 0, (size_t)n * sizeof *q);
    add_leaves(&w);
    for (int64_t m = LEAF; m < n; m *= 2)
        TRY_DONE(add_squares(&w, m));
done:
    base_free(w.lags);
    return status;
}
