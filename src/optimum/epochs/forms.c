/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cyclic participation, other constraints on X = C'C (Choquette-Choo et al. 2023, Appendix I.3): small problems, which
 * show the cost of zeros between the steps of one unit.
 *
 *     non-negative   X >= 0 everywhere, and the sum of X over the steps of each unit at most 1
 *     corners        u'Xu <= 1 for every choice of signs u on the steps of each unit: contributions of one coordinate
 *
 * Minimise tr(A'PA X^-1) under these. With multipliers nu_i of the classes and Z >= 0 of the entries, or mu_u >= 0 of
 * the corners, weak duality gives for every positive definite
 *
 *     V = sum_i nu_i 1_i 1_i' - Z     or     V = sum_u mu_u u u'
 *
 * the lower bound |P^1/2 A L|_*^2 / sum nu (or sum mu), V = L L'. It is maximised by limited-memory BFGS with squares
 * for unknowns that must not be negative; a V that is not positive definite lies outside. Then X = V^-1 # A'PA,
 * repaired (negative entries to 0, classes scaled to fit), is a mechanism and its loss an upper bound. Dense algebra,
 * n^3 per step.
 *
 * The optimum with zeros between the steps of one unit (optimum/epochs/epochs.h), which structure makes far faster, comes
 * first for X >= 0. Its V has blocks with an equal diagonal nu_i, and is positive definite, so that no entry of a block is
 * above nu_i: it is a V of this problem too, with Z = nu_i - V there and 0 elsewhere, and its bound holds here. Where its X
 * has no negative entry it is feasible here, and so both optima are the same: for prefix sums and decays this is all. With
 * momentum some entries are negative, and the ascent continues from there.
 */
#include "optimum/epochs/epochs.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/minimize.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct forms {
    const epochs_forms_task *task;
    int64_t n, k, b, unknowns, first_weight;
    double *a, *v, *lower, *w, *left, *x, *values, *p, *rows; /* A; V; L; SVD; X; singular values; max loss */
    double *y;
    double trace, total, scale, value; /* value: the lower bound at the last point */
    double barrier;                    /* max loss: keeps weights from 0, as in optimum/epochs/climb.c */
} forms;

static int64_t class_members(const forms *f, int64_t i) {
    return (f->n - i + f->b - 1) / f->b;
}

static int64_t corners(const forms *f, int64_t i) {
    return (int64_t)1 << (class_members(f, i) - 1);
}

/* Sign of member e in corner u; the first is always +. */
static double sign_of(int64_t u, int64_t e) {
    return e > 0 && (u >> (e - 1) & 1) ? -1 : 1;
}

static epochs_mean mean_of(const forms *f) {
    return (epochs_mean){f->n, f->a, f->lower, f->w, f->left, f->x, f->values, f->rows};
}

static void start_dual(forms *f) {
    int64_t n = f->n, at = f->b;
    for (int64_t i = 0; i < f->unknowns; i++)
        f->y[i] = 1;
    if (f->task->constraint == DPMF_CONSTRAINT_CORNERS) return;
    for (int64_t i = 0; i < f->b; i++)
        f->y[i] = 0;
    for (int64_t t = 0; t < n; t++) /* V nearly the identity */
        for (int64_t u = t + 1; u < n; u++, at++)
            f->y[at] = (u - t) % f->b == 0 ? 1 : sqrt(0.1 / (double)n);
}

/* Over n: Z of entries that are negative in X, ten times that of the others, at first; where V is then not definite, less. */
static const double FIRST = 1e-2, LAST = 1e-9;

/* The unknowns of V = sum nu 1 1' - Z for the V and X of zeros. None is 0, where a square has no slope. */
static void start_from_zeros(forms *f, const double *x, double first) {
    const int64_t n = f->n, b = f->b, k = (n + b - 1) / b;
    int64_t at = b;
    for (int64_t t = 0; t < n; t++) {
        const double *row = f->task->zero_factors + (t % b) * k * k + t / b * k, mine = base_dot(k, row, row);
        f->y[t % b] = log(mine);
        for (int64_t u = t + 1; u < n; u++, at++) {
            const double *other = f->task->zero_factors + (u % b) * k * k + u / b * k;
            const double z = (u - t) % b == 0   ? 1 - base_dot(k, row, other) / mine
                             : x[t * n + u] < 0 ? first / (double)n
                                                : 0.1 * first / (double)n;
            f->y[at] = sqrt(fmax(z, 0.1 * LAST / (double)n));
        }
    }
    for (int64_t t = 0; f->task->max_loss && t < n; t++)
        f->y[f->first_weight + t] = sqrt(f->task->zero_p[t]);
}

