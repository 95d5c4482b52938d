/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared class seeds (replay.h): V_p = diag(g^2) + L L' from parameters at the nodes, log g and L by straight lines;
 * P, M, U by factoring V; and the scales d_p that make the sensitivity of every class at most 1.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef replay_shared shared_t;
typedef replay_shared_view view_t;

int64_t replay_shared_count(const replay_shape *s, int seeds) {
    return (int64_t)s->epochs * s->nodes * (2 * s->buffers + 1 + seeds) + s->buffers;
}

view_t replay_shared_look(const replay_shape *s, int seeds, double *parameters) {
    const int64_t nodes = (int64_t)s->epochs * s->nodes;
    view_t v = {.h = parameters};
    (void)seeds;
    v.kappa = v.h + nodes * s->buffers;
    v.logit = v.kappa + nodes * s->buffers;
    v.own = v.logit + s->buffers;
    v.weight = v.own + nodes;
    return v;
}

dpmf_status replay_shared_alloc(const replay_shape *shape, int seeds, shared_t *out) {
    const int64_t steps = shape->epochs * shape->period;
    shared_t s = {.seeds = seeds};
    dpmf_status status = DPMF_OK;
    if (seeds < 1 || seeds > REPLAY_SHARED_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d shared seeds, accepted 1 to %d", seeds,
                         REPLAY_SHARED_MAX);
    TRY_DONE(base_alloc_doubles(steps, "weights of own seeds", &s.own));
    TRY_DONE(base_alloc_doubles(steps * seeds, "weights of shared seeds", &s.weight));
    *out = s;
    s = (shared_t){0};
done:
    replay_shared_free(&s);
    return status;
}

void replay_shared_free(shared_t *s) {
    base_free(s->own);
    base_free(s->weight);
    *s = (shared_t){0};
}

static void fill_covariance(replay_coefficients *c, const shared_t *s) {
    const int64_t b = c->shape.period;
    const int l = s->seeds;
    for (int e = 0; e < c->shape.epochs; e++)
        for (int f = 0; f <= e; f++) {
            const int64_t end = e == c->shape.epochs - 1 ? c->shape.last : b;
            double *v = c->covariance + replay_pair(e, f) * b;
            for (int64_t p = 0; p < b; p++) {
                const double *x = s->weight + (e * b + p) * l, *y = s->weight + (f * b + p) * l;
                double sum = e == f ? s->own[e * b + p] * s->own[e * b + p] : 0;
                for (int i = 0; i < l; i++)
                    sum += x[i] * y[i];
                v[p] = p < end ? sum : 0;
            }
        }
}

void replay_shared_expand(const double *parameters, replay_coefficients *c, shared_t *s) {
    const replay_shape *shape = &c->shape;
    const view_t v = replay_shared_look(shape, s->seeds, (double *)parameters); /* only read */
    const int64_t b = shape->period, q = shape->nodes;
    const int r = shape->buffers, l = s->seeds;
    for (int j = 0; j < r; j++)
        c->rho[j] = 1 / (1 + exp(-v.logit[j]));
    for (int e = 0; e < shape->epochs; e++) {
        replay_spread(shape, r, v.h + e * q * r, c->h + e * b * r);
        replay_spread(shape, r, v.kappa + e * q * r, c->beta + e * b * r);
        replay_spread(shape, 1, v.own + e * q, s->own + e * b);
        replay_spread(shape, l, v.weight + e * q * l, s->weight + e * b * l);
    }
    for (int64_t t = 0; t < shape->epochs * b; t++) {
        s->own[t] = exp(s->own[t]);
        for (int j = 0; j < r; j++)
            c->beta[t * r + j] *= c->rho[j];
    }
    for (int64_t p = 0; p < b; p++)
        c->scale[p] = 1;
    fill_covariance(c, s);
}

dpmf_status replay_shared_create(const replay_shape *shape, int seeds, const double *parameters, base_pool *pool,
                                 replay_coefficients *out, shared_t *out_shared) {
    replay_coefficients c = {0};
    shared_t s = {0};
    double *squares = NULL;
    int definite = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &c));
    TRY_DONE(replay_shared_alloc(shape, seeds, &s));
    TRY_DONE(base_alloc_doubles(shape->period, "sensitivities of the classes", &squares));
    replay_shared_expand(parameters, &c, &s);
    TRY_DONE(replay_unfactor(&c, pool, &definite));
    if (!definite) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: a covariance of shared seeds is not positive "
                                                 "definite");
        goto done;
    }
    TRY_DONE(replay_sensitivities(&c, 0, pool, squares));
    for (int64_t p = 0; p < shape->period; p++)
        c.scale[p] = sqrt(squares[p]);
    *out = c;
    *out_shared = s;
    c = (replay_coefficients){0};
    s = (shared_t){0};
done:
    replay_free(&c);
    replay_shared_free(&s);
    base_free(squares);
    return status;
}

/* ---- the matrices ---- */

dpmf_status replay_shared_apply(const replay_coefficients *c, const shared_t *s, const double *x, double *y) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers, l = s->seeds;
    double state[REPLAY_BUFFERS_MAX] = {0}, *u = NULL;
    TRY(base_alloc_doubles(n, "the mixed seeds", &u));
    for (int64_t t = 0; t < n; t++) { /* u = G D^-1 x */
        u[t] = x[t] / c->scale[t % b];
        for (int j = 0; j < r; j++)
            u[t] -= c->h[t * r + j] * state[j];
        for (int j = 0; j < r; j++)
            state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u[t];
    }
    memset(y + n, 0, (size_t)(b * l) * sizeof *y);
    for (int64_t t = 0; t < n; t++) {
        const int64_t p = t % b;
        double v = 0; /* row t of P u */
        for (int64_t e = 0; e * b + p < n; e++)
            v += c->precision[replay_pair((int)(t / b), (int)e) * b + p] * u[e * b + p];
        y[t] = s->own[t] * v;
        for (int i = 0; i < l; i++)
            y[n + p * l + i] += s->weight[t * l + i] * v;
    }
    base_free(u);
    return DPMF_OK;
}

void replay_shared_solve(const replay_coefficients *c, const shared_t *s, const double *y, double *x) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers, l = s->seeds;
    double state[REPLAY_BUFFERS_MAX] = {0};
    for (int64_t t = 0; t < n; t++) {
        const double *shared = y + n + t % b * l;
        double u = s->own[t] * y[t], seen = 0;
        for (int i = 0; i < l; i++)
            u += s->weight[t * l + i] * shared[i];
        for (int j = 0; j < r; j++)
            seen += c->h[t * r + j] * state[j];
        x[t] = c->scale[t % b] * (u + seen);
        for (int j = 0; j < r; j++)
            state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u;
    }
}
