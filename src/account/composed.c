/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The account of the composed, Poisson-subsampled Gaussian mechanism: this file chooses the directions of the adjacency
 * that count, the engine, and the bounds that replace an engine that fails.
 *
 *     zero-out, add-remove   the worse of removing a unit and adding one
 *     replace-one            one pair, its own mirror image
 *
 * Neither direction is always the worse one under composition (Lebeda et al. 2024), so both are certified, each by the
 * Fourier sum (account/fourier/fourier.c) where that works, which is nearly exact at any number of steps, else by connecting
 * the dots (account/grid/grid.c): removing, usually the worse, to the wanted slack, and adding only as finely as it takes to
 * see that it is smaller.
 *
 * Without sampling (probability 1) the closed form is exact. With it, the Gaussian without sampling is always an upper
 * bound too, since mixing in the same distribution on both sides only loses information (joint convexity): the lesser
 * of the two bounds, both proven, is the answer. Renyi divergences, proven too but looser, are used only on request.
 */
#include "account/contour/contour.h"
#include "account/grid/grid.h"

#include <assert.h>
#include <math.h>

enum { DIRECTIONS_MAX = 2 };

static const char METHOD_GAUSSIAN[] = "Gaussian mechanism, closed form";
static const char METHOD_NEVER[] = "no unit ever takes part";
static const char METHOD_DOTS[] = "connect-the-dots discretisation, tilted FFT";
static const char METHOD_FOURIER[] = "Fourier sum over the moment generating function, with proven errors";
static const char METHOD_RDP[] = "Renyi divergences at the best order, the proven error of quadrature added";
static const char METHOD_UNSAMPLED[] = "Gaussian mechanism without the sampling, closed form";

static const double COARSE = 0.02; /* slack that costs little, and shows in most cases which direction is the worse */

double account_unsampled_mu(const account_question *q) {
    double unit = q->adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
    if (q->cap > 0 && q->adjacency == DPMF_ADJACENCY_ADD_REMOVE) unit = 2; /* a unit may push another out */
    double uses = q->picks > 0 ? (double)q->picks * (double)q->compositions : (double)q->compositions;
    return unit * sqrt(uses) / q->sigma;
}

static int directions_of(const account_question *q, account_pair pairs[DIRECTIONS_MAX]) {
    account_pair pair = {.sigma = q->sigma, .probability = q->probability, .compositions = q->compositions};
    pairs[0] = pairs[1] = pair;
    if (q->adjacency == DPMF_ADJACENCY_REPLACE_ONE) {
        pairs[0].direction = ACCOUNT_REPLACE;
        return 1;
    }
    pairs[0].direction = ACCOUNT_REMOVE;
    pairs[1].direction = ACCOUNT_ADD;
    return 2;
}

/* Keeps the smaller of two proven bounds; NaN never counts as a bound. */
static void improve(account_answer *best, double value, const char *method) {
    if (!(value < best->value)) return;
    best->value = value;
    best->method = method;
}

/* ---- one sampled step, composed ---- */

/* Connects the dots; step_max belongs to the requested slack. */
static dpmf_status connect(const account_question *q, const account_pair *pair, double relative, account_answer *best) {
    account_question at = *q;
    account_answer found;
    at.relative = relative;
    if (relative > q->relative) at.step_max = 0;
    TRY(grid_answer(&(grid_source){.pair = pair}, &at, &found));
    improve(best, found.value, METHOD_DOTS);
    if (relative == q->relative) best->met = found.met;
    return DPMF_OK;
}

/* Computes one direction. The bound must be tight only above `least`, which the other direction has reached already. */
static dpmf_status answer_direction(const account_question *q, const account_pair *pair, double least,
                                    account_answer *out) {
    account_answer found = {account_worst(q), DPMF_UPPER_BOUND, METHOD_FOURIER, 0};
    /* Adding a unit loses at most -ln(1-q) per step. */
    if (!q->of_epsilon && pair->direction == ACCOUNT_ADD &&
        q->given >= -(double)pair->compositions * log1p(-pair->probability) * (1 + 1e-12)) {
        *out = (account_answer){-INFINITY, DPMF_UPPER_BOUND, METHOD_DOTS, 1};
        return DPMF_OK;
    }
    TRY(base_progress(q->run, q->of_epsilon ? "certifying epsilon" : "certifying delta", -1));
    if (q->engine != DPMF_ENGINE_CONNECT_THE_DOTS) TRY(fourier_answer(pair, q, &found));
    if (q->engine != DPMF_ENGINE_FOURIER && !found.met && least > account_least(q)) {
        TRY(connect(q, pair, fmax(COARSE, q->relative), &found));
        found.met = 0;
    }
    if (q->engine != DPMF_ENGINE_FOURIER && !found.met && found.value > least)
        TRY(connect(q, pair, q->relative, &found));
    *out = found;
    return DPMF_OK;
}

dpmf_status composed_answer(const account_question *q, account_answer *out) {
    account_pair pairs[DIRECTIONS_MAX];
    account_answer worst = {account_least(q), DPMF_UPPER_BOUND, METHOD_RDP, 1};
    const int count = directions_of(q, pairs), rdp = q->engine == DPMF_ENGINE_RDP;
    assert(q->sigma > 0 && q->compositions >= 1);
    if (q->probability <= 0) {
        *out = (account_answer){account_least(q), DPMF_EXACT, METHOD_NEVER, 1};
        return DPMF_OK;
    }
    const double unsampled = account_gaussian(q, account_unsampled_mu(q));
    if (q->probability >= 1 && q->engine == DPMF_ENGINE_AUTO) {
        *out = (account_answer){unsampled, DPMF_EXACT, METHOD_GAUSSIAN, 1};
        return DPMF_OK;
    }
    for (int i = 0; i < count; i++) {
        account_answer found = worst;
        TRY(rdp ? account_rdp_answer(&pairs[i], q, &found.value) : answer_direction(q, &pairs[i], worst.value, &found));
        if (i == 0 || found.value > worst.value) worst = found;
    }
    if (!rdp) improve(&worst, unsampled, METHOD_UNSAMPLED);
    *out = worst;
    return DPMF_OK;
}

dpmf_status account_estimate(const account_question *q, double *value, int *found) {
    account_pair pairs[DIRECTIONS_MAX];
    const int count = directions_of(q, pairs);
    *value = account_least(q);
    *found = !account_cap_binds(q) && q->picks == 0 && q->probability > 0;
    for (int i = 0; i < count && *found; i++) {
        double here = 0, error = INFINITY;
        TRY(contour_answer(&pairs[i], q, &here, &error));
        *found = error <= (q->of_epsilon ? 1e-3 * fmax(here, 1e-3) : 1e-4);
        *value = fmax(*value, here);
    }
    return DPMF_OK;
}

dpmf_status composed_search(const account_question *q, double *log_delta) {
    static const double sigma_min = 0.01; /* below, a guess takes as many points as a bound */
    account_answer found = {0};
    account_pair pairs[DIRECTIONS_MAX];
    assert(!q->of_epsilon);
    directions_of(q, pairs);
    if (!(q->probability > 0 && q->probability < 1) || q->engine == DPMF_ENGINE_RDP)
        TRY(composed_answer(q, &found));
    else if (q->sigma < sigma_min)
        TRY(connect(q, &pairs[0], fmax(COARSE, q->relative), &found));
    else
        return saddle_guess(&pairs[0], q, log_delta);
    *log_delta = found.value;
    return DPMF_OK;
}
