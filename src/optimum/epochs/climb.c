/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maximises the dual of optimum/epochs/epochs.c by limited-memory BFGS. V must stay positive definite with a constant
 * diagonal in each class, without constraints on the unknowns:
 *
 *     V_i = e^theta_i R R',   row r of R = (m_r0, ..., m_r,r-1, 1, 0, ...) over its norm,
 *
 * so that V_i has e^theta_i on its whole diagonal. For the max loss p_t = y_t^2. The objective is trace^2 / (sum_i
 * e^theta_i sum_t p_t), which a scaling of V or p does not change; its inverse is minimised. With N = tr V X, dN/dV =
 * X/2:
 *
 *     d ln N / d theta_i = <V_i, X_i> / 2N,
 *     d ln N / d m = strictly lower part of (G - diag(row sums of G o R) R) / row norms,   G = e^theta_i X_i R / N,
 *     d ln N / d ln p_t = rows_t / 2N.
 *
 * With momentum and many epochs the optimum lies at the edge, V nearly singular, and for the max loss many steps have
 * no weight, but the error of a step that loses its weight too early is not bounded. So a barrier mu (ln det V + sum ln
 * p_t) is added. At its top Y = X + mu N V^-1, which is no worse than X for any error, satisfies all constraints up to
 * a common factor, and the bounds that follow are 1 + mu n apart for V, and as much for p.
 */
#include "base/linalg.h"

#include "base/memory.h"
#include "base/minimize.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

void epochs_climb_free(epochs_climb *c) {
    base_free(c->y);
    base_free(c->best);
    base_free(c->trend);
    base_free(c->point.lower);
    base_free(c->point.p);
    base_free(c->point.blocks);
    base_free(c->point.added);
    base_free(c->point.rows);
    *c = (epochs_climb){0};
}

/*
 * A unit that contributes 1 at each of its steps moves C g by at most 1, and A g by A g: its squared norm (max loss: largest
 * square) is a lower bound. With momentum the max loss often attains it; the dual, at its domain's edge, only comes near it.
 */
static dpmf_status contribution_bound(const optimum_epochs *e, double *bound) {
    const double work = 2e7; /* the first unit has the longest sums; of many, some are tried */
    double *sums = NULL, largest = 0;
    int64_t every = 1 + (int64_t)((double)e->b * (double)e->n / work);
    TRY(base_alloc_doubles(e->n, "one unit's contribution", &sums));
    dpmf_status status = DPMF_OK;
    for (int64_t i = 0; i < e->b && i < e->n && status == DPMF_OK; i += every) {
        double total = 0;
        memset(sums, 0, (size_t)e->n * sizeof *sums);
        for (int64_t t = i; t < e->n; t += e->b)
            sums[t] = 1;
        status = dpmf_workload_apply(e->workload, sums, sums);
        for (int64_t t = i; t < e->n; t++) {
            double square = sums[t] * sums[t] * (e->weights == NULL ? 1 : e->weights[t]);
            total = e->max_loss ? fmax(total, square) : total + square;
        }
        largest = fmax(largest, total);
    }
    base_free(sums);
    *bound = largest * (1 - 16 * (double)e->n * DBL_EPSILON);
    return status;
}

/*
 * ---- a closed form ----
 *
 * The start of an ascent without shorter epochs to start from. V = X^-1 A'A X^-1 at the optimum, and A'A of prefix sums
 * has the correlations sqrt((n - u)/(n - t)) between steps t < u; X takes a part of them away. The diagonal falls along
 * the epoch.
 */

static dpmf_status guess_start(epochs_climb *c) {
    const double kept = 0.8, slope = 0.2;
    const int64_t k = c->epochs->k, b = c->epochs->b;
    double *l = NULL;
    TRY(base_alloc_doubles(k * k, "a factor of V", &l));
    for (int64_t i = 0; i < b; i++) {
        const double share = ((double)i + 0.5) / (double)b;
        double *m = c->y + b + i * c->correlations;
        c->y[i] = -slope * log(share / (1 - share));
        for (int64_t e = 0; e < k; m += e, e++) {
            double left = 1;
            for (int64_t f = 0; f < e; f++) {
                const double wanted = kept * sqrt(((double)(k - e) - share) / ((double)(k - f) - share));
                l[e * k + f] = (wanted - base_dot(f, l + e * k, l + f * k)) / l[f * k + f];
                left -= l[e * k + f] * l[e * k + f];
            }
            l[e * k + e] = sqrt(left); /* 1 - kept at least: part of the identity is in it */
            for (int64_t f = 0; f < e; f++)
                m[f] = l[e * k + f] / l[e * k + e];
        }
    }
    base_free(l);
    return DPMF_OK;
}

