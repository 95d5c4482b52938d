/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best BLT of d buffers for a Toeplitz workload, RMS or max loss, under single, cyclic, min-separation or full
 * participation or patterns from a file (Pillutla et al. 2025, Section 4.3.2): limited-memory BFGS on ln(loss) in the spacings of the
 * interlaced gaps (families/blt/loss.c).
 *
 * The problem is not convex. Buffers are added one at a time, and for each number of them several starts are tried, all
 * of them fixed: the rational approximation of the square root over the whole run and over one separation, geometric
 * spacing, and the best with one buffer less and a pair of gaps more, in its widest intervals and around 1. The best
 * end is kept. Where a loss costs O(n) (other workloads, weights, columns normalized within), the search is made for
 * prefix sums without weights, whose loss has a closed form, and only its end is taken over as a start.
 *
 * All of these have positive scales. For small problems the search goes on among scales of any sign
 * (families/blt/mixed.c), with as many buffers as were asked for or chosen here, and the ends here are only starts.
 *
 * A number of buffers that was asked for may be too large: then the last ones gain nothing, their decays meet or their
 * scales vanish, and such parameters say nothing to a reader. So buffers that gain less than BLT_SUPERFLUOUS are dropped.
 */
#include "families/blt/blt.h"

#include "base/memory.h"
#include "base/minimize.h"
#include "base/sum.h"
#include "design/design.h"
#include "families/toeplitz/toeplitz.h"
#include "optimize/optimize.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX = BLT_MAX, UNKNOWNS = BLT_UNKNOWNS };
enum { RESTARTS = 6 };
enum { INSERTIONS = 4 }; /* starts with a pair of gaps more; narrower intervals have hardly ever been best */

/* A point and how its search ended. */
typedef struct found {
    int count;
    double x[UNKNOWNS];
    base_minimum end; /* end.f = ln(loss); INFINITY: nothing yet */
} found;

static const found NOTHING = {.end = {.f = INFINITY}};

static const double BARRIER = 1e-8; /* of ln loss: a hundred times what a search resolves */

/* Every start ends with the same tolerance; an O(n) loss is stopped once it only creeps. end->f is without the barrier. */
static dpmf_status descend_buffers(const blt_problem *plain, const dpmf_run *run, double *x, base_minimum *end) {
    int costly = !blt_is_closed(plain);
    blt_problem barred = *plain, *problem = &barred;
    double gradient[UNKNOWNS];
    barred.barrier = BARRIER;
    const base_objective objective = {2 * problem->count, problem, blt_loss};
    const base_minimize_options options = {.gradient = 1e-10,
                                           .decrease = costly ? 1e-10 : 1e-15,
                                           .past = costly ? 10 : 30,
                                           .iterations = costly ? 300 : 3000,
                                           .pairs = 2 * problem->count + 4, /* few unknowns: remember them all */
                                           .what = "blt",
                                           .run = run};
    int iterations = 0;
    double before = INFINITY;
    for (int i = 0; i < RESTARTS; i++) { /* a line search that fails on a bad memory begins again without it */
        TRY(base_minimize(&objective, &options, x, end));
        iterations += end->iterations;
        if ((end->converged && i > 0) || !(end->f < before - 1e-13)) break;
        before = end->f;
    }
    end->iterations = iterations;
    return blt_loss((void *)plain, x, &end->f, gradient);
}

/* Keeps the end of the search from x if it is the best so far. A start outside the domain is passed over. */
static dpmf_status try_start(const blt_problem *problem, const dpmf_run *run, const double *start, found *best,
                             int *iterations) {
    double f = INFINITY, gradient[UNKNOWNS];
    found now = {.count = problem->count};
    TRY(blt_loss((void *)problem, start, &f, gradient));
    if (!isfinite(f)) return DPMF_OK;
    memcpy(now.x, start, sizeof now.x);
    TRY(descend_buffers(problem, run, now.x, &now.end));
    *iterations += now.end.iterations;
    if (now.end.f < best->end.f) *best = now;
    return DPMF_OK;
}

static void rational_start(int count, double range, double *x) {
    blt_parameters c = blt_rational(count, fmax(range, 2)), inverse = blt_invert(&c);
    double gaps[UNKNOWNS];
    for (int i = 0; i < count; i++) {
        gaps[2 * i] = c.gap[i];
        gaps[2 * i + 1] = inverse.gap[i];
    }
    blt_unknowns(count, gaps, x);
}

