/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file of a counter.
 *
 *     0     the record that names the stream (noise/record.h)
 *     512   room of a slot (8)   zeros   HMAC-SHA256 at 992
 *     1024  sequence that was handed out last (8)   zeros   HMAC at 1504: the seal
 *     4096  two slots of that room, written in turn, of which the first bytes are used:
 *           sequence, size, step, input bytes, sizes of buffers and note (8 each)   hash of the input (32)
 *           running sums, or the last rows of a recursion   buffers of the stream   note   HMAC-SHA256 (32)
 *
 * Every HMAC covers that of the first record too. Protocol of a commit: the slot that is not the newest is written and
 * synced; then the seal is written, and the caller lets the sums go. After a kill or a power cut at any moment
 *
 *     the newest slot is whole: it is the state, and its note says what was about to go out;
 *     it is torn: nothing of it has gone out, and the other one is the state.
 *
 * A whole seal with no whole slot of its sequence says that a slot which had been synced was changed: refused, for the
 * older slot would count rows again that may have met other numbers. The seal itself is not synced: it may be lost in a
 * power cut, which takes only this warning away. It is a sector, and never torn by a kill.
 *
 * Buffers are kept up to 64 KiB and 32 numbers a column; beyond that (full Toeplitz streams of many steps) the rows before
 * are made again, which takes time and changes no bit.
 *
 * Why in place: one sync a commit, one inode whose lock holds, and nothing is left over by a kill. A note that needs more
 * room makes the file anew, by rename, under the lock of the old one and the new.
 */
#include "noise/counter.h"

#include "base/file.h"
#include "base/memory.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = NOISE_RECORD, MAC = NOISE_MAC, ROOM_AT = 512, SEAL_AT = 1024, SLOTS_AT = 4096 };
#define LEAST_ROOM ((int64_t)1 << 16)
#define MOST_ROOM ((int64_t)1 << 40)
#define BUFFERS_MAX ((int64_t)1 << 16)
static const char WHAT[] = "state file";

typedef struct slot_head {
    uint64_t sequence;
    int64_t size, step, input, buffers, note;
    uint8_t digest[32];
} slot_head;

_Static_assert(sizeof(slot_head) == 80, "no padding");

struct noise_counter_file {
    char *path;
    int file; /* -1: not made yet */
    int64_t room;
    uint64_t sequence; /* of the newest slot */
    uint8_t head[SECTOR];
    uint8_t *bytes; /* the MAC of the first record, then a slot */
    int64_t capacity;
};

/* ---- records ---- */

static dpmf_status fail_changed(const noise_counter_file *f, const char *how) {
    char shown[BASE_SHOWN_PATH];
    return base_fail(DPMF_ERROR_FORMAT, "the state file '%s' has been changed: %s", base_show_path(f->path, shown),
                     how);
}

/* A number in a sector of its own, authenticated with its place. */
static dpmf_status encode_number(const dpmf_counter *c, int64_t place, uint64_t number, uint8_t sector[SECTOR]) {
    const noise_counter_file *f = c->file;
    uint8_t covered[MAC + 8 + SECTOR - MAC];
    memset(sector, 0, SECTOR);
    memcpy(sector, &number, 8);
    memcpy(covered, f->head + NOISE_RECORD_BODY, MAC);
    memcpy(covered + MAC, &place, 8);
    memcpy(covered + MAC + 8, sector, SECTOR - MAC);
    return noise_mac(c->noise->binding.mac_key, covered, sizeof covered, sector + SECTOR - MAC);
}

static dpmf_status decode_number(const dpmf_counter *c, int64_t place, const uint8_t sector[SECTOR], uint64_t *out) {
    uint8_t expected[SECTOR];
    memcpy(out, sector, 8);
    TRY(encode_number(c, place, *out, expected));
    return CRYPTO_memcmp(expected, sector, SECTOR) == 0 ? DPMF_OK
                                                        : fail_changed(c->file, "its authentication does not match");
}

