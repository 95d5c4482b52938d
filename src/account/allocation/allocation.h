/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocation: each unit takes part in exactly one of t steps of independent noise, chosen at random. What the files
 * share. account/allocation/allocation.c says how they fit together.
 */
#ifndef DPMF_ACCOUNT_ALLOCATION_H
#define DPMF_ACCOUNT_ALLOCATION_H

#include "account/product/product.h"

/* ---- account/allocation/law.c: one likelihood ratio U on a linear grid ---- */

/* U = exp(Z/sigma - 1/(2 sigma^2)), Z normal, below c = cells x step; masses at offset + i step, i < count. */
typedef struct dpmf_i_account_allocation_law {
    double sigma, step, cut;
    double big, big_mean; /* P[U > c] and E[U; U > c], from above (of the lower law, from below) */
    double offset;        /* 0, but for the lower law */
    int64_t count;
    double *mass; /* owned */
} dpmf_i_account_allocation_law;

typedef enum dpmf_i_account_allocation_side {
    DPMF_I_ACCOUNT_ALLOCATION_UPPER = 0, /* more spread: any convex payoff that is not negative has at least its mean */
    DPMF_I_ACCOUNT_ALLOCATION_LOWER_CALLS, /* less spread and less: for payoffs that rise */
    DPMF_I_ACCOUNT_ALLOCATION_LOWER_PUTS   /* less spread and more: for payoffs that fall */
} dpmf_i_account_allocation_side;

DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_law_create(double sigma, double step, int64_t cells,
                                                                 dpmf_i_account_allocation_side side,
                                                                 dpmf_i_account_allocation_law *out);
void dpmf_i_account_allocation_law_free(dpmf_i_account_allocation_law *law);
/* E[(U - k)_+; U > c], from above. */
double dpmf_i_account_allocation_call(const dpmf_i_account_allocation_law *law, double k);

/* ---- account/allocation/sum.c: the sum of so many of them, tilted, on a window ---- */

/*
 * The mass of the sum at s = (first + k) h + copies x offset is at most (number[k] + noise) e^(log_moment - order s'), s' =
 * (first + k) h, and at least as much less noise and what is wrapped. Outside, for a payoff f, by Chernoff's bound:
 * sum_{s' >= top} f <= e^up_log sup f e^(-up_rate s'), and the same below the window with down.
 */
typedef struct dpmf_i_account_allocation_sum {
    int64_t length, first, copies;
    double step, order, log_moment, noise;
    double up_rate, up_log, down_rate, down_log;
    double wrapped; /* a bound of the tilted mass outside the window */
    double *number; /* owned: in order */
} dpmf_i_account_allocation_sum;

/* The window holds what the tilted sum reaches, and goes up to `reach` at least where that is not far. */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_sum_create(const dpmf_i_account_allocation_law *law,
                                                                 int64_t copies, double order, double reach,
                                                                 const dpmf_run *run,
                                                                 dpmf_i_account_allocation_sum *out);
void dpmf_i_account_allocation_sum_free(dpmf_i_account_allocation_sum *sum);
/* ln sum_i mass_i e^(order i h), from above. */
double dpmf_i_account_allocation_log_moment(const dpmf_i_account_allocation_law *law, double order);
/* The order at which the tilted mean of one of them is `mean`, roughly, within [low, high]. */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_order(const dpmf_i_account_allocation_law *law, double mean,
                                                            double low, double high, double *order);

/* The order, up to `order`, for a sum beside one U that is big, where both together come to `target`. */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_beside(const dpmf_i_account_allocation_law *law, double copies,
                                                             double target, double order, double *out);

/* ---- account/allocation/curve.c: the two curves ---- */

/* delta is to be told down to `least`, and the grid's step is `fineness` standard deviations of U. */
typedef struct dpmf_i_account_allocation_scheme {
    double sigma;
    int64_t bins; /* t >= 2 */
    double least, fineness;
    int lower; /* bounds from below instead */
} dpmf_i_account_allocation_scheme;

/*
 * Bounds of the curves at e^epsilons[i], which rise: E[(U_1 + ... + U_t)/t - e^epsilon]_+ for removing a unit, E[1 -
 * e^epsilon (U_1 + ... + U_t)/t]_+ for adding one.
 */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_curve(const dpmf_i_account_allocation_scheme *scheme, int add,
                                                            int64_t count, const double *epsilons, const dpmf_run *run,
                                                            double *out);

/* ---- account/allocation/allocation.c: questions ---- */

/* `epochs` times `picks` of `bins` steps, chosen afresh each time, in both directions; 1 <= picks < bins. */
typedef struct dpmf_i_account_allocation {
    double sigma;
    int64_t picks, bins, epochs;
    double relative, absolute;
    const dpmf_run *run;
} dpmf_i_account_allocation;

DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_epsilon(const dpmf_i_account_allocation *a, double log_delta,
                                                              double *epsilon, int *met);
DPMF_MUST_CHECK dpmf_status dpmf_i_account_allocation_log_delta(const dpmf_i_account_allocation *a, double epsilon,
                                                                double *log_delta, int *met);

/* ---- account/allocation/blocks.c: several picks and several epochs, as a list ---- */

enum { DPMF_I_ACCOUNT_ALLOCATION_PARTS = 2 };

/* Its parts, which borrow the numbers held here. */
typedef struct dpmf_i_account_allocation_blocks {
    int count;
    dpmf_i_account_allocation_scheme schemes[DPMF_I_ACCOUNT_ALLOCATION_PARTS];
    dpmf_i_account_product_part parts[DPMF_I_ACCOUNT_ALLOCATION_PARTS];
} dpmf_i_account_allocation_blocks;

void dpmf_i_account_allocation_blocks_make(const dpmf_i_account_allocation *a, dpmf_i_account_allocation_blocks *out);

#endif
