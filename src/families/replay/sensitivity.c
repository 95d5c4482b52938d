/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TV-BLT with replayed seeds (families/replay/replay.h) under the cyclic participation that it was made for, or one whose
 * period is a multiple of that: the strategy holds X = C'C within its classes, found by the filter's transitions in
 * O(n k r^2), and no other entry of X matters.
 *
 * With replayed seeds P is solved so that X is diagonal within a class: the squared sensitivity is the largest trace, for
 * contributions of any dimension. What rounding leaves beside the diagonal is added in absolute value. With shared class
 * seeds X is what it is, and the classes go to the search over patterns (sensitivity/search.c).
 */
#include "families/replay/replay.h"

#include "base/linalg.h"
#include "base/memory.h"

#include <float.h>
#include <math.h>
#include <string.h>

const replay_parts *replay_of(const dpmf_strategy *s) {
    return &((const replay_object *)s)->parts;
}

int64_t replay_pair(int e, int g) {
    return e >= g ? (int64_t)e * (e + 1) / 2 + g : (int64_t)g * (g + 1) / 2 + e;
}

int64_t replay_pairs(const replay_shape *s) {
    return (int64_t)s->epochs * (s->epochs + 1) / 2;
}

int replay_members(const replay_shape *s, int64_t p) {
    return p < s->last ? s->epochs : s->epochs - 1;
}

int replay_stage_first(const replay_shape *shape, int s) {
    (void)shape;
    return (s + 1) / 2;
}

int replay_stage_end(const replay_shape *shape, int s) {
    return (s < shape->epochs - 1 ? s : shape->epochs - 1) + 1;
}

static const double CANCELLED = 1e-11; /* of the trace */

typedef struct classes {
    const replay_parts *parts;
    const sensitivity_task *task;
    int64_t *sizes;
    double *keys, *traces;
} classes;

/* Entry (i, j) of X on pattern l. */
static double entry(const classes *c, int64_t l, int64_t i, int64_t j) {
    const int64_t b = c->parts->c.shape.period, apart = c->task->b / b, first = l / b;
    return c->parts->blocks[replay_pair((int)(first + i * apart), (int)(first + j * apart)) * b + l % b];
}

static dpmf_status fill(void *context, int64_t count, const int64_t *which, double *matrices) {
    const classes *c = context;
    for (int64_t m = 0; m < count; m++) {
        const int64_t size = c->sizes[which[m]];
        double *x = matrices + m * c->task->k * c->task->k;
        for (int64_t i = 0; i < size; i++)
            for (int64_t j = 0; j < size; j++)
                x[i * size + j] = entry(c, which[m], i, j);
    }
    return DPMF_OK;
}

static dpmf_status sum_or_search(const classes *c, int64_t patterns, sensitivity_found *out) {
    const sensitivity_task *task = c->task;
    int64_t top = 0;
    for (int64_t l = 1; l < patterns; l++)
        if (c->keys[l] > c->keys[top]) top = l;
    const int cancelled = c->keys[top] <= (1 + CANCELLED) * c->traces[top];
    if (task->bound == DPMF_BOUND_ABSOLUTE || (task->bound == DPMF_BOUND_AUTO && cancelled)) {
        sensitivity_found_sum(task, c->keys[top], SENSITIVITY_METHOD_CANCELLED, out);
        return DPMF_OK;
    }
    for (int64_t l = 0; l < patterns; l++) { /* what the search may give each */
        if (task->bound == DPMF_BOUND_SIGNS) c->keys[l] *= M_PI_2;
        if (task->bound == DPMF_BOUND_SPECTRAL) c->keys[l] *= (double)c->sizes[l];
    }
    const sensitivity_patterns list = {.count = patterns,
                                       .size = task->k,
                                       .sizes = c->sizes,
                                       .keys = c->keys,
                                       .fill = fill,
                                       .context = (void *)c}; /* only read */
    return sensitivity_patterns_search(task, &list, out);
}

