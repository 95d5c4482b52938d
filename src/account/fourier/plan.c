/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choices of the Fourier sum. Every choice gives a bound; these give one that is tight at little cost.
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
 * Number. As many nodes as make the rest of the sum, by the bound below, such a part.
 *
 * Tolerance. 1e-9, or where that would be much work as much as the slack allows. Where the sum takes more work than
 * connecting the dots, it is left to that method.
 */

#include "account/fourier/fourier.h"
#include "account/saddle.h"

#include <math.h>

static const double PI = 3.14159265358979323846;

/* ---- how fast the terms fall ---- */

/*
 * How fast the characteristic function of one tilted step falls, proven for all frequencies at once.
 *
 * Notation: p(x) = f(x) e^u(x) / M(t) the tilted density of the point observed, L(x) the loss, phi(y) = M(t + iy)/M(t)
 * its characteristic function, rho(l) = p/|L'| the density of the loss.
 *
 * On disjoint intervals of width w_j let c_j be at most rho. Then rho is c_j 1_j, summed, and a measure that is left,
 * and the uniform parts have the characteristic functions c_j w_j e^(...) sin(y w_j/2)/(y w_j/2):
 *
 *     |phi(y)| <= 1 - sum_j c_j w_j (1 - |sin v_j / v_j|),    v_j = y w_j/2.
 *
 * |sin v/v| falls until its first zero, pi, and is at most 0.2173 and at most 1/v beyond. So the bound at y, with the
 * largest |sin v/v| from there on, holds for everything beyond y too, where no quadrature looks.
 *
 * Where outcomes are apart (account/pair.h) p is 0. Cells are intervals of x, since L is monotone there: c_j is the least f
 * times the least e^u over the largest |L'|, all at ends (u is monotone; L' = r/sigma^2 with r of account/pair.c for remove
 * and add, (r + r-)/sigma^2 for replace, r rises and r- falls). Wide cells see low frequencies, narrow ones lose less of
 * the mass: of some families of cells the best counts. Where the loss is near Gaussian a cell of 3.5 standard deviations
 * about its mean gives 0.3 of the exponent y^2/2 that there is.
 */

static const double log_sqrt_two_pi = 0.91893853320467274178;
static const double ROOM = 1e-9; /* for the roundings of a bound that need not be tight */

typedef struct place {
    double loss, exponent; /* L and u of the order t */
} place;

static place place_at(const account_pair *pair, double t, double x) {
    const double l = pair_log_ratio(pair, x);
    if (pair->direction == ACCOUNT_ADD) return (place){-l, -t * l};
    if (pair->direction == ACCOUNT_REMOVE) return (place){l, (t + 1) * l};
    const double mirrored = pair_log_ratio(pair, -x);
    return (place){l - mirrored, (t + 1) * l - t * mirrored};
}

static double logistic(const account_pair *pair, double x) {
    const double q = pair->probability;
    return 1 / (1 + exp(-(x - 0.5) / (pair->sigma * pair->sigma) - log(q) + log1p(-q)));
}

/* c w of the cell from x to y; *width: w. */
static double cell_mass(const account_pair *pair, double cut, double t, double log_moment, double x, double y,
                        double *width) {
    const place a = place_at(pair, t, x), b = place_at(pair, t, y);
    const double variance = pair->sigma * pair->sigma, far = fmax(fabs(x), fabs(y));
    double steepest = logistic(pair, y);
    if (pair->direction == ACCOUNT_REPLACE) steepest += logistic(pair, -x);
    *width = fabs(b.loss - a.loss) * (1 - ROOM);
    if (!(steepest > 1e-290 && *width > 0)) return 0;
    if (pair_is_apart(pair, cut, x) || pair_is_apart(pair, cut, y)) return 0;
    const double log_least =
        fmin(a.exponent, b.exponent) - 0.5 * far * far / variance - log_sqrt_two_pi - log(pair->sigma) - log_moment;
    return exp(log_least) * *width / (steepest / variance) * (1 - ROOM);
}

