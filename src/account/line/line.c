/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proven bounds of delta and epsilon of the composed subsampled Gaussian mechanism by a Fourier sum, at a cost that does not depend on the number of
 * compositions n and with an error of about 1e-9 of delta, up to n = 1e15.
 *
 * With M(z) = E_P[e^(zL)] of one step and z = t + iy, t > 0, the two-sided Laplace transform of delta is
 *
 *     int delta(x) e^(zx) dx = M(z)^n / (z (z+1)),
 *
 * since that of (1 - e^(x-L))_+ is e^(zL)/(z (z+1)). Poisson's sum of e^(tx) delta(x) with the period p = 2 pi/h is
 *
 *     sum_k e^(tkp) delta(epsilon + kp) = (h/2 pi) sum_j F(t + ijh),    F(z) = M(z)^n e^(-z epsilon) / (z (z+1)).
 *
 * All terms on the left are positive and the one of k = 0 is delta(epsilon): the sum on the right, which a trapezoid rule for the inversion integral would be, is an upper
 * bound of it at every step h. (Abate and Whitt 1992 use such sums for probabilities.) It becomes a bound of numbers by adding
 *
 *     the rest of the sum        |F| <= M(t)^n e^(-t epsilon) |phi(y)|^n / y^2, phi = M(t + iy)/M(t), and |phi| <= 1 - a for all y beyond the last node, with the a of
 *                                account/line/decay.c: at most M(t)^n e^(-t epsilon) e^(-na) / (pi y)
 *     the errors of phi          of quadrature and rounding, account/line/rule.c; n-fold in n ln phi
 *     roundings of the sum.
 *
 * From below: less these, and less the terms of k != 0, for which delta(x) <= M(r)^n e^(-rx) / (1+r) for every r > 0: with r = t + s above and t - s below they are
 * at most M(r)^n e^(-r epsilon) / ((1+r) (e^(sp) - 1)). So whether the slack was met is itself proven.
 *
 * Why this route: some tens of nodes do where many steps make the sum of losses smooth, and nothing is lost to a grid. Where few steps or one rare loss
 * decide (a bound e^(-na) that does not fall), it gives up before it has cost anything, and connect the dots (account/dots/dots.c) answers.
 */
#include "account/line/line.h"

#include "account/contour/contour.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>

typedef double complex cplx;

static const double PI = 3.14159265358979323846, ROUNDING = 0x1p-53;
static const double TOLERANCE = 1e-9; /* part of delta, for each of the errors that more nodes make smaller */
static const double PAIR_ROUNDING = 1e-12; /* as in account/dots/dots.c: for the roundings of the pair's own constants */

enum { NODES_MAX = 1024, POINTS_MAX = 4096, WORK_MAX = 1 << 19 };

/* A term without e^(-iy epsilon): its logarithm, and what that is off by. */
typedef struct node {
    double size, angle, error;
} node;

/* One side of the aliases: at most e^(log_factor - order epsilon). */
typedef struct alias {
    double log_factor, order;
} alias;

typedef struct line {
    const dpmf_i_account_pair *pair;
    double n, t, spacing;               /* spacing: h */
    double log_high, log_low, log_rest; /* n ln M(t) from both sides; ln of the rest of the sum, over M(t)^n e^(-t epsilon) */
    alias above, below;
    int count;
    node *nodes; /* owned */
} line;

/* ---- the choices ---- */

/* The period that makes one side's aliases small, by the best of some orders; INFINITY: none does. */
static double find_period(const line *c, const dpmf_i_account_contour_saddle *at, double log_delta, int side,
                          alias *out, double *out_shift) {
    static const double shifts[] = {2, 3, 4, 5, 6, 7, 8, 10, 14}; /* in standard deviations of the dual variable */
    double best = INFINITY;
    for (size_t i = 0; i < sizeof shifts / sizeof shifts[0]; i++) {
        double s = shifts[i] / sqrt(at->second);
        if (side < 0 && s >= c->t) s = c->t * (1 - 0.5 / (double)(i + 1));
        const double r = c->t + side * s;
        const dpmf_i_account_cumulant k = dpmf_i_account_pair_cumulant(c->pair, r, 1);
        if (!isfinite(k.error)) break;
        const double log_factor = c->n * (k.value + k.error) - log1p(r);
        const double period = (log_factor - r * at->epsilon - log_delta - log(TOLERANCE)) / s;
        if (period >= best) continue;
        best = period;
        *out = (alias){log_factor, r};
        *out_shift = s;
    }
    return best;
}

/* Spacing and aliases. */
static int choose_spacing(const dpmf_i_account_contour_saddle *at, double log_delta, line *c) {
    double up = 1, down = 1;
    double period = find_period(c, at, log_delta, 1, &c->above, &up);
    period = fmax(period, find_period(c, at, log_delta, -1, &c->below, &down));
    if (!(period > 0 && isfinite(period))) return 0;
    c->spacing = 2 * PI / period;
    c->above.log_factor -= log(expm1(up * period));
    c->below.log_factor -= log(expm1(down * period));
    return 1;
}

