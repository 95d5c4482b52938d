/* SPDX-License-Identifier: Apache-2.0 */
/*
 * At which distances the few seeds of a row should be, and the best weights for them.
 *
 * Notation: h = first column of W, with weights w_i at the lags l_i, c = 1/h the one of C; A the workload; b and k as in the
 * cyclic participation; X = C'C. In the first pass the weights are the same at every step. The loss^2 is at most S(c) E(h),
 *
 *     S = sum over the pairs of one unit's steps of |X|      (Pillutla et al. 2025, Section 3.3.5: an upper bound for any signs)
 *     E = sum_ij w_i w_j M_ij,   M_ij = (1/n) sum_u (A' diag(p) A)[u + l_i, u + l_j]
 *
 * both with their gradients, O(n (taps + k)). Contiguous lags, as the banded inverse square root has them, are a bad choice: the
 * inverse square root decays like l^(-3/2), so that one tap can stand for many far ones. Lags are added one at a time, each
 * time the one of a geometric list (from 0, and from multiples of the period on both sides) with which the best weights have the least
 * loss, and exchanged until no exchange helps. Then every step gets weights of its own (tune.c).
 */
#include "families/taps/taps.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

#include <math.h>
#include <string.h>

enum { CANDIDATES_MAX = 256, PASSES = 3, EXCHANGE_STEPS = 4096, EPOCHS_LOOKED_AT = 3 };
enum { ROUGHLY = 12, FULLY = 200 }; /* iterations */

typedef struct chooser {
    const taps_problem *p;
    double *first; /* of A where it is Toeplitz; NULL: p->gram */
    int64_t list[CANDIDATES_MAX];
    int count;
    double *pair;            /* count x count: M; NaN where it is not known yet */
    int taps, at[TAPS_MAX];  /* the places of the taps in the list; that of lag 0 first */
    double *c, *by_c, *back; /* n each */
} chooser;

/* ---- the list ---- */

static void add_lag(chooser *s, int64_t lag, int64_t most) {
    if (lag < 0 || lag > most || s->count == CANDIDATES_MAX) return;
    for (int i = 0; i < s->count; i++)
        if (s->list[i] == lag) return;
    s->list[s->count++] = lag;
}

static void fill_list(chooser *s) {
    const int64_t n = s->p->n, b = s->p->b;
    for (int64_t d = 0; d < n; d = d < 8 ? d + 1 : d + d / 5)
        add_lag(s, d, n - 1);
    for (int64_t e = 1; e < s->p->k && e <= EPOCHS_LOOKED_AT; e++)
        for (int64_t d = 0; d < b / 2; d = d < 2 ? d + 1 : 2 * d) {
            add_lag(s, e * b + d, n - 1);
            add_lag(s, e * b - d, n - 1);
        }
}

/* ---- E ---- */

static double pair_of(const chooser *s, int64_t one, int64_t two) {
    const int64_t n = s->p->n, far = one > two ? one : two;
    double sum = 0;
    for (int64_t i = far; i < n; i++) {
        if (s->first == NULL) { /* u = i - far */
            sum += s->p->gram[(i - far + one) * n + i - far + two];
            continue;
        }
        sum += (double)(n - i) / (double)n * s->first[i - one] * s->first[i - two];
    }
    return sum;
}

static double error_of(const chooser *s, const double *w, double *by_w) {
    double sum = 0;
    memset(by_w, 0, (size_t)s->taps * sizeof *by_w);
    for (int i = 0; i < s->taps; i++)
        for (int j = 0; j < s->taps; j++) {
            double *m = &s->pair[s->at[i] * CANDIDATES_MAX + s->at[j]];
            if (isnan(*m)) *m = pair_of(s, s->list[s->at[i]], s->list[s->at[j]]);
            sum += w[i] * w[j] * *m;
            by_w[i] += 2 * w[j] * *m;
        }
    return sum;
}

/* ---- S ---- */

