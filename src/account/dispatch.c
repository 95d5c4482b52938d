/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which account a question needs: that of a sampled step composed (account/composed.c), of a cap that may bind
 * (account/capped/account.c), or of random allocation (account/allocation/allocation.c). The Gaussian mechanism without the
 * sampling always bounds them.
 */
#include "account/allocation/allocation.h"

#include <math.h>

static const char METHOD_ALLOCATION[] = "random allocation, sums of likelihood ratios on a grid";
static const char METHOD_UNSAMPLED[] = "Gaussian mechanism without the sampling, closed form";
static const double COARSE = 0.02; /* slack for the beginning of a search */

/* All of the steps: nothing is left to chance, and composition alone answers. */
static int is_allocation(const dpmf_i_account_composed *c) {
    return c->picks > 0 && c->picks < c->bins;
}

static dpmf_i_account_allocation allocation_of(const dpmf_i_account_composed *c) {
    return (dpmf_i_account_allocation){c->sigma, c->picks, c->bins, c->compositions, c->relative, c->absolute, c->run};
}

static dpmf_i_account_answer smaller(double value, int met, double known) {
    if (known <= value) return (dpmf_i_account_answer){known, DPMF_UPPER_BOUND, METHOD_UNSAMPLED, met};
    return (dpmf_i_account_answer){value, DPMF_UPPER_BOUND, METHOD_ALLOCATION, met};
}

dpmf_status dpmf_i_account_dispatch_epsilon(const dpmf_i_account_composed *c, double log_delta,
                                            dpmf_i_account_answer *out) {
    if (dpmf_i_account_capped_binds(c) && c->probability > 0) return dpmf_i_account_capped_epsilon(c, log_delta, out);
    if (!is_allocation(c)) return dpmf_i_account_composed_epsilon(c, log_delta, out);
    const dpmf_i_account_allocation a = allocation_of(c);
    double value = INFINITY;
    int met = 0;
    TRY(dpmf_i_account_allocation_epsilon(&a, log_delta, &value, &met));
    *out = smaller(value, met, dpmf_i_account_gaussian_epsilon(dpmf_i_account_composed_mu(c), log_delta));
    return DPMF_OK;
}

dpmf_status dpmf_i_account_dispatch_log_delta(const dpmf_i_account_composed *c, double epsilon,
                                              dpmf_i_account_answer *out) {
    if (dpmf_i_account_capped_binds(c) && c->probability > 0) return dpmf_i_account_capped_log_delta(c, epsilon, out);
    if (!is_allocation(c)) return dpmf_i_account_composed_log_delta(c, epsilon, out);
    const dpmf_i_account_allocation a = allocation_of(c);
    double value = 0;
    int met = 0;
    TRY(dpmf_i_account_allocation_log_delta(&a, epsilon, &value, &met));
    *out = smaller(value, met, dpmf_i_account_gaussian_log_delta(dpmf_i_account_composed_mu(c), epsilon));
    return DPMF_OK;
}

dpmf_status dpmf_i_account_dispatch_search(const dpmf_i_account_composed *c, double epsilon, double *log_delta) {
    dpmf_i_account_composed coarse = *c;
    dpmf_i_account_answer found;
    if (!is_allocation(c) && !dpmf_i_account_capped_binds(c))
        return dpmf_i_account_composed_search(c, epsilon, log_delta);
    coarse.relative = fmax(COARSE, c->relative);
    TRY(dpmf_i_account_dispatch_log_delta(&coarse, epsilon, &found));
    *log_delta = found.value;
    return DPMF_OK;
}
