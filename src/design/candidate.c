/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file turns a strategy into a candidate: loss = s |B|_F / sqrt(n) and s max_t |B[t,:]|, noise = sigma x loss.
 *
 *     not sampled   s under the participation, one sigma for all: (epsilon, delta) of one Gaussian release
 *     amplified     s the largest column norm, sigma for ceil(n/b) compositions at probability min(1, q b)
 *                   (McKenna 2024, Proposition 2.1)
 *
 * Where sigma depends on the sampling alone, it is calibrated once for each number of blocks. The cost of a candidate's
 * stream is here too.
 */
#include "account/account.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sum.h"
#include "design/design.h"
#include "optimize/optimize.h"
#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

int design_is_tried(dpmf_design *d, const char *family, int64_t steps_max) {
    if (design_is_named(d, family)) return 1;
    if (!design_is_allowed(d, family)) return 0;
    if (d->problem.steps > steps_max && steps_max > 0) {
        base_text shown = {d->skipped_for_steps, sizeof d->skipped_for_steps, strlen(d->skipped_for_steps)},
                  names = {d->skipped_for_steps_names, sizeof d->skipped_for_steps_names,
                           strlen(d->skipped_for_steps_names)};
        base_text_add(&shown, "%s%s (above %lld)", shown.length > 0 ? ", " : "", family, (long long)steps_max);
        base_text_add(&names, "%s,", family);
    }
    return d->problem.steps <= steps_max;
}

void design_note_skipped(dpmf_design *d, const char *format, ...) {
    const size_t used = strlen(d->skipped_for_time);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(d->skipped_for_time + used, sizeof d->skipped_for_time - used, format, arguments);
    va_end(arguments);
    const size_t length = strlen(d->skipped_for_time);
    if (length + 1 < sizeof d->skipped_for_time) memcpy(d->skipped_for_time + length, "\n", 2);
}

int design_may_skip(dpmf_status status) {
    return status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL || status == DPMF_ERROR_ARGUMENT;
}

dpmf_optimize_options design_optimize_options(const dpmf_design *d) {
    dpmf_optimize_options o = dpmf_optimize_options_defaults();
    o.loss = design_searches_max(d) ? DPMF_LOSS_MAX : DPMF_LOSS_RMS;
    o.tolerance = d->options.tolerance;
    o.run = d->options.run;
    return o;
}

dpmf_account_options design_account(const dpmf_design *d, const dpmf_sampling *sampling,
                                    const dpmf_strategy *strategy) {
    dpmf_account_options a = dpmf_account_options_defaults();
    a.sampling = *sampling;
    a.strategy = dpmf_sampling_is_none(sampling) ? NULL : strategy;
    a.adjacency = d->problem.adjacency;
    a.group = d->options.group;
    /* without sampling the sensitivity is doubled; with it the largest column norm is not, and sigma takes it up */
    if (dpmf_sampling_is_none(sampling) && a.adjacency == DPMF_ADJACENCY_REPLACE_ONE) a.sigma_unit = 2;
    a.run = d->options.run;
    return a;
}

/*
 * ---- the cost of a stream ----
 *
 * Memory follows from the plan of the stream, and so does the time of a row in units of a row of independent noise, which
 * makes one normal number for each of its numbers:
 *
 *     overhead = normals + TOUCHED x numbers read or written
 *
 * The constant is that of one reference machine, so the answer is the same on every machine and at every load.
 * docs/design.md has the measurements behind it. With `measure` a real stream is timed instead (design/bench.c), unless the
 * model is so far above the limit that no measurement would change the choice.
 */
static const double TOUCHED = 0.06; /* median of the measurements: 0.032 ns, where a normal number takes 0.533 ns */
static const double HOPELESS = 3;   /* times the limit: not measured */

/* Of a number of a row of independent noise on the reference machine (docs/design.md), in single and in double precision. */
static const double SECONDS_SINGLE = 0.533e-9, SECONDS_DOUBLE = 1.4e-9;

double design_seconds(const dpmf_design *d, double overhead) {
    const double one = d->options.precision == DPMF_FLOAT64 ? SECONDS_DOUBLE : SECONDS_SINGLE;
    return overhead * one * (double)d->options.dim;
}

