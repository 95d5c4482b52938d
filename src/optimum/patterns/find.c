/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the patterns with a value above a level by branch and bound: steps are chosen from the first to the last, and a
 * beginning is dropped if even the largest rest cannot lift it over the level.
 *
 *     f(X_p) <= sum_{t,u in p} |X_tu| = sum_{t in p} ( X_tt + 2 sum_{u in p, u < t} |X_tu| )
 *
 * The term of a step that is chosen is known; that of a step t still to come is at most r_t, with the earlier steps
 * where they couple most with t. The largest sum of r over the rest is a dynamic program, made once: D[j][s], the most
 * that picks number j, j+1, ... can add if pick j comes at step s or later. X nearly vanishes between the steps of the
 * patterns that matter, so that r is close and few beginnings are followed. Of a pattern whose sum is above the level
 * f itself is computed (sensitivity/pattern.c): an upper bound, exact where a certificate proves it. Patterns from a file are
 * taken one by one.
 */
#include "optimum/patterns/patterns.h"

#include "base/memory.h"
#include "sensitivity/sensitivity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double NODES_MAX = 3e7; /* beginnings of patterns: about a second */

typedef struct tree {
    const dpmf_participation *participation;
    int64_t n, k;
    const double *x;
    double *rest;   /* (k+1) x (n+1): D */
    double *matrix; /* k x k */
    double *sums;   /* k: of the beginning, by its length */
    int64_t *steps; /* k */
    double level, nodes, most;
    patterns_list *list;
} tree;

void patterns_list_free(patterns_list *list) {
    base_free(list->steps);
    base_free(list->sizes);
    base_free(list->values);
    *list = (patterns_list){0};
}

dpmf_status patterns_list_create(int64_t k, int64_t room, patterns_list *out) {
    patterns_list list = {.k = k, .room = room};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(room * k, sizeof *list.steps, "patterns", (void **)&list.steps));
    TRY_DONE(base_alloc(room, sizeof *list.sizes, "patterns", (void **)&list.sizes));
    TRY_DONE(base_alloc_doubles(room, "values of patterns", &list.values));
    *out = list;
    return DPMF_OK;
done:
    patterns_list_free(&list);
    return status;
}

/* Where pick number i may be, after a pick at `last` (-1: none): [*from, *to). */
static void choices(const tree *s, int64_t i, int64_t last, int64_t *from, int64_t *to) {
    const int64_t b = s->participation->separation;
    if (s->participation->pattern == WORKLOAD_EPOCHS) {
        *from = i * b < s->n ? i * b : s->n;
        *to = *from + b < s->n ? *from + b : s->n;
        return;
    }
    *from = last < 0 ? 0 : last + b < s->n ? last + b : s->n;
    *to = s->n;
}

/* ---- the bound of the rest ---- */

/* best[j], j <= k: the most that at most j steps before `t` couple with it. `work` has k+1 rows of n+1 numbers. */
static void couple_earlier(const tree *s, int64_t t, double *work, double *best) {
    const int64_t b = s->participation->separation, n = s->n;
    const double *row = s->x + t * n;
    for (int64_t j = 0; j <= s->k; j++)
        best[j] = 0;
    if (s->participation->pattern == WORKLOAD_EPOCHS) {
        double sum = 0;
        for (int64_t e = 0; (e + 1) * b <= t / b * b; e++) {
            double largest = 0;
            for (int64_t u = e * b; u < (e + 1) * b; u++)
                largest = fmax(largest, fabs(row[u]));
            sum += largest;
        }
        for (int64_t j = 0; j <= s->k; j++)
            best[j] = sum;
        return;
    }
    memset(work, 0, (size_t)((s->k + 1) * (n + 1)) * sizeof *work); /* work[j][u]: at most j picks before u */
    for (int64_t j = 1; j < s->k; j++) {
        double *now = work + j * (n + 1), *before = now - (n + 1);
        for (int64_t u = 0; u + b <= t; u++)
            now[u + 1] = fmax(now[u], fabs(row[u]) + (u >= b ? before[u - b + 1] : 0));
        best[j] = t >= b ? now[t - b + 1] : 0;
    }
}

/* D, from the last pick to the first. `reach` has k+1 numbers per step: r by the number of picks before. */
static dpmf_status bound_rest(tree *s) {
    const int64_t n = s->n, k = s->k;
    double *work = NULL, *best = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles((k + 1) * (n + 1), "sums over patterns", &work));
    TRY_DONE(base_alloc_doubles(n * (k + 1), "sums over patterns", &best));
    for (int64_t t = 0; t < n; t++)
        couple_earlier(s, t, work, best + t * (k + 1));
    for (int64_t j = k - 1; j >= 0; j--) {
        double *now = s->rest + j * (n + 1), *after = now + n + 1;
        for (int64_t t = n - 1; t >= 0; t--) {
            int64_t from = 0, to = 0;
            choices(s, j, -1, &from, &to);
            now[t] = now[t + 1];
            if (t < from || t >= to) continue;
            choices(s, j + 1, t, &from, &to);
            double with = s->x[t * n + t] + 2 * best[t * (k + 1) + j] + (j + 1 < k ? after[from] : 0);
            now[t] = fmax(now[t], with);
        }
    }
done:
    base_free(work);
    base_free(best);
    return status;
}

typedef struct place {
    double value;
    int64_t at;
} place;

static int by_falling_value(const void *left, const void *right) {
    const place *l = left, *r = right;
    if (l->value != r->value) return l->value > r->value ? -1 : 1;
    return l->at < r->at ? -1 : 1;
}

