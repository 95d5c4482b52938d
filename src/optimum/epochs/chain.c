/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tr V (K + sV)^-1 for prefix sums and a V that is the same over runs of positions, in time that grows with the logarithm of
 * their lengths.
 *
 * For prefix sums K is the matrix of a chain of unit conductances: one between any two steps in succession, one from the
 * last step to the ground. In the order of positions within the epoch that is a chain of k conductances abreast, with the
 * ends of epochs joined to the beginnings of the next. A stretch of it between two positions a and c acts on these as
 *
 *     [ E + Q   -Q      ]
 *     [ -Q'     F + Q'  ]          Q: from a to c;  E, F: from a and c to the ground,
 *
 * and two stretches with position m between them, N = sV_m and what leads from there to the ground, make
 *
 *     M = N + F_1 + E_2,  D = M + Q_1' + Q_2,
 *     Q = Q_1 D^-1 Q_2,   E = E_1 + Q_1 D^-1 M,   F = F_2 + Q_2' D^-1 M:
 *
 * Gaussian elimination that adds the conductances to the ground instead of subtracting the others, so that no digit of
 * sV is lost in a chain of any length. log det(K + sV) is the sum of log det D over all eliminations, and the trace its
 * derivative by s, which each of these quantities carries along: dQ = Q_1' X + Q_1 D^-1 (Q_2' - D' X) for X = D^-1 Q_2
 * (here ' is d/ds), and so on. A run of equal positions is built by doubling. Missing steps of a last epoch are
 * padding: 1 on the diagonal, joined to nothing.
 */
#include "optimum/epochs/epochs.h"

#include "base/memory.h"
#include "kernels/block/block.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Matrices are k rows of `stride` numbers, pairs of them [Q | E] twice as long; d_: by s. */
typedef struct stretch {
    double *pair, *ground, *d_pair, *d_ground; /* [Q | E], F */
    double trace;
} stretch;

typedef struct chain {
    const kernels_block_set *kernels;
    int64_t k, stride, wide;
    stretch whole, run, power, spare;
    double *node, *d_node;                       /* N */
    double *inverse, *d_sum, *transposed, *part; /* D^-1, D', scratch */
    double *solved, *d_solved, *wide_part;       /* D^-1 [Q_2 | M], its derivative */
    double *chol;
    int definite;
} chain;

static int64_t lay_out(double *from, chain *c) {
    const int64_t single = c->k * c->stride, pair = c->k * c->wide;
    int64_t at = 0;
    stretch *const all[] = {&c->whole, &c->run, &c->power, &c->spare};
    double **const singles[] = {&c->node, &c->d_node, &c->inverse, &c->d_sum, &c->transposed, &c->part, &c->chol};
    double **const pairs[] = {&c->solved, &c->d_solved, &c->wide_part};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        double **const parts[] = {&all[i]->pair, &all[i]->d_pair, &all[i]->ground, &all[i]->d_ground};
        for (int j = 0; j < 4; j++) {
            *parts[j] = from == NULL ? NULL : from + at;
            at += j < 2 ? pair : single;
        }
    }
    for (size_t i = 0; i < sizeof singles / sizeof singles[0]; i++, at += single)
        *singles[i] = from == NULL ? NULL : from + at;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++, at += pair)
        *pairs[i] = from == NULL ? NULL : from + at;
    return at;
}

/* a^-1 for a positive definite; `l` is scratch. Returns 0 if it is not. */
static int invert(int64_t n, int64_t stride, const double *a, double *l, double *inverse) {
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0.5 * (a[i * stride + j] + a[j * stride + i]);
            for (int64_t c = 0; c < j; c++)
                sum -= l[i * stride + c] * l[j * stride + c];
            if (i == j && !(sum > 0)) return 0;
            l[i * stride + j] = i == j ? sqrt(sum) : sum / l[j * stride + j];
        }
    }
    for (int64_t i = 0; i < n; i++) { /* l^-1 in place, by rows */
        const double by = 1 / l[i * stride + i];
        for (int64_t j = 0; j < i; j++) {
            double sum = 0;
            for (int64_t c = j; c < i; c++)
                sum += l[i * stride + c] * l[c * stride + j];
            inverse[j] = -by * sum;
        }
        memcpy(l + i * stride, inverse, (size_t)i * sizeof *l);
        l[i * stride + i] = by;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j <= i; j++) {
            double sum = 0;
            for (int64_t c = i; c < n; c++)
                sum += l[c * stride + i] * l[c * stride + j];
            inverse[i * stride + j] = inverse[j * stride + i] = sum;
        }
    return 1;
}

