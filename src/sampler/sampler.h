/* SPDX-License-Identifier: Apache-2.0 */
/* The record behind the public calls, secret words, and the operations of a kind. docs/samplers.md specifies the bits. */
#ifndef DPMF_SAMPLER_H
#define DPMF_SAMPLER_H

#include "base/status.h"
#include "kernels/seed/seed.h"

/* ---- secret words (sampler/random.c) ---- */

/* Increases when a key gives other batches than before. */
#define SAMPLER_VERSION 1

/* The use of a word: it and a row (a step, an epoch, an attempt) choose one of the key's independent streams. */
typedef enum sampler_words_use {
    SAMPLER_WORDS_JOIN = 0, /* row: the step. Word i: does the i-th candidate take part? */
    SAMPLER_WORDS_ORDER,    /* row: the epoch. The words of a shuffle, one after the other */
    SAMPLER_WORDS_BIN,      /* row: the attempt. Word u: the bin of unit u */
    SAMPLER_WORDS_PRIORITY, /* row: the step. Word u: the rank of unit u among its equals */
    SAMPLER_WORDS_KEEP,     /* row: the step. The units that a cap or a fixed size keeps, one number after the other */
    SAMPLER_WORDS_ALLOCATE  /* row: the epoch. The steps of each unit, one number after the other */
} sampler_words_use;

enum { SAMPLER_WORDS_CHUNK = 2048 }; /* words made at a time: 16 KiB, so that they stay in the nearest cache */

typedef struct sampler_words {
    kernels_seed_key key;
    const kernels_seed_set *kernels; /* NULL: not open */
} sampler_words;

DPMF_MUST_CHECK dpmf_status sampler_words_open(const uint8_t subkey[32], const kernels_seed_set *kernels,
                                               sampler_words *out);
void sampler_words_close(sampler_words *words); /* wipes */

/* out[i] = word first + i of (use, row), i < count; first is even, count at most SAMPLER_WORDS_CHUNK. */
DPMF_MUST_CHECK dpmf_status sampler_words_fill(const sampler_words *words, sampler_words_use use, uint64_t row,
                                               uint64_t first, int64_t count, uint64_t out[SAMPLER_WORDS_CHUNK]);

/* A probability as a comparison: true for a word w if `always` or w < below. */
typedef struct sampler_chance {
    int always;
    uint64_t below;
} sampler_chance;

/* The largest chance that is not above min(1, probability x factor). */
sampler_chance sampler_chance_of(double probability, int64_t factor);

static inline int sampler_chance_says(sampler_chance chance, uint64_t word) {
    return chance.always | (word < chance.below);
}

/* The bits that are kept of a word so that it is below `bound` with probability above 1/2; bound >= 1. */
uint64_t sampler_words_mask(uint64_t bound);

/* The words of a row one after the other, as whole numbers. Begin with used = SAMPLER_WORDS_CHUNK; wipe it after. */
typedef struct sampler_reader {
    const sampler_words *words;
    sampler_words_use use;
    uint64_t row, next; /* the first word that has not been made */
    int used;
    uint64_t chunk[SAMPLER_WORDS_CHUNK];
} sampler_reader;

/* The next number, uniform on 0 .. bound - 1; bound >= 1. */
DPMF_MUST_CHECK dpmf_status sampler_words_draw(sampler_reader *reader, uint64_t bound, uint64_t *out);

/* order = a uniformly random order of 0 .. count - 1, a function of (key, row) alone. */
DPMF_MUST_CHECK dpmf_status sampler_words_shuffle(const sampler_words *words, uint64_t row, int64_t count,
                                                  int64_t *order);

/* ---- units in groups: the batches of an epoch, blocks, bins (sampler/random.c) ---- */

typedef struct sampler_groups {
    int64_t units, count;
    int64_t *of;    /* the group of each unit */
    int64_t *start; /* group j is member[start[j]] to member[start[j+1] - 1], rising; count + 2 numbers */
    int64_t *member;
} sampler_groups;

DPMF_MUST_CHECK dpmf_status sampler_groups_create(int64_t units, int64_t count, sampler_groups *out);
void sampler_groups_free(sampler_groups *groups);    /* wipes */
void sampler_groups_collect(sampler_groups *groups); /* start and member from `of` */

/* ---- samplers ---- */

typedef enum sampler_kind {
    SAMPLER_CYCLIC = 0,
    SAMPLER_SHUFFLED,
    SAMPLER_POISSON,
    SAMPLER_BLOCK_CYCLIC,
    SAMPLER_BINS,
    SAMPLER_SEPARATED,
    SAMPLER_SCHEDULED,
    SAMPLER_ALLOCATION,
    SAMPLER_FIXED,
    SAMPLER_FIXED_REPLACE
} sampler_kind;

