/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds (families/replay/replay.h) under the cyclic participation that it was made for, or one whose
 * period is a multiple of that: the strategy holds X = C'C within its classes, found by the filter's transitions in
 * O(n k r^2), and no other entry of X matters.
 *
 * With replayed seeds P is solved so that X is diagonal within a class: the squared sensitivity is the largest trace, for
 * contributions of any dimension. What rounding leaves beside the diagonal is added in absolute value. With shared class
 * seeds X is what it is, and the classes go to the search over patterns (sensitivity/search.c).
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <math.h>

static const double CANCELLED = 1e-11; /* of the trace */

typedef struct classes {
    const replay_parts *parts;
    const sensitivity_task *task;
    int64_t *sizes;
    double *keys, *traces;
} classes;

/* Entry (i, j) of X on pattern l. */
static double entry(const classes *c, int64_t l, int64_t i, int64_t j) {
    const int64_t b = c->parts->c.shape.period, apart = c->task->b / b, first = l / b;
    return c->parts->blocks[replay_pair((int)(first + i * apart), (int)(first + j * apart)) * b + l % b];
}

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    const classes *c = context;
    for (int64_t m = 0; m < count; m++) {
        const int64_t size = c->sizes[which[m]];
        double *x = matrices + m * c->task->k * c->task->k;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++)
                x[i * size + j] = entry(c, which[m], i, j);
    }
    return DPMF_OK;
}

static void sum_up(classes *c, int64_t patterns) {
    for (int64_t l = 0; l < patterns; l++) {
        c->sizes[l] = (c->task->n - 1 - l) / c->task->b + 1;
        c->keys[l] = c->traces[l] = 0;
        for (int64_t i = 0; i < c->sizes[l]; i++) {
            c->traces[l] += entry(c, l, i, i);
            for (int64_t j = 0; j < c->sizes[l]; j++)
                c->keys[l] += fabs(entry(c, l, i, j));
        }
    }
}

static dpmf_status answer(const classes *c, int64_t patterns, sensitivity_found *out) {
    const sensitivity_task *task = c->task;
    int64_t top = 0;
    for (int64_t l = 1; l < patterns; l++)
        if (c->keys[l] > c->keys[top]) top = l;
    const int cancelled = c->keys[top] <= (1 + CANCELLED) * c->traces[top];
    if (task->bound == DPMF_BOUND_ABSOLUTE || (task->bound == DPMF_BOUND_AUTO && cancelled)) {
        sensitivity_found_sum(task, c->keys[top], SENSITIVITY_METHOD_CANCELLED, out);
        return DPMF_OK;
    }
    for (int64_t l = 0; l < patterns; l++) { /* what the search may give each */
        if (task->bound == DPMF_BOUND_SIGNS) c->keys[l] *= M_PI_2;
        if (task->bound == DPMF_BOUND_SPECTRAL) c->keys[l] *= (double)c->sizes[l];
    }
    const sensitivity_patterns list = {.count = patterns,
                                       .size = task->k,
                                       .sizes = c->sizes,
                                       .keys = c->keys,
                                       .fill = fill,
                                       .context = (void *)c}; /* only read */
    return sensitivity_patterns_search(task, &list, out);
}

dpmf_status replay_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                               sensitivity_found *out) {
    const replay_parts *parts = replay_of(s);
    *done = task->strategy == s && task->pattern == WORKLOAD_FIXED && task->b % parts->c.shape.period == 0;
    if (!*done) return DPMF_OK;
    const int64_t patterns = task->b < task->n ? task->b : task->n;
    classes c = {.parts = parts, .task = task};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(patterns, sizeof *c.sizes, "the patterns", (void **)&c.sizes));
    TRY_DONE(base_alloc_doubles(patterns, "the sums over patterns", &c.keys));
    TRY_DONE(base_alloc_doubles(patterns, "the sums over patterns", &c.traces));
    sum_up(&c, patterns);
    TRY_DONE(answer(&c, patterns, out));
done:
    base_free(c.sizes);
    base_free(c.keys);
    base_free(c.traces);
    return status;
}
