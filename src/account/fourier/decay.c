/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast the characteristic function of one tilted step falls, proven for all frequencies at once.
 *
 * Notation: p(x) = f(x) e^u(x) / M(t) the tilted density of the point observed, L(x) the loss, phi(y) = M(t + iy)/M(t)
 * its characteristic function, rho(l) = p/|L'| the density of the loss.
 *
 * On disjoint intervals of width w_j let c_j be at most rho. Then rho is c_j 1_j, summed, and a measure that is left,
 * and the uniform parts have the characteristic functions c_j w_j e^(...) sin(y w_j/2)/(y w_j/2):
 *
 *     |phi(y)| <= 1 - sum_j c_j w_j (1 - |sin v_j / v_j|),    v_j = y w_j/2.
 *
 * |sin v/v| falls until its first zero, pi, and is at most 0.2173 and at most 1/v beyond. So the bound at y, with the
 * largest |sin v/v| from there on, holds for everything beyond y too, where no quadrature looks.
 *
 * Where outcomes are apart (account/pair.h) p is 0. Cells are intervals of x, since L is monotone there: c_j is the least f
 * times the least e^u over the largest |L'|, all at ends (u is monotone; L' = r/sigma^2 with r of account/pair.c for remove
 * and add, (r + r-)/sigma^2 for replace, r rises and r- falls). Wide cells see low frequencies, narrow ones lose less of
 * the mass: of some families of cells the best counts. Where the loss is near Gaussian a cell of 3.5 standard deviations
 * about its mean gives 0.3 of the exponent y^2/2 that there is.
 */
#include "account/fourier/fourier.h"

#include <math.h>

static const double PI = 3.14159265358979323846, log_sqrt_two_pi = 0.91893853320467274178;
static const double ROOM = 1e-9; /* for the roundings of a bound that need not be tight */

typedef struct place {
    double loss, exponent; /* L and u of the order t */
} place;

static place place_at(const account_pair *pair, double t, double x) {
    const double l = account_pair_log_ratio(pair, x);
    if (pair->direction == ACCOUNT_ADD) return (place){-l, -t * l};
    if (pair->direction == ACCOUNT_REMOVE) return (place){l, (t + 1) * l};
    const double mirrored = account_pair_log_ratio(pair, -x);
    return (place){l - mirrored, (t + 1) * l - t * mirrored};
}

static double logistic(const account_pair *pair, double x) {
    const double q = pair->probability;
    return 1 / (1 + exp(-(x - 0.5) / (pair->sigma * pair->sigma) - log(q) + log1p(-q)));
}

/* c w of the cell from x to y; *width: w. */
static double cell_mass(const account_pair *pair, double cut, double t, double log_moment, double x, double y,
                        double *width) {
    const place a = place_at(pair, t, x), b = place_at(pair, t, y);
    const double variance = pair->sigma * pair->sigma, far = fmax(fabs(x), fabs(y));
    double steepest = logistic(pair, y);
    if (pair->direction == ACCOUNT_REPLACE) steepest += logistic(pair, -x);
    *width = fabs(b.loss - a.loss) * (1 - ROOM);
    if (!(steepest > 1e-290 && *width > 0)) return 0;
    if (account_pair_is_apart(pair, cut, x) || account_pair_is_apart(pair, cut, y)) return 0;
    const double log_least =
        fmin(a.exponent, b.exponent) - 0.5 * far * far / variance - log_sqrt_two_pi - log(pair->sigma) - log_moment;
    return exp(log_least) * *width / (steepest / variance) * (1 - ROOM);
}

/* The x of the largest p, and where it is e^-12 of that. */
static void find_bulk(const account_pair *pair, double cut, double t, double *low, double *peak, double *high) {
    const double keep = 12, step = 0.25 * pair->sigma;
    const double reach = sqrt(2 * account_pair_kept(pair)) * pair->sigma;
    const double most = pair->direction == ACCOUNT_REPLACE ? 2 * t + 1 : t + 1;
    const double first = pair->direction == ACCOUNT_ADD ? -fmin(t, 1e3 * pair->sigma) - reach : -reach;
    const double last = pair->direction == ACCOUNT_ADD ? reach : fmin(most, 1e3 * pair->sigma) + reach;
    double largest = -INFINITY;
    *low = *peak = *high = 0;
    for (int pass = 0; pass < 2; pass++) {
        int seen = 0;
        for (double x = first; x <= fmin(last, cut); x += step) {
            const double z = x / pair->sigma, size = place_at(pair, t, x).exponent - 0.5 * z * z;
            if (pass == 0 && size > largest) {
                largest = size;
                *peak = x;
            }
            if (pass == 0 || size < largest - keep) continue;
            if (!seen) *low = x;
            seen = 1;
            *high = x;
        }
    }
}

void fourier_decay_fill(const account_pair *pair, double cut, double t, double log_moment, fourier_decay *out) {
    enum { FAMILIES = 6 };
    static const double widths[FAMILIES] = {3.5, 2.5, 1.75, 1, 0.5, 0.25}; /* in sigma */
    double low, peak, high;
    int count = 0;
    find_bulk(pair, cut, t, &low, &peak, &high);
    for (int i = 0; i < FAMILIES; i++) {
        const double width = widths[i] * pair->sigma, first = peak - width * (0.5 + floor((peak - low) / width));
        for (double x = first; x < high && count < FOURIER_CELLS; x += width) {
            out->mass[count] = cell_mass(pair, cut, t, log_moment, x, x + width, &out->width[count]);
            count++;
        }
        out->ends[i] = count;
    }
    out->families = FAMILIES;
}

/* 1 - the largest |sin u/u| for u >= v */
static double least_loss(double v) {
    static const double second_peak = 0.2173;         /* of |sin u/u|, at u = 4.4934 */
    if (v < 0.1) return v * v / 6 * (1 - v * v / 20); /* the next term of the series is positive */
    if (v < PI) return 1 - fmax(sin(v) / v, second_peak);
    return 1 - fmin(1 / v, second_peak);
}

double fourier_decay_from(const fourier_decay *decay, double y) {
    double best = 0;
    for (int i = 0, j = 0; i < decay->families; i++) {
        double sum = 0;
        for (; j < decay->ends[i]; j++) {
            sum += decay->mass[j] * least_loss(0.5 * y * decay->width[j]);
        }
        best = fmax(best, sum);
    }
    return best * (1 - ROOM);
}
