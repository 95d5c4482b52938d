/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lower-triangular form of any factorization (Denisov et al. 2022, Proposition 2.2). With W = L Q, L lower
 * triangular and Q of orthonormal rows, the noise W Z has the law of L Z' with Z' = Q Z again white, and C' = L^-1 = Q
 * C is square and lower triangular. It makes the same errors, and its sensitivity is no larger since Q only projects.
 * It also shows that every mechanism here is private under adaptive inputs, however its own seeds run.
 */
#include "strategy/strategy.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* Column j is the answer to the unit vector j. */
dpmf_status strategy_left_inverse(const dpmf_strategy *s, double *w) {
    int64_t n = s->steps, rows = strategy_rows(s);
    double *unit = NULL, *column = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(rows, "a unit vector", &unit));
    TRY_DONE(base_alloc_doubles(n, "a column", &column));
    for (int64_t j = 0; j < rows; j++) {
        unit[j] = 1;
        TRY_DONE(dpmf_strategy_solve(s, unit, column));
        unit[j] = 0;
        for (int64_t t = 0; t < n; t++)
            w[t * rows + j] = column[t];
    }
done:
    base_free(unit);
    base_free(column);
    return status;
}

dpmf_status dpmf_strategy_create_triangular(const dpmf_strategy *strategy, dpmf_strategy **out) {
    double *w = NULL, *lower = NULL;
    dpmf_status status = DPMF_OK;
    if (strategy == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "strategy: NULL");
    int64_t n = strategy->steps, rows = strategy_rows(strategy);
    if (n > DPMF_TRIANGULAR_STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "triangular form: %lld steps, accepted up to %d (it is dense)",
                         (long long)n, DPMF_TRIANGULAR_STEPS_MAX);
    TRY_DONE(base_alloc_doubles(n * rows, "the left inverse", &w));
    TRY_DONE(strategy_left_inverse(strategy, w));
    TRY_DONE(base_alloc_square(n, "the triangular factor", &lower));
    TRY_DONE(base_lq(n, rows, w, lower));
    TRY_DONE(base_lower_invert(n, lower));
    TRY_DONE(strategy_create_matrix(n, lower, out));
done:
    base_free(w);
    base_free(lower);
    return status;
}

/*
 * The leading block of a strategy: what the first steps of a run are by themselves. C is lower triangular, so the first m
 * rows of C^-1 Z are those of (C_m)^-1 Z_m, with C_m the leading m x m block; where C is not square, of its lower-triangular
 * form, whose noise has the same law (strategy/triangular.c). Toeplitz and banded strategies stay what they are; of others
 * the block is formed.
 */

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
                         (long long)steps, s->family, FORMED_MAX);
    TRY_DONE(base_alloc_square(steps, "the leading block", &matrix));
    TRY_DONE(base_alloc_doubles(strategy_rows(s), "a column", &column));
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

/* A stream that takes one new seed per step has a W, and so a C, that is lower triangular. A square C alone may be anything. */
static int is_triangular(const dpmf_strategy *s) {
    if (strategy_rows(s) != s->steps) return 0;
    if (strategy_matrix(s) != NULL) return 1;
    if (!strategy_can(s, STRATEGY_CAN_STEP)) return 0;
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
        if (c != NULL) return families_table.toeplitz(steps, DPMF_TOEPLITZ, count < steps ? count : steps, c, out);
        if (inverse != NULL)
            return families_table.toeplitz(steps, DPMF_TOEPLITZ_INVERSE, inverse_count < steps ? inverse_count : steps,
                                           inverse, out);
    }
    if (strategy_can(s, STRATEGY_CAN_ROW)) return make_banded(s, steps, out);
    if (is_triangular(s)) return make_dense(s, steps, out);
    TRY(dpmf_strategy_create_triangular(s, &square));
    dpmf_status status = make_dense(square, steps, out);
    dpmf_strategy_free(square);
    return status;
}

/*
 * A user's streaming linear operator as C or as C^-1 (McKenna 2024, Appendix D.1). The one that is not given
 * follows (workload/products.c). It cannot be saved: a file has no place for a callback. A sensitivity asks for each column of
 * C many times, and a callback may be slow (Python's are), so up to HELD_STEPS the columns are made once, side by side.
 */

enum { HELD_STEPS = 1024, SIDE_BY_SIDE = 256 }; /* 8 MB */

typedef struct custom {
    dpmf_strategy base;
    workload_operator *operator_;
    int inverse;     /* is it C^-1? */
    double *columns; /* column j of C at j * steps, or NULL */
} custom;

STRATEGY_CAST(custom)