/* Two more points between places at-1 and at, or beyond the ends: later ones change kind twice, so all still interlace. */
static void inserted_start(int fewer, const double *gaps, int at, double *x) {
    double more[UNKNOWNS], low = at == 0 ? gaps[0] * 1e-2 : gaps[at - 1];
    double high = at == 2 * fewer ? 1 : fmin(gaps[at], 1);
    for (int a = 0; a < 2 * fewer; a++)
        more[a < at ? a : a + 2] = gaps[a];
    more[at] = low * pow(high / low, 1.0 / 3);
    more[at + 1] = low * pow(high / low, 2.0 / 3);
    blt_unknowns(fewer + 1, more, x);
}

/* From the best with one buffer less: a pair of gaps more, in each of the widest intervals. */
static dpmf_status try_inserted(const blt_problem *problem, const dpmf_run *run, const found *fewer, int most,
                                found *best, int *iterations) {
    double x[UNKNOWNS] = {0}, gaps[UNKNOWNS], width[UNKNOWNS + 1];
    int points = 2 * fewer->count;
    blt_gaps(fewer->count, fewer->x, gaps);
    for (int at = 0; at <= points; at++)
        width[at] = at == 0 ? 1 : log((at == points ? 1 : fmin(gaps[at], 1)) / gaps[at - 1]);
    /* The same with the pair around 1, a decay of nearly 0: optima there are not found from below. */
    double more[UNKNOWNS];
    memcpy(more, gaps, (size_t)(2 * fewer->count) * sizeof *more);
    more[2 * fewer->count - 1] = fmin(more[2 * fewer->count - 1], 0.9);
    more[2 * fewer->count - 2] = fmin(more[2 * fewer->count - 2], 0.9 * more[2 * fewer->count - 1]);
    more[2 * fewer->count] = 0.97;
    more[2 * fewer->count + 1] = 1.02;
    blt_unknowns(fewer->count + 1, more, x);
    TRY(try_start(problem, run, x, best, iterations));
    for (int i = 0; i < most; i++) {
        int at = 0;
        for (int other = 1; other <= points; other++)
            if (width[other] > width[at]) at = other;
        if (!(width[at] > 0.1)) break; /* no room */
        width[at] = 0;
        inserted_start(fewer->count, gaps, at, x);
        TRY(try_start(problem, run, x, best, iterations));
    }
    return DPMF_OK;
}

/* The best with `count` buffers, from all starts; `fewer` is the best with one less (NULL: none). */
static dpmf_status search_buffers(blt_problem problem, int count, int insertions, const dpmf_run *run,
                                  const found *fewer, found *best, int *iterations) {
    double x[UNKNOWNS] = {0};
    problem.count = count;
    *best = NOTHING;
    rational_start(count, (double)problem.n, x);
    TRY(try_start(&problem, run, x, best, iterations));
    const double range = (double)problem.n;
    double gaps[UNKNOWNS];
    for (int a = 0; a < 2 * count; a++)
        gaps[a] = 0.9 * exp(-log(4 * fmax(range, 2)) * (2 * count - 1 - a) / (2 * count - 1));
    blt_unknowns(count, gaps, x);
    TRY(try_start(&problem, run, x, best, iterations));
    if (problem.k > 1) {
        rational_start(count, (double)problem.b, x);
        TRY(try_start(&problem, run, x, best, iterations));
    }
    if (fewer != NULL) TRY(try_inserted(&problem, run, fewer, insertions, best, iterations));
    if (!isfinite(best->end.f))
        return base_fail(DPMF_ERROR_NUMERICAL, "blt: the loss is not finite at any start with %d buffers", count);
    return DPMF_OK;
}

typedef struct ladder {
    blt_problem problem; /* as asked for */
    blt_problem plan;    /* the same for prefix sums without weights */
    const dpmf_run *run;
    int insertions; /* INSERTIONS, or 1 where the ends are only starts among all signs */
    int iterations;
    found plans[MAX + 1], ends[MAX + 1]; /* by number of buffers */
} ladder;

static int same_problem(const ladder *l) {
    return blt_is_closed(&l->problem);
}

