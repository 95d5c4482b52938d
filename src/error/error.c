/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error: the row norms of B = A W. Row t of B Z is the noise in answer t, so |B[t,:]| is its standard deviation per
 * unit of seed noise (Pillutla et al. 2025, Theorem 2.2).
 *
 *     the family's own way       ask its table of operations: BLT, TV-BLT, replayed seeds, trees, ... (families/)
 *     A and C Toeplitz           B is Toeplitz with first column w = C^-1 (A e_0); |B[t,:]|^2 = w_0^2 + ... + w_t^2
 *                                (McKenna 2024, Proposition D.1), O(n b) or O(n log n)
 *     A named, C^-1 of b bands   covariance of (past seeds, momentum, sum), O(n b)
 *     A named, C Toeplitz        with normalized columns or under a schedule O(n log n) to O(n log^2 n); with both and momentum,
 *                                or with decay, O(n b) or O(n^2): all columns together
 *     A named, C of b bands      covariance of (past outputs, momentum, sum), O(n b^2) against O(n^2 b) in McKenna 2024
 *     A named, rows of W W'      O(n^2) time, O(n) memory
 *     A or C a matrix            whole matrices with BLAS
 *     otherwise                  impulse responses (McKenna 2024, Algorithm 5), O(n^2) time, O(n) memory
 */
#include "error/error.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "base/threads.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

error_drive error_drive_at(const dpmf_workload *a, int64_t t) {
    workload_recursion_form r = workload_recursion(a, t);
    return (error_drive){r.momentum, r.keep, r.rate * r.from_m * r.momentum, r.rate * (r.from_m + r.from_y)};
}

void error_moments_advance(const error_drive *d, double yy, double ym, double yo, error_moments *v) {
    error_moments u = *v;
    v->mm = d->beta * d->beta * u.mm + 2 * d->beta * ym + yy;
    v->mo = d->beta * (d->keep * u.mo + d->p * u.mm + d->g * ym) + d->keep * yo + d->p * ym + d->g * yy;
    v->oo = d->keep * d->keep * u.oo + d->p * d->p * u.mm + d->g * d->g * yy + 2 * d->keep * d->p * u.mo +
            2 * d->keep * d->g * yo + 2 * d->p * d->g * ym;
}

int error_question_is_plain(const error_question *q) {
    return q->stamps == 1 && q->scale == NULL;
}

/*
 * Error of a banded C or C^-1 under a named workload, by propagating a covariance instead of forming B.
 *
 * The noise y_t = (C^-1 z)_t drives the workload's recursion (error/error.h). Given Var y_t and its covariances with m_{t-1}
 * and o_{t-1}, one step updates the 2 x 2 covariance of (m, o). What differs is the memory of y:
 *
 *     C^-1 has b bands: y_t = sum_j f_j z_{t-j}. Keep Cov(z_{t-j}, m) and Cov(z_{t-j}, o): O(b) a step.
 *     C has b bands:    y_t = (z_t - sum_{j>=1} C[t,t-j] y_{t-j}) / C[t,t]. Keep the covariance of the last b-1 outputs
 *                       with each other and with m, o: O(b^2) a step.
 */
static dpmf_status error_filtered(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                  double *per_step) {
    int64_t n = s->steps, b = strategy_inverse_bands(s);
    double *f = NULL, *zm = NULL, *zo = NULL; /* zm[j] = Cov(z_{t-j}, m_{t-1}) */
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(b, "a row of C^-1", &f));
    TRY_DONE(base_alloc_doubles(b + 1, "covariances", &zm));
    TRY_DONE(base_alloc_doubles(b + 1, "covariances", &zo));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 8 * b));
        error_drive d = error_drive_at(a, t);
        double yy = 0, ym = 0, yo = 0;
        s->ops->inverse_row(s, t, f);
        for (int64_t j = 0; j < b; j++) {
            yy += f[j] * f[j];
            ym += f[j] * zm[j];
            yo += f[j] * zo[j];
        }
        error_moments_advance(&d, yy, ym, yo, &v);
        per_step[t] = v.oo;
        for (int64_t j = b - 1; j >= 0; j--) { /* the lag of every seed grows by one */
            zo[j + 1] = d.keep * zo[j] + d.p * zm[j] + d.g * f[j];
            zm[j + 1] = d.beta * zm[j] + f[j];
        }
        zm[0] = zo[0] = 0;
    }
