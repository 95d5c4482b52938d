/* SPDX-License-Identifier: Apache-2.0 */
/* Quadrature for the inverse square root: sum_j w_j / (x + s_j) = x^(-1/2) (1 + e) on [low, high]. */
#ifndef DPMF_BASE_QUADRATURE_H
#define DPMF_BASE_QUADRATURE_H

#include "base/status.h"

enum { BASE_NODES_MAX = 128 };

typedef struct base_quadrature {
    int count;
    double shift[BASE_NODES_MAX], weight[BASE_NODES_MAX];
    double error; /* a bound on |e| over [low, high] */
} base_quadrature;

/*
 * The number of nodes for which `error` is at most `tolerance` (4e-14 if that is less) at this ratio high/low; at most
 * BASE_NODES_MAX.
 */
int base_quadrature_nodes(double ratio, double tolerance);

/* 0 < low <= high, both finite; 1 <= count <= BASE_NODES_MAX. */
void base_quadrature_fill(double low, double high, int count, base_quadrature *out);

#endif
