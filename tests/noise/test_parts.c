/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shards that continue from the checkpoints of other shards (dpmf_noise_load_parts), and the state file that one
 * process keeps for all (options.whole_state): the rows of one stream, byte for byte, or a refusal that changes
 * nothing.
 */
#include "support/stream_cases.h"

#include "support/failing_allocator.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STEPS = 16, DIM = 150, SAVED = 7, PARTS = 3 };

static const int64_t cuts[PARTS + 1] = {0, 1, 70, DIM}; /* of those that save: one number alone, a cut inside a line */
static char directory[64];
static char paths[PARTS][128];
static const char *const all[PARTS] = {paths[0], paths[1], paths[2]};
static uint8_t key[DPMF_KEY_SIZE];

static int setup(void **unused) {
    (void)unused;
    snprintf(directory, sizeof directory, "/tmp/dpmf-parts-XXXXXX");
    if (mkdtemp(directory) == NULL || dpmf_key_testing(7, key) != DPMF_OK) return -1;
    for (int i = 0; i < PARTS; i++)
        snprintf(paths[i], sizeof paths[i], "%s/part%d", directory, i);
    return 0;
}

static int teardown(void **unused) {
    char command[100];
    (void)unused;
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command);
}

/* sigma 2, over prefix sums and single participation. Takes the strategy. */
static dpmf_mechanism *mechanism_of(dpmf_strategy *strategy) {
    dpmf_workload *workload = NULL;
    dpmf_mechanism *made = NULL;
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    o.sigma = 2;
    check_ok(dpmf_workload_parse("prefix", dpmf_strategy_get(strategy).steps, &workload));
    check_ok(dpmf_mechanism_create(workload, NULL, strategy, &o, &made));
    dpmf_workload_free(workload);
    dpmf_strategy_free(strategy);
    return made;
}

static const uint8_t salt[DPMF_SALT_SIZE] = {9}; /* of all shards, with a state file and without */

static dpmf_noise_options shard_options(int64_t from, int64_t to, dpmf_precision precision) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.offset = from;
    o.count = to - from;
    o.precision = precision;
    o.label = "parts"; /* an operator has no digest, and needs one */
    o.salt = salt;
    o.run.threads = 1;
    return o;
}

static dpmf_noise *open_shard(const dpmf_mechanism *m, int64_t from, int64_t to, dpmf_precision precision) {
    const dpmf_noise_options o = shard_options(from, to, precision);
    dpmf_noise *noise = NULL;
    check_ok(dpmf_noise_create(m, DIM, 1.0, key, &o, &noise));
    return noise;
}

/* Part i as a shard that has given `rows` rows. */
static void save_part(const dpmf_mechanism *m, int i, int64_t from, int64_t to, int64_t rows,
                      dpmf_precision precision) {
    double row[DIM];
    dpmf_noise *noise = open_shard(m, from, to, precision);
    for (int64_t t = 0; t < rows; t++)
        check_ok(dpmf_noise_next(noise, row));
    check_ok(dpmf_noise_save(noise, paths[i]));
    dpmf_noise_free(noise);
}

static void save_all(const dpmf_mechanism *m, dpmf_precision precision) {
    for (int i = 0; i < PARTS; i++)
        save_part(m, i, cuts[i], cuts[i + 1], SAVED, precision);
}

/* The rows of [from, to) from where it is to the last are those of the stream that never stopped. */
static void check_rest(const dpmf_mechanism *m, dpmf_noise *noise, int64_t from, int64_t to, dpmf_precision precision) {
    const size_t size = precision == DPMF_FLOAT32 ? sizeof(float) : sizeof(double);
    dpmf_noise *whole = open_shard(m, 0, DIM, precision);
    for (int64_t t = 0; t < STEPS; t++) {
        double wanted[DIM], got[DIM];
        check_ok(dpmf_noise_next(whole, wanted));
        if (t < SAVED) continue;
        assert_int_equal(dpmf_noise_get(noise).step, t);
        check_ok(dpmf_noise_next(noise, got));
        assert_memory_equal(got, (const char *)wanted + (size_t)from * size, (size_t)(to - from) * size);
    }
    dpmf_noise_free(whole);
}

/* ---- results ---- */

static void resume_on(const dpmf_mechanism *m, int64_t shards, const int64_t *bounds, dpmf_precision precision) {
    for (int64_t i = 0; i < shards; i++) {
        dpmf_noise *noise = open_shard(m, bounds[i], bounds[i + 1], precision);
        check_ok(dpmf_noise_load_parts(noise, PARTS, all));
        check_rest(m, noise, bounds[i], bounds[i + 1], precision);
        dpmf_noise_free(noise);
    }
}

