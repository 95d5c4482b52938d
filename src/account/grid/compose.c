/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The composition on a window, and delta from it, as upper bounds: of one loss n-fold, or of several, each n_i-fold, all
 * tilted by the same order t, whose transforms are multiplied and whose n_i ln M_i add up to n ln M below.
 *
 * Notation: w the tilted atoms folded modulo N, of sum 1; v their transform, v_f; X the sum of n tilted losses; o_k =
 * P[X = x_k] at the grid points x_k of the window [A, B), B = A + N h; M the moment: an outcome x weighs e^(n ln M - t x)
 * times its tilted probability (Esscher 1932; the tilt is what keeps the digits of a delta of 1e-25).
 *
 *     delta(eps) = sum_{x > eps} P[X = x] e^(n ln M - t x) (1 - e^(eps - x))  +  the mass of infinite loss.
 *
 * Circularity: the inverse transform of v^n gives the sums of P[X = x + j N h] over all j, at least o_k: what is wrapped
 * around only adds. Of what lies above the window, B and beyond, an outcome weighs at most e^(n ln M - t B) (1 - e^(-N h)),
 * for e^(-tx) (1 - e^(A - x)) falls from x = A + ln(1 + 1/t) on, which is in the window, or else 1 - e^(-N h) is left
 * out; and P[X >= B] <= (sum_i w_i e^(s x_i))^n e^(-s B) for s >= 0 (Chernoff).
 *
 * Rounding: the bound of account/grid/power.c is added to every o_k.
 *
 * delta at grid points, from the top down, in positive terms: with V_k = sum_{j >= k} o_j e^(-(1+t)(x_j - x_k)) and D_k =
 * sum_{j > k} o_j e^(-t (x_j - x_k)) (1 - e^(x_k - x_j)),
 *
 *     V_k = o_k + e^(-(1+t)h) V_{k+1},      D_k = e^(-th) (D_{k+1} + (1 - e^-h) V_{k+1}),
 *
 * and between grid points delta is linear in e^eps.
 */
#include "account/grid/grid.h"

#include "base/memory.h"
#include "base/special.h"
#include "base/sum.h"

#include <math.h>

/* The tails, from the numbers o[i mod N] of the window, each raised by the noise. */
static void fill_tails(grid_curve *c, const double *o) {
    const int64_t n = c->length, offset = ((c->first % n) + n) % n;
    const double fade = exp(-(1 + c->order) * c->step), tilt = exp(-c->order * c->step), part = -expm1(-c->step);
    double v = 0, d = 0;
    for (int64_t k = n - 1; k >= 0; k--) {
        d = tilt * (d + part * v);
        c->tails[k] = d;
        int64_t slot = offset + k;
        if (slot >= n) slot -= n;
        v = (o[slot] > 0 ? o[slot] : 0) + c->noise + fade * v;
    }
}

static double log_up(double sum_of_terms, double magnitude) {
    return sum_of_terms + 4 * GRID_ROUNDING * magnitude;
}

/* The tilted weights of a part, folded into w. */
static grid_moments fold(const hull_atoms *a, double step, double t, double s, int64_t length, double *w) {
    const double u = GRID_ROUNDING;
    base_running sum = {0, 0}, wrap = {0, 0};
    double largest = -INFINITY;
    for (int64_t i = 0; i < a->count; i++)
        if (a->mass[i] > 0) largest = fmax(largest, t * step * (double)(a->first + i) + log(a->mass[i]));
    for (int64_t i = 0; i < a->count; i++)
        base_running_add(&sum, a->mass[i] * exp(t * step * (double)(a->first + i) - largest));
    const double log_moment = largest + log(base_running_value(&sum));
    int64_t slot = a->first % length;
    if (slot < 0) slot += length;
    for (int64_t i = 0; i < length; i++)
        w[i] = 0;
    sum = (base_running){0, 0};
    for (int64_t i = 0; i < a->count; i++) {
        const double x = step * (double)(a->first + i), exponent = t * x - log_moment;
        const double weight = a->mass[i] * exp(exponent) * (1 + u * (16 + 4 * fabs(t * x) + 4 * fabs(log_moment)));
        w[slot] += weight * (1 + u * (8 + (double)a->count / (double)length)); /* and of the sums */
        base_running_add(&sum, weight);
        base_running_add(&wrap, weight * exp(s * x) * (1 + 4 * u * s * fabs(x)));
        if (++slot == length) slot = 0;
    }
    return (grid_moments){log_moment, log(base_running_value(&wrap)) + 1e-14, log(base_running_value(&sum)) + 1e-14};
}

/* Of all losses together, n-fold. */
typedef struct total {
    grid_moments moments;
    double magnitude; /* the sum of |n ln M| */
} total;

static void add_moments(total *all, double n, const grid_moments *m) {
    all->moments.log_moment += n * m->log_moment;
    all->moments.log_wrap += n * m->log_wrap;
    all->moments.log_sum += n * m->log_sum;
    all->magnitude += n * fabs(m->log_moment);
}

static dpmf_status compose_list(const grid_list *list, const grid_plan *plan, const dpmf_run *run, double *w,
                                double *noise, total *all) {
    grid_spectrum v;
    dpmf_status status = DPMF_OK;
    TRY(grid_spectrum_create(plan->length, &v));
    for (int i = 0; i < list->count; i++) {
        const hull_atoms *a = &list->atoms[i];
        TRY_DONE(base_progress(run, "composing privacy losses", (double)i / (double)list->count));
        const grid_moments m = fold(a, plan->step, plan->order, plan->wrap_order, plan->length, w);
        grid_spectrum_add(&v, a->times, w);
        add_moments(all, a->times, &m);
    }
    *noise = grid_spectrum_sum(&v, w);
done:
    grid_spectrum_free(&v);
    return status;
}

