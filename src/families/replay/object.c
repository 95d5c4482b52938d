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

#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/*
 * TV-BLT with replayed seeds as matrices on vectors: W z by the stream itself, and C y by running it backwards,
 *
 *     u_t = y_t / d_p - h'x,   x <- rho o x + beta u_t,   z_t = sum_{e <= f} M_p[f,e] u_{eb+p}.
 */

typedef replay_coefficients replay;
enum { R_MAX = REPLAY_BUFFERS_MAX };

/* sum_{e <= f} of a row of a lower triangular matrix of class p with x_{eb+p}. */
static double row(const replay *c, const double *matrix, int64_t t, const double *x) {
    const int64_t b = c->shape.period, p = t % b;
    const int f = (int)(t / b);
    double sum = 0;
    for (int e = 0; e <= f; e++)
        sum += matrix[replay_pair(f, e) * b + p] * x[e * b + p];
    return sum;
}

/* h'x of step t; then x <- rho o x + beta u. */
static double output(const replay *c, int64_t t, const double *state) {
    const int r = c->shape.buffers;
    double sum = 0;
    for (int j = 0; j < r; j++)
        sum += c->h[t * r + j] * state[j];
    return sum;
}

static void push(const replay *c, int64_t t, double u, double *state) {
    const int r = c->shape.buffers;
    for (int j = 0; j < r; j++)
        state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u;
}

dpmf_status replay_apply(const replay *c, const double *x, double *y) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double state[R_MAX] = {0}, *u = NULL;
    TRY(base_alloc_doubles(n, "the mixed seeds", &u));
    for (int64_t t = 0; t < n; t++) {
        u[t] = x[t] / c->scale[t % b] - output(c, t, state);
        push(c, t, u[t], state);
    }
    for (int64_t t = 0; t < n; t++)
        y[t] = row(c, c->factor, t, u);
    base_free(u);
    return DPMF_OK;
}

dpmf_status replay_solve(const replay *c, const double *y, double *x) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    double state[R_MAX] = {0};
    double *seeds = NULL;
    TRY(base_alloc_doubles(n, "the seeds", &seeds));
    memcpy(seeds, y, (size_t)n * sizeof *seeds);
    for (int64_t t = 0; t < n; t++) {
        const double u = row(c, c->mix, t, seeds);
        x[t] = c->scale[t % b] * (u + output(c, t, state));
        push(c, t, u, state);
    }
    base_free(seeds);
    return DPMF_OK;
}

replay_step replay_at(const replay *c, int64_t t, double *a) {
    const int64_t b = c->shape.period, p = t % b;
    const int f = (int)(t / b), r = c->shape.buffers;
    assert(t >= 0 && t < c->shape.steps);
    for (int j = 0; j <= f; j++)
        a[j] = c->mix[replay_pair(f, f - j) * b + p];
    return (replay_step){
        .seeds = f + 1, .scale = c->scale[p], .h = c->h + t * r, .beta = c->beta + t * r, .rho = c->rho};
}

/*
 * Streams of TV-BLT with replayed or shared seeds (families/replay/replay.h): r buffers, and a mix u of several seeds in
 * the place of one,
 *
 *     replayed   u = ((0 + a_f z_{t-fb}) + ...) + a_0 z_t                 the oldest seed first, made again from its row
 *     shared     u = ((0 + g z_t) + L_0 zeta_{p,0}) + ...                 zeta_{p,i} is row n + p l + i of the same Z
 *     both       y = d ((u + h_0 x_0) + ...),   x_j <- x_j + ((rho_j - 1) x_j + beta_j u)
 *
 * In an exact stream (docs/exactness.md) a step's own seed comes last and by itself, the earlier ones as the whole numbers
 * that they were, divided by their own weights.
 *
 * Rows 0..n-1 of Z are those of the steps, so those of the classes are never one of them; where the strategy is repeated,
 * block i has rows i (n + b l) on. Nothing but the buffers is kept from step to step: a row costs f + 1 or 1 + l seeds.
 */

enum { CHUNK = 4 };   /* seeds in the cache at a time */
enum { REPLAY = 16 }; /* steps for which a tile stays in the cache when no row is emitted */

/* Seeds, mix and buffers of a tile are to stay in the fastest caches. */
static const int64_t CACHE = 48000;

typedef struct shared {
    int64_t step;
} shared;

static int64_t head_bytes(void) {
    return noise_round_up((int64_t)sizeof(shared), 64);
}

static const replay_parts *parts_of(const noise_plan *plan) {
    return replay_of(plan->leaf);
}

/* Seeds of a step at most, which come first; then h, rho - 1, beta, and the factor. */
static int64_t seeds_most(const noise_plan *plan) {
    const replay_parts *p = parts_of(plan);
    return p->shared.seeds > 0 ? 1 + p->shared.seeds : p->c.shape.epochs;
}

static int64_t weight_count(const noise_plan *plan) {
    return seeds_most(plan) + 3 * plan->slots + 2; /* the last: exact streams alone */
}

