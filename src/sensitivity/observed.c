/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sensitivity of a run that happened: every unit took part in known steps, its pattern p, and what counts is
 *
 *     max over the units of f(X_p),   X = C'C,   f(X_p) = max { sum_{t,u in p} X[t,u] <g_t, g_u> : |g_t| <= 1 }
 *
 * (Choquette-Choo et al. 2023, Section 2, with the set of patterns that were used instead of those that may be). The
 * value of one pattern is that of sensitivity/pattern.c: the sum of X where X >= 0 on the pattern (Pillutla et al. 2025,
 * Lemma 3.15b), exact under a certificate, else bounded from above.
 *
 * A log has millions of patterns, of which one decides. So each is bounded first, ever more closely, and dropped when
 * its bound is no larger than what another one is sure to reach:
 *
 *     1. equal patterns are kept once (below);
 *     2. sum |X| <= sum_t X[t,t] + 2 sum_{t<u} M(t, u-t), M a majorant that fits into the cache; for the patterns with
 *        the largest of these bounds the sum of X is made: f is at least that, for equal vectors g_t;
 *     3. sum |X| over every pattern that is left; where the largest comes from X >= 0 it is the answer;
 *     4. else the patterns themselves, by falling sum |X| (sensitivity/search.c).
 *
 * Where lines of X are beyond task->work_max: f <= (sum of column norms)^2, by Cauchy and Schwarz.
 */
#include "sensitivity/observed.h"
#include "base/memory.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST = 512 }; /* patterns whose sums give a first idea of what is reached */

typedef struct candidate {
    double key;
    int64_t pattern;
} candidate;

typedef struct observed {
    const sensitivity_task *task;
    const sensitivity_log *log;
    sensitivity_lines lines;
    int64_t count;         /* candidates that are left */
    candidate *candidates; /* by falling key once sorted */
    int64_t *which;
    double reached; /* what f or its bound is sure to be at least, for some pattern */

    /* the search */
    int64_t *sizes;
    double *keys;
} observed;

static int by_falling_key(const void *a, const void *b) {
    const candidate *left = a, *right = b;
    if (left->key != right->key) return left->key < right->key ? 1 : -1;
    return left->pattern < right->pattern ? -1 : left->pattern > right->pattern;
}

/* ---- bounds by the majorant ---- */

/* What the bound asked for cannot exceed, from sums over rows: largest eigenvalues are no larger than the largest. */
static double key_of(const sensitivity_task *task, double total, double largest_row, int64_t size) {
    if (task->bound == DPMF_BOUND_SPECTRAL) return largest_row * (double)size;
    return task->bound == DPMF_BOUND_SIGNS ? M_PI_2 * total : total;
}

/* For the spectral bound every row of the pattern is needed; its entries left of the diagonal too. */
static double largest_row(const sensitivity_lines *lines, int64_t size, const int64_t *steps) {
    const sensitivity_task *task = lines->task;
    double largest = 0;
    for (int64_t i = 0; i < size; i++) {
        double row = lines->diagonal[steps[i]];
        for (int64_t j = 0; j < size; j++) {
            int64_t t = steps[i < j ? i : j], lag = llabs((long long)(steps[i] - steps[j]));
            if (lag > 0 && lag < task->reach)
                row += lines->majorant[t * SENSITIVITY_MAJORANT_BLOCKS / task->n * task->reach + lag];
        }
        largest = fmax(largest, row);
    }
    return largest;
}

static double first_key(const sensitivity_lines *lines, int64_t pattern) {
    const sensitivity_task *task = lines->task;
    const int64_t *steps = lines->log->steps + lines->log->begins[pattern],
                  size = sensitivity_log_size(lines->log, pattern);
    double total = 0, off = 0;
    for (int64_t i = 0; i < size; i++) {
        const double *majorant = lines->majorant + steps[i] * SENSITIVITY_MAJORANT_BLOCKS / task->n * task->reach;
        total += lines->diagonal[steps[i]];
        for (int64_t j = i + 1; j < size && steps[j] - steps[i] < task->reach; j++)
            off += majorant[steps[j] - steps[i]];
    }
    total = (total + 2 * off) * (1 + 4 * DBL_EPSILON * (double)(size * size)); /* not below by rounding */
    return key_of(task, total, task->bound == DPMF_BOUND_SPECTRAL ? largest_row(lines, size, steps) : 0, size);
}

