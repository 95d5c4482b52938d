/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: which shifts and weights. With r nodes the square root of M is replaced by f(x) = sum_j w_j x/(x + s_j)
 * (families/tvblt/build.c); for any f the mechanism is valid and its loss exact, so f is chosen by its loss.
 *
 *   start     nodes of the quadrature for the inverse square root (Hale, Higham and Trefethen 2008) on
 *             [f1 low, f2 high] with [low, high] the spectrum of M. Few nodes do best on a shorter interval: momentum,
 *             or a schedule that ends low, puts little weight on the largest eigenvalues. f2 by steps of sqrt(10) down
 *             (or up) from 1/10 until the loss rises.
 *   interval  Newton's method on ln f1, ln f2 and the first node (its shift and its weight): at the lower end the
 *             spectrum stops at once, elsewhere the quadrature's own spacing is nearly best.
 *   free      Newton's method on all shifts and weights.
 *
 * The excess loss / lower bound - 1 is close to a quadratic form of the relative error of f, whose valleys are long and
 * narrow: Newton with a Hessian of differences, damped as Levenberg and Marquardt do, takes 2 to 6 steps where
 * quasi-Newton methods take dozens. How much of this is done depends on n and r alone (WORK_MAX), not on any clock.
 */
#include "families/tvblt/tvblt.h"

#include "base/special.h"
#include "base/sum.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = TVBLT_NODES_MAX, UNKNOWNS_MAX = TVBLT_UNKNOWNS_MAX, INTERVAL_UNKNOWNS = 4 };

/*
 * An excess below this is not worth an evaluation: the optimum itself is usually known to no more. For max loss, whose
 * excess is that of the worst step, the mean must be better.
 */
static const double EXCESS_SMALL = 1e-6, EXCESS_SMALL_MAX = 1e-8;
/* Newton's steps stop when they lower the excess by less than this part of it, several times: valleys here have bends. */
static const double DECREASE_SMALL = 0.02;
enum { STALLS_MAX = 3 };
/* Of a search, in units of steps x states (states + 20): as many evaluations as building would take some 15 s for. */
static const double WORK_MAX = 1.5e10;
/* Differences in log shifts and weights: an excess of 1e-6 and more bends over 1e-3 and more; rounding is 1e-15. */
static const double DIFFERENCE = 1e-3;

typedef tvblt_tuner tuner;

double tvblt_mean_loss(const tuner *u) {
    const double *p = u->problem.p;
    base_running sum = {0};
    for (int64_t t = 0; t < u->problem.steps; t++)
        base_running_add(&sum, (p == NULL ? 1 : p[t]) * u->work.squares[t]);
    return sqrt(base_running_value(&sum) / (u->max_loss ? 1 : (double)u->problem.steps));
}

dpmf_status tvblt_try(tuner *u, const tvblt_filter *f) {
    if (!u->careful && u->meter.phi == NULL) TRY(tvblt_meter_create(&u->problem, &u->meter));
    if (!u->careful) return tvblt_measure(&u->problem, f, &u->meter, u->work.norms, u->work.squares);
    TRY(tvblt_work_room(&u->problem, f->nodes, &u->work));
    return tvblt_build(&u->problem, f, &u->work);
}

/* A filter that breaks down is a bad one, not an error. */
static dpmf_status evaluate_filter(tuner *u, const tvblt_filter *f, double *excess) {
    TRY(base_progress(u->run, "tvblt", -1));
    u->evaluations++;
    dpmf_status status = tvblt_try(u, f);
    if (status != DPMF_OK && status != DPMF_ERROR_NUMERICAL) return status;
    *excess = status == DPMF_OK ? tvblt_mean_loss(u) / u->optimum->lower - 1 : INFINITY;
    if (!isfinite(*excess)) *excess = INFINITY;
    return DPMF_OK;
}

/*
 * From unknowns to a filter. Interval (4 unknowns): ln f1, ln f2, ln of the factors on shift and weight of the first
 * node. Free (2r - 1): ln s_j, then ln(w_j/w_0) for j > 0; the scale of the weights does not matter.
 */
static void filter_from_interval(const tuner *u, const double *x, tvblt_filter *f) {
    base_quadrature q;
    double low = u->problem.low * exp(x[0]), high = u->problem.high * exp(x[1]);
    base_quadrature_fill(low, fmax(low, high), u->nodes, &q);
    f->nodes = u->nodes;
    memcpy(f->shift, q.shift, (size_t)u->nodes * sizeof *q.shift);
    memcpy(f->weight, q.weight, (size_t)u->nodes * sizeof *q.weight);
    f->shift[0] *= exp(x[2]);
    f->weight[0] *= exp(x[3]);
}

