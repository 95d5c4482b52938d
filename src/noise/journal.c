/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal behind state files. It records what a stream or a counter promises, on the disk before the promise is kept.
 *
 *     0     the head: the record that names the stream (noise/record.h), 512 bytes
 *
 *     of a state                                      of a counter
 *     512   two slots of 512 bytes                    512   room of a slot (8)   zeros   HMAC-SHA256 at 992
 *     1536  marks (noise/state.c)                     1024  the seal: sequence that was used last (8)   zeros   HMAC
 *                                                     4096  two slots of that room, of which the first bytes are used
 *
 * A slot is a sequence number (8), a payload and, in its last 32 bytes, an HMAC-SHA256 of the MAC of the head and all of
 * the slot before. Sequence s is in slot s mod 2. A slot is whole if its HMAC matches and its number belongs in its place;
 * without the key one cannot be made, nor moved to another file, nor can the two be exchanged.
 *
 * Protocol. Let s be the sequence on the disk. Slot s + 1 is written over s - 1, in place, and fdatasync returns; then, and
 * not before, the caller uses what s + 1 promises. A counter then writes its seal with s + 1, which is not synced.
 *
 * Claim: after a kill or a power cut at any moment, slot s or slot s + 1 is whole, and if anything of s + 1 was used,
 * then s + 1 is. Proof: during the write slot s is not touched, and it was synced before. Everything that the write can tear
 * is in slot s + 1, of which nothing is used until the sync has returned, and after the sync it is whole. A new file is
 * synced before it has its name, and the name is synced before anything is used (base/atomic_file.h), so the claim
 * holds for the first slot too, and for a counter whose slot needs more room: its file is made again with the new slot
 * alone, while the old one, whose lock is still held, stays until the rename.
 *
 * The reader therefore takes the newest whole slot. That is the state, or the state before a promise that was never kept.
 * It may be wrong in one case only: slot s + 1 was damaged after it was synced, so that s looks like the state and would
 * give rows again that have been seen. The two readers exclude that in different ways:
 *
 *     a state refuses a file with one slot that is not whole. A power cut during a write causes that too, and then the
 *     user decides (replay), where one row more than the whole slot has counts as reserved;
 *     a counter refuses a file whose newest whole slot is older than the seal. A power cut may lose the seal, and then
 *     only this warning is lost; the seal is one sector, and a kill does not tear it.
 *
 * An older copy of the whole file is authentic, and nothing in it shows its age: count compares it with its output, and
 * users are asked to keep the latest (docs/security.md).
 *
 * Slots are written in place because that takes one sync per promise, leaves no other file after a kill, and keeps one
 * inode, whose lock (flock) holds as long as the journal is open.
 */
#include "noise/journal.h"

#include "base/file.h"
#include "base/memory.h"
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = NOISE_RECORD, MAC = NOISE_MAC, ROOM_AT = 512, SEAL_AT = 1024, STATE_SLOTS_AT = 512, SLOTS_AT = 4096 };
#define LEAST_ROOM ((int64_t)1 << 16)
#define MOST_ROOM ((int64_t)1 << 40)
static const char WHAT[] = "state file";

dpmf_status noise_journal_fail(const noise_journal *j, const char *how) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "the state file '%s' has been changed: %s", base_show_path(j->path, shown),
                     how);
}

