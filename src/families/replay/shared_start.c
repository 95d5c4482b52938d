/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the search for shared class seeds begins, and its rounds (shared.c says what they are).
 *
 * Factor analysis of V (k x k) at a node: L from the l largest eigenpairs of V - diag(g^2), g^2 = diag(V - L L'), in
 * turn (iterated principal factors). L is determined up to a rotation on the right, so each node's is turned to be
 * nearest to its neighbour's: L <- L M (M'M)^-1/2 with M = L'L_neighbour.
 */
#include "families/replay/search.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"

#include <math.h>
#include <string.h>

typedef replay_shared_work shared_t;
typedef replay_shared_result result_t;
/*
 * A round has ITERATIONS steps and starts with the PAIRS that those before it have left: with 30 pairs, forgotten at the end
 * of a round, the same losses took 75 % more evaluations (n = 300 to 1000, k = 5 to 20).
 */
enum { L_MAX = REPLAY_SHARED_MAX, FACTOR_ROUNDS = 60, ITERATIONS = 100, PAIRS = 150 };

static const double OWN_LEAST = 0.05; /* part of the variance that stays with a step's own seed */

/* ---- one node ---- */

/* v: k x k; square: g^2; factor: k x l. scratch: k x k and k. */
static dpmf_status analyse(int k, int l, const double *v, double *square, double *factor, double *scratch,
                           double *values) {
    for (int e = 0; e < k; e++)
        square[e] = 0.5 * v[e * k + e];
    for (int round = 0; round < FACTOR_ROUNDS; round++) {
        for (int i = 0; i < k * k; i++)
            scratch[i] = v[i] - (i % (k + 1) == 0 ? square[i / k] : 0);
        TRY(base_symmetric_eigen(k, scratch, values));
        for (int e = 0; e < k; e++) {
            double rest = v[e * k + e];
            for (int i = 0; i < l; i++) {
                const int at = k - 1 - i;
                const double x = at < 0 ? 0 : sqrt(fmax(values[at], 0)) * scratch[at * k + e];
                factor[e * l + i] = x;
                rest -= x * x;
            }
            square[e] = fmax(rest, OWN_LEAST * v[e * k + e]);
        }
    }
    return DPMF_OK;
}

/* factor (k x l) turned towards `near`. */
static dpmf_status turn(int k, int l, const double *near, double *factor) {
    double m[L_MAX * L_MAX] = {0}, gram[L_MAX * L_MAX] = {0}, values[L_MAX], rotation[L_MAX * L_MAX] = {0};
    double root[L_MAX * L_MAX] = {0};
    for (int e = 0; e < k; e++)
        for (int i = 0; i < l; i++)
            for (int j = 0; j < l; j++)
                m[i * l + j] += factor[e * l + i] * near[e * l + j];
    for (int i = 0; i < l; i++)
        for (int j = 0; j < l; j++)
            for (int e = 0; e < l; e++)
                gram[i * l + j] += m[e * l + i] * m[e * l + j];
    TRY(base_symmetric_eigen(l, gram, values));
    if (!(values[0] > 1e-12 * values[l - 1])) return DPMF_OK; /* no nearest one */
    for (int i = 0; i < l; i++)
        for (int j = 0; j < l; j++)
            for (int e = 0; e < l; e++)
                root[i * l + j] += gram[e * l + i] * gram[e * l + j] / sqrt(values[e]);
    for (int i = 0; i < l; i++)
        for (int j = 0; j < l; j++)
            for (int e = 0; e < l; e++)
                rotation[i * l + j] += m[i * l + e] * root[e * l + j];
    for (int e = 0; e < k; e++) {
        double row[L_MAX] = {0};
        for (int i = 0; i < l; i++)
            for (int j = 0; j < l; j++)
                row[j] += factor[e * l + i] * rotation[i * l + j];
        memcpy(factor + e * l, row, (size_t)l * sizeof *row);
    }
    return DPMF_OK;
}

/* ---- all nodes ---- */

