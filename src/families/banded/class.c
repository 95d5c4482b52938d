/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Banded C: the column norms that a participation allows, and unknowns that are free.
 *
 * With d_t = X_tt and no overlap between the columns of one unit, sensitivity^2 = max over the patterns of sum d_t.
 *
 *     single      d_t = 1
 *     cyclic      the steps of one unit are a class modulo the separation: sum of d over each class = 1
 *     separated   at most k steps, one at most in any window of `separation` steps. The matrix of these constraints has
 *                 its ones in runs, so it is totally unimodular, and by linear programming duality no pattern sums to
 *                 more than 1 if and only if d_t <= z + sum over the windows s that hold t of y_s, for some y, z >= 0
 *                 with k z + sum y = 1. The loss falls as d grows, so equality loses nothing.
 *
 * The loss is convex in (X, d). Letting d vary gains over the unit diagonal of McKenna 2024, Section 3.1, as soon as
 * one unit takes part more than once. The unknowns are the columns of C before normalization; y and z are squares of
 * further ones, over their sum, so that those that vanish at the optimum do so at a finite place.
 */
#include "base/memory.h"
#include "base/sum.h"
#include "families/banded/banded.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Makes k z + sum y = 1; the factor that its roots are divided by. */
static double normalize_windows(const banded_class *c) {
    base_running sum = {(double)c->count * c->roots[c->windows] * c->roots[c->windows], 0};
    for (int64_t s = 0; s < c->windows; s++)
        base_running_add(&sum, c->roots[s] * c->roots[s]);
    double length = sqrt(base_running_value(&sum));
    for (int64_t s = 0; s <= c->windows; s++)
        c->roots[s] /= length;
    return length;
}

/* d from the roots of y and z. The windows that hold t are t-separation+1 to t, those of them that exist. */
static void spread_windows(const banded_class *c, double *out) {
    const double *r = c->roots;
    base_running inside = {0}; /* d must be right: the sensitivity is claimed to be 1 */
    for (int64_t t = 0; t < c->n; t++) {
        if (t < c->windows) base_running_add(&inside, r[t] * r[t]);
        if (t >= c->separation) base_running_add(&inside, -r[t - c->separation] * r[t - c->separation]);
        out[t] = r[c->windows] * r[c->windows] + fmax(base_running_value(&inside), 0);
    }
}

/*
 * Where y and z start: much in windows that follow one another without overlap, the earlier ones more, as it turns out
 * to be best; some in z; and a little everywhere, so that each can grow.
 */
static void start_windows(const banded_class *c) {
    for (int64_t s = 0; s < c->windows; s++)
        c->roots[s] = sqrt(0.1 / (double)c->windows);
    for (int64_t e = 0; e < c->count && e * c->separation < c->windows; e++)
        c->roots[e * c->separation] = sqrt((double)(c->count - e) / (double)(c->count * c->count));
    c->roots[c->windows] = sqrt(0.5 / (double)c->count);
    (void)normalize_windows(c);
    for (int64_t s = 0; s <= c->windows; s++)
        c->tension[s] = 1;
}

static dpmf_status check_bands(const dpmf_participation *p, int64_t bands) {
    if (p->pattern == WORKLOAD_EPOCHS)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "banded C cannot be optimized for %s: steps of neighbouring epochs overlap; optimize for "
                         "another participation (--optimize-participation)",
                         p->text);
    if (p->count > 1 && bands > p->separation)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "banded C optimized for %s: bands = %lld, accepted 1 to %lld (the separation)", p->text,
                         (long long)bands, (long long)p->separation);
    return DPMF_OK;
}

dpmf_status banded_class_create(const dpmf_participation *participation, int64_t bands, banded_class *class_) {
    int64_t n = participation->steps;
    banded_class c = {.n = n,
                      .bands = bands,
                      .count = participation->count,
                      .separation = participation->separation,
                      .unknowns = n * bands};
    dpmf_status status = DPMF_OK;
    TRY(check_bands(participation, bands));
    if (participation->count <= 1)
        c.kind = BANDED_SINGLE;
    else if (participation->pattern == WORKLOAD_APART)
        c.kind = BANDED_SEPARATED;
    else
        c.kind = BANDED_CYCLIC; /* and full, with separation 1 */
    if (c.kind == BANDED_SEPARATED) {
        c.windows = n - c.separation + 1; /* those that stick out are parts of others */
        c.unknowns += c.windows + 1;
        assert(c.windows > 0);
    }
    TRY_DONE(base_alloc_doubles(n, "scales", &c.scale));
    TRY_DONE(base_alloc_doubles(c.windows + 1, "windows", &c.roots));
    TRY_DONE(base_alloc_doubles(c.windows + 1, "windows", &c.tension));
    TRY_DONE(base_alloc_doubles(n, "column norms", &c.diagonal));
    TRY_DONE(base_alloc_doubles(n, "column norms", &c.factor));
    TRY_DONE(base_alloc_doubles(n + 1, "sums over columns", &c.work));
    for (int64_t s = 0; s < n; s++)
        c.scale[s] = 1;
    if (c.kind == BANDED_SEPARATED) start_windows(&c);
    *class_ = c;
    return DPMF_OK;
done:
    banded_class_free(&c);
    return status;
}

