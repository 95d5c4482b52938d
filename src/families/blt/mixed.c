/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best BLT whose scales may have any sign, for small problems: the search in interlaced gaps (families/blt/loss.c),
 * all of whose points are positive and falling, gives starts, and this one continues in the coordinates
 * x below. Momentum wants coefficients that rise at first and cross zero later, and several epochs want
 * columns of one unit that are nearly orthogonal: no positive scales give either.
 *
 * S is |c|^2 under single participation, and under cyclic and full the one of families/toeplitz/columns.c. E is that of
 * families/toeplitz/error.c, but C^-1 is a recursion of d buffers here:
 *
 *     w = A C^-1 e_0,   E = sum_t u_t w_t^2,   v = C^-T g, g_t = 2 u_t w_t,   dE = -<v, dC w>,   dS = <dS/dc, dC e_0>.
 *
 * The loss has many stationary points. So buffers are added one at a time. Starts with d buffers are the best two ends
 * with d - 1 and one more of scale 0, in each of their intervals; the end of the other search; d decays next to each
 * other. All are sketched in a few steps, the best four continue, and the best two of these are the ends with d. That
 * is done for a smooth S (mu = 1e-3); mu falls further only with as many buffers as are asked for. Where the last
 * buffer gains so little that this may change the order, the ends with one less go that way too, and the better of
 * them is a start: so a buffer more does not make larger what is minimized.
 *
 * Scales that nearly cancel leave few digits in float32. So ln loss + ROUNDING sum alpha^2 is minimized, about the loss
 * of a stream in float32: rounding adds 7e-5 to the loss where sum |alpha| is 5e4, 0.07 where it is 1.6e6, and at 1e8
 * the stream diverges (1000 steps, ten epochs, 6 buffers, simulated).
 *
 * All costs O(n) and more, so this ends at TOEPLITZ_MIXED_STEPS_MAX steps.
 */
#include "families/blt/blt.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "families/toeplitz/toeplitz.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { MAX = BLT_MAX, UNKNOWNS = BLT_UNKNOWNS };
static const double GAIN_LEAST = 1e-7; /* of ln loss: what the other search leaves open near its own boundaries */
static const double ROUNDING = 1e-13;

typedef struct mixed_problem {
    int count;
    int64_t n;
    toeplitz_mixed mixed; /* no memory: one participation */
    toeplitz_error error;
    double *impulse, *c, *by_square;
    double *w, *v;             /* the first column of A C^-1; the adjoint */
    double *of_impulse, *of_w; /* states */
} mixed_problem;

int blt_mixed_can(const optimize_task *task) {
    if (task->options->normalize == DPMF_NORMALIZE_WITHIN) return 0;
    if (workload_is_single(task->participation)) return task->workload->steps <= TOEPLITZ_MIXED_STEPS_MAX;
    return toeplitz_mixed_fits(task->participation, task->workload->steps);
}

int blt_mixed_fits(const optimize_task *task) {
    /* prefix sums, one participation: positive scales, as published tables have them */
    return blt_mixed_can(task) && !(workload_is_single(task->participation) && workload_is_prefix(task->workload));
}

static dpmf_status square_of(mixed_problem *p, double *value) {
    if (p->mixed.memory != NULL) return toeplitz_mixed_square(&p->mixed, p->n, p->c, value, p->by_square);
    *value = base_dot(p->n, p->c, p->c);
    for (int64_t t = 0; t < p->n; t++)
        p->by_square[t] = 2 * p->c[t];
    return DPMF_OK;
}