dpmf_status epochs_climb_create(optimum_epochs *e, double tolerance, const dpmf_run *run, epochs_climb *out) {
    epochs_climb c = {.epochs = e, .run = run, .tolerance = tolerance, .scale = 1, .upper = INFINITY};
    dpmf_status status = DPMF_OK;
    e->run = run;
    c.correlations = e->k * (e->k - 1) / 2;
    c.first_weight = e->b * (1 + c.correlations);
    c.unknowns = c.first_weight + (e->max_loss ? e->n : 0);
    TRY_DONE(base_alloc_doubles(c.unknowns, "the dual variables", &c.y));
    TRY_DONE(base_alloc_doubles(c.unknowns, "the dual variables", &c.best));
    TRY_DONE(base_alloc_doubles(c.first_weight, "the trend of V", &c.trend));
    TRY_DONE(contribution_bound(e, &c.lower));
    TRY_DONE(base_alloc_doubles(e->b * e->k * e->k, "the factors of V", &c.point.lower));
    TRY_DONE(base_alloc_doubles(e->b * e->k * e->k, "the blocks of X", &c.point.blocks));
    TRY_DONE(base_alloc_doubles(e->b * e->k * e->k, "the blocks added to X", &c.point.added));
    if (e->max_loss) {
        TRY_DONE(base_alloc_doubles(e->n, "the weights of the rows", &c.point.p));
        TRY_DONE(base_alloc_doubles(e->n, "the rows", &c.point.rows));
    }
    for (int64_t t = c.first_weight; t < c.unknowns; t++)
        c.y[t] = 1;
    TRY_DONE(guess_start(&c));
    *out = c;
    c = (epochs_climb){0};
done:
    epochs_climb_free(&c);
    return status;
}

/* ---- the parametrization ---- */

static const double *correlations_of(const epochs_climb *c, const double *y, int64_t i) {
    return y + c->epochs->b + i * c->correlations;
}

static int past(const optimum_epochs *e, int64_t i, int64_t member) {
    return i + member * e->b >= e->n;
}

static double row_norm(int64_t r, const double *m) {
    double squares = 1;
    for (int64_t c = 0; c < r; c++)
        squares += m[c] * m[c];
    return sqrt(squares);
}

static void unpack(const epochs_climb *c, const double *y, epochs_point *point) {
    const optimum_epochs *e = c->epochs;
    int64_t k = e->k;
    memset(point->lower, 0, (size_t)(e->b * k * k) * sizeof *point->lower);
    for (int64_t i = 0; i < e->b; i++) {
        const double *m = correlations_of(c, y, i);
        double root = exp(0.5 * y[i]);
        for (int64_t r = 0; r < k; m += r, r++) {
            double *row = point->lower + (i * k + r) * k, scale = root / row_norm(r, m);
            row[r] = past(e, i, r) ? 1 : scale;
            for (int64_t q = 0; q < r && !past(e, i, r); q++)
                row[q] = scale * m[q];
        }
    }
    for (int64_t t = 0; e->max_loss && t < e->n; t++) {
        double root = y[c->first_weight + t];
        point->p[t] = root * root;
    }
}

static double sum_of_diagonals(const epochs_climb *c, const double *y) {
    double sum = 0;
    for (int64_t i = 0; i < c->epochs->b; i++)
        sum += exp(y[i]);
    return sum;
}

static double sum_of_weights(const epochs_climb *c) {
    return c->epochs->max_loss ? base_sum(c->epochs->n, c->point.p) : 1;
}

