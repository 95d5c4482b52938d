/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families whose only choice is a number of buffers, or none (TV-BLTs: design/tvblt.c). What takes long for what it
 * brings is tried only up to so many steps, or when it is named. A whole Toeplitz or dense C has a noise stream that costs O(n) a step: the
 * choice for short runs and few coordinates, and a yardstick otherwise.
 */
#include "design/design.h"

#include "base/lower.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int has_several(const design_problem *p) {
    return !dpmf_participation_is_single(p->participation);
}

/* A family without parameters; one that does not know the workload is passed over. */
static dpmf_status offer_named(design_problem *p, const char *family, const dpmf_sampling *sampling) {
    dpmf_strategy *s = NULL;
    dpmf_status status = dpmf_strategy_create(family, p->workload, NULL, &s);
    if (status == DPMF_OK)
        status = design_add(p, &(design_offer){.strategy = s, .sampling = *sampling, .made_by = "design: closed form"},
                            NULL);
    dpmf_strategy_free(s);
    return design_may_skip(status) ? DPMF_OK : status;
}

dpmf_status design_closed_forms(design_problem *p) {
    /* steps_max: beyond it the sensitivity or the error is not cheap; 0: only when named, for others are always better */
    static const struct {
        const char *family;
        int64_t steps_max;
    } NAMED[] = {{DPMF_FAMILY_IDENTITY, INT64_MAX},
                 {DPMF_FAMILY_TREE_ONLINE, 1 << 20},
                 {DPMF_FAMILY_TREE_FULL, 1 << 20},
                 {DPMF_FAMILY_TREE, 0},
                 {DPMF_FAMILY_FFT, 0},
                 {DPMF_FAMILY_FFT_OPT, 4096},
                 {DPMF_FAMILY_WORKLOAD, 0}};
    const dpmf_sampling none = {0},
                        poisson = {DPMF_SAMPLING_POISSON, p->probability, 1, 0, p->options.batch_cap, p->options.units};
    for (size_t i = 0; i < sizeof NAMED / sizeof NAMED[0]; i++)
        if (design_worth(p, NAMED[i].family, NAMED[i].steps_max)) TRY(offer_named(p, NAMED[i].family, &none));
    const dpmf_sampling_kind kind = p->options.sampling;
    if ((kind == DPMF_SAMPLING_POISSON || kind == DPMF_SAMPLING_BLOCK_CYCLIC) && design_wants(p, DPMF_FAMILY_IDENTITY))
        TRY(offer_named(p, DPMF_FAMILY_IDENTITY, &poisson)); /* DP-SGD */
    return has_several(p) ? design_find_bound(p) : DPMF_OK;  /* spares searches below what is proven */
}

/* ---- sweeps over buffers ---- */

/*
 * One more buffer is worth trying while the last one took off so much; more, where BLTs are far from the least noise and
 * cannot win. The first BLT_LEAST are for the picture.
 */
static const double BUFFER_GAIN = 2e-4, SMALL_GAIN = 5e-3, FAR = 1.02;
enum { BLT_LEAST = 5, BLT_MOST = 10 };

static dpmf_status sweep_blt(design_problem *p) {
    double before = INFINITY, noise = INFINITY;
    int beaten = 0;
    if (!design_wants(p, DPMF_FAMILY_BLT)) return DPMF_OK;
    TRY(design_is_beaten(p, NULL, &beaten));
    for (int d = 1; d <= BLT_MOST; d++) {
        const double gain = beaten || noise > FAR * design_least(p) ? SMALL_GAIN : BUFFER_GAIN;
        if (d > BLT_LEAST && !(noise < before * (1 - gain))) break;
        before = noise;
        TRY(design_offer_best(p, &(design_wish){.family = DPMF_FAMILY_BLT, .buffers = d, .swept = 1}, &noise));
        if (d == 1 && !isfinite(noise)) break; /* not for this workload */
    }
    return DPMF_OK;
}

/* C^-1 of few bands: short runs, or when named, for BLTs do the same with fewer buffers. */
static dpmf_status sweep_bisr(design_problem *p) {
    const int64_t most = design_names(p, DPMF_FAMILY_BISR) ? 256 : 8;
    double noise = 0;
    if (!design_worth(p, DPMF_FAMILY_BISR, 1024)) return DPMF_OK;
    for (int64_t bands = 2; bands <= most && bands < p->steps; bands *= 2) {
        design_wish wish = {.family = DPMF_FAMILY_BISR, .bands = bands, .swept = 1, .tolerance = 1e-4};
        TRY(design_offer_best(p, &wish, &noise));
        if (!isfinite(noise)) break;
    }
    return DPMF_OK;
}

/* ---- whole matrices ---- */

/*
 * Seconds, roughly, on one core, from what takes longest: evaluations of the dual, O(n k^2), and matrices. Predicted, not
 * measured, so that the answer is the same on every machine. Without sampling nothing is better than dense; its stream
 * is slow, and whether it is too slow is for the measurement to say. Over several epochs the max loss converges slowly, with
 * momentum very slowly (0.1 %, 5 epochs: 266 steps of prefix sums 9 s, 120 with momentum more than a minute).
 */
