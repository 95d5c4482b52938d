/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From X to a mechanism and its loss. X(V) of a nearly optimal V nearly satisfies the constraints. It is repaired by a
 * congruence: X becomes T X T', T nearly the identity and coupling the steps of one class only, such that the blocks of
 * the classes become diagonal with trace 1. (Overwriting the entries that should be 0 would add white noise to X, far
 * above its small eigenvalues, which dominate X^-1 and the loss; T changes slowly along an epoch and keeps the
 * cancellations.) Alternatively it is repaired by adding to the diagonal, which only lowers errors but costs
 * sensitivity: never worse than the bound of optimum/epochs/climb.c. With J the reversal of the steps, J X J = L L'
 * gives the lower triangular C = J L' J with C'C = X.
 */
#include "base/linalg.h"

#include "base/memory.h"
#include "kernels/block/block.h"
#include "optimum/epochs/epochs.h"
#include "sensitivity/sensitivity.h"
#include "workload/workload.h"

#include <float.h>
#include <math.h>
#include <string.h>

dpmf_status epochs_factor(int64_t n, double *x, int *definite) {
    base_reverse(n * n, x);
    dpmf_status status = base_cholesky(n, x);
    *definite = status != DPMF_ERROR_NUMERICAL;
    if (status != DPMF_OK) return *definite ? status : DPMF_OK;
    base_reverse_across(n, x);
    return DPMF_OK;
}

/* ---- the repair ---- */

/* T for class i, m x m: D^2 the diagonal of X_i, R = D^-1 X_i D^-1, T = D R^-1/2 D^-1 / sqrt(trace); 0: X_i is not definite. */
static dpmf_status class_transform(int64_t n, int64_t b, int64_t i, int64_t m, const double *x, double *vectors,
                                   double *values, double *transform, int *definite) {
    double trace = 0;
    for (int64_t r = 0; r < m; r++) {
        double d = x[(i + r * b) * n + i + r * b];
        trace += d;
        if (!(d > 0 && isfinite(d))) *definite = 0;
        for (int64_t q = 0; q < m && *definite; q++)
            vectors[r * m + q] =
                x[(i + r * b) * n + i + q * b] / sqrt(d * fmax(x[(i + q * b) * n + i + q * b], DBL_MIN));
    }
    if (!*definite) return DPMF_OK;
    TRY(base_symmetric_eigen(m, vectors, values));
    if (!(values[0] > 0)) *definite = 0;
    for (int64_t r = 0; r < m && *definite; r++)
        for (int64_t q = 0; q < m; q++) {
            double sum = 0;
            for (int64_t j = 0; j < m; j++)
                sum += vectors[j * m + r] * vectors[j * m + q] / sqrt(values[j]);
            transform[r * m + q] =
                sum * sqrt(x[(i + r * b) * n + i + r * b] / (x[(i + q * b) * n + i + q * b] * trace));
        }
    return DPMF_OK;
}

static dpmf_status repair_by_mixing(int64_t n, int64_t b, double *x, int *definite) {
    int64_t k = (n + b - 1) / b;
    double *transforms = NULL, *vectors = NULL, *values = NULL, *mixed = NULL;
    dpmf_status status = DPMF_OK;
    *definite = 1;
    TRY_DONE(base_alloc_doubles(b * k * k, "the repair of each class", &transforms));
    TRY_DONE(base_alloc_doubles(k * k, "eigenvectors", &vectors));
    TRY_DONE(base_alloc_doubles(k, "eigenvalues", &values));
    TRY_DONE(base_alloc_doubles(k * n, "rows of X", &mixed));
    for (int64_t i = 0; i < b && *definite; i++)
        TRY_DONE(class_transform(n, b, i, (n - i + b - 1) / b, x, vectors, values, transforms + i * k * k, definite));
    if (!*definite) goto done;
    for (int64_t i = 0; i < b; i++) {
        /* rows of class i = T times them; m of them. */
        const int64_t m = (n - i + b - 1) / b;
        memset(mixed, 0, (size_t)(m * n) * sizeof *mixed);
        for (int64_t r = 0; r < m; r++)
            for (int64_t q = 0; q < m; q++) {
                const double *from = x + (i + q * b) * n;
                double by = transforms[i * k * k + r * m + q], *to = mixed + r * n;
                for (int64_t u = 0; u < n; u++)
                    to[u] += by * from[u];
            }
        for (int64_t r = 0; r < m; r++)
            memcpy(x + (i + r * b) * n, mixed + r * n, (size_t)n * sizeof *x);
    }
    /* The same for columns, all classes in one pass over the rows. */
    for (int64_t t = 0; t < n; t++) {
        double *row = x + t * n;
        for (int64_t i = 0; i < b; i++) {
            int64_t m = (n - i + b - 1) / b;
            const double *transform = transforms + i * k * k;
            for (int64_t r = 0; r < m; r++) {
                double sum = 0;
                for (int64_t q = 0; q < m; q++)
                    sum += transform[r * m + q] * row[i + q * b];
                mixed[i + r * b] = sum;
            }
        }
        memcpy(row, mixed, (size_t)n * sizeof *row);
    }
    /* Makes both triangles equal, with zeros where they belong. */
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < t; u++)
            x[t * n + u] = x[u * n + t] = (t - u) % b == 0 ? 0 : 0.5 * (x[t * n + u] + x[u * n + t]);