dpmf_status replay_sensitivity(const dpmf_strategy *s, const sensitivity_task *task, int *done,
                               sensitivity_found *out) {
    const replay_parts *parts = replay_of(s);
    *done = task->strategy == s && task->pattern == WORKLOAD_FIXED && task->b % parts->c.shape.period == 0;
    if (!*done) return DPMF_OK;
    const int64_t patterns = task->b < task->n ? task->b : task->n;
    classes c = {.parts = parts, .task = task};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(patterns, sizeof *c.sizes, "the patterns", (void **)&c.sizes));
    TRY_DONE(base_alloc_doubles(patterns, "the sums over patterns", &c.keys));
    TRY_DONE(base_alloc_doubles(patterns, "the sums over patterns", &c.traces));
    for (int64_t l = 0; l < patterns; l++) {
        c.sizes[l] = (c.task->n - 1 - l) / c.task->b + 1;
        c.keys[l] = c.traces[l] = 0;
        for (int64_t i = 0; i < c.sizes[l]; i++) {
            c.traces[l] += entry(&c, l, i, i);
            for (int64_t j = 0; j < c.sizes[l]; j++)
                c.keys[l] += fabs(entry(&c, l, i, j));
        }
    }
    TRY_DONE(sum_or_search(&c, patterns, out));
done:
    base_free(c.sizes);
    base_free(c.keys);
    base_free(c.traces);
    return status;
}

/*
 * F^-1 through one epoch. F is y = u + h'x, x <- rho o x + beta u; its inverse, from y to u, is
 *
 *     u = y - h'x,   x <- A x + beta y,   A_p = R - beta_p h_p',  R = diag(rho).
 *
 * phi_{p+1} = A_p phi_p = R phi_p - beta_p q_p' with q_p = phi_p'h_p;  psi_p = psi_{p+1} A_p = psi_{p+1} R - w_p h_p'
 * with w_p = psi_{p+1} beta_p. Epochs are independent of each other: O(n r^2), one epoch an item of work.
 */

typedef replay_filter filter_t;

dpmf_status replay_filter_alloc(const replay_shape *s, filter_t *out) {
    int64_t k = s->epochs, b = s->period, r = s->buffers;
    filter_t f = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(BASE_ARRAYS("transitions of the filter", {&f.phi, k * (b + 1) * r * r}, {&f.psi, k * (b + 1) * r * r},
                         {&f.q, k * b * r}, {&f.w, k * b * r}));
    *out = f;
    f = (filter_t){0};
done:
    replay_filter_free(&f);
    return status;
}

void replay_filter_free(filter_t *f) {
    base_free(f->phi);
    *f = (filter_t){0};
}

static void identity(int r, double *x) {
    memset(x, 0, (size_t)(r * r) * sizeof *x);
    for (int i = 0; i < r; i++)
        x[i * r + i] = 1;
}

static void backward(const replay_coefficients *c, int64_t epoch, filter_t *f) {
    const int64_t b = c->shape.period;
    const int r = c->shape.buffers;
    double *next = f->psi + (epoch * (b + 1) + b) * r * r;
    identity(r, next);
    for (int64_t p = b - 1; p >= 0; p--, next -= r * r) {
        const double *h = c->h + (epoch * b + p) * r, *beta = c->beta + (epoch * b + p) * r;
        double *w = f->w + (epoch * b + p) * r, *psi = next - r * r;
        for (int i = 0; i < r; i++) {
            double sum = 0;
            for (int j = 0; j < r; j++)
                sum += next[i * r + j] * beta[j];
            w[i] = sum;
            for (int j = 0; j < r; j++)
                psi[i * r + j] = next[i * r + j] * c->rho[j] - sum * h[j];
        }
    }
}

typedef struct filter_task {
    const replay_coefficients *c;
    filter_t *f;
} filter_task;

