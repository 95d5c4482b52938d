/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best Toeplitz C, whole or banded (McKenna 2024, Section 3.2; Pillutla et al. 2025, Section 4.3.1): minimizes
 *
 *     ln loss = 1/2 ln S(c) + 1/2 ln E(c)
 *
 * by L-BFGS from the square root's coefficients, with gradients by hand. Near the square root C = A^(1/2) a change of c
 * changes w by as much (dw = -A C^-2 dc), so that the problem is well conditioned and a dozen steps are enough.
 *
 * What S is (families/toeplitz/error.c) needs signs where columns of one unit meet, bands > b. Coefficients are
 * then written so that they have them:
 *
 *     bands <= b            c = x
 *     cyclic, full          c_i = x_i^2               non-negative: the earliest pattern has the largest sum, the others
 *                                                     being parts of it
 *     from a file           c_i = x_i^2               non-negative: S is the largest sum over a pattern, in rounds
 *                                                     (families/toeplitz/listed.c)
 *     min-separation        c_i = sum_{j>=i} x_j^2    non-negative and non-increasing
 *
 * Under cyclic and full participation, up to 1024 steps and 32 participations, the search continues from there, and from
 * the square root, with coefficients of any sign and the sensitivity that they have (families/toeplitz/columns.c): some
 * negative ones make the columns of one unit orthogonal, which is worth up to half a percent. The better end is kept.
 *
 * E comes from families/toeplitz/error.c for Toeplitz workloads and for matrices, and from families/toeplitz/columns.c for schedules and
 * for the best C with normalized columns (McKenna 2024, Appendix K), where S = k |c|^2 is what is left outside.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum {
    ITERATIONS = 2000,
    ROUNDS = 30 /* of the method of multipliers; half a dozen are usual */
};

static const double GAIN_LEAST = 1e-9; /* of ln loss: less is not worth signs whose sensitivity is harder to prove */

typedef enum signs { FREE, NON_NEGATIVE, MONOTONE } signs;

typedef struct problem {
    int64_t bands;
    signs signs;
    toeplitz_pattern pattern;
    toeplitz_mixed mixed;   /* used if its memory is there: signs are free */
    toeplitz_listed listed; /* used if its memory is there: patterns from a file */
    double columns_count;   /* normalized columns: S = columns_count |c|^2; 0: the pattern's */
    toeplitz_error error;
    toeplitz_columns columns; /* used if its memory is there */
    problem_loss loss;        /* used if the error has squares: neither RMS nor max */
    double *c, *by_square, *by_error;
} problem;

static void coefficients_of(const problem *p, const double *x, double *c) {
    double sum = 0;
    for (int64_t i = p->bands - 1; i >= 0; i--) {
        sum = x[i] * x[i] + (p->signs == MONOTONE ? sum : 0);
        c[i] = p->signs == FREE ? x[i] : sum;
    }
}

static dpmf_status square_of(problem *p, double *value) {
    if (p->mixed.memory != NULL) return toeplitz_mixed_square(&p->mixed, p->bands, p->c, value, p->by_square);
    if (p->listed.memory != NULL) return toeplitz_listed_square(&p->listed, p->bands, p->c, value, p->by_square);
    if (p->columns_count == 0) return toeplitz_square(&p->pattern, p->bands, p->c, value, p->by_square);
    double norm = base_norm(p->bands, p->c);
    *value = p->columns_count * norm * norm;
    for (int64_t i = 0; i < p->bands; i++)
        p->by_square[i] = 2 * p->columns_count * p->c[i];
    return DPMF_OK;
}

static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    problem *p = context;
    double square = 0, error = INFINITY, slope = 0;
    const int other = p->error.squares != NULL;
    coefficients_of(p, x, p->c);
    TRY(square_of(p, &square));
    *f = INFINITY;
    if (other && isfinite(square) && square > 0)
        TRY(toeplitz_error_loss(&p->error, &p->loss, square, p->c, &error, &slope, p->by_error));
    else if (p->columns.memory != NULL)
        TRY(toeplitz_columns_value(&p->columns, p->c, &error, p->by_error));
    else if (!other)
        TRY(toeplitz_error_value(&p->error, p->c, &error, p->by_error));
    if (!isfinite(error) || !isfinite(square) || !(square > 0) || !(error > 0)) return DPMF_OK;
    *f = other ? log(error) : 0.5 * (log(square) + log(error));
    for (int64_t i = 0; i < p->bands; i++)
        gradient[i] = other ? (slope * p->by_square[i] + p->by_error[i]) / error
                            : 0.5 * (p->by_square[i] / square + p->by_error[i] / error);
    /* dE/dc to dE/dx, in place. */
    double sum = 0;
    for (int64_t i = 0; i < p->bands && p->signs != FREE; i++) {
        sum = gradient[i] + (p->signs == MONOTONE ? sum : 0);
        gradient[i] = 2 * x[i] * sum;
    }
    return DPMF_OK;
}

