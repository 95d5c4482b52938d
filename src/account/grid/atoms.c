/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The discretised pair, tilted: connect the dots (Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022).
 *
 * Notation: grid x_i = i h; z_i the point of loss x_i; the bin i lies between z_i and z_{i+1}, rho is half its width;
 * f the density of N(0, sigma^2). Bin i becomes two atoms of P that keep its masses under P and under Q:
 *
 *     at x_{i+1}   r_i = int_bin (dP - e^(x_i) dQ) / (1 - e^-h)
 *     at x_i       l_i = int_bin (e^(x_{i+1}) dQ - dP) / (e^h - 1)
 *
 * e^-L becomes a random variable with the same conditional mean and more spread, and (1 - e^(eps - L))_+ is convex in
 * e^-L for any addition of the other steps to L: delta can only grow. It can also only grow when mass is added or moved
 * up, so that every error below is met by adding mass.
 *
 * Integrands without cancellation: dP - e^(x_i) dQ vanishes at z_i, so with d = |z - z_i|/sigma^2
 *
 *     remove   q w(z_i) (e^d - 1) f
 *     replace  q w(z_i) (e^d - 1) f + q e^(x_i) w(-z_i) (1 - e^-d) f
 *     add      q e^(x_i) w(z_i) (1 - e^-d) f
 *
 * and e^(x_{i+1}) dQ - dP is the same from z_{i+1}, with e^d - 1 and 1 - e^-d exchanged: positive terms all. Where the
 * range of losses was cut, the end of the bin is not at a grid point and a constant times f comes to them, G f below.
 *
 * Quadrature: Gauss-Legendre. On a panel z = c + rho y, |y| <= 1, the integrand is at most, coefficient by coefficient
 * in y, a constant times (1+y) exp(b y + g y^2/2), b = rho (|c|+1)/sigma^2, g = (rho/sigma)^2. With theta = max(b, sqrt
 * g), the coefficients of exp(b y + g y^2/2) are at most theta^k I_k/k!, I_k the number of involutions of k things; m
 * nodes are exact to degree 2m-1, miss y^2m by 2^(2m+1) m!^4/((2m+1) (2m)!^2), and odd powers not at all. So the
 * relative error is 2.7e-4 theta^7 for m = 4 and 1.8e-10 theta^15 for m = 8 to leading order: below 1e-15 for theta up
 * to NARROW and WIDE. Wide bins are cut into panels.
 *
 * Rounding: u = 2^-53. (1) An exponential of a sum of terms is off by u times their absolute sum; a weight is raised by
 * four times that and by 60 u for the rest. (2) The loss at the computed z_i is off by an e with e/h <= `drift` below
 * (see account/pair.c); the atom that was meant for x_i + e is, again by connecting the dots, at most the atom at
 * x_i and e/h (1+h) times it at x_{i+1}; and h in the denominators is off by at most 2e. Both are met by adding 4 drift
 * times the atom at the next grid point. (3) Numbers below 1e-308 are lost or lose digits; UNDERFLOW is added everywhere.
 */
#include "account/grid/grid.h"

#include "base/memory.h"
#include "base/special.h"
#include "base/sum.h"

#include <assert.h>
#include <math.h>

static const double log_sqrt_two_pi = 0.91893853320467274178;
static const double NARROW = 0.023, WIDE = 0.44;
static const double UNDERFLOW = 1e-290; /* more than all that underflow takes from the atoms of one slot */
static const double QUADRATURE = 3e-15; /* twice 1e-15, and the polynomials' error */

static const double nodes4[4] = {-0.86113631159405257522, -0.3399810435848562648, 0.3399810435848562648,
                                 0.86113631159405257522};
static const double weights4[4] = {0.34785484513745385737, 0.65214515486254614263, 0.65214515486254614263,
                                   0.34785484513745385737};
static const double nodes8[8] = {-0.96028985649753623168, -0.79666647741362673959, -0.52553240991632898582,
                                 -0.18343464249564980494, 0.18343464249564980494,  0.52553240991632898582,
                                 0.79666647741362673959,  0.96028985649753623168};
static const double weights8[8] = {0.10122853629037625915, 0.22238103445337447054, 0.31370664587788728734,
                                   0.36268378337836198297, 0.36268378337836198297, 0.31370664587788728734,
                                   0.22238103445337447054, 0.10122853629037625915};