/* x = c'c, both triangles. */
static void fill_gram(int64_t n, const double *c, double *x) {
    memset(x, 0, (size_t)(n * n) * sizeof *x);
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i <= t; i++) {
            const double factor = c[t * n + i];
            for (int64_t j = 0; j <= i; j++)
                x[i * n + j] += factor * c[t * n + j];
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < i; j++)
            x[j * n + i] = x[i * n + j];
}

static dpmf_status forms_create(const epochs_forms_task *task, forms *f) {
    int64_t n = task->workload->steps;
    *f = (forms){.task = task, .n = n, .k = task->k, .b = task->b, .scale = 1};
    f->barrier = task->max_loss ? 0.3 * task->tolerance / (double)n : 0;
    if (task->constraint == DPMF_CONSTRAINT_CORNERS)
        for (int64_t i = 0; i < f->b; i++)
            f->first_weight += corners(f, i);
    else
        f->first_weight = f->b + n * (n - 1) / 2;
    f->unknowns = f->first_weight + (task->max_loss ? n : 0);
    double **squares[] = {&f->a, &f->v, &f->lower, &f->w, &f->left, &f->x};
    for (size_t i = 0; i < sizeof squares / sizeof squares[0]; i++)
        TRY(base_alloc_square(n, "a matrix", squares[i]));
    TRY(base_alloc_doubles(n, "singular values", &f->values));
    TRY(base_alloc_doubles(n, "weights of the rows", &f->p));
    TRY(base_alloc_doubles(n, "rows", &f->rows));
    TRY(base_alloc_doubles(f->unknowns, "the dual variables", &f->y));
    start_dual(f);
    const epochs_mean mean = mean_of(f);
    return epochs_mean_load(task->workload, &mean, f->a);
}

/* ---- V from the unknowns, and back ---- */

static void build(forms *f, const double *y) {
    int64_t n = f->n, b = f->b;
    memset(f->v, 0, (size_t)(n * n) * sizeof *f->v);
    f->total = 0;
    if (f->task->constraint == DPMF_CONSTRAINT_CORNERS) {
        for (int64_t i = 0; i < b; i++)
            for (int64_t u = 0; u < corners(f, i); u++, y++) {
                f->total += *y * *y;
                for (int64_t e = 0; e < class_members(f, i); e++)
                    for (int64_t g = 0; g < class_members(f, i); g++)
                        f->v[(i + e * b) * n + i + g * b] += *y * *y * sign_of(u, e) * sign_of(u, g);
            }
        return;
    }
    const double *pair = y + b;
    for (int64_t i = 0; i < b; i++)
        f->total += exp(y[i]);
    for (int64_t t = 0; t < n; t++) {
        f->v[t * n + t] = exp(y[t % b]);
        for (int64_t u = t + 1; u < n; u++, pair++)
            f->v[t * n + u] = f->v[u * n + t] =
                exp(0.5 * (y[t % b] + y[u % b])) * ((u - t) % b == 0 ? 1 - *pair * *pair : -*pair * *pair);
    }
}

/* The gradient of ln(trace^2 / total) from X. */
static void pull_back(const forms *f, const double *y, double *gradient) {
    int64_t n = f->n, b = f->b;
    if (f->task->constraint == DPMF_CONSTRAINT_CORNERS) {
        for (int64_t i = 0; i < b; i++)
            for (int64_t u = 0; u < corners(f, i); u++, y++, gradient++) {
                double sum = 0;
                for (int64_t e = 0; e < class_members(f, i); e++)
                    for (int64_t g = 0; g < class_members(f, i); g++)
                        sum += f->x[(i + e * b) * n + i + g * b] * sign_of(u, e) * sign_of(u, g);
                *gradient = 2 * *y * (sum / f->trace - 1 / f->total);
            }
        return;
    }
    const double *pair = y + b;
    double *to = gradient + b;
    for (int64_t i = 0; i < b; i++)
        gradient[i] = -exp(y[i]) / f->total;
    for (int64_t t = 0; t < n; t++) {
        gradient[t % b] += base_dot(n, f->x + t * n, f->v + t * n) / f->trace;
        for (int64_t u = t + 1; u < n; u++, pair++, to++)
            *to = -4 * *pair * exp(0.5 * (y[t % b] + y[u % b])) * f->x[t * n + u] / f->trace;
    }
}

