/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: the optimal mechanism under single participation as a stream with a handful of buffers. The optimum gives the
 * weights v (and p); tuning (optimize/tvblt/tune.c) gives r shifts and weights; construction (optimize/tvblt/build.c)
 * the coefficients. Here: the problem, its spectrum, max loss, and how many nodes.
 *
 * Max loss: tuned with the column and row weights v, p of the dual on the weighted mean sum_t p_t |B[t,:]|^2, which is
 * smooth. Then rounds of p_t <- p_t |B[t,:]|^2, v_t <- v_t |C e_t|^2 with C rebuilt, whose fixed point has all |C e_t|
 * and all |B[t,:]| alike, so that the maximum is the mean; the best round is kept. With momentum the rounds converge slowly
 * (n = 200, 6 nodes: 1.0028, 1.00046 times the optimum after 25, 100), so that short runs have more of them.
 */
#include "optimize/tvblt/tvblt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = DPMF_I_STRATEGY_TVBLT_NODES_MAX };
enum { ROUNDS = 25, ROUNDS_MOST = 400 }; /* at least, for any n; where they are cheap */
/* In units of steps x states (states + 20), of which a processor does about 1e9 a second. */
static const double ROUNDS_WORK = 2e9;
static const double ROUND_GAIN = 1e-6; /* of the loss in ROUNDS rounds: less is not worth going on */

typedef dpmf_i_optimize_tvblt_tuner tuner;

/* ---- the problem ---- */

static void problem_free(dpmf_i_optimize_tvblt_problem *p) {
    dpmf_i_base_free(p->q);
    dpmf_i_base_free(p->v);
    dpmf_i_base_free(p->p);
    *p = (dpmf_i_optimize_tvblt_problem){0};
}

/*
 * For max loss many weights of the optimum all but vanish (the errors of their steps are not tight). Coefficients that
 * jump by decades from step to step would cost digits of the column norms, and privacy rests on these, so weights are
 * kept above a hundredth of their mean; the rounds of reweighting see to the loss.
 */
static const double WEIGHT_FLOOR = 1e-2;

static void take_floored(int64_t n, int max_loss, const double *from, double *to) {
    double floor_ = max_loss ? WEIGHT_FLOOR * dpmf_i_base_sum(n, from) / (double)n : 0;
    for (int64_t t = 0; t < n; t++)
        to[t] = fmax(from[t], floor_);
}

static void take_weights(const dpmf_i_optimum *optimum, int max_loss, dpmf_i_optimize_tvblt_problem *p) {
    take_floored(p->steps, max_loss, optimum->v, p->v);
    if (p->p != NULL) take_floored(p->steps, max_loss, optimum->p, p->p);
}

static dpmf_status problem_create(const dpmf_workload *a, int max_loss, const dpmf_i_optimum *optimum,
                                  dpmf_i_optimize_tvblt_problem *out) {
    dpmf_i_optimize_tvblt_problem p = {.workload = a, .steps = a->steps};
    int r_bands = 0;
    double r[2] = {1, 0};
    dpmf_status status = DPMF_OK;
    dpmf_workload_inverse_bands(a, &p.order, &r_bands);
    TRY_DONE(dpmf_i_base_alloc_doubles(3 * p.steps, "the bands of the workload's inverse", &p.q));
    TRY_DONE(dpmf_i_base_alloc_doubles(p.steps, "the weights of the columns", &p.v));
    if (optimum->p != NULL) TRY_DONE(dpmf_i_base_alloc_doubles(p.steps, "the weights of the steps", &p.p));
    for (int64_t t = 0; t < p.steps; t++)
        TRY_DONE(dpmf_workload_inverse_row(a, t, p.q + 3 * t, r)); /* R is the same in every row but the first */
    p.r0 = r[0];
    p.r1 = r[1];
    take_weights(optimum, max_loss, &p);
    *out = p;
    p = (dpmf_i_optimize_tvblt_problem){0};
done:
    problem_free(&p);
    return status;
}

/* x <- A^-T x = R^-T Q' x. */
static void transposed_solve(const dpmf_i_optimize_tvblt_problem *p, double *x) {
    int64_t n = p->steps;
    for (int64_t t = 0; t < n; t++) {
        double one = t + 1 < n ? p->q[3 * (t + 1) + 1] * x[t + 1] : 0;
        double two = t + 2 < n ? p->q[3 * (t + 2) + 2] * x[t + 2] : 0;
        x[t] = p->q[3 * t] * x[t] + one + two;
    }
    for (int64_t t = n - 1; t >= 0; t--)
        x[t] = (x[t] - (t + 1 < n ? p->r1 * x[t + 1] : 0)) / p->r0;
}

