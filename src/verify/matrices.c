/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a mechanism of few steps as a whole: W is read off the noise stream's responses to impulses, C comes from the
 * strategy's columns.
 *
 *     W C = I          what the stream adds is the noise of C and not of something else
 *     sensitivity      from the columns of C
 *     losses           from B = A W entry by entry: s |B|_F and s times its longest row, where the claimed ones come
 *                      from recursions, closed forms or series
 *     response         from B
 */
#include "verify/verify.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/*
 * ---- the worst pattern ----
 *
 * Sensitivity from the columns c_t of a whole C, without the routes of sensitivity_*.c: a unit that takes part in the
 * steps p moves C g by at most sqrt(f(X_p)), X[t,u] = <c_t, c_u>, and the sensitivity is the largest over the patterns p.
 *
 *     one participation    the largest |c_t|
 *     cyclic, full         every pattern, one by one
 *     min-separation       where X[t,u] = 0 from distance 2b on, steps of a pattern interact with their neighbours alone:
 *                          X_p is tridiagonal, signs make all its terms positive, f(X_p) is the sum of |X_p|, and the
 *                          largest is found by a program over (participations so far, last step)
 *     from a file          every pattern, one by one
 *     shuffled             the same over epochs, where X[t,u] = 0 beyond distance b
 *     elsewhere            patterns at even distances: what they reach is not more than the sensitivity
 *
 * One pattern: the sum of X_p where it has no negative entry, else what sensitivity/pattern.c proves or reaches; for one
 * column every choice of signs up to 16 steps, and above what the best known signs reach.
 */

typedef struct whole {
    int64_t n, k, b, rows;
    const double *columns;
    int64_t *begins, *ends; /* where columns are other than 0 */
    double *products;       /* NULL, or X above its diagonal */
    const dpmf_run *run;
    int one_column; /* contributions are numbers */
} whole;

static double multiply(const whole *c, int64_t t, int64_t u) {
    const int64_t from = c->begins[t] > c->begins[u] ? c->begins[t] : c->begins[u];
    const int64_t to = c->ends[t] < c->ends[u] ? c->ends[t] : c->ends[u];
    if (to <= from) return 0;
    return base_dot(to - from, c->columns + t * c->rows + from, c->columns + u * c->rows + from);
}

typedef struct pattern_room {
    double *x, *work, *vectors, *signs;
    int64_t *steps;
} pattern_room;

static double sum_of_signs(int64_t k, const double *x, const double *u) {
    double sum = 0;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < k; j++)
            sum += u[i] * u[j] * x[i * k + j];
    return sum;
}

enum { ALL_SIGNS_MAX = 16 }; /* every sum from its definition, O(2^k k^2): a tenth of a second */

/* max u'Xu over all signs, each from its definition. */
static double most_signs(int64_t k, const double *x) {
    double u[ALL_SIGNS_MAX], most = 0;
    for (int64_t code = 0; code < (int64_t)1 << (k - 1); code++) {
        for (int64_t i = 0; i < k; i++)
            u[i] = code >> i & 1 ? -1 : 1;
        most = fmax(most, sum_of_signs(k, x, u));
    }
    return most;
}

/* For t <= u where X is held. */
static double inner(const whole *c, int64_t t, int64_t u) {
    return c->products != NULL ? c->products[t * c->n + u] : multiply(c, t, u);
}