enum { GROUP = 4096 };

static dpmf_status key_item(void *context, int64_t item, int worker) {
    observed *o = context;
    (void)worker;
    for (int64_t i = item * GROUP; i < o->count && i < (item + 1) * GROUP; i++)
        o->candidates[i] = (candidate){first_key(&o->lines, i), i};
    return DPMF_OK;
}

/* The first `count` keys become sum |X|, `reached` what equal vectors reach; negative: has X an entry below 0 there? */
static dpmf_status sum_candidates(observed *o, int64_t count, char *negative) {
    sensitivity_pattern_sums *sums = NULL;
    TRY(base_alloc(count, sizeof *sums, "the sums over patterns", (void **)&sums));
    for (int64_t i = 0; i < count; i++)
        o->which[i] = o->candidates[i].pattern;
    dpmf_status status = sensitivity_lines_sums(&o->lines, count, o->which, sums);
    for (int64_t i = 0; i < count && status == DPMF_OK; i++) {
        o->reached = fmax(o->reached, base_running_value(&sums[i].plain));
        if (negative == NULL) continue;
        negative[o->which[i]] = (char)sums[i].negative;
        if (o->task->bound != DPMF_BOUND_SPECTRAL)
            o->candidates[i].key = key_of(o->task, base_running_value(&sums[i].absolute), 0, 0);
    }
    base_free(sums);
    return status;
}

/* Sorts, and drops what cannot be the largest; the largest itself always stays. */
static void sort_and_drop(observed *o) {
    qsort(o->candidates, (size_t)o->count, sizeof *o->candidates, by_falling_key);
    while (o->count > 1 && o->candidates[o->count - 1].key < o->reached)
        o->count--;
}

/* ---- the patterns themselves ---- */

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    observed *o = context;
    for (int64_t i = 0; i < count; i++)
        o->which[i] = o->candidates[which[i]].pattern;
    return sensitivity_lines_matrices(&o->lines, count, o->which, o->log->longest * o->log->longest, matrices);
}

static dpmf_status search(observed *o, sensitivity_found *out, int64_t *pattern) {
    int64_t winner = 0;
    const sensitivity_patterns patterns = {.count = o->count,
                                           .size = o->log->longest,
                                           .sizes = o->sizes,
                                           .keys = o->keys,
                                           .fill = fill,
                                           .context = o,
                                           .winner = &winner};
    for (int64_t i = 0; i < o->count; i++) {
        o->sizes[i] = sensitivity_log_size(o->log, o->candidates[i].pattern);
        o->keys[i] = o->candidates[i].key;
    }
    TRY(sensitivity_patterns_search(o->task, &patterns, out));
    *pattern = o->candidates[winner].pattern;
    return DPMF_OK;
}

/* After the sums: the answer if the largest is of a kind that needs no search. */
static int settled(const observed *o, const char *negative, sensitivity_found *out) {
    const candidate *top = &o->candidates[0];
    const dpmf_sensitivity_bound bound = o->task->bound;
    int single = sensitivity_log_size(o->log, top->pattern) == 1;
    if (bound == DPMF_BOUND_SPECTRAL || bound == DPMF_BOUND_SIGNS) return 0;
    if (bound == DPMF_BOUND_ABSOLUTE)
        *out = (sensitivity_found){top->key, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE};
    else if (!negative[top->pattern])
        *out = (sensitivity_found){top->key, DPMF_EXACT,
                                   single ? SENSITIVITY_METHOD_COLUMN : SENSITIVITY_METHOD_NON_NEGATIVE};
    else if (o->log->longest > SENSITIVITY_PATTERN_MAX)
        *out = (sensitivity_found){top->key, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_TOO_LARGE};
    else
        return 0;
    return 1;
}

static dpmf_status by_lines(observed *o, char *negative, sensitivity_found *out, int64_t *pattern) {
    TRY(sensitivity_lines_majorant(&o->lines));
    TRY(base_progress(o->task->run, "bounding patterns", -1));
    TRY(base_pool_run(o->task->pool, (o->count + GROUP - 1) / GROUP, key_item, o));
    sort_and_drop(o);
    if (o->count > FIRST) TRY(sum_candidates(o, FIRST, NULL));
    sort_and_drop(o);
    TRY(sum_candidates(o, o->count, negative));
    sort_and_drop(o);
    *pattern = o->candidates[0].pattern;
    return settled(o, negative, out) ? DPMF_OK : search(o, out, pattern);
}

