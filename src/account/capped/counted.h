/* SPDX-License-Identifier: Apache-2.0 */
/* Steps in which a unit, or a group of units, counts a random number of times: fixed-size batches, and groups. */
#ifndef DPMF_ACCOUNT_COUNTED_H
#define DPMF_ACCOUNT_COUNTED_H

#include "account/grid/grid.h"

enum { COUNTED_MAX = 256, COUNTED_GROUP_MAX = 10000 };

/* The law of J, the number of times that the group counts in a step; each number is within 1e-11 of itself. */
typedef struct counted_law {
    int count;                      /* the largest J that has its own weight */
    double weight[COUNTED_MAX + 1]; /* P[J = j], j <= count */
    double log_weight[COUNTED_MAX + 1];
    double some;                    /* P[J >= 1] */
    double beyond[COUNTED_MAX + 2]; /* P[J >= j], from above, j <= count + 1 */
} counted_law;

/* J of Bin(n, p), 0 < p < 1; of the number of marked units among M of N units, G of which are marked, G + M <= N. */
void counted_binomial(int64_t n, double p, counted_law *out);
void counted_hypergeometric(int64_t units, int64_t marked, int64_t draws, counted_law *out);

typedef struct counted_scheme {
    counted_law law;
    double mu;     /* 1/sigma */
    int displaced; /* 1: where the group counts, it takes the place of other units */
    dpmf_adjacency adjacency;
} counted_scheme;

/* The curve at a = 1 + less_one >= 1, of removing the group or, `add`, of adding it: from above, near while above `mass`. */
double counted_curve(const counted_scheme *s, int add, double less_one, double mass);

/* The schemes of a question, one for each size of a block; the larger curve of them holds. */
typedef struct counted_sizes {
    int count;
    counted_scheme sizes[2];
} counted_sizes;

/* Does the question need this account? */
int counted_applies(const account_question *q);
/* 0: in some block all units may be needed for a batch, and only the noise without the sampling protects. */
int counted_make(const account_question *q, counted_sizes *out);
/* As a part of a list; it borrows the schemes. */
grid_part counted_part(const counted_sizes *sizes, int64_t times);

#endif
