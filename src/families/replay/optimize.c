/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The family tvblt under cyclic participation: the search of search.c (replayed seeds), or the one below (shared
 * class seeds), with the certified lower bound for every mechanism beside it: the one that evaluations print, and for the max
 * loss of short runs, where that one is weak, the dense optimum's own, climbed as far as takes about as long as the search.
 */
#include "families/replay/replay.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "families/families.h"
#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static const double MAX_WORK = 3e5; /* n k^2 up to which the climb for the max loss takes no longer than the search */
static const double MAX_TOLERANCE = 1e-3;
static const double WANTED_RATIO = 1.001; /* unless the caller says otherwise */
static const double SETTLED = 2e-4;       /* and then a buffer that gains less is one too many */
enum { THREADS_STEPS_MIN = 512 };
enum { SHARED_BUFFERS = 4 };
static dpmf_status find_bound(const optimize_task *task, dpmf_optimization *bound) {
    const dpmf_optimize_options *o = task->options;
    const double n = (double)task->workload->steps, k = (double)task->participation->count;
    const int max_loss = o->loss == DPMF_LOSS_MAX;
    dpmf_evaluate_options how = dpmf_evaluate_options_defaults();
    dpmf_lower_bound found = {0};
    if (max_loss && n * k * k <= MAX_WORK) return dense_optimize_bound(task, fmax(MAX_TOLERANCE, o->tolerance), bound);
    how.weights = o->weights;
    how.run = o->run;
    const problem_facts *p = task->problem;
    if (p != NULL && p->bound_known >= (max_loss ? PROBLEM_BOUND_BOTH : PROBLEM_BOUND_RMS)) {
        const double times = p->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
        found = p->evaluation.lower_bound;
        found.rms_loss /= times;
        found.max_loss /= times;
    } else {
        TRY(optimum_lower_bound(task->workload, task->participation, &how, max_loss ? EPOCHS_BOTH : EPOCHS_RMS_LOSS,
                                NULL, &found));
    }
    *bound = (dpmf_optimization){
        .optimum_lower = max_loss ? found.max_loss : found.rms_loss, .optimum_upper = INFINITY, .scope = found.scope};
    return DPMF_OK;
}

typedef struct outcome {
    dpmf_strategy *strategy;
    double loss;
    int iterations, converged;
} outcome;

static dpmf_status search_replayed(const optimize_task *task, int64_t b, const replay_options *how, outcome *out) {
    replay_result r = {0};
    TRY(replay_search(task->workload, b, how, &r));
    dpmf_status status = replay_make(&r.shape, 0, r.parameters, how->pool, &out->strategy);
    out->loss = r.loss;
    out->iterations = r.iterations;
    out->converged = r.converged;
    replay_result_free(&r);
    return status;
}

static dpmf_status search_shared(const optimize_task *task, int64_t b, int seeds, const replay_options *how,
                                 outcome *out) {
    replay_shared_result r = {0};
    TRY(replay_shared_search(task->workload, b, seeds, how, &r));
    dpmf_status status = replay_make(&r.shape, seeds, r.parameters, how->pool, &out->strategy);
    out->loss = r.loss;
    out->iterations = r.evaluations;
    out->converged = 1;
    replay_shared_result_free(&r);
    return status;
}

