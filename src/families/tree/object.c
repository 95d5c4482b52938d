/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tree aggregation (Dwork, Naor, Pitassi and Rothblum 2010; Honaker 2015; Denisov et al. 2022, Appendix C;
 * Choquette-Choo et al. 2023, Appendix D). C has one row for each node of a binary tree over the steps, 1 on the steps
 * it covers (families/tree/tree.h). Three left inverses W of C (W C = I; the noise of the steps is W Z):
 *
 *     tree          a prefix sum is the sum of the nodes of its binary expansion; rows: complete nodes
 *     tree-online   each of those nodes is estimated from itself and all nodes below it (Honaker's estimator from
 *                   below): a node of level c has variance 2^c/(2^(c+1)-1); rows: touched nodes. At the last step the
 *                   root is used with the weights of the completed tree, its virtual nodes being zero (completion).
 *     tree-full     W = C^+, the best linear decoder
 *
 * All three stream with L = ceil(log2 n) kept rows. For the first two the state is the estimates of the pending nodes
 * (families/tree/tree.h). For tree-full, W W' = (C'C)^-1 is all that the law of the noise depends on, and it has a square root
 * that runs top down: draw the noise of the root, then split it between the two halves of every node as its conditional law
 * given their sum,
 *
 *     x_left = w x + sqrt(w a_right) z,   x_right = x - x_left,   w = a_left/(a_left + a_right),
 *
 * a the variance of a subtree's sum under (C'C)^-1, by the recursion a = (a_left + a_right)/(1 + a_left + a_right).
 * That square matrix is what `tree-full` holds as C^-1: same C'C, same noise law, n seeds and no pseudo-inverse.
 */
#include "families/tree/tree.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int tree_trailing_zeros(int64_t x) {
    return __builtin_ctzll((unsigned long long)x);
}

static void tree_step_at(tree_kind kind, int64_t steps, int64_t t, tree_step *out) {
    int c = tree_trailing_zeros(t + 1);
    if (kind == TREE_ONLINE && t == steps - 1) c = tree_levels(steps);
    double whole = exp2(c + 1) - 1;
    out->top = c;
    for (int l = 0; l <= c; l++) {
        out->alpha[l] = kind == TREE_ONLINE ? exp2(l) / whole : l == c;
        out->beta[l] = kind == TREE_ONLINE ? (exp2(l + 1) - 1) / whole : 0;
    }
}

static void tree_weights_fill(int64_t steps, tree_weights *out) {
    out->steps = steps;
    out->levels = tree_levels(steps);
    for (int l = 0; l <= out->levels; l++)
        out->complete[l] = exp2(l) / (exp2(l + 1) - 1);
    out->spine[0] = 1;
    for (int l = 1; l <= out->levels; l++) {
        int has_left = (int)(((steps - 1) >> (l - 1)) & 1);
        double below = out->spine[l - 1] + (has_left ? out->complete[l - 1] : 0);
        out->spine[l] = below / (1 + below);
    }
}

static double tree_weight(const tree_weights *w, int level, int64_t j) {
    int64_t last = (w->steps - 1) >> level;
    return j > last ? 0 : j == last ? w->spine[level] : w->complete[level];
}

/* The highest level at which the node over leaf t is a row. */
static int highest_row(tree_kind kind, int64_t steps, int64_t t) {
    int l = tree_levels(steps);
    if (kind != TREE_VANILLA) return l;
    while (((t >> l) + 1) > (steps >> l))
        l--; /* complete: (j+1) 2^l <= n; the leaf itself always is */
    return l;
}

/* Number of rows of C that hold both leaf t and leaf u: the entry (t,u) of C'C. */
static int64_t common_rows(tree_kind kind, int64_t steps, int64_t t, int64_t u) {
    int lowest = tree_bit_length(t ^ u), highest = highest_row(kind, steps, t);
    return highest >= lowest ? highest - lowest + 1 : 0;
}

STRATEGY_CAST(tree_strategy)

