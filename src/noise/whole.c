/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole left inverse W of a strategy that does not stream, length x seeds doubles. A dense C is inverted in place;
 * for anything else column j is the answer to the unit vector j.
 */
#include "noise/plan.h"

#include "base/linalg.h"

#include <string.h>

dpmf_status dpmf_i_noise_whole_inverse(const dpmf_strategy *s, double *w) {
    const double *matrix = dpmf_i_strategy_dense_matrix(s);
    if (matrix == NULL) return dpmf_i_strategy_left_inverse(s, w);
    memcpy(w, matrix, (size_t)(s->steps * s->steps) * sizeof *w);
    return dpmf_i_base_lower_invert(s->steps, w);
}