static char *weights_at(const noise_stream *s, int64_t row) {
    return s->shared + head_bytes() + (size_t)(row * weight_count(&s->plan)) * s->plan.size;
}

/* Seeds of step t of the block, and which row of Z seed i of it is, counted from the block's first. */
static int64_t seeds_of(const replay_parts *p, int64_t t) {
    return p->shared.seeds > 0 ? 1 + p->shared.seeds : t / p->c.shape.period + 1;
}

static int64_t seed_row(const replay_parts *p, int64_t t, int64_t i) {
    const int64_t b = p->c.shape.period;
    if (p->shared.seeds == 0) return t % b + i * b;
    return i == 0 ? t : p->c.shape.steps + t % b * p->shared.seeds + i - 1;
}

static double seed_weight(const replay_parts *p, int64_t t, int64_t i) {
    const int64_t b = p->c.shape.period;
    if (p->shared.seeds == 0) return p->c.mix[replay_pair((int)(t / b), (int)i) * b + t % b];
    return i == 0 ? p->shared.own[t] : p->shared.weight[t * p->shared.seeds + i - 1];
}

/* W[t,t] of a step of the run. */
static double own_weight(const noise_plan *plan, int64_t t) {
    const replay_parts *p = parts_of(plan);
    const int64_t local = t % plan->length, b = p->c.shape.period;
    return p->c.scale[local % b] * noise_route_factor(plan, t) * seed_weight(p, local, local / b);
}

static void prepare_replay(noise_stream *s, int64_t t, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const replay_parts *p = parts_of(plan);
    const int64_t r = plan->slots, most = seeds_most(plan);
    ((shared *)s->shared)->step = t;
    for (int64_t k = 0; k < rows; k++) {
        const int64_t local = (t + k) % plan->length;
        char *weight = weights_at(s, k);
        for (int64_t i = 0; i < seeds_of(p, local); i++) {
            double value = seed_weight(p, local, i);
            if (plan->exact > 0) value /= own_weight(plan, t + k - local + seed_row(p, local, i));
            noise_put(s, weight, i, value);
        }
        for (int64_t j = 0; j < r; j++) {
            noise_put(s, weight, most + j, p->c.h[local * r + j]);
            noise_put(s, weight, most + r + j, p->c.rho[j] - 1);
            noise_put(s, weight, most + 2 * r + j, p->c.beta[local * r + j]);
        }
        noise_put(s, weight, most + 3 * r, p->c.scale[local % p->c.shape.period] * noise_route_factor(plan, t + k));
        if (plan->exact > 0)
            noise_put(s, weight, most + 3 * r + 1,
                      seed_weight(p, local, local / p->c.shape.period) / own_weight(plan, t + k));
    }
}

static void fill_one(const noise_stream *s, const noise_tile *tile, uint64_t row, char *out) {
    if (s->plan.exact > 0)
        noise_fill_whole(s, tile, row, own_weight(&s->plan, (int64_t)row), out);
    else
        noise_fill_seed(s, tile, row, out);
}

/* The mix of step `local` of the block whose seeds begin at row `first`, into the scratch's row 0; seeds go behind it. */
static void mix_seeds(const noise_stream *s, const noise_tile *tile, char *scratch, uint64_t first, int64_t local,
                      const char *weight) {
    const replay_parts *p = parts_of(&s->plan);
    const size_t row = (size_t)tile->count * s->plan.size;
    const int64_t seeds = seeds_of(p, local) - (s->plan.exact > 0);
    const void *chunk[CHUNK];
    if (seeds == 0) memset(scratch, 0, row);
    for (int64_t k = 0; k < CHUNK; k++)
        chunk[k] = scratch + (size_t)(1 + k) * row;
    for (int64_t i = 0; i < seeds; i += CHUNK) {
        const int64_t count = noise_at_most(CHUNK, seeds - i);
        for (int64_t k = 0; k < count; k++)
            fill_one(s, tile, first + (uint64_t)seed_row(p, local, i + k), scratch + (size_t)(1 + k) * row);
        if (i == 0) {
            s->kernels->sum(tile->count, count, weight, chunk, scratch);
            continue;
        }
        const kernels_accumulate job = {.count = tile->count,
                                        .stride = tile->count,
                                        .rows = 1,
                                        .to = {count},
                                        .factor = weight + (size_t)i * s->plan.size,
                                        .x = scratch + row,
                                        .y = scratch};
        s->kernels->accumulate(&job);
    }
}

