/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Poisson sampling, of all units or of one block of them.
 *
 * poisson: word u of (join, t) decides whether unit u takes part in step t: independently in u and t, with probability
 * Q.
 *
 * block-cyclic (McKenna 2024, Algorithm 2; Pillutla et al. 2025, Definition 3.20): the units are dealt to B blocks in a
 * random order (a shuffle; position i goes to block i mod B), so that sizes differ by one at most. In step t word i of
 * (join, t) decides about the i-th unit of block t mod B, in rising order, with probability min(1, Q B). The theorem
 * needs fixed blocks only; they are dealt at random because training data may be sorted. A step costs only the words of
 * its block.
 *
 * Each unit has its own word instead of random gaps; sampler/random.c gives the reason.
 */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <math.h>

/* batch = the candidates 0 .. size - 1 that take part in s->step, by their names if there are any. */
static dpmf_status join_units(const dpmf_sampler *s, int64_t size, const int64_t *name, int64_t *batch,
                              int64_t *count) {
    uint64_t words[SAMPLER_WORDS_CHUNK];
    const sampler_chance chance = s->chance;
    int64_t taken = 0;
    dpmf_status status = DPMF_OK;
    for (int64_t first = 0; first < size; first += SAMPLER_WORDS_CHUNK) {
        const int64_t here = size - first < SAMPLER_WORDS_CHUNK ? size - first : SAMPLER_WORDS_CHUNK;
        TRY_DONE(sampler_words_fill(&s->words, SAMPLER_WORDS_JOIN, (uint64_t)s->step, (uint64_t)first, here, words));
        for (int64_t i = 0; i < here; i++) { /* always written, kept or not: no branch depends on a secret */
            batch[taken] = name == NULL ? first + i : name[first + i];
            taken += sampler_chance_says(chance, words[i]);
        }
    }
    *count = taken;
done:
    crypto_wipe(words, sizeof words);
    return status;
}

static dpmf_status poisson_open(dpmf_sampler *s) {
    s->chance = sampler_chance_of(s->plan.sampling.probability, 1);
    s->capacity = s->units;
    s->expected = sampler_capped_expected(s->units, s->plan.sampling.probability, s->plan.sampling.cap);
    return DPMF_OK;
}

static dpmf_status poisson_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    (void)offer;
    return join_units(s, s->units, NULL, batch, count);
}

const sampler_ops sampler_poisson = {.open = poisson_open, .batch = poisson_batch};

/* ---- block-cyclic ---- */

static dpmf_status deal(dpmf_sampler *s) {
    int64_t *order = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(s->units, sizeof *order, "the order in which units are dealt", (void **)&order));
    TRY_DONE(sampler_words_shuffle(&s->words, 0, s->units, order));
    for (int64_t i = 0; i < s->units; i++)
        s->groups.of[order[i]] = i % s->plan.separation;
    sampler_groups_collect(&s->groups);
done:
    sampler_release(order, s->units, sizeof *order);
    return status;
}

static dpmf_status block_open(dpmf_sampler *s) {
    const int64_t blocks = s->plan.separation, small = s->units / blocks, larger = s->units % blocks;
    const int64_t cap = s->plan.sampling.cap;
    const double q = s->plan.sampling.probability, b = (double)blocks;
    s->chance = sampler_chance_of(q, s->plan.separation);
    s->capacity = s->units / s->plan.separation + (s->units % s->plan.separation != 0);
    s->expected = ((b - (double)larger) * sampler_capped_expected(small, fmin(1, q * b), cap) +
                   (double)larger * sampler_capped_expected(small + 1, fmin(1, q * b), cap)) /
                  b;
    TRY(sampler_groups_create(s->units, s->plan.separation, &s->groups));
    return deal(s);
}

static dpmf_status block_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t block = s->step % s->plan.separation, first = s->groups.start[block];
    (void)offer;
    return join_units(s, s->groups.start[block + 1] - first, s->groups.member + first, batch, count);
}

static void block_close(dpmf_sampler *s) {
    sampler_groups_free(&s->groups);
}

const sampler_ops sampler_block_cyclic = {.open = block_open, .close = block_close, .batch = block_batch};
