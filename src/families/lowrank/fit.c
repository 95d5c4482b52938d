/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-rank completion of the lower part of a matrix by alternating least squares (Denisov et al. 2022, Appendix H):
 *
 *     minimize sum over t - u >= h of (T[t,u] - l_t . r_u)^2
 *
 * With the r_u fixed each l_t is a least squares problem in r unknowns, and the other way round. The normal matrices
 * are running sums, of r_u r_u' over u <= t - h for row t and of l_t l_t' over t >= u + h for column u, so a sweep is
 * one pass over T, O(n^2 r): l_t needs row t alone, and row t then adds T[t,u] l_t to the right-hand side of every r_u.
 *
 * Sweeps converge slowly from afar. T is smooth away from the diagonal, so that every s-th row and column of it has
 * nearly the same factors: these are fitted first, where a sweep costs next to nothing, and interpolated.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "families/lowrank/lowrank.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    RANK_MAX = DPMF_LOWRANK_MAX,
    COARSE_STEPS = 512, /* a sweep over so many costs a millisecond */
    COARSE_SWEEPS = 1000,
    SWEEPS = 200
};
static const double RIDGE = 1e-9;   /* of the trace: rows with fewer entries than the rank have a solution too */
static const double SETTLED = 2e-4; /* a sweep that gains less than this part of the residual is the last */

/* (g + ridge) x = y by Cholesky, g symmetric with its lower half given and destroyed; x = 0 where g is. */
static void solve_normal(int64_t r, double *g, double *x) {
    double trace = 0;
    for (int64_t i = 0; i < r; i++)
        trace += g[i * r + i];
    if (!(trace > 0)) {
        memset(x, 0, (size_t)r * sizeof *x);
        return;
    }
    for (int64_t i = 0; i < r; i++) {
        g[i * r + i] += RIDGE * trace;
        for (int64_t j = 0; j <= i; j++) {
            double sum = g[i * r + j];
            for (int64_t k = 0; k < j; k++)
                sum -= g[i * r + k] * g[j * r + k];
            /* the ridge is above rounding, r^2 eps: the pivots are positive */
            g[i * r + j] = i == j ? sqrt(fmax(sum, RIDGE * RIDGE * trace)) : sum / g[j * r + j];
        }
        for (int64_t k = 0; k < i; k++)
            x[i] -= g[i * r + k] * x[k];
        x[i] /= g[i * r + i];
    }
    for (int64_t i = r - 1; i >= 0; i--) {
        for (int64_t k = i + 1; k < r; k++)
            x[i] -= g[k * r + i] * x[k];
        x[i] /= g[i * r + i];
    }
}

static void add_square(int64_t r, const double *x, double *gram) {
    for (int64_t i = 0; i < r; i++)
        for (int64_t j = 0; j <= i; j++)
            gram[i * r + j] += x[i] * x[j];
}

/* Work space of a fit: r_u and the right-hand sides for it, each as `rank` vectors of `steps` numbers. */
typedef struct work {
    double *right, *sums;
} work;

/* Every l_t, and the right-hand sides of the r_u. Returns the squared residual less that of l = 0. */
static double fit_left(lowrank_fit *f, const work *w) {
    int64_t n = f->steps, r = f->rank;
    double gram[RANK_MAX * RANK_MAX] = {0}, copy[RANK_MAX * RANK_MAX], explained = 0;
    memset(w->sums, 0, (size_t)(n * r) * sizeof(double));
    memset(f->left, 0, (size_t)(n * r) * sizeof(double));
    for (int64_t t = f->bands; t < n; t++) {
        const double *row = f->target + t * n;
        double *left = f->left + t * r, sides[RANK_MAX];
        int64_t count = t - f->bands + 1;
        add_square(r, f->right + (count - 1) * r, gram);
        for (int64_t k = 0; k < r; k++)
            left[k] = sides[k] = base_dot(count, row, w->right + k * n);
        memcpy(copy, gram, (size_t)(r * r) * sizeof *copy);
        solve_normal(r, copy, left);
        for (int64_t k = 0; k < r; k++) {
            double *sums = w->sums + k * n, factor = left[k];
            explained += factor * sides[k];
            for (int64_t u = 0; u < count; u++)
                sums[u] += factor * row[u];
        }
    }
    return -explained;
}

static void fit_right(lowrank_fit *f, const work *w) {
    int64_t n = f->steps, r = f->rank;
    double gram[RANK_MAX * RANK_MAX] = {0}, copy[RANK_MAX * RANK_MAX];
    memset(f->right, 0, (size_t)(n * r) * sizeof(double));
    for (int64_t u = n - 1 - f->bands; u >= 0; u--) {
        double *right = f->right + u * r;
        add_square(r, f->left + (u + f->bands) * r, gram);
        for (int64_t k = 0; k < r; k++)
            right[k] = w->sums[k * n + u];
        memcpy(copy, gram, (size_t)(r * r) * sizeof *copy);
        solve_normal(r, copy, right);
    }
}