static dpmf_status need_capacity(noise_counter_file *f, int64_t size) {
    uint8_t *bytes = NULL;
    if (size <= f->capacity) return DPMF_OK;
    TRY(base_alloc(size + size / 2, 1, "the state of a counter", (void **)&bytes));
    if (f->bytes != NULL) crypto_wipe(f->bytes, (size_t)f->capacity);
    base_free(f->bytes);
    f->bytes = bytes;
    f->capacity = size + size / 2;
    memcpy(f->bytes, f->head + NOISE_RECORD_BODY, MAC);
    return DPMF_OK;
}

/* ---- a slot ---- */

/* Bytes of sums, or of the rows that a recursion looks back on. */
static int64_t sums_size(const dpmf_counter *c) {
    if (c->total != NULL) return c->columns * (int64_t)sizeof *c->total;
    return 2 * NOISE_COUNTER_HISTORY * c->columns * (int64_t)sizeof(double);
}

static void copy_sums(dpmf_counter *c, uint8_t *bytes, int load) {
    const size_t all = (size_t)sums_size(c);
    struct {
        void *memory;
        size_t size;
    } part[2] = {{c->total, all}, {NULL, 0}};
    if (c->total == NULL) {
        part[0].memory = c->x, part[1].memory = c->o;
        part[0].size = part[1].size = all / 2;
    }
    for (int i = 0; i < 2 && part[i].size > 0; bytes += part[i++].size) {
        if (load)
            memcpy(part[i].memory, bytes, part[i].size);
        else
            memcpy(bytes, part[i].memory, part[i].size);
    }
}

/* Of the stream's buffers; 0: they are not kept. */
static int64_t buffers_size(const dpmf_counter *c) {
    const int64_t size = noise_stream_state_size(c->noise->stream);
    return size <= BUFFERS_MAX + 32 * 8 * c->columns ? size : 0;
}

