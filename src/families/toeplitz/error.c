/* SPDX-License-Identifier: Apache-2.0 */
/*
 * E = sum_{i<n} u_i w_i^2 and its gradient for a Toeplitz workload, w = C^-1 a, a = A e_0, C of few bands.
 *
 * All steps. w by its recursion, O(n bands); with g_i = 2 u_i w_i the adjoint is v = C^-T g, the same recursion from
 * the other end, and dE/dc_j = -sum_i v_i w_{i-j}.
 *
 * A steady state. The named Toeplitz workloads have the generating function a(z) = g(z)/(1 - k z), k = 1 - eta lambda
 * (1 without decay), g(z) = rate (from_m/(1 - beta z) + from_y). For stable c, w tends to x k^i with
 * x = g(1/k)/c(1/k); for prefix sums that is 1/sum c (McKenna 2024, Appendix I). What remains, d_i = w_i - x k^i, has
 *
 *     d = C^-1 s,   s(z) = (g(z) - x c(z))/(1 - k z),   s_i = x T_i - g_{i+1}/(k - beta),   T_i = sum_{j>i} k^{i-j} c_j
 *
 * and dies out like its slowest mode, so that d itself, and not a small difference, shows when the rest of
 *
 *     E = x^2 sum_i u_i k^2i + 2 x sum_i u_i k^i d_i + sum_i u_i d_i^2
 *
 * may be left out: when what has been seen of d over at least `bands` steps (all that its future depends on) and its
 * rate of decay bound the rest by 1e-17 of E. Without decay and weights the middle sum is a closed form too. With
 * u_i = 1 - nu i, M_0 = sum c_j, M_1 = sum j c_j, M_2 = sum j(j-1)/2 c_j, G_1 = g'(1), G_2 = g''(1)/2:
 *
 *     sum_i u_i d_i = D_0 - nu D_1,   D_0 = s(1)/M_0,   D_1 = (s'(1) - D_0 M_1)/M_0,
 *     s(1) = x M_1 - G_1,   s'(1) = x M_2 - G_2
 *
 * and only squares of d must die out, in half as many steps. With decay so strong that k^bands is small nothing is
 * taken out: w itself dies out, x = 0.
 */
#include "families/toeplitz/toeplitz.h"

#include "base/fft.h"
#include "base/linalg.h"
#include "base/memory.h"
#include "base/sum.h"
#include "workload/workload.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/*
 * A workload that is not Toeplitz, RMS loss. With h = 1/c as a power series, C^-1 is Toeplitz of h, and
 *
 *     n E = |A C^-1|_F^2 = sum_u sum_{s,t>=u} M[s,t] h_{s-u} h_{t-u} = h' Q h,   M = A'A,   Q[j,k] = sum_u M[u+j, u+k]:
 *
 * a quadratic form in h, whose matrix is made once, by sums along diagonals. O(n^2) for a value and its gradient, which by
 * dh = -h * h * dc (products of series) is dE/dc_j = -sum_i (2 Q h)_i (h * h)_{i-j} / n.
 */
dpmf_status toeplitz_form_create(const dpmf_workload *workload, double **out) {
    const int64_t n = workload->steps;
    double *q = NULL;
    assert(workload->form == WORKLOAD_DENSE);
    if (n > TOEPLITZ_FORM_MAX)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "workload %s: Toeplitz strategies are optimized for a matrix of up to %d steps, not %lld",
                         workload->text, TOEPLITZ_FORM_MAX, (long long)n);
    TRY(base_alloc_square(n, "the form of the error", &q));
    for (int64_t t = 0; t < n; t++) {
        const double *row = workload->matrix + t * n;
        for (int64_t i = 0; i <= t; i++)
            for (int64_t j = 0; j <= t && row[i] != 0; j++)
                q[i * n + j] += row[i] * row[j];
    }
    for (int64_t i = n - 2; i >= 0; i--)
        for (int64_t j = n - 2; j >= 0; j--)
            q[i * n + j] += q[(i + 1) * n + j + 1];
    *out = q;
    return DPMF_OK;
}

