/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Participations counted under the nodes of a tree over the steps, for any tree whose rows of C are indicators of nodes:
 *
 *     sensitivity^2 = max over patterns of the sum over rows of (number of participations under the node)^2.
 *
 * The callers walk over their trees (families/tree/sensitivity.c, families/tree/smooth_sensitivity.c); here are the two states
 * that are joined where leaves meet.
 *
 * Shuffled: of the picks of an epoch that a node cuts, it matters only whether they lie under it. A node cuts at most two
 * epochs, one at either end; epochs that lie wholly under it have their pick there, since adding one never lowers a
 * count. So four values are enough for a node.
 *
 * Min-separation: the largest sum over at most k steps any two of which are at least b apart. Evenly spaced steps are not always
 * the worst. For some neighbouring leaves, in order, let
 *
 *     F[c][s][e] = the largest sum over the rows inside, with c >= 1 participations, the first of them at least s leaves
 *                  from the left end and the last at least e leaves from the right end, s, e < b.
 *
 * Two neighbouring parts A and B, of a and b' leaves, join as
 *
 *     F[c][s][e] = max { A[c][s][max(0, e-b')],  B[c][max(0, s-a)][e],
 *                        max A[c1][s][e1] + B[c-c1][b-1-e1][e] over c1 and e1 },
 *
 * and the node over them, if it is a row of C, adds c^2.
 */
#include "families/tree/tree.h"

#include "base/memory.h"

#include <math.h>
#include <string.h>

tree_epochs tree_epochs_leaf(int64_t t, double own) {
    return (tree_epochs){t, t + 1, {{0, -INFINITY}, {-INFINITY, own}}};
}

static int one_epoch(const tree_epochs *s, int64_t b) {
    return s->start / b == (s->end - 1) / b;
}

/* Two neighbouring parts, which may share the epoch in which they meet. */
tree_epochs tree_epochs_join(const tree_epochs *left, const tree_epochs *right, int64_t b) {
    tree_epochs out = {left->start, right->end, {{-INFINITY, -INFINITY}, {-INFINITY, -INFINITY}}};
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
void tree_epochs_add_node(tree_epochs *s, int64_t b) {
    int64_t touched = (s->end - 1) / b - s->start / b + 1;
    for (int p = 0; p < 2; p++)
        for (int q = 0; q < 2; q++) {
            double count = (double)(touched == 1 ? p : touched - 2 + p + q);
            s->best[p][q] += count * count;
        }
}

double tree_epochs_best(const tree_epochs *s) {
    return fmax(fmax(s->best[0][0], s->best[0][1]), fmax(s->best[1][0], s->best[1][1]));
}

static double *row_of(const tree_places *x, int64_t c, int64_t s) {
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

static dpmf_status make(const sensitivity_task *task, int64_t leaves, tree_places *out) {
    tree_places x = {leaves, counts_in(task, leaves), ends_in(task, leaves), NULL};
    int64_t numbers = x.counts * x.ends * x.ends;
    TRY(base_alloc_doubles(numbers, "participations in a tree", &x.f));
    for (int64_t i = 0; i < numbers; i++)
        x.f[i] = -INFINITY;
    *out = x;
    return DPMF_OK;
}

void tree_places_free(tree_places *x) {
    base_free(x->f);
    *x = (tree_places){0};
}

void tree_places_add_node(tree_places *x) {
    for (int64_t c = 1; c <= x->counts; c++) {
        double *f = row_of(x, c, 0);
        for (int64_t i = 0; i < x->ends * x->ends; i++)
            f[i] += (double)(c * c);
    }
}

dpmf_status tree_places_append(const sensitivity_task *task, tree_places *whole, const tree_places *b) {
    const tree_places *a = whole;
    tree_places x = {0};
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
    tree_places_free(whole);
    *whole = x;
    x.f = NULL;
done:
    tree_places_free(&x);
    return status;
}

dpmf_status tree_places_leaf(const sensitivity_task *task, double own, tree_places *out) {
    TRY(make(task, 1, out));
    out->f[0] = own;
    return DPMF_OK;
}

dpmf_status tree_places_copy(const tree_places *x, tree_places *out) {
    const int64_t numbers = x->counts * x->ends * x->ends;
    tree_places copy = *x;
    TRY(base_alloc_doubles(numbers, "participations in a tree", &copy.f));
    memcpy(copy.f, x->f, (size_t)numbers * sizeof *copy.f);
    *out = copy;
    return DPMF_OK;
}

double tree_places_best(const tree_places *x) {
    double largest = 0;
    for (int64_t c = 1; c <= x->counts; c++)
        largest = fmax(largest, row_of(x, c, 0)[0]);
    return largest;
}

double tree_places_numbers(const sensitivity_task *task, int64_t leaves) {
    const double ends = (double)ends_in(task, leaves);
    return (double)counts_in(task, leaves) * ends * ends;
}

double tree_places_work(const sensitivity_task *task, int64_t left, int64_t right) {
    double pairs = (double)counts_in(task, left) * (double)counts_in(task, right);
    return pairs * (double)ends_in(task, left) * (double)ends_in(task, left) * (double)ends_in(task, right) +
           tree_places_numbers(task, left + right);
}
