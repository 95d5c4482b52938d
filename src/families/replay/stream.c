/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds as matrices on vectors: W z by the stream itself, and C y by running it backwards,
 *
 *     u_t = y_t / d_p - h'x,   x <- rho o x + beta u_t,   z_t = sum_{e <= f} M_p[f,e] u_{eb+p}.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <assert.h>
#include <string.h>

typedef replay_coefficients replay;
enum { R_MAX = REPLAY_BUFFERS_MAX };

/* sum_{e <= f} of a row of a lower triangular matrix of class p with x_{eb+p}. */
static double row(const replay *c, const double *matrix, int64_t t, const double *x) {
    const int64_t b = c->shape.period, p = t % b;
    const int f = (int)(t / b);
    double sum = 0;
    for (int e = 0; e <= f; e++)
        sum += matrix[replay_pair(f, e) * b + p] * x[e * b + p];
    return sum;
}

/* h'x of step t; then x <- rho o x + beta u. */
static double output(const replay *c, int64_t t, const double *state) {
    const int r = c->shape.buffers;
    double sum = 0;
    for (int j = 0; j < r; j++)
        sum += c->h[t * r + j] * state[j];
    return sum;
}

static void push(const replay *c, int64_t t, double u, double *state) {
    const int r = c->shape.buffers;
    for (int j = 0; j < r; j++)
        state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u;
}

dpmf_status replay_apply(const replay *c, const double *x, double *y) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double state[R_MAX] = {0}, *u = NULL;
    TRY(base_alloc_doubles(n, "the mixed seeds", &u));
    for (int64_t t = 0; t < n; t++) {
        u[t] = x[t] / c->scale[t % b] - output(c, t, state);
        push(c, t, u[t], state);
    }
    for (int64_t t = 0; t < n; t++)
        y[t] = row(c, c->factor, t, u);
    base_free(u);
    return DPMF_OK;
}

dpmf_status replay_solve(const replay *c, const double *y, double *x) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double state[R_MAX] = {0};
    double *seeds = NULL;
    TRY(base_alloc_doubles(n, "the seeds", &seeds));
    memcpy(seeds, y, (size_t)n * sizeof *seeds);
    for (int64_t t = 0; t < n; t++) {
        const double u = row(c, c->mix, t, seeds);
        x[t] = c->scale[t % b] * (u + output(c, t, state));
        push(c, t, u, state);
    }
    base_free(seeds);
    return DPMF_OK;
}

dpmf_status replay_column(const replay *c, int64_t j, double *column) {
    assert(j >= 0 && j < c->shape.steps);
    memset(column, 0, (size_t)c->shape.steps * sizeof *column);
    column[j] = 1;
    return replay_apply(c, column, column);
}

replay_step replay_at(const replay *c, int64_t t, double *a) {
    const int64_t b = c->shape.period, p = t % b;
    const int f = (int)(t / b), r = c->shape.buffers;
    assert(t >= 0 && t < c->shape.steps);
    for (int j = 0; j <= f; j++)
        a[j] = c->mix[replay_pair(f, f - j) * b + p];
    return (replay_step){
        .seeds = f + 1, .scale = c->scale[p], .h = c->h + t * r, .beta = c->beta + t * r, .rho = c->rho};
}