static double log_rest_from(const line *c, const dpmf_i_account_line_decay *decay, double y) {
    return -c->n * dpmf_i_account_line_decay_from(decay, y) - log(PI * y);
}

/* The number of nodes after which the rest of the sum is small; 0: more than allowed. */
static int choose_count(const dpmf_i_account_contour_saddle *at, double log_delta, line *c) {
    dpmf_i_account_line_decay decay;
    const double enough = log_delta + log(TOLERANCE) - (c->n * at->scale - c->t * at->epsilon);
    dpmf_i_account_line_decay_fill(c->pair, c->t, at->scale * (1 + (at->scale > 0 ? 1e-9 : -1e-9)) + 1e-12, &decay);
    int low = 0, high = 8;
    while (high <= NODES_MAX && log_rest_from(c, &decay, c->spacing * high) > enough) {
        low = high;
        high *= 2;
    }
    if (high > NODES_MAX) return 0;
    while (high - low > 1) {
        const int middle = low + (high - low) / 2;
        *(log_rest_from(c, &decay, c->spacing * middle) > enough ? &low : &high) = middle;
    }
    c->log_rest = log_rest_from(c, &decay, c->spacing * high);
    return high + 1; /* the nodes 0 to high */
}

/* ---- the nodes ---- */

/* ln(1 + x) */
static cplx complex_log1p(cplx x) {
    const double a = creal(x), b = cimag(x), more = a * (2 + a) + b * b;
    const double log_modulus = more > -0.5 ? 0.5 * log1p(more) : log(hypot(1 + a, b));
    return dpmf_i_account_complex(log_modulus, atan2(b, 1 + a));
}

static void fill_node(const line *c, const dpmf_i_account_line_rule *rule, double y, node *out) {
    double error;
    const cplx x = dpmf_i_account_line_rule_at(rule, y, &error);
    const double modulus = hypot(1 + creal(x), cimag(x));
    const double log_weight = 0.5 * (log(c->t * c->t + y * y) + log((c->t + 1) * (c->t + 1) + y * y));
    if (!(modulus > 2 * error)) { /* known to be small only: 0, off by as much as it can be */
        *out = (node){-INFINITY, 0, c->n * log(3 * error) - log_weight};
        return;
    }
    const cplx log_phi = complex_log1p(x);
    const double size = fabs(creal(x)) + fabs(cimag(x)), log_size = fabs(creal(log_phi)) + fabs(cimag(log_phi));
    out->size = c->n * creal(log_phi) - log_weight;
    out->angle = c->n * cimag(log_phi) - atan2(y, c->t) - atan2(y, c->t + 1);
    out->error = c->n * (error / (modulus - error) + 16 * ROUNDING * (size / modulus + log_size)) +
                 16 * ROUNDING * (2 + fabs(log_weight));
}

/* *made: are there nodes that prove something? */
static dpmf_status make_nodes(line *c, int count, int *made) {
    dpmf_i_account_line_rule rule;
    *made = 0;
    TRY(dpmf_i_account_line_rule_create(c->pair, c->t, c->spacing * count, POINTS_MAX, &rule));
    if (rule.phase == NULL) return DPMF_OK;
    if (rule.count * count <= WORK_MAX) {
        for (int i = 0; i < count; i++) {
            fill_node(c, &rule, c->spacing * i, &c->nodes[i]);
        }
        c->count = count;
        c->log_high = c->n * rule.log_moment_high;
        c->log_low = c->n * rule.log_moment_low;
        *made = 1;
    }
    dpmf_i_account_line_rule_free(&rule);
    return DPMF_OK;
}

/* For epsilon, delta near those of the saddle. */
static dpmf_status open_line(const dpmf_i_account_pair *pair, const dpmf_i_account_contour_saddle *at, line *c,
                             int *made) {
    static const double log_two_pi = 1.83787706640934548356;
    const double log_delta = at->value - 0.5 * (log_two_pi + log(at->second));
    *made = 0;
    *c = (line){.pair = pair, .n = (double)pair->compositions, .t = at->t};
    if (!choose_spacing(at, log_delta, c)) return DPMF_OK;
    const int count = choose_count(at, log_delta, c);
    if (count == 0) return DPMF_OK;
    TRY(dpmf_i_base_alloc((size_t)count, sizeof *c->nodes, "the nodes of a line integral", (void **)&c->nodes));
    return make_nodes(c, count, made);
}

/* ---- reading it ---- */

typedef struct bounds {
    double high, low; /* of ln delta */
} bounds;