/* One rung: the plan, and where that is another problem and the end is wanted, its own search from there. */
static dpmf_status climb_rung(ladder *l, int count, int want_end) {
    TRY(search_buffers(l->plan, count, l->insertions, l->run, count > 1 ? &l->plans[count - 1] : NULL, &l->plans[count],
                       &l->iterations));
    if (same_problem(l)) {
        l->ends[count] = l->plans[count];
        return DPMF_OK;
    }
    if (!want_end) return DPMF_OK;
    l->problem.count = count;
    l->ends[count] = NOTHING;
    TRY(try_start(&l->problem, l->run, l->plans[count].x, &l->ends[count], &l->iterations));
    if (count > 1 && l->ends[count - 1].count > 0) /* and from its own end with one buffer less */
        TRY(try_inserted(&l->problem, l->run, &l->ends[count - 1], 1, &l->ends[count], &l->iterations));
    if (!isfinite(l->ends[count].end.f))
        return base_fail(DPMF_ERROR_NUMERICAL, "blt: the loss with %d buffers is not finite", count);
    return DPMF_OK;
}

/*
 * The max loss of the square root, sum_{t<n} (C(2t,t)/4^t)^2, which no Toeplitz C beats for prefix sums under single
 * participation (Pillutla et al. 2025, Theorem 2.7). For large n by the expansion of Landau's constants.
 */
static double square_root_loss(int64_t n) {
    double term = 1, sum = 0, x = (double)n;
    if (n > 10000) return (log(x) + 4 * M_LN2 + 0.57721566490153286) / M_PI - (1 - 5 / (48 * x)) / (4 * M_PI * x);
    for (int64_t t = 0; t < n; t++) {
        sum += term * term;
        term *= (double)(2 * t + 1) / (double)(2 * t + 2);
    }
    return sum;
}

/*
 * The fewest whose loss is within the ratio of the best Toeplitz C's. Where that is not known, buffers are added until
 * one more gains less than a tenth of what is allowed, and the last loss stands for it: losses approach their limit
 * geometrically in the number of buffers.
 */
static dpmf_status fewest(ladder *l, double wanted_ratio, int *count) {
    int known = same_problem(l) && l->problem.k == 1 && l->problem.max_loss, top = 1;
    double limit = known ? log(square_root_loss(l->problem.n)) : INFINITY, allowed = log(wanted_ratio);
    TRY(climb_rung(l, 1, 1));
    while (top < MAX && !(known && l->ends[top].end.f <= limit + allowed)) {
        TRY(climb_rung(l, top + 1, 1));
        double gain = l->ends[top].end.f - l->ends[top + 1].end.f;
        top++;
        if (!known && gain < 0.1 * allowed) break;
    }
    if (!known) limit = l->ends[top].end.f;
    *count = 1;
    while (*count < top && l->ends[*count].end.f > limit + allowed)
        ++*count;
    return DPMF_OK;
}

static dpmf_status choose_count(ladder *l, int buffers, double wanted_ratio, int *count) {
    if (buffers == 0) return fewest(l, wanted_ratio, count);
    for (int d = 1; d <= buffers; d++)
        TRY(climb_rung(l, d, d == buffers));
    *count = buffers;
    return DPMF_OK;
}

/* The unknowns of c without buffer i, or with its scale given to buffer i + 1 at their common mean gap. */
static void reduced_start(const blt_parameters *c, int i, int merged, double *x) {
    double scale[MAX], gap[MAX], gaps[UNKNOWNS];
    int count = 0;
    for (int j = 0; j < c->count; j++) {
        if (j == i) continue;
        const double both = c->scale[i] + c->scale[j];
        const int takes = merged && j == i + 1;
        scale[count] = takes ? both : c->scale[j];
        gap[count++] = takes ? (c->scale[i] * c->gap[i] + c->scale[j] * c->gap[j]) / both : c->gap[j];
    }
    const blt_parameters fewer = blt_make(count, scale, gap), inverse = blt_invert(&fewer);
    for (int j = 0; j < count; j++) {
        gaps[2 * j] = fewer.gap[j];
        gaps[2 * j + 1] = inverse.gap[j];
    }
    blt_unknowns(count, gaps, x);
}

static const double WORTH_A_TRY = 1e-4; /* of ln loss: reductions that are further off than this do not come back */

