/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded strategies from data: C[t,u] = 0 for t - u >= b (McKenna 2024, Section 3.1; Algorithm 1 there streams C^-1):
 *
 *     y_t = (z_t - sum_{j=1..b-1} C[t,t-j] y_{t-j}) / C[t,t],   b - 1 rows kept.
 */
#include "families/banded/banded.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

typedef struct banded {
    dpmf_strategy base;
    int64_t bands;
    double *rows; /* rows[t * bands + j] = C[t, t-j] */
} banded;

STRATEGY_CAST(banded)

static void banded_release(dpmf_strategy *s) {
    base_free(((banded *)s)->rows);
}

static dpmf_status banded_apply(const dpmf_strategy *s, const double *x, double *y) {
    base_banded_apply(s->steps, cast(s)->bands, cast(s)->rows, x, y);
    return DPMF_OK;
}

static dpmf_status banded_solve(const dpmf_strategy *s, const double *y, double *x) {
    base_banded_solve(s->steps, cast(s)->bands, cast(s)->rows, y, x);
    return DPMF_OK;
}

static int64_t banded_bands(const dpmf_strategy *s) {
    return cast(s)->bands;
}

static int64_t banded_buffers(const dpmf_strategy *s) {
    return cast(s)->bands - 1;
}

static void banded_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                        double *row) {
    int64_t buffers = cast(s)->bands - 1;
    const double *c = cast(s)->rows + t * cast(s)->bands;
    for (int64_t i = 0; i < count; i++)
        row[i] = seed[i];
    for (int64_t j = 1; j <= buffers && j <= t; j++) {
        const double *past = state + ((t - j) % buffers) * count;
        for (int64_t i = 0; i < count; i++)
            row[i] -= c[j] * past[i];
    }
    for (int64_t i = 0; i < count; i++)
        row[i] /= c[0];
    if (buffers > 0) memcpy(state + (t % buffers) * count, row, (size_t)count * sizeof *row);
}

static void banded_row(const dpmf_strategy *s, int64_t t, double *values) {
    memcpy(values, cast(s)->rows + t * cast(s)->bands, (size_t)cast(s)->bands * sizeof *values);
}

static dpmf_status banded_column(const dpmf_strategy *s, int64_t j, double *column) {
    int64_t bands = cast(s)->bands;
    memset(column, 0, (size_t)s->steps * sizeof *column);
    for (int64_t t = j; t < s->steps && t - j < bands; t++)
        column[t] = cast(s)->rows[t * bands + t - j];
    return DPMF_OK;
}

static void banded_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)w;
    base_tensors_add(tensors, "strategy.rows", s->steps, cast(s)->bands, cast(s)->rows);
}

static const strategy_ops BANDED = {.class_name = "banded",
                                    .release = banded_release,
                                    .apply = banded_apply,
                                    .solve = banded_solve,
                                    .step = banded_step,
                                    .buffers = banded_buffers,
                                    .column = banded_column,
                                    .bands = banded_bands,
                                    .row = banded_row,
                                    .write = banded_write};

dpmf_status dpmf_strategy_create_banded(int64_t steps, int64_t bands, const double *rows, dpmf_strategy **out) {
    banded *s = NULL;
    dpmf_status status = DPMF_OK;
    if (rows == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "banded C: the rows are NULL");
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    if (bands < 1 || bands > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: bands = %lld, accepted 1 to %lld (the steps)",
                         (long long)bands, (long long)steps);
    if (steps > INT64_MAX / bands)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: %lld x %lld numbers are beyond any memory", (long long)steps,
                         (long long)bands);
    TRY(base_check_finite(steps * bands, rows, "banded C: entry"));
    for (int64_t t = 0; t < steps && t < bands; t++)
        for (int64_t j = t + 1; j < bands; j++)
            if (rows[t * bands + j] != 0)
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "banded C: row %lld, band %lld = %g lies left of column 0, accepted 0", (long long)t,
                                 (long long)j, rows[t * bands + j]);
    TRY(strategy_new(&BANDED, sizeof *s, DPMF_FAMILY_BANDED, steps, (dpmf_strategy **)&s));
    s->bands = bands;
    TRY_DONE(base_alloc_doubles(steps * bands, "the bands of C", &s->rows));
    memcpy(s->rows, rows, (size_t)(steps * bands) * sizeof *rows);
    for (int64_t t = steps - 1; t >= 0; t--)
        if (rows[t * bands] == 0) s->base.singular_at = t;
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status banded_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *rows = NULL;
    TRY(strategy_array(source, "strategy.rows", source->steps, -1, &rows));
    return dpmf_strategy_create_banded(source->steps, rows->shape[1], rows->values, out);
}

