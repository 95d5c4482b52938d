/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The optimum over patterns by cutting planes: the dual over the patterns found so far, at first the classes of cyclic
 * participation, or patterns of a file that cover all steps where it does not have these, is maximised by limited-memory BFGS; then the patterns whose constraint X(V) violates most (find.c)
 * join and those whose nu is 0 leave, until X(V) violates none. Every V gives a lower bound, with any set of patterns.
 *
 * The upper bound: X(V) of a nearly optimal V violates constraints mostly at steps where V is small, since these cost
 * the dual little; where V is small the loss hardly depends on X either. So X is repaired by X <- S X S, S diagonal:
 * each violated pattern lowers the scales of its steps, those with small V most, until it is satisfied. What remains is
 * divided out of all of X. Dense algebra, O(n^3) for each value of the dual.
 */
#include "optimum/patterns/patterns.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "optimum/epochs/epochs.h"
#include "sensitivity/sensitivity.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * ---- the dual ----
 *
 * The dual of the optimum over patterns, its value and gradient. Unknowns of a pattern: eta, and vectors g_1, ..., g_m
 * of `rank` numbers; nu = eta^2, Y = the products of the g made unit vectors. Every point is then feasible, every Y can
 * be reached (a rank of sqrt(2m) suffices for the best one), and a pattern leaves at eta = 0, a finite point. With F =
 * 2 ln T - ln sum nu - ln sum p and dT = <X, dV>/2,
 *
 *     dF/deta = 2 eta (<X_p,Y>/T - 1/sum nu),   dF/dg_i = 2 nu (X_p g)_i / T, the part across g_i over |g_i|.
 *
 * For the max loss p_t is the square of an unknown too, dF/dp_t = rows_t/(p_t T) - 1/sum p, with a barrier
 * mu sum ln(p_t / mean p).
 */

typedef struct dual_part {
    int64_t size, rank, *steps; /* borrowed */
    int64_t at;                 /* place of its unknowns: root of nu, then size x rank numbers whose rows make Y */
} dual_part;

typedef struct dual_problem {
    int64_t n, parts_count, unknowns; /* unknowns: of the parts; then n roots of p for the max loss */
    int max_loss;
    const double *weights; /* RMS: NULL or p */
    const dual_part *parts;
    double barrier;                                                  /* max loss: keeps p from 0 */
    double offset;                                                   /* of the value */
    double *memory;                                                  /* the arrays below */
    double *a, *v, *lower, *w, *left, *x, *values, *p, *rows, *unit; /* A, V, L, SVD, X(V), ... */
    double trace, total, weight;                                     /* T, sum nu, sum p of the last point */
} dual_problem;
static void dual_free(dual_problem *d) {
    base_free(d->memory);
    *d = (dual_problem){0};
}

static epochs_mean mean_of(const dual_problem *d) {
    return (epochs_mean){d->n, d->a, d->lower, d->w, d->left, d->x, d->values, d->rows};
}

static dpmf_status dual_create(const dpmf_workload *workload, int64_t k, int max_loss, const double *weights,
                               dual_problem *out) {
    const int64_t n = workload->steps, square = n * n;
    dual_problem d = {.n = n, .max_loss = max_loss, .weights = weights};
    TRY(base_alloc_doubles(6 * square + 3 * n + 2 * k * (k + 2), "the dual", &d.memory));
    double **const squares[] = {&d.a, &d.v, &d.lower, &d.w, &d.left, &d.x};
    for (int i = 0; i < 6; i++)
        *squares[i] = d.memory + i * square;
    d.values = d.memory + 6 * square;
    d.p = d.values + n;
    d.rows = d.p + n;
    d.unit = d.rows + n; /* unit vectors, and X times them; a rank is at most k + 2 */
    const epochs_mean mean = mean_of(&d);
    dpmf_status status = epochs_mean_load(workload, &mean, d.a);
    if (status == DPMF_OK)
        *out = d;
    else
        dual_free(&d);
    return status;
}

