/* SPDX-License-Identifier: Apache-2.0 */
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
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <string.h>

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
