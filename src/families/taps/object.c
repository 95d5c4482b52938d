/* SPDX-License-Identifier: Apache-2.0 */
/*
 * W of few taps as a strategy (families/taps/taps.h). Notation: W[t, t - lag_i] = w_i(t), C = W^-1; C is full, and its products
 * follow from those of W:
 *
 *     x = W y in place of sums over all rows,   y = C x:   y_t = (x_t - sum_{i>0} w_i(t) y_{t-lag_i}) / w_0(t)   (McKenna 2024, Section 2)
 *
 * Where the weights are the same at every step, C is Toeplitz with the first column c = 1/w, which is held: errors and
 * sensitivity then take the routes of Toeplitz strategies. The stream is the filter of noise/routes.c, which makes no seed
 * whose weight is 0.
 */
#include "families/taps/taps.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>
#include <string.h>

typedef struct tapped {
    dpmf_strategy base;
    int64_t taps, rows;
    int64_t *lag;
    double *lags;   /* the same as a file holds them */
    double *weight; /* rows x taps */
    double *c, *h;  /* rows = 1: first columns of C and W, `steps` and the last lag + 1 numbers; else NULL */
} tapped;

STRATEGY_CAST(tapped)

static void taps_release(dpmf_strategy *s) {
    tapped *self = (tapped *)s;
    base_free(self->lag);
    base_free(self->lags);
    base_free(self->weight);
    base_free(self->c);
    base_free(self->h);
}

static const double *weights_of(const tapped *s, int64_t t) {
    return s->weight + (s->rows == 1 ? 0 : t * s->taps);
}

static double from_past(const tapped *s, int64_t t, const double *z) {
    const double *w = weights_of(s, t);
    double sum = 0;
    for (int64_t i = 1; i < s->taps && s->lag[i] <= t; i++)
        sum += w[i] * z[t - s->lag[i]];
    return sum;
}

static void apply_from(const tapped *s, int64_t first, const double *x, double *y) {
    for (int64_t t = first; t < s->base.steps; t++)
        y[t] = (x[t] - from_past(s, t, y)) / weights_of(s, t)[0];
}

static dpmf_status taps_apply(const dpmf_strategy *s, const double *x, double *y) {
    apply_from(cast(s), 0, x, y);
    return DPMF_OK;
}

static dpmf_status taps_solve(const dpmf_strategy *s, const double *y, double *x) {
    const tapped *self = cast(s);
    for (int64_t t = 0; t < s->steps; t++)
        x[t] = weights_of(self, t)[0] * y[t] + from_past(self, t, y);
    return DPMF_OK;
}

static dpmf_status taps_column(const dpmf_strategy *s, int64_t j, double *column) {
    const tapped *self = cast(s);
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps; t++)
        column[t] = ((t == j) - from_past(self, t, column)) / weights_of(self, t)[0];
    return DPMF_OK;
}

/* The stream keeps nothing. */
static int64_t taps_buffers(const dpmf_strategy *s) {
    (void)s;
    return 0;
}

static double taps_normals(const dpmf_strategy *s) {
    const tapped *self = cast(s);
    double sum = 0;
    for (int64_t i = 0; i < self->taps; i++) /* steps before the lag take no seed */
        sum += (double)(s->steps - self->lag[i]);
    return sum / (double)s->steps;
}

static int64_t taps_inverse_bands(const dpmf_strategy *s) {
    return cast(s)->lag[cast(s)->taps - 1] + 1;
}

static void taps_inverse_row(const dpmf_strategy *s, int64_t t, double *values) {
    const tapped *self = cast(s);
    memset(values, 0, (size_t)taps_inverse_bands(s) * sizeof *values);
    for (int64_t i = 0; i < self->taps && self->lag[i] <= t; i++)
        values[self->lag[i]] = weights_of(self, t)[i];
}

static void taps_inverse_part(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values) {
    const tapped *self = cast(s);
    memset(values, 0, (size_t)count * sizeof *values);
    for (int64_t i = 0; i < self->taps; i++) {
        const int64_t u = t - self->lag[i];
        if (u >= j && u < j + count) values[u - j] = weights_of(self, t)[i];
    }
}

static void taps_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                          const double **inverse) {
    *count = s->steps;
    *c = cast(s)->c;
    *inverse_count = taps_inverse_bands(s);
    *inverse = cast(s)->h;
}

static void taps_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const tapped *self = cast(s);
    (void)w;
    base_tensors_add(tensors, "strategy.lags", self->taps, 0, self->lags);
    base_tensors_add(tensors, "strategy.weights", self->rows, self->taps, self->weight);
}

