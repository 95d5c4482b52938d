/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Min-separation participation: at most k steps, any two of them at least b apart. Such patterns are far too many to
 * try, but where C has few bands X = C'C couples a participation with few others:
 *
 *     w <= b   not at all: max sum_{t in p} X[t,t] (Pillutla et al. 2025, Lemma 3.16b and Algorithm 3.2), for any signs
 *     w <= 2b  with the one before and the one after at most: X on a pattern is tridiagonal, so that its value is
 *              sum |X| (sensitivity/pattern.c), and the last step is all that must be remembered,
 *
 *                  f_1(t) = X[t,t],   f_l(t) = X[t,t] + max( max_{u <= t-w} f_{l-1}(u),
 *                                                           max_{t-w < u <= t-b} f_{l-1}(u) + 2 |X[u,t]| ),
 *
 *              taken diagonal by diagonal, O(n k (w-b)).
 *
 * Both are exact for any signs. So are the earliest pattern of non-negative, non-increasing Toeplitz matrices
 * (sensitivity/monotone.c), counts on trees (families/tree/sensitivity.c), and patterns that are few enough to try.
 * For anything else there are upper bounds (sensitivity/rows.c).
 */
#include "sensitivity/sensitivity.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* ---- w <= b ---- */

static dpmf_status separate(const sensitivity_task *task, sensitivity_found *out) {
    const int64_t n = task->n, k = task->k;
    const sensitivity_gram gram = sensitivity_gram_of(task);
    double *diagonal = NULL, *work = NULL, largest = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "the squares of column norms", &diagonal));
    TRY_DONE(sensitivity_gram_lag(&gram, 0, diagonal));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, diagonal[t]);
    if (task->bound == DPMF_BOUND_SPECTRAL) { /* X on a pattern is diagonal */
        *out = (sensitivity_found){(double)k * largest, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_SPECTRAL};
        goto done;
    }
    if ((double)n * (double)k > task->work_max) {
        sensitivity_found_sum(task, (double)k * largest, SENSITIVITY_METHOD_LARGEST, out);
        out->kind = DPMF_UPPER_BOUND;
        goto done;
    }
    TRY_DONE(base_progress(task->run, "placing participations", -1));
    TRY_DONE(base_alloc_doubles(2 * n, "the best sums", &work));
    sensitivity_found_sum(task, sensitivity_place(n, k, task->b, diagonal, work, NULL), SENSITIVITY_METHOD_SEPARATE,
                          out);
done:
    base_free(diagonal);
    base_free(work);
    return status;
}

/* ---- w <= 2b ---- */

typedef struct neighbours {
    int64_t n;
    const double *before; /* f_{l-1} */
    double *best;         /* over u, for each t */
} neighbours;

static dpmf_status couple(void *context, int64_t lag, const double *values) {
    const neighbours *s = context;
    for (int64_t u = 0; u + lag < s->n; u++) {
        double with = s->before[u] + 2 * fabs(values[u]);
        s->best[u + lag] = with > s->best[u + lag] ? with : s->best[u + lag];
    }
    return DPMF_OK;
}

/* The diagonals b..w-1, from memory if they are held, else made anew. */
static dpmf_status couple_all(const sensitivity_task *task, const sensitivity_gram *gram, const sensitivity_band *band,
                              neighbours *s) {
    if (band->values == NULL)
        return sensitivity_gram_sweep(gram, task->b, 1, task->reach, "placing participations", couple, s);
    for (int64_t lag = band->first; lag < band->end; lag++)
        TRY(couple(s, lag, sensitivity_band_lag(band, lag)));
    return DPMF_OK;
}

