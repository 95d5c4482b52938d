/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Intervals of k questions that hold together. With X_i the noise of question i in its own deviations, jointly normal with
 * correlations R, the half width is the quantile z of max_i |X_i|: P(max |X_i| <= z) = level. Sidak's z (1967) takes the X_i
 * as independent, and is too wide where they are correlated, as totals of one stream are. Here z is found by simulation,
 * on the safe side in each step:
 *
 *     R    from deviations: Cov(i, j) = (V(i + j) - V(i) - V(j)) / 2, V the exact variance of a question (src/error/query.c).
 *          Roundings stay below 1e-9 in each entry, so R' = R + k 1e-8 I is R and another covariance matrix: X' = X + an
 *          independent normal vector, which a symmetric convex set holds with less probability (Anderson 1955).
 *     z    the j-th smallest of N simulated maxima of |X'|. It is below the quantile with the probability of j or more successes
 *          in N trials at the level, at most exp(-N D(j/N, level)) (Chernoff 1952; D the relative entropy): j is the smallest
 *          with at most 1e-6. If there is none, or Sidak's z is smaller, that is taken.
 *
 * All totals of a stream (--cdf): X = B Z with the rows of B = A C^-1 in their own norms, computed whole and compared with the
 * exact deviations; z is widened by 1e-6, far more than the roundings.
 *
 * Columns have independent noise: each takes the level^(1/columns). The coins are public and fixed: the same question has the
 * same answer. They depend on no data; the deviations do not either.
 */
#include "questions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 16, MOST_SAMPLES = 100000, LEAST_SAMPLES = 8000 };
static const double FAILURE = 1e-6, MOST_WORK = 4e9, MOST_DEVIATIONS = 4e8, JITTER = 1e-8, WIDER = 1 + 1e-6;

/* ---- normal numbers (Steele, Lea and Flood 2014; Box and Muller 1958) ---- */

static double uniform(uint64_t *state) {
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return ((double)((x ^ (x >> 31)) >> 11) + 0.5) * 0x1p-53;
}

static void fill_normals(uint64_t *state, int64_t count, double *out) {
    for (int64_t i = 0; i < count; i += 2) {
        const double radius = sqrt(-2.0 * log(uniform(state))), angle = 2.0 * 3.141592653589793 * uniform(state);
        out[i] = radius * cos(angle);
        if (i + 1 < count) out[i + 1] = radius * sin(angle);
    }
}

/* ---- the matrix ---- */

static int fill_correlations(const released *r, int64_t count, const question *of, double *matrix) {
    double *sum = allocate(r->lines, sizeof *sum), both = 0.0;
    int code = sum == NULL ? fail_memory() : 0;
    for (int64_t i = 0; code == 0 && i < count; i++) {
        matrix[i * count + i] = 1.0 + (double)count * JITTER;
        for (int64_t j = 0; code == 0 && j < i; j++) {
            for (int64_t t = 0; t < r->lines; t++) /* both of deviation 1, so that nothing cancels by size alone */
                sum[t] = of[i].weights[t] / of[i].deviation + of[j].weights[t] / of[j].deviation;
            code = released_deviation(r, sum, &both);
            matrix[i * count + j] = both * both / 2.0 - 1.0;
            if (interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
        }
    }
    free(sum);
    return code;
}

/* The lower triangle in place; false if it is not positive definite. */
static bool factor(int64_t count, double *a) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j <= i; j++) {
            double left = a[i * count + j];
            for (int64_t k = 0; k < j; k++)
                left -= a[i * count + k] * a[j * count + k];
            if (i == j && !(left > 0.0)) return false;
            a[i * count + j] = i == j ? sqrt(left) : left / a[j * count + j];
        }
    return true;
}

/* ---- the quantile ---- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Sorted maxima of |root z|, `root` lower triangular; several samples side by side. */
static void simulate(int64_t count, const double *root, int64_t samples, double *normal, double *maxima) {
    uint64_t state = 0;
    for (int64_t s = 0; s < samples; s += SIDE) {
        double most[SIDE] = {0};
        fill_normals(&state, count * SIDE, normal);
        for (int64_t i = 0; i < count; i++) {
            double x[SIDE] = {0};
            for (int64_t j = 0; j <= i; j++)
                for (int k = 0; k < SIDE; k++)
                    x[k] += root[i * count + j] * normal[j * SIDE + k];
            for (int k = 0; k < SIDE; k++)
                most[k] = fmax(most[k], fabs(x[k]));
        }
        memcpy(maxima + s, most, sizeof most);
    }
    qsort(maxima, (size_t)samples, sizeof *maxima, compare);
}

