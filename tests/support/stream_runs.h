/* SPDX-License-Identifier: Apache-2.0 */
/* Running a noise stream under any setting, for the tests of its bits and of its limits. */
#ifndef DPMF_TESTS_STREAM_RUNS_H
#define DPMF_TESTS_STREAM_RUNS_H

#include "noise/plan.h"
#include "support/stream_cases.h"

enum { STEPS = 20, FIRST = 77, COUNT = 333 };
static const double SCALE = 1.7;

static crypto_seed *open_seed(void) {
    uint8_t key[32];
    crypto_seed *seed = NULL;
    for (int i = 0; i < 32; i++)
        key[i] = (uint8_t)(3 * i + 5);
    check_ok(crypto_seed_open(key, &seed));
    return seed;
}

typedef struct setting {
    noise_stream_options options;
    int threads; /* 0: no pool */
    const char *kernels;
    int segments, add;
} setting;

static inline setting plain(dpmf_precision precision) {
    return (setting){.options = {.precision = precision, .first = FIRST, .count = COUNT}};
}

static size_t number_size(const setting *how) {
    return how->options.precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
}

static noise_stream *open_stream(const dpmf_strategy *s, const crypto_seed *seed, const setting *how, base_pool *pool) {
    noise_stream *stream = NULL;
    check_ok(noise_stream_create(s, seed, &how->options, pool, &stream));
    if (how->kernels != NULL) {
        const kernels_combine_set *set = kernels_combine_find(how->kernels);
        stream->kernels = how->options.precision == DPMF_FLOAT32 ? &set->single : &set->full;
    }
    return stream;
}

/* Segments of 1, 0, 2, 0, 4, ... numbers, the last with the rest: one, or as many as asked for. */
static void emit(noise_stream *stream, const setting *how, char *row) {
    noise_segment segment[12];
    int64_t left = how->options.count;
    int used = 0;
    for (int k = 0; k + 1 < how->segments; k++) {
        int64_t count = k % 2 == 1 ? 0 : (int64_t)1 << (k / 2 + (k == 6 ? 3 : 0));
        if (count > left) break;
        segment[used++] = (noise_segment){count == 0 ? NULL : row, count};
        row += (size_t)count * number_size(how);
        left -= count;
    }
    segment[used++] = (noise_segment){row, left};
    check_ok(noise_stream_emit(stream, SCALE, how->add ? NOISE_ADD : NOISE_STORE, used, segment));
}

/* All rows, STEPS x count numbers, malloc'ed. */
static inline char *all_rows(const dpmf_strategy *s, const crypto_seed *seed, const setting *how) {
    size_t bytes = (size_t)how->options.count * number_size(how);
    char *rows = calloc(STEPS, bytes);
    base_pool *pool = NULL;
    if (how->threads > 0) check_ok(base_pool_create(how->threads, &pool));
    noise_stream *stream = open_stream(s, seed, how, pool);
    for (int t = 0; t < STEPS; t++) {
        assert_int_equal(noise_stream_step(stream), t);
        emit(stream, how, rows + (size_t)t * bytes);
    }
    noise_stream_free(stream);
    base_pool_free(pool);
    return rows;
}

#endif
