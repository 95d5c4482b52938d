/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeatable random numbers for simulation. NEVER for privacy noise: the state is a public counter, the seed is 64
 * bits, and the normals are rounded and end at 8.57 standard deviations.
 *
 * A number is a function of (seed, stream, index) alone: any piece can be made by any thread in any order.
 */
#ifndef DPMF_BASE_RANDOM_H
#define DPMF_BASE_RANDOM_H

#include "base/status.h"

#include <stdint.h>

/* Numbers 0 .. count-1 of a stream, uniform in (0, 1): odd multiples of 2^-53. */
void base_random_uniforms(uint64_t seed, uint64_t stream, int64_t count, double *out);

/* Numbers 0 .. count-1 of a stream, standard normal. A stream gives either uniforms or normals, not both. */
void base_random_normals(uint64_t seed, uint64_t stream, int64_t count, double *out);

/* The next word of splitmix64 (Steele, Lea and Flood 2014): fixed numbers without structure, where any would do. */
#define BASE_SPLITMIX_STEP UINT64_C(0x9E3779B97F4A7C15) /* 2^64 over the golden ratio */
static inline uint64_t base_splitmix(uint64_t *state) {
    uint64_t x = *state += BASE_SPLITMIX_STEP;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* The same as a number in [-1, 1). */
static inline double base_scatter(uint64_t *state) {
    return (double)(base_splitmix(state) >> 11) * 0x1p-52 - 1;
}

/*
 * A seed from the system that cannot be foreseen, for simulations that check the claims of others. DPMF_ERROR_IO: the system gives none.
 */
DPMF_MUST_CHECK dpmf_status base_random_seed(uint64_t *seed);

#endif
