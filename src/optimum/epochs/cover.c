/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sensitivity of a point of the dual, from above: the largest over the classes of
 *
 *     f(X_i) = min { tr D : D diagonal, D - X_i positive semidefinite }
 *
 * (sensitivity/pattern.c). Replacing X_i by D in every class adds a positive semidefinite matrix to X: no error becomes
 * larger, the steps of a class are orthogonal, and the squared sensitivity is the largest trace.
 *
 * At the top of the dual V_i over its diagonal is the matrix of inner products that attains f(X_i), and close to it the
 * error of D is of second order in the distance, that of the sum of |X_i| of first order. Example: momentum 0.9, ten
 * epochs of 100, a barrier that keeps the bounds 3e-4 apart: after 60 steps D gives 1.0004 times the value of the dual,
 * the sum 1.59 times, and still 1.03 after 200 more. V nearly vanishes in some directions, where X_i has no
 * information. So the vectors begin as rows of the factor of V_i, and a few sweeps finish them.
 */
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "sensitivity/sensitivity.h"

#include <float.h>
#include <math.h>

/* One class: its block of X, m unit vectors of m numbers, and work space. */
typedef struct block {
    int64_t m;
    double *x, *g, *work, *d;
} block;

enum { SWEEPS = 2, MORE_SWEEPS = 8 };
static const double NEAR = 1e-7; /* the two sides of f: closer needs no more sweeps */

/* 0 where X is not finite, as it may be at a trial of the line search. */
static int load_block(const optimum_epochs *e, const epochs_point *point, int64_t i, block *b) {
    const int64_t k = e->k, m = (e->n - i + e->b - 1) / e->b;
    const double *x = point->blocks + i * k * k, *l = point->lower + i * k * k;
    double sum = 0;
    b->m = m;
    for (int64_t r = 0; r < m; r++) {
        double squares = 0;
        for (int64_t q = 0; q <= r; q++)
            squares += l[r * k + q] * l[r * k + q];
        for (int64_t q = 0; q < m; q++) {
            b->x[r * m + q] = 0.5 * (x[r * k + q] + x[q * k + r]);
            b->g[r * m + q] = q <= r ? l[r * k + q] / sqrt(squares) : 0;
            sum += fabs(b->x[r * m + q]) + fabs(b->g[r * m + q]);
        }
    }
    return sum < 1 / DBL_EPSILON / DBL_EPSILON;
}

/* D of a class; stops early where its trace is already below `least`. */
static dpmf_status cover_block(block *b, double least, double *trace) {
    double low = 0;
    TRY(sensitivity_cover(b->m, b->m, SWEEPS, b->x, b->g, b->work, b->d, &low, trace));
    if (*trace <= fmax(least, low * (1 + NEAR))) return DPMF_OK;
    return sensitivity_cover(b->m, b->m, MORE_SWEEPS, b->x, b->g, b->work, b->d, &low, trace);
}

static void put_difference(int64_t k, const block *b, const double *x, double *added) {
    for (int64_t r = 0; r < b->m; r++)
        for (int64_t q = 0; q < b->m; q++)
            added[r * k + q] = (r == q ? b->d[r] : 0) - x[r * k + q];
}

dpmf_status epochs_cover(const optimum_epochs *e, epochs_point *point, int add, double *largest) {
    const int64_t k = e->k;
    double *memory = NULL, trace = 0;
    dpmf_status status = DPMF_OK;
    *largest = 0;
    TRY(base_alloc_doubles(3 * k * k + 3 * k, "a block of X", &memory));
    block b = {.x = memory, .work = memory + k * k, .g = memory + 2 * k * k, .d = memory + 3 * k * k + k};
    for (int64_t i = 0; i < e->b; i++) {
        trace = INFINITY;
        if (load_block(e, point, i, &b)) TRY_DONE(cover_block(&b, *largest, &trace));
        *largest = fmax(*largest, trace);
        if (add && isfinite(trace)) put_difference(k, &b, point->blocks + i * k * k, point->added + i * k * k);
    }
done:
    base_free(memory);
    return status;
}