/* One end of a bin. The factors of the integrand are e^base times u, v, g; base is the largest logarithm. */
typedef struct edge {
    double x, z;
    double base;
    double grow, shrink, constant; /* the factors of e^d - 1 going up in loss, of 1 - e^-d, and of f alone */
} edge;

typedef struct bin {
    double left, right; /* tilted: l e^(t x_i - log_moment), r e^(t x_{i+1} - log_moment) */
    double drift;
} bin;

typedef struct binning {
    const pair_constants *p;
    double h, t, log_moment;
    double z_min, z_max;
    double log_density;              /* of N(0, sigma^2) at 0 */
    double log_grow, log_shrink;     /* ln(e^h - 1), ln(1 - e^-h) */
    double tilt_factor, wrap_factor; /* e^(t h), e^(s h) */
} binning;

/* At a grid point, or at a cut, z, where log_constant is the logarithm of the integrand that is left there over f. */
static edge edge_at(const pair_constants *p, double x, double z, double log_constant) {
    edge e = {.x = x, .z = z};
    const double log_up = p->log_q + (z - 0.5) * p->inverse_variance;
    if (p->direction == ACCOUNT_REMOVE) {
        e.base = log_up;
        e.grow = 1;
    } else if (p->direction == ACCOUNT_ADD) {
        e.base = x + log_up;
        e.shrink = 1;
    } else {
        const double log_down = x + p->log_q - (z + 0.5) * p->inverse_variance;
        e.base = fmax(log_up, log_down);
        e.grow = exp(log_up - e.base);
        e.shrink = exp(log_down - e.base);
    }
    if (log_constant > -INFINITY) {
        const double base = fmax(e.base, log_constant);
        e.grow *= exp(e.base - base);
        e.shrink *= exp(e.base - base);
        e.constant = exp(log_constant - base);
        e.base = base;
    }
    return e;
}

/* Within the range: where a cut is at a grid point but for rounding, the bin between them is empty. */
static edge grid_edge(const binning *b, int64_t i) {
    const double x = (double)i * b->h, z = pair_inverse(b->p, x);
    return edge_at(b->p, x, fmin(fmax(z, b->z_min), b->z_max), -INFINITY);
}

/* e^x - 1, |x| <= 0.1: what the series leaves out is below 1e-17 of it. */
static inline double small_expm1(double x) {
    static const double c[9] = {1.0,       1.0 / 2,    1.0 / 6,     1.0 / 24,    1.0 / 120,
                                1.0 / 720, 1.0 / 5040, 1.0 / 40320, 1.0 / 362880};
    double s = c[8];
    for (int k = 7; k >= 0; k--)
        s = s * x + c[k];
    return s * x;
}

/* Narrow bin between grid points: four nodes, no exponentials but for the size of the whole. */
static void narrow_integrals(const binning *b, const edge *lo, const edge *hi, double rho, double *right,
                             double *left) {
    const pair_constants *p = b->p;
    const double c = 0.5 * (lo->z + hi->z);
    const double a = rho * p->inverse_variance, slope = -p->sign * c * a, bend = -0.5 * rho * a;
    double grow[4], shrink[4], r = 0, l = 0;
    for (int k = 0; k < 4; k++) {
        grow[k] = small_expm1(a * (1 + nodes4[k]));
        shrink[k] = grow[k] / (1 + grow[k]);
    }
    for (int k = 0; k < 4; k++) {
        const double y = nodes4[k];
        const double f = weights4[k] * (1 + small_expm1(y * (slope + bend * y)));
        r += f * (lo->grow * grow[k] + lo->shrink * shrink[k]);
        l += f * (hi->grow * shrink[3 - k] + hi->shrink * grow[3 - k]);
    }
    const double common = b->log_density - 0.5 * c * c * p->inverse_variance - b->log_moment;
    *right = rho * r * exp(common + lo->base + b->t * hi->x - b->log_shrink);
    *left = rho * l * exp(common + hi->base + b->t * lo->x - b->log_grow);
}

