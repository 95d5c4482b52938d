/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Taps whose weights depend on the step. Notation as in search.c; the unknowns are w_i at nodes of every epoch, with straight
 * lines between them (families/replay/shape.c). Rows of a class of steps (those of one unit, p, p + b, ...) are scaled together,
 *
 *     W = D W',   d_p^2 = s_p = sum |X'| over the pairs of class p,   X' = C'^T C',
 *
 * so that the sensitivity is at most 1 for contributions of norm 1 (Pillutla et al. 2025, Section 3.3.5), and the loss^2 is at most
 * E = sum_u |A D W'[:,u]|^2 / n, to be minimized. With G = A' diag(p) A / n, and V the signs of X' within the classes,
 *
 *     dE = 2 <G D W', d(D W')>,   ds_p = -2 sum_e <Y_e, dW' C_e>,   Y_e = W'^-T sum_g V_eg C_g
 *
 * over the columns C_e of the class: an evaluation with its gradient takes O(n^2 (taps + k)) and no matrix is inverted.
 */
#include "families/taps/taps.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "families/replay/replay.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ITERATIONS = 400, PAIRS = 30, COLUMNS = 8 };

typedef struct tuner {
    const taps_problem *p;
    replay_shape shape;
    int64_t taps, params;
    const int64_t *lag;
    int64_t at_once;          /* classes in a block: at least COLUMNS columns together */
    double *weight, *slope;   /* n x taps: W' and dE/dW' */
    double *scale, *by_scale; /* b: d and dE/dd */
    double *columns;          /* n x n: block by block, step by step, the columns of its classes */
    double *mixed, *back;     /* n x a block's columns */
    double *position;         /* epochs x b x taps */
} tuner;

/* Classes first..last-1 of a block, and their columns: column (p - first) k + e is that of step p + e b, if there is one. */
typedef struct block {
    int64_t first, last, width;
    double *c;
} block;

static block block_at(const tuner *s, int64_t first) {
    const int64_t b = s->p->b, k = s->p->k, last = first + s->at_once < b ? first + s->at_once : b;
    return (block){first, last, (last - first) * k, s->columns + s->p->n * first * k};
}

static void encode(const tuner *s, const block *at) {
    const int64_t n = s->p->n, b = s->p->b, k = s->p->k, width = at->width;
    memset(at->c, 0, (size_t)(n * width) * sizeof *at->c);
    for (int64_t t = at->first; t < n; t++) {
        const double *w = s->weight + t * s->taps;
        double *row = at->c + t * width;
        const int64_t p = t % b;
        if (p >= at->first && p < at->last) row[(p - at->first) * k + t / b] = 1;
        for (int64_t i = 1; i < s->taps && s->lag[i] <= t - at->first; i++) {
            const double *past = row - s->lag[i] * width;
            for (int64_t j = 0; j < width; j++)
                row[j] -= w[i] * past[j];
        }
        for (int64_t j = 0; j < width; j++)
            row[j] /= w[0];
    }
}

/* X' of class p, k x k, and the sum of its absolute values. */
static double class_sum(const tuner *s, const block *at, int64_t p, double *x) {
    const int64_t n = s->p->n, k = s->p->k;
    double sum = 0;
    memset(x, 0, (size_t)(k * k) * sizeof *x);
    for (int64_t t = p; t < n; t++) {
        const double *row = at->c + t * at->width + (p - at->first) * k;
        for (int64_t e = 0; e < k; e++)
            for (int64_t g = 0; g <= e; g++)
                x[e * k + g] += row[e] * row[g];
    }
    for (int64_t e = 0; e < k; e++)
        for (int64_t g = 0; g < e; g++)
            x[g * k + e] = x[e * k + g];
    for (int64_t i = 0; i < k * k; i++)
        sum += fabs(x[i]);
    return sum;
}

