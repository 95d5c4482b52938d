/* SPDX-License-Identifier: Apache-2.0 */
/* Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011), one block after the other. */
#include "oracle/oracle.h"

#include <string.h>

void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    static const uint32_t multiplier[2] = {0xD2511F53u, 0xCD9E8D57u};
    static const uint32_t weyl[2] = {0x9E3779B9u, 0xBB67AE85u}; /* golden ratio, sqrt 3 - 1 */
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    uint32_t k[2] = {key[0], key[1]};
    for (int round = 0; round < 10; round++) {
        const uint64_t p = (uint64_t)multiplier[0] * c[0], q = (uint64_t)multiplier[1] * c[2];
        const uint32_t next[4] = {(uint32_t)(q >> 32) ^ c[1] ^ k[0], (uint32_t)q, (uint32_t)(p >> 32) ^ c[3] ^ k[1],
                                  (uint32_t)p};
        memcpy(c, next, sizeof c);
        k[0] += weyl[0], k[1] += weyl[1];
    }
    memcpy(out, c, sizeof c);
}
