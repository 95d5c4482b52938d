/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least cap on the batch that costs next to nothing: the least M for which sigma (1 + cost), sigma the least one without
 * a cap, is still within (epsilon, delta) when batches hold at most M units.
 *
 * More room never hurts, so M is bisected for, in standard deviations above the expected batch first: the search
 * evaluates delta some ten times and does not calibrate as often. The returned M has itself passed.
 */
#include "account/question.h"

#include <math.h>

static const double COST = 1e-3;

typedef struct search {
    dpmf_account_options options;
    double sigma, epsilon, delta;
} search;

static dpmf_status enough_at(search *s, int64_t cap, int *enough) {
    dpmf_privacy found;
    s->options.sampling.cap = cap;
    TRY(dpmf_account_delta(s->sigma, s->epsilon, &s->options, &found));
    *enough = found.delta <= s->delta;
    return DPMF_OK;
}

static dpmf_status least_cap(search *s, double mean, int64_t most, int64_t *out) {
    const double deviation = sqrt(mean) + 1;
    int64_t low = (int64_t)mean, high = most; /* low: never tried; high: no cap at all */
    int enough = 0;
    if (low < 0) low = 0;
    for (double step = 5; mean + step * deviation < (double)most; step *= 1.5) {
        const int64_t next = (int64_t)ceil(mean + step * deviation);
        TRY(enough_at(s, next, &enough));
        *(enough ? &high : &low) = next;
        if (enough) break;
    }
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        TRY(enough_at(s, middle, &enough));
        *(enough ? &high : &low) = middle;
    }
    *out = high;
    return DPMF_OK;
}

dpmf_status account_calibrate_cap(double epsilon, double delta, double cost, const dpmf_account_options *options,
                                  int64_t *cap, dpmf_privacy *out) {
    search s = {
        .options = options == NULL ? dpmf_account_options_defaults() : *options, .epsilon = epsilon, .delta = delta};
    dpmf_privacy found;
    int64_t least = 0;
    const dpmf_sampling *how = &s.options.sampling;
    if (cost == 0) cost = COST;
    if (!(cost > 0 && cost <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a cap that costs %g of sigma, accepted: above 0, to 1", cost);
    TRY(account_sampling_check(how));
    const int64_t units = s.options.units > 0 ? s.options.units : how->units;
    if (!account_sampling_composes(how) || units < 2)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a cap is found for poisson and block-cyclic sampling of at least 2 units");
    const int64_t blocks = account_sampling_blocks(how);
    s.options.batch_cap = s.options.sampling.cap = 0;
    s.options.units = s.options.sampling.units = 0;
    TRY(dpmf_calibrate_sigma(epsilon, delta, &s.options, &found));
    s.options.sampling.units = units;
    s.sigma = found.sigma * (1 + cost);
    TRY(least_cap(&s, (double)units * fmin(1 / (double)blocks, how->probability), (units - 1) / blocks + 1, &least));
    s.options.sampling.cap = least;
    if (out != NULL) TRY(dpmf_calibrate_sigma(epsilon, delta, &s.options, out));
    *cap = least;
    return DPMF_OK;
}
