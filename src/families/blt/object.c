/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLT strategies (families/blt/blt.h): the noise C^-1 z from d buffers that hold decaying sums of past outputs (Pillutla et al.
 * 2025, Algorithm 2.2),
 *
 *     y_t = z_t - sum_i alpha_i m_i,    m_i <- lambda_i m_i + y_t,
 *
 * and C y by the same buffers on its input. Fed back like this the stream is the inverse of C for any parameters:
 * no inverse parameters are needed. lambda m is computed as m - g m, since g is what is known to full precision.
 */
#include "families/blt/blt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

const blt_parameters *blt_of(const dpmf_strategy *s) {
    return &((const blt_strategy *)s)->c;
}

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
    return dpmf_strategy_create_blt(steps, c->count, c->scale, NULL, c->gap, out);
}

/*
 * Error of a BLT. Toeplitz workload: B is Toeplitz with first column w = C^-1 (A e_0), and |B[t,:]|^2 = w_0^2 + ... +
 * w_t^2, O(n d). Any other named workload, repeated blocks or scaled noise: the stream
 *
 *     y_t = z_t - alpha'm_t,    m_{t+1} = Lambda m_t + 1 y_t
 *
 * drives the workload's recursion on (mom, o) (error/error.h). With P = Cov m and u = Cov(m_t, y_t) = -P alpha,
 *
 *     Var y_t = 1 + alpha'P alpha,   Cov(m_{t+1}, y_t) = Lambda u + 1 Var y_t,
 *     P <- Lambda P Lambda + (Lambda u) 1' + 1 (Lambda u)' + 1 1' Var y_t,
 *
 * and the covariances of m with mom and o alike, O(d^2) per step. Scales of both signs that nearly cancel lose twice as many
 * digits there as in the stream itself, eps (sum |alpha|)^2: then the general way through all columns, O(n^2), is taken.
 */

enum { MAX = BLT_MAX };

void blt_buffers_advance(int d, const double *scale, const double *gap, double variance, double factor,
                         const error_drive *drive, blt_buffers *k, error_moments *moments) {
    double u[MAX], yy = variance, with_mom = 0, with_o = 0;
    for (int i = 0; i < d; i++) {
        u[i] = 0;
        for (int j = 0; j < d; j++)
            u[i] -= k->mm[i * MAX + j] * scale[j];
        yy -= scale[i] * u[i];
        with_mom -= scale[i] * k->mom[i];
        with_o -= scale[i] * k->mo[i];
    }
    error_moments_advance(drive, factor * factor * yy, factor * with_mom, factor * with_o, moments);
    for (int i = 0; i < d; i++) {
        double keep = 1 - gap[i];
        u[i] *= keep;
        double mom = keep * k->mom[i] + with_mom, mo = keep * k->mo[i] + with_o; /* of m_{t+1} with mom and o before */
        double now = factor * (u[i] + yy);
        k->mo[i] = drive->keep * mo + drive->p * mom + drive->g * now;
        k->mom[i] = drive->beta * mom + now;
    }
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++)
            k->mm[i * MAX + j] = (1 - gap[i]) * (1 - gap[j]) * k->mm[i * MAX + j] + (u[i] + u[j]) + yy;
}

enum { DELICATE_STEPS = 8192 }; /* beyond, O(n^2) takes minutes, and no search gives such scales */

static int is_delicate(const blt_parameters *c, int64_t steps) {
    double sum = 0;
    for (int i = 0; i < c->count; i++)
        sum += fabs(c->scale[i]);
    return sum > 64 && steps <= DELICATE_STEPS; /* 1e-12 of the errors */
}

