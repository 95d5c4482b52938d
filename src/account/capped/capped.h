/* SPDX-License-Identifier: Apache-2.0 */
/* Poisson sampling with a hard cap on the batch: its curves, and the coupling bound. */
#ifndef DPMF_ACCOUNT_CAPPED_H
#define DPMF_ACCOUNT_CAPPED_H

#include "account/montecarlo/montecarlo.h"
#include "account/product/product.h"

/* N units are drawn with probability q each; of more than M drawn a random M take part. 1 <= M < N, 0 < q <= 1. */
typedef struct dpmf_i_account_capped_scheme {
    double q, sigma;
    int64_t cap, units;
    dpmf_adjacency adjacency;
    double binding; /* P[Bin(N-1, q) >= M], from above: that the cap binds for a unit that was drawn */
    double share;   /* p = P[the unit is drawn and kept | the cap binds], from above */
    double missed;  /* (M/N) P[Bin(N, q) > M], from above: that the cap has to do with the unit */
} dpmf_i_account_capped_scheme;

void dpmf_i_account_capped_make(double q, double sigma, int64_t cap, int64_t units, dpmf_adjacency adjacency,
                                dpmf_i_account_capped_scheme *out);

/* The curve at a = 1 + less_one >= 1, of removing the unit or, `add`, of adding it: from above. */
double dpmf_i_account_capped_curve(const dpmf_i_account_capped_scheme *s, int add, double less_one);

/* As a part of a list; it borrows the scheme. */
dpmf_i_account_product_part dpmf_i_account_capped_part(const dpmf_i_account_capped_scheme *scheme, int64_t times);

/* ln of what coupling with uncapped sampling adds to delta over n steps. */
double dpmf_i_account_capped_log_coupling(const dpmf_i_account_capped_scheme *s, double n, double epsilon);

/* Over all steps of min-separation sampling, from above: that the unit is drawn and kept while the cap binds. */
DPMF_MUST_CHECK dpmf_status dpmf_i_account_capped_separated(const dpmf_i_account_montecarlo_scheme *scheme, int64_t cap,
                                                            int64_t units, double *missed);

#endif
