/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: a proven lower bound of the weighted squared error in the class, in O(n b^2).
 *
 * Write T for diag(sqrt p) A and f(X) = tr(T X^-1 T') = sum_t p_t q_t, and let X' be any other member: banded, with a
 * diagonal d' that the participation allows. For any matrix J, from |X'^(-1/2) T' - X'^(1/2) J|^2 >= 0,
 *
 *     f(X') >= 2 tr(T J) - tr(V X'),  V = J J',   or, with the best multiple of J,   f(X') >= (tr T J)^2 / tr(V X').
 *
 * If V has no off-diagonal entries within the band, that is, if any b rows of J that follow one another are orthogonal,
 * then tr(V X') = sum V_tt d'_t, whose maximum over d' is known (families/banded/class.c). J0 = X^-1 T' at the optimum X
 * has this property: V0 = J0 J0' = -df/dX. Elsewhere Gram and Schmidt give it to J, exactly and at any distance from the
 * optimum: from row t of J0 they take its projections on the b-1 rows of J before,
 *
 *     (I + G) J = J0,   G[t,u] = J0_t . J_u / |J_u|^2  for t-b < u < t,
 *
 * and those rows are orthogonal already. For J = J0 + K and a unit diagonal 2 tr(T J) - tr(V X) = f(X) - tr(K' X K), so
 * the gap is quadratic in the gradient; K is small where J0 is nearly orthogonal, whatever n is (a K that goes through
 * T^-1 costs a factor n). Rows of J may still be multiplied by numbers s_t, of which the class knows good ones.
 *
 * All of it is one pass forward in time. With white z, y = C^-1 z, o = T y and (I + G) y^ = y, let U = J0 J' =
 * V0 (I + G)^-T. Then C U = Q with Q[t,u] = E[(T C^-1 e_t . o) y^_u] = l_t . E[state_t y^_u] / C[t,t], where l_t is the
 * slope that the backward pass leaves (families/banded/pass.c): only the covariances of the state with the last b-1 of y^ are
 * carried. Above the diagonal U[s,t] = V0[s,t] - sum_u G[t,u] U[s,u], from V0 within the band: taken from V = (I + G)^-1 U
 * instead, rounding errors grow exponentially near the beginning of long runs. tr(T S J) = sum_u s_u sum_t U[t,u] X[t,u].
 *
 * Rounding: |J_t|^2 = U[t,t] is also |J0_t|^2 - sum G[t,u]^2 |J_u|^2, with |J0_t|^2 from D = -2 C V0 by a recursion of its own.
 * What they differ by shows how much rounding there is, and is paid for in each row as if it stood in all entries of V; a
 * row of which rounding has left little gets s_t = 0, which needs no orthogonality. Where the weights p differ by many
 * orders of magnitude T, and the best C with it, is nearly singular, and rounding makes the rows less orthogonal than that
 * difference shows. PER_RATIO machine precisions times max p / min p are paid for that: no theorem, but more than what was
 * seen against 60 digits in small cases near the optimum, with weights down to 1e-19. (Far from it, where the bound is low
 * anyway, 1e-9 of the bound was seen beyond what is paid.)
 */
#include "base/memory.h"
#include "error/error.h"
#include "families/banded/banded.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows with less than this part left of |J0_t|^2, or of which rounding is more than this part, are left out (s_t = 0). */
static const double LEAST_LEFT = 1e-6, MOST_PAID = 0.1, PER_RATIO = 8;

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

/* V0 within the band: row t of D, from left to right, holds V0[t,u] times C[t,t] and entries of rows that are known. */
static void dual_matrix(int64_t n, int64_t b, const double *rows, const double *d, double *v) {
    for (int64_t t = 0; t < n; t++) {
        int64_t first = t < b ? 0 : t - b + 1;
        for (int64_t u = first; u <= t; u++) {
            double sum = -0.5 * d[t * b + t - u];
            for (int64_t s = first; s < u; s++)
                sum -= rows[t * b + t - s] * v[u * b + u - s];
            for (int64_t s = u; s < t; s++)
                sum -= rows[t * b + t - s] * v[s * b + s - u];
            v[t * b + t - u] = sum / rows[t * b];
        }
    }
}

/* ---- rows of J, one after the other ---- */

/*
 * The columns u = t-b+1 to t of U and of the covariances are kept in a ring, u in place u mod b; within a column the rows
 * t-b+2 to t lie in the ring of the pass, y_u in slot u mod (b-1), which before step t holds t-b+1 in the slot of t.
 */
typedef struct walk {
    const banded_pass *pass;
    int64_t b, slots, stride;
    double *lead;            /* stride: a_j of this step */
    double *cross;           /* b x stride: E[y_i y^_u] */
    double *with_m, *with_o; /* b: E[m y^_u], E[o y^_u] */
    double *u;               /* b x stride: U[i,u] */
    double *lags, *g;        /* b: U[t, t-k] and G[t, t-k] of this step */
    double *nu;              /* n: |J_t|^2 */
    double *tau;             /* n: sum_t U[t,u] X[t,u] */
    const double *x, *v0;    /* n x b: X, V0 */
} walk;

static dpmf_status walk_create(const banded_pass *pass, walk *w) {
    w->pass = pass;
    w->b = pass->bands;
    w->slots = pass->slots;
    w->stride = pass->stride;
    TRY(base_alloc_doubles(w->stride, "a row of C", &w->lead));
    TRY(base_alloc_doubles(w->b * w->stride, "covariances", &w->cross));
    TRY(base_alloc_doubles(w->b, "covariances", &w->with_m));
    TRY(base_alloc_doubles(w->b, "covariances", &w->with_o));
    TRY(base_alloc_doubles(w->b * w->stride, "products of rows", &w->u));
    TRY(base_alloc_doubles(w->b, "products of rows", &w->lags));
    TRY(base_alloc_doubles(w->b, "projections", &w->g));
    TRY(base_alloc_doubles(pass->n, "the dual diagonal", &w->nu));
    return base_alloc_doubles(pass->n, "traces", &w->tau);
}

static void walk_free(walk *w) {
    double *const all[] = {w->lead, w->cross, w->with_m, w->with_o, w->u, w->lags, w->g, w->nu, w->tau};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
}

/* U[t,u] from the covariances of state_t with y^_u and the rows of U before. */
static double enter(const walk *w, int64_t u, const double *slope, double seed) {
    const int64_t c = u % w->b, stride = w->stride;
    double q = banded_inner(stride, slope, w->cross + c * stride) + slope[stride] * w->with_m[c] +
               slope[stride + 1] * w->with_o[c];
    return seed * seed * q + banded_inner(stride, w->lead, w->u + c * stride);
}

/* State_t's covariances with the y^_u before t, U[t,u] into lags, and row t of G. */
static void project(walk *w, int64_t t, int64_t slot, const double *slope, double seed, const error_drive *d) {
    for (int64_t k = 1; k < w->b && k <= t; k++) {
        const int64_t c = (t - k) % w->b;
        double *cross = w->cross + c * w->stride, m = w->with_m[c];
        const double y = banded_inner(w->stride, w->lead, cross);
        cross[slot] = y;
        w->with_o[c] = d->keep * w->with_o[c] + d->p * m + d->g * y;
        w->with_m[c] = d->beta * m + y;
        w->lags[k] = enter(w, t - k, slope, seed);
        w->g[k] = w->nu[t - k] > 0 ? w->lags[k] / w->nu[t - k] : 0;
        w->tau[t - k] += w->lags[k] * w->x[t * w->b + k];
    }
}

/* Column t before y^_t and J_t have lost anything: the covariances of state_t with y_t, and V0. */
static void start_column(walk *w, int64_t t, int64_t slot, double seed, const error_drive *d) {
    const banded_pass *p = w->pass;
    const int64_t c = t % w->b, stride = w->stride;
    double *cross = w->cross + c * stride, *u = w->u + c * stride;
    w->with_o[c] = d->g * seed * seed + banded_inner(stride, w->lead, p->with_o + t * stride);
    w->with_m[c] = seed * seed;
    if (p->with_momentum) w->with_m[c] += banded_inner(stride, w->lead, p->with_m + t * stride);
    if (w->slots == 0) return;
    memcpy(cross, p->now + t * stride, (size_t)stride * sizeof *cross);
    cross[slot] = p->own[t];
    memset(u, 0, (size_t)stride * sizeof *u);
    for (int64_t m = 1, i = slot; m < w->b && m <= t; m++) {
        i = i == 0 ? w->slots - 1 : i - 1;
        u[i] = w->v0[t * w->b + m];
    }
}

/* Column t loses its projections on the columns before. */
static void subtract(walk *w, int64_t t) {
    const int64_t b = w->b, c = t % b, stride = w->stride;
    double *restrict cross = w->cross + c * stride, *restrict u = w->u + c * stride;
    for (int64_t k = 1; k < b && k <= t; k++) {
        const int64_t before = (t - k) % b;
        const double *restrict cross_k = w->cross + before * stride, *restrict u_k = w->u + before * stride;
        const double g = w->g[k];
        for (int64_t i = 0; i < stride; i++)
            cross[i] -= g * cross_k[i];
        for (int64_t i = 0; i < stride; i++)
            u[i] -= g * u_k[i];
        w->with_m[c] -= g * w->with_m[before];
        w->with_o[c] -= g * w->with_o[before];
    }
}

/* |J_t|^2 from two sides, 0 to leave the row out, and row t into the columns. */
static void close_row(walk *w, int64_t t, int64_t slot, double own) {
    const int64_t b = w->b;
    double other = w->v0[t * b];
    for (int64_t k = 1, i = slot; k < b && k <= t; k++) {
        other -= w->g[k] * w->lags[k];
        i = i == 0 ? w->slots - 1 : i - 1;
        w->tau[t] += w->u[t % b * w->stride + i] * w->x[t * b + k];
    }
    w->tau[t] += own * w->x[t * b];
    const double left = fmin(own, other), paid = (double)(2 * b) * fabs(own - other);
    w->nu[t] = left > LEAST_LEFT * w->v0[t * b] && paid < MOST_PAID * left ? fmax(own, other) + paid : 0;
    if (w->slots == 0) return;
    w->u[t % b * w->stride + slot] = own;
    for (int64_t k = 1; k < b && k <= t; k++)
        w->u[(t - k) % b * w->stride + slot] = w->lags[k];
}

static void walk_rows(walk *w, const double *rows, const double *slopes) {
    const banded_pass *p = w->pass;
    for (int64_t t = 0, slot = 0; t < p->n; t++) {
        const double *row = rows + t * w->b, *slope = slopes + t * (w->stride + 2), seed = 1 / row[0];
        const error_drive d = error_drive_at(p->workload, t);
        if (w->slots > 0) banded_lead(p, t, slot, row, w->lead);
        project(w, t, slot, slope, seed, &d);
        start_column(w, t, slot, seed, &d);
        subtract(w, t);
        close_row(w, t, slot, enter(w, t, slope, seed));
        if (w->slots > 0) slot = slot + 1 == w->slots ? 0 : slot + 1;
    }
}

/* The part of the bound that rounding may have added: in sums of n terms of one sign, and through the weights. */
static double rounding(int64_t n, const double *p) {
    double most = p[0], least = p[0];
    for (int64_t t = 1; t < n; t++) {
        most = fmax(most, p[t]);
        least = fmin(least, p[t]);
    }
    return DBL_EPSILON * ((double)(n + 64) + PER_RATIO * (most / least));
}

dpmf_status banded_bound(const banded_pass *pass, banded_class *c, const double *rows, const double *d,
                         const double *slopes, const double *weights, double *lower) {
    const int64_t n = c->n, b = c->bands;
    double *x = NULL, *v0 = NULL;
    walk w = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n * b, "C'C", &x));
    TRY_DONE(base_alloc_doubles(n * b, "the dual matrix", &v0));
    TRY_DONE(walk_create(pass, &w));
    gram(n, b, rows, x);
    dual_matrix(n, b, rows, d, v0);
    w.x = x;
    w.v0 = v0;
    walk_rows(&w, rows, slopes);
    const double bound = banded_class_least(c, w.nu, w.tau) * (1 - rounding(n, weights));
    *lower = isfinite(bound) ? fmax(bound, 0) : 0;
done:
    base_free(x);
    base_free(v0);
    walk_free(&w);
    return status;
}
