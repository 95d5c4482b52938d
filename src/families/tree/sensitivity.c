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
 *     min-sep   a dynamic program, below
 */
#include "families/tree/tree.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

int tree_bit_length(int64_t x) {
    return x == 0 ? 0 : 64 - __builtin_clzll((unsigned long long)x);
}

int tree_levels(int64_t steps) {
    return tree_bit_length(steps - 1);
}

tree_kind tree_kind_of(const dpmf_strategy *s) {
    return ((const tree_strategy *)s)->kind;
}

/* Is node (l, j) of a tree over `length` leaves a row of C? */
static int is_row(tree_kind kind, int64_t length, int l, int64_t j) {
    return kind != TREE_VANILLA || ((j + 1) << l) <= length;
}

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
    if (l == 0) {
        int64_t t = start + j;
        return (epochs){t, t + 1, {{0, -INFINITY}, {-INFINITY, 1}}};
    }
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

/*
 * Trees under min-separation participation: the largest sum over nodes of (participations under the node)^2, over at
 * most k steps any two of which are at least b apart. Evenly spaced steps are not always the worst.
 *
 * A dynamic program over the tree. For the leaves under a node, in order, let
 *
 *     F[c][s][e] = the largest sum over the nodes below and this one, with c >= 1 participations, the first of them at
 *                  least s leaves from the left end and the last at least e leaves from the right end, s, e < b.
 *
 * Two neighbouring parts A and B, of a and b' leaves, join as
 *
 *     F[c][s][e] = max { A[c][s][max(0, e-b')],  B[c][max(0, s-a)][e],
 *                        max A[c1][s][e1] + B[c-c1][b-1-e1][e] over c1 and e1 },
 *
 * and the node over them, if it is a row of C, adds c^2. Complete nodes of one level have one table, so that a level
 * needs one join, and one more for the node over the last leaf. About n^2 b multiplications in all; for larger trees
 *
 *     sum over levels of  (k div m) m^2 + (k mod m)^2,   m = min(k, ceil(2^l / b)),
 *
 * is an upper bound: no node of level l has more than m participations, and a level has k in all.
 */

typedef struct table {
    int64_t leaves, counts, ends; /* c = 1..counts, s and e = 0..ends-1 */
    double *f;
} table;

