/* SPDX-License-Identifier: Apache-2.0 */
/*
 * References for the library's figures: the same numbers by plainer ways, for the tests only.
 */
#ifndef DPMF_TESTS_ORACLE_H
#define DPMF_TESTS_ORACLE_H

#include "families/blt/blt.h"
#include "workload/workload.h"

/* One block of Philox 4x32-10: four words from a counter of four words and a key of two. */
void oracle_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* The least ln delta that holds for every rho-zCDP mechanism: the best conversion over all orders. rho > 0. */
double oracle_zcdp_log_delta(double rho, double epsilon);

/* Losses of a BLT for prefix sums under k participations at least b apart (k = 1: single), if C does not rise. */
typedef struct oracle_losses {
    double sensitivity, rms_loss, max_loss;
} oracle_losses;
DPMF_MUST_CHECK dpmf_status oracle_blt_losses(const blt_parameters *c, int64_t n, int64_t k, int64_t b,
                                              oracle_losses *out);

/* The sum of a Toeplitz C's squared errors as the loss weighs them: all n steps one after the other, O(n bands). */
DPMF_MUST_CHECK dpmf_status oracle_toeplitz_error(const dpmf_workload *workload, int64_t bands, const double *c,
                                                  dpmf_loss loss, double *value);

/*
 * The least tr(M X^-1) over X > 0 with X[s,t] = 0 for s = t mod b, s != t, and a diagonal that sums to 1 over each class of steps
 * modulo b (b >= n: ones): the squared loss, summed over the steps, of the best mechanism. NaN if it was not found.
 */
enum { ORACLE_SEMIDEFINITE_MAX = 12 };
double oracle_semidefinite(int n, const double *m, int b);

#endif
