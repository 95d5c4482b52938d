/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: the optimal mechanism under single participation as a stream with a handful of buffers. The optimum gives the weights
 * v (and p); tuning (families/tvblt/tune.c) gives r shifts and weights; construction (families/tvblt/build.c) the coefficients,
 * once; searches go by norms and errors alone (families/tvblt/loss.c). Here: max loss, how many nodes, and long runs.
 *
 * Max loss: tuned with the column and row weights v, p of the dual on the weighted mean sum_t p_t |B[t,:]|^2, which is
 * smooth. Then rounds of p_t <- p_t |B[t,:]|^2, v_t <- v_t |C e_t|^2 with C rebuilt, whose fixed point has all |C e_t|
 * and all |B[t,:]| alike, so that the maximum is the mean; the best round is kept. With momentum the rounds converge slowly
 * (n = 200, 6 nodes: 1.0028, 1.00046 times the optimum after 25, 100), so that short runs have more of them.
 */
#include "families/replay/replay.h"
#include "families/tvblt/tvblt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "design/design.h"
#include "optimum/optimum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODES_MAX = TVBLT_NODES_MAX };
enum { ROUNDS = 25, ROUNDS_MOST = 400 }; /* at least, for any n; where they are cheap */
/* Of the rounds, in units of steps x states (states + 20). */
static const double ROUNDS_WORK = 2e9;
static const double ROUND_GAIN = 1e-6; /* of the loss in ROUNDS rounds: less is not worth going on */

typedef tvblt_tuner tuner;

static void tuner_free(tuner *u) {
    tvblt_problem_free(&u->problem);
    tvblt_work_free(&u->work);
    tvblt_meter_free(&u->meter);
}

/* The rest of a tuner that knows its optimum and what is asked; the caller frees it, on failure too. */
static dpmf_status tuner_fill(const dpmf_workload *workload, tuner *u) {
    TRY(tvblt_problem_create(workload, u->max_loss, u->optimum, &u->problem));
    return tvblt_work_alloc(&u->problem, 0, &u->work);
}

/* The coefficients of u->filter, and its norms and errors; once. */
static dpmf_status build_chosen(tuner *u) {
    if (u->built) return DPMF_OK;
    TRY(tvblt_work_room(&u->problem, u->filter.nodes, &u->work));
    TRY(tvblt_build(&u->problem, &u->filter, &u->work));
    u->built = 1;
    return DPMF_OK;
}

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

/* The rounds for max loss; leaves the weights of the best, and its loss. */
static dpmf_status equalize(tuner *u, double *loss) {
    tvblt_problem *p = &u->problem;
    int64_t n = p->steps;
    double *best = NULL, best_loss = INFINITY, marked = INFINITY; /* the best loss ROUNDS rounds ago */
    const int rounds = rounds_for(u);
    size_t bytes = (size_t)n * sizeof *best;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * n, "the best weights", &best));
    for (int k = 0; k < rounds; k++) {
        TRY_DONE(base_progress(u->run, "tvblt", (double)k / rounds));
        if (k % ROUNDS == 0) {
            if (!(best_loss < marked * (1 - ROUND_GAIN)) && k > 0) break;
            marked = best_loss;
        }
        if (k == 0)
            TRY_DONE(tvblt_try(u, &u->filter));
        else if (tvblt_try(u, &u->filter) != DPMF_OK)
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
        tvblt_meter_weigh(p, &u->meter);
    }
    memcpy(p->v, best, bytes);
    memcpy(p->p, best + n, bytes);
    tvblt_meter_weigh(p, &u->meter);
    *loss = best_loss;
done:
    base_free(best);
    return status;
}

/* The filter of u->nodes nodes, for max loss with the weights in u->problem, and its loss. */
static dpmf_status attempt(tuner *u, int thorough, double *loss) {
    double excess = 0;
    if (u->max_loss) {
        tvblt_take_weights(u->optimum, u->max_loss, &u->problem);
        tvblt_meter_weigh(&u->problem, &u->meter);
    }
    TRY(tvblt_tune(u, thorough, &u->filter, &excess, NULL));
    if (u->max_loss) return equalize(u, loss);
    *loss = (1 + excess) * u->optimum->lower;
    return DPMF_OK;
}

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
                   : base_fail(DPMF_ERROR_NUMERICAL,
                               "tvblt: %d nodes reach a loss of %.10g, the wanted ratio needs %.10g: ask for more",
                               u->nodes, *loss, wanted);
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

