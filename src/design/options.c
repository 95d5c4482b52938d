/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the question of a design and fills it in: families, presets, participation, and the calibration that
 * candidates without sampling share.
 */
#include "design/design.h"

#include "base/memory.h"
#include "base/status.h"
#include "base/threads.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* ---- which families ---- */

static int designed_place(const dpmf_family *f) {
    return f->designed;
}

/* Is `family` one of the names joined by commas? */
static int among(const char *names, const char *family) {
    const size_t length = strlen(family);
    for (const char *at = names; *at != 0;) {
        size_t part = strcspn(at, ",");
        if (part == length && strncmp(at, family, length) == 0) return 1;
        at += part + (at[part] == ',');
    }
    return 0;
}

int design_is_named(const dpmf_design *d, const char *family) {
    return d->options.families != NULL && among(d->options.families, family);
}

int design_is_allowed(const dpmf_design *d, const char *family) {
    return d->options.families == NULL || among(d->options.families, family);
}

/* Notes a family that is not tried for more than `steps_max` steps. */
static void leave_out(dpmf_design *d, const char *family, int64_t steps_max) {
    base_text shown = {d->skipped_for_steps, sizeof d->skipped_for_steps, strlen(d->skipped_for_steps)},
              names = {d->skipped_for_steps_names, sizeof d->skipped_for_steps_names,
                       strlen(d->skipped_for_steps_names)};
    base_text_add(&shown, "%s%s (above %lld)", shown.length > 0 ? ", " : "", family, (long long)steps_max);
    base_text_add(&names, "%s,", family);
}

int design_is_tried(dpmf_design *d, const char *family, int64_t steps_max) {
    if (design_is_named(d, family)) return 1;
    if (!design_is_allowed(d, family)) return 0;
    if (d->problem.steps > steps_max && steps_max > 0) leave_out(d, family, steps_max);
    return d->problem.steps <= steps_max;
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

/* ---- checks ---- */

static dpmf_status check_enums(const dpmf_design_options *o) {
    int kinds = 0;
    while (dpmf_sampling_describe((dpmf_sampling_kind)kinds) != NULL)
        kinds++;
    if ((unsigned)o->sampling >= (unsigned)kinds)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: sampling %d, accepted 0 to %d", (int)o->sampling, kinds - 1);
    if ((unsigned)o->loss > DPMF_LOSS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: loss %d, accepted 0 (rms) or 1 (max)", (int)o->loss);
    if ((unsigned)o->adjacency > DPMF_ADJACENCY_REPLACE_ONE)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: adjacency %d, accepted 0 to 2", (int)o->adjacency);
    if ((unsigned)o->precision > DPMF_FLOAT64)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: precision %d, accepted 0 (float32) or 1 (float64)",
                         (int)o->precision);
    return DPMF_OK;
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
    if (o->tolerance != 0 && !(o->tolerance >= 1e-10 && o->tolerance <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "design: tolerance %g, accepted 1e-10 to 1, or 0", o->tolerance);
    return DPMF_OK;
}

static dpmf_status check_federated(const dpmf_design_options *o, int64_t steps) {
    if (!o->federated) return DPMF_OK;
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
    return DPMF_OK;
}

dpmf_status design_check(const dpmf_workload *workload, const dpmf_design_options *o) {
    if (workload == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "design: the workload is NULL");
    TRY(check_enums(o));
    TRY(check_numbers(o, workload->steps));
    TRY(check_federated(o, workload->steps));
    return o->families == NULL ? DPMF_OK : check_families(o->families);
}

/* ---- the problem ---- */

static dpmf_status make_participation(const dpmf_design_options *o, int64_t steps, dpmf_participation **out) {
    dpmf_participation_kind kind = o->federated ? DPMF_PARTICIPATION_MIN_SEPARATION : DPMF_PARTICIPATION_CYCLIC;
    const int64_t apart = o->federated ? o->separation_low : (steps - 1) / o->epochs + 1;
    const int64_t count = o->federated ? o->epochs : (steps - 1) / apart + 1; /* of whole passes there may be fewer */
    if (o->epochs == 1) kind = DPMF_PARTICIPATION_SINGLE;
    return dpmf_participation_create(kind, steps, count, apart, out);
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

dpmf_account_options design_account(const dpmf_design *d, const dpmf_sampling *sampling,
                                    const dpmf_strategy *strategy) {
    dpmf_account_options a = dpmf_account_options_defaults();
    a.sampling = *sampling;
    a.strategy = dpmf_sampling_is_none(sampling) ? NULL : strategy;
    a.adjacency = d->problem.adjacency;
    /* without sampling the sensitivity is doubled; with it the largest column norm is not, and sigma takes it up */
    if (dpmf_sampling_is_none(sampling) && a.adjacency == DPMF_ADJACENCY_REPLACE_ONE) a.sigma_unit = 2;
    a.run = d->options.run;
    return a;
}

dpmf_status design_open(const dpmf_workload *workload, const dpmf_design_options *o, dpmf_design *d) {
    const dpmf_sampling none = {0};
    dpmf_participation *participation = NULL;
    base_pool *pool = NULL;
    d->options = *o;
    if (o->dim == 0) d->options.dim = 1000000;
    if (o->max_overhead == 0) d->options.max_overhead = 4;
    if (o->tolerance == 0) d->options.tolerance = 1e-6;
    if (o->any_sampling) d->options.sampling = DPMF_SAMPLING_BLOCK_CYCLIC; /* its searches; samplings.c has the rest */
    d->probability = (double)o->epochs / (double)workload->steps;
    TRY(make_participation(o, workload->steps, &participation));
    d->problem = (problem_facts){.steps = workload->steps,
                                 .workload = workload_retain(workload),
                                 .participation = participation,
                                 .adjacency = o->adjacency,
                                 .loss = o->loss,
                                 .epsilon = o->epsilon,
                                 .delta = o->delta};
    TRY(make_plain(workload, &d->plain));
    TRY(base_pool_create(0, &pool)); /* a stream has as many threads by default */
    d->threads = base_pool_threads(pool);
    base_pool_free(pool);
    const dpmf_account_options a = design_account(d, &none, NULL);
    return dpmf_calibrate_sigma(o->epsilon, o->delta, &a, &d->unsampled);
}

void design_close(dpmf_design *d) {
    for (int64_t i = 0; i < d->count; i++)
        dpmf_strategy_free(d->candidates[i].strategy);
    base_free(d->candidates);
    dpmf_workload_free(d->plain);
    problem_release(&d->problem);
}
