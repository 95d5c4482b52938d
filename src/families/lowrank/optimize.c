/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Optimize low-rank decoders (Denisov et al. 2022, Appendix H): the optimal B = A C^-1 with its first h diagonals kept
 * and the rest of its lower triangle replaced by a matrix of rank r, found by alternating least squares. Then
 *
 *     W = A^-1 B    for A^-1 of q + 1 bands is a band of h + q diagonals plus rank r: l_t <- sum_j A^-1[t,t-j] l_{t-j}
 *
 * which streams with h + q - 1 + r buffers (families/lowrank/object.c), h + r for prefix sums, as many as in the paper. Where
 * A^-1 has no bands (Nesterov momentum, matrices, operators) W itself is approximated, with h + 1 diagonals.
 *
 * The paper takes C = B^-1 A as it comes, whose largest column norm is the sensitivity. We scale row t of W by the norm
 * of column t of C: the same class, every column of C then has norm 1, and the loss is smaller. Roots of the total
 * squared loss for prefix sums with the paper's (h, r), h + r buffers, and for TV-BLT, one buffer per node:
 *
 *     n                  256        512       1024      2048      4096
 *     (h, r)             (4, 4)     (5, 4)    (5, 5)    (6, 5)    (6, 6)
 *     paper              40.4       62.2      95.5      145.8     224.0
 *     here               40.3982    62.0212   94.7214   144.1049  218.6941
 *     tvblt, 4 nodes     40.3929    61.9943   94.6061   143.6608  217.2225
 *     tvblt, h + r nodes 40.3906    61.9852   94.5745   143.5626  216.9454
 *     optimum            40.3906    61.9852   94.5745   143.5626  216.9454
 *
 * TV-BLT with four buffers is already better at each of these, with as many as here it is at the optimum, and it needs
 * no matrix. With momentum 0.95, where a node of a TV-BLT keeps two buffers, this family is the better one of as many
 * buffers for few steps (ratio to the optimum, the same (h, r), one buffer more):
 *
 *     n                  256        512       1024      2048      4096
 *     here               1.000002   1.00005   1.0002    1.0023    1.0082
 *     tvblt              1.0009     1.0003    1.0004    1.0001    1.0002
 *
 * O(n^3) once for the inverse, O(n^2 r) a sweep; up to DPMF_DENSE_STEPS_MAX steps.
 */
#include "families/lowrank/lowrank.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "design/design.h"
#include "optimize/optimize.h"
#include "optimum/optimum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* What is approximated, B or W, and how W follows. */
typedef struct decoder {
    int64_t steps, bands, rank;
    int64_t added; /* bands that A^-1 adds; the target is W itself where it has none, and then 0 */
    double *matrix;
    double *left, *right;
    double *rows; /* of W, bands + added */
} decoder;

/* d->matrix = A C^-1, row by row in place, or C^-1. */
static dpmf_status make_target(const dpmf_workload *a, const dpmf_strategy *best, decoder *d) {
    int64_t n = d->steps;
    double *state = NULL, *row = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "the decoder", &d->matrix));
    memcpy(d->matrix, strategy_matrix(best), (size_t)(n * n) * sizeof(double));
    TRY_DONE(base_lower_invert(n, d->matrix));
    if (d->added == 0) goto done;
    TRY_DONE(base_alloc_doubles(workload_buffers(a) * n, "the workload's state", &state));
    TRY_DONE(base_alloc_doubles(n, "a row", &row));
    for (int64_t t = 0; t < n; t++) {
        memcpy(row, d->matrix + t * n, (size_t)n * sizeof *row);
        workload_step(a, t, n, row, state, d->matrix + t * n);
    }
done:
    base_free(state);
    base_free(row);
    return status;
}

/* Rows with a large weight are to be fitted better. */
static void scale_rows(const double *weights, int undo, int64_t n, int64_t columns, double *matrix) {
    for (int64_t t = 0; weights != NULL && t < n; t++)
        for (int64_t u = 0; u < columns; u++)
            matrix[t * columns + u] *= undo ? 1 / sqrt(weights[t]) : sqrt(weights[t]);
}

