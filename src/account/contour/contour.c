/* SPDX-License-Identifier: Apache-2.0 */
/*
 * delta(epsilon) of the composed subsampled Gaussian mechanism as a contour integral: near exact, at a cost that does
 * not depend on the number of compositions.
 *
 * (1 - e^(epsilon - L))_+ is the inverse Laplace transform of 1/(z (z+1)); with M(z) = E_P[e^(zL)] of one step,
 *
 *     delta = 1/(2 pi i) int M(z)^n e^(-z epsilon) / (z (z+1)) dz = 1/pi Im int_0^inf e^(g(z(v))) z'(v) dv
 *
 * along any path from t > 0 up that the integrand decays on (a saddle point integral in the sense of Daniels 1954; for
 * privacy loss, Alghamdi and others 2023), g(z) = n ln M(z) - z epsilon - ln z - ln(z+1). With t the saddle of g on
 * the real line, u = g''(t)^(-1/2) and y = c u sinh(v/c), c = 10, the path is
 *
 *     z(v) = t + k (sqrt(y^2 + d^2) - d) + i y.
 *
 * The bend. Where few steps count (small q: one large loss among many that are nearly nothing) M(z)^n hardly decays on
 * a vertical line, and e^(-z epsilon) turns over and over. The path of steepest descent bends to the right by g'''/(6
 * g'') y^2 at first; the hyperbola with d = 3 k g''/g''' does so too and continues at a slope k < 1, along which e^(-z
 * epsilon) decays and e^(z^2 / (2 sigma^2)), the growth of M, decays as well. k = 0 where g''' <= 0. The jump itself,
 * q^(z+1) e^(z(z+1)/(2 sigma^2)), must not grow on the way: its exponent moves by J (Re z - t) - y^2/(2 sigma^2) with J
 * = (t + 1/2)/sigma^2 + ln q, which needs d >= k sigma^2 J; twice that is taken.
 *
 * The trapezoid rule in v converges geometrically. Its step is halved until delta is settled; then the integral is
 * taken once more along another path, of which the value does not depend. Error: what both moved, and the rounding
 * errors of ln M, n-fold, against the modulus of the integrand. Failure is an error of INFINITY.
 *
 * epsilon(delta): the saddle's own approximation gives t for a delta; the values of n ln M on that path serve for
 * every epsilon nearby, so that Newton's method costs next to nothing (d delta/d epsilon: a factor -z).
 *
 * q = 1 is the Gaussian mechanism, and one step of remove or add is one with a changed epsilon and delta: with
 * G(epsilon) the Gaussian delta at mu = 1/sigma,
 *
 *     remove   delta = q G(ln(1 + (e^epsilon - 1)/q)),
 *     add      delta = (1 - e^epsilon (1-q)) G(-ln(1 - (1 - e^-epsilon)/q)).
 */
#include "account/contour/contour.h"

#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <math.h>

typedef double complex cplx;

enum { NODES_MAX = 4096, HALVINGS = 5 };
static const int64_t points_max = 300000; /* evaluations of the integrand of M, some 60 ms: then give up */

/* A node: z, g(z) + z epsilon + ln z', its error. */
typedef struct node {
    cplx z, log_value;
    double error;
} node;

typedef struct contour {
    account_saddle saddle;
    contour_moment moment;
    double bend, knee, width; /* k, d, u */
    double step;
    int count;
    node *nodes;
} contour;

typedef struct integral {
    double log_delta, slope; /* slope: d ln delta / d epsilon */
    double moved, rounding;  /* of ln delta: against every other node; by rounding */
} integral;

