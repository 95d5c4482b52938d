/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pattern: f(X) = max { sum_ij X_ij <g_i,g_j> : |g_i| <= 1 } for a k x k matrix X = C'C on the pattern's steps.
 *
 * Steps whose entries of X are zero between them do not see each other, so f is the sum over the connected parts of X.
 * Of one part:
 *
 *     exact  - if signs u with u_i u_j X_ij >= 0 exist (breadth-first colouring): sum |X|. This holds for X >= 0
 *              (Pillutla et al. 2025, Lemma 3.15b), for two steps, and for every X without cycles, such as a
 *              tridiagonal one.
 *            - if for some signs u, with d_i = u_i (Xu)_i, Diag(d) - X is positive semidefinite: u'Xu, by weak duality
 *              (sensitivity/pattern.c). That matrix is the Laplacian of the weights u_i u_j X_ij and kills the constant
 *              vector, so it is semidefinite exactly if it is so without its first row and column: a Cholesky
 *              factorization decides, with no tolerance. Tried for u = 1 and for the signs that the ascent ends at.
 *     above  - sum |X| (Pillutla et al. 2025, Lemma 3.15a)
 *            - k x largest eigenvalue (Choquette-Choo et al. 2023, Theorem 2.1)
 *            - pi/2 x max over signs (Choquette-Choo et al. 2023, Theorem H.1, from Grothendieck's inequality for
 *              semidefinite matrices). This is of squares: the sensitivity is sqrt(pi/2) times the maximum, where the
 *              theorem as printed has pi/2, a misprint.
 *            - the semidefinite dual, which is no larger than any of these where the ascent has converged
 *              (sensitivity/pattern.c); where it has not, the smallest of the four is taken.
 *
 * The maximum over signs itself is a LOWER bound (Choquette-Choo et al. 2023, Appendix H.2, has an example). It is the
 * value for contributions of one number, where g_i = +1 or -1 is best, since the sum is convex in each g_i. Such values
 * are never mixed with those for vectors: sensitivity_pattern_column has its own callers.
 *
 * Rounding: a Cholesky factorization in floating point that runs to its end proves that the least eigenvalue is above
 * -(k+2) eps trace (Rump 2006). So the matrix is lowered by that much first, and the proof is complete; failing that,
 * the plain factorization counts if what is left open is below 1e-12 of the value.
 */

#include "base/linalg.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sum.h"
#include "sensitivity/sensitivity.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

static const double OPEN_MAX = 1e-12; /* what "exact" leaves to rounding */

/* One connected part, as a matrix of its own. */
typedef struct part {
    int64_t k;
    double *x; /* k x k */
    int balanced, negative;
    double sum; /* of |x| */
} part;

typedef struct scratch {
    double *memory, *part, *work, *vectors, *signs;
    int64_t *queue;
    signed char *colour; /* 0: not met yet */
} scratch;

static void scratch_free(scratch *s) {
    base_free(s->memory);
    base_free(s->queue);
    base_free(s->colour);
}

static dpmf_status scratch_make(int64_t k, scratch *s) {
    dpmf_status status = DPMF_OK;
    *s = (scratch){0};
    TRY_DONE(base_alloc_doubles(2 * k * k + 2 * k + sensitivity_ascent_room(k), "the matrix of a pattern", &s->memory));
    TRY_DONE(base_alloc(k, sizeof(int64_t), "the steps of a pattern", (void **)&s->queue));
    TRY_DONE(base_alloc(k, 1, "the steps of a pattern", (void **)&s->colour));
    s->part = s->memory;
    s->work = s->part + k * k;
    s->signs = s->work + k * k + k;
    s->vectors = s->signs + k;
done:
    if (status != DPMF_OK) scratch_free(s);
    return status;
}