static dpmf_status place_picks(const sensitivity_task *task, const sensitivity_gram *gram, const sensitivity_band *band,
                               double *diagonal, double *f, double *best, double *answer) {
    const int64_t n = task->n, w = task->reach;
    double largest = 0;
    TRY(sensitivity_gram_lag(gram, 0, diagonal));
    memcpy(f, diagonal, (size_t)n * sizeof *f);
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, f[t]);
    for (int64_t l = 2; l <= task->k; l++) {
        neighbours s = {n, f, best};
        double far = -INFINITY; /* max f over u <= t - w */
        for (int64_t t = 0; t < n; t++) {
            if (t >= w) far = fmax(far, f[t - w]);
            best[t] = far;
        }
        TRY(couple_all(task, gram, band, &s));
        for (int64_t t = 0; t < n; t++) {
            f[t] = diagonal[t] + best[t];
            largest = fmax(largest, f[t]);
        }
        TRY(base_progress(task->run, "placing participations", (double)l / (double)task->k));
    }
    *answer = largest;
    return DPMF_OK;
}

static double coupled_work(const sensitivity_task *task) {
    double lags = (double)(task->reach - task->b), k = (double)task->k;
    double make = lags * sensitivity_gram_cost(task), use = lags * (double)task->n * k;
    return use + (sensitivity_band_fits(task, task->b, task->reach) ? make : make * k);
}

static dpmf_status coupled(const sensitivity_task *task, sensitivity_found *out) {
    const int64_t n = task->n;
    const sensitivity_gram gram = sensitivity_gram_of(task);
    sensitivity_band band = {0};
    double *memory = NULL, square = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(3 * n, "the best sums", &memory));
    if (sensitivity_band_fits(task, task->b, task->reach))
        TRY_DONE(sensitivity_band_open(&gram, task->b, task->reach, &band));
    TRY_DONE(place_picks(task, &gram, &band, memory, memory + n, memory + 2 * n, &square));
    sensitivity_found_sum(task, square, SENSITIVITY_METHOD_NEIGHBOURS, out);
done:
    sensitivity_band_close(&band);
    base_free(memory);
    return status;
}

/* ---- together ---- */

/* The shortcuts where X >= 0 is known; *out is unchanged if there is none. */
static dpmf_status shortcut(const sensitivity_task *task, sensitivity_found *out) {
    int64_t count = 0;
    const double *c = NULL;
    int one_sign = 0, non_increasing = 0;
    if (task->stamps > 1 || task->norms != NULL || !sensitivity_task_toeplitz(task, &count, &c)) return DPMF_OK;
    sensitivity_toeplitz_shape(count, c, &one_sign, &non_increasing);
    if (one_sign && non_increasing)
        sensitivity_found_sum(task, sensitivity_earliest_square(task->n, task->k, task->b, count, c),
                              SENSITIVITY_METHOD_EARLIEST, out);
    return DPMF_OK;
}

/* The matrices of patterns are needed: those that are few, or diagonal. */
static dpmf_status spectral(const sensitivity_task *task, sensitivity_found *out) {
    int there = 0;
    TRY(sensitivity_enumerate(task, &there, out));
    if (there) return DPMF_OK;
    if (task->reach <= task->b && isfinite(sensitivity_gram_cost(task))) return separate(task, out);
    return sensitivity_too_many(task);
}

static dpmf_status exact_or_bound(const sensitivity_task *task, sensitivity_found *out) {
    int there = 0;
    TRY(shortcut(task, out));
    if (out->square >= 0) return DPMF_OK;
    if (task->reach <= task->b && isfinite(sensitivity_gram_cost(task))) return separate(task, out);
    TRY(sensitivity_monotone(task, out)); /* a bound, exact where evenly spaced steps attain it */
    if (out->kind == DPMF_EXACT || out->method == SENSITIVITY_METHOD_SIGNS) return DPMF_OK;
    if (task->reach <= 2 * task->b && coupled_work(task) <= task->work_max) return coupled(task, out);
    TRY(sensitivity_enumerate(task, &there, out));
    if (there) return DPMF_OK;
    if (task->bound == DPMF_BOUND_SIGNS) return sensitivity_too_many(task);
    return sensitivity_bound_any(task, out);
}

dpmf_status sensitivity_separated(const sensitivity_task *task, sensitivity_found *out) {
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    if (task->bound == DPMF_BOUND_SPECTRAL)
        TRY(spectral(task, &found));
    else
        TRY(exact_or_bound(task, &found));
    *out = found;
    return DPMF_OK;
}