/* The best with one buffer less where it is not known: from the reduction of the end with `count` that loses least. */
static dpmf_status search_reduced(ladder *l, int count) {
    const blt_parameters c = blt_at(count, l->ends[count].x);
    found *best = &l->ends[count - 1];
    double least = l->ends[count].end.f + WORTH_A_TRY, start[UNKNOWNS];
    *best = NOTHING;
    l->problem.count = count - 1;
    for (int i = 0; i < count; i++)
        for (int merged = 0; merged < 2 && i + merged < count; merged++) {
            double x[UNKNOWNS], f = INFINITY, gradient[UNKNOWNS];
            reduced_start(&c, i, merged, x);
            TRY(blt_loss(&l->problem, x, &f, gradient));
            if (!(f < least)) continue;
            least = f;
            memcpy(start, x, sizeof start);
            best->count = count - 1;
        }
    return best->count == 0 ? DPMF_OK : try_start(&l->problem, l->run, start, best, &l->iterations);
}

/* As few buffers as have the loss of `count` of them. */
static dpmf_status drop_superfluous(ladder *l, int *count) {
    while (*count > 1) {
        if (!same_problem(l)) TRY(search_reduced(l, *count));
        if (!(l->ends[*count - 1].end.f <= l->ends[*count].end.f + BLT_SUPERFLUOUS)) break;
        --*count;
    }
    return DPMF_OK;
}

enum { WITHIN_STEPS_MAX = 1 << 20 }; /* O(n d^2) for each loss, in 300 MB; in the header */

static dpmf_status check_within(const optimize_task *task) {
    if (task->options->normalize != DPMF_NORMALIZE_WITHIN) return DPMF_OK;
    if (task->options->loss == DPMF_LOSS_MAX || task->participation->count > 1 || !workload_is_prefix(task->workload))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family blt: normalization within is available for prefix sums, "
                                                 "single participation and the RMS loss; elsewhere use after");
    if (task->workload->steps > WITHIN_STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family blt: normalization within: %lld steps, accepted up to %d",
                         (long long)task->workload->steps, WITHIN_STEPS_MAX);
    return DPMF_OK;
}

static dpmf_status check(const optimize_task *task) {
    const dpmf_optimize_options *o = task->options;
    if (o->buffers < 0 || o->buffers > MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "family blt: %d buffers, accepted 1 to %d, or 0 to choose", o->buffers,
                         MAX);
    if (o->buffers == 0 && !(o->wanted_ratio == 0 || (o->wanted_ratio > 1 && isfinite(o->wanted_ratio))))
        return base_fail(DPMF_ERROR_ARGUMENT, "wanted ratio %g, accepted: above 1", o->wanted_ratio);
    if (!task->workload->toeplitz && !toeplitz_has_form(task))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "family blt: the workload %s is not the same at every step; optimize for one without a "
                         "schedule and evaluate it with yours (matrices and sums are accepted for the RMS loss)",
                         task->workload->text);
    if (task->participation->pattern == WORKLOAD_EPOCHS)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "family blt: no closed form for the sensitivity in shuffled epochs; "
                                                 "cyclic, min-sep, full and single are optimized");
    if (o->weights != NULL && o->loss == DPMF_LOSS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "weights: accepted with the RMS loss only");
    if (o->signs == DPMF_SIGNS_ANY && !blt_mixed_can(task))
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "family blt: signs any: %lld steps, participation %s%s; accepted: single, cyclic and full up to %d "
            "steps and %d participations, columns not normalized within; elsewhere non-negative",
            (long long)task->workload->steps, task->participation->text,
            o->normalize == DPMF_NORMALIZE_WITHIN ? ", normalized within" : "", TOEPLITZ_MIXED_STEPS_MAX,
            TOEPLITZ_MIXED_COUNT_MAX);
    return check_within(task);
}

static dpmf_status set_problem(const optimize_task *task, double *response, double *emphasis, double **form,
                               ladder *l) {
    int64_t n = task->workload->steps;
    l->run = &task->options->run;
    l->plan = (blt_problem){.n = n,
                            .k = task->participation->count,
                            .b = task->participation->separation,
                            .max_loss = task->options->loss == DPMF_LOSS_MAX};
    l->problem = l->plan;
    if (!task->workload->toeplitz) {
        TRY(toeplitz_form_create(task->workload, form));
        l->problem.form = *form;
        l->problem.work = response;
    } else if (response != NULL) {
        response[0] = 1;
        TRY(dpmf_workload_apply(task->workload, response, response));
        l->problem.response = response;
    }
    if (emphasis != NULL) {
        /* sum_t p_t |B[t,:]|^2 = sum_t w_t^2 (p_t + p_{t+1} + ...). */
        base_running sum = {0};
        for (int64_t t = n - 1; t >= 0; t--) {
            base_running_add(&sum, task->options->weights[t]);
            emphasis[t] = base_running_value(&sum);
        }
        l->problem.emphasis = emphasis;
    }
    return DPMF_OK;
}

