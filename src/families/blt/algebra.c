/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BLT parameters, their inverse, and sums over n steps in closed form. With s = 1 - x the generating function is
 *
 *     C = 1 - sum_i alpha_i / (z - g_i),   z = 1 - 1/x,
 *
 * whose zeros in z are the gaps h_j of the inverse C^-1 = BLT(-a, 1 - h) (Pillutla et al. 2025, Lemma 2.16). For
 * alpha > 0 there is one zero right of each pole. Each is found by bisection as an offset from its nearest pole, as
 * LAPACK's dlaed4 does, so that differences of poles and zeros keep their digits; for the way back the function is
 *
 *     C^-1 = total - z sum_j (a_j/h_j) / (h_j - z)
 *
 * since the first zero lies next to z = 0, where 1 - sum_j a_j/h_j has lost all its digits. The scales follow from the
 * differences (Lemma 4.13), not from the slope at each zero: where a zero is next to a pole only the products belong
 * together (Gu and Eisenstat 1994), and sum_j a_j/h_j = 1 - total.
 *
 * Sums (Lemma 2.29). The first column of A C^-1 for prefix sums, by partial fractions of C^-1(x)/(1-x), is
 *
 *     b_t = beta_0 + sum_j beta_j (1-h_j)^t,   beta_0 = C^-1(1),   beta_j = a_j/h_j,   all positive,
 *
 * so that the sums of b_t^2 and (n-t) b_t^2 are sums of positive terms. The lemma's own terms, of size n and n^2,
 * cancel down to ln n, which costs all digits at n = 10^9. Several participations (Eq. 3.25): between two of them the
 * sum of the columns is again a sum of d exponentials.
 */
#include "families/blt/blt.h"

#include "base/special.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { MAX = BLT_MAX };

blt_parameters blt_make(int count, const double *scale, const double *gap) {
    blt_parameters c = {.count = count, .total = 1};
    for (int i = 0; i < count; i++) {
        c.scale[i] = scale[i];
        c.gap[i] = gap[i];
        c.total += scale[i] / gap[i];
    }
    return c;
}

int blt_is_positive(const blt_parameters *c) {
    for (int i = 0; i < c->count; i++) {
        if (!(c->scale[i] > 0)) return 0;
        for (int j = 0; j < i; j++)
            if (c->gap[i] == c->gap[j]) return 0;
    }
    return 1;
}

/* The function whose zeros are wanted, at origin + offset, times the sign that makes it rise between its poles. */
typedef struct secular {
    int count;
    double sign; /* of the scales */
    double pole[MAX], scale[MAX], total;
} secular;

static double secular_value(const secular *f, double origin, double offset) {
    double sum = f->sign > 0 ? 1 : -f->total;
    for (int i = 0; i < f->count; i++) {
        double distance = (origin - f->pole[i]) + offset;
        sum -= f->sign > 0 ? f->scale[i] / distance : f->scale[i] / f->pole[i] * ((origin + offset) / distance);
    }
    return sum;
}

/* The zero between origin and origin + end, where the value has the sign of `end` at the end; as an offset. */
static double secular_zero(const secular *f, double origin, double end) {
    double side = end < 0 ? -1 : 1, low = DBL_MIN, high = fabs(end);
    for (int i = 0; i < 200; i++) {
        double middle = high > 4 * low ? sqrt(low) * sqrt(high) : low + (high - low) / 2;
        if (!(middle > low && middle < high)) break;
        if (side * secular_value(f, origin, side * middle) < 0)
            low = middle;
        else
            high = middle;
    }
    return side * high;
}

/* The zero between two neighbouring poles (or 0 and the first): from the one that is nearer. */
static void zero_between(const secular *f, double left, double right, double *origin, double *offset) {
    double half = (right - left) / 2;
    int near_left = secular_value(f, left, half) >= 0;
    *origin = near_left ? left : right;
    *offset = secular_zero(f, *origin, near_left ? half : -half);
}

