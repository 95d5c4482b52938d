/* SPDX-License-Identifier: Apache-2.0 */
/*
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
#include "account/grid/grid.h"
#include "account/saddle.h"
#include "base/memory.h"

#include <math.h>

/* Parts of the tolerance: for each truncation, for what is wrapped around, for the step. */
static const double CUT = 0.005, WRAP = 0.1, STEP = 0.4;

/*
 * The order times the slack, at most. Within the slack delta falls by e^8 and more where the saddle point is higher, so
 * that nothing is lost; but the step, a part of 1/t, need not be finer than a part of the slack.
 */
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
        for (int j = 0; j < 3; j++) {
            distance = fmax((p->n * up[0] - log_cut + log(-expm1(-distance))) / (t + s) - epsilon, deviation);
        }
        if (distance < cut) {
            cut = distance;
            out.wrap_order = s;
        }
    }
    out.width = fmax(fmax(above, below), cut);
    return out;
}

/* Where the lower losses may be cut off: what lies below has at most e^log_mass when moved up to there and tilted. */
static double low_cut(const pair_constants *p, double order, double log_mass) {
    double inner = 0.5, outer = pair_far(p, 0);
    for (int i = 0; i < 50; i++) {
        const double z = 0.5 * (inner + outer);
        const int small = pair_log_below(p, z) + order * pair_loss(p, z) <= log_mass;
        *(small ? &outer : &inner) = z;
    }
    return outer;
}

static int64_t power_of_two_above(double x) {
    int64_t length = 64;
    while ((double)length < x && length < GRID_LENGTH_MAX) {
        length *= 2;
    }
    return length;
}

/* Step and length: as many points as the window needs at the wanted step, then the step that fills them. */
static void choose_grid(const pair_constants *p, double wanted, double width, grid_plan *plan) {
    const double range = pair_loss(p, plan->z_high) - pair_loss(p, plan->z_low);
    plan->length = power_of_two_above(width / wanted);
    const double filled = width / (double)plan->length;
    plan->step = filled;
    if (filled < wanted) plan->step = fmax(filled, fmin(wanted, range / (double)plan->length));
    plan->step = fmax(plan->step, range / GRID_BINS_MAX);
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
    plan->z_low = low_cut(p, plan->order, log_cut - p->log_n + k[0]);

    const double wanted = choose_step(p, nodes, plan->order, k[0], STEP * slack);
    const double deviation = sqrt(p->n * k[2]) + 1e-300, room = deviation + 2 * slack;
    const window w = choose_window(p, nodes, plan->order, deviation, plan->epsilon, wanted,
                                   log_delta + log(WRAP * plan->tolerance), log_delta + log_cut);
    plan->wrap_order = w.wrap_order;
    choose_grid(p, wanted, w.width + room, plan);
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

/* A step that is too wide for the caller needs less slack, of which the other errors then take their parts. */
dpmf_status grid_plan_pair(const pair_constants *p, double epsilon, double log_delta, double relative, double absolute,
                           double step_max, grid_plan *out) {
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

static void group_atoms(const hull_atoms *a, double step, double *mass, double *loss) {
    const int64_t width = a->count / COARSE + 1;
    int groups = 0;
    for (int64_t i = 0; i < a->count; i += width) {
        double sum = 0, moment = 0;
        for (int64_t j = i; j < i + width && j < a->count; j++) {
            sum += a->mass[j];
            moment += a->mass[j] * (double)(a->first + j);
        }
        mass[groups] = sum;
        loss[groups] = sum > 0 ? step * moment / sum : 0;
        groups++;
    }
    for (int g = groups; g < COARSE; g++) {
        mass[g] = loss[g] = 0;
    }
}

static dpmf_status summary_create(const grid_list *list, summary *out) {
    summary s = {.count = list->count, .list = list};
    TRY(base_alloc_doubles((int64_t)2 * list->count * COARSE, "a coarse privacy loss", &s.mass));
    s.loss = s.mass + (int64_t)list->count * COARSE;
    for (int i = 0; i < list->count; i++)
        group_atoms(&list->atoms[i], list->step, s.mass + (int64_t)i * COARSE, s.loss + (int64_t)i * COARSE);
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

dpmf_status grid_plan_list(const grid_list *list, double epsilon, double log_delta, double order_max, grid_plan *out) {
    double infinite = 0, steps = 0;
    summary s = {0};
    TRY(summary_create(list, &s));
    const saddle_point at = saddle_find(cumulants, &s, epsilon, log_delta, order_max);
    grid_plan plan = {.epsilon = at.epsilon, .log_delta = at.log_delta, .order = at.order, .step = list->step};
    choose_list_window(&s, list->step, &plan);
    base_free(s.mass);
    for (int i = 0; i < list->count; i++) {
        infinite += list->atoms[i].times * list->atoms[i].infinite;
        steps += list->atoms[i].times;
    }
    /* 1e-14 per step: of the masses, which may be a little more than 1 */
    plan.log_infinite = infinite > 0 ? log(infinite) + 1e-12 + 1e-14 * steps : -INFINITY;
    plan.predicted = plan.step * plan.step * (1 + plan.order) * steps / 12;
    *out = plan;
    return DPMF_OK;
}
