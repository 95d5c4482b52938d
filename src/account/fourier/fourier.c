/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proven bounds of delta and epsilon of the composed subsampled Gaussian mechanism by a Fourier sum, at a cost that does
 * not depend on the number of compositions n and with an error of about 1e-9 of delta, up to n = 1e15.
 *
 * With M(z) = E_P[e^(zL)] of one step and z = t + iy, t > 0, the two-sided Laplace transform of delta is
 *
 *     int delta(x) e^(zx) dx = M(z)^n / (z (z+1)),
 *
 * since that of (1 - e^(x-L))_+ is e^(zL)/(z (z+1)). Poisson's sum of e^(tx) delta(x) with the period p = 2 pi/h is
 *
 *     sum_k e^(tkp) delta(epsilon + kp) = (h/2 pi) sum_j F(t + ijh),    F(z) = M(z)^n e^(-z epsilon) / (z (z+1)).
 *
 * All terms on the left are positive and the one of k = 0 is delta(epsilon): the sum on the right, which a trapezoid
 * rule for the inversion integral would be, is an upper bound of it at every step h. (Abate and Whitt 1992 use such sums
 * for probabilities.) It becomes a bound of numbers by adding
 *
 *     the rest of the sum        |F| <= M(t)^n e^(-t epsilon) |phi(y)|^n / y^2, phi = M(t + iy)/M(t), and |phi| <= 1 - a
 *                                for all y beyond the last node, with the a of
 *                                account/fourier/plan.c: at most M(t)^n e^(-t epsilon) e^(-na) / (pi y)
 *     the errors of phi          of quadrature and rounding, account/fourier/rule.c; n-fold in n ln phi
 *     roundings of the sum.
 *
 * From below: less these, and less the terms of k != 0, for which delta(x) <= M(r)^n e^(-rx) / (1+r) for every r > 0:
 * with r = t + s above and t - s below they are at most M(r)^n e^(-r epsilon) / ((1+r) (e^(sp) - 1)). So whether the
 * slack was met is proven too, with the proven error of M(r) (account/pair.c).
 *
 * Outcomes that are too rare to count may be set apart (account/pair.h): then delta is at most the sum with the M of the others,
 * plus n times the mass that is apart; and at least the sum alone.
 *
 * Why this route: some tens of nodes do where many steps make the sum of losses smooth, and nothing is lost to a grid.
 * Where few steps or one rare loss decide (a bound e^(-na) that does not fall), it gives up before it has cost anything,
 * and connect the dots (account/grid/grid.c) answers.
 */
#include "account/fourier/fourier.h"
#include "account/saddle.h"

#include "base/memory.h"
#include "base/special.h"

#include <math.h>

typedef double complex cplx;

static const double PI = 3.14159265358979323846, ROUNDING = 0x1p-53;
static const double PAIR_ROUNDING =
    1e-12; /* as in account/grid/grid.c: for the roundings of the pair's own constants */

/* A term without e^(-iy epsilon): its logarithm, and what that is off by. */
typedef struct node {
    double size, angle, error;
} node;

typedef struct sum {
    const account_pair *pair;
    double n;
    fourier_plan plan;
    double log_high, log_low; /* n ln M(t) from both sides */
    node *nodes;              /* owned */
} sum;

/* ---- the nodes ---- */

/* ln(1 + x) */
static cplx complex_log1p(cplx x) {
    const double a = creal(x), b = cimag(x), more = a * (2 + a) + b * b;
    const double log_modulus = more > -0.5 ? 0.5 * log1p(more) : log(hypot(1 + a, b));
    return account_complex(log_modulus, atan2(b, 1 + a));
}

