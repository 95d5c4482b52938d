/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The likelihood ratio of one step, U = exp(Z/sigma - 1/(2 sigma^2)), on a linear grid.
 *
 * Notation: x_i = i h; cell i is [x_i, x_{i+1}); z(x) = sigma ln x + 1/(2 sigma), so that U > x when Z > z(x); m_i = P[U in
 * cell i] = Phi(z_{i+1}) - Phi(z_i) and M_i = E[U; U in cell i], the same at z - 1/sigma.
 *
 * From above: the mass of a cell goes to its ends so that its mean stays,
 *
 *     at x_i  (x_{i+1} m_i - M_i)/h,      at x_{i+1}  (M_i - x_i m_i)/h:
 *
 * more spread, so that the mean of any convex function grows, in each of several independent U for any values of the
 * others. As delta is such a mean of a payoff that is not negative, adding mass only raises it; the rounding errors are
 * added as mass: m and M are differences of numbers that are right to 8 u (1 + z^2), and the differences above lose x/h
 * more.
 *
 * From below: the mass of a cell goes to its conditional mean (Jensen's inequality), and from there down (for payoffs that
 * rise with U) or up (for those that fall) to the next point of the grid x_i + f h, f the least (largest) of the fractions at
 * which the conditional means lie. They are near 1/2 in all cells that matter, so that little is lost; in the others the
 * mass moves on by a cell. Rounding errors are taken off the mass.
 */
#include "account/allocation/allocation.h"

#include "base/memory.h"
#include "base/special.h"
#include <math.h>

static const double U = 0x1p-53;

/* A difference of the normal distribution function, and the error that it may have. */
typedef struct part {
    double value, error;
} part;

static part between(double low, double high) {
    part p;
    if (low > 0) {
        const double a = base_normal_cdf(-low), b = base_normal_cdf(-high);
        p.value = a - b;
        p.error = 8 * U * (1 + low * low) * a;
    } else {
        const double a = base_normal_cdf(low), b = base_normal_cdf(high);
        p.value = b - a;
        p.error = 8 * U * (1 + fmin(high * high, low * low)) * b;
    }
    p.value = fmax(p.value, 0);
    return p;
}

static double place_of(double sigma, double x) {
    return x > 0 ? sigma * log(x) + 0.5 / sigma : -INFINITY;
}

typedef struct cell {
    part mass, mean; /* mean: E[U; cell] */
} cell;

static cell cell_at(double sigma, double low, double high) {
    return (cell){between(low, high), between(low - 1 / sigma, high - 1 / sigma)};
}

/* Onto the ends x and next = x + h of a cell: mass[0] and mass[1]. */
static void split(const cell *c, double x, double h, double *mass) {
    const double next = x + h;
    const double error = (next * c->mass.error + c->mean.error + 4 * U * (next * c->mass.value + c->mean.value)) / h;
    mass[0] += fmax((next * c->mass.value - c->mean.value) / h, 0) + error;
    mass[1] += fmax((c->mean.value - x * c->mass.value) / h, 0) + error;
}

/* Where in its cell the conditional mean lies, 0 to 1, from below or from above. */
static double fraction(const cell *c, int64_t i, double h, int above) {
    if (!(c->mass.value > 0)) return above ? 1 : 0;
    const double mean = c->mean.value / c->mass.value;
    const double error =
        2 * mean * (c->mass.error / c->mass.value + c->mean.error / fmax(c->mean.value, 1e-300) + 4 * U);
    return fmin(fmax((mean - h * (double)i + (above ? error : -error)) / h, 0), 1);
}

/* Cells with less than this count for nothing in the choice of f. */
static const double MATTERS = 1e-25;

static double common_fraction(double sigma, double h, int64_t cells, int above) {
    double low = -INFINITY, found = above ? 0 : 1, sum = 0;
    for (int64_t i = 0; i < cells; i++) {
        const double high = place_of(sigma, h * (double)(i + 1));
        const cell c = cell_at(sigma, low, high);
        sum += c.mass.value;
        if (c.mass.value > MATTERS && (!above || sum > 1e-4)) {
            const double f = fraction(&c, i, h, above);
            found = above ? fmax(found, f) : fmin(found, f);
        }
        low = high;
    }
    return found;
}

static void concentrate(const cell *c, int64_t i, double h, double f, int above, double *mass) {
    const double at = fraction(c, i, h, above), less = fmax(c->mass.value - c->mass.error, 0);
    const int64_t slot = above ? (at <= f ? i : i + 1) : (at >= f ? i : i - 1);
    if (slot >= 0) mass[slot] += less;
}

dpmf_status allocation_law_create(double sigma, double step, int64_t cells, allocation_side side, allocation_law *out) {
    const int lower = side != ALLOCATION_UPPER, above = side == ALLOCATION_LOWER_PUTS;
    allocation_law law = {.sigma = sigma, .step = step, .cut = step * (double)cells, .count = cells + 1};
    TRY(base_alloc_doubles(law.count, "a likelihood ratio on a grid", &law.mass));
    const double f = lower ? common_fraction(sigma, step, cells, above) : 0;
    double low = -INFINITY;
    for (int64_t i = 0; i < cells; i++) {
        const double high = place_of(sigma, step * (double)(i + 1));
        const cell c = cell_at(sigma, low, high);
        if (lower)
            concentrate(&c, i, step, f, above, law.mass);
        else
            split(&c, step * (double)i, step, law.mass + i);
        low = high;
    }
    const double z = place_of(sigma, law.cut), sign = lower ? -1 : 1;
    law.offset = f * step;
    law.big = base_normal_cdf(-z) * (1 + sign * 16 * U * (1 + z * z));
    law.big_mean = base_normal_cdf(1 / sigma - z) * (1 + sign * 16 * U * (1 + z * z + 1 / (sigma * sigma)));
    *out = law;
    return DPMF_OK;
}

void allocation_law_free(allocation_law *law) {
    base_free(law->mass);
    law->mass = NULL;
}

double allocation_call(const allocation_law *law, double k) {
    if (k <= law->cut) return law->big_mean - k * law->big;
    const double z = place_of(law->sigma, k), shift = 1 / law->sigma;
    const double first = base_normal_cdf(shift - z), second = k * base_normal_cdf(-z);
    return fmax(first - second, 0) + 16 * U * (1 + z * z) * (first + second);
}

dpmf_status allocation_piece(double sigma, double low, double high, double shift, double step,
                             allocation_measure *out) {
    allocation_measure m = {.step = step, .first = (int64_t)floor((low - shift) / step)};
    m.count = (int64_t)ceil((high - shift) / step) - m.first + 1;
    TRY(base_alloc_doubles(m.count, "a likelihood ratio on a grid", &m.mass));
    double from = place_of(sigma, low);
    for (int64_t i = 0; i + 1 < m.count; i++) {
        const double x = shift + step * (double)(m.first + i), next = shift + step * (double)(m.first + i + 1);
        const double to = place_of(sigma, fmin(next, high));
        const cell c = cell_at(sigma, from, to);
        split(&c, x, step, m.mass + i);
        from = to;
    }
    allocation_measure_weigh(&m);
    *out = m;
    return DPMF_OK;
}
