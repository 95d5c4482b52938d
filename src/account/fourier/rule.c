/* SPDX-License-Identifier: Apache-2.0 */
/*
 * phi(y) = M(t + iy)/M(t) of one step, for y = 0, h, 2h, ..., y_max by one trapezoid rule on the real line, with a
 * proven error.
 *
 * Notation as in account/pair.c: M(z) = E[e^u] = 1 + E[e^u - 1 - u] - c S, u = (z+1) l, -z l or (z+1) l - z l-, c = z+1,
 * -z, 1. At z = t + iy let u = a + ib: a is that of t, and b = y l, -y l, y (l - l-). With w_k the weights of the rule
 * and W_k = w_k e^(a_k)
 *
 *     M(z) - M(t) = -2 sum W sin^2(b/2)  +  i sum w ((e^a - 1) sin b + (sin b - b))  -+  i y S        (- remove, + add,
 *                                                                                                     none for replace),
 *
 * every term of the second order in the loss, as n-fold composition of small losses requires, and the real part without
 * cancellation. Where M(t) is beyond e^50 (few steps that lose much) everything is over e^shift, and the imaginary part
 * is sum W sin b. Of outcomes apart (account/pair.h) e^a is 0: W is, and e^a - 1 is -1.
 *
 * Errors. Of the rule and its ends: account/pair.c, at y_max, which covers all smaller y. Roundings, with v =
 * 2^-53, e = (x - 1/2)/sigma^2: l is off by at most k v |l|, k = (8 + 2 max(e, 0))/(1 - q), but for x = 1/2 itself, next
 * to which l is as small as its error and the constants below have room: expm1 and log1p are accurate, the relative
 * error of e^e is that of e times e, and q e^e/w, (1 - e^e) q/w are at most |l| and |l|/(1-q). With U = (t+1)|l| +
 * t|l-|, A the size of ln w_k, N the number of points and J that of the y, W is off by a part of at most
 *
 *     r = v (32 + N + 8 J + 8 (A + shift) + (k + 8) (1 + U)),
 *
 * N for adding up. sin(b/2) and cos(b/2) are turned from one y to the next, each time with 4 v, so that they are off by
 * 4 J v |b|: 8 J. b, with P = |l| + |l-|, by y P k v at most. So the terms of the sums are off by 2 r times at most
 *
 *     W (y P)^2 (real),    (w + W) U y P + w (y P)^2 (imaginary),    W (1 + y P) (imaginary, over e^shift),
 *
 * and e^u - 1 - u by 2 r times w u^2 where |u| is below 1/2, else W + w (1 + |u|): sums that do not depend on y are made
 * once. Of outcomes apart these are w y P (imaginary) and w (1 + |u|).
 */
#include "account/fourier/fourier.h"

#include "base/memory.h"
#include <assert.h>
#include <math.h>

enum { LANES = 4 };
static const double ROUNDING = 0x1p-53;
static const double PI = 3.14159265358979323846, one_over_sqrt_two_pi = 0.39894228040143267794;

/* sin b - b, from sin b; both ways are taken, so that loops over it are vectorized */
static inline double sine_excess(double b, double sine) {
    static const double c[7] = {-1 / 6.0,        1 / 120.0,        -1 / 5040.0,         1 / 362880.0,
                                -1 / 39916800.0, 1 / 6227020800.0, -1 / 1307674368000.0};
    const double square = b * b;
    double sum = c[6];
    for (int k = 5; k >= 0; k--)
        sum = sum * square + c[k];
    const double small = sum * square * b, large = sine - b;
    return fabs(b) > 0.7 ? large : small;
}

typedef struct point {
    double l, a, phase; /* phase: b/y */
    double size, reach; /* U, P */
    double log_weight;
    double rounding; /* k + 8 of the head */
    int apart;
} point;

static point point_at(const account_pair *pair, double cut, double t, double x) {
    const double variance = pair->sigma * pair->sigma, l = pair_log_ratio(pair, x);
    point p = {.l = l, .a = (t + 1) * l, .phase = l, .size = (t + 1) * fabs(l), .reach = fabs(l)};
    double e = fmax((x - 0.5) / variance, 0);
    if (pair->direction == ACCOUNT_ADD) {
        p.a = -t * l;
        p.phase = -l;
    } else if (pair->direction == ACCOUNT_REPLACE) {
        const double mirrored = pair_log_ratio(pair, -x);
        p.phase = l - mirrored;
        p.a = l + t * p.phase;
        p.size += t * fabs(mirrored);
        p.reach += fabs(mirrored);
        e = fabs(x) / variance;
    }
    p.log_weight = -0.5 * x * x / variance;
    p.rounding = (8 + 2 * e) / (1 - pair->probability) + 8;
    p.apart = pair_is_apart(pair, cut, x);
    return p;
}

/* What E[e^u - 1 - u] takes from a point, and its size for roundings; `whole` is 0 of a point apart. */
static double excess_at(double u, double size, double weight, double whole, int apart, double *rounding) {
    if (fabs(u) > 0.5 || apart) {
        *rounding = whole + weight * (1 + size);
        return whole - weight * (1 + u);
    }
    *rounding = weight * size * size;
    return weight * pair_excess(u);
}

