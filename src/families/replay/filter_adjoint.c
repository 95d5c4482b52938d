/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adjoints of families/replay/filter.c (transitions of F^-1 through an epoch) and of P V = I in every class:
 *
 *     phi_{p+1} = R phi_p - beta q',  q = phi_p'h;      psi_p = psi_{p+1} R - w h',  w = psi_{p+1} beta
 *     dP = -P dV P,  dV = -V dP V.
 *
 * Epochs, and positions, are items of work.
 */
#include "families/replay/search.h"

#include "base/memory.h"

#include <string.h>

typedef replay_work work_t;
enum { R_MAX = REPLAY_BUFFERS_MAX };

/* Backwards over positions, from the derivative by phi_b = Z; adds those by h, beta, rho. */
static void phi_adjoint(work_t *v, int64_t epoch, double *rho_) {
    const int64_t b = v->c.shape.period;
    const int r = v->c.shape.buffers;
    const double *rho = v->c.rho;
    double bar[R_MAX * R_MAX];
    memcpy(bar, v->adjoint.whole + epoch * r * r, (size_t)(r * r) * sizeof *bar);
    for (int64_t p = b - 1; p >= 0; p--) {
        const int64_t at = (epoch * b + p) * r;
        const double *h = v->c.h + at, *beta = v->c.beta + at, *q = v->filter.q + at;
        const double *phi = v->filter.phi + (epoch * (b + 1) + p) * r * r;
        double *h_ = v->adjoint.h + at, *beta_ = v->adjoint.beta + at, q_[R_MAX];
        for (int j = 0; j < r; j++)
            q_[j] = v->adjoint.q[at + j];
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++) {
                beta_[i] -= bar[i * r + j] * q[j];
                q_[j] -= bar[i * r + j] * beta[i];
                rho_[i] += bar[i * r + j] * phi[i * r + j];
            }
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++) {
                h_[i] += phi[i * r + j] * q_[j];
                bar[i * r + j] = rho[i] * bar[i * r + j] + h[i] * q_[j];
            }
    }
}

/* Forwards over positions; the derivative by psi_p is what the pairs left there and what comes from psi_{p-1}. */
static void psi_adjoint(work_t *v, int64_t epoch, double *rho_) {
    const int64_t b = v->c.shape.period;
    const int r = v->c.shape.buffers;
    const double *rho = v->c.rho;
    double carried[R_MAX * R_MAX] = {0};
    for (int64_t p = 0; p < b; p++) {
        const int64_t at = (epoch * b + p) * r;
        const double *h = v->c.h + at, *beta = v->c.beta + at, *w = v->filter.w + at;
        const double *next = v->filter.psi + (epoch * (b + 1) + p + 1) * r * r;
        const double *left = v->adjoint.psi + (epoch * (b + 1) + p) * r * r;
        double *h_ = v->adjoint.h + at, *beta_ = v->adjoint.beta + at;
        for (int i = 0; i < r; i++) {
            double w_ = v->adjoint.w[at + i], *bar = carried + i * r;
            for (int j = 0; j < r; j++) {
                bar[j] += left[i * r + j];
                w_ -= bar[j] * h[j];
            }
            for (int j = 0; j < r; j++) {
                h_[j] -= bar[j] * w[i];
                rho_[j] += bar[j] * next[i * r + j];
                beta_[j] += next[i * r + j] * w_;
                bar[j] = bar[j] * rho[j] + w_ * beta[j];
            }
        }
    }
}

static dpmf_status one_epoch(void *context, int64_t epoch, int worker) {
    work_t *v = context;
    const int r = v->c.shape.buffers;
    double rho_[R_MAX] = {0}, *sum = v->adjoint.rho + (replay_pairs(&v->c.shape) + epoch) * r;
    (void)worker;
    phi_adjoint(v, epoch, rho_);
    psi_adjoint(v, epoch, rho_);
    for (int j = 0; j < r; j++)
        sum[j] += rho_[j];
    return DPMF_OK;
}

dpmf_status replay_filter_adjoint(work_t *w) {
    const replay_shape *s = &w->c.shape;
    return replay_run(w->pool, s->period * 20 * s->buffers * s->buffers, s->epochs, one_epoch, w);
}

/* ---- classes ---- */

enum { CHUNK = 64 }; /* positions an item */

typedef struct task {
    work_t *w;
    int by; /* 0: P's from V's; 1: V's from P's */
} task;

static void one_class(const task *t, int64_t p, double *matrix, double *bar, double *half) {
    const work_t *v = t->w;
    const int k = replay_members(&v->c.shape, p);
    const int64_t b = v->c.shape.period;
    const double *value = t->by ? v->c.precision : v->c.covariance;
    const double *from = t->by ? v->adjoint.precision : v->adjoint.covariance;
    double *to = t->by ? v->adjoint.covariance : v->adjoint.precision;
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) { /* a pair off the diagonal stands for two entries */
            const int64_t at = replay_pair(i, j) * b + p;
            matrix[i * k + j] = matrix[j * k + i] = value[at];
            bar[i * k + j] = bar[j * k + i] = i == j ? from[at] : from[at] / 2;
        }
    memset(half, 0, (size_t)(k * k) * sizeof *half);
    for (int i = 0; i < k; i++)
        for (int l = 0; l < k; l++)
            for (int j = 0; j < k; j++)
                half[i * k + j] += matrix[i * k + l] * bar[l * k + j];
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            const int64_t at = replay_pair(i, j) * b + p;
            double sum = 0;
            for (int l = 0; l < k; l++)
                sum += half[i * k + l] * matrix[j * k + l];
            to[at] = (t->by ? to[at] : 0) - (i == j ? sum : 2 * sum);
        }
    for (int j = 0; k < v->c.shape.epochs && j <= k; j++)
        to[replay_pair(k, j) * b + p] = 0;
}

static dpmf_status some_classes(void *context, int64_t item, int worker) {
    const task *t = context;
    const int64_t k = t->w->c.shape.epochs, b = t->w->c.shape.period;
    const int64_t end = (item + 1) * CHUNK < b ? (item + 1) * CHUNK : b;
    double *room = NULL;
    (void)worker;
    TRY(base_alloc_doubles(3 * k * k, "a class", &room));
    for (int64_t p = item * CHUNK; p < end; p++)
        one_class(t, p, room, room + k * k, room + 2 * k * k);
    base_free(room);
    return DPMF_OK;
}

dpmf_status replay_class_adjoint(work_t *w, int by) {
    const int64_t k = w->c.shape.epochs, items = (w->c.shape.period + CHUNK - 1) / CHUNK;
    task t = {w, by};
    return replay_run(w->pool, CHUNK * k * k * k * 3, items, some_classes, &t);
}