static double dense_seconds(const design_problem *p) {
    const double n = (double)p->steps, k = (double)dpmf_participation_count(p->participation);
    const int momentum = p->workload->momentum > 0, max_loss = p->options.loss == DPMF_LOSS_MAX;
    if (!has_several(p)) return 1e-9 * (max_loss ? 10 : 1) * n * n * n;
    const double evaluations = (momentum ? 9e-5 : 3e-5) * n * k * k * (!max_loss ? 1 : momentum ? 300 : 40);
    return evaluations + 2e-10 * (max_loss ? 10 : 1) * n * n * n;
}

/* Does a stream of any dense C fit the memory? */
static dpmf_status dense_fits(const design_problem *p, int *fits) {
    const int64_t n = p->steps;
    double *c = NULL;
    dpmf_strategy *s = NULL;
    uint64_t bytes = 0;
    double overhead = 0;
    dpmf_status status = DPMF_OK;
    *fits = 1;
    if (p->options.memory == 0) return DPMF_OK;
    TRY(base_alloc_square(n, "C", &c));
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t; u++)
            c[t * n + u] = u == t ? 2 : 1; /* only where it is not zero matters */
    TRY_DONE(dpmf_strategy_create_dense(n, c, &s));
    TRY_DONE(design_cost(p, s, &bytes, &overhead));
    *fits = design_fits(p, bytes);
done:
    dpmf_strategy_free(s);
    base_free(c);
    return status;
}

/* Beyond so many steps the stream of dense is slower, and keeps more, than that of anybody else. */
static const int64_t DENSE_STREAMS = 128;

static dpmf_status offer_dense(design_problem *p) {
    const double most = 60; /* seconds */
    int fits = 1, beaten = 0;
    const int named = design_names(p, DPMF_FAMILY_DENSE);
    if (p->steps < 2 || !design_wants(p, DPMF_FAMILY_DENSE)) return DPMF_OK;
    if (p->steps > DPMF_DENSE_STEPS_MAX) {
        design_limit(p, "dense was left out: the library does not form it for more than %d steps.",
                     (int)DPMF_DENSE_STEPS_MAX);
        return DPMF_OK;
    }
    if (!named) TRY(design_is_beaten(p, "dense", &beaten));
    if (beaten) return DPMF_OK;
    if (!named && p->steps > DENSE_STREAMS && design_is_proven(p)) {
        design_limit(p, "dense was left out: a mechanism above is within 0.1 %% of the proven bound "
                        "(--families dense,... includes it).");
        return DPMF_OK;
    }
    if (!named && dense_seconds(p) > most) {
        design_limit(p,
                     "dense was left out: computing it would take about %.2g s, more than %g (--families "
                     "dense,... includes it).",
                     dense_seconds(p), most);
        return DPMF_OK;
    }
    TRY(dense_fits(p, &fits));
    if (!named && p->steps > DENSE_STREAMS && !fits) {
        design_limit(p, "dense was left out: its noise stream does not fit the memory (--memory BYTES).");
        return DPMF_OK;
    }
    /* the max loss converges slowly: its last digit would take longer than all the rest */
    const double tolerance = p->steps <= DENSE_STREAMS && p->options.loss == DPMF_LOSS_RMS ? 1e-4 : 1e-3;
    return design_offer_best(p, &(design_wish){.family = DPMF_FAMILY_DENSE, .tolerance = tolerance}, NULL);
}

/* One pass: where TV-BLTs are not next to the optimum, as with momentum for the max loss, or when named. */
static dpmf_status offer_lowrank(design_problem *p) {
    const int named = design_names(p, DPMF_FAMILY_LOWRANK);
    design_wish wish = {.family = DPMF_FAMILY_LOWRANK, .bands = 2, .buffers = 6, .tolerance = 1e-4};
    if (named && p->steps >= 8) return design_offer_best(p, &wish, NULL);
    wish.swept = 1;
    if (has_several(p) || !design_worth(p, DPMF_FAMILY_LOWRANK, 512)) return DPMF_OK;
    for (wish.buffers = 1; wish.buffers <= 4 && 2 * wish.buffers <= p->steps && !design_is_proven(p); wish.buffers *= 2)
        TRY(design_offer_best(p, &wish, NULL));
    return DPMF_OK;
}

static dpmf_status offer_whole(design_problem *p) {
    TRY(offer_lowrank(p));
    TRY(offer_dense(p));
    if (design_worth(p, DPMF_FAMILY_TOEPLITZ, p->workload->toeplitz ? 2048 : 512))
        TRY(design_offer_best(p, &(design_wish){.family = DPMF_FAMILY_TOEPLITZ, .tolerance = 1e-4}, NULL));
    return DPMF_OK;
}

dpmf_status design_families(design_problem *p) {
    TRY(design_tvblt(p));
    TRY(sweep_blt(p));
    TRY(sweep_bisr(p));
    return offer_whole(p);
}