/* ---- without lines ---- */

static dpmf_status by_norms(const observed *o, sensitivity_found *out, int64_t *pattern) {
    double *norms = NULL, largest = -1;
    if (o->task->bound == DPMF_BOUND_SPECTRAL || o->task->bound == DPMF_BOUND_SIGNS)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "this bound of the sensitivity needs more than %.2g multiplications: use absolute or auto",
                         o->task->work_max);
    TRY(base_alloc_doubles(o->task->n, "the column norms", &norms));
    dpmf_status status = dpmf_strategy_column_norms(o->task->strategy, norms);
    for (int64_t p = 0; p < o->log->count && status == DPMF_OK; p++) {
        double sum = 0;
        for (int64_t i = o->log->begins[p]; i < o->log->begins[p + 1]; i++)
            sum += norms[o->log->steps[i]];
        if (!(sum <= largest)) { /* what is not a number is kept, and refused later */
            largest = sum;
            *pattern = p;
        }
    }
    base_free(norms);
    int single = sensitivity_log_size(o->log, *pattern) == 1 && o->task->bound == DPMF_BOUND_AUTO;
    *out = (sensitivity_found){largest * largest, single ? DPMF_EXACT : DPMF_UPPER_BOUND,
                               single ? SENSITIVITY_METHOD_COLUMN : SENSITIVITY_METHOD_NORMS};
    return status;
}

static dpmf_status alloc_search(observed *o, char **negative) {
    TRY(base_alloc(o->count, sizeof *o->candidates, "the order of patterns", (void **)&o->candidates));
    TRY(base_alloc(o->count, sizeof *o->which, "the order of patterns", (void **)&o->which));
    TRY(base_alloc(o->count, sizeof *o->sizes, "the order of patterns", (void **)&o->sizes));
    TRY(base_alloc(o->count, 1, "the signs of patterns", (void **)negative));
    return base_alloc_doubles(o->count, "the order of patterns", &o->keys);
}

static dpmf_status largest_pattern(const sensitivity_task *task, const sensitivity_log *log, sensitivity_found *out,
                                   int64_t *pattern) {
    observed o = {.task = task, .log = log, .count = log->count};
    char *negative = NULL;
    int affordable = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(sensitivity_lines_open(task, log, &o.lines, &affordable));
    if (affordable) {
        TRY_DONE(alloc_search(&o, &negative));
        TRY_DONE(by_lines(&o, negative, out, pattern));
    } else {
        TRY_DONE(by_norms(&o, out, pattern));
    }
done:
    sensitivity_lines_close(&o.lines);
    base_free(o.candidates);
    base_free(o.which);
    base_free(o.sizes);
    base_free(o.keys);
    base_free(negative);
    return status;
}

static dpmf_status check_size(const sensitivity_task *task) {
    if (task->bound == DPMF_BOUND_SIGNS && task->k > SENSITIVITY_SIGNS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "sensitivity bound signs: %lld participations, accepted up to %d",
                         (long long)task->k, SENSITIVITY_SIGNS_MAX);
    if (task->bound == DPMF_BOUND_SPECTRAL && task->k > SENSITIVITY_PATTERN_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sensitivity bound spectral: %lld participations, accepted up to %d (their matrix is held); "
                         "use absolute or auto",
                         (long long)task->k, SENSITIVITY_PATTERN_MAX);
    return DPMF_OK;
}

