/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a stream without a horizon (families/unbounded/unbounded.h).
 *
 * T approximates the square root of prefix sums, (1-x)^(-1/2), whose coefficients are an integral over decays lambda,
 *
 *     r_k = (1/pi) int lambda^(k+1/2) (1-lambda)^(1/2) dy,   lambda = 1/(1 + e^-y),
 *
 * by the trapezoid rule with nodes y_i = -3 + 3i: gap_i = 1/(1 + e^y_i), scale_i = (3/pi) lambda_i^1.5 gap_i^0.5. Buffer
 * i starts when a step in the past is 0.5/gap_i: before, its decay differs too little from 1 to matter.
 *
 * T alone has columns of infinite length (sum r_k^2 is a harmonic series), so g falls: as slowly as a finite length
 * allows. g^2 = exp(-a ((ln(1 + s/c) + b)^p - b^p)) on the block from s, with (a, b, p, c) found by a search for the least
 * worst ratio to the optimum over all horizons. f makes the first column of each block as long as 1, and the others of a
 * block are not longer: see unbounded_shape_norms.
 *
 * There are 17 nodes and the last block starts at 2^66. Beyond, the columns still end (their decays are all below 1), so
 * the bound on their length is for ever; the ratio to the optimum is not kept there.
 */
#include "families/unbounded/unbounded.h"

#include "base/memory.h"
#include "families/blt/blt.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { NODES = 17, FIRST = 5, SINGLE = 32, PER_OCTAVE = 8, LAST_OCTAVE = 66, OCTAVE_OF_SINGLE = 5 };
static const double SPACING = 3, LOWEST = -3, STARTS_AT = 0.5;
static const double A = 1.712, B = 1.161, P = 0.7, C = 5.19;

dpmf_status unbounded_shape_alloc(int64_t nodes, int64_t blocks, unbounded_shape *out) {
    unbounded_shape s = {.nodes = nodes, .blocks = blocks};
    double *all = NULL;
    assert(nodes >= 1 && nodes <= UNBOUNDED_NODES_MAX && blocks >= 1 && blocks <= UNBOUNDED_BLOCKS_MAX);
    TRY(base_alloc_doubles(2 * nodes + 4 * blocks, "the blocks of a stream", &all));
    s.gap = all;
    s.scale = s.gap + nodes;
    s.start = s.scale + nodes;
    s.active = s.start + blocks;
    s.gain = s.active + blocks;
    s.norm = s.gain + blocks;
    *out = s;
    return DPMF_OK;
}

void unbounded_shape_free(unbounded_shape *s) {
    base_free(s->gap); /* all of them are one piece */
    *s = (unbounded_shape){0};
}

static double started(const unbounded_shape *s, double start) {
    int64_t count = FIRST;
    while (count < s->nodes && s->gap[count] * start >= STARTS_AT)
        count++;
    return (double)count;
}

dpmf_status unbounded_shape_create(unbounded_shape *out) {
    const int64_t blocks = SINGLE + PER_OCTAVE * (LAST_OCTAVE - OCTAVE_OF_SINGLE) + 1;
    unbounded_shape s = {0};
    TRY(unbounded_shape_alloc(NODES, blocks, &s));
    for (int64_t i = 0; i < s.nodes; i++) {
        double y = LOWEST + SPACING * (double)i, decay = 1 / (1 + exp(-y));
        s.gap[i] = 1 / (1 + exp(y));
        s.scale[i] = SPACING / M_PI * decay * sqrt(decay) * sqrt(s.gap[i]);
    }
    for (int64_t k = 0; k < blocks; k++) {
        double start = k <= SINGLE ? (double)k : rint(SINGLE * exp2((double)(k - SINGLE) / PER_OCTAVE));
        s.start[k] = start;
        s.active[k] = started(&s, start);
        s.gain[k] = exp(-0.5 * A * (pow(log1p(start / C) + B, P) - pow(B, P)));
    }
    unbounded_shape_norms(&s, s.norm);
    *out = s;
    return DPMF_OK;
}

/* What moves on in n steps of a block: decays to the n-th power, and sums over n steps of products of two decays. */
typedef struct powers {
    double decay[UNBOUNDED_NODES_MAX];
    double sum[UNBOUNDED_NODES_MAX * UNBOUNDED_NODES_MAX];
} powers;

static double gap_in(const unbounded_shape *s, int64_t block, int64_t i) {
    return (double)i < s->active[block] ? s->gap[i] : 0;
}

static void fill_powers(const unbounded_shape *s, int64_t block, double n, powers *p) {
    const int64_t d = s->nodes;
    for (int64_t i = 0; i < d; i++) {
        double one = gap_in(s, block, i);
        p->decay[i] = one == 1 ? (double)(n == 0) : exp(n * log1p(-one));
        for (int64_t j = 0; j < d; j++) {
            double other = gap_in(s, block, j), both = one + other - one * other;
            p->sum[i * d + j] = isinf(n) ? 1 / both : blt_geometric(n, both).value;
        }
    }
}