done:
    base_free(f);
    base_free(zm);
    base_free(zo);
    return status;
}

/* The last `slots` outputs in a ring: output u is in slot u mod slots. */
typedef struct outputs {
    int64_t slots;
    double *yy;   /* slots x slots: covariances among them */
    double *ym;   /* with m_{t-1} */
    double *yo;   /* with o_{t-1} */
    double *lead; /* y_t = sum over slots lead[i] y_(i) + z_t / C[t,t] */
    double *now;  /* Cov(y_t, y_(i)) */
    double *row;
} outputs;

static dpmf_status outputs_create(int64_t bands, outputs *o) {
    o->slots = bands - 1;
    return BASE_ARRAYS("covariances", {&o->yy, o->slots * o->slots}, {&o->ym, o->slots}, {&o->yo, o->slots},
                       {&o->lead, o->slots}, {&o->now, o->slots}, {&o->row, bands});
}

static void outputs_step(outputs *o, int64_t t, const error_drive *d, error_moments *v) {
    int64_t slots = o->slots;
    double seed = 1 / o->row[0], yy = seed * seed, ym = 0, yo = 0;
    for (int64_t i = 0; i < slots; i++)
        o->lead[i] = 0;
    for (int64_t j = 1; j <= slots && j <= t; j++)
        o->lead[(t - j) % slots] = -o->row[j] * seed;
    for (int64_t i = 0; i < slots; i++) {
        const double *past = o->yy + i * slots;
        double sum = 0;
        for (int64_t k = 0; k < slots; k++)
            sum += past[k] * o->lead[k];
        o->now[i] = sum;
        yy += o->lead[i] * sum;
        ym += o->lead[i] * o->ym[i];
        yo += o->lead[i] * o->yo[i];
    }
    double new_ym = d->beta * ym + yy, new_yo = d->keep * yo + d->p * ym + d->g * yy;
    error_moments_advance(d, yy, ym, yo, v);
    for (int64_t i = 0; i < slots; i++) {
        o->yo[i] = d->keep * o->yo[i] + d->p * o->ym[i] + d->g * o->now[i];
        o->ym[i] = d->beta * o->ym[i] + o->now[i];
    }
    if (slots == 0) return;
    int64_t slot = t % slots; /* y_t takes the place of the oldest */
    for (int64_t i = 0; i < slots; i++)
        o->yy[slot * slots + i] = o->yy[i * slots + slot] = o->now[i];
    o->yy[slot * slots + slot] = yy;
    o->ym[slot] = new_ym;
    o->yo[slot] = new_yo;
}

dpmf_status error_fed_back(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps, bands = strategy_bands(s);
    outputs o = {0};
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(outputs_create(bands, &o));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 2 * bands * bands));
        error_drive d = error_drive_at(a, t);
        s->ops->row(s, t, o.row);
        outputs_step(&o, t, &d, &v);
        per_step[t] = v.oo;
    }
done:
    base_free(o.yy);
    return status;
}

/* Where rows of W W' are cheap: carries Cov(m_{t-1}, y_u) and Cov(o_{t-1}, y_u) for all u >= t. O(n^2) time, O(n) memory. */
static dpmf_status error_covariance(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                    double *per_step) {
    int64_t n = s->steps;
    double *y = NULL, *ym = NULL, *yo = NULL;
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a covariance row", &y));
    TRY_DONE(base_alloc_doubles(n, "covariances", &ym));
    TRY_DONE(base_alloc_doubles(n, "covariances", &yo));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 8 * n));
        error_drive d = error_drive_at(a, t);
        s->ops->covariance(s, t, y);
        error_moments_advance(&d, y[0], ym[t], yo[t], &v);
        per_step[t] = v.oo;
        for (int64_t u = t + 1; u < n; u++) {
            yo[u] = d.keep * yo[u] + d.p * ym[u] + d.g * y[u - t];
            ym[u] = d.beta * ym[u] + y[u - t];
        }
    }
