/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a strategy to a candidate: loss = s |B|_F / sqrt(n) and s max_t |B[t,:]|, noise = sigma x loss.
 *
 *     not sampled   s under the participation, one sigma for all: (epsilon, delta) of one Gaussian release
 *     amplified     s the largest column norm, sigma for ceil(n/b) compositions at probability min(1, q b)
 *                   (McKenna 2024, Proposition 2.1)
 *
 * sigma depends on the sampling alone, so that it is calibrated once for each number of blocks.
 */
#include "base/memory.h"
#include "base/sum.h"
#include "design/design.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int design_may_skip(dpmf_status status) {
    return status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL || status == DPMF_ERROR_ARGUMENT;
}

dpmf_optimize_options design_optimize_options(const design_problem *p) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    o.loss = p->options.loss;
    o.tolerance = p->options.tolerance;
    o.run = p->options.run;
    return o;
}

/* ---- losses and sigma ---- */

/* The error without the sensitivity; infinite where it diverges. */
static dpmf_status errors_of(const design_problem *p, const dpmf_strategy *s, double *rms, double *largest) {
    base_running total = {0};
    double *errors = NULL;
    dpmf_status status = DPMF_OK;
    for (int64_t i = p->list.count - 1; i >= 0; i--)
        if (p->list.entry[i].strategy == s) { /* with another sampling */
            *rms = p->list.entry[i].rms_error;
            *largest = p->list.entry[i].max_error;
            return DPMF_OK;
        }
    *rms = *largest = INFINITY;
    TRY(base_alloc_doubles(p->steps, "the errors", &errors));
    TRY_DONE(dpmf_error_compute(p->workload, s, &p->options.run, errors));
    *largest = 0;
    for (int64_t t = 0; t < p->steps; t++) {
        base_running_add(&total, errors[t] * errors[t]);
        *largest = fmax(*largest, errors[t]);
    }
    *rms = sqrt(base_running_value(&total) / (double)p->steps);
done:
    base_free(errors);
    return design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status sensitivity_of(const design_problem *p, const design_offer *offer, dpmf_sensitivity *out) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    dpmf_amplification found;
    o.adjacency = p->options.adjacency;
    o.run = p->options.run;
    if (dpmf_sampling_is_none(&offer->sampling))
        return dpmf_sensitivity_compute(offer->strategy, p->participation, &o, out);
    if (!design_sampling_alone(&offer->sampling) || offer->sampling.kind == DPMF_SAMPLING_ALLOCATION) {
        o.of = DPMF_SENSITIVITY_COLUMN;
        return dpmf_sensitivity_compute(offer->strategy, p->participation, &o, out);
    }
    TRY(dpmf_amplify(offer->strategy, &offer->sampling, 0, &found));
    *out = found.sensitivity;
    return DPMF_OK;
}

static int same_sampling(const dpmf_sampling *a, const dpmf_sampling *b) {
    return a->kind == b->kind && a->probability == b->probability && a->count == b->count && a->picks == b->picks &&
           a->cap == b->cap && design_sampling_alone(a);
}

static dpmf_status privacy_of(const design_problem *p, const design_offer *offer, dpmf_privacy *out) {
    if (dpmf_sampling_is_none(&offer->sampling)) {
        *out = p->unsampled;
        return DPMF_OK;
    }
    for (int64_t i = p->list.count - 1; i >= 0; i--)
        if (same_sampling(&p->list.entry[i].shown.sampling, &offer->sampling)) {
            *out = p->list.entry[i].privacy;
            return DPMF_OK;
        }
    const dpmf_account_options a = design_account(p, &offer->sampling, offer->strategy);
    return dpmf_calibrate_sigma(p->options.epsilon, p->options.delta, &a, out);
}

/* ---- the list ---- */

static dpmf_status make_room(design_list *list) {
    design_entry *more = NULL;
    if (list->count < list->capacity) return DPMF_OK;
    int64_t capacity = list->capacity == 0 ? 32 : 2 * list->capacity;
    TRY(base_alloc(capacity, sizeof *more, "the candidates", (void **)&more));
    if (list->count > 0) memcpy(more, list->entry, (size_t)list->count * sizeof *more);
    base_free(list->entry);
    list->entry = more;
    list->capacity = capacity;
    return DPMF_OK;
}

