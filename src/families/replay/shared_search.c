/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for shared class seeds (families/replay/replay.h). V_p = diag(g^2) + L L' is searched with the filter, P
 * is its inverse, and the scale d_p of a class the root of S_p = sum |X| over its block of X = G'P G. The best S_p has
 * many entries of X at exactly 0, where |x| has no derivative, so |x| = max over |s| <= 1 of s x is replaced by
 *
 *     max over |s| <= 1 of s x - (eps/2) (s - m)^2,     then  m <- clip(m + x/eps)
 *
 * (the method of multipliers; Rockafellar 1976): smooth for a given m, and exact at its fixed point with eps where it
 * is. x is X over the mean of the block's diagonal. A few rounds of L-BFGS, each ended early; the round with the least
 * loss, measured with |x| itself, is kept.
 *
 * Start: a mechanism with replayed seeds, found first, and at every node the factor analysis V ~ diag(g^2) + L L' of
 * its V by iterated principal factors, turned so that L varies slowly from node to node.
 */
#include "families/replay/search.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"

#include <math.h>
#include <string.h>

typedef replay_work work_t;
typedef replay_shared_work shared_t;
enum { L_MAX = REPLAY_SHARED_MAX };

/* ---- the loss ---- */

void replay_shared_work_free(shared_t *s) {
    replay_work_free(&s->base);
    replay_shared_free(&s->shared);
    base_free(s->multiplier);
    base_free(s->scales);
    base_free(s->parameters);
    *s = (shared_t){0};
}

dpmf_status replay_shared_work_alloc(const dpmf_workload *workload, const replay_shape *shape, int seeds,
                                     base_pool *pool, shared_t *out) {
    shared_t s = {.smoothing = 0.05};
    const int64_t count = replay_shared_count(shape, seeds);
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_shared_alloc(shape, seeds, &s.shared));
    TRY_DONE(replay_work_create(workload, shape, pool, &s.base));
    TRY_DONE(base_alloc_doubles(replay_pairs(shape) * shape->period, "multipliers", &s.multiplier));
    TRY_DONE(base_alloc_doubles(count, "scales of the parameters", &s.scales));
    TRY_DONE(base_alloc_doubles(count, "the parameters", &s.parameters));
    *out = s;
    s = (shared_t){0};
done:
    replay_shared_work_free(&s);
    return status;
}

/* The smooth |x| and its slope; smoothing 0: |x|. */
static double soft(double x, double m, double eps, double *slope) {
    if (eps == 0) {
        *slope = x > 0 ? 1 : -1;
        return fabs(x);
    }
    const double y = x + eps * m;
    *slope = fmin(fmax(y / eps, -1), 1);
    return (fabs(y) <= eps ? y * y / (2 * eps) : fabs(y) - eps / 2) - eps * m * m / 2;
}

/* d_p from the block of class p. With `bar` the derivative by d_p, the derivatives of values: NULL: not wanted. */
static double class_scale(shared_t *s, int64_t p, const double *bar) {
    work_t *w = &s->base;
    const int64_t b = w->c.shape.period;
    const int k = replay_members(&w->c.shape, p);
    double mean = 0, sum = 0, rest = 0, slope;
    for (int e = 0; e < k; e++)
        mean += w->gram.values[replay_pair(e, e) * b + p] / k;
    for (int e = 0; e < k; e++)
        for (int f = 0; f < e; f++) {
            const int64_t at = replay_pair(e, f) * b + p;
            const double x = w->gram.values[at] / mean;
            sum += 2 * soft(x, s->multiplier[at], s->smoothing, &slope);
            rest += 2 * slope * x;
            if (bar != NULL) w->adjoint.values[at] = 2 * slope;
        }
    const double square = mean * (k + sum), root = sqrt(square);
    if (bar == NULL) return root;
    for (int e = 0; e < k; e++)
        w->adjoint.values[replay_pair(e, e) * b + p] = (k + sum - rest) / k;
    for (int e = 0; e < w->c.shape.epochs; e++)
        for (int f = 0; f <= e; f++) {
            const int64_t at = replay_pair(e, f) * b + p;
            w->adjoint.values[at] = e < k ? w->adjoint.values[at] * *bar * 0.5 / root : 0;
        }
    return root;
}

