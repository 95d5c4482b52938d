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
 *     discretisation   dominates by construction, with masses rounded up              account/grid/atoms.c
 *     truncation       above: to infinity; below: up to the lowest atoms              account/grid/atoms.c
 *     rounding         a bound on every output of the transform, added to it          account/grid/power.c
 *     wrap-around      inside the window it only adds; above it, Chernoff's bound     account/grid/power.c
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

typedef struct search {
    double epsilon;      /* negative: by the plan's own guess */
    double log_delta;    /* where the tails are cut */
    double part;         /* of a pair: of the slack that the next plan may take */
    double order, slack; /* of a list: what the last plan came to */
} search;

/* The pair computed, no better than the given one: delta rises with q (joint convexity), falls with sigma. 0: out of range. */
static int within_range(account_pair *pair) {
    static const double sigma_min = 0.01, sigma_max = 1e6, q_min = 1e-15;
    pair->sigma = fmin(pair->sigma, sigma_max);
    pair->probability = fmax(pair->probability, q_min);
    return pair->sigma >= sigma_min && pair->compositions <= (int64_t)1 << 50;
}

/*
 * ---- the choice of the grid ----
 *
 * The choices of the certified computation. Every choice gives a bound; these give one that is tight at little cost.
 *
 * Step. Within a bin the discretisation replaces a loss L by one of the two grid points about it, which adds the
 * variance (L - x_i)(x_{i+1} - L), h^2/6 on average where the loss is spread over many bins. To leading order
 * d delta = (V/2)(delta'' - delta'), V the variance that n steps add, hence for epsilon V (1+t)/2, as delta ~ e^(-t
 * epsilon). Losses that all lie near the grid point 0, as when sampling is rare, add only |L| (h - |L|).
 *
 * Window. The transform is circular: of the n-fold tilted sum X, what lies N h below or above comes to lie on the
 * losses above epsilon. It suffices that the tilted mass at distances of N h from epsilon is small: a few standard
 * deviations of X, not its whole range.
 *
 * Truncation. Mass cut off above is a loss of infinity and adds to delta as it is; mass cut off below moves up to the
 * lowest atoms, which matters as much as it weighs after tilting.
 */

/* Parts of the tolerance: for each truncation, for what is wrapped around, for the step. */
static const double CUT = 0.005, WRAP = 0.1, STEP = 0.4;

/* The most of order times slack: beyond, delta falls by e^8 within the slack, and the step, a part of 1/t, is fine enough. */
static const double ORDER_SLACK = 8;

/* The variance that a loss adds when it is moved to the grid of step h. */
static double added_variance(double loss, double h) {
    const double a = fabs(loss);
    return a < h ? fmin(a * (h - a), h * h / 6 + 0.1 * a * h) : h * h / 6;
}

/* Of the tilted losses: what n steps at the step h add to epsilon. */
static double predicted_error(const pair_constants *p, const saddle_nodes *nodes, double t, double k0, double h) {
    double sum = 0;
    for (int64_t i = 0; i < nodes->count; i++) {
        const double exponent = nodes->log_weight[i] + t * nodes->loss[i] - k0;
        if (exponent > -60) sum += exp(exponent) * added_variance(nodes->loss[i], h);
    }
    /* One step more than the average has it: where losses come from one rare large step, that step is there for sure. */
    return 0.5 * (1 + t) * (p->n * sum + h * h / 6);
}

static double choose_step(const pair_constants *p, const saddle_nodes *nodes, double t, double k0, double slack) {
    /* delta'' - delta' is the leading term only while h (1+t) is small. */
    double high = log(0.25 / (1 + t)), low = high - 60;
    if (predicted_error(p, nodes, t, k0, exp(high)) <= slack) return exp(high);
    while (high - low > 0.02) {
        const double middle = 0.5 * (low + high);
        *(predicted_error(p, nodes, t, k0, exp(middle)) <= slack ? &low : &high) = middle;
    }
    return exp(low);
}

