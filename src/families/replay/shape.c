/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the parameters of a TV-BLT with replayed seeds sit: nodes at distances 0, 1, 2, 4, ... from both ends of an
 * epoch, and its middle, with straight lines between them. The optimal coefficients bend near the ends of epochs on the
 * scale of the distance from the end and hardly in between, so a logarithmic number of nodes follows them, and the
 * number of parameters, 2 k r + k + 1 a node, does not grow with n. Where the last epoch is partial, classes on the two
 * sides of its end have different numbers of steps: nodes gather there too.
 */
#include "families/replay/replay.h"

#include "base/memory.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef replay_shape shape_t;

enum { NODES_MAX = REPLAY_NODES_MAX };

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Distances 0, 1, 2, 4, ... below `limit` on one or both sides of [low, high]. */
static int add_from_ends(int64_t low, int64_t high, double limit, int density, int64_t *node, int count) {
    double ratio = pow(2, 1.0 / density), x = 1;
    int64_t distance = 0;
    while ((double)distance < limit && count + 2 < NODES_MAX) {
        node[count++] = low + distance;
        node[count++] = high - distance;
        int64_t next = (int64_t)floor(x + 0.5);
        distance = next > distance ? next : distance + 1;
        x *= ratio;
        if (x < (double)distance) x = (double)distance * (density > 1 ? ratio : 2);
    }
    return count;
}

static int usual_nodes(int64_t b, int64_t last, int density, int64_t *node) {
    double half = (double)b / 2 - 0.5;
    int count = add_from_ends(0, b - 1, half, density, node, 0);
    node[count++] = b / 2;
    if (b % 2 == 0) node[count++] = b / 2 - 1;
    if (last < b) { /* from the end of the last epoch, both ways: half as far as the nearer end of an epoch */
        double reach = fmax(1, (double)(last < b - last ? last : b - last) / 2);
        count = add_from_ends(last, last - 1, reach, density, node, count);
    }
    int kept = 0;
    qsort(node, (size_t)count, sizeof *node, compare);
    for (int i = 0; i < count; i++)
        if (node[i] >= 0 && node[i] < b && (kept == 0 || node[i] > node[kept - 1])) node[kept++] = node[i];
    return kept;
}

static dpmf_status check_shape(int64_t steps, int64_t period, int buffers) {
    if (period < 1 || period > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: a period of %lld steps, accepted 1 to %lld",
                         (long long)period, (long long)steps);
    if ((steps + period - 1) / period > REPLAY_EPOCHS_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED, "replayed seeds: %lld epochs, accepted up to %d",
                         (long long)((steps + period - 1) / period), REPLAY_EPOCHS_MAX);
    const int64_t epochs = (steps + period - 1) / period;
    if (period > REPLAY_PAIRS_MAX / (epochs * (epochs + 1) / 2))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "replayed seeds: %lld epochs of %lld steps, accepted up to %d pairs of steps of one unit",
                         (long long)epochs, (long long)period, REPLAY_PAIRS_MAX);
    if (buffers < 1 || buffers > REPLAY_BUFFERS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d buffers, accepted 1 to %d", buffers,
                         REPLAY_BUFFERS_MAX);
    return DPMF_OK;
}

dpmf_status replay_shape_from(int64_t steps, int64_t period, int buffers, int nodes, const int64_t *node,
                              shape_t *out) {
    shape_t s = {.steps = steps, .period = period, .buffers = buffers, .nodes = nodes};
    TRY(check_shape(steps, period, buffers));
    if (nodes < 1 || nodes > NODES_MAX || node[0] != 0 || node[nodes - 1] != period - 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d nodes, accepted 1 to %d, from 0 to %lld", nodes,
                         NODES_MAX, (long long)(period - 1));
    for (int i = 1; i < nodes; i++)
        if (node[i] <= node[i - 1])
            return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: node %d is %lld, accepted: above %lld", i,
                             (long long)node[i], (long long)node[i - 1]);
    s.epochs = (int)((steps + period - 1) / period);
    s.last = steps - (int64_t)(s.epochs - 1) * period;
    TRY(base_alloc(nodes, sizeof *s.node, "the nodes", (void **)&s.node));
    memcpy(s.node, node, (size_t)nodes * sizeof *node);
    *out = s;
    return DPMF_OK;
}