static void sort_poles(const blt_parameters *c, secular *f) {
    *f = (secular){.count = c->count, .sign = c->scale[0] > 0 ? 1 : -1, .total = c->total};
    for (int i = 0; i < c->count; i++) {
        int at = i;
        for (; at > 0 && f->pole[at - 1] > c->gap[i]; at--) {
            f->pole[at] = f->pole[at - 1];
            f->scale[at] = f->scale[at - 1];
        }
        f->pole[at] = c->gap[i];
        f->scale[at] = fabs(c->scale[i]);
    }
}

/* Zero j: left of pole j if the scales are negative, else right of it. */
static void find_zero(const secular *f, int j, double *origin, double *offset) {
    if (f->sign < 0) {
        zero_between(f, j == 0 ? 0 : f->pole[j - 1], f->pole[j], origin, offset);
    } else if (j + 1 < f->count) {
        zero_between(f, f->pole[j], f->pole[j + 1], origin, offset);
    } else { /* no pole follows; at the sum of all scales past the last the value is positive */
        double sum = 0;
        for (int i = 0; i < f->count; i++)
            sum += f->scale[i];
        *origin = f->pole[j];
        *offset = secular_zero(f, *origin, sum * (1 + 1e-15 * MAX));
    }
}

blt_parameters blt_invert(const blt_parameters *c) {
    secular f;
    double origin[MAX], offset[MAX];
    blt_parameters out = {.count = c->count, .total = 1};
    assert(c->count >= 1 && c->total > 0);
    sort_poles(c, &f);
    for (int j = 0; j < f.count; j++) {
        find_zero(&f, j, &origin[j], &offset[j]);
        out.gap[j] = origin[j] + offset[j];
        out.total *= f.pole[j] / out.gap[j];
    }
    for (int j = 0; j < f.count; j++) {
        double scale = (origin[j] - f.pole[j]) + offset[j];
        for (int i = 0; i < f.count; i++)
            if (i != j)
                scale *= ((origin[j] - f.pole[i]) + offset[j]) / ((origin[j] - origin[i]) + (offset[j] - offset[i]));
        out.scale[j] = -scale;
    }
    return out;
}

void blt_scales(int count, const double *gap, const double *inverse_gap, double *scale) {
    for (int i = 0; i < count; i++) {
        scale[i] = inverse_gap[i] - gap[i];
        for (int j = 0; j < count; j++)
            if (j != i) scale[i] *= (inverse_gap[j] - gap[i]) / (gap[j] - gap[i]);
    }
}

enum { ANCHOR = 256 }; /* powers by repeated products for this number of steps, then from the logarithm again */

void blt_coefficients(const blt_parameters *c, int64_t count, double *out) {
    double power[MAX];
    for (int64_t t = 0; t < count; t++) {
        double sum = 0;
        for (int i = 0; i < c->count; i++) {
            if (t == 0) continue;
            if (t % ANCHOR == 1)
                power[i] = t == 1 ? c->scale[i] : c->scale[i] * exp((double)(t - 1) * log1p(-c->gap[i]));
            else
                power[i] -= c->gap[i] * power[i];
            sum += power[i];
        }
        out[t] = t == 0 ? 1 : sum;
    }
}

/*
 * sum_k term_k with term_{k+1}/term_k = -y (n-1-k)/(k+more), a polynomial in y that ends at k = n-1, for n y <= 1: the
 * terms alternate and fall at least like 1/k!, from C(n,1) for the sum and C(n+1,2) for the ramp.
 */
static blt_slope binomial_series(double n, double y, double first, double more) {
    blt_slope s = {first, 0};
    double term = first, rise = -first * (n - 1) / more; /* k term_k / y */
    for (int k = 0; k < 40 && (double)k < n - 1; k++) {
        term *= -y * ((n - 1 - k) / (k + more));
        if (k > 0) rise *= -y * ((n - 1 - k) / (k + more)) * (k + 1) / k;
        s.value += term;
        s.slope += rise;
        if (fabs(rise) < 1e-18 * fabs(s.slope)) break;
    }
    return s;
}

/* 1 - y to the power n, for n >= 1 */
static double power_of(double y, double n) {
    return y < 1 ? exp(n * log1p(-y)) : pow(1 - y, n);
}