/* The vectors of a part, of length 1; 0 if one vanishes. */
static int unit_vectors(const dual_part *part, const double *y, double *unit) {
    for (int64_t i = 0; i < part->size; i++) {
        const double *g = y + part->at + 1 + i * part->rank;
        const double norm = sqrt(base_dot(part->rank, g, g));
        if (!(norm > 1e-100 && norm < 1e100)) return 0;
        for (int64_t r = 0; r < part->rank; r++)
            unit[i * part->rank + r] = g[r] / norm;
    }
    return 1;
}

static int build(dual_problem *d, const double *y) {
    const int64_t n = d->n;
    memset(d->v, 0, (size_t)(n * n) * sizeof *d->v);
    d->total = 0;
    for (int64_t q = 0; q < d->parts_count; q++) {
        const dual_part *part = &d->parts[q];
        const double nu = y[part->at] * y[part->at];
        if (!unit_vectors(part, y, d->unit)) return 0;
        d->total += nu;
        for (int64_t i = 0; i < part->size; i++)
            for (int64_t j = 0; j < part->size; j++)
                d->v[part->steps[i] * n + part->steps[j]] +=
                    nu * (i == j ? 1 : base_dot(part->rank, d->unit + i * part->rank, d->unit + j * part->rank));
    }
    return d->total > 0 && isfinite(d->total);
}

/* p of the max loss; 0 if one is too small to continue with. */
static int set_weights(dual_problem *d, const double *root, double *logarithms) {
    d->weight = 1;
    *logarithms = 0;
    if (!d->max_loss) return 1;
    for (int64_t t = 0; t < d->n; t++) {
        d->p[t] = root[t] * root[t];
        if (!(d->p[t] > 1e-100)) return 0;
        *logarithms += log(d->p[t]);
    }
    d->weight = base_sum(d->n, d->p);
    *logarithms -= (double)d->n * log(d->weight / (double)d->n);
    return 1;
}

/* offset - ln of the bound (with the barrier), to be minimized; a base_objective. */
static dpmf_status dual_value(void *dual, const double *y, double *f, double *gradient) {
    dual_problem *d = dual;
    const epochs_mean mean = mean_of(d);
    const double *root = y + d->unknowns - d->n;
    double logarithms = 0;
    int inside = 0;
    *f = INFINITY;
    if (!set_weights(d, root, &logarithms) || !build(d, y)) return DPMF_OK;
    TRY(epochs_mean_make(&mean, d->v, d->max_loss ? d->p : d->weights, &d->trace, &inside));
    if (!inside) return DPMF_OK;
    *f = d->offset - (2 * log(d->trace) - log(d->total) - log(d->weight) + d->barrier * logarithms);
    for (int64_t q = 0; q < d->parts_count; q++) {
        const dual_part *part = &d->parts[q];
        const int64_t m = part->size, rank = part->rank;
        const double eta = y[part->at];
        double inner = 0, *pulled = d->unit + m * rank;
        (void)unit_vectors(part, y, d->unit);
        for (int64_t i = 0; i < m; i++) {
            double *to = pulled + i * rank, *at = gradient + part->at + 1 + i * rank;
            const double *u = d->unit + i * rank, *g = y + part->at + 1 + i * rank;
            memset(to, 0, (size_t)rank * sizeof *to);
            for (int64_t j = 0; j < m; j++)
                for (int64_t r = 0; r < rank; r++)
                    to[r] += d->x[part->steps[i] * d->n + part->steps[j]] * d->unit[j * rank + r];
            const double along = base_dot(rank, to, u), norm = sqrt(base_dot(rank, g, g));
            inner += along;
            for (int64_t r = 0; r < rank; r++)
                at[r] = -2 * eta * eta * (to[r] - along * u[r]) / (d->trace * norm);
        }
        gradient[part->at] = -2 * eta * (inner / d->trace - 1 / d->total);
    }
    for (int64_t t = 0; d->max_loss && t < d->n; t++)
        gradient[d->unknowns - d->n + t] =
            -2 * root[t] *
            ((d->rows[t] / d->trace + d->barrier) / d->p[t] - (1 + d->barrier * (double)d->n) / d->weight);
    return DPMF_OK;
}

