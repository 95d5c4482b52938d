/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates under samplings whose accounts are not those of a sampled step composed:
 *
 *     allocation      independent noise, each unit in one step of every epoch (whole epochs only)
 *     balls-in-bins   C of entries that are not negative, b = ceil(n/epochs) bins; bounded without simulation where delta is
 *                     below what simulation sees, by simulation where it was named and is not
 *     fixed           independent noise and banded C, batches of one size out of all units or of one block: when named
 *     min-sep         banded C, waits of its bands, the probability that gives `epochs` uses on average; simulation: when named
 *
 * The strategies are those that families and searches over bands have found for the participation in a fixed order:
 * they are not optimized for these accounts, and sigma x loss is compared as for all other candidates.
 *
 * Then what a design without sampling leaves on the table: DP-SGD as it is usually run, with Poisson sampling, and the banded
 * strategies that the search has found anyway, with block-cyclic sampling. Both take one calibration for each number of
 * bands, and no search: the least of them is an upper bound on the noise that `any` would find.
 */
#include "account/account.h"
#include "base/status.h"
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int wanted(const dpmf_design *d, dpmf_sampling_kind kind) {
    return d->options.any_sampling || d->options.sampling == kind;
}

/* Finds the family's candidate without sampling that has the least noise above `above`; NULL: none. */
static const candidate *best_of(const dpmf_design *d, const char *family, double above) {
    const candidate *best = NULL;
    for (int64_t i = 0; i < d->count; i++) {
        const candidate *e = &d->candidates[i];
        if (!dpmf_sampling_is_none(&e->info.sampling) || strcmp(e->info.family, family) != 0) continue;
        if (e->compared > above && (best == NULL || e->compared < best->compared)) best = e;
    }
    return best;
}

/* Adds the best of a family that the account does not pass over (negative entries of C, too many bins). *added: was one? */
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

static dpmf_status add_bins(dpmf_design *d, const char *family, int64_t bins) {
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_BALLS_IN_BINS, .count = bins};
    const int named = d->options.sampling == DPMF_SAMPLING_BALLS_IN_BINS;
    int added = 0;
    if (bins > BINS_MAX || (d->problem.delta >= SIMULATED_DELTA && !named)) return DPMF_OK;
    TRY(add_under(d, family, &sampling, &added));
    if (!added && best_of(d, family, -INFINITY) != NULL)
        design_note_skipped(
            d, "%s under balls-in-bins was left out: the account needs entries of C that are not negative.", family);
    return DPMF_OK;
}

static dpmf_status add_separated(dpmf_design *d, const char *family) {
    const candidate *best = best_of(d, family, -INFINITY);
    int added = 0;
    if (best == NULL || best->info.bands < 1) return DPMF_OK;
    const double rate = d->probability, waits = (double)best->info.bands - 1;
    if (!(waits * rate < 0.99)) return DPMF_OK;
    const dpmf_sampling sampling = {.kind = DPMF_SAMPLING_MIN_SEPARATION,
                                    .probability = fmin(rate / (1 - waits * rate), 1),
                                    .count = best->info.bands,
                                    .cap = d->options.batch_cap,
                                    .units = d->options.batch_cap > 0 ? d->options.units : 0};
    return add_under(d, family, &sampling, &added);
}

/*
 * The account of an allocation takes seconds, minutes for several epochs at a large epsilon. Where any sampling will do it is left
 * out if it certainly has more noise than an eligible candidate (design/exclude.c).
 */
static int allocation_loses(const dpmf_design *d, const candidate *independent) {
    double least = INFINITY;
    if (!d->options.any_sampling || d->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE) return 0;
    for (int64_t i = 0; i < d->count; i++) {
        const dpmf_candidate *c = &d->candidates[i].info;
        if (design_candidate_fits(d, &d->candidates[i]) && c->overhead <= d->options.max_overhead)
            least = fmin(least, d->candidates[i].compared);
    }
    /* its columns have norm 1 */
    const double sigma = DESIGN_CLOSE * least / design_error(d, independent);
    return isfinite(sigma) &&
           design_allocation_exceeds(d->problem.steps, d->options.epochs, sigma, d->problem.epsilon, d->problem.delta);
}

