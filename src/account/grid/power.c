/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of independent random variables modulo N, by Fourier transform, with a bound on the rounding errors: the n-fold
 * sum of one, and the sum of several, each its own number of times.
 *
 * Notation: w_j >= 0 its N probabilities, of sum about 1; v_f their transform; u = 2^-53.
 *
 * The transform: every number in its flow graph is a sum over some inputs times unit roots, in modulus at most sum |w|.
 * A level of butterflies adds at most 6 u of that (a root is off by 2 u, or by 6 u where it is the product of two; a
 * product adds sqrt 5 u, a sum u; a radix-4 step makes two levels), and splitting the real spectrum doubles the whole:
 *
 *     |error of v_f| <= g sum |w|,    g = 16 u (log2 N + 2);      and of the inverse, g (1/N) sum_f |v_f|.
 *
 * Let a = w_0, R = the sum of the others, and x = v - 1 = (a - 1) + their transform: x is off by g R and 2 u |x|, where
 * |x| <= |1-a| + R. In rare sampling R is small, and so are the errors.
 *
 * Plainly: v^n = exp(n ln(1+x)). With |v| the computed modulus and e = g R + 48 u (|1-a| + R)
 *
 *     |error of v^n| <= n e (|v| + e)^(n-1) + 8 u |v|^n,
 *
 * 48 u for logarithm, angle and their products with n. Frequencies where (|v| + e)^n <= e^-60 are set to 0, which makes
 * an error of at most e^-60: most frequencies where n is large, and they cost nothing.
 *
 * With a centre: if even the n-fold sum has much of its mass at 0, that atom is set apart, lest its rounding errors
 * spread. With y_f the transform of the others over a, |y| <= R/a <= 1/2,
 *
 *     v^n = a^n + a^n ((1+y)^n - 1),    (1+y)^n - 1 = expm1(n ln(1+y)):
 *
 * the first term is an atom at 0; the second is transformed back. y is off by g R/a, ln(1+y) by twice that and 48 u |y|
 * more, so that
 *
 *     |error of v^n - a^n| <= 2 n (R/a) (g + 48 u) |v|^n 1.001 + 8 u |v^n - a^n|,
 *
 * where 1.001 makes room for |v| + g R in place of |v|, as n R/a is at most 30.
 *
 * The sum over the frequencies, over N, bounds the error of every probability.
 *
 * Several: V = prod_i v_i^(n_i), every v_i within e_i = g R + 48 u (|1-a| + R) of its true value
 * as above, with room for logarithm, angle and their products with n_i. Multiplying out,
 *
 *     |prod (v_i + y_i)^(n_i) - prod v_i^(n_i)| <= prod (|v_i| + e_i)^(n_i) - prod |v_i|^(n_i),    |y_i| <= e_i,
 *
 * for every term on the left has its modulus as a term on the right. So each frequency keeps ln |V|, its angle, and D = sum
 * n_i ln(1 + e_i/|v_i|): its error is |V| (e^D - 1). Where |v_i| < e_i it is taken as e_i, and e_i as twice that. Where |V| e^D
 * is below e^-60, V is taken as 0. The transform back adds g (1/N) sum |V|. Every number of the window is raised by
 * all that; weights are raised by their own roundings.
 */
#include "account/grid/grid.h"

#include "base/memory.h"
#include "base/sum.h"
#include <math.h>

static const double NEGLIGIBLE = 60; /* e^-60: far below any other error */
static const double CENTRE = 30;     /* n R/a up to which the atom at 0 is set apart: a^n is above e^-60 then */

typedef struct power {
    double n;
    double shift, factor;  /* plain: a - 1, added to the spectrum; centre: 1/a, times the spectrum */
    double least;          /* plain: squared modulus below which a frequency counts as 0 */
    double errors, moduli; /* sums over the frequencies: of |v|^(n-1) (plain) or |v|^n (centre); of what goes back */
} power;