static dpmf_status one_epoch(void *context, int64_t epoch, int worker) {
    filter_task *t = context;
    (void)worker;
    const int64_t b = t->c->shape.period;
    const int r = t->c->shape.buffers;
    double *phi = t->f->phi + epoch * (b + 1) * r * r;
    identity(r, phi);
    for (int64_t p = 0; p < b; p++, phi += r * r) {
        const double *h = t->c->h + (epoch * b + p) * r, *beta = t->c->beta + (epoch * b + p) * r;
        double *q = t->f->q + (epoch * b + p) * r;
        memset(q, 0, (size_t)r * sizeof *q);
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                q[j] += h[i] * phi[i * r + j];
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                phi[r * r + i * r + j] = t->c->rho[i] * phi[i * r + j] - beta[i] * q[j];
    }
    backward(t->c, epoch, t->f);
    return DPMF_OK;
}

dpmf_status replay_filter_fill(const replay_coefficients *c, base_pool *pool, filter_t *f) {
    filter_task t = {c, f};
    return replay_run(pool, c->shape.period * c->shape.buffers * c->shape.buffers * 8, c->shape.epochs, one_epoch, &t);
}

enum { FLOPS_WORTH_A_THREAD = 40000 }; /* in one item: some 20 microseconds, what waking a thread takes */

dpmf_status replay_run(base_pool *pool, int64_t flops, int64_t count, base_work work, void *context) {
    if (pool != NULL && count > 1 && flops >= FLOPS_WORTH_A_THREAD) return base_pool_run(pool, count, work, context);
    for (int64_t i = 0; i < count; i++)
        TRY(work(context, i, 0));
    return DPMF_OK;
}

/*
 * X within the classes, and the P that makes it what it should be, in one sweep of O(n k r^2).
 *
 * G = F^-1 is lower triangular, P block diagonal over the classes. An impulse at step (e, p) answers with 1 there, and
 * leaves the state beta(e, p) behind. For states xi at the start of step (a, p) and eta at the start of step (c, p) let
 * xi' O_p[a,c] eta be the inner product of their later answers, weighted by P. Answers meet only at one position, in
 * any epochs f, g: (f, q) with (g, q), weight P_q[f,g]. Then
 *
 *     X_p[a,c] = P_p[a,c] - zeta_p[a,c]'w_c - zeta_p[c,a]'w_a + beta_a'O_{p+1}[a,c] beta_c                        (1)
 *     zeta_p[a,c] = sum_{g > c} P_p[a,g] T[g,c]'q_g = P_p[a,c+1] q_{c+1} + Z_{c+1}'zeta_p[a,c+1]                  (2)
 *     O_p[a,c] = A_a'O_{p+1}[a,c] A_c + P_p[a,c] h_a h_c' + h_a (psi_c'zeta_p[a,c])' + (psi_a'zeta_p[c,a]) h_c'   (3)
 *     O_b[a,c] = O_0[a+1,c+1]                                                                                     (4)
 *
 * T[g,c] takes a state from the end of epoch c to the start of epoch g, Z_f through epoch f (psi, q, w of the filter at
 * position p). In (3) what O_{p+1} lacks are the meetings at position p where one of the two is still in its own
 * epoch; the meetings at p with both in later epochs are in O_{p+1} already, through (4).
 *
 * (1) to (4) for the pair (a, c) need P of pairs with one index larger and O_0[a+1,c+1]; so pairs are taken by falling
 * a + c, and within a pair p falls. Then (1) is not an equation but a formula: with X_p[a,c] wanted, it gives P_p[a,c].
 * Nothing is iterated. The pairs of one a + c do not depend on each other: they are the items of work. (A sweep over
 * positions with all k^2 pairs of states at once, as one would write X = G'P G first, costs a factor k more, and P by
 * repeated sweeps another factor of up to k + 1.)
 */

typedef replay_gram gram_t;
enum { R_MAX = REPLAY_BUFFERS_MAX };

dpmf_status replay_gram_alloc(const replay_shape *s, int keep, gram_t *out) {
    int64_t k = s->epochs, b = s->period, r = s->buffers, pairs = replay_pairs(s);
    gram_t g = {.keep = keep};
    dpmf_status status = DPMF_OK;
    TRY_DONE(BASE_ARRAYS("answers of earlier epochs", {&g.zeta, k * k * b * r},
                         {&g.gram, pairs * (keep ? b + 1 : 1) * r * r}));
    TRY_DONE(base_alloc_doubles(pairs * b, "blocks of X", &g.values)); /* by itself: a strategy keeps it */
    *out = g;
    g = (gram_t){0};
done:
    replay_gram_free(&g);
    return status;
}

