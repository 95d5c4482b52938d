/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workload A: what the user wants accurate.
 *
 * Named workloads are the recursion (Pillutla et al. 2025, Eq. 3.4; Denisov et al. 2022, Section 4)
 *
 *     m_t = beta m_{t-1} + g_t
 *     u_t = m_t                      heavy ball, or
 *     u_t = g_t + beta m_t           Nesterov, as deep-learning libraries write it
 *     o_t = (1 - eta_t lambda) o_{t-1} + eta_t u_t
 *
 * so A is applied in O(n) with two numbers of state, and with N the down-shift and k_t = 1 - eta_t lambda
 *
 *     A^-1 = R^-1 (I - beta N) diag(1/eta) (I - diag(k) N),    R = I or (1 + beta) I - beta N.
 *
 * R commutes with I - beta N (both are polynomials in N), which is what puts it on the outside. A dense matrix or a
 * user's operator is accepted where no such structure is known.
 */
#include "workload/workload.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/status.h"
#include "base/sum.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

dpmf_workload_options dpmf_workload_options_defaults(void) {
    return (dpmf_workload_options){0};
}

dpmf_workload *workload_retain(const dpmf_workload *workload) {
    dpmf_workload *w = (dpmf_workload *)workload; /* only the count changes */
    __atomic_add_fetch(&w->references, 1, __ATOMIC_RELAXED);
    return w;
}

static void free_stack(dpmf_workload *w) {
    for (int i = 0; i < w->parts; i++)
        dpmf_workload_free(w->part[i]);
    base_free(w->part);
    base_free(w->weight);
    base_free(w->first);
}