double design_model(noise_work work) {
    return work.normals + TOUCHED * work.touched;
}

dpmf_status design_cost(const dpmf_design *d, const dpmf_strategy *strategy, design_stream *out) {
    const uint64_t memory = d->options.memory, own = sizeof(dpmf_noise);
    const noise_stream_options o = {
        .precision = d->options.precision, .count = d->options.dim, .memory = memory > own ? memory - own : memory};
    noise_plan plan;
    uint64_t all = 0;
    TRY(noise_stream_memory(strategy, &o, d->threads, &all, NULL));
    TRY(noise_plan_make(strategy, &o, d->threads, &plan));
    *out = (design_stream){all + own, plan.slots, plan.work.normals, design_model(plan.work)};
    return DPMF_OK;
}

int design_fits(const dpmf_design *d, uint64_t bytes, int64_t kept) {
    if (d->options.memory == DPMF_MEMORY_NO_ROWS) return kept == 0;
    return d->options.memory == 0 || bytes <= d->options.memory;
}

dpmf_status design_ask_time(dpmf_design *d, int64_t i, int *enough) {
    dpmf_candidate *c = &d->candidates[i].info;
    if (d->options.measure && c->seconds_per_step == 0 && c->overhead <= HOPELESS * d->options.max_overhead) {
        TRY(base_progress(&d->options.run, "measuring the noise", -1));
        TRY(design_bench(d, d->candidates[i].strategy, &c->seconds_per_step, &c->overhead));
    }
    *enough = c->overhead <= d->options.max_overhead;
    return DPMF_OK;
}

double design_error(const dpmf_design *d, const candidate *c) {
    if (d->problem.loss > DPMF_LOSS_MAX) return c->asked_error;
    return d->problem.loss == DPMF_LOSS_MAX ? c->max_error : sqrt(c->squared_errors / (double)d->problem.steps);
}

int design_searches_max(const dpmf_design *d) {
    return d->problem.loss == DPMF_LOSS_MAX || (d->problem.loss == DPMF_LOSS_LP && d->problem.loss_power > 4);
}

/* The errors without the sensitivity; infinite where they diverge. */
static dpmf_status find_errors(const dpmf_design *d, candidate *c) {
    base_running total = {0};
    double *errors = NULL;
    dpmf_status status = DPMF_OK;
    for (int64_t i = d->count - 1; i >= 0; i--)
        if (d->candidates[i].strategy == c->strategy) { /* with another sampling */
            c->squared_errors = d->candidates[i].squared_errors;
            c->max_error = d->candidates[i].max_error;
            c->asked_error = d->candidates[i].asked_error;
            return DPMF_OK;
        }
    c->squared_errors = INFINITY;
    TRY(base_alloc_doubles(d->problem.steps, "the errors", &errors));
    TRY_DONE(dpmf_error_compute(d->problem.workload, c->strategy, &d->options.run, errors));
    for (int64_t t = 0; t < d->problem.steps; t++) {
        base_running_add(&total, errors[t] * errors[t]);
        c->max_error = fmax(c->max_error, errors[t]);
    }
    if (d->problem.loss > DPMF_LOSS_MAX)
        TRY_DONE(problem_loss_of(&(problem_loss){d->problem.loss, d->problem.loss_power, NULL}, d->problem.steps,
                                 errors, &c->asked_error));
    c->squared_errors = base_running_value(&total);
done:
    base_free(errors);
    return design_may_skip(status) ? DPMF_OK : status;
}

static dpmf_status find_sensitivity(const dpmf_design *d, candidate *c) {
    const dpmf_sampling *sampling = &c->info.sampling;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    o.adjacency = d->problem.adjacency;
    o.columns = d->options.dim == 1;
    o.run = d->options.run;
    if (!dpmf_sampling_is_none(sampling)) {
        account_amplification found;
        o.of = DPMF_SENSITIVITY_COLUMN;
        if (account_sampling_composes(sampling)) /* refuses a strategy that the account does not cover */
            TRY(account_amplify(c->strategy, sampling, 0, &found));
    }
    return dpmf_sensitivity_compute(c->strategy, d->problem.participation, &o, &c->info.sensitivity);
}

