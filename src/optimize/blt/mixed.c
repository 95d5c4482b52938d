/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best BLT whose scales may have any sign, for small problems: where the search in interlaced gaps
 * (optimize/blt/loss.c), all of whose points are positive and falling, has ended, it goes on among
 *
 *     c_0 = 1,   c_t = sum_i alpha_i lambda_i^(t-1),   alpha_i any number,   lambda_i = 1/(1 + e^x_i).
 *
 * Momentum wants coefficients that rise at first and cross zero later, which no positive scales give. S is |c|^2 under
 * single participation, and under cyclic and full the one of optimize/toeplitz/mixed.c, pulled back through c. E is that
 * of optimize/toeplitz/transforms.c, but C^-1 is a recursion of d buffers here, and so are sums over all lags:
 *
 *     h = C^-1 e_0:  h_t = [t = 0] - sum_i alpha_i s_i,  s_i <- lambda_i s_i + h_t;   w = A h;   E = sum_t u_t w_t^2
 *     v = C^-T g, g_t = 2 u_t w_t: the same from the last step back;   dE/dc_j = -sum_t v_t w_{t-j}, so that
 *     dE/dalpha_i = -sum_t v_t S_t,  dE/dlambda_i = -alpha_i sum_t v_t D_t,  S <- lambda_i S + w_t,  D <- lambda_i D + S.
 *
 * All cost O(n) and more, so this ends at DPMF_I_OPTIMIZE_TOEPLITZ_MIXED_STEPS_MAX steps. Starts: the end of the other
 * search, and the same with each of its scales turned negative, its buffers spread wide.
 */
#include "optimize/blt/blt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "optimize/toeplitz/toeplitz.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { MAX = DPMF_I_STRATEGY_BLT_MAX, UNKNOWNS = DPMF_I_OPTIMIZE_BLT_UNKNOWNS };
static const double GAIN_LEAST = 1e-7; /* of ln loss: what the other search leaves open near its own boundaries */
static const double FARTHEST = 36;     /* of x: a decay of 1 but for rounding */

typedef struct mixed_problem {
    int count;
    int64_t n;
    dpmf_i_optimize_toeplitz_mixed mixed; /* no memory: one participation */
    dpmf_i_optimize_toeplitz_error error;
    double *c, *by_square;
    double *w, *v; /* the first column of A C^-1; the adjoint */
} mixed_problem;

int dpmf_i_optimize_blt_mixed_fits(const dpmf_i_optimize_task *task) {
    if (task->options->normalize == DPMF_NORMALIZE_WITHIN) return 0;
    if (dpmf_participation_is_single(
            task->participation)) /* prefix sums: positive scales, as published tables have them */
        return !dpmf_i_workload_is_prefix(task->workload) &&
               task->workload->steps <= DPMF_I_OPTIMIZE_TOEPLITZ_MIXED_STEPS_MAX;
    return dpmf_i_optimize_toeplitz_mixed_fits(task->participation, task->workload->steps);
}

static double decay_of(double x) {
    return 1 / (1 + exp(x));
}

static void coefficients_of(mixed_problem *p, const double *x) {
    memset(p->c, 0, (size_t)p->n * sizeof *p->c);
    p->c[0] = 1;
    for (int i = 0; i < p->count; i++) {
        double power = x[i], decay = decay_of(x[p->count + i]);
        for (int64_t t = 1; t < p->n; t++, power *= decay)
            p->c[t] += power;
    }
}

/* dc_t/dalpha = lambda^(t-1), dc_t/dlambda = alpha (t-1) lambda^(t-2), dlambda/dx = -lambda (1 - lambda). */
static void pull_coefficients(const mixed_problem *p, const double *x, const double *by_c, double *gradient) {
    for (int i = 0; i < p->count; i++) {
        double power = 1, decay = decay_of(x[p->count + i]), scale = 0, slope = 0;
        for (int64_t t = 1; t < p->n; t++, power *= decay) {
            scale += by_c[t] * power;
            slope += by_c[t] * (double)(t - 1) * power;
        }
        gradient[i] = scale;
        gradient[p->count + i] = -x[i] * slope * (1 - decay);
    }
}