/* The level of the highest row that ends with leaf t. */
static int top_row(const tree_strategy *s, int64_t t) {
    return s->kind != TREE_VANILLA && t == s->base.steps - 1 ? s->levels : tree_trailing_zeros(t + 1);
}

static int64_t tree_seeds(const dpmf_strategy *s, int64_t t) {
    return top_row(cast(s), t) + 1;
}

/* Rows in the order of their last leaf, then level: node (t, l) is row 2t - popcount(t) + l. */
static int64_t first_row(int64_t t) {
    return 2 * t - __builtin_popcountll((unsigned long long)t);
}

static int64_t tree_rows(const dpmf_strategy *s) {
    return first_row(s->steps - 1) + tree_seeds(s, s->steps - 1);
}

static int64_t tree_buffers(const dpmf_strategy *s) {
    return cast(s)->levels;
}

/* Pending sums by the binary counter: the node of level l ending at t is x_t plus the pending sums below level l. */
static dpmf_status tree_apply(const dpmf_strategy *s, const double *x, double *y) {
    double pending[TREE_LEVELS_MAX + 1] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        double *row = y + first_row(t), sum = x[t];
        int top = top_row(cast(s), t);
        for (int l = 0; l <= top; l++) {
            row[l] = sum;
            if ((t >> l) & 1) sum += pending[l];
        }
        pending[tree_trailing_zeros(t + 1)] = row[tree_trailing_zeros(t + 1)];
    }
    return DPMF_OK;
}

static void step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    tree_step plan;
    tree_step_at(cast(s)->kind, s->steps, t, &plan);
    int keep = plan.top < cast(s)->levels; /* the root is never pending */
    for (int64_t i = 0; i < count; i++) {
        double e = 0, used = 0;
        for (int l = 0; l <= plan.top; l++)
            e += plan.alpha[l] * seed[l * count + i];
        for (int l = 0; l < plan.top; l++) {
            if (!((t >> l) & 1)) continue;
            e += plan.beta[l] * state[l * count + i];
            used += state[l * count + i];
        }
        row[i] = e - used;
        if (keep) state[plan.top * count + i] = e;
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
    int highest = highest_row(cast(s)->kind, s->steps, j);
    for (int l = 0; l <= highest; l++) {
        int64_t last = (((j >> l) + 1) << l) - 1;
        if (last > s->steps - 1) last = s->steps - 1;
        column[first_row(last) + l] = 1;
    }
    return DPMF_OK;
}

static dpmf_status tree_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    for (int64_t t = 0; t + lag < s->steps; t++)
        values[t] = (double)common_rows(cast(s)->kind, s->steps, t, t + lag);
    return DPMF_OK;
}

static void tree_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)s, (void)w, (void)tensors; /* the family and the number of steps say it all */
}

/* ---- tree-full, top down ---- */

/* The splits made at step t, from the node that opens with leaf t down to the leaf. */
typedef struct split {
    int level; /* of the halves */
    double w, spread;
} split;

