/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The explicit BLT for prefix sums over n steps, without a search (Pillutla et al. 2025, Theorem 2.18; Dvijotham et al. 2024).
 *
 * The best Toeplitz mechanism for the max loss is the square root, C(x) = (1-x)^(-1/2); its loss is
 *
 *     L(n) = sum_{t<n} c_t^2,   c_t = binom(2t, t) / 4^t        (Pillutla et al. 2025, Theorems 2.5 and 2.7),
 *
 * and the theorem says that a BLT of O(ln^2(n/delta)) buffers has at most L(n) + delta. Its proof takes a rational function of
 * Newman's. Here it is a quadrature (blt_rational) whose error falls like exp(-2 pi^2 d / ln(16 n)), so that the buffers grow
 * like ln(n) ln(1/delta): fewer, and each with a positive scale, which the closed forms of algebra.c need.
 *
 * Nothing rests on that rate. The loss of d buffers is known in closed form, and the first d whose loss is at most
 * L(n) + BLT_RATIONAL_SLACK is taken. The quadrature is made for 1 - x from 2/n on: a search over this limit found
 * that 2/n is best for 3 to 12 buffers, to 0.1 % of the loss.
 */
#include "families/blt/blt.h"

#include <math.h>

/* L(n), one of Landau's constants: beyond SUMMED terms their expansion in n - 1/4 (Watson 1930) is off by less than 1e-15. */
double blt_root_loss(int64_t n) {
    enum { SUMMED = 4096 };
    static const double EULER = 0.57721566490153286061;
    double sum = 0, c = 1;
    if (n > SUMMED) {
        const double m = (double)n - 0.25;
        return (log(m) + EULER + 4 * M_LN2 + 11 / (192 * m * m)) / M_PI;
    }
    for (int64_t t = 1; t <= n; t++) {
        sum += c * c;
        c *= (double)(2 * t - 1) / (double)(2 * t);
    }
    return sum;
}

blt_parameters blt_rational_of(int count, int64_t n) {
    return blt_rational(count, fmax((double)n / 2, 2));
}

blt_parameters blt_rational_fewest(int64_t n, double slack) {
    const double wanted = blt_root_loss(n) + slack;
    blt_parameters c = {0};
    for (int count = 1; count <= BLT_MAX; count++) {
        c = blt_rational_of(count, n);
        const blt_parameters inverse = blt_invert(&c);
        if (sqrt(blt_pattern_square(&c, n, 1, n) * blt_last_row_square(&inverse, n)) <= wanted) break;
    }
    return c;
}

/* A file's numbers are those of the family if the formula gives them again, but for a machine's own exponential function. */
int blt_is_rational(const blt_parameters *c, int64_t n) {
    const blt_parameters own = blt_rational_of(c->count, n);
    for (int i = 0; i < c->count; i++)
        if (!(fabs(c->scale[i] - own.scale[i]) <= 1e-9 * own.scale[i] &&
              fabs(c->gap[i] - own.gap[i]) <= 1e-9 * own.gap[i]))
            return 0;
    return 1;
}
