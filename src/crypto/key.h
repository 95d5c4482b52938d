/* SPDX-License-Identifier: Apache-2.0 */
/* HKDF-SHA256 (RFC 5869) for any sizes; dpmf_i_crypto_key_derive in noise_seed.h is the use that the streams make of it. */
#ifndef DPMF_NOISE_KEY_H
#define DPMF_NOISE_KEY_H

#include "base/status.h"

/* size <= 8160. On failure out may hold a part of the key. */
DPMF_MUST_CHECK dpmf_status dpmf_i_crypto_hkdf(const uint8_t *salt_bytes, size_t salt_size, const uint8_t *secret,
                                               size_t secret_size, const uint8_t *info, size_t info_size, uint8_t *out,
                                               size_t size);

#endif
