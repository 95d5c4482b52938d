/* SPDX-License-Identifier: Apache-2.0 */
/* Curves of Gaussian and of Poisson-subsampled Gaussian pairs, as parts of a list (account/product/product.h). */
#ifndef DPMF_ACCOUNT_PRODUCT_CURVES_H
#define DPMF_ACCOUNT_PRODUCT_CURVES_H

#include "account/product/product.h"

/* H(a; mu), a >= 1, from above. */
double product_hockey(double mu, double a);

typedef struct product_gaussian {
    double mu;
} product_gaussian;

typedef struct product_poisson {
    double q, mu; /* 0 < q <= 1, mu = 1/sigma */
    int replace;
} product_poisson;

/* The curves at a = 1 + less_one, from above: 0 < q <= 1. */
double product_poisson_remove(double q, double mu, double less_one);
double product_poisson_add(double q, double mu, double less_one);
double product_poisson_replace(double q, double mu, double less_one);
double product_poisson_reach(double q, double mu, int reversed, double mass);

/* The part borrows what it is given. */
product_part product_gaussian_part(const product_gaussian *gaussian, int64_t times);
product_part product_poisson_part(const product_poisson *poisson, int64_t times);

#endif