static void make_replay_rows(const noise_stream *s, const noise_tile *tile, char *scratch, int64_t rows) {
    const noise_plan *plan = &s->plan;
    const shared *head = (const shared *)s->shared;
    kernels_recursion_job job = {
        .count = tile->count, .stride = tile->count, .states = (int)plan->slots, .state = tile->slots, .row = scratch};
    for (int64_t k = 0; k < rows; k++) {
        const int64_t t = head->step + k, local = t % plan->length;
        const char *weight = weights_at(s, k);
        if (local == 0) memset(tile->slots, 0, (size_t)(plan->slots * tile->count) * plan->size);
        mix_seeds(s, tile, scratch, (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows, local, weight);
        job.weight = weight + (size_t)seeds_most(plan) * plan->size;
        if (plan->exact > 0) {
            fill_one(s, tile, (uint64_t)t, scratch + (size_t)tile->count * plan->size);
            s->wholes->replay(&job, (const double *)scratch + tile->count);
        } else {
            s->kernels->replay(&job);
        }
    }
}

static const void *replay_row(const noise_stream *s, const noise_tile *tile, const char *scratch, int64_t t) {
    (void)s, (void)tile, (void)t;
    return scratch;
}

/* The weights of the seeds, of which a step of an early epoch takes fewer than there is room for, then the others. */
static void replay_recipe(const noise_stream *s, int64_t t, noise_recipe *out) {
    const noise_plan *plan = &s->plan;
    const replay_parts *p = parts_of(plan);
    const int64_t local = t % plan->length;
    const uint64_t first = (uint64_t)(t / plan->length) * (uint64_t)plan->leaf_rows;
    char *weight = weights_at(s, 0);
    out->kind = DPMF_RECIPE_REPLAY;
    out->seeds = seeds_of(p, local);
    for (int64_t i = 0; i < out->seeds; i++)
        out->seed[i] = first + (uint64_t)seed_row(p, local, i);
    out->weights = out->seeds + 3 * plan->slots + 1;
    memmove(weight + (size_t)out->seeds * plan->size, weight + (size_t)seeds_most(plan) * plan->size,
            (size_t)(3 * plan->slots + 1) * plan->size);
    out->weight = weight;
}

/* Rounding of exact rows (docs/exactness.md): errors and sizes of the buffers by their own recursions, in absolute values. */
enum { STATES_MAX = 128 };

static dpmf_status bound_arithmetic(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const replay_coefficients *c = &replay_of(plan->leaf)->c;
    const int64_t b = c->shape.period;
    const int r = (int)plan->slots;
    double size[STATES_MAX] = {0}, error[STATES_MAX] = {0};
    *out = (noise_exact_bounds){0};
    if (r > STATES_MAX) return base_fail(DPMF_ERROR_UNSUPPORTED, "exact noise: more than %d buffers", STATES_MAX);
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const int64_t local = t % plan->length, epoch = local / b;
        const double factor = fabs(c->scale[local % b] * noise_route_factor(plan, t));
        double squares = 0, sum = 0, sizes = 0, errors = 0;
        if (local == 0) {
            memset(size, 0, sizeof size);
            memset(error, 0, sizeof error);
        }
        for (int64_t i = 0; i <= epoch; i++) {
            const double weight = c->mix[replay_pair((int)epoch, (int)i) * b + local % b];
            squares += weight * weight;
            sum += fabs(weight);
        }
        const double mixed = NOISE_TAILS * sqrt(squares),
                     mix_error = (double)(epoch + 6) * NOISE_EPS * NOISE_TAILS * sum;
        for (int j = 0; j < r; j++) {
            sizes += fabs(c->h[local * r + j]) * size[j];
            errors += fabs(c->h[local * r + j]) * error[j];
        }
        out->arithmetic =
            noise_larger(out->arithmetic, factor * (mix_error + errors + (r + 4) * NOISE_EPS * (mixed + sizes)));
        out->reach = noise_larger(out->reach, factor * (mixed + sizes));
        for (int j = 0; j < r; j++) {
            const double beta = fabs(c->beta[local * r + j]), kept = fabs(c->rho[j]);
            error[j] = kept * error[j] + beta * mix_error + 5 * NOISE_EPS * (size[j] + beta * mixed);
            size[j] = kept * size[j] + beta * mixed;
        }
    }
    return noise_bound_forward_spread(plan, run, &out->spread);
}

static const noise_route ROUTE = {.exact = NOISE_EXACT_FILTER,
                                  .has_state = 1,
                                  .prepare = prepare_replay,
                                  .make = make_replay_rows,
                                  .row = replay_row,
                                  .recipe = replay_recipe};

static void replay_plan_noise(noise_plan *plan) {
    plan->route = &ROUTE;
    plan->bound = bound_arithmetic;
    plan->slots = strategy_buffers(plan->leaf);
    plan->seeds = seeds_most(plan);
    plan->work = noise_work_replay(strategy_normals(plan->leaf), plan->slots);
    plan->replay = REPLAY;
    plan->mapped = 0;
    plan->scratch_rows = 1 + CHUNK;
    plan->cache = CACHE;
    plan->cache_rows = plan->slots + 1 + CHUNK;
    plan->shared_bytes = head_bytes() + REPLAY * weight_count(plan) * (int64_t)plan->size;
}

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
                               "mechanism file: node %lld of replayed seeds is %g, accepted: a position of an epoch",
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