typedef struct sampler_plan {
    sampler_kind kind;
    int64_t batch;          /* M: cyclic, shuffled, scheduled */
    int64_t times;          /* K: scheduled, allocation */
    int64_t separation;     /* B: blocks, bins, separation; T of allocation; ceil(units/M) for cyclic and shuffled */
    int64_t most;           /* a random `most` of those drawn take part: the cap, M of fixed; 0: all of them */
    dpmf_sampling sampling; /* none for cyclic, shuffled, scheduled */
    char text[64];          /* in its one canonical form */
} sampler_plan;

/* Units that can be reached; unit NULL: 0 to count - 1. */
typedef struct sampler_offer {
    int64_t count;
    const int64_t *unit;
} sampler_offer;

typedef struct sampler_ops {
    dpmf_status (*open)(dpmf_sampler *sampler); /* allocates, and sets capacity and expected */
    void (*close)(dpmf_sampler *sampler);       /* also after a failed open; NULL: nothing to do */
    /* Fills the batch of s->step. On failure the sampler and *count are as before, `batch` may be overwritten. */
    dpmf_status (*batch)(dpmf_sampler *sampler, sampler_offer offer, int64_t *batch, int64_t *count);
    /* NULL: the batch is a function of (key, step) that needs no past */
    dpmf_status (*seek)(dpmf_sampler *sampler, int64_t step);
    /* The past, for a saved state; NULL where there is none */
    int64_t (*past_size)(const dpmf_sampler *sampler);
    void (*past_save)(const dpmf_sampler *sampler, uint8_t *bytes);
    /* returns 0 and changes nothing for a past that no run can have: holders of the key can make authentic bytes */
    int (*past_load)(dpmf_sampler *sampler, const uint8_t *bytes);
} sampler_ops;

extern const sampler_ops sampler_cyclic, sampler_shuffled, sampler_poisson, sampler_block_cyclic, sampler_bins,
    sampler_separated, sampler_scheduled, sampler_allocation, sampler_fixed, sampler_fixed_replace;

struct dpmf_sampler {
    sampler_words words;
    const sampler_ops *ops;
    sampler_plan plan;
    int64_t units, steps, step;
    int64_t capacity;
    double expected;
    dpmf_participation *realised; /* NULL: none is guaranteed */
    int offered;                  /* 1: the past holds offers, which the key cannot reproduce */
    char label[65];               /* SHA-256 of the label; empty: none */
    uint8_t mac_key[32], commitment[32];

    sampler_chance chance;
    sampler_groups groups;
    int64_t epoch;             /* shuffled, allocation: that of the groups; -1: none yet */
    int64_t *order;            /* shuffled: room for a permutation; allocation: who took a step last */
    int64_t reached;           /* min-sep: the step that free_at is for */
    uint32_t *free_at;         /* min-sep: the first step in which each unit may take part */
    int64_t *next_free;        /* scheduled: the same */
    int64_t *joined;           /* scheduled: how often each unit took part */
    struct sampler_rank *best; /* scheduled: room for M ranks */
    int64_t *chosen;           /* scheduled: room for a batch */
    int64_t *drawn;            /* with a cap or a fixed size: room for all that were drawn; NULL: none */
    int64_t drawn_room;
};

/* ---- a cap on the batch (sampler/draws.c) ---- */

/* Called after the kind's own open: allocates, and lowers the capacity to the cap. No effect without a cap. */
DPMF_MUST_CHECK dpmf_status sampler_capped_open(dpmf_sampler *sampler);
void sampler_capped_close(dpmf_sampler *sampler); /* wipes */
/* batch = all of `drawn`, or a uniformly random `cap` of them, rising; `drawn` is overwritten. */
DPMF_MUST_CHECK dpmf_status sampler_capped_keep(const dpmf_sampler *sampler, int64_t drawn, int64_t *batch,
                                                int64_t *count);
/* E min(X, cap), X the number drawn out of `units`; cap 0: none. */
double sampler_capped_expected(int64_t units, double probability, int64_t cap);

/* sampler/check.c */
DPMF_MUST_CHECK dpmf_status sampler_realise(const sampler_plan *plan, int64_t steps,
                                            dpmf_participation **out); /* NULL: none is guaranteed */

/* sampler/state.c: the keys that authenticate saved states */
DPMF_MUST_CHECK dpmf_status sampler_keys(const uint8_t master[32], dpmf_sampler *sampler);

/* Wipes and frees; NULL is fine. */
void sampler_release(void *memory, int64_t count, size_t size);

#endif
