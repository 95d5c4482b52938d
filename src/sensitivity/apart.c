/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Min-separation participation: at most k steps, any two of them at least b apart. Such patterns are far too many to
 * try, but where C has few bands X = C'C couples a participation with few others:
 *
 *     w <= b   not at all: max sum_{t in p} X[t,t] (Pillutla et al. 2025, Lemma 3.16b and Algorithm 3.2), for any signs
 *     w <= 2b  with the one before and the one after at most: X on a pattern is tridiagonal, so that its value is
 *              sum |X| (sensitivity/pattern.c), and the last step is all that must be remembered,
 *
 *                  f_1(t) = X[t,t],   f_l(t) = X[t,t] + max( max_{u <= t-w} f_{l-1}(u),
 *                                                           max_{t-w < u <= t-b} f_{l-1}(u) + 2 |X[u,t]| ),
 *
 *              taken diagonal by diagonal, O(n k (w-b)).
 *
 * Both are exact for any signs. So are the earliest pattern of non-negative, non-increasing Toeplitz matrices
 * (sensitivity/search.c), counts on trees (families/tree/sensitivity.c), and patterns that are few enough to try.
 * For anything else there are upper bounds (sensitivity/rows.c).
 */
#include "base/memory.h"
#include "sensitivity/sensitivity.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- w <= b ---- */

static dpmf_status separate(const sensitivity_task *task, sensitivity_found *out) {
    const int64_t n = task->n, k = task->k;
    const sensitivity_gram gram = sensitivity_gram_of(task);
    double *diagonal = NULL, *work = NULL, largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "the squares of column norms", &diagonal));
    TRY_DONE(sensitivity_gram_lag(&gram, 0, diagonal));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, diagonal[t]);
    if (task->bound == DPMF_BOUND_SPECTRAL) { /* X on a pattern is diagonal */
        *out = (sensitivity_found){(double)k * largest, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_SPECTRAL};
        goto done;
    }
    if ((double)n * (double)k > task->work_max) {
        sensitivity_found_sum(task, (double)k * largest, SENSITIVITY_METHOD_LARGEST, out);
        out->kind = DPMF_UPPER_BOUND;
        goto done;
    }
    TRY_DONE(base_progress(task->run, "placing participations", -1));
    TRY_DONE(base_alloc_doubles(2 * n, "the best sums", &work));
    sensitivity_found_sum(task, sensitivity_place(n, k, task->b, diagonal, work, NULL), SENSITIVITY_METHOD_SEPARATE,
                          out);
done:
    base_free(diagonal);
    base_free(work);
    return status;
}

/* ---- w <= 2b ---- */

typedef struct neighbours {
    int64_t n;
    const double *before; /* f_{l-1} */
    double *best;         /* over u, for each t */
} neighbours;

static dpmf_status couple(void *context, int64_t lag, const double *values) {
    const neighbours *s = context;
    for (int64_t u = 0; u + lag < s->n; u++) {
        double with = s->before[u] + 2 * fabs(values[u]);
        s->best[u + lag] = with > s->best[u + lag] ? with : s->best[u + lag];
    }
    return DPMF_OK;
}

static dpmf_status place_picks(const sensitivity_task *task, const sensitivity_gram *gram, const sensitivity_band *band,
                               double *diagonal, double *f, double *best, double *answer) {
    const int64_t n = task->n, w = task->reach;
    double largest = 0;
    TRY(sensitivity_gram_lag(gram, 0, diagonal));
    memcpy(f, diagonal, (size_t)n * sizeof *f);
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, f[t]);
    for (int64_t l = 2; l <= task->k; l++) {
        neighbours s = {n, f, best};
        double far = -INFINITY; /* max f over u <= t - w */
        for (int64_t t = 0; t < n; t++) {
            if (t >= w) far = fmax(far, f[t - w]);
            best[t] = far;
        }
        if (band->values == NULL) /* the diagonals are made again */
            TRY(sensitivity_gram_sweep(gram, task->b, 1, w, "placing participations", couple, &s));
        for (int64_t lag = band->first; lag < band->end; lag++)
            TRY(couple(&s, lag, sensitivity_band_lag(band, lag)));
        for (int64_t t = 0; t < n; t++) {
            f[t] = diagonal[t] + best[t];
            largest = fmax(largest, f[t]);
        }
        TRY(base_progress(task->run, "placing participations", (double)l / (double)task->k));
    }
    *answer = largest;
    return DPMF_OK;
}

static double coupled_work(const sensitivity_task *task) {
    double lags = (double)(task->reach - task->b), k = (double)task->k;
    double make = lags * sensitivity_gram_cost(task), use = lags * (double)task->n * k;
    return use + (sensitivity_band_fits(task, task->b, task->reach) ? make : make * k);
}

