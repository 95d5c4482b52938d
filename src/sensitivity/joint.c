/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public call, and two streams of one contribution: x_t through C_1, and the squares of its coordinates, x_t o x_t, through C_2 (Kalinin, Upadhyay and
 * Lampert 2025). With |x_t| <= 1 and a weight w, both together are one Gaussian release whose sensitivity is
 *
 *     J^2 = max |C_1 U|^2 + w |C_2 V|^2        over the patterns and what neighbours make of U and V:
 *
 *     zero-out     u_t = x_t,          v_t = x_t o x_t
 *     replace-one  u_t = x_t - y_t,    v_t = x_t o x_t - y_t o y_t.
 *
 * One use, with a = |c_1|^2 and b = w |c_2|^2 of its columns. v is the diagonal of xx' - yy', so |v|^2 <= |xx' - yy'|_F^2
 * = |x|^4 + |y|^4 - 2 <x,y>^2, while |u|^2 = |x|^2 + |y|^2 - 2 <x,y>. Both grow with |x| and |y| while <x,y> = c stays, so
 *
 *     zero-out     J^2 = a + b
 *     replace-one  J^2 = max over c of a (2 - 2c) + 2 b (1 - c^2) = G(a, b):  4 a if 2 b <= a,  else 2 a + 2 b + a^2/(2 b).
 *
 * It is attained, in two coordinates: x and y at angles whose sum is a right angle have |v|^2 = 2 (1 - c^2). Where 2 b <= a the
 * worst c is -1, opposite contributions, whose squares are equal: the squares cost nothing.
 *
 * Several uses. For every diagonal D with D - X psd, X = C'C on the pattern, |C U|^2 <= sum_t D_t |u_t|^2. With D_1 and D_2 for the
 * two matrices the uses come apart, and each is at most what one use can be:
 *
 *     J^2 <= max over the patterns of sum_t G(D_1t, w D_2t)       (zero-out: sum_t D_1t + w D_2t).                          (1)
 *
 * One matrix for both, C_1 = C_2. By the strong duality of the semidefinite program that values a pattern (sensitivity/pattern.c)
 * there is a D whose sum is that value f. G is homogeneous, so (1) is G(1, w) f on every pattern: J = G(1, w)^(1/2) x the
 * sensitivity of C for contributions of any dimension, or an upper bound if that is one. Up to w = 1/2 replacing one unit costs
 * nothing more than without the squares, for any C, pattern and number of uses. Exact where X >= 0 on the pattern: the same x
 * and y in all uses attain it.
 *
 * Two matrices. Sums of rows of |X| are such a D; (1) is computed with them for cyclic participation, in one sweep over the
 * diagonals. Otherwise the maxima are taken apart: J^2 <= s_1^2 + w s_2^2, and 4 s_1^2 + 2 w s_2^2 for replacement, where
 * |v|^2 <= 2; s is the sensitivity under zero-out.
 */
#include "base/memory.h"
#include "sensitivity/sensitivity.h"

#include <float.h>
#include <math.h>

static const char BY_COLUMNS[] = "both moments of one use, by columns";
static const char BY_FACTOR[] = "sensitivity of one matrix for both moments";
static const char BY_ROWS[] = "both moments, by rows of |C'C| on a pattern";
static const char BY_SUM[] = "both moments, each at its own worst";
static const double UPWARDS = 1 + 16 * DBL_EPSILON; /* more than the few operations behind a value can lose */
static const double WEIGHT_MAX = 1e9;

typedef struct pair {
    const dpmf_strategy *of[2];
    const dpmf_participation *participation;
    double weight;
    int replaced;
    dpmf_evaluate_options options; /* of one matrix: zero-out */
} pair;

/* The square of one use. */
static double together(const pair *p, double a, double b) {
    if (!p->replaced) return a + b;
    return 2 * b <= a ? 4 * a : 2 * a + 2 * b + a / (2 * b) * a;
}

