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
    double enough;    /* one column: values up to this need not be closer */
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
    const int64_t size = s->patterns->sizes[s->which[place]];
    if (s->repeats[item]) return DPMF_OK;
    if (s->task->one_column) return sensitivity_pattern_column(size, matrix_of(s, place), s->enough, &s->values[item]);
    return sensitivity_pattern_evaluate(size, matrix_of(s, place), s->task->bound, &s->values[item]);
}

/* Patterns of a mechanism that looks the same at every step have one matrix: it is evaluated once. */
static int repeats_last(const search *s, int64_t place) {
    if (place == 0) return 0;
    int64_t k = s->patterns->sizes[s->which[place]];
    if (s->patterns->sizes[s->which[place - 1]] != k) return 0;
    return memcmp(matrix_of(s, place), matrix_of(s, place - 1), (size_t)(k * k) * sizeof(double)) == 0;
}

/* A rough count for one pattern: the factorizations and some two hundred sweeps of the ascent, and signs that were tried. */
static double pattern_work(int64_t size, const sensitivity_found *value) {
    double k = (double)size, ascent = 200 * k * k * sqrt(2 * k);
    const int tried =
        value->method == SENSITIVITY_METHOD_ONE_COLUMN || value->method == SENSITIVITY_METHOD_ONE_COLUMN_BOUND;
    return k * k * k + (ascent < 4e9 ? ascent : 4e9) + (tried ? ldexp(4 * fmin(k, 20), (int)fmin(k, 20)) : 0);
}

static dpmf_status evaluate_batch(search *s, int64_t done, int64_t count, sensitivity_found *best) {
    for (s->start = 0; s->start < count; s->start += GROUP) {
        int64_t group = count - s->start < GROUP ? count - s->start : GROUP;
        if (s->order[done + s->start].key <= best->square) return DPMF_OK;
        if (s->task->bound == DPMF_BOUND_AUTO && s->work > s->task->search_max) {
            *best = (sensitivity_found){s->order[done + s->start].key, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_TOO_LARGE};
            s->winner = s->order[done + s->start].id;
            return DPMF_OK;
        }
        for (int64_t i = 0; i < group; i++)
            s->repeats[i] = (char)repeats_last(s, s->start + i);
        TRY(base_progress(s->task->run, "bounding patterns", (double)(done + s->start) / (double)s->patterns->count));
        s->enough = best->square;
        TRY(base_pool_run(s->task->pool, group, evaluate_item, s));
        for (int64_t i = 0; i < group; i++) {
            if (s->repeats[i]) continue; /* what it repeats has been counted */
            const sensitivity_found *value = &s->values[i];
            s->work += pattern_work(s->patterns->sizes[s->which[s->start + i]], value);
            int better = value->square > best->square ||
                         (value->square == best->square && value->kind == DPMF_EXACT && best->kind != DPMF_EXACT);
            if (!better) continue;
            *best = *value;
            s->winner = s->which[s->start + i];
        }
    }
    return DPMF_OK;
}

