/* SPDX-License-Identifier: Apache-2.0 */
/* The public noise stream: the definition of a row, bits that depend on nothing else, and all refusals. */
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"
#include "support/failing_allocator.h"
#include "support/noise_cases.h"

#include <math.h>
#include <sys/wait.h>

static const char *const FAMILIES[] = {"identity", "workload", "toeplitz", "bsr", "bisr", "blt", "tree", "tree-online"};
enum { FAMILY_COUNT = sizeof FAMILIES / sizeof *FAMILIES };

/* ---- rows ---- */

/* C rows = scale Z for a square C: what is added at step t is W Z, scaled. */
static void test_rows_are_scaled_inverse_noise(void **unused) {
    (void)unused;
    for (int f = 0; f < 6; f++) {
        dpmf_mechanism *m = case_mechanism(FAMILIES[f], CASE_STEPS, 1.5);
        dpmf_noise_options o = case_options();
        dpmf_noise *noise = NULL;
        double rows[CASE_STEPS][CASE_DIM], x[CASE_STEPS], y[CASE_STEPS], z[CASE_STEPS][CASE_DIM];
        uint8_t subkey[32];
        crypto_seed *seed = NULL;
        o.precision = DPMF_FLOAT64;
        check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
        const double scale = 2.0 * 1.5 * dpmf_mechanism_get(m).evaluation.sensitivity.value;
        check_near(dpmf_noise_get(noise).release.scale, scale, 1e-15);
        assert_true(dpmf_noise_get(noise).calibrated);
        /* 0x4000... is 2, 0x3ff8... 1.5 */
        char info[400];
        snprintf(info, sizeof info, "%s//float64/21/4000000000000000/3ff8000000000000/0000000000000000/%s",
                 dpmf_mechanism_get(m).digest, "0102030000000000000000000000000000000000000000000000000000000000");
        check_ok(crypto_key_derive(case_key, "dpmf noise stream 2", info, subkey));
        check_ok(crypto_seed_open(subkey, &seed));
        for (int t = 0; t < CASE_STEPS; t++) {
            check_ok(dpmf_noise_next(noise, rows[t]));
            crypto_seed_fill(seed, DPMF_FLOAT64, (uint64_t)t, 0, CASE_DIM, z[t]);
        }
        for (int i = 0; i < CASE_DIM; i++) {
            for (int t = 0; t < CASE_STEPS; t++)
                x[t] = rows[t][i];
            check_ok(dpmf_strategy_apply(dpmf_mechanism_get(m).strategy, x, y));
            for (int t = 0; t < CASE_STEPS; t++)
                check_near(y[t], scale * z[t][i], 1e-12);
        }
        crypto_seed_close(seed);
        dpmf_noise_free(noise);
        dpmf_mechanism_free(m);
    }
}

typedef struct way {
    int64_t offset, count, lookahead;
    int prefetch, threads;
} way;

/* Rows from `o` equal the columns [offset, offset + count) of the reference, for any way of making them. */
static void check_way(const dpmf_mechanism *m, const float *reference, way w) {
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    float row[CASE_DIM];
    o.offset = w.offset;
    o.count = w.count;
    o.lookahead = w.lookahead;
    o.prefetch = w.prefetch;
    o.run.threads = w.threads;
    check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
    const int64_t count = dpmf_noise_get(noise).count;
    assert_int_equal(count, w.count > 0 ? w.count : CASE_DIM - w.offset);
    for (int t = 0; t < CASE_STEPS; t++) {
        assert_int_equal(dpmf_noise_get(noise).step, t);
        check_ok(dpmf_noise_next(noise, row));
        assert_memory_equal(row, reference + t * CASE_DIM + w.offset, (size_t)count * sizeof *row);
    }
    for (int i = 0, t = 0; i < 2 * CASE_STEPS; i++) { /* seek anywhere; t hops over all residues */
        t = (t + 5) % CASE_STEPS;
        check_ok(dpmf_noise_seek(noise, t));
        assert_int_equal(dpmf_noise_get(noise).step, t);
        check_ok(dpmf_noise_next(noise, row));
        assert_memory_equal(row, reference + t * CASE_DIM + w.offset, (size_t)count * sizeof *row);
    }
    dpmf_noise_free(noise);
}

