/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees (families/tree/tree.h): C has a row of ones over the leaves of each node, so that X >= 0 and
 *
 *     sensitivity^2 = max over patterns of the sum over nodes of (number of participations under the node)^2
 *
 * (Pillutla et al. 2025, Eq. 3.20, for any branching factor). Repeated trees are trees side by side. With normalized columns a
 * tree whose columns all have the same norm (every touched node is a row) keeps X up to that factor.
 *
 *     cyclic    every offset, level by level, O(n log n)
 *     shuffled  exact in O(n), and
 *     min-sep   a dynamic program, both by families/tree/places.c
 */
#include "families/tree/tree.h"

#include <assert.h>
#include <math.h>

STRATEGY_CAST(tree_strategy)

/* Is node (l, j) a row of C? */
static int is_row(const tree_strategy *s, int l, int64_t j) {
    return s->kind != TREE_VANILLA || (j + 1) * s->size[l] <= s->base.steps;
}

/* Participations first, first + b, ... below n: consecutive ones fall into the same node or into a later one. */
static double count_nodes(const sensitivity_task *task, const tree_strategy *s, int64_t first) {
    const int64_t length = task->length;
    double sum = 0;
    for (int l = 0; l <= s->levels; l++) {
        int64_t block = -1, node = -1;
        double count = 0;
        for (int64_t t = first; t < task->n; t += task->b) {
            int64_t next_block = t / length, next = tree_node(s, t - next_block * length, l);
            if (next != node || next_block != block) {
                sum += count * count;
                count = 0;
            }
            block = next_block;
            node = next;
            count += is_row(s, l, next);
        }
        sum += count * count;
    }
    return sum;
}

static dpmf_status cyclic(const sensitivity_task *task, const tree_strategy *s, double *square) {
    double largest = 0;
    for (int64_t l = 0; l < task->b && l < task->n; l++) {
        if (l % 1024 == 0)
            TRY(base_progress(task->run, "counting participations in a tree", (double)l / (double)task->b));
        largest = fmax(largest, count_nodes(task, s, l));
    }
    *square = largest;
    return DPMF_OK;
}

static tree_epochs under_node(const sensitivity_task *task, const tree_strategy *s, int64_t start, int l, int64_t j) {
    if (l == 0) return tree_epochs_leaf(start + j, 1);
    const int64_t first = j * s->branching, last = tree_node(s, s->base.steps - 1, l - 1);
    tree_epochs out = under_node(task, s, start, l - 1, first);
    for (int64_t child = first + 1; child < first + s->branching && child <= last; child++) {
        tree_epochs next = under_node(task, s, start, l - 1, child);
        out = tree_epochs_join(&out, &next, task->b);
    }
    if (is_row(s, l, j)) tree_epochs_add_node(&out, task->b);
    return out;
}

static dpmf_status shuffled(const sensitivity_task *task, const tree_strategy *s, double *square) {
    tree_epochs all = under_node(task, s, 0, s->levels, 0);
    for (int64_t k = 1; k < task->stamps; k++) {
        TRY(base_progress(task->run, "counting participations in trees", (double)k / (double)task->stamps));
        tree_epochs next = under_node(task, s, k * task->length, s->levels, 0);
        all = tree_epochs_join(&all, &next, task->b);
    }
    *square = tree_epochs_best(&all);
    return DPMF_OK;
}

/*
 * Min-separation. Complete nodes of one level have one table, so that a level needs B - 1 joins, and fewer for the node over
 * the last leaf. About n^2 b multiplications in all for a binary tree; for larger trees
 *
 *     sum over levels of  (k div m) m^2 + (k mod m)^2,   m = min(k, ceil(B^l / b)),
 *
 * is an upper bound: no node of level l has more than m participations, and a level has k in all.
 */

/* *out becomes `count` >= 1 copies of x side by side. */
static dpmf_status side_by_side(const sensitivity_task *task, const tree_places *x, int64_t count, tree_places *out) {
    tree_places all = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(tree_places_copy(x, &all));
    for (int64_t i = 1; i < count; i++)
        TRY_DONE(tree_places_append(task, &all, x));
    tree_places_free(out);
    *out = all;
    all = (tree_places){0};
done:
    tree_places_free(&all);
    return status;
}

