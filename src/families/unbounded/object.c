/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategies without a horizon (families/unbounded/unbounded.h). With u_t = f_t x_t, C x is
 *
 *     y_t = g_t (u_t + scale'm),   m <- (m - gap m) + u_t,        and C^-1 y:   u_t = y_t / g_t - scale'm,   x_t = u_t / f_t,
 *
 * and where a block starts with more buffers than the one before, the lump's value is copied to each of the new ones.
 */
#include "families/unbounded/unbounded.h"

#include "base/memory.h"
#include "sensitivity/sensitivity.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { BUFFERS_MAX = UNBOUNDED_BUFFERS_MAX, NODES_MAX = UNBOUNDED_NODES_MAX };

typedef unbounded_shape shape;
typedef unbounded_step block_step;

STRATEGY_CAST(unbounded_strategy)

static void unbounded_release(dpmf_strategy *s) {
    unbounded_shape_free(&((unbounded_strategy *)s)->c);
}

typedef struct walk {
    const shape *c;
    int64_t block; /* -1: before the first step */
    block_step step;
    double m[BUFFERS_MAX];
} walk;

static void walk_to(walk *w, int64_t t) {
    if (w->block >= 0 && (w->block + 1 == w->c->blocks || (double)t < w->c->start[w->block + 1])) return;
    int before = w->step.count;
    w->block = unbounded_block(w->c, t);
    w->step = unbounded_step_of(w->c, w->block);
    for (int i = before; before > 0 && i < w->step.count; i++)
        w->m[i] = w->m[before - 1];
}

static double read_buffers(const walk *w) {
    double sum = 0;
    for (int i = 0; i < w->step.count; i++)
        sum += w->step.scale[i] * w->m[i];
    return sum;
}

static void feed_buffers(walk *w, double u) {
    for (int i = 0; i < w->step.count; i++)
        w->m[i] = (w->m[i] - w->step.gap[i] * w->m[i]) + u;
}

static dpmf_status unbounded_apply(const dpmf_strategy *s, const double *x, double *y) {
    walk w = {.c = &cast(s)->c, .block = -1};
    for (int64_t t = 0; t < s->steps; t++) {
        walk_to(&w, t);
        double u = x[t] / w.step.norm;
        y[t] = w.step.gain * (u + read_buffers(&w));
        feed_buffers(&w, u);
    }
    return DPMF_OK;
}

static dpmf_status unbounded_solve(const dpmf_strategy *s, const double *y, double *x) {
    walk w = {.c = &cast(s)->c, .block = -1};
    for (int64_t t = 0; t < s->steps; t++) {
        walk_to(&w, t);
        double u = y[t] / w.step.gain - read_buffers(&w);
        x[t] = w.step.norm * u;
        feed_buffers(&w, u);
    }
    return DPMF_OK;
}

static dpmf_status unbounded_column(const dpmf_strategy *s, int64_t j, double *column) {
    walk w = {.c = &cast(s)->c, .block = -1};
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps; t++) {
        walk_to(&w, t);
        double u = t == j ? 1 / w.step.norm : 0;
        column[t] = w.step.gain * (u + read_buffers(&w));
        feed_buffers(&w, u);
    }
    return DPMF_OK;
}

static int64_t unbounded_buffers(const dpmf_strategy *s) {
    const shape *c = &cast(s)->c;
    return (int64_t)c->active[unbounded_block(c, s->steps - 1)] + 1;
}

static void step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    const shape *c = &cast(s)->c;
    const int64_t block = unbounded_block(c, t);
    const block_step step = unbounded_step_of(c, block);
    if (block > 0 && c->start[block] == (double)t)
        for (int64_t j = (int64_t)c->active[block - 1]; j + 1 < step.count; j++)
            memcpy(state + (j + 1) * count, state + j * count, (size_t)count * sizeof *state);
    for (int64_t i = 0; i < count; i++)
        row[i] = seed[i] / step.gain;
    for (int j = 0; j < step.count; j++) {
        const double *m = state + j * count, scale = step.scale[j];
        for (int64_t i = 0; i < count; i++)
            row[i] -= scale * m[i];
    }
    for (int j = 0; j < step.count; j++) {
        double *m = state + j * count, gap = step.gap[j];
        for (int64_t i = 0; i < count; i++)
            m[i] = (m[i] - gap * m[i]) + row[i];
    }
    for (int64_t i = 0; i < count; i++)
        row[i] *= step.norm;
}

