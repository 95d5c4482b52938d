/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Special functions: the normal distribution and logarithms of sums; quadrature for the inverse square root; the
 * binomial distribution.
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

#include <assert.h>
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
    for (int k = 15; k >= 1; k -= 2)
        tail = -k * u * (1 + tail);
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

double base_agm(double a, double b) {
    if (!(a >= 0 && b >= 0)) return NAN;
    if (a == 0 || b == 0) return 0;
    if (isinf(a) || isinf(b)) return INFINITY;
    double x = fmax(a, b), y = fmin(a, b);
    /* The distance squares each round: from 1e-9 on the next is below a rounding. Subnormal numbers may stay a unit apart. */
    for (int round = 0; round < 40 && x - y > 1e-9 * x; round++) {
        const double mean = x - 0.5 * (x - y), product = x * y;
        /* also where the product itself would overflow or underflow */
        y = product >= DBL_MIN && product <= DBL_MAX ? sqrt(product) : sqrt(x) * sqrt(y);
        x = mean;
    }
    return x - 0.5 * (x - y);
}

/*
 * Quadrature for x^(-1/2) by shifted inverses (Hale, Higham and Trefethen 2008, the method for A^(1/2)): the trapezoid rule
 * after the change of variables s = low sc^2, sc a Jacobi elliptic function, whose N nodes and weights are positive and give
 *
 *     sum_j w_j / (x + s_j) = x^(-1/2) (1 + e),   |e| <= 4 exp(-2 pi^2 N / ln(16 high/low)) / (1 - ...)
 *
 * for every x in [low, high]. Symmetric: s_{N+1-j} = low high / s_j, w_j from s_j alone.
 *
 * Libraries' elliptic functions lose digits as the parameter tends to 1 (intervals of ratio 1e12 and more are usual
 * here). The functions are summed instead as quotients of theta series in the complementary nome q = exp(-pi K'/K),
 * which is small exactly then: five terms give full double precision for ratios from 1 to 1e20 and beyond, with
 *
 *     K' = pi / (2 agm(1, sqrt m1)),  K = pi / (2 agm(1, sqrt(1 - m1))),  m1 = low/high
 *     sc(x) = [sum (-1)^i q^(i(i+1)) sinh((2i+1) x)] / [1 + 2 sum (-1)^i q^(i^2) cosh(2 i x)]
 *             * [1 + 2 sum q^(i^2)] / [sum q^(i(i+1))],     x_j = (j - 1/2) pi K' / (2 N K),  j <= N/2.
 */
/* For ratios near 1 the interval is widened: the rule stays valid on the smaller one and the series stay accurate. */
static const double RATIO_MIN = 4;
/* The error claimed is the formula's leading term with room for its tail, and for rounding in nodes and weights. */
static const double TAIL = 1.05, ROUNDING = 2e-14, RATE_MAX = 0.2;

int base_quadrature_nodes(double ratio, double tolerance) {
    double wanted = fmax(tolerance - ROUNDING, ROUNDING), rate = fmin(wanted / (4 * (TAIL + wanted)), RATE_MAX);
    /* 1e-9: the bound must still hold where the caller's ratio and high / low differ in the last digit */
    double n = ceil(log(16 * fmax(ratio, RATIO_MIN)) * -log(rate) / (2 * M_PI * M_PI) + 1e-9);
    return n < 1 ? 1 : n > BASE_NODES_MAX ? BASE_NODES_MAX : (int)n;
}

/* sc at x, for x up to half the period, where the sums converge fast. */
static double elliptic_sc(double x, double q) {
    double top = 0, bottom = 1, zero_top = 0, zero_bottom = 1, sign = 1;
    for (int i = 0; i < 5; i++) {
        /* q^(i(i+1)) sinh((2i+1)x): the powers of q win over the growth of sinh since e^(2x) <= 1/q */
        double even = exp(i * (i + 1) * log(q)), square = exp(i * i * log(q));
        top += sign * even * sinh((2 * i + 1) * x);
        zero_top += even;
        if (i > 0) {
            bottom += 2 * sign * square * cosh(2 * i * x);
            zero_bottom += 2 * square;
        }
        sign = -sign;
    }
    return top / bottom * zero_bottom / zero_top;
}

void base_quadrature_fill(double low, double high, int count, base_quadrature *out) {
    assert(low > 0 && high >= low && isfinite(high) && count >= 1 && count <= BASE_NODES_MAX);
    if (high < RATIO_MIN * low) {
        double middle = sqrt(low * high);
        low = middle / sqrt(RATIO_MIN);
        high = middle * sqrt(RATIO_MIN);
    }
    double m1 = low / high;
    double complete_prime = M_PI / (2 * base_agm(1, sqrt(m1)));
    double complete = M_PI / (2 * base_agm(1, sqrt(1 - m1)));
    double q = exp(-M_PI * complete_prime / complete);
    out->count = count;
    for (int j = 0; j < (count + 1) / 2; j++) {
        double x = (j + 0.5) * M_PI * complete_prime / (2 * count * complete);
        double sc = elliptic_sc(x, q);
        out->shift[j] = 2 * j + 1 == count ? sqrt(low) * sqrt(high) : low * sc * sc;
        out->shift[count - 1 - j] = low * (high / out->shift[j]);
    }
    for (int j = 0; j < count; j++) {
        double s = out->shift[j];
        out->weight[j] = 2 * complete_prime / (M_PI * count) * sqrt((low + s) * (1 + s / high));
    }
    double rate = exp(-2 * M_PI * M_PI * count / log(16 * high / low));
    out->error = rate <= RATE_MAX ? 4 * rate / (1 - 4 * rate) * TAIL + ROUNDING : INFINITY;
}