static dpmf_status conclude(double square, dpmf_certainty kind, const char *method, dpmf_sensitivity *out) {
    const double value = sqrt(square) * UPWARDS;
    if (!(value >= 0 && isfinite(value)))
        return base_fail(DPMF_ERROR_NUMERICAL, "the joint sensitivity is beyond the range of a double");
    *out = (dpmf_sensitivity){value, kind, DPMF_SENSITIVITY_PARTICIPATION, method, 0};
    return DPMF_OK;
}

/* ---- one use ---- */

static dpmf_status of_one_use(const pair *p, dpmf_sensitivity *out) {
    const int64_t n = p->of[0]->steps;
    double *norms = NULL, largest = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * n, "the column norms", &norms));
    for (int i = 0; i < 2; i++)
        TRY_DONE(dpmf_strategy_column_norms(p->of[i], norms + i * n));
    for (int64_t t = 0; t < n; t++) {
        const double square = together(p, norms[t] * norms[t], p->weight * norms[n + t] * norms[n + t]);
        largest = square > largest || !isfinite(square) ? square : largest;
        if (!isfinite(largest)) break;
    }
    TRY_DONE(conclude(largest, DPMF_EXACT, BY_COLUMNS, out));
done:
    base_free(norms);
    return status;
}

/* ---- several uses ---- */

/* Is it attained by one contribution in all uses, as by X >= 0 or by a diagonal X? */
static int is_attained(const dpmf_sensitivity *found) {
    static const sensitivity_method_kind methods[] = {SENSITIVITY_METHOD_COLUMN,       SENSITIVITY_METHOD_EARLIEST,
                                                      SENSITIVITY_METHOD_NODES,        SENSITIVITY_METHOD_SEPARATE,
                                                      SENSITIVITY_METHOD_NON_NEGATIVE, SENSITIVITY_METHOD_CANCELLED};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
        if (found->kind == DPMF_EXACT && found->method == sensitivity_method_text(methods[i])) return 1;
    return 0;
}

static dpmf_status of_one_matrix(const pair *p, dpmf_sensitivity *out) {
    dpmf_sensitivity found = {0};
    TRY(sensitivity_of_stream(p->of[0], p->participation, &p->options, &found));
    const int opposite = p->replaced && 2 * p->weight <= 1; /* -x for x, with any signs */
    const dpmf_certainty kind =
        is_attained(&found) || (opposite && found.kind == DPMF_EXACT) ? DPMF_EXACT : DPMF_UPPER_BOUND;
    return conclude(found.value * found.value * together(p, 1, p->weight), kind, BY_FACTOR, out);
}

static dpmf_status of_both_apart(const pair *p, double *square) {
    dpmf_sensitivity first = {0}, second = {0};
    TRY(sensitivity_of_stream(p->of[0], p->participation, &p->options, &first));
    TRY(sensitivity_of_stream(p->of[1], p->participation, &p->options, &second));
    const double a = first.value * first.value, b = p->weight * second.value * second.value;
    *square = p->replaced ? 4 * a + 2 * b : a + b;
    return DPMF_OK;
}

typedef struct rows {
    int64_t n;
    double *sums; /* of |X| over the pattern, for each step */
} rows;

static dpmf_status add_lag(void *context, int64_t lag, const double *values) {
    const rows *r = context;
    for (int64_t t = 0; t + lag < r->n; t++) {
        r->sums[t] += fabs(values[t]);
        if (lag > 0) r->sums[t + lag] += fabs(values[t]);
    }
    return DPMF_OK;
}

/* Sums of rows of one matrix; `there` = 0 if they would take too long. */
static dpmf_status sum_rows(const pair *p, int which, int *there, double *sums) {
    const dpmf_participation *q = p->participation;
    sensitivity_task task = {.strategy = p->of[which],
                             .pattern = q->pattern,
                             .n = q->steps,
                             .k = q->count,
                             .b = q->separation,
                             .listed = q,
                             .run = &p->options.run};
    rows r = {q->steps, sums};
    dpmf_status status = DPMF_OK;
    TRY(base_pool_create(p->options.run.threads, &task.pool));
    sensitivity_task_unwrap(&task);
    TRY_DONE(sensitivity_task_open(&task));
    const double lags = ceil((double)task.reach / (double)task.b);
    *there = sensitivity_task_pattern(&task) == WORKLOAD_FIXED && lags * sensitivity_gram_cost(&task) <= task.work_max;
    if (!*there) goto done;
    const sensitivity_gram gram = sensitivity_gram_of(&task);
    TRY_DONE(sensitivity_gram_sweep(&gram, 0, task.b, task.reach, "summing over patterns", add_lag, &r));
done:
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    return status;
}

