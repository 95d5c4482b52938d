/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certified epsilon and delta of the Poisson-subsampled Gaussian mechanism, composed n times: upper bounds that are
 * tight to a wanted slack.
 *
 * The route: cut the axis of the one-step privacy loss into bins and put the mass of each on its two ends so that P-mass
 * and Q-mass are kept (connect the dots; Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022): a dominating pair on a
 * grid, whose n-fold composition is a power in frequency space. The losses are tilted first by e^(tL), t the saddle-point
 * order of the epsilon in question, so that the outcomes near epsilon are the likely ones and rounding is relative to
 * them: a delta of 1e-25 or 1e-250 has the same digits as one of 1e-3.
 *
 * Why it is a bound; each item is argued at the head of its file:
 *
 *     discretisation   dominates by construction, with masses rounded up              account/grid/densities.c
 *     truncation       above: to infinity; below: up to the lowest atoms              account/grid/densities.c
 *     rounding         a bound on every output of the transform, added to it          account/grid/compose.c
 *     wrap-around      inside the window it only adds; above it, Chernoff's bound     account/grid/compose.c
 *
 * Constants of the pair such as 1/sigma^2 are rounded too, which makes it that of a sigma and q a rounding away;
 * epsilon is raised by 1e-12 of itself for that, and delta is read where epsilon is as much less.
 *
 * Why this route: the error of epsilon is about n h^2 (1+t)/12, so that h follows from the wanted slack; and the window
 * of the transform is a few tilted standard deviations wide, not the range of the loss.
 *
 * Every attempt below yields a bound; a second one is made about the epsilon that the first one found, where that is
 * far from the guess, and the least bound is the answer.
 */
#include "account/grid/grid.h"

#include <inttypes.h>
#include <math.h>

static const double PAIR_ROUNDING = 1e-12;
enum { ATTEMPTS = 6 };

static dpmf_status check_pair(const account_pair *pair, const grid_options *options) {
    if (pair->direction != ACCOUNT_REMOVE && pair->direction != ACCOUNT_ADD && pair->direction != ACCOUNT_REPLACE) {
        return base_fail(DPMF_ERROR_ARGUMENT, "direction %d: remove (0), add (1) or replace (2)", (int)pair->direction);
    }
    if (!(pair->sigma > 0 && isfinite(pair->sigma))) {
        return base_fail(DPMF_ERROR_ARGUMENT, "sigma %g: a positive number", pair->sigma);
    }
    if (!(pair->probability > 0 && pair->probability <= 1)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "sampling probability %g: above 0, at most 1", pair->probability);
    }
    if (pair->compositions < 1) {
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " compositions: at least 1", pair->compositions);
    }
    if (!(options->relative >= 0 && options->absolute > 0)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "slack %g (relative), %g (absolute): not negative, and positive",
                         options->relative, options->absolute);
    }
    return DPMF_OK;
}

/*
 * The pair that is computed, at least as bad as the one asked for: delta rises with q (joint convexity: a smaller q is a
 * mixture with a pair that is equal) and falls with sigma. 0: beyond what the method can do.
 */
static int within_range(account_pair *pair) {
    static const double sigma_min = 0.01, sigma_max = 1e6, q_min = 1e-15;
    pair->sigma = fmin(pair->sigma, sigma_max);
    pair->probability = fmax(pair->probability, q_min);
    return pair->sigma >= sigma_min && pair->compositions <= (int64_t)1 << 50;
}

static double slack_at(const grid_options *options, double epsilon) {
    return fmax(options->relative * epsilon, options->absolute);
}

/* Are the grid points of the plan numbers that a double can tell apart, and its orders finite? */
static int plan_is_sound(const grid_plan *plan) {
    static const double most = 0x1p50;
    return plan->step > 1e-290 && isfinite(plan->step) && isfinite(plan->log_moment) &&
           fabs((double)plan->first) < most && isfinite(plan->z_low) && isfinite(plan->z_high);
}

typedef struct answer {
    double value;
    int met;
} answer;

/* A larger bound that is known to be tight says the same of the least one. */
static void improve(answer *best, double value, int met) {
    if (value < best->value) *best = (answer){value, met};
    if (met) best->met = 1;
}

typedef struct estimate {
    double error; /* of epsilon */
    int met;      /* is delta, without what is known to be too much, above the wanted one a slack below epsilon? */
    int noisy;    /* is rounding most of it, so that a coarser step, with fewer numbers, does better? */
    int finest;   /* is a finer step impossible? */
} estimate;