static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    mixed_problem *p = context;
    blt_cascade k;
    double square = INFINITY, error = 0;
    *f = INFINITY;
    if (!blt_cascade_set(p->count, p->n, x, &k)) return DPMF_OK;
    memcpy(p->w, p->impulse, (size_t)p->n * sizeof *p->w);
    blt_cascade_divide(&k, p->n, 1, p->w);
    if (p->error.form != NULL)
        toeplitz_form_apply(p->n, p->error.form, p->w, p->v);
    else
        TRY(dpmf_workload_apply(p->error.workload, p->w, p->w));
    for (int64_t t = 0; t < p->n; t++) {
        p->v[t] = p->error.form != NULL ? p->v[t] / (double)p->n : toeplitz_weight(&p->error, t) * p->w[t];
        error += p->v[t] * p->w[t];
    }
    if (!isfinite(error) || !(error > 0)) return DPMF_OK;
    blt_cascade_run(&k, p->n, p->impulse, p->of_impulse, p->c);
    TRY(square_of(p, &square));
    if (!isfinite(square) || !(square > 0)) return DPMF_OK;
    *f = 0.5 * (log(square) + log(error));
    for (int64_t t = 0; t < p->n; t++) {
        p->by_square[t] *= 0.5 / square;
        p->v[t] /= error;
    }
    blt_cascade_divide(&k, p->n, -1, p->v + p->n - 1);
    memset(gradient, 0, 2 * (size_t)p->count * sizeof *gradient);
    blt_cascade_run(&k, p->n, p->w, p->of_w, NULL);
    blt_cascade_pull(&k, p->n, p->of_impulse, p->by_square, 1, gradient);
    blt_cascade_pull(&k, p->n, p->of_w, p->v, -1, gradient);
    *f += blt_cascade_size(&k, x, ROUNDING, gradient);
    for (int i = 0; i < 2 * p->count; i++)
        if (!isfinite(gradient[i])) *f = INFINITY; /* the adjoint can pass the range of a double where E does not */
    return DPMF_OK;
}

static dpmf_status open_problem(const optimize_task *task, int count, mixed_problem *p) {
    const dpmf_optimize_options *o = task->options;
    toeplitz_pattern pattern;
    p->count = count;
    p->n = task->workload->steps;
    double **const arrays[] = {&p->impulse, &p->c, &p->by_square, &p->w, &p->v, &p->of_impulse, &p->of_w};
    for (int i = 0; i < 7; i++)
        TRY(base_alloc_doubles(p->n * (i < 5 ? 1 : count), "the coefficients", arrays[i]));
    p->impulse[0] = 1;
    TRY(toeplitz_error_create(task->workload, p->n, o->loss, o->weights, &p->error));
    if (workload_is_single(task->participation)) return DPMF_OK;
    TRY(toeplitz_pattern_of(task->participation, p->n, &pattern));
    return toeplitz_mixed_create(&pattern, &p->mixed);
}

static void close_problem(mixed_problem *p) {
    toeplitz_error_free(&p->error);
    toeplitz_mixed_free(&p->mixed);
    double *const arrays[] = {p->impulse, p->c, p->by_square, p->w, p->v, p->of_impulse, p->of_w};
    for (int i = 0; i < 7; i++)
        base_free(arrays[i]);
}

/* Where a search is, and how its last stage ended: end.f is INFINITY outside the domain. */
typedef struct found {
    int count;
    double x[UNKNOWNS];
    base_minimum end;
} found;

enum { SKETCHED = 16, STEPS = 1000, FINISHING = 400 };
static const double SKETCH_MU = 1e-2, COMPARE_MU = 1e-3, FINISH_MU = 1e-4, LAST_MU = 1e-8;
static const double ROUGH = 1e-6, FINE = 1e-13; /* decreases of ln loss, as parts of it, that end a descent */

/* Under single participation there is no mu. */
static dpmf_status descend_single(mixed_problem *p, const dpmf_run *run, double decrease, int steps, found *at) {
    const base_objective objective = {2 * p->count, p, log_loss};
    const base_minimize_options options = {.gradient = 1e-9,
                                           .decrease = decrease,
                                           .pairs = UNKNOWNS,
                                           .iterations = steps,
                                           .what = "blt, scales of any sign",
                                           .run = run};
    double f = INFINITY, gradient[UNKNOWNS];
    at->end = (base_minimum){.f = INFINITY};
    TRY(log_loss(p, at->x, &f, gradient));
    return isfinite(f) ? base_minimize(&objective, &options, at->x, &at->end) : DPMF_OK;
}

static dpmf_status descend(mixed_problem *p, const dpmf_run *run, double mu, int steps, found *at) {
    const base_objective objective = {2 * at->count, p, log_loss};
    p->count = at->count;
    if (p->mixed.memory == NULL) return descend_single(p, run, ROUGH, steps, at);
    return toeplitz_mixed_stage(&p->mixed, &objective, run, mu, ROUGH, steps, at->x, &at->end);
}