done:
    base_free(y);
    base_free(ym);
    base_free(yo);
    return status;
}

/*
 * Error by impulse responses: column j of B is A (C^-1 e_j), run as a stream for a block of seeds at once and squared
 * into the error of each step (McKenna 2024, Algorithm 5). O(n^2) time, O(n) memory a thread. Blocks are added up in
 * their order, and not by the threads that made them, so that the answer does not depend on the number of threads.
 *
 * Where a matrix is in hand anyway, B = A C^-1 is formed with BLAS instead.
 */

enum { DENSE_STEPS_MAX = 16384 }; /* B of 2 GB and a few minutes */
enum { BLOCK = 64 }; /* seeds at once: long enough for vector units, short enough for the first-level cache */

typedef struct scratch {
    double *seed, *row, *answer; /* BLOCK each */
    double *strategy_state, *workload_state;
    double *squares; /* of the block, per step */
} scratch;

typedef struct job {
    const dpmf_workload *a;
    const dpmf_strategy *s;
    int64_t first_block; /* of this wave */
    scratch *scratch;    /* one for each item of a wave */
} job;

static int streams(const dpmf_strategy *s) {
    return !strategy_can(s, STRATEGY_CAN_INVERSE_PART);
}

static dpmf_status scratch_create(const dpmf_workload *a, const dpmf_strategy *s, scratch *x) {
    int64_t buffers = streams(s) ? s->ops->buffers(s) : 0;
    TRY(base_alloc_doubles(BLOCK, "a block", &x->seed));
    TRY(base_alloc_doubles(BLOCK, "a block", &x->row));
    TRY(base_alloc_doubles(BLOCK, "a block", &x->answer));
    TRY(base_alloc_doubles(buffers * BLOCK, "the strategy's state", &x->strategy_state));
    TRY(base_alloc_doubles(workload_buffers(a) * BLOCK, "the workload's state", &x->workload_state));
    return base_alloc_doubles(s->steps, "the errors of a block", &x->squares);
}

/* Row t of the impulse responses of seeds first .. first+count. */
static void inverse_block_row(const dpmf_strategy *s, int64_t t, int64_t first, int64_t count, scratch *x) {
    int64_t started = t - first + 1 < count ? t - first + 1 : count;
    if (!streams(s)) {
        s->ops->inverse_part(s, t, first, started, x->row);
        for (int64_t i = started; i < count; i++)
            x->row[i] = 0;
        return;
    }
    memset(x->seed, 0, (size_t)count * sizeof *x->seed);
    if (t - first < count) x->seed[t - first] = 1;
    s->ops->step(s, t, count, x->seed, x->strategy_state, x->row);
}

static dpmf_status run_block(void *context, int64_t item, int worker) {
    const job *j = context;
    scratch *x = &j->scratch[item];
    int64_t n = j->s->steps, first = (j->first_block + item) * BLOCK;
    int64_t count = n - first < BLOCK ? n - first : BLOCK;
    (void)worker;
    memset(x->workload_state, 0, (size_t)(workload_buffers(j->a) * BLOCK) * sizeof(double));
    if (streams(j->s)) memset(x->strategy_state, 0, (size_t)(j->s->ops->buffers(j->s) * BLOCK) * sizeof(double));
    for (int64_t t = first; t < n; t++) {
        inverse_block_row(j->s, t, first, count, x);
        workload_step(j->a, t, count, x->row, x->workload_state, x->answer);
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            sum += x->answer[i] * x->answer[i];
        x->squares[t] = sum;
    }
    return DPMF_OK;
}

