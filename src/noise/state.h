/* SPDX-License-Identifier: Apache-2.0 */
/* The state file: how many rows have been reserved, durably, and a lock that keeps a second program out. */
#ifndef DPMF_NOISE_STATE_H
#define DPMF_NOISE_STATE_H

#include "noise/record.h"

typedef struct noise_state noise_state;

/*
 * Opens and locks the file, or remembers that there is none yet. `replay`: one damaged record of the two is forgiven.
 * Nothing is written.
 */
DPMF_MUST_CHECK dpmf_status noise_state_open(const char *path, const noise_binding *binding, int replay,
                                             noise_state **out);

/* Rows 0 .. reserved-1 have been reserved; those from `arrived` on (none or one) may not have been handed out. */
int64_t noise_state_reserved(const noise_state *state);
int64_t noise_state_arrived(const noise_state *state);

/* What stands for (row, digest of a sum) in the file: an HMAC that nobody without the key can make or read. */
DPMF_MUST_CHECK dpmf_status noise_state_mark(const noise_state *state, int64_t row, const uint8_t digest[32],
                                             uint8_t mark[NOISE_MAC]);

/* The mark that a reserved row has; *found 0: it has none. */
DPMF_MUST_CHECK dpmf_status noise_state_marked(const noise_state *state, int64_t row, uint8_t mark[NOISE_MAC],
                                               int *found);

/*
 * Reserves row `reserved`, with its mark or NULL: on the disk when it returns. All rows before it have arrived. Never
 * allocates but once.
 */
DPMF_MUST_CHECK dpmf_status noise_state_reserve(noise_state *state, const uint8_t *mark);

/*
 * Closes and wipes. `arrived`: first says in the file, if it can, that all reserved rows have. In a child after fork()
 * that must be 0: the file and its lock are the parent's.
 */
void noise_state_close(noise_state *state, int arrived);

#endif
