/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best dense C under several participations.
 *
 *     cyclic   X = C'C zero between the steps of one unit (Pillutla et al. 2025, Problem 4.6), any size: the dual
 *              climbed (optimum/epochs/epochs.h), X(V) repaired into a mechanism, whose loss and the dual enclose the optimum;
 *              or, for small problems, one of the weaker constraints of Choquette-Choo et al. 2023, Appendix I.3
 *     full     the same with X diagonal (optimum/epochs/forms.c); so is cyclic participation with b = 1
 *     min-sep, shuffled   below
 *
 * Under cyclic and full participation the lower bound holds for every mechanism, zeros in X or not (optimum/epochs/bound.c).
 * The upper bound is the loss of the C that is returned, times its sensitivity. Above DPMF_DENSE_STEPS_MAX steps it is that of
 * X(V) itself, which the blocks of X(V) give without a matrix.
 */
#include "families/families.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "design/design.h"
#include "families/banded/banded.h"
#include "families/toeplitz/toeplitz.h"
#include "optimum/optimum.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char SCOPE_ANY[] = "any mechanism (contributions of k or more coordinates)";
static const char SCOPE_NON_NEGATIVE[] = "mechanisms whose C'C has no negative entry";
static const char SCOPE_CORNERS[] = "mechanisms whose sensitivity to contributions of one coordinate is 1";

enum { CONFIRM_STEPS_MAX = 4096 }; /* singular values: n^3, half a minute there */

enum { THREADS_STEPS_MIN = 128 }; /* below, a node is done before a thread wakes */

static const double HIGH_BARRIER = 0.03; /* times n: bounds this far apart, reached in a few steps from anywhere */

/* Barriers on the way down: the next is this part, once the bounds are this many barriers apart (1 at the top; RMS: 1/2). */
static const double LOWER = 0.2, NEAR_MAX = 2, NEAR_RMS = 1.5;

/*
 * Momentum that reaches over more than this part of an epoch has its optimum at the edge, and a climb at a low barrier
 * runs into it: for 20 epochs of 100 and momentum 0.95 V is nearly singular after 50 steps, and what follows is lost.
 */
static const double REACH = 0.125;

typedef struct search {
    const optimize_task *task;
    optimum_epochs epochs;
    epochs_climb climb;
    int want;            /* a matrix? */
    double *x, *c;       /* if so: scratch; the best C so far */
    double lower, upper; /* squared */
} search;

static int is_max(const search *s) {
    return s->task->options->loss == DPMF_LOSS_MAX;
}

static dpmf_status report_certificate(const search *s) {
    char text[120];
    snprintf(text, sizeof text, "cyclic optimum, %d steps, certificate %.9g", s->climb.iterations,
             sqrt(s->upper / s->lower));
    return base_progress(&s->task->options->run, text, -1);
}

/* The loss of the mechanism that a repair of X gives; kept if it is the best so far. */
static dpmf_status try_repair(search *s, int by_adding) {
    int64_t n = s->epochs.n, b = s->epochs.b;
    const dpmf_optimize_options *o = s->task->options;
    double sensitivity = 0, loss = 0, *inverse = s->x;
    int definite = 0;
    TRY(base_progress(&o->run, "cyclic optimum: the matrix", -1));
    TRY(epochs_fill(&s->epochs, &s->climb.point, s->x));
    TRY(base_progress(&o->run, "cyclic optimum: its factor", -1));
    TRY(epochs_repair(n, b, by_adding, s->x, &definite));
    if (!definite) return DPMF_OK; /* too far from the optimum yet */
    TRY(base_progress(&o->run, "cyclic optimum: its loss", -1));
    TRY(epochs_sensitivity(n, b, s->x, &sensitivity));
    TRY(base_alloc_square(n, "the inverse of C", &inverse));
    memcpy(inverse, s->x, (size_t)(n * n) * sizeof *inverse);
    dpmf_status status = epochs_loss(s->task->workload, is_max(s), o->weights, inverse, &loss);
    base_free(inverse);
    if (status != DPMF_OK) return status;
    if (sensitivity * loss < s->upper) {
        double *kept = s->c;
        s->upper = sensitivity * loss;
        s->c = s->x;
        s->x = kept;
    }
    return report_certificate(s);
}

