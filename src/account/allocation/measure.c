/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures on linear grids, added up and made coarser, always from above in convex order.
 *
 * A measure stands for a random sum S >= 0: masses at (first + i) h, and what was cut off at either end, its mass and its
 * mean. Any convex payoff that is not negative has at least the mean that it has under S:
 *
 *     coarser       the mass at a point between two of the coarser grid goes to both so that its mean stays
 *     sum           all products of masses; one grid is a multiple of the other, so that points fall on points
 *     cut off       a payoff of at most 1 pays the mass at most, one of at most S the mean
 *
 * Everything is a sum of products of numbers that are not negative: a sum of n products is right to (n + 2) u of itself however
 * small it is, and no tilt is needed to see far tails. That is why sums are added up directly and not by transforms; grids
 * that grow coarser with the deviation keep them at some thousand points. `error` collects the roundings.
 */
#include "account/allocation/allocation.h"

#include "base/memory.h"
#include "base/special.h"

#include <assert.h>
#include <math.h>

static const double U = GRID_ROUNDING;

typedef allocation_measure measure;

static void measure_free(measure *m) {
    base_free(m->mass);
    m->mass = NULL;
}

static dpmf_status measure_copy(const measure *m, measure *out) {
    measure copy = *m;
    TRY(base_alloc_doubles(m->count, "a measure on a grid", &copy.mass));
    for (int64_t i = 0; i < m->count; i++)
        copy.mass[i] = m->mass[i];
    *out = copy;
    return DPMF_OK;
}

/* Sets total and mean. */
static void measure_weigh(measure *m) {
    double total = 0, mean = 0;
    for (int64_t i = 0; i < m->count; i++) {
        total += m->mass[i];
        mean += m->mass[i] * m->step * (double)(m->first + i);
    }
    const double room = (1 + 1e-9) * (1 + 2 * m->error); /* 1e-9: far more than the roundings of these sums */
    m->total = (total + m->cut) * room;
    m->mean = (mean + m->cut_mean) * room;
}

/* The points k of the coarser grid are the points 2^doublings k of the finer one. */
static dpmf_status measure_coarsen(measure *m, int doublings) {
    if (doublings <= 0) return DPMF_OK;
    assert(doublings < 62 && m->first >= 0);
    const int64_t ratio = (int64_t)1 << doublings, first = m->first / ratio;
    const int64_t count = (m->first + m->count - 1) / ratio - first + 2;
    double *mass = NULL;
    TRY(base_alloc_doubles(count, "a measure on a coarser grid", &mass));
    for (int64_t i = 0; i < m->count; i++) {
        const int64_t at = m->first + i, k = at / ratio - first;
        const double part = (double)(at % ratio) / (double)ratio; /* exact */
        mass[k] += m->mass[i] * (1 - part);
        mass[k + 1] += m->mass[i] * part;
    }
    base_free(m->mass);
    m->mass = mass;
    m->step *= (double)ratio;
    m->first = first;
    m->count = mass[count - 1] > 0 ? count : count - 1;
    m->error += (double)(2 * ratio + 4) * U;
    return DPMF_OK;
}

/* Cuts off at most this much mass and mean at either end. */
static void measure_trim(measure *m, double mass, double mean) {
    int64_t begin = 0, end = m->count;
    double cut = 0, cut_mean = 0;
    for (int side = 0; side < 2; side++) {
        double here = 0, here_mean = 0;
        while (end > begin + 1) {
            const int64_t i = side == 0 ? begin : end - 1;
            here += m->mass[i];
            here_mean += m->mass[i] * m->step * (double)(m->first + i);
            if (here > mass || here_mean > mean) break;
            *(side == 0 ? &begin : &end) += side == 0 ? 1 : -1;
            cut += m->mass[i];
            cut_mean += m->mass[i] * m->step * (double)(m->first + i);
        }
    }
    for (int64_t i = begin; i < end && begin > 0; i++)
        m->mass[i - begin] = m->mass[i];
    m->cut += cut * (1 + 1e-9);
    m->cut_mean += cut_mean * (1 + 1e-9);
    m->first += begin;
    m->count = end - begin;
}

