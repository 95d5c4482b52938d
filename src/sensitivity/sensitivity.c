/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sensitivity: how far C g moves in l2 norm when the contributions of one unit, each of norm at most 1, are taken out
 * (Pillutla et al. 2025, Definition 3.13; Choquette-Choo et al. 2023, Section 2). For a unit that takes part in the
 * steps of a pattern p its square is f(X_p), the largest sum_{t,u in p} X[t,u] <g_t, g_u> over vectors of norm at most
 * 1, with X = C'C; the sensitivity is the largest over the patterns that the participation allows.
 *
 *     single       the largest column norm of C (Denisov et al. 2022, Section 2)
 *     cyclic       b patterns, below; full participation is one pattern, b = 1
 *     min-sep      dynamic programs: sensitivity/apart.c
 *     shuffled     dynamic programs: sensitivity/apart.c
 *     from a file  all patterns, one by one: sensitivity/listed.c
 *
 * f itself is found exactly where a theorem or a certificate says so, and bounded from above elsewhere
 * (sensitivity/pattern.c). "Exact" holds for contributions of every dimension: the values are attained by multiples of
 * one vector. A maximum over such multiples alone is never called exact: vectors can do better.
 *
 * Contributions of one number (columns = 1). Every value above holds for them, and an exact one is exact for them too. Where
 * it is only bounded, the patterns are looked at once more with the maximum over signs in the place of f; if this is less,
 * it is the answer, and says that it holds for one column alone.
 *
 * Replacing one unit by another moves C g by at most twice as far, and for some pair by exactly that.
 */
#include "sensitivity/sensitivity.h"
#include "base/memory.h"
#include "base/sum.h"
#include "strategy/strategy.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

/* ---- one participation ---- */

static dpmf_status largest_column(const dpmf_strategy *s, double *out) {
    double *norms = NULL;
    TRY(base_alloc_doubles(s->steps, "the column norms", &norms));
    dpmf_status status = dpmf_strategy_column_norms(s, norms);
    double largest = 0;
    for (int64_t t = 0; t < s->steps && status == DPMF_OK; t++) {
        if (!isfinite(norms[t]))
            status = base_fail(DPMF_ERROR_NUMERICAL, "the norm of column %lld is not finite", (long long)t);
        if (norms[t] > largest) largest = norms[t];
    }
    base_free(norms);
    if (status == DPMF_OK) *out = largest;
    return status;
}

