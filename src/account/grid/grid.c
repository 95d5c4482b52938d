/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified epsilon and delta by composition on a grid of losses, as upper bounds that are tight to a wanted slack: of
 * the Poisson-subsampled Gaussian mechanism, composed n times, from its densities; and of lists of different pairs of
 * distributions, each composed its own number of times, from their curves (what a list of runs on the same data comes
 * to, and what becomes of a pair that is known only by bounds of its curve).
 *
 * The route: the mass of each loss is put on the two grid points about it so that P-mass and Q-mass are kept (connect the
 * dots; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022): a dominating pair on a grid, whose composition is a product
 * in frequency space. The losses are tilted first by e^(tL), t the saddle-point order of the epsilon in question, so that
 * the outcomes near epsilon are the likely ones and rounding is relative to them: a delta of 1e-25 or 1e-250 has the same
 * digits as one of 1e-3. All pairs of a list have one common grid and one common order. Its directions stay apart: (P, Q)
 * is composed with (P, Q) and (Q, P) with (Q, P), and the caller takes the larger result.
 *
 * Why it is a bound; each item is argued at the head of its file:
 *
 *     discretisation   dominates by construction, with masses rounded up              account/grid/densities.c, hull.c
 *     truncation       above: to infinity; below: up to the lowest atoms              account/grid/densities.c, hull.c
 *     rounding         a bound on every output of the transform, added to it          account/grid/power.c
 *     wrap-around      inside the window it only adds; above it, Chernoff's bound     account/grid/compose.c
 *
 * Constants of the pair such as 1/sigma^2 are rounded too, which makes it that of a sigma and q a rounding away;
 * epsilon is raised by 1e-12 of itself for that, and delta is read where epsilon is as much less. The losses of a list are
 * besides a rounding of e^(i h) away from its grid, per step: for that 1e-15 is added for each.
 *
 * Why this route: putting a loss on the grid adds the variance h^2/6, so that the error of epsilon is about n h^2 (1+t)/12 and
 * h follows from the wanted slack; and the window of the transform is a few tilted standard deviations wide, not the range
 * of the loss.
 *
 * Every attempt below yields a bound; another one is made about the epsilon that the last one found, where that is far
 * from the guess, and the least bound is the answer. A failure (a curve that is not a number, or a window that is too
 * long) gives the trivial bound.
 */
#include "account/grid/grid.h"

#include "account/saddle.h"
#include "base/memory.h"

#include <math.h>

static const double PAIR_ROUNDING = 1e-12;
enum { ATTEMPTS = 6 };

/* Where to look, and how finely. */
typedef struct search {
    double epsilon;      /* negative: by the plan's own guess */
    double log_delta;    /* where the tails are cut */
    double part;         /* of a pair: of the slack that the next plan may take */
    double order, slack; /* of a list: what the last plan came to */
} search;

/*
 * The pair that is computed, at least as bad as the given one: delta rises with q (joint convexity: a smaller q is a
 * mixture with a pair that is equal) and falls with sigma. 0: beyond what the method can do.
 */
static int within_range(account_pair *pair) {
    static const double sigma_min = 0.01, sigma_max = 1e6, q_min = 1e-15;
    pair->sigma = fmin(pair->sigma, sigma_max);
    pair->probability = fmax(pair->probability, q_min);
    return pair->sigma >= sigma_min && pair->compositions <= (int64_t)1 << 50;
}

/* ---- the composed curve at the place that the search has come to ---- */

/* Are the grid points of the plan distinct doubles, and are its orders finite? */
static int plan_is_sound(const grid_plan *plan) {
    static const double most = 0x1p50;
    return plan->step > 1e-290 && isfinite(plan->step) && isfinite(plan->log_moment) &&
           fabs((double)plan->first) < most && isfinite(plan->z_low) && isfinite(plan->z_high);
}

/* *made 0: not possible. */
static dpmf_status compose_pair(const pair_constants *p, const account_question *q, const search *s, grid_plan *plan,
                                grid_curve *curve, int *made) {
    TRY(grid_plan_pair(p, s->epsilon, s->log_delta, s->part * q->relative, s->part * q->absolute, q->step_max, plan));
    *made = plan_is_sound(plan);
    return *made ? grid_compose(p, NULL, plan, q->run, curve) : DPMF_OK;
}

static double steps_of(const grid_source *source) {
    double steps = 0;
    for (int i = 0; i < source->count; i++)
        steps += (double)source->parts[i].times;
    return steps;
}