/* Both barriers, with V and p over their means, which makes them invariant to scaling. */
static double barrier_of(const epochs_climb *c, const double *y, double total, double weights) {
    const optimum_epochs *e = c->epochs;
    double sum = -(double)e->n * log(total / (double)e->b);
    if (c->barrier == 0) return 0;
    for (int64_t i = 0; i < e->b; i++) {
        const double *m = correlations_of(c, y, i);
        for (int64_t r = 0; r < e->k && !past(e, i, r); m += r, r++)
            sum += y[i] - 2 * log(row_norm(r, m));
    }
    for (int64_t t = 0; e->max_loss && t < e->n; t++)
        sum += log(c->point.p[t] * (double)e->n / weights);
    return c->barrier * sum;
}

/* The gradient of ln of the value for class i; `product` is k numbers of room. */
static void class_gradient(const epochs_climb *c, const double *y, double total, int64_t i, double *product,
                           double *gradient) {
    const optimum_epochs *e = c->epochs;
    int64_t k = e->k;
    const double *m = correlations_of(c, y, i), *l = c->point.lower + i * k * k, *x = c->point.blocks + i * k * k;
    double *to = gradient + e->b + i * c->correlations, inner = 0, nu = exp(y[i]), count = 0;
    for (int64_t r = 0; r < k; m += r, to += r, r++) {
        memset(to, 0, (size_t)r * sizeof *to);
        if (past(e, i, r)) continue;
        /* row r of X L; then 2 d ln N / dL = 2 X L / 2N, along the row and across its norm */
        memset(product, 0, (size_t)k * sizeof *product);
        for (int64_t q = 0; q < k && !past(e, i, q); q++)
            for (int64_t f = 0; f <= q; f++)
                product[f] += x[r * k + q] * l[q * k + f];
        double along = 0;
        for (int64_t f = 0; f <= r; f++)
            along += product[f] * l[r * k + f];
        inner += along;
        double scale = sqrt(nu) / row_norm(r, m);
        for (int64_t f = 0; f < r; f++)
            to[f] = 2 * scale * (product[f] - along / nu * l[r * k + f]) / c->point.trace -
                    2 * c->barrier * scale * l[r * k + f] / nu;
        count++;
    }
    gradient[i] = inner / c->point.trace + c->barrier * count - (1 + c->barrier * (double)e->n) * nu / total;
}

/*
 * Bounds without extra work: from below the dual, from above Y = X + mu N V^-1, whose squared sensitivity is at most
 * the largest sum of |Y| over a class; adding |Y| to the diagonal for what is zeroed beside it lowers every error and
 * keeps that sum, so that a mechanism with zeros there is no worse. The smallest diagonal is mostly far better.
 */
static dpmf_status note_bounds(epochs_climb *c, const double *y, double total, double weights) {
    const optimum_epochs *e = c->epochs;
    const epochs_point *p = &c->point;
    double largest = 0, covered = INFINITY, loss = e->max_loss ? 0 : p->trace, error = p->error;
    for (int64_t i = 0; i < e->b; i++) {
        double sum = 0;
        for (int64_t r = 0; r < e->k && !past(e, i, r); r++)
            for (int64_t q = 0; q < e->k && !past(e, i, q); q++)
                sum += fabs(p->blocks[(i * e->k + r) * e->k + q] + p->added[(i * e->k + r) * e->k + q]);
        largest = fmax(largest, sum);
    }
    if (c->covers) TRY(epochs_cover(e, &c->point, 0, &covered));
    largest = fmin(largest, covered);
    for (int64_t t = 0; e->max_loss && t < e->n; t++)
        loss = fmax(loss, p->rows[t] / p->p[t]);
    double trust = fmax(0, 1 - error), lower = (p->trace / total) * (p->trace / weights) * trust * trust;
    double upper = loss * largest * (1 + error) * (1 + error) * (1 + (double)e->k * error);
    c->lower = fmax(c->lower, lower);
    if (upper < c->upper) {
        c->upper = upper;
        c->best_barrier = c->barrier;
        memcpy(c->best, y, (size_t)c->unknowns * sizeof *y);
    }
    if (upper <= c->enough * c->lower) c->stopped = 1;
    return DPMF_OK;
}