static dpmf_status error_columns(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                 double *per_step) {
    int64_t n = s->steps, blocks = (n + BLOCK - 1) / BLOCK;
    base_pool *pool = NULL;
    job j = {.a = a, .s = s};
    int width = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_pool_create(run == NULL ? 0 : run->threads, &pool));
    width = base_pool_threads(pool);
    TRY_DONE(base_alloc(width, sizeof *j.scratch, "scratch", (void **)&j.scratch));
    for (int i = 0; i < width; i++)
        TRY_DONE(scratch_create(a, s, &j.scratch[i]));
    memset(per_step, 0, (size_t)n * sizeof *per_step);
    for (j.first_block = 0; j.first_block < blocks; j.first_block += width) {
        int64_t items = blocks - j.first_block < width ? blocks - j.first_block : width;
        double left = (double)(blocks - j.first_block) / (double)blocks;
        TRY_DONE(base_progress(run, "error", 1 - left * left)); /* late columns are short */
        TRY_DONE(base_pool_run(pool, items, run_block, &j));
        for (int64_t i = 0; i < items; i++)
            for (int64_t t = (j.first_block + i) * BLOCK; t < n; t++)
                per_step[t] += j.scratch[i].squares[t];
    }
done:
    for (int i = 0; j.scratch != NULL && i < width; i++) {
        scratch *x = &j.scratch[i];
        base_free(x->seed);
        base_free(x->row);
        base_free(x->answer);
        base_free(x->strategy_state);
        base_free(x->workload_state);
        base_free(x->squares);
    }
    base_free(j.scratch);
    base_pool_free(pool);
    return status;
}

/* B = A W in place, row by row: the workload's stream over all columns at once. */
static dpmf_status apply_rows(const dpmf_workload *a, int64_t rows, double *b) {
    int64_t buffers = workload_buffers(a);
    double *state = NULL;
    TRY(base_alloc_doubles((buffers + 1) * rows, "the workload's state", &state));
    double *input = state + buffers * rows;
    for (int64_t t = 0; t < a->steps; t++) {
        memcpy(input, b + t * rows, (size_t)rows * sizeof *b);
        workload_step(a, t, rows, input, state, b + t * rows);
    }
    base_free(state);
    return DPMF_OK;
}

static dpmf_status check_dense_steps(const dpmf_workload *a, const dpmf_strategy *s) {
    if (s->steps <= DENSE_STEPS_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED, "family %s with workload %s: %lld steps, accepted up to %d (it is dense)",
                     s->family, a->text, (long long)s->steps, DENSE_STEPS_MAX);
}

dpmf_status error_dense(const dpmf_workload *a, const dpmf_strategy *s, const double *matrix, const dpmf_run *run,
                        double *per_step) {
    int64_t n = s->steps, rows = strategy_rows(s);
    double *b = NULL;
    dpmf_status status = DPMF_OK;
    TRY(check_dense_steps(a, s));
    TRY_DONE(base_alloc_doubles(n * rows, "the matrix B", &b));
    TRY_DONE(base_progress(run, "error", 0));
    if (matrix != NULL) {
        memcpy(b, matrix, (size_t)(n * n) * sizeof *b);
        TRY_DONE(base_lower_invert(n, b));
    } else {
        TRY_DONE(strategy_left_inverse(s, b));
    }
    TRY_DONE(base_progress(run, "error", 0.5));
    int lower = matrix != NULL || strategy_can(s, STRATEGY_CAN_ROW);
    if (a->form == WORKLOAD_DENSE && lower)
        base_lower_multiply(n, a->matrix, b);
    else
        TRY_DONE(apply_rows(a, rows, b));
    for (int64_t t = 0; t < n; t++)
        per_step[t] = base_dot(rows, b + t * rows, b + t * rows);
done:
    base_free(b);
    return status;
}

