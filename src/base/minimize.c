/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limited-memory BFGS (base/descent/lbfgs.c) with a line search that brackets (base/descent/line_search.c).
 *
 * A search that ends without meeting its conditions (against a wall beyond which everything is infinite, f still
 * falling) has often seen lower points: the run restarts from the lowest one, with an empty memory. Where trials differ
 * by rounding only, the run has come to its normal end at full precision, and counts as converged if |gradient| is
 * small enough for the remaining decrease to be invisible.
 */
#include "base/minimize.h"

#include "base/descent/lbfgs.h"
#include "base/descent/line_search.h"
#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LEVEL_TRIALS = 4, /* in one line search; after that, only rounding changes f */
    RUNS = 100,       /* from new starts, each of which must have gained something */
    PAIRS = 10,       /* of the memory, and */
    PAST = 5,         /* steps of the decrease rule, where the caller names none */
    PAST_MAX = 32
};
static const double LEVEL = 32 * DBL_EPSILON; /* part of f that rounding may be */

typedef struct place {
    double *x, *gradient, f;
} place;

typedef enum ending { MET, LIMIT, STUCK } ending; /* one of the two rules, the iterations, or the line search */

typedef struct walk {
    const base_objective *objective;
    const base_minimize_options *options;
    descent_lbfgs own, *memory; /* the memory is the caller's or our own */
    base_minimum last;
    place at, trial; /* the point that the last step ended on, and the last one tried */
    double *direction;
    int level;    /* trials since then whose f equals its f up to rounding */
    double low_f; /* the lowest trial since then that was not accepted */
    double *low;
    double past[PAST_MAX]; /* f after the last steps of this run, step k in place k modulo the rule's number */
} walk;

static double level_of(double f) {
    return LEVEL * fmax(1, fabs(f));
}

static dpmf_status evaluate_at(walk *w, place *p) {
    p->f = INFINITY;
    TRY(w->objective->value(w->objective->context, p->x, &p->f, p->gradient));
    w->last.evaluations++;
    return DPMF_OK;
}

/* Forgets the trials of the last point, since w->at is a new one. */
static dpmf_status arrive(walk *w) {
    char what[160];
    w->last.f = w->low_f = w->at.f;
    w->last.gradient = base_norm(w->objective->count, w->at.gradient);
    w->level = 0;
    if (w->options->what == NULL) return DPMF_OK;
    snprintf(what, sizeof what, "%.100s, step %d, %.9g", w->options->what, w->last.iterations, w->last.f);
    return base_progress(w->options->run, what, -1);
}

/* Starts from the point in w->at.x. */
static dpmf_status start_walk(walk *w) {
    TRY(evaluate_at(w, &w->at));
    if (!isfinite(w->at.f))
        return base_fail(DPMF_ERROR_NUMERICAL, "the optimization starts at a point of infinite loss");
    return arrive(w);
}

/* ---- one step ---- */

/* f at one trial of the line search. */
static dpmf_status try_step(walk *w, descent_line_search *line, descent_line_end *end) {
    const int64_t n = w->objective->count;
    const double *restrict x = w->at.x, *restrict d = w->direction, step = line->next;
    double *restrict to = w->trial.x;
    for (int64_t i = 0; i < n; i++)
        to[i] = x[i] + step * d[i];
    TRY(evaluate_at(w, &w->trial));
    if (!isfinite(w->trial.f)) {
        *end = descent_line_take_wall(line);
        return DPMF_OK;
    }
    *end = descent_line_take(line, w->trial.f, base_dot(n, w->trial.gradient, d));
    w->level = fabs(w->trial.f - w->at.f) <= level_of(w->trial.f) ? w->level + 1 : 0;
    if (*end != DESCENT_LINE_FOUND && w->trial.f < w->low_f) {
        w->low_f = w->trial.f;
        memcpy(w->low, w->trial.x, (size_t)n * sizeof *w->low);
    }
    return DPMF_OK;
}

/* Searches from w->at along the direction; *found: w->trial is the next point. */
static dpmf_status search_line(walk *w, int *found) {
    const int64_t n = w->objective->count;
    const double slope = base_dot(n, w->at.gradient, w->direction);
    /* without a memory the length of the direction has no meaning: the first trial has length 1 */
    const double first = w->memory->used > 0 ? 1 : 1 / base_norm(n, w->direction);
    descent_line_search line;
    descent_line_end end = DESCENT_LINE_GOES_ON;
    *found = 0;
    if (!(slope < 0 && first > 0)) return DPMF_OK; /* by rounding, the direction does not descend */
    descent_line_start(&line, w->at.f, slope, first);
    while (end == DESCENT_LINE_GOES_ON && w->level < LEVEL_TRIALS)
        TRY(try_step(w, &line, &end));
    *found = end == DESCENT_LINE_FOUND;
    return DPMF_OK;
}