static void test_every_family_goes_on_with_other_shards(void **unused) {
    const int64_t two[] = {0, 64, DIM}, one[] = {0, DIM}, five[] = {0, 1, 2, 69, 71, DIM};
    (void)unused;
    for (int k = 0; k < STREAM_CASES; k++) {
        char name[96];
        dpmf_mechanism *m = mechanism_of(stream_case(k, STEPS, name));
        print_message("%s\n", name);
        save_all(m, DPMF_FLOAT32);
        resume_on(m, 2, two, DPMF_FLOAT32);
        if (k % 3 == 0) resume_on(m, 1, one, DPMF_FLOAT32);
        if (k % 3 == 1) resume_on(m, 5, five, DPMF_FLOAT32);
        if (k % 3 == 2) {
            save_all(m, DPMF_FLOAT64);
            resume_on(m, 2, two, DPMF_FLOAT64);
        }
        dpmf_mechanism_free(m);
    }
}

/* A stream that has gone elsewhere, and one with a thread that is ahead of it. */
static void test_parts_load_whatever_was_done_before(void **unused) {
    dpmf_mechanism *m = mechanism_of(banded_case(STEPS, 5));
    dpmf_noise_options o = shard_options(30, 140, DPMF_FLOAT32);
    (void)unused;
    save_all(m, DPMF_FLOAT32);
    for (int64_t rows = 0; rows <= STEPS; rows += 5) {
        dpmf_noise *noise = NULL;
        float row[DIM];
        o.prefetch = rows % 2 == 1;
        check_ok(dpmf_noise_create(m, DIM, 1.0, key, &o, &noise));
        for (int64_t t = 0; t < rows; t++)
            check_ok(dpmf_noise_next(noise, row));
        check_ok(dpmf_noise_load_parts(noise, PARTS, all));
        check_rest(m, noise, 30, 140, DPMF_FLOAT32);
        dpmf_noise_free(noise);
    }
    dpmf_mechanism_free(m);
}

/* ---- refusals ---- */

/* It fails with that message, and the stream continues as if nothing had happened. */
static void refused_(const dpmf_mechanism *m, int64_t from, int64_t to, int64_t parts, const char *const *path,
                     dpmf_status expected, const char *message) {
    float row[DIM];
    dpmf_noise *noise = open_shard(m, from, to, DPMF_FLOAT32);
    for (int64_t t = 0; t < SAVED; t++)
        check_ok(dpmf_noise_next(noise, row));
    check_fails(expected, dpmf_noise_load_parts(noise, parts, path));
    check_message(message);
    check_rest(m, noise, from, to, DPMF_FLOAT32);
    dpmf_noise_free(noise);
}

static void test_parts_out_of_order_or_with_gaps_are_refused(void **unused) {
    dpmf_mechanism *m = mechanism_of(tvblt_case(STEPS, 4, 1));
    const char *const swapped[] = {paths[1], paths[0], paths[2]}, *const twice[] = {paths[0], paths[1], paths[1]};
    const char *const gap[] = {paths[0], paths[2]}, *const none[] = {paths[0], NULL, paths[2]};
    const char *const missing[] = {paths[0], "/nowhere/part1"};
    (void)unused;
    save_all(m, DPMF_FLOAT32);
    refused_(m, 0, DIM, 3, swapped, DPMF_ERROR_FORMAT, "give parts in order");
    refused_(m, 0, DIM, 3, twice, DPMF_ERROR_FORMAT, "give parts in order");
    refused_(m, 0, DIM, 2, gap, DPMF_ERROR_ARGUMENT, "81 of the coordinates 0 to 149");
    refused_(m, 10, 60, 2, gap, DPMF_ERROR_ARGUMENT, "0 of the coordinates 10 to 59");
    refused_(m, 0, DIM, 2, all, DPMF_ERROR_ARGUMENT, "70 of the coordinates");
    refused_(m, 0, DIM, 0, all, DPMF_ERROR_ARGUMENT, "0 parts");
    refused_(m, 0, DIM, 3, NULL, DPMF_ERROR_ARGUMENT, "and their paths");
    refused_(m, 0, DIM, 3, none, DPMF_ERROR_ARGUMENT, "NULL or empty");
    refused_(m, 0, DIM, 2, missing, DPMF_ERROR_IO, "it does not exist");
    resume_on(m, 1, (const int64_t[]){1, 70}, DPMF_FLOAT32); /* parts that it does not need do no harm */
    save_part(m, 1, 1, 71, SAVED, DPMF_FLOAT32);             /* one number in two parts */
    refused_(m, 0, DIM, 3, all, DPMF_ERROR_FORMAT, "give parts in order");
    dpmf_mechanism_free(m);
}

