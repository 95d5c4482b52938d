/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mechanism of many steps: checks of W that do not hold all of W. The response u' P A W v, with W v from the noise
 * stream fed with v in place of seeds, is that of the strategy's own solve: since v is a vector of independent numbers,
 * a stream of another W would give another value (Freivalds 1977). W C = I is checked over the first steps, entry by
 * entry.
 */
#include "verify/verify.h"

#include "base/memory.h"
#include "noise/noise.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/*
 * The multiplications and bytes that a stream may take here: a few seconds, and a small part of any machine's memory.
 */
static const double WORK_MAX = 1.5e10;
static const uint64_t BYTES_MAX = 512u << 20;
enum { LANES = 64 }; /* coordinates that a stream makes at least */

static int64_t first_steps(int64_t n) {
    return n <= 65536 ? 128 : 32; /* a column takes O(n) or more */
}

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

static dpmf_status respond_by_stream(verify_task *v, uint64_t salt, noise_stream *stream, double *state, double *out) {
    const dpmf_mechanism *m = v->mechanism;
    double sum = 0, row[LANES], answer = 0;
    const noise_segment segment = {row, LANES};
    for (int64_t t = 0; t < m->problem.steps; t++) {
        TRY(noise_stream_emit(stream, 1, 0, 1, &segment));
        workload_step(m->problem.workload, t, 1, row, state, &answer);
        if (m->problem.weights != NULL) answer *= sqrt(m->problem.weights[t]);
        sum += mechanism_response_number(salt, 2 * (uint64_t)t) * answer;
        if (t % 1024 == 0) TRY(base_progress(v->run, "verify: the noise stream", (double)t / (double)m->problem.steps));
    }
    *out = sum;
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
    TRY_DONE(base_alloc_doubles(workload_buffers(m->problem.workload) + 1, "the workload's state", &state));
    TRY_DONE(verify_seed_open_response(salt, &seed));
    TRY_DONE(noise_stream_create(m->strategy, seed, &options, NULL, &stream));
    TRY_DONE(respond_by_stream(v, salt, stream, state, &found));
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
    int64_t steps = first_steps(m->problem.steps), seeds = verify_seeds_before(m->strategy, steps);
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