/* scale x + y, on the same grid. */
static dpmf_status measure_join(const measure *x, double scale, const measure *y, measure *out) {
    const int64_t first = x->first < y->first ? x->first : y->first;
    const int64_t end_x = x->first + x->count, end_y = y->first + y->count, end = end_x > end_y ? end_x : end_y;
    measure s = {.step = x->step, .first = first, .count = end - first};
    assert(x->step == y->step);
    TRY(base_alloc_doubles(s.count, "a mixture of measures", &s.mass));
    for (int64_t i = 0; i < x->count; i++)
        s.mass[x->first - first + i] += scale * x->mass[i];
    for (int64_t i = 0; i < y->count; i++)
        s.mass[y->first - first + i] += y->mass[i];
    s.cut = scale * x->cut + y->cut;
    s.cut_mean = scale * x->cut_mean + y->cut_mean;
    s.error = fmax(x->error, y->error) + 4 * U;
    measure_weigh(&s);
    *out = s;
    return DPMF_OK;
}

/*
 * ---- grids of several scales ----
 *
 * The law of S = U_1 + ... + U_t, log-normals of mean 1, on grids of several scales, from above in convex order: both curves
 * of random allocation at any number of points, for the cost of some thousand by some thousand products.
 *
 * One grid for all, as account/allocation/curve.c has, must be as fine as a single U and as long as its far tail: millions of
 * points when sigma is small. Here every scale has its own.
 *
 * Lemma. Let X >= 0 be independent of the rest R of a sum, c > 0, and A have the law of X given X <= c, of mean m. Then with I, A, B
 * independent, P[I = 1] = P[X > c], B of the law of X given X > c, and F convex,
 *
 *     E F(R + X) <= E F(R + A + I (B - m)).
 *
 * For I = 0 both sides agree, and where X > c Jensen's inequality has F(R + B) = F(R + E[A] + B - m) <= E F(R + A + B - m).
 * The deviation of A is added where a U is big: next to nothing where c is large against it, and little beside that of the other
 * U where these are many. So for few U and a large sigma account/allocation/curve.c is nearer, and short enough.
 *
 * Applied to U at c_1, to what is big at c_2 = 2 c_1, and so on, with M_l = E[U | U <= c_l],
 *
 *     U  <=  A + I_1 (B_1 - M_1) + I_2 (B_2 - M_2) + ...,     B_l: U between c_l and c_{l+1},  P[I_l = 1] = P[U > c_l | U <= c_{l+1}],
 *
 * all independent. The t-fold sum of A, which has no tail left, is made by doublings on grids that grow with its deviation; at
 * scale l the number of U that are big is binomial and small, and their grid's step is a part of c_l. The law is kept as a mixture:
 * its part l is where some U is big at scale l and none above, on the grid of that scale.
 *
 * Above the last c nothing is kept. Removing: E[S/t; some U > c] <= v + (t-1) w is added, w = P[U > c], v = E[U; U > c] (S/t is a
 * density, under which one U is size-biased). Adding: the payoff falls with U, so that a U above c may be taken as one below it.
 *
 * Rounding: all numbers are positive; measures keep the error. M_l is right to 1e-14 of c_l - M_l, which moves S by
 * no more than that part of itself: curves are read at places 1e-12 to the safe side.
 */

typedef allocation_scales scales;

enum { PARTS_MAX = 160, TIMES_MAX = 400 };
static const double CELL = 0.4;       /* times the fineness: of c, the largest step of a scale */
static const double CUT = 1e-3;       /* part of the least delta that may be lost above the last c */
static const double ERROR_MAX = 1e-3; /* of roundings, which are added */
static const double TRIM = 1e-7;      /* and at the ends of a measure, of which there are some hundred */

typedef struct place {
    double x, z;         /* U <= x when Z <= z */
    double below, above; /* P[U <= x], P[U > x] */
    double mean;         /* E[U | U <= x] */
} place;

static place place_at(double sigma, double z) {
    const double mu = 1 / sigma, below = base_normal_cdf(z);
    return (place){exp(mu * z - 0.5 * mu * mu), z, below, base_normal_cdf(-z), base_normal_cdf(z - mu) / below};
}

static place place_of(double sigma, double x) {
    place p = place_at(sigma, sigma * log(x) + 0.5 / sigma);
    p.x = x;
    return p;
}

/* Of U given U <= x. */
static double variance_below(double sigma, const place *p) {
    const double mu = 1 / sigma, log_square = mu * mu + base_log_normal_cdf(p->z - 2 * mu) - log(p->below);
    return fmax(exp(fmin(log_square, 700)) - p->mean * p->mean, 1e-12 * p->mean * p->mean);
}

