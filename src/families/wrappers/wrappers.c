/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Column normalization, a wrapper around any strategy: C' = C D^-1 with D = diag(norms of the columns of C), so
 * C'^-1 = D C^-1 and the noise of step t is scaled by d_t (McKenna 2024, Section 3.2 and Appendix K; Pillutla et al.
 * 2025, Definition 2.10). Sensitivity becomes 1 under single participation, at the same cost per step.
 */
#include "families/families.h"

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

/* The parameters of C before its columns were divided, from which it can be made again. */
static void normalized_describe(const dpmf_strategy *s, dpmf_strategy_info *info) {
    const dpmf_strategy *inner = cast(s)->inner;
    if (inner->ops->describe != NULL) inner->ops->describe(inner, info);
}

static void normalized_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    base_json_open(w, "inner", '{');
    strategy_write(cast(s)->inner, w, tensors);
    base_json_close(w, '}');
}

static const strategy_ops NORMALIZED = {.class_name = "normalized",
                                        .release = normalized_release,
                                        .describe = normalized_describe,
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

/*
 * Stamping, or restarts: C repeated s times down the diagonal, each block over n/s steps (Choquette-Choo et al. 2023,
 * Section 5 and Appendix D; Pillutla et al. 2025, Definition 3.18):
 *
 *     C~ = I_s (x) C,   W~ = I_s (x) W,   B~ = A W~.
 *
 * A restarted decoder and the best one differ only inside a block, since (I (x) C)^+ = I (x) C^+: the family of the
 * block determines which it is. Blocks share no seed, so C~'C~ is block diagonal.
 */

typedef struct stamped {
    dpmf_strategy base;
    dpmf_strategy *inner;
    int64_t stamps, length; /* length: steps of a block */
} stamped;

static const stamped *stamped_of(const dpmf_strategy *s) {
    return (const stamped *)s;
}

static void stamped_release(dpmf_strategy *s) {
    dpmf_strategy_free(((stamped *)s)->inner);
}

static int64_t stamped_rows(const dpmf_strategy *s) {
    return stamped_of(s)->stamps * strategy_rows(stamped_of(s)->inner);
}

static dpmf_status stamped_apply(const dpmf_strategy *s, const double *x, double *y) {
    const stamped *self = stamped_of(s);
    int64_t rows = strategy_rows(self->inner);
    for (int64_t k = 0; k < self->stamps; k++)
        TRY(self->inner->ops->apply(self->inner, x + k * self->length, y + k * rows));
    return DPMF_OK;
}

static dpmf_status stamped_solve(const dpmf_strategy *s, const double *y, double *x) {
    const stamped *self = stamped_of(s);
    int64_t rows = strategy_rows(self->inner);
    for (int64_t k = 0; k < self->stamps; k++)
        TRY(self->inner->ops->solve(self->inner, y + k * rows, x + k * self->length));
    return DPMF_OK;
}

static int64_t stamped_buffers(const dpmf_strategy *s) {
    return strategy_buffers(stamped_of(s)->inner);
}

static double stamped_normals(const dpmf_strategy *s) {
    return strategy_normals(stamped_of(s)->inner);
}

static int64_t stamped_seeds(const dpmf_strategy *s, int64_t t) {
    return dpmf_strategy_seeds(stamped_of(s)->inner, t % stamped_of(s)->length);
}

/* A block starts from rest. */
static void stamped_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                         double *row) {
    const stamped *self = stamped_of(s);
    if (t % self->length == 0) memset(state, 0, (size_t)(stamped_buffers(s) * count) * sizeof *state);
    self->inner->ops->step(self->inner, t % self->length, count, seed, state, row);
}

static dpmf_status stamped_column(const dpmf_strategy *s, int64_t j, double *column) {
    const stamped *self = stamped_of(s);
    memset(column, 0, (size_t)stamped_rows(s) * sizeof *column);
    return dpmf_strategy_column(self->inner, j % self->length, column + j / self->length * strategy_rows(self->inner));
}

static dpmf_status stamped_column_norms(const dpmf_strategy *s, double *norms) {
    const stamped *self = stamped_of(s);
    TRY(dpmf_strategy_column_norms(self->inner, norms));
    for (int64_t k = 1; k < self->stamps; k++)
        memcpy(norms + k * self->length, norms, (size_t)self->length * sizeof *norms);
    return DPMF_OK;
}

