/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proven bound on the error of the quadrature of account/pair.c.
 *
 * The trapezoid rule of step h for a g that is analytic for |Im x| < b is off by at most 2 N / (e^(2 pi b/h) - 1), N a bound of the
 * integrals of |g| along the lines |Im x| = c <= b (Trefethen and Weideman 2014, Theorem 5.1). With w = A + B, A = 1 - q, B = q e^((2x-1)/(2
 * sigma^2)), r = B/(A + B) and theta = b/sigma^2 < pi, w has no zeros in the strip, and on its edge
 *
 *     |A + B e^(i theta)|  <=  A + B   and   =  (A + B) sqrt(1 - 4 r (1-r) sin^2(theta/2))  >=  (A + B) cos(theta/2),
 *
 * so that with u of account/pair.c, f the density of N(0, sigma^2) and r- = r(-x)
 *
 *     |g(x + ib)| <= e^(b^2/(2 sigma^2)) f(x) e^(u(x)) d,   d = 1 (remove),  (1 - 4 r (1-r) sin^2(theta/2))^(-t/2) (add; replace: r-).
 *
 * and at a complex order t + iy the arguments of w, at most theta, come to it: e^(y theta), and for replace its square. These grow with b
 * and with y. N is a sum over cells of the largest value on each: u is monotone, f falls away from 0, r (1-r) has one maximum,
 * at r = 1/2. Any theta gives a bound; the best of some is taken.
 *
 * What the rule leaves out at the ends is bounded in the same way, with b = 0, as far as the cells go; they end where
 *
 *     below      u <= 0 (remove, replace): at most the normal tail; add: u - x^2/(2 sigma^2) is concave with a second derivative of
 *                -1/sigma^2 or less, so that it falls below its value at the end like a Gaussian's tail
 *     above      u <= 0 (add); else f e^u falls from the last maximum on, and as the slope of u is at most (2t+1)/sigma^2 it is a
 *                Gaussian's tail from 2t + 1 + reach on.
 *
 * The sums of account/pair.c are T[e^u] - T[1] - c (T[w] - T[1]), as those of u cancel; T[1] and T[w] are Gaussian, off by 3 e^(-2 pi^2
 * sigma^2/h^2), and lose at most e^-kept each at the ends.
 */
#include "account/pair.h"

#include "base/special.h"
#include <math.h>

static const double PI = 3.14159265358979323846;

typedef struct strip {
    const dpmf_i_account_pair *pair;
    double t, sine_square; /* sin^2(theta/2) */
} strip;

/* u at x: rises with x, or falls (add). */
static double exponent(const strip *s, double x) {
    const double l = dpmf_i_account_pair_log_ratio(s->pair, x);
    if (s->pair->direction == DPMF_I_ACCOUNT_ADD) return -s->t * l;
    if (s->pair->direction == DPMF_I_ACCOUNT_REMOVE) return (s->t + 1) * l;
    return (s->t + 1) * l - s->t * dpmf_i_account_pair_log_ratio(s->pair, -x);
}

/* ln B - ln A at the x that w to the power -t has. */
static double odds(const strip *s, double x) {
    const double q = s->pair->probability, at = s->pair->direction == DPMF_I_ACCOUNT_REPLACE ? -x : x;
    return (at - 0.5) / (s->pair->sigma * s->pair->sigma) + log(q) - log1p(-q);
}

