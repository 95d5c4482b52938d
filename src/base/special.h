/* SPDX-License-Identifier: Apache-2.0 */
/* Special functions near full precision, in logs where values would underflow; quadrature for x^(-1/2); binomial tails. */
#ifndef DPMF_BASE_SPECIAL_H
#define DPMF_BASE_SPECIAL_H

#include <stdint.h>

double base_normal_cdf(double x);        /* Phi(x); relative accuracy in the lower tail */
double base_log_normal_cdf(double x);    /* ln Phi(x), for x down to -1e150 */
double base_log_add(double a, double b); /* ln(e^a + e^b) */
double base_log_sub(double a, double b); /* ln(e^a - e^b), a >= b; -inf when equal */
double base_agm(double a, double b);     /* arithmetic-geometric mean, a, b > 0 */

/* Quadrature for the inverse square root: sum_j w_j / (x + s_j) = x^(-1/2) (1 + e) on [low, high]. */
enum { BASE_NODES_MAX = 128 };

typedef struct base_quadrature {
    int count;
    double shift[BASE_NODES_MAX], weight[BASE_NODES_MAX];
    double error; /* a bound on |e| over [low, high] */
} base_quadrature;

/* The number of nodes, at most BASE_NODES_MAX, for an `error` of at most max(tolerance, 4e-14) at this ratio high/low. */
int base_quadrature_nodes(double ratio, double tolerance);

/* 0 < low <= high, both finite; 1 <= count <= BASE_NODES_MAX. */
void base_quadrature_fill(double low, double high, int count, base_quadrature *out);

/* X ~ Binomial(n, p), n >= 1, 0 <= p <= 1. Relative error about 1e-13 for the tail below 1/2; any k. */
double base_binomial_at_most(int64_t k, int64_t n, double p);  /* Pr[X <= k] */
double base_binomial_at_least(int64_t k, int64_t n, double p); /* Pr[X >= k] */

#endif
