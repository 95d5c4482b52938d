/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samplers: the record behind the public calls, the secret words that they draw, and what a kind of sampler must do.
 * docs/samplers.md is the specification of the bits.
 */
#ifndef DPMF_SAMPLER_H
#define DPMF_SAMPLER_H

#include "base/status.h"
#include "kernels/seed/seed.h"

/* ---- secret words (sampler/words.c) ---- */

/* Changes when the batches that a key gives change. */
#define DPMF_I_SAMPLER_VERSION 1

/* What a word is for: it and a row (a step, an epoch, an attempt) choose one of the key's independent streams. */
typedef enum dpmf_i_sampler_words_use {
    DPMF_I_SAMPLER_WORDS_JOIN = 0, /* row: the step. Word i: does the i-th candidate take part? */
    DPMF_I_SAMPLER_WORDS_ORDER,    /* row: the epoch. The words of a shuffle, one after the other */
    DPMF_I_SAMPLER_WORDS_BIN,      /* row: the attempt. Word u: the bin of unit u */
    DPMF_I_SAMPLER_WORDS_PRIORITY, /* row: the step. Word u: the rank of unit u among its equals */
    DPMF_I_SAMPLER_WORDS_KEEP,     /* row: the step. Who of too many is kept, one number after the other */
    DPMF_I_SAMPLER_WORDS_ALLOCATE  /* row: the epoch. The steps of each unit, one number after the other */
} dpmf_i_sampler_words_use;

enum { DPMF_I_SAMPLER_WORDS_CHUNK = 2048 }; /* words made at a time: 16 KiB, so that they stay in the nearest cache */

typedef struct dpmf_i_sampler_words {
    dpmf_i_kernels_seed_key key;
    const dpmf_i_kernels_seed_set *kernels; /* NULL: not open */
} dpmf_i_sampler_words;

DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_words_open(const uint8_t subkey[32], const dpmf_i_kernels_seed_set *kernels,
                                                      dpmf_i_sampler_words *out);
void dpmf_i_sampler_words_close(dpmf_i_sampler_words *words); /* wipes */

/* out[i] = word first + i of (use, row), i < count; first is even, count at most DPMF_I_SAMPLER_WORDS_CHUNK. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_words_fill(const dpmf_i_sampler_words *words, dpmf_i_sampler_words_use use,
                                                      uint64_t row, uint64_t first, int64_t count,
                                                      uint64_t out[DPMF_I_SAMPLER_WORDS_CHUNK]);

/* A probability as a comparison: a word w says yes if `always` or w < below. */
typedef struct dpmf_i_sampler_chance {
    int always;
    uint64_t below;
} dpmf_i_sampler_chance;

/* The largest chance that is not above min(1, probability x factor). */
dpmf_i_sampler_chance dpmf_i_sampler_chance_of(double probability, int64_t factor);

static inline int dpmf_i_sampler_chance_says(dpmf_i_sampler_chance chance, uint64_t word) {
    return chance.always | (word < chance.below);
}

/* The bits that are kept of a word so that it is below `bound` with probability above 1/2; bound >= 1. */
uint64_t dpmf_i_sampler_words_mask(uint64_t bound);

/* The words of a row one after the other, as whole numbers. Begin with used = DPMF_I_SAMPLER_WORDS_CHUNK; wipe it after. */
typedef struct dpmf_i_sampler_reader {
    const dpmf_i_sampler_words *words;
    dpmf_i_sampler_words_use use;
    uint64_t row, next; /* the first word that has not been made */
    int used;
    uint64_t chunk[DPMF_I_SAMPLER_WORDS_CHUNK];
} dpmf_i_sampler_reader;

/* The next number, uniform on 0 .. bound - 1; bound >= 1. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_words_draw(dpmf_i_sampler_reader *reader, uint64_t bound, uint64_t *out);

/* order = a uniformly random order of 0 .. count - 1, a function of (key, row) alone. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_words_shuffle(const dpmf_i_sampler_words *words, uint64_t row, int64_t count,
                                                         int64_t *order);

/* ---- units in groups: the batches of an epoch, blocks, bins (sampler/groups.c) ---- */

typedef struct dpmf_i_sampler_groups {
    int64_t units, count;
    int64_t *of;    /* the group of each unit */
    int64_t *start; /* group j is member[start[j]] to member[start[j+1] - 1], rising; count + 2 numbers */
    int64_t *member;
} dpmf_i_sampler_groups;

DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_groups_create(int64_t units, int64_t count, dpmf_i_sampler_groups *out);
void dpmf_i_sampler_groups_free(dpmf_i_sampler_groups *groups);    /* wipes */
void dpmf_i_sampler_groups_collect(dpmf_i_sampler_groups *groups); /* start and member from `of` */

/* ---- samplers ---- */

typedef enum dpmf_i_sampler_kind {
    DPMF_I_SAMPLER_CYCLIC = 0,
    DPMF_I_SAMPLER_SHUFFLED,
    DPMF_I_SAMPLER_POISSON,
    DPMF_I_SAMPLER_BLOCK_CYCLIC,
    DPMF_I_SAMPLER_BINS,
    DPMF_I_SAMPLER_SEPARATED,
    DPMF_I_SAMPLER_SCHEDULED,
    DPMF_I_SAMPLER_ALLOCATION
} dpmf_i_sampler_kind;

