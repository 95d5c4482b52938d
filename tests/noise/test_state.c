/* SPDX-License-Identifier: Apache-2.0 */
/* State files and checkpoints: no row twice, none left out, nothing changed, one program at a time. */
#include "support/noise_cases.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>

enum { STATE_SIZE = 1536, HEAD_SIZE = 512 };

static dpmf_mechanism *mechanism;
static float reference[CASE_STEPS * CASE_DIM];
static char state[128];

static int setup(void **unused) {
    if (case_setup(unused) != 0) return -1;
    snprintf(state, sizeof state, "%s", case_path("state"));
    mechanism = case_mechanism("bsr", CASE_STEPS, 1.0);
    case_rows(mechanism, 0, CASE_STEPS, reference);
    return 0;
}

static int teardown(void **unused) {
    dpmf_mechanism_free(mechanism);
    return case_teardown(unused);
}

static dpmf_noise_options with_state(int replay) {
    dpmf_noise_options o = case_options();
    o.state = state;
    o.replay = replay;
    return o;
}

static dpmf_status open_stream(int replay, dpmf_noise **noise) {
    const dpmf_noise_options o = with_state(replay);
    return dpmf_noise_create(mechanism, CASE_DIM, 2.0, case_key, &o, noise);
}

static void take(dpmf_noise *noise, int64_t first, int64_t last) {
    for (int64_t t = first; t < last; t++) {
        float row[CASE_DIM];
        assert_int_equal(dpmf_noise_get(noise).step, t);
        check_ok(dpmf_noise_next(noise, row));
        assert_memory_equal(row, reference + t * CASE_DIM, sizeof row);
    }
}

/* Rows 0 .. rows-1 by a program that frees its stream, or by one that just ends. */
static void make_state(int64_t rows, int crash) {
    dpmf_noise *noise = NULL;
    int how = 0;
    unlink(state);
    pid_t child = crash ? fork() : 0;
    if (child == 0) {
        check_ok(open_stream(0, &noise));
        take(noise, 0, rows);
        if (crash) _exit(0);
        dpmf_noise_free(noise);
        return;
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

static size_t read_whole(const char *path, uint8_t *bytes, size_t room) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(bytes, 1, room, file);
    fclose(file);
    return size;
}

static void write_whole(const char *path, const uint8_t *bytes, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

/* ---- resuming ---- */

static void test_a_resumed_stream_gives_the_same_rows(void **unused) {
    (void)unused;
    unlink(state);
    for (int64_t t = 0; t <= CASE_STEPS; t++) {
        dpmf_noise *noise = NULL;
        check_ok(open_stream(0, &noise));
        assert_int_equal(dpmf_noise_get(noise).in_doubt, 0);
        if (t < CASE_STEPS) {
            take(noise, t, t + 1);
        } else {
            float row[CASE_DIM];
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, row));
        }
        dpmf_noise_free(noise);
    }
}

static void test_nothing_is_made_before_the_first_row(void **unused) {
    dpmf_noise *noise = NULL;
    struct stat info;
    (void)unused;
    unlink(state);
    check_ok(open_stream(0, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, 1));
    check_message("may not be skipped");
    check_ok(dpmf_noise_seek(noise, 0));
    assert_int_equal(access(state, F_OK), -1);
    take(noise, 0, 1);
    assert_int_equal(stat(state, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(info.st_size, STATE_SIZE);
    dpmf_noise_free(noise);
}

/* The durable record comes before the row: a copy of the file, taken right after row t, has t + 1. */
static void test_a_row_is_reserved_before_it_is_handed_out(void **unused) {
    dpmf_noise *noise = NULL;
    uint8_t bytes[STATE_SIZE];
    (void)unused;
    unlink(state);
    check_ok(open_stream(0, &noise));
    for (int64_t t = 0; t < CASE_STEPS; t++) {
        int64_t fields[2][3], most = 0;
        take(noise, t, t + 1);
        assert_int_equal(read_whole(state, bytes, sizeof bytes), STATE_SIZE);
        for (int i = 0; i < 2; i++) {
            memcpy(fields[i], bytes + HEAD_SIZE * (i + 1), sizeof fields[i]);
            if (fields[i][1] > most) most = fields[i][1];
        }
        assert_int_equal(most, t + 1);
    }
    dpmf_noise_free(noise);
}

static void test_after_a_crash_the_last_row_is_in_doubt(void **unused) {
    (void)unused;
    for (int64_t rows = 1; rows <= CASE_STEPS; rows += 3) {
        dpmf_noise *noise = NULL;
        float row[CASE_DIM], untouched[CASE_DIM];
        memset(row, 0x5a, sizeof row);
        memcpy(untouched, row, sizeof row);
        make_state(rows, 1);
        for (int again = 0; again < 2; again++) { /* looking changes nothing */
            check_ok(open_stream(0, &noise));
            assert_int_equal(dpmf_noise_get(noise).in_doubt, 1);
            assert_int_equal(dpmf_noise_get(noise).step, rows);
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, row));
            check_message("not known if it arrived");
            check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, rows - 1)); /* not without asking for it */
            check_message("replay");
            assert_memory_equal(row, untouched, sizeof row);
            dpmf_noise_free(noise);
        }
        check_ok(open_stream(1, &noise));
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_next(noise, row));
        check_ok(dpmf_noise_seek(noise, rows - 1));
        take(noise, rows - 1, rows); /* identical bits */
        dpmf_noise_free(noise);
        check_ok(open_stream(0, &noise));
        assert_int_equal(dpmf_noise_get(noise).in_doubt, 0);
        assert_int_equal(dpmf_noise_get(noise).step, rows);
        dpmf_noise_free(noise);

        make_state(rows, 1);
        check_ok(open_stream(0, &noise));
        check_ok(dpmf_noise_seek(noise, rows)); /* "it had arrived" */
        take(noise, rows, CASE_STEPS);
        dpmf_noise_free(noise);
    }
}

