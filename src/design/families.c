/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The families whose only choice is a number of buffers, or none. What takes long for what it brings is tried only up
 * to so many steps, or when it is named: a whole Toeplitz or dense C, whose noise stream costs O(n) a step, is a
 * yardstick rather than a choice.
 */
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

static int has_several(const dpmf_i_design_problem *p) {
    return !dpmf_participation_is_single(p->participation);
}

static int worth(const dpmf_i_design_problem *p, const char *family, int64_t steps_max) {
    return dpmf_i_design_names(p, family) || (dpmf_i_design_wants(p, family) && p->steps <= steps_max);
}

/* A family without parameters; one that does not know the workload is passed over. */
static dpmf_status offer_named(dpmf_i_design_problem *p, const char *family, const dpmf_sampling *sampling) {
    dpmf_strategy *s = NULL;
    dpmf_status status = dpmf_strategy_create(family, p->workload, NULL, &s);
    if (status == DPMF_OK)
        status = dpmf_i_design_add(
            p, &(dpmf_i_design_offer){.strategy = s, .sampling = *sampling, .made_by = "design: closed form"}, NULL);
    dpmf_strategy_free(s);
    return dpmf_i_design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status offer_closed_forms(dpmf_i_design_problem *p) {
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
        if (worth(p, NAMED[i].family, NAMED[i].steps_max)) TRY(offer_named(p, NAMED[i].family, &none));
    const dpmf_sampling_kind kind = p->options.sampling;
    if ((kind == DPMF_SAMPLING_POISSON || kind == DPMF_SAMPLING_BLOCK_CYCLIC) &&
        dpmf_i_design_wants(p, DPMF_FAMILY_IDENTITY))
        TRY(offer_named(p, DPMF_FAMILY_IDENTITY, &poisson)); /* DP-SGD */
    return DPMF_OK;
}

/* ---- sweeps over buffers ---- */

/* One more buffer is worth trying while the last one took off so much; the first BLT_LEAST are for the picture. */
static const double BUFFER_GAIN = 2e-4;
enum { BLT_LEAST = 5, BLT_MOST = 10 };

static dpmf_status sweep_blt(dpmf_i_design_problem *p) {
    double before = INFINITY, noise = INFINITY;
    if (!dpmf_i_design_wants(p, DPMF_FAMILY_BLT)) return DPMF_OK;
    for (int d = 1; d <= BLT_MOST; d++) {
        if (d > BLT_LEAST && !(noise < before * (1 - BUFFER_GAIN))) break;
        before = noise;
        TRY(dpmf_i_design_offer_best(p, &(dpmf_i_design_wish){.family = DPMF_FAMILY_BLT, .buffers = d, .swept = 1},
                                     &noise));
        if (d == 1 && !isfinite(noise)) break; /* not for this workload */
    }
    return DPMF_OK;
}

/*
 * TV-BLT, single participation: the fewest nodes within 0.1 % of the proven optimum, and their neighbours for the
 * picture where that is cheap.
 */
static const int64_t TVBLT_STEPS = 300000; /* beyond that it takes minutes: when named */

static dpmf_status sweep_tvblt(dpmf_i_design_problem *p) {
    dpmf_i_design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1};
    double noise = INFINITY;
    if (has_several(p) || !worth(p, DPMF_FAMILY_TVBLT, TVBLT_STEPS)) return DPMF_OK;
    TRY(dpmf_i_design_offer_best(p, &wish, &noise));
    if (!isfinite(noise) || p->steps > 4096) return DPMF_OK;
    const int64_t buffers = p->list.entry[p->list.count - 1].shown.buffers;
    for (int nodes = 1; nodes <= buffers + 2 && nodes <= 16; nodes++) {
        wish.buffers = nodes;
        if (nodes != buffers) TRY(dpmf_i_design_offer_best(p, &wish, NULL));
    }
    return DPMF_OK;
}

/*
 * TV-BLT over several epochs in a fixed order: four buffers are within 0.2 % of the optimum; with seeds made again, and,
 * where the search is cheap, with two shared seeds, whose stream takes about half the time at ten epochs. Amplification by
 * sampling is proven for banded C: these are offered without.
 */
static const int64_t REPLAYED_STEPS = 20000, SHARED_STEPS = 1024; /* beyond: tens of seconds; when named */

static dpmf_status sweep_replayed(dpmf_i_design_problem *p) {
    dpmf_i_design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1, .tolerance = 0.1}; /* no climb for a bound */
    const int fixed = p->participation->pattern == DPMF_I_WORKLOAD_FIXED && p->participation->separation > 1;
    double noise = INFINITY;
    if (!has_several(p) || !fixed || !worth(p, DPMF_FAMILY_TVBLT, REPLAYED_STEPS)) return DPMF_OK;
    for (wish.buffers = 4; wish.buffers >= (p->steps <= 4096 ? 2 : 4); wish.buffers--) {
        TRY(dpmf_i_design_offer_best(p, &wish, &noise));
        if (!isfinite(noise)) return DPMF_OK; /* not for this workload */
    }
    if (p->options.loss == DPMF_LOSS_MAX || !worth(p, DPMF_FAMILY_TVBLT, SHARED_STEPS)) return DPMF_OK;
    wish.buffers = 4;
    wish.shared_seeds = 2;
    return dpmf_i_design_offer_best(p, &wish, NULL);
}

/* C^-1 of few bands: short runs, or when named, for BLTs do the same with fewer buffers. */
static dpmf_status sweep_bisr(dpmf_i_design_problem *p) {
    const int64_t most = dpmf_i_design_names(p, DPMF_FAMILY_BISR) ? 256 : 8;
    double noise = 0;
    if (!worth(p, DPMF_FAMILY_BISR, 1024)) return DPMF_OK;
    for (int64_t bands = 2; bands <= most && bands < p->steps; bands *= 2) {
        dpmf_i_design_wish wish = {.family = DPMF_FAMILY_BISR, .bands = bands, .swept = 1, .tolerance = 1e-4};
        TRY(dpmf_i_design_offer_best(p, &wish, &noise));
        if (!isfinite(noise)) break;
    }
    return DPMF_OK;
}

/* ---- whole matrices ---- */

static dpmf_status offer_whole(dpmf_i_design_problem *p) {
    /* Dense under several participations takes a minute at 2000 steps; single: a decomposition. */
    if (p->steps > 1 && worth(p, DPMF_FAMILY_DENSE, has_several(p) ? 128 : 1024))
        TRY(dpmf_i_design_offer_best(p, &(dpmf_i_design_wish){.family = DPMF_FAMILY_DENSE, .tolerance = 1e-4}, NULL));
    if (worth(p, DPMF_FAMILY_TOEPLITZ, p->workload->toeplitz ? 2048 : 512))
        TRY(dpmf_i_design_offer_best(p, &(dpmf_i_design_wish){.family = DPMF_FAMILY_TOEPLITZ, .tolerance = 1e-4},
                                     NULL));
    if (dpmf_i_design_names(p, DPMF_FAMILY_LOWRANK) && p->steps >= 8)
        TRY(dpmf_i_design_offer_best(p, &(dpmf_i_design_wish){.family = DPMF_FAMILY_LOWRANK, .bands = 2, .buffers = 6},
                                     NULL));
    return DPMF_OK;
}

dpmf_status dpmf_i_design_families(dpmf_i_design_problem *p) {
    TRY(offer_closed_forms(p));
    TRY(sweep_tvblt(p));
    TRY(sweep_replayed(p));
    TRY(sweep_blt(p));
    TRY(sweep_bisr(p));
    return offer_whole(p);
}
