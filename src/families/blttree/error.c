/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of the recursive tree over a BLT (families/blttree/blttree.h).
 *
 * Named workloads, step by step. The noise of step t, whose item is of level c, is y - (sum over l < c of S_l): y is the next
 * output of that level's BLT and S_l the running sum of a level that ends here. Different levels have different seeds, so only
 * their covariances with the workload's m and o (error/error.h) connect them. A running sum is one more buffer, of scale
 * and gap 0, so that a level is the recursion of families/blt/object.c, and levels above c change through m and o alone.
 *
 * Prefix sums in closed form (families/blt/algebra.c): the squared error of step t is the sum over levels of e_l[u_l], u = t +
 * 1, with e_l[i] = |B_l[i-1,:]|^2 / w_l^2. A digit runs through its values M_l steps at a time, so that the sum over all
 * steps needs e_l of one digit and two sums of e_l. e_l rises, so that the largest error is at u = n or where
 * one digit of n is one less and those below it are all at their ends: one more candidate for each level.
 */
#include "families/blttree/blttree.h"

#include "base/memory.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { SIDE = BLT_MAX + 1 };

/* ---- named workloads ---- */

typedef struct moments {
    double ss[SIDE][SIDE], mom[SIDE], o[SIDE]; /* the running sum is the last of `count` + 1 */
} moments;

static double scale_of(const blttree_level *l, int i) {
    return i < l->c.count ? l->c.scale[i] : 0;
}

static double keep_of(const blttree_level *l, int i) {
    return i < l->c.count ? 1 - l->c.gap[i] : 1;
}

/* Covariances of one step's row with m and o, and its variance. */
typedef struct row_moments {
    double yy, mom, o;
} row_moments;

/* The output y of the level's BLT; u = its covariance with each buffer. */
static row_moments output_of(const blttree_level *l, const moments *k, double *u) {
    row_moments y = {.yy = 1 / (l->weight * l->weight)};
    for (int i = 0; i <= l->c.count; i++) {
        u[i] = 0;
        for (int j = 0; j < l->c.count; j++)
            u[i] -= k->ss[i][j] * l->c.scale[j];
        y.yy -= scale_of(l, i) * u[i];
        y.mom -= scale_of(l, i) * k->mom[i];
        y.o -= scale_of(l, i) * k->o[i];
    }
    return y;
}

static void move_level(const blttree_level *l, const error_drive *d, double factor, const row_moments *y, double *u,
                       moments *k) {
    const int side = l->c.count + 1;
    for (int i = 0; i < side; i++) {
        u[i] *= keep_of(l, i);
        const double mom = keep_of(l, i) * k->mom[i] + y->mom, o = keep_of(l, i) * k->o[i] + y->o;
        const double now = factor * (u[i] + y->yy);
        k->o[i] = d->keep * o + d->p * mom + d->g * now;
        k->mom[i] = d->beta * mom + now;
    }
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            k->ss[i][j] = keep_of(l, i) * keep_of(l, j) * k->ss[i][j] + (u[i] + u[j]) + y->yy;
}

static void advance(const blttree_strategy *s, int64_t t, double factor, const error_drive *d, moments *k,
                    error_moments *v) {
    const int c = blttree_level_at(s, t);
    double u[SIDE];
    row_moments y = output_of(&s->level[c], &k[c], u), row = y;
    for (int l = 0; l < c; l++) {
        const int sum = s->level[l].c.count;
        row.yy += k[l].ss[sum][sum];
        row.mom -= k[l].mom[sum];
        row.o -= k[l].o[sum];
    }
    error_moments_advance(d, factor * factor * row.yy, factor * row.mom, factor * row.o, v);
    for (int l = c + 1; l < s->levels; l++)
        for (int i = 0; i <= s->level[l].c.count; i++) {
            k[l].o[i] = d->keep * k[l].o[i] + d->p * k[l].mom[i];
            k[l].mom[i] *= d->beta;
        }
    /* What the row takes from the levels below is independent of this level's buffers, but not of m and o. */
    move_level(&s->level[c], d, factor, &y, u, &k[c]);
    memset(k, 0, (size_t)c * sizeof *k);
}

dpmf_status blttree_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const blttree_strategy *tree = blttree_of(s);
    error_moments v = {0};
    moments *k = NULL;
    dpmf_status status = DPMF_OK;
    *done = q->a->form == WORKLOAD_NAMED;
    if (!*done) return DPMF_OK;
    TRY(base_alloc(tree->levels, sizeof *k, "covariances", (void **)&k));
    for (int64_t stamp = 0; stamp < q->stamps; stamp++) {
        memset(k, 0, (size_t)tree->levels * sizeof *k); /* the noise restarts, the workload does not */
        for (int64_t t = 0; t < s->steps; t++) {
            const int64_t at = stamp * s->steps + t;
            TRY_DONE(error_report(q->run, at, q->stamps * s->steps, 4 * SIDE * SIDE));
            const error_drive d = error_drive_at(q->a, at);
            advance(tree, t, q->scale == NULL ? 1 : q->scale[at], &d, k, &v);
            squares[at] = v.oo;
        }
    }
done:
    base_free(k);
    return status;
}

/* ---- prefix sums in closed form ---- */

/* e_l of this number of items; and its sum for 1, 2, ..., items. */
static double row_square(const blttree_level *l, int64_t items) {
    return items == 0 ? 0 : blt_last_row_square(&l->inverse, items) / (l->weight * l->weight);
}

static double row_squares(const blttree_level *l, int64_t items) {
    return items == 0 ? 0 : blt_frobenius_square(&l->inverse, items) / (l->weight * l->weight);
}

static double at_digits(const blttree_strategy *s, const int64_t *digit) {
    double sum = 0;
    for (int l = 0; l < s->levels; l++)
        sum += row_square(&s->level[l], digit[l]);
    return sum;
}

static void fill_digits(const blttree_strategy *s, int64_t u, int64_t *digit) {
    for (int l = 0; l < s->levels; l++)
        digit[l] = u / s->level[l].span % s->level[l].branching;
}

int blttree_error_range(const dpmf_strategy *s, const dpmf_workload *a, int64_t first, int64_t count, double *squares) {
    int64_t digit[BLTTREE_LEVELS_MAX];
    if (!workload_is_prefix(a)) return 0;
    for (int64_t i = 0; i < count; i++) {
        fill_digits(blttree_of(s), first + i + 1, digit);
        squares[i] = at_digits(blttree_of(s), digit);
    }
    return 1;
}

int blttree_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest) {
    const blttree_strategy *tree = blttree_of(s);
    const int64_t n = s->steps;
    int64_t digit[BLTTREE_LEVELS_MAX], other[BLTTREE_LEVELS_MAX];
    if (!workload_is_prefix(a)) return 0;
    fill_digits(tree, n, digit);
    *total = 0;
    *largest = at_digits(tree, digit);
    for (int l = 0; l < tree->levels; l++) {
        const blttree_level *level = &tree->level[l];
        /* u = 0, ..., n: whole runs of all digits, then those below digit[l], then digit[l] itself */
        const double span = (double)level->span, runs = (double)(n / level->span / level->branching);
        *total += runs * span * row_squares(level, level->items) +
                  span * row_squares(level, digit[l] > 0 ? digit[l] - 1 : 0) +
                  (double)(n % level->span + 1) * row_square(level, digit[l]);
        if (digit[l] == 0) continue;
        memcpy(other, digit, sizeof other);
        other[l]--;
        for (int below = 0; below < l; below++)
            other[below] = tree->level[below].branching - 1;
        *largest = fmax(*largest, at_digits(tree, other));
    }
    return 1;
}