static void close_problem(problem *p) {
    toeplitz_error_free(&p->error);
    toeplitz_columns_free(&p->columns);
    toeplitz_mixed_free(&p->mixed);
    toeplitz_listed_free(&p->listed);
    base_free(p->c);
    base_free(p->by_square);
    base_free(p->by_error);
}

static dpmf_status check_workload(const optimize_task *task, int64_t bands) {
    const dpmf_workload *a = task->workload;
    const int within = task->options->normalize == DPMF_NORMALIZE_WITHIN;
    if ((a->toeplitz || toeplitz_has_form(task)) && !within) return DPMF_OK;
    if (a->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "Toeplitz strategies are not optimized for workload %s%s, accepted: prefix, momentum, "
                         "nesterov, decay, schedules%s; optimize for one of them (--optimize-workload) and evaluate "
                         "for this one",
                         a->text, within ? " with columns normalized within" : " and this loss",
                         within ? "" : ", a Toeplitz matrix, and any matrix or sum for the RMS loss");
    if (a->toeplitz && a->steps > TOEPLITZ_COLUMNS_MAX && (double)a->steps * (double)bands > TOEPLITZ_COLUMNS_WORK)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "%lld steps x %lld bands with columns normalized within the optimization, accepted up to a product of "
            "%.0f; normalize after it",
            (long long)a->steps, (long long)bands, TOEPLITZ_COLUMNS_WORK);
    if (!a->toeplitz && a->steps > TOEPLITZ_COLUMNS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "%lld steps %s, accepted up to %d; %s", (long long)a->steps,
                         within ? "with columns normalized within the optimization"
                                : "of a workload with a learning-rate schedule",
                         TOEPLITZ_COLUMNS_MAX,
                         within ? "normalize after it" : "optimize for the workload without it (--optimize-workload)");
    return DPMF_OK;
}

static dpmf_status open_problem(const optimize_task *task, int64_t bands, problem *p) {
    const dpmf_optimize_options *o = task->options;
    const int within = o->normalize == DPMF_NORMALIZE_WITHIN;
    p->bands = bands;
    TRY(check_workload(task, bands));
    p->loss = (problem_loss){o->loss, o->loss_power, o->own_loss};
    if (o->loss > DPMF_LOSS_MAX && !task->workload->toeplitz)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "Toeplitz strategies for workload %s, which is not Toeplitz, are optimized for the losses rms and "
            "max; --family banded takes any loss",
            task->workload->text);
    TRY(toeplitz_pattern_of(task->participation, task->workload->steps, &p->pattern));
    if (within && bands > p->pattern.b)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "%lld bands with columns normalized within the optimization: participation %s accepts up to "
                         "%lld; normalize after it",
                         (long long)bands, task->participation->text, (long long)p->pattern.b);
    if (within) p->columns_count = (double)p->pattern.k;
    if (!within && task->participation->pattern == WORKLOAD_LISTED)
        TRY(toeplitz_listed_create(task->participation, bands, &p->listed));
    if (bands > p->pattern.b) p->signs = task->participation->pattern == WORKLOAD_APART ? MONOTONE : NON_NEGATIVE;
    TRY(base_alloc_doubles(bands, "the coefficients", &p->c));
    TRY(base_alloc_doubles(bands, "a gradient", &p->by_square));
    TRY(base_alloc_doubles(bands, "a gradient", &p->by_error));
    if (within || (!task->workload->toeplitz && !toeplitz_has_form(task)))
        return toeplitz_columns_create(task->workload, bands, within, o->weights, &p->columns);
    return toeplitz_error_create(task->workload, bands, o->loss, o->weights, &p->error);
}

static dpmf_status descend_coefficients(problem *p, const dpmf_run *run, double *x, base_minimum *out) {
    const base_objective objective = {p->bands, p, log_loss};
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = 1e-13,
                                           .past = 3,
                                           .iterations = ITERATIONS,
                                           .what = "optimizing Toeplitz coefficients",
                                           .run = run};
    int iterations = out->iterations;
    TRY(base_minimize(&objective, &options, x, out));
    out->iterations += iterations;
    return DPMF_OK;
}