/* ln(1 + x + i y). Near 1, where most frequencies are when n is large, by ten terms of the series: 0.02^10/11 is left. */
static void complex_log1p(double x, double y, double *log_modulus, double *angle) {
    if (fabs(x) + fabs(y) > 0.02) {
        const double more = 2 * x + (x * x + y * y); /* of the squared modulus; far from 1 it is taken as it is */
        *log_modulus = 0.5 * (more > -0.5 ? log1p(more) : log((1 + x) * (1 + x) + y * y));
        *angle = atan2(y, 1 + x);
        return;
    }
    double a = -1.0 / 10, b = 0; /* a + i b = 1 - z/2 + z^2/3 - ..., by Horner's rule */
    for (int k = 9; k >= 1; k--) {
        const double c = a * x - b * y;
        b = a * y + b * x;
        a = c + (k % 2 ? 1.0 : -1.0) / k;
    }
    *log_modulus = a * x - b * y;
    *angle = a * y + b * x;
}

/* (1 + shift + (re, im))^n; `times` how often the frequency counts. */
static void raise_plain(power *s, double times, double *re, double *im) {
    const double x = *re + s->shift, y = *im, square = (1 + x) * (1 + x) + y * y;
    if (!(square > s->least)) {
        *re = *im = 0;
        return;
    }
    double log_modulus, angle;
    complex_log1p(x, y, &log_modulus, &angle);
    const double modulus = exp(s->n * log_modulus);
    s->moduli += times * modulus;
    s->errors += times * modulus / sqrt(square);
    *re = modulus * cos(s->n * angle);
    *im = modulus * sin(s->n * angle);
}

/* (1 + (re, im)/a)^n - 1. */
static void raise_centred(power *s, double times, double *re, double *im) {
    double log_modulus, angle;
    complex_log1p(*re * s->factor, *im * s->factor, &log_modulus, &angle);
    log_modulus *= s->n;
    angle *= s->n;
    const double more = expm1(log_modulus), half = sin(0.5 * angle), turn = -2 * half * half;
    const double across = (1 + more) * sin(angle);
    s->errors += times * (1 + more);
    s->moduli += times * (fabs(more) - turn + fabs(across)); /* at least the modulus, also where the parts cancel */
    *re = more * cos(angle) + turn;
    *im = across;
}

typedef void raise_function(power *s, double times, double *re, double *im);

static dpmf_status raise_spectrum(power *s, raise_function *raise, int64_t length, double *v, const dpmf_run *run) {
    static const int64_t report = 1 << 18;
    double zero[2] = {0, 0};
    raise(s, 1, &v[0], &zero[0]);
    raise(s, 1, &v[1], &zero[1]);
    for (int64_t f = 2; f < length; f += 2) {
        raise(s, 2, &v[f], &v[f + 1]);
        if (f % report == 0) {
            TRY(base_progress(run, "composing a privacy loss", (double)f / (double)length));
        }
    }
    return DPMF_OK;
}

/* g */
static double growth(int64_t length) {
    return 16 * GRID_ROUNDING * (log2((double)length) + 2);
}

static double sum_but_first(int64_t length, const double *w) {
    base_running sum = {0, 0};
    for (int64_t j = 1; j < length; j++) {
        base_running_add(&sum, w[j]);
    }
    return base_running_value(&sum);
}

/* 1.001: the roundings in the bounds themselves. */
static dpmf_status power_plain(const base_fft *fft, double n, double g, double rest, double *w, const dpmf_run *run,
                               double *noise) {
    const double u = GRID_ROUNDING, error = g * rest + 48 * u * (fabs(1 - w[0]) + rest);
    const int64_t length = base_fft_length(fft);
    power s = {.n = n, .shift = w[0] - 1};
    double room = 1;
    if (n > 1) {
        const double least = exp(-NEGLIGIBLE / n) - error; /* e^-30 at least, and the error is below 6e-14 */
        if (!(least > 0)) {                                /* not for weights that are numbers */
            *noise = INFINITY;
            return DPMF_OK;
        }
        s.least = least * least;
        room = exp((n - 1) * error / least);
    }
    w[0] = 0;
    base_fft_forward_unordered(fft, length, w);
    TRY(raise_spectrum(&s, raise_plain, length, w, run));
    base_fft_inverse_unordered(fft, length, w);
    const double sum = n * error * room * s.errors + (g + 8 * u) * s.moduli;
    *noise = 1.001 * (sum / (double)length + exp(-NEGLIGIBLE));
    return DPMF_OK;
}

