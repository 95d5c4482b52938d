/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mechanism of many steps: checks of W that do not hold all of W. The response u' P A W v, with W v from the noise
 * stream fed with v in place of seeds, is that of the strategy's own solve: since v is a vector of independent numbers,
 * a stream of another W would give another value (Freivalds 1977). W C = I is checked over the first steps, entry by
 * entry.
 */
#include "verify/verify.h"

#include "base/memory.h"
#include "base/sum.h"
#include "noise/noise.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The multiplications and bytes that a stream may take here: a few seconds, and a small part of any machine's memory. */
static const double WORK_MAX = 1.5e10;
static const uint64_t BYTES_MAX = 512u << 20;
enum { LANES = 64 }; /* coordinates that a stream makes at least */

/* 1 if a stream of `lanes` coordinates over `steps` rows is within both limits. */
static dpmf_status affordable(const dpmf_strategy *s, int64_t lanes, int64_t steps, int *out) {
    const noise_stream_options options = {.precision = DPMF_FLOAT64, .count = lanes};
    uint64_t bytes = 0;
    *out = 0;
    if (verify_stream_is_whole(s)) return DPMF_OK;
    if ((double)steps * (double)(strategy_buffers(s) + 1) * (double)lanes > WORK_MAX) return DPMF_OK;
    TRY(noise_stream_memory(s, &options, 1, &bytes, NULL));
    *out = bytes <= BYTES_MAX;
    return DPMF_OK;
}

static dpmf_status check_response(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    const noise_stream_options options = {.precision = DPMF_FLOAT64, .count = LANES};
    uint64_t salt = 0;
    crypto_seed *seed = NULL;
    noise_stream *stream = NULL;
    double *state = NULL, found = 0;
    dpmf_status status = DPMF_OK;
    TRY(mechanism_response_salt(m, &salt));
    const int64_t buffers = workload_buffers(m->problem.workload);
    TRY_DONE(base_alloc_doubles(buffers + m->problem.workload->width, "the workload's state", &state));
    TRY_DONE(verify_seed_open_response(salt, &seed));
    TRY_DONE(noise_stream_create(m->strategy, seed, &options, NULL, &stream));
    double row[LANES], answer = 0;
    const noise_segment segment = {row, LANES};
    for (int64_t t = 0; t < m->problem.steps; t++) {
        TRY_DONE(noise_stream_emit(stream, 1, 0, 1, &segment));
        workload_step(m->problem.workload, t, 1, row, state, state + buffers);
        answer = workload_mix(m->problem.workload, 1, state + buffers);
        if (m->problem.weights != NULL) answer *= sqrt(m->problem.weights[t]);
        found += mechanism_response_number(salt, 2 * (uint64_t)t) * answer;
        if (t % 1024 == 0)
            TRY_DONE(base_progress(v->run, "verify: the noise stream", (double)t / (double)m->problem.steps));
    }
    verify_check_response(v, "stream.response", found, VERIFY_TOLERANCE_OTHER,
                          "u' A W v, W v from the noise stream fed with v: it is the stream of this strategy");
done:
    noise_stream_free(stream);
    crypto_seed_close(seed);
    base_free(state);
    return status;
}

static dpmf_status check_inverse(verify_task *v, int64_t steps, int64_t seeds) {
    const dpmf_strategy *s = v->mechanism->strategy;
    double *w = NULL, *columns = NULL, found = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(steps * seeds, "the first rows of W", &w));
    TRY_DONE(verify_stream_impulses(s, DPMF_FLOAT64, steps, seeds, NULL, v->run, w));
    TRY_DONE(base_alloc_doubles(steps * seeds, "the first columns of C", &columns));
    TRY_DONE(verify_first_columns(s, steps, seeds, columns));
    TRY_DONE(verify_left_inverse_error(steps, seeds, w, columns, v->run, &found));
    const dpmf_check check = {.name = "stream.left_inverse",
                              .ok = found <= VERIFY_TOLERANCE_OTHER,
                              .claimed = 0,
                              .found = found,
                              .tolerance = VERIFY_TOLERANCE_OTHER};
    verify_check_add(v->out, check,
                     "largest entry of W C - I over the first %" PRId64 " steps of %" PRId64
                     ", W read from the noise stream (absolute)",
                     steps, v->mechanism->problem.steps);
