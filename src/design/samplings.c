/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates under samplings whose accounts are not those of a sampled step composed:
 *
 *     allocation      independent noise, each unit in one step of every epoch (whole epochs only)
 *     balls-in-bins   C of entries that are not negative, b = ceil(n/epochs) bins; bounded without simulation where delta is
 *                     below what simulation sees, by simulation where it was named and is not
 *     min-sep         banded C, waits of its bands, the probability that gives `epochs` uses on average; simulation: when named
 *
 * The strategies are those that families and searches over bands have found for the participation in a fixed order:
 * they are not optimized for these accounts, and sigma x loss is compared as for all other candidates.
 */
#include "design/design.h"

#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int wanted(const dpmf_design *d, dpmf_sampling_kind kind) {
    return d->options.any_sampling || d->options.sampling == kind;
}

/*
 * Finds the candidate of a family without sampling that has the least noise, of those that have more than `above`;
 * NULL: none.
 */
static const candidate *best_of(const dpmf_design *d, const char *family, double above) {
    const candidate *best = NULL;
    for (int64_t i = 0; i < d->count; i++) {
        const candidate *e = &d->candidates[i];
        if (!dpmf_sampling_is_none(&e->info.sampling) || strcmp(e->info.family, family) != 0) continue;
        if (e->compared > above && (best == NULL || e->compared < best->compared)) best = e;
    }
    return best;
}

/*
 * Adds the best of a family that the account supports: where it is passed over (entries of C that are negative, too
 * many bins) the next best. *added: was one?
 */
static dpmf_status add_under(dpmf_design *d, const char *family, const dpmf_sampling *sampling, int *added) {
    const candidate *best;
    double above = -INFINITY;
    *added = 0;
    while (!*added && (best = best_of(d, family, above)) != NULL) {
        char made_by[sizeof best->made_by];
        const candidate c = {.strategy = best->strategy, .info.sampling = *sampling};
        const int64_t before = d->count;
        above = best->compared;
        memcpy(made_by, best->made_by, sizeof made_by); /* the list may move */
        const dpmf_status status = design_add(d, &c, made_by, NULL);
        if (status != DPMF_OK && !design_may_skip(status)) return status;
        *added = status == DPMF_OK && d->count > before;
    }
    return DPMF_OK;
}

/* Above it the Gram matrix of the bins, bins^2 numbers, is not worth its time. */
static const int64_t BINS_MAX = 2048;
static const double SIMULATED_DELTA = 1e-6;

static dpmf_status add_bins(dpmf_design *d, int64_t bins) {
    static const char *const families[] = {DPMF_FAMILY_BLT, DPMF_FAMILY_BANDED_TOEPLITZ, DPMF_FAMILY_TOEPLITZ};
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_BALLS_IN_BINS, .count = bins};
    const int named = d->options.sampling == DPMF_SAMPLING_BALLS_IN_BINS;
    if (bins > BINS_MAX || (d->problem.delta >= SIMULATED_DELTA && !named)) return DPMF_OK;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        int added = 0;
        TRY(add_under(d, families[i], &sampling, &added));
        if (!added && best_of(d, families[i], -INFINITY) != NULL)
            design_note_skipped(
                d, "%s under balls-in-bins was left out: the account needs entries of C that are not negative.",
                families[i]);
    }
    return DPMF_OK;
}

static dpmf_status add_separated(dpmf_design *d) {
    const candidate *best = best_of(d, DPMF_FAMILY_BANDED_TOEPLITZ, -INFINITY);
    int added = 0;
    if (best == NULL || best->info.bands < 1) return DPMF_OK;
    const double rate = (double)d->options.epochs / (double)d->problem.steps, waits = (double)best->info.bands - 1;
    if (!(waits * rate < 0.99)) return DPMF_OK;
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_MIN_SEPARATION,
                                    .probability = fmin(rate / (1 - waits * rate), 1),
                                    .count = best->info.bands,
                                    .cap = d->options.batch_cap,
                                    .units = d->options.batch_cap > 0 ? d->options.units : 0};
    return add_under(d, DPMF_FAMILY_BANDED_TOEPLITZ, &sampling, &added);
}

/* Both have batches of nearly one size anyway, and no account of a cap on them is known. */
static dpmf_status add_uncapped(dpmf_design *d) {
    const int64_t epochs = d->options.epochs, bins = (d->problem.steps - 1) / epochs + 1;
    const dpmf_sampling once = {.kind = DPMF_SAMPLING_ALLOCATION, .count = bins, .picks = 1};
    const int allocates = wanted(d, DPMF_SAMPLING_ALLOCATION), has_bins = wanted(d, DPMF_SAMPLING_BALLS_IN_BINS);
    int added = 0;
    if (d->options.batch_cap != 0) {
        if (allocates && has_bins)
            design_note_skipped(d, "allocation and balls-in-bins were left out: neither has an account with a cap.");
        return DPMF_OK;
    }
    if (allocates && bins * epochs == d->problem.steps && design_is_allowed(d, DPMF_FAMILY_IDENTITY))
        TRY(add_under(d, DPMF_FAMILY_IDENTITY, &once, &added));
    return has_bins ? add_bins(d, bins) : DPMF_OK;
}

dpmf_status design_samplings(dpmf_design *d) {
    TRY(add_uncapped(d));
    return d->options.sampling == DPMF_SAMPLING_MIN_SEPARATION ? add_separated(d) : DPMF_OK;
}