static dpmf_status run_batches(search *s, sensitivity_found *best) {
    const sensitivity_patterns *p = s->patterns;
    const int64_t room = s->task->bytes_max / (p->size * p->size * (int64_t)sizeof(double));
    int64_t most = room < 1 ? 1 : room < p->count ? room : p->count, batch = FIRST_BATCH < most ? FIRST_BATCH : most;
    for (int64_t done = 0; done < p->count && s->order[done].key > best->square;) {
        int64_t count = p->count - done < batch ? p->count - done : batch;
        if (batch > s->batch) {
            base_free(s->matrices);
            s->matrices = NULL;
            s->batch = batch;
            TRY(base_alloc_doubles(batch * p->size * p->size, "the matrices of patterns", &s->matrices));
        }
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
    dpmf_status status = DPMF_OK;
    assert(patterns->count > 0 && patterns->size <= SENSITIVITY_PATTERN_MAX);
    TRY_DONE(base_alloc(patterns->count, sizeof *s.order, "the order of patterns", (void **)&s.order));
    TRY_DONE(base_alloc(patterns->count, sizeof *s.which, "the order of patterns", (void **)&s.which));
    for (int64_t i = 0; i < patterns->count; i++)
        s.order[i] = (candidate){patterns->keys[i], i};
    qsort(s.order, (size_t)patterns->count, sizeof *s.order, by_falling_key);
    TRY_DONE(run_batches(&s, &best));
    *out = best;
    if (patterns->winner != NULL) *patterns->winner = s.winner;
done:
    base_free(s.order);
    base_free(s.which);
    base_free(s.matrices);
    return status;
}

/* ---- one by one ---- */

/*
 * Min-separation and shuffled patterns one by one, where they are few. Only those that no other contains matter, since f grows:
 * k separated steps, or fewer that leave no room behind the last; one step in every epoch.
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
    for (int64_t i = 0; i < p->count; i++) {
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
    TRY_DONE(sensitivity_patterns_search(p->task, &patterns, out));
done:
    sensitivity_band_close(&p->band);
    return status;
}

static dpmf_status keep_patterns(list *p, int64_t *steps) {
    TRY(base_alloc(p->count * p->task->k, sizeof *p->steps, "the patterns", (void **)&p->steps));
    TRY(base_alloc(p->count, sizeof *p->sizes, "the patterns", (void **)&p->sizes));
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

/* ---- entries that fall with distance ---- */

/*
 * Toeplitz C, and X = C'C whose entries X[u-lag, u] are non-negative and do not rise with lag.
 *
 * Non-negative, non-increasing Toeplitz C: the earliest pattern 0, b, 2b, ... is the worst, for cyclic and
 * min-separation participation (Kalinin and Lampert 2024, Theorem 2; Pillutla et al. 2025, Lemma 3.16c and Eq. 3.25):
 *
 *     sensitivity^2 = |C[:,0] + C[:,b] + ... + C[:,(k-1)b]|^2.
 *
 * More generally let Y >= |X| be such that Y[u-lag, u] does not rise with lag, for every u. The l-th of separated
 * participations, at u, has others at least b, 2b, ..., (l-1)b before it, so that
 *
 *     sum_{t,u in p} |X[t,u]| <= sum_l g_l(u_l),   g_l(u) = Y[u,u] + 2 sum_{j<l} Y[u-jb, u],
 *
 * and the largest right-hand side over separated u_1 < u_2 < ... is a dynamic program, O(n k) in all, one diagonal of Y
 * at a time. If evenly spaced steps attain it and Y = X, it is the sensitivity. In shuffled epochs the pick of j epochs
 * before is at least 1 + (j-1)b before, and each epoch takes its largest g. For Toeplitz C that is not normalized,
 * where Y falls with both of its steps, a closer bound follows from both neighbours: the pick at place p of its epoch
 * is at least p + 1 + (j-1)b after that of j epochs before and jb - p before that of j epochs after. Places are taken
 * together in ranges, each with the entries of Y at its nearest ends.
 *
 * Such a Y is there for
 *   - Toeplitz C: that of the non-increasing majorant max_{j>=i} |c_j|. For fixed u the sum over c_i c_{i+lag},
 *     i < n-u, falls with lag term by term. Y = X if c is of one sign and |c| does not rise.
 *   - the same with normalized columns: dividing by d_{u-lag}, which does not fall with lag, since the norm of a column
 *     of a Toeplitz matrix falls with its number.
 *   - trees: a node over u-lag and u lies over all steps between them.
 *   - any of these repeated: X is zero between blocks.
 */
void sensitivity_toeplitz_shape(int64_t count, const double *c, int *one_sign, int *non_increasing) {
    const double sign = c[0] < 0 ? -1 : 1;
    *one_sign = *non_increasing = 1;
    for (int64_t i = 0; i < count; i++) {
        if (sign * c[i] < 0) *one_sign = 0;
        if (i > 0 && fabs(c[i]) > fabs(c[i - 1])) *non_increasing = 0;
    }
}

dpmf_status sensitivity_check_visits(double visits) {
    static const double most = 1e10; /* minutes */
    if (visits <= most) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "this sensitivity needs a look at each of %.6g participations or steps, accepted up to %g", visits,
                     most);
}