/* v' (scale_i scale_j sum_ij) v */
static double spread(const unbounded_shape *s, const powers *p, const double *v) {
    const int64_t d = s->nodes;
    double total = 0;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            total += s->scale[i] * v[i] * p->sum[i * d + j] * s->scale[j] * v[j];
    return total;
}

/* later <- g^2 (scale_i scale_j sum_ij) + decay later decay: what a buffer content at the start of the block adds. */
static void prepend(const unbounded_shape *s, int64_t block, const powers *p, double *later) {
    const int64_t d = s->nodes;
    const double square = s->gain[block] * s->gain[block];
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            later[i * d + j] =
                square * s->scale[i] * s->scale[j] * p->sum[i * d + j] + p->decay[i] * p->decay[j] * later[i * d + j];
}

static double form(int64_t d, const double *matrix, const double *v) {
    double total = 0;
    for (int64_t i = 0; i < d; i++)
        for (int64_t j = 0; j < d; j++)
            total += v[i] * matrix[i * d + j] * v[j];
    return total;
}

/*
 * S = sum_{t >= s} g_t^2 T[t,s]^2, block after block from the last: geometric sums. `later` is what buffers with
 * contents v at the start of the next block will add, v' later v; all sums are of non-negative numbers. For u > s in the
 * block S(u) <= S(s), because neither g_{u+k} nor T[u+k,u] rises with u: f may be the same on the whole block.
 */
void unbounded_shape_norms(const unbounded_shape *s, double *norms) {
    const int64_t d = s->nodes;
    double later[UNBOUNDED_NODES_MAX * UNBOUNDED_NODES_MAX] = {0};
    double ones[UNBOUNDED_NODES_MAX];
    powers p;
    for (int64_t i = 0; i < d; i++)
        ones[i] = 1;
    for (int64_t k = s->blocks - 1; k >= 0; k--) {
        const double n = k == s->blocks - 1 ? INFINITY : s->start[k + 1] - s->start[k];
        fill_powers(s, k, n - 1, &p); /* the first step has T = 1, and fills the buffers with 1 */
        norms[k] = sqrt(s->gain[k] * s->gain[k] * (1 + spread(s, &p, ones)) + form(d, later, p.decay));
        fill_powers(s, k, n, &p);
        prepend(s, k, &p, later);
    }
}

static int falls(int64_t count, const double *x, double least, double most) {
    for (int64_t i = 0; i < count; i++)
        if (!(x[i] > least && x[i] <= most && (i == 0 || x[i] <= x[i - 1]))) return 0;
    return 1;
}

static int blocks_follow(const unbounded_shape *s) {
    for (int64_t k = 0; k < s->blocks; k++) {
        int rises = k == 0 ? s->start[0] == 0 && s->active[0] >= 1
                           : s->start[k] > s->start[k - 1] && s->active[k] >= s->active[k - 1];
        if (!rises || !(s->start[k] <= 0x1p100) || s->start[k] != rint(s->start[k]) ||
            s->active[k] != rint(s->active[k]) || !(s->active[k] <= (double)s->nodes))
            return 0;
    }
    return s->active[s->blocks - 1] == (double)s->nodes;
}

dpmf_status unbounded_shape_check(const unbounded_shape *s) {
    int sound = falls(s->nodes, s->gap, 1e-300, 1) && falls(s->blocks, s->gain, 1e-100, 1e100) && blocks_follow(s);
    for (int64_t i = 0; i < s->nodes && sound; i++)
        sound = s->scale[i] >= 0 && s->scale[i] <= 1e100;
    for (int64_t k = 0; k < s->blocks && sound; k++)
        sound = s->norm[k] > 1e-100 && s->norm[k] <= 1e100;
    if (sound) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: unbounded, accepted: gaps and gains that fall, starts and "
                                        "buffers that rise, and no negative number");
}

int64_t unbounded_block(const unbounded_shape *s, int64_t t) {
    int64_t low = 0, high = s->blocks; /* start[low] <= t < start[high] */
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (s->start[middle] <= (double)t)
            low = middle;
        else
            high = middle;
    }
    return low;
}

unbounded_step unbounded_step_of(const unbounded_shape *s, int64_t block) {
    const int64_t active = (int64_t)s->active[block];
    unbounded_step step = {.count = (int)active + 1, .gain = s->gain[block], .norm = s->norm[block]};
    assert(step.count <= UNBOUNDED_BUFFERS_MAX);
    memcpy(step.scale, s->scale, (size_t)active * sizeof *step.scale);
    memcpy(step.gap, s->gap, (size_t)active * sizeof *step.gap);
    for (int64_t i = s->nodes - 1; i >= active; i--) /* the smallest first */
        step.scale[active] += s->scale[i];
    return step;
}