/* w = A (C^-1 e_0) where the inverse series is held, C^-1 (A e_0) otherwise: the same, all three being Toeplitz. */
static dpmf_status toeplitz_response(const dpmf_workload *a, const dpmf_strategy *s, double *w) {
    int64_t n = s->steps, count = 0, inverse_count = 0;
    const double *c = NULL, *inverse = NULL;
    if (!strategy_toeplitz(s, &count, &c, &inverse_count, &inverse))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "the strategy is not Toeplitz");
    memset(w, 0, (size_t)n * sizeof *w);
    if (inverse_count > 0) {
        memcpy(w, inverse, (size_t)inverse_count * sizeof *w);
        return dpmf_workload_apply(a, w, w);
    }
    w[0] = 1;
    TRY(dpmf_workload_apply(a, w, w));
    base_toeplitz_solve_banded(n, count, c, w, w);
    return DPMF_OK;
}

/* Square, and with a step that takes one seed: impulses can be sent through it. */
static int has_impulses(const dpmf_strategy *s) {
    return (s->ops->rows == NULL || strategy_rows(s) == s->steps) && strategy_can(s, STRATEGY_CAN_STEP);
}

/* The coefficients of a Toeplitz C, whether those of its inverse are held or not. */
static int toeplitz_series(const dpmf_strategy *s, int64_t *count, const double **c) {
    int64_t inverse_count = 0;
    const double *inverse = NULL;
    return strategy_toeplitz(s, count, c, &inverse_count, &inverse) && *c != NULL;
}

/* The coefficients of a Toeplitz C of bands. */
static int toeplitz_bands(const dpmf_strategy *s, int64_t *count, const double **c) {
    int64_t inverse_count = 0;
    const double *inverse = NULL;
    return strategy_toeplitz(s, count, c, &inverse_count, &inverse) && *c != NULL && inverse_count == 0;
}

/* Near linear by error/toeplitz.c? Where A is Toeplitz too, and C has few bands, its columns are cheaper. */
static int has_long_schedule(const dpmf_workload *a, const double *scale, int64_t count) {
    enum { LONG = 512 };
    if (a->decay != 0 || a->steps < LONG || (scale != NULL && a->momentum > 0)) return 0;
    return !a->toeplitz || (scale != NULL && count > LONG);
}

/* Are all columns together, at one operation each, cheaper than b^2 per step? `scaled`: the strategy inside a normalization. */
static int columns_are_cheap(const dpmf_workload *a, const dpmf_strategy *scaled, int64_t *count, const double **c) {
    if (!toeplitz_bands(scaled, count, c)) return 0;
    double rows = a->toeplitz ? (double)*count : (double)a->steps;
    return rows <= (double)*count * (double)*count;
}

static dpmf_status named_route(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    const double *scale = NULL, *c = NULL;
    int64_t count = 0;
    const dpmf_strategy *scaled = strategy_scaled(s, &scale);
    if (strategy_can(s, STRATEGY_CAN_COVARIANCE)) return error_covariance(a, s, run, squares);
    if (strategy_inverse_bands(s) < s->steps) return error_filtered(a, s, run, squares);
    if (toeplitz_series(scaled, &count, &c) && has_long_schedule(a, scale, count)) {
        int done = 0;
        TRY(error_schedule(a, count, c, scale, run, &done, squares));
        if (done) return DPMF_OK;
    }
    if (columns_are_cheap(a, scaled, &count, &c)) return error_toeplitz_columns(a, count, c, scale, run, squares);
    /* Few enough bands of C for b^2 a step. */
    if (strategy_bands(s) < s->steps && strategy_bands(s) <= 4096) return error_fed_back(a, s, run, squares);
    return has_impulses(s) ? error_columns(a, s, run, squares) : error_dense(a, s, NULL, run, squares);
}

/* The family's own way, which is for one block of repeated and normalized strategies. */
static dpmf_status ask_family(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, int *done,
                              double *squares) {
    error_question q = {.a = a, .run = run};
    const dpmf_strategy *block = strategy_block(strategy_scaled(s, &q.scale), &q.stamps);
    *done = 0;
    return block->ops->squared_errors == NULL ? DPMF_OK : block->ops->squared_errors(block, &q, done, squares);
}