static dpmf_status fit(const dpmf_optimize_options *o, decoder *d, dpmf_optimization *result) {
    int64_t n = d->steps;
    const double *weights = d->added == 0 ? NULL : o->weights;
    TRY(base_alloc_doubles(n * d->rank, "the left factor", &d->left));
    TRY(base_alloc_doubles(n * d->rank, "the right factor", &d->right));
    lowrank_fit f = {
        .steps = n, .bands = d->bands, .rank = d->rank, .target = d->matrix, .left = d->left, .right = d->right};
    scale_rows(weights, 0, n, n, d->matrix);
    TRY(lowrank_solve(&f, &o->run));
    scale_rows(weights, 1, n, n, d->matrix);
    scale_rows(weights, 1, n, d->rank, d->left);
    result->iterations = f.sweeps;
    result->outcome = f.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT;
    return DPMF_OK;
}

/* Entry (t, u) of the approximation of the target. */
static double decoder_entry(const decoder *d, int64_t t, int64_t u) {
    if (u > t) return 0;
    if (t - u < d->bands) return d->matrix[t * d->steps + u];
    double sum = 0;
    for (int64_t k = 0; k < d->rank; k++)
        sum += d->left[t * d->rank + k] * d->right[u * d->rank + k];
    return sum;
}

/* From B to W = A^-1 B; from the last row up, so that the rows of `left` above are still those of B. */
static dpmf_status undo_workload(const dpmf_workload *a, decoder *d) {
    int64_t n = d->steps, wide = lowrank_smaller(d->bands + d->added, n);
    TRY(base_alloc_doubles(n * wide, "the bands of W", &d->rows));
    for (int64_t t = n - 1; t >= 0; t--) {
        double q[3] = {1, 0, 0}, r[2] = {1, 0}, *left = d->left + t * d->rank;
        if (d->added > 0) TRY(dpmf_workload_inverse_row(a, t, q, r));
        for (int64_t i = 0; i < wide && i <= t; i++) {
            double sum = 0;
            for (int64_t j = 0; j <= d->added && j <= t; j++)
                sum += q[j] * decoder_entry(d, t - j, t - i);
            d->rows[t * wide + i] = sum;
        }
        for (int64_t k = 0; k < d->rank; k++) {
            double sum = 0;
            for (int64_t j = 0; j <= d->added && j <= t; j++)
                sum += q[j] * d->left[(t - j) * d->rank + k];
            left[k] = t < wide ? 0 : sum; /* rows above have no entries below the band */
        }
    }
    return DPMF_OK;
}

/* Row t of W times the norm of column t of C: then all columns have norm 1. */
static dpmf_status normalize(decoder *d, dpmf_strategy **out) {
    int64_t n = d->steps, wide = lowrank_smaller(d->bands + d->added, n);
    dpmf_strategy *raw = NULL;
    double *norms = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_strategy_create_lowrank(n, wide, d->rank, d->rows, d->left, d->right, &raw));
    TRY_DONE(base_alloc_doubles(n, "norms", &norms));
    TRY_DONE(dpmf_strategy_column_norms(raw, norms));
    for (int64_t t = 0; t < n; t++) {
        if (!isfinite(norms[t])) {
            status = base_fail(DPMF_ERROR_NUMERICAL, "lowrank: the norm of column %lld is not finite", (long long)t);
            goto done;
        }
        for (int64_t j = 0; j < wide; j++)
            d->rows[t * wide + j] *= norms[t];
        for (int64_t k = 0; k < d->rank; k++)
            d->left[t * d->rank + k] *= norms[t];
    }
    TRY_DONE(dpmf_strategy_create_lowrank(n, wide, d->rank, d->rows, d->left, d->right, out));
done:
    dpmf_strategy_free(raw);
    base_free(norms);
    return status;
}

static dpmf_status approximate(const optimize_task *task, const optimum_answer *optimum, dpmf_strategy **out,
                               dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    int q = 0, r = 0;
    workload_inverse_bands(task->workload, &q, &r);
    int banded = q >= 0 && r == 0;
    decoder d = {.steps = task->workload->steps, .rank = o->buffers, .added = banded ? q : 0};
    d.bands = lowrank_smaller(o->bands + !banded, d.steps);
    dpmf_strategy *best = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(optimum_explicit(task->workload, optimum, &o->run, &best));
    TRY_DONE(make_target(task->workload, best, &d));
    dpmf_strategy_free(best);
    best = NULL;
    TRY_DONE(fit(o, &d, result));
    TRY_DONE(undo_workload(task->workload, &d));
    TRY_DONE(normalize(&d, out));
done:
    dpmf_strategy_free(best);
    base_free(d.matrix);
    base_free(d.left);
    base_free(d.right);
    base_free(d.rows);
    return status;
}

