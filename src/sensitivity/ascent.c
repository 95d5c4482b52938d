/* SPDX-License-Identifier: Apache-2.0 */
/*
 * f(X) = max { sum_ij X_ij <g_i,g_j> : |g_i| <= 1 } for one pattern, numerically, from both sides. For vectors of k or
 * more dimensions f is the semidefinite program max { <X,Y> : Y psd, Y_ii = 1 }, with the dual
 * min { sum d : Diag(d) - X psd }.
 *
 *     below   block ascent: g_i <- the unit vector along sum_{j != i} X_ij g_j, in turn. In sqrt(2k) dimensions and
 *             more it has, for almost all X, no maxima but the global ones (Boumal, Voroninski and Bandeira 2016).
 *     above   d_i = <g_i, (XG)_i> is dual feasible at the optimum. Wherever the ascent was stopped,
 *             d + max(0, -lambda) with lambda the least eigenvalue of Diag(d) - X is feasible: f <= sum d + k max(0,
 * -lambda).
 *
 * The bound above is never worse than that of the largest eigenvalue once the ascent has converged, needs no
 * convergence to be valid, and holds for vectors of any dimension.
 */
#include "sensitivity/sensitivity.h"

#include "base/linalg.h"
#include "base/random.h"
#include "base/sum.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { SWEEPS_MAX = 2000, SWEEPS_MIN = 5 };
static const double ASCENT_WORK = 4e9; /* multiplications: seconds, for the largest patterns */
static const double GAIN_MIN = 1e-16;  /* of a sweep: the bound above is off by its square root */

static int64_t dimensions(int64_t k) {
    return (int64_t)ceil(sqrt(2 * (double)k)) + 1;
}

/* The vectors, one more of them for the new direction, k numbers d and the value of every sweep's end. */
int64_t sensitivity_ascent_room(int64_t k) {
    return (k + 1) * dimensions(k) + 2 * k;
}

/* Makes it a unit vector; 0 if it is zero. */
static double normalize(int64_t r, double *g) {
    double norm = base_norm(r, g);
    for (int64_t a = 0; a < r && norm > 0; a++)
        g[a] /= norm;
    return norm;
}

static void start(int64_t k, int64_t r, double *g) {
    uint64_t state = 1; /* the same start on every machine */
    for (int64_t i = 0; i < k; i++) {
        for (int64_t a = 0; a < r; a++)
            g[i * r + a] = base_scatter(&state);
        normalize(r, g + i * r);
    }
}

/* sum_j X_ij g_j over j != i. */
static void pull(int64_t k, int64_t r, const double *x, const double *g, int64_t i, double *out) {
    memset(out, 0, (size_t)r * sizeof *out);
    for (int64_t j = 0; j < k; j++) {
        double weight = x[i * k + j];
        if (j == i || weight == 0) continue;
        for (int64_t a = 0; a < r; a++)
            out[a] += weight * g[j * r + a];
    }
}

/* One turn of all vectors; `gain` is what the value rose by, relative to its part from the pulls. */
static double sweep(int64_t k, int64_t r, const double *x, double *g, double *fresh) {
    double value = 0, gain = 0;
    for (int64_t i = 0; i < k; i++) {
        pull(k, r, x, g, i, fresh);
        double along = base_dot(r, g + i * r, fresh), norm = normalize(r, fresh);
        if (norm > 0) memcpy(g + i * r, fresh, (size_t)r * sizeof *g);
        value += norm;
        gain += norm - along;
    }
    return value > 0 ? gain / value : 0;
}

static int64_t sweeps_for(int64_t k, int64_t r) {
    double budget = ASCENT_WORK / ((double)k * (double)k * (double)r);
    return budget < SWEEPS_MIN ? SWEEPS_MIN : budget > SWEEPS_MAX ? SWEEPS_MAX : (int64_t)budget;
}

/* Least eigenvalue of a symmetric matrix, less what rounding may have added to it. `a` is destroyed. */
static dpmf_status least_eigenvalue(int64_t k, double *a, double *values, double *out) {
    double slack = 8 * (double)(k + 4) * DBL_EPSILON * base_norm(k * k, a); /* backward error of a stable method */
    TRY(base_symmetric_eigen(k, a, values));
    *out = values[0] - slack;
    return DPMF_OK;
}

dpmf_status sensitivity_pattern_spectral(int64_t k, const double *x, double *work, double *out) {
    double least = 0;
    for (int64_t i = 0; i < k * k; i++)
        work[i] = -x[i];
    TRY(least_eigenvalue(k, work, work + k * k, &least));
    *out = least < 0 ? -least * (double)k : 0;
    return DPMF_OK;
}

dpmf_status sensitivity_cover(int64_t k, int64_t r, int64_t sweeps, const double *x, double *g, double *work, double *d,
                              double *low, double *high) {
    double *fresh = g + k * r, *values = d + k, least = 0;
    base_running sum = {0};
    for (int64_t s = 0; s < sweeps; s++)
        if (sweep(k, r, x, g, fresh) <= GAIN_MIN) break;
    for (int64_t i = 0; i < k; i++) {
        pull(k, r, x, g, i, fresh);
        d[i] = x[i * k + i] + base_dot(r, g + i * r, fresh);
        base_running_add(&sum, d[i]);
    }
    for (int64_t i = 0; i < k * k; i++)
        work[i] = -x[i];
    for (int64_t i = 0; i < k; i++)
        work[i * k + i] += d[i];
    TRY(least_eigenvalue(k, work, values, &least));
    for (int64_t i = 0; i < k; i++)
        d[i] += least < 0 ? -least : 0;
    *low = base_running_value(&sum);
    *high = *low + (least < 0 ? -least * (double)k : 0);
    return DPMF_OK;
}

dpmf_status sensitivity_ascent(int64_t k, const double *x, double *work, double *vectors, double *u, double *low,
                               double *high) {
    const int64_t r = dimensions(k);
    double *g = vectors;
    start(k, r, g);
    TRY(sensitivity_cover(k, r, sweeps_for(k, r), x, g, work, g + (k + 1) * r, low, high));
    for (int64_t i = 0; i < k; i++)
        u[i] = base_dot(r, g, g + i * r) < 0 ? -1 : 1;
    return DPMF_OK;
}
