/* SPDX-License-Identifier: Apache-2.0 */
/* Whole lower-triangular matrices as users give them: room for them, and the checks. */
#ifndef DPMF_BASE_LOWER_H
#define DPMF_BASE_LOWER_H

#include "base/status.h"

/* n x n doubles, with n * n checked for overflow. */
DPMF_MUST_CHECK dpmf_status base_alloc_square(int64_t n, const char *what, double **out);

/* Finite, zero above the diagonal and, with `need_inverse`, no zero on it. `what` names the matrix in the message. */
DPMF_MUST_CHECK dpmf_status base_lower_check(int64_t n, const double *matrix, const char *what, int need_inverse);

/* Checks that `count` numbers are finite. The message names the first that is not. */
DPMF_MUST_CHECK dpmf_status base_check_finite(int64_t count, const double *values, const char *what);

#endif