static dpmf_status finish(mixed_problem *p, const dpmf_run *run, double first_mu, found *at) {
    const base_objective objective = {2 * at->count, p, log_loss};
    p->count = at->count;
    if (p->mixed.memory == NULL) return descend_single(p, run, FINE, STEPS, at);
    return toeplitz_mixed_finish(&p->mixed, &objective, run, first_mu, FINISHING, at->x, &at->end);
}

enum { KEPT = 4, ENDS = 2, STARTS = ENDS * MAX + 2 };
static const double SAME_PLACE = 1e-5; /* of ln loss */

typedef struct field {
    int count;
    found at[STARTS];
} field;

typedef struct search {
    mixed_problem p;
    const dpmf_run *run;
    int iterations;
    field ends, fewer; /* with d buffers and with d - 1 */
} search;

/* The lowest ones, KEPT at most, in order. Most starts lead to the same place, which is kept once. */
static void keep_lowest(int most, field *f) {
    int kept = 0;
    for (int next = 0; next < f->count && kept < most; next++) {
        int low = next;
        for (int i = next + 1; i < f->count; i++)
            if (f->at[i].end.f < f->at[low].end.f) low = i;
        const found best = f->at[low];
        if (!isfinite(best.end.f)) break;
        f->at[low] = f->at[next];
        if (kept == 0 || best.end.f > f->at[kept - 1].end.f + SAME_PLACE) f->at[kept++] = best;
    }
    f->count = kept;
}

static dpmf_status descend_all(search *s, double mu, int steps, int most, field *f) {
    for (int i = 0; i < f->count; i++) {
        TRY(descend(&s->p, s->run, mu, steps, &f->at[i]));
        s->iterations += f->at[i].end.iterations;
    }
    keep_lowest(most, f);
    return DPMF_OK;
}

static dpmf_status finish_all(search *s, double first_mu, field *f) {
    for (int i = 0; i < f->count; i++) {
        TRY(finish(&s->p, s->run, first_mu, &f->at[i]));
        s->iterations += f->at[i].end.iterations;
    }
    keep_lowest(1, f);
    return DPMF_OK;
}

static const double NARROW = 0.05, BEYOND = 0.05; /* of ln gaps: no room for another; of gaps: below the least */
static const double LASTING_GAP = 1e-3;           /* times the steps */
static const double CLUSTER_GAP = 3, CLUSTER_SCALE = 0.4, CLUSTER_SPACING = 0.15; /* times the separation; of ln gaps */

static void insert_buffer(int64_t n, const blt_parameters *fewer, int at, double gap, field *out) {
    double scales[MAX] = {0}, gaps[MAX];
    const int count = fewer->count + 1;
    found *to = &out->at[out->count++];
    for (int i = 0; i < count; i++)
        if (i != at) {
            scales[i] = fewer->scale[i < at ? i : i - 1];
            gaps[i] = fewer->gap[i < at ? i : i - 1];
        }
    gaps[at] = gap;
    *to = (found){.count = count};
    blt_cascade_unknowns(count, n, scales, gaps, to->x);
}

/* One more buffer, of scale 0, in each interval that has room. */
static void add_insertions(int64_t n, const found *from, field *out) {
    const blt_parameters fewer = blt_cascade_at(from->count, n, from->x);
    for (int at = 0; at <= fewer.count; at++) {
        const double low = at == 0 ? BEYOND * fewer.gap[0] : fewer.gap[at - 1];
        const double high = at == fewer.count ? 1 : fewer.gap[at];
        if (log(high / low) > NARROW) insert_buffer(n, &fewer, at, sqrt(low * high), out);
    }
}

/* One buffer that forgets within a separation, and others of scale 0 next to it: at many optima decays nearly meet. */
static void add_cluster(const mixed_problem *p, int count, field *out) {
    const double middle = fmin(CLUSTER_GAP / (double)p->mixed.pattern.b, 0.5);
    double scales[MAX] = {CLUSTER_SCALE}, gaps[MAX];
    found *to = &out->at[out->count++];
    for (int i = 0; i < count; i++)
        gaps[i] = fmin(middle * exp(CLUSTER_SPACING * (i - (count - 1) / 2.0)), 1);
    *to = (found){.count = count};
    blt_cascade_unknowns(count, p->n, scales, gaps, to->x);
}

