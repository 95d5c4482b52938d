/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exactly rounded normal numbers, where double arithmetic cannot decide. The pair of a radius u and an angle v, both
 * real numbers whose binary digits are random bits without end, is that of kernels/seed/body.inc:
 *
 *     r = sqrt(-2 ln u),   B = +-r cos(pi t/4),   A = r sin(pi t/4),   t in [-1, 1) from v;      wanted: floor(scale A + 1/2)
 *
 * Everything is computed with n words of fraction, n = 2, then 4, then 8, from the first digits of u and v. Each line below
 * has an error that is proven (in ulps of 2^(-64 n), docs/exactness.md), and so has the result: if the rounding
 * boundary is farther away than that, the answer is certain for any further digits; else more digits are read. Two
 * words leave one number in 2^50 undecided, eight one in 2^400, which is rounded as it stands.
 *
 *     u = m 2^-n', 1/sqrt 2 <= m < sqrt 2      -2 ln u = n' 2 ln 2 - 4 atanh(s), s = (m - 1)/(m + 1), |s| < 0.1716
 *     1/(m + 1) and 1/sqrt(L)                  Newton's iteration, from double
 *     atanh, sin, cos                          Taylor's series, by Horner's rule from the last term
 *
 * We wrote our own arithmetic because it takes 150 lines with errors that can be checked by hand, once for all
 * precisions. A library of many digits (MPFR) would be a dependency of every user for what happens in one number of a
 * thousand, and allocates.
 */
#include "kernels/seed/whole.h"

#include "kernels/seed/seed.h"

#include <math.h>
#include <string.h>

/* The digits that are read: of u up to 512 zeros and then the words of the fraction; of v those words and one more. */
enum { MOST = KERNELS_SEED_WHOLE_MOST, ZERO_WORDS = 8, READ_MAX = ZERO_WORDS + MOST + 2 };

__extension__ typedef unsigned __int128 fixed_wide;

/* Lowest word first; shorter numbers take the upper words. */
static const uint64_t QUARTER_PI[MOST + 1] = {0x4FE1356D6D51C245, 0x302B0A6DF25F1437, 0xEF9519B3CD3A431B,
                                              0x514A08798E3404DD, 0x020BBEA63B139B22, 0x29024E088A67CC74,
                                              0xC4C6628B80DC1CD1, 0xC90FDAA22168C234, 0x0000000000000000};
static const uint64_t TWO_LN_2[MOST + 1] = {0x4EAE765222D3704A, 0xDA5D5C6B82704288, 0xAB2AA5F695F43621,
                                            0xCF70EC40DBD75930, 0x141A2EB71755F457, 0x81E6864CE5316C5B,
                                            0x93C7673007E5ED5E, 0x62E42FEFA39EF357, 0x0000000000000001};
static const uint64_t HALF_ROOT_2 = 0xB504F333F9DE6484; /* 2^64 / sqrt 2 */

/* Two words decide nearly always and are unrolled into one body; unrolling the rare others would take the compiler seconds. */
#define FIXED static inline __attribute__((always_inline))

#define WORDS 2
#define NAME(thing) thing##_2
#include "kernels/seed/fixed.inc"

#include "kernels/seed/digits.inc"
#undef WORDS
#undef NAME
#undef FIXED
#define FIXED static inline

#define WORDS 4
#define NAME(thing) thing##_4
#include "kernels/seed/fixed.inc"

#include "kernels/seed/digits.inc"
#undef WORDS
#undef NAME

#define WORDS 8
#define NAME(thing) thing##_8
#include "kernels/seed/fixed.inc"

#include "kernels/seed/digits.inc"
#undef WORDS
#undef NAME

/* The first `count` words of u or v. */
static int read_words(const kernels_seed_bits *bits, int of_angle, int count, uint64_t *out) {
    uint64_t block[2];
    out[0] = of_angle ? bits->angle : bits->radius;
    for (int i = 1; i < count; i += 2) {
        if (!bits->more(bits->context, of_angle, (i - 1) / 2, block)) return 0;
        out[i] = block[0];
        if (i + 1 < count) out[i + 1] = block[1];
    }
    return 1;
}

int kernels_seed_whole_pair(const kernels_seed_bits *bits, double scale, int words, double *x, double *y) {
    uint64_t u[READ_MAX], v[READ_MAX];
    int certain = 0, good = 1;
    for (int n = words; n <= MOST && !certain && good; n *= 2) {
        /* Reads all leading zeros of u: n + 1 words if the first one is not 0. */
        good = read_words(bits, 0, bits->radius != 0 ? n + 1 : READ_MAX, u) && read_words(bits, 1, n + 1, v);
        if (!good) break;
        certain = (n == 2 ? decide_2 : n == 4 ? decide_4 : decide_8)(u, v, scale, x, y);
    }
    volatile uint64_t *wiped = u;
    for (int i = 0; i < READ_MAX; i++)
        wiped[i] = 0;
    wiped = v;
    for (int i = 0; i < READ_MAX; i++)
        wiped[i] = 0;
    return good;
}

int kernels_seed_is_scale(double scale) {
    return scale >= KERNELS_SEED_SCALE_MIN && scale <= KERNELS_SEED_SCALE_MAX;
}
