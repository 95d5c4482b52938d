/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strategy C: the object that every family's file makes. Its life, and the public calls on it, each a check and one
 * entry of the family's table, or what can be built for families that leave an entry out. Calls no family's file.
 */

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static unsigned abilities(const strategy_ops *ops) {
    return (ops->step != NULL ? STRATEGY_CAN_STEP : 0u) | (ops->gram != NULL ? STRATEGY_CAN_GRAM : 0u) |
           (ops->covariance != NULL ? STRATEGY_CAN_COVARIANCE : 0u) |
           (ops->inverse_part != NULL ? STRATEGY_CAN_INVERSE_PART : 0u) | (ops->row != NULL ? STRATEGY_CAN_ROW : 0u) |
           (ops->inverse_row != NULL ? STRATEGY_CAN_INVERSE_ROW : 0u) |
           (ops->toeplitz != NULL ? STRATEGY_CAN_TOEPLITZ : 0u) | (ops->write != NULL ? STRATEGY_CAN_SAVE : 0u);
}

dpmf_status strategy_new(const strategy_ops *ops, size_t size, const char *family, int64_t steps, dpmf_strategy **out) {
    assert(size >= sizeof(dpmf_strategy));
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    dpmf_strategy *s = NULL;
    TRY(base_alloc(1, size, "a strategy", (void **)&s));
    s->ops = ops;
    s->references = 1;
    s->steps = steps;
    s->family = family;
    s->singular_at = -1;
    s->can = abilities(ops);
    *out = s;
    return DPMF_OK;
}

dpmf_strategy *strategy_retain(const dpmf_strategy *strategy) {
    dpmf_strategy *s = (dpmf_strategy *)strategy; /* the count is the one thing that changes */
    __atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    return s;
}

