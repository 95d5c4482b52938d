/* SPDX-License-Identifier: Apache-2.0 */
/*
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
#include "account/contour/contour.h"
#include "base/sum.h"

#include <float.h>
#include <math.h>

typedef double complex cplx;

static const double one_over_sqrt_two_pi = 0.39894228040143267794;
enum { POINTS_MAX = 1 << 16 };

static cplx complex_exp(cplx a) {
    const double size = exp(creal(a));
    return account_complex(size * cos(cimag(a)), size * sin(cimag(a)));
}

static cplx complex_expm1(cplx a) {
    const double half = sin(0.5 * cimag(a)), grown = expm1(creal(a));
    return account_complex(grown - 2 * half * half * (grown + 1), (grown + 1) * sin(cimag(a)));
}

static cplx complex_log1p(cplx a) {
    const double x = creal(a), y = cimag(a);
    return account_complex(0.5 * log1p(x * (2 + x) + y * y), atan2(y, 1 + x));
}

/* a b without the library's care for infinities */
static cplx times(cplx a, cplx b) {
    return account_complex(creal(a) * creal(b) - cimag(a) * cimag(b), creal(a) * cimag(b) + cimag(a) * creal(b));
}

static double square(cplx a) {
    return creal(a) * creal(a) + cimag(a) * cimag(a);
}

/* l along the path */
static cplx log_ratio(const account_pair *pair, double odds, cplx x) {
    const double q = pair->probability, variance = pair->sigma * pair->sigma;
    const cplx e = account_complex((creal(x) - 0.5) / variance, cimag(x) / variance);
    if (creal(e) + odds < 0) return complex_log1p(q * complex_expm1(e));
    const cplx rest = complex_log1p(complex_exp(account_complex(-creal(e) - odds, -cimag(e))));
    return account_complex(creal(e) + log(q) + creal(rest), cimag(e) + cimag(rest));
}

/* e^u - 1 - u for |u| < 1/2; of a small u fewer terms reach a rounding. */
static cplx excess(cplx u) {
    static const double inverse[] = {0,        1,        1 / 2.0,  1 / 3.0,  1 / 4.0,  1 / 5.0,
                                     1 / 6.0,  1 / 7.0,  1 / 8.0,  1 / 9.0,  1 / 10.0, 1 / 11.0,
                                     1 / 12.0, 1 / 13.0, 1 / 14.0, 1 / 15.0, 1 / 16.0};
    cplx sum = 0;
    for (int k = square(u) < 1e-4 ? 8 : 16; k >= 3; k--) {
        sum = times(sum + 1, u) * inverse[k];
    }
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
     * For small q the jump is far from the Gaussian's bulk, and a path that stays below 0.8 of the distance keeps the
     * Gaussian alone small on it: the sum for M - 1 remains of use. But only where that is high enough to make the
     * jump, at x = t + 1, negligible.
     */
    const double low = 0.8 * p.centre;
    if (p.centre > 6 * pair->sigma && s > low) {
        const double jump = (0.5 * ((t + 1) * (t + 1) + low * low) - s * low) / p.variance + (t + 1) * odds;
        if (jump < -20) p.s = low;
    }
    if (p.s > 2 * cap) p.centre += p.variance * log(p.s / cap - 1);
    return p;
}

static void lift(const path *p, double x, cplx *point, cplx *tangent) {
    const double r = 1 / (1 + exp(-(x - p->centre) / p->variance));
    double eta = r, slope = r * (1 - r);
    if (p->two_sided) {
        const double left = 1 / (1 + exp((x + p->centre) / p->variance));
        eta += left;
        slope -= left * (1 - left);
    }
    *point = account_complex(x, p->sign * p->s * eta);
    *tangent = account_complex(1, p->sign * p->s * slope / p->variance);
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
    lift(p, x, &point, &out.tangent);
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

/* S = E[phi(l)], on the real line */
static double find_spread(const account_pair *pair) {
    const double step = fmin(0.4 * pair->sigma, 0.3 * pair->sigma * pair->sigma), reach = 15 * pair->sigma + 1;
    base_running sum = {0, 0};
    for (double k = floor(-reach / step); k * step <= reach; k++) {
        const double x = k * step, log_weight = -0.5 * (x / pair->sigma) * (x / pair->sigma);
        const double l = pair_log_ratio(pair, x);
        base_running_add(&sum, fabs(l) < 0.5 ? exp(log_weight) * creal(excess(l))
                                             : exp(log_weight + l) - exp(log_weight) * (1 + l));
    }
    return base_running_value(&sum) * step / pair->sigma * one_over_sqrt_two_pi;
}

void contour_moment_start(const account_pair *pair, contour_moment *out) {
    *out = (contour_moment){pair, log(pair->probability) - log1p(-pair->probability), find_spread(pair), 0.5, 0};
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

/*
 * The upper end of the range comes down over what is too small, in steps of sigma: beyond the last maximum, or over the
 * valley before a jump that does not count.
 */
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

/*
 * The step is halved until the value moves by less than 1e-8/n; convergence is geometric, so that the square of it is
 * about what is left.
 */
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
        for (int64_t i = r.first; i <= r.last; i += level == 0 ? 1 : 2) {
            add_point(m, &p, z, r.step * (double)i, scale, &sum);
        }
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
