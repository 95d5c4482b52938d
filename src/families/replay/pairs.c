/* SPDX-License-Identifier: Apache-2.0 */
/*
 * X within the classes, and the P that makes it what it should be, in one sweep of O(n k r^2).
 *
 * G = F^-1 is lower triangular, P block diagonal over the classes. An impulse at step (e, p) answers with 1 there, and
 * leaves the state beta(e, p) behind. For states xi at the start of step (a, p) and eta at the start of step (c, p) let
 * xi' O_p[a,c] eta be the inner product of their later answers, weighted by P. Answers meet only at one position, in
 * whatever epochs f, g: (f, q) with (g, q), weight P_q[f,g]. Then
 *
 *     X_p[a,c] = P_p[a,c] - zeta_p[a,c]'w_c - zeta_p[c,a]'w_a + beta_a'O_{p+1}[a,c] beta_c                        (1)
 *     zeta_p[a,c] = sum_{g > c} P_p[a,g] T[g,c]'q_g = P_p[a,c+1] q_{c+1} + Z_{c+1}'zeta_p[a,c+1]                  (2)
 *     O_p[a,c] = A_a'O_{p+1}[a,c] A_c + P_p[a,c] h_a h_c' + h_a (psi_c'zeta_p[a,c])' + (psi_a'zeta_p[c,a]) h_c'   (3)
 *     O_b[a,c] = O_0[a+1,c+1]                                                                                     (4)
 *
 * T[g,c] takes a state from the end of epoch c to the start of epoch g, Z_f through epoch f (filter.c has psi, q, w at
 * position p). In (3) what O_{p+1} lacks are the meetings at position p where one of the two is still in its own
 * epoch; the meetings at p with both in later epochs are in O_{p+1} already, through (4).
 *
 * (1) to (4) for the pair (a, c) need P of pairs with one index larger and O_0[a+1,c+1]; so pairs are taken by falling
 * a + c, and within a pair p falls. Then (1) is not an equation but a formula: with X_p[a,c] wanted, it gives P_p[a,c].
 * Nothing is iterated. The pairs of one a + c do not depend on each other: they are the items of work. (A sweep over
 * positions with all k^2 pairs of states at once, as one would write X = G'P G first, costs a factor k more, and P by
 * repeated sweeps another factor of up to k + 1.)
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <string.h>

typedef replay_gram gram_t;
enum { R_MAX = REPLAY_BUFFERS_MAX };

dpmf_status replay_gram_alloc(const replay_shape *s, int keep, gram_t *out) {
    int64_t k = s->epochs, b = s->period, r = s->buffers, pairs = replay_pairs(s);
    gram_t g = {.keep = keep};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(k * k * b * r, "answers of earlier epochs", &g.zeta));
    TRY_DONE(base_alloc_doubles(pairs * (keep ? b + 1 : 1) * r * r, "inner products of answers", &g.gram));
    TRY_DONE(base_alloc_doubles(pairs * b, "blocks of X", &g.values));
    *out = g;
    g = (gram_t){0};
done:
    replay_gram_free(&g);
    return status;
}

void replay_gram_free(gram_t *g) {
    base_free(g->zeta);
    base_free(g->gram);
    base_free(g->values);
    *g = (gram_t){0};
}

void replay_wanted(const replay_coefficients *c, gram_t *g) {
    const int64_t b = c->shape.period;
    memset(g->values, 0, (size_t)(replay_pairs(&c->shape) * b) * sizeof *g->values);
    for (int e = 0; e < c->shape.epochs; e++) {
        double *row = g->values + replay_pair(e, e) * b;
        for (int64_t p = 0; p < b; p++)
            row[p] = c->scale[p] * c->scale[p] * c->profile[e * b + p];
    }
}

/* ---- one pair ---- */

/* (2) for one side at every position: out = P q + Z'later. NULL where no epoch is later. */
typedef struct side {
    const double *precision, *q, *whole, *later;
    const double *w, *psi, *h, *beta; /* psi at position p */
    double *zeta;
} side;

typedef struct pair {
    int64_t b, exists; /* positions at which both steps exist */
    int solve;
    const double *rho;
    side one, two;  /* zeta[a,c] with epoch c; zeta[c,a] with epoch a */
    double *gram;   /* at position b */
    int64_t stride; /* from one position to the next */
    double *precision, *value;
} pair;

static inline __attribute__((always_inline)) void answer(int r, const side *s, int64_t p) {
    double z[R_MAX] = {0}, *out = s->zeta + p * r;
    if (s->whole != NULL) {
        const double *later = s->later + p * r, *q = s->q + p * r, weight = s->precision[p];
        for (int j = 0; j < r; j++)
            z[j] = weight * q[j];
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                z[j] += s->whole[i * r + j] * later[i];
    }
    for (int j = 0; j < r; j++)
        out[j] = z[j];
}

