/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimal C as a matrix, for those who want to see it or save it: from the solution v (and row weights p) of
 * optimum.c,
 *
 *     X = sum_j w_j (K + s_j V)^-1   normalised to unit diagonal,   C lower triangular with C'C = X.
 *
 * Each inverse is the covariance of a second-order recursion, so a column of it costs O(n) and X costs O(n^2) a node.
 * With J the reversal, J X J = L L' gives C = J L' J. A dense workload has X = V^-1/2 Z Sigma Z' V^-1/2 from the
 * singular vectors of P^1/2 A V^1/2.
 */
#include "base/linalg.h"
#include "base/lower.h"
#include "base/memory.h"
#include "base/quadrature.h"
#include "base/svd.h"
#include "optimum.h"
#include "optimum_phi.h"
#include "strategy.h"
#include "workload.h"

#include <math.h>
#include <string.h>

typedef struct banded_form {
    int64_t n;
    double *q[3], *root_v;
    double *alpha, *chi, *inverse; /* of the recursion, for one node */
    double r0, r1;
} banded_form;

static void form_free(banded_form *f) {
    for (int j = 0; j < 3; j++)
        dpmf_i_free(f->q[j]);
    dpmf_i_free(f->root_v);
    dpmf_i_free(f->alpha);
    dpmf_i_free(f->chi);
    dpmf_i_free(f->inverse);
}

/* The bands of Q times sqrt(1/p) of their column. */
static dpmf_status form_create(const dpmf_workload *a, const dpmf_i_optimum *o, banded_form *f) {
    int64_t n = f->n = a->steps;
    for (int j = 0; j < 3; j++)
        TRY(dpmf_i_alloc_doubles(n, "the bands of the inverse workload", &f->q[j]));
    TRY(dpmf_i_alloc_doubles(n, "weights", &f->root_v));
    TRY(dpmf_i_alloc_doubles(n, "a recursion", &f->alpha));
    TRY(dpmf_i_alloc_doubles(n, "a recursion", &f->chi));
    TRY(dpmf_i_alloc_doubles(n, "a recursion", &f->inverse));
    f->r0 = 1;
    for (int64_t t = 0; t < n; t++) {
        double q[3], r[2];
        TRY(dpmf_workload_inverse_row(a, t, q, r));
        for (int j = 0; j < 3 && j <= t; j++)
            f->q[j][t] = q[j] / sqrt(o->p == NULL ? 1 : o->p[t - j]);
        f->root_v[t] = sqrt(o->v[t]);
        f->r0 = r[0];
        if (t > 0) f->r1 = r[1];
    }
    return DPMF_OK;
}

/* A rotation of two columns that takes their first entries (x, y) to (length, 0). */
typedef struct rotation {
    double length, c, s;
} rotation;

static rotation turn(double x, double y) {
    double h = hypot(x, y);
    return h > 0 ? (rotation){h, x / h, y / h} : (rotation){0, 1, 0};
}

/*
 * H = Q Q' + s R V R' = U D U' from the bottom, by rotating the columns of [Q | sqrt(s) R V^1/2] so that H is never
 * formed: alpha_i = -U[i-1,i], chi_i = -U[i-2,i]. Pending is the lower triangle [p00; p10 p11] of rows (i, i-1).
 */
static void factor_node(banded_form *f, double root_shift) {
    int64_t n = f->n;
    int plain = f->r1 == 0;
    rotation a = turn(f->q[0][n - 1], plain ? 0 : f->r0 * root_shift * f->root_v[n - 1]);
    rotation b = turn(a.length, n > 1 ? f->q[1][n - 1] : 0);
    double corner = n > 1 ? f->q[0][n - 2] : 0, p00 = b.length, p10 = b.s * corner, p11 = b.c * corner;
    for (int64_t i = n - 1; i >= 0; i--) {
        /* column i-2 of Q in rows i, i-1, i-2, and a column of R V^1/2 in rows i, i-1 */
        double b0 = i >= 2 ? f->q[2][i] : 0, b1 = i >= 2 ? f->q[1][i - 1] : 0, b2 = i >= 2 ? f->q[0][i - 2] : 0;
        double noise = root_shift * (plain ? f->root_v[i] : i >= 1 ? f->root_v[i - 1] : 0);
        double n0 = plain ? noise : f->r1 * noise, n1 = plain ? 0 : f->r0 * noise;
        rotation first = turn(n0, p00);
        double w1 = first.c * n1 + first.s * p10, x1 = first.c * p10 - first.s * n1;
        rotation second = turn(first.length, b0);
        double u1 = second.c * w1 + second.s * b1, y1 = second.c * b1 - second.s * w1;
        double y2 = second.c * b2, r = second.length;
        f->alpha[i] = -u1 / r;
        f->chi[i] = -second.s * b2 / r;
        f->inverse[i] = 1 / (r * r);
        rotation third = turn(x1, p11), fourth = turn(third.length, y1);
        p00 = fourth.length;
        p10 = fourth.s * y2;
        p11 = fourth.c * y2;
    }
}

/*
 * Adds weight x (inverse of H) to the lower triangle of x: T_tt and T_{t,t-1} run from the top, then each column runs
 * down from its diagonal.
 */