void banded_class_free(banded_class *class_) {
    base_free(class_->scale);
    base_free(class_->roots);
    base_free(class_->tension);
    base_free(class_->diagonal);
    base_free(class_->factor);
    base_free(class_->work);
    *class_ = (banded_class){0};
}

/* out[s] = sum over column s of x y; both by rows. */
static void column_products(const banded_class *c, const double *x, const double *y, double *out) {
    memset(out, 0, (size_t)c->n * sizeof *out);
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t j = 0; j < c->bands && j <= t; j++)
            out[t - j] += x[t * c->bands + j] * y[t * c->bands + j];
}

/* Sums over the classes modulo the separation, given back to each of their members. */
static void class_sums(const banded_class *c, double *values) {
    for (int64_t first = 0; first < c->separation && first < c->n; first++) {
        double sum = 0;
        for (int64_t s = first; s < c->n; s += c->separation)
            sum += values[s];
        for (int64_t s = first; s < c->n; s += c->separation)
            values[s] = sum;
    }
}

int banded_class_build(banded_class *c, const double *x, double *rows) {
    int64_t b = c->bands;
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t j = 0; j < b; j++)
            rows[t * b + j] = j <= t ? x[t * b + j] * c->scale[t - j] : 0;
    column_products(c, rows, rows, c->work);
    memcpy(c->diagonal, c->work, (size_t)c->n * sizeof *c->work);
    if (c->kind == BANDED_CYCLIC) class_sums(c, c->work);
    if (c->kind == BANDED_SEPARATED) {
        for (int64_t s = 0; s <= c->windows; s++)
            c->roots[s] = x[c->n * b + s] * c->tension[s];
        c->length = normalize_windows(c);
        spread_windows(c, c->diagonal);
    }
    for (int64_t s = 0; s < c->n; s++) {
        if (!(c->work[s] > 0 && c->diagonal[s] > 0 && isfinite(c->work[s]))) return 0;
        if (c->kind != BANDED_SEPARATED) c->diagonal[s] /= c->work[s];
        c->factor[s] = sqrt((c->kind == BANDED_SEPARATED ? c->diagonal[s] : 1) / c->work[s]);
    }
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t j = 0; j < b && j <= t; j++)
            rows[t * b + j] *= c->factor[t - j];
    return 1;
}

void banded_class_unknowns(const banded_class *c, const double *rows, double *x) {
    for (int64_t t = 0; t < c->n; t++)
        for (int64_t j = 0; j < c->bands; j++)
            x[t * c->bands + j] = j <= t ? rows[t * c->bands + j] / c->scale[t - j] : 0;
    for (int64_t s = 0; s <= c->windows && c->kind == BANDED_SEPARATED; s++)
        x[c->n * c->bands + s] = c->roots[s] / c->tension[s];
}

/* The derivative by the roots, from work[t] = twice the derivative by ln d_t; leaves work[t] / d_t. */
static void pull_roots(banded_class *c, double *gradient) {
    double all = 0, average = 0, inside = 0;
    for (int64_t t = 0; t < c->n; t++) {
        average += c->work[t];
        c->work[t] /= c->diagonal[t];
        all += c->work[t];
    }
    for (int64_t t = 0; t < c->separation - 1; t++)
        inside += c->work[t];
    for (int64_t s = 0; s < c->windows; s++) {
        inside += c->work[s + c->separation - 1];
        gradient[s] = inside - average;
        inside -= c->work[s];
    }
    gradient[c->windows] = all - (double)c->count * average;
    for (int64_t s = 0; s <= c->windows; s++)
        gradient[s] *= c->roots[s] * c->tension[s] / c->length;
}

void banded_class_pull(banded_class *c, const double *rows, const double *d, double *gradient) {
    int64_t b = c->bands;
    double *along = c->work; /* the part of D in the direction of the column, or of the class, which changes nothing */
    column_products(c, rows, d, along);
    if (c->kind == BANDED_CYCLIC) class_sums(c, along);
    if (c->kind == BANDED_SEPARATED) pull_roots(c, gradient + c->n * b);
    for (int64_t t = 0; t < c->n; t++) {
        const double *row = rows + t * b, *by = d + t * b;
        double *out = gradient + t * b;
        int64_t count = t + 1 < b ? t + 1 : b;
        for (int64_t j = 0; j < count; j++)
            out[j] = (by[j] - row[j] * along[t - j]) * (c->factor[t - j] * c->scale[t - j]);
        for (int64_t j = count; j < b; j++)
            out[j] = 0;
    }
}

/*
 * Of the roots: with f = sum a_t / d_t, which is near enough, the second derivative of ln sqrt f by root s is
 * 4 y_s sum over the window of w_t / d_t^2 + 1 - W_s, where w_t = nu_t d_t / f and W_s = sum over the window of
 * w_t / d_t, at most 1 at the optimum. In `nu`: nu_t / f.
 */