static dpmf_status find_privacy(const dpmf_design *d, candidate *c) {
    const dpmf_sampling *a = &c->info.sampling;
    if (dpmf_sampling_is_none(a)) {
        c->privacy = d->unsampled;
        return DPMF_OK;
    }
    for (int64_t i = d->count - 1; i >= 0; i--) {
        const dpmf_sampling *b = &d->candidates[i].info.sampling;
        if (a->kind == b->kind && a->probability == b->probability && a->count == b->count && a->picks == b->picks &&
            a->cap == b->cap && !dpmf_sampling_describe(a->kind)->simulated) {
            c->privacy = d->candidates[i].privacy;
            return DPMF_OK;
        }
    }
    dpmf_account_options how = design_account(d, a, c->strategy);
    how.slack = c->slack;
    return dpmf_calibrate_sigma(d->problem.epsilon, d->problem.delta, &how, &c->privacy);
}

/* Finds the automatic cap on the batch, once for each number of blocks. */
static dpmf_status settle_cap(const dpmf_design *d, dpmf_sampling *sampling) {
    if (sampling->cap != DPMF_BATCH_CAP_AUTO) return DPMF_OK;
    for (int64_t i = d->count - 1; i >= 0; i--) {
        const dpmf_sampling *other = &d->candidates[i].info.sampling;
        if (other->kind == sampling->kind && other->count == sampling->count) {
            sampling->cap = other->cap;
            return DPMF_OK;
        }
    }
    dpmf_account_options how = dpmf_account_options_defaults();
    how.sampling = *sampling;
    how.sampling.cap = 0;
    how.compositions = d->problem.steps;
    how.adjacency = d->problem.adjacency;
    how.run = d->options.run;
    return account_calibrate_cap(d->problem.epsilon, d->problem.delta, 0, &how, &sampling->cap, NULL);
}

/* Returns the diagonals of C, or of C^-1, if the family is named after them. */
static int64_t bands_of(const dpmf_strategy *s) {
    const strategy_family *family = strategy_family_find(s->family, strlen(s->family));
    if (family == NULL || !family->shown.bands) return 0;
    return family->shown.inverse ? strategy_buffers(s) + 1 : strategy_bands(s);
}

dpmf_status design_evaluate(const dpmf_design *d, candidate *c, double *noise) {
    const dpmf_strategy *s = c->strategy;
    dpmf_candidate *info = &c->info;
    *noise = INFINITY;
    TRY(base_progress(&d->options.run, s->family, -1));
    TRY(find_errors(d, c));
    if (!isfinite(c->squared_errors)) return DPMF_OK;
    TRY(settle_cap(d, &info->sampling));
    info->family = s->family;
    info->bands = bands_of(s);
    info->buffers = strategy_buffers(s);
    info->normalized = strategy_is_normalized(s);
    info->stamps = dpmf_strategy_get(s).stamps;
    info->normals_per_number = strategy_normals(s);
    TRY(find_sensitivity(d, c));
    TRY(find_privacy(d, c));
    design_stream stream;
    TRY(design_cost(d, s, &stream));
    info->memory_bytes = stream.bytes;
    info->overhead = stream.overhead;
    c->kept = stream.kept;
    if (d->options.memory == DPMF_MEMORY_NO_ROWS) {
        info->buffers = stream.kept;
        if (stream.kept == 0) info->normals_per_number = stream.normals;
    }
    info->sigma = c->privacy.sigma;
    info->sigma_kind = c->privacy.kind;
    info->account = c->privacy.method;
    info->confidence = c->privacy.confidence;
    info->rms_loss = info->sensitivity.value * sqrt(c->squared_errors / (double)d->problem.steps);
    info->max_loss = info->sensitivity.value * c->max_error;
    info->noise_rms = info->sigma * info->rms_loss;
    info->noise_max = info->sigma * info->max_loss;
    info->loss = info->sensitivity.value * design_error(d, c);
    info->noise = info->sigma * info->loss;
    *noise = info->noise;
    if (c->compared == 0) c->compared = *noise;
    return DPMF_OK;
}

