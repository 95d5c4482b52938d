/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The adjoint of error.c: derivatives of the loss by V, h, beta, rho and d from those by the errors of
 * the steps. Names as there. Steps backwards for the covariance, with B the derivative by Cov(s) (symmetric):
 *
 *     Cov' = A Cov A' + (A gamma) i' + i (A gamma)' + v i i'
 *     dA: 2 B (A Cov + i gamma'),  di: 2 B (A gamma + v i),  dgamma: 2 A'B i,  dv: i'B i,  dCov: A'B A;
 *
 * then epoch by epoch gamma -> omega, phi; pair by pair omega -> w, T, V; T -> Z; and epoch by epoch w, Z -> psi. Powers
 * of rho are differentiated where they stand.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <string.h>

typedef replay_work work_t;
typedef replay_error_head head;
enum { M_MAX = REPLAY_STATES_MAX };

static double *rho_of(work_t *v, int64_t epoch) {
    return v->adjoint.rho + (replay_pairs(&v->c.shape) + epoch) * v->c.shape.buffers;
}

/* d rho_j^power / d rho_j, for power >= 0 of the table. */
static double slope(const work_t *v, int64_t power, int j) {
    return power == 0 ? 0 : (double)power * v->error.power[(power - 1) * v->c.shape.buffers + j];
}

/* From the derivative c_ by c = d (g, 1) at step t. */
static void to_scale(work_t *v, int64_t t, const double *c_) {
    v->adjoint.scale[t] += c_[0] * v->error.drive[4 * t + 3] + (v->error.heads == 2 ? c_[1] : 0);
}

/* x <- A'x, m x columns. */
static inline __attribute__((always_inline)) void
transposed(int n, int m, const head *a, const double *h, const double *rho, int columns, const double *x, double *out) {
    for (int j = 0; j < columns; j++) {
        double seen = 0;
        for (int i = 0; i < n; i++)
            seen += a->c[i] * x[i * columns + j];
        for (int l = 0; l < n; l++) {
            double sum = 0;
            for (int i = 0; i < n; i++)
                sum += a->k[i * n + l] * x[i * columns + j];
            out[l * columns + j] = sum;
        }
        for (int l = n; l < m; l++)
            out[l * columns + j] = h[l - n] * seen + rho[l - n] * x[l * columns + j];
    }
}

/* A Cov + i gamma' (m x m) and A gamma + v i. */
static inline __attribute__((always_inline)) void derived(int n, int r, const work_t *v, int64_t t, const head *a,
                                                          const double *input, double variance, double *q, double *g) {
    const int m = n + r;
    const double *cov = v->error.covariance + t * m * m, *gamma = v->error.gamma + t * m, *h = v->c.h + t * r;
    double seen = 0;
    for (int l = 0; l < r; l++)
        seen += h[l] * gamma[n + l];
    for (int i = 0; i < n; i++) {
        double sum = a->c[i] * seen;
        for (int l = 0; l < n; l++)
            sum += a->k[i * n + l] * gamma[l];
        g[i] = sum + variance * input[i];
    }
    for (int l = n; l < m; l++)
        g[l] = v->c.rho[l - n] * gamma[l] + variance * input[l];
    for (int j = 0; j < m; j++) {
        double felt = 0;
        for (int l = n; l < m; l++)
            felt += h[l - n] * cov[l * m + j];
        for (int i = 0; i < n; i++) {
            double sum = a->c[i] * felt + input[i] * gamma[j];
            for (int l = 0; l < n; l++)
                sum += a->k[i * n + l] * cov[l * m + j];
            q[i * m + j] = sum;
        }
        for (int l = n; l < m; l++)
            q[l * m + j] = v->c.rho[l - n] * cov[l * m + j] + input[l] * gamma[j];
    }
}

/* One step back: bar, the derivative by the covariance after step t, becomes that before it. */
static inline __attribute__((always_inline)) void retreat(int n, int r, work_t *v, int64_t t, double *bar,
                                                          double *rho_) {
    const int64_t b = v->c.shape.period;
    const int m = n + r, f = (int)(t / b);
    const int64_t at = replay_pair(f, f) * b + t % b;
    const head a = replay_error_head_at(&v->error, &v->c, t);
    const double *h = v->c.h + t * r, variance = v->c.covariance[at];
    double input[M_MAX] = {0}, q[M_MAX * M_MAX], g[M_MAX], onto[M_MAX] = {0}, c_[2] = {0};
    double half[M_MAX * M_MAX], turned[M_MAX * M_MAX] = {0}, *h_ = v->adjoint.h + t * r,
                                               *beta_ = v->adjoint.beta + t * r;
    for (int i = 0; i < m; i++)
        input[i] = i < n ? a.c[i] : v->c.beta[t * r + i - n];
    derived(n, r, v, t, &a, input, variance, q, g);
    double own = 0;
    for (int i = 0; i < m; i++) {
        double by_input = 0;
        for (int j = 0; j < m; j++) {
            onto[i] += bar[i * m + j] * input[j];
            by_input += 2 * bar[i * m + j] * g[j];
        }
        own += input[i] * onto[i];
        *(i < n ? c_ + i : beta_ + i - n) += by_input;
    }
    v->adjoint.covariance[at] += own;
    transposed(n, m, &a, h, v->c.rho, 1, onto, v->adjoint.gamma + t * m);
    for (int i = 0; i < m; i++)
        v->adjoint.gamma[t * m + i] *= 2;
    for (int j = 0; j < r; j++) {
        for (int i = 0; i < n; i++) {
            double by_a = 0;
            for (int l = 0; l < m; l++)
                by_a += 2 * bar[i * m + l] * q[l * m + n + j];
            c_[i] += by_a * h[j];
            h_[j] += by_a * a.c[i];
        }
        for (int l = 0; l < m; l++)
            rho_[j] += 2 * bar[(n + j) * m + l] * q[l * m + n + j];
    }
    to_scale(v, t, c_);
    transposed(n, m, &a, h, v->c.rho, m, bar, half);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            turned[j * m + i] = half[i * m + j];
    transposed(n, m, &a, h, v->c.rho, m, turned, bar);
}

static inline __attribute__((always_inline)) void epoch_back(int n, int r, work_t *v, int64_t epoch, double *bar) {
    const int64_t b = v->c.shape.period;
    for (int64_t t = (epoch + 1) * b - 1; t >= epoch * b; t--) {
        bar[0] += v->adjoint.squares[t];
        retreat(n, r, v, t, bar, rho_of(v, epoch));
    }
}

/* ---- gamma = phi omega, and phi: one epoch ---- */

static inline __attribute__((always_inline)) void phi_adjoint(int n, int r, work_t *v, int64_t epoch) {
    const int64_t b = v->c.shape.period;
    const int m = n + r;
    double bar[2 * M_MAX] = {0}, *rho_ = rho_of(v, epoch);
    for (int64_t p = b - 1; p >= 0; p--) {
        const int64_t t = epoch * b + p;
        const head a = replay_error_head_at(&v->error, &v->c, t);
        const double *h = v->c.h + t * r, *power = v->error.power + p * r, *phi = v->error.phi + (t + epoch) * n * m;
        const double *omega = v->error.omega + t * m, *gamma_ = v->adjoint.gamma + t * m;
        double *omega_ = v->adjoint.omega + t * m, *h_ = v->adjoint.h + t * r, c_[2] = {0}, before[2 * M_MAX] = {0};
        for (int i = 0; i < n; i++) /* phi_{p+1} = K phi_p + c h'rho^p */
            for (int j = 0; j < r; j++) {
                const double x = bar[i * m + n + j];
                c_[i] += x * h[j] * power[j];
                h_[j] += x * a.c[i] * power[j];
                rho_[j] += x * a.c[i] * h[j] * slope(v, p, j);
            }
        to_scale(v, t, c_);
        for (int i = 0; i < n; i++)
            for (int l = 0; l < n; l++)
                for (int j = 0; j < m; j++)
                    before[l * m + j] += a.k[i * n + l] * bar[i * m + j];
        for (int j = 0; j < m; j++) /* gamma_p = phi_p omega_p */
            omega_[j] = j < n ? 0 : power[j - n] * gamma_[j];
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                omega_[j] += phi[i * m + j] * gamma_[i];
                before[i * m + j] += gamma_[i] * omega[j];
            }
        for (int j = 0; j < r; j++)
            rho_[j] += gamma_[n + j] * omega[n + j] * slope(v, p, j);
        memcpy(bar, before, sizeof bar);
    }
}