static void fill_node(const sum *c, fourier_rule *rule, double y, node *out) {
    double error;
    const cplx x = fourier_rule_next(rule, &error);
    const double modulus = hypot(1 + creal(x), cimag(x));
    const double log_weight =
        0.5 * (log(c->plan.t * c->plan.t + y * y) + log((c->plan.t + 1) * (c->plan.t + 1) + y * y));
    if (!(modulus > 2 * error)) { /* known to be small only: 0, off by as much as it can be */
        *out = (node){-INFINITY, 0, c->n * log(3 * error) - log_weight};
        return;
    }
    const cplx log_phi = complex_log1p(x);
    const double size = fabs(creal(x)) + fabs(cimag(x)), log_size = fabs(creal(log_phi)) + fabs(cimag(log_phi));
    out->size = c->n * creal(log_phi) - log_weight;
    out->angle = c->n * cimag(log_phi) - atan2(y, c->plan.t) - atan2(y, c->plan.t + 1);
    out->error = c->n * (error / (modulus - error) + 16 * ROUNDING * (size / modulus + log_size)) +
                 16 * ROUNDING * (2 + fabs(log_weight));
}

/* *made: are there nodes that prove something? */
static dpmf_status make_nodes(sum *c, int *made) {
    const fourier_plan *plan = &c->plan;
    fourier_rule rule;
    *made = 0;
    TRY(fourier_rule_create(c->pair, plan->cut, plan->t, plan->spacing, plan->count, plan->points_max, plan->log_off,
                            &rule));
    if (rule.phase == NULL) return DPMF_OK;
    if (rule.log_moment_high >
        plan->log_moment) { /* q near 1, where roundings are overrated; the plan has no bound then */
        fourier_rule_free(&rule);
        return DPMF_OK;
    }
    const dpmf_status status =
        base_alloc(plan->count, sizeof *c->nodes, "the nodes of a Fourier sum", (void **)&c->nodes);
    if (status == DPMF_OK) {
        for (int64_t i = 0; i < plan->count; i++) {
            fill_node(c, &rule, plan->spacing * (double)i, &c->nodes[i]);
        }
        c->log_high = c->n * rule.log_moment_high;
        c->log_low = c->n * rule.log_moment_low;
        *made = 1;
    }
    fourier_rule_free(&rule);
    return status;
}

/* About epsilon and ln delta. */
static dpmf_status open_sum(const account_pair *pair, double epsilon, double log_delta, double slack, double grid,
                            sum *c, int *made) {
    *made = 0;
    *c = (sum){.pair = pair, .n = (double)pair->compositions};
    if (!fourier_plan_make(pair, epsilon, log_delta, slack, grid, &c->plan)) return DPMF_OK;
    return make_nodes(c, made);
}

/* ---- reading it ---- */

typedef struct bounds {
    double high, low; /* of ln delta */
} bounds;

static bounds read_sum(const sum *c, double epsilon) {
    bounds b = {INFINITY, -INFINITY}; /* nothing is proven */
    double terms = 0, off = 0, total = 0;
    for (int64_t i = 0; i < c->plan.count; i++) {
        const node *p = &c->nodes[i];
        const double times = i == 0 ? 0.5 : 1, y = c->plan.spacing * (double)i;
        if (p->size == -INFINITY) {
            off += exp(p->error);
            continue;
        }
        const double modulus = times * exp(p->size), turn = y * epsilon;
        const double wrong = p->error + 8 * ROUNDING * (fabs(p->angle) + turn + fabs(p->size));
        if (!(wrong < 700)) return b;
        terms += modulus * cos(p->angle - turn);
        off += modulus * expm1(wrong);
        total += modulus;
    }
    off += ROUNDING * (8 + (double)c->plan.count) * total;
    const double part = c->plan.spacing / PI, rest = exp(c->plan.log_rest);
    const double high = part * (terms + off) * (1 + 1e-14) + rest, low = part * (terms - off) * (1 - 1e-14) - rest;
    const double rounding = 4 * ROUNDING * (fabs(c->log_high) + c->plan.t * epsilon + 800);
    if (!(high > 0)) return b;
    b.high = c->log_high - c->plan.t * epsilon + log(high) + rounding;
    if (c->plan.log_apart > -INFINITY) b.high = base_log_add(b.high, c->plan.log_apart) + rounding;
    const double scale = c->log_low - c->plan.t * epsilon;
    const double aliases = exp(c->plan.above.log_factor - c->plan.above.order * epsilon - scale) +
                           exp(c->plan.below.log_factor - c->plan.below.order * epsilon - scale);
    if (low > aliases) b.low = scale + log(low - aliases) - rounding;
    return b;
}