void toeplitz_form_apply(int64_t n, const double *form, const double *h, double *out) {
    for (int64_t i = 0; i < n; i++)
        out[i] = base_dot(n, form + i * n, h);
}

double toeplitz_weight(const toeplitz_error *e, int64_t i) {
    if (e->weights != NULL) return e->weights[i];
    return e->rms ? (double)(e->n - i) / (double)e->n : 1;
}

enum {
    TRANSFORM_BANDS = 768, /* from there on FFT is faster (measured at n = 4096 to 10^5) */
    LEAST_CHUNK = 64       /* steps between two looks at what is left */
};
static const double REST = 1e-17;      /* of E, that may be left out */
static const double HOPELESS = 1e8;    /* sum u d^2 over the steady part: diverging, or no use */
static const double STRONG_DECAY = 2;  /* bands x -ln k from which on nothing is taken out */
static const double SETTLED = 8;       /* n (k - beta) from which on w comes near x k^i; else x would only cancel */
static const double CLOSED_PART = 0.4; /* of n, within which squares of d must have died out for d to have by n */

static int64_t round_up(int64_t i) {
    return (i + KERNELS_TOEPLITZ_LANES - 1) / KERNELS_TOEPLITZ_LANES * KERNELS_TOEPLITZ_LANES;
}

/* u_i = sum_{t>=i} p_t / n */
static dpmf_status fill_weights(toeplitz_error *e, const double *given) {
    base_running sum = {0};
    if (given == NULL) return DPMF_OK;
    TRY(base_alloc_doubles(e->n, "the weights", &e->weights));
    for (int64_t i = e->n - 1; i >= 0; i--) {
        base_running_add(&sum, given[i]);
        e->weights[i] = base_running_value(&sum) / (double)e->n;
    }
    return DPMF_OK;
}

static double sum_steady(const toeplitz_error *e) {
    const double n = (double)e->n;
    base_running sum = {0};
    if (e->k == 1 && e->weights == NULL) return e->rms ? (n + 1) / 2 : n;
    double power = 1;
    for (int64_t i = 0; i < e->n && power > 1e-20; i++, power *= e->k * e->k)
        base_running_add(&sum, toeplitz_weight(e, i) * power);
    return base_running_value(&sum);
}

static void find_steady_state(toeplitz_error *e) {
    const dpmf_workload *a = e->workload;
    if (a->form != WORKLOAD_NAMED) return;
    workload_recursion_form r = workload_recursion(a, 0);
    e->k = r.keep;
    e->steady = (r.keep - r.momentum) * (double)e->n >= SETTLED && -log(r.keep) * (double)e->bands <= STRONG_DECAY;
    if (e->steady) e->steady_sum = sum_steady(e);
}

static dpmf_status make_room(toeplitz_error *e, int64_t room) {
    double **const arrays[] = {&e->forcing, &e->response, &e->source, &e->adjoint};
    room = room > e->n ? e->n : room;
    if (room <= e->room) return DPMF_OK;
    for (int i = 0; i < 4; i++) {
        double *more = NULL;
        TRY(base_alloc_doubles(round_up(room), "the response", &more));
        if (e->room > 0) memcpy(more, *arrays[i], (size_t)e->room * sizeof *more);
        base_free(*arrays[i]);
        *arrays[i] = more;
    }
    e->room = room;
    return DPMF_OK;
}

static dpmf_status fill_first_column(toeplitz_error *e) {
    TRY(base_alloc_doubles(e->n, "the first column of A", &e->first_column));
    e->first_column[0] = 1;
    return dpmf_workload_apply(e->workload, e->first_column, e->first_column);
}

