/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of a TV-BLT under a named workload: the noise y_t = l_t z_t + h'x_t, x_{t+1} = F_t x_t + g_t z_t (families/tvblt/tvblt.h)
 * drives the workload's recursion on (m, o) (error/error.h). Keep the covariance P of x, and of x with m and o:
 *
 *     Var y_t = l_t^2 + h'P h,  Cov(x_{t+1}, y_t) = F P h + g l_t,  P <- F P F' + g g'
 *     Cov(x_{t+1}, m_t) = beta F Cov(x_t, m_{t-1}) + Cov(x_{t+1}, y_t)       and o alike.
 *
 * O(n R^2). Everything is taken from the stored coefficients, so it is the error of the stream that runs.
 */
#include "families/tvblt/tvblt.h"

#include "workload/workload.h"

#include <string.h>

enum { STATES_MAX = TVBLT_STATES_MAX };

typedef struct covariances {
    double xx[STATES_MAX * STATES_MAX], xm[STATES_MAX], xo[STATES_MAX];
} covariances;

/* Step t of the block, whose noise is multiplied by `scale`. */
static void advance_tvblt(const tvblt_parameters *c, int64_t t, double scale, const error_drive *d, covariances *k,
                          error_moments *moments) {
    int states = tvblt_states(c);
    const double *gain = c->gain + t * states;
    double seed = c->diagonal[t], xy[STATES_MAX];
    tvblt_seen(c, k->xx, xy);
    error_moments_advance(d, scale * scale * (seed * seed + tvblt_output(c, xy)), scale * tvblt_output(c, k->xm),
                          scale * tvblt_output(c, k->xo), moments);
    tvblt_push(c, t, xy);
    tvblt_push(c, t, k->xm);
    tvblt_push(c, t, k->xo);
    for (int i = 0; i < states; i++) {
        double now = scale * (xy[i] + gain[i] * seed); /* Cov(x_{t+1}, y_t) */
        k->xo[i] = d->keep * k->xo[i] + d->p * k->xm[i] + d->g * now;
        k->xm[i] = d->beta * k->xm[i] + now;
    }
    tvblt_push_covariance(c, t, k->xx);
}

dpmf_status tvblt_errors(const dpmf_workload *a, const tvblt_parameters *c, int64_t stamps, const double *scale,
                         const dpmf_run *run, double *per_step) {
    error_moments moments = {0};
    covariances k;
    for (int64_t stamp = 0; stamp < stamps; stamp++) {
        memset(&k, 0, sizeof k); /* the noise starts anew, the workload does not */
        for (int64_t t = 0; t < c->steps; t++) {
            int64_t at = stamp * c->steps + t;
            TRY(error_report(run, at, stamps * c->steps, 8 * (int64_t)(c->nodes * c->nodes)));
            error_drive d = error_drive_at(a, at);
            advance_tvblt(c, t, scale == NULL ? 1 : scale[at], &d, &k, &moments);
            per_step[at] = moments.oo;
        }
    }
    return DPMF_OK;
}

dpmf_status tvblt_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    *done = q->a->form == WORKLOAD_NAMED;
    return *done ? tvblt_errors(q->a, tvblt_of(s), q->stamps, q->scale, q->run, squares) : DPMF_OK;
}