/*
 * The best C of few bands (McKenna 2024, Section 3.1), for the RMS and the max loss and for several participations.
 *
 *     minimize over C:  sum_t p_t q_t (RMS, p = weights / n)   or   max_t q_t,   with sensitivity 1
 *
 * by limited-memory BFGS on the unknowns of families/banded/class.c with the derivatives of families/banded/pass.c,
 * O(n b^2) per step, until the bound of families/banded/class.c proves that C is near enough to the best. In X = C'C and d
 * the problem is convex, so every stationary C is optimal. On the sphere on which column s lives the Lagrangian's second
 * derivative is nu_s I plus terms of the same order, nu_s = -d/dX_ss: dividing column s by sqrt(nu_s) takes out most
 * of what grows with the number of steps. (For n far above b^2 the best columns are nearly constant, and what is left of
 * the loss at the frequencies where they vanish is found slowly, but is little.)
 *
 * Max loss: for p in the simplex sum p_t q_t is at most max_t q_t, so the weighted problem bounds the other, and equals
 * it for the best p. The exponential method of multipliers finds both: minimize the power mean (sum mu_t q_t^r)^(1/r),
 * then mu_t <- mu_t q_t^r over their sum. Steps whose error stays below the maximum lose their weight. A small part of
 * the mean error is mixed in, so that they still count for something.
 *
 * Any other loss f (problem/loss.c): minimize f(q) with its own derivatives in the place of p. The weighted problem bounds it
 * where f^2 is convex.
 */

enum {
    FIRST_STEPS = 20,   /* before the scales are right */
    LOOK_STEPS = 25,    /* from one bound to the next, at most, and a tenth of all: one bound costs as much as five */
    WINDOW_STEPS = 300, /* with the same scales, if there are windows */
    ROUND_STEPS = 150,  /* with the same multipliers, of patterns from a file */
    SMALL_STEPS = 150,  /* of a smaller problem that is only a start */
    FAR = 4,            /* times the loss at the start: a line search that interpolates is not to see such points */
    OTHER_ROUNDS = 10,  /* descents for other losses than RMS and max, each with new scales */
    SMALLEST = 64,      /* steps of a problem that is not started from a smaller one */
    UNKNOWNS_MAX = 500000000 /* what a vector of base/minimize.h can hold, windows included */
};

static const double WORK = 1.5e10; /* one or two minutes */
static const double LAST_FLOOR =
    1e-4; /* of the mean square beside that of the last step, without which C would become singular */

typedef struct problem {
    const dpmf_workload *workload;
    dpmf_loss loss;
    const dpmf_run *run;
    banded_class class_;
    banded_pass pass;
    double *given;   /* RMS: the weights over n */
    double *mu;      /* max: the multipliers, summing to 1 */
    double power;    /* max: r */
    double floor;    /* max: the part of the mean error */
    double *rows;    /* C at the last point looked at */
    double *d;       /* D there */
    double *squares; /* q there */
    double *p;       /* the derivative of the objective by q there */
    double *slopes;  /* of the backward pass, for the bound */
    double unit;     /* the loss is measured in this */
    double *x;
    double *best; /* the C of the least loss so far */
    double lower, upper, stationarity;
    int iterations, limit, near; /* near: the start is near the best, so that its scales are right */
    double tolerance;            /* RMS: of the gap */
    problem_loss asked;          /* where the loss is neither RMS nor max */
    base_minimum end;            /* of its last descent */
    double gap;                  /* of the squares, at the last look */
    double look;                 /* RMS: the gap is looked at when |gradient| has fallen below this, */
    int looked, steps;           /* or LOOK_STEPS and a tenth of all steps after the last look */
} problem;

static void problem_free(problem *s) {
    banded_class_free(&s->class_);
    banded_pass_free(&s->pass);
    base_free(s->given);
}

