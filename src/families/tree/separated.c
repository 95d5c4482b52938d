/* SPDX-License-Identifier: Apache-2.0 */
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
#include "families/tree/tree.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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

/* One of the two parts has no participation. */
static void join_one(const table *a, const table *b, table *out) {
    for (int64_t c = 1; c <= a->counts; c++)
        for (int64_t s = 0; s < a->ends; s++)
            for (int64_t e = 0; e < out->ends; e++) {
                int64_t inside = e < b->leaves ? 0 : e - b->leaves;
                double *to = row_of(out, c, s) + e;
                if (inside < a->ends) *to = fmax(*to, row_of(a, c, s)[inside]);
            }
    for (int64_t c = 1; c <= b->counts; c++)
        for (int64_t s = 0; s < out->ends; s++) {
            int64_t inside = s < a->leaves ? 0 : s - a->leaves;
            double *to = row_of(out, c, s);
            if (inside >= b->ends) continue;
            for (int64_t e = 0; e < b->ends; e++)
                to[e] = fmax(to[e], row_of(b, c, inside)[e]);
        }
}

/* Both have some: the last of A and the first of B are e1 + 1 + s2 >= separation apart. */
static void join_both(const table *a, int64_t c1, const table *b, int64_t c2, int64_t separation, table *out) {
    for (int64_t s = 0; s < a->ends; s++) {
        double *to = row_of(out, c1 + c2, s);
        for (int64_t e1 = 0; e1 < a->ends; e1++) {
            double left = row_of(a, c1, s)[e1];
            int64_t s2 = separation - 1 - e1;
            if (left == -INFINITY || s2 >= b->ends) continue;
            const double *right = row_of(b, c2, s2);
            for (int64_t e = 0; e < b->ends; e++)
                to[e] = to[e] > left + right[e] ? to[e] : left + right[e];
        }
    }
}

static void add_squares(table *x) {
    for (int64_t c = 1; c <= x->counts; c++) {
        double *f = row_of(x, c, 0);
        for (int64_t i = 0; i < x->ends * x->ends; i++)
            f[i] += (double)(c * c);
    }
}

static dpmf_status join(const sensitivity_task *task, const table *a, const table *b, int own, table *out) {
    table x = {0};
    dpmf_status status = DPMF_OK;
    TRY(make(task, a->leaves + b->leaves, &x));
    join_one(a, b, &x);
    for (int64_t c1 = 1; c1 <= a->counts; c1++) {
        for (int64_t c2 = 1; c2 <= b->counts && c1 + c2 <= x.counts; c2++)
            join_both(a, c1, b, c2, task->b, &x);
        TRY_DONE(base_progress(task->run, "placing participations in a tree", -1));
    }
    if (own) add_squares(&x);
    *out = x;
    x.f = NULL;
done:
    drop(&x);
    return status;
}

static dpmf_status leaf(const sensitivity_task *task, table *out) {
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
        TRY(join(task, complete, last, own, &next));
        drop(last);
        *last = next;
    } else if (own) { /* the right half has no leaf */
        add_squares(last);
    }
    if ((int64_t)1 << l >= n) return DPMF_OK; /* this was the root */
    TRY(join(task, complete, complete, 1, &next));
    drop(complete);
    *complete = next;
    return DPMF_OK;
}

dpmf_status tree_separated(const sensitivity_task *task, tree_kind kind, double *square) {
    table complete = {0}, last = {0}, all = {0}, next = {0};
    double largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(leaf(task, &complete));
    TRY_DONE(leaf(task, &last));
    for (int l = 1; l <= tree_levels(task->length); l++)
        TRY_DONE(climb(task, kind, l, &complete, &last));
    for (int64_t s = 1; s < task->stamps; s++) { /* trees side by side */
        TRY_DONE(join(task, s == 1 ? &last : &all, &last, 0, &next));
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

/* ---- what it costs, and the bound instead ---- */

static double join_work(const sensitivity_task *task, int64_t a, int64_t b) {
    double pairs = (double)counts_in(task, a) * (double)counts_in(task, b);
    double ends = (double)ends_in(task, a + b);
    return pairs * (double)ends_in(task, a) * (double)ends_in(task, a) * (double)ends_in(task, b) +
           (double)counts_in(task, a + b) * ends * ends;
}

double tree_separated_work(const sensitivity_task *task) {
    const double ends = (double)ends_in(task, task->n), numbers = (double)counts_in(task, task->n) * ends * ends;
    double work = 0;
    if (2 * numbers * (double)sizeof(double) > (double)task->bytes_max) return INFINITY;
    for (int64_t leaves = 1; leaves < task->length; leaves *= 2)
        work += 2 * join_work(task, leaves, smaller(leaves, task->length - leaves));
    for (int64_t s = 1; s < task->stamps; s++)
        work += join_work(task, s * task->length, task->length);
    return work;
}

double tree_levels_bound(const sensitivity_task *task) {
    double sum = 0;
    for (int l = 0; l <= tree_levels(task->length); l++) {
        int64_t m = smaller(task->k, 1 + (((int64_t)1 << l) - 1) / task->b);
        double full = (double)m, rest = (double)(task->k % m);
        sum += (double)(task->k / m) * full * full + rest * rest;
    }
    return sum;
}