static void shape_contour(const account_saddle *saddle, double bend, contour *c) {
    c->saddle = *saddle;
    c->width = 1 / sqrt(saddle->second);
    const account_pair *pair = c->moment.pair;
    const int add = pair->direction == ACCOUNT_ADD;
    c->bend = add ? 0 : bend; /* add: the loss is bounded above, and M grows to the right like e^(z n sup L) */
    c->knee = 10 * c->width;  /* where the saddle bends the other way: only far out */
    if (saddle->third > 0) c->knee = fmax(3 * bend * saddle->second / saddle->third, 2 * c->width);
    const double variance = pair->sigma * pair->sigma;
    const double jump = pair->direction == ACCOUNT_REPLACE ? 2 * saddle->t + 1 : saddle->t + 0.5;
    if (!add) c->knee = fmax(c->knee, 2 * bend * (jump + variance * log(pair->probability)));
}

/* False on failure. */
static int evaluate_node(contour *c, double v, node *out) {
    static const double stretch = 10; /* linear to 10 u, exponential beyond */
    const double y = stretch * c->width * sinh(v / stretch), dy = c->width * cosh(v / stretch);
    const double root = sqrt(y * y + c->knee * c->knee);
    const cplx z = account_complex(c->saddle.t + c->bend * (root - c->knee), y);
    const cplx tangent = account_complex(c->bend * y / root * dy, dy);
    double error;
    const double n = (double)c->moment.pair->compositions;
    const cplx log_moment = contour_moment_log(&c->moment, z, c->saddle.scale, &error);
    if (!isfinite(error)) return 0;
    out->z = z;
    out->log_value = n * log_moment + clog(tangent / (z * (z + 1)));
    out->error = n * (error + DBL_EPSILON * cabs(log_moment));
    return isfinite(creal(out->log_value));
}

/* The sum over the nodes at this epsilon. False if it is not positive. */
static int integrate(const contour *c, double epsilon, integral *out) {
    const double reference = creal(c->nodes[0].log_value) - creal(c->nodes[0].z) * epsilon;
    double sum = 0, even = 0, slope = 0, rounding = 0;
    for (int i = 0; i < c->count; i++) {
        const node *p = &c->nodes[i];
        const cplx value = (i == 0 ? 0.5 : 1) * cexp(p->log_value - p->z * epsilon - reference);
        sum += cimag(value);
        if (i % 2 == 0) even += cimag(value);
        slope -= cimag(p->z * value);
        rounding += cabs(value) * (p->error + DBL_EPSILON * (4 + cabs(p->z) * epsilon));
    }
    out->log_delta = reference + log(sum * c->step / 3.14159265358979323846);
    out->slope = slope / sum;
    out->moved = fabs(2 * even / sum - 1);
    out->rounding = rounding / sum + 4 * DBL_EPSILON * fabs(reference);
    return sum > 0 && slope < 0 && isfinite(out->log_delta) && isfinite(out->slope);
}

/* Nodes with this step, from the saddle on until they no longer count. */
static int fill_nodes(contour *c, double step) {
    double largest = -INFINITY;
    c->step = step;
    for (c->count = 0; c->count < NODES_MAX / 2; c->count++) {
        node *p = &c->nodes[c->count];
        if (c->moment.points > points_max || !evaluate_node(c, step * c->count, p)) return 0;
        const double size = creal(p->log_value) - creal(p->z) * c->saddle.epsilon;
        largest = fmax(largest, size);
        if (size < largest - 37) break; /* e^-37 is below a rounding */
    }
    return c->count > 1 && c->count < NODES_MAX / 2;
}

static int halve(contour *c) {
    if (2 * c->count > NODES_MAX) return 0;
    for (int i = c->count - 1; i > 0; i--) {
        c->nodes[2 * i] = c->nodes[i];
    }
    c->step *= 0.5;
    for (int i = 1; i < 2 * c->count; i += 2) {
        if (c->moment.points > points_max || !evaluate_node(c, c->step * i, &c->nodes[i])) return 0;
    }
    c->count *= 2;
    return 1;
}

/*
 * Newton's method for epsilon >= 0 on the nodes that are there, within a bracket: delta falls with epsilon. Where they
 * do not suit epsilon, half of the way back is tried.
 */