/* The longest column of C: the family's own answer, if there is one that `exact` allows; else from all norms. */
static dpmf_status longest_column(const dpmf_strategy *s, int exact, dpmf_sensitivity *out) {
    dpmf_sensitivity found = {.kind = DPMF_EXACT, .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
    if (s->ops->longest_column == NULL || !s->ops->longest_column(s, &found) || (exact && found.kind != DPMF_EXACT)) {
        found = (dpmf_sensitivity){.kind = DPMF_EXACT, .method = sensitivity_method_text(SENSITIVITY_METHOD_COLUMN)};
        TRY(largest_column(s, &found.value));
    }
    *out = found;
    return DPMF_OK;
}

/* A bound that was asked for by name is given by name, though the column norm is what it comes to. */
static dpmf_status single(const dpmf_strategy *s, dpmf_sensitivity_bound bound, dpmf_sensitivity *out) {
    static const sensitivity_method_kind methods[] = {[DPMF_BOUND_SPECTRAL] = SENSITIVITY_METHOD_SPECTRAL,
                                                      [DPMF_BOUND_ABSOLUTE] = SENSITIVITY_METHOD_ABSOLUTE,
                                                      [DPMF_BOUND_SIGNS] = SENSITIVITY_METHOD_SIGNS};
    TRY(longest_column(s, bound != DPMF_BOUND_AUTO, out));
    out->of = DPMF_SENSITIVITY_PARTICIPATION;
    if (bound == DPMF_BOUND_AUTO) return DPMF_OK;
    if (bound == DPMF_BOUND_SIGNS) out->value *= sqrt(M_PI_2);
    out->kind = DPMF_UPPER_BOUND;
    out->method = sensitivity_method_text(methods[bound]);
    return DPMF_OK;
}

/* ---- cyclic ---- */

/*
 * Cyclic participation: the b patterns p_l = {l, l+b, l+2b, ...}, l < b; and full participation, which is b = 1.
 *
 * Two participations are a multiple of b apart, so only the diagonals 0, b, 2b, ... of X = C'C matter, n k/2 numbers
 * (Pillutla et al. 2025, Section 3.3.5). One sweep over them gives sum |X| over every pattern, an upper bound that is
 * exact where X >= 0 on the pattern, or where C has at most 2b bands: X is tridiagonal there (sensitivity/pattern.c).
 * If the pattern with the largest sum is of this kind we are done. Otherwise a second sweep gathers the matrices of the
 * patterns, and sensitivity/search.c looks at those that can still be the largest.
 *
 * Shortcuts.
 *   - Toeplitz C: the columns of p_l are those of p_0 moved down and cut off, so X on p_l lies below X on p_0 as a
 *     semidefinite matrix: only p_0 matters. If its coefficients are of one sign, the answer is
 *     |C[:,0] + C[:,b] + ...|^2 in O(n) (Pillutla et al. 2025, Eq. 3.25).
 *   - Trees: counts (families/tree/sensitivity.c).
 */
typedef struct cyclic {
    const sensitivity_task *task;
    int64_t patterns; /* the number of first offsets */
    int64_t *sizes;
    double *keys;
    base_running *sums; /* of |X| */
    double *row_sums;   /* of |X| for each step within its pattern; NULL: not wanted */
    char *negative;     /* has X a negative entry there? */

    /* the second sweep: where pattern l goes, or -1 */
    int64_t *place;
    double *matrices;
    const sensitivity_gram *gram;
} cyclic;

static dpmf_status cyclic_make(const sensitivity_task *task, int64_t patterns, cyclic *c) {
    *c = (cyclic){.task = task, .patterns = patterns};
    TRY(base_alloc(patterns, sizeof *c->sizes, "the patterns", (void **)&c->sizes));
    TRY(base_alloc(patterns, sizeof *c->sums, "the sums over patterns", (void **)&c->sums));
    TRY(base_alloc(patterns, 1, "the signs of patterns", (void **)&c->negative));
    TRY(base_alloc(patterns, sizeof *c->place, "the patterns", (void **)&c->place));
    TRY(base_alloc_doubles(patterns, "the sums over patterns", &c->keys));
    if (task->bound == DPMF_BOUND_SPECTRAL) TRY(base_alloc_doubles(task->n, "the sums over rows", &c->row_sums));
    for (int64_t l = 0; l < patterns; l++)
        c->sizes[l] = (task->n - 1 - l) / task->b + 1;
    return DPMF_OK;
}

/* ---- the first sweep ---- */

static dpmf_status add_lag(void *context, int64_t lag, const double *values) {
    const cyclic *c = context;
    const int64_t b = c->task->b;
    double times = lag == 0 ? 1 : 2; /* X[t,u] and X[u,t] */
    for (int64_t t = 0; t + lag < c->task->n; t += b)
        for (int64_t l = 0; l < c->patterns && t + l + lag < c->task->n; l++) {
            double value = values[t + l], size = fabs(value);
            base_running_add(&c->sums[l], times * size);
            if (value < 0) c->negative[l] = 1;
            if (c->row_sums == NULL) continue;
            c->row_sums[t + l] += size;
            if (lag > 0) c->row_sums[t + l + lag] += size;
        }
    return DPMF_OK;
}

/* ---- the second sweep ---- */

static dpmf_status place_lag(void *context, int64_t lag, const double *values) {
    const cyclic *c = context;
    const int64_t b = c->task->b, k = c->task->k, apart = lag / b;
    for (int64_t i = 0; i * b + lag < c->task->n; i++)
        for (int64_t l = 0; l < c->patterns && l + i * b + lag < c->task->n; l++) {
            if (c->place[l] < 0) continue;
            double *matrix = c->matrices + c->place[l] * k * k;
            int64_t size = c->sizes[l];
            matrix[i * size + i + apart] = matrix[(i + apart) * size + i] = values[l + i * b];
        }
    return DPMF_OK;
}

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    cyclic *c = context;
    const int64_t k = c->task->k;
    memset(matrices, 0, (size_t)(count * k * k) * sizeof *matrices); /* diagonals beyond the reach stay 0 */
    for (int64_t l = 0; l < c->patterns; l++)
        c->place[l] = -1;
    for (int64_t i = 0; i < count; i++)
        c->place[which[i]] = i;
    c->matrices = matrices;
    return sensitivity_gram_sweep(c->gram, 0, c->task->b, c->task->reach, "gathering patterns", place_lag, c);
}

