/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output perturbation: C = A, B = I (Pillutla et al. 2025, Section 1.4). The noise of step t is row t of A^-1 Z; for
 * the named workloads A^-1 has at most three bands, so two rows are kept.
 */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "error/error.h"
#include "workload/workload.h"

#include <assert.h>
#include <string.h>

typedef struct own {
    dpmf_strategy base;
    dpmf_workload *workload;
    double *c, *inverse; /* the series of A and A^-1 if A is Toeplitz, named and not too long, else NULL */
} own;

STRATEGY_CAST(own)

static void own_release(dpmf_strategy *s) {
    dpmf_workload_free(((own *)s)->workload);
    base_free(((own *)s)->c);
    base_free(((own *)s)->inverse);
}

static dpmf_status own_apply(const dpmf_strategy *s, const double *x, double *y) {
    return dpmf_workload_apply(cast(s)->workload, x, y);
}

static dpmf_status own_solve(const dpmf_strategy *s, const double *y, double *x) {
    return dpmf_workload_solve(cast(s)->workload, y, x);
}

static void own_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state, double *row) {
    workload_inverse_step(cast(s)->workload, t, count, seed, state, row);
}

static int64_t own_buffers(const dpmf_strategy *s) {
    return workload_inverse_buffers(cast(s)->workload);
}

static dpmf_status own_column_norms(const dpmf_strategy *s, double *norms) {
    return workload_column_norms(cast(s)->workload, norms);
}

static int64_t own_inverse_bands(const dpmf_strategy *s) {
    int q = 0, r = 0;
    workload_inverse_bands(cast(s)->workload, &q, &r);
    assert(q >= 0 && r == 0);
    return q + 1 > s->steps ? s->steps : q + 1;
}

static void own_inverse_row(const dpmf_strategy *s, int64_t t, double *values) {
    double q[3], r[2];
    dpmf_status status = dpmf_workload_inverse_row(cast(s)->workload, t, q, r);
    assert(status == DPMF_OK);
    (void)status;
    memcpy(values, q, (size_t)own_inverse_bands(s) * sizeof *values);
}

static void own_toeplitz(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                         const double **inverse) {
    *count = *inverse_count = s->steps;
    *c = cast(s)->c;
    *inverse = cast(s)->inverse;
}

static void own_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const dpmf_workload *workload = cast(s)->workload;
    base_json_open(w, "workload", '{');
    workload_write(workload, "strategy.workload", w, tensors);
    base_json_close(w, '}');
}

/* B = I where the workload is its own; else, where that is a matrix, with it. */
static dpmf_status own_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const dpmf_workload *c = cast(s)->workload;
    const int same = workload_equal(c, q->a);
    *done = error_question_is_plain(q) && (same || c->form == WORKLOAD_DENSE);
    if (*done && !same) return error_dense(q->a, s, c->matrix, q->run, squares);
    for (int64_t t = 0; *done && t < s->steps; t++)
        squares[t] = 1;
    return DPMF_OK;
}

static const strategy_ops OWN = {.class_name = "workload",
                                 .release = own_release,
                                 .apply = own_apply,
                                 .solve = own_solve,
                                 .step = own_step,
                                 .buffers = own_buffers,
                                 .column_norms = own_column_norms,
                                 .inverse_bands = own_inverse_bands,
                                 .inverse_row = own_inverse_row,
                                 .toeplitz = own_toeplitz,
                                 .squared_errors = own_squared_errors,
                                 .write = own_write};

/* Bands of the inverse are known for the named workloads, and with Nesterov's R it has none. */
static int has_banded_inverse(const dpmf_workload *workload) {
    int q = 0, r = 0;
    workload_inverse_bands(workload, &q, &r);
    return q >= 0 && r == 0;
}

dpmf_status workload_strategy_create(const dpmf_workload *workload, const dpmf_strategy_options *o,
                                     dpmf_strategy **out) {
    (void)o;
    own *s = NULL;
    dpmf_status status = DPMF_OK;
    int64_t n = workload->steps;
    int named = workload->form == WORKLOAD_NAMED;
    if (workload_is_stack(workload))
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "family workload: C = A needs one answer for each step, and workload %s is a sum or a matrix of another "
            "shape; accepted: --optimize-workload with one of its parts",
            workload->text);
    TRY(strategy_new(&OWN, sizeof *s, DPMF_FAMILY_WORKLOAD, n, (dpmf_strategy **)&s));
    if (!has_banded_inverse(workload)) s->base.can &= ~(unsigned)STRATEGY_CAN_INVERSE_ROW;
    s->workload = workload_retain(workload);
    if (!named || !workload->toeplitz || n > STRATEGY_HELD_MAX / 2)
        s->base.can &= ~(unsigned)STRATEGY_CAN_TOEPLITZ;
    else {
        TRY_DONE(base_alloc_doubles(n, "the coefficients of C", &s->c));
        TRY_DONE(base_alloc_doubles(n, "the coefficients of C^-1", &s->inverse));
        TRY_DONE(workload_series(workload, 1, n, s->c));
        TRY_DONE(workload_series(workload, -1, n, s->inverse));
    }
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

/* C = A: its own workload object, which is usually the mechanism's. */
dpmf_status workload_strategy_read(const strategy_source *source, dpmf_strategy **out) {
    const cJSON *object = NULL;
    dpmf_workload *workload = NULL;
    TRY(base_json_get_object(source->object, "workload", "strategy", &object));
    TRY(workload_read(object, source->steps, "strategy.workload", source->tensors, &workload));
    dpmf_status status = workload_strategy_create(workload, NULL, out);
    dpmf_workload_free(workload);
    return status;
}