static double gap(const search *s) {
    return sqrt(s->upper / s->lower) - 1;
}

/*
 * Bounds at the point where the climb stands. Where only the allowance for rounding keeps them apart, as with momentum
 * and many steps, singular values settle the lower one: they cost as much as many evaluations, so they come last.
 */
static dpmf_status certify_climb(search *s) {
    double tolerance = s->task->options->tolerance, error = s->climb.point.error;
    s->lower = s->climb.lower;
    if (!s->want) {
        s->upper = s->climb.upper;
        return report_certificate(s);
    }
    TRY(try_repair(s, 0));
    if (gap(s) > tolerance && gap(s) <= tolerance + 1.1 * error && s->epochs.n <= CONFIRM_STEPS_MAX) {
        TRY(base_progress(&s->task->options->run, "cyclic optimum: singular values", -1));
        TRY(epochs_climb_confirm(&s->climb));
        s->lower = s->climb.lower;
        TRY(report_certificate(s));
    }
    if (gap(s) <= tolerance || !(s->climb.upper < s->upper)) return DPMF_OK;
    TRY(epochs_climb_revisit(&s->climb));
    return try_repair(s, 1);
}

static int begins_high(const search *s) {
    const double momentum = s->task->workload->momentum;
    return is_max(s) || (momentum > 0 && (1 - momentum) * (double)s->epochs.b * REACH < 1);
}

/*
 * Climbs and certifies in turn, each time further, until the bounds are as near as asked or nothing more is gained. The
 * barrier falls on the way: at a high one the problem is well conditioned, and its bounds are that far apart. For the
 * RMS loss the first try is at a low one, which is all that most problems need, unless the optimum is known to lie at the
 * edge. On the way down a round ends as soon as its bounds are about as far apart as its barrier keeps them.
 */
static dpmf_status run_search(search *s) {
    enum { ROUNDS = 10, ITERATIONS = 1000 };
    double tolerance = s->task->options->tolerance, steps = (double)s->epochs.n;
    const int high = begins_high(s);
    double least = (high ? 0.6 : 0.3) * tolerance, barrier = high ? fmax(least, HIGH_BARRIER) : least;
    /* with momentum the mechanism lags behind the dual, and every round forgets what the last one knew of the curvature */
    double decrease = is_max(s) ? 0 : (high ? 1.5e-3 : s->task->workload->momentum > 0 ? 3e-4 : 0.02) * tolerance;
    s->climb.covers = 1;
    s->climb.barrier = barrier / steps;
    TRY(epochs_climb_start(&s->climb));
    for (int round = 0, tried = high; round < ROUNDS;) {
        int before = s->climb.iterations;
        const int on_the_way = high && barrier > least;
        const double near = on_the_way ? fmax(tolerance, (is_max(s) ? NEAR_MAX : NEAR_RMS) * barrier) : tolerance;
        s->climb.enough = (1 + near) * (1 + near);
        s->climb.barrier = barrier / steps;
        /* the largest row of the error moves in the first order of what the dual lacks in the second */
        if (is_max(s)) decrease = fmax(1e-13, 0.01 * barrier * barrier);
        TRY(epochs_climb_run(&s->climb, fmax(1e-14, decrease), ITERATIONS));
        if (s->climb.stopped && near > tolerance) {
            barrier = fmax(LOWER * barrier, least);
            continue;
        }
        round++;
        TRY(certify_climb(s));
        if (gap(s) <= tolerance || (barrier <= least && tried && s->climb.iterations < before + 3)) break;
        if (!tried && gap(s) > 100 * tolerance && barrier < HIGH_BARRIER) {
            barrier = HIGH_BARRIER; /* the hard way */
            decrease = 0.01 * tolerance;
        } else {
            double lacking = 0.5 * tolerance / gap(s); /* the mechanism's part is a root of the dual's */
            if (barrier <= least) decrease *= fmin(0.1, fmax(1e-3, lacking * lacking));
            barrier = fmax(0.1 * barrier, 0.1 * least);
        }
        tried = 1;
    }
    if (isfinite(s->upper)) return DPMF_OK;
    return base_fail(DPMF_ERROR_NUMERICAL, "cyclic optimum: no positive definite X was found");
}

