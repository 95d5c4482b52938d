/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds (families/replay/replay.h) as a strategy. With replayed seeds C is square, C = M G D^-1. With
 * l shared class seeds W = D F [diag(g) | L] has a column for each step and l for each class, in this order (n + p l + i is
 * seed i of class p), and C is its pseudo-inverse,
 *
 *     C = [diag(g) | L]' P G D^-1,     W C = D F V P G D^-1 = I,     C'C = D^-1 G'P G D^-1 = X,
 *
 * n + b l rows: the least C'C of all C with this W, and the same X as that of the square C with the same law of noise.
 *
 * X within the classes is held: it is what the sensitivity under its own participation needs.
 *
 * There is no step of one seed row and r buffers: a row takes seeds of earlier steps. The noise route makes them again.
 */
#include "families/replay/replay.h"

#include "base/lower.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

static void replayed_release(dpmf_strategy *s) {
    replay_parts *p = &((replay_object *)s)->parts;
    replay_free(&p->c);
    replay_shared_free(&p->shared);
    base_free(p->parameters);
    base_free(p->nodes);
    base_free(p->blocks);
}

static int64_t replayed_rows(const dpmf_strategy *s) {
    const replay_parts *p = replay_of(s);
    return s->steps + p->c.shape.period * p->shared.seeds;
}

static dpmf_status replayed_apply(const dpmf_strategy *s, const double *x, double *y) {
    const replay_parts *p = replay_of(s);
    return p->shared.seeds == 0 ? replay_apply(&p->c, x, y) : replay_shared_apply(&p->c, &p->shared, x, y);
}

static dpmf_status replayed_solve(const dpmf_strategy *s, const double *y, double *x) {
    const replay_parts *p = replay_of(s);
    if (p->shared.seeds == 0) return replay_solve(&p->c, y, x);
    replay_shared_solve(&p->c, &p->shared, y, x);
    return DPMF_OK;
}

static int64_t replayed_buffers(const dpmf_strategy *s) {
    return replay_of(s)->c.shape.buffers;
}

/* Epoch f takes f + 1 seeds. */
static double replayed_normals(const dpmf_strategy *s) {
    const replay_parts *p = replay_of(s);
    if (p->shared.seeds > 0) return 1 + p->shared.seeds;
    const double full = (double)(p->c.shape.epochs - 1), b = (double)p->c.shape.period;
    return (b * full * (full + 1) / 2 + (double)p->c.shape.last * (full + 1)) / (double)s->steps;
}

static dpmf_status replayed_column_norms(const dpmf_strategy *s, double *norms) {
    const replay_parts *p = replay_of(s);
    const int64_t b = p->c.shape.period;
    for (int64_t t = 0; t < s->steps; t++) {
        const int e = (int)(t / b);
        norms[t] = sqrt(p->blocks[replay_pair(e, e) * b + t % b]);
    }
    return DPMF_OK;
}

static void replayed_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const replay_parts *p = replay_of(s);
    const replay_shape *shape = &p->c.shape;
    base_json_integer(w, "buffers", shape->buffers);
    base_json_integer(w, "period", shape->period);
    base_json_integer(w, "shared_seeds", p->shared.seeds);
    base_tensors_add(tensors, "strategy.nodes", shape->nodes, 0, p->nodes);
    base_tensors_add(tensors, "strategy.parameters", p->count, 0, p->parameters);
}

static dpmf_status replayed_squared_errors(const dpmf_strategy *s, const error_question *q, int *done,
                                           double *squares) {
    *done = q->a->form == WORKLOAD_NAMED && error_question_is_plain(q);
    return *done ? replay_errors(q->a, &replay_of(s)->c, NULL, squares) : DPMF_OK;
}

static const strategy_ops REPLAYED = {.class_name = REPLAY_CLASS,
                                      .release = replayed_release,
                                      .rows = replayed_rows,
                                      .apply = replayed_apply,
                                      .solve = replayed_solve,
                                      .buffers = replayed_buffers,
                                      .normals = replayed_normals,
                                      .column_norms = replayed_column_norms,
                                      .squared_errors = replayed_squared_errors,
                                      .sensitivity = replay_sensitivity,
                                      .plan_noise = replay_plan_noise,
                                      .write = replayed_write};

/* ---- making it ---- */

/* X from G'P G: over d^2. */
static dpmf_status fill_blocks(replay_parts *p, base_pool *pool) {
    const int64_t b = p->c.shape.period, pairs = replay_pairs(&p->c.shape);
    replay_filter f = {0};
    replay_gram g = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_filter_alloc(&p->c.shape, &f));
    TRY_DONE(replay_gram_alloc(&p->c.shape, 0, &g));
    TRY_DONE(replay_filter_fill(&p->c, pool, &f));
    TRY_DONE(replay_blocks(&p->c, &f, 0, pool, &g));
    for (int64_t i = 0; i < pairs * b; i++)
        g.values[i] /= p->c.scale[i % b] * p->c.scale[i % b];
    p->blocks = g.values;
    g.values = NULL;
