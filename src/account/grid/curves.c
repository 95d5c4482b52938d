/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Curves of Gaussian pairs, as the parts of a list: bounds from above, near to the last digits.
 *
 * Notation: H(a) = H(a; mu) = Phi(-x) - a Phi(-y), x = (ln a)/mu - mu/2, y = x + mu: the curve of N(mu) against N(0). For the
 * Poisson-subsampled Gaussian, M = (1-q) N(0) + q N(mu),
 *
 *     M against N(0):   q H(1 + (a-1)/q),
 *     N(0) against M:   (1 - a(1-q)) H(a q/(1 - a(1-q))) while a (1-q) < 1, and 0 from there on,
 *
 * by dP - a dM = (1-a(1-q)) dN(0) - a q dN(mu). Both are products of positive numbers. Under replacement, with mixtures of
 * N(-mu), N(0), N(mu), the set where dP > a dQ is again a half-line, {z < -y} say, and
 *
 *     q Phi(y) - (a-1)(1-q) Phi(y - mu) - a q Phi(y - 2 mu),    e^(-mu y) the root of a quadratic equation.
 *
 * Any half-line gives a lower value than the best one, so rounding of y could only lower it, to second order; 64 u of the terms
 * (1 + y^2) is added for all roundings: Phi of a rounded argument is off by about u (1 + y^2) of itself.
 *
 * H directly loses the digits in which its two terms agree; 16 u of the terms, and of (|x| + |y|) phi(x), which is what the
 * roundings of x and y make, is added. Where that is more than 1e-10 of H, the integral of account/gaussian.c is taken.
 */
#include "account/grid/curves.h"

#include "base/special.h"
#include <assert.h>
#include <math.h>

static const double SQRT_TWO_PI = 2.50662827463100050242;

double grid_hockey(double mu, double a) {
    const double u = GRID_ROUNDING;
    assert(a >= 1 && mu >= 0);
    if (mu == 0) return 0;
    if (!isfinite(a)) return 0;
    const double log_a = log(a), x = log_a / mu - 0.5 * mu, y = x + mu;
    const double first = base_normal_cdf(-x), second = a * base_normal_cdf(-y);
    const double error = 16 * u * (first + second) + 16 * u * (1 + fabs(x) + fabs(y)) * exp(-0.5 * x * x) / SQRT_TWO_PI;
    const double value = first - second;
    if (error <= 1e-10 * value) return value + error;
    const double log_delta = account_gaussian_log_delta(mu, log_a);
    /* ln a is a rounding away: x, and with it ln delta, by u (|x| + 1) times the slope. */
    return exp(log_delta) * (1 + 1e-13 * (1 + fabs(log_delta))) + 1e-305;
}

/* ---- Gaussian ---- */

static dpmf_status gaussian_fill(const void *of, int reversed, int64_t count, double step, double mass,
                                 const dpmf_run *run, double *out) {
    const grid_gaussian *g = of;
    (void)reversed;
    (void)run;
    (void)mass;
    for (int64_t i = 0; i < count; i++)
        out[i] = grid_hockey(g->mu, exp((double)i * step));
    return DPMF_OK;
}

static double gaussian_reach(const void *of, int reversed, double mass) {
    const grid_gaussian *g = of;
    (void)reversed;
    return account_gaussian_epsilon(g->mu, log(mass));
}

grid_part grid_gaussian_part(const grid_gaussian *gaussian, int64_t times) {
    return (grid_part){gaussian, gaussian_fill, gaussian_reach, times};
}

/* ---- Poisson ---- */

double grid_poisson_remove(double q, double mu, double less_one) {
    return q * grid_hockey(mu, 1 + less_one / q) * (1 + 1e-15);
}

double grid_poisson_add(double q, double mu, double less_one) {
    const double rest = q - less_one * (1 - q); /* 1 - a(1-q) */
    if (!(rest > 0)) return 0;
    /* a q / rest = 1 + (a-1)/rest */
    return rest * grid_hockey(mu, 1 + less_one / rest) * (1 + 1e-15) + 8 * GRID_ROUNDING * q;
}

double grid_poisson_replace(double q, double mu, double less_one) {
    const double a = 1 + less_one;
    /* With E = e^(-mu y): q = (a-1)(1-q) e^(-mu^2/2) / E + a q e^(-2 mu^2) / E^2, where densities are over that at y. */
    const double b = less_one * (1 - q) / q * exp(-0.5 * mu * mu), c = a * exp(-2 * mu * mu);
    const double y = -log(0.5 * (b + sqrt(b * b + 4 * c))) / mu;
    const double first = q * base_normal_cdf(y), second = less_one * (1 - q) * base_normal_cdf(y - mu);
    const double third = a * q * base_normal_cdf(y - 2 * mu);
    const double error = 64 * GRID_ROUNDING * (1 + y * y + mu * mu) * (first + second + third);
    return fmax(first - second - third, 0) + error;
}

static dpmf_status poisson_fill(const void *of, int reversed, int64_t count, double step, double mass,
                                const dpmf_run *run, double *out) {
    const grid_poisson *p = of;
    (void)run;
    (void)mass;
    for (int64_t i = 0; i < count; i++) {
        const double less_one = expm1((double)i * step);
        if (p->replace)
            out[i] = grid_poisson_replace(p->q, p->mu, less_one);
        else
            out[i] = (reversed ? grid_poisson_add : grid_poisson_remove)(p->q, p->mu, less_one);
    }
    return DPMF_OK;
}

double grid_poisson_reach(double q, double mu, int reversed, double mass) {
    if (mass >= q) return 0;
    const double far = log1p(q * expm1(fmin(account_gaussian_epsilon(mu, log(mass / q)), 700)));
    return reversed && q < 1 ? fmin(far, -log1p(-q)) : far;
}

static double poisson_reach(const void *of, int reversed, double mass) {
    const grid_poisson *p = of;
    if (p->replace) return grid_poisson_reach(p->q, 2 * p->mu, 0, mass);
    return grid_poisson_reach(p->q, p->mu, reversed, mass);
}

grid_part grid_poisson_part(const grid_poisson *poisson, int64_t times) {
    return (grid_part){poisson, poisson_fill, poisson_reach, times};
}
