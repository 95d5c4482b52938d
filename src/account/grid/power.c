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
#include "base/special.h"
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
        if (f % report == 0) TRY(base_progress(run, "composing a privacy loss", (double)f / (double)length));
    }
    return DPMF_OK;
}

/* g */
static double growth(int64_t length) {
    return 16 * GRID_ROUNDING * (log2((double)length) + 2);
}

static double sum_but_first(int64_t length, const double *w) {
    base_running sum = {0, 0};
    for (int64_t j = 1; j < length; j++)
        base_running_add(&sum, w[j]);
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
    for (int64_t j = 0; j < length; j++)
        w[j] *= centre;
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

/*
 * ---- the delta curve ----
 *
 * The composition on a window, and delta from it, as upper bounds: of one loss n-fold, or of several, each n_i-fold, all
 * tilted by the same order t, whose transforms are multiplied and whose n_i ln M_i add up to n ln M below.
 *
 * Notation: w the tilted atoms folded modulo N, of sum 1; v their transform, v_f; X the sum of n tilted losses; o_k =
 * P[X = x_k] at the grid points x_k of the window [A, B), B = A + N h; M the moment: an outcome x weighs e^(n ln M - t x)
 * times its tilted probability (Esscher 1932; the tilt is what keeps the digits of a delta of 1e-25).
 *
 *     delta(eps) = sum_{x > eps} P[X = x] e^(n ln M - t x) (1 - e^(eps - x))  +  the mass of infinite loss.
 *
 * Circularity: the inverse transform of v^n gives the sums of P[X = x + j N h] over all j, at least o_k: what is wrapped
 * around only adds. Of what lies above the window, B and beyond, an outcome weighs at most e^(n ln M - t B) (1 - e^(-N h)),
 * for e^(-tx) (1 - e^(A - x)) falls from x = A + ln(1 + 1/t) on, which is in the window, or else 1 - e^(-N h) is left
 * out; and P[X >= B] <= (sum_i w_i e^(s x_i))^n e^(-s B) for s >= 0 (Chernoff).
 *
 * Rounding: the bound above is added to every o_k.
 *
 * delta at grid points, from the top down, in positive terms: with V_k = sum_{j >= k} o_j e^(-(1+t)(x_j - x_k)) and D_k =
 * sum_{j > k} o_j e^(-t (x_j - x_k)) (1 - e^(x_k - x_j)),
 *
 *     V_k = o_k + e^(-(1+t)h) V_{k+1},      D_k = e^(-th) (D_{k+1} + (1 - e^-h) V_{k+1}),
 *
 * and between grid points delta is linear in e^eps.
 */

static double log_up(double sum_of_terms, double magnitude) {
    return sum_of_terms + 4 * GRID_ROUNDING * magnitude;
}

static grid_moments fold(const grid_atoms *a, double step, double t, double s, int64_t length, double *w) {
    const double u = GRID_ROUNDING;
    base_running sum = {0, 0}, wrap = {0, 0};
    double largest = -INFINITY;
    for (int64_t i = 0; i < a->count; i++)
        if (a->mass[i] > 0) largest = fmax(largest, t * step * (double)(a->first + i) + log(a->mass[i]));
    for (int64_t i = 0; i < a->count; i++)
        base_running_add(&sum, a->mass[i] * exp(t * step * (double)(a->first + i) - largest));
    const double log_moment = largest + log(base_running_value(&sum));
    int64_t slot = a->first % length;
    if (slot < 0) slot += length;
    for (int64_t i = 0; i < length; i++)
        w[i] = 0;
    sum = (base_running){0, 0};
    for (int64_t i = 0; i < a->count; i++) {
        const double x = step * (double)(a->first + i), exponent = t * x - log_moment;
        const double weight = a->mass[i] * exp(exponent) * (1 + u * (16 + 4 * fabs(t * x) + 4 * fabs(log_moment)));
        w[slot] += weight * (1 + u * (8 + (double)a->count / (double)length)); /* and of the sums */
        base_running_add(&sum, weight);
        base_running_add(&wrap, weight * exp(s * x) * (1 + 4 * u * s * fabs(x)));
        if (++slot == length) slot = 0;
    }
    return (grid_moments){log_moment, log(base_running_value(&wrap)) + 1e-14, log(base_running_value(&sum)) + 1e-14};
}

typedef struct total {
    grid_moments moments;
    double magnitude; /* the sum of |n ln M| */
} total;

static void add_moments(total *all, double n, const grid_moments *m) {
    all->moments.log_moment += n * m->log_moment;
    all->moments.log_wrap += n * m->log_wrap;
    all->moments.log_sum += n * m->log_sum;
    all->magnitude += n * fabs(m->log_moment);
}

static dpmf_status compose_list(const grid_list *list, const grid_plan *plan, const dpmf_run *run, double *w,
                                double *noise, total *all) {
    grid_spectrum v;
    dpmf_status status = DPMF_OK;
    TRY(grid_spectrum_create(plan->length, &v));
    for (int i = 0; i < list->count; i++) {
        const grid_atoms *a = &list->atoms[i];
        TRY_DONE(base_progress(run, "composing privacy losses", (double)i / (double)list->count));
        const grid_moments m = fold(a, plan->step, plan->order, plan->wrap_order, plan->length, w);
        grid_spectrum_add(&v, a->times, w);
        add_moments(all, a->times, &m);
    }
    *noise = grid_spectrum_sum(&v, w);
done:
    grid_spectrum_free(&v);
    return status;
}

dpmf_status grid_compose(const pair_constants *p, const grid_list *list, const grid_plan *plan, const dpmf_run *run,
                         grid_curve *out) {
    grid_curve c = {.length = plan->length, .first = plan->first, .step = plan->step, .order = plan->order};
    total all = {0};
    double *w = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(c.length, "the distribution of a privacy loss", &w));
    TRY_DONE(base_alloc_doubles(c.length, "the tails of a privacy loss", &c.tails));
    if (p != NULL) {
        grid_moments m;
        TRY_DONE(grid_densities(p, plan, run, w, &m));
        TRY_DONE(grid_power(c.length, p->n, w, run, &c.noise));
        add_moments(&all, p->n, &m);
    } else {
        TRY_DONE(compose_list(list, plan, run, w, &c.noise, &all));
    }
    /* n ln M, and 4 u for each of the recurrence's steps */
    c.log_moment = log_up(all.moments.log_moment, all.magnitude + (double)c.length);
    const double top = (double)(c.first + c.length) * c.step, s = plan->wrap_order;
    const double chernoff = log_up(all.moments.log_wrap - s * top, fabs(all.moments.log_wrap) + s * fabs(top));
    const double log_mass = fmin(s > 0 ? chernoff : INFINITY, all.moments.log_sum);
    const double width = (double)c.length * c.step;
    const double log_weight = width > log1p(1 / c.order) ? log(-expm1(-width)) : 0;
    const double above = log_up(c.log_moment - c.order * top + log_mass + log_weight,
                                fabs(c.log_moment) + c.order * fabs(top) + fabs(log_weight));
    c.log_rest = base_log_add(plan->log_infinite, above);
    /* The tails, from the numbers o[i mod N] of the window, each raised by the noise. */
    const int64_t n = c.length, offset = ((c.first % n) + n) % n;
    const double fade = exp(-(1 + c.order) * c.step), tilt = exp(-c.order * c.step), part = -expm1(-c.step);
    double v = 0, d = 0;
    for (int64_t k = n - 1; k >= 0; k--) {
        d = tilt * (d + part * v);
        c.tails[k] = d;
        int64_t slot = offset + k;
        if (slot >= n) slot -= n;
        v = (w[slot] > 0 ? w[slot] : 0) + c.noise + fade * v;
    }
    *out = c;
    c.tails = NULL;
done:
    base_free(w);
    base_free(c.tails);
    return status;
}

