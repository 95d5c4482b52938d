/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree of the smooth binary mechanism: its leaves are the words of a zeros and b ones, in the order of the binary numbers
 * that they spell; leaf t is the place of step t, and leaf n is the end. A row of C is a node, named by the beginning u0 of a
 * word, that ends before leaf n and beside which there is a node u1; families/tree/smooth.c explains the choice.
 */
#ifndef DPMF_FAMILIES_SMOOTH_H
#define DPMF_FAMILIES_SMOOTH_H

#include "families/tree/tree.h"

enum { SMOOTH_HEIGHT_MAX = 62 };

typedef struct smooth_strategy {
    dpmf_strategy base;
    int best;        /* only nodes that hold data have noise: W = C^-1 */
    int zeros, ones; /* a and b */
    uint64_t end;    /* the word of leaf n */
} smooth_strategy;

/* Words with i zeros and j ones, i + j <= SMOOTH_HEIGHT_MAX; INT64_MAX where they are more. */
int64_t smooth_leaves(int i, int j);

uint64_t smooth_word(const smooth_strategy *s, int64_t t); /* of leaf t; the first bit of the word is the highest */
uint64_t smooth_next(uint64_t word);                       /* the next number with as many ones */

/* The nodes of leaf `word` that are rows of C, as the set of the places of their last bit. */
uint64_t smooth_rows_of(const smooth_strategy *s, uint64_t word);

/* The places above the highest bit in which two words differ: a node with its last bit there holds both or neither. */
uint64_t smooth_shared(uint64_t a, uint64_t b);

DPMF_MUST_CHECK dpmf_status smooth_sensitivity(const dpmf_strategy *core, const sensitivity_task *task, int *done,
                                               sensitivity_found *out);

#endif
