/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLT strategies (families/blt/blt.h): the noise C^-1 z from d buffers that hold decaying sums of past outputs (Pillutla et al.
 * 2025, Algorithm 2.2),
 *
 *     y_t = z_t - sum_i alpha_i m_i,    m_i <- lambda_i m_i + y_t,
 *
 * and C y by the same buffers on its input. Fed back like this the stream is the inverse of C whatever the parameters:
 * no inverse parameters are needed. lambda m is computed as m - g m, since g is what is known to full precision.
 */
#include "families/blt/blt.h"

#include "base/lower.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <math.h>
#include <string.h>

/* The first column is held for the sensitivity under several participations, up to so many steps: 128 MB. */
static const int64_t HELD_MAX = (int64_t)1 << 24;

STRATEGY_CAST(blt_strategy)

static void blt_release(dpmf_strategy *s) {
    base_free(((blt_strategy *)s)->column);
}

static double read_buffers(const blt_parameters *c, const double *m) {
    double sum = 0;
    for (int i = 0; i < c->count; i++)
        sum += c->scale[i] * m[i];
    return sum;
}

static void feed_buffers(const blt_parameters *c, double y, double *m) {
    for (int i = 0; i < c->count; i++)
        m[i] = (m[i] - c->gap[i] * m[i]) + y;
}

static dpmf_status blt_apply(const dpmf_strategy *s, const double *x, double *y) {
    const blt_parameters *c = &cast(s)->c;
    double m[BLT_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        y[t] = x[t] + read_buffers(c, m);
        feed_buffers(c, x[t], m);
    }
    return DPMF_OK;
}

static dpmf_status blt_solve(const dpmf_strategy *s, const double *y, double *x) {
    const blt_parameters *c = &cast(s)->c;
    double m[BLT_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        x[t] = y[t] - read_buffers(c, m);
        feed_buffers(c, x[t], m);
    }
    return DPMF_OK;
}

static int64_t buffers(const dpmf_strategy *s) {
    return cast(s)->c.count;
}

static void blt_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    const blt_parameters *c = &cast(s)->c;
    (void)t;
    memcpy(row, seed, (size_t)count * sizeof *row);
    for (int j = 0; j < c->count; j++) {
        const double *m = state + j * count;
        for (int64_t i = 0; i < count; i++)
            row[i] -= c->scale[j] * m[i];
    }
    for (int j = 0; j < c->count; j++) {
        double *m = state + j * count, gap = c->gap[j];
        for (int64_t i = 0; i < count; i++)
            m[i] = (m[i] - gap * m[i]) + row[i];
    }
}

static dpmf_status blt_column(const dpmf_strategy *s, int64_t j, double *column) {
    memset(column, 0, (size_t)j * sizeof *column);
    blt_coefficients(&cast(s)->c, s->steps - j, column + j);
    return DPMF_OK;
}

/* Column n-1-i holds c_0..c_i: one running sum of squares. */
static dpmf_status blt_column_norms(const dpmf_strategy *s, double *norms) {
    base_running sum = {0};
    blt_coefficients(&cast(s)->c, s->steps, norms);
    for (int64_t i = 0; i < s->steps; i++) {
        base_running_add(&sum, norms[i] * norms[i]);
        norms[i] = sqrt(base_running_value(&sum));
    }
    for (int64_t i = 0; i < s->steps / 2; i++) {
        double swap = norms[i];
        norms[i] = norms[s->steps - 1 - i];
        norms[s->steps - 1 - i] = swap;
    }
    return DPMF_OK;
}

static void blt_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                         const double **inverse) {
    *count = s->steps;
    *c = cast(s)->column;
    *inverse_count = 0;
    *inverse = NULL;
}

static void blt_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const blt_parameters *c = &cast(s)->c;
    (void)w;
    base_tensors_add(tensors, "strategy.scale", c->count, 0, c->scale);
    base_tensors_add(tensors, "strategy.gap", c->count, 0, c->gap);
}

static dpmf_status leading(const dpmf_strategy *s, int64_t steps, dpmf_strategy **out) {
    const blt_parameters *c = &cast(s)->c;
    return dpmf_strategy_create_blt_gaps(steps, c->count, c->scale, c->gap, out);
}