/* Rows made ahead are counted in the head: parts that disagree on it are of two different moments. */
static void test_parts_of_another_row_or_stream_are_refused(void **unused) {
    dpmf_mechanism *m = mechanism_of(banded_case(STEPS, 4)), *other = mechanism_of(banded_case(STEPS, 5));
    (void)unused;
    save_all(m, DPMF_FLOAT32);
    for (int i = 0; i < PARTS; i++) {
        save_part(m, i, cuts[i], cuts[i + 1], SAVED - 1, DPMF_FLOAT32);
        refused_(m, 0, DIM, PARTS, all, DPMF_ERROR_FORMAT, "another row");
        save_part(m, i, cuts[i], cuts[i + 1], SAVED, DPMF_FLOAT64);
        refused_(m, 0, DIM, PARTS, all, DPMF_ERROR_ARGUMENT, "precision");
        save_part(other, i, cuts[i], cuts[i + 1], SAVED, DPMF_FLOAT32);
        refused_(m, 0, DIM, PARTS, all, DPMF_ERROR_ARGUMENT, "mechanism");
        key[5] ^= 1;
        save_part(m, i, cuts[i], cuts[i + 1], SAVED, DPMF_FLOAT32);
        key[5] ^= 1;
        refused_(m, 0, DIM, PARTS, all, DPMF_ERROR_ARGUMENT, "key");
        save_part(m, i, cuts[i], cuts[i + 1], SAVED, DPMF_FLOAT32);
    }
    resume_on(m, 1, (const int64_t[]){0, DIM}, DPMF_FLOAT32);
    dpmf_mechanism_free(m);
    dpmf_mechanism_free(other);
}

/* Rows that were made ahead are in the file, or made again: another look-ahead continues with the same bytes. */
static void test_another_lookahead_goes_on_with_the_same_bytes(void **unused) {
    (void)unused;
    for (int k = 0; k < PLAIN_CASES; k++) {
        char name[96];
        dpmf_noise_options o = shard_options(0, DIM, DPMF_FLOAT32);
        dpmf_mechanism *m = mechanism_of(stream_case(k, STEPS, name));
        dpmf_noise *noise = NULL;
        o.lookahead = 1 + k % 3;
        save_all(m, DPMF_FLOAT32);
        check_ok(dpmf_noise_create(m, DIM, 1.0, key, &o, &noise));
        check_ok(dpmf_noise_load_parts(noise, PARTS, all));
        check_rest(m, noise, 0, DIM, DPMF_FLOAT32);
        dpmf_noise_free(noise);
        dpmf_mechanism_free(m);
    }
}