static void fill_free(int nodes, const double *x, tvblt_filter *f) {
    f->nodes = nodes;
    for (int j = 0; j < nodes; j++) {
        f->shift[j] = exp(x[j]);
        f->weight[j] = j == 0 ? 1 : exp(x[nodes + j - 1]);
    }
}

static void filter_from_free(const tuner *u, const double *x, tvblt_filter *f) {
    fill_free(u->nodes, x, f);
}

typedef void (*mapping)(const tuner *u, const double *x, tvblt_filter *f);

static dpmf_status excess_at(tuner *u, mapping map, const double *x, double *excess) {
    tvblt_filter f;
    map(u, x, &f);
    return evaluate_filter(u, &f, excess);
}

typedef tvblt_model model;

/* By differences; *finite = 0 if one of the points has no value. */
static dpmf_status fill_model(tuner *u, mapping map, int count, double *x, double here, model *m, int *finite) {
    double ahead[UNKNOWNS_MAX], back = 0, both = 0, h = DIFFERENCE, largest = 0;
    m->count = count;
    *finite = 1;
    for (int i = 0; i < count && *finite; i++) {
        double old = x[i];
        x[i] = old + h;
        TRY(excess_at(u, map, x, &ahead[i]));
        for (int j = 0; j < i; j++) {
            double other = x[j];
            x[j] += h;
            TRY(excess_at(u, map, x, &both));
            x[j] = other;
            m->hessian[i * count + j] = m->hessian[j * count + i] = (both - ahead[i] - ahead[j] + here) / (h * h);
            *finite &= isfinite(both);
        }
        x[i] = old - h;
        TRY(excess_at(u, map, x, &back));
        x[i] = old;
        m->gradient[i] = (ahead[i] - back) / (2 * h);
        m->hessian[i * count + i] = (ahead[i] + back - 2 * here) / (h * h);
        m->scale[i] = sqrt(fabs(m->hessian[i * count + i]));
        largest = fmax(largest, m->scale[i]);
        *finite &= isfinite(ahead[i]) && isfinite(back);
    }
    for (int i = 0; i < count; i++)
        m->scale[i] = fmax(m->scale[i], fmax(1e-8 * largest, 1e-150));
    return DPMF_OK;
}

/* step = -(H + damping diag(H))^-1 gradient; 0 if that matrix is not positive definite. */
static int damped_step(const model *m, double damping, double *step) {
    int n = m->count;
    double l[UNKNOWNS_MAX * UNKNOWNS_MAX];
    for (int i = 0; i < n; i++) {
        double right = -m->gradient[i] / m->scale[i];
        for (int j = 0; j <= i; j++) {
            double sum = m->hessian[i * n + j] / (m->scale[i] * m->scale[j]) + (i == j ? damping : 0);
            for (int k = 0; k < j; k++)
                sum -= l[i * n + k] * l[j * n + k];
            if (i == j && !(sum > 1e-10)) return 0;
            l[i * n + j] = i == j ? sqrt(sum) : sum / l[j * n + j];
        }
        for (int k = 0; k < i; k++)
            right -= l[i * n + k] * step[k];
        step[i] = right / l[i * n + i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++)
            step[i] -= l[k * n + i] * step[k];
        step[i] /= l[i * n + i];
    }
    for (int i = 0; i < n; i++)
        step[i] /= m->scale[i];
    return 1;
}

/* Tries steps of falling length from x until one lowers the excess; *lowered: one did. */
static dpmf_status try_steps(tuner *u, mapping map, const model *m, double *damping, double *x, double *excess,
                             int *lowered) {
    enum { TRIALS = 12 };
    static const double longest = 1.5; /* of a step in one logarithm */
    double step[UNKNOWNS_MAX], trial[UNKNOWNS_MAX], there = 0;
    *lowered = 0;
    for (int k = 0; k < TRIALS && !*lowered; k++, *damping *= 10) {
        double largest = 0;
        if (!damped_step(m, *damping, step)) continue;
        for (int i = 0; i < m->count; i++)
            largest = fmax(largest, fabs(step[i]));
        for (int i = 0; i < m->count; i++)
            trial[i] = x[i] + step[i] * fmin(1, longest / largest);
        TRY(excess_at(u, map, trial, &there));
        *lowered = there < *excess;
    }
    if (*lowered) {
        *damping = fmax(*damping / 100, 1e-9); /* the loop raised it once more */
        *excess = there;
        memcpy(x, trial, (size_t)m->count * sizeof *x);
    }
    return DPMF_OK;
}