static bounds read_line(const line *c, double epsilon) {
    double sum = 0, off = 0, total = 0;
    for (int i = 0; i < c->count; i++) {
        const node *p = &c->nodes[i];
        const double times = i == 0 ? 0.5 : 1, y = c->spacing * i;
        if (p->size == -INFINITY) {
            off += exp(p->error);
            continue;
        }
        const double modulus = times * exp(p->size), turn = y * epsilon;
        sum += modulus * cos(p->angle - turn);
        off += modulus * expm1(fmin(p->error + 8 * ROUNDING * (fabs(p->angle) + turn + fabs(p->size)), 700));
        total += modulus;
    }
    off += ROUNDING * (8 + c->count) * total;
    const double part = c->spacing / PI, rest = exp(c->log_rest);
    const double high = part * (sum + off) * (1 + 1e-14) + rest, low = part * (sum - off) * (1 - 1e-14) - rest;
    const double rounding = 4 * ROUNDING * (fabs(c->log_high) + c->t * epsilon + 800);
    bounds b = {INFINITY, -INFINITY};
    if (!(high > 0)) return b;
    b.high = c->log_high - c->t * epsilon + log(high) + rounding;
    const double scale = c->log_low - c->t * epsilon;
    const double aliases = exp(c->above.log_factor - c->above.order * epsilon - scale) +
                           exp(c->below.log_factor - c->below.order * epsilon - scale);
    if (low > aliases) b.low = scale + log(low - aliases) - rounding;
    return b;
}

/* The least epsilon >= 0 found with delta proven: bisection and regula falsi on the upper bound. INFINITY: none near. */
static double solve_epsilon(const line *c, double guess, double log_delta) {
    double low = 0, high = guess, at_low, at_high = read_line(c, high).high - log_delta;
    const double step = 1 / c->t;
    if (read_line(c, 0).high <= log_delta) return 0;
    for (int round = 0; !(at_high <= 0); round++) {
        if (round == 20) return INFINITY;
        low = high;
        high += step * (1 << (round / 2));
        at_high = read_line(c, high).high - log_delta;
    }
    low = fmax(low, 0);
    at_low = read_line(c, low).high - log_delta;
    for (int round = 0; round < 60 && high - low > 1e-14 * high; round++) {
        double middle = low + (high - low) * fmin(fmax(at_low / (at_low - at_high) * (1 + 1e-9), 1e-3), 1 - 1e-3);
        if (round % 3 == 2 || !(middle > low && middle < high)) middle = 0.5 * (low + high);
        const double at = read_line(c, middle).high - log_delta;
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

/* ---- the two questions ---- */

static int is_possible(const dpmf_i_account_pair *pair) {
    return pair->probability < 1 && pair->compositions > 1;
}

dpmf_status dpmf_i_account_line_epsilon(const dpmf_i_account_pair *pair, double log_delta, double relative,
                                        double absolute, double *epsilon, int *met) {
    dpmf_i_account_contour_saddle at;
    line c = {0};
    int made = 0;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_i_account_pair_check(pair));
    assert(log_delta < 0);
    *epsilon = INFINITY;
    *met = 0;
    if (!is_possible(pair) || !dpmf_i_account_contour_saddle_at_delta(pair, log_delta, &at)) return DPMF_OK;
    TRY_DONE(open_line(pair, &at, &c, &made));
    if (!made) goto done;
    const double found = solve_epsilon(&c, fmax(at.epsilon, 0), log_delta);
    const double below = found * (1 - PAIR_ROUNDING) - fmax(relative * found, absolute);
    *epsilon = found * (1 + PAIR_ROUNDING);
    *met = isfinite(found) && (below <= 0 || read_line(&c, below).low >= log_delta);
done:
    dpmf_i_base_free(c.nodes);
    return status;
}

dpmf_status dpmf_i_account_line_log_delta(const dpmf_i_account_pair *pair, double epsilon, double relative,
                                          double absolute, double *log_delta, int *met) {
    dpmf_i_account_contour_saddle at;
    line c = {0};
    int made = 0;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_i_account_pair_check(pair));
    assert(epsilon >= 0 && isfinite(epsilon));
    *log_delta = 0;
    *met = 0;
    if (!is_possible(pair) || !dpmf_i_account_contour_saddle_at_epsilon(pair, epsilon, &at)) return DPMF_OK;
    TRY_DONE(open_line(pair, &at, &c, &made));
    if (!made) goto done;
    const double found = read_line(&c, epsilon * (1 - PAIR_ROUNDING)).high + PAIR_ROUNDING;
    const double below = epsilon - fmax(relative * epsilon, absolute);
    *log_delta = fmin(found, 0);
    /* delta a slack before epsilon is above what was found: the answer is that of an epsilon within the slack */
    *met = isfinite(found) && read_line(&c, fmax(below, 0)).low >= found;
    if (below <= 0 && isfinite(found)) *met = read_line(&c, epsilon).low >= found - 1e-3;
done:
    dpmf_i_base_free(c.nodes);
    return status;
}
