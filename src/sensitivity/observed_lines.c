/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Entries of X = C'C at the pairs of steps of many patterns. Single entries would cost O(n) each; a whole line of X
 * costs not much more. The lines are its diagonals, O(n) each for Toeplitz C, or its rows for a TV-BLT, where a row
 * takes O(R) a number and a diagonal O(R^2). Only lines that some pattern needs are made, as many at a time as fit into
 * task->bytes_max; for each such set all patterns are gone through and take their entries from it. Lines and patterns
 * are worked on in parallel, but every number is added to its sum in an order that does not depend on that.
 *
 * The majorant is the largest |X[t, t+lag]| for each lag and each sixteenth of the steps t. It fits into the cache,
 * and gives every pattern an upper bound of its sum of |X| without any line held.
 */
#include "sensitivity/observed.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { GROUP = 1024 }; /* patterns that a thread takes at a time */

enum { NOT_WANTED = -1, NOT_HELD = -2 };

/* ---- which line, how long ---- */

static int64_t line_count(const sensitivity_lines *s) {
    return s->by_rows != NULL ? s->task->n : s->task->reach;
}

static int64_t line_of(const sensitivity_lines *s, int64_t t, int64_t lag) {
    return s->by_rows != NULL ? t : lag;
}

/* Numbers of a line: X[t, t+1], ... in a row, X[0, lag], X[1, 1+lag], ... in a diagonal. */
static int64_t line_length(const sensitivity_lines *s, int64_t line) {
    return s->task->n - line - (s->by_rows != NULL);
}

static dpmf_status make_line(const sensitivity_lines *s, int64_t line, double *values) {
    const sensitivity_gram gram = sensitivity_gram_of(s->task);
    if (s->by_rows == NULL) return sensitivity_gram_lag(&gram, line, values);
    const int64_t count = line_length(s, line);
    s->by_rows->ops->gram_row(s->by_rows, s->vectors, line, count, values);
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return base_fail(DPMF_ERROR_NUMERICAL, "the product of columns %lld and %lld of C is not finite",
                             (long long)line, (long long)(line + 1 + i));
    return DPMF_OK;
}

/* Pairs of steps whose entries of X can be other than 0 mark their lines. `which` NULL: of all patterns. */
static int64_t want(sensitivity_lines *s, int64_t count, const int64_t *which) {
    const sensitivity_log *log = s->log;
    int64_t wanted = 0;
    for (int64_t line = 0; line < line_count(s); line++)
        s->offset[line] = NOT_WANTED;
    for (int64_t p = 0; p < count; p++) {
        const int64_t *steps = log->steps + log->begins[which == NULL ? p : which[p]];
        const int64_t size = sensitivity_log_size(log, which == NULL ? p : which[p]);
        for (int64_t i = 0; i + 1 < size; i++)
            for (int64_t j = i + 1; j < size && steps[j] - steps[i] < s->task->reach; j++) {
                int64_t *offset = &s->offset[line_of(s, steps[i], steps[j] - steps[i])];
                wanted += *offset == NOT_WANTED;
                *offset = NOT_HELD;
                if (s->by_rows != NULL) break; /* one line for all of them */
            }
    }
    return wanted;
}

static double line_cost(const sensitivity_lines *s) {
    if (s->by_rows == NULL) return sensitivity_gram_cost(s->task);
    return 4.0 * (double)s->task->n * (double)s->by_rows->ops->gram_numbers(s->by_rows);
}

dpmf_status sensitivity_lines_open(const sensitivity_task *task, const sensitivity_log *log, sensitivity_lines *lines,
                                   int *affordable) {
    const sensitivity_gram gram = sensitivity_gram_of(task);
    dpmf_status status = DPMF_OK;
    *lines = (sensitivity_lines){.task = task, .log = log};
    if (task->stamps == 1 && task->norms == NULL && task->core->ops->gram_row != NULL) lines->by_rows = task->core;
    TRY_DONE(base_alloc(line_count(lines), sizeof *lines->offset, "the lines of C'C", (void **)&lines->offset));
    *affordable = (double)(1 + want(lines, log->count, NULL)) * line_cost(lines) <= task->work_max;
    if (!*affordable) return DPMF_OK;
    TRY_DONE(base_alloc_doubles(task->n, "the diagonal of C'C", &lines->diagonal));
    TRY_DONE(sensitivity_gram_lag(&gram, 0, lines->diagonal));
    if (lines->by_rows != NULL) {
        const strategy_ops *ops = task->core->ops;
        TRY_DONE(base_alloc_doubles(task->n * ops->gram_numbers(task->core), "the Gramian's vectors", &lines->vectors));
        ops->gram_prepare(task->core, lines->vectors);
    }
done:
    if (status != DPMF_OK) sensitivity_lines_close(lines);
    return status;
}

