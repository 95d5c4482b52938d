/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a mechanism of few steps as a whole: W is read off the noise stream's responses to impulses, C comes from the
 * strategy's columns.
 *
 *     W C = I          what the stream adds is the noise of C and not of something else
 *     sensitivity      from the columns of C (verify/pattern.c)
 *     losses           from B = A W entry by entry: s |B|_F and s times its longest row, where the claimed ones come
 *                      from recursions, closed forms or series
 *     response         from B
 */
#include "verify/verify.h"

#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <math.h>

/* Where every row takes every seed and there are more seeds than steps, W takes n rows^2 products: fewer steps. */
enum { ALL_SEEDS_STEPS = 1000 };

int verify_is_small(const dpmf_mechanism *m) {
    const int all = verify_stream_is_whole(m->strategy) && strategy_rows(m->strategy) > m->problem.steps;
    return m->problem.steps <= (all ? ALL_SEEDS_STEPS : DPMF_VERIFY_WHOLE_STEPS);
}

static double longest(int64_t count, int64_t size, const double *x) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < size; j++)
            sum += x[i * size + j] * x[i * size + j];
        most = fmax(most, sum);
    }
    return sqrt(most);
}

static dpmf_status check_inverse(verify_task *v, int64_t rows, const double *w, const double *columns) {
    const int64_t n = v->mechanism->problem.steps;
    double found = 0, size = fmax(1, longest(n, rows, w) * longest(n, rows, columns));
    TRY(verify_left_inverse_error(n, rows, w, columns, v->run, &found));
    const dpmf_check check = {.name = "stream.left_inverse",
                              .ok = found <= VERIFY_TOLERANCE_OTHER * size,
                              .claimed = 0,
                              .found = found,
                              .tolerance = VERIFY_TOLERANCE_OTHER * size};
    verify_check_add(v->out, check,
                     "largest entry of W C - I, all %lld x %lld, W read from the noise stream (absolute)", (long long)n,
                     (long long)n);
    return DPMF_OK;
}

static dpmf_status check_sensitivity(verify_task *v, int64_t rows, const double *columns) {
    const dpmf_sensitivity *claimed = &v->mechanism->problem.evaluation.sensitivity;
    verify_reach found = {0};
    TRY(verify_reach_of(v->mechanism, rows, columns, v->run, &found));
    const double off = found.value / claimed->value - 1, tolerance = VERIFY_TOLERANCE_OTHER;
    const int proves = claimed->kind == DPMF_EXACT && found.exact;
    const dpmf_check check = {.name = "stream.sensitivity",
                              .ok = off <= tolerance && (!proves || off >= -tolerance),
                              .claimed = claimed->value,
                              .found = found.value,
                              .tolerance = tolerance};
    verify_check_add(v->out, check, "%s, from the matrix C: %s", found.route,
                     proves ? "exact, by another method"
                     : off >= -tolerance && off <= tolerance
                         ? "they reach the claim; the claimed method proves that no other exceeds it"
                         : "they must not exceed the claim, which is not proven here");
    return DPMF_OK;
}

/* The losses and the response from B, n x rows. */
static dpmf_status check_losses(verify_task *v, int64_t rows, const double *b) {
    const dpmf_mechanism *m = v->mechanism;
    const double s = v->again.sensitivity.value;
    double largest = 0, response = 0;
    uint64_t salt = 0;
    base_running total = {0};
    if (v->responded) TRY(mechanism_response_salt(m, &salt));
    for (int64_t t = 0; t < m->problem.steps; t++) {
        base_running square = {0}, answer = {0};
        const double p = m->problem.weights == NULL ? 1 : m->problem.weights[t];
        for (int64_t i = 0; i < rows; i++) {
            const double x = b[t * rows + i];
            base_running_add(&square, x * x);
            base_running_add(&answer, x * mechanism_response_number(salt, 2 * (uint64_t)i + 1));
        }
        const double loss = s * s * p * base_running_value(&square);
        base_running_add(&total, loss);
        largest = fmax(largest, loss);
        response += sqrt(p) * mechanism_response_number(salt, 2 * (uint64_t)t) * base_running_value(&answer);
    }
    const double all = base_running_value(&total);
    static const char how[] = "from every entry of A W, W read from the noise stream, and the sensitivity";
    const dpmf_evaluation *claimed = &m->problem.evaluation;
    verify_check_equal(v->out, "stream.rms_loss", claimed->rms_loss, sqrt(all / (double)m->problem.steps),
                       VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.max_loss", claimed->max_loss, sqrt(largest), VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.total_squared_loss", claimed->total_squared_loss, all, VERIFY_TOLERANCE_OTHER,
                       "%s", how);
    if (v->responded)
        verify_check_response(v, "stream.response", response, VERIFY_TOLERANCE_OTHER,
                              "u' A W v from the entries of A W, W read from the noise stream");
    return DPMF_OK;
}

static dpmf_status verify_whole(verify_task *v, base_pool *pool) {
    const dpmf_mechanism *m = v->mechanism;
    const int64_t n = m->problem.steps, rows = strategy_rows(m->strategy);
    double *w = NULL, *columns = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n * rows, "W", &w));
    TRY_DONE(verify_stream_impulses(m->strategy, DPMF_FLOAT64, n, rows, pool, v->run, w));
    TRY_DONE(base_alloc_doubles(n * rows, "C", &columns));
    TRY_DONE(verify_first_columns(m->strategy, n, rows, columns));
    TRY_DONE(check_inverse(v, rows, w, columns));
    TRY_DONE(check_sensitivity(v, rows, columns));
    TRY_DONE(verify_apply_workload(m->problem.workload, n, rows, w));
    TRY_DONE(check_losses(v, rows, w));
done:
    base_free(columns);
    base_free(w);
    return status;
}

dpmf_status verify_matrices(verify_task *v) {
    base_pool *pool = NULL;
    TRY(base_pool_create(v->run->threads, &pool));
    dpmf_status status = verify_whole(v, pool);
    base_pool_free(pool);
    if (!verify_is_verdict(status)) return status;
    verify_check_skip(v->out, "stream.left_inverse", "it cannot be computed as a whole: %s", dpmf_last_error());
    return DPMF_OK;
}