static void add_inverse(const banded_form *f, double weight, double *x) {
    int64_t n = f->n;
    double here = 0, before = 0, cross = 0; /* T_{k-1,k-1}, T_{k-2,k-2}, T_{k-1,k-2} */
    for (int64_t k = 0; k < n; k++) {
        double a = f->alpha[k], b = f->chi[k];
        double own = a * a * here + 2 * a * b * cross + b * b * before + f->inverse[k];
        double side = a * here + b * cross; /* T_{k,k-1} */
        double last = own, second = side;   /* T_{i-1,k}, T_{i-2,k} */
        x[k * n + k] += weight * own;
        for (int64_t i = k + 1; i < n; i++) {
            double next = f->alpha[i] * last + f->chi[i] * second;
            x[i * n + k] += weight * next;
            second = last;
            last = next;
        }
        before = here;
        here = own;
        cross = side;
    }
}

/* X = R' Y R in place, lower triangle, R = r0 I + r1 N. */
static void apply_r(const banded_form *f, double *x) {
    int64_t n = f->n;
    if (f->r1 == 0) return;
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double below = i + 1 < n ? x[(i + 1) * n + k] : 0, corner = i + 1 < n ? x[(i + 1) * n + k + 1] : 0;
            double beside = k == i ? below : x[i * n + k + 1]; /* Y[i, k+1]; on the diagonal its mirror image */
            x[i * n + k] = f->r0 * f->r0 * x[i * n + k] + f->r0 * f->r1 * (below + beside) + f->r1 * f->r1 * corner;
        }
}

static dpmf_status banded_x(const dpmf_workload *a, const dpmf_i_optimum *o, const dpmf_run *run, double *x) {
    banded_form f = {0};
    dpmf_i_quadrature rule;
    dpmf_i_pool *pool = NULL;
    dpmf_i_phi *phi = NULL;
    double low = 0, high = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(form_create(a, o, &f));
    TRY_DONE(dpmf_i_pool_create(1, &pool));
    TRY_DONE(dpmf_i_phi_create(a, pool, &phi));
    TRY_DONE(dpmf_i_phi_interval(phi, o->v, o->p, &low, &high));
    dpmf_i_quadrature_fill(low, high, dpmf_i_quadrature_nodes(high / low, 1e-13), &rule);
    for (int j = 0; j < rule.count; j++) {
        TRY_DONE(dpmf_i_progress(run, "matrix", (double)j / rule.count));
        factor_node(&f, sqrt(rule.shift[j]));
        add_inverse(&f, rule.weight[j], x);
    }
    apply_r(&f, x);
done:
    dpmf_i_phi_free(phi);
    dpmf_i_pool_free(pool);
    form_free(&f);
    return status;
}

static dpmf_status matrix_x(const dpmf_workload *a, const dpmf_i_optimum *o, double *x) {
    int64_t n = a->steps;
    double *z = NULL, *u = NULL, *values = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_alloc_square(n, "the weighted workload", &z));
    TRY_DONE(dpmf_i_alloc_square(n, "its singular vectors", &u));
    TRY_DONE(dpmf_i_alloc_doubles(n, "its singular values", &values));
    for (int64_t t = 0; t < n; t++)
        for (int64_t k = 0; k <= t; k++)
            z[t * n + k] = sqrt(o->p == NULL ? 1 : o->p[t]) * a->matrix[t * n + k] * sqrt(o->v[k]);
    TRY_DONE(dpmf_i_svd(n, z, values, u));
    for (int64_t m = 0; m < n; m++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k <= i; k++)
                x[i * n + k] += values[m] * z[m * n + i] * z[m * n + k] / sqrt(o->v[i] * o->v[k]);
done:
    dpmf_i_free(z);
    dpmf_i_free(u);
    dpmf_i_free(values);
    return status;
}

/* Unit diagonal, reversed, both triangles: what Cholesky takes. */
static void normalise_reversed(int64_t n, const double *x, double *out) {
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++) {
            double value = i == k ? 1 : x[i * n + k] / sqrt(x[i * n + i] * x[k * n + k]);
            int64_t a = n - 1 - i, b = n - 1 - k;
            out[a * n + b] = out[b * n + a] = value;
        }
}

dpmf_status dpmf_i_optimum_explicit(const dpmf_workload *workload, const dpmf_i_optimum *optimum, const dpmf_run *run,
                                    dpmf_strategy **out) {
    int64_t n = workload->steps;
    double *x = NULL, *factor = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_alloc_square(n, "the matrix X", &x));
    TRY_DONE(dpmf_i_alloc_square(n, "its factor", &factor));
    TRY_DONE(workload->form == DPMF_I_WORKLOAD_DENSE ? matrix_x(workload, optimum, x)
                                                     : banded_x(workload, optimum, run, x));
    normalise_reversed(n, x, factor);
    TRY_DONE(dpmf_i_cholesky(n, factor));
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k <= i; k++)
            x[i * n + k] = factor[(n - 1 - k) * n + n - 1 - i];
    TRY_DONE(dpmf_strategy_create_dense(n, x, out));
done:
    dpmf_i_free(x);
    dpmf_i_free(factor);
    return status;
}