/* E, of the max loss the largest row, times S at x; then the round has ended. */
static dpmf_status largest_at(problem *p, int max_loss, const double *x, double *loss) {
    double value = 0, square = 0;
    coefficients_of(p, x, p->c);
    if (p->listed.memory != NULL)
        TRY(toeplitz_listed_update(&p->listed, p->bands, p->c, &square));
    else
        TRY(square_of(p, &square));
    if (p->columns.memory == NULL)
        TRY(toeplitz_error_value(&p->error, p->c, &value, NULL));
    else
        TRY(toeplitz_columns_value(&p->columns, p->c, &value, NULL));
    *loss = square * (p->columns.memory != NULL && max_loss ? toeplitz_columns_sharpen(&p->columns) : value);
    return DPMF_OK;
}

/*
 * The max loss where errors need not rise with the steps, and patterns from a file: rounds of the method of multipliers, each
 * from the one before; the best point of all is kept. A round that gains less than 1e-9 is the last.
 */
static dpmf_status minimize_max(problem *p, const dpmf_run *run, int max_loss, double *x, base_minimum *out) {
    static const double sharpness[] = {8, 64, 512, 2048};
    const size_t size = (size_t)p->bands * sizeof *x;
    double best = INFINITY, *point = NULL;
    base_minimum found = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(p->bands, "the parameters", &point));
    memcpy(point, x, size);
    if (p->listed.memory != NULL && p->signs != FREE) { /* the start without its tail: often the best already */
        memset(x + p->pattern.b, 0, (size_t)(p->bands - p->pattern.b) * sizeof *x);
        TRY_DONE(largest_at(p, max_loss, x, &best));
        out->converged = 1;
    }
    for (int round = 0; round < ROUNDS; round++) {
        double loss = INFINITY;
        p->columns.sharpness = sharpness[round < 3 ? round : 3];
        p->listed.sharpness = fmin(512, 2 * sharpness[round < 3 ? round : 3]);
        TRY_DONE(descend_coefficients(p, run, point, &found));
        TRY_DONE(largest_at(p, max_loss, point, &loss));
        int enough = round > 3 && loss >= best * (1 - 1e-9);
        if (loss < best) {
            best = loss;
            memcpy(x, point, size);
            *out = found;
        }
        if (enough) break;
    }
    out->iterations = found.iterations;
done:
    base_free(point);
    return status;
}

static dpmf_status minimize_all(problem *p, const optimize_task *task, double *x, base_minimum *out) {
    const int max_loss = task->options->loss == DPMF_LOSS_MAX;
    if ((p->columns.memory != NULL && max_loss) || p->listed.memory != NULL)
        return minimize_max(p, &task->options->run, max_loss, x, out);
    return descend_coefficients(p, &task->options->run, x, out);
}

