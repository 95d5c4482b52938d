/* SPDX-License-Identifier: Apache-2.0 */
/* Seed noise with AVX-512 and VAES: four blocks in a register, sixteen in flight. */
#include "kernels/seed/aes.inc"

typedef float vf __attribute__((vector_size(64)));
typedef double vd __attribute__((vector_size(64)));
typedef uint32_t vu __attribute__((vector_size(64)));
typedef uint64_t vl __attribute__((vector_size(64)));
typedef int64_t vs __attribute__((vector_size(64)));

enum { BATCH_UNITS = 2 };

typedef union batch {
    __m512i m[4];
    vu u[4];
    vl l[4];
    uint8_t bytes[256];
} batch;

/* A multiple of 16: the last four bits of the counters do not change, and are part of the first round key. */
typedef __m512i position;

ALWAYS position position_of(uint64_t high, uint64_t index) {
    return _mm512_broadcast_i32x4(counter(high, index));
}
ALWAYS position position_next(position at) {
    return _mm512_add_epi64(at, _mm512_set_epi64(0, 16, 0, 16, 0, 16, 0, 16));
}

typedef __m512i wide;
#define wide_xor _mm512_xor_si512
#define wide_round _mm512_aesenc_epi128
#define wide_last_round _mm512_aesenclast_epi128
#include "kernels/seed/four.inc"

ALWAYS round_keys load_keys(const kernels_seed_key *key) {
    round_keys out;
#pragma GCC unroll 15
    for (int r = 0; r < 15; r++)
        out.round[r] = _mm512_broadcast_i32x4(_mm_load_si128((const void *)key->round[r]));
    out.first[0] = _mm512_xor_si512(out.round[0], _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0));
    out.first[1] = _mm512_xor_si512(out.round[0], _mm512_set_epi64(0, 7, 0, 6, 0, 5, 0, 4));
    out.first[2] = _mm512_xor_si512(out.round[0], _mm512_set_epi64(0, 11, 0, 10, 0, 9, 0, 8));
    out.first[3] = _mm512_xor_si512(out.round[0], _mm512_set_epi64(0, 15, 0, 14, 0, 13, 0, 12));
    return out;
}

ALWAYS vf to_float(vu x) {
    return (vf)_mm512_cvtepi32_ps((__m512i)x);
} /* of a signed number */
ALWAYS vd to_double(vl x) {
    return (vd)_mm512_cvtepi64_pd((__m512i)x);
}
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
ALWAYS vf root_f(vf x) {
    return (vf)_mm512_sqrt_ps((__m512)x);
}
ALWAYS vd root_d(vd x) {
    return (vd)_mm512_sqrt_pd((__m512d)x);
}
ALWAYS vu shift_u(vu x, vu n) {
    return (vu)_mm512_sllv_epi32((__m512i)x, (__m512i)n);
}
ALWAYS vl shift_l(vl x, vl n) {
    return (vl)_mm512_sllv_epi64((__m512i)x, (__m512i)n);
}
ALWAYS vu leading_zeros(vu x) {
    return (vu)_mm512_lzcnt_epi32((__m512i)x);
}

/* n 2 ln 2 for n < 12, rounded as the product is. */
ALWAYS vf times_2_ln_2(vu n) {
    const float c = 0x1.62e43p+0f;
    const vf table = {0, c, 2 * c, 3 * c, 4 * c, 5 * c, 6 * c, 7 * c, 8 * c, 9 * c, 10 * c, 11 * c, 0, 0, 0, 0};
    return (vf)_mm512_permutexvar_ps((__m512i)n, (__m512)table);
}

ALWAYS int any_small_u(vu a, vu b) {
    const __m512i least = _mm512_min_epu32((__m512i)a, (__m512i)b);
    return _mm512_cmplt_epu32_mask(least, _mm512_set1_epi32(1 << KERNELS_SEED_FLOAT_SMALL)) != 0;
}
ALWAYS int any_small_l(vl a, vl b) {
    const __m512i least = _mm512_min_epu64((__m512i)a, (__m512i)b);
    return _mm512_cmplt_epu64_mask(least, _mm512_set1_epi64((int64_t)1 << KERNELS_SEED_DOUBLE_SMALL)) != 0;
}

ALWAYS int any_nan(vd a, vd b) {
    return _mm512_cmp_pd_mask((__m512d)a, (__m512d)b, _CMP_UNORD_Q) != 0;
}

/* The cosine goes to x, or to y where bit 30 (62) is set. */
ALWAYS void pick_f(vu a, vf sine, vf cosine, vf *x, vf *y) {
    const __mmask16 swap = _mm512_test_epi32_mask((__m512i)a, _mm512_set1_epi32(1 << 30));
    *x = (vf)_mm512_mask_blend_ps(swap, (__m512)cosine, (__m512)sine);
    *y = (vf)_mm512_mask_blend_ps(swap, (__m512)sine, (__m512)cosine);
}
ALWAYS void pick_d(vl a, vd sine, vd cosine, vd *x, vd *y) {
    const __mmask8 swap = _mm512_test_epi64_mask((__m512i)a, _mm512_set1_epi64((int64_t)1 << 62));
    *x = (vd)_mm512_mask_blend_pd(swap, (__m512d)cosine, (__m512d)sine);
    *y = (vd)_mm512_mask_blend_pd(swap, (__m512d)sine, (__m512d)cosine);
}

#define KERNEL_SET kernels_seed_avx512
#define KERNEL_NAME "avx512"
#define FLOATS "kernels/seed/floats512.inc"
#include "kernels/seed/body.inc"
#include "kernels/seed/vector.inc"
