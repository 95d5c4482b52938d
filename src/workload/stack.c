/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacked workloads: sums, and matrices of any shape.
 *
 *     sum    w_1 A_1 + w_2 A_2 + ...: the answers of all parts are wanted, and their squared errors add with the weights w_i >= 0.
 *            Step t has one answer of each part, sqrt(w_i) (A_i g)_t.
 *     rows   any real matrix with a column for each step. A row is released in the step of its last non-zero column, since its
 *            later columns do not matter; the squared errors of rows released together add.
 *
 * Both are one matrix S of more or fewer rows than steps, whose squared loss under a mechanism X = C'C is tr(M X^-1) with
 * M = S' diag(p) S, p the weights of the steps (Li and Miklau 2013; Pillutla et al. 2025, Section 1.10.1, has N counting
 * queries). Only M matters for the RMS loss, so the optimum and its duals are those of any lower-triangular R with R'R = M.
 * R comes from orthogonal transformations of S, not from M: the condition number is not squared. In reversed order
 * J M J = L L' with L from the LQ decomposition of J S', and R = J L' J.
 *
 * A singular M has an infimum that no C with an inverse attains. The rows e I are then appended. For any V >= 0 with
 * tr V X <= 1 for all allowed X, the dual value |S V^1/2|_* falls by at most e |V^1/2|_* <= e sqrt(n tr V) without them, and
 * tr V <= k since X = I/k is allowed, k the participations of a unit: a lower bound of the RMS loss falls by e sqrt k at most.
 */
#include "workload/workload.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { REDUCED_STEPS_MAX = 4096 }; /* the matrices of the optimum end there too */

int workload_rises(const dpmf_workload *w) {
    if (w->form != WORKLOAD_SUM) return w->toeplitz;
    for (int i = 0; i < w->parts; i++)
        if (!w->part[i]->toeplitz) return 0;
    return 1;
}

/* The k-th answer of a step counts 1/(k+1): a stack's answers as one, of which each entry has a share. */
double workload_mix(const dpmf_workload *w, int64_t count, const double *y) {
    double sum = 0;
    for (int64_t k = 0; k < w->width; k++)
        sum += y[k * count] / (double)(k + 1);
    return sum;
}

dpmf_status workload_apply_mixed(const dpmf_workload *w, double *x) {
    double *state = NULL;
    const int64_t buffers = workload_buffers(w);
    if (!workload_is_stack(w)) return dpmf_workload_apply(w, x, x);
    TRY(base_alloc_doubles(buffers + w->width, "the workload's state", &state));
    for (int64_t t = 0; t < w->steps; t++) {
        workload_step(w, t, 1, &x[t], state, state + buffers);
        x[t] = workload_mix(w, 1, state + buffers);
    }
    base_free(state);
    return DPMF_OK;
}

/* ---- the triangular matrix of the same squared losses ---- */

typedef struct reduction {
    int64_t n, filled;     /* columns of `wide` in use after the first n */
    const double *weights; /* of the steps, or NULL */
    double *wide, *lower;  /* n x 2n: L so far and J S' of rows not yet taken in; n x n */
} reduction;

static dpmf_status take_in(reduction *r) {
    const int64_t n = r->n;
    if (r->filled == 0) return DPMF_OK;
    TRY(base_lq(n, 2 * n, r->wide, r->lower));
    memset(r->wide, 0, (size_t)(2 * n * n) * sizeof *r->wide);
    for (int64_t i = 0; i < n; i++)
        memcpy(r->wide + 2 * n * i, r->lower + n * i, (size_t)n * sizeof *r->wide);
    r->filled = 0;
    return DPMF_OK;
}

static dpmf_status add_row(reduction *r, double scale, const double *row) {
    const int64_t n = r->n;
    if (scale == 0) return DPMF_OK;
    if (r->filled == n) TRY(take_in(r));
    for (int64_t i = 0; i < n; i++)
        r->wide[(n - 1 - i) * 2 * n + n + r->filled] = scale * row[i];
    r->filled++;
    return DPMF_OK;
}

