/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The likelihood ratio of one step, U = exp(Z/sigma - 1/(2 sigma^2)), on a linear grid.
 *
 * Notation: x_i = i h; cell i is [x_i, x_{i+1}); z(x) = sigma ln x + 1/(2 sigma), so that U > x when Z > z(x); m_i = P[U in
 * cell i] = Phi(z_{i+1}) - Phi(z_i) and M_i = E[U; U in cell i], the same at z - 1/sigma.
 *
 * From above: the mass of a cell goes to its ends so that its mean stays,
 *
 *     at x_i  (x_{i+1} m_i - M_i)/h,      at x_{i+1}  (M_i - x_i m_i)/h:
 *
 * more spread, so that the mean of any convex function grows, in each of several independent U for any values of the
 * others. As delta is such a mean of a payoff that is not negative, adding mass only raises it; the rounding errors are
 * added as mass: m and M are differences of numbers that are right to 8 u (1 + z^2), and the differences above lose x/h
 * more.
 *
 * From below: the mass of a cell goes to its conditional mean (Jensen's inequality), and from there down (for payoffs that
 * rise with U) or up (for those that fall) to the next point of the grid x_i + f h, f the least (largest) of the fractions at
 * which the conditional means lie. They are near 1/2 in all cells that matter, so that little is lost; in the others the
 * mass moves on by a cell. Rounding errors are taken off the mass.
 */
#include "account/allocation/allocation.h"

#include "base/memory.h"
#include "base/special.h"
#include "base/sum.h"

#include <math.h>

static const double U = 0x1p-53;

/* A difference of the normal distribution function, and the error that it may have. */
typedef struct part {
    double value, error;
} part;

static part between(double low, double high) {
    part p;
    if (low > 0) {
        const double a = base_normal_cdf(-low), b = base_normal_cdf(-high);
        p.value = a - b;
        p.error = 8 * U * (1 + low * low) * a;
    } else {
        const double a = base_normal_cdf(low), b = base_normal_cdf(high);
        p.value = b - a;
        p.error = 8 * U * (1 + fmin(high * high, low * low)) * b;
    }
    p.value = fmax(p.value, 0);
    return p;
}

static double place_of(double sigma, double x) {
    return x > 0 ? sigma * log(x) + 0.5 / sigma : -INFINITY;
}

typedef struct cell {
    part mass, mean; /* mean: E[U; cell] */
} cell;

static cell cell_at(double sigma, double low, double high) {
    return (cell){between(low, high), between(low - 1 / sigma, high - 1 / sigma)};
}

/* Onto the ends x and next = x + h of a cell: mass[0] and mass[1]. */
static void split(const cell *c, double x, double h, double *mass) {
    const double next = x + h;
    const double error = (next * c->mass.error + c->mean.error + 4 * U * (next * c->mass.value + c->mean.value)) / h;
    mass[0] += fmax((next * c->mass.value - c->mean.value) / h, 0) + error;
    mass[1] += fmax((c->mean.value - x * c->mass.value) / h, 0) + error;
}

/* Where in its cell the conditional mean lies, 0 to 1, from below or from above. */
static double fraction(const cell *c, int64_t i, double h, int above) {
    if (!(c->mass.value > 0)) return above ? 1 : 0;
    const double mean = c->mean.value / c->mass.value;
    const double error =
        2 * mean * (c->mass.error / c->mass.value + c->mean.error / fmax(c->mean.value, 1e-300) + 4 * U);
    return fmin(fmax((mean - h * (double)i + (above ? error : -error)) / h, 0), 1);
}

/* Cells with less than this count for nothing in the choice of f. */
static const double MATTERS = 1e-25;

static double common_fraction(double sigma, double h, int64_t cells, int above) {
    double low = -INFINITY, found = above ? 0 : 1, sum = 0;
    for (int64_t i = 0; i < cells; i++) {
        const double high = place_of(sigma, h * (double)(i + 1));
        const cell c = cell_at(sigma, low, high);
        sum += c.mass.value;
        if (c.mass.value > MATTERS && (!above || sum > 1e-4)) {
            const double f = fraction(&c, i, h, above);
            found = above ? fmax(found, f) : fmin(found, f);
        }
        low = high;
    }
    return found;
}

