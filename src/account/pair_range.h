/* SPDX-License-Identifier: Apache-2.0 */
/* What the real and the complex quadrature of account_pair share: where the integrand lives. */
#ifndef DPMF_ACCOUNT_PAIR_RANGE_H
#define DPMF_ACCOUNT_PAIR_RANGE_H

#include "account/account.h"

/* The points of the trapezoid rule: x = step * k, first <= k <= last. */
typedef struct dpmf_i_account_pair_range {
    double step;
    int64_t first, last;
} dpmf_i_account_pair_range;

/* Truncation leaves out e^-kept of the whole; more for many compositions, which multiply it. */
double dpmf_i_account_pair_kept(const dpmf_i_account_pair *pair);

/* For Re z = t; false if the range is too long. Its upper end is generous: a caller may come down from it. */
int dpmf_i_account_pair_find_range(const dpmf_i_account_pair *pair, double t, double fineness,
                                   dpmf_i_account_pair_range *out);

#endif