static dpmf_status conclude_cyclic(cyclic *c, sensitivity_found *out) {
    const sensitivity_task *task = c->task;
    int64_t top = 0;
    /* What the values of patterns cannot exceed, for the bound that is asked for. */
    for (int64_t l = 0; l < c->patterns; l++) {
        c->keys[l] = base_running_value(&c->sums[l]);
        if (c->task->bound == DPMF_BOUND_SIGNS) c->keys[l] *= M_PI_2;
        if (c->row_sums == NULL) continue;
        double largest = 0; /* eigenvalues are no larger than the largest sum of a row */
        for (int64_t t = l; t < c->task->n; t += c->task->b)
            largest = fmax(largest, c->row_sums[t]);
        c->keys[l] = largest * (double)c->sizes[l];
    }
    for (int64_t l = 1; l < c->patterns; l++)
        if (c->keys[l] > c->keys[top]) top = l;
    double largest = c->keys[top];
    if (task->bound == DPMF_BOUND_ABSOLUTE) {
        *out = (sensitivity_found){largest, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE};
        return DPMF_OK;
    }
    if (task->bound == DPMF_BOUND_AUTO && !c->negative[top]) {
        *out = (sensitivity_found){largest, DPMF_EXACT, SENSITIVITY_METHOD_NON_NEGATIVE};
        return DPMF_OK;
    }
    if (task->bound == DPMF_BOUND_AUTO && task->reach <= 2 * task->b) {
        *out = (sensitivity_found){largest, DPMF_EXACT, SENSITIVITY_METHOD_BALANCED};
        return DPMF_OK;
    }
    if (task->k <= SENSITIVITY_PATTERN_MAX) {
        const sensitivity_patterns patterns = {
            .count = c->patterns, .size = task->k, .sizes = c->sizes, .keys = c->keys, .fill = fill, .context = c};
        return sensitivity_patterns_search(task, &patterns, out);
    }
    if (task->bound == DPMF_BOUND_AUTO) {
        *out = (sensitivity_found){largest, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_TOO_LARGE};
        return DPMF_OK;
    }
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "sensitivity bound spectral: %lld participations, accepted up to %d (their matrix is held); "
                     "use absolute or auto",
                     (long long)task->k, SENSITIVITY_PATTERN_MAX);
}

static dpmf_status by_sweeps(const sensitivity_task *task, int64_t patterns, sensitivity_found *out) {
    const sensitivity_gram gram = sensitivity_gram_of(task);
    cyclic c = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(cyclic_make(task, patterns, &c));
    c.gram = &gram;
    TRY_DONE(sensitivity_gram_sweep(&gram, 0, task->b, task->reach, "summing over patterns", add_lag, &c));
    TRY_DONE(conclude_cyclic(&c, out));
done:
    base_free(c.sizes);
    base_free(c.keys);
    base_free(c.sums);
    base_free(c.row_sums);
    base_free(c.negative);
    base_free(c.place);
    return status;
}

/* X >= 0 known beforehand: 1 and the answer. */
static dpmf_status shortcut(const sensitivity_task *task, int *there, sensitivity_found *out) {
    int64_t count = 0;
    const double *c = NULL;
    double square = 0;
    int one_sign = 0, non_increasing = 0;
    *there = 0;
    if (task->bound == DPMF_BOUND_SPECTRAL) return DPMF_OK; /* needs the matrices */
    if (task->stamps == 1 && task->norms == NULL && sensitivity_task_toeplitz(task, &count, &c)) {
        sensitivity_toeplitz_shape(count, c, &one_sign, &non_increasing);
        if (!one_sign) return DPMF_OK;
        square = sensitivity_earliest_square(task->n, task->k, task->b, count, c);
        sensitivity_found_sum(task, square, SENSITIVITY_METHOD_EARLIEST, out);
        *there = 1;
    }
    return DPMF_OK;
}