void dpmf_workload_free(dpmf_workload *workload) {
    if (workload == NULL || __atomic_sub_fetch(&workload->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    base_free(workload->text);
    base_free(workload->schedule);
    base_free(workload->learning_rate);
    base_free(workload->matrix);
    workload_operator_free(workload->operator_);
    free_stack(workload);
    base_free(workload);
}

/* A double cannot tell n beyond 2^53 from its neighbours; no algorithm here reaches it anyway. */
static dpmf_status check_steps(int64_t steps) {
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    return DPMF_OK;
}

static dpmf_status new_workload(int64_t steps, workload_form form, const char *text, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    TRY(check_steps(steps));
    TRY(base_alloc(1, sizeof *w, "a workload", (void **)&w));
    w->references = 1;
    w->form = form;
    w->steps = steps;
    w->width = form != WORKLOAD_SUM; /* a sum adds those of its parts */
    dpmf_status status = base_copy_text(text, &w->text);
    if (status != DPMF_OK) {
        base_free(w);
        return status;
    }
    *out = w;
    return DPMF_OK;
}

static dpmf_status check_named(int64_t steps, const dpmf_workload_options *o) {
    if (!(o->momentum >= 0 && o->momentum < 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "momentum = %g, accepted 0 <= beta < 1", o->momentum);
    if (!(o->decay >= 0 && o->decay <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "decay = %g, accepted 0 <= lambda <= 1", o->decay);
    if (o->nesterov != 0 && o->nesterov != 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "nesterov = %d, accepted 0 or 1", o->nesterov);
    for (int64_t t = 0; o->learning_rate != NULL && t < steps; t++) {
        double eta = o->learning_rate[t];
        /* 1/eta enters A^-1: beyond these bounds its products would leave the range of a double */
        if (!(eta >= 1e-100 && eta <= 1e100))
            return base_fail(DPMF_ERROR_ARGUMENT, "learning rate of step %" PRId64 " = %g, accepted 1e-100 to 1e100", t,
                             eta);
        if (!(eta * o->decay <= 1))
            return base_fail(DPMF_ERROR_ARGUMENT, "learning rate x decay at step %" PRId64 " = %g, accepted up to 1", t,
                             eta * o->decay);
    }
    return DPMF_OK;
}

dpmf_status workload_create_named(int64_t steps, const dpmf_workload_options *options, const char *schedule,
                                  dpmf_workload **out) {
    dpmf_workload_options o = options == NULL ? dpmf_workload_options_defaults() : *options;
    dpmf_workload *w = NULL;
    base_writer text = {0};
    dpmf_status status = DPMF_OK;
    TRY(check_steps(steps));
    TRY(check_named(steps, &o));
    char number[32];
    if (o.momentum > 0) {
        base_format_double(o.momentum, number);
        base_write_raw(&text, o.nesterov ? ",nesterov:" : ",momentum:");
        base_write_raw(&text, number);
    }
    int is_mean = schedule != NULL && strcmp(schedule, WORKLOAD_MEAN) == 0;
    if (o.decay > 0 && !is_mean) {
        base_format_double(o.decay, number);
        base_write_raw(&text, ",decay:");
        base_write_raw(&text, number);
    }
    if (o.learning_rate != NULL) {
        base_write_raw(&text, ",");
        base_write_raw(&text, schedule == NULL ? "lr" : schedule);
    }
    if (text.length == 0) base_write_raw(&text, ",prefix");
    TRY_DONE(text.status);
    TRY_DONE(new_workload(steps, WORKLOAD_NAMED, text.text + 1, &w));
    w->momentum = o.momentum;
    w->nesterov = o.nesterov && o.momentum > 0;
    w->decay = o.decay;
    w->toeplitz = 1;
    for (int64_t t = 1; o.learning_rate != NULL && t < steps; t++)
        if (o.learning_rate[t] != o.learning_rate[0]) w->toeplitz = 0;
    if (o.learning_rate != NULL) {
        TRY_DONE(base_alloc_doubles(steps, "the learning rates", &w->learning_rate));
        memcpy(w->learning_rate, o.learning_rate, (size_t)steps * sizeof *w->learning_rate);
        TRY_DONE(base_copy_text(schedule == NULL ? "lr" : schedule, &w->schedule));
    }
    *out = w;
    w = NULL;
done:
    dpmf_workload_free(w);
    base_writer_free(&text);
    return status;
}

/* Lower triangular with a diagonal, so that it has an inverse? */
static int is_lower(int64_t n, const double *a) {
    for (int64_t t = 0; t < n; t++) {
        if (a[t * n + t] == 0) return 0;
        for (int64_t u = t + 1; u < n; u++)
            if (a[t * n + u] != 0) return 0;
    }
    return 1;
}

/* The step of a row's last non-zero column. */
static int64_t release_of(int64_t steps, const double *row) {
    int64_t t = steps - 1;
    while (t >= 0 && row[t] == 0)
        t--;
    return t;
}

static dpmf_status check_rows(int64_t steps, int64_t rows, const double *matrix) {
    if (rows < 1 || rows > ((int64_t)1 << 31) || rows > INT64_MAX / 8 / steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "workload: a matrix of %" PRId64 " rows, accepted 1 to 2^31", rows);
    TRY(base_check_finite(rows * steps, matrix, "workload"));
    for (int64_t r = 0; r < rows; r++)
        if (release_of(steps, matrix + r * steps) < 0)
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "workload: row %" PRId64 " of the matrix is zero, accepted: rows with a "
                             "number that is not 0",
                             r);
    return DPMF_OK;
}

static dpmf_status fill_rows(int64_t rows, const double *matrix, dpmf_workload *w) {
    const int64_t n = w->steps;
    TRY(check_rows(n, rows, matrix));
    TRY(base_alloc_doubles(rows * n, "the workload matrix", &w->matrix));
    TRY(base_alloc(n + 1, sizeof *w->first, "the rows of each step", (void **)&w->first));
    w->rows = rows;
    for (int64_t r = 0; r < rows; r++)
        w->first[release_of(n, matrix + r * n) + 1]++;
    w->width = 1;
    for (int64_t t = 0; t < n; t++) {
        w->width = w->first[t + 1] > w->width ? w->first[t + 1] : w->width;
        w->first[t + 1] += w->first[t];
    }
    /* Rows of one step keep their order; first[t] moves on to first[t + 1] and is put back. */
    for (int64_t r = 0; r < rows; r++) {
        const int64_t t = release_of(n, matrix + r * n);
        memcpy(w->matrix + w->first[t]++ * n, matrix + r * n, (size_t)n * sizeof *matrix);
    }
    for (int64_t t = n; t > 0; t--)
        w->first[t] = w->first[t - 1];
    w->first[0] = 0;
    return DPMF_OK;
}

dpmf_status workload_check_weight(double weight) {
    if (weight >= 1e-100 && weight <= 1e100) return DPMF_OK;
    return base_fail(DPMF_ERROR_ARGUMENT, "workload: a sum has the weight %g, accepted 1e-100 to 1e100", weight);
}

static dpmf_status write_sum_text(const dpmf_workload *w, char **out) {
    base_writer text = {0};
    for (int i = 0; i < w->parts; i++) {
        char number[32];
        base_format_double(w->weight[i], number);
        if (i > 0) base_write_raw(&text, " + ");
        if (w->weight[i] != 1) {
            base_write_raw(&text, number);
            base_write_raw(&text, "*");
        }
        base_write_raw(&text, w->part[i]->text);
    }
    dpmf_status status = text.status;
    if (status == DPMF_OK) status = base_copy_text(text.text, out);
    base_writer_free(&text);
    return status;
}

static dpmf_status fill_sum(int parts, const dpmf_workload *const *part, const double *weights, dpmf_workload *w) {
    char *text = NULL;
    if (parts < 1 || parts > WORKLOAD_PARTS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "workload: a sum of %d parts, accepted 1 to %d", parts,
                         WORKLOAD_PARTS_MAX);
    TRY(base_alloc(parts, sizeof(dpmf_workload *), "the parts of a workload", (void **)&w->part));
    TRY(base_alloc_doubles(parts, "the weights of a workload", &w->weight));
    for (int i = 0; i < parts; i++) {
        if (part[i] == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "workload: part %d of a sum is NULL", i);
        if (part[i]->steps != w->steps || part[i]->form == WORKLOAD_SUM)
            return base_fail(DPMF_ERROR_ARGUMENT,
                             "workload: part %d of a sum has %" PRId64 " steps%s, accepted %" PRId64
                             " and no sum in a sum",
                             i, part[i]->steps, part[i]->form == WORKLOAD_SUM ? " and is a sum" : "", w->steps);
        w->weight[i] = weights == NULL ? 1 : weights[i];
        TRY(workload_check_weight(w->weight[i]));
        w->part[w->parts++] = workload_retain(part[i]);
        w->width += part[i]->width;
    }
    TRY(write_sum_text(w, &text));
    base_free(w->text);
    w->text = text;
    return DPMF_OK;
}

static dpmf_status create_stack(int64_t steps, const dpmf_workload_options *o, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    TRY(new_workload(steps, o->matrix != NULL ? WORKLOAD_ROWS : WORKLOAD_SUM, "rows", &w));
    const dpmf_status status =
        o->matrix != NULL ? fill_rows(o->rows, o->matrix, w) : fill_sum(o->parts, o->part, o->part_weights, w);
    if (status == DPMF_OK)
        *out = w;
    else
        dpmf_workload_free(w);
    return status;
}

dpmf_status dpmf_workload_create(int64_t steps, const dpmf_workload_options *options, dpmf_workload **out) {
    if (options == NULL || (options->matrix == NULL && options->part == NULL))
        return workload_create_named(steps, options, NULL, out);
    TRY(check_steps(steps));
    if (options->momentum != 0 || options->decay != 0 || options->learning_rate != NULL ||
        (options->matrix != NULL && options->part != NULL))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "workload: a matrix, parts, or momentum, decay and learning rates, accepted: one");
    if (options->matrix != NULL && options->rows == steps && is_lower(steps, options->matrix))
        return dpmf_workload_create_dense(steps, options->matrix, out);
    if (options->part != NULL && options->parts == 1 && options->part[0] != NULL && options->part[0]->steps == steps &&
        (options->part_weights == NULL || options->part_weights[0] == 1)) {
        *out = workload_retain(options->part[0]); /* a stack of one is that one */
        return DPMF_OK;
    }
    return create_stack(steps, options, out);
}

static int is_toeplitz_matrix(int64_t n, const double *a) {
    for (int64_t t = 1; t < n; t++)
        for (int64_t u = 1; u <= t; u++)
            if (a[t * n + u] != a[(t - 1) * n + u - 1]) return 0;
    return 1;
}

dpmf_status dpmf_workload_create_dense(int64_t steps, const double *matrix, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    dpmf_status status = DPMF_OK;
    if (matrix == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the workload matrix is NULL");
    TRY(check_steps(steps));
    TRY(base_lower_check(steps, matrix, "workload", 1));
    TRY_DONE(new_workload(steps, WORKLOAD_DENSE, "file", &w));
    TRY_DONE(base_alloc_square(steps, "the workload matrix", &w->matrix));
    memcpy(w->matrix, matrix, (size_t)(steps * steps) * sizeof *matrix);
    w->toeplitz = is_toeplitz_matrix(steps, matrix);
    *out = w;
    w = NULL;
done:
    dpmf_workload_free(w);
    return status;
}

dpmf_status dpmf_workload_create_operator(int64_t steps, const dpmf_operator *operator_, dpmf_workload **out) {
    dpmf_workload *w = NULL;
    workload_operator *op = NULL;
    TRY(check_steps(steps));
    TRY(workload_operator_create(steps, operator_, &op));
    dpmf_status status = new_workload(steps, WORKLOAD_OPERATOR, "operator", &w);
    if (status != DPMF_OK) {
        op->user.release = NULL; /* the context stays the caller's when the call fails */
        workload_operator_free(op);
        return status;
    }
    w->operator_ = op;
    *out = w;
    return DPMF_OK;
}

static dpmf_status dense_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    double *corner = NULL;
    TRY(base_alloc_square(steps, "a corner of the workload", &corner));
    for (int64_t t = 0; t < steps; t++)
        memcpy(corner + t * steps, w->matrix + t * w->steps, (size_t)steps * sizeof *corner);
    dpmf_workload *head = NULL;
    char *text = NULL;
    dpmf_status status = dpmf_workload_create_dense(steps, corner, &head);
    base_free(corner);
    if (status == DPMF_OK) status = base_copy_text(w->text, &text); /* window:W keeps its text */
    if (status != DPMF_OK) {
        dpmf_workload_free(head);
        return status;
    }
    base_free(head->text);
    head->text = text;
    *out = head;
    return DPMF_OK;
}

/* The rows released in the first steps, without the later columns, which are zeros. */
static dpmf_status rows_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    const int64_t rows = w->first[steps];
    double *corner = NULL;
    if (rows == 0)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "no row of the workload is released in the first %" PRId64 " steps",
                         steps);
    TRY(base_alloc_doubles(rows * steps, "a corner of the workload", &corner));
    for (int64_t r = 0; r < rows; r++)
        memcpy(corner + r * steps, w->matrix + r * w->steps, (size_t)steps * sizeof *corner);
    const dpmf_workload_options o = {.rows = rows, .matrix = corner};
    const dpmf_status status = dpmf_workload_create(steps, &o, out);
    base_free(corner);
    return status;
}

