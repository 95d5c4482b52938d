/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeatable random numbers for simulation. NEVER for privacy noise: the state is a public counter, the seed is 64
 * bits, and the normals are rounded and end at 8.57 standard deviations.
 *
 * A number is a function of (seed, stream, index) alone: any piece can be made by any thread in any order.
 */
#ifndef DPMF_BASE_RANDOM_H
#define DPMF_BASE_RANDOM_H

#include <stdint.h>

/* Numbers 0 .. count-1 of a stream, uniform in (0, 1): odd multiples of 2^-53. */
void dpmf_i_base_random_uniforms(uint64_t seed, uint64_t stream, int64_t count, double *out);

/* Numbers 0 .. count-1 of a stream, standard normal. A stream gives either uniforms or normals, not both. */
void dpmf_i_base_random_normals(uint64_t seed, uint64_t stream, int64_t count, double *out);

#endif
