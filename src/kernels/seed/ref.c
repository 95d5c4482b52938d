/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed noise on any machine: AES by libcrypto, numbers one pair at a time; for all sets, the pairs of small radius words.
 *
 * Two threads must not use one cipher context of libcrypto at once: there are a few, each with a lock, and a thread
 * takes the first that is free.
 */
#include "base/memory.h"
#include "kernels/seed/seed.h"

#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>

#define ALWAYS static inline
#define LESS(a, b) ((uint64_t)0 - (uint64_t)((a) < (b)))
#define MORE_THAN_4(a) ((uint64_t)0 - (uint64_t)((a) > 4))

typedef float vf;
typedef double vd;
typedef uint32_t vu;
typedef uint64_t vl;

typedef struct pending {
    int unused;
} pending;

ALWAYS void advance(pending *p, int r) {
    (void)p;
    (void)r;
}
/* Of signed numbers. Conversions of values above the largest signed one wrap around in gcc and clang. */
ALWAYS vf to_float(vu x) {
    return (float)(int32_t)x;
}
ALWAYS vd to_double(vl x) {
    return (double)(int64_t)x;
}
ALWAYS vu float_bits(vf x) {
    vu bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
ALWAYS vf float_of_bits(vu bits) {
    vf x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
ALWAYS vl double_bits(vd x) {
    vl bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
ALWAYS vd double_of_bits(vl bits) {
    vd x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
ALWAYS vf root_f(vf x) {
    return sqrtf(x);
} /* correctly rounded, by IEEE 754 */
ALWAYS vd root_d(vd x) {
    return sqrt(x);
}
ALWAYS vu shift_u(vu x, vu n) {
    return x << n;
}
ALWAYS vl shift_l(vl x, vl n) {
    return x << n;
}
ALWAYS vu leading_zeros(vu x) {
    return (vu)__builtin_clz(x);
} /* x != 0 */
ALWAYS vf times_2_ln_2(vu n) {
    return to_float(n) * 0x1.62e43p+0f;
}
/* Masks, since a branch on random bits is slow and its timing would reveal them. */
ALWAYS void pick_f(vu a, vf sine, vf cosine, vf *x, vf *y) {
    const vu s = float_bits(sine), c = float_bits(cosine), change = (s ^ c) & (0u - (a >> 30 & 1));
    *x = float_of_bits(c ^ change);
    *y = float_of_bits(s ^ change);
}
ALWAYS void pick_d(vl a, vd sine, vd cosine, vd *x, vd *y) {
    const vl s = double_bits(sine), c = double_bits(cosine), change = (s ^ c) & ((uint64_t)0 - (a >> 62 & 1));
    *x = double_of_bits(c ^ change);
    *y = double_of_bits(s ^ change);
}

#include "kernels/seed/body.inc"

/* u = (80 bits + 1/2) / 2^80: the word and 24 bits of two more; n from the exponent: 2^n u in [1/2, 1) as in make_floats. */
void kernels_seed_small_float(uint32_t word, uint32_t angle, const uint8_t more[16], float *x, float *y) {
    uint32_t e[2];
    pending none = {0};
    memcpy(e, more, sizeof e);
    const float low = to_float(e[1] >> 8) + 0.5f;
    const float u = (to_float(word) * 0x1p24f + to_float(e[0] >> 8)) * 0x1p24f + low;
    const uint32_t bits = float_bits(u), n = (127u + 79u) - (bits >> 23);
    const float f = float_of_bits(bits + (n << 23) - (80u << 23)) - 1.0f;
    floats_of_polar(f, 2.0f, times_2_ln_2(n), angle, &none, 0, x, y);
}

/* u = (128 bits + 1/2) / 2^128; n as in make_doubles. */
void kernels_seed_small_double(uint64_t word, uint64_t angle, const uint8_t more[16], double *x, double *y) {
    uint64_t e;
    pending none = {0};
    memcpy(&e, more, sizeof e);
    const double low = to_double(e >> 32) * 0x1p32 + (to_double(e & 0xFFFFFFFFu) + 0.5);
    const double u = to_double(word) * 0x1p64 + low;
    const uint64_t bits = double_bits(u), n = (0x47F6A09E667F3BCDu - bits) >> 52; /* from 2^128 sqrt 2 */
    const double f = double_of_bits(bits + (n << 52) - ((uint64_t)128 << 52)) - 1.0;
    doubles_of_polar(f, 2.0, to_double(n), angle, &none, 0, x, y);
}

enum { CONTEXTS = 8 };

struct kernels_seed_contexts {
    EVP_CIPHER_CTX *context[CONTEXTS];
    pthread_mutex_t lock[CONTEXTS];
};

static void close_key(kernels_seed_key *key) {
    struct kernels_seed_contexts *all = key->contexts;
    if (all == NULL) return;
    for (int i = 0; i < CONTEXTS; i++) {
        EVP_CIPHER_CTX_free(all->context[i]); /* wipes its key */
        pthread_mutex_destroy(&all->lock[i]);
    }
    base_free(all);
    key->contexts = NULL;
}

static dpmf_status open_key(const uint8_t key[32], kernels_seed_key *out) {
    struct kernels_seed_contexts *all = NULL;
    int good = 1;
    TRY(base_alloc(1, sizeof *all, "the contexts of libcrypto", (void **)&all));
    memset(out, 0, sizeof *out);
    for (int i = 0; i < CONTEXTS; i++)
        pthread_mutex_init(&all->lock[i], NULL);
    for (int i = 0; i < CONTEXTS && good; i++) {
        all->context[i] = EVP_CIPHER_CTX_new();
        good = all->context[i] != NULL &&
               EVP_EncryptInit_ex(all->context[i], EVP_aes_256_ecb(), NULL, key, NULL) == 1 &&
               EVP_CIPHER_CTX_set_padding(all->context[i], 0) == 1;
    }
    out->contexts = all;
    if (good) return DPMF_OK;
    close_key(out);
    return base_fail(DPMF_ERROR_UNSUPPORTED, "libcrypto has no AES-256 in ECB mode");
}

static int take_context(struct kernels_seed_contexts *all) {
    for (int i = 0; i < CONTEXTS; i++)
        if (pthread_mutex_trylock(&all->lock[i]) == 0) return i;
    pthread_mutex_lock(&all->lock[0]);
    return 0;
}

enum { AT_ONCE = 256 }; /* blocks: 4 KB */

static int encrypt(EVP_CIPHER_CTX *context, uint64_t high, uint64_t index, size_t blocks, uint8_t *out) {
    uint64_t counters[2 * AT_ONCE];
    int length = 0;
    for (size_t i = 0; i < blocks; i++) {
        counters[2 * i] = index + i;
        counters[2 * i + 1] = high;
    }
    return EVP_EncryptUpdate(context, out, &length, (const uint8_t *)counters, (int)(16 * blocks)) == 1 &&
           (size_t)length == 16 * blocks;
}

static int keystream(const kernels_seed_key *key, uint64_t high, uint64_t index, size_t blocks, uint8_t *out) {
    const int mine = take_context(key->contexts);
    int good = 1;
    while (blocks > 0 && good) {
        const size_t some = blocks < AT_ONCE ? blocks : AT_ONCE;
        good = encrypt(key->contexts->context[mine], high, index, some, out);
        index += some;
        out += 16 * some;
        blocks -= some;
    }
    pthread_mutex_unlock(&key->contexts->lock[mine]);
    return good;
}

typedef struct source {
    const kernels_seed_key *key;
    uint64_t row;
    const kernels_seed_words *words;
    int *good;
} source;

static int more_bits(const source *from, kernels_seed_domain domain, uint64_t index, uint8_t out[16]) {
    if (from->words != NULL) {
        memcpy(out, from->words->more + 16 * index, 16);
        return 1;
    }
    if (keystream(from->key, kernels_seed_high(domain, from->row), index, 1, out)) return 1;
    *from->good = 0;
    return 0;
}

#include "kernels/seed/units.inc"

static void floats_of_unit(const source *from, uint64_t index, const uint8_t *bytes, float *out) {
    uint32_t words[4 * UNIT];
    pending none = {0};
    memcpy(words, bytes, sizeof words);
    for (size_t i = 0; i < 2 * UNIT; i++)
        if (words[i] >> KERNELS_SEED_FLOAT_SMALL != 0)
            make_floats(words[i], words[i + 2 * UNIT], &none, 0, &out[i], &out[i + 2 * UNIT]);
    small_floats(from, index, bytes, out);
}

static void doubles_of_unit(const source *from, uint64_t index, const uint8_t *bytes, double *out) {
    uint64_t words[2 * UNIT];
    pending none = {0};
    memcpy(words, bytes, sizeof words);
    for (size_t i = 0; i < UNIT; i++)
        if (words[i] >> KERNELS_SEED_DOUBLE_SMALL != 0)
            make_doubles(words[i], words[i + UNIT], &none, 0, &out[i], &out[i + UNIT]);
    small_doubles(from, index, bytes, out);
}

static int wholes_of_unit(const source *from, uint64_t index, const uint8_t *bytes, double scale, int digits,
                          double *out) {
    uint64_t words[2 * UNIT];
    pending none = {0};
    memcpy(words, bytes, sizeof words);
    for (size_t i = 0; i < UNIT && digits == 0; i++) {
        out[i] = NAN; /* of small words, whose shift is not defined here */
        if (words[i] >> KERNELS_SEED_DOUBLE_SMALL != 0)
            make_wholes(words[i], words[i + UNIT], scale, &none, 0, &out[i], &out[i + UNIT]);
    }
    return open_wholes(from, index, bytes, scale, digits, out);
}

static int floats(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, float *out) {
    const uint64_t high = kernels_seed_high(KERNELS_SEED_FLOATS, row), first = group * KERNELS_SEED_FLOAT_BLOCKS;
    const size_t blocks = groups * KERNELS_SEED_FLOAT_BLOCKS;
    uint8_t bytes[16 * AT_ONCE];
    int good = 1;
    const source from = {key, row, NULL, &good};
    for (size_t done = 0; done < blocks && good;) {
        const size_t some = blocks - done < AT_ONCE ? blocks - done : AT_ONCE;
        good = keystream(key, high, first + done, some, bytes);
        for (size_t i = 0; i < some && good; i += UNIT)
            floats_of_unit(&from, first + done + i, bytes + 16 * i, out + 4 * (done + i));
        done += some;
    }
    return good;
}

static int doubles(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double *out) {
    const uint64_t high = kernels_seed_high(KERNELS_SEED_DOUBLES, row), first = group * KERNELS_SEED_DOUBLE_BLOCKS;
    const size_t blocks = groups * KERNELS_SEED_DOUBLE_BLOCKS;
    uint8_t bytes[16 * AT_ONCE];
    int good = 1;
    const source from = {key, row, NULL, &good};
    for (size_t done = 0; done < blocks && good;) {
        const size_t some = blocks - done < AT_ONCE ? blocks - done : AT_ONCE;
        good = keystream(key, high, first + done, some, bytes);
        for (size_t i = 0; i < some && good; i += UNIT)
            doubles_of_unit(&from, first + done + i, bytes + 16 * i, out + 2 * (done + i));
        done += some;
    }
    return good;
}

static int wholes(const kernels_seed_key *key, uint64_t row, uint64_t group, size_t groups, double scale, double *out) {
    const uint64_t high = kernels_seed_high(KERNELS_SEED_WHOLES, row), first = group * KERNELS_SEED_DOUBLE_BLOCKS;
    const size_t blocks = groups * KERNELS_SEED_DOUBLE_BLOCKS;
    uint8_t bytes[16 * AT_ONCE];
    int good = 1;
    const source from = {key, row, NULL, &good};
    for (size_t done = 0; done < blocks && good;) {
        const size_t some = blocks - done < AT_ONCE ? blocks - done : AT_ONCE;
        good = keystream(key, high, first + done, some, bytes);
        for (size_t i = 0; i < some && good; i += UNIT)
            good = wholes_of_unit(&from, first + done + i, bytes + 16 * i, scale, 0, out + 2 * (done + i));
        done += some;
    }
    return good;
}

static void floats_of(const kernels_seed_words *words, float *out) {
    const source from = {NULL, 0, words, NULL};
    for (size_t block = 0; block < KERNELS_SEED_FLOAT_BLOCKS; block += UNIT)
        floats_of_unit(&from, block, words->words + 16 * block, out + 4 * block);
}

static void doubles_of(const kernels_seed_words *words, double *out) {
    const source from = {NULL, 0, words, NULL};
    for (size_t block = 0; block < KERNELS_SEED_DOUBLE_BLOCKS; block += UNIT)
        doubles_of_unit(&from, block, words->words + 16 * block, out + 2 * block);
}

static void wholes_of(const kernels_seed_words *words, double scale, int digits, double *out) {
    const source from = {NULL, 0, words, NULL};
    for (size_t block = 0; block < KERNELS_SEED_DOUBLE_BLOCKS; block += UNIT)
        wholes_of_unit(&from, block, words->words + 16 * block, scale, digits, out + 2 * block);
}

extern const kernels_seed_set kernels_seed_ref;
const kernels_seed_set kernels_seed_ref = {"ref",   open_key,  close_key,  keystream, floats,
                                           doubles, floats_of, doubles_of, wholes,    wholes_of};
