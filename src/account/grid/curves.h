/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of Gaussian and of Poisson-subsampled Gaussian pairs, as parts of a list (account/grid/grid.h). */
#ifndef DPMF_ACCOUNT_GRID_CURVES_H
#define DPMF_ACCOUNT_GRID_CURVES_H

#include "account/grid/grid.h"

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

#endif