void grid_curve_free(grid_curve *curve) {
    base_free(curve->tails);
    curve->tails = NULL;
}

/* ln of the bound at grid point k, without what was cut off. */
static double log_tail_at(const grid_curve *c, int64_t k) {
    const double shift = c->order * (double)(c->first + k) * c->step;
    return log_up(c->log_moment - shift + log(c->tails[k]), fabs(c->log_moment) + fabs(shift) + 800);
}

static double grid_point(const grid_curve *c, int64_t k) {
    return (double)(c->first + k) * c->step;
}

double grid_curve_log_delta(const grid_curve *curve, double epsilon) {
    const double place = epsilon / curve->step - (double)curve->first;
    if (!(place >= 0)) return INFINITY;
    /* A grid point that is certainly not above epsilon; between it and the next, linear in e^epsilon. */
    int64_t k = place < (double)(curve->length - 1) ? (int64_t)place : curve->length - 1;
    if (k > 0 && grid_point(curve, k) > epsilon) k--;
    double log_tail = log_tail_at(curve, k);
    if (k + 1 < curve->length) {
        const double part = expm1(epsilon - grid_point(curve, k)) / expm1(curve->step);
        const double down = fmin(fmax(part, 0), 1) * (1 - 1e-12);
        const double next = log_tail_at(curve, k + 1);
        log_tail = base_log_add(log_tail + log1p(-down), next + log(down));
    }
    return base_log_add(log_tail, curve->log_rest) + 1e-14;
}

