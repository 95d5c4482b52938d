/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: three records of 512 bytes, then 32 bytes for each row. The first record names the stream
 * (noise/record.h); the other two are written in turn, in place, each followed by fdatasync:
 *
 *     0 sequence   8 reserved   16 arrived   zeros to 480   480 HMAC-SHA256 (MAC of the first record | body)
 *
 * The 32 bytes of row t are its mark, HMAC-SHA256 (MAC of the first record | t | digest of the sum that the row was added
 * to), or zeros where no sum was named. A mark is written before the record that reserves its row, and synced with it: a
 * kill in between leaves the mark of a row that nobody has seen, which the next one overwrites. A power cut that keeps the
 * record and loses the mark leaves a row that cannot be had again.
 *
 * Protocol. Before row t is handed out, a record with reserved = t + 1, arrived = t is on the disk: asking for row t
 * says that the rows before it arrived. After a crash at any moment reserved is therefore more than the last row that
 * anybody has seen, and at most one row, number `arrived`, is in doubt. The record that is not being written stays
 * whole: a write that a power cut tears damages only the other, for a row that nobody has seen.
 *
 * A record that does not authenticate is refused, for a damaged newer record would make the older one look true and
 * give a row again. With `replay`, where giving a row again is what was asked for, the whole one is taken, and the row
 * that the damaged one may have reserved counts as reserved.
 *
 * Why in place: one synced write a row, no files left over by a kill, and one inode, whose lock (flock) holds as long
 * as the stream lives.
 */
#include "noise/state.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORDS = 3, FILE_SIZE = RECORDS * NOISE_RECORD };
static const char WHAT[] = "state file";

typedef struct slot {
    uint64_t sequence; /* record 1 + sequence % 2 */
    int64_t reserved, arrived;
} slot;

struct noise_state {
    char *path;
    int file; /* -1: not made yet */
    slot now;
    int64_t size; /* of the file */
    noise_binding binding;
    uint8_t head[NOISE_RECORD];
};

/* ---- one record ---- */

static dpmf_status slot_mac(const noise_state *state, const uint8_t body[NOISE_RECORD_BODY], uint8_t mac[NOISE_MAC]) {
    uint8_t covered[NOISE_MAC + NOISE_RECORD_BODY];
    memcpy(covered, state->head + NOISE_RECORD_BODY, NOISE_MAC);
    memcpy(covered + NOISE_MAC, body, NOISE_RECORD_BODY);
    return noise_mac(state->binding.mac_key, covered, sizeof covered, mac);
}

static dpmf_status slot_encode(const noise_state *state, const slot *s, uint8_t record[NOISE_RECORD]) {
    memset(record, 0, NOISE_RECORD);
    memcpy(record, s, sizeof *s);
    return slot_mac(state, record, record + NOISE_RECORD_BODY);
}

/* *whole says whether the record is authentic and makes sense in place `index`. */
static dpmf_status slot_decode(const noise_state *state, const uint8_t record[NOISE_RECORD], uint64_t index, slot *s,
                               int *whole) {
    uint8_t mac[NOISE_MAC];
    TRY(slot_mac(state, record, mac));
    memcpy(s, record, sizeof *s);
    *whole = CRYPTO_memcmp(mac, record + NOISE_RECORD_BODY, sizeof mac) == 0 && s->sequence % 2 == index &&
             s->arrived >= 0 && s->arrived <= s->reserved && s->reserved <= state->binding.steps &&
             s->reserved - s->arrived <= 1;
    return DPMF_OK;
}

/* ---- reading ---- */

static dpmf_status fail_damaged(const char *path, const char *how) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "the state file '%s' has been changed: %s", base_show_path(path, shown), how);
}

/* One record was being written when the power went, or somebody changed it: the other stands, and one row more. */
static void forgive(noise_state *state, const slot *whole) {
    state->now = *whole;
    if (state->now.reserved < state->binding.steps) state->now.reserved++;
}

