/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cumulants of the one-step loss, K(t) = ln E_P[e^(tL)], and saddle points. They choose the order, the step and the
 * window of the certified computation; its result is a bound whatever they are.
 *
 * E_P is the trapezoid rule in z. P is a mixture of two normal distributions and the loss is analytic within pi sigma^2
 * of the real axis, so with the step min(sigma, sigma^2)/4 the rule would be exact to about e^(-2 pi^2 4); its error is that of cutting the
 * losses off at the end, where little is left.
 *
 * delta(epsilon) = (1/2 pi i) int e^(n K(z) - z epsilon) / (z (z+1)) dz along Re z = t > 0; the exponent with the
 * denominator in it, F(t) = n K(t) - t epsilon - ln t - ln(1+t), is convex in t, and at its minimum
 *
 *     delta ~ e^F(t) / sqrt(2 pi F''(t)),    epsilon = n K'(t) - 1/t - 1/(1+t).
 */
#include "account/grid/grid.h"

#include "base/memory.h"
#include <math.h>

dpmf_status grid_profile_create(const grid_pair *p, double log_cut, grid_profile *out) {
    const double top = grid_cut(p, log_cut), span = fmin(sqrt(-2 * log_cut), 60) * p->sigma;
    const double low = p->sign > 0 ? (p->direction == ACCOUNT_REPLACE ? -1 : 0) - span : top;
    const double high = p->sign > 0 ? top : 1 + span;
    const int64_t count = (int64_t)ceil(4 * (high - low) / fmin(p->sigma, p->sigma * p->sigma)) + 2;
    const double step = (high - low) / (double)(count - 1);
    double *memory = NULL;
    TRY(base_alloc_doubles(2 * count, "the nodes of a privacy loss", &memory));
    double total = 0;
    for (int64_t i = 0; i < count; i++) {
        const double z = low + (double)i * step;
        memory[i] = grid_log_ratio(p, z) - 0.5 * z * z * p->inverse_variance;
        memory[count + i] = grid_loss(p, z);
        total += exp(memory[i]);
    }
    const double shift = log(total);
    for (int64_t i = 0; i < count; i++) {
        memory[i] -= shift;
    }
    *out = (grid_profile){count, memory, memory + count, top};
    return DPMF_OK;
}

void grid_profile_free(grid_profile *profile) {
    base_free(profile->log_weight);
}

void grid_cumulants(const grid_profile *profile, double t, double k[3]) {
    const double *log_weight = profile->log_weight, *loss = profile->loss;
    double largest = -INFINITY;
    for (int64_t i = 0; i < profile->count; i++) {
        largest = fmax(largest, log_weight[i] + t * loss[i]);
    }
    double s0 = 0, s1 = 0, s2 = 0;
    for (int64_t i = 0; i < profile->count; i++) {
        const double exponent = log_weight[i] + t * loss[i] - largest;
        if (exponent < -45) continue;
        const double weight = exp(exponent);
        s0 += weight;
        s1 += weight * loss[i];
        s2 += weight * loss[i] * loss[i];
    }
    k[0] = largest + log(s0);
    k[1] = s1 / s0;
    k[2] = fmax(s2 / s0 - k[1] * k[1], 0);
}

/* At the order t: the epsilon whose saddle point it is, and ln delta there. */
static double saddle_epsilon(const grid_pair *p, const grid_profile *profile, double t, double *log_delta) {
    static const double two_pi = 6.28318530717958647693;
    double k[3];
    grid_cumulants(profile, t, k);
    const double epsilon = p->n * k[1] - 1 / t - 1 / (1 + t);
    const double curvature = p->n * k[2] + 1 / (t * t) + 1 / ((1 + t) * (1 + t));
    *log_delta = p->n * k[0] - t * epsilon - log(t) - log1p(t) - 0.5 * log(two_pi * curvature);
    return epsilon;
}

static const double ORDER_MIN = 1e-3, ORDER_MAX = 1e12;

double grid_saddle(const grid_pair *p, const grid_profile *profile, double epsilon, double *log_delta) {
    double low = log(ORDER_MIN), high = log(ORDER_MAX);
    while (high - low > 1e-3) {
        const double middle = 0.5 * (low + high);
        *(saddle_epsilon(p, profile, exp(middle), log_delta) < epsilon ? &low : &high) = middle;
    }
    const double t = exp(high);
    const double there = saddle_epsilon(p, profile, t, log_delta);
    *log_delta += t * (there - epsilon); /* where the order is at an end of its range, Chernoff's bound moved there */
    return t;
}

double grid_guess(const grid_pair *p, const grid_profile *profile, double log_delta) {
    double low = log(ORDER_MIN), high = log(ORDER_MAX), there = 0, epsilon = 0;
    while (high - low > 1e-4) {
        const double middle = 0.5 * (low + high);
        epsilon = saddle_epsilon(p, profile, exp(middle), &there);
        *(there > log_delta ? &low : &high) = middle;
    }
    epsilon += (there - log_delta) / exp(high); /* the rest of the way along the slope, d ln delta / d epsilon = -t */
    return fmax(epsilon, 0);
}
