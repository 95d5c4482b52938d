/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolution and the inverse of a power series.
 *
 * Convolution, out_i = sum_j a_j b_{i-j}. Term by term where the shorter factor is short; otherwise the longer factor
 * is cut into pieces, each convolved with the shorter one by a Fourier transform, and the results added where they
 * overlap (Stockham 1966). A transform as long as a few times the shorter factor does less work than one of the whole
 * length and stays in a cache; two factors of like length make one piece. The error of the transforms is relative to
 * the largest of |a| |b| (Euclidean norms): about 1e-16 sqrt(log N) times that in every term, small terms included.
 *
 * Inverse of a power series, g = 1/a modulo x^n, by Newton's iteration (Sieveking 1972; Kung 1974): with g correct to m
 * terms, and m <= n <= 2m,
 *
 *     a g = 1 + x^m e  (mod x^n),    1/a = g - x^m (g e)  (mod x^n).
 *
 * a g has fewer than m + n terms, so that a cyclic product of length N >= n folds only terms n.. onto terms below m,
 * which are known to be 1, 0, 0, ...: transforms of the length of the answer are enough, five per doubling. A short a
 * is inverted by its recursion, which is exact up to rounding of each step.
 */
#include "base/fft.h"

#include "base/memory.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    DIRECT_TERMS = 64, /* factors up to this length are convolved term by term */
    CHUNK = 2048       /* terms of the answer done at once: with their sources, half a level-1 cache */
};

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t power_of_two_from(int64_t least) {
    int64_t power = 2;
    while (power < least) {
        power *= 2;
    }
    return power;
}

/* out_i = sum_j s_j l_{i-j} for i < count; s the shorter factor. */
static void convolve_direct(int64_t s_count, const double *s, int64_t l_count, const double *l, int64_t count,
                            double *restrict out) {
    for (int64_t first = 0; first < count; first += CHUNK) {
        const int64_t last = smaller(first + CHUNK, count);
        memset(out + first, 0, (size_t)(last - first) * sizeof(double));
        for (int64_t j = 0; j < s_count; j++) {
            const int64_t end = smaller(last, j + l_count);
            for (int64_t i = larger(first, j); i < end; i++) {
                out[i] += s[j] * l[i - j];
            }
        }
    }
}

/*
 * The transform's length for a shorter factor of s terms and a longer one of l. For pieces, 8 s: the work per term of
 * the answer, N log N / (N - s), is within a few percent of its least there and the transforms are still small.
 */
static int64_t transform_length(int64_t s_count, int64_t l_count) {
    const int64_t whole = power_of_two_from(s_count + l_count - 1);
    return smaller(whole, power_of_two_from(8 * s_count));
}

/*
 * Is term by term cheaper? It does up to s x count multiplications; the transforms, two per piece, and their table take
 * about as long as 2 N log2 N of them (measured, N from 2^8 to 2^20).
 */
static int direct_is_cheaper(int64_t s_count, int64_t l_count, int64_t count) {
    if (s_count <= DIRECT_TERMS) return 1;
    const double n = (double)transform_length(s_count, l_count);
    const double pieces = ceil((double)l_count / (n - (double)s_count + 1));
    return (double)s_count * (double)count <= 2 * n * log2(n) * pieces;
}

static dpmf_status convolve_by_transform(int64_t s_count, const double *s, int64_t l_count, const double *l,
                                         int64_t count, double *out) {
    const int64_t length = transform_length(s_count, l_count);
    const int64_t step = length - s_count + 1;
    const int same = s == l && s_count == l_count && step >= l_count; /* a square: one spectrum is enough */
    base_fft *fft = NULL;
    double *spectrum = NULL, *piece = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_fft_create(length, &fft));
    TRY_DONE(base_alloc_doubles(length, "a piece of a convolution", &piece));
    if (!same) {
        TRY_DONE(base_alloc_doubles(length, "the spectrum of a convolution", &spectrum));
        memcpy(spectrum, s, (size_t)s_count * sizeof(double));
        base_fft_forward_unordered(fft, length, spectrum);
    }
    memset(out, 0, (size_t)count * sizeof(double));
    for (int64_t first = 0; first < l_count && first < count; first += step) {
        const int64_t terms = smaller(step, l_count - first);
        memcpy(piece, l + first, (size_t)terms * sizeof(double));
        memset(piece + terms, 0, (size_t)(length - terms) * sizeof(double));
        base_fft_forward_unordered(fft, length, piece);
        base_fft_multiply(length, piece, same ? piece : spectrum);
        base_fft_inverse_unordered(fft, length, piece);
        const int64_t end = smaller(terms + s_count - 1, count - first);
        for (int64_t i = 0; i < end; i++) {
            out[first + i] += piece[i];
        }
    }
done:
    base_free(spectrum);
    base_free(piece);
    base_fft_free(fft);
    return status;
}