/* One with k steps: improves *best (squared) if it can; *exact falls to 0 where f is only reached. */
static dpmf_status try_pattern(const whole *c, int64_t k, const int64_t *steps, pattern_room *r, double *best,
                               int *exact) {
    double sum = 0, size = 0, low = 0, high = 0;
    sensitivity_found found = SENSITIVITY_NOT_FOUND;
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = i; j < k; j++) {
            const double x = inner(c, steps[i], steps[j]);
            r->x[i * k + j] = r->x[j * k + i] = x;
            sum += (i == j ? 1 : 2) * x;
            size += (i == j ? 1 : 2) * fabs(x);
        }
    if (size <= *best) return DPMF_OK; /* f is at most that */
    if (sum == size) {
        *best = sum;
        return DPMF_OK;
    }
    TRY(sensitivity_pattern_evaluate(k, r->x, DPMF_BOUND_AUTO, &found));
    if (found.kind == DPMF_EXACT) {
        *best = fmax(*best, found.square);
        return DPMF_OK;
    }
    if (c->one_column && k <= ALL_SIGNS_MAX) {
        *best = fmax(*best, most_signs(k, r->x));
        return DPMF_OK;
    }
    *exact = 0;
    TRY(sensitivity_ascent(k, r->x, r->work, r->vectors, r->signs, &low, &high));
    *best = fmax(*best, c->one_column ? sum_of_signs(k, r->x, r->signs) : low);
    return DPMF_OK;
}

static void room_free(pattern_room *room) {
    base_free(room->x);
    base_free(room->work);
    base_free(room->vectors);
    base_free(room->signs);
    base_free(room->steps);
}

static dpmf_status room_make(int64_t k, pattern_room *room) {
    TRY(base_alloc_doubles(k * k, "the matrix of a pattern", &room->x));
    TRY(base_alloc_doubles(k * k, "the matrix of a pattern", &room->work));
    TRY(base_alloc_doubles(sensitivity_ascent_room(k), "the vectors of a pattern", &room->vectors));
    TRY(base_alloc_doubles(k, "the signs of a pattern", &room->signs));
    return base_alloc(k, sizeof *room->steps, "the steps of a pattern", (void **)&room->steps);
}

static dpmf_status try_even(const whole *c, int64_t starts, int64_t gap, double *best, int *exact) {
    pattern_room room = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(room_make(c->k, &room));
    for (int64_t start = 0; start < starts && start < c->n; start++) {
        int64_t k = 0;
        for (int64_t t = start; t < c->n && k < c->k; t += gap)
            room.steps[k++] = t;
        TRY_DONE(try_pattern(c, k, room.steps, &room, best, exact));
        TRY_DONE(base_progress(c->run, "verify: patterns", (double)start / (double)starts));
    }
done:
    room_free(&room);
    return status;
}

/* X is made once: patterns of a file share their pairs of steps. */
static dpmf_status try_listed(whole *c, const dpmf_participation *p, double *best, int *exact) {
    pattern_room room = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(room_make(c->k, &room));
    TRY_DONE(base_alloc_square(c->n, "products of columns", &c->products));
    for (int64_t t = 0; t < c->n; t++) {
        double *row = c->products + t * c->n;
        TRY_DONE(base_progress(c->run, "verify: products of columns", (double)t / (double)c->n));
        for (int64_t u = t; u < c->n; u++)
            row[u] = multiply(c, t, u);
    }
    for (int64_t q = 0; q < p->patterns; q++) {
        TRY_DONE(try_pattern(c, p->begins[q + 1] - p->begins[q], p->listed + p->begins[q], &room, best, exact));
        TRY_DONE(base_progress(c->run, "verify: patterns", (double)q / (double)p->patterns));
    }
done:
    room_free(&room);
    base_free(c->products);
    c->products = NULL;
    return status;
}

/* The best with `j` steps of which t is the last, from the best with j - 1: before[s], and most[s] up to s. */
static double extend(const whole *c, int64_t t, const double *band, const double *before, const double *most) {
    double best = 0;
    for (int64_t lag = c->b; lag < 2 * c->b && lag <= t; lag++)
        best = fmax(best, before[t - lag] + 2 * fabs(band[t * c->b + lag - c->b]));
    if (t >= 2 * c->b) best = fmax(best, most[t - 2 * c->b]);
    return best;
}