static const strategy_ops BLT = {.class_name = "blt",
                                 .release = blt_release,
                                 .apply = blt_apply,
                                 .solve = blt_solve,
                                 .step = blt_step,
                                 .buffers = buffers,
                                 .column = blt_column,
                                 .column_norms = blt_column_norms,
                                 .toeplitz = blt_toeplitz,
                                 .is_toeplitz = 1,
                                 .leading = leading,
                                 .squared_errors = blt_squared_errors,
                                 .squared_error_sums = blt_error_sums,
                                 .longest_column = blt_longest_column,
                                 .sensitivity = blt_sensitivity,
                                 .plan_noise = blt_plan_noise,
                                 .write = blt_write};

/* ---- making it ---- */

dpmf_status blt_create(int64_t steps, const blt_parameters *parameters, dpmf_strategy **out) {
    blt_strategy *s = NULL;
    dpmf_status status = DPMF_OK;
    TRY(strategy_new(&BLT, sizeof *s, DPMF_FAMILY_BLT, steps, (dpmf_strategy **)&s));
    s->c = *parameters;
    if (steps <= HELD_MAX) {
        TRY_DONE(base_alloc_doubles(steps, "the coefficients", &s->column));
        blt_coefficients(&s->c, steps, s->column);
        TRY_DONE(base_check_finite(steps, s->column, "blt: coefficient"));
    } else {
        s->base.can &= ~(unsigned)STRATEGY_CAN_TOEPLITZ;
    }
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

static dpmf_status check_parameters(int64_t buffers, const double *scale, const double *gap, const char *name) {
    if (buffers < 1 || buffers > BLT_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "blt: %lld buffers, accepted 1 to %d", (long long)buffers, BLT_MAX);
    if (scale == NULL || gap == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "blt: the scales or the %ss are NULL", name);
    return base_check_finite(buffers, scale, "blt: scale");
}

dpmf_status dpmf_strategy_create_blt(int64_t steps, int buffers, const double *scale, const double *decay,
                                     dpmf_strategy **out) {
    double gap[BLT_MAX];
    TRY(check_parameters(buffers, scale, decay, "decay"));
    for (int i = 0; i < buffers; i++) {
        if (!(decay[i] >= 0 && decay[i] < 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "blt: decay %d = %.17g, accepted 0 <= decay < 1", i, decay[i]);
        gap[i] = 1 - decay[i];
    }
    blt_parameters c = blt_make(buffers, scale, gap);
    return blt_create(steps, &c, out);
}

/* A gap below this says that the decay is 1, a sum that never forgets. */
static const double GAP_MIN = 1e-300;

dpmf_status dpmf_strategy_create_blt_gaps(int64_t steps, int buffers, const double *scale, const double *gap,
                                          dpmf_strategy **out) {
    TRY(check_parameters(buffers, scale, gap, "gap"));
    for (int i = 0; i < buffers; i++)
        if (!(gap[i] >= GAP_MIN && gap[i] <= 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "blt: gap %d = %.17g, accepted 1e-300 to 1", i, gap[i]);
    blt_parameters c = blt_make(buffers, scale, gap);
    return blt_create(steps, &c, out);
}

int dpmf_strategy_blt_parameters(const dpmf_strategy *strategy, const double **scale, const double **gap) {
    const blt_parameters *c = blt_of(strategy);
    if (strategy->ops != &BLT) return 0;
    *scale = c->scale;
    *gap = c->gap;
    return c->count;
}

dpmf_status blt_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *scale = NULL, *gap = NULL;
    TRY(strategy_array(source, "strategy.scale", -1, 0, &scale));
    TRY(strategy_array(source, "strategy.gap", scale->shape[0], 0, &gap));
    if (scale->shape[0] > BLT_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: blt with %lld buffers, accepted 1 to %d",
                         (long long)scale->shape[0], BLT_MAX);
    dpmf_status status =
        dpmf_strategy_create_blt_gaps(source->steps, (int)scale->shape[0], scale->values, gap->values, out);
    return status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status; /* the fault is in the file */
}