/* psi_p'zeta_p, and zeta_p'w_p as the value. */
static inline __attribute__((always_inline)) double carry(int r, const side *s, int64_t p, double *out) {
    const double *z = s->zeta + p * r, *w = s->w + p * r, *psi = s->psi + p * r * r;
    double dot = 0;
    for (int j = 0; j < r; j++)
        out[j] = 0;
    for (int i = 0; i < r; i++) {
        dot += z[i] * w[i];
        for (int j = 0; j < r; j++)
            out[j] += psi[i * r + j] * z[i];
    }
    return dot;
}

/* (1) and (3) at position p, from O_{p+1}. */
static inline __attribute__((always_inline)) void advance(int r, const pair *t, int64_t p) {
    const double *o = t->gram + (p + 1 - t->b) * t->stride, *rho = t->rho;
    double *out = t->gram + (p - t->b) * t->stride;
    const double *ha = t->two.h + p * r, *hc = t->one.h + p * r, *ba = t->two.beta + p * r, *bc = t->one.beta + p * r;
    double right[R_MAX], left[R_MAX], from_a[R_MAX], from_c[R_MAX] = {0}, s = 0;
    double cross = carry(r, &t->one, p, right) + carry(r, &t->two, p, left);
    for (int i = 0; i < r; i++) {
        double sum = 0;
        for (int j = 0; j < r; j++) {
            sum += o[i * r + j] * bc[j];
            from_c[j] += o[i * r + j] * ba[i];
        }
        from_a[i] = sum;
        s += ba[i] * sum;
    }
    if (!t->solve)
        t->value[p] = p < t->exists ? t->precision[p] - cross + s : 0;
    else
        t->precision[p] = p < t->exists ? t->value[p] + cross - s : 0;
    const double both = s + t->precision[p];
    for (int j = 0; j < r; j++) {
        right[j] += both * hc[j] - rho[j] * from_c[j];
        left[j] -= rho[j] * from_a[j];
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            out[i * r + j] = rho[i] * rho[j] * o[i * r + j] + ha[i] * right[j] + left[i] * hc[j];
}

static inline __attribute__((always_inline)) void sweep(int r, const pair *t) {
    for (int64_t p = t->b - 1; p >= 0; p--) {
        answer(r, &t->one, p);
        if (t->two.zeta != t->one.zeta) answer(r, &t->two, p);
        advance(r, t, p);
    }
}

/* Loops of known length are unrolled: a factor of two to three. */
static void sweep_any(int r, const pair *t) {
    REPLAY_UNROLLED(sweep, r, t)
}

/* ---- all of them ---- */

typedef struct task {
    replay_coefficients *c;
    const replay_filter *f;
    gram_t *g;
    int solve, stage;
} task;

/* The answers zeta[a,c] that epoch a weights, in the coordinates of epoch c. */
static side side_of(const task *t, int64_t a, int64_t c) {
    const replay_shape *s = &t->c->shape;
    const int64_t k = s->epochs, b = s->period, r = s->buffers;
    side out = {.w = t->f->w + c * b * r,
                .psi = t->f->psi + c * (b + 1) * r * r,
                .h = t->c->h + c * b * r,
                .beta = t->c->beta + c * b * r,
                .zeta = t->g->zeta + (a * k + c) * b * r};
    if (c + 1 < k) {
        out.precision = t->c->precision + replay_pair((int)a, (int)c + 1) * b;
        out.q = t->f->q + (c + 1) * b * r;
        out.whole = t->f->phi + ((c + 1) * (b + 1) + b) * r * r;
        out.later = t->g->zeta + (a * k + c + 1) * b * r;
    }
    return out;
}

static dpmf_status one_pair(void *context, int64_t item, int worker) {
    const task *t = context;
    const replay_shape *s = &t->c->shape;
    const int a = replay_stage_first(s, t->stage) + (int)item, c = t->stage - a, r = s->buffers;
    const int64_t b = s->period, positions = t->g->keep ? b + 1 : 1, at = replay_pair(a, c);
    pair w = {.b = b,
              .exists = a == s->epochs - 1 ? s->last : b,
              .solve = t->solve,
              .rho = t->c->rho,
              .one = side_of(t, a, c),
              .two = side_of(t, c, a),
              .gram = t->g->gram + (at * positions + positions - 1) * r * r,
              .stride = t->g->keep ? r * r : 0,
              .precision = t->c->precision + at * b,
              .value = t->g->values + at * b};
    size_t bytes = (size_t)(r * r) * sizeof *w.gram;
    (void)worker;
    if (a + 1 < s->epochs)
        memcpy(w.gram, t->g->gram + replay_pair(a + 1, c + 1) * positions * r * r, bytes);
    else
        memset(w.gram, 0, bytes);
    sweep_any(r, &w);
    return DPMF_OK;
}

dpmf_status replay_blocks(replay_coefficients *c, const replay_filter *f, int solve, base_pool *pool, gram_t *g) {
    const replay_shape *s = &c->shape;
    task t = {.c = c, .f = f, .g = g, .solve = solve};
    for (t.stage = 2 * (s->epochs - 1); t.stage >= 0; t.stage--) {
        int first = replay_stage_first(s, t.stage), end = replay_stage_end(s, t.stage);
        TRY(replay_run(pool, s->period * 16 * s->buffers * s->buffers, end - first, one_pair, &t));
    }
    return DPMF_OK;
}
