/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mechanism of many steps: what can be said of W without holding it. The response u' P A W v, with W v from the noise
 * stream fed with v in place of seeds, is that of the strategy's own solve: since v is a vector of independent numbers, a
 * stream of another W would give another value (Freivalds 1977). And W C = I over the first steps, entry by entry.
 */
#include "verify/verify.h"

#include "base/memory.h"
#include "noise/noise.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* Multiplications and bytes that a stream may take here: a few seconds, and little of any machine. */
static const double WORK_MAX = 1.5e10;
static const uint64_t BYTES_MAX = 512u << 20;
enum { LANES = 64 }; /* coordinates that a stream makes at least */

static int64_t first_steps(int64_t n) {
    return n <= 65536 ? 128 : 32; /* a column takes O(n) or more */
}

/* 1 if a stream of `lanes` coordinates over `steps` rows is within both limits. */
static dpmf_status affordable(const dpmf_strategy *s, int64_t lanes, int64_t steps, int *out) {
    const dpmf_i_noise_stream_options options = {.precision = DPMF_FLOAT64, .count = lanes};
    uint64_t bytes = 0;
    *out = 0;
    if (dpmf_i_verify_stream_is_whole(s)) return DPMF_OK;
    if ((double)steps * (double)(dpmf_strategy_buffers(s) + 1) * (double)lanes > WORK_MAX) return DPMF_OK;
    TRY(dpmf_i_noise_stream_memory(s, &options, 1, &bytes, NULL));
    *out = bytes <= BYTES_MAX;
    return DPMF_OK;
}

static dpmf_status respond_by_stream(dpmf_i_verify *v, uint64_t salt, dpmf_i_noise_stream *stream, double *state,
                                     double *out) {
    const dpmf_mechanism *m = v->mechanism;
    double sum = 0, row[LANES], answer = 0;
    const dpmf_i_noise_segment segment = {row, LANES};
    for (int64_t t = 0; t < m->steps; t++) {
        TRY(dpmf_i_noise_stream_emit(stream, 1, 0, 1, &segment));
        dpmf_i_workload_step(m->workload, t, 1, row, state, &answer);
        if (m->weights != NULL) answer *= sqrt(m->weights[t]);
        sum += dpmf_i_mechanism_response_number(salt, 2 * (uint64_t)t) * answer;
        if (t % 1024 == 0) TRY(dpmf_i_base_progress(v->run, "verify: the noise stream", (double)t / (double)m->steps));
    }
    *out = sum;
    return DPMF_OK;
}

static dpmf_status check_response(dpmf_i_verify *v) {
    const dpmf_mechanism *m = v->mechanism;
    const dpmf_i_noise_stream_options options = {.precision = DPMF_FLOAT64, .count = LANES};
    uint64_t salt = 0;
    dpmf_i_crypto_seed *seed = NULL;
    dpmf_i_noise_stream *stream = NULL;
    double *state = NULL, found = 0;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_i_mechanism_response_salt(m, &salt));
    TRY_DONE(dpmf_i_base_alloc_doubles(dpmf_i_workload_buffers(m->workload) + 1, "the workload's state", &state));
    TRY_DONE(dpmf_i_verify_seed_open_response(salt, &seed));
    TRY_DONE(dpmf_i_noise_stream_create(m->strategy, seed, &options, NULL, &stream));
    TRY_DONE(respond_by_stream(v, salt, stream, state, &found));
    dpmf_i_verify_check_response(v, "stream.response", found, DPMF_I_VERIFY_TOLERANCE_OTHER,
                                 "u' A W v, W v from the noise stream fed with v: it is the stream of this strategy");
done:
    dpmf_i_noise_stream_free(stream);
    dpmf_i_crypto_seed_close(seed);
    dpmf_i_base_free(state);
    return status;
}

static dpmf_status check_inverse(dpmf_i_verify *v, int64_t steps, int64_t seeds) {
    const dpmf_strategy *s = v->mechanism->strategy;
    double *w = NULL, *columns = NULL, found = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_base_alloc_doubles(steps * seeds, "the first rows of W", &w));
    TRY_DONE(dpmf_i_verify_stream_impulses(s, DPMF_FLOAT64, steps, seeds, NULL, v->run, w));
    TRY_DONE(dpmf_i_base_alloc_doubles(steps * seeds, "the first columns of C", &columns));
    TRY_DONE(dpmf_i_verify_first_columns(s, steps, seeds, columns));
    TRY_DONE(dpmf_i_verify_left_inverse_error(steps, seeds, w, columns, v->run, &found));
    const dpmf_check check = {.name = "stream.left_inverse",
                              .ok = found <= DPMF_I_VERIFY_TOLERANCE_OTHER,
                              .claimed = 0,
                              .found = found,
                              .tolerance = DPMF_I_VERIFY_TOLERANCE_OTHER};
    dpmf_i_verify_check_add(v->out, check,
                            "largest entry of W C - I over the first %" PRId64 " steps of %" PRId64
                            ", W read from the noise stream (absolute)",
                            steps, v->mechanism->steps);
done:
    dpmf_i_base_free(columns);
    dpmf_i_base_free(w);
    return status;
}

dpmf_status dpmf_i_verify_stream(dpmf_i_verify *v) {
    const dpmf_mechanism *m = v->mechanism;
    static const char costly[] = "not made: at %" PRId64 " steps it would take too much time or memory here";
    int64_t steps = first_steps(m->steps), seeds = dpmf_i_verify_seeds_before(m->strategy, steps);
    int can = 0;
    TRY(affordable(m->strategy, LANES, m->steps, &can));
    if (can && v->responded)
        TRY(check_response(v));
    else
        dpmf_i_verify_check_skip(v->out, "stream.response", costly, m->steps);
    TRY(affordable(m->strategy, seeds, steps, &can));
    if (can) return check_inverse(v, steps, seeds);
    dpmf_i_verify_check_skip(v->out, "stream.left_inverse", costly, m->steps);
    return DPMF_OK;
}