static void custom_release(dpmf_strategy *s) {
    workload_operator_free(((custom *)s)->operator_);
    base_free(((custom *)s)->columns);
}

/* Runs the operator, or its inverse, over a whole vector. */
static dpmf_status run(const custom *s, int undo, const double *in, double *out) {
    double *state = NULL;
    int64_t buffers = undo ? workload_operator_inverse_buffers(s->operator_) : s->operator_->user.buffers;
    TRY(base_alloc_doubles(buffers, "the operator's state", &state));
    for (int64_t t = 0; t < s->base.steps; t++) {
        if (undo)
            workload_operator_inverse_step(s->operator_, t, 1, &in[t], state, &out[t]);
        else
            workload_operator_step(s->operator_, t, 1, &in[t], state, &out[t]);
    }
    base_free(state);
    return DPMF_OK;
}

static dpmf_status custom_apply(const dpmf_strategy *s, const double *x, double *y) {
    return run(cast(s), cast(s)->inverse, x, y);
}

static dpmf_status custom_solve(const dpmf_strategy *s, const double *y, double *x) {
    return run(cast(s), !cast(s)->inverse, y, x);
}

static int64_t custom_buffers(const dpmf_strategy *s) {
    const workload_operator *op = cast(s)->operator_;
    return cast(s)->inverse ? op->user.buffers : workload_operator_inverse_buffers(op);
}

static void custom_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                        double *row) {
    if (cast(s)->inverse)
        workload_operator_step(cast(s)->operator_, t, count, seed, state, row);
    else
        workload_operator_inverse_step(cast(s)->operator_, t, count, seed, state, row);
}

static dpmf_status custom_column(const dpmf_strategy *s, int64_t j, double *column) {
    const custom *c = cast(s);
    double *unit = NULL;
    if (c->columns != NULL) {
        memcpy(column, c->columns + j * s->steps, (size_t)s->steps * sizeof *column);
        return DPMF_OK;
    }
    TRY(base_alloc_doubles(s->steps, "a unit vector", &unit));
    unit[j] = 1;
    dpmf_status status = custom_apply(s, unit, column);
    base_free(unit);
    return status;
}

static dpmf_status hold_columns(custom *s) {
    const int64_t n = s->base.steps, most = n < SIDE_BY_SIDE ? n : SIDE_BY_SIDE;
    const int64_t buffers = s->inverse ? workload_operator_inverse_buffers(s->operator_) : s->operator_->user.buffers;
    double *state = NULL, *x = NULL, *y = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(n, "the columns of C", &s->columns));
    TRY_DONE(base_alloc_doubles(buffers * most, "the operator's state", &state));
    TRY_DONE(base_alloc_doubles(most, "unit vectors", &x));
    TRY_DONE(base_alloc_doubles(most, "a row", &y));
    for (int64_t first = 0; first < n; first += most) {
        const int64_t count = n - first < most ? n - first : most;
        memset(state, 0, (size_t)(buffers * count) * sizeof *state);
        for (int64_t t = first; t < n; t++) { /* all earlier rows are zero */
            memset(x, 0, (size_t)count * sizeof *x);
            if (t - first < count) x[t - first] = 1;
            if (s->inverse)
                workload_operator_inverse_step(s->operator_, t, count, x, state, y);
            else
                workload_operator_step(s->operator_, t, count, x, state, y);
            for (int64_t i = 0; i < count; i++)
                s->columns[(first + i) * n + t] = y[i];
        }
    }
done:
    base_free(state);
    base_free(x);
    base_free(y);
    return status;
}

static const strategy_ops CUSTOM = {.class_name = "operator",
                                    .release = custom_release,
                                    .apply = custom_apply,
                                    .solve = custom_solve,
                                    .step = custom_step,
                                    .buffers = custom_buffers,
                                    .column = custom_column};

dpmf_status dpmf_strategy_create_operator(int64_t steps, const dpmf_operator *operator_, int inverse,
                                          dpmf_strategy **out) {
    custom *s = NULL;
    if (inverse != 0 && inverse != 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "operator: inverse = %d, accepted 0 (C) or 1 (C^-1)", inverse);
    TRY(strategy_new(&CUSTOM, sizeof *s, "operator", steps, (dpmf_strategy **)&s));
    s->inverse = inverse;
    dpmf_status status = workload_operator_create(steps, operator_, &s->operator_);
    if (status == DPMF_OK && steps <= HELD_STEPS) status = hold_columns(s);
    if (status != DPMF_OK && s->operator_ != NULL)
        s->operator_->user.release = NULL; /* the context stays the caller's */
    if (status == DPMF_OK)
        *out = &s->base;
    else
        dpmf_strategy_free(&s->base);
    return status;
}