void replay_gram_free(gram_t *g) {
    base_free(g->zeta);
    base_free(g->values);
    *g = (gram_t){0};
}

void replay_wanted(const replay_coefficients *c, gram_t *g) {
    const int64_t b = c->shape.period;
    memset(g->values, 0, (size_t)(replay_pairs(&c->shape) * b) * sizeof *g->values);
    for (int e = 0; e < c->shape.epochs; e++) {
        double *row = g->values + replay_pair(e, e) * b;
        for (int64_t p = 0; p < b; p++)
            row[p] = c->scale[p] * c->scale[p] * c->profile[e * b + p];
    }
}

/* (2) for one side at every position: out = P q + Z'later. NULL where no epoch is later. */
typedef struct side {
    const double *precision, *q, *whole, *later;
    const double *w, *psi, *h, *beta; /* psi at position p */
    double *zeta;
} side;

typedef struct pair {
    int64_t b, exists; /* positions at which both steps exist */
    int solve;
    const double *rho;
    side one, two;  /* zeta[a,c] with epoch c; zeta[c,a] with epoch a */
    double *gram;   /* at position b */
    int64_t stride; /* from one position to the next */
    double *precision, *value;
} pair;

static inline __attribute__((always_inline)) void answer(int r, const side *s, int64_t p) {
    double z[R_MAX] = {0}, *out = s->zeta + p * r;
    if (s->whole != NULL) {
        const double *later = s->later + p * r, *q = s->q + p * r, weight = s->precision[p];
        for (int j = 0; j < r; j++)
            z[j] = weight * q[j];
        for (int i = 0; i < r; i++)
            for (int j = 0; j < r; j++)
                z[j] += s->whole[i * r + j] * later[i];
    }
    for (int j = 0; j < r; j++)
        out[j] = z[j];
}

/* psi_p'zeta_p, and zeta_p'w_p as the value. */
static inline __attribute__((always_inline)) double carry(int r, const side *s, int64_t p, double *out) {
    const double *z = s->zeta + p * r, *w = s->w + p * r, *psi = s->psi + p * r * r;
    double dot = 0;
    for (int j = 0; j < r; j++)
        out[j] = 0;
    for (int i = 0; i < r; i++) {
        dot += z[i] * w[i];
        for (int j = 0; j < r; j++)
            out[j] += psi[i * r + j] * z[i];
    }
    return dot;
}

/* (1) and (3) at position p, from O_{p+1}. */
static inline __attribute__((always_inline)) void advance(int r, const pair *t, int64_t p) {
    const double *o = t->gram + (p + 1 - t->b) * t->stride, *rho = t->rho;
    double *out = t->gram + (p - t->b) * t->stride;
    const double *ha = t->two.h + p * r, *hc = t->one.h + p * r, *ba = t->two.beta + p * r, *bc = t->one.beta + p * r;
    double right[R_MAX], left[R_MAX], from_a[R_MAX], from_c[R_MAX] = {0}, s = 0;
    double cross = carry(r, &t->one, p, right) + carry(r, &t->two, p, left);
    for (int i = 0; i < r; i++) {
        double sum = 0;
        for (int j = 0; j < r; j++) {
            sum += o[i * r + j] * bc[j];
            from_c[j] += o[i * r + j] * ba[i];
        }
        from_a[i] = sum;
        s += ba[i] * sum;
    }
    if (!t->solve)
        t->value[p] = p < t->exists ? t->precision[p] - cross + s : 0;
    else
        t->precision[p] = p < t->exists ? t->value[p] + cross - s : 0;
    const double both = s + t->precision[p];
    for (int j = 0; j < r; j++) {
        right[j] += both * hc[j] - rho[j] * from_c[j];
        left[j] -= rho[j] * from_a[j];
    }
    for (int i = 0; i < r; i++)
        for (int j = 0; j < r; j++)
            out[i * r + j] = rho[i] * rho[j] * o[i * r + j] + ha[i] * right[j] + left[i] * hc[j];
}