/*
 * s_i = c_i + c_{i-b} + ... (k terms), compensated, along each residue of i: the (k+1)-th term leaves as a new one comes. Between the
 * last that comes and the first that leaves nothing changes: where that is long, it is one product, so that the work follows the
 * coefficients and not the steps, of which there may be 2^53. Shorter stretches keep the last digits that files have.
 */
double sensitivity_earliest_square(int64_t n, int64_t k, int64_t b, int64_t count, const double *c) {
    const int64_t long_stretch = (int64_t)1 << 20, last = k > n / b ? n : k * b;
    base_running square = {0};
    for (int64_t r = 0; r < b && r < count; r++) { /* count <= n; beyond it all terms are 0 */
        base_running sum = {0};
        int64_t terms = 0;
        for (int64_t i = r; i < n; i += b, terms++) {
            const int64_t end = last + r < n ? last + r : n, still = i >= count && i < end ? (end - 1 - i) / b + 1 : 0;
            if (still > long_stretch) {
                const double s = base_running_value(&sum);
                base_running_add(&square, s * s * (double)still);
                terms += still - 1;
                i += (still - 1) * b;
                continue;
            }
            if (i >= last && i - last >= count) break;        /* all have left */
            int64_t leaving = terms >= k ? i - k * b : count; /* terms counts how many came before */
            if (i < count) base_running_add(&sum, c[i]);
            if (leaving < count) base_running_add(&sum, -c[leaving]);
            double s = base_running_value(&sum);
            base_running_add(&square, s * s);
        }
    }
    return base_running_value(&square);
}

/* Y, if there is one: gram->majorant is the caller's to free. `tight`: Y = X. */
static dpmf_status open_monotone(const sensitivity_task *task, sensitivity_gram *gram, int *there, int *tight) {
    int64_t count = 0;
    const double *c = NULL;
    int one_sign = 0, non_increasing = 0;
    *gram = sensitivity_gram_of(task);
    *there = *tight = task->falls;
    if (*there || !sensitivity_task_toeplitz(task, &count, &c)) return DPMF_OK;
    TRY(base_alloc_doubles(count, "the majorant of C", &gram->majorant));
    gram->count = count;
    gram->majorant[count - 1] = fabs(c[count - 1]);
    for (int64_t i = count - 2; i >= 0; i--)
        gram->majorant[i] = fmax(fabs(c[i]), gram->majorant[i + 1]);
    sensitivity_toeplitz_shape(count, c, &one_sign, &non_increasing);
    *there = 1;
    *tight = one_sign && non_increasing;
    return DPMF_OK;
}

typedef struct monotone {
    const sensitivity_task *task;
    int64_t picks;       /* l: how many participations g has room for */
    double *g;           /* g_l(u) */
    double *best, *next; /* separated: the largest sum for l picks up to step t */
    double upper;        /* separated: the largest so far; shuffled: the sum so far */
    base_running *even;  /* the sum of X over l, l+b, ..., l+(k-1)b; NULL: not wanted */
    int64_t even_count;
} monotone;

static void pick(monotone *m) {
    if (m->task->pattern == WORKLOAD_EPOCHS) {
        const int64_t n = m->task->n, b = m->task->b, first = m->picks * b;
        double top = 0;
        for (int64_t u = first; u < n && u < first + b; u++)
            top = fmax(top, m->g[u]);
        m->upper += top;
        m->picks++;
    } else {
        /* One more pick, its g given: the l-th of separated picks cannot come before (l-1) b. */
        const int64_t n = m->task->n, b = m->task->b;
        double top = -INFINITY;
        for (int64_t u = 0; u < n; u++) {
            double before = m->picks == 0 ? 0 : u >= b ? m->best[u - b] : -INFINITY;
            top = fmax(top, before + m->g[u]);
            m->next[u] = top;
        }
        double *swap = m->best;
        m->best = m->next;
        m->next = swap;
        m->upper = fmax(m->upper, top);
        m->picks++;
    }
}