dpmf_status base_convolve(int64_t a_count, const double *a, int64_t b_count, const double *b, int64_t count,
                          double *out) {
    assert(a_count >= 0 && b_count >= 0 && count >= 0);
    const int64_t a_used = smaller(a_count, count), b_used = smaller(b_count, count);
    const int64_t filled = a_used == 0 || b_used == 0 ? 0 : smaller(count, a_used + b_used - 1);
    const double *s = a_used <= b_used ? a : b, *l = a_used <= b_used ? b : a;
    const int64_t s_count = smaller(a_used, b_used), l_count = larger(a_used, b_used);
    if (direct_is_cheaper(s_count, l_count, filled))
        convolve_direct(s_count, s, l_count, l, filled, out);
    else
        TRY(convolve_by_transform(s_count, s, l_count, l, filled, out));
    if (filled < count) memset(out + filled, 0, (size_t)(count - filled) * sizeof(double));
    return DPMF_OK;
}

/* g_i = ([i = 0] - sum_{j>0} a_j g_{i-j}) / a_0. */
static void invert_by_recursion(int64_t a_count, const double *a, int64_t count, double *g) {
    g[0] = 1 / a[0];
    for (int64_t i = 1; i < count; i++) {
        double sum = 0;
        for (int64_t j = smaller(i, a_count - 1); j > 0; j--) {
            sum += a[j] * g[i - j];
        }
        g[i] = -sum / a[0];
    }
}

/* From m correct terms of g to n, m < n <= 2m; two buffers of `length` numbers, length >= n a power of two. */
static void newton_step(const base_fft *fft, int64_t length, int64_t a_count, const double *a, int64_t m, int64_t n,
                        double *g, double *g_hat, double *work) {
    const int64_t a_used = smaller(a_count, n);
    memcpy(g_hat, g, (size_t)m * sizeof(double));
    memset(g_hat + m, 0, (size_t)(length - m) * sizeof(double));
    base_fft_forward_unordered(fft, length, g_hat);

    memcpy(work, a, (size_t)a_used * sizeof(double));
    memset(work + a_used, 0, (size_t)(length - a_used) * sizeof(double));
    base_fft_forward_unordered(fft, length, work);
    base_fft_multiply(length, work, g_hat);
    base_fft_inverse_unordered(fft, length, work);

    memmove(work, work + m, (size_t)(n - m) * sizeof(double)); /* e */
    memset(work + (n - m), 0, (size_t)(length - (n - m)) * sizeof(double));
    base_fft_forward_unordered(fft, length, work);
    base_fft_multiply(length, work, g_hat);
    base_fft_inverse_unordered(fft, length, work);
    for (int64_t i = m; i < n; i++) {
        g[i] = -work[i - m];
    }
}

static dpmf_status invert_by_newton(int64_t a_count, const double *a, int64_t count, double *g) {
    const int64_t longest = power_of_two_from(count);
    base_fft *fft = NULL;
    double *g_hat = NULL, *work = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_fft_create(longest, &fft));
    TRY_DONE(base_alloc_doubles(longest, "the inverse of a power series", &g_hat));
    TRY_DONE(base_alloc_doubles(longest, "the inverse of a power series", &work));

    /*
     * Lengths are count/2^k rounded up, so that the last step, the most expensive one, ends at count and not past it.
     */
    int halvings = 0;
    while ((count - 1) >> halvings >= DIRECT_TERMS) {
        halvings++;
    }
    int64_t m = ((count - 1) >> halvings) + 1;
    invert_by_recursion(a_count, a, m, g);
    while (halvings-- > 0) {
        const int64_t n = ((count - 1) >> halvings) + 1;
        newton_step(fft, power_of_two_from(n), a_count, a, m, n, g, g_hat, work);
        m = n;
    }
    assert(m == count);
done:
    base_free(work);
    base_free(g_hat);
    base_fft_free(fft);
    return status;
}

dpmf_status base_series_inverse(int64_t a_count, const double *a, int64_t count, double *out) {
    assert(a_count >= 0 && count >= 0);
    if (a_count == 0 || a[0] == 0) {
        return base_fail(DPMF_ERROR_NUMERICAL, "a power series whose first term is 0 has no inverse");
    }
    for (int64_t i = 0; i < a_count && (i < count || i == 0); i++) {
        if (!isfinite(a[i])) {
            return base_fail(DPMF_ERROR_NUMERICAL,
                             "term %" PRId64 " of a power series to be inverted is %g: it must be finite", i, a[i]);
        }
    }
    if (count == 0) return DPMF_OK;
    double *g = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(count, "the inverse of a power series", &g));
    if (a_count <= DIRECT_TERMS || count <= DIRECT_TERMS)
        invert_by_recursion(a_count, a, count, g);
    else
        TRY_DONE(invert_by_newton(a_count, a, count, g));
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(g[i])) continue;
        status = base_fail(DPMF_ERROR_NUMERICAL,
                           "the first %" PRId64 " terms of the inverse of a power series pass "
                           "the range of a double",
                           count);
        goto done;
    }
    memcpy(out, g, (size_t)count * sizeof(double));
done:
    base_free(g);
    return status;
}