static void list_free(grid_list *list) {
    for (int i = 0; i < list->count; i++)
        hull_atoms_free(&list->atoms[i]);
    base_free(list->atoms);
    *list = (grid_list){0};
}

static dpmf_status list_create(const grid_source *source, double step, double mass, const dpmf_run *run,
                               grid_list *out) {
    grid_list list = {.count = source->count, .step = step};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(list.count, sizeof *list.atoms, "the parts of a composition", (void **)&list.atoms));
    for (int i = 0; i < list.count; i++)
        TRY_DONE(hull_atoms_create(&source->parts[i], source->reversed, step, mass, run, &list.atoms[i]));
    *out = list;
    return DPMF_OK;
done:
    if (list.atoms != NULL) list_free(&list);
    return status;
}

static double wanted_step(const search *s, double steps) {
    static const double STEP = 0.4; /* part of the slack */
    return fmin(0.25 / (1 + s->order), sqrt(12 * STEP * s->slack / ((1 + s->order) * steps)));
}

/* The order and the step of a list are settled on the way. */
static dpmf_status compose_list(const grid_source *source, const account_question *q, search *s, grid_plan *plan,
                                grid_curve *curve) {
    enum { ROUNDS = 4 };
    static const double CUT = 0.005, ORDER_SLACK = 8; /* as in account/grid/plan.c */
    const double steps = steps_of(source);
    grid_list list = {0};
    dpmf_status status = DPMF_OK;
    for (int round = 1;; round++) {
        const double tolerance = fmin(0.5, s->order * s->slack), step = wanted_step(s, steps);
        const double mass = exp(fmax(s->log_delta, -640)) * CUT * tolerance / steps;
        TRY(list_create(source, step, mass, q->run, &list));
        TRY_DONE(grid_plan_list(&list, s->epsilon, s->log_delta, ORDER_SLACK / s->slack, plan));
        s->order = plan->order;
        s->slack = account_slack(q, plan->epsilon);
        int settled = wanted_step(s, steps) > 0.7 * step;
        if (!q->of_epsilon) {
            const double before = s->log_delta;
            s->log_delta = fmin(fmax(plan->log_delta, -690), -1e-3);
            settled = settled && fabs(before - s->log_delta) < 2;
        }
        if (settled || round == ROUNDS) break;
        list_free(&list);
    }
    TRY_DONE(grid_compose(NULL, &list, plan, q->run, curve));
done:
    list_free(&list);
    return status;
}

/* ---- how good it is ---- */

typedef struct estimate {
    double error; /* of epsilon */
    int met;      /* is delta, without what is known to be too much, above the wanted one a slack below epsilon? */
    int noisy;    /* is rounding most of it, so that a coarser step, with fewer numbers, does better? */
    int finest;   /* is a finer step impossible? */
} estimate;

/* The discretisation's error with the curve's own bend in place of the order's; the rest by the curve's slope. */
static estimate estimate_error(const grid_source *source, const grid_plan *plan, const grid_curve *curve,
                               double epsilon, double log_delta, double slack) {
    const grid_shape shape = grid_curve_shape(curve, epsilon, log_delta);
    const double step = plan->predicted * (1 + shape.bend) / (1 + plan->order);
    const double noise = shape.noise / shape.slope, cut = shape.cut / shape.slope;
    estimate e = {.error = step + noise + cut};
    e.met = e.error <= slack;
    if (source->pair == NULL) return e;
    /* Near 0, where rare sampling leaves most of the loss, the curve may bend within a bin, which its grid cannot show. */
    if (epsilon < 8 * plan->step) e.error = fmax(e.error, 0.5 * plan->step);
    const double below = fmax(epsilon - slack + step, 0), there = grid_curve_log_delta(curve, below);
    const grid_shape at_below = grid_curve_shape(curve, below, there);
    const double excess = at_below.noise + at_below.cut;
    e.met = e.error <= slack && (below == 0 || (excess < 0.5 && there + log1p(-excess) >= log_delta));
    e.noisy = noise > 0.3 * slack;
    e.finest = plan->length == GRID_LENGTH_MAX;
    return e;
}

/* The next plan of a pair gets less or more of the slack, from the ratio of the wanted error to the estimated one. */
static void adapt_part(search *s, const estimate *e, double wanted, int better) {
    if (e->noisy) s->part *= better ? 4 : 1;
    if (!e->noisy && !e->finest) s->part *= fmin(fmax(wanted / e->error, 0.01), 0.8);
}

/* If a larger bound is known to be tight, so is the least one. */
static void improve(account_answer *best, double value, int met) {
    if (value < best->value) {
        best->value = value;
        best->met = met;
    }
    if (met) best->met = 1;
}

