/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Participation from a file: the patterns of steps that one unit may take part in, one by one. This is the schema in its general
 * form (Choquette-Choo et al. 2023, Section 2; Pillutla et al. 2025, Definition 3.12), of which the named kinds are examples.
 *
 * A unit may stay away from steps of its pattern, since a contribution of 0 has a norm of at most 1. So a pattern that is part of
 * another one changes no sensitivity, no bound and no optimum, for any C, and is left out. What remains is sorted: the text, the
 * digest in it and the array in a mechanism file are the same for equal sets of patterns.
 *
 * Lists of the patterns of single, cyclic or full participation are seen to be that, and take its routes everywhere.
 *
 * A mechanism file is not trusted: its array is read in one pass that checks sizes, ranges and order, and opens no other file.
 */
#include "workload/workload.h"

#include "base/file.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const int64_t FILE_BYTES_MAX = (int64_t)1 << 29; /* 2e7 numbers of up to 20 characters, and comments */
static const double COMPARE_MAX = 4e9;                  /* comparisons for leaving out parts of others: some seconds */
static const char ARRAY[] = "participation";            /* in a mechanism file */

/* ---- patterns as they come ---- */

typedef struct list {
    int64_t steps; /* n */
    int64_t most;  /* patterns */
    int64_t patterns, count, pattern_room, room;
    int64_t *begins; /* of each pattern in `listed` */
    int64_t *listed;
} list;

static void list_free(list *l) {
    base_free(l->begins);
    base_free(l->listed);
    *l = (list){0};
}

static dpmf_status grow(int64_t **array, int64_t *room, int64_t used, int64_t needed) {
    int64_t *larger = NULL, more = *room < 64 ? 64 : 2 * *room;
    if (needed <= *room) return DPMF_OK;
    while (more < needed)
        more *= 2;
    TRY(base_alloc(more, sizeof *larger, "patterns", (void **)&larger));
    if (used > 0) memcpy(larger, *array, (size_t)used * sizeof *larger);
    base_free(*array);
    *array = larger;
    *room = more;
    return DPMF_OK;
}

static dpmf_status add_step(list *l, int64_t step) {
    if (l->count == WORKLOAD_LISTED_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "more than %d steps in all patterns together", WORKLOAD_LISTED_MAX);
    TRY(grow(&l->listed, &l->room, l->count, l->count + 1));
    l->listed[l->count++] = step;
    return DPMF_OK;
}

static int by_step(const void *a, const void *b) {
    const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return left < right ? -1 : left > right;
}

/* The steps since the last pattern become one; none: no pattern. A step twice would be two contributions in one step. */
static dpmf_status end_pattern(list *l) {
    const int64_t begin = l->patterns == 0 ? 0 : l->begins[l->patterns];
    int sorted = 1;
    if (l->count == begin) return DPMF_OK;
    for (int64_t i = begin + 1; i < l->count; i++)
        if (l->listed[i - 1] >= l->listed[i]) sorted = 0;
    if (!sorted) qsort(l->listed + begin, (size_t)(l->count - begin), sizeof *l->listed, by_step);
    for (int64_t i = begin + 1; i < l->count; i++)
        if (l->listed[i - 1] == l->listed[i])
            return base_fail(DPMF_ERROR_FORMAT, "step %" PRId64 " is in it twice, accepted: once", l->listed[i]);
    if (l->patterns == l->most) return base_fail(DPMF_ERROR_FORMAT, "more than %" PRId64 " patterns", l->most);
    TRY(grow(&l->begins, &l->pattern_room, l->patterns == 0 ? 0 : l->patterns + 1, l->patterns + 2));
    l->begins[++l->patterns] = l->count;
    return DPMF_OK;
}

/* ---- text ---- */

typedef struct span {
    const char *at;
    size_t length;
} span;

static dpmf_status bad_word(span word) {
    char shown[64];
    return base_fail(DPMF_ERROR_FORMAT, "'%s', accepted: step numbers from 0 and ranges A-B or A-B:STEP",
                     base_show(word.at, word.length, shown));
}

static dpmf_status check_step(const list *l, int64_t step) {
    if (step >= 0 && step < l->steps) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "step %" PRId64 ", accepted 0 to %" PRId64 " (the steps)", step, l->steps - 1);
}

