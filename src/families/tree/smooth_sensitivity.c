/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smooth binary mechanism (families/tree/smooth.h): a row of C is 1 on the leaves of a node, so that the sensitivity counts
 * participations under nodes (families/tree/places.c), as for trees, and is exact:
 *
 *     cyclic    every offset; the nodes of a leaf are closed where the next participation has another word, O(n (a + b))
 *     shuffled  O(n)
 *     min-sep   a dynamic program with one table for each number of zeros and ones left, a b joins; for larger trees an
 *               upper bound, as for trees: nodes whose names have equally many zeros are disjoint; or by distance, since two
 *               steps share fewer nodes the farther they are apart
 *
 * All leaves are those before the word of leaf n: left nodes along that word, side by side, each a row of C and whole.
 */
#include "families/tree/smooth.h"

#include "base/memory.h"

#include <math.h>

STRATEGY_CAST(smooth_strategy)

/* Participations first, first + b, ... below n, in blocks of the stamps. */
static double count_nodes(const sensitivity_task *task, const smooth_strategy *s, int64_t first) {
    double count[64] = {0}, sum = 0;
    uint64_t open = 0, before = 0; /* the nodes with a count; the word of the participation before */
    int64_t block = -1;
    for (int64_t t = first; t < task->n; t += task->b) {
        const uint64_t word = smooth_word(s, t % task->length);
        const uint64_t stay = t / task->length == block ? open & smooth_shared(word, before) : 0;
        for (uint64_t closed = open & ~stay; closed != 0; closed &= closed - 1) {
            double *c = &count[__builtin_ctzll(closed)];
            sum += *c * *c;
            *c = 0;
        }
        open = smooth_rows_of(s, word);
        for (uint64_t rows = open; rows != 0; rows &= rows - 1)
            count[__builtin_ctzll(rows)] += 1;
        block = t / task->length;
        before = word;
    }
    for (int i = 0; i < 64; i++)
        sum += count[i] * count[i];
    return sum;
}

static dpmf_status cyclic(const sensitivity_task *task, const smooth_strategy *s, double *square) {
    double largest = 0;
    for (int64_t l = 0; l < task->b && l < task->n; l++) {
        if (l % 1024 == 0)
            TRY(base_progress(task->run, "counting participations in a tree", (double)l / (double)task->b));
        largest = fmax(largest, count_nodes(task, s, l));
    }
    *square = largest;
    return DPMF_OK;
}

/* The left nodes along the word of leaf n, in order: the zeros and ones left below each. Returns their number. */
typedef struct part {
    int zeros, ones;
} part;

static int parts_of(const smooth_strategy *s, part out[SMOOTH_HEIGHT_MAX]) {
    int count = 0;
    for (int place = s->zeros + s->ones - 1, i = s->zeros, j = s->ones; place >= 0 && i > 0; place--) {
        if (s->end >> place & 1)
            out[count++] = (part){i - 1, j--};
        else
            i--;
    }
    return count;
}

static tree_epochs under_node(const sensitivity_task *task, int zeros, int ones, int64_t start) {
    if (zeros == 0 || ones == 0) return tree_epochs_leaf(start, 0);
    tree_epochs out = under_node(task, zeros - 1, ones, start);
    tree_epochs_add_node(&out, task->b);
    tree_epochs right = under_node(task, zeros, ones - 1, out.end);
    return tree_epochs_join(&out, &right, task->b);
}

static dpmf_status shuffled(const sensitivity_task *task, const smooth_strategy *s, double *square) {
    part parts[SMOOTH_HEIGHT_MAX];
    const int count = parts_of(s, parts);
    tree_epochs all = {0};
    for (int64_t k = 0; k < task->stamps; k++)
        for (int i = 0; i < count; i++) {
            TRY(base_progress(task->run, "counting participations in trees", (double)k / (double)task->stamps));
            tree_epochs next = under_node(task, parts[i].zeros, parts[i].ones, all.end);
            tree_epochs_add_node(&next, task->b);
            all = k == 0 && i == 0 ? next : tree_epochs_join(&all, &next, task->b);
        }
    *square = tree_epochs_best(&all);
    return DPMF_OK;
}

/* Tables of whole nodes, by the zeros and ones left. */
typedef struct tables {
    tree_places whole[SMOOTH_HEIGHT_MAX + 1][SMOOTH_HEIGHT_MAX + 1];
} tables;