static inline __attribute__((always_inline)) void sweep(int r, const pair *t) {
    for (int64_t p = t->b - 1; p >= 0; p--) {
        answer(r, &t->one, p);
        if (t->two.zeta != t->one.zeta) answer(r, &t->two, p);
        advance(r, t, p);
    }
}

typedef struct pairs_task {
    replay_coefficients *c;
    const replay_filter *f;
    gram_t *g;
    int solve, stage;
} pairs_task;

/* The answers zeta[a,c] that epoch a weights, in the coordinates of epoch c. */
static side side_of(const pairs_task *t, int64_t a, int64_t c) {
    const replay_shape *s = &t->c->shape;
    const int64_t k = s->epochs, b = s->period, r = s->buffers;
    side out = {.w = t->f->w + c * b * r,
                .psi = t->f->psi + c * (b + 1) * r * r,
                .h = t->c->h + c * b * r,
                .beta = t->c->beta + c * b * r,
                .zeta = t->g->zeta + (a * k + c) * b * r};
    if (c + 1 < k) {
        out.precision = t->c->precision + replay_pair((int)a, (int)c + 1) * b;
        out.q = t->f->q + (c + 1) * b * r;
        out.whole = t->f->phi + ((c + 1) * (b + 1) + b) * r * r;
        out.later = t->g->zeta + (a * k + c + 1) * b * r;
    }
    return out;
}

static dpmf_status one_pair(void *context, int64_t item, int worker) {
    const pairs_task *t = context;
    const replay_shape *s = &t->c->shape;
    const int a = replay_stage_first(s, t->stage) + (int)item, c = t->stage - a, r = s->buffers;
    const int64_t b = s->period, positions = t->g->keep ? b + 1 : 1, at = replay_pair(a, c);
    pair w = {.b = b,
              .exists = a == s->epochs - 1 ? s->last : b,
              .solve = t->solve,
              .rho = t->c->rho,
              .one = side_of(t, a, c),
              .two = side_of(t, c, a),
              .gram = t->g->gram + (at * positions + positions - 1) * r * r,
              .stride = t->g->keep ? r * r : 0,
              .precision = t->c->precision + at * b,
              .value = t->g->values + at * b};
    size_t bytes = (size_t)(r * r) * sizeof *w.gram;
    (void)worker;
    if (a + 1 < s->epochs)
        memcpy(w.gram, t->g->gram + replay_pair(a + 1, c + 1) * positions * r * r, bytes);
    else
        memset(w.gram, 0, bytes);
    REPLAY_UNROLLED(sweep, r, &w)
    return DPMF_OK;
}

dpmf_status replay_blocks(replay_coefficients *c, const replay_filter *f, int solve, base_pool *pool, gram_t *g) {
    const replay_shape *s = &c->shape;
    pairs_task t = {.c = c, .f = f, .g = g, .solve = solve};
    for (t.stage = 2 * (s->epochs - 1); t.stage >= 0; t.stage--) {
        int first = replay_stage_first(s, t.stage), end = replay_stage_end(s, t.stage);
        TRY(replay_run(pool, s->period * 16 * s->buffers * s->buffers, end - first, one_pair, &t));
    }
    return DPMF_OK;
}

/*
 * Sensitivity of a TV-BLT with replayed seeds, class by class. A unit of class p contributes vectors g_0, ..., g_{k-1}
 * of norm at most 1, one at each of its steps, and moves C g by sqrt(tr(X_p R)), R_fg = g_f'g_g: the squared
 * sensitivity is the largest tr(X R) over correlation matrices R (Choquette-Choo et al. 2023). Its dual is the least
 * sum of y with diag(y) - X positive semidefinite. Any such y is an upper bound:
 *
 *     y_f = sum_g |X_fg|         Gershgorin; equal to the largest value where X is diagonal, or has the signs s_f s_g;
 *     y_f = X_ff + |sum_{g != f} X_fg r_g| with unit vectors r_g that solve the primal by coordinate ascent, raised by
 *           the most negative eigenvalue of diag(y) - X.
 *
 * For the cancelled P (above) X is diagonal but for rounding, and the first is exact.
 */