blt_slope blt_geometric(double n, double y) {
    if (n <= 1) return (blt_slope){n, 0};
    if (n * y <= 1) return binomial_series(n, y, n, 2);
    double value = (y < 1 ? -expm1(n * log1p(-y)) : 1 - power_of(y, n)) / y;
    return (blt_slope){value, (n * power_of(y, n - 1) - value) / y};
}

blt_slope blt_geometric_ramp(double n, double y) {
    if (n <= 1) return (blt_slope){n, 0};
    if (n * y <= 1) return binomial_series(n, y, n * (n + 1) / 2, 3);
    blt_slope g = blt_geometric(n, y);
    double value = (n - (1 - y) * g.value) / y;
    return (blt_slope){value, (g.value - (1 - y) * g.slope - value) / y};
}

/* 1 - (1-g)(1-h), without subtracting from 1. */
static double joint_gap(double g, double h) {
    return g + (1 - g) * h;
}

/*
 * Step r >= 1 of the part after participation j = 0..k-1 (b steps, the last one all that is left) is sum_i a_i lambda_i^(r-1)
 * with a_i = alpha_i (1 + lambda_i past_i), past_i = sum_{m=1..j} lambda_i^(mb-1); step 0 is 1 + sum_i alpha_i past_i.
 */
double blt_pattern_square(const blt_parameters *c, int64_t n, int64_t k, int64_t b) {
    int d = c->count;
    double past[MAX] = {0}, weight[MAX], inner[MAX * MAX] = {0}, total = 0;
    assert(k >= 1 && (k == 1 || (k - 1) * b < n));
    for (int64_t j = 0; j < k; j++) {
        double first = 1, length = (double)(j + 1 < k ? b : n - (k - 1) * b);
        for (int i = 0; i < d; i++) {
            if (j > 0) past[i] += power_of(c->gap[i], (double)(j * b - 1));
            weight[i] = c->scale[i] * (1 + (1 - c->gap[i]) * past[i]);
            first += c->scale[i] * past[i];
        }
        total += first * first;
        for (int i = 0; i < d; i++)
            for (int l = 0; l < d; l++) {
                if (j == 0 || j + 1 == k)
                    inner[i * d + l] = blt_geometric(length - 1, joint_gap(c->gap[i], c->gap[l])).value;
                total += weight[i] * weight[l] * inner[i * d + l];
            }
    }
    return total;
}

/* sum over t of emphasis_t b_t^2, the sum given by its closed form. */
static double response_square(const blt_parameters *inverse, int64_t n, blt_slope (*sum)(double, double)) {
    int d = inverse->count;
    double total = inverse->total * inverse->total * sum((double)n, 0).value;
    for (int i = 0; i < d; i++) {
        double h = inverse->gap[i], beta = -inverse->scale[i] / h;
        total += 2 * inverse->total * beta * sum((double)n, h).value;
        for (int j = 0; j < d; j++)
            total +=
                beta * (-inverse->scale[j] / inverse->gap[j]) * sum((double)n, joint_gap(h, inverse->gap[j])).value;
    }
    return total;
}

double blt_last_row_square(const blt_parameters *inverse, int64_t n) {
    return response_square(inverse, n, blt_geometric);
}

double blt_frobenius_square(const blt_parameters *inverse, int64_t n) {
    return response_square(inverse, n, blt_geometric_ramp);
}

/*
 * With s = 1 - x, s^(-1/2) is nearly sum_j w_j / (s + s_j) = sum_j w_j lambda_j / (1 - lambda_j x), lambda_j = 1/(1 +
 * s_j); divided by its value at x = 0 its constant term is 1.
 */
blt_parameters blt_rational(int count, double range) {
    base_quadrature q;
    double scale[MAX], gap[MAX], sum = 0;
    assert(count >= 1 && count <= MAX && range >= 1);
    base_quadrature_fill(1 / range, 2, count, &q); /* |x| <= 1: s goes from about 1/range to 2 */
    for (int j = 0; j < count; j++)
        sum += q.weight[j] / (1 + q.shift[j]);
    for (int j = 0; j < count; j++) {
        double decay = 1 / (1 + q.shift[j]);
        gap[j] = q.shift[j] * decay;
        scale[j] = q.weight[j] * decay * decay / sum;
    }
    return blt_make(count, scale, gap);
}
