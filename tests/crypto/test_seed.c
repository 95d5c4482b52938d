/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Seed noise: AES against FIPS 197 and libcrypto, the same bits from every kernel set and for any piece, known answers
 * from another implementation (tests/data/seed_vectors.csv, made by tests/python/reference_seed.py), the accuracy of
 * the transform in long double, small words, and the distribution.
 *
 * Keys are fixed, so that the statistical tests do not fail now and then; had the key been drawn at random, each would
 * fail with the probability that it states.
 */
#include "crypto/crypto.h"
#include "kernels/seed/seed.h"
#include "support/check.h"
#include "support/failing_allocator.h"

#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {"ref", "avx2", "vaes", "avx512"};
enum { SETS = 4 };

static void fill_key(uint8_t key[32], unsigned salt) {
    for (unsigned i = 0; i < 32; i++)
        key[i] = (uint8_t)(i * (salt + 1) + 31 * salt);
}

static void *get_memory(size_t count, size_t size) {
    void *memory = calloc(count, size);
    assert_non_null(memory);
    return memory;
}

/* ---- AES ---- */

static void test_every_set_gives_the_answer_of_fips_197(void **state) {
    (void)state;
    static const uint8_t want[16] = {0x8e, 0xa2, 0xb7, 0xca, 0x51, 0x67, 0x45, 0xbf,
                                     0xea, 0xfc, 0x49, 0x90, 0x4b, 0x49, 0x60, 0x89}; /* appendix C.3 */
    uint8_t key[32], got[16];
    int sets = 0;
    for (unsigned i = 0; i < 32; i++)
        key[i] = (uint8_t)i;
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        kernels_seed_key expanded;
        if (set == NULL) continue;
        check_ok(set->open(key, &expanded));
        assert_true(set->keystream(&expanded, 0xffeeddccbbaa9988u, 0x7766554433221100u, 1, got));
        assert_memory_equal(got, want, 16);
        set->close(&expanded);
        sets++;
    }
    assert_true(sets >= 1);
    assert_non_null(kernels_seed_find("ref"));
    assert_null(kernels_seed_find("mmx"));
}

static void libcrypto_blocks(const uint8_t key[32], uint64_t high, uint64_t index, size_t blocks, uint8_t *out) {
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length;
    for (size_t i = 0; i < blocks; i++) {
        const uint64_t counter[2] = {index + i, high};
        memcpy(out + 16 * i, counter, 16);
    }
    assert_int_equal(EVP_EncryptInit_ex(context, EVP_aes_256_ecb(), NULL, key, NULL), 1);
    assert_int_equal(EVP_CIPHER_CTX_set_padding(context, 0), 1);
    assert_int_equal(EVP_EncryptUpdate(context, out, &length, out, (int)(16 * blocks)), 1);
    EVP_CIPHER_CTX_free(context);
}

/* 2^20 blocks and more, from places that no batch starts at, across the carry into the upper half of the index. */
static void test_every_set_gives_the_blocks_of_libcrypto(void **state) {
    (void)state;
    enum { BLOCKS = 1 << 19 };
    static const uint64_t places[][2] = {{0, 0}, {0x123456789abcdefu, 0xffffff03u}, {7, 0xfffffffffffffff0u}};
    static const size_t counts[] = {BLOCKS, BLOCKS + 5, 16};
    uint8_t *want = get_memory(BLOCKS + 5, 16), *got = get_memory(BLOCKS + 5, 16), key[32];
    for (unsigned p = 0; p < 3; p++) {
        fill_key(key, p + 3);
        libcrypto_blocks(key, places[p][0], places[p][1], counts[p], want);
        for (int s = 0; s < SETS; s++) {
            const kernels_seed_set *set = kernels_seed_find(names[s]);
            kernels_seed_key expanded;
            if (set == NULL) continue;
            memset(got, 0, 16 * counts[p]);
            check_ok(set->open(key, &expanded));
            assert_true(set->keystream(&expanded, places[p][0], places[p][1], counts[p], got));
            set->close(&expanded);
            assert_memory_equal(got, want, 16 * counts[p]);
        }
    }
    free(want);
    free(got);
}

/* ---- the same bits ---- */

