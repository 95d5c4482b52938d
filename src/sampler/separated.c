/* SPDX-License-Identifier: Apache-2.0 */
/*
 * b-min-separation sampling (Choquette-Choo et al. 2024): word u of (join, t) decides with probability P whether unit
 * u, if it is free, takes part in step t; it is then free again in step t + B. At the first step every unit is free:
 * the cold start, which a mechanism's account assumes (account/montecarlo/scheme.c; dpmf_account_options.warm = 0).
 *
 * The words do not depend on which units are free, so the batch of step t is a function of (key, t). A seek back
 * replays all steps before the new one, a seek forward the steps in between.
 *
 * Expected size. With x_i the probability that a unit takes part in step i and f_i that it is free,
 *     f_0 = 1,   f_i = f_{i-1} - x_{i-1} + x_{i-B},   x_i = P f_i:
 * the first steps take more than later ones. One number serves all of a run: the mean over its steps.
 */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <math.h>
#include <string.h>

static dpmf_status expect(dpmf_sampler *s) {
    const int64_t n = s->steps, b = s->plan.separation, cap = s->plan.sampling.cap; /* b <= n */
    const double p = s->plan.sampling.probability;
    double *x = NULL, is_free = 1, sum = 0, before = 0;
    TRY(base_alloc_doubles(b, "the expected sizes of batches", &x));
    for (int64_t i = 0, slot = 0; i < n; i++, slot = slot + 1 == b ? 0 : slot + 1) {
        is_free += x[slot] - before; /* x_{i-B}, and 0 before there is one */
        before = x[slot] = p * is_free;
        sum += cap == 0 ? before : sampler_capped_expected(s->units, fmin(before, 1), cap) / (double)s->units;
    }
    s->expected = (double)s->units * (sum / (double)n);
    base_free(x);
    return DPMF_OK;
}

static dpmf_status separated_open(dpmf_sampler *s) {
    s->chance = sampler_chance_of(s->plan.sampling.probability, 1);
    s->capacity = s->units;
    TRY(expect(s));
    return base_alloc(s->units, sizeof *s->free_at, "the waits of the units", (void **)&s->free_at);
}

static void separated_close(dpmf_sampler *s) {
    sampler_release(s->free_at, s->units, sizeof *s->free_at);
}

static void start_anew(dpmf_sampler *s) {
    memset(s->free_at, 0, (size_t)s->units * sizeof *s->free_at);
    s->reached = 0;
}

/* The step s->reached, for the units first .. first + count - 1; with batch NULL only the waits are updated. */
static int64_t join_some(dpmf_sampler *s, int64_t first, int64_t count, const uint64_t *words, int64_t *batch) {
    const uint32_t step = (uint32_t)s->reached, after = step + (uint32_t)s->plan.separation; /* below 2^29 + 1 */
    uint32_t *free_at = s->free_at + first;
    int64_t taken = 0;
    for (int64_t i = 0; i < count; i++) {
        const int joins = (free_at[i] <= step) & sampler_chance_says(s->chance, words[i]);
        free_at[i] = joins ? after : free_at[i];
        if (batch == NULL) continue;
        batch[taken] = first + i;
        taken += joins;
    }
    return taken;
}

static dpmf_status take_step(dpmf_sampler *s, int64_t *batch, int64_t *count) {
    uint64_t words[SAMPLER_WORDS_CHUNK];
    int64_t taken = 0;
    dpmf_status status = DPMF_OK;
    for (int64_t first = 0; first < s->units; first += SAMPLER_WORDS_CHUNK) {
        const int64_t left = s->units - first, here = left < SAMPLER_WORDS_CHUNK ? left : SAMPLER_WORDS_CHUNK;
        TRY_DONE(sampler_words_fill(&s->words, SAMPLER_WORDS_JOIN, (uint64_t)s->reached, (uint64_t)first, here, words));
        taken += join_some(s, first, here, words, batch == NULL ? NULL : batch + taken);
    }
    s->reached++;
    if (count != NULL) *count = taken;
done:
    if (status != DPMF_OK) start_anew(s); /* the step is incomplete: the next call replays */
    crypto_wipe(words, sizeof words);
    return status;
}

static dpmf_status separated_seek(dpmf_sampler *s, int64_t step) {
    if (step < s->reached) start_anew(s);
    while (s->reached < step)
        TRY(take_step(s, NULL, NULL));
    return DPMF_OK;
}

static dpmf_status separated_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    (void)offer;
    TRY(separated_seek(s, s->step));
    return take_step(s, batch, count);
}

/* ---- the past: the step that the waits are for, and the waits ---- */

static int64_t separated_past_size(const dpmf_sampler *s) {
    return 8 + s->units * (int64_t)sizeof *s->free_at;
}

static void separated_past_save(const dpmf_sampler *s, uint8_t *bytes) {
    memcpy(bytes, &s->reached, 8);
    memcpy(bytes + 8, s->free_at, (size_t)s->units * sizeof *s->free_at);
}

static int separated_past_load(dpmf_sampler *s, const uint8_t *bytes) {
    int64_t reached = 0;
    memcpy(&reached, bytes, 8);
    if (reached < 0 || reached > s->steps) return 0; /* the sampler would replay up to 2^63 steps */
    s->reached = reached;
    memcpy(s->free_at, bytes + 8, (size_t)s->units * sizeof *s->free_at);
    return 1;
}

const sampler_ops sampler_separated = {.open = separated_open,
                                       .close = separated_close,
                                       .batch = separated_batch,
                                       .seek = separated_seek,
                                       .past_size = separated_past_size,
                                       .past_save = separated_past_save,
                                       .past_load = separated_past_load};
