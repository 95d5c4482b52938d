/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The law of the noise: the first rows y_t of the public float32 stream, under a fresh key, are clip x sigma x
 * sensitivity x W Z. Whitened, x = L y / scale with L = C where C is lower triangular (else the inverse Cholesky factor of W W'),
 * they must be independent standard normal numbers. For N of them, and any a > 0, each of these is missed with
 * probability at most e^-a:
 *
 *     sum of x              N(0, N): beyond +- sqrt(2 a N)
 *     sum of x^2            chi-square: above N + 2 sqrt(N a) + 2 a, or below N - 2 sqrt(N a)  (Laurent and Massart 2000,
 *                           Lemma 1)
 *     sum of x_i x_(i+l)    a quadratic form of trace 0, M/2 = its squared Frobenius norm for M terms and operator norm at
 *                           most 1: beyond +- (sqrt(2 M a) + 2 a)  (ibidem)
 *     how many |x| > 3      binomial (N, p): beyond N p +- (sqrt(2 N p a) + a)  (Bernstein)
 *
 * With a = 27 and 70 such events in all (2 for the sum, 2, 2 x 32 for the lags, 2) noise that is right fails a
 * verification with probability below 70 e^-27 < 2e-10.
 */
#include "verify/verify.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "strategy/strategy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double A = 27;
static const double BEYOND_3 = 0.0026997960632601866; /* erfc(3/sqrt 2) */
enum { STEPS = 128, NUMBERS = 1 << 18, DIM_MIN = 64, LAGS = 16 };
static const uint64_t BYTES_MAX = 256u << 20;

typedef struct sample {
    int64_t steps, dim;
    double *x; /* steps x dim */
} sample;

/* L, steps x steps, lower: the first rows and columns of C, or the inverse of the Cholesky factor of W W'. */
static dpmf_status whitener(verify_task *v, int64_t steps, double *l) {
    const dpmf_strategy *s = v->mechanism->strategy;
    const int64_t seeds = verify_seeds_before(s, steps);
    double *w = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(steps * seeds, "the first rows of W", &w));
    if (verify_is_lower(s, steps)) {
        TRY_DONE(verify_first_columns(s, steps, steps, w));
        for (int64_t t = 0; t < steps; t++)
            for (int64_t u = 0; u <= t; u++)
                l[t * steps + u] = w[u * steps + t];
        goto done;
    }
    TRY_DONE(verify_stream_impulses(s, DPMF_FLOAT64, steps, seeds, NULL, v->run, w));
    for (int64_t t = 0; t < steps; t++)
        for (int64_t u = 0; u < steps; u++)
            l[t * steps + u] = base_dot(seeds, w + t * seeds, w + u * seeds);
    TRY_DONE(base_cholesky(steps, l));
    TRY_DONE(base_lower_invert(steps, l));
done:
    base_free(w);
    return status;
}

static void add_test(verify_task *v, const char *name, double claimed, double found, double allowed, const char *what) {
    const dpmf_check check = {.name = name,
                              .ok = fabs(found - claimed) <= allowed, /* false for NaN */
                              .claimed = claimed,
                              .found = found,
                              .tolerance = allowed};
    verify_check_add(
        v->out, check,
        "%s of whitened float32 rows under a fresh key (absolute; probability of a false alarm: below 2e-10)", what);
}

/* Products of numbers `lag` rows apart (within = 0), or `lag` coordinates apart in a row: their sum and how many. */
static double lagged(const sample *s, int within, int64_t lag, int64_t *terms) {
    double sum = 0;
    if (!within) {
        *terms = (s->steps - lag) * s->dim;
        return base_dot(*terms, s->x, s->x + lag * s->dim);
    }
    *terms = s->steps * (s->dim - lag);
    for (int64_t t = 0; t < s->steps; t++)
        sum += base_dot(s->dim - lag, s->x + t * s->dim, s->x + t * s->dim + lag);
    return sum;
}

static void check_correlation(verify_task *v, const sample *s) {
    double found = 0, allowed = 1, worst = -1;
    for (int within = 0; within <= 1; within++)
        for (int64_t lag = 1; lag <= LAGS; lag++) {
            int64_t terms = 0;
            if (lag >= (within ? s->dim : s->steps)) break;
            const double sum = lagged(s, within, lag, &terms), m = (double)terms;
            const double limit = (sqrt(2 * m * A) + 2 * A) / m, score = fabs(sum / m) / limit;
            if (score <= worst) continue;
            worst = isnan(score) ? INFINITY : score;
            found = sum / m;
            allowed = limit;
        }
    add_test(v, "noise.correlation", 0, found, allowed, "worst of 16 lags in time and 16 in a row");
}