static dpmf_status stack_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    const dpmf_workload *part[WORKLOAD_PARTS_MAX] = {0};
    dpmf_workload *head[WORKLOAD_PARTS_MAX] = {0};
    dpmf_status status = DPMF_OK;
    if (w->form == WORKLOAD_ROWS) return rows_head(w, steps, out);
    for (int i = 0; i < w->parts; i++) {
        TRY_DONE(workload_head(w->part[i], steps, &head[i]));
        part[i] = head[i];
    }
    const dpmf_workload_options o = {.parts = w->parts, .part = part, .part_weights = w->weight};
    TRY_DONE(dpmf_workload_create(steps, &o, out));
done:
    for (int i = 0; i < w->parts; i++)
        dpmf_workload_free(head[i]);
    return status;
}

dpmf_status workload_head(const dpmf_workload *w, int64_t steps, dpmf_workload **out) {
    assert(steps >= 1 && steps <= w->steps);
    if (steps == w->steps) {
        *out = workload_retain(w);
        return DPMF_OK;
    }
    if (w->form == WORKLOAD_DENSE) return dense_head(w, steps, out);
    if (w->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "a user's operator cannot be cut to %" PRId64 " steps", steps);
    if (workload_is_stack(w)) return stack_head(w, steps, out);
    const dpmf_workload_options o = {
        .momentum = w->momentum, .nesterov = w->nesterov, .decay = w->decay, .learning_rate = w->learning_rate};
    return workload_create_named(steps, &o, w->learning_rate == NULL ? NULL : "lr", out);
}