static dpmf_status problem_create(const dpmf_workload *workload, const dpmf_participation *participation, int64_t bands,
                                  const double *weights, const dpmf_run *run, problem *s) {
    int64_t n = workload->steps;
    s->workload = workload;
    s->run = run;
    s->unit = 1;
    s->upper = INFINITY;
    TRY(banded_class_create(participation, bands, &s->class_));
    TRY(banded_pass_create(workload, bands, &s->pass));
    TRY(BASE_ARRAYS("the bands of C", {&s->given, n}, {&s->mu, n}, {&s->rows, n * bands}, {&s->d, n * bands},
                    {&s->squares, n}, {&s->p, n}, {&s->slopes, n * (s->pass.stride + 2)}, {&s->best, n * bands},
                    {&s->x, s->class_.unknowns}));
    for (int64_t t = 0; t < n; t++) {
        s->given[t] = (weights == NULL ? 1 : weights[t]) / (double)n;
        s->mu[t] = 1 / (double)n;
    }
    return DPMF_OK;
}

static double largest(int64_t n, const double *q) {
    double most = 0;
    for (int64_t t = 0; t < n; t++)
        most = fmax(most, q[t]);
    return most;
}

/* (1 - floor) (sum mu q^r)^(1/r) + floor x mean, and its derivative by q in p. */
static double power_mean(problem *s) {
    int64_t n = s->class_.n;
    double most = largest(n, s->squares), sum = 0, mean = 0;
    for (int64_t t = 0; t < n; t++) {
        double part = s->squares[t] / most;
        s->p[t] = s->mu[t] * pow(part, s->power - 1);
        sum += s->p[t] * part;
        mean += s->squares[t] / (double)n;
    }
    double root = pow(sum, 1 / s->power);
    for (int64_t t = 0; t < n; t++)
        s->p[t] = (1 - s->floor) * root / sum * s->p[t] + s->floor / (double)n;
    return (1 - s->floor) * root * most + s->floor * mean;
}

/* Any other loss f: f^2, and 2 f times its derivative; INFINITY where a caller's own has no finite value or derivative. */
static double aim_other(problem *s) {
    const int64_t n = s->class_.n;
    const int last = s->asked.kind == DPMF_LOSS_LAST;
    const double loss = problem_loss_value(&s->asked, n, s->squares, s->p);
    double mean = 0;
    if (!(loss > 0 && isfinite(loss))) return INFINITY;
    for (int64_t t = 0; t < n; t++) {
        if (!(s->p[t] >= 0 && isfinite(s->p[t]))) return INFINITY;
        s->p[t] = 2 * loss * s->p[t] + (last ? LAST_FLOOR / (double)n : 0);
        mean += s->squares[t] / (double)n;
    }
    return loss * loss + (last ? LAST_FLOOR * mean : 0);
}

/* The objective, squared, from the errors; p gets its derivative. */
static double aim(problem *s) {
    double sum = 0;
    if (s->loss > DPMF_LOSS_MAX) return aim_other(s);
    if (s->loss == DPMF_LOSS_MAX) return power_mean(s);
    memcpy(s->p, s->given, (size_t)s->class_.n * sizeof *s->p);
    for (int64_t t = 0; t < s->class_.n; t++)
        sum += s->p[t] * s->squares[t];
    return sum;
}

static dpmf_status loss_of_rows(void *context, const double *x, double *f, double *gradient) {
    problem *s = context;
    *f = INFINITY;
    if (!banded_class_build(&s->class_, x, s->rows)) return DPMF_OK;
    if (!banded_forward(&s->pass, s->rows, s->squares)) return DPMF_OK;
    double square = aim(s), loss = sqrt(square);
    if (!(loss <= FAR * s->unit)) return DPMF_OK;
    banded_backward(&s->pass, s->rows, s->p, s->d, NULL);
    banded_class_pull(&s->class_, s->rows, s->d, gradient);
    for (int64_t i = 0; i < s->class_.unknowns; i++)
        gradient[i] /= 2 * loss * s->unit;
    *f = loss / s->unit;
    return DPMF_OK;
}

/* rows, d, slopes, squares and p at x, and the squared objective. */
static dpmf_status look_at_rows(problem *s, const double *x, double *square) {
    if (!banded_class_build(&s->class_, x, s->rows) || !banded_forward(&s->pass, s->rows, s->squares))
        return base_fail(DPMF_ERROR_NUMERICAL, "banded C: the errors are not finite");
    *square = aim(s);
    if (!isfinite(*square))
        return base_fail(s->loss == DPMF_LOSS_OWN ? DPMF_ERROR_ARGUMENT : DPMF_ERROR_NUMERICAL,
                         "banded C: the loss is not finite and above 0, or a derivative is negative or not finite");
    banded_backward(&s->pass, s->rows, s->p, s->d, s->slopes);
    return DPMF_OK;
}

