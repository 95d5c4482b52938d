/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scheduled units (clients): each takes part at most K times, at least B steps apart, for any offers. Of the offered units that
 * may take part, the M of lowest rank (times taken part, word u of (priority, t), u) are taken: those with the fewest
 * participations come first, and a secret word decides among equals. A batch is smaller where fewer than M may take part.
 *
 * Two passes over the candidates: a heap of M ranks finds the highest rank that is taken, and the second pass takes all
 * up to it, in rising order of units. Nothing of the past changes before both have succeeded.
 *
 * The participation is guaranteed to be min-separation K, B, since it is counted here. No amplification is claimed.
 */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <inttypes.h>
#include <string.h>

typedef struct sampler_rank {
    int64_t joined;
    uint64_t word;
    int64_t unit;
} rank;

static dpmf_status scheduled_open(dpmf_sampler *s) {
    const int64_t m = s->plan.batch;
    s->capacity = m;
    s->expected = (double)m;
    TRY(base_alloc(s->units, sizeof *s->next_free, "the waits of the units", (void **)&s->next_free));
    TRY(base_alloc(s->units, sizeof *s->joined, "the participations of the units", (void **)&s->joined));
    TRY(base_alloc(m, sizeof *s->best, "the ranks of a batch", (void **)&s->best));
    return base_alloc(m, sizeof *s->chosen, "a batch", (void **)&s->chosen);
}

static void scheduled_close(dpmf_sampler *s) {
    sampler_release(s->next_free, s->units, sizeof *s->next_free);
    sampler_release(s->joined, s->units, sizeof *s->joined);
    sampler_release(s->best, s->plan.batch, sizeof *s->best);
    sampler_release(s->chosen, s->plan.batch, sizeof *s->chosen);
}

/* ---- the candidates, one after the other ---- */

typedef struct walk {
    const dpmf_sampler *sampler;
    sampler_offer offer;
    int64_t next;  /* place in the offer */
    int64_t first; /* of the words; -1: none yet */
    uint64_t words[SAMPLER_WORDS_CHUNK];
} walk;

/* The next candidate that may take part; found 0: there is none. */
static dpmf_status next_candidate(walk *w, rank *out, int *found) {
    const dpmf_sampler *s = w->sampler;
    for (*found = 0; w->next < w->offer.count; w->next++) {
        const int64_t u = w->offer.unit == NULL ? w->next : w->offer.unit[w->next];
        if (s->joined[u] >= s->plan.times || s->next_free[u] > s->step) continue;
        const int64_t first = u - u % SAMPLER_WORDS_CHUNK;
        if (first != w->first) {
            const int64_t left = s->units - first, here = left < SAMPLER_WORDS_CHUNK ? left : SAMPLER_WORDS_CHUNK;
            TRY(sampler_words_fill(&s->words, SAMPLER_WORDS_PRIORITY, (uint64_t)s->step, (uint64_t)first, here,
                                   w->words));
            w->first = first;
        }
        *out = (rank){s->joined[u], w->words[u - first], u};
        *found = 1;
        w->next++;
        return DPMF_OK;
    }
    return DPMF_OK;
}

static int before(const rank *a, const rank *b) {
    if (a->joined != b->joined) return a->joined < b->joined;
    if (a->word != b->word) return a->word < b->word;
    return a->unit < b->unit;
}

/* ---- the M lowest: a heap whose first is the highest of them ---- */

static void sink(rank *heap, int64_t count) {
    for (int64_t at = 0, child = 1; child < count; child = 2 * at + 1) {
        if (child + 1 < count && before(&heap[child], &heap[child + 1])) child++;
        if (!before(&heap[at], &heap[child])) return;
        const rank other = heap[child];
        heap[child] = heap[at];
        heap[at] = other;
        at = child;
    }
}