static dpmf_status separated(const whole *c, double *square) {
    const int64_t n = c->n;
    double *band = NULL, *rows = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n * c->b, "products of neighbouring columns", &band));
    TRY_DONE(base_alloc_doubles(4 * n, "the best patterns", &rows));
    double *own = rows, *before = rows + n, *now = rows + 2 * n, *most = rows + 3 * n;
    /* band[t * b + l] = X[t, t - b - l], l < b */
    for (int64_t t = 0; t < c->n; t++) {
        for (int64_t lag = c->b; lag < 2 * c->b && lag <= t; lag++)
            band[t * c->b + lag - c->b] = inner(c, t - lag, t);
        TRY_DONE(base_progress(c->run, "verify: products of columns", (double)t / (double)c->n));
    }
    for (int64_t t = 0; t < n; t++)
        own[t] = inner(c, t, t);
    for (int64_t j = 0; j < c->k; j++) {
        for (int64_t t = 0; t < n; t++)
            now[t] = own[t] + (j == 0 ? 0 : extend(c, t, band, before, most));
        for (int64_t t = 0; t < n; t++)
            most[t] = fmax(now[t], t == 0 ? 0 : most[t - 1]);
        memcpy(before, now, (size_t)n * sizeof *now);
        TRY_DONE(base_progress(c->run, "verify: patterns", (double)j / (double)c->k));
    }
    *square = most[n - 1];
done:
    base_free(band);
    base_free(rows);
    return status;
}

/* best[t]: of the patterns whose last step so far is t, one in each epoch up to its own. */
static dpmf_status shuffled(const whole *c, double *square) {
    double *best = NULL, all = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(c->n, "the best patterns", &best));
    for (int64_t t = 0; t < c->n; t++) {
        const int64_t epoch = t / c->b;
        double before = 0;
        for (int64_t s = (epoch - 1) * c->b; epoch > 0 && s < epoch * c->b; s++)
            before = fmax(before, best[s] + 2 * fabs(inner(c, s, t)));
        best[t] = inner(c, t, t) + before;
        all = fmax(all, best[t]);
        TRY_DONE(base_progress(c->run, "verify: patterns", (double)t / (double)c->n));
    }
    *square = all;
done:
    base_free(best);
    return status;
}

static dpmf_status reach_of_several(whole *c, const dpmf_participation *p, verify_reach *out) {
    const workload_pattern pattern = p->pattern;
    double square = 0;
    int exact = 1;
    /* X[t,u] = 0 for |t - u| >= reach, as far as zeros in C show. */
    int64_t reach = 1;
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t u = t + reach; u < c->n; u++)
            if (c->begins[u] < c->ends[t] && c->begins[t] < c->ends[u]) reach = u - t + 1;
    if (pattern == WORKLOAD_LISTED) {
        TRY(try_listed(c, p, &square, &exact));
        snprintf(out->route, sizeof out->route, exact ? "every pattern, one by one" : "signs of every pattern");
    } else if (pattern == WORKLOAD_FIXED) {
        TRY(try_even(c, c->b, c->b, &square, &exact));
        snprintf(out->route, sizeof out->route, exact ? "every pattern, one by one" : "signs of every pattern");
    } else if (pattern == WORKLOAD_APART && reach <= 2 * c->b) {
        TRY(separated(c, &square));
        snprintf(out->route, sizeof out->route, "a program over neighbouring steps");
    } else if (pattern == WORKLOAD_EPOCHS && reach <= c->b + 1) {
        TRY(shuffled(c, &square));
        snprintf(out->route, sizeof out->route, "a program over neighbouring epochs");
    } else {
        TRY(try_even(c, c->b, c->b, &square, &exact));
        if (c->k > 1) TRY(try_even(c, 1, (c->n - 1) / (c->k - 1), &square, &exact));
        exact = 0;
        snprintf(out->route, sizeof out->route, "patterns at even distances");
    }
    out->value = sqrt(square);
    out->exact = exact;
    return DPMF_OK;
}

