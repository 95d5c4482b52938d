/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bits of samplers: the same batches as another implementation makes (tests/data/sampler_vectors.csv, from
 * tests/python/reference_sampler.py) with every set of kernels; words, probabilities and whole numbers.
 */
#include "crypto/crypto.h"
#include "sampler/sampler.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { UNITS = 5001, STEPS = 40 };

static uint8_t key[DPMF_KEY_SIZE];

static dpmf_sampler *make(const char *text, int64_t units, int64_t steps, const char *label) {
    dpmf_sampler *s = NULL;
    check_ok(dpmf_sampler_create(text, units, steps, key, label, &s));
    return s;
}

/* ---- known answers ---- */

static size_t read_units(const char *text, int64_t *out) {
    size_t count = 0;
    int used = 0;
    for (; sscanf(text, "%lld%n", (long long *)&out[count], &used) == 1; text += used)
        count++;
    return count;
}

static void check_line(dpmf_sampler *s, char *line) {
    int64_t offered[64], want[64], batch[64] = {0}, count = -1;
    char *offer = line, *units = strchr(line, ';');
    assert_non_null(units);
    *units++ = '\0';
    const size_t size = read_units(units, want), available = read_units(offer, offered);
    if (strcmp(offer, "all") == 0)
        check_ok(dpmf_sampler_next(s, batch, &count));
    else
        check_ok(dpmf_sampler_offer(s, (int64_t)available, offered, batch, &count));
    assert_int_equal(count, size);
    assert_memory_equal(batch, want, size * sizeof *want);
}

static void test_known_batches_stay_the_same(void **state) {
    (void)state;
    const char *source = getenv("DPMF_SOURCE");
    char path[4096], line[512], key_text[65], text[64], label[64];
    dpmf_sampler *s = NULL;
    int lines = 0;
    snprintf(path, sizeof path, "%s%stests/data/sampler_vectors.csv", source == NULL ? "" : source, source ? "/" : "");
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (; fgets(line, sizeof line, file) != NULL; lines++) {
        long long units = 0, step = 0;
        int used = 0;
        line[strcspn(line, "\n")] = '\0';
        label[0] = '\0';
        assert_int_equal(sscanf(line, "%64[0-9a-f];%63[^;];%lld;%n", key_text, text, &units, &used), 3);
        char *rest = line + used;
        sscanf(rest, "%63[^;]", label);
        rest = strchr(rest, ';') + 1;
        assert_int_equal(sscanf(rest, "%lld;%n", &step, &used), 1);
        if (step == 0) {
            uint8_t this_key[32];
            for (int i = 0; i < 32; i++) {
                unsigned byte;
                assert_int_equal(sscanf(key_text + 2 * i, "%2x", &byte), 1);
                this_key[i] = (uint8_t)byte;
            }
            dpmf_sampler_free(s);
            check_ok(dpmf_sampler_create(text, units, 100, this_key, label, &s));
        }
        assert_int_equal(dpmf_sampler_get(s).step, step);
        check_line(s, rest + used);
    }
    assert_int_equal(lines, 308);
    fclose(file);
    dpmf_sampler_free(s);
}

/* The vectors again in a process of its own for each set of kernels (the choice is made once in a process). */
static void test_known_batches_stay_the_same_for_every_kernel_set(void **state) {
    (void)state;
    static const char *const names[] = {"ref", "avx2", "vaes", "avx512"};
    for (int i = 0; i < 4; i++) {
        int how = -1;
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            setenv("DPMF_KERNELS", names[i], 1);
            execl("/proc/self/exe", "test_sampler_bits", "vectors", (char *)NULL);
            _exit(127);
        }
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_int_equal(how, 0);
    }
}

/* ---- words ---- */

static void test_instruction_sets_give_the_same_words(void **state) {
    (void)state;
    static const char *const names[] = {"ref", "avx2", "vaes", "avx512"};
    static uint64_t want[SAMPLER_WORDS_CHUNK], got[SAMPLER_WORDS_CHUNK];
    sampler_words ref, other;
    check_ok(sampler_words_open(key, kernels_seed_find("ref"), &ref));
    for (int i = 0; i < 4; i++) {
        const kernels_seed_set *set = kernels_seed_find(names[i]);
        if (set == NULL) continue;
        check_ok(sampler_words_open(key, set, &other));
        for (int64_t count = 1; count <= SAMPLER_WORDS_CHUNK; count = 3 * count + 2) {
            const uint64_t first = (uint64_t)count * 1234 * 2;
            check_ok(sampler_words_fill(&ref, SAMPLER_WORDS_BIN, 77, first, count, want));
            check_ok(sampler_words_fill(&other, SAMPLER_WORDS_BIN, 77, first, count, got));
            assert_memory_equal(want, got, (size_t)count * sizeof *want);
        }
        sampler_words_close(&other);
    }
    sampler_words_close(&ref);
}

