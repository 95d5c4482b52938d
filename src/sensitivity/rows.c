/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upper bounds of the sensitivity for any C, under min-separation and shuffled participation. All start from
 * f(X_p) <= sum_{t,u in p} |X[t,u]| (Pillutla et al. 2025, Lemma 3.15a) and bound that sum over the patterns.
 *
 *     rows      sum_{t in p} R_t, where R_t bounds the row sum_{u in p} |X[t,u]|.
 *               Separated: the l-th pick at t has the best l-1 picks up to t-b and the best k-l from t+b on, each by
 *               Algorithm 3.2 of Pillutla et al. 2025; the best places for the k of them by the same program.
 *               Shuffled: the largest entry in every other epoch, and then the largest R in every epoch.
 *               Needs the band of X in memory, O(n w min(k, w/b)).
 *     distance  the i-th and j-th of separated picks are at least |i-j| b apart (shuffled: 1 + (|i-j|-1) b), so the sum
 *               is at most k M(0) + 2 sum_j (k-j) M(j b), M(d) the largest |X[t,u]| with |t-u| >= d. One sweep, O(n)
 *               numbers in memory. Never below that of the rows.
 *     norms     |X[t,u]| <= |C[:,t]| |C[:,u]|: the square of the largest sum of column norms over a pattern.
 */

#include "base/memory.h"
#include "sensitivity/sensitivity.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static int shuffled(const sensitivity_task *task) {
    return task->pattern == WORKLOAD_EPOCHS;
}

typedef struct rows {
    const sensitivity_task *task;
    sensitivity_band band;
    double *scratch; /* for each worker `room` numbers */
    int64_t room;
    double *bounds; /* R_t; separated: as the l-th pick, k numbers for each t */
} rows;

/* The row |X[t, .]| within reach: left[i] = |X[t, t-gap-i]| and right[i] = |X[t, t+gap+i]|. */
static int64_t gather(const rows *s, int64_t t, int64_t gap, int direction, double *out) {
    int64_t count = 0;
    for (int64_t lag = gap; lag < s->task->reach; lag++) {
        int64_t u = t + direction * lag;
        if (u < 0 || u >= s->task->n) break;
        out[count++] = fabs(sensitivity_band_lag(&s->band, lag)[direction > 0 ? t : u]);
    }
    return count;
}

/* Best sums with at most 0..picks separated steps among the `count` in `values`. */
static int64_t best_sums(const sensitivity_task *task, int64_t count, const double *values, double *work,
                         double *best) {
    int64_t most = count == 0 ? 0 : 1 + (count - 1) / task->b, picks = task->k - 1 < most ? task->k - 1 : most;
    sensitivity_place(count, picks, task->b, values, work, best);
    return picks;
}

/* Walking away from t, the largest entry of each epoch that is not its own. */
static double shuffled_side(const rows *s, int64_t t, int direction, double *values) {
    const int64_t b = s->task->b, own = t / b, count = gather(s, t, 1, direction, values);
    double sum = 0, largest = 0;
    int64_t epoch = own;
    for (int64_t i = 0; i < count; i++) {
        int64_t next = (t + direction * (i + 1)) / b;
        if (next != epoch) {
            sum += largest;
            largest = 0;
            epoch = next;
        }
        if (epoch != own) largest = fmax(largest, values[i]);
    }
    return sum + largest;
}

static dpmf_status row_item(void *context, int64_t item, int worker) {
    rows *s = context;
    double *scratch = s->scratch + (int64_t)worker * s->room;
    if (shuffled(s->task))
        s->bounds[item] = fabs(sensitivity_band_lag(&s->band, 0)[item]) + shuffled_side(s, item, -1, scratch) +
                          shuffled_side(s, item, 1, scratch);
    else {
        double *out = s->bounds + item * s->task->k;
        const sensitivity_task *task = s->task;
        const int64_t w = task->reach, k = task->k;
        double *values = scratch, *work = values + w, *left = work + 2 * w, *right = left + k;
        const double own = fabs(sensitivity_band_lag(&s->band, 0)[item]);
        int64_t before = best_sums(task, gather(s, item, task->b, -1, values), values, work, left);
        int64_t after = best_sums(task, gather(s, item, task->b, 1, values), values, work, right);
        for (int64_t l = 0; l < k; l++) {
            int64_t rest = k - 1 - l;
            out[l] = own + left[l < before ? l : before] + right[rest < after ? rest : after];
        }
    }
    return DPMF_OK;
}