void sensitivity_lines_close(sensitivity_lines *lines) {
    base_free(lines->vectors);
    base_free(lines->offset);
    base_free(lines->values);
    base_free(lines->diagonal);
    base_free(lines->majorant);
    *lines = (sensitivity_lines){0};
}

typedef struct majorant_pass {
    const sensitivity_lines *lines;
    double *scratch; /* a line for each worker */
    int64_t first;   /* line of item 0 */
} majorant_pass;

/* The first step t of a block, floor(t x blocks / n) = block. */
static int64_t block_begin(const sensitivity_lines *s, int64_t block) {
    return (block * s->task->n + SENSITIVITY_MAJORANT_BLOCKS - 1) / SENSITIVITY_MAJORANT_BLOCKS;
}

static dpmf_status diagonal_item(void *context, int64_t item, int worker) {
    const majorant_pass *pass = context;
    const sensitivity_lines *s = pass->lines;
    const int64_t lag = pass->first + item;
    double *values = pass->scratch + worker * s->task->n;
    if (s->offset[lag] == NOT_WANTED) return DPMF_OK;
    TRY(make_line(s, lag, values));
    for (int64_t block = 0; block < SENSITIVITY_MAJORANT_BLOCKS; block++) {
        double largest = 0;
        for (int64_t t = block_begin(s, block); t < block_begin(s, block + 1) && t < line_length(s, lag); t++)
            largest = fabs(values[t]) > largest ? fabs(values[t]) : largest;
        s->majorant[block * s->task->reach + lag] = largest;
    }
    return DPMF_OK;
}

/* All rows of one block: no other item writes there. */
static dpmf_status rows_item(void *context, int64_t item, int worker) {
    const majorant_pass *pass = context;
    const sensitivity_lines *s = pass->lines;
    const int64_t block = pass->first + item, n = s->task->n;
    double *values = pass->scratch + worker * n, *largest = s->majorant + block * s->task->reach;
    for (int64_t t = block_begin(s, block); t < block_begin(s, block + 1); t++) {
        if (s->offset[t] == NOT_WANTED) continue;
        TRY(make_line(s, t, values));
        for (int64_t i = 0; i < line_length(s, t); i++)
            if (fabs(values[i]) > largest[i + 1]) largest[i + 1] = fabs(values[i]);
    }
    return DPMF_OK;
}

dpmf_status sensitivity_lines_majorant(sensitivity_lines *s) {
    const sensitivity_task *task = s->task;
    const int64_t items = s->by_rows != NULL ? SENSITIVITY_MAJORANT_BLOCKS : task->reach;
    const int64_t threads = base_pool_threads(task->pool), group = s->by_rows != NULL ? threads : 32 * threads;
    majorant_pass pass = {.lines = s};
    dpmf_status status = DPMF_OK;
    TRY_DONE(
        base_alloc_doubles(SENSITIVITY_MAJORANT_BLOCKS * task->reach, "the largest products of columns", &s->majorant));
    TRY_DONE(base_alloc_doubles(threads * task->n, "lines of C'C", &pass.scratch));
    (void)want(s, s->log->count, NULL);
    for (; pass.first < items; pass.first += group) {
        int64_t count = items - pass.first < group ? items - pass.first : group;
        TRY_DONE(base_progress(task->run, "multiplying columns of C", (double)pass.first / (double)items));
        TRY_DONE(base_pool_run(task->pool, count, s->by_rows != NULL ? rows_item : diagonal_item, &pass));
    }
done:
    base_free(pass.scratch);
    return status;
}

/* ---- patterns gone through with some lines held ---- */

typedef struct gather {
    sensitivity_lines *lines;
    int64_t *held; /* the lines held */
    int64_t count;
    const int64_t *which;
    sensitivity_pattern_sums *sums; /* or */
    double *matrices;
    int64_t stride;
} gather;

static dpmf_status hold_item(void *context, int64_t item, int worker) {
    const gather *g = context;
    (void)worker;
    return make_line(g->lines, g->held[item], g->lines->values + g->lines->offset[g->held[item]]);
}

static void add_entry(sensitivity_pattern_sums *sums, double times, double value) {
    base_running_add(&sums->absolute, times * fabs(value));
    base_running_add(&sums->plain, times * value);
    if (value < 0) sums->negative = 1;
}