static int solve_epsilon(const contour *c, double log_delta, double *epsilon, integral *out) {
    double low = 0, high = INFINITY, good = NAN;
    int at_zero = 0;
    for (int round = 0; round < 60; round++) {
        if (!integrate(c, *epsilon, out)) {
            if (isnan(good)) return 0;
            *epsilon = 0.5 * (*epsilon + good);
            continue;
        }
        good = *epsilon;
        if (out->log_delta > log_delta) {
            low = good;
        } else {
            high = good;
        }
        if (high == 0) return 1; /* delta(0) is below already */
        at_zero |= good == 0;
        double next = fmax(0, good + (out->log_delta - log_delta) / -out->slope);
        if ((next <= low && (low > 0 || at_zero)) || next >= high) next = isinf(high) ? 2 * low : 0.5 * (low + high);
        *epsilon = next;
        if (fabs(next - good) <= 1e-14 * next) return integrate(c, *epsilon, out);
    }
    return 0;
}

/*
 * At a given epsilon (log_delta NAN), or for a given delta with *epsilon to be found from a first guess. It settles when
 * halving the step moved ln delta by less than `settled`: the next halving would move it by about the square of that.
 * *far: epsilon came out so far from that of the saddle that the path does not suit it.
 */
static int settle(contour *c, double log_delta, double *epsilon, integral *out, int *far) {
    static const double settled = 1e-8;
    *far = 0;
    if (!fill_nodes(c, 0.5)) return 0;
    for (int halving = 0; halving < HALVINGS; halving++) {
        if (!halve(c)) return 0;
        const int done = isnan(log_delta) ? integrate(c, *epsilon, out) : solve_epsilon(c, log_delta, epsilon, out);
        if (!done) continue;
        *far = fabs(*epsilon - c->saddle.epsilon) * creal(c->nodes[c->count - 1].z - c->nodes[0].z) > 3 ||
               fabs(*epsilon - c->saddle.epsilon) > c->width * c->saddle.second;
        if (*far && out->moved < 0.3) return 0;
        if (out->moved < settled) return 1;
    }
    return 0;
}

/* Both questions. *error: of ln delta. */
static int run_contour(const account_pair *pair, contour *c, double log_delta, double *epsilon, integral *out,
                       double *error) {
    static const double slope = 0.4, other_slope = 0.3; /* of the bends: well below 1, where M would stop to decay */
    account_saddle saddle;
    const int found = isnan(log_delta) ? saddle_at_epsilon(pair, INFINITY, *epsilon, &saddle)
                                       : saddle_at_delta(pair, log_delta, &saddle);
    if (!found) return 0;
    if (!isnan(log_delta)) *epsilon = fmax(0, saddle.epsilon);
    contour_moment_start(pair, &c->moment);
    int far = 1, settled = 0;
    for (int round = 0; far && round < 8; round++) { /* epsilon moves less and less from one saddle to the next */
        if (round > 0 && !saddle_at_epsilon(pair, INFINITY, *epsilon, &saddle)) return 0;
        shape_contour(&saddle, slope, c);
        settled = settle(c, log_delta, epsilon, out, &far);
    }
    if (!settled) return 0;
    /* Another path: it leaves the axis half a width before the saddle, and bends less. */
    saddle.epsilon = *epsilon;
    const double width = c->width, step = c->step;
    if (!saddle_move(pair, saddle.t - 0.5 * width, &saddle)) return 0;
    shape_contour(&saddle, other_slope, c);
    c->moment.points = 0;
    c->moment.fineness = 0.5;
    integral other;
    if (!fill_nodes(c, step) || !integrate(c, *epsilon, &other)) return 0;
    /* 10: raw, 7 of 307 values of 32 digits were off by up to 11 times the estimate, near its floor; 1e-12: that floor. */
    *error = 10 * (out->moved + fabs(other.log_delta - out->log_delta) + out->rounding) +
             1e-12 * fmax(1, fabs(out->log_delta));
    return *error < 0.1; /* more gives no information about what is left */
}