/* What no C of the class is below, for the steps' weights: from the recursion of a named workload, or from a matrix. */
static dpmf_status bound_rows(problem *s, double *low) {
    if (s->pass.y != NULL) return banded_matrix_bound(&s->pass, &s->class_, s->p, low);
    return banded_bound(&s->pass, &s->class_, s->rows, s->d, s->slopes, s->p, low);
}

/*
 * Any other loss f: where f^2 is convex in q, f(q)^2 >= f(r)^2 + <p, q - r> for the r at hand and p = grad f^2, and the least of
 * <p, q> over the class has a bound. No such bound for `last`, whose objective has a floor besides.
 */
static dpmf_status certify_other(problem *s, double square, double total) {
    const double loss = problem_loss_value(&s->asked, s->class_.n, s->squares, NULL);
    double low = 0;
    int proves = problem_loss_is_convex(&s->asked) && s->asked.kind != DPMF_LOSS_LAST;
    for (int64_t t = 0; t < s->class_.n; t++)
        if (!(s->p[t] > 0)) proves = 0; /* the bound needs every step to count */
    if (proves) {
        TRY(bound_rows(s, &low));
        low = low <= total * (1 + 1e-12) ? fmin(low, total) : 0;
        s->lower = fmax(s->lower, sqrt(fmax(0, square - total + low)));
    }
    if (loss < s->upper) {
        s->upper = loss;
        memcpy(s->best, s->rows, (size_t)(s->class_.n * s->class_.bands) * sizeof *s->best);
    }
    return DPMF_OK;
}

/* The loss of the C at x and the bound that its weights give; keeps the best of both. */
static dpmf_status certify_rows(problem *s, const double *x) {
    int64_t n = s->class_.n, count = n * s->class_.bands;
    double square = 0, sum = 0, total = 0, low = 0;
    TRY(look_at_rows(s, x, &square));
    for (int64_t t = 0; t < n; t++) {
        sum += s->p[t];
        total += s->p[t] * s->squares[t];
    }
    if (s->loss > DPMF_LOSS_MAX) return certify_other(s, square, total);
    TRY(bound_rows(s, &low));
    low = low <= total * (1 + 1e-12) ? fmin(low, total) : 0; /* more would be all rounding */
    s->gap = total / low - 1;
    if (s->loss == DPMF_LOSS_MAX) { /* the weights of the bound sum to 1 */
        low /= sum;
        total = largest(n, s->squares);
    }
    const double over = banded_class_largest(&s->class_);
    total *= over;
    s->lower = fmax(s->lower, sqrt(low));
    if (sqrt(total) < s->upper) {
        s->upper = sqrt(total);
        for (int64_t i = 0; i < count; i++)
            s->best[i] = s->rows[i] / sqrt(over);
    }
    return DPMF_OK;
}

static int near_enough(const problem *s, double tolerance) {
    return s->upper <= s->lower * (1 + tolerance);
}

/* The gap is a number times |gradient|^2 near the optimum: the number is measured, and the next look at the gap follows from it. */
static dpmf_status enough_rms(void *context, const double *x, double gradient, int *end) {
    problem *s = context;
    if (++s->looked < LOOK_STEPS + ++s->steps / 10 && gradient > s->look) return DPMF_OK;
    TRY(certify_rows(s, x));
    s->look = gradient * fmin(0.8, sqrt(0.6 * s->tolerance / s->gap));
    s->looked = 0;
    *end = near_enough(s, s->tolerance);
    return DPMF_OK;
}

/* Of BFGS. The max loss gains from many; in large problems more than five cost more time than they save. */
static int pairs(const problem *s) {
    if (s->class_.unknowns > 100000) return 5;
    return s->loss != DPMF_LOSS_RMS ? 40 : 10;
}

/* The most steps with the same scales. */
static dpmf_status descend_rows(problem *s, int iterations, base_minimum *out) {
    int64_t n = s->class_.n;
    double square = 0, total = 0;
    base_objective objective = {s->class_.unknowns, s, loss_of_rows};
    base_minimize_options options = {.decrease = 1e-15,
                                     .past = 10,
                                     .iterations = iterations,
                                     .pairs = pairs(s),
                                     .what = "banded",
                                     .run = s->run,
                                     .enough = s->loss == DPMF_LOSS_RMS ? enough_rms : NULL};
    TRY(look_at_rows(s, s->x, &square));
    for (int64_t t = 0; t < n; t++)
        total += s->p[t] * s->squares[t];
    s->unit = sqrt(square);
    banded_class_rescale(&s->class_, s->rows, s->d, total);
    banded_class_unknowns(&s->class_, s->rows, s->x);
    TRY(base_minimize(&objective, &options, s->x, out));
    s->iterations += out->iterations;
    s->stationarity = out->gradient / out->f;
    return DPMF_OK;
}

