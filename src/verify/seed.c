/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise stream as a linear map: with seeds Z = I its rows are those of W, with Z = v in every column they are W v.
 * The seeds are kernels (kernels/seed/seed.h) in the place of AES: everything above them, look-ahead, tiles and recursions,
 * is the code that makes the noise of a run. Only this file opens such seeds.
 */
#include "verify/verify.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "kernels/seed/seed.h"
#include "noise/noise.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* ---- seeds that are no noise ---- */

static dpmf_status keep_key(const uint8_t key[32], kernels_seed_key *out) {
    memset(out, 0, sizeof *out);
    memcpy(out->round, key, 32);
    return DPMF_OK;
}

static void close_key(kernels_seed_key *key) {
    (void)key;
}

static int impulse_doubles(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double *out) {
    const uint64_t first = group * KERNELS_SEED_GROUP, count = groups * KERNELS_SEED_GROUP;
    (void)key;
    memset(out, 0, count * sizeof *out);
    if (row >= first && row - first < count) out[row - first] = 1;
    return 1;
}

static int impulse_floats(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, float *out) {
    const uint64_t first = group * KERNELS_SEED_GROUP, count = groups * KERNELS_SEED_GROUP;
    (void)key;
    memset(out, 0, count * sizeof *out);
    if (row >= first && row - first < count) out[row - first] = 1;
    return 1;
}

static double number_at(const kernels_seed_key *key, uint64_t row) {
    uint64_t salt = 0;
    memcpy(&salt, key->round, sizeof salt);
    return mechanism_response_number(salt, 2 * row + 1);
}

static int response_doubles(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double *out) {
    (void)group;
    for (size_t i = 0; i < groups * KERNELS_SEED_GROUP; i++)
        out[i] = number_at(key, row);
    return 1;
}

static int response_floats(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, float *out) {
    (void)group;
    for (size_t i = 0; i < groups * KERNELS_SEED_GROUP; i++)
        out[i] = (float)number_at(key, row);
    return 1;
}

static const kernels_seed_set IMPULSES = {
    .name = "impulses", .open = keep_key, .close = close_key, .floats = impulse_floats, .doubles = impulse_doubles};
static const kernels_seed_set RESPONSE = {
    .name = "response", .open = keep_key, .close = close_key, .floats = response_floats, .doubles = response_doubles};

dpmf_status verify_seed_open_impulses(crypto_seed **out) {
    const uint8_t none[32] = {0};
    return crypto_seed_open_with(&IMPULSES, none, out);
}

dpmf_status verify_seed_open_response(uint64_t salt, crypto_seed **out) {
    uint8_t key[32] = {0};
    memcpy(key, &salt, sizeof salt);
    return crypto_seed_open_with(&RESPONSE, key, out);
}

/* ---- what the stream makes of them ---- */

dpmf_status verify_stream_impulses(const dpmf_strategy *strategy, dpmf_precision precision, int64_t count,
                                   int64_t seeds, base_pool *pool, const dpmf_run *run, void *w) {
    const noise_stream_options options = {.precision = precision, .count = seeds};
    const size_t size = precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
    crypto_seed *seed = NULL;
    noise_stream *stream = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(verify_seed_open_impulses(&seed));
    TRY_DONE(noise_stream_create(strategy, seed, &options, pool, &stream));
    for (int64_t t = 0; t < count; t++) {
        const noise_segment row = {(char *)w + (size_t)(t * seeds) * size, seeds};
        TRY_DONE(noise_stream_emit(stream, 1, 0, 1, &row));
        if (t % 64 == 0)
            TRY_DONE(base_progress(run, "verify: impulses through the noise stream", (double)t / (double)count));
    }
done:
    noise_stream_free(stream);
    crypto_seed_close(seed);
    return status;
}

int verify_stream_is_whole(const dpmf_strategy *s) {
    s = strategy_innermost(s);
    return strategy_matrix(s) != NULL || (!strategy_can(s, STRATEGY_CAN_STEP) && s->ops->plan_noise == NULL);
}

int64_t verify_seeds_before(const dpmf_strategy *s, int64_t steps) {
    int64_t seeds = 0;
    if (verify_stream_is_whole(s) || !strategy_can(s, STRATEGY_CAN_STEP))
        return strategy_rows(s) == s->steps ? steps : strategy_rows(s);
    for (int64_t t = 0; t < steps; t++)
        seeds += dpmf_strategy_seeds(s, t);
    return seeds;
}

int verify_is_lower(const dpmf_strategy *s, int64_t steps) {
    if (strategy_rows(s) != s->steps) return 0;
    for (int64_t t = 0; t < steps; t++)
        if (dpmf_strategy_seeds(s, t) != 1) return 0;
    return 1;
}

dpmf_status verify_first_columns(const dpmf_strategy *strategy, int64_t count, int64_t rows, double *columns) {
    double *whole = NULL;
    dpmf_strategy *head = NULL; /* a stream without a horizon may have more steps than a memory has room for */
    dpmf_status status = DPMF_OK;
    TRY(strategy_cut(strategy, rows, &head));
    TRY_DONE(base_alloc_doubles(strategy_rows(head), "a column", &whole));
    for (int64_t j = 0; j < count; j++) {
        TRY_DONE(dpmf_strategy_column(head, j, whole));
        memcpy(columns + j * rows, whole, (size_t)rows * sizeof *whole);
    }
done:
    dpmf_strategy_free(head);
    base_free(whole);
    return status;
}

void verify_span_of(int64_t count, const double *x, int64_t *begin, int64_t *end) {
    *begin = 0;
    *end = count;
    while (*begin < count && x[*begin] == 0)
        ++*begin;
    while (*end > *begin && x[*end - 1] == 0)
        --*end;
}

static dpmf_status largest_error(int64_t count, int64_t seeds, const double *w, const double *columns,
                                 const int64_t *begins, const int64_t *ends, const dpmf_run *run, double *largest) {
    *largest = 0;
    for (int64_t j = 0; j < count; j++) {
        const double *column = columns + j * seeds;
        int64_t begin = 0, end = 0;
        verify_span_of(seeds, column, &begin, &end);
        for (int64_t t = 0; t < count; t++) {
            const int64_t from = begin > begins[t] ? begin : begins[t], to = end < ends[t] ? end : ends[t];
            const double sum = to > from ? base_dot(to - from, w + t * seeds + from, column + from) : 0;
            const double off = fabs(sum - (t == j));
            if (isnan(off)) {
                *largest = off;
                return DPMF_OK;
            }
            *largest = fmax(*largest, off);
        }
        TRY(base_progress(run, "verify: W C", (double)j / (double)count));
    }
    return DPMF_OK;
}

dpmf_status verify_left_inverse_error(int64_t count, int64_t seeds, const double *w, const double *columns,
                                      const dpmf_run *run, double *out) {
    int64_t *spans = NULL;
    TRY(base_alloc(2 * count, sizeof *spans, "where rows begin and end", (void **)&spans));
    for (int64_t t = 0; t < count; t++)
        verify_span_of(seeds, w + t * seeds, &spans[t], &spans[count + t]);
    const dpmf_status status = largest_error(count, seeds, w, columns, spans, spans + count, run, out);
    base_free(spans);
    return status;
}