dpmf_workload_info dpmf_workload_get(const dpmf_workload *w) {
    dpmf_workload_info info = {.steps = w->steps, .text = w->text, .is_toeplitz = w->toeplitz};
    info.rows = workload_row_count(w);
    workload_inverse_bands(w, &info.inverse_q_bands, &info.inverse_r_bands);
    return info;
}

static int same_arrays(int64_t n, const double *a, const double *b) {
    if (a == NULL || b == NULL) return a == b;
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

static int same_stack(const dpmf_workload *a, const dpmf_workload *b) {
    if (a->form == WORKLOAD_ROWS)
        return a->rows == b->rows && memcmp(a->matrix, b->matrix, (size_t)(a->rows * a->steps) * sizeof(double)) == 0;
    if (a->parts != b->parts) return 0;
    for (int i = 0; i < a->parts; i++)
        if (a->weight[i] != b->weight[i] || !workload_equal(a->part[i], b->part[i])) return 0;
    return 1;
}

int workload_equal(const dpmf_workload *a, const dpmf_workload *b) {
    if (a == b) return 1;
    if (a->form != b->form || a->steps != b->steps) return 0;
    switch (a->form) {
    case WORKLOAD_NAMED:
        return a->momentum == b->momentum && a->nesterov == b->nesterov && a->decay == b->decay &&
               same_arrays(a->steps, a->learning_rate, b->learning_rate);
    case WORKLOAD_DENSE:
        return same_arrays(a->steps * a->steps, a->matrix, b->matrix);
    case WORKLOAD_OPERATOR:
        return 0;
    case WORKLOAD_ROWS:
    case WORKLOAD_SUM:
        return same_stack(a, b);
    }
    return 0;
}

/*
 * Participation: the steps in which a privacy unit may take part (Choquette-Choo et al. 2023, Section 2; Pillutla et al. 2025,
 * Definitions 3.12 to 3.14). Separation is the difference of step numbers: b = 1 allows neighbours.
 */
/*
 * The kinds, from which parsing, texts, lists and errors come. "minsep" stays the name in mechanism files and JSON, since
 * digests cover it; help and messages write "min-sep", as for samplings. Both are accepted.
 */
typedef struct kind_row {
    const char *name, *typed, *form;
    workload_pattern pattern;
    int plain;  /* 1: takes no K,B */
    int passes; /* 1: k is the number of passes of b steps, no more and no fewer */
} kind_row;

static const kind_row KINDS[] = {
    [DPMF_PARTICIPATION_SINGLE] = {"single", "single", "single", WORKLOAD_FIXED, .plain = 1},
    [DPMF_PARTICIPATION_CYCLIC] = {"cyclic", "cyclic", "cyclic:K,B", WORKLOAD_FIXED, .passes = 1},
    [DPMF_PARTICIPATION_MIN_SEPARATION] = {"minsep", "min-sep", "min-sep:K,B", WORKLOAD_APART, .plain = 0},
    [DPMF_PARTICIPATION_SHUFFLED] = {"shuffled", "shuffled", "shuffled:K,B", WORKLOAD_EPOCHS, .passes = 1},
    [DPMF_PARTICIPATION_FULL] = {"full", "full", "full", WORKLOAD_FIXED, .plain = 1},
    [DPMF_PARTICIPATION_PATTERNS] = {"patterns", "file", "file:PATTERNS", WORKLOAD_LISTED, .plain = 0},
};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

const char *dpmf_participation_form(dpmf_participation_kind kind) {
    return (unsigned)kind < KIND_COUNT ? KINDS[kind].form : NULL;
}

static int is_name(const char *name, const char *text, size_t length) {
    return strlen(name) == length && memcmp(text, name, length) == 0;
}

/* Can k participations, b apart, happen in n steps? If the pattern fixes their number, can no more happen? */
static dpmf_status check_feasible(dpmf_participation_kind kind, int64_t n, int64_t k, int64_t b) {
    const char *name = KINDS[kind].typed;
    if (k < 1 || k > n)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s: k = %" PRId64 ", accepted 1 to %" PRId64 " (the steps)", name, k, n);
    if (b < 1 || b > n)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s: b = %" PRId64 ", accepted 1 to %" PRId64 " (the steps)", name, b, n);
    if (k - 1 > (n - 1) / b)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s:%" PRId64 ",%" PRId64 ": does not fit in %" PRId64
                         " steps, accepted k up to %" PRId64 " for this b",
                         name, k, b, n, (n - 1) / b + 1);
    if (KINDS[kind].passes && (n - 1) / b + 1 > k)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "participation %s:%" PRId64 ",%" PRId64 ": %" PRId64 " steps make %" PRId64
                         " passes of b, accepted (k-1) b < steps <= k b",
                         name, k, b, n, (n - 1) / b + 1);
    return DPMF_OK;
}