/* c_1: big ones are fewer than 1 on average, and their loss in the lemma is small: small against themselves, or rare. */
static place first_cut(double sigma, double bins) {
    static const double small_part = 5e-5, rare = 1e-5;
    const double all = expm1(fmin(1 / (sigma * sigma), 700));
    /* x > 1.02 E[U | U <= x] needs z > ln(1.02) sigma - 1, which is far when there is much noise */
    double z = sigma > 1000 ? 0.0198026 * sigma - 1 : 0;
    for (;; z += 0.1) {
        const place p = place_at(sigma, z);
        const double variance = variance_below(sigma, &p), apart = p.x - p.mean;
        if (bins * p.above > 1 || !(apart > 0.02 * p.mean)) continue;
        if (variance <= small_part * apart * apart || p.above * variance <= rare * all || p.above < 1e-6) return p;
    }
}

/* The last c, of ln c. */
static double last_cut(double sigma, double bins, double lost) {
    const double mu = 1 / sigma;
    double low = 0, high = 39 + mu;
    for (int i = 0; i < 60; i++) {
        const double z = 0.5 * (low + high);
        const double out = base_normal_cdf(mu - z) + (bins - 1) * base_normal_cdf(-z);
        *(out <= lost ? &high : &low) = z;
    }
    return mu * high - 0.5 * mu * mu;
}

/* ---- the sum of those that are never big ---- */

/* x = x + y, independent summands on the same grid, trimmed. */
static dpmf_status add_to(measure *x, const measure *y, double bins, double trim) {
    const measure *longer = x->count > y->count ? x : y, *shorter = longer == x ? y : x;
    measure s = {.step = x->step, .first = x->first + y->first, .count = x->count + y->count - 1};
    assert(x->step == y->step);
    TRY(base_alloc_doubles(s.count, "a sum of measures", &s.mass));
    /* out[i + j] += x[i] y[j], four rows at a time. */
    int64_t i = 0;
    for (; i + 4 <= shorter->count && longer->count >= 4; i += 4) {
        const double a = shorter->mass[i], b = shorter->mass[i + 1], c = shorter->mass[i + 2], d = shorter->mass[i + 3];
        double *restrict o = s.mass + i;
        o[0] += a * longer->mass[0];
        o[1] += a * longer->mass[1] + b * longer->mass[0];
        o[2] += a * longer->mass[2] + b * longer->mass[1] + c * longer->mass[0];
        for (int64_t j = 3; j < longer->count; j++)
            o[j] +=
                (a * longer->mass[j] + b * longer->mass[j - 1]) + (c * longer->mass[j - 2] + d * longer->mass[j - 3]);
        o[longer->count] += b * longer->mass[longer->count - 1] + c * longer->mass[longer->count - 2] +
                            d * longer->mass[longer->count - 3];
        o[longer->count + 1] += c * longer->mass[longer->count - 1] + d * longer->mass[longer->count - 2];
        o[longer->count + 2] += d * longer->mass[longer->count - 1];
    }
    for (; i < shorter->count; i++)
        for (int64_t j = 0; j < longer->count; j++)
            s.mass[i + j] += shorter->mass[i] * longer->mass[j];
    s.total = x->total * y->total * (1 + 8 * U);
    s.mean = (x->mean * y->total + x->total * y->mean) * (1 + 8 * U);
    s.cut = (x->cut * y->total + x->total * y->cut) * (1 + 8 * U);
    s.cut_mean = (x->cut_mean * y->total + x->cut * y->mean + y->cut_mean * x->total + y->cut * x->mean) * (1 + 8 * U);
    s.error = x->error + y->error + (double)(shorter->count + 4) * U;
    measure_free(x);
    *x = s;
    measure_trim(x, trim, trim * bins);
    return DPMF_OK;
}

/* `one`, of the given deviation, `bins` times, by doublings: the grid's step stays `fineness` deviations. `one` is made coarser. */
static dpmf_status multiply(measure *one, int64_t bins, double deviation, double fineness, double trim,
                            const dpmf_run *run, measure *out) {
    measure power = {0};
    int64_t reached = 1;
    int bit = 62;
    dpmf_status status = DPMF_OK;
    while (((bins >> bit) & 1) == 0)
        bit--;
    TRY_DONE(measure_copy(one, &power));
    while (--bit >= 0) {
        const int odd = (int)((bins >> bit) & 1);
        TRY_DONE(base_progress(run, "random allocation", -1));
        TRY_DONE(add_to(&power, &power, (double)bins, trim));
        if (odd) TRY_DONE(add_to(&power, one, (double)bins, trim));
        reached = 2 * reached + odd;
        while (2 * power.step <= fineness * deviation * sqrt((double)reached)) {
            TRY_DONE(measure_coarsen(&power, 1));
            TRY_DONE(measure_coarsen(one, 1));
        }
    }
    *out = power;
    power.mass = NULL;
done:
    measure_free(&power);
    return status;
}