static void test_bits_depend_on_key_and_mechanism_alone(void **unused) {
    const way ways[] = {{0, 0, 0, 0, 1}, {0, 0, 1, 0, 1},  {0, 0, 0, 1, 1},  {0, 0, 3, 1, 3}, {0, 0, 0, 0, 2},
                        {5, 0, 0, 0, 1}, {3, 11, 0, 1, 2}, {20, 1, 0, 0, 1}, {0, 1, 2, 0, 1}};
    float reference[CASE_STEPS * CASE_DIM];
    (void)unused;
    for (int f = 0; f < FAMILY_COUNT; f++) {
        dpmf_mechanism *m = case_mechanism(FAMILIES[f], CASE_STEPS, 0.7);
        case_rows(m, 0, CASE_STEPS, reference);
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
            check_way(m, reference, ways[i]);
        dpmf_mechanism_free(m);
    }
}

/* The same rows added to lists of buffers, with and without prefetching: one rounding of the product, one of the sum. */
static void test_rows_are_added_to_segments_with_two_roundings(void **unused) {
    const int64_t cuts[3][4] = {{21, 0, 0, 0}, {1, 0, 13, 7}, {0, 10, 10, 1}};
    dpmf_mechanism *m = case_mechanism("bsr", CASE_STEPS, 1.0);
    float reference[CASE_STEPS * CASE_DIM];
    (void)unused;
    case_rows(m, 0, CASE_STEPS, reference);
    for (int i = 0; i < 6; i++) {
        dpmf_noise_options o = case_options();
        dpmf_noise *noise = NULL;
        o.prefetch = i % 2;
        check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
        for (int t = 0; t < CASE_STEPS; t++) {
            float y[CASE_DIM], want[CASE_DIM];
            dpmf_segment segment[4];
            int64_t at = 0;
            for (int k = 0; k < CASE_DIM; k++) {
                y[k] = (float)k - 7.5f;
                want[k] = y[k] + -0.5f * reference[t * CASE_DIM + k]; /* a power of 2: exact */
            }
            for (int s = 0; s < 4; s++) {
                segment[s] = (dpmf_segment){cuts[i / 2][s] > 0 ? y + at : NULL, cuts[i / 2][s]};
                at += cuts[i / 2][s];
            }
            check_ok(dpmf_noise_add(noise, -0.5, 4, segment));
            assert_memory_equal(y, want, sizeof y);
        }
        dpmf_noise_free(noise);
    }
    dpmf_mechanism_free(m);
}

static void assert_other_noise(const dpmf_mechanism *m, const uint8_t *key, const char *label, dpmf_precision precision,
                               const float *row) {
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    double other[CASE_DIM];
    int same = 0;
    o.label = label;
    o.precision = precision;
    check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, key, &o, &noise));
    check_ok(dpmf_noise_next(noise, other));
    for (int i = 0; i < CASE_DIM; i++) {
        double x = precision == DPMF_FLOAT64 ? other[i] : (double)((float *)other)[i];
        same += fabs(x - (double)row[i]) < 1e-6 * fabs(x);
    }
    assert_true(same < 3);
    dpmf_noise_free(noise);
}

static void test_one_key_gives_different_noise_to_everything_else(void **unused) {
    dpmf_mechanism *m = case_mechanism("identity", CASE_STEPS, 1.0);
    dpmf_mechanism *other = case_mechanism("identity", CASE_STEPS + 1, 1.0);
    float row[CASE_DIM];
    uint8_t key[DPMF_KEY_SIZE];
    (void)unused;
    case_rows(m, 0, 1, row);
    memcpy(key, case_key, sizeof key);
    key[31] ^= 1;
    assert_other_noise(other, case_key, NULL, DPMF_FLOAT32, row);
    assert_other_noise(m, key, NULL, DPMF_FLOAT32, row);
    assert_other_noise(m, case_key, "second run", DPMF_FLOAT32, row);
    assert_other_noise(m, case_key, NULL, DPMF_FLOAT64, row);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(other);
}

