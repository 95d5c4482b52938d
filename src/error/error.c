/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error: the row norms of B = A W. Row t of B Z is the noise in answer t, so |B[t,:]| is its standard deviation per
 * unit of seed noise (Pillutla et al. 2025, Theorem 2.2).
 *
 *     the family's own way       ask its table of operations: BLT, TV-BLT, replayed seeds, trees, ... (families/)
 *     A and C Toeplitz           B is Toeplitz with first column w = C^-1 (A e_0); |B[t,:]|^2 = w_0^2 + ... + w_t^2
 *                                (McKenna 2024, Proposition D.1), O(n b) or O(n log n)
 *     A named, C^-1 of b bands   covariance of (past seeds, momentum, sum), O(n b)
 *     A named, C Toeplitz        with normalized columns or under a schedule O(n log n) to O(n log^2 n); with both and momentum,
 *                                or with decay, O(n b) or O(n^2): all columns together
 *     A named, C of b bands      covariance of (past outputs, momentum, sum), O(n b^2) against O(n^2 b) in McKenna 2024
 *     A named, rows of W W'      O(n^2) time, O(n) memory
 *     A or C a matrix            whole matrices with BLAS
 *     otherwise                  impulse responses (McKenna 2024, Algorithm 5), O(n^2) time, O(n) memory
 */

#include "error/error.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* w = A (C^-1 e_0) where the inverse series is held, C^-1 (A e_0) otherwise: the same, all three being Toeplitz. */
static dpmf_status toeplitz_response(const dpmf_workload *a, const dpmf_strategy *s, double *w) {
    int64_t n = s->steps, count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    int is_toeplitz = strategy_toeplitz(s, &count, &c, &inverse_count, &inverse);
    if (!is_toeplitz) return base_fail(DPMF_ERROR_UNSUPPORTED, "the strategy is not Toeplitz");
    memset(w, 0, (size_t)n * sizeof *w);
    if (inverse_count > 0) {
        memcpy(w, inverse, (size_t)inverse_count * sizeof *w);
        return dpmf_workload_apply(a, w, w);
    }
    w[0] = 1;
    TRY(dpmf_workload_apply(a, w, w));
    base_toeplitz_solve_banded(n, count, c, w, w);
    return DPMF_OK;
}

static dpmf_status error_toeplitz(const dpmf_workload *a, const dpmf_strategy *s, double *per_step) {
    base_running sum = {0};
    TRY(toeplitz_response(a, s, per_step));
    for (int64_t t = 0; t < s->steps; t++) {
        base_running_add(&sum, per_step[t] * per_step[t]);
        per_step[t] = base_running_value(&sum);
    }
    return DPMF_OK;
}

static int is_toeplitz(const dpmf_strategy *s) {
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    return strategy_toeplitz(s, &count, &c, &inverse_count, &inverse);
}

/* Few enough bands of C for b^2 a step. */
static int recursion_is_cheap(const dpmf_strategy *s) {
    return strategy_bands(s) < s->steps && strategy_bands(s) <= 4096;
}

static int has_matrix(const dpmf_workload *a, const dpmf_strategy *s) {
    return a->form == WORKLOAD_DENSE || strategy_matrix(s) != NULL;
}

/* Square, and with a step that takes one seed: impulses can be sent through it. */
static int has_impulses(const dpmf_strategy *s) {
    return (s->ops->rows == NULL || strategy_rows(s) == s->steps) && strategy_can(s, STRATEGY_CAN_STEP);
}

/* The coefficients of a Toeplitz C, whether those of its inverse are held or not. */
static int toeplitz_series(const dpmf_strategy *s, int64_t *count, const double **c) {
    int64_t inverse_count = 0;
    const double *inverse = NULL;
    return strategy_toeplitz(s, count, c, &inverse_count, &inverse) && *c != NULL;
}

/* The coefficients of a Toeplitz C of bands. */
static int toeplitz_bands(const dpmf_strategy *s, int64_t *count, const double **c) {
    int64_t inverse_count = 0;
    const double *inverse = NULL;
    return strategy_toeplitz(s, count, c, &inverse_count, &inverse) && *c != NULL && inverse_count == 0;
}

/* Near linear by error/toeplitz.c? Where A is Toeplitz too, and C has few bands, its columns are cheaper. */
static int has_long_schedule(const dpmf_workload *a, const double *scale, int64_t count) {
    enum { LONG = 512 };
    if (a->decay != 0 || a->steps < LONG || (scale != NULL && a->momentum > 0)) return 0;
    return !a->toeplitz || (scale != NULL && count > LONG);
}

/*
 * 1 where all columns together are cheaper than b^2 a step: a row takes one operation a column. `scaled` is the
 * strategy inside a column normalization, if any.
 */
static int columns_are_cheap(const dpmf_workload *a, const dpmf_strategy *scaled, int64_t *count, const double **c) {
    if (!toeplitz_bands(scaled, count, c)) return 0;
    double rows = a->toeplitz ? (double)*count : (double)a->steps;
    return rows <= (double)*count * (double)*count;
}

static dpmf_status named_route(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    const double *scale = NULL, *c = NULL;
    int64_t count = 0;
    const dpmf_strategy *scaled = strategy_scaled(s, &scale);
    if (strategy_can(s, STRATEGY_CAN_COVARIANCE)) return error_covariance(a, s, run, squares);
    if (strategy_inverse_bands(s) < s->steps) return error_filtered(a, s, run, squares);
    if (toeplitz_series(scaled, &count, &c) && has_long_schedule(a, scale, count)) {
        int done = 0;
        TRY(error_schedule(a, count, c, scale, run, &done, squares));
        if (done) return DPMF_OK;
    }
    if (columns_are_cheap(a, scaled, &count, &c)) return error_toeplitz_columns(a, count, c, scale, run, squares);
    if (recursion_is_cheap(s)) return error_fed_back(a, s, run, squares);
    return has_impulses(s) ? error_columns(a, s, run, squares) : error_dense(a, s, NULL, run, squares);
}

