/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The saddle of g(t) = n K(t) - t epsilon - ln t - ln(t+1), K = ln M, on t > 0. g is convex (K is, as a cumulant
 * generating function), g' runs from -infinity up; so for each epsilon there is one saddle, and turned around, each t
 * is the saddle of
 *
 *     epsilon(t) = n K'(t) - 1/t - 1/(t+1),
 *
 * where the saddle point approximation (Daniels 1954) is ln delta ~ g(t) - ln(2 pi g''(t))/2, explicit in t and falling.
 * Both questions are one equation in ln t: bracketed by doubling, then regula falsi (Illinois) with bisection as guard.
 */
#include "account/contour/contour.h"

#include <math.h>

static const double log_two_pi = 1.83787706640934548356;

/* Everything at t for this epsilon; NAN: for the one whose saddle is here. False where K cannot be had. */
static int shape_at(const account_pair *pair, double cut, double t, double epsilon, contour_saddle *out) {
    const account_cumulant k = account_pair_cumulant(pair, cut, t, 1);
    if (!isfinite(k.error)) return 0;
    const double n = (double)pair->compositions;
    out->t = t;
    out->epsilon = isnan(epsilon) ? n * k.first - 1 / t - 1 / (t + 1) : epsilon;
    out->value = n * k.value - t * out->epsilon - log(t) - log1p(t);
    out->second = n * k.second + 1 / (t * t) + 1 / ((t + 1) * (t + 1));
    out->third = n * k.third - 2 / (t * t * t) - 2 / ((t + 1) * (t + 1) * (t + 1));
    out->scale = k.value;
    return isfinite(out->value) && isfinite(out->second) && isfinite(out->third);
}

/* Falls with t: epsilon - epsilon(t), or the approximation of ln delta less its target. -INFINITY past where K fails. */
static double residual(const account_pair *pair, double cut, double t, double epsilon, double log_delta,
                       contour_saddle *out) {
    if (!shape_at(pair, cut, t, NAN, out)) return -INFINITY;
    if (!isnan(epsilon)) return epsilon - out->epsilon;
    return out->value - 0.5 * (log_two_pi + log(out->second)) - log_delta;
}

static int find(const account_pair *pair, double cut, double epsilon, double log_delta, contour_saddle *out) {
    double low = 0, high = 0, at_low = 0, at_high = 0; /* low, high: ln t */
    at_low = at_high = residual(pair, cut, 1, epsilon, log_delta, out);
    for (int round = 0; at_high > 0; round++) {
        if (round == 30) return 0;
        low = high, at_low = at_high;
        high += 1.5;
        at_high = residual(pair, cut, exp(high), epsilon, log_delta, out);
    }
    for (int round = 0; at_low <= 0; round++) {
        if (round == 30) return 0;
        high = low, at_high = at_low;
        low -= 1.5;
        at_low = residual(pair, cut, exp(low), epsilon, log_delta, out);
    }
    /* t needs not be exact: a thousandth of the saddle's width, u = g''^(-1/2), costs nothing. */
    for (int round = 0; round < 100; round++) {
        double middle = low + (high - low) * at_low / (at_low - at_high);
        if (!(middle > low && middle < high) || round % 4 == 3) middle = 0.5 * (low + high);
        const double at = residual(pair, cut, exp(middle), epsilon, log_delta, out);
        const int finite = isfinite(at);
        if (finite && (high - low) * out->t * sqrt(out->second) < 1e-2) break;
        if (finite && !isnan(epsilon) && fabs(at) < 1e-3 * sqrt(out->second)) break;
        if (finite && isnan(epsilon) && fabs(at) < 1e-2) break;
        if (at > 0) {
            at_high *= 0.5;
            low = middle, at_low = at;
        } else {
            at_low *= 0.5;
            high = middle, at_high = at;
        }
        if (!(high - low > 1e-12)) return finite;
    }
    return isfinite(out->value) && shape_at(pair, cut, out->t, epsilon, out);
}

int contour_saddle_at_epsilon(const account_pair *pair, double cut, double epsilon, contour_saddle *out) {
    return find(pair, cut, epsilon, NAN, out);
}

int contour_saddle_at_delta(const account_pair *pair, double log_delta, contour_saddle *out) {
    return find(pair, INFINITY, NAN, log_delta, out);
}

int contour_saddle_move(const account_pair *pair, double t, contour_saddle *saddle) {
    contour_saddle moved;
    if (!shape_at(pair, INFINITY, t, saddle->epsilon, &moved)) return 0;
    saddle->t = moved.t;
    saddle->value = moved.value;
    saddle->scale = moved.scale;
    return 1; /* the derivatives, which shape the contour, stay those of the saddle */
}
