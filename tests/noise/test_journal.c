/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal: a write that is cut anywhere leaves the slot before it, and slots cannot be moved. `cut` makes the file as
 * it is when a power cut has kept the first bytes of a write and lost the rest.
 */
#include "noise/journal.h"
#include "support/noise_cases.h"

#include <fcntl.h>

enum { FILE_MAX = 1 << 18, COUNTER_SLOTS = 4096, STATE_SLOTS = 512, MAC = NOISE_MAC };

static uint8_t before[FILE_MAX], after[FILE_MAX], mixed[FILE_MAX];

static noise_binding bind_to(const char *label) {
    noise_binding binding = {.steps = 100, .dim = 1, .count = 1, .clip = 1};
    snprintf(binding.label, sizeof binding.label, "%s", label);
    check_ok(noise_binding_keys(case_key, &binding));
    return binding;
}

static size_t read_whole(const char *path, uint8_t bytes[FILE_MAX]) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    const size_t size = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    return size;
}

static void write_whole(const char *path, const uint8_t *bytes, size_t size) {
    const int file = open(path, O_WRONLY | O_CREAT, 0600); /* without O_TRUNC, for which some file systems sync */
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, (off_t)size), 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

/* A payload that depends on its sequence, in a slot of `size` bytes. */
static void fill(noise_journal *j, uint64_t sequence, int64_t size) {
    uint8_t *slot = NULL;
    check_ok(noise_journal_slot(j, size, &slot));
    memset(slot, (int)('a' + sequence), (size_t)size);
    memcpy(slot + 8, &size, 8);
}

/* The newest whole slot of the file, its payload checked; 0: none is. */
static uint64_t newest(const char *path, noise_record_kind kind, uint64_t *sealed) {
    const noise_binding binding = bind_to("one");
    noise_journal j;
    uint64_t found = 0;
    check_ok(noise_journal_open(&j, path, &binding, kind));
    check_ok(noise_journal_check(&j));
    for (int i = 0; i < 2; i++) {
        uint8_t *slot = NULL;
        int64_t size = 0;
        check_ok(noise_journal_read(&j, i, &slot, &size));
        if (size == 0) continue;
        for (int64_t k = 16; k < size - MAC; k++)
            assert_int_equal(slot[k], (uint8_t)('a' + j.sequence));
        if (j.sequence > found) found = j.sequence;
    }
    if (sealed != NULL) *sealed = j.sealed;
    noise_journal_close(&j);
    return found;
}

/* Bytes [from, from + kept) of the write have reached the disk, and those from there to `end` have not. */
static void cut(const char *path, size_t size, size_t from, size_t kept, size_t end) {
    memcpy(mixed, after, FILE_MAX);
    if (from + kept < end) memcpy(mixed + from + kept, before + from + kept, end - from - kept);
    write_whole(path, mixed, size);
}

static void test_a_write_of_a_counter_may_be_cut_anywhere(void **unused) {
    const char *path = case_path("counter.journal"), *copy = case_path("cut.journal");
    const noise_binding binding = bind_to("one");
    const int64_t sizes[] = {300, 900, 200, 700};
    noise_journal j;
    uint64_t sealed = 0;
    (void)unused;
    check_ok(noise_journal_open(&j, path, &binding, NOISE_RECORD_COUNTER));
    assert_int_equal(j.file, -1);
    for (uint64_t s = 2; s < 6; s++) { /* the first file has slot 0 */
        const int64_t size = sizes[s - 2];
        if (s > 2) read_whole(path, before);
        fill(&j, s, size);
        check_ok(noise_journal_write(&j, size));
        assert_int_equal(j.sequence, s);
        if (s == 2) continue;
        const size_t whole = read_whole(path, after);
        const size_t from = COUNTER_SLOTS + (s % 2) * (size_t)j.room;
        for (size_t kept = 0; kept <= (size_t)size; kept++) {
            cut(copy, whole, from, kept, from + (size_t)size);
            /* The file has the new seal: a reader of a slot that is older knows that it was changed. */
            const int same = memcmp(mixed + from, after + from, (size_t)size) == 0;
            assert_int_equal(newest(copy, NOISE_RECORD_COUNTER, &sealed), same ? s : s - 1);
            assert_int_equal(sealed, s);
            memcpy(mixed + 1024, before + 1024, 512);
            write_whole(copy, mixed, whole);
            assert_int_equal(newest(copy, NOISE_RECORD_COUNTER, &sealed), same ? s : s - 1);
            assert_int_equal(sealed, s - 1);
        }
    }
    noise_journal_close(&j);
}