/*
 * Error of a stream without a horizon (families/unbounded/unbounded.h): in a block the noise is that of a BLT whose seeds have
 * variance 1/g^2 and whose outputs are multiplied by 1/f, so step by step it is families/blt/object.c's recursion, with the
 * lump's row and column copied to each buffer that starts.
 *
 * For prefix sums the state (m, o) of buffers and answer moves by one matrix on a whole block, (m, o) <- Phi (m, o) + b z,
 * and n steps of its covariance X are
 *
 *     X <- F X F' + Q,   F = Phi^n,   Q = sum_{j<n} Phi^j b b' Phi'^j,
 *
 * from those of n/2 by squaring. The sum of Var o over the n steps is tr(X H) + q, with H = sum_{k=1..n} Phi'^k e e' Phi^k
 * (e picks o) and q = the sum that starts from X = 0; for 2n steps: q <- 2q + tr(Q H), H <- H + F' H F. So any step is
 * reached in O(log t) products, for any t.
 */

enum { MAX = BLT_MAX, SIDE = MAX + 1, PARTS = 8 };
_Static_assert((int)UNBOUNDED_BUFFERS_MAX <= (int)MAX, "buffers fit the covariances");

typedef unbounded_shape shape;
typedef unbounded_step block_step;

/* Buffers before - 1 .. count - 1 become copies of the lump, which was before - 1. */
static void split_lump(int before, int count, blt_buffers *k) {
    for (int i = before; i < count; i++) {
        for (int j = 0; j < count; j++)
            k->mm[i * MAX + j] = k->mm[(before - 1) * MAX + j];
        for (int j = 0; j < count; j++)
            k->mm[j * MAX + i] = k->mm[j * MAX + before - 1];
        k->mom[i] = k->mom[before - 1];
        k->mo[i] = k->mo[before - 1];
    }
}

dpmf_status unbounded_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const shape *c = unbounded_of(s);
    const int64_t steps = s->steps;
    error_moments moments = {0};
    *done = q->a->form == WORKLOAD_NAMED;
    for (int64_t stamp = 0; *done && stamp < q->stamps; stamp++) {
        blt_buffers k = {0}; /* the noise restarts, the workload does not */
        block_step b = {0};
        for (int64_t t = 0, block = -1; t < steps; t++) {
            const int64_t at = stamp * steps + t;
            TRY(error_report(q->run, at, q->stamps * steps, 4 * MAX * MAX));
            if (block + 1 < c->blocks && c->start[block + 1] == (double)t) {
                const int before = b.count;
                b = unbounded_step_of(c, ++block);
                if (before > 0) split_lump(before, b.count, &k);
            }
            const error_drive d = error_drive_at(q->a, at);
            const double factor = b.norm * (q->scale == NULL ? 1 : q->scale[at]);
            blt_buffers_advance(b.count, b.scale, b.gap, 1 / (b.gain * b.gain), factor, &d, &k, &moments);
            squares[at] = moments.oo;
        }
    }
    return DPMF_OK;
}

/* ---- many steps at once; matrices are side x side, rows SIDE apart ---- */

typedef struct matrix {
    double at[SIDE][SIDE];
} matrix;

static void multiply(int side, const matrix *a, const matrix *b, matrix *out) {
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++) {
            double sum = 0;
            for (int k = 0; k < side; k++)
                sum += a->at[i][k] * b->at[k][j];
            out->at[i][j] = sum;
        }
}

static void transpose(int side, const matrix *a, matrix *out) {
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            out->at[i][j] = a->at[j][i];
}

/* out = f x f' + q */
static void carry(int side, const matrix *f, const matrix *x, const matrix *q, matrix *out) {
    matrix left, back;
    multiply(side, f, x, &left);
    transpose(side, f, &back);
    multiply(side, &left, &back, out);
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            out->at[i][j] += q->at[i][j];
}

static double inner(int side, const matrix *a, const matrix *b) {
    double sum = 0;
    for (int i = 0; i < side; i++)
        for (int j = 0; j < side; j++)
            sum += a->at[i][j] * b->at[i][j];
    return sum;
}

/* What n steps do: F, Q, H, q. */
typedef struct leap {
    matrix f, q, h;
    double sum;
} leap;

static leap one_step(const block_step *b) {
    const int d = b->count;
    leap l = {0};
    double input[SIDE];
    for (int i = 0; i < d; i++) {
        for (int j = 0; j < d; j++)
            l.f.at[i][j] = (i == j ? 1 - b->gap[i] : 0) - b->scale[j];
        l.f.at[d][i] = -b->norm * b->scale[i];
        input[i] = 1 / b->gain;
    }
    l.f.at[d][d] = 1;
    input[d] = b->norm / b->gain;
    for (int i = 0; i <= d; i++)
        for (int j = 0; j <= d; j++) {
            l.q.at[i][j] = input[i] * input[j];
            l.h.at[i][j] = l.f.at[d][i] * l.f.at[d][j];
        }
    l.sum = l.q.at[d][d];
    return l;
}