/* 1.0e7 numbers of each precision from each set, against the portable one. */
static void test_instruction_sets_give_the_same_numbers(void **state) {
    (void)state;
    enum { GROUPS = 2500, TIMES = 63 };
    const size_t count = (size_t)GROUPS * KERNELS_SEED_GROUP;
    float *f[2] = {get_memory(count, sizeof(float)), get_memory(count, sizeof(float))};
    double *d[2] = {get_memory(count, sizeof(double)), get_memory(count, sizeof(double))};
    const kernels_seed_set *ref = kernels_seed_find("ref");
    kernels_seed_key a, b;
    uint8_t key[32];
    fill_key(key, 1);
    check_ok(ref->open(key, &a));
    for (uint64_t t = 0; t < TIMES; t++) {
        /* in the middle of every other range bits 40 and up of the index change, and kernels/seed/second.inc its table */
        const uint64_t row = t * t * 1000003, group = t % 2 == 0 ? t << 50 | t : (t << 36) - GROUPS / 2;
        assert_true(ref->floats(&a, row, group, GROUPS, f[0]));
        assert_true(ref->doubles(&a, row, group >> 1, GROUPS, d[0]));
        for (int s = 1; s < SETS; s++) {
            const kernels_seed_set *set = kernels_seed_find(names[s]);
            if (set == NULL) continue;
            check_ok(set->open(key, &b));
            assert_true(set->floats(&b, row, group, GROUPS, f[1]));
            assert_true(set->doubles(&b, row, group >> 1, GROUPS, d[1]));
            set->close(&b);
            assert_memory_equal(f[0], f[1], count * sizeof(float));
            assert_memory_equal(d[0], d[1], count * sizeof(double));
        }
    }
    ref->close(&a);
    for (int i = 0; i < 2; i++) {
        free(f[i]);
        free(d[i]);
    }
}

static void check_pieces(const crypto_seed *seed, dpmf_precision precision, uint64_t from, uint64_t *random) {
    enum { COUNT = 20000 };
    const size_t size = precision == DPMF_FLOAT32 ? 4 : 8;
    char *whole = get_memory(COUNT, size), *pieces = get_memory(COUNT + 1, size);
    crypto_seed_fill(seed, precision, 99, from, COUNT, whole);
    for (size_t done = 0; done < COUNT;) {
        size_t some = (size_t)((check_random(random) + 1) * 150);
        if (some > COUNT - done) some = COUNT - done;
        char *to = pieces + done * size; /* at odd addresses too */
        to[some * size] = 77;
        crypto_seed_fill(seed, precision, 99, from + done, some, to);
        assert_int_equal(to[some * size], 77);
        done += some;
    }
    assert_memory_equal(whole, pieces, COUNT * size);
    free(whole);
    free(pieces);
}

static void test_a_row_of_seeds_does_not_depend_on_its_pieces(void **state) {
    (void)state;
    uint64_t random = 5;
    uint8_t key[32];
    crypto_seed *seed = NULL;
    fill_key(key, 2);
    check_ok(crypto_seed_open(key, &seed));
    for (int i = 0; i < 20; i++) {
        check_pieces(seed, DPMF_FLOAT32, (uint64_t)i * 1000001, &random);
        check_pieces(seed, DPMF_FLOAT64, (uint64_t)i << 45 | 13, &random);
    }
    crypto_seed_close(seed);
    crypto_seed_close(NULL);
}

/* Other rows, keys, precisions and domains have nothing in common. */
static void test_rows_keys_and_precisions_have_nothing_in_common(void **state) {
    (void)state;
    enum { COUNT = 4096 };
    static float x[4][COUNT];
    static double y[COUNT];
    uint8_t key[32];
    crypto_seed *seed = NULL, *other = NULL;
    fill_key(key, 4);
    check_ok(crypto_seed_open(key, &seed));
    key[31] ^= 1;
    check_ok(crypto_seed_open(key, &other));
    crypto_seed_fill(seed, DPMF_FLOAT32, 0, 0, COUNT, x[0]);
    crypto_seed_fill(seed, DPMF_FLOAT32, 1, 0, COUNT, x[1]);
    crypto_seed_fill(other, DPMF_FLOAT32, 0, 0, COUNT, x[2]);
    crypto_seed_fill(seed, DPMF_FLOAT32, 0, COUNT, COUNT, x[3]);
    crypto_seed_fill(seed, DPMF_FLOAT64, 0, 0, COUNT, y);
    for (int a = 0; a < 4; a++) {
        double sum = 0;
        for (int i = 0; i < COUNT; i++)
            sum += x[a][i] * y[i];
        assert_true(fabs(sum) < 5.5 * sqrt(COUNT)); /* false alarm 4e-8 each */
        for (int b = 0; b < a; b++) {
            sum = 0;
            for (int i = 0; i < COUNT; i++)
                sum += (double)x[a][i] * x[b][i];
            assert_true(fabs(sum) < 5.5 * sqrt(COUNT));
        }
    }
    crypto_seed_close(seed);
    crypto_seed_close(other);
}