dpmf_status verify_reach_of(const dpmf_mechanism *m, int64_t rows, const double *columns, const dpmf_run *run,
                            verify_reach *out) {
    const dpmf_participation *p = m->problem.participation;
    whole c = {.n = m->problem.steps, .k = p->count, .b = p->separation, .rows = rows, .columns = columns, .run = run};
    c.one_column = m->problem.evaluation.sensitivity.columns == 1;
    const int column = !dpmf_sampling_is_none(&m->sampling);
    int64_t *spans = NULL;
    TRY(base_alloc(2 * c.n, sizeof *spans, "where columns begin and end", (void **)&spans));
    c.begins = spans;
    c.ends = spans + c.n;
    for (int64_t t = 0; t < c.n; t++)
        verify_span_of(rows, columns + t * rows, &c.begins[t], &c.ends[t]);
    dpmf_status status = DPMF_OK;
    double largest = 0;
    for (int64_t t = 0; t < c.n; t++)
        largest = fmax(largest, inner(&c, t, t));
    if (column || workload_is_once(p))
        *out = (verify_reach){.value = sqrt(largest), .exact = 1, .route = "largest column of C"};
    else
        status = reach_of_several(&c, p, out);
    if (!column && m->problem.adjacency == DPMF_ADJACENCY_REPLACE_ONE) out->value *= 2;
    base_free(spans);
    return status;
}

/* Where every row takes every seed and there are more seeds than steps, W takes n rows^2 products: fewer steps. */
enum { ALL_SEEDS_STEPS = 1000 };

int verify_is_small(const dpmf_mechanism *m) {
    const int all = verify_stream_is_whole(m->strategy) && strategy_rows(m->strategy) > m->problem.steps;
    return m->problem.steps <= (all ? ALL_SEEDS_STEPS : DPMF_VERIFY_WHOLE_STEPS);
}

static double longest(int64_t count, int64_t size, const double *x) {
    double most = 0;
    for (int64_t i = 0; i < count; i++) {
        double sum = 0;
        for (int64_t j = 0; j < size; j++)
            sum += x[i * size + j] * x[i * size + j];
        most = fmax(most, sum);
    }
    return sqrt(most);
}

static dpmf_status check_inverse(verify_task *v, int64_t rows, const double *w, const double *columns) {
    const int64_t n = v->mechanism->problem.steps;
    double found = 0, size = fmax(1, longest(n, rows, w) * longest(n, rows, columns));
    TRY(verify_left_inverse_error(n, rows, w, columns, v->run, &found));
    const dpmf_check check = {.name = "stream.left_inverse",
                              .ok = found <= VERIFY_TOLERANCE_OTHER * size,
                              .claimed = 0,
                              .found = found,
                              .tolerance = VERIFY_TOLERANCE_OTHER * size};
    verify_check_add(v->out, check,
                     "largest entry of W C - I, all %lld x %lld, W read from the noise stream (absolute)", (long long)n,
                     (long long)n);
    return DPMF_OK;
}

static dpmf_status check_sensitivity(verify_task *v, int64_t rows, const double *columns) {
    const dpmf_sensitivity *claimed = &v->mechanism->problem.evaluation.sensitivity;
    verify_reach found = {0};
    TRY(verify_reach_of(v->mechanism, rows, columns, v->run, &found));
    const double off = found.value / claimed->value - 1, tolerance = VERIFY_TOLERANCE_OTHER;
    const int proves = claimed->kind == DPMF_EXACT && found.exact;
    const dpmf_check check = {.name = "stream.sensitivity",
                              .ok = off <= tolerance && (!proves || off >= -tolerance),
                              .claimed = claimed->value,
                              .found = found.value,
                              .tolerance = tolerance};
    verify_check_add(v->out, check, "%s, from the matrix C: %s", found.route,
                     proves ? "exact, by another method"
                     : off >= -tolerance && off <= tolerance
                         ? "they reach the claim; the claimed method proves that no other exceeds it"
                         : "they must not exceed the claim, which is not proven here");
    return DPMF_OK;
}