/* B = S W for any S, W whole: the rows of a step are added up. */
static dpmf_status error_rows(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    const int64_t n = s->steps, rows = strategy_rows(s);
    const double *matrix = strategy_matrix(s);
    double *w = NULL, *answer = NULL;
    dpmf_status status = DPMF_OK;
    TRY(check_dense_steps(a, s));
    TRY_DONE(base_alloc_doubles(n * rows, "the matrix W", &w));
    TRY_DONE(base_alloc_doubles(rows, "a row of B", &answer));
    if (matrix != NULL) {
        memcpy(w, matrix, (size_t)(n * n) * sizeof *w);
        TRY_DONE(base_lower_invert(n, w));
    } else {
        TRY_DONE(strategy_left_inverse(s, w));
    }
    for (int64_t t = 0; t < n; t++) {
        squares[t] = 0;
        TRY_DONE(error_report(run, t, n, (a->first[t + 1] - a->first[t] + 1) * t * rows));
        for (int64_t r = a->first[t]; r < a->first[t + 1]; r++) {
            memset(answer, 0, (size_t)rows * sizeof *answer);
            for (int64_t u = 0; u <= t; u++)
                for (int64_t j = 0; j < rows && a->matrix[r * n + u] != 0; j++)
                    answer[j] += a->matrix[r * n + u] * w[u * rows + j];
            squares[t] += base_dot(rows, answer, answer);
        }
    }
done:
    base_free(w);
    base_free(answer);
    return status;
}

static dpmf_status choose_route(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares);

/* The parts of a sum, each by its own route. */
static dpmf_status error_sum(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    double *part = NULL;
    TRY(base_alloc_doubles(s->steps, "the errors of a part", &part));
    memset(squares, 0, (size_t)s->steps * sizeof *squares);
    dpmf_status status = DPMF_OK;
    for (int i = 0; i < a->parts && status == DPMF_OK; i++) {
        status = choose_route(a->part[i], s, run, part);
        for (int64_t t = 0; t < s->steps && status == DPMF_OK; t++)
            squares[t] += a->weight[i] * part[t];
    }
    base_free(part);
    return status;
}

static dpmf_status choose_route(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *squares) {
    int done = 0;
    if (a->form == WORKLOAD_SUM) return error_sum(a, s, run, squares);
    if (a->form == WORKLOAD_ROWS) return error_rows(a, s, run, squares);
    TRY(ask_family(a, s, run, &done, squares));
    if (done) return DPMF_OK;
    if (a->toeplitz && strategy_can(s, STRATEGY_CAN_TOEPLITZ)) {
        base_running sum = {0};
        TRY(toeplitz_response(a, s, squares));
        for (int64_t t = 0; t < s->steps; t++) {
            base_running_add(&sum, squares[t] * squares[t]);
            squares[t] = base_running_value(&sum);
        }
        return DPMF_OK;
    }
    if (a->form == WORKLOAD_DENSE || strategy_matrix(s) != NULL || (a->form == WORKLOAD_OPERATOR && !has_impulses(s)))
        return error_dense(a, s, strategy_matrix(s), run, squares);
    if (a->form == WORKLOAD_NAMED) return named_route(a, s, run, squares);
    return error_columns(a, s, run, squares);
}

dpmf_status dpmf_error_compute(const dpmf_workload *workload, const dpmf_strategy *strategy, const dpmf_run *run,
                               double *per_step) {
    double *squares = NULL;
    dpmf_status status = DPMF_OK;
    if (workload->steps != strategy->steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "the workload has %lld steps, the strategy %lld: they must agree",
                         (long long)workload->steps, (long long)strategy->steps);
    TRY(strategy_need_inverse(strategy));
    TRY(base_alloc_doubles(strategy->steps, "the errors", &squares));
    TRY_DONE(choose_route(workload, strategy, run, squares));
    for (int64_t t = 0; t < strategy->steps; t++)
        if (!isfinite(squares[t]) || squares[t] < 0) {
            status = base_fail(DPMF_ERROR_NUMERICAL, "the error of step %lld is not finite: the noise diverges",
                               (long long)t);
            goto done;
        }
    for (int64_t t = 0; t < strategy->steps; t++)
        per_step[t] = sqrt(squares[t]);
done:
    base_free(squares);
    return status;
}