static const double WORK = 3e10;           /* n^3 per step of the ascent: about two minutes */
enum { STEPS_MIN = 60, STEPS_MAX = 4000 }; /* of the ascent, in total */
enum { ROUNDS = 30, ITERATIONS = 600, SWEEPS = 40, FOUND_ROOM = 4096 };
enum { PARTS_PER_STEP = 20 };              /* patterns in the dual, at most, for each step */
enum { UNKNOWNS_MAX = 2000000 };           /* of patterns from a file: 1 GB */
static const double ENTRY = 0.02;          /* nu of a new pattern, of the least V_tt on it */
static const double LEAVE = 1e-8;          /* a pattern with less than this leaves */
static const double FIRST_DECREASE = 1e-7; /* of ln bound, over some steps, that ends an ascent; falls with the gap */

typedef struct search {
    const patterns_task *task;
    int64_t n, k;
    dual_problem dual;
    patterns_list held, found; /* in the dual; what the last search found */
    dual_part *parts;
    double *y, *next, *gradient; /* unknowns */
    double *x, *scale;           /* n x n: the repair; n */
    patterns_answer best;
} search;

/* The number of dimensions is that of sensitivity/pattern.c. */
static int64_t dimensions(int64_t size) {
    return (int64_t)ceil(sqrt(2 * (double)size)) + 1;
}

/* and no fewer than make Y positive definite: V is not, if a pattern whose steps are in no other has a singular Y. */
static int64_t rank_of(int64_t size) {
    return size > dimensions(size) ? size : dimensions(size);
}

static int64_t most_unknowns(int64_t room, int64_t n, int64_t k) {
    return room * (1 + k * rank_of(k)) + n;
}

static void set_parts(search *s) {
    int64_t at = 0;
    for (int64_t q = 0; q < s->held.count; q++) {
        const int64_t size = s->held.sizes[q], rank = rank_of(size);
        s->parts[q] = (dual_part){size, rank, s->held.steps + q * s->k, at};
        at += 1 + size * rank;
    }
    s->dual.parts = s->parts;
    s->dual.parts_count = s->held.count;
    s->dual.unknowns = at + (s->task->max_loss ? s->n : 0);
}

/* A pattern with Y = I, or nearly: vectors that are orthogonal as far as their number allows. */
static void start_part(const dual_part *part, double eta, double *y) {
    y[part->at] = eta;
    for (int64_t i = 0; i < part->size; i++)
        for (int64_t r = 0; r < part->rank; r++)
            y[part->at + 1 + i * part->rank + r] =
                i % part->rank == r ? 1 : 0.1 * sin((double)(1 + i * part->rank + r));
}

/*
 * A pattern that X(V) violates, with nearly the Y that shows it: with another Y, nu would fall before Y has turned.
 * That Y itself may be singular, and vectors cannot leave a line in which they all lie.
 */
static dpmf_status start_violated(search *s, const dual_part *part, double eta, double *y) {
    const int64_t m = part->size;
    double low = 0, high = 0, *x = NULL;
    TRY(base_alloc_doubles(2 * m * m + m + sensitivity_ascent_room(m), "the matrix of a pattern", &x));
    double *work = x + m * m, *u = work + m * m, *vectors = u + m;
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < m; j++)
            x[i * m + j] = s->dual.x[part->steps[i] * s->n + part->steps[j]];
    start_part(part, eta, y);
    dpmf_status status = sensitivity_ascent(m, x, work, vectors, u, &low, &high);
    const int64_t r = dimensions(m);
    for (int64_t i = 0; i < m && status == DPMF_OK; i++)
        for (int64_t j = 0; j < part->rank; j++) {
            double *to = &y[part->at + 1 + i * part->rank + j];
            *to = (j < r ? vectors[i * r + j] : 0) + 0.2 * *to;
        }
    base_free(x);
    return status;
}