/* e^s (grow (e^d - 1) + shrink (1 - e^-d) + constant), d >= 0, where e^d may overflow and e^s be tiny. */
static double scaled_term(double s, double d, double grow, double shrink, double constant) {
    const double down = -expm1(-d);
    double sum = exp(s) * (shrink * down + constant);
    if (grow > 0 && down > 0) sum += grow * exp(s + d) * down;
    return sum;
}

/* Any bin: panels of eight nodes. */
static void wide_integrals(const binning *b, const edge *lo, const edge *hi, double *right, double *left) {
    const pair_constants *p = b->p;
    const double iv = p->inverse_variance, whole = fabs(hi->z - lo->z);
    double done = 0, r = 0, l = 0;
    while (done < whole) {
        const double z = lo->z + p->sign * done;
        /* |c| <= |z| + 2 rho, and rho <= 0.44 sigma: so that rho (|c|+1)/sigma^2 <= WIDE */
        const double most = WIDE / ((fabs(z) + 1 + 0.9 * p->sigma) * iv);
        const double rho = fmin(0.5 * (whole - done), fmin(most, WIDE * p->sigma));
        for (int k = 0; k < 8; k++) {
            const double from_lo = fmin(done + rho * (1 + nodes8[k]), whole), from_hi = whole - from_lo;
            const double at = lo->z + p->sign * from_lo;
            const double common = b->log_density - 0.5 * at * at * iv - b->log_moment;
            const double f = rho * weights8[k];
            r += f * scaled_term(common + lo->base + b->t * hi->x - b->log_shrink, from_lo * iv, lo->grow, lo->shrink,
                                 lo->constant);
            l += f * scaled_term(common + hi->base + b->t * lo->x - b->log_grow, from_hi * iv, hi->shrink, hi->grow,
                                 hi->constant);
        }
        if (!(done + 2 * rho > done)) break; /* a bin so thin that its ends are neighbouring numbers */
        done += 2 * rho;
    }
    *right = r;
    *left = l;
}

static bin integrate_bin(const binning *b, const edge *lo, const edge *hi) {
    const pair_constants *p = b->p;
    const double u = GRID_ROUNDING, iv = p->inverse_variance;
    const double rho = 0.5 * fabs(hi->z - lo->z), z = fmax(fabs(lo->z), fabs(hi->z));
    const double theta = fmax(rho * (z + 1) * iv, rho / p->sigma);
    bin out = {0};
    if (rho == 0) return out;
    if (theta <= NARROW && lo->constant == 0 && hi->constant == 0) {
        narrow_integrals(b, lo, hi, rho, &out.right, &out.left);
    } else {
        wide_integrals(b, lo, hi, &out.right, &out.left);
    }
    const double x = fabs(lo->x) + b->h;
    const double exponents = z * z * iv + fabs(lo->base) + fabs(hi->base) + b->t * x + fabs(b->log_moment) +
                             fabs(b->log_density) + fabs(b->log_grow) + fabs(b->log_shrink) + 2 * rho * iv;
    const double up = 1 + QUADRATURE + u * (60 + 4 * exponents);
    out.left *= up;
    out.right *= up;
    out.drift = u * (p->edge_error * x / b->h + 2 * (z + 1) / rho + 4 * rho * iv);
    return out;
}

/* The ends of the range, with the integrands that are left there. */
static edge low_end(const binning *b, int64_t i, double z, double loss) {
    const double x = (double)i * b->h, gap = loss - x;
    const double log_constant = gap > 0 ? pair_log_weight(b->p, z) + log(-expm1(-gap)) : -INFINITY;
    return edge_at(b->p, x, z, log_constant);
}

static edge high_end(const binning *b, int64_t i, double z, double loss) {
    const double x = (double)i * b->h, gap = x - loss;
    const double log_constant = gap > 0 ? pair_log_weight(b->p, z) + log(expm1(gap)) : -INFINITY;
    return edge_at(b->p, x, z, log_constant);
}

/* Atoms into the folded array, and into the sum for the wrap. */
typedef struct collector {
    int64_t length, slot; /* slot: of the bin's lower grid point */
    double *weights;
    double s;
    base_running wrap; /* sum of weight e^(s x) */
} collector;

static void collect(collector *c, int ahead, double weight, double wrap_factor) {
    int64_t slot = c->slot + ahead;
    if (slot >= c->length) slot -= c->length;
    c->weights[slot] += weight;
    if (wrap_factor > 0) base_running_add(&c->wrap, weight * wrap_factor);
}

