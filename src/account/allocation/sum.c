/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum of m independent likelihood ratios on their grid, tilted by e^(order s), on a window, by Fourier transform.
 *
 * As in account/grid/compose.c: the power in frequency space is circular, so that the window's numbers are at least the true
 * ones, and account/grid/power.c bounds its rounding. What lies outside the window is bounded by Chernoff: for any rate r >
 * order, a payoff f and s from `top` on,
 *
 *     sum p(s) f(s) <= E[e^(r S)] sup_{s >= top} f(s) e^(-r s),     E[e^(r S)] = (sum_i mass_i e^(r x_i))^m,
 *
 * and below the window with rates r < order. Rates and window are chosen with a coarse copy of the law, so that e^-DEEP of
 * the tilted mass is outside; the moments that the bounds use are of the law itself.
 */
#include "account/allocation/allocation.h"

#include "base/memory.h"
#include "base/sum.h"
#include <math.h>

enum { COARSE = 1500, LENGTH_MAX = 1 << 21, REACH_MAX = 1 << 17 };
static const double DEEP = 40;

typedef struct coarse {
    int count;
    double mass[COARSE + 2], place[COARSE + 2];
} coarse;

/* Finer near the first cell that weighs anything, where most of the mass is: groups that grow with the distance. */
static void make_coarse(const allocation_law *law, coarse *c) {
    int64_t start = 0;
    while (start + 1 < law->count && !(law->mass[start] > 1e-40))
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
    const double largest = order > 0 ? order * law->step * (double)(law->count - 1) : 0;
    base_running sum = {0, 0};
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
    const double wanted = fmin(end, m * (double)law->count) - (double)s.first + 2;
    while ((double)s.length < wanted && s.length < LENGTH_MAX)
        s.length *= 2;
    s.up_rate = w.up_rate;
    s.down_rate = w.down_rate;
    s.up_log = m * allocation_log_moment(law, s.up_rate);
    s.down_log = m * allocation_log_moment(law, s.down_rate);
    s.up_log += 1e-15 * fabs(s.up_log);
    s.down_log += 1e-15 * fabs(s.down_log);
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