/* Patterns of a list that cover all steps, each of them the one with the most steps that are not covered yet. */
static dpmf_status cover_steps(search *s) {
    const dpmf_participation *p = s->task->participation;
    int64_t left = s->n;
    char *covered = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(s->n, 1, "the steps", (void **)&covered));
    while (left > 0) {
        int64_t best = -1, most = 0;
        for (int64_t q = 0; q < p->patterns; q++) {
            int64_t gain = 0;
            for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
                gain += !covered[p->listed[j]];
            if (gain > most) best = q;
            if (gain > most) most = gain;
        }
        if (best < 0 || s->held.count == s->held.room)
            TRY_DONE(
                base_fail(DPMF_ERROR_UNSUPPORTED,
                          "optimum over patterns: of %lld steps %lld are in none of the patterns that fit in memory",
                          (long long)s->n, (long long)left));
        const int64_t size = p->begins[best + 1] - p->begins[best], *steps = p->listed + p->begins[best];
        memcpy(s->held.steps + s->held.count * s->k, steps, (size_t)size * sizeof *steps);
        s->held.sizes[s->held.count++] = size;
        for (int64_t j = 0; j < size; j++)
            covered[steps[j]] = 1;
        left -= most;
    }
done:
    base_free(covered);
    return status;
}

/* The distance of evenly spaced patterns that part the steps. */
static int64_t period_of(const search *s) {
    const dpmf_participation *p = s->task->participation;
    const int64_t period = (s->n + s->k - 1) / s->k, b = p->separation;
    if (p->pattern == WORKLOAD_LISTED || (period >= b && p->pattern != WORKLOAD_EPOCHS)) return period;
    return b < s->n ? b : s->n;
}

/* The classes of cyclic participation, each step in one of them. */
static void set_classes(search *s) {
    const int64_t n = s->n, k = s->k, period = period_of(s);
    for (int64_t i = 0; i < period; i++) {
        int64_t size = 0;
        for (int64_t t = i; t < n && size < k; t += period)
            s->held.steps[i * k + size++] = t;
        s->held.sizes[i] = size;
    }
    s->held.count = period;
}

/* Are these classes among the patterns? Those of a list may be others. */
static int has_classes(const search *s) {
    const int64_t period = period_of(s);
    if (s->task->participation->pattern != WORKLOAD_LISTED) return 1;
    for (int64_t i = 0; i < period; i++)
        if (!workload_patterns_contain(s->task->participation, i, period)) return 0;
    return period <= s->held.room;
}

static dpmf_status start(search *s) {
    if (has_classes(s))
        set_classes(s);
    else
        TRY(cover_steps(s));
    set_parts(s);
    for (int64_t q = 0; q < s->held.count; q++)
        start_part(&s->parts[q], 1, s->y);
    for (int64_t t = 0; t < s->n && s->task->max_loss; t++)
        s->y[s->dual.unknowns - s->n + t] = 1;
    return DPMF_OK;
}

/* Of a list there may be few patterns, or large ones: the memory of the ascent is some sixty times the unknowns. */
static int64_t room_for(const patterns_task *task) {
    const dpmf_participation *p = task->participation;
    const int64_t n = p->steps, k = p->count, most = UNKNOWNS_MAX / (1 + k * rank_of(k)) + 1;
    int64_t room = PARTS_PER_STEP * n;
    if (p->pattern != WORKLOAD_LISTED) return room;
    if (room > p->patterns) room = p->patterns;
    return room < most ? room : most;
}

