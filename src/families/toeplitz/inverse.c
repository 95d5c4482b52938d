/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best C whose inverse is Toeplitz with few bands (BandInvMF, the optimized form of the banded inverse square root):
 * h = first column of C^-1, c = 1/h the one of C, minimizing 1/2 ln S(c) + 1/2 ln E with E = sum_i u_i w_i^2, w = A h.
 *
 * E in O(bands). After the last band the recursion of A runs on its own from the state (m, o) at i = bands-1, so that w_{bands-1+j} = alpha_j o + gamma_j m and
 * the rest of E is a quadratic form in (o, m) whose three coefficients are summed once.
 *
 * S from c by its recursion, O(n bands), or until what is left of c no longer matters; dS/dh through r = H^-T dS/dc, dS/dh_j =
 * -sum_i r_i c_{i-j}. Under one participation S = |c|^2. Under more, columns of one unit meet, and S is the squared sensitivity
 * for c >= 0 (cyclic, full) and, not rising, under min-separation. h_0 > 0 >= h_1, h_2, ... makes c >= 0 (c_i is a sum of
 * products of -h_j/h_0), so that h_0 = x_0^2, h_j = -x_j^2 there. Under min-separation a barrier keeps c from rising: -mu sum_i
 * ln(1 - c_i/c_{i-1}) over the first entries, with mu falling to where it no longer matters; later entries, which follow the
 * slowest mode, are only watched. Under cyclic and full participation, where small enough, h of any signs is searched then,
 * with the sensitivity that it has (families/toeplitz/columns.c): for momentum that is worth up to 5 percent.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "base/sum.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { ITERATIONS = 2000, CHUNK = 1024, BARRIER_BANDS = 8 /* times the bands: entries with a barrier */ };
static const char INVERSE_SIGNED[] = "bands of the inverse that are not positive after the first";
static const double GAIN_LEAST = 1e-9; /* of ln loss: less is not worth signs whose sensitivity is harder to prove */
static const double REST = 1e-17;      /* of the sum of |c|, that may be left out */

typedef struct inverse_problem {
    int64_t n, bands;
    int signed_ones, monotone;
    double barrier; /* mu */
    toeplitz_pattern pattern;
    toeplitz_mixed mixed; /* used if its memory is there */
    workload_recursion_form recursion;
    toeplitz_error weigher; /* only its u_i */
    double oo, om, mm;      /* the quadratic form of the rest */
    kernels_toeplitz_table table;
    double *h, *w, *by_square, *by_error;
    double *c, *impulse, *adjoint, *by_c; /* n each */
} inverse_problem;

/* E and dE/dh. */
static double error_of(inverse_problem *p) {
    const workload_recursion_form r = p->recursion;
    double m = 0, o = 0, sum = 0;
    for (int64_t i = 0; i < p->bands; i++) {
        m = r.momentum * m + p->h[i];
        o = p->w[i] = r.keep * o + r.rate * (r.from_m * m + r.from_y * p->h[i]);
        sum += toeplitz_weight(&p->weigher, i) * o * o;
    }
    sum += p->oo * o * o + 2 * p->om * o * m + p->mm * m * m;
    double by_o = 2 * (p->oo * o + p->om * m), by_m = 2 * (p->om * o + p->mm * m);
    for (int64_t i = p->bands - 1; i >= 0; i--) {
        by_o += 2 * toeplitz_weight(&p->weigher, i) * p->w[i];
        by_m += r.rate * r.from_m * by_o;
        p->by_error[i] = by_m + r.rate * r.from_y * by_o;
        by_o *= r.keep;
        by_m *= r.momentum;
    }
    return sum;
}