static dpmf_status power_centred(const base_fft *fft, double n, double g, double rest, double *w, const dpmf_run *run,
                                 double *noise) {
    const double u = GRID_ROUNDING;
    const int64_t length = base_fft_length(fft);
    const double a = w[0], log_centre = n * log(a), centre = exp(log_centre);
    power s = {.n = n, .factor = 1 / a};
    w[0] = 0;
    base_fft_forward_unordered(fft, length, w);
    TRY(raise_spectrum(&s, raise_centred, length, w, run));
    base_fft_inverse_unordered(fft, length, w);
    for (int64_t j = 0; j < length; j++) {
        w[j] *= centre;
    }
    w[0] += centre * (1 + 8 * u * (1 + fabs(log_centre)));
    const double sum = 2 * n * (rest / a) * (g + 48 * u) * s.errors + (g + 8 * u) * s.moduli;
    *noise = 1.002 * centre * sum / (double)length;
    return DPMF_OK;
}

dpmf_status grid_power(int64_t length, double n, double *w, const dpmf_run *run, double *noise) {
    const double g = growth(length), rest = sum_but_first(length, w);
    base_fft *fft = NULL;
    TRY(base_fft_create(length, &fft));
    const int centred = rest <= 0.5 * w[0] && n * rest <= CENTRE * w[0];
    const dpmf_status status =
        centred ? power_centred(fft, n, g, rest, w, run, noise) : power_plain(fft, n, g, rest, w, run, noise);
    base_fft_free(fft);
    return status;
}

/* ---- several ---- */

dpmf_status grid_spectrum_create(int64_t length, grid_spectrum *out) {
    const int64_t half = length / 2 + 1;
    grid_spectrum v = {0};
    TRY(base_alloc_doubles(3 * half, "the spectrum of a privacy loss", &v.log_modulus));
    v.angle = v.log_modulus + half;
    v.excess = v.angle + half;
    const dpmf_status status = base_fft_create(length, &v.fft);
    if (status != DPMF_OK) base_free(v.log_modulus);
    if (status == DPMF_OK) *out = v;
    return status;
}

void grid_spectrum_free(grid_spectrum *spectrum) {
    base_free(spectrum->log_modulus);
    base_fft_free(spectrum->fft);
}

/* One frequency of one part: v = 1 + (x, y), off by e. */
static void multiply(grid_spectrum *v, int64_t f, double n, double x, double y, double e) {
    const double more = 2 * x + (x * x + y * y); /* of the squared modulus */
    double log_modulus = 0.5 * (more > -0.5 ? log1p(more) : log((1 + x) * (1 + x) + y * y));
    if (!(log_modulus > log(e))) {
        log_modulus = log(e);
        e *= 2;
    }
    v->log_modulus[f] += n * log_modulus;
    v->angle[f] += n * atan2(y, 1 + x);
    v->excess[f] += n * log1p(e * exp(-log_modulus));
}

void grid_spectrum_add(grid_spectrum *v, double n, double *w) {
    const int64_t length = base_fft_length(v->fft);
    const double shift = w[0] - 1, rest = sum_but_first(length, w);
    const double e = growth(length) * rest + 48 * GRID_ROUNDING * (fabs(shift) + rest) + 1e-300;
    w[0] = 0;
    base_fft_forward_unordered(v->fft, length, w);
    multiply(v, 0, n, w[0] + shift, 0, e);
    multiply(v, length / 2, n, w[1] + shift, 0, e);
    for (int64_t f = 1; f < length / 2; f++)
        multiply(v, f, n, w[2 * f] + shift, w[2 * f + 1], e);
}

double grid_spectrum_sum(const grid_spectrum *v, double *w) {
    const int64_t length = base_fft_length(v->fft), half = length / 2;
    double errors = 0, moduli = 0;
    for (int64_t f = 0; f <= half; f++) {
        const double times = f == 0 || f == half ? 1 : 2, top = v->log_modulus[f] + v->excess[f];
        double modulus = 0;
        if (top > -NEGLIGIBLE) {
            modulus = exp(v->log_modulus[f]);
            errors += times * modulus * expm1(v->excess[f]);
        } else {
            errors += times * exp(-NEGLIGIBLE);
        }
        moduli += times * modulus;
        const double re = modulus * cos(v->angle[f]), im = modulus * sin(v->angle[f]);
        if (f == 0) {
            w[0] = re;
        } else if (f == half) {
            w[1] = re;
        } else {
            w[2 * f] = re;
            w[2 * f + 1] = im;
        }
    }
    base_fft_inverse_unordered(v->fft, length, w);
    return 1.001 * (errors + (growth(length) + 16 * GRID_ROUNDING) * moduli) / (double)length;
}
