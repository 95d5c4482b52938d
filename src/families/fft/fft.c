/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The FFT mechanism (Choquette-Choo et al. 2023, Section 4 and Appendices C, J, K, mechanism 1) and its best decoder.
 *
 * There, the n x n matrix S of prefix sums is embedded in the circulant of order 2n with first column v = (1^n, 0^n),
 * whose square root, also circulant, is cut to an encoder C_F (2n x n) and a decoder B_F (n x 2n). All of v's even
 * frequencies but 0 vanish, so the rows of C_F fall into n pairs s + h_i, s - h_i, and turning each pair by 45 degrees,
 * which changes neither C'C nor the law of the noise, leaves n + 1 rows:
 *
 *     C = [ 1' / sqrt 2 ; H ],   H skew-circulant with first column a,  a_j = sum_q (-1)^q c_{j+qn},
 *     c_m = (-1)^m binomial(-1/2, m): the series of (1-x)^(-1/2), which H is modulo x^n = -1.
 *
 *     fft       prefix sums decoded as b = z_0/sqrt 2 + H z, since S = 11'/2 + H H; the noise of a step is their difference
 *     fft-opt   W = C^+: with r = H^-1 z,  y = r + (2 c/(2+tau)) (sqrt 2 z_0 - sum r)
 *
 * (here c_d = csc((2d+1) pi/(2n))/n, tau = 2 sum c_d). H^-1 is skew-circulant with the series of (1-x)^(1/2). In closed form
 * C'C = Toeplitz(x_d), x_0 = 1/2 + tau/4, x_d = x_0 - sum_{i<d} c_i, so nothing of size n x n is formed and products cost
 * O(n log n). The alternating sums converge like 1/sqrt(q) only and are summed by the acceleration of Cohen, Rodriguez Villegas and
 * Zagier (2000), exact to double precision after 24 terms for moment sequences like these.
 *
 * Every row of the noise needs every seed: there is no stream with fewer than n buffers.
 */
#include "families/families.h"

#include "base/fft.h"
#include "base/memory.h"
#include "base/sum.h"
#include "error/error.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { STEPS_MAX = 1 << 24 }; /* all rows are made at once: n numbers per coordinate */
enum { TERMS = 24 };          /* the error is below (3 + sqrt 8)^-24 < 1e-18 */

typedef struct fourier {
    dpmf_strategy base;
    int best;        /* fft-opt? */
    double *h;       /* first column of H, or of H^-1 for solve of fft-opt */
    double *inverse; /* first column of H^-1; fft-opt only */
    double *c;       /* csc((2d+1) pi/2n)/n */
    double *gram;    /* x_d */
    double tau;
} fourier;

STRATEGY_CAST(fourier)

static void fourier_release(dpmf_strategy *s) {
    fourier *self = (fourier *)s;
    base_free(self->h);
    base_free(self->inverse);
}

/*
 * a_j = sum_q (-1)^q f_{j+qn} for the series f of (1-x)^power, power = -1/2 or 1/2. For power 1/2, f_0 = 1 has the
 * other sign than the rest and would not be a moment sequence: it is added by itself.
 */
static void skew_column(int64_t n, double power, double *a) {
    double u[TERMS], f = 1;
    /* Weights u_q with sum_q u_q f_q = sum_q (-1)^q f_q to double precision. */
    double d = pow(3 + sqrt(8), TERMS);
    d = (d + 1 / d) / 2;
    double b = -1, c = -d;
    for (int k = 0; k < TERMS; k++) {
        c = b - c;
        u[k] = c / d;
        b *= ((double)k + TERMS) * ((double)k - TERMS) / (((double)k + 0.5) * ((double)k + 1));
    }
    memset(a, 0, (size_t)n * sizeof *a);
    int64_t first = power > 0 ? 1 : 0; /* class 0 starts at m = n for power 1/2: its signs are reversed below */
    for (int64_t m = 0; m < n * TERMS + first * n; m++) {
        int64_t j = m % n, q = m / n - (j == 0 ? first : 0);
        if (q >= 0 && q < TERMS) a[j] += u[q] * f;
        f *= ((double)m - power) / ((double)m + 1);
    }
    if (first) a[0] = 1 - a[0];
}

/* out = (skew-circulant with first column a) x: the product of the two series modulo x^n = -1. */
static dpmf_status skew_multiply(int64_t n, const double *a, const double *x, double *out) {
    double *product = NULL;
    TRY(base_alloc_doubles(2 * n - 1, "a product of series", &product));
    dpmf_status status = base_convolve(n, a, n, x, 2 * n - 1, product);
    for (int64_t i = 0; i < n && status == DPMF_OK; i++)
        out[i] = product[i] - (i + n < 2 * n - 1 ? product[i + n] : 0);
    base_free(product);
    return status;
}

static int64_t fourier_rows(const dpmf_strategy *s) {
    return s->steps + 1;
}

static int64_t fourier_buffers(const dpmf_strategy *s) {
    return s->steps;
}

static dpmf_status fourier_apply(const dpmf_strategy *s, const double *x, double *y) {
    base_running sum = {0};
    for (int64_t t = 0; t < s->steps; t++)
        base_running_add(&sum, x[t]);
    y[0] = base_running_value(&sum) * M_SQRT1_2;
    return skew_multiply(s->steps, cast(s)->h, x, y + 1);
}

static dpmf_status solve_best(const fourier *s, const double *z, double *x) {
    base_running sum = {0};
    TRY(skew_multiply(s->base.steps, s->inverse, z + 1, x));
    for (int64_t t = 0; t < s->base.steps; t++)
        base_running_add(&sum, x[t]);
    double pull = 2 * (M_SQRT2 * z[0] - base_running_value(&sum)) / (2 + s->tau);
    for (int64_t t = 0; t < s->base.steps; t++)
        x[t] += pull * s->c[t];
    return DPMF_OK;
}

static dpmf_status fourier_solve(const dpmf_strategy *s, const double *z, double *x) {
    if (cast(s)->best) return solve_best(cast(s), z, x);
    TRY(skew_multiply(s->steps, cast(s)->h, z + 1, x));
    double before = 0;
    for (int64_t t = 0; t < s->steps; t++) {
        double sum = x[t] + z[0] * M_SQRT1_2;
        x[t] = sum - before;
        before = sum;
    }
    return DPMF_OK;
}

static dpmf_status fourier_column(const dpmf_strategy *s, int64_t j, double *column) {
    column[0] = M_SQRT1_2;
    for (int64_t i = 0; i < s->steps; i++)
        column[1 + i] = i >= j ? cast(s)->h[i - j] : -cast(s)->h[s->steps + i - j];
    return DPMF_OK;
}

static dpmf_status fourier_gram(const dpmf_strategy *s, int64_t lag, double *values) {
    for (int64_t t = 0; t + lag < s->steps; t++)
        values[t] = cast(s)->gram[lag];
    return DPMF_OK;
}

/* W W' = Toeplitz(c_d - c_{d-1}), c_{-1} = -c_0, but for step 0 of fft, and less a rank one for fft-opt. */
static void fourier_covariance(const dpmf_strategy *s, int64_t t, double *values) {
    const fourier *self = cast(s);
    const double *c = self->c;
    for (int64_t u = t; u < s->steps; u++) {
        int64_t d = u - t;
        values[d] = d == 0 ? 2 * c[0] : c[d] - c[d - 1];
        if (self->best)
            values[d] -= 4 * c[t] * c[u] / (2 + self->tau);
        else if (t == 0)
            values[d] = d == 0 ? self->gram[0] : -c[d - 1];
    }
}

static void fourier_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    (void)s, (void)w, (void)tensors; /* the family and the number of steps say it all */
}

