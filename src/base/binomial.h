/* SPDX-License-Identifier: Apache-2.0 */
/* The binomial distribution and the confidence limits of Clopper and Pearson, with relative accuracy in the tails. */
#ifndef DPMF_BASE_BINOMIAL_H
#define DPMF_BASE_BINOMIAL_H

#include <stdint.h>

/* X ~ Binomial(n, p), n >= 1, 0 <= p <= 1. Relative error about 1e-13 for the tail below 1/2; any k. */
double base_binomial_at_most(int64_t k, int64_t n, double p);  /* Pr[X <= k] */
double base_binomial_at_least(int64_t k, int64_t n, double p); /* Pr[X >= k] */

/*
 * Limits for p after k successes in n trials, 0 <= k <= n, 0 < failure < 1: p <= upper, and p >= lower, each with
 * probability at least 1 - failure (Clopper and Pearson 1934).
 */
double base_binomial_upper(int64_t k, int64_t n, double failure);
double base_binomial_lower(int64_t k, int64_t n, double failure);

#endif