static dpmf_status coupled(const sensitivity_task *task, sensitivity_found *out) {
    const int64_t n = task->n;
    const sensitivity_gram gram = sensitivity_gram_of(task);
    sensitivity_band band = {0};
    double *memory = NULL, square = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(3 * n, "the best sums", &memory));
    if (sensitivity_band_fits(task, task->b, task->reach))
        TRY_DONE(sensitivity_band_open(&gram, task->b, task->reach, &band));
    TRY_DONE(place_picks(task, &gram, &band, memory, memory + n, memory + 2 * n, &square));
    sensitivity_found_sum(task, square, SENSITIVITY_METHOD_NEIGHBOURS, out);
done:
    sensitivity_band_close(&band);
    base_free(memory);
    return status;
}

/* The shortcuts where X >= 0 is known; *out is unchanged if there is none. */
static dpmf_status shortcut(const sensitivity_task *task, sensitivity_found *out) {
    int64_t count = 0;
    const double *c = NULL;
    int one_sign = 0, non_increasing = 0;
    if (task->stamps > 1 || task->norms != NULL || !sensitivity_task_toeplitz(task, &count, &c)) return DPMF_OK;
    sensitivity_toeplitz_shape(count, c, &one_sign, &non_increasing);
    if (one_sign && non_increasing)
        sensitivity_found_sum(task, sensitivity_earliest_square(task->n, task->k, task->b, count, c),
                              SENSITIVITY_METHOD_EARLIEST, out);
    return DPMF_OK;
}