static int encode(const chooser *s, const double *w) {
    double largest = 0;
    for (int64_t t = 0; t < s->p->n; t++) {
        double sum = t == 0;
        for (int i = 1; i < s->taps; i++)
            if (s->list[s->at[i]] <= t) sum -= w[i] * s->c[t - s->list[s->at[i]]];
        s->c[t] = sum / w[0];
        largest = fmax(largest, fabs(s->c[t]));
    }
    return largest < 1e30;
}

/* X of the columns e b and g b, d = g - e apart: the sum over i below n - g b of c_i c_{i + d b}. */
static double square_of(const chooser *s) {
    const int64_t n = s->p->n, b = s->p->b, k = s->p->k;
    double square = 0;
    memset(s->by_c, 0, (size_t)n * sizeof *s->by_c);
    for (int64_t d = 0; d < k; d++) {
        double sum = 0, sign[2] = {d == 0 ? 1 : 2, d == 0 ? -1 : -2}, factor = 0;
        for (int64_t g = k - 1; g >= d; g--) { /* rising ends n - g b */
            for (int64_t i = g == k - 1 ? 0 : n - (g + 1) * b; i < n - g * b; i++)
                sum += s->c[i] * s->c[i + d * b];
            square += fabs(sum) * sign[0];
        }
        for (int64_t g = d; g < k; g++) { /* falling ends: the sums that an i is in */
            factor += sum < 0 ? sign[1] : sign[0];
            const int64_t low = g == k - 1 ? 0 : n - (g + 1) * b;
            for (int64_t i = low; i < n - g * b; i++) {
                s->by_c[i] += factor * s->c[i + d * b];
                s->by_c[i + d * b] += factor * s->c[i];
                sum -= s->c[i] * s->c[i + d * b];
            }
        }
    }
    return square;
}

/* dS/dw_i = -sum_t r_t c_{t - l_i}, r = H^-T dS/dc. */
static void square_gradient(const chooser *s, const double *w, double *by_w) {
    const int64_t n = s->p->n;
    for (int64_t t = n - 1; t >= 0; t--) {
        double sum = s->by_c[t];
        for (int i = 1; i < s->taps; i++)
            if (t + s->list[s->at[i]] < n) sum -= w[i] * s->back[t + s->list[s->at[i]]];
        s->back[t] = sum / w[0];
    }
    for (int i = 0; i < s->taps; i++) {
        const int64_t lag = s->list[s->at[i]];
        by_w[i] = 0;
        for (int64_t t = lag; t < n; t++)
            by_w[i] -= s->back[t] * s->c[t - lag];
    }
}

/* Unknown: w_1, w_2, ...; w_0 = 1, since the loss does not depend on the scale. */
static dpmf_status log_loss(void *context, const double *x, double *f, double *gradient) {
    const chooser *s = context;
    double w[TAPS_MAX] = {1}, by_error[TAPS_MAX], by_square[TAPS_MAX];
    *f = INFINITY;
    memcpy(w + 1, x, (size_t)(s->taps - 1) * sizeof *w);
    if (!encode(s, w)) return DPMF_OK;
    const double error = error_of(s, w, by_error), square = square_of(s);
    if (!(error > 0) || !isfinite(error) || !isfinite(square)) return DPMF_OK;
    square_gradient(s, w, by_square);
    *f = 0.5 * log(square) + 0.5 * log(error);
    for (int i = 1; i < s->taps; i++)
        gradient[i - 1] = 0.5 * by_square[i] / square + 0.5 * by_error[i] / error;
    return DPMF_OK;
}

static dpmf_status descend(chooser *s, int iterations, double *w, double *f, int *total) {
    const base_objective objective = {s->taps - 1, s, log_loss};
    const base_minimize_options options = {
        .gradient = 1e-9, .decrease = 1e-9, .iterations = iterations, .run = s->p->run};
    base_minimum found = {0};
    w[0] = 1;
    TRY(base_minimize(&objective, &options, w + 1, &found));
    *f = found.f;
    *total += found.iterations;
    return DPMF_OK;
}

