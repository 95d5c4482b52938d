/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns from a file: the largest f(X_p) over a list of patterns p, X = C'C (Choquette-Choo et al. 2023, Section 2).
 *
 * One pass gives sum |X| over every pattern, an upper bound of f that is exact where X >= 0 there (Pillutla et al. 2025, Lemma
 * 3.15). If the pattern with the largest sum is of this kind we are done: no other pattern can have more. Otherwise those patterns
 * whose sums exceed the best value are looked at one by one (sensitivity/search.c), as exactly as one pattern can be
 * (sensitivity/pattern.c).
 *
 * X is held by diagonals. For the sums a row of it is written out at a time, and added up for every pattern that has its step: of
 * a pattern only the steps before it, so that all pairs are met once, and only those within reach of C's bands. Blocks of
 * patterns are added in parallel; a block costs one more copy of X, O(n^2), whence their size. 10^4 patterns of 1000 steps each
 * are 5e9 additions. Where X has no room, or takes too long to make, the sums of column norms are the bound, by their name.
 */
#include "base/memory.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 1024 };

typedef struct listed {
    const sensitivity_task *task;
    const dpmf_participation *p;
    sensitivity_band band;
    int64_t *sizes;
    base_running *sums, *squares; /* of |X|, and of X^2 if asked for, over each pattern */
    double *keys;
    char *negative;     /* has X a negative entry there? */
    double *rows;       /* for each worker a row of X */
    int64_t *positions; /* of each pattern: its next step, and the first of its steps within reach of that */
} listed;

/* row[u] = X[u,t] for the steps u <= t within reach. */
static int64_t copy_row(const listed *s, int64_t t, double *row) {
    const int64_t first = t + 1 > s->band.end ? t + 1 - s->band.end : 0;
    for (int64_t u = first; u <= t; u++)
        row[u] = sensitivity_band_lag(&s->band, t - u)[u];
    return first;
}

typedef struct row_sums {
    double size, square, least;
} row_sums;

/* Four sums side by side: their rounding is a quarter of that of one, and they do not wait for each other. */
static row_sums add_row(const double *row, const int64_t *steps, int64_t count) {
    double size[4] = {0}, square[4] = {0}, least = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x = row[steps[i]];
        size[i % 4] += fabs(x);
        square[i % 4] += x * x;
        least = x < least ? x : least;
    }
    return (row_sums){(size[0] + size[1]) + (size[2] + size[3]), (square[0] + square[1]) + (square[2] + square[3]),
                      least};
}

static dpmf_status block_item(void *context, int64_t item, int worker) {
    listed *s = context;
    const int64_t n = s->task->n, begin = item * BLOCK;
    const int64_t end = begin + BLOCK < s->p->patterns ? begin + BLOCK : s->p->patterns;
    double *row = s->rows + (int64_t)worker * n;
    for (int64_t q = begin; q < end; q++)
        s->positions[2 * q] = s->positions[2 * q + 1] = s->p->begins[q];
    for (int64_t t = 0; t < n; t++) {
        int64_t first = -1; /* the row is copied when a pattern needs it */
        for (int64_t q = begin; q < end; q++) {
            int64_t *at = &s->positions[2 * q], *from = at + 1;
            if (*at >= s->p->begins[q + 1] || s->p->listed[*at] != t) continue;
            if (first < 0) first = copy_row(s, t, row);
            while (s->p->listed[*from] < first)
                ++*from;
            const row_sums sums = add_row(row, s->p->listed + *from, *at - *from);
            base_running_add(&s->sums[q], fabs(row[t]) + 2 * sums.size);
            base_running_add(&s->squares[q], row[t] * row[t] + 2 * sums.square);
            if (sums.least < 0) s->negative[q] = 1;
            ++*at;
        }
    }
    return DPMF_OK;
}

static double entry(const listed *s, int64_t t, int64_t u) {
    const int64_t lag = t < u ? u - t : t - u;
    return lag < s->band.end ? sensitivity_band_lag(&s->band, lag)[t < u ? t : u] : 0;
}

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    const listed *s = context;
    const int64_t k = s->task->k;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *steps = s->p->listed + s->p->begins[which[i]], size = s->sizes[which[i]];
        for (int64_t a = 0; a < size; a++)
            for (int64_t c = 0; c < size; c++)
                matrices[i * k * k + a * size + c] = entry(s, steps[a], steps[c]);
    }
    return DPMF_OK;
}