/* Streams of such a mechanism went out with sigma = 1, in which no guarantee is known, and nothing asked the caller. */
static void test_a_mechanism_without_sigma_is_refused_unless_asked_for(void **unused) {
    dpmf_mechanism *m = case_mechanism("toeplitz", CASE_STEPS, 0.0);
    dpmf_noise *noise = NULL;
    dpmf_counter *counter = NULL;
    dpmf_noise_options o = case_options();
    (void)unused;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, 3, 2.0, case_key, NULL, &noise));
    check_message("no sigma");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_counter_create(m, 3, 2.0, case_key, NULL, &counter));
    check_message("no sigma");
    assert_true(noise == NULL && counter == NULL);
    o.uncalibrated = 1;
    check_ok(dpmf_noise_create(m, 3, 2.0, case_key, &o, &noise));
    assert_false(dpmf_noise_get(noise).calibrated);
    check_near(dpmf_noise_get(noise).release.scale, 2.0 * dpmf_mechanism_get(m).evaluation.sensitivity.value, 1e-15);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

static void test_the_mechanism_may_go(void **unused) {
    dpmf_mechanism *m = case_mechanism("tree", CASE_STEPS, 1.0);
    dpmf_noise *noise = NULL;
    float reference[CASE_STEPS * CASE_DIM], row[CASE_DIM];
    dpmf_noise_options o = case_options();
    (void)unused;
    case_rows(m, 0, CASE_STEPS, reference);
    check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
    dpmf_mechanism_free(m);
    for (int t = 0; t < CASE_STEPS; t++) {
        check_ok(dpmf_noise_next(noise, row));
        assert_memory_equal(row, reference + t * CASE_DIM, sizeof row);
    }
    dpmf_noise_free(noise);
}

/* ---- refused ---- */

static void test_a_row_past_the_last_step_is_refused(void **unused) {
    dpmf_mechanism *m = case_mechanism("bsr", CASE_STEPS, 1.0);
    (void)unused;
    for (int prefetch = 0; prefetch < 2; prefetch++) {
        dpmf_noise_options o = case_options();
        dpmf_noise *noise = NULL;
        float row[CASE_DIM], untouched[CASE_DIM];
        const dpmf_segment whole = {row, CASE_DIM};
        o.prefetch = prefetch;
        check_ok(dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
        for (int t = 0; t < CASE_STEPS; t++)
            check_ok(dpmf_noise_next(noise, row));
        memset(row, 0x5a, sizeof row);
        memset(untouched, 0x5a, sizeof untouched);
        for (int again = 0; again < 3; again++) {
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, row));
            check_message("row 12, accepted 0 to 11");
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 1, &whole));
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, CASE_STEPS + 1));
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, -1));
            check_ok(dpmf_noise_seek(noise, CASE_STEPS));
        }
        assert_memory_equal(row, untouched, sizeof row);
        assert_int_equal(dpmf_noise_get(noise).step, CASE_STEPS);
        dpmf_noise_free(noise);
    }
    dpmf_mechanism_free(m);
}