static dpmf_status sum_of_small(double sigma, int64_t bins, const place *cut, double fineness, double trim,
                                const dpmf_run *run, measure *out) {
    const double deviation = sqrt(variance_below(sigma, cut)), share = (1 + 16 * U) / cut->below;
    measure one = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(allocation_piece(sigma, 0, cut->x, 0, fmin(fineness * deviation, cut->x / 64), &one));
    for (int64_t i = 0; i < one.count; i++)
        one.mass[i] *= share;
    measure_weigh(&one);
    measure_trim(&one, trim / (double)bins, trim);
    TRY_DONE(multiply(&one, bins, deviation, fineness, trim, run, out));
done:
    measure_free(&one);
    return status;
}

/* sum_{k >= 1} binom(t, k) (1-w)^(t-k) p^k, p the measure of one that is big, of total w: some are. */
static dpmf_status some_big(const measure *p, double w, double bins, double trim, measure *out) {
    const double log_none = log1p(-w), top = p->step * (double)(p->first + p->count);
    measure power = {0}, sum = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(measure_copy(p, &power));
    for (int k = 1;; k++) {
        const double choose = (bins - k + 1) / k * (1 + 4 * U);
        const double none = exp((bins - k) * log_none) * (1 + 1e-11);
        for (int64_t i = 0; i < power.count; i++)
            power.mass[i] *= choose;
        power.cut *= choose;
        power.cut_mean *= choose;
        measure_weigh(&power);
        measure joined;
        if (sum.mass == NULL) {
            TRY_DONE(measure_copy(&power, &joined));
            for (int64_t i = 0; i < joined.count; i++)
                joined.mass[i] *= none;
            joined.cut *= none;
            joined.cut_mean *= none;
        } else {
            TRY_DONE(measure_join(&power, none, &sum, &joined));
        }
        measure_free(&sum);
        sum = joined;
        const double falls = bins * w / (k + 1) / (1 - w), left = power.total * none * falls / (1 - falls);
        if ((double)k >= bins) break;
        if ((falls <= 0.5 && left * (k + 2) * top <= trim * bins && left <= trim) || k == TIMES_MAX) {
            sum.cut += falls <= 0.5 ? left : INFINITY;
            sum.cut_mean += falls <= 0.5 ? left * (k + 2) * top : INFINITY;
            break;
        }
        TRY_DONE(add_to(&power, p, bins, trim));
    }
    sum.error += 64 * U;
    measure_weigh(&sum);
    *out = sum;
    sum.mass = NULL;
done:
    measure_free(&power);
    measure_free(&sum);
    return status;
}

/* Adds the part where some are big between `low` and `high` and none above; so_far is the law given that none is above `low`. */
static dpmf_status add_scale(scales *s, const place *low, const place *high, double cell, double trim,
                             measure *so_far) {
    const double bins = (double)s->bins;
    double w = 0;
    measure one = {0}, big = {0}, joined;
    dpmf_status status = DPMF_OK;
    int doublings = 0;
    while (2 * ldexp(so_far->step, doublings) <= cell * low->x)
        doublings++;
    TRY_DONE(measure_coarsen(so_far, doublings));
    TRY_DONE(allocation_piece(s->sigma, low->x, high->x, low->mean, so_far->step, &one));
    for (int64_t i = 0; i < one.count; i++) {
        one.mass[i] *= (1 + 16 * U) / high->below;
        w += one.mass[i];
    }
    measure_weigh(&one);
    TRY_DONE(some_big(&one, fmin((low->above - high->above) / high->below, w), bins, trim, &big));
    TRY_DONE(add_to(&big, so_far, bins, trim));
    const double none = exp(bins * (log1p(-low->above) - log1p(-high->above))) * (1 + 1e-11);
    for (int i = 0; i < s->count; i++)
        s->weights[i] *= none;
    TRY_DONE(measure_join(so_far, none, &big, &joined));
    measure_free(so_far);
    *so_far = joined;
    measure_trim(so_far, trim, trim * bins);
    s->weights[s->count] = 1;
    s->parts[s->count++] = big;
    big.mass = NULL;
done:
    measure_free(&one);
    measure_free(&big);
    return status;
}

