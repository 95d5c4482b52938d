/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Design: from a training run to a mechanism. Every family that applies adds its best strategy, all are calibrated to the same
 * (epsilon, delta), and the least sigma x loss that fits the memory and the time is chosen (McKenna 2024, Sections 3 and 4).
 * This file checks the question and fills it in (families, presets, participation, the calibration that candidates without
 * sampling share), and has the order of these steps, and the answer.
 */
#include "design/design.h"

#include "account/account.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/threads.h"
#include "mechanism/mechanism.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

dpmf_design_options dpmf_design_options_defaults(void) {
    return (dpmf_design_options){.epochs = 1, .epsilon = 1, .delta = 1e-6, .dim = 1000000, .run = dpmf_run_defaults()};
}

static int designed_place(const dpmf_family *f) {
    return f->designed;
}

static dpmf_status check_family(const char *name, size_t length) {
    char shown[64], list[STRATEGY_FAMILY_LIST];
    const strategy_family *known = strategy_family_find(name, length);
    if (known != NULL && known->shown.designed != 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "design: family '%s', accepted: %s, joined by commas",
                     base_show(name, length, shown), strategy_family_list(designed_place, ", ", list));
}

static dpmf_status check_families(const char *names) {
    for (const char *at = names;;) {
        size_t part = strcspn(at, ",");
        TRY(check_family(at, part));
        if (at[part] == 0) return DPMF_OK;
        at += part + 1;
    }
}

static const int64_t DIM_MAX = (int64_t)1 << 50; /* far above any memory; its bytes still fit 64 bits */

static dpmf_status check_numbers(const dpmf_design_options *o, int64_t steps) {
    if (o->epochs < 1 || o->epochs > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: %lld epochs, accepted 1 to %lld (the steps)",
                         (long long)o->epochs, (long long)steps);
    if (!(o->epsilon > 0 && o->epsilon <= 1e6))
        return base_fail(DPMF_ERROR_ARGUMENT, "design: epsilon %g, accepted: above 0, to 1e6", o->epsilon);
    if (!(o->delta >= 1e-300 && o->delta < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "design: delta %g, accepted 1e-300 to below 1", o->delta);
    if (o->dim < 0 || o->dim > DIM_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: dim %lld, accepted 1 to %lld, or 0 for 1e6", (long long)o->dim,
                         (long long)DIM_MAX);
    if (o->max_overhead != 0 && !(o->max_overhead >= 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: overhead at most %g, accepted: 1 (independent noise) and up, or 0 for 4",
                         o->max_overhead);
    if (o->batch_cap != 0 &&
        (o->batch_cap < DPMF_BATCH_CAP_AUTO || o->units < 2 || (o->sampling == DPMF_SAMPLING_NONE && !o->any_sampling)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: a cap of %lld on batches from %lld units: accepted under sampling, with the "
                         "number of units",
                         (long long)o->batch_cap, (long long)o->units);
    if (o->batch_cap != 0 && !o->any_sampling && !dpmf_sampling_describe(o->sampling)->cappable)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "design: %s has no account with a cap on the batch; poisson, block-cyclic and min-sep do",
                         dpmf_sampling_describe(o->sampling)->name);
    if (o->batch_cap == DPMF_BATCH_CAP_AUTO && !o->any_sampling && !dpmf_sampling_describe(o->sampling)->composes)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "design: under min-sep a cap on the batch is a number; one is found (auto) for poisson "
                         "and block-cyclic");
    if (o->stamps != 0 && o->stamps != DPMF_STAMPS_AUTO &&
        (o->stamps < 2 || o->stamps > steps || steps % o->stamps != 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: stamps = %lld, accepted: a divisor of the %lld steps from 2, or %d to choose",
                         (long long)o->stamps, (long long)steps, DPMF_STAMPS_AUTO);
    if (o->group < 0 || o->group > 1000000000 || (o->group > 1 && o->batch_cap != 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "design: groups of %lld units, accepted 1 to 1e9, and without a cap",
                         (long long)o->group);
    if (!o->any_sampling && dpmf_sampling_describe(o->sampling)->fixed && o->units < 2)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: sampling %s needs the number of units, at least 2",
                         dpmf_sampling_describe(o->sampling)->name);
    if (o->tolerance != 0 && !(o->tolerance >= 1e-10 && o->tolerance <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "design: tolerance %g, accepted 1e-10 to 1, or 0", o->tolerance);
    return DPMF_OK;
}

static dpmf_status check_federated(const dpmf_design_options *o, int64_t steps) {
    if (!o->federated) return DPMF_OK;
    if (o->stamps != 0) return base_fail(DPMF_ERROR_ARGUMENT, "design: federated and stamps exclude each other");
    if (o->sampling != DPMF_SAMPLING_NONE || o->any_sampling)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: federated and sampling exclude each other");
    if (o->separation_low < 1 || o->separation_low > o->separation_high || o->separation_high > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: separations %lld to %lld, accepted 1 <= low <= high <= %lld",
                         (long long)o->separation_low, (long long)o->separation_high, (long long)steps);
    if (o->epochs > 1 && (o->epochs - 1) > (steps - 1) / o->separation_low)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: %lld participations at least %lld steps apart do not fit %lld steps, accepted at "
                         "most %lld",
                         (long long)o->epochs, (long long)o->separation_low, (long long)steps,
                         (long long)((steps - 1) / o->separation_low + 1));
    if (o->epochs > 1 && o->unit == NULL)
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "design: one unit takes part up to %lld times, and what it is decides what epsilon means: name "
            "the unit, for example user or device",
            (long long)o->epochs);
    return DPMF_OK;
}

/* Fixed groups in turn: their number is the separation. */
static dpmf_status check_turns(const dpmf_design_options *o, int64_t steps) {
    if (o->federated || o->separation_low == 0) return DPMF_OK;
    if (o->separation_low < 1 || o->separation_low > steps || o->separation_high != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: separations %lld to %lld without federated, accepted: 1 to %lld, and 0",
                         (long long)o->separation_low, (long long)o->separation_high, (long long)steps);
    if (o->sampling != DPMF_SAMPLING_NONE || o->any_sampling || o->participation != NULL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: a separation excludes sampling and patterns from a file: groups take part in turn");
    if (o->epochs != (steps - 1) / o->separation_low + 1)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: %lld epochs of steps that are %lld apart, accepted with %lld steps: %lld",
                         (long long)o->epochs, (long long)o->separation_low, (long long)steps,
                         (long long)((steps - 1) / o->separation_low + 1));
    return DPMF_OK;
}

static dpmf_status check_given(const dpmf_design_options *o, int64_t steps) {
    const dpmf_participation *p = o->participation;
    if (p == NULL) return DPMF_OK;
    if (p->patterns == 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: participation %s, accepted: patterns from a file; the others follow from epochs and "
                         "federated",
                         p->text);
    if (p->steps != steps)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "design: the participation has %lld steps, the workload %lld: they must agree",
                         (long long)p->steps, (long long)steps);
    if (o->federated || o->sampling != DPMF_SAMPLING_NONE || o->any_sampling)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: patterns from a file exclude federated and sampling");
    if (p->count > 1 && o->unit == NULL)
        return base_fail(
            DPMF_ERROR_ARGUMENT,
            "design: one unit takes part up to %lld times, and what it is decides what epsilon means: name "
            "the unit, for example user or device",
            (long long)p->count);
    return DPMF_OK;
}

