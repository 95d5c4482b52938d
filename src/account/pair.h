/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of the subsampled Gaussian mechanism as a pair of distributions: its loss L at a point, and M(t) = E_P[e^(tL)],
 * the moment generating function of the loss under P, with a proven error.
 */
#ifndef DPMF_ACCOUNT_PAIR_H
#define DPMF_ACCOUNT_PAIR_H

#include "account/account.h"

#include <complex.h>

/* x + iy; as CMPLX, which not every compiler has. The two arrays have the same layout (C17 6.2.5, 13). */
double complex pair_complex(double x, double y);

double pair_excess(double u); /* e^u - 1 - u without cancellation */

DPMF_MUST_CHECK dpmf_status pair_check(const account_pair *pair);

/* ln(1 - q + q e^((2x-1)/(2 sigma^2))): the log ratio of M(1) to N(0, sigma^2) at x. */
double pair_log_ratio(const account_pair *pair, double x);
/* sup of L(x) = ln dP/dQ: -ln(1-q) for the add direction, INFINITY otherwise. */
double pair_loss_limit(const account_pair *pair);

/*
 * Rare outcomes set apart: those above `cut`, for replace also those below -cut, count as a loss of infinity, and M means the mean
 * of e^(zL) over the others. Their mass is added to delta, n-fold. INFINITY: nothing is apart.
 */
int pair_is_apart(const account_pair *pair, double cut, double x);
double pair_log_apart(const account_pair *pair, double cut); /* ln of their mass under P */

/* ln M(t) of one step at a real t > 0, with derivatives; error: of `value`, from rounding and truncation. INFINITY: it
 * cannot be done. `fineness` divides the step of the quadrature: 1 is meant to be enough. */
typedef struct account_cumulant {
    double value, first, second, third, error;
} account_cumulant;

account_cumulant pair_cumulant(const account_pair *pair, double cut, double t, double fineness);

/* ln of a proven error bound of that quadrature for M(t + is), |s| <= y, roundings apart (INFINITY: none); at best `enough`. */
double pair_log_error(const account_pair *pair, double cut, double t, double y, double fineness, double enough);

/* ---- what the real and the complex quadrature share: where the integrand lives ---- */

/* The points of the trapezoid rule: x = origin + step * k, first <= k <= last; cuts are in the middle between two of them. */
typedef struct pair_range {
    double step, origin;
    int64_t first, last;
} pair_range;

/* Truncation leaves out e^-kept of the whole; more for many compositions, which multiply it. */
double pair_kept(const account_pair *pair);

/* Down over what is too small, e.g. the valley before a jump that does not count; gives the points in sigma/4. */
int64_t pair_shorten(const account_pair *pair, double cut, double t, pair_range *range);

/* For Re z = t; false if the range is too long. Its upper end is generous: a caller may come down from it. */
int pair_find_range(const account_pair *pair, double cut, double t, double fineness, pair_range *out);

/* ---- the loss as a function of the point z that is observed ---- */

typedef struct pair_constants {
    account_direction direction;
    int sign; /* the loss rises (1) or falls (-1) with z */
    double sigma, inverse_variance;
    double q, log_q, log_rest; /* ln q, ln(1-q): -inf at q = 1 */
    double n, log_n;
    double edge_error; /* c: the loss at inverse(x) is within c u |x| of x, but for the rounding of z */
} pair_constants;

pair_constants pair_prepare(const account_pair *pair);
double pair_loss(const pair_constants *p, double z);       /* ln dP/dQ */
double pair_log_weight(const pair_constants *p, double z); /* ln dP/dN(0, sigma^2) */
/* The z of a loss x that is taken; else -inf or inf, the end where the loss tends to its bound. */
double pair_inverse(const pair_constants *p, double x);
/* ln P[loss > loss(z)]; ln P[loss < loss(z)]. */
double pair_log_above(const pair_constants *p, double z);
double pair_log_below(const pair_constants *p, double z);
/* A z as far out as any cut goes, towards the upper or the lower losses. */
double pair_far(const pair_constants *p, int upper);
/* The z of the least loss from the middle on above which P has at most e^log_mass, or the end of the above. */
double pair_cut(const pair_constants *p, double log_mass);

#endif