static dpmf_status exact_or_bound(const sensitivity_task *task, sensitivity_found *out) {
    int there = 0;
    TRY(shortcut(task, out));
    if (out->square >= 0) return DPMF_OK;
    if (task->reach <= task->b && isfinite(sensitivity_gram_cost(task))) return separate(task, out);
    TRY(sensitivity_monotone(task, out)); /* a bound, exact where evenly spaced steps attain it */
    if (out->kind == DPMF_EXACT || out->method == SENSITIVITY_METHOD_SIGNS) return DPMF_OK;
    if (task->reach <= 2 * task->b && coupled_work(task) <= task->work_max) return coupled(task, out);
    TRY(sensitivity_enumerate(task, &there, out));
    if (there) return DPMF_OK;
    if (task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
    return sensitivity_bound_any(task, out);
}

dpmf_status sensitivity_separated(const sensitivity_task *task, sensitivity_found *out) {
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    int there = 0;
    if (task->bound != DPMF_BOUND_SPECTRAL) {
        TRY(exact_or_bound(task, &found));
    } else { /* the matrices of patterns are needed: those that are few, or diagonal */
        TRY(sensitivity_enumerate(task, &there, &found));
        if (!there && !(task->reach <= task->b && isfinite(sensitivity_gram_cost(task))))
            return sensitivity_too_many(task);
        if (!there) TRY(separate(task, &found));
    }
    *out = found;
    return DPMF_OK;
}

/* ---- shuffled ---- */

/*
 * Shuffled participation: once in each of k epochs of b steps, anywhere in it (Choquette-Choo et al. 2023, Section 2;
 * the last epoch may be cut short).
 *
 * Picks two epochs apart are at least b + 1 steps apart. So if C has w <= b + 1 bands, X = C'C couples picks of
 * neighbouring epochs only: X on a pattern is tridiagonal, its value sum |X| for any signs (sensitivity/pattern.c), and
 *
 *     V_e(t) = X[t,t] + max( max_u V_{e-1}(u), max_{u > t-w} V_{e-1}(u) + 2 |X[u,t]| ),   t in epoch e, u in epoch e-1,
 *
 * is exact, with w^2/2 entries of X at each boundary between epochs. A strategy that restarts every few whole epochs is
 * the sum over its blocks; one that restarts at least every b + 1 steps is in the case above. Trees are exact
 * (families/tree/sensitivity.c), and patterns that are few are tried one by one. For anything else there are upper bounds
 * (sensitivity/rows.c, sensitivity/search.c).
 */
/* Boundaries between epochs e-1 and e for e in [first, end): the entries X[u, u+lag], u = eb-lag .. eb-1, by lag. */
typedef struct boundaries {
    const sensitivity_task *task;
    int64_t first, end, size; /* size: numbers for each */
    double *values;
} boundaries;

static int64_t place_of(const boundaries *s, int64_t e, int64_t lag) {
    return (e - s->first) * s->size + lag * (lag - 1) / 2;
}

static dpmf_status keep(void *context, int64_t lag, const double *values) {
    const boundaries *s = context;
    const int64_t n = s->task->n, b = s->task->b;
    for (int64_t e = s->first; e < s->end; e++) {
        double *to = s->values + place_of(s, e, lag);
        for (int64_t i = 0; i < lag && e * b + i < n; i++)
            to[i] = values[e * b - lag + i];
    }
    return DPMF_OK;
}

/* V of epoch e from V of epoch e-1, `next` from `before`. */
static void pass_epoch(const boundaries *s, int64_t e, const double *diagonal, const double *before, double *next) {
    const int64_t b = s->task->b, start = e * b, steps = s->task->n - start < b ? s->task->n - start : b;
    double largest = 0;
    for (int64_t q = 0; q < b; q++)
        largest = fmax(largest, before[q]);
    for (int64_t p = 0; p < steps; p++)
        next[p] = largest;
    for (int64_t lag = 1; lag < s->task->reach; lag++) {
        const double *x = s->values + place_of(s, e, lag);
        for (int64_t i = 0; i < lag && i < steps; i++) /* u = start - lag + i, t = start + i */
            next[i] = fmax(next[i], before[b - lag + i] + 2 * fabs(x[i]));
    }
    for (int64_t p = 0; p < steps; p++)
        next[p] += diagonal[start + p];
    for (int64_t p = steps; p < b; p++)
        next[p] = 0;
}

/* Boundaries that are held at a time; 0: not even one. */
static int64_t group_size(const sensitivity_task *task) {
    double size = (double)(task->reach - 1) * (double)task->reach / 2, room = (double)(task->bytes_max / 8);
    if (size == 0) return task->k;
    if (size > room) return 0;
    return room / size < (double)task->k ? (int64_t)(room / size) : task->k;
}

static double epochs_work(const sensitivity_task *task) {
    int64_t group = group_size(task);
    if (group == 0) return INFINITY;
    double groups = ceil((double)task->k / (double)group), lags = (double)task->reach;
    return groups * lags * sensitivity_gram_cost(task) + (double)task->k * lags * lags / 2;
}

static dpmf_status run_epochs(const sensitivity_task *task, const sensitivity_gram *gram, boundaries *s,
                              const double *diagonal, double *v, double *answer) {
    const int64_t b = task->b, group = group_size(task);
    double *before = v, *next = v + b, largest = 0;
    memcpy(before, diagonal, (size_t)b * sizeof *v);
    for (s->first = 1; s->first < task->k; s->first = s->end) {
        s->end = task->k - s->first < group ? task->k : s->first + group;
        TRY(sensitivity_gram_sweep(gram, 1, 1, task->reach, "coupling epochs", keep, s));
        for (int64_t e = s->first; e < s->end; e++) {
            double *swap = before;
            pass_epoch(s, e, diagonal, before, next);
            before = next;
            next = swap;
        }
    }
    for (int64_t p = 0; p < b; p++)
        largest = fmax(largest, before[p]);
    *answer = largest;
    return DPMF_OK;
}

static dpmf_status couple_epochs(const sensitivity_task *task, sensitivity_found *out) {
    const int64_t n = task->n, group = group_size(task);
    boundaries s = {.task = task, .size = task->reach * (task->reach - 1) / 2};
    const sensitivity_gram gram = sensitivity_gram_of(task);
    double *memory = NULL, square = 0;
    dpmf_status status = DPMF_OK;
    assert(task->reach <= task->b + 1 && group > 0);
    TRY_DONE(base_alloc_doubles(n + 2 * task->b, "the best sums of epochs", &memory));
    TRY_DONE(base_alloc_doubles(group * s.size, "C'C between epochs", &s.values));
    TRY_DONE(sensitivity_gram_lag(&gram, 0, memory));
    TRY_DONE(run_epochs(task, &gram, &s, memory, memory + n, &square));
    sensitivity_found_sum(task, square, SENSITIVITY_METHOD_NEIGHBOURS, out);
done:
    base_free(memory);
    base_free(s.values);
    return status;
}

dpmf_status sensitivity_shuffled(const sensitivity_task *task, sensitivity_found *out) {
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    int there = 0;
    if (task->k == 1 && task->bound != DPMF_BOUND_SPECTRAL) { /* one epoch of a strategy that restarts with each */
        TRY(sensitivity_bound_norms(task, &found));
        sensitivity_found_sum(task, found.square, SENSITIVITY_METHOD_COLUMN, out);
        return DPMF_OK;
    }
    if (task->reach <= task->b + 1 && task->bound != DPMF_BOUND_SPECTRAL && epochs_work(task) <= task->work_max)
        return couple_epochs(task, out);
    if (task->stamps > 1 && task->length % task->b == 0 && task->bound != DPMF_BOUND_SPECTRAL) {
        /* Blocks of whole epochs: one block, as often as there are blocks. */
        sensitivity_task block = *task;
        const int64_t blocks = task->stamps;
        block.n = task->length;
        block.k = task->k / blocks;
        block.stamps = 1;
        TRY(sensitivity_shuffled(&block, out));
        out->square *= (double)blocks;
        if (out->kind == DPMF_EXACT) out->method = SENSITIVITY_METHOD_RESTARTS;
        return DPMF_OK;
    }
    TRY(sensitivity_enumerate(task, &there, &found));
    if (!there) {
        if (task->bound == DPMF_BOUND_SPECTRAL || task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
        TRY(sensitivity_monotone(task, &found));
        TRY(sensitivity_bound_any(task, &found));
    }
    *out = found;
    return DPMF_OK;
}