static dpmf_status search_open(const patterns_task *task, search *s) {
    const int64_t n = task->workload->steps, k = task->participation->count, room = room_for(task);
    s->task = task;
    s->n = n;
    s->k = k;
    s->best.upper = INFINITY;
    TRY(dual_create(task->workload, k, task->max_loss, task->weights, &s->dual));
    TRY(patterns_list_create(k, room, &s->held));
    TRY(patterns_list_create(k, FOUND_ROOM, &s->found));
    TRY(base_alloc(room, sizeof *s->parts, "patterns", (void **)&s->parts));
    TRY(base_alloc_doubles(most_unknowns(room, n, k), "the dual variables", &s->y));
    TRY(base_alloc_doubles(most_unknowns(room, n, k), "the dual variables", &s->next));
    TRY(base_alloc_doubles(most_unknowns(room, n, k), "a gradient", &s->gradient));
    TRY(base_alloc_square(n, "X", &s->x));
    TRY(base_alloc_square(n, "C", &s->best.c));
    TRY(base_alloc_doubles(n, "scales", &s->scale));
    return start(s);
}

/* ---- the upper bound ---- */

static void scale_step(search *s, int64_t t, double by) {
    for (int64_t u = 0; u < s->n; u++) {
        s->x[t * s->n + u] *= by;
        s->x[u * s->n + t] *= by;
    }
}

/* Lowers the steps of a pattern, in proportion to 1/V_tt, until its value is close to `level`. */
static dpmf_status lower_pattern(search *s, int64_t size, const int64_t *steps, double level, double *matrix) {
    double value = 0, least = INFINITY;
    for (int64_t i = 0; i < size; i++)
        least = fmin(least, s->dual.v[steps[i] * s->n + steps[i]]);
    for (int trial = 0; trial < 4; trial++) {
        double moved = 0, all = 0;
        /* f of a pattern in s->x, or an upper bound of it. */
        sensitivity_found found;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++)
                matrix[i * size + j] = s->x[steps[i] * s->n + steps[j]];
        TRY(sensitivity_pattern_evaluate(size, matrix, DPMF_BOUND_AUTO, &found));
        value = found.square;
        if (!(value > level)) return DPMF_OK;
        for (int64_t i = 0; i < size; i++) {
            const double share = matrix[i * size + i], light = least / s->dual.v[steps[i] * s->n + steps[i]];
            all += share;
            moved += share * light;
        }
        /* d ln value = -2 a moved/all for scales e^(-a light) */
        const double a = fmin(2, 0.5 * log(value / level) * all / moved + 1e-15);
        for (int64_t i = 0; i < size; i++)
            scale_step(s, steps[i], exp(-a * least / s->dual.v[steps[i] * s->n + steps[i]]));
    }
    return DPMF_OK;
}

/* X(V) in s->x, repaired; `most`: a proven bound of f over all patterns. */
static dpmf_status repair(search *s, double level, double *most) {
    double *matrix = NULL;
    int whole = 1;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(s->k * s->k, "the matrix of a pattern", &matrix));
    for (int sweep = 0; sweep < SWEEPS; sweep++) {
        TRY_DONE(patterns_find(s->task->participation, s->x, level, &s->found, most, &whole));
        if (s->found.count == 0 || *most <= level * (1 + 0.01 * s->task->tolerance)) break;
        for (int64_t q = 0; q < s->found.count; q++)
            TRY_DONE(lower_pattern(s, s->found.sizes[q], s->found.steps + q * s->k, level, matrix));
    }
done:
    base_free(matrix);
    return status;
}

