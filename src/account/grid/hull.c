/* SPDX-License-Identifier: Apache-2.0 */
/*
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
#include "account/grid/grid.h"

#include "base/memory.h"
#include <assert.h>
#include <math.h>

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

/* A curve falls, and lies between 0 and 1; what is not a number is 1. */
static void tidy(int64_t last, double *values) {
    for (int64_t i = 0; i <= last; i++) {
        if (!(values[i] >= 0 && values[i] <= 1)) values[i] = 1;
        if (i > 0) values[i] = fmin(values[i], values[i - 1]);
    }
}

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
        tidy(last, values);
        if (values[last] <= 4 * mass || i == LONGER || last == POINTS_MAX) {
            *out = (side){last, values};
            return DPMF_OK;
        }
        base_free(values);
    }
}

dpmf_status hull_atoms_create(const grid_part *part, int reversed, double step, double mass, const dpmf_run *run,
                              hull_atoms *out) {
    side up = {0, NULL}, down = {0, NULL};
    hull_atoms a = {.times = (double)part->times};
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

void hull_atoms_free(hull_atoms *atoms) {
    base_free(atoms->mass);
    atoms->mass = NULL;
}
