/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design: from a training run to a mechanism. Every family that applies offers its best strategy, all are calibrated
 * to the same (epsilon, delta), and the least sigma x loss that fits the memory and the time is chosen (McKenna 2024,
 * Sections 3 and 4). Here: the order of all that, and the answer.
 */
#include "design/design.h"

#include "base/memory.h"

#include <math.h>

struct dpmf_design {
    design_problem problem;
    int64_t chosen;
    dpmf_mechanism *mechanism;
    char why[DESIGN_WHY];
    int64_t warnings;
    char warning[DESIGN_WARNINGS][DESIGN_WARNING];
};

dpmf_design_options dpmf_design_options_defaults(void) {
    return (dpmf_design_options){
        .epochs = 1, .epsilon = 1, .delta = 1e-6, .dim = 1000000, .max_overhead = 4, .run = dpmf_run_defaults()};
}

static const uint64_t MOST = (uint64_t)1 << 53; /* bytes; a limit above is none */

static int is_range(const dpmf_design_options *o) {
    return o->federated && o->separation_low < o->separation_high;
}

static dpmf_status make_mechanism(dpmf_design *d) {
    const design_problem *p = &d->problem;
    const design_entry *e = &p->list.entry[d->chosen];
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.evaluate.adjacency = p->options.adjacency;
    o.evaluate.run = p->options.run;
    o.sigma = e->shown.sigma;
    o.sampling = e->shown.sampling;
    o.epsilon = p->options.epsilon;
    o.delta = p->options.delta;
    o.made_by = e->made_by;
    o.designed = (dpmf_design_limits){.dim = p->options.dim,
                                      .memory = p->options.memory < MOST ? p->options.memory : 0,
                                      .max_overhead = isfinite(p->options.max_overhead) ? p->options.max_overhead : 0,
                                      .loss = p->options.loss,
                                      .separation_high = is_range(&p->options) ? p->options.separation_high : 0};
    return dpmf_mechanism_create(p->workload, p->participation, e->strategy, &o, &d->mechanism);
}

static dpmf_status offer_all(design_problem *p) {
    if (p->options.federated) return design_federated(p);
    const int sampled = p->options.sampling != DPMF_SAMPLING_NONE;
    TRY(design_closed_forms(p));
    if (sampled) TRY(design_bands(p)); /* first: what they reach can spare others their search */
    TRY(design_families(p));
    if (!sampled) TRY(design_bands(p));
    TRY(design_bands_in_time(p));
    return design_samplings(p);
}

dpmf_status dpmf_design_create(const dpmf_workload *workload, const dpmf_design_options *options, dpmf_design **out) {
    dpmf_design_options o = options == NULL ? dpmf_design_options_defaults() : *options;
    dpmf_design *d = NULL;
    dpmf_status status = DPMF_OK;
    TRY(design_problem_check(workload, &o));
    TRY(base_alloc(1, sizeof *d, "a design", (void **)&d));
    TRY_DONE(design_problem_open(workload, &o, &d->problem));
    TRY_DONE(offer_all(&d->problem));
    TRY_DONE(design_find_bound(&d->problem));
    design_fill_ratios(&d->problem);
    TRY_DONE(design_choose(&d->problem, &d->chosen));
    TRY_DONE(make_mechanism(d));
    design_reasons(&d->problem, d->chosen);
    design_why(&d->problem, d->chosen, d->why);
    d->warnings = design_warn(&d->problem, d->chosen, d->warning);
    d->problem.options.families = NULL; /* the caller's, and of no more use */
    *out = d;
    d = NULL;
done:
    dpmf_design_free(d);
    return status;
}

void dpmf_design_free(dpmf_design *d) {
    if (d == NULL) return;
    dpmf_mechanism_free(d->mechanism);
    design_problem_close(&d->problem);
    base_free(d);
}

int64_t dpmf_design_count(const dpmf_design *d) {
    return d->problem.list.count;
}

const dpmf_candidate *dpmf_design_candidate(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->problem.list.count ? &d->problem.list.entry[i].shown : NULL;
}

int64_t dpmf_design_chosen(const dpmf_design *d) {
    return d->chosen;
}

const dpmf_mechanism *dpmf_design_mechanism(const dpmf_design *d) {
    return d->mechanism;
}

dpmf_privacy dpmf_design_privacy(const dpmf_design *d) {
    return d->problem.list.entry[d->chosen].privacy;
}

size_t dpmf_design_statement(const dpmf_design *d, const char *unit, char *out, size_t size) {
    const design_entry *e = &d->problem.list.entry[d->chosen];
    dpmf_account_options a = design_account(&d->problem, &e->shown.sampling, e->strategy);
    return dpmf_privacy_statement(&e->privacy, &a, unit, out, size);
}

const char *dpmf_design_why(const dpmf_design *d) {
    return d->why;
}

int64_t dpmf_design_warnings(const dpmf_design *d) {
    return d->warnings;
}

const char *dpmf_design_warning(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->warnings ? d->warning[i] : NULL;
}
