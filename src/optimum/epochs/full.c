/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Full participation: X = C'C zero between any two steps is diagonal, and its trace is the squared sensitivity.
 *
 * RMS: minimise sum_u a_u^2 / x_u with sum x = 1, a_u the norm of column u of P^1/2 A. By Cauchy and Schwarz the
 * minimum is (sum a)^2, at x_u = a_u / sum a.
 *
 * Max: minimise max_t sum_u A_tu^2 / x_u. Weights p on the rows, summing to 1, give the lower bound (sum_u c_u)^2 with
 * c_u^2 = sum_t p_t A_tu^2, and x_u = c_u / sum c the upper one. If the row of largest absolute sum dominates, p = 1
 * there closes the gap, for example for prefix sums, where C is the identity up to scale (Pillutla et al. 2025,
 * Proposition 3.11), and wherever rows grow. Otherwise p_t is multiplied by the loss of row t over the mean, which
 * raises the lower bound at each step, and the bounds meet.
 */
#include "optimum/epochs/full.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { STEPS_MAX = 8192, ITERATIONS = 20000 };

/* Roundings in sums of n terms: each bound is widened by this. */
static double slack(int64_t n) {
    return 8 * (double)n * DBL_EPSILON;
}

static dpmf_status column_norms(const dpmf_workload *a, const double *weights, double *norms) {
    int64_t n = a->steps;
    double *column = NULL;
    if (weights == NULL) return workload_column_norms(a, norms);
    TRY(base_alloc_doubles(n, "a column", &column));
    dpmf_status status = DPMF_OK;
    for (int64_t u = 0; u < n && status == DPMF_OK; u++) {
        memset(column, 0, (size_t)n * sizeof *column);
        column[u] = 1;
        status = dpmf_workload_apply(a, column, column);
        for (int64_t t = u; t < n; t++)
            column[t] *= sqrt(weights[t]);
        norms[u] = base_norm(n - u, column + u);
    }
    base_free(column);
    return status;
}

static dpmf_status solve_rms(const dpmf_workload *a, const double *weights, double *diagonal,
                             epochs_full_optimum *out) {
    int64_t n = a->steps;
    TRY(column_norms(a, weights, diagonal));
    double total = base_sum(n, diagonal);
    for (int64_t u = 0; u < n; u++)
        diagonal[u] = sqrt(diagonal[u] / total);
    out->lower = total * total * (1 - slack(n));
    out->upper = total * total * (1 + slack(n));
    out->converged = 1;
    return DPMF_OK;
}

/* ---- max loss ---- */

typedef struct rows {
    int64_t n;
    double *squares; /* n x n: A_tu^2 */
    double *p, *c, *loss;
} rows;

static void rows_free(rows *r) {
    base_free(r->squares);
    base_free(r->p);
    base_free(r->c);
    base_free(r->loss);
}

static dpmf_status rows_create(const dpmf_workload *a, rows *r) {
    int64_t n = a->steps;
    r->n = n;
    TRY(base_alloc_square(n, "the workload", &r->squares));
    TRY(base_alloc_doubles(n, "the weights of the rows", &r->p));
    TRY(base_alloc_doubles(n, "a column", &r->c));
    TRY(base_alloc_doubles(n, "the losses", &r->loss));
    int64_t best = 0;
    for (int64_t u = 0; u < n; u++) {
        memset(r->c, 0, (size_t)n * sizeof *r->c);
        r->c[u] = 1;
        TRY(dpmf_workload_apply(a, r->c, r->c));
        for (int64_t t = u; t < n; t++) {
            r->squares[t * n + u] = r->c[t] * r->c[t];
            r->loss[t] += fabs(r->c[t]);
        }
    }
    for (int64_t t = 0; t < n; t++)
        if (r->loss[t] >= r->loss[best]) best = t;
    r->p[best] = 1;
    return DPMF_OK;
}

/* Bounds at p, and the diagonal that goes with the upper one. */
static void evaluate_bounds(rows *r, epochs_full_optimum *out) {
    int64_t n = r->n;
    memset(r->c, 0, (size_t)n * sizeof *r->c);
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u <= t && r->p[t] > 0; u++)
            r->c[u] += r->p[t] * r->squares[t * n + u];
    for (int64_t u = 0; u < n; u++)
        r->c[u] = sqrt(r->c[u]);
    double total = base_sum(n, r->c), largest = 0;
    for (int64_t t = 0; t < n; t++) {
        r->loss[t] = 0;
        for (int64_t u = 0; u <= t; u++)
            if (r->squares[t * n + u] > 0) r->loss[t] += r->squares[t * n + u] / r->c[u];
        r->loss[t] *= total;
        largest = fmax(largest, r->loss[t]);
    }
    out->lower = fmax(out->lower, total * total * (1 - slack(n)));
    if (largest * (1 + slack(n)) < out->upper) {
        out->upper = largest * (1 + slack(n));
        for (int64_t u = 0; u < n; u++)
            out->diagonal[u] = sqrt(r->c[u] / total);
    }
}

static int is_close(const epochs_full_optimum *o, double tolerance) {
    return sqrt(o->upper / o->lower) - 1 <= tolerance;
}

static dpmf_status solve_max(const dpmf_workload *a, double tolerance, const dpmf_run *run, epochs_full_optimum *out) {
    int64_t n = a->steps;
    rows r = {0};
    dpmf_status status = DPMF_OK;
    if (n > STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "full participation, max loss: %lld steps, accepted up to %d",
                         (long long)n, STEPS_MAX);
    out->upper = INFINITY;
    TRY_DONE(rows_create(a, &r));
    evaluate_bounds(&r, out);
    if (!is_close(out, fmin(tolerance, 1e-9)))
        for (int64_t t = 0; t < n; t++)
            r.p[t] = 1 / (double)n;
    for (; !is_close(out, tolerance) && out->iterations < ITERATIONS; out->iterations++) {
        double mean = 0;
        TRY_DONE(base_progress(run, "full participation, max loss", -1));
        evaluate_bounds(&r, out);
        for (int64_t t = 0; t < n; t++)
            mean += r.p[t] * r.loss[t];
        for (int64_t t = 0; t < n; t++)
            r.p[t] *= r.loss[t] / mean;
    }
    out->converged = is_close(out, tolerance);
done:
    rows_free(&r);
    return status;
}

dpmf_status epochs_full_solve(const dpmf_workload *workload, int max_loss, const double *weights, double tolerance,
                              const dpmf_run *run, epochs_full_optimum *out) {
    epochs_full_optimum found = {0};
    dpmf_status status = DPMF_OK;
    if (workload->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload operator: its optimum is not known");
    TRY(base_alloc_doubles(workload->steps, "the diagonal of C", &found.diagonal));
    TRY_DONE(max_loss ? solve_max(workload, tolerance, run, &found)
                      : solve_rms(workload, weights, found.diagonal, &found));
    *out = found;
    found.diagonal = NULL;
done:
    base_free(found.diagonal);
    return status;
}
