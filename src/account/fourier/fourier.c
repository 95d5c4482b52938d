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
 *                                for all y beyond the last node (rule.c): at most M(t)^n e^(-t epsilon) e^(-na) / (pi y)
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

/* The terms of k != 0 on one side: at most e^(log_factor - order epsilon). */
typedef struct alias {
    double log_factor, order;
} alias;

typedef struct sum_plan {
    double cut, log_apart; /* of account/pair.h; ln of a bound of what is apart in all steps together */
    double t, spacing;
    int64_t count, points_max; /* nodes; points of a quadrature that is worth its time */
    double log_off;            /* ln of what the quadrature may be off by */
    double log_rest;           /* ln of a bound of the rest of the sum, over M(t)^n e^(-t epsilon) */
    double log_moment;         /* ... which is proven if this is an upper bound of ln M(t) */
    alias above, below;
} sum_plan;

/* A term without e^(-iy epsilon): its logarithm, and what that is off by. */
typedef struct node {
    double size, angle, error;
} node;

typedef struct sum {
    const account_pair *pair;
    double n;
    sum_plan plan;
    double log_high, log_low; /* n ln M(t) from both sides */
    node *nodes;              /* owned */
} sum;

/*
 * ---- the choices ----
 *
 * Every choice gives a bound; these give one that is tight at little cost.
 *
 * Order. Any t > 0 may be the abscissa. At the saddle point the terms are the smallest, but where sampling is rare that
 * is just before M(t) explodes (one absurdly large loss outweighs all else at high orders), and the aliases above then
 * need a long period. A smaller t costs some digits by cancellation and nothing else, so orders from the saddle point
 * down are tried, the least work wins.
 *
 * Cut. Where sampling is rare, a loss of one step that is too rare to count may still be large enough to outweigh all else
 * at high orders: then such outcomes are set apart (account/pair.h), as many as add a part `tolerance` to delta, and the
 * order is that of all others. Without them the terms fall like those of a Gaussian, at an order that may be a hundred times
 * as high. A nearer cut has a larger part apart and a smaller error of the quadrature at the cut: both are to be within the
 * tolerance, which grows until they are. For adding, where losses are bounded, a cut saves points of the quadrature.
 *
 * Spacing. The aliases are bounded by M(r)^n e^(-r epsilon) / ((1+r) (e^(sp) - 1)), r = t + s and t - s; p such that
 * they are a part `tolerance` of delta, at the best s.
 *
 * Number. As many nodes as make the rest of the sum, by the bound of account/fourier/rule.c, such a part.
 *
 * Tolerance. 1e-9, or where that would be much work as much as the slack allows. Where the sum takes more work than
 * connecting the dots, it is left to that method.
 */

static const double FINE = 1e-9, COARSE = 0.02,
                    COARSE_CUT = 0.15; /* tolerances: a part of delta; parts of what the slack does to it */

static const double BEYOND = 1.5; /* how far beyond the saddle point aliases are looked for, about */
/* What a quadrature misses at a cut, about: such a part of the integrand there. */
static const double PART_OF_STEP = 0.03;

/* Number of nodes times points: some 3 ns each. What the grid of the other method costs grows like sqrt n. */
static const double WORK_FINE = 1 << 18, WORK_LEAST = 1 << 22, WORK_MOST = 1 << 24;

enum { POINTS_MAX = 4096 }; /* for a quadrature at y = 0: orders that high are never used */

typedef struct aim {
    const account_pair *pair;
    double n, epsilon, log_delta, tolerance;
    double cut;
} aim;

/* ln of n times the integrand of M at the cut: the quadrature may miss a part of a step of it. */
static double log_at_cut(const aim *a, double t) {
    const double l = pair_log_ratio(a->pair, a->cut), z = a->cut / a->pair->sigma;
    double u = a->pair->direction == ACCOUNT_ADD ? -t * l : (t + 1) * l;
    if (a->pair->direction == ACCOUNT_REPLACE) u -= t * pair_log_ratio(a->pair, -a->cut);
    return log(a->n) + u - 0.5 * z * z;
}

