/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree aggregation (Dwork, Naor, Pitassi and Rothblum 2010; Honaker 2015; Denisov et al. 2022, Appendix C;
 * Choquette-Choo et al. 2023, Appendix D; with a branching factor Qardaji, Yang and Li 2013). C has one row for each node
 * of a tree over the steps, 1 on the steps it covers; every node has B children (families/tree/tree.h). Three left
 * inverses W of C (W C = I; the noise of the steps is W Z):
 *
 *     tree          a prefix sum is the sum of the nodes of its expansion to the base B; rows: complete nodes
 *     tree-online   each of those nodes is estimated from itself and all nodes below it (Honaker's estimator from
 *                   below): a node of level c has variance B^c/(1 + B + ... + B^c); rows: touched nodes. At the last step
 *                   the root is used with the weights of the completed tree, its virtual nodes being zero (completion).
 *     tree-full     W = C^+, the best linear decoder
 *
 * All three stream with L = ceil(log_B n) kept rows. For the first two the state is the estimates of the pending nodes, added
 * up for each level, since no step needs one sibling without the others (families/tree/tree.h). For tree-full, W W' =
 * (C'C)^-1 is all that the law of the noise depends on, and it has a square root that runs top down: draw the noise of the
 * root, then split the first child from the rest of its siblings, for every node, as its conditional law given their sum,
 *
 *     x_first = w x + sqrt(w a_rest) z,   x_rest = x - x_first,   w = a_first/(a_first + a_rest),
 *
 * a the variance of a subtree's sum under (C'C)^-1, a_rest the sum of the siblings', by the recursion a = S/(1 + S) with S
 * the sum over the children. That square matrix is what `tree-full` holds as C^-1: same C'C, same noise law, n seeds and no
 * pseudo-inverse.
 */
#include "families/tree/tree.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

STRATEGY_CAST(tree_strategy)

/* The level of the largest complete node that ends before leaf x > 0: the zeros at the end of x to the base B. */
static int trailing_zeros(const tree_strategy *s, int64_t x) {
    if (s->branching == 2) return __builtin_ctzll((unsigned long long)x);
    int l = 0;
    for (; x % s->branching == 0; x /= s->branching)
        l++;
    return l;
}

/* The nodes of a complete subtree of level l, which a double holds exactly below 2^53. */
static double nodes_below(const tree_strategy *s, int l) {
    double sum = 0;
    for (int i = 0; i <= l; i++)
        sum += (double)s->size[i];
    return sum;
}

static void tree_step_at(const tree_strategy *s, int64_t t, tree_step *out) {
    int c = s->kind == TREE_ONLINE && t == s->base.steps - 1 ? s->levels : trailing_zeros(s, t + 1);
    const double whole = nodes_below(s, c);
    out->top = c;
    double below = 0;
    for (int l = 0; l <= c; l++) {
        below += (double)s->size[l];
        out->alpha[l] = s->kind == TREE_ONLINE ? (double)s->size[l] / whole : l == c;
        out->beta[l] = s->kind == TREE_ONLINE ? below / whole : 0;
    }
}

static void tree_weights_fill(tree_strategy *s) {
    tree_weights *w = &s->weights;
    for (int l = 0; l <= s->levels; l++)
        w->complete[l] = (double)s->size[l] / nodes_below(s, l);
    w->spine[0] = 1;
    for (int l = 1; l <= s->levels; l++) {
        double below = w->spine[l - 1] + (double)tree_digit(s, s->base.steps - 1, l - 1) * w->complete[l - 1];
        w->spine[l] = below / (1 + below);
    }
}

/* The weights of the nodes j..end-1 of a level, added. */
static double tree_weight(const tree_strategy *s, int level, int64_t j, int64_t end) {
    int64_t last = tree_node(s, s->base.steps - 1, level);
    if (j > last || j >= end) return 0;
    return end > last ? (double)(last - j) * s->weights.complete[level] + s->weights.spine[level]
                      : (double)(end - j) * s->weights.complete[level];
}

/* The highest level at which the node over leaf t is a row. */
static int highest_row(const tree_strategy *s, int64_t t) {
    int l = s->levels;
    if (s->kind != TREE_VANILLA) return l;
    while (tree_node(s, t, l) + 1 > tree_node(s, s->base.steps, l))
        l--; /* complete: (j+1) B^l <= n; the leaf itself always is */
    return l;
}