dpmf_status allocation_scales_create(double sigma, int64_t bins, double least, double fineness, const dpmf_run *run,
                                     allocation_scales *out) {
    scales s = {.sigma = sigma, .bins = bins, .least = least};
    const double t = (double)bins, trim = TRIM * least, log_last = last_cut(sigma, t, CUT * least);
    measure so_far = {0};
    dpmf_status status = DPMF_OK;
    *out = s;
    if (log_last > 300 || !(least > 1e-280)) return DPMF_OK;
    TRY_DONE(base_alloc(PARTS_MAX, sizeof *s.parts, "the scales of a sum", (void **)&s.parts));
    TRY_DONE(base_alloc_doubles(PARTS_MAX, "the scales of a sum", &s.weights));
    place low = first_cut(sigma, t);
    TRY_DONE(sum_of_small(sigma, bins, &low, fineness, trim, run, &so_far));
    TRY_DONE(measure_copy(&so_far, &s.parts[0]));
    s.weights[0] = 1;
    s.count = 1;
    while (log(low.x) < log_last && s.count < PARTS_MAX) {
        const place high = place_of(sigma, 2 * low.x);
        TRY_DONE(base_progress(run, "random allocation", -1));
        TRY_DONE(add_scale(&s, &low, &high, CELL * fineness, trim, &so_far));
        low = high;
    }
    if (!(so_far.error < ERROR_MAX)) goto done; /* too many steps for plain sums: nothing is made */
    s.beyond = (base_normal_cdf(1 / sigma - low.z) + (t - 1) * low.above) * (1 + 1e-9);
    *out = s;
    s = (scales){0};
done:
    measure_free(&so_far);
    allocation_scales_free(&s);
    return status;
}

void allocation_scales_free(allocation_scales *s) {
    for (int i = 0; s->parts != NULL && i < s->count; i++)
        measure_free(&s->parts[i]);
    base_free(s->parts);
    base_free(s->weights);
    *s = (scales){0};
}

/* E[(S - T)_+] for rising T = t a, from the top down: a step down adds h times `held`, the mass above, to the payoff `paid`. */
static void pay_above(const measure *m, double weight, double t, int64_t count, double step, double *out) {
    const double room = weight * (1 + 2 * m->error + 4 * U * (double)m->count) * (1 + 1e-12);
    double held = 0, paid = 0;
    int64_t k = m->count; /* points k and above are held, paid is counted from the point k */
    for (int64_t i = count - 1; i >= 0; i--) {
        const double T = t * exp((double)i * step) * (1 - 1e-12);
        while (k > 0 && m->step * (double)(m->first + k - 1) > T) {
            paid += m->step * held;
            held += m->mass[--k];
        }
        const double above = m->step * (double)(m->first + k) - T;
        out[i] += room * ((k < m->count ? paid + fmax(above, 0) * held : 0) + m->cut_mean) / t;
    }
}

/* E[(1 - a S/t)_+] from the bottom up. */
static void pay_below(const measure *m, double weight, double t, int64_t count, double step, double *out) {
    const double room = weight * (1 + 2 * m->error + 4 * U * (double)m->count) * (1 + 1e-12);
    double held = 0, paid = 0;
    int64_t k = -1; /* points up to k are held, paid is counted from the point k */
    for (int64_t i = count - 1; i >= 0; i--) {
        const double a = exp((double)i * step), end = t / a * (1 + 1e-12);
        while (k + 1 < m->count && m->step * (double)(m->first + k + 1) < end) {
            paid += m->step * held;
            held += m->mass[++k];
        }
        const double below = end - m->step * (double)(m->first + k);
        out[i] += room * ((k >= 0 ? a / t * (paid + fmax(below, 0) * held) : 0) + m->cut);
    }
}

void allocation_scales_curve(const allocation_scales *s, int add, int64_t count, double step, double *out) {
    for (int64_t i = 0; i < count; i++)
        out[i] = add ? 0 : s->beyond;
    for (int i = 0; i < s->count; i++)
        (add ? pay_below : pay_above)(&s->parts[i], s->weights[i], (double)s->bins, count, step, out);
    for (int64_t i = 0; i < count; i++)
        if (!(out[i] >= 0 && out[i] <= 1)) out[i] = 1;
}
