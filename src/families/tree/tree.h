/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The binary tree over steps that tree aggregation counts with. Leaves are the steps 0..n-1; node (l, j) covers the
 * leaves [j 2^l, (j+1) 2^l), cut off at n; levels 0..L with L = ceil(log2 n). A node is complete when none of its
 * leaves is cut off, touched when it has a leaf at all. The incomplete touched nodes are all ancestors of leaf n-1.
 */
#ifndef DPMF_FAMILIES_TREE_H
#define DPMF_FAMILIES_TREE_H

#include "error/error.h"
#include "noise/noise.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"

typedef enum tree_kind {
    TREE_VANILLA = 0, /* rows: complete nodes; sums from the nodes of the binary expansion */
    TREE_ONLINE,      /* rows: touched nodes; each node estimated from itself and everything below it */
    TREE_FULL         /* rows: touched nodes; the best linear decoder */
} tree_kind;

int tree_bit_length(int64_t x); /* x >= 0 */

int tree_levels(int64_t steps);

enum { TREE_LEVELS_MAX = 54 };

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
typedef struct tree_step {
    int top; /* c */
    double alpha[TREE_LEVELS_MAX], beta[TREE_LEVELS_MAX];
} tree_step;

/* The best decoder's weights: 1' G^-1 1 for the subtree of node (l, j); 0 if it has no leaf. Filled in once per n. */
typedef struct tree_weights {
    int64_t steps;
    int levels;
    double complete[TREE_LEVELS_MAX], spine[TREE_LEVELS_MAX];
} tree_weights;

DPMF_MUST_CHECK dpmf_status tree_create(tree_kind kind, int64_t steps, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status tree_read(const strategy_source *source, dpmf_strategy **out);

typedef struct tree_strategy {
    dpmf_strategy base;
    tree_kind kind;
    int levels;
    tree_weights weights;
} tree_strategy;

tree_kind tree_kind_of(const dpmf_strategy *s); /* s is a tree */

DPMF_MUST_CHECK dpmf_status tree_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                                             sensitivity_found *out);

#endif