/* The period that makes the aliases of one side small by the order t + side s; INFINITY where M fails. */
static double period_at(const aim *a, double t, int side, double s, alias *out) {
    const double r = t + side * s;
    if (!(r > 0)) return INFINITY;
    const account_cumulant k = pair_cumulant(a->pair, a->cut, r, 1);
    if (!isfinite(k.error)) return INFINITY;
    const double edge = isinf(a->cut) ? 0 : PART_OF_STEP * exp(fmin(log_at_cut(a, r), 600)); /* account/pair.c */
    *out = (alias){a->n * (k.value + k.error) + edge - log1p(r), r};
    return (out->log_factor - r * a->epsilon - a->log_delta - log(a->tolerance)) / s;
}

/* The best of some s, from where it is best for a Gaussian on as long as it gets better. */
static double find_period(const aim *a, double t, double deviation, int side, alias *out) {
    double start = 5 / deviation, best;
    if (side < 0) start = fmin(start, 0.75 * t);
    best = period_at(a, t, side, start, out);
    for (int up = 0; up < 2; up++) {
        double s = start;
        for (int i = 0; i < 20; i++) {
            alias there = {0, 0};
            s = !up ? s / 1.5 : side > 0 ? s * 1.5 : fmin(s * 1.5, 0.5 * (s + t));
            const double period = period_at(a, t, side, s, &there);
            if (!(period < 0.98 * best) && !(isinf(best) && !up)) break;
            if (!(period < best)) continue;
            best = period;
            *out = there;
        }
    }
    return best;
}

/* The number of nodes but the first after which the rest of the sum is small; 0: more than `most`. */
static int64_t find_count(const aim *a, const fourier_decay *decay, double spacing, double enough, int64_t most,
                          double *log_rest) {
    int64_t low = 0, high = 8;
    for (;; high *= 2) {
        if (low >= most) return 0;
        const double y = spacing * (double)high;
        *log_rest = -a->n * fourier_decay_from(decay, y) - log(PI * y);
        if (*log_rest <= enough) break;
        low = high;
    }
    while ((double)(high - low) > fmax(1, 0.02 * (double)low)) {
        const int64_t middle = low + (high - low) / 2;
        const double y = spacing * (double)middle;
        const double there = -a->n * fourier_decay_from(decay, y) - log(PI * y);
        if (there <= enough) {
            high = middle;
            *log_rest = there;
        } else {
            low = middle;
        }
    }
    return high;
}

/* Makes the plan at the order t; false where that is not possible with at most `most` nodes. */
static int plan_at(const aim *a, double t, int64_t most, sum_plan *out) {
    fourier_decay decay;
    if (fourier_rule_points(a->pair, a->cut, t, 0) > POINTS_MAX) return 0;
    const account_cumulant k = pair_cumulant(a->pair, a->cut, t, 1);
    if (!isfinite(k.error)) return 0;
    out->log_off = fourier_rule_off(a->pair, isinf(a->cut) ? 0 : a->tolerance);
    /* far above all errors of k, and what the rule may be off by */
    out->log_moment = k.value + k.error + 1e-9 * fabs(k.value) + (isinf(a->cut) ? 0 : 2 * exp(out->log_off));
    fourier_decay_fill(a->pair, a->cut, t, out->log_moment, &decay);
    const double enough = a->log_delta + log(a->tolerance) - (a->n * k.value - t * a->epsilon);
    if (a->n * fourier_decay_from(&decay, 1e300) < -enough - 16) return 0; /* 16: of ln(pi y) */
    const double deviation = sqrt(a->n * k.second + 1 / (t * t) + 1 / ((1 + t) * (1 + t)));
    const double up = find_period(a, t, deviation, 1, &out->above);
    const double down = isfinite(up) ? find_period(a, t, deviation, -1, &out->below) : INFINITY;
    const double period = fmax(fmax(up, down), 0.1 * deviation);
    if (!isfinite(period)) return 0;
    out->t = t;
    out->cut = a->cut;
    out->log_apart = log(a->n) + pair_log_apart(a->pair, a->cut) + 1e-9;
    out->spacing = 2 * PI / period;
    out->above.log_factor -= log(expm1((out->above.order - t) * period));
    out->below.log_factor -= log(expm1((t - out->below.order) * period));
    out->count = find_count(a, &decay, out->spacing, enough, most, &out->log_rest) + 1;
    return out->count > 1;
}