/* The losses and the response from the rows of B = A W, which the workload's own steps make from W, n x rows. */
static dpmf_status check_losses(verify_task *v, int64_t rows, const double *w) {
    const dpmf_mechanism *m = v->mechanism;
    const dpmf_workload *a = m->problem.workload;
    const double s = v->again.sensitivity.value;
    const int64_t buffers = workload_buffers(a);
    double largest = 0, response = 0, *state = NULL;
    uint64_t salt = 0;
    base_running total = {0};
    if (v->responded) TRY(mechanism_response_salt(m, &salt));
    TRY(base_alloc_doubles((buffers + a->width) * rows, "the workload's state", &state));
    double *b = state + buffers * rows;
    for (int64_t t = 0; t < m->problem.steps; t++) {
        base_running square = {0}, answer = {0};
        const double p = m->problem.weights == NULL ? 1 : m->problem.weights[t];
        workload_step(a, t, rows, w + t * rows, state, b);
        for (int64_t i = 0; i < a->width * rows; i++)
            base_running_add(&square, b[i] * b[i]);
        for (int64_t i = 0; i < rows; i++)
            base_running_add(&answer,
                             workload_mix(a, rows, b + i) * mechanism_response_number(salt, 2 * (uint64_t)i + 1));
        const double loss = s * s * p * base_running_value(&square);
        base_running_add(&total, loss);
        largest = fmax(largest, loss);
        response += sqrt(p) * mechanism_response_number(salt, 2 * (uint64_t)t) * base_running_value(&answer);
    }
    base_free(state);
    const double all = base_running_value(&total);
    static const char how[] = "from every entry of A W, W read from the noise stream, and the sensitivity";
    const dpmf_evaluation *claimed = &m->problem.evaluation;
    verify_check_equal(v->out, "stream.rms_loss", claimed->rms_loss, sqrt(all / (double)m->problem.steps),
                       VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.max_loss", claimed->max_loss, sqrt(largest), VERIFY_TOLERANCE_OTHER, "%s", how);
    verify_check_equal(v->out, "stream.total_squared_loss", claimed->total_squared_loss, all, VERIFY_TOLERANCE_OTHER,
                       "%s", how);
    if (v->responded)
        verify_check_response(v, "stream.response", response, VERIFY_TOLERANCE_OTHER,
                              "u' A W v from the entries of A W, W read from the noise stream");
    return DPMF_OK;
}

static dpmf_status verify_whole(verify_task *v, base_pool *pool) {
    const dpmf_mechanism *m = v->mechanism;
    const int64_t n = m->problem.steps, rows = strategy_rows(m->strategy);
    double *w = NULL, *columns = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n * rows, "W", &w));
    TRY_DONE(verify_stream_impulses(m->strategy, DPMF_FLOAT64, n, rows, pool, v->run, w));
    TRY_DONE(base_alloc_doubles(n * rows, "C", &columns));
    TRY_DONE(verify_first_columns(m->strategy, n, rows, columns));
    TRY_DONE(check_inverse(v, rows, w, columns));
    TRY_DONE(check_sensitivity(v, rows, columns));
    TRY_DONE(check_losses(v, rows, w));
done:
    base_free(columns);
    base_free(w);
    return status;
}

dpmf_status verify_matrices(verify_task *v) {
    base_pool *pool = NULL;
    TRY(base_pool_create(v->run->threads, &pool));
    dpmf_status status = verify_whole(v, pool);
    base_pool_free(pool);
    if (!verify_is_verdict(status)) return status;
    verify_check_skip(v->out, "stream.left_inverse", "it cannot be computed as a whole: %s", dpmf_last_error());
    return DPMF_OK;
}
