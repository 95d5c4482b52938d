/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload A: what the user wants accurate.
 *
 * Named workloads are the recursion (Pillutla et al. 2025, Eq. 3.4; Denisov et al. 2022, Section 4)
 *
 *     m_t = beta m_{t-1} + g_t
 *     u_t = m_t                      heavy ball, or
 *     u_t = g_t + beta m_t           Nesterov, as deep-learning libraries write it
 *     o_t = (1 - eta_t lambda) o_{t-1} + eta_t u_t
 *
 * so A is applied in O(n) with two numbers of state, and with N the down-shift and k_t = 1 - eta_t lambda
 *
 *     A^-1 = R^-1 (I - beta N) diag(1/eta) (I - diag(k) N),    R = I or (1 + beta) I - beta N.
 *
 * R commutes with I - beta N (both are polynomials in N), which is what puts it on the outside. A dense matrix or a
 * user's operator is accepted where no such structure is known.
 */
#include "workload/workload.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sum.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

dpmf_workload_options dpmf_workload_options_defaults(void) {
    return (dpmf_workload_options){0};
}

/* ---- making and freeing ---- */

dpmf_workload *workload_retain(const dpmf_workload *workload) {
    dpmf_workload *w = (dpmf_workload *)workload; /* only the count changes */
    __atomic_add_fetch(&w->references, 1, __ATOMIC_RELAXED);
    return w;
}

