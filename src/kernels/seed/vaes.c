/* SPDX-License-Identifier: Apache-2.0 */
/* Seed noise with AVX2 and VAES (AMD's Zen 3, Intel's client processors): two blocks in a register, eight in flight. */
#include "kernels/seed/aes.inc"
#include "kernels/seed/vector256.inc"

/* A multiple of 8: the last three bits of the counters do not change, and are part of the first round key. */
typedef __m256i position;

ALWAYS position position_of(uint64_t high, uint64_t index) {
    return _mm256_broadcastsi128_si256(counter(high, index));
}
ALWAYS position position_next(position at) {
    return _mm256_add_epi64(at, _mm256_set_epi64x(0, 8, 0, 8));
}

typedef __m256i wide;
#define wide_of _mm256_broadcastsi128_si256
#define wide_xor _mm256_xor_si256
#define wide_round _mm256_aesenc_epi128
#define wide_last_round _mm256_aesenclast_epi128
#include "kernels/seed/four.inc"

ALWAYS round_keys load_keys(const kernels_seed_key *key) {
    round_keys out;
    for (int r = 0; r < 15; r++)
        out.round[r] = _mm256_broadcastsi128_si256(_mm_load_si128((const void *)key->round[r]));
    for (int i = 0; i < 4; i++)
        out.first[i] = _mm256_xor_si256(out.round[0], _mm256_set_epi64x(0, 2 * i + 1, 0, 2 * i));
    return out;
}

#define KERNEL_SET kernels_seed_vaes
#define KERNEL_NAME "vaes"
#define FLOATS "kernels/seed/floats.inc"
#include "kernels/seed/body.inc"
#include "kernels/seed/vector.inc"
