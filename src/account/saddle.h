/* SPDX-License-Identifier: Apache-2.0 */
/* Saddle points show where to look for an answer, and at which order. No certified result depends on them. */
#ifndef DPMF_ACCOUNT_SADDLE_H
#define DPMF_ACCOUNT_SADDLE_H

#include "account/pair.h"

/* ---- of any loss, by its cumulants ---- */

/* k[0..2]: K(t) = ln E[e^(tL)] of all steps together, and its first two derivatives. */
typedef void saddle_cumulants(const void *of, double t, double k[3]);

typedef struct saddle_point {
    double order, epsilon, log_delta;
} saddle_point;

/* The saddle point of epsilon, or where that is negative of e^log_delta, of an order up to order_max. */
saddle_point saddle_find(saddle_cumulants *cumulants, const void *of, double epsilon, double log_delta,
                         double order_max);

/* ---- of one pair, by a trapezoid rule on nodes that serve for all orders ---- */

typedef struct saddle_nodes {
    double n;
    int64_t count;
    double *log_weight, *loss; /* one allocation, which log_weight owns */
    double z_high;             /* where the upper losses are cut off */
} saddle_nodes;

/* P without the upper losses that have e^log_cut of it, cut before any composition: at a high order they would outweigh all. */
DPMF_MUST_CHECK dpmf_status saddle_nodes_create(const pair_constants *p, double log_cut, saddle_nodes *out);
void saddle_nodes_free(saddle_nodes *nodes);
/* k[0..2] of one step. */
void saddle_nodes_step(const saddle_nodes *nodes, double t, double k[3]);
/* The saddle point of epsilon, at any order. */
saddle_point saddle_nodes_find(const saddle_nodes *nodes, double epsilon);
/* The epsilon >= 0 whose saddle-point delta is e^log_delta. */
double saddle_nodes_epsilon(const saddle_nodes *nodes, double log_delta);

/* The answer by the saddle point, or about it: at the cost of a few sums, and smooth. sigma from 0.01 up. */
DPMF_MUST_CHECK dpmf_status saddle_guess(const account_pair *pair, const account_question *q, double *value);

/* ---- of one pair, by the quadrature of account/pair.c, where rare outcomes may be apart ---- */

/* g(z) = n ln M(z) - z epsilon - ln z - ln(z+1) at its least on the real line: where, and its derivatives. */
typedef struct account_saddle {
    double t, epsilon;
    double value, second, third; /* g, g'', g''' at t */
    double scale;                /* ln M(t) */
} account_saddle;

/* False where no saddle can be found. cut: of account/pair.h. */
int saddle_at_epsilon(const account_pair *pair, double cut, double epsilon, account_saddle *out);
/* The saddle whose own approximation of delta is e^log_delta; its epsilon may be negative. */
int saddle_at_delta(const account_pair *pair, double log_delta, account_saddle *out);
/* Another abscissa on the same contour; value, scale follow. */
int saddle_move(const account_pair *pair, double t, account_saddle *saddle);

#endif