void dpmf_strategy_free(dpmf_strategy *strategy) {
    if (strategy == NULL || __atomic_sub_fetch(&strategy->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    if (strategy->ops->release != NULL) strategy->ops->release(strategy);
    base_free(strategy);
}

/* ---- plain questions ---- */

int64_t strategy_rows(const dpmf_strategy *s) {
    return s->ops->rows == NULL ? s->steps : s->ops->rows(s);
}

int64_t dpmf_strategy_seeds(const dpmf_strategy *s, int64_t t) {
    return s->ops->seeds == NULL ? 1 : s->ops->seeds(s, t);
}

int64_t strategy_bands(const dpmf_strategy *s) {
    return strategy_can(s, STRATEGY_CAN_ROW) ? s->ops->bands(s) : s->steps;
}

int64_t strategy_inverse_bands(const dpmf_strategy *s) {
    return strategy_can(s, STRATEGY_CAN_INVERSE_ROW) ? s->ops->inverse_bands(s) : s->steps;
}

int64_t strategy_buffers(const dpmf_strategy *s) {
    return s->ops->buffers(s);
}

double strategy_normals(const dpmf_strategy *s) {
    return s->ops->normals == NULL ? 1 : s->ops->normals(s);
}

dpmf_strategy_info dpmf_strategy_get(const dpmf_strategy *s) {
    dpmf_strategy_info info = {.family = s->family,
                               .steps = s->steps,
                               .rows = strategy_rows(s),
                               .bands = strategy_bands(s),
                               .buffers = strategy_buffers(s),
                               .normals = strategy_normals(s),
                               .is_normalized = strategy_is_normalized(s),
                               .stamps = strategy_stamps(s),
                               .streams = strategy_can(s, STRATEGY_CAN_STEP)};
    if (s->ops->describe != NULL) s->ops->describe(s, &info);
    return info;
}

int strategy_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                      const double **inverse) {
    if (!strategy_can(s, STRATEGY_CAN_TOEPLITZ)) return 0;
    s->ops->toeplitz(s, count, c, inverse_count, inverse);
    return 1;
}

const double *strategy_matrix(const dpmf_strategy *s) {
    return s->ops->matrix == NULL ? NULL : s->ops->matrix(s);
}

dpmf_status strategy_cut(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    if (s->ops->cut != NULL) return s->ops->cut(s, steps, out);
    *out = strategy_retain(s);
    return DPMF_OK;
}

/* ---- wrappers ---- */

const dpmf_strategy *strategy_block(const dpmf_strategy *s, int64_t *stamps) {
    const double *norms = NULL;
    *stamps = 1;
    const dpmf_strategy *inside = s->ops->inside == NULL ? s : s->ops->inside(s, stamps, &norms);
    return *stamps > 1 ? inside : s;
}

const dpmf_strategy *strategy_scaled(const dpmf_strategy *s, const double **norms) {
    int64_t stamps = 1;
    *norms = NULL;
    const dpmf_strategy *inside = s->ops->inside == NULL ? s : s->ops->inside(s, &stamps, norms);
    return *norms != NULL ? inside : s;
}

const dpmf_strategy *strategy_innermost(const dpmf_strategy *s) {
    const double *norms = NULL;
    int64_t stamps = 1;
    while (s->ops->inside != NULL)
        s = s->ops->inside(s, &stamps, &norms);
    return s;
}

int strategy_is_normalized(const dpmf_strategy *strategy) {
    const double *norms = NULL;
    strategy_scaled(strategy, &norms);
    return norms != NULL;
}

int64_t strategy_stamps(const dpmf_strategy *s) {
    int64_t all = 1, stamps = 1;
    const double *norms = NULL;
    do {
        s = strategy_block(strategy_scaled(s, &norms), &stamps);
        all *= stamps;
    } while (stamps > 1);
    return all;
}

dpmf_status strategy_need_inverse(const dpmf_strategy *s) {
    if (s->singular_at < 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_NUMERICAL,
                     "the strategy is singular: C[%lld,%lld] = 0, an inverse needs a non-zero diagonal",
                     (long long)s->singular_at, (long long)s->singular_at);
}

/* ---- products ---- */

/* The families' entries need x != y; the public calls allow x == y. */
static dpmf_status through_copy(dpmf_status (*entry)(const dpmf_strategy *, const double *, double *),
                                const dpmf_strategy *s, int64_t in_count, const double *in, double *out) {
    if (in != out) return entry(s, in, out);
    double *copy = NULL;
    TRY(base_alloc_doubles(in_count, "a copy", &copy));
    memcpy(copy, in, (size_t)in_count * sizeof *copy);
    dpmf_status status = entry(s, copy, out);
    base_free(copy);
    return status;
}

dpmf_status dpmf_strategy_apply(const dpmf_strategy *s, const double *x, double *y) {
    return through_copy(s->ops->apply, s, s->steps, x, y);
}

dpmf_status dpmf_strategy_solve(const dpmf_strategy *s, const double *y, double *x) {
    TRY(strategy_need_inverse(s));
    return through_copy(s->ops->solve, s, strategy_rows(s), y, x);
}

dpmf_status dpmf_strategy_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                               double *row) {
    if (t < 0 || t >= s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %lld, accepted 0 to %lld: the mechanism has %lld steps",
                         (long long)t, (long long)(s->steps - 1), (long long)s->steps);
    if (count < 0) return base_fail(DPMF_ERROR_ARGUMENT, "count = %lld, accepted 0 and up", (long long)count);
    TRY(strategy_need_inverse(s));
    if (!strategy_can(s, STRATEGY_CAN_STEP))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family %s: a row of its noise needs seeds of other steps, it has no step of its own",
                         s->family);
    s->ops->step(s, t, count, seed, state, row);
    return DPMF_OK;
}

/* ---- columns ---- */

dpmf_status dpmf_strategy_column(const dpmf_strategy *s, int64_t j, double *column) {
    if (j < 0 || j >= s->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "column %lld, accepted 0 to %lld", (long long)j,
                         (long long)(s->steps - 1));
    if (s->ops->column != NULL) return s->ops->column(s, j, column);
    double *unit = NULL;
    TRY(base_alloc_doubles(s->steps, "a unit vector", &unit));
    unit[j] = 1;
    dpmf_status status = s->ops->apply(s, unit, column);
    base_free(unit);
    return status;
}

