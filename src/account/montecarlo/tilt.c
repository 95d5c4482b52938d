/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Large privacy losses are found by importance sampling whose weights have a proven bound.
 *
 * With P = sum_x pi(x) N(m_x, sigma^2), Q = N(0, sigma^2), v_x = (<m_x, y> - |m_x|^2/2) / sigma^2, L = ln sum_x pi(x)
 * e^{v_x} (account/montecarlo/scheme.c), the two directions are
 *
 *     remove   delta = E_P (1 - e^{epsilon - L})_+          add   delta = E_Q (1 - e^{epsilon + L})_+.
 *
 * For delta = 1e-6 a plain sample is 0 a million times before it is something. Any R that covers P gives delta =
 * E_R[dP/dR (1 - e^{epsilon - L})_+], and a confidence bound for the mean stays rigorous if the values have a known
 * bound M; its width goes with sqrt(M delta), so a small M is worth 1/M times more samples.
 *
 * Remove: R = sum_x pi(x) N(s m_x, sigma^2), s >= 1, dR/dQ = sum_x pi(x) e^{s v_x - s(s-1)|m_x|^2 / (2 sigma^2)}.
 * Hoelder's inequality with exponents s and s/(s-1) gives e^L <= (dR/dQ)^{1/s} K(s)^{(s-1)/s}, K(s) = E_pi e^{s |m|^2 /
 * (2 sigma^2)}. So dP/dR <= (K(s) e^{-L})^{s-1}, and since the greatest value of e^{-(s-1) x} (1 - e^{-x}) is
 * ((s-1)/s)^{s-1} / s,
 *
 *     M = ((s-1)/s)^{s-1} / s (K(s) e^{-epsilon})^{s-1}.
 *
 * Add: R = N(-t mbar, sigma^2), mbar = E_pi m. By Jensen L >= <mbar, y>/sigma^2 - E|m|^2 / (2 sigma^2), so dQ/dR =
 * exp((2 t <mbar, y> + t^2 |mbar|^2) / (2 sigma^2)) is at most exp(t L + (t E|m|^2 + t^2 |mbar|^2) / (2 sigma^2)), and
 *
 *     M = (t/(t+1))^t / (t+1) exp(-t epsilon + (t E|m|^2 + t^2 |mbar|^2) / (2 sigma^2)).
 *
 * s and t are those of the least M, found before anything is sampled; s = 1 and t = 0 are plain sampling with M = 1.
 * With few bins, or bins that overlap, M comes within a small factor of delta itself. Where amplification is strong
 * (many bins) both inequalities are far from equality and plain sampling it is.
 */
#include "account/montecarlo/scheme.h"

#include "base/special.h"
#include <math.h>

/* ln K(s), K(s) = E exp(s |m|^2 / (2 sigma^2)) over the mixture. */
static double log_moment(const montecarlo_draws *draws, double s) {
    const montecarlo_scheme *scheme = &draws->scheme;
    if (scheme->kind == MONTECARLO_SCHEME_SEPARATED)
        return montecarlo_separated_log_ratio(draws, s, NULL, 0, draws->root);
    const double half_precision = 0.5 / (scheme->sigma * scheme->sigma);
    double sum = -INFINITY;
    for (int64_t j = 0; j < scheme->bins; j++) {
        sum = base_log_add(sum, s * draws->squares[j] * half_precision);
    }
    return sum - log((double)scheme->bins);
}

/* x ln(x / (x+1)) - ln(x+1): the greatest of e^{-x z} (1 - e^{-z}) over z >= 0. */
static double log_peak(double x) {
    return x > 0 ? x * log(x / (x + 1)) - log1p(x) : 0;
}

/* ln M with x = s - 1 (remove) and x = t (add). */
static double log_most_remove(const montecarlo_draws *draws, double x) {
    return log_peak(x) + x * (log_moment(draws, 1 + x) - draws->epsilon);
}

static double log_most_add(const montecarlo_draws *draws, double x) {
    const double half_precision = 0.5 / (draws->scheme.sigma * draws->scheme.sigma);
    return log_peak(x) + x * (half_precision * (draws->mean_square + x * draws->square_mean) - draws->epsilon);
}

typedef double (*log_most)(const montecarlo_draws *draws, double x);

/* The x >= 0 of the least bound, by a coarse search and a golden section; any x is valid, so none need be exact. */
static double best_tilt(const montecarlo_draws *draws, log_most most, double *least) {
    static const double golden = 0.61803398874989484820;
    /* Below this gain the weights cost more than they save: (1 - e^-z)_+ alone has a variance far below its bound. */
    static const double worth_it = -1.4; /* M < 1/4 */
    double best = 0;
    *least = 0;
    for (double x = 1.0 / 64; x <= 1024; x *= 2) {
        const double value = most(draws, x);
        if (value < *least) *least = value, best = x;
    }
    if (*least > worth_it) {
        *least = 0;
        return 0;
    }
    double low = 0.5 * best, high = 2 * best;
    while (high - low > 1e-2 * high) {
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (most(draws, left) < most(draws, right))
            high = right;
        else
            low = left;
    }
    const double refined = 0.5 * (low + high), value = most(draws, refined);
    if (!(value < *least)) return best;
    *least = value;
    return refined;
}

void montecarlo_draws_aim(montecarlo_draws *draws, double sigma, double epsilon, int tilted) {
    draws->scheme.sigma = sigma;
    draws->epsilon = epsilon;
    draws->tilt_remove = 1;
    draws->tilt_add = 0;
    draws->log_most_remove = draws->log_most_add = 0;
    if (!tilted) return;
    draws->tilt_remove = 1 + best_tilt(draws, log_most_remove, &draws->log_most_remove);
    draws->tilt_add = best_tilt(draws, log_most_add, &draws->log_most_add);
}