/* The discretisation's error with the curve's own bend in place of the order's; the rest by the curve's slope. */
static estimate estimate_error(const grid_plan *plan, const grid_curve *curve, double epsilon, double log_delta,
                               double slack) {
    const grid_shape shape = grid_curve_shape(curve, epsilon, log_delta);
    const double step = plan->predicted * (1 + shape.bend) / (1 + plan->order);
    const double noise = shape.noise / shape.slope, cut = shape.cut / shape.slope;
    estimate e = {.error = step + noise + cut};
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

/* By how much to ask for less or more the next time, given what should have come out; 1: there is no use in it. */
static double next_part(const estimate *e, double wanted, int better) {
    if (e->noisy) return better ? 4 : 1;
    return e->finest ? 1 : fmin(fmax(wanted / e->error, 0.01), 0.8);
}

/* Where to look (negative: by the plan's own guess), and with what part of the slack. */
typedef struct search {
    double guess, part;
    int found; /* was there an answer in the window? */
} search;

/* One attempt; on return *next is the next one, the same if there is no use in another. */
static dpmf_status attempt_epsilon(const grid_pair *p, double log_delta, const grid_options *options, search *next,
                                   answer *best) {
    grid_plan plan;
    grid_curve curve;
    TRY(grid_plan_make(p, next->guess, log_delta, next->part * options->relative, next->part * options->absolute,
                       options->step_max, &plan));
    if (!plan_is_sound(&plan)) return DPMF_OK;
    TRY(grid_compose(p, &plan, options->run, &curve));
    int side;
    const double epsilon = grid_curve_epsilon(&curve, log_delta, &side);
    const double width = (double)plan.length * plan.step;
    next->found = side == 0;
    if (side == 0) {
        const estimate e = estimate_error(&plan, &curve, epsilon, log_delta, slack_at(options, epsilon));
        const int near = epsilon <= 0 || fabs(epsilon - plan.epsilon) <= 0.05 * width;
        const int met = epsilon <= 0 || e.met; /* there is nothing to look for below 0 */
        const int better = epsilon < best->value;
        improve(best, fmax(epsilon, 0), met && near);
        if (!near || (!met && !e.finest)) next->guess = fmax(epsilon, 0);
        if (!met) next->part *= next_part(&e, 0.8 * slack_at(options, plan.epsilon), better);
    } else if (side < 0) {
        improve(best, fmax(epsilon, 0), epsilon <= 0);
        if (epsilon > 0) next->guess = fmax(epsilon - 0.3 * width, 0);
    } else {
        next->guess = plan.epsilon + 0.5 * width;
    }
    grid_curve_free(&curve);
    return DPMF_OK;
}

dpmf_status grid_epsilon(const account_pair *pair, double log_delta, const grid_options *options, double *epsilon,
                         int *met) {
    TRY(check_pair(pair, options));
    if (!(log_delta < 0 && log_delta >= -1e3)) {
        return base_fail(DPMF_ERROR_ARGUMENT, "ln delta = %g: -1000 to below 0 are accepted", log_delta);
    }
    account_pair worst = *pair;
    const int attempts = within_range(&worst) ? ATTEMPTS : 0;
    const grid_pair p = grid_pair_from(&worst);
    /* The loss of adding is at most -ln(1-q) a step; elsewhere nothing bounds it. */
    answer best = {p.direction == ACCOUNT_ADD ? -p.n * p.log_rest : INFINITY, 0};
    search next = {options->hint >= 0 && isfinite(options->hint) ? options->hint : -1, 1, 0};
    for (int i = 0; i < attempts; i++) {
        TRY(base_progress(options->run, "certifying epsilon", -1));
        const search last = next;
        TRY(attempt_epsilon(&p, log_delta, options, &next, &best));
        if (next.guess == last.guess && next.part == last.part) break;
        if (i == 0 && last.guess >= 0 && !next.found) next.guess = -1; /* the hint was of no use */
    }
    *epsilon = best.value * (1 + PAIR_ROUNDING);
    *met = best.met;
    return DPMF_OK;
}

/* One attempt; `guess` is of ln delta: where the tails are cut. */
static dpmf_status attempt_log_delta(const grid_pair *p, double epsilon, const grid_options *options, search *next,
                                     answer *best) {
    static const double deepest = -1000; /* below the least double */
    grid_plan plan;
    grid_curve curve;
    TRY(grid_plan_make(p, epsilon, next->guess, next->part * options->relative, next->part * options->absolute,
                       options->step_max, &plan));
    if (!plan_is_sound(&plan)) return DPMF_OK;
    TRY(grid_compose(p, &plan, options->run, &curve));
    const double log_delta = grid_curve_log_delta(&curve, epsilon * (1 - PAIR_ROUNDING)) + PAIR_ROUNDING;
    const double slack = slack_at(options, epsilon);
    const estimate e = estimate_error(&plan, &curve, epsilon, log_delta, slack);
    const int better = log_delta < best->value;
    improve(best, log_delta, e.met);
    if (fabs(log_delta - next->guess) > 2) next->guess = fmax(log_delta, deepest);
    if (!e.met) next->part *= next_part(&e, 0.8 * slack, better);
    grid_curve_free(&curve);
    return DPMF_OK;
}

dpmf_status grid_log_delta(const account_pair *pair, double epsilon, const grid_options *options, double *log_delta,
                           int *met) {
    TRY(check_pair(pair, options));
    if (!(epsilon >= 0 && isfinite(epsilon))) {
        return base_fail(DPMF_ERROR_ARGUMENT, "epsilon %g: a finite number of at least 0", epsilon);
    }
    account_pair worst = *pair;
    const int attempts = within_range(&worst) ? ATTEMPTS : 0;
    const grid_pair p = grid_pair_from(&worst);
    answer best = {0, 0}; /* delta <= 1 always */
    search next = {0, 1, 0};
    if (attempts > 0) TRY(grid_plan_log_delta(&p, epsilon, &next.guess));
    for (int i = 0; i < attempts; i++) {
        TRY(base_progress(options->run, "certifying delta", -1));
        const search last = next;
        TRY(attempt_log_delta(&p, epsilon, options, &next, &best));
        if (next.guess == last.guess && next.part == last.part) break;
    }
    *log_delta = best.value;
    *met = best.met;
    return DPMF_OK;
}
