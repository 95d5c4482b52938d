/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connect the dots: what its files share. account/grid/grid.c says how they fit together and why the result is a bound.
 */
#ifndef DPMF_ACCOUNT_GRID_H
#define DPMF_ACCOUNT_GRID_H

#include "account/account.h"

static const double GRID_ROUNDING = 0x1p-53; /* u: the relative error of one operation */

/* ---- account/grid/pair.c: the one-step pair, as functions of the point z that is observed ---- */

typedef struct grid_pair {
    account_direction direction;
    int sign; /* the loss rises (1) or falls (-1) with z */
    double sigma, inverse_variance;
    double q, log_q, log_rest; /* ln q, ln(1-q): -inf at q = 1 */
    double n, log_n;
    double edge_error; /* c: the loss at inverse(x) is within c u |x| of x, but for the rounding of z */
} grid_pair;

grid_pair grid_pair_from(const account_pair *pair);
double grid_loss(const grid_pair *p, double z);      /* ln dP/dQ */
double grid_log_ratio(const grid_pair *p, double z); /* ln dP/dN(0, sigma^2) */
/* The z of a loss x that is taken; else -inf or inf, the end where the loss tends to its bound. */
double grid_inverse(const grid_pair *p, double x);
/* ln P[loss > loss(z)]; ln P[loss < loss(z)]. */
double grid_log_above(const grid_pair *p, double z);
double grid_log_below(const grid_pair *p, double z);
/* A z as far out as any cut goes, towards the upper or the lower losses. */
double grid_far(const grid_pair *p, int upper);
/* The z of the least loss from the middle on above which P has at most e^log_mass, or the end of the above. */
double grid_cut(const grid_pair *p, double log_mass);

/* ---- account/grid/profile.c: cumulants of the loss and saddle points, for choices only: nothing rests on them ---- */

typedef struct grid_profile {
    int64_t count;
    double *log_weight, *loss; /* one allocation, which log_weight owns */
    double z_high;             /* where the upper losses are cut off */
} grid_profile;

/*
 * P as it is once the upper losses that have e^log_cut of it are cut off, as they are before any composition: at a high
 * order they would outweigh everything.
 */
DPMF_MUST_CHECK dpmf_status grid_profile_create(const grid_pair *p, double log_cut, grid_profile *out);
void grid_profile_free(grid_profile *profile);
/* k[0..2]: ln E[e^(tL)] of one step under P, and its first two derivatives. */
void grid_cumulants(const grid_profile *profile, double t, double k[3]);
/* The saddle point t > 0 of e^(n K(t) - t epsilon) / (t (1+t)), and the logarithm of its delta. */
double grid_saddle(const grid_pair *p, const grid_profile *profile, double epsilon, double *log_delta);
/* The epsilon >= 0 whose saddle-point delta is e^log_delta. */
double grid_guess(const grid_pair *p, const grid_profile *profile, double log_delta);

/* ---- account/grid/plan.c: order, step, length, truncation ---- */

enum { GRID_LENGTH_MAX = 1 << 22, GRID_BINS_MAX = 1 << 23 };

typedef struct grid_plan {
    double epsilon;           /* what it was made for */
    double order, log_moment; /* t, and about ln E[e^(tL)] */
    double step;              /* h */
    int64_t length, first;    /* N; the window is the losses (first + k) h, k < N */
    double wrap_order;        /* s >= 0: the mass above the window is bounded at the order t + s */
    double z_low, z_high;     /* where the range of losses is cut: at its lower and at its upper end */
    double log_infinite;      /* a bound of ln of the mass of infinite loss */
    double tolerance;         /* the relative error of delta that the slack allows */
    double predicted;         /* of epsilon: the error of the discretisation */
} grid_plan;

/*
 * About epsilon, or, if that is negative, about the epsilon where delta is e^log_delta by the saddle point. The slack
 * is max(relative epsilon, absolute); step_max is 0 or what the step may not pass.
 */
DPMF_MUST_CHECK dpmf_status grid_plan_make(const grid_pair *p, double epsilon, double log_delta, double relative,
                                           double absolute, double step_max, grid_plan *out);
/* ln delta(epsilon) by the saddle point, or about it. */
DPMF_MUST_CHECK dpmf_status grid_plan_log_delta(const grid_pair *p, double epsilon, double *log_delta);

/* ---- account/grid/densities.c: the discretised pair, tilted ---- */

typedef struct grid_moments {
    double log_moment; /* atom i of P has at most weight_i e^(log_moment - t i h) */
    double log_wrap;   /* ln sum_i weight_i e^(s i h), from above */
    double log_sum;    /* ln sum_i weight_i, from above: nearly 0 */
} grid_moments;

/* weights[i mod N], of N numbers that are zero at first: the tilted atoms, of sum 1 or little more. */
DPMF_MUST_CHECK dpmf_status grid_atoms(const grid_pair *p, const grid_plan *plan, const dpmf_run *run, double *weights,
                                       grid_moments *out);

/* ---- account/grid/power.c: w, N probabilities, to those of the n-fold sum modulo N, each within *noise ---- */

DPMF_MUST_CHECK dpmf_status grid_power(int64_t length, double n, double *w, const dpmf_run *run, double *noise);

/* ---- account/grid/compose.c: the composed pair on the window ---- */

/* delta(x) <= e^(log_moment - t x) tails[k] + e^log_rest at the loss x = (first + k) h */
typedef struct grid_curve {
    int64_t length, first;
    double step, order;
    double log_moment; /* of n steps, rounded up */
    double log_rest;   /* what was cut off: infinite losses, and losses above the window */
    double noise;      /* the bound of rounding errors that is in every number of the window */
    double *tails;     /* owned */
} grid_curve;

DPMF_MUST_CHECK dpmf_status grid_compose(const grid_pair *p, const grid_plan *plan, const dpmf_run *run,
                                         grid_curve *out);
void grid_curve_free(grid_curve *curve);
/* Its tails from the numbers o[i mod N] of the window, each raised by `noise`. */
void grid_curve_fill(grid_curve *curve, const double *o);
/* Of delta(epsilon) = e^log_delta, a point in the window: how it looks there, for estimates of its error. */
typedef struct grid_shape {
    double slope;      /* -delta'/delta */
    double bend;       /* -delta''/delta' */
    double noise, cut; /* the parts of delta that rounding, and what was cut off, make up */
} grid_shape;
grid_shape grid_curve_shape(const grid_curve *curve, double epsilon, double log_delta);
/* A bound of ln delta(epsilon); inf below the window (above, the value at its last loss). */
double grid_curve_log_delta(const grid_curve *curve, double epsilon);
/*
 * The least epsilon in the window where the bound is at most e^log_delta. *side: 0 found; -1 it is at most the first
 * loss of the window, which is returned; 1 there is none, and INFINITY is returned.
 */
double grid_curve_epsilon(const grid_curve *curve, double log_delta, int *side);

#endif