static void test_replay_never_takes_back_a_reservation(void **unused) {
    dpmf_noise *noise = NULL;
    (void)unused;
    make_state(8, 0);
    check_ok(open_stream(1, &noise));
    assert_int_equal(dpmf_noise_get(noise).step, 8);
    check_ok(dpmf_noise_seek(noise, 2));
    take(noise, 2, 5);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, 9));
    dpmf_noise_free(noise);
    check_ok(open_stream(0, &noise));
    assert_int_equal(dpmf_noise_get(noise).step, 8);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_seek(noise, 7));
    take(noise, 8, 9);
    dpmf_noise_free(noise);
    check_ok(open_stream(1, &noise));
    check_ok(dpmf_noise_seek(noise, 0));
    take(noise, 0, CASE_STEPS); /* from old rows into new ones */
    dpmf_noise_free(noise);
    check_ok(open_stream(0, &noise));
    assert_int_equal(dpmf_noise_get(noise).step, CASE_STEPS);
    dpmf_noise_free(noise);
}

static void test_a_prefetched_row_is_not_reserved(void **unused) {
    dpmf_noise_options o = with_state(0);
    dpmf_noise *noise = NULL;
    (void)unused;
    unlink(state);
    o.prefetch = 1;
    for (int64_t t = 0; t < CASE_STEPS; t += 3) {
        check_ok(dpmf_noise_create(mechanism, CASE_DIM, 2.0, case_key, &o, &noise));
        take(noise, t, t + 3); /* a row that was only prefetched is not reserved */
        dpmf_noise_free(noise);
    }
}

/* ---- refusals ---- */

typedef struct stream {
    const dpmf_mechanism *mechanism;
    int64_t dim;
    double clip;
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_noise_options o;
} stream;

static stream same_stream(void) {
    stream s = {mechanism, CASE_DIM, 2.0, {0}, with_state(1)};
    memcpy(s.key, case_key, sizeof s.key);
    return s;
}

static void refuse_stream(const stream *s, const char *says) {
    dpmf_noise *noise = NULL;
    uint8_t before[STATE_SIZE], after[STATE_SIZE];
    read_whole(state, before, sizeof before);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_create(s->mechanism, s->dim, s->clip, s->key, &s->o, &noise));
    check_message("belongs to another stream");
    check_message(says);
    assert_null(noise);
    read_whole(state, after, sizeof after);
    assert_memory_equal(before, after, sizeof before);
}