/* The largest sum of bounds[t][l] over separated steps, the l-th of them at t. */
static double best_places(const sensitivity_task *task, const double *bounds, double *work) {
    const int64_t n = task->n, k = task->k, b = task->b;
    double *before = work, *now = work + n, largest = 0;
    for (int64_t l = 0; l < k; l++) {
        double top = -INFINITY;
        for (int64_t t = 0; t < n; t++) {
            double with = bounds[t * k + l] + (l == 0 ? 0 : t >= b ? before[t - b] : -INFINITY);
            top = fmax(top, with);
            now[t] = top;
        }
        largest = fmax(largest, top);
        double *swap = before;
        before = now;
        now = swap;
    }
    return largest;
}

/* The largest sum of r >= 0 over a pattern. */
static dpmf_status best_pattern(const sensitivity_task *task, const double *r, double *out) {
    double *work = NULL, sum = 0;
    if (task->pattern == WORKLOAD_APART) {
        TRY(base_alloc_doubles(2 * task->n, "the best sums", &work));
        *out = sensitivity_place(task->n, task->k, task->b, r, work, NULL);
        base_free(work);
        return DPMF_OK;
    }
    if (shuffled(task)) {
        for (int64_t first = 0; first < task->n; first += task->b) {
            double largest = 0;
            for (int64_t t = first; t < task->n && t < first + task->b; t++)
                largest = fmax(largest, r[t]);
            sum += largest;
        }
        *out = sum;
        return DPMF_OK;
    }
    double largest = 0;
    for (int64_t i = 0; task->pattern == WORKLOAD_LISTED && i < task->listed->patterns; i++) {
        sum = 0;
        for (int64_t j = task->listed->begins[i]; j < task->listed->begins[i + 1]; j++)
            sum += r[task->listed->listed[j]];
        largest = fmax(largest, sum);
    }
    for (int64_t l = 0; task->pattern == WORKLOAD_FIXED && l < task->b && l < task->n; l++) {
        sum = 0;
        for (int64_t t = l; t < task->n; t += task->b)
            sum += r[t];
        largest = fmax(largest, sum);
    }
    *out = largest;
    return DPMF_OK;
}

/* Multiplications for the rows, given the band; INFINITY if there is no room for them. */
static double rows_work(const sensitivity_task *task) {
    const double n = (double)task->n, w = (double)task->reach;
    double picks = shuffled(task) ? 1 : fmin((double)task->k, ceil(w / (double)task->b));
    if (!shuffled(task) && n * (double)task->k * (double)sizeof(double) > (double)task->bytes_max) return INFINITY;
    return 2 * n * w * picks;
}

dpmf_status sensitivity_bound_rows(const sensitivity_task *task, sensitivity_found *best) {
    rows s = {.task = task, .room = 3 * task->reach + 2 * task->k};
    const sensitivity_gram gram = sensitivity_gram_of(task);
    double square = 0, *work = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(sensitivity_band_open(&gram, 0, task->reach, &s.band));
    TRY_DONE(base_alloc_doubles(base_pool_threads(task->pool) * s.room, "rows of C'C", &s.scratch));
    TRY_DONE(base_alloc_doubles(shuffled(task) ? task->n : task->n * task->k, "bounds of rows", &s.bounds));
    TRY_DONE(base_alloc_doubles(2 * task->n, "the best sums", &work));
    TRY_DONE(base_progress(task->run, "bounding rows of C'C", -1));
    TRY_DONE(base_pool_run(task->pool, task->n, row_item, &s));
    if (shuffled(task))
        TRY_DONE(best_pattern(task, s.bounds, &square));
    else
        square = best_places(task, s.bounds, work);
    sensitivity_found_improve(best, square, SENSITIVITY_METHOD_ROWS);
done:
    sensitivity_band_close(&s.band);
    base_free(s.scratch);
    base_free(s.bounds);
    base_free(work);
    return status;
}

/* ---- distance ---- */

typedef struct distances {
    const sensitivity_task *task;
    double *largest; /* of |X| by how many picks apart at most */
} distances;