static void test_a_counter_that_needs_room_keeps_its_lock_and_number(void **unused) {
    const char *path = case_path("room.journal");
    const noise_binding binding = bind_to("one");
    noise_journal j, other;
    uint64_t sealed = 0;
    (void)unused;
    check_ok(noise_journal_open(&j, path, &binding, NOISE_RECORD_COUNTER));
    fill(&j, 2, 100);
    check_ok(noise_journal_write(&j, 100));
    fill(&j, 4, 1 << 17); /* slot 0 again, in a new file */
    check_ok(noise_journal_write(&j, 1 << 17));
    assert_int_equal(j.room, 1 << 17);
    check_fails(DPMF_ERROR_IO, noise_journal_open(&other, path, &binding, NOISE_RECORD_COUNTER));
    check_message("in use by another program");
    noise_journal_close(&other);
    noise_journal_close(&j);
    assert_int_equal(newest(path, NOISE_RECORD_COUNTER, &sealed), 4);
    assert_int_equal(sealed, 4);
}

/* A file of a state, made by hand, and written twice. */
static void make_state(const char *path, const noise_binding *binding, noise_journal *j) {
    uint8_t bytes[3 * NOISE_RECORD];
    unlink(path);
    check_ok(noise_journal_open(j, path, binding, NOISE_RECORD_STATE));
    memcpy(bytes, j->head, NOISE_RECORD);
    for (uint64_t s = 0; s < 2; s++) {
        fill(j, s, NOISE_RECORD);
        check_ok(noise_journal_sign(j, s, NOISE_RECORD));
        memcpy(bytes + (1 + s) * NOISE_RECORD, j->bytes + MAC, NOISE_RECORD);
    }
    check_ok(noise_journal_make(j, bytes, sizeof bytes));
    j->sequence = 1;
}

static void test_a_write_of_a_state_may_be_cut_anywhere(void **unused) {
    const char *path = case_path("state.journal"), *copy = case_path("cut.journal");
    const noise_binding binding = bind_to("one");
    noise_journal j;
    (void)unused;
    make_state(path, &binding, &j);
    for (uint64_t s = 2; s < 4; s++) {
        read_whole(path, before);
        fill(&j, s, NOISE_RECORD);
        check_ok(noise_journal_write(&j, NOISE_RECORD));
        const size_t whole = read_whole(path, after), from = STATE_SLOTS + (s % 2) * NOISE_RECORD;
        for (size_t kept = 0; kept <= NOISE_RECORD; kept++) {
            cut(copy, whole, from, kept, from + NOISE_RECORD);
            const int same = memcmp(mixed, after, whole) == 0;
            assert_int_equal(newest(copy, NOISE_RECORD_STATE, NULL), same ? s : s - 1);
        }
    }
    noise_journal_close(&j);
}

static void test_slots_are_of_their_place_and_their_file(void **unused) {
    const char *path = case_path("one.journal"), *copy = case_path("cut.journal");
    const noise_binding one = bind_to("one"), two = bind_to("two");
    noise_journal j;
    (void)unused;
    make_state(path, &one, &j);
    noise_journal_close(&j);
    const size_t whole = read_whole(path, before);
    memcpy(mixed, before, whole);
    memcpy(mixed + 512, before + 1024, 512); /* exchanged */
    memcpy(mixed + 1024, before + 512, 512);
    write_whole(copy, mixed, whole);
    assert_int_equal(newest(copy, NOISE_RECORD_STATE, NULL), 0);
    make_state(path, &two, &j); /* another stream of the same key */
    noise_journal_close(&j);
    read_whole(path, after);
    memcpy(mixed, before, whole);
    memcpy(mixed + 1024, after + 1024, 512);
    write_whole(copy, mixed, whole);
    assert_int_equal(newest(copy, NOISE_RECORD_STATE, NULL), 0); /* and sequence 0 is whole */
    write_whole(copy, before, whole);
    assert_int_equal(newest(copy, NOISE_RECORD_STATE, NULL), 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_write_of_a_counter_may_be_cut_anywhere),
        cmocka_unit_test(test_a_counter_that_needs_room_keeps_its_lock_and_number),
        cmocka_unit_test(test_a_write_of_a_state_may_be_cut_anywhere),
        cmocka_unit_test(test_slots_are_of_their_place_and_their_file),
    };
    return cmocka_run_group_tests(tests, case_setup, case_teardown);
}