/* From the ends with one buffer less to those with as many as `positive` has. */
static dpmf_status climb(search *s, const blt_parameters *positive) {
    field *now = &s->ends;
    s->fewer = *now;
    now->count = 0;
    for (int i = 0; i < s->fewer.count; i++)
        add_insertions(s->p.n, &s->fewer.at[i], now);
    /* Decays that are nearly 1 over all steps start where the loss still shows how they matter. */
    double gaps[MAX];
    found *to = &now->at[now->count++];
    for (int i = 0; i < positive->count; i++)
        gaps[i] = fmax(positive->gap[i], LASTING_GAP / (double)s->p.n);
    *to = (found){.count = positive->count};
    blt_cascade_unknowns(positive->count, s->p.n, positive->scale, gaps, to->x);
    if (s->p.mixed.memory != NULL && positive->count > 1) add_cluster(&s->p, positive->count, now);
    TRY(descend_all(s, SKETCH_MU, SKETCHED, KEPT, now));
    TRY(descend_all(s, COMPARE_MU, STEPS, ENDS, now));
    /* The way through SKETCH_MU may lose what the ends with one buffer less have: then from the best of them without it. */
    field start = {0};
    if (s->fewer.count == 0 || (s->ends.count > 0 && s->ends.at[0].end.f <= s->fewer.at[0].end.f)) return DPMF_OK;
    add_insertions(s->p.n, &s->fewer.at[0], &start);
    TRY(descend_all(s, COMPARE_MU, STEPS, ENDS, &start));
    if (start.count > 0) s->ends = start;
    return DPMF_OK;
}

static const double MU_HIDES = 1e-3; /* of ln loss, between ends at COMPARE_MU and their own: 3e-4 have been seen */

static void drop_far(field *f) {
    while (f->count > 1 && f->at[f->count - 1].end.f > f->at[0].end.f + MU_HIDES)
        f->count--;
}

/* The ends with one buffer less may be lower after all: then from the best of them, with one more of scale 0. */
static dpmf_status fall_back(search *s) {
    field start = {0};
    drop_far(&s->fewer);
    TRY(finish_all(s, FINISH_MU, &s->fewer));
    if (s->fewer.count == 0 || (s->ends.count > 0 && s->ends.at[0].end.f <= s->fewer.at[0].end.f)) return DPMF_OK;
    add_insertions(s->p.n, &s->fewer.at[0], &start);
    TRY(finish_all(s, LAST_MU, &start));
    if (start.count > 0 && (s->ends.count == 0 || start.at[0].end.f < s->ends.at[0].end.f)) s->ends = start;
    return DPMF_OK;
}

dpmf_status blt_mixed(const optimize_task *task, int count, const blt_parameters *positive, double before,
                      blt_parameters *blt, base_minimum *out) {
    void *memory = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(1, sizeof(search), "the search", &memory));
    search *s = memory;
    s->run = &task->options->run;
    TRY_DONE(open_problem(task, count, &s->p));
    for (int d = 1; d <= count; d++)
        TRY_DONE(climb(s, &positive[d - 1]));
    const int close =
        s->fewer.count > 0 && (s->ends.count == 0 || s->ends.at[0].end.f > s->fewer.at[0].end.f - MU_HIDES);
    drop_far(&s->ends);
    TRY_DONE(finish_all(s, FINISH_MU, &s->ends));
    TRY_DONE(close ? fall_back(s) : DPMF_OK);
    s->iterations += out->iterations;
    const found *best = &s->ends.at[0];
    if (close && s->fewer.count > 0 && s->ends.count > 0 && s->fewer.at[0].end.f <= best->end.f + BLT_SUPERFLUOUS)
        best = &s->fewer.at[0];
    if (s->ends.count > 0 && best->end.f < before - GAIN_LEAST) {
        *blt = blt_cascade_at(best->count, s->p.n, best->x);
        *out = best->end;
    }
    out->iterations = s->iterations;
done:
    close_problem(&s->p);
    base_free(memory);
    return status;
}