/*
 * Every evaluation of a run of a million steps takes a tenth of a second, and tuning takes hundreds. But for prefix sums the
 * logarithms of the best shifts and weights change evenly with ln n, and the Hessian of the excess hardly at all. So the filter
 * is tuned for n/256 steps (n/64 in shorter runs), and for each four times longer run it is foretold by those before and
 * improved with gradients alone, up to n/4; the second run finds a Hessian of its own once its nodes are seen to be enough.
 * A parabola leads on to n. There n/4 steps need no optimum of their own: every fourth of n weights stand for them, since
 * it is the filter that is sought. What is built is exact as ever; where it misses the wanted loss one more node is tried,
 * and at last the search at full length.
 */
static const int64_t LONG = 65536;
enum { THINNER = 4, LEVELS_MAX = 4, MORE_NODES = 4 };
enum { POLISH = 12, FOLLOW = 3 }; /* steps of Newton's method for the second run, and for the others with its Hessian */
/* An excess with the Hessian of the shorter run is not lowered to less than this part with a new one (seen: 0.95). */
static const double BY_GRADIENTS = 0.9;

typedef struct thinned {
    dpmf_workload *workload;
    optimum_answer optimum;
    tuner u;
} thinned;

/* The weights of a run from one that is `every` times as long. Near the ends they are not the best ones. sum v = n loss^2. */
static dpmf_status thin_weights(const optimum_answer *from, int64_t every, optimum_answer *out) {
    const double ratio = out->lower / from->lower, scale = ratio * ratio / (double)every;
    out->steps = from->steps / every;
    TRY(base_alloc_doubles(out->steps, "the weights of a shorter run", &out->v));
    for (int64_t t = 0; t < out->steps; t++)
        out->v[t] = scale * base_sum(every, from->v + t * every);
    return DPMF_OK;
}

/* before: NULL, or the run of a quarter of the steps: then this one is so long that it gets no optimum of its own. */
static dpmf_status thin(const tuner *u, int64_t every, const thinned *before, thinned *out) {
    TRY(dpmf_workload_create(u->problem.steps / every, NULL, &out->workload));
    out->u = (tuner){.optimum = &out->optimum, .run = u->run};
    if (before == NULL) {
        TRY(optimum_solve(out->workload, 0, NULL, 1e-6, u->run, &out->optimum));
    } else {
        out->optimum.lower = (before->optimum.lower + u->optimum->lower) / 2; /* which grows evenly with ln n */
        TRY(thin_weights(u->optimum, every, &out->optimum));
    }
    return tuner_fill(out->workload, &out->u);
}

/*
 * The filter that the shorter runs foretell. The excess grows with every length by more than with the last:
 * where it is bound to miss the wanted one the loss is infinite and there is no filter.
 */
static dpmf_status foretell_filter(tuner *u, int nodes, double wanted, int levels, thinned *shorter, double *loss) {
    tvblt_filter level[LEVELS_MAX];
    tvblt_model model = {0};
    double excess[LEVELS_MAX] = {0};
    *loss = INFINITY;
    u->nodes = nodes;
    for (int i = 0; i < levels; i++)
        shorter[i].u.nodes = nodes;
    TRY(tvblt_tune(&shorter[0].u, 1, &level[0], &excess[0], &model));
    TRY(tvblt_spectrum(u->run, &shorter[1].u.problem));
    level[1] = level[0];
    tvblt_transfer(&shorter[0].u, &shorter[1].u, &level[1]);
    for (int i = 1; i < levels; i++) {
        const int count = i < 3 ? i : 3, ahead = levels - i;
        if (i > 1) tvblt_extrapolate(count, level + i - count, &level[i]);
        TRY(tvblt_polish(&shorter[i].u, i == 1 ? POLISH : FOLLOW, &model, &level[i], &excess[i]));
        if (i == 1) { /* longer runs need a better Hessian than that of the shorter one */
            const double best = BY_GRADIENTS * excess[i];
            if (best + ahead * (best - excess[i - 1]) > wanted) return DPMF_OK;
            model.count = 0;
            TRY(tvblt_polish(&shorter[i].u, POLISH, &model, &level[i], &excess[i]));
        }
        if (excess[i] + ahead * (excess[i] - excess[i - 1]) > wanted) return DPMF_OK;
        const double bend = i > 1 ? excess[i] - 2 * excess[i - 1] + excess[i - 2] : 0;
        if (excess[i] + ahead * (excess[i] - excess[i - 1]) + ahead * (ahead + 1) / 2 * bend > wanted) return DPMF_OK;
    }
    tvblt_extrapolate(3, level + levels - 3, &u->filter);
    const dpmf_status status = build_chosen(u); /* and not just measured: it is nearly always the one */
    u->careful = status == DPMF_ERROR_NUMERICAL;
    TRY(status);
    *loss = tvblt_mean_loss(u);
    return DPMF_OK;
}