/* Of the candidates with this number of bands, which differ in normalization and family, the one with the least noise. */
static const candidate *of_bands(const dpmf_design *d, int64_t bands) {
    const candidate *best = NULL;
    for (int64_t i = 0; i < d->count; i++) {
        const candidate *c = &d->candidates[i];
        if (c->info.bands != bands || !dpmf_sampling_is_none(&c->info.sampling)) continue;
        if (strategy_bands(c->strategy) != bands || !design_candidate_fits(d, c)) continue;
        if (c->info.overhead > d->options.max_overhead) continue;
        if (best == NULL || c->compared < best->compared) best = c;
    }
    return best;
}

/* The next number of bands that a candidate has, above or below; 0: there is none. */
static int64_t next_bands(const dpmf_design *d, int64_t bands, int above) {
    int64_t next = 0;
    for (int64_t i = 0; i < d->count; i++) {
        const int64_t b = d->candidates[i].info.bands;
        if (b < 2 || (above ? b <= bands : b >= bands) || of_bands(d, b) == NULL) continue;
        if (next == 0 || (above ? b < next : b > next)) next = b;
    }
    return next;
}

/*
 * Batches of a fixed size, M = ceil(units x epochs / steps): independent noise from all units, and every banded strategy that was found
 * for the fixed order from as many blocks as it has bands, where the blocks are large enough.
 */
static dpmf_status add_fixed(dpmf_design *d) {
    const dpmf_design_options *o = &d->options;
    const double size = ceil((double)o->units * d->probability * (1 - 1e-12));
    dpmf_sampling fixed = {.kind = o->sampling, .count = 1, .picks = (int64_t)fmax(size, 1), .units = o->units};
    for (const strategy_family *f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f)) {
        int added = 0;
        if ((f->candidates.samplings & 1u << DPMF_SAMPLING_POISSON) != 0 && design_is_allowed(d, f->shown.name))
            TRY(add_under(d, f->shown.name, &fixed, &added));
    }
    for (int64_t bands = next_bands(d, 1, 1); bands > 0; bands = next_bands(d, bands, 1)) {
        const candidate *best = of_bands(d, bands);
        candidate under = {.strategy = best->strategy, .info.sampling = fixed};
        char made_by[sizeof best->made_by];
        under.info.sampling.count = bands;
        memcpy(made_by, best->made_by, sizeof made_by); /* the list may move */
        if (o->units / bands < fixed.picks) break;
        const dpmf_status status = design_add(d, &under, made_by, NULL);
        if (status != DPMF_OK && !design_may_skip(status)) return status;
    }
    return DPMF_OK;
}

dpmf_status design_samplings(dpmf_design *d) {
    const int64_t epochs = d->options.epochs, bins = (d->problem.steps - 1) / epochs + 1;
    const dpmf_sampling once = {.kind = DPMF_SAMPLING_ALLOCATION, .count = bins, .picks = 1};
    /* Of a part of an epoch not every unit takes part, and these accounts are for all of them. */
    const int allocates = wanted(d, DPMF_SAMPLING_ALLOCATION) && !d->part_of_epoch;
    const int has_bins = wanted(d, DPMF_SAMPLING_BALLS_IN_BINS) && !d->part_of_epoch;
    const int capped = d->options.batch_cap != 0;
    if (!d->options.any_sampling && dpmf_sampling_describe(d->options.sampling)->fixed) return add_fixed(d);
    if (capped && allocates && has_bins) /* their batches are of nearly one size anyway */
        design_note_skipped(d, "allocation and balls-in-bins were left out: neither has an account with a cap.");
    for (const strategy_family *f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f)) {
        const unsigned samplings = f->candidates.samplings;
        const char *name = f->shown.name;
        int added = 0;
        if ((samplings & 1u << DPMF_SAMPLING_ALLOCATION) != 0 && allocates && !capped &&
            bins * epochs == d->problem.steps && design_is_allowed(d, name)) {
            const candidate *independent = best_of(d, name, -INFINITY);
            if (d->options.any_sampling && epochs > 1 && d->problem.epsilon > DESIGN_EXCLUDED_EPSILON)
                design_note_skipped(d, "%s under allocation was left out: its account takes minutes at this epsilon.",
                                    name);
            else if (independent != NULL && allocation_loses(d, independent))
                design_note_skipped(d, "%s under allocation was left out: it certainly has more noise than the best.",
                                    name);
            else
                TRY(add_under(d, name, &once, &added));
        }
        if ((samplings & 1u << DPMF_SAMPLING_BALLS_IN_BINS) != 0 && has_bins && !capped) TRY(add_bins(d, name, bins));
        if ((samplings & 1u << DPMF_SAMPLING_MIN_SEPARATION) != 0 &&
            d->options.sampling == DPMF_SAMPLING_MIN_SEPARATION)
            TRY(add_separated(d, name));
    }
    return DPMF_OK;
}