/* ---- the binomial distribution ---- */

/*
 * Far from the usual ranges (n = 1e9, p = 1e-8) the textbook forms of the regularised incomplete beta function, which the
 * tails are, subtract logarithms of factorials of size 1e10; here
 *
 *     Pr[X = k] = sqrt(n / (2 pi k (n-k))) exp(S(n) - S(k) - S(n-k) - D(k, np) - D(n-k, nq)),
 *
 * S the error of Stirling's formula and D(x, m) = x ln(x/m) + m - x >= 0 the deviance, neither of which cancels (Loader
 * 2000). A tail is that term times 1 + r_1 + r_1 r_2 + ..., all positive, ratios falling: O(sqrt(npq)) terms on the
 * side away from the mean, and the other side is one minus it.
 */
static const double two_pi = 6.28318530717958647692;

/* ln n! - ((n + 1/2) ln n - n + ln sqrt(2 pi)), n >= 1. */
static double stirling_error(double n) {
    if (n < 16) { /* n! and its terms are small: rounding leaves 1e-14 at most */
        double factorial = 1;
        for (double i = 2; i <= n; i++)
            factorial *= i;
        return log(factorial) - ((n + 0.5) * log(n) - n + 0.5 * log(two_pi));
    }
    const double u = 1 / (n * n); /* the term left out, 691/360360 / n^11, is below 1e-16 */
    return (1.0 / 12 - u * (1.0 / 360 - u * (1.0 / 1260 - u * (1.0 / 1680 - u / 1188)))) / n;
}

/* x ln(x/m) + m - x for x, m > 0; near x = m by the series in v = (x-m)/(x+m), where the closed form cancels. */
static double deviance(double x, double m) {
    if (fabs(x - m) >= 0.1 * (x + m)) return x * log(x / m) + m - x;
    const double v = (x - m) / (x + m), g = v * v;
    double term = 2 * x * v, sum = (x - m) * v;
    for (int j = 3; j < 100; j += 2) {
        term *= g;
        const double next = sum + term / j;
        if (next == sum) break;
        sum = next;
    }
    return sum;
}

/* Pr[X = k], 0 <= k <= n, 0 < p < 1. */
static double mass(double k, double n, double p) {
    if (k == 0) return exp(n * log1p(-p));
    if (k == n) return exp(n * log(p));
    const double exponent = stirling_error(n) - stirling_error(k) - stirling_error(n - k) - deviance(k, n * p) -
                            deviance(n - k, n * (1 - p));
    return sqrt(n / (two_pi * k * (n - k))) * exp(exponent);
}

/* The sum of the masses from k downwards, k <= n p. */
static double tail_below(double k, double n, double p) {
    const double odds = (1 - p) / p;
    double term = 1, sum = 1;
    for (double i = k; i > 0; i--) {
        term *= i / (n - i + 1) * odds;
        if (term < 1e-18 * sum) break;
        sum += term;
    }
    return mass(k, n, p) * sum;
}

/* The sum of the masses from k upwards, k >= n p. */
static double tail_above(double k, double n, double p) {
    const double odds = p / (1 - p);
    double term = 1, sum = 1;
    for (double i = k; i < n; i++) {
        term *= (n - i) / (i + 1) * odds;
        if (term < 1e-18 * sum) break;
        sum += term;
    }
    return mass(k, n, p) * sum;
}

double base_binomial_at_most(int64_t k, int64_t n, double p) {
    assert(n >= 1 && p >= 0 && p <= 1);
    if (k >= n || (p == 0 && k >= 0)) return 1;
    if (k < 0 || p == 1) return 0;
    const double x = (double)k, trials = (double)n;
    return x <= trials * p ? fmin(tail_below(x, trials, p), 1) : fmax(1 - tail_above(x + 1, trials, p), 0);
}

double base_binomial_at_least(int64_t k, int64_t n, double p) {
    assert(n >= 1 && p >= 0 && p <= 1);
    if (k <= 0 || (p == 1 && k <= n)) return 1;
    if (k > n || p == 0) return 0;
    const double x = (double)k, trials = (double)n;
    return x >= trials * p ? fmin(tail_above(x, trials, p), 1) : fmax(1 - tail_below(x - 1, trials, p), 0);
}