static void test_chances_are_rounded_down(void **state) {
    (void)state;
    assert_true(sampler_chance_of(0.5, 1).below == (uint64_t)1 << 63);
    assert_true(sampler_chance_of(0x1p-64, 1).below == 1);
    assert_true(sampler_chance_of(0x1.8p-64, 1).below == 1);
    assert_true(sampler_chance_of(0x1p-65, 1).below == 0); /* down, and not up to 2^-64 */
    assert_true(sampler_chance_of(1, 1).always);
    assert_true(sampler_chance_of(0.25, 4).always);
    assert_true(sampler_chance_of(0.3, 4).always);
    assert_false(sampler_chance_of(nextafter(1, 0), 1).always);
    assert_true(sampler_chance_of(nextafter(1, 0), 1).below == UINT64_MAX - 2047);
    /* Never above the product as it is, nor as doubles round it; at most a unit in the last place and 2^-64 below. */
    uint64_t seed = 3;
    for (int i = 0; i < 10000; i++) {
        const double q = fabs(check_random(&seed)) * 1e-3 + 1e-9;
        const int64_t b = 1 + (int64_t)(fabs(check_random(&seed)) * 900);
        const double product = q * (double)b, down = ldexp((double)sampler_chance_of(q, b).below, -64);
        assert_true(down <= product && fma(q, (double)b, -down) >= 0);
        assert_true(down >= nextafter(product, 0) - 0x1p-64);
    }
    assert_true(sampler_chance_says((sampler_chance){.below = 7}, 6) &&
                !sampler_chance_says((sampler_chance){.below = 7}, 7));
    assert_true(sampler_chance_says((sampler_chance){.always = 1}, UINT64_MAX));
}

static void test_masks_are_the_least_that_hold_a_bound(void **state) {
    (void)state;
    for (uint64_t bound = 1; bound < 5000; bound++) {
        const uint64_t mask = sampler_words_mask(bound);
        assert_true((mask & (mask + 1)) == 0 && mask >= bound - 1 && mask / 2 <= bound - 1);
        assert_true(bound == 1 || mask / 2 < bound - 1);
    }
    assert_true(sampler_words_mask((uint64_t)1 << 53) == ((uint64_t)1 << 53) - 1);
    assert_true(sampler_words_mask(((uint64_t)1 << 53) + 1) == ((uint64_t)1 << 54) - 1);
}

/* ---- many units: every word is of its own place, however many are made at a time ---- */

static sampler_words words_of(const char *info) {
    uint8_t subkey[32];
    sampler_words words;
    check_ok(crypto_key_derive(key, "dpmf sampler 1", info, subkey));
    check_ok(sampler_words_open(subkey, kernels_seed_get(), &words));
    return words;
}

static uint64_t word(const sampler_words *words, sampler_words_use use, uint64_t row, int64_t i) {
    static uint64_t out[SAMPLER_WORDS_CHUNK];
    check_ok(sampler_words_fill(words, use, row, (uint64_t)(i - i % 2), 2, out));
    return out[i % 2];
}

/* The batch of `step` is the units of which `in` is 1. */
static void check_batch(const char *text, int64_t step, const uint8_t in[UNITS]) {
    static int64_t batch[UNITS];
    int64_t count = 0, at = 0;
    dpmf_sampler *s = make(text, UNITS, STEPS, NULL);
    check_ok(dpmf_sampler_seek(s, step));
    check_ok(dpmf_sampler_next(s, batch, &count));
    for (int64_t u = 0; u < UNITS; u++)
        if (in[u]) {
            assert_true(at < count);
            assert_int_equal(batch[at++], u);
        }
    assert_int_equal(at, count);
    dpmf_sampler_free(s);
}

static void test_batches_of_many_units_follow_their_words(void **state) {
    (void)state;
    static uint8_t in[UNITS];
    sampler_words words = words_of("poisson:0.25/5001");
    for (int64_t u = 0; u < UNITS; u++)
        in[u] = word(&words, SAMPLER_WORDS_JOIN, 7, u) >> 62 == 0;
    check_batch("poisson:0.25", 7, in);
    sampler_words_close(&words);
    words = words_of("min-sep:0.25,3/5001");
    for (int64_t u = 0; u < UNITS; u++)
        in[u] = word(&words, SAMPLER_WORDS_JOIN, 1, u) >> 62 == 0 && word(&words, SAMPLER_WORDS_JOIN, 0, u) >> 62 != 0;
    check_batch("min-sep:0.25,3", 1, in);
    sampler_words_close(&words);
    words = words_of("balls-in-bins:4/5001");
    for (int64_t u = 0; u < UNITS; u++)
        in[u] = word(&words, SAMPLER_WORDS_BIN, 0, u) % 4 == 2;
    check_batch("balls-in-bins:4", 6, in);
    sampler_words_close(&words);
    words = words_of("scheduled:300,4,5/5001");
    for (int64_t u = 0; u < UNITS; u++) {
        const uint64_t mine = word(&words, SAMPLER_WORDS_PRIORITY, 0, u);
        int64_t lower = 0;
        for (int64_t v = 0; v < UNITS && u % 50 == 0; v++) /* some of them: each costs a look at all */
            lower += word(&words, SAMPLER_WORDS_PRIORITY, 0, v) < mine;
        in[u] = u % 50 == 0 && lower < 300;
    }
    static int64_t batch[300];
    int64_t count = 0;
    dpmf_sampler *s = make("scheduled:300,4,5", UNITS, STEPS, NULL);
    check_ok(dpmf_sampler_next(s, batch, &count));
    assert_int_equal(count, 300);
    for (int64_t i = 0, u = 0; u < UNITS; u += 50) {
        while (i < count && batch[i] < u)
            i++;
        assert_int_equal(in[u], i < count && batch[i] == u);
    }
    dpmf_sampler_free(s);
    sampler_words_close(&words);
}

