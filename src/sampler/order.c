/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs of b = ceil(units/M) batches of M units, the last one smaller where M does not divide the units.
 *
 * cyclic: batch i is always the units M i to M i + M - 1. Nothing is secret, and nothing is amplified. shuffled: the
 * same with a new secret order in every epoch, which is a function of (key, epoch) alone: a seek to any step costs one
 * shuffle. The guarantee is that of "once in each epoch, anywhere": no amplification by shuffling is claimed.
 */
#include "sampler/sampler.h"

#include "base/memory.h"

#include <string.h>

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

/* ---- shuffled ---- */

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