/* The bounds at y, where the dual was evaluated last; the better mechanism is kept. */
static dpmf_status certify(search *s) {
    const int64_t n = s->n;
    const patterns_task *task = s->task;
    const double rounding = 64 * (double)n * DBL_EPSILON, level = s->dual.trace / s->dual.total;
    double most = 0, squared = 0, *inverse = NULL;
    int definite = 0;
    s->best.lower = fmax(s->best.lower, level * s->dual.trace / s->dual.weight * (1 - rounding));
    memcpy(s->x, s->dual.x, (size_t)(n * n) * sizeof *s->x);
    TRY(repair(s, level, &most));
    for (int64_t i = 0; i < n * n; i++)
        s->x[i] /= most * (1 + rounding);
    TRY(epochs_factor(n, s->x, &definite));
    if (!definite) return DPMF_OK;
    TRY(base_alloc_square(n, "the inverse of C", &inverse));
    memcpy(inverse, s->x, (size_t)(n * n) * sizeof *inverse);
    dpmf_status status = epochs_loss(task->workload, task->max_loss, task->weights, inverse, &squared);
    base_free(inverse);
    if (status != DPMF_OK) return status;
    if (squared < s->best.upper) {
        s->best.upper = squared;
        memcpy(s->best.c, s->x, (size_t)(n * n) * sizeof *s->x);
    }
    return DPMF_OK;
}

static double gap_of(const search *s) {
    return sqrt(s->best.upper / s->best.lower) - 1;
}

/* ---- patterns come and go ---- */

/* The index of a pattern among those held, or their number. */
static int64_t place_of(const search *s, int64_t size, const int64_t *steps) {
    int64_t q = 0;
    while (q < s->held.count &&
           (s->held.sizes[q] != size || memcmp(s->held.steps + q * s->k, steps, (size_t)size * sizeof *steps) != 0))
        q++;
    return q;
}

static double least_v(const search *s, int64_t size, const int64_t *steps) {
    double least = INFINITY;
    for (int64_t i = 0; i < size; i++)
        least = fmin(least, s->dual.v[steps[i] * s->n + steps[i]]);
    return least;
}

/* Removes patterns whose nu is gone; the others move up, with their unknowns, into s->next. */
static void drop_parts(search *s) {
    int64_t kept = 0, at = 0;
    for (int64_t q = 0; q < s->held.count; q++) {
        const dual_part part = s->parts[q];
        const int64_t length = 1 + part.size * part.rank;
        const double eta = s->y[part.at];
        if (eta * eta < LEAVE * least_v(s, part.size, part.steps)) continue;
        memmove(s->held.steps + kept * s->k, part.steps, (size_t)part.size * sizeof *part.steps);
        s->held.sizes[kept++] = part.size;
        memcpy(s->next + at, s->y + part.at, (size_t)length * sizeof *s->y);
        at += length;
    }
    s->held.count = kept;
}

/* Adds the worst patterns of X(V); returns their number. */
static dpmf_status exchange(search *s, int64_t *joined) {
    const int64_t before = s->dual.unknowns, n = s->n;
    const double level = s->dual.trace / s->dual.total;
    double most = 0;
    int whole = 1;
    TRY(patterns_find(s->task->participation, s->dual.x, level * (1 + 0.1 * s->task->tolerance), &s->found, &most,
                      &whole));
    drop_parts(s);
    const int64_t kept = s->held.count, room = s->held.room - kept, wanted = 4 * n + 200;
    for (int64_t q = 0; q < s->found.count && s->held.count < kept + (room < wanted ? room : wanted); q++) {
        const int64_t *steps = s->found.steps + q * s->k, size = s->found.sizes[q];
        if (place_of(s, size, steps) < s->held.count) continue;
        memcpy(s->held.steps + s->held.count * s->k, steps, (size_t)size * sizeof *steps);
        s->held.sizes[s->held.count++] = size;
    }
    set_parts(s);
    for (int64_t q = kept; q < s->held.count; q++)
        TRY(start_violated(s, &s->parts[q], sqrt(ENTRY * least_v(s, s->parts[q].size, s->parts[q].steps)), s->next));
    for (int64_t q = 0; q < s->found.count; q++) { /* nearly gone, with a Y that cannot turn any more */
        const int64_t at = place_of(s, s->found.sizes[q], s->found.steps + q * s->k);
        if (at >= kept) continue;
        const double least = least_v(s, s->parts[at].size, s->parts[at].steps), eta = s->next[s->parts[at].at];
        if (eta * eta < 0.1 * ENTRY * least) TRY(start_violated(s, &s->parts[at], sqrt(ENTRY * least), s->next));
    }
    if (s->task->max_loss) memcpy(s->next + s->dual.unknowns - n, s->y + before - n, (size_t)n * sizeof *s->y);
    double *swap = s->y;
    s->y = s->next;
    s->next = swap;
    *joined = s->held.count - kept;
    return DPMF_OK;
}

