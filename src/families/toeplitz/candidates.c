/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Candidates of a design: banded mechanisms (McKenna 2024, Sections 3 and 4), and how many bands they have.
 *
 * With C of b <= separation bands the columns that one unit touches are orthogonal, so that the same C is the best
 * Toeplitz one with and without sampling: the one for single participation. Not sampled, its noise falls with b.
 * Amplified, more bands mean less loss and less amplification, and sigma(b) x loss(b) has its minimum where they
 * balance, near b = epsilon sqrt(n) / k (Section 4.2). b runs over powers of two until the noise has clearly risen, and
 * then over values between the best and its neighbours. Among the values of b with the same number of rounds ceil(n/b)
 * the least is taken: it has the least probability q b.
 *
 * Each point is the better of C and C with normalized columns (Appendix K), where that is cheap to compute.
 *
 * The candidates for a range of separations (design/federated.c), whole Toeplitz C and C^-1 of few bands are here too.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/memory.h"
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sweep {
    dpmf_design *design;
    int64_t most; /* bands */
    int normalize;
    int plain;          /* 1: the workload has a schedule, and C is optimized without it */
    int amplify;        /* 1: sampling is requested, and the noise has not clearly risen yet */
    double best;        /* amplified noise, and its bands */
    int64_t best_bands; /* 0: none yet */
} sweep;

static const double CLEARLY = 1.5; /* noise over the least so far: past the minimum for good */

static int is_single(const dpmf_design *d) {
    return workload_is_single(d->problem.participation);
}

/*
 * The error of b bands takes O(n b) for a Toeplitz workload, O(n^2) or less with a schedule, O(n b^2) if weights decay
 * besides and the run is long; matrices are worse. The limits keep a point below a second or so.
 */
static int64_t most_bands(const dpmf_design *d) {
    const double n = (double)d->problem.steps;
    double most = is_single(d) ? n : (double)d->problem.participation->separation;
    if (d->problem.workload->toeplitz)
        most = fmin(most, fmin(8192, fmax(512, 5e8 / n)));
    else if (d->problem.workload->form != WORKLOAD_NAMED)
        most = fmin(most, 16);
    else if (d->problem.workload->decay == 0)
        most = fmin(most, n > 65536 ? 2048 : n); /* near linear in n, or O(n^2) (error/toeplitz.c) */
    else if (n > 65536)
        most = fmin(most, fmax(16, sqrt(1e9 / n)));
    /* One pass and no sampling: a handful of buffers does better than any band that is not the whole matrix. */
    if (is_single(d) && d->options.sampling == DPMF_SAMPLING_NONE) most = fmin(most, 512);
    return (int64_t)most;
}

/* The most bands up to `most` whose noise stream fits the memory and takes at most `overhead`; 1 if even 2 do not. */
static dpmf_status bands_that_fit(const dpmf_design *d, int64_t most, double overhead, int64_t *out) {
    int64_t low = 1, high = most + 1;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(most, "coefficients", &c));
    for (int64_t i = 0; i < most; i++)
        c[i] = 1; /* only their number matters */
    while (high - low > 1) {
        int64_t middle = high > 2 * low ? low * 2 : low + (high - low) / 2;
        design_stream stream = {0};
        dpmf_strategy *s = NULL;
        TRY_DONE(dpmf_strategy_create_toeplitz(d->problem.steps, DPMF_TOEPLITZ_BANDED, middle, c, &s));
        status = design_cost(d, s, &stream);
        dpmf_strategy_free(s);
        if (status != DPMF_OK) goto done;
        if (design_fits(d, stream.bytes, stream.kept) && stream.overhead <= overhead)
            low = middle;
        else
            high = middle;
    }
    *out = low;
done:
    base_free(c);
    return status;
}

