/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design: from a training run to a mechanism. Every family that applies adds its best strategy, all are calibrated to
 * the same (epsilon, delta), and the least sigma x loss that fits the memory and the time is chosen (McKenna 2024,
 * Sections 3 and 4). This file has the order of these steps, and the answer.
 */
#include "design/design.h"

#include "base/memory.h"
#include "mechanism/mechanism.h"

#include <math.h>

dpmf_design_options dpmf_design_options_defaults(void) {
    return (dpmf_design_options){
        .epochs = 1, .epsilon = 1, .delta = 1e-6, .dim = 1000000, .max_overhead = 4, .run = dpmf_run_defaults()};
}

static const uint64_t MOST = (uint64_t)1 << 53; /* bytes; a limit above is none */

/* The mechanism takes over the candidate's evaluation and the bound, so that nothing is computed twice. */
static dpmf_status make_mechanism(dpmf_design *d) {
    const candidate *c = &d->candidates[d->chosen];
    const dpmf_design_options *with = &d->options;
    const double s = c->info.sensitivity.value;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.evaluate.adjacency = d->problem.adjacency;
    o.evaluate.run = with->run;
    o.sigma = c->info.sigma;
    o.sampling = c->info.sampling;
    o.made_by = c->made_by;
    o.designed = (dpmf_design_limits){
        .dim = with->dim,
        .memory = with->memory < MOST ? with->memory : 0,
        .max_overhead = isfinite(with->max_overhead) ? with->max_overhead : 0,
        .loss = d->problem.loss,
        .separation_high = with->federated && with->separation_low < with->separation_high ? with->separation_high : 0};
    problem_facts p = d->problem;
    p.evaluation = (dpmf_evaluation){.sensitivity = c->info.sensitivity,
                                     .rms_loss = c->info.rms_loss,
                                     .max_loss = c->info.max_loss,
                                     .total_squared_loss = s * s * c->squared_errors};
    if (dpmf_sampling_is_none(&c->info.sampling))
        TRY(mechanism_bound(&d->problem, &o.evaluate, &p.evaluation.lower_bound));
    return mechanism_make(&p, c->strategy, &o, &d->mechanism);
}

dpmf_status dpmf_design_create(const dpmf_workload *workload, const dpmf_design_options *options, dpmf_design **out) {
    const dpmf_design_options o = options == NULL ? dpmf_design_options_defaults() : *options;
    dpmf_design *d = NULL;
    dpmf_status status = DPMF_OK;
    TRY(design_check(workload, &o));
    TRY(base_alloc(1, sizeof *d, "a design", (void **)&d));
    TRY_DONE(design_open(workload, &o, d));
    TRY_DONE(design_candidates(d));
    TRY_DONE(design_find_bound(d));
    const double bound = design_bound_noise(d);
    for (int64_t i = 0; i < d->count && bound > 0; i++)
        d->candidates[i].info.ratio =
            (d->problem.loss == DPMF_LOSS_MAX ? d->candidates[i].info.noise_max : d->candidates[i].info.noise_rms) /
            bound;
    TRY_DONE(design_choose(d, &d->chosen));
    TRY_DONE(make_mechanism(d));
    design_explain(d);
    d->options.families = NULL; /* the caller's, and of no more use */
    *out = d;
    d = NULL;
done:
    dpmf_design_free(d);
    return status;
}

void dpmf_design_free(dpmf_design *d) {
    if (d == NULL) return;
    dpmf_mechanism_free(d->mechanism);
    design_close(d);
    base_free(d);
}

const dpmf_candidate *dpmf_design_candidate(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->count ? &d->candidates[i].info : NULL;
}

size_t dpmf_design_statement(const dpmf_design *d, const char *unit, char *out, size_t size) {
    const candidate *c = &d->candidates[d->chosen];
    dpmf_account_options a = design_account(d, &c->info.sampling, c->strategy);
    return dpmf_privacy_statement(&c->privacy, &a, unit, out, size);
}

dpmf_design_info dpmf_design_get(const dpmf_design *d) {
    return (dpmf_design_info){.mechanism = d->mechanism,
                              .privacy = d->candidates[d->chosen].privacy,
                              .why = d->why,
                              .warnings = d->warnings,
                              .count = d->count,
                              .chosen = d->chosen};
}

const char *dpmf_design_warning(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->warnings ? d->warning[i] : NULL;
}
