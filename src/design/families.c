/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families in the order in which they add their candidates, and those whose only choice is a number of buffers, or
 * none. A family that takes long for its gain is tried only up to a number of steps, or when it is named. A whole
 * Toeplitz or dense C has a noise stream that costs O(n) per step: the choice for short runs and few coordinates, and a
 * yardstick otherwise.
 */
#include "design/design.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int has_several(const dpmf_design *d) {
    return !workload_is_single(d->problem.participation);
}

/* Adds a family without parameters; one that does not support the workload is passed over. */
static dpmf_status add_closed_form(dpmf_design *d, const char *family, const dpmf_sampling *sampling) {
    candidate c = {.info.sampling = *sampling};
    dpmf_status status = dpmf_strategy_create(family, d->problem.workload, NULL, &c.strategy);
    if (status == DPMF_OK) status = design_add(d, &c, "design: closed form", NULL);
    dpmf_strategy_free(c.strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* ---- sweeps over buffers ---- */

/*
 * One more buffer is tried while the last one lowered the noise by BUFFER_GAIN, or by SMALL_GAIN where BLTs cannot win
 * or are FAR from the least noise. The first BLT_LEAST are always tried, for the report's picture.
 */
static const double BUFFER_GAIN = 2e-4, SMALL_GAIN = 5e-3, FAR = 1.02;
enum { BLT_LEAST = 5, BLT_MOST = 10 };

static dpmf_status design_blt(dpmf_design *d) {
    double before = INFINITY, noise = INFINITY;
    int cannot_win = 0;
    if (!design_is_allowed(d, DPMF_FAMILY_BLT)) return DPMF_OK;
    TRY(design_cannot_win(d, NULL, &cannot_win));
    for (int buffers = 1; buffers <= BLT_MOST; buffers++) {
        const double gain = cannot_win || noise > FAR * design_least(d) ? SMALL_GAIN : BUFFER_GAIN;
        if (buffers > BLT_LEAST && !(noise < before * (1 - gain))) break;
        before = noise;
        TRY(design_add_best(d, &(search_request){.family = DPMF_FAMILY_BLT, .buffers = buffers, .is_search_point = 1},
                            &noise));
        if (buffers == 1 && !isfinite(noise)) break; /* not for this workload */
    }
    return DPMF_OK;
}

/* C^-1 of few bands: short runs, or when named, for BLTs do the same with fewer buffers. */
static dpmf_status design_bisr(dpmf_design *d) {
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

/* ---- whole matrices ---- */

/*
 * Seconds, roughly, on one core, from what takes longest: evaluations of the dual, O(n k^2), and matrices. Predicted,
 * not measured, so that the answer is the same on every machine. Without sampling nothing is better than dense; its
 * stream is slow, and the choice decides whether it is too slow. Over several epochs the max loss converges slowly,
 * with momentum very slowly (0.1 %, 5 epochs: 266 steps of prefix sums 9 s, 120 with momentum more than a minute).
 */
static double dense_seconds(const dpmf_design *d) {
    const double n = (double)d->problem.steps, k = (double)d->problem.participation->count;
    const int momentum = d->problem.workload->momentum > 0, max_loss = d->problem.loss == DPMF_LOSS_MAX;
    if (!has_several(d)) return 1e-9 * (max_loss ? 10 : 1) * n * n * n;
    const double evaluations = (momentum ? 9e-5 : 3e-5) * n * k * k * (!max_loss ? 1 : momentum ? 300 : 40);
    return evaluations + 2e-10 * (max_loss ? 10 : 1) * n * n * n;
}

/* Does a stream of any dense C fit the memory? */
static dpmf_status dense_fits(const dpmf_design *d, int *fits) {
    const int64_t n = d->problem.steps;
    double *c = NULL;
    dpmf_strategy *s = NULL;
    uint64_t bytes = 0;
    double overhead = 0;
    dpmf_status status = DPMF_OK;
    *fits = 1;
    if (d->options.memory == 0) return DPMF_OK;
    TRY(base_alloc_square(n, "C", &c));
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t; u++)
            c[t * n + u] = u == t ? 2 : 1; /* only where it is not zero matters */
    TRY_DONE(dpmf_strategy_create_dense(n, c, &s));
    TRY_DONE(design_cost(d, s, &bytes, &overhead));
    *fits = design_fits(d, bytes);
done:
    dpmf_strategy_free(s);
    base_free(c);
    return status;
}

/* Above this many steps the dense stream is slower and larger than every other. */
static const int64_t DENSE_STREAMS = 128;

static dpmf_status design_dense(dpmf_design *d) {
    const double most = 60; /* seconds */
    int fits = 1, cannot_win = 0;
    const int named = design_is_named(d, DPMF_FAMILY_DENSE);
    if (d->problem.steps < 2 || !design_is_allowed(d, DPMF_FAMILY_DENSE)) return DPMF_OK;
    if (d->problem.steps > DPMF_DENSE_STEPS_MAX) {
        design_note_skipped(d, "dense was left out: the library does not form it for more than %d steps.",
                            (int)DPMF_DENSE_STEPS_MAX);
        return DPMF_OK;
    }
    if (!named) TRY(design_cannot_win(d, "dense", &cannot_win));
    if (cannot_win) return DPMF_OK;
    if (!named && d->problem.steps > DENSE_STREAMS && design_is_proven(d)) {
        design_note_skipped(d, "dense was left out: a mechanism above is within 0.1 %% of the proven bound "
                               "(--families dense,... includes it).");
        return DPMF_OK;
    }
    if (!named && dense_seconds(d) > most) {
        design_note_skipped(d,
                            "dense was left out: computing it would take about %.2g s, more than %g (--families "
                            "dense,... includes it).",
                            dense_seconds(d), most);
        return DPMF_OK;
    }
    TRY(dense_fits(d, &fits));
    if (!named && d->problem.steps > DENSE_STREAMS && !fits) {
        design_note_skipped(d, "dense was left out: its noise stream does not fit the memory (--memory BYTES).");
        return DPMF_OK;
    }
    /* the max loss converges slowly: its last digit would take longer than all the rest */
    const double tolerance = d->problem.steps <= DENSE_STREAMS && d->problem.loss == DPMF_LOSS_RMS ? 1e-4 : 1e-3;
    return design_add_best(d, &(search_request){.family = DPMF_FAMILY_DENSE, .tolerance = tolerance}, NULL);
}

/* One pass: where TV-BLTs are not next to the optimum, as with momentum for the max loss, or when named. */
static dpmf_status design_lowrank(dpmf_design *d) {
    const int named = design_is_named(d, DPMF_FAMILY_LOWRANK);
    search_request request = {.family = DPMF_FAMILY_LOWRANK, .bands = 2, .buffers = 6, .tolerance = 1e-4};
    if (named && d->problem.steps >= 8) return design_add_best(d, &request, NULL);
    request.is_search_point = 1;
    if (has_several(d) || !design_is_tried(d, DPMF_FAMILY_LOWRANK, 512)) return DPMF_OK;
    for (request.buffers = 1; request.buffers <= 4 && 2 * request.buffers <= d->problem.steps && !design_is_proven(d);
         request.buffers *= 2)
        TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}

static dpmf_status design_toeplitz(dpmf_design *d) {
    const search_request request = {.family = DPMF_FAMILY_TOEPLITZ, .tolerance = 1e-4};
    if (!design_is_tried(d, DPMF_FAMILY_TOEPLITZ, d->problem.workload->toeplitz ? 2048 : 512)) return DPMF_OK;
    return design_add_best(d, &request, NULL);
}

/* ---- all of them ---- */

/*
 * Closed forms, tried up to `steps_max` steps, where sensitivity and error are cheap; 0: only when named, for others
 * are better.
 */
static const struct {
    const char *family;
    int64_t steps_max;
} CLOSED_FORMS[] = {{DPMF_FAMILY_IDENTITY, INT64_MAX},
                    {DPMF_FAMILY_TREE_ONLINE, 1 << 20},
                    {DPMF_FAMILY_TREE_FULL, 1 << 20},
                    {DPMF_FAMILY_TREE, 0},
                    {DPMF_FAMILY_FFT, 0},
                    {DPMF_FAMILY_FFT_OPT, 4096},
                    {DPMF_FAMILY_WORKLOAD, 0}};

/* The families that are searched, in this order: what one has reached can spare the next ones their search. */
static dpmf_status (*const SEARCHED[])(dpmf_design *d) = {design_tvblt,   design_blt,   design_bisr,
                                                          design_lowrank, design_dense, design_toeplitz};

dpmf_status design_candidates(dpmf_design *d) {
    const dpmf_sampling none = {0},
                        poisson = {DPMF_SAMPLING_POISSON, d->probability, 1, 0, d->options.batch_cap, d->options.units};
    const dpmf_sampling_kind kind = d->options.sampling;
    if (d->options.federated) return design_federated(d);
    for (size_t i = 0; i < sizeof CLOSED_FORMS / sizeof CLOSED_FORMS[0]; i++)
        if (design_is_tried(d, CLOSED_FORMS[i].family, CLOSED_FORMS[i].steps_max))
            TRY(add_closed_form(d, CLOSED_FORMS[i].family, &none));
    if ((kind == DPMF_SAMPLING_POISSON || kind == DPMF_SAMPLING_BLOCK_CYCLIC) &&
        design_is_allowed(d, DPMF_FAMILY_IDENTITY))
        TRY(add_closed_form(d, DPMF_FAMILY_IDENTITY, &poisson)); /* DP-SGD */
    if (has_several(d)) TRY(design_find_bound(d));               /* spares searches below what is proven */
    /* With sampling bands come first: where they have less noise than is proven for all others, those are left out. */
    if (kind != DPMF_SAMPLING_NONE) TRY(design_bands(d));
    for (size_t i = 0; i < sizeof SEARCHED / sizeof SEARCHED[0]; i++)
        TRY(SEARCHED[i](d));
    if (kind == DPMF_SAMPLING_NONE) TRY(design_bands(d));
    TRY(design_bands_in_time(d));
    return design_samplings(d);
}
