/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed noise: Z[row, coordinate], standard normal, a pure function of (subkey, row, coordinate). The same bits for any
 * instruction set, thread, shard or block size.
 */
#ifndef DPMF_NOISE_SEED_H
#define DPMF_NOISE_SEED_H

#include "base/status.h"

typedef enum dpmf_i_crypto_precision { DPMF_I_CRYPTO_FLOAT32 = 0, DPMF_I_CRYPTO_FLOAT64 } dpmf_i_crypto_precision;

/* An expanded AES-256 key and the kernels that go with it. Wiped by close. */
typedef struct dpmf_i_crypto_seed dpmf_i_crypto_seed;

DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_seed_open(const uint8_t subkey[32], dpmf_i_crypto_seed **out);
void dpmf_i_crypto_seed_close(dpmf_i_crypto_seed *seed); /* NULL is fine */

/*
 * The same with given kernels. Verification reads W off a stream whose seeds are no noise (verify_seed.c); the public
 * streams never come here.
 */
struct dpmf_i_kernels_seed_set;
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_seed_open_with(const struct dpmf_i_kernels_seed_set *kernels,
                                                         const uint8_t subkey[32], dpmf_i_crypto_seed **out);

/*
 * out[i] = Z[row, first + i] for i < count: floats or doubles as `precision` says (two different streams). Never
 * allocates, never fails; may be called from several threads at once. Fastest when first and count are multiples of 64.
 */
void dpmf_i_crypto_seed_fill(const dpmf_i_crypto_seed *seed, dpmf_i_crypto_precision precision, uint64_t row,
                             uint64_t first, size_t count, void *out);

/* Subkeys: HKDF-SHA256 (RFC 5869) from the master key, with the label and a mechanism's digest as info. */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_key_derive(const uint8_t master[32], const char *label, const char *digest,
                                                     uint8_t subkey[32]);

/* 32 bytes from the system (getrandom). */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_key_random(uint8_t key[32]);

/* Overwrites memory in a way that the compiler keeps. */
void dpmf_i_crypto_wipe(void *memory, size_t bytes);

#endif
