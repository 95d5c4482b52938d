/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded mechanisms (McKenna 2024, Sections 3 and 4): how many bands?
 *
 * With C of b <= separation bands the columns that one unit touches are orthogonal, so that the same C is the best
 * Toeplitz one with and without sampling: the one for single participation. Not sampled, its noise falls with b.
 * Amplified, more bands mean less loss and less amplification, and sigma(b) x loss(b) has its minimum where they
 * balance, near b = epsilon sqrt(n) / k (Section 4.2). b runs over powers of two until the noise has clearly risen, and
 * then over values between the best and its neighbours. Among the values of b with the same number of rounds ceil(n/b)
 * the least is taken: it has the least probability q b.
 *
 * Each point is the better of C and C with normalized columns (Appendix K), where that is cheap to know.
 */
#include "base/memory.h"
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct sweep {
    design_problem *p;
    int64_t most; /* bands */
    int normalize;
    int plain;          /* 1: the workload has a schedule, and C is optimized without it */
    int amplify;        /* 1: sampling is asked for, and the noise has not clearly risen yet */
    double best;        /* amplified noise, and its bands */
    int64_t best_bands; /* 0: none yet */
} sweep;

static const double CLEARLY = 1.5; /* noise over the least so far: past the minimum for good */

/* ---- limits ---- */

static int is_single(const design_problem *p) {
    return dpmf_participation_is_single(p->participation);
}

/*
 * The error of b bands takes O(n b) for a Toeplitz workload, O(n^2) or less with a schedule, O(n b^2) if weights decay
 * besides and the run is long; matrices are worse. The limits keep a point below a second or so.
 */
static int64_t most_bands(const design_problem *p) {
    const double n = (double)p->steps;
    double most = is_single(p) ? n : (double)dpmf_participation_separation(p->participation);
    if (p->workload->toeplitz)
        most = fmin(most, fmin(8192, fmax(512, 5e8 / n)));
    else if (p->workload->form != WORKLOAD_NAMED)
        most = fmin(most, 16);
    else if (p->workload->decay == 0)
        most = fmin(most, n > 65536 ? 2048 : n); /* near linear in n, or O(n^2) (error/schedule.c) */
    else if (n > 65536)
        most = fmin(most, fmax(16, sqrt(1e9 / n)));
    /* One pass and no sampling: a handful of buffers does better than any band that is not the whole matrix. */
    if (is_single(p) && p->options.sampling == DPMF_SAMPLING_NONE) most = fmin(most, 512);
    return (int64_t)most;
}

/* The most bands up to `most` whose noise stream fits the memory and takes at most `overhead`; 1 if even 2 do not. */
static dpmf_status bands_that_fit(const design_problem *p, int64_t most, double overhead, int64_t *out) {
    int64_t low = 1, high = most + 1;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(most, "coefficients", &c));
    for (int64_t i = 0; i < most; i++)
        c[i] = 1; /* only their number matters */
    while (high - low > 1) {
        int64_t middle = high > 2 * low ? low * 2 : low + (high - low) / 2;
        uint64_t bytes = 0;
        double takes = 0;
        dpmf_strategy *s = NULL;
        TRY_DONE(dpmf_strategy_create_banded_toeplitz(p->steps, middle, c, &s));
        status = design_cost(p, s, &bytes, &takes);
        dpmf_strategy_free(s);
        if (status != DPMF_OK) goto done;
        if (design_fits(p, bytes) && takes <= overhead)
            low = middle;
        else
            high = middle;
    }
    *out = low;
done:
    base_free(c);
    return status;
}

/* ---- one point ---- */

static double noise_of(const design_problem *p, int64_t i) {
    return p->list.entry[i].compared;
}

static void drop(design_list *list, int64_t i) {
    dpmf_strategy_free(list->entry[i].strategy);
    list->count--;
    memmove(list->entry + i, list->entry + i + 1, (size_t)(list->count - i) * sizeof *list->entry);
}

/* Of the entries from `first` on, which differ in sampling and normalization, keeps the better for each sampling. */
static void keep_better(design_problem *p, int64_t first) {
    for (int64_t i = first; i < p->list.count; i++)
        for (int64_t j = p->list.count - 1; j > i; j--) {
            if (p->list.entry[i].shown.sampling.kind != p->list.entry[j].shown.sampling.kind) continue;
            if (noise_of(p, j) < noise_of(p, i)) {
                design_entry e = p->list.entry[i];
                p->list.entry[i] = p->list.entry[j];
                p->list.entry[j] = e;
            }
            drop(&p->list, j);
        }
}