/* *made: there is a filter, of few nodes that reach the wanted ratio. */
static dpmf_status guided(tuner *u, double wanted_ratio, double *loss, int *made) {
    thinned shorter[LEVELS_MAX] = {{0}};
    dpmf_status status = DPMF_OK;
    const int levels = u->problem.steps > THINNER * LONG ? LEVELS_MAX : LEVELS_MAX - 1;
    int64_t every = 1;
    for (int i = 0; i < levels; i++)
        every *= THINNER;
    for (int i = 0; i < levels; i++, every /= THINNER)
        TRY_DONE(thin(u, every, i == LEVELS_MAX - 1 ? &shorter[i - 1] : NULL, &shorter[i]));
    TRY_DONE(fewest_nodes(&shorter[0].u, wanted_ratio * shorter[0].optimum.lower, loss));
    const int nodes = shorter[0].u.nodes;
    for (int more = 0; more <= MORE_NODES && !*made && nodes + more <= NODES_MAX; more++) {
        TRY_DONE(foretell_filter(u, nodes + more, wanted_ratio - 1, levels, shorter, loss));
        *made = *loss <= wanted_ratio * u->optimum->lower;
        if (!*made) u->built = 0;
    }
done:
    if (!*made) u->nodes = 0;
    for (int i = 0; i < levels; i++) {
        thinned *t = &shorter[i];
        tuner_free(&t->u);
        optimum_free(&t->optimum);
        dpmf_workload_free(t->workload);
    }
    return status == DPMF_ERROR_NUMERICAL ? DPMF_OK : status; /* then at full length */
}

static dpmf_status check_weights(int64_t n, const double *x, const char *what) {
    for (int64_t t = 0; t < n; t++)
        if (!(x[t] > 0 && isfinite(x[t])))
            return base_fail(DPMF_ERROR_ARGUMENT, "tvblt: the optimum's %s %lld is %g, accepted: positive and finite",
                             what, (long long)t, x[t]);
    return DPMF_OK;
}

static dpmf_status check_call(const dpmf_workload *a, int max_loss, int nodes, double wanted_ratio,
                              const optimum_answer *optimum) {
    if (nodes < 0 || nodes > NODES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "tvblt: %d nodes, accepted 1 to %d", nodes, NODES_MAX);
    if (nodes == 0 && !(wanted_ratio > 1 && isfinite(wanted_ratio)))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "tvblt: 0 nodes (as many as needed) with a wanted ratio of %g, accepted: above 1",
                         wanted_ratio);
    if (a->form != WORKLOAD_NAMED)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "tvblt: workload %s, accepted: named workloads (their inverse has few bands)", a->text);
    if (optimum->steps != a->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "tvblt: the optimum has %lld steps, the workload %lld: they must agree",
                         (long long)optimum->steps, (long long)a->steps);
    if (!(optimum->lower > 0 && isfinite(optimum->lower)))
        return base_fail(DPMF_ERROR_ARGUMENT, "tvblt: the optimum's lower bound is %g, accepted: positive",
                         optimum->lower);
    if (max_loss && optimum->p == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "tvblt: max loss needs an optimum for max loss, with weights of the steps");
    TRY(check_weights(a->steps, optimum->v, "column weight"));
    return optimum->p == NULL ? DPMF_OK : check_weights(a->steps, optimum->p, "step weight");
}

