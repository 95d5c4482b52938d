/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A noise stream that is stopped, moved, saved and loaded continues with the same bits; it refuses what it cannot do;
 * its memory is as announced, for any number of threads (base_pool_create).
 */
#include "support/failing_allocator.h"
#include "support/stream_runs.h"

static void check_row(const char *name, noise_stream *stream, const setting *how, const char *rows, int64_t t) {
    size_t bytes = (size_t)COUNT * number_size(how);
    char row[COUNT * sizeof(double)];
    assert_int_equal(noise_stream_step(stream), t);
    emit(stream, how, row);
    if (memcmp(row, rows + (size_t)t * bytes, bytes) != 0) fail_msg("%s: other bits at step %d", name, (int)t);
}

static void test_seeking_gives_the_rows_of_any_step(void **state) {
    (void)state;
    static const int64_t targets[] = {7, 0, 19, 5, 12, 11, 10, 4, 18, 20, 3, 14, 15, 15, 0};
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++)
        for (int64_t lookahead = 0; lookahead <= 3; lookahead += 3) {
            char name[96];
            dpmf_strategy *s = stream_case(k, STEPS, name);
            setting how = plain(k % 2 == 0 ? DPMF_FLOAT32 : DPMF_FLOAT64);
            char *rows = all_rows(s, seed, &how);
            how.options.lookahead = lookahead;
            how.options.tile = 128;
            noise_stream *stream = open_stream(s, seed, &how, NULL);
            for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
                check_ok(noise_stream_seek(stream, targets[i], NULL));
                for (int64_t t = targets[i]; t < STEPS && t < targets[i] + 2; t++)
                    check_row(name, stream, &how, rows, t);
            }
            check_fails(DPMF_ERROR_ARGUMENT, noise_stream_seek(stream, -1, NULL));
            check_fails(DPMF_ERROR_ARGUMENT, noise_stream_seek(stream, STEPS + 1, NULL));
            check_row(name, stream, &how, rows, 2);
            noise_stream_free(stream);
            free(rows);
            dpmf_strategy_free(s);
        }
    crypto_seed_close(seed);
}

/* Saved by one stream and loaded by another, with other tiles and look-ahead; then back before the saved step. */
static void check_state(const char *name, const dpmf_strategy *s, const crypto_seed *seed, const char *rows,
                        int64_t stop, dpmf_precision precision) {
    setting one = plain(precision), other = plain(precision);
    other.options.tile = 64;
    other.options.lookahead = 2;
    noise_stream *from = open_stream(s, seed, &one, NULL), *to = open_stream(s, seed, &other, NULL);
    for (int64_t t = 0; t < stop; t++)
        check_row(name, from, &one, rows, t);
    int64_t size = noise_stream_state_size(from);
    assert_int_equal(size, noise_stream_state_size(to));
    uint8_t *bytes = malloc((size_t)size + 1);
    bytes[size] = 99;
    check_ok(noise_stream_state_save(from, bytes));
    assert_int_equal(bytes[size], 99);
    check_row(name, to, &other, rows, 0);
    check_ok(noise_stream_state_load(to, stop, bytes));
    for (int64_t t = stop; t < STEPS; t++)
        check_row(name, to, &other, rows, t);
    check_ok(noise_stream_state_load(to, stop, bytes));
    check_ok(noise_stream_seek(to, stop / 2, NULL));
    check_row(name, to, &other, rows, stop / 2);
    free(bytes);
    noise_stream_free(from);
    noise_stream_free(to);
}

static void test_a_saved_state_goes_on_with_the_same_rows(void **state) {
    (void)state;
    static const int64_t stops[] = {0, 1, 6, 13, 19};
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_strategy *s = stream_case(k, STEPS, name);
        setting how = plain(k % 2 == 0 ? DPMF_FLOAT64 : DPMF_FLOAT32);
        char *rows = all_rows(s, seed, &how);
        for (size_t i = 0; i < sizeof stops / sizeof stops[0]; i++)
            check_state(name, s, seed, rows, stops[i], how.options.precision);
        free(rows);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

static void test_states_of_other_steps_are_refused(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = plain_case(19, STEPS); /* 9 bands */
    setting how = plain(DPMF_FLOAT32);
    char *rows = all_rows(s, seed, &how);
    noise_stream *stream = open_stream(s, seed, &how, NULL);
    uint8_t *bytes = calloc((size_t)noise_stream_state_size(stream), 1);
    check_ok(noise_stream_state_save(stream, bytes));
    check_row("banded", stream, &how, rows, 0);
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_state_load(stream, STEPS + 1, bytes));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_state_load(stream, -1, bytes));
    check_fails(DPMF_ERROR_FORMAT, noise_stream_state_load(stream, 1, bytes)); /* it has made no row */
    bytes[0] = 10;
    check_fails(DPMF_ERROR_FORMAT, noise_stream_state_load(stream, 1, bytes)); /* more than 8 ahead */
    bytes[0] = 21;
    check_fails(DPMF_ERROR_FORMAT, noise_stream_state_load(stream, 19, bytes)); /* past the end */
    check_row("banded", stream, &how, rows, 1);                                 /* nothing has changed */
    free(bytes);
    noise_stream_free(stream);
    free(rows);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