/* ---- omega_f = sum V T w: one earlier epoch with all later ones ---- */

static inline __attribute__((always_inline)) void mix_adjoint(int n, int r, work_t *v, int64_t from, int64_t f) {
    const int64_t b = v->c.shape.period, k = v->c.shape.epochs, at = replay_pair((int)f, (int)from) * b;
    const int m = n + r;
    const double *t = v->error.through + (f * k + from) * m * m, *value = v->c.covariance + at;
    double *t_ = v->adjoint.error_through + (f * k + from) * m * m, *value_ = v->adjoint.covariance + at;
    double sums[2 * M_MAX] = {0}, diagonal_[M_MAX] = {0}, diagonal[M_MAX];
    for (int j = 0; j < m; j++)
        diagonal[j] = t[j * m + j];
    for (int64_t p = 0; p < b; p++) {
        const double *w = v->error.w + (from * b + p) * m, *omega_ = v->adjoint.omega + (f * b + p) * m, x = value[p];
        double *w_ = v->adjoint.error_w + (from * b + p) * m, theta[M_MAX], dot = 0;
        for (int j = 0; j < m; j++) {
            theta[j] = j < n ? 0 : diagonal[j] * omega_[j];
            diagonal_[j] += x * omega_[j] * w[j];
        }
        for (int i = 0; i < n; i++)
            for (int j = 0; j < m; j++) {
                theta[j] += t[i * m + j] * omega_[i];
                sums[i * m + j] += x * omega_[i] * w[j];
            }
        for (int j = 0; j < m; j++) {
            dot += theta[j] * w[j];
            w_[j] += x * theta[j];
        }
        value_[p] += dot;
    }
    for (int j = n; j < m; j++)
        t_[j * m + j] = diagonal_[j];
    memcpy(t_, sums, (size_t)(n * m) * sizeof *t_);
}