static dpmf_status check_question(const dpmf_workload *workload, const dpmf_design_options *o) {
    if (workload == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "design: the workload is NULL");
    int kinds = 0;
    while (dpmf_sampling_describe((dpmf_sampling_kind)kinds) != NULL)
        kinds++;
    if ((unsigned)o->sampling >= (unsigned)kinds)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: sampling %d, accepted 0 to %d", (int)o->sampling, kinds - 1);
    if (o->loss == DPMF_LOSS_OWN)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "design: a loss of your own is for evaluate and optimize, accepted here: rms, "
                         "max, lp and last");
    TRY(problem_loss_check(&(problem_loss){o->loss, o->loss_power, NULL}, "design"));
    if ((unsigned)o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((unsigned)o->precision > DPMF_FLOAT64)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: precision %d, accepted 0 (float32) or 1 (float64)",
                         (int)o->precision);
    TRY(check_numbers(o, workload->steps));
    TRY(check_federated(o, workload->steps));
    TRY(check_turns(o, workload->steps));
    TRY(check_given(o, workload->steps));
    TRY(account_unit_check(o->unit));
    return o->families == NULL ? DPMF_OK : check_families(o->families);
}

static dpmf_status make_plain(const dpmf_workload *a, dpmf_workload **out) {
    dpmf_workload_options o = dpmf_workload_options_defaults();
    if (a->toeplitz) {
        *out = workload_retain(a);
        return DPMF_OK;
    }
    if (a->form == WORKLOAD_NAMED) {
        o.momentum = a->momentum;
        o.nesterov = a->nesterov;
        o.decay = a->decay;
    }
    return dpmf_workload_create(a->steps, &o, out);
}

