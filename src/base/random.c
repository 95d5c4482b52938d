/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers for simulation, never for privacy noise.
 *
 * Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011) is a bijection of 128-bit counters under a 64-bit key, ten rounds
 * of two multiplications. The key is the seed, the counter is (index, stream). It has no state, so threads share the
 * work without bookkeeping, and 16 blocks at once fill the machine's vectors.
 *
 * Normals by Box and Muller 1958: (x, y) = sqrt(-2 ln U) (cos T, sin T), two at a time. U has 52 bits, so that the radius ends
 * at sqrt(2 * 53 ln 2) = 8.57; the tail beyond, 1e-16 of the pairs, does not matter for a simulation of 1e9 samples. The angle
 * is one of 52 bits in [-pi/4, pi/4) and two more bits, which exchange x and y and turn both signs: the four arcs make the
 * circle, and sine and cosine need no reduction. Logarithm, sine and cosine are polynomials without branches, good to about
 * 1e-15, so that compilers vectorise the loops; correct rounding would change no visible digit of a simulation.
 */
#include "base/random.h"

#include "base/random_body.inc"

#include <errno.h>
#include <sys/random.h>

static void pairs_of_uniforms(const uint64_t low[PAIRS], const uint64_t high[PAIRS], double out[2 * PAIRS]) {
    for (int i = 0; i < PAIRS; i++) {
        out[2 * i] = unit(low[i]);
        out[2 * i + 1] = unit(high[i]);
    }
}

void base_random_uniforms(uint64_t seed, uint64_t stream, int64_t count, double *out) {
    fill_numbers(seed, stream, count, pairs_of_uniforms, out);
}

void base_random_normals(uint64_t seed, uint64_t stream, int64_t count, double *out) {
    fill_numbers(seed, stream, count, pairs_of_normals, out);
}

dpmf_status base_random_seed(uint64_t *seed) {
    ssize_t got = 0;
    do {
        got = getrandom(seed, sizeof *seed, 0); /* 8 bytes come whole */
    } while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof *seed) return DPMF_OK;
    return base_fail(DPMF_ERROR_IO, "the system gave no random bytes: getrandom returned error %d", errno);
}