static dpmf_status blt_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const blt_parameters *c = blt_of(s);
    const int64_t steps = s->steps;
    error_moments moments = {0};
    blt_buffers k;
    *done = (q->a->form == WORKLOAD_NAMED && !is_delicate(c, steps)) || (q->a->toeplitz && error_question_is_plain(q));
    if (!*done) return DPMF_OK;
    if (q->a->toeplitz && error_question_is_plain(q)) {
        double m[MAX] = {0};
        base_running sum = {0};
        int64_t n = q->a->steps;
        memset(squares, 0, (size_t)n * sizeof *squares);
        squares[0] = 1;
        TRY(dpmf_workload_apply(q->a, squares, squares));
        for (int64_t t = 0; t < n; t++) {
            TRY(error_report(q->run, t, n, 4 * c->count));
            double w = squares[t];
            for (int i = 0; i < c->count; i++)
                w -= c->scale[i] * m[i];
            for (int i = 0; i < c->count; i++)
                m[i] = (m[i] - c->gap[i] * m[i]) + w;
            base_running_add(&sum, w * w);
            squares[t] = base_running_value(&sum);
        }
        return DPMF_OK;
    }
    for (int64_t stamp = 0; stamp < q->stamps; stamp++) {
        memset(&k, 0, sizeof k); /* the noise restarts, the workload does not */
        for (int64_t t = 0; t < steps; t++) {
            int64_t at = stamp * steps + t;
            TRY(error_report(q->run, at, q->stamps * steps, 4 * c->count * c->count));
            error_drive drive = error_drive_at(q->a, at);
            blt_buffers_advance(c->count, c->scale, c->gap, 1, q->scale == NULL ? 1 : q->scale[at], &drive, &k,
                                &moments);
            squares[at] = moments.oo;
        }
    }
    return DPMF_OK;
}

/* Row norms of a Toeplitz B rise: the last one is the largest. */
static int blt_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest) {
    const blt_parameters *c = blt_of(s);
    if (!workload_is_prefix(a) || !blt_is_positive(c)) return 0;
    blt_parameters inverse = blt_invert(c);
    *total = blt_frobenius_square(&inverse, s->steps);
    *largest = blt_last_row_square(&inverse, s->steps);
    return 1;
}

/* Sensitivity of BLTs that are too long to be held: closed forms. Shorter ones are Toeplitz matrices like any other. */

static int blt_longest_column(const dpmf_strategy *s, dpmf_sensitivity *out) {
    if (strategy_can(s, STRATEGY_CAN_TOEPLITZ)) return 0;
    *out = (dpmf_sensitivity){.value = sqrt(blt_pattern_square(blt_of(s), s->steps, 1, s->steps)),
                              .kind = DPMF_EXACT,
                              .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    return 1;
}

/* Non-negative and falling coefficients: the earliest pattern is the worst. */
static dpmf_status blt_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                                   sensitivity_found *out) {
    const blt_parameters *c = blt_of(s);
    double sum = 0;
    *done = 0;
    if (strategy_can(s, STRATEGY_CAN_TOEPLITZ) || task->strategy != s || task->bound != DPMF_BOUND_AUTO ||
        sensitivity_task_pattern(task) == WORKLOAD_EPOCHS)
        return DPMF_OK;
    for (int i = 0; i < c->count; i++) {
        if (!(c->scale[i] >= 0)) return DPMF_OK;
        sum += c->scale[i];
    }
    *done = sum <= 1;
    if (*done) TRY(sensitivity_check_visits((double)task->k));
    if (*done)
        *out = (sensitivity_found){blt_pattern_square(c, s->steps, task->k, task->b), DPMF_EXACT,
                                   SENSITIVITY_METHOD_EARLIEST};
    return DPMF_OK;
}

/*
 * The noise of a BLT, for the route of few buffers (noise/plan.c): y = z - sum_j scale_j m_j, m_j <- (m_j - gap_j m_j) + y.
 *
 * The arithmetic of its exact rows (docs/exactness.md): s_j <- (s_j - gap s_j) + m/f has five roundings of at most eps B per
 * step, B = 41 x 2 E, so that s_j is off by at most 5 eps B min(n, 1/gap_j). E = max |rows of (prefix sums) W|: both m_t and
 * s_j are sums by parts of running sums, with weights of total 2.
 */

