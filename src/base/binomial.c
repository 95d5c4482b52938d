/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binomial tails and the limits of Clopper and Pearson 1934.
 *
 * The upper limit solves Pr[X <= k] = failure for p, that is I_p(k+1, n-k) = 1 - failure with I the regularised
 * incomplete beta function. Far from the usual ranges (n = 1e9, p = 1e-8) the textbook forms of I subtract logarithms
 * of factorials of size 1e10; here
 *
 *     Pr[X = k] = sqrt(n / (2 pi k (n-k))) exp(S(n) - S(k) - S(n-k) - D(k, np) - D(n-k, nq)),
 *
 * S the error of Stirling's formula and D(x, m) = x ln(x/m) + m - x >= 0 the deviance, neither of which cancels (Loader
 * 2000). A tail is that term times 1 + r_1 + r_1 r_2 + ..., all positive, ratios falling: O(sqrt(npq)) terms on the
 * side away from the mean, and the other side is one minus it.
 */
#include "base/binomial.h"

#include <assert.h>
#include <math.h>

static const double two_pi = 6.28318530717958647692;

/* ln n! - ((n + 1/2) ln n - n + ln sqrt(2 pi)), n >= 1. */
static double stirling_error(double n) {
    if (n < 16) { /* n! and its terms are small: rounding leaves 1e-14 at most */
        double factorial = 1;
        for (double i = 2; i <= n; i++) {
            factorial *= i;
        }
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

/* Bisection over the logarithm of p: 2^-70 of ln(1e-300) is below a rounding. Returns the conservative end. */
enum { BISECTIONS = 70 };

double base_binomial_upper(int64_t k, int64_t n, double failure) {
    assert(n >= 1 && k >= 0 && k <= n && failure > 0 && failure < 1);
    if (k == n) return 1;
    if (k == 0) return -expm1(log(failure) / (double)n);
    double low = log(1e-300), high = 0;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        if (base_binomial_at_most(k, n, exp(middle)) > failure)
            low = middle;
        else
            high = middle;
    }
    return fmin(exp(high), 1);
}

double base_binomial_lower(int64_t k, int64_t n, double failure) {
    assert(n >= 1 && k >= 0 && k <= n && failure > 0 && failure < 1);
    if (k == 0) return 0;
    if (k == n) return exp(log(failure) / (double)n);
    double low = log(1e-300), high = 0;
    for (int i = 0; i < BISECTIONS; i++) {
        const double middle = 0.5 * (low + high);
        if (base_binomial_at_least(k, n, exp(middle)) < failure)
            low = middle;
        else
            high = middle;
    }
    return exp(low);
}
