/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column normalization, a wrapper around any strategy: C' = C D^-1 with D = diag(norms of the columns of C), so
 * C'^-1 = D C^-1 and the noise of step t is scaled by d_t (McKenna 2024, Section 3.2 and Appendix K; Pillutla et al.
 * 2025, Definition 2.10). Sensitivity becomes 1 under single participation, at the same cost per step.
 */
#include "families/wrappers/wrappers.h"

#include "base/memory.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct normalized {
    dpmf_strategy base;
    dpmf_strategy *inner;
    double *norms; /* d_t */
} normalized;

STRATEGY_CAST(normalized)

static void normalized_release(dpmf_strategy *s) {
    dpmf_strategy_free(((normalized *)s)->inner);
    base_free(((normalized *)s)->norms);
}

static dpmf_status normalized_apply(const dpmf_strategy *s, const double *x, double *y) {
    const normalized *self = cast(s);
    double *scaled = NULL;
    TRY(base_alloc_doubles(s->steps, "a scaled vector", &scaled));
    for (int64_t t = 0; t < s->steps; t++)
        scaled[t] = x[t] / self->norms[t];
    dpmf_status status = self->inner->ops->apply(self->inner, scaled, y);
    base_free(scaled);
    return status;
}

static dpmf_status normalized_solve(const dpmf_strategy *s, const double *y, double *x) {
    const normalized *self = cast(s);
    TRY(self->inner->ops->solve(self->inner, y, x));
    for (int64_t t = 0; t < s->steps; t++)
        x[t] *= self->norms[t];
    return DPMF_OK;
}

static int64_t normalized_buffers(const dpmf_strategy *s) {
    return cast(s)->inner->ops->buffers(cast(s)->inner);
}

static double normalized_normals(const dpmf_strategy *s) {
    return strategy_normals(cast(s)->inner);
}

static void normalized_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                            double *row) {
    const normalized *self = cast(s);
    self->inner->ops->step(self->inner, t, count, seed, state, row);
    for (int64_t i = 0; i < count; i++)
        row[i] *= self->norms[t];
}

static int64_t normalized_rows(const dpmf_strategy *s) {
    return strategy_rows(cast(s)->inner);
}

static int64_t normalized_seeds(const dpmf_strategy *s, int64_t t) {
    return dpmf_strategy_seeds(cast(s)->inner, t);
}

static dpmf_status normalized_column(const dpmf_strategy *s, int64_t j, double *column) {
    TRY(dpmf_strategy_column(cast(s)->inner, j, column));
    for (int64_t i = 0; i < strategy_rows(s); i++)
        column[i] /= cast(s)->norms[j];
    return DPMF_OK;
}

static dpmf_status normalized_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    const double *d = cast(s)->norms;
    TRY(strategy_gram(cast(s)->inner, lag, values));
    for (int64_t t = 0; t + lag < s->steps; t++)
        values[t] = lag == 0 ? 1 : values[t] / (d[t] * d[t + lag]);
    return DPMF_OK;
}

static void normalized_covariance(const dpmf_strategy *s, int64_t t, double *values) {
    const double *d = cast(s)->norms;
    cast(s)->inner->ops->covariance(cast(s)->inner, t, values);
    for (int64_t u = t; u < s->steps; u++)
        values[u - t] *= d[t] * d[u];
}

static dpmf_status normalized_column_norms(const dpmf_strategy *s, double *norms) {
    for (int64_t t = 0; t < s->steps; t++)
        norms[t] = 1;
    return DPMF_OK;
}

static void normalized_inverse_part(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values) {
    const normalized *self = cast(s);
    self->inner->ops->inverse_part(self->inner, t, j, count, values);
    for (int64_t i = 0; i < count; i++)
        values[i] *= self->norms[t];
}

static int64_t normalized_bands(const dpmf_strategy *s) {
    return strategy_bands(cast(s)->inner);
}

static void normalized_row(const dpmf_strategy *s, int64_t t, double *values) {
    const normalized *self = cast(s);
    int64_t bands = normalized_bands(s);
    self->inner->ops->row(self->inner, t, values);
    for (int64_t j = 0; j < bands && j <= t; j++)
        values[j] /= self->norms[t - j];
}

static int64_t normalized_inverse_bands(const dpmf_strategy *s) {
    return strategy_inverse_bands(cast(s)->inner);
}

static void normalized_inverse_row(const dpmf_strategy *s, int64_t t, double *values) {
    const normalized *self = cast(s);
    int64_t bands = normalized_inverse_bands(s);
    self->inner->ops->inverse_row(self->inner, t, values);
    for (int64_t j = 0; j < bands; j++)
        values[j] *= self->norms[t];
}

static const dpmf_strategy *normalized_inside(const dpmf_strategy *s, int64_t *stamps, const double **norms) {
    (void)stamps;
    *norms = cast(s)->norms;
    return cast(s)->inner;
}

static void normalized_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    base_json_open(w, "inner", '{');
    strategy_write(cast(s)->inner, w, tensors);
    base_json_close(w, '}');
}

static const strategy_ops NORMALIZED = {.class_name = "normalized",
                                        .release = normalized_release,
                                        .rows = normalized_rows,
                                        .apply = normalized_apply,
                                        .solve = normalized_solve,
                                        .step = normalized_step,
                                        .seeds = normalized_seeds,
                                        .buffers = normalized_buffers,
                                        .normals = normalized_normals,
                                        .column = normalized_column,
                                        .column_norms = normalized_column_norms,
                                        .gram = normalized_gram,
                                        .covariance = normalized_covariance,
                                        .inverse_part = normalized_inverse_part,
                                        .bands = normalized_bands,
                                        .row = normalized_row,
                                        .inverse_bands = normalized_inverse_bands,
                                        .inverse_row = normalized_inverse_row,
                                        .inside = normalized_inside,
                                        .write = normalized_write};

dpmf_status dpmf_strategy_create_normalized(const dpmf_strategy *strategy, dpmf_strategy **out) {
    normalized *s = NULL;
    dpmf_status status = DPMF_OK;
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "strategy: NULL");
    if (strategy->ops == &NORMALIZED) { /* normalizing twice changes nothing */
        *out = strategy_retain(strategy);
        return DPMF_OK;
    }
    TRY(strategy_need_inverse(strategy));
    TRY(strategy_new(&NORMALIZED, sizeof *s, strategy->family, strategy->steps, (dpmf_strategy **)&s));
    s->base.can &= strategy->can | STRATEGY_CAN_GRAM;
    TRY_DONE(base_alloc_doubles(strategy->steps, "the column norms", &s->norms));
    TRY_DONE(dpmf_strategy_column_norms(strategy, s->norms));
    for (int64_t t = 0; t < strategy->steps; t++)
        if (!(s->norms[t] > 0 && isfinite(s->norms[t]))) {
            status = base_fail(DPMF_ERROR_NUMERICAL, "the norm of column %lld is %g, accepted: positive and finite",
                               (long long)t, s->norms[t]);
            goto done;
        }
    s->inner = strategy_retain(strategy);
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

/* The norms are computed again, so that they cannot disagree with the strategy inside. */
dpmf_status wrappers_read_normalized(const strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    TRY(base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(strategy_read(object, source->steps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_normalized(inner, out);
    dpmf_strategy_free(inner);
    return status;
}
