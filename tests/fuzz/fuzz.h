/* SPDX-License-Identifier: Apache-2.0 */
/* The interface of the fuzz targets and the driver. Names with LLVMFuzzer are libFuzzer's interface. */
#ifndef DPMF_TESTS_FUZZ_H
#define DPMF_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The target: reads the bytes; aborts if something that must hold does not. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Optional, in a target: a mutation that knows the format. Returns the new size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* One random mutation in place; libFuzzer's or the driver's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* In every target: the number of inputs that were read without a refusal. */
extern uint64_t fuzz_accepted;

/* Small enough that a hostile size is refused at once, large enough for every file of the corpus. */
#define FUZZ_MEMORY_LIMIT ((uint64_t)256 << 20)

/* Where a broken requirement is reported: targets that redirect the program's stderr keep the real one here. */
__attribute__((weak)) int fuzz_messages = 2;

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            dprintf(fuzz_messages, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);                      \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (0)

/* xorshift64*, Vigna 2016: the same on every machine. `state` is not 0. */
static inline uint64_t fuzz_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* 0 .. bound-1; bound > 0. */
static inline size_t fuzz_below(uint64_t *state, size_t bound) {
    return (size_t)((fuzz_random(state) >> 11) % bound);
}

#endif