/* The least epsilon >= 0 found with delta proven: bisection and regula falsi on the upper bound. INFINITY: none near. */
static double solve_epsilon(const sum *c, double guess, double log_delta) {
    double low = 0, high = guess, at_low, at_high = read_sum(c, high).high - log_delta;
    const double step = 1 / c->plan.t;
    if (read_sum(c, 0).high <= log_delta) return 0;
    for (int round = 0; !(at_high <= 0); round++) {
        if (round == 20) return INFINITY;
        low = high;
        high += step * (1 << (round / 2));
        at_high = read_sum(c, high).high - log_delta;
    }
    low = fmax(low, 0);
    at_low = read_sum(c, low).high - log_delta;
    for (int round = 0; round < 60 && high - low > 1e-14 * high; round++) {
        double middle = low + (high - low) * fmin(fmax(at_low / (at_low - at_high) * (1 + 1e-9), 1e-3), 1 - 1e-3);
        if (round % 3 == 2 || !(middle > low && middle < high)) middle = 0.5 * (low + high);
        const double at = read_sum(c, middle).high - log_delta;
        if (at <= 0) {
            high = middle;
            at_high = at;
            if (at > -1e-12) break;
        } else {
            low = middle;
            at_low = at;
        }
    }
    return high;
}

/* ---- the answer ---- */

enum { ATTEMPTS = 5 };

/*
 * Of fewer steps the sum of losses is not smooth enough, ever. A smaller sigma takes a grid of 4/sigma^2 points to guess about, and
 * connect the dots leaves the rest to the closed forms (account/grid/grid.c has the same range).
 */
static int is_possible(const account_pair *pair) {
    enum { STEPS_MIN = 16 };
    return pair->probability < 1 && pair->compositions >= STEPS_MIN && pair->sigma >= 0.01 && pair->sigma <= 1e6;
}

/* One attempt, planned about *guess, which becomes what was found; *again: is another one, about that, of use? */
static dpmf_status attempt(const account_pair *pair, const account_question *q, double *guess, int *met, int *again) {
    const double epsilon = q->of_epsilon ? *guess : q->given, slack = account_slack(q, epsilon);
    sum c = {0};
    int made = 0;
    dpmf_status status = DPMF_OK;
    *met = *again = 0;
    TRY_DONE(open_sum(pair, epsilon, q->of_epsilon ? q->given : *guess, slack, q->step_max, &c, &made));
    if (!made) {
        *guess = account_worst(q);
    } else if (q->of_epsilon) {
        const double found = solve_epsilon(&c, *guess, q->given);
        const double below = found * (1 - PAIR_ROUNDING) - fmin(slack, account_slack(q, found));
        *met = isfinite(found) && (below <= 0 || read_sum(&c, below).low >= q->given);
        *again = isfinite(found) && !*met && c.plan.t * fabs(found - *guess) > 0.5;
        *guess = found;
    } else {
        const double found = read_sum(&c, epsilon * (1 - PAIR_ROUNDING)).high + PAIR_ROUNDING;
        /* delta a slack before epsilon is above it: the bound is the value of an epsilon within the slack */
        *met = read_sum(&c, fmax(epsilon - slack, 0)).low >= found;
        if (epsilon <= slack) *met = read_sum(&c, epsilon).low >= found - 1e-3;
        *again = !*met && isfinite(found) && fabs(found - *guess) > 0.5;
        *guess = found;
    }
done:
    base_free(c.nodes);
    return status;
}

dpmf_status fourier_answer(const account_pair *pair, const account_question *q, account_answer *out) {
    TRY(pair_check(pair));
    TRY(account_check_given(q));
    double guess = 0, least = account_worst(q);
    int tight = 0, again = is_possible(pair);
    if (again) TRY(saddle_guess(pair, q, &guess));
    for (int i = 0; i < ATTEMPTS && again; i++) {
        TRY(attempt(pair, q, &guess, &tight, &again));
        least = fmin(least, q->of_epsilon ? guess * (1 + PAIR_ROUNDING) : guess);
    }
    out->value = least;
    out->met = tight;
    return DPMF_OK;
}
