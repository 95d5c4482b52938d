/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual of the optimum over patterns, its value and gradient. Unknowns of a pattern: eta, and vectors g_1, ..., g_m
 * of `rank` numbers; nu = eta^2, Y = the products of the g made unit vectors. Every point is then feasible, every Y can
 * be reached (a rank of sqrt(2m) suffices for the best one), and a pattern leaves at eta = 0, a finite point. With F =
 * 2 ln T - ln sum nu - ln sum p and dT = <X, dV>/2,
 *
 *     dF/deta = 2 eta (<X_p,Y>/T - 1/sum nu),   dF/dg_i = 2 nu (X_p g)_i / T, the part across g_i over |g_i|.
 *
 * For the max loss p_t is the square of an unknown too, dF/dp_t = rows_t/(p_t T) - 1/sum p, with a barrier
 * mu sum ln(p_t / mean p).
 */
#include "optimum/patterns/patterns.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "optimum/epochs/epochs.h"

#include <math.h>
#include <string.h>

void patterns_dual_free(patterns_dual *d) {
    base_free(d->memory);
    *d = (patterns_dual){0};
}

static epochs_mean mean_of(const patterns_dual *d) {
    return (epochs_mean){d->n, d->a, d->lower, d->w, d->left, d->x, d->values, d->rows};
}

dpmf_status patterns_dual_create(const dpmf_workload *workload, int64_t k, int max_loss, const double *weights,
                                 patterns_dual *out) {
    const int64_t n = workload->steps, square = n * n;
    patterns_dual d = {.n = n, .max_loss = max_loss, .weights = weights};
    TRY(base_alloc_doubles(6 * square + 3 * n + 2 * k * (k + 2), "the dual", &d.memory));
    double **const squares[] = {&d.a, &d.v, &d.lower, &d.w, &d.left, &d.x};
    for (int i = 0; i < 6; i++)
        *squares[i] = d.memory + i * square;
    d.values = d.memory + 6 * square;
    d.p = d.values + n;
    d.rows = d.p + n;
    d.unit = d.rows + n; /* unit vectors, and X times them; a rank is at most k + 2 */
    const epochs_mean mean = mean_of(&d);
    dpmf_status status = epochs_mean_load(workload, &mean, d.a);
    if (status == DPMF_OK)
        *out = d;
    else
        patterns_dual_free(&d);
    return status;
}

/* The vectors of a part, of length 1; 0 if one vanishes. */
static int unit_vectors(const patterns_part *part, const double *y, double *unit) {
    for (int64_t i = 0; i < part->size; i++) {
        const double *g = y + part->at + 1 + i * part->rank;
        const double norm = sqrt(base_dot(part->rank, g, g));
        if (!(norm > 1e-100 && norm < 1e100)) return 0;
        for (int64_t r = 0; r < part->rank; r++)
            unit[i * part->rank + r] = g[r] / norm;
    }
    return 1;
}

static int build(patterns_dual *d, const double *y) {
    const int64_t n = d->n;
    memset(d->v, 0, (size_t)(n * n) * sizeof *d->v);
    d->total = 0;
    for (int64_t q = 0; q < d->parts_count; q++) {
        const patterns_part *part = &d->parts[q];
        const double nu = y[part->at] * y[part->at];
        if (!unit_vectors(part, y, d->unit)) return 0;
        d->total += nu;
        for (int64_t i = 0; i < part->size; i++)
            for (int64_t j = 0; j < part->size; j++)
                d->v[part->steps[i] * n + part->steps[j]] +=
                    nu * (i == j ? 1 : base_dot(part->rank, d->unit + i * part->rank, d->unit + j * part->rank));
    }
    return d->total > 0 && isfinite(d->total);
}

static void pull_part(const patterns_dual *d, const patterns_part *part, const double *y, double *gradient) {
    const int64_t m = part->size, rank = part->rank;
    const double eta = y[part->at];
    double inner = 0, *pulled = d->unit + m * rank;
    (void)unit_vectors(part, y, d->unit);
    for (int64_t i = 0; i < m; i++) {
        double *to = pulled + i * rank, *at = gradient + part->at + 1 + i * rank;
        const double *u = d->unit + i * rank, *g = y + part->at + 1 + i * rank;
        memset(to, 0, (size_t)rank * sizeof *to);
        for (int64_t j = 0; j < m; j++)
            for (int64_t r = 0; r < rank; r++)
                to[r] += d->x[part->steps[i] * d->n + part->steps[j]] * d->unit[j * rank + r];
        const double along = base_dot(rank, to, u), norm = sqrt(base_dot(rank, g, g));
        inner += along;
        for (int64_t r = 0; r < rank; r++)
            at[r] = -2 * eta * eta * (to[r] - along * u[r]) / (d->trace * norm);
    }
    gradient[part->at] = -2 * eta * (inner / d->trace - 1 / d->total);
}

/* p of the max loss; 0 if one is too small to continue with. */
static int set_weights(patterns_dual *d, const double *root, double *logarithms) {
    d->weight = 1;
    *logarithms = 0;
    if (!d->max_loss) return 1;
    for (int64_t t = 0; t < d->n; t++) {
        d->p[t] = root[t] * root[t];
        if (!(d->p[t] > 1e-100)) return 0;
        *logarithms += log(d->p[t]);
    }
    d->weight = base_sum(d->n, d->p);
    *logarithms -= (double)d->n * log(d->weight / (double)d->n);
    return 1;
}

dpmf_status patterns_dual_value(void *dual, const double *y, double *f, double *gradient) {
    patterns_dual *d = dual;
    const epochs_mean mean = mean_of(d);
    const double *root = y + d->unknowns - d->n;
    double logarithms = 0;
    int inside = 0;
    *f = INFINITY;
    if (!set_weights(d, root, &logarithms) || !build(d, y)) return DPMF_OK;
    TRY(epochs_mean_make(&mean, d->v, d->max_loss ? d->p : d->weights, &d->trace, &inside));
    if (!inside) return DPMF_OK;
    *f = d->offset - (2 * log(d->trace) - log(d->total) - log(d->weight) + d->barrier * logarithms);
    for (int64_t q = 0; q < d->parts_count; q++)
        pull_part(d, &d->parts[q], y, gradient);
    for (int64_t t = 0; d->max_loss && t < d->n; t++)
        gradient[d->unknowns - d->n + t] =
            -2 * root[t] *
            ((d->rows[t] / d->trace + d->barrier) / d->p[t] - (1 + d->barrier * (double)d->n) / d->weight);
    return DPMF_OK;
}