static dpmf_status read_slots(noise_state *state, const uint8_t bytes[FILE_SIZE], int replay) {
    slot s[2];
    int whole[2];
    for (int i = 0; i < 2; i++)
        TRY(slot_decode(state, bytes + (1 + i) * NOISE_RECORD, (uint64_t)i, &s[i], &whole[i]));
    if (!whole[0] && !whole[1]) return fail_damaged(state->path, "its records do not authenticate");
    if (!whole[0] || !whole[1]) {
        if (!replay)
            return fail_damaged(state->path,
                                "one of its two records does not authenticate (the option replay uses the other one)");
        forgive(state, &s[whole[1]]);
        return DPMF_OK;
    }
    const slot *older = &s[s[0].sequence > s[1].sequence], *newer = &s[s[0].sequence < s[1].sequence];
    if (newer->sequence != older->sequence + 1 || newer->reserved < older->reserved)
        return fail_damaged(state->path, "its two records do not follow each other");
    state->now = *newer;
    return DPMF_OK;
}

static dpmf_status read_file(noise_state *state, int64_t size, int replay) {
    char shown[BASE_SHOWN_PATH];
    uint8_t bytes[FILE_SIZE];
    state->size = size;
    if (size < FILE_SIZE || (size - FILE_SIZE) % NOISE_MAC != 0 ||
        (size - FILE_SIZE) / NOISE_MAC > state->binding.steps)
        return base_fail(DPMF_ERROR_FORMAT,
                         "the state file '%s' has %" PRId64 " bytes, accepted: %d, and %d for each of %" PRId64 " rows",
                         base_show_path(state->path, shown), size, FILE_SIZE, NOISE_MAC, state->binding.steps);
    TRY(crypto_secret_read(state->file, state->path, WHAT, 0, bytes, sizeof bytes));
    TRY(noise_record_check(&state->binding, NOISE_RECORD_STATE, state->path, bytes));
    memcpy(state->head, bytes, sizeof state->head);
    return read_slots(state, bytes, replay);
}

static dpmf_status lock(const noise_state *state) {
    char shown[BASE_SHOWN_PATH];
    if (flock(state->file, LOCK_EX | LOCK_NB) == 0) return DPMF_OK;
    if (errno != EWOULDBLOCK) return base_file_fail("lock", WHAT, state->path, errno);
    return base_fail(DPMF_ERROR_IO, "the state file '%s' is in use by another stream",
                     base_show_path(state->path, shown));
}

dpmf_status noise_state_open(const char *path, const noise_binding *binding, int replay, noise_state **out) {
    dpmf_status status = DPMF_OK;
    noise_state *state = NULL;
    int64_t size = 0;
    TRY(base_alloc(1, sizeof *state, "the state of a noise stream", (void **)&state));
    state->file = -1;
    state->binding = *binding;
    TRY_DONE(base_copy_text(path, &state->path));
    TRY_DONE(crypto_secret_open(path, WHAT, 1, &state->file, &size));
    if (state->file >= 0) {
        TRY_DONE(lock(state));
        TRY_DONE(read_file(state, size, replay));
    } else {
        TRY_DONE(noise_record_make(binding, NOISE_RECORD_STATE, state->head));
    }
    *out = state;
    state = NULL;
done:
    noise_state_close(state, 0);
    return status;
}

int64_t noise_state_reserved(const noise_state *state) {
    return state->now.reserved;
}

int64_t noise_state_arrived(const noise_state *state) {
    return state->now.arrived;
}

/* ---- marks ---- */

dpmf_status noise_state_mark(const noise_state *state, int64_t row, const uint8_t digest[32], uint8_t mark[NOISE_MAC]) {
    uint8_t covered[NOISE_MAC + 8 + 32];
    memcpy(covered, state->head + NOISE_RECORD_BODY, NOISE_MAC);
    memcpy(covered + NOISE_MAC, &row, 8);
    memcpy(covered + NOISE_MAC + 8, digest, 32);
    return noise_mac(state->binding.sum_key, covered, sizeof covered, mark);
}