/* *out becomes a copy of a node's table with the node's own row. */
static dpmf_status with_row(const tree_places *node, tree_places *out) {
    TRY(tree_places_copy(node, out));
    tree_places_add_node(out);
    return DPMF_OK;
}

static dpmf_status fill(const sensitivity_task *task, const smooth_strategy *s, tables *all) {
    for (int i = 0; i < s->zeros; i++)
        for (int j = 0; j <= s->ones; j++) {
            tree_places *node = &all->whole[i][j];
            if (i == 0 || j == 0) {
                TRY(tree_places_leaf(task, 0, node));
            } else {
                TRY(with_row(&all->whole[i - 1][j], node));
                TRY(tree_places_append(task, node, &all->whole[i][j - 1]));
            }
        }
    return DPMF_OK;
}

static dpmf_status separated(const sensitivity_task *task, const smooth_strategy *s, double *square) {
    part parts[SMOOTH_HEIGHT_MAX];
    const int count = parts_of(s, parts);
    tree_places leaves = {0}, next = {0};
    tables *all = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof *all, "tables of a tree", (void **)&all));
    TRY_DONE(fill(task, s, all));
    for (int64_t k = 0; k < task->stamps * count; k++) {
        TRY_DONE(with_row(&all->whole[parts[k % count].zeros][parts[k % count].ones], &next));
        if (k == 0) {
            leaves = next;
            next = (tree_places){0};
        } else {
            TRY_DONE(tree_places_append(task, &leaves, &next));
            tree_places_free(&next);
        }
    }
    *square = tree_places_best(&leaves);
done:
    tree_places_free(&leaves);
    tree_places_free(&next);
    for (int i = 0; all != NULL && i <= SMOOTH_HEIGHT_MAX; i++)
        for (int j = 0; j <= SMOOTH_HEIGHT_MAX; j++)
            tree_places_free(&all->whole[i][j]);
    base_free(all);
    return status;
}

static double separated_work(const sensitivity_task *task, const smooth_strategy *s) {
    double work = 0, numbers = 3 * tree_places_numbers(task, task->n);
    if (task->length > INT32_MAX)
        return INFINITY; /* the sizes of nodes beyond the last leaf must not overflow either */
    for (int i = 1; i < s->zeros; i++)
        for (int j = 1; j <= s->ones; j++) {
            work += tree_places_work(task, smooth_leaves(i - 1, j), smooth_leaves(i, j - 1));
            numbers += tree_places_numbers(task, smooth_leaves(i, j));
        }
    work += (double)(task->stamps * s->ones) * tree_places_work(task, task->n, task->length);
    return numbers * (double)sizeof(double) > (double)task->bytes_max ? INFINITY : work;
}

/* No node whose name has z zeros holds more than binomial(a - z + b, b) leaves; k participations are under such nodes. */
static double zeros_bound(const sensitivity_task *task, const smooth_strategy *s) {
    double sum = 0;
    for (int left = s->zeros - 1; left >= 0; left--) {
        int64_t m = 1 + (smooth_leaves(left, s->ones) - 1) / task->b;
        if (m > task->k) m = task->k;
        double full = (double)m, rest = (double)(task->k % m);
        sum += (double)(task->k / m) * full * full + rest * rest;
    }
    return sum;
}

dpmf_status smooth_sensitivity(const dpmf_strategy *core, const sensitivity_task *task, int *done,
                               sensitivity_found *out) {
    const smooth_strategy *s = cast(core);
    const workload_pattern pattern = sensitivity_task_pattern(task);
    double square = 0;
    *done = task->bound != DPMF_BOUND_SPECTRAL && task->norms == NULL && !(pattern == WORKLOAD_EPOCHS && task->k == 1);
    if (!*done) return DPMF_OK;
    if (pattern == WORKLOAD_APART && separated_work(task, s) > task->work_max / 4) {
        if (task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
        sensitivity_task falling = *task;
        falling.falls = 1;
        sensitivity_found_improve(out, zeros_bound(task, s), SENSITIVITY_METHOD_LEVELS);
        return sensitivity_monotone(&falling, out);
    }
    TRY(sensitivity_check_visits((double)task->n));
    TRY(pattern == WORKLOAD_APART    ? separated(task, s, &square)
        : pattern == WORKLOAD_EPOCHS ? shuffled(task, s, &square)
                                     : cyclic(task, s, &square));
    sensitivity_found_sum(task, square, SENSITIVITY_METHOD_NODES, out);
    return DPMF_OK;
}