static void fill_weights(const noise_stream *s, int64_t t, double factor, void *weight) {
    const blt_parameters *c = blt_of(s->plan.leaf);
    (void)t;
    for (int j = 0; j < c->count; j++) {
        noise_put(s, weight, j, c->scale[j]);
        noise_put(s, weight, c->count + j, c->gap[j]);
    }
    noise_put(s, weight, 2 * c->count, factor);
    if (s->plan.exact > 0) noise_put(s, weight, 2 * c->count + 1, 1 / factor);
}

static dpmf_status bound_arithmetic(const noise_plan *plan, const dpmf_run *run, noise_exact_bounds *out) {
    const blt_parameters *c = blt_of(plan->leaf);
    double sums = 0, largest = 0, squares = 0, eta = 0;
    TRY(noise_bound_running_sums(plan->leaf, run, &sums));
    for (int64_t t = 0; t < plan->strategy->steps; t++) {
        const double factor = fabs(noise_route_factor(plan, t));
        largest = noise_larger(largest, factor);
        squares += 1 / (factor * factor);
    }
    const double size = NOISE_TAILS * 2 * sums;
    for (int j = 0; j < c->count; j++) {
        if (!(c->gap[j] <= 1))
            return base_fail(DPMF_ERROR_UNSUPPORTED,
                             "exact noise of a BLT: decay %g, accepted: 0 to 1 (its buffers' size is not known)",
                             1 - c->gap[j]);
        eta += fabs(c->scale[j]) * (5 * fmin((double)plan->length, 1 / c->gap[j]) + c->count + 3);
    }
    *out = (noise_exact_bounds){largest * eta * NOISE_EPS * size, largest * size, sqrt(squares)};
    return DPMF_OK;
}

static void blt_plan_noise(noise_plan *plan) {
    const noise_states states = {DPMF_RECIPE_BLT, (int)strategy_buffers(plan->leaf), fill_weights};
    noise_plan_states(plan, &states);
    plan->bound = bound_arithmetic;
}

static void describe(const dpmf_strategy *s, dpmf_strategy_info *info) {
    const blt_parameters *c = &cast(s)->c;
    info->blt_buffers = c->count;
    info->blt_scale = c->scale;
    info->blt_gap = c->gap;
    info->blt_inverse_scale = cast(s)->inverse.count > 0 ? cast(s)->inverse.scale : NULL;
    info->blt_inverse_gap = cast(s)->inverse.count > 0 ? cast(s)->inverse.gap : NULL;
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
                                 .describe = describe,
                                 .is_toeplitz = 1,
                                 .leading = leading,
                                 .squared_errors = blt_squared_errors,
                                 .squared_error_sums = blt_error_sums,
                                 .longest_column = blt_longest_column,
                                 .sensitivity = blt_sensitivity,
                                 .plan_noise = blt_plan_noise,
                                 .write = blt_write};