dpmf_status replay_shape_create(int64_t steps, int64_t period, int buffers, int density, shape_t *out) {
    int64_t *node = NULL;
    assert(density >= 1);
    TRY(check_shape(steps, period, buffers));
    TRY(base_alloc(2 * NODES_MAX, sizeof *node, "the nodes", (void **)&node));
    int64_t last = steps - (steps - 1) / period * period;
    int count = usual_nodes(period, last, density, node);
    dpmf_status status = replay_shape_from(steps, period, buffers, count, node, out);
    base_free(node);
    return status;
}

dpmf_status replay_shape_copy(const shape_t *s, shape_t *out) {
    return replay_shape_from(s->steps, s->period, s->buffers, s->nodes, s->node, out);
}

void replay_shape_free(shape_t *s) {
    base_free(s->node);
    *s = (shape_t){0};
}

int64_t replay_count(const shape_t *s) {
    return (int64_t)s->epochs * s->nodes * (2 * s->buffers + 1) + s->buffers + s->nodes;
}

replay_view replay_look(const shape_t *s, double *parameters) {
    int64_t filter = (int64_t)s->epochs * s->nodes * s->buffers;
    replay_view v = {.h = parameters};
    v.kappa = v.h + filter;
    v.logit = v.kappa + filter;
    v.profile = v.logit + s->buffers;
    v.scale = v.profile + (int64_t)s->epochs * s->nodes;
    return v;
}

/* Position p lies `part` of the way from node *at to the next one. */
static double locate(const shape_t *s, int64_t p, int *at) {
    while (*at + 2 < s->nodes && p >= s->node[*at + 1])
        ++*at;
    if (s->nodes == 1) return 0;
    return (double)(p - s->node[*at]) / (double)(s->node[*at + 1] - s->node[*at]);
}

void replay_spread(const shape_t *s, int width, const double *node, double *position) {
    int at = 0;
    for (int64_t p = 0; p < s->period; p++) {
        double part = locate(s, p, &at);
        const double *one = node + (int64_t)at * width, *two = s->nodes > 1 ? one + width : one;
        for (int j = 0; j < width; j++)
            position[p * width + j] = (1 - part) * one[j] + part * two[j];
    }
}

void replay_gather(const shape_t *s, int width, const double *position, double *node) {
    int at = 0;
    for (int64_t p = 0; p < s->period; p++) {
        double part = locate(s, p, &at);
        double *one = node + (int64_t)at * width, *two = s->nodes > 1 ? one + width : one;
        for (int j = 0; j < width; j++) {
            one[j] += (1 - part) * position[p * width + j];
            two[j] += part * position[p * width + j];
        }
    }
}

/*
 * The coefficients of every step of a TV-BLT with replayed seeds, from the parameters at the nodes: rho, h, kappa and d
 * by straight lines, the profile by the softmax over the epochs of a class, P by cancellation (sensitivity.c), and
 *
 *     P = M'M,  M lower triangular;   U = M^-1;   V = U U'.
 *
 * M is a Cholesky factorization begun at the last epoch: U has to be lower triangular so that step t uses no seed of
 * later steps.
 */

typedef replay_coefficients replay;

dpmf_status replay_alloc(const replay_shape *s, replay *out) {
    const int64_t steps = s->epochs * s->period, pairs = replay_pairs(s) * s->period;
    replay c = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_shape_copy(s, &c.shape));
    TRY_DONE(BASE_ARRAYS("the coefficients", {&c.h, steps * s->buffers}, {&c.beta, steps * s->buffers},
                         {&c.profile, steps}, {&c.scale, s->period}, {&c.precision, pairs}, {&c.factor, pairs},
                         {&c.mix, pairs}, {&c.covariance, pairs}));
    *out = c;
    c = (replay){0};
done:
    replay_free(&c);
    return status;
}

void replay_free(replay *c) {
    replay_shape_free(&c->shape);
    base_free(c->h);
    *c = (replay){0};
}

/* Logits become the profile, in place; 0 past the last step. */
static void softmax(const replay_shape *s, double *x) {
    const int64_t b = s->period;
    for (int64_t p = 0; p < b; p++) {
        const int k = replay_members(s, p);
        double largest = -INFINITY, sum = 0;
        for (int e = 0; e < k; e++)
            largest = fmax(largest, x[e * b + p]);
        for (int e = 0; e < k; e++)
            sum += x[e * b + p] = exp(x[e * b + p] - largest);
        for (int e = 0; e < k; e++)
            x[e * b + p] /= sum;
        if (k < s->epochs) x[k * b + p] = 0;
    }
}