/* Diagonals of C, or of C^-1, where they are what the family is named for. */
static int64_t bands_of(const dpmf_strategy *s) {
    const dpmf_family *family = dpmf_family_info(strategy_family_find(s->family, strlen(s->family)));
    if (family == NULL || !family->bands) return 0;
    return family->inverse ? dpmf_strategy_buffers(s) + 1 : dpmf_strategy_bands(s);
}

static void fill_noise(double rms, double largest, dpmf_candidate *c) {
    c->rms_loss = c->sensitivity.value * rms;
    c->max_loss = c->sensitivity.value * largest;
    c->noise_rms = c->sigma * c->rms_loss;
    c->noise_max = c->sigma * c->max_loss;
}

dpmf_status design_add(design_problem *p, const design_offer *given, double *noise) {
    const dpmf_strategy *s = given->strategy;
    design_offer settled = *given;
    const design_offer *offer = &settled;
    design_entry e = {.compared = offer->compared};
    double rms = 0, largest = 0, found = 0;
    if (noise == NULL) noise = &found;
    *noise = INFINITY;
    TRY(base_progress(&p->options.run, dpmf_strategy_family(s), -1));
    TRY(errors_of(p, s, &rms, &largest));
    if (!isfinite(rms)) return DPMF_OK;
    TRY(design_settle_cap(p, &settled.sampling));
    e.shown = (dpmf_candidate){.family = dpmf_strategy_family(s),
                               .sampling = offer->sampling,
                               .bands = bands_of(s),
                               .buffers = dpmf_strategy_buffers(s),
                               .normalized = dpmf_strategy_is_normalized(s),
                               .swept = offer->swept,
                               .worst_ratio = offer->worst_ratio,
                               .worst_at = offer->worst_at,
                               .normals_per_number = dpmf_strategy_normals(s)};
    TRY(sensitivity_of(p, offer, &e.shown.sensitivity));
    TRY(privacy_of(p, offer, &e.privacy));
    TRY(design_cost(p, s, &e.shown.memory_bytes, &e.shown.overhead));
    e.rms_error = rms;
    e.max_error = largest;
    e.shown.sigma = e.privacy.sigma;
    e.shown.sigma_kind = e.privacy.kind;
    e.shown.account = e.privacy.method;
    e.shown.confidence = e.privacy.confidence;
    fill_noise(rms, largest, &e.shown);
    *noise = p->options.loss == DPMF_LOSS_MAX ? e.shown.noise_max : e.shown.noise_rms;
    if (!isfinite(*noise)) return DPMF_OK;
    if (e.compared == 0) e.compared = *noise;
    snprintf(e.made_by, sizeof e.made_by, "%s", offer->made_by == NULL ? "design" : offer->made_by);
    TRY(make_room(&p->list));
    e.strategy = strategy_retain(s);
    p->list.entry[p->list.count++] = e;
    return DPMF_OK;
}

/* ---- the best of a family ---- */

dpmf_status design_optimize(const design_problem *p, const design_wish *wish, int single, dpmf_strategy **out,
                            dpmf_optimization *result) {
    dpmf_optimize_options o = design_optimize_options(p);
    const dpmf_participation *participation = single ? NULL : p->participation;
    dpmf_optimization unused;
    if (result == NULL) result = &unused;
    if (wish->rms) o.loss = DPMF_LOSS_RMS;
    o.bands = wish->bands;
    o.buffers = wish->buffers;
    o.wanted_ratio = wish->wanted_ratio;
    o.shared_seeds = wish->shared_seeds;
    if (wish->tolerance > 0) o.tolerance = fmax(o.tolerance, wish->tolerance);
    TRY(base_progress(&p->options.run, wish->family, -1));
    if (!wish->plain) {
        dpmf_status status = dpmf_optimize(wish->family, p->workload, participation, &o, out, result);
        if (status == DPMF_OK || p->plain == p->workload || !design_may_skip(status)) return status;
    }
    TRY(dpmf_optimize(wish->family, p->plain, participation, &o, out, result));
    if (p->plain != p->workload) result->scope = NULL; /* a bound for another workload */
    return DPMF_OK;
}