static dpmf_status find_filter(tuner *u, int nodes, double wanted_ratio) {
    double loss = 0;
    int made = 0;
    u->nodes = nodes;
    /* A number of nodes that the caller names gets all that a full search gives: some 2e-5 of the loss. */
    if (nodes == 0 &&
        (u->problem.steps > LONG && !u->max_loss && u->problem.p == NULL && workload_is_prefix(u->problem.workload)) &&
        !u->careful)
        TRY(guided(u, wanted_ratio, &loss, &made));
    if (made) return DPMF_OK;
    return nodes > 0 ? attempt(u, 1, &loss) : fewest_nodes(u, wanted_ratio * u->optimum->lower, &loss);
}

/*
 * Up to this number of steps every filter is built: that takes little time, and its losses have a few digits more than measured
 * ones. The second differences of a search need them where few nodes are already within 10^-5 of the optimum.
 */
enum { STEPS_BUILT = 1024 };

dpmf_status tvblt_search(const dpmf_workload *workload, int max_loss, int nodes, double wanted_ratio,
                         const optimum_answer *optimum, const dpmf_run *run, dpmf_strategy **out, double *loss) {
    tuner u = {.optimum = optimum, .run = run, .max_loss = max_loss};
    dpmf_status status = DPMF_OK;
    TRY(check_call(workload, max_loss, nodes, wanted_ratio, optimum));
    u.careful = workload->steps <= STEPS_BUILT;
    TRY_DONE(tuner_fill(workload, &u));
    TRY_DONE(find_filter(&u, nodes, wanted_ratio));
    status = build_chosen(&u);
    if (status == DPMF_ERROR_NUMERICAL && !u.careful) { /* again, with a search that avoids such filters */
        u.careful = 1;
        TRY_DONE(find_filter(&u, nodes, wanted_ratio));
        status = build_chosen(&u);
    }
    if (status != DPMF_OK) goto done;
    const double found = max_loss ? largest_loss(&u) : tvblt_mean_loss(&u);
    tvblt_normalize(&u.work.c, u.work.norms);
    TRY_DONE(tvblt_create(&u.work.c, out));
    if (loss != NULL) *loss = found;
done:
    tuner_free(&u);
    return status;
}

static dpmf_status make_tvblt(const optimize_task *task, const optimum_answer *optimum, dpmf_strategy **out) {
    const dpmf_optimize_options *o = task->options;
    const double wanted = o->wanted_ratio > 1 ? o->wanted_ratio : 1.001;
    return tvblt_search(task->workload, o->loss == DPMF_LOSS_MAX, o->buffers, wanted, optimum, &o->run, out, NULL);
}

dpmf_status tvblt_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    if (!workload_is_single(task->participation)) return replay_optimize(task, out, result);
    if (task->options->shared_seeds != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "%d shared seeds, but only several epochs have seeds to share",
                         task->options->shared_seeds);
    TRY(optimize_single(task, make_tvblt, out, result));
    if (out != NULL) result->nodes = tvblt_of(*out)->nodes;
    return DPMF_OK;
}

/*
 * The fewest nodes within 0.1 % of the optimum; over several epochs in a fixed order with seeds of earlier epochs made
 * again, or shared. Amplification by sampling is proven for banded C: these are offered without sampling. How long a
 * search takes is predicted, not measured, so that the answer is the same on every machine.
 */

static const int64_t SINGLE_STEPS = 1 << 20; /* about 8 s there; beyond: when named */
static const int64_t PICTURE_STEPS = 4096;   /* up to here a search takes a moment, and fewer buffers are tried too */

/* Of the candidate with the fewest nodes since `first`, the nodes: momentum keeps two buffers for each. */
static int64_t nodes_since(const dpmf_design *d, int64_t first) {
    int64_t fewest = INT64_MAX;
    for (int64_t i = first; i < d->count; i++)
        if (d->candidates[i].info.buffers < fewest) fewest = d->candidates[i].info.buffers;
    return d->problem.workload->momentum > 0 ? (fewest + 1) / 2 : fewest;
}

/* Is this noise within 0.1 % of what is proven? */
static int is_at_bound(const dpmf_design *d, double noise) {
    const double bound = design_bound_noise(d);
    return bound > 0 && noise <= DESIGN_CLOSE * bound;
}