dpmf_status allocation_law_create(double sigma, double step, int64_t cells, allocation_side side, allocation_law *out) {
    const int lower = side != ALLOCATION_UPPER, above = side == ALLOCATION_LOWER_PUTS;
    allocation_law law = {.sigma = sigma, .step = step, .cut = step * (double)cells, .count = cells + 1};
    TRY(base_alloc_doubles(law.count, "a likelihood ratio on a grid", &law.mass));
    const double f = lower ? common_fraction(sigma, step, cells, above) : 0;
    double low = -INFINITY;
    for (int64_t i = 0; i < cells; i++) {
        const double high = place_of(sigma, step * (double)(i + 1));
        const cell c = cell_at(sigma, low, high);
        if (lower) {
            const double at = fraction(&c, i, step, above), less = fmax(c.mass.value - c.mass.error, 0);
            const int64_t slot = above ? (at <= f ? i : i + 1) : (at >= f ? i : i - 1);
            if (slot >= 0) law.mass[slot] += less;
        } else
            split(&c, step * (double)i, step, law.mass + i);
        low = high;
    }
    const double z = place_of(sigma, law.cut), sign = lower ? -1 : 1;
    law.offset = f * step;
    law.big = base_normal_cdf(-z) * (1 + sign * 16 * U * (1 + z * z));
    law.big_least = base_normal_cdf(-z) * (1 - 64 * U * (1 + z * z));
    law.big_mean = base_normal_cdf(1 / sigma - z) * (1 + sign * 16 * U * (1 + z * z + 1 / (sigma * sigma)));
    *out = law;
    return DPMF_OK;
}

void allocation_law_free(allocation_law *law) {
    base_free(law->mass);
    law->mass = NULL;
}

double allocation_call(const allocation_law *law, double k) {
    if (k <= law->cut) return law->big_mean - k * (k > 0 ? law->big_least : law->big);
    const double z = place_of(law->sigma, k), shift = 1 / law->sigma;
    const double first = base_normal_cdf(shift - z), second = k * base_normal_cdf(-z);
    return fmax(first - second, 0) + 16 * U * (1 + z * z) * (first + second);
}

dpmf_status allocation_piece(double sigma, double low, double high, double shift, double step,
                             allocation_measure *out) {
    allocation_measure m = {.step = step, .first = (int64_t)floor((low - shift) / step)};
    m.count = (int64_t)ceil((high - shift) / step) - m.first + 1;
    TRY(base_alloc_doubles(m.count, "a likelihood ratio on a grid", &m.mass));
    double from = place_of(sigma, low);
    for (int64_t i = 0; i + 1 < m.count; i++) {
        const double x = shift + step * (double)(m.first + i), next = shift + step * (double)(m.first + i + 1);
        const double to = place_of(sigma, i + 2 < m.count ? fmin(next, high) : high); /* none is lost by a rounding */
        const cell c = cell_at(sigma, from, to);
        split(&c, x, step, m.mass + i);
        from = to;
    }
    *out = m;
    return DPMF_OK;
}

/*
 * ---- sums ----
 *
 * The sum of m independent likelihood ratios on their grid, tilted by e^(order s), on a window, by Fourier transform.
 *
 * As in account/grid/power.c: the power in frequency space is circular, so that the window's numbers are at least the true
 * ones, and account/grid/power.c bounds its rounding. What lies outside the window is bounded by Chernoff: for any rate r >
 * order, a payoff f and s from `top` on,
 *
 *     sum p(s) f(s) <= E[e^(r S)] sup_{s >= top} f(s) e^(-r s),     E[e^(r S)] = (sum_i mass_i e^(r x_i))^m,
 *
 * and below the window with rates r < order. Rates and window are chosen with a coarse copy of the law, so that e^-DEEP of
 * the tilted mass is outside; the moments that the bounds use are of the law itself.
 */

enum { COARSE = 1500, LENGTH_MAX = 1 << 21, REACH_MAX = 1 << 17 };
static const double DEEP = 40;

typedef struct coarse {
    int count;
    double mass[COARSE + 2], place[COARSE + 2];
} coarse;

