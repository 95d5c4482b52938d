/* SPDX-License-Identifier: Apache-2.0 */
/* Losses of a BLT put together from the closed forms of families/blt/blt.h: what the whole evaluation must agree with. */
#include "oracle/oracle.h"

#include <math.h>

dpmf_status oracle_blt_losses(const blt_parameters *c, int64_t n, int64_t k, int64_t b, oracle_losses *out) {
    double sum = 0;
    for (int i = 0; i < c->count; i++)
        sum += c->scale[i];
    if (!blt_is_positive(c) || (k > 1 && !(sum <= 1)))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "blt: closed forms need positive scales with a sum of at most 1 and different decays; the "
                         "sum is %g",
                         sum);
    blt_parameters inverse = blt_invert(c);
    double s = sqrt(blt_pattern_square(c, n, k, b));
    *out = (oracle_losses){.sensitivity = s,
                           .rms_loss = s * sqrt(blt_frobenius_square(&inverse, n) / (double)n),
                           .max_loss = s * sqrt(blt_last_row_square(&inverse, n))};
    return DPMF_OK;
}