static dpmf_optimization result_of(const search *s) {
    double steps = is_max(s) ? 1 : (double)s->epochs.n;
    return (dpmf_optimization){.outcome = gap(s) <= s->task->options->tolerance ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                               .iterations = s->climb.iterations,
                               .optimum_lower = sqrt(s->lower / steps),
                               .optimum_upper = sqrt(s->upper / steps),
                               .scope = SCOPE_ANY};
}

/* The search with zeros; want = 0: bounds alone. The caller closes s, also after a failure. */
static dpmf_status solve_zero(const optimize_task *task, int64_t k, int64_t b, int want, search *s, base_pool **pool) {
    const dpmf_optimize_options *o = task->options;
    int64_t n = task->workload->steps;
    *s = (search){.task = task, .upper = INFINITY, .want = want && n <= DPMF_DENSE_STEPS_MAX};
    /* the rule's own error must neither keep the bounds apart nor, as a false slope, the climb from its top */
    double quadrature = fmin(1e-7, fmax(1e-13, 1e-2 * o->tolerance));
    TRY(base_pool_create(n < THREADS_STEPS_MIN ? 1 : o->run.threads, pool));
    TRY(epochs_create(task->workload, k, b, is_max(s), o->weights, *pool, &s->epochs));
    TRY(epochs_climb_create(&s->epochs, quadrature, &o->run, &s->climb));
    if (s->want) {
        TRY(base_alloc_square(n, "X", &s->x));
        TRY(base_alloc_square(n, "C", &s->c));
    }
    return run_search(s);
}

static void close_zero(search *s, base_pool *pool) {
    base_free(s->x);
    base_free(s->c);
    epochs_climb_free(&s->climb);
    epochs_free(&s->epochs);
    base_pool_free(pool);
}

static dpmf_status optimize_zero(const optimize_task *task, int64_t k, int64_t b, int want, dpmf_strategy **out,
                                 dpmf_optimization *result) {
    search s = {0};
    base_pool *pool = NULL;
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(solve_zero(task, k, b, want, &s, &pool));
    if (s.want && out != NULL) TRY_DONE(dpmf_strategy_create_dense(task->workload->steps, s.c, &strategy));
    *result = result_of(&s);
    if (out != NULL) *out = strategy;
done:
    close_zero(&s, pool);
    return status;
}

/* X >= 0 begins with the optimum of zeros, whose bound holds for it too. */
static dpmf_status optimize_form(const optimize_task *task, int64_t k, int64_t b, dpmf_strategy **out,
                                 dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    epochs_forms_task forms = {.workload = task->workload,
                               .k = k,
                               .b = b,
                               .constraint = o->constraint,
                               .max_loss = o->loss == DPMF_LOSS_MAX,
                               .weights = o->weights,
                               .tolerance = o->tolerance,
                               .run = &o->run};
    const int corners = o->constraint == DPMF_CONSTRAINT_CORNERS;
    const double steps = forms.max_loss ? 1 : (double)task->workload->steps;
    epochs_forms_answer found = {0};
    search s = {0};
    base_pool *pool = NULL;
    dpmf_status status = DPMF_OK;
    TRY(epochs_forms_check(&forms));
    if (!corners) TRY_DONE(solve_zero(task, k, b, 1, &s, &pool));
    forms.zero_c = s.c;
    forms.zero_lower = s.lower;
    forms.zero_factors = s.climb.point.lower;
    forms.zero_p = s.climb.point.p;
    TRY_DONE(epochs_forms_solve(&forms, &found));
    if (out != NULL) TRY_DONE(dpmf_strategy_create_dense(task->workload->steps, found.c, out));
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations + s.climb.iterations,
                                  .optimum_lower = sqrt(found.lower / steps),
                                  .optimum_upper = sqrt(found.upper / steps),
                                  .scope = corners ? SCOPE_CORNERS : SCOPE_NON_NEGATIVE};
