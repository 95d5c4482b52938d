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
 * as far as that is cheap. For prefix sums of any length shorter epochs predict V (below). The max loss also has p,
 * found in the same way. The result depends on the problem alone, not on the machine's speed or threads.
 */
#include "base/linalg.h"

#include "base/memory.h"
#include "base/special.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
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

static dpmf_status evaluate_whole(epochs_climb *c) {
    double f = 0, *gradient = NULL;
    TRY(base_alloc_doubles(c->unknowns, "a gradient", &gradient));
    dpmf_status status = epochs_climb_value(c, c->y, &f, gradient);
    base_free(gradient);
    return status;
}

static dpmf_status climb_rms(epochs_climb *c) {
    int iterations = iterations_for(c->epochs);
    c->barrier = 1e-6 / (double)c->epochs->n;
    c->spend = CLIMB;
    TRY(epochs_climb_start(c));
    /* The value at y alone: the lower bound without the blocks that an upper bound would need. */
    if (iterations < 2) return c->epochs->dense ? evaluate_whole(c) : epochs_climb_lower(c);
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
    TRY_DONE(epochs_climb_create(&epochs, iterations_for(&epochs) < 2 ? ROUGH : FINE, q->run, &climb));
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

/*
 * ---- long epochs ----
 *
 * Prefix sums over epochs too long for an ascent: the V that shorter epochs predict (optimum/epochs/climb.c) is made constant
 * over runs of positions that grow from both ends of the epoch, and the dual is evaluated there (optimum/epochs/chain.c). Any V
 * gives a valid bound; its tightness is not proven. Interval: the eigenvalues of K are 4 sin^2((2t-1) pi / (4n+2)), t = 1..n.
 */

static const double PI = 3.14159265358979323846;
static const double SPEND = 4e5;   /* for each shorter length, in the units of epochs_cost */
static const double LONGEST = 1e5; /* n k^2 of the longest of them */
static const double GROWTH = 0.2;  /* of a run, by its distance from the end of the epoch */
static const double QUADRATURE = 1e-6;
enum { SHORTEST = 24 }; /* positions of the shortest ascent */

typedef struct plan {
    int64_t n, k, b, last; /* last: positions of the last epoch */
    int64_t count;         /* runs */
    epochs_run *runs;
    double *v;        /* their blocks */
    double total;     /* sum of the diagonals over all classes */
    double low, high; /* of the spectrum of V^-1/2 K V^-1/2 */
    base_quadrature rule;
    double traces[BASE_NODES_MAX];
} plan;

static int64_t run_length(const plan *p, int64_t i) {
    const double left = (double)i, right = (double)(p->b - 1 - i) / (1 + GROWTH);
    int64_t length = (int64_t)fmax(1, GROWTH * fmin(left, right));
    if (p->last < p->b && i < p->last) { /* the position of the last step is a separate run */
        const int64_t room = i < p->last - 1 ? p->last - 1 - i : 1;
        if (length > room) length = room;
    }
    return i + length < p->b ? length : i < p->b - 1 ? p->b - 1 - i : 1;
}

/* V_i = e^theta R R' from the unknowns of the climb, and bounds on its eigenvalues. */
static void fill_block(int64_t k, double theta, const double *m, double *r, double *inverse, double *v, double *small,
                       double *large) {
    const double nu = exp(theta);
    double squares = 0, inverses = 0;
    memset(r, 0, (size_t)(k * k) * sizeof *r);
    for (int64_t e = 0; e < k; m += e, e++) {
        double norm = 1;
        for (int64_t f = 0; f < e; f++)
            norm += m[f] * m[f];
        norm = sqrt(norm);
        for (int64_t f = 0; f < e; f++)
            r[e * k + f] = m[f] / norm;
        r[e * k + e] = 1 / norm;
    }
    epochs_invert_block(k, r, inverse);
    for (int64_t e = 0; e < k; e++)
        for (int64_t f = 0; f < k; f++) {
            v[e * k + f] = e == f ? nu : nu * base_dot(k, r + e * k, r + f * k);
            squares += v[e * k + f] * v[e * k + f];
            inverses += inverse[e * k + f] * inverse[e * k + f];
        }
    *large = sqrt(squares);
    *small = nu / inverses;
}

static dpmf_status fill_plan(const epochs_climb *c, plan *p) {
    const int64_t k = p->k, square = k * k;
    double *room = NULL, least = INFINITY, most = 0;
    const double angle = sin(PI / (4 * (double)p->n + 2));
    for (int64_t i = 0; i < p->b; i += run_length(p, i))
        p->count++;
    TRY(base_alloc(p->count, sizeof *p->runs, "runs of positions", (void **)&p->runs));
    TRY(base_alloc_doubles(p->count * square, "the blocks of V", &p->v));
    TRY(base_alloc_doubles(2 * square + c->correlations, "a block", &room));
    int64_t at = 0;
    for (int64_t j = 0; j < p->count; j++) {
        const int64_t length = run_length(p, at);
        double theta = 0, small = 0, large = 0, *v = p->v + j * square;
        epochs_climb_longer(c, p->b, at + (length - 1) / 2, &theta, room + 2 * square);
        fill_block(k, theta, room + 2 * square, room, room + square, v, &small, &large);
        p->runs[j] =
            (epochs_run){.length = length, .members = at < p->last ? k : k - 1, .grounded = at == p->last - 1, .v = v};
        p->total += (double)length * v[0];
        least = fmin(least, small);
        most = fmax(most, large);
        at += length;
    }
    assert(at == p->b);
    base_free(room);
    p->low = 4 * angle * angle * (1 - 1e-12) / most;
    p->high = 4 / least;
    return DPMF_OK;
}

static dpmf_status run_node(void *context, int64_t item, int worker) {
    plan *p = context;
    (void)worker;
    return epochs_chain_trace(p->k, p->count, p->runs, p->rule.shift[item], &p->traces[item]);
}

static dpmf_status evaluate(plan *p, base_pool *pool, double *lower) {
    double trace = 0, rounding = 0;
    *lower = 0;
    if (!(p->low > 0 && p->high < INFINITY && p->total < INFINITY)) return DPMF_OK;
    base_quadrature_fill(p->low, p->high, base_quadrature_nodes(p->high / p->low, QUADRATURE), &p->rule);
    TRY(base_pool_run(pool, p->rule.count, run_node, p));
    for (int i = 0; i < p->rule.count; i++) {
        const double part = p->rule.weight[i] * p->traces[i];
        trace += part;
        /* As for the blocks of optimum/epochs/epochs.c, with which these traces agree to 1e-12. */
        rounding += part * ((64 + sqrt((double)p->n)) * DBL_EPSILON *
                            sqrt((p->high + p->rule.shift[i]) / (p->low + p->rule.shift[i])));
    }
    const double sure = trace * fmax(0, 1 - p->rule.error) - rounding;
    if (sure > 0) *lower = sure / p->total * sure;
    return DPMF_OK;
}

dpmf_status epochs_long(const dpmf_workload *workload, int64_t k, int64_t b, base_pool *pool, const dpmf_run *run,
                        double *lower) {
    const int64_t n = workload->steps, last = n - (k - 1) * b;
    plan p = {.n = n, .k = k, .b = b, .last = last};
    optimum_epochs few = {0};
    epochs_climb climb = {0};
    dpmf_workload *shorter = NULL;
    dpmf_status status = DPMF_OK;
    int64_t coarse = b;
    assert(workload_is_prefix(workload) && last >= 1 && last <= b);
    while (coarse / 4 >= SHORTEST && (double)coarse * pow((double)k, 3) > LONGEST)
        coarse /= 4;
    const int64_t steps = (k - 1) * coarse + (last * coarse + b - 1) / b;
    TRY_DONE(workload_head(workload, steps, &shorter));
    TRY_DONE(epochs_create(shorter, k, coarse, 0, NULL, pool, &few));
    TRY_DONE(epochs_climb_create(&few, QUADRATURE, run, &climb));
    climb.barrier = 1e-6 / (double)steps;
    climb.spend = SPEND;
    TRY_DONE(epochs_climb_coarse(&climb, SPEND));
    TRY_DONE(fill_plan(&climb, &p));
    TRY_DONE(evaluate(&p, pool, lower));
done:
    base_free(p.runs);
    base_free(p.v);
    epochs_climb_free(&climb);
    epochs_free(&few);
    dpmf_workload_free(shorter);
    return status;
}