static double sum(int64_t count, const double *x) {
    base_running total = {0, 0};
    for (int64_t i = 0; i < count; i++)
        base_running_add(&total, x[i]);
    return base_running_value(&total);
}

static void finish_atoms(collector *c, const binning *b, int64_t bins, double reach, grid_moments *out) {
    const double u = GRID_ROUNDING;
    const double total = sum(c->length, c->weights);
    const double additions = 3 * ((double)bins / (double)c->length + 2); /* to one slot, at most */
    const double up = 1 + u * (8 + additions), lost = UNDERFLOW / fmin(total, 1);
    for (int64_t i = 0; i < c->length; i++)
        c->weights[i] = c->weights[i] * (up / total) + lost;
    out->log_sum = 2 * u * (8 + additions) + 1e-15;
    const double log_total = log(total);
    out->log_moment = b->log_moment + log_total;
    out->log_moment += 4 * u * (fabs(b->log_moment) + fabs(log_total) + 1);
    out->log_wrap = 0;
    /* 1e-14: of the sums and the logarithm */
    if (c->s > 0) out->log_wrap = log(base_running_value(&c->wrap) / total) + 1e-14 + 4 * u * c->s * reach;
}

dpmf_status grid_densities(const pair_constants *p, const grid_plan *plan, const dpmf_run *run, double *weights,
                           grid_moments *out) {
    static const int64_t report = 1 << 16;
    const double h = plan->step;
    assert(h > 0 && plan->order >= 0 && plan->wrap_order >= 0 && plan->length >= 64);
    assert(p->sign * (plan->z_high - plan->z_low) > 0);
    binning b = {.p = p, .h = h, .t = plan->order, .log_moment = plan->log_moment};
    b.z_min = fmin(plan->z_low, plan->z_high);
    b.z_max = fmax(plan->z_low, plan->z_high);
    b.log_density = -log_sqrt_two_pi - log(p->sigma);
    b.log_grow = log(expm1(h));
    b.log_shrink = log(-expm1(-h));
    b.tilt_factor = exp(plan->order * h);
    b.wrap_factor = exp(plan->wrap_order * h);
    const double low = pair_loss(p, plan->z_low), high = pair_loss(p, plan->z_high);
    const int64_t first = (int64_t)floor(low / h), last = (int64_t)fmax(ceil(high / h), (double)first + 1);
    collector c = {.length = plan->length, .slot = first % plan->length, .weights = weights, .s = plan->wrap_order};
    if (c.slot < 0) c.slot += c.length;

    edge lo = low_end(&b, first, plan->z_low, low);
    const double below = pair_log_below(p, plan->z_low) + b.t * (lo.x + h) - b.log_moment;
    /* 1e-12: of the logarithm of the tail */
    collect(&c, 1, exp(below) * (1 + 1e-12), c.s > 0 ? exp(c.s * (lo.x + h)) : 0);
    for (int64_t i = first; i < last; i++) {
        const edge hi = i + 1 < last ? grid_edge(&b, i + 1) : high_end(&b, last, plan->z_high, high);
        const bin atoms = integrate_bin(&b, &lo, &hi);
        const double next = 4 * atoms.drift * b.tilt_factor;
        const double wrap = c.s > 0 ? exp(c.s * lo.x) : 0;
        collect(&c, 0, atoms.left, wrap);
        collect(&c, 1, atoms.right + next * atoms.left, wrap * b.wrap_factor);
        collect(&c, 2, next * atoms.right, wrap * b.wrap_factor * b.wrap_factor);
        lo = hi;
        if (++c.slot == c.length) c.slot = 0;
        if ((i - first) % report == report - 1)
            TRY(base_progress(run, "discretising a privacy loss", (double)(i - first) / (double)(last - first)));
    }
    finish_atoms(&c, &b, last - first, fmax(fabs(low), fabs(high)) + 2 * h, out);
    return DPMF_OK;
}