static int whole_number(const char *from, const char *to, int64_t *out) {
    for (const char *c = from; c < to; c++)
        if (*c < '0' || *c > '9') return 0; /* no signs, points or exponents: A-B is a range */
    return to > from && base_parse_integer(from, (size_t)(to - from), out);
}

/* A, A-B or A-B:STEP. */
static dpmf_status read_word(list *l, span word) {
    const char *end = word.at + word.length, *dash = memchr(word.at, '-', word.length);
    const char *colon = memchr(word.at, ':', word.length);
    int64_t first = 0, last = 0, apart = 1;
    if (dash == NULL) dash = end;
    if (colon == NULL) colon = end;
    if (colon < dash || !whole_number(word.at, dash, &first)) return bad_word(word);
    last = first;
    if (dash < end && !whole_number(dash + 1, colon, &last)) return bad_word(word);
    if (colon < end && (dash == end || !whole_number(colon + 1, end, &apart))) return bad_word(word);
    TRY(check_step(l, first));
    TRY(check_step(l, last));
    if (apart < 1 || last < first) {
        char shown[64];
        return base_fail(DPMF_ERROR_FORMAT, "the range '%s', accepted: A at most B, and a STEP of 1 or more",
                         base_show(word.at, word.length, shown));
    }
    for (int64_t t = first; t <= last; t += apart) {
        TRY(add_step(l, t));
        if (apart > last - t) break;
    }
    return DPMF_OK;
}

static int is_between(char c) {
    return c == ' ' || c == '\t' || c == ',' || c == '\r';
}

static dpmf_status read_line(list *l, span line) {
    const char *end = line.at + line.length, *comment = memchr(line.at, '#', line.length);
    if (comment != NULL) end = comment;
    for (const char *at = line.at; at < end;) {
        const char *word = at;
        while (at < end && !is_between(*at))
            at++;
        if (at > word) TRY(read_word(l, (span){word, (size_t)(at - word)}));
        while (at < end && is_between(*at))
            at++;
    }
    return end_pattern(l);
}

/* What went wrong has a place: the message gets it in front. */
static dpmf_status at_place(dpmf_status status, const char *kind, int64_t number) {
    char reason[BASE_MESSAGE_SIZE];
    if (status != DPMF_ERROR_FORMAT) return status;
    snprintf(reason, sizeof reason, "%s", dpmf_last_error());
    return base_fail(status, "%s %" PRId64 ": %s", kind, number, reason);
}

static dpmf_status read_text(list *l, const char *text, size_t size) {
    const char *at = text, *end = text + size;
    if (size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) at += 3; /* the mark that some editors put before UTF-8 */
    for (int64_t number = 1; at < end; number++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        TRY(at_place(read_line(l, (span){at, (size_t)(stop - at)}), "line", number));
        at = stop + 1;
    }
    return DPMF_OK;
}

/* ---- rows of 0 and 1 ---- */

static dpmf_status read_row(list *l, const double *row) {
    for (int64_t t = 0; t < l->steps; t++) {
        if (row[t] != 0 && row[t] != 1)
            return base_fail(DPMF_ERROR_FORMAT, "column %" PRId64 " is %g, accepted 0 and 1", t, row[t]);
        if (row[t] == 1) TRY(add_step(l, t));
    }
    return end_pattern(l);
}

static dpmf_status read_rows(list *l, const uint8_t *bytes, size_t size) {
    dpmf_array array = {0};
    TRY(dpmf_array_decode(bytes, size, &array));
    dpmf_status status = DPMF_OK;
    const int64_t rows = array.dimensions == 1 ? 1 : array.shape[0];
    const int64_t columns = array.shape[array.dimensions == 1 ? 0 : 1];
    if (columns != l->steps)
        status = base_fail(DPMF_ERROR_FORMAT, "rows of %" PRId64 " numbers, accepted: %" PRId64 " (the steps)", columns,
                           l->steps);
    for (int64_t i = 0; i < rows && status == DPMF_OK; i++)
        status = at_place(read_row(l, array.values + i * columns), "row", i);
    dpmf_array_free(&array);
    return status;
}

