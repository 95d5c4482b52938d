/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment generating function of the privacy loss of one step.
 *
 * With w(x) = 1 - q + q e^((2x-1)/(2 sigma^2)), l = ln w, l- (x) = l(-x) and E the expectation under N(0, sigma^2),
 *
 *     M(z) = E[e^u],   u = (z+1) l  (remove),   -z l  (add),   (z+1) l - z l-  (replace).
 *
 * Small losses. For q or 1/sigma small M - 1 is of the second order in l, while e^u - 1 is of the first: a sum of the
 * latter would lose half of the digits, and n-fold composition multiplies the loss by n. But E[w] = 1; with
 * phi(u) = e^u - 1 - u and S = E[phi(l)] = -E[l],
 *
 *     M(z) - 1 = E[phi(u)] - c S,     c = z + 1, -z, 1,
 *
 * every term of which is of the second order. With outcomes apart (account/pair.h) e^u is 0 there, and
 * phi(u) becomes -1 - u.
 *
 * Quadrature: the trapezoid rule, which converges geometrically for functions that are analytic in a strip and decay
 * (Trefethen and Weideman 2014, Theorem 5.1). The Gaussian asks for a step below sigma / sqrt 2, the zeros of w at
 * Im x = +-pi sigma^2 for one below 0.4 sigma^2, to leave e^-45. At a cut, in the middle between two points, the rule
 * misses about a third of a step of what is there (account/pair_strip.c), which is as rare as the cut.
 */
#include "account/pair.h"

#include "base/special.h"

#include <assert.h>
#include <float.h>
#include <math.h>

