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
 *     from a file no such form is known: C is divided by the root of the smooth maximum of the sums of d over the patterns, in
 *                 rounds whose multipliers m approach those of the optimum (as in families/toeplitz/listed.c). For any m >= 0 of
 *                 sum 1 and q_t = sum of m over the patterns that hold t, sum nu_t d_t <= max nu_t / q_t: the certificate's
 *                 maximum.
 *
 * The loss is convex in (X, d). Letting d vary gains over the unit diagonal of McKenna 2024, Section 3.1, as soon as
 * one unit takes part more than once. The unknowns are the columns of C before normalization; y and z are squares of
 * further ones, over their sum, so that those that vanish at the optimum do so at a finite place.
 */
#include "families/banded/banded.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "error/error.h"
#include "workload/workload.h"

#include <assert.h>
#include <float.h>
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

/* Sums of d over the patterns; the largest. */
static double sum_listed(const banded_class *c, const double *d) {
    const dpmf_participation *p = c->listed;
    double most = 0;
    for (int64_t q = 0; q < p->patterns; q++) {
        double sum = 0;
        for (int64_t j = p->begins[q]; j < p->begins[q + 1]; j++)
            sum += d[p->listed[j]];
        c->sums[q] = sum;
        most = fmax(most, sum);
    }
    return most;
}

double banded_class_largest(const banded_class *c) {
    return c->kind == BANDED_LISTED ? sum_listed(c, c->diagonal) : 1;
}

void banded_class_renew(banded_class *c) {
    double all = 0;
    if (c->kind != BANDED_LISTED) return;
    const double top = sum_listed(c, c->diagonal);
    for (int64_t q = 0; q < c->listed->patterns; q++)
        all += c->multiplier[q] *= pow(c->sums[q] / top, c->sharpness);
    for (int64_t q = 0; q < c->listed->patterns; q++)
        c->multiplier[q] = fmax(c->multiplier[q] / all, 1e-12 / (double)c->listed->patterns); /* it could come back */
    c->sharpness = fmin(256, 2 * c->sharpness);
}

/* d over the smooth maximum of its sums; c->cover gets the derivatives of that, c->total the sum of their multipliers. */
static void divide_listed(banded_class *c) {
    const dpmf_participation *p = c->listed;
    const double top = sum_listed(c, c->work);
    double all = 0;
    for (int64_t q = 0; q < p->patterns; q++)
        all += c->multiplier[q] * pow(c->sums[q] / top, c->sharpness);
    const double value = top * pow(all, 1 / c->sharpness);
    memset(c->cover, 0, (size_t)c->n * sizeof *c->cover);
    c->total = 0;
    for (int64_t q = 0; q < p->patterns; q++) {
        const double slope = c->multiplier[q] * pow(c->sums[q] / top, c->sharpness) / all * value / c->sums[q];
        c->total += slope;
        for (int64_t j = p->begins[q]; slope > 0 && j < p->begins[q + 1]; j++)
            c->cover[p->listed[j]] += slope;
    }
    for (int64_t s = 0; s < c->n; s++) {
        c->diagonal[s] = c->work[s] / value;
        c->factor[s] = 1 / sqrt(value);
    }
}