done:
    base_free(transforms);
    base_free(vectors);
    base_free(values);
    base_free(mixed);
    return status;
}

/* Adds the |X| of zeroed entries to the diagonal; then all is scaled alike, and diagonals are raised to trace 1. */
static void repair_by_adding(int64_t n, int64_t b, double *x) {
    double largest = 0;
    for (int64_t i = 0; i < b; i++) {
        double trace = 0;
        for (int64_t t = i; t < n; t += b) {
            for (int64_t u = i; u < n; u += b) {
                if (u == t) continue;
                x[t * n + t] += fabs(x[t * n + u]);
                x[t * n + u] = 0;
            }
            trace += x[t * n + t];
        }
        largest = fmax(largest, trace);
    }
    for (int64_t j = 0; j < n * n; j++)
        x[j] /= largest;
    for (int64_t i = 0; i < b; i++) {
        double trace = 0;
        for (int64_t t = i; t < n; t += b)
            trace += x[t * n + t];
        for (int64_t t = i; t < n; t += b)
            x[t * n + t] += fmax(0, 1 - trace) / (double)((n - i + b - 1) / b);
    }
}

dpmf_status epochs_repair(int64_t n, int64_t b, int by_adding, double *x, int *definite) {
    *definite = 1;
    if (by_adding)
        repair_by_adding(n, b, x);
    else
        TRY(repair_by_mixing(n, b, x, definite));
    return *definite ? epochs_factor(n, x, definite) : DPMF_OK;
}

dpmf_status epochs_sensitivity(int64_t n, int64_t b, const double *c, double *squared) {
    int64_t k = (n + b - 1) / b;
    double *grams = NULL, largest = 0;
    TRY(base_alloc_doubles(b * k * k, "inner products of columns", &grams));
    for (int64_t t = 0; t < n; t++)
        for (int64_t i = 0; i < b && i <= t; i++) {
            double *gram = grams + i * k * k;
            const double *row = c + t * n;
            for (int64_t r = 0; i + r * b <= t; r++)
                for (int64_t q = 0; q <= r; q++)
                    gram[r * k + q] += row[i + r * b] * row[i + q * b];
        }
    for (int64_t i = 0; i < b; i++) {
        double sum = 0;
        for (int64_t r = 0; r < k; r++)
            for (int64_t q = 0; q <= r; q++)
                sum += (r == q ? 1 : 2) * fabs(grams[(i * k + r) * k + q]);
        largest = fmax(largest, sum);
    }
    base_free(grams);
    *squared = largest * (1 + 2 * (double)(n + k * k) * DBL_EPSILON);
    return DPMF_OK;
}

dpmf_status epochs_loss(const dpmf_workload *a, int max_loss, const double *weights, double *c, double *squared) {
    int64_t n = a->steps;
    double *state = NULL, *row = NULL, total = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_lower_invert(n, c));
    TRY_DONE(base_alloc_doubles(workload_buffers(a) * n + 1, "the state of the workload", &state));
    TRY_DONE(base_alloc_doubles(n, "a row", &row));
    for (int64_t t = 0; t < n; t++) {
        workload_step(a, t, n, c + t * n, state, row);
        double here = base_dot(n, row, row);
        total = max_loss ? fmax(total, here) : total + (weights == NULL ? 1 : weights[t]) * here;
    }
    *squared = total;
done:
    base_free(state);
    base_free(row);
    return status;
}