static dpmf_status take_lag(void *context, int64_t lag, const double *values) {
    monotone *m = context;
    const int64_t n = m->task->n, b = m->task->b, k = m->task->k;
    const double times = lag == 0 ? 1 : 2;
    for (int64_t u = lag; u < n; u++)
        m->g[u] += times * values[u - lag];
    for (int64_t i = 0; m->even != NULL && i * b + lag <= (k - 1) * b; i++)
        for (int64_t l = 0; l < m->even_count; l++)
            base_running_add(&m->even[l], times * values[i * b + l]);
    pick(m);
    return DPMF_OK;
}

static double largest_even(const monotone *m) {
    double largest = 0;
    for (int64_t l = 0; m->even != NULL && l < m->even_count; l++)
        largest = fmax(largest, base_running_value(&m->even[l]));
    return largest;
}

static dpmf_status make_bounds(monotone *m, int tight) {
    const int64_t n = m->task->n, b = m->task->b, offsets = n - (m->task->k - 1) * b;
    TRY(base_alloc_doubles(n, "a bound for each step", &m->g));
    if (m->task->pattern == WORKLOAD_EPOCHS) return DPMF_OK;
    TRY(base_alloc_doubles(n, "a bound for each step", &m->best));
    TRY(base_alloc_doubles(n, "a bound for each step", &m->next));
    if (!tight || m->task->pattern != WORKLOAD_APART) return DPMF_OK;
    m->even_count = offsets < b ? offsets : b;
    return base_alloc(m->even_count, sizeof *m->even, "evenly spaced sums", (void **)&m->even);
}

/* All diagonals that count, and then the picks that have no new neighbour. */
static dpmf_status run(const sensitivity_gram *gram, monotone *m) {
    const sensitivity_task *task = m->task;
    const int64_t b = task->b, k = task->k, reach = task->reach;
    const char *const what = "bounding separated steps";
    int64_t end = 1 + (k - 1) * b < reach ? 1 + (k - 1) * b : reach;
    if (task->pattern == WORKLOAD_EPOCHS) {
        TRY(sensitivity_gram_sweep(gram, 0, 1, 1, what, take_lag, m));
        TRY(sensitivity_gram_sweep(gram, 1, b, end, what, take_lag, m)); /* 1, 1+b, ..., 1+(k-2)b */
    } else {
        TRY(sensitivity_gram_sweep(gram, 0, b, end, what, take_lag, m)); /* 0, b, ..., (k-1)b */
    }
    assert(m->picks <= k);
    for (int64_t l = m->picks; l < k; l++) {
        pick(m);
        TRY(base_progress(task->run, what, (double)l / (double)k));
    }
    return DPMF_OK;
}

/* ---- shuffled epochs, both neighbours ---- */

enum { RANGES_MAX = 64 }; /* of places in an epoch */

typedef struct places {
    const sensitivity_task *task;
    int64_t low, high; /* the range */
    int forward;       /* the lags lead to later epochs */
    double *sums;      /* for each epoch, of this range */
} places;

static dpmf_status add_neighbours(void *context, int64_t lag, const double *values) {
    const places *s = context;
    const int64_t n = s->task->n, k = s->task->k, b = s->task->b;
    int64_t apart = s->forward ? (lag + s->high) / b : (lag - s->low - 1) / b + 1;
    for (int64_t e = 0; e + apart < k; e++) {
        int64_t first = s->forward ? e * b + s->high : (e + 1) * b - 1; /* the earlier step */
        int64_t own = s->forward ? e : e + apart;                       /* whose sum it is */
        if (own * b + s->low < n && first + lag < n) s->sums[own] += values[first];
    }
    return DPMF_OK;
}

