/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sensitivity by brute force, for a few steps: every pattern, and on each a block ascent over unit vectors from
 * many starts. It is written without the library's code: its result is always a lower bound of the truth, and with
 * vectors of as many dimensions as participations almost always the truth itself.
 */
#ifndef DPMF_TESTS_SENSITIVITY_REFERENCE_H
#define DPMF_TESTS_SENSITIVITY_REFERENCE_H

#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { REFERENCE_PICKS = 12 };

typedef struct reference {
    int n;
    dpmf_participation_kind kind;
    int k, b;
    int starts; /* of the ascent; 0: sums only */
    double *x;  /* n x n */
    uint64_t seed;

    /* results */
    double absolute;    /* max over patterns of sum |X| */
    int absolute_exact; /* ... is the truth: the pattern has at most two steps, or X >= 0 on it */
    int absolute_picks; /* its size */
    double reached;     /* max over patterns of the value that the ascent reaches */
    double best_signs;  /* max over patterns and signs */
    double spectral;    /* max over patterns of size x largest eigenvalue */
    int negative;       /* has X a negative entry on some pattern? */
    int64_t patterns;
} reference;

/* X = C'C from the columns. */
static inline void reference_gram(const dpmf_strategy *s, reference *r) {
    int64_t n = dpmf_strategy_get(s).steps, rows = dpmf_strategy_get(s).rows;
    double *c = malloc((size_t)(n * rows) * sizeof *c);
    r->x = malloc((size_t)(n * n) * sizeof *r->x);
    for (int64_t j = 0; j < n; j++)
        check_ok(dpmf_strategy_column(s, j, c + j * rows));
    for (int64_t t = 0; t < n; t++)
        for (int64_t u = 0; u < n; u++) {
            double sum = 0;
            for (int64_t i = 0; i < rows; i++)
                sum += c[t * rows + i] * c[u * rows + i];
            r->x[t * n + u] = sum;
        }
    r->n = (int)n;
    free(c);
}

typedef double reference_square[REFERENCE_PICKS][REFERENCE_PICKS];

/* From one random start, until a sweep gains less than `tolerance` of the value. */
static inline double reference_climb(reference *r, int m, reference_square x, int sweeps, double tolerance) {
    double v[REFERENCE_PICKS][REFERENCE_PICKS], value = 0;
    for (int i = 0; i < m; i++) {
        double norm = 0;
        for (int a = 0; a < m; a++) {
            v[i][a] = check_random(&r->seed);
            norm += v[i][a] * v[i][a];
        }
        for (int a = 0; a < m; a++)
            v[i][a] /= sqrt(norm);
    }
    for (int sweep = 0; sweep < sweeps; sweep++) {
        double gain = 0;
        value = 0;
        for (int i = 0; i < m; i++) {
            double g[REFERENCE_PICKS] = {0}, norm = 0, along = 0;
            for (int j = 0; j < m; j++)
                for (int a = 0; a < m && j != i; a++)
                    g[a] += x[i][j] * v[j][a];
            for (int a = 0; a < m; a++) {
                norm += g[a] * g[a];
                along += g[a] * v[i][a];
            }
            norm = sqrt(norm);
            for (int a = 0; a < m && norm > 0; a++)
                v[i][a] = g[a] / norm;
            value += norm;
            gain += norm - along;
        }
        if (gain <= tolerance * value) break;
    }
    value = 0; /* of these unit vectors, even if the sweeps did not converge */
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++)
            for (int a = 0; a < m; a++)
                value += x[i][j] * v[i][a] * v[j][a];
    return value;
}

static inline double reference_signs(int m, reference_square x) {
    double best = 0;
    for (unsigned code = 0; code < 1u << (m - 1); code++) {
        double sum = 0;
        for (int i = 0; i < m; i++)
            for (int j = 0; j < m; j++)
                sum += ((code >> i ^ code >> j) & 1 ? -1 : 1) * x[i][j];
        best = fmax(best, sum);
    }
    return best;
}