/* T[f][e] = Z_{f-1} T[f-1][e]; only the entries that can differ from zero matter. */
static void through_adjoint(work_t *v) {
    const int64_t k = v->c.shape.epochs;
    const int n = v->error.heads, m = v->error.states;
    for (int64_t from = 0; from + 1 < k; from++)
        for (int64_t f = k - 1; f > from + 1; f--) {
            const double *bar = v->adjoint.error_through + (f * k + from) * m * m;
            const double *z = v->error.whole + (f - 1) * m * m, *last = v->error.through + ((f - 1) * k + from) * m * m;
            double *z_ = v->adjoint.error_whole + (f - 1) * m * m;
            double *last_ = v->adjoint.error_through + ((f - 1) * k + from) * m * m;
            for (int i = 0; i < m; i++)
                for (int l = i < n ? 0 : i; l < (i < n ? m : i + 1); l++)
                    for (int j = 0; j < m; j++) {
                        z_[i * m + l] += bar[i * m + j] * last[l * m + j];
                        last_[l * m + j] += z[i * m + l] * bar[i * m + j];
                    }
        }
}

/* ---- w, Z and psi: one epoch ---- */

static inline __attribute__((always_inline)) void psi_adjoint(int n, int r, work_t *v, int64_t epoch) {
    const int64_t b = v->c.shape.period;
    const int m = n + r;
    const double *whole_ = v->adjoint.error_whole + epoch * m * m;
    double bar[2 * M_MAX] = {0}, *rho_ = rho_of(v, epoch);
    memcpy(bar, whole_, (size_t)(n * m) * sizeof *bar);
    for (int j = 0; j < r; j++)
        rho_[j] += whole_[(n + j) * (m + 1)] * slope(v, b, j);
    for (int64_t p = 0; p < b; p++) {
        const int64_t t = epoch * b + p;
        const head a = replay_error_head_at(&v->error, &v->c, t);
        const double *h = v->c.h + t * r, *beta = v->c.beta + t * r, *w_ = v->adjoint.error_w + t * m;
        const double *next = v->error.psi + (epoch * (b + 1) + p + 1) * n * m,
                     *power = v->error.power + (b - 1 - p) * r;
        double *h_ = v->adjoint.h + t * r, *beta_ = v->adjoint.beta + t * r, c_[2] = {0};
        for (int i = 0; i < n; i++) {
            double *x = bar + i * m, now[M_MAX] = {0}, to = 0, to_ = w_[i];
            for (int l = 0; l < n; l++)
                to += next[i * m + l] * a.c[l];
            for (int j = 0; j < r; j++) {
                to_ += x[n + j] * h[j];
                h_[j] += x[n + j] * to;
                rho_[j] += x[n + j] * next[i * m + n + j];
                beta_[j] += w_[i] * next[i * m + n + j];
                now[n + j] = x[n + j] * v->c.rho[j] + w_[i] * beta[j];
            }
            for (int l = 0; l < n; l++) {
                now[l] = to_ * a.c[l];
                c_[l] += to_ * next[i * m + l];
                for (int j = 0; j < n; j++)
                    now[l] += x[j] * a.k[l * n + j];
            }
            memcpy(x, now, (size_t)m * sizeof *x);
        }
        to_scale(v, t, c_);
        for (int j = 0; j < r; j++) {
            beta_[j] += power[j] * w_[n + j];
            rho_[j] += beta[j] * w_[n + j] * slope(v, b - 1 - p, j);
        }
    }
}