static int stop_at_once(void *context, const char *what, double done) {
    (void)context, (void)what, (void)done;
    return 1;
}

/* A cancelled replay leaves a stream that knows its step and continues from there. */
static void test_a_cancelled_seek_leaves_a_stream_that_goes_on(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = plain_case(18, STEPS); /* two bands: one row at a time */
    setting how = plain(DPMF_FLOAT32);
    char *rows = all_rows(s, seed, &how);
    noise_stream *stream = open_stream(s, seed, &how, NULL);
    dpmf_run run = dpmf_run_defaults();
    run.progress = stop_at_once;
    check_fails(DPMF_ERROR_CANCELLED, noise_stream_seek(stream, 15, &run));
    assert_true(noise_stream_step(stream) < 15);
    check_row("banded", stream, &how, rows, noise_stream_step(stream));
    check_ok(noise_stream_seek(stream, 15, NULL));
    check_row("banded", stream, &how, rows, 15);
    noise_stream_free(stream);
    free(rows);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

/* ---- refusals and memory ---- */

static void test_a_stream_gives_no_row_past_its_last_step(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_strategy *s = stream_case(k, STEPS, name);
        setting how = plain(DPMF_FLOAT32);
        float row[COUNT], before[COUNT];
        const noise_segment segment = {row, COUNT};
        noise_stream *stream = open_stream(s, seed, &how, NULL);
        for (int t = 0; t < STEPS; t++)
            check_ok(noise_stream_emit(stream, 1, 0, 1, &segment));
        memcpy(before, row, sizeof row);
        for (int again = 0; again < 2; again++) {
            check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, (noise_how)again, 1, &segment));
            assert_memory_equal(row, before, sizeof row);
            assert_int_equal(noise_stream_step(stream), STEPS);
        }
        noise_stream_free(stream);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

static void test_stream_options_out_of_range_are_refused(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    dpmf_strategy *s = plain_case(7, STEPS), *singular = NULL;
    const double rows[] = {1, 0, 0, 1};
    check_ok(dpmf_strategy_create_banded(2, 2, rows, &singular));
    const noise_stream_options good = plain(DPMF_FLOAT32).options;
    noise_stream_options o = good;
    noise_stream *stream = NULL;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(NULL, seed, &good, NULL, &stream));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, NULL, &good, NULL, &stream));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, NULL, NULL, &stream));
    check_fails(DPMF_ERROR_NUMERICAL, noise_stream_create(singular, seed, &good, NULL, &stream));
    o.count = 0;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, &o, NULL, &stream));
    o = good, o.first = -1;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, &o, NULL, &stream));
    o = good, o.tile = -1;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, &o, NULL, &stream));
    o = good, o.lookahead = -1;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, &o, NULL, &stream));
    o = good, o.precision = (dpmf_precision)2;
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_create(s, seed, &o, NULL, &stream));
    assert_null(stream);
    check_ok(noise_stream_create(s, seed, &good, NULL, &stream));
    float row[COUNT] = {0};
    const noise_segment too_few[] = {{row, 5}}, too_many[] = {{row, COUNT}, {row, 1}};
    const noise_segment missing[] = {{NULL, COUNT}}, negative[] = {{row, COUNT + 1}, {row, -1}};
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, 0, 1, too_few));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, 0, 2, too_many));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, 0, 1, missing));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, 0, 2, negative));
    check_fails(DPMF_ERROR_ARGUMENT, noise_stream_emit(stream, 1, 0, 1, NULL));
    for (int i = 0; i < COUNT; i++)
        assert_true(row[i] == 0);
    assert_int_equal(noise_stream_step(stream), 0);
    noise_stream_free(stream);
    dpmf_strategy *whole = plain_case(5, STEPS);
    o = good, o.scratch = "/nonexistent/directory", stream = NULL;
    check_fails(DPMF_ERROR_IO, noise_stream_create(whole, seed, &o, NULL, &stream));
    assert_null(stream);
    dpmf_strategy_free(whole);
    dpmf_strategy_free(singular);
    dpmf_strategy_free(s);
    crypto_seed_close(seed);
}