/* c until it no longer matters: how many, or 0 if it is no use. */
static int64_t encode(inverse_problem *p) {
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    int64_t chunk = p->bands > CHUNK ? (p->bands + CHUNK - 1) / CHUNK * CHUNK : CHUNK, last = 0;
    double all = 0, before = 0;
    kernels->fill(p->h, &p->table);
    for (int64_t first = 0; first < p->n; first = last) {
        double here = 0;
        last = first + chunk < p->n ? first + chunk : p->n;
        kernels->solve(&p->table, first, last, 1, p->impulse, p->c);
        for (int64_t i = first; i < last; i++) {
            here += fabs(p->c[i]);
        }
        all += here;
        if (!isfinite(all)) return 0;
        if (first > 0 && here < before && here * here <= REST * all * (before - here)) break;
        before = here;
    }
    return last;
}

/* -mu sum ln(1 - c_i/c_{i-1}), its derivative added to by_c; INFINITY where c rises. */
static double barrier_of(inverse_problem *p, int64_t m) {
    const int64_t guarded = BARRIER_BANDS * p->bands < m ? BARRIER_BANDS * p->bands : m;
    const double *c = p->c;
    double sum = 0;
    for (int64_t i = 1; i < m; i++) {
        if (!(c[i] <= c[i - 1])) return INFINITY;
        if (i >= guarded || c[i - 1] == 0) continue;
        double ratio = c[i] / c[i - 1], slope = p->barrier / ((1 - ratio) * c[i - 1]);
        if (!(ratio < 1)) return INFINITY;
        sum -= p->barrier * log1p(-ratio);
        p->by_c[i] += slope;
        p->by_c[i - 1] -= ratio * slope;
    }
    return sum;
}

/* 1/2 ln S, with the barrier, and its derivative by h; INFINITY where c is no use. */
static dpmf_status log_sensitivity(inverse_problem *p, double *value) {
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    const int64_t m = encode(p), lags = p->bands < m ? p->bands : m;
    double square = 0;
    *value = INFINITY;
    if (m == 0) return DPMF_OK;
    if (p->mixed.memory != NULL)
        TRY(toeplitz_mixed_square(&p->mixed, m, p->c, &square, p->by_c));
    else
        TRY(toeplitz_square(&p->pattern, m, p->c, &square, p->by_c));
    if (!isfinite(square) || !(square > 0)) return DPMF_OK;
    for (int64_t i = 0; i < m; i++)
        p->by_c[i] *= 0.5 / square;
    const double barrier = p->monotone ? barrier_of(p, m) : 0;
    if (!isfinite(barrier)) return DPMF_OK;
    kernels->reverse(m, p->by_c, 1, 0, p->adjoint);
    kernels->solve(&p->table, 0, m, m, p->adjoint, p->by_c);
    memset(p->by_square, 0, (size_t)p->bands * sizeof(double));
    kernels->correlate(m, lags, p->by_c, p->c, p->by_square);
    for (int64_t j = 0; j < lags; j++)
        p->by_square[j] = -p->by_square[j];
    *value = 0.5 * log(square) + barrier;
    return DPMF_OK;
}

static void coefficients_of(const inverse_problem *p, const double *x, double *h) {
    for (int64_t i = 0; i < p->bands; i++)
        h[i] = p->signed_ones ? (i == 0 ? x[0] * x[0] : -x[i] * x[i]) : x[i];
}

static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    inverse_problem *p = context;
    double from_c = INFINITY;
    *f = INFINITY;
    coefficients_of(p, x, p->h);
    if (!(p->h[0] > 0)) return DPMF_OK;
    TRY(log_sensitivity(p, &from_c));
    double error = error_of(p);
    if (!isfinite(from_c) || !isfinite(error) || !(error > 0)) return DPMF_OK;
    *f = from_c + 0.5 * log(error);
    for (int64_t i = 0; i < p->bands; i++) {
        double by_x = !p->signed_ones ? 1 : i == 0 ? 2 * x[i] : -2 * x[i];
        gradient[i] = by_x * (p->by_square[i] + 0.5 * p->by_error[i] / error);
    }
    return DPMF_OK;
}

static void close_problem(inverse_problem *p) {
    double *const arrays[] = {p->table.rows, p->h,       p->w,       p->by_square, p->by_error,
                              p->c,          p->impulse, p->adjoint, p->by_c};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        base_free(arrays[i]);
    toeplitz_error_free(&p->weigher);
    toeplitz_mixed_free(&p->mixed);
}

