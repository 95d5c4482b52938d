/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of balls in bins, in the space of the b numbers u_j = <m_j, y> (account/montecarlo/scheme.c).
 *
 * In units: a = A z / sigma with A A' = G and z standard normal is the noise of u / sigma^2, and v_j = a_j + shift_j
 * - G_jj / (2 sigma^2). The shift is s G_jJ / sigma^2 for the remove direction and bin J, -t <m_j, mbar> / sigma^2 for
 * the add direction (account/montecarlo/tilt.c). Both directions use the same a: each is bounded on its own.
 *
 * Block g takes bin J = g mod b, so that b blocks make a stratified sample of the mixture: independent samples whose
 * means average to delta, which is all that the bounds need.
 *
 * Nearly every sample is 0: remove needs sum_j e^{v_j} > b e^epsilon and add needs it below b e^-epsilon. Since v_j is
 * a_j and a constant, one vector of e^{a_j} serves both directions, and logarithms are taken of the samples that pass.
 */
#include "account/montecarlo/scheme.h"

#include <math.h>

enum { LANES = MONTECARLO_LANES };

/* v_j - a_j, j < bins, for a shift. */
static double constant(const montecarlo_draws *draws, double shift_scale, const double *shift, int64_t j) {
    return 0.5 / (draws->scheme.sigma * draws->scheme.sigma) * (2 * shift_scale * shift[j] - draws->squares[j]);
}

/* sum[i] = sum_j e^{v_j} of sample i, given the e^{a_j}; factors: room for a number of each bin. */
static void add_exponentials(const montecarlo_draws *draws, const double *e, double shift_scale, const double *shift,
                             double *factors, double sum[LANES]) {
    for (int64_t j = 0; j < draws->scheme.bins; j++)
        factors[j] = constant(draws, shift_scale, shift, j);
    draws->kernels->exponentials(draws->scheme.bins, factors, factors);
    draws->kernels->add_up(draws->scheme.bins, factors, e, sum);
}

/* v of the sample whose a_j are at a[j * LANES]. */
static void move(const montecarlo_draws *draws, const double *a, double shift_scale, const double *shift, double *v) {
    for (int64_t j = 0; j < draws->scheme.bins; j++) {
        v[j] = a[j * LANES] + constant(draws, shift_scale, shift, j);
    }
}

/* May the sums be formed without overflow? If not, every sample is looked at in logarithms. */
static int is_tame(const montecarlo_draws *draws) {
    const double width = sqrt(draws->largest) / draws->scheme.sigma;
    return 9 * width < MONTECARLO_EXPONENT_MAX && /* normals end at 8.57 */
           fmax(draws->tilt_remove, draws->tilt_add) * width * width < MONTECARLO_EXPONENT_MAX;
}

/* ln (1/b) sum_j exp(s v_j - s (s-1) G_jj / (2 sigma^2)) of one sample; s = 1: L. */
static double log_mean(const montecarlo_draws *draws, double s, const double *v) {
    const int64_t b = draws->scheme.bins;
    const double factor = 0.5 * s * (s - 1) / (draws->scheme.sigma * draws->scheme.sigma);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < b; j++) {
        largest = fmax(largest, s * v[j] - factor * draws->squares[j]);
    }
    for (int64_t j = 0; j < b; j++) {
        sum += exp(s * v[j] - factor * draws->squares[j] - largest);
    }
    return largest + log(sum / (double)b);
}

static double mean_of(int64_t b, const double *v) {
    double sum = 0;
    for (int64_t j = 0; j < b; j++) {
        sum += v[j];
    }
    return sum / (double)b;
}

static double remove_value(const montecarlo_draws *draws, const double *v) {
    const double ratio = log_mean(draws, 1, v), s = draws->tilt_remove;
    if (!(ratio > draws->epsilon)) return 0;
    const double log_weight = s > 1 ? ratio - log_mean(draws, s, v) : 0;
    return montecarlo_draws_value(ratio - draws->epsilon, log_weight, draws->log_most_remove);
}

static double add_value(const montecarlo_draws *draws, const double *v) {
    const double ratio = log_mean(draws, 1, v), t = draws->tilt_add;
    if (!(-ratio > draws->epsilon)) return 0;
    const double half_precision = 0.5 / (draws->scheme.sigma * draws->scheme.sigma);
    const double projection = mean_of(draws->scheme.bins, v) + half_precision * draws->mean_square;
    const double log_weight = t * projection + t * t * half_precision * draws->square_mean;
    return montecarlo_draws_value(-ratio - draws->epsilon, log_weight, draws->log_most_add);
}

void montecarlo_draws_block_bins(const montecarlo_draws *draws, uint64_t seed, uint64_t stream, int64_t block,
                                 double *scratch, double remove[LANES], double add[LANES]) {
    const int64_t b = draws->scheme.bins;
    const int tame = is_tame(draws);
    const double *bin = draws->scheme.gram + (block % b) * b, slack = 1e-9; /* of rounding in the sums */
    double *z = scratch, *a = z + b * LANES, *v = a + b * LANES, *factors = v + b, high[LANES], low[LANES];
    draws->kernels->normals(seed, stream, b * LANES, z);
    draws->kernels->triangle(b, draws->first, draws->root, 1 / draws->scheme.sigma, z, a);
    if (tame) {
        double *e = z; /* z has been used */
        draws->kernels->exponentials(b * LANES, a, e);
        add_exponentials(draws, e, draws->tilt_remove, bin, factors, high);
        add_exponentials(draws, e, -draws->tilt_add, draws->mean, factors, low);
    }
    const double least = (double)b * exp(draws->epsilon) * (1 - slack);
    const double most = (double)b * exp(-draws->epsilon) * (1 + slack);
    for (int i = 0; i < LANES; i++) {
        remove[i] = add[i] = 0;
        if (!tame || high[i] > least) {
            move(draws, a + i, draws->tilt_remove, bin, v);
            remove[i] = remove_value(draws, v);
        }
        if (!tame || low[i] < most) {
            move(draws, a + i, -draws->tilt_add, draws->mean, v);
            add[i] = add_value(draws, v);
        }
    }
}