/* E, dE/dW' at fixed d, and dE/dd. */
static double error_of(tuner *s) {
    const int64_t n = s->p->n, b = s->p->b;
    const double *gram = s->p->gram;
    double error = 0;
    memset(s->slope, 0, (size_t)(n * s->taps) * sizeof *s->slope);
    memset(s->by_scale, 0, (size_t)b * sizeof *s->by_scale);
    for (int64_t u = 0; u < n; u++) {
        double y[TAPS_MAX];
        int64_t count = 0;
        for (; count < s->taps && u + s->lag[count] < n; count++)
            y[count] = s->scale[(u + s->lag[count]) % b] * s->weight[(u + s->lag[count]) * s->taps + count];
        for (int64_t i = 0; i < count; i++) {
            const int64_t t = u + s->lag[i];
            double sum = 0;
            for (int64_t j = 0; j < count; j++)
                sum += gram[t * n + u + s->lag[j]] * y[j];
            error += sum * y[i];
            s->slope[t * s->taps + i] = 2 * sum * s->scale[t % b];
            s->by_scale[t % b] += 2 * sum * s->weight[t * s->taps + i];
        }
    }
    return error;
}

/* Adds what dE/ds_p, in factor[p - first], gives to dE/dW'. */
static void add_by_squares(tuner *s, const block *at, const double *x, const double *factor) {
    const int64_t n = s->p->n, k = s->p->k, width = at->width;
    for (int64_t t = at->first; t < n; t++)
        for (int64_t p = at->first; p < at->last; p++) {
            const int64_t from = (p - at->first) * k;
            const double *row = at->c + t * width + from, *own = x + (p - at->first) * k * k;
            for (int64_t e = 0; e < k; e++) {
                double sum = 0;
                for (int64_t g = 0; g < k; g++)
                    sum += own[e * k + g] < 0 ? -row[g] : row[g];
                s->mixed[t * width + from + e] = -2 * factor[p - at->first] * sum;
            }
        }
    for (int64_t t = n - 1; t >= at->first; t--) {
        double *row = s->back + t * width;
        memcpy(row, s->mixed + t * width, (size_t)width * sizeof *row);
        for (int64_t i = 1; i < s->taps && t + s->lag[i] < n; i++) {
            const double w = s->weight[(t + s->lag[i]) * s->taps + i], *later = row + s->lag[i] * width;
            for (int64_t j = 0; j < width; j++)
                row[j] -= w * later[j];
        }
        for (int64_t j = 0; j < width; j++)
            row[j] /= s->weight[t * s->taps];
        for (int64_t i = 0; i < s->taps && t + s->lag[i] < n; i++) { /* Y of step t + lag is there already */
            const double *y = row + s->lag[i] * width, *c = at->c + t * width;
            double sum = 0;
            for (int64_t j = 0; j < width; j++)
                sum += y[j] * c[j];
            s->slope[(t + s->lag[i]) * s->taps + i] += sum;
        }
    }
}

static void expand(tuner *s, const double *x) {
    const int64_t n = s->p->n, b = s->p->b, q = s->shape.nodes;
    for (int64_t e = 0; e < s->shape.epochs; e++)
        replay_spread(&s->shape, (int)s->taps, x + e * q * s->taps, s->position + e * b * s->taps);
    memcpy(s->weight, s->position, (size_t)(n * s->taps) * sizeof *s->weight);
    for (int64_t i = 0; i < s->taps; i++)
        for (int64_t t = 0; t < s->lag[i]; t++)
            s->weight[t * s->taps + i] = 0;
}

/* dE/dx from dE/dW'. */
static void collect(tuner *s, double factor, double *gradient) {
    const int64_t n = s->p->n, b = s->p->b, q = s->shape.nodes;
    memset(s->position, 0, (size_t)(s->shape.epochs * b * s->taps) * sizeof *s->position);
    memset(gradient, 0, (size_t)s->params * sizeof *gradient);
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < s->taps && s->lag[i] <= t; i++)
            s->position[t * s->taps + i] = factor * s->slope[t * s->taps + i];
    for (int64_t e = 0; e < s->shape.epochs; e++)
        replay_gather(&s->shape, (int)s->taps, s->position + e * b * s->taps, gradient + e * q * s->taps);
}

