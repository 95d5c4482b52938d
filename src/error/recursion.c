/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of a banded C or C^-1 under a named workload, by propagating a covariance instead of forming B.
 *
 * The noise y_t = (C^-1 z)_t drives the workload's recursion (error/error.h). Given Var y_t and its covariances with m_{t-1}
 * and o_{t-1}, one step updates the 2 x 2 covariance of (m, o). What differs is the memory of y:
 *
 *     C^-1 has b bands: y_t = sum_j f_j z_{t-j}. Keep Cov(z_{t-j}, m) and Cov(z_{t-j}, o): O(b) a step.
 *     C has b bands:    y_t = (z_t - sum_{j>=1} C[t,t-j] y_{t-j}) / C[t,t]. Keep the covariance of the last b-1 outputs
 *                       with each other and with m, o: O(b^2) a step.
 */

#include "base/memory.h"
#include "error/error.h"
#include "strategy/strategy.h"
#include "workload/workload.h"

#include <string.h>

dpmf_status error_report(const dpmf_run *run, int64_t t, int64_t n, int64_t operations) {
    static const int64_t OPERATIONS = (int64_t)1 << 24, STEPS = 1 << 16; /* between two questions, at most */
    const int64_t apart = operations < OPERATIONS / STEPS ? STEPS : OPERATIONS / operations + 1;
    return t % apart == 0 ? base_progress(run, "error", (double)t / (double)n) : DPMF_OK;
}

dpmf_status error_filtered(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps, b = strategy_inverse_bands(s);
    double *f = NULL, *zm = NULL, *zo = NULL; /* zm[j] = Cov(z_{t-j}, m_{t-1}) */
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(b, "a row of C^-1", &f));
    TRY_DONE(base_alloc_doubles(b + 1, "covariances", &zm));
    TRY_DONE(base_alloc_doubles(b + 1, "covariances", &zo));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 8 * b));
        error_drive d = error_drive_at(a, t);
        double yy = 0, ym = 0, yo = 0;
        s->ops->inverse_row(s, t, f);
        for (int64_t j = 0; j < b; j++) {
            yy += f[j] * f[j];
            ym += f[j] * zm[j];
            yo += f[j] * zo[j];
        }
        error_moments_advance(&d, yy, ym, yo, &v);
        per_step[t] = v.oo;
        for (int64_t j = b - 1; j >= 0; j--) { /* the lag of every seed grows by one */
            zo[j + 1] = d.keep * zo[j] + d.p * zm[j] + d.g * f[j];
            zm[j + 1] = d.beta * zm[j] + f[j];
        }
        zm[0] = zo[0] = 0;
    }
done:
    base_free(f);
    base_free(zm);
    base_free(zo);
    return status;
}

/* The last `slots` outputs in a ring: output u is in slot u mod slots. */
typedef struct outputs {
    int64_t slots;
    double *yy;   /* slots x slots: covariances among them */
    double *ym;   /* with m_{t-1} */
    double *yo;   /* with o_{t-1} */
    double *lead; /* y_t = sum over slots lead[i] y_(i) + z_t / C[t,t] */
    double *now;  /* Cov(y_t, y_(i)) */
    double *row;
} outputs;

static void outputs_free(outputs *o) {
    base_free(o->yy);
    base_free(o->ym);
    base_free(o->yo);
    base_free(o->lead);
    base_free(o->now);
    base_free(o->row);
}

static dpmf_status outputs_create(int64_t bands, outputs *o) {
    o->slots = bands - 1;
    TRY(base_alloc_doubles(o->slots * o->slots, "covariances", &o->yy));
    TRY(base_alloc_doubles(o->slots, "covariances", &o->ym));
    TRY(base_alloc_doubles(o->slots, "covariances", &o->yo));
    TRY(base_alloc_doubles(o->slots, "a row", &o->lead));
    TRY(base_alloc_doubles(o->slots, "covariances", &o->now));
    return base_alloc_doubles(bands, "a row", &o->row);
}

static void outputs_step(outputs *o, int64_t t, const error_drive *d, error_moments *v) {
    int64_t slots = o->slots;
    double seed = 1 / o->row[0], yy = seed * seed, ym = 0, yo = 0;
    for (int64_t i = 0; i < slots; i++)
        o->lead[i] = 0;
    for (int64_t j = 1; j <= slots && j <= t; j++)
        o->lead[(t - j) % slots] = -o->row[j] * seed;
    for (int64_t i = 0; i < slots; i++) {
        const double *past = o->yy + i * slots;
        double sum = 0;
        for (int64_t k = 0; k < slots; k++)
            sum += past[k] * o->lead[k];
        o->now[i] = sum;
        yy += o->lead[i] * sum;
        ym += o->lead[i] * o->ym[i];
        yo += o->lead[i] * o->yo[i];
    }
    double new_ym = d->beta * ym + yy, new_yo = d->keep * yo + d->p * ym + d->g * yy;
    error_moments_advance(d, yy, ym, yo, v);
    for (int64_t i = 0; i < slots; i++) {
        o->yo[i] = d->keep * o->yo[i] + d->p * o->ym[i] + d->g * o->now[i];
        o->ym[i] = d->beta * o->ym[i] + o->now[i];
    }
    if (slots == 0) return;
    int64_t slot = t % slots; /* y_t takes the place of the oldest */
    for (int64_t i = 0; i < slots; i++)
        o->yy[slot * slots + i] = o->yy[i * slots + slot] = o->now[i];
    o->yy[slot * slots + slot] = yy;
    o->ym[slot] = new_ym;
    o->yo[slot] = new_yo;
}

dpmf_status error_fed_back(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps, bands = strategy_bands(s);
    outputs o = {0};
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(outputs_create(bands, &o));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 2 * bands * bands));
        error_drive d = error_drive_at(a, t);
        s->ops->row(s, t, o.row);
        outputs_step(&o, t, &d, &v);
        per_step[t] = v.oo;
    }
done:
    outputs_free(&o);
    return status;
}

/*
 * Error of any strategy whose noise covariance Y = W W' has cheap rows, under a named workload (error/error.h): carry
 * Cov(m_{t-1}, y_u) and Cov(o_{t-1}, y_u) for all u >= t. O(n^2) time, O(n) memory, one pass.
 */

dpmf_status error_covariance(const dpmf_workload *a, const dpmf_strategy *s, const dpmf_run *run, double *per_step) {
    int64_t n = s->steps;
    double *y = NULL, *ym = NULL, *yo = NULL;
    error_moments v = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n, "a covariance row", &y));
    TRY_DONE(base_alloc_doubles(n, "covariances", &ym));
    TRY_DONE(base_alloc_doubles(n, "covariances", &yo));
    for (int64_t t = 0; t < n; t++) {
        TRY_DONE(error_report(run, t, n, 8 * n));
        error_drive d = error_drive_at(a, t);
        s->ops->covariance(s, t, y);
        error_moments_advance(&d, y[0], ym[t], yo[t], &v);
        per_step[t] = v.oo;
        for (int64_t u = t + 1; u < n; u++) {
            yo[u] = d.keep * yo[u] + d.p * ym[u] + d.g * y[u - t];
            ym[u] = d.beta * ym[u] + y[u - t];
        }
    }
done:
    base_free(y);
    base_free(ym);
    base_free(yo);
    return status;
}
