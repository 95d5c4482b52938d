/* SPDX-License-Identifier: Apache-2.0 */
/* Products with A, row by row and whole: A, its inverse and its transpose; column norms; powers; users' operators. */
#include "workload/workload.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

int workload_is_prefix(const dpmf_workload *w) {
    return w->form == WORKLOAD_NAMED && w->momentum == 0 && w->decay == 0 && w->learning_rate == NULL;
}

workload_recursion_form workload_recursion(const dpmf_workload *w, int64_t t) {
    assert(w->form == WORKLOAD_NAMED && t >= 0 && t < w->steps);
    double eta = w->learning_rate == NULL ? 1 : w->learning_rate[t];
    workload_recursion_form r = {.momentum = w->momentum, .rate = eta, .keep = 1 - eta * w->decay};
    r.from_m = w->nesterov ? w->momentum : 1;
    r.from_y = w->nesterov ? 1 : 0;
    return r;
}

int64_t workload_row_count(const dpmf_workload *w) {
    int64_t rows = 0;
    if (w->form == WORKLOAD_ROWS) return w->rows;
    if (w->form != WORKLOAD_SUM) return w->steps;
    for (int i = 0; i < w->parts; i++)
        rows += workload_row_count(w->part[i]);
    return rows;
}

static int64_t stack_buffers(const dpmf_workload *w) {
    int64_t buffers = 0;
    if (w->form == WORKLOAD_ROWS) return w->steps - 1;
    for (int i = 0; i < w->parts; i++)
        buffers += workload_buffers(w->part[i]);
    return buffers;
}

int64_t workload_buffers(const dpmf_workload *w) {
    switch (w->form) {
    case WORKLOAD_NAMED:
        return w->momentum > 0 ? 2 : 1;
    case WORKLOAD_DENSE:
        return w->steps - 1;
    case WORKLOAD_OPERATOR:
        return w->operator_->user.buffers;
    case WORKLOAD_ROWS:
    case WORKLOAD_SUM:
        return stack_buffers(w);
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

static void rows_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    const int64_t n = w->steps;
    memset(y, 0, (size_t)(w->width * count) * sizeof *y);
    for (int64_t r = w->first[t]; r < w->first[t + 1]; r++, y += count) {
        const double *a = w->matrix + r * n;
        for (int64_t u = 0; u < t; u++)
            for (int64_t i = 0; i < count && a[u] != 0; i++)
                y[i] += a[u] * state[u * count + i];
        for (int64_t i = 0; i < count; i++)
            y[i] += a[t] * x[i];
    }
    if (t < n - 1) memcpy(state + t * count, x, (size_t)count * sizeof *x);
}

static void stack_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    if (w->form == WORKLOAD_ROWS) {
        rows_step(w, t, count, x, state, y);
        return;
    }
    for (int i = 0; i < w->parts; i++) {
        const dpmf_workload *part = w->part[i];
        const double root = sqrt(w->weight[i]);
        workload_step(part, t, count, x, state, y);
        for (int64_t j = 0; j < part->width * count; j++)
            y[j] *= root;
        state += workload_buffers(part) * count;
        y += part->width * count;
    }
}

void workload_step(const dpmf_workload *w, int64_t t, int64_t count, const double *x, double *state, double *y) {
    assert(t >= 0 && t < w->steps);
    if (w->form == WORKLOAD_NAMED)
        named_step(w, t, count, x, state, y);
    else if (w->form == WORKLOAD_DENSE) {
        /* The rows of A are known, so the state is the past inputs. */
        const double *a = w->matrix + t * w->steps;
        for (int64_t i = 0; i < count; i++) {
            double sum = a[t] * x[i];
            for (int64_t u = 0; u < t; u++)
                sum += a[u] * state[u * count + i];
            if (t < w->steps - 1) state[t * count + i] = x[i];
            y[i] = sum;
        }
    } else if (workload_is_stack(w))
        stack_step(w, t, count, x, state, y);
    else
        workload_operator_step(w->operator_, t, count, x, state, y);
}

/* A stack has no n x n matrix: its answers are more or fewer than its steps. */
static dpmf_status need_plain(const dpmf_workload *w, const char *what) {
    if (!workload_is_stack(w)) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED, "workload %s has %lld answers for %lld steps and so no %s", w->text,
                     (long long)workload_row_count(w), (long long)w->steps, what);
}

int64_t workload_inverse_buffers(const dpmf_workload *w) {
    if (w->form == WORKLOAD_OPERATOR) return workload_operator_inverse_buffers(w->operator_);
    return workload_buffers(w);
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
    if (w->form == WORKLOAD_NAMED) {
        /* u_t = (o_t - k_t o_{t-1}) / eta_t, then the momentum undone: state is o_{t-1} and m_{t-1}. */
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
    } else if (w->form == WORKLOAD_DENSE)
        dense_inverse_step(w, t, count, y, state, x);
    else
        workload_operator_inverse_step(w->operator_, t, count, y, state, x);
}

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