dpmf_status dpmf_participation_create(dpmf_participation_kind kind, int64_t steps, int64_t count, int64_t separation,
                                      dpmf_participation **out) {
    if ((int)kind < 0 || (int)kind >= KIND_COUNT)
        return base_fail(DPMF_ERROR_ARGUMENT, "participation kind %d, accepted 0 to %d", (int)kind, KIND_COUNT - 1);
    if (steps < 1 || steps > ((int64_t)1 << 53))
        return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    if (KINDS[kind].pattern == WORKLOAD_LISTED)
        return base_fail(DPMF_ERROR_ARGUMENT, "participation kind %d: patterns come from a file, as text file:PATTERNS",
                         (int)kind);
    const int plain = KINDS[kind].plain;
    if (!plain) TRY(check_feasible(kind, steps, count, separation));
    dpmf_participation *p = NULL;
    TRY(base_alloc(1, sizeof *p, "a participation", (void **)&p));
    p->references = 1;
    p->kind = kind;
    p->pattern = KINDS[kind].pattern;
    p->steps = steps;
    p->covers = 1;
    p->count = kind == DPMF_PARTICIPATION_SINGLE ? 1 : kind == DPMF_PARTICIPATION_FULL ? steps : count;
    p->separation = kind == DPMF_PARTICIPATION_SINGLE ? steps : kind == DPMF_PARTICIPATION_FULL ? 1 : separation;
    if (plain)
        snprintf(p->text, sizeof p->text, "%s", KINDS[kind].name);
    else
        snprintf(p->text, sizeof p->text, "%s:%" PRId64 ",%" PRId64, KINDS[kind].name, count, separation);
    *out = p;
    return DPMF_OK;
}

