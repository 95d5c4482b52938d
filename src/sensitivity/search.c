/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The largest value over many patterns. Each pattern has a key, known before its matrix is made, that its value cannot
 * exceed; patterns are taken by falling key until the next key is no larger than the best value. The matrices are made
 * in batches that grow up to a limit of memory, since making one costs nearly as much as making many, and are evaluated
 * in parallel in groups of fixed size: what is looked at, and so the answer, is the same for any number of threads.
 *
 * The answer is exact if the value of the pattern that attains it is: of the others an upper bound is enough. For the
 * same reason a search that has become too long may be left: the next key bounds everything that has not been looked
 * at.
 */
#include "sensitivity/sensitivity.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUP = 32, FIRST_BATCH = 64, BATCH_GROWTH = 8 };

typedef struct candidate {
    double key;
    int64_t id;
} candidate;

static int by_falling_key(const void *a, const void *b) {
    const candidate *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? 1 : -1;
    return left->id < right->id ? -1 : left->id > right->id;
}

typedef struct search {
    const sensitivity_task *task;
    const sensitivity_patterns *patterns;
    candidate *order;
    int64_t *which;   /* of the batch */
    double *matrices; /* of the batch */
    int64_t batch;    /* room */
    int64_t start;    /* of the group within the batch */
    double work;      /* spent so far */
    int64_t winner;   /* the pattern that the best value is of */
    sensitivity_found values[GROUP];
    char repeats[GROUP]; /* the same matrix as the one before it */
} search;

static const double *matrix_of(const search *s, int64_t place) {
    return s->matrices + place * s->patterns->size * s->patterns->size;
}

static dpmf_status evaluate_item(void *context, int64_t item, int worker) {
    search *s = context;
    int64_t place = s->start + item;
    (void)worker;
    if (s->repeats[item]) return DPMF_OK;
    return sensitivity_pattern_evaluate(s->patterns->sizes[s->which[place]], matrix_of(s, place), s->task->bound,
                                        &s->values[item]);
}

/* Patterns of a mechanism that looks the same at every step have one matrix: it is evaluated once. */
static int repeats_last(const search *s, int64_t place) {
    if (place == 0) return 0;
    int64_t k = s->patterns->sizes[s->which[place]];
    if (s->patterns->sizes[s->which[place - 1]] != k) return 0;
    return memcmp(matrix_of(s, place), matrix_of(s, place - 1), (size_t)(k * k) * sizeof(double)) == 0;
}

/* A rough count for one pattern: the factorizations and some two hundred sweeps of the ascent. */
static double pattern_work(int64_t size) {
    double k = (double)size, ascent = 200 * k * k * sqrt(2 * k);
    return k * k * k + (ascent < 4e9 ? ascent : 4e9);
}

static int too_long(const search *s) {
    return s->task->bound == DPMF_BOUND_AUTO && s->work > s->task->search_max;
}

static dpmf_status evaluate_batch(search *s, int64_t done, int64_t count, sensitivity_found *best) {
    for (s->start = 0; s->start < count; s->start += GROUP) {
        int64_t group = count - s->start < GROUP ? count - s->start : GROUP;
        if (s->order[done + s->start].key <= best->square) return DPMF_OK;
        if (too_long(s)) {
            *best = (sensitivity_found){s->order[done + s->start].key, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_TOO_LARGE};
            s->winner = s->order[done + s->start].id;
            return DPMF_OK;
        }
        for (int64_t i = 0; i < group; i++)
            s->repeats[i] = (char)repeats_last(s, s->start + i);
        TRY(base_progress(s->task->run, "bounding patterns", (double)(done + s->start) / (double)s->patterns->count));
        TRY(base_pool_run(s->task->pool, group, evaluate_item, s));
        for (int64_t i = 0; i < group; i++) {
            if (s->repeats[i]) continue; /* what it repeats has been counted */
            s->work += pattern_work(s->patterns->sizes[s->which[s->start + i]]);
            const sensitivity_found *value = &s->values[i];
            int better = value->square > best->square ||
                         (value->square == best->square && value->kind == DPMF_EXACT && best->kind != DPMF_EXACT);
            if (!better) continue;
            *best = *value;
            s->winner = s->which[s->start + i];
        }
    }
    return DPMF_OK;
}

static int64_t largest_batch(const sensitivity_task *task, const sensitivity_patterns *p) {
    int64_t room = task->bytes_max / (p->size * p->size * (int64_t)sizeof(double));
    return room < 1 ? 1 : room < p->count ? room : p->count;
}

static dpmf_status make_room(search *s, int64_t batch) {
    int64_t numbers = s->patterns->size * s->patterns->size;
    base_free(s->matrices);
    s->matrices = NULL;
    s->batch = batch;
    return base_alloc_doubles(batch * numbers, "the matrices of patterns", &s->matrices);
}

static dpmf_status run_batches(search *s, sensitivity_found *best) {
    const sensitivity_patterns *p = s->patterns;
    int64_t most = largest_batch(s->task, p), batch = FIRST_BATCH < most ? FIRST_BATCH : most;
    for (int64_t done = 0; done < p->count && s->order[done].key > best->square;) {
        int64_t count = p->count - done < batch ? p->count - done : batch;
        if (batch > s->batch) TRY(make_room(s, batch));
        for (int64_t i = 0; i < count; i++)
            s->which[i] = s->order[done + i].id;
        TRY(p->fill(p->context, count, s->which, s->matrices));
        TRY(evaluate_batch(s, done, count, best));
        done += count;
        batch = batch < most / BATCH_GROWTH ? batch * BATCH_GROWTH : most;
    }
    return DPMF_OK;
}

dpmf_status sensitivity_patterns_search(const sensitivity_task *task, const sensitivity_patterns *patterns,
                                        sensitivity_found *out) {
    search s = {.task = task, .patterns = patterns};
    sensitivity_found best = SENSITIVITY_NOT_FOUND;
    void *order = NULL, *which = NULL;
    dpmf_status status = DPMF_OK;
    assert(patterns->count > 0 && patterns->size <= SENSITIVITY_PATTERN_MAX);
    TRY_DONE(base_alloc(patterns->count, sizeof *s.order, "the order of patterns", &order));
    s.order = order;
    TRY_DONE(base_alloc(patterns->count, sizeof *s.which, "the order of patterns", &which));
    s.which = which;
    for (int64_t i = 0; i < patterns->count; i++)
        s.order[i] = (candidate){patterns->keys[i], i};
    qsort(s.order, (size_t)patterns->count, sizeof *s.order, by_falling_key);
    TRY_DONE(run_batches(&s, &best));
    *out = best;
    if (patterns->winner != NULL) *patterns->winner = s.winner;
done:
    base_free(order);
    base_free(which);
    base_free(s.matrices);
    return status;
}
