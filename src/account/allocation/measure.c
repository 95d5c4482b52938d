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
#include <assert.h>
#include <math.h>

static const double U = GRID_ROUNDING;

typedef allocation_measure measure;

void allocation_measure_free(allocation_measure *m) {
    base_free(m->mass);
    m->mass = NULL;
}

dpmf_status allocation_measure_copy(const allocation_measure *m, allocation_measure *out) {
    measure copy = *m;
    TRY(base_alloc_doubles(m->count, "a measure on a grid", &copy.mass));
    for (int64_t i = 0; i < m->count; i++)
        copy.mass[i] = m->mass[i];
    *out = copy;
    return DPMF_OK;
}

void allocation_measure_weigh(allocation_measure *m) {
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
dpmf_status allocation_measure_coarsen(allocation_measure *m, int doublings) {
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

void allocation_measure_trim(allocation_measure *m, double mass, double mean) {
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

/* out[i + j] += x[i] y[j], four rows at a time. */
static void convolve(int64_t nx, const double *restrict x, int64_t ny, const double *restrict y, double *restrict out) {
    int64_t i = 0;
    for (; i + 4 <= nx && ny >= 4; i += 4) {
        const double a = x[i], b = x[i + 1], c = x[i + 2], d = x[i + 3];
        double *restrict o = out + i;
        o[0] += a * y[0];
        o[1] += a * y[1] + b * y[0];
        o[2] += a * y[2] + b * y[1] + c * y[0];
        for (int64_t j = 3; j < ny; j++)
            o[j] += (a * y[j] + b * y[j - 1]) + (c * y[j - 2] + d * y[j - 3]);
        o[ny] += b * y[ny - 1] + c * y[ny - 2] + d * y[ny - 3];
        o[ny + 1] += c * y[ny - 1] + d * y[ny - 2];
        o[ny + 2] += d * y[ny - 1];
    }
    for (; i < nx; i++)
        for (int64_t j = 0; j < ny; j++)
            out[i + j] += x[i] * y[j];
}

dpmf_status allocation_measure_sum(const allocation_measure *x, const allocation_measure *y, allocation_measure *out) {
    const measure *longer = x->count > y->count ? x : y, *shorter = longer == x ? y : x;
    measure s = {.step = x->step, .first = x->first + y->first, .count = x->count + y->count - 1};
    assert(x->step == y->step);
    TRY(base_alloc_doubles(s.count, "a sum of measures", &s.mass));
    convolve(shorter->count, shorter->mass, longer->count, longer->mass, s.mass);
    s.total = x->total * y->total * (1 + 8 * U);
    s.mean = (x->mean * y->total + x->total * y->mean) * (1 + 8 * U);
    s.cut = (x->cut * y->total + x->total * y->cut) * (1 + 8 * U);
    s.cut_mean = (x->cut_mean * y->total + x->cut * y->mean + y->cut_mean * x->total + y->cut * x->mean) * (1 + 8 * U);
    s.error = x->error + y->error + (double)(shorter->count + 4) * U;
    *out = s;
    return DPMF_OK;
}

dpmf_status allocation_measure_join(const allocation_measure *x, double scale, const allocation_measure *y,
                                    allocation_measure *out) {
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
    allocation_measure_weigh(&s);
    *out = s;
    return DPMF_OK;
}