/* Several of these. Windows go in and out of use, so with them scales are renewed; else that only costs BFGS its memory. */
static dpmf_status descend_long(problem *s, int iterations, base_minimum *out) {
    int most = s->class_.kind == BANDED_SEPARATED ? WINDOW_STEPS : iterations;
    if (s->class_.kind == BANDED_LISTED && iterations > ROUND_STEPS) iterations = most = ROUND_STEPS;
    for (int done = 0, end = 0; done < iterations && !end;) {
        int now = iterations - done < most ? iterations - done : most;
        TRY(descend_rows(s, now, out));
        done += out->iterations;
        end = out->iterations < now;
    }
    return DPMF_OK;
}

/* mu <- mu q^r over the sum; none so small that it could not come back. */
static void reweight(problem *s) {
    int64_t n = s->class_.n;
    double most = largest(n, s->squares), sum = 0;
    for (int64_t t = 0; t < n; t++) {
        s->mu[t] *= pow(s->squares[t] / most, s->power);
        sum += s->mu[t];
    }
    for (int64_t t = 0; t < n; t++)
        s->mu[t] = fmax(s->mu[t] / sum, 1e-15 / (double)n);
}

/* Few long rounds: a short one leaves a gradient that says nothing about the weights. */
static dpmf_status solve_max(problem *s, double tolerance) {
    base_minimum m = {0};
    int steps = s->limit / 6 < 2000 ? s->limit / 6 : 2000;
    s->power = 32;   /* higher: fewer rounds, each harder */
    s->floor = 1e-5; /* costs this part of max - mean at most */
    for (int round = 0; round < 40 && s->iterations < s->limit; round++) {
        int left = s->limit - s->iterations;
        TRY(descend_long(s, left < steps ? left : steps, &m));
        TRY(certify_rows(s, s->x));
        if (near_enough(s, tolerance)) break;
        reweight(s);
        banded_class_renew(&s->class_);
        s->power = fmin(1.3 * s->power, 256); /* the weights are nearly right: less is left to change */
    }
    return DPMF_OK;
}

/* Steps that are worth a minute or two, WORK in all, each n b^2, or n^2 b for a matrix. */
static int step_limit(const problem *s, dpmf_loss loss) {
    const double n = (double)s->class_.n, b = (double)s->class_.bands;
    double steps = WORK / (n * b * (s->pass.y != NULL ? n : b));
    double most = loss != DPMF_LOSS_RMS ? 12000 : 4000;
    return (int)fmax(60, fmin(steps, most));
}

/* The best C of the class from the one in `rows`, which it replaces. */
static dpmf_status solve_rows(problem *s, dpmf_loss loss, double tolerance, int limit, double *rows) {
    int64_t count = s->class_.n * s->class_.bands;
    s->loss = DPMF_LOSS_RMS;
    s->limit = limit;
    banded_class_unknowns(&s->class_, rows, s->x);
    if (loss == DPMF_LOSS_MAX) {
        base_minimum m = {0};
        TRY(descend_rows(s, FIRST_STEPS, &m));
        s->loss = DPMF_LOSS_MAX;
        TRY(solve_max(s, tolerance));
    } else if (loss > DPMF_LOSS_MAX) {
        TRY(descend_rows(s, FIRST_STEPS, &s->end));
        s->loss = loss;
        for (int round = 0; round < OTHER_ROUNDS && s->iterations < s->limit; round++) {
            const double before = s->upper;
            TRY(descend_long(s, s->limit - s->iterations, &s->end));
            TRY(certify_rows(s, s->x));
            if (near_enough(s, tolerance) || s->upper > before * (1 - tolerance)) break;
        }
    } else {
        /* New scales mean a new memory for BFGS, so there are few of them: after a short run from a far start, and for windows. */
        base_minimum m = {0};
        int stuck = 0;
        s->tolerance = tolerance;
        if (!s->near) TRY(descend_rows(s, FIRST_STEPS, &m));
        const int patience = s->class_.kind == BANDED_LISTED ? 8 : 3; /* the first rounds have other multipliers */
        while (!near_enough(s, tolerance) && s->iterations < s->limit && stuck < patience) {
            double gap = s->upper / s->lower - 1;
            TRY(descend_long(s, s->limit - s->iterations, &m));
            if (!near_enough(s, tolerance)) TRY(certify_rows(s, s->x));
            banded_class_renew(&s->class_);
            stuck = s->upper / s->lower - 1 < 0.9 * gap ? 0 : stuck + 1;
        }
    }
    memcpy(rows, s->best, (size_t)count * sizeof *rows);
    return DPMF_OK;
}