static void fill_scales(shared_t *s, double size_of_own) {
    const replay_shape *shape = &s->base.c.shape;
    const int l = s->shared.seeds, r = shape->buffers, q = shape->nodes;
    const replay_shared_view v = replay_shared_look(shape, l, s->scales);
    replay_scale(&s->base);
    const replay_view from = replay_look(shape, s->base.scales);
    const size_t filter = (size_t)shape->epochs * (size_t)q * (size_t)r * sizeof(double);
    memcpy(v.h, from.h, filter);
    memcpy(v.kappa, from.kappa, filter);
    memcpy(v.logit, from.logit, (size_t)r * sizeof(double));
    for (int64_t i = 0; i < (int64_t)shape->epochs * q; i++) {
        const double size = from.profile[i] / (2.2 * sqrt((double)shape->epochs)); /* that of the node */
        v.own[i] = size;
        for (int j = 0; j < l; j++)
            v.weight[i * l + j] = size_of_own * size;
    }
}

dpmf_status replay_shared_start(const replay_coefficients *c, double *parameters, shared_t *s) {
    const replay_shape *shape = &c->shape;
    const int l = s->shared.seeds, q = shape->nodes, all = shape->epochs;
    const int64_t b = shape->period;
    const replay_view from = replay_look(shape, parameters);
    const replay_shared_view to = replay_shared_look(shape, l, s->parameters);
    double *room = NULL, mean = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles((int64_t)all * (2 * all + 2 * l + 2), "factors", &room));
    double *v = room, *scratch = v + all * all, *now = scratch + all * all, *last = now + all * l;
    double *square = last + all * l, *values = square + all;
    memcpy(to.h, from.h, (size_t)(to.own - to.h) * sizeof *to.h); /* h, kappa, logit come first in both */
    for (int i = 0; i < q; i++) {
        const int k = replay_members(shape, shape->node[i]);
        for (int e = 0; e < k; e++)
            for (int f = 0; f < k; f++)
                v[e * k + f] = c->covariance[replay_pair(e, f) * b + shape->node[i]];
        TRY_DONE(analyse(k, l, v, square, now, scratch, values));
        if (i > 0) TRY_DONE(turn(k, l, last, now));
        for (int e = 0; e < all; e++) { /* a step that is missing is like the last one of the class */
            const int as = e < k ? e : k - 1;
            to.own[e * q + i] = 0.5 * log(square[as]);
            mean += sqrt(square[as]) / (all * q);
            memcpy(to.weight + (e * q + i) * l, now + as * l, (size_t)l * sizeof *now);
        }
        memcpy(last, now, (size_t)(k * l) * sizeof *now);
    }
    memcpy(s->base.parameters, parameters, (size_t)replay_count(shape) * sizeof *parameters);
    fill_scales(s, mean);
done:
    base_free(room);
    return status;
}

/* ---- rounds ---- */

typedef struct search {
    shared_t *s;
    double first;
    int started;
} search;

static dpmf_status objective_value(void *context, const double *x, double *f, double *gradient) {
    search *u = context;
    const int64_t count = replay_shared_count(&u->s->base.c.shape, u->s->shared.seeds);
    for (int64_t i = 0; i < count; i++)
        u->s->parameters[i] = x[i] * u->s->scales[i];
    TRY(replay_shared_loss(u->s, u->s->parameters, f, gradient));
    if (!isfinite(*f)) return DPMF_OK;
    if (!u->started) u->first = *f;
    u->started = 1;
    *f = exp(*f - u->first);
    for (int64_t i = 0; i < count; i++)
        gradient[i] *= u->s->scales[i] * *f;
    return DPMF_OK;
}

/* One round from x, which becomes its end; the multipliers follow, and the loss with |x| itself is measured. */
static dpmf_status one_round(shared_t *s, double smoothing, int iterations, const dpmf_run *run, descent_lbfgs *memory,
                             double *x, double *loss, int *evaluations) {
    const int64_t count = replay_shared_count(&s->base.c.shape, s->shared.seeds);
    search u = {.s = s};
    const base_objective objective = {.count = count, .context = &u, .value = objective_value};
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = 1e-6,
                                           .past = 10,
                                           .iterations = iterations,
                                           .what = "shared seeds",
                                           .run = run,
                                           .memory = memory};
    base_minimum found = {0};
    s->smoothing = smoothing;
    TRY(base_minimize(&objective, &options, x, &found));
    for (int64_t i = 0; i < count; i++)
        s->parameters[i] = x[i] * s->scales[i];
    TRY(replay_shared_loss(s, s->parameters, loss, NULL)); /* also: X at x, for the multipliers */
    replay_shared_multiply(s);
    s->smoothing = 0;
    TRY(replay_shared_loss(s, s->parameters, loss, NULL));
    *loss = replay_rms(&s->base);
    *evaluations += found.evaluations + 2;
    return DPMF_OK;
}