static dpmf_status open_design(const dpmf_workload *workload, const dpmf_design_options *o, double part,
                               dpmf_design *d) {
    const dpmf_sampling none = {0};
    dpmf_participation *participation = NULL;
    base_pool *pool = NULL;
    d->options = *o;
    if (o->dim == 0) d->options.dim = 1000000;
    if (o->max_overhead == 0) d->options.max_overhead = o->memory == DPMF_MEMORY_NO_ROWS ? 20 : 4;
    if (o->tolerance == 0) d->options.tolerance = 1e-6;
    if (o->any_sampling)
        d->options.sampling = DPMF_SAMPLING_BLOCK_CYCLIC; /* its searches; the rest: design_samplings */
    d->part_of_epoch = part > 0;
    d->probability = (d->part_of_epoch ? part : (double)o->epochs) / (double)workload->steps;
    const int64_t steps = workload->steps;
    dpmf_participation_kind kind = o->federated ? DPMF_PARTICIPATION_MIN_SEPARATION : DPMF_PARTICIPATION_CYCLIC;
    const int64_t apart = o->separation_low > 0 ? o->separation_low : (steps - 1) / o->epochs + 1;
    const int64_t count = o->federated ? o->epochs : (steps - 1) / apart + 1; /* of whole passes there may be fewer */
    if (o->epochs == 1) kind = DPMF_PARTICIPATION_SINGLE;
    if (o->participation != NULL) {
        participation = workload_participation_retain(o->participation);
        d->options.epochs = o->participation->count;
    } else {
        TRY(dpmf_participation_create(kind, steps, count, apart, &participation));
    }
    d->problem = (problem_facts){.steps = workload->steps,
                                 .workload = workload_retain(workload),
                                 .participation = participation,
                                 .adjacency = o->adjacency,
                                 .loss = o->loss,
                                 .loss_power = o->loss_power,
                                 .epsilon = o->epsilon,
                                 .delta = o->delta};
    TRY(make_plain(workload, &d->plain));
    TRY(base_pool_create(0, &pool)); /* a stream has as many threads by default */
    d->threads = base_pool_threads(pool);
    base_pool_free(pool);
    const dpmf_account_options a = design_account(d, &none, NULL);
    return dpmf_calibrate_sigma(o->epsilon, o->delta, &a, &d->unsampled);
}

/* Closed forms come first, then searches; under sampling those that profit first, since their noise may rule out all others. */
static dpmf_status find_candidates(dpmf_design *d) {
    const dpmf_sampling none = {0},
                        poisson = {DPMF_SAMPLING_POISSON, d->probability, 1, 0, d->options.batch_cap, d->options.units};
    const dpmf_sampling_kind kind = d->options.sampling;
    const strategy_family *f;
    if (d->options.federated) return design_federated(d);
    for (f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f))
        if (f->candidates.search == NULL && f->shown.closed_form &&
            design_is_tried(d, f->shown.name, f->candidates.steps_max))
            TRY(design_add_closed_form(d, f->shown.name, &none));
    for (f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f))
        if ((kind == DPMF_SAMPLING_POISSON || kind == DPMF_SAMPLING_BLOCK_CYCLIC) &&
            (f->candidates.samplings & 1u << DPMF_SAMPLING_POISSON) != 0 && design_is_allowed(d, f->shown.name))
            TRY(design_add_closed_form(d, f->shown.name, &poisson));              /* DP-SGD */
    if (!workload_is_single(d->problem.participation)) TRY(design_find_bound(d)); /* spares searches below it */
    for (int first = kind != DPMF_SAMPLING_NONE; first >= 0; first--)
        for (f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f))
            if (f->candidates.search != NULL && (f->candidates.before_others && kind != DPMF_SAMPLING_NONE) == first)
                TRY(f->candidates.search(d));
    for (f = strategy_family_next(NULL); f != NULL; f = strategy_family_next(f))
        if (f->candidates.search_last != NULL) TRY(f->candidates.search_last(d));
    for (f = strategy_family_next(NULL); f != NULL && d->options.stamps != 0; f = strategy_family_next(f))
        if (design_is_allowed(d, f->shown.name)) TRY(design_add_stamped(d, f));
    return design_samplings(d);
}

static const uint64_t MOST = (uint64_t)1 << 53; /* bytes; a limit above is none */

