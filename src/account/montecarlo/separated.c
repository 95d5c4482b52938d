/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of b-min-separation sampling: the recursion f_i = (1-p) f_{i+1} + p e^{l_i} f_{i+b} of account/montecarlo/scheme.c.
 *
 * A sample takes O(steps * bands). Logarithms of sums cost ten times a multiplication, so the blocks run the recursion
 * on plain numbers, MONTECARLO_LANES samples side by side with an exponential that vectorises, and multiply a sample's
 * window by a power of two when it leaves 2^-100 .. 2^100. A sample with an |l_i| above 50, or whose window could
 * spread over more than doubles hold ((1-p)^b tiny), is done again in log space, which is always right.
 *
 * Outcomes are in units of sigma here: y / sigma.
 */
#include "account/montecarlo/scheme.h"

#include "base/random.h"
#include "base/special.h"
#include <math.h>
#include <string.h>

enum { LANES = MONTECARLO_LANES, RESCALE_EVERY = 8 };
static const double most_exponent = 50; /* of a step: eight of them and 2^100 are doubles, up and down */

static int64_t ring_size(const montecarlo_scheme *scheme) {
    return scheme->separation < scheme->steps ? scheme->separation : scheme->steps;
}

/* ---- in log space ---- */

double montecarlo_separated_log_ratio(const montecarlo_draws *draws, double s, const double *outcome, int64_t stride,
                                      double *window) {
    const montecarlo_scheme *scheme = &draws->scheme;
    const int64_t n = scheme->steps, b = scheme->separation, ring = ring_size(scheme), bands = scheme->bands;
    const double p = scheme->probability, log_p = log(p), log_q = log1p(-p);
    const double half_precision = 0.5 / (scheme->sigma * scheme->sigma);
    memset(window, 0, (size_t)ring * sizeof *window);
    double next = 0; /* ln f_{i+1} */
    for (int64_t i = n - 1, slot = i % ring; i >= 0; i--, slot = slot == 0 ? ring - 1 : slot - 1) {
        double exponent = s * draws->squares[i] * half_precision; /* without an outcome: E exp(s |C x|^2 / 2 sigma^2) */
        if (outcome != NULL) {
            double dot = 0;
            for (int64_t j = 0; j < bands && i + j < n; j++)
                dot += scheme->columns[i * bands + j] * outcome[(i + j) * stride];
            exponent = s * dot / scheme->sigma - s * exponent;
        }
        next = base_log_add(log_q + next, log_p + exponent + window[slot]);
        window[slot] = next;
    }
    if (!scheme->warm) return next;
    double sum = next;
    for (int64_t i = 1; i < ring; i++)
        sum = base_log_add(sum, log_p + window[i]);
    if (b > n) sum = base_log_add(sum, log_p + log((double)(b - n)));
    return sum - log1p((double)(b - 1) * p);
}

/* ---- on plain numbers ---- */

/* Powers of two that bring f back to the middle, for those lanes that need it. */
static void rescale(int64_t ring, double *window, const double f[LANES], double shift[LANES]) {
    static const double log_two = 0.69314718055994530942;
    for (int k = 0; k < LANES; k++) {
        if (f[k] >= 0x1p-100 && f[k] <= 0x1p100) continue;
        int exponent = 0;
        frexp(f[k], &exponent);
        const double factor = ldexp(1, -exponent);
        for (int64_t j = 0; j < ring; j++)
            window[j * LANES + k] *= factor;
        shift[k] += exponent * log_two;
    }
}

/* The recursion; afterwards the window holds f_i of the first steps at i, times e^-shift. */
static void recursion(const montecarlo_draws *draws, double s, const double *outcomes, double *window,
                      double shift[LANES], double wild[LANES]) {
    const int64_t n = draws->scheme.steps, ring = ring_size(&draws->scheme);
    const double p = draws->scheme.probability, q = 1 - p;
    double e[LANES], f[LANES];
    for (int64_t j = 0; j < ring * LANES; j++)
        window[j] = 1;
    for (int k = 0; k < LANES; k++)
        shift[k] = wild[k] = 0;
    const double *next = window + (n % ring) * LANES; /* f_n = 1 */
    for (int64_t i = n - 1, slot = i % ring; i >= 0; i--, slot = slot == 0 ? ring - 1 : slot - 1) {
        double *here = window + slot * LANES;
        /* e^(s l_i) of all lanes; `wild` keeps the largest exponent so far: a lane where it is too large has nonsense here. */
        const montecarlo_scheme *scheme = &draws->scheme;
        const double *column = scheme->columns + i * scheme->bands;
        const int64_t rows = scheme->bands < scheme->steps - i ? scheme->bands : scheme->steps - i;
        const double scale = s / scheme->sigma, constant = 0.5 * scale * scale * draws->squares[i];
        draws->kernels->factors(rows, column, outcomes + i * LANES, scale, constant, e, wild);
        for (int k = 0; k < LANES; k++)
            f[k] = q * next[k] + p * e[k] * here[k];
        memcpy(here, f, sizeof f);
        if (i % RESCALE_EVERY == 0) rescale(ring, window, f, shift);
        next = here;
    }
}