static double steps_left(const search *s) {
    const double n = (double)s->n;
    double work = n * n * n;
    for (int64_t q = 0; s->task->participation->pattern == WORKLOAD_LISTED && q < s->held.count; q++)
        work += (double)(s->parts[q].size * s->parts[q].size * s->parts[q].rank);
    return fmin(STEPS_MAX, fmax(STEPS_MIN, WORK / work)) - s->best.iterations;
}

static dpmf_status climb(search *s, double decrease) {
    const double left = fmax(1, steps_left(s));
    const base_objective objective = {s->dual.unknowns, &s->dual, dual_value};
    const base_minimize_options options = {.gradient = 1e-12,
                                           .decrease = decrease,
                                           .past = 10,
                                           .pairs = 30,
                                           .iterations = left < ITERATIONS ? (int)left : ITERATIONS,
                                           .what = "optimum over patterns",
                                           .run = s->task->run};
    base_minimum end = {0};
    double f = 0;
    s->dual.offset = 0;
    TRY(dual_value(&s->dual, s->y, &f, s->gradient));
    if (isfinite(f)) s->dual.offset = 1 - f; /* about 1, so that a decrease is a part of the bound */
    TRY(base_minimize(&objective, &options, s->y, &end));
    s->best.iterations += end.iterations;
    TRY(dual_value(&s->dual, s->y, &f, s->gradient));
    return isfinite(f) ? DPMF_OK : base_fail(DPMF_ERROR_NUMERICAL, "optimum over patterns: the dual is not finite");
}

static dpmf_status run_rounds(search *s) {
    double decrease = FIRST_DECREASE, before = INFINITY;
    const double tolerance = s->task->tolerance;
    int stale = 0;
    for (int round = 0; round < ROUNDS; round++) {
        int64_t joined = 0;
        s->dual.barrier = s->task->max_loss ? fmax(0.3 * tolerance, 0.03 * pow(0.3, round)) / (double)s->n : 0;
        TRY(climb(s, decrease));
        TRY(certify(s));
        char text[120];
        snprintf(text, sizeof text, "optimum over patterns: %lld of them, certificate %.9g", (long long)s->held.count,
                 1 + gap_of(s));
        TRY(base_progress(s->task->run, text, -1));
        s->best.converged = gap_of(s) <= tolerance;
        if (s->best.converged) return DPMF_OK;
        stale = gap_of(s) > 0.7 * before ? stale + 1 : 0;
        if (stale >= 4 || steps_left(s) < 1) return DPMF_OK;
        before = fmin(before, gap_of(s));
        TRY(exchange(s, &joined));
        /* the gap of the mechanism is of first order, that of the dual of second order */
        decrease = fmax(1e-15, fmin(0.3 * decrease, 1e-4 * gap_of(s) * gap_of(s)));
    }
    return DPMF_OK;
}

dpmf_status patterns_solve(const patterns_task *task, patterns_answer *out) {
    search s = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(search_open(task, &s));
    TRY_DONE(run_rounds(&s));
    if (!isfinite(s.best.upper))
        TRY_DONE(base_fail(DPMF_ERROR_NUMERICAL, "optimum over patterns: no positive definite X was found"));
    s.best.patterns = s.held.count;
    *out = s.best;
    s.best.c = NULL;
done:
    base_free(s.y);
    base_free(s.next);
    base_free(s.gradient);
    base_free(s.x);
    base_free(s.scale);
    base_free(s.best.c);
    base_free(s.parts);
    patterns_list_free(&s.held);
    patterns_list_free(&s.found);
    dual_free(&s.dual);
    return status;
}