static dpmf_status square_of(mixed_problem *p, double *value) {
    if (p->mixed.memory != NULL)
        return dpmf_i_optimize_toeplitz_mixed_square(&p->mixed, p->n, p->c, value, p->by_square);
    *value = dpmf_i_base_dot(p->n, p->c, p->c);
    for (int64_t t = 0; t < p->n; t++)
        p->by_square[t] = 2 * p->c[t];
    return DPMF_OK;
}

/* In place C^-1 y, or with a step of -1 and y at the last number C^-T y. */
static void divide(const mixed_problem *p, const double *x, int step, double *y) {
    double state[MAX] = {0}, decay[MAX];
    for (int i = 0; i < p->count; i++)
        decay[i] = decay_of(x[p->count + i]);
    for (int64_t t = 0; t < p->n; t++, y += step) {
        double now = *y;
        for (int i = 0; i < p->count; i++)
            now -= x[i] * state[i];
        for (int i = 0; i < p->count; i++)
            state[i] = decay[i] * state[i] + now;
        *y = now;
    }
}

/* E; INFINITY where it is not finite. */
static dpmf_status error_of(mixed_problem *p, const double *x, double *value) {
    double sum = 0;
    memset(p->w, 0, (size_t)p->n * sizeof *p->w);
    p->w[0] = 1;
    divide(p, x, 1, p->w);
    TRY(dpmf_workload_apply(p->error.workload, p->w, p->w));
    for (int64_t t = 0; t < p->n; t++)
        sum += dpmf_i_optimize_toeplitz_weight(&p->error, t) * p->w[t] * p->w[t];
    *value = isfinite(sum) ? sum : INFINITY;
    return DPMF_OK;
}

/* Adds factor times the gradient of E, whose w is there. */
static void add_error_gradient(mixed_problem *p, const double *x, double factor, double *gradient) {
    for (int64_t t = 0; t < p->n; t++)
        p->v[t] = 2 * dpmf_i_optimize_toeplitz_weight(&p->error, t) * p->w[t];
    divide(p, x, -1, p->v + p->n - 1);
    for (int i = 0; i < p->count; i++) {
        const double decay = decay_of(x[p->count + i]);
        double sum = 0, slope = 0, scale_ = 0, decay_ = 0;
        for (int64_t t = 0; t < p->n; t++) {
            scale_ -= p->v[t] * sum;
            decay_ -= p->v[t] * slope;
            slope = decay * slope + sum;
            sum = decay * sum + p->w[t];
        }
        gradient[i] += factor * scale_;
        gradient[p->count + i] -= factor * x[i] * decay_ * decay * (1 - decay);
    }
}

static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    mixed_problem *p = context;
    double square = INFINITY, error = INFINITY;
    *f = INFINITY;
    for (int i = 0; i < p->count; i++)
        if (!(fabs(x[p->count + i]) < FARTHEST)) return DPMF_OK;
    coefficients_of(p, x);
    TRY(error_of(p, x, &error));
    if (!isfinite(error) || !(error > 0)) return DPMF_OK;
    TRY(square_of(p, &square));
    if (!isfinite(square) || !(square > 0)) return DPMF_OK;
    *f = 0.5 * (log(square) + log(error));
    for (int64_t t = 0; t < p->n; t++)
        p->by_square[t] *= 0.5 / square;
    pull_coefficients(p, x, p->by_square, gradient);
    add_error_gradient(p, x, 0.5 / error, gradient);
    for (int i = 0; i < 2 * p->count; i++)
        if (!isfinite(gradient[i])) *f = INFINITY; /* the adjoint can pass the range of a double where E does not */
    return DPMF_OK;
}

