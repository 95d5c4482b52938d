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
#include "base/sum.h"

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
    const cplx z = pair_complex(c->saddle.t + c->bend * (root - c->knee), y);
    const cplx tangent = pair_complex(c->bend * y / root * dy, dy);
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
    for (int i = c->count - 1; i > 0; i--)
        c->nodes[2 * i] = c->nodes[i];
    c->step *= 0.5;
    for (int i = 1; i < 2 * c->count; i += 2)
        if (c->moment.points > points_max || !evaluate_node(c, c->step * i, &c->nodes[i])) return 0;
    c->count *= 2;
    return 1;
}

/* Newton's method for epsilon >= 0 within a bracket; where the nodes do not suit epsilon, half of the way back is tried. */
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
 * At a given epsilon (log_delta NAN), or with *epsilon to be found from a guess. It settles when halving the step moved ln
 * delta by less than `settled`: the next would by about its square. *far: epsilon is too far from the saddle's for the path.
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
        while (high < 1e300 && closed_log_delta(pair, high) > log_delta)
            high *= 2;
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

/*
 * ---- moments at complex orders ----
 *
 * The moment generating function of the privacy loss at complex z = t + is, s >= 0. Notation as in account/pair.c:
 * M(z) = E[e^u], u = (z+1) l, -z l or (z+1) l - z l-.
 *
 * On the real line e^u turns with s l(x), up to s / sigma^2 per unit, and its integral is far smaller than its modulus:
 * small steps, and rounding in all digits where t lies beyond the orders at which M is moderate. The integrand is
 * analytic, so take a better path, x + i eta(x) with eta = s r(x), r = sigma^2 l' (a logistic function of x between 0
 * and 1): it runs through the saddle points x = (z+1) r(x), where the integrand hardly turns. It must pass between the
 * zeros of w, at x0 +- i pi sigma^2, x0 = sigma^2 ln((1-q)/q) + 1/2: so r is shifted to the right until eta(x0) is
 * below half of pi sigma^2. For add the path goes down instead of up; for replace it goes up at both ends, and crosses
 * both x0 and -x0 low.
 *
 * Two sums of the same terms are kept: M - 1 = E[phi(u)] - c S, which is accurate for small losses, and M = E[e^u],
 * which is where the path lifts the Gaussian alone (it grows by e^(eta^2 / (2 sigma^2))) though not its product with
 * e^u. The one with the smaller rounding error is taken.
 *
 * ln w is continued along the path: left of x0 |q e^e / (1-q)| < 1 and the principal branch is right; right of it
 * ln w = e + ln q + ln(1 + (1-q)/q e^-e), again principal.
 */

typedef double complex cplx;

static const double one_over_sqrt_two_pi = 0.39894228040143267794;
enum { POINTS_MAX = 1 << 16 };

static cplx complex_exp(cplx a) {
    const double size = exp(creal(a));
    return pair_complex(size * cos(cimag(a)), size * sin(cimag(a)));
}

static cplx complex_expm1(cplx a) {
    const double half = sin(0.5 * cimag(a)), grown = expm1(creal(a));
    return pair_complex(grown - 2 * half * half * (grown + 1), (grown + 1) * sin(cimag(a)));
}

