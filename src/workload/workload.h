/* SPDX-License-Identifier: Apache-2.0 */
/* Workload: what the other stages see of A beyond the public calls. */
#ifndef DPMF_WORKLOAD_H
#define DPMF_WORKLOAD_H

#include "base/json.h"
#include "base/safetensors.h"
#include "base/status.h"

/* ---- a user's streaming linear operator, with the inverse that follows from it ---- */

typedef struct workload_operator {
    dpmf_operator user;
    int64_t steps;
    double *diagonal; /* entry (t,t), read off by an impulse at each step */
} workload_operator;

/* Probes the operator: finite, linear, a non-zero diagonal. Takes over user->context only on success. */
DPMF_MUST_CHECK dpmf_status workload_operator_create(int64_t steps, const dpmf_operator *user, workload_operator **out);
void workload_operator_free(workload_operator *op); /* NULL is fine */

/* One row of y = M x; state: user.buffers x count. */
void workload_operator_step(const workload_operator *op, int64_t t, int64_t count, const double *x, double *state,
                            double *y);

/* One row of x = M^-1 y; state: inverse_buffers x count (the operator's own, and a second one to look ahead with). */
int64_t workload_operator_inverse_buffers(const workload_operator *op);
void workload_operator_inverse_step(const workload_operator *op, int64_t t, int64_t count, const double *y,
                                    double *state, double *x);

/* ---- A ---- */

typedef enum workload_form {
    WORKLOAD_NAMED = 0, /* momentum, schedule, decay: two numbers of state */
    WORKLOAD_DENSE,
    WORKLOAD_OPERATOR,
    WORKLOAD_ROWS, /* any matrix with a column for each step: workload/stack.c */
    WORKLOAD_SUM   /* squared errors of several workloads added: the same */
} workload_form;

enum { WORKLOAD_PARTS_MAX = 8 };

struct dpmf_workload {
    int references; /* atomic */
    workload_form form;
    int toeplitz; /* the same at every step? */
    int64_t steps;
    char *text;
    /* named */
    double momentum, decay;
    int nesterov;
    double *learning_rate; /* NULL: all ones */
    char *schedule;        /* the part of `text` that stands for learning_rate, NULL if none */
    /* dense: n x n lower triangular */
    double *matrix; /* rows: rows x n, in the order of their release */
    workload_operator *operator_;
    /* rows, sum */
    int64_t width;        /* answers of a step, at most; 1 for all others */
    int64_t rows, *first; /* rows first[t] to first[t+1] are released in step t */
    int parts;
    dpmf_workload **part;
    double *weight;
};

/* Shares the object: one more free is needed. Returns its argument. */
dpmf_workload *workload_retain(const dpmf_workload *workload);

/* The recursion of a named workload at step t, from the state (m, o) and the input y. */
typedef struct workload_recursion_form {
    double momentum; /* m_t = momentum m_{t-1} + y_t */
    double from_m;   /* u_t = from_m m_t + from_y y_t */
    double from_y;
    double rate; /* o_t = keep o_{t-1} + rate u_t */
    double keep;
} workload_recursion_form;
workload_recursion_form workload_recursion(const dpmf_workload *workload, int64_t t);

/* Is it the same matrix (same form and parameters; operators only if the same object)? */
int workload_equal(const dpmf_workload *a, const dpmf_workload *b);

int workload_is_prefix(const dpmf_workload *workload);

/* Bands of A^-1 = R^-1 Q as in dpmf_workload_info. */
void workload_inverse_bands(const dpmf_workload *workload, int *q_bands, int *r_bands);

/* The first `steps` rows and columns of A; shares it when that is all of it. */
DPMF_MUST_CHECK dpmf_status workload_head(const dpmf_workload *workload, int64_t steps, dpmf_workload **out);

/* The schedule 1/(t+1) that belongs to a decay of 1: the mean so far. */
#define WORKLOAD_MEAN "mean"

/* A named workload; `schedule` is the text that stands for its learning rates ("lr" if NULL). */
DPMF_MUST_CHECK dpmf_status workload_create_named(int64_t steps, const dpmf_workload_options *options,
                                                  const char *schedule, dpmf_workload **out);

/* The first `count` coefficients of A^power (+-1/2, +-1) as a series; for a named workload with a schedule, without that. */
DPMF_MUST_CHECK dpmf_status workload_series(const dpmf_workload *workload, double power, int64_t count, double *out);

/* x = A' y, in place allowed; not for operators. */
DPMF_MUST_CHECK dpmf_status workload_apply_transpose(const dpmf_workload *workload, const double *y, double *x);

DPMF_MUST_CHECK dpmf_status workload_column_norms(const dpmf_workload *workload, double *norms);

/*
 * Row by row for `count` right-hand sides: y_t = (A x)_t, x_t = (A^-1 y)_t; states of buffers x count numbers start at 0.
 * y has width x count numbers: a stack has several answers in a step, scaled by the roots of their weights.
 */
int64_t workload_buffers(const dpmf_workload *workload);
void workload_step(const dpmf_workload *workload, int64_t t, int64_t count, const double *x, double *state, double *y);
int64_t workload_inverse_buffers(const dpmf_workload *workload);
void workload_inverse_step(const dpmf_workload *workload, int64_t t, int64_t count, const double *y, double *state,
                           double *x);