static void test_every_field_of_a_state_is_bound(void **unused) {
    dpmf_mechanism *sigma = case_mechanism("bsr", CASE_STEPS, 1.25), *steps = case_mechanism("bsr", 13, 1.0);
    dpmf_mechanism *family = case_mechanism("identity", CASE_STEPS, 1.0);
    stream s;
    (void)unused;
    make_state(3, 0);
    s = same_stream(), s.mechanism = sigma, refuse_stream(&s, "mechanism");
    s = same_stream(), s.mechanism = steps, refuse_stream(&s, "mechanism");
    s = same_stream(), s.mechanism = family, refuse_stream(&s, "mechanism");
    s = same_stream(), s.dim = 22, s.o.count = 21, refuse_stream(&s, "dim is 21 in it and 22 here");
    s = same_stream(), s.clip = 2.0000000000000004, refuse_stream(&s, "clip is 2 in it");
    s = same_stream(), s.o.precision = DPMF_FLOAT64, refuse_stream(&s, "precision is float32 in it and float64 here");
    s = same_stream(), s.o.offset = 1, refuse_stream(&s, "offset is 0 in it and 1 here");
    s = same_stream(), s.o.count = 20, refuse_stream(&s, "count is 21 in it and 20 here");
    s = same_stream(), s.o.label = "x", refuse_stream(&s, "label");
    for (int i = 0; i < DPMF_KEY_SIZE; i++)
        s = same_stream(), s.key[i] ^= 0x80, refuse_stream(&s, "key");
    dpmf_mechanism_free(sigma);
    dpmf_mechanism_free(steps);
    dpmf_mechanism_free(family);
}

/* Any bit pattern but the one written is refused; with replay one damaged record of the two may be forgiven. */
static void test_every_byte_of_a_state_is_authenticated(void **unused) {
    uint8_t bytes[STATE_SIZE];
    (void)unused;
    make_state(5, 0);
    read_whole(state, bytes, sizeof bytes);
    for (int i = 0; i < STATE_SIZE; i++) {
        dpmf_noise *noise = NULL;
        const uint8_t bit = (uint8_t)(1 << i % 8);
        bytes[i] ^= bit;
        write_whole(state, bytes, sizeof bytes);
        assert_int_not_equal(open_stream(0, &noise), DPMF_OK);
        assert_null(noise);
        dpmf_status forgiven = open_stream(1, &noise);
        if (i < HEAD_SIZE)
            assert_int_not_equal(forgiven, DPMF_OK);
        else
            check_ok(forgiven); /* and it is never the step before the newest that it lets through as new */
        if (noise != NULL) assert_in_range(dpmf_noise_get(noise).step, 5, 6);
        dpmf_noise_free(noise);
        bytes[i] ^= bit;
    }
    write_whole(state, bytes, sizeof bytes);
    dpmf_noise *noise = NULL;
    check_ok(open_stream(0, &noise));
    dpmf_noise_free(noise);
}

static void test_records_of_other_moments_do_not_fit(void **unused) {
    uint8_t old[STATE_SIZE], new[STATE_SIZE], mixed[STATE_SIZE];
    dpmf_noise *noise = NULL;
    (void)unused;
    make_state(2, 0);
    read_whole(state, old, sizeof old);
    make_state(7, 0);
    read_whole(state, new, sizeof new);
    for (int record = 1; record < 3; record++) {
        memcpy(mixed, new, sizeof mixed);
        memcpy(mixed + record * HEAD_SIZE, old + record * HEAD_SIZE, HEAD_SIZE);
        write_whole(state, mixed, sizeof mixed);
        check_fails(DPMF_ERROR_FORMAT, open_stream(1, &noise));
        memcpy(mixed, new, sizeof mixed); /* one record in the place of the other */
        memcpy(mixed + record * HEAD_SIZE, new + (3 - record) * HEAD_SIZE, HEAD_SIZE);
        write_whole(state, mixed, sizeof mixed);
        check_fails(DPMF_ERROR_FORMAT, open_stream(0, &noise));
    }
    memset(new + HEAD_SIZE, 0, 2 * HEAD_SIZE);
    write_whole(state, new, sizeof new);
    check_fails(DPMF_ERROR_FORMAT, open_stream(1, &noise));
}

static void test_files_that_are_no_states_are_refused(void **unused) {
    uint8_t bytes[STATE_SIZE + 100] = {0};
    dpmf_noise *noise = NULL;
    uint64_t seed = 3;
    (void)unused;
    make_state(5, 0);
    read_whole(state, bytes, STATE_SIZE);
    for (size_t size = 0; size <= STATE_SIZE + 64; size += 16) {
        if (size >= STATE_SIZE && size % 32 == 0) continue; /* with places for marks of rows, which hold none */
        write_whole(state, bytes, size);
        check_fails(DPMF_ERROR_FORMAT, open_stream(0, &noise));
        check_fails(DPMF_ERROR_FORMAT, open_stream(1, &noise));
    }
    for (int round = 0; round < 50; round++) {
        for (size_t i = 0; i < STATE_SIZE; i++)
            bytes[i] = (uint8_t)(128 + 128 * check_random(&seed));
        write_whole(state, bytes, STATE_SIZE);
        check_fails(DPMF_ERROR_FORMAT, open_stream(round % 2, &noise));
    }
    make_state(1, 0);
    assert_int_equal(chmod(state, 0640), 0);
    check_fails(DPMF_ERROR_IO, open_stream(0, &noise));
    check_message("640");
    unlink(state);
    assert_int_equal(mkfifo(state, 0600), 0);
    check_fails(DPMF_ERROR_IO, open_stream(0, &noise));
    unlink(state);
    assert_int_equal(mkdir(state, 0700), 0);
    check_fails(DPMF_ERROR_IO, open_stream(0, &noise));
    assert_int_equal(rmdir(state), 0);
    assert_null(noise);
}

