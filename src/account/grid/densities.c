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
    for (int k = 7; k >= 0; k--) {
        s = s * x + c[k];
    }
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

static void collect_bin(collector *c, const binning *b, const edge *lo, const bin *atoms) {
    const double next = 4 * atoms->drift * b->tilt_factor;
    const double wrap = c->s > 0 ? exp(c->s * lo->x) : 0;
    collect(c, 0, atoms->left, wrap);
    collect(c, 1, atoms->right + next * atoms->left, wrap * b->wrap_factor);
    collect(c, 2, next * atoms->right, wrap * b->wrap_factor * b->wrap_factor);
}

static double sum(int64_t count, const double *x) {
    base_running total = {0, 0};
    for (int64_t i = 0; i < count; i++) {
        base_running_add(&total, x[i]);
    }
    return base_running_value(&total);
}

static void finish_atoms(collector *c, const binning *b, int64_t bins, double reach, grid_moments *out) {
    const double u = GRID_ROUNDING;
    const double total = sum(c->length, c->weights);
    const double additions = 3 * ((double)bins / (double)c->length + 2); /* to one slot, at most */
    const double up = 1 + u * (8 + additions), lost = UNDERFLOW / fmin(total, 1);
    for (int64_t i = 0; i < c->length; i++) {
        c->weights[i] = c->weights[i] * (up / total) + lost;
    }
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
        collect_bin(&c, &b, &lo, &atoms);
        lo = hi;
        if (++c.slot == c.length) c.slot = 0;
        if ((i - first) % report == report - 1) {
            TRY(base_progress(run, "discretising a privacy loss", (double)(i - first) / (double)(last - first)));
        }
    }
    finish_atoms(&c, &b, last - first, fmax(fabs(low), fabs(high)) + 2 * h, out);
    return DPMF_OK;
}