static dpmf_status take_step(walk *w) {
    const place last = w->at;
    descent_lbfgs_remember(w->memory, last.x, last.gradient, w->trial.x, w->trial.gradient);
    w->at = w->trial;
    w->trial = last;
    w->last.iterations++;
    return arrive(w);
}

/* ---- runs ---- */

static int is_flat(const walk *w) {
    return w->last.gradient <= w->options->gradient * fmax(1, base_norm(w->objective->count, w->at.x));
}

/* f after `step` steps of this run: has it fallen too little since `past` steps before? */
static int falls_too_little(walk *w, int step) {
    const int past = w->options->past > 0 ? w->options->past : PAST;
    double *before = &w->past[step % past], f = w->at.f;
    const int end = step >= past && fabs(*before - f) < w->options->decrease * fabs(f);
    assert(past <= PAST_MAX);
    *before = f;
    return end;
}

/* From w->at. */
static dpmf_status run_once(walk *w, ending *end) {
    int found = 1;
    *end = is_flat(w) ? MET : STUCK;
    (void)falls_too_little(w, 0);
    for (int step = 1; *end == STUCK; step++) {
        descent_lbfgs_direction(w->memory, w->at.gradient, w->direction);
        TRY(search_line(w, &found));
        if (!found) break;
        TRY(take_step(w));
        int enough = 0;
        if (w->options->enough != NULL)
            TRY(w->options->enough(w->objective->context, w->at.x, w->last.gradient, &enough));
        if (enough || is_flat(w) || falls_too_little(w, step))
            *end = MET;
        else if (w->last.iterations >= w->options->iterations)
            *end = LIMIT;
    }
    return DPMF_OK;
}

static dpmf_status run_all(walk *w) {
    for (int run = 0; run < RUNS && w->last.iterations < w->options->iterations; run++) {
        const int before = w->last.iterations, kept = run == 0 && w->memory->used > 0;
        ending end = STUCK;
        if (run > 0) descent_lbfgs_forget(w->memory);
        TRY(run_once(w, &end));
        const int gained = w->low_f<w->at.f - level_of(w->at.f), moved = w->last.iterations> before;
        w->last.converged = end == MET || (end == STUCK && w->last.gradient <= 1e-5 * fmax(1, fabs(w->at.f)));
        if (w->last.converged || end == LIMIT || !(gained || moved || kept)) break;
        if (gained) {
            memcpy(w->at.x, w->low, (size_t)w->objective->count * sizeof *w->low);
            TRY(start_walk(w));
            w->last.iterations++;
        }
    }
    return DPMF_OK;
}

static dpmf_status create_walk(walk *w) {
    const int64_t n = w->objective->count;
    TRY(base_alloc_doubles(n, "the point", &w->at.x));
    TRY(base_alloc_doubles(n, "the gradient", &w->at.gradient));
    TRY(base_alloc_doubles(n, "the next point", &w->trial.x));
    TRY(base_alloc_doubles(n, "the next gradient", &w->trial.gradient));
    TRY(base_alloc_doubles(n, "the direction", &w->direction));
    TRY(base_alloc_doubles(n, "the lowest point", &w->low));
    w->memory = w->options->memory != NULL ? w->options->memory : &w->own;
    if (w->options->memory != NULL) return DPMF_OK;
    return descent_lbfgs_create(n, w->options->pairs > 0 ? w->options->pairs : PAIRS, &w->own);
}

static void free_walk(walk *w) {
    double *const all[] = {w->at.x, w->at.gradient, w->trial.x, w->trial.gradient, w->direction, w->low};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
    descent_lbfgs_free(&w->own);
}

dpmf_status base_minimize(const base_objective *objective, const base_minimize_options *options, double *x,
                          base_minimum *out) {
    const size_t size = (size_t)objective->count * sizeof *x;
    walk w = {.objective = objective, .options = options};
    assert(options->memory == NULL || options->memory->n == objective->count);
    dpmf_status status = DPMF_OK;
    if (objective->count < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " unknowns, accepted 1 and more", objective->count);
    TRY_DONE(create_walk(&w));
    memcpy(w.at.x, x, size);
    TRY_DONE(start_walk(&w));
    TRY_DONE(run_all(&w));
    memcpy(x, w.at.x, size);
    *out = w.last;
done:
    free_walk(&w);
    return status;
}
