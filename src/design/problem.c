/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The question of a design, checked and filled in: families, presets, participation, the calibration that candidates
 * without sampling share. Those who make candidates and those who choose among them read it.
 */
#include "design/design.h"

#include "base/memory.h"
#include "base/text.h"
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

int design_names(const design_problem *p, const char *family) {
    return p->options.families != NULL && among(p->options.families, family);
}

int design_wants(const design_problem *p, const char *family) {
    return p->options.families == NULL || among(p->options.families, family);
}

/* One more family that is not tried for more than `steps_max` steps. */
static void leave_out(design_problem *p, const char *family, int64_t steps_max) {
    base_text shown = {p->too_many, sizeof p->too_many, strlen(p->too_many)},
              names = {p->too_many_names, sizeof p->too_many_names, strlen(p->too_many_names)};
    base_text_add(&shown, "%s%s (above %lld)", shown.length > 0 ? ", " : "", family, (long long)steps_max);
    base_text_add(&names, "%s,", family);
}

int design_worth(design_problem *p, const char *family, int64_t steps_max) {
    if (design_names(p, family)) return 1;
    if (!design_wants(p, family)) return 0;
    if (p->steps > steps_max && steps_max > 0) leave_out(p, family, steps_max);
    return p->steps <= steps_max;
}

static dpmf_status check_family(const char *name, size_t length) {
    char shown[64], list[STRATEGY_FAMILY_LIST];
    const dpmf_family *known = dpmf_family_info(strategy_family_find(name, length));
    if (known != NULL && known->designed != 0) return DPMF_OK;
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
    if ((unsigned)o->sampling > DPMF_SAMPLING_ALLOCATION)
        return base_fail(DPMF_ERROR_ARGUMENT, "design: sampling %d, accepted 0 to %d", (int)o->sampling,
                         (int)DPMF_SAMPLING_ALLOCATION);
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
    if (o->batch_cap != 0 && !o->any_sampling &&
        (o->sampling == DPMF_SAMPLING_ALLOCATION || o->sampling == DPMF_SAMPLING_BALLS_IN_BINS))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "design: %s has no account with a cap on the batch; poisson, block-cyclic and min-sep do",
                         o->sampling == DPMF_SAMPLING_ALLOCATION ? "allocation" : "balls-in-bins");
    if (o->batch_cap == DPMF_BATCH_CAP_AUTO && o->sampling == DPMF_SAMPLING_MIN_SEPARATION && !o->any_sampling)
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

dpmf_status design_problem_check(const dpmf_workload *workload, const dpmf_design_options *o) {
    if (workload == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "design: the workload is NULL");
    TRY(check_enums(o));
    TRY(check_numbers(o, workload->steps));
    TRY(check_federated(o, workload->steps));
    return o->families == NULL ? DPMF_OK : check_families(o->families);
}

/* ---- the problem ---- */

static void fill_presets(dpmf_design_options *o) {
    if (o->dim == 0) o->dim = 1000000;
    if (o->max_overhead == 0) o->max_overhead = 4;
    if (o->tolerance == 0) o->tolerance = 1e-6;
    if (o->any_sampling) o->sampling = DPMF_SAMPLING_BLOCK_CYCLIC; /* its searches; design/samplings.c has the rest */
}

static dpmf_status make_participation(design_problem *p) {
    const dpmf_design_options *o = &p->options;
    dpmf_participation_kind kind = o->federated ? DPMF_PARTICIPATION_MIN_SEPARATION : DPMF_PARTICIPATION_CYCLIC;
    int64_t apart = o->federated ? o->separation_low : (p->steps - 1) / o->epochs + 1;
    int64_t count =
        o->federated ? o->epochs : (p->steps - 1) / apart + 1; /* whole passes of `apart` steps may be fewer */
    if (o->epochs == 1) kind = DPMF_PARTICIPATION_SINGLE;
    return dpmf_participation_create(kind, p->steps, count, apart, &p->participation);
}

static dpmf_status make_plain(design_problem *p) {
    const dpmf_workload *a = p->workload;
    if (a->toeplitz) {
        p->plain = workload_retain(a);
        return DPMF_OK;
    }
    dpmf_workload_options o = dpmf_workload_options_defaults();
    if (a->form == WORKLOAD_NAMED) {
        o.momentum = a->momentum;
        o.nesterov = a->nesterov;
        o.decay = a->decay;
    }
    return dpmf_workload_create(p->steps, &o, &p->plain);
}

static dpmf_status count_threads(int *out) {
    base_pool *pool = NULL;
    TRY(base_pool_create(0, &pool)); /* as many as a stream has unless told */
    *out = base_pool_threads(pool);
    base_pool_free(pool);
    return DPMF_OK;
}

dpmf_account_options design_account(const design_problem *p, const dpmf_sampling *sampling,
                                    const dpmf_strategy *strategy) {
    dpmf_account_options a = dpmf_account_options_defaults();
    a.sampling = *sampling;
    a.strategy = dpmf_sampling_is_none(sampling) ? NULL : strategy;
    a.adjacency = p->options.adjacency;
    /* without sampling the sensitivity is doubled; with it the largest column norm is not, and sigma takes it up */
    if (dpmf_sampling_is_none(sampling) && a.adjacency == DPMF_ADJACENCY_REPLACE_ONE) a.sigma_unit = 2;
    a.run = p->options.run;
    return a;
}

dpmf_status design_problem_open(const dpmf_workload *workload, const dpmf_design_options *o, design_problem *p) {
    const dpmf_sampling none = {0};
    p->workload = workload_retain(workload);
    p->steps = workload->steps;
    p->options = *o;
    fill_presets(&p->options);
    p->probability = (double)o->epochs / (double)p->steps;
    TRY(make_participation(p));
    TRY(make_plain(p));
    TRY(count_threads(&p->threads));
    dpmf_account_options a = design_account(p, &none, NULL);
    return dpmf_calibrate_sigma(o->epsilon, o->delta, &a, &p->unsampled);
}

void design_problem_close(design_problem *p) {
    for (int64_t i = 0; i < p->list.count; i++)
        dpmf_strategy_free(p->list.entry[i].strategy);
    base_free(p->list.entry);
    dpmf_participation_free(p->participation);
    dpmf_workload_free(p->plain);
    dpmf_workload_free((dpmf_workload *)p->workload); /* retained above */
}