dpmf_status dpmf_error_range(const dpmf_workload *workload, const dpmf_strategy *strategy, int64_t first, int64_t count,
                             const dpmf_run *run, double *per_step) {
    double *all = NULL;
    dpmf_status status = DPMF_OK;
    if (first < 0 || count < 0 || count > strategy->steps || first > strategy->steps - count)
        return base_fail(DPMF_ERROR_ARGUMENT, "errors of %lld steps from %lld on, accepted: within the %lld steps",
                         (long long)count, (long long)first, (long long)strategy->steps);
    if (strategy->ops->squared_error_range != NULL && workload->steps == strategy->steps &&
        strategy->ops->squared_error_range(strategy, workload, first, count, per_step)) {
        for (int64_t t = 0; t < count; t++)
            per_step[t] = sqrt(per_step[t]);
        return DPMF_OK;
    }
    TRY_DONE(base_alloc_doubles(strategy->steps, "the errors", &all));
    TRY_DONE(dpmf_error_compute(workload, strategy, run, all));
    memcpy(per_step, all + first, (size_t)count * sizeof *per_step);
done:
    base_free(all);
    return status;
}

int error_sums(const dpmf_workload *a, const dpmf_strategy *s, double *total, double *largest) {
    return s->ops->squared_error_sums != NULL && a->steps == s->steps &&
           s->ops->squared_error_sums(s, a, total, largest);
}

/*
 * Errors one step after another, for a stream that is running. Most families' are all computed at once and held. Those of
 * prefix sums without a horizon are computed a stretch at a time, since there may be 2^40 of them.
 */

enum { STRETCH = 4096 };

struct error_lookup {
    const dpmf_workload *workload;
    const dpmf_strategy *strategy;
    int64_t first, count; /* held */
    double *values;
};

dpmf_status error_lookup_create(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run,
                                error_lookup **out) {
    error_lookup *l = NULL;
    dpmf_status status = DPMF_OK;
    const int by_stretch =
        s->steps > STRETCH && s->ops->squared_error_range != NULL && s->ops->squared_error_range(s, a, 0, 0, NULL);
    TRY_DONE(base_alloc(1, sizeof *l, "error bars", (void **)&l));
    *l = (error_lookup){.workload = a, .strategy = s, .count = by_stretch ? STRETCH : s->steps};
    TRY_DONE(base_alloc_doubles(l->count, "error bars", &l->values));
    if (by_stretch)
        TRY_DONE(dpmf_error_range(a, s, 0, l->count, run, l->values));
    else
        TRY_DONE(dpmf_error_compute(a, s, run, l->values));
    *out = l;
    l = NULL;
done:
    error_lookup_free(l);
    return status;
}

/* The next stretch needs no memory and cannot fail: its steps are within the strategy's. */
double error_lookup_at(error_lookup *l, int64_t t) {
    assert(t >= 0 && t < l->strategy->steps);
    if (t < l->first || t >= l->first + l->count) {
        l->first = t - t % STRETCH;
        l->count = l->strategy->steps - l->first < STRETCH ? l->strategy->steps - l->first : STRETCH;
        l->strategy->ops->squared_error_range(l->strategy, l->workload, l->first, l->count, l->values);
        for (int64_t i = 0; i < l->count; i++)
            l->values[i] = sqrt(l->values[i]);
    }
    return l->values[t - l->first];
}

void error_lookup_free(error_lookup *l) {
    if (l == NULL) return;
    base_free(l->values);
    base_free(l);
}