/* Decay of buffer i over the steps from + 1 .. to: it decays in those from its own start on. */
static double decay_over(const shape *c, const double *begin, int64_t i, int64_t from, int64_t to) {
    double n = (double)to - fmax((double)from, begin[i] - 1);
    return n <= 0 ? 1 : c->gap[i] == 1 ? 0 : exp(n * log1p(-c->gap[i]));
}

static void find_begins(const shape *c, double *begin) {
    int64_t k = 0;
    for (int64_t i = 0; i < c->nodes; i++) {
        while (c->active[k] <= (double)i)
            k++;
        begin[i] = c->start[k];
    }
}

/*
 * (C'C)[t, u], u = t + lag: with K_u the matrix of what buffers with contents v before step u will add, v' K_u v = sum_{r
 * >= u} g_r^2 (scale'v_r)^2, and v the decays since step t: f_t f_u (g_u^2 T[u,t] + v' K_{u+1} 1). K_u = g_u^2 scale scale' +
 * Lambda K_{u+1} Lambda, from the last step back: O(n d^2) for any lag.
 */
static dpmf_status unbounded_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    const shape *c = &cast(s)->c;
    const int64_t d = c->nodes;
    double k[NODES_MAX * NODES_MAX] = {0}, begin[NODES_MAX];
    find_begins(c, begin);
    for (int64_t u = s->steps - 1; u >= lag; u--) {
        const int64_t t = u - lag, block = unbounded_block(c, u);
        const double square = c->gain[block] * c->gain[block];
        double entry = lag == 0 ? 1 : 0, after = 0; /* T[u,t]; v' K 1 */
        for (int64_t i = 0; i < d; i++) {
            double ahead = 0;
            for (int64_t j = 0; j < d; j++)
                ahead += k[i * d + j];
            if (lag > 0) entry += c->scale[i] * decay_over(c, begin, i, t, u - 1);
            after += ahead * decay_over(c, begin, i, t, u);
        }
        values[t] = (square * entry + after) / (c->norm[unbounded_block(c, t)] * c->norm[block]);
        for (int64_t i = 0; i < d; i++)
            for (int64_t j = 0; j < d; j++) {
                double keep_i = (double)i < c->active[block] ? 1 - c->gap[i] : 1;
                double keep_j = (double)j < c->active[block] ? 1 - c->gap[j] : 1;
                k[i * d + j] = square * c->scale[i] * c->scale[j] + keep_i * keep_j * k[i * d + j];
            }
    }
    return DPMF_OK;
}

/* Sums of positive numbers, a few thousand of them, each to a few roundings. */
static const double ROUNDING = 1e-12;

double unbounded_longest(const shape *c) {
    double norms[UNBOUNDED_BLOCKS_MAX], longest = 0;
    assert(c->blocks <= UNBOUNDED_BLOCKS_MAX);
    unbounded_shape_norms(c, norms);
    for (int64_t k = 0; k < c->blocks; k++)
        longest = fmax(longest, norms[k] / c->norm[k]);
    return longest * (1 + ROUNDING);
}

static void unbounded_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const shape *c = &cast(s)->c;
    (void)w;
    base_tensors_add(tensors, "strategy.gap", c->nodes, 0, c->gap);
    base_tensors_add(tensors, "strategy.scale", c->nodes, 0, c->scale);
    base_tensors_add(tensors, "strategy.start", c->blocks, 0, c->start);
    base_tensors_add(tensors, "strategy.active", c->blocks, 0, c->active);
    base_tensors_add(tensors, "strategy.gain", c->blocks, 0, c->gain);
    base_tensors_add(tensors, "strategy.norm", c->blocks, 0, c->norm);
}

/* It has one sensitivity, for any number of steps. */
static int longest_column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    *out = (dpmf_sensitivity){.value = unbounded_longest(&cast(s)->c),
                              .kind = DPMF_UPPER_BOUND,
                              .method = sensitivity_method_text(SENSITIVITY_METHOD_FOR_EVER)};
    return 1;
}

static dpmf_status cut(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out);