static void test_streams_out_of_range_are_refused(void **unused) {
    dpmf_mechanism *m = case_mechanism("identity", CASE_STEPS, 1.0);
    dpmf_noise *noise = NULL;
    uint64_t bytes = 5;
    (void)unused;
    const struct {
        int64_t dim;
        double clip;
        dpmf_noise_options o;
        const char *says;
    } bad[] = {
        {0, 1, {.run = {.threads = 1}}, "dim = 0"},
        {INT64_MAX, 1, {.run = {.threads = 1}}, "dim = "},
        {9, 0, {.run = {.threads = 1}}, "clip = 0"},
        {9, -1, {.run = {.threads = 1}}, "clip = -1"},
        {9, (double)NAN, {.run = {.threads = 1}}, "clip = nan"},
        {9, (double)INFINITY, {.run = {.threads = 1}}, "clip = inf"},
        {9, 1e-40, {.run = {.threads = 1}}, "clip x sigma x sensitivity"},
        {9, 1e40, {.run = {.threads = 1}}, "accepted for float32"},
        {9, 1, {.offset = 9}, "offset = 9, accepted 0 to 8"},
        {9, 1, {.offset = -1}, "offset = -1"},
        {9, 1, {.offset = 4, .count = 6}, "count = 6, accepted 1 to 5"},
        {9, 1, {.count = -1}, "count = -1"},
        {9, 1, {.precision = (dpmf_precision)2}, "precision 2"},
        {9, 1, {.lookahead = -1}, "lookahead = -1"},
        {9, 1, {.state = ""}, "state"},
        {9, 1, {.replay = 1}, "replay"},
        {9, 1, {.run = {.threads = 257}}, "257 threads"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, bad[i].dim, bad[i].clip, case_key, &bad[i].o, &noise));
        check_message(bad[i].says);
        assert_null(noise);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(NULL, 9, 1.0, case_key, NULL, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, 9, 1.0, NULL, NULL, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_memory(NULL, 9, NULL, &bytes, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_memory(m, 0, NULL, &bytes, NULL));
    assert_int_equal(bytes, 5);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(NULL, &bytes));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(NULL, 0));
    dpmf_noise_free(NULL);
    dpmf_mechanism_free(m);
}

static void test_segments_that_do_not_fit_the_row_are_refused(void **unused) {
    dpmf_mechanism *m = case_mechanism("identity", CASE_STEPS, 1.0);
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    float row[30] = {0}, zero[30] = {0};
    const dpmf_segment short_[2] = {{row, 10}, {row + 10, 10}}, long_[2] = {{row, 20}, {row + 20, 2}};
    const dpmf_segment negative[3] = {{row, 22}, {row, -1}, {row, 0}}, none[1] = {{NULL, 21}},
                       huge[1] = {{row, INT64_MAX}};
    const dpmf_segment whole = {row, CASE_DIM};
    (void)unused;
    check_ok(dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 2, short_));
    check_message("20 numbers in total, accepted: 21");
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 2, long_));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 3, negative));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 1, none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 1, huge));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 0, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, -1, &whole));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, 1.0, 1, NULL));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, NULL));
    for (int i = 0; i < 5; i++) {
        const double factors[] = {0.0, (double)NAN, (double)INFINITY, 1e-200, 1e200};
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_add(noise, factors[i], 1, &whole));
        check_message("factor");
    }
    assert_int_equal(dpmf_noise_get(noise).step, 0); /* no row is spent on a mistake */
    assert_memory_equal(row, zero, sizeof row);
    check_ok(dpmf_noise_add(noise, 1.0, 1, &whole));
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

/* After fork() both would give the same rows: the child gets none, and may free what it has. */
static void test_after_a_fork_the_child_gets_no_rows(void **unused) {
    dpmf_mechanism *m = case_mechanism("bsr", CASE_STEPS, 1.0);
    (void)unused;
    for (int kind = 0; kind < 3; kind++) {
        dpmf_noise_options o = case_options();
        dpmf_noise *noise = NULL;
        float row[CASE_DIM], reference[2 * CASE_DIM];
        int how = 0;
        o.prefetch = kind == 1;
        o.run.threads = kind == 2 ? 2 : 1;
        o.state = case_path("fork.state");
        unlink(o.state);
        case_rows(m, 0, 2, reference);
        check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
        check_ok(dpmf_noise_next(noise, row));
        pid_t child = fork();
        if (child == 0) {
            const dpmf_segment whole = {row, CASE_DIM};
            const float before = row[0];
            int wrong = dpmf_noise_next(noise, row) != DPMF_ERROR_UNSUPPORTED;
            wrong += dpmf_noise_add(noise, 1.0, 1, &whole) != DPMF_ERROR_UNSUPPORTED;
            wrong += dpmf_noise_seek(noise, 0) != DPMF_ERROR_UNSUPPORTED;
            wrong += dpmf_noise_save(noise, case_path("fork.checkpoint")) != DPMF_ERROR_UNSUPPORTED;
            wrong += row[0] != before;
            dpmf_noise_free(noise);
            _exit(wrong);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFEXITED(how));
        assert_int_equal(WEXITSTATUS(how), 0);
        check_ok(dpmf_noise_next(noise, row)); /* the parent continues, and its lock and state are as they were */
        assert_memory_equal(row, reference + CASE_DIM, sizeof row);
        dpmf_noise *second = NULL;
        check_fails(DPMF_ERROR_IO, dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &second));
        dpmf_noise_free(noise);
    }
    dpmf_mechanism_free(m);
}

