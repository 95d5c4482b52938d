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

static int wanted(const dpmf_i_design_problem *p, dpmf_sampling_kind kind) {
    return p->options.any_sampling || p->options.sampling == kind;
}

/* The entry of a family without sampling that has the least noise; NULL: none. */
static const dpmf_i_design_entry *best_of(const dpmf_i_design_problem *p, const char *family) {
    const dpmf_i_design_entry *best = NULL;
    for (int64_t i = 0; i < p->list.count; i++) {
        const dpmf_i_design_entry *e = &p->list.entry[i];
        if (!dpmf_sampling_is_none(&e->shown.sampling) || strcmp(e->shown.family, family) != 0) continue;
        if (best == NULL || e->compared < best->compared) best = e;
    }
    return best;
}

/* What an account does not know (negative entries, too many bins) is passed over. */
static dpmf_status offer_under(dpmf_i_design_problem *p, const char *family, const dpmf_sampling *sampling) {
    const dpmf_i_design_entry *best = best_of(p, family);
    char made_by[sizeof best->made_by];
    if (best == NULL) return DPMF_OK;
    dpmf_strategy *s = dpmf_i_strategy_retain(best->strategy); /* the list may move */
    memcpy(made_by, best->made_by, sizeof made_by);
    const dpmf_status status =
        dpmf_i_design_add(p, &(dpmf_i_design_offer){.strategy = s, .sampling = *sampling, .made_by = made_by}, NULL);
    dpmf_strategy_free(s);
    return dpmf_i_design_may_skip(status) ? DPMF_OK : status;
}

/* Above it the Gram matrix of the bins, bins^2 numbers, is not worth its time. */
static const int64_t BINS_MAX = 2048;
static const double SIMULATED_DELTA = 1e-6;

static dpmf_status offer_bins(dpmf_i_design_problem *p, int64_t bins) {
    static const char *const families[] = {DPMF_FAMILY_BLT, DPMF_FAMILY_BANDED_TOEPLITZ, DPMF_FAMILY_TOEPLITZ};
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_BALLS_IN_BINS, .count = bins};
    const int named = p->options.sampling == DPMF_SAMPLING_BALLS_IN_BINS;
    if (bins > BINS_MAX || (p->options.delta >= SIMULATED_DELTA && !named)) return DPMF_OK;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        TRY(offer_under(p, families[i], &sampling));
    return DPMF_OK;
}

static dpmf_status offer_separated(dpmf_i_design_problem *p) {
    const dpmf_i_design_entry *best = best_of(p, DPMF_FAMILY_BANDED_TOEPLITZ);
    if (best == NULL || best->shown.bands < 1) return DPMF_OK;
    const double rate = (double)p->options.epochs / (double)p->steps, waits = (double)best->shown.bands - 1;
    if (!(waits * rate < 0.99)) return DPMF_OK;
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_MIN_SEPARATION,
                                    .probability = fmin(rate / (1 - waits * rate), 1),
                                    .count = best->shown.bands,
                                    .cap = p->options.batch_cap == DPMF_BATCH_CAP_AUTO ? 0 : p->options.batch_cap,
                                    .units = p->options.batch_cap > 0 ? p->options.units : 0};
    return offer_under(p, DPMF_FAMILY_BANDED_TOEPLITZ, &sampling);
}

dpmf_status dpmf_i_design_samplings(dpmf_i_design_problem *p) {
    const int64_t epochs = p->options.epochs, bins = (p->steps - 1) / epochs + 1;
    const dpmf_sampling once = {.kind = DPMF_SAMPLING_ALLOCATION, .count = bins, .picks = 1};
    if (p->options.batch_cap == 0 && wanted(p, DPMF_SAMPLING_ALLOCATION) && bins * epochs == p->steps &&
        dpmf_i_design_wants(p, DPMF_FAMILY_IDENTITY))
        TRY(offer_under(p, DPMF_FAMILY_IDENTITY, &once));
    if (p->options.batch_cap == 0 && wanted(p, DPMF_SAMPLING_BALLS_IN_BINS)) TRY(offer_bins(p, bins));
    if (p->options.sampling == DPMF_SAMPLING_MIN_SEPARATION) TRY(offer_separated(p));
    return DPMF_OK;
}