/* The steps connected with `first`, in s->queue, and their matrix. */
static part collect(int64_t k, const double *x, int64_t first, scratch *s) {
    part p = {.k = 1, .x = s->part, .balanced = 1};
    s->queue[0] = first;
    s->colour[first] = 1;
    for (int64_t done = 0; done < p.k; done++) {
        int64_t i = s->queue[done];
        for (int64_t j = 0; j < k; j++) {
            double value = x[i * k + j];
            if (j == i || value == 0) continue;
            signed char wanted = value < 0 ? (signed char)-s->colour[i] : s->colour[i];
            if (s->colour[j] == 0) {
                s->queue[p.k++] = j;
                s->colour[j] = wanted;
            }
            if (s->colour[j] != wanted) p.balanced = 0;
            if (value < 0) p.negative = 1;
        }
    }
    base_running sum = {0};
    for (int64_t a = 0; a < p.k; a++)
        for (int64_t c = 0; c < p.k; c++) {
            double value = x[s->queue[a] * k + s->queue[c]];
            p.x[a * p.k + c] = value;
            base_running_add(&sum, fabs(value));
        }
    p.sum = base_running_value(&sum);
    return p;
}

/* ---- the certificate ---- */

/* Is a symmetric matrix, of which the lower triangle is given, positive definite? Destroyed. */
static int positive_definite(int64_t n, double *a) {
    for (int64_t i = 0; i < n; i++) {
        double *row = a + i * n;
        for (int64_t j = 0; j < i; j++)
            row[j] = (row[j] - base_dot(j, row, a + j * n)) / a[j * n + j];
        double left = row[i] - base_dot(i, row, row);
        if (!(left > 0)) return 0;
        row[i] = sqrt(left);
    }
    return 1;
}

/* The Laplacian of the weights u_i u_j x_ij without its first row and column, less `shift` on the diagonal. */
static void laplacian(const part *p, const double *u, double shift, double *a) {
    const int64_t m = p->k - 1;
    for (int64_t i = 1; i < p->k; i++) {
        base_running degree = {0};
        for (int64_t j = 0; j < p->k; j++) {
            double weight = u[i] * u[j] * p->x[i * p->k + j];
            if (j == i) continue;
            base_running_add(&degree, weight);
            if (j > 0) a[(i - 1) * m + j - 1] = -weight;
        }
        a[(i - 1) * m + i - 1] = base_running_value(&degree) - shift;
    }
}

static double signed_sum(const part *p, const double *u) {
    base_running sum = {0};
    for (int64_t i = 0; i < p->k; i++)
        for (int64_t j = 0; j < p->k; j++)
            base_running_add(&sum, u[i] * u[j] * p->x[i * p->k + j]);
    return base_running_value(&sum);
}

/*
 * f = u'Xu? With y_i = x_i - x_0, the quadratic form of the whole Laplacian is that of the part in y; so if the latter
 * is above -e, then d + 2 e (and d_0 + 2 (k-1) e) is feasible, and 4 (k-1) e is left open.
 */
static int certified(const part *p, const double *u, double *work, double *value) {
    double e = (double)(p->k + 2) * DBL_EPSILON * p->sum;
    *value = signed_sum(p, u);
    laplacian(p, u, e, work);
    if (positive_definite(p->k - 1, work)) return 1;
    if (4 * (double)p->k * e > OPEN_MAX * *value) return 0;
    laplacian(p, u, 0, work);
    return positive_definite(p->k - 1, work);
}

/*
 * max u'Xu over signs, u_0 = 1, by Gray code: each sign vector differs from the one before in one place, O(k) for each of
 * the 2^(k-1). After i flips `reached` is off by at most k + i roundings of the sum of |x|, and the running value by four
 * times the sum of these; both begin again from their definitions every FRESH flips. A value that is within twice that
 * error below the best is computed from its definition too, so that the maximum is one of compensated sums.
 */
enum { FRESH = 32 };

