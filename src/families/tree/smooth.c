/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smooth binary mechanism (Andersson and Pagh 2023). In a binary tree a prefix sum is the sum of the left siblings along a
 * path, one for each 1 of the path's word, and a step is under one left node for each 0. Steps are placed only at leaves
 * whose words have the same number a of zeros and b of ones:
 *
 *     every step is in at most a nodes               sensitivity sqrt(a)
 *     every prefix sum is a sum of b nodes           variance b, the same at every step
 *     n + 1 <= binomial(a + b, a) leaves             the last one ends the last prefix sum
 *
 * The paper has a = b = h/2, which is variance (h/2)^2 at unit sensitivity, (1 + o(1)) log2(n)^2 / 4. Here a b is the least
 * product that holds n steps, and the smaller of the two is b, since the stream keeps b rows; at n = binomial(h, h/2) - 1
 * that is the paper's.
 *
 * From leaf t to leaf t+1 the words change as  v 0 1^p 0^q  ->  v 1 0^(q+1) 1^(p-1): the last p nodes of the old prefix sum
 * are replaced by p others. The first of these, v0, has just ended. It is the only one that holds data: the others begin with v and
 * more zeros than any word has left. With Z one normal number for each node of a prefix sum,
 *
 *     y_t = sum of the p new nodes' Z - sum of the p old nodes' Z,
 *
 * so that the noise of prefix sum t is the sum of its b nodes. The state is the Z of those, by their order in the word: the
 * first b - p of them stay in place. On average fewer than 2 nodes are new in a step (docs/mechanisms.md has the measurements).
 *
 * `best`: nodes without data have no noise. Then one node is new in each step, C is square and W = C^-1 is its only
 * decoder; prefix sum t has variance b minus the number of ones at the end of word t+1, so it is not the same at every
 * step, and never larger.
 */
#include "families/tree/smooth.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <string.h>

STRATEGY_CAST(smooth_strategy)

/* The ones that change after leaf `word`: the last run of them. */
static int changed(uint64_t word) {
    return __builtin_ctzll(~(word >> __builtin_ctzll(word)));
}

static int64_t smooth_seeds(const dpmf_strategy *s, int64_t t) {
    return cast(s)->best ? 1 : changed(smooth_word(cast(s), t));
}

/*
 * All seeds: those of the steps within the words of i zeros and j ones are R(i, j) = R(i-1, j) + j + R(i, j-1), where j are
 * new between the two parts; up to leaf n, the left parts along its word.
 */
static int64_t smooth_rows(const dpmf_strategy *strategy) {
    const smooth_strategy *s = cast(strategy);
    int64_t within[SMOOTH_HEIGHT_MAX + 1][SMOOTH_HEIGHT_MAX + 1] = {{0}}, rows = 0;
    if (s->best) return strategy->steps;
    for (int i = 1; i <= s->zeros; i++)
        for (int j = 1; j <= s->ones; j++)
            within[i][j] = within[i - 1][j] + j + within[i][j - 1];
    for (int place = s->zeros + s->ones - 1, i = s->zeros, j = s->ones; place >= 0; place--) {
        if (s->end >> place & 1) {
            if (i > 0) rows += within[i - 1][j] + j;
            j--;
        } else {
            i--;
        }
    }
    return rows;
}

static double smooth_normals(const dpmf_strategy *s) {
    return (double)smooth_rows(s) / (double)s->steps;
}

static int64_t smooth_buffers(const dpmf_strategy *s) {
    return cast(s)->ones;
}

/* The node that ends at t holds leaf t and what the replaced nodes held. */
static dpmf_status smooth_apply(const dpmf_strategy *s, const double *x, double *y) {
    const smooth_strategy *self = cast(s);
    double pending[SMOOTH_HEIGHT_MAX] = {0};
    uint64_t word = smooth_word(self, 0);
    for (int64_t t = 0; t < s->steps; t++, word = smooth_next(word)) {
        int p = changed(word);
        double *slot = pending + self->ones - p, sum = x[t];
        for (int i = 0; i < p; i++) {
            sum += slot[i];
            slot[i] = 0;
        }
        *slot = *y++ = sum;
        for (int i = 1; i < p && !self->best; i++)
            *y++ = 0;
    }
    return DPMF_OK;
}

static void smooth_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                        double *row) {
    const smooth_strategy *self = cast(s);
    const int p = changed(smooth_word(self, t));
    double *slot = state + (self->ones - p) * count;
    for (int64_t c = 0; c < count; c++) {
        double sum = 0;
        for (int i = 0; i < p; i++) {
            double z = i == 0 || !self->best ? seed[i * count + c] : 0;
            sum += z - slot[i * count + c];
            slot[i * count + c] = z;
        }
        row[c] = sum;
    }
}