/*
 * Finer near the first cell that weighs anything beside the heaviest, where most of the mass is: groups that grow with the
 * distance. Far in a tail, where adding a unit pays at large epsilon, all the masses are small, and the law is as good.
 */
static void make_coarse(const allocation_law *law, coarse *c) {
    int64_t start = 0;
    double heaviest = 0;
    for (int64_t i = 0; i < law->count; i++)
        heaviest = fmax(heaviest, law->mass[i]);
    while (start + 1 < law->count && !(law->mass[start] > 1e-40 * heaviest))
        start++;
    const double ratio = pow((double)(law->count - start) + 1, 1.0 / (0.5 * COARSE));
    c->count = 0;
    for (int64_t i = start, next = start; i < law->count; i = next) {
        next = (int64_t)fmax((double)i + 1, (double)start + (double)(i - start) * ratio);
        if (c->count == COARSE) next = law->count;
        double sum = 0, moment = 0;
        for (int64_t j = i; j < next && j < law->count; j++) {
            sum += law->mass[j];
            moment += law->mass[j] * (double)j;
        }
        if (!(sum > 0)) continue;
        c->mass[c->count] = sum;
        c->place[c->count++] = law->step * moment / sum;
    }
}

static double coarse_log_moment(const coarse *c, double order, double *mean, double *variance) {
    double largest = -INFINITY, s0 = 0, s1 = 0, s2 = 0;
    for (int i = 0; i < c->count; i++)
        largest = fmax(largest, order * c->place[i]);
    for (int i = 0; i < c->count; i++) {
        const double w = c->mass[i] * exp(order * c->place[i] - largest), x = c->place[i];
        s0 += w;
        s1 += w * x;
        s2 += w * x * x;
    }
    *mean = s1 / s0;
    *variance = fmax(s2 / s0 - *mean * *mean, 0);
    return largest + log(s0);
}

double allocation_log_moment(const allocation_law *law, double order) {
    base_running sum = {0, 0};
    int64_t end = order > 0 ? law->count - 1 : 0; /* the exponential is largest there, and is taken as 1 */
    while (order > 0 ? end > 0 && !(law->mass[end] > 0) : end + 1 < law->count && !(law->mass[end] > 0))
        end += order > 0 ? -1 : 1;
    const double largest = order * law->step * (double)end;
    for (int64_t i = 0; i < law->count; i++)
        if (law->mass[i] > 0) base_running_add(&sum, law->mass[i] * exp(order * law->step * (double)i - largest));
    const double value = largest + log(base_running_value(&sum));
    return value + 1e-15 * (2 + fabs(largest) + fabs(order) * law->step * (double)law->count);
}

dpmf_status allocation_beside(const allocation_law *law, double copies, double target, double order, double *out) {
    double best = INFINITY, found = order, mean, variance;
    coarse *c = NULL;
    TRY(base_alloc(1, sizeof *c, "a coarse law", (void **)&c));
    make_coarse(law, c);
    for (int i = 0; i <= 8; i++) {
        const double tried = order * fmax(i / 8.0, 1e-6);
        const double log_moment = copies * coarse_log_moment(c, tried, &mean, &variance);
        double sum = 0;
        for (int j = 0; j < 200; j++) {
            const double s = 1.2 * target * (j + 0.5) / 200;
            sum += exp(fmin(log_moment - tried * s, 600)) * allocation_call(law, target - s);
        }
        if (sum < best) {
            best = sum;
            found = tried;
        }
    }
    *out = found;
    base_free(c);
    return DPMF_OK;
}

dpmf_status allocation_order(const allocation_law *law, double mean, double low, double high, double *order) {
    coarse *c = NULL;
    TRY(base_alloc(1, sizeof *c, "a coarse law", (void **)&c));
    make_coarse(law, c);
    for (int i = 0; i < 30; i++) { /* a tilt: roughly will do */
        const double middle = 0.5 * (low + high);
        double at, variance;
        (void)coarse_log_moment(c, middle, &at, &variance);
        *(at < mean ? &low : &high) = middle;
    }
    *order = high;
    base_free(c);
    return DPMF_OK;
}

typedef struct window {
    double low, high, up_rate, down_rate;
} window;

