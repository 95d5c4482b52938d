/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of a BLT. Toeplitz workload: B is Toeplitz with first column w = C^-1 (A e_0), and |B[t,:]|^2 = w_0^2 + ... +
 * w_t^2, O(n d). Any other named workload, repeated blocks or scaled noise: the stream
 *
 *     y_t = z_t - alpha'm_t,    m_{t+1} = Lambda m_t + 1 y_t
 *
 * drives the workload's recursion on (mom, o) (error/error.h). With P = Cov m and u = Cov(m_t, y_t) = -P alpha,
 *
 *     Var y_t = 1 + alpha'P alpha,   Cov(m_{t+1}, y_t) = Lambda u + 1 Var y_t,
 *     P <- Lambda P Lambda + (Lambda u) 1' + 1 (Lambda u)' + 1 1' Var y_t,
 *
 * and the covariances of m with mom and o alike, O(d^2) a step.
 */
#include "families/blt/blt.h"

#include "base/sum.h"
#include "workload/workload.h"

#include <string.h>

enum { MAX = BLT_MAX };

static dpmf_status toeplitz_response(const dpmf_workload *a, const blt_parameters *c, const dpmf_run *run,
                                     double *per_step) {
    double m[MAX] = {0};
    base_running sum = {0};
    int64_t n = a->steps;
    memset(per_step, 0, (size_t)n * sizeof *per_step);
    per_step[0] = 1;
    TRY(dpmf_workload_apply(a, per_step, per_step));
    for (int64_t t = 0; t < n; t++) {
        TRY(error_report(run, t, n, 4 * c->count));
        double w = per_step[t];
        for (int i = 0; i < c->count; i++)
            w -= c->scale[i] * m[i];
        for (int i = 0; i < c->count; i++)
            m[i] = (m[i] - c->gap[i] * m[i]) + w;
        base_running_add(&sum, w * w);
        per_step[t] = base_running_value(&sum);
    }
    return DPMF_OK;
}

void blt_buffers_advance(int d, const double *scale, const double *gap, double variance, double factor,
                         const error_drive *drive, blt_buffers *k, error_moments *moments) {
    double u[MAX], yy = variance, with_mom = 0, with_o = 0;
    for (int i = 0; i < d; i++) {
        u[i] = 0;
        for (int j = 0; j < d; j++)
            u[i] -= k->mm[i * MAX + j] * scale[j];
        yy -= scale[i] * u[i];
        with_mom -= scale[i] * k->mom[i];
        with_o -= scale[i] * k->mo[i];
    }
    error_moments_advance(drive, factor * factor * yy, factor * with_mom, factor * with_o, moments);
    for (int i = 0; i < d; i++) {
        double keep = 1 - gap[i];
        u[i] *= keep;
        double mom = keep * k->mom[i] + with_mom, mo = keep * k->mo[i] + with_o; /* of m_{t+1} with mom and o before */
        double now = factor * (u[i] + yy);
        k->mo[i] = drive->keep * mo + drive->p * mom + drive->g * now;
        k->mom[i] = drive->beta * mom + now;
    }
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++)
            k->mm[i * MAX + j] = (1 - gap[i]) * (1 - gap[j]) * k->mm[i * MAX + j] + (u[i] + u[j]) + yy;
}

dpmf_status blt_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const blt_parameters *c = blt_of(s);
    const int64_t steps = s->steps;
    error_moments moments = {0};
    blt_buffers k;
    *done = q->a->form == WORKLOAD_NAMED || (q->a->toeplitz && error_question_is_plain(q));
    if (!*done) return DPMF_OK;
    if (q->a->toeplitz && error_question_is_plain(q)) return toeplitz_response(q->a, c, q->run, squares);
    for (int64_t stamp = 0; stamp < q->stamps; stamp++) {
        memset(&k, 0, sizeof k); /* the noise restarts, the workload does not */
        for (int64_t t = 0; t < steps; t++) {
            int64_t at = stamp * steps + t;
            TRY(error_report(q->run, at, q->stamps * steps, 4 * c->count * c->count));
            error_drive drive = error_drive_at(q->a, at);
            blt_buffers_advance(c->count, c->scale, c->gap, 1, q->scale == NULL ? 1 : q->scale[at], &drive, &k,
                                &moments);
            squares[at] = moments.oo;
        }
    }
    return DPMF_OK;
}

/* Row norms of a Toeplitz B rise: the last one is the largest. */
int blt_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest) {
    const blt_parameters *c = blt_of(s);
    if (!workload_is_prefix(a) || !blt_is_positive(c)) return 0;
    blt_parameters inverse = blt_invert(c);
    *total = blt_frobenius_square(&inverse, s->steps);
    *largest = blt_last_row_square(&inverse, s->steps);
    return 1;
}