static double best_signs(const part *p, double *u) {
    const int64_t k = p->k;
    const double slack = 8 * (double)FRESH * (double)(FRESH + k + 4) * DBL_EPSILON * p->sum;
    double reached[SENSITIVITY_SIGNS_MAX], value = 0, top = 0;
    assert(k <= SENSITIVITY_SIGNS_MAX);
    for (int64_t i = 0; i < k; i++)
        u[i] = 1;
    for (uint64_t code = 0; code < (uint64_t)1 << (k - 1); code++) {
        if (code > 0) {
            const int64_t flip = 1 + __builtin_ctzll(code);
            const double *column = p->x + flip * k, sign = u[flip];
            value -= 4 * sign * (reached[flip] - column[flip] * sign);
            for (int64_t j = 0; j < k; j++)
                reached[j] -= 2 * column[j] * sign;
            u[flip] = -sign;
        }
        if (code % FRESH == 0) {
            value = signed_sum(p, u);
            for (int64_t i = 0; i < k; i++)
                reached[i] = base_dot(k, p->x + i * k, u);
        }
        if (value > top - slack) top = fmax(top, signed_sum(p, u));
    }
    return top;
}

/* Parts are added up: a sum of exact values is exact, a sum with a bound in it is a bound. */
static void add(sensitivity_found *total, double square, dpmf_certainty kind, sensitivity_method_kind method) {
    total->square += square;
    if (kind != DPMF_EXACT) total->kind = DPMF_UPPER_BOUND;
    if (method > total->method) total->method = method; /* the later in the list says more about what was needed */
}

static dpmf_status add_bound(const part *p, scratch *s, sensitivity_found *total) {
    double low = 0, high = 0, value = 0;
    TRY(sensitivity_ascent(p->k, p->x, s->work, s->vectors, s->signs, &low, &high));
    if (certified(p, s->signs, s->work, &value)) {
        add(total, value, DPMF_EXACT, SENSITIVITY_METHOD_CERTIFIED);
        return DPMF_OK;
    }
    sensitivity_found best = SENSITIVITY_NOT_FOUND;
    sensitivity_found_improve(&best, high, SENSITIVITY_METHOD_DUAL);
    sensitivity_found_improve(&best, p->sum, SENSITIVITY_METHOD_ABSOLUTE);
    if (best.square > low * (1 + 1e-9)) { /* none can be below what the ascent has reached */
        TRY(sensitivity_pattern_spectral(p->k, p->x, s->work, &value));
        sensitivity_found_improve(&best, value, SENSITIVITY_METHOD_SPECTRAL);
        if (p->k <= SENSITIVITY_SIGNS_MAX)
            sensitivity_found_improve(&best, M_PI_2 * best_signs(p, s->signs), SENSITIVITY_METHOD_SIGNS);
    }
    add(total, best.square, DPMF_UPPER_BOUND, best.method);
    return DPMF_OK;
}

static dpmf_status add_part(const part *p, scratch *s, sensitivity_found *total) {
    double value = 0;
    if (p->balanced) {
        add(total, p->sum, DPMF_EXACT, p->negative ? SENSITIVITY_METHOD_BALANCED : SENSITIVITY_METHOD_NON_NEGATIVE);
        return DPMF_OK;
    }
    for (int64_t i = 0; i < p->k; i++)
        s->signs[i] = 1;
    if (certified(p, s->signs, s->work, &value)) {
        add(total, value, DPMF_EXACT, SENSITIVITY_METHOD_CERTIFIED);
        return DPMF_OK;
    }
    return add_bound(p, s, total);
}

static dpmf_status add_parts(int64_t k, const double *x, dpmf_sensitivity_bound bound, scratch *s,
                             sensitivity_found *total) {
    for (int64_t i = 0; i < k; i++) {
        if (s->colour[i] != 0) continue;
        part p = collect(k, x, i, s);
        if (bound == DPMF_BOUND_ABSOLUTE)
            add(total, p.sum, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_ABSOLUTE);
        else if (bound == DPMF_BOUND_SIGNS)
            add(total, M_PI_2 * (p.balanced ? p.sum : best_signs(&p, s->signs)), DPMF_UPPER_BOUND,
                SENSITIVITY_METHOD_SIGNS);
        else
            TRY(add_part(&p, s, total));
    }
    return DPMF_OK;
}