grid_shape grid_curve_shape(const grid_curve *curve, double epsilon, double log_delta) {
    const double t = curve->order, h = curve->step;
    enum { APART = 4 }; /* grid points between the places compared: not so near that one atom makes the difference */
    int64_t k = (int64_t)fmin(fmax(epsilon / h - (double)curve->first, APART), (double)(curve->length - 1 - 2 * APART));
    const double here = log_tail_at(curve, k);
    const double left = exp(log_tail_at(curve, k - APART) - here), right = exp(log_tail_at(curve, k + APART) - here);
    grid_shape shape;
    shape.slope = fmax((left - right) / (2 * APART * h), 1e-300);
    shape.bend = fmax((left - 2 + right) / (APART * h * APART * h) / shape.slope, 0);
    /* D_k of a window that holds `noise` alone */
    const double d = curve->noise * exp(-t * h) * -expm1(-h) / (expm1(-t * h) * expm1(-(1 + t) * h));
    shape.noise = exp(curve->log_moment - t * epsilon + log(d) - log_delta);
    shape.cut = exp(curve->log_rest - log_delta);
    return shape;
}

double grid_curve_epsilon(const grid_curve *curve, double log_delta, int *side) {
    *side = 1;
    if (!(curve->log_rest < log_delta - 0.01)) return INFINITY; /* nearer, their difference would lose its digits */
    const double target = base_log_sub(log_delta, curve->log_rest) - 4e-14 * (1 + fabs(log_delta));
    int64_t low = 0, high = curve->length - 1; /* the bound falls as k rises: above the target at low, not at high */
    if (!(log_tail_at(curve, high) <= target)) return INFINITY;
    *side = -1;
    if (log_tail_at(curve, low) <= target) return grid_point(curve, low);
    *side = 0;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        *(log_tail_at(curve, middle) <= target ? &high : &low) = middle;
    }
    const double more = exp(fmin(log_tail_at(curve, low) - target, 700)), less = exp(log_tail_at(curve, high) - target);
    const double part = fmin((more - 1) / (more - less) * (1 + 1e-12), 1);
    const double x = grid_point(curve, low);
    return x + log1p(part * expm1(curve->step)) * (1 + 1e-12) + 4 * GRID_ROUNDING * fabs(x);
}
