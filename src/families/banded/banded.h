/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The best banded C: what its files share. Matrices of few diagonals are held by rows, m[t * bands + j] = M[t, t-j],
 * with zeros left of column 0; X = C'C; q_t = |B[t,:]|^2; D = the derivative of sum_t p_t q_t by the entries of C.
 */
#ifndef DPMF_FAMILIES_BANDED_H
#define DPMF_FAMILIES_BANDED_H

#include "base/status.h"
#include "optimize/optimize.h"

/* ---- the errors and their derivatives (families/banded/pass.c) ---- */

/* Room for one forward and one backward pass; the forward one leaves what the backward one reads. */
typedef struct banded_pass {
    const dpmf_workload *workload;
    int64_t n, bands;
    int64_t slots, stride; /* bands - 1 outputs are remembered; rows of `stride` numbers, padded with zeros */
    int with_momentum;
    double *now;     /* n x stride: Cov(y_t, y_(i)) for the outputs remembered before step t */
    double *with_o;  /* n x stride: Cov(o_t, y_(i)) */
    double *with_m;  /* n x stride: Cov(m_t, y_(i)); NULL without momentum */
    double *own;     /* n: Var y_t */
    double *outputs; /* slots x stride: covariances of the remembered outputs */
    double *costs;   /* slots x stride: the same place in the backward pass */
    double *vectors; /* several of `stride` numbers */
    double *y, *v,
        *columns; /* a matrix for a workload (families/banded/matrix.c): A C^-1, A X^-1, C by columns; else NULL */
} banded_pass;

/* Workloads that are matrices: the bodies of the functions below for them. */
enum { BANDED_MATRIX_MAX = 2048 }; /* steps: a minute or so for the certificates */
DPMF_MUST_CHECK dpmf_status banded_matrix_create(banded_pass *pass);
void banded_matrix_free(banded_pass *pass);
int banded_matrix_forward(banded_pass *pass, const double *rows, double *squares);
void banded_matrix_backward(banded_pass *pass, const double *rows, const double *weights, double *d);

DPMF_MUST_CHECK dpmf_status banded_pass_create(const dpmf_workload *workload, int64_t bands, banded_pass *pass);
void banded_pass_free(banded_pass *pass);

/* squares[t] = |B[t,:]|^2; 0 if they are not finite: C is not to be inverted in double precision. */
int banded_forward(banded_pass *pass, const double *rows, double *squares);

/*
 * D = d(sum_t weights[t] squares[t])/dC, n x bands, after a forward pass with the same rows. In slopes, unless NULL, for
 * each step stride + 2 numbers: L_t w in the ring, then its entries of m and o.
 */
void banded_backward(banded_pass *pass, const double *rows, const double *weights, double *d, double *slopes);

/* The a_j of step t in the ring of outputs (y_u in slot u mod (bands - 1)), -C[t,t-j] / C[t,t]; `slot` is that of step t. */
void banded_lead(const banded_pass *pass, int64_t t, int64_t slot, const double *row, double *lead);

/* x . y; count is a multiple of 4. */
double banded_inner(int64_t count, const double *x, const double *y);

/* ---- what the participation allows (families/banded/class.c) ---- */

/*
 * With no more bands than the separation, the columns that one unit touches do not overlap, so sensitivity^2 is the
 * largest sum over a pattern of the squared column norms d. The class is all C of these bands with that sum at most 1.
 */
typedef enum banded_kind {
    BANDED_SINGLE = 0, /* d_t = 1 */
    BANDED_CYCLIC,     /* the d of each class of steps modulo the separation sum to 1 */
    BANDED_SEPARATED,  /* d_t = z + sum of y_s over s <= t < s + separation; k z + sum y = 1 */
    BANDED_LISTED      /* the smooth maximum of sums of d over the patterns of a file is 1 */
} banded_kind;