/* Number of rows of C that hold both leaf t and leaf u: the entry (t,u) of C'C. */
static int64_t common_rows(const tree_strategy *s, int64_t t, int64_t u) {
    int lowest = 0, highest = highest_row(s, t);
    if (s->branching == 2) {
        lowest = t == u ? 0 : 64 - __builtin_clzll((unsigned long long)(t ^ u));
    } else {
        while (lowest <= highest && tree_node(s, t, lowest) != tree_node(s, u, lowest))
            lowest++;
    }
    return highest >= lowest ? highest - lowest + 1 : 0;
}

/* The level of the highest row that ends with leaf t. */
static int top_row(const tree_strategy *s, int64_t t) {
    return s->kind != TREE_VANILLA && t == s->base.steps - 1 ? s->levels : trailing_zeros(s, t + 1);
}

static int64_t tree_seeds(const dpmf_strategy *s, int64_t t) {
    return top_row(cast(s), t) + 1;
}

/* Rows in the order of their last leaf, then level: before leaf t, t div B^l nodes of level l have ended. */
static int64_t first_row(const tree_strategy *s, int64_t t) {
    int64_t rows = 0;
    if (s->branching == 2) return 2 * t - __builtin_popcountll((unsigned long long)t);
    for (; t > 0; t /= s->branching)
        rows += t;
    return rows;
}

static int64_t tree_rows(const dpmf_strategy *s) {
    return first_row(cast(s), s->steps - 1) + tree_seeds(s, s->steps - 1);
}

static int64_t tree_buffers(const dpmf_strategy *s) {
    return cast(s)->levels;
}

/* Pending sums by a counter to the base B: the node of level l ending at t is x_t plus the pending sums below level l. */
static dpmf_status tree_apply(const dpmf_strategy *s, const double *x, double *y) {
    const tree_strategy *self = cast(s);
    double pending[TREE_LEVELS_MAX + 1] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        double *row = y + first_row(self, t), sum = x[t];
        int top = top_row(self, t), ended = trailing_zeros(self, t + 1);
        for (int l = 0; l <= top; l++) {
            row[l] = sum;
            if (tree_digit(self, t, l) > 0) sum += pending[l];
        }
        pending[ended] = row[ended] + (tree_digit(self, t, ended) > 0 ? pending[ended] : 0);
    }
    return DPMF_OK;
}

static void step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    const tree_strategy *self = cast(s);
    tree_step plan;
    tree_step_at(self, t, &plan);
    int used_up[TREE_LEVELS_MAX];
    for (int l = 0; l < plan.top; l++)
        used_up[l] = tree_digit(self, t, l) > 0;
    int keep = plan.top < self->levels; /* the root is never pending */
    int joins = keep && tree_digit(self, t, plan.top) > 0;
    for (int64_t i = 0; i < count; i++) {
        double e = 0, used = 0;
        for (int l = 0; l <= plan.top; l++)
            e += plan.alpha[l] * seed[l * count + i];
        for (int l = 0; l < plan.top; l++) {
            if (!used_up[l]) continue;
            e += plan.beta[l] * state[l * count + i];
            used += state[l * count + i];
        }
        row[i] = e - used;
        if (keep) state[plan.top * count + i] = joins ? state[plan.top * count + i] + e : e;
    }
}

/* All steps of one column: used by solve for both kinds of stream. */
static dpmf_status solve_by_steps(const dpmf_strategy *s, const double *y, double *x) {
    double *state = NULL;
    TRY(base_alloc_doubles(s->ops->buffers(s), "the tree's state", &state));
    for (int64_t t = 0; t < s->steps; t++) {
        s->ops->step(s, t, 1, y, state, &x[t]);
        y += s->ops->seeds(s, t);
    }
    base_free(state);
    return DPMF_OK;
}

static dpmf_status tree_column(const dpmf_strategy *s, int64_t j, double *column) {
    memset(column, 0, (size_t)tree_rows(s) * sizeof *column);
    const tree_strategy *self = cast(s);
    int highest = highest_row(self, j);
    for (int l = 0; l <= highest; l++) {
        int64_t last = (tree_node(self, j, l) + 1) * self->size[l] - 1;
        if (last > s->steps - 1) last = s->steps - 1;
        column[first_row(self, last) + l] = 1;
    }
    return DPMF_OK;
}

static dpmf_status tree_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    for (int64_t t = 0; t + lag < s->steps; t++)
        values[t] = (double)common_rows(cast(s), t, t + lag);
    return DPMF_OK;
}

static int64_t tree_branching(const dpmf_strategy *s) {
    return cast(s)->branching;
}

