/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Eigenvalues and eigenvectors of small symmetric matrices: Householder's reduction to a tridiagonal matrix and the QL
 * iteration with implicit shifts (Martin, Reinsch and Wilkinson 1968; Bowdler, Martin, Reinsch and Wilkinson 1968: tred2 and
 * tql2), as stable as LAPACK's.
 *
 * We do not use LAPACK here because ascents and searches compute the eigenvalues of k x k matrices, k a number of epochs, many
 * thousand times. OpenBLAS would wake its threads for ten numbers, and these then spin for milliseconds each time.
 *
 * Numbers far from 1 are first divided by a power of two, since products of two of them must not leave the range of a double. An
 * answer that is not finite is an error: callers prove bounds with it.
 *
 * V[i,j] is held at v[j n + i], so that the columns that are rotated are contiguous and are the rows of the result; the
 * matrix itself is symmetric.
 */
#include "base/linalg.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = BASE_EIGEN_SMALL, ROUNDS_MAX = 60, NEAR_EXPONENT = 200 };

typedef struct eigen {
    int n;
    double *v, d[N_MAX], e[N_MAX]; /* d, e: the diagonal and the first subdiagonal */
} eigen;

static double *column(eigen *g, int j) {
    return g->v + (size_t)j * (size_t)g->n;
}