static dpmf_status find_lowest(dpmf_sampler *s, walk *w, int64_t *held) {
    rank *heap = s->best, found = {0};
    int there = 0;
    *held = 0;
    for (;;) {
        TRY(next_candidate(w, &found, &there));
        if (!there) return DPMF_OK;
        if (*held < s->plan.batch) {
            heap[*held] = found;
            int64_t at = (*held)++;
            while (at > 0 && before(&heap[(at - 1) / 2], &heap[at])) {
                const int64_t parent = (at - 1) / 2;
                const rank other = heap[parent];
                heap[parent] = heap[at];
                heap[at] = other;
                at = parent;
            }
        } else if (before(&found, &heap[0])) {
            heap[0] = found;
            sink(heap, *held);
        }
    }
}

/* chosen = the units of s->step. */
static dpmf_status choose_units(dpmf_sampler *s, sampler_offer offer, int64_t *count) {
    walk w = {.sampler = s, .offer = offer, .first = -1};
    rank found = {0};
    int64_t held = 0, taken = 0;
    int there = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(find_lowest(s, &w, &held));
    w.next = 0;
    while (taken < held) {
        TRY_DONE(next_candidate(&w, &found, &there));
        if (!before(&s->best[0], &found)) s->chosen[taken++] = found.unit;
    }
    *count = taken;
done:
    crypto_wipe(&w, sizeof w);
    return status;
}

static void note(dpmf_sampler *s, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        s->joined[s->chosen[i]]++;
        s->next_free[s->chosen[i]] = s->step + s->plan.separation;
    }
}

static dpmf_status scheduled_batch(dpmf_sampler *s, sampler_offer offer, int64_t *batch, int64_t *count) {
    int64_t taken = 0;
    TRY(choose_units(s, offer, &taken));
    note(s, taken);
    if (taken > 0) memcpy(batch, s->chosen, (size_t)taken * sizeof *batch);
    *count = taken;
    return DPMF_OK;
}

/* A failure leaves the sampler at the step that it reached. */
static dpmf_status scheduled_seek(dpmf_sampler *s, int64_t step) {
    const sampler_offer all = {s->units, NULL};
    if (step == s->step) return DPMF_OK;
    if (s->offered)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sampler %s: at step %" PRId64
                         " after offers, which only dpmf_sampler_decode can restore; step %" PRId64 " was asked for",
                         s->plan.text, s->step, step);
    if (step < s->step) {
        memset(s->joined, 0, (size_t)s->units * sizeof *s->joined);
        memset(s->next_free, 0, (size_t)s->units * sizeof *s->next_free);
        s->step = 0;
    }
    for (; s->step < step; s->step++) {
        int64_t taken = 0;
        TRY(choose_units(s, all, &taken));
        note(s, taken);
    }
    return DPMF_OK;
}

static int64_t scheduled_past_size(const dpmf_sampler *s) {
    return 16 * s->units;
}

static void scheduled_past_save(const dpmf_sampler *s, uint8_t *bytes) {
    memcpy(bytes, s->next_free, (size_t)s->units * 8);
    memcpy(bytes + s->units * 8, s->joined, (size_t)s->units * 8);
}

static int scheduled_past_load(dpmf_sampler *s, const uint8_t *bytes) {
    for (int64_t i = 0; i < s->units; i++) {
        int64_t next_free = 0, joined = 0;
        memcpy(&next_free, bytes + 8 * i, 8);
        memcpy(&joined, bytes + 8 * (s->units + i), 8);
        if (next_free < 0 || joined < 0 || joined > s->steps) return 0; /* a count that could overflow */
    }
    memcpy(s->next_free, bytes, (size_t)s->units * 8);
    memcpy(s->joined, bytes + s->units * 8, (size_t)s->units * 8);
    return 1;
}

const sampler_ops sampler_scheduled = {.open = scheduled_open,
                                       .close = scheduled_close,
                                       .batch = scheduled_batch,
                                       .seek = scheduled_seek,
                                       .past_size = scheduled_past_size,
                                       .past_save = scheduled_past_save,
                                       .past_load = scheduled_past_load};