/* ---- memory ---- */

static dpmf_status create_and_use(const dpmf_mechanism *m, const dpmf_noise_options *o) {
    dpmf_noise *noise = NULL;
    float row[CASE_DIM];
    dpmf_status status = dpmf_noise_create(m, CASE_DIM, 1.0, case_key, o, &noise);
    if (status == DPMF_OK) status = dpmf_noise_next(noise, row);
    dpmf_noise_free(noise);
    return status;
}

static void test_any_allocation_of_a_noise_stream_may_fail(void **unused) {
    dpmf_mechanism *m = case_mechanism("blt", CASE_STEPS, 1.0);
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    (void)unused;
    o.prefetch = 1;
    o.label = "label";
    check_ok(create_and_use(m, &o)); /* what OpenSSL makes once and keeps is made */
    FAIL_EACH(create_and_use(m, &o));
    o.state = case_path("failing.state");
    FAIL_EACH((unlink(o.state), create_and_use(m, &o)));
    FAIL_EACH(create_and_use(m, &o));
    check_ok(dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    FAIL_EACH(dpmf_noise_save(noise, case_path("failing.checkpoint")));
    FAIL_EACH(dpmf_noise_load(noise, case_path("failing.checkpoint")));
    dpmf_noise_free(noise);
    NEEDS_NO_MEMORY((unlink(case_path("failing.key")), dpmf_key_load(case_path("failing.key"), 1, key)));
    dpmf_mechanism_free(m);
}

static void *counting_allocate(void *context, size_t bytes) {
    ++*(int *)context;
    return calloc(1, bytes);
}

static void counting_release(void *context, void *memory) {
    (void)context;
    free(memory);
}

static void test_nothing_is_allocated_after_create(void **unused) {
    dpmf_mechanism *m = case_mechanism("bsr", CASE_STEPS, 1.0);
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    float row[CASE_DIM];
    int count = 0;
    const dpmf_allocator counting = {counting_allocate, counting_release, &count};
    (void)unused;
    o.state = case_path("count.state");
    check_ok(dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    check_ok(dpmf_noise_next(noise, row)); /* which makes the state file */
    dpmf_memory_set_allocator(&counting);
    for (int t = 1; t < CASE_STEPS; t++)
        check_ok(dpmf_noise_next(noise, row));
    dpmf_memory_set_allocator(NULL);
    assert_int_equal(count, 0);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

/* The dry run gives the memory that is taken, up to small change for keys and threads. */
static void test_memory_is_as_announced(void **unused) {
    enum { DIM = 1 << 18, SMALL = 1 << 14 };
    (void)unused;
    for (int i = 0; i < 6; i++) {
        dpmf_mechanism *m = case_mechanism(i < 3 ? "bsr" : "blt", CASE_STEPS, 1.0);
        dpmf_noise_options o = case_options();
        dpmf_noise *noise = NULL;
        uint64_t bytes = 0, buffers = 0;
        const uint64_t before = dpmf_memory_in_use();
        o.precision = i % 3 == 1 ? DPMF_FLOAT64 : DPMF_FLOAT32;
        o.prefetch = i % 3 == 2;
        o.offset = i % 3 == 2 ? 12345 : 0;
        check_ok(dpmf_noise_memory(m, DIM, &o, &bytes, &buffers));
        assert_int_equal(dpmf_memory_in_use(), before);
        check_ok(dpmf_noise_create(m, DIM, 1.0, case_key, &o, &noise));
        const uint64_t used = dpmf_memory_in_use() - before;
        assert_in_range(used, bytes - SMALL, bytes + SMALL);
        assert_int_equal(buffers, (uint64_t)dpmf_strategy_get(dpmf_mechanism_get(m).strategy).buffers *
                                      (uint64_t)(DIM - o.offset) * (o.precision == DPMF_FLOAT64 ? 8u : 4u));
        dpmf_noise_free(noise);
        assert_int_equal(dpmf_memory_in_use(), before);
        dpmf_mechanism_free(m);
    }
}

/* ---- mechanisms that need care ---- */

static void test_the_sensitivity_must_be_certain(void **unused) {
    dpmf_mechanism *m = case_mechanism("identity", CASE_STEPS, 1.0);
    dpmf_noise *noise = NULL;
    (void)unused;
    for (int kind = DPMF_EXACT; kind <= DPMF_ESTIMATE; kind++) {
        m->problem.evaluation.sensitivity.kind = (dpmf_certainty)kind;
        if (kind == DPMF_EXACT || kind == DPMF_UPPER_BOUND)
            check_ok(dpmf_noise_create(m, 3, 1.0, case_key, NULL, &noise));
        else
            check_fails(DPMF_ERROR_UNSUPPORTED, dpmf_noise_create(m, 3, 1.0, case_key, NULL, &noise));
        dpmf_noise_free(noise);
        noise = NULL;
    }
    dpmf_mechanism_free(m);
}

static void pass_on(void *context, int64_t t, int64_t count, const double *x, double *state, double *y) {
    (void)context, (void)t, (void)state;
    memcpy(y, x, (size_t)count * sizeof *y);
}

static void test_user_operators_need_a_label(void **unused) {
    const dpmf_operator same = {NULL, 0, pass_on, NULL};
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    float row[CASE_DIM];
    (void)unused;
    check_ok(dpmf_workload_parse("prefix", CASE_STEPS, &a));
    check_ok(dpmf_strategy_create_operator(CASE_STEPS, &same, 1, &c));
    check_ok(dpmf_mechanism_create(a, NULL, c, NULL, &m));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    check_message("label");
    o.label = "";
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    o.label = "my operator";
    o.uncalibrated = 1;
    check_ok(dpmf_noise_create(m, CASE_DIM, 1.0, case_key, &o, &noise));
    check_ok(dpmf_noise_next(noise, row));
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
    dpmf_strategy_free(c);
    dpmf_workload_free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_scaled_inverse_noise),
        cmocka_unit_test(test_bits_depend_on_key_and_mechanism_alone),
        cmocka_unit_test(test_rows_are_added_to_segments_with_two_roundings),
        cmocka_unit_test(test_one_key_gives_different_noise_to_everything_else),
        cmocka_unit_test(test_a_mechanism_without_sigma_is_refused_unless_asked_for),
        cmocka_unit_test(test_the_mechanism_may_go),
        cmocka_unit_test(test_a_row_past_the_last_step_is_refused),
        cmocka_unit_test(test_streams_out_of_range_are_refused),
        cmocka_unit_test(test_segments_that_do_not_fit_the_row_are_refused),
        cmocka_unit_test(test_after_a_fork_the_child_gets_no_rows),
        cmocka_unit_test(test_any_allocation_of_a_noise_stream_may_fail),
        cmocka_unit_test(test_nothing_is_allocated_after_create),
        cmocka_unit_test(test_memory_is_as_announced),
        cmocka_unit_test(test_the_sensitivity_must_be_certain),
        cmocka_unit_test(test_user_operators_need_a_label),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
