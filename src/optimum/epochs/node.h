/* SPDX-License-Identifier: Apache-2.0 */
/*
 * (K + sV)^-1 for a few shifts s side by side, where V couples the steps of one unit: the blocks that the dual needs,
 * and the factors that determine the others. Steps are t = i + e b: position i < b within epoch e < k. Steps past the
 * last, n <= t < k b, are padding: 1 on the diagonal of A^-1 and of V, coupled to nothing.
 */
#ifndef DPMF_OPTIMUM_EPOCHS_NODE_H
#define DPMF_OPTIMUM_EPOCHS_NODE_H

#include "base/status.h"
#include "kernels/block/block.h"

enum { EPOCHS_SIDE = KERNELS_BLOCK_SIDE }; /* shifts */

typedef struct epochs_shape {
    int64_t n, k, b;
    int p;           /* sub-diagonals of A^-1 = Q, 1 or 2; b > p */
    int64_t inner;   /* b - p positions, eliminated in order; the p others are the border */
    int64_t width;   /* of a row over position i, the p after it, and the border: (2p+1) k */
    int64_t beside;  /* of a row over all of these but position i: 2 p k */
    int64_t border;  /* of a row over the border: p k */
    double *band[3]; /* band[j][i k + e] = Q[t+j, t] / sqrt(p_t), p the weights of the steps */
    /*
     * For rows instead of columns, time runs backwards (t becomes k b - 1 - t), band[j] of t is Q[t, t-j], and
     * mix[i k k ...], upper triangular, holds the reversed L_i^-1 that couples the rows of a position.
     */
    double *mix;
} epochs_shape;

/* Named workloads without Nesterov momentum, b > p. `reversed` as for `mix`, which the caller fills. */
DPMF_MUST_CHECK dpmf_status epochs_shape_create(const dpmf_workload *workload, int64_t k, int64_t b, int reversed,
                                                epochs_shape *out);
/* Not for a reversed one. weights NULL: all ones. */
void epochs_shape_weigh(epochs_shape *shape, const dpmf_workload *workload, const double *weights);
void epochs_shape_free(epochs_shape *shape);

/*
 * The results of a few shifts, numbers of all shifts side by side. With T = (K + sV)^-1, J the p positions after i and
 * the border:
 */
typedef struct epochs_node {
    kernels_block_side
        *rows; /* inner x k x width: the factor; afterwards E_i, from column k on, with T[i,c] = E_i T[J,c] */
    kernels_block_side *blocks; /* inner x k x width: T[i,i], then T[i,J] from column k on */
    kernels_block_side *border; /* border x border: T of the border */
    kernels_block_side *work;   /* scratch */
} epochs_node;

DPMF_MUST_CHECK dpmf_status epochs_node_create(const epochs_shape *shape, epochs_node *out);
void epochs_node_free(epochs_node *node);

/* lower: b blocks of k x k, V_i = L_i L_i'. */
void epochs_node_run(const epochs_shape *shape, const double *lower, const double shift[EPOCHS_SIDE],
                     epochs_node *node);

/* T[i,i], k rows; *stride: from one to the next. */
const kernels_block_side *epochs_node_block(const epochs_shape *shape, const epochs_node *node, int64_t i,
                                            int64_t *stride);

#endif