static dpmf_status smooth_solve(const dpmf_strategy *s, const double *y, double *x) {
    const smooth_strategy *self = cast(s);
    double pending[SMOOTH_HEIGHT_MAX] = {0};
    uint64_t word = smooth_word(self, 0);
    for (int64_t t = 0; t < s->steps; t++, word = smooth_next(word)) {
        int p = changed(word);
        double *slot = pending + self->ones - p, sum = 0;
        for (int i = 0; i < p; i++) {
            double z = i == 0 || !self->best ? *y++ : 0;
            sum += z - slot[i];
            slot[i] = z;
        }
        x[t] = sum;
    }
    return DPMF_OK;
}

static dpmf_status smooth_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    const smooth_strategy *self = cast(s);
    uint64_t first = smooth_word(self, 0), second = smooth_word(self, lag);
    for (int64_t t = 0; t + lag < s->steps; t++) {
        uint64_t rows = smooth_rows_of(self, first) & smooth_shared(first, second);
        values[t] = __builtin_popcountll(rows);
        first = smooth_next(first);
        second = smooth_next(second);
    }
    return DPMF_OK;
}

/*
 * Errors under a named workload (error/error.h): the nodes of a prefix sum are independent with variance 1; carry their
 * covariances with m and o, O(b) per step. For stamps the nodes restart in each block while m and o go on.
 */
static dpmf_status smooth_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const smooth_strategy *self = cast(s);
    double in_m[SMOOTH_HEIGHT_MAX] = {0}, in_o[SMOOTH_HEIGHT_MAX] = {0}, has[SMOOTH_HEIGHT_MAX] = {0};
    error_moments v = {0};
    uint64_t word = 0;
    *done = q->a->form == WORKLOAD_NAMED;
    for (int64_t t = 0; *done && t < q->a->steps; t++) {
        TRY(error_report(q->run, t, q->a->steps, 8 * self->ones));
        const error_drive d = error_drive_at(q->a, t);
        const double scale = q->scale == NULL ? 1 : q->scale[t];
        if (t % s->steps == 0) {
            memset(in_m, 0, sizeof in_m);
            memset(in_o, 0, sizeof in_o);
            memset(has, 0, sizeof has); /* 1: the node has noise */
            word = smooth_word(self, 0);
        }
        const int p = changed(word), kept = self->ones - p;
        double yy = self->best ? 1 : p, ym = 0, yo = 0;
        for (int i = kept; i < self->ones; i++) {
            yy += has[i];
            ym -= in_m[i];
            yo -= in_o[i];
        }
        error_moments_advance(&d, scale * scale * yy, scale * ym, scale * yo, &v);
        for (int i = 0; i < kept; i++) {
            in_o[i] = d.keep * in_o[i] + d.p * in_m[i];
            in_m[i] *= d.beta;
        }
        for (int i = kept; i < self->ones; i++) {
            has[i] = i == kept || !self->best;
            in_m[i] = scale * has[i];
            in_o[i] = d.g * scale * has[i];
        }
        squares[t] = v.oo;
        word = smooth_next(word);
    }
    return DPMF_OK;
}

static void smooth_plan_noise(noise_plan *plan) {
    noise_plan_program(plan, cast(plan->leaf)->best ? 1 : cast(plan->leaf)->ones);
}

static void smooth_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)tensors;
    base_json_integer(w, "best", cast(s)->best);
}

static const strategy_ops SMOOTH = {.class_name = "smooth",
                                    .rows = smooth_rows,
                                    .apply = smooth_apply,
                                    .solve = smooth_solve,
                                    .step = smooth_step,
                                    .seeds = smooth_seeds,
                                    .buffers = smooth_buffers,
                                    .normals = smooth_normals,
                                    .gram = smooth_gram,
                                    .squared_errors = smooth_squared_errors,
                                    .sensitivity = smooth_sensitivity,
                                    .plan_noise = smooth_plan_noise,
                                    .write = smooth_write};

dpmf_status smooth_create(int64_t steps, int best, dpmf_strategy **out) {
    smooth_strategy *s = NULL;
    TRY(strategy_new(&SMOOTH, sizeof *s, DPMF_FAMILY_SMOOTH_BINARY, steps, (dpmf_strategy **)&s));
    s->best = best;
    /* For each number of ones the least number of zeros; words of 2^53 leaves are shorter than the limit if both are few. */
    for (int b = 1, least = SMOOTH_HEIGHT_MAX * SMOOTH_HEIGHT_MAX; b <= SMOOTH_HEIGHT_MAX / 2; b++) {
        int a = b;
        while (a + b < SMOOTH_HEIGHT_MAX && smooth_leaves(a, b) <= steps)
            a++;
        if (smooth_leaves(a, b) <= steps || a * b > least) continue; /* of equals the one with more leaves */
        least = a * b;
        s->zeros = a;
        s->ones = b;
    }
    assert(s->zeros > 0);
    s->end = smooth_word(s, steps);
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status smooth_read(const strategy_source *source, dpmf_strategy **out) {
    int64_t best = 0;
    if (strcmp(source->family, DPMF_FAMILY_SMOOTH_BINARY) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: a smooth tree of family %s is not known", source->family);
    TRY(base_json_get_integer(source->object, "best", "strategy", 0, 1, &best));
    return smooth_create(source->steps, best == 1, out);
}
