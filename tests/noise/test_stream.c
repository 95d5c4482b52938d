/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The noise stream's bits do not depend on tile, look-ahead, threads (base_pool_create), shards, segments or kernels.
 */
#include "support/stream_runs.h"

/* Columns from..from+count of the rows `all` are the rows `part`. */
static void check_same(const char *name, const char *what, const setting *how, const char *all, const char *part,
                       int64_t from, int64_t count) {
    size_t size = number_size(how);
    for (int t = 0; t < STEPS; t++)
        if (memcmp(all + (size_t)(t * COUNT + from) * size, part + (size_t)(t * count) * size, (size_t)count * size) !=
            0)
            fail_msg("%s, %s: other bits at step %d", name, what, t);
}

static void check_setting(const char *name, const char *what, const dpmf_strategy *s, const crypto_seed *seed,
                          const char *wanted, const setting *how) {
    char *rows = all_rows(s, seed, how);
    check_same(name, what, how, wanted, rows, how->options.first - FIRST, how->options.count);
    free(rows);
}

static void check_bits(const char *name, const dpmf_strategy *s, const crypto_seed *seed, dpmf_precision precision) {
    static const struct {
        const char *what;
        int64_t tile, lookahead, first, count;
        int threads, segments, add;
        const char *kernels, *scratch;
    } variants[] = {
        {"tile 64", 64, 0, FIRST, COUNT, 0, 0, 0, NULL, NULL},
        {"tile 256", 256, 0, FIRST, COUNT, 0, 0, 0, NULL, NULL},
        {"no look-ahead", 0, 1, FIRST, COUNT, 0, 0, 0, NULL, NULL},
        {"look-ahead 3", 128, 3, FIRST, COUNT, 0, 0, 0, NULL, NULL},
        {"look-ahead 1000", 0, 1000, FIRST, COUNT, 0, 0, 0, NULL, NULL},
        {"two threads", 64, 0, FIRST, COUNT, 2, 0, 0, NULL, NULL},
        {"three threads", 64, 2, FIRST, COUNT, 3, 9, 1, NULL, NULL},
        {"one thread of a pool", 64, 0, FIRST, COUNT, 1, 0, 0, NULL, NULL},
        {"a shard", 0, 0, FIRST + 5, 101, 0, 0, 0, NULL, NULL},
        {"another shard", 64, 3, FIRST + 106, COUNT - 106, 2, 4, 1, NULL, NULL},
        {"one coordinate", 0, 0, FIRST + 50, 1, 0, 0, 0, NULL, NULL},
        {"segments", 0, 0, FIRST, COUNT, 0, 12, 0, NULL, NULL},
        {"segments, added to zero", 64, 0, FIRST, COUNT, 0, 12, 1, NULL, NULL},
        {"a scratch file", 64, 0, FIRST, COUNT, 2, 0, 0, NULL, "."},
        {"a scratch file, 5 rows", 0, 5, FIRST, COUNT, 0, 0, 0, NULL, "."},
        {"kernels ref", 0, 0, FIRST, COUNT, 0, 0, 0, "ref", NULL},
        {"kernels avx2", 0, 3, FIRST, COUNT, 0, 0, 0, "avx2", NULL},
        {"kernels avx512", 0, 2, FIRST, COUNT, 0, 0, 0, "avx512", NULL},
    };
    setting how = plain(precision);
    char *wanted = all_rows(s, seed, &how);
    for (size_t k = 0; k < sizeof variants / sizeof variants[0]; k++) {
        setting other = {.options = {.precision = precision,
                                     .first = variants[k].first,
                                     .count = variants[k].count,
                                     .lookahead = variants[k].lookahead,
                                     .tile = variants[k].tile,
                                     .scratch = variants[k].scratch},
                         .threads = variants[k].threads,
                         .kernels = variants[k].kernels,
                         .segments = variants[k].segments,
                         .add = variants[k].add};
        if (other.kernels != NULL && kernels_combine_find(other.kernels) == NULL) continue;
        check_setting(name, variants[k].what, s, seed, wanted, &other);
    }
    free(wanted);
}

static void test_every_stream_has_the_same_bits_in_every_way(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_strategy *s = stream_case(k, STEPS, name);
        check_bits(name, s, seed, DPMF_FLOAT32);
        if (k % 3 == 0) check_bits(name, s, seed, DPMF_FLOAT64);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

/* Added to what is there: y + scale x in float, a product and then a sum. */
static void test_a_stream_adds_by_a_product_and_a_sum(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = plain_case(19, STEPS);
    setting how = plain(DPMF_FLOAT32);
    float *x = (float *)all_rows(s, seed, &how), y[COUNT];
    how.add = 1;
    how.segments = 6;
    noise_stream *stream = open_stream(s, seed, &how, NULL);
    for (int i = 0; i < COUNT; i++)
        y[i] = (float)i / 7;
    emit(stream, &how, (char *)y);
    for (int i = 0; i < COUNT; i++) {
        float wanted = (float)i / 7 + x[i];
        assert_memory_equal(&y[i], &wanted, sizeof wanted);
    }
    noise_stream_free(stream);
    free(x);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

/* Buffers of 19 MB are asked for ahead of time (noise/plan.c), those of a part of 1000 coordinates are not. */
static void test_buffers_that_no_cache_holds_have_the_same_bits(void **state) {
    enum { MANY = 700001, PART = 1000 };
    static const int64_t starts[] = {0, 333333, MANY - PART};
    (void)state;
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = blt_case(STEPS, 7);
    setting all = plain(DPMF_FLOAT32), some = all;
    float *row = malloc(MANY * sizeof *row), part[PART];
    assert_non_null(row);
    all.options.count = MANY;
    some.options.count = PART;
    for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
        some.options.first = FIRST + starts[k];
        noise_stream *one = open_stream(s, seed, &all, NULL), *other = open_stream(s, seed, &some, NULL);
        for (int t = 0; t < 3; t++) {
            emit(one, &all, (char *)row);
            emit(other, &some, (char *)part);
            assert_memory_equal(row + starts[k], part, sizeof part);
        }
        noise_stream_free(one);
        noise_stream_free(other);
    }
    free(row);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_stream_has_the_same_bits_in_every_way),
                                       cmocka_unit_test(test_buffers_that_no_cache_holds_have_the_same_bits),
                                       cmocka_unit_test(test_a_stream_adds_by_a_product_and_a_sum)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
