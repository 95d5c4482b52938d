/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: a proven lower bound of the weighted squared error in the class, in O(n b^2).
 *
 * Write T for diag(sqrt p) A and f(X) = tr(T X^-1 T') = sum_t p_t q_t, and let X' be any other member: banded, with a
 * diagonal d' that the participation allows. For any matrix J, from |X'^(-1/2) T' - X'^(1/2) J|^2 >= 0,
 *
 *     f(X') >= 2 tr(T J) - tr(V X'),  V = J J',   or, with the best multiple of J,   f(X') >= (tr T J)^2 / tr(V X').
 *
 * If V has no off-diagonal entries within the band, tr(V X') = sum V_tt d'_t, whose maximum over d' is known
 * (optimize/banded/class.c). J = X^-1 T' at the optimum X has this property: then V = X^-1 T'T X^-1 = -df/dX. Near the
 * optimum that V0 has small entries E that should not be there. J = X^-1 T' - E X T^-1 / 2 removes them:
 *
 *     V = V0 - E + R,   R = E X (T'T)^-1 X E / 4,   tr(T J) = f(X) - tr(E X) / 2,
 *
 * and the second-order rest is paid for with |X'_ij| <= sqrt(d'_i d'_j) <= (d'_i + d'_j)/2: add sum_j |R_ij| to V_ii.
 * So the gap is quadratic in the gradient. Far from the optimum R is large and it is better to remove a part of E only:
 * with h E for E, h <= 1, what is left in the band is (1-h) E + h^2 R. Several h are tried. E may also hold diagonal entries, which make V0's diagonal one that is
 * optimal for the participation. (T'T)^-1 = A^-1 P^-1 A^-T is banded for the named workloads, so R is cheap; with
 * nesterov A^-1 = R^-1 Q has rows that fall off faster than 2^-j and are cut where they are below any rounding.
 *
 * V0 within the band comes from D = df/dC = -2 C V0: row t of this, from left to right, holds V0[t,u] times C[t,t] and
 * otherwise entries of rows that are known.
 */
#include "base/memory.h"
#include "optimize/banded/banded.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { TAIL = 64 }; /* columns of R^-1 that are kept: the next would be below 2^-64 of the first */

/* X[t, t-j] */
static void gram(int64_t n, int64_t b, const double *rows, double *x) {
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < b && j <= t; j++) {
            double sum = 0;
            for (int64_t r = t; r < n && r - (t - j) < b; r++)
                sum += rows[r * b + r - t] * rows[r * b + r - t + j];
            x[t * b + j] = sum;
        }
}

/* Entry (t,u) of a symmetric banded matrix. */
static double banded_entry(int64_t b, const double *m, int64_t t, int64_t u) {
    return t >= u ? m[t * b + t - u] : m[u * b + u - t];
}

/* V0 within the band. */
static void dual_matrix(int64_t n, int64_t b, const double *rows, const double *d, double *v) {
    for (int64_t t = 0; t < n; t++) {
        int64_t first = t < b ? 0 : t - b + 1;
        for (int64_t u = first; u <= t; u++) {
            double sum = -0.5 * d[t * b + t - u];
            for (int64_t s = first; s < t; s++)
                sum -= rows[t * b + t - s] * banded_entry(b, v, s, u);
            v[t * b + t - u] = sum / rows[t * b];
        }
    }
}

/* E and the diagonal of V0 - E, from V0 in place. */
static void split_dual(dpmf_i_optimize_banded_class *c, double *v, double *nu) {
    double level = 0;
    for (int64_t t = 0; t < c->n; t++) {
        nu[t] = v[t * c->bands];
        level += nu[t] * c->diagonal[t];
    }
    dpmf_i_optimize_banded_class_level(c, level, nu);
    for (int64_t t = 0; t < c->n; t++)
        v[t * c->bands] -= nu[t];
}

/* tr(E X) */
static double banded_trace(int64_t n, int64_t b, const double *e, const double *x) {
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < b && j <= t; j++)
            sum += (j == 0 ? 1 : 2) * e[t * b + j] * x[t * b + j];
    return sum;
}

/* Rows of U = E X A^-1 P^(-1/2), `width` numbers from column t - left on, the last `bands` of them in a ring. */
typedef struct rest {
    const dpmf_workload *workload;
    int64_t n, b, left, width;
    const double *e, *x, *weights;
    double *ring;
} rest;

static double *rest_row(const rest *r, int64_t t) {
    return r->ring + (t % r->b) * r->width;
}

/* Row t of E X, then times R^-1, then times Q, then the weights. */
static dpmf_status rest_fill(const rest *r, int64_t t) {
    double *u = rest_row(r, t) - (t - r->left); /* u[s] is column s */
    int64_t b = r->b, low = t - r->left < 0 ? 0 : t - r->left, high = low;
    int q_bands = 0, r_bands = 0;
    double q[3], f[2];
    memset(rest_row(r, t), 0, (size_t)r->width * sizeof *u);
    for (int64_t s = t - b + 1 < 0 ? 0 : t - b + 1; s < t + b && s < r->n; s++) {
        double scale = banded_entry(b, r->e, t, s);
        for (int64_t v = s - b + 1 < 0 ? 0 : s - b + 1; v < s + b && v < r->n; v++) {
            u[v] += scale * banded_entry(b, r->x, s, v);
            high = v;
        }
    }
    dpmf_workload_inverse_bands(r->workload, &q_bands, &r_bands);
    double carried = 0; /* R[s+1,s] times the entry s+1 of the solution */
    for (int64_t s = high; s >= low && r_bands > 0; s--) {
        TRY(dpmf_workload_inverse_row(r->workload, s, q, f));
        u[s] = (u[s] - carried) / f[0];
        carried = f[1] * u[s];
    }
    for (int64_t s = low; s <= high; s++) { /* (u Q)_s = sum_j u_{s+j} Q[s+j, s]: add to the columns on the left */
        TRY(dpmf_workload_inverse_row(r->workload, s, q, f));
        double here = u[s];
        u[s] = here * q[0];
        for (int j = 1; j <= q_bands; j++)
            if (s - j >= low) u[s - j] += here * q[j];
    }
    for (int64_t s = low; s <= high; s++)
        u[s] /= sqrt(r->weights[s]);
    return DPMF_OK;
}

/* The parts of E that are removed. */
static const double PARTS[] = {1, 0.5, 0.2, 0.05, 0};
enum { PARTS_COUNT = sizeof PARTS / sizeof PARTS[0] };

/*
 * In nu[i * n + t], for part i: V_tt + sum over u != t within the band of |V_tu|. nu[t] comes with the diagonal of
 * V0 - E.
 */
static dpmf_status add_rest(const rest *r, double *nu) {
    int64_t n = r->n;
    for (int64_t t = 0; t < n; t++) {
        TRY(rest_fill(r, t));
        const double *mine = rest_row(r, t);
        double level = nu[t] + r->e[t * r->b]; /* of V0 */
        for (int i = 0; i < PARTS_COUNT; i++)
            nu[i * n + t] = level;
        for (int64_t j = 0; j < r->b && j <= t; j++) {
            const double *other = rest_row(r, t - j); /* begins j columns further left */
            double sum = 0, e = r->e[t * r->b + j];
            for (int64_t i = 0; i + j < r->width; i++)
                sum += mine[i] * other[i + j];
            for (int i = 0; i < PARTS_COUNT; i++) {
                double h = PARTS[i], left = h * h * sum / 4 - h * e;
                if (j > 0) left = fabs(e + left);
                nu[i * n + t] += left;
                if (j > 0) nu[i * n + t - j] += left;
            }
        }
    }
    return DPMF_OK;
}

/* The bound of part i, from tr(E X). */
static double part_bound(dpmf_i_optimize_banded_class *c, int i, const double *nu, double total, double trace) {
    double top = fmax(0, total - 0.5 * PARTS[i] * trace);
    double bound = top * top / dpmf_i_optimize_banded_class_support(c, nu + i * c->n);
    bound *= 1 - DBL_EPSILON * (double)(c->n + 64); /* what rounding can do to sums of n terms of one sign */
    return isfinite(bound) ? fmin(bound, total) : 0;
}

dpmf_status dpmf_i_optimize_banded_bound(const dpmf_workload *workload, dpmf_i_optimize_banded_class *c,
                                         const double *rows, const double *d, const double *weights, double total,
                                         double *lower, double *whole) {
    int64_t n = c->n, b = c->bands;
    double *x = NULL, *e = NULL, *nu = NULL;
    int q_bands = 0, r_bands = 0;
    dpmf_status status = DPMF_OK;
    dpmf_workload_inverse_bands(workload, &q_bands, &r_bands);
    int64_t left = 2 * (b - 1) + q_bands + (r_bands > 0 ? TAIL : 0);
    rest r = {.workload = workload, .n = n, .b = b, .left = left, .width = left + 2 * (b - 1) + 1, .weights = weights};
    TRY_DONE(dpmf_i_base_alloc_doubles(n * b, "C'C", &x));
    TRY_DONE(dpmf_i_base_alloc_doubles(n * b, "the dual matrix", &e));
    TRY_DONE(dpmf_i_base_alloc_doubles(PARTS_COUNT * n, "the dual diagonal", &nu));
    TRY_DONE(dpmf_i_base_alloc_doubles(b * r.width, "rows", &r.ring));
    gram(n, b, rows, x);
    dual_matrix(n, b, rows, d, e);
    split_dual(c, e, nu);
    r.e = e;
    r.x = x;
    TRY_DONE(add_rest(&r, nu));
    double trace = banded_trace(n, b, e, x), best = 0;
    for (int i = 0; i < PARTS_COUNT; i++)
        best = fmax(best, part_bound(c, i, nu, total, trace));
    *lower = best;
    *whole = part_bound(c, 0, nu, total, trace);
done:
    dpmf_i_base_free(x);
    dpmf_i_base_free(e);
    dpmf_i_base_free(nu);
    dpmf_i_base_free(r.ring);
    return status;
}