dpmf_status blt_create(int64_t steps, const blt_parameters *parameters, dpmf_strategy **out) {
    blt_strategy *s = NULL;
    dpmf_status status = DPMF_OK;
    TRY(strategy_new(&BLT, sizeof *s, DPMF_FAMILY_BLT, steps, (dpmf_strategy **)&s));
    s->c = *parameters;
    if (blt_is_positive(&s->c) && isfinite(s->c.total)) s->inverse = blt_invert(&s->c);
    if (steps <= STRATEGY_HELD_MAX) { /* for the sensitivity under several participations */
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

dpmf_status blt_rational_create(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    const int64_t n = workload->steps;
    dpmf_strategy *s = NULL;
    blt_parameters c =
        o->buffers > 0 ? blt_rational_of((int)o->buffers, n) : blt_rational_fewest(n, BLT_RATIONAL_SLACK);
    TRY(blt_create(n, &c, &s));
    s->family = DPMF_FAMILY_BLT_RATIONAL;
    *out = s;
    return DPMF_OK;
}

/* A gap below this says that the decay is 1, a sum that never forgets. */
static const double GAP_MIN = 1e-300;

static dpmf_status check_parameters(int64_t buffers, const double *scale, const double *gap, const char *name) {
    if (buffers < 1 || buffers > BLT_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "blt: %lld buffers, accepted 1 to %d", (long long)buffers, BLT_MAX);
    if (gap == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "blt: the %ss are NULL", name);
    return scale == NULL ? DPMF_OK : base_check_finite(buffers, scale, "blt: scale");
}

/* The scales from the gaps of C and, behind them, of C^-1. */
static dpmf_status scales_of(int buffers, const double *gap, double *scale) {
    for (int i = 0; i < 2 * buffers; i++) {
        if (i >= buffers && !(gap[i] >= GAP_MIN && gap[i] <= 2))
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "blt: gap %d of C^-1 = %.17g, accepted 1e-300 to 2 (decays from -1 to 1)", i - buffers,
                             gap[i]);
        for (int j = 0; j < i; j++)
            if (gap[i] == gap[j])
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "blt: gap %.17g is given twice, accepted: all of C and C^-1 different", gap[i]);
    }
    blt_scales(buffers, gap, gap + buffers, scale);
    return base_check_finite(buffers, scale, "blt: scale");
}

dpmf_status dpmf_strategy_create_blt(int64_t steps, int buffers, const double *scale, const double *decay,
                                     const double *gap, dpmf_strategy **out) {
    double own[2 * BLT_MAX], scales[BLT_MAX];
    if (decay != NULL && gap != NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "blt: decay and gap are given, accepted one of them");
    TRY(check_parameters(buffers, scale, decay != NULL ? decay : gap, decay != NULL ? "decay" : "gap"));
    for (int i = 0; i < buffers; i++) {
        if (decay != NULL && !(decay[i] >= 0 && decay[i] < 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "blt: decay %d = %.17g, accepted 0 <= decay < 1", i, decay[i]);
        if (decay == NULL && !(gap[i] >= GAP_MIN && gap[i] <= 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "blt: gap %d = %.17g, accepted 1e-300 to 1", i, gap[i]);
        own[i] = decay != NULL ? 1 - decay[i] : gap[i];
    }
    for (int i = buffers; scale == NULL && i < 2 * buffers; i++)
        own[i] = decay != NULL ? 1 - decay[i] : gap[i];
    if (scale == NULL) TRY(scales_of(buffers, own, scales));
    blt_parameters c = blt_make(buffers, scale == NULL ? scales : scale, own);
    return blt_create(steps, &c, out);
}

dpmf_status blt_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *scale = NULL, *gap = NULL;
    TRY(strategy_array(source, "strategy.scale", -1, 0, &scale));
    TRY(strategy_array(source, "strategy.gap", scale->shape[0], 0, &gap));
    if (scale->shape[0] > BLT_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: blt with %lld buffers, accepted 1 to %d",
                         (long long)scale->shape[0], BLT_MAX);
    const int rational = strcmp(source->family, DPMF_FAMILY_BLT_RATIONAL) == 0;
    dpmf_strategy *s = NULL;
    dpmf_status status =
        dpmf_strategy_create_blt(source->steps, (int)scale->shape[0], scale->values, NULL, gap->values, &s);
    if (status == DPMF_ERROR_ARGUMENT) return DPMF_ERROR_FORMAT; /* the fault is in the file */
    TRY(status);
    if (rational && !blt_is_rational(&cast(s)->c, source->steps)) {
        dpmf_strategy_free(s);
        return base_fail(DPMF_ERROR_FORMAT,
                         "mechanism file: " DPMF_FAMILY_BLT_RATIONAL " with scales or gaps of another "
                         "BLT, accepted those of its formula");
    }
    if (rational) s->family = DPMF_FAMILY_BLT_RATIONAL;
    *out = s;
    return DPMF_OK;
}