dpmf_status toeplitz_error_create(const dpmf_workload *workload, int64_t bands, dpmf_loss loss, const double *weights,
                                  toeplitz_error *out) {
    toeplitz_error e = {.workload = workload, .n = workload->steps, .bands = bands, .k = 1};
    dpmf_status status = DPMF_OK;
    assert(bands >= 1 && bands <= workload->steps && (weights == NULL || loss == DPMF_LOSS_RMS));
    assert(workload->toeplitz || (loss == DPMF_LOSS_RMS && weights == NULL));
    e.rms = loss == DPMF_LOSS_RMS; /* of the last step: that of the max loss, since the errors rise */
    if (!workload->toeplitz) {
        TRY_DONE(toeplitz_form_create(workload, &e.form));
        TRY_DONE(make_room(&e, e.n));
        *out = e;
        return DPMF_OK;
    }
    e.table.bands = bands;
    TRY_DONE(fill_weights(&e, weights));
    if (loss == DPMF_LOSS_LP || loss == DPMF_LOSS_OWN) {
        TRY_DONE(base_alloc_doubles(e.n, "the weights", &e.weights));
        TRY_DONE(base_alloc_doubles(e.n, "the squared errors", &e.squares));
    } else {
        find_steady_state(&e);
    }
    e.by_transforms = bands >= TRANSFORM_BANDS && (!e.steady || bands > e.n / 64);
    if (e.by_transforms) e.steady = 0;
    if (!e.steady) TRY_DONE(fill_first_column(&e));
    if (!e.by_transforms) TRY_DONE(base_alloc_doubles(kernels_toeplitz_table_size(bands), "a table", &e.table.rows));
    TRY_DONE(base_alloc_doubles(bands, "tail sums", &e.tail));
    TRY_DONE(make_room(&e, e.steady ? 4096 + 64 * bands : e.n));
    *out = e;
done:
    if (status != DPMF_OK) toeplitz_error_free(&e);
    return status;
}

void toeplitz_error_free(toeplitz_error *e) {
    double *const arrays[] = {e->weights,      e->forcing, e->response,   e->source,  e->adjoint,
                              e->first_column, e->tail,    e->table.rows, e->squares, e->form};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        base_free(arrays[i]);
    *e = (toeplitz_error){0};
}

/* u_i = 1 - slope i, where there are no weights. */
static double slope_of(const toeplitz_error *e) {
    return e->rms ? 1 / (double)e->n : 0;
}

typedef struct steady {
    double x, c_at;      /* x = top/c_at, c_at = c(1/k) */
    double m1, m2;       /* moments of c, k = 1 only */
    double d0, d1, nu;   /* sum_i d_i = d0, sum_i i d_i = d1 */
    double beta, g_next; /* g_{i+1} = g_next beta^i */
    double g0, g1, g2;   /* g(1/k), g'(1), g''(1)/2 */
} steady;

static steady steady_of(const toeplitz_error *e, const double *c) {
    workload_recursion_form r = workload_recursion(e->workload, 0);
    const double beta = r.momentum, k = e->k, m = r.rate * r.from_m;
    steady s = {.beta = beta, .g_next = m * beta, .g0 = m / (1 - beta / k) + r.rate * r.from_y, .nu = slope_of(e)};
    s.g1 = m * beta / ((1 - beta) * (1 - beta));
    s.g2 = s.g1 * beta / (1 - beta);
    double power = 1;
    for (int64_t j = 0; j < e->bands; j++, power /= k) {
        s.c_at += c[j] * power;
        s.m1 += (double)j * c[j];
        s.m2 += 0.5 * (double)j * (double)(j - 1) * c[j];
    }
    s.x = s.g0 / s.c_at;
    s.d0 = (s.x * s.m1 - s.g1) / s.c_at;
    s.d1 = (s.x * s.m2 - s.g2 - s.d0 * s.m1) / s.c_at;
    return s;
}

/* s_i from first to last. */
static void fill_forcing(const toeplitz_error *e, const steady *s, int64_t first, int64_t last) {
    if (!e->steady) {
        memcpy(e->forcing + first, e->first_column + first, (size_t)(last - first) * sizeof(double));
        return;
    }
    double g = s->beta == 0 ? 0 : s->g_next * pow(s->beta, (double)first) / (e->k - s->beta);
    for (int64_t i = first; i < last; i++, g *= s->beta)
        e->forcing[i] = (i < e->bands ? s->x * e->tail[i] : 0) - g;
}

/* T_i */
static void fill_tail(const toeplitz_error *e, const double *c) {
    double sum = 0;
    for (int64_t i = e->bands - 1; i >= 0; i--) {
        e->tail[i] = sum;
        sum = (sum + c[i]) / e->k;
    }
}

