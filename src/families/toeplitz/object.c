/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Toeplitz strategies: C[t,u] = c_{t-u}, C^-1[t,u] = e_{t-u}.
 *
 *     identity  c = (1)
 *     toeplitz  c = coefficients of A^(1/2) times (1-nu)^t, e of A^(-1/2) times the same (Pillutla et al. 2025,
 *               Eq. 2.10 and 3.27); or given coefficients
 *     bsr       the first b of them (Kalinin and Lampert 2024); y_t = (z_t - sum_{j=1..b-1} c_j y_{t-j}) / c_0
 *     bisr      e = the first b coefficients of A^(-1/2);      y_t = sum_{j<b} e_j z_{t-j}
 *
 * Which of c and e are held decides how the noise is made: with few c the outputs are kept and fed back, with few e the
 * seeds are kept. A full C keeps both series, e for the stream and c for the sensitivity. Nothing here is n x n.
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

typedef struct toeplitz {
    dpmf_strategy base;
    int64_t count;         /* terms of c, 1..steps */
    int64_t inverse_count; /* terms of e, 0: not held (few c) */
    double *c, *inverse;
} toeplitz;

STRATEGY_CAST(toeplitz)

/* Feed outputs back (few c), or filter the seeds (e held, and no longer than c)? */
static int feeds_back(const toeplitz *s) {
    return s->inverse_count == 0 || s->count < s->inverse_count;
}

static void toeplitz_release(dpmf_strategy *s) {
    toeplitz *self = (toeplitz *)s;
    base_free(self->c);
    base_free(self->inverse);
}

static dpmf_status toeplitz_apply(const dpmf_strategy *s, const double *x, double *y) {
    const toeplitz *self = cast(s);
    if (self->inverse_count > 0 && self->inverse_count < self->count && self->inverse_count <= 64) {
        base_toeplitz_solve_banded(s->steps, self->inverse_count, self->inverse, x, y);
        return DPMF_OK;
    }
    return base_toeplitz_apply(s->steps, self->count, self->c, x, y);
}

static dpmf_status toeplitz_solve(const dpmf_strategy *s, const double *y, double *x) {
    const toeplitz *self = cast(s);
    if (!feeds_back(self)) return base_toeplitz_apply(s->steps, self->inverse_count, self->inverse, y, x);
    base_toeplitz_solve_banded(s->steps, self->count, self->c, y, x);
    return DPMF_OK;
}

static int64_t toeplitz_buffers(const dpmf_strategy *s) {
    const toeplitz *self = cast(s);
    return (feeds_back(self) ? self->count : self->inverse_count) - 1;
}

/* The ring holds the last `buffers` rows, row u in slot u mod buffers: outputs when feeding back, else seeds. */
static void toeplitz_step(const dpmf_strategy *s, int64_t t, int64_t count, const double *seed, double *state,
                          double *row) {
    const toeplitz *self = cast(s);
    int back = feeds_back(self);
    const double *f = back ? self->c : self->inverse;
    int64_t buffers = toeplitz_buffers(s);
    for (int64_t i = 0; i < count; i++)
        row[i] = back ? seed[i] : f[0] * seed[i];
    for (int64_t j = 1; j <= buffers && j <= t; j++) {
        const double *past = state + ((t - j) % buffers) * count;
        double weight = back ? -f[j] : f[j];
        for (int64_t i = 0; i < count; i++)
            row[i] += weight * past[i];
    }
    if (back)
        for (int64_t i = 0; i < count; i++)
            row[i] /= f[0];
    if (buffers > 0) memcpy(state + (t % buffers) * count, back ? row : seed, (size_t)count * sizeof *row);
}

static dpmf_status toeplitz_column(const dpmf_strategy *s, int64_t j, double *column) {
    const toeplitz *self = cast(s);
    int64_t room = s->steps - j, terms = self->count < room ? self->count : room;
    memset(column, 0, (size_t)s->steps * sizeof *column);
    memcpy(column + j, self->c, (size_t)terms * sizeof *column);
    return DPMF_OK;
}

/* Column n-1-i holds c_0..c_i: one running sum of squares. */
static dpmf_status toeplitz_column_norms(const dpmf_strategy *s, double *norms) {
    const toeplitz *self = cast(s);
    base_running sum = {0};
    for (int64_t i = 0; i < s->steps; i++) {
        if (i < self->count) base_running_add(&sum, self->c[i] * self->c[i]);
        norms[s->steps - 1 - i] = sqrt(base_running_value(&sum));
    }
    return DPMF_OK;
}