/* Unknowns: the columns of C before their norms are made right, by rows; then, if separated, roots of y and of z. */
typedef struct banded_class {
    banded_kind kind;
    int64_t n, bands, count, separation;
    int64_t windows;                      /* how many y there are; 0 unless separated */
    int64_t unknowns;                     /* n * bands, or n * bands + windows + 1 */
    double *scale;                        /* n: an entry of column s, before normalization, is scale[s] x the unknown */
    double *roots;                        /* windows + 1: of y, then of z; set by _build */
    double *tension;                      /* windows + 1: a root is this x the unknown / length */
    double length;                        /* so that k z + sum y = 1, set by _build */
    double *diagonal;                     /* n: d, set by _build */
    double *factor;                       /* n: entry of C over entry before normalization, set by _build */
    double *work;                         /* n + 1 numbers */
    const dpmf_participation *listed;     /* the patterns of a file, borrowed */
    double *sums, *multiplier, sharpness; /* listed: of each pattern; the exponent of the smooth maximum */
    double *cover, total; /* listed: derivatives of the smooth maximum by d, by all sums; set by _build */
} banded_class;

DPMF_MUST_CHECK dpmf_status banded_class_create(const dpmf_participation *participation, int64_t bands,
                                                banded_class *class_);
void banded_class_free(banded_class *class_);

/* The largest sum of d over a pattern, after _build: 1, and of listed patterns nearly so. */
double banded_class_largest(const banded_class *class_);

/* Listed: ends a round, after _build, with new multipliers (families/toeplitz/listed.c). */
void banded_class_renew(banded_class *class_);

/* C from the unknowns; 0 if a column vanishes. */
int banded_class_build(banded_class *class_, const double *x, double *rows);

/* The unknowns of C for the present scale and roots. */
void banded_class_unknowns(const banded_class *class_, const double *rows, double *x);

/* The derivative by the unknowns from D, after _build. */
void banded_class_pull(banded_class *class_, const double *rows, const double *d, double *gradient);

/*
 * Scales the unknowns so that the curvature of ln sqrt(sum p q) is about 1 in each, after _build with these rows, their
 * D and their sum, `total`. Windows that should be used and are not get a little.
 */
void banded_class_rescale(banded_class *class_, const double *rows, const double *d, double total);

/* max over the allowed d of sum nu_t d_t, nu >= 0. */
double banded_class_support(banded_class *class_, const double *nu);

/* Changes nu, by little if it is nearly optimal, so that its support is not above `level` = sum nu_t d_t. */
void banded_class_level(banded_class *class_, double level, double *nu);

/* ---- the certificate (families/banded/class.c) ---- */

/* A lower bound of sum_t p_t q_t in the class, from the C built last, its D and its slopes for p > 0; 0: rounding hides it. */
DPMF_MUST_CHECK dpmf_status banded_bound(const banded_pass *pass, banded_class *class_, const double *rows,
                                         const double *d, const double *slopes, const double *weights, double *lower);

/* The same for a matrix, after a backward pass. */
DPMF_MUST_CHECK dpmf_status banded_matrix_bound(const banded_pass *pass, banded_class *class_, const double *weights,
                                                double *lower);

/* ---- starting points (families/banded/start.c) ---- */

/* Columns of the truncated square root of the workload, normalized, into rows that are zero; of prefix sums for a matrix. */
DPMF_MUST_CHECK dpmf_status banded_start_root(const dpmf_workload *workload, int64_t bands, double *rows);

/* C of n steps from one of `small` < n, 4 bands or more: its middle is drawn out along the trend. Columns have any norm. */
void banded_start_stretch(int64_t small, int64_t n, int64_t bands, const double *from, double *rows);

DPMF_MUST_CHECK dpmf_status banded_read(const strategy_source *source, dpmf_strategy **out);
DPMF_MUST_CHECK dpmf_status banded_optimize(const optimize_task *task, dpmf_strategy **out, dpmf_optimization *result);

#endif