done:
    base_free(found.c);
    close_zero(&s, pool);
    return status;
}

static dpmf_status optimize_full(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    int64_t n = task->workload->steps;
    int max_loss = o->loss == DPMF_LOSS_MAX;
    epochs_full_optimum found = {0};
    dpmf_strategy *strategy = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(epochs_full_solve(task->workload, max_loss, o->weights, o->tolerance, &o->run, &found));
    if (out != NULL) TRY_DONE(dpmf_strategy_create_banded(n, 1, found.diagonal, &strategy));
    double steps = max_loss ? 1 : (double)n;
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations,
                                  .optimum_lower = sqrt(found.lower / steps),
                                  .optimum_upper = sqrt(found.upper / steps),
                                  .scope = SCOPE_ANY};
    if (out != NULL) *out = strategy;
done:
    base_free(found.diagonal);
    return status;
}

static dpmf_status check_task(const optimize_task *task) {
    const dpmf_optimize_options *o = task->options;
    if (workload_is_single(task->participation))
        return base_fail(DPMF_ERROR_ARGUMENT, "participation single, accepted here: cyclic, min-sep, shuffled, full");
    if ((int)o->constraint < 0 || o->constraint > DPMF_CONSTRAINT_CORNERS)
        return base_fail(DPMF_ERROR_ARGUMENT, "constraint %d, accepted 0 (zero), 1 (non-negative) or 2 (corners)",
                         (int)o->constraint);
    if (o->constraint != DPMF_CONSTRAINT_ZERO && task->participation->kind != DPMF_PARTICIPATION_CYCLIC)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "participation %s: the constraints non-negative and corners are for cyclic participation",
                         task->participation->text);
    if (!(o->tolerance >= 1e-10 && o->tolerance < 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "tolerance = %g, accepted 1e-10 to 1: double precision reaches no further", o->tolerance);
    if (o->loss == DPMF_LOSS_MAX && o->weights != NULL)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the max-loss optimum with weights is not known here");
    for (int64_t t = 0; o->weights != NULL && t < task->workload->steps; t++)
        if (!(o->weights[t] > 0 && isfinite(o->weights[t])))
            return base_fail(DPMF_ERROR_UNSUPPORTED, "weight of step %lld = %g, accepted for the optimum: above 0",
                             (long long)t, o->weights[t]);
    return DPMF_OK;
}

/*
 * The best dense C where the patterns of a unit overlap in many ways: min-separation, shuffled, patterns from a file.
 *
 *     up to PATTERNS_STEPS_MAX steps   the optimum of all mechanisms, with its bounds
 *                                                     (optimum/patterns/patterns.h)
 *     above, min-separation                           the best of what can be streamed: banded with as many bands as
 *                                                     the separation, whose C'C vanishes between the steps of one unit
 *                                                     (Pillutla et al. 2025, Problem 4.8), and, where units can leave
 *                                                     gaps (n > k b), Toeplitz, as it is and with its columns
 *                                                     normalized. With gaps the vanishing costs up to 10 percent:
 *                                                     few of the many patterns that it protects are ever the worst.
 */

static const char SCOPE_ALL[] = "all mechanisms (contributions of as many coordinates as participations, or more)";
static const char STREAMED[] =
    "banded of the separation; Toeplitz with non-negative, falling coefficients, also normalized";

