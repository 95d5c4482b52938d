/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Composition of different pairs of distributions, each known by its curve: what the files share. account/grid/product.c
 * says how they fit together and why the result is a bound.
 */
#ifndef DPMF_ACCOUNT_GRID_PRODUCT_H
#define DPMF_ACCOUNT_GRID_PRODUCT_H

#include "account/grid/grid.h"

/*
 * A pair (P, Q) by its curve h(a) = E_P[(1 - a e^-L)_+], L = ln dP/dQ, and by that of (Q, P), each for a >= 1: together
 * they are the whole curve, as h(a) = 1 - a + a h'(1/a) below 1, h' the curve of (Q, P).
 */
typedef struct grid_part {
    const void *of;
    /*
     * out[i] >= h(e^(i step)), i < count, of (P, Q), or of (Q, P) when `reversed`: proven, and near as far as the curve is
     * above `mass`
     */
    dpmf_status (*fill)(const void *of, int reversed, int64_t count, double step, double mass, const dpmf_run *run,
                        double *out);
    /* About the loss where the curve has fallen to `mass`; any number will do for a bound. */
    double (*reach)(const void *of, int reversed, double mass);
    int64_t times;
} grid_part;

typedef struct grid_list_options {
    double relative, absolute; /* the wanted slack in epsilon */
    const dpmf_run *run;
} grid_list_options;

/*
 * The list composed, in the direction (P, Q), or (Q, P) for all of them when `reversed`. An upper bound in any case,
 * INFINITY (of epsilon) or 0 (of ln delta) at worst.
 */
DPMF_MUST_CHECK dpmf_status grid_list_epsilon(int count, const grid_part *parts, int reversed, double log_delta,
                                              const grid_list_options *options, double *epsilon, int *met);
DPMF_MUST_CHECK dpmf_status grid_list_log_delta(int count, const grid_part *parts, int reversed, double epsilon,
                                                const grid_list_options *options, double *log_delta, int *met);

/* ---- account/grid/hull.c: a part on a grid ---- */

typedef struct hull_atoms {
    int64_t first, count; /* atom i at the loss (first + i) step */
    double *mass;         /* owned */
    double infinite;      /* the mass of infinite loss */
    double times;
} hull_atoms;

/* `mass`: of either tail that may be cut off. */
DPMF_MUST_CHECK dpmf_status hull_atoms_create(const grid_part *part, int reversed, double step, double mass,
                                              const dpmf_run *run, hull_atoms *out);
void hull_atoms_free(hull_atoms *atoms);

/* ---- account/grid/grid_list_plan.c: order, window; any choice gives a bound ---- */

typedef struct grid_list {
    int count;
    double step;
    hull_atoms *atoms; /* owned, as are their masses */
} grid_list;

typedef struct grid_list_plan {
    double epsilon, log_delta; /* by the saddle point */
    double order, deviation;
    int64_t length, first;
    double wrap_order;
} grid_list_plan;

/* About epsilon, or where it is negative about that of log_delta. */
DPMF_MUST_CHECK dpmf_status grid_list_plan_make(const grid_list *list, double epsilon, double log_delta,
                                                double order_max, grid_list_plan *out);

/* ---- account/grid/spectrum.c: the composed list on the window of the plan ---- */

DPMF_MUST_CHECK dpmf_status grid_list_compose(const grid_list *list, const grid_list_plan *plan, const dpmf_run *run,
                                              grid_curve *out);

#endif