/* The layout that inner products over u want. */
static void spread(const lowrank_fit *f, double *right) {
    for (int64_t u = 0; u < f->steps; u++)
        for (int64_t k = 0; k < f->rank; k++)
            right[k * f->steps + u] = f->right[u * f->rank + k];
}

static double square_of_part(const lowrank_fit *f) {
    double sum = 0;
    for (int64_t t = f->bands; t < f->steps; t++) {
        const double *row = f->target + t * f->steps;
        sum += base_dot(t - f->bands + 1, row, row);
    }
    return sum;
}

/* Sweeps from f->right on; the last is a half, so that `left` fits the final `right`. */
static dpmf_status sweep(lowrank_fit *f, int most, const dpmf_run *run) {
    work w = {0};
    dpmf_status status = DPMF_OK;
    double total = square_of_part(f), last = INFINITY;
    TRY_DONE(base_alloc_doubles(f->steps * f->rank, "the right factor", &w.right));
    TRY_DONE(base_alloc_doubles(f->steps * f->rank, "right-hand sides", &w.sums));
    f->converged = 0;
    for (f->sweeps = 0;; f->sweeps++) {
        TRY_DONE(base_progress(run, "lowrank: least squares", (double)f->sweeps / (double)most));
        spread(f, w.right);
        double square = fmax(total + fit_left(f, &w), 0);
        f->residual = total > 0 ? sqrt(square / total) : 0;
        f->converged = f->residual >= last * (1 - SETTLED) || f->residual < 1e-12;
        if (f->converged || f->sweeps == most) break;
        last = f->residual;
        fit_right(f, &w);
    }
done:
    base_free(w.right);
    base_free(w.sums);
    return status;
}

/* Legendre polynomials of the step. */
static void start_polynomials(lowrank_fit *f) {
    for (int64_t u = 0; u < f->steps; u++) {
        double x = (2 * (double)u + 1) / (double)f->steps - 1, before = 0, p = 1;
        for (int64_t k = 0; k < f->rank; k++) {
            f->right[u * f->rank + k] = p;
            double next = ((double)(2 * k + 1) * x * p - (double)k * before) / (double)(k + 1);
            before = p;
            p = next;
        }
    }
}

/* right of f from that of every stride-th step, linearly between them and constant after the last. */
static void interpolate(const lowrank_fit *coarse, int64_t stride, lowrank_fit *f) {
    int64_t r = f->rank, known = coarse->steps - coarse->bands; /* columns that have entries */
    for (int64_t u = 0; u < f->steps; u++) {
        int64_t i = u / stride < known - 1 ? u / stride : known - 1, next = i + 1 < known ? i + 1 : i;
        double part = (double)(u - i * stride) / (double)stride;
        for (int64_t k = 0; k < r; k++)
            f->right[u * r + k] = coarse->right[i * r + k] +
                                  (next == i ? 0 : part * (coarse->right[next * r + k] - coarse->right[i * r + k]));
    }
}

static dpmf_status start_coarse(lowrank_fit *f, int64_t stride, const dpmf_run *run) {
    int64_t m = (f->steps + stride - 1) / stride;
    lowrank_fit coarse = {.steps = m, .bands = (f->bands + stride - 1) / stride, .rank = f->rank};
    double *target = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(m * m, "a coarse matrix", &target));
    TRY_DONE(base_alloc_doubles(m * f->rank, "a coarse factor", &coarse.left));
    TRY_DONE(base_alloc_doubles(m * f->rank, "a coarse factor", &coarse.right));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j <= i; j++)
            target[i * m + j] = f->target[i * stride * f->steps + j * stride];
    coarse.target = target;
    start_polynomials(&coarse);
    TRY_DONE(sweep(&coarse, COARSE_SWEEPS, run));
    interpolate(&coarse, stride, f);
done:
    base_free(target);
    base_free(coarse.left);
    base_free(coarse.right);
    return status;
}

dpmf_status lowrank_solve(lowrank_fit *fit, const dpmf_run *run) {
    int64_t stride = fit->steps / COARSE_STEPS;
    assert(fit->rank >= 1 && fit->rank <= RANK_MAX && fit->bands >= 1);
    /* bands that leave the coarse matrix nothing to fit leave little to the fine one */
    if (stride < 2 || fit->bands >= fit->steps / 2) {
        start_polynomials(fit);
        return sweep(fit, stride < 2 ? COARSE_SWEEPS : SWEEPS, run);
    }
    TRY(start_coarse(fit, stride, run));
    return sweep(fit, SWEEPS, run);
}