/* Is the start enough already? Then it is the result. */
static dpmf_status try_start(shared_t *s, const replay_options *o, result_t *result) {
    const int64_t count = replay_shared_count(&s->base.c.shape, s->shared.seeds);
    double loss = 0;
    s->smoothing = 0;
    TRY(replay_shared_loss(s, s->parameters, &loss, NULL));
    if (!(isfinite(loss) && replay_rms(&s->base) <= o->enough)) return DPMF_OK;
    result->loss = replay_rms(&s->base);
    memcpy(result->parameters, s->parameters, (size_t)count * sizeof *s->parameters);
    return DPMF_OK;
}

static dpmf_status rounds(shared_t *s, const replay_options *o, result_t *result) {
    /* large until the multipliers have settled, then down: 1.0078 of the bound at n = 1000, k = 10, l = 3 */
    static const double SMOOTHING[] = {0.05, 0.05, 0.05, 0.05, 0.02, 0.02, 0.01, 0.005, 0.002};
    const int64_t count = replay_shared_count(&s->base.c.shape, s->shared.seeds);
    descent_lbfgs memory = {0}; /* one for all rounds: the next one is much like the last */
    double *x = NULL, loss = 0;
    dpmf_status status = DPMF_OK;
    result->loss = INFINITY;
    if (o->enough > 0) TRY(try_start(s, o, result));
    if (isfinite(result->loss)) return DPMF_OK;
    TRY_DONE(descent_lbfgs_create(count, PAIRS, &memory));
    TRY_DONE(base_alloc_doubles(count, "the unknowns", &x));
    for (int64_t i = 0; i < count; i++)
        x[i] = s->parameters[i] / s->scales[i];
    for (size_t i = 0; i < sizeof SMOOTHING / sizeof *SMOOTHING; i++) {
        TRY_DONE(one_round(s, SMOOTHING[i], o->iterations > 0 ? o->iterations : ITERATIONS, o->run, &memory, x, &loss,
                           &result->evaluations));
        if (loss < result->loss) {
            result->loss = loss;
            memcpy(result->parameters, s->parameters, (size_t)count * sizeof *x);
        }
        if (loss <= o->enough) break;
    }
done:
    descent_lbfgs_free(&memory);
    base_free(x);
    return status;
}

void replay_shared_result_free(result_t *result) {
    replay_shape_free(&result->shape);
    base_free(result->parameters);
    *result = (result_t){0};
}

dpmf_status replay_shared_search(const dpmf_workload *workload, int64_t period, int seeds, const replay_options *o,
                                 result_t *out) {
    replay_options first = *o;
    replay_result replayed = {0};
    replay_coefficients c = {0};
    shared_t s = {0};
    result_t result = {.seeds = seeds};
    dpmf_status status = DPMF_OK;
    if (o->max_loss || o->buffers == 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "shared seeds: accepted are the RMS loss and a number of buffers");
    first.iterations = 60; /* a start is all that is wanted */
    TRY_DONE(replay_search(workload, period, &first, &replayed));
    TRY_DONE(replay_create(&replayed.shape, replayed.parameters, o->pool, &c));
    TRY_DONE(replay_shared_work_alloc(workload, &replayed.shape, seeds, o->pool, &s));
    s.base.weights = o->weights;
    s.base.run = o->run;
    TRY_DONE(replay_shared_start(&c, replayed.parameters, &s));
    TRY_DONE(replay_shape_copy(&replayed.shape, &result.shape));
    TRY_DONE(base_alloc_doubles(replay_shared_count(&result.shape, seeds), "the parameters", &result.parameters));
    TRY_DONE(rounds(&s, o, &result));
    *out = result;
    result = (result_t){0};
done:
    replay_result_free(&replayed);
    replay_free(&c);
    replay_shared_work_free(&s);
    replay_shared_result_free(&result);
    return status;
}
