/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a sampler realise the participation or sampling that a mechanism's guarantee assumes?
 *
 * Without sampling the guarantee is the sensitivity under a participation: a set of patterns, each a set of steps. It
 * holds for every sampler all of whose patterns are inside one of these, since a unit that stays away from a step of
 * its pattern contributes 0 there, and the sensitivity is taken over all contributions of norm at most 1, 0 included.
 * With n steps on both sides, k = ceil(n/b) for cyclic and shuffled, and b' the sampler's separation:
 *
 *     assumed          realised: single   cyclic b'         min-sep k', b'    shuffled b'
 *     single                     yes      no                no                no
 *     cyclic b                   yes      b divides b'      no                no
 *     min-sep k, b               yes      k' <= k, b' >= b  k' <= k, b' >= b  k' <= k, b = 1
 *     shuffled b                 yes      b' >= b           b' >= b           b divides b'
 *     full                       yes      yes               yes               yes
 *     patterns of a file         each step of the sampler's single and each class of its cyclic patterns is inside one of them;
 *                                min-sep and shuffled have too many patterns to compare: no
 *
 * (full is cyclic with b = 1.) Shuffled epochs have units in the last step of one and the first of the next: 1 apart.
 * Units b' >= b apart are never twice in b neighbouring steps. Samplers that draw at random have no guaranteed
 * participation and are accepted for full only.
 *
 * With sampling the guarantee is for one law. A smaller probability of Poisson sampling is fine: its outputs are a mixture of
 * those with the assumed one and those of a run without the unit, round by round, and the divergences that define (epsilon,
 * delta) are jointly convex. Bins and min-sep patterns are not thinned versions of each other, so only the assumed values are
 * accepted there. block-cyclic and min-sep with B = 1 are Poisson sampling. A cap is a part of the law: with it a unit moves
 * others out of the batch, and a capped sampler is accepted only for the same cap on as many units.
 */
#include "sampler/sampler.h"

#include "mechanism/mechanism.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

dpmf_status sampler_realise(const sampler_plan *plan, int64_t steps, dpmf_participation **out) {
    const int64_t b = plan->separation, rounds = (steps - 1) / b + 1;
    const int scheduled = plan->kind == SAMPLER_SCHEDULED;
    const int64_t k = scheduled ? plan->times : rounds;
    dpmf_participation_kind kind = DPMF_PARTICIPATION_CYCLIC;
    if (!dpmf_sampling_is_none(&plan->sampling)) return DPMF_OK;
    if (plan->kind == SAMPLER_SHUFFLED) kind = DPMF_PARTICIPATION_SHUFFLED;
    if (scheduled) kind = DPMF_PARTICIPATION_MIN_SEPARATION;
    if (k == steps) kind = DPMF_PARTICIPATION_FULL;
    if (k == 1) kind = DPMF_PARTICIPATION_SINGLE;
    return dpmf_participation_create(kind, steps, k, b, out);
}

/* ---- without sampling ---- */

/* One form for each set of patterns: k = n, the number of steps, is full and is treated as cyclic with b = 1. */
typedef struct pattern {
    dpmf_participation_kind kind;
    int64_t count, separation;
} pattern;

static pattern pattern_of(const dpmf_participation *p) {
    if (p->count == p->steps) return (pattern){DPMF_PARTICIPATION_CYCLIC, p->steps, 1};
    if (p->count == 1) return (pattern){DPMF_PARTICIPATION_SINGLE, 1, p->steps};
    return (pattern){p->kind, p->count, p->separation};
}

static int contains(pattern a, pattern r) {
    const int apart = r.kind == DPMF_PARTICIPATION_CYCLIC || r.kind == DPMF_PARTICIPATION_MIN_SEPARATION;
    if (r.kind == DPMF_PARTICIPATION_SINGLE) return 1;
    switch (a.kind) {
    case DPMF_PARTICIPATION_CYCLIC:
        return a.separation == 1 || (r.kind == DPMF_PARTICIPATION_CYCLIC && r.separation % a.separation == 0);
    case DPMF_PARTICIPATION_MIN_SEPARATION:
        return r.count <= a.count && (apart ? r.separation >= a.separation : a.separation == 1);
    case DPMF_PARTICIPATION_SHUFFLED:
        return apart ? r.separation >= a.separation : r.separation % a.separation == 0;
    default:
        return 0; /* single */
    }
}

static int listed_hold(const dpmf_participation *realised, const dpmf_participation *assumed) {
    if (realised == NULL || realised->pattern != WORKLOAD_FIXED) return 0;
    for (int64_t first = 0; first < realised->separation && first < realised->steps; first++)
        if (!workload_patterns_contain(assumed, first, realised->separation)) return 0;
    return 1;
}