static void rescale_windows(banded_class *c, const double *nu) {
    double sum = 0, curve = 0, all = 0, all_curve = 0, *roots = c->roots;
    for (int64_t t = 0; t < c->n; t++) {
        sum += nu[t];
        curve += nu[t] / c->diagonal[t];
        all += nu[t];
        all_curve += nu[t] / c->diagonal[t];
        int64_t s = t - c->separation + 1;
        if (s < 0) continue;
        if (sum > 1) roots[s] = fmax(fabs(roots[s]), 1e-3 / sqrt((double)c->windows));
        c->tension[s] = 1 / sqrt(fmax(4 * roots[s] * roots[s] * curve + fmax(0, 1 - sum), 1e-6));
        sum -= nu[s];
        curve -= nu[s] / c->diagonal[s];
    }
    double slack = (double)c->count - all, z = roots[c->windows];
    if (slack < 0) roots[c->windows] = z = fmax(fabs(z), 1e-3 / sqrt((double)c->windows));
    c->tension[c->windows] = 1 / sqrt(fmax(4 * z * z * all_curve + fmax(0, slack), 1e-6));
    (void)normalize_windows(c);
}

void banded_class_rescale(banded_class *c, const double *rows, const double *d, double total) {
    int64_t n = c->n, reach = c->bands;
    double sum = 0, *nu = c->work;
    column_products(c, rows, d, nu); /* = -2 nu_s d_s at the optimum */
    for (int64_t s = 0; s < n; s++)
        nu[s] = fmax(0, -0.5 * nu[s] / (c->diagonal[s] * total));
    for (int64_t s = 0; s < n && s < reach; s++)
        sum += nu[s];
    /* Far from the optimum some are small or negative by accident: none is taken below half its neighbourhood's mean,
     * for a scale that is much too large costs more steps than one that is too small. */
    for (int64_t s = 0; s < n; s++) {
        if (s + reach < n) sum += nu[s + reach];
        if (s - reach > 0) sum -= nu[s - reach - 1];
        int64_t first = s - reach < 0 ? 0 : s - reach, last = s + reach < n ? s + reach : n - 1;
        c->scale[s] = 1 / sqrt(fmax(nu[s], 0.5 * fmax(sum, 1e-300) / (double)(last - first + 1)));
    }
    if (c->kind == BANDED_SEPARATED) rescale_windows(c, nu);
}

double banded_class_support(banded_class *c, const double *nu) {
    double sum = 0, largest = 0;
    if (c->kind == BANDED_CYCLIC) {
        for (int64_t first = 0; first < c->separation && first < c->n; first++) {
            double most = 0;
            for (int64_t s = first; s < c->n; s += c->separation)
                most = fmax(most, nu[s]);
            sum += most;
        }
        return sum;
    }
    for (int64_t s = 0; s < c->n; s++)
        sum += nu[s];
    if (c->kind == BANDED_SINGLE) return sum;
    double inside = 0;
    for (int64_t t = 0; t < c->n; t++) {
        inside += nu[t];
        if (t >= c->separation) inside -= nu[t - c->separation];
        largest = fmax(largest, inside);
    }
    return fmax(largest, sum / (double)c->count);
}

/* Lowers nu in each window that sums to more than `level`, by the same part for all of it. */
static void lower_windows(banded_class *c, double level, double *nu) {
    double inside = 0, all = 0, *part = c->work;
    for (int64_t t = 0; t < c->n; t++)
        part[t] = 1;
    for (int64_t t = 0; t < c->n; t++) {
        inside += nu[t];
        if (t >= c->separation) inside -= nu[t - c->separation];
        for (int64_t u = t; inside > level && u >= 0 && u > t - c->separation; u--)
            part[u] = fmin(part[u], level / inside);
    }
    for (int64_t t = 0; t < c->n; t++)
        all += nu[t] *= part[t];
    for (int64_t t = 0; t < c->n && all > (double)c->count * level; t++)
        nu[t] *= (double)c->count * level / all;
}

void banded_class_level(banded_class *c, double level, double *nu) {
    if (c->kind == BANDED_SEPARATED) lower_windows(c, level, nu);
    if (c->kind != BANDED_CYCLIC) return;
    for (int64_t t = 0; t < c->n; t++)
        nu[t] *= c->diagonal[t];
    class_sums(c, nu);
}

/*
 * The s of the best (sum s tau)^2 / sum s^2 nu d for the d at hand are tau / (nu d); the level then makes them good for
 * all d.
 */
double banded_class_least(banded_class *c, const double *nu, double *tau) {
    double level = 0, sum = 0, *square = c->factor; /* s^2 nu; the factors have been used */
    for (int64_t t = 0; t < c->n; t++) {
        tau[t] = nu[t] > 0 ? fmax(tau[t], 0) / sqrt(nu[t]) : 0;
        square[t] = tau[t] * tau[t] / (c->diagonal[t] * c->diagonal[t]);
        level += square[t] * c->diagonal[t];
    }
    banded_class_level(c, level, square);
    for (int64_t t = 0; t < c->n; t++)
        sum += sqrt(square[t]) * tau[t];
    return sum * sum / banded_class_support(c, square);
}