/*
 * ---- X whole ----
 *
 * The complete X = sum_j w_j (K + s_j V)^-1 from the results of optimum/epochs/node.c for each node: with T the inverse
 * of a node and c a column of a position not before i,
 *
 *     T[i,c] = E_i T[J,c],    J the p positions after i and the border,
 *
 * so that a chunk of columns is computed from its own positions to the first, all nodes side by side: 4 p k operations
 * per entry and node. Chunks are independent, and each entry is the sum over the nodes in their order.
 */

enum { CHUNK = 128 }; /* columns, about: the states of 40 nodes then fit a second-level cache */

/* One node alone, rows of width (2p+1) k */
typedef struct single {
    double *rows;   /* inner x k: [R_ii^-1 | E_i] */
    double *blocks; /* inner x k: [T[i,i] | T[i,J]] */
    double *border; /* p k x p k: T of the border */
} single;

typedef struct filler {
    optimum_epochs *e;
    const double *lower;
    single *nodes;
    int64_t first;     /* group or chunk of the first item */
    int64_t positions; /* in a chunk */
    int64_t columns;   /* stride of a state: the columns of a chunk, padded */
    double *states;    /* workers x (nodes x 2pk + 2k) x columns */
    double *x;
} filler;

static void take_lane(int64_t count, const kernels_block_side *from, int lane, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i][lane];
}

static dpmf_status run_group(void *context, int64_t item, int worker) {
    const filler *f = context;
    const epochs_shape *s = &f->e->shape;
    const epochs_node *node = &f->e->scratch[worker];
    const int64_t group = f->first + item, size = s->inner * s->k * s->width;
    double shift[EPOCHS_SIDE], weight[EPOCHS_SIDE];
    epochs_group(f->e, group, shift, weight);
    epochs_node_run(s, f->lower, shift, &f->e->scratch[worker]);
    for (int lane = 0; lane < EPOCHS_SIDE; lane++) {
        const int64_t j = group * EPOCHS_SIDE + lane;
        if (j >= f->e->rule.count) break;
        take_lane(size, node->rows, lane, f->nodes[j].rows);
        take_lane(size, node->blocks, lane, f->nodes[j].blocks);
        take_lane(s->border * s->border, node->border, lane, f->nodes[j].border);
    }
    return DPMF_OK;
}

static void enter_border(const filler *f, const single *node, double *state) {
    const epochs_shape *s = &f->e->shape;
    int64_t m = s->p * s->k;
    for (int64_t j = 0; j < m; j++)
        memcpy(state + (m + j) * f->columns, node->border + j * s->border, (size_t)m * sizeof *state);
}

/* Writes a block of rows of position i: k rows over the columns of positions [first, last) that are not before i. */
static void write_rows(const filler *f, int64_t i, int64_t first, int64_t last, const double *rows) {
    const optimum_epochs *e = f->e;
    int64_t k = e->k, b = e->b, n = e->n;
    for (int64_t r = 0; r < k && i + r * b < n; r++)
        for (int64_t q = i > first ? i : first; q < last; q++)
            for (int64_t c = 0; c < k && q + c * b < n; c++) {
                double value = rows[r * f->columns + (q - first) * k + c];
                f->x[(i + r * b) * n + q + c * b] = f->x[(q + c * b) * n + i + r * b] = value;
            }
}

/* One node at position i: `row` becomes T[i, columns], and the state that of i - 1. */
static void step_node(const filler *f, const kernels_block_set *kernels, const single *node, int64_t i, int64_t first,
                      int inside, double *state, double *row) {
    const epochs_shape *s = &f->e->shape;
    int64_t k = s->k, slots = s->p * k;
    kernels->multiply(k, 2 * slots, f->columns, node->rows + i * k * s->width + k, s->width, state, f->columns, row,
                      f->columns);
    if (inside) {
        /* The k columns of position i enter the node's state: T[J,i] = T[i,J]'. */
        const double *blocks = node->blocks + i * s->k * s->width;
        for (int64_t j = 0; j < 2 * s->p * s->k; j++)
            for (int64_t c = 0; c < s->k; c++)
                state[j * f->columns + (i - first) * k + c] = blocks[c * s->width + s->k + j];
        for (int64_t r = 0; r < k; r++)
            memcpy(row + r * f->columns + (i - first) * k, node->blocks + (i * k + r) * s->width,
                   (size_t)k * sizeof *row);
    }
    memmove(state + k * f->columns, state, (size_t)((slots - k) * f->columns) * sizeof *state);
    memcpy(state, row, (size_t)(k * f->columns) * sizeof *state);
}

