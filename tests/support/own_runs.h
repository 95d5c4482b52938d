/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of a user's own strategy: its bits for other numbers of threads, in shards, and after a stop. */
#ifndef DPMF_TESTS_OWN_RUNS_H
#define DPMF_TESTS_OWN_RUNS_H

#include "support/check.h"

#include <stdlib.h>
#include <string.h>

enum { OWN_COLUMNS = 700 };

/* Rows from `first` on, into their place in `rows` (steps x OWN_COLUMNS floats), coordinates from `offset` on. */
static inline void own_rows(const dpmf_mechanism *m, int threads, int64_t offset, int64_t first, float *rows) {
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise_options o = dpmf_noise_options_defaults();
    dpmf_noise *noise = NULL;
    o.run.threads = threads;
    o.offset = offset;
    check_ok(dpmf_key_testing(5, key));
    check_ok(dpmf_noise_create(m, OWN_COLUMNS, 1, key, &o, &noise));
    check_ok(dpmf_noise_seek(noise, first));
    for (int64_t t = first; t < dpmf_strategy_get(dpmf_mechanism_get(m).strategy).steps; t++)
        check_ok(dpmf_noise_next(noise, rows + t * OWN_COLUMNS + offset));
    dpmf_noise_free(noise);
}

/* The same bits for one thread and three, for a shard, and for a run that begins again in the middle. */
static inline void own_check_bits(const dpmf_workload *a, const dpmf_strategy *s) {
    const int64_t n = dpmf_strategy_get(s).steps, middle = n / 2;
    const size_t numbers = (size_t)(n * OWN_COLUMNS), row = OWN_COLUMNS * sizeof(float);
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    dpmf_mechanism *m = NULL;
    float *one = calloc(numbers, sizeof *one), *other = calloc(numbers, sizeof *other);
    o.sigma = 1;
    o.evaluate.lower_bound = DPMF_LOWER_BOUND_NONE;
    check_ok(dpmf_mechanism_create(a, NULL, s, &o, &m));
    own_rows(m, 1, 0, 0, one);
    own_rows(m, 3, 0, 0, other);
    assert_memory_equal(one, other, numbers * sizeof *one);
    memset(other, 0, numbers * sizeof *other);
    own_rows(m, 1, 0, middle, other);
    assert_memory_equal(one + middle * OWN_COLUMNS, other + middle * OWN_COLUMNS, (size_t)(n - middle) * row);
    memset(other, 0, numbers * sizeof *other);
    own_rows(m, 2, 333, 0, other);
    for (int64_t t = 0; t < n; t++)
        assert_memory_equal(one + t * OWN_COLUMNS + 333, other + t * OWN_COLUMNS + 333, row - 333 * sizeof *one);
    dpmf_mechanism_free(m);
    free(one);
    free(other);
}

#endif