dpmf_status dpmf_sensitivity_observed(const dpmf_strategy *strategy, int64_t participations, const int64_t *unit,
                                      const int64_t *step, const dpmf_evaluate_options *options, dpmf_sensitivity *out,
                                      int64_t *worst_unit) {
    const dpmf_evaluate_options o = options == NULL ? (dpmf_evaluate_options){.run = dpmf_run_defaults()} : *options;
    sensitivity_task task = {.strategy = strategy, .bound = o.sensitivity, .run = &o.run};
    sensitivity_log log = {0};
    sensitivity_found found = SENSITIVITY_NOT_FOUND, signs = SENSITIVITY_NOT_FOUND;
    dpmf_sensitivity result = {0};
    int64_t pattern = 0, other = 0;
    dpmf_status status = DPMF_OK;
    TRY(sensitivity_check(strategy, NULL, &o));
    TRY(sensitivity_check_one_stream(&o));
    task.n = strategy->steps;
    TRY_DONE(sensitivity_log_open(task.n, participations, unit, step, &o.run, &log));
    task.k = log.longest;
    task.pattern = WORKLOAD_APART; /* of any separation */
    task.b = 1;
    TRY_DONE(check_size(&task));
    TRY_DONE(base_pool_create(o.run.threads, &task.pool));
    TRY_DONE(sensitivity_task_open(&task));
    TRY_DONE(largest_pattern(&task, &log, &found, &pattern));
    if (o.columns == 1 && found.kind != DPMF_EXACT) {
        task.one_column = 1;
        TRY_DONE(largest_pattern(&task, &log, &signs, &other));
        task.one_column = signs.square < found.square;
        if (task.one_column) found = signs;
        if (task.one_column) pattern = other;
    }
    TRY_DONE(sensitivity_conclude(&task, &found, &result));
    if (o.adjacency == DPMF_ADJACENCY_REPLACE_ONE) result.value *= 2;
    *out = result;
    if (worst_unit != NULL) *worst_unit = log.units[pattern];
done:
    sensitivity_task_close(&task);
    base_pool_free(task.pool);
    sensitivity_log_close(&log);
    return status;
}

/* ---- the log ---- */

/*
 * The pairs (unit, step) of a log, in any order, are sorted by unit and step and checked; equal patterns are kept once. Sorting
 * by digits is linear: ten million pairs are a matter of a second. Digits in which all pairs agree are passed over.
 */
enum { DIGIT = 11, BUCKETS = 1 << DIGIT, KEY_BITS = 64 };

typedef struct pair {
    uint64_t unit, step; /* the unit with its sign bit turned, so that the order is that of the numbers */
} pair;

static const uint64_t SIGN = (uint64_t)1 << 63;

static uint64_t digit_key(const pair *p, int by_unit) {
    return by_unit ? p->unit : p->step;
}

static void sort_digit(int64_t count, const pair *from, int by_unit, int shift, pair *to) {
    int64_t place[BUCKETS] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i++)
        place[digit_key(&from[i], by_unit) >> shift & (BUCKETS - 1)]++;
    for (int d = 0; d < BUCKETS; d++) {
        int64_t here = place[d];
        place[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < count; i++)
        to[place[digit_key(&from[i], by_unit) >> shift & (BUCKETS - 1)]++] = from[i];
}

/* By unit, then by step; the sorted pairs end in *pairs, the other array is scratch. */
static dpmf_status sort(int64_t count, pair **pairs, pair **other, const dpmf_run *run) {
    for (int by_unit = 0; by_unit < 2; by_unit++) {
        uint64_t bits = 0; /* in which the keys differ at all */
        for (int64_t i = 1; i < count; i++)
            bits |= digit_key(&(*pairs)[i], by_unit) ^ digit_key(&(*pairs)[0], by_unit);
        for (int shift = 0; shift < KEY_BITS; shift += DIGIT) {
            if ((bits >> shift & (BUCKETS - 1)) == 0) continue;
            TRY(base_progress(run, "sorting the log", -1));
            sort_digit(count, *pairs, by_unit, shift, *other);
            pair *swap = *pairs;
            *pairs = *other;
            *other = swap;
        }
    }
    return DPMF_OK;
}

static int64_t unit_of(const pair *p) {
    return (int64_t)(p->unit ^ SIGN);
}

static dpmf_status check_sorted(int64_t count, const pair *pairs, int64_t *units) {
    *units = 1;
    for (int64_t i = 1; i < count; i++) {
        if (pairs[i].unit != pairs[i - 1].unit)
            ++*units;
        else if (pairs[i].step == pairs[i - 1].step)
            return base_fail(DPMF_ERROR_ARGUMENT, "unit %lld takes part twice in step %lld, accepted once",
                             (long long)unit_of(&pairs[i]), (long long)pairs[i].step);
    }
    return DPMF_OK;
}