static dpmf_status check_bands(const dpmf_participation *p, int64_t bands) {
    if (p->pattern == WORKLOAD_EPOCHS)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "banded C cannot be optimized for %s: steps of neighbouring epochs overlap; optimize for "
                         "another participation (--optimize-participation)",
                         p->text);
    if (!p->covers)
        return base_fail(
            DPMF_ERROR_UNSUPPORTED,
            "banded C cannot be optimized for %s: a step is in none of the patterns, and its noise could be as "
            "small as one likes; give every step a pattern",
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
                      .listed = participation,
                      .sharpness = 8,
                      .unknowns = n * bands};
    dpmf_status status = DPMF_OK;
    TRY(check_bands(participation, bands));
    if (participation->count <= 1)
        c.kind = BANDED_SINGLE;
    else if (participation->pattern == WORKLOAD_APART)
        c.kind = BANDED_SEPARATED;
    else if (participation->pattern == WORKLOAD_LISTED)
        c.kind = BANDED_LISTED;
    else
        c.kind = BANDED_CYCLIC; /* and full, with separation 1 */
    const int64_t listed = c.kind == BANDED_LISTED ? participation->patterns : 0;
    if (c.kind == BANDED_SEPARATED) {
        c.windows = n - c.separation + 1; /* those that stick out are parts of others */
        c.unknowns += c.windows + 1;
        assert(c.windows > 0);
    }
    TRY_DONE(BASE_ARRAYS("the class of column norms", {&c.scale, n}, {&c.roots, c.windows + 1},
                         {&c.tension, c.windows + 1}, {&c.diagonal, n}, {&c.factor, n}, {&c.work, n + 1}, {&c.cover, n},
                         {&c.sums, listed}, {&c.multiplier, listed}));
    for (int64_t q = 0; q < listed; q++)
        c.multiplier[q] = 1 / (double)listed;
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
        if (c->kind == BANDED_LISTED) continue;
        if (c->kind != BANDED_SEPARATED) c->diagonal[s] /= c->work[s];
        c->factor[s] = sqrt((c->kind == BANDED_SEPARATED ? c->diagonal[s] : 1) / c->work[s]);
    }
    if (c->kind == BANDED_LISTED) divide_listed(c);
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
    const double all = c->kind == BANDED_LISTED ? base_sum(c->n, along) : 0;
    for (int64_t s = 0; c->kind == BANDED_LISTED && s < c->n; s++)
        along[s] = all * c->cover[s];
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
    if (c->kind == BANDED_LISTED) {
        for (int64_t s = 0; s < c->n; s++)
            if (nu[s] > 0) largest = fmax(largest, nu[s] / c->cover[s]);
        return largest * c->total;
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
    for (int64_t t = 0; c->kind == BANDED_LISTED && t < c->n; t++)
        nu[t] = fmin(nu[t], level * c->cover[t] / c->total);
    if (c->kind != BANDED_CYCLIC) return;
    for (int64_t t = 0; t < c->n; t++)
        nu[t] *= c->diagonal[t];
    class_sums(c, nu);
}