static dpmf_status add(sweep *s, const dpmf_strategy *strategy, const dpmf_sampling *sampling) {
    char made_by[160];
    snprintf(made_by, sizeof made_by, "design: %s, %s loss, %lld bands", strategy->family,
             s->design->problem.loss == DPMF_LOSS_MAX ? "max" : "rms", (long long)strategy_bands(strategy));
    const candidate c = {.strategy = (dpmf_strategy *)strategy, .info = {.sampling = *sampling, .is_search_point = 1}};
    return design_add(s->design, &c, made_by, NULL);
}

static dpmf_sampling blocks(const sweep *s, int64_t bands) {
    return (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC,   s->design->probability,  bands, 0,
                           s->design->options.batch_cap, s->design->options.units};
}

static dpmf_status add_both(sweep *s, const dpmf_strategy *strategy, int64_t bands, int unsampled) {
    const dpmf_sampling none = {0}, sampled = blocks(s, bands);
    if (unsampled) TRY(add(s, strategy, &none));
    if (s->amplify) TRY(add(s, strategy, &sampled));
    return DPMF_OK;
}

/* Tries a number of bands for the requested loss, or with `rms` for the RMS loss in any case. */
static dpmf_status try_loss(sweep *s, int64_t bands, int unsampled, int rms) {
    dpmf_strategy *plain = NULL, *normalized = NULL;
    dpmf_status status = DPMF_OK;
    const search_request request = {.family = DPMF_FAMILY_BANDED_TOEPLITZ,
                                    .bands = bands,
                                    .without_schedule = s->plain,
                                    .for_rms_loss = rms,
                                    .single_participation = 1};
    TRY_DONE(design_optimize(s->design, &request, &plain, NULL));
    TRY_DONE(add_both(s, plain, bands, unsampled));
    if (s->normalize) {
        TRY_DONE(dpmf_strategy_create_normalized(plain, &normalized));
        TRY_DONE(add_both(s, normalized, bands, unsampled));
    }
done:
    dpmf_strategy_free(normalized);
    dpmf_strategy_free(plain);
    return design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status try_bands(sweep *s, int64_t bands, int unsampled) {
    const int64_t first = s->design->count;
    TRY(try_loss(s, bands, unsampled, 0));
    if (s->design->problem.loss == DPMF_LOSS_MAX) TRY(try_loss(s, bands, unsampled, 1));
    /* Keeps the better candidate for each sampling, of those from `first` on, which differ in sampling and normalization. */
    candidate *c = s->design->candidates;
    for (int64_t i = first; i < s->design->count; i++)
        for (int64_t j = s->design->count - 1; j > i; j--) {
            if (c[i].info.sampling.kind != c[j].info.sampling.kind) continue;
            if (c[j].compared < c[i].compared) {
                const candidate e = c[i];
                c[i] = c[j];
                c[j] = e;
            }
            dpmf_strategy_free(c[j].strategy);
            s->design->count--;
            memmove(c + j, c + j + 1, (size_t)(s->design->count - j) * sizeof *c);
        }
    for (int64_t i = first; i < s->design->count; i++) {
        const candidate *e = &s->design->candidates[i];
        if (e->info.sampling.kind != DPMF_SAMPLING_BLOCK_CYCLIC) continue;
        if (s->best_bands == 0 || e->compared < s->best) {
            s->best = e->compared;
            s->best_bands = e->info.sampling.count;
        }
        if (e->compared > CLEARLY * s->best) s->amplify = 0;
    }
    return DPMF_OK;
}

static int tried(const sweep *s, int64_t bands, dpmf_sampling_kind kind) {
    for (int64_t i = 0; i < s->design->count; i++) {
        const dpmf_candidate *c = &s->design->candidates[i].info;
        if (strcmp(c->family, DPMF_FAMILY_BANDED_TOEPLITZ) == 0 && c->bands == bands && c->sampling.kind == kind)
            return 1;
    }
    return 0;
}

/* The least number of bands with as many rounds. */
static int64_t snap(int64_t steps, int64_t bands) {
    int64_t rounds = (steps - 1) / bands + 1;
    return (steps - 1) / rounds + 1;
}

/* Searches between the best power of two and its neighbours, coarsely and then more finely. */
static dpmf_status refine(sweep *s) {
    static const double FACTORS[][2] = {{0.7071, 1.4142}, {0.8409, 1.1892}, {0.9170, 1.0905}};
    for (size_t i = 0; i < sizeof FACTORS / sizeof FACTORS[0]; i++) {
        const double around = (double)s->best_bands;
        for (int side = 0; side < 2; side++) {
            double wanted = fmin(fmax(2, round(around * FACTORS[i][side])), (double)s->most);
            int64_t bands = snap(s->design->problem.steps, (int64_t)wanted);
            if (bands < 2 || tried(s, bands, DPMF_SAMPLING_BLOCK_CYCLIC)) continue;
            s->amplify = 1;
            TRY(try_bands(s, bands, 0));
        }
    }
    return DPMF_OK;
}

/*
 * The best of a kind that fits the memory may be too slow, and powers of two are far apart: one more point, with as many
 * bands as the time allows. Where times are measured, the model's point may be too slow again, and the limit moves by as
 * much as the measurement was above it.
 */
static dpmf_status fit_time(sweep *s, dpmf_sampling_kind kind) {
    dpmf_design *d = s->design;
    const int unsampled = kind == DPMF_SAMPLING_NONE;
    double allowed = d->options.max_overhead;
    int64_t at = -1;
    for (int64_t i = 0; i < d->count; i++)
        if (design_candidate_fits(d, &d->candidates[i]) &&
            (at < 0 || d->candidates[i].compared < d->candidates[at].compared))
            at = i;
    for (int i = 0; i < 3 && at >= 0; i++) {
        const dpmf_candidate *c = &d->candidates[at].info;
        int64_t bands = 0;
        int enough = 1;
        if (c->sampling.kind != kind || strcmp(c->family, DPMF_FAMILY_BANDED_TOEPLITZ) != 0)
            return DPMF_OK; /* it cannot win */
        TRY(design_ask_time(d, at, &enough));
        if (enough) return DPMF_OK;
        if (i > 0) allowed *= d->options.max_overhead / c->overhead;
        TRY(bands_that_fit(d, c->bands, allowed, &bands));
        if (!unsampled) bands = snap(d->problem.steps, bands);
        if (bands < 2 || bands >= c->bands || tried(s, bands, kind)) return DPMF_OK;
        s->amplify = !unsampled;
        TRY(try_bands(s, bands, unsampled));
        at = d->count - 1;
    }
    return DPMF_OK;
}

/* With a schedule the leading candidates are optimized once more for it, up to this many steps: an iteration takes O(n^2). */
static const int64_t SCHEDULE_STEPS = 4096;

static dpmf_status with_schedule(sweep *s) {
    const int64_t amplified = s->best_bands;
    int64_t fit = 0;
    if (!s->plain || s->design->problem.steps > SCHEDULE_STEPS) return DPMF_OK;
    TRY(bands_that_fit(s->design, s->most, INFINITY, &fit));
    s->plain = 0;
    s->amplify = 0;
    if (fit >= 2) TRY(try_bands(s, fit, 1));
    s->amplify = amplified > 0;
    if (amplified >= 2) TRY(try_bands(s, amplified, 0));
    s->plain = 1;
    return DPMF_OK;
}

enum { BANDED_STEPS = 4096 }; /* beyond, unless named, even a few bands take a minute */

/*
 * An iteration takes O(n b^2), and there are about a hundred under single participation, a thousand under several, where the
 * norms of a unit's columns are free too. This limits n b^2 to some seconds, or to a minute when the family is named.
 */
static int64_t affordable(const dpmf_design *d, int sampled, int64_t most, double times) {
    const int named = design_is_named(d, DPMF_FAMILY_BANDED);
    const double limit = times * (sampled || is_single(d) ? 4e6 : 3e5) * (named ? 10 : 1);
    const double n = (double)d->problem.steps;
    return !sampled && !named && n > BANDED_STEPS ? 1 : (int64_t)fmin(floor(sqrt(limit / n)), (double)most);
}

static void note_bands(dpmf_design *d, int64_t bands) {
    design_note_skipped(d,
                        "General banded C was tried with up to %lld bands: more take too long (--families banded,... "
                        "tries more, optimize --family banded --bands B any number).",
                        (long long)(bands < 2 ? 1 : bands));
}

static dpmf_status add_banded(sweep *s, int64_t bands, int sampled) {
    const dpmf_sampling none = {0}, how = blocks(s, bands);
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    const search_request request = {.family = DPMF_FAMILY_BANDED,
                                    .bands = bands,
                                    .tolerance = 1e-3,
                                    .for_rms_loss = 1,
                                    .single_participation = sampled};
    TRY_DONE(design_optimize(s->design, &request, &strategy, NULL));
    TRY_DONE(add(s, strategy, sampled ? &how : &none));
    s->design->candidates[s->design->count - 1].info.is_search_point = 0;
done:
    dpmf_strategy_free(strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* Unless named, it is not tried for one pass without sampling: it cannot win. For the RMS loss: the max loss is far slower. */
static dpmf_status general_banded(sweep *s) {
    const int can_win = !is_single(s->design) || s->design->options.sampling != DPMF_SAMPLING_NONE;
    int64_t fit = 0, bands = affordable(s->design, 0, s->most, 1);
    int cannot_win = 0;
    if (!design_is_named(s->design, DPMF_FAMILY_BANDED) &&
        !(design_is_allowed(s->design, DPMF_FAMILY_BANDED) && can_win))
        return DPMF_OK;
    if (s->best_bands >= 2 && s->best_bands <= affordable(s->design, 1, s->most, 1))
        TRY(add_banded(s, s->best_bands, 1));
    if (bands >= 2) TRY(design_cannot_win(s->design, "banded without sampling", &cannot_win));
    if (cannot_win) return DPMF_OK;
    if (bands < s->most && bands < s->design->problem.participation->separation) note_bands(s->design, bands);
    if (bands < 2) return DPMF_OK;
    TRY(bands_that_fit(s->design, bands, INFINITY, &fit));
    return fit >= 2 ? add_banded(s, fit, 0) : DPMF_OK;
}

/* Adds a square root cut off after as many bands as the best banded Toeplitz C has: only when named, for that C is better. */
static dpmf_status add_bsr(sweep *s) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    const dpmf_sampling none = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    if (!design_is_named(s->design, DPMF_FAMILY_BSR)) return DPMF_OK;
    TRY(bands_that_fit(s->design, s->most, INFINITY, &o.bands));
    TRY_DONE(dpmf_strategy_create(DPMF_FAMILY_BSR, s->design->problem.workload, &o, &strategy));
    TRY_DONE(add(s, strategy, &none));
    if (s->best_bands < 2) goto done;
    dpmf_strategy_free(strategy);
    strategy = NULL;
    o.bands = s->best_bands;
    const dpmf_sampling how = blocks(s, o.bands);
    TRY_DONE(dpmf_strategy_create(DPMF_FAMILY_BSR, s->design->problem.workload, &o, &strategy));
    TRY_DONE(add(s, strategy, &how));
done:
    dpmf_strategy_free(strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

static sweep begin(dpmf_design *d) {
    return (sweep){.design = d,
                   .most = most_bands(d),
                   .normalize = d->problem.steps <= (d->problem.workload->toeplitz ? 65536 : 2048),
                   .plain = d->plain != d->problem.workload,
                   .amplify = d->options.sampling == DPMF_SAMPLING_BLOCK_CYCLIC};
}

dpmf_status toeplitz_bands_in_time(dpmf_design *d) {
    sweep s = begin(d);
    return design_is_allowed(d, DPMF_FAMILY_BANDED_TOEPLITZ) ? fit_time(&s, DPMF_SAMPLING_NONE) : DPMF_OK;
}

dpmf_status toeplitz_band_candidates(dpmf_design *d) {
    sweep s = begin(d);
    const int64_t all = is_single(d) ? d->problem.steps : d->problem.participation->separation;
    if (s.most < all && !(is_single(d) && d->options.sampling == DPMF_SAMPLING_NONE))
        design_note_skipped(d,
                            "Banded Toeplitz C was tried with up to %lld of at most %lld bands: more take too long to "
                            "evaluate (optimize --family banded-toeplitz --bands B does it).",
                            (long long)s.most, (long long)all);
    if (design_is_allowed(d, DPMF_FAMILY_BANDED_TOEPLITZ)) {
        int64_t fit = 0, bands = 2;
        TRY(bands_that_fit(s.design, s.most, INFINITY, &fit));
        while (s.amplify && s.design->problem.steps / bands > 65536)
            bands *= 2; /* amplification of very many rounds takes its time, and so few bands never win there */
        for (; bands < s.most; bands *= 2)
            TRY(try_bands(&s, bands, 1));
        if (s.most >= 2) TRY(try_bands(&s, s.most, 1));
        if (fit >= 2 && !tried(&s, fit, DPMF_SAMPLING_NONE)) TRY(try_bands(&s, fit, 1));
        if (s.best_bands > 0) TRY(refine(&s));
        TRY(with_schedule(&s));
        TRY(fit_time(&s, DPMF_SAMPLING_BLOCK_CYCLIC));
    }
    if (s.best_bands == 0 && d->options.sampling == DPMF_SAMPLING_BLOCK_CYCLIC) /* McKenna 2024, Section 4.2 */
        s.best_bands = (int64_t)fmin(
            fmax(2, d->problem.epsilon * sqrt((double)d->problem.steps) / (double)d->options.epochs), (double)s.most);
    TRY(general_banded(&s));
    return add_bsr(&s);
}

static dpmf_status add_tapered(const dpmf_design *d, design_federated_range *f, int64_t bands, const double *plain,
                               int64_t from) {
    double *c = NULL;
    dpmf_strategy *s = NULL;
    char made_by[160];
    int kept = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(bands, "the coefficients", &c));
    memcpy(c, plain, (size_t)bands * sizeof *c);
    TRY_DONE(toeplitz_taper(bands, from, c));
    TRY_DONE(dpmf_strategy_create_toeplitz(d->problem.steps, DPMF_TOEPLITZ_BANDED, bands, c, &s));
    snprintf(made_by, sizeof made_by, "optimal banded Toeplitz for separation %lld, tapered from %lld",
             (long long)bands, (long long)from);
    TRY_DONE(design_federated_take(d, f, s, made_by, &kept));
done:
    base_free(c);
    return status;
}

dpmf_status toeplitz_separated_candidates(dpmf_design *d, design_federated_range *f, int64_t i) {
    dpmf_optimize_options o = design_optimize_options(d);
    dpmf_strategy *s = NULL;
    char made_by[160];
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    double *plain = NULL;
    int kept = 0;
    dpmf_status status = DPMF_OK;
    o.bands = f->made_for[i];
    TRY(design_federated_optimum(d, DPMF_FAMILY_BANDED_TOEPLITZ, f->made_for[i], &o, &s));
    if (s == NULL || !strategy_toeplitz(s, &count, &c, &inverse_count, &inverse)) {
        dpmf_strategy_free(s);
        return DPMF_OK;
    }
    status = base_alloc_doubles(o.bands, "the coefficients", &plain);
    if (status != DPMF_OK) {
        dpmf_strategy_free(s);
        return status;
    }
    memcpy(plain, c, (size_t)(count < o.bands ? count : o.bands) * sizeof *plain);
    snprintf(made_by, sizeof made_by, "optimal banded Toeplitz for separation %lld", (long long)o.bands);
    TRY_DONE(design_federated_take(d, f, s, made_by, &kept));
    for (int64_t j = 0; j < i && kept; j++)
        TRY_DONE(add_tapered(d, f, o.bands, plain, f->made_for[j]));
done:
    base_free(plain);
    return status;
}

/*
 * General banded C for a separation: as many bands as that, where one unit's columns do not overlap and the sensitivity is exact, or
 * as many as there is time for, to compute them and to make a row.
 */
dpmf_status toeplitz_general_separated_candidates(dpmf_design *d, design_federated_range *f, int64_t i) {
    const int64_t apart = f->made_for[i] < d->problem.steps ? f->made_for[i] : d->problem.steps;
    const int64_t bands = affordable(d, 0, apart, f->points == 1 ? 10 : 1); /* one search, or one for each separation */
    dpmf_optimize_options o = design_optimize_options(d);
    dpmf_strategy *s = NULL;
    char made_by[160];
    int kept = 0;
    if (bands < apart && i == 0) note_bands(d, bands);
    if (bands < 2 && apart > 1) return DPMF_OK;
    TRY(bands_that_fit(d, bands, d->options.measure ? INFINITY : d->options.max_overhead, &o.bands));
    o.loss = DPMF_LOSS_RMS; /* the max loss is far slower */
    o.tolerance = fmax(o.tolerance, 1e-3);
    TRY(design_federated_optimum(d, DPMF_FAMILY_BANDED, f->made_for[i], &o, &s));
    if (s == NULL) return DPMF_OK;
    snprintf(made_by, sizeof made_by, "banded, %lld bands, optimal for separation %lld, rms loss", (long long)o.bands,
             (long long)f->made_for[i]);
    return design_federated_take(d, f, s, made_by, &kept);
}

/* C^-1 of few bands: short runs, or when named, for BLTs do the same with fewer buffers. */
dpmf_status toeplitz_inverse_candidates(dpmf_design *d) {
    const int64_t most = design_is_named(d, DPMF_FAMILY_BISR) ? 256 : 8;
    double noise = 0;
    if (!design_is_tried(d, DPMF_FAMILY_BISR, 1024)) return DPMF_OK;
    for (int64_t bands = 2; bands <= most && bands < d->problem.steps; bands *= 2) {
        search_request request = {.family = DPMF_FAMILY_BISR, .bands = bands, .is_search_point = 1, .tolerance = 1e-4};
        TRY(design_add_best(d, &request, &noise));
        if (!isfinite(noise)) break;
    }
    return DPMF_OK;
}

/*
 * The best coefficients of all; where that search would take too long, the square root with the best damping, which is then
 * within a few percent of them. When named, both.
 */
enum { DAMPED_STEPS = 16384 }; /* beyond, no stream keeps as many rows, unless it is named */

dpmf_status toeplitz_candidates(dpmf_design *d) {
    const search_request request = {.family = DPMF_FAMILY_TOEPLITZ, .tolerance = 1e-4};
    const search_request damped = {
        .family = DPMF_FAMILY_TOEPLITZ, .damped = 1, .without_schedule = 1, .is_search_point = 1};
    const int best = design_is_tried(d, DPMF_FAMILY_TOEPLITZ, d->problem.workload->toeplitz ? 2048 : 512);
    if (best) TRY(design_add_best(d, &request, NULL));
    if (best != design_is_named(d, DPMF_FAMILY_TOEPLITZ) || !design_is_allowed(d, DPMF_FAMILY_TOEPLITZ)) return DPMF_OK;
    return best || d->problem.steps <= DAMPED_STEPS ? design_add_best(d, &damped, NULL) : DPMF_OK;
}
