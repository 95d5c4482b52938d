/* SPDX-License-Identifier: Apache-2.0 */
/* Whole lower-triangular matrices as users give them. */
#include "base/lower.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>

dpmf_status base_alloc_square(int64_t n, const char *what, double **out) {
    /* 2^31 squared still fits an int64_t; the allocator refuses what does not fit the machine */
    if (n > ((int64_t)1 << 31))
        return base_fail(DPMF_ERROR_MEMORY, "%s: %" PRId64 " x %" PRId64 " numbers are beyond any memory", what, n, n);
    return base_alloc_doubles(n * n, what, out);
}

dpmf_status base_lower_check(int64_t n, const double *matrix, const char *what, int need_inverse) {
    for (int64_t t = 0; t < n; t++) {
        for (int64_t u = 0; u < n; u++) {
            double x = matrix[t * n + u];
            if (!isfinite(x))
                return base_fail(DPMF_ERROR_ARGUMENT, "%s[%" PRId64 ",%" PRId64 "] = %g, accepted: finite numbers",
                                 what, t, u, x);
            if (u > t && x != 0)
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "%s[%" PRId64 ",%" PRId64 "] = %g, accepted: 0 above the diagonal (lower triangular)",
                                 what, t, u, x);
        }
        if (need_inverse && matrix[t * n + t] == 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "%s[%" PRId64 ",%" PRId64 "] = 0, accepted: a non-zero diagonal",
                             what, t, t);
    }
    return DPMF_OK;
}

dpmf_status base_check_finite(int64_t count, const double *values, const char *what) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return base_fail(DPMF_ERROR_ARGUMENT, "%s %" PRId64 " = %g, accepted: finite numbers", what, i, values[i]);
    return DPMF_OK;
}
