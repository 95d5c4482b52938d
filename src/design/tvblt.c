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
static int64_t nodes_since(const design_problem *p, int64_t first) {
    int64_t fewest = INT64_MAX;
    for (int64_t i = first; i < p->list.count; i++)
        if (p->list.entry[i].shown.buffers < fewest) fewest = p->list.entry[i].shown.buffers;
    return p->workload->momentum > 0 ? (fewest + 1) / 2 : fewest;
}

/* Is this noise within 0.1 % of what is proven? */
static int is_at_bound(const design_problem *p, double noise) {
    const double bound = design_bound_noise(p);
    return bound > 0 && noise <= DESIGN_CLOSE * bound;
}

/*
 * The max loss: from few nodes up, for not every workload lets them come near the optimum, and the optimizer's own search
 * would go on to the last node.
 */
static dpmf_status climb_nodes(design_problem *p) {
    static const int NODES[] = {1, 2, 3, 4, 6, 8};
    design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1};
    for (size_t i = p->steps > PICTURE_STEPS ? 3 : 0; i < sizeof NODES / sizeof NODES[0]; i++) {
        double noise = INFINITY;
        wish.buffers = NODES[i];
        wish.tolerance = 1e-3; /* a dual that is not so sharp can suit few nodes better */
        if (p->steps <= PICTURE_STEPS) TRY(design_offer_best(p, &wish, &noise));
        wish.tolerance = 0;
        TRY(design_offer_best(p, &wish, &noise));
        if (!isfinite(noise) || is_at_bound(p, noise)) break;
    }
    return DPMF_OK;
}

static dpmf_status sweep_nodes(design_problem *p) {
    design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1};
    double noise = INFINITY;
    const int64_t first = p->list.count;
    if (p->options.loss == DPMF_LOSS_MAX) return climb_nodes(p);
    TRY(design_offer_best(p, &wish, &noise));
    if (!isfinite(noise) || p->steps > PICTURE_STEPS) return DPMF_OK;
    const int64_t nodes = nodes_since(p, first);
    wish.tolerance = 1e-5; /* the first search has the bound */
    for (wish.buffers = 1; wish.buffers <= nodes + 1 && wish.buffers <= 16; wish.buffers++)
        if (wish.buffers != nodes) TRY(design_offer_best(p, &wish, NULL));
    return DPMF_OK;
}

/* ---- several epochs ---- */

enum { SHARED_SEEDS = 2 };
enum { BUFFERS = 4, MORE_BUFFERS = 6 }; /* within 0.2 % of the optimum, mostly; where they are not within 0.1 % */
static const double LONGEST_SEARCH = 60, LONGEST_SHARED = 12, A_MOMENT = 0.6; /* seconds, about, on one core */
static const double MODEL_ERROR = 1.25;
/* Of a long search for the table alone, from the bound: the last parts in a thousand take three quarters of its time. */
static const double SHOWN_TOLERANCE = 3e-3;

static double epochs_of(const design_problem *p) {
    return (double)dpmf_participation_count(p->participation);
}

/* 250 evaluations, O(n k^2) each. */
static double replayed_seconds(const design_problem *p) {
    return (p->options.loss == DPMF_LOSS_MAX ? 3 : 1) * 1.4e-5 * (double)p->steps * epochs_of(p) * epochs_of(p);
}

/* 1000 evaluations, O(n k) each. */
static double shared_seconds(const design_problem *p) {
    return 3.36e-4 * (double)p->steps * epochs_of(p);
}

/* The time of a row of four buffers over that of independent noise, by the model: it depends on the shape alone. */
static double shape_overhead(const design_problem *p, int shared_seeds) {
    const double normals = shared_seeds > 0 ? 1 + shared_seeds : (epochs_of(p) + 1) / 2;
    return design_model(noise_work_replay(normals, BUFFERS));
}

/* Too slow to be chosen? Where times are measured, the measurement may differ from the model by as much. */
static int is_too_slow(const design_problem *p, int shared_seeds) {
    return shape_overhead(p, shared_seeds) > (p->options.measure ? MODEL_ERROR : 1) * p->options.max_overhead;
}