/* For the d at hand (sum s tau)^2 / sum s^2 nu d is best for s = tau / (nu d); the level then makes s good for all d. */
static double banded_class_least(banded_class *c, const double *nu, double *tau) {
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

/*
 * Banded C: a proven lower bound of the weighted squared error in the class, in O(n b^2).
 *
 * Write T for diag(sqrt p) A and f(X) = tr(T X^-1 T') = sum_t p_t q_t, and let X' be any other member: banded, with a
 * diagonal d' that the participation allows. For any matrix J, from |X'^(-1/2) T' - X'^(1/2) J|^2 >= 0,
 *
 *     f(X') >= 2 tr(T J) - tr(V X'),  V = J J',   or, with the best multiple of J,   f(X') >= (tr T J)^2 / tr(V X').
 *
 * If V has no off-diagonal entries within the band, that is, if any b rows of J that follow one another are orthogonal,
 * then tr(V X') = sum V_tt d'_t, whose maximum over d' is known (families/banded/class.c). J0 = X^-1 T' at the optimum X
 * has this property: V0 = J0 J0' = -df/dX. Elsewhere Gram and Schmidt give it to J, exactly and at any distance from the
 * optimum: from row t of J0 they take its projections on the b-1 rows of J before,
 *
 *     (I + G) J = J0,   G[t,u] = J0_t . J_u / |J_u|^2  for t-b < u < t,
 *
 * and those rows are orthogonal already. For J = J0 + K and a unit diagonal 2 tr(T J) - tr(V X) = f(X) - tr(K' X K), so
 * the gap is quadratic in the gradient; K is small where J0 is nearly orthogonal, for any n (a K that goes through
 * T^-1 costs a factor n). Rows of J may still be multiplied by numbers s_t, of which the class knows good ones.
 *
 * All of it is one pass forward in time. With white z, y = C^-1 z, o = T y and (I + G) y^ = y, let U = J0 J' =
 * V0 (I + G)^-T. Then C U = Q with Q[t,u] = E[(T C^-1 e_t . o) y^_u] = l_t . E[state_t y^_u] / C[t,t], where l_t is the
 * slope that the backward pass leaves (families/banded/pass.c): only the covariances of the state with the last b-1 of y^ are
 * carried. Above the diagonal U[s,t] = V0[s,t] - sum_u G[t,u] U[s,u], from V0 within the band: taken from V = (I + G)^-1 U
 * instead, rounding errors grow exponentially near the beginning of long runs. tr(T S J) = sum_u s_u sum_t U[t,u] X[t,u].
 *
 * Rounding: |J_t|^2 = U[t,t] is also |J0_t|^2 - sum G[t,u]^2 |J_u|^2, with |J0_t|^2 from D = -2 C V0 by a recursion of its own.
 * What they differ by shows how much rounding there is, and is paid for in each row as if it stood in all entries of V; a
 * row of which rounding has left little gets s_t = 0, which needs no orthogonality. Where the weights p differ by many
 * orders of magnitude T, and the best C with it, is nearly singular, and rounding makes the rows less orthogonal than that
 * difference shows. PER_RATIO machine precisions times max p / min p are paid for that: no theorem, but more than what was
 * seen against 60 digits in small cases near the optimum, with weights down to 1e-19. (Far from it, where the bound is low
 * anyway, 1e-9 of the bound was seen beyond what is paid.)
 */

/* Rows with less than this part left of |J0_t|^2, or of which rounding is more than this part, are left out (s_t = 0). */
static const double LEAST_LEFT = 1e-6, MOST_PAID = 0.1, PER_RATIO = 8;

/*
 * The columns u = t-b+1 to t of U and of the covariances are kept in a ring, u in place u mod b; within a column the rows
 * t-b+2 to t lie in the ring of the pass, y_u in slot u mod (b-1), which before step t holds t-b+1 in the slot of t.
 */
typedef struct walk {
    const banded_pass *pass;
    int64_t b, slots, stride;
    double *lead;            /* stride: a_j of this step */
    double *cross;           /* b x stride: E[y_i y^_u] */
    double *with_m, *with_o; /* b: E[m y^_u], E[o y^_u] */
    double *u;               /* b x stride: U[i,u] */
    double *lags, *g;        /* b: U[t, t-k] and G[t, t-k] of this step */
    double *nu;              /* n: |J_t|^2 */
    double *tau;             /* n: sum_t U[t,u] X[t,u] */
    const double *x, *v0;    /* n x b: X, V0 */
} walk;

static dpmf_status walk_create(const banded_pass *pass, walk *w) {
    w->pass = pass;
    w->b = pass->bands;
    w->slots = pass->slots;
    w->stride = pass->stride;
    TRY(base_alloc_doubles(w->stride, "a row of C", &w->lead));
    TRY(base_alloc_doubles(w->b * w->stride, "covariances", &w->cross));
    TRY(base_alloc_doubles(w->b, "covariances", &w->with_m));
    TRY(base_alloc_doubles(w->b, "covariances", &w->with_o));
    TRY(base_alloc_doubles(w->b * w->stride, "products of rows", &w->u));
    TRY(base_alloc_doubles(w->b, "products of rows", &w->lags));
    TRY(base_alloc_doubles(w->b, "projections", &w->g));
    TRY(base_alloc_doubles(pass->n, "the dual diagonal", &w->nu));
    return base_alloc_doubles(pass->n, "traces", &w->tau);
}

/* U[t,u] from the covariances of state_t with y^_u and the rows of U before. */
static double enter(const walk *w, int64_t u, const double *slope, double seed) {
    const int64_t c = u % w->b, stride = w->stride;
    double q = banded_inner(stride, slope, w->cross + c * stride) + slope[stride] * w->with_m[c] +
               slope[stride + 1] * w->with_o[c];
    return seed * seed * q + banded_inner(stride, w->lead, w->u + c * stride);
}

/* Column t before y^_t and J_t have lost anything: the covariances of state_t with y_t, and V0. */
static void start_column(walk *w, int64_t t, int64_t slot, double seed, const error_drive *d) {
    const banded_pass *p = w->pass;
    const int64_t c = t % w->b, stride = w->stride;
    double *cross = w->cross + c * stride, *u = w->u + c * stride;
    w->with_o[c] = d->g * seed * seed + banded_inner(stride, w->lead, p->with_o + t * stride);
    w->with_m[c] = seed * seed;
    if (p->with_momentum) w->with_m[c] += banded_inner(stride, w->lead, p->with_m + t * stride);
    if (w->slots == 0) return;
    memcpy(cross, p->now + t * stride, (size_t)stride * sizeof *cross);
    cross[slot] = p->own[t];
    memset(u, 0, (size_t)stride * sizeof *u);
    for (int64_t m = 1, i = slot; m < w->b && m <= t; m++) {
        i = i == 0 ? w->slots - 1 : i - 1;
        u[i] = w->v0[t * w->b + m];
    }
}

/* |J_t|^2 from two sides, 0 to leave the row out, and row t into the columns. */
static void close_row(walk *w, int64_t t, int64_t slot, double own) {
    const int64_t b = w->b;
    double other = w->v0[t * b];
    for (int64_t k = 1, i = slot; k < b && k <= t; k++) {
        other -= w->g[k] * w->lags[k];
        i = i == 0 ? w->slots - 1 : i - 1;
        w->tau[t] += w->u[t % b * w->stride + i] * w->x[t * b + k];
    }
    w->tau[t] += own * w->x[t * b];
    const double left = fmin(own, other), paid = (double)(2 * b) * fabs(own - other);
    w->nu[t] = left > LEAST_LEFT * w->v0[t * b] && paid < MOST_PAID * left ? fmax(own, other) + paid : 0;
    if (w->slots == 0) return;
    w->u[t % b * w->stride + slot] = own;
    for (int64_t k = 1; k < b && k <= t; k++)
        w->u[(t - k) % b * w->stride + slot] = w->lags[k];
}

static void walk_rows(walk *w, const double *rows, const double *slopes) {
    const banded_pass *p = w->pass;
    for (int64_t t = 0, slot = 0; t < p->n; t++) {
        const double *row = rows + t * w->b, *slope = slopes + t * (w->stride + 2), seed = 1 / row[0];
        const error_drive d = error_drive_at(p->workload, t);
        if (w->slots > 0) banded_lead(p, t, slot, row, w->lead);
        /* State_t's covariances with the y^_u before t, U[t,u] into lags, and row t of G. */
        for (int64_t k = 1; k < w->b && k <= t; k++) {
            const int64_t c = (t - k) % w->b;
            double *cross = w->cross + c * w->stride, m = w->with_m[c];
            const double y = banded_inner(w->stride, w->lead, cross);
            cross[slot] = y;
            w->with_o[c] = d.keep * w->with_o[c] + d.p * m + d.g * y;
            w->with_m[c] = d.beta * m + y;
            w->lags[k] = enter(w, t - k, slope, seed);
            w->g[k] = w->nu[t - k] > 0 ? w->lags[k] / w->nu[t - k] : 0;
            w->tau[t - k] += w->lags[k] * w->x[t * w->b + k];
        }
        start_column(w, t, slot, seed, &d);
        /* Column t loses its projections on the columns before. */
        const int64_t b = w->b, c = t % b, stride = w->stride;
        double *restrict cross = w->cross + c * stride, *restrict u = w->u + c * stride;
        for (int64_t k = 1; k < b && k <= t; k++) {
            const int64_t before = (t - k) % b;
            const double *restrict cross_k = w->cross + before * stride, *restrict u_k = w->u + before * stride;
            const double g = w->g[k];
            for (int64_t i = 0; i < stride; i++)
                cross[i] -= g * cross_k[i];
            for (int64_t i = 0; i < stride; i++)
                u[i] -= g * u_k[i];
            w->with_m[c] -= g * w->with_m[before];
            w->with_o[c] -= g * w->with_o[before];
        }
        close_row(w, t, slot, enter(w, t, slope, seed));
        if (w->slots > 0) slot = slot + 1 == w->slots ? 0 : slot + 1;
    }
}

/* The part of the bound that rounding may have added: in sums of n terms of one sign, and through the weights. */
static double rounding(int64_t n, const double *p) {
    double most = p[0], least = p[0];
    for (int64_t t = 1; t < n; t++) {
        most = fmax(most, p[t]);
        least = fmin(least, p[t]);
    }
    return DBL_EPSILON * ((double)(n + 64) + PER_RATIO * (most / least));
}

dpmf_status banded_bound(const banded_pass *pass, banded_class *c, const double *rows, const double *d,
                         const double *slopes, const double *weights, double *lower) {
    const int64_t n = c->n, b = c->bands;
    double *x = NULL, *v0 = NULL;
    walk w = {0};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(n * b, "C'C", &x));
    TRY_DONE(base_alloc_doubles(n * b, "the dual matrix", &v0));
    TRY_DONE(walk_create(pass, &w));
    /* X[t, t-j] */
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < b && j <= t; j++) {
            double sum = 0;
            for (int64_t r = t; r < n && r - (t - j) < b; r++)
                sum += rows[r * b + r - t] * rows[r * b + r - t + j];
            x[t * b + j] = sum;
        }
    /* V0 within the band: row t of D, from left to right, holds V0[t,u] times C[t,t] and entries of rows that are known. */
    for (int64_t t = 0; t < n; t++) {
        int64_t first = t < b ? 0 : t - b + 1;
        for (int64_t u = first; u <= t; u++) {
            double sum = -0.5 * d[t * b + t - u];
            for (int64_t s = first; s < u; s++)
                sum -= rows[t * b + t - s] * v0[u * b + u - s];
            for (int64_t s = u; s < t; s++)
                sum -= rows[t * b + t - s] * v0[s * b + s - u];
            v0[t * b + t - u] = sum / rows[t * b];
        }
    }
    w.x = x;
    w.v0 = v0;
    walk_rows(&w, rows, slopes);
    const double bound = banded_class_least(c, w.nu, w.tau) * (1 - rounding(n, weights));
    *lower = isfinite(bound) ? fmax(bound, 0) : 0;
done:
    base_free(x);
    base_free(v0);
    double *const all[] = {w.lead, w.cross, w.with_m, w.with_o, w.u, w.lags, w.g, w.nu, w.tau};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        base_free(all[i]);
    return status;
}
