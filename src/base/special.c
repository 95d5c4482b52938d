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

double base_normal_cdf(double x) {
    return upper_tail(-x);
}

double base_log_normal_cdf(double x) {
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

double base_log_add(double a, double b) {
    if (isnan(a) || isnan(b)) return NAN;
    const double high = a > b ? a : b, low = a > b ? b : a;
    if (isinf(high)) return high; /* both minus infinity, or one plus infinity */
    return high + log1p(exp(low - high));
}

double base_log_sub(double a, double b) {
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

double base_agm(double a, double b) {
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
