/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded Toeplitz coefficients by other ways than the exact optimum (McKenna 2024): the sweep of Appendix J, the taper
 * of Appendix H, and Appendix I's shortcut as the paper states it, in which w is computed for m steps and taken as
 * settled, x = 1/sum c, from there on:
 *
 *     E ~ sum_{i<m} u_i w_i^2 + x^2 sum_{i>=m} u_i,   u_i = 1 (max loss) or (n-i)/n (RMS)
 *
 * (the weights u_i are missing in the paper's formula for the mean). optimize/toeplitz/error.c needs no m; this is here
 * to measure what a fixed one costs: the answer is evaluated exactly like any other.
 *
 * Gradient: with g_i = 2 u_i w_i for i < m, v = C^-T g over those steps, dE/dc_j = -sum_i v_i w_{i-j} - 2 x^3 sum u_i.
 */
#include "optimize/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"

#include <math.h>
#include <string.h>

typedef struct settled {
    int64_t n, bands, m;
    int rms;
    double rest;   /* sum_{i>=m} u_i */
    double *w, *v; /* m numbers each */
} settled;

static double weight(const settled *s, int64_t i) {
    return s->rms ? (double)(s->n - i) / (double)s->n : 1;
}

/* v <- C^-T v, from the last step back. */
static void solve_transposed(const settled *s, const double *c) {
    for (int64_t i = s->m - 1; i >= 0; i--) {
        double sum = s->v[i];
        for (int64_t j = 1; j < s->bands && i + j < s->m; j++)
            sum -= c[j] * s->v[i + j];
        s->v[i] = sum / c[0];
    }
}

static double error_of(const settled *s, const double *c, double *x) {
    double sum = base_sum(s->bands, c), error = 0;
    *x = 1 / sum;
    for (int64_t i = 0; i < s->m; i++)
        s->w[i] = 1;
    base_toeplitz_solve_banded(s->m, s->bands, c, s->w, s->w);
    for (int64_t i = 0; i < s->m; i++)
        error += weight(s, i) * s->w[i] * s->w[i];
    return error + *x * *x * s->rest;
}

/* ln |c|^2 + ln E, which does not depend on the scale of c. */
static dpmf_status settled_value(void *context, const double *c, double *f, double *gradient) {
    settled *s = context;
    double x = 0, square = base_dot(s->bands, c, c), error = c[0] > 0 ? error_of(s, c, &x) : INFINITY;
    *f = log(square) + log(error);
    if (!isfinite(*f) || !(x > 0)) {
        *f = INFINITY;
        return DPMF_OK;
    }
    for (int64_t i = 0; i < s->m; i++)
        s->v[i] = 2 * weight(s, i) * s->w[i];
    solve_transposed(s, c);
    for (int64_t j = 0; j < s->bands; j++) {
        double along = j < s->m ? base_dot(s->m - j, s->v + j, s->w) : 0;
        gradient[j] = 2 * c[j] / square - (along + 2 * x * x * x * s->rest) / error;
    }
    return DPMF_OK;
}

static dpmf_status optimize_settled(const optimize_task *task, double *c, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    const double n = (double)task->workload->steps, m = (double)o->settled_after;
    settled s = {.n = task->workload->steps, .bands = o->bands, .m = o->settled_after, .rms = o->loss == DPMF_LOSS_RMS};
    base_objective objective = {s.bands, &s, settled_value};
    base_minimize_options how = {.gradient = 1e-10,
                                 .decrease = 1e-14,
                                 .iterations = 2000,
                                 .what = "optimizing with a settled error",
                                 .run = &o->run};
    base_minimum minimum;
    dpmf_status status = DPMF_OK;
    s.rest = s.rms ? (n - m) * (n - m + 1) / (2 * n) : n - m;
    c[0] = 1;
    for (int64_t j = 1; j < s.bands; j++)
        c[j] = c[j - 1] * (double)(2 * j - 1) / (double)(2 * j); /* the square root of prefix sums */
    TRY_DONE(base_alloc_doubles(s.m, "the errors before they settle", &s.w));
    TRY_DONE(base_alloc_doubles(s.m, "their adjoint", &s.v));
    TRY_DONE(base_minimize(&objective, &how, c, &minimum));
    result->outcome = minimum.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT;
    result->iterations = minimum.iterations;
    result->stationarity = 0.5 * minimum.gradient * base_norm(s.bands, c);
done:
    base_free(s.w);
    base_free(s.v);
    return status;
}

static dpmf_status optimize_tapered(const optimize_task *task, double *c, dpmf_optimization *result) {
    dpmf_optimize_options plain = *task->options;
    optimize_task inner = {task->workload, task->participation, &plain, NULL};
    dpmf_strategy *strategy = NULL;
    double *column = NULL;
    dpmf_status status = DPMF_OK;
    plain.taper = 0;
    plain.normalize = DPMF_NORMALIZE_NONE;
    TRY_DONE(toeplitz_optimize_banded(&inner, &strategy, result));
    TRY_DONE(base_alloc_doubles(task->workload->steps, "a column", &column));
    TRY_DONE(dpmf_strategy_column(strategy, 0, column));
    memcpy(c, column, (size_t)plain.bands * sizeof *c);
    TRY_DONE(toeplitz_taper(plain.bands, task->options->taper, c));
    result->stationarity = 0; /* of the coefficients before the taper: says nothing of these */
done:
    dpmf_strategy_free(strategy);
    base_free(column);
    return status;
}

static dpmf_status check_variant(const optimize_task *task) {
    const dpmf_optimize_options *o = task->options;
    int64_t n = task->workload->steps;
    if ((o->sweep != 0) + (o->taper != 0) + (o->settled_after != 0) > 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "sweep, taper and settled_after exclude each other");
    if (o->taper < 0 || o->taper >= o->bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld, accepted 1 to below the %lld bands",
                         (long long)o->taper, (long long)o->bands);
    if (o->settled_after < 0 || o->settled_after > n)
        return base_fail(DPMF_ERROR_ARGUMENT, "errors settled after %lld steps, accepted 1 to %lld",
                         (long long)o->settled_after, (long long)n);
    if (o->settled_after > 0 && strcmp(dpmf_workload_text(task->workload), "prefix") != 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "settled_after is for prefix sums, not for %s",
                         dpmf_workload_text(task->workload));
    int single = dpmf_participation_is_single(task->participation);
    if ((o->sweep || o->settled_after > 0) && (!single || o->weights != NULL))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sweep and settled_after are for single participation, no weights");
    if (o->normalize == DPMF_NORMALIZE_WITHIN)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sweep, taper and settled_after are normalized after, not within");
    return DPMF_OK;
}

static dpmf_status make_variant(const optimize_task *task, const double *c, dpmf_strategy **out) {
    const dpmf_optimize_options *o = task->options;
    dpmf_strategy *plain = NULL;
    dpmf_status status = DPMF_OK;
    if (out == NULL) return DPMF_OK;
    TRY(dpmf_strategy_create_banded_toeplitz(task->workload->steps, o->bands, c, &plain));
    if (o->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

dpmf_status toeplitz_variant(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    toeplitz_sweep_result swept;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    TRY(check_variant(task));
    TRY_DONE(base_alloc_doubles(o->bands, "the coefficients", &c));
    if (o->sweep) {
        TRY_DONE(toeplitz_sweep(task->workload, o->bands, o->loss, c, &swept));
        result->iterations = swept.evaluations;
    } else if (o->taper > 0) {
        TRY_DONE(optimize_tapered(task, c, result));
    } else {
        TRY_DONE(optimize_settled(task, c, result));
    }
    TRY_DONE(make_variant(task, c, out));
done:
    base_free(c);
    return status;
}