static dpmf_status offer(sweep *s, const dpmf_strategy *strategy, const dpmf_sampling *sampling) {
    char made_by[160];
    snprintf(made_by, sizeof made_by, "design: %s, %s loss, %lld bands", dpmf_strategy_family(strategy),
             s->p->options.loss == DPMF_LOSS_MAX ? "max" : "rms", (long long)dpmf_strategy_bands(strategy));
    return design_add(
        s->p, &(design_offer){.strategy = strategy, .sampling = *sampling, .swept = 1, .made_by = made_by}, NULL);
}

static dpmf_sampling blocks(const sweep *s, int64_t bands) {
    return (dpmf_sampling){DPMF_SAMPLING_BLOCK_CYCLIC, s->p->probability,  bands, 0,
                           s->p->options.batch_cap,    s->p->options.units};
}

static dpmf_status offer_both(sweep *s, const dpmf_strategy *strategy, int64_t bands, int unsampled) {
    const dpmf_sampling none = {0}, sampled = blocks(s, bands);
    if (unsampled) TRY(offer(s, strategy, &none));
    if (s->amplify) TRY(offer(s, strategy, &sampled));
    return DPMF_OK;
}

static void learn(sweep *s, int64_t first) {
    for (int64_t i = first; i < s->p->list.count; i++) {
        const design_entry *e = &s->p->list.entry[i];
        if (e->shown.sampling.kind != DPMF_SAMPLING_BLOCK_CYCLIC) continue;
        if (s->best_bands == 0 || e->compared < s->best) {
            s->best = e->compared;
            s->best_bands = e->shown.sampling.count;
        }
        if (e->compared > CLEARLY * s->best) s->amplify = 0;
    }
}