static double dot(int n, const double *x, const double *y) {
    double sum = 0;
    for (int i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

/* ---- reduction to a tridiagonal matrix ---- */

/* The reflection that clears row i except its last number, d holding that row; the rest of the matrix becomes H A H. */
static void reflect(eigen *g, int i, double scale) {
    double h = 0, f = 0, *d = g->d, *e = g->e;
    for (int k = 0; k < i; k++)
        d[k] /= scale;
    h = dot(i, d, d);
    const double root = d[i - 1] > 0 ? -sqrt(h) : sqrt(h);
    e[i] = scale * root;
    h -= d[i - 1] * root;
    d[i - 1] -= root;
    memset(e, 0, (size_t)i * sizeof *e);
    for (int j = 0; j < i; j++) { /* e = A d, from the lower triangle */
        const double *a = column(g, j);
        double sum = e[j] + a[j] * d[j];
        column(g, i)[j] = d[j];
        for (int k = j + 1; k < i; k++) {
            sum += a[k] * d[k];
            e[k] += a[k] * d[j];
        }
        e[j] = sum;
    }
    for (int j = 0; j < i; j++)
        e[j] /= h;
    f = dot(i, e, d) / (2 * h);
    for (int j = 0; j < i; j++)
        e[j] -= f * d[j];
    for (int j = 0; j < i; j++) {
        double *a = column(g, j);
        for (int k = j; k < i; k++)
            a[k] -= d[j] * e[k] + e[j] * d[k];
    }
    d[i] = h;
}

/* The product of the reflections, whose vectors are in the columns and their h in d. */
static void accumulate(eigen *g) {
    const int n = g->n;
    for (int i = 0; i < n - 1; i++) {
        double *u = column(g, i + 1);
        const double h = g->d[i + 1];
        column(g, i)[n - 1] = column(g, i)[i];
        column(g, i)[i] = 1;
        for (int j = 0; h != 0 && j <= i; j++) {
            double *a = column(g, j);
            const double part = dot(i + 1, u, a) / h;
            for (int k = 0; k <= i; k++)
                a[k] -= part * u[k];
        }
        for (int k = 0; k <= i; k++)
            u[k] = 0;
    }
    for (int j = 0; j < n; j++) {
        g->d[j] = column(g, j)[n - 1];
        column(g, j)[n - 1] = j == n - 1;
    }
}

static void reduce(eigen *g) {
    const int n = g->n;
    for (int j = 0; j < n; j++)
        g->d[j] = column(g, j)[n - 1];
    for (int i = n - 1; i > 0; i--) {
        double scale = 0;
        for (int k = 0; k < i; k++)
            scale += fabs(g->d[k]);
        if (scale > 0) {
            reflect(g, i, scale);
        } else {
            g->e[i] = 0;
            g->d[i] = 0;
            for (int j = 0; j < i; j++)
                column(g, i)[j] = 0;
        }
        for (int j = 0; j < i; j++) {
            g->d[j] = column(g, j)[i - 1];
            column(g, j)[i] = 0;
        }
    }
    g->d[0] = 0;
    accumulate(g);
    for (int i = 1; i < n; i++)
        g->e[i - 1] = g->e[i];
    g->e[n - 1] = 0;
}

/* ---- reduction to a diagonal matrix ---- */

/* One round of QL from m down to l, after the shift. */
static void one_round(eigen *g, int l, int m) {
    double *d = g->d, *e = g->e, p = d[m], c = 1, c2 = 1, c3 = 1, s = 0, s2 = 0;
    const double next = d[l + 1], beside = e[l + 1];
    for (int i = m - 1; i >= l; i--) {
        c3 = c2;
        c2 = c;
        s2 = s;
        const double part = c * e[i], h = c * p, r = hypot(p, e[i]);
        e[i + 1] = s * r;
        s = e[i] / r;
        c = p / r;
        p = c * d[i] - s * part;
        d[i + 1] = h + s * (c * part + s * d[i]);
        double *restrict x = column(g, i), *restrict y = column(g, i + 1);
        for (int k = 0; k < g->n; k++) {
            const double kept = y[k];
            y[k] = s * x[k] + c * kept;
            x[k] = c * x[k] - s * kept;
        }
    }
    p = -s * s2 * c3 * beside * e[l] / next;
    e[l] = s * p;
    d[l] = c * p;
}

/* The shift by the eigenvalue of the leading 2 x 2 part, taken off the rest of the diagonal. */
static double take_shift(eigen *g, int l) {
    double *d = g->d, *e = g->e;
    const double first = d[l], p = (d[l + 1] - first) / (2 * e[l]), r = p < 0 ? -hypot(p, 1) : hypot(p, 1);
    d[l] = e[l] / (p + r);
    d[l + 1] = e[l] * (p + r);
    const double shift = first - d[l];
    for (int i = l + 2; i < g->n; i++)
        d[i] -= shift;
    return shift;
}

/* Returns 0 if it did not converge. */
static int iterate(eigen *g) {
    double shift = 0, size = 0;
    for (int l = 0; l < g->n; l++) {
        int m = l, round = 0;
        size = fmax(size, fabs(g->d[l]) + fabs(g->e[l]));
        while (m < g->n - 1 && fabs(g->e[m]) > DBL_EPSILON * size)
            m++;
        for (; m > l && fabs(g->e[l]) > DBL_EPSILON * size; round++) {
            if (round == ROUNDS_MAX) return 0;
            shift += take_shift(g, l);
            one_round(g, l, m);
        }
        g->d[l] += shift;
        g->e[l] = 0;
    }
    return 1;
}

/* The power of two that the numbers are divided by: 0 where they are near 1. */
static int far_from_one(int n, const double *a) {
    double largest = 0;
    int exponent = 0;
    for (int i = 0; i < n * n; i++)
        largest = fmax(largest, fabs(a[i]));
    (void)frexp(largest, &exponent);
    return abs(exponent) > NEAR_EXPONENT ? exponent : 0;
}

static void shift_exponents(int count, int by, double *x) {
    for (int i = 0; by != 0 && i < count; i++)
        x[i] = ldexp(x[i], by);
}

dpmf_status base_eigen_small(int n, double *a, double *values) {
    eigen g = {.n = n, .v = a};
    const int exponent = far_from_one(n, a);
    shift_exponents(n * n, -exponent, a);
    reduce(&g);
    if (!iterate(&g))
        return base_fail(DPMF_ERROR_NUMERICAL, "the eigenvalues of a %d x %d matrix did not converge", n, n);
    for (int i = 0; i < g.n - 1; i++) {
        int least = i;
        for (int j = i + 1; j < g.n; j++)
            if (g.d[j] < g.d[least]) least = j;
        const double value = g.d[i];
        g.d[i] = g.d[least];
        g.d[least] = value;
        double *x = column(&g, i), *y = column(&g, least);
        for (int k = 0; least != i && k < g.n; k++) {
            const double kept = x[k];
            x[k] = y[k];
            y[k] = kept;
        }
    }
    shift_exponents(n, exponent, g.d);
    for (int i = 0; i < n; i++)
        if (!isfinite(g.d[i]))
            return base_fail(DPMF_ERROR_NUMERICAL,
                             "the eigenvalues of a %d x %d matrix are outside the range of a double", n, n);
    memcpy(values, g.d, (size_t)n * sizeof *values);
    return DPMF_OK;
}