typedef struct window {
    double width;      /* N h */
    double wrap_order; /* s: where the losses above the window are best bounded */
} window;

/*
 * What is wrapped onto y = x -+ N h - eps > 0 from above or below weighs P[X = x] e^(+-t N h) (1 - e^-y) there; since
 * e^(-ry) (1 - e^-y) < 1/(1+r), that is at most e^(n K(r) - r eps - |r - t| N h) / (1+r) in all, for every r >= t
 * (from above), 0 <= r <= t (from below). It is to be at most e^log_wrap.
 */
static double wrap_distance(const pair_constants *p, double t, double r, double cumulant, double epsilon,
                            double log_wrap) {
    return (p->n * cumulant - r * epsilon - log1p(r) - log_wrap) / fabs(r - t);
}

/* e^log_cut: what delta may gain from the losses above the window, which weigh 1 - e^-width at most, by Chernoff. */
static window choose_window(const pair_constants *p, const saddle_nodes *nodes, double t, double deviation,
                            double epsilon, double step, double log_wrap, double log_cut) {
    const double most = 0.3 / step; /* at higher orders the discretised loss is no longer like the loss itself */
    double above = INFINITY, below = INFINITY, cut = INFINITY;
    window out = {0};
    for (int i = -4; i <= 16; i++) {
        const double s = fmin(exp2(0.5 * i) / deviation, most), r = fmax(t - s, 0);
        double up[3], down[3];
        saddle_nodes_step(nodes, t + s, up);
        saddle_nodes_step(nodes, r, down);
        above = fmin(above, wrap_distance(p, t, t + s, up[0], epsilon, log_wrap));
        below = fmin(below, wrap_distance(p, t, r, down[0], epsilon, log_wrap));
        double distance = deviation;
        for (int j = 0; j < 3; j++)
            distance = fmax((p->n * up[0] - log_cut + log(-expm1(-distance))) / (t + s) - epsilon, deviation);
        if (distance < cut) {
            cut = distance;
            out.wrap_order = s;
        }
    }
    out.width = fmax(fmax(above, below), cut);
    return out;
}

static int64_t power_of_two_above(double x) {
    int64_t length = 64;
    while ((double)length < x && length < GRID_LENGTH_MAX)
        length *= 2;
    return length;
}

/* Chooses everything but the cut of the upper losses, which is given by the nodes. */
static void fill_plan(const pair_constants *p, const saddle_nodes *nodes, double log_delta, double slack,
                      grid_plan *plan) {
    const double log_cut = log(CUT * plan->tolerance);
    double k[3];
    saddle_nodes_step(nodes, plan->order, k);
    plan->log_moment = k[0];
    plan->z_high = nodes->z_high;
    plan->log_infinite = p->log_n + pair_log_above(p, plan->z_high) + 1e-12; /* 1e-12: of that logarithm */
    /* Where the lower losses may be cut off: what lies below has little mass when moved up to there and tilted. */
    double inner = 0.5, outer = pair_far(p, 0);
    for (int i = 0; i < 50; i++) {
        const double z = 0.5 * (inner + outer);
        const int small = pair_log_below(p, z) + plan->order * pair_loss(p, z) <= log_cut - p->log_n + k[0];
        *(small ? &outer : &inner) = z;
    }
    plan->z_low = outer;

    const double wanted = choose_step(p, nodes, plan->order, k[0], STEP * slack);
    const double deviation = sqrt(p->n * k[2]) + 1e-300, room = deviation + 2 * slack;
    const window w = choose_window(p, nodes, plan->order, deviation, plan->epsilon, wanted,
                                   log_delta + log(WRAP * plan->tolerance), log_delta + log_cut);
    plan->wrap_order = w.wrap_order;
    /* Step and length: as many points as the window needs at the wanted step, then the step that fills them. */
    const double range = pair_loss(p, plan->z_high) - pair_loss(p, plan->z_low);
    plan->length = power_of_two_above((w.width + room) / wanted);
    const double filled = (w.width + room) / (double)plan->length;
    plan->step = filled;
    if (filled < wanted) plan->step = fmax(filled, fmin(wanted, range / (double)plan->length));
    plan->step = fmax(plan->step, range / GRID_BINS_MAX);
    plan->predicted = predicted_error(p, nodes, plan->order, k[0], plan->step);
    const double first = floor((plan->epsilon - room) / plan->step);
    plan->first = fabs(first) < 0x1p60 ? (int64_t)first : INT64_MAX;
}