static dpmf_status fill_chunk(void *context, int64_t item, int worker) {
    const filler *f = context;
    const epochs_shape *s = &f->e->shape;
    const kernels_block_set *kernels = kernels_block_get();
    int64_t k = s->k, first = (f->first + item) * f->positions, last = first + f->positions,
            each = 2 * s->p * k * f->columns;
    int nodes = f->e->rule.count, border = first >= s->inner;
    double *states = f->states + worker * (nodes * each + 2 * k * f->columns), *row = states + nodes * each,
           *sum = row + k * f->columns;
    if (last > s->inner) last = s->inner;
    if (border) {
        first = s->inner;
        last = s->b;
    }
    memset(states, 0, (size_t)(nodes * each) * sizeof *states);
    for (int j = 0; j < nodes && border; j++)
        enter_border(f, &f->nodes[j], states + j * each);
    for (int64_t q = first; q < last && border; q++) {
        memset(sum, 0, (size_t)(k * f->columns) * sizeof *sum);
        for (int j = 0; j < nodes; j++)
            for (int64_t r = 0; r < k; r++)
                for (int64_t c = 0; c < s->p * k; c++)
                    sum[r * f->columns + c] +=
                        f->e->rule.weight[j] * f->nodes[j].border[((q - first) * k + r) * s->border + c];
        write_rows(f, q, first, last, sum);
    }
    for (int64_t i = (border ? s->inner : last) - 1; i >= 0; i--) {
        memset(sum, 0, (size_t)(k * f->columns) * sizeof *sum);
        for (int j = 0; j < nodes; j++) {
            step_node(f, kernels, &f->nodes[j], i, first, i >= first, states + j * each, row);
            for (int64_t c = 0; c < k * f->columns; c++)
                sum[c] += f->e->rule.weight[j] * row[c];
        }
        write_rows(f, i, first, last, sum);
    }
    return DPMF_OK;
}

/* Runs as many at a time as there are workers: between them the caller may cancel. */
static dpmf_status run_items(filler *f, int64_t count, base_work work) {
    const int64_t workers = f->e->workers;
    for (f->first = 0; f->first < count; f->first += workers) {
        TRY(base_progress(f->e->run, "cyclic optimum: the matrix", -1));
        TRY(base_pool_run(f->e->pool, count - f->first < workers ? count - f->first : workers, work, f));
    }
    return DPMF_OK;
}

static dpmf_status fill_blocks(optimum_epochs *e, const epochs_point *point, double *x) {
    const epochs_shape *s = &e->shape;
    int nodes = e->rule.count;
    filler f = {.e = e, .lower = point->lower, .x = x};
    dpmf_status status = DPMF_OK;
    f.positions = CHUNK / s->k < 2 ? 2 : CHUNK / s->k;
    f.columns = kernels_block_pad(f.positions * s->k); /* the border's p <= 2 positions fit too */
    int64_t chunks = (s->inner + f.positions - 1) / f.positions;
    TRY_DONE(base_alloc(nodes, sizeof *f.nodes, "nodes", (void **)&f.nodes));
    for (int j = 0; j < nodes; j++) {
        TRY_DONE(base_alloc_doubles(s->inner * s->k * s->width, "the factor of a node", &f.nodes[j].rows));
        TRY_DONE(base_alloc_doubles(s->inner * s->k * s->width, "the blocks of a node", &f.nodes[j].blocks));
        TRY_DONE(base_alloc_doubles(s->border * s->border, "the border of a node", &f.nodes[j].border));
    }
    TRY_DONE(base_alloc_doubles(e->workers * (2 * s->p * nodes + 2) * s->k * f.columns, "columns of X", &f.states));
    TRY_DONE(run_items(&f, (nodes + EPOCHS_SIDE - 1) / EPOCHS_SIDE, run_group));
    /* one more chunk than the inner positions need is for the border */
    f.positions = (s->inner + chunks - 1) / chunks;
    chunks = (s->inner + f.positions - 1) / f.positions;
    TRY_DONE(run_items(&f, chunks + 1, fill_chunk));
done:
    for (int j = 0; f.nodes != NULL && j < nodes; j++) {
        base_free(f.nodes[j].rows);
        base_free(f.nodes[j].blocks);
        base_free(f.nodes[j].border);
    }
    base_free(f.nodes);
    base_free(f.states);
    return status;
}

