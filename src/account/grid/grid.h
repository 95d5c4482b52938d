/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composition on a grid of losses: declarations that its files share. account/grid/grid.c explains how they fit
 * together and why the result is a bound.
 */
#ifndef DPMF_ACCOUNT_GRID_H
#define DPMF_ACCOUNT_GRID_H

#include "account/pair.h"
#include "base/fft.h"

static const double GRID_ROUNDING = 0x1p-53; /* u: the relative error of one operation */

/* ---- what is composed ---- */

/* A pair by h(a) = E_P[(1 - a e^-L)_+], L = ln dP/dQ, a >= 1, and h' of (Q, P): below 1, h(a) = 1 - a + a h'(1/a). */
typedef struct grid_part {
    const void *of;
    /* out[i] >= h(e^(i step)), i < count, of (P, Q), or (Q, P) when `reversed`: proven, and near while h is above `mass` */
    dpmf_status (*fill)(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out);
    /* About the loss where the curve has fallen to `mass`; any number will do for a bound. */
    double (*reach)(const void *of, int reversed, double mass);
    int64_t times;
} grid_part;

/* One pair by densities, `compositions` times; or, pair NULL, a list by curves, all as (P, Q), or (Q, P) if `reversed`. */
typedef struct grid_source {
    const account_pair *pair;
    int count, reversed;
    const grid_part *parts;
    double
        step_max; /* of a list, not 0: the largest step of its grid, where few losses make the curve bend within wider ones */
    double enough; /* of a list, not 0: a delta whose logarithm is below this needs no closer bound */
} grid_source;

/* Value and met of *out: an upper bound in any case, INFINITY (of epsilon) or 0 (of ln delta) at worst. */
DPMF_MUST_CHECK dpmf_status grid_answer(const grid_source *source, const account_question *q, account_answer *out);

/*
 * The whole curve of a list: log_delta[i] is at least ln delta(i step), i < count, and near it while that is above the last one's. The
 * question has the wanted slack and the run.
 */
DPMF_MUST_CHECK dpmf_status grid_sweep(const grid_source *source, const account_question *q, int64_t count, double step,
                                       double *log_delta);

/* ---- account/grid/atoms.c: curves of Gaussian and of Poisson-subsampled Gaussian pairs, as parts ---- */

/* H(a; mu), a >= 1, from above. */
double grid_hockey(double mu, double a);

typedef struct grid_gaussian {
    double mu;
} grid_gaussian;

typedef struct grid_poisson {
    double q, mu; /* 0 < q <= 1, mu = 1/sigma */
    int replace;
} grid_poisson;

/* The curves at a = 1 + less_one, from above: 0 < q <= 1. */
double grid_poisson_remove(double q, double mu, double less_one);
double grid_poisson_add(double q, double mu, double less_one);
double grid_poisson_replace(double q, double mu, double less_one);
double grid_poisson_reach(double q, double mu, int reversed, double mass);

/* The part borrows what it is given. */
grid_part grid_gaussian_part(const grid_gaussian *gaussian, int64_t times);
grid_part grid_poisson_part(const grid_poisson *poisson, int64_t times);

/* ---- account/grid/atoms.c: a part on a grid, from its curve ---- */

typedef struct grid_atoms {
    int64_t first, count; /* atom i at the loss (first + i) step */
    double *mass;         /* owned */
    double infinite;      /* the mass of infinite loss */
    double times;
} grid_atoms;

/* `mass`: of either tail that may be cut off. */
DPMF_MUST_CHECK dpmf_status grid_atoms_create(const grid_part *part, int reversed, double step, double mass,
                                              const dpmf_run *run, grid_atoms *out);
void grid_atoms_free(grid_atoms *atoms);

typedef struct grid_list {
    int count;
    double step;
    grid_atoms *atoms; /* owned, as are their masses */
} grid_list;

/* ---- account/grid/grid.c: order, step, length, truncation; any choice gives a bound ---- */

enum { GRID_LENGTH_MAX = 1 << 22, GRID_BINS_MAX = 1 << 23 };