/* The loss of a strategy: the sensitivity, or its bound, times the error. */
static dpmf_status loss_of(const optimize_task *task, const dpmf_strategy *strategy, double *loss) {
    const int64_t n = task->workload->steps;
    const dpmf_optimize_options *o = task->options;
    dpmf_evaluate_options e = dpmf_evaluate_options_defaults();
    dpmf_sensitivity sensitivity = {0};
    double *errors = NULL, sum = 0, largest = 0;
    dpmf_status status = DPMF_OK;
    e.run = o->run;
    TRY_DONE(base_alloc_doubles(n, "the errors", &errors));
    TRY_DONE(dpmf_sensitivity_compute(strategy, task->participation, &e, &sensitivity));
    TRY_DONE(dpmf_error_compute(task->workload, strategy, &e.run, errors));
    for (int64_t t = 0; t < n; t++) {
        sum += (o->weights == NULL ? 1 : o->weights[t]) * errors[t] * errors[t];
        largest = fmax(largest, errors[t]);
    }
    *loss = sensitivity.value * (o->loss == DPMF_LOSS_MAX ? largest : sqrt(sum / (double)n));
done:
    base_free(errors);
    return status;
}

/* Keeps the better of *best and the answer of `call`; a family that does not know the workload is passed over. */
static dpmf_status try_call(const optimize_task *task, optimize_call call, double *least, dpmf_strategy **best,
                            dpmf_optimization *result) {
    dpmf_strategy *made = NULL;
    dpmf_optimization found = {.optimum_upper = INFINITY};
    double loss = INFINITY;
    dpmf_status status = call(task, &made, &found);
    if (status == DPMF_ERROR_UNSUPPORTED) return DPMF_OK;
    TRY(status);
    TRY_DONE(loss_of(task, made, &loss));
    const int iterations = result->iterations + found.iterations;
    if (loss < *least) {
        dpmf_strategy *worse = *best;
        *least = loss;
        *best = made;
        made = worse;
        *result = found;
    }
    result->iterations = iterations;
done:
    dpmf_strategy_free(made);
    return status;
}

static dpmf_status best_streamed(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const int64_t n = task->workload->steps, k = task->participation->count, b = task->participation->separation;
    dpmf_optimize_options options = *task->options;
    optimize_task part = {task->workload, task->participation, &options, NULL};
    dpmf_optimization found = {.optimum_upper = INFINITY};
    dpmf_strategy *best = NULL;
    double least = INFINITY, banded = INFINITY;
    dpmf_status status = DPMF_OK;
    options.bands = b < n ? b : n;
    if (n <= k * b) return banded_optimize(&part, out, result);
    TRY_DONE(try_call(&part, banded_optimize, &least, &best, &found));
    banded = least;
    options.bands = 0;
    for (int normalize = DPMF_NORMALIZE_NONE; normalize <= DPMF_NORMALIZE_AFTER; normalize++) {
        options.normalize = (dpmf_normalize)normalize;
        TRY_DONE(try_call(&part, toeplitz_optimize, &least, &best, &found));
    }
    if (least < banded) found.searched = STREAMED;
    *result = found;
    if (out != NULL) {
        *out = best;
        best = NULL;
    }
done:
    dpmf_strategy_free(best);
    return status;
}

/* Bounds that were left apart: what can be streamed may be better than the mechanism between them. */
static dpmf_status take_streamed(const optimize_task *task, dpmf_strategy **best, dpmf_optimization *result) {
    dpmf_strategy *streamed = NULL;
    dpmf_optimization ignored = {0};
    double loss = INFINITY;
    if (task->participation->pattern != WORKLOAD_APART) return DPMF_OK;
    dpmf_status status = best_streamed(task, &streamed, &ignored);
    if (status == DPMF_ERROR_UNSUPPORTED) return DPMF_OK;
    TRY(status);
    TRY_DONE(loss_of(task, streamed, &loss));
    if (loss < result->optimum_upper) {
        dpmf_strategy *worse = *best;
        *best = streamed;
        streamed = worse;
        result->optimum_upper = loss;
    }
done:
    dpmf_strategy_free(streamed);
    return status;
}