static int64_t mark_place(int64_t row) {
    return FILE_SIZE + row * NOISE_MAC;
}

dpmf_status noise_state_marked(const noise_state *state, int64_t row, uint8_t mark[NOISE_MAC], int *found) {
    static const uint8_t none[NOISE_MAC];
    *found = 0;
    if (state->file < 0 || state->size < mark_place(row + 1)) return DPMF_OK;
    TRY(crypto_secret_read(state->file, state->path, WHAT, mark_place(row), mark, NOISE_MAC));
    *found = memcmp(mark, none, sizeof none) != 0;
    return DPMF_OK;
}

/* A row without a mark needs no place, unless a mark that was never used stands there. */
static dpmf_status put_mark(noise_state *state, int64_t row, const uint8_t *mark) {
    static const uint8_t none[NOISE_MAC];
    if (mark == NULL && state->size <= mark_place(row)) return DPMF_OK;
    TRY(crypto_secret_put(state->file, state->path, WHAT, mark_place(row), mark != NULL ? mark : none, NOISE_MAC));
    if (state->size < mark_place(row + 1)) state->size = mark_place(row + 1);
    return DPMF_OK;
}

/* ---- writing ---- */

static dpmf_status make_file(noise_state *state, const slot *first, const uint8_t *mark) {
    const slot before = {0};
    uint8_t bytes[FILE_SIZE + NOISE_MAC];
    const size_t size = FILE_SIZE + (mark != NULL ? NOISE_MAC : 0);
    memcpy(bytes, state->head, NOISE_RECORD);
    TRY(slot_encode(state, &before, bytes + NOISE_RECORD));
    TRY(slot_encode(state, first, bytes + 2 * NOISE_RECORD));
    if (mark != NULL) memcpy(bytes + FILE_SIZE, mark, NOISE_MAC);
    TRY(crypto_secret_create(state->path, WHAT, bytes, size, 0, NULL, &state->file));
    state->size = (int64_t)size;
    return DPMF_OK;
}

/* `mark`: of the row that is reserved with this record; NULL: none. */
static dpmf_status write_slot(noise_state *state, int64_t reserved, int64_t arrived, const uint8_t *mark) {
    const slot next = {state->now.sequence + 1, reserved, arrived};
    uint8_t record[NOISE_RECORD];
    struct stat info;
    if (state->file < 0) {
        assert(reserved == 1); /* the file begins with row 0 */
        TRY(make_file(state, &next, mark));
    } else {
        /* A file without a name protects nobody: the next program would not find it. */
        if (fstat(state->file, &info) != 0) return base_file_fail("write", WHAT, state->path, errno);
        if (info.st_nlink == 0) return base_file_fail("write", WHAT, state->path, ENOENT);
        TRY(slot_encode(state, &next, record));
        if (reserved > state->now.reserved) TRY(put_mark(state, reserved - 1, mark));
        TRY(crypto_secret_write(state->file, state->path, WHAT, (int64_t)(1 + next.sequence % 2) * NOISE_RECORD, record,
                                sizeof record));
    }
    state->now = next;
    return DPMF_OK;
}

dpmf_status noise_state_reserve(noise_state *state, const uint8_t *mark) {
    assert(state->now.reserved < state->binding.steps);
    return write_slot(state, state->now.reserved + 1, state->now.reserved, mark);
}

void noise_state_close(noise_state *state, int arrived) {
    if (state == NULL) return;
    if (arrived && state->file >= 0 && state->now.arrived < state->now.reserved) {
        /* If it cannot be said, the last row stays in doubt: safe, and the next program will ask. */
        dpmf_status status = write_slot(state, state->now.reserved, state->now.reserved, NULL);
        (void)status;
    }
    if (state->file >= 0) close(state->file); /* which unlocks, once no process holds it */
    base_free(state->path);
    crypto_wipe(state, sizeof *state);
    base_free(state);
}