/* ---- one program at a time ---- */

static void test_a_state_file_serves_one_program_at_a_time(void **unused) {
    dpmf_noise *first = NULL, *second = NULL;
    int ready[2], how = 0;
    char byte = 0;
    (void)unused;
    make_state(2, 0);
    check_ok(open_stream(0, &first));
    check_fails(DPMF_ERROR_IO, open_stream(0, &second));
    check_message("in use");
    check_fails(DPMF_ERROR_IO, open_stream(1, &second));
    dpmf_noise_free(first);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) { /* another process holds it until it is killed */
        if (open_stream(0, &second) != DPMF_OK || write(ready[1], "x", 1) != 1) _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    check_fails(DPMF_ERROR_IO, open_stream(0, &second));
    check_message("in use");
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &how, 0), child);
    check_ok(open_stream(0, &first));
    take(first, 2, 3);
    dpmf_noise_free(first);
    close(ready[0]);
    close(ready[1]);
}

/* Two streams begin before there is a file: the second to ask for a row is refused, and ends. */
static void test_of_two_streams_that_begin_one_is_refused(void **unused) {
    dpmf_noise *first = NULL, *second = NULL;
    float row[CASE_DIM] = {0}, zero[CASE_DIM] = {0};
    (void)unused;
    unlink(state);
    check_ok(open_stream(0, &first));
    check_ok(open_stream(0, &second));
    take(first, 0, 1);
    for (int i = 0; i < 2; i++)
        check_fails(DPMF_ERROR_IO, dpmf_noise_next(second, row));
    assert_memory_equal(row, zero, sizeof row);
    dpmf_noise_free(second);
    take(first, 1, 3);
    dpmf_noise_free(first);
}

static void test_a_state_file_that_goes_ends_the_stream(void **unused) {
    dpmf_noise *noise = NULL;
    float row[CASE_DIM] = {0}, zero[CASE_DIM] = {0};
    (void)unused;
    unlink(state);
    check_ok(open_stream(0, &noise));
    take(noise, 0, 2);
    unlink(state);
    check_fails(DPMF_ERROR_IO, dpmf_noise_next(noise, row));
    check_fails(DPMF_ERROR_IO, dpmf_noise_next(noise, row));
    check_message("ended");
    check_fails(DPMF_ERROR_IO, dpmf_noise_seek(noise, 0));
    assert_memory_equal(row, zero, sizeof row);
    dpmf_noise_free(noise);
    assert_int_equal(access(state, F_OK), -1);
}

/* ---- checkpoints ---- */

static void test_a_checkpoint_goes_on_with_the_same_rows(void **unused) {
    static const char *const families[] = {"identity", "toeplitz", "bsr", "bisr", "blt", "tree"};
    char path[128];
    (void)unused;
    snprintf(path, sizeof path, "%s", case_path("checkpoint"));
    for (int f = 0; f < 12; f++) {
        dpmf_mechanism *m = case_mechanism(families[f / 2], CASE_STEPS, 1.0);
        dpmf_noise_options o = case_options();
        float rows[CASE_STEPS * CASE_DIM], row[CASE_DIM];
        struct stat info;
        o.prefetch = f % 2;
        case_rows(m, 0, CASE_STEPS, rows);
        for (int64_t at = 0; at <= CASE_STEPS; at += 4) {
            dpmf_noise *one = NULL, *two = NULL;
            check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &one));
            check_ok(dpmf_noise_seek(one, at));
            check_ok(dpmf_noise_save(one, path));
            check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &two));
            check_ok(dpmf_noise_next(two, row));
            check_ok(dpmf_noise_load(two, path));
            assert_int_equal(dpmf_noise_get(two).step, at);
            for (int64_t t = at; t < CASE_STEPS; t++) {
                check_ok(dpmf_noise_next(two, row));
                assert_memory_equal(row, rows + t * CASE_DIM, sizeof row);
                check_ok(dpmf_noise_next(one, row)); /* saving disturbs nothing */
                assert_memory_equal(row, rows + t * CASE_DIM, sizeof row);
            }
            dpmf_noise_free(one);
            dpmf_noise_free(two);
        }
        assert_int_equal(stat(path, &info), 0);
        assert_int_equal(info.st_mode & 0777, 0600);
        dpmf_mechanism_free(m);
    }
}