/* ---- sums and matrices of any shape (workload/stack.c) ---- */

/* A sum or rows: products, solves and inverses of the calls above are not for these. */
static inline int workload_is_stack(const dpmf_workload *workload) {
    return workload->form == WORKLOAD_SUM || workload->form == WORKLOAD_ROWS;
}

/* A weight of a sum within its range? */
DPMF_MUST_CHECK dpmf_status workload_check_weight(double weight);

/* Are errors of a Toeplitz C the largest in the last step: is A Toeplitz, or a sum of such? */
int workload_rises(const dpmf_workload *workload);

/* The rows of A: the steps, or those of all parts together. */
int64_t workload_row_count(const dpmf_workload *workload);

/* One number of a step's answers: for plain workloads the answer; y has `width` numbers, `count` apart. In place: all steps. */
double workload_mix(const dpmf_workload *workload, int64_t count, const double *y);
DPMF_MUST_CHECK dpmf_status workload_apply_mixed(const dpmf_workload *workload, double *x);

/*
 * R, lower triangular with an inverse: R'R = A' diag(weights) A + added^2 I. It has the same squared losses and so the same optimum.
 * `added` is 0 unless there is no inverse without it, and then `relative` |R|_F / n: an RMS loss of the optimum rises by about
 * that part of it at most, and a lower bound is one for A once added sqrt(k) is taken off, k the participations of a unit.
 */
DPMF_MUST_CHECK dpmf_status workload_reduce(const dpmf_workload *workload, const double *weights, double relative,
                                            dpmf_workload **out, double *added);

/* A workload in a mechanism file: members of an open JSON object, and arrays whose names begin with `prefix`. */
void workload_write(const dpmf_workload *workload, const char *prefix, base_writer *w, base_tensors *tensors);
DPMF_MUST_CHECK dpmf_status workload_read(const cJSON *object, int64_t steps, const char *prefix,
                                          const base_tensors *tensors, dpmf_workload **out);

/* ---- participation (workload/workload.c): the record behind the public calls ---- */

/* The sets of steps that a unit may take part in, as the stages above see them: k of them, and b. */
typedef enum workload_pattern {
    WORKLOAD_FIXED = 0, /* j, j+b, j+2b, ... for one j < b: single (b = n), cyclic, full (b = 1) */
    WORKLOAD_APART,     /* any, at least b apart, at most k: min-sep */
    WORKLOAD_EPOCHS,    /* one in each of k epochs of b steps, anywhere: shuffled */
    WORKLOAD_LISTED     /* of a file that lists others; k and b: the most steps in one, their least distance */
} workload_pattern;

struct dpmf_participation {
    int references; /* atomic */
    dpmf_participation_kind kind;
    workload_pattern pattern;
    int64_t steps, count, separation;
    char text[64];
    /* From a file, else 0 and NULL: pattern i has the steps listed[begins[i]] < ... < listed[begins[i+1] - 1]; none is repeated */
    int64_t patterns, *begins, *listed;
    double *record; /* as mechanism files hold it: of each pattern the number of its steps, and they */
    int covers;     /* 1: every step is in a pattern. Other kinds: always */
};

int workload_is_single(const dpmf_participation *participation);

/* At most one participation, in any step: of the kind single, or equivalent to it. */
int workload_is_once(const dpmf_participation *participation);

dpmf_participation *workload_participation_retain(const dpmf_participation *participation);

/* Single participation, which a NULL participation of a public call stands for. */
DPMF_MUST_CHECK dpmf_status workload_participation_single(int64_t steps, dpmf_participation **out);

/* ---- patterns from a file (workload/patterns.c) ---- */

enum { WORKLOAD_PATTERNS_MAX = 100000, WORKLOAD_PATTERN_STEPS_MAX = 1 << 20, WORKLOAD_LISTED_MAX = 20000000 };

DPMF_MUST_CHECK dpmf_status workload_patterns_load(const char *path, int64_t steps, dpmf_participation **out);

/* Those of the first steps alone; each step alone if none of the patterns has begun by then. */
DPMF_MUST_CHECK dpmf_status workload_patterns_head(const dpmf_participation *participation, int64_t steps,
                                                   dpmf_participation **out);

/* From the array of a mechanism file. */
DPMF_MUST_CHECK dpmf_status workload_patterns_read(int64_t steps, const base_tensors *tensors,
                                                   dpmf_participation **out);

/* u[t] = 1 on the steps of pattern `which`, 0 elsewhere. */
void workload_patterns_mark(const dpmf_participation *participation, int64_t which, double *u);

/* Is the set of steps first, first + apart, ... below n inside one of the patterns? */
int workload_patterns_contain(const dpmf_participation *participation, int64_t first, int64_t apart);

/* A participation in a mechanism file: its array, where it has one, and the object from text and array. No file is opened. */
void workload_participation_write(const dpmf_participation *participation, base_tensors *tensors);
DPMF_MUST_CHECK dpmf_status workload_participation_read(const char *text, int64_t steps, const base_tensors *tensors,
                                                        dpmf_participation **out);

/* What can happen of it in `steps` steps of its own: the same kind and separation, and fewer participations. */
DPMF_MUST_CHECK dpmf_status workload_participation_part(const dpmf_participation *participation, int64_t steps,
                                                        dpmf_participation **out);

#endif