/* From V's derivative to those of log g and L, by step; kept in adjoint.profile and adjoint.zeta. */
static void covariance_adjoint(shared_t *s) {
    work_t *w = &s->base;
    const int64_t b = w->c.shape.period;
    const int k = w->c.shape.epochs, l = s->shared.seeds;
    for (int e = 0; e < k; e++)
        for (int64_t p = 0; p < b; p++) {
            double *to = s->weight_bar + (e * b + p) * l;
            memset(to, 0, (size_t)l * sizeof *to);
            for (int f = 0; f < k; f++) {
                const double bar = w->adjoint.covariance[replay_pair(e, f) * b + p];
                const double *from = s->shared.weight + (f * b + p) * l;
                for (int i = 0; i < l; i++)
                    to[i] += (e == f ? 2 : 1) * bar * from[i];
            }
            const double own = s->shared.own[e * b + p];
            w->adjoint.profile[e * b + p] = 2 * own * own * w->adjoint.covariance[replay_pair(e, e) * b + p];
        }
}

static void to_parameters(shared_t *s, double *gradient) {
    work_t *w = &s->base;
    const replay_shape *shape = &w->c.shape;
    const replay_shared_view v = replay_shared_look(shape, s->shared.seeds, gradient);
    const int64_t b = shape->period, q = shape->nodes;
    const int r = shape->buffers, l = s->shared.seeds;
    memset(gradient, 0, (size_t)replay_shared_count(shape, l) * sizeof *gradient);
    replay_rho_adjoint(w, v.logit);
    for (int e = 0; e < shape->epochs; e++) {
        replay_gather(shape, r, w->adjoint.h + e * b * r, v.h + e * q * r);
        replay_gather(shape, r, w->adjoint.beta + e * b * r, v.kappa + e * q * r);
        replay_gather(shape, 1, w->adjoint.profile + e * b, v.own + e * q);
        replay_gather(shape, l, s->weight_bar + e * b * l, v.weight + e * q * l);
    }
}

static dpmf_status backwards(shared_t *s, double *gradient) {
    work_t *w = &s->base;
    const int64_t b = w->c.shape.period, pairs = replay_pairs(&w->c.shape);
    replay_adjoint_clear(w);
    TRY(replay_error_adjoint(w));
    TRY(replay_ask(w));
    for (int64_t p = 0; p < b; p++) {
        double bar = 0;
        for (int e = 0; e < w->c.shape.epochs; e++)
            bar += w->adjoint.scale[e * b + p];
        class_scale(s, p, &bar);
    }
    memset(w->adjoint.precision, 0, (size_t)(pairs * b) * sizeof *w->adjoint.precision);
    TRY(replay_pairs_adjoint(w, 0));
    TRY(replay_ask(w));
    TRY(replay_filter_adjoint(w));
    TRY(replay_ask(w));
    TRY(replay_class_adjoint(w, 1));
    TRY(replay_ask(w));
    covariance_adjoint(s);
    to_parameters(s, gradient);
    return DPMF_OK;
}

dpmf_status replay_shared_loss(shared_t *s, const double *parameters, double *loss, double *gradient) {
    work_t *w = &s->base;
    int definite = 0;
    *loss = INFINITY;
    replay_shared_expand(parameters, &w->c, &s->shared);
    TRY(replay_unfactor(&w->c, w->pool, &definite));
    TRY(replay_ask(w));
    if (!definite) return DPMF_OK;
    TRY(replay_filter_fill(&w->c, w->pool, &w->filter));
    TRY(replay_ask(w));
    TRY(replay_blocks(&w->c, &w->filter, 0, w->pool, &w->gram));
    TRY(replay_ask(w));
    for (int64_t p = 0; p < w->c.shape.period; p++) {
        w->c.scale[p] = class_scale(s, p, NULL);
        if (!(w->c.scale[p] > 0 && isfinite(w->c.scale[p]))) return DPMF_OK;
    }
    TRY(replay_error_fill(&w->c, w->pool, &w->error));
    TRY(replay_ask(w));
    const double value = replay_loss_of_errors(w);
    if (!isfinite(value)) return DPMF_OK;
    if (gradient != NULL) {
        double *room = NULL;
        TRY(base_alloc_doubles(w->c.shape.epochs * w->c.shape.period * s->shared.seeds, "derivatives", &room));
        s->weight_bar = room;
        dpmf_status status = backwards(s, gradient);
        s->weight_bar = NULL;
        base_free(room);
        TRY(status);
    }
    *loss = value;
    return DPMF_OK;
}

/* ---- rounds ---- */

void replay_shared_multiply(shared_t *s) {
    work_t *w = &s->base;
    const int64_t b = w->c.shape.period;
    for (int64_t p = 0; p < b; p++) {
        const int k = replay_members(&w->c.shape, p);
        double mean = 0;
        for (int e = 0; e < k; e++)
            mean += w->gram.values[replay_pair(e, e) * b + p] / k;
        for (int e = 0; e < k; e++)
            for (int f = 0; f < e; f++) {
                const int64_t at = replay_pair(e, f) * b + p;
                soft(w->gram.values[at] / mean, s->multiplier[at], s->smoothing, s->multiplier + at);
            }
    }
}