typedef struct grid_plan {
    double epsilon;        /* what it was made for */
    double log_delta;      /* of a list: by the saddle point */
    double order;          /* t */
    double step;           /* h */
    int64_t length, first; /* N; the window is the losses (first + k) h, k < N */
    double wrap_order;     /* s >= 0: the mass above the window is bounded at the order t + s */
    double log_infinite;   /* a bound of ln of the mass of infinite loss */
    double predicted;      /* of epsilon: the error of the discretisation */
    /* densities alone */
    double log_moment;    /* about ln E[e^(tL)] */
    double z_low, z_high; /* where the range of losses is cut: at its lower and at its upper end */
    double tolerance;     /* the relative error of delta that the slack allows */
} grid_plan;

/* ---- account/grid/atoms.c: the discretised pair, tilted ---- */

/* Of tilted atoms: x the loss, t the order, s that of the wrap. */
typedef struct grid_moments {
    double log_moment; /* an atom of P has at most weight e^(log_moment - t x) */
    double log_wrap;   /* ln sum weight e^(s x), from above */
    double log_sum;    /* ln sum weight, from above: nearly 0 */
} grid_moments;

/* weights[i mod N], of N numbers that are zero at first: the tilted atoms, of sum 1 or little more. */
DPMF_MUST_CHECK dpmf_status grid_densities(const pair_constants *p, const grid_plan *plan, const dpmf_run *run,
                                           double *weights, grid_moments *out);

/* ---- account/grid/power.c: sums of independent losses modulo N, with a bound on the rounding errors ---- */

/* w, N probabilities, to those of the n-fold sum modulo N, each within *noise. */
DPMF_MUST_CHECK dpmf_status grid_power(int64_t length, double n, double *w, const dpmf_run *run, double *noise);

/* The transform of a sum of several losses: ln of the modulus, angle, and ln of the room for errors, at N/2 + 1 frequencies. */
typedef struct grid_spectrum {
    base_fft *fft;
    double *log_modulus, *angle, *excess; /* one allocation, which log_modulus owns */
} grid_spectrum;

DPMF_MUST_CHECK dpmf_status grid_spectrum_create(int64_t length, grid_spectrum *out);
void grid_spectrum_free(grid_spectrum *spectrum);
/* Adds the loss of probabilities w, n times; w is scratch afterwards. */
void grid_spectrum_add(grid_spectrum *spectrum, double n, double *w);
/* The probabilities of the sum into w; returns the bound on the error of each. */
double grid_spectrum_sum(const grid_spectrum *spectrum, double *w);

/* ---- account/grid/power.c: the composition on the window, and its delta ---- */

/* delta(x) <= e^(log_moment - t x) tails[k] + e^log_rest at the loss x = (first + k) h */
typedef struct grid_curve {
    int64_t length, first;
    double step, order;
    double log_moment; /* of n steps, rounded up */
    double log_rest;   /* what was cut off: infinite losses, and losses above the window */
    double noise;      /* the bound of rounding errors that is in every number of the window */
    double *tails;     /* owned */
} grid_curve;

/* Of the pair p, or, where that is NULL, of the list. */
DPMF_MUST_CHECK dpmf_status grid_compose(const pair_constants *p, const grid_list *list, const grid_plan *plan,
                                         const dpmf_run *run, grid_curve *out);
void grid_curve_free(grid_curve *curve);
/* Of delta(epsilon) = e^log_delta, a point in the window: how it looks there, for estimates of its error. */
typedef struct grid_shape {
    double slope;      /* -delta'/delta */
    double bend;       /* -delta''/delta' */
    double noise, cut; /* the parts of delta that rounding, and what was cut off, make up */
} grid_shape;
grid_shape grid_curve_shape(const grid_curve *curve, double epsilon, double log_delta);
/* A bound of ln delta(epsilon); inf below the window (above, the value at its last loss). */
double grid_curve_log_delta(const grid_curve *curve, double epsilon);
/* The least epsilon where the bound is <= e^log_delta. *side: 0 found; -1 at most the first loss, returned; 1 INFINITY. */
double grid_curve_epsilon(const grid_curve *curve, double log_delta, int *side);

#endif