static dpmf_status largest_at(void *context, int64_t lag, const double *values) {
    const distances *s = context;
    /* how many picks apart two steps at this lag can be: the largest j with distance(j) <= lag */
    const int64_t b = s->task->b, j = lag == 0 ? 0 : shuffled(s->task) ? 1 + (lag - 1) / b : lag / b;
    double *largest = &s->largest[j < s->task->k - 1 ? j : s->task->k - 1];
    for (int64_t t = 0; t + lag < s->task->n; t++)
        *largest = fabs(values[t]) > *largest ? fabs(values[t]) : *largest;
    return DPMF_OK;
}

dpmf_status sensitivity_bound_distance(const sensitivity_task *task, sensitivity_found *best) {
    const int64_t k = task->k, first = shuffled(task) ? 1 : task->b;
    distances s = {.task = task};
    const sensitivity_gram gram = sensitivity_gram_of(task);
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(k, "the largest products of columns", &s.largest));
    TRY_DONE(sensitivity_gram_sweep(&gram, 0, 1, 1, "bounding by distance", largest_at, &s));
    double square = s.largest[0] * (double)k;
    TRY_DONE(sensitivity_gram_sweep(&gram, first, 1, task->reach, "bounding by distance", largest_at, &s));
    for (int64_t j = k - 1; j >= 1; j--) {
        if (j + 1 < k) s.largest[j] = fmax(s.largest[j], s.largest[j + 1]);
        square += 2 * (double)(k - j) * s.largest[j];
    }
    sensitivity_found_improve(best, square, SENSITIVITY_METHOD_DISTANCE);
done:
    base_free(s.largest);
    return status;
}

/* ---- norms ---- */

dpmf_status sensitivity_bound_norms(const sensitivity_task *task, sensitivity_found *best) {
    double *norms = NULL, sum = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(task->n, "the column norms", &norms));
    if (task->norms == NULL) TRY_DONE(dpmf_strategy_column_norms(task->core, norms));
    for (int64_t t = 0; t < task->n; t++)
        norms[t] = task->norms != NULL ? 1 : norms[t % task->length];
    if (task->pattern == WORKLOAD_APART && (double)task->n * (double)task->k > task->work_max) {
        for (int64_t t = 0; t < task->n; t++)
            sum = fmax(sum, norms[t]);
        sum *= (double)task->k;
    } else {
        TRY_DONE(best_pattern(task, norms, &sum));
    }
    sensitivity_found_improve(best, sum * sum, SENSITIVITY_METHOD_NORMS);
done:
    base_free(norms);
    return status;
}

dpmf_status sensitivity_bound_any(const sensitivity_task *task, sensitivity_found *best) {
    double sweep = sensitivity_gram_cost(task) * (double)task->reach;
    if (sweep <= task->work_max && sensitivity_band_fits(task, 0, task->reach) && rows_work(task) <= task->work_max)
        TRY(sensitivity_bound_rows(task, best));
    else if (sweep <= task->work_max)
        TRY(sensitivity_bound_distance(task, best));
    return sensitivity_bound_norms(task, best);
}

/*
 * The best places for separated picks: the most that at most k numbers r_t, any two at least b steps apart, can add up
 * to. With F_l(t) the most from steps 0..t with at most l picks,
 *
 *     F_l(t) = max { F_l(t-1), r_t + F_{l-1}(t-b) },  F_0 = 0
 *
 * (Pillutla et al. 2025, Algorithm 3.2), in O(nk) with two rows in memory. Of use for the squares of separated columns
 * (sensitivity/apart.c) and for bounds by rows (sensitivity/rows.c).
 */

double sensitivity_place(int64_t n, int64_t k, int64_t b, const double *r, double *work, double *best) {
    double *before = work, *now = work + n; /* the most from steps 0..t with one pick less, and with these */
    memset(before, 0, (size_t)n * sizeof *before);
    if (best != NULL) best[0] = 0;
    for (int64_t l = 1; l <= k; l++) {
        double top = 0;
        for (int64_t t = 0; t < n; t++) {
            double with = r[t] + (t >= b ? before[t - b] : 0);
            top = with > top ? with : top;
            now[t] = top;
        }
        double *swap = before;
        before = now;
        now = swap;
        if (best != NULL) best[l] = n > 0 ? before[n - 1] : 0;
    }
    return n > 0 ? before[n - 1] : 0;
}
