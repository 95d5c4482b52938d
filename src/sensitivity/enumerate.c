/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Min-separation and shuffled patterns one by one, where they are few. Only patterns that no other contains matter,
 * since f grows with the pattern: k separated steps, or fewer that leave no room behind the last; one step in every
 * epoch.
 */
#include "sensitivity/sensitivity.h"

#include "base/memory.h"
#include "base/sum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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

static dpmf_status search(list *p, sensitivity_found *out) {
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
    TRY_DONE(search(&p, out));
    *there = 1;
done:
    base_free(steps);
    base_free(p.steps);
    base_free(p.sizes);
    base_free(p.keys);
    return status;
}
