/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trees (families/tree/tree.h): C has a row of ones over the leaves of each node, so that X >= 0 and
 *
 *     sensitivity^2 = max over patterns of the sum over nodes of (number of participations under the node)^2
 *
 * (Pillutla et al. 2025, Eq. 3.20). Repeated trees are trees side by side. With normalized columns a tree whose columns
 * all have the same norm (every touched node is a row) keeps X up to that factor.
 *
 *     cyclic    every offset, level by level, O(n log n)
 *     shuffled  exact in O(n): of the picks of an epoch that a node cuts, it matters only whether they lie under it.
 *               A node cuts at most two epochs, one at either end; epochs that lie wholly under it have their pick
 *               there, since adding one never lowers a count. So four values are enough for a node.
 *
 * min-separation is in separated.c.
 */
#include "families/tree/tree.h"

#include <assert.h>
#include <math.h>

/* Is node (l, j) of a tree over `length` leaves a row of C? */
static int is_row(tree_kind kind, int64_t length, int l, int64_t j) {
    return kind != TREE_VANILLA || ((j + 1) << l) <= length;
}

/* ---- cyclic ---- */

/* Participations first, first + b, ... below n: consecutive ones fall into the same node or into a later one. */
static double count_nodes(const sensitivity_task *task, tree_kind kind, int64_t first) {
    const int64_t length = task->length;
    double sum = 0;
    for (int l = 0; l <= tree_levels(length); l++) {
        int64_t block = -1, node = -1;
        double count = 0;
        for (int64_t t = first; t < task->n; t += task->b) {
            int64_t next_block = t / length, next = (t - next_block * length) >> l;
            if (next != node || next_block != block) {
                sum += count * count;
                count = 0;
            }
            block = next_block;
            node = next;
            count += is_row(kind, length, l, next);
        }
        sum += count * count;
    }
    return sum;
}

static dpmf_status cyclic(const sensitivity_task *task, tree_kind kind, double *square) {
    double largest = 0;
    for (int64_t l = 0; l < task->b && l < task->n; l++) {
        if (l % 1024 == 0)
            TRY(base_progress(task->run, "counting participations in a tree", (double)l / (double)task->b));
        largest = fmax(largest, count_nodes(task, kind, l));
    }
    *square = largest;
    return DPMF_OK;
}

/* ---- shuffled ---- */

/*
 * The best sum of squares under the steps [start, end), by whether the pick of the first epoch that it touches lies
 * there, and that of the last. In one epoch the two are the same pick.
 */
typedef struct epochs {
    int64_t start, end;
    double best[2][2];
} epochs;

static int one_epoch(const epochs *s, int64_t b) {
    return s->start / b == (s->end - 1) / b;
}

static epochs leaf(int64_t t) {
    return (epochs){t, t + 1, {{0, -INFINITY}, {-INFINITY, 1}}};
}

/* Two neighbouring parts, which may share the epoch in which they meet. */
static epochs join(const epochs *left, const epochs *right, int64_t b) {
    epochs out = {left->start, right->end, {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}}};
    const int64_t first = left->start / b, last = (right->end - 1) / b;
    const int64_t before = (left->end - 1) / b, after = right->start / b;
    const int shared = before == after;
    for (int code = 0; code < 16; code++) {
        int p1 = code & 1, q1 = code >> 1 & 1, p2 = code >> 2 & 1, q2 = code >> 3 & 1;
        if (shared && q1 && p2) continue; /* one pick an epoch */
        int has_before = shared ? q1 | p2 : q1, has_after = shared ? q1 | p2 : p2;
        if (before > first && before < last && !has_before) continue;
        if (after > first && after < last && !has_after) continue;
        int p = shared && one_epoch(left, b) ? p1 | p2 : p1;
        int q = shared && one_epoch(right, b) ? q1 | q2 : q2;
        out.best[p][q] = fmax(out.best[p][q], left->best[p1][q1] + right->best[p2][q2]);
    }
    return out;
}

/* Adds the square of the count, which the two bits determine. */
static void add_node(epochs *s, int64_t b) {
    int64_t touched = (s->end - 1) / b - s->start / b + 1;
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++) {
            double count = (double)(touched == 1 ? p : touched - 2 + p + q);
            s->best[p][q] += count * count;
        }
}

static epochs under_node(const sensitivity_task *task, tree_kind kind, int64_t start, int l, int64_t j) {
    if (l == 0) return leaf(start + j);
    epochs left = under_node(task, kind, start, l - 1, 2 * j), out = left;
    if (((2 * j + 1) << (l - 1)) < task->length) {
        epochs right = under_node(task, kind, start, l - 1, 2 * j + 1);
        out = join(&left, &right, task->b);
    }
    if (is_row(kind, task->length, l, j)) add_node(&out, task->b);
    return out;
}

static dpmf_status shuffled(const sensitivity_task *task, tree_kind kind, double *square) {
    const int levels = tree_levels(task->length);
    epochs all = under_node(task, kind, 0, levels, 0);
    for (int64_t s = 1; s < task->stamps; s++) {
        TRY(base_progress(task->run, "counting participations in trees", (double)s / (double)task->stamps));
        epochs next = under_node(task, kind, s * task->length, levels, 0);
        all = join(&all, &next, task->b);
    }
    *square = fmax(fmax(all.best[0][0], all.best[0][1]), fmax(all.best[1][0], all.best[1][1]));
    return DPMF_OK;
}

static dpmf_status separated(const sensitivity_task *task, tree_kind kind, double factor, sensitivity_found *out) {
    double square = 0;
    if (tree_separated_work(task) <= task->work_max / 4) {
        TRY(tree_separated(task, kind, &square));
        sensitivity_found_sum(task, square * factor, SENSITIVITY_METHOD_NODES, out);
        return DPMF_OK;
    }
    if (task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
    sensitivity_task falling = *task;
    falling.falls = 1; /* two steps share fewer nodes the farther they are apart */
    sensitivity_found_improve(out, tree_levels_bound(task) * factor, SENSITIVITY_METHOD_LEVELS);
    return sensitivity_monotone(&falling, out);
}

dpmf_status tree_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done, sensitivity_found *out) {
    const tree_kind kind = tree_kind_of(s);
    const workload_pattern pattern = sensitivity_task_pattern(task);
    double square = 0, factor = 1;
    *done = task->bound != DPMF_BOUND_SPECTRAL && !(task->norms != NULL && kind == TREE_VANILLA) &&
            !(pattern == WORKLOAD_EPOCHS && task->k == 1);
    if (!*done) return DPMF_OK;
    if (task->norms != NULL) factor = 1 / (double)(tree_levels(task->length) + 1); /* touched nodes over any leaf */
    if (pattern == WORKLOAD_APART) return separated(task, kind, factor, out);
    TRY(pattern == WORKLOAD_EPOCHS ? shuffled(task, kind, &square) : cyclic(task, kind, &square));
    sensitivity_found_sum(task, square * factor, SENSITIVITY_METHOD_NODES, out);
    return DPMF_OK;
}