static int best_plan(const aim *a, double saddle, sum_plan *out) {
    enum { ORDERS = 8, FEW = 48, MOST = 1 << 13 };
    double least = INFINITY, t = saddle;
    for (int i = 0; i < ORDERS; i++, t *= 0.8) {
        sum_plan plan;
        if (!plan_at(a, t, MOST, &plan)) continue;
        const double work = (double)plan.count * (double)plan.count * plan.spacing; /* points are like the last y */
        if (work >= least) break;
        least = work;
        *out = plan;
        if (plan.count <= FEW) break;
    }
    return isfinite(least);
}

/* Is the work within the limit? Sets the number of points that would reach it. */
static int is_worth_it(const account_pair *pair, double work, sum_plan *plan) {
    plan->points_max = (int64_t)(work / (double)plan->count) + 64;
    return fourier_rule_points(pair, plan->cut, plan->t, plan->spacing * (double)plan->count) < plan->points_max;
}

/* Is M at high orders that of losses which are too rare to count? */
static int is_explosive(const aim *a, double t) {
    const account_cumulant part = pair_cumulant(a->pair, a->cut, BEYOND * t, 1);
    const account_cumulant whole = pair_cumulant(a->pair, INFINITY, BEYOND * t, 1);
    return !(a->n * (whole.value - part.value) < 0.1 && isfinite(whole.error));
}

/*
 * Sets a->cut (INFINITY: it makes no difference or is not possible) and a->tolerance where the cut needs a larger one; returns
 * the saddle point's order, or 0: none. Losses above 1 rise like x alone: a nearer cut makes it no better then.
 */
static double choose_cut(aim *a, double slack) {
    const double before = a->tolerance;
    account_saddle at;
    for (;; a->tolerance *= 8) {
        /* The x above which P has a part `tolerance` of delta, of all steps together. */
        const double wanted = a->log_delta + log(a->tolerance) - log(a->n);
        double low = 1, high = 1 + 80 * a->pair->sigma; /* beyond lies e^-2500 */
        for (int i = 0; i < 40; i++) {
            const double middle = 0.5 * (low + high);
            *(pair_log_apart(a->pair, middle) > wanted ? &low : &high) = middle;
        }
        a->cut = high;
        if (!saddle_at_epsilon(a->pair, a->cut, a->epsilon, &at)) break;
        /* Adding: would the loss beyond the cut, where it is too rare to count, need a finer quadrature? */
        const int explosive =
            a->pair->direction == ACCOUNT_ADD ? pair_log_ratio(a->pair, a->cut) < 0.5 : is_explosive(a, at.t);
        if (!explosive) a->cut = INFINITY;
        if (!explosive || log_at_cut(a, at.t) < log(0.2 / PART_OF_STEP * a->tolerance)) return at.t;
        const int large = pair_log_ratio(a->pair, a->cut) > 1;
        if (large || a->tolerance > COARSE_CUT / 8 * fmin(0.5, at.t * slack)) break;
    }
    a->cut = INFINITY;
    a->tolerance = before;
    return saddle_at_epsilon(a->pair, a->cut, a->epsilon, &at) ? at.t : 0;
}

/* The moments that bound the aliases, with the proven error of their quadrature: the lower bound rests on them. */
static int prove_aliases(const aim *a, sum_plan *plan) {
    alias *const sides[] = {&plan->above, &plan->below};
    for (int i = 0; i < 2; i++) {
        const double r = sides[i]->order, few = 1e-13;
        const account_cumulant k = pair_cumulant(a->pair, a->cut, r, 1);
        const double enough = k.value - log(a->n) - 12;
        const double off = exp(pair_log_error(a->pair, a->cut, r, 0, 1, enough) - k.value);
        const double added = k.error + off * (1 + 1e-9);
        /* k.value + k.error are in it already; what is added may well be INFINITY, and then nothing is proven */
        sides[i]->log_factor += a->n * (added + few * fabs(k.value)) + few * (fabs(sides[i]->log_factor) + 1);
    }
    return 1;
}