dpmf_status dpmf_workload_apply(const dpmf_workload *workload, const double *x, double *y) {
    TRY(need_plain(workload, "one answer for each step"));
    if (workload_is_prefix(workload)) {
        double sum = 0;
        for (int64_t t = 0; t < workload->steps; t++)
            y[t] = sum += x[t];
        return DPMF_OK;
    }
    if (workload->form == WORKLOAD_DENSE) {
        base_lower_apply(workload->steps, workload->matrix, x, y);
        return DPMF_OK;
    }
    return run_rows(workload, workload_step, workload_buffers(workload), x, y);
}

dpmf_status dpmf_workload_solve(const dpmf_workload *workload, const double *y, double *x) {
    TRY(need_plain(workload, "inverse"));
    if (workload->form == WORKLOAD_DENSE) {
        base_lower_solve(workload->steps, workload->matrix, y, x);
        return DPMF_OK;
    }
    return run_rows(workload, workload_inverse_step, workload_inverse_buffers(workload), y, x);
}

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
 * Column j of A is the response to an impulse at step j. Backwards in t: J_t(m, o) = sum over s >= t of o_s^2 from the state
 * (m, o) after step t, no input following, J_t = o^2 + J_{t+1}(F_{t+1} (m, o)). No term is negative: nothing cancels.
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
    TRY(need_plain(w, "square matrix"));
    if (w->form == WORKLOAD_OPERATOR) return operator_column_norms(w, norms);
    if (w->form == WORKLOAD_NAMED)
        named_column_norms(w, norms);
    else
        for (int64_t j = 0; j < w->steps; j++) {
            base_running sum = {0};
            for (int64_t t = j; t < w->steps; t++)
                base_running_add(&sum, w->matrix[t * w->steps + j] * w->matrix[t * w->steps + j]);
            norms[j] = sqrt(base_running_value(&sum));
        }
    return DPMF_OK;
}

/*
 * x = A' y. For a named workload this is the adjoint of its recursion, run backwards:
 *
 *     lo_t = y_t + keep_{t+1} lo_{t+1},   lm_t = from_m rate_t lo_t + momentum lm_{t+1},
 *     x_t = from_y rate_t lo_t + lm_t.
 */
dpmf_status workload_apply_transpose(const dpmf_workload *w, const double *y, double *x) {
    const int64_t n = w->steps;
    double sum = 0, momentum = 0, keep = 0;
    TRY(need_plain(w, "square matrix"));
    if (w->form == WORKLOAD_OPERATOR) return base_fail(DPMF_ERROR_UNSUPPORTED, "a user's operator has no transpose");
    if (workload_is_prefix(w)) {
        for (int64_t t = n - 1; t >= 0; t--)
            x[t] = sum += y[t];
        return DPMF_OK;
    }
    for (int64_t t = n - 1; t >= 0 && w->form == WORKLOAD_NAMED; t--) {
        const workload_recursion_form r = workload_recursion(w, t);
        sum = y[t] + keep * sum;
        momentum = r.from_m * r.rate * sum + r.momentum * momentum;
        x[t] = r.from_y * r.rate * sum + momentum;
        keep = r.keep;
    }
    for (int64_t u = 0; u < n && w->form == WORKLOAD_DENSE; u++) { /* x_u needs y_t for t >= u only: in place is fine */
        sum = 0;
        for (int64_t t = u; t < n; t++)
            sum += w->matrix[t * n + u] * y[t];
        x[u] = sum;
    }
    return DPMF_OK;
}

/*
 * Powers of a Toeplitz workload: A = a(N) with N the down-shift, so A^p has the power series a(x)^p as first column (the square
 * root of prefix sums: Fichtenberger, Henzinger and Upadhyay 2023; of momentum and weight decay: Kalinin and Lampert 2024).
 *
 * For the named workloads a(x) = scale * prod_i (1 - a_i x)^e_i with at most three factors
 *
 *     (1 - k x)^-1     k = 1 - eta lambda, the running sum
 *     (1 - beta x)^-1  momentum
 *     (1 - beta/(1+beta) x)^+1  and scale (1 + beta), Nesterov
 *
 * and f = a^p obeys D f' = M f with D = prod (1 - a_i x), M = sum_i -p e_i a_i prod_{j != i} (1 - a_j x), which is a
 * recursion of at most three terms:
 *
 *     (k+1) f_{k+1} = sum_{j>=0} M_j f_{k-j} - sum_{j>=1} D_j (k+1-j) f_{k+1-j}.
 *
 * O(n), relative accuracy (f is its dominant solution), no FFT. For a dense Toeplitz matrix, a f' = p a' f takes O(n^2).
 */
