/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Singular value decomposition. LAPACK is column-major: our row-major a is its a^T = Z Sigma U^T, so its left vectors,
 * which it can write over the matrix, are our right ones.
 */
#include "base/svd.h"

#include "base/lower.h"
#include "base/memory.h"

#include <inttypes.h>
#include <lapacke.h>
#include <limits.h>

dpmf_status base_svd(int64_t n, double *a, double *values, double *u) {
    double *work = NULL, size = 0;
    lapack_int *integers = NULL, order = (lapack_int)n;
    dpmf_status status = DPMF_OK;
    if (n < 1 || n > 20000)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "singular vectors of a %" PRId64 " x %" PRId64 " matrix, accepted up to 20000", n, n);
    TRY(base_check_finite(n * n, a, "an entry of a matrix whose singular vectors are wanted:"));
    TRY_DONE(base_alloc(8 * n, sizeof *integers, "work space", (void **)&integers));
    lapack_int info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'O', order, order, a, order, values, NULL, order, u, order,
                                          &size, -1, integers);
    if (info == 0) {
        TRY_DONE(base_alloc_doubles((int64_t)size, "work space", &work));
        info = LAPACKE_dgesdd_work(LAPACK_COL_MAJOR, 'O', order, order, a, order, values, NULL, order, u, order, work,
                                   (lapack_int)size, integers);
    }
    if (info != 0)
        status = base_fail(DPMF_ERROR_NUMERICAL,
                           "the singular vectors of a %" PRId64 " x %" PRId64 " matrix did not converge", n, n);
done:
    base_free(work);
    base_free(integers);
    return status;
}