/* How far to cut depends on the order, and the order on the cut; a few rounds settle it well enough. */
static dpmf_status make_plan(const pair_constants *p, double epsilon, double log_delta, double relative,
                             double absolute, grid_plan *out) {
    enum { ROUNDS = 4 };
    double margin = 10; /* the cut mass is e^-margin of delta */
    for (int round = 1;; round++) {
        saddle_nodes nodes;
        grid_plan plan = {0};
        TRY(saddle_nodes_create(p, log_delta - p->log_n - margin, &nodes));
        plan.epsilon = epsilon >= 0 ? epsilon : saddle_nodes_epsilon(&nodes, log_delta);
        const double slack = fmax(relative * plan.epsilon, absolute);
        plan.order = fmin(saddle_nodes_find(&nodes, plan.epsilon).order, ORDER_SLACK / slack);
        plan.tolerance = fmin(0.5, plan.order * slack);
        const double wanted = -log(CUT * plan.tolerance);
        const int settled = fabs(wanted - margin) < 0.7 || round == ROUNDS;
        if (settled) fill_plan(p, &nodes, log_delta, slack, &plan);
        saddle_nodes_free(&nodes);
        if (settled) {
            *out = plan;
            return DPMF_OK;
        }
        margin = wanted;
    }
}

/*
 * About epsilon, or, if that is negative, about the epsilon where delta is e^log_delta by the saddle point. The slack
 * is max(relative epsilon, absolute); step_max is 0 or what the step may not pass: a wider step needs less slack, of
 * which the other errors then take their parts.
 */
static dpmf_status plan_pair(const pair_constants *p, double epsilon, double log_delta, double relative,
                             double absolute, double step_max, grid_plan *out) {
    grid_plan plan;
    TRY(make_plan(p, epsilon, log_delta, relative, absolute, &plan));
    for (int round = 0; round < 2 && step_max > 0 && plan.step > step_max; round++) {
        const double part = 0.9 * (step_max / plan.step) * (step_max / plan.step);
        relative *= part;
        absolute *= part;
        TRY(make_plan(p, epsilon, log_delta, relative, absolute, &plan));
    }
    *out = plan;
    return DPMF_OK;
}

/*
 * ---- a list, whose atoms are on a grid already ----
 *
 * K(t) = sum over the parts of times x ln E[e^(tL)], from their atoms. The window must hold the tilted sum: what lies
 * outside is wrapped onto it. By Chernoff's bound at orders t +- s the wrapped mass is small when the window reaches
 * (K(t+-s) - K(t) - (+-s) epsilon + MARGIN)/s beyond epsilon, least over some s.
 */

static const double MARGIN = 16; /* e^-16 of delta is what the window may cost */
enum { COARSE = 1024 };          /* atoms of a part, for choices */

/* Fewer atoms with the same mass and mean. */
typedef struct summary {
    int count;
    double *mass, *loss; /* COARSE each, of one part after the other */
    const grid_list *list;
} summary;

