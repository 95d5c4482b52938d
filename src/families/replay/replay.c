/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coefficients of every step of a TV-BLT with replayed seeds, from the parameters at the nodes: rho, h, kappa and d
 * by straight lines, the profile by the softmax over the epochs of a class, P by cancellation (pairs.c), and
 *
 *     P = M'M,  M lower triangular;   U = M^-1;   V = U U'.
 *
 * M is a Cholesky factorization begun at the last epoch: U has to be lower triangular so that step t uses no seed of
 * later steps.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef replay_coefficients replay;

dpmf_status replay_alloc(const replay_shape *s, replay *out) {
    const int64_t steps = s->epochs * s->period, pairs = replay_pairs(s) * s->period;
    replay c = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_shape_copy(s, &c.shape));
    TRY_DONE(base_alloc_doubles(steps * s->buffers, "the filter", &c.h));
    TRY_DONE(base_alloc_doubles(steps * s->buffers, "the filter", &c.beta));
    TRY_DONE(base_alloc_doubles(steps, "the profile", &c.profile));
    TRY_DONE(base_alloc_doubles(s->period, "the scales", &c.scale));
    TRY_DONE(base_alloc_doubles(pairs, "precisions of the classes", &c.precision));
    TRY_DONE(base_alloc_doubles(pairs, "factors of the classes", &c.factor));
    TRY_DONE(base_alloc_doubles(pairs, "mixes of seeds", &c.mix));
    TRY_DONE(base_alloc_doubles(pairs, "covariances of the classes", &c.covariance));
    *out = c;
    c = (replay){0};
done:
    replay_free(&c);
    return status;
}

void replay_free(replay *c) {
    replay_shape_free(&c->shape);
    base_free(c->h);
    base_free(c->beta);
    base_free(c->profile);
    base_free(c->scale);
    base_free(c->precision);
    base_free(c->factor);
    base_free(c->mix);
    base_free(c->covariance);
    *c = (replay){0};
}

/* ---- from the parameters ---- */

/* Logits become the profile, in place; 0 past the last step. */
static void softmax(const replay_shape *s, double *x) {
    const int64_t b = s->period;
    for (int64_t p = 0; p < b; p++) {
        const int k = replay_members(s, p);
        double largest = -INFINITY, sum = 0;
        for (int e = 0; e < k; e++)
            largest = fmax(largest, x[e * b + p]);
        for (int e = 0; e < k; e++)
            sum += x[e * b + p] = exp(x[e * b + p] - largest);
        for (int e = 0; e < k; e++)
            x[e * b + p] /= sum;
        if (k < s->epochs) x[k * b + p] = 0;
    }
}

void replay_expand(const double *parameters, replay *c) {
    const replay_shape *s = &c->shape;
    const replay_view v = replay_look(s, (double *)parameters); /* only read */
    const int64_t b = s->period, q = s->nodes;
    const int r = s->buffers;
    for (int j = 0; j < r; j++)
        c->rho[j] = 1 / (1 + exp(-v.logit[j]));
    for (int e = 0; e < s->epochs; e++) {
        replay_spread(s, r, v.h + e * q * r, c->h + e * b * r);
        replay_spread(s, r, v.kappa + e * q * r, c->beta + e * b * r);
        replay_spread(s, 1, v.profile + e * q, c->profile + e * b);
    }
    for (int64_t t = 0; t < s->epochs * b; t++)
        for (int j = 0; j < r; j++)
            c->beta[t * r + j] *= c->rho[j];
    softmax(s, c->profile);
    replay_spread(s, 1, v.scale, c->scale);
    for (int64_t p = 0; p < b; p++)
        c->scale[p] = exp(c->scale[p]);
}

/* ---- P, M, U, V of one class: lower triangles, rows of k ---- */

/* m holds P and becomes M, P = M'M. 0: not positive definite. */
static int factor_backward(int k, double *m) {
    for (int j = k - 1; j >= 0; j--) {
        for (int i = k - 1; i > j; i--)
            for (int l = 0; l <= j; l++)
                m[j * k + l] -= m[i * k + j] * m[i * k + l];
        if (!(m[j * k + j] > 0 && isfinite(m[j * k + j]))) return 0;
        const double root = sqrt(m[j * k + j]);
        for (int l = 0; l < j; l++)
            m[j * k + l] /= root;
        m[j * k + j] = root;
    }
    return 1;
}

/* v holds V and becomes U, V = U U'. */
static int factor_forward(int k, double *v) {
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = v[i * k + j];
            for (int l = 0; l < j; l++)
                sum -= v[i * k + l] * v[j * k + l];
            if (i == j && !(sum > 0 && isfinite(sum))) return 0;
            v[i * k + j] = i == j ? sqrt(sum) : sum / v[j * k + j];
        }
    }
    return 1;
}