/* ---- patterns, each once ---- */

static uint64_t hash(int64_t size, const int64_t *steps) {
    uint64_t h = (uint64_t)size;
    for (int64_t i = 0; i < size; i++) {
        h = (h ^ (uint64_t)steps[i]) * 0x9E3779B97F4A7C15u; /* 2^64 over the golden ratio: spreads low bits upwards */
        h ^= h >> 29;
    }
    return h;
}

/* Is the pattern behind the last one there already? If not it is remembered in `table` of mask + 1 places. */
static int seen_before(const sensitivity_log *log, int64_t size, int64_t *table, uint64_t mask) {
    const int64_t *steps = log->steps + log->begins[log->count];
    for (uint64_t h = hash(size, steps);; h++) {
        int64_t *place = &table[h & mask], other = *place - 1;
        if (other < 0) {
            *place = log->count + 1;
            return 0;
        }
        if (sensitivity_log_size(log, other) == size &&
            memcmp(log->steps + log->begins[other], steps, (size_t)size * sizeof *steps) == 0)
            return 1;
    }
}

static void keep_patterns(int64_t count, const pair *pairs, int64_t *table, uint64_t mask, sensitivity_log *log) {
    for (int64_t first = 0, end = 0; first < count; first = end) {
        int64_t *steps = log->steps + log->begins[log->count];
        for (end = first; end < count && pairs[end].unit == pairs[first].unit; end++)
            steps[end - first] = (int64_t)pairs[end].step;
        if (seen_before(log, end - first, table, mask)) continue;
        log->units[log->count] = unit_of(&pairs[first]);
        log->begins[log->count + 1] = log->begins[log->count] + end - first;
        if (end - first > log->longest) log->longest = end - first;
        log->count++;
    }
}

static dpmf_status make_patterns(int64_t count, const pair *pairs, int64_t units, sensitivity_log *log) {
    void *table = NULL;
    int64_t places = 2;
    while (places < 2 * units)
        places *= 2;
    TRY(base_alloc(units + 1, sizeof *log->begins, "the patterns of the log", (void **)&log->begins));
    TRY(base_alloc(count, sizeof *log->steps, "the patterns of the log", (void **)&log->steps));
    TRY(base_alloc(units, sizeof *log->units, "the patterns of the log", (void **)&log->units));
    TRY(base_alloc(places, sizeof(int64_t), "the patterns of the log", &table));
    keep_patterns(count, pairs, table, (uint64_t)places - 1, log);
    base_free(table);
    return DPMF_OK;
}

dpmf_status sensitivity_log_open(int64_t n, int64_t participations, const int64_t *unit, const int64_t *step,
                                 const dpmf_run *run, sensitivity_log *log) {
    void *memory[2] = {NULL, NULL};
    int64_t units = 0;
    dpmf_status status = DPMF_OK;
    *log = (sensitivity_log){0};
    if (participations < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld participations, accepted 1 or more", (long long)participations);
    if (unit == NULL || step == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "the units or the steps of the log are NULL");
    TRY_DONE(base_alloc(participations, sizeof(pair), "the pairs of the log", &memory[0]));
    TRY_DONE(base_alloc(participations, sizeof(pair), "the pairs of the log", &memory[1]));
    pair *pairs = memory[0], *other = memory[1];
    for (int64_t i = 0; i < participations; i++) {
        if (step[i] < 0 || step[i] >= n)
            TRY_DONE(base_fail(DPMF_ERROR_ARGUMENT, "participation %lld is in step %lld, accepted 0 to %lld",
                               (long long)i, (long long)step[i], (long long)(n - 1)));
        pairs[i] = (pair){(uint64_t)unit[i] ^ SIGN, (uint64_t)step[i]};
    }
    TRY_DONE(sort(participations, &pairs, &other, run));
    TRY_DONE(check_sorted(participations, pairs, &units));
    TRY_DONE(make_patterns(participations, pairs, units, log));
done:
    base_free(memory[0]);
    base_free(memory[1]);
    if (status != DPMF_OK) sensitivity_log_close(log);
    return status;
}

void sensitivity_log_close(sensitivity_log *log) {
    base_free(log->begins);
    base_free(log->steps);
    base_free(log->units);
    *log = (sensitivity_log){0};
}
