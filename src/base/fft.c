/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real fast Fourier transform of power-of-two length N.
 *
 * We wrote our own because FFTW is GPL, and the KissFFT that distributions ship is single precision. Powers of two are
 * all that accounting and Toeplitz products need.
 *
 * Notation: M = N/2; z_j = x_{2j} + i x_{2j+1}, j < M, the real numbers taken in pairs; phi(b) = sum_i b_i 2^-(i+1)
 * for b = sum_i b_i 2^i, the bits of b mirrored at the point (van der Corput's sequence).
 *
 * The complex transform evaluates z(x) = sum_j z_j x^j at the M-th roots of unity by remainders (Fiduccia 1972;
 * Bernstein 2001, "Multidigit multiplication for mathematicians", Section 3): block b holds the remainder modulo
 * x^2m - r^2, which splits into those modulo x^m - r (block 2b) and x^m + r (block 2b+1):
 *
 *     (lo, hi) -> (lo + r hi, lo - r hi),    r = exp(-pi i phi(b)),
 *
 * with the same r for the whole block, two such steps at a time (radix 4). It ends with Z_k in slot j, k = M phi(j).
 * The reason for this route: r depends on b alone, not on the level, so one table in the order of phi serves every
 * level and every shorter transform, and is read in sequence; each block is finished before the next is begun, so a
 * block that fits in a cache stays there; nothing but the table is allocated. The table comes from sine and cosine of
 * angles below pi/4, not from a recurrence, which keeps the error near 1e-16 sqrt(log N).
 *
 * The real spectrum (Cooley, Lewis and Welch 1970) is, with E = (Z_k + conj Z_{M-k})/2, O = (Z_k - conj Z_{M-k})/2i,
 *
 *     X_k = E + exp(-pi i k/M) O,    X_{M-k} = conj(E - exp(-pi i k/M) O),
 *
 * and is formed in slot order too, where exp(-pi i k/M) = exp(-pi i phi(j)) is in the table and the partner of slot
 * j in [h, 2h), h a power of two, is slot 3h-1-j. A convolution needs no other order; the ordered transforms then move
 * the slots to their places.
 */
#include "base/fft.h"
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct complex_number {
    double re, im;
} complex_number;

struct base_fft {
    int64_t length;
    complex_number *roots; /* roots[b] = exp(-pi i phi(b) / 2), which is the r of block 2b */
};

enum {
    CACHED = 1024, /* complex numbers in a block that is worked on level by level: 16 KiB, half a level-1 cache */
    TILE_BITS = 5, /* the permutation moves tiles of 32 x 32 slots: 512 consecutive bytes per row */
    TILE = 1 << TILE_BITS
};

static inline complex_number add(complex_number a, complex_number b) {
    return (complex_number){a.re + b.re, a.im + b.im};
}

static inline complex_number sub(complex_number a, complex_number b) {
    return (complex_number){a.re - b.re, a.im - b.im};
}

static inline complex_number mul(complex_number a, complex_number b) {
    return (complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static inline complex_number conjugate(complex_number a) {
    return (complex_number){a.re, -a.im};
}

static inline complex_number times_i(complex_number a) {
    return (complex_number){-a.im, a.re};
}

/* The r of block b; phi(2c+1) = phi(2c) + 1/2, so that an odd block has -i times the r of its neighbour. */
static inline complex_number root(const complex_number *roots, int64_t b) {
    const complex_number r = roots[b >> 1];
    return b & 1 ? (complex_number){r.im, -r.re} : r;
}

static uint64_t reverse_bits(uint64_t x) {
    x = (x & 0x5555555555555555u) << 1 | (x >> 1 & 0x5555555555555555u);
    x = (x & 0x3333333333333333u) << 2 | (x >> 2 & 0x3333333333333333u);
    x = (x & 0x0F0F0F0F0F0F0F0Fu) << 4 | (x >> 4 & 0x0F0F0F0F0F0F0F0Fu);
    x = (x & 0x00FF00FF00FF00FFu) << 8 | (x >> 8 & 0x00FF00FF00FF00FFu);
    x = (x & 0x0000FFFF0000FFFFu) << 16 | (x >> 16 & 0x0000FFFF0000FFFFu);
    return x << 32 | x >> 32;
}

static int log2_of(int64_t power) {
    int bits = 0;
    while (power >> bits > 1)
        bits++;
    return bits;
}

/* exp(-pi i phi / 2) for 0 <= phi < 1, a dyadic number, from an angle of at most pi/4. */
static complex_number compute_root(double phi) {
    static const double half_pi = 1.57079632679489661923;
    if (phi <= 0.5) return (complex_number){cos(half_pi * phi), -sin(half_pi * phi)};
    return (complex_number){sin(half_pi * (1 - phi)), -cos(half_pi * (1 - phi))};
}

/* phi(3h-1-b) = 1 - phi(b) for b in [h, 2h): half of the table is the mirror image of the other half. */
static void fill_roots(int64_t count, complex_number *roots) {
    roots[0] = (complex_number){1, 0};
    for (int64_t h = 1; h < count; h *= 2) {
        for (int64_t b = h; b < h + (h + 1) / 2 && b < count; b++) {
            const complex_number r = compute_root(ldexp((double)reverse_bits((uint64_t)b), -64));
            const int64_t mirror = 3 * h - 1 - b;
            roots[b] = r;
            if (mirror < count) roots[mirror] = (complex_number){-r.im, -r.re};
        }
    }
}

dpmf_status base_fft_create(int64_t length, base_fft **out) {
    if (length < 2 || length > (int64_t)1 << 40 || (length & (length - 1)) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a Fourier transform of length %" PRId64 ": a power of two from 2 to 2^40 is needed", length);
    /* The transform reads roots below M/4; forming the real spectrum reads those of slots below 3M/4. */
    const int64_t count = (3 * (length / 2) + 7) / 8;
    void *memory = NULL, *roots = NULL;
    dpmf_status status = base_alloc(1, sizeof(base_fft), "a Fourier transform", &memory);
    if (status != DPMF_OK) return status;
    TRY_DONE(base_alloc(count, sizeof(complex_number), "the roots of unity of a Fourier transform", &roots));
    fill_roots(count, roots);
    base_fft *fft = memory;
    fft->length = length;
    fft->roots = roots;
    memory = NULL;
    *out = fft;
done:
    base_free(memory);
    return status;
}

void base_fft_free(base_fft *fft) {
    if (fft == NULL) return;
    base_free(fft->roots);
    base_free(fft);
}

int64_t base_fft_length(const base_fft *fft) {
    return fft->length;
}

/* Two levels of block b: its quarters become blocks 4b .. 4b+3. With u_j = w_j z_j, w_1 = r_2b, w_2 = w_1^2 = r_b. */
static void split_block(const complex_number *roots, int64_t quarter, int64_t b, complex_number *z) {
    const complex_number w1 = roots[b], w2 = root(roots, b), w3 = mul(w1, w2);
    complex_number *z0 = z, *z1 = z0 + quarter, *z2 = z1 + quarter, *z3 = z2 + quarter;
    for (int64_t j = 0; j < quarter; j++) {
        const complex_number u1 = mul(w1, z1[j]), u2 = mul(w2, z2[j]), u3 = mul(w3, z3[j]);
        const complex_number even = add(z0[j], u2), odd = add(u1, u3);
        const complex_number even2 = sub(z0[j], u2), odd2 = times_i(sub(u3, u1));
        z0[j] = add(even, odd);
        z1[j] = sub(even, odd);
        z2[j] = add(even2, odd2);
        z3[j] = sub(even2, odd2);
    }
}

/* Undoes split_block, but for a factor of 4. */
static void merge_block(const complex_number *roots, int64_t quarter, int64_t b, complex_number *z) {
    const complex_number w1 = roots[b], w2 = root(roots, b), w3 = mul(w1, w2);
    const complex_number v1 = conjugate(w1), v2 = conjugate(w2), v3 = conjugate(w3);
    complex_number *z0 = z, *z1 = z0 + quarter, *z2 = z1 + quarter, *z3 = z2 + quarter;
    for (int64_t j = 0; j < quarter; j++) {
        const complex_number even = add(z0[j], z1[j]), odd = sub(z0[j], z1[j]);
        const complex_number even2 = add(z2[j], z3[j]), odd2 = times_i(sub(z2[j], z3[j]));
        z0[j] = add(even, even2);
        z1[j] = mul(v1, add(odd, odd2));
        z2[j] = mul(v2, sub(even, even2));
        z3[j] = mul(v3, sub(odd, odd2));
    }
}

/* All levels of block b, which has m numbers, m a power of four. */
static void split_all(const complex_number *roots, int64_t m, int64_t b, complex_number *z) {
    const int64_t quarter = m / 4;
    if (m > CACHED) {
        split_block(roots, quarter, b, z);
        for (int64_t c = 0; c < 4; c++)
            split_all(roots, quarter, 4 * b + c, z + c * quarter);
        return;
    }
    for (int64_t q = quarter, blocks = 1; q > 0; q /= 4, blocks *= 4)
        for (int64_t c = 0; c < blocks; c++)
            split_block(roots, q, b * blocks + c, z + 4 * q * c);
}

static void merge_all(const complex_number *roots, int64_t m, int64_t b, complex_number *z) {
    const int64_t quarter = m / 4;
    if (m > CACHED) {
        for (int64_t c = 0; c < 4; c++)
            merge_all(roots, quarter, 4 * b + c, z + c * quarter);
        merge_block(roots, quarter, b, z);
        return;
    }
    for (int64_t q = 1, blocks = quarter; blocks > 0; q *= 4, blocks /= 4)
        for (int64_t c = 0; c < blocks; c++)
            merge_block(roots, q, b * blocks + c, z + 4 * q * c);
}

/* The level of block 0 alone, r = 1, where M is twice a power of four; its own inverse but for a factor of 2. */
static void halve(int64_t half, complex_number *z) {
    for (int64_t j = 0; j < half; j++) {
        const complex_number lo = z[j], hi = z[j + half];
        z[j] = add(lo, hi);
        z[j + half] = sub(lo, hi);
    }
}

/* x to its spectrum in slot order: [X_0, X_M] in slot 0, X_k with k = M phi(j) in slot j. */
void base_fft_forward_unordered(const base_fft *fft, int64_t length, double *data) {
    assert(length >= 2 && length <= fft->length && (length & (length - 1)) == 0);
    const complex_number *roots = fft->roots;
    const int64_t m = length / 2;
    complex_number *z = (complex_number *)data;
    if (log2_of(m) % 2 == 0) {
        split_all(roots, m, 0, z);
    } else {
        halve(m / 2, z);
        split_all(roots, m / 2, 0, z);
        split_all(roots, m / 2, 1, z + m / 2);
    }
    z[0] = (complex_number){z[0].re + z[0].im, z[0].re - z[0].im};
    if (m > 1) z[1] = conjugate(z[1]); /* slot 1 is k = M/2, its own partner */
    for (int64_t h = 2; h < m; h *= 2) {
        for (int64_t j = h, partner = 2 * h - 1; j < partner; j++, partner--) {
            const complex_number a = z[j], b = conjugate(z[partner]);
            const complex_number even = add(a, b), odd = mul(root(roots, j), times_i(sub(b, a)));
            z[j] = (complex_number){0.5 * (even.re + odd.re), 0.5 * (even.im + odd.im)};
            z[partner] = (complex_number){0.5 * (even.re - odd.re), 0.5 * (odd.im - even.im)};
        }
    }
}

/* Undoes it. The factors of the levels and of E and O make N in all. */
void base_fft_inverse_unordered(const base_fft *fft, int64_t length, double *data) {
    assert(length >= 2 && length <= fft->length && (length & (length - 1)) == 0);
    const complex_number *roots = fft->roots;
    const int64_t m = length / 2;
    const double s = 1 / (double)length; /* a power of two: exact */
    complex_number *z = (complex_number *)data;
    z[0] = (complex_number){s * (z[0].re + z[0].im), s * (z[0].re - z[0].im)};
    if (m > 1) z[1] = (complex_number){2 * s * z[1].re, -2 * s * z[1].im};
    for (int64_t h = 2; h < m; h *= 2) {
        for (int64_t j = h, partner = 2 * h - 1; j < partner; j++, partner--) {
            const complex_number a = z[j], b = conjugate(z[partner]);
            const complex_number even = add(a, b), odd = times_i(mul(conjugate(root(roots, j)), sub(a, b)));
            z[j] = (complex_number){s * (even.re + odd.re), s * (even.im + odd.im)};
            z[partner] = (complex_number){s * (even.re - odd.re), s * (odd.im - even.im)};
        }
    }
    if (log2_of(m) % 2 == 0) {
        merge_all(roots, m, 0, z);
    } else {
        merge_all(roots, m / 2, 0, z);
        merge_all(roots, m / 2, 1, z + m / 2);
        halve(m / 2, z);
    }
}

/* Copies the tile of slots (row, middle, column) to its place in (mirrored column, middle, mirrored row). */
static void load_tile(const complex_number *z, int64_t row_step, complex_number tile[TILE][TILE]) {
    for (int64_t row = 0; row < TILE; row++) {
        const uint64_t to_column = reverse_bits((uint64_t)row) >> (64 - TILE_BITS);
        for (int64_t column = 0; column < TILE; column++) {
            const uint64_t to_row = reverse_bits((uint64_t)column) >> (64 - TILE_BITS);
            tile[to_row][to_column] = z[row * row_step + column];
        }
    }
}

static void store_tile(complex_number tile[TILE][TILE], int64_t row_step, complex_number *z) {
    for (int64_t row = 0; row < TILE; row++)
        memcpy(z + row * row_step, tile[row], TILE * sizeof(complex_number));
}

/* Slot j changes places with slot M phi(j), in tiles of 32 x 32 so that cache lines are used whole (Carter and Gatlin 1998). */
static void permute(int64_t m, complex_number *z) {
    const int bits = log2_of(m);
    if (bits < 2 * TILE_BITS) {
        for (int64_t j = 1; j < m; j++) {
            const int64_t k = (int64_t)(reverse_bits((uint64_t)j) >> (64 - bits));
            if (j >= k) continue;
            const complex_number kept = z[j];
            z[j] = z[k];
            z[k] = kept;
        }
        return;
    }
    const int middle_bits = bits - 2 * TILE_BITS;
    const int64_t row_step = m / TILE;
    complex_number here[TILE][TILE], there[TILE][TILE];
    for (int64_t j = 0; j < (int64_t)1 << middle_bits; j++) {
        const int64_t k = middle_bits == 0 ? 0 : (int64_t)(reverse_bits((uint64_t)j) >> (64 - middle_bits));
        if (j > k) continue;
        load_tile(z + j * TILE, row_step, here);
        if (j < k) {
            load_tile(z + k * TILE, row_step, there);
            store_tile(there, row_step, z + j * TILE);
        }
        store_tile(here, row_step, z + k * TILE);
    }
}

void base_fft_forward(const base_fft *fft, double *data) {
    base_fft_forward_unordered(fft, fft->length, data);
    permute(fft->length / 2, (complex_number *)data);
}

/*
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
    while (power < least)
        power *= 2;
    return power;
}

/* Pieces take N = 8 s: the work per term, N log N / (N - s), is within a few percent of its least and transforms are small. */
static int64_t transform_length(int64_t s_count, int64_t l_count) {
    return smaller(power_of_two_from(s_count + l_count - 1), power_of_two_from(8 * s_count));
}

/* Transforms, two per piece, and their table take about as long as 2 N log2 N multiplications (measured, N = 2^8 to 2^20). */
static int direct_is_cheaper(int64_t s_count, int64_t l_count, int64_t count) {
    if (s_count <= DIRECT_TERMS) return 1;
    const double n = (double)transform_length(s_count, l_count);
    const double pieces = ceil((double)l_count / (n - (double)s_count + 1));
    return (double)s_count * (double)count <= 2 * n * log2(n) * pieces;
}

/* a = a * b pointwise for two packed spectra; b may be a. */
static void multiply_spectra(int64_t length, double *a, const double *b) {
    a[0] *= b[0];
    a[1] *= b[1];
    for (int64_t j = 2; j < length; j += 2) {
        const double re = a[j] * b[j] - a[j + 1] * b[j + 1];
        a[j + 1] = a[j] * b[j + 1] + a[j + 1] * b[j];
        a[j] = re;
    }
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
        multiply_spectra(length, piece, same ? piece : spectrum);
        base_fft_inverse_unordered(fft, length, piece);
        const int64_t end = smaller(terms + s_count - 1, count - first);
        for (int64_t i = 0; i < end; i++)
            out[first + i] += piece[i];
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
    if (direct_is_cheaper(s_count, l_count, filled)) {
        /* out_i = sum_j s_j l_{i-j} for i < count; s the shorter factor. */
        for (int64_t first = 0; first < filled; first += CHUNK) {
            const int64_t last = smaller(first + CHUNK, filled);
            memset(out + first, 0, (size_t)(last - first) * sizeof(double));
            for (int64_t j = 0; j < s_count; j++) {
                const int64_t end = smaller(last, j + l_count);
                for (int64_t i = larger(first, j); i < end; i++)
                    out[i] += s[j] * l[i - j];
            }
        }
    } else
        TRY(convolve_by_transform(s_count, s, l_count, l, filled, out));
    if (filled < count) memset(out + filled, 0, (size_t)(count - filled) * sizeof(double));
    return DPMF_OK;
}

/* g_i = ([i = 0] - sum_{j>0} a_j g_{i-j}) / a_0. */
static void invert_by_recursion(int64_t a_count, const double *a, int64_t count, double *g) {
    g[0] = 1 / a[0];
    for (int64_t i = 1; i < count; i++) {
        double sum = 0;
        for (int64_t j = smaller(i, a_count - 1); j > 0; j--)
            sum += a[j] * g[i - j];
        g[i] = -sum / a[0];
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

    /* Lengths are count/2^k rounded up, so that the last step, the most expensive one, ends at count and not past it. */
    int halvings = 0;
    while ((count - 1) >> halvings >= DIRECT_TERMS)
        halvings++;
    int64_t m = ((count - 1) >> halvings) + 1;
    invert_by_recursion(a_count, a, m, g);
    while (halvings-- > 0) {
        const int64_t n = ((count - 1) >> halvings) + 1;
        /* From m correct terms of g to n, m < n <= 2m; two buffers of `length` numbers, length >= n a power of two. */
        int64_t length = power_of_two_from(n);
        const int64_t a_used = smaller(a_count, n);
        memcpy(g_hat, g, (size_t)m * sizeof(double));
        memset(g_hat + m, 0, (size_t)(length - m) * sizeof(double));
        base_fft_forward_unordered(fft, length, g_hat);

        memcpy(work, a, (size_t)a_used * sizeof(double));
        memset(work + a_used, 0, (size_t)(length - a_used) * sizeof(double));
        base_fft_forward_unordered(fft, length, work);
        multiply_spectra(length, work, g_hat);
        base_fft_inverse_unordered(fft, length, work);

        memmove(work, work + m, (size_t)(n - m) * sizeof(double)); /* e */
        memset(work + (n - m), 0, (size_t)(length - (n - m)) * sizeof(double));
        base_fft_forward_unordered(fft, length, work);
        multiply_spectra(length, work, g_hat);
        base_fft_inverse_unordered(fft, length, work);
        for (int64_t i = m; i < n; i++)
            g[i] = -work[i - m];
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
    if (a_count == 0 || a[0] == 0)
        return base_fail(DPMF_ERROR_NUMERICAL, "a power series whose first term is 0 has no inverse");
    for (int64_t i = 0; i < a_count && (i < count || i == 0); i++) {
        if (!isfinite(a[i]))
            return base_fail(DPMF_ERROR_NUMERICAL,
                             "term %" PRId64 " of a power series to be inverted is %g: it must be finite", i, a[i]);
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