static void say_how(const design_problem *p, const design_wish *wish, char out[160]) {
    snprintf(out, 160, "design: %s, %s loss, %s", wish->family,
             p->options.loss == DPMF_LOSS_MAX && !wish->rms ? "max" : "rms", dpmf_participation_text(p->participation));
}

/* A proof for all mechanisms under this participation, where the optimizer gives one, and a stronger one. */
static void take_bound(design_problem *p, const dpmf_optimization *found) {
    const double unit = p->options.adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
    double *known = p->options.loss == DPMF_LOSS_MAX ? &p->bound.max_loss : &p->bound.rms_loss;
    if (found->scope == NULL || strncmp(found->scope, "any mechanism", 13) != 0) return;
    if (!(unit * found->optimum_lower > *known)) return;
    p->bound.scope = found->scope;
    *known = unit * found->optimum_lower;
}

static dpmf_status offer_one(design_problem *p, const design_wish *wish, double *noise) {
    dpmf_optimization found = {0};
    dpmf_strategy *s = NULL;
    char made_by[160];
    dpmf_status status = design_optimize(p, wish, 0, &s, &found);
    if (noise != NULL) *noise = INFINITY;
    if (status == DPMF_OK && s != NULL) {
        if (!wish->rms) take_bound(p, &found);
        say_how(p, wish, made_by);
        status = design_add(p, &(design_offer){.strategy = s, .swept = wish->swept, .made_by = made_by}, noise);
    }
    dpmf_strategy_free(s);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* The max loss: searches for it may end above what the search for the RMS loss gives, so both are offered. */
dpmf_status design_offer_best(design_problem *p, const design_wish *wish, double *noise) {
    design_wish other = *wish;
    double first = INFINITY, second = INFINITY;
    TRY(offer_one(p, wish, &first));
    other.rms = 1;
    if (wish->rms_tolerance > 0) other.tolerance = wish->rms_tolerance;
    if (p->options.loss == DPMF_LOSS_MAX && !wish->rms) TRY(offer_one(p, &other, &second));
    if (noise != NULL) *noise = fmin(first, second);
    return DPMF_OK;
}

/* ---- the bound ---- */

dpmf_status design_find_bound(design_problem *p) {
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.adjacency = p->options.adjacency;
    o.run = p->options.run;
    if (p->bound.scope != NULL) return DPMF_OK;
    return optimum_lower_bound(p->workload, p->participation, &o,
                               p->options.loss == DPMF_LOSS_MAX ? EPOCHS_BOTH : OPTIMUM_EPOCHS_RMS, &p->bound);
}

double design_bound_noise(const design_problem *p) {
    return p->unsampled.sigma * (p->options.loss == DPMF_LOSS_MAX ? p->bound.max_loss : p->bound.rms_loss);
}

double design_least(const design_problem *p) {
    double least = INFINITY;
    for (int64_t i = 0; i < p->list.count; i++)
        if (dpmf_sampling_is_none(&p->list.entry[i].shown.sampling) &&
            design_fits(p, p->list.entry[i].shown.memory_bytes))
            least = fmin(least, p->list.entry[i].compared);
    return least;
}

int design_is_proven(const design_problem *p) {
    return design_least(p) <= DESIGN_CLOSE * design_bound_noise(p);
}

void design_fill_ratios(design_problem *p) {
    const double bound = design_bound_noise(p);
    for (int64_t i = 0; i < p->list.count; i++) {
        dpmf_candidate *c = &p->list.entry[i].shown;
        c->ratio = bound > 0 ? (p->options.loss == DPMF_LOSS_MAX ? c->noise_max : c->noise_rms) / bound : 0;
    }
}