enum { ROUNDS = 20 };

/* Patterns from a file: rounds from the end of the search (families/toeplitz/listed.c), until one gains less than 1e-9. */
static dpmf_status sharpen(ladder *l, int count) {
    const int64_t n = l->problem.n;
    toeplitz_listed *listed = l->problem.listed;
    found now = l->ends[count], best = now;
    double least = INFINITY;
    l->problem.count = count;
    for (int round = 0; round < ROUNDS; round++) {
        const double before = listed->sharpness;
        const blt_parameters c = blt_at(count, now.x);
        double f = 0, largest = 0, smooth = 0, gradient[UNKNOWNS];
        TRY(blt_loss(&l->problem, now.x, &f, gradient));
        TRY(toeplitz_listed_square(listed, n, listed->c, &smooth, listed->by_c));
        blt_coefficients(&c, n, listed->c);
        TRY(toeplitz_listed_update(listed, n, listed->c, &largest));
        f += 0.5 * log(largest / smooth);
        const int enough = round > 4 && f >= least - 1e-9;
        if (f < least) {
            least = f;
            best = now;
            best.end.f = f;
        }
        if (enough) break;
        listed->sharpness = fmin(512, 2 * before);
        TRY(descend_buffers(&l->problem, l->run, now.x, &now.end));
        l->iterations += now.end.iterations;
    }
    l->ends[count] = best;
    return DPMF_OK;
}

static dpmf_status make_strategy(const optimize_task *task, const blt_parameters *c, dpmf_strategy **out) {
    dpmf_strategy *plain = NULL;
    if (task->options->normalize == DPMF_NORMALIZE_NONE) return blt_create(task->workload->steps, c, out);
    TRY(blt_create(task->workload->steps, c, &plain));
    dpmf_status status = dpmf_strategy_create_normalized(plain, out);
    dpmf_strategy_free(plain);
    return status;
}

/* c and its end become those of the best scales of any sign, if these are better, with no superfluous buffers. */
static dpmf_status search_any_sign(const optimize_task *task, int count, const blt_parameters *starts,
                                   blt_parameters *c, base_minimum *end) {
    const double before = end->f;
    for (int fewer = 0; fewer < count; count = fewer) {
        blt_parameters now = *c;
        base_minimum stop = *end;
        stop.f = before;
        TRY(blt_mixed(task, count, starts, before, &now, &stop));
        end->iterations = stop.iterations;
        if (!(stop.f < before)) return DPMF_OK;
        *c = now;
        *end = stop;
        fewer = now.count;
        if (fewer == count) break;
    }
    return DPMF_OK;
}