/* The mechanism takes over the candidate's evaluation and the bound, so that nothing is computed twice. */
static dpmf_status make_mechanism(dpmf_design *d) {
    const candidate *c = &d->candidates[d->chosen];
    const dpmf_design_options *with = &d->options;
    const double s = c->info.sensitivity.value;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.evaluate.adjacency = d->problem.adjacency;
    o.evaluate.columns = with->dim == 1;
    o.evaluate.run = with->run;
    o.sigma = c->info.sigma;
    o.sampling = c->info.sampling;
    o.made_by = c->made_by;
    o.unit = with->unit != NULL ? with->unit : "example";
    o.group = with->group;
    o.designed = (dpmf_design_limits){
        .dim = with->dim,
        .memory = with->memory < MOST ? with->memory : 0,
        .max_overhead = isfinite(with->max_overhead) ? with->max_overhead : 0,
        .loss = d->problem.loss,
        .separation_high = with->federated && with->separation_low < with->separation_high ? with->separation_high : 0,
        .loss_power = d->problem.loss == DPMF_LOSS_LP ? d->problem.loss_power : 0};
    problem_facts p = d->problem;
    p.evaluation = (dpmf_evaluation){.sensitivity = c->info.sensitivity,
                                     .rms_loss = c->info.rms_loss,
                                     .max_loss = c->info.max_loss,
                                     .total_squared_loss = s * s * c->squared_errors};
    if (dpmf_sampling_is_none(&c->info.sampling))
        TRY(mechanism_bound(&d->problem, &o.evaluate, &p.evaluation.lower_bound));
    return mechanism_make(&p, c->strategy, &o, &d->mechanism);
}

dpmf_status design_find(const dpmf_workload *workload, const dpmf_design_options *options, double part,
                        dpmf_design **out) {
    dpmf_design *d = NULL;
    dpmf_status status = DPMF_OK;
    assert(part >= 0 && part < 1 && (part == 0 || options->epochs == 1));
    TRY(check_question(workload, options));
    TRY(base_alloc(1, sizeof *d, "a design", (void **)&d));
    TRY_DONE(open_design(workload, options, part, d));
    TRY_DONE(find_candidates(d));
    TRY_DONE(design_choose(d, &d->chosen));
    *out = d;
    d = NULL;
done:
    dpmf_design_free(d);
    return status;
}

dpmf_status design_finish(dpmf_design *d) {
    TRY(design_find_bound(d));
    const double bound = design_bound_noise(d);
    for (int64_t i = 0; i < d->count && bound > 0; i++)
        d->candidates[i].info.ratio = d->candidates[i].info.noise / bound;
    TRY(make_mechanism(d));
    d->options.families = d->options.unit = NULL; /* the caller's, and of no more use */
    return DPMF_OK;
}

void design_keep_chosen(dpmf_design *d) {
    for (int64_t i = 0; i < d->count; i++)
        if (i != d->chosen) dpmf_strategy_free(d->candidates[i].strategy);
    d->candidates[0] = d->candidates[d->chosen];
    d->count = 1;
    d->chosen = 0;
}

dpmf_status dpmf_design_create(const dpmf_workload *workload, const dpmf_design_options *options, dpmf_design **out) {
    const dpmf_design_options o = options == NULL ? dpmf_design_options_defaults() : *options;
    dpmf_design *d = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(design_find(workload, &o, 0, &d));
    TRY_DONE(design_compare_samplings(d));
    TRY_DONE(design_finish(d));
    design_explain(d);
    *out = d;
    d = NULL;
done:
    dpmf_design_free(d);
    return status;
}

void dpmf_design_free(dpmf_design *d) {
    if (d == NULL) return;
    dpmf_mechanism_free(d->mechanism);
    for (int64_t i = 0; i < d->count; i++)
        dpmf_strategy_free(d->candidates[i].strategy);
    base_free(d->candidates);
    dpmf_workload_free(d->plain);
    problem_release(&d->problem);
    base_free(d);
}

const dpmf_candidate *dpmf_design_candidate(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->count ? &d->candidates[i].info : NULL;
}

size_t dpmf_design_statement(const dpmf_design *d, char *out, size_t size) {
    const candidate *c = &d->candidates[d->chosen];
    dpmf_account_options a = design_account(d, &c->info.sampling, c->strategy);
    a.covered = dpmf_mechanism_account_options(d->mechanism).covered;
    return dpmf_privacy_statement(&c->privacy, &a, out, size);
}

dpmf_design_info dpmf_design_get(const dpmf_design *d) {
    return (dpmf_design_info){.mechanism = d->mechanism,
                              .privacy = d->candidates[d->chosen].privacy,
                              .why = d->why,
                              .warnings = d->warnings,
                              .count = d->count,
                              .chosen = d->chosen,
                              .sampling_would_save = d->sampling_saves};
}

const char *dpmf_design_warning(const dpmf_design *d, int64_t i) {
    return i >= 0 && i < d->warnings ? d->warning[i] : NULL;
}
