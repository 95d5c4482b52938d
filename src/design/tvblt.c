/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLTs: for one pass the fewest nodes within 0.1 % of the optimum; over several epochs in a fixed order with seeds
 * of earlier epochs made again, or shared. Amplification by sampling is proven for banded C: these are offered without
 * sampling.
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
static int64_t nodes_since(const dpmf_design *d, int64_t first) {
    int64_t fewest = INT64_MAX;
    for (int64_t i = first; i < d->count; i++)
        if (d->candidates[i].info.buffers < fewest) fewest = d->candidates[i].info.buffers;
    return d->problem.workload->momentum > 0 ? (fewest + 1) / 2 : fewest;
}

/* Is this noise within 0.1 % of what is proven? */
static int is_at_bound(const dpmf_design *d, double noise) {
    const double bound = design_bound_noise(d);
    return bound > 0 && noise <= DESIGN_CLOSE * bound;
}

/*
 * The max loss: from few nodes up, for not every workload lets them come near the optimum, and the optimizer's own
 * search would continue to the last node.
 */
static dpmf_status climb_nodes(dpmf_design *d) {
    static const int NODES[] = {1, 2, 3, 4, 6, 8};
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1};
    for (size_t i = d->problem.steps > PICTURE_STEPS ? 3 : 0; i < sizeof NODES / sizeof NODES[0]; i++) {
        double noise = INFINITY;
        request.buffers = NODES[i];
        request.tolerance = 1e-3; /* a dual that is not so sharp can suit few nodes better */
        if (d->problem.steps <= PICTURE_STEPS) TRY(design_add_best(d, &request, &noise));
        request.tolerance = 0;
        TRY(design_add_best(d, &request, &noise));
        if (!isfinite(noise) || is_at_bound(d, noise)) break;
    }
    return DPMF_OK;
}

static dpmf_status sweep_nodes(dpmf_design *d) {
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1};
    double noise = INFINITY;
    const int64_t first = d->count;
    if (d->problem.loss == DPMF_LOSS_MAX) return climb_nodes(d);
    TRY(design_add_best(d, &request, &noise));
    if (!isfinite(noise) || d->problem.steps > PICTURE_STEPS) return DPMF_OK;
    const int64_t nodes = nodes_since(d, first);
    request.tolerance = 1e-5; /* the first search has the bound */
    for (request.buffers = 1; request.buffers <= nodes + 1 && request.buffers <= 16; request.buffers++)
        if (request.buffers != nodes) TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}

/* ---- several epochs ---- */

enum { SHARED_SEEDS = 2 };
enum { BUFFERS = 4, MORE_BUFFERS = 6 }; /* within 0.2 % of the optimum, mostly; where they are not within 0.1 % */
static const double LONGEST_SEARCH = 60, LONGEST_SHARED = 12, A_MOMENT = 0.6; /* seconds, about, on one core */
static const double MODEL_ERROR = 1.25;
/* Of a long search for the table alone, from the bound: the last parts in a thousand take three quarters of its time. */
static const double SHOWN_TOLERANCE = 3e-3;

static double epochs_of(const dpmf_design *d) {
    return (double)d->problem.participation->count;
}

/* 250 evaluations, O(n k^2) each. */
static double replayed_seconds(const dpmf_design *d) {
    return (d->problem.loss == DPMF_LOSS_MAX ? 3 : 1) * 1.4e-5 * (double)d->problem.steps * epochs_of(d) * epochs_of(d);
}

/* 1000 evaluations, O(n k) each. */
static double shared_seconds(const dpmf_design *d) {
    return 3.36e-4 * (double)d->problem.steps * epochs_of(d);
}

/* The time of a row of four buffers over that of independent noise, by the model: it depends on the shape alone. */
static double shape_overhead(const dpmf_design *d, int shared_seeds) {
    const double normals = shared_seeds > 0 ? 1 + shared_seeds : (epochs_of(d) + 1) / 2;
    return design_model(noise_work_replay(normals, BUFFERS));
}

/* Is it too slow to be chosen? Where times are measured, the measurement may differ from the model by as much. */
static int is_too_slow(const dpmf_design *d, int shared_seeds) {
    return shape_overhead(d, shared_seeds) > (d->options.measure ? MODEL_ERROR : 1) * d->options.max_overhead;
}