/* The family's own way, which is for one block of repeated and normalized strategies. */
static dpmf_status ask_family(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, int *done,
                              double *squares) {
    error_question q = {.a = a, .run = run};
    const dpmf_strategy *block = strategy_block(strategy_scaled(s, &q.scale), &q.stamps);
    *done = 0;
    return block->ops->squared_errors == NULL ? DPMF_OK : block->ops->squared_errors(block, &q, done, squares);
}

static dpmf_status choose_route(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    int done = 0;
    TRY(ask_family(a, s, run, &done, squares));
    if (done) return DPMF_OK;
    if (a->toeplitz && is_toeplitz(s)) return error_toeplitz(a, s, squares);
    if (has_matrix(a, s) || (a->form == WORKLOAD_OPERATOR && !has_impulses(s)))
        return error_dense(a, s, strategy_matrix(s), run, squares);
    if (a->form == WORKLOAD_NAMED) return named_route(a, s, run, squares);
    return error_columns(a, s, run, squares);
}

dpmf_status dpmf_error_compute(const dpmf_workload *workload, const dpmf_strategy *strategy, const dpmf_run *run,
                               double *per_step) {
    double *squares = NULL;
    dpmf_status status = DPMF_OK;
    if (workload->steps != strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the workload has %lld steps, the strategy %lld: they must agree",
                         (long long)workload->steps, (long long)strategy->steps);
    TRY(strategy_need_inverse(strategy));
    TRY(base_alloc_doubles(strategy->steps, "the errors", &squares));
    TRY_DONE(choose_route(workload, strategy, run, squares));
    for (int64_t t = 0; t < strategy->steps; t++)
        if (!isfinite(squares[t]) || squares[t] < 0) {
            status = base_fail(DPMF_ERROR_NUMERICAL, "the error of step %lld is not finite: the noise diverges",
                               (long long)t);
            goto done;
        }
    for (int64_t t = 0; t < strategy->steps; t++)
        per_step[t] = sqrt(squares[t]);
done:
    base_free(squares);
    return status;
}

dpmf_status dpmf_error_range(const dpmf_workload *workload, const dpmf_strategy *strategy, int64_t first, int64_t count,
                             const dpmf_run *run, double *per_step) {
    double *all = NULL;
    dpmf_status status = DPMF_OK;
    if (first < 0 || count < 0 || count > strategy->steps || first > strategy->steps - count)
        return base_fail(DPMF_ERROR_ARGUMENT, "errors of %lld steps from %lld on, accepted: within the %lld steps",
                         (long long)count, (long long)first, (long long)strategy->steps);
    if (strategy->ops->squared_error_range != NULL && workload->steps == strategy->steps &&
        strategy->ops->squared_error_range(strategy, workload, first, count, per_step)) {
        for (int64_t t = 0; t < count; t++)
            per_step[t] = sqrt(per_step[t]);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(strategy->steps, "the errors", &all));
    TRY_DONE(dpmf_error_compute(workload, strategy, run, all));
    memcpy(per_step, all + first, (size_t)count * sizeof *per_step);
done:
    base_free(all);
    return status;
}

int error_sums(const dpmf_workload *a, const dpmf_strategy *s, double *total, double *largest) {
    return s->ops->squared_error_sums != NULL && a->steps == s->steps &&
           s->ops->squared_error_sums(s, a, total, largest);
}

/*
 * Errors one step after another, for a stream that is running. Most families' are all computed at once and held. Those of
 * prefix sums without a horizon are computed a stretch at a time, since there may be 2^40 of them.
 */

enum { STRETCH = 4096 };

struct error_lookup {
    const dpmf_workload *workload;
    const dpmf_strategy *strategy;
    int64_t first, count; /* held */
    double *values;
};

dpmf_status error_lookup_create(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                error_lookup **out) {
    error_lookup *l = NULL;
    dpmf_status status = DPMF_OK;
    const int by_stretch =
        s->steps > STRETCH && s->ops->squared_error_range != NULL && s->ops->squared_error_range(s, a, 0, 0, NULL);
    TRY_DONE(base_alloc(1, sizeof *l, "error bars", (void **)&l));
    *l = (error_lookup){.workload = a, .strategy = s, .count = by_stretch ? STRETCH : s->steps};
    TRY_DONE(base_alloc_doubles(l->count, "error bars", &l->values));
    if (by_stretch)
        TRY_DONE(dpmf_error_range(a, s, 0, l->count, run, l->values));
    else
        TRY_DONE(dpmf_error_compute(a, s, run, l->values));
    *out = l;
    l = NULL;
done:
    error_lookup_free(l);
    return status;
}

/* The next stretch needs no memory and cannot fail: its steps are within the strategy's. */
double error_lookup_at(error_lookup *l, int64_t t) {
    assert(t >= 0 && t < l->strategy->steps);
    if (t < l->first || t >= l->first + l->count) {
        l->first = t - t % STRETCH;
        l->count = l->strategy->steps - l->first < STRETCH ? l->strategy->steps - l->first : STRETCH;
        l->strategy->ops->squared_error_range(l->strategy, l->workload, l->first, l->count, l->values);
        for (int64_t i = 0; i < l->count; i++)
            l->values[i] = sqrt(l->values[i]);
    }
    return l->values[t - l->first];
}

void error_lookup_free(error_lookup *l) {
    if (l == NULL) return;
    base_free(l->values);
    base_free(l);
}