dpmf_status sensitivity_cyclic(const sensitivity_task *task, sensitivity_found *out) {
    int there = 0;
    int64_t count = 0;
    const double *c = NULL;
    TRY(shortcut(task, &there, out));
    if (there) return DPMF_OK;
    double lags = ceil((double)task->reach / (double)task->b), work = lags * sensitivity_gram_cost(task);
    if (work <= task->work_max) {
        int first_only = task->stamps == 1 && task->norms == NULL && task->bound != DPMF_BOUND_ABSOLUTE &&
                         sensitivity_task_toeplitz(task, &count, &c);
        return by_sweeps(task, first_only ? 1 : task->b < task->n ? task->b : task->n, out);
    }
    if (task->bound == DPMF_BOUND_SPECTRAL || task->bound == DPMF_BOUND_SIGNS)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "this bound of the sensitivity needs %.2g multiplications, accepted up to %.2g: use absolute "
                         "or auto",
                         work, task->work_max);
    *out = SENSITIVITY_NOT_FOUND;
    TRY(sensitivity_monotone(task, out)); /* cyclic patterns are separated */
    return sensitivity_bound_norms(task, out);
}

workload_pattern sensitivity_task_pattern(const sensitivity_task *task) {
    const int fixed = task->pattern == WORKLOAD_EPOCHS ? task->b == 1 : task->k == task->n; /* of a list: never */
    return fixed ? WORKLOAD_FIXED : task->pattern;
}

/* The family's own answer, or the route of the pattern; `open`: the task has been opened for that. */
static dpmf_status find(sensitivity_task *task, int *open, sensitivity_found *found) {
    int done = 0;
    if (task->core->ops->sensitivity != NULL && task->pattern != WORKLOAD_LISTED)
        TRY(task->core->ops->sensitivity(task->core, task, &done, found));
    if (done) return DPMF_OK;
    if (!*open) TRY(sensitivity_task_open(task));
    *open = 1;
    task->pattern = sensitivity_task_pattern(task);
    return (task->pattern == WORKLOAD_APART    ? sensitivity_separated
            : task->pattern == WORKLOAD_EPOCHS ? sensitivity_shuffled
            : task->pattern == WORKLOAD_LISTED ? sensitivity_listed
                                               : sensitivity_cyclic)(task, found);
}

static dpmf_status several(const dpmf_strategy *strategy, const dpmf_participation *participation,
                           dpmf_sensitivity_bound bound, int64_t columns, const dpmf_run *run, dpmf_sensitivity *out) {
    sensitivity_task task = {.strategy = strategy,
                             .pattern = participation->pattern,
                             .bound = bound,
                             .n = strategy->steps,
                             .k = participation->count,
                             .b = participation->separation,
                             .listed = participation,
                             .run = run};
    sensitivity_found found = SENSITIVITY_NOT_FOUND, signs = SENSITIVITY_NOT_FOUND;
    dpmf_status status = DPMF_OK;
    int open = 0;
    if (bound == DPMF_BOUND_SIGNS && task.k > SENSITIVITY_SIGNS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound signs: %lld participations, accepted up to %d",
                         (long long)task.k, SENSITIVITY_SIGNS_MAX);
    TRY(base_pool_create(run->threads, &task.pool));
    sensitivity_task_unwrap(&task);
    TRY_DONE(find(&task, &open, &found));
    if (columns == 1 && found.kind != DPMF_EXACT) {
        task.one_column = 1;
        TRY_DONE(find(&task, &open, &signs));
        if (signs.square < found.square)
            found = signs;
        else
            task.one_column = 0;
    }
    TRY_DONE(sensitivity_conclude(&task, &found, out));
done:
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    return status;
}

dpmf_status sensitivity_of_stream(const dpmf_strategy *strategy, const dpmf_participation *participation,
                                  const dpmf_evaluate_options *o, dpmf_sensitivity *out) {
    dpmf_sensitivity found = {0};
    TRY(sensitivity_check(strategy, participation, o));
    TRY(sensitivity_check_one_stream(o));
    if (o->of ==
        DPMF_SENSITIVITY_COLUMN) { /* what sampling needs, under any adjacency: accounting knows what neighbours make of it */
        TRY(longest_column(strategy, 0, out));
        out->of = DPMF_SENSITIVITY_COLUMN;
        return DPMF_OK;
    }
    if (participation == NULL || workload_is_once(participation))
        TRY(single(strategy, o->sensitivity, &found));
    else
        TRY(several(strategy, participation, o->sensitivity, o->columns, &o->run, &found));
    if (o->adjacency == DPMF_ADJACENCY_REPLACE_ONE) found.value *= 2;
    *out = found;
    return DPMF_OK;
}