static dpmf_status make_strategy(const optimize_task *task, const problem *p, int whole, dpmf_strategy **out) {
    const double norm = base_norm(p->bands, p->c);
    dpmf_strategy *plain = NULL;
    for (int64_t i = 0; i < p->bands; i++)
        p->c[i] /= norm;
    TRY(dpmf_strategy_create_toeplitz(task->workload->steps, whole ? DPMF_TOEPLITZ : DPMF_TOEPLITZ_BANDED, p->bands,
                                      p->c, &plain));
    if (task->options->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    dpmf_status status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

/* The square root's coefficients, of norm 1; a matrix begins with those of prefix sums. */
static dpmf_status square_root(const dpmf_workload *workload, int64_t bands, double *c) {
    for (int64_t i = 0; i < bands; i++)
        c[i] = i == 0 ? 1 : c[i - 1] * ((double)i - 0.5) / (double)i;
    if (workload->form == WORKLOAD_NAMED || workload->toeplitz) TRY(workload_series(workload, 0.5, bands, c));
    const double norm = base_norm(bands, c);
    for (int64_t i = 0; i < bands; i++)
        c[i] /= norm;
    return DPMF_OK;
}

/* Where columns of one unit meet, the best c of b bands, then zeros, is a good start, and often the answer for the RMS loss. */
static dpmf_status start_point(const optimize_task *task, const problem *p, double *x, base_minimum *found) {
    problem few = {0};
    dpmf_status status = DPMF_OK;
    if (p->signs == FREE) return square_root(task->workload, p->bands, x);
    TRY_DONE(open_problem(task, p->pattern.b, &few));
    TRY_DONE(square_root(task->workload, few.bands, x));
    TRY_DONE(minimize_all(&few, task, x, found));
    /* Coefficients as parameters; tails that are zero get a little, since no gradient would lead away from there. */
    const double least = 1e-4 * x[0];
    for (int64_t i = 0; i < p->bands && p->signs != FREE; i++) {
        double next = p->signs == MONOTONE && i + 1 < p->bands ? x[i + 1] : 0;
        x[i] = sqrt(fmax(x[i] - next, least / (double)(i + 1)));
    }
done:
    close_problem(&few);
    return status;
}

static int may_widen(const optimize_task *task, const problem *p) {
    const int by_rounds = p->columns.memory != NULL && task->options->loss == DPMF_LOSS_MAX;
    return p->signs == NON_NEGATIVE && !by_rounds && toeplitz_mixed_fits(task->participation, task->workload->steps);
}

/* The search among all signs from `start`; x gets its end, as coefficients, if that is better than found->f. */
static dpmf_status try_signs(problem *p, const dpmf_run *run, double *start, double *x, base_minimum *found) {
    const base_objective objective = {p->bands, p, log_loss};
    base_minimum end = {0};
    TRY(toeplitz_mixed_descend(&p->mixed, &objective, run, start, &end));
    end.iterations += found->iterations;
    if (!(end.f < found->f - GAIN_LEAST)) {
        found->iterations = end.iterations;
        return DPMF_OK;
    }
    *found = end;
    memcpy(x, start, (size_t)p->bands * sizeof *x);
    return DPMF_OK;
}

/* From x, parameters of non-negative coefficients, to coefficients of any sign, no worse. */
static dpmf_status widen(const optimize_task *task, problem *p, double *x, base_minimum *found) {
    double *start = NULL;
    TRY(base_alloc_doubles(p->bands, "the coefficients", &start));
    dpmf_status status = DPMF_OK;
    coefficients_of(p, x, start);
    memcpy(x, start, (size_t)p->bands * sizeof *x);
    p->signs = FREE;
    TRY_DONE(toeplitz_mixed_create(&p->pattern, &p->mixed));
    TRY_DONE(try_signs(p, &task->options->run, start, x, found));
    TRY_DONE(square_root(task->workload, p->bands, start));
    TRY_DONE(try_signs(p, &task->options->run, start, x, found));
done:
    base_free(start);
    return status;
}

static const char *class_of(const problem *p) {
    return p->signs == FREE ? OPTIMIZE_ANY_SIGN : p->signs == NON_NEGATIVE ? OPTIMIZE_NON_NEGATIVE : OPTIMIZE_FALLING;
}

static dpmf_status optimize(const optimize_task *task, int64_t bands, int whole, dpmf_strategy **out,
                            dpmf_optimization *result) {
    problem p = {0};
    base_minimum found = {0};
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(open_problem(task, bands, &p));
    TRY_DONE(base_alloc_doubles(bands, "the parameters", &x));
    TRY_DONE(start_point(task, &p, x, &found));
    TRY_DONE(minimize_all(&p, task, x, &found));
    if (may_widen(task, &p)) TRY_DONE(widen(task, &p, x, &found));
    coefficients_of(&p, x, p.c);
    if (out != NULL) TRY_DONE(make_strategy(task, &p, whole, out));
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations,
                                  .optimum_upper = INFINITY,
                                  .searched = class_of(&p),
                                  .stationarity = found.gradient * base_norm(bands, x)};
done:
    close_problem(&p);
    base_free(x);
    return status;
}

dpmf_status toeplitz_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    if (task->options->damped) return toeplitz_optimize_damped(task, out, result);
    return optimize(task, task->workload->steps, 1, out, result);
}

dpmf_status toeplitz_optimize_banded(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    return optimize(task, task->options->bands, 0, out, result);
}

dpmf_status toeplitz_taper(int64_t bands, int64_t least, double *c) {
    if (bands < 2 || least < 1 || least >= bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld of %lld bands, accepted: 1 to bands - 1",
                         (long long)least, (long long)bands);
    for (int64_t i = least; i <= bands; i++)
        c[i - 1] *= (double)(bands - i) / (double)(bands - least);
    return DPMF_OK;
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
    if (o->sweep && o->taper != 0) return base_fail(DPMF_ERROR_ARGUMENT, "sweep and taper exclude each other");
    if (o->taper < 0 || o->taper >= o->bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "taper from %lld, accepted 1 to below the %lld bands",
                         (long long)o->taper, (long long)o->bands);
    if (o->sweep && (!workload_is_single(task->participation) || o->weights != NULL))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the sweep is for single participation, no weights");
    if (o->normalize == DPMF_NORMALIZE_WITHIN)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "sweep and taper are normalized after, not within");
    return DPMF_OK;
}

