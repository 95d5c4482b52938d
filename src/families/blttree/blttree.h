/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recursive tree over a BLT for prefix sums (the idea of Dvijotham et al. 2024, as Pillutla et al. 2025, Section 2.12,
 * describe it): like a tree, but the sums of the children of a node are released by a BLT and not one by one. The form with
 * one seed per step, the weights and the closed forms follow from the definition below.
 *
 * Step t is the number u = t + 1 with digits u_0, u_1, ... in the branching factors m_0, m_1, ...: an item of level l is M_l =
 * m_0 ... m_{l-1} steps, and the first u steps are u_l finished items of each level. So a level needs the running sums of at
 * most m_l - 1 items, restarts at every item of the level above it, and a step finishes one item of one level: the lowest whose
 * digit of u is not 0. With C_l = BLT(scale, 1 - gap) of that level and w_l its weight
 *
 *     row t of C g = w_l (row u_l of C_l applied to the items' sums),      l the level of step t,
 *
 * which is square and lower-triangular, one seed for each step. Squared column norms and squared errors are sums over levels,
 *
 *     |C[:,j]|^2 = sum_l w_l^2 |C_l[:,j_l]|^2,      |B[t,:]|^2 = sum_l |B_l[u_l,:]|^2 / w_l^2,
 *
 * the longest column is the first one, and with w_l^2 = |B_l| / |C_l| (longest row and column) the max loss is the sum of the
 * levels' own max losses, by Cauchy and Schwarz the least for any weights. L levels over n steps have L (ln(n)/(L pi) + O(1)) =
 * ln(n)/pi + O(L), and buffers that grow like the logarithm of m_l or its square instead of that of n.
 */
#ifndef DPMF_FAMILIES_BLTTREE_H
#define DPMF_FAMILIES_BLTTREE_H

#include "families/blt/blt.h"

enum { BLTTREE_LEVELS_MAX = 53 }; /* of two items each, for 2^53 steps */

/* The largest branching factor: a level's coefficients are held. */
#define BLTTREE_BRANCHING_MAX STRATEGY_HELD_MAX

typedef struct blttree_level {
    int64_t branching;
    int64_t span;  /* M: steps of an item */
    int64_t items; /* of a run: branching - 1 */
    int64_t first; /* its first buffer; after its BLT's buffers follows its running sum, but not at the top */
    double weight;
    blt_parameters c, inverse; /* of no buffers: independent noise */
    double *column;            /* c_0, ..., one number for each item */
    double *squares;           /* c_0^2 + ... of the first 0, 1, ... of them */
} blttree_level;

typedef struct blttree_strategy {
    dpmf_strategy base;
    int levels;
    blttree_level level[BLTTREE_LEVELS_MAX];
    double *numbers; /* of the columns and their squares */
    double *shape;   /* as in the file: levels x (branching, buffers, weight) */
    double *scale, *gap;
    int64_t parameters; /* numbers of scale, and of gap */
} blttree_strategy;

/* The strategy of a workload's family (object.c). */
DPMF_MUST_CHECK dpmf_status blttree_create(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                           dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status blttree_read(const strategy_source *source, dpmf_strategy **out);

static inline const blttree_strategy *blttree_of(const dpmf_strategy *s) {
    return (const blttree_strategy *)s;
}

/* The level of the item that step t finishes. */
static inline int blttree_level_at(const blttree_strategy *s, int64_t t) {
    int64_t u = t + 1;
    int l = 0;
    for (; u % s->level[l].branching == 0; l++)
        u /= s->level[l].branching;
    return l;
}

/* ---- error.c: named workloads step by step, O(levels x buffers + buffers^2) each; prefix sums in closed form ---- */
DPMF_MUST_CHECK dpmf_status blttree_squared_errors(const dpmf_strategy *s, const error_question *q, int *done,
                                                   double *squares);
int blttree_error_range(const dpmf_strategy *s, const dpmf_workload *a, int64_t first, int64_t count, double *squares);
int blttree_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest);

#endif