/* Prefix sums have closed forms. The blocks of a repeated mechanism add up: block k, step t has k q_last + q_t. */
static dpmf_status fft_squared_errors(const dpmf_strategy *s, const error_question *q, int *done, double *squares) {
    const fourier *self = cast(s);
    base_running sum = {0};
    *done = q->scale == NULL && workload_is_prefix(q->a);
    if (!*done) return DPMF_OK;
    for (int64_t t = 0; t < s->steps; t++) {
        base_running_add(&sum, 2 * self->c[t]);
        double p = base_running_value(&sum);
        /* P_t (1 - P_t/(2+tau)) with 2 + tau - P_t taken as 2 + the sum of the later terms by symmetry of c */
        squares[t] = self->best ? p * ((2 + self->tau - p) / (2 + self->tau)) : self->gram[0];
    }
    for (int64_t k = q->stamps - 1; k >= 0; k--)
        for (int64_t t = s->steps - 1; t >= 0; t--)
            squares[k * s->steps + t] = (double)k * squares[s->steps - 1] + squares[t];
    return DPMF_OK;
}

static const strategy_ops FOURIER = {.class_name = "fft",
                                     .release = fourier_release,
                                     .rows = fourier_rows,
                                     .apply = fourier_apply,
                                     .solve = fourier_solve,
                                     .buffers = fourier_buffers,
                                     .column = fourier_column,
                                     .gram = fourier_gram,
                                     .covariance = fourier_covariance,
                                     .squared_errors = fft_squared_errors,
                                     .write = fourier_write};

dpmf_status fft_create(int64_t steps, int best, dpmf_strategy **out) {
    fourier *s = NULL;
    dpmf_status status = DPMF_OK;
    if (steps > STEPS_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "family %s: %lld steps, accepted up to %d (it has no stream)",
                         best ? DPMF_FAMILY_FFT_OPT : DPMF_FAMILY_FFT, (long long)steps, STEPS_MAX);
    TRY(strategy_new(&FOURIER, sizeof *s, best ? DPMF_FAMILY_FFT_OPT : DPMF_FAMILY_FFT, steps, (dpmf_strategy **)&s));
    s->best = best;
    TRY_DONE(BASE_ARRAYS("the FFT encoder", {&s->h, steps}, {&s->c, steps}, {&s->gram, steps}));
    skew_column(steps, -0.5, s->h);
    base_running sum = {0};
    for (int64_t d = 0; d < steps; d++) {
        s->c[d] = 1 / ((double)steps * sin((2 * (double)d + 1) * M_PI / (2 * (double)steps)));
        base_running_add(&sum, s->c[d]);
    }
    s->tau = 2 * base_running_value(&sum);
    sum = (base_running){0.5 + s->tau / 4, 0};
    for (int64_t d = 0; d < steps; d++) {
        s->gram[d] = base_running_value(&sum);
        base_running_add(&sum, -s->c[d]);
    }
    if (best) {
        TRY_DONE(base_alloc_doubles(steps, "the FFT decoder", &s->inverse));
        skew_column(steps, 0.5, s->inverse);
    }
    *out = &s->base;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

dpmf_status fft_read(const strategy_source *source, dpmf_strategy **out) {
    int best = strcmp(source->family, DPMF_FAMILY_FFT_OPT) == 0;
    if (!best && strcmp(source->family, DPMF_FAMILY_FFT) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: an FFT of family %s is not known", source->family);
    return fft_create(source->steps, best, out);
}