static double *row_of(const table *x, int64_t c, int64_t s) {
    return x->f + ((c - 1) * x->ends + s) * x->ends;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t counts_in(const sensitivity_task *task, int64_t leaves) {
    return smaller(task->k, 1 + (leaves - 1) / task->b);
}

/* Beyond the leaves there is no room for a participation. */
static int64_t ends_in(const sensitivity_task *task, int64_t leaves) {
    return smaller(task->b, leaves);
}

static dpmf_status make(const sensitivity_task *task, int64_t leaves, table *out) {
    table x = {leaves, counts_in(task, leaves), ends_in(task, leaves), NULL};
    int64_t numbers = x.counts * x.ends * x.ends;
    TRY(base_alloc_doubles(numbers, "participations in a tree", &x.f));
    for (int64_t i = 0; i < numbers; i++)
        x.f[i] = -INFINITY;
    *out = x;
    return DPMF_OK;
}

static void drop(table *x) {
    base_free(x->f);
    *x = (table){0};
}

static void add_squares(table *x) {
    for (int64_t c = 1; c <= x->counts; c++) {
        double *f = row_of(x, c, 0);
        for (int64_t i = 0; i < x->ends * x->ends; i++)
            f[i] += (double)(c * c);
    }
}

static dpmf_status join_tables(const sensitivity_task *task, const table *a, const table *b, int own, table *out) {
    table x = {0};
    dpmf_status status = DPMF_OK;
    TRY(make(task, a->leaves + b->leaves, &x));
    /* One of the two parts has no participation. */
    for (int64_t c = 1; c <= a->counts; c++)
        for (int64_t s = 0; s < a->ends; s++)
            for (int64_t e = 0; e < x.ends; e++) {
                int64_t inside = e < b->leaves ? 0 : e - b->leaves;
                double *to = row_of(&x, c, s) + e;
                if (inside < a->ends) *to = fmax(*to, row_of(a, c, s)[inside]);
            }
    for (int64_t c = 1; c <= b->counts; c++)
        for (int64_t s = 0; s < x.ends; s++) {
            int64_t inside = s < a->leaves ? 0 : s - a->leaves;
            double *to = row_of(&x, c, s);
            if (inside >= b->ends) continue;
            for (int64_t e = 0; e < b->ends; e++)
                to[e] = fmax(to[e], row_of(b, c, inside)[e]);
        }
    for (int64_t c1 = 1; c1 <= a->counts; c1++) {
        for (int64_t c2 = 1; c2 <= b->counts && c1 + c2 <= x.counts; c2++) {
            /* Both have some: the last of A and the first of B are e1 + 1 + s2 >= separation apart. */
            for (int64_t s = 0; s < a->ends; s++) {
                double *to = row_of(&x, c1 + c2, s);
                for (int64_t e1 = 0; e1 < a->ends; e1++) {
                    double left = row_of(a, c1, s)[e1];
                    int64_t s2 = task->b - 1 - e1;
                    if (left == -INFINITY || s2 >= b->ends) continue;
                    const double *right = row_of(b, c2, s2);
                    for (int64_t e = 0; e < b->ends; e++)
                        to[e] = to[e] > left + right[e] ? to[e] : left + right[e];
                }
            }
        }
        TRY_DONE(base_progress(task->run, "placing participations in a tree", -1));
    }
    if (own) add_squares(&x);
    *out = x;
    x.f = NULL;
done:
    drop(&x);
    return status;
}

static dpmf_status leaf_table(const sensitivity_task *task, table *out) {
    TRY(make(task, 1, out));
    out->f[0] = 1;
    return DPMF_OK;
}

/* One level up: *complete and *last, the node over the last leaf, become those of level l. */
static dpmf_status climb(const sensitivity_task *task, tree_kind kind, int l, table *complete, table *last) {
    const int64_t n = task->length;
    int own = kind != TREE_VANILLA || n % ((int64_t)1 << l) == 0;
    table next = {0};
    if ((n - 1) >> (l - 1) & 1) {
        TRY(join_tables(task, complete, last, own, &next));
        drop(last);
        *last = next;
    } else if (own) { /* the right half has no leaf */
        add_squares(last);
    }
    if ((int64_t)1 << l >= n) return DPMF_OK; /* this was the root */
    TRY(join_tables(task, complete, complete, 1, &next));
    drop(complete);
    *complete = next;
    return DPMF_OK;
}

static dpmf_status tree_separated(const sensitivity_task *task, tree_kind kind, double *square) {
    table complete = {0}, last = {0}, all = {0}, next = {0};
    double largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(leaf_table(task, &complete));
    TRY_DONE(leaf_table(task, &last));
    for (int l = 1; l <= tree_levels(task->length); l++)
        TRY_DONE(climb(task, kind, l, &complete, &last));
    for (int64_t s = 1; s < task->stamps; s++) { /* trees side by side */
        TRY_DONE(join_tables(task, s == 1 ? &last : &all, &last, 0, &next));
        drop(&all);
        all = next;
    }
    const table *whole = task->stamps == 1 ? &last : &all;
    assert(whole->leaves == task->n);
    for (int64_t c = 1; c <= whole->counts; c++)
        largest = fmax(largest, row_of(whole, c, 0)[0]);
    *square = largest;
done:
    drop(&complete);
    drop(&last);
    drop(&all);
    return status;
}

static double join_work(const sensitivity_task *task, int64_t a, int64_t b) {
    double pairs = (double)counts_in(task, a) * (double)counts_in(task, b);
    double ends = (double)ends_in(task, a + b);
    return pairs * (double)ends_in(task, a) * (double)ends_in(task, a) * (double)ends_in(task, b) +
           (double)counts_in(task, a + b) * ends * ends;
}

static double tree_separated_work(const sensitivity_task *task) {
    const double ends = (double)ends_in(task, task->n), numbers = (double)counts_in(task, task->n) * ends * ends;
    double work = 0;
    if (2 * numbers * (double)sizeof(double) > (double)task->bytes_max) return INFINITY;
    for (int64_t leaves = 1; leaves < task->length; leaves *= 2)
        work += 2 * join_work(task, leaves, smaller(leaves, task->length - leaves));
    for (int64_t s = 1; s < task->stamps; s++)
        work += join_work(task, s * task->length, task->length);
    return work;
}

static double tree_levels_bound(const sensitivity_task *task) {
    double sum = 0;
    for (int l = 0; l <= tree_levels(task->length); l++) {
        int64_t m = smaller(task->k, 1 + (((int64_t)1 << l) - 1) / task->b);
        double full = (double)m, rest = (double)(task->k % m);
        sum += (double)(task->k / m) * full * full + rest * rest;
    }
    return sum;
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
    TRY(sensitivity_check_visits((double)task->n));
    TRY(pattern == WORKLOAD_EPOCHS ? shuffled(task, kind, &square) : cyclic(task, kind, &square));
    sensitivity_found_sum(task, square * factor, SENSITIVITY_METHOD_NODES, out);
    return DPMF_OK;
}
