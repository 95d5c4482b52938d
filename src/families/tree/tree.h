/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tree over steps that tree aggregation counts with: every node has B children, the branching factor; B = 2 is the
 * binary tree. Leaves are the steps 0..n-1; node (l, j) covers the leaves [j B^l, (j+1) B^l), cut off at n; levels 0..L with
 * L = ceil(log_B n). A node is complete when none of its leaves is cut off, touched when it has a leaf at all. The
 * incomplete touched nodes are all ancestors of leaf n-1. families/tree/smooth.c has another choice of leaves and rows.
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

enum { TREE_LEVELS_MAX = 54 };

/*
 * How step t builds on the nodes before it. Let c be the level of the largest node that ends with leaf t (at the last
 * step of a tree that keeps touched nodes: L). Pending complete nodes are those of the expansion of t to the base B: as many
 * of level l as its digit l, with estimates whose sum is E_l; those with l < c become part of the new node:
 *
 *     e = sum_{l<=c} alpha_l Z_(t,l) + sum_{l<c, digit l of t > 0} beta_l E_l        estimate of the new node
 *     y_t = e - sum_{l<c, digit l of t > 0} E_l,   E_c grows by e
 *
 * Z_(t,l) is the seed of the node of level l that ends with leaf t.
 */
typedef struct tree_step {
    int top; /* c */
    double alpha[TREE_LEVELS_MAX], beta[TREE_LEVELS_MAX];
} tree_step;

/* The best decoder's weights: 1' G^-1 1 for the subtree of node (l, j); 0 if it has no leaf. Filled in once per n. */
typedef struct tree_weights {
    double complete[TREE_LEVELS_MAX], spine[TREE_LEVELS_MAX];
} tree_weights;

/* B^L < n B <= 2^53 2^10 fits into 63 bits. */
enum { TREE_BRANCHING_MAX = 1024 };

DPMF_MUST_CHECK dpmf_status tree_create(tree_kind kind, int64_t steps, int64_t branching, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status tree_read(const strategy_source *source, dpmf_strategy **out);

typedef struct tree_strategy {
    dpmf_strategy base;
    tree_kind kind;
    int levels;
    int64_t branching, size[TREE_LEVELS_MAX]; /* size: B^l leaves */
    tree_weights weights;
} tree_strategy;

/* The node of level l over leaf t. Shifts are several times faster than divisions, and most trees are binary. */
static inline int64_t tree_node(const tree_strategy *s, int64_t t, int l) {
    return s->branching == 2 ? t >> l : t / s->size[l];
}

static inline int64_t tree_digit(const tree_strategy *s, int64_t t, int l) {
    return s->branching == 2 ? t >> l & 1 : t / s->size[l] % s->branching;
}

DPMF_MUST_CHECK dpmf_status tree_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                                             sensitivity_found *out);

/* ---- participations counted under nodes, for any tree over the steps (families/tree/places.c) ---- */

/*
 * Shuffled participation: the best sum of squares under the steps [start, end), by whether the pick of the first epoch that
 * it touches lies there, and that of the last. In one epoch the two are the same pick.
 */
typedef struct tree_epochs {
    int64_t start, end;
    double best[2][2];
} tree_epochs;
tree_epochs tree_epochs_leaf(int64_t t, double own); /* own: the rows of C that hold this leaf alone */
tree_epochs tree_epochs_join(const tree_epochs *left, const tree_epochs *right, int64_t b);
void tree_epochs_add_node(tree_epochs *s, int64_t b); /* the steps are those of a row of C */
double tree_epochs_best(const tree_epochs *s);

/* Min-separation: the largest sums for some neighbouring leaves; tree_places_free ends one. */
typedef struct tree_places {
    int64_t leaves, counts, ends; /* c = 1..counts, s and e = 0..ends-1 */
    double *f;
} tree_places;
DPMF_MUST_CHECK dpmf_status tree_places_leaf(const sensitivity_task *task, double own, tree_places *out);
DPMF_MUST_CHECK dpmf_status tree_places_copy(const tree_places *x, tree_places *out);
/* *whole becomes the two side by side; the arguments are different objects. */
DPMF_MUST_CHECK dpmf_status tree_places_append(const sensitivity_task *task, tree_places *whole, const tree_places *b);
void tree_places_add_node(tree_places *x); /* the leaves are those of a row of C */
double tree_places_best(const tree_places *x);
void tree_places_free(tree_places *x);

/* Multiplications of appending, and numbers held for some leaves. */
double tree_places_work(const sensitivity_task *task, int64_t left, int64_t right);
double tree_places_numbers(const sensitivity_task *task, int64_t leaves);

/* The smooth binary mechanism (families/tree/smooth.c); `best`: without the nodes that hold no data. */
DPMF_MUST_CHECK dpmf_status smooth_create(int64_t steps, int best, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status smooth_read(const strategy_source *source, dpmf_strategy **out);

#endif