/* ln d, the largest between two x. */
static double growth(const strip *s, double x, double y) {
    if (s->pair->direction == DPMF_I_ACCOUNT_REMOVE || s->sine_square == 0) return 0;
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
    return most + growth(s, x, y) - 0.5 * z * z;
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

/* The same from x to y beyond the last maximum (dpmf_i_account_pair_find_range), where f e^u falls, and d with it. */
static double log_falling(const strip *s, double x, double y) {
    return y > x ? log_largest(s, x, x, exponent(s, x)) + log(y - x) - log_norm(s) : -INFINITY;
}

/* ln d from x on to where B is larger: for theta <= pi/2 |A + B e^(i theta)| grows with B, and u d falls. */
static double growth_on(const strip *s, double x) {
    return s->sine_square <= 0.5 ? growth(s, x, x) : -0.5 * s->t * log1p(-s->sine_square);
}

/* ln of what lies below `low` and above `high`, by the tails of Gaussians. */
static double log_outside(const strip *s, double low, double high) {
    const double sigma = s->pair->sigma, widest = -0.5 * s->t * log1p(-s->sine_square);
    const double below = dpmf_i_base_log_normal_cdf(low / sigma), above = dpmf_i_base_log_normal_cdf(-high / sigma);
    if (s->pair->direction == DPMF_I_ACCOUNT_ADD) {
        /* far below r (1-r) falls on, and u rises by its slope at the end at most: t r(low)/sigma^2 */
        const double r = 1 / (1 + exp(-odds(s, low))), slope = s->t * r;
        const double grown = odds(s, low) < 0 ? growth(s, low, low) : widest;
        const double left = exponent(s, low) + grown + slope * low / (sigma * sigma) +
                            0.5 * slope * slope / (sigma * sigma) + dpmf_i_base_log_normal_cdf((low + slope) / sigma);
        const double right = exponent(s, high) + growth_on(s, high) + above;
        return dpmf_i_base_log_add(left, right);
    }
    const double slope = s->pair->direction == DPMF_I_ACCOUNT_REPLACE ? 2 * s->t + 1 : s->t + 1;
    const double steep = s->pair->direction == DPMF_I_ACCOUNT_REPLACE ? growth_on(s, low) : 0;
    /* with q > 1/2 d may still rise beyond `high` */
    const int rises = s->pair->direction == DPMF_I_ACCOUNT_REPLACE && s->pair->probability > 0.5;
    const double grown = rises ? widest : growth(s, high, high);
    const double right = exponent(s, high) + grown + slope * (0.5 * slope - high) / (sigma * sigma) +
                         dpmf_i_base_log_normal_cdf((slope - high) / sigma);
    return dpmf_i_base_log_add(below + exponent(s, low) + steep, right);
}

double dpmf_i_account_pair_log_error(const dpmf_i_account_pair *pair, double t, double y, double fineness,
                                     double enough) {
    enum { CHOICES = 7, CELLS_MAX = 1 << 14 };
    static const double turns[CHOICES] = {0.8, 0.6, 0.95, 0.4, 0.2, 0.1, 0.95}; /* theta/pi */
    const double sigma = pair->sigma, kept = dpmf_i_account_pair_kept(pair), reach = sqrt(2 * kept) * sigma;
    const double turn = pair->direction == DPMF_I_ACCOUNT_REPLACE ? 2 * y : y;
    dpmf_i_account_pair_range r, used;
    double best = INFINITY;
    if (pair->probability == 1) return -INFINITY;
    if (!dpmf_i_account_pair_find_range(pair, t, fineness, &r)) return INFINITY;
    used = r;
    dpmf_i_account_pair_shorten(pair, t, &used);
    const double low = r.step * (double)r.first, high = r.step * (double)r.last;
    const double slope = pair->direction == DPMF_I_ACCOUNT_REPLACE ? 2 * t + 1 : t + 1;
    const double end = pair->direction == DPMF_I_ACCOUNT_ADD ? high : fmax(high, slope + reach);
    if (!((high - low) / sigma < CELLS_MAX)) return INFINITY;
    for (int i = 0; i < CHOICES && !(best <= enough); i++) {
        /* the last: best for the Gaussian and y alone, where 2 pi b/h - b^2/(2 sigma^2) - theta turn is the most */
        const double best_alone = fmax(2 * PI / r.step - turn / (sigma * sigma), 0.01);
        const double theta = i + 1 < CHOICES ? PI * turns[i] : fmin(PI * turns[i], best_alone);
        const double half = sin(0.5 * theta), b = theta * sigma * sigma;
        const strip s = {pair, t, half * half};
        const double tails = dpmf_i_base_log_add(log_falling(&s, high, end), log_outside(&s, low, end));
        const double inside = dpmf_i_base_log_add(log_integral(&s, low, high), tails);
        const double decay = 2 * PI * b / r.step;
        if (decay > 1)
            best = fmin(best, log(2.0) + 0.5 * theta * b + theta * turn + inside - decay - log(-expm1(-decay)));
    }
    const strip line = {pair, t, 0};
    best = dpmf_i_base_log_add(best, log_outside(&line, low, end));
    /* a sum over points up to sigma/2 apart by cells of sigma/4: at most three times the integral */
    best = dpmf_i_base_log_add(best, log(3.0) + log_integral(&line, r.step * (double)used.last, high));
    best = dpmf_i_base_log_add(best, log_falling(&line, high, end));
    /* replace: the two tails of a range that is not symmetric do not cancel */
    const double c =
        pair->direction == DPMF_I_ACCOUNT_REPLACE ? 2 + 2 * (t + y) * (reach + 1) / (sigma * sigma) : t + 2 + y;
    const double gaussian = -2 * PI * PI * sigma * sigma / (r.step * r.step);
    return dpmf_i_base_log_add(best, log(8 * c) + dpmf_i_base_log_add(gaussian, -kept));
}