/* Into f->bytes after the first MAC; *size of the slot. The counter's note is then the one in it. */
static dpmf_status encode_slot(dpmf_counter *c, uint64_t sequence, const void *note, int64_t note_size, int64_t *size) {
    noise_counter_file *f = c->file;
    const int64_t sums = sums_size(c), buffers = buffers_size(c);
    slot_head head = {.sequence = sequence, .step = c->step, .input = c->input_size, .buffers = buffers};
    head.note = note_size;
    head.size = (int64_t)sizeof head + sums + buffers + note_size + MAC;
    if (note_size > MOST_ROOM / 2 || head.size > MOST_ROOM)
        return base_fail(DPMF_ERROR_ARGUMENT, "a note of %" PRId64 " bytes, accepted: up to 2^39", note_size);
    if (EVP_MD_CTX_copy_ex(c->scratch, c->input) != 1 || EVP_DigestFinal_ex(c->scratch, head.digest, NULL) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    TRY(need_capacity(f, MAC + head.size));
    uint8_t *at = f->bytes + MAC;
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    copy_sums(c, at, 0);
    at += sums;
    if (buffers > 0) {
        TRY(noise_take_stream(c->noise));
        TRY(noise_stream_state_save(c->noise->stream, at));
    }
    at += buffers;
    if (note_size > 0) memcpy(at, note, (size_t)note_size);
    c->note = at;
    c->note_size = note_size;
    at += note_size;
    TRY(noise_mac(c->noise->binding.mac_key, f->bytes, (size_t)(at - f->bytes), at));
    *size = head.size;
    return DPMF_OK;
}

/* *whole: the slot is authentic; it is then in f->bytes. */
static dpmf_status read_slot(dpmf_counter *c, int index, int64_t file_size, slot_head *head, int *whole) {
    noise_counter_file *f = c->file;
    const int64_t place = SLOTS_AT + index * f->room;
    uint8_t mac[MAC];
    *whole = 0;
    if (file_size < place + (int64_t)sizeof *head) return DPMF_OK;
    TRY(crypto_secret_read(f->file, f->path, WHAT, place, head, sizeof *head));
    const int64_t least = (int64_t)sizeof *head + sums_size(c) + MAC;
    if (head->size < least || head->size > f->room || file_size < place + head->size || head->buffers < 0 ||
        head->note < 0 || head->buffers > head->size || head->note != head->size - least - head->buffers ||
        head->sequence % 2 != (uint64_t)index)
        return DPMF_OK;
    TRY(need_capacity(f, MAC + head->size));
    TRY(crypto_secret_read(f->file, f->path, WHAT, place, f->bytes + MAC, (size_t)head->size));
    TRY(noise_mac(c->noise->binding.mac_key, f->bytes, (size_t)head->size, mac));
    *whole = CRYPTO_memcmp(mac, f->bytes + head->size, MAC) == 0 && memcmp(head, f->bytes + MAC, sizeof *head) == 0 &&
             head->step >= 0 && head->step <= c->steps;
    return DPMF_OK;
}

/* The slot in f->bytes becomes the counter. */
static dpmf_status take_slot(dpmf_counter *c, const slot_head *head) {
    noise_counter_file *f = c->file;
    uint8_t *at = f->bytes + MAC + sizeof *head;
    copy_sums(c, at, 1);
    at += sums_size(c);
    /* Another version or machine may lay buffers out otherwise: then the rows are made again. */
    if (head->buffers > 0 && head->buffers == noise_stream_state_size(c->noise->stream))
        TRY(noise_adopt(c->noise, head->step, at));
    else
        TRY(dpmf_noise_seek(c->noise, head->step));
    at += head->buffers;
    if (head->note > 0) {
        c->note = at; /* stays until the next commit */
        c->note_size = head->note;
    }
    c->step = c->committed = head->step;
    c->input_wanted = head->input;
    memcpy(c->input_digest, head->digest, sizeof c->input_digest);
    f->sequence = head->sequence;
    return DPMF_OK;
}

/* ---- opening ---- */

static dpmf_status read_slots(dpmf_counter *c, int64_t file_size, uint64_t sealed) {
    slot_head head[2];
    int whole[2];
    for (int i = 0; i < 2; i++)
        TRY(read_slot(c, i, file_size, &head[i], &whole[i]));
    if (!whole[0] && !whole[1]) return fail_changed(c->file, "neither of its two slots authenticates");
    const int newest = whole[1] && (!whole[0] || head[1].sequence > head[0].sequence);
    if (head[newest].sequence < sealed)
        return fail_changed(c->file,
                            "the slot that was written last does not authenticate, and its sums were released");
    if (newest == 0) TRY(read_slot(c, 0, file_size, &head[0], &whole[0])); /* the second one is in memory */
    return take_slot(c, &head[newest]);
}

static dpmf_status read_file(dpmf_counter *c, int64_t size) {
    noise_counter_file *f = c->file;
    uint8_t bytes[3 * SECTOR];
    uint64_t room = 0, sealed = 0;
    TRY(crypto_secret_read(f->file, f->path, WHAT, 0, bytes, SECTOR));
    TRY(noise_record_check(&c->noise->binding, NOISE_RECORD_COUNTER, f->path, bytes));
    memcpy(f->head, bytes, sizeof f->head);
    TRY(crypto_secret_read(f->file, f->path, WHAT, 0, bytes, sizeof bytes));
    TRY(decode_number(c, ROOM_AT, bytes + ROOM_AT, &room));
    TRY(decode_number(c, SEAL_AT, bytes + SEAL_AT, &sealed));
    if (room < (uint64_t)LEAST_ROOM || room > (uint64_t)MOST_ROOM || size > SLOTS_AT + 2 * (int64_t)room)
        return fail_changed(f, "its size does not fit its contents");
    f->room = (int64_t)room;
    return read_slots(c, size, sealed);
}

static dpmf_status lock(const noise_counter_file *f) {
    char shown[BASE_SHOWN_PATH];
    struct stat info;
    if (flock(f->file, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return base_file_fail("lock", WHAT, f->path, errno);
        return base_fail(DPMF_ERROR_IO, "the state file '%s' is in use by another program",
                         base_show_path(f->path, shown));
    }
    if (fstat(f->file, &info) != 0) return base_file_fail("read", WHAT, f->path, errno);
    if (info.st_nlink == 0) /* somebody made it anew between our opening and locking it */
        return base_fail(DPMF_ERROR_IO, "the state file '%s' was in use by another program a moment ago",
                         base_show_path(f->path, shown));
    return DPMF_OK;
}

dpmf_status noise_counter_open(dpmf_counter *c, const char *path) {
    noise_counter_file *f = NULL;
    int64_t size = 0;
    TRY(base_alloc(1, sizeof *f, "the state of a counter", (void **)&f));
    f->file = -1;
    c->file = f; /* closed with the counter */
    TRY(base_copy_text(path, &f->path));
    TRY(crypto_secret_open(path, WHAT, 1, &f->file, &size));
    if (f->file < 0) return noise_record_make(&c->noise->binding, NOISE_RECORD_COUNTER, f->head);
    TRY(lock(f));
    return read_file(c, size);
}

void noise_counter_close(noise_counter_file *f) {
    if (f == NULL) return;
    if (f->file >= 0) close(f->file); /* which unlocks, once no process holds it */
    if (f->bytes != NULL) crypto_wipe(f->bytes, (size_t)f->capacity);
    base_free(f->bytes);
    base_free(f->path);
    crypto_wipe(f, sizeof *f);
    base_free(f);
}

/* ---- writing ---- */

/* A file with this slot alone: the first one, or one of more room. */
static dpmf_status make_file(dpmf_counter *c, int64_t size) {
    noise_counter_file *f = c->file;
    dpmf_status status = DPMF_OK;
    uint8_t *bytes = NULL;
    int made = -1;
    int64_t room = LEAST_ROOM;
    while (room < size)
        room *= 2;
    TRY(base_alloc(SLOTS_AT + size, 1, "the state of a counter", (void **)&bytes));
    memcpy(bytes, f->head, SECTOR);
    TRY_DONE(encode_number(c, ROOM_AT, (uint64_t)room, bytes + ROOM_AT));
    TRY_DONE(encode_number(c, SEAL_AT, f->sequence, bytes + SEAL_AT));
    memcpy(bytes + SLOTS_AT, f->bytes + MAC, (size_t)size);
    TRY_DONE(crypto_secret_create(f->path, WHAT, bytes, (size_t)(SLOTS_AT + size), f->file >= 0, NULL, &made));
    if (f->file >= 0) close(f->file);
    f->file = made;
    f->room = room;
done:
    crypto_wipe(bytes, (size_t)(SLOTS_AT + size));
    base_free(bytes);
    return status;
}

static dpmf_status write_slot(dpmf_counter *c, uint64_t sequence, int64_t size) {
    const noise_counter_file *f = c->file;
    struct stat info;
    /* A file without a name protects nobody: the next program would not find it. */
    if (fstat(f->file, &info) != 0) return base_file_fail("write", WHAT, f->path, errno);
    if (info.st_nlink == 0) return base_file_fail("write", WHAT, f->path, ENOENT);
    return crypto_secret_write(f->file, f->path, WHAT, SLOTS_AT + (int64_t)(sequence % 2) * f->room, f->bytes + MAC,
                               (size_t)size);
}

dpmf_status noise_counter_write(dpmf_counter *c, const void *note, int64_t note_size) {
    noise_counter_file *f = c->file;
    uint64_t sequence = f->sequence + 1;
    uint8_t seal[SECTOR];
    int64_t size = 0;
    TRY(encode_slot(c, sequence, note, note_size, &size));
    if (f->file < 0 || size > f->room) {
        sequence += sequence % 2; /* a new file has its first slot */
        TRY(encode_slot(c, sequence, note, note_size, &size));
        TRY(make_file(c, size));
    } else {
        TRY(write_slot(c, sequence, size));
    }
    TRY(encode_number(c, SEAL_AT, sequence, seal));
    TRY(crypto_secret_put(f->file, f->path, WHAT, SEAL_AT, seal, sizeof seal));
    f->sequence = sequence;
    return DPMF_OK;
}
