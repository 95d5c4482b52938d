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
static int is_allocation(const account_composed *c) {
    return c->picks > 0 && c->picks < c->bins;
}

static account_allocation allocation_of(const account_composed *c) {
    return (account_allocation){c->sigma, c->picks, c->bins, c->compositions, c->relative, c->absolute, c->run};
}

static account_answer smaller(double value, int met, double known) {
    if (known <= value) return (account_answer){known, DPMF_UPPER_BOUND, METHOD_UNSAMPLED, met};
    return (account_answer){value, DPMF_UPPER_BOUND, METHOD_ALLOCATION, met};
}

dpmf_status account_dispatch_epsilon(const account_composed *c, double log_delta, account_answer *out) {
    if (capped_binds(c) && c->probability > 0) return capped_epsilon(c, log_delta, out);
    if (!is_allocation(c)) return account_composed_epsilon(c, log_delta, out);
    const account_allocation a = allocation_of(c);
    double value = INFINITY;
    int met = 0;
    TRY(allocation_epsilon(&a, log_delta, &value, &met));
    *out = smaller(value, met, account_gaussian_epsilon(account_composed_mu(c), log_delta));
    return DPMF_OK;
}

dpmf_status account_dispatch_log_delta(const account_composed *c, double epsilon, account_answer *out) {
    if (capped_binds(c) && c->probability > 0) return capped_log_delta(c, epsilon, out);
    if (!is_allocation(c)) return account_composed_log_delta(c, epsilon, out);
    const account_allocation a = allocation_of(c);
    double value = 0;
    int met = 0;
    TRY(allocation_log_delta(&a, epsilon, &value, &met));
    *out = smaller(value, met, account_gaussian_log_delta(account_composed_mu(c), epsilon));
    return DPMF_OK;
}

dpmf_status account_dispatch_search(const account_composed *c, double epsilon, double *log_delta) {
    account_composed coarse = *c;
    account_answer found;
    if (!is_allocation(c) && !capped_binds(c)) return account_composed_search(c, epsilon, log_delta);
    coarse.relative = fmax(COARSE, c->relative);
    TRY(account_dispatch_log_delta(&coarse, epsilon, &found));
    *log_delta = found.value;
    return DPMF_OK;
}
