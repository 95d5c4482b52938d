/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-256 in counter mode, and normal numbers made of it: the kernels, compiled once per instruction set from
 * body.inc with identical results. docs/noise.md, "The seed stream", is the specification.
 *
 * The counter of a block is 16 bytes, little endian: bits 0-63 the index of the block, bits 64-123 the row, bits
 * 124-127 the domain.
 */
#ifndef DPMF_KERNELS_SEED_H
#define DPMF_KERNELS_SEED_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef enum kernels_seed_domain {
    KERNELS_SEED_FLOATS = 0,
    KERNELS_SEED_DOUBLES,
    KERNELS_SEED_FLOATS_MORE,  /* a block for each radius word of floats, used where the word is small */
    KERNELS_SEED_DOUBLES_MORE, /* the same for doubles */
    KERNELS_SEED_WHOLES,       /* exactly rounded numbers */
    KERNELS_SEED_WHOLES_MORE   /* KERNELS_SEED_WHOLE_BLOCKS blocks for each of their words */
} kernels_seed_domain;

enum {
    KERNELS_SEED_ROW_BITS = 60,
    KERNELS_SEED_GROUP = 64,         /* numbers that the kernels make at a time */
    KERNELS_SEED_FLOAT_BLOCKS = 16,  /* blocks of a group of floats */
    KERNELS_SEED_DOUBLE_BLOCKS = 32, /* and of doubles */
    KERNELS_SEED_FLOAT_SMALL = 20,   /* a radius word of fewer bits is extended */
    KERNELS_SEED_DOUBLE_SMALL = 49
};

/* Bits 64-127 of the counter. */
static inline uint64_t kernels_seed_high(kernels_seed_domain domain, uint64_t row) {
    return (uint64_t)domain << KERNELS_SEED_ROW_BITS | row;
}

/* The expanded key, for the kernels only; `contexts` is used by the portable set alone, `second` by the others. */
typedef struct kernels_seed_key {
    _Alignas(64) uint8_t round[15][16];
    _Alignas(64) uint8_t second[256][16]; /* kernels/seed/second.inc */
    struct kernels_seed_contexts *contexts;
} kernels_seed_key;

/* Bytes in place of AES blocks, for tests: all blocks of one group, and one more block for each of their words. */
typedef struct kernels_seed_words {
    const uint8_t *words; /* 256 bytes for floats, 512 for doubles */
    const uint8_t *more;  /* 1024 bytes: 64 blocks; for exactly rounded numbers 16 times that */
} kernels_seed_words;

/* Functions that return int return 1, or 0 if libcrypto refused to encrypt (the portable set alone can). */
typedef struct kernels_seed_set {
    const char *name; /* of the instruction set (kernels/isa.h) */
    dpmf_status (*open)(const uint8_t key[32], kernels_seed_key *out);
    void (*close)(kernels_seed_key *key); /* frees what open made; the caller wipes *key */
    /* out = the encrypted counters (high, index), (high, index + 1), ...: 16 bytes per block */
    int (*keystream)(const kernels_seed_key *key, uint64_t high, uint64_t index, size_t blocks, uint8_t *out);
    /* groups of 64 numbers, from the group of that index on */
    int (*floats)(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, float *out);
    int (*doubles)(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double *out);
    /* one group from given words */
    void (*floats_of)(const kernels_seed_words *words, float out[KERNELS_SEED_GROUP]);
    void (*doubles_of)(const kernels_seed_words *words, double out[KERNELS_SEED_GROUP]);
    /* the same for scale x normal numbers, exactly rounded to whole ones: docs/exactness.md; scales as in whole.h */
    int (*wholes)(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double scale, double *out);
    /* `digits` 0: as wholes() does it; else all by kernels/seed/whole.c, starting with this many words */
    void (*wholes_of)(const kernels_seed_words *words, double scale, int digits, double out[KERNELS_SEED_GROUP]);
} kernels_seed_set;

/* The pair of normal numbers of a small radius word (below 2^20; 2^49 for doubles): scalar, the same for all sets. */
void kernels_seed_small_float(uint32_t word, uint32_t angle, const uint8_t more[16], float *x, float *y);
void kernels_seed_small_double(uint64_t word, uint64_t angle, const uint8_t more[16], double *x, double *y);

/* Is this scale accepted for exactly rounded numbers? */
int kernels_seed_is_scale(double scale);

/* The set for this machine; one by name. AVX-512 without VAES gets "avx2", VAES without AVX-512 "vaes", no AES "ref". */
const kernels_seed_set *kernels_seed_get(void);
const kernels_seed_set *kernels_seed_find(const char *name);

#endif