/* What the text says. */
typedef struct dpmf_i_sampler_plan {
    dpmf_i_sampler_kind kind;
    int64_t batch;          /* M: cyclic, shuffled, scheduled */
    int64_t times;          /* K: scheduled, allocation */
    int64_t separation;     /* B: blocks, bins, separation; T of allocation; ceil(units/M) for cyclic and shuffled */
    dpmf_sampling sampling; /* none for cyclic, shuffled, scheduled */
    char text[64];          /* in its one canonical form */
} dpmf_i_sampler_plan;

/* Reads and checks `text` for so many units and steps. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_parse(const char *text, int64_t units, int64_t steps,
                                                 dpmf_i_sampler_plan *out);

/* Units that can be reached; unit NULL: 0 to count - 1. */
typedef struct dpmf_i_sampler_offer {
    int64_t count;
    const int64_t *unit;
} dpmf_i_sampler_offer;

typedef struct dpmf_i_sampler_ops {
    dpmf_status (*open)(dpmf_sampler *sampler); /* allocates, and sets capacity and expected */
    void (*close)(dpmf_sampler *sampler);       /* also after a failed open; NULL: nothing to do */
    /* The batch of s->step. On failure the sampler and *count are as before, `batch` may be overwritten. */
    dpmf_status (*batch)(dpmf_sampler *sampler, dpmf_i_sampler_offer offer, int64_t *batch, int64_t *count);
    /* NULL: the batch is a function of (key, step) that needs no past */
    dpmf_status (*seek)(dpmf_sampler *sampler, int64_t step);
    /* The past, for a saved state: NULL where there is none */
    int64_t (*past_size)(const dpmf_sampler *sampler);
    void (*past_save)(const dpmf_sampler *sampler, uint8_t *bytes);
    /* 0, and nothing is changed, where no run can have had it: authentic bytes may still have been made by anybody with
     * the key */
    int (*past_load)(dpmf_sampler *sampler, const uint8_t *bytes);
} dpmf_i_sampler_ops;

extern const dpmf_i_sampler_ops dpmf_i_sampler_cyclic, dpmf_i_sampler_shuffled, dpmf_i_sampler_poisson,
    dpmf_i_sampler_block_cyclic, dpmf_i_sampler_bins, dpmf_i_sampler_separated, dpmf_i_sampler_scheduled,
    dpmf_i_sampler_allocation;

struct dpmf_sampler {
    dpmf_i_sampler_words words;
    const dpmf_i_sampler_ops *ops;
    dpmf_i_sampler_plan plan;
    int64_t units, steps, step;
    int64_t capacity;
    double expected;
    dpmf_participation *realised; /* NULL: none that is sure */
    int offered;                  /* 1: the past holds offers, and cannot be had again from the key */
    char label[65];               /* SHA-256 of the label; empty: none */
    uint8_t mac_key[32], commitment[32];

    dpmf_i_sampler_chance chance;
    dpmf_i_sampler_groups groups;
    int64_t epoch;                    /* shuffled, allocation: that of the groups; -1: none yet */
    int64_t *order;                   /* shuffled: room for a permutation; allocation: who took a step last */
    int64_t reached;                  /* min-sep: the step that free_at is for */
    uint32_t *free_at;                /* min-sep: the first step in which each unit may take part */
    int64_t *next_free;               /* scheduled: the same */
    int64_t *joined;                  /* scheduled: how often each unit took part */
    struct dpmf_i_sampler_rank *best; /* scheduled: room for M ranks */
    int64_t *chosen;                  /* scheduled: room for a batch */
    int64_t *drawn;                   /* with a cap: room for all that were drawn; NULL: none */
    int64_t drawn_room;
};

/* ---- a cap on the batch (sampler/capped.c) ---- */

/* After the kind's own open: makes room, and lowers the capacity to the cap. Nothing where there is no cap. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_capped_open(dpmf_sampler *sampler);
void dpmf_i_sampler_capped_close(dpmf_sampler *sampler); /* wipes */
/* batch = all of `drawn`, or a uniformly random `cap` of them, rising; `drawn` is overwritten. */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_capped_keep(const dpmf_sampler *sampler, int64_t drawn, int64_t *batch,
                                                       int64_t *count);
/* E min(X, cap) of X units out of so many; cap 0: none. */
double dpmf_i_sampler_capped_expected(int64_t units, double probability, int64_t cap);

/* sampler/check.c */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_realise(const dpmf_i_sampler_plan *plan, int64_t steps,
                                                   dpmf_participation **out); /* NULL: none that is sure */

/* sampler/state.c: the keys that authenticate saved states */
DPMF_MUST_CHECK dpmf_status dpmf_i_sampler_keys(const uint8_t master[32], dpmf_sampler *sampler);

/* Wipes and frees; NULL is fine. */
void dpmf_i_sampler_release(void *memory, int64_t count, size_t size);

#endif