static double small_excess(const tuner *u) {
    return u->max_loss ? EXCESS_SMALL_MAX : EXCESS_SMALL;
}

enum { STEPS_MAX = 24 };

/* Lowers the excess from x on, in at most this number of steps, while it pays and the evaluations last. */
static dpmf_status newton(tuner *u, mapping map, int count, int steps, model *m, double *x, double *excess) {
    double damping = 1e-3;
    for (int k = 0, stalls = 0; k < steps && stalls < STALLS_MAX; k++) {
        double before = *excess;
        int finite = 0, lowered = 0;
        if (before <= small_excess(u)) break;
        if (u->evaluations + count * (count + 3) / 2 + 1 > u->evaluations_max) break;
        TRY(fill_model(u, map, count, x, before, m, &finite));
        if (!finite) m->count = 0;
        if (finite) TRY(try_steps(u, map, m, &damping, x, excess, &lowered));
        if (!lowered) break;
        stalls = before - *excess < DECREASE_SMALL * before ? stalls + 1 : 0;
    }
    return DPMF_OK;
}

/* The Hessian that agrees with how the gradient changed over a step (BFGS), unless that shows no curvature. */
static void update_hessian(const double *step, const double *before, model *m) {
    const int n = m->count;
    double hs[UNKNOWNS_MAX], curve = 0, sy = 0;
    for (int i = 0; i < n; i++) {
        hs[i] = 0;
        for (int j = 0; j < n; j++)
            hs[i] += m->hessian[i * n + j] * step[j];
        curve += step[i] * hs[i];
        sy += step[i] * (m->gradient[i] - before[i]);
    }
    if (!(sy > 0.1 * curve && curve > 0)) return;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            m->hessian[i * n + j] +=
                (m->gradient[i] - before[i]) * (m->gradient[j] - before[j]) / sy - hs[i] * hs[j] / curve;
    for (int i = 0; i < n; i++)
        m->scale[i] = sqrt(fmax(m->hessian[i * n + i], 1e-300));
}

/* Valleys are followed further down than for their own sake: what is left in x grows threefold from each length to the next. */
static const double FOLLOWED_SMALL = 1e-3;

static dpmf_status follow(tuner *u, int steps, model *m, double *x, double *excess) {
    double damping = 1e-3, start[UNKNOWNS_MAX], gradient[UNKNOWNS_MAX];
    for (int k = 0; k < steps; k++) {
        double before = *excess, step[UNKNOWNS_MAX];
        int finite = 0, lowered = 0;
        if (before <= small_excess(u)) break;
        /* By differences ahead, less what the Hessian says of them. */
        finite = 1;
        for (int i = 0; i < m->count && finite; i++) {
            double old = x[i], ahead = 0;
            x[i] = old + DIFFERENCE;
            TRY(excess_at(u, filter_from_free, x, &ahead));
            x[i] = old;
            m->gradient[i] = (ahead - before) / DIFFERENCE - DIFFERENCE / 2 * m->hessian[i * m->count + i];
            finite &= isfinite(ahead);
        }
        if (!finite) break;
        for (int i = 0; i < m->count && k > 0; i++)
            step[i] = x[i] - start[i];
        if (k > 0) update_hessian(step, gradient, m);
        memcpy(start, x, sizeof start);
        memcpy(gradient, m->gradient, sizeof gradient);
        TRY(try_steps(u, filter_from_free, m, &damping, x, excess, &lowered));
        if (!lowered || before - *excess < FOLLOWED_SMALL * before) break;
    }
    return DPMF_OK;
}

/* x = (ln f1, ln f2, 0, 0) with the best f2 on a coarse grid. */
static dpmf_status find_start(tuner *u, double *x, double *excess) {
    enum { GRID_MAX = 30 }; /* 15 decades */
    const double step = log(10) / 2;
    double there = 0;
    x[0] = log(0.85);
    x[1] = log(0.1);
    x[2] = x[3] = 0;
    TRY(excess_at(u, filter_from_interval, x, excess));
    for (int direction = -1, moved = 0; direction <= 1 && !moved; direction += 2)
        for (int k = 0; k < GRID_MAX; k++) {
            x[1] += direction * step;
            TRY(excess_at(u, filter_from_interval, x, &there));
            if (!(there < *excess)) {
                x[1] -= direction * step;
                break;
            }
            *excess = there;
            moved = 1;
        }
    return DPMF_OK;
}

