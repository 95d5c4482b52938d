/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limited-memory BFGS (Nocedal 1980) by liblbfgs, the C port of Nocedal's own code, with the line search of More and
 * Thuente (1994), which brackets. liblbfgs takes its vectors from malloc, outside our allocator; the points kept here
 * are ours.
 *
 * Points of infinite value. The line search interpolates and cannot live with infinity, so it is shown a mirror: the
 * value of the point the search began at and the gradient there with its sign turned. That is the end of a parabola
 * that falls and rises again, whose least value is half way back: the search bisects. A mirrored point is never
 * accepted, since it is no decrease.
 *
 * A search that ends without meeting its conditions (against a wall beyond which everything is infinite, f still
 * falling) has often seen lower points: the run starts anew from the lowest one. Where rounding is all that trials
 * show, the run has come to its normal end at full precision, and is called converged if |gradient| is small enough
 * for the remaining decrease to be invisible.
 */
#include "base/minimize.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <float.h>
#include <lbfgs.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    PAD = 16,         /* liblbfgs with SSE rounds the number of variables up to a multiple of this */
    LEVEL_TRIALS = 4, /* in one line search, after which rounding is all that is left to see */
    TRIALS = 40,      /* in one line search */
    RUNS = 100        /* from new starts, each of which must have gained something */
};
static const double LEVEL = 32 * DBL_EPSILON; /* part of f that rounding may be */

typedef struct walk {
    const dpmf_i_base_objective *objective;
    const dpmf_i_base_minimize_options *options;
    dpmf_status status;       /* of the objective or the progress callback */
    dpmf_i_base_minimum last; /* the point that the last step ended on */
    double *best, *gradient;
    int level;    /* trials since then whose f cannot be told from its f */
    double low_f; /* the lowest trial since then */
    double *low;
    int before; /* iterations of earlier runs */
} walk;

static double level_of(double f) {
    return LEVEL * fmax(1, fabs(f));
}

static double mirror(const walk *w, int n, double *gradient) {
    for (int i = 0; i < n; i++)
        gradient[i] = i < w->objective->count ? -w->gradient[i] : 0;
    return w->last.f;
}

static lbfgsfloatval_t evaluate_objective(void *context, const lbfgsfloatval_t *x, lbfgsfloatval_t *gradient,
                                          const int n, const lbfgsfloatval_t step) {
    walk *w = context;
    double f = INFINITY;
    (void)step;
    if (w->level >= LEVEL_TRIALS || w->status != DPMF_OK) return mirror(w, n, gradient); /* let it find its end */
    w->last.evaluations++;
    w->status = w->objective->value(w->objective->context, x, &f, gradient);
    if (w->status != DPMF_OK || !isfinite(f)) return mirror(w, n, gradient);
    for (int64_t i = w->objective->count; i < n; i++)
        gradient[i] = 0;
    w->level = fabs(f - w->last.f) <= level_of(f) ? w->level + 1 : 0;
    if (f < w->low_f) {
        w->low_f = f;
        memcpy(w->low, x, (size_t)w->objective->count * sizeof *x);
    }
    return f;
}

static dpmf_status report_walk(const walk *w) {
    char what[160];
    if (w->options->what == NULL) return DPMF_OK;
    snprintf(what, sizeof what, "%.100s, step %d, %.9g", w->options->what, w->last.iterations, w->last.f);
    return dpmf_i_base_progress(w->options->run, what, -1);
}

static void keep_best(walk *w, const double *x, const double *gradient, double f) {
    const size_t size = (size_t)w->objective->count * sizeof *x;
    memcpy(w->best, x, size);
    memcpy(w->gradient, gradient, size);
    w->last.f = w->low_f = f;
    w->last.gradient = dpmf_i_base_norm(w->objective->count, gradient);
    w->level = 0;
}

static int after_step(void *context, const lbfgsfloatval_t *x, const lbfgsfloatval_t *gradient, const lbfgsfloatval_t f,
                      const lbfgsfloatval_t x_norm, const lbfgsfloatval_t gradient_norm, const lbfgsfloatval_t step,
                      int n, int iteration, int evaluations) {
    walk *w = context;
    (void)x_norm, (void)gradient_norm, (void)step, (void)n, (void)evaluations;
    keep_best(w, x, gradient, f);
    w->last.iterations = w->before + iteration;
    if (w->status == DPMF_OK) w->status = report_walk(w);
    return w->status != DPMF_OK;
}