/* mu N V_i^-1 for each class, from the inverse of its factor by rows. */
static dpmf_status fill_added(epochs_climb *c) {
    const optimum_epochs *e = c->epochs;
    int64_t k = e->k;
    double *inverse = NULL;
    TRY(base_alloc_doubles(k * k, "an inverse block", &inverse));
    memset(c->point.added, 0, (size_t)(e->b * k * k) * sizeof *inverse);
    for (int64_t i = 0; i < e->b && c->barrier > 0; i++) {
        double *to = c->point.added + i * k * k;
        epochs_invert_block(k, c->point.lower + i * k * k, inverse);
        for (int64_t j = 0; j < k && !past(e, i, j); j++)
            for (int64_t r = 0; r <= j; r++)
                for (int64_t q = 0; q <= j; q++)
                    to[r * k + q] += c->barrier * c->point.trace * inverse[j * k + r] * inverse[j * k + q];
    }
    base_free(inverse);
    return DPMF_OK;
}

dpmf_status epochs_climb_value(void *context, const double *y, double *f, double *gradient) {
    epochs_climb *c = context;
    const optimum_epochs *e = c->epochs;
    double *product = NULL;
    int outside = 0;
    TRY(base_progress(c->run, "cyclic optimum", -1));
    c->evaluations++;
    unpack(c, y, &c->point);
    for (int64_t t = 0; e->max_loss && t < e->n; t++)
        if (!(c->point.p[t] > 1e-100)) outside = 1; /* the barrier itself */
    if (outside) {
        *f = INFINITY;
        return DPMF_OK;
    }
    TRY(epochs_eval(c->epochs, c->tolerance, &c->point, &outside));
    if (outside) {
        *f = INFINITY;
        return DPMF_OK;
    }
    TRY(base_alloc_doubles(e->k, "a row", &product));
    double total = sum_of_diagonals(c, y), weights = sum_of_weights(c);
    *f = c->scale * (total / c->point.trace) * (weights / c->point.trace) * exp(-barrier_of(c, y, total, weights));
    for (int64_t i = 0; i < e->b; i++)
        class_gradient(c, y, total, i, product, gradient);
    for (int64_t t = 0; e->max_loss && t < e->n; t++)
        gradient[c->first_weight + t] = 2 * y[c->first_weight + t] *
                                        ((c->point.rows[t] / c->point.trace + c->barrier) / c->point.p[t] -
                                         (1 + c->barrier * (double)e->n) / weights);
    for (int64_t i = 0; i < c->unknowns; i++)
        gradient[i] *= -*f;
    base_free(product);
    TRY(fill_added(c));
    TRY(note_bounds(c, y, total, weights));
    if (!c->stopped) return DPMF_OK;
    memmove(c->y, y, (size_t)c->unknowns * sizeof *y); /* this point is the result; the ascent ends here */
    return base_fail(DPMF_ERROR_CANCELLED, "near enough");
}

/*
 * The search runs over z with y = from + scale o z, such that the curvature of the value is similar along every z. A
 * class with the diagonal nu has the share nu / sum nu in the value, and an entry of m moves its row by the inverse of
 * the row's norm. With momentum 0.9 and eight epochs of 48 the dual is within 1e-7 of its top after 50 steps; without
 * the scales after 60, and with 20 pairs instead of 60 after 85. The max loss of prefix sums, five epochs of 60: bounds
 * 1e-3 apart after 48 steps, not 140.
 */
enum { PAIRS = 60 };

typedef struct stretched {
    epochs_climb *climb;
    double *scale, *from, *y;
} stretched;

static dpmf_status stretched_value(void *context, const double *z, double *f, double *gradient) {
    const stretched *s = context;
    const int64_t n = s->climb->unknowns;
    for (int64_t i = 0; i < n; i++)
        s->y[i] = s->from[i] + s->scale[i] * z[i];
    TRY(epochs_climb_value(s->climb, s->y, f, gradient));
    for (int64_t i = 0; i < n; i++)
        gradient[i] *= s->scale[i];
    return DPMF_OK;
}