/* The family, the number of steps and the branching factor determine everything; files of binary trees are older than it. */
static void tree_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)tensors;
    if (cast(s)->branching != 2) base_json_integer(w, "branching", cast(s)->branching);
}

/* ---- tree-full, top down ---- */

/* The splits made at step t, from the siblings that remain of the node that opens with leaf t down to the leaf. */
typedef struct split {
    int level; /* of the parts */
    double w, spread;
} split;

/* The level of the node that opens with leaf t. */
static int opened(const tree_strategy *s, int64_t t) {
    return t == 0 ? s->levels : trailing_zeros(s, t);
}

/* A node is split from the later children of its parent, whose sum is kept, as long as there are any. */
static int splits_at(const tree_strategy *s, int64_t t, split out[TREE_LEVELS_MAX]) {
    int count = 0;
    for (int l = t == 0 ? s->levels - 1 : opened(s, t); l >= 0; l--) {
        int64_t j = tree_node(s, t, l), end = tree_node(s, t, l + 1) * s->branching + s->branching;
        double first = tree_weight(s, l, j, j + 1), rest = tree_weight(s, l, j + 1, end);
        if (rest == 0) continue;
        double w = first / (first + rest);
        out[count++] = (split){l, w, w * rest};
    }
    return count;
}

static int64_t full_seeds(const dpmf_strategy *s, int64_t t) {
    split splits[TREE_LEVELS_MAX];
    return splits_at(cast(s), t, splits) + (t == 0);
}

static void full_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                      double *row) {
    const tree_strategy *self = cast(s);
    split splits[TREE_LEVELS_MAX];
    int split_count = splits_at(self, t, splits);
    double root = sqrt(self->weights.spine[self->levels]), spread[TREE_LEVELS_MAX];
    const double *from = t == 0 ? seed : state + opened(self, t) * count;
    const double *z = t == 0 ? seed + count : seed;
    for (int k = 0; k < split_count; k++)
        spread[k] = sqrt(splits[k].spread);
    for (int64_t i = 0; i < count; i++) {
        double x = t == 0 ? root * from[i] : from[i];
        for (int k = 0; k < split_count; k++) {
            double first = splits[k].w * x + spread[k] * z[k * count + i];
            state[splits[k].level * count + i] = x - first;
            x = first;
        }
        row[i] = x;
    }
}

/* The sums of all nodes, level by level from offset[l], and after[.]: those of the later children of the same parent. */
static dpmf_status node_sums(const tree_strategy *s, const double *x, double **sums, double **after, int64_t *offset) {
    int64_t n = s->base.steps, total = 0;
    for (int l = 0; l <= s->levels; l++) {
        offset[l] = total;
        total += tree_node(s, n - 1, l) + 1;
    }
    TRY(base_alloc_doubles(2 * total, "the sums of a tree", sums));
    *after = *sums + total;
    memcpy(*sums, x, (size_t)n * sizeof **sums);
    for (int l = 0; l < s->levels; l++) {
        double *level = *sums + offset[l], *later = *after + offset[l], *parents = *sums + offset[l + 1];
        for (int64_t j = tree_node(s, n - 1, l); j >= 0; j--) {
            double *parent = &parents[j / s->branching];
            later[j] = *parent; /* zero before the last of its children */
            *parent += level[j];
        }
    }
    return DPMF_OK;
}

/* C x: each seed read back from the sums, z = (x_first - w x) / spread. */
static dpmf_status full_apply(const dpmf_strategy *s, const double *x, double *y) {
    const tree_strategy *self = cast(s);
    int64_t offset[TREE_LEVELS_MAX + 1];
    double *sums = NULL, *after = NULL;
    TRY(node_sums(self, x, &sums, &after, offset));
    int64_t at = 0;
    y[at++] = sums[offset[self->levels]] / sqrt(self->weights.spine[self->levels]);
    for (int64_t t = 0; t < s->steps; t++) {
        split splits[TREE_LEVELS_MAX];
        int split_count = splits_at(self, t, splits);
        for (int k = 0; k < split_count; k++) {
            int64_t node = offset[splits[k].level] + tree_node(self, t, splits[k].level);
            /* x_first - w (x_first + x_rest), without the cancellation */
            y[at++] = ((1 - splits[k].w) * sums[node] - splits[k].w * after[node]) / sqrt(splits[k].spread);
        }
    }
    assert(at == s->steps);
    base_free(sums);
    return DPMF_OK;
}

