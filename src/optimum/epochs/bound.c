/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Losses that no mechanism can beat when one unit takes part at the steps i, i + b, i + 2b, ..., k of them at most.
 *
 * Let V be positive semidefinite, supported on the classes of steps of one unit, with the constant diagonal nu_i in class
 * i. V_i / nu_i is the Gram matrix of k unit vectors, so unit i may contribute these where contributions have k
 * coordinates or more: tr(V_i X_i) <= nu_i sens^2 for X = C'C of any mechanism, and tr(V X) <= sens^2 sum_i nu_i. With
 * |P^1/2 A V^1/2|_*^2 <= tr(A'PA X^-1) tr(V X) (Cauchy and Schwarz),
 *
 *     sens^2 |P^1/2 B|_F^2 >= |P^1/2 A V^1/2|_*^2 / sum_i nu_i      for every such V,
 *
 * and with p in the simplex the same for the max loss. This is the dual of optimum/epochs/epochs.h. A mechanism with X
 * zero within classes attains its maximum: that mechanism is the best of all (docs/optimum.md has the proof).
 *
 * Any V gives a bound, so the ascent stops after a fixed amount of work. An evaluation costs O(n k^2); for a long run
 * the dual is maximised with fewer positions per epoch, and the V found there is stretched and evaluated, or improved
 * as far as that is cheap. For prefix sums of any length shorter epochs predict V (optimum/epochs/bound_long.c). The
 * max loss also has p, found in the same way, with fewer positions first. The result depends on the problem alone, not
 * on the machine's speed or threads.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/epochs/epochs.h"
#include "optimum/epochs/full.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

/* Microseconds of one core, as epochs_cost counts them. */
static const double CLIMB = 2e5;     /* of one ascent */
static const double MOST = 5e5;      /* of one evaluation */
static const double LONG = 5e3;      /* prefix sums: V is predicted from here on, where an ascent would be too short */
static const double MAX_CLIMB = 5e5; /* the max loss: more unknowns, slower to converge */
static const double MAX_MOST = 7e5;
static const double MAX_DENSE = 4e3; /* for problems that no shorter one can start */
enum {
    ITERATIONS = 120,
    MAX_WHOLE = 60, /* steps that make an ascent from the top of the RMS dual worthwhile, and twice */
    MAX_LEAST = 8   /* steps after which the prediction of p by shorter epochs no longer shows */
};
enum { LONG_POSITIONS = 64, LONG_EPOCHS = 32 }; /* more epochs: k^3 numbers of work for each of many runs */

static int iterations_for(const optimum_epochs *e) {
    double many = floor((e->max_loss ? MAX_CLIMB : CLIMB) / epochs_cost(e));
    return many > ITERATIONS ? ITERATIONS : (int)many;
}

/* The error of the rule lowers the bound; a single evaluation is not worth as many nodes. */
static const double FINE = 1e-8, ROUGH = 1e-5;

/* The bounds at y. */
static dpmf_status evaluate_whole(epochs_climb *c) {
    double f = 0, *gradient = NULL;
    TRY(base_alloc_doubles(c->unknowns, "a gradient", &gradient));
    dpmf_status status = epochs_climb_value(c, c->y, &f, gradient);
    base_free(gradient);
    return status;
}

/* The value at y alone: the lower bound without the blocks that an upper bound would need. */
static dpmf_status evaluate_once(epochs_climb *c) {
    return c->epochs->dense ? evaluate_whole(c) : epochs_climb_lower(c);
}

static dpmf_status climb_rms(epochs_climb *c) {
    int iterations = iterations_for(c->epochs);
    c->barrier = 1e-6 / (double)c->epochs->n;
    c->spend = CLIMB;
    TRY(epochs_climb_start(c));
    if (iterations < 2) return evaluate_once(c);
    c->enough = 1 + 1e-5;
    return epochs_climb_run(c, 1e-8, iterations);
}

/* Starts at the top of the RMS dual with equal weights: the bound can only rise from there. */
static dpmf_status climb_max(epochs_climb *c, int iterations) {
    static const double BARRIERS[] = {1e-3, 1e-5};
    c->enough = 1 + 1e-5;
    for (size_t i = 0; i < sizeof BARRIERS / sizeof BARRIERS[0] && iterations > 2 && !c->stopped; i++) {
        int before = c->iterations;
        c->barrier = BARRIERS[i] / (double)c->epochs->n;
        TRY(epochs_climb_run(c, fmax(1e-8, 0.01 * BARRIERS[i] * BARRIERS[i]), iterations));
        iterations -= c->iterations - before;
    }
    return DPMF_OK;
}

/* Starts from V and p of shorter epochs, where there are any, for a few steps. */
static dpmf_status climb_max_long(epochs_climb *c, int iterations) {
    c->barrier = 1e-3 / (double)c->epochs->n;
    c->spend = MAX_CLIMB;
    TRY(epochs_climb_start(c));
    c->enough = 1 + 1e-4;
    if (iterations < MAX_LEAST && epochs_cost(c->epochs) < MAX_CLIMB) iterations = MAX_LEAST;
    return iterations < 2 ? evaluate_whole(c) : epochs_climb_run(c, 1e-6, iterations);
}

typedef struct question {
    const dpmf_workload *workload;
    int64_t k, b;
    const double *weights;
    epochs_losses losses;
    const dpmf_run *run;
} question;

/* rms: NULL if V was predicted. */
static dpmf_status bound_max(const question *q, base_pool *pool, const epochs_climb *rms, epochs_lower *out) {
    optimum_epochs epochs = {0};
    epochs_climb climb = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(epochs_create(q->workload, q->k, q->b, 1, NULL, pool, &epochs));
    if (epochs_cost(&epochs) > (epochs.dense ? MAX_DENSE : MAX_MOST)) goto done;
    const int iterations = iterations_for(&epochs), is_long = !epochs.dense && (rms == NULL || iterations < MAX_WHOLE);
    TRY_DONE(epochs_climb_create(&epochs, is_long ? ROUGH : FINE, q->run, &climb));
    if (rms != NULL) memcpy(climb.y, rms->y, (size_t)rms->unknowns * sizeof *rms->y);
    TRY_DONE(is_long ? climb_max_long(&climb, iterations) : climb_max(&climb, iterations));
    out->max_loss = sqrt(climb.lower);
    out->max_gap = sqrt(climb.upper / climb.lower) - 1;
done:
    epochs_climb_free(&climb);
    epochs_free(&epochs);
    return status;
}

/* The cost of one evaluation, from below, before any memory is allocated. */
static double least_cost(const question *q) {
    return 0.1 * (double)q->workload->steps * (double)q->k * (double)q->k;
}

/* Prefix sums over long epochs; does nothing for other problems, or where the prediction fails. */
static dpmf_status bound_long(const question *q, base_pool *pool, epochs_lower *out) {
    double lower = 0;
    if (!workload_is_prefix(q->workload) || q->weights != NULL || least_cost(q) < LONG) return DPMF_OK;
    if (q->b < LONG_POSITIONS || q->k > LONG_EPOCHS) return DPMF_OK;
    TRY(epochs_long(q->workload, q->k, q->b, pool, q->run, &lower));
    out->rms_loss = sqrt(lower / (double)q->workload->steps);
    out->rms_gap = INFINITY;
    out->foretold = lower > 0;
    return DPMF_OK;
}

static dpmf_status bound_cyclic(const question *q, base_pool *pool, epochs_lower *out) {
    optimum_epochs epochs = {0};
    epochs_climb climb = {0};
    dpmf_status status = DPMF_OK;
    double steps = (double)q->workload->steps;
    out->foretold = q->losses == EPOCHS_MAX_LOSS;
    if (!out->foretold) TRY_DONE(bound_long(q, pool, out));
    if (out->foretold && q->losses != EPOCHS_RMS_LOSS && 2 * least_cost(q) <= MAX_MOST)
        TRY_DONE(bound_max(q, pool, NULL, out));
    if (out->foretold || least_cost(q) > MOST) return DPMF_OK;
    TRY_DONE(epochs_create(q->workload, q->k, q->b, 0, q->weights, pool, &epochs));
    if (epochs_cost(&epochs) > MOST) goto done;
    double tolerance = iterations_for(&epochs) < 2 ? ROUGH : FINE;
    TRY_DONE(epochs_climb_create(&epochs, tolerance, q->run, &climb));
    TRY_DONE(climb_rms(&climb));
    out->rms_loss = sqrt(climb.lower / steps);
    out->rms_gap = sqrt(climb.upper / climb.lower) - 1;
    if (q->weights == NULL && q->losses != EPOCHS_RMS_LOSS) TRY_DONE(bound_max(q, pool, &climb, out));
done:
    epochs_climb_free(&climb);
    epochs_free(&epochs);
    return status;
}

/* X is diagonal: a closed form for the RMS loss. */
static dpmf_status bound_full(const question *q, epochs_lower *out) {
    enum { WEIGHTED_MAX = 8192, MAX_LOSS_STEPS = 1024 };
    const double tolerance = 1e-6;
    int64_t n = q->workload->steps;
    epochs_full_optimum found = {0};
    if (q->weights != NULL && n > WEIGHTED_MAX) return DPMF_OK;
    TRY(epochs_full_solve(q->workload, 0, q->weights, tolerance, q->run, &found));
    out->rms_loss = sqrt(found.lower / (double)n);
    out->rms_gap = sqrt(found.upper / found.lower) - 1;
    base_free(found.diagonal);
    if (q->weights != NULL || q->losses == EPOCHS_RMS_LOSS || n > MAX_LOSS_STEPS) return DPMF_OK;
    TRY(epochs_full_solve(q->workload, 1, NULL, 1e-4, q->run, &found));
    out->max_loss = sqrt(found.lower);
    out->max_gap = sqrt(found.upper / found.lower) - 1;
    base_free(found.diagonal);
    return DPMF_OK;
}

static int all_positive(int64_t n, const double *weights) {
    for (int64_t t = 0; weights != NULL && t < n; t++)
        if (!(weights[t] > 0)) return 0;
    return 1;
}

/* A node of fewer steps takes less time than waking a thread. */
enum { THREADS_STEPS_MIN = 1024 };

dpmf_status epochs_lower_bound(const dpmf_workload *workload, int64_t k, int64_t b, const double *weights,
                               epochs_losses losses, const dpmf_run *run, epochs_lower *out) {
    const question q = {workload, k, b, weights, losses, run};
    epochs_lower found = {0};
    base_pool *pool = NULL;
    dpmf_status status = DPMF_OK;
    *out = found;
    if (workload->form == WORKLOAD_OPERATOR || !all_positive(workload->steps, weights)) return DPMF_OK;
    if (b == 1) {
        TRY_DONE(bound_full(&q, &found));
    } else {
        TRY_DONE(base_pool_create(workload->steps < THREADS_STEPS_MIN ? 1 : run->threads, &pool));
        TRY_DONE(bound_cyclic(&q, pool, &found));
    }
    if (isfinite(found.rms_loss) && isfinite(found.max_loss)) *out = found;
done:
    base_pool_free(pool);
    return status == DPMF_ERROR_UNSUPPORTED || status == DPMF_ERROR_NUMERICAL ? DPMF_OK : status;
}