dpmf_status epochs_climb_run(epochs_climb *c, double decrease, int iterations) {
    stretched s = {.climb = c};
    base_objective objective = {c->unknowns, &s, stretched_value};
    base_minimize_options options = {.gradient = 1e-12,
                                     .decrease = decrease,
                                     .past = 5,
                                     .iterations = iterations,
                                     .pairs = PAIRS,
                                     .what = c->run == NULL ? NULL : "cyclic optimum: start over dual",
                                     .run = c->run};
    base_minimum found = {0};
    double f = INFINITY, *gradient = NULL, *z = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(c->unknowns, "a gradient", &gradient));
    TRY_DONE(base_alloc_doubles(c->unknowns, "scaled variables", &z));
    TRY_DONE(base_alloc_doubles(c->unknowns, "scales", &s.scale));
    TRY_DONE(base_alloc_doubles(c->unknowns, "the start", &s.from));
    TRY_DONE(base_alloc_doubles(c->unknowns, "the dual variables", &s.y));
    const optimum_epochs *e = c->epochs;
    const double mean = sum_of_diagonals(c, c->y) / (double)e->b;
    for (int64_t i = 0; i < c->unknowns; i++)
        s.scale[i] = 1;
    for (int64_t i = 0; i < e->b; i++) {
        const double *m = correlations_of(c, c->y, i), share = sqrt(mean / exp(c->y[i]));
        double *to = s.scale + e->b + i * c->correlations;
        s.scale[i] = share;
        for (int64_t r = 0; r < e->k; m += r, to += r, r++)
            for (int64_t q = 0; q < r; q++)
                to[q] = share * row_norm(r, m);
    }
    memcpy(s.from, c->y, (size_t)c->unknowns * sizeof *s.from);
    c->scale = 1;
    c->evaluations = c->stopped = 0;
    TRY_DONE(epochs_climb_value(c, c->y, &f, gradient));
    if (isfinite(f)) c->scale = 1 / f;
    TRY_DONE(base_minimize(&objective, &options, z, &found));
    for (int64_t i = 0; i < c->unknowns; i++)
        c->y[i] = s.from[i] + s.scale[i] * z[i];
    c->iterations += found.iterations;
    c->converged = found.converged;
    TRY_DONE(epochs_climb_value(c, c->y, &f, gradient)); /* the point at y */
    assert(isfinite(f));
done:
    if (c->stopped && status == DPMF_ERROR_CANCELLED) {
        c->iterations += c->evaluations; /* near enough: a step mostly takes one trial */
        c->converged = 1;
        status = DPMF_OK;
    }
    base_free(gradient);
    base_free(z);
    base_free(s.scale);
    base_free(s.from);
    base_free(s.y);
    return status;
}

dpmf_status epochs_climb_lower(epochs_climb *c) {
    const epochs_point *p = &c->point;
    int outside = 0;
    assert(!c->epochs->max_loss && !c->epochs->dense);
    unpack(c, c->y, &c->point);
    c->epochs->only_traces = 1;
    TRY(epochs_eval(c->epochs, c->tolerance, &c->point, &outside));
    if (outside) return DPMF_OK;
    double trust = fmax(0, 1 - p->error);
    c->lower = fmax(c->lower, p->trace / sum_of_diagonals(c, c->y) * p->trace * trust * trust);
    return DPMF_OK;
}

dpmf_status epochs_climb_revisit(epochs_climb *c) {
    int outside = 0;
    unpack(c, c->best, &c->point);
    TRY(epochs_eval(c->epochs, c->tolerance, &c->point, &outside));
    assert(!outside);
    double barrier = c->barrier;
    c->barrier = c->best_barrier;
    dpmf_status status = fill_added(c);
    c->barrier = barrier;
    double unused = 0;
    return status == DPMF_OK && c->covers ? epochs_cover(c->epochs, &c->point, 1, &unused) : status;
}

dpmf_status epochs_climb_confirm(epochs_climb *c) {
    double trace = 0, error = 0, total = sum_of_diagonals(c, c->y), weights = sum_of_weights(c);
    TRY(epochs_nuclear(c->epochs, &c->point, &trace, &error));
    c->lower = fmax(c->lower, (trace / total) * (trace / weights) * (1 - error) * (1 - error));
    return DPMF_OK;
}

/*
 * ---- where the climb begins ----
 *
 * The start when epochs are long: the solution for a quarter of the positions in each epoch, stretched. A coarse step
 * stands for as many fine ones as it replaces: momentum is raised to that power, learning rates and weights are sampled.
 *
 * V changes as fast between the first two positions of an epoch as between the second and the fourth, for any length of
 * the epoch; the same holds from its end. So positions correspond by the logarithms of their odds, ln((i + 1/2)/(b - i
 * - 1/2)), in which first, middle and last ones meet. The rest changes slowly and steadily with the length (prefix
 * sums, three epochs of 16, 64 and 256 positions: correlations in the middle 0.470, 0.411, 0.362), so we extrapolate
 * with a damped difference of the last two lengths. With momentum this scaling fails: there positions correspond by
 * their share of the epoch.
 */