done:
    base_free(columns);
    base_free(w);
    return status;
}

dpmf_status verify_stream(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    static const char costly[] = "not made: at %" PRId64 " steps it would take too much time or memory here";
    int64_t steps = m->problem.steps <= 65536 ? 128 : 32, seeds = verify_seeds_before(m->strategy, steps);
    int can = 0;
    TRY(affordable(m->strategy, LANES, m->problem.steps, &can));
    if (can && v->responded)
        TRY(check_response(v));
    else
        verify_check_skip(v->out, "stream.response", costly, m->problem.steps);
    TRY(affordable(m->strategy, seeds, steps, &can));
    if (can) return check_inverse(v, steps, seeds);
    verify_check_skip(v->out, "stream.left_inverse", costly, m->problem.steps);
    return DPMF_OK;
}

/*
 * ---- sensitivity and losses from impulses ----
 *
 * A mechanism of many steps: figures by other routes where those can be afforded without a whole matrix.
 *
 *     sensitivity   a unit whose contributions are one and the same unit vector in the steps p moves C g by |C 1_p|: no
 *                   sensitivity is less. For non-negative Toeplitz C the earliest pattern reaches it (Kalinin and
 *                   Lampert 2024, Theorem 2), and for one participation the longest column.
 *     losses        s |B|_F and s max |B[t,:]| from the noise stream's responses to impulses, a block of seeds at a time
 */

/* Multiplications: about two seconds. Seeds at a time: rows that a cache can hold, too few to share among threads. */
static const double LOSSES_WORK_MAX = 1e10;
static const int64_t PATTERN_STEPS_MAX = (int64_t)1 << 30; /* two vectors of this length: 16 GB */
enum { BLOCK = 1024, OWN = 10 }; /* OWN: what a number costs beside the buffers, in multiplications */

/* |C x|; y is room for it. */
static dpmf_status moved(const dpmf_strategy *s, const double *x, double *y, double *out) {
    base_running sum = {0};
    TRY(dpmf_strategy_apply(s, x, y));
    for (int64_t i = 0; i < strategy_rows(s); i++)
        base_running_add(&sum, y[i] * y[i]);
    *out = sqrt(base_running_value(&sum));
    return DPMF_OK;
}

static dpmf_status most_moved(const dpmf_mechanism *m, double *x, double *y, double *out) {
    const dpmf_participation *p = m->problem.participation;
    const int sampled = !dpmf_sampling_is_none(&m->sampling), one = sampled || workload_is_once(p);
    const int listed = !one && p->pattern == WORKLOAD_LISTED;
    const int64_t n = m->problem.steps, k = one ? 1 : p->count, gap = one ? n : p->separation;
    const int64_t count = listed ? p->patterns : gap, starts[] = {0, count / 2, count - 1};
    double most = 0, found = 0;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        memset(x, 0, (size_t)n * sizeof *x);
        for (int64_t t = starts[i], left = k; !listed && t < n && left > 0; t += gap, left--)
            x[t] = 1;
        if (listed) workload_patterns_mark(p, starts[i], x);
        TRY(moved(m->strategy, x, y, &found));
        most = fmax(most, found);
    }
    const int doubled = dpmf_sampling_is_none(&m->sampling) && m->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE;
    *out = doubled ? 2 * most : most;
    return DPMF_OK;
}

static dpmf_status check_sensitivity(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    const double claimed = m->problem.evaluation.sensitivity.value, tolerance = VERIFY_TOLERANCE_OTHER;
    double *x = NULL, *y = NULL, found = 0;
    dpmf_status status = DPMF_OK;
    if (m->problem.steps > PATTERN_STEPS_MAX) {
        verify_check_skip(v->out, "stream.sensitivity", "not made: a pattern over %" PRId64 " steps is too long",
                          m->problem.steps);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(m->problem.steps, "a pattern", &x));
    TRY_DONE(base_alloc_doubles(strategy_rows(m->strategy), "C times a pattern", &y));
    TRY_DONE(most_moved(m, x, y, &found));
    const dpmf_check check = {.name = "stream.sensitivity",
                              .ok = found <= claimed * (1 + tolerance),
                              .claimed = claimed,
                              .found = found,
                              .tolerance = tolerance};
    verify_check_add(v->out, check, "C applied to the first, a middle and the last pattern of one vector: %s",
                     found >= claimed * (1 - tolerance)
                         ? "they reach the claim; the claimed method proves that no other exceeds it"
                         : "they must not exceed the claim, which is not proven here");
done:
    base_free(x);
    base_free(y);
    return status;
}

