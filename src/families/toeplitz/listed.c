/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The squared sensitivity of a Toeplitz C to patterns from a file, smooth enough to be minimized:
 *
 *     S_p = |sum_{t in p} C[:,t]|^2,   s_i = sum_{t in p} c_{i-t},   dS_p/dc_j = 2 sum_{t in p} s_{t+j},
 *
 * which is f(X_p) where c >= 0 (Pillutla et al. 2025, Lemma 3.15b) and where columns of one pattern do not meet. The largest S_p
 * is the limit of (sum_p m_p S_p^tau)^(1/tau), sum m = 1. As in the exponential multiplier method (Tseng and Bertsekas 1993), m_p <- m_p S_p^tau after every round makes tau no larger than some hundred, where the problem is still well
 * conditioned. Few patterns are ever the worst ones: a round has those with the largest S_p of the rounds before, and after it all
 * patterns are evaluated, O(bands) for each step of each pattern.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MOST = TOEPLITZ_LISTED_MAX, JOIN = 16 };
static const double WORK_MAX = 4e9; /* multiplications for all patterns once: a second or two */
static const double LEAVE = 1e-9;   /* a multiplier below this ends */
static const double ENTRY = 0.05;   /* of a new pattern */

void toeplitz_listed_free(toeplitz_listed *l) {
    base_free(l->memory);
    *l = (toeplitz_listed){0};
}

dpmf_status toeplitz_listed_create(const dpmf_participation *p, int64_t bands, toeplitz_listed *out) {
    const int64_t n = p->steps;
    const double work = (double)p->begins[p->patterns] * (double)bands;
    double *memory = NULL;
    if (work > WORK_MAX)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "participation %s: %.2g multiplications for every step of the search, accepted up to %.2g; optimize "
            "for another one with --optimize-participation, for example min-sep:%lld,%lld",
            p->text, work, WORK_MAX, (long long)p->count, (long long)p->separation);
    TRY(base_alloc_doubles(MOST * n + 2 * n + p->patterns, "sums of columns", &memory));
    *out = (toeplitz_listed){.p = p, .n = n, .sharpness = 16, .memory = memory};
    out->sums = memory;
    out->c = memory + MOST * n;
    out->by_c = out->c + n;
    out->values = out->by_c + n;
    return DPMF_OK;
}

/* s of pattern q, and its square. */
static double sum_columns(const toeplitz_listed *l, int64_t q, int64_t bands, const double *c, double *s) {
    memset(s, 0, (size_t)l->n * sizeof *s);
    for (int64_t i = l->p->begins[q]; i < l->p->begins[q + 1]; i++) {
        const int64_t t = l->p->listed[i], end = bands < l->n - t ? bands : l->n - t;
        for (int64_t j = 0; j < end; j++)
            s[t + j] += c[j];
    }
    return base_dot(l->n, s, s);
}

dpmf_status toeplitz_listed_square(toeplitz_listed *l, int64_t bands, const double *c, double *value,
                                   double *gradient) {
    double square[MOST], weight[MOST], top = 0, sum = 0;
    if (l->count == 0) TRY(toeplitz_listed_update(l, bands, c, &top));
    top = 0;
    for (int a = 0; a < l->count; a++) {
        square[a] = sum_columns(l, l->which[a], bands, c, l->sums + a * l->n);
        top = fmax(top, square[a]);
    }
    *value = top;
    if (!(top > 0 && isfinite(top))) return DPMF_OK;
    for (int a = 0; a < l->count; a++)
        sum += weight[a] = l->multiplier[a] * pow(square[a] / top, l->sharpness);
    *value = top * pow(sum, 1 / l->sharpness);
    memset(gradient, 0, (size_t)bands * sizeof *gradient);
    for (int a = 0; a < l->count; a++) {
        const double times = square[a] > 0 ? 2 * weight[a] / sum * *value / square[a] : 0;
        const double *s = l->sums + a * l->n;
        if (!(times > 1e-300)) continue;
        for (int64_t i = l->p->begins[l->which[a]]; i < l->p->begins[l->which[a] + 1]; i++) {
            const int64_t t = l->p->listed[i], end = bands < l->n - t ? bands : l->n - t;
            for (int64_t j = 0; j < end; j++)
                gradient[j] += times * s[t + j];
        }
    }
    return DPMF_OK;
}

/* Drops those that no longer count, and of too many the least. */
static void make_room(toeplitz_listed *l) {
    int kept = 0;
    for (int a = 0; a < l->count; a++) {
        if (l->multiplier[a] < LEAVE) continue;
        l->which[kept] = l->which[a];
        l->multiplier[kept++] = l->multiplier[a];
    }
    l->count = kept;
    while (l->count > MOST - JOIN) {
        int least = 0;
        for (int a = 1; a < l->count; a++)
            if (l->multiplier[a] < l->multiplier[least]) least = a;
        l->count--;
        l->which[least] = l->which[l->count];
        l->multiplier[least] = l->multiplier[l->count];
    }
}

static void join(toeplitz_listed *l, int64_t q) {
    for (int a = 0; a < l->count; a++)
        if (l->which[a] == q) return;
    l->which[l->count] = q;
    l->multiplier[l->count++] = ENTRY;
}

/* The multipliers after a round with the values in l->values; the patterns with the largest of them join. */
void toeplitz_listed_renew(toeplitz_listed *l, double *largest) {
    double top = 0, all = 0;
    for (int64_t q = 0; q < l->p->patterns; q++)
        top = fmax(top, l->values[q]);
    for (int a = 0; a < l->count; a++)
        all += l->multiplier[a] *= pow(l->values[l->which[a]] / top, l->sharpness);
    for (int a = 0; a < l->count; a++)
        l->multiplier[a] /= all > 0 ? all : 1;
    make_room(l);
    for (int i = 0; i < JOIN; i++) {
        int64_t best = 0;
        for (int64_t q = 1; q < l->p->patterns; q++)
            if (l->values[q] > l->values[best]) best = q;
        if (!(l->values[best] > 0)) break;
        join(l, best);
        l->values[best] = 0;
    }
    all = 0;
    for (int a = 0; a < l->count; a++)
        all += l->multiplier[a];
    for (int a = 0; a < l->count; a++)
        l->multiplier[a] /= all;
    *largest = top;
}

dpmf_status toeplitz_listed_update(toeplitz_listed *l, int64_t bands, const double *c, double *largest) {
    for (int64_t q = 0; q < l->p->patterns; q++)
        l->values[q] = sum_columns(l, q, bands, c, l->sums);
    toeplitz_listed_renew(l, largest);
    return DPMF_OK;
}