dpmf_status sensitivity_pattern_evaluate(int64_t k, const double *x, dpmf_sensitivity_bound bound,
                                         sensitivity_found *out) {
    sensitivity_found total = {0, DPMF_EXACT, SENSITIVITY_METHOD_NON_NEGATIVE};
    scratch s;
    TRY(scratch_make(k, &s));
    dpmf_status status = DPMF_OK;
    if (bound == DPMF_BOUND_SPECTRAL) {
        total = (sensitivity_found){0, DPMF_UPPER_BOUND, SENSITIVITY_METHOD_SPECTRAL};
        status = sensitivity_pattern_spectral(k, x, s.work, &total.square);
    } else {
        status = add_parts(k, x, bound, &s, &total);
    }
    scratch_free(&s);
    if (status == DPMF_OK) *out = total;
    return status;
}

/* Parts with few steps by all their signs; the others, where the ascent's signs are not proven best, by the bound for vectors. */
static dpmf_status add_columns(int64_t k, const double *x, scratch *s, sensitivity_found *total) {
    for (int64_t i = 0; i < k; i++) {
        sensitivity_found found = {0, DPMF_EXACT, SENSITIVITY_METHOD_NON_NEGATIVE};
        if (s->colour[i] != 0) continue;
        const part p = collect(k, x, i, s);
        if (p.balanced || p.k > SENSITIVITY_SIGNS_MAX)
            TRY(add_part(&p, s, &found));
        else
            found = (sensitivity_found){best_signs(&p, s->signs), DPMF_EXACT, SENSITIVITY_METHOD_ONE_COLUMN};
        add(total, found.square, found.kind,
            found.kind == DPMF_EXACT ? found.method : SENSITIVITY_METHOD_ONE_COLUMN_BOUND);
    }
    return DPMF_OK;
}

dpmf_status sensitivity_pattern_column(int64_t k, const double *x, double enough, sensitivity_found *out) {
    sensitivity_found total = {0, DPMF_EXACT, SENSITIVITY_METHOD_NON_NEGATIVE}, vectors;
    double trace =
        0; /* the mean over all signs: where it is nearly the bound for vectors, no signs are worth a search */
    scratch s;
    for (int64_t i = 0; i < k; i++)
        trace += x[i * k + i];
    TRY(sensitivity_pattern_evaluate(k, x, DPMF_BOUND_AUTO, &vectors));
    if (vectors.kind == DPMF_EXACT || vectors.square <= enough || vectors.square <= trace * (1 + OPEN_MAX)) {
        *out = vectors;
        return DPMF_OK;
    }
    TRY(scratch_make(k, &s));
    dpmf_status status = add_columns(k, x, &s, &total);
    scratch_free(&s);
    if (status == DPMF_OK) *out = total.square < vectors.square ? total : vectors;
    return status;
}

/*
 * f(X) = max { sum_ij X_ij <g_i,g_j> : |g_i| <= 1 } for one pattern, numerically, from both sides. For vectors of k or
 * more dimensions f is the semidefinite program max { <X,Y> : Y psd, Y_ii = 1 }, with the dual
 * min { sum d : Diag(d) - X psd }.
 *
 *     below   block ascent: g_i <- the unit vector along sum_{j != i} X_ij g_j, in turn. In sqrt(2k) dimensions and
 *             more it has, for almost all X, no maxima but the global ones (Boumal, Voroninski and Bandeira 2016).
 *     above   d_i = <g_i, (XG)_i> is dual feasible at the optimum. Wherever the ascent was stopped,
 *             d + max(0, -lambda), lambda the least eigenvalue of Diag(d) - X, is feasible: f <= sum d + k max(0, -lambda).
 *
 * The bound above is never worse than that of the largest eigenvalue once the ascent has converged, needs no
 * convergence to be valid, and holds for vectors of any dimension.
 */

enum { SWEEPS_MAX = 2000, SWEEPS_MIN = 5 };
static const double ASCENT_WORK = 4e9; /* multiplications: seconds, for the largest patterns */
static const double GAIN_MIN = 1e-16;  /* of a sweep: the bound above is off by its square root */

static int64_t dimensions(int64_t k) {
    return (int64_t)ceil(sqrt(2 * (double)k)) + 1;
}

/* The vectors, one more of them for the new direction, k numbers d and the value of every sweep's end. */
int64_t sensitivity_ascent_room(int64_t k) {
    return (k + 1) * dimensions(k) + 2 * k;
}

