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
 * (error/recursion.c), and O(n^2) under a schedule.
 */
#include "error/error.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <string.h>

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

/* h into `reversed`, by way of `o`. */
static void fill_inverse(columns *e, int64_t count, const double *c) {
    e->o[0] = 1;
    base_toeplitz_solve_banded(e->n, count, c, e->o, e->o);
    for (int64_t i = 0; i < e->n; i++)
        e->reversed[e->n - 1 - i] = e->o[i];
    memset(e->o, 0, (size_t)e->n * sizeof *e->o);
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
    fill_inverse(&e, count, c);
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
