/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choices of the Fourier sum. Every choice gives a bound; these give one that is tight at little cost.
 *
 * Order. Any t > 0 may be the abscissa. At the saddle point the terms are the smallest, but where sampling is rare that
 * is just before M(t) explodes (one absurdly large loss outweighs all else at high orders), and the aliases above then
 * ask for a long period. A smaller t costs some digits by cancellation and nothing else, so orders from the saddle point
 * down are tried, the least work wins.
 *
 * Spacing. The aliases are bounded by M(r)^n e^(-r epsilon) / ((1+r) (e^(sp) - 1)), r = t + s and t - s; p such that
 * they are a part `tolerance` of delta, at the best s.
 *
 * Number. As many nodes as make the rest of the sum, by account/line/decay.c, such a part.
 *
 * Tolerance. 1e-9, or where that would be much work as much as the slack allows. What takes more work than connecting
 * the dots would is left to that.
 */
#include "account/contour/contour.h"
#include "account/dots/dots.h"
#include "account/line/line.h"

#include <math.h>

static const double PI = 3.14159265358979323846;
static const double FINE = 1e-9,
                    COARSE = 0.02; /* tolerances: a part of delta; such a part of what the slack does to it */

/* Number of nodes times points: some 3 ns each. What the grid of the other method costs grows like sqrt n. */
static const double WORK_FINE = 1 << 18, WORK_LEAST = 1 << 22, WORK_MOST = 1 << 24;

enum { POINTS_MAX = 4096 }; /* for a quadrature at y = 0: orders that high are none of ours */

static double work_limit(const dpmf_i_account_pair *pair) {
    return fmin(WORK_MOST, WORK_LEAST * fmax(1, sqrt((double)pair->compositions / 1e4)));
}

typedef struct aim {
    const dpmf_i_account_pair *pair;
    double n, epsilon, log_delta, tolerance;
} aim;

/* The period that makes the aliases of one side small by the order t + side s; INFINITY where M cannot be had. */
static double period_at(const aim *a, double t, int side, double s, dpmf_i_account_line_alias *out) {
    const double r = t + side * s;
    if (!(r > 0)) return INFINITY;
    const dpmf_i_account_cumulant k = dpmf_i_account_pair_cumulant(a->pair, r, 1);
    if (!isfinite(k.error)) return INFINITY;
    *out = (dpmf_i_account_line_alias){a->n * (k.value + k.error) - log1p(r), r};
    return (out->log_factor - r * a->epsilon - a->log_delta - log(a->tolerance)) / s;
}

/* The best of some s, from where it is best for a Gaussian on as long as it gets better. */
static double find_period(const aim *a, double t, double deviation, int side, dpmf_i_account_line_alias *out) {
    double start = 5 / deviation, best;
    if (side < 0) start = fmin(start, 0.75 * t);
    best = period_at(a, t, side, start, out);
    for (int up = 0; up < 2; up++) {
        double s = start;
        for (int i = 0; i < 20; i++) {
            dpmf_i_account_line_alias there = {0, 0};
            s = !up ? s / 1.5 : side > 0 ? s * 1.5 : fmin(s * 1.5, 0.5 * (s + t));
            const double period = period_at(a, t, side, s, &there);
            if (!(period < 0.98 * best) && !(isinf(best) && !up)) break;
            if (!(period < best)) continue;
            best = period;
            *out = there;
        }
    }
    return best;
}

/* The number of nodes but the first after which the rest of the sum is small; 0: more than `most`. */
static int64_t find_count(const aim *a, const dpmf_i_account_line_decay *decay, double spacing, double enough,
                          int64_t most, double *log_rest) {
    int64_t low = 0, high = 8;
    for (;; high *= 2) {
        if (low >= most) return 0;
        const double y = spacing * (double)high;
        *log_rest = -a->n * dpmf_i_account_line_decay_from(decay, y) - log(PI * y);
        if (*log_rest <= enough) break;
        low = high;
    }
    while ((double)(high - low) > fmax(1, 0.02 * (double)low)) {
        const int64_t middle = low + (high - low) / 2;
        const double y = spacing * (double)middle;
        const double there = -a->n * dpmf_i_account_line_decay_from(decay, y) - log(PI * y);
        if (there <= enough) {
            high = middle;
            *log_rest = there;
        } else {
            low = middle;
        }
    }
    return high;
}