/*
 * The unknowns of the interval from x on. Where they end is nearly the same for any n and r, at the other end of a
 * curved valley: so start there, unless x is already too good for that, and come back if it was no better.
 */
static dpmf_status tune_interval(tuner *u, double *x, double *excess) {
    static const double worth_trying = 50; /* times the excess at x: what a few steps gain */
    double other[INTERVAL_UNKNOWNS] = {0.5, x[1], -0.26, -0.02}, there = 0;
    model m;
    if (*excess <= small_excess(u)) return DPMF_OK;
    TRY(excess_at(u, filter_from_interval, other, &there));
    if (there < worth_trying * *excess)
        TRY(newton(u, filter_from_interval, INTERVAL_UNKNOWNS, STEPS_MAX, &m, other, &there));
    if (there < *excess) {
        memcpy(x, other, sizeof other);
        *excess = there;
        return DPMF_OK;
    }
    return newton(u, filter_from_interval, INTERVAL_UNKNOWNS, STEPS_MAX, &m, x, excess);
}

static void unknowns_of(const tvblt_filter *f, double *x) {
    for (int j = 0; j < f->nodes; j++) {
        x[j] = log(f->shift[j]);
        if (j > 0) x[f->nodes + j - 1] = log(f->weight[j] / f->weight[0]);
    }
}

static void allow_evaluations(tuner *u) {
    const double states = u->nodes * u->problem.order;
    u->evaluations = 0;
    u->evaluations_max = (int64_t)(WORK_MAX / ((double)u->problem.steps * states * (states + 20)));
}

dpmf_status tvblt_tune(tuner *u, int thorough, tvblt_filter *f, double *excess, model *m) {
    double x[UNKNOWNS_MAX];
    model own;
    if (m == NULL) m = &own;
    m->count = 0;
    allow_evaluations(u);
    TRY(tvblt_spectrum(u->run, &u->problem));
    TRY(find_start(u, x, excess));
    if (thorough && 2 * u->nodes - 1 > INTERVAL_UNKNOWNS) TRY(tune_interval(u, x, excess));
    filter_from_interval(u, x, f);
    memcpy(u->interval, x, sizeof u->interval);
    if (!thorough) return DPMF_OK;
    unknowns_of(f, x);
    TRY(newton(u, filter_from_free, 2 * u->nodes - 1, STEPS_MAX, m, x, excess));
    filter_from_free(u, x, f);
    return DPMF_OK;
}

void tvblt_transfer(const tuner *from, const tuner *to, tvblt_filter *f) {
    tvblt_filter before, after;
    filter_from_interval(from, from->interval, &before);
    filter_from_interval(to, from->interval, &after);
    for (int j = 0; j < f->nodes; j++) {
        f->shift[j] *= after.shift[j] / before.shift[j];
        f->weight[j] *= after.weight[j] / before.weight[j];
    }
}

dpmf_status tvblt_polish(tuner *u, int steps, model *m, tvblt_filter *f, double *excess) {
    double x[UNKNOWNS_MAX] = {0};
    allow_evaluations(u);
    unknowns_of(f, x);
    TRY(excess_at(u, filter_from_free, x, excess));
    if (m->count > 0)
        TRY(follow(u, steps, m, x, excess));
    else
        TRY(newton(u, filter_from_free, 2 * u->nodes - 1, steps, m, x, excess));
    filter_from_free(u, x, f);
    return DPMF_OK;
}

void tvblt_extrapolate(int count, const tvblt_filter *at, tvblt_filter *out) {
    static const double LINE[] = {-1, 2}, PARABOLA[] = {1, -3, 3};
    const double *weight = count == 2 ? LINE : PARABOLA;
    double sum[UNKNOWNS_MAX] = {0}, x[UNKNOWNS_MAX];
    const int nodes = at[0].nodes;
    assert(count == 2 || count == 3);
    for (int i = 0; i < count; i++) {
        unknowns_of(&at[i], x);
        for (int j = 0; j < 2 * nodes - 1; j++)
            sum[j] += weight[i] * x[j];
    }
    fill_free(nodes, sum, out);
}
