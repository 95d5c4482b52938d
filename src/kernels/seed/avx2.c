/* SPDX-License-Identifier: Apache-2.0 */
/* Seed noise with AVX2 and AES-NI: one block in a register, eight in flight, two to a vector of words. */
#include "kernels/seed/aes.inc"

typedef float vf __attribute__((vector_size(32)));
typedef double vd __attribute__((vector_size(32)));
typedef uint32_t vu __attribute__((vector_size(32)));
typedef uint64_t vl __attribute__((vector_size(32)));
typedef int64_t vs __attribute__((vector_size(32)));

enum { BATCH_UNITS = 1 };

typedef union batch {
    __m256i m[4];
    vu u[4];
    vl l[4];
    uint8_t bytes[128];
} batch;

typedef struct round_keys {
    const __m128i *round; /* in memory: eight blocks fill half of the registers */
} round_keys;

/* Already encrypted: to interleave the rounds with arithmetic takes more registers than there are. */
typedef struct pending {
    batch done;
} pending;

ALWAYS round_keys load_keys(const dpmf_i_kernels_seed_key *key) {
    return (round_keys){(const void *)key->round};
}

typedef __m128i position;

ALWAYS position position_of(uint64_t high, uint64_t index) {
    return counter(high, index);
}
ALWAYS position position_next(position at) {
    return _mm_add_epi64(at, _mm_set_epi64x(0, 8));
}

ALWAYS batch encrypt_batch(const round_keys *k, position at) {
    __m128i s[8];
    batch out;
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        s[i] = _mm_xor_si128(_mm_add_epi64(at, _mm_set_epi64x(0, i)), k->round[0]);
#pragma GCC unroll 13
    for (int r = 1; r < 14; r++) {
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

ALWAYS pending begin_batch(const round_keys *k, position at) {
    return (pending){encrypt_batch(k, at)};
}
ALWAYS void advance(pending *p, int r) {
    (void)p;
    (void)r;
}
ALWAYS batch end_batch(const pending *p) {
    return p->done;
}

ALWAYS vf to_float(vu x) {
    return (vf)_mm256_cvtepi32_ps((__m256i)x);
} /* of a signed number */
ALWAYS vu float_bits(vf x) {
    return (vu)x;
}
ALWAYS vf float_of_bits(vu x) {
    return (vf)x;
}
ALWAYS vl double_bits(vd x) {
    return (vl)x;
}
ALWAYS vd double_of_bits(vl x) {
    return (vd)x;
}

/*
 * Signed 64-bit integers, of which AVX2 has no conversion: the upper half, moved to be unsigned, as the last bits of
 * 2^84, the lower half as those of 2^52; the difference with 2^84 + 2^63 + 2^52 is exact and the sum rounds once.
 */
ALWAYS vd to_double(vl x) {
    const vl high = (x >> 32 ^ 0x80000000u) | 0x4530000000000000u, low = (x & 0xFFFFFFFFu) | 0x4330000000000000u;
    return ((vd)high - (0x1p84 + 0x1p63 + 0x1p52)) + (vd)low;
}
ALWAYS vf root_f(vf x) {
    return (vf)_mm256_sqrt_ps((__m256)x);
}
ALWAYS vd root_d(vd x) {
    return (vd)_mm256_sqrt_pd((__m256d)x);
}
ALWAYS vu shift_u(vu x, vu n) {
    return (vu)_mm256_sllv_epi32((__m256i)x, (__m256i)n);
}
ALWAYS vl shift_l(vl x, vl n) {
    return (vl)_mm256_sllv_epi64((__m256i)x, (__m256i)n);
}

/* From the exponent of x/2, for x >= 2; with the second bit cleared, rounding does not reach the next power of two. */
ALWAYS vu leading_zeros(vu x) {
    const vu half = x >> 1;
    return (0x4EFFFFFFu - float_bits(to_float(half & ~(half >> 1)))) >> 23; /* one bit less than 2^31 */
}
ALWAYS vf times_2_ln_2(vu n) {
    return to_float(n) * 0x1.62e43p+0f;
}

ALWAYS int any_small_u(vu a, vu b) {
    const vu least = (vu)_mm256_min_epu32((__m256i)a, (__m256i)b) >> DPMF_I_KERNELS_SEED_FLOAT_SMALL;
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32((__m256i)least, _mm256_setzero_si256())) != 0;
}
ALWAYS int any_small_l(vl a, vl b) {
    const __m256i none = _mm256_setzero_si256();
    const __m256i x = _mm256_cmpeq_epi64((__m256i)(a >> DPMF_I_KERNELS_SEED_DOUBLE_SMALL), none);
    const __m256i y = _mm256_cmpeq_epi64((__m256i)(b >> DPMF_I_KERNELS_SEED_DOUBLE_SMALL), none);
    return _mm256_movemask_epi8(_mm256_or_si256(x, y)) != 0;
}

ALWAYS int any_nan(vd a, vd b) {
    return _mm256_movemask_pd(_mm256_cmp_pd((__m256d)a, (__m256d)b, _CMP_UNORD_Q)) != 0;
}

/* The cosine goes to x, or to y where bit 30 (62) is set; blendv looks at the top bit. */
ALWAYS void pick_f(vu a, vf sine, vf cosine, vf *x, vf *y) {
    const __m256 swap = (__m256)(a << 1);
    *x = (vf)_mm256_blendv_ps((__m256)cosine, (__m256)sine, swap);
    *y = (vf)_mm256_blendv_ps((__m256)sine, (__m256)cosine, swap);
}
ALWAYS void pick_d(vl a, vd sine, vd cosine, vd *x, vd *y) {
    const __m256d swap = (__m256d)(a << 1);
    *x = (vd)_mm256_blendv_pd((__m256d)cosine, (__m256d)sine, swap);
    *y = (vd)_mm256_blendv_pd((__m256d)sine, (__m256d)cosine, swap);
}

#define KERNEL_SET dpmf_i_kernels_seed_avx2
#define KERNEL_NAME "avx2"
#include "kernels/seed/body.inc"
#include "kernels/seed/vector.inc"
