/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for simulation, never for privacy noise.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011) is a bijection of 128-bit counters under a 64-bit key, ten rounds
 * of two multiplications. The key is the seed, the counter is (index, stream). Being stateless it splits over threads
 * without a word of bookkeeping, and 16 blocks at once fill the machine's vectors.
 *
 * Normals by Box and Muller 1958: (x, y) = sqrt(-2 ln U) (cos T, sin T), two at a time. U has 52 bits, so that the
 * radius ends at sqrt(2 * 53 ln 2) = 8.57; what lies beyond, 1e-16 of the pairs, is nothing to a Monte Carlo of 1e9
 * samples. The angle is one of 52 bits in [-pi/4, pi/4) and two more bits, which exchange x and y and turn both signs:
 * the four arcs make the circle, and sine and cosine need no reduction. Logarithm, sine and cosine are polynomials
 * without branches, good to about 1e-15, so that compilers vectorise the loops; correctly rounded ones would change
 * nothing that a simulation can see.
 */
#include "base/random.h"

#include <math.h>
#include <string.h>

enum { LANES = 16, PAIRS = LANES }; /* blocks of the generator at once; one block makes one pair of numbers */

static const uint32_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u}; /* golden ratio, sqrt 3 - 1 */

/* Blocks first .. first+LANES-1 of a stream, two words of 64 bits each. */
static void many_blocks(uint64_t seed, uint64_t stream, uint64_t first, uint64_t low[LANES], uint64_t high[LANES]) {
    for (int i = 0; i < LANES; i++) {
        const uint64_t index = first + (uint64_t)i;
        uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
        uint32_t c0 = (uint32_t)index, c1 = (uint32_t)(index >> 32), c2 = (uint32_t)stream,
                 c3 = (uint32_t)(stream >> 32);
        for (int round = 0; round < 10; round++) {
            const uint64_t p = (uint64_t)multiplier[0] * c0, q = (uint64_t)multiplier[1] * c2;
            c0 = (uint32_t)(q >> 32) ^ c1 ^ k0, c1 = (uint32_t)q;
            c2 = (uint32_t)(p >> 32) ^ c3 ^ k1, c3 = (uint32_t)p;
            k0 += weyl[0], k1 += weyl[1];
        }
        low[i] = c0 | (uint64_t)c1 << 32;
        high[i] = c2 | (uint64_t)c3 << 32;
    }
}

static inline double from_bits(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint64_t to_bits(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The upper 52 bits as an odd multiple of 2^-53 in (0, 1): 1.f - (1 - 2^-53), which is exact. */
static inline double unit(uint64_t bits) {
    return from_bits(bits >> 12 | 0x3FF0000000000000u) - (1 - 0x1p-53);
}

/* ln u for a normal u in (0, 1): u = 2^e m with m around 1, ln m = 2 artanh((m-1)/(m+1)), |(m-1)/(m+1)| < 0.172. */
static inline double log_unit(double u) {
    static const double log_two = 0.69314718055994530942;
    const uint64_t bits = to_bits(u);
    const uint64_t exponent = (bits - 0x3FE6A09E667F3BCDu) & 0xFFF0000000000000u; /* of u / sqrt(1/2) */
    const double m = from_bits(bits - exponent);
    /* the exponent as a double without an integer conversion, which old vectors lack: 12 bits on top of 2^52 */
    const double e = from_bits(((exponent >> 52) ^ 0x800u) | 0x4330000000000000u) - (0x1p52 + 0x800);
    const double f = (m - 1) / (m + 1), g = f * f;
    double sum = 1.0 / 21;
    sum = sum * g + 1.0 / 19, sum = sum * g + 1.0 / 17, sum = sum * g + 1.0 / 15;
    sum = sum * g + 1.0 / 13, sum = sum * g + 1.0 / 11, sum = sum * g + 1.0 / 9;
    sum = sum * g + 1.0 / 7, sum = sum * g + 1.0 / 5, sum = sum * g + 1.0 / 3;
    return e * log_two + 2 * (f + f * g * sum);
}

/* sin x and cos x for |x| <= pi/4, by Taylor's series: the first terms left out are below 1e-16. */
static inline double sine(double x) {
    const double g = x * x;
    double sum = -1.0 / 1307674368000;
    sum = sum * g + 1.0 / 6227020800, sum = sum * g - 1.0 / 39916800, sum = sum * g + 1.0 / 362880;
    sum = sum * g - 1.0 / 5040, sum = sum * g + 1.0 / 120, sum = sum * g - 1.0 / 6;
    return x + x * g * sum;
}

static inline double cosine(double x) {
    const double g = x * x;
    double sum = 1.0 / 20922789888000;
    sum = sum * g - 1.0 / 87178291200, sum = sum * g + 1.0 / 479001600, sum = sum * g - 1.0 / 3628800;
    sum = sum * g + 1.0 / 40320, sum = sum * g - 1.0 / 720, sum = sum * g + 1.0 / 24;
    return 1 + g * (sum * g - 0.5);
}

static void pairs_of_normals(const uint64_t low[PAIRS], const uint64_t high[PAIRS], double out[2 * PAIRS]) {
    static const double half_pi = 1.57079632679489661923;
    double radius[PAIRS], x[PAIRS], y[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        radius[i] = -2 * log_unit(unit(low[i]));
    }
    for (int i = 0; i < PAIRS; i++) {
        radius[i] = sqrt(radius[i]); /* alone: its errno keeps loops from being vectors */
    }
    for (int i = 0; i < PAIRS; i++) {
        const double angle = half_pi * (unit(high[i]) - 0.5);
        const uint64_t c = to_bits(radius[i] * cosine(angle)), s = to_bits(radius[i] * sine(angle));
        const uint64_t exchange = (c ^ s) & (0 - (high[i] & 1)), sign = (high[i] & 2) << 62; /* bits that unit left */
        x[i] = from_bits(c ^ exchange ^ sign);
        y[i] = from_bits(s ^ exchange ^ sign);
    }
    for (int i = 0; i < PAIRS; i++) {
        out[2 * i] = x[i];
        out[2 * i + 1] = y[i];
    }
}

static void pairs_of_uniforms(const uint64_t low[PAIRS], const uint64_t high[PAIRS], double out[2 * PAIRS]) {
    for (int i = 0; i < PAIRS; i++) {
        out[2 * i] = unit(low[i]);
        out[2 * i + 1] = unit(high[i]);
    }
}

typedef void (*transform)(const uint64_t low[PAIRS], const uint64_t high[PAIRS], double out[2 * PAIRS]);

static void fill_numbers(uint64_t seed, uint64_t stream, int64_t count, transform make, double *out) {
    uint64_t low[PAIRS], high[PAIRS];
    double rest[2 * PAIRS];
    int64_t done = 0;
    for (; done + 2 * PAIRS <= count; done += 2 * PAIRS) {
        many_blocks(seed, stream, (uint64_t)done / 2, low, high);
        make(low, high, out + done);
    }
    if (done == count) return;
    many_blocks(seed, stream, (uint64_t)done / 2, low, high);
    make(low, high, rest);
    memcpy(out + done, rest, (size_t)(count - done) * sizeof *out);
}

void dpmf_i_base_random_uniforms(uint64_t seed, uint64_t stream, int64_t count, double *out) {
    fill_numbers(seed, stream, count, pairs_of_uniforms, out);
}

void dpmf_i_base_random_normals(uint64_t seed, uint64_t stream, int64_t count, double *out) {
    fill_numbers(seed, stream, count, pairs_of_normals, out);
}