static dpmf_status phi_item(void *context, int64_t epoch, int worker) {
    work_t *v = context;
    (void)worker;
    REPLAY_USUAL(phi_adjoint, v->error.heads, v->c.shape.buffers, v, epoch);
    return DPMF_OK;
}

static dpmf_status mix_item(void *context, int64_t epoch, int worker) {
    work_t *v = context;
    (void)worker;
    for (int64_t f = epoch + 1; f < v->c.shape.epochs; f++)
        REPLAY_USUAL(mix_adjoint, v->error.heads, v->c.shape.buffers, v, epoch, f);
    return DPMF_OK;
}

static dpmf_status psi_item(void *context, int64_t epoch, int worker) {
    work_t *v = context;
    (void)worker;
    REPLAY_USUAL(psi_adjoint, v->error.heads, v->c.shape.buffers, v, epoch);
    return DPMF_OK;
}

dpmf_status replay_error_adjoint(work_t *w) {
    const int64_t k = w->c.shape.epochs, flops = w->c.shape.period * 10 * w->error.states * w->error.heads;
    double bar[M_MAX * M_MAX] = {0};
    for (int64_t epoch = w->c.shape.epochs - 1; epoch >= 0; epoch--)
        REPLAY_USUAL(epoch_back, w->error.heads, w->c.shape.buffers, w, epoch, bar);
    TRY(replay_run(w->pool, flops, k, phi_item, w));
    TRY(replay_run(w->pool, flops * k / 4, k, mix_item, w));
    through_adjoint(w);
    return replay_run(w->pool, flops, k, psi_item, w);
}

/*
 * The adjoints of families/replay/sensitivity.c (transitions of F^-1 through an epoch) and of P V = I in every class:
 *
 *     phi_{p+1} = R phi_p - beta q',  q = phi_p'h;      psi_p = psi_{p+1} R - w h',  w = psi_{p+1} beta
 *     dP = -P dV P,  dV = -V dP V.
 *
 * Epochs, and positions, are items of work.
 */

enum { R_MAX = REPLAY_BUFFERS_MAX };

/* Backwards over positions, from the derivative by phi_b = Z; adds those by h, beta, rho. */
static void filter_phi_adjoint(work_t *v, int64_t epoch, double *rho_) {
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
static void filter_psi_adjoint(work_t *v, int64_t epoch, double *rho_) {
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
    filter_phi_adjoint(v, epoch, rho_);
    filter_psi_adjoint(v, epoch, rho_);
    for (int j = 0; j < r; j++)
        sum[j] += rho_[j];
    return DPMF_OK;
}

dpmf_status replay_filter_adjoint(work_t *w) {
    const replay_shape *s = &w->c.shape;
    return replay_run(w->pool, s->period * 20 * s->buffers * s->buffers, s->epochs, one_epoch, w);
}

enum { CHUNK = 64 }; /* positions per item */

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