static dpmf_status conclude(listed *s, sensitivity_found *out) {
    const sensitivity_task *task = s->task;
    int64_t top = 0;
    for (int64_t q = 0; q < s->p->patterns; q++) {
        s->keys[q] = base_running_value(&s->sums[q]);
        if (task->bound == DPMF_BOUND_SIGNS) s->keys[q] *= M_PI_2;
        if (task->bound == DPMF_BOUND_SPECTRAL) /* no eigenvalue is above the Frobenius norm */
            s->keys[q] = (double)s->sizes[q] * sqrt(base_running_value(&s->squares[q])) *
                         (1 + 64 * (double)(s->sizes[q] + 8) * DBL_EPSILON);
        if (s->keys[q] > s->keys[top]) top = q;
    }
    const sensitivity_found bound = {s->keys[top], DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE};
    *out = bound;
    if (task->bound == DPMF_BOUND_ABSOLUTE) return DPMF_OK;
    if (task->bound == DPMF_BOUND_AUTO && !s->negative[top]) {
        *out = (sensitivity_found){bound.square, DPMF_EXACT, SENSITIVITY_METHOD_NON_NEGATIVE};
        return DPMF_OK;
    }
    const sensitivity_patterns patterns = {
        .count = s->p->patterns, .size = task->k, .sizes = s->sizes, .keys = s->keys, .fill = fill, .context = s};
    if (task->k <= SENSITIVITY_PATTERN_MAX) return sensitivity_patterns_search(task, &patterns, out);
    if (task->bound != DPMF_BOUND_AUTO)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "this bound of the sensitivity: %lld participations, accepted up to %d (their matrix is "
                         "held); use absolute or auto",
                         (long long)task->k, SENSITIVITY_PATTERN_MAX);
    out->method = SENSITIVITY_METHOD_TOO_LARGE;
    return DPMF_OK;
}

/* By lists: the diagonals are there. */
static dpmf_status by_sums(const sensitivity_task *task, sensitivity_found *out) {
    const dpmf_participation *p = task->listed;
    listed s = {.task = task, .p = p};
    const sensitivity_gram gram = sensitivity_gram_of(task);
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(p->patterns, sizeof *s.sizes, "the patterns", (void **)&s.sizes));
    TRY_DONE(base_alloc(p->patterns, sizeof *s.sums, "the sums over patterns", (void **)&s.sums));
    TRY_DONE(base_alloc(p->patterns, sizeof *s.squares, "the sums over patterns", (void **)&s.squares));
    TRY_DONE(base_alloc_doubles(p->patterns, "the sums over patterns", &s.keys));
    TRY_DONE(base_alloc(p->patterns, 1, "the signs of patterns", (void **)&s.negative));
    TRY_DONE(base_alloc(2 * p->patterns, sizeof *s.positions, "the patterns", (void **)&s.positions));
    TRY_DONE(base_alloc_doubles(base_pool_threads(task->pool) * task->n, "rows of C'C", &s.rows));
    for (int64_t q = 0; q < p->patterns; q++)
        s.sizes[q] = p->begins[q + 1] - p->begins[q];
    TRY_DONE(sensitivity_band_open(&gram, 0, task->reach, &s.band));
    TRY_DONE(base_progress(task->run, "summing over patterns", -1));
    TRY_DONE(base_pool_run(task->pool, (p->patterns + BLOCK - 1) / BLOCK, block_item, &s));
    TRY_DONE(conclude(&s, out));
done:
    sensitivity_band_close(&s.band);
    base_free(s.sizes);
    base_free(s.sums);
    base_free(s.squares);
    base_free(s.keys);
    base_free(s.negative);
    base_free(s.positions);
    base_free(s.rows);
    return status;
}

/* Additions over all patterns, pairs beyond the reach left out. */
static double sums_work(const sensitivity_task *task) {
    const dpmf_participation *p = task->listed;
    double work = 0;
    for (int64_t q = 0; q < p->patterns; q++) {
        const double size = (double)(p->begins[q + 1] - p->begins[q]);
        work += size * fmin(size, (double)task->reach / (double)task->b + 1);
    }
    const double blocks = ceil((double)p->patterns / BLOCK), n = (double)task->n;
    return work + blocks * n * (BLOCK + (double)task->reach);
}

dpmf_status sensitivity_listed(const sensitivity_task *task, sensitivity_found *out) {
    const double work = sensitivity_gram_cost(task) * (double)task->reach + sums_work(task);
    if (work <= task->work_max && sensitivity_band_fits(task, 0, task->reach)) return by_sums(task, out);
    if (task->bound == DPMF_BOUND_SPECTRAL || task->bound == DPMF_BOUND_SIGNS)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "this bound of the sensitivity needs %.2g multiplications and all of C'C in memory, accepted up "
            "to %.2g: use absolute or auto",
            work, task->work_max);
    *out = SENSITIVITY_NOT_FOUND;
    return sensitivity_bound_norms(task, out);
}