/* For the loss that is asked for, or for the RMS loss all the same. */
static dpmf_status try_loss(sweep *s, int64_t bands, int unsampled, int rms) {
    dpmf_strategy *plain = NULL, *normalized = NULL;
    dpmf_status status = DPMF_OK;
    const design_wish wish = {.family = DPMF_FAMILY_BANDED_TOEPLITZ, .bands = bands, .plain = s->plain, .rms = rms};
    TRY_DONE(design_optimize(s->p, &wish, 1, &plain, NULL));
    TRY_DONE(offer_both(s, plain, bands, unsampled));
    if (s->normalize) {
        TRY_DONE(dpmf_strategy_create_normalized(plain, &normalized));
        TRY_DONE(offer_both(s, normalized, bands, unsampled));
    }
done:
    dpmf_strategy_free(normalized);
    dpmf_strategy_free(plain);
    return design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status try_bands(sweep *s, int64_t bands, int unsampled) {
    const int64_t first = s->p->list.count;
    TRY(try_loss(s, bands, unsampled, 0));
    if (s->p->options.loss == DPMF_LOSS_MAX) TRY(try_loss(s, bands, unsampled, 1));
    keep_better(s->p, first);
    learn(s, first);
    return DPMF_OK;
}

/* ---- the sweep ---- */

static int tried(const sweep *s, int64_t bands, dpmf_sampling_kind kind) {
    for (int64_t i = 0; i < s->p->list.count; i++) {
        const dpmf_candidate *c = &s->p->list.entry[i].shown;
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

/* Between the best power of two and its neighbours, coarsely and then more finely. */
static dpmf_status refine(sweep *s) {
    static const double FACTORS[][2] = {{0.7071, 1.4142}, {0.8409, 1.1892}, {0.9170, 1.0905}};
    for (size_t i = 0; i < sizeof FACTORS / sizeof FACTORS[0]; i++) {
        const double around = (double)s->best_bands;
        for (int side = 0; side < 2; side++) {
            double wanted = fmin(fmax(2, round(around * FACTORS[i][side])), (double)s->most);
            int64_t bands = snap(s->p->steps, (int64_t)wanted);
            if (bands < 2 || tried(s, bands, DPMF_SAMPLING_BLOCK_CYCLIC)) continue;
            s->amplify = 1;
            TRY(try_bands(s, bands, 0));
        }
    }
    return DPMF_OK;
}

/* The least noise that fits the memory. */
static int64_t best_that_fits(const design_problem *p) {
    int64_t best = -1;
    for (int64_t i = 0; i < p->list.count; i++) {
        if (!design_fits(p, p->list.entry[i].shown.memory_bytes)) continue;
        if (best < 0 || noise_of(p, i) < noise_of(p, best)) best = i;
    }
    return best;
}

enum { TIME_TRIES = 3 };

/*
 * The best of a kind that fits the memory may be too slow, and powers of two are far apart: one more point, with as many
 * bands as the time allows. Where times are measured, the model's point may be too slow again, and the limit moves by as
 * much as the measurement was above it.
 */
static dpmf_status fit_time(sweep *s, dpmf_sampling_kind kind) {
    design_problem *p = s->p;
    const int unsampled = kind == DPMF_SAMPLING_NONE;
    double allowed = p->options.max_overhead;
    int64_t at = best_that_fits(p);
    for (int i = 0; i < TIME_TRIES && at >= 0; i++) {
        const dpmf_candidate *c = &p->list.entry[at].shown;
        int64_t bands = 0;
        int enough = 1;
        if (c->sampling.kind != kind || strcmp(c->family, DPMF_FAMILY_BANDED_TOEPLITZ) != 0)
            return DPMF_OK; /* it cannot win */
        TRY(design_ask_time(p, at, &enough));
        if (enough) return DPMF_OK;
        if (i > 0) allowed *= p->options.max_overhead / c->overhead;
        TRY(bands_that_fit(p, c->bands, allowed, &bands));
        if (!unsampled) bands = snap(p->steps, bands);
        if (bands < 2 || bands >= c->bands || tried(s, bands, kind)) return DPMF_OK;
        s->amplify = !unsampled;
        TRY(try_bands(s, bands, unsampled));
        at = p->list.count - 1;
    }
    return DPMF_OK;
}

/* Amplification of very many rounds takes its time, and so few bands never win there. */
static int64_t first_bands(const sweep *s) {
    int64_t bands = 2;
    while (s->amplify && s->p->steps / bands > 65536)
        bands *= 2;
    return bands;
}

/*
 * With a schedule: the leaders once more, optimized for it. Up to so many steps, for that takes O(n^2) an iteration.
 */
static const int64_t SCHEDULE_STEPS = 4096;

static dpmf_status with_schedule(sweep *s) {
    const int64_t amplified = s->best_bands;
    int64_t fit = 0;
    if (!s->plain || s->p->steps > SCHEDULE_STEPS) return DPMF_OK;
    TRY(bands_that_fit(s->p, s->most, INFINITY, &fit));
    s->plain = 0;
    s->amplify = 0;
    if (fit >= 2) TRY(try_bands(s, fit, 1));
    s->amplify = amplified > 0;
    if (amplified >= 2) TRY(try_bands(s, amplified, 0));
    s->plain = 1;
    return DPMF_OK;
}

static dpmf_status sweep_toeplitz(sweep *s) {
    int64_t fit = 0;
    TRY(bands_that_fit(s->p, s->most, INFINITY, &fit));
    for (int64_t bands = first_bands(s); bands < s->most; bands *= 2)
        TRY(try_bands(s, bands, 1));
    if (s->most >= 2) TRY(try_bands(s, s->most, 1));
    if (fit >= 2 && !tried(s, fit, DPMF_SAMPLING_NONE)) TRY(try_bands(s, fit, 1));
    if (s->best_bands > 0) TRY(refine(s));
    TRY(with_schedule(s));
    return fit_time(s, DPMF_SAMPLING_BLOCK_CYCLIC);
}

/* ---- general banded C ---- */

/*
 * An iteration takes O(n b^2), and there are about a hundred under single participation, a thousand under several,
 * where the norms of a unit's columns are free too. n b^2 at most so much: some seconds, or, when named, a minute.
 */
static double cost_limit(const design_problem *p, int sampled) {
    double limit = sampled || is_single(p) ? 4e6 : 3e5;
    return design_names(p, DPMF_FAMILY_BANDED) ? 10 * limit : limit;
}

enum { BANDED_STEPS = 4096 }; /* beyond, unless named, even a few bands take a minute */

static int64_t affordable(const sweep *s, int sampled) {
    if (!sampled && s->p->steps > BANDED_STEPS && !design_names(s->p, DPMF_FAMILY_BANDED)) return 1;
    double bands = floor(sqrt(cost_limit(s->p, sampled) / (double)s->p->steps));
    return (int64_t)fmin(bands, (double)s->most);
}

static dpmf_status offer_banded(sweep *s, int64_t bands, int sampled) {
    const dpmf_sampling none = {0}, how = blocks(s, bands);
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    const design_wish wish = {.family = DPMF_FAMILY_BANDED, .bands = bands, .tolerance = 1e-3, .rms = 1};
    TRY_DONE(design_optimize(s->p, &wish, sampled, &strategy, NULL));
    TRY_DONE(offer(s, strategy, sampled ? &how : &none));
    s->p->list.entry[s->p->list.count - 1].shown.swept = 0;
done:
    dpmf_strategy_free(strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* Unless named: not for one pass without sampling, where it cannot win. For the RMS loss: the max takes far longer. */
static int banded_is_worth(const design_problem *p) {
    if (design_names(p, DPMF_FAMILY_BANDED)) return 1;
    return design_wants(p, DPMF_FAMILY_BANDED) && (!is_single(p) || p->options.sampling != DPMF_SAMPLING_NONE);
}

static dpmf_status general_banded(sweep *s) {
    int64_t fit = 0, bands = affordable(s, 0);
    int beaten = 0;
    if (!banded_is_worth(s->p)) return DPMF_OK;
    if (s->best_bands >= 2 && s->best_bands <= affordable(s, 1)) TRY(offer_banded(s, s->best_bands, 1));
    if (bands >= 2) TRY(design_is_beaten(s->p, "banded without sampling", &beaten));
    if (beaten) return DPMF_OK;
    if (bands < s->most && bands < dpmf_participation_separation(s->p->participation))
        design_limit(s->p,
                     "General banded C was tried with up to %lld bands: more take too long (--families banded,... "
                     "tries more, optimize --family banded --bands B any number).",
                     (long long)(bands < 2 ? 1 : bands));
    if (bands < 2) return DPMF_OK;
    TRY(bands_that_fit(s->p, bands, INFINITY, &fit));
    return fit >= 2 ? offer_banded(s, fit, 0) : DPMF_OK;
}

/* A square root cut off after as many bands as the best banded Toeplitz C: only when named, for that is better. */
static dpmf_status offer_bsr(sweep *s) {
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    const dpmf_sampling none = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    if (!design_names(s->p, DPMF_FAMILY_BSR)) return DPMF_OK;
    TRY(bands_that_fit(s->p, s->most, INFINITY, &o.bands));
    TRY_DONE(dpmf_strategy_create(DPMF_FAMILY_BSR, s->p->workload, &o, &strategy));
    TRY_DONE(offer(s, strategy, &none));
    if (s->best_bands < 2) goto done;
    dpmf_strategy_free(strategy);
    strategy = NULL;
    o.bands = s->best_bands;
    const dpmf_sampling how = blocks(s, o.bands);
    TRY_DONE(dpmf_strategy_create(DPMF_FAMILY_BSR, s->p->workload, &o, &strategy));
    TRY_DONE(offer(s, strategy, &how));
done:
    dpmf_strategy_free(strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

static sweep begin(design_problem *p) {
    return (sweep){.p = p,
                   .most = most_bands(p),
                   .normalize = p->steps <= (p->workload->toeplitz ? 65536 : 2048),
                   .plain = p->plain != p->workload,
                   .amplify = p->options.sampling == DPMF_SAMPLING_BLOCK_CYCLIC};
}

dpmf_status design_bands_in_time(design_problem *p) {
    sweep s = begin(p);
    return design_wants(p, DPMF_FAMILY_BANDED_TOEPLITZ) ? fit_time(&s, DPMF_SAMPLING_NONE) : DPMF_OK;
}

dpmf_status design_bands(design_problem *p) {
    sweep s = begin(p);
    const int64_t all = is_single(p) ? p->steps : dpmf_participation_separation(p->participation);
    if (s.most < all && !(is_single(p) && p->options.sampling == DPMF_SAMPLING_NONE))
        design_limit(p,
                     "Banded Toeplitz C was tried with up to %lld of at most %lld bands: more take too long to "
                     "evaluate (optimize --family banded-toeplitz --bands B does it).",
                     (long long)s.most, (long long)all);
    if (design_wants(p, DPMF_FAMILY_BANDED_TOEPLITZ)) TRY(sweep_toeplitz(&s));
    if (s.best_bands == 0 && p->options.sampling == DPMF_SAMPLING_BLOCK_CYCLIC) /* McKenna 2024, Section 4.2 */
        s.best_bands = (int64_t)fmin(fmax(2, p->options.epsilon * sqrt((double)p->steps) / (double)p->options.epochs),
                                     (double)s.most);
    TRY(general_banded(&s));
    return offer_bsr(&s);
}
