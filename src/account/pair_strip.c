/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A proven bound on the error of the quadrature of account/pair.c.
 *
 * The trapezoid rule of step h for a g that is analytic for |Im x| < b is off by at most 2 N / (e^(2 pi b/h) - 1), N a bound of the
 * integrals of |g| along the lines |Im x| = c <= b (Trefethen and Weideman 2014, Theorem 5.1). With w = A + B, A = 1 - q,
 * B = q e^((2x-1)/(2 sigma^2)), r = B/(A + B) and theta = b/sigma^2 < pi, w has no zeros in the strip, and on its edge
 *
 *     |A + B e^(i theta)|  <=  A + B   and   =  (A + B) sqrt(1 - 4 r (1-r) sin^2(theta/2))  >=  (A + B) cos(theta/2),
 *
 * so that with u of account/pair.c, f the density of N(0, sigma^2) and r- = r(-x)
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
 * The sums of account/pair.c are T[e^u] - T[1] - c (T[w] - T[1]), as those of u cancel; T[1] and T[w] are Gaussian, off by
 * 3 e^(-2 pi^2 sigma^2/h^2), and lose at most e^-kept each at the ends.
 */
#include "account/pair.h"

#include "base/special.h"
#include <math.h>

static const double PI = 3.14159265358979323846;

typedef struct strip {
    const account_pair *pair;
    double cut, t, sine_square; /* sin^2(theta/2) */
    double turn;                /* y theta */
} strip;

/* u at x: rises with x, or falls (add). */
static double exponent(const strip *s, double x) {
    const double l = account_pair_log_ratio(s->pair, x);
    if (s->pair->direction == ACCOUNT_ADD) return -s->t * l;
    if (s->pair->direction == ACCOUNT_REMOVE) return (s->t + 1) * l;
    return (s->t + 1) * l - s->t * account_pair_log_ratio(s->pair, -x);
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

/* The same from x to y beyond the last maximum (account_pair_find_range), where f e^u falls, and d with it. */
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

double account_pair_log_error(const account_pair *pair, double cut, double t, double y, double fineness,
                              double enough) {
    enum { CHOICES = 7, CELLS_MAX = 1 << 14 };
    static const double turns[CHOICES] = {0.8, 0.6, 0.95, 0.4, 0.2, 0.1, 0.95}; /* theta/pi */
    const double sigma = pair->sigma, kept = account_pair_kept(pair), reach = sqrt(2 * kept) * sigma;
    const strip at_cut = {pair, cut, t, 0, 1};
    const double turn = y * (isinf(cut) ? (pair->direction == ACCOUNT_REPLACE ? 2 : 1) : log_turned(&at_cut, cut, cut));
    account_pair_range r, used;
    double best = INFINITY;
    if (pair->probability == 1) return -INFINITY;
    if (!account_pair_find_range(pair, cut, t, fineness, &r)) return INFINITY;
    used = r;
    account_pair_shorten(pair, cut, t, &used);
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