static dpmf_status open_problem(const optimize_task *task, inverse_problem *p) {
    const dpmf_workload *a = task->workload;
    const dpmf_optimize_options *o = task->options;
    if (!a->toeplitz || a->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family bisr is not optimized for workload %s, accepted: prefix, momentum, nesterov, decay; "
                         "optimize for one of them (--optimize-workload) and evaluate for this one",
                         a->text);
    if (o->normalize == DPMF_NORMALIZE_WITHIN)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family bisr is not optimized with its columns normalized within; normalize after it");
    p->n = a->steps;
    p->bands = o->bands;
    p->recursion = workload_recursion(a, 0);
    TRY(toeplitz_pattern_of(task->participation, p->n, &p->pattern));
    if (task->participation->pattern == WORKLOAD_LISTED)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "strategies with a banded inverse are not optimized for participation %s; optimize for another one "
            "with --optimize-participation, for example min-sep:%lld,%lld",
            task->participation->text, (long long)p->pattern.k, (long long)p->pattern.b);
    p->signed_ones = p->pattern.k > 1;
    p->monotone = task->participation->pattern == WORKLOAD_APART && p->pattern.k > 1;
    TRY(toeplitz_error_create(a, 1, o->loss, o->weights, &p->weigher));
    double **const small[] = {&p->h, &p->w, &p->by_square, &p->by_error};
    double **const large[] = {&p->c, &p->impulse, &p->adjoint, &p->by_c};
    for (int i = 0; i < 4; i++) {
        TRY(base_alloc_doubles(p->bands, "the coefficients of C^-1", small[i]));
        TRY(base_alloc_doubles(p->n, "the coefficients of C", large[i]));
    }
    p->impulse[0] = 1;
    p->table.bands = p->bands;
    TRY(base_alloc_doubles(kernels_toeplitz_table_size(p->bands), "a table", &p->table.rows));
    const workload_recursion_form r = p->recursion;
    base_running oo = {0}, om = {0}, mm = {0};
    double alpha = 1, gamma = 0, power = 1;
    for (int64_t i = p->bands; i < p->n; i++) {
        gamma = r.keep * gamma + r.rate * r.from_m * r.momentum * power;
        alpha *= r.keep;
        power *= r.momentum;
        double u = toeplitz_weight(&p->weigher, i);
        base_running_add(&oo, u * alpha * alpha);
        base_running_add(&om, u * alpha * gamma);
        base_running_add(&mm, u * gamma * gamma);
    }
    p->oo = base_running_value(&oo);
    p->om = base_running_value(&om);
    p->mm = base_running_value(&mm);
    return DPMF_OK;
}

dpmf_status toeplitz_inverse_value(const optimize_task *task, double barrier, const double *h, double *f,
                                   double *gradient) {
    inverse_problem p = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(open_problem(task, &p));
    p.signed_ones = 0;
    p.barrier = barrier;
    status = log_loss(&p, h, f, gradient);
done:
    close_problem(&p);
    return status;
}

/* The inverse square root, as parameters. */
static dpmf_status start_point(const dpmf_workload *workload, const inverse_problem *p, double *x) {
    TRY(workload_series(workload, -0.5, p->bands, x));
    for (int64_t i = 0; i < p->bands && p->signed_ones; i++)
        x[i] = sqrt(fmax(i == 0 ? x[i] : -x[i], 1e-6 * fabs(x[i])));
    return DPMF_OK;
}