static dpmf_status add_range(const sensitivity_gram *gram, places *s, double *best) {
    const sensitivity_task *task = s->task;
    const int64_t b = task->b, k = task->k, reach = task->reach, back = s->low + 1, ahead = b - s->high;
    const char *const what = "bounding places in epochs";
    int64_t back_end = back + (k - 1) * b < reach ? back + (k - 1) * b : reach;
    int64_t ahead_end = ahead + (k - 1) * b < reach ? ahead + (k - 1) * b : reach;
    s->forward = 0;
    TRY(sensitivity_gram_sweep(gram, back, b, back_end, what, add_neighbours, s));
    s->forward = 1;
    TRY(sensitivity_gram_sweep(gram, ahead, b, ahead_end, what, add_neighbours, s));
    for (int64_t e = 0; e < k; e++)
        best[e] = fmax(best[e], s->sums[e]);
    return DPMF_OK;
}

static dpmf_status both_neighbours(const sensitivity_gram *gram, double *square) {
    const sensitivity_task *task = gram->task;
    const int64_t n = task->n, k = task->k, b = task->b;
    double room = task->work_max / (40 * (double)n * (double)k), *memory = NULL, sum = 0;
    int64_t ranges = room > RANGES_MAX ? RANGES_MAX : room < 2 ? 0 : (int64_t)room;
    if (ranges > b) ranges = b;
    if (ranges == 0) return DPMF_OK;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(n + 2 * k, "bounds of epochs", &memory));
    double *diagonal = memory, *best = diagonal + n;
    places s = {.task = task, .sums = best + k};
    TRY_DONE(sensitivity_gram_lag(gram, 0, diagonal));
    for (int64_t q = 0; q < ranges; q++) {
        s.low = q * b / ranges;
        s.high = (q + 1) * b / ranges - 1;
        for (int64_t e = 0; e < k; e++)
            s.sums[e] = e * b + s.low < n ? diagonal[e * b + s.low] : 0;
        TRY_DONE(add_range(gram, &s, best));
    }
    for (int64_t e = 0; e < k; e++)
        sum += best[e];
    *square = sum;
done:
    base_free(memory);
    return status;
}

dpmf_status sensitivity_monotone(const sensitivity_task *task, sensitivity_found *best) {
    sensitivity_gram gram;
    monotone m = {.task = task};
    int there = 0, tight = 0;
    dpmf_status status = DPMF_OK;
    TRY(open_monotone(task, &gram, &there, &tight));
    if (!there) return DPMF_OK;
    if (gram.majorant != NULL && task->stamps == 1 && task->norms == NULL &&
        task->pattern != WORKLOAD_EPOCHS) { /* the dynamic program would find the earliest pattern */
        double square = sensitivity_earliest_square(task->n, task->k, task->b, gram.count, gram.majorant);
        sensitivity_found_improve(best, square, SENSITIVITY_METHOD_MAJORANT);
        goto done;
    }
    if ((double)task->n * (double)task->k > task->work_max / 8) goto done;
    TRY_DONE(make_bounds(&m, tight));
    TRY_DONE(run(&gram, &m));
    /* evenly spaced steps reach the bound, up to the rounding of both sums */
    if (m.even != NULL && m.upper <= largest_even(&m) * (1 + 1e-13)) {
        sensitivity_found_sum(task, m.upper, SENSITIVITY_METHOD_EVEN, best);
        goto done;
    }
    if (gram.majorant != NULL && task->stamps == 1 && task->norms == NULL) TRY_DONE(both_neighbours(&gram, &m.upper));
    sensitivity_found_improve(best, m.upper, tight ? SENSITIVITY_METHOD_DISTANCE : SENSITIVITY_METHOD_MAJORANT);
done:
    base_free(gram.majorant);
    base_free(m.g);
    base_free(m.best);
    base_free(m.next);
    base_free(m.even);
    return status;
}