dpmf_status blt_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result) {
    int64_t n = task->workload->steps;
    double *response = NULL, *emphasis = NULL, *form = NULL, wanted = task->options->wanted_ratio;
    void *memory = NULL;
    blt_normalized work = {0};
    toeplitz_listed listed = {0};
    int count = 0;
    dpmf_status status = DPMF_OK;
    TRY(check(task));
    TRY_DONE(base_alloc(1, sizeof(ladder), "the search", &memory));
    ladder *l = memory;
    if (!workload_is_prefix(task->workload)) TRY_DONE(base_alloc_doubles(2 * n, "the workload", &response));
    if (task->options->weights != NULL) TRY_DONE(base_alloc_doubles(n, "sums of weights", &emphasis));
    TRY_DONE(set_problem(task, response, emphasis, &form, l));
    const dpmf_signs signs = task->options->signs;
    const int mixed = signs == DPMF_SIGNS_ANY || (signs == DPMF_SIGNS_AUTO && blt_mixed_fits(task));
    l->insertions = mixed && task->options->buffers > 0 ? 1 : INSERTIONS;
    if (task->options->normalize == DPMF_NORMALIZE_WITHIN) {
        TRY_DONE(blt_normalized_open(n, &work));
        l->problem.normalized = &work;
    }
    if (task->participation->pattern == WORKLOAD_LISTED) {
        TRY_DONE(toeplitz_listed_create(task->participation, n, &listed));
        l->problem.listed = &listed;
    }
    TRY_DONE(choose_count(l, task->options->buffers, wanted > 1 ? wanted : 1.001, &count));
    const int asked = count;
    blt_parameters starts[MAX];
    for (int d = 1; d <= asked; d++)
        starts[d - 1] = blt_at(d, d < asked ? l->plans[d].x : l->ends[d].x);
    if (task->options->buffers > 0) TRY_DONE(drop_superfluous(l, &count));
    if (l->problem.listed != NULL) TRY_DONE(sharpen(l, count));
    base_minimum end = l->ends[count].end;
    blt_parameters c = blt_at(count, l->ends[count].x);
    end.iterations = l->iterations;
    if (mixed) TRY_DONE(search_any_sign(task, asked, starts, &c, &end));
    count = c.count;
    if (out != NULL) TRY_DONE(make_strategy(task, &c, out));
    *result = (dpmf_optimization){.outcome = end.converged ? DPMF_CONVERGED : DPMF_ITERATION_LIMIT,
                                  .iterations = end.iterations,
                                  .nodes = count,
                                  .optimum_upper = INFINITY,
                                  .searched = mixed ? OPTIMIZE_ANY_SIGN : OPTIMIZE_FALLING,
                                  .stationarity = end.gradient,
                                  .dropped = asked - count};
done:
    base_free(response);
    base_free(emphasis);
    base_free(form);
    base_free(memory);
    blt_normalized_free(&work);
    toeplitz_listed_free(&listed);
    return status;
}

/*
 * One more buffer is tried while the last one lowered the noise by BUFFER_GAIN, or by SMALL_GAIN where BLTs cannot win
 * or are FAR from the least noise. The first BLT_LEAST are always tried, for the report's picture.
 */
static const double BUFFER_GAIN = 2e-4, SMALL_GAIN = 5e-3, FAR = 1.02;
enum { BLT_LEAST = 5, BLT_MOST = 10 };

dpmf_status blt_candidates(dpmf_design *d) {
    double before = INFINITY, noise = INFINITY;
    int cannot_win = 0;
    if (!design_is_allowed(d, DPMF_FAMILY_BLT)) return DPMF_OK;
    TRY(design_cannot_win(d, NULL, &cannot_win));
    for (int buffers = 1; buffers <= BLT_MOST; buffers++) {
        const double gain = cannot_win || noise > FAR * design_least(d) ? SMALL_GAIN : BUFFER_GAIN;
        if (buffers > BLT_LEAST && !(noise < before * (1 - gain))) break;
        before = noise;
        TRY(design_add_best(d, &(search_request){.family = DPMF_FAMILY_BLT, .buffers = buffers, .is_search_point = 1},
                            &noise));
        if (buffers == 1 && !isfinite(noise)) break; /* not for this workload */
    }
    return DPMF_OK;
}

static const double SEPARATED_GAIN = 1e-5; /* of the loss, relative, that one more buffer must bring */

dpmf_status blt_separated_candidates(dpmf_design *d, design_federated_range *f, int64_t i) {
    dpmf_optimize_options o = design_optimize_options(d);
    double last = INFINITY;
    for (o.buffers = 2; o.buffers <= 8; o.buffers++) {
        dpmf_strategy *s = NULL;
        char made_by[160];
        double loss = 0;
        int kept = 0;
        TRY(design_federated_optimum(d, DPMF_FAMILY_BLT, f->made_for[i], &o, &s));
        if (s == NULL) return DPMF_OK;
        const dpmf_status status = design_federated_loss(d, s, f->made_for[i], &loss);
        if (status != DPMF_OK || !(loss < last * (1 - SEPARATED_GAIN))) {
            dpmf_strategy_free(s);
            return status;
        }
        last = loss;
        snprintf(made_by, sizeof made_by, "optimal BLT with %d buffers for separation %lld", o.buffers,
                 (long long)f->made_for[i]);
        TRY(design_federated_take(d, f, s, made_by, &kept));
    }
    return DPMF_OK;
}
