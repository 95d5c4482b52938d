/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Gaussian mechanism, exactly, and zero-concentrated privacy.
 *
 * With mu = sensitivity / sigma, a = mu/2 - epsilon/mu and b = a - mu (Balle and Wang 2018, Theorem 8; Dong, Roth and Su
 * 2022, Corollary 2.13),
 *
 *     delta(epsilon) = Phi(a) - e^epsilon Phi(b).
 *
 * Far out the two terms agree in almost all of their digits and underflow. But e^epsilon phi(b) = phi(a); so with
 * x = -a, y = -b = x + mu and Mills' ratio R(x) = Phi(-x)/phi(x) = int_0^inf e^(-xt - t^2/2) dt,
 *
 *     delta = phi(x) (R(x) - R(y)) = phi(x) int_0^inf e^(-xt - t^2/2) (1 - e^(-mu t)) dt,
 *
 * all of it positive: the integral keeps its relative accuracy for any x >= -1/2 and any mu, and phi(x) is taken by its
 * logarithm. For x < -1/2 delta is of order 1, and 1 - delta = Phi(x) + phi(x) R(y) is a sum.
 *
 * The integral: t = T exp(v - e^-v), T = 1/max(1, x) the scale on which it decays, by the trapezoid rule in v, which
 * converges exponentially (Takahasi and Mori 1974; the integrand decays doubly exponentially at both ends). Where
 * mu T > 1/2 the factor 1 - e^(-mu t) turns on a scale of its own; there R(x) - R(y) does not cancel.
 *
 * Derivatives for Newton's method: d delta / d epsilon = -e^epsilon Phi(b) = -phi(x) R(y), d delta / d mu = phi(x).
 *
 * zCDP: a rho-zCDP mechanism has Renyi divergence at most rho alpha at each order alpha = 1 + b, and then (Canonne,
 * Kamath and Steinke 2020, Proposition 12)
 *
 *     ln delta = min over b > 0 of h(b) = b ((1+b) rho - epsilon) + b ln b - (1+b) ln(1+b).
 *
 * h is convex; where h' = 0 both become explicit in b:
 *
 *     epsilon = rho (1 + 2b) - ln(1 + 1/b),      ln delta = -rho b^2 - ln(1+b).
 *
 * The second falls as b grows: epsilon for a given delta is one equation in b with one root.
 */
#include "account/account.h"

#include "base/special.h"

#include <assert.h>
#include <math.h>

static const double log_sqrt_two_pi = 0.91893853320467274178;
static const double sqrt_two_pi = 2.50662827463100050242;

/*
 * int_0^inf e^(-xt - t^2/2) (1 - e^(-mu t)) dt for x >= -1/2, without the last factor for mu = INFINITY. The step 1/16
 * and the ends leave less than 1e-15 (the test compares with 40 digits).
 */
static double decaying_integral(double x, double mu) {
    const double scale = 1 / fmax(1, x), step = 0.0625;
    double sum = 0;
    for (int k = -62; k <= 76; k++) { /* v from -3.9 (t = e^-53 T) to 4.75 (t = 115 T) */
        const double v = step * k, inner = exp(-v);
        const double t = scale * exp(v - inner);
        const double value = exp(-t * (x + 0.5 * t)) * (isinf(mu) ? 1 : -expm1(-mu * t));
        sum += value * t * (1 + inner);
    }
    return sum * step;
}

static double mills(double x) {
    return decaying_integral(x, INFINITY);
}

/* The parts of delta: x, and for x >= -1/2 the difference R(x) - R(y). */
typedef struct parts {
    double x, y_ratio, difference, log_delta;
} parts;

static parts gaussian_parts(double mu, double epsilon) {
    parts p = {fma(-0.5 * mu, mu, epsilon) / mu, 0, NAN, NAN}; /* one rounding where epsilon is near mu^2/2 */
    p.y_ratio = mills(p.x + mu);
    if (p.x < -0.5) {
        const double rest = base_normal_cdf(p.x) + exp(-0.5 * p.x * p.x - log_sqrt_two_pi) * p.y_ratio;
        p.log_delta = log1p(-rest);
        return p;
    }
    p.difference = mu > 0.5 * fmax(1, p.x) ? mills(p.x) - p.y_ratio : decaying_integral(p.x, mu);
    p.log_delta = -0.5 * p.x * p.x - log_sqrt_two_pi + log(p.difference);
    return p;
}

/* phi(x)/delta, which the derivatives of ln delta share. */
static double density_over_delta(const parts *p) {
    return p->x < -0.5 ? exp(-0.5 * p->x * p->x - log_sqrt_two_pi - p->log_delta) : 1 / p->difference;
}