void replay_expand(const double *parameters, replay *c) {
    const replay_shape *s = &c->shape;
    const replay_view v = replay_look(s, (double *)parameters); /* only read */
    const int64_t b = s->period, q = s->nodes;
    const int r = s->buffers;
    for (int j = 0; j < r; j++)
        c->rho[j] = 1 / (1 + exp(-v.logit[j]));
    for (int e = 0; e < s->epochs; e++) {
        replay_spread(s, r, v.h + e * q * r, c->h + e * b * r);
        replay_spread(s, r, v.kappa + e * q * r, c->beta + e * b * r);
        replay_spread(s, 1, v.profile + e * q, c->profile + e * b);
    }
    for (int64_t t = 0; t < s->epochs * b; t++)
        for (int j = 0; j < r; j++)
            c->beta[t * r + j] *= c->rho[j];
    softmax(s, c->profile);
    replay_spread(s, 1, v.scale, c->scale);
    for (int64_t p = 0; p < b; p++)
        c->scale[p] = exp(c->scale[p]);
}

/* ---- P, M, U, V of one class: lower triangles, rows of k ---- */

/* m holds P and becomes M, P = M'M. 0: not positive definite. */
static int factor_backward(int k, double *m) {
    for (int j = k - 1; j >= 0; j--) {
        for (int i = k - 1; i > j; i--)
            for (int l = 0; l <= j; l++)
                m[j * k + l] -= m[i * k + j] * m[i * k + l];
        if (!(m[j * k + j] > 0 && isfinite(m[j * k + j]))) return 0;
        const double root = sqrt(m[j * k + j]);
        for (int l = 0; l < j; l++)
            m[j * k + l] /= root;
        m[j * k + j] = root;
    }
    return 1;
}

/* v holds V and becomes U, V = U U'. */
static int factor_forward(int k, double *v) {
    for (int i = 0; i < k; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = v[i * k + j];
            for (int l = 0; l < j; l++)
                sum -= v[i * k + l] * v[j * k + l];
            if (i == j && !(sum > 0 && isfinite(sum))) return 0;
            v[i * k + j] = i == j ? sqrt(sum) : sum / v[j * k + j];
        }
    }
    return 1;
}

static void invert_lower(int k, const double *m, double *u) {
    for (int j = 0; j < k; j++) {
        u[j * k + j] = 1 / m[j * k + j];
        for (int i = j + 1; i < k; i++) {
            double sum = 0;
            for (int l = j; l < i; l++)
                sum -= m[i * k + l] * u[l * k + j];
            u[i * k + j] = sum / m[i * k + i];
        }
    }
}

/* u u', or u'u with the roles of rows and columns turned. */
static double product(int k, const double *u, int i, int j, int turned) {
    double sum = 0;
    if (turned)
        for (int l = i > j ? i : j; l < k; l++)
            sum += u[l * k + i] * u[l * k + j];
    else
        for (int l = 0; l <= (i < j ? i : j); l++)
            sum += u[i * k + l] * u[j * k + l];
    return sum;
}

enum { CHUNK = 64 }; /* positions per item of work */

typedef struct task {
    replay *c;
    int from_covariance;
    int *definite; /* one per item */
} task;

static int one_class(const task *t, int64_t p, double *m, double *u) {
    const replay *c = t->c;
    const int k = replay_members(&c->shape, p);
    const int64_t b = c->shape.period;
    double *given = t->from_covariance ? c->covariance : c->precision,
           *found = t->from_covariance ? c->precision : c->covariance;
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++)
            (t->from_covariance ? u : m)[i * k + j] = given[replay_pair(i, j) * b + p];
    if (!(t->from_covariance ? factor_forward(k, u) : factor_backward(k, m))) return 0;
    if (t->from_covariance)
        invert_lower(k, u, m);
    else
        invert_lower(k, m, u);
    for (int i = 0; i < k; i++)
        for (int j = 0; j <= i; j++) {
            const int64_t at = replay_pair(i, j) * b + p;
            c->factor[at] = m[i * k + j];
            c->mix[at] = u[i * k + j];
            found[at] = product(k, t->from_covariance ? m : u, i, j, t->from_covariance);
        }
    for (int j = 0; k < c->shape.epochs && j <= k; j++) { /* no such step */
        const int64_t at = replay_pair(k, j) * b + p;
        c->factor[at] = c->mix[at] = c->precision[at] = c->covariance[at] = 0;
    }
    return 1;
}

static dpmf_status some_classes(void *context, int64_t item, int worker) {
    const task *t = context;
    const int64_t k = t->c->shape.epochs, b = t->c->shape.period, end = (item + 1) * CHUNK < b ? (item + 1) * CHUNK : b;
    double *room = NULL;
    (void)worker;
    TRY(base_alloc_doubles(2 * k * k, "a class", &room));
    t->definite[item] = 1;
    for (int64_t p = item * CHUNK; p < end && t->definite[item]; p++)
        t->definite[item] = one_class(t, p, room, room + k * k);
    base_free(room);
    return DPMF_OK;
}