dpmf_status design_add(dpmf_design *d, const candidate *given, const char *made_by, double *noise) {
    candidate c = *given;
    double found = 0;
    if (noise == NULL) noise = &found;
    TRY(design_evaluate(d, &c, noise));
    if (!isfinite(*noise)) return DPMF_OK;
    snprintf(c.made_by, sizeof c.made_by, "%s", made_by);
    if (d->count == d->capacity) {
        const int64_t capacity = d->capacity == 0 ? 32 : 2 * d->capacity;
        candidate *more = NULL;
        TRY(base_alloc(capacity, sizeof *more, "the candidates", (void **)&more));
        if (d->count > 0) memcpy(more, d->candidates, (size_t)d->count * sizeof *more);
        base_free(d->candidates);
        d->candidates = more;
        d->capacity = capacity;
    }
    d->candidates[d->count] = c;
    d->candidates[d->count++].strategy = strategy_retain(c.strategy);
    return DPMF_OK;
}

dpmf_status design_add_closed_form(dpmf_design *d, const char *family, const dpmf_sampling *sampling) {
    candidate c = {.info.sampling = *sampling};
    dpmf_status status = dpmf_strategy_create(family, d->problem.workload, NULL, &c.strategy);
    if (status == DPMF_OK) status = design_add(d, &c, "design: closed form", NULL);
    dpmf_strategy_free(c.strategy);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* A family whose search takes longer with the square of the steps, as that of matrices, is stamped up to here unless it is named. */
static const int64_t STAMPED_STEPS_MAX = 4096;

/*
 * Stamped strategies were never chosen where we tried (docs/mechanisms.md), so they are candidates only on request: the closed
 * form, and the best of the family where its search needs no number from the caller.
 */
dpmf_status design_add_stamped(dpmf_design *d, const strategy_family *f) {
    const dpmf_strategy_options plain = dpmf_strategy_options_defaults();
    const int searched =
        f->optimize != NULL && !f->shown.optimize_bands &&
        (f->shown.optimize_chooses || d->problem.steps <= STAMPED_STEPS_MAX || design_is_named(d, f->shown.name));
    dpmf_status status = DPMF_OK;
    for (int search = 0; search < 2 && (status == DPMF_OK || design_may_skip(status)); search++) {
        dpmf_optimize_options o = design_optimize_options(d);
        dpmf_optimization found;
        candidate c = {0};
        char made_by[64];
        if (search ? !searched : !f->shown.closed_form || f->shown.bands) continue;
        o.stamps = d->options.stamps;
        o.closed_form = search ? NULL : &plain;
        status = optimize_problem(f->shown.name, &d->problem, &o, &c.strategy, &found);
        const int64_t stamps = status == DPMF_OK ? dpmf_strategy_get(c.strategy).stamps : 1;
        snprintf(made_by, sizeof made_by, "design: %lld stamps", (long long)stamps);
        if (stamps > 1) status = design_add(d, &c, made_by, NULL); /* one stamp is a candidate already */
        dpmf_strategy_free(c.strategy);
    }
    return design_may_skip(status) ? DPMF_OK : status;
}

dpmf_status design_optimize(const dpmf_design *d, const search_request *request, dpmf_strategy **out,
                            dpmf_optimization *result) {
    dpmf_optimize_options o = design_optimize_options(d);
    problem_facts p = d->problem;
    dpmf_optimization unused;
    if (result == NULL) result = &unused;
    if (request->single_participation) {
        p.participation = NULL;
        p.bound_known = PROBLEM_BOUND_UNKNOWN;
    }
    if (request->for_rms_loss) o.loss = DPMF_LOSS_RMS;
    o.bands = request->bands;
    o.buffers = request->buffers;
    o.shared_seeds = request->shared_seeds;
    o.damped = request->damped;
    if (request->tolerance > 0) o.tolerance = fmax(o.tolerance, request->tolerance);
    TRY(base_progress(&d->options.run, request->family, -1));
    if (!request->without_schedule) {
        dpmf_status status = optimize_problem(request->family, &p, &o, out, result);
        if (status == DPMF_OK || d->plain == d->problem.workload || !design_may_skip(status)) return status;
    }
    if (d->plain != d->problem.workload) p.bound_known = PROBLEM_BOUND_UNKNOWN;
    p.workload = d->plain;
    TRY(optimize_problem(request->family, &p, &o, out, result));
    if (d->plain != d->problem.workload) result->scope = NULL; /* a bound for another workload */
    return DPMF_OK;
}

/* Keeps the optimizer's bound if it holds for all mechanisms under this participation and is stronger than the known one. */
static void take_bound(dpmf_design *d, const dpmf_optimization *found) {
    const double unit = d->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE ? 2 : 1;
    double *known = design_searches_max(d) ? &d->proven.max_loss : &d->proven.rms_loss;
    if (found->scope == NULL || strncmp(found->scope, "any mechanism", 13) != 0) return;
    if (!(unit * found->optimum_lower > *known)) return;
    d->proven.scope = found->scope;
    *known = unit * found->optimum_lower;
}

static dpmf_status add_one(dpmf_design *d, const search_request *request, double *noise) {
    dpmf_optimization found = {0};
    dpmf_strategy *s = NULL;
    char made_by[160];
    dpmf_status status = design_optimize(d, request, &s, &found);
    *noise = INFINITY;
    if (status == DPMF_OK && s != NULL) {
        if (!request->for_rms_loss) take_bound(d, &found);
        snprintf(made_by, sizeof made_by, "design: %s, %s loss, %s", request->family,
                 design_searches_max(d) && !request->for_rms_loss ? "max" : "rms", d->problem.participation->text);
        if (request->damped)
            snprintf(made_by + strlen(made_by), sizeof made_by - strlen(made_by), ", square root damped by %.6g",
                     found.nu);
        const candidate c = {.strategy = s, .info.is_search_point = request->is_search_point};
        status = design_add(d, &c, made_by, noise);
    }
    dpmf_strategy_free(s);
    return design_may_skip(status) ? DPMF_OK : status;
}

/* A search for the max loss may end above the result of the search for the RMS loss, so both are candidates. */
dpmf_status design_add_best(dpmf_design *d, const search_request *request, double *noise) {
    search_request other = *request;
    double first = INFINITY, second = INFINITY;
    TRY(add_one(d, request, &first));
    other.for_rms_loss = 1;
    if (request->rms_tolerance > 0) other.tolerance = request->rms_tolerance;
    if (design_searches_max(d) && !request->for_rms_loss) TRY(add_one(d, &other, &second));
    if (noise != NULL) *noise = fmin(first, second);
    return DPMF_OK;
}

dpmf_status design_find_bound(dpmf_design *d) {
    problem_facts *p = &d->problem;
    const int both = design_searches_max(d) || workload_is_single(p->participation);
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    if (d->proven.scope != NULL) return DPMF_OK;
    o.adjacency = p->adjacency;
    o.columns = d->options.dim == 1;
    o.run = d->options.run;
    TRY(optimum_lower_bound(p->workload, p->participation, &o, both ? EPOCHS_BOTH : EPOCHS_RMS_LOSS, NULL,
                            &p->evaluation.lower_bound));
    p->bound_known = both ? PROBLEM_BOUND_BOTH : PROBLEM_BOUND_RMS;
    d->proven = p->evaluation.lower_bound;
    return DPMF_OK;
}

/* The mean of P-th powers, P >= 2, is no less than that of squares; for other losses no bound is known. */
double design_bound_noise(const dpmf_design *d) {
    const problem_facts *p = &d->problem;
    if (p->loss == DPMF_LOSS_LAST || (p->loss == DPMF_LOSS_LP && p->loss_power < 2)) return 0;
    return d->unsampled.sigma * (d->problem.loss == DPMF_LOSS_MAX ? d->proven.max_loss : d->proven.rms_loss);
}

double design_least(const dpmf_design *d) {
    double least = INFINITY;
    for (int64_t i = 0; i < d->count; i++) {
        const dpmf_candidate *info = &d->candidates[i].info;
        if (dpmf_sampling_is_none(&info->sampling) && design_candidate_fits(d, &d->candidates[i]))
            least = fmin(least, d->candidates[i].compared);
    }
    return least;
}

int design_is_proven(const dpmf_design *d) {
    return design_least(d) <= DESIGN_CLOSE * design_bound_noise(d);
}
