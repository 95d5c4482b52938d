/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leading block of a strategy: what the first steps of a run are by themselves. C is lower triangular, so the first m
 * rows of C^-1 Z are those of (C_m)^-1 Z_m, with C_m the leading m x m block; where C is not square, of its lower-triangular
 * form, whose noise has the same law (strategy/triangular.c). Toeplitz and banded strategies stay what they are; of others
 * the block is formed.
 */
#include "base/lower.h"
#include "base/memory.h"
#include "strategy/strategy.h"

#include <string.h>

enum { FORMED_MAX = 8192 }; /* 512 MiB */

static dpmf_status make_banded(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    const int64_t held = strategy_bands(s), bands = held < steps ? held : steps;
    double *rows = NULL, *row = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(steps * bands, "the leading rows", &rows));
    TRY_DONE(base_alloc_doubles(held, "a row", &row));
    for (int64_t t = 0; t < steps; t++) {
        s->ops->row(s, t, row);
        memcpy(rows + t * bands, row, (size_t)bands * sizeof *row);
    }
    TRY_DONE(families_table.bands(steps, bands, rows, out));
done:
    base_free(rows);
    base_free(row);
    return status;
}

static dpmf_status make_dense(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    double *matrix = NULL, *column = NULL;
    dpmf_status status = DPMF_OK;
    if (steps > FORMED_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "the first %lld steps of a strategy (%s) that is neither Toeplitz nor banded: accepted up to "
                         "%d; the epsilon of the whole run holds for every part of it",
                         (long long)steps, dpmf_strategy_family(s), FORMED_MAX);
    TRY_DONE(base_alloc_square(steps, "the leading block", &matrix));
    TRY_DONE(base_alloc_doubles(dpmf_strategy_rows(s), "a column", &column));
    for (int64_t j = 0; j < steps; j++) {
        TRY_DONE(dpmf_strategy_column(s, j, column));
        for (int64_t t = j; t < steps; t++)
            matrix[t * steps + j] = column[t];
    }
    TRY_DONE(strategy_create_matrix(steps, matrix, out));
done:
    base_free(matrix);
    base_free(column);
    return status;
}

/* A stream that takes one new seed a step has a W, and so a C, that is lower triangular. A square C alone may be anything. */
static int is_triangular(const dpmf_strategy *s) {
    if (dpmf_strategy_rows(s) != s->steps) return 0;
    if (strategy_matrix(s) != NULL) return 1;
    if (!dpmf_strategy_streams(s)) return 0;
    for (int64_t t = 0; t < s->steps; t++)
        if (dpmf_strategy_seeds(s, t) != 1) return 0;
    return 1;
}

dpmf_status strategy_create_leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    const double *c = NULL, *inverse = NULL;
    int64_t count = 0, inverse_count = 0;
    dpmf_strategy *square = NULL;
    if (steps == s->steps) {
        *out = strategy_retain(s);
        return DPMF_OK;
    }
    if (s->ops->leading != NULL) return s->ops->leading(s, steps, out);
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse)) {
        if (c != NULL) return families_table.toeplitz(steps, count < steps ? count : steps, c, out);
        if (inverse != NULL)
            return families_table.inverse_toeplitz(steps, inverse_count < steps ? inverse_count : steps, inverse, out);
    }
    if (strategy_can(s, STRATEGY_CAN_ROW)) return make_banded(s, steps, out);
    if (is_triangular(s)) return make_dense(s, steps, out);
    TRY(dpmf_strategy_create_triangular(s, &square));
    dpmf_status status = make_dense(square, steps, out);
    dpmf_strategy_free(square);
    return status;
}
