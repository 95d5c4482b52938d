/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one-step pair of the Poisson-subsampled Gaussian mechanism.
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
 * rest/k comes to it: c = 6 + |l|), and is itself rounded to 4 u (|z|+1); account/grid/densities.c allows for that much. So (e^x - rest)/q is taken as 1 + expm1(x)/q near x = 0, where expm1 is accurate; as
 * (rest/q) expm1(x - ln rest) further down, where w may be small; and by logarithms where e^x is large.
 */
#include "account/grid/grid.h"

#include "base/special.h"

#include <math.h>

grid_pair grid_pair_from(const account_pair *pair) {
    grid_pair p = {.direction = pair->direction, .sign = pair->direction == ACCOUNT_ADD ? -1 : 1};
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
static double log_mixture(const grid_pair *p, double v) {
    /* Near v = 0, where the two parts nearly make 1; the bound on e^v keeps the argument from overflow and from -1. */
    if (fabs(v) < 1) return log1p(p->q * expm1(v));
    return base_log_add(p->log_rest, p->log_q + v);
}

static double log_w(const grid_pair *p, double z) {
    return (z - 0.5) * p->inverse_variance;
}

double grid_loss(const grid_pair *p, double z) {
    const double up = log_mixture(p, log_w(p, z));
    if (p->direction == ACCOUNT_REMOVE) return up;
    if (p->direction == ACCOUNT_ADD) return -up;
    return up - log_mixture(p, log_w(p, -z));
}

double grid_log_ratio(const grid_pair *p, double z) {
    return p->direction == ACCOUNT_ADD ? 0 : log_mixture(p, log_w(p, z));
}

/* The v with ln(rest + q e^v) = x; -inf where there is none. */
static double mixture_inverse(const grid_pair *p, double x) {
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

double grid_inverse(const grid_pair *p, double x) {
    const double variance = p->sigma * p->sigma;
    if (p->direction != ACCOUNT_REPLACE) return 0.5 + variance * mixture_inverse(p, p->sign * x);
    const double half = 0.5 * fabs(x);
    const double z = variance * (half + asinh_scaled(p->log_rest - p->log_q + 0.5 * p->inverse_variance, half));
    return x < 0 ? -z : z;
}

/* ln of the mass of (1-q) N(0) + q N(1), or of N(0) for add, below z (side 1) or above (side -1). */
static double log_mass(const grid_pair *p, double z, int side) {
    const double zero = base_log_normal_cdf(side * z / p->sigma);
    if (p->direction == ACCOUNT_ADD) return zero;
    return base_log_add(p->log_rest + zero, p->log_q + base_log_normal_cdf(side * (z - 1) / p->sigma));
}

double grid_log_above(const grid_pair *p, double z) {
    return log_mass(p, z, -p->sign);
}

double grid_log_below(const grid_pair *p, double z) {
    return log_mass(p, z, p->sign);
}

double grid_far(const grid_pair *p, int upper) {
    static const double far = 60; /* sigmas: beyond them lies e^-1800 */
    return (upper ? p->sign : -p->sign) > 0 ? 1 + far * p->sigma : -1 - far * p->sigma;
}

double grid_cut(const grid_pair *p, double log_mass) {
    double inner = 0.5, outer = grid_far(p, 1);
    for (int i = 0; i < 50; i++) {
        const double z = 0.5 * (inner + outer);
        *(grid_log_above(p, z) <= log_mass ? &outer : &inner) = z;
    }
    return outer;
}
