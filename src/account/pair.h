/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the subsampled Gaussian mechanism: M(z) = E_P[e^(zL)], the moment generating function of the privacy loss
 * under P, at real and complex z.
 */
#ifndef DPMF_ACCOUNT_PAIR_H
#define DPMF_ACCOUNT_PAIR_H

#include "account/account.h"

#include <complex.h>

/* x + iy; as CMPLX, which not every compiler has. The two arrays have the same layout (C17 6.2.5, 13). */
static inline double complex account_complex(double x, double y) {
    const union {
        double part[2];
        double complex value;
    } both = {{x, y}};
    return both.value;
}

/* Refuses a pair that is out of range, naming the number. */
DPMF_MUST_CHECK dpmf_status account_pair_check(const account_pair *pair);

/* ln(1 - q + q e^((2x-1)/(2 sigma^2))): the log ratio of M(1) to N(0, sigma^2) at x. */
double account_pair_log_ratio(const account_pair *pair, double x);
/* sup of L(x) = ln dP/dQ: -ln(1-q) for the add direction, INFINITY otherwise. */
double account_pair_loss_limit(const account_pair *pair);

/*
 * Rare outcomes set apart: those above `cut`, for replace also those below -cut, count as a loss of infinity, and M means the mean
 * of e^(zL) over the others. Their mass is added to delta, n-fold. INFINITY: nothing is apart.
 */
int account_pair_is_apart(const account_pair *pair, double cut, double x);
double account_pair_log_apart(const account_pair *pair, double cut); /* ln of their mass under P */

/* ln M(t) of one step at a real t > 0, with derivatives; error: of `value`, from rounding and truncation. INFINITY: it
 * cannot be done. `fineness` divides the step of the quadrature: 1 is meant to be enough. */
typedef struct account_cumulant {
    double value, first, second, third, error;
} account_cumulant;

account_cumulant account_pair_cumulant(const account_pair *pair, double cut, double t, double fineness);

/*
 * account/pair_strip.c: ln of a proven bound on the error of M(t + is), |s| <= y, by that quadrature, but for roundings; INFINITY
 * where there is none. One of `enough` is not made smaller.
 */
double account_pair_log_error(const account_pair *pair, double cut, double t, double y, double fineness, double enough);

/*
 * ln M(z) of one step at Re z > 0, Im z >= 0, q < 1, for many z: the state remembers what they share and how fine the
 * last quadrature had to be.
 */
typedef struct account_moment {
    const account_pair *pair;
    double log_odds, spread; /* ln(q/(1-q)); S of account/pair.c */
    double fineness;
    int64_t points; /* evaluations of the integrand so far */
} account_moment;

void account_moment_start(const account_pair *pair, account_moment *out);

/* `scale`: about ln |M(z)|, against overflow. *error: of the result, INFINITY if it cannot be had. */
double complex account_moment_log(account_moment *moment, double complex z, double scale, double *error);

/* ---- what the real and the complex quadrature share: where the integrand lives ---- */

/* The points of the trapezoid rule: x = origin + step * k, first <= k <= last; cuts are in the middle between two of them. */
typedef struct account_pair_range {
    double step, origin;
    int64_t first, last;
} account_pair_range;

/* Truncation leaves out e^-kept of the whole; more for many compositions, which multiply it. */
double account_pair_kept(const account_pair *pair);

/* Down over what is too small, e.g. the valley before a jump that does not count; gives the points in sigma/4. */
int64_t account_pair_shorten(const account_pair *pair, double cut, double t, account_pair_range *range);

/* For Re z = t; false if the range is too long. Its upper end is generous: a caller may come down from it. */
int account_pair_find_range(const account_pair *pair, double cut, double t, double fineness, account_pair_range *out);

#endif