typedef struct error_sum {
    double linear, square; /* sum u_i k^i d_i, sum u_i d_i^2 */
    double size;           /* sum u_i k^i |d_i| of the last chunk */
    double last;           /* sum u_i d_i^2 of the last chunk */
} error_sum;

static void add_linear(const toeplitz_error *e, int64_t first, int64_t last, double *power, error_sum *s) {
    double linear = 0;
    s->size = 0;
    for (int64_t i = first; i < last; i++, *power *= e->k) {
        double part = toeplitz_weight(e, i) * *power * e->response[i];
        linear += part;
        s->size += fabs(part);
    }
    s->linear += linear;
}

/* Is what comes after `now`, falling at least as fast as from `before` to `now`, below `most`? */
static int is_over(double before, double now, double most) {
    return now == 0 || (now < before && now * now <= most * (before - now));
}

/* d until it no longer matters. *closed: sum u_i d_i is taken from its closed form; *stable = 0: it diverges. */
static dpmf_status sum_response(toeplitz_error *e, const steady *s, int *closed, error_sum *out, int *stable) {
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    const int64_t chunk = round_up(e->bands > LEAST_CHUNK ? e->bands : LEAST_CHUNK);
    const int may_close = e->steady && e->k == 1 && e->weights == NULL;
    const double fixed = e->steady ? s->x * s->x * e->steady_sum : 0;
    double power = 1;
    int64_t last = 0;
    *out = (error_sum){0};
    *stable = 1;
    *closed = 0;
    for (int64_t first = 0; first < e->n; first = last) {
        const error_sum before = *out;
        last = first + chunk < e->n ? first + chunk : e->n;
        if (last > e->room) TRY(make_room(e, 2 * e->room > last ? 2 * e->room : last));
        fill_forcing(e, s, first, last);
        int64_t forced = e->steady && s->beta == 0 ? e->bands : last;
        kernels->solve(&e->table, first, last, forced, e->forcing, e->response);
        const double slope = slope_of(e), *d = e->response + first;
        out->last = 0;
        if (e->weights == NULL)
            out->last = kernels_toeplitz_get()->squares(last - first, d, 1 - slope * (double)first, slope);
        for (int64_t i = first; i < last && e->weights != NULL; i++, d++)
            out->last += e->weights[i] * *d * *d;
        out->square += out->last;
        if (e->steady && !may_close) add_linear(e, first, last, &power, out);
        e->used = last;
        if (!isfinite(out->square) || (e->steady && out->square > HOPELESS * fixed)) {
            *stable = 0;
            return DPMF_OK;
        }
        double total = fixed + out->square; /* of the order of E */
        if (first == 0 || !is_over(before.last, out->last, REST * total)) continue;
        *closed = may_close && (double)last <= CLOSED_PART * (double)e->n;
        if (*closed || !e->steady) return DPMF_OK;
        if (!may_close && is_over(before.size, out->size, REST * total / s->x)) return DPMF_OK;
    }
    if (may_close) add_linear(e, 0, last, &power, out); /* too few steps for the closed form */
    return DPMF_OK;
}

/* What c does through x, T and the closed forms. */
static void add_steady_gradient(const toeplitz_error *e, const steady *s, int closed, const error_sum *sum,
                                double *gradient) {
    const double linear = closed ? s->d0 - s->nu * s->d1 : sum->linear;
    double by_x = 2 * s->x * e->steady_sum + 2 * linear, by_c = 0, by_m1 = 0, by_m2 = 0;
    for (int64_t i = 0; i < e->bands && i < e->used; i++)
        by_x += e->adjoint[e->used - 1 - i] * e->tail[i];
    if (closed) { /* 2 x (d0 - nu d1) by its other arguments */
        double d0 = 2 * s->x * (1 + s->nu * s->m1 / s->c_at), d1 = -2 * s->x * s->nu;
        by_x += (d0 * s->m1 + d1 * s->m2) / s->c_at;
        by_m1 = (d0 * s->x - d1 * s->d0) / s->c_at;
        by_m2 = d1 * s->x / s->c_at;
        by_c = -(d0 * s->d0 + d1 * s->d1) / s->c_at;
    }
    by_c -= by_x * s->x / s->c_at;
    double through_tail = 0, power = 1;
    for (int64_t j = 0; j < e->bands; j++, power /= e->k) {
        if (j > 0) through_tail = (through_tail + (j <= e->used ? e->adjoint[e->used - j] : 0)) / e->k;
        gradient[j] +=
            s->x * through_tail + by_c * power + by_m1 * (double)j + by_m2 * 0.5 * (double)j * (double)(j - 1);
    }
}