/* A ladder of rates on the scales of the deviation and of the largest place. */
static window choose_window(const allocation_law *law, const coarse *c, double copies, double order) {
    double mean, variance, unused, also;
    const double at = coarse_log_moment(c, order, &mean, &variance);
    const double deviation = sqrt(copies * variance) + law->step;
    window w = {-INFINITY, INFINITY, order + 1 / deviation, order - 1 / deviation};
    for (int i = 0; i < 32; i++) {
        const double scale = i < 16 ? deviation : law->cut, u = 0.3 * pow(1.4, i % 16) / scale;
        const double high = (copies * (coarse_log_moment(c, order + u, &unused, &also) - at) + DEEP) / u;
        const double low = -(copies * (coarse_log_moment(c, order - u, &unused, &also) - at) + DEEP) / u;
        if (high < w.high) {
            w.high = high;
            w.up_rate = order + u;
        }
        if (low > w.low) {
            w.low = low;
            w.down_rate = order - u;
        }
    }
    w.low = fmax(w.low, 0);
    return w;
}

/* Tilted, folded and raised to the power; the window's numbers in order. */
static dpmf_status fill_numbers(const allocation_law *law, allocation_sum *s, const dpmf_run *run) {
    const double u = GRID_ROUNDING, one = allocation_log_moment(law, s->order);
    double *w = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(s->length, "a tilted sum", &w));
    for (int64_t i = 0; i < law->count; i++) {
        const double exponent = s->order * law->step * (double)i;
        const double room = 1 + u * (16 + 4 * fabs(exponent) + 4 * fabs(one) + (double)(law->count / s->length));
        w[i % s->length] += law->mass[i] * exp(exponent - one) * room;
    }
    s->log_moment = (double)s->copies * one + 4 * u * (double)s->copies * fabs(one);
    TRY_DONE(grid_power(s->length, (double)s->copies, w, run, &s->noise));
    const int64_t offset = s->first % s->length;
    for (int64_t k = 0; k < s->length; k++) {
        const double value = w[(offset + k) % s->length];
        s->number[k] = value > 0 ? value : 0;
    }
done:
    base_free(w);
    return status;
}

dpmf_status allocation_sum_create(const allocation_law *law, int64_t copies, double order, double reach,
                                  const dpmf_run *run, allocation_sum *out) {
    allocation_sum s = {.copies = copies, .step = law->step, .order = order, .length = 64};
    const double m = (double)copies;
    coarse *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(1, sizeof *c, "a coarse law", (void **)&c));
    make_coarse(law, c);
    const window w = choose_window(law, c, m, order);
    s.first = (int64_t)fmax(floor(w.low / s.step) - 1, 0);
    double end = w.high / s.step;
    if (reach / s.step < REACH_MAX) end = fmax(end, reach / s.step);
    const double all = m * (double)(law->count - 1) + 1; /* places that the sum can have at all */
    if (all < REACH_MAX) end = all;
    const double wanted = fmin(end, all) - (double)s.first + 2;
    while ((double)s.length < wanted && s.length < LENGTH_MAX)
        s.length *= 2;
    s.up_rate = w.up_rate;
    s.down_rate = w.down_rate;
    s.up_log = m * allocation_log_moment(law, s.up_rate);
    s.down_log = m * allocation_log_moment(law, s.down_rate);
    s.up_log += 1e-15 * fabs(s.up_log);
    s.down_log += 1e-15 * fabs(s.down_log);
    if ((double)(s.first + s.length) >= all) s.up_log = -INFINITY; /* nothing is above the window */
    TRY_DONE(base_alloc_doubles(s.length, "the law of a sum", &s.number));
    TRY_DONE(fill_numbers(law, &s, run));
    const double low = s.step * (double)s.first, high = s.step * (double)(s.first + s.length);
    s.wrapped = exp(s.up_log - s.log_moment - (s.up_rate - order) * high) +
                (s.first > 0 ? exp(s.down_log - s.log_moment + (order - s.down_rate) * low) : 0);
    *out = s;
    s.number = NULL;
done:
    base_free(c);
    base_free(s.number);
    return status;
}

void allocation_sum_free(allocation_sum *sum) {
    base_free(sum->number);
    sum->number = NULL;
}
