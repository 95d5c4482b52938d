/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles make rows ahead in turn (noise/stream.c): many bands, many tiles, so that every number of rows is due at some
 * step; sought, saved and resumed at steps where the turns have made different numbers of rows. The bits are those of a
 * stream without look-ahead, and no step makes more than its share.
 */
#include "support/stream_runs.h"

enum { LONG = 150, WIDE = 64 * 70 + 13, BANDS = 64 };

/* Outputs fed back, or seeds filtered. */
static dpmf_strategy *banded(int inverse) {
    if (!inverse) return banded_case(LONG, BANDS);
    dpmf_workload *a = NULL;
    dpmf_strategy *s = NULL;
    dpmf_strategy_options o = dpmf_strategy_options_defaults();
    o.bands = BANDS;
    check_ok(dpmf_workload_create(LONG, NULL, &a));
    check_ok(dpmf_strategy_create("bisr", a, &o, &s));
    dpmf_workload_free(a);
    return s;
}

static setting wide(int64_t lookahead, int threads) {
    return (setting){.options = {.first = FIRST, .count = WIDE, .tile = 64, .lookahead = lookahead},
                     .threads = threads};
}

static float *plain_rows(const dpmf_strategy *s, const crypto_seed *seed) {
    const setting how = wide(1, 0);
    float *rows = calloc((size_t)LONG * WIDE, sizeof *rows);
    noise_stream *stream = open_stream(s, seed, &how, NULL);
    assert_int_equal(stream->plan.turns, 1);
    for (int t = 0; t < LONG; t++)
        emit(stream, &how, (char *)(rows + (size_t)t * WIDE));
    noise_stream_free(stream);
    return rows;
}

static void check_next(noise_stream *stream, const setting *how, const float *rows, int64_t t) {
    static float row[WIDE];
    emit(stream, how, (char *)row);
    if (memcmp(row, rows + (size_t)t * WIDE, sizeof row) != 0) fail_msg("row %d differs", (int)t);
}

static void check_way(const dpmf_strategy *s, const crypto_seed *seed, const float *rows, const setting *how,
                      int64_t turns) {
    base_pool *pool = NULL;
    if (how->threads > 0) check_ok(base_pool_create(how->threads, &pool));
    noise_stream *stream = open_stream(s, seed, how, pool);
    assert_int_equal(stream->plan.turns, turns);
    for (int64_t t = 0; t < LONG; t++)
        check_next(stream, how, rows, t);
    for (int64_t t = 3; t < LONG; t = t * 5 / 2) { /* back and forth */
        check_ok(noise_stream_seek(stream, t, NULL));
        for (int64_t u = t; u < t + 5 && u < LONG; u++)
            check_next(stream, how, rows, u);
    }
    noise_stream_free(stream);
    base_pool_free(pool);
}

static void test_rows_made_in_turn_have_the_same_bits(void **unused) {
    static const struct {
        int64_t lookahead, turns;
        int threads;
    } ways[] = {{0, 63, 0}, {0, 8, 2}, {20, 20, 1}, {7, 5, 3}};
    crypto_seed *seed = open_seed();
    (void)unused;
    for (int inverse = 0; inverse < 2; inverse++) {
        dpmf_strategy *s = banded(inverse);
        float *rows = plain_rows(s, seed);
        for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
            const setting how = wide(ways[k].lookahead, ways[k].threads);
            check_way(s, seed, rows, &how, ways[k].turns);
        }
        free(rows);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

/* A saved state continues in a stream of other tiles and look-ahead, and saving changes no row of the stream itself. */
static void test_states_saved_between_turns_go_on(void **unused) {
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = banded(0);
    float *rows = plain_rows(s, seed);
    const setting how = wide(0, 0);
    setting other = wide(0, 0);
    other.options.tile = 0; /* few tiles, so few turns */
    noise_stream *one = open_stream(s, seed, &how, NULL), *two = open_stream(s, seed, &other, NULL);
    const size_t size = (size_t)noise_stream_state_size(one);
    uint8_t *bytes = calloc(size, 1), *same = calloc(size, 1);
    (void)unused;
    for (int64_t t = 0; t < LONG; t++) {
        check_next(one, &how, rows, t);
        check_next(two, &other, rows, t);
        if (t % 37 != 5) continue;
        check_ok(noise_stream_state_save(one, bytes));
        check_ok(noise_stream_state_save(two, same));
        assert_memory_equal(bytes, same, size); /* tiles are no part of a state */
        check_ok(noise_stream_state_load(two, t + 1, bytes));
    }
    free(bytes);
    free(same);
    noise_stream_free(one);
    noise_stream_free(two);
    free(rows);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

/* Rows of tiles that a step makes: from the first step on about one per tile, never all rows ahead at once. */
static void test_no_step_makes_more_than_its_share(void **unused) {
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = banded(0);
    const setting how = wide(0, 0);
    noise_stream *stream = open_stream(s, seed, &how, NULL);
    const int64_t turns = stream->plan.turns;
    static float row[WIDE];
    int64_t before = 0;
    (void)unused;
    for (int t = 0; t < LONG; t++) {
        int64_t made = 0;
        emit(stream, &how, (char *)row);
        for (int64_t c = 0; c < turns; c++)
            made += stream->turn[c].made;
        assert_true(made - before <= (t < 12 ? 2 : t < BANDS ? 6 : 1) * turns);
        before = made;
    }
    noise_stream_free(stream);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_made_in_turn_have_the_same_bits),
                                       cmocka_unit_test(test_states_saved_between_turns_go_on),
                                       cmocka_unit_test(test_no_step_makes_more_than_its_share)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