static dpmf_status factor_all(replay *c, int from_covariance, base_pool *pool, int *definite) {
    const int64_t k = c->shape.epochs, items = (c->shape.period + CHUNK - 1) / CHUNK;
    task t = {.c = c, .from_covariance = from_covariance};
    dpmf_status status = DPMF_OK;
    TRY(base_alloc(items, sizeof *t.definite, "flags", (void **)&t.definite));
    TRY_DONE(replay_run(pool, CHUNK * k * k * k, items, some_classes, &t));
    *definite = 1;
    for (int64_t i = 0; i < items; i++)
        *definite = *definite && t.definite[i];
done:
    base_free(t.definite);
    return status;
}

dpmf_status replay_factor(replay *c, base_pool *pool, int *definite) {
    return factor_all(c, 0, pool, definite);
}

dpmf_status replay_unfactor(replay *c, base_pool *pool, int *definite) {
    return factor_all(c, 1, pool, definite);
}

dpmf_status replay_create(const replay_shape *shape, const double *parameters, base_pool *pool, replay *out) {
    replay c = {0};
    replay_filter f = {0};
    replay_gram g = {0};
    int definite = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &c));
    TRY_DONE(replay_filter_alloc(shape, &f));
    TRY_DONE(replay_gram_alloc(shape, 0, &g));
    replay_expand(parameters, &c);
    TRY_DONE(replay_filter_fill(&c, pool, &f));
    replay_wanted(&c, &g);
    TRY_DONE(replay_blocks(&c, &f, 1, pool, &g));
    TRY_DONE(replay_factor(&c, pool, &definite));
    if (!definite) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: no mechanism has these parameters (a precision "
                                                 "matrix is not positive definite)");
        goto done;
    }
    *out = c;
    c = (replay){0};
done:
    replay_free(&c);
    replay_filter_free(&f);
    replay_gram_free(&g);
    return status;
}

/*
 * Shared class seeds (replay.h): V_p = diag(g^2) + L L' from parameters at the nodes, log g and L by straight lines;
 * P, M, U by factoring V; and the scales d_p that make the sensitivity of every class at most 1.
 */

typedef replay_shared shared_t;
typedef replay_shared_view view_t;

int64_t replay_shared_count(const replay_shape *s, int seeds) {
    return (int64_t)s->epochs * s->nodes * (2 * s->buffers + 1 + seeds) + s->buffers;
}

view_t replay_shared_look(const replay_shape *s, int seeds, double *parameters) {
    const int64_t nodes = (int64_t)s->epochs * s->nodes;
    view_t v = {.h = parameters};
    (void)seeds;
    v.kappa = v.h + nodes * s->buffers;
    v.logit = v.kappa + nodes * s->buffers;
    v.own = v.logit + s->buffers;
    v.weight = v.own + nodes;
    return v;
}

dpmf_status replay_shared_alloc(const replay_shape *shape, int seeds, shared_t *out) {
    const int64_t steps = shape->epochs * shape->period;
    shared_t s = {.seeds = seeds};
    dpmf_status status = DPMF_OK;
    if (seeds < 1 || seeds > REPLAY_SHARED_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "replayed seeds: %d shared seeds, accepted 1 to %d", seeds,
                         REPLAY_SHARED_MAX);
    TRY_DONE(base_alloc_doubles(steps, "weights of own seeds", &s.own));
    TRY_DONE(base_alloc_doubles(steps * seeds, "weights of shared seeds", &s.weight));
    *out = s;
    s = (shared_t){0};
done:
    replay_shared_free(&s);
    return status;
}

void replay_shared_free(shared_t *s) {
    base_free(s->own);
    base_free(s->weight);
    *s = (shared_t){0};
}

static void fill_covariance(replay_coefficients *c, const shared_t *s) {
    const int64_t b = c->shape.period;
    const int l = s->seeds;
    for (int e = 0; e < c->shape.epochs; e++)
        for (int f = 0; f <= e; f++) {
            const int64_t end = e == c->shape.epochs - 1 ? c->shape.last : b;
            double *v = c->covariance + replay_pair(e, f) * b;
            for (int64_t p = 0; p < b; p++) {
                const double *x = s->weight + (e * b + p) * l, *y = s->weight + (f * b + p) * l;
                double sum = e == f ? s->own[e * b + p] * s->own[e * b + p] : 0;
                for (int i = 0; i < l; i++)
                    sum += x[i] * y[i];
                v[p] = p < end ? sum : 0;
            }
        }
}

