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
static double predicted_error(const grid_pair *p, const grid_profile *profile, double t, double k0, double h) {
    double sum = 0;
    for (int64_t i = 0; i < profile->count; i++) {
        const double exponent = profile->log_weight[i] + t * profile->loss[i] - k0;
        if (exponent > -60) sum += exp(exponent) * added_variance(profile->loss[i], h);
    }
    /* One step more than the average has it: where losses come from one rare large step, that step is there for sure. */
    return 0.5 * (1 + t) * (p->n * sum + h * h / 6);
}

static double choose_step(const grid_pair *p, const grid_profile *profile, double t, double k0, double slack) {
    /* delta'' - delta' is the leading term only while h (1+t) is small. */
    double high = log(0.25 / (1 + t)), low = high - 60;
    if (predicted_error(p, profile, t, k0, exp(high)) <= slack) return exp(high);
    while (high - low > 0.02) {
        const double middle = 0.5 * (low + high);
        *(predicted_error(p, profile, t, k0, exp(middle)) <= slack ? &low : &high) = middle;
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
static double wrap_distance(const grid_pair *p, double t, double r, double cumulant, double epsilon, double log_wrap) {
    return (p->n * cumulant - r * epsilon - log1p(r) - log_wrap) / fabs(r - t);
}

/* e^log_cut: what delta may gain from the losses above the window, which weigh 1 - e^-width at most, by Chernoff. */
static window choose_window(const grid_pair *p, const grid_profile *profile, double t, double deviation, double epsilon,
                            double step, double log_wrap, double log_cut) {
    const double most = 0.3 / step; /* at higher orders the discretised loss is no longer like the loss itself */
    double above = INFINITY, below = INFINITY, cut = INFINITY;
    window out = {0};
    for (int i = -4; i <= 16; i++) {
        const double s = fmin(exp2(0.5 * i) / deviation, most), r = fmax(t - s, 0);
        double up[3], down[3];
        grid_cumulants(profile, t + s, up);
        grid_cumulants(profile, r, down);
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
static double low_cut(const grid_pair *p, double order, double log_mass) {
    double inner = 0.5, outer = grid_far(p, 0);
    for (int i = 0; i < 50; i++) {
        const double z = 0.5 * (inner + outer);
        const int small = grid_log_below(p, z) + order * grid_loss(p, z) <= log_mass;
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
static void choose_grid(const grid_pair *p, double wanted, double width, grid_plan *plan) {
    const double range = grid_loss(p, plan->z_high) - grid_loss(p, plan->z_low);
    plan->length = power_of_two_above(width / wanted);
    const double filled = width / (double)plan->length;
    plan->step = filled;
    if (filled < wanted) plan->step = fmax(filled, fmin(wanted, range / (double)plan->length));
    plan->step = fmax(plan->step, range / GRID_BINS_MAX);
}

/* Everything but where the upper losses are cut, which the profile says. */
static void fill_plan(const grid_pair *p, const grid_profile *profile, double log_delta, double slack,
                      grid_plan *plan) {
    const double log_cut = log(CUT * plan->tolerance);
    double k[3];
    grid_cumulants(profile, plan->order, k);
    plan->log_moment = k[0];
    plan->z_high = profile->z_high;
    plan->log_infinite = p->log_n + grid_log_above(p, plan->z_high) + 1e-12; /* 1e-12: of that logarithm */
    plan->z_low = low_cut(p, plan->order, log_cut - p->log_n + k[0]);

    const double wanted = choose_step(p, profile, plan->order, k[0], STEP * slack);
    const double deviation = sqrt(p->n * k[2]) + 1e-300, room = deviation + 2 * slack;
    const window w = choose_window(p, profile, plan->order, deviation, plan->epsilon, wanted,
                                   log_delta + log(WRAP * plan->tolerance), log_delta + log_cut);
    plan->wrap_order = w.wrap_order;
    choose_grid(p, wanted, w.width + room, plan);
    plan->predicted = predicted_error(p, profile, plan->order, k[0], plan->step);
    const double first = floor((plan->epsilon - room) / plan->step);
    plan->first = fabs(first) < 0x1p60 ? (int64_t)first : INT64_MAX;
}

/* How far to cut depends on the order, and the order on the cut; a few rounds settle it well enough. */
static dpmf_status make_plan(const grid_pair *p, double epsilon, double log_delta, double relative, double absolute,
                             grid_plan *out) {
    enum { ROUNDS = 4 };
    double margin = 10; /* the cut mass is e^-margin of delta */
    for (int round = 1;; round++) {
        grid_profile profile;
        grid_plan plan = {0};
        double there;
        TRY(grid_profile_create(p, log_delta - p->log_n - margin, &profile));
        plan.epsilon = epsilon >= 0 ? epsilon : grid_guess(p, &profile, log_delta);
        const double slack = fmax(relative * plan.epsilon, absolute);
        plan.order = fmin(grid_saddle(p, &profile, plan.epsilon, &there), ORDER_SLACK / slack);
        plan.tolerance = fmin(0.5, plan.order * slack);
        const double wanted = -log(CUT * plan.tolerance);
        const int settled = fabs(wanted - margin) < 0.7 || round == ROUNDS;
        if (settled) fill_plan(p, &profile, log_delta, slack, &plan);
        grid_profile_free(&profile);
        if (settled) {
            *out = plan;
            return DPMF_OK;
        }
        margin = wanted;
    }
}

/* A step that is too wide for the caller asks for less slack, of which the other errors then take their parts. */
dpmf_status grid_plan_make(const grid_pair *p, double epsilon, double log_delta, double relative, double absolute,
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

dpmf_status grid_plan_log_delta(const grid_pair *p, double epsilon, double *log_delta) {
    static const double deepest = -1000; /* below the least double */
    double guess = -20;
    for (int i = 0; i < 4; i++) {
        grid_profile profile;
        double next;
        TRY(grid_profile_create(p, guess - p->log_n - 10, &profile));
        grid_saddle(p, &profile, epsilon, &next);
        grid_profile_free(&profile);
        guess = fmax(fmin(next, -1e-3), deepest);
    }
    *log_delta = guess;
    return DPMF_OK;
}
