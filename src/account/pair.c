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
 * (Trefethen and Weideman 2014, Theorem 5.1). The Gaussian needs a step below sigma / sqrt 2, the zeros of w at Im x =
 * +-pi sigma^2 for one below 0.4 sigma^2, to leave e^-45. At a cut, in the middle between two points, the rule misses
 * about a third of a step of what is there (below), which is as rare as the cut.
 */
#include "account/pair.h"

#include "base/special.h"

#include <assert.h>
#include <float.h>
#include <math.h>

dpmf_status pair_check(const account_pair *pair) {
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

double complex pair_complex(double x, double y) {
    const union {
        double part[2];
        double complex value;
    } both = {{x, y}};
    return both.value;
}

/* ---- what a question gives by itself ---- */

double account_read_delta(account_answer *found) {
    const double delta = fmin(1, exp(found->value));
    if (delta > 0 || found->value == -INFINITY) return delta;
    found->kind = DPMF_UPPER_BOUND; /* below every double: 0 would be a guarantee that does not hold */
    return DBL_TRUE_MIN;
}

double account_worst(const account_question *q) {
    return q->of_epsilon ? INFINITY : 0;
}

double account_least(const account_question *q) {
    return q->of_epsilon ? 0 : -INFINITY;
}

double account_slack(const account_question *q, double epsilon) {
    return fmax(q->relative * epsilon, q->absolute);
}

void account_take_worse(account_answer *worst, const account_answer *found) {
    if (found->value > worst->value) worst->met = found->met;
    worst->value = fmax(worst->value, found->value);
}

dpmf_status account_check_given(const account_question *q) {
    if (q->of_epsilon && !(q->given < 0 && isfinite(q->given)))
        return base_fail(DPMF_ERROR_ARGUMENT, "ln delta %g: expected a finite number below 0", q->given);
    if (!q->of_epsilon && !(q->given >= 0 && isfinite(q->given)))
        return base_fail(DPMF_ERROR_ARGUMENT, "epsilon %g: expected a finite number, at least 0", q->given);
    return DPMF_OK;
}

double pair_log_ratio(const account_pair *pair, double x) {
    const double q = pair->probability, e = (x - 0.5) / (pair->sigma * pair->sigma);
    if (e < 600) return log1p(q * expm1(e)); /* to a few roundings of itself, for any q; beyond, overflow is near */
    return e + log(q) + log1p((1 - q) / q * exp(-e));
}

double pair_loss_limit(const account_pair *pair) {
    return pair->direction == ACCOUNT_ADD ? -log1p(-pair->probability) : INFINITY;
}

/* ---- rare outcomes apart ---- */

int pair_is_apart(const account_pair *pair, double cut, double x) {
    return x > cut || (pair->direction == ACCOUNT_REPLACE && x < -cut);
}

double pair_log_apart(const account_pair *pair, double cut) {
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

double pair_kept(const account_pair *pair) {
    return 42 + log((double)pair->compositions);
}

enum { POINTS_MAX = 1 << 16 };

/* r = sigma^2 l'(x) */
static double slope_of(const account_pair *pair, double x) {
    const double q = pair->probability, e = (x - 0.5) / (pair->sigma * pair->sigma) + (log(q) - log1p(-q));
    return 1 / (1 + exp(-e));
}

/* ln of the integrand, ln of the Gaussian's norm apart */
static double log_size(const account_pair *pair, double cut, double t, double x) {
    const double l = pair_log_ratio(pair, x), z = x / pair->sigma;
    if (pair_is_apart(pair, cut, x)) return -INFINITY;
    double u = pair->direction == ACCOUNT_ADD ? -t * l : (t + 1) * l;
    if (pair->direction == ACCOUNT_REPLACE) u -= t * pair_log_ratio(pair, -x);
    return u - 0.5 * z * z;
}

/*
 * False if the range is too long. The maxima of the integrand on the real line are where x = (t+1) r(x) (remove), -t r
 * (add), (t+1) r + t r- (replace); an upper bound of the right-hand side that grows with x, iterated from above, comes
 * down to or above the last of them.
 */
int pair_find_range(const account_pair *pair, double cut, double t, double fineness, pair_range *out) {
    const double sigma = pair->sigma, keep = pair_kept(pair), reach = sqrt(2 * keep) * sigma;
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

int64_t pair_shorten(const account_pair *pair, double cut, double t, pair_range *r) {
    const double enough = sqrt(2 * pair_kept(pair)) * pair->sigma + 1; /* for the Gaussian and S */
    const int64_t stride = (int64_t)ceil(0.25 * pair->sigma / r->step);
    while (r->origin + r->step * (double)(r->last - stride) > enough &&
           log_size(pair, cut, t, r->origin + r->step * (double)(r->last - stride)) < -pair_kept(pair)) {
        r->last -= stride;
    }
    return stride;
}

/* ---- real orders ---- */

double pair_excess(double u) {
    if (fabs(u) > 0.5) return expm1(u) - u;
    double sum = 0;
    for (int k = 17; k >= 3; k--) { /* 0.5^16 / 17! is below a rounding */
        sum = (sum + 1) * u / k;
    }
    return 0.5 * u * u * (1 + sum);
}

/* The sums of one trapezoid rule, e^-shift times their values where shift > 0. */
typedef struct sums {
    double excess, excess_size, spread; /* E[phi(u)], its rounding, S */
    double whole, moment[4];            /* E[e^u L^k]; moment[1] less E[L] */
} sums;

static void add_point(const account_pair *pair, double cut, double t, double x, double factor, double shift,
                      sums *out) {
    const double log_weight = -0.5 * (x / pair->sigma) * (x / pair->sigma);
    const double l = pair_log_ratio(pair, x), weight = factor * exp(log_weight);
    double loss = l, u = (t + 1) * l;
    if (pair->direction == ACCOUNT_ADD) {
        loss = -l;
        u = -t * l;
    } else if (pair->direction == ACCOUNT_REPLACE) {
        const double mirrored = pair_log_ratio(pair, -x);
        loss = l - mirrored;
        u = l + t * loss;
    }
    const int apart = pair_is_apart(pair, cut, x);
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
    const double term = by_parts ? e - weight * (1 + u) : weight * pair_excess(u);
    out->excess += term;
    out->excess_size += fabs(term) + (by_parts ? weight * fabs(u) : 0);
    out->moment[1] += loss * (by_parts ? e - weight : weight * expm1(u));
    out->spread += l > 30 ? factor * exp(l + log_weight) - weight * (1 + l) : weight * pair_excess(l);
}

account_cumulant pair_cumulant(const account_pair *pair, double cut, double t, double fineness) {
    account_cumulant k = {0, 0, 0, 0, INFINITY};
    if (!(t > 0) || isinf(t)) return k;
    if (pair->probability == 1) {
        const double mu = (pair->direction == ACCOUNT_REPLACE ? 2 : 1) / pair->sigma, c = 0.5 * mu * mu;
        return (account_cumulant){c * t * (t + 1), c * (2 * t + 1), 2 * c, 0, 2 * DBL_EPSILON * c * t * (t + 1)};
    }
    pair_range r;
    if (!pair_find_range(pair, cut, t, fineness, &r)) return k;
    const int64_t stride = pair_shorten(pair, cut, t, &r);
    double peak = 0; /* within the 0.03 that a stride of sigma/4 may miss */
    for (int64_t i = r.first; i <= r.last; i += stride)
        peak = fmax(peak, log_size(pair, cut, t, r.origin + r.step * (double)i));
    const double shift = peak > 50 ? peak : 0; /* beyond e^50 the 1 in M - 1 has no digits left */
    sums s = {0};
    const double factor = r.step / pair->sigma * 0.39894228040143267794; /* over sqrt(2 pi) */
    for (int64_t i = r.first; i <= r.last; i++)
        add_point(pair, cut, t, r.origin + r.step * (double)i, factor, shift, &s);
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
    k.error = 16 * DBL_EPSILON * log_size_error + exp(-pair_kept(pair));
    if (!isfinite(k.value) || !isfinite(k.first) || !(k.second >= 0)) k.error = INFINITY;
    return k;
}

/*
 * A proven bound on the error of the quadrature above.
 *
 * The trapezoid rule of step h for a g that is analytic for |Im x| < b is off by at most 2 N / (e^(2 pi b/h) - 1), N a bound of the
 * integrals of |g| along the lines |Im x| = c <= b (Trefethen and Weideman 2014, Theorem 5.1). With w = A + B, A = 1 - q,
 * B = q e^((2x-1)/(2 sigma^2)), r = B/(A + B) and theta = b/sigma^2 < pi, w has no zeros in the strip, and on its edge
 *
 *     |A + B e^(i theta)|  <=  A + B   and   =  (A + B) sqrt(1 - 4 r (1-r) sin^2(theta/2))  >=  (A + B) cos(theta/2),
 *
 * so that with u as above, f the density of N(0, sigma^2) and r- = r(-x)
 *
 *     |g(x + ib)| <= e^(b^2/(2 sigma^2)) f(x) e^(u(x)) d,
 *     d = 1 (remove),  (1 - 4 r (1-r) sin^2(theta/2))^(-t/2) (add; replace: r-).
 *
 * At a complex order t + iy the argument of w comes to it, e^(y arg w), for replace also that of w-. With rho = B/A the derivative
 * of arg(1 + rho e^(i theta)) in theta is rho (rho + cos theta)/|1 + rho e^(i theta)|^2, for rho < 1 the largest at theta = 0,
 * where it is r: so arg w is at most r theta, and for rho >= 1 at most theta. All of these grow with b, with y and with rho. N is
 * a sum over cells of the largest value on each: u is monotone, f falls away from 0, r (1-r) has one maximum, at r = 1/2. Any
 * theta gives a bound; the best of some is taken.
 *
 * With outcomes beyond a cut apart the integral ends there, in the middle between two points of the rule. The proof by residues
 * then has two edges more for each cut, to cut +- ib, with the kernel 1/(1 + e^(2 pi v/h)) at cut + iv. There |g| grows by d and
 * e^(v^2/(2 sigma^2) + y arg w), an exponent below a convex one in v: less 2 pi v/h it is below -k v, -k b its value at b, so
 * that the edges add at most 2 d g(cut)/k.
 *
 * What the rule leaves out at the ends is bounded in the same way, with b = 0, as far as the cells go; they end where
 *
 *     below      u <= 0 (remove, replace): at most the normal tail; add: u - x^2/(2 sigma^2) is concave with a second derivative
 *                of -1/sigma^2 or less, so that it falls below its value at the end like a Gaussian's tail
 *     above      u <= 0 (add); else f e^u falls from the last maximum on, and as the slope of u is at most (2t+1)/sigma^2 it is a
 *                Gaussian's tail from 2t + 1 + reach on.
 *
 * The sums of the quadrature are T[e^u] - T[1] - c (T[w] - T[1]), as those of u cancel; T[1] and T[w] are Gaussian, off by
 * 3 e^(-2 pi^2 sigma^2/h^2), and lose at most e^-kept each at the ends.
 */

static const double PI = 3.14159265358979323846;

typedef struct strip {
    const account_pair *pair;
    double cut, t, sine_square; /* sin^2(theta/2) */
    double turn;                /* y theta */
} strip;

/* u at x: rises with x, or falls (add). */
static double exponent(const strip *s, double x) {
    const double l = pair_log_ratio(s->pair, x);
    if (s->pair->direction == ACCOUNT_ADD) return -s->t * l;
    if (s->pair->direction == ACCOUNT_REMOVE) return (s->t + 1) * l;
    return (s->t + 1) * l - s->t * pair_log_ratio(s->pair, -x);
}

/* ln B - ln A at the x that w to the power -t has. */
static double odds(const strip *s, double x) {
    const double q = s->pair->probability, at = s->pair->direction == ACCOUNT_REPLACE ? -x : x;
    return (at - 0.5) / (s->pair->sigma * s->pair->sigma) + log(q) - log1p(-q);
}

/* A bound of arg w over theta, from the r of the x. */
static double turning(const strip *s, double x) {
    const double q = s->pair->probability, e = (x - 0.5) / (s->pair->sigma * s->pair->sigma) + log(q) - log1p(-q);
    return e < 0 ? 1 / (1 + exp(-e)) : 1;
}

/* ln of e^(y arg), the largest between two x. */
static double log_turned(const strip *s, double x, double y) {
    if (s->turn == 0) return 0;
    return s->turn * (turning(s, y) + (s->pair->direction == ACCOUNT_REPLACE ? turning(s, -x) : 0));
}

/* ln d, the largest between two x. */
static double growth(const strip *s, double x, double y) {
    if (s->pair->direction == ACCOUNT_REMOVE || s->sine_square == 0) return 0;
    const double a = odds(s, x), b = odds(s, y);
    const double nearest = (a < 0) != (b < 0) ? 0 : fmin(fabs(a), fabs(b)), r = 1 / (1 + exp(nearest));
    return -0.5 * s->t * log1p(-4 * r * (1 - r) * s->sine_square);
}

static double log_norm(const strip *s) {
    return log(s->pair->sigma * sqrt(2 * PI));
}

/* ln of the largest e^u d e^(-x^2/(2 sigma^2)) between x and y, u at most `most` there. */
static double log_largest(const strip *s, double x, double y, double most) {
    const double near = (x < 0) != (y < 0) ? 0 : fmin(fabs(x), fabs(y)), z = near / s->pair->sigma;
    return most + growth(s, x, y) + log_turned(s, x, y) - 0.5 * z * z;
}

/* ln of the integral of f e^u d over cells from x to y. */
static double log_integral(const strip *s, double x, double y) {
    const double cell = 0.25 * s->pair->sigma;
    const int count = (int)ceil(fmax(y - x, 0) / cell);
    double sum = 0, shift = -INFINITY, before = exponent(s, x);
    for (int i = 0; i < count; i++) {
        const double left = x + i * cell, right = x + (i + 1) * cell, after = exponent(s, right);
        const double here = log_largest(s, left, right, fmax(before, after));
        before = after;
        if (here > shift) {
            sum *= exp(shift - here);
            shift = here;
        }
        if (here > shift - 600) sum += exp(here - shift);
    }
    /* 1e-9: roundings of the sums, and what is 600 below */
    return count > 0 ? shift + log(sum * cell) - log_norm(s) + 1e-9 : -INFINITY;
}

/* The same from x to y beyond the last maximum (pair_find_range), where f e^u falls, and d with it. */
static double log_falling(const strip *s, double x, double y) {
    if (!(y > x)) return -INFINITY;
    const double turned = log_turned(s, x, y) - log_turned(s, x, x); /* which rises */
    return log_largest(s, x, x, exponent(s, x)) + turned + log(y - x) - log_norm(s);
}

/* ln d from x on to where B is larger: for theta <= pi/2 |A + B e^(i theta)| grows with B, and u d falls. */
static double growth_on(const strip *s, double x) {
    return s->sine_square <= 0.5 ? growth(s, x, x) : -0.5 * s->t * log1p(-s->sine_square);
}

/* ln of what lies below `low` and above `high`, by the tails of Gaussians. */
static double log_outside(const strip *s, double low, double high) {
    const double sigma = s->pair->sigma, widest = -0.5 * s->t * log1p(-s->sine_square);
    const double turned = s->pair->direction == ACCOUNT_REPLACE ? 2 * s->turn : s->turn;
    const double turned_below = turned * (s->pair->direction == ACCOUNT_REPLACE ? 1 : turning(s, low));
    const double below = base_log_normal_cdf(low / sigma), above = base_log_normal_cdf(-high / sigma);
    if (s->pair->direction == ACCOUNT_ADD) {
        /* far below r (1-r) falls on, and u rises by its slope at the end at most: t r(low)/sigma^2 */
        const double r = 1 / (1 + exp(-odds(s, low))), slope = s->t * r;
        const double grown = odds(s, low) < 0 ? growth(s, low, low) : widest;
        const double left = exponent(s, low) + grown + slope * low / (sigma * sigma) +
                            0.5 * slope * slope / (sigma * sigma) + base_log_normal_cdf((low + slope) / sigma);
        const double right = exponent(s, high) + growth_on(s, high) + above;
        return isfinite(s->cut) ? left + turned_below : base_log_add(left + turned_below, right + turned);
    }
    const double slope = s->pair->direction == ACCOUNT_REPLACE ? 2 * s->t + 1 : s->t + 1;
    const double steep = s->pair->direction == ACCOUNT_REPLACE ? growth_on(s, low) : 0;
    /* with q > 1/2 d may still rise beyond `high` */
    const int rises = s->pair->direction == ACCOUNT_REPLACE && s->pair->probability > 0.5;
    const double grown = rises ? widest : growth(s, high, high);
    const double right = exponent(s, high) + grown + slope * (0.5 * slope - high) / (sigma * sigma) +
                         base_log_normal_cdf((slope - high) / sigma);
    const double left = below + exponent(s, low) + steep + turned_below;
    if (isfinite(s->cut) && s->pair->direction == ACCOUNT_REPLACE) return -INFINITY;
    return isfinite(s->cut) ? left : base_log_add(left, right + turned); /* above a cut there is nothing */
}

/* ln of what the edges at the cut x add; `rest`: decay less rise but for the turning. */
static double log_edges_at(const strip *s, double x, double b, double rest) {
    const double turned = log_turned(s, x, x), here = log_largest(s, x, x, exponent(s, x));
    return rest > turned ? log(2.0) + here - turned - log_norm(s) + log(b / (rest - turned)) : INFINITY;
}

static double log_edges(const strip *s, double b, double rest) {
    if (isinf(s->cut)) return -INFINITY;
    const double above = log_edges_at(s, s->cut, b, rest);
    if (s->pair->direction != ACCOUNT_REPLACE) return above;
    return base_log_add(above, log_edges_at(s, -s->cut, b, rest));
}

double pair_log_error(const account_pair *pair, double cut, double t, double y, double fineness, double enough) {
    enum { CHOICES = 7, CELLS_MAX = 1 << 14 };
    static const double turns[CHOICES] = {0.8, 0.6, 0.95, 0.4, 0.2, 0.1, 0.95}; /* theta/pi */
    const double sigma = pair->sigma, kept = pair_kept(pair), reach = sqrt(2 * kept) * sigma;
    const strip at_cut = {pair, cut, t, 0, 1};
    const double turn = y * (isinf(cut) ? (pair->direction == ACCOUNT_REPLACE ? 2 : 1) : log_turned(&at_cut, cut, cut));
    pair_range r, used;
    double best = INFINITY;
    if (pair->probability == 1) return -INFINITY;
    if (!pair_find_range(pair, cut, t, fineness, &r)) return INFINITY;
    used = r;
    pair_shorten(pair, cut, t, &used);
    const double first = r.origin + r.step * (double)r.first;
    const double low = pair->direction == ACCOUNT_REPLACE ? fmax(first, -cut) : first;
    const double high = fmin(r.origin + r.step * (double)r.last, cut);
    const double slope = pair->direction == ACCOUNT_REPLACE ? 2 * t + 1 : t + 1;
    const double end = pair->direction == ACCOUNT_ADD || isfinite(cut) ? high : fmax(high, slope + reach);
    if (!((high - low) / sigma < CELLS_MAX)) return INFINITY;
    for (int i = 0; i < CHOICES && !(best <= enough); i++) {
        /* the last: best for the Gaussian and y alone, where 2 pi b/h - b^2/(2 sigma^2) - theta turn is the most */
        const double best_alone = fmax(2 * PI / r.step - turn / (sigma * sigma), 0.01);
        const double theta = i + 1 < CHOICES ? PI * turns[i] : fmin(PI * turns[i], best_alone);
        const double half = sin(0.5 * theta), b = theta * sigma * sigma;
        const strip s = {pair, cut, t, half * half, theta * y};
        const double tails = base_log_add(log_falling(&s, high, end), log_outside(&s, low, end));
        const double inside = base_log_add(log_integral(&s, low, high), tails);
        const double decay = 2 * PI * b / r.step, rise = 0.5 * theta * b;
        if (!(decay > 1)) continue;
        const double whole = log(2.0) + rise + inside - decay - log(-expm1(-decay));
        best = fmin(best, base_log_add(whole, log_edges(&s, b, decay - rise)));
    }
    const strip line = {pair, cut, t, 0, 0};
    best = base_log_add(best, log_outside(&line, low, end));
    /* a sum over points up to sigma/2 apart by cells of sigma/4: at most three times the integral */
    best = base_log_add(best, log(3.0) + log_integral(&line, r.origin + r.step * (double)used.last, high));
    best = base_log_add(best, log_falling(&line, high, end));
    /* replace: the two tails of a range that is not symmetric do not cancel */
    const double c = pair->direction == ACCOUNT_REPLACE ? 2 + 2 * (t + y) * (reach + 1) / (sigma * sigma) : t + 2 + y;
    const double gaussian = -2 * PI * PI * sigma * sigma / (r.step * r.step);
    return base_log_add(best, log(8 * c) + base_log_add(gaussian, -kept));
}

/*
 * The loss as a function of the point z that is observed, and its inverse.
 *
 * Notation: w(z) = exp((2z-1)/(2 sigma^2)), the likelihood ratio of N(1, sigma^2) to N(0, sigma^2); rest = 1-q. The
 * loss at z is
 *
 *     remove   ln(rest + q w(z)),      add   -ln(rest + q w(z)),      replace   ln(rest + q w(z)) - ln(rest + q w(-z)),
 *
 * monotone in z in all three, with the inverses
 *
 *     remove   z = 1/2 + sigma^2 ln w,  w = (e^x - rest)/q;     add: the same at -x
 *     replace  z = sigma^2 (x/2 + asinh(rest sinh(x/2) e^(1/(2 sigma^2)) / q)):
 *
 * with E = e^(z/sigma^2) and k = q e^(-1/(2 sigma^2)), e^x = (rest + k E)/(rest + k/E) is a quadratic equation for E,
 * whose positive root over e^(x/2) is y + sqrt(y^2+1), y = rest sinh(x/2)/k.
 *
 * Accuracy: the z returned has a loss within c u |x| of x, c = 6 (for replace the rounding of the exponent of e^l =
 * rest/k comes to it: c = 6 + |l|), and is itself rounded to 4 u (|z|+1); account/grid/atoms.c allows for that much.
 * So (e^x - rest)/q is taken as 1 + expm1(x)/q near x = 0, where expm1 is accurate; as (rest/q) expm1(x - ln rest)
 * further down, where w may be small; and by logarithms where e^x is large.
 */

pair_constants pair_prepare(const account_pair *pair) {
    pair_constants p = {.direction = pair->direction, .sign = pair->direction == ACCOUNT_ADD ? -1 : 1};
    p.sigma = pair->sigma;
    p.inverse_variance = 1 / (pair->sigma * pair->sigma);
    p.q = pair->probability;
    p.log_q = log(p.q);
    p.log_rest = log1p(-p.q);
    p.n = (double)pair->compositions;
    p.log_n = log(p.n);
    p.edge_error = 6;
    if (p.direction == ACCOUNT_REPLACE && p.q < 1) p.edge_error += fabs(p.log_rest - p.log_q) + p.inverse_variance;
    return p;
}

/* ln(rest + q e^v). */
static double log_mixture(const pair_constants *p, double v) {
    /* Near v = 0, where the two parts nearly make 1; the bound on e^v keeps the argument from overflow and from -1. */
    if (fabs(v) < 1) return log1p(p->q * expm1(v));
    return base_log_add(p->log_rest, p->log_q + v);
}

static double log_w(const pair_constants *p, double z) {
    return (z - 0.5) * p->inverse_variance;
}

double pair_loss(const pair_constants *p, double z) {
    const double up = log_mixture(p, log_w(p, z));
    if (p->direction == ACCOUNT_REMOVE) return up;
    if (p->direction == ACCOUNT_ADD) return -up;
    return up - log_mixture(p, log_w(p, -z));
}

double pair_log_weight(const pair_constants *p, double z) {
    return p->direction == ACCOUNT_ADD ? 0 : log_mixture(p, log_w(p, z));
}

/* The v with ln(rest + q e^v) = x; -inf where there is none. */
static double mixture_inverse(const pair_constants *p, double x) {
    if (p->q == 1) return x;
    if (x <= p->log_rest) return -INFINITY;
    if (x > 1) return x - p->log_q + log1p(-exp(p->log_rest - x));
    if (x > -0.5 && expm1(x) > -0.5 * p->q) return log1p(expm1(x) / p->q);
    return p->log_rest - p->log_q + log(expm1(x - p->log_rest));
}

/* asinh(e^l sinh x), x >= 0, also where the product overflows. */
static double asinh_scaled(double l, double x) {
    static const double large = 300, log_two = 0.69314718055994530942;
    if (x == 0 || l == -INFINITY) return 0;
    const double log_product = l + (x > large ? x - log_two : log(sinh(x)));
    if (log_product > large) return log_product + log_two; /* what is left out is below e^-600 */
    return l < large && x < large ? asinh(exp(l) * sinh(x)) : asinh(exp(log_product));
}

double pair_inverse(const pair_constants *p, double x) {
    const double variance = p->sigma * p->sigma;
    if (p->direction != ACCOUNT_REPLACE) return 0.5 + variance * mixture_inverse(p, p->sign * x);
    const double half = 0.5 * fabs(x);
    const double z = variance * (half + asinh_scaled(p->log_rest - p->log_q + 0.5 * p->inverse_variance, half));
    return x < 0 ? -z : z;
}

/* ln of the mass of (1-q) N(0) + q N(1), or of N(0) for add, below z (side 1) or above (side -1). */
static double log_mass(const pair_constants *p, double z, int side) {
    const double zero = base_log_normal_cdf(side * z / p->sigma);
    if (p->direction == ACCOUNT_ADD) return zero;
    return base_log_add(p->log_rest + zero, p->log_q + base_log_normal_cdf(side * (z - 1) / p->sigma));
}

double pair_log_above(const pair_constants *p, double z) {
    return log_mass(p, z, -p->sign);
}

double pair_log_below(const pair_constants *p, double z) {
    return log_mass(p, z, p->sign);
}

double pair_far(const pair_constants *p, int upper) {
    static const double far = 60; /* sigmas: beyond them lies e^-1800 */
    return (upper ? p->sign : -p->sign) > 0 ? 1 + far * p->sigma : -1 - far * p->sigma;
}

double pair_cut(const pair_constants *p, double log_mass) {
    double inner = 0.5, outer = pair_far(p, 1);
    for (int i = 0; i < 50; i++) {
        const double z = 0.5 * (inner + outer);
        *(pair_log_above(p, z) <= log_mass ? &outer : &inner) = z;
    }
    return outer;
}
