/* SPDX-License-Identifier: Apache-2.0 */
/* The ways to draw a batch: one part for each, with its law, the cap on the size of a batch, and fixed sizes. */
#include "base/memory.h"
#include "base/special.h"
#include "crypto/crypto.h"
#include "sampler/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Epochs of b = ceil(units/M) batches of M units, the last one smaller where M does not divide the units.
 *
 * cyclic: batch i is always the units M i to M i + M - 1. Nothing is secret, and nothing is amplified. shuffled: the
 * same with a new secret order in every epoch, which is a function of (key, epoch) alone: a seek to any step costs one
 * shuffle. The guarantee is that of "once in each epoch, anywhere": no amplification by shuffling is claimed.
 */
static void set_sizes(dpmf_sampler *s) {
    s->capacity = s->plan.batch;
    s->expected = (double)s->units / (double)s->plan.separation;
}

static dpmf_status cyclic_open(dpmf_sampler *s) {
    set_sizes(s);
    return DPMF_OK;
}

static dpmf_status cyclic_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t first = s->step % s->plan.separation * s->plan.batch, left = s->units - first;
    const int64_t here = left < s->plan.batch ? left : s->plan.batch;
    (void)offer;
    for (int64_t i = 0; i < here; i++)
        batch[i] = first + i;
    *count = here;
    return DPMF_OK;
}

const sampler_ops sampler_cyclic = {.open = cyclic_open, .batch = cyclic_batch};

static dpmf_status shuffled_open(dpmf_sampler *s) {
    set_sizes(s);
    s->epoch = -1;
    TRY(base_alloc(s->units, sizeof *s->order, "the order of an epoch", (void **)&s->order));
    return sampler_groups_create(s->units, s->plan.separation, &s->groups);
}

static dpmf_status shuffle_epoch(dpmf_sampler *s, int64_t epoch) {
    if (s->epoch == epoch) return DPMF_OK;
    TRY(sampler_words_shuffle(&s->words, (uint64_t)epoch, s->units, s->order));
    for (int64_t i = 0; i < s->units; i++)
        s->groups.of[s->order[i]] = i / s->plan.batch;
    sampler_groups_collect(&s->groups);
    s->epoch = epoch;
    return DPMF_OK;
}

static dpmf_status shuffled_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t b = s->plan.separation, i = s->step % b;
    (void)offer;
    TRY(shuffle_epoch(s, s->step / b));
    const int64_t first = s->groups.start[i], here = s->groups.start[i + 1] - first;
    memcpy(batch, s->groups.member + first, (size_t)here * sizeof *batch);
    *count = here;
    return DPMF_OK;
}

static void shuffled_close(dpmf_sampler *s) {
    sampler_release(s->order, s->units, sizeof *s->order);
    sampler_groups_free(&s->groups);
}

const sampler_ops sampler_shuffled = {.open = shuffled_open, .close = shuffled_close, .batch = shuffled_batch};

/*
 * poisson: word u of (join, t) decides whether unit u takes part in step t: independently in u and t, with probability Q.
 *
 * block-cyclic (McKenna 2024, Algorithm 2; Pillutla et al. 2025, Definition 3.20): the units are dealt to B blocks in a random
 * order (a shuffle; position i goes to block i mod B), so that sizes differ by one at most. In step t word i of (join, t)
 * decides about the i-th unit of block t mod B, in rising order, with probability min(1, Q B). The theorem needs fixed blocks
 * only; they are dealt at random because training data may be sorted. A step costs only the words of its block.
 *
 * Each unit has its own word instead of random gaps; sampler/random.c gives the reason.
 */
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

/*
 * Balls in bins: every unit is in one of B bins, chosen once, uniformly and independently of all others; step t takes all of
 * bin t mod B. This is the mixture that account/montecarlo/scheme.c accounts for: one bin of B, each with probability 1/B.
 *
 * The bin of unit u is word u of (bin, 0), cut to the bits that B - 1 has; where that is B or more, word u of (bin, 1),
 * and so on. It depends on (key, u) alone.
 *
 * The capacity is the number of units, since the size of the fullest bin is a secret.
 */
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

/*
 * Random allocation: in every epoch of T steps each unit takes part in exactly K, a uniformly random K of the T, chosen
 * independently for each unit and each epoch. allocation:1,T is "one batch of every epoch".
 *
 * The K steps of a unit are found with K numbers (Floyd's method: for j = T-K .. T-1 draw r from 0 .. j and take r, or j if r
 * has been taken), unit after unit from the words of (allocate, epoch): the batches are a function of (key, epoch), and
 * a seek to any step costs the choice of one epoch.
 *
 * The capacity is the number of units, since the actual size of a batch is a secret.
 */
static dpmf_status allocation_open(dpmf_sampler *s) {
    const int64_t k = s->plan.times, t = s->plan.separation;
    s->capacity = s->units;
    s->expected = (double)s->units * (double)k / (double)t;
    s->epoch = -1;
    if (s->units > INT64_MAX / 8 / k)
        return base_fail(DPMF_ERROR_MEMORY, "sampler %s: its choices do not fit the memory", s->plan.text);
    TRY(base_alloc(t, sizeof *s->order, "the steps of an epoch", (void **)&s->order));
    return sampler_groups_create(s->units * k, t, &s->groups);
}

static void allocation_close(dpmf_sampler *s) {
    sampler_release(s->order, s->plan.separation, sizeof *s->order);
    sampler_groups_free(&s->groups);
}