static dpmf_status open_problem(const dpmf_i_optimize_task *task, int count, mixed_problem *p) {
    const dpmf_optimize_options *o = task->options;
    dpmf_i_optimize_toeplitz_pattern pattern;
    p->count = count;
    p->n = task->workload->steps;
    double **const arrays[] = {&p->c, &p->by_square, &p->w, &p->v};
    for (int i = 0; i < 4; i++)
        TRY(dpmf_i_base_alloc_doubles(p->n, "the coefficients", arrays[i]));
    TRY(dpmf_i_optimize_toeplitz_error_create(task->workload, p->n, o->loss, o->weights, &p->error));
    if (dpmf_participation_is_single(task->participation)) return DPMF_OK;
    TRY(dpmf_i_optimize_toeplitz_pattern_of(task->participation, p->n, &pattern));
    return dpmf_i_optimize_toeplitz_mixed_create(&pattern, &p->mixed);
}

static void close_problem(mixed_problem *p) {
    dpmf_i_optimize_toeplitz_error_free(&p->error);
    dpmf_i_optimize_toeplitz_mixed_free(&p->mixed);
    dpmf_i_base_free(p->c);
    dpmf_i_base_free(p->by_square);
    dpmf_i_base_free(p->w);
    dpmf_i_base_free(p->v);
}

static dpmf_status descend(mixed_problem *p, const dpmf_run *run, double *x, dpmf_i_base_minimum *out) {
    const dpmf_i_base_objective objective = {2 * p->count, p, log_loss};
    const dpmf_i_base_minimize_options options = {.gradient = 1e-9,
                                                  .decrease = 1e-13,
                                                  .pairs = UNKNOWNS,
                                                  .iterations = 1000,
                                                  .what = "blt, scales of any sign",
                                                  .run = run};
    double f = INFINITY, gradient[UNKNOWNS];
    if (p->mixed.memory != NULL) return dpmf_i_optimize_toeplitz_mixed_descend(&p->mixed, &objective, run, x, out);
    *out = (dpmf_i_base_minimum){.f = INFINITY};
    TRY(log_loss(p, x, &f, gradient));
    return isfinite(f) ? dpmf_i_base_minimize(&objective, &options, x, out) : DPMF_OK;
}

/* Start number `which`: 0, the other search's end; i, its scale i-1 turned; then decays spread over (0, 1). */
static void start_point(const dpmf_i_strategy_blt_parameters *from, int which, double *x) {
    const int count = from->count;
    for (int i = 0; i < count; i++) {
        double gap = fmin(fmax(from->gap[i], 1e-12), 1 - 1e-12);
        x[i] = which == i + 1 ? -0.5 * from->scale[i] : from->scale[i];
        x[count + i] = log(gap / (1 - gap));
        if (which <= count) continue;
        x[i] = (which - count) % 2 == i % 2 ? 0.7 : -0.3;
        x[count + i] = 1.5 * (count - 1 - 2 * i) - 1; /* decays from small to near 1 */
    }
}

dpmf_status dpmf_i_optimize_blt_mixed(const dpmf_i_optimize_task *task, double before,
                                      dpmf_i_strategy_blt_parameters *blt, dpmf_i_base_minimum *out) {
    mixed_problem p = {0};
    const int count = blt->count;
    const dpmf_i_strategy_blt_parameters from = *blt;
    double x[UNKNOWNS], gap[MAX], best = before - GAIN_LEAST;
    dpmf_status status = DPMF_OK;
    TRY_DONE(open_problem(task, count, &p));
    for (int which = count + 2; which >= 0; which--) { /* the last ones end lowest, where buffers are many */
        dpmf_i_base_minimum end = {0};
        start_point(&from, which, x);
        TRY_DONE(descend(&p, &task->options->run, x, &end));
        const int iterations = out->iterations + end.iterations;
        if (end.f < best) {
            best = end.f;
            for (int i = 0; i < count; i++)
                gap[i] = 1 / (1 + exp(-x[count + i]));
            *blt = dpmf_i_strategy_blt_make(count, x, gap);
            *out = end;
        }
        out->iterations = iterations;
    }
done:
    close_problem(&p);
    return status;
}