/*
 * The error of Toeplitz C of many bands by fast Fourier transforms, O(n log n).
 *
 *     h = 1/c as a power series (Newton),   w = A h,   E = sum_i u_i w_i^2
 *     v = C^-T g, g_i = 2 u_i w_i:   v_{n-1-i} = sum_j h_j g_{n-1-(i-j)},   a product of two series
 *     dE/dc_j = -sum_i v_i w_{i-j} = -(v reversed times w)_{n-1-j}
 *
 * The errors of the transforms are about 1e-16 sqrt(log n) of the largest norms, far below what a loss needs.
 */

static int all_finite(int64_t n, const double *x) {
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

/* h = 1/c; *stable = 0 if it passes the range of a double. */
static dpmf_status invert(const toeplitz_error *e, const double *c, double *h, int *stable) {
    *stable = all_finite(e->bands, c);
    if (!*stable) return DPMF_OK;
    dpmf_status status = base_series_inverse(e->bands, c, e->n, h);
    if (status == DPMF_ERROR_NUMERICAL) {
        *stable = 0;
        return DPMF_OK;
    }
    return status;
}

static dpmf_status toeplitz_error_transforms(toeplitz_error *e, const double *c, double *value, double *gradient) {
    const int64_t n = e->n;
    double *h = e->forcing, *w = e->response, *source = e->source, *v = e->adjoint;
    base_running sum = {0};
    int stable = 0;
    *value = INFINITY;
    TRY(invert(e, c, h, &stable));
    if (!stable) return DPMF_OK;
    TRY(dpmf_workload_apply(e->workload, h, w));
    for (int64_t i = 0; i < n; i++) {
        double u = toeplitz_weight(e, i);
        base_running_add(&sum, u * w[i] * w[i]);
        source[n - 1 - i] = 2 * u * w[i];
    }
    e->used = n;
    if (!isfinite(base_running_value(&sum))) return DPMF_OK;
    if (gradient != NULL) {
        TRY(base_convolve(n, h, n, source, n, v)); /* reversed */
        if (!all_finite(n, v)) return DPMF_OK;
        TRY(base_convolve(n, v, n, w, n, source));
        for (int64_t j = 0; j < e->bands; j++)
            gradient[j] = -source[n - 1 - j];
    }
    *value = base_running_value(&sum);
    return DPMF_OK;
}

static dpmf_status form_value(toeplitz_error *e, const double *c, double *value, double *gradient) {
    const int64_t n = e->n;
    double *h = e->forcing, *by_h = e->response, *source = e->source, *v = e->adjoint;
    int stable = 0;
    TRY(invert(e, c, h, &stable));
    if (!stable) return DPMF_OK;
    toeplitz_form_apply(n, e->form, h, by_h);
    const double sum = base_dot(n, h, by_h) / (double)n;
    if (!isfinite(sum)) return DPMF_OK;
    if (gradient != NULL) {
        for (int64_t i = 0; i < n; i++)
            source[n - 1 - i] = 2 * by_h[i] / (double)n;
        TRY(base_convolve(n, h, n, source, n, v)); /* reversed, twice */
        TRY(base_convolve(n, h, n, v, n, source));
        if (!all_finite(n, source)) return DPMF_OK;
        for (int64_t j = 0; j < e->bands; j++)
            gradient[j] = -source[n - 1 - j];
    }
    *value = sum;
    return DPMF_OK;
}

dpmf_status toeplitz_error_value(toeplitz_error *e, const double *c, double *value, double *gradient) {
    steady s = {0};
    error_sum sum = {0};
    int closed = 0, stable = 0;
    *value = INFINITY;
    if (!(c[0] > 0)) return DPMF_OK;
    if (e->form != NULL) return form_value(e, c, value, gradient);
    if (e->by_transforms) return toeplitz_error_transforms(e, c, value, gradient);
    if (e->steady) {
        s = steady_of(e, c);
        if (!(s.c_at > 0) || !isfinite(s.x * s.x)) return DPMF_OK;
        fill_tail(e, c);
    }
    kernels_toeplitz_get()->fill(c, &e->table);
    TRY(sum_response(e, &s, &closed, &sum, &stable));
    if (!stable) return DPMF_OK;
    const double linear = closed ? s.d0 - s.nu * s.d1 : sum.linear;
    *value = s.x * s.x * e->steady_sum + 2 * s.x * linear + sum.square;
    if (gradient == NULL) return DPMF_OK;
    /* v = C^-T g, g_i = 2 u_i (d_i + x k^i) or, with the closed form, 2 u_i d_i; left in e->adjoint from its end. */
    const kernels_toeplitz_set *kernels = kernels_toeplitz_get();
    const int64_t m = e->used;
    const double x = e->steady && !closed ? s.x : 0;
    double power = 1;
    if (x == 0 && e->weights == NULL) kernels->reverse(m, e->response, 2, 2 * slope_of(e), e->source);
    for (int64_t i = 0; i < m && !(x == 0 && e->weights == NULL); i++, power *= e->k)
        e->source[m - 1 - i] = 2 * toeplitz_weight(e, i) * (e->response[i] + x * power);
    kernels->solve(&e->table, 0, m, m, e->source, e->adjoint);
    const int64_t lags = e->bands < e->used ? e->bands : e->used;
    kernels_toeplitz_get()->correlate(e->used, lags, e->adjoint, e->response, gradient);
    for (int64_t j = 0; j < e->bands; j++)
        gradient[j] = j < lags ? -gradient[j] : 0;
    if (e->steady) add_steady_gradient(e, &s, closed, &sum, gradient);
    return DPMF_OK;
}

/*
 * Any other loss. The squared error of step t is q_t = S sum_{i<=t} w_i^2, so that with phi = df/dq at hand
 * sum_t phi_t q_t = S sum_i u_i w_i^2, u_i = sum_{t>=i} phi_t, and df/dc = S dE/dc with these weights held: two passes, one for w and
 * one for the gradient. What the first leaves out of w is below 1e-17 of the errors.
 */
dpmf_status toeplitz_error_loss(toeplitz_error *e, const problem_loss *loss, double square, const double *c,
                                double *value, double *by_square, double *gradient) {
    double sum = 0, tail = 0;
    *value = INFINITY;
    for (int64_t i = 0; i < e->n; i++)
        e->weights[i] = 1;
    TRY(toeplitz_error_value(e, c, &sum, NULL));
    if (!isfinite(sum)) return DPMF_OK;
    base_running so_far = {0};
    for (int64_t t = 0; t < e->n; t++) {
        if (t < e->used) base_running_add(&so_far, e->response[t] * e->response[t]);
        e->squares[t] = square * base_running_value(&so_far);
    }
    const double found = problem_loss_value(loss, e->n, e->squares, e->weights);
    if (!(found > 0 && isfinite(found))) return DPMF_OK;
    for (int64_t i = e->n - 1; i >= 0; i--) {
        if (!(e->weights[i] >= 0)) return DPMF_OK;
        e->weights[i] = tail += e->weights[i];
    }
    TRY(toeplitz_error_value(e, c, &sum, gradient));
    if (!isfinite(sum)) return DPMF_OK;
    for (int64_t j = 0; j < e->bands && gradient != NULL; j++)
        gradient[j] *= square;
    *by_square = sum;
    *value = found;
    return DPMF_OK;
}

/*
 * The squared norm of s = C[:,0] + C[:,b] + ... + C[:,(k-1)b] for a banded Toeplitz C, with its gradient.
 *
 *     s_t = c_t + c_{t-b} + ... + c_{t-(k-1)b}   (t < n),   S = |s|^2,   dS/dc_i = 2 (s_i + s_{i+b} + ...)
 *
 * bands <= b: the columns do not meet, S = sum_i N_i c_i^2 with N_i the number of columns that reach their i-th entry
 * before row n: min(k, floor((n-1-i)/b) + 1). No pattern has a larger sum, since every column that is shorter than
 * another is a part of it; so S is the squared sensitivity for any signs.
 *
 * bands > b: many columns are alike. Taking away one period of b steps in the middle takes away |P|^2 as soon as k b
 * passes the bands, with P_r = c_r + c_{r+b} + ... the sums over residues, so that
 *
 *     S(n, k) = S(n - (k - k0) b, k0) + (k - k0) |P|^2,   k0 = ceil(bands/b) + 1,
 *
 * and the work is O(bands) times a few, for any n.
 */

dpmf_status toeplitz_pattern_of(const dpmf_participation *participation, int64_t n, toeplitz_pattern *out) {
    if (participation->pattern != WORKLOAD_EPOCHS) {
        *out = (toeplitz_pattern){n, participation->count, participation->separation};
        assert((out->k - 1) * out->b < n);
        return DPMF_OK;
    }
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "Toeplitz strategies are not optimized for participation %s, accepted: single, cyclic, min-sep, "
                     "full, patterns; optimize for one of them (--optimize-participation) and evaluate for this one",
                     participation->text);
}