static dpmf_status sort_list(patterns_list *list, int64_t keep) {
    patterns_list sorted = {0};
    place *order = NULL;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(list->count + 1, sizeof *order, "the order of patterns", (void **)&order));
    TRY_DONE(patterns_list_create(list->k, list->room, &sorted));
    for (int64_t i = 0; i < list->count; i++)
        order[i] = (place){list->values[i], i};
    qsort(order, (size_t)list->count, sizeof *order, by_falling_value);
    for (; sorted.count < keep && sorted.count < list->count; sorted.count++) {
        const int64_t from = order[sorted.count].at, to = sorted.count;
        memcpy(sorted.steps + to * list->k, list->steps + from * list->k, (size_t)list->k * sizeof *list->steps);
        sorted.sizes[to] = list->sizes[from];
        sorted.values[to] = list->values[from];
    }
    patterns_list_free(list);
    *list = sorted;
done:
    base_free(order);
    return status;
}

/* A whole pattern whose sum of |X| is above the level. */
static dpmf_status add_pattern(tree *s, int64_t size, double sum) {
    patterns_list *list = s->list;
    double value = sum; /* f for one and two steps */
    for (int64_t a = 0; a < size; a++)
        for (int64_t c = 0; c < size; c++)
            s->matrix[a * size + c] = s->x[s->steps[a] * s->n + s->steps[c]];
    if (size > 2) {
        sensitivity_found found;
        TRY(sensitivity_pattern_evaluate(size, s->matrix, DPMF_BOUND_AUTO, &found));
        value = found.square;
    }
    if (value > s->most) s->most = value;
    if (!(value > s->level)) return DPMF_OK;
    if (list->count == list->room) { /* keep the better half, and accept only better ones */
        TRY(sort_list(list, list->room / 2));
        s->level = list->values[list->count - 1];
        if (!(value > s->level)) return DPMF_OK;
    }
    memcpy(list->steps + list->count * list->k, s->steps, (size_t)size * sizeof *s->steps);
    list->sizes[list->count] = size;
    list->values[list->count++] = value;
    return DPMF_OK;
}

static dpmf_status walk_tree(tree *s) {
    int64_t depth = 0, from = 0, to = 0;
    choices(s, 0, -1, &from, &to);
    s->steps[0] = from;
    while (depth >= 0 && s->nodes < NODES_MAX) {
        choices(s, depth, depth == 0 ? -1 : s->steps[depth - 1], &from, &to);
        const double before = depth == 0 ? 0 : s->sums[depth - 1];
        const int64_t t = s->steps[depth];
        /* D falls with the step: nothing later is better either */
        if (t >= to || !(before + s->rest[depth * (s->n + 1) + t] > s->level)) {
            if (--depth >= 0) s->steps[depth]++;
            continue;
        }
        s->nodes++;
        /* The sum of the beginning with the last step added to it. */
        const int64_t u = s->steps[depth];
        double sum = (depth > 0 ? s->sums[depth - 1] : 0) + s->x[u * s->n + u];
        for (int64_t i = 0; i < depth; i++)
            sum += 2 * fabs(s->x[u * s->n + s->steps[i]]);
        s->sums[depth] = sum;
        choices(s, depth + 1, t, &from, &to);
        if (depth + 1 < s->k && from < to) {
            s->steps[++depth] = from;
            continue;
        }
        if (s->sums[depth] > s->level) TRY(add_pattern(s, depth + 1, s->sums[depth]));
        s->steps[depth]++;
    }
    return DPMF_OK;
}

static dpmf_status walk_list(tree *s) {
    const dpmf_participation *p = s->participation;
    for (int64_t q = 0; q < p->patterns; q++) {
        const int64_t *steps = p->listed + p->begins[q], size = p->begins[q + 1] - p->begins[q];
        double sum = 0;
        for (int64_t i = 0; i < size; i++) {
            const double *row = s->x + steps[i] * s->n;
            double before = 0;
            for (int64_t j = 0; j < i; j++)
                before += fabs(row[steps[j]]);
            sum += row[steps[i]] + 2 * before;
        }
        if (!(sum > s->level)) continue;
        memcpy(s->steps, steps, (size_t)size * sizeof *steps);
        TRY(add_pattern(s, size, sum));
    }
    return DPMF_OK;
}

dpmf_status patterns_find(const dpmf_participation *participation, const double *x, double level, patterns_list *list,
                          double *most, int *whole) {
    const int64_t n = participation->steps, k = participation->count;
    tree s = {.participation = participation, .n = n, .k = k, .x = x, .level = level, .most = level, .list = list};
    dpmf_status status = DPMF_OK;
    list->count = 0;
    const int listed = participation->pattern == WORKLOAD_LISTED;
    if (!listed) TRY_DONE(base_alloc_doubles((k + 1) * (n + 1), "sums over patterns", &s.rest));
    TRY_DONE(base_alloc_doubles(k * k, "the matrix of a pattern", &s.matrix));
    TRY_DONE(base_alloc_doubles(k, "sums over patterns", &s.sums));
    TRY_DONE(base_alloc(k, sizeof *s.steps, "a pattern", (void **)&s.steps));
    if (!listed) TRY_DONE(bound_rest(&s));
    TRY_DONE(listed ? walk_list(&s) : walk_tree(&s));
    TRY_DONE(sort_list(list, list->room));
    *whole = s.nodes < NODES_MAX;
    *most = *whole ? s.most : fmax(level, s.rest[0]);
done:
    base_free(s.rest);
    base_free(s.matrix);
    base_free(s.sums);
    base_free(s.steps);
    return status;
}