#define COMMON                                                                                                         \
    .class_name = "taps", .release = taps_release, .apply = taps_apply, .solve = taps_solve, .buffers = taps_buffers,  \
    .normals = taps_normals, .column = taps_column, .inverse_part = taps_inverse_part,                                 \
    .inverse_bands = taps_inverse_bands, .inverse_row = taps_inverse_row, .write = taps_write

static const strategy_ops BY_STEP = {COMMON};
static const strategy_ops CONSTANT = {COMMON, .toeplitz = taps_toeplitz, .is_toeplitz = 1};

static dpmf_status check(int64_t steps, int64_t taps, const int64_t *lag, int64_t rows, const double *weight) {
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    if (taps < 1 || taps > TAPS_MAX || taps > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld taps, accepted 1 to %d, and no more than the steps",
                         (long long)taps, TAPS_MAX);
    if ((rows != 1 && rows != steps) || rows > STRATEGY_HELD_MAX || steps > INT64_MAX / TAPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "taps: weights of %lld steps, accepted 1 or %lld", (long long)rows,
                         (long long)steps);
    for (int64_t i = 0; i < taps; i++)
        if (lag[i] < 0 || lag[i] >= steps || (i == 0 && lag[i] != 0) || (i > 0 && lag[i] <= lag[i - 1]))
            return base_fail(DPMF_ERROR_ARGUMENT, "taps: lag %lld is %lld, accepted: 0 first, rising, below the steps",
                             (long long)i, (long long)lag[i]);
    TRY(base_check_finite(rows * taps, weight, "taps: weight"));
    for (int64_t t = 0; t < rows; t++) {
        if (weight[t * taps] == 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "taps: W[%lld,%lld] = 0, accepted: not 0", (long long)t,
                             (long long)t);
        for (int64_t i = 1; i < taps && rows > 1; i++)
            if (lag[i] > t && weight[t * taps + i] != 0)
                return base_fail(DPMF_ERROR_ARGUMENT, "taps: row %lld, tap %lld is left of column 0 but not 0",
                                 (long long)t, (long long)i);
    }
    return DPMF_OK;
}

/* Where the weights are the same at every step: c = 1/w, and w with its zeros. */
static dpmf_status fill_series(tapped *s) {
    const int64_t n = s->base.steps;
    if (n > STRATEGY_HELD_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "taps: %lld steps, accepted up to %lld", (long long)n,
                         (long long)STRATEGY_HELD_MAX);
    TRY(base_alloc_doubles(n, "the coefficients of C", &s->c));
    TRY(base_alloc_doubles(taps_inverse_bands(&s->base), "the coefficients of W", &s->h));
    taps_inverse_row(&s->base, n - 1, s->h);
    TRY(taps_column(&s->base, 0, s->c));
    return base_check_finite(n, s->c, "the inverse series overflows: coefficient");
}

dpmf_status taps_create(int64_t steps, int64_t count, const int64_t *lag, int64_t rows, const double *weight,
                        dpmf_strategy **out) {
    tapped *s = NULL;
    dpmf_status status = DPMF_OK;
    TRY(check(steps, count, lag, rows, weight));
    TRY(strategy_new(rows == 1 ? &CONSTANT : &BY_STEP, sizeof *s, DPMF_FAMILY_TAPS, steps, (dpmf_strategy **)&s));
    s->taps = count;
    s->rows = rows;
    TRY_DONE(base_alloc(count, sizeof *s->lag, "the lags", (void **)&s->lag));
    TRY_DONE(base_alloc_doubles(count, "the lags", &s->lags));
    TRY_DONE(base_alloc_doubles(rows * count, "the weights", &s->weight));
    memcpy(s->lag, lag, (size_t)count * sizeof *lag);
    memcpy(s->weight, weight, (size_t)(rows * count) * sizeof *weight);
    for (int64_t i = 0; i < count; i++)
        s->lags[i] = (double)lag[i];
    if (rows == 1) TRY_DONE(fill_series(s));
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status taps_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *lags = NULL, *weights = NULL;
    int64_t lag[TAPS_MAX];
    TRY(strategy_array(source, "strategy.lags", -1, 0, &lags));
    const int64_t count = lags->shape[0];
    if (count < 1 || count > TAPS_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %lld taps, accepted 1 to %d", (long long)count, TAPS_MAX);
    TRY(strategy_array(source, "strategy.weights", -1, count, &weights));
    for (int64_t i = 0; i < count; i++) {
        const double x = lags->values[i];
        if (!(x >= 0 && x < (double)source->steps && x == floor(x)))
            return base_fail(DPMF_ERROR_FORMAT,
                             "mechanism file: lag %lld is %g, accepted: a whole number below the steps", (long long)i,
                             x);
        lag[i] = (int64_t)x;
    }
    const dpmf_status status = taps_create(source->steps, count, lag, weights->shape[0], weights->values, out);
    return status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status; /* the fault is in the file */
}