static void toeplitz_inverse_part(const dpmf_strategy *s, int64_t t, int64_t j, int64_t count, double *values) {
    const toeplitz *self = cast(s);
    assert(self->inverse_count > 0 && j + count <= t + 1);
    for (int64_t i = 0; i < count; i++) {
        int64_t lag = t - j - i;
        values[i] = lag < self->inverse_count ? self->inverse[lag] : 0;
    }
}

static int64_t toeplitz_bands(const dpmf_strategy *s) {
    return cast(s)->count;
}

static int64_t toeplitz_inverse_bands(const dpmf_strategy *s) {
    return cast(s)->inverse_count;
}

static void copy_row(int64_t t, int64_t count, const double *coefficients, double *values) {
    for (int64_t j = 0; j < count; j++)
        values[j] = j <= t ? coefficients[j] : 0;
}

static void toeplitz_row(const dpmf_strategy *s, int64_t t, double *values) {
    copy_row(t, cast(s)->count, cast(s)->c, values);
}

static void toeplitz_inverse_row(const dpmf_strategy *s, int64_t t, double *values) {
    copy_row(t, cast(s)->inverse_count, cast(s)->inverse, values);
}

static void toeplitz_view(const dpmf_strategy *s, int64_t *count, const double **c, int64_t *inverse_count,
                          const double **inverse) {
    const toeplitz *self = cast(s);
    *count = self->count;
    *c = self->c;
    *inverse_count = self->inverse_count;
    *inverse = self->inverse;
}

static void toeplitz_write(const dpmf_strategy *s, base_writer *w, base_tensors *tensors) {
    const toeplitz *self = cast(s);
    (void)w;
    base_tensors_add(tensors, "strategy.coefficients", self->count, 0, self->c);
    if (self->inverse_count > 0)
        base_tensors_add(tensors, "strategy.inverse_coefficients", self->inverse_count, 0, self->inverse);
}

static const strategy_ops TOEPLITZ = {.class_name = "toeplitz",
                                      .release = toeplitz_release,
                                      .apply = toeplitz_apply,
                                      .solve = toeplitz_solve,
                                      .step = toeplitz_step,
                                      .buffers = toeplitz_buffers,
                                      .column = toeplitz_column,
                                      .column_norms = toeplitz_column_norms,
                                      .inverse_part = toeplitz_inverse_part,
                                      .bands = toeplitz_bands,
                                      .row = toeplitz_row,
                                      .inverse_bands = toeplitz_inverse_bands,
                                      .inverse_row = toeplitz_inverse_row,
                                      .toeplitz = toeplitz_view,
                                      .is_toeplitz = 1,
                                      .write = toeplitz_write};

/* Room for the series; the caller fills them in. */
static dpmf_status new_toeplitz(const char *family, int64_t steps, int64_t count, int64_t inverse_count,
                                toeplitz **out) {
    toeplitz *s = NULL;
    dpmf_status status = DPMF_OK;
    TRY(strategy_new(&TOEPLITZ, sizeof *s, family, steps, (dpmf_strategy **)&s));
    if (inverse_count == 0) s->base.can &= ~(unsigned)(STRATEGY_CAN_INVERSE_PART | STRATEGY_CAN_INVERSE_ROW);
    s->count = count;
    s->inverse_count = inverse_count;
    TRY_DONE(base_alloc_doubles(count, "the coefficients of C", &s->c));
    TRY_DONE(base_alloc_doubles(inverse_count, "the coefficients of C^-1", &s->inverse));
    *out = s;
    s = NULL;
done:
    dpmf_strategy_free((dpmf_strategy *)s);
    return status;
}

/* Feeding back costs n x count; past this many terms the inverse series by FFT is the cheaper one to hold. */
enum { FEED_BACK_MAX = 4096 };

static dpmf_status check_coefficients(int64_t steps, int64_t count, const double *coefficients) {
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %lld, accepted 1 to 2^53", (long long)steps);
    if (count < 1 || count > steps)
        return base_fail(DPMF_ERROR_ARGUMENT, "%lld coefficients, accepted 1 to %lld (the steps)", (long long)count,
                         (long long)steps);
    if (coefficients == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "the coefficients are NULL");
    TRY(base_check_finite(count, coefficients, "coefficient"));
    if (coefficients[0] == 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "coefficient 0 = 0, accepted: not 0 (it is the diagonal)");
    return DPMF_OK;
}

static dpmf_status finish(toeplitz *s, dpmf_status status, dpmf_strategy **out) {
    if (status == DPMF_OK)
        *out = &s->base;
    else
        dpmf_strategy_free(&s->base);
    return status;
}

static int64_t terms_of(int64_t count, const double *x) {
    while (count > 1 && x[count - 1] == 0)
        count--;
    return count;
}

