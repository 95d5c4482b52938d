/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random allocation: each unit takes part in exactly one of t steps of independent noise, chosen at random. This header
 * has what the files share; account/allocation/allocation.c explains how they fit together.
 */
#ifndef DPMF_ACCOUNT_ALLOCATION_H
#define DPMF_ACCOUNT_ALLOCATION_H

#include "account/grid/grid.h"

/* ---- account/allocation/law.c: one likelihood ratio U on a linear grid ---- */

/* U = exp(Z/sigma - 1/(2 sigma^2)), Z normal, below c = cells x step; masses at offset + i step, i < count. */
typedef struct allocation_law {
    double sigma, step, cut;
    double big, big_mean; /* P[U > c] and E[U; U > c], from above (of the lower law, from below) */
    double big_least;     /* P[U > c] from below */
    double offset;        /* 0, but for the lower law */
    int64_t count;
    double *mass; /* owned */
} allocation_law;

typedef enum allocation_side {
    ALLOCATION_UPPER = 0,   /* more spread: any convex payoff that is not negative has at least its mean */
    ALLOCATION_LOWER_CALLS, /* less spread and less: for payoffs that rise */
    ALLOCATION_LOWER_PUTS   /* less spread and more: for payoffs that fall */
} allocation_side;

DPMF_MUST_CHECK dpmf_status allocation_law_create(double sigma, double step, int64_t cells, allocation_side side,
                                                  allocation_law *out);
void allocation_law_free(allocation_law *law);
/* E[(U - k)_+; U > c], from above. */
double allocation_call(const allocation_law *law, double k);

/* ---- account/allocation/measure.c: a measure on a linear grid, from above in convex order ---- */

typedef struct allocation_measure {
    double step;
    int64_t first, count; /* masses at (first + i) step, first >= 0 */
    double *mass;         /* owned */
    double total, mean;   /* of all of it, from above */
    double cut, cut_mean; /* mass and mean of what is not on the grid, from above */
    double error;         /* the masses may be too small by that part of themselves */
} allocation_measure;

/* account/allocation/law.c: U - shift where low < U <= high, as such a measure, whose total and mean are not set. */
DPMF_MUST_CHECK dpmf_status allocation_piece(double sigma, double low, double high, double shift, double step,
                                             allocation_measure *out);

/* ---- account/allocation/measure.c: the sum of all of them, on grids of several scales ---- */

typedef struct allocation_scales {
    double sigma, least; /* as it was made: near where the curve is above `least` */
    int64_t bins;
    int count;                 /* 0: not made */
    allocation_measure *parts; /* owned; the law is the sum of weights[i] parts[i] */
    double *weights;           /* owned */
    double beyond;             /* to be added to the curve of removing */
} allocation_scales;

/* count stays 0 where the law is of no use: with too many bins or too small a sigma. */
DPMF_MUST_CHECK dpmf_status allocation_scales_create(double sigma, int64_t bins, double least, double fineness,
                                                     const dpmf_run *run, allocation_scales *out);
void allocation_scales_free(allocation_scales *scales);
/* The curve at e^(i step), i < count, from above. */
void allocation_scales_curve(const allocation_scales *scales, int add, int64_t count, double step, double *out);

/* ---- account/allocation/law.c: the sum of several of them, tilted, on a window ---- */

/*
 * The mass of the sum at s = (first + k) h + copies x offset is at most (number[k] + noise) e^(log_moment - order s'), s' =
 * (first + k) h, and at least as much less noise and what is wrapped. Outside, for a payoff f, by Chernoff's bound:
 * sum_{s' >= top} f <= e^up_log sup f e^(-up_rate s'), and the same below the window with down.
 */
typedef struct allocation_sum {
    int64_t length, first, copies;
    double step, order, log_moment, noise;
    double up_rate, up_log, down_rate, down_log;
    double wrapped; /* a bound of the tilted mass outside the window */
    double *number; /* owned: in order */
} allocation_sum;

/* The window holds what the tilted sum reaches, and goes up to `reach` at least where that is not far. */
DPMF_MUST_CHECK dpmf_status allocation_sum_create(const allocation_law *law, int64_t copies, double order, double reach,
                                                  const dpmf_run *run, allocation_sum *out);
void allocation_sum_free(allocation_sum *sum);
/* ln sum_i mass_i e^(order i h), from above. */
double allocation_log_moment(const allocation_law *law, double order);
/* The order at which the tilted mean of one of them is `mean`, roughly, within [low, high]. */
DPMF_MUST_CHECK dpmf_status allocation_order(const allocation_law *law, double mean, double low, double high,
                                             double *order);

/* The order, up to `order`, for a sum beside one U that is big, where both together come to `target`. */
DPMF_MUST_CHECK dpmf_status allocation_beside(const allocation_law *law, double copies, double target, double order,
                                              double *out);

/* ---- account/allocation/curve.c: the two curves ---- */

/* delta is needed down to `least`, and the grid's step is `fineness` standard deviations of U. */
typedef struct allocation_scheme {
    double sigma;
    int64_t bins; /* t >= 2 */
    double least, fineness;
    int lower; /* bounds from below instead */
} allocation_scheme;

/* Bounds at rising e^epsilons[i], M the mean of the U: E[M - e^epsilon]_+ for removing, E[1 - e^epsilon M]_+ for adding. */
DPMF_MUST_CHECK dpmf_status allocation_curve(const allocation_scheme *scheme, int add, int64_t count,
                                             const double *epsilons, const dpmf_run *run, double *out);

/* ---- account/allocation/allocation.c: the answer ---- */

/* Value and met, both directions: `compositions` times `picks` of `bins` steps, freshly chosen each time; 1 <= picks < bins. */
DPMF_MUST_CHECK dpmf_status allocation_answer(const account_question *q, account_answer *out);

/* ---- account/allocation/allocation.c: several picks and several epochs, as a list ---- */

enum { ALLOCATION_PARTS = 2 };

/* Its parts, which borrow the numbers held here: not to be moved. */
typedef struct allocation_block {
    allocation_scheme scheme;
    allocation_scales *scales; /* made when it is first needed, and kept */
} allocation_block;

typedef struct allocation_blocks {
    int count;
    allocation_block blocks[ALLOCATION_PARTS];
    allocation_scales *scales; /* owned: one for each block */
    grid_part parts[ALLOCATION_PARTS];
} allocation_blocks;

DPMF_MUST_CHECK dpmf_status allocation_blocks_create(const account_question *q, allocation_blocks *out);
void allocation_blocks_free(allocation_blocks *blocks);

#endif