/* Largest eigenvalue by Jacobi rotations. */
static inline double reference_eigenvalue(int m, reference_square given) {
    reference_square x;
    memcpy(x, given, sizeof x);
    for (int sweep = 0; sweep < 30; sweep++)
        for (int p = 0; p < m; p++)
            for (int q = p + 1; q < m; q++) {
                if (x[p][q] == 0) continue;
                double angle = 0.5 * atan2(2 * x[p][q], x[q][q] - x[p][p]), c = cos(angle), s = sin(angle);
                for (int i = 0; i < m; i++) {
                    double a = x[i][p], b = x[i][q];
                    x[i][p] = c * a - s * b;
                    x[i][q] = s * a + c * b;
                }
                for (int i = 0; i < m; i++) {
                    double a = x[p][i], b = x[q][i];
                    x[p][i] = c * a - s * b;
                    x[q][i] = s * a + c * b;
                }
            }
    double largest = 0;
    for (int i = 0; i < m; i++)
        largest = fmax(largest, x[i][i]);
    return largest;
}

static inline void reference_pattern(reference *r, int m, const int *steps, int pass) {
    reference_square x;
    double absolute = 0;
    int negative = 0;
    for (int i = 0; i < m; i++)
        for (int j = 0; j < m; j++) {
            x[i][j] = r->x[steps[i] * r->n + steps[j]];
            absolute += fabs(x[i][j]);
            negative |= x[i][j] < 0;
        }
    if (pass == 0) {
        r->patterns++;
        r->negative |= negative;
        if (absolute > r->absolute) {
            r->absolute = absolute;
            r->absolute_exact = m <= 2 || !negative;
            r->absolute_picks = m;
        }
        r->spectral = fmax(r->spectral, m * reference_eigenvalue(m, x));
        r->best_signs = fmax(r->best_signs, negative ? reference_signs(m, x) : absolute);
        if (!negative) r->reached = fmax(r->reached, absolute); /* equal vectors */
        return;
    }
    /* no vectors reach more than the sum of |X|: a pattern whose sum is below the value reached so far is skipped */
    for (int s = 0; s < r->starts && absolute > r->reached * (1 + 1e-12); s++)
        r->reached = fmax(r->reached, reference_climb(r, m, x, 500, 1e-14));
}

/* All patterns, each at its largest: `depth` steps are chosen. */
static inline void reference_walk(reference *r, int depth, int *steps, int pass) {
    int from = 0, to = r->n;
    if (r->kind == DPMF_PARTICIPATION_SHUFFLED) {
        from = depth * r->b;
        if (from + r->b < to) to = from + r->b;
    } else if (depth > 0) {
        from = steps[depth - 1] + r->b;
        if (r->kind != DPMF_PARTICIPATION_MIN_SEPARATION && from + 1 < to) to = from + 1; /* the next of its cycle */
    } else if (r->kind != DPMF_PARTICIPATION_MIN_SEPARATION && r->b < to) {
        to = r->b;
    }
    if (depth == r->k || from >= to) {
        reference_pattern(r, depth, steps, pass);
        return;
    }
    for (steps[depth] = from; steps[depth] < to; steps[depth]++)
        reference_walk(r, depth + 1, steps, pass);
}

/* Every result, for a strategy under a participation of at most REFERENCE_PICKS picks. */
static inline void reference_run(reference *r, const dpmf_strategy *s, const dpmf_participation *p) {
    int steps[REFERENCE_PICKS];
    r->kind = dpmf_participation_get(p).kind;
    r->k = (int)dpmf_participation_get(p).count;
    r->b = (int)dpmf_participation_get(p).separation;
    assert_true(r->k <= REFERENCE_PICKS);
    reference_gram(s, r);
    r->absolute = r->reached = r->best_signs = r->spectral = 0;
    r->negative = 0;
    r->patterns = 0;
    reference_walk(r, 0, steps, 0);
    reference_walk(r, 0, steps, 1);
    r->reached = fmax(r->reached, r->best_signs); /* signs are vectors */
    free(r->x);
    r->x = NULL;
}

#endif
