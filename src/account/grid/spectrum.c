/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sum of the losses of all parts on a window, by one Fourier transform each and one back, with a bound on the
 * rounding errors. account/grid/compose.c has the window, what is wrapped around it and delta from it; here the n-fold sum
 * of one loss is replaced by sums of several.
 *
 * Notation: part i has atoms of mass m at losses x and counts n_i times; all are tilted by the same order t, w = m e^(t x -
 * L_i); v_i the transform of the w folded modulo N; u = 2^-53.
 *
 *     transform of the sum:  V = prod_i v_i^(n_i),      an outcome x weighs e^(sum_i n_i L_i - t x).
 *
 * Rounding. As in account/grid/power.c every v_i is within e_i = g R + 48 u (|1-a| + R) of its true value, a the weight at 0,
 * R the others' sum, g = 16 u (log2 N + 2), with room for logarithm, angle and their products with n_i. Multiplying out,
 *
 *     |prod (v_i + y_i)^(n_i) - prod v_i^(n_i)| <= prod (|v_i| + e_i)^(n_i) - prod |v_i|^(n_i),    |y_i| <= e_i,
 *
 * for every term on the left has its modulus as a term on the right. So each frequency keeps ln |V|, its angle, and D = sum
 * n_i ln(1 + e_i/|v_i|): its error is |V| (e^D - 1). Where |v_i| < e_i it is taken as e_i, and e_i as twice that. Where |V| e^D
 * is below e^-60, V is taken as 0. The transform back adds g (1/N) sum |V|. Every number of the window is raised by
 * all that; weights are raised by their own roundings.
 */
#include "account/grid/product.h"

#include "base/fft.h"
#include "base/memory.h"
#include "base/special.h"
#include "base/sum.h"
#include <math.h>

static const double NEGLIGIBLE = 60;

typedef struct tilted {
    double log_moment; /* L_i */
    double log_sum;    /* of the weights: nearly 0 */
    double log_wrap;   /* ln sum w e^(s x), from above */
} tilted;

/* The tilted weights of a part, folded into w. */
static tilted fold(const hull_atoms *a, double step, double t, double s, int64_t length, double *w) {
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
    return (tilted){log_moment, log(base_running_value(&sum)) + 1e-14, log(base_running_value(&wrap)) + 1e-14};
}

typedef struct spectrum {
    double *log_modulus, *angle, *excess; /* a number each for the frequencies 0 to N/2, of which one packs two */
} spectrum;

/* One frequency of one part: v = 1 + (x, y), off by e. */
static void multiply(spectrum *v, int64_t f, double n, double x, double y, double e) {
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

static double sum_but_first(int64_t length, const double *w) {
    base_running sum = {0, 0};
    for (int64_t j = 1; j < length; j++)
        base_running_add(&sum, w[j]);
    return base_running_value(&sum);
}

static void multiply_part(const base_fft *fft, double g, double n, double *w, spectrum *v) {
    const int64_t length = base_fft_length(fft);
    const double shift = w[0] - 1, rest = sum_but_first(length, w);
    const double e = g * rest + 48 * GRID_ROUNDING * (fabs(shift) + rest) + 1e-300;
    w[0] = 0;
    base_fft_forward_unordered(fft, length, w);
    multiply(v, 0, n, w[0] + shift, 0, e);
    multiply(v, length / 2, n, w[1] + shift, 0, e);
    for (int64_t f = 1; f < length / 2; f++)
        multiply(v, f, n, w[2 * f] + shift, w[2 * f + 1], e);
}

/* V into w, and back; returns the bound on the error of every number. */
static double transform_back(const base_fft *fft, double g, const spectrum *v, double *w) {
    const int64_t length = base_fft_length(fft), half = length / 2;
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
    base_fft_inverse_unordered(fft, length, w);
    return 1.001 * (errors + (g + 16 * GRID_ROUNDING) * moduli) / (double)length;
}

static double log_up(double value, double magnitude) {
    return value + 4 * GRID_ROUNDING * magnitude;
}

/* ln of all that is not on the window: infinite losses, and losses above it (see account/grid/compose.c). */
static double log_cut_off(const grid_list *list, const grid_curve *c, double s, double log_wrap, double log_sum) {
    const double top = (double)(c->first + c->length) * c->step, width = (double)c->length * c->step;
    const double chernoff = log_up(log_wrap - s * top, fabs(log_wrap) + s * fabs(top));
    const double log_weight = width > log1p(1 / c->order) ? log(-expm1(-width)) : 0;
    const double above = log_up(c->log_moment - c->order * top + fmin(chernoff, log_sum) + log_weight,
                                c->order * fabs(top) + fabs(c->log_moment));
    double infinite = 0, steps = 0;
    for (int i = 0; i < list->count; i++) {
        infinite += list->atoms[i].times * list->atoms[i].infinite;
        steps += list->atoms[i].times;
    }
    /* 1e-14 a step: of the masses, which may be a little more than 1 */
    return base_log_add(infinite > 0 ? log(infinite) + 1e-12 + 1e-14 * steps : -INFINITY, above);
}

dpmf_status grid_list_compose(const grid_list *list, const grid_list_plan *plan, const dpmf_run *run, grid_curve *out) {
    const int64_t length = plan->length, half = length / 2 + 1;
    const double g = 16 * GRID_ROUNDING * (log2((double)length) + 2);
    grid_curve c = {.length = length, .first = plan->first, .step = list->step, .order = plan->order};
    double *w = NULL, *numbers = NULL, log_wrap = 0, log_sum = 0, magnitude = 0;
    base_fft *fft = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(length, "the distribution of a privacy loss", &w));
    TRY_DONE(base_alloc_doubles(3 * half, "the spectrum of a privacy loss", &numbers));
    TRY_DONE(base_alloc_doubles(length, "the tails of a privacy loss", &c.tails));
    TRY_DONE(base_fft_create(length, &fft));
    spectrum v = {numbers, numbers + half, numbers + 2 * half};
    for (int i = 0; i < list->count; i++) {
        const hull_atoms *a = &list->atoms[i];
        TRY_DONE(base_progress(run, "composing privacy losses", (double)i / (double)list->count));
        const tilted m = fold(a, c.step, c.order, plan->wrap_order, length, w);
        multiply_part(fft, g, a->times, w, &v);
        c.log_moment += a->times * m.log_moment;
        magnitude += a->times * fabs(m.log_moment);
        log_wrap += a->times * m.log_wrap;
        log_sum += a->times * m.log_sum;
    }
    c.noise = transform_back(fft, g, &v, w);
    c.log_moment = log_up(c.log_moment, magnitude + (double)length);
    c.log_rest = log_cut_off(list, &c, plan->wrap_order, log_wrap, log_sum);
    grid_curve_fill(&c, w);
    *out = c;
    c.tails = NULL;
done:
    base_free(w);
    base_free(numbers);
    base_fft_free(fft);
    base_free(c.tails);
    return status;
}