enum { FACTORS_MAX = 3 };

typedef struct factored {
    double scale;
    int count;
    double a[FACTORS_MAX], e[FACTORS_MAX];
} factored;

static factored factors_of(const dpmf_workload *w) {
    double eta = w->toeplitz && w->learning_rate != NULL ? w->learning_rate[0] : 1;
    factored f = {.scale = eta, .count = 1, .a = {1 - eta * w->decay}, .e = {-1}};
    if (w->momentum > 0) {
        f.a[f.count] = w->momentum;
        f.e[f.count++] = -1;
    }
    if (w->nesterov) {
        f.scale *= 1 + w->momentum;
        f.a[f.count] = w->momentum / (1 + w->momentum);
        f.e[f.count++] = 1;
    }
    return f;
}

/* poly *= (1 - a x), degree rising by one. */
static void multiply_factor(double *poly, int *degree, double a) {
    poly[*degree + 1] = 0;
    for (int j = *degree + 1; j >= 1; j--)
        poly[j] -= a * poly[j - 1];
    (*degree)++;
}

dpmf_status workload_series(const dpmf_workload *w, double power, int64_t count, double *out) {
    assert(count >= 1 && count <= w->steps);
    if (w->form == WORKLOAD_NAMED) {
        factored f = factors_of(w);
        double d[FACTORS_MAX + 1] = {1}, m[FACTORS_MAX + 1] = {0};
        int degree = 0;
        for (int i = 0; i < f.count; i++)
            multiply_factor(d, &degree, f.a[i]);
        for (int i = 0; i < f.count; i++) {
            double others[FACTORS_MAX + 1] = {1};
            int others_degree = 0;
            for (int j = 0; j < f.count; j++)
                if (j != i) multiply_factor(others, &others_degree, f.a[j]);
            for (int j = 0; j <= others_degree; j++)
                m[j] -= power * f.e[i] * f.a[i] * others[j];
        }
        out[0] = pow(f.scale, power);
        for (int64_t k = 0; k + 1 < count; k++) {
            double sum = 0;
            /* the sums are combined term by term: for prefix sums this is the exact ratio (k + p)/(k + 1) */
            for (int j = 0; j < f.count && j <= k; j++)
                sum += (m[j] - d[j + 1] * (double)(k - j)) * out[k - j];
            out[k + 1] = sum / (double)(k + 1);
        }
        return DPMF_OK;
    }
    if (!w->toeplitz)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s has no square root here: it is not Toeplitz; accepted: prefix, momentum, "
                         "nesterov, decay, schedules (taken without them), or a Toeplitz matrix",
                         w->text);
    if (!(w->matrix[0] > 0))
        return base_fail(DPMF_ERROR_NUMERICAL, "workload %s: diagonal %g has no real square root, accepted > 0",
                         w->text, w->matrix[0]);
    /* First column of a dense Toeplitz matrix to a power: k a_0 g_k = sum_{j=1..k} (p j - (k - j)) a_j g_{k-j}. */
    int64_t n = w->steps;
    double a0 = w->matrix[0];
    out[0] = pow(a0, power);
    for (int64_t k = 1; k < count; k++) {
        double sum = 0;
        for (int64_t j = 1; j <= k; j++)
            sum += (power * (double)j - (double)(k - j)) * w->matrix[j * n] * out[k - j];
        out[k] = sum / ((double)k * a0);
    }
    return DPMF_OK;
}

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

/* Linearity on a short run: column 3 is 2 x the first + the second. A callback that is not linear, or adds a constant, would
 * silently spoil every figure. */
static dpmf_status probe_linearity(const workload_operator *op, double *state) {
    int64_t probe = op->steps < 32 ? op->steps : 32;
    memset(state, 0, (size_t)(3 * op->user.buffers) * sizeof *state);
    for (int64_t t = 0; t < probe; t++) {
        double a = (double)(t % 5) - 1.75, b = (double)(t % 3) + 0.5;
        double x[3] = {a, b, 2 * a + b}, y[3] = {NAN, NAN, NAN};
        op->user.step(op->user.context, t, 3, x, state, y);
        double scale = fabs(y[0]) + fabs(y[1]) + fabs(y[2]);
        if (!(fabs(2 * y[0] + y[1] - y[2]) <= 1e-9 * scale + 1e-300))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "operator: not linear at step %" PRId64 " (2 f(a) + f(b) = %g, f(2a + b) = %g)", t,
                             2 * y[0] + y[1], y[2]);
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