typedef struct sums {
    double excess, excess_error, spread, spread_error; /* E[e^a - 1 - a], S */
    double whole, whole_error;
    double error[3]; /* of M(t + iy) - M(t), by powers of y */
} sums;

static void add_point(const point *p, double factor, double shift, int64_t i, fourier_rule *rule, sums *s) {
    const double parts = 32 + (double)rule->count + 8 * (double)rule->nodes + 8 * (fabs(p->log_weight) + shift) +
                         p->rounding * (1 + p->size);
    const double off = 2 * parts * ROUNDING; /* 2 r */
    const double weight = factor * exp(p->log_weight - shift), apart = p->apart ? weight : 0;
    const double whole = p->apart ? 0 : factor * exp(p->a + p->log_weight - shift);
    rule->phase[i] = p->phase;
    rule->whole[i] = whole;
    rule->weight[i] = shift > 0 ? 0 : weight;
    rule->more[i] = shift > 0 ? whole : fabs(p->a) > 0.5 || p->apart ? whole - weight : weight * expm1(p->a);
    s->whole += whole;
    s->whole_error += off * whole;
    s->error[1] += off * ((whole + weight) * p->size + apart) * p->reach;
    s->error[2] += off * (whole + weight) * p->reach * p->reach;
    if (shift > 0) {
        s->error[0] += off * whole;
        s->error[1] += off * whole * p->reach;
        return;
    }
    double size;
    s->excess += excess_at(p->a, p->size, weight, whole, p->apart, &size);
    s->excess_error += off * size;
    s->spread += excess_at(p->l, fabs(p->l), weight, factor * exp(p->l + p->log_weight), 0, &size);
    s->spread_error += off * size;
}

/* Moments and errors from the sums; `off`: what the rule itself is off by, over e^shift. False where that is too much. */
static int finish(const account_pair *pair, double t, double shift, double off, const sums *s, fourier_rule *rule) {
    const int remove = pair->direction == ACCOUNT_REMOVE, add = pair->direction == ACCOUNT_ADD;
    const double c = remove ? t + 1 : add ? -t : 1, few = 8 * ROUNDING;
    double less_one = s->excess - c * s->spread, error = s->excess_error + fabs(c) * s->spread_error + off;
    error += few * (fabs(s->excess) + fabs(c) * s->spread);
    rule->moment = 1 + less_one;
    rule->imaginary = remove ? -s->spread : add ? s->spread : 0;
    if (shift > 0) {
        rule->imaginary = 0;
        rule->moment = s->whole;
        less_one = s->whole - 1;
        error = s->whole_error + off;
    }
    const double high = shift + log1p(less_one + error), low = shift + log1p(less_one - error);
    rule->log_moment_high = high + few * (fabs(high) + shift);
    rule->log_moment_low = low - few * (fabs(low) + shift);
    rule->relative = error / (rule->moment - error) + few;
    const double least = rule->moment - error;
    rule->error[0] = (s->error[0] + 2 * off) / least; /* off: of M(t + iy) and of M(t) */
    rule->error[1] = (s->error[1] + s->spread_error + few * s->spread) / least;
    rule->error[2] = s->error[2] / least;
    return rule->relative > 0 && rule->relative < 1e-3 && isfinite(rule->log_moment_high) &&
           isfinite(rule->log_moment_low) && isfinite(rule->error[0] + rule->error[1] + rule->error[2]);
}

/* The rule's points: of the step base/fineness, over the range that account/pair.c has its bound for. */
static dpmf_status make_rule(const account_pair *pair, double cut, double t, pair_range r, double shift, double off,
                             fourier_rule *out) {
    fourier_rule rule = *out;
    sums s = {0};
    rule.count = r.last - r.first + 1;
    double **const parts[] = {&rule.phase, &rule.whole,  &rule.more,      &rule.weight,
                              &rule.sine,  &rule.cosine, &rule.step_sine, &rule.step_cosine};
    const int64_t count = sizeof parts / sizeof parts[0], room = (rule.count + LANES - 1) / LANES * LANES;
    TRY(base_alloc_doubles(count * room, "the points of a moment generating function", &rule.phase));
    for (int64_t i = 1; i < count; i++)
        *parts[i] = rule.phase + i * room;
    for (int64_t i = 0; i < rule.count; i++) {
        const point p = point_at(pair, cut, t, r.origin + r.step * (double)(r.first + i));
        add_point(&p, r.step / pair->sigma * one_over_sqrt_two_pi, shift, i, &rule, &s);
    }
    if (finish(pair, t, shift, off, &s, &rule)) {
        for (int64_t i = 0; i < rule.count; i++) {
            const double half = 0.5 * rule.spacing * rule.phase[i];
            rule.sine[i] = 0;
            rule.cosine[i] = 1;
            rule.step_sine[i] = sin(half);
            rule.step_cosine[i] = cos(half);
        }
        *out = rule;
    } else {
        base_free(rule.phase);
    }
    return DPMF_OK;
}

