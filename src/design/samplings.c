/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates under samplings whose accounts are not those of a sampled step composed:
 *
 *     allocation      independent noise, each unit in one step of every epoch (whole epochs only)
 *     balls-in-bins   C of entries that are not negative, b = ceil(n/epochs) bins; bounded without simulation where delta is
 *                     below what simulation sees, by simulation where it was named and is not
 *     min-sep         banded C, waits of its bands, the probability that gives `epochs` uses on average; simulation: when named
 *
 * The strategies are those that families and searches over bands have found for the participation in a fixed order: nobody has
 * optimized for these accounts, and what is compared is sigma x loss as ever.
 */
#include "design/design.h"

#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int wanted(const design_problem *p, dpmf_sampling_kind kind) {
    return p->options.any_sampling || p->options.sampling == kind;
}

/* The entry of a family without sampling that has the least noise, of those that have more than `above`; NULL: none. */
static const design_entry *best_of(const design_problem *p, const char *family, double above) {
    const design_entry *best = NULL;
    for (int64_t i = 0; i < p->list.count; i++) {
        const design_entry *e = &p->list.entry[i];
        if (!dpmf_sampling_is_none(&e->shown.sampling) || strcmp(e->shown.family, family) != 0) continue;
        if (e->compared > above && (best == NULL || e->compared < best->compared)) best = e;
    }
    return best;
}

/*
 * The best of a family that the account knows: where it is passed over (entries of C that are negative, too many bins) the next
 * best. *added: was one?
 */
static dpmf_status offer_under(design_problem *p, const char *family, const dpmf_sampling *sampling, int *added) {
    const design_entry *best;
    double above = -INFINITY;
    *added = 0;
    while (!*added && (best = best_of(p, family, above)) != NULL) {
        char made_by[sizeof best->made_by];
        dpmf_strategy *s = strategy_retain(best->strategy); /* the list may move */
        const int64_t before = p->list.count;
        above = best->compared;
        memcpy(made_by, best->made_by, sizeof made_by);
        const dpmf_status status =
            design_add(p, &(design_offer){.strategy = s, .sampling = *sampling, .made_by = made_by}, NULL);
        dpmf_strategy_free(s);
        if (status != DPMF_OK && !design_may_skip(status)) return status;
        *added = status == DPMF_OK && p->list.count > before;
    }
    return DPMF_OK;
}

/* Above it the Gram matrix of the bins, bins^2 numbers, is not worth its time. */
static const int64_t BINS_MAX = 2048;
static const double SIMULATED_DELTA = 1e-6;

static dpmf_status offer_bins(design_problem *p, int64_t bins) {
    static const char *const families[] = {DPMF_FAMILY_BLT, DPMF_FAMILY_BANDED_TOEPLITZ, DPMF_FAMILY_TOEPLITZ};
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_BALLS_IN_BINS, .count = bins};
    const int named = p->options.sampling == DPMF_SAMPLING_BALLS_IN_BINS;
    if (bins > BINS_MAX || (p->options.delta >= SIMULATED_DELTA && !named)) return DPMF_OK;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        int added = 0;
        TRY(offer_under(p, families[i], &sampling, &added));
        if (!added && best_of(p, families[i], -INFINITY) != NULL)
            design_limit(p,
                         "%s under balls-in-bins was left out: the account needs entries of C that are not negative.",
                         families[i]);
    }
    return DPMF_OK;
}

static dpmf_status offer_separated(design_problem *p) {
    const design_entry *best = best_of(p, DPMF_FAMILY_BANDED_TOEPLITZ, -INFINITY);
    int added = 0;
    if (best == NULL || best->shown.bands < 1) return DPMF_OK;
    const double rate = (double)p->options.epochs / (double)p->steps, waits = (double)best->shown.bands - 1;
    if (!(waits * rate < 0.99)) return DPMF_OK;
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_MIN_SEPARATION,
                                    .probability = fmin(rate / (1 - waits * rate), 1),
                                    .count = best->shown.bands,
                                    .cap = p->options.batch_cap,
                                    .units = p->options.batch_cap > 0 ? p->options.units : 0};
    return offer_under(p, DPMF_FAMILY_BANDED_TOEPLITZ, &sampling, &added);
}

/* Both have batches of nearly one size anyway, and nobody has an account of a cap on them. */
static dpmf_status offer_uncapped(design_problem *p) {
    const int64_t epochs = p->options.epochs, bins = (p->steps - 1) / epochs + 1;
    const dpmf_sampling once = {.kind = DPMF_SAMPLING_ALLOCATION, .count = bins, .picks = 1};
    const int allocates = wanted(p, DPMF_SAMPLING_ALLOCATION), has_bins = wanted(p, DPMF_SAMPLING_BALLS_IN_BINS);
    int added = 0;
    if (p->options.batch_cap != 0) {
        if (allocates && has_bins)
            design_limit(p, "allocation and balls-in-bins were left out: neither has an account with a cap.");
        return DPMF_OK;
    }
    if (allocates && bins * epochs == p->steps && design_wants(p, DPMF_FAMILY_IDENTITY))
        TRY(offer_under(p, DPMF_FAMILY_IDENTITY, &once, &added));
    return has_bins ? offer_bins(p, bins) : DPMF_OK;
}

dpmf_status design_samplings(design_problem *p) {
    TRY(offer_uncapped(p));
    return p->options.sampling == DPMF_SAMPLING_MIN_SEPARATION ? offer_separated(p) : DPMF_OK;
}