static dpmf_status make_variant(const optimize_task *task, const double *c, dpmf_strategy **out) {
    const dpmf_optimize_options *o = task->options;
    dpmf_strategy *plain = NULL;
    dpmf_status status = DPMF_OK;
    if (out == NULL) return DPMF_OK;
    TRY(dpmf_strategy_create_toeplitz(task->workload->steps, DPMF_TOEPLITZ_BANDED, o->bands, c, &plain));
    if (o->normalize == DPMF_NORMALIZE_NONE) {
        *out = plain;
        return DPMF_OK;
    }
    status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

dpmf_status toeplitz_optimize_variant(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    toeplitz_sweep_result swept;
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    if (!o->sweep && o->taper == 0) return toeplitz_optimize_banded(task, out, result);
    TRY(check_variant(task));
    TRY_DONE(base_alloc_doubles(o->bands, "the coefficients", &c));
    if (o->sweep) {
        TRY_DONE(toeplitz_sweep(task->workload, o->bands, o->loss, c, &swept));
        result->iterations = swept.evaluations;
    } else {
        TRY_DONE(optimize_tapered(task, c, result));
    }
    TRY_DONE(make_variant(task, c, out));
done:
    base_free(c);
    return status;
}

/*
 * Toeplitz coefficients without gradients: c_i = 1/(i+1) + shift, which fits the optimal ones closely for n much larger
 * than the bands, with the best shift found by trying a range of them and closing in on the best (McKenna 2024,
 * Appendix J); and the taper of Appendix H, which makes banded coefficients robust when the separation of
 * participations is only known to lie between two numbers.
 */

enum { GRID = 29 }; /* shifts from 1e-4 to 1e3, four a decade: 0 and infinity are no better for prefix sums */

static dpmf_status loss_at(toeplitz_error *e, double shift, double *c, toeplitz_sweep_result *best) {
    double error = INFINITY;
    for (int64_t i = 0; i < e->bands; i++)
        c[i] = 1 / (double)(i + 1) + shift;
    TRY(toeplitz_error_value(e, c, &error, NULL));
    double loss = base_norm(e->bands, c) * sqrt(error);
    best->evaluations++;
    if (loss < best->loss) {
        best->loss = loss;
        best->shift = shift;
    }
    return DPMF_OK;
}

dpmf_status toeplitz_sweep(const dpmf_workload *workload, int64_t bands, dpmf_loss loss, double *coefficients,
                           toeplitz_sweep_result *out) {
    toeplitz_error e = {0};
    toeplitz_sweep_result best = {.loss = INFINITY};
    double *c = NULL;
    dpmf_status status = DPMF_OK;
    if (!workload->toeplitz)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the sweep takes Toeplitz workloads only, not %s", workload->text);
    if (bands < 1 || bands > workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld bands, accepted 1 to the %lld steps", (long long)bands,
                         (long long)workload->steps);
    TRY_DONE(toeplitz_error_create(workload, bands, loss, NULL, &e));
    TRY_DONE(base_alloc_doubles(bands, "the coefficients", &c));
    for (int i = 0; i < GRID; i++)
        TRY_DONE(loss_at(&e, pow(10, -4 + 0.25 * i), c, &best));
    TRY_DONE(loss_at(&e, 0, c, &best));
    if (!isfinite(best.loss)) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "no shift gives coefficients of finite loss");
        goto done;
    }
    if (best.shift > 0) {
        /* Golden section around the best point of the grid: the loss is smooth there, and flat, so 40 steps are plenty. */
        const double golden = 0.5 * (sqrt(5) - 1);
        double width = 0.25; /* decades */
        for (int step = 0; step < 40; step++, width *= golden) {
            const double centre = best.shift;
            TRY_DONE(loss_at(&e, centre * pow(10, -width), c, &best));
            TRY_DONE(loss_at(&e, centre * pow(10, width), c, &best));
        }
    }
    for (int64_t i = 0; i < bands && coefficients != NULL; i++)
        coefficients[i] = 1 / (double)(i + 1) + best.shift;
    *out = best;
done:
    toeplitz_error_free(&e);
    base_free(c);
    return status;
}