/* The first n terms of c e with products and sums in twice the precision: off by one rounding of each and 4 n^2 u^2 of |c| |e|. */
static void multiply_exactly(int64_t n, int64_t terms, const double *c, int64_t others, const double *e, double *out) {
    for (int64_t t = 0; t < n; t++) {
        base_running sum = {0};
        for (int64_t j = t < others ? 0 : t - others + 1; j <= t && j < terms; j++) {
            const double product = c[j] * e[t - j];
            base_running_add(&sum, product);
            sum.low += fma(c[j], e[t - j], -product);
        }
        out[t] = base_running_value(&sum);
    }
}

/*
 * Sensitivity comes from c and noise from e, so that they must be each other's inverse. The noise is that of C' = e^-1, and where
 * C e = I + F no pattern moves C' by more than |C x| / (1 - |F|). |F| is at most sqrt(n) |f|_2, f its first column, and what the product's
 * own roundings may hide counts: three transforms, each right to 6 u log2 n of its norm (Higham 2002, Theorem 24.2). Where that
 * proves nothing, the product is made in twice the precision, unless it would take too long: then a millionth of sigma is
 * accepted, which is what transforms prove for momentum of 0.9999 over 10^6 steps. The bound on |F| does not grow with |c| and |e|: a tolerance that does
 * accepts, for coefficients like those of (1-x)^8, a pair whose noise is 0.
 */
dpmf_status toeplitz_check_pair(int64_t steps, int64_t count, const double *c, int64_t inverse_count,
                                const double *inverse, dpmf_status code) {
    static const double work_most = 1e9, u = 0x1p-53;
    const int64_t terms = terms_of(count, c), others = terms_of(inverse_count, inverse);
    /* A file may have any number of steps: what is computed here is as long as the series that it holds. */
    const int64_t n = terms + others - 1 < steps ? terms + others - 1 : steps;
    double *product = NULL, one = 0, inverse_one = 0;
    dpmf_status status = DPMF_OK;
    TRY(base_alloc_doubles(n, "a product of series", &product));
    TRY_DONE(base_convolve(terms, c, others, inverse, n, product));
    product[0] -= 1;
    for (int64_t t = 0; t < terms; t++)
        one += fabs(c[t]);
    for (int64_t t = 0; t < others; t++)
        inverse_one += fabs(inverse[t]);
    const double size = fmin(one * base_norm(others, inverse), inverse_one * base_norm(terms, c)),
                 root = sqrt((double)n);
    double found = root * (base_norm(n, product) + 20 * u * (2 + log2((double)n)) * size);
    const int exact = (double)n * (double)(terms < others ? terms : others) <= work_most;
    const double most = exact ? 1e-8 : 1e-6; /* of sigma */
    if (!(found <= most) && exact) {
        multiply_exactly(n, terms, c, others, inverse, product);
        product[0] -= 1;
        found = root * (base_norm(n, product) * (1 + 4 * u) + 4 * (double)n * (double)n * u * u * size);
    }
    if (!(found <= most))
        status = base_fail(
            code,
            "coefficients of C and of its inverse: their product may differ from 1 by %.3g in norm, accepted: up to "
            "%g (an inverse that is not C's, or too ill-conditioned for double precision)",
            found, most);
done:
    base_free(product);
    return status;
}

static dpmf_status check_pair(const toeplitz *s, dpmf_status code) {
    return toeplitz_check_pair(s->base.steps, s->count, s->c, s->inverse_count, s->inverse, code);
}

static dpmf_status from_coefficients(const char *family, int64_t steps, int64_t count, const double *coefficients,
                                     dpmf_strategy **out) {
    toeplitz *s = NULL;
    int hold_inverse = count == steps || count > FEED_BACK_MAX;
    TRY(new_toeplitz(family, steps, count, hold_inverse ? steps : 0, &s));
    memcpy(s->c, coefficients, (size_t)count * sizeof *s->c);
    dpmf_status status = hold_inverse ? base_series_inverse(count, s->c, steps, s->inverse) : DPMF_OK;
    if (status == DPMF_OK && hold_inverse) status = check_pair(s, DPMF_ERROR_NUMERICAL);
    const int64_t terms = terms_of(count, s->c);
    if (status == DPMF_ERROR_NUMERICAL && hold_inverse &&
        terms <= FEED_BACK_MAX) { /* transforms lose the small terms of a large inverse */
        memset(s->inverse, 0, (size_t)steps * sizeof *s->inverse);
        s->inverse[0] = 1;
        base_toeplitz_solve_banded(steps, terms, s->c, s->inverse, s->inverse);
        status = base_check_finite(steps, s->inverse, "the inverse series overflows: coefficient");
        if (status == DPMF_OK) status = check_pair(s, DPMF_ERROR_NUMERICAL);
    }
    return finish(s, status, out);
}