enum { COARSE_MIN = 6, COARSER = 4, COARSEST_STEPS = 24, SHORT = 32, SHORT_STEPS = 12 };
static const double ONWARD = 0.8; /* part of the last change, from one length to the next */

static int64_t fine_step(const optimum_epochs *e, int64_t coarse, int64_t t) {
    int64_t step = t / coarse * e->b + t % coarse * e->b / coarse;
    return step < e->n ? step : e->n - 1;
}

static dpmf_status coarsen(const optimum_epochs *e, int64_t coarse, dpmf_workload **out, double **weights) {
    const dpmf_workload *a = e->workload;
    int64_t last = e->n - (e->k - 1) * e->b, n = (e->k - 1) * coarse + (last * coarse + e->b - 1) / e->b;
    double *rates = NULL;
    double ratio = (double)e->b / (double)coarse;
    /* a coarse step decays like `ratio` fine ones; the options want decay times every rate below 1 */
    dpmf_workload_options o = {.momentum = pow(a->momentum, ratio), .nesterov = a->nesterov, .decay = a->decay};
    dpmf_status status = DPMF_OK;
    if (a->learning_rate != NULL) {
        TRY(base_alloc_doubles(n, "coarse learning rates", &rates));
        for (int64_t t = 0; t < n; t++)
            rates[t] = a->learning_rate[fine_step(e, coarse, t)];
        o.learning_rate = rates;
    }
    if (e->weights != NULL) {
        TRY_DONE(base_alloc_doubles(n, "coarse weights", weights));
        for (int64_t t = 0; t < n; t++)
            (*weights)[t] = e->weights[fine_step(e, coarse, t)];
    }
    TRY_DONE(dpmf_workload_create(n, &o, out));
done:
    base_free(rates);
    return status;
}

/* The place among `coarse` positions of fine position i: by the logarithms of odds, or by the share. */
static double place(int64_t fine, int64_t coarse, int by_share, int64_t i) {
    const double odds = ((double)i + 0.5) / ((double)(fine - i) - 0.5);
    const double scaled = by_share ? odds : pow(odds, log(2 * (double)coarse - 1) / log(2 * (double)fine - 1));
    return fmin(fmax((double)coarse * scaled / (1 + scaled) - 0.5, 0), (double)(coarse - 1));
}

/* to += by x the value at `at` of `coarse` records of `width` numbers, cubic (Catmull and Rom): kinks harm the mechanism. */
static void add_between(int64_t coarse, int64_t width, double by, double at, const double *from, double *to) {
    const int64_t j = (int64_t)at < coarse - 2 ? (int64_t)at : coarse - 2;
    const int64_t before = j > 0 ? j - 1 : 0, after = j + 2 < coarse ? j + 2 : coarse - 1;
    const double w = at - (double)j;
    const double weight[4] = {w * (-0.5 + w * (1 - 0.5 * w)), 1 + w * w * (-2.5 + 1.5 * w),
                              w * (0.5 + w * (2 - 1.5 * w)), w * w * (-0.5 + 0.5 * w)};
    for (int64_t q = 0; q < width; q++)
        to[q] += by * (weight[0] * from[before * width + q] + weight[1] * from[j * width + q] +
                       weight[2] * from[(j + 1) * width + q] + weight[3] * from[after * width + q]);
}

/* V's part of the unknowns: the diagonals, then the correlations. */
static void stretch_all(const epochs_climb *from, double by, const double *numbers, const epochs_climb *to,
                        double *out) {
    const int64_t fine = to->epochs->b, coarse = from->epochs->b;
    const int by_share = to->epochs->workload->momentum > 0;
    for (int64_t i = 0; i < fine; i++) {
        const double at = place(fine, coarse, by_share, i);
        add_between(coarse, 1, by, at, numbers, out + i);
        add_between(coarse, to->correlations, by, at, numbers + coarse, out + fine + i * to->correlations);
    }
}