dpmf_status dpmf_participation_parse(const char *text, int64_t steps, dpmf_participation **out) {
    size_t length = text == NULL ? 0 : strcspn(text, ":");
    char shown[64] = "";
    for (int kind = 0; kind < KIND_COUNT && text != NULL; kind++) {
        const char *typed = KINDS[kind].typed;
        const int plain = KINDS[kind].plain;
        if (!is_name(KINDS[kind].name, text, length) && !is_name(typed, text, length)) continue;
        if (plain && text[length] == '\0')
            return dpmf_participation_create((dpmf_participation_kind)kind, steps, 0, 0, out);
        if (plain || text[length] == '\0') break;
        if (KINDS[kind].pattern == WORKLOAD_LISTED) {
            if (is_name(typed, text, length)) return workload_patterns_load(text + length + 1, steps, out);
            return base_fail(
                DPMF_ERROR_ARGUMENT,
                "participation '%s': this text names patterns that a mechanism file holds; give their file, "
                "file:PATTERNS",
                base_show(text, strlen(text), shown));
        }
        int64_t k = 0, b = 0;
        const char *pair = text + length + 1, *comma = strchr(pair, ',');
        if (comma == NULL || !base_parse_integer(pair, (size_t)(comma - pair), &k) ||
            !base_parse_integer(comma + 1, strlen(comma + 1), &b))
            return base_fail(DPMF_ERROR_ARGUMENT, "participation %s:'%s', accepted %s:K,B with whole numbers", typed,
                             base_show(pair, strlen(pair), shown), typed);
        return dpmf_participation_create((dpmf_participation_kind)kind, steps, k, b, out);
    }
    char forms[160] = "";
    for (int kind = 0, used = 0; kind < KIND_COUNT && used < (int)sizeof forms; kind++)
        used += snprintf(forms + used, sizeof forms - (size_t)used, "%s%s", kind == 0 ? "" : ", ", KINDS[kind].form);
    return base_fail(DPMF_ERROR_ARGUMENT, "participation '%s', accepted: %s",
                     text == NULL ? "NULL" : base_show(text, strlen(text), shown), forms);
}

