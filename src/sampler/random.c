/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The secret words of a sampler: AES-256 in counter mode under the sampler's own subkey, 64 bits each, little endian. Word i of
 * (use, row) is half i mod 2 of the block whose counter is i / 2 + 2^64 row + 2^124 use, as in kernels/seed/seed.h.
 *
 * Probabilities. A word w is uniform on 0 .. 2^64 - 1, so that w < T has probability T / 2^64. T / 2^64 with T =
 * floor(2^64 p) is at most p and at most 2^-64 below: the actual probability never exceeds the one that an amplified
 * guarantee assumes. For p = min(1, Q B) the product is first rounded down to a double, so that p is neither above the
 * true product nor above the accountant's, which is rounded to nearest. Every unit gets a word and a comparison.
 * Skipping ahead by geometric gaps would touch only those that take part, but a gap is a rounded logarithm and has only
 * approximately the claimed law. AES makes 1e9 words per second, and this law is exact.
 *
 * Whole numbers below s are the low bits of a word, as many as s - 1 has; the next word is taken where that is s or
 * more. They are exactly uniform and take at most two words on average.
 */
#include "base/memory.h"
#include "crypto/crypto.h"
#include "sampler/sampler.h"

#include <assert.h>
#include <math.h>
#include <string.h>

dpmf_status sampler_words_open(const uint8_t subkey[32], const kernels_seed_set *kernels, sampler_words *out) {
    TRY(kernels->open(subkey, &out->key));
    out->kernels = kernels;
    return DPMF_OK;
}

void sampler_words_close(sampler_words *words) {
    if (words->kernels != NULL) words->kernels->close(&words->key);
    crypto_wipe(words, sizeof *words);
}

dpmf_status sampler_words_fill(const sampler_words *words, sampler_words_use use, uint64_t row, uint64_t first,
                               int64_t count, uint64_t out[SAMPLER_WORDS_CHUNK]) {
    const uint64_t high = (uint64_t)use << KERNELS_SEED_ROW_BITS | row;
    assert(row >> KERNELS_SEED_ROW_BITS == 0 && first % 2 == 0 && count >= 0 && count <= SAMPLER_WORDS_CHUNK);
    if (words->kernels->keystream(&words->key, high, first / 2, (size_t)(count + 1) / 2, (uint8_t *)out))
        return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED, "sampler: libcrypto refused to encrypt");
}

sampler_chance sampler_chance_of(double probability, int64_t factor) {
    const double b = (double)factor; /* exact: at most 2^53 */
    double p = probability * b;
    assert(probability > 0 && probability <= 1 && factor >= 1 && factor <= (int64_t)1 << 53);
    if (fma(probability, b, -p) < 0) p = nextafter(p, 0);
    if (p >= 1) return (sampler_chance){.always = 1};
    return (sampler_chance){.below = (uint64_t)ldexp(p, 64)}; /* the conversion rounds down */
}

uint64_t sampler_words_mask(uint64_t bound) {
    uint64_t mask = bound - 1;
    for (int shift = 1; shift < 64; shift *= 2)
        mask |= mask >> shift;
    return mask;
}

dpmf_status sampler_words_draw(sampler_reader *r, uint64_t bound, uint64_t *out) {
    const uint64_t mask = sampler_words_mask(bound);
    uint64_t value = bound;
    while (value >= bound) {
        if (r->used == SAMPLER_WORDS_CHUNK) {
            TRY(sampler_words_fill(r->words, r->use, r->row, r->next, SAMPLER_WORDS_CHUNK, r->chunk));
            r->next += SAMPLER_WORDS_CHUNK;
            r->used = 0;
        }
        value = r->chunk[r->used++] & mask;
    }
    *out = value;
    return DPMF_OK;
}

/* Fisher and Yates, from the last place down. */
dpmf_status sampler_words_shuffle(const sampler_words *words, uint64_t row, int64_t count, int64_t *order) {
    sampler_reader r = {.words = words, .use = SAMPLER_WORDS_ORDER, .row = row, .used = SAMPLER_WORDS_CHUNK};
    dpmf_status status = DPMF_OK;
    for (int64_t i = 0; i < count; i++)
        order[i] = i;
    for (int64_t i = count - 1; i >= 1; i--) {
        uint64_t j = 0;
        TRY_DONE(sampler_words_draw(&r, (uint64_t)i + 1, &j));
        const int64_t other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
done:
    crypto_wipe(&r, sizeof r);
    return status;
}

/* ---- units in groups, each with its members in rising order: a counting sort by group ---- */

void sampler_release(void *memory, int64_t count, size_t size) {
    if (memory != NULL) crypto_wipe(memory, (size_t)count * size);
    base_free(memory);
}

dpmf_status sampler_groups_create(int64_t units, int64_t count, sampler_groups *out) {
    sampler_groups made = {.units = units, .count = count};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(units, sizeof *made.of, "the group of each unit", (void **)&made.of));
    TRY_DONE(base_alloc(units, sizeof *made.member, "the units of the groups", (void **)&made.member));
    TRY_DONE(base_alloc(count + 2, sizeof *made.start, "the groups", (void **)&made.start));
    *out = made;
    return DPMF_OK;
done:
    sampler_groups_free(&made);
    return status;
}

void sampler_groups_free(sampler_groups *groups) {
    sampler_release(groups->of, groups->units, sizeof *groups->of);
    sampler_release(groups->member, groups->units, sizeof *groups->member);
    sampler_release(groups->start, groups->count + 2, sizeof *groups->start);
    *groups = (sampler_groups){0};
}

/* start[j + 2] counts group j, then start[j + 1] is where its next member goes, and ends as the start of j + 1. */
void sampler_groups_collect(sampler_groups *groups) {
    int64_t *start = groups->start;
    memset(start, 0, (size_t)(groups->count + 2) * sizeof *start);
    for (int64_t u = 0; u < groups->units; u++)
        start[groups->of[u] + 2]++;
    for (int64_t j = 2; j < groups->count + 2; j++)
        start[j] += start[j - 1];
    for (int64_t u = 0; u < groups->units; u++)
        groups->member[start[groups->of[u] + 1]++] = u;
}
