/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verification: declarations that its parts share. Each part computes figures of a mechanism again and adds a check for
 * each; a figure that comes out different is a check that fails, never a status.
 */
#ifndef DPMF_VERIFY_H
#define DPMF_VERIFY_H

#include "base/status.h"
#include "base/threads.h"
#include "crypto/crypto.h"
#include "mechanism/mechanism.h"

enum { VERIFY_CHECKS_MAX = 32 };

struct dpmf_verification {
    int64_t count;
    dpmf_check check[VERIFY_CHECKS_MAX];
};

/*
 * Tolerances, relative. SAME: the same code on the same numbers; what is left is another machine's BLAS and FFT. OTHER:
 * another route, with the rounding of whole matrices (condition numbers to 1e5). RESPONSE is of |P A W v|; other
 * inputs have another response altogether.
 */
#define VERIFY_TOLERANCE_SAME 1e-11
#define VERIFY_TOLERANCE_OTHER 1e-9
#define VERIFY_TOLERANCE_RESPONSE 1e-12

typedef struct verify_task {
    const dpmf_mechanism *mechanism;
    const dpmf_run *run;
    dpmf_verification *out;
    int evaluated;         /* 1: the figures could be computed again */
    dpmf_evaluation again; /* these figures, without the lower bound */
    int responded;
    double response_size; /* |P A W v| */
} verify_task;

/* ---- adding a check; `how` is a format (verify/figures.c) ---- */

#if defined(__GNUC__)
#define VERIFY_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define VERIFY_PRINTF(at, first)
#endif

void verify_check_add(dpmf_verification *v, dpmf_check check, const char *how, ...) VERIFY_PRINTF(3, 4);

/* ok: |claimed - found| <= tolerance |claimed|. */
void verify_check_equal(dpmf_verification *v, const char *name, double claimed, double found, double tolerance,
                        const char *how, ...) VERIFY_PRINTF(6, 7);

/* The response: ok if it is within tolerance |P A W v|; it may be 0. */
void verify_check_response(const verify_task *v, const char *name, double found, double tolerance, const char *how);

void verify_check_skip(dpmf_verification *v, const char *name, const char *why, ...) VERIFY_PRINTF(3, 4);

/* Is the status about the mechanism, and not about this machine or the caller? */
int verify_is_verdict(dpmf_status status);

/* ---- the parts ---- */

/* verify/figures.c: sensitivity, losses, lower bound and response by the same routes. */
DPMF_MUST_CHECK dpmf_status verify_figures(verify_task *v);

/* verify/privacy.c: sigma from (epsilon, delta), and back by another engine; delta of a Gaussian by quadrature. */
DPMF_MUST_CHECK dpmf_status verify_privacy(verify_task *v);
double verify_gaussian_delta(double mu, double epsilon);

/* verify/matrices.c: everything from W as the noise stream has it, for few steps. */
int verify_is_small(const dpmf_mechanism *m);
DPMF_MUST_CHECK dpmf_status verify_matrices(verify_task *v);

/* verify/stream.c, for many steps: the response through the stream, and the first steps of W C; sensitivity from below,
 * and losses by impulses, a block of seeds at a time. */
DPMF_MUST_CHECK dpmf_status verify_stream(verify_task *v);
DPMF_MUST_CHECK dpmf_status verify_long(verify_task *v);

/* verify/law.c: the rows that the public stream gives are normal with covariance W W'. */
DPMF_MUST_CHECK dpmf_status verify_law(verify_task *v);

/* ---- seeds that are no noise (verify/seed.c); float64 and float32 ---- */

DPMF_MUST_CHECK dpmf_status verify_seed_open_impulses(crypto_seed **out); /* Z[row, i] = 1 where row = i, else 0 */
DPMF_MUST_CHECK dpmf_status verify_seed_open_response(uint64_t salt, crypto_seed **out); /* the v of the response */

/* Rows 0..count-1 of W, `seeds` numbers each, from the stream's responses to impulses; `pool` may be NULL. */
DPMF_MUST_CHECK dpmf_status verify_stream_impulses(const dpmf_strategy *strategy, dpmf_precision precision,
                                                   int64_t count, int64_t seeds, base_pool *pool, const dpmf_run *run,
                                                   void *w);

/* Does making the stream of this strategy mean inverting a matrix (and every row take every seed)? */
int verify_stream_is_whole(const dpmf_strategy *strategy);

/* Seeds that the steps before `steps` take: all of them where the stream is whole. */
int64_t verify_seeds_before(const dpmf_strategy *strategy, int64_t steps);

/* Is C square, and are its first rows lower triangular, one seed per step? (tree-full is square and is not.) */
int verify_is_lower(const dpmf_strategy *strategy, int64_t steps);

/* Columns 0..count-1 of C, the first `rows` numbers of each: columns[j * rows + i] = C[i, j]. */
DPMF_MUST_CHECK dpmf_status verify_first_columns(const dpmf_strategy *strategy, int64_t count, int64_t rows,
                                                 double *columns);

/* The largest |(W C)[t, j] - [t = j]| over count x count entries; w and columns as above. NaN if one is not finite. */
DPMF_MUST_CHECK dpmf_status verify_left_inverse_error(int64_t count, int64_t seeds, const double *w,
                                                      const double *columns, const dpmf_run *run, double *out);

/* Where a vector begins and ends to be other than 0: most of these matrices are mostly zeros. */
void verify_span_of(int64_t count, const double *x, int64_t *begin, int64_t *end);

/* ---- sensitivity from the columns of a whole C (verify/matrices.c) ---- */

typedef struct verify_reach {
    double value;   /* sensitivity */
    int exact;      /* 1: the largest there is, by this route; 0: reached by some unit, so not less than it */
    char route[96]; /* how */
} verify_reach;

/* columns: steps x rows as above. */
DPMF_MUST_CHECK dpmf_status verify_reach_of(const dpmf_mechanism *m, int64_t rows, const double *columns,
                                            const dpmf_run *run, verify_reach *out);

#endif