typedef struct thread_job {
    const kernels_seed_set *set;
    const kernels_seed_key *key;
    float *out;
} thread_job;

static void *run_thread(void *context) {
    const thread_job *job = context;
    for (int i = 0; i < 20; i++)
        if (!job->set->floats(job->key, 3, 11, 64, job->out)) job->out[0] = NAN;
    return NULL;
}

/* One key, more threads than libcrypto contexts. */
static void test_many_threads_may_use_one_key(void **state) {
    (void)state;
    enum { THREADS = 12, COUNT = 64 * 64 };
    static float out[THREADS][COUNT];
    uint8_t key[32];
    fill_key(key, 5);
    for (int s = 0; s < SETS; s++) {
        const kernels_seed_set *set = kernels_seed_find(names[s]);
        kernels_seed_key expanded;
        pthread_t thread[THREADS];
        thread_job job[THREADS];
        if (set == NULL) continue;
        check_ok(set->open(key, &expanded));
        for (int t = 0; t < THREADS; t++) {
            job[t] = (thread_job){set, &expanded, out[t]};
            assert_int_equal(pthread_create(&thread[t], NULL, run_thread, &job[t]), 0);
        }
        for (int t = 0; t < THREADS; t++)
            assert_int_equal(pthread_join(thread[t], NULL), 0);
        for (int t = 1; t < THREADS; t++)
            assert_memory_equal(out[t], out[0], sizeof out[0]);
        set->close(&expanded);
    }
}

/* ---- known answers ---- */

static void test_known_seeds_stay_the_same(void **state) {
    (void)state;
    const char *source = getenv("DPMF_SOURCE");
    char path[4096], key_text[65], kind[8], now[65] = "";
    unsigned long long row, coordinate, want;
    crypto_seed *seed = NULL;
    int lines = 0;
    snprintf(path, sizeof path, "%s%stests/data/seed_vectors.csv", source == NULL ? "" : source, source ? "/" : "");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (fscanf(file, "%64[0-9a-f];%7[a-z0-9];%llu;%llu;%llx ", key_text, kind, &row, &coordinate, &want) == 5) {
        if (strcmp(key_text, now) != 0) {
            uint8_t key[32];
            for (int i = 0; i < 32; i++) {
                unsigned byte;
                assert_int_equal(sscanf(key_text + 2 * i, "%2x", &byte), 1);
                key[i] = (uint8_t)byte;
            }
            crypto_seed_close(seed);
            check_ok(crypto_seed_open(key, &seed));
            strcpy(now, key_text);
        }
        if (strcmp(kind, "float32") == 0) {
            uint32_t got;
            float x;
            crypto_seed_fill(seed, DPMF_FLOAT32, row, coordinate, 1, &x);
            memcpy(&got, &x, sizeof got);
            assert_int_equal(got, want);
        } else {
            uint64_t got;
            double x;
            assert_string_equal(kind, "float64");
            crypto_seed_fill(seed, DPMF_FLOAT64, row, coordinate, 1, &x);
            memcpy(&got, &x, sizeof got);
            assert_true(got == want);
        }
        lines++;
    }
    assert_true(feof(file));
    assert_int_equal(lines, 954);
    fclose(file);
    crypto_seed_close(seed);
}

/* ---- memory ---- */

static void test_any_allocation_of_a_seed_may_fail(void **state) {
    (void)state;
    uint8_t key[32] = {0};
    crypto_seed *seed = NULL;
    kernels_seed_key expanded;
    const kernels_seed_set *ref = kernels_seed_find("ref");
    FAIL_EACH(crypto_seed_open(key, &seed));
    crypto_seed_close(seed);
    FAIL_EACH(ref->open(key, &expanded));
    ref->close(&expanded);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_set_gives_the_answer_of_fips_197),
        cmocka_unit_test(test_every_set_gives_the_blocks_of_libcrypto),
        cmocka_unit_test(test_instruction_sets_give_the_same_numbers),
        cmocka_unit_test(test_a_row_of_seeds_does_not_depend_on_its_pieces),
        cmocka_unit_test(test_known_seeds_stay_the_same),
        cmocka_unit_test(test_many_threads_may_use_one_key),
        cmocka_unit_test(test_rows_keys_and_precisions_have_nothing_in_common),
        cmocka_unit_test(test_any_allocation_of_a_seed_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