/* The x of the largest p, and where it is e^-12 of that. */
static void find_bulk(const account_pair *pair, double cut, double t, double *low, double *peak, double *high) {
    const double keep = 12, step = 0.25 * pair->sigma;
    const double reach = sqrt(2 * pair_kept(pair)) * pair->sigma;
    const double most = pair->direction == ACCOUNT_REPLACE ? 2 * t + 1 : t + 1;
    const double first = pair->direction == ACCOUNT_ADD ? -fmin(t, 1e3 * pair->sigma) - reach : -reach;
    const double last = pair->direction == ACCOUNT_ADD ? reach : fmin(most, 1e3 * pair->sigma) + reach;
    double largest = -INFINITY;
    *low = *peak = *high = 0;
    for (int pass = 0; pass < 2; pass++) {
        int seen = 0;
        for (double x = first; x <= fmin(last, cut); x += step) {
            const double z = x / pair->sigma, size = place_at(pair, t, x).exponent - 0.5 * z * z;
            if (pass == 0 && size > largest) {
                largest = size;
                *peak = x;
            }
            if (pass == 0 || size < largest - keep) continue;
            if (!seen) *low = x;
            seen = 1;
            *high = x;
        }
    }
}

void fourier_decay_fill(const account_pair *pair, double cut, double t, double log_moment, fourier_decay *out) {
    enum { FAMILIES = 6 };
    static const double widths[FAMILIES] = {3.5, 2.5, 1.75, 1, 0.5, 0.25}; /* in sigma */
    double low, peak, high;
    int count = 0;
    find_bulk(pair, cut, t, &low, &peak, &high);
    for (int i = 0; i < FAMILIES; i++) {
        const double width = widths[i] * pair->sigma, first = peak - width * (0.5 + floor((peak - low) / width));
        for (double x = first; x < high && count < FOURIER_CELLS; x += width) {
            out->mass[count] = cell_mass(pair, cut, t, log_moment, x, x + width, &out->width[count]);
            count++;
        }
        out->ends[i] = count;
    }
    out->families = FAMILIES;
}

/* 1 - the largest |sin u/u| for u >= v */
static double least_loss(double v) {
    static const double second_peak = 0.2173;         /* of |sin u/u|, at u = 4.4934 */
    if (v < 0.1) return v * v / 6 * (1 - v * v / 20); /* the next term of the series is positive */
    if (v < PI) return 1 - fmax(sin(v) / v, second_peak);
    return 1 - fmin(1 / v, second_peak);
}

double fourier_decay_from(const fourier_decay *decay, double y) {
    double best = 0;
    for (int i = 0, j = 0; i < decay->families; i++) {
        double sum = 0;
        for (; j < decay->ends[i]; j++) {
            sum += decay->mass[j] * least_loss(0.5 * y * decay->width[j]);
        }
        best = fmax(best, sum);
    }
    return best * (1 - ROOM);
}

/* ---- the choices ---- */

static const double FINE = 1e-9, COARSE = 0.02,
                    COARSE_CUT = 0.15; /* tolerances: a part of delta; parts of what the slack does to it */

static const double BEYOND = 1.5; /* how far beyond the saddle point aliases are looked for, about */
/* What a quadrature misses at a cut, about: such a part of the integrand there. */
static const double PART_OF_STEP = 0.03;

/* Number of nodes times points: some 3 ns each. What the grid of the other method costs grows like sqrt n. */
static const double WORK_FINE = 1 << 18, WORK_LEAST = 1 << 22, WORK_MOST = 1 << 24;

enum { POINTS_MAX = 4096 }; /* for a quadrature at y = 0: orders that high are never used */

