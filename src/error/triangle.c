/* SPDX-License-Identifier: Apache-2.0 */
/*
 * q_t = sum over s < t of rates_s N[t,s], N = H H' with H lower triangular and Toeplitz, first column g: what error/schedule.c
 * needs where g does not end. All of N would take O(n^2); this is exact, but for rounding, in O(n log^2 n).
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
#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "error/error.h"

#include <string.h>

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

static dpmf_status add_square(triangle *w, int64_t lo, int64_t m) {
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
    return DPMF_OK;
}

/* P_d from lo - 1 to lo + 2m - 1. */
static dpmf_status move_lags(triangle *w, int64_t lo, int64_t m) {
    for (int64_t i = 0; i < 2 * m; i++)
        w->reversed[i] = w->g[lo + 2 * m - 1 - i];
    TRY(base_convolve(2 * m, w->reversed, smaller(4 * m, w->n - lo), w->g + lo, 4 * m - 1, w->product));
    for (int64_t d = 1; d < 2 * m; d++)
        w->lags[d] += w->product[2 * m - 1 + d];
    return DPMF_OK;
}

static dpmf_status add_squares(triangle *w, int64_t m) {
    memset(w->lags, 0, (size_t)(2 * m) * sizeof *w->lags);
    for (int64_t lo = 0; lo + m < w->n; lo += 2 * m) {
        TRY(base_progress(w->run, "error", -1));
        TRY(add_square(w, lo, m));
        if (lo + 3 * m < w->n) TRY(move_lags(w, lo, m)); /* there is a next one */
    }
    return DPMF_OK;
}

dpmf_status error_triangle(int64_t n, const double *g, const double *rates, const dpmf_run *run, double *q) {
    triangle w = {.n = n, .g = g, .rates = rates, .run = run, .q = q};
    int64_t largest = LEAF;
    dpmf_status status = DPMF_OK;
    while (2 * largest < n)
        largest *= 2;
    TRY_DONE(base_alloc_doubles(2 * largest, "sums of products", &w.lags));
    TRY_DONE(base_alloc_doubles(2 * largest, "a reversed filter", &w.reversed));
    TRY_DONE(base_alloc_doubles(largest, "a product", &w.middle));
    TRY_DONE(base_alloc_doubles(4 * largest, "a product", &w.product));
    memset(q, 0, (size_t)n * sizeof *q);
    add_leaves(&w);
    for (int64_t m = LEAF; m < n; m *= 2)
        TRY_DONE(add_squares(&w, m));
done:
    base_free(w.lags);
    base_free(w.reversed);
    base_free(w.middle);
    base_free(w.product);
    return status;
}