static dpmf_status stamped_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    const stamped *self = stamped_of(s);
    memset(values, 0, (size_t)(s->steps - lag) * sizeof *values);
    if (lag >= self->length) return DPMF_OK;
    TRY(strategy_gram(self->inner, lag, values));
    for (int64_t k = 1; k < self->stamps; k++)
        memcpy(values + k * self->length, values, (size_t)(self->length - lag) * sizeof *values);
    return DPMF_OK;
}

static void stamped_covariance(const dpmf_strategy *s, int64_t t, double *values) {
    const stamped *self = stamped_of(s);
    int64_t local = t % self->length, inside = self->length - local;
    self->inner->ops->covariance(self->inner, local, values);
    memset(values + inside, 0, (size_t)(s->steps - t - inside) * sizeof *values);
}

static void stamped_inverse_part(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values) {
    const stamped *self = stamped_of(s);
    int64_t start = t - t % self->length, skip = start > j ? start - j : 0;
    if (skip > count) skip = count;
    memset(values, 0, (size_t)skip * sizeof *values);
    if (skip < count)
        self->inner->ops->inverse_part(self->inner, t - start, j + skip - start, count - skip, values + skip);
}

static int64_t stamped_bands(const dpmf_strategy *s) {
    return strategy_bands(stamped_of(s)->inner);
}

static void stamped_row(const dpmf_strategy *s, int64_t t, double *values) {
    stamped_of(s)->inner->ops->row(stamped_of(s)->inner, t % stamped_of(s)->length, values);
}

static int64_t stamped_inverse_bands(const dpmf_strategy *s) {
    return strategy_inverse_bands(stamped_of(s)->inner);
}

static void stamped_inverse_row(const dpmf_strategy *s, int64_t t, double *values) {
    stamped_of(s)->inner->ops->inverse_row(stamped_of(s)->inner, t % stamped_of(s)->length, values);
}

static const dpmf_strategy *stamped_inside(const dpmf_strategy *s, int64_t *stamps, const double **norms) {
    (void)norms;
    *stamps = stamped_of(s)->stamps;
    return stamped_of(s)->inner;
}

static void stamped_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    base_json_integer(w, "stamps", stamped_of(s)->stamps);
    base_json_open(w, "inner", '{');
    strategy_write(stamped_of(s)->inner, w, tensors);
    base_json_close(w, '}');
}

static const strategy_ops STAMPED = {.class_name = "stamped",
                                     .release = stamped_release,
                                     .rows = stamped_rows,
                                     .apply = stamped_apply,
                                     .solve = stamped_solve,
                                     .step = stamped_step,
                                     .buffers = stamped_buffers,
                                     .normals = stamped_normals,
                                     .seeds = stamped_seeds,
                                     .column = stamped_column,
                                     .column_norms = stamped_column_norms,
                                     .gram = stamped_gram,
                                     .covariance = stamped_covariance,
                                     .inverse_part = stamped_inverse_part,
                                     .bands = stamped_bands,
                                     .row = stamped_row,
                                     .inverse_bands = stamped_inverse_bands,
                                     .inverse_row = stamped_inverse_row,
                                     .inside = stamped_inside,
                                     .write = stamped_write};

dpmf_status dpmf_strategy_create_stamped(const dpmf_strategy *strategy, int64_t stamps, dpmf_strategy **out) {
    stamped *s = NULL;
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "strategy: NULL");
    int64_t most = ((int64_t)1 << 53) / strategy->steps;
    if (stamps < 1 || stamps > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "stamps = %lld, accepted 1 to %lld", (long long)stamps, (long long)most);
    if (stamps == 1) {
        *out = strategy_retain(strategy);
        return DPMF_OK;
    }
    TRY(strategy_new(&STAMPED, sizeof *s, strategy->family, stamps * strategy->steps, (dpmf_strategy **)&s));
    s->inner = strategy_retain(strategy);
    s->stamps = stamps;
    s->length = strategy->steps;
    s->base.singular_at = strategy->singular_at;
    s->base.can &= strategy->can;
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status wrappers_read_stamped(const strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_strategy *inner = NULL;
    int64_t stamps = 0;
    TRY(base_json_get_object(source->object, "inner", "strategy", &object));
    TRY(base_json_get_integer(source->object, "stamps", "strategy", 2, source->steps, &stamps));
    if (source->steps % stamps != 0)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %lld stamps do not divide the steps", (long long)stamps);
    TRY(strategy_read(object, source->steps / stamps, source->workload, source->tensors, &inner));
    dpmf_status status = dpmf_strategy_create_stamped(inner, stamps, out);
    dpmf_strategy_free(inner);
    return status;
}