/*
 * ---- a curve by its convex hull ----
 *
 * A pair on a grid of losses, from its curve: the dots connected.
 *
 * Notation: a_i = e^(i g); r_i >= h(a_i) and s_i >= h'(a_i) the bounds for (P, Q) and (Q, P), i = 0 ... m.
 *
 * A measure on losses dominates (P, Q) when its curve sum_i p_i (1 - a e^-x_i)_+ is at least h(a) for every a >= 0: then
 * any composition with it has at least the delta of the true one, since with all other losses held fixed the payoff
 * (1 - e^(eps - L - L'))_+ is one of these functions of L. The measure need not have mass 1; adding mass to it keeps it
 * dominating.
 *
 * The lower convex hull of the points (a_i, r_i) is the largest convex function that lies below them at these a; h is
 * convex and lies below them, so h <= hull. Its kinks are the atoms: with c_i its slope after a_i,
 *
 *     p_i = a_i (c_i - c_{i-1})   at the loss i g > 0,        infinite loss: r_m, as h falls.
 *
 * Below a = 1 the curve is 1 - a + a h'(1/a), and a kink of h' at a_i with slopes d_{i-1}, d_i gives p = d_i - d_{i-1} at
 * the loss -i g: no subtraction from 1, so that masses keep their relative accuracy on both sides. At 0,
 *
 *     p_0 = c_0 + d_0 + 1 - v,    v = the total variation, the least of r_0 and s_0.
 *
 * Rounding: neighbouring values, and neighbouring slopes, are mostly within a factor of 2, where subtraction is exact
 * (Sterbenz); elsewhere it rounds once. A slope is off by 3 u of itself, so that p_i is raised by 8 u a_i |c_{i-1}|.
 * e^(i g) is a rounding away from the computed a_i, that is the loss by u: account/grid/grid.c raises epsilon by that
 * much per step. Values that are not numbers give an infinite mass.
 */

enum { POINTS_MAX = 1 << 20 };

/* The hull of the points (a_i, values[i]), i <= last: kinks[k] its corners, in order; returns how many. */
static int64_t hull(int64_t last, const double *a, const double *values, int64_t *kinks) {
    int64_t count = 0;
    for (int64_t i = 0; i <= last; i++) {
        while (count >= 2) {
            const int64_t j = kinks[count - 1], k = kinks[count - 2];
            if ((values[j] - values[k]) / (a[j] - a[k]) < (values[i] - values[j]) / (a[i] - a[j])) break;
            count--;
        }
        kinks[count++] = i;
    }
    return count;
}

/* Adds the masses of the losses i > 0 steps to mass[i stride], or, `mirrored`, those of -i; returns the slope after a_0. */
static double place(int64_t last, const double *a, const double *values, int64_t *kinks, int mirrored, double *mass) {
    const int64_t count = hull(last, a, values, kinks);
    double before = 0, first = 0;
    for (int64_t k = 0; k < count; k++) {
        const int64_t i = kinks[k];
        double slope = 0; /* after the last point the curve is taken as constant */
        if (k + 1 < count) slope = (values[kinks[k + 1]] - values[i]) / (a[kinks[k + 1]] - a[i]);
        slope = fmin(slope, 0);
        if (k == 0) {
            first = slope;
        } else {
            const double kink = fmax(slope - before, 0) + 8 * GRID_ROUNDING * fabs(before);
            mass[mirrored ? -i : i] += mirrored ? kink : a[i] * kink;
        }
        before = slope;
    }
    return first;
}

typedef struct side {
    int64_t last;
    double *values;
} side;

static dpmf_status fill_side(const grid_part *part, int reversed, double step, double mass, const dpmf_run *run,
                             side *out) {
    enum { LONGER = 4 }; /* times that the reach may be too short */
    double reach = part->reach(part->of, reversed, mass), *values = NULL;
    if (!(reach >= 0)) reach = 0;
    for (int i = 0;; i++, reach *= 1.4) {
        const int64_t last = (int64_t)fmin(ceil(reach / step) + 1, POINTS_MAX);
        TRY(base_alloc_doubles(last + 1, "a privacy curve", &values));
        const dpmf_status status = part->fill(part->of, reversed, last + 1, step, mass, run, values);
        if (status != DPMF_OK) {
            base_free(values);
            return status;
        }
        /* A curve falls, and lies between 0 and 1; what is not a number is 1. */
        for (int64_t k = 0; k <= last; k++) {
            if (!(values[k] >= 0 && values[k] <= 1)) values[k] = 1;
            if (k > 0) values[k] = fmin(values[k], values[k - 1]);
        }
        if (values[last] <= 4 * mass || i == LONGER || last == POINTS_MAX) {
            int64_t end = last; /* a constant end has no atoms */
            while (end > 1 && values[end - 1] == values[last])
                end--;
            *out = (side){end, values};
            return DPMF_OK;
        }
        base_free(values);
    }
}

