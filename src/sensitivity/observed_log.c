/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The log of a run as patterns: pairs (unit, step) in any order are sorted by unit and then by step, checked, and equal
 * patterns are kept once. Sorting is by digits, last digit first, which is stable and linear: ten million pairs are a
 * matter of a second. Digits in which all pairs agree are passed over.
 */
#include "sensitivity/observed.h"

#include "base/memory.h"

#include <assert.h>
#include <string.h>

enum { DIGIT = 11, BUCKETS = 1 << DIGIT, KEY_BITS = 64 };

typedef struct pair {
    uint64_t unit, step; /* the unit with its sign bit turned, so that the order is that of the numbers */
} pair;

static const uint64_t SIGN = (uint64_t)1 << 63;

/* ---- sorting ---- */

static uint64_t key_of(const pair *p, int by_unit) {
    return by_unit ? p->unit : p->step;
}

/* The bits in which the keys differ at all. */
static uint64_t differing(int64_t count, const pair *pairs, int by_unit) {
    uint64_t all = 0;
    for (int64_t i = 1; i < count; i++)
        all |= key_of(&pairs[i], by_unit) ^ key_of(&pairs[0], by_unit);
    return all;
}

static void sort_digit(int64_t count, const pair *from, int by_unit, int shift, pair *to) {
    int64_t place[BUCKETS] = {0}, sum = 0;
    for (int64_t i = 0; i < count; i++)
        place[key_of(&from[i], by_unit) >> shift & (BUCKETS - 1)]++;
    for (int d = 0; d < BUCKETS; d++) {
        int64_t here = place[d];
        place[d] = sum;
        sum += here;
    }
    for (int64_t i = 0; i < count; i++)
        to[place[key_of(&from[i], by_unit) >> shift & (BUCKETS - 1)]++] = from[i];
}

/* By unit, then by step; the sorted pairs end in *pairs, the other array is scratch. */
static dpmf_status sort(int64_t count, pair **pairs, pair **other, const dpmf_run *run) {
    for (int by_unit = 0; by_unit < 2; by_unit++) {
        uint64_t bits = differing(count, *pairs, by_unit);
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

static dpmf_status read_pairs(int64_t n, int64_t count, const int64_t *unit, const int64_t *step, pair *pairs) {
    for (int64_t i = 0; i < count; i++) {
        if (step[i] < 0 || step[i] >= n)
            return base_fail(DPMF_ERROR_ARGUMENT, "participation %lld is in step %lld, accepted 0 to %lld",
                             (long long)i, (long long)step[i], (long long)(n - 1));
        pairs[i] = (pair){(uint64_t)unit[i] ^ SIGN, (uint64_t)step[i]};
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
    void *begins = NULL, *steps = NULL, *first_units = NULL, *table = NULL;
    int64_t places = 2;
    while (places < 2 * units)
        places *= 2;
    TRY(base_alloc(units + 1, sizeof *log->begins, "the patterns of the log", &begins));
    log->begins = begins;
    TRY(base_alloc(count, sizeof *log->steps, "the patterns of the log", &steps));
    log->steps = steps;
    TRY(base_alloc(units, sizeof *log->units, "the patterns of the log", &first_units));
    log->units = first_units;
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
    TRY_DONE(read_pairs(n, participations, unit, step, pairs));
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