dpmf_status replay_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    dpmf_optimization bound;
    outcome f = {.loss = INFINITY, .converged = 1};
    int dropped = 0;
    /* what few shared seeds can use */
    const dpmf_participation *p = task->participation;
    if (p->pattern != WORKLOAD_FIXED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family tvblt is optimized for single and cyclic participation, not for %s "
                         "(--optimize-participation cyclic:%lld,%lld evaluates the result under another)",
                         p->text, (long long)p->count, (long long)p->separation);
    if (task->workload->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "tvblt: workload %s, accepted: named workloads", task->workload->text);
    if (task->options->buffers > REPLAY_BUFFERS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "tvblt over several epochs: %d buffers, accepted 1 to %d",
                         task->options->buffers, REPLAY_BUFFERS_MAX);
    TRY(find_bound(task, &bound));
    if (out != NULL) {
        const dpmf_optimize_options *o = task->options;
        const int64_t n = task->workload->steps;
        const int64_t b = task->participation->separation < n ? task->participation->separation : n;
        /*
         * One unit takes part in every step: C'C is diagonal at the optimum, which one buffer has. More of them cancel each
         * other, and with their digits the sensitivity is lost (42 instead of 1 with three, Nesterov momentum, 200 steps).
         */
        const int most = b == 1 ? 1 : REPLAY_BUFFERS_MAX;
        const int asked = o->buffers == 0 && o->shared_seeds > 0 ? SHARED_BUFFERS : o->buffers;
        dropped = o->buffers > most ? o->buffers - most : 0;
        replay_options how = {.max_loss = o->loss == DPMF_LOSS_MAX,
                              .buffers = b == 1 || asked > most ? most : asked,
                              .wanted_ratio = o->wanted_ratio > 1 ? o->wanted_ratio : WANTED_RATIO,
                              .settled = o->wanted_ratio > 1 && bound.optimum_lower > 0 ? 0 : SETTLED,
                              .lower = bound.optimum_lower,
                              .enough = o->buffers > 0 ? (1 + o->tolerance) * bound.optimum_lower : 0,
                              .weights = o->weights,
                              .run = &o->run};
        TRY(base_pool_create(n < THREADS_STEPS_MIN ? 1 : o->run.threads, &how.pool));
        dpmf_status status = o->shared_seeds > 0 ? search_shared(task, b, o->shared_seeds, &how, &f)
                                                 : search_replayed(task, b, &how, &f);
        base_pool_free(how.pool);
        TRY(status);
    }
    *result = (dpmf_optimization){.outcome = f.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = f.iterations,
                                  .nodes = f.strategy == NULL ? 0 : (int)strategy_buffers(f.strategy),
                                  .optimum_lower = bound.optimum_lower,
                                  .optimum_upper = fmin(bound.optimum_upper, f.loss),
                                  .scope = bound.optimum_lower > 0 ? bound.scope : NULL,
                                  .dropped = dropped};
    if (out != NULL) *out = f.strategy;
    return DPMF_OK;
}

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

typedef replay_work work_t;
typedef replay_shared_work shared_t;
enum { L_MAX = REPLAY_SHARED_MAX };

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

/*
 * Where the search for shared class seeds begins, and its rounds (as above).
 *
 * Factor analysis of V (k x k) at a node: L from the l largest eigenpairs of V - diag(g^2), g^2 = diag(V - L L'), in
 * turn (iterated principal factors). L is determined up to a rotation on the right, so each node's is turned to be
 * nearest to its neighbour's: L <- L M (M'M)^-1/2 with M = L'L_neighbour.
 */

typedef replay_shared_result result_t;
/*
 * A round has ITERATIONS steps and starts with the PAIRS that those before it have left: with 30 pairs, forgotten at the end
 * of a round, the same losses took 75 % more evaluations (n = 300 to 1000, k = 5 to 20).
 */
enum { FACTOR_ROUNDS = 60, ITERATIONS = 100, PAIRS = 150 };

static const double OWN_LEAST = 0.05; /* part of the variance that stays with a step's own seed */

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
static dpmf_status one_round(shared_t *s, double smoothing, int iterations, const dpmf_run *run, minimize_lbfgs *memory,
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
    /* m <- clip(m + x/eps) for what was evaluated last. */
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
    minimize_lbfgs memory = {0}; /* one for all rounds: the next one is much like the last */
    double *x = NULL, loss = 0;
    dpmf_status status = DPMF_OK;
    result->loss = INFINITY;
    if (o->enough > 0) TRY(try_start(s, o, result));
    if (isfinite(result->loss)) return DPMF_OK;
    TRY_DONE(minimize_lbfgs_create(count, PAIRS, &memory));
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
    minimize_lbfgs_free(&memory);
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
