/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words of a zeros and b ones, the leaves of the smooth binary mechanism (families/tree/smooth.h), as binary numbers whose first
 * bit is the highest. Leaf t is the t-th of them: below a node with i zeros and j ones left there are binomial(i + j, i), of which
 * binomial(i - 1 + j, j) begin with 0. The next word is the next number with as many ones, in a few operations.
 */
#include "families/tree/smooth.h"

int64_t smooth_leaves(int i, int j) {
    int64_t count = 1; /* binomial(i + j, k), k = 1, 2, ... */
    for (int k = 1; k <= (i < j ? i : j); k++) {
        if (count > INT64_MAX / (i + j - k + 1)) return INT64_MAX;
        count = count * (i + j - k + 1) / k;
    }
    return count;
}

/* The places below `bits`. */
static uint64_t low_bits(int bits) {
    return bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
}

uint64_t smooth_word(const smooth_strategy *s, int64_t t) {
    uint64_t word = 0;
    int i = s->zeros, j = s->ones;
    while (i > 0 && j > 0) {
        int64_t left = smooth_leaves(i - 1, j);
        int bit = t >= left;
        word = word << 1 | (uint64_t)bit;
        if (bit) t -= left;
        if (bit)
            j--;
        else
            i--;
    }
    return word << (i + j) | low_bits(j);
}

uint64_t smooth_next(uint64_t word) {
    uint64_t lowest = word & -word, carried = word + lowest;
    return ((carried ^ word) >> 2) / lowest | carried;
}

uint64_t smooth_shared(uint64_t a, uint64_t b) {
    return a == b ? UINT64_MAX : ~low_bits(64 - __builtin_clzll(a ^ b));
}

uint64_t smooth_rows_of(const smooth_strategy *s, uint64_t word) {
    uint64_t inside = low_bits(s->zeros + s->ones), after_ones = ~low_bits(__builtin_ctzll(word));
    return ~word & inside & after_ones & ~smooth_shared(word, s->end);
}