static dpmf_status lock(const noise_journal *j) {
    char shown[BASE_SHOWN_PATH];
    struct stat info;
    base_show_path(j->path, shown);
    if (flock(j->file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return base_file_fail("lock", WHAT, j->path, errno);
        return base_fail(DPMF_ERROR_IO, "the state file '%s' is in use by another %s", shown,
                         j->kind == NOISE_RECORD_COUNTER ? "program" : "stream");
    }
    if (fstat(j->file, &info) != 0) return base_file_fail("read", WHAT, j->path, errno);
    if (info.st_nlink == 0) /* it was replaced between our opening and locking it */
        return base_fail(DPMF_ERROR_IO, "the state file '%s' was in use by another program a moment ago", shown);
    return DPMF_OK;
}

dpmf_status noise_journal_open(noise_journal *j, const char *path, const noise_binding *binding,
                               noise_record_kind kind) {
    *j = (noise_journal){.file = -1, .kind = kind, .binding = *binding, .room = NOISE_RECORD};
    TRY(base_copy_text(path, &j->path));
    TRY(crypto_secret_open(path, WHAT, 1, &j->file, &j->size));
    if (j->file >= 0) return lock(j);
    if (!j->binding.salted) TRY(crypto_key_random(j->binding.salt));
    return noise_record_make(&j->binding, kind, j->head);
}

/* A number in a sector of its own, authenticated with its place. */
static dpmf_status encode_number(const noise_journal *j, int64_t place, uint64_t number, uint8_t sector[SECTOR]) {
    uint8_t covered[MAC + 8 + SECTOR - MAC];
    memset(sector, 0, SECTOR);
    memcpy(sector, &number, 8);
    memcpy(covered, j->head + NOISE_RECORD_BODY, MAC);
    memcpy(covered + MAC, &place, 8);
    memcpy(covered + MAC + 8, sector, SECTOR - MAC);
    return noise_mac(j->binding.mac_key, covered, sizeof covered, sector + SECTOR - MAC);
}

static dpmf_status read_number(const noise_journal *j, int64_t place, uint64_t *out) {
    uint8_t held[SECTOR], expected[SECTOR];
    TRY(crypto_secret_read(j->file, j->path, WHAT, place, held, sizeof held));
    memcpy(out, held, 8);
    TRY(encode_number(j, place, *out, expected));
    if (CRYPTO_memcmp(expected, held, sizeof held) == 0) return DPMF_OK;
    return noise_journal_fail(j, "its authentication does not match");
}

dpmf_status noise_journal_check(noise_journal *j) {
    uint64_t room = 0;
    TRY(crypto_secret_read(j->file, j->path, WHAT, 0, j->head, sizeof j->head));
    TRY(noise_record_check(&j->binding, j->kind, j->path, j->head));
    memcpy(j->binding.salt, noise_record_salt(j->head), sizeof j->binding.salt);
    if (j->kind != NOISE_RECORD_COUNTER) return DPMF_OK;
    TRY(read_number(j, ROOM_AT, &room));
    TRY(read_number(j, SEAL_AT, &j->sealed));
    if (room < (uint64_t)LEAST_ROOM || room > (uint64_t)MOST_ROOM || j->size > SLOTS_AT + 2 * (int64_t)room)
        return noise_journal_fail(j, "its size does not fit its contents");
    j->room = (int64_t)room;
    return DPMF_OK;
}

void noise_journal_close(noise_journal *j) {
    if (j->file >= 0) close(j->file);
    crypto_wipe_free(j->bytes, j->capacity);
    base_free(j->path);
    crypto_wipe(j, sizeof *j);
    j->file = -1;
}

static int64_t slot_place(const noise_journal *j, uint64_t sequence) {
    return (j->kind == NOISE_RECORD_COUNTER ? SLOTS_AT : STATE_SLOTS_AT) + (int64_t)(sequence % 2) * j->room;
}

dpmf_status noise_journal_slot(noise_journal *j, int64_t size, uint8_t **slot) {
    if (MAC + size > j->capacity) {
        uint8_t *bytes = NULL;
        const int64_t wanted = MAC + size + size / 2;
        TRY(base_alloc(wanted, 1, "the state of a stream", (void **)&bytes));
        crypto_wipe_free(j->bytes, j->capacity);
        j->bytes = bytes;
        j->capacity = wanted;
    }
    *slot = j->bytes + MAC;
    return DPMF_OK;
}

/* Computes the HMAC of the MAC of the head and the slot in memory up to its own MAC. */
static dpmf_status slot_mac(noise_journal *j, int64_t size, uint8_t mac[MAC]) {
    memcpy(j->bytes, j->head + NOISE_RECORD_BODY, MAC);
    return noise_mac(j->binding.mac_key, j->bytes, (size_t)size, mac);
}

dpmf_status noise_journal_sign(noise_journal *j, uint64_t sequence, int64_t size) {
    memcpy(j->bytes + MAC, &sequence, 8);
    return slot_mac(j, size, j->bytes + size);
}

dpmf_status noise_journal_read(noise_journal *j, int index, uint8_t **slot, int64_t *size) {
    const int64_t place = slot_place(j, (uint64_t)index);
    int64_t used = NOISE_RECORD;
    uint8_t mac[MAC];
    *size = 0;
    TRY(noise_journal_slot(j, used, slot));
    if (j->kind == NOISE_RECORD_COUNTER) {
        if (j->size < place + 16) return DPMF_OK;
        TRY(crypto_secret_read(j->file, j->path, WHAT, place + 8, &used, sizeof used));
        if (used < 16 + MAC || used > j->room || used > j->size - place) return DPMF_OK;
        TRY(noise_journal_slot(j, used, slot));
    }
    TRY(crypto_secret_read(j->file, j->path, WHAT, place, *slot, (size_t)used));
    TRY(slot_mac(j, used, mac));
    memcpy(&j->sequence, *slot, 8);
    if (CRYPTO_memcmp(mac, j->bytes + used, MAC) == 0 && j->sequence % 2 == (uint64_t)index) *size = used;
    return DPMF_OK;
}

dpmf_status noise_journal_make(noise_journal *j, const uint8_t *bytes, int64_t size) {
    int made = -1;
    TRY(crypto_secret_create(j->path, WHAT, bytes, (size_t)size, j->file >= 0, NULL, &made));
    if (j->file >= 0) close(j->file);
    j->file = made;
    j->size = size;
    return DPMF_OK;
}

/* Makes a counter's file that has only the slot in memory: the first file, or one with more room. */
static dpmf_status make_counter_file(noise_journal *j, int64_t size) {
    dpmf_status status = DPMF_OK;
    const uint64_t sequence = j->sequence + 1 + (j->sequence + 1) % 2; /* it goes to slot 0 */
    const int64_t whole = SLOTS_AT + size;
    uint8_t *bytes = NULL;
    int64_t room = LEAST_ROOM;
    while (room < size)
        room *= 2;
    TRY(base_alloc(whole, 1, "the state of a counter", (void **)&bytes));
    memcpy(bytes, j->head, sizeof j->head);
    TRY_DONE(encode_number(j, ROOM_AT, (uint64_t)room, bytes + ROOM_AT));
    TRY_DONE(encode_number(j, SEAL_AT, sequence, bytes + SEAL_AT));
    TRY_DONE(noise_journal_sign(j, sequence, size));
    memcpy(bytes + SLOTS_AT, j->bytes + MAC, (size_t)size);
    TRY_DONE(noise_journal_make(j, bytes, whole));
    j->room = room;
    j->sequence = sequence;
done:
    crypto_wipe_free(bytes, whole);
    return status;
}

dpmf_status noise_journal_write(noise_journal *j, int64_t size) {
    const uint64_t sequence = j->sequence + 1;
    uint8_t seal[SECTOR];
    struct stat info;
    if (j->file < 0 || size > j->room) return make_counter_file(j, size);
    /* A file without a name protects nothing: the next program would not find it. */
    if (fstat(j->file, &info) != 0) return base_file_fail("write", WHAT, j->path, errno);
    if (info.st_nlink == 0) return base_file_fail("write", WHAT, j->path, ENOENT);
    TRY(noise_journal_sign(j, sequence, size));
    TRY(crypto_secret_write(j->file, j->path, WHAT, slot_place(j, sequence), j->bytes + MAC, (size_t)size));
    if (j->kind == NOISE_RECORD_COUNTER) {
        TRY(encode_number(j, SEAL_AT, sequence, seal));
        TRY(crypto_secret_put(j->file, j->path, WHAT, SEAL_AT, seal, sizeof seal));
    }
    j->sequence = sequence;
    return DPMF_OK;
}