static void test_checkpoints_obey_the_state_file(void **unused) {
    char path[128];
    dpmf_noise *noise = NULL;
    (void)unused;
    snprintf(path, sizeof path, "%s", case_path("checkpoint"));
    unlink(state);
    check_ok(open_stream(0, &noise));
    take(noise, 0, 4);
    check_ok(dpmf_noise_save(noise, path));
    check_ok(dpmf_noise_load(noise, path)); /* where it is */
    take(noise, 4, 6);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load(noise, path));
    take(noise, 6, 7);
    dpmf_noise_free(noise);
    check_ok(open_stream(1, &noise));
    check_ok(dpmf_noise_load(noise, path));
    take(noise, 4, CASE_STEPS);
    dpmf_noise_free(noise);
    unlink(state);
    check_ok(open_stream(1, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load(noise, path)); /* would leave out rows */
    take(noise, 0, 1);
    dpmf_noise_free(noise);
}

static void test_changed_checkpoints_are_refused(void **unused) {
    char path[128];
    uint8_t bytes[4096] = {0};
    dpmf_noise *noise = NULL;
    dpmf_noise_options o = case_options();
    (void)unused;
    snprintf(path, sizeof path, "%s", case_path("checkpoint"));
    check_ok(dpmf_noise_create(mechanism, CASE_DIM, 2.0, case_key, &o, &noise));
    take(noise, 0, 4);
    check_ok(dpmf_noise_save(noise, path));
    size_t size = read_whole(path, bytes, sizeof bytes);
    assert_in_range(size, 560, sizeof bytes - 1);
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 4;
        write_whole(path, bytes, size);
        assert_int_not_equal(dpmf_noise_load(noise, path), DPMF_OK);
        bytes[i] ^= 4;
    }
    for (size_t cut = 0; cut < size; cut += 41) {
        write_whole(path, bytes, cut);
        check_fails(DPMF_ERROR_FORMAT, dpmf_noise_load(noise, path));
    }
    write_whole(path, bytes, size + 1);
    check_fails(DPMF_ERROR_FORMAT, dpmf_noise_load(noise, path));
    make_state(1, 0);
    check_fails(DPMF_ERROR_FORMAT, dpmf_noise_load(noise, state)); /* one kind is not the other */
    check_fails(DPMF_ERROR_IO, dpmf_noise_load(noise, case_path("nothing")));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load(noise, ""));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_save(noise, NULL));
    check_fails(DPMF_ERROR_IO, dpmf_noise_save(noise, case_path("none/checkpoint")));
    take(noise, 4, 6); /* untouched by all that */
    dpmf_noise_free(noise);
    o.offset = 1;
    write_whole(path, bytes, size);
    check_ok(dpmf_noise_create(mechanism, CASE_DIM, 2.0, case_key, &o, &noise));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_noise_load(noise, path));
    check_message("offset is 0 in it and 1 here");
    dpmf_noise_free(noise);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_resumed_stream_gives_the_same_rows),
        cmocka_unit_test(test_nothing_is_made_before_the_first_row),
        cmocka_unit_test(test_a_row_is_reserved_before_it_is_handed_out),
        cmocka_unit_test(test_after_a_crash_the_last_row_is_in_doubt),
        cmocka_unit_test(test_replay_never_takes_back_a_reservation),
        cmocka_unit_test(test_a_prefetched_row_is_not_reserved),
        cmocka_unit_test(test_every_field_of_a_state_is_bound),
        cmocka_unit_test(test_every_byte_of_a_state_is_authenticated),
        cmocka_unit_test(test_records_of_other_moments_do_not_fit),
        cmocka_unit_test(test_files_that_are_no_states_are_refused),
        cmocka_unit_test(test_a_state_file_serves_one_program_at_a_time),
        cmocka_unit_test(test_of_two_streams_that_begin_one_is_refused),
        cmocka_unit_test(test_a_state_file_that_goes_ends_the_stream),
        cmocka_unit_test(test_a_checkpoint_goes_on_with_the_same_rows),
        cmocka_unit_test(test_checkpoints_obey_the_state_file),
        cmocka_unit_test(test_changed_checkpoints_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