static dpmf_status summary_create(const grid_list *list, summary *out) {
    summary s = {.count = list->count, .list = list};
    TRY(base_alloc_doubles((int64_t)2 * list->count * COARSE, "a coarse privacy loss", &s.mass));
    s.loss = s.mass + (int64_t)list->count * COARSE;
    for (int i = 0; i < list->count; i++) {
        const grid_atoms *a = &list->atoms[i];
        double *mass = s.mass + (int64_t)i * COARSE, *loss = s.loss + (int64_t)i * COARSE;
        const int64_t width = a->count / COARSE + 1;
        int groups = 0;
        for (int64_t k = 0; k < a->count; k += width) {
            double sum = 0, moment = 0;
            for (int64_t j = k; j < k + width && j < a->count; j++) {
                sum += a->mass[j];
                moment += a->mass[j] * (double)(a->first + j);
            }
            mass[groups] = sum;
            loss[groups] = sum > 0 ? list->step * moment / sum : 0;
            groups++;
        }
        for (int g = groups; g < COARSE; g++)
            mass[g] = loss[g] = 0;
    }
    *out = s;
    return DPMF_OK;
}

/* K, K' and K'' at t. */
static void cumulants(const void *of, double t, double k[3]) {
    const summary *s = of;
    k[0] = k[1] = k[2] = 0;
    for (int i = 0; i < s->count; i++) {
        const double *mass = s->mass + (int64_t)i * COARSE, *loss = s->loss + (int64_t)i * COARSE;
        const double n = s->list->atoms[i].times;
        double largest = -INFINITY, s0 = 0, s1 = 0, s2 = 0;
        for (int j = 0; j < COARSE; j++)
            if (mass[j] > 0) largest = fmax(largest, t * loss[j] + log(mass[j]));
        for (int j = 0; j < COARSE; j++) {
            if (!(mass[j] > 0)) continue;
            const double w = mass[j] * exp(t * loss[j] - largest);
            s0 += w;
            s1 += w * loss[j];
            s2 += w * loss[j] * loss[j];
        }
        k[0] += n * (largest + log(s0));
        k[1] += n * s1 / s0;
        k[2] += n * fmax(s2 / s0 - (s1 / s0) * (s1 / s0), 0);
    }
}

static void choose_list_window(const summary *s, double step, grid_plan *plan) {
    const double t = plan->order, epsilon = plan->epsilon;
    double at[3], above = INFINITY, below = INFINITY;
    cumulants(s, t, at);
    const double deviation = sqrt(at[2]) + step;
    for (int i = -4; i <= 16; i++) {
        const double up = fmin(exp2(0.5 * i) / deviation, 0.5 / step), down = fmin(up, t);
        double k[3];
        cumulants(s, t + up, k);
        const double distance = (k[0] - at[0] - up * epsilon + MARGIN) / up;
        if (distance < above) {
            above = distance;
            plan->wrap_order = up;
        }
        cumulants(s, t - down, k);
        below = fmin(below, (k[0] - at[0] + down * epsilon + MARGIN) / down);
    }
    const double room = deviation + 4 * step;
    plan->length = power_of_two_above((fmax(fmax(above, below), 4 * deviation) + room) / step);
    const double first = floor((epsilon - room) / step);
    plan->first = fabs(first) < 0x1p50 ? (int64_t)first : 0;
}

static dpmf_status plan_list(const grid_list *list, double epsilon, double log_delta, double order_max,
                             grid_plan *out) {
    double log_none = 0, steps = 0;
    summary s = {0};
    TRY(summary_create(list, &s));
    const saddle_point at = saddle_find(cumulants, &s, epsilon, log_delta, order_max);
    grid_plan plan = {.epsilon = at.epsilon, .log_delta = at.log_delta, .order = at.order, .step = list->step};
    choose_list_window(&s, list->step, &plan);
    base_free(s.mass);
    for (int i = 0; i < list->count; i++) {
        log_none += list->atoms[i].times * log1p(-fmin(list->atoms[i].infinite, 1));
        steps += list->atoms[i].times;
    }
    /* 1e-14 per step: of the masses, which may be a little more than 1 */
    plan.log_infinite = log_none < 0 ? log(-expm1(log_none)) + 1e-12 + 1e-14 * steps : -INFINITY;
    plan.predicted = plan.step * plan.step * (1 + plan.order) * steps / 12;
    *out = plan;
    return DPMF_OK;
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
    TRY(plan_pair(p, s->epsilon, s->log_delta, s->part * q->relative, s->part * q->absolute, q->step_max, plan));
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
        grid_atoms_free(&list->atoms[i]);
    base_free(list->atoms);
    *list = (grid_list){0};
}

