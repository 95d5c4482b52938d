/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dual of the optimum under cyclic participation, evaluated.
 *
 * Minimise tr(A'PA X^-1) over X > 0 with X[t,u] = 0 for two steps of one class and sum_{t in class} X_tt = 1
 * (Pillutla et al. 2025, Problem 4.6). With V symmetric, supported on pairs of one class, its diagonal a constant nu_i in
 * class i, tr(A'PA X^-1) + tr(V X) >= 2 tr((L'A'PAL)^1/2) for every X > 0 and V = L L', so that
 *
 *     2 |P^1/2 A L|_* - sum_i nu_i   and, by the best scaling of V,   |P^1/2 A L|_*^2 / sum_i nu_i
 *
 * are lower bounds, attained at the optimum. For the max loss p is free in the simplex: max_t [A X^-1 A']_tt is the
 * maximum over p of tr(A'PA X^-1).
 *
 * All results come from the blocks of X(V) = sum_j w_j (K + s_j V)^-1, K = A^-1 P^-1 A^-T (base/special.h): the norm
 * is tr V X, its derivative by V is X/2. Since (K + sV)^-1 is needed within classes only and K is banded, that is O(n
 * k^2) per node (optimum/epochs/node.c) instead of O(n^3). For the max loss, p_t [A X^-1 A']_tt is the diagonal of
 *
 *     P sum_j w_j (A^-T V^-1 A^-1 + s_j P)^-1,
 *
 * a matrix of the same kind with time reversed.
 *
 * Interval: with large_t and small_t bounds on the eigenvalues of V_i at the steps of class i, diag(small) <= V <=
 * diag(large), and the spectrum of V^-1/2 K V^-1/2 lies between that of the two diagonals (optimum/phi.h).
 *
 * optimum/epochs/dense.c serves Nesterov momentum (K is not banded), matrices, and epochs no longer than the bands.
 */
#include "optimum/epochs/epochs.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* A point whose trace is less certain than this counts as outside: rounding must not lead the ascent. */
static const double ERROR_MAX = 0.01;

static dpmf_status create_blocks(optimum_epochs *e) {
    int64_t size = e->b * e->k * e->k;
    e->workers = base_pool_threads(e->pool);
    TRY(optimum_phi_create(e->workload, e->pool, &e->phi));
    TRY(epochs_shape_create(e->workload, e->k, e->b, 0, &e->shape));
    if (e->max_loss) TRY(epochs_shape_create(e->workload, e->k, e->b, 1, &e->reversed));
    epochs_shape_weigh(&e->shape, e->workload, e->weights);
    TRY(base_alloc(e->workers, sizeof *e->scratch, "scratch", (void **)&e->scratch));
    for (int i = 0; i < e->workers; i++)
        TRY(epochs_node_create(&e->shape, &e->scratch[i]));
    TRY(base_alloc_doubles(size, "the blocks of V", &e->v));
    TRY(base_alloc_doubles(e->n, "eigenvalues", &e->small));
    return base_alloc_doubles(e->n, "eigenvalues", &e->large);
}

static dpmf_status wants_dense(const dpmf_workload *a, int64_t b, int *dense) {
    int q_bands = -1, r_bands = 0;
    if (a->form == WORKLOAD_OPERATOR)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "workload operator: its optimum is not known");
    workload_inverse_bands(a, &q_bands, &r_bands);
    *dense = q_bands < 0 || r_bands > 0 || b <= (q_bands < 1 ? 1 : q_bands);
    if (*dense && a->steps > EPOCHS_DENSE_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s, %lld steps, separation %lld: the cyclic optimum of a workload whose inverse is "
                         "not banded, or has as many bands as an epoch has steps, is known up to %d steps",
                         a->text, (long long)a->steps, (long long)b, EPOCHS_DENSE_MAX);
    return DPMF_OK;
}

dpmf_status epochs_create(const dpmf_workload *workload, int64_t k, int64_t b, int max_loss, const double *weights,
                          base_pool *pool, optimum_epochs *out) {
    optimum_epochs e = {.workload = workload,
                        .pool = pool,
                        .n = workload->steps,
                        .k = k,
                        .b = b,
                        .max_loss = max_loss,
                        .weights = weights};
    dpmf_status status = DPMF_OK;
    TRY_DONE(wants_dense(workload, b, &e.dense));
    TRY_DONE(e.dense ? epochs_dense_create(&e) : create_blocks(&e));
    *out = e;
    e = (optimum_epochs){0};
done:
    epochs_free(&e);
    return status;
}

void epochs_free(optimum_epochs *e) {
    for (int i = 0; e->scratch != NULL && i < e->workers; i++)
        epochs_node_free(&e->scratch[i]);
    base_free(e->scratch);
    optimum_phi_free(e->phi);
    epochs_shape_free(&e->shape);
    epochs_shape_free(&e->reversed);
    base_free(e->partial);
    base_free(e->partial_rows);
    base_free(e->v);
    base_free(e->small);
    base_free(e->large);
    base_free(e->matrix);
    base_free(e->work);
    base_free(e->left);
    base_free(e->values);
    *e = (optimum_epochs){0};
}

double epochs_cost(const optimum_epochs *e) {
    double n = (double)e->n, k = (double)e->k, blocks = e->shape.p > 1 ? 3 : 1;
    return (e->max_loss ? 2 : 1) * (e->dense ? 5e-3 * n * n * n : 0.1 * blocks * n * k * k);
}

void epochs_invert_block(int64_t k, const double *l, double *inverse) {
    memset(inverse, 0, (size_t)(k * k) * sizeof *inverse);
    for (int64_t i = 0; i < k; i++) {
        double *row = inverse + i * k;
        for (int64_t j = 0; j < i; j++)
            for (int64_t c = 0; c <= j; c++)
                row[c] -= l[i * k + j] * inverse[j * k + c];
        row[i] = 1;
        for (int64_t c = 0; c <= i; c++)
            row[c] /= l[i * k + i];
    }
}

/* Over the m members: largest eigenvalue <= |V_i|_F, smallest >= 1 / |L_i^-1|_F^2. `inverse`: k x k, L_i^-1 on return. */
static void block_bounds(optimum_epochs *e, const double *lower, int64_t i, double *inverse) {
    int64_t k = e->k, m = (e->n - i + e->b - 1) / e->b; /* m: members of class i within the steps */
    const double *l = lower + i * k * k;
    double squares = 0, inverses = 0;
    epochs_invert_block(k, l, inverse);
    for (int64_t r = 0; r < m; r++)
        for (int64_t c = 0; c <= r; c++) {
            double v = 0;
            for (int64_t j = 0; j <= c; j++)
                v += l[r * k + j] * l[c * k + j];
            e->v[(i * k + r) * k + c] = e->v[(i * k + c) * k + r] = v;
            squares += (r == c ? 1 : 2) * v * v;
            inverses += inverse[r * k + c] * inverse[r * k + c];
        }
    for (int64_t t = i; t < e->n; t += e->b) {
        e->large[t] = sqrt(squares);
        e->small[t] = 1 / inverses;
    }
}

enum { SIDE = EPOCHS_SIDE };

static int groups_of(const optimum_epochs *e) {
    return (e->rule.count + SIDE - 1) / SIDE;
}

typedef struct job {
    optimum_epochs *e;
    const double *lower, *roots; /* roots: b diagonal blocks, for the reversed problem */
    int64_t first;               /* group of the first item */
} job;

/* Unused nodes of the last group have weight 0. */
void epochs_group(const optimum_epochs *e, int64_t group, double shift[SIDE], double weight[SIDE]) {
    for (int j = 0; j < SIDE; j++) {
        const int64_t node = group * SIDE + j;
        shift[j] = e->rule.shift[node < e->rule.count ? node : e->rule.count - 1];
        weight[j] = node < e->rule.count ? e->rule.weight[node] : 0;
    }
}

static dpmf_status run_group(void *context, int64_t item, int worker) {
    const job *j = context;
    optimum_epochs *e = j->e;
    const int64_t group = j->first + item;
    double shift[SIDE], weight[SIDE], *out = e->partial + (e->only_traces ? worker : group) * e->b * e->k * e->k;
    epochs_group(e, group, shift, weight);
    epochs_node_run(&e->shape, j->lower, shift, &e->scratch[worker]);
    const int64_t k = e->k;
    kernels_block_side traces = {0}; /* <V, T> for each node */
    for (int64_t i = 0; i < e->b; i++) {
        int64_t stride = 0;
        const kernels_block_side *t = epochs_node_block(&e->shape, &e->scratch[worker], i, &stride);
        for (int64_t r = 0; r < k; r++)
            for (int64_t c = 0; c < k; c++) {
                const kernels_block_side x = t[r * stride + c];
                const int64_t at = (i * k + r) * k + c;
                traces += e->v[at] * x;
                out[at] = (weight[0] * x[0] + weight[1] * x[1]) + (weight[2] * x[2] + weight[3] * x[3]);
            }
    }
    for (int q = 0; q < SIDE && group * SIDE + q < e->rule.count; q++)
        e->traces[group * SIDE + q] = traces[q];
    return DPMF_OK;
}

static dpmf_status run_reversed(void *context, int64_t item, int worker) {
    const job *j = context;
    optimum_epochs *e = j->e;
    const epochs_shape *s = &e->reversed;
    epochs_node *node = &e->scratch[worker];
    const int64_t group = j->first + item;
    double *out = e->partial_rows + group * e->k * e->b, shift[SIDE], weight[SIDE];
    epochs_group(e, group, shift, weight);
    epochs_node_run(s, j->roots, shift, node);
    for (int64_t t = 0; t < e->n; t++) {
        int64_t back = e->k * e->b - 1 - t, r = back / e->b, stride = 0;
        const kernels_block_side *block = epochs_node_block(s, node, back % e->b, &stride);
        const kernels_block_side x = block[r * stride + r];
        out[t] = (weight[0] * x[0] + weight[1] * x[1]) + (weight[2] * x[2] + weight[3] * x[3]);
    }
    return DPMF_OK;
}

/* Runs as many groups at a time as there are workers, so that the caller can cancel between them. */
static dpmf_status run_groups(optimum_epochs *e, base_work work, job *j) {
    const int64_t groups = groups_of(e);
    for (j->first = 0; j->first < groups; j->first += e->workers) {
        const int64_t left = groups - j->first;
        TRY(base_progress(e->run, "cyclic optimum", -1));
        TRY(base_pool_run(e->pool, left < e->workers ? left : e->workers, work, j));
    }
    return DPMF_OK;
}

static dpmf_status eval_rows(optimum_epochs *e, epochs_point *point) {
    int64_t k = e->k;
    double *roots = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(e->b * k * k, "the weights of the rows", &roots));
    for (int64_t t = 0; t < k * e->b; t++) {
        int64_t back = k * e->b - 1 - t, i = back % e->b, r = back / e->b;
        roots[(i * k + r) * k + r] = t < e->n ? sqrt(point->p[t]) : 1;
    }
    job j = {.e = e, .roots = roots};
    TRY_DONE(run_groups(e, run_reversed, &j));
    memset(point->rows, 0, (size_t)e->n * sizeof *point->rows);
    for (int group = 0; group < groups_of(e); group++)
        for (int64_t t = 0; t < e->n; t++)
            point->rows[t] += point->p[t] * e->partial_rows[group * k * e->b + t];
done:
    base_free(roots);
    return status;
}

/*
 * The allowance for rounding: node j works with a matrix W of condition sqrt((high + s_j)/(low + s_j)), orthogonal
 * transformations keep backward errors at a modest multiple of the rounding unit, and the trace then moves by that
 * multiple of the condition, in the relative sense. Compared with singular values (prefix sums and momentum, 120 to
 * 1920 steps, 4 and 20 epochs) the error stays below a hundredth of this.
 */
static double rounding_of(const optimum_epochs *e, double low, double high, double shift) {
    return (64 + sqrt((double)e->n)) * DBL_EPSILON * sqrt((high + shift) / (low + shift));
}

/*
 * The rule changes only when it must, since the ascent would mistake the difference between two rules for a slope: the interval
 * is somewhat too wide at first and is kept while the spectrum stays inside without shrinking much.
 */
static void choose_rule(optimum_epochs *e, double tolerance, double low, double high) {
    const double room = 1.5, slack = 30;
    int fits = e->rule.count > 0 && low >= e->low && high <= e->high && e->rule.error <= tolerance;
    if (fits && low <= slack * e->low && high >= e->high / slack) return;
    e->low = low / room;
    e->high = high * room;
    base_quadrature_fill(e->low, e->high, base_quadrature_nodes(e->high / e->low, tolerance), &e->rule);
}

static dpmf_status make_room(optimum_epochs *e) {
    int64_t count = e->only_traces ? e->workers : groups_of(e);
    double *partial = NULL, *rows = NULL;
    if (count <= e->room) return DPMF_OK;
    e->room = 0;
    base_free(e->partial);
    base_free(e->partial_rows);
    e->partial = e->partial_rows = NULL;
    TRY(base_alloc_doubles(e->b * e->k * e->k * count, "the blocks of each node", &partial));
    e->partial = partial;
    if (e->max_loss) TRY(base_alloc_doubles(e->k * e->b * count, "the rows of each node", &rows));
    e->partial_rows = rows;
    e->room = (int)count;
    return DPMF_OK;
}

static dpmf_status eval_blocks(optimum_epochs *e, double tolerance, epochs_point *point, int *outside) {
    int64_t size = e->b * e->k * e->k;
    double low = 0, high = 0, unused = 0, rounding = 0;
    const double *p = e->max_loss ? point->p : e->weights;
    /* Fills the bounds and, for the max loss, the inverses that the reversed problem uses. */
    int64_t k = e->k;
    double *inverse = NULL;
    TRY(base_alloc_doubles(k * k, "an inverse block", &inverse));
    *outside = 0;
    for (int64_t i = 0; i < e->b; i++) {
        block_bounds(e, point->lower, i, inverse);
        if (!(e->small[i] > 1e-12 * e->large[i] && isfinite(e->large[i]))) *outside = 1;
        for (int64_t r = 0; e->max_loss && r < k * k; r++)
            e->reversed.mix[(e->b - 1 - i) * k * k + r] = inverse[k * k - 1 - r];
    }
    base_free(inverse);
    if (*outside) return DPMF_OK;
    dpmf_status status = optimum_phi_interval(e->phi, e->large, p, &low, &unused);
    if (status == DPMF_OK) status = optimum_phi_interval(e->phi, e->small, p, &unused, &high);
    *outside = status == DPMF_ERROR_NUMERICAL; /* beyond double precision */
    if (status != DPMF_OK) return *outside ? DPMF_OK : status;
    *outside = !(rounding_of(e, low, high, 0) < 1 / ERROR_MAX);
    if (*outside) return DPMF_OK;
    choose_rule(e, tolerance, low, high);
    TRY(make_room(e));
    if (e->max_loss) epochs_shape_weigh(&e->shape, e->workload, point->p);
    job j = {.e = e, .lower = point->lower};
    TRY(run_groups(e, run_group, &j));
    memset(point->blocks, 0, (size_t)size * sizeof *point->blocks);
    point->trace = 0;
    for (int group = 0; group < groups_of(e) && !e->only_traces; group++)
        for (int64_t i = 0; i < size; i++)
            point->blocks[i] += e->partial[group * size + i];
    for (int node = 0; node < e->rule.count; node++) {
        double part = e->rule.weight[node] * e->traces[node];
        point->trace += part;
        rounding += part * rounding_of(e, low, high, e->rule.shift[node]);
    }
    point->error = e->rule.error + rounding / point->trace;
    if (!(point->error < ERROR_MAX)) *outside = 1;
    return e->max_loss && !*outside ? eval_rows(e, point) : DPMF_OK;
}

dpmf_status epochs_eval(optimum_epochs *e, double tolerance, epochs_point *point, int *outside) {
    *outside = 0;
    if (!e->dense) return eval_blocks(e, tolerance, point, outside);
    for (int64_t i = 0; i < e->b; i++)
        for (int64_t r = 0; r < e->k; r++)
            if (!(point->lower[(i * e->k + r) * e->k + r] > 0)) *outside = 1;
    return *outside ? DPMF_OK : epochs_dense_eval(e, point);
}