void dpmf_workload_free(dpmf_workload *workload) {
    if (workload == NULL || __atomic_sub_fetch(&workload->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    base_free(workload->text);
    base_free(workload->schedule);
    base_free(workload->learning_rate);
    base_free(workload->matrix);
    workload_operator_free(workload->operator_);
    base_free(workload);
}

/* A double cannot tell n beyond 2^53 from its neighbours; no algorithm here reaches it anyway. */
static dpmf_status check_steps(int64_t steps) {
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    return DPMF_OK;
}

static dpmf_status new_workload(int64_t steps, workload_form form, const char *text, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    TRY(check_steps(steps));
    TRY(base_alloc(1, sizeof *w, "a workload", (void **)&w));
    w->references = 1;
    w->form = form;
    w->steps = steps;
    dpmf_status status = base_copy_text(text, &w->text);
    if (status != DPMF_OK) {
        base_free(w);
        return status;
    }
    *out = w;
    return DPMF_OK;
}

static dpmf_status check_named(int64_t steps, const dpmf_workload_options *o) {
    if (!(o->momentum >= 0 && o->momentum < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "momentum = %g, accepted 0 <= beta < 1", o->momentum);
    if (!(o->decay >= 0 && o->decay <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "decay = %g, accepted 0 <= lambda <= 1", o->decay);
    if (o->nesterov != 0 && o->nesterov != 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "nesterov = %d, accepted 0 or 1", o->nesterov);
    for (int64_t t = 0; o->learning_rate != NULL && t < steps; t++) {
        double eta = o->learning_rate[t];
        /* 1/eta enters A^-1: beyond these bounds its products would leave the range of a double */
        if (!(eta >= 1e-100 && eta <= 1e100))
            return base_fail(DPMF_ERROR_ARGUMENT, "learning rate of step %" PRId64 " = %g, accepted 1e-100 to 1e100", t,
                             eta);
        if (!(eta * o->decay <= 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "learning rate x decay at step %" PRId64 " = %g, accepted up to 1", t,
                             eta * o->decay);
    }
    return DPMF_OK;
}

static int is_constant(int64_t steps, const double *x) {
    for (int64_t t = 1; x != NULL && t < steps; t++)
        if (x[t] != x[0]) return 0;
    return 1;
}

dpmf_status workload_create_named(int64_t steps, const dpmf_workload_options *options, const char *schedule,
                                  dpmf_workload **out) {
    dpmf_workload_options o = options == NULL ? dpmf_workload_options_defaults() : *options;
    dpmf_workload *w = NULL;
    base_writer text = {0};
    dpmf_status status = DPMF_OK;
    TRY(check_steps(steps));
    TRY(check_named(steps, &o));
    char number[32];
    if (o.momentum > 0) {
        base_format_double(o.momentum, number);
        base_write_raw(&text, o.nesterov ? ",nesterov:" : ",momentum:");
        base_write_raw(&text, number);
    }
    int is_mean = schedule != NULL && strcmp(schedule, WORKLOAD_MEAN) == 0;
    if (o.decay > 0 && !is_mean) {
        base_format_double(o.decay, number);
        base_write_raw(&text, ",decay:");
        base_write_raw(&text, number);
    }
    if (o.learning_rate != NULL) {
        base_write_raw(&text, ",");
        base_write_raw(&text, schedule == NULL ? "lr" : schedule);
    }
    if (text.length == 0) base_write_raw(&text, ",prefix");
    TRY_DONE(text.status);
    TRY_DONE(new_workload(steps, WORKLOAD_NAMED, text.text + 1, &w));
    w->momentum = o.momentum;
    w->nesterov = o.nesterov && o.momentum > 0;
    w->decay = o.decay;
    w->toeplitz = is_constant(steps, o.learning_rate);
    if (o.learning_rate != NULL) {
        TRY_DONE(base_alloc_doubles(steps, "the learning rates", &w->learning_rate));
        memcpy(w->learning_rate, o.learning_rate, (size_t)steps * sizeof *w->learning_rate);
        TRY_DONE(base_copy_text(schedule == NULL ? "lr" : schedule, &w->schedule));
    }
    *out = w;
    w = NULL;
done:
    dpmf_workload_free(w);
    base_writer_free(&text);
    return status;
}

dpmf_status dpmf_workload_create(int64_t steps, const dpmf_workload_options *options, dpmf_workload **out) {
    return workload_create_named(steps, options, NULL, out);
}

static int is_toeplitz_matrix(int64_t n, const double *a) {
    for (int64_t t = 1; t < n; t++)
        for (int64_t u = 1; u <= t; u++)
            if (a[t * n + u] != a[(t - 1) * n + u - 1]) return 0;
    return 1;
}

dpmf_status dpmf_workload_create_dense(int64_t steps, const double *matrix, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    dpmf_status status = DPMF_OK;
    if (matrix == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the workload matrix is NULL");
    TRY(check_steps(steps));
    TRY(base_lower_check(steps, matrix, "workload", 1));
    TRY_DONE(new_workload(steps, WORKLOAD_DENSE, "file", &w));
    TRY_DONE(base_alloc_square(steps, "the workload matrix", &w->matrix));
    memcpy(w->matrix, matrix, (size_t)(steps * steps) * sizeof *matrix);
    w->toeplitz = is_toeplitz_matrix(steps, matrix);
    *out = w;
    w = NULL;
done:
    dpmf_workload_free(w);
    return status;
}

dpmf_status dpmf_workload_create_operator(int64_t steps, const dpmf_operator *operator_, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    workload_operator *op = NULL;
    TRY(check_steps(steps));
    TRY(workload_operator_create(steps, operator_, &op));
    dpmf_status status = new_workload(steps, WORKLOAD_OPERATOR, "operator", &w);
    if (status != DPMF_OK) {
        op->user.release = NULL; /* the context stays the caller's when the call fails */
        workload_operator_free(op);
        return status;
    }
    w->operator_ = op;
    *out = w;
    return DPMF_OK;
}

static dpmf_status dense_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    double *corner = NULL;
    TRY(base_alloc_square(steps, "a corner of the workload", &corner));
    for (int64_t t = 0; t < steps; t++)
        memcpy(corner + t * steps, w->matrix + t * w->steps, (size_t)steps * sizeof *corner);
    dpmf_workload *head = NULL;
    char *text = NULL;
    dpmf_status status = dpmf_workload_create_dense(steps, corner, &head);
    base_free(corner);
    if (status == DPMF_OK) status = base_copy_text(w->text, &text); /* window:W keeps its text */
    if (status != DPMF_OK) {
        dpmf_workload_free(head);
        return status;
    }
    base_free(head->text);
    head->text = text;
    *out = head;
    return DPMF_OK;
}

dpmf_status workload_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    assert(steps >= 1 && steps <= w->steps);
    if (steps == w->steps) {
        *out = workload_retain(w);
        return DPMF_OK;
    }
    if (w->form == WORKLOAD_DENSE) return dense_head(w, steps, out);
    if (w->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "a user's operator cannot be cut to %" PRId64 " steps", steps);
    dpmf_workload_options o = {w->momentum, w->nesterov, w->decay, w->learning_rate};
    return workload_create_named(steps, &o, w->learning_rate == NULL ? NULL : "lr", out);
}

/* ---- properties ---- */

dpmf_workload_info dpmf_workload_get(const dpmf_workload *w) {
    dpmf_workload_info info = {.steps = w->steps, .text = w->text, .is_toeplitz = w->toeplitz};
    workload_inverse_bands(w, &info.inverse_q_bands, &info.inverse_r_bands);
    return info;
}

int workload_is_prefix(const dpmf_workload *w) {
    return w->form == WORKLOAD_NAMED && w->momentum == 0 && w->decay == 0 && w->learning_rate == NULL;
}

static int same_arrays(int64_t n, const double *a, const double *b) {
    if (a == NULL || b == NULL) return a == b;
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

int workload_equal(const dpmf_workload *a, const dpmf_workload *b) {
    if (a == b) return 1;
    if (a->form != b->form || a->steps != b->steps) return 0;
    switch (a->form) {
    case WORKLOAD_NAMED:
        return a->momentum == b->momentum && a->nesterov == b->nesterov && a->decay == b->decay &&
               same_arrays(a->steps, a->learning_rate, b->learning_rate);
    case WORKLOAD_DENSE:
        return same_arrays(a->steps * a->steps, a->matrix, b->matrix);
    case WORKLOAD_OPERATOR:
        return 0;
    }
    return 0;
}

/* ---- the recursion ---- */

workload_recursion_form workload_recursion(const dpmf_workload *w, int64_t t) {
    assert(w->form == WORKLOAD_NAMED && t >= 0 && t < w->steps);
    double eta = w->learning_rate == NULL ? 1 : w->learning_rate[t];
    workload_recursion_form r = {.momentum = w->momentum, .rate = eta, .keep = 1 - eta * w->decay};
    r.from_m = w->nesterov ? w->momentum : 1;
    r.from_y = w->nesterov ? 1 : 0;
    return r;
}

int64_t workload_buffers(const dpmf_workload *w) {
    switch (w->form) {
    case WORKLOAD_NAMED:
        return w->momentum > 0 ? 2 : 1;
    case WORKLOAD_DENSE:
        return w->steps - 1;
    case WORKLOAD_OPERATOR:
        return w->operator_->user.buffers;
    }
    return 0;
}

static void named_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    workload_recursion_form r = workload_recursion(w, t);
    double *o = state, *m = state + count;
    if (w->momentum == 0) {
        for (int64_t i = 0; i < count; i++)
            y[i] = o[i] = r.keep * o[i] + r.rate * x[i];
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        double input = x[i];
        m[i] = r.momentum * m[i] + input;
        o[i] = r.keep * o[i] + r.rate * (r.from_m * m[i] + r.from_y * input);
        y[i] = o[i];
    }
}

/* The rows of A are known, so the state is the past inputs. */
static void dense_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    const double *a = w->matrix + t * w->steps;
    for (int64_t i = 0; i < count; i++) {
        double sum = a[t] * x[i];
        for (int64_t u = 0; u < t; u++)
            sum += a[u] * state[u * count + i];
        if (t < w->steps - 1) state[t * count + i] = x[i];
        y[i] = sum;
    }
}

void workload_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    assert(t >= 0 && t < w->steps);
    if (w->form == WORKLOAD_NAMED)
        named_step(w, t, count, x, state, y);
    else if (w->form == WORKLOAD_DENSE)
        dense_step(w, t, count, x, state, y);
    else
        workload_operator_step(w->operator_, t, count, x, state, y);
}

int64_t workload_inverse_buffers(const dpmf_workload *w) {
    if (w->form == WORKLOAD_OPERATOR) return workload_operator_inverse_buffers(w->operator_);
    return workload_buffers(w);
}

/* u_t = (o_t - k_t o_{t-1}) / eta_t, then the momentum undone: state is o_{t-1} and m_{t-1}. */
static void named_inverse_step(const dpmf_workload *w, int64_t t, int64_t count, const double *y, double *state,
                               double *x) {
    workload_recursion_form r = workload_recursion(w, t);
    double *o = state, *m = state + count;
    double direct = r.from_m + r.from_y;
    for (int64_t i = 0; i < count; i++) {
        double output = y[i];
        double u = (output - r.keep * o[i]) / r.rate;
        o[i] = output;
        if (w->momentum == 0) {
            x[i] = u;
        } else {
            x[i] = (u - r.from_m * r.momentum * m[i]) / direct;
            m[i] = r.momentum * m[i] + x[i];
        }
    }
}

static void dense_inverse_step(const dpmf_workload *w, int64_t t, int64_t count, const double *y, double *state,
                               double *x) {
    const double *a = w->matrix + t * w->steps;
    for (int64_t i = 0; i < count; i++) {
        double sum = y[i];
        for (int64_t u = 0; u < t; u++)
            sum -= a[u] * state[u * count + i];
        x[i] = sum / a[t];
        if (t < w->steps - 1) state[t * count + i] = x[i];
    }
}

void workload_inverse_step(const dpmf_workload *w, int64_t t, int64_t count, const double *y, double *state,
                           double *x) {
    assert(t >= 0 && t < w->steps);
    if (w->form == WORKLOAD_NAMED)
        named_inverse_step(w, t, count, y, state, x);
    else if (w->form == WORKLOAD_DENSE)
        dense_inverse_step(w, t, count, y, state, x);
    else
        workload_operator_inverse_step(w->operator_, t, count, y, state, x);
}

/* ---- whole vectors ---- */

typedef void (*row_step)(const dpmf_workload *, int64_t, int64_t, const double *, double *, double *);

static dpmf_status run_rows(const dpmf_workload *w, row_step step, int64_t buffers, const double *in, double *out) {
    double *state = NULL;
    TRY(base_alloc_doubles(buffers, "the workload's state", &state));
    for (int64_t t = 0; t < w->steps; t++) {
        double value = in[t]; /* in and out may be the same array */
        step(w, t, 1, &value, state, &out[t]);
    }
    base_free(state);
    return DPMF_OK;
}

static void prefix_apply(int64_t n, const double *x, double *y) {
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        y[t] = sum += x[t];
}

dpmf_status dpmf_workload_apply(const dpmf_workload *workload, const double *x, double *y) {
    if (workload_is_prefix(workload)) {
        prefix_apply(workload->steps, x, y);
        return DPMF_OK;
    }
    if (workload->form == WORKLOAD_DENSE) {
        base_lower_apply(workload->steps, workload->matrix, x, y);
        return DPMF_OK;
    }
    return run_rows(workload, workload_step, workload_buffers(workload), x, y);
}

dpmf_status dpmf_workload_solve(const dpmf_workload *workload, const double *y, double *x) {
    if (workload->form == WORKLOAD_DENSE) {
        base_lower_solve(workload->steps, workload->matrix, y, x);
        return DPMF_OK;
    }
    return run_rows(workload, workload_inverse_step, workload_inverse_buffers(workload), y, x);
}

/* ---- structure ---- */

void workload_inverse_bands(const dpmf_workload *w, int *q_bands, int *r_bands) {
    if (w->form != WORKLOAD_NAMED) {
        *q_bands = -1;
        *r_bands = 0;
        return;
    }
    *q_bands = w->momentum > 0 ? 2 : 1;
    *r_bands = w->nesterov;
}

dpmf_status dpmf_workload_inverse_row(const dpmf_workload *w, int64_t t, double q[3], double r[2]) {
    if (w->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload %s: no bands of its inverse are known", w->text);
    if (t < 0 || t >= w->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "step %" PRId64 ", accepted 0 to %" PRId64, t, w->steps - 1);
    workload_recursion_form now = workload_recursion(w, t);
    q[0] = 1 / now.rate;
    q[1] = q[2] = 0;
    if (t >= 1) {
        workload_recursion_form before = workload_recursion(w, t - 1);
        q[1] = -now.keep / now.rate - w->momentum / before.rate;
        if (t >= 2) q[2] = w->momentum * before.keep / before.rate;
    }
    r[0] = w->nesterov ? 1 + w->momentum : 1;
    r[1] = w->nesterov && t >= 1 ? -w->momentum : 0;
    return DPMF_OK;
}

/*
 * Column j of A is the response of (m, o) to an impulse at step j. Backwards in t keep the quadratic form
 * J_t(m, o) = sum over s >= t of o_s^2 when the state after step t is (m, o) and no input follows:
 * J_t = o^2 + J_{t+1}(F_{t+1} (m, o)). Every term is non-negative, so nothing cancels.
 */
static void named_column_norms(const dpmf_workload *w, double *norms) {
    double mm = 0, mo = 0, oo = 0; /* J_{t+1} after the map F_{t+1}; zero past the end */
    for (int64_t t = w->steps - 1; t >= 0; t--) {
        workload_recursion_form r = workload_recursion(w, t);
        double o = r.rate * (r.from_m + r.from_y), total = oo + 1;
        norms[t] = sqrt(mm + 2 * mo * o + total * o * o);
        /* F_t: m' = momentum m, o' = keep o + c m with c = rate from_m momentum */
        double b = r.momentum, c = r.rate * r.from_m * r.momentum, k = r.keep;
        double new_mm = b * b * mm + 2 * b * c * mo + c * c * total;
        double new_mo = b * k * mo + c * k * total;
        mm = new_mm;
        mo = new_mo;
        oo = k * k * total;
    }
}

static void dense_column_norms(const dpmf_workload *w, double *norms) {
    int64_t n = w->steps;
    for (int64_t j = 0; j < n; j++) {
        base_running sum = {0};
        for (int64_t t = j; t < n; t++)
            base_running_add(&sum, w->matrix[t * n + j] * w->matrix[t * n + j]);
        norms[j] = sqrt(base_running_value(&sum));
    }
}

static dpmf_status operator_column_norms(const dpmf_workload *w, double *norms) {
    double *column = NULL;
    TRY(base_alloc_doubles(w->steps, "a column", &column));
    dpmf_status status = DPMF_OK;
    for (int64_t j = 0; j < w->steps && status == DPMF_OK; j++) {
        memset(column, 0, (size_t)w->steps * sizeof *column);
        column[j] = 1;
        status = dpmf_workload_apply(w, column, column);
        if (status == DPMF_OK) norms[j] = base_norm(w->steps, column);
    }
    base_free(column);
    return status;
}

dpmf_status workload_column_norms(const dpmf_workload *w, double *norms) {
    if (w->form == WORKLOAD_OPERATOR) return operator_column_norms(w, norms);
    if (w->form == WORKLOAD_NAMED)
        named_column_norms(w, norms);
    else
        dense_column_norms(w, norms);
    return DPMF_OK;
}