/* From e: c is its reciprocal series, needed whole for the sensitivity. */
static dpmf_status from_inverse(int64_t steps, int64_t count, const double *coefficients, dpmf_strategy **out) {
    toeplitz *s = NULL;
    TRY(new_toeplitz(DPMF_FAMILY_BISR, steps, steps, count, &s));
    memcpy(s->inverse, coefficients, (size_t)count * sizeof *s->inverse);
    dpmf_status status = DPMF_OK;
    if (count <= FEED_BACK_MAX) {
        s->c[0] = 1;
        base_toeplitz_solve_banded(steps, count, s->inverse, s->c, s->c);
        status = base_check_finite(steps, s->c, "the inverse series overflows: coefficient");
    } else {
        status = base_series_inverse(count, s->inverse, steps, s->c);
    }
    if (status == DPMF_OK) status = check_pair(s, DPMF_ERROR_NUMERICAL);
    return finish(s, status, out);
}

dpmf_status dpmf_strategy_create_toeplitz(int64_t steps, dpmf_toeplitz_shape shape, int64_t count,
                                          const double *coefficients, dpmf_strategy **out) {
    TRY(check_coefficients(steps, count, coefficients));
    if (shape == DPMF_TOEPLITZ_INVERSE) return from_inverse(steps, count, coefficients, out);
    const int banded = shape == DPMF_TOEPLITZ_BANDED || count < steps;
    return from_coefficients(banded ? DPMF_FAMILY_BANDED_TOEPLITZ : DPMF_FAMILY_TOEPLITZ, steps, count, coefficients,
                             out);
}

dpmf_status toeplitz_create_identity(int64_t steps, dpmf_strategy **out) {
    toeplitz *s = NULL;
    TRY(new_toeplitz(DPMF_FAMILY_IDENTITY, steps, 1, 1, &s));
    s->c[0] = s->inverse[0] = 1;
    *out = &s->base;
    return DPMF_OK;
}

dpmf_status toeplitz_create_root(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    int64_t n = workload->steps;
    toeplitz *s = NULL;
    dpmf_status status = DPMF_OK;
    TRY(new_toeplitz(DPMF_FAMILY_TOEPLITZ, n, n, n, &s));
    TRY_DONE(workload_series(workload, 0.5, n, s->c));
    TRY_DONE(workload_series(workload, -0.5, n, s->inverse));
    if (o->nu > 0) {
        double damping = 1;
        for (int64_t t = 0; t < n; t++, damping *= 1 - o->nu) {
            s->c[t] *= damping;
            s->inverse[t] *= damping;
        }
    }
done:
    return finish(s, status, out);
}

/* The first `bands` coefficients of A^power into a fresh array. */
static dpmf_status series_start(const dpmf_workload *workload, double power, int64_t bands, double **out) {
    double *start = NULL;
    TRY(base_alloc_doubles(bands, "the coefficients", &start));
    dpmf_status status = workload_series(workload, power, bands, start);
    if (status == DPMF_OK)
        *out = start;
    else
        base_free(start);
    return status;
}

dpmf_status toeplitz_create_bsr(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    double *start = NULL;
    TRY(series_start(workload, 0.5, o->bands, &start));
    dpmf_status status = from_coefficients(DPMF_FAMILY_BSR, workload->steps, o->bands, start, out);
    base_free(start);
    return status;
}

dpmf_status toeplitz_create_bisr(const dpmf_workload *workload, const dpmf_strategy_options *o, dpmf_strategy **out) {
    double *start = NULL;
    TRY(series_start(workload, -0.5, o->bands, &start));
    dpmf_status status = from_inverse(workload->steps, o->bands, start, out);
    base_free(start);
    return status;
}

dpmf_status toeplitz_read(const strategy_source *source, dpmf_strategy **out) {
    const base_tensor *c = NULL, *inverse = NULL;
    toeplitz *s = NULL;
    TRY(strategy_array(source, "strategy.coefficients", -1, 0, &c));
    inverse = base_tensors_find(source->tensors, "strategy.inverse_coefficients");
    if (inverse != NULL) TRY(strategy_array(source, "strategy.inverse_coefficients", -1, 0, &inverse));
    TRY(check_coefficients(source->steps, c->shape[0], c->values));
    if (inverse != NULL) TRY(check_coefficients(source->steps, inverse->shape[0], inverse->values));
    TRY(new_toeplitz(source->family, source->steps, c->shape[0], inverse == NULL ? 0 : inverse->shape[0], &s));
    memcpy(s->c, c->values, (size_t)s->count * sizeof *s->c);
    if (inverse != NULL) memcpy(s->inverse, inverse->values, (size_t)s->inverse_count * sizeof *s->inverse);
    return finish(s, inverse == NULL ? DPMF_OK : check_pair(s, DPMF_ERROR_FORMAT), out);
}