static dpmf_status dual_value(void *context, const double *y, double *out, double *gradient) {
    forms *f = context;
    int inside = 0;
    double weights = 1;
    const double *root = y + f->first_weight;
    double logarithms = 0;
    *out = INFINITY;
    build(f, y);
    for (int64_t t = 0; f->task->max_loss && t < f->n; t++) {
        f->p[t] = root[t] * root[t];
        if (!(f->p[t] > 1e-100)) return DPMF_OK;
        logarithms += log(f->p[t]);
    }
    if (f->task->max_loss) weights = base_sum(f->n, f->p);
    /* X and the trace for V and p; 0 if V is not positive definite. */
    const epochs_mean mean = mean_of(f);
    TRY(epochs_mean_make(&mean, f->v, f->task->max_loss ? f->p : f->task->weights, &f->trace, &inside));
    if (!inside) return DPMF_OK;
    f->value = (f->trace / f->total) * (f->trace / weights);
    *out = f->scale / f->value * exp(-f->barrier * (logarithms - (double)f->n * log(weights / (double)f->n)));
    pull_back(f, y, gradient);
    for (int64_t t = 0; f->task->max_loss && t < f->n; t++)
        gradient[f->first_weight + t] =
            2 * root[t] * ((f->rows[t] / f->trace + f->barrier) / f->p[t] - (1 + f->barrier * (double)f->n) / weights);
    for (int64_t i = 0; i < f->unknowns; i++)
        gradient[i] *= -*out;
    return DPMF_OK;
}

/* x becomes C, scaled to satisfy the constraint; the squared loss of C, or INFINITY. */
static dpmf_status repair(forms *f, double *x, double *squared) {
    int64_t n = f->n;
    int definite = 0;
    if (f->task->constraint == DPMF_CONSTRAINT_NON_NEGATIVE)
        for (int64_t i = 0; i < n * n; i++)
            x[i] = fmax(x[i], 0);
    for (int64_t i = 0; i < f->b; i++) {
        /* The quantity that the constraint bounds by 1 for class i. */
        int64_t count = f->task->constraint == DPMF_CONSTRAINT_CORNERS ? corners(f, i) : 1;
        double largest = 0;
        for (int64_t u = 0; u < count; u++) {
            double sum = 0;
            for (int64_t e = 0; e < class_members(f, i); e++)
                for (int64_t g = 0; g < class_members(f, i); g++)
                    sum += x[(i + e * f->b) * f->n + i + g * f->b] * sign_of(u, e) * sign_of(u, g);
            largest = fmax(largest, sum);
        }
        double root = sqrt(largest * (1 + 64 * (double)n * DBL_EPSILON));
        for (int64_t t = i; t < n; t += f->b)
            f->rows[t] = 1 / root;
    }
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < n; u++)
            x[t * n + u] *= f->rows[t] * f->rows[u];
    *squared = INFINITY;
    TRY(epochs_factor(n, x, &definite));
    if (!definite) return DPMF_OK;
    memcpy(f->w, x, (size_t)(n * n) * sizeof *x);
    return epochs_loss(f->task->workload, f->task->max_loss, f->task->weights, f->w, squared);
}

/* The bounds at y; the better mechanism is kept. */
static dpmf_status certify_dual(forms *f, double *gradient, double *x, epochs_forms_answer *best) {
    double at = 0, squared = INFINITY;
    f->scale = 1;
    TRY(dual_value(f, f->y, &at, gradient));
    best->lower = fmax(best->lower, f->value * (1 - 64 * (double)f->n * DBL_EPSILON));
    memcpy(x, f->x, (size_t)(f->n * f->n) * sizeof *x);
    TRY(repair(f, x, &squared));
    if (squared < best->upper) {
        best->upper = squared;
        memcpy(best->c, x, (size_t)(f->n * f->n) * sizeof *x);
    }
    f->scale = 1 / at;
    return DPMF_OK;
}