void replay_shared_expand(const double *parameters, replay_coefficients *c, shared_t *s) {
    const replay_shape *shape = &c->shape;
    const view_t v = replay_shared_look(shape, s->seeds, (double *)parameters); /* only read */
    const int64_t b = shape->period, q = shape->nodes;
    const int r = shape->buffers, l = s->seeds;
    for (int j = 0; j < r; j++)
        c->rho[j] = 1 / (1 + exp(-v.logit[j]));
    for (int e = 0; e < shape->epochs; e++) {
        replay_spread(shape, r, v.h + e * q * r, c->h + e * b * r);
        replay_spread(shape, r, v.kappa + e * q * r, c->beta + e * b * r);
        replay_spread(shape, 1, v.own + e * q, s->own + e * b);
        replay_spread(shape, l, v.weight + e * q * l, s->weight + e * b * l);
    }
    for (int64_t t = 0; t < shape->epochs * b; t++) {
        s->own[t] = exp(s->own[t]);
        for (int j = 0; j < r; j++)
            c->beta[t * r + j] *= c->rho[j];
    }
    for (int64_t p = 0; p < b; p++)
        c->scale[p] = 1;
    fill_covariance(c, s);
}

dpmf_status replay_shared_create(const replay_shape *shape, int seeds, const double *parameters, base_pool *pool,
                                 replay_coefficients *out, shared_t *out_shared) {
    replay_coefficients c = {0};
    shared_t s = {0};
    double *squares = NULL;
    int definite = 0;
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_alloc(shape, &c));
    TRY_DONE(replay_shared_alloc(shape, seeds, &s));
    TRY_DONE(base_alloc_doubles(shape->period, "sensitivities of the classes", &squares));
    replay_shared_expand(parameters, &c, &s);
    TRY_DONE(replay_unfactor(&c, pool, &definite));
    if (!definite) {
        status = base_fail(DPMF_ERROR_NUMERICAL, "replayed seeds: a covariance of shared seeds is not positive "
                                                 "definite");
        goto done;
    }
    TRY_DONE(replay_sensitivities(&c, 0, pool, squares));
    for (int64_t p = 0; p < shape->period; p++)
        c.scale[p] = sqrt(squares[p]);
    *out = c;
    *out_shared = s;
    c = (replay_coefficients){0};
    s = (shared_t){0};
done:
    replay_free(&c);
    replay_shared_free(&s);
    base_free(squares);
    return status;
}

dpmf_status replay_shared_apply(const replay_coefficients *c, const shared_t *s, const double *x, double *y) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers, l = s->seeds;
    double state[REPLAY_BUFFERS_MAX] = {0}, *u = NULL;
    TRY(base_alloc_doubles(n, "the mixed seeds", &u));
    for (int64_t t = 0; t < n; t++) { /* u = G D^-1 x */
        u[t] = x[t] / c->scale[t % b];
        for (int j = 0; j < r; j++)
            u[t] -= c->h[t * r + j] * state[j];
        for (int j = 0; j < r; j++)
            state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u[t];
    }
    memset(y + n, 0, (size_t)(b * l) * sizeof *y);
    for (int64_t t = 0; t < n; t++) {
        const int64_t p = t % b;
        double v = 0; /* row t of P u */
        for (int64_t e = 0; e * b + p < n; e++)
            v += c->precision[replay_pair((int)(t / b), (int)e) * b + p] * u[e * b + p];
        y[t] = s->own[t] * v;
        for (int i = 0; i < l; i++)
            y[n + p * l + i] += s->weight[t * l + i] * v;
    }
    base_free(u);
    return DPMF_OK;
}

void replay_shared_solve(const replay_coefficients *c, const shared_t *s, const double *y, double *x) {
    const int64_t n = c->shape.steps, b = c->shape.period;
    const int r = c->shape.buffers, l = s->seeds;
    double state[REPLAY_BUFFERS_MAX] = {0};
    for (int64_t t = 0; t < n; t++) {
        const double *shared = y + n + t % b * l;
        double u = s->own[t] * y[t], seen = 0;
        for (int i = 0; i < l; i++)
            u += s->weight[t * l + i] * shared[i];
        for (int j = 0; j < r; j++)
            seen += c->h[t * r + j] * state[j];
        x[t] = c->scale[t % b] * (u + seen);
        for (int j = 0; j < r; j++)
            state[j] = c->rho[j] * state[j] + c->beta[t * r + j] * u;
    }
}
