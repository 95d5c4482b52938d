/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hard cap M on the batch: of more than M units that were drawn, a uniformly random M take part. The draw does not
 * depend on the cap, and a unit that was drawn but not kept counts as drawn (under min-separation it waits).
 *
 * The choice is the first M places of a shuffle of those drawn, by the words of (keep, step): the draws are a function
 * of (key, step), and so is the choice. The caller pads batches to M: their true size depends on the data.
 *
 * Expected size: E min(X, M) = N q P[Bin(N-1, q) < M] + M P[Bin(N, q) > M], since x times the probability of x successes is N q
 * times that of x - 1 among the others.
 */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "base/special.h"
#include "crypto/crypto.h"

#include <stdlib.h>
#include <string.h>

dpmf_status sampler_capped_open(dpmf_sampler *s) {
    const int64_t cap = s->plan.sampling.cap;
    if (cap == 0) return DPMF_OK;
    s->drawn_room = s->capacity;
    TRY(base_alloc(s->drawn_room, sizeof *s->drawn, "the units drawn", (void **)&s->drawn));
    if (cap < s->capacity) s->capacity = cap;
    return DPMF_OK;
}

void sampler_capped_close(dpmf_sampler *s) {
    sampler_release(s->drawn, s->drawn_room, sizeof *s->drawn);
    s->drawn = NULL;
}

static int compare(const void *a, const void *b) {
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Makes the first `kept` of `count` places a uniformly random choice. */
static dpmf_status choose(const dpmf_sampler *s, int64_t count, int64_t kept) {
    sampler_reader r = {
        .words = &s->words, .use = SAMPLER_WORDS_KEEP, .row = (uint64_t)s->step, .used = SAMPLER_WORDS_CHUNK};
    dpmf_status status = DPMF_OK;
    for (int64_t i = 0; i < kept; i++) {
        uint64_t more = 0;
        TRY_DONE(sampler_words_draw(&r, (uint64_t)(count - i), &more));
        const int64_t j = i + (int64_t)more, other = s->drawn[j];
        s->drawn[j] = s->drawn[i];
        s->drawn[i] = other;
    }
done:
    crypto_wipe(&r, sizeof r);
    return status;
}

dpmf_status sampler_capped_keep(const dpmf_sampler *s, int64_t drawn, int64_t *batch, int64_t *count) {
    const int64_t cap = s->plan.sampling.cap, kept = drawn < cap ? drawn : cap;
    if (drawn > cap) {
        TRY(choose(s, drawn, cap));
        qsort(s->drawn, (size_t)kept, sizeof *s->drawn, compare);
    }
    if (kept > 0) memcpy(batch, s->drawn, (size_t)kept * sizeof *batch);
    *count = kept;
    return DPMF_OK;
}

double sampler_capped_expected(int64_t units, double probability, int64_t cap) {
    const double mean = (double)units * probability;
    if (cap == 0 || cap >= units) return mean;
    return mean * base_binomial_at_most(cap - 1, units - 1, probability) +
           (double)cap * base_binomial_at_least(cap + 1, units, probability);
}
