/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streaming linear operators given by the user (McKenna 2024, Definition D.1).
 *
 * A linear step is y_t = d_t x_t + f_t(state). The inverse needs no second callback: with y0 = f_t(state), what a zero
 * input would give,
 *
 *     x_t = (y_t - y0) / d_t,   and then the operator takes its real step with x_t.
 *
 * The step changes its state, so y0 is computed on a copy; d_t is read off once by an impulse at step t from rest.
 */
#include "workload/operator.h"

#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static void release(const dpmf_operator *user) {
    if (user->release != NULL) user->release(user->context);
}

void workload_operator_step(const workload_operator *op, int64_t t, int64_t count, const double *x, double *state,
                            double *y) {
    op->user.step(op->user.context, t, count, x, state, y);
}

int64_t workload_operator_inverse_buffers(const workload_operator *op) {
    return 2 * op->user.buffers + 1;
}

void workload_operator_inverse_step(const workload_operator *op, int64_t t, int64_t count, const double *y,
                                    double *state, double *x) {
    size_t half = (size_t)(op->user.buffers * count);
    double *look_ahead = state + half, *scratch = look_ahead + half;
    memcpy(look_ahead, state, half * sizeof *state);
    memset(x, 0, (size_t)count * sizeof *x);
    op->user.step(op->user.context, t, count, x, look_ahead, scratch);
    for (int64_t i = 0; i < count; i++)
        x[i] = (y[i] - scratch[i]) / op->diagonal[t];
    op->user.step(op->user.context, t, count, x, state, scratch);
}

/* The diagonal, by an impulse at every step from rest. */
static dpmf_status read_diagonal(const workload_operator *op, double *state) {
    for (int64_t t = 0; t < op->steps; t++) {
        const double one = 1;
        double d = NAN;
        memset(state, 0, (size_t)op->user.buffers * sizeof *state);
        op->user.step(op->user.context, t, 1, &one, state, &d);
        if (!isfinite(d) || d == 0)
            return base_fail(DPMF_ERROR_NUMERICAL,
                             "operator: an impulse at step %" PRId64
                             " answers %g at once; the diagonal must be finite and not 0",
                             t, d);
        op->diagonal[t] = d;
    }
    return DPMF_OK;
}

/*
 * Linearity on a short run: three columns, the third twice the first minus the second. A non-linear callback would
 * silently make every figure wrong.
 */
static dpmf_status probe_linearity(const workload_operator *op, double *state) {
    int64_t probe = op->steps < 32 ? op->steps : 32;
    memset(state, 0, (size_t)(3 * op->user.buffers) * sizeof *state);
    for (int64_t t = 0; t < probe; t++) {
        double a = (double)(t % 5) - 1.75, b = (double)(t % 3) + 0.5;
        double x[3] = {a, b, 2 * a - b}, y[3] = {NAN, NAN, NAN};
        op->user.step(op->user.context, t, 3, x, state, y);
        double scale = fabs(y[0]) + fabs(y[1]) + fabs(y[2]);
        if (!(fabs(2 * y[0] - y[1] - y[2]) <= 1e-9 * scale + 1e-300))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "operator: not linear at step %" PRId64 " (2 f(a) - f(b) = %g, f(2a - b) = %g)", t,
                             2 * y[0] - y[1], y[2]);
    }
    return DPMF_OK;
}

dpmf_status workload_operator_create(int64_t steps, const dpmf_operator *user, workload_operator **out) {
    workload_operator *op = NULL;
    double *state = NULL;
    dpmf_status status = DPMF_OK;
    if (user == NULL || user->step == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "operator: step is NULL");
    if (user->buffers < 0 || user->buffers > ((int64_t)1 << 40))
        return base_fail(DPMF_ERROR_ARGUMENT, "operator: buffers = %" PRId64 ", accepted 0 to 2^40", user->buffers);
    TRY_DONE(base_alloc(1, sizeof *op, "an operator", (void **)&op));
    op->user = *user;
    op->steps = steps;
    TRY_DONE(base_alloc_doubles(steps, "the operator's diagonal", &op->diagonal));
    TRY_DONE(base_alloc_doubles(3 * user->buffers + 1, "the operator's state", &state));
    TRY_DONE(probe_linearity(op, state));
    TRY_DONE(read_diagonal(op, state));
    *out = op;
done:
    base_free(state);
    if (status != DPMF_OK && op != NULL) {
        base_free(op->diagonal);
        base_free(op);
    }
    return status;
}

void workload_operator_free(workload_operator *op) {
    if (op == NULL) return;
    release(&op->user);
    base_free(op->diagonal);
    base_free(op);
}
