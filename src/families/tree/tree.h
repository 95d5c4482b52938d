/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary tree over steps that tree aggregation counts with. Leaves are the steps 0..n-1; node (l, j) covers the
 * leaves [j 2^l, (j+1) 2^l), cut off at n; levels 0..L with L = ceil(log2 n). A node is complete when none of its
 * leaves is cut off, touched when it has a leaf at all. The incomplete touched nodes are all ancestors of leaf n-1.
 */
#ifndef DPMF_STRATEGY_TREE_H
#define DPMF_STRATEGY_TREE_H

#include "base/status.h"

typedef enum strategy_tree_kind {
    STRATEGY_TREE_VANILLA = 0, /* rows: complete nodes; sums from the nodes of the binary expansion */
    STRATEGY_TREE_ONLINE,      /* rows: touched nodes; each node estimated from itself and everything below it */
    STRATEGY_TREE_FULL         /* rows: touched nodes; the best linear decoder */
} strategy_tree_kind;

static inline int strategy_trailing_zeros(int64_t x) { /* x > 0 */
    return __builtin_ctzll((unsigned long long)x);
}

static inline int strategy_bit_length(int64_t x) { /* x >= 0 */
    return x == 0 ? 0 : 64 - __builtin_clzll((unsigned long long)x);
}

static inline int strategy_tree_levels(int64_t steps) {
    return strategy_bit_length(steps - 1);
}

enum { STRATEGY_TREE_LEVELS_MAX = 54 };

/*
 * How step t builds on the nodes before it. Let c be the level of the largest node that ends with leaf t (at the last
 * step of a tree that keeps touched nodes: L). Pending complete nodes are those of the binary expansion of t, one for
 * each of its set bits l, with estimates E_l; those with l < c become part of the new node:
 *
 *     e = sum_{l<=c} alpha_l Z_(t,l) + sum_{l<c, bit l of t} beta_l E_l        estimate of the new node
 *     y_t = e - sum_{l<c, bit l of t} E_l,   E_c = e
 *
 * Z_(t,l) is the seed of the node of level l that ends with leaf t.
 */
typedef struct strategy_tree_step {
    int top; /* c */
    double alpha[STRATEGY_TREE_LEVELS_MAX], beta[STRATEGY_TREE_LEVELS_MAX];
} strategy_tree_step;
void strategy_tree_step_at(strategy_tree_kind kind, int64_t steps, int64_t t, strategy_tree_step *out);

/* The best decoder's weights: 1' G^-1 1 for the subtree of node (l, j); 0 if it has no leaf. Filled in once per n. */
typedef struct strategy_tree_weights {
    int64_t steps;
    int levels;
    double complete[STRATEGY_TREE_LEVELS_MAX], spine[STRATEGY_TREE_LEVELS_MAX];
} strategy_tree_weights;
void strategy_tree_weights_fill(int64_t steps, strategy_tree_weights *out);
double strategy_tree_weight(const strategy_tree_weights *w, int level, int64_t j);

#endif
