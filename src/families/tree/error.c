/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of tree aggregation under a named workload (error/error.h), O(log n) a step: the noise depends on the past through
 * the few pending nodes only, so their covariance with the workload's state is all that has to be carried.
 *
 * tree, tree-online: the estimates E_l of pending nodes are independent of each other, with variance v_l = 1 or
 * 2^l/(2^(l+1)-1); carry Cov(m, E_l) and Cov(o, E_l).
 *
 * tree-full: the pending right halves are not independent; carry the covariance matrix of (o, m, current node, pending
 * halves), of order L + 3, through the splits of families/tree/object.c.
 *
 * For stamps the pending nodes start anew in each block while m and o go on. `scale` multiplies the noise of a step.
 */
#include "base/memory.h"
#include "families/tree/tree.h"
#include "strategy/strategy.h"

#include <string.h>

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

/* m <- beta m + y, o <- keep o + p m + g y with y = scale x. */
static void drive_workload(full *s, const error_drive *d, double scale) {
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
}

static void full_step(full *s, int64_t t, const error_drive *d, double scale) {
    int levels = s->weights.levels;
    open_node(s, t);
    for (int l = (t == 0 ? levels : tree_trailing_zeros(t)) - 1; l >= 0; l--) {
        double left = tree_weight(&s->weights, l, t >> l);
        double right = tree_weight(&s->weights, l, (t >> l) + 1);
        if (right > 0) split_node(s, l, left / (left + right), left / (left + right) * right);
    }
    drive_workload(s, d, scale);
    clear(s, X);
}

dpmf_status tree_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
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
            full_step(whole, t % length, &d, by);
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
