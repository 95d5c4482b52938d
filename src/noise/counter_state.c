/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state file of a counter is a journal (noise/journal.c) whose slots hold the counter's whole state. A slot:
 *
 *     sequence, size, step, input bytes, sizes of buffers and note (8 each)   hash of the input (32)
 *     running sums, or the last rows of a recursion   buffers of the stream   note   HMAC-SHA256 (32)
 *
 * A commit is on the disk before the caller publishes the sums. After a kill or a power cut at any moment
 *
 *     the newest slot is whole: it is the state, and its note has what was about to be published;
 *     it is torn: nothing of it has been published, and the other one is the state.
 *
 * A slot that was used and does not authenticate was changed. It is refused, for the older slot would count rows again
 * that may have been added to other numbers.
 *
 * Buffers are kept up to 64 KiB and 32 numbers per column; beyond that (full Toeplitz streams of many steps) the earlier
 * rows are made again, which takes time and changes no bit.
 */
#include "noise/counter.h"

#include "base/memory.h"

#include <inttypes.h>
#include <string.h>

#define NOTE_MAX ((int64_t)1 << 39)
#define BUFFERS_MAX ((int64_t)1 << 16)

typedef struct slot_head {
    uint64_t sequence; /* the journal's */
    int64_t size, step, input, buffers, note;
    uint8_t digest[32];
} slot_head;

_Static_assert(sizeof(slot_head) == 80, "no padding");

/* The bytes of the sums, or of the rows that a recursion reads. */
static int64_t sums_size(const dpmf_counter *c) {
    if (c->total != NULL) return c->columns * (int64_t)sizeof *c->total;
    return 2 * NOISE_COUNTER_HISTORY * c->columns * (int64_t)sizeof(double);
}

/* *head.size is 0 if slot `index` is not whole. */
static dpmf_status read_slot(dpmf_counter *c, int index, slot_head *head, uint8_t **slot) {
    const int64_t least = (int64_t)sizeof *head + sums_size(c) + NOISE_MAC;
    int64_t size = 0;
    *head = (slot_head){0};
    TRY(noise_journal_read(c->file, index, slot, &size));
    if (size < least) return DPMF_OK;
    memcpy(head, *slot, sizeof *head);
    if (head->size != size || head->buffers < 0 || head->note < 0 || head->buffers > size ||
        head->note != size - least - head->buffers || head->step < 0 || head->step > c->steps)
        head->size = 0;
    return DPMF_OK;
}

static dpmf_status take_slot(dpmf_counter *c, const slot_head *head, const uint8_t *slot) {
    const size_t sums = (size_t)sums_size(c);
    const uint8_t *at = slot + sizeof *head;
    if (c->total != NULL) {
        memcpy(c->total, at, sums);
    } else {
        memcpy(c->x, at, sums / 2);
        memcpy(c->o, at + sums / 2, sums / 2);
    }
    at += sums;
    /* Another version or machine may arrange buffers differently: then the rows are made again. */
    if (head->buffers > 0 && head->buffers == noise_stream_state_size(c->noise->stream))
        TRY(noise_adopt(c->noise, head->step, at));
    else
        TRY(dpmf_noise_seek(c->noise, head->step));
    if (head->note > 0) {
        c->note = at + head->buffers; /* stays until the next commit */
        c->note_size = head->note;
    }
    c->step = c->committed = head->step;
    c->input_wanted = head->input;
    memcpy(c->input_digest, head->digest, sizeof c->input_digest);
    return DPMF_OK;
}

dpmf_status noise_counter_open(dpmf_counter *c, const char *path, noise_binding *binding) {
    TRY(base_alloc(1, sizeof *c->file, "the state of a counter", (void **)&c->file)); /* closed with the counter */
    TRY(noise_journal_open(c->file, path, binding, NOISE_RECORD_COUNTER));
    if (c->file->file >= 0) TRY(noise_journal_check(c->file));
    memcpy(binding->salt, c->file->binding.salt, sizeof binding->salt);
    return DPMF_OK;
}

dpmf_status noise_counter_resume(dpmf_counter *c) {
    noise_journal *j = c->file;
    slot_head head[2];
    uint8_t *slot = NULL;
    if (j == NULL || j->file < 0) return DPMF_OK;
    for (int i = 0; i < 2; i++)
        TRY(read_slot(c, i, &head[i], &slot));
    const int newest = head[1].size > 0 && (head[0].size == 0 || head[1].sequence > head[0].sequence);
    if (head[newest].size == 0) return noise_journal_fail(j, "neither of its two slots authenticates");
    if (head[newest].sequence < j->sealed)
        return noise_journal_fail(j,
                                  "the slot that was written last does not authenticate, and its sums were released");
    if (newest == 0) TRY(read_slot(c, 0, &head[0], &slot)); /* the second one is in memory */
    return take_slot(c, &head[newest], slot);
}

dpmf_status noise_counter_write(dpmf_counter *c, const void *note, int64_t note_size) {
    const int64_t sums = sums_size(c), made = noise_stream_state_size(c->noise->stream);
    const int64_t buffers = made <= BUFFERS_MAX + 32 * 8 * c->columns ? made : 0;
    slot_head head = {.step = c->step, .input = c->input_size, .buffers = buffers, .note = note_size};
    uint8_t *at = NULL;
    if (note_size > NOTE_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "a note of %" PRId64 " bytes, accepted: up to 2^39", note_size);
    head.size = (int64_t)sizeof head + sums + buffers + note_size + NOISE_MAC;
    if (EVP_MD_CTX_copy_ex(c->scratch, c->input) != 1 || EVP_DigestFinal_ex(c->scratch, head.digest, NULL) != 1)
        return base_fail(DPMF_ERROR_MEMORY, "OpenSSL could not compute a SHA-256");
    if (c->recorded > 0) { /* an input that gave no row does not replace the one that did */
        head.input = c->recorded;
        memcpy(head.digest, c->input_digest, sizeof head.digest);
    }
    TRY(noise_journal_slot(c->file, head.size, &at));
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    if (c->total != NULL) {
        memcpy(at, c->total, (size_t)sums);
    } else {
        memcpy(at, c->x, (size_t)sums / 2);
        memcpy(at + sums / 2, c->o, (size_t)sums / 2);
    }
    at += sums;
    if (buffers > 0) {
        TRY(noise_take_stream(c->noise));
        TRY(noise_stream_state_save(c->noise->stream, at));
    }
    at += buffers;
    if (note_size > 0) memcpy(at, note, (size_t)note_size);
    c->note = at;
    c->note_size = note_size;
    return noise_journal_write(c->file, head.size);
}
