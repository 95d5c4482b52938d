/* SPDX-License-Identifier: Apache-2.0 */
/*
 * F^-1 through one epoch. F is y = u + h'x, x <- rho o x + beta u; its inverse, from y to u, is
 *
 *     u = y - h'x,   x <- A x + beta y,   A_p = R - beta_p h_p',  R = diag(rho).
 *
 * phi_{p+1} = A_p phi_p = R phi_p - beta_p q_p' with q_p = phi_p'h_p;  psi_p = psi_{p+1} A_p = psi_{p+1} R - w_p h_p'
 * with w_p = psi_{p+1} beta_p. Epochs are independent of each other: O(n r^2), one epoch an item of work.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <string.h>

typedef replay_filter filter_t;

dpmf_status replay_filter_alloc(const replay_shape *s, filter_t *out) {
    int64_t k = s->epochs, b = s->period, r = s->buffers;
    filter_t f = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(k * (b + 1) * r * r, "transitions of the filter", &f.phi));
    TRY_DONE(base_alloc_doubles(k * (b + 1) * r * r, "transitions of the filter", &f.psi));
    TRY_DONE(base_alloc_doubles(k * b * r, "responses of the filter", &f.q));
    TRY_DONE(base_alloc_doubles(k * b * r, "responses of the filter", &f.w));
    *out = f;
    f = (filter_t){0};
done:
    replay_filter_free(&f);
    return status;
}

void replay_filter_free(filter_t *f) {
    base_free(f->phi);
    base_free(f->psi);
    base_free(f->q);
    base_free(f->w);
    *f = (filter_t){0};
}

static void identity(int r, double *x) {
    memset(x, 0, (size_t)(r * r) * sizeof *x);
    for (int i = 0; i < r; i++)
        x[i * r + i] = 1;
}

static void forward(const replay_coefficients *c, int64_t epoch, filter_t *f) {
    const int64_t b = c->shape.period;
    const int r = c->shape.buffers;
    double *phi = f->phi + epoch * (b + 1) * r * r;
    identity(r, phi);
    for (int64_t p = 0; p < b; p++, phi += r * r) {
        const double *h = c->h + (epoch * b + p) * r, *beta = c->beta + (epoch * b + p) * r;
        double *q = f->q + (epoch * b + p) * r;
        memset(q, 0, (size_t)r * sizeof *q);
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                q[j] += h[i] * phi[i * r + j];
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                phi[r * r + i * r + j] = c->rho[i] * phi[i * r + j] - beta[i] * q[j];
    }
}

static void backward(const replay_coefficients *c, int64_t epoch, filter_t *f) {
    const int64_t b = c->shape.period;
    const int r = c->shape.buffers;
    double *next = f->psi + (epoch * (b + 1) + b) * r * r;
    identity(r, next);
    for (int64_t p = b - 1; p >= 0; p--, next -= r * r) {
        const double *h = c->h + (epoch * b + p) * r, *beta = c->beta + (epoch * b + p) * r;
        double *w = f->w + (epoch * b + p) * r, *psi = next - r * r;
        for (int i = 0; i < r; i++) {
            double sum = 0;
            for (int j = 0; j < r; j++)
                sum += next[i * r + j] * beta[j];
            w[i] = sum;
            for (int j = 0; j < r; j++)
                psi[i * r + j] = next[i * r + j] * c->rho[j] - sum * h[j];
        }
    }
}

typedef struct task {
    const replay_coefficients *c;
    filter_t *f;
} task;

static dpmf_status one_epoch(void *context, int64_t epoch, int worker) {
    task *t = context;
    (void)worker;
    forward(t->c, epoch, t->f);
    backward(t->c, epoch, t->f);
    return DPMF_OK;
}

dpmf_status replay_filter_fill(const replay_coefficients *c, base_pool *pool, filter_t *f) {
    task t = {c, f};
    return replay_run(pool, c->shape.period * c->shape.buffers * c->shape.buffers * 8, c->shape.epochs, one_epoch, &t);
}

enum { FLOPS_WORTH_A_THREAD = 40000 }; /* in one item: some 20 microseconds, what waking a thread takes */

dpmf_status replay_run(base_pool *pool, int64_t flops, int64_t count, base_work work, void *context) {
    if (pool != NULL && count > 1 && flops >= FLOPS_WORTH_A_THREAD) return base_pool_run(pool, count, work, context);
    for (int64_t i = 0; i < count; i++)
        TRY(work(context, i, 0));
    return DPMF_OK;
}
