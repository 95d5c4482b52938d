/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The semidefinite program of the optimum, small and dense: minimize tr(M X^-1) over X > 0 that is 0 between the steps of one class
 * modulo b and whose diagonal sums to 1 over each class (b >= n: each diagonal entry is 1). These are linear equations, so X is
 * a start plus a combination of fixed symmetric matrices, and Newton's method with plain elimination finds the minimum of a
 * convex function without constraints. No code of the library is used.
 */
#include "oracle/oracle.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = ORACLE_SEMIDEFINITE_MAX, UNKNOWNS = N * (N + 1) / 2, STEPS = 200 };

/* A direction: +1 at (i, j) and (j, i); with i = j, +1 there and -1 at (k, k). */
typedef struct direction {
    int i, j, k;
} direction;

typedef struct program {
    int n, count;
    direction way[UNKNOWNS];
    double m[N * N], x[N * N], inverse[N * N], l[N * N]; /* l = X^-1 M X^-1 */
    double hessian[UNKNOWNS * UNKNOWNS], slope[UNKNOWNS];
} program;

/* a = inverse of a positive definite matrix by Gauss and Jordan; 0 if a pivot is not positive. */
static int invert(int n, const double *from, double *a) {
    memcpy(a, from, (size_t)(n * n) * sizeof *a);
    for (int k = 0; k < n; k++) {
        const double pivot = a[k * n + k];
        if (!(pivot > 1e-14)) return 0;
        a[k * n + k] = 1;
        for (int j = 0; j < n; j++)
            a[k * n + j] /= pivot;
        for (int i = 0; i < n; i++) {
            const double times = a[i * n + k];
            if (i == k) continue;
            a[i * n + k] = 0;
            for (int j = 0; j < n; j++)
                a[i * n + j] -= times * a[k * n + j];
        }
    }
    return 1;
}

static int value(program *p, const double *x, double *out) {
    double sum = 0;
    if (!invert(p->n, x, p->inverse)) return 0;
    for (int i = 0; i < p->n * p->n; i++)
        sum += p->m[i] * p->inverse[i];
    *out = sum;
    return 1;
}

/* tr(P B Q B') for two directions, P and Q symmetric. */
static double pair(const program *p, const direction *a, const direction *b) {
    double sum = 0;
    const int from[2][4] = {{a->i, a->j, a->j, a->i}, {a->i, a->i, a->k, a->k}};
    const int to[2][4] = {{b->i, b->j, b->j, b->i}, {b->i, b->i, b->k, b->k}};
    const int *u = from[a->k >= 0], *v = to[b->k >= 0];
    for (int s = 0; s < 4; s += 2)
        for (int t = 0; t < 4; t += 2) {
            const double sign = (a->k >= 0 && s == 2 ? -1 : 1) * (b->k >= 0 && t == 2 ? -1 : 1);
            sum += sign * p->inverse[u[s + 1] * p->n + v[t]] * p->l[v[t + 1] * p->n + u[s]];
        }
    return sum;
}

static void fill_slopes(program *p) {
    const int n = p->n;
    double half[N * N] = {0};
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                half[i * n + j] += p->inverse[i * n + k] * p->m[k * n + j];
    memset(p->l, 0, sizeof p->l);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            for (int k = 0; k < n; k++)
                p->l[i * n + j] += half[i * n + k] * p->inverse[k * n + j];
    for (int a = 0; a < p->count; a++) {
        const direction *d = &p->way[a];
        p->slope[a] = d->k < 0 ? -2 * p->l[d->i * n + d->j] : p->l[d->k * n + d->k] - p->l[d->i * n + d->i];
        for (int b = 0; b < p->count; b++)
            p->hessian[a * p->count + b] = 2 * pair(p, d, &p->way[b]);
    }
}

static void move(const program *p, double step, const double *along, double *x) {
    memcpy(x, p->x, (size_t)(p->n * p->n) * sizeof *x);
    for (int a = 0; a < p->count; a++) {
        const direction *d = &p->way[a];
        x[d->i * p->n + d->j] += step * along[a];
        if (d->k < 0) x[d->j * p->n + d->i] += step * along[a];
        if (d->k >= 0) x[d->k * p->n + d->k] -= step * along[a];
    }
}

static void set_ways(program *p, int b) {
    for (int i = 0; i < p->n; i++) {
        for (int j = 0; j < i; j++)
            if ((i - j) % b != 0) p->way[p->count++] = (direction){i, j, -1};
        if (i >= b) p->way[p->count++] = (direction){i, i, i % b};
        const int members = (p->n - 1 - i % b) / b + 1;
        p->x[i * p->n + i] = 1 / (double)members;
    }
}

double oracle_semidefinite(int n, const double *m, int b) {
    program *p = calloc(1, sizeof *p);
    static double inverse[UNKNOWNS * UNKNOWNS];
    double best = NAN, along[UNKNOWNS], x[N * N];
    if (p == NULL || n > N) return NAN;
    p->n = n;
    memcpy(p->m, m, (size_t)(n * n) * sizeof *m);
    set_ways(p, b);
    for (int step = 0; step < STEPS && value(p, p->x, &best); step++) {
        double decrement = 0, scale = 1, next = 0;
        fill_slopes(p);
        if (!invert(p->count, p->hessian, inverse)) break;
        for (int i = 0; i < p->count; i++) {
            along[i] = 0;
            for (int j = 0; j < p->count; j++)
                along[i] -= inverse[i * p->count + j] * p->slope[j];
            decrement -= along[i] * p->slope[i];
        }
        if (!(decrement > 1e-13 * best)) break;
        for (; scale > 1e-12; scale /= 2) {
            move(p, scale, along, x);
            if (value(p, x, &next) && next <= best - 0.1 * scale * decrement) break;
        }
        if (scale <= 1e-12) break;
        memcpy(p->x, x, sizeof x);
    }
    free(p);
    return best;
}