enum { SWEEPS_MAX = 2000 };

/* One round of r_f <- the direction of sum_{g != f} X_fg r_g; y as above. The sum of the lengths. */
static double ascend(int k, const double *x, double *vectors, double *y) {
    double total = 0, *sum = vectors + k * k;
    for (int f = 0; f < k; f++) {
        for (int j = 0; j < k; j++)
            sum[j] = 0;
        for (int g = 0; g < k; g++)
            for (int j = 0; g != f && j < k; j++)
                sum[j] += x[f * k + g] * vectors[g * k + j];
        double length = base_norm(k, sum);
        y[f] = x[f * k + f] + length;
        total += length;
        for (int j = 0; length > 0 && j < k; j++)
            vectors[f * k + j] = sum[j] / length;
    }
    return total;
}

static double absolute_sum(int k, const double *x) {
    double sum = 0;
    for (int i = 0; i < k * k; i++)
        sum += fabs(x[i]);
    return sum;
}

dpmf_status replay_class_bound(int k, const double *x, double *square) {
    double *room = NULL, before = -1, sum = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles((int64_t)k * (2 * k + 3), "contributions of a unit", &room));
    double *vectors = room, *matrix = room + k * k + k, *y = matrix + k * k, *values = y + k;
    for (int f = 0; f < k; f++) /* from a generic point: at an orthogonal one nothing would move */
        for (int j = 0; j < k; j++)
            vectors[f * k + j] = (f == j) + 0.3 * sin(1 + 1.7 * f + 0.9 * j * (f + 1));
    for (int i = 0; i < SWEEPS_MAX; i++) {
        double now = ascend(k, x, vectors, y);
        if (i > 20 && fabs(now - before) <= 1e-13 * fabs(now)) break;
        before = now;
    }
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            matrix[i * k + j] = (i == j ? y[i] : 0) - x[i * k + j];
    TRY_DONE(base_symmetric_eigen(k, matrix, values));
    for (int f = 0; f < k; f++)
        sum += y[f];
    const double plain = absolute_sum(k, x);
    sum += k * (fmax(0, -values[0]) + 4 * k * DBL_EPSILON * plain); /* the second: rounding of the eigenvalue */
    *square = fmin(sum, plain);
done:
    base_free(room);
    return status;
}

typedef struct class_task {
    const replay_coefficients *c;
    const double *blocks;
    int exact;
    double *squares;
} class_task;

static dpmf_status one_class(void *context, int64_t p, int worker) {
    const class_task *t = context;
    const int k = replay_members(&t->c->shape, p);
    const int64_t b = t->c->shape.period;
    const double scale = 1 / (t->c->scale[p] * t->c->scale[p]);
    double *x = NULL;
    dpmf_status status = DPMF_OK;
    (void)worker;
    TRY(base_alloc_doubles((int64_t)k * k, "X of a class", &x));
    for (int i = 0; i < k; i++)
        for (int j = 0; j < k; j++)
            x[i * k + j] = scale * t->blocks[replay_pair(i, j) * b + p];
    t->squares[p] = absolute_sum(k, x);
    if (t->exact) TRY_DONE(replay_class_bound(k, x, t->squares + p));
done:
    base_free(x);
    return status;
}

dpmf_status replay_sensitivities(replay_coefficients *c, int exact, base_pool *pool, double *squares) {
    replay_filter f = {0};
    replay_gram g = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(replay_filter_alloc(&c->shape, &f));
    TRY_DONE(replay_gram_alloc(&c->shape, 0, &g));
    TRY_DONE(replay_filter_fill(c, pool, &f));
    TRY_DONE(replay_blocks(c, &f, 0, pool, &g));
    class_task t = {c, g.values, exact, squares};
    TRY_DONE(replay_run(pool, exact ? 1 << 20 : 1, c->shape.period, one_class, &t));
done:
    replay_filter_free(&f);
    replay_gram_free(&g);
    return status;
}
