/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the best TV-BLT with replayed seeds: limited-memory BFGS on the filter, the profile and the scales
 * together, from one generic start. P is eliminated exactly (families/replay/pairs.c), so every point of the search is
 * a mechanism of sensitivity 1, and the search is unconstrained.
 *
 * Max loss: from the RMS solution, p-norms of the squared errors with p = 40, 200, 1000; the point with the least
 * largest error is kept.
 *
 * Buffers for a wanted distance from a bound: one more at a time; twice the nodes where buffers alone do not help. Where
 * the caller takes what there is, the search ends when a buffer gains little.
 */
#include "families/replay/search.h"

#include "base/memory.h"
#include "base/minimize.h"

#include <math.h>
#include <string.h>

typedef replay_work work_t;
typedef replay_options options_t;
typedef replay_result result_t;

enum { ITERATIONS = 400, PAIRS = 30, PAST = 10 };
static const double DECREASE = 1e-5;
static const double LONG_DECREASE =
    3e-5; /* of long runs, where the last part in ten thousand takes a third of the time */
enum { LONG_STEPS = 50000 };

void replay_result_free(result_t *result) {
    replay_shape_free(&result->shape);
    base_free(result->parameters);
    *result = (result_t){0};
}

/* ---- one run of L-BFGS ---- */

typedef struct search {
    work_t *work;
    int started;
    double first;        /* log of the loss at the start */
    double last, enough; /* log of the loss evaluated last; stop at this one */
} search;

static dpmf_status objective_value(void *context, const double *x, double *f, double *gradient) {
    search *s = context;
    work_t *w = s->work;
    const int64_t count = replay_count(&w->c.shape);
    for (int64_t i = 0; i < count; i++)
        w->parameters[i] = x[i] * w->scales[i];
    TRY(replay_loss(w, w->parameters, f, gradient));
    if (!isfinite(*f)) return DPMF_OK;
    if (s->started == 0) s->first = *f;
    s->started = 1;
    s->last = *f;
    *f = exp(*f - s->first); /* about 1, so that "a part of f" is one of the loss */
    for (int64_t i = 0; i < count; i++)
        gradient[i] *= w->scales[i] * *f;
    return DPMF_OK;
}

/* A step ends at the point that was evaluated last. */
static dpmf_status is_enough(void *context, const double *x, double gradient, int *end) {
    const search *s = context;
    (void)x, (void)gradient;
    *end = s->last <= s->enough;
    return DPMF_OK;
}

/* From result->parameters, which become the best point. */
static dpmf_status descend(work_t *w, const options_t *o, result_t *result) {
    const int64_t count = replay_count(&w->c.shape);
    search s = {.work = w, .enough = log(o->enough)};
    const base_objective objective = {.count = count, .context = &s, .value = objective_value};
    const double settled = w->c.shape.steps > LONG_STEPS ? LONG_DECREASE : DECREASE;
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = o->decrease > 0 ? o->decrease : settled,
                                           .past = PAST,
                                           .iterations = o->iterations > 0 ? o->iterations : ITERATIONS,
                                           .pairs = PAIRS,
                                           .what = "replayed seeds",
                                           .run = o->run,
                                           .enough = !o->max_loss && o->enough > 0 ? is_enough : NULL};
    base_minimum found = {0};
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(count, "the unknowns", &x));
    for (int64_t i = 0; i < count; i++)
        x[i] = result->parameters[i] / w->scales[i];
    TRY_DONE(base_minimize(&objective, &options, x, &found));
    for (int64_t i = 0; i < count; i++)
        result->parameters[i] = x[i] * w->scales[i];
    result->iterations += found.iterations;
    result->evaluations += found.evaluations;
    result->converged = found.converged;
done:
    base_free(x);
    return status;
}

/* The loss at result->parameters. */
static dpmf_status measure(work_t *w, const options_t *o, result_t *result) {
    double ignored = 0;
    TRY(replay_loss(w, result->parameters, &ignored, NULL));
    result->loss = o->max_loss ? replay_largest(w) : replay_rms(w);
    return isfinite(ignored) ? DPMF_OK : base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: the search ended nowhere");
}