static void test_a_shuffled_order_follows_its_words(void **state) {
    (void)state;
    static int64_t order[UNITS];
    static uint8_t in[UNITS];
    sampler_words words = words_of("shuffled:700/5001");
    int64_t next = 0;
    for (int64_t i = 0; i < UNITS; i++)
        order[i] = i;
    for (int64_t i = UNITS - 1; i >= 1; i--) {
        int64_t bits = 1, j = i + 1;
        while (bits <= i)
            bits *= 2;
        while (j > i)
            j = (int64_t)(word(&words, SAMPLER_WORDS_ORDER, 2, next++) % (uint64_t)bits);
        const int64_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (int64_t i = 3 * 700; i < 4 * 700; i++)
        in[order[i]] = 1;
    check_batch("shuffled:700", 2 * 8 + 3, in);
    sampler_words_close(&words);
}

/* ---- a cipher that fails ---- */

static int calls_left;

static int fragile(const kernels_seed_key *expanded, uint64_t high, uint64_t index, size_t blocks, uint8_t *out) {
    return calls_left-- > 0 && kernels_seed_get()->keystream(expanded, high, index, blocks, out);
}

/* The batch that failed is drawn by the next call, from any partial state, and so are those after it. */
static void test_a_batch_that_failed_is_drawn_by_the_next_call(void **state) {
    (void)state;
    static const char *const texts[] = {"shuffled:700", "poisson:0.02", "block-cyclic:0.02,2", "min-sep:0.1,6",
                                        "scheduled:300,4,5"};
    static int64_t want[UNITS], got[UNITS];
    kernels_seed_set broken = *kernels_seed_get();
    broken.keystream = fragile;
    for (int i = 0; i < 5; i++) {
        dpmf_sampler *s = make(texts[i], UNITS, STEPS, NULL), *sound = make(texts[i], UNITS, STEPS, NULL);
        check_ok(dpmf_sampler_seek(s, 7));
        check_ok(dpmf_sampler_seek(sound, 7));
        for (int t = 7; t < STEPS; t++) {
            int64_t count = -1, count_wanted = 0;
            const kernels_seed_set *whole = s->words.kernels;
            s->words.kernels = &broken;
            calls_left = t % 3; /* 5001 units are three chunks of words */
            const dpmf_status status = dpmf_sampler_next(s, got, &count);
            s->words.kernels = whole;
            if (status != DPMF_OK) {
                assert_int_equal(status, DPMF_ERROR_UNSUPPORTED);
                assert_int_equal(count, -1);
                assert_int_equal(dpmf_sampler_get(s).step, t);
                check_ok(dpmf_sampler_next(s, got, &count));
            } else
                assert_true(i == 0 || i == 2); /* an order that was there already; a block of two chunks */
            check_ok(dpmf_sampler_next(sound, want, &count_wanted));
            assert_int_equal(count, count_wanted);
            assert_memory_equal(got, want, (size_t)count * sizeof *got);
        }
        dpmf_sampler_free(s);
        dpmf_sampler_free(sound);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest vectors[] = {cmocka_unit_test(test_known_batches_stay_the_same)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_batches_stay_the_same),
        cmocka_unit_test(test_known_batches_stay_the_same_for_every_kernel_set),
        cmocka_unit_test(test_instruction_sets_give_the_same_words),
        cmocka_unit_test(test_chances_are_rounded_down),
        cmocka_unit_test(test_masks_are_the_least_that_hold_a_bound),
        cmocka_unit_test(test_batches_of_many_units_follow_their_words),
        cmocka_unit_test(test_a_shuffled_order_follows_its_words),
        cmocka_unit_test(test_a_batch_that_failed_is_drawn_by_the_next_call),
    };
    if (dpmf_key_testing(5, key) != DPMF_OK) return 1;
    if (argc == 2 && strcmp(argv[1], "vectors") == 0) return cmocka_run_group_tests(vectors, NULL, NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