/*
 * Tries four buffers and then fewer while that is worth it, or while the memory needs it. *fast: the first is fast
 * enough.
 */
static dpmf_status sweep_replayed(dpmf_design *d, int *fast) {
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1, .rms_tolerance = 1e-6};
    const int64_t first = d->count;
    double noise = INFINITY, most = INFINITY;
    const int shown = d->problem.steps > DPMF_DENSE_STEPS_MAX && d->problem.loss == DPMF_LOSS_RMS && is_too_slow(d, 0);
    if (shown) request.tolerance = SHOWN_TOLERANCE;
    if (d->problem.loss == DPMF_LOSS_MAX) request.tolerance = 0.1; /* no climb for a bound */
    for (request.buffers = BUFFERS; request.buffers >= 1; request.buffers--) {
        TRY(design_add_best(d, &request, &noise));
        if (d->count == first) return DPMF_OK; /* not for this workload */
        if (request.buffers == BUFFERS) {
            most = 2 * DESIGN_CLOSE * noise - noise;
            TRY(design_ask_time(d, first, fast));
            request.tolerance = d->problem.loss == DPMF_LOSS_MAX ? request.tolerance : 0;
            if (shown && *fast) TRY(design_add_best(d, &request, &noise)); /* as measured, against the model */
        }
        const int fits = design_fits(d, d->candidates[d->count - 1].info.memory_bytes);
        if (fits && (!*fast || noise > most || d->problem.steps > PICTURE_STEPS)) break;
    }
    request.buffers = MORE_BUFFERS;
    if (*fast && !is_at_bound(d, design_least(d)) && d->problem.steps <= PICTURE_STEPS)
        TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}

static dpmf_status add_shared(dpmf_design *d) {
    /* for the RMS loss alone: there is no search for the other */
    const search_request request = {.family = DPMF_FAMILY_TVBLT,
                                    .is_search_point = 1,
                                    .buffers = BUFFERS,
                                    .shared_seeds = SHARED_SEEDS,
                                    .for_rms_loss = 1};
    if (!is_too_slow(d, SHARED_SEEDS) || design_is_named(d, DPMF_FAMILY_TVBLT))
        return design_add_best(d, &request, NULL);
    design_note_skipped(d,
                        "TV-BLT with shared seeds was left out: a row takes %.3g times the time of independent noise, "
                        "more than the %g allowed.",
                        shape_overhead(d, SHARED_SEEDS), d->options.max_overhead);
    return DPMF_OK;
}

static dpmf_status add_epochs(dpmf_design *d) {
    const int named = design_is_named(d, DPMF_FAMILY_TVBLT);
    int fast = 0, cannot_win = 0;
    if (!named) TRY(design_cannot_win(d, "tvblt", &cannot_win));
    if (cannot_win) return DPMF_OK;
    if (named || replayed_seconds(d) <= LONGEST_SEARCH)
        TRY(sweep_replayed(d, &fast));
    else
        design_note_skipped(d,
                            "TV-BLT with replayed seeds was left out: its search would take about %.2g s, more than %g "
                            "(--families tvblt,... includes it).",
                            replayed_seconds(d), LONGEST_SEARCH);
    if (shared_seconds(d) <= (named || !fast ? LONGEST_SHARED : A_MOMENT)) return add_shared(d);
    if (!fast)
        design_note_skipped(d,
                            "TV-BLT with shared seeds was left out: its search would take about %.2g s, more than %g "
                            "(optimize --family tvblt --shared-seeds 2 does it).",
                            shared_seconds(d), LONGEST_SHARED);
    return DPMF_OK;
}

dpmf_status design_tvblt(dpmf_design *d) {
    const dpmf_participation *a = d->problem.participation;
    if (!design_is_allowed(d, DPMF_FAMILY_TVBLT)) return DPMF_OK;
    if (workload_is_single(a)) return design_is_tried(d, DPMF_FAMILY_TVBLT, SINGLE_STEPS) ? sweep_nodes(d) : DPMF_OK;
    return a->pattern == WORKLOAD_FIXED && a->separation > 1 ? add_epochs(d) : DPMF_OK;
}