/* The optimum with zeros as a mechanism of this problem and as its first bound; y becomes its V if that is not enough. */
static dpmf_status take_zeros(forms *f, double *gradient, double *x, epochs_forms_answer *best) {
    const epochs_forms_task *task = f->task;
    double squared = INFINITY, at = INFINITY;
    best->lower = task->zero_lower;
    fill_gram(f->n, task->zero_c, x);
    memcpy(f->v, x, (size_t)(f->n * f->n) * sizeof *x);
    TRY(repair(f, x, &squared));
    if (isfinite(squared)) {
        best->upper = squared;
        memcpy(best->c, x, (size_t)(f->n * f->n) * sizeof *x);
    }
    best->converged = sqrt(best->upper / best->lower) - 1 <= task->tolerance;
    memcpy(x, f->v, (size_t)(f->n * f->n) * sizeof *x); /* `build` overwrites v */
    for (double first = FIRST; !best->converged && !isfinite(at) && first > LAST; first *= 0.1) {
        start_from_zeros(f, x, first);
        TRY(dual_value(f, f->y, &at, gradient));
    }
    if (!best->converged && !isfinite(at)) start_dual(f);
    return DPMF_OK;
}

dpmf_status epochs_forms_check(const epochs_forms_task *task) {
    int64_t n = task->workload->steps;
    int is_corners = task->constraint == DPMF_CONSTRAINT_CORNERS;
    if (task->workload->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload operator: its optimum is not known");
    if (is_corners && (n > EPOCHS_CORNERS_STEPS_MAX || task->k > EPOCHS_CORNERS_COUNT_MAX))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "constraint corners: %lld steps and %lld participations, accepted up to %d and %d",
                         (long long)n, (long long)task->k, EPOCHS_CORNERS_STEPS_MAX, EPOCHS_CORNERS_COUNT_MAX);
    if (!is_corners && n > EPOCHS_NON_NEGATIVE_STEPS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "constraint non-negative: %lld steps, accepted up to %d", (long long)n,
                         EPOCHS_NON_NEGATIVE_STEPS_MAX);
    return DPMF_OK;
}

dpmf_status epochs_forms_solve(const epochs_forms_task *task, epochs_forms_answer *out) {
    enum { ROUNDS = 6 };
    forms f = {0};
    epochs_forms_answer best = {.upper = INFINITY};
    double *gradient = NULL, *x = NULL, decrease = task->tolerance;
    const int64_t steps = task->workload->steps;
    /* As many evaluations as take minutes: n^3 each. */
    const int limit = (int)fmax(12, fmin(400, 400 * pow(256 / (double)steps, 3)));
    dpmf_status status = DPMF_OK;
    TRY(epochs_forms_check(task));
    TRY_DONE(forms_create(task, &f));
    TRY_DONE(base_alloc_doubles(f.unknowns, "a gradient", &gradient));
    TRY_DONE(base_alloc_square(f.n, "X", &x));
    TRY_DONE(base_alloc_square(f.n, "C", &best.c));
    if (task->zero_c != NULL) TRY_DONE(take_zeros(&f, gradient, x, &best));
    if (!best.converged) TRY_DONE(certify_dual(&f, gradient, x, &best));
    for (int round = 0; round < (limit < 400 ? 2 : ROUNDS) && !best.converged; round++, decrease *= 0.1) {
        base_objective objective = {f.unknowns, &f, dual_value};
        base_minimize_options options = {.gradient = 1e-13,
                                         .decrease = decrease,
                                         .iterations = limit,
                                         .pairs = limit < 400 ? 6 : 20,
                                         .what = "cyclic optimum: start over dual",
                                         .run = task->run};
        base_minimum found;
        TRY_DONE(base_minimize(&objective, &options, f.y, &found));
        best.iterations += found.iterations;
        TRY_DONE(certify_dual(&f, gradient, x, &best));
        best.converged = sqrt(best.upper / best.lower) - 1 <= task->tolerance;
    }
    if (!isfinite(best.upper))
        TRY_DONE(base_fail(DPMF_ERROR_NUMERICAL, "cyclic optimum: no positive definite X was found"));
    *out = best;
    best.c = NULL;
done:
    base_free(best.c);
    base_free(gradient);
    base_free(x);
    double *all[] = {f.a, f.v, f.lower, f.w, f.left, f.x, f.values, f.p, f.rows, f.y};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        base_free(all[i]);
    return status;
}

/*
 * ---- full participation ----
 *
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

typedef struct rows {
    int64_t n;
    double *squares; /* n x n: A_tu^2 */
    double *p, *c, *loss;
} rows;

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
    base_free(r.squares);
    base_free(r.p);
    base_free(r.c);
    base_free(r.loss);
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
