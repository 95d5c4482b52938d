/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified epsilon and delta of a list of different pairs of distributions, each composed so many times: what a list of
 * runs on the same data comes to, and what becomes of a pair that is known only by bounds of its curve.
 *
 * The route is that of account/grid/grid.c, with the curve in place of densities: every pair is put on one common grid so
 * that it dominates (account/grid/hull.c), all are tilted by one common order and multiplied in frequency space
 * (account/grid/spectrum.c), and delta is read off the sum. The directions stay apart: (P, Q) is composed with (P, Q) and
 * (Q, P) with (Q, P), and the caller takes the larger result.
 *
 * The step g: putting a loss on the grid adds the variance g^2/6, so that n steps add about n g^2 (1+t)/12 to epsilon at the
 * order t of its saddle point (account/grid/plan.c), which is to be a part of the slack.
 *
 * What fails, a curve that is not a number or a window that is too long, answers infinity.
 */
#include "account/grid/product.h"

#include "base/memory.h"
#include <math.h>

enum { ATTEMPTS = 6 };
static const double STEP = 0.4, CUT = 0.005, ORDER_SLACK = 8;

static double steps_of(int count, const grid_part *parts) {
    double steps = 0;
    for (int i = 0; i < count; i++)
        steps += (double)parts[i].times;
    return steps;
}

static void list_free(grid_list *list) {
    for (int i = 0; i < list->count; i++)
        hull_atoms_free(&list->atoms[i]);
    base_free(list->atoms);
    *list = (grid_list){0};
}

static dpmf_status list_create(int count, const grid_part *parts, int reversed, double step, double mass,
                               const dpmf_run *run, grid_list *out) {
    grid_list list = {.count = count, .step = step};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(count, sizeof *list.atoms, "the parts of a composition", (void **)&list.atoms));
    for (int i = 0; i < count; i++)
        TRY_DONE(hull_atoms_create(&parts[i], reversed, step, mass, run, &list.atoms[i]));
    *out = list;
    return DPMF_OK;
done:
    if (list.atoms != NULL) list_free(&list);
    return status;
}

/* What is known so far of where to look. */
typedef struct search {
    double epsilon; /* negative: not known */
    double log_delta, order;
    double slack, step;
} search;

static double wanted_step(const search *s, double steps) {
    return fmin(0.25 / (1 + s->order), sqrt(12 * STEP * s->slack / ((1 + s->order) * steps)));
}

/* The composed curve at the place that the search has come to; the order and the step are settled on the way. */
static dpmf_status compose(int count, const grid_part *parts, int reversed, const grid_list_options *options,
                           int of_epsilon, search *s, grid_list_plan *plan, grid_curve *curve) {
    enum { ROUNDS = 4 };
    const double steps = steps_of(count, parts);
    grid_list list = {0};
    dpmf_status status = DPMF_OK;
    for (int round = 1;; round++) {
        const double tolerance = fmin(0.5, s->order * s->slack);
        s->step = wanted_step(s, steps);
        const double mass = exp(fmax(s->log_delta, -640)) * CUT * tolerance / steps;
        TRY(list_create(count, parts, reversed, s->step, mass, options->run, &list));
        TRY_DONE(grid_list_plan_make(&list, of_epsilon ? s->epsilon : fmax(s->epsilon, 0), s->log_delta,
                                     ORDER_SLACK / s->slack, plan));
        s->order = plan->order;
        s->slack = fmax(options->relative * plan->epsilon, options->absolute);
        int settled = wanted_step(s, steps) > 0.7 * s->step;
        if (!of_epsilon) {
            const double before = s->log_delta;
            s->log_delta = fmin(fmax(plan->log_delta, -690), -1e-3);
            settled = settled && fabs(before - s->log_delta) < 2;
        }
        if (settled || round == ROUNDS) break;
        list_free(&list);
    }
    TRY_DONE(grid_list_compose(&list, plan, options->run, curve));
done:
    list_free(&list);
    return status;
}

/* Does the slack hold, as far as can be told: rounding, what was cut off, and the step? */
static int is_met(const grid_curve *curve, const search *s, double steps, double epsilon, double log_delta) {
    const grid_shape shape = grid_curve_shape(curve, epsilon, log_delta);
    return (shape.noise + shape.cut) / shape.slope + s->step * s->step * (1 + shape.bend) * steps / 12 <= s->slack;
}

/* Losses are a rounding of e^(i g) away from the grid. */
static double raised(double epsilon, double steps) {
    return epsilon * (1 + 1e-12) + 1e-15 * steps;
}

dpmf_status grid_list_epsilon(int count, const grid_part *parts, int reversed, double log_delta,
                              const grid_list_options *options, double *epsilon, int *met) {
    const double steps = steps_of(count, parts);
    search s = {
        .epsilon = -1, .log_delta = log_delta, .order = 10, .slack = fmax(options->relative, options->absolute)};
    double best = INFINITY;
    int good = 0;
    for (int i = 0; i < ATTEMPTS; i++) {
        grid_list_plan plan;
        grid_curve curve;
        int side;
        TRY(base_progress(options->run, "certifying epsilon", -1));
        TRY(compose(count, parts, reversed, options, 1, &s, &plan, &curve));
        const double found = grid_curve_epsilon(&curve, log_delta, &side);
        const double width = (double)plan.length * s.step;
        if (side <= 0 && found < best) {
            best = fmax(found, 0);
            good = side == 0 ? is_met(&curve, &s, steps, found, log_delta) : found <= 0;
        }
        grid_curve_free(&curve);
        if (side <= 0 && (found <= 0 || fabs(found - plan.epsilon) <= 0.05 * width)) break;
        s.epsilon = side > 0 ? plan.epsilon + 0.5 * width : side < 0 ? fmax(found - 0.3 * width, 0) : found;
    }
    *epsilon = raised(best, steps);
    *met = good;
    return DPMF_OK;
}

dpmf_status grid_list_log_delta(int count, const grid_part *parts, int reversed, double epsilon,
                                const grid_list_options *options, double *log_delta, int *met) {
    const double steps = steps_of(count, parts), below = fmax(epsilon * (1 - 1e-12) - 1e-15 * steps, 0);
    search s = {.epsilon = epsilon,
                .log_delta = -20,
                .order = 10,
                .slack = fmax(options->relative * epsilon, options->absolute)};
    grid_list_plan plan;
    grid_curve curve;
    TRY(base_progress(options->run, "certifying delta", -1));
    TRY(compose(count, parts, reversed, options, 0, &s, &plan, &curve));
    const double found = grid_curve_log_delta(&curve, below) + 1e-12;
    *log_delta = found < 0 ? found : 0;
    *met = found < 0 && is_met(&curve, &s, steps, epsilon, found);
    grid_curve_free(&curve);
    return DPMF_OK;
}