double account_gaussian_log_delta(double mu, double epsilon) {
    if (isnan(mu) || isnan(epsilon)) return NAN;
    assert(mu >= 0 && epsilon >= 0);
    if (mu == 0 || isinf(epsilon)) return -INFINITY;
    if (isinf(mu)) return 0;
    const parts p = gaussian_parts(mu, epsilon);
    if (!isfinite(p.x) || isinf(p.x * p.x)) return p.x > 0 ? -INFINITY : 0;
    return fmin(p.log_delta, 0);
}

/* Newton steps converge in less than ten; bisection takes over where they leave the bracket. */
enum { ROUNDS = 200 };
static const double converged = 4e-16;

double account_gaussian_epsilon(double mu, double log_delta) {
    if (isnan(mu) || isnan(log_delta)) return NAN;
    assert(mu >= 0);
    if (mu == 0 || account_gaussian_log_delta(mu, 0) <= log_delta) return 0;
    if (isinf(mu) || isinf(log_delta)) return INFINITY;
    /* delta <= Phi(-x) <= e^(-x^2/2) for x >= 0; ln delta is concave, so that Newton comes down from there. */
    double low = 0, high = mu * (sqrt(-2 * log_delta) + 0.5 * mu), epsilon = high;
    for (int round = 0; round < ROUNDS; round++) {
        const parts p = gaussian_parts(mu, epsilon);
        const double excess = p.log_delta - log_delta;
        if (excess > 0) {
            low = epsilon;
        } else {
            high = epsilon;
        }
        double next = epsilon + excess / (density_over_delta(&p) * p.y_ratio);
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        const double change = fabs(next - epsilon);
        epsilon = next;
        if (change <= converged * epsilon || high - low <= converged * high) break;
    }
    return epsilon;
}

double account_gaussian_mu(double epsilon, double log_delta) {
    if (isnan(epsilon) || isnan(log_delta)) return NAN;
    assert(epsilon >= 0);
    if (log_delta >= 0 || isinf(epsilon)) return INFINITY;
    if (isinf(log_delta)) return 0;
    /* From below: delta <= e^(-x^2/2) as above, and delta <= mu / sqrt(2 pi) for every epsilon. */
    const double reach = sqrt(-2 * log_delta);
    double low = fmax(2 * epsilon / (reach + sqrt(reach * reach + 2 * epsilon)), sqrt_two_pi * exp(log_delta));
    if (!(low > 0)) return 0; /* epsilon = 0 and delta is no double */
    double high = 2 * low;
    while (isfinite(high) && account_gaussian_log_delta(high, epsilon) < log_delta) {
        low = high;
        high *= 2;
    }
    double mu = 0.5 * (low + high);
    for (int round = 0; round < ROUNDS; round++) {
        const parts p = gaussian_parts(mu, epsilon);
        const double excess = p.log_delta - log_delta;
        if (excess > 0) {
            high = mu;
        } else {
            low = mu;
        }
        double next = mu - excess / density_over_delta(&p);
        if (!(next >= low && next <= high)) next = 0.5 * (low + high);
        const double change = fabs(next - mu);
        mu = next;
        if (change <= converged * mu || high - low <= converged * high) break;
    }
    return mu;
}

double account_gaussian(const account_question *q, double mu) {
    return q->of_epsilon ? account_gaussian_epsilon(mu, q->given) : account_gaussian_log_delta(mu, q->given);
}

/* ---- zero-concentrated differential privacy ---- */

/* epsilon where order 1 + b is the best */
static double zcdp_epsilon_at(double rho, double b) {
    return rho * (1 + 2 * b) - log1p(1 / b);
}

/* The b for which order 1 + b is the best: ln delta falls as b grows. By bisection of ln b: Newton or secants would save
 * nothing that counts. */
static double zcdp_best(double rho, double log_delta) {
    double low = -700, high = 700; /* ln b */
    for (int round = 0; round < ROUNDS && high - low > converged * fabs(high); round++) {
        const double middle = 0.5 * (low + high), b = exp(middle);
        if (middle <= low || middle >= high) break;
        if (rho * b * b + log1p(b) + log_delta < 0) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return exp(0.5 * (low + high));
}

double account_zcdp_epsilon(double rho, double log_delta) {
    if (isnan(rho) || isnan(log_delta)) return NAN;
    assert(rho >= 0);
    if (rho == 0 || log_delta >= 0) return 0;
    if (isinf(rho) || isinf(log_delta)) return INFINITY;
    return fmax(0, zcdp_epsilon_at(rho, zcdp_best(rho, log_delta)));
}
