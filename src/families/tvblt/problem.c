/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT: the problem that is tuned and built: the bands of the workload's inverse, the weights of the optimum, and the ends
 * of the spectrum of M = V^-1/2 K V^-1/2, K = A^-1 P^-1 A^-T, by the power method.
 */
#include "families/tvblt/search.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/optimum.h"

#include <math.h>

void tvblt_problem_free(tvblt_problem *p) {
    base_free(p->q);
    base_free(p->v);
    base_free(p->p);
    *p = (tvblt_problem){0};
}

/*
 * For max loss many weights of the optimum all but vanish (the errors of their steps are not tight). Coefficients that
 * jump by decades from step to step would cost digits of the column norms, and privacy rests on these, so weights are
 * kept above a hundredth of their mean; the rounds of reweighting see to the loss.
 */
static const double WEIGHT_FLOOR = 1e-2;

static void take_floored(int64_t n, int max_loss, const double *from, double *to) {
    double floor_ = max_loss ? WEIGHT_FLOOR * base_sum(n, from) / (double)n : 0;
    for (int64_t t = 0; t < n; t++)
        to[t] = fmax(from[t], floor_);
}

void tvblt_take_weights(const optimum_answer *optimum, int max_loss, tvblt_problem *p) {
    take_floored(p->steps, max_loss, optimum->v, p->v);
    if (p->p != NULL) take_floored(p->steps, max_loss, optimum->p, p->p);
}

dpmf_status tvblt_problem_create(const dpmf_workload *a, int max_loss, const optimum_answer *optimum,
                                 tvblt_problem *out) {
    tvblt_problem p = {.workload = a, .steps = a->steps};
    int r_bands = 0;
    double r[2] = {1, 0};
    dpmf_status status = DPMF_OK;
    dpmf_workload_inverse_bands(a, &p.order, &r_bands);
    TRY_DONE(base_alloc_doubles(3 * p.steps, "the bands of the workload's inverse", &p.q));
    TRY_DONE(base_alloc_doubles(p.steps, "the weights of the columns", &p.v));
    if (optimum->p != NULL) TRY_DONE(base_alloc_doubles(p.steps, "the weights of the steps", &p.p));
    for (int64_t t = 0; t < p.steps; t++)
        TRY_DONE(dpmf_workload_inverse_row(a, t, p.q + 3 * t, r)); /* R is the same in every row but the first */
    p.r0 = r[0];
    p.r1 = r[1];
    tvblt_take_weights(optimum, max_loss, &p);
    *out = p;
    p = (tvblt_problem){0};
done:
    tvblt_problem_free(&p);
    return status;
}

/* x <- A^-T x = R^-T Q' x. */
static void transposed_solve(const tvblt_problem *p, double *x) {
    int64_t n = p->steps;
    for (int64_t t = 0; t < n; t++) {
        double one = t + 1 < n ? p->q[3 * (t + 1) + 1] * x[t + 1] : 0;
        double two = t + 2 < n ? p->q[3 * (t + 2) + 2] * x[t + 2] : 0;
        x[t] = p->q[3 * t] * x[t] + one + two;
    }
    for (int64_t t = n - 1; t >= 0; t--)
        x[t] = (x[t] - (t + 1 < n ? p->r1 * x[t + 1] : 0)) / p->r0;
}

/* x <- V^-1 K x, or its inverse A'P A V x; gives the largest |x| before x is scaled to 1. */
static dpmf_status spectrum_step(const tvblt_problem *p, int inverse, double *x, double *growth) {
    int64_t n = p->steps;
    double largest = 0;
    if (!inverse) transposed_solve(p, x);
    for (int64_t t = 0; t < n; t++)
        x[t] *= inverse ? p->v[t] : p->p == NULL ? 1 : 1 / p->p[t];
    if (inverse)
        TRY(dpmf_workload_apply(p->workload, x, x));
    else
        TRY(dpmf_workload_solve(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        x[t] *= !inverse ? 1 / p->v[t] : p->p == NULL ? 1 : p->p[t];
    if (inverse) TRY(workload_apply_transpose(p->workload, x, x));
    for (int64_t t = 0; t < n; t++)
        largest = fmax(largest, fabs(x[t]));
    for (int64_t t = 0; t < n; t++)
        x[t] /= largest;
    *growth = largest;
    return DPMF_OK;
}

/* The ends of the spectrum of M by the power method. The ends of the interval are tuned anyway: two digits will do. */
dpmf_status tvblt_spectrum(const dpmf_run *run, tvblt_problem *p) {
    enum { POWER_STEPS = 30 };
    double *x = NULL, growth = 0, end[2] = {0};
    dpmf_status status = DPMF_OK;
    if (p->low > 0) return DPMF_OK;
    TRY(base_alloc_doubles(p->steps, "an eigenvector", &x));
    for (int inverse = 0; inverse <= 1; inverse++) {
        for (int64_t t = 0; t < p->steps; t++)
            x[t] = inverse || t % 2 == 0 ? 1 : -1; /* A >= 0; K alternates */
        for (int k = 0; k < POWER_STEPS; k++) {
            TRY_DONE(base_progress(run, "tvblt: spectrum", -1));
            TRY_DONE(spectrum_step(p, inverse, x, &growth));
        }
        end[inverse] = inverse ? 1 / growth : growth;
    }
    if (!(end[1] > 0 && isfinite(end[1]) && end[0] > 0 && isfinite(end[0]))) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "tvblt: the spectrum of the problem, %g to %g, is out of range",
                           end[1], end[0]);
        goto done;
    }
    p->low = end[1];
    p->high = fmax(end[0], end[1]);
done:
    base_free(x);
    return status;
}
