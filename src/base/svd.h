/* SPDX-License-Identifier: Apache-2.0 */
/* The singular value decomposition of a square matrix, by LAPACK's divide and conquer. */
#ifndef DPMF_BASE_SVD_H
#define DPMF_BASE_SVD_H

#include "base/status.h"

/* a (n x n, row-major) = u diag(values) a': on return the rows of `a` are the right singular vectors. */
DPMF_MUST_CHECK dpmf_status base_svd(int64_t n, double *a, double *values, double *u);

#endif