/* Makes it a unit vector; 0 if it is zero. */
static double normalize(int64_t r, double *g) {
    double norm = base_norm(r, g);
    for (int64_t a = 0; a < r && norm > 0; a++)
        g[a] /= norm;
    return norm;
}

/* sum_j X_ij g_j over j != i. */
static void pull(int64_t k, int64_t r, const double *x, const double *g, int64_t i, double *out) {
    memset(out, 0, (size_t)r * sizeof *out);
    for (int64_t j = 0; j < k; j++) {
        double weight = x[i * k + j];
        if (j == i || weight == 0) continue;
        for (int64_t a = 0; a < r; a++)
            out[a] += weight * g[j * r + a];
    }
}

/* One turn of all vectors; `gain` is what the value rose by, relative to its part from the pulls. */
static double sweep(int64_t k, int64_t r, const double *x, double *g, double *fresh) {
    double value = 0, gain = 0;
    for (int64_t i = 0; i < k; i++) {
        pull(k, r, x, g, i, fresh);
        double along = base_dot(r, g + i * r, fresh), norm = normalize(r, fresh);
        if (norm > 0) memcpy(g + i * r, fresh, (size_t)r * sizeof *g);
        value += norm;
        gain += norm - along;
    }
    return value > 0 ? gain / value : 0;
}

/* Least eigenvalue of a symmetric matrix, less what rounding may have added to it. `a` is destroyed. */
static dpmf_status least_eigenvalue(int64_t k, double *a, double *values, double *out) {
    double slack = 8 * (double)(k + 4) * DBL_EPSILON * base_norm(k * k, a); /* backward error of a stable method */
    TRY(base_symmetric_eigen(k, a, values));
    *out = values[0] - slack;
    return DPMF_OK;
}

dpmf_status sensitivity_pattern_spectral(int64_t k, const double *x, double *work, double *out) {
    double least = 0;
    for (int64_t i = 0; i < k * k; i++)
        work[i] = -x[i];
    TRY(least_eigenvalue(k, work, work + k * k, &least));
    *out = least < 0 ? -least * (double)k : 0;
    return DPMF_OK;
}

dpmf_status sensitivity_cover(int64_t k, int64_t r, int64_t sweeps, const double *x, double *g, double *work, double *d,
                              double *low, double *high) {
    double *fresh = g + k * r, *values = d + k, least = 0;
    base_running sum = {0};
    for (int64_t s = 0; s < sweeps; s++)
        if (sweep(k, r, x, g, fresh) <= GAIN_MIN) break;
    for (int64_t i = 0; i < k; i++) {
        pull(k, r, x, g, i, fresh);
        d[i] = x[i * k + i] + base_dot(r, g + i * r, fresh);
        base_running_add(&sum, d[i]);
    }
    for (int64_t i = 0; i < k * k; i++)
        work[i] = -x[i];
    for (int64_t i = 0; i < k; i++)
        work[i * k + i] += d[i];
    TRY(least_eigenvalue(k, work, values, &least));
    for (int64_t i = 0; i < k; i++)
        d[i] += least < 0 ? -least : 0;
    *low = base_running_value(&sum);
    *high = *low + (least < 0 ? -least * (double)k : 0);
    return DPMF_OK;
}

dpmf_status sensitivity_ascent(int64_t k, const double *x, double *work, double *vectors, double *u, double *low,
                               double *high) {
    const int64_t r = dimensions(k);
    double *g = vectors;
    uint64_t state = 1; /* the same start on every machine */
    for (int64_t i = 0; i < k; i++) {
        for (int64_t a = 0; a < r; a++)
            g[i * r + a] = base_scatter(&state);
        normalize(r, g + i * r);
    }
    const double budget = ASCENT_WORK / ((double)k * (double)k * (double)r);
    const int64_t sweeps = (int64_t)fmax(SWEEPS_MIN, fmin(budget, SWEEPS_MAX));
    TRY(sensitivity_cover(k, r, sweeps, x, g, work, g + (k + 1) * r, low, high));
    for (int64_t i = 0; i < k; i++)
        u[i] = base_dot(r, g, g + i * r) < 0 ? -1 : 1;
    return DPMF_OK;
}