/* The columns do not meet. */
static double apart(const toeplitz_pattern *p, int64_t bands, const double *c, double *gradient) {
    double sum = 0;
    for (int64_t i = 0; i < bands; i++) {
        int64_t reach = (p->n - 1 - i) / p->b + 1;
        double times = (double)(reach < p->k ? reach : p->k);
        sum += times * c[i] * c[i];
        if (gradient != NULL) gradient[i] = 2 * times * c[i];
    }
    return sum;
}

/* All of s and of its sums, each from its neighbour one period away; `s` has 2n numbers. */
static double together(const toeplitz_pattern *p, int64_t bands, const double *c, double *s, double *gradient) {
    const int64_t n = p->n, b = p->b, whole = p->k * b;
    double square = 0, *sums = s + n;
    for (int64_t t = 0; t < n; t++) {
        double here = (t < bands ? c[t] : 0) + (t >= b ? s[t - b] : 0);
        if (t >= whole && t - whole < bands) here -= c[t - whole];
        s[t] = here;
        square += here * here;
    }
    if (gradient == NULL) return square;
    for (int64_t t = n - 1; t >= 0; t--) {
        sums[t] = s[t] + (t + b < n ? sums[t + b] : 0) - (t + whole < n ? s[t + whole] : 0);
        if (t < bands) gradient[t] = 2 * sums[t];
    }
    return square;
}

