/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error by impulse responses: column j of B is A (C^-1 e_j), run as a stream for a block of seeds at once and squared
 * into the error of each step (McKenna 2024, Algorithm 5). O(n^2) time, O(n) memory a thread. Blocks are added up in
 * their order, and not by the threads that made them, so that the answer does not depend on the number of threads.
 *
 * Where a matrix is in hand anyway, B = A C^-1 is formed with BLAS instead.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "base/threads.h"
#include "error/error.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <string.h>

enum { DENSE_STEPS_MAX = 16384 }; /* B of 2 GB and a few minutes */
enum { BLOCK = 64 }; /* seeds at once: long enough for vector units, short enough for the first-level cache */

typedef struct scratch {
    double *seed, *row, *answer; /* BLOCK each */
    double *strategy_state, *workload_state;
    double *squares; /* of the block, per step */
} scratch;

typedef struct job {
    const dpmf_workload *a;
    const dpmf_strategy *s;
    int64_t first_block; /* of this wave */
    scratch *scratch;    /* one for each item of a wave */
} job;

static void scratch_free(scratch *x) {
    base_free(x->seed);
    base_free(x->row);
    base_free(x->answer);
    base_free(x->strategy_state);
    base_free(x->workload_state);
    base_free(x->squares);
}

static int streams(const dpmf_strategy *s) {
    return !strategy_can(s, STRATEGY_CAN_INVERSE_PART);
}

static dpmf_status scratch_create(const dpmf_workload *a, const dpmf_strategy *s, scratch *x) {
    int64_t buffers = streams(s) ? s->ops->buffers(s) : 0;
    TRY(base_alloc_doubles(BLOCK, "a block", &x->seed));
    TRY(base_alloc_doubles(BLOCK, "a block", &x->row));
    TRY(base_alloc_doubles(BLOCK, "a block", &x->answer));
    TRY(base_alloc_doubles(buffers * BLOCK, "the strategy's state", &x->strategy_state));
    TRY(base_alloc_doubles(workload_buffers(a) * BLOCK, "the workload's state", &x->workload_state));
    return base_alloc_doubles(s->steps, "the errors of a block", &x->squares);
}

/* Row t of the impulse responses of seeds first .. first+count. */
static void inverse_block_row(const dpmf_strategy *s, int64_t t, int64_t first, int64_t count, scratch *x) {
    int64_t started = t - first + 1 < count ? t - first + 1 : count;
    if (!streams(s)) {
        s->ops->inverse_part(s, t, first, started, x->row);
        for (int64_t i = started; i < count; i++)
            x->row[i] = 0;
        return;
    }
    memset(x->seed, 0, (size_t)count * sizeof *x->seed);
    if (t - first < count) x->seed[t - first] = 1;
    s->ops->step(s, t, count, x->seed, x->strategy_state, x->row);
}

static dpmf_status run_block(void *context, int64_t item, int worker) {
    const job *j = context;
    scratch *x = &j->scratch[item];
    int64_t n = j->s->steps, first = (j->first_block + item) * BLOCK;
    int64_t count = n - first < BLOCK ? n - first : BLOCK;
    (void)worker;
    memset(x->workload_state, 0, (size_t)(workload_buffers(j->a) * BLOCK) * sizeof(double));
    if (streams(j->s)) memset(x->strategy_state, 0, (size_t)(j->s->ops->buffers(j->s) * BLOCK) * sizeof(double));
    for (int64_t t = first; t < n; t++) {
        inverse_block_row(j->s, t, first, count, x);
        workload_step(j->a, t, count, x->row, x->workload_state, x->answer);
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            sum += x->answer[i] * x->answer[i];
        x->squares[t] = sum;
    }
    return DPMF_OK;
}

dpmf_status error_columns(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps, blocks = (n + BLOCK - 1) / BLOCK;
    base_pool *pool = NULL;
    job j = {.a = a, .s = s};
    int width = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_pool_create(run == NULL ? 0 : run->threads, &pool));
    width = base_pool_threads(pool);
    TRY_DONE(base_alloc(width, sizeof *j.scratch, "scratch", (void **)&j.scratch));
    for (int i = 0; i < width; i++)
        TRY_DONE(scratch_create(a, s, &j.scratch[i]));
    memset(per_step, 0, (size_t)n * sizeof *per_step);
    for (j.first_block = 0; j.first_block < blocks; j.first_block += width) {
        int64_t items = blocks - j.first_block < width ? blocks - j.first_block : width;
        double left = (double)(blocks - j.first_block) / (double)blocks;
        TRY_DONE(base_progress(run, "error", 1 - left * left)); /* late columns are short */
        TRY_DONE(base_pool_run(pool, items, run_block, &j));
        for (int64_t i = 0; i < items; i++)
            for (int64_t t = (j.first_block + i) * BLOCK; t < n; t++)
                per_step[t] += j.scratch[i].squares[t];
    }
done:
    for (int i = 0; j.scratch != NULL && i < width; i++)
        scratch_free(&j.scratch[i]);
    base_free(j.scratch);
    base_pool_free(pool);
    return status;
}

/* B = A W in place, row by row: the workload's stream over all columns at once. */
static dpmf_status apply_rows(const dpmf_workload *a, int64_t rows, double *b) {
    int64_t buffers = workload_buffers(a);
    double *state = NULL;
    TRY(base_alloc_doubles((buffers + 1) * rows, "the workload's state", &state));
    double *input = state + buffers * rows;
    for (int64_t t = 0; t < a->steps; t++) {
        memcpy(input, b + t * rows, (size_t)rows * sizeof *b);
        workload_step(a, t, rows, input, state, b + t * rows);
    }
    base_free(state);
    return DPMF_OK;
}

dpmf_status error_dense(const dpmf_workload *a, const dpmf_strategy *s, const double *matrix, const dpmf_run *run,
                        double *per_step) {
    int64_t n = s->steps, rows = strategy_rows(s);
    double *b = NULL;
    dpmf_status status = DPMF_OK;
    if (n > DENSE_STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s with workload %s: %lld steps, accepted up to %d (it is dense)", s->family, a->text,
                         (long long)n, DENSE_STEPS_MAX);
    TRY_DONE(base_alloc_doubles(n * rows, "the matrix B", &b));
    TRY_DONE(base_progress(run, "error", 0));
    if (matrix != NULL) {
        memcpy(b, matrix, (size_t)(n * n) * sizeof *b);
        TRY_DONE(base_lower_invert(n, b));
    } else {
        TRY_DONE(strategy_left_inverse(s, b));
    }
    TRY_DONE(base_progress(run, "error", 0.5));
    int lower = matrix != NULL || strategy_can(s, STRATEGY_CAN_ROW);
    if (a->form == WORKLOAD_DENSE && lower)
        base_lower_multiply(n, a->matrix, b);
    else
        TRY_DONE(apply_rows(a, rows, b));
    for (int64_t t = 0; t < n; t++)
        per_step[t] = base_dot(rows, b + t * rows, b + t * rows);
done:
    base_free(b);
    return status;
}