static dpmf_status optimum_of(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_optimize_options *o = task->options;
    const int64_t n = task->workload->steps;
    const patterns_task problem = {.workload = task->workload,
                                   .participation = task->participation,
                                   .max_loss = o->loss == DPMF_LOSS_MAX,
                                   .weights = o->weights,
                                   .tolerance = o->tolerance,
                                   .run = &o->run};
    patterns_answer found = {0};
    dpmf_strategy *strategy = NULL;
    TRY(patterns_solve(&problem, &found));
    dpmf_status status = dpmf_strategy_create_dense(n, found.c, &strategy);
    base_free(found.c);
    if (status != DPMF_OK) return status;
    const double steps = problem.max_loss ? 1 : (double)n;
    *result = (dpmf_optimization){.outcome = found.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = found.iterations,
                                  .optimum_lower = sqrt(found.lower / steps),
                                  .optimum_upper = sqrt(found.upper / steps),
                                  .scope = SCOPE_ALL};
    if (!found.converged) status = take_streamed(task, &strategy, result);
    if (out != NULL && status == DPMF_OK)
        *out = strategy;
    else
        dpmf_strategy_free(strategy);
    return status;
}

static dpmf_status dense_optimize_patterns(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_participation *p = task->participation;
    const int64_t n = task->workload->steps;
    if (!p->covers)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "family dense, participation %s: a step is in none of the patterns, and its noise could be as small "
            "as one likes; give every step a pattern",
            p->text);
    if (n <= PATTERNS_STEPS_MAX && task->workload->form != WORKLOAD_OPERATOR) return optimum_of(task, out, result);
    if (p->pattern == WORKLOAD_APART) return best_streamed(task, out, result);
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "family dense, participation %s: %lld steps, accepted up to %d; optimize for another one with "
                     "--optimize-participation, for example %s:%lld,%lld",
                     p->text, (long long)n, PATTERNS_STEPS_MAX, p->pattern == WORKLOAD_LISTED ? "min-sep" : "cyclic",
                     (long long)p->count, (long long)p->separation);
}

dpmf_status dense_optimize_epochs(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    const dpmf_participation *p = task->participation;
    int64_t n = task->workload->steps;
    TRY(check_task(task));
    int every_step =
        p->pattern == WORKLOAD_FIXED && p->separation == 1 && task->options->constraint == DPMF_CONSTRAINT_ZERO;
    if (every_step) return optimize_full(task, out, result);
    if (p->pattern != WORKLOAD_FIXED) return dense_optimize_patterns(task, out, result);
    int64_t b = p->separation < n ? p->separation : n; /* one epoch longer than the steps ends with them */
    if (task->options->constraint != DPMF_CONSTRAINT_ZERO) return optimize_form(task, p->count, b, out, result);
    return optimize_zero(task, p->count, b, 1, out, result);
}

dpmf_status dense_optimize_bound(const optimize_task *task, double tolerance, dpmf_optimization *result) {
    dpmf_optimize_options options = *task->options;
    const optimize_task coarse = {task->workload, task->participation, &options, NULL};
    const dpmf_participation *p = task->participation;
    const int64_t n = task->workload->steps, b = p->separation < n ? p->separation : n;
    options.tolerance = tolerance;
    options.constraint = DPMF_CONSTRAINT_ZERO;
    TRY(check_task(&coarse));
    if (p->separation == 1) return optimize_full(&coarse, NULL, result);
    return optimize_zero(&coarse, p->count, b, 0, NULL, result);
}

/* Of many steps the bounds alone are the answer. */
static dpmf_status make_explicit(const optimize_task *task, const optimum_answer *optimum, dpmf_strategy **out) {
    if (task->workload->steps > DPMF_DENSE_STEPS_MAX) return DPMF_OK;
    return optimum_explicit(task->workload, optimum, &task->options->run, out);
}

dpmf_status dense_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    if (!workload_is_single(task->participation)) return dense_optimize_epochs(task, out, result);
    if (task->options->constraint != DPMF_CONSTRAINT_ZERO)
        return base_fail(DPMF_ERROR_ARGUMENT, "constraint %d is for several participations",
                         (int)task->options->constraint);
    return optimize_single(task, make_explicit, out, result);
}