/* ---- the result, and where to look next: the same place if another attempt is of no use ---- */

static void read_epsilon(const grid_source *source, const account_question *q, const grid_plan *plan,
                         const grid_curve *curve, search *s, account_answer *best) {
    int side;
    const double found = grid_curve_epsilon(curve, q->given, &side), width = (double)plan->length * plan->step;
    const int inside = side == 0 || (side < 0 && source->pair == NULL);
    const int near = found <= 0 || (inside && fabs(found - plan->epsilon) <= 0.05 * width);
    if (side > 0) {
        s->epsilon = plan->epsilon + 0.5 * width;
    } else if (side < 0) {
        improve(best, fmax(found, 0), found <= 0);
        if (!near) s->epsilon = fmax(found - 0.3 * width, 0);
    } else {
        const estimate e = estimate_error(source, plan, curve, found, q->given, account_slack(q, found));
        const int met = found <= 0 || e.met; /* there is nothing to look for below 0 */
        const int better = found < best->value, refined = !met && source->pair != NULL;
        improve(best, fmax(found, 0), met && near);
        if (!near || (refined && !e.finest)) s->epsilon = fmax(found, 0);
        if (refined) adapt_part(s, &e, 0.8 * account_slack(q, plan->epsilon), better);
    }
}

static void read_log_delta(const grid_source *source, const account_question *q, double epsilon, const grid_plan *plan,
                           const grid_curve *curve, search *s, account_answer *best) {
    static const double deepest = -1000; /* below the least double */
    const double found = grid_curve_log_delta(curve, epsilon) + PAIR_ROUNDING, slack = account_slack(q, q->given);
    const estimate e = estimate_error(source, plan, curve, q->given, found, slack);
    const int better = found < best->value;
    improve(best, found, e.met && (source->pair != NULL || better));
    if (source->pair == NULL) return;
    if (fabs(found - s->log_delta) > 2) s->log_delta = fmax(found, deepest);
    if (!e.met) adapt_part(s, &e, 0.8 * slack, better);
}

dpmf_status grid_answer(const grid_source *source, const account_question *q, account_answer *out) {
    const double off_grid = 1e-15 * steps_of(source), before = q->given * (1 - PAIR_ROUNDING) - off_grid;
    int attempts = q->of_epsilon ? ATTEMPTS : 1;
    search s = {.epsilon = -1, .log_delta = q->given, .part = 1, .order = 10, .slack = account_slack(q, 1)};
    account_answer best = {.value = account_worst(q)};
    account_pair worst = {0};
    pair_constants p = {0};
    if (!(q->relative >= 0 && q->absolute > 0))
        return base_fail(DPMF_ERROR_ARGUMENT, "slack %g (relative), %g (absolute): not negative, and positive",
                         q->relative, q->absolute);
    TRY(account_check_given(q));
    if (!q->of_epsilon) {
        s.epsilon = q->given;
        s.log_delta = -20;
        s.slack = account_slack(q, q->given);
    }
    if (source->pair != NULL) {
        TRY(pair_check(source->pair));
        worst = *source->pair;
        attempts = within_range(&worst) ? ATTEMPTS : 0;
        p = pair_prepare(&worst);
        /* The loss of adding is at most -ln(1-q) per step; elsewhere nothing bounds it. */
        if (q->of_epsilon && p.direction == ACCOUNT_ADD) best.value = -p.n * p.log_rest;
        if (!q->of_epsilon && attempts > 0) TRY(saddle_guess(&worst, q, &s.log_delta));
    }
    for (int i = 0; i < attempts; i++) {
        const search last = s;
        grid_plan plan;
        grid_curve curve;
        int made = 1;
        TRY(base_progress(q->run, q->of_epsilon ? "certifying epsilon" : "certifying delta", -1));
        TRY(source->pair != NULL ? compose_pair(&p, q, &s, &plan, &curve, &made)
                                 : compose_list(source, q, &s, &plan, &curve));
        if (!made) break;
        if (q->of_epsilon)
            read_epsilon(source, q, &plan, &curve, &s, &best);
        else
            read_log_delta(source, q, fmax(before, 0), &plan, &curve, &s, &best);
        grid_curve_free(&curve);
        if (s.epsilon == last.epsilon && s.log_delta == last.log_delta && s.part == last.part) break;
    }
    out->value = q->of_epsilon ? best.value * (1 + PAIR_ROUNDING) + off_grid : best.value;
    out->met = best.met;
    return DPMF_OK;
}