static dpmf_status log_loss(void *context, const double *unknown, double *f, double *gradient) {
    tuner *s = context;
    const int64_t b = s->p->b, k = s->p->k;
    double factor[COLUMNS], *x = NULL;
    dpmf_status status = DPMF_OK;
    *f = INFINITY;
    expand(s, unknown);
    for (int64_t t = 0; t < s->p->n; t++)
        if (!(s->weight[t * s->taps] > 0)) return DPMF_OK;
    TRY(base_alloc_doubles(b * k * k, "X of the classes", &x));
    for (int64_t first = 0; first < b; first += s->at_once) {
        const block at = block_at(s, first);
        encode(s, &at);
        for (int64_t p = at.first; p < at.last; p++) {
            const double sum = class_sum(s, &at, p, x + p * k * k);
            if (!(sum > 0) || !isfinite(sum)) goto done;
            s->scale[p] = sqrt(sum);
        }
    }
    const double error = error_of(s);
    if (!(error > 0) || !isfinite(error)) goto done;
    for (int64_t first = 0; first < b; first += s->at_once) {
        const block at = block_at(s, first);
        for (int64_t p = at.first; p < at.last; p++)
            factor[p - at.first] = s->by_scale[p] / (2 * s->scale[p]);
        add_by_squares(s, &at, x + first * k * k, factor);
    }
    collect(s, 0.5 / error, gradient);
    *f = 0.5 * log(error);
done:
    base_free(x);
    return status;
}

static void close_tuner(tuner *s) {
    replay_shape_free(&s->shape);
    base_free(s->weight);
}

static dpmf_status open_tuner(const taps_problem *p, int64_t taps, const int64_t *lag, tuner *s) {
    const int64_t n = p->n;
    *s = (tuner){.p = p, .taps = taps, .lag = lag};
    TRY(replay_shape_create(n, p->b, 1, 1, &s->shape));
    s->params = s->shape.epochs * s->shape.nodes * taps;
    s->at_once = p->k >= COLUMNS ? 1 : COLUMNS / p->k;
    const int64_t width = s->at_once * p->k;
    return BASE_ARRAYS("the weights of every step", {&s->weight, n * taps}, {&s->slope, n * taps}, {&s->scale, p->b},
                       {&s->by_scale, p->b}, {&s->columns, n * p->b * p->k}, {&s->mixed, n * width},
                       {&s->back, n * width}, {&s->position, s->shape.epochs * p->b * taps});
}

dpmf_status taps_tune(const taps_problem *p, int64_t taps, const int64_t *lag, const double *start, double *weight,
                      double *loss, base_minimum *found) {
    tuner s = {0};
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    assert(p->gram != NULL);
    TRY_DONE(open_tuner(p, taps, lag, &s));
    TRY_DONE(base_alloc_doubles(s.params, "the unknowns", &x));
    for (int64_t i = 0; i < s.params; i++)
        x[i] = start[i % taps];
    const base_objective objective = {s.params, &s, log_loss};
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = 1e-6,
                                           .past = 10,
                                           .iterations = ITERATIONS,
                                           .pairs = PAIRS,
                                           .what = "taps of every step",
                                           .run = p->run};
    TRY_DONE(base_minimize(&objective, &options, x, found));
    expand(&s, x);
    for (int64_t first = 0; first < p->b; first += s.at_once) { /* d of the best point */
        const block at = block_at(&s, first);
        double *own = NULL;
        TRY_DONE(base_alloc_doubles(p->k * p->k, "X of a class", &own));
        encode(&s, &at);
        for (int64_t c = at.first; c < at.last; c++)
            s.scale[c] = sqrt(class_sum(&s, &at, c, own));
        base_free(own);
    }
    for (int64_t t = 0; t < p->n; t++)
        for (int64_t i = 0; i < taps; i++)
            weight[t * taps + i] = s.scale[t % p->b] * s.weight[t * taps + i];
    *loss = exp(found->f);
done:
    close_tuner(&s);
    base_free(x);
    return status;
}

dpmf_status taps_tune_value(const taps_problem *p, int64_t taps, const int64_t *lag, int64_t *count, const double *x,
                            double *f, double *gradient) {
    tuner s = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(open_tuner(p, taps, lag, &s));
    *count = s.params;
    if (x != NULL) status = log_loss(&s, x, f, gradient);
done:
    close_tuner(&s);
    return status;
}