/* times |P|^2; `sums` has b numbers. */
static double periods(double times, int64_t b, int64_t bands, const double *c, double *sums, double *gradient) {
    double square = 0;
    memset(sums, 0, (size_t)b * sizeof *sums);
    for (int64_t i = 0; i < bands; i++)
        sums[i % b] += c[i];
    for (int64_t r = 0; r < b; r++)
        square += sums[r] * sums[r];
    for (int64_t i = 0; gradient != NULL && i < bands; i++)
        gradient[i] += 2 * times * sums[i % b];
    return times * square;
}

dpmf_status toeplitz_square(const toeplitz_pattern *pattern, int64_t bands, const double *c, double *value,
                            double *gradient) {
    toeplitz_pattern p = *pattern;
    double *s = NULL;
    assert(bands >= 1 && bands <= p.n);
    if (bands <= p.b) {
        *value = apart(&p, bands, c, gradient);
        return DPMF_OK;
    }
    int64_t least = (bands + p.b - 1) / p.b + 1, left_out = p.k > least ? p.k - least : 0;
    p.k -= left_out;
    p.n -= left_out * p.b;
    int64_t reach = (p.k - 1) * p.b + bands; /* s is zero from there on */
    if (p.n > reach) p.n = reach;
    TRY(base_alloc_doubles(2 * p.n + p.b, "sums of columns", &s));
    double square = together(&p, bands, c, s, gradient);
    if (left_out > 0) square += periods((double)left_out, p.b, bands, c, s + 2 * p.n, gradient);
    *value = square;
    base_free(s);
    return DPMF_OK;
}