/* of[u K + i] = the i-th step of unit u; order[step] = the last unit that took it, and one. */
static dpmf_status choose_steps(dpmf_sampler *s, sampler_reader *r) {
    const int64_t k = s->plan.times, t = s->plan.separation;
    memset(s->order, 0, (size_t)t * sizeof *s->order);
    for (int64_t u = 0; u < s->units; u++)
        for (int64_t i = 0; i < k; i++) {
            const int64_t j = t - k + i;
            uint64_t found = 0;
            TRY(sampler_words_draw(r, (uint64_t)j + 1, &found));
            const int64_t step = s->order[found] == u + 1 ? j : (int64_t)found;
            s->order[step] = u + 1;
            s->groups.of[u * k + i] = step;
        }
    return DPMF_OK;
}

static dpmf_status allocate_epoch(dpmf_sampler *s, int64_t epoch) {
    sampler_reader r = {
        .words = &s->words, .use = SAMPLER_WORDS_ALLOCATE, .row = (uint64_t)epoch, .used = SAMPLER_WORDS_CHUNK};
    if (s->epoch == epoch) return DPMF_OK;
    s->epoch = -1; /* an incomplete choice counts as none */
    const dpmf_status status = choose_steps(s, &r);
    crypto_wipe(&r, sizeof r);
    if (status != DPMF_OK) return status;
    sampler_groups_collect(&s->groups);
    s->epoch = epoch;
    return DPMF_OK;
}

static dpmf_status allocation_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t t = s->plan.separation, k = s->plan.times, i = s->step % t;
    (void)offer;
    TRY(allocate_epoch(s, s->step / t));
    const int64_t first = s->groups.start[i], here = s->groups.start[i + 1] - first;
    for (int64_t m = 0; m < here; m++)
        batch[m] = s->groups.member[first + m] / k;
    *count = here;
    return DPMF_OK;
}

const sampler_ops sampler_allocation = {.open = allocation_open, .close = allocation_close, .batch = allocation_batch};

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
dpmf_status sampler_capped_open(dpmf_sampler *s) {
    const int64_t cap = s->plan.most;
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
    const int64_t cap = s->plan.most, kept = drawn < cap ? drawn : cap;
    if (drawn > cap) {
        TRY(choose(s, drawn, cap));
        qsort(s->drawn, (size_t)kept, sizeof *s->drawn, compare);
    }
    if (kept > 0) memcpy(batch, s->drawn, (size_t)kept * sizeof *batch);
    *count = kept;
    return DPMF_OK;
}

/*
 * Batches of a fixed size M. fixed: of all units of the block whose turn it is, a uniformly random M, chosen as a cap chooses among
 * those drawn. fixed-replace: M numbers of (keep, step), each uniform on the block; a unit that comes twice is twice in the batch.
 * Blocks are dealt as those of block-cyclic sampling; one block is all units. The batch is a function of (key, step).
 */
static dpmf_status fixed_open(dpmf_sampler *s) {
    const int64_t blocks = s->plan.separation;
    s->expected = (double)s->plan.times;
    s->capacity = s->plan.kind == SAMPLER_FIXED ? s->units / blocks + (s->units % blocks != 0) : s->plan.times;
    if (blocks == 1) return DPMF_OK;
    TRY(sampler_groups_create(s->units, blocks, &s->groups));
    return deal(s);
}

/* The i-th unit of the block whose turn it is. */
static int64_t unit_of(const dpmf_sampler *s, int64_t i) {
    return s->plan.separation == 1 ? i : s->groups.member[s->groups.start[s->step % s->plan.separation] + i];
}

static int64_t block_size(const dpmf_sampler *s) {
    const int64_t block = s->step % s->plan.separation;
    return s->plan.separation == 1 ? s->units : s->groups.start[block + 1] - s->groups.start[block];
}

static dpmf_status fixed_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    const int64_t size = block_size(s);
    (void)offer;
    for (int64_t i = 0; i < size; i++)
        batch[i] = unit_of(s, i);
    *count = size;
    return DPMF_OK;
}

static dpmf_status fixed_replace_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    sampler_reader r = {
        .words = &s->words, .use = SAMPLER_WORDS_KEEP, .row = (uint64_t)s->step, .used = SAMPLER_WORDS_CHUNK};
    const int64_t size = block_size(s);
    dpmf_status status = DPMF_OK;
    (void)offer;
    for (int64_t i = 0; i < s->plan.times; i++) {
        uint64_t found = 0;
        TRY_DONE(sampler_words_draw(&r, (uint64_t)size, &found));
        batch[i] = unit_of(s, (int64_t)found);
    }
    qsort(batch, (size_t)s->plan.times, sizeof *batch, compare);
    *count = s->plan.times;
done:
    crypto_wipe(&r, sizeof r);
    return status;
}

const sampler_ops sampler_fixed = {.open = fixed_open, .close = block_close, .batch = fixed_batch};
const sampler_ops sampler_fixed_replace = {.open = fixed_open, .close = block_close, .batch = fixed_replace_batch};

double sampler_capped_expected(int64_t units, double probability, int64_t cap) {
    const double mean = (double)units * probability;
    if (cap == 0 || cap >= units) return mean;
    return mean * base_binomial_at_most(cap - 1, units - 1, probability) +
           (double)cap * base_binomial_at_least(cap + 1, units, probability);
}
