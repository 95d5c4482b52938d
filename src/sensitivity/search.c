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

#include "base/memory.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"

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

/*
 * Min-separation and shuffled patterns one by one, where they are few. Only patterns that no other contains matter,
 * since f grows with the pattern: k separated steps, or fewer that leave no room behind the last; one step in every
 * epoch.
 */

typedef struct list {
    const sensitivity_task *task;
    int64_t count, room;
    int64_t *steps; /* k for each pattern */
    int64_t *sizes;
    double *keys;
    sensitivity_band band;
} list;

/* The steps that may follow `last` (-1: none yet) as number i: [*from, *to). */
static void choices(const sensitivity_task *task, int64_t i, int64_t last, int64_t *from, int64_t *to) {
    if (task->pattern == WORKLOAD_EPOCHS) {
        *from = i * task->b;
        *to = *from + task->b < task->n ? *from + task->b : task->n;
    } else {
        *from = last < 0 ? 0 : last + task->b;
        *to = task->n;
    }
}

/* Walks through all patterns; stops when there are more than `limit`. With `out`, keeps them. */
static int64_t walk(const sensitivity_task *task, int64_t limit, int64_t *steps, list *out) {
    int64_t depth = 0, count = 0, from = 0, to = 0;
    choices(task, 0, -1, &from, &to);
    steps[0] = from;
    for (;;) {
        choices(task, depth, depth == 0 ? -1 : steps[depth - 1], &from, &to);
        if (steps[depth] >= to) { /* all choices here are done */
            if (depth == 0) return count;
            steps[--depth]++;
            continue;
        }
        int64_t size = depth + 1;
        choices(task, size, steps[depth], &from, &to);
        if (size < task->k && from < to) {
            steps[++depth] = from;
            continue;
        }
        if (++count > limit) return count;
        if (out != NULL) {
            memcpy(out->steps + (count - 1) * task->k, steps, (size_t)size * sizeof *steps);
            out->sizes[count - 1] = size;
        }
        steps[depth]++;
    }
}

static double entry(const list *p, int64_t t, int64_t u) {
    int64_t lag = t < u ? u - t : t - u;
    return lag < p->band.end ? sensitivity_band_lag(&p->band, lag)[t < u ? t : u] : 0;
}

static void set_key(list *p, int64_t i) {
    const int64_t *steps = p->steps + i * p->task->k, size = p->sizes[i];
    double largest = 0, total = 0;
    for (int64_t a = 0; a < size; a++) {
        base_running row = {0};
        for (int64_t c = 0; c < size; c++)
            base_running_add(&row, fabs(entry(p, steps[a], steps[c])));
        total += base_running_value(&row);
        largest = fmax(largest, base_running_value(&row));
    }
    p->keys[i] = p->task->bound == DPMF_BOUND_SPECTRAL ? largest * (double)size
                 : p->task->bound == DPMF_BOUND_SIGNS  ? M_PI_2 * total
                                                       : total;
}

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    const list *p = context;
    const int64_t k = p->task->k;
    for (int64_t i = 0; i < count; i++) {
        const int64_t *steps = p->steps + which[i] * k, size = p->sizes[which[i]];
        for (int64_t a = 0; a < size; a++)
            for (int64_t c = 0; c < size; c++)
                matrices[i * k * k + a * size + c] = entry(p, steps[a], steps[c]);
    }
    return DPMF_OK;
}

static dpmf_status search_list(list *p, sensitivity_found *out) {
    const int64_t k = p->task->k;
    const sensitivity_patterns patterns = {
        .count = p->count, .size = k, .sizes = p->sizes, .keys = p->keys, .fill = fill, .context = p};
    const sensitivity_gram gram = sensitivity_gram_of(p->task);
    dpmf_status status = DPMF_OK;
    TRY_DONE(sensitivity_band_open(&gram, 0, p->task->reach, &p->band));
    for (int64_t i = 0; i < p->count; i++)
        set_key(p, i);
    TRY_DONE(sensitivity_patterns_search(p->task, &patterns, out));
done:
    sensitivity_band_close(&p->band);
    return status;
}

static dpmf_status keep_patterns(list *p, int64_t *steps) {
    void *kept = NULL, *sizes = NULL;
    TRY(base_alloc(p->count * p->task->k, sizeof *p->steps, "the patterns", &kept));
    p->steps = kept;
    TRY(base_alloc(p->count, sizeof *p->sizes, "the patterns", &sizes));
    p->sizes = sizes;
    TRY(base_alloc_doubles(p->count, "the sums over patterns", &p->keys));
    int64_t found = walk(p->task, p->count, steps, p);
    assert(found == p->count);
    (void)found;
    return DPMF_OK;
}

dpmf_status sensitivity_enumerate(const sensitivity_task *task, int *there, sensitivity_found *out) {
    const double k = (double)task->k, sweep = sensitivity_gram_cost(task) * (double)task->reach;
    list p = {.task = task};
    void *steps = NULL;
    dpmf_status status = DPMF_OK;
    *there = 0;
    if (task->k > SENSITIVITY_PATTERN_MAX || sweep > task->work_max || !sensitivity_band_fits(task, 0, task->reach))
        return DPMF_OK;
    TRY_DONE(base_alloc(task->k, sizeof(int64_t), "a pattern", &steps));
    p.count = walk(task, SENSITIVITY_ENUMERATE_MAX, steps, NULL);
    if (p.count > SENSITIVITY_ENUMERATE_MAX || (double)p.count * k * k > 1e8) goto done;
    TRY_DONE(keep_patterns(&p, steps));
    TRY_DONE(search_list(&p, out));
    *there = 1;
done:
    base_free(steps);
    base_free(p.steps);
    base_free(p.sizes);
    base_free(p.keys);
    return status;
}
