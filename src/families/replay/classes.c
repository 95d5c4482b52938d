/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity of a TV-BLT with replayed seeds, class by class. A unit of class p contributes vectors g_0, ..., g_{k-1}
 * of norm at most 1, one at each of its steps, and moves C g by sqrt(tr(X_p R)), R_fg = g_f'g_g: the squared
 * sensitivity is the largest tr(X R) over correlation matrices R (Choquette-Choo et al. 2023). Its dual is the least
 * sum of y with diag(y) - X positive semidefinite. Any such y is an upper bound:
 *
 *     y_f = sum_g |X_fg|         Gershgorin; equal to the largest value where X is diagonal, or has the signs s_f s_g;
 *     y_f = X_ff + |sum_{g != f} X_fg r_g| with unit vectors r_g that solve the primal by coordinate ascent, raised by
 *           the most negative eigenvalue of diag(y) - X.
 *
 * For the cancelled P (pairs.c) X is diagonal but for rounding, and the first is exact.
 */
#include "families/replay/replay.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <float.h>
#include <math.h>

enum { SWEEPS_MAX = 2000 };

/* One round of r_f <- the direction of sum_{g != f} X_fg r_g; y as above. The sum of the lengths. */
static double ascend(int k, const double *x, double *vectors, double *y) {
    double total = 0, *sum = vectors + k * k;
    for (int f = 0; f < k; f++) {
        for (int j = 0; j < k; j++)
            sum[j] = 0;
        for (int g = 0; g < k; g++)
            for (int j = 0; g != f && j < k; j++)
                sum[j] += x[f * k + g] * vectors[g * k + j];
        double length = base_norm(k, sum);
        y[f] = x[f * k + f] + length;
        total += length;
        for (int j = 0; length > 0 && j < k; j++)
            vectors[f * k + j] = sum[j] / length;
    }
    return total;
}

static double absolute_sum(int k, const double *x) {
    double sum = 0;
    for (int i = 0; i < k * k; i++)
        sum += fabs(x[i]);
    return sum;
}

dpmf_status replay_class_bound(int k, const double *x, double *square) {
    double *room = NULL, before = -1, sum = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles((int64_t)k * (2 * k + 3), "contributions of a unit", &room));
    double *vectors = room, *matrix = room + k * k + k, *y = matrix + k * k, *values = y + k;
    for (int f = 0; f < k; f++) /* from a generic point: at an orthogonal one nothing would move */
        for (int j = 0; j < k; j++)
            vectors[f * k + j] = (f == j) + 0.3 * sin(1 + 1.7 * f + 0.9 * j * (f + 1));
    for (int i = 0; i < SWEEPS_MAX; i++) {
        double now = ascend(k, x, vectors, y);
        if (i > 20 && fabs(now - before) <= 1e-13 * fabs(now)) break;
        before = now;
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            matrix[i * k + j] = (i == j ? y[i] : 0) - x[i * k + j];
    TRY_DONE(base_symmetric_eigen(k, matrix, values));
    for (int f = 0; f < k; f++)
        sum += y[f];
    const double plain = absolute_sum(k, x);
    sum += k * (fmax(0, -values[0]) + 4 * k * DBL_EPSILON * plain); /* the second: rounding of the eigenvalue */
    *square = fmin(sum, plain);
done:
    base_free(room);
    return status;
}

typedef struct task {
    const replay_coefficients *c;
    const double *blocks;
    int exact;
    double *squares;
} task;

static dpmf_status one_class(void *context, int64_t p, int worker) {
    const task *t = context;
    const int k = replay_members(&t->c->shape, p);
    const int64_t b = t->c->shape.period;
    const double scale = 1 / (t->c->scale[p] * t->c->scale[p]);
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    (void)worker;
    TRY(base_alloc_doubles((int64_t)k * k, "X of a class", &x));
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            x[i * k + j] = scale * t->blocks[replay_pair(i, j) * b + p];
    t->squares[p] = absolute_sum(k, x);
    if (t->exact) TRY_DONE(replay_class_bound(k, x, t->squares + p));
done:
    base_free(x);
    return status;
}

dpmf_status replay_sensitivities(replay_coefficients *c, int exact, base_pool *pool, double *squares) {
    replay_filter f = {0};
    replay_gram g = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_filter_alloc(&c->shape, &f));
    TRY_DONE(replay_gram_alloc(&c->shape, 0, &g));
    TRY_DONE(replay_filter_fill(c, pool, &f));
    TRY_DONE(replay_blocks(c, &f, 0, pool, &g));
    task t = {c, g.values, exact, squares};
    TRY_DONE(replay_run(pool, exact ? 1 << 20 : 1, c->shape.period, one_class, &t));
done:
    replay_filter_free(&f);
    replay_gram_free(&g);
    return status;
}
