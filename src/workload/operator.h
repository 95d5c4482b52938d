/* SPDX-License-Identifier: Apache-2.0 */
/* A user's streaming linear operator, with the inverse that follows from it. */
#ifndef DPMF_WORKLOAD_OPERATOR_H
#define DPMF_WORKLOAD_OPERATOR_H

#include "base/status.h"

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

#endif