static dpmf_status take_item(void *context, int64_t item, int worker) {
    const gather *g = context;
    (void)worker;
    for (int64_t p = item * GROUP; p < g->count && p < (item + 1) * GROUP; p++) {
        const sensitivity_lines *s = g->lines;
        const int64_t *steps = s->log->steps + s->log->begins[g->which[p]],
                      size = sensitivity_log_size(s->log, g->which[p]);
        double *matrix = g->matrices == NULL ? NULL : g->matrices + p * g->stride;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = i + 1; j < size && steps[j] - steps[i] < s->task->reach; j++) {
                int64_t lag = steps[j] - steps[i], offset = s->offset[line_of(s, steps[i], lag)];
                if (offset < 0) continue;
                double value = s->values[offset + (s->by_rows != NULL ? lag - 1 : steps[i])];
                if (matrix == NULL)
                    add_entry(&g->sums[p], 2, value); /* X[t,u] and X[u,t] */
                else
                    matrix[i * size + j] = matrix[j * size + i] = value;
            }
    }
    return DPMF_OK;
}

static void take_diagonal(const gather *g) {
    const sensitivity_lines *s = g->lines;
    for (int64_t p = 0; p < g->count; p++) {
        const int64_t *steps = s->log->steps + s->log->begins[g->which[p]],
                      size = sensitivity_log_size(s->log, g->which[p]);
        if (g->matrices != NULL) memset(g->matrices + p * g->stride, 0, (size_t)(size * size) * sizeof(double));
        for (int64_t i = 0; i < size; i++) {
            double value = s->diagonal[steps[i]];
            if (g->matrices != NULL)
                g->matrices[p * g->stride + i * size + i] = value;
            else
                add_entry(&g->sums[p], 1, value);
        }
    }
}

/* The next wanted lines that fit; *line becomes the first that does not. Gives how many there are. */
static int64_t choose_lines(gather *g, int64_t room, int64_t *line) {
    sensitivity_lines *s = g->lines;
    int64_t held = 0, used = 0;
    for (; *line < line_count(s); ++*line) {
        if (s->offset[*line] == NOT_WANTED) continue;
        if (used + line_length(s, *line) > room) break;
        s->offset[*line] = used;
        used += line_length(s, *line);
        g->held[held++] = *line;
    }
    return held;
}

static int64_t room_needed(const sensitivity_lines *s) {
    const int64_t most = s->task->bytes_max / (int64_t)sizeof(double);
    int64_t sum = 0;
    for (int64_t line = 0; line < line_count(s) && sum <= most; line++)
        if (s->offset[line] != NOT_WANTED) sum += line_length(s, line);
    if (sum > most) sum = most;
    return sum > s->task->n ? sum : s->task->n; /* one line at least */
}

static dpmf_status gather_all(gather *g) {
    sensitivity_lines *s = g->lines;
    const sensitivity_task *task = s->task;
    dpmf_status status = DPMF_OK;
    take_diagonal(g);
    if (want(s, g->count, g->which) == 0) return DPMF_OK;
    const int64_t room = room_needed(s);
    TRY_DONE(base_alloc(line_count(s), sizeof *g->held, "the lines of C'C", (void **)&g->held));
    TRY_DONE(base_alloc_doubles(room, "lines of C'C", &s->values));
    for (int64_t line = 0; line < line_count(s);) {
        TRY_DONE(base_progress(task->run, "summing over patterns", (double)line / (double)line_count(s)));
        int64_t count = choose_lines(g, room, &line);
        TRY_DONE(base_pool_run(task->pool, count, hold_item, g));
        TRY_DONE(base_pool_run(task->pool, (g->count + GROUP - 1) / GROUP, take_item, g));
        for (int64_t i = 0; i < count; i++)
            s->offset[g->held[i]] = NOT_WANTED; /* done with */
    }
done:
    base_free(g->held);
    base_free(s->values);
    s->values = NULL;
    return status;
}

dpmf_status sensitivity_lines_sums(sensitivity_lines *lines, int64_t count, const int64_t *which,
                                   sensitivity_pattern_sums *sums) {
    gather g = {.lines = lines, .count = count, .which = which, .sums = sums};
    memset(sums, 0, (size_t)count * sizeof *sums);
    return gather_all(&g);
}

dpmf_status sensitivity_lines_matrices(sensitivity_lines *lines, int64_t count, const int64_t *which, int64_t stride,
                                       double *matrices) {
    gather g = {.lines = lines, .count = count, .which = which, .matrices = matrices, .stride = stride};
    return gather_all(&g);
}
