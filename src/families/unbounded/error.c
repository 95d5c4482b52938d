/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error of a stream without a horizon (families/unbounded/unbounded.h): in a block the noise is that of a BLT whose seeds
 * have variance 1/g^2 and whose outputs are multiplied by 1/f, so step by step it is families/blt/error.c's recursion, with the
 * lump's row and column copied to each buffer that starts.
 *
 * For prefix sums the state (m, o) of buffers and answer moves by one matrix on a whole block, (m, o) <- Phi (m, o) + b z,
 * and n steps of its covariance X are
 *
 *     X <- F X F' + Q,   F = Phi^n,   Q = sum_{j<n} Phi^j b b' Phi'^j,
 *
 * from those of n/2 by squaring. The sum of Var o over the n steps is tr(X H) + q, with H = sum_{k=1..n} Phi'^k e e' Phi^k
 * (e picks o) and q = the sum that starts from X = 0; for 2n steps: q <- 2q + tr(Q H), H <- H + F' H F. So any step is
 * reached in O(log t) products, whatever t is.
 */
#include "families/blt/blt.h"
#include "families/unbounded/unbounded.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { MAX = BLT_MAX, SIDE = MAX + 1, PARTS = 8 };
_Static_assert((int)UNBOUNDED_BUFFERS_MAX <= (int)MAX, "buffers fit the covariances");

typedef unbounded_shape shape;
typedef unbounded_step block_step;

/* ---- step by step ---- */

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
        blt_buffers k = {0}; /* the noise starts anew, the workload does not */
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