dpmf_status workload_participation_single(int64_t steps, dpmf_participation **out) {
    return dpmf_participation_create(DPMF_PARTICIPATION_SINGLE, steps, 0, 0, out);
}

dpmf_status workload_participation_part(const dpmf_participation *p, int64_t steps, dpmf_participation **out) {
    const int64_t most = (steps - 1) / p->separation + 1;
    if ((unsigned)p->kind >= KIND_COUNT ||
        (p->pattern != WORKLOAD_FIXED && p->pattern != WORKLOAD_APART && p->pattern != WORKLOAD_EPOCHS))
        return base_fail(DPMF_ERROR_UNSUPPORTED, "participation %s: no part of it is one of the named kinds", p->text);
    if (KINDS[p->kind].plain) return dpmf_participation_create(p->kind, steps, 0, 0, out);
    if (most == 1) return workload_participation_single(steps, out);
    return dpmf_participation_create(p->kind, steps, p->count < most ? p->count : most, p->separation, out);
}

dpmf_participation *workload_participation_retain(const dpmf_participation *participation) {
    dpmf_participation *p = (dpmf_participation *)participation; /* only the count changes */
    __atomic_add_fetch(&p->references, 1, __ATOMIC_RELAXED);
    return p;
}

int workload_is_single(const dpmf_participation *p) {
    return p->kind == DPMF_PARTICIPATION_SINGLE;
}

int workload_is_once(const dpmf_participation *p) {
    return p->count == 1 && p->covers;
}

dpmf_participation_info dpmf_participation_get(const dpmf_participation *p) {
    return (dpmf_participation_info){.kind = p->kind,
                                     .steps = p->steps,
                                     .count = p->count,
                                     .separation = p->separation,
                                     .is_single = workload_is_single(p),
                                     .text = p->text};
}

dpmf_status workload_participation_read(const char *text, int64_t steps, const base_tensors *tensors,
                                        dpmf_participation **out) {
    if (strncmp(text, "patterns:", 9) == 0) return workload_patterns_read(steps, tensors, out);
    if (strncmp(text, "file", 4) == 0) /* reading must not open files that the text of a file names */
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: its participation names another file");
    return dpmf_participation_parse(text, steps, out);
}