/* Rounding of a sum of n terms, and of entries of X that are such sums themselves. */
static double rounded_up(int64_t n, double square) {
    return square * (1 + 4 * DBL_EPSILON * (double)(n + 16));
}

static dpmf_status of_patterns(const pair *p, double *square) {
    const int64_t n = p->of[0]->steps, b = p->participation->separation;
    double *sums = NULL, largest = 0;
    int there = 1;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(2 * n, "the sums of rows", &sums));
    for (int i = 0; i < 2 && there; i++)
        TRY_DONE(sum_rows(p, i, &there, sums + i * n));
    for (int64_t first = 0; there && first < b && first < n; first++) {
        double sum = 0;
        for (int64_t t = first; t < n; t += b)
            sum += together(p, sums[t], p->weight * sums[n + t]);
        largest = fmax(largest, sum);
    }
    if (there) *square = rounded_up(n, largest);
done:
    base_free(sums);
    return status;
}

static dpmf_status of_two_matrices(const pair *p, dpmf_sensitivity *out) {
    double apart = 0, by_rows = INFINITY;
    TRY(of_both_apart(p, &apart));
    if (sensitivity_task_pattern(&(sensitivity_task){.pattern = p->participation->pattern,
                                                     .n = p->participation->steps,
                                                     .k = p->participation->count,
                                                     .b = p->participation->separation}) == WORKLOAD_FIXED)
        TRY(of_patterns(p, &by_rows));
    return conclude(fmin(apart, by_rows), DPMF_UPPER_BOUND, by_rows < apart ? BY_ROWS : BY_SUM, out);
}

static dpmf_status check(const dpmf_evaluate_options *o, const dpmf_participation *participation) {
    if (!(o->squares > 0 && o->squares <= WEIGHT_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "squares with a weight of %g, accepted above 0, up to %g; 0 without them",
                         o->squares, WEIGHT_MAX);
    if (o->columns != 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "squares with columns 1: the joint sensitivity is for contributions of "
                         "any dimension, columns 0");
    if (o->of != DPMF_SENSITIVITY_PARTICIPATION)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "squares and the largest column: under sampling both moments are one "
                                                 "contribution of norm sqrt(1 + weight) to one matrix");
    return o->squares_of == NULL ? DPMF_OK : sensitivity_check(o->squares_of, participation, o);
}

static dpmf_status joint(const dpmf_strategy *strategy, const dpmf_participation *participation,
                         const dpmf_evaluate_options *options, dpmf_sensitivity *out) {
    TRY(sensitivity_check(strategy, participation, options));
    TRY(check(options, participation));
    pair p = {.of = {strategy, options->squares_of == NULL ? strategy : options->squares_of},
              .participation = participation,
              .weight = options->squares,
              .replaced = options->adjacency == DPMF_ADJACENCY_REPLACE_ONE,
              .options = *options};
    if (p.of[1]->steps != strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the squares' strategy has %lld steps, the first %lld: they must agree",
                         (long long)p.of[1]->steps, (long long)strategy->steps);
    p.options.adjacency = DPMF_ADJACENCY_ZERO_OUT;
    p.options.squares = 0;
    p.options.squares_of = NULL;
    if (p.of[1] == p.of[0]) return of_one_matrix(&p, out);
    return participation == NULL || workload_is_once(participation) ? of_one_use(&p, out) : of_two_matrices(&p, out);
}

dpmf_status dpmf_sensitivity_compute(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                     const dpmf_evaluate_options *options, dpmf_sensitivity *out) {
    const dpmf_evaluate_options o = options == NULL ? dpmf_evaluate_options_defaults() : *options;
    return (o.squares != 0 ? joint : sensitivity_of_stream)(strategy, participation, &o, out);
}