/* For what is near epsilon and e^log_delta, to the slack, and tighter than that grid (0: none); false: too much work. */
static int make_plan(const account_pair *pair, double epsilon, double log_delta, double slack, double grid,
                     sum_plan *out) {
    aim a = {pair, (double)pair->compositions, epsilon, log_delta, FINE, INFINITY};
    double t = choose_cut(&a, slack);
    if (!(t > 0)) return 0;
    const double coarse = COARSE * fmin(0.5, t * slack);
    if (best_plan(&a, t, out) && is_worth_it(pair, WORK_FINE, out)) return prove_aliases(&a, out);
    const double before = a.tolerance;
    a.tolerance = coarse;
    if (grid > 0)
        a.tolerance = fmin(a.tolerance, COARSE * a.n * grid * grid * t * (1 + t) / 12); /* account/grid/grid.c */
    if (!(a.tolerance > before)) return 0;
    if (isfinite(a.cut)) t = choose_cut(&a, slack);
    const double work = fmin(WORK_MOST, WORK_LEAST * fmax(1, sqrt((double)pair->compositions / 1e4)));
    return t > 0 && best_plan(&a, t, out) && is_worth_it(pair, work, out) && prove_aliases(&a, out);
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
    /* ln(1 + x) */
    const double a = creal(x), b = cimag(x), more = a * (2 + a) + b * b;
    const double log_modulus = more > -0.5 ? 0.5 * log1p(more) : log(hypot(1 + a, b));
    const cplx log_phi = pair_complex(log_modulus, atan2(b, 1 + a));
    const double size = fabs(creal(x)) + fabs(cimag(x)), log_size = fabs(creal(log_phi)) + fabs(cimag(log_phi));
    out->size = c->n * creal(log_phi) - log_weight;
    out->angle = c->n * cimag(log_phi) - atan2(y, c->plan.t) - atan2(y, c->plan.t + 1);
    out->error = c->n * (error / (modulus - error) + 16 * ROUNDING * (size / modulus + log_size)) +
                 16 * ROUNDING * (2 + fabs(log_weight));
}

/* *made: are there nodes that prove something? */
static dpmf_status make_nodes(sum *c, int *made) {
    const sum_plan *plan = &c->plan;
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
        for (int64_t i = 0; i < plan->count; i++)
            fill_node(c, &rule, plan->spacing * (double)i, &c->nodes[i]);
        c->log_high = c->n * rule.log_moment_high;
        c->log_low = c->n * rule.log_moment_low;
        *made = 1;
    }
    fourier_rule_free(&rule);
    return status;
}

static dpmf_status open_sum(const account_pair *pair, double epsilon, double log_delta, double slack, double grid,
                            sum *c, int *made) {
    *made = 0;
    *c = (sum){.pair = pair, .n = (double)pair->compositions};
    if (!make_plan(pair, epsilon, log_delta, slack, grid, &c->plan)) return DPMF_OK;
    return make_nodes(c, made);
}

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

enum { ATTEMPTS = 5 };

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
    /* Fewer steps are never smooth enough, and a smaller sigma takes a grid of 4/sigma^2 points (range as in grid.c). */
    enum { STEPS_MIN = 16 };
    int again = pair->probability < 1 && pair->compositions >= STEPS_MIN && pair->sigma >= 0.01 && pair->sigma <= 1e6;
    int tight = 0;
    if (again) TRY(saddle_guess(pair, q, &guess));
    for (int i = 0; i < ATTEMPTS && again; i++) {
        TRY(attempt(pair, q, &guess, &tight, &again));
        least = fmin(least, q->of_epsilon ? guess * (1 + PAIR_ROUNDING) : guess);
    }
    out->value = least;
    out->met = tight;
    return DPMF_OK;
}