/* What is outside the window. */
static double log_cut_off(const grid_plan *plan, const grid_curve *c, const grid_moments *m) {
    const double top = (double)(c->first + c->length) * c->step, s = plan->wrap_order;
    const double chernoff = log_up(m->log_wrap - s * top, fabs(m->log_wrap) + s * fabs(top));
    const double log_mass = fmin(s > 0 ? chernoff : INFINITY, m->log_sum);
    const double width = (double)c->length * c->step;
    const double log_weight = width > log1p(1 / c->order) ? log(-expm1(-width)) : 0;
    const double above = log_up(c->log_moment - c->order * top + log_mass + log_weight,
                                fabs(c->log_moment) + c->order * fabs(top) + fabs(log_weight));
    return base_log_add(plan->log_infinite, above);
}

dpmf_status grid_compose(const pair_constants *p, const grid_list *list, const grid_plan *plan, const dpmf_run *run,
                         grid_curve *out) {
    grid_curve c = {.length = plan->length, .first = plan->first, .step = plan->step, .order = plan->order};
    total all = {0};
    double *w = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(c.length, "the distribution of a privacy loss", &w));
    TRY_DONE(base_alloc_doubles(c.length, "the tails of a privacy loss", &c.tails));
    if (p != NULL) {
        grid_moments m;
        TRY_DONE(grid_densities(p, plan, run, w, &m));
        TRY_DONE(grid_power(c.length, p->n, w, run, &c.noise));
        add_moments(&all, p->n, &m);
    } else {
        TRY_DONE(compose_list(list, plan, run, w, &c.noise, &all));
    }
    /* n ln M, and 4 u for each of the recurrence's steps */
    c.log_moment = log_up(all.moments.log_moment, all.magnitude + (double)c.length);
    c.log_rest = log_cut_off(plan, &c, &all.moments);
    fill_tails(&c, w);
    *out = c;
    c.tails = NULL;
done:
    base_free(w);
    base_free(c.tails);
    return status;
}

void grid_curve_free(grid_curve *curve) {
    base_free(curve->tails);
    curve->tails = NULL;
}

/* ln of the bound at grid point k, without what was cut off. */
static double log_tail_at(const grid_curve *c, int64_t k) {
    const double shift = c->order * (double)(c->first + k) * c->step;
    return log_up(c->log_moment - shift + log(c->tails[k]), fabs(c->log_moment) + fabs(shift) + 800);
}

static double grid_point(const grid_curve *c, int64_t k) {
    return (double)(c->first + k) * c->step;
}

double grid_curve_log_delta(const grid_curve *curve, double epsilon) {
    const double place = epsilon / curve->step - (double)curve->first;
    if (!(place >= 0)) return INFINITY;
    /* A grid point that is certainly not above epsilon; between it and the next, linear in e^epsilon. */
    int64_t k = place < (double)(curve->length - 1) ? (int64_t)place : curve->length - 1;
    if (k > 0 && grid_point(curve, k) > epsilon) k--;
    double log_tail = log_tail_at(curve, k);
    if (k + 1 < curve->length) {
        const double part = expm1(epsilon - grid_point(curve, k)) / expm1(curve->step);
        const double down = fmin(fmax(part, 0), 1) * (1 - 1e-12);
        const double next = log_tail_at(curve, k + 1);
        log_tail = base_log_add(log_tail + log1p(-down), next + log(down));
    }
    return base_log_add(log_tail, curve->log_rest) + 1e-14;
}

grid_shape grid_curve_shape(const grid_curve *curve, double epsilon, double log_delta) {
    const double t = curve->order, h = curve->step;
    enum { APART = 4 }; /* grid points between the places compared: not so near that one atom makes the difference */
    int64_t k = (int64_t)fmin(fmax(epsilon / h - (double)curve->first, APART), (double)(curve->length - 1 - 2 * APART));
    const double here = log_tail_at(curve, k);
    const double left = exp(log_tail_at(curve, k - APART) - here), right = exp(log_tail_at(curve, k + APART) - here);
    grid_shape shape;
    shape.slope = fmax((left - right) / (2 * APART * h), 1e-300);
    shape.bend = fmax((left - 2 + right) / (APART * h * APART * h) / shape.slope, 0);
    /* D_k of a window that holds `noise` alone */
    const double d = curve->noise * exp(-t * h) * -expm1(-h) / (expm1(-t * h) * expm1(-(1 + t) * h));
    shape.noise = exp(curve->log_moment - t * epsilon + log(d) - log_delta);
    shape.cut = exp(curve->log_rest - log_delta);
    return shape;
}

double grid_curve_epsilon(const grid_curve *curve, double log_delta, int *side) {
    *side = 1;
    if (!(curve->log_rest < log_delta - 0.01)) return INFINITY; /* nearer, their difference would lose its digits */
    const double target = base_log_sub(log_delta, curve->log_rest) - 4e-14 * (1 + fabs(log_delta));
    int64_t low = 0, high = curve->length - 1; /* the bound falls as k rises: above the target at low, not at high */
    if (!(log_tail_at(curve, high) <= target)) return INFINITY;
    *side = -1;
    if (log_tail_at(curve, low) <= target) return grid_point(curve, low);
    *side = 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(log_tail_at(curve, middle) <= target ? &high : &low) = middle;
    }
    const double more = exp(fmin(log_tail_at(curve, low) - target, 700)), less = exp(log_tail_at(curve, high) - target);
    const double part = fmin((more - 1) / (more - less) * (1 + 1e-12), 1);
    const double x = grid_point(curve, low);
    return x + log1p(part * expm1(curve->step)) * (1 + 1e-12) + 4 * GRID_ROUNDING * fabs(x);
}