dpmf_status lowrank_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    optimum_answer optimum = {0};
    dpmf_optimization found = {.outcome = DPMF_CONVERGED};
    dpmf_status status = DPMF_OK;
    if (!workload_is_single(task->participation))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family lowrank is optimized for single participation, not for %s",
                         task->participation->text);
    if (task->workload->steps > DPMF_DENSE_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "family lowrank: %lld steps, accepted 1 to %d (tvblt has no limit)",
                         (long long)task->workload->steps, DPMF_DENSE_STEPS_MAX);
    TRY_DONE(optimum_solve(task->workload, o->loss == DPMF_LOSS_MAX, o->weights, o->tolerance, &o->run, &optimum));
    if (out != NULL) TRY_DONE(approximate(task, &optimum, out, &found));
    found.optimum_lower = optimum.lower;
    found.optimum_upper = optimum.upper;
    found.scope = "any mechanism: dual of the optimum";
    *result = found;
done:
    optimum_free(&optimum);
    return status;
}

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

enum {
    RANK_MAX = DPMF_LOWRANK_MAX,
    COARSE_STEPS = 512, /* a sweep over these costs a millisecond */
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
        /* The layout that inner products over u want. */
        for (int64_t u = 0; u < f->steps; u++)
            for (int64_t k = 0; k < f->rank; k++)
                w.right[k * f->steps + u] = f->right[u * f->rank + k];
        double square = fmax(total + fit_left(f, &w), 0);
        f->residual = total > 0 ? sqrt(square / total) : 0;
        f->converged = f->residual >= last * (1 - SETTLED) || f->residual < 1e-12;
        if (f->converged || f->sweeps == most) break;
        last = f->residual;
        int64_t n = f->steps, r = f->rank;
        double gram[RANK_MAX * RANK_MAX] = {0}, copy[RANK_MAX * RANK_MAX];
        memset(f->right, 0, (size_t)(n * r) * sizeof(double));
        for (int64_t u = n - 1 - f->bands; u >= 0; u--) {
            double *right = f->right + u * r;
            add_square(r, f->left + (u + f->bands) * r, gram);
            for (int64_t k = 0; k < r; k++)
                right[k] = w.sums[k * n + u];
            memcpy(copy, gram, (size_t)(r * r) * sizeof *copy);
            solve_normal(r, copy, right);
        }
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
    /* right of f from that of every stride-th step, linearly between them and constant after the last. */
    int64_t r = f->rank, known = coarse.steps - coarse.bands; /* columns that have entries */
    for (int64_t u = 0; u < f->steps; u++) {
        int64_t i = u / stride < known - 1 ? u / stride : known - 1, next = i + 1 < known ? i + 1 : i;
        double part = (double)(u - i * stride) / (double)stride;
        for (int64_t k = 0; k < r; k++)
            f->right[u * r + k] = coarse.right[i * r + k] +
                                  (next == i ? 0 : part * (coarse.right[next * r + k] - coarse.right[i * r + k]));
    }
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

/* One pass: where TV-BLTs are not next to the optimum, as with momentum for the max loss, or when named. */
dpmf_status lowrank_candidates(dpmf_design *d) {
    search_request request = {.family = DPMF_FAMILY_LOWRANK, .bands = 2, .buffers = 6, .tolerance = 1e-4};
    if (design_is_named(d, DPMF_FAMILY_LOWRANK) && d->problem.steps >= 8) return design_add_best(d, &request, NULL);
    request.is_search_point = 1;
    if (!workload_is_single(d->problem.participation) || !design_is_tried(d, DPMF_FAMILY_LOWRANK, 512)) return DPMF_OK;
    for (request.buffers = 1; request.buffers <= 4 && 2 * request.buffers <= d->problem.steps && !design_is_proven(d);
         request.buffers *= 2)
        TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}