static int is_tap(const chooser *s, int place) {
    for (int i = 0; i < s->taps; i++)
        if (s->at[i] == place) return 1;
    return 0;
}

/* Tap i goes where in the list the loss is least, if that is less than *f; its weight begins at 0. */
static dpmf_status place(chooser *s, int i, double *w, double *f, int *total) {
    const int before = s->at[i];
    int best = before;
    double start[TAPS_MAX], kept[TAPS_MAX], least = *f;
    memcpy(start, w, sizeof start);
    memcpy(kept, w, sizeof kept);
    start[i] = 0;
    for (int c = 1; c < s->count; c++) {
        double trial[TAPS_MAX], found = INFINITY;
        if (c == before || is_tap(s, c)) continue;
        memcpy(trial, start, sizeof trial);
        s->at[i] = c;
        TRY(descend(s, ROUGHLY, trial, &found, total));
        if (!(found < least - 1e-7)) continue;
        least = found;
        best = c;
        memcpy(kept, trial, sizeof kept);
    }
    s->at[i] = best;
    memcpy(w, kept, sizeof kept);
    *f = least;
    return DPMF_OK;
}

static dpmf_status search(chooser *s, int64_t taps, double *w, double *f, int *total) {
    memset(w, 0, TAPS_MAX * sizeof *w);
    w[0] = 1;
    for (s->taps = 2; s->taps <= taps; s->taps++) {
        *f = INFINITY;
        s->at[s->taps - 1] = -1;
        TRY(base_progress(s->p->run, "choosing taps", (double)s->taps / (double)taps));
        TRY(place(s, s->taps - 1, w, f, total));
        if (s->at[s->taps - 1] < 0) return base_fail(DPMF_ERROR_NUMERICAL, "taps: no lag was found");
        for (int pass = 0; pass < PASSES && s->p->n <= EXCHANGE_STEPS; pass++) {
            const double before = *f;
            for (int i = 1; i < s->taps; i++)
                TRY(place(s, i, w, f, total));
            if (!(*f < before - 1e-5)) break;
        }
    }
    s->taps = (int)taps;
    return descend(s, FULLY, w, f, total);
}

dpmf_status taps_choose(const taps_problem *p, int64_t taps, int64_t *lag, double *weight, double *loss,
                        int *iterations) {
    chooser s = {.p = p};
    double w[TAPS_MAX], f = 0;
    dpmf_status status = DPMF_OK;
    *iterations = 0;
    fill_list(&s);
    if (taps > s.count)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld taps, accepted for %lld steps: up to %d", (long long)taps,
                         (long long)p->n, s.count);
    TRY_DONE(base_alloc_doubles((int64_t)CANDIDATES_MAX * CANDIDATES_MAX, "products of columns", &s.pair));
    TRY_DONE(BASE_ARRAYS("the coefficients of C", {&s.c, p->n}, {&s.by_c, p->n}, {&s.back, p->n}));
    for (int i = 0; i < CANDIDATES_MAX * CANDIDATES_MAX; i++)
        s.pair[i] = NAN;
    if (p->gram == NULL) {
        TRY_DONE(base_alloc_doubles(p->n, "the first column of A", &s.first));
        s.first[0] = 1;
        TRY_DONE(dpmf_workload_apply(p->workload, s.first, s.first));
    }
    TRY_DONE(search(&s, taps, w, &f, iterations));
    for (int i = 0; i < s.taps; i++) { /* sorted by lag */
        int before = 0;
        for (int j = 0; j < s.taps; j++)
            before += s.list[s.at[j]] < s.list[s.at[i]];
        lag[before] = s.list[s.at[i]];
        weight[before] = w[i];
    }
    *loss = exp(f);
done:
    base_free(s.pair);
    base_free(s.c);
    base_free(s.first);
    return status;
}
