/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and subkeys, seed noise, files for their owner alone, wiping: all memory and files with secret bytes come from here. */
#ifndef DPMF_CRYPTO_H
#define DPMF_CRYPTO_H

#include "base/status.h"

/* ---- keys (crypto/key.c) ---- */

/* Refuses a key of one byte repeated, which is no secret: memory that was never filled, or a file of zeros. */
DPMF_MUST_CHECK dpmf_status crypto_key_check(const uint8_t key[32]);

/* Subkeys: HKDF-SHA256 (RFC 5869) from the master key, which is checked, with the label and a mechanism's digest as info. */
DPMF_MUST_CHECK dpmf_status crypto_key_derive(const uint8_t master[32], const char *label, const char *digest,
                                              uint8_t subkey[32]);
/* The same from any 32 bytes: for keys of tests, which are no secret. */
DPMF_MUST_CHECK dpmf_status crypto_key_expand(const uint8_t master[32], const char *label, const char *digest,
                                              uint8_t subkey[32]);

/* 32 bytes from the system (getrandom). */
DPMF_MUST_CHECK dpmf_status crypto_key_random(uint8_t key[32]);

/* Overwrites memory in a way that the compiler keeps; and frees it (NULL is fine). */
void crypto_wipe(void *memory, size_t bytes);
void crypto_wipe_free(void *memory, int64_t bytes);

/* HKDF-SHA256 for any sizes, size <= 8160. On failure out may hold a part of the key. */
DPMF_MUST_CHECK dpmf_status crypto_hkdf(const uint8_t *salt_bytes, size_t salt_size, const uint8_t *secret,
                                        size_t secret_size, const uint8_t *info, size_t info_size, uint8_t *out,
                                        size_t size);

/* ---- seed noise (crypto/seed.c): Z[row, coordinate], standard normal, the same bits for any set, thread, shard, block ---- */

/* An expanded AES-256 key and the kernels that go with it. Wiped by close. */
typedef struct crypto_seed crypto_seed;

DPMF_MUST_CHECK dpmf_status crypto_seed_open(const uint8_t subkey[32], crypto_seed **out);
void crypto_seed_close(crypto_seed *seed); /* NULL is fine */

/* The same with given kernels, for verification, whose seeds are impulses (verify/seed.c); never for public streams. */
struct kernels_seed_set;
DPMF_MUST_CHECK dpmf_status crypto_seed_open_with(const struct kernels_seed_set *kernels, const uint8_t subkey[32],
                                                  crypto_seed **out);

/* out[i] = Z[row, first + i]; one stream per precision. Never allocates or fails; thread-safe. Fastest on multiples of 64. */
void crypto_seed_fill(const crypto_seed *seed, dpmf_precision precision, uint64_t row, uint64_t first, size_t count,
                      void *out);

/* The exact roundings of scale x N[row, first + i], in double, N another stream; 2^-10 <= scale <= 2^45 (docs/exactness.md). */
void crypto_seed_fill_wholes(const crypto_seed *seed, double scale, uint64_t row, uint64_t first, size_t count,
                             double *out);

/* ---- files that only their owner may read: keys, states, checkpoints (crypto/file.c) ---- */

/* Opens a regular file that only this user may read; `write`: for both. If it does not exist, *file is -1, and no failure. */
DPMF_MUST_CHECK dpmf_status crypto_secret_open(const char *path, const char *what, int write, int *file, int64_t *size);

/* The whole file, which must exist; free with crypto_wipe_free. */
DPMF_MUST_CHECK dpmf_status crypto_secret_load(const char *path, const char *what, uint8_t **bytes, int64_t *size);

/* `size` bytes at `place`, all of them. `what` and `path` are for the message. */
DPMF_MUST_CHECK dpmf_status crypto_secret_read(int file, const char *path, const char *what, int64_t place, void *bytes,
                                               size_t size);
DPMF_MUST_CHECK dpmf_status crypto_secret_put(int file, const char *path, const char *what, int64_t place,
                                              const void *bytes, size_t size);
DPMF_MUST_CHECK dpmf_status crypto_secret_write(int file, const char *path, const char *what, int64_t place,
                                                const void *bytes, size_t size); /* and synced */

/* A new file, 0600, synced before it is named. `replace` 0: fails if one exists (*existed). `file`: NULL, or it, locked. */
DPMF_MUST_CHECK dpmf_status crypto_secret_create(const char *path, const char *what, const void *bytes, size_t size,
                                                 int replace, int *existed, int *file);

#endif