/* The max loss: from few nodes up, since some workloads keep them from the optimum and the optimizer would try all nodes. */
static dpmf_status climb_nodes(dpmf_design *d) {
    static const int NODES[] = {1, 2, 3, 4, 6, 8};
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1};
    for (size_t i = d->problem.steps > PICTURE_STEPS ? 3 : 0; i < sizeof NODES / sizeof NODES[0]; i++) {
        double noise = INFINITY;
        request.buffers = NODES[i];
        request.tolerance = 1e-3; /* a dual that is not so sharp can suit few nodes better */
        if (d->problem.steps <= PICTURE_STEPS) TRY(design_add_best(d, &request, &noise));
        request.tolerance = 0;
        TRY(design_add_best(d, &request, &noise));
        if (!isfinite(noise) || is_at_bound(d, noise)) break;
    }
    return DPMF_OK;
}

static dpmf_status sweep_nodes(dpmf_design *d) {
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1};
    double noise = INFINITY;
    const int64_t first = d->count;
    if (d->problem.loss == DPMF_LOSS_MAX) return climb_nodes(d);
    TRY(design_add_best(d, &request, &noise));
    if (!isfinite(noise) || d->problem.steps > PICTURE_STEPS) return DPMF_OK;
    const int64_t nodes = nodes_since(d, first);
    request.tolerance = 1e-5; /* the first search has the bound */
    for (request.buffers = 1; request.buffers <= nodes + 1 && request.buffers <= 16; request.buffers++)
        if (request.buffers != nodes) TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}

/* ---- candidates of a design: several epochs ---- */

enum { SHARED_SEEDS = 2 };
enum { BUFFERS = 4, MORE_BUFFERS = 6 }; /* within 0.2 % of the optimum, mostly; where they are not within 0.1 % */
static const double LONGEST_SEARCH = 60, LONGEST_SHARED = 12, A_MOMENT = 0.6; /* seconds, about, on one core */
static const double MODEL_ERROR = 1.25;
/* Of a long search for the table alone, from the bound: the last parts in a thousand take three quarters of its time. */
static const double SHOWN_TOLERANCE = 3e-3;

static double epochs_of(const dpmf_design *d) {
    return (double)d->problem.participation->count;
}

/* 250 evaluations, O(n k^2) each. */
static double replayed_seconds(const dpmf_design *d) {
    return (d->problem.loss == DPMF_LOSS_MAX ? 3 : 1) * 1.4e-5 * (double)d->problem.steps * epochs_of(d) * epochs_of(d);
}

/* 1000 evaluations, O(n k) each. */
static double shared_seconds(const dpmf_design *d) {
    return 3.36e-4 * (double)d->problem.steps * epochs_of(d);
}

/* The time of a row of four buffers over that of independent noise, by the model: it depends on the shape alone. */
static double shape_overhead(const dpmf_design *d, int shared_seeds) {
    const double normals = shared_seeds > 0 ? 1 + shared_seeds : (epochs_of(d) + 1) / 2;
    return design_model(noise_work_replay(normals, BUFFERS));
}

/* Is it too slow to be chosen? Where times are measured, the measurement may differ from the model by as much. */
static int is_too_slow(const dpmf_design *d, int shared_seeds) {
    return shape_overhead(d, shared_seeds) > (d->options.measure ? MODEL_ERROR : 1) * d->options.max_overhead;
}

/* Tries four buffers and then fewer while that is worth it, or while the memory needs it. *fast: the first is fast enough. */
static dpmf_status sweep_replayed(dpmf_design *d, int *fast) {
    search_request request = {.family = DPMF_FAMILY_TVBLT, .is_search_point = 1, .rms_tolerance = 1e-6};
    const int64_t first = d->count;
    double noise = INFINITY, most = INFINITY;
    const int shown = d->problem.steps > DPMF_DENSE_STEPS_MAX && d->problem.loss == DPMF_LOSS_RMS && is_too_slow(d, 0);
    if (shown) request.tolerance = SHOWN_TOLERANCE;
    if (d->problem.loss == DPMF_LOSS_MAX) request.tolerance = 0.1; /* no climb for a bound */
    for (request.buffers = BUFFERS; request.buffers >= 1; request.buffers--) {
        TRY(design_add_best(d, &request, &noise));
        if (d->count == first) return DPMF_OK; /* not for this workload */
        if (request.buffers == BUFFERS) {
            most = 2 * DESIGN_CLOSE * noise - noise;
            TRY(design_ask_time(d, first, fast));
            request.tolerance = d->problem.loss == DPMF_LOSS_MAX ? request.tolerance : 0;
            if (shown && *fast) TRY(design_add_best(d, &request, &noise)); /* as measured, against the model */
        }
        const int fits = design_candidate_fits(d, &d->candidates[d->count - 1]);
        if (fits && (!*fast || noise > most || d->problem.steps > PICTURE_STEPS)) break;
    }
    request.buffers = MORE_BUFFERS;
    if (*fast && !is_at_bound(d, design_least(d)) && d->problem.steps <= PICTURE_STEPS)
        TRY(design_add_best(d, &request, NULL));
    return DPMF_OK;
}