/* The steps of a smaller problem of the same kind, whose solution for one participation is a start; 0: there is none. */
static int64_t smaller(const dpmf_workload *workload, int64_t bands) {
    int64_t small = workload->steps / 4;
    return workload->toeplitz && small >= SMALLEST && small >= 8 * bands ? small : 0;
}

/* A C to start from: the square root of the workload or the solution of a smaller problem, drawn out. */
static dpmf_status start_rows(const dpmf_workload *workload, int64_t bands, const dpmf_run *run, double *rows) {
    int64_t n = workload->steps, small = smaller(workload, bands);
    dpmf_workload *head = NULL;
    dpmf_participation *single = NULL;
    double *from = NULL;
    problem s = {0};
    dpmf_status status = DPMF_OK;
    if (small == 0) return banded_start_root(workload, bands, rows);
    TRY_DONE(workload_head(workload, small, &head));
    TRY_DONE(workload_participation_single(small, &single));
    TRY_DONE(base_alloc_doubles(small * bands, "the bands of C", &from));
    TRY_DONE(start_rows(head, bands, run, from));
    TRY_DONE(problem_create(head, single, bands, NULL, run, &s));
    s.near = smaller(head, bands) > 0;
    TRY_DONE(solve_rows(&s, DPMF_LOSS_RMS, 1e-5, SMALL_STEPS, from));
    banded_start_stretch(small, n, bands, from, rows);
done:
    problem_free(&s);
    base_free(from);
    dpmf_participation_free(single);
    dpmf_workload_free(head);
    return status;
}

/* The best C of `bands` diagonals, n x bands numbers into `rows`, which start as zeros. */
static dpmf_status best_rows(const optimize_task *task, int64_t bands, double *rows, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    problem s = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(problem_create(task->workload, task->participation, bands, o->weights, &o->run, &s));
    TRY_DONE(start_rows(task->workload, bands, &o->run, rows));
    s.near = s.class_.kind == BANDED_SINGLE && smaller(task->workload, bands) > 0;
    s.asked = (problem_loss){o->loss, o->loss_power, o->own_loss};
    TRY_DONE(solve_rows(&s, o->loss, o->tolerance, step_limit(&s, o->loss), rows));
    *result = (dpmf_optimization){.outcome = near_enough(&s, o->tolerance) ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = s.iterations,
                                  .optimum_lower = s.lower,
                                  .optimum_upper = s.upper,
                                  .scope = "C of these bands with this participation",
                                  .stationarity = s.stationarity};
    if (o->loss > DPMF_LOSS_MAX && s.lower == 0) { /* no bound is proven: only the search speaks */
        result->outcome = s.end.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT;
        result->optimum_upper = INFINITY;
        result->scope = NULL;
    }
done:
    problem_free(&s);
    return status;
}

dpmf_status banded_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    int64_t n = task->workload->steps, bands = task->options->bands;
    dpmf_optimization found;
    double *rows = NULL;
    dpmf_status status = DPMF_OK;
    if (bands < 1 || bands > task->workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: bands = %lld, accepted 1 to %lld (the steps)",
                         (long long)bands, (long long)task->workload->steps);
    if (bands > UNKNOWNS_MAX / task->workload->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "banded C: %lld x %lld numbers, accepted up to %d",
                         (long long)task->workload->steps, (long long)bands, UNKNOWNS_MAX);
    if (task->workload->form == WORKLOAD_OPERATOR)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "banded C is optimized for named workloads (prefix, momentum, ...), matrices and sums, not for %s",
            task->workload->text);
    TRY_DONE(base_alloc_doubles(n * bands, "the bands of C", &rows));
    TRY_DONE(best_rows(task, bands, rows, &found));
    if (out != NULL) TRY_DONE(dpmf_strategy_create_banded(n, bands, rows, out));
    *result = found;
done:
    base_free(rows);
    return status;
}
