/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file: a journal (noise/journal.c) of the rows that have been reserved, then 32 bytes for each row. A slot:
 *
 *     0 sequence   8 reserved   16 arrived   zeros to 480   480 HMAC-SHA256
 *
 * Before row t is given to the caller, a slot with reserved = t + 1, arrived = t is on the disk: a request for row t
 * confirms that the rows before it arrived. After a crash at any moment reserved is therefore more than the last row that
 * has been seen, and at most one row, number `arrived`, is in doubt.
 *
 * The 32 bytes of row t are its mark, HMAC-SHA256 (MAC of the head | t | digest of the sum that the row was added to), or
 * zeros where no sum was named. A mark is written before the slot that reserves its row, and synced with it: a kill in
 * between leaves the mark of a row that was never seen, which the next one overwrites. A power cut that keeps the slot and
 * loses the mark leaves a row that is never given again.
 *
 * A slot that is not whole is refused, for a damaged newer slot would make the older one look valid and give a row again.
 * With `replay` the caller requests a row again: then the whole slot is used, and the row that the damaged one may have
 * reserved counts as reserved.
 */
#include "noise/record.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"
#include "noise/journal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { FILE_SIZE = 3 * NOISE_RECORD };
static const char WHAT[] = "state file";
static const uint8_t NO_MARK[NOISE_MAC];

typedef struct slot {
    uint64_t sequence;
    int64_t reserved, arrived;
} slot;

struct noise_state {
    noise_journal journal;
    int64_t reserved, arrived;
};

static dpmf_status read_slots(noise_state *state, int replay) {
    noise_journal *j = &state->journal;
    slot s[2];
    int whole[2];
    for (int i = 0; i < 2; i++) {
        uint8_t *bytes = NULL;
        int64_t size = 0;
        TRY(noise_journal_read(j, i, &bytes, &size));
        memcpy(&s[i], bytes, sizeof s[i]);
        whole[i] = size > 0 && s[i].arrived >= 0 && s[i].arrived <= s[i].reserved &&
                   s[i].reserved <= j->binding.steps && s[i].reserved - s[i].arrived <= 1;
    }
    if (!whole[0] && !whole[1]) return noise_journal_fail(j, "its records do not authenticate");
    const slot *newer = &s[s[0].sequence < s[1].sequence], *older = &s[s[0].sequence >= s[1].sequence];
    if (!whole[0] || !whole[1]) {
        if (!replay)
            return noise_journal_fail(
                j, "one of its two records does not authenticate (the option replay uses the other one)");
        newer = &s[whole[1]];
    } else if (newer->sequence != older->sequence + 1 || newer->reserved < older->reserved) {
        return noise_journal_fail(j, "its two records do not follow each other");
    }
    j->sequence = newer->sequence;
    state->reserved = newer->reserved + (!(whole[0] && whole[1]) && newer->reserved < j->binding.steps);
    state->arrived = newer->arrived;
    return DPMF_OK;
}

dpmf_status noise_state_open(const char *path, noise_binding *binding, int replay, noise_state **out) {
    dpmf_status status = DPMF_OK;
    noise_state *state = NULL;
    char shown[BASE_SHOWN_PATH];
    TRY(base_alloc(1, sizeof *state, "the state of a noise stream", (void **)&state));
    TRY_DONE(noise_journal_open(&state->journal, path, binding, NOISE_RECORD_STATE));
    if (state->journal.file >= 0) {
        const int64_t marks = state->journal.size - FILE_SIZE;
        if (marks < 0 || marks % NOISE_MAC != 0 || marks / NOISE_MAC > binding->steps) {
            status = base_fail(DPMF_ERROR_FORMAT,
                               "the state file '%s' has %" PRId64 " bytes, accepted: %d, and %d for each of %" PRId64
                               " rows",
                               base_show_path(path, shown), marks + FILE_SIZE, FILE_SIZE, NOISE_MAC, binding->steps);
            goto done;
        }
        TRY_DONE(noise_journal_check(&state->journal));
        TRY_DONE(read_slots(state, replay));
    }
    memcpy(binding->salt, state->journal.binding.salt, sizeof binding->salt);
    *out = state;
    state = NULL;
done:
    noise_state_close(state, 0);
    return status;
}

int64_t noise_state_reserved(const noise_state *state) {
    return state->reserved;
}

