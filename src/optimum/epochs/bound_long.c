/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bound of optimum/epochs/bound.c for prefix sums over epochs too long for an ascent. The V of shorter epochs
 * predicts that of the long ones (optimum/epochs/start.c); it is made constant over runs of positions that grow from
 * both ends of the epoch, and the dual is evaluated there (optimum/epochs/chain.c). Any V gives a valid bound; its
 * tightness is not proven. Interval: the eigenvalues of K are 4 sin^2((2t-1) pi / (4n+2)), t = 1..n.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "base/special.h"
#include "optimum/epochs/chain.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

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

/* The positions of the run that begins at i. */
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

/* As for the blocks of optimum/epochs/epochs.c, with which these traces agree to 1e-12. */
static double rounding_of(const plan *p, double shift) {
    return (64 + sqrt((double)p->n)) * DBL_EPSILON * sqrt((p->high + shift) / (p->low + shift));
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
        rounding += part * rounding_of(p, p->rule.shift[i]);
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