static void square_leap(int side, leap *l) {
    leap next;
    matrix back;
    next.sum = 2 * l->sum + inner(side, &l->q, &l->h);
    carry(side, &l->f, &l->q, &l->q, &next.q);
    transpose(side, &l->f, &back);
    carry(side, &back, &l->h, &l->h, &next.h);
    multiply(side, &l->f, &l->f, &next.f);
    *l = next;
}

typedef struct journey {
    const shape *c;
    int64_t block; /* -1: before the first step */
    block_step b;
    matrix x;
    double total; /* the sum of Var o over the steps made */
} journey;

/* The next block begins: its buffers that start are copies of the lump; the answer is the last row and column. */
static void enter_block(journey *g) {
    const int before = g->b.count;
    matrix old = g->x;
    g->b = unbounded_step_of(g->c, ++g->block);
    if (before == 0) return;
    for (int i = 0; i <= g->b.count; i++)
        for (int j = 0; j <= g->b.count; j++) {
            int from_i = i == g->b.count ? before : i < before ? i : before - 1;
            int from_j = j == g->b.count ? before : j < before ? j : before - 1;
            g->x.at[i][j] = old.at[from_i][from_j];
        }
}

/* n steps of the block that it is in. */
static void travel(journey *g, int64_t n) {
    const int side = g->b.count + 1;
    leap l = one_step(&g->b);
    while (n > 0) {
        if (n % 2 == 1) {
            matrix x;
            g->total += inner(side, &g->x, &l.h) + l.sum;
            carry(side, &l.f, &g->x, &l.q, &x);
            g->x = x;
        }
        n /= 2;
        if (n > 0) square_leap(side, &l);
    }
}

static int64_t block_end(const journey *g, int64_t steps) {
    return g->block + 1 < g->c->blocks && g->c->start[g->block + 1] < (double)steps ? (int64_t)g->c->start[g->block + 1]
                                                                                    : steps;
}

int unbounded_error_range(const dpmf_strategy *s, const dpmf_workload *a, int64_t first, int64_t count,
                          double *squares) {
    journey g = {.c = unbounded_of(s), .block = -1};
    int64_t t = 0;
    if (!workload_is_prefix(a)) return 0;
    while (t < first + count) {
        enter_block(&g);
        const int64_t end = block_end(&g, first + count), skipped = end <= first ? end - t : t < first ? first - t : 0;
        travel(&g, skipped);
        for (t += skipped; t < end && t >= first; t++) {
            travel(&g, 1);
            squares[t - first] = g.x.at[g.b.count][g.b.count];
        }
    }
    return 1;
}

static double variance(const journey *g) {
    return g->x.at[g->b.count][g->b.count];
}

/* n steps in PARTS parts; the largest variance at their ends, and two parts around it to look at more closely. */
typedef struct around {
    journey from;
    int64_t length;
    double most;
} around;

static void look(journey *g, int64_t n, around *best) {
    journey before = *g, earlier = *g;
    for (int64_t part = 1, done = 0, kept = 0; part <= PARTS; part++) {
        const int64_t to = n / PARTS * part + n % PARTS * part / PARTS, next = to + n / PARTS < n ? to + n / PARTS : n;
        travel(g, to - done);
        if (to > done && variance(g) > best->most) *best = (around){earlier, next - kept, variance(g)};
        if (to > done) {
            earlier = before;
            kept = done;
            before = *g;
        }
        done = to;
    }
}

/* The error rises with the steps but for a few dents, where a buffer starts: one top is followed down to a step. */
static double highest(around best) {
    while (best.length > PARTS) {
        around closer = {.most = 0};
        look(&best.from, best.length, &closer);
        if (closer.length >= best.length) break;
        closer.most = fmax(closer.most, best.most);
        best = closer;
    }
    return best.most;
}

int unbounded_error_sums(const dpmf_strategy *s, const dpmf_workload *a, double *total, double *largest) {
    journey g = {.c = unbounded_of(s), .block = -1};
    if (!workload_is_prefix(a)) return 0;
    around best = {.most = 0};
    for (int64_t t = 0, end = 0; t < s->steps; t = end) {
        enter_block(&g);
        end = block_end(&g, s->steps);
        const int64_t n = end - t;
        look(&g, n / 64, &best); /* most happens where a block starts */
        look(&g, n / 8 - n / 64, &best);
        look(&g, n - n / 8, &best);
    }
    *total = g.total;
    *largest = highest(best);
    return 1;
}
