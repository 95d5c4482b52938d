/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The terms of the Fourier sum. account/fourier/fourier.c explains how they are used and why the result is a bound.
 */
#ifndef DPMF_ACCOUNT_FOURIER_H
#define DPMF_ACCOUNT_FOURIER_H

#include "account/pair.h"

/* ---- account/fourier/rule.c: how fast the terms fall ---- */

enum { FOURIER_CELLS = 512 };

/* Intervals of the loss of one step and what a uniform distribution on each takes of the tilted one, from below. */
typedef struct fourier_decay {
    int families, ends[8]; /* family i, cells of one width: from ends[i-1] to ends[i] */
    double width[FOURIER_CELLS], mass[FOURIER_CELLS];
} fourier_decay;

/* log_moment: an upper bound of ln M(t). cut: of account/pair.h. */
void fourier_decay_fill(const account_pair *pair, double cut, double t, double log_moment, fourier_decay *out);
/* A lower bound of 1 - |M(t + iv)| / M(t) for every v >= y. */
double fourier_decay_from(const fourier_decay *decay, double y);

/* ---- M(t + iy)/M(t) by one quadrature for equally spaced y, with a proven error ---- */

typedef struct fourier_rule {
    double spacing; /* h: y = 0, h, 2h, ..., below nodes h */
    int64_t nodes, at, count;
    double *phase;                                   /* b over y at the points; owns the memory of all of these */
    double *whole, *more, *weight;                   /* W, w (e^a - 1), w */
    double *sine, *cosine, *step_sine, *step_cosine; /* of b/2, and of what one step of y adds to it */
    double imaginary;                                /* y times this is added to the imaginary part */
    double moment;                                   /* M(t), over e^shift where that is in the weights */
    double log_moment_high, log_moment_low;          /* ln M(t) */
    double error[3],
        relative; /* the values are off by error[0] + error[1] y + error[2] y^2, and by a part of themselves */
} fourier_rule;

/* *out has no points (phase NULL), and there is nothing to free, where the quadrature is not possible or not proven. */
DPMF_MUST_CHECK dpmf_status fourier_rule_create(const account_pair *pair, double cut, double t, double spacing,
                                                int64_t nodes, int64_t points_max, double log_off, fourier_rule *out);
/* About how many points it will have; INT64_MAX: it is not possible. */
int64_t fourier_rule_points(const account_pair *pair, double cut, double t, double y_max);
/* ln of what it may be off by, per step, for a part `tolerance` of the whole. */
double fourier_rule_off(const account_pair *pair, double tolerance);
void fourier_rule_free(fourier_rule *rule);
/* M(t + iy)/M(t) - 1 at the next y, from 0 on, and a bound on the error of it. */
double complex fourier_rule_next(fourier_rule *rule, double *error);

#endif
