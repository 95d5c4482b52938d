/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Balls in bins: every unit is in one of B bins, chosen once, uniformly and independently of all others; step t takes
 * all of bin t mod B. This is the mixture that account/montecarlo/scheme.c accounts for: one bin of B, each with
 * probability 1/B.
 *
 * The bin of unit u is word u of (bin, 0), cut to the bits that B - 1 has; where that is B or more, word u of (bin, 1),
 * and so on. It depends on (key, u) alone.
 *
 * The capacity is the number of units, since the size of the fullest bin is a secret.
 */
#include "sampler/sampler.h"

#include "crypto/crypto.h"

#include <string.h>

/* The bins of the units first .. first + count - 1. */
static dpmf_status throw_some(const dpmf_sampler *s, int64_t first, int64_t count, uint64_t *words, int64_t *bin) {
    const uint64_t bins = (uint64_t)s->plan.separation, mask = sampler_words_mask(bins);
    int64_t left = count;
    for (int64_t i = 0; i < count; i++)
        bin[i] = -1;
    for (uint64_t attempt = 0; left > 0; attempt++) {
        TRY(sampler_words_fill(&s->words, SAMPLER_WORDS_BIN, attempt, (uint64_t)first, count, words));
        for (int64_t i = 0; i < count; i++) {
            const uint64_t value = words[i] & mask;
            if (bin[i] >= 0 || value >= bins) continue;
            bin[i] = (int64_t)value;
            left--;
        }
    }
    return DPMF_OK;
}

static dpmf_status bins_open(dpmf_sampler *s) {
    uint64_t words[SAMPLER_WORDS_CHUNK];
    dpmf_status status = DPMF_OK;
    s->capacity = s->units;
    s->expected = (double)s->units / (double)s->plan.separation;
    TRY(sampler_groups_create(s->units, s->plan.separation, &s->groups));
    for (int64_t first = 0; first < s->units; first += SAMPLER_WORDS_CHUNK) {
        const int64_t left = s->units - first, here = left < SAMPLER_WORDS_CHUNK ? left : SAMPLER_WORDS_CHUNK;
        TRY_DONE(throw_some(s, first, here, words, s->groups.of + first));
    }
    sampler_groups_collect(&s->groups);
done:
    crypto_wipe(words, sizeof words);
    return status;
}

static dpmf_status bins_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t bin = s->step % s->plan.separation, first = s->groups.start[bin];
    const int64_t here = s->groups.start[bin + 1] - first;
    (void)offer;
    if (here > 0) memcpy(batch, s->groups.member + first, (size_t)here * sizeof *batch);
    *count = here;
    return DPMF_OK;
}

static void bins_close(dpmf_sampler *s) {
    sampler_groups_free(&s->groups);
}

const sampler_ops sampler_bins = {.open = bins_open, .close = bins_close, .batch = bins_batch};