/* ---- only the largest, sorted ---- */

typedef struct pattern {
    const int64_t *steps;
    int64_t size;
} pattern;

static int by_steps(const void *a, const void *b) {
    const pattern *left = a, *right = b;
    const int64_t both = left->size < right->size ? left->size : right->size;
    for (int64_t i = 0; i < both; i++)
        if (left->steps[i] != right->steps[i]) return left->steps[i] < right->steps[i] ? -1 : 1;
    return left->size < right->size ? -1 : left->size > right->size;
}

static int by_falling_size(const void *a, const void *b) {
    const pattern *left = a, *right = b;
    if (left->size != right->size) return left->size > right->size ? -1 : 1;
    return by_steps(a, b);
}

static int is_part(const pattern *small, const pattern *large, double *work) {
    int64_t i = 0, j = 0;
    while (i < small->size && small->size - i <= large->size - j) {
        if (large->steps[j] > small->steps[i]) break;
        if (large->steps[j++] == small->steps[i]) i++;
    }
    *work += (double)(j + 1);
    return i == small->size;
}

/*
 * Keeps those that are part of no other: from the largest on, each is compared with the kept ones that have its rarest step. The
 * comparisons are limited; patterns that remain beyond the limit are kept, which is correct too.
 */
static dpmf_status leave_out_parts(int64_t steps, int64_t total, pattern *order, int64_t *count) {
    int64_t *heads = NULL, *uses = NULL, *next = NULL, *owner = NULL, links = 0, kept = 0;
    double work = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(steps, sizeof *heads, "the steps of patterns", (void **)&heads)); /* link + 1, 0: none */
    TRY_DONE(base_alloc(steps, sizeof *uses, "the steps of patterns", (void **)&uses));
    TRY_DONE(base_alloc(total, sizeof *next, "the steps of patterns", (void **)&next));
    TRY_DONE(base_alloc(total, sizeof *owner, "the steps of patterns", (void **)&owner));
    qsort(order, (size_t)*count, sizeof *order, by_falling_size);
    for (int64_t i = 0; i < *count; i++) {
        const pattern p = order[i];
        int64_t rarest = p.steps[0], part = 0;
        for (int64_t j = 1; j < p.size; j++)
            if (uses[p.steps[j]] < uses[rarest]) rarest = p.steps[j];
        for (int64_t link = heads[rarest]; link > 0 && !part && work < COMPARE_MAX; link = next[link - 1])
            part = is_part(&p, &order[owner[link - 1]], &work);
        if (part) continue;
        for (int64_t j = 0; j < p.size; j++) {
            owner[links] = kept;
            next[links] = heads[p.steps[j]];
            heads[p.steps[j]] = ++links;
            uses[p.steps[j]]++;
        }
        order[kept++] = p; /* not after i: what is compared later is still in place */
    }
    *count = kept;
done:
    base_free(heads);
    base_free(uses);
    base_free(next);
    base_free(owner);
    return status;
}

/* ---- the object ---- */