/*
 * A BLT with scales of any sign in coordinates that stay well conditioned where decays meet. The best scales are often
 * large there and nearly cancel (307, -601, 294 at gaps of 0.0566, 0.0548, 0.0530), and searches in scales creep. So C
 * is written in the orthogonal functions of its decays (Takenaka 1925), a cascade of all-pass sections:
 *
 *     C(z) = 1 + z sum_i x_i phi_i(z),   phi_i = u_i/(1 - lambda_i z) prod_{j<i} (z - lambda_j)/(1 - lambda_j z).
 *
 * u_i^2 = 1 - lambda_i^2 makes them orthonormal over all time; 1/n is added to it, for decays that are 1 over n steps.
 * As a recursion, with s_i the state of section i, (C w)_t = w_t + sum_i x_i u_i s_i, and then from v_0 = w_t
 *
 *     s_i' = lambda_i s_i + v_i,   v_{i+1} = (1 - lambda_i^2) s_i - lambda_i v_i = s_i - lambda_i s_i'.
 *
 * The gaps are written by spacings down from 1, ln g_{d-1} = -e^y, ln g_i = ln g_{i+1} - APART - e^y, so that decays
 * never meet quite: there would be no scales. These are the partial fractions,
 *
 *     alpha_i = sum_{k>=i} x_k r_ik,   r_ik = u_k q_ik prod_{j<k, j!=i} (1 - lambda_i lambda_j)/(lambda_i - lambda_j),
 *     q_ii = 1,   q_ik = (1 - lambda_i^2)/(lambda_i - lambda_k).
 */

static const double APART = 0.01;                       /* of ln gaps: some 1e-6 of the loss */
static const double LEAST_GAP = 1e-6, START_GAP = 2e-6; /* times the steps: no decay is nearer to 1; no start is */

int blt_cascade_set(int count, int64_t n, const double *x, blt_cascade *out) {
    const double last = log(LEAST_GAP / (double)n);
    double q = 0;
    int inside = 1;
    out->count = count;
    for (int i = count - 1; i >= 0; i--) {
        out->rise[i] = exp(x[count + i]);
        q -= out->rise[i] + (i + 1 < count ? APART : 0);
        inside = inside && q > last;
        out->gap[i] = exp(q);
        out->keep[i] = -expm1(q);
        out->square[i] = out->gap[i] * (2 - out->gap[i]);
        out->unit[i] = sqrt(out->square[i] + 1 / (double)n);
        out->weight[i] = x[i] * out->unit[i];
    }
    return inside;
}

/* From derivatives by gaps to those by spacings: a wider one moves all gaps from it down. */
static void pull_gaps(const blt_cascade *k, const double *by_gap, double factor, double *gradient) {
    double below = 0;
    for (int i = 0; i < k->count; i++) {
        below += k->gap[i] * by_gap[i];
        gradient[k->count + i] -= factor * k->rise[i] * below;
    }
}

void blt_cascade_run(const blt_cascade *k, int64_t n, const double *w, double *states, double *out) {
    const int d = k->count;
    double state[MAX] = {0};
    for (int64_t t = 0; t < n; t++) {
        double sum = w[t], u = w[t];
        for (int i = 0; i < d; i++) {
            const double old = state[i], next = k->keep[i] * old + u;
            states[t * d + i] = old;
            sum += k->weight[i] * old;
            u = k->square[i] * old - k->keep[i] * u;
            state[i] = next;
        }
        if (out != NULL) out[t] = sum;
    }
}

void blt_cascade_divide(const blt_cascade *k, int64_t n, int step, double *y) {
    const int d = k->count;
    double state[MAX] = {0};
    for (int64_t t = 0; t < n; t++, y += step) {
        double u = *y;
        for (int i = 0; i < d; i++)
            u -= k->weight[i] * state[i];
        *y = u;
        for (int i = 0; i < d; i++) {
            const double old = state[i];
            state[i] = k->keep[i] * old + u;
            u = k->square[i] * old - k->keep[i] * u;
        }
    }
}