void montecarlo_separated_log_ratios(const montecarlo_draws *draws, double s, const double *outcomes, double *window,
                                     double out[LANES]) {
    const montecarlo_scheme *scheme = &draws->scheme;
    const int64_t n = scheme->steps, b = scheme->separation, ring = ring_size(scheme);
    const double p = scheme->probability;
    const int narrow = (double)ring * log1p(-p) > -200; /* f_i >= (1-p)^b f_{i+b}: the window's spread downwards */
    double shift[LANES], wild[LANES], sum[LANES];
    if (narrow) recursion(draws, s, outcomes, window, shift, wild);
    for (int k = 0; k < LANES && narrow; k++) {
        sum[k] = window[k];
        for (int64_t i = 1; i < ring && scheme->warm; i++)
            sum[k] += p * window[i * LANES + k];
        if (scheme->warm && b > n) sum[k] += p * (double)(b - n) * exp(-shift[k]);
        out[k] = log(sum[k]) + shift[k] - (scheme->warm ? log1p((double)(b - 1) * p) : 0);
    }
    for (int k = 0; k < LANES; k++) {
        if (narrow && wild[k] <= most_exponent && isfinite(out[k])) continue;
        out[k] = montecarlo_separated_log_ratio(draws, s, outcomes + k, LANES, window);
    }
}

/* Adds s C x / sigma to one lane, x drawn from the scheme with the lane's uniform numbers, one for each wait. */
static void join_steps(const montecarlo_draws *draws, const double *uniforms, double *outcome) {
    const montecarlo_scheme *scheme = &draws->scheme;
    const int64_t n = scheme->steps, b = scheme->separation, bands = scheme->bands;
    const double p = scheme->probability, scale = draws->tilt_remove / scheme->sigma;
    const double per_wait = p < 1 ? 1 / log1p(-p) : 0; /* free steps passed by: geometric; none at p = 1 */
    int64_t i = 0;
    if (scheme->warm) { /* free at step 0 with weight 1, first free at step 1 .. b-1 with weight p each */
        const double weight = *uniforms * (1 + (double)(b - 1) * p);
        if (weight > 1) i = (int64_t)fmin((weight - 1) / p, (double)(b - 2)) + 1;
        uniforms += LANES;
    }
    for (;;) {
        const double passed = floor(log(*uniforms) * per_wait);
        if (passed >= (double)(n - i)) return; /* also where i is past the end */
        i += (int64_t)passed;
        for (int64_t j = 0; j < bands && i + j < n; j++)
            outcome[(i + j) * LANES] += scale * scheme->columns[i * bands + j];
        i += b;
        uniforms += LANES;
    }
}

static void remove_values(const montecarlo_draws *draws, const double *outcomes, double *window, double value[LANES]) {
    double ratio[LANES], proposal[LANES];
    int any = 0;
    montecarlo_separated_log_ratios(draws, 1, outcomes, window, ratio);
    for (int k = 0; k < LANES; k++) {
        any = any || !(ratio[k] <= draws->epsilon); /* NaN too */
        value[k] = 0;
    }
    if (!any) return;
    const int tilted = draws->tilt_remove > 1;
    if (tilted) montecarlo_separated_log_ratios(draws, draws->tilt_remove, outcomes, window, proposal);
    for (int k = 0; k < LANES; k++) {
        value[k] = montecarlo_draws_value(ratio[k] - draws->epsilon, tilted ? ratio[k] - proposal[k] : 0,
                                          draws->log_most_remove);
    }
}

/* projection: <mbar, y> / sigma^2, which bounds L from below by Jensen's inequality: most samples end there. */
static void add_values(const montecarlo_draws *draws, const double *outcomes, double *window, double value[LANES]) {
    const montecarlo_scheme *scheme = &draws->scheme;
    const double half_precision = 0.5 / (scheme->sigma * scheme->sigma), t = draws->tilt_add;
    double projection[LANES] = {0}, ratio[LANES];
    int any = 0;
    for (int64_t i = 0; i < scheme->steps; i++) {
        const double factor = draws->mean[i] / scheme->sigma;
        for (int k = 0; k < LANES; k++)
            projection[k] += factor * outcomes[i * LANES + k];
    }
    const double slack = 1e-9; /* of rounding: a sample that is evaluated for nothing costs little */
    for (int k = 0; k < LANES; k++) {
        any = any || !(projection[k] - half_precision * draws->mean_square > slack - draws->epsilon); /* NaN too */
        value[k] = 0;
    }
    if (!any) return;
    montecarlo_separated_log_ratios(draws, 1, outcomes, window, ratio);
    for (int k = 0; k < LANES; k++) {
        value[k] = montecarlo_draws_value(-ratio[k] - draws->epsilon,
                                          t * projection[k] + t * t * half_precision * draws->square_mean,
                                          draws->log_most_add);
    }
}

void montecarlo_draws_block_separated(const montecarlo_draws *draws, uint64_t seed, uint64_t stream, double *scratch,
                                      double remove[LANES], double add[LANES]) {
    const montecarlo_scheme *scheme = &draws->scheme;
    const int64_t n = scheme->steps, waits = (n - 1) / scheme->separation + 3;
    double *z = scratch, *outcomes = z + n * LANES, *window = outcomes + n * LANES;
    double *uniforms = window + ring_size(scheme) * LANES;
    draws->kernels->normals(seed, stream, n * LANES, z);
    base_random_uniforms(seed, stream | 1, waits * LANES, uniforms);

    memcpy(outcomes, z, (size_t)(n * LANES) * sizeof *z);
    for (int k = 0; k < LANES; k++)
        join_steps(draws, uniforms + k, outcomes + k);
    remove_values(draws, outcomes, window, remove);

    const double scale = -draws->tilt_add / scheme->sigma;
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < LANES; k++)
            outcomes[i * LANES + k] = z[i * LANES + k] + scale * draws->mean[i];
    }
    add_values(draws, outcomes, window, add);
}