static double scale_at(const reduction *r, double weight, int64_t t) {
    return sqrt(weight * (r->weights == NULL ? 1 : r->weights[t]));
}

/* Rows of a recursion: its answers to the unit vectors, side by side. */
static dpmf_status add_streamed(reduction *r, const dpmf_workload *w, double weight) {
    const int64_t n = r->n, buffers = workload_buffers(w);
    double *state = NULL;
    TRY(base_alloc_doubles((buffers + 2) * n, "the rows of a workload", &state));
    double *unit = state + buffers * n, *row = unit + n;
    dpmf_status status = DPMF_OK;
    for (int64_t t = 0; t < n && status == DPMF_OK; t++) {
        unit[t] = 1;
        workload_step(w, t, n, unit, state, row);
        unit[t] = 0;
        status = add_row(r, scale_at(r, weight, t), row);
    }
    base_free(state);
    return status;
}

static dpmf_status add_workload(reduction *r, const dpmf_workload *w, double weight) {
    const int64_t n = r->n;
    for (int i = 0; i < w->parts; i++)
        TRY(add_workload(r, w->part[i], weight * w->weight[i]));
    if (w->form == WORKLOAD_NAMED || w->form == WORKLOAD_OPERATOR) return add_streamed(r, w, weight);
    for (int64_t t = 0; t < n && w->form == WORKLOAD_DENSE; t++)
        TRY(add_row(r, scale_at(r, weight, t), w->matrix + t * n));
    for (int64_t t = 0; t < n && w->form == WORKLOAD_ROWS; t++)
        for (int64_t row = w->first[t]; row < w->first[t + 1]; row++)
            TRY(add_row(r, scale_at(r, weight, t), w->matrix + row * n));
    return DPMF_OK;
}

/* e I where a diagonal entry of L is so small that C would have no inverse. */
static dpmf_status append_identity(reduction *r, double relative, double *added) {
    const int64_t n = r->n;
    double least = INFINITY, norm = base_norm(n * n, r->lower), *unit = NULL;
    *added = 0;
    for (int64_t i = 0; i < n; i++)
        least = fmin(least, r->lower[i * n + i]);
    if (least > relative * norm / (double)n) return DPMF_OK;
    *added = relative * norm / (double)n;
    TRY(base_alloc_doubles(n, "a row", &unit));
    dpmf_status status = DPMF_OK;
    for (int64_t t = 0; t < n && status == DPMF_OK; t++) {
        unit[t] = 1;
        status = add_row(r, *added, unit);
        unit[t] = 0;
    }
    base_free(unit);
    return status == DPMF_OK ? take_in(r) : status;
}

dpmf_status workload_reduce(const dpmf_workload *w, const double *weights, double relative, dpmf_workload **out,
                            double *added) {
    const int64_t n = w->steps;
    reduction r = {.n = n, .weights = weights};
    dpmf_workload *made = NULL;
    char *text = NULL;
    double more = 0;
    dpmf_status status = DPMF_OK;
    if (n > REDUCED_STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s%s: %" PRId64 " steps, accepted up to %d (it is made a matrix)", w->text,
                         weights == NULL ? "" : " with weights", n, REDUCED_STEPS_MAX);
    TRY_DONE(base_alloc_doubles(2 * n * n, "a triangular form of the workload", &r.wide));
    TRY_DONE(base_alloc_square(n, "a triangular form of the workload", &r.lower));
    TRY_DONE(add_workload(&r, w, 1));
    TRY_DONE(take_in(&r));
    TRY_DONE(append_identity(&r, relative, &more));
    base_reverse_across(n, r.lower);
    TRY_DONE(dpmf_workload_create_dense(n, r.lower, &made));
    TRY_DONE(base_copy_text(w->text, &text));
    base_free(made->text);
    made->text = text;
    made->toeplitz = 0;
    *out = made;
    made = NULL;
    *added = more;
done:
    base_free(r.wide);
    base_free(r.lower);
    dpmf_workload_free(made);
    return status;
}
