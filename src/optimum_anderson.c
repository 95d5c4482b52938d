/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anderson acceleration, type II (Anderson 1965; Walker and Ni 2011): with f_k = G(x_k) - x_k and the last differences
 * dX, dF, the next point is
 *
 *     x + f - (dX + dF) gamma,   gamma = argmin | f - dF gamma |.
 *
 * The few normal equations are scaled to unit diagonal and solved by Cholesky with a relative ridge of 1e-14, dropping
 * what is dependent. The caller watches the residual and restarts when it grows (optimum.c).
 */
#include "optimum_anderson.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

enum { DEPTH = DPMF_I_ANDERSON_DEPTH };

dpmf_status dpmf_i_anderson_create(int64_t n, int parts, dpmf_i_anderson *out) {
    dpmf_i_anderson a = {.n = n, .parts = parts};
    dpmf_status status = DPMF_OK;
    for (int i = 0; i < DEPTH; i++) {
        TRY_DONE(dpmf_i_alloc_doubles(n, "the acceleration's memory", &a.difference_x[i]));
        TRY_DONE(dpmf_i_alloc_doubles(n, "the acceleration's memory", &a.difference_f[i]));
    }
    TRY_DONE(dpmf_i_alloc_doubles(n, "the acceleration's memory", &a.last_x));
    TRY_DONE(dpmf_i_alloc_doubles(n, "the acceleration's memory", &a.last_f));
    *out = a;
done:
    if (status != DPMF_OK) dpmf_i_anderson_free(&a);
    return status;
}

void dpmf_i_anderson_free(dpmf_i_anderson *a) {
    for (int i = 0; i < DEPTH; i++) {
        dpmf_i_free(a->difference_x[i]);
        dpmf_i_free(a->difference_f[i]);
    }
    dpmf_i_free(a->last_x);
    dpmf_i_free(a->last_f);
}

void dpmf_i_anderson_restart(dpmf_i_anderson *a) {
    a->used = 0;
    a->has_last = 0;
}

static void remember(dpmf_i_anderson *a, const double *x, const double *f) {
    if (a->has_last) {
        int slot = (int)(a->turn++ % DEPTH);
        for (int64_t i = 0; i < a->n; i++) {
            a->difference_x[slot][i] = x[i] - a->last_x[i];
            a->difference_f[slot][i] = f[i] - a->last_f[i];
        }
        if (a->used < DEPTH) a->used++;
    } else {
        a->turn = 0;
    }
    memcpy(a->last_x, x, (size_t)a->n * sizeof *x);
    memcpy(a->last_f, f, (size_t)a->n * sizeof *f);
    a->has_last = 1;
}

/*
 * sum of weight x y. Octaves count alike, from either end: the solution varies with log t and log(n - t), and a plain
 * norm over a million steps would not see the few first and last ones, which decide the largest ratio.
 */
static double inner(const dpmf_i_anderson *a, const double *x, const double *y) {
    int64_t length = a->n / a->parts;
    double sum = 0;
    for (int64_t part = 0; part < a->parts; part++, x += length, y += length)
        for (int64_t t = 0; t < length; t++)
            sum += (1 / (double)(t + 1) + 1 / (double)(length - t)) * x[t] * y[t];
    return sum;
}

/* gamma by Cholesky of the scaled normal equations; a column that is (nearly) dependent gets 0. */
static void least_squares(const dpmf_i_anderson *a, const double *f, double gamma[DEPTH]) {
    double m[DEPTH][DEPTH], rhs[DEPTH], scale[DEPTH];
    int k = a->used, kept[DEPTH];
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++)
            m[i][j] = inner(a, a->difference_f[i], a->difference_f[j]);
        rhs[i] = inner(a, a->difference_f[i], f);
        scale[i] = m[i][i] > 0 ? 1 / sqrt(m[i][i]) : 0;
    }
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++)
            m[i][j] *= scale[i] * scale[j];
        m[i][i] += 1e-14;
        rhs[i] *= scale[i];
        double pivot = m[i][i];
        for (int j = 0; j < i; j++) {
            double sum = m[i][j];
            for (int l = 0; l < j; l++)
                sum -= m[i][l] * m[j][l];
            m[i][j] = kept[j] ? sum / m[j][j] : 0;
            pivot -= m[i][j] * m[i][j];
        }
        kept[i] = scale[i] > 0 && pivot > 1e-13;
        m[i][i] = kept[i] ? sqrt(pivot) : 1;
    }
    for (int i = 0; i < k; i++) {
        double sum = rhs[i];
        for (int j = 0; j < i; j++)
            sum -= m[i][j] * gamma[j];
        gamma[i] = kept[i] ? sum / m[i][i] : 0;
    }
    for (int i = k - 1; i >= 0; i--) {
        double sum = gamma[i];
        for (int j = i + 1; j < k; j++)
            sum -= m[j][i] * gamma[j];
        gamma[i] = kept[i] ? sum / m[i][i] : 0;
    }
    for (int i = 0; i < k; i++)
        gamma[i] *= scale[i];
}

void dpmf_i_anderson_step(dpmf_i_anderson *a, double *x, const double *f) {
    double gamma[DEPTH] = {0};
    remember(a, x, f);
    least_squares(a, f, gamma);
    for (int64_t i = 0; i < a->n; i++) {
        double next = x[i] + f[i];
        for (int k = 0; k < a->used; k++)
            next -= gamma[k] * (a->difference_x[k][i] + a->difference_f[k][i]);
        x[i] = next;
    }
}
