/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLTs: for one pass the fewest nodes within 0.1 % of the optimum; over several epochs in a fixed order with seeds of
 * earlier epochs made again, or shared. Amplification by sampling is proven for banded C: these are offered without.
 *
 * How long a search takes is predicted, not measured, so that the answer is the same on every machine.
 */
#include "design/design.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* ---- one pass ---- */

static const int64_t SINGLE_STEPS = 1 << 20; /* about 8 s there; beyond: when named */
static const int64_t PICTURE_STEPS = 4096;   /* up to here a search takes a moment, and fewer buffers are tried too */

/* Of the candidate with the fewest nodes since `first`, the nodes: momentum keeps two buffers for each. */
static int64_t nodes_since(const dpmf_i_design_problem *p, int64_t first) {
    int64_t fewest = INT64_MAX;
    for (int64_t i = first; i < p->list.count; i++)
        if (p->list.entry[i].shown.buffers < fewest) fewest = p->list.entry[i].shown.buffers;
    return p->workload->momentum > 0 ? (fewest + 1) / 2 : fewest;
}

/* Is this noise within 0.1 % of what is proven? */
static int is_at_bound(const dpmf_i_design_problem *p, double noise) {
    const double bound = dpmf_i_design_bound_noise(p);
    return bound > 0 && noise <= DPMF_I_DESIGN_CLOSE * bound;
}

/*
 * The max loss: from few nodes up, for not every workload lets them come near the optimum, and the optimizer's own search
 * would go on to the last node.
 */
static dpmf_status climb_nodes(dpmf_i_design_problem *p) {
    static const int NODES[] = {1, 2, 3, 4, 6, 8};
    dpmf_i_design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1};
    for (size_t i = p->steps > PICTURE_STEPS ? 3 : 0; i < sizeof NODES / sizeof NODES[0]; i++) {
        double noise = INFINITY;
        wish.buffers = NODES[i];
        wish.tolerance = 1e-3; /* a dual that is not so sharp can suit few nodes better */
        if (p->steps <= PICTURE_STEPS) TRY(dpmf_i_design_offer_best(p, &wish, &noise));
        wish.tolerance = 0;
        TRY(dpmf_i_design_offer_best(p, &wish, &noise));
        if (!isfinite(noise) || is_at_bound(p, noise)) break;
    }
    return DPMF_OK;
}

static dpmf_status sweep_nodes(dpmf_i_design_problem *p) {
    dpmf_i_design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1};
    double noise = INFINITY;
    const int64_t first = p->list.count;
    if (p->options.loss == DPMF_LOSS_MAX) return climb_nodes(p);
    TRY(dpmf_i_design_offer_best(p, &wish, &noise));
    if (!isfinite(noise) || p->steps > PICTURE_STEPS) return DPMF_OK;
    const int64_t nodes = nodes_since(p, first);
    wish.tolerance = 1e-5; /* the first search has the bound */
    for (wish.buffers = 1; wish.buffers <= nodes + 1 && wish.buffers <= 16; wish.buffers++)
        if (wish.buffers != nodes) TRY(dpmf_i_design_offer_best(p, &wish, NULL));
    return DPMF_OK;
}

/* ---- several epochs ---- */

enum { BUFFERS = 4, MORE_BUFFERS = 6 }; /* within 0.2 % of the optimum, mostly; where they are not within 0.1 % */
static const double LONGEST_SEARCH = 60, LONGEST_SHARED = 12, A_MOMENT = 0.6; /* seconds, about, on one core */

static double epochs_of(const dpmf_i_design_problem *p) {
    return (double)dpmf_participation_count(p->participation);
}

/* 250 evaluations, O(n k^2) each. */
static double replayed_seconds(const dpmf_i_design_problem *p) {
    return (p->options.loss == DPMF_LOSS_MAX ? 3 : 1) * 1.4e-5 * (double)p->steps * epochs_of(p) * epochs_of(p);
}

/* 1000 evaluations, O(n k) each. */
static double shared_seconds(const dpmf_i_design_problem *p) {
    return 3.36e-4 * (double)p->steps * epochs_of(p);
}

/* From four buffers down as long as fewer are worth it, or the memory asks for fewer. *fast: the first is fast enough. */
static dpmf_status sweep_replayed(dpmf_i_design_problem *p, int *fast) {
    dpmf_i_design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1, .tolerance = 0.1}; /* no climb for a bound */
    const int64_t first = p->list.count;
    double noise = INFINITY, most = INFINITY;
    for (wish.buffers = BUFFERS; wish.buffers >= 1; wish.buffers--) {
        TRY(dpmf_i_design_offer_best(p, &wish, &noise));
        if (p->list.count == first) return DPMF_OK; /* not for this workload */
        if (wish.buffers == BUFFERS) {
            most = 2 * DPMF_I_DESIGN_CLOSE * noise - noise;
            TRY(dpmf_i_design_ask_time(p, first, fast));
        }
        const int fits = dpmf_i_design_fits(p, p->list.entry[p->list.count - 1].shown.memory_bytes);
        if (fits && (!*fast || noise > most || p->steps > PICTURE_STEPS)) break;
    }
    wish.buffers = MORE_BUFFERS;
    if (*fast && !is_at_bound(p, dpmf_i_design_least(p)) && p->steps <= PICTURE_STEPS)
        TRY(dpmf_i_design_offer_best(p, &wish, NULL));
    return DPMF_OK;
}

static dpmf_status offer_shared(dpmf_i_design_problem *p) {
    /* for the RMS loss alone: there is no search for the other */
    const dpmf_i_design_wish wish = {
        .family = DPMF_FAMILY_TVBLT, .swept = 1, .tolerance = 0.1, .buffers = BUFFERS, .shared_seeds = 2, .rms = 1};
    return dpmf_i_design_offer_best(p, &wish, NULL);
}

static dpmf_status offer_epochs(dpmf_i_design_problem *p) {
    const int named = dpmf_i_design_names(p, DPMF_FAMILY_TVBLT);
    int fast = 0;
    if (named || replayed_seconds(p) <= LONGEST_SEARCH)
        TRY(sweep_replayed(p, &fast));
    else
        dpmf_i_design_limit(p,
                            "TV-BLT with replayed seeds was left out: its search would take about %.2g s, more than %g "
                            "(--families tvblt,... includes it).",
                            replayed_seconds(p), LONGEST_SEARCH);
    if (shared_seconds(p) <= (named || !fast ? LONGEST_SHARED : A_MOMENT)) return offer_shared(p);
    if (!fast && !p->options.no_bench)
        dpmf_i_design_limit(p,
                            "TV-BLT with shared seeds was left out: its search would take about %.2g s, more than %g "
                            "(optimize --family tvblt --shared-seeds 2 does it).",
                            shared_seconds(p), LONGEST_SHARED);
    return DPMF_OK;
}

dpmf_status dpmf_i_design_tvblt(dpmf_i_design_problem *p) {
    const dpmf_participation *a = p->participation;
    if (!dpmf_i_design_wants(p, DPMF_FAMILY_TVBLT)) return DPMF_OK;
    if (dpmf_participation_is_single(a))
        return dpmf_i_design_worth(p, DPMF_FAMILY_TVBLT, SINGLE_STEPS) ? sweep_nodes(p) : DPMF_OK;
    return a->pattern == DPMF_I_WORKLOAD_FIXED && a->separation > 1 ? offer_epochs(p) : DPMF_OK;
}
