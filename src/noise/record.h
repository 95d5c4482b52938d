/* SPDX-License-Identifier: Apache-2.0 */
/* The record at the head of state files and checkpoints names the stream that they belong to. It is authenticated. */
#ifndef DPMF_NOISE_RECORD_H
#define DPMF_NOISE_RECORD_H

#include "base/status.h"

enum {
    NOISE_RECORD = 512,      /* bytes: a sector, so that one write of a record is one write of the disk */
    NOISE_RECORD_BODY = 480, /* the rest is the HMAC-SHA256 of the body, and for later records of what it follows */
    NOISE_MAC = 32
};

typedef enum noise_record_kind {
    NOISE_RECORD_STATE = 1,
    NOISE_RECORD_CHECKPOINT = 2,
    NOISE_RECORD_COUNTER = 3
} noise_record_kind;

/* A file is bound to this. The three keys depend on the master key alone, so that messages can name any other field. */
typedef struct noise_binding {
    char digest[65]; /* of the mechanism; empty: it has none */
    char label[65];  /* SHA-256 of the label; empty: none */
    int64_t steps, dim, offset, count;
    double clip;
    dpmf_precision precision;
    double grid;                  /* of the exact release; 0: it is not exact */
    double sigma;                 /* 1 where the mechanism has none */
    int salted;                   /* 1: a state file must have this salt; 0: it has its own, and a new one draws it */
    uint8_t salt[DPMF_SALT_SIZE]; /* zeros: there is no state file */
    uint8_t mac_key[32], sum_key[32], commitment[32];
} noise_binding;

/* Fills in the three keys. Wipe the binding after use. */
DPMF_MUST_CHECK dpmf_status noise_binding_keys(const uint8_t master[32], noise_binding *binding);

/* out = HMAC-SHA256(key, bytes). */
DPMF_MUST_CHECK dpmf_status noise_mac(const uint8_t key[32], const void *bytes, size_t size, uint8_t out[NOISE_MAC]);

/* Refuses `size` bytes whose last NOISE_MAC are not the HMAC of those before; `what` and `path` are for the message. */
DPMF_MUST_CHECK dpmf_status noise_mac_check(const uint8_t key[32], const char *what, const char *path,
                                            const uint8_t *bytes, int64_t size);

DPMF_MUST_CHECK dpmf_status noise_record_make(const noise_binding *binding, noise_record_kind kind,
                                              uint8_t record[NOISE_RECORD]);

/* Refuses a head that is not one, is damaged, or names another stream; the message names the field. */
DPMF_MUST_CHECK dpmf_status noise_record_check(const noise_binding *binding, noise_record_kind kind, const char *path,
                                               const uint8_t record[NOISE_RECORD]);

/* Reads the shard that a record names; it is not authenticated until it is checked with that shard in the binding. */
void noise_record_shard(const uint8_t record[NOISE_RECORD], int64_t *offset, int64_t *count);

/* The salt of a record; of a file that was checked, or to be put into the binding that it is checked with. */
const uint8_t *noise_record_salt(const uint8_t record[NOISE_RECORD]);

/* Two salts are two runs with unrelated noise: refuses a checkpoint of another one. `name`: "" or " 'its path'". */
DPMF_MUST_CHECK dpmf_status noise_salt_check(const uint8_t held[DPMF_SALT_SIZE], const uint8_t now[DPMF_SALT_SIZE],
                                             const char *name);

/* The key of the seeds: HKDF of the master key with everything in the binding but the shard (docs/noise.md). Wipe it. */
DPMF_MUST_CHECK dpmf_status noise_binding_seed_key(const uint8_t master[32], const noise_binding *binding,
                                                   uint8_t subkey[32]);

/* The state file durably records the number of reserved rows. Its lock excludes a second program. */

typedef struct noise_state noise_state;

/*
 * Opens and locks the file, or remembers that there is none; writes nothing. `replay`: one of the records may be damaged.
 * The binding's salt becomes that of the file.
 */
DPMF_MUST_CHECK dpmf_status noise_state_open(const char *path, noise_binding *binding, int replay, noise_state **out);

/* Makes the file with no row reserved, if there is none: it then has its salt on the disk. */
DPMF_MUST_CHECK dpmf_status noise_state_begin(noise_state *state);

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

/* Reserves the next row, with its mark or NULL, on the disk when it returns; those before have arrived. Allocates only once. */
DPMF_MUST_CHECK dpmf_status noise_state_reserve(noise_state *state, const uint8_t *mark);

/* Closes and wipes. `arrived`: records that all reserved rows have; 0 in a child after fork(): the file is the parent's. */
void noise_state_close(noise_state *state, int arrived);

#endif