/* One level up: *complete and *last, the node over the last leaf, become those of level l. */
static dpmf_status climb(const sensitivity_task *task, const tree_strategy *s, int l, tree_places *complete,
                         tree_places *last) {
    const int64_t n = task->length, before = tree_digit(s, n - 1, l - 1);
    tree_places next = {0};
    dpmf_status status = DPMF_OK;
    if (before > 0) {
        TRY_DONE(side_by_side(task, complete, before, &next));
        TRY_DONE(tree_places_append(task, &next, last));
        tree_places_free(last);
        *last = next;
        next = (tree_places){0};
    }
    if (s->kind != TREE_VANILLA || n % s->size[l] == 0) tree_places_add_node(last);
    if (s->size[l] >= n) goto done; /* this was the root */
    TRY_DONE(side_by_side(task, complete, s->branching, &next));
    tree_places_add_node(&next);
    tree_places_free(complete);
    *complete = next;
    next = (tree_places){0};
done:
    tree_places_free(&next);
    return status;
}

static dpmf_status tree_separated(const sensitivity_task *task, const tree_strategy *s, double *square) {
    tree_places complete = {0}, last = {0}, all = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(tree_places_leaf(task, 1, &complete));
    TRY_DONE(tree_places_leaf(task, 1, &last));
    for (int l = 1; l <= s->levels; l++)
        TRY_DONE(climb(task, s, l, &complete, &last));
    TRY_DONE(side_by_side(task, &last, task->stamps, &all)); /* trees side by side */
    assert(all.leaves == task->n);
    *square = tree_places_best(&all);
done:
    tree_places_free(&complete);
    tree_places_free(&last);
    tree_places_free(&all);
    return status;
}

static double tree_separated_work(const sensitivity_task *task, const tree_strategy *s) {
    double work = 0;
    if (2 * tree_places_numbers(task, task->n) * (double)sizeof(double) > (double)task->bytes_max) return INFINITY;
    for (int l = 0; l < s->levels; l++)
        for (int64_t leaves = s->size[l]; leaves < s->size[l + 1] && leaves < task->length; leaves += s->size[l]) {
            int64_t rest = task->length - leaves;
            work += 2 * tree_places_work(task, leaves, rest < s->size[l] ? rest : s->size[l]);
        }
    for (int64_t k = 1; k < task->stamps; k++)
        work += tree_places_work(task, k * task->length, task->length);
    return work;
}

static double tree_levels_bound(const sensitivity_task *task, const tree_strategy *s) {
    double sum = 0;
    for (int l = 0; l <= s->levels; l++) {
        int64_t m = 1 + (s->size[l] - 1) / task->b;
        if (m > task->k) m = task->k;
        double full = (double)m, rest = (double)(task->k % m);
        sum += (double)(task->k / m) * full * full + rest * rest;
    }
    return sum;
}

static dpmf_status separated(const sensitivity_task *task, const tree_strategy *s, double factor,
                             sensitivity_found *out) {
    double square = 0;
    if (tree_separated_work(task, s) <= task->work_max / 4) {
        TRY(tree_separated(task, s, &square));
        sensitivity_found_sum(task, square * factor, SENSITIVITY_METHOD_NODES, out);
        return DPMF_OK;
    }
    if (task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
    sensitivity_task falling = *task;
    falling.falls = 1; /* two steps share fewer nodes the farther they are apart */
    sensitivity_found_improve(out, tree_levels_bound(task, s) * factor, SENSITIVITY_METHOD_LEVELS);
    return sensitivity_monotone(&falling, out);
}

dpmf_status tree_sensitivity(const dpmf_strategy *core, const sensitivity_task *task, int *done,
                             sensitivity_found *out) {
    const tree_strategy *s = cast(core);
    const workload_pattern pattern = sensitivity_task_pattern(task);
    double square = 0, factor = 1;
    *done = task->bound != DPMF_BOUND_SPECTRAL && !(task->norms != NULL && s->kind == TREE_VANILLA) &&
            !(pattern == WORKLOAD_EPOCHS && task->k == 1);
    if (!*done) return DPMF_OK;
    if (task->norms != NULL) factor = 1 / (double)(s->levels + 1); /* touched nodes over any leaf */
    if (pattern == WORKLOAD_APART) return separated(task, s, factor, out);
    TRY(sensitivity_check_visits((double)task->n));
    TRY(pattern == WORKLOAD_EPOCHS ? shuffled(task, s, &square) : cyclic(task, s, &square));
    sensitivity_found_sum(task, square * factor, SENSITIVITY_METHOD_NODES, out);
    return DPMF_OK;
}