static void invert_lower(int k, const double *m, double *u) {
    for (int j = 0; j < k; j++) {
        u[j * k + j] = 1 / m[j * k + j];
        for (int i = j + 1; i < k; i++) {
            double sum = 0;
            for (int l = j; l < i; l++)
                sum -= m[i * k + l] * u[l * k + j];
            u[i * k + j] = sum / m[i * k + i];
        }
    }
}

/* u u', or u'u with the roles of rows and columns turned. */
static double product(int k, const double *u, int i, int j, int turned) {
    double sum = 0;
    if (turned)
        for (int l = i > j ? i : j; l < k; l++)
            sum += u[l * k + i] * u[l * k + j];
    else
        for (int l = 0; l <= (i < j ? i : j); l++)
            sum += u[i * k + l] * u[j * k + l];
    return sum;
}

enum { CHUNK = 64 }; /* positions an item of work */

typedef struct task {
    replay *c;
    int from_covariance;
    int *definite; /* one an item */
} task;

static int one_class(const task *t, int64_t p, double *m, double *u) {
    const replay *c = t->c;
    const int k = replay_members(&c->shape, p);
    const int64_t b = c->shape.period;
    double *given = t->from_covariance ? c->covariance : c->precision,
           *found = t->from_covariance ? c->precision : c->covariance;
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++)
            (t->from_covariance ? u : m)[i * k + j] = given[replay_pair(i, j) * b + p];
    if (!(t->from_covariance ? factor_forward(k, u) : factor_backward(k, m))) return 0;
    if (t->from_covariance)
        invert_lower(k, u, m);
    else
        invert_lower(k, m, u);
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            const int64_t at = replay_pair(i, j) * b + p;
            c->factor[at] = m[i * k + j];
            c->mix[at] = u[i * k + j];
            found[at] = product(k, t->from_covariance ? m : u, i, j, t->from_covariance);
        }
    for (int j = 0; k < c->shape.epochs && j <= k; j++) { /* no such step */
        const int64_t at = replay_pair(k, j) * b + p;
        c->factor[at] = c->mix[at] = c->precision[at] = c->covariance[at] = 0;
    }
    return 1;
}

static dpmf_status some_classes(void *context, int64_t item, int worker) {
    const task *t = context;
    const int64_t k = t->c->shape.epochs, b = t->c->shape.period, end = (item + 1) * CHUNK < b ? (item + 1) * CHUNK : b;
    double *room = NULL;
    (void)worker;
    TRY(base_alloc_doubles(2 * k * k, "a class", &room));
    t->definite[item] = 1;
    for (int64_t p = item * CHUNK; p < end && t->definite[item]; p++)
        t->definite[item] = one_class(t, p, room, room + k * k);
    base_free(room);
    return DPMF_OK;
}

static dpmf_status factor_all(replay *c, int from_covariance, base_pool *pool, int *definite) {
    const int64_t k = c->shape.epochs, items = (c->shape.period + CHUNK - 1) / CHUNK;
    task t = {.c = c, .from_covariance = from_covariance};
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(items, sizeof *t.definite, "flags", (void **)&t.definite));
    TRY_DONE(replay_run(pool, CHUNK * k * k * k, items, some_classes, &t));
    *definite = 1;
    for (int64_t i = 0; i < items; i++)
        *definite = *definite && t.definite[i];
done:
    base_free(t.definite);
    return status;
}

dpmf_status replay_factor(replay *c, base_pool *pool, int *definite) {
    return factor_all(c, 0, pool, definite);
}

dpmf_status replay_unfactor(replay *c, base_pool *pool, int *definite) {
    return factor_all(c, 1, pool, definite);
}

/* ---- the whole ---- */

dpmf_status replay_create(const replay_shape *shape, const double *parameters, base_pool *pool, replay *out) {
    replay c = {0};
    replay_filter f = {0};
    replay_gram g = {0};
    int definite = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &c));
    TRY_DONE(replay_filter_alloc(shape, &f));
    TRY_DONE(replay_gram_alloc(shape, 0, &g));
    replay_expand(parameters, &c);
    TRY_DONE(replay_filter_fill(&c, pool, &f));
    replay_wanted(&c, &g);
    TRY_DONE(replay_blocks(&c, &f, 1, pool, &g));
    TRY_DONE(replay_factor(&c, pool, &definite));
    if (!definite) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: no mechanism has these parameters (a precision "
                                                 "matrix is not positive definite)");
        goto done;
    }
    *out = c;
    c = (replay){0};
done:
    replay_free(&c);
    replay_filter_free(&f);
    replay_gram_free(&g);
    return status;
}
