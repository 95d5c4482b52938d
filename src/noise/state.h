/* SPDX-License-Identifier: Apache-2.0 */
/* The state file durably records the number of reserved rows. Its lock excludes a second program. */
#ifndef DPMF_NOISE_STATE_H
#define DPMF_NOISE_STATE_H

#include "noise/record.h"

typedef struct noise_state noise_state;

/*
 * Opens and locks the file, or remembers that there is none yet. `replay`: one of the two records may be damaged.
 * Nothing is written.
 */
DPMF_MUST_CHECK dpmf_status noise_state_open(const char *path, const noise_binding *binding, int replay,
                                             noise_state **out);

/* The path of the state file: as requested, or beside the key. Allocated; NULL: there is none (noise/bind.c). */
DPMF_MUST_CHECK dpmf_status noise_state_path(const char *state, const char *key_file, int rows_may_repeat, char **path);

/* If the user did not name the file, adds to the message how its name was found. */
dpmf_status noise_state_explain(dpmf_status status);

/* Rows 0 .. reserved-1 have been reserved; those from `arrived` on (none or one) may not have arrived. */
int64_t noise_state_reserved(const noise_state *state);
int64_t noise_state_arrived(const noise_state *state);

/* Makes the mark of (row, digest of a sum): an HMAC, which cannot be made or compared without the key. */
DPMF_MUST_CHECK dpmf_status noise_state_mark(const noise_state *state, int64_t row, const uint8_t digest[32],
                                             uint8_t mark[NOISE_MAC]);

/* The mark that a reserved row has; *found 0: it has none. */
DPMF_MUST_CHECK dpmf_status noise_state_marked(const noise_state *state, int64_t row, uint8_t mark[NOISE_MAC],
                                               int *found);

/*
 * Reserves row `reserved`, with its mark or NULL, on the disk when it returns. All rows before it have arrived. Allocates
 * only once.
 */
DPMF_MUST_CHECK dpmf_status noise_state_reserve(noise_state *state, const uint8_t *mark);

/*
 * Closes and wipes. `arrived`: first records in the file, if it can, that all reserved rows have arrived. In a child after
 * fork() it must be 0: the file and its lock belong to the parent.
 */
void noise_state_close(noise_state *state, int arrived);

#endif