static void multiply_wide(const chain *c, const double *a, int64_t stride, const double *b, double *out) {
    c->kernels->multiply(c->k, c->k, c->wide, a, stride, b, c->wide, out, c->wide);
}

static void add(int64_t count, const double *from, double *to) {
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* out = the E of `a` beside zeros, to be added to. */
static void keep_ground(const chain *c, const double *pair, double *out) {
    for (int64_t i = 0; i < c->k; i++) {
        memset(out + i * c->wide, 0, (size_t)c->stride * sizeof *out);
        memcpy(out + i * c->wide + c->stride, pair + i * c->wide + c->stride, (size_t)c->stride * sizeof *out);
    }
}

/* [Q_2 | M] and D, or their derivatives. */
static void fill_sums(const chain *c, const double *node, const double *a_ground, const double *a_pair,
                      const double *b_pair, double *right, double *sum) {
    for (int64_t i = 0; i < c->k; i++)
        for (int64_t j = 0; j < c->k; j++) {
            const int64_t at = i * c->stride + j, wide = i * c->wide + j;
            const double m = node[at] + a_ground[at] + b_pair[wide + c->stride];
            right[wide] = b_pair[wide];
            right[wide + c->stride] = m;
            sum[at] = m + a_pair[j * c->wide + i] + b_pair[wide];
        }
}

/* out.ground = b.ground + Q_2' D^-1 M, or a part of its derivative. */
static void add_ground(chain *c, const double *b_pair, const double *solved, double *ground) {
    for (int64_t i = 0; i < c->k; i++)
        for (int64_t j = 0; j < c->k; j++)
            c->transposed[j * c->stride + i] = b_pair[i * c->wide + j];
    c->kernels->multiply(c->k, c->k, c->stride, c->transposed, c->stride, solved + c->stride, c->wide, c->part,
                         c->stride);
    add(c->k * c->stride, c->part, ground);
}

/* out = a, the node and b together; out is none of the others. */
static void join(chain *c, const stretch *a, const stretch *b, stretch *out) {
    const int64_t k = c->k, single = k * c->stride, pair = k * c->wide;
    double trace = 0;
    fill_sums(c, c->node, a->ground, a->pair, b->pair, c->wide_part, c->part);
    if (!invert(k, c->stride, c->part, c->chol, c->inverse)) c->definite = 0;
    if (!c->definite) return;
    multiply_wide(c, c->inverse, c->stride, c->wide_part, c->solved);
    fill_sums(c, c->d_node, a->d_ground, a->d_pair, b->d_pair, c->wide_part, c->d_sum);
    for (int64_t i = 0; i < single; i++)
        trace += c->inverse[i] * c->d_sum[i];
    multiply_wide(c, c->d_sum, c->stride, c->solved, out->pair); /* out->pair: scratch for now */
    for (int64_t i = 0; i < pair; i++)
        c->wide_part[i] -= out->pair[i];
    multiply_wide(c, c->inverse, c->stride, c->wide_part, c->d_solved);

    keep_ground(c, a->pair, out->pair);
    multiply_wide(c, a->pair, c->wide, c->solved, c->wide_part);
    add(pair, c->wide_part, out->pair);
    keep_ground(c, a->d_pair, out->d_pair);
    multiply_wide(c, a->d_pair, c->wide, c->solved, c->wide_part);
    add(pair, c->wide_part, out->d_pair);
    multiply_wide(c, a->pair, c->wide, c->d_solved, c->wide_part);
    add(pair, c->wide_part, out->d_pair);

    memcpy(out->ground, b->ground, (size_t)single * sizeof *out->ground);
    memcpy(out->d_ground, b->d_ground, (size_t)single * sizeof *out->d_ground);
    add_ground(c, b->pair, c->solved, out->ground);
    add_ground(c, b->d_pair, c->solved, out->d_ground);
    add_ground(c, b->pair, c->d_solved, out->d_ground);
    out->trace = a->trace + b->trace + trace;
}

static void swap(stretch *a, stretch *b) {
    const stretch kept = *a;
    *a = *b;
    *b = kept;
}

/* One conductance for each of the first `members` epochs. */
static void set_link(const chain *c, int64_t members, stretch *out) {
    memset(out->pair, 0, (size_t)(c->k * c->wide) * sizeof *out->pair);
    memset(out->d_pair, 0, (size_t)(c->k * c->wide) * sizeof *out->d_pair);
    memset(out->ground, 0, (size_t)(c->k * c->stride) * sizeof *out->ground);
    memset(out->d_ground, 0, (size_t)(c->k * c->stride) * sizeof *out->d_ground);
    out->trace = 0;
    for (int64_t e = 0; e < members; e++)
        out->pair[e * c->wide + e] = 1;
}

/* N of a run: sV, the ground of the last step, and padding. */
static void set_node(chain *c, const epochs_run *run, double shift) {
    const int64_t k = c->k;
    memset(c->node, 0, (size_t)(k * c->stride) * sizeof *c->node);
    memset(c->d_node, 0, (size_t)(k * c->stride) * sizeof *c->d_node);
    for (int64_t e = 0; e < k; e++) {
        for (int64_t f = 0; f < k && e < run->members && f < run->members; f++) {
            c->d_node[e * c->stride + f] = run->v[e * k + f];
            c->node[e * c->stride + f] = shift * run->v[e * k + f];
        }
        if (e >= run->members) c->node[e * c->stride + e] = 1;
    }
    if (run->grounded) c->node[(k - 1) * c->stride + k - 1] += 1;
}

/* Joins the first and the last position through everything between them and through the ends of epochs. */
static void fill_ends(chain *c, const epochs_run *first, const epochs_run *last, double shift, double *sum,
                      double *d_sum, int64_t stride) {
    const int64_t k = c->k;
    const stretch *w = &c->whole;
    for (int end = 0; end < 2; end++) {
        set_node(c, end ? last : first, shift);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < k; j++) {
                const int64_t at = i * c->stride + j, wide = i * c->wide + j, back = j * c->wide + i;
                const int64_t to = (end * k + i) * stride + end * k + j, beside = i * stride + k + j;
                sum[to] =
                    c->node[at] + (end ? w->ground[at] + w->pair[back] : w->pair[wide + c->stride] + w->pair[wide]);
                d_sum[to] = c->d_node[at] +
                            (end ? w->d_ground[at] + w->d_pair[back] : w->d_pair[wide + c->stride] + w->d_pair[wide]);
                sum[beside] = sum[(k + j) * stride + i] = -w->pair[wide];
                d_sum[beside] = d_sum[(k + j) * stride + i] = -w->d_pair[wide];
            }
    }
    for (int64_t e = 0; e + 1 < k; e++) { /* (last, e) to (first, e + 1) */
        const int64_t from = k + e, to = e + 1;
        sum[from * stride + from] += 1;
        sum[to * stride + to] += 1;
        sum[from * stride + to] -= 1;
        sum[to * stride + from] -= 1;
    }
}