/* ---- closed forms ---- */

static double gaussian_mu(const account_pair *pair) {
    return (pair->direction == ACCOUNT_REPLACE ? 2 : 1) * sqrt((double)pair->compositions) / pair->sigma;
}

static const double closed_error = 1e-12; /* of ln delta, relative and absolute */

/* ln delta where there is a closed form, else NAN. */
static double closed_log_delta(const account_pair *pair, double epsilon) {
    const double q = pair->probability, n = (double)pair->compositions;
    if (q == 1) return account_gaussian_log_delta(gaussian_mu(pair), epsilon);
    if (epsilon >= n * pair_loss_limit(pair)) return -INFINITY;
    if (pair->compositions > 1 || pair->direction == ACCOUNT_REPLACE) return NAN;
    if (pair->direction == ACCOUNT_REMOVE) {
        const double inner = epsilon < 30 ? log1p(expm1(epsilon) / q) : epsilon - log(q);
        return log(q) + account_gaussian_log_delta(1 / pair->sigma, inner);
    }
    const double rest = 1 + expm1(-epsilon) / q; /* > 0 below the limit of the loss */
    if (!(rest > 1e-3)) return NAN;              /* cancelled */
    return epsilon + log(q * rest) + account_gaussian_log_delta(1 / pair->sigma, fmax(0, -log(rest)));
}

/* epsilon by bisection on the closed form of one step; INFINITY where it has none. */
static double closed_epsilon(const account_pair *pair, double log_delta) {
    if (pair->probability == 1) return account_gaussian_epsilon(gaussian_mu(pair), log_delta);
    if (isnan(closed_log_delta(pair, 0))) return INFINITY;
    if (closed_log_delta(pair, 0) <= log_delta) return 0;
    double low = 0, high = pair_loss_limit(pair);
    if (isinf(high)) {
        high = 1;
        while (high < 1e300 && closed_log_delta(pair, high) > log_delta) {
            high *= 2;
        }
    }
    for (int round = 0; round < 2000 && high - low > 2 * DBL_EPSILON * high; round++) {
        const double middle = low > 0 && high > 4 * low ? sqrt(low * high) : 0.5 * (low + high);
        if (middle <= low || middle >= high) break;
        const double value = closed_log_delta(pair, middle);
        if (isnan(value)) return INFINITY;
        if (value > log_delta) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return high;
}

dpmf_status contour_answer(const account_pair *pair, const account_question *q, double *value, double *error) {
    TRY(pair_check(pair));
    TRY(account_check_given(q));
    const double closed = q->of_epsilon ? closed_epsilon(pair, q->given) : closed_log_delta(pair, q->given);
    if (q->of_epsilon ? isfinite(closed) : !isnan(closed)) {
        *value = closed;
        *error = closed_error * fmax(1, fabs(q->of_epsilon ? q->given : closed));
        if (q->of_epsilon) *error *= closed;
        if (isinf(closed)) *error = 0;
        return DPMF_OK;
    }
    contour c = {0};
    TRY(base_alloc(NODES_MAX, sizeof *c.nodes, "the nodes of a contour", (void **)&c.nodes));
    integral found = {0};
    double wrong = INFINITY, epsilon = q->of_epsilon ? 0 : q->given;
    const int done = run_contour(pair, &c, q->of_epsilon ? q->given : NAN, &epsilon, &found, &wrong);
    if (q->of_epsilon) wrong = 1.5 * wrong / -found.slope + 1e-14 * epsilon; /* 1.5: the slope is not constant */
    *value = !done ? 0 : q->of_epsilon ? epsilon : found.log_delta;
    *error = done ? wrong : INFINITY;
    base_free(c.nodes);
    return DPMF_OK;
}
