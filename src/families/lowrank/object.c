/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Low-rank strategies: W = C^-1 is a band plus the lower part of a matrix of low rank,
 *
 *     W[t,u] = rows[t][t-u] for t - u < w,    left[t] . right[u] for t - u >= w        (w bands, rank r).
 *
 * The stream keeps w - 1 past seeds and r sums (after Denisov et al. 2022, Algorithm 3, which has the decoder B = A W
 * in this form with w - 1 bands for prefix sums: A^-1 adds a band and leaves the rank, so that W itself is as cheap and
 * no workload has to be known here):
 *
 *     y_t = sum_{j<w} rows[t][j] z_{t-j} + left[t] . s_t,    s_{t+1} = s_t + right[t-w+1] z_{t-w+1}
 *
 * and C is the inverse system, as cheap. The seed that enters the sums is the oldest of the w - 1, whose place z_t takes.
 */
#include "families/lowrank/lowrank.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "noise/noise.h"

#include <string.h>

typedef struct lowrank {
    dpmf_strategy base;
    int64_t bands, rank;
    double *rows;         /* steps x bands */
    double *left, *right; /* steps x rank */
} lowrank;

enum { RANK_MAX = DPMF_LOWRANK_MAX };

STRATEGY_CAST(lowrank)

static void lowrank_release(dpmf_strategy *s) {
    base_free(((lowrank *)s)->rows);
    base_free(((lowrank *)s)->left);
    base_free(((lowrank *)s)->right);
}

/* What the seeds before step t, z[0..t), give to row t of W z; `sums` has those up to t - bands. */
static double from_past(const lowrank *c, int64_t t, const double *z, const double *sums) {
    const double *rows = c->rows + t * c->bands, *left = c->left + t * c->rank;
    double y = 0;
    for (int64_t j = lowrank_smaller(c->bands - 1, t); j >= 1; j--)
        y += rows[j] * z[t - j];
    for (int64_t k = 0; k < c->rank; k++)
        y += left[k] * sums[k];
    return y;
}

/* After z_t is known: the seed that leaves the band enters the sums. */
static void advance(const lowrank *c, int64_t t, const double *z, double *sums) {
    int64_t u = t - c->bands + 1;
    for (int64_t k = 0; u >= 0 && k < c->rank; k++)
        sums[k] += c->right[u * c->rank + k] * z[u];
}

static dpmf_status lowrank_apply(const dpmf_strategy *s, const double *x, double *y) {
    const lowrank *c = cast(s);
    double sums[RANK_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        y[t] = (x[t] - from_past(c, t, y, sums)) / c->rows[t * c->bands];
        advance(c, t, y, sums);
    }
    return DPMF_OK;
}

static dpmf_status solve(const dpmf_strategy *s, const double *y, double *x) {
    const lowrank *c = cast(s);
    double sums[RANK_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        x[t] = c->rows[t * c->bands] * y[t] + from_past(c, t, y, sums);
        advance(c, t, y, sums);
    }
    return DPMF_OK;
}

/* The response of C to a unit at step j: zero before it, so that the sums begin there too. */
static dpmf_status lowrank_column(const dpmf_strategy *s, int64_t j, double *column) {
    const lowrank *c = cast(s);
    double sums[RANK_MAX] = {0};
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps; t++) {
        column[t] = ((t == j) - from_past(c, t, column, sums)) / c->rows[t * c->bands];
        advance(c, t, column, sums);
    }
    return DPMF_OK;
}

static int64_t lowrank_buffers(const dpmf_strategy *s) {
    return cast(s)->bands - 1 + cast(s)->rank;
}

static void add_scaled(int64_t count, double factor, const double *x, double *y) {
    for (int64_t i = 0; i < count; i++)
        y[i] += factor * x[i];
}

/* The state: w - 1 seeds, that of step u in place u mod (w - 1), then the sums. */
static void lowrank_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                         double *row) {
    const lowrank *c = cast(s);
    const double *rows = c->rows + t * c->bands, *left = c->left + t * c->rank;
    int64_t past = c->bands - 1, u = t - past;
    double *sums = state + past * count, *place = past == 0 ? NULL : state + t % past * count;
    for (int64_t i = 0; i < count; i++)
        row[i] = rows[0] * seed[i];
    for (int64_t j = 1; j <= lowrank_smaller(past, t); j++)
        add_scaled(count, rows[j], state + (t - j) % past * count, row);
    for (int64_t k = 0; k < c->rank; k++)
        add_scaled(count, left[k], sums + k * count, row);
    for (int64_t k = 0; u >= 0 && k < c->rank; k++)
        add_scaled(count, c->right[u * c->rank + k], past == 0 ? seed : place, sums + k * count);
    if (past > 0) memcpy(place, seed, (size_t)count * sizeof *seed);
}