static int splits_at(const tree_strategy *s, int64_t t, split out[TREE_LEVELS_MAX]) {
    int count = 0;
    for (int l = (t == 0 ? s->levels : tree_trailing_zeros(t)) - 1; l >= 0; l--) {
        double left = tree_weight(&s->weights, l, t >> l);
        double right = tree_weight(&s->weights, l, (t >> l) + 1);
        if (right == 0) continue; /* the right half has no leaf */
        double w = left / (left + right);
        out[count++] = (split){l, w, sqrt(w * right)};
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
    double root = sqrt(self->weights.spine[self->levels]);
    const double *from = t == 0 ? seed : state + tree_trailing_zeros(t) * count;
    const double *z = t == 0 ? seed + count : seed;
    for (int64_t i = 0; i < count; i++) {
        double x = t == 0 ? root * from[i] : from[i];
        for (int k = 0; k < split_count; k++) {
            double left = splits[k].w * x + splits[k].spread * z[k * count + i];
            state[splits[k].level * count + i] = x - left;
            x = left;
        }
        row[i] = x;
    }
}

/* The sums of all nodes, level by level: sums[l] starts at offset[l]. */
static dpmf_status node_sums(const tree_strategy *s, const double *x, double **sums, int64_t *offset) {
    int64_t n = s->base.steps, total = 0;
    for (int l = 0; l <= s->levels; l++) {
        offset[l] = total;
        total += ((n - 1) >> l) + 2; /* one more, zero, so that a missing right half reads as 0 */
    }
    TRY(base_alloc_doubles(total, "the sums of a tree", sums));
    memcpy(*sums, x, (size_t)n * sizeof **sums);
    for (int l = 1; l <= s->levels; l++)
        for (int64_t j = 0; j <= (n - 1) >> l; j++)
            (*sums)[offset[l] + j] = (*sums)[offset[l - 1] + 2 * j] + (*sums)[offset[l - 1] + 2 * j + 1];
    return DPMF_OK;
}

/* C x: each seed read back from the sums, z = (x_left - w x) / spread. */
static dpmf_status full_apply(const dpmf_strategy *s, const double *x, double *y) {
    const tree_strategy *self = cast(s);
    int64_t offset[TREE_LEVELS_MAX + 1];
    double *sums = NULL;
    TRY(node_sums(self, x, &sums, offset));
    int64_t at = 0;
    y[at++] = sums[offset[self->levels]] / sqrt(self->weights.spine[self->levels]);
    for (int64_t t = 0; t < s->steps; t++) {
        split splits[TREE_LEVELS_MAX];
        int split_count = splits_at(self, t, splits);
        for (int k = 0; k < split_count; k++) {
            int l = splits[k].level;
            double left = sums[offset[l] + (t >> l)], right = sums[offset[l] + (t >> l) + 1];
            /* x_left - w (x_left + x_right), without the cancellation */
            y[at++] = ((1 - splits[k].w) * left - splits[k].w * right) / splits[k].spread;
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
 * tree, tree-online: the estimates E_l of pending nodes are independent of each other, with variance v_l = 1 or
 * 2^l/(2^(l+1)-1); carry Cov(m, E_l) and Cov(o, E_l).
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

static double variance_of(tree_kind kind, int level) {
    double power = (double)((int64_t)1 << level);
    return kind == TREE_VANILLA ? 1 : power / (2 * power - 1);
}

/* One step; n and t are within a block. */
static void below_step(tree_kind kind, int64_t n, int64_t t, const error_drive *d, double scale, below *s,
                       error_moments *v) {
    tree_step plan;
    tree_step_at(kind, n, t, &plan);
    double ee = 0, em = 0, eo = 0, ym = 0, yo = 0, ye = 0, yy = 0; /* e: the new node; y = e - pending below it */
    for (int l = 0; l <= plan.top; l++)
        ee += plan.alpha[l] * plan.alpha[l];
    for (int l = 0; l < plan.top; l++) {
        if (!((t >> l) & 1)) continue;
        double b = plan.beta[l], var = variance_of(kind, l);
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
    for (int l = plan.top + 1; l <= L_MAX; l++) {
        s->eo[l] = d->keep * s->eo[l] + d->p * s->em[l];
        s->em[l] *= d->beta;
    }
    s->eo[plan.top] = d->keep * eo + d->p * em + d->g * scale * ye;
    s->em[plan.top] = d->beta * em + scale * ye;
}

/* The order of the full tree's covariance matrix: o, m, x, then the pending half of each level. */
enum { O = 0, M = 1, X = 2, HALF = 3, ORDER_MAX = L_MAX + 3 };

typedef struct full {
    tree_weights weights;
    int order;
    double c[ORDER_MAX][ORDER_MAX];
} full;

/* Row and column `to` become a copy of `from`'s, times `factor`; the diagonal is left to the caller. */
static void set_row(full *s, int to, const double *values, double factor) {
    for (int i = 0; i < s->order; i++)
        s->c[to][i] = s->c[i][to] = factor * values[i];
}

/* x -> x_left = w x + e in place of x, x_right = (1-w) x - e in the slot of its level; Var e = w a_right. */
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

static void open_node(full *s, int64_t t) {
    if (t == 0) {
        for (int i = X; i < s->order; i++)
            clear(s, i);
        s->c[X][X] = s->weights.spine[s->weights.levels];
        return;
    }
    int half = HALF + tree_trailing_zeros(t);
    double row[ORDER_MAX], xx = s->c[half][half];
    memcpy(row, s->c[half], sizeof row);
    row[X] = row[half] = 0;
    clear(s, half);
    set_row(s, X, row, 1);
    s->c[X][X] = xx;
}

static void advance_full(full *s, int64_t t, const error_drive *d, double scale) {
    int levels = s->weights.levels;
    open_node(s, t);
    for (int l = (t == 0 ? levels : tree_trailing_zeros(t)) - 1; l >= 0; l--) {
        double left = tree_weight(&s->weights, l, t >> l);
        double right = tree_weight(&s->weights, l, (t >> l) + 1);
        if (right > 0) split_node(s, l, left / (left + right), left / (left + right) * right);
    }
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
    const tree_kind kind = tree_kind_of(s);
    const int64_t n = q->a->steps, length = s->steps;
    below pending;
    error_moments v = {0};
    full *whole = NULL;
    dpmf_status status = DPMF_OK;
    *done = q->a->form == WORKLOAD_NAMED;
    if (!*done) return DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof *whole, "covariances", (void **)&whole));
    tree_weights_fill(length, &whole->weights);
    whole->order = HALF + whole->weights.levels;
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(q->run, t, n, 4 * (int64_t)whole->order * whole->order));
        error_drive d = error_drive_at(q->a, t);
        double by = q->scale == NULL ? 1 : q->scale[t];
        if (t % length == 0) memset(&pending, 0, sizeof pending);
        if (kind == TREE_FULL) {
            advance_full(whole, t % length, &d, by);
            squares[t] = whole->c[O][O];
        } else {
            below_step(kind, length, t % length, &d, by, &pending, &v);
            squares[t] = v.oo;
        }
    }
done:
    base_free(whole);
    return status;
}

static void tree_plan_noise(noise_plan *plan) {
    noise_plan_program(plan, tree_levels(plan->length) + 2);
}

#define COMMON_ENTRIES                                                                                                 \
    .class_name = "tree", .solve = solve_by_steps, .buffers = tree_buffers, .gram = tree_gram,                         \
    .squared_errors = tree_squared_errors, .sensitivity = tree_sensitivity, .plan_noise = tree_plan_noise,             \
    .write = tree_write

static const strategy_ops BELOW = {COMMON_ENTRIES,    .apply = tree_apply, .step = step,
                                   .rows = tree_rows, .seeds = tree_seeds, .column = tree_column};
static const strategy_ops FULL = {COMMON_ENTRIES, .apply = full_apply, .step = full_step, .seeds = full_seeds};

static const char *const NAMES[] = {
    [TREE_VANILLA] = DPMF_FAMILY_TREE, [TREE_ONLINE] = DPMF_FAMILY_TREE_ONLINE, [TREE_FULL] = DPMF_FAMILY_TREE_FULL};

dpmf_status tree_create(tree_kind kind, int64_t steps, dpmf_strategy **out) {
    tree_strategy *s = NULL;
    TRY(strategy_new(kind == TREE_FULL ? &FULL : &BELOW, sizeof *s, NAMES[kind], steps, (dpmf_strategy **)&s));
    s->kind = kind;
    s->levels = tree_levels(steps);
    tree_weights_fill(steps, &s->weights);
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status tree_read(const strategy_source *source, dpmf_strategy **out) {
    for (int kind = TREE_VANILLA; kind <= TREE_FULL; kind++)
        if (strcmp(source->family, NAMES[kind]) == 0) return tree_create((tree_kind)kind, source->steps, out);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: a tree of family %s is not known", source->family);
}