/* By how much the step of account/pair.c must be divided to leave e^-decay at y: the best theta of account/pair.c. */
static double first_fineness(const account_pair *pair, double cut, double y, double decay) {
    const double sigma = pair->sigma, variance = sigma * sigma;
    const double odds = (cut - 0.5) / variance + log(pair->probability) - log1p(-pair->probability);
    const double most = odds < 0 ? 1 / (1 + exp(-odds)) : 1; /* of arg w over theta: account/pair.c */
    const double turn = pair->direction == ACCOUNT_REPLACE ? 2 * y * most : y * most;
    const double theta = fmin(0.8 * PI, sqrt(2 * decay) / sigma);
    const double step = 2 * PI * theta * variance / (decay + 0.5 * theta * theta * variance + turn * theta);
    return fmax(fmin(0.5 * sigma, 0.36 * variance) / step, 1);
}

/* n times that is e^-24 at least, below any tolerance but at a cut, or a fifth of the tolerance. */
double fourier_rule_off(const account_pair *pair, double tolerance) {
    return fmax(-24, log(0.2 * tolerance)) - log((double)pair->compositions);
}

int64_t fourier_rule_points(const account_pair *pair, double cut, double t, double y_max) {
    pair_range r;
    const double fineness = first_fineness(pair, cut, y_max, 4 - fourier_rule_off(pair, 0));
    if (!pair_find_range(pair, cut, t, fineness, &r)) return INT64_MAX;
    pair_shorten(pair, cut, t, &r);
    return r.last - r.first + 1;
}

dpmf_status fourier_rule_create(const account_pair *pair, double cut, double t, double spacing, int64_t nodes,
                                int64_t points_max, double log_off, fourier_rule *out) {
    enum { TRIES = 4 };
    const double y_max = spacing * (double)nodes;
    assert(t > 0 && y_max >= 0 && pair->probability < 1);
    *out = (fourier_rule){.spacing = spacing, .nodes = nodes};
    double fineness = first_fineness(pair, cut, y_max, 4 - fourier_rule_off(pair, 0));
    for (int i = 0; i < TRIES; i++, fineness *= 1.3) {
        pair_range r;
        if (!pair_find_range(pair, cut, t, fineness, &r)) return DPMF_OK;
        const int64_t stride = pair_shorten(pair, cut, t, &r);
        if (r.last - r.first >= points_max) return DPMF_OK;
        /* Where the largest exponent is beyond 50 all is over e^it. */
        double peak = 0;
        for (int64_t k = r.first; k <= r.last; k += stride) {
            const point p = point_at(pair, cut, t, r.origin + r.step * (double)k);
            if (!p.apart) peak = fmax(peak, p.a + p.log_weight);
        }
        const double shift = peak > 50 ? peak : 0;
        const double off = pair_log_error(pair, cut, t, y_max, fineness, shift + log_off - 2) - shift;
        if (off <= log_off) return make_rule(pair, cut, t, r, shift, exp(off), out);
    }
    return DPMF_OK;
}

void fourier_rule_free(fourier_rule *rule) {
    base_free(rule->phase);
    rule->phase = NULL;
}

/* LANES sums side by side, of arrays that zeros fill up to a multiple of that. */
double complex fourier_rule_next(fourier_rule *rule, double *error) {
    const double y = rule->spacing * (double)rule->at++;
    const double *restrict phase = rule->phase, *restrict whole = rule->whole, *restrict more = rule->more;
    const double *restrict weight = rule->weight;
    const double *restrict step_sine = rule->step_sine, *restrict step_cosine = rule->step_cosine;
    double *restrict sines = rule->sine, *restrict cosines = rule->cosine;
    double real_parts[LANES] = {0}, imaginary_parts[LANES] = {0}, real = 0, imaginary = y * rule->imaginary;
    for (int64_t i = 0; i < rule->count; i += LANES) {
        for (int64_t k = 0; k < LANES; k++) {
            const double b = y * phase[i + k], half = sines[i + k], cosine = cosines[i + k], sine = 2 * half * cosine;
            real_parts[k] += whole[i + k] * half * half;
            imaginary_parts[k] += more[i + k] * sine + weight[i + k] * sine_excess(b, sine);
            sines[i + k] = half * step_cosine[i + k] + cosine * step_sine[i + k];
            cosines[i + k] = cosine * step_cosine[i + k] - half * step_sine[i + k];
        }
    }
    for (int k = 0; k < LANES; k++) {
        real += real_parts[k];
        imaginary += imaginary_parts[k];
    }
    real *= -2 / rule->moment;
    imaginary /= rule->moment;
    *error =
        rule->error[0] + y * (rule->error[1] + y * rule->error[2]) + rule->relative * (fabs(real) + fabs(imaginary));
    return pair_complex(real, imaginary);
}

/*
 * ---- how fast the terms fall ----
 *
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
        for (; j < decay->ends[i]; j++)
            sum += decay->mass[j] * least_loss(0.5 * y * decay->width[j]);
        best = fmax(best, sum);
    }
    return best * (1 - ROOM);
}