/* The announced memory is the memory taken; later calls take no more. */
static void test_a_stream_takes_the_memory_it_announced(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    for (int k = 0; k < STREAM_CASES; k++)
        for (int threads = 1; threads <= 3; threads += 2) {
            char name[96];
            dpmf_strategy *s = stream_case(k, STEPS, name);
            setting how = plain(k % 2 == 0 ? DPMF_FLOAT32 : DPMF_FLOAT64);
            how.options.lookahead = k % 4;
            if (k % 5 == 0) how.options.scratch = ".";
            uint64_t all = 0, buffers = 0;
            check_ok(noise_stream_memory(s, &how.options, threads, &all, &buffers));
            base_pool *pool = NULL;
            check_ok(base_pool_create(threads, &pool));
            uint64_t before = dpmf_memory_in_use();
            noise_stream *stream = open_stream(s, seed, &how, pool);
            assert_int_equal(dpmf_memory_in_use() - before, all);
            assert_true(buffers <= all);
            failing_allocator none = {0, 0};
            const dpmf_allocator hook = {failing_allocate, failing_release, &none};
            dpmf_memory_set_allocator(&hook);
            char row[COUNT * sizeof(double)];
            for (int t = 0; t < STEPS; t++)
                emit(stream, &how, row);
            check_ok(noise_stream_seek(stream, 9, NULL));
            emit(stream, &how, row);
            dpmf_memory_set_allocator(NULL);
            assert_int_equal(none.asked, 0);
            noise_stream_free(stream);
            assert_int_equal(dpmf_memory_in_use(), before);
            base_pool_free(pool);
            dpmf_strategy_free(s);
        }
    crypto_seed_close(seed);
}

/* Buffers x count numbers is what the model's size costs: the rest does not grow with it. */
static void test_memory_grows_with_buffers_alone(void **state) {
    (void)state;
    static const struct {
        int which, buffers;
    } cases[] = {{0, 0}, {1, 0}, {7, 4}, {8, 11}, {19, 8}, {21, 7}, {22, 4}, {24, 6}, {12, 5}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        dpmf_strategy *s = plain_case(cases[k].which, STEPS);
        noise_stream_options o = {.count = (int64_t)1 << 20};
        uint64_t all = 0, buffers = 0, twice = 0, twice_buffers = 0;
        check_ok(noise_stream_memory(s, &o, 2, &all, &buffers));
        assert_int_equal(buffers, (uint64_t)cases[k].buffers * 4 * (uint64_t)o.count);
        o.count *= 2;
        check_ok(noise_stream_memory(s, &o, 2, &twice, &twice_buffers));
        assert_int_equal(twice - all, buffers);
        dpmf_strategy_free(s);
    }
}

/* Rows of `how`, and the bytes that the allocator gave to the stream. */
static char *rows_and_bytes(const dpmf_strategy *s, const crypto_seed *seed, const setting *how, uint64_t *bytes) {
    const uint64_t before = dpmf_memory_in_use();
    const size_t size = (size_t)COUNT * number_size(how);
    char *rows = malloc(STEPS * size);
    noise_stream *stream = open_stream(s, seed, how, NULL);
    *bytes = dpmf_memory_in_use() - before;
    for (int64_t t = 0; t < STEPS; t++)
        emit(stream, how, rows + (size_t)t * size);
    assert_int_equal(noise_stream_state_size(stream), 0);
    noise_stream_free(stream);
    return rows;
}

/*
 * Without memory for rows the stream makes the same bits as with it, plain and exact, and what the allocator gives it does
 * not grow with the length of a row: 0 rows are kept. What must keep rows is refused.
 */