static dpmf_status make_strategy(const optimize_task *task, const inverse_problem *p, dpmf_strategy **out) {
    dpmf_strategy *plain = NULL;
    TRY(dpmf_strategy_create_toeplitz(p->n, DPMF_TOEPLITZ_INVERSE, p->bands, p->h, &plain));
    if (task->options->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    dpmf_status status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

/* A start that the barrier refuses is replaced by h = 1 - x/2, whose c = 2^-i does not rise. */
static dpmf_status check_start(inverse_problem *p, double *x) {
    double f = INFINITY, *gradient = NULL;
    TRY(base_alloc_doubles(p->bands, "a gradient", &gradient));
    dpmf_status status = log_loss(p, x, &f, gradient);
    base_free(gradient);
    if (status != DPMF_OK || isfinite(f)) return status;
    for (int64_t i = 0; i < p->bands; i++)
        x[i] = i == 0 ? 1 : i == 1 ? sqrt(0.5) : 1e-4;
    return DPMF_OK;
}

static dpmf_status descend_inverse(inverse_problem *p, const dpmf_run *run, double *x, base_minimum *out) {
    const base_objective objective = {p->bands, p, log_loss};
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = 1e-13,
                                           .iterations = ITERATIONS,
                                           .what = "optimizing the bands of the inverse",
                                           .run = run};
    if (!p->monotone) return base_minimize(&objective, &options, x, out);
    int iterations = 0;
    p->barrier = 1e-4; /* a part of the loss in proportion to the entries that it guards: small from the start */
    TRY(check_start(p, x));
    for (; p->barrier >= 0.9e-8; p->barrier *= 0.1) {
        TRY(base_minimize(&objective, &options, x, out));
        iterations += out->iterations;
    }
    out->iterations = iterations;
    return DPMF_OK;
}

/* The search among all signs from `start`; x gets its end, as bands, if that is better than found->f. */
static dpmf_status try_signs(inverse_problem *p, const dpmf_run *run, double *start, double *x, base_minimum *found) {
    const base_objective objective = {p->bands, p, log_loss};
    base_minimum end = {0};
    const int before = found->iterations;
    TRY(toeplitz_mixed_descend(&p->mixed, &objective, run, start, &end));
    if (end.f < found->f - GAIN_LEAST) {
        *found = end;
        memcpy(x, start, (size_t)p->bands * sizeof *x);
    }
    found->iterations = before + end.iterations;
    return DPMF_OK;
}

/* From x, parameters with signs, to bands of any sign, no worse. */
static dpmf_status widen(const optimize_task *task, inverse_problem *p, double *x, base_minimum *found) {
    double *start = NULL;
    dpmf_status status = DPMF_OK;
    coefficients_of(p, x, p->h);
    memcpy(x, p->h, (size_t)p->bands * sizeof *x);
    p->signed_ones = 0;
    TRY_DONE(base_alloc_doubles(p->bands, "the parameters", &start));
    TRY_DONE(toeplitz_mixed_create(&p->pattern, &p->mixed));
    memcpy(start, x, (size_t)p->bands * sizeof *x);
    TRY_DONE(try_signs(p, &task->options->run, start, x, found));
    TRY_DONE(start_point(task->workload, p, start));
    TRY_DONE(try_signs(p, &task->options->run, start, x, found));
done:
    base_free(start);
    return status;
}

dpmf_status toeplitz_optimize_inverse(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    inverse_problem p = {0};
    base_minimum found = {0};
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(open_problem(task, &p));
    TRY_DONE(base_alloc_doubles(p.bands, "the parameters", &x));
    TRY_DONE(start_point(task->workload, &p, x));
    TRY_DONE(descend_inverse(&p, &task->options->run, x, &found));
    if (p.signed_ones && toeplitz_mixed_fits(task->participation, p.n)) TRY_DONE(widen(task, &p, x, &found));
    coefficients_of(&p, x, p.h);
    if (out != NULL) TRY_DONE(make_strategy(task, &p, out));
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations,
                                  .optimum_upper = INFINITY,
                                  .searched = p.monotone      ? OPTIMIZE_FALLING
                                              : p.signed_ones ? INVERSE_SIGNED
                                                              : OPTIMIZE_ANY_SIGN,
                                  .stationarity = found.gradient * base_norm(p.bands, x)};
done:
    close_problem(&p);
    base_free(x);
    return status;
}
