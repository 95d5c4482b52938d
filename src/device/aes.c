/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AES-256 (FIPS 197) for the kernel: the table of a round and the expanded key. The S-box is computed: the inverse in
 * GF(2^8) by powers of the generator 3, then the affine map of the standard.
 *
 *     T[s] = (2 S[s], S[s], S[s], 3 S[s]),   lowest byte first
 *
 * Words are columns, their lowest byte in row 0.
 */
#include "shared.h"

#include <string.h>

static uint32_t doubled(uint32_t x) {
    return (x << 1 ^ (0x11B & (0u - (x >> 7)))) & 255;
}

static uint32_t affine(uint32_t x) {
    uint32_t sum = x;
    for (int k = 1; k < 5; k++)
        sum ^= (x << k | x >> (8 - k)) & 255;
    return sum ^ 0x63;
}

static void make_box(uint8_t box[256]) {
    uint32_t power[255], x = 1;
    for (int i = 0; i < 255; i++) {
        power[i] = x;
        x ^= doubled(x); /* times 3 */
    }
    box[0] = 0x63; /* 0 has no inverse and counts as its own inverse */
    for (int i = 0; i < 255; i++)
        box[power[i]] = (uint8_t)affine(power[(255 - i) % 255]);
}

void device_aes_table(uint32_t table[DEVICE_TABLE_WORDS]) {
    uint8_t box[256];
    make_box(box);
    for (int i = 0; i < 256; i++) {
        const uint32_t s = box[i], two = doubled(s);
        table[i] = two | s << 8 | s << 16 | (two ^ s) << 24;
    }
}

static uint32_t substitute(const uint8_t box[256], uint32_t w) {
    return (uint32_t)box[w & 255] | (uint32_t)box[w >> 8 & 255] << 8 | (uint32_t)box[w >> 16 & 255] << 16 |
           (uint32_t)box[w >> 24] << 24;
}

void device_aes_expand(const uint8_t key[32], uint32_t words[DEVICE_KEY_WORDS]) {
    uint8_t box[256];
    uint32_t constant = 1;
    make_box(box);
    for (int i = 0; i < 8; i++)
        words[i] = (uint32_t)key[4 * i] | (uint32_t)key[4 * i + 1] << 8 | (uint32_t)key[4 * i + 2] << 16 |
                   (uint32_t)key[4 * i + 3] << 24;
    for (int i = 8; i < DEVICE_KEY_WORDS; i++) {
        uint32_t w = words[i - 1];
        if (i % 8 == 0) {
            w = substitute(box, w >> 8 | w << 24) ^ constant;
            constant = doubled(constant);
        } else if (i % 8 == 4) {
            w = substitute(box, w);
        }
        words[i] = words[i - 8] ^ w;
    }
}
