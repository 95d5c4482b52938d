/* SPDX-License-Identifier: Apache-2.0 */
/* The proven line integral, piece by piece. account/line/line.c says how they fit together and why the result is a bound. */
#ifndef DPMF_ACCOUNT_LINE_H
#define DPMF_ACCOUNT_LINE_H

#include "account/pair.h"

/* ---- account/line/decay.c: how fast M(t + iy) falls with y, proven ---- */

enum { DPMF_I_ACCOUNT_LINE_CELLS = 512 };

/* Intervals of the loss of one step and what a uniform distribution on each takes of the tilted one, from below. */
typedef struct dpmf_i_account_line_decay {
    int families, ends[8];                      /* family i, cells of one width: from ends[i-1] to ends[i] */
    double width[DPMF_I_ACCOUNT_LINE_CELLS], mass[DPMF_I_ACCOUNT_LINE_CELLS];
} dpmf_i_account_line_decay;

/* log_moment: an upper bound of ln M(t). */
void dpmf_i_account_line_decay_fill(const dpmf_i_account_pair *pair, double t, double log_moment,
                                    dpmf_i_account_line_decay *out);
/* A lower bound of 1 - |M(t + iv)| / M(t) for every v >= y. */
double dpmf_i_account_line_decay_from(const dpmf_i_account_line_decay *decay, double y);

/* ---- account/line/rule.c: M(t + iy)/M(t) by one quadrature for all y, with a proven error ---- */

typedef struct dpmf_i_account_line_rule {
    int64_t count;
    double *phase;             /* b over y at the points; owns the memory of all four */
    double *whole, *more, *weight; /* W, w (e^a - 1), w */
    double imaginary;          /* what y times this is added to the imaginary part */
    double moment;             /* M(t), over e^shift where that is in the weights */
    int shifted;
    double log_moment_high, log_moment_low; /* ln M(t) */
    double error[3], relative; /* M(t + iy)/M(t) is off by error[0] + error[1] y + error[2] y^2, and so much of itself less 1 */
} dpmf_i_account_line_rule;

/* For 0 <= y <= y_max. *out has no points, and there is nothing to free, where the quadrature cannot be had or be proven. */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_line_rule_create(const dpmf_i_account_pair *pair, double t, double y_max,
                                                            int64_t points_max, dpmf_i_account_line_rule *out);
void dpmf_i_account_line_rule_free(dpmf_i_account_line_rule *rule);
/* M(t + iy)/M(t) - 1, and a bound on the error of it. */
double complex dpmf_i_account_line_rule_at(const dpmf_i_account_line_rule *rule, double y, double *error);

#endif