/* x <- V^-1 K x, or its inverse A'P A V x; gives the largest |x| before x is scaled to 1. */
static dpmf_status spectrum_step(const dpmf_i_optimize_tvblt_problem *p, int inverse, double *x, double *growth) {
    int64_t n = p->steps;
    double largest = 0;
    if (!inverse) transposed_solve(p, x);
    for (int64_t t = 0; t < n; t++)
        x[t] *= inverse ? p->v[t] : p->p == NULL ? 1 : 1 / p->p[t];
    if (inverse)
        TRY(dpmf_workload_apply(p->workload, x, x));
    else
        TRY(dpmf_workload_solve(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        x[t] *= !inverse ? 1 / p->v[t] : p->p == NULL ? 1 : p->p[t];
    if (inverse) TRY(dpmf_i_workload_apply_transpose(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, fabs(x[t]));
    for (int64_t t = 0; t < n; t++)
        x[t] /= largest;
    *growth = largest;
    return DPMF_OK;
}

/* The ends of the spectrum of M by the power method. The ends of the interval are tuned anyway: two digits will do. */
static dpmf_status find_spectrum(dpmf_i_optimize_tvblt_problem *p) {
    enum { POWER_STEPS = 30 };
    double *x = NULL, growth = 0;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_i_base_alloc_doubles(p->steps, "an eigenvector", &x));
    for (int inverse = 0; inverse <= 1; inverse++) {
        for (int64_t t = 0; t < p->steps; t++)
            x[t] = inverse || t % 2 == 0 ? 1 : -1; /* A >= 0; K alternates */
        for (int k = 0; k < POWER_STEPS; k++)
            TRY_DONE(spectrum_step(p, inverse, x, &growth));
        *(inverse ? &p->low : &p->high) = inverse ? 1 / growth : growth;
    }
    if (!(p->low > 0 && isfinite(p->low) && p->high > 0 && isfinite(p->high)))
        status = dpmf_i_base_fail(DPMF_ERROR_NUMERICAL, "tvblt: the spectrum of the problem, %g to %g, is out of range",
                                  p->low, p->high);
    p->high = fmax(p->high, p->low);
done:
    dpmf_i_base_free(x);
    return status;
}

/* ---- one number of nodes ---- */

static double largest_loss(const tuner *u) {
    double largest = 0;
    for (int64_t t = 0; t < u->problem.steps; t++)
        largest = fmax(largest, u->work.squares[t]);
    return sqrt(largest);
}

static void rescale(int64_t n, const double *by, double *x) { /* x_t <- x_t by_t, sum 1 */
    double sum = 0;
    for (int64_t t = 0; t < n; t++)
        sum += x[t] *= by[t];
    for (int64_t t = 0; t < n; t++)
        x[t] /= sum;
}

static int rounds_for(const tuner *u) {
    const double states = u->nodes * u->problem.order;
    return (int)fmin(ROUNDS_MOST, fmax(ROUNDS, ROUNDS_WORK / ((double)u->problem.steps * states * (states + 20))));
}

/* The rounds for max loss; leaves the weights of the best. */
static dpmf_status equalize(tuner *u, const dpmf_i_optimize_tvblt_filter *f) {
    dpmf_i_optimize_tvblt_problem *p = &u->problem;
    int64_t n = p->steps;
    double *best = NULL, best_loss = INFINITY, marked = INFINITY; /* the best loss ROUNDS rounds ago */
    const int rounds = rounds_for(u);
    size_t bytes = (size_t)n * sizeof *best;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_i_base_alloc_doubles(2 * n, "the best weights", &best));
    for (int k = 0; k < rounds; k++) {
        TRY_DONE(dpmf_i_base_progress(u->run, "tvblt", (double)k / rounds));
        if (k % ROUNDS == 0) {
            if (!(best_loss < marked * (1 - ROUND_GAIN)) && k > 0) break;
            marked = best_loss;
        }
        if (k == 0)
            TRY_DONE(dpmf_i_optimize_tvblt_build(p, f, &u->work));
        else if (dpmf_i_optimize_tvblt_build(p, f, &u->work) != DPMF_OK)
            break; /* weights too far apart: the rounds before stand */
        if (largest_loss(u) < best_loss) {
            best_loss = largest_loss(u);
            memcpy(best, p->v, bytes);
            memcpy(best + n, p->p, bytes);
        }
        for (int64_t t = 0; t < n; t++)
            u->work.norms[t] *= u->work.norms[t];
        rescale(n, u->work.squares, p->p);
        rescale(n, u->work.norms, p->v);
    }
    memcpy(p->v, best, bytes);
    memcpy(p->p, best + n, bytes);
done:
    dpmf_i_base_free(best);
    return status;
}

/* The mechanism with u->nodes nodes in u->work, not normalized, and its loss. */
static dpmf_status attempt(tuner *u, int thorough, double *loss) {
    dpmf_i_optimize_tvblt_filter f;
    double excess = 0;
    dpmf_i_optimize_tvblt_work_free(&u->work);
    TRY(dpmf_i_optimize_tvblt_work_alloc(&u->problem, u->nodes, &u->work));
    take_weights(u->optimum, u->max_loss, &u->problem);
    TRY(dpmf_i_optimize_tvblt_tune(u, thorough, &f, &excess));
    if (u->max_loss) TRY(equalize(u, &f));
    TRY(dpmf_i_optimize_tvblt_build(&u->problem, &f, &u->work));
    *loss = u->max_loss ? largest_loss(u) : dpmf_i_optimize_tvblt_mean_loss(u);
    return DPMF_OK;
}

/* ---- how many nodes ---- */

/*
 * The fewest nodes that reach the wanted loss. Losses fall with every node, by a factor of 3 to 10 in the excess, and
 * thorough tuning is worth less than a node: so double, then step down, both with the quadrature's own nodes, and tune
 * thoroughly only from the first number that fails on. Where twice the nodes do not halve the excess, it is not the nodes
 * that keep the loss up, and as many more would be minutes for nothing.
 */
static dpmf_status fewest_nodes(tuner *u, double wanted, double *loss) {
    enum { MANY = 8 };
    int enough = 0, stalled = 0;
    for (int nodes = 1; nodes <= NODES_MAX && !enough && !stalled; nodes *= 2) {
        const double before = *loss - u->optimum->lower;
        u->nodes = nodes;
        TRY(attempt(u, 0, loss));
        if (*loss <= wanted) enough = nodes;
        stalled = nodes > MANY && *loss - u->optimum->lower > 0.5 * before;
    }
    if (!enough) {
        TRY(attempt(u, 1, loss));
        return *loss <= wanted
                   ? DPMF_OK
                   : dpmf_i_base_fail(
                         DPMF_ERROR_NUMERICAL,
                         "tvblt: %d nodes reach a loss of %.10g, the wanted ratio needs %.10g: ask for more", u->nodes,
                         *loss, wanted);
    }
    for (int thorough = 0; thorough <= 1; thorough++)
        for (; enough > 1; enough--) {
            u->nodes = enough - 1;
            TRY(attempt(u, thorough, loss));
            if (*loss > wanted) break;
        }
    u->nodes = enough;
    TRY(attempt(u, 1, loss));
    return *loss <= wanted ? DPMF_OK : attempt(u, 0, loss); /* what is best for the mean need not be for the max loss */
}

/* ---- the call ---- */

static dpmf_status check_weights(int64_t n, const double *x, const char *what) {
    for (int64_t t = 0; t < n; t++)
        if (!(x[t] > 0 && isfinite(x[t])))
            return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                    "tvblt: the optimum's %s %lld is %g, accepted: positive and finite", what,
                                    (long long)t, x[t]);
    return DPMF_OK;
}