dpmf_status account_pair_check(const account_pair *pair) {
    if (pair->direction != ACCOUNT_REMOVE && pair->direction != ACCOUNT_ADD && pair->direction != ACCOUNT_REPLACE)
        return base_fail(DPMF_ERROR_ARGUMENT, "direction %d: expected remove, add or replace", (int)pair->direction);
    if (!(pair->sigma > 0 && isfinite(pair->sigma)))
        return base_fail(DPMF_ERROR_ARGUMENT, "sigma %g: expected a positive number", pair->sigma);
    if (!(pair->probability > 0 && pair->probability <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling probability %g: expected 0 < q <= 1", pair->probability);
    if (pair->compositions < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld compositions: expected at least 1", (long long)pair->compositions);
    return DPMF_OK;
}

static double log_odds(const account_pair *pair) {
    return log(pair->probability) - log1p(-pair->probability);
}

double account_pair_log_ratio(const account_pair *pair, double x) {
    const double q = pair->probability, e = (x - 0.5) / (pair->sigma * pair->sigma);
    if (e < 600) return log1p(q * expm1(e)); /* to a few roundings of itself, for any q; beyond, overflow is near */
    return e + log(q) + log1p((1 - q) / q * exp(-e));
}

double account_pair_loss_limit(const account_pair *pair) {
    return pair->direction == ACCOUNT_ADD ? -log1p(-pair->probability) : INFINITY;
}

/* ---- rare outcomes apart ---- */

int account_pair_is_apart(const account_pair *pair, double cut, double x) {
    return x > cut || (pair->direction == ACCOUNT_REPLACE && x < -cut);
}

double account_pair_log_apart(const account_pair *pair, double cut) {
    const double log_q = log(pair->probability), log_rest = log1p(-pair->probability);
    const double zero = base_log_normal_cdf(-cut / pair->sigma);
    if (isinf(cut)) return -INFINITY;
    if (pair->direction == ACCOUNT_ADD) return zero;
    double one = base_log_normal_cdf((1 - cut) / pair->sigma);
    if (pair->direction == ACCOUNT_REMOVE) return base_log_add(log_rest + zero, log_q + one);
    one = base_log_add(one, base_log_normal_cdf((-1 - cut) / pair->sigma));
    return base_log_add(log_rest + log(2.0) + zero, log_q + one);
}

/* ---- where the integrand lives ---- */

double account_pair_kept(const account_pair *pair) {
    return 42 + log((double)pair->compositions);
}

enum { POINTS_MAX = 1 << 16 };

/* r = sigma^2 l'(x) */
static double slope_of(const account_pair *pair, double x) {
    const double e = (x - 0.5) / (pair->sigma * pair->sigma) + log_odds(pair);
    return 1 / (1 + exp(-e));
}

/* ln of the integrand, ln of the Gaussian's norm apart */
static double log_size(const account_pair *pair, double cut, double t, double x) {
    const double l = account_pair_log_ratio(pair, x), z = x / pair->sigma;
    if (account_pair_is_apart(pair, cut, x)) return -INFINITY;
    double u = pair->direction == ACCOUNT_ADD ? -t * l : (t + 1) * l;
    if (pair->direction == ACCOUNT_REPLACE) u -= t * account_pair_log_ratio(pair, -x);
    return u - 0.5 * z * z;
}

/*
 * False if the range is too long. The maxima of the integrand on the real line are where x = (t+1) r(x) (remove), -t r
 * (add), (t+1) r + t r- (replace); an upper bound of the right-hand side that grows with x, iterated from above, comes
 * down to or above the last of them.
 */
int account_pair_find_range(const account_pair *pair, double cut, double t, double fineness, account_pair_range *out) {
    const double sigma = pair->sigma, keep = account_pair_kept(pair), reach = sqrt(2 * keep) * sigma;
    double low = -reach, high = reach + 1; /* 1: S needs the range of w times the Gaussian, too */
    const double order = pair->direction == ACCOUNT_ADD ? -t : t + 1; /* u = order * l, replace apart */
    if (order < 0) {
        double below = order * slope_of(pair, 0), above = 0; /* the one maximum, by bisection */
        for (int round = 0; round < 60; round++) {
            const double middle = 0.5 * (below + above);
            if (middle < order * slope_of(pair, middle)) {
                below = middle;
            } else {
                above = middle;
            }
        }
        low += below;
    } else {
        const double constant = pair->direction == ACCOUNT_REPLACE ? t * slope_of(pair, 0) : 0;
        double top = constant + order;
        for (int round = 0; round < 200 && top > 1000 * sigma; round++) { /* a caller can come down the rest */
            const double next = constant + order * slope_of(pair, top);
            if (!(next < top - 1e-3 * sigma)) break;
            top = next;
        }
        if (isinf(cut)) high += top;
    }
    if (isfinite(cut)) high = fmax(high, cut);
    double step = fmin(0.5 * sigma, 0.36 * sigma * sigma) / fineness;
    if (!((high - low) / (step * fineness) < POINTS_MAX)) return 0; /* the same orders, however fine */
    out->step = step;
    out->origin = 0;
    if (isfinite(cut)) {
        if (pair->direction == ACCOUNT_REPLACE) out->step = step = 2 * cut / ceil(2 * cut / step);
        out->origin = cut - step * (floor(cut / step) + 0.5);
    }
    out->first = (int64_t)floor(low / step);
    out->last = (int64_t)ceil(high / step);
    if (isfinite(cut)) { /* the origin is up to half a step away */
        out->first--;
        out->last++;
    }
    return 1;
}

int64_t account_pair_shorten(const account_pair *pair, double cut, double t, account_pair_range *r) {
    const double enough = sqrt(2 * account_pair_kept(pair)) * pair->sigma + 1; /* for the Gaussian and S */
    const int64_t stride = (int64_t)ceil(0.25 * pair->sigma / r->step);
    while (r->origin + r->step * (double)(r->last - stride) > enough &&
           log_size(pair, cut, t, r->origin + r->step * (double)(r->last - stride)) < -account_pair_kept(pair)) {
        r->last -= stride;
    }
    return stride;
}

/* ---- real orders ---- */

/* e^u - 1 - u without cancellation */
static double excess(double u) {
    if (fabs(u) > 0.5) return expm1(u) - u;
    double sum = 0;
    for (int k = 17; k >= 3; k--) { /* 0.5^16 / 17! is below a rounding */
        sum = (sum + 1) * u / k;
    }
    return 0.5 * u * u * (1 + sum);
}

static double density_factor(const account_pair *pair, double step) {
    static const double one_over_sqrt_two_pi = 0.39894228040143267794;
    return step / pair->sigma * one_over_sqrt_two_pi;
}

static double gaussian_cumulant_factor(const account_pair *pair) {
    const double mu = (pair->direction == ACCOUNT_REPLACE ? 2 : 1) / pair->sigma;
    return 0.5 * mu * mu;
}

/* The sums of one trapezoid rule, e^-shift times their values where shift > 0. */
typedef struct sums {
    double excess, excess_size, spread; /* E[phi(u)], its rounding, S */
    double whole, moment[4];            /* E[e^u L^k]; moment[1] less E[L] */
} sums;

static void add_point(const account_pair *pair, double cut, double t, double x, double factor, double shift,
                      sums *out) {
    const double log_weight = -0.5 * (x / pair->sigma) * (x / pair->sigma);
    const double l = account_pair_log_ratio(pair, x), weight = factor * exp(log_weight);
    double loss = l, u = (t + 1) * l;
    if (pair->direction == ACCOUNT_ADD) {
        loss = -l;
        u = -t * l;
    } else if (pair->direction == ACCOUNT_REPLACE) {
        const double mirrored = account_pair_log_ratio(pair, -x);
        loss = l - mirrored;
        u = l + t * loss;
    }
    const int apart = account_pair_is_apart(pair, cut, x);
    const double e = apart ? 0 : factor * exp(u + log_weight - shift);
    out->whole += e;
    out->moment[2] += e * loss * loss;
    out->moment[3] += e * loss * loss * loss;
    if (shift > 0) {
        out->moment[1] += e * loss;
        return;
    }
    /* e - weight (1 + u) in the tail, where the weight alone underflows before the product does */
    const int by_parts = fabs(u) > 0.5 || apart;
    const double term = by_parts ? e - weight * (1 + u) : weight * excess(u);
    out->excess += term;
    out->excess_size += fabs(term) + (by_parts ? weight * fabs(u) : 0);
    out->moment[1] += loss * (by_parts ? e - weight : weight * expm1(u));
    out->spread += l > 30 ? factor * exp(l + log_weight) - weight * (1 + l) : weight * excess(l);
}

account_cumulant account_pair_cumulant(const account_pair *pair, double cut, double t, double fineness) {
    account_cumulant k = {0, 0, 0, 0, INFINITY};
    if (!(t > 0) || isinf(t)) return k;
    if (pair->probability == 1) {
        const double c = gaussian_cumulant_factor(pair);
        return (account_cumulant){c * t * (t + 1), c * (2 * t + 1), 2 * c, 0, 2 * DBL_EPSILON * c * t * (t + 1)};
    }
    account_pair_range r;
    if (!account_pair_find_range(pair, cut, t, fineness, &r)) return k;
    const int64_t stride = account_pair_shorten(pair, cut, t, &r);
    double peak = 0; /* within the 0.03 that a stride of sigma/4 may miss */
    for (int64_t i = r.first; i <= r.last; i += stride) {
        peak = fmax(peak, log_size(pair, cut, t, r.origin + r.step * (double)i));
    }
    const double shift = peak > 50 ? peak : 0; /* beyond e^50 the 1 in M - 1 has no digits left */
    sums s = {0};
    for (int64_t i = r.first; i <= r.last; i++) {
        add_point(pair, cut, t, r.origin + r.step * (double)i, density_factor(pair, r.step), shift, &s);
    }
    double m = s.whole, first = s.moment[1], log_size_error = 0;
    if (shift > 0) {
        k.value = shift + log(m);
        log_size_error = shift + 4;
    } else {
        const double c = pair->direction == ACCOUNT_REMOVE ? t + 1 : pair->direction == ACCOUNT_ADD ? -t : 1;
        const double c_first = pair->direction == ACCOUNT_REMOVE ? 1 : pair->direction == ACCOUNT_ADD ? -1 : 0;
        const double less_one = s.excess - c * s.spread;
        m = 1 + less_one;
        k.value = log1p(less_one);
        first -= c_first * s.spread;
        log_size_error = (s.excess_size + fabs(c) * s.spread) / m;
    }
    const double a = first / m, b = s.moment[2] / m;
    k.first = a;
    k.second = b - a * a;
    k.third = s.moment[3] / m - 3 * a * b + 2 * a * a * a;
    /* exp and ln of arguments up to |u|: 16 roundings of each term, and what was cut off */
    k.error = 16 * DBL_EPSILON * log_size_error + exp(-account_pair_kept(pair));
    if (!isfinite(k.value) || !isfinite(k.first) || !(k.second >= 0)) k.error = INFINITY;
    return k;
}