int64_t noise_state_arrived(const noise_state *state) {
    return state->arrived;
}

dpmf_status noise_state_mark(const noise_state *state, int64_t row, const uint8_t digest[32], uint8_t mark[NOISE_MAC]) {
    uint8_t covered[NOISE_MAC + 8 + 32];
    memcpy(covered, state->journal.head + NOISE_RECORD_BODY, NOISE_MAC);
    memcpy(covered + NOISE_MAC, &row, 8);
    memcpy(covered + NOISE_MAC + 8, digest, 32);
    return noise_mac(state->journal.binding.sum_key, covered, sizeof covered, mark);
}

static int64_t mark_place(int64_t row) {
    return FILE_SIZE + row * NOISE_MAC;
}

dpmf_status noise_state_marked(const noise_state *state, int64_t row, uint8_t mark[NOISE_MAC], int *found) {
    const noise_journal *j = &state->journal;
    *found = 0;
    if (j->file < 0 || j->size < mark_place(row + 1)) return DPMF_OK;
    TRY(crypto_secret_read(j->file, j->path, WHAT, mark_place(row), mark, NOISE_MAC));
    *found = memcmp(mark, NO_MARK, sizeof NO_MARK) != 0;
    return DPMF_OK;
}

static dpmf_status fill_slot(noise_journal *j, const slot *s) {
    uint8_t *bytes = NULL;
    TRY(noise_journal_slot(j, NOISE_RECORD, &bytes));
    memset(bytes, 0, NOISE_RECORD);
    memcpy(bytes, s, sizeof *s);
    return DPMF_OK;
}

static dpmf_status write_slot(noise_state *state, int64_t reserved, int64_t arrived) {
    const slot next = {.reserved = reserved, .arrived = arrived}; /* the journal numbers it */
    TRY(fill_slot(&state->journal, &next));
    TRY(noise_journal_write(&state->journal, NOISE_RECORD));
    state->reserved = reserved;
    state->arrived = arrived;
    return DPMF_OK;
}

/* A new file has a slot that reserves nothing, one that reserves row 0 (or nothing), and the row's mark or none. */
static dpmf_status make_file(noise_state *state, int64_t reserved, const uint8_t *mark) {
    const slot first[2] = {{0, 0, 0}, {1, reserved, 0}};
    noise_journal *j = &state->journal;
    uint8_t bytes[FILE_SIZE + NOISE_MAC];
    assert(state->reserved == 0);
    memcpy(bytes, j->head, NOISE_RECORD);
    for (int i = 0; i < 2; i++) {
        TRY(fill_slot(j, &first[i]));
        TRY(noise_journal_sign(j, first[i].sequence, NOISE_RECORD));
        memcpy(bytes + (1 + i) * NOISE_RECORD, j->bytes + NOISE_MAC, NOISE_RECORD);
    }
    if (mark != NULL) memcpy(bytes + FILE_SIZE, mark, NOISE_MAC);
    TRY(noise_journal_make(j, bytes, FILE_SIZE + (mark != NULL ? NOISE_MAC : 0)));
    j->sequence = 1;
    state->reserved = reserved;
    return DPMF_OK;
}

dpmf_status noise_state_begin(noise_state *state) {
    return state->journal.file < 0 ? make_file(state, 0, NULL) : DPMF_OK;
}

dpmf_status noise_state_reserve(noise_state *state, const uint8_t *mark) {
    noise_journal *j = &state->journal;
    const int64_t row = state->reserved;
    assert(row < j->binding.steps);
    if (j->file < 0) return make_file(state, 1, mark);
    /* A row without a mark needs no place, unless it has to replace a mark that was never used. */
    if (mark != NULL || j->size > mark_place(row)) {
        TRY(crypto_secret_put(j->file, j->path, WHAT, mark_place(row), mark != NULL ? mark : NO_MARK, NOISE_MAC));
        if (j->size < mark_place(row + 1)) j->size = mark_place(row + 1);
    }
    return write_slot(state, row + 1, row);
}

void noise_state_close(noise_state *state, int arrived) {
    if (state == NULL) return;
    if (arrived && state->journal.file >= 0 && state->arrived < state->reserved) {
        /* If this fails, the last row stays in doubt. That is safe: the next program has to decide. */
        dpmf_status status = write_slot(state, state->reserved, state->reserved);
        (void)status;
    }
    noise_journal_close(&state->journal);
    base_free(state);
}