void dpmf_participation_free(dpmf_participation *p) {
    if (p == NULL || __atomic_sub_fetch(&p->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    base_free(p->begins);
    base_free(p->listed);
    base_free(p->record);
    base_free(p);
}

/* Are they j, j+b, j+2b, ... for every j < b? */
static int are_classes(const dpmf_participation *p) {
    const int64_t b = p->separation;
    if (p->patterns != b) return 0;
    for (int64_t q = 0; q < b; q++) {
        if (p->begins[q + 1] - p->begins[q] != (p->steps - 1 - q) / b + 1) return 0;
        for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
            if (p->listed[j] != q + (j - p->begins[q]) * b) return 0;
    }
    return 1;
}

/* From patterns in their order. */
static dpmf_status make(int64_t steps, int64_t count, const pattern *order, dpmf_participation **out) {
    dpmf_participation *p = NULL;
    char *seen = NULL, digest[65] = "";
    int64_t total = 0, at = 0, covered = 0;
    dpmf_status status = DPMF_OK;
    for (int64_t i = 0; i < count; i++)
        total += order[i].size;
    TRY_DONE(base_alloc(steps, 1, "the steps of patterns", (void **)&seen));
    TRY_DONE(base_alloc(1, sizeof *p, "a participation", (void **)&p));
    p->references = 1;
    p->kind = DPMF_PARTICIPATION_PATTERNS;
    p->pattern = WORKLOAD_LISTED;
    p->steps = p->separation = steps;
    p->patterns = count;
    TRY_DONE(base_alloc(count + 1, sizeof *p->begins, "patterns", (void **)&p->begins));
    TRY_DONE(base_alloc(total, sizeof *p->listed, "patterns", (void **)&p->listed));
    TRY_DONE(base_alloc_doubles(total + count, "patterns", &p->record));
    for (int64_t i = 0; i < count; i++) {
        const pattern *q = &order[i];
        p->begins[i] = at;
        p->record[at + i] = (double)q->size;
        if (q->size > p->count) p->count = q->size;
        for (int64_t j = 0; j < q->size; j++, at++) {
            const int64_t t = q->steps[j];
            if (j > 0 && t - q->steps[j - 1] < p->separation) p->separation = t - q->steps[j - 1];
            covered += !seen[t];
            seen[t] = 1;
            p->listed[at] = t;
            p->record[at + i + 1] = (double)t;
        }
    }
    p->begins[count] = at;
    p->covers = covered == steps;
    if (are_classes(p)) p->pattern = WORKLOAD_FIXED;
    const double size = (double)steps;
    const base_part parts[] = {{&size, sizeof size}, {p->record, (size_t)(total + count) * sizeof(double)}};
    TRY_DONE(base_sha256(2, parts, digest));
    snprintf(p->text, sizeof p->text, "patterns:%" PRId64 ",%.24s", count, digest);
    *out = p;
    p = NULL;
done:
    dpmf_participation_free(p);
    base_free(seen);
    return status;
}

static dpmf_status make_from_list(const list *l, dpmf_participation **out) {
    pattern *order = NULL;
    int64_t count = l->patterns;
    if (count == 0) return base_fail(DPMF_ERROR_FORMAT, "it has no pattern, accepted: at least one");
    TRY(base_alloc(count, sizeof *order, "patterns", (void **)&order));
    for (int64_t i = 0; i < count; i++)
        order[i] = (pattern){l->listed + l->begins[i], l->begins[i + 1] - l->begins[i]};
    dpmf_status status = leave_out_parts(l->steps, l->count, order, &count);
    if (status == DPMF_OK) qsort(order, (size_t)count, sizeof *order, by_steps);
    if (status == DPMF_OK) status = make(l->steps, count, order, out);
    base_free(order);
    return status;
}

static dpmf_status check_steps(int64_t steps) {
    if (steps >= 1 && steps <= WORKLOAD_PATTERN_STEPS_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "participation file: steps = %" PRId64 ", accepted 1 to %d", steps,
                     WORKLOAD_PATTERN_STEPS_MAX);
}

dpmf_status workload_patterns_load(const char *path, int64_t steps, dpmf_participation **out) {
    list l = {.steps = steps, .most = WORKLOAD_PATTERNS_MAX};
    struct stat info;
    uint8_t *bytes = NULL;
    size_t size = 0;
    char shown[BASE_SHOWN_PATH], reason[BASE_MESSAGE_SIZE];
    dpmf_status status = DPMF_OK;
    TRY(check_steps(steps));
    if (stat(path, &info) == 0 && info.st_size > FILE_BYTES_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "pattern file '%s': %" PRId64 " bytes, accepted up to %" PRId64,
                         base_show_path(path, shown), (int64_t)info.st_size, FILE_BYTES_MAX);
    TRY_DONE(base_file_read(path, "pattern file", &bytes, &size));
    if (size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)
        TRY_DONE(read_rows(&l, bytes, size));
    else
        TRY_DONE(read_text(&l, (const char *)bytes, size));
    TRY_DONE(make_from_list(&l, out));
done:
    base_free(bytes);
    list_free(&l);
    if (status != DPMF_ERROR_FORMAT) return status;
    snprintf(reason, sizeof reason, "%s", dpmf_last_error());
    return base_fail(status, "pattern file '%s': %s", base_show_path(path, shown), reason);
}

dpmf_status workload_patterns_head(const dpmf_participation *p, int64_t steps, dpmf_participation **out) {
    list l = {.steps = steps, .most = WORKLOAD_PATTERN_STEPS_MAX};
    dpmf_status status = DPMF_OK;
    assert(p->patterns > 0 && steps >= 1 && steps <= p->steps);
    for (int64_t i = 0; i < p->patterns; i++) {
        for (int64_t j = p->begins[i]; j < p->begins[i + 1] && p->listed[j] < steps; j++)
            TRY_DONE(add_step(&l, p->listed[j]));
        TRY_DONE(end_pattern(&l));
    }
    for (int64_t t = 0, none = l.patterns == 0; none && t < steps; t++) { /* none has begun: each step alone */
        TRY_DONE(add_step(&l, t));
        TRY_DONE(end_pattern(&l));
    }
    TRY_DONE(make_from_list(&l, out));
done:
    list_free(&l);
    return status;
}

void workload_patterns_mark(const dpmf_participation *p, int64_t which, double *u) {
    memset(u, 0, (size_t)p->steps * sizeof *u);
    for (int64_t j = p->begins[which]; j < p->begins[which + 1]; j++)
        u[p->listed[j]] = 1;
}

int workload_patterns_contain(const dpmf_participation *p, int64_t first, int64_t apart) {
    for (int64_t i = 0; i < p->patterns; i++) {
        int64_t j = p->begins[i], t = first;
        for (; t < p->steps && j < p->begins[i + 1] && p->listed[j] <= t; j++)
            if (p->listed[j] == t) t += apart;
        if (t >= p->steps) return 1;
    }
    return 0;
}

/* ---- the mechanism file ---- */

void workload_participation_write(const dpmf_participation *p, base_tensors *tensors) {
    if (p->patterns > 0) base_tensors_add(tensors, ARRAY, p->begins[p->patterns] + p->patterns, 0, p->record);
}

static dpmf_status bad_record(const char *problem, double value) {
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the patterns of the participation: %s %g", problem, value);
}

/* In one pass: sizes that fit, steps that rise within a pattern, patterns that rise. */
static dpmf_status read_record(int64_t steps, int64_t numbers, const double *record, list *l) {
    pattern before = {0};
    for (int64_t at = 0; at < numbers;) {
        const double size = record[at++];
        if (!(size >= 1 && size <= (double)(numbers - at) && size == floor(size)))
            return bad_record("the number of steps of one is", size);
        const int64_t begin = l->count, end = at + (int64_t)size;
        for (int64_t j = at; j < end; j++) {
            if (!(record[j] >= 0 && record[j] < (double)steps && record[j] == floor(record[j])))
                return bad_record("a step is", record[j]);
            if (j > at && record[j] <= record[j - 1]) return bad_record("steps do not rise at", record[j]);
            TRY(add_step(l, (int64_t)record[j]));
        }
        at = end;
        TRY(end_pattern(l));
        const pattern now = {l->listed + begin, l->count - begin};
        before.steps = l->listed + begin - before.size; /* the array may have moved */
        if (l->patterns > 1 && by_steps(&before, &now) >= 0)
            return bad_record("not in order at number", (double)l->patterns);
        before = now;
    }
    return DPMF_OK;
}

dpmf_status workload_patterns_read(int64_t steps, const base_tensors *tensors, dpmf_participation **out) {
    const base_tensor *t = base_tensors_find(tensors, ARRAY);
    list l = {.steps = steps, .most = WORKLOAD_PATTERNS_MAX};
    pattern *order = NULL;
    dpmf_status status = DPMF_OK;
    if (t == NULL || t->dimensions != 1)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the patterns of its participation are missing");
    TRY(check_steps(steps));
    TRY_DONE(read_record(steps, t->shape[0], t->values, &l));
    if (l.patterns == 0) TRY_DONE(bad_record("their number is", 0));
    TRY_DONE(base_alloc(l.patterns, sizeof *order, "patterns", (void **)&order));
    for (int64_t i = 0; i < l.patterns; i++)
        order[i] = (pattern){l.listed + l.begins[i], l.begins[i + 1] - l.begins[i]};
    TRY_DONE(make(steps, l.patterns, order, out));
done:
    list_free(&l);
    base_free(order);
    return status;
}
