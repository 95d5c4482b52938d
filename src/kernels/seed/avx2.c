/* SPDX-License-Identifier: Apache-2.0 */
/* Seed noise with AVX2 and AES-NI: one block in a register, eight in flight, two to a vector of words. */
#include "kernels/seed/aes.inc"
#include "kernels/seed/vector256.inc"

typedef struct round_keys {
    const __m128i *round; /* in memory: eight blocks fill half of the registers */
} round_keys;

/* Already encrypted: interleaving the rounds with arithmetic would take more registers than there are. */
typedef struct pending {
    batch done;
} pending;

ALWAYS round_keys load_keys(const kernels_seed_key *key) {
    return (round_keys){(const void *)key->round};
}

typedef __m128i position;

ALWAYS position position_of(uint64_t high, uint64_t index) {
    return counter(high, index);
}
ALWAYS position position_next(position at) {
    return _mm_add_epi64(at, _mm_set_epi64x(0, 8));
}

/* Eight states through rounds `first` to 14. */
ALWAYS batch encrypt_rounds(const round_keys *k, __m128i *s, const int first) {
    batch out;
#pragma GCC unroll 13
    for (int r = first; r < 14; r++) {
        const __m128i key = k->round[r];
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++)
            s[i] = _mm_aesenc_si128(s[i], key);
    }
    const __m128i last = k->round[14];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        out.m[i] = _mm256_set_m128i(_mm_aesenclast_si128(s[2 * i + 1], last), _mm_aesenclast_si128(s[2 * i], last));
    return out;
}

ALWAYS batch encrypt_batch(const round_keys *k, position at) {
    __m128i s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        s[i] = _mm_xor_si128(_mm_add_epi64(at, _mm_set_epi64x(0, i)), k->round[0]);
    return encrypt_rounds(k, s, 1);
}

ALWAYS pending begin_batch(const round_keys *k, position at) {
    return (pending){encrypt_batch(k, at)};
}

typedef __m128i wide;
ALWAYS wide wide_of(__m128i x) {
    return x;
}

/* From the state after round 2: kernels/seed/second.inc. */
ALWAYS pending begin_second(const round_keys *k, const __m128i *second, wide base) {
    __m128i s[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        s[i] = _mm_xor_si128(second[i], base);
    return (pending){encrypt_rounds(k, s, 3)};
}
/* The same without a table. */
ALWAYS pending begin_third(const round_keys *k, position at) {
    return begin_batch(k, at);
}

ALWAYS void advance(pending *p, int r) {
    (void)p;
    (void)r;
}
ALWAYS batch end_batch(const pending *p) {
    return p->done;
}

#define KERNEL_SET kernels_seed_avx2
#define KERNEL_NAME "avx2"
#define FLOATS "kernels/seed/floats.inc"
#include "kernels/seed/body.inc"
#include "kernels/seed/vector.inc"