done:
    replay_filter_free(&f);
    replay_gram_free(&g);
    return status;
}

static int all_finite(int64_t count, const double *x) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static dpmf_status check_numbers(const replay_parts *p) {
    const replay_coefficients *c = &p->c;
    const int64_t b = c->shape.period, steps = c->shape.epochs * b, pairs = replay_pairs(&c->shape);
    int fine = all_finite(b, c->scale) && all_finite(steps * c->shape.buffers, c->h) &&
               all_finite(steps * c->shape.buffers, c->beta) && all_finite(pairs * b, c->mix) &&
               all_finite(pairs * b, p->blocks);
    for (int64_t i = 0; i < b && fine; i++)
        fine = c->scale[i] > 0;
    for (int64_t t = 0; t < c->shape.steps && fine; t++) {
        const int e = (int)(t / b);
        fine = p->blocks[replay_pair(e, e) * b + t % b] > 0;
    }
    return fine ? DPMF_OK
                : base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: a coefficient or a column norm is out of range");
}

static dpmf_status fill_parts(const replay_shape *shape, int seeds, const double *parameters, base_pool *pool,
                              replay_parts *p) {
    p->count = seeds == 0 ? replay_count(shape) : replay_shared_count(shape, seeds);
    TRY(base_check_finite(p->count, parameters, "replayed seeds: parameter"));
    TRY(base_alloc_doubles(p->count, "the parameters", &p->parameters));
    TRY(base_alloc_doubles(shape->nodes, "the nodes", &p->nodes));
    memcpy(p->parameters, parameters, (size_t)p->count * sizeof *parameters);
    for (int i = 0; i < shape->nodes; i++)
        p->nodes[i] = (double)shape->node[i];
    if (seeds == 0)
        TRY(replay_create(shape, parameters, pool, &p->c));
    else
        TRY(replay_shared_create(shape, seeds, parameters, pool, &p->c, &p->shared));
    TRY(fill_blocks(p, pool));
    return check_numbers(p);
}

dpmf_status replay_make(const replay_shape *shape, int seeds, const double *parameters, base_pool *pool,
                        dpmf_strategy **out) {
    replay_object *s = NULL;
    TRY(strategy_new(&REPLAYED, sizeof *s, DPMF_FAMILY_TVBLT, shape->steps, (dpmf_strategy **)&s));
    dpmf_status status = fill_parts(shape, seeds, parameters, pool, &s->parts);
    if (status == DPMF_OK)
        *out = &s->base;
    else
        dpmf_strategy_free(&s->base);
    return status;
}

/* ---- from a file ---- */

static dpmf_status read_shape(const strategy_source *source, replay_shape *out) {
    const base_tensor *nodes = NULL;
    int64_t period = 0, buffers = 0, *node = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_integer(source->object, "period", "strategy", 1, source->steps, &period));
    TRY(base_json_get_integer(source->object, "buffers", "strategy", 1, REPLAY_BUFFERS_MAX, &buffers));
    TRY(strategy_array(source, "strategy.nodes", -1, 0, &nodes));
    const int64_t count = nodes->shape[0];
    if (count < 1 || count > REPLAY_NODES_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: replayed seeds with %lld nodes, accepted 1 to %d",
                         (long long)count, REPLAY_NODES_MAX);
    TRY(base_alloc(count, sizeof *node, "the nodes", (void **)&node));
    for (int64_t i = 0; i < count && status == DPMF_OK; i++) {
        const double x = nodes->values[i];
        if (!(x >= 0 && x < (double)period && x == floor(x)))
            status = base_fail(DPMF_ERROR_FORMAT,
                               "mechanism file: node %lld of replayed seeds is %g, accepted: "
                               "a position of an epoch",
                               (long long)i, x);
        else
            node[i] = (int64_t)x;
    }
    if (status == DPMF_OK) status = replay_shape_from(source->steps, period, (int)buffers, (int)count, node, out);
    base_free(node);
    return status;
}

dpmf_status replay_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *parameters = NULL;
    replay_shape shape = {0};
    int64_t seeds = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_integer(source->object, "shared_seeds", "strategy", 0, REPLAY_SHARED_MAX, &seeds));
    TRY_DONE(read_shape(source, &shape));
    const int64_t count = seeds == 0 ? replay_count(&shape) : replay_shared_count(&shape, (int)seeds);
    TRY_DONE(strategy_array(source, "strategy.parameters", count, 0, &parameters));
    TRY_DONE(replay_make(&shape, (int)seeds, parameters->values, NULL, out));
done:
    replay_shape_free(&shape);
    return status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status; /* the fault is in the file */
}
