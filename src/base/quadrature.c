/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Quadrature for x^(-1/2) by shifted inverses (Hale, Higham and Trefethen 2008, the method for A^(1/2)): the trapezoid
 * rule after the change of variables s = low sc^2, sc a Jacobi elliptic function, whose N nodes and weights are
 * positive and give
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
#include "base/quadrature.h"

#include "base/special.h"

#include <assert.h>
#include <math.h>

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