/*
 * Error of tree aggregation under a named workload (error/error.h), O(log n) per step: the noise depends on the past through
 * the few pending nodes only, so their covariance with the workload's state is all that has to be carried.
 *
 * tree, tree-online: the sums E_l of estimates of pending nodes are independent of each other, with variance d_l v_l, d_l
 * the digit and v_l = 1 or B^l/(1 + B + ... + B^l); carry Cov(m, E_l) and Cov(o, E_l).
 *
 * tree-full: the pending right halves are not independent; carry the covariance matrix of (o, m, current node, pending
 * halves), of order L + 3, through the splits of families/tree/object.c.
 *
 * For stamps the pending nodes restart in each block while m and o go on. `scale` multiplies the noise of a step.
 */

enum { L_MAX = TREE_LEVELS_MAX };

typedef struct below {
    double em[L_MAX + 1], eo[L_MAX + 1]; /* Cov(E_l, m), Cov(E_l, o) */
} below;

/* One step; t is within a block. */
static void below_step(const tree_strategy *tree, int64_t t, const error_drive *d, double scale, below *s,
                       error_moments *v) {
    tree_step plan;
    tree_step_at(tree, t, &plan);
    double ee = 0, em = 0, eo = 0, ym = 0, yo = 0, ye = 0, yy = 0; /* e: the new node; y = e - pending below it */
    for (int l = 0; l <= plan.top; l++)
        ee += plan.alpha[l] * plan.alpha[l];
    for (int l = 0; l < plan.top; l++) {
        const int64_t digit = tree_digit(tree, t, l);
        if (digit == 0) continue;
        double b = plan.beta[l], var = (double)digit * (tree->kind == TREE_VANILLA ? 1 : tree->weights.complete[l]);
        ee += b * b * var;
        em += b * s->em[l];
        eo += b * s->eo[l];
        ym -= s->em[l];
        yo -= s->eo[l];
        ye -= b * var;
        yy += var - 2 * b * var;
    }
    ye += ee;
    yy += ee;
    ym += em;
    yo += eo;
    error_moments_advance(d, scale * scale * yy, scale * ym, scale * yo, v);
    const int joins = plan.top < tree->levels && tree_digit(tree, t, plan.top) > 0;
    for (int l = plan.top + !joins; l <= L_MAX; l++) {
        s->eo[l] = d->keep * s->eo[l] + d->p * s->em[l];
        s->em[l] *= d->beta;
    }
    eo = d->keep * eo + d->p * em + d->g * scale * ye;
    em = d->beta * em + scale * ye;
    s->eo[plan.top] = joins ? s->eo[plan.top] + eo : eo;
    s->em[plan.top] = joins ? s->em[plan.top] + em : em;
}

/* The order of the full tree's covariance matrix: o, m, x, then the pending half of each level. */
enum { O = 0, M = 1, X = 2, HALF = 3, ORDER_MAX = L_MAX + 3 };

typedef struct full {
    int order;
    double c[ORDER_MAX][ORDER_MAX];
} full;

/* Row and column `to` become a copy of `from`'s, times `factor`; the diagonal is left to the caller. */
static void set_row(full *s, int to, const double *values, double factor) {
    for (int i = 0; i < s->order; i++)
        s->c[to][i] = s->c[i][to] = factor * values[i];
}

/* x -> x_first = w x + e in place of x, x_rest = (1-w) x - e in the slot of its level; Var e = spread = w a_rest. */
static void split_node(full *s, int level, double w, double spread) {
    double row[ORDER_MAX], xx = s->c[X][X];
    int half = HALF + level;
    memcpy(row, s->c[X], sizeof row);
    row[half] = 0; /* what stood there is used up */
    set_row(s, half, row, 1 - w);
    set_row(s, X, row, w);
    s->c[X][X] = w * w * xx + spread;
    s->c[half][half] = (1 - w) * (1 - w) * xx + spread;
    s->c[X][half] = s->c[half][X] = w * (1 - w) * xx - spread;
}

static void clear(full *s, int i) {
    for (int k = 0; k < s->order; k++)
        s->c[i][k] = s->c[k][i] = 0;
}

static void open_node(const tree_strategy *tree, full *s, int64_t t) {
    if (t == 0) {
        for (int i = X; i < s->order; i++)
            clear(s, i);
        s->c[X][X] = tree->weights.spine[tree->levels];
        return;
    }
    int half = HALF + opened(tree, t);
    double row[ORDER_MAX], xx = s->c[half][half];
    memcpy(row, s->c[half], sizeof row);
    row[X] = row[half] = 0;
    clear(s, half);
    set_row(s, X, row, 1);
    s->c[X][X] = xx;
}

