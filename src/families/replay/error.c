/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Errors of a TV-BLT with replayed seeds under a named workload, O(n k r). The state is s = (o, m, x): the workload's
 * two numbers (m is left out where there is no momentum) and the buffers. A step is
 *
 *     y = d (u + h'x),  o <- keep o + p m + g y,  m <- beta m + y,  x <- rho o x + (rho o kappa) u
 *
 * so s <- A s + i u with A = [[K, c h'], [0, R]], i = (c, rho o kappa), c = d (g, 1): transitions are diagonal in the
 * buffers, and only their first one or two rows ("heads") are held. The seeds' mixes u are white but within classes,
 * where their covariance is V_p: u_t meets the state through the earlier epochs,
 *
 *     omega_t = Cov(s at the start of epoch f, u_t) = sum_{e < f} V_p[f,e] T[f,e] w(e,p),   gamma_t = phi_p omega_t
 *     Cov(s) <- A Cov(s) A' + (A gamma) i' + i (A gamma)' + V_p[f,f] i i',
 *
 * w(e,p) what u at (e, p) leaves in the state at the end of epoch e, T[f,e] from there to the start of epoch f, phi_p
 * from there to position p. |B[t,:]|^2 is the variance of o after step t. Nothing but omega costs more than O(n r^2).
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <string.h>

replay_error_head replay_error_head_at(const replay_error *e, const replay_coefficients *c, int64_t t) {
    const double *d = e->drive + 4 * t, scale = c->scale[t % c->shape.period];
    if (e->heads == 1) return (replay_error_head){{d[1]}, {scale * d[3]}};
    return (replay_error_head){{d[1], d[2], 0, d[0]}, {scale * d[3], scale}};
}

typedef replay_coefficients replay;
typedef replay_error error_t;
typedef replay_error_head head;
enum { M_MAX = REPLAY_STATES_MAX };

void replay_error_free(error_t *e) {
    base_free(e->drive);
    *e = (error_t){0};
}

dpmf_status replay_error_alloc(const dpmf_workload *a, const replay_shape *s, error_t *out) {
    const int64_t k = s->epochs, b = s->period, steps = k * b;
    const char *what = "transitions of the error";
    dpmf_status status = DPMF_OK;
    if (a->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "replayed seeds: workload %s, accepted: named workloads", a->text);
    if (a->steps != s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %lld steps, the workload has %lld: they must agree",
                         (long long)s->steps, (long long)a->steps);
    error_t e = {.heads = a->momentum > 0 ? 2 : 1};
    e.states = e.heads + s->buffers;
    const int64_t m = e.states;
    TRY_DONE(BASE_ARRAYS(what, {&e.drive, 4 * steps}, {&e.power, (b + 1) * s->buffers},
                         {&e.phi, k * (b + 1) * e.heads * m}, {&e.psi, k * (b + 1) * e.heads * m}, {&e.w, steps * m},
                         {&e.through, k * k * m * m}, {&e.whole, k * m * m}, {&e.omega, steps * m},
                         {&e.gamma, steps * m}, {&e.covariance, (steps + 1) * m * m}, {&e.squares, steps}));
    /* The workload's coefficients; past the last step it stands still. */
    for (int64_t t = 0; t < s->epochs * s->period; t++) {
        error_drive d = {.beta = 0, .keep = 1, .p = 0, .g = 0};
        if (t < s->steps) d = error_drive_at(a, t);
        e.drive[4 * t] = d.beta;
        e.drive[4 * t + 1] = d.keep;
        e.drive[4 * t + 2] = d.p;
        e.drive[4 * t + 3] = d.g;
    }
    *out = e;
    e = (error_t){0};
done:
    replay_error_free(&e);
    return status;
}

static void backward(const replay *c, const error_t *e, int64_t epoch) {
    const int64_t b = c->shape.period;
    const int r = c->shape.buffers, n = e->heads, m = e->states;
    double *next = e->psi + (epoch * (b + 1) + b) * n * m;
    memset(next, 0, (size_t)(n * m) * sizeof *next);
    for (int i = 0; i < n; i++)
        next[i * m + i] = 1;
    for (int64_t p = b - 1; p >= 0; p--, next -= n * m) {
        const head a = replay_error_head_at(e, c, epoch * b + p);
        const double *h = c->h + (epoch * b + p) * r, *beta = c->beta + (epoch * b + p) * r;
        double *w = e->w + (epoch * b + p) * m, *psi = next - n * m;
        for (int i = 0; i < n; i++) {
            double to = 0;
            for (int l = 0; l < n; l++)
                to += next[i * m + l] * a.c[l];
            for (int j = 0; j < n; j++) {
                psi[i * m + j] = 0;
                for (int l = 0; l < n; l++)
                    psi[i * m + j] += next[i * m + l] * a.k[l * n + j];
            }
            w[i] = to;
            for (int j = 0; j < r; j++) {
                psi[i * m + n + j] = to * h[j] + next[i * m + n + j] * c->rho[j];
                w[i] += next[i * m + n + j] * beta[j];
            }
        }
        for (int j = 0; j < r; j++)
            w[n + j] = e->power[(b - 1 - p) * r + j] * beta[j];
    }
}

/* Z of every epoch, and T[f][e] = Z_{f-1} ... Z_{e+1}. */
static void fill_through(const replay *c, error_t *e) {
    const int64_t b = c->shape.period, k = c->shape.epochs;
    const int r = c->shape.buffers, n = e->heads, m = e->states;
    memset(e->through, 0, (size_t)(k * k * m * m) * sizeof *e->through);
    memset(e->whole, 0, (size_t)(k * m * m) * sizeof *e->whole);
    for (int64_t f = 0; f < k; f++) {
        memcpy(e->whole + f * m * m, e->psi + f * (b + 1) * n * m, (size_t)(n * m) * sizeof *e->whole);
        for (int j = 0; j < r; j++)
            e->whole[f * m * m + (n + j) * (m + 1)] = e->power[b * r + j];
    }
    for (int64_t from = 0; from + 1 < k; from++) {
        for (int i = 0; i < m; i++)
            e->through[((from + 1) * k + from) * m * m + i * (m + 1)] = 1;
        for (int64_t f = from + 2; f < k; f++) {
            const double *z = e->whole + (f - 1) * m * m, *last = e->through + ((f - 1) * k + from) * m * m;
            double *out = e->through + (f * k + from) * m * m;
            for (int i = 0; i < m; i++)
                for (int l = i < n ? 0 : i; l < (i < n ? m : i + 1); l++)
                    for (int j = 0; j < m; j++)
                        out[i * m + j] += z[i * m + l] * last[l * m + j];
        }
    }
}

/* omega += V T w at every position, for one earlier epoch. */
static inline __attribute__((always_inline)) void add_epoch(int n, int r, const replay *c, const error_t *e, int64_t f,
                                                            int64_t from) {
    const int64_t b = c->shape.period;
    const int m = n + r;
    const double *v = c->covariance + replay_pair((int)f, (int)from) * b;
    const double *t = e->through + (f * c->shape.epochs + from) * m * m;
    double *omega = e->omega + f * b * m, diagonal[M_MAX];
    for (int j = 0; j < m; j++)
        diagonal[j] = t[j * m + j];
    for (int64_t p = 0; p < b; p++, omega += m) {
        const double *w = e->w + (from * b + p) * m;
        for (int i = 0; i < n; i++) {
            double sum = 0;
            for (int j = 0; j < m; j++)
                sum += t[i * m + j] * w[j];
            omega[i] += v[p] * sum;
        }
        for (int j = n; j < m; j++)
            omega[j] += v[p] * (diagonal[j] * w[j]);
    }
}

/* out = A x for m x columns: heads from K and c h', buffers by rho. */
static inline __attribute__((always_inline)) void
times_a(int n, int m, const head *a, const double *h, const double *rho, int columns, const double *x, double *out) {
    for (int j = 0; j < columns; j++) {
        double seen = 0;
        for (int l = n; l < m; l++)
            seen += h[l - n] * x[l * columns + j];
        for (int i = 0; i < n; i++) {
            double sum = a->c[i] * seen;
            for (int l = 0; l < n; l++)
                sum += a->k[i * n + l] * x[l * columns + j];
            out[i * columns + j] = sum;
        }
    }
    for (int l = n; l < m; l++)
        for (int j = 0; j < columns; j++)
            out[l * columns + j] = rho[l - n] * x[l * columns + j];
}

static inline __attribute__((always_inline)) void advance(int n, int r, const replay *c, const error_t *e, int64_t t) {
    const int64_t b = c->shape.period, p = t % b;
    const int m = n + r, f = (int)(t / b);
    const head a = replay_error_head_at(e, c, t);
    const double *h = c->h + t * r, *now = e->covariance + t * m * m;
    const double v = c->covariance[replay_pair(f, f) * b + p];
    double *next = e->covariance + (t + 1) * m * m, half[M_MAX * M_MAX], turned[M_MAX * M_MAX] = {0}, input[M_MAX],
           gamma[M_MAX];
    times_a(n, m, &a, h, c->rho, m, now, half);
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            turned[j * m + i] = half[i * m + j];
    times_a(n, m, &a, h, c->rho, m, turned, next);
    times_a(n, m, &a, h, c->rho, 1, e->gamma + t * m, gamma);
    for (int i = 0; i < m; i++)
        input[i] = i < n ? a.c[i] : c->beta[t * r + i - n];
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            next[i * m + j] += gamma[i] * input[j] + input[i] * gamma[j] + v * input[i] * input[j];
    e->squares[t] = t < c->shape.steps ? next[0] : 0;
}

static inline __attribute__((always_inline)) void pass_epoch(int n, int r, const replay *c, const error_t *e,
                                                             int64_t epoch) {
    for (int64_t p = 0; p < c->shape.period; p++)
        advance(n, r, c, e, epoch * c->shape.period + p);
}

typedef struct task {
    const replay *c;
    const error_t *e;
} task;

static dpmf_status transitions(void *context, int64_t epoch, int worker) {
    const task *t = context;
    (void)worker;
    const int64_t b = t->c->shape.period;
    const int r = t->c->shape.buffers, n = t->e->heads, m = t->e->states;
    double *phi = t->e->phi + epoch * (b + 1) * n * m;
    memset(phi, 0, (size_t)(n * m) * sizeof *phi);
    for (int i = 0; i < n; i++)
        phi[i * m + i] = 1;
    for (int64_t p = 0; p < b; p++, phi += n * m) {
        const head a = replay_error_head_at(t->e, t->c, epoch * b + p);
        const double *h = t->c->h + (epoch * b + p) * r, *power = t->e->power + p * r;
        for (int i = 0; i < n; i++) {
            double *out = phi + n * m + i * m;
            for (int j = 0; j < m; j++) {
                out[j] = j < n ? 0 : a.c[i] * h[j - n] * power[j - n];
                for (int l = 0; l < n; l++)
                    out[j] += a.k[i * n + l] * phi[l * m + j];
            }
        }
    }
    backward(t->c, t->e, epoch);
    return DPMF_OK;
}

static dpmf_status mixes(void *context, int64_t item, int worker) {
    const task *t = context;
    (void)worker;
    int64_t f = t->c->shape.epochs - 1 - item;
    const int64_t b = t->c->shape.period;
    const int r = t->c->shape.buffers, n = t->e->heads, m = t->e->states;
    memset(t->e->omega + f * b * m, 0, (size_t)(b * m) * sizeof *t->e->omega);
    for (int64_t from = 0; from < f; from++)
        REPLAY_USUAL(add_epoch, n, r, t->c, t->e, f, from);
    for (int64_t p = 0; p < b; p++) {
        const double *omega = t->e->omega + (f * b + p) * m, *phi = t->e->phi + (f * (b + 1) + p) * n * m;
        double *gamma = t->e->gamma + (f * b + p) * m;
        for (int i = 0; i < n; i++) {
            gamma[i] = 0;
            for (int j = 0; j < m; j++)
                gamma[i] += phi[i * m + j] * omega[j];
        }
        for (int j = 0; j < r; j++)
            gamma[n + j] = t->e->power[p * r + j] * omega[n + j];
    } /* the longest first */
    return DPMF_OK;
}

dpmf_status replay_error_fill(const replay *c, base_pool *pool, error_t *e) {
    const int64_t k = c->shape.epochs, b = c->shape.period;
    task t = {c, e};
    const int r = c->shape.buffers;
    for (int j = 0; j < r; j++)
        e->power[j] = 1;
    for (int64_t i = 0; i < c->shape.period * r; i++)
        e->power[r + i] = e->power[i] * c->rho[i % r];
    TRY(replay_run(pool, b * e->states * e->heads * 8, k, transitions, &t));
    fill_through(c, e);
    TRY(replay_run(pool, b * e->states * e->heads * k * 2, k, mixes, &t));
    memset(e->covariance, 0, (size_t)(e->states * e->states) * sizeof *e->covariance);
    for (int64_t epoch = 0; epoch < k; epoch++)
        REPLAY_USUAL(pass_epoch, e->heads, c->shape.buffers, c, e, epoch);
    return DPMF_OK;
}

dpmf_status replay_errors(const dpmf_workload *workload, const replay *c, base_pool *pool, double *per_step) {
    error_t e = {0};
    dpmf_status status = DPMF_OK;
    TRY(replay_error_alloc(workload, &c->shape, &e));
    TRY_DONE(replay_error_fill(c, pool, &e));
    memcpy(per_step, e.squares, (size_t)c->shape.steps * sizeof *per_step);
done:
    replay_error_free(&e);
    return status;
}
