/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dense strategies from data: any lower-triangular C (Denisov et al. 2022). A stream must keep every earlier row:
 *
 *     y_t = (z_t - sum_{u<t} C[t,u] y_u) / C[t,t].
 */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct dense {
    dpmf_strategy base;
    double *matrix; /* n x n, row-major */
} dense;

STRATEGY_CAST(dense)

static void dense_release(dpmf_strategy *s) {
    base_free(((dense *)s)->matrix);
}

static dpmf_status dense_apply(const dpmf_strategy *s, const double *x, double *y) {
    base_lower_apply(s->steps, cast(s)->matrix, x, y);
    return DPMF_OK;
}

static dpmf_status dense_solve(const dpmf_strategy *s, const double *y, double *x) {
    base_lower_solve(s->steps, cast(s)->matrix, y, x);
    return DPMF_OK;
}

static int64_t dense_buffers(const dpmf_strategy *s) {
    return s->steps - 1;
}

static void dense_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                       double *row) {
    const double *c = cast(s)->matrix + t * s->steps;
    for (int64_t i = 0; i < count; i++)
        row[i] = seed[i];
    for (int64_t u = 0; u < t; u++)
        for (int64_t i = 0; i < count; i++)
            row[i] -= c[u] * state[u * count + i];
    for (int64_t i = 0; i < count; i++)
        row[i] /= c[t];
    if (t < s->steps - 1) memcpy(state + t * count, row, (size_t)count * sizeof *row);
}

static dpmf_status dense_column(const dpmf_strategy *s, int64_t j, double *column) {
    for (int64_t t = 0; t < s->steps; t++)
        column[t] = cast(s)->matrix[t * s->steps + j];
    return DPMF_OK;
}

/* Row by row of C, so that memory is read in order. */
static dpmf_status dense_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t n = s->steps;
    memset(values, 0, (size_t)(n - lag) * sizeof *values);
    for (int64_t i = lag; i < n; i++) {
        const double *c = cast(s)->matrix + i * n;
        for (int64_t t = 0; t + lag <= i; t++)
            values[t] += c[t] * c[t + lag];
    }
    return DPMF_OK;
}

static void dense_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)w;
    base_tensors_add(tensors, "strategy.matrix", s->steps, s->steps, cast(s)->matrix);
}

static const double *dense_matrix(const dpmf_strategy *s) {
    return cast(s)->matrix;
}

static const strategy_ops DENSE = {.class_name = "dense",
                                   .release = dense_release,
                                   .apply = dense_apply,
                                   .solve = dense_solve,
                                   .step = dense_step,
                                   .buffers = dense_buffers,
                                   .column = dense_column,
                                   .gram = dense_gram,
                                   .matrix = dense_matrix,
                                   .write = dense_write};

dpmf_status dpmf_strategy_create_dense(int64_t steps, const double *matrix, dpmf_strategy **out) {
    dense *s = NULL;
    dpmf_status status = DPMF_OK;
    if (matrix == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "dense C: the matrix is NULL");
    TRY(strategy_new(&DENSE, sizeof *s, DPMF_FAMILY_DENSE, steps, (dpmf_strategy **)&s));
    TRY_DONE(base_alloc_square(steps, "the matrix C", &s->matrix));
    TRY_DONE(base_lower_check(steps, matrix, "C", 0));
    memcpy(s->matrix, matrix, (size_t)(steps * steps) * sizeof *matrix);
    for (int64_t t = steps - 1; t >= 0; t--)
        if (matrix[t * steps + t] == 0) s->base.singular_at = t;
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status dense_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *matrix = NULL;
    TRY(strategy_array(source, "strategy.matrix", source->steps, source->steps, &matrix));
    return dpmf_strategy_create_dense(source->steps, matrix->values, out);
}