/* From four buffers down as long as fewer are worth it, or the memory asks for fewer. *fast: the first is fast enough. */
static dpmf_status sweep_replayed(design_problem *p, int *fast) {
    design_wish wish = {.family = DPMF_FAMILY_TVBLT, .swept = 1, .rms_tolerance = 1e-6};
    const int64_t first = p->list.count;
    double noise = INFINITY, most = INFINITY;
    const int shown = p->steps > DPMF_DENSE_STEPS_MAX && p->options.loss == DPMF_LOSS_RMS && is_too_slow(p, 0);
    if (shown) wish.tolerance = SHOWN_TOLERANCE;
    if (p->options.loss == DPMF_LOSS_MAX) wish.tolerance = 0.1; /* no climb for a bound */
    for (wish.buffers = BUFFERS; wish.buffers >= 1; wish.buffers--) {
        TRY(design_offer_best(p, &wish, &noise));
        if (p->list.count == first) return DPMF_OK; /* not for this workload */
        if (wish.buffers == BUFFERS) {
            most = 2 * DESIGN_CLOSE * noise - noise;
            TRY(design_ask_time(p, first, fast));
            wish.tolerance = p->options.loss == DPMF_LOSS_MAX ? wish.tolerance : 0;
            if (shown && *fast) TRY(design_offer_best(p, &wish, &noise)); /* as measured, against the model */
        }
        const int fits = design_fits(p, p->list.entry[p->list.count - 1].shown.memory_bytes);
        if (fits && (!*fast || noise > most || p->steps > PICTURE_STEPS)) break;
    }
    wish.buffers = MORE_BUFFERS;
    if (*fast && !is_at_bound(p, design_least(p)) && p->steps <= PICTURE_STEPS) TRY(design_offer_best(p, &wish, NULL));
    return DPMF_OK;
}

static dpmf_status offer_shared(design_problem *p) {
    /* for the RMS loss alone: there is no search for the other */
    const design_wish wish = {
        .family = DPMF_FAMILY_TVBLT, .swept = 1, .buffers = BUFFERS, .shared_seeds = SHARED_SEEDS, .rms = 1};
    if (!is_too_slow(p, SHARED_SEEDS) || design_names(p, DPMF_FAMILY_TVBLT)) return design_offer_best(p, &wish, NULL);
    design_limit(p,
                 "TV-BLT with shared seeds was left out: a row takes %.3g times the time of independent noise, "
                 "more than the %g allowed.",
                 shape_overhead(p, SHARED_SEEDS), p->options.max_overhead);
    return DPMF_OK;
}

static dpmf_status offer_epochs(design_problem *p) {
    const int named = design_names(p, DPMF_FAMILY_TVBLT);
    int fast = 0, beaten = 0;
    if (!named) TRY(design_is_beaten(p, "tvblt", &beaten));
    if (beaten) return DPMF_OK;
    if (named || replayed_seconds(p) <= LONGEST_SEARCH)
        TRY(sweep_replayed(p, &fast));
    else
        design_limit(p,
                     "TV-BLT with replayed seeds was left out: its search would take about %.2g s, more than %g "
                     "(--families tvblt,... includes it).",
                     replayed_seconds(p), LONGEST_SEARCH);
    if (shared_seconds(p) <= (named || !fast ? LONGEST_SHARED : A_MOMENT)) return offer_shared(p);
    if (!fast)
        design_limit(p,
                     "TV-BLT with shared seeds was left out: its search would take about %.2g s, more than %g "
                     "(optimize --family tvblt --shared-seeds 2 does it).",
                     shared_seconds(p), LONGEST_SHARED);
    return DPMF_OK;
}

dpmf_status design_tvblt(design_problem *p) {
    const dpmf_participation *a = p->participation;
    if (!design_wants(p, DPMF_FAMILY_TVBLT)) return DPMF_OK;
    if (dpmf_participation_is_single(a))
        return design_worth(p, DPMF_FAMILY_TVBLT, SINGLE_STEPS) ? sweep_nodes(p) : DPMF_OK;
    return a->pattern == WORKLOAD_FIXED && a->separation > 1 ? offer_epochs(p) : DPMF_OK;
}