dpmf_status grid_atoms_create(const grid_part *part, int reversed, double step, double mass, const dpmf_run *run,
                              grid_atoms *out) {
    side up = {0, NULL}, down = {0, NULL};
    grid_atoms a = {.times = (double)part->times};
    int64_t *kinks = NULL;
    double *points = NULL;
    dpmf_status status = DPMF_OK;
    assert(step > 0 && part->times >= 1);
    TRY_DONE(fill_side(part, reversed, step, mass, run, &up));
    TRY_DONE(fill_side(part, !reversed, step, mass, run, &down));
    a.first = -down.last;
    a.count = down.last + up.last + 1;
    TRY_DONE(base_alloc_doubles(a.count, "a privacy loss on a grid", &a.mass));
    const int64_t most = up.last > down.last ? up.last : down.last;
    TRY_DONE(base_alloc(most + 1, sizeof *kinks, "the corners of a curve", (void **)&kinks));
    TRY_DONE(base_alloc_doubles(most + 1, "the points of a curve", &points));
    for (int64_t i = 0; i <= most; i++)
        points[i] = exp((double)i * step);
    up.values[0] = down.values[0] = fmin(up.values[0], down.values[0]);
    const double variation = up.values[0];
    for (int64_t i = 1; i <= up.last; i++)
        up.values[i] = fmin(up.values[i], variation);
    for (int64_t i = 1; i <= down.last; i++)
        down.values[i] = fmin(down.values[i], variation);
    double *zero = a.mass - a.first;
    const double right = place(up.last, points, up.values, kinks, 0, zero);
    const double left = place(down.last, points, down.values, kinks, 1, zero);
    *zero += fmax(right + left + (1 - variation), 0) + 8 * GRID_ROUNDING;
    a.infinite = up.values[up.last];
    *out = a;
    a.mass = NULL;
done:
    base_free(up.values);
    base_free(down.values);
    base_free(kinks);
    base_free(points);
    base_free(a.mass);
    return status;
}

void grid_atoms_free(grid_atoms *atoms) {
    base_free(atoms->mass);
    atoms->mass = NULL;
}

/*
 * ---- curves of Gaussian pairs ----
 *
 * Curves of Gaussian pairs, as the parts of a list: bounds from above, near to the last digits.
 *
 * Notation: H(a) = H(a; mu) = Phi(-x) - a Phi(-y), x = (ln a)/mu - mu/2, y = x + mu: the curve of N(mu) against N(0). For the
 * Poisson-subsampled Gaussian, M = (1-q) N(0) + q N(mu),
 *
 *     M against N(0):   q H(1 + (a-1)/q),
 *     N(0) against M:   (1 - a(1-q)) H(a q/(1 - a(1-q))) while a (1-q) < 1, and 0 from there on,
 *
 * by dP - a dM = (1-a(1-q)) dN(0) - a q dN(mu). Both are products of positive numbers. Under replacement, with mixtures of
 * N(-mu), N(0), N(mu), the set where dP > a dQ is again a half-line, {z < -y} say, and
 *
 *     q Phi(y) - (a-1)(1-q) Phi(y - mu) - a q Phi(y - 2 mu),    e^(-mu y) the root of a quadratic equation.
 *
 * Any half-line gives a lower value than the best one, so rounding of y could only lower it, to second order; 64 u of the terms
 * (1 + y^2) is added for all roundings: Phi of a rounded argument is off by about u (1 + y^2) of itself.
 *
 * H directly loses the digits in which its two terms agree; 16 u of the terms, and of (|x| + |y|) phi(x), which is what the
 * roundings of x and y make, is added. Where that is more than 1e-10 of H, the integral of account/gaussian.c is taken.
 */

static const double SQRT_TWO_PI = 2.50662827463100050242;