static double work_limit(const account_pair *pair) {
    return fmin(WORK_MOST, WORK_LEAST * fmax(1, sqrt((double)pair->compositions / 1e4)));
}

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
static double period_at(const aim *a, double t, int side, double s, fourier_alias *out) {
    const double r = t + side * s;
    if (!(r > 0)) return INFINITY;
    const account_cumulant k = pair_cumulant(a->pair, a->cut, r, 1);
    if (!isfinite(k.error)) return INFINITY;
    const double edge = isinf(a->cut) ? 0 : PART_OF_STEP * exp(fmin(log_at_cut(a, r), 600)); /* account/pair.c */
    *out = (fourier_alias){a->n * (k.value + k.error) + edge - log1p(r), r};
    return (out->log_factor - r * a->epsilon - a->log_delta - log(a->tolerance)) / s;
}

/* The best of some s, from where it is best for a Gaussian on as long as it gets better. */
static double find_period(const aim *a, double t, double deviation, int side, fourier_alias *out) {
    double start = 5 / deviation, best;
    if (side < 0) start = fmin(start, 0.75 * t);
    best = period_at(a, t, side, start, out);
    for (int up = 0; up < 2; up++) {
        double s = start;
        for (int i = 0; i < 20; i++) {
            fourier_alias there = {0, 0};
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
static int plan_at(const aim *a, double t, int64_t most, fourier_plan *out) {
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

/* The order with the least work. */
static int best_plan(const aim *a, double saddle, fourier_plan *out) {
    enum { ORDERS = 8, FEW = 48, MOST = 1 << 13 };
    double least = INFINITY, t = saddle;
    for (int i = 0; i < ORDERS; i++, t *= 0.8) {
        fourier_plan plan;
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
static int is_worth_it(const account_pair *pair, double work, fourier_plan *plan) {
    plan->points_max = (int64_t)(work / (double)plan->count) + 64;
    return fourier_rule_points(pair, plan->cut, plan->t, plan->spacing * (double)plan->count) < plan->points_max;
}

/* The x above which P has a part `tolerance` of delta, of all steps together. */
static double find_cut(const aim *a) {
    const double wanted = a->log_delta + log(a->tolerance) - log(a->n);
    double low = 1, high = 1 + 80 * a->pair->sigma; /* beyond lies e^-2500 */
    for (int i = 0; i < 40; i++) {
        const double middle = 0.5 * (low + high);
        *(pair_log_apart(a->pair, middle) > wanted ? &low : &high) = middle;
    }
    return high;
}

/* Is M at high orders that of losses which are too rare to count? */
static int is_explosive(const aim *a, double t) {
    const account_cumulant part = pair_cumulant(a->pair, a->cut, BEYOND * t, 1);
    const account_cumulant whole = pair_cumulant(a->pair, INFINITY, BEYOND * t, 1);
    return !(a->n * (whole.value - part.value) < 0.1 && isfinite(whole.error));
}

/* Would the loss beyond the cut, where it is too rare to count, need a finer quadrature? */
static int is_slow(const aim *a) {
    return pair_log_ratio(a->pair, a->cut) < 0.5;
}

/*
 * Sets a->cut, INFINITY where it would make no difference or is not possible, and a->tolerance where the cut needs a
 * larger one; returns the saddle point's order, or 0: there is none. Losses above 1 rise like x alone: a nearer cut
 * makes it no better then.
 */
static double choose_cut(aim *a, double slack) {
    const double before = a->tolerance;
    account_saddle at;
    for (;; a->tolerance *= 8) {
        a->cut = find_cut(a);
        if (!saddle_at_epsilon(a->pair, a->cut, a->epsilon, &at)) break;
        const int explosive = a->pair->direction == ACCOUNT_ADD ? is_slow(a) : is_explosive(a, at.t);
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
static int prove_aliases(const aim *a, fourier_plan *plan) {
    fourier_alias *const sides[] = {&plan->above, &plan->below};
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

int fourier_plan_make(const account_pair *pair, double epsilon, double log_delta, double slack, double grid,
                      fourier_plan *out) {
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
    return t > 0 && best_plan(&a, t, out) && is_worth_it(pair, work_limit(pair), out) && prove_aliases(&a, out);
}
