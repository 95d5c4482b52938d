/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One checker for every mechanism: properties of any workload or strategy of any family, compared with plain dense
 * arithmetic. Each fails the running cmocka test with the place and the difference.
 */
#ifndef DPMF_TESTS_CHECK_H
#define DPMF_TESTS_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

/* Fails with the library's message unless the call gives DPMF_OK. */
#define check_ok(call) check_status_((call), DPMF_OK, #call, __FILE__, __LINE__)
/* Fails unless the call gives `expected` and leaves a message. */
#define check_fails(expected, call) check_status_((call), (expected), #call, __FILE__, __LINE__)
void check_status_(dpmf_status got, dpmf_status expected, const char *call, const char *file, int line);

/* |got - want| <= tolerance * max(1, |want|). */
#define check_near(got, want, tolerance) check_near_((got), (want), (tolerance), #got, __FILE__, __LINE__)
void check_near_(double got, double want, double tolerance, const char *what, const char *file, int line);

/* Does the last message hold this text? */
void check_message(const char *part);

/* Reproducible numbers in [-1, 1). */
double check_random(uint64_t *seed);

/* From a text that must be right. */
dpmf_workload *workload_of(const char *text, int64_t steps);

/* Dense forms by impulses, malloc'ed: A is n x n, C rows x n, W n x rows. */
double *check_workload_matrix(const dpmf_workload *a);
double *check_strategy_matrix(const dpmf_strategy *c);
double *check_strategy_inverse(const dpmf_strategy *c);

/* The number of buffers of a BLT and its parameters; 0 and NULL of others. */
int check_blt(const dpmf_strategy *c, const double **scale, const double **gap);

/* A A^-1 = I, linear, lower triangular, A^-1 = R^-1 Q, series and Toeplitz claims, the streaming forms. */
void check_workload(const dpmf_workload *a, double tolerance);

/*
 * W C = I, and C W = I for a square C; linear; lower triangular where bands are claimed; columns, column norms, the
 * diagonals of C'C, rows of W W', rows, bands, inverse bands, parts and Toeplitz views agree with the dense forms; the
 * stream of W Z equals the solve, for several columns at once; past the last step it refuses.
 */
void check_strategy(const dpmf_strategy *c, double tolerance);

/* B C = A, and the errors and losses that the library computes equal those of the dense B. */
void check_factorization(const dpmf_workload *a, const dpmf_strategy *c, double tolerance);

#endif