static dpmf_status check_call(const dpmf_workload *a, int max_loss, int nodes, double wanted_ratio,
                              const dpmf_i_optimum *optimum) {
    if (nodes < 0 || nodes > NODES_MAX)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "tvblt: %d nodes, accepted 1 to %d", nodes, NODES_MAX);
    if (nodes == 0 && !(wanted_ratio > 1 && isfinite(wanted_ratio)))
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                "tvblt: 0 nodes (as many as needed) with a wanted ratio of %g, accepted: above 1",
                                wanted_ratio);
    if (a->form != DPMF_I_WORKLOAD_NAMED)
        return dpmf_i_base_fail(DPMF_ERROR_UNSUPPORTED,
                                "tvblt: workload %s, accepted: named workloads (their inverse has few "
                                "bands)",
                                a->text);
    if (optimum->steps != a->steps)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                "tvblt: the optimum has %lld steps, the workload %lld: they must agree",
                                (long long)optimum->steps, (long long)a->steps);
    if (!(optimum->lower > 0 && isfinite(optimum->lower)))
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT, "tvblt: the optimum's lower bound is %g, accepted: positive",
                                optimum->lower);
    if (max_loss && optimum->p == NULL)
        return dpmf_i_base_fail(DPMF_ERROR_ARGUMENT,
                                "tvblt: max loss needs an optimum for max loss, with weights of the steps");
    TRY(check_weights(a->steps, optimum->v, "column weight"));
    return optimum->p == NULL ? DPMF_OK : check_weights(a->steps, optimum->p, "step weight");
}

dpmf_status dpmf_i_optimize_tvblt(const dpmf_workload *workload, int max_loss, int nodes, double wanted_ratio,
                                  const dpmf_i_optimum *optimum, const dpmf_run *run, dpmf_strategy **out,
                                  double *loss) {
    tuner u = {.optimum = optimum, .run = run, .max_loss = max_loss, .nodes = nodes};
    double found = 0;
    dpmf_status status = DPMF_OK;
    TRY(check_call(workload, max_loss, nodes, wanted_ratio, optimum));
    TRY_DONE(problem_create(workload, max_loss, optimum, &u.problem));
    TRY_DONE(find_spectrum(&u.problem));
    if (nodes > 0)
        TRY_DONE(attempt(&u, 1, &found));
    else
        TRY_DONE(fewest_nodes(&u, wanted_ratio * optimum->lower, &found));
    assert(u.work.c.nodes == u.work.nodes_room);
    dpmf_i_optimize_tvblt_normalize(&u.work.c, u.work.norms);
    TRY_DONE(dpmf_i_strategy_tvblt_create(&u.work.c, out));
    if (loss != NULL) *loss = found;
done:
    problem_free(&u.problem);
    dpmf_i_optimize_tvblt_work_free(&u.work);
    return status;
}