static cplx complex_log1p(cplx a) {
    const double x = creal(a), y = cimag(a);
    return pair_complex(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
}

/* a b without the library's care for infinities */
static cplx times(cplx a, cplx b) {
    return pair_complex(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

static double square(cplx a) {
    return creal(a) * creal(a) + cimag(a) * cimag(a);
}

/* l along the path */
static cplx log_ratio(const account_pair *pair, double odds, cplx x) {
    const double q = pair->probability, variance = pair->sigma * pair->sigma;
    const cplx e = pair_complex((creal(x) - 0.5) / variance, cimag(x) / variance);
    if (creal(e) + odds < 0) return complex_log1p(q * complex_expm1(e));
    const cplx rest = complex_log1p(complex_exp(pair_complex(-creal(e) - odds, -cimag(e))));
    return pair_complex(creal(e) + log(q) + creal(rest), cimag(e) + cimag(rest));
}

/* e^u - 1 - u for |u| < 1/2; of a small u fewer terms reach a rounding. */
static cplx excess(cplx u) {
    static const double inverse[] = {0,        1,        1 / 2.0,  1 / 3.0,  1 / 4.0,  1 / 5.0,
                                     1 / 6.0,  1 / 7.0,  1 / 8.0,  1 / 9.0,  1 / 10.0, 1 / 11.0,
                                     1 / 12.0, 1 / 13.0, 1 / 14.0, 1 / 15.0, 1 / 16.0};
    cplx sum = 0;
    for (int k = square(u) < 1e-4 ? 8 : 16; k >= 3; k--)
        sum = times(sum + 1, u) * inverse[k];
    return times(times(u, u), 0.5 * (1 + sum));
}

/* The path: eta(x), which rises to s around the centre, and its derivative. */
typedef struct path {
    double s, centre, variance;
    int sign, two_sided;
    int whole_only; /* the sum for M - 1 is cut off too early */
} path;

static path choose_path(const account_pair *pair, double odds, cplx z) {
    const double s = cimag(z), t = creal(z);
    path p = {
        s, 0, pair->sigma * pair->sigma, pair->direction == ACCOUNT_ADD ? -1 : 1, pair->direction == ACCOUNT_REPLACE,
        0};
    const double cap = 1.5 * p.variance; /* about half of the way to the zeros of w */
    p.centre = 0.5 - p.variance * odds;
    if (p.two_sided) p.centre = fabs(p.centre);
    /*
     * For small q a path that stays below 0.8 of the distance to the jump keeps the Gaussian alone small, and the sum for
     * M - 1 of use. But only where that is high enough to make the jump, at x = t + 1, negligible.
     */
    const double low = 0.8 * p.centre;
    if (p.centre > 6 * pair->sigma && s > low) {
        const double jump = (0.5 * ((t + 1) * (t + 1) + low * low) - s * low) / p.variance + (t + 1) * odds;
        if (jump < -20) p.s = low;
    }
    if (p.s > 2 * cap) p.centre += p.variance * log(p.s / cap - 1);
    return p;
}

typedef struct sums {
    cplx excess, whole;
    double excess_size, whole_size;
} sums;

/* A point of the path: its tangent, u, and ln of the Gaussian without its norm. */
typedef struct spot {
    cplx tangent, u, log_weight;
} spot;

static spot spot_at(const contour_moment *m, const path *p, cplx z, double x) {
    spot out;
    cplx point;
    const double r = 1 / (1 + exp(-(x - p->centre) / p->variance));
    double eta = r, slope = r * (1 - r);
    if (p->two_sided) {
        const double left = 1 / (1 + exp((x + p->centre) / p->variance));
        eta += left;
        slope -= left * (1 - left);
    }
    point = pair_complex(x, p->sign * p->s * eta);
    out.tangent = pair_complex(1, p->sign * p->s * slope / p->variance);
    const cplx l = log_ratio(m->pair, m->log_odds, point);
    out.u = m->pair->direction == ACCOUNT_ADD ? -times(z, l) : times(z + 1, l);
    if (p->two_sided) out.u -= times(z, log_ratio(m->pair, m->log_odds, -point));
    out.log_weight = times(point, point) * (-0.5 / p->variance);
    return out;
}

static void add_point(const contour_moment *m, const path *p, cplx z, double x, double scale, sums *out) {
    const spot here = spot_at(m, p, z, x);
    const cplx tangent = here.tangent, u = here.u, log_weight = here.log_weight;
    const cplx e = times(complex_exp(log_weight + u - scale), tangent);
    out->whole += e;
    out->whole_size += sqrt(square(e)) * (1 + fabs(cimag(u)));
    if (scale > 0) return;
    const cplx weight = times(complex_exp(log_weight), tangent);
    if (square(u) < 0.25) {
        const cplx term = times(weight, excess(u));
        out->excess += term;
        out->excess_size += sqrt(square(term));
    } else {
        out->excess += e - times(weight, 1 + u);
        out->excess_size += sqrt(square(e)) * (1 + fabs(cimag(u))) + sqrt(square(weight) * (1 + square(u)));
    }
}

void contour_moment_start(const account_pair *pair, contour_moment *out) {
    /* S = E[phi(l)], on the real line */
    const double step = fmin(0.4 * pair->sigma, 0.3 * pair->sigma * pair->sigma), reach = 15 * pair->sigma + 1;
    base_running sum = {0, 0};
    for (double k = floor(-reach / step); k * step <= reach; k++) {
        const double x = k * step, log_weight = -0.5 * (x / pair->sigma) * (x / pair->sigma);
        const double l = pair_log_ratio(pair, x);
        base_running_add(&sum, fabs(l) < 0.5 ? exp(log_weight) * creal(excess(l))
                                             : exp(log_weight + l) - exp(log_weight) * (1 + l));
    }
    *out = (contour_moment){pair, log(pair->probability) - log1p(-pair->probability),
                            base_running_value(&sum) * step / pair->sigma * one_over_sqrt_two_pi, 0.5, 0};
}

/* ln M from the sums, by the form that is rounded less. */
static cplx from_sums(const contour_moment *m, cplx z, double scale, double factor, const sums *sum, int whole_only,
                      double *error) {
    const double rounding = 4 * DBL_EPSILON;
    const cplx c = m->spread * (m->pair->direction == ACCOUNT_REMOVE ? z + 1
                                : m->pair->direction == ACCOUNT_ADD  ? -z
                                                                     : 1);
    const double excess_size = factor * sum->excess_size + cabs(c), whole_size = factor * sum->whole_size;
    if (scale > 0 || whole_only || !(excess_size < whole_size)) {
        const cplx whole = factor * sum->whole;
        *error = rounding * (whole_size / cabs(whole) + scale);
        return scale + clog(whole);
    }
    const cplx less_one = factor * sum->excess - c;
    *error = rounding * excess_size / cabs(1 + less_one);
    return complex_log1p(less_one);
}

/* Lowers the upper end in steps of sigma: past the last maximum, or over the valley before a jump that does not count. */
static void come_down(contour_moment *m, path *p, cplx z, double scale, pair_range *r) {
    const double keep = pair_kept(m->pair), least = scale - keep, sigma = m->pair->sigma;
    /* The Gaussian alone on the lifted path is e^-keep from here on, if the path stays below x. */
    const double alone = sqrt(2 * keep * p->variance + p->s * p->s);
    double high = r->step * (double)r->last;
    if (high < alone && alone < 3 * high) high = alone;
    p->whole_only = high < alone;
    while (high > sigma) {
        const spot here = spot_at(m, p, z, high - sigma);
        m->points++;
        if (!(creal(here.u + here.log_weight) < least)) break;
        if (creal(here.log_weight) + log1p(cabs(here.u)) > least + 8) p->whole_only = 1;
        high -= sigma;
    }
    r->last = (int64_t)ceil(high / r->step);
}

/* Halves the step until the value moves by less than 1e-8/n; convergence is geometric: about the square of that is left. */
double complex contour_moment_log(contour_moment *m, double complex z, double scale, double *error) {
    static const double moves = 1e-8;
    const account_pair *pair = m->pair;
    *error = INFINITY;
    if (!(scale > 50)) scale = 0; /* beyond e^50 the 1 in M - 1 has no digits left */
    pair_range r;
    if (!pair_find_range(pair, INFINITY, creal(z), m->fineness, &r)) return NAN;
    path p = choose_path(pair, m->log_odds, z);
    come_down(m, &p, z, scale, &r);
    sums sum = {0};
    cplx last = NAN;
    double fineness = m->fineness;
    for (int level = 0; level < 8 && r.last - r.first < POINTS_MAX; level++) {
        for (int64_t i = r.first; i <= r.last; i += level == 0 ? 1 : 2)
            add_point(m, &p, z, r.step * (double)i, scale, &sum);
        m->points += (r.last - r.first) / (level == 0 ? 1 : 2) + 1;
        const cplx value =
            from_sums(m, z, scale, r.step / pair->sigma * one_over_sqrt_two_pi, &sum, p.whole_only, error);
        const double moved = (double)pair->compositions * sqrt(square(value - last));
        if (moved < moves) {
            /* Start where this one began to agree, or before if it agreed far too well. */
            m->fineness = fmax(0.5, (moved < 1e-3 * moves ? 0.25 : 0.5) * fineness);
            return value;
        }
        last = value;
        r.step *= 0.5;
        fineness *= 2;
        r.first = 2 * r.first - 1; /* odd points only */
        r.last = 2 * r.last + 1;
    }
    *error = INFINITY;
    return NAN;
}