/* Which of the sorted maxima, from 1; more than `samples`: none. */
static int64_t safe_place(double level, int64_t samples) {
    const double n = (double)samples;
    for (int64_t j = (int64_t)ceil(level * n); j < samples; j++) {
        const double a = (double)j / n;
        if (n * (a * log(a / level) + (1.0 - a) * log((1.0 - a) / (1.0 - level))) >= -log(FAILURE)) return j;
    }
    return n * -log(level) >= -log(FAILURE) ? samples : samples + 1;
}

/* As many as the work allows; 0: too few to be of use. */
static int64_t samples_for(int64_t count) {
    const double work = MOST_WORK / (0.5 * (double)count * (double)count);
    const int64_t samples = work < MOST_SAMPLES ? (int64_t)work : MOST_SAMPLES;
    return samples < LEAST_SAMPLES ? 0 : samples - samples % SIDE;
}

static int take_quantile(int64_t count, const double *root, double level, double *multiplier, int64_t *simulated) {
    const int64_t samples = samples_for(count), place = safe_place(level, samples);
    if (samples == 0 || place > samples) return 0;
    double *maxima = allocate(samples, sizeof *maxima), *normal = allocate(count * SIDE, sizeof *normal);
    const int code = maxima == NULL || normal == NULL ? fail_memory() : 0;
    if (code == 0) {
        simulate(count, root, samples, normal, maxima);
        const double found = maxima[place - 1] * WIDER;
        if (found < *multiplier) {
            *multiplier = found;
            *simulated = samples;
        }
    }
    free(maxima);
    free(normal);
    return code;
}

int together_multiplier(const released *r, int64_t count, const question *of, double level, int64_t columns,
                        double *multiplier, int64_t *simulated) {
    *simulated = 0;
    dpmf_status status = dpmf_query_multiplier(level, count * columns, multiplier);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (count < 2 || samples_for(count) == 0 || (double)count * (double)count * (double)r->lines > MOST_DEVIATIONS)
        return 0;
    for (int64_t i = 0; i < count; i++)
        if (!(of[i].deviation > 0.0)) return 0;
    double *matrix = allocate(count * count, sizeof *matrix);
    int code = matrix == NULL ? fail_memory() : fill_correlations(r, count, of, matrix);
    if (code == 0 && factor(count, matrix))
        code = take_quantile(count, matrix, exp(log(level) / (double)columns), multiplier, simulated);
    free(matrix);
    return code;
}

/* Column j of the noise of all totals is the running sum of C^-1 e_j. */
static bool fill_totals(const released *r, double *root) {
    const int64_t n = r->lines, steps = dpmf_strategy_get(r->strategy).steps;
    double *x = allocate(steps, sizeof *x);
    bool good = x != NULL;
    for (int64_t j = 0; good && j < n && !interrupted(); j++) {
        memset(x, 0, (size_t)steps * sizeof *x);
        x[j] = 1.0;
        good = dpmf_strategy_solve(r->strategy, x, x) == DPMF_OK;
        double sum = 0.0;
        for (int64_t t = j; good && t < n; t++) {
            sum += x[t];
            root[t * n + j] = sum * r->scale / r->error[t];
        }
    }
    for (int64_t t = 0; good && t < n; t++) { /* what was computed has the exact deviations? */
        double squares = 0.0;
        for (int64_t j = 0; j <= t; j++)
            squares += root[t * n + j] * root[t * n + j];
        good = fabs(squares - 1.0) < 1e-8;
    }
    free(x);
    return good;
}

int together_totals(const released *r, double level, double *multiplier, int64_t *simulated) {
    const int64_t n = r->lines;
    *simulated = 0;
    dpmf_status status = dpmf_query_multiplier(level, n, multiplier);
    if (status != DPMF_OK) return fail_status(status, NULL);
    if (n < 2 || samples_for(n) == 0 || strcmp(dpmf_workload_get(r->workload).text, "prefix") != 0 ||
        (double)n * (double)dpmf_strategy_get(r->strategy).steps > MOST_DEVIATIONS)
        return 0;
    double *root = allocate(n * n, sizeof *root);
    int code = root == NULL ? fail_memory() : 0;
    if (code == 0 && fill_totals(r, root)) code = take_quantile(n, root, level, multiplier, simulated);
    if (code == 0 && interrupted()) code = fail(EXIT_CANCELLED, "cancelled");
    free(root);
    return code;
}