void blt_cascade_pull(const blt_cascade *k, int64_t n, const double *states, const double *v, double factor,
                      double *gradient) {
    const int d = k->count;
    double behind[MAX] = {0}, by_keep[MAX] = {0}, by_weight[MAX] = {0}, by_gap[MAX];
    for (int64_t t = n - 1; t >= 0; t--) {
        const double *s = states + t * d;
        double by_u = 0;
        for (int i = d - 1; i >= 0; i--) {
            const double next = t + 1 < n ? s[d + i] : 0, by_next = behind[i] - k->keep[i] * by_u;
            by_keep[i] += by_next * s[i] - by_u * next;
            by_weight[i] += v[t] * s[i];
            behind[i] = by_u + k->keep[i] * by_next + v[t] * k->weight[i];
            by_u = by_next;
        }
    }
    for (int i = 0; i < d; i++) {
        gradient[i] += factor * k->unit[i] * by_weight[i];
        by_gap[i] = k->weight[i] * by_weight[i] * k->keep[i] / (k->unit[i] * k->unit[i]) - by_keep[i];
    }
    pull_gaps(k, by_gap, factor, gradient);
}

/* The coefficient of x_k in alpha_i, i <= k. */
static double residue(const blt_cascade *c, int i, int k) {
    const double *g = c->gap;
    double r = c->unit[k];
    for (int j = 0; j < k; j++)
        if (j != i) r *= (g[i] + g[j] - g[i] * g[j]) / (g[j] - g[i]);
    return k == i ? r : r * c->square[i] / (g[k] - g[i]);
}

/* Adds `weight` times the derivatives of ln|residue| by the gaps. */
static void add_residue_slopes(const blt_cascade *c, int i, int k, double weight, double *by_gap) {
    const double *g = c->gap;
    by_gap[k] += weight * c->keep[k] / (c->unit[k] * c->unit[k]);
    for (int j = 0; j < k; j++) {
        if (j == i) continue;
        const double sum = g[i] + g[j] - g[i] * g[j], difference = g[j] - g[i];
        by_gap[i] += weight * (c->keep[j] / sum + 1 / difference);
        by_gap[j] += weight * (c->keep[i] / sum - 1 / difference);
    }
    if (k == i) return;
    by_gap[i] += weight * (2 * c->keep[i] / c->square[i] + 1 / (g[k] - g[i]));
    by_gap[k] -= weight / (g[k] - g[i]);
}

double blt_cascade_size(const blt_cascade *c, const double *x, double factor, double *gradient) {
    double r[MAX][MAX], by_gap[MAX] = {0}, sum = 0;
    for (int i = 0; i < c->count; i++) {
        double scale = 0;
        for (int k = i; k < c->count; k++) {
            r[i][k] = residue(c, i, k);
            scale += x[k] * r[i][k];
        }
        sum += scale * scale;
        for (int k = i; k < c->count; k++) {
            gradient[k] += 2 * factor * scale * r[i][k];
            add_residue_slopes(c, i, k, 2 * scale * x[k] * r[i][k], by_gap);
        }
    }
    pull_gaps(c, by_gap, factor, gradient);
    return factor * sum;
}

blt_parameters blt_cascade_at(int count, int64_t n, const double *x) {
    blt_cascade c;
    double scale[MAX] = {0};
    (void)blt_cascade_set(count, n, x, &c);
    for (int i = 0; i < count; i++)
        for (int k = i; k < count; k++)
            scale[i] += x[k] * residue(&c, i, k);
    return blt_make(count, scale, c.gap);
}

/* Gaps that are not apart are moved. */
void blt_cascade_unknowns(int count, int64_t n, const double *scale, const double *gap, double *x) {
    blt_cascade c;
    double q = APART; /* the first has no neighbour above */
    for (int i = count - 1; i >= 0; i--) {
        const double spacing = q - APART - log(fmax(gap[i], START_GAP / (double)n));
        x[i] = 0;
        x[count + i] = log(fmax(spacing, 1e-3 * APART));
        q -= APART + exp(x[count + i]);
    }
    (void)blt_cascade_set(count, n, x, &c);
    for (int i = count - 1; i >= 0; i--) {
        double left = scale[i];
        for (int k = i + 1; k < count; k++)
            left -= x[k] * residue(&c, i, k);
        x[i] = left / residue(&c, i, i);
    }
}