dpmf_status epochs_fill(optimum_epochs *e, const epochs_point *point, double *x) {
    int64_t k = e->k, b = e->b;
    TRY(e->dense ? epochs_fill_dense(e, x) : fill_blocks(e, point, x));
    for (int64_t i = 0; i < b; i++)
        for (int64_t r = 0; i + r * b < e->n; r++)
            for (int64_t q = 0; i + q * b < e->n; q++)
                x[(i + r * b) * e->n + i + q * b] += point->added[(i * k + r) * k + q];
    return DPMF_OK;
}

/*
 * ---- the sensitivity from above ----
 *
 * The sensitivity of a point of the dual, from above: the largest over the classes of
 *
 *     f(X_i) = min { tr D : D diagonal, D - X_i positive semidefinite }
 *
 * (sensitivity/pattern.c). Replacing X_i by D in every class adds a positive semidefinite matrix to X: no error becomes
 * larger, the steps of a class are orthogonal, and the squared sensitivity is the largest trace.
 *
 * At the top of the dual V_i over its diagonal is the matrix of inner products that attains f(X_i), and close to it the
 * error of D is of second order in the distance, that of the sum of |X_i| of first order. Example: momentum 0.9, ten
 * epochs of 100, a barrier that keeps the bounds 3e-4 apart: after 60 steps D gives 1.0004 times the value of the dual,
 * the sum 1.59 times, and still 1.03 after 200 more. V nearly vanishes in some directions, where X_i has no
 * information. So the vectors begin as rows of the factor of V_i, and a few sweeps finish them.
 */

/* One class: its block of X, m unit vectors of m numbers, and work space. */
typedef struct block {
    int64_t m;
    double *x, *g, *work, *d;
} block;

enum { SWEEPS = 2, MORE_SWEEPS = 8 };
static const double NEAR = 1e-7; /* the two sides of f: closer needs no more sweeps */

/* 0 where X is not finite, as it may be at a trial of the line search. */
static int load_block(const optimum_epochs *e, const epochs_point *point, int64_t i, block *b) {
    const int64_t k = e->k, m = (e->n - i + e->b - 1) / e->b;
    const double *x = point->blocks + i * k * k, *l = point->lower + i * k * k;
    double sum = 0;
    b->m = m;
    for (int64_t r = 0; r < m; r++) {
        double squares = 0;
        for (int64_t q = 0; q <= r; q++)
            squares += l[r * k + q] * l[r * k + q];
        for (int64_t q = 0; q < m; q++) {
            b->x[r * m + q] = 0.5 * (x[r * k + q] + x[q * k + r]);
            b->g[r * m + q] = q <= r ? l[r * k + q] / sqrt(squares) : 0;
            sum += fabs(b->x[r * m + q]) + fabs(b->g[r * m + q]);
        }
    }
    return sum < 1 / DBL_EPSILON / DBL_EPSILON;
}

/* D of a class; stops early where its trace is already below `least`. */
static dpmf_status cover_block(block *b, double least, double *trace) {
    double low = 0;
    TRY(sensitivity_cover(b->m, b->m, SWEEPS, b->x, b->g, b->work, b->d, &low, trace));
    if (*trace <= fmax(least, low * (1 + NEAR))) return DPMF_OK;
    return sensitivity_cover(b->m, b->m, MORE_SWEEPS, b->x, b->g, b->work, b->d, &low, trace);
}

dpmf_status epochs_cover(const optimum_epochs *e, epochs_point *point, int add, double *largest) {
    const int64_t k = e->k;
    double *memory = NULL, trace = 0;
    dpmf_status status = DPMF_OK;
    *largest = 0;
    TRY(base_alloc_doubles(3 * k * k + 3 * k, "a block of X", &memory));
    block b = {.x = memory, .work = memory + k * k, .g = memory + 2 * k * k, .d = memory + 3 * k * k + k};
    for (int64_t i = 0; i < e->b; i++) {
        trace = INFINITY;
        if (load_block(e, point, i, &b)) TRY_DONE(cover_block(&b, *largest, &trace));
        *largest = fmax(*largest, trace);
        for (int64_t r = 0; r < b.m && add && isfinite(trace); r++)
            for (int64_t q = 0; q < b.m; q++) {
                const int64_t at = (i * k + r) * k + q;
                point->added[at] = (r == q ? b.d[r] : 0) - point->blocks[at];
            }
    }
done:
    base_free(memory);
    return status;
}