static int participation_holds(const dpmf_sampler *s, const dpmf_participation *assumed) {
    const pattern a = pattern_of(assumed);
    if (assumed->patterns > 0 && assumed->count < assumed->steps) return listed_hold(s->realised, assumed);
    if (a.kind == DPMF_PARTICIPATION_CYCLIC && a.separation == 1) return 1;
    return s->realised != NULL && contains(a, pattern_of(s->realised));
}

/* ---- with sampling ---- */

static dpmf_sampling law_of(dpmf_sampling sampling) {
    const int apart = sampling.kind == DPMF_SAMPLING_BLOCK_CYCLIC || sampling.kind == DPMF_SAMPLING_MIN_SEPARATION;
    dpmf_sampling law = sampling;
    if (dpmf_sampling_describe(sampling.kind)->fixed) return law; /* its size and its units are all of it */
    if (sampling.kind == DPMF_SAMPLING_POISSON || (apart && sampling.count == 1))
        law = (dpmf_sampling){DPMF_SAMPLING_POISSON, sampling.probability, 1, 0, 0, 0};
    const int64_t blocks = sampling.kind == DPMF_SAMPLING_BLOCK_CYCLIC ? sampling.count : 1;
    const int cap_has_no_effect = sampling.units > 0 && sampling.cap >= (sampling.units - 1) / blocks + 1;
    law.cap = cap_has_no_effect ? 0 : sampling.cap;
    law.units = law.cap == 0 ? 0 : sampling.units;
    return law;
}

static int sampling_holds(dpmf_sampling realised, dpmf_sampling assumed) {
    const dpmf_sampling r = law_of(realised), a = law_of(assumed);
    const double rounding = 1e-12; /* of a probability that was rounded for writing; far too small to change epsilon */
    if (r.kind != a.kind || r.count != a.count || r.picks != a.picks) return 0;
    if (r.cap != a.cap || r.units != a.units) return 0;
    if (r.kind == DPMF_SAMPLING_BALLS_IN_BINS || r.kind == DPMF_SAMPLING_ALLOCATION) return 1;
    if (dpmf_sampling_describe(r.kind)->fixed) return 1;
    if (r.probability > a.probability * (1 + rounding)) return 0;
    const int exactly = r.kind == DPMF_SAMPLING_MIN_SEPARATION || r.cap > 0;
    return !exactly || r.probability >= a.probability * (1 - rounding);
}

/* "block-cyclic:0.01,4 sampling", "participation cyclic:4,250 and no secret sampling" */
static dpmf_status describe(const dpmf_sampling *sampling, const char *participation, char out[160]) {
    char text[64];
    if (dpmf_sampling_is_none(sampling)) {
        snprintf(out, 160, "participation %s and no secret sampling", participation);
        return DPMF_OK;
    }
    TRY(dpmf_sampling_format(sampling, text));
    snprintf(out, 160, "%s sampling", text);
    return DPMF_OK;
}

/* Where adding or removing a unit moves others to other batches, only zero-out and replace-one adjacency are valid. */
static dpmf_status check_adjacency(const dpmf_sampler *s, const dpmf_mechanism *mechanism) {
    const dpmf_sampling law = law_of(s->plan.sampling);
    const int alone = law.kind == DPMF_SAMPLING_POISSON || law.kind == DPMF_SAMPLING_BALLS_IN_BINS ||
                      law.kind == DPMF_SAMPLING_MIN_SEPARATION || law.kind == DPMF_SAMPLING_ALLOCATION ||
                      (dpmf_sampling_describe(law.kind)->fixed && law.count == 1); /* its account moves them too */
    if (mechanism->problem.adjacency != DPMF_ADJACENCY_ADD_REMOVE || alone) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "the mechanism's guarantee is for add-remove adjacency, but the sampler %s moves other "
                     "units when one is added or removed: zero-out and replace-one are accepted",
                     s->plan.text);
}

dpmf_status dpmf_sampler_check(const dpmf_sampler *s, const dpmf_mechanism *mechanism) {
    char assumed[160], realised[160];
    if (s == NULL || mechanism == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "sampler: the sampler or the mechanism is NULL");
    if (s->steps != mechanism->problem.steps)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "sampler %s: it has %" PRId64 " steps and the mechanism %" PRId64 ", accepted: as many",
                         s->plan.text, s->steps, mechanism->problem.steps);
    TRY(check_adjacency(s, mechanism));
    const int holds = dpmf_sampling_is_none(&mechanism->sampling)
                          ? participation_holds(s, mechanism->problem.participation)
                          : sampling_holds(s->plan.sampling, mechanism->sampling);
    if (holds) return DPMF_OK;
    TRY(describe(&mechanism->sampling, mechanism->problem.participation->text, assumed));
    TRY(describe(&s->plan.sampling, s->realised == NULL ? "" : s->realised->text, realised));
    return base_fail(DPMF_ERROR_ARGUMENT,
                     "the mechanism's guarantee assumes %s, but the sampler %s does %s: the guarantee would not hold",
                     assumed, s->plan.text, realised);
}
