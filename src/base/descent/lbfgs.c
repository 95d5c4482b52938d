/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two loops of limited-memory BFGS (Nocedal 1980; Nocedal and Wright 2006, Algorithm 7.4), with the usual scaling
 * s.y / y.y of the first guess. We wrote our own because the optimum changes its objective on the way, bounds the
 * change of each unknown and stops on a certificate, because memory must come from our allocator, and because sums must
 * not depend on a library's threads.
 *
 * Both loops are bound by memory. A multiple of one vector is added and the product with the next one taken in the same
 * pass (add_and_dot), so that each pass reads three vectors where two would read four. Vectors lie at a distance that
 * is no multiple of a page: loads behind stores with the same last twelve bits of the address would wait for them.
 */
#include "base/descent/lbfgs.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <math.h>

enum {
    BLOCK = 1024, /* unknowns per running sum of add_and_dot, a multiple of LANES */
    LANES = 8     /* doubles of a cache line, and running sums side by side */
};

dpmf_status descent_lbfgs_create(int64_t n, int pairs, descent_lbfgs *out) {
    descent_lbfgs m = {.n = n, .pairs = pairs};
    assert(n >= 1 && pairs >= 1 && pairs <= DESCENT_LBFGS_PAIRS_MAX);
    m.stride = (n + LANES - 1) / LANES * LANES + LANES;
    if (m.stride % 512 == 0) m.stride += LANES;
    TRY(base_alloc_doubles(2 * pairs * m.stride, "the optimizer's memory", &m.vectors));
    *out = m;
    return DPMF_OK;
}

void descent_lbfgs_free(descent_lbfgs *m) {
    base_free(m->vectors);
    *m = (descent_lbfgs){0};
}

void descent_lbfgs_forget(descent_lbfgs *m) {
    m->used = 0;
}

static double *step_of(const descent_lbfgs *m, int64_t i) {
    return m->vectors + i * m->stride;
}

static double *change_of(const descent_lbfgs *m, int64_t i) {
    return m->vectors + (m->pairs + i) * m->stride;
}

/* y = scale (y + factor x), block by block, and y . z. z may be y. */
static double add_and_dot(int64_t n, double factor, const double *x, double scale, double *y, const double *z) {
    double sums[LANES] = {0}, rest = 0;
    for (int64_t from = 0; from < n; from += BLOCK) {
        double s[LANES] = {0};
        int64_t to = from + BLOCK < n ? from + BLOCK : n, i = from;
        for (; i + LANES <= to; i += LANES) {
            double now[LANES];
            for (int64_t j = 0; j < LANES; j++)
                now[j] = scale * (y[i + j] + factor * x[i + j]);
            for (int64_t j = 0; j < LANES; j++)
                y[i + j] = now[j];
            for (int64_t j = 0; j < LANES; j++)
                s[j] += now[j] * z[i + j];
        }
        for (; i < to; i++) {
            y[i] = scale * (y[i] + factor * x[i]);
            rest += y[i] * z[i];
        }
        for (int64_t j = 0; j < LANES; j++)
            sums[j] += s[j];
    }
    return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7])) + rest;
}

void descent_lbfgs_direction(const descent_lbfgs *m, const double *gradient, double *d) {
    double along[DESCENT_LBFGS_PAIRS_MAX], last = 0;
    for (int64_t i = 0; i < m->n; i++)
        d[i] = -gradient[i];
    if (m->used == 0) return;
    const int64_t newest = (m->turn - 1) % m->pairs, oldest = (m->turn - m->used) % m->pairs;
    const double scale = m->product[newest] / (m->length * m->length);
    last = base_dot(m->n, step_of(m, newest), d);
    for (int k = 1; k <= m->used; k++) { /* the newest first */
        const int64_t i = (m->turn - k) % m->pairs;
        const int end = k == m->used;
        const double *with = end ? change_of(m, oldest) : step_of(m, (m->turn - k - 1) % m->pairs);
        along[i] = last / m->product[i];
        last = add_and_dot(m->n, -along[i], change_of(m, i), end ? scale : 1, d, with);
    }
    for (int k = m->used; k >= 1; k--) {
        const int64_t i = (m->turn - k) % m->pairs;
        const double *with = k > 1 ? change_of(m, (m->turn - k + 1) % m->pairs) : d;
        last = add_and_dot(m->n, along[i] - last / m->product[i], step_of(m, i), 1, d, with);
    }
}

void descent_lbfgs_remember(descent_lbfgs *m, const double *x, const double *gradient, const double *next,
                            const double *next_gradient) {
    const int64_t i = m->turn % m->pairs;
    double *restrict step = step_of(m, i), *restrict change = change_of(m, i);
    for (int64_t j = 0; j < m->n; j++) {
        step[j] = next[j] - x[j];
        change[j] = next_gradient[j] - gradient[j];
    }
    const double product = base_dot(m->n, step, change), length = base_norm(m->n, change);
    /* curvature below rounding would spoil the estimate; the next pair overwrites the slot */
    if (!(product > 1e-10 * base_norm(m->n, step) * length)) {
        if (m->used == m->pairs) m->used--; /* the slot held the oldest pair */
        return;
    }
    m->product[i] = product;
    m->length = length;
    m->turn++;
    if (m->used < m->pairs) m->used++;
}