/* The widest dim whose stream fits; 0: none does. */
static dpmf_status choose_dim(const dpmf_mechanism *m, const dpmf_noise_options *o, int64_t steps, int64_t *out) {
    int64_t dim = NUMBERS / steps / DIM_MIN * DIM_MIN;
    for (; dim >= DIM_MIN; dim = dim / 2 / DIM_MIN * DIM_MIN) {
        uint64_t bytes = 0;
        TRY(dpmf_noise_memory(m, dim, o, &bytes, NULL));
        if (bytes <= BYTES_MAX) break;
    }
    *out = dim < DIM_MIN ? 0 : dim;
    return DPMF_OK;
}

static dpmf_status draw(const dpmf_mechanism *m, const dpmf_noise_options *o, const sample *s, double *scale) {
    uint8_t key[DPMF_KEY_SIZE];
    float *row = NULL;
    dpmf_noise *noise = NULL;
    dpmf_status status = DPMF_OK;
    TRY(dpmf_key_create(key));
    TRY_DONE(base_alloc(s->dim, sizeof *row, "a row of noise", (void **)&row));
    TRY_DONE(dpmf_noise_create(m, s->dim, 1, key, o, &noise));
    *scale = dpmf_noise_get(noise).release.scale;
    for (int64_t t = 0; t < s->steps; t++) {
        TRY_DONE(dpmf_noise_next(noise, row));
        for (int64_t i = 0; i < s->dim; i++)
            s->x[t * s->dim + i] = row[i];
    }
done:
    dpmf_key_wipe(key);
    dpmf_noise_free(noise);
    base_free(row);
    return status;
}

static dpmf_status test_sample(verify_task *v, const dpmf_mechanism *m, const dpmf_noise_options *o, sample *s) {
    double *l = NULL, scale = 1;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(s->steps * s->dim, "rows of noise", &s->x));
    TRY_DONE(base_alloc_doubles(s->steps * s->steps, "a whitening matrix", &l));
    TRY_DONE(draw(m, o, s, &scale));
    TRY_DONE(whitener(v, s->steps, l));
    /* x = L x / scale in place, the last row first. */
    for (int64_t t = s->steps - 1; t >= 0; t--) {
        double *row = s->x + t * s->dim;
        for (int64_t i = 0; i < s->dim; i++)
            row[i] *= l[t * s->steps + t] / scale;
        for (int64_t u = 0; u < t; u++) {
            const double factor = l[t * s->steps + u] / scale, *other = s->x + u * s->dim;
            for (int64_t i = 0; i < s->dim && factor != 0; i++)
                row[i] += factor * other[i];
        }
    }
    const int64_t count = s->steps * s->dim;
    const double n = (double)count;
    double sum = base_sum(count, s->x), squares = base_dot(count, s->x, s->x);
    int64_t beyond = 0;
    for (int64_t i = 0; i < count; i++)
        beyond += fabs(s->x[i]) > 3;
    add_test(v, "noise.mean", 0, sum / n, sqrt(2 * A / n), "mean");
    add_test(v, "noise.variance", 1, squares / n, 2 * sqrt(A / n) + 2 * A / n, "mean square");
    add_test(v, "noise.tail", BEYOND_3, (double)beyond / n, sqrt(2 * BEYOND_3 * A / n) + A / n, "part beyond 3");
    check_correlation(v, s);
done:
    base_free(l);
    base_free(s->x);
    return status;
}

dpmf_status verify_law(verify_task *v) {
    const dpmf_mechanism *m = v->mechanism;
    dpmf_mechanism wide =
        *m; /* borrows all; a sample that protects nothing may have columns for which m has no guarantee */
    dpmf_noise_options o = dpmf_noise_options_defaults();
    wide.problem.evaluation.sensitivity.columns = 0;
    sample s = {.steps = m->problem.steps < STEPS ? m->problem.steps : STEPS};
    o.run = *v->run;
    o.lookahead = 1; /* few rows are needed */
    o.label = "verification";
    o.uncalibrated = 1;                         /* the law is that of the strategy, and no row leaves */
    if (m->problem.steps > 65536) s.steps = 32; /* a column of C takes O(n) or more */
    if (!verify_is_small(m) && verify_stream_is_whole(m->strategy)) {
        verify_check_skip(v->out, "noise", "not made: a stream of %" PRId64 " steps needs the whole W first",
                          m->problem.steps);
        return DPMF_OK;
    }
    TRY(base_progress(v->run, "verify: the law of the noise", 0));
    dpmf_status status = choose_dim(&wide, &o, s.steps, &s.dim);
    if (status == DPMF_OK && s.dim == 0) {
        verify_check_skip(v->out, "noise", "not made: its stream would take too much memory here");
        return DPMF_OK;
    }
    if (status == DPMF_OK) status = test_sample(v, &wide, &o, &s);
    if (!verify_is_verdict(status)) return status;
    verify_check_skip(v->out, "noise", "no noise could be made: %s", dpmf_last_error());
    return DPMF_OK;
}
