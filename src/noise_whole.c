/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The whole left inverse W of a strategy that does not stream, length x seeds doubles. A dense C is inverted in place;
 * for anything else column j is the answer to the unit vector j.
 */
#include "noise_plan.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <string.h>

static dpmf_status by_columns(const dpmf_strategy *s, double *w) {
    int64_t n = s->steps, rows = dpmf_strategy_rows(s);
    double *unit = NULL, *column = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(dpmf_i_alloc_doubles(rows, "a unit vector", &unit));
    TRY_DONE(dpmf_i_alloc_doubles(n, "a column", &column));
    for (int64_t j = 0; j < rows; j++) {
        unit[j] = 1;
        TRY_DONE(dpmf_strategy_solve(s, unit, column));
        unit[j] = 0;
        for (int64_t t = 0; t < n; t++)
            w[t * rows + j] = column[t];
    }
done:
    dpmf_i_free(unit);
    dpmf_i_free(column);
    return status;
}

dpmf_status dpmf_i_whole_inverse(const dpmf_strategy *s, double *w) {
    const double *matrix = dpmf_i_strategy_dense_matrix(s);
    if (matrix == NULL) return by_columns(s, w);
    memcpy(w, matrix, (size_t)(s->steps * s->steps) * sizeof *w);
    return dpmf_i_lower_invert(s->steps, w);
}