static void advance_full(const tree_strategy *tree, full *s, int64_t t, const error_drive *d, double scale) {
    split splits[TREE_LEVELS_MAX];
    open_node(tree, s, t);
    int split_count = splits_at(tree, t, splits);
    for (int k = 0; k < split_count; k++)
        split_node(s, splits[k].level, splits[k].w, splits[k].spread);
    /* m <- beta m + y, o <- keep o + p m + g y with y = scale x. */
    double m[ORDER_MAX], o[ORDER_MAX], xx = s->c[X][X];
    error_moments v = {s->c[M][M], s->c[O][M], s->c[O][O]};
    error_moments_advance(d, scale * scale * xx, scale * s->c[X][M], scale * s->c[X][O], &v);
    for (int i = 0; i < s->order; i++) {
        double y = scale * s->c[X][i];
        m[i] = d->beta * s->c[M][i] + y;
        o[i] = d->keep * s->c[O][i] + d->p * s->c[M][i] + d->g * y;
    }
    set_row(s, M, m, 1);
    set_row(s, O, o, 1);
    s->c[M][M] = v.mm;
    s->c[O][M] = s->c[M][O] = v.mo;
    s->c[O][O] = v.oo;
    clear(s, X);
}

static dpmf_status tree_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const tree_strategy *self = cast(s);
    const int64_t n = q->a->steps, length = s->steps;
    below pending;
    error_moments v = {0};
    full *whole = NULL;
    dpmf_status status = DPMF_OK;
    *done = q->a->form == WORKLOAD_NAMED;
    if (!*done) return DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof *whole, "covariances", (void **)&whole));
    whole->order = HALF + self->levels;
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(q->run, t, n, 4 * (int64_t)whole->order * whole->order));
        error_drive d = error_drive_at(q->a, t);
        double by = q->scale == NULL ? 1 : q->scale[t];
        if (t % length == 0) memset(&pending, 0, sizeof pending);
        if (self->kind == TREE_FULL) {
            advance_full(self, whole, t % length, &d, by);
            squares[t] = whole->c[O][O];
        } else {
            below_step(self, t % length, &d, by, &pending, &v);
            squares[t] = v.oo;
        }
    }
done:
    base_free(whole);
    return status;
}

static void tree_plan_noise(noise_plan *plan) {
    noise_plan_program(plan, cast(plan->leaf)->levels + 2);
}

#define COMMON_ENTRIES                                                                                                 \
    .class_name = "tree", .solve = solve_by_steps, .buffers = tree_buffers, .gram = tree_gram,                         \
    .squared_errors = tree_squared_errors, .sensitivity = tree_sensitivity, .plan_noise = tree_plan_noise,             \
    .branching = tree_branching, .write = tree_write

static const strategy_ops BELOW = {COMMON_ENTRIES,    .apply = tree_apply, .step = step,
                                   .rows = tree_rows, .seeds = tree_seeds, .column = tree_column};
static const strategy_ops FULL = {COMMON_ENTRIES, .apply = full_apply, .step = full_step, .seeds = full_seeds};

static const char *const NAMES[] = {
    [TREE_VANILLA] = DPMF_FAMILY_TREE, [TREE_ONLINE] = DPMF_FAMILY_TREE_ONLINE, [TREE_FULL] = DPMF_FAMILY_TREE_FULL};

dpmf_status tree_create(tree_kind kind, int64_t steps, int64_t branching, dpmf_strategy **out) {
    tree_strategy *s = NULL;
    if (branching < 2 || branching > TREE_BRANCHING_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "branching = %lld, accepted 2 to %d", (long long)branching,
                         TREE_BRANCHING_MAX);
    TRY(strategy_new(kind == TREE_FULL ? &FULL : &BELOW, sizeof *s, NAMES[kind], steps, (dpmf_strategy **)&s));
    s->kind = kind;
    s->branching = branching;
    s->size[0] = 1;
    for (; s->size[s->levels] < steps; s->levels++)
        s->size[s->levels + 1] = s->size[s->levels] * branching;
    tree_weights_fill(s);
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status tree_read(const strategy_source *source, dpmf_strategy **out) {
    int64_t branching = 2;
    if (cJSON_HasObjectItem(source->object, "branching"))
        TRY(base_json_get_integer(source->object, "branching", "strategy", 2, TREE_BRANCHING_MAX, &branching));
    for (int kind = TREE_VANILLA; kind <= TREE_FULL; kind++)
        if (strcmp(source->family, NAMES[kind]) == 0)
            return tree_create((tree_kind)kind, source->steps, branching, out);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: a tree of family %s is not known", source->family);
}