typedef struct block {
    noise_stream *stream;
    int64_t count;
    double *row, *state, *answer; /* count, buffers x count, count numbers */
} block;

/* Adds what seeds first..first+count-1 give to the squared norms of the rows of B. */
static dpmf_status add_block(verify_task *v, const crypto_seed *seed, int64_t first, int64_t count,
                             base_running *squares) {
    const dpmf_mechanism *m = v->mechanism;
    const double all = (double)strategy_rows(m->strategy);
    block b = {0};
    dpmf_status status = DPMF_OK;
    const noise_stream_options options = {.precision = DPMF_FLOAT64, .first = first, .count = count};
    b.count = count;
    TRY_DONE(noise_stream_create(m->strategy, seed, &options, NULL, &b.stream));
    TRY_DONE(base_alloc_doubles(count, "a row", &b.row));
    const int64_t answers = count * m->problem.workload->width;
    TRY_DONE(base_alloc_doubles(answers, "a row", &b.answer));
    TRY_DONE(base_alloc_doubles(workload_buffers(m->problem.workload) * count + 1, "the workload's state", &b.state));
    const noise_segment segment = {b.row, count};
    for (int64_t t = 0; t < m->problem.steps; t++) {
        double sum = 0;
        TRY_DONE(noise_stream_emit(b.stream, 1, 0, 1, &segment));
        workload_step(m->problem.workload, t, count, b.row, b.state, b.answer);
        for (int64_t i = 0; i < answers; i++)
            sum += b.answer[i] * b.answer[i];
        base_running_add(&squares[t], sum);
        if (t % 1024 == 0) TRY_DONE(base_progress(v->run, "verify: losses", (double)first / all));
    }
done:
    noise_stream_free(b.stream);
    base_free(b.row);
    base_free(b.state);
    base_free(b.answer);
    return status;
}

dpmf_status verify_long(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    const int64_t rows = strategy_rows(m->strategy);
    TRY(check_sensitivity(v));
    const double kept = (double)(strategy_buffers(m->strategy) + workload_buffers(m->problem.workload) + OWN) +
                        strategy_normals(m->strategy);
    if (verify_stream_is_whole(m->strategy) || kept * (double)m->problem.steps * (double)rows > LOSSES_WORK_MAX) {
        verify_check_skip(v->out, "stream.rms_loss",
                          "not made: at %" PRId64
                          " steps all impulses would take too long; no second method for the losses",
                          m->problem.steps);
        return DPMF_OK;
    }
    base_running *squares = NULL;
    crypto_seed *seed = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(m->problem.steps, sizeof *squares, "the squared norms", (void **)&squares));
    TRY_DONE(verify_seed_open_impulses(&seed));
    for (int64_t first = 0; first < rows; first += BLOCK)
        TRY_DONE(add_block(v, seed, first, rows - first < BLOCK ? rows - first : BLOCK, squares));
    const dpmf_evaluation *claimed = &m->problem.evaluation;
    const double s = v->again.sensitivity.value;
    static const char how[] = "from the noise stream's responses to all impulses, and the sensitivity";
    base_running total = {0};
    double largest = 0;
    for (int64_t t = 0; t < m->problem.steps; t++) {
        const double p = m->problem.weights == NULL ? 1 : m->problem.weights[t],
                     loss = s * s * p * base_running_value(&squares[t]);
        base_running_add(&total, loss);
        largest = fmax(largest, loss);
    }
    const double all = base_running_value(&total);
    verify_check_equal(v->out, "stream.rms_loss", claimed->rms_loss, sqrt(all / (double)m->problem.steps),
                       VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.max_loss", claimed->max_loss, sqrt(largest), VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.total_squared_loss", claimed->total_squared_loss, all, VERIFY_TOLERANCE_OTHER,
                       "%s", how);
done:
    crypto_seed_close(seed);
    base_free(squares);
    return status;
}
