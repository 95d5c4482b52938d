/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded strategies from data: C[t,u] = 0 for t - u >= b (McKenna 2024, Section 3.1; Algorithm 1 there streams C^-1):
 *
 *     y_t = (z_t - sum_{j=1..b-1} C[t,t-j] y_{t-j}) / C[t,t],   b - 1 rows kept.
 */
#include "families/banded/banded.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct banded {
    dpmf_strategy base;
    int64_t bands;
    double *rows; /* rows[t * bands + j] = C[t, t-j] */
} banded;

STRATEGY_CAST(banded)

static void banded_release(dpmf_strategy *s) {
    base_free(((banded *)s)->rows);
}

static dpmf_status banded_apply(const dpmf_strategy *s, const double *x, double *y) {
    base_banded_apply(s->steps, cast(s)->bands, cast(s)->rows, x, y);
    return DPMF_OK;
}

static dpmf_status banded_solve(const dpmf_strategy *s, const double *y, double *x) {
    base_banded_solve(s->steps, cast(s)->bands, cast(s)->rows, y, x);
    return DPMF_OK;
}

static int64_t banded_bands(const dpmf_strategy *s) {
    return cast(s)->bands;
}

static int64_t banded_buffers(const dpmf_strategy *s) {
    return cast(s)->bands - 1;
}

static void banded_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                        double *row) {
    int64_t buffers = cast(s)->bands - 1;
    const double *c = cast(s)->rows + t * cast(s)->bands;
    for (int64_t i = 0; i < count; i++)
        row[i] = seed[i];
    for (int64_t j = 1; j <= buffers && j <= t; j++) {
        const double *past = state + ((t - j) % buffers) * count;
        for (int64_t i = 0; i < count; i++)
            row[i] -= c[j] * past[i];
    }
    for (int64_t i = 0; i < count; i++)
        row[i] /= c[0];
    if (buffers > 0) memcpy(state + (t % buffers) * count, row, (size_t)count * sizeof *row);
}

static void banded_row(const dpmf_strategy *s, int64_t t, double *values) {
    memcpy(values, cast(s)->rows + t * cast(s)->bands, (size_t)cast(s)->bands * sizeof *values);
}

static dpmf_status banded_column(const dpmf_strategy *s, int64_t j, double *column) {
    int64_t bands = cast(s)->bands;
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps && t - j < bands; t++)
        column[t] = cast(s)->rows[t * bands + t - j];
    return DPMF_OK;
}

static void banded_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)w;
    base_tensors_add(tensors, "strategy.rows", s->steps, cast(s)->bands, cast(s)->rows);
}

static const strategy_ops BANDED = {.class_name = "banded",
                                    .release = banded_release,
                                    .apply = banded_apply,
                                    .solve = banded_solve,
                                    .step = banded_step,
                                    .buffers = banded_buffers,
                                    .column = banded_column,
                                    .bands = banded_bands,
                                    .row = banded_row,
                                    .write = banded_write};

static dpmf_status check_rows(int64_t steps, int64_t bands, const double *rows) {
    TRY(base_check_finite(steps * bands, rows, "banded C: entry"));
    for (int64_t t = 0; t < steps && t < bands; t++)
        for (int64_t j = t + 1; j < bands; j++)
            if (rows[t * bands + j] != 0)
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "banded C: row %lld, band %lld = %g lies left of column 0, accepted 0", (long long)t,
                                 (long long)j, rows[t * bands + j]);
    return DPMF_OK;
}

dpmf_status dpmf_strategy_create_banded(int64_t steps, int64_t bands, const double *rows, dpmf_strategy **out) {
    banded *s = NULL;
    dpmf_status status = DPMF_OK;
    if (rows == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "banded C: the rows are NULL");
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    if (bands < 1 || bands > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: bands = %lld, accepted 1 to %lld (the steps)",
                         (long long)bands, (long long)steps);
    if (steps > INT64_MAX / bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: %lld x %lld numbers are beyond any memory", (long long)steps,
                         (long long)bands);
    TRY(check_rows(steps, bands, rows));
    TRY(strategy_new(&BANDED, sizeof *s, DPMF_FAMILY_BANDED, steps, (dpmf_strategy **)&s));
    s->bands = bands;
    TRY_DONE(base_alloc_doubles(steps * bands, "the bands of C", &s->rows));
    memcpy(s->rows, rows, (size_t)(steps * bands) * sizeof *rows);
    for (int64_t t = steps - 1; t >= 0; t--)
        if (rows[t * bands] == 0) s->base.singular_at = t;
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status banded_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *rows = NULL;
    TRY(strategy_array(source, "strategy.rows", source->steps, -1, &rows));
    return dpmf_strategy_create_banded(source->steps, rows->shape[1], rows->values, out);
}
