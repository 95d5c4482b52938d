/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two loops of limited-memory BFGS (Nocedal 1980; Nocedal and Wright 2006, Algorithm 7.4), with the usual scaling
 * s.y / y.y of the first guess. Written out because the optimum changes its objective on the way, bounds the change of
 * each unknown and stops on a certificate, and because sums must not depend on a library's threads.
 */
#include "optimum/lbfgs.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <math.h>

enum { PAIRS = DPMF_I_OPTIMUM_LBFGS_PAIRS };

dpmf_status dpmf_i_optimum_lbfgs_create(int64_t n, dpmf_i_optimum_lbfgs *out) {
    dpmf_i_optimum_lbfgs m = {.n = n};
    dpmf_status status = DPMF_OK;
    for (int i = 0; i < PAIRS; i++) {
        TRY_DONE(dpmf_i_base_alloc_doubles(n, "the optimizer's memory", &m.step[i]));
        TRY_DONE(dpmf_i_base_alloc_doubles(n, "the optimizer's memory", &m.change[i]));
    }
    *out = m;
done:
    if (status != DPMF_OK) dpmf_i_optimum_lbfgs_free(&m);
    return status;
}

void dpmf_i_optimum_lbfgs_free(dpmf_i_optimum_lbfgs *m) {
    for (int i = 0; i < PAIRS; i++) {
        dpmf_i_base_free(m->step[i]);
        dpmf_i_base_free(m->change[i]);
    }
    *m = (dpmf_i_optimum_lbfgs){0};
}

void dpmf_i_optimum_lbfgs_forget(dpmf_i_optimum_lbfgs *m) {
    m->used = 0;
}

static void add_multiple(int64_t n, double factor, const double *x, double *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

void dpmf_i_optimum_lbfgs_direction(const dpmf_i_optimum_lbfgs *m, const double *gradient, double *d) {
    double along[PAIRS];
    for (int64_t i = 0; i < m->n; i++)
        d[i] = -gradient[i];
    for (int k = 1; k <= m->used; k++) { /* the newest first */
        int64_t i = (m->turn - k) % PAIRS;
        along[i] = dpmf_i_base_dot(m->n, m->step[i], d) / m->product[i];
        add_multiple(m->n, -along[i], m->change[i], d);
    }
    if (m->used > 0) {
        int64_t i = (m->turn - 1) % PAIRS;
        double scale = m->product[i] / dpmf_i_base_dot(m->n, m->change[i], m->change[i]);
        for (int64_t j = 0; j < m->n; j++)
            d[j] *= scale;
    }
    for (int k = m->used; k >= 1; k--) {
        int64_t i = (m->turn - k) % PAIRS;
        add_multiple(m->n, along[i] - dpmf_i_base_dot(m->n, m->change[i], d) / m->product[i], m->step[i], d);
    }
}

void dpmf_i_optimum_lbfgs_remember(dpmf_i_optimum_lbfgs *m, const double *x, const double *gradient, const double *next,
                                   const double *next_gradient) {
    int64_t i = m->turn % PAIRS;
    for (int64_t j = 0; j < m->n; j++) {
        m->step[i][j] = next[j] - x[j];
        m->change[i][j] = next_gradient[j] - gradient[j];
    }
    double product = dpmf_i_base_dot(m->n, m->step[i], m->change[i]);
    /* curvature below rounding says nothing and would spoil the estimate; the slot is written over next time */
    if (!(product > 1e-10 * dpmf_i_base_norm(m->n, m->step[i]) * dpmf_i_base_norm(m->n, m->change[i]))) {
        if (m->used == PAIRS) m->used--; /* the slot held the oldest pair */
        return;
    }
    m->product[i] = product;
    m->turn++;
    if (m->used < PAIRS) m->used++;
}
