/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions.
 *
 * Normal distribution function, Phi(x) = erfc(-x/sqrt 2)/2. Rounding the argument y = -x/sqrt 2 costs a relative error
 * of 2 y^2 times that of y, 1000 roundings far in the tail; so the part of y that was rounded away, d, is put back by
 * the derivative: erfc(y + d) = erfc(y) - (2/sqrt pi) d exp(-y^2), to first order.
 *
 * ln Phi(x): the logarithm of the above down to where Phi is near the least normal double; below, Laplace's asymptotic
 * series (Abramowitz and Stegun 1964, 26.2.12), with t = -x:
 *
 *     Phi(x) = exp(-t^2/2) / (t sqrt(2 pi)) (1 - 1/t^2 + 1*3/t^4 - 1*3*5/t^6 + ...).
 *
 * Quantile: the rational approximations of Wichura 1988 (Algorithm AS 241, PPND16) give about 1e-16 in exact
 * arithmetic. In the tails a step of Halley's method on ln Phi(x) = ln p takes off most of what rounding adds there;
 * the logarithm keeps it well scaled down to the least doubles. Around 1/2, where x is small and Phi(x) - p would
 * cancel, the approximation is used as it is.
 */
#include "base/special.h"

#include <float.h>
#include <math.h>

static const double log_sqrt_two_pi = 0.91893853320467274178; /* ln sqrt(2 pi) */

/* Phi(-t) for any t: a half of erfc(t/sqrt 2). */
static double upper_tail(double t) {
    static const double high = 0.70710678118654752440, low = -4.8336466567264565e-17; /* 1/sqrt 2 = high + low */
    static const double one_over_sqrt_pi = 0.56418958354775628695;
    const double y = t * high;
    const double half = 0.5 * erfc(y);
    if (!(fabs(y) < 28)) return half; /* 0, 1 or not a number; beyond it d y would not be small */
    const double d = fma(t, high, -y) + t * low;
    return half - one_over_sqrt_pi * d * exp(-y * y);
}

double dpmf_i_base_normal_cdf(double x) {
    return upper_tail(-x);
}

double dpmf_i_base_log_normal_cdf(double x) {
    static const double series_below = -35; /* Phi(-35) = 1e-268, far from underflow; 8 terms leave 1e-18 */
    if (x > 0) return log1p(-upper_tail(x));
    if (!(x < series_below)) return log(upper_tail(-x));
    const double u = 1 / (x * x);
    double tail = 0; /* of the series, by Horner's rule: -u (1 - 3u (1 - 5u (...))) */
    for (int k = 15; k >= 1; k -= 2) {
        tail = -k * u * (1 + tail);
    }
    return -0.5 * x * x - log(-x) - log_sqrt_two_pi + log1p(tail);
}

/* Coefficients of Wichura 1988: numerator and denominator, constant first, in each of three ranges. */
static const double central[2][8] = {
    {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3, 1.3731693765509461125e+4,
     4.5921953931549871457e+4, 6.7265770927008700853e+4, 3.3430575583588128105e+4, 2.5090809287301226727e+3},
    {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3, 2.1213794301586595867e+4,
     3.9307895800092710610e+4, 2.8729085735721942674e+4, 5.2264952788528545610e+3}};
static const double middle[2][8] = {
    {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0, 3.64784832476320460504e0,
     1.27045825245236838258e0, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4},
    {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
     1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9}};
static const double far[2][8] = {
    {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0, 2.96560571828504891230e-1,
     2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7},
    {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2, 7.86869131145613259100e-4,
     1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15}};

static double polynomial(const double c[8], double r) {
    double value = c[7];
    for (int i = 6; i >= 0; i--) {
        value = value * r + c[i];
    }
    return value;
}

static double rational(const double c[2][8], double r) {
    return polynomial(c[0], r) / polynomial(c[1], r);
}

/* t > 0 with Phi(-t) = p, 0 < p <= 0.075. */
static double tail_quantile(double p) {
    const double log_p = log(p);
    const double r = sqrt(-log_p);
    const double t = r <= 5 ? rational(middle, r - 1.6) : rational(far, r - 5);
    /* f(t) = ln Phi(-t) - ln p, f' = -h with h = phi(t)/Phi(-t) > 0, f'' = -h (h - t). */
    const double log_cdf = dpmf_i_base_log_normal_cdf(-t);
    const double f = log_cdf - log_p;
    const double h = exp(-0.5 * t * t - log_sqrt_two_pi - log_cdf);
    return t + 2 * f / (2 * h + f * (h - t));
}

double dpmf_i_base_normal_quantile(double p) {
    if (p == 0) return -INFINITY;
    if (p == 1) return INFINITY;
    if (!(p > 0 && p < 1)) return NAN;
    const double q = p - 0.5;
    if (fabs(q) <= 0.425) return q * rational(central, 0.180625 - q * q); /* 0.180625 = 0.425^2 */
    return p < 0.5 ? -tail_quantile(p) : tail_quantile(1 - p);            /* 1 - p is exact here */
}

double dpmf_i_base_log_add(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    const double high = a > b ? a : b, low = a > b ? b : a;
    if (isinf(high)) return high; /* both minus infinity, or one plus infinity */
    return high + log1p(exp(low - high));
}

double dpmf_i_base_log_sub(double a, double b) {
    static const double log_two = 0.69314718055994530942;
    if (!(a >= b)) return NAN;
    if (a == b) return -INFINITY;
    if (isinf(a) || b == -INFINITY) return a;
    /* Of ln(1 - e^-d), each form is exact where the other cancels (Maechler 2012). */
    const double d = a - b;
    return a + (d > log_two ? log1p(-exp(-d)) : log(-expm1(-d)));
}

/* sqrt(x y), also where the product itself would overflow or underflow. */
static double geometric_mean(double x, double y) {
    const double product = x * y;
    return product >= DBL_MIN && product <= DBL_MAX ? sqrt(product) : sqrt(x) * sqrt(y);
}

double dpmf_i_base_agm(double a, double b) {
    if (!(a >= 0 && b >= 0)) return NAN;
    if (a == 0 || b == 0) return 0;
    if (isinf(a) || isinf(b)) return INFINITY;
    double x = fmax(a, b), y = fmin(a, b);
    /*
     * The distance squares each round: from 1e-9 of x on, the next one is below a rounding. Any two doubles come there
     * in a dozen rounds, but for subnormal ones, which may stay one unit apart.
     */
    for (int round = 0; round < 40 && x - y > 1e-9 * x; round++) {
        const double mean = x - 0.5 * (x - y);
        y = geometric_mean(x, y);
        x = mean;
    }
    return x - 0.5 * (x - y);
}
