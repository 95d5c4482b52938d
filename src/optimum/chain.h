/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A' of a named workload as a chain from the last step to the first: x = A'y by
 *
 *     l_t = keep_t l_{t+1} + y_t
 *     m_t = momentum_t x_{t+1} + cross_t l_{t+1} + fresh_t y_t
 *     x_t = m_t + offset_t l_t
 *
 * with cross_t = fresh_t keep_t - momentum_t offset_{t+1}; the state past the end is 0. Every coefficient is
 * non-negative except cross_t and, in the reversed chain, fresh_t; where learning rates do not rise, these are too.
 */
#ifndef DPMF_OPTIMUM_CHAIN_H
#define DPMF_OPTIMUM_CHAIN_H

#include "base/status.h"

typedef struct optimum_chain {
    int64_t n;
    double *keep, *momentum, *fresh, *offset, *cross;
    int positive; /* is every coefficient >= 0? */
} optimum_chain;

/*
 * The chain of A' (reversed = 0) or of (J A' J)', J the reversal of the steps (reversed = 1). Named workloads.
 * DPMF_ERROR_UNSUPPORTED for a reversed one with Nesterov momentum whose state becomes 0 at some step (decay x rate =
 * 1).
 */
DPMF_MUST_CHECK dpmf_status optimum_chain_create(const dpmf_workload *workload, int reversed, optimum_chain *out);
void optimum_chain_free(optimum_chain *chain);

#endif