/* p-norms in turn; the best largest error is kept. */
static dpmf_status level(work_t *w, const options_t *o, result_t *result) {
    static const double NORMS[] = {40, 200, 1000};
    const size_t bytes = (size_t)replay_count(&w->c.shape) * sizeof(double);
    double *best = NULL, least = INFINITY;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(replay_count(&w->c.shape), "the best parameters", &best));
    for (size_t i = 0; i < sizeof NORMS / sizeof *NORMS; i++) {
        w->norm = NORMS[i];
        TRY_DONE(descend(w, o, result));
        TRY_DONE(measure(w, o, result));
        if (result->loss < least) {
            least = result->loss;
            memcpy(best, result->parameters, bytes);
        }
    }
    memcpy(result->parameters, best, bytes);
    result->loss = least;
done:
    base_free(best);
    return status;
}

/* ---- one shape ---- */

static dpmf_status attempt(const dpmf_workload *workload, int64_t period, int buffers, int density, const options_t *o,
                           result_t *out) {
    const int64_t n = dpmf_workload_steps(workload);
    work_t w = {0};
    result_t result = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_shape_create(n, period, buffers, density, &result.shape));
    TRY_DONE(replay_work_create(workload, &result.shape, o->pool, &w));
    const int64_t count = replay_count(&result.shape);
    TRY_DONE(base_alloc_doubles(count, "the parameters", &result.parameters));
    w.weights = o->weights;
    w.run = o->run;
    TRY_DONE(replay_start(workload, &w));
    replay_scale(&w);
    memcpy(result.parameters, w.parameters, (size_t)count * sizeof *result.parameters);
    TRY_DONE(descend(&w, o, &result));
    TRY_DONE(measure(&w, o, &result));
    if (o->max_loss) TRY_DONE(level(&w, o, &result));
    replay_result_free(out);
    *out = result;
    result = (result_t){0};
done:
    replay_work_free(&w);
    replay_result_free(&result);
    return status;
}

/* ---- the call ---- */

/* *best is the better of both, *now is freed. */
static void keep_better(result_t *best, result_t *now) {
    if (best->parameters == NULL || now->loss < best->loss) {
        result_t swap = *best;
        *best = *now;
        *now = swap;
    }
    replay_result_free(now);
}

static dpmf_status fewest(const dpmf_workload *workload, int64_t period, const options_t *o, result_t *out) {
    const double wanted = o->wanted_ratio * o->lower;
    result_t best = {0};
    int density = o->density > 0 ? o->density : 1;
    dpmf_status status = DPMF_OK;
    for (int buffers = 1; density <= 2; buffers++) {
        result_t now = {0};
        const double before = best.loss;
        const int first = best.parameters == NULL;
        TRY_DONE(attempt(workload, period, buffers, density, o, &now));
        keep_better(&best, &now);
        if (best.loss <= wanted) break;
        const int settled = o->settled > 0 && !first && buffers > 3 && best.loss > (1 - o->settled) * before;
        if (settled) break;
        if (buffers == REPLAY_BUFFERS_MAX) {
            buffers = 0;
            density++;
        }
    }
    if (best.loss > wanted && o->settled == 0)
        status =
            base_fail(DPMF_ERROR_NUMERICAL,
                      "replayed seeds: %d buffers reach a loss of %.10g, the wanted ratio needs %.10g: ask for more",
                      REPLAY_BUFFERS_MAX, best.loss, wanted);
    else
        *out = best;
done:
    if (status != DPMF_OK) replay_result_free(&best);
    return status;
}

dpmf_status replay_search(const dpmf_workload *workload, int64_t period, const options_t *o, result_t *out) {
    result_t result = {0};
    const int bounded = o->wanted_ratio > 1 && isfinite(o->wanted_ratio) && o->lower > 0;
    if (o->buffers == 0 && !bounded && !(o->settled > 0))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "replayed seeds: as many buffers as needed for a ratio of %g to a bound of %g, accepted: a "
                         "ratio above 1 and a positive bound",
                         o->wanted_ratio, o->lower);
    if (o->buffers == 0)
        TRY(fewest(workload, period, o, &result));
    else
        TRY(attempt(workload, period, o->buffers, o->density > 0 ? o->density : 1, o, &result));
    *out = result;
    return DPMF_OK;
}