static void lowrank_inverse_part(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values) {
    const lowrank *c = cast(s);
    const double *left = c->left + t * c->rank;
    for (int64_t i = 0; i < count; i++) {
        int64_t u = j + i;
        double value = t - u < c->bands ? c->rows[t * c->bands + t - u] : 0;
        for (int64_t k = 0; t - u >= c->bands && k < c->rank; k++)
            value += left[k] * c->right[u * c->rank + k];
        values[i] = value;
    }
}

static void lowrank_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const lowrank *c = cast(s);
    (void)w;
    base_tensors_add(tensors, "strategy.rows", s->steps, c->bands, c->rows);
    base_tensors_add(tensors, "strategy.left", s->steps, c->rank, c->left);
    base_tensors_add(tensors, "strategy.right", s->steps, c->rank, c->right);
}

static void lowrank_plan_noise(noise_plan *plan) {
    noise_plan_program(plan, 1);
}

static const strategy_ops LOWRANK = {.class_name = "lowrank",
                                     .release = lowrank_release,
                                     .apply = lowrank_apply,
                                     .solve = solve,
                                     .step = lowrank_step,
                                     .buffers = lowrank_buffers,
                                     .column = lowrank_column,
                                     .inverse_part = lowrank_inverse_part,
                                     .plan_noise = lowrank_plan_noise,
                                     .write = lowrank_write};

static dpmf_status copy(int64_t count, const double *values, const char *what, double **out) {
    TRY(base_alloc_doubles(count, what, out));
    memcpy(*out, values, (size_t)count * sizeof *values);
    return DPMF_OK;
}

dpmf_status dpmf_strategy_create_lowrank(int64_t steps, int64_t bands, int64_t rank, const double *rows,
                                         const double *left, const double *right, dpmf_strategy **out) {
    lowrank *s = NULL;
    dpmf_status status = DPMF_OK;
    if (rows == NULL || left == NULL || right == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: the bands or a factor is NULL");
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    if (bands < 1 || bands > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: %lld bands, accepted 1 to %lld (the steps)",
                         (long long)bands, (long long)steps);
    if (rank < 1 || rank > RANK_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: rank %lld, accepted 1 to %d", (long long)rank, RANK_MAX);
    if (steps > INT64_MAX / RANK_MAX || steps > INT64_MAX / bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: %lld steps of %lld bands are beyond any memory",
                         (long long)steps, (long long)bands);
    TRY(base_check_finite(steps * bands, rows, "the bands of W"));
    TRY(base_check_finite(steps * rank, left, "the left factor of W"));
    TRY(base_check_finite(steps * rank, right, "the right factor of W"));
    for (int64_t t = 0; t < steps; t++) {
        if (rows[t * bands] == 0)
            return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: W[%lld,%lld] = 0, accepted: not 0", (long long)t,
                             (long long)t);
        for (int64_t j = t + 1; j < bands; j++)
            if (rows[t * bands + j] != 0)
                return base_fail(DPMF_ERROR_ARGUMENT, "low-rank W: row %lld, band %lld is left of column 0 but not 0",
                                 (long long)t, (long long)j);
    }
    TRY(strategy_new(&LOWRANK, sizeof *s, DPMF_FAMILY_LOWRANK, steps, (dpmf_strategy **)&s));
    s->bands = bands;
    s->rank = rank;
    TRY_DONE(copy(steps * bands, rows, "the bands of W", &s->rows));
    TRY_DONE(copy(steps * rank, left, "the left factor of W", &s->left));
    TRY_DONE(copy(steps * rank, right, "the right factor of W", &s->right));
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status lowrank_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *rows = NULL, *left = NULL, *right = NULL;
    TRY(strategy_array(source, "strategy.rows", source->steps, -1, &rows));
    TRY(strategy_array(source, "strategy.left", source->steps, -1, &left));
    TRY(strategy_array(source, "strategy.right", source->steps, left->shape[1], &right));
    return dpmf_strategy_create_lowrank(source->steps, rows->shape[1], left->shape[1], rows->values, left->values,
                                        right->values, out);
}