static dpmf_status add_shared(dpmf_design *d) {
    /* for the RMS loss alone: there is no search for the other */
    const search_request request = {.family = DPMF_FAMILY_TVBLT,
                                    .is_search_point = 1,
                                    .buffers = BUFFERS,
                                    .shared_seeds = SHARED_SEEDS,
                                    .for_rms_loss = 1};
    if (!is_too_slow(d, SHARED_SEEDS) || design_is_named(d, DPMF_FAMILY_TVBLT))
        return design_add_best(d, &request, NULL);
    design_note_skipped(d,
                        "TV-BLT with shared seeds was left out: a row takes %.3g times the time of independent noise, "
                        "more than the %g allowed.",
                        shape_overhead(d, SHARED_SEEDS), d->options.max_overhead);
    return DPMF_OK;
}

static dpmf_status add_epochs(dpmf_design *d) {
    const int named = design_is_named(d, DPMF_FAMILY_TVBLT);
    int fast = 0, cannot_win = 0;
    if (!named) TRY(design_cannot_win(d, "tvblt", &cannot_win));
    if (cannot_win) return DPMF_OK;
    if (named || replayed_seconds(d) <= LONGEST_SEARCH)
        TRY(sweep_replayed(d, &fast));
    else
        design_note_skipped(d,
                            "TV-BLT with replayed seeds was left out: its search would take about %.2g s, more than %g "
                            "(--families tvblt,... includes it).",
                            replayed_seconds(d), LONGEST_SEARCH);
    if (shared_seconds(d) <= (named || !fast ? LONGEST_SHARED : A_MOMENT)) return add_shared(d);
    if (!fast)
        design_note_skipped(d,
                            "TV-BLT with shared seeds was left out: its search would take about %.2g s, more than %g "
                            "(optimize --family tvblt --shared-seeds 2 does it).",
                            shared_seconds(d), LONGEST_SHARED);
    return DPMF_OK;
}

dpmf_status tvblt_candidates(dpmf_design *d) {
    const dpmf_participation *a = d->problem.participation;
    if (!design_is_allowed(d, DPMF_FAMILY_TVBLT)) return DPMF_OK;
    if (workload_is_single(a)) return design_is_tried(d, DPMF_FAMILY_TVBLT, SINGLE_STEPS) ? sweep_nodes(d) : DPMF_OK;
    return a->pattern == WORKLOAD_FIXED && a->separation > 1 ? add_epochs(d) : DPMF_OK;
}

/* Over a range the sensitivity takes O(n^2) at each separation; above this many steps: seconds, and only when named. */
static const int64_t SEPARATED_STEPS = 1024;

dpmf_status tvblt_separated_candidates(dpmf_design *d, design_federated_range *f, int64_t i) {
    dpmf_optimize_options o = design_optimize_options(d);
    dpmf_optimization result;
    dpmf_strategy *s = NULL;
    int kept = 0;
    if (i > 0 || !design_is_tried(d, DPMF_FAMILY_TVBLT, f->points == 1 ? INT64_MAX : SEPARATED_STEPS)) return DPMF_OK;
    const dpmf_status status = dpmf_optimize(DPMF_FAMILY_TVBLT, d->problem.workload, NULL, &o, &s, &result);
    if (status != DPMF_OK) return design_may_skip(status) ? DPMF_OK : status;
    return design_federated_take(d, f, s, "TV-BLT, optimal for one participation", &kept);
}
