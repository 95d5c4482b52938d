/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT strategies (families/tvblt/tvblt.h): C^-1 is a stream with R buffers, a form of the BLT of McMahan et al. 2024 whose
 * coefficients vary with time, and C is the inverse system, which is as cheap:
 *
 *     z_t = (y_t - sum over nodes of x_node) / diagonal_t,    x <- F_t x + gain_t z_t.
 */
#include "families/tvblt/tvblt.h"

#include "strategy/strategy.h"

#include <math.h>
#include <string.h>

enum { STATES_MAX = TVBLT_STATES_MAX };

static void tvblt_release(dpmf_strategy *s) {
    tvblt_free(&((tvblt_strategy *)s)->c);
}

static dpmf_status tvblt_apply(const dpmf_strategy *s, const double *x, double *y) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        y[t] = (x[t] - tvblt_output(c, state)) / c->diagonal[t];
        tvblt_advance(c, t, y[t], state);
    }
    return DPMF_OK;
}

static dpmf_status tvblt_solve(const dpmf_strategy *s, const double *y, double *x) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    for (int64_t t = 0; t < s->steps; t++) {
        x[t] = c->diagonal[t] * y[t] + tvblt_output(c, state);
        tvblt_advance(c, t, y[t], state);
    }
    return DPMF_OK;
}

static int64_t tvblt_buffers(const dpmf_strategy *s) {
    return tvblt_states(tvblt_of(s));
}

static void tvblt_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                       double *row) {
    const tvblt_parameters *c = tvblt_of(s);
    int states = tvblt_states(c), r = c->nodes;
    const double *keep = c->keep + t * states, *gain = c->gain + t * states;
    for (int64_t i = 0; i < count; i++)
        row[i] = c->diagonal[t] * seed[i];
    for (int j = 0; j < r && c->order == 1; j++) {
        double *x = state + j * count;
        for (int64_t i = 0; i < count; i++) {
            row[i] += x[i];
            x[i] = keep[j] * x[i] + gain[j] * seed[i];
        }
    }
    for (int j = 0; j < r && c->order == 2; j++) {
        double *x = state + j * count, *second = state + (r + j) * count;
        for (int64_t i = 0; i < count; i++) {
            double change = keep[j] * x[i] + keep[r + j] * second[i];
            row[i] += x[i];
            x[i] += change + gain[j] * seed[i];
            second[i] = change + gain[r + j] * seed[i];
        }
    }
}

/* The impulse response of C: nothing happens before step j. */
static dpmf_status tvblt_column(const dpmf_strategy *s, int64_t j, double *column) {
    const tvblt_parameters *c = tvblt_of(s);
    double state[STATES_MAX] = {0};
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps; t++) {
        column[t] = ((t == j) - tvblt_output(c, state)) / c->diagonal[t];
        tvblt_advance(c, t, column[t], state);
    }
    return DPMF_OK;
}

static dpmf_status tvblt_column_norms(const dpmf_strategy *s, double *norms) {
    int64_t bad = tvblt_square_norms(tvblt_of(s), norms);
    if (bad >= 0)
        return base_fail(DPMF_ERROR_NUMERICAL, "tvblt: the norm of column %lld is not positive and finite",
                         (long long)bad);
    for (int64_t t = 0; t < s->steps; t++)
        norms[t] = sqrt(norms[t]);
    return DPMF_OK;
}

static dpmf_status gram(const dpmf_strategy *s, int64_t lag, double *values) {
    return tvblt_gram(tvblt_of(s), lag, values);
}

static void tvblt_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const tvblt_parameters *c = tvblt_of(s);
    base_json_integer(w, "order", c->order);
    base_tensors_add(tensors, "strategy.diagonal", s->steps, 0, c->diagonal);
    base_tensors_add(tensors, "strategy.keep", s->steps, tvblt_states(c), c->keep);
    base_tensors_add(tensors, "strategy.gain", s->steps, tvblt_states(c), c->gain);
}

static int64_t gram_numbers(const dpmf_strategy *s) {
    return tvblt_states(tvblt_of(s));
}

static void gram_prepare(const dpmf_strategy *s, double *prepared) {
    tvblt_gram_vectors(tvblt_of(s), prepared);
}

static void gram_row(const dpmf_strategy *s, const double *prepared, int64_t t, int64_t count, double *values) {
    tvblt_gram_row(tvblt_of(s), prepared, t, count, values);
}

static const strategy_ops TVBLT = {.class_name = "tvblt",
                                   .release = tvblt_release,
                                   .apply = tvblt_apply,
                                   .solve = tvblt_solve,
                                   .step = tvblt_step,
                                   .buffers = tvblt_buffers,
                                   .column = tvblt_column,
                                   .column_norms = tvblt_column_norms,
                                   .gram = gram,
                                   .gram_numbers = gram_numbers,
                                   .gram_prepare = gram_prepare,
                                   .gram_row = gram_row,
                                   .squared_errors = tvblt_squared_errors,
                                   .plan_noise = tvblt_plan_noise,
                                   .write = tvblt_write};

/* ---- making it ---- */

dpmf_status tvblt_create(tvblt_parameters *c, dpmf_strategy **out) {
    tvblt_strategy *s = NULL;
    TRY(strategy_new(&TVBLT, sizeof *s, DPMF_FAMILY_TVBLT, c->steps, (dpmf_strategy **)&s));
    s->c = *c;
    *c = (tvblt_parameters){0};
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status tvblt_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *diagonal = NULL, *keep = NULL, *gain = NULL;
    int64_t order = 0;
    tvblt_parameters c = {0};
    dpmf_status status = DPMF_OK;
    TRY(base_json_get_integer(source->object, "order", "strategy", 1, 2, &order));
    TRY(strategy_array(source, "strategy.diagonal", source->steps, 0, &diagonal));
    TRY(strategy_array(source, "strategy.keep", source->steps, -1, &keep));
    int64_t states = keep->shape[1];
    if (states < order || states % order != 0 || states / order > TVBLT_NODES_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: tvblt with %lld buffers, accepted %lld to %lld",
                         (long long)states, (long long)order, (long long)(order * TVBLT_NODES_MAX));
    TRY(strategy_array(source, "strategy.gain", source->steps, states, &gain));
    for (int64_t t = 0; t < source->steps; t++)
        if (!(diagonal->values[t] > 0))
            return base_fail(DPMF_ERROR_FORMAT, "mechanism file: tvblt, diagonal %lld = %g, accepted: positive",
                             (long long)t, diagonal->values[t]);
    TRY(tvblt_alloc(source->steps, (int)(states / order), (int)order, &c));
    memcpy(c.diagonal, diagonal->values, (size_t)source->steps * sizeof(double));
    memcpy(c.keep, keep->values, (size_t)(source->steps * states) * sizeof(double));
    memcpy(c.gain, gain->values, (size_t)(source->steps * states) * sizeof(double));
    status = tvblt_create(&c, out);
    tvblt_free(&c);
    return status;
}
