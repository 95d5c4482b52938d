/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best BLT whose scales may have any sign, for small problems: where the search in interlaced gaps
 * (optimize/blt/loss.c), all of whose points are positive and falling, has ended, it goes on among
 *
 *     c_0 = 1,   c_t = sum_i alpha_i lambda_i^(t-1),   alpha_i any number,   lambda_i = 1/(1 + e^x_i).
 *
 * Momentum wants coefficients that rise at first and cross zero later, which no positive scales give. Loss and gradient
 * are those of a Toeplitz matrix of n bands, pulled back through c: S is |c|^2 under single participation, and under
 * cyclic and full the one of optimize/toeplitz/mixed.c; E that of optimize/toeplitz/error.c. Both cost O(n) and more, so
 * this ends at DPMF_I_OPTIMIZE_TOEPLITZ_MIXED_STEPS_MAX steps. Starts: the end of the other search, and the same with
 * each of its scales turned negative, its buffers spread wide.
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
    double *c, *by_square, *by_error;
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

static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    mixed_problem *p = context;
    double square = INFINITY, error = INFINITY;
    *f = INFINITY;
    for (int i = 0; i < p->count; i++)
        if (!(fabs(x[p->count + i]) < FARTHEST)) return DPMF_OK;
    coefficients_of(p, x);
    TRY(square_of(p, &square));
    TRY(dpmf_i_optimize_toeplitz_error_value(&p->error, p->c, &error, p->by_error));
    if (!isfinite(error) || !isfinite(square) || !(square > 0) || !(error > 0)) return DPMF_OK;
    *f = 0.5 * (log(square) + log(error));
    for (int64_t t = 0; t < p->n; t++)
        p->by_square[t] = 0.5 * (p->by_square[t] / square + p->by_error[t] / error);
    pull_coefficients(p, x, p->by_square, gradient);
    return DPMF_OK;
}

static dpmf_status open_problem(const dpmf_i_optimize_task *task, int count, mixed_problem *p) {
    const dpmf_optimize_options *o = task->options;
    dpmf_i_optimize_toeplitz_pattern pattern;
    p->count = count;
    p->n = task->workload->steps;
    double **const arrays[] = {&p->c, &p->by_square, &p->by_error};
    for (int i = 0; i < 3; i++)
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
    dpmf_i_base_free(p->by_error);
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
    for (int which = 0; which <= count + 2; which++) {
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