/* From rows of few bands: the squares of column j = t - i are met in rows j..j+bands-1. */
static dpmf_status norms_from_rows(const dpmf_strategy *s, double *norms) {
    int64_t bands = strategy_bands(s);
    double *row = NULL;
    TRY(base_alloc_doubles(bands, "a row", &row));
    memset(norms, 0, (size_t)s->steps * sizeof *norms);
    for (int64_t t = 0; t < s->steps; t++) {
        s->ops->row(s, t, row);
        for (int64_t i = 0; i < bands && i <= t; i++)
            norms[t - i] += row[i] * row[i];
    }
    for (int64_t j = 0; j < s->steps; j++)
        norms[j] = sqrt(norms[j]);
    base_free(row);
    return DPMF_OK;
}

static dpmf_status norms_from_columns(const dpmf_strategy *s, double *norms) {
    int64_t rows = strategy_rows(s);
    double *column = NULL;
    TRY(base_alloc_doubles(rows, "a column", &column));
    dpmf_status status = DPMF_OK;
    for (int64_t j = 0; j < s->steps && status == DPMF_OK; j++) {
        status = dpmf_strategy_column(s, j, column);
        if (status == DPMF_OK) norms[j] = base_norm(rows, column);
    }
    base_free(column);
    return status;
}

dpmf_status dpmf_strategy_column_norms(const dpmf_strategy *s, double *norms) {
    if (s->ops->column_norms != NULL) return s->ops->column_norms(s, norms);
    if (strategy_can(s, STRATEGY_CAN_GRAM)) {
        TRY(s->ops->gram(s, 0, norms));
        for (int64_t t = 0; t < s->steps; t++)
            norms[t] = sqrt(norms[t]);
        return DPMF_OK;
    }
    if (strategy_bands(s) < s->steps) return norms_from_rows(s, norms);
    return norms_from_columns(s, norms);
}

/*
 * Entries of X = C'C one diagonal at a time: X[t, t+lag] for all t. Sensitivity under several participations needs only
 * the diagonals whose lag can separate two of them, so this is O(n) numbers at a time, for any C.
 *
 *     Toeplitz   X[t, t+lag] = sum_{i <= n-1-t-lag} c_i c_{i+lag}: one running sum, O(n)
 *     banded     from the rows, O(n b)
 *     others     from the columns, O(n) products of columns
 */

static void gram_toeplitz(int64_t n, int64_t count, const double *c, int64_t lag, double *values) {
    base_running sum = {0};
    for (int64_t i = 0; i + lag < n; i++) {
        if (i + lag < count) base_running_add(&sum, c[i] * c[i + lag]);
        values[n - 1 - lag - i] = base_running_value(&sum);
    }
}

/* Row i meets columns u = i - j and t = u - lag. */
static dpmf_status gram_banded(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t bands = strategy_bands(s);
    double *row = NULL;
    memset(values, 0, (size_t)(s->steps - lag) * sizeof *values);
    if (lag >= bands) return DPMF_OK;
    TRY(base_alloc_doubles(bands, "a row", &row));
    for (int64_t i = lag; i < s->steps; i++) {
        s->ops->row(s, i, row);
        for (int64_t j = 0; j + lag < bands && j + lag <= i; j++)
            values[i - lag - j] += row[j] * row[j + lag];
    }
    base_free(row);
    return DPMF_OK;
}

static dpmf_status gram_columns(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t rows = strategy_rows(s);
    double *columns = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * rows, "two columns", &columns));
    for (int64_t t = 0; t + lag < s->steps; t++) {
        TRY_DONE(dpmf_strategy_column(s, t, columns));
        if (lag > 0) TRY_DONE(dpmf_strategy_column(s, t + lag, columns + rows));
        values[t] = base_dot(rows, columns, lag > 0 ? columns + rows : columns);
    }
done:
    base_free(columns);
    return status;
}

dpmf_status strategy_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    int64_t count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    assert(lag >= 0 && lag < s->steps);
    if (strategy_can(s, STRATEGY_CAN_GRAM)) return s->ops->gram(s, lag, values);
    if (strategy_toeplitz(s, &count, &c, &inverse_count, &inverse)) {
        gram_toeplitz(s->steps, count, c, lag, values);
        return DPMF_OK;
    }
    if (strategy_bands(s) < s->steps) return gram_banded(s, lag, values);
    return gram_columns(s, lag, values);
}
