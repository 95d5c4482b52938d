/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers of a stream without a horizon (families/unbounded/unbounded.h).
 *
 * T approximates the square root of prefix sums, (1-x)^(-1/2), whose coefficients are an integral over decays lambda,
 *
 *     r_k = (1/pi) int lambda^(k+1/2) (1-lambda)^(1/2) dy,   lambda = 1/(1 + e^-y),
 *
 * by the trapezoid rule with nodes y_i = -3 + 3i: gap_i = 1/(1 + e^y_i), scale_i = (3/pi) lambda_i^1.5 gap_i^0.5. Buffer
 * i starts when a step in the past is 0.5/gap_i: before, its decay could not be told from 1.
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

/* ---- the built-in one ---- */

static void fill_nodes(unbounded_shape *s) {
    for (int64_t i = 0; i < s->nodes; i++) {
        double y = LOWEST + SPACING * (double)i, decay = 1 / (1 + exp(-y));
        s->gap[i] = 1 / (1 + exp(y));
        s->scale[i] = SPACING / M_PI * decay * sqrt(decay) * sqrt(s->gap[i]);
    }
}

static double started(const unbounded_shape *s, double start) {
    int64_t count = FIRST;
    while (count < s->nodes && s->gap[count] * start >= STARTS_AT)
        count++;
    return (double)count;
}

static double start_of(int64_t block) {
    return block <= SINGLE ? (double)block : rint(SINGLE * exp2((double)(block - SINGLE) / PER_OCTAVE));
}

dpmf_status unbounded_shape_create(unbounded_shape *out) {
    const int64_t blocks = SINGLE + PER_OCTAVE * (LAST_OCTAVE - OCTAVE_OF_SINGLE) + 1;
    unbounded_shape s = {0};
    TRY(unbounded_shape_alloc(NODES, blocks, &s));
    fill_nodes(&s);
    for (int64_t k = 0; k < blocks; k++) {
        double start = start_of(k);
        s.start[k] = start;
        s.active[k] = started(&s, start);
        s.gain[k] = exp(-0.5 * A * (pow(log1p(start / C) + B, P) - pow(B, P)));
    }
    unbounded_shape_norms(&s, s.norm);
    *out = s;
    return DPMF_OK;
}

/* ---- the length of columns ---- */

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
 * S = sum_{t >= s} g_t^2 T[t,s]^2, block after block from the last: geometric sums. `later` says what buffers with
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

/* ---- questions ---- */

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