static dpmf_status list_create(const grid_source *source, double step, double mass, const dpmf_run *run,
                               grid_list *out) {
    grid_list list = {.count = source->count, .step = step};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(list.count, sizeof *list.atoms, "the parts of a composition", (void **)&list.atoms));
    for (int i = 0; i < list.count; i++)
        TRY_DONE(grid_atoms_create(&source->parts[i], source->reversed, step, mass, run, &list.atoms[i]));
    *out = list;
    return DPMF_OK;
done:
    if (list.atoms != NULL) list_free(&list);
    return status;
}

static double wanted_step(const grid_source *source, const search *s, double steps) {
    const double step = fmin(0.25 / (1 + s->order), sqrt(12 * STEP * s->slack / ((1 + s->order) * steps)));
    return source->step_max > 0 ? fmin(step, source->step_max) : step;
}

/* The order and the step of a list are settled on the way. */
static dpmf_status compose_list(const grid_source *source, const account_question *q, search *s, grid_plan *plan,
                                grid_curve *curve) {
    enum { ROUNDS = 4 };
    const double steps = steps_of(source);
    grid_list list = {0};
    dpmf_status status = DPMF_OK;
    for (int round = 1;; round++) {
        const double tolerance = fmin(0.5, s->order * s->slack), step = wanted_step(source, s, steps);
        const double mass = exp(fmax(s->log_delta, -640)) * CUT * tolerance / steps;
        TRY(list_create(source, step, mass, q->run, &list));
        TRY_DONE(plan_list(&list, s->epsilon, s->log_delta, ORDER_SLACK / s->slack, plan));
        s->order = plan->order;
        s->slack = account_slack(q, plan->epsilon);
        int settled = wanted_step(source, s, steps) > 0.7 * step;
        if (!q->of_epsilon) {
            const double before = s->log_delta;
            s->log_delta = fmin(fmax(plan->log_delta, source->enough < 0 ? fmax(source->enough, -690) : -690), -1e-3);
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
    e.met = e.error <= slack && (source->pair != NULL || shape.noise + shape.cut < 0.5);
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

/* Compositions about some points of the curve; what each of them says about all other points is a bound too. */
dpmf_status grid_sweep(const grid_source *source, const account_question *q, int64_t count, double step,
                       double *log_delta) {
    enum { CENTRES = 32 };
    const double off_grid = 1e-15 * steps_of(source), end = step * (double)(count - 1);
    account_question here = *q;
    search s = {.log_delta = -20, .part = 1, .order = 10};
    here.of_epsilon = 0;
    for (int64_t i = 0; i < count; i++)
        log_delta[i] = 0;
    for (int c = 0; c < CENTRES; c++) {
        grid_plan plan;
        grid_curve curve;
        s.epsilon = here.given = end * c / (CENTRES - 1);
        s.slack = account_slack(q, s.epsilon);
        TRY(base_progress(q->run, "certifying a privacy curve", (double)c / CENTRES));
        TRY(compose_list(source, &here, &s, &plan, &curve));
        for (int64_t i = 0; i < count; i++) {
            const double at = (double)i * step * (1 - PAIR_ROUNDING) - off_grid;
            log_delta[i] = fmin(log_delta[i], grid_curve_log_delta(&curve, fmax(at, 0)) + PAIR_ROUNDING);
        }
        grid_curve_free(&curve);
    }
    return DPMF_OK;
}