dpmf_status epochs_chain_trace(int64_t k, int64_t count, const epochs_run *runs, double shift, double *trace) {
    chain c = {.kernels = kernels_block_get(), .k = k, .stride = kernels_block_pad(k), .definite = 1};
    double *room = NULL, *ends = NULL;
    const int64_t both = 2 * k, square = both * both;
    dpmf_status status = DPMF_OK;
    assert(count >= 3 && runs[0].length == 1 && runs[count - 1].length == 1);
    c.wide = 2 * c.stride;
    TRY_DONE(base_alloc_doubles(lay_out(NULL, &c), "a chain", &room));
    TRY_DONE(base_alloc_doubles(4 * square, "the ends of a chain", &ends));
    (void)lay_out(room, &c);
    set_link(&c, runs[1].members, &c.whole);
    for (int64_t i = 1; i < count - 1; i++) {
        /* whole = the positions of a run and the conductances after each of them, by doubling. */
        int64_t left = runs[i].length;
        set_node(&c, &runs[i], shift);
        assert(runs[i + 1].members == runs[i].members || left == 1);
        set_link(&c, runs[i + 1].members, &c.power); /* a power of two of conductances, positions between them */
        while (c.definite) {
            if (left & 1) {
                join(&c, &c.whole, &c.power, &c.spare);
                swap(&c.whole, &c.spare);
            }
            left >>= 1;
            if (left == 0) break;
            join(&c, &c.power, &c.power, &c.spare);
            swap(&c.power, &c.spare);
        }
    }
    if (c.definite) {
        double *sum = ends, *d_sum = ends + square, *inverse = ends + 2 * square;
        fill_ends(&c, &runs[0], &runs[count - 1], shift, sum, d_sum, both);
        c.definite = invert(both, both, sum, ends + 3 * square, inverse);
        *trace = c.whole.trace;
        for (int64_t i = 0; i < square; i++)
            *trace += inverse[i] * d_sum[i];
    }
    if (!c.definite) status = base_fail(DPMF_ERROR_NUMERICAL, "a chain of epochs: not positive definite");
done:
    base_free(room);
    base_free(ends);
    return status;
}