/* Any byte, any length. */
static void test_any_damage_of_a_part_is_refused(void **unused) {
    dpmf_mechanism *m = mechanism_of(blt_case(STEPS, 2));
    dpmf_noise *noise = open_shard(m, 0, DIM, DPMF_FLOAT32);
    struct stat about;
    (void)unused;
    save_all(m, DPMF_FLOAT32);
    assert_int_equal(stat(paths[1], &about), 0);
    const int file = open(paths[1], O_RDWR);
    assert_true(file >= 0);
    for (off_t at = 0; at < about.st_size; at += at < 600 ? 7 : 31) {
        uint8_t byte = 0;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        assert_int_not_equal(dpmf_noise_load_parts(noise, PARTS, all), DPMF_OK);
        byte ^= 0x10;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
    }
    check_ok(dpmf_noise_load_parts(noise, PARTS, all));
    for (off_t size = about.st_size - 1; size >= 0; size = size * 4 / 5 - 1) {
        assert_int_equal(ftruncate(file, size), 0);
        check_fails(DPMF_ERROR_FORMAT, dpmf_noise_load_parts(noise, PARTS, all));
    }
    close(file);
    save_part(m, 1, cuts[1], cuts[2], SAVED, DPMF_FLOAT32);
    assert_int_equal(chmod(paths[1], 0644), 0); /* readable by others: not as secret as the key */
    assert_int_not_equal(dpmf_noise_load_parts(noise, PARTS, all), DPMF_OK);
    unlink(paths[1]);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

static void test_any_allocation_of_loading_parts_may_fail(void **unused) {
    dpmf_mechanism *m = mechanism_of(lowrank_case(STEPS, 4, 3));
    dpmf_noise *noise = open_shard(m, 30, 140, DPMF_FLOAT32);
    (void)unused;
    save_all(m, DPMF_FLOAT32);
    FAIL_EACH(dpmf_noise_load_parts(noise, PARTS, all));
    check_rest(m, noise, 30, 140, DPMF_FLOAT32);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

/* ---- one state file for all shards ---- */

static dpmf_status open_keeper(const dpmf_mechanism *m, int64_t from, int64_t to, int whole, int replay,
                               dpmf_noise **noise) {
    static char state[128];
    dpmf_noise_options o = shard_options(from, to, DPMF_FLOAT32);
    snprintf(state, sizeof state, "%s/state", directory);
    o.state = state;
    o.whole_state = whole;
    o.replay = replay;
    return dpmf_noise_create(m, DIM, 1.0, key, &o, noise);
}

/* The first shard keeps it; the next run is cut otherwise, and one process alone may read it too. */
static void test_a_whole_state_outlives_the_sharding(void **unused) {
    dpmf_mechanism *m = mechanism_of(banded_case(STEPS, 4));
    dpmf_noise *noise = NULL;
    float row[DIM];
    (void)unused;
    check_ok(open_keeper(m, 0, 70, 1, 0, &noise));
    for (int64_t t = 0; t < SAVED; t++)
        check_ok(dpmf_noise_next(noise, row));
    dpmf_noise_free(noise);
    const int64_t shard[][2] = {{0, 1}, {0, 100}, {70, 110}, {0, DIM}};
    for (int i = 0; i < 4; i++) {
        check_ok(open_keeper(m, shard[i][0], shard[i][1], 1, 1, &noise));
        assert_int_equal(dpmf_noise_get(noise).step, i == 0 ? SAVED : STEPS);
        assert_int_equal(dpmf_noise_get(noise).in_doubt, 0);
        check_ok(dpmf_noise_seek(noise, SAVED));
        check_rest(m, noise, shard[i][0], shard[i][1], DPMF_FLOAT32);
        dpmf_noise_free(noise);
    }
    check_ok(open_keeper(m, 0, DIM, 0, 0, &noise)); /* of the whole row, asked for as such */
    assert_int_equal(dpmf_noise_get(noise).step, STEPS);
    dpmf_noise_free(noise);
    check_fails(DPMF_ERROR_ARGUMENT, open_keeper(m, 0, 70, 0, 0, &noise)); /* not of this shard */
    dpmf_mechanism_free(m);
}

/*
 * Loading parts keeps the rules of seeking: not past the rows that the state file has recorded, back with replay only.
 */
static void test_parts_keep_the_rules_of_the_state_file(void **unused) {
    dpmf_mechanism *m = mechanism_of(banded_case(STEPS, 6));
    dpmf_noise *noise = NULL;
    float row[DIM];
    char state[128];
    (void)unused;
    snprintf(state, sizeof state, "%s/state", directory);
    unlink(state);
    save_all(m, DPMF_FLOAT32);
    check_ok(open_keeper(m, 0, 64, 1, 0, &noise));
    check_ok(dpmf_noise_next(noise, row));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load_parts(noise, PARTS, all));
    check_message("may not be skipped");
    for (int64_t t = 1; t < SAVED + 2; t++)
        check_ok(dpmf_noise_next(noise, row));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load_parts(noise, PARTS, all)); /* rows that were used */
    assert_int_equal(dpmf_noise_get(noise).step, SAVED + 2);
    dpmf_noise_free(noise);
    check_ok(open_keeper(m, 0, 64, 1, 1, &noise));
    check_ok(dpmf_noise_load_parts(noise, PARTS, all));
    check_rest(m, noise, 0, 64, DPMF_FLOAT32);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(m);
}

static void test_a_whole_state_needs_a_state_file(void **unused) {
    dpmf_mechanism *m = mechanism_of(banded_case(STEPS, 2));
    dpmf_noise_options o = shard_options(0, 70, DPMF_FLOAT32);
    dpmf_noise *noise = NULL;
    (void)unused;
    o.whole_state = 1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(m, DIM, 1.0, key, &o, &noise));
    check_message("whole_state");
    dpmf_mechanism_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family_goes_on_with_other_shards),
        cmocka_unit_test(test_parts_load_whatever_was_done_before),
        cmocka_unit_test(test_parts_out_of_order_or_with_gaps_are_refused),
        cmocka_unit_test(test_parts_of_another_row_or_stream_are_refused),
        cmocka_unit_test(test_another_lookahead_goes_on_with_the_same_bytes),
        cmocka_unit_test(test_any_damage_of_a_part_is_refused),
        cmocka_unit_test(test_any_allocation_of_loading_parts_may_fail),
        cmocka_unit_test(test_a_whole_state_outlives_the_sharding),
        cmocka_unit_test(test_parts_keep_the_rules_of_the_state_file),
        cmocka_unit_test(test_a_whole_state_needs_a_state_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