double grid_hockey(double mu, double a) {
    const double u = GRID_ROUNDING;
    assert(a >= 1 && mu >= 0);
    if (mu == 0) return 0;
    if (!isfinite(a)) return 0;
    const double log_a = log(a), x = log_a / mu - 0.5 * mu, y = x + mu;
    const double first = base_normal_cdf(-x), second = a * base_normal_cdf(-y);
    const double error = 16 * u * (first + second) + 16 * u * (1 + fabs(x) + fabs(y)) * exp(-0.5 * x * x) / SQRT_TWO_PI;
    const double value = first - second;
    if (error <= 1e-10 * value) return value + error;
    const double log_delta = account_gaussian_log_delta(mu, log_a);
    /* ln a is a rounding away: x, and with it ln delta, by u (|x| + 1) times the slope. */
    return exp(log_delta) * (1 + 1e-13 * (1 + fabs(log_delta))) + 1e-305;
}

static dpmf_status gaussian_fill(const void *of, int reversed, int64_t count, double step, double mass,
                                 const dpmf_run *run, double *out) {
    const grid_gaussian *g = of;
    (void)reversed;
    (void)run;
    (void)mass;
    for (int64_t i = 0; i < count; i++)
        out[i] = grid_hockey(g->mu, exp((double)i * step));
    return DPMF_OK;
}

static double gaussian_reach(const void *of, int reversed, double mass) {
    const grid_gaussian *g = of;
    (void)reversed;
    return account_gaussian_epsilon(g->mu, log(mass));
}

grid_part grid_gaussian_part(const grid_gaussian *gaussian, int64_t times) {
    return (grid_part){gaussian, gaussian_fill, gaussian_reach, times};
}

double grid_poisson_remove(double q, double mu, double less_one) {
    return q * grid_hockey(mu, 1 + less_one / q) * (1 + 1e-15);
}

double grid_poisson_add(double q, double mu, double less_one) {
    const double rest = q - less_one * (1 - q); /* 1 - a(1-q) */
    if (!(rest > 0)) return 0;
    /* a q / rest = 1 + (a-1)/rest */
    return rest * grid_hockey(mu, 1 + less_one / rest) * (1 + 1e-15) + 8 * GRID_ROUNDING * q;
}

double grid_poisson_replace(double q, double mu, double less_one) {
    const double a = 1 + less_one;
    /* With E = e^(-mu y): q = (a-1)(1-q) e^(-mu^2/2) / E + a q e^(-2 mu^2) / E^2, where densities are over that at y. */
    const double b = less_one * (1 - q) / q * exp(-0.5 * mu * mu), c = a * exp(-2 * mu * mu);
    const double y = -log(0.5 * (b + sqrt(b * b + 4 * c))) / mu;
    const double first = q * base_normal_cdf(y), second = less_one * (1 - q) * base_normal_cdf(y - mu);
    const double third = a * q * base_normal_cdf(y - 2 * mu);
    const double error = 64 * GRID_ROUNDING * (1 + y * y + mu * mu) * (first + second + third);
    return fmax(first - second - third, 0) + error;
}

static dpmf_status poisson_fill(const void *of, int reversed, int64_t count, double step, double mass,
                                const dpmf_run *run, double *out) {
    const grid_poisson *p = of;
    (void)run;
    (void)mass;
    for (int64_t i = 0; i < count; i++) {
        const double less_one = expm1((double)i * step);
        if (p->replace)
            out[i] = grid_poisson_replace(p->q, p->mu, less_one);
        else
            out[i] = (reversed ? grid_poisson_add : grid_poisson_remove)(p->q, p->mu, less_one);
    }
    return DPMF_OK;
}

double grid_poisson_reach(double q, double mu, int reversed, double mass) {
    if (mass >= q) return 0;
    const double far = log1p(q * expm1(fmin(account_gaussian_epsilon(mu, log(mass / q)), 700)));
    return reversed && q < 1 ? fmin(far, -log1p(-q)) : far;
}

static double poisson_reach(const void *of, int reversed, double mass) {
    const grid_poisson *p = of;
    if (p->replace) return grid_poisson_reach(p->q, 2 * p->mu, 0, mass);
    return grid_poisson_reach(p->q, p->mu, reversed, mass);
}

grid_part grid_poisson_part(const grid_poisson *poisson, int64_t times) {
    return (grid_part){poisson, poisson_fill, poisson_reach, times};
}