void epochs_climb_longer(const epochs_climb *c, int64_t b, int64_t i, double *theta, double *correlations) {
    const int64_t coarse = c->epochs->b;
    const int by_share = c->epochs->workload->momentum > 0;
    const double lengths = log((double)b / (double)coarse) / log(COARSER);
    const double onward = by_share ? 0 : ONWARD * (1 - pow(ONWARD, lengths)) / (1 - ONWARD);
    const double at = place(b, coarse, by_share, i);
    *theta = 0;
    memset(correlations, 0, (size_t)c->correlations * sizeof *correlations);
    for (int part = 0; part < 2; part++) {
        const double *from = part ? c->trend : c->y, by = part ? onward : 1;
        add_between(coarse, 1, by, at, from, theta);
        add_between(coarse, c->correlations, by, at, from + coarse, correlations);
    }
}

/* Roots of the weights of the steps, epoch by epoch; missing steps of the last epoch take the last one's. */
static void stretch_weights(const epochs_climb *from, epochs_climb *to) {
    const optimum_epochs *fine = to->epochs, *coarse = from->epochs;
    const int by_share = fine->workload->momentum > 0;
    for (int64_t t = 0; t < fine->n; t++) {
        const double at = place(fine->b, coarse->b, by_share, t % fine->b);
        const int64_t first = t / fine->b * coarse->b, last = coarse->n - 1;
        const int64_t below = first + (int64_t)at, above = below + 1 < first + coarse->b ? below + 1 : below;
        const double w = at - floor(at), *y = from->y + from->first_weight;
        to->y[to->first_weight + t] = (1 - w) * y[below < last ? below : last] + w * y[above < last ? above : last];
    }
}

dpmf_status epochs_climb_coarse(epochs_climb *c, double spend) {
    const int64_t coarse = c->epochs->b;
    const int alone = coarse / COARSER < COARSE_MIN; /* no shorter run has ascended */
    int iterations = spend > 0 ? (int)fmin(200, spend / epochs_cost(c->epochs)) : 200;
    TRY(epochs_climb_start(c));
    const int least = alone ? COARSEST_STEPS : coarse <= SHORT ? SHORT_STEPS : 0; /* a trend needs two good ones */
    if (iterations < least) iterations = least;
    if (iterations < 2) return DPMF_OK;
    for (int64_t i = 0; i < c->first_weight; i++)
        c->trend[i] -= c->y[i]; /* minus the stretched values, without their trend */
    TRY(epochs_climb_run(c, 1e-5, iterations));
    for (int64_t i = 0; i < c->first_weight; i++)
        c->trend[i] = alone ? 0 : c->trend[i] + c->y[i];
    return DPMF_OK;
}

dpmf_status epochs_climb_start(epochs_climb *c) {
    optimum_epochs *e = c->epochs, few = {0};
    int64_t coarse = e->b / COARSER;
    dpmf_workload *workload = NULL;
    double *weights = NULL;
    epochs_climb climb = {0};
    dpmf_status status = DPMF_OK;
    if (e->dense || coarse < COARSE_MIN) return DPMF_OK;
    TRY_DONE(coarsen(e, coarse, &workload, &weights));
    TRY_DONE(epochs_create(workload, e->k, coarse, e->max_loss, weights, e->pool, &few));
    TRY_DONE(epochs_climb_create(&few, fmax(c->tolerance, 1e-6), c->run, &climb));
    climb.spend = c->spend;
    climb.barrier = c->barrier * (double)e->n / (double)few.n;
    TRY_DONE(epochs_climb_coarse(&climb, c->spend));
    memset(c->trend, 0, (size_t)c->first_weight * sizeof *c->trend);
    /* the max loss: weights change V by more than the length does */
    if (e->workload->momentum == 0 && !e->max_loss) stretch_all(&climb, ONWARD, climb.trend, c, c->trend);
    memcpy(c->y, c->trend, (size_t)c->first_weight * sizeof *c->y);
    stretch_all(&climb, 1, climb.y, c, c->y);
    if (e->max_loss) stretch_weights(&climb, c);
done:
    epochs_climb_free(&climb);
    epochs_free(&few);
    base_free(weights);
    dpmf_workload_free(workload);
    return status;
}