/* Everything at the order t; false where it cannot be had with so many nodes. */
static int plan_at(const aim *a, double t, int64_t most, dpmf_i_account_line_plan *out) {
    dpmf_i_account_line_decay decay;
    if (dpmf_i_account_line_rule_points(a->pair, t, 0) > POINTS_MAX) return 0;
    const dpmf_i_account_cumulant k = dpmf_i_account_pair_cumulant(a->pair, t, 1);
    if (!isfinite(k.error)) return 0;
    out->log_moment = k.value + k.error + 1e-9 * fabs(k.value); /* far above all errors of k */
    dpmf_i_account_line_decay_fill(a->pair, t, out->log_moment, &decay);
    const double enough = a->log_delta + log(a->tolerance) - (a->n * k.value - t * a->epsilon);
    if (a->n * dpmf_i_account_line_decay_from(&decay, 1e300) < -enough - 16) return 0; /* 16: of ln(pi y) */
    const double deviation = sqrt(a->n * k.second + 1 / (t * t) + 1 / ((1 + t) * (1 + t)));
    const double up = find_period(a, t, deviation, 1, &out->above);
    const double down = isfinite(up) ? find_period(a, t, deviation, -1, &out->below) : INFINITY;
    const double period = fmax(fmax(up, down), 0.1 * deviation);
    if (!isfinite(period)) return 0;
    out->t = t;
    out->spacing = 2 * PI / period;
    out->above.log_factor -= log(expm1((out->above.order - t) * period));
    out->below.log_factor -= log(expm1((t - out->below.order) * period));
    out->count = find_count(a, &decay, out->spacing, enough, most, &out->log_rest) + 1;
    return out->count > 1;
}

/* The order with the least work. */
static int best_plan(const aim *a, double saddle, dpmf_i_account_line_plan *out) {
    enum { ORDERS = 8, FEW = 48, MOST = 1 << 13 };
    double least = INFINITY, t = saddle;
    for (int i = 0; i < ORDERS; i++, t *= 0.8) {
        dpmf_i_account_line_plan plan;
        if (!plan_at(a, t, MOST, &plan)) continue;
        const double work = (double)plan.count * (double)plan.count * plan.spacing; /* points are like the last y */
        if (work >= least) break;
        least = work;
        *out = plan;
        if (plan.count <= FEW) break;
    }
    return isfinite(least);
}

/* At most so much work? Sets the number of points that would be it. */
static int is_worth_it(const dpmf_i_account_pair *pair, double work, dpmf_i_account_line_plan *plan) {
    plan->points_max = (int64_t)(work / (double)plan->count) + 64;
    return dpmf_i_account_line_rule_points(pair, plan->t, plan->spacing * (double)plan->count) < plan->points_max;
}

int dpmf_i_account_line_plan_make(const dpmf_i_account_pair *pair, double epsilon, double log_delta, double slack,
                                  double grid, dpmf_i_account_line_plan *out) {
    aim a = {pair, (double)pair->compositions, epsilon, log_delta, FINE};
    dpmf_i_account_contour_saddle at;
    if (!dpmf_i_account_contour_saddle_at_epsilon(pair, epsilon, &at)) return 0;
    const double t = at.t;
    if (best_plan(&a, t, out) && is_worth_it(pair, WORK_FINE, out)) return 1;
    a.tolerance = COARSE * fmin(0.5, t * slack);
    if (grid > 0)
        a.tolerance = fmin(a.tolerance, COARSE * a.n * grid * grid * t * (1 + t) / 12); /* account/dots/dots.c */
    return a.tolerance > FINE && best_plan(&a, t, out) && is_worth_it(pair, work_limit(pair), out);
}

dpmf_status dpmf_i_account_line_guess_epsilon(const dpmf_i_account_pair *pair, double log_delta, double *epsilon) {
    const dpmf_i_account_dots_pair p = dpmf_i_account_dots_pair_from(pair);
    dpmf_i_account_dots_profile profile;
    TRY(dpmf_i_account_dots_profile_create(&p, log_delta - p.log_n - 10, &profile));
    *epsilon = dpmf_i_account_dots_guess(&p, &profile, log_delta);
    dpmf_i_account_dots_profile_free(&profile);
    return DPMF_OK;
}

dpmf_status dpmf_i_account_line_guess_log_delta(const dpmf_i_account_pair *pair, double epsilon, double *log_delta) {
    const dpmf_i_account_dots_pair p = dpmf_i_account_dots_pair_from(pair);
    return dpmf_i_account_dots_plan_log_delta(&p, epsilon, log_delta);
}