/* Keeps x as the point to start from. */
static dpmf_status start_walk(walk *w, const double *x) {
    double f = INFINITY, *gradient = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_base_alloc_doubles(w->objective->count, "the gradient", &gradient));
    TRY_DONE(w->objective->value(w->objective->context, x, &f, gradient));
    w->last.evaluations++;
    if (!isfinite(f)) {
        status = dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "the optimization starts at a point of infinite loss");
        goto done;
    }
    keep_best(w, x, gradient, f);
    status = report_walk(w);
done:
    dpmf_i_base_free(gradient);
    return status;
}

static lbfgs_parameter_t parameters(const dpmf_i_base_minimize_options *o, int iterations_left) {
    lbfgs_parameter_t p;
    lbfgs_parameter_init(&p);
    p.m = o->pairs > 0 ? o->pairs : 10;
    p.epsilon = o->gradient;
    p.past = o->decrease > 0 ? (o->past > 0 ? o->past : 5) : 0;
    p.delta = o->decrease;
    p.max_iterations = iterations_left;
    p.max_linesearch = TRIALS;
    return p;
}

/* One run of liblbfgs from w->best. Its answer says how it ended. */
static int run_once(walk *w, int padded, double *point) {
    lbfgs_parameter_t p = parameters(w->options, w->options->iterations - w->last.iterations);
    double f = 0;
    memcpy(point, w->best, (size_t)w->objective->count * sizeof *point);
    w->before = w->last.iterations;
    return lbfgs(padded, point, &f, evaluate_objective, after_step, w, &p);
}

static int is_done(const walk *w, int code) {
    if (code == LBFGS_SUCCESS || code == LBFGS_STOP || code == LBFGS_ALREADY_MINIMIZED) return 1;
    return code != LBFGSERR_MAXIMUMITERATION && w->last.gradient <= 1e-5 * fmax(1, fabs(w->last.f));
}

static dpmf_status run_all(walk *w, int padded, double *point) {
    for (int run = 0; run < RUNS && w->last.iterations < w->options->iterations; run++) {
        int code = run_once(w, padded, point);
        if (w->status != DPMF_OK) return w->status;
        if (code == LBFGSERR_OUTOFMEMORY)
            return dpmf_i_base_fail(DPMF_ERROR_MEMORY, "no memory for the optimizer's vectors of %lld unknowns",
                                    (long long)w->objective->count);
        const int gained = w->low_f<w->last.f - level_of(w->last.f), moved = w->last.iterations> w->before;
        w->last.converged = is_done(w, code);
        if (w->last.converged || code == LBFGSERR_MAXIMUMITERATION || !(gained || moved)) break;
        if (gained) {
            TRY(start_walk(w, w->low));
            w->last.iterations++;
        }
    }
    return DPMF_OK;
}

dpmf_status dpmf_i_base_minimize(const dpmf_i_base_objective *objective, const dpmf_i_base_minimize_options *options,
                                 double *x, dpmf_i_base_minimum *out) {
    const int64_t count = objective->count, padded = (count + PAD - 1) / PAD * PAD;
    walk w = {.objective = objective, .options = options};
    double *point = NULL;
    dpmf_status status = DPMF_OK;
    if (count < 1 || padded > INT32_MAX / 2)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "%lld unknowns, accepted 1 to %d", (long long)count,
                                INT32_MAX / 2);
    TRY_DONE(dpmf_i_base_alloc_doubles(padded, "the point", &point));
    TRY_DONE(dpmf_i_base_alloc_doubles(count, "the best point", &w.best));
    TRY_DONE(dpmf_i_base_alloc_doubles(count, "the lowest point", &w.low));
    TRY_DONE(dpmf_i_base_alloc_doubles(count, "the gradient", &w.gradient));
    TRY_DONE(start_walk(&w, x));
    TRY_DONE(run_all(&w, (int)padded, point));
    memcpy(x, w.best, (size_t)count * sizeof *x);
    *out = w.last;
done:
    dpmf_i_base_free(point);
    dpmf_i_base_free(w.best);
    dpmf_i_base_free(w.low);
    dpmf_i_base_free(w.gradient);
    return status;
}