static const strategy_ops UNBOUNDED = {.class_name = "unbounded",
                                       .release = unbounded_release,
                                       .apply = unbounded_apply,
                                       .solve = unbounded_solve,
                                       .step = step,
                                       .buffers = unbounded_buffers,
                                       .column = unbounded_column,
                                       .gram = unbounded_gram,
                                       .cut = cut,
                                       .squared_errors = unbounded_squared_errors,
                                       .squared_error_range = unbounded_error_range,
                                       .squared_error_sums = unbounded_error_sums,
                                       .longest_column = longest_column,
                                       .write = unbounded_write};

/* Takes the shape over on success and zeroes it. */
static dpmf_status create_from(int64_t steps, shape *c, dpmf_strategy **out) {
    unbounded_strategy *s = NULL;
    if (steps > DPMF_UNBOUNDED_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "family " DPMF_FAMILY_UNBOUNDED
                         ": steps = %lld, accepted 1 to 2^40 (nothing else depends on it)",
                         (long long)steps);
    TRY(strategy_new(&UNBOUNDED, sizeof *s, DPMF_FAMILY_UNBOUNDED, steps, (dpmf_strategy **)&s));
    s->c = *c;
    *c = (shape){0};
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status unbounded_create(int64_t steps, dpmf_strategy **out) {
    shape c = {0};
    TRY(unbounded_shape_create(&c));
    dpmf_status status = create_from(steps, &c, out);
    unbounded_shape_free(&c);
    return status;
}

static dpmf_status cut(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    const shape *whole = &cast(s)->c;
    shape c = {0};
    if (steps >= s->steps) {
        *out = strategy_retain(s);
        return DPMF_OK;
    }
    TRY(unbounded_shape_alloc(whole->nodes, whole->blocks, &c));
    memcpy(c.gap, whole->gap, (size_t)(2 * c.nodes + 4 * c.blocks) * sizeof *c.gap); /* all of them are one piece */
    dpmf_status status = create_from(steps, &c, out);
    unbounded_shape_free(&c);
    return status;
}

/* Every array of the file; `to` gets the place of each in the shape. */
static dpmf_status copy_array(const strategy_source *source, const char *name, int64_t count, double *to) {
    const base_tensor *array = NULL;
    TRY(strategy_array(source, name, count, 0, &array));
    memcpy(to, array->values, (size_t)count * sizeof *to);
    return DPMF_OK;
}

/* Within the steps there must be no more buffers than a step has room for. */
static dpmf_status check_buffers(const shape *c, int64_t steps) {
    double active = c->active[unbounded_block(c, steps - 1)];
    if (active + 1 <= BUFFERS_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: unbounded with %g buffers, accepted 2 to %d", active + 1,
                     BUFFERS_MAX);
}

dpmf_status unbounded_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *gap = NULL, *start = NULL;
    shape c = {0};
    dpmf_status status = DPMF_OK;
    TRY(strategy_array(source, "strategy.gap", -1, 0, &gap));
    TRY(strategy_array(source, "strategy.start", -1, 0, &start));
    if (gap->shape[0] < 1 || gap->shape[0] > NODES_MAX || start->shape[0] < 1 || start->shape[0] > UNBOUNDED_BLOCKS_MAX)
        return base_fail(DPMF_ERROR_FORMAT,
                         "mechanism file: unbounded with %lld nodes and %lld blocks, accepted 1 to %d and 1 to %d",
                         (long long)gap->shape[0], (long long)start->shape[0], NODES_MAX, UNBOUNDED_BLOCKS_MAX);
    TRY_DONE(unbounded_shape_alloc(gap->shape[0], start->shape[0], &c));
    TRY_DONE(copy_array(source, "strategy.gap", c.nodes, c.gap));
    TRY_DONE(copy_array(source, "strategy.scale", c.nodes, c.scale));
    TRY_DONE(copy_array(source, "strategy.start", c.blocks, c.start));
    TRY_DONE(copy_array(source, "strategy.active", c.blocks, c.active));
    TRY_DONE(copy_array(source, "strategy.gain", c.blocks, c.gain));
    TRY_DONE(copy_array(source, "strategy.norm", c.blocks, c.norm));
    TRY_DONE(unbounded_shape_check(&c));
    TRY_DONE(check_buffers(&c, source->steps));
    status = create_from(source->steps, &c, out);
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file */
done:
    unbounded_shape_free(&c);
    return status;
}
