/* SPDX-License-Identifier: Apache-2.0 */
/* A journal: a locked file that names its stream and keeps two authenticated slots, written in turn (noise/journal.c). */
#ifndef DPMF_NOISE_JOURNAL_H
#define DPMF_NOISE_JOURNAL_H

#include "noise/record.h"

typedef struct noise_journal {
    char *path;
    int file; /* -1: not made yet */
    noise_record_kind kind;
    noise_binding binding;
    int64_t size;      /* of the file */
    int64_t room;      /* of a slot */
    uint64_t sequence; /* of the slot that was read or written last */
    uint64_t sealed;   /* of a counter: the sequence that was used last */
    uint8_t head[NOISE_RECORD];
    uint8_t *bytes; /* the MAC of the head, then a slot */
    int64_t capacity;
} noise_journal;

/*
 * Opens and locks the file, or remembers that there is none yet and makes its head, with the salt of the binding or a new one.
 * Close it after a failure too.
 */
DPMF_MUST_CHECK dpmf_status noise_journal_open(noise_journal *j, const char *path, const noise_binding *binding,
                                               noise_record_kind kind);

/* Reads and checks all before the slots of a file that exists; j->binding then has its salt. */
DPMF_MUST_CHECK dpmf_status noise_journal_check(noise_journal *j);

/* DPMF_ERROR_FORMAT: "the state file 'x' has been changed: `how`". */
dpmf_status noise_journal_fail(const noise_journal *j, const char *how);

/* Memory for a slot of `size` bytes, until the next call: sequence (8), payload, MAC; a counter's second word is its size. */
DPMF_MUST_CHECK dpmf_status noise_journal_slot(noise_journal *j, int64_t size, uint8_t **slot);

/* Reads slot 0 or 1 of the file into that memory; *size is 0 if it is not whole. */
DPMF_MUST_CHECK dpmf_status noise_journal_read(noise_journal *j, int index, uint8_t **slot, int64_t *size);

/* Fills in the sequence and the MAC of the slot in that memory. */
DPMF_MUST_CHECK dpmf_status noise_journal_sign(noise_journal *j, uint64_t sequence, int64_t size);

/* Writes the payload in that memory as the next slot, on the disk when it returns. Makes a counter's file if needed. */
DPMF_MUST_CHECK dpmf_status noise_journal_write(noise_journal *j, int64_t size);

/* Makes a new file with these bytes, which replaces the one that is open. */
DPMF_MUST_CHECK dpmf_status noise_journal_make(noise_journal *j, const uint8_t *bytes, int64_t size);

void noise_journal_close(noise_journal *j); /* wipes; unlocks once no process holds the file */

#endif