/* ---- what a design without sampling leaves on the table ---- */

/* The noise of a candidate's strategy under a sampling; infinite where no account covers it. */
static dpmf_status noise_under(const dpmf_design *d, const candidate *known, const dpmf_sampling *sampling,
                               double slack, double *out) {
    candidate c = {.strategy = known->strategy, .info.sampling = *sampling, .slack = slack};
    const dpmf_status status = design_evaluate(d, &c, out);
    if (status == DPMF_OK) return DPMF_OK;
    *out = INFINITY;
    return design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status find_baseline(dpmf_design *d) {
    const dpmf_sampling poisson = {.kind = DPMF_SAMPLING_POISSON, .probability = d->probability, .count = 1};
    for (int64_t i = 0; i < d->count; i++) {
        const candidate *c = &d->candidates[i];
        const strategy_family *f = strategy_family_find(c->info.family, strlen(c->info.family));
        if (f->candidates.baseline == NULL) continue;
        if (c->info.sampling.kind == DPMF_SAMPLING_POISSON) d->baseline_sampled = c->compared;
        if (dpmf_sampling_is_none(&c->info.sampling)) {
            d->baseline_plain = c->compared;
            if (d->baseline_sampled == 0 && d->options.batch_cap == 0)
                TRY(noise_under(d, c, &poisson, 0, &d->baseline_sampled));
        }
    }
    return DPMF_OK;
}

static const double COMPARED_SLACK = 1e-2; /* in epsilon: sigma stays an upper bound, and takes a third of the time */

static dpmf_status noise_of_bands(const dpmf_design *d, int64_t bands, double *out) {
    const dpmf_sampling blocks = {.kind = DPMF_SAMPLING_BLOCK_CYCLIC, .probability = d->probability, .count = bands};
    *out = INFINITY;
    return bands < 2 ? DPMF_OK : noise_under(d, of_bands(d, bands), &blocks, COMPARED_SLACK, out);
}

/* From the bands of the rule of thumb (McKenna 2024, Section 4.2) to both sides, as long as the noise falls. */
static dpmf_status least_of_bands(const dpmf_design *d, double *least) {
    const double rule = d->problem.epsilon * sqrt((double)d->problem.steps) / (double)d->options.epochs;
    int64_t at = next_bands(d, (int64_t)fmin(fmax(rule / sqrt(2), 1), (double)d->problem.steps), 1);
    if (at == 0) at = next_bands(d, d->problem.steps + 1, 0);
    double best = INFINITY;
    TRY(noise_of_bands(d, at, &best));
    for (int above = 0; above < 2 && at > 0; above++) {
        double noise = 0;
        for (int64_t bands = next_bands(d, at, above); bands > 0; bands = next_bands(d, bands, above)) {
            TRY(noise_of_bands(d, bands, &noise));
            if (!(noise < best)) break;
            best = noise;
        }
    }
    *least = fmin(*least, best);
    return DPMF_OK;
}

/* More rounds than this take long to account for. */
static const int64_t COMPARED_STEPS = 65536;

dpmf_status design_compare_samplings(dpmf_design *d) {
    const double chosen = d->candidates[d->chosen].compared;
    if (d->options.federated || d->options.separation_low > 0 || d->options.participation != NULL) return DPMF_OK;
    TRY(find_baseline(d));
    if (d->options.sampling != DPMF_SAMPLING_NONE || d->problem.steps > COMPARED_STEPS) return DPMF_OK;
    double least = d->baseline_sampled > 0 ? d->baseline_sampled : INFINITY;
    TRY(least_of_bands(d, &least));
    if (isfinite(least)) d->sampling_saves = fmin(least / chosen, 1);
    return DPMF_OK;
}