static void test_a_stream_without_rows_makes_the_same_bits(void **state) {
    static const int rowless[] = {0, 1, 5, 9, 10, 16, 39}, keeps[] = {7, 19, 21, 22, 25, 28, 31};
    crypto_seed *seed = open_seed();
    (void)state;
    for (size_t k = 0; k < sizeof rowless / sizeof *rowless; k++)
        for (int kind = 0; kind < 3; kind++) {
            dpmf_strategy *s = plain_case(rowless[k], STEPS);
            setting with = plain(kind == 0 ? DPMF_FLOAT32 : DPMF_FLOAT64);
            if (kind == 2) with.options.exact = 0x1p36;
            setting without = with, wide = with;
            without.options.memory = wide.options.memory = DPMF_MEMORY_NO_ROWS;
            without.options.strict = wide.options.strict = 1;
            with.options.lookahead = 5;
            uint64_t more = 0, bytes = 0, all = 0, buffers = 1, wider = 0;
            char *expected = rows_and_bytes(s, seed, &with, &more), *made = rows_and_bytes(s, seed, &without, &bytes);
            assert_memory_equal(made, expected, (size_t)(STEPS * COUNT) * number_size(&with));
            check_ok(noise_stream_memory(s, &without.options, 1, &all, &buffers));
            assert_int_equal(bytes, all);
            assert_int_equal(buffers, 0);
            wide.options.count = (int64_t)1
                                 << 20; /* the announced size is what the allocator gives: above, and the test of it */
            check_ok(noise_stream_memory(s, &wide.options, 1, &all, &buffers));
            wide.options.count *= 1000;
            check_ok(noise_stream_memory(s, &wide.options, 1, &wider, &buffers));
            assert_int_equal(wider, all);
            assert_int_equal(buffers, 0);
            free(expected);
            free(made);
            dpmf_strategy_free(s);
        }
    for (size_t k = 0; k < sizeof keeps / sizeof *keeps; k++) {
        dpmf_strategy *s = plain_case(keeps[k], STEPS);
        setting how = plain(DPMF_FLOAT32);
        noise_stream *stream = NULL;
        how.options.memory = DPMF_MEMORY_NO_ROWS;
        how.options.strict = 1;
        check_fails(DPMF_ERROR_UNSUPPORTED, noise_stream_create(s, seed, &how.options, NULL, &stream));
        assert_null(stream);
        how.options.strict = 0; /* as a preference it changes nothing here */
        char *rows = all_rows(s, seed, &how);
        how.options.memory = 0;
        char *usual = all_rows(s, seed, &how);
        assert_memory_equal(rows, usual, (size_t)(STEPS * COUNT) * sizeof(float));
        free(rows);
        free(usual);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

/* A limit in bytes: fewer rows are made ahead until it is met; the bits stay; below what one row needs it is refused. */
static void test_rows_are_made_ahead_as_far_as_memory_allows(void **state) {
    noise_stream_options o = {.count = (int64_t)1 << 20, .strict = 1};
    dpmf_strategy *s = plain_case(10, STEPS);
    uint64_t all = 0, buffers = 0, limit = 0;
    (void)state;
    check_ok(noise_stream_memory(s, &o, 1, &all, &buffers));
    assert_int_equal(buffers, 6 * 4 * (uint64_t)o.count);
    for (limit = all; buffers > 0; limit = all - 1) {
        o.memory = limit;
        check_ok(noise_stream_memory(s, &o, 1, &all, &buffers));
        assert_true(all <= limit);
    }
    o.memory = all - 1;
    check_fails(DPMF_ERROR_UNSUPPORTED, noise_stream_memory(s, &o, 1, &all, &buffers));
    dpmf_strategy_free(s);
}

static void test_any_allocation_of_a_stream_may_fail(void **state) {
    (void)state;
    crypto_seed *seed = open_seed();
    static const int which[] = {0, 7, 10, 14, 16, 12, 22, 27, 39};
    for (size_t k = 0; k < sizeof which / sizeof which[0]; k++) {
        dpmf_strategy *s = plain_case(which[k], STEPS);
        noise_stream_options o = plain(DPMF_FLOAT32).options;
        o.scratch = k == 2 ? "." : NULL;
        noise_stream *stream = NULL;
        FAIL_EACH(noise_stream_create(s, seed, &o, NULL, &stream));
        noise_stream_free(stream);
        dpmf_strategy_free(s);
    }
    crypto_seed_close(seed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeking_gives_the_rows_of_any_step),
                                       cmocka_unit_test(test_a_saved_state_goes_on_with_the_same_rows),
                                       cmocka_unit_test(test_states_of_other_steps_are_refused),
                                       cmocka_unit_test(test_a_cancelled_seek_leaves_a_stream_that_goes_on),
                                       cmocka_unit_test(test_a_stream_gives_no_row_past_its_last_step),
                                       cmocka_unit_test(test_stream_options_out_of_range_are_refused),
                                       cmocka_unit_test(test_a_stream_takes_the_memory_it_announced),
                                       cmocka_unit_test(test_memory_grows_with_buffers_alone),
                                       cmocka_unit_test(test_a_stream_without_rows_makes_the_same_bits),
                                       cmocka_unit_test(test_rows_are_made_ahead_as_far_as_memory_allows),
                                       cmocka_unit_test(test_any_allocation_of_a_stream_may_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
