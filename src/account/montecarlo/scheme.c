/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This file treats sampling schemes as mixtures of Gaussians.
 *
 * One example joins some steps: x in {0,1}^n drawn from pi. With it the mechanism's output is y = C x + noise (P), and
 * without it y = noise (Q), both with noise N(0, sigma^2 I). That this pair is the worst is a theorem for balls in bins
 * under a C without negative entries (Choquette-Choo et al. 2024); for any other scheme the caller must know that it
 * is. Here the pair is accounted for. With m = C x and v(m) = (<m, y> - |m|^2 / 2) / sigma^2,
 *
 *     L(y) = ln dP/dQ = ln sum_x pi(x) exp(v(C x)).
 *
 * Balls in bins: pi is uniform over b bins, whose m_j are given by their Gram matrix G. L depends on y through
 * u_j = <m_j, y> alone, and these are N(0, sigma^2 G) under Q and N(G[:,j], sigma^2 G) under bin j: b numbers instead
 * of n. G = A A' with A lower triangular, by Cholesky, which keeps the zeros of a banded G; for a singular G by its
 * eigenvectors, made triangular again.
 *
 * b-min-separation: free steps are joined with probability p, and the b-1 after a joined one are not free. The columns
 * c_i of C have at most b entries, so those of one pattern do not overlap, and v is a sum of l_i = (<c_i, y> - |c_i|^2
 * / 2) / sigma^2. Backwards over the steps, with f = 1 past the end,
 *
 *     f_i = (1-p) f_{i+1} + p e^{l_i} f_{i+b},    L = ln f_1 (cold)  or  ln (f_1 + p (f_2 + ... + f_b)) / (1 + (b-1) p),
 *
 * the second for an example that is anywhere in its wait at the first step (the stationary law).
 */
#include "account/montecarlo/scheme.h"

#include "base/linalg.h"
#include "base/memory.h"
#include "base/special.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static const double SIGMA_LEAST = 1e-140,
                    LOSS_MOST = 1e200; /* their squares and quotients are far from the ends of doubles */

static int finite_all(int64_t count, const double *x) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(x[i])) return 0;
    return 1;
}

static dpmf_status check_bins(const montecarlo_scheme *scheme) {
    const int64_t b = scheme->bins;
    if (b < 1 || b > 65536 || scheme->gram == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " bins with their Gram matrix: 1 to 65536 are accepted", b);
    double largest = 0;
    if (!finite_all(b * b, scheme->gram)) return base_fail(DPMF_ERROR_ARGUMENT, "the Gram matrix is not finite");
    for (int64_t j = 0; j < b; j++)
        largest = fmax(largest, scheme->gram[j * b + j]);
    if (!(largest > 0)) return base_fail(DPMF_ERROR_ARGUMENT, "the Gram matrix has no positive diagonal entry");
    const double rounding = 1e-9 * largest; /* of a computed matrix; far below what moves delta */
    for (int64_t i = 0; i < b; i++) {
        for (int64_t j = 0; j <= i; j++) {
            const double g = scheme->gram[i * b + j];
            if (fabs(g - scheme->gram[j * b + i]) > rounding) {
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "the Gram matrix is not symmetric: %g and %g at %" PRId64 ", %" PRId64, g,
                                 scheme->gram[j * b + i], i, j);
            }
            if (g < -rounding) {
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "the Gram matrix has %g at %" PRId64 ", %" PRId64
                                 ": the entries of C, and so these, must be at least 0",
                                 g, i, j);
            }
        }
    }
    return DPMF_OK;
}

static dpmf_status check_separated(const montecarlo_scheme *scheme) {
    const int64_t n = scheme->steps;
    if (n < 1 || scheme->columns == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "%" PRId64 " steps with their columns: at least 1 is accepted", n);
    if (scheme->separation < 1 || scheme->bands < 1 || scheme->bands > scheme->separation) {
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "%" PRId64 " bands at a separation of %" PRId64 ": 1 <= bands <= separation is accepted",
                         scheme->bands, scheme->separation);
    }
    if (!(scheme->probability > 0 && scheme->probability <= 1))
        return base_fail(DPMF_ERROR_ARGUMENT, "a joining probability of %g: (0, 1] is accepted", scheme->probability);
    double largest = 0;
    for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < scheme->bands; j++) {
            const double c = scheme->columns[i * scheme->bands + j];
            if (!(c >= 0 && c <= DBL_MAX) || (i + j >= n && c != 0)) {
                return base_fail(DPMF_ERROR_ARGUMENT,
                                 "entry %" PRId64 " of column %" PRId64
                                 " is %g: finite, at least 0, and 0 past the last row is accepted",
                                 j, i, c);
            }
            largest = fmax(largest, c);
        }
    }
    return largest > 0 ? DPMF_OK : base_fail(DPMF_ERROR_ARGUMENT, "all columns are 0: nothing is released");
}

static dpmf_status check_scheme(const montecarlo_scheme *scheme) {
    if (!(scheme->sigma > 0 && scheme->sigma <= DBL_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "sigma = %g: positive and finite is accepted", scheme->sigma);
    if (!(scheme->sigma >= SIGMA_LEAST && scheme->sigma <= 1 / SIGMA_LEAST))
        return base_fail(DPMF_ERROR_NUMERICAL,
                         "sigma = %g on C x: simulations accept %g to %g, whose squares are doubles", scheme->sigma,
                         SIGMA_LEAST, 1 / SIGMA_LEAST);
    return scheme->kind == MONTECARLO_SCHEME_BINS ? check_bins(scheme) : check_separated(scheme);
}

static int64_t ring_size(const montecarlo_scheme *scheme) {
    return scheme->separation < scheme->steps ? scheme->separation : scheme->steps; /* past the end f = 1 anyway */
}

/* root root' = gram, lower triangular; eigenvalues below rounding count as 0, clearly negative ones are refused. */
static dpmf_status gram_root(int64_t b, const double *gram, double *root) {
    memcpy(root, gram, (size_t)(b * b) * sizeof *root);
    if (base_cholesky(b, root) == DPMF_OK) return DPMF_OK;
    double *vectors = NULL, *values = NULL, *factor = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_doubles(b * b, "the root of a Gram matrix", &vectors));
    TRY_DONE(base_alloc_doubles(b, "the root of a Gram matrix", &values));
    TRY_DONE(base_alloc_doubles(b * b, "the root of a Gram matrix", &factor));
    memcpy(vectors, gram, (size_t)(b * b) * sizeof *vectors);
    TRY_DONE(base_symmetric_eigen(b, vectors, values));
    if (values[0] < -1e-9 * values[b - 1])
        TRY_DONE(base_fail(DPMF_ERROR_ARGUMENT, "the Gram matrix has an eigenvalue of %g: at least 0 is accepted",
                           values[0]));
    for (int64_t j = 0; j < b; j++) {
        for (int64_t k = 0; k < b; k++)
            factor[j * b + k] = vectors[k * b + j] * sqrt(fmax(values[k], 0));
    }
    memset(root, 0, (size_t)(b * b) * sizeof *root);
    TRY_DONE(base_lq(b, b, factor, root));
done:
    base_free(factor);
    base_free(values);
    base_free(vectors);
    return status;
}

static dpmf_status prepare_bins(montecarlo_draws *s) {
    const int64_t b = s->scheme.bins;
    const double *gram = s->scheme.gram;
    s->dimension = b;
    s->blocks = b;
    s->scratch = (2 * MONTECARLO_LANES + 2) * b;
    TRY(base_alloc_doubles(b, "the norms of the bins", &s->squares));
    TRY(base_alloc_doubles(b, "the means of the bins", &s->mean));
    TRY(base_alloc_doubles(b * b, "the root of a Gram matrix", &s->root));
    TRY(base_alloc(b, sizeof *s->first, "the root of a Gram matrix", (void **)&s->first));
    TRY(gram_root(b, gram, s->root));
    for (int64_t j = 0; j < b; j++) {
        s->squares[j] = gram[j * b + j];
        s->mean[j] = base_sum(b, gram + j * b) / (double)b;
        s->largest = fmax(s->largest, s->squares[j]);
        while (s->first[j] < j && s->root[j * b + s->first[j]] == 0)
            s->first[j]++;
    }
    s->mean_square = base_sum(b, s->squares) / (double)b;
    s->square_mean = base_sum(b, s->mean) / (double)b;
    return DPMF_OK;
}

/* ---- separated ---- */

static dpmf_status prepare_separated(montecarlo_draws *s) {
    const montecarlo_scheme *scheme = &s->scheme;
    const int64_t n = scheme->steps, b = scheme->separation;
    const double p = scheme->probability, first = scheme->warm ? 1 / (1 + (double)(b - 1) * p) : 1;
    s->dimension = n;
    s->blocks = 1;
    s->scratch = (2 * n + ring_size(scheme) + (n - 1) / scheme->separation + 3) * MONTECARLO_LANES;
    TRY(base_alloc_doubles(n, "the norms of the columns", &s->squares));
    TRY(base_alloc_doubles(n, "the mean outcome", &s->mean));
    TRY(base_alloc_doubles(n, "the patterns", &s->root)); /* room for one sweep backwards */
    for (int64_t i = 0; i < n; i++) {
        const double *c = scheme->columns + i * scheme->bands;
        s->squares[i] = base_dot(scheme->bands, c, c);
    }
    /* How often each step is joined, E x_i, and with it the mean of C x. */
    double *joined = s->root, free_now = 0; /* free_now: the probability that step i is free */
    for (int64_t i = 0; i < n; i++) {
        const double stayed = i == 0 ? 0 : free_now - joined[i - 1];
        const double back = i >= b ? joined[i - b] : scheme->warm && i > 0 ? p * first : 0;
        free_now = i == 0 ? first : stayed + back;
        joined[i] = p * free_now;
    }
    s->mean_square = 0;
    for (int64_t i = 0; i < n; i++) {
        s->mean_square += joined[i] * s->squares[i];
        for (int64_t j = 0; j < scheme->bands && i + j < n; j++)
            s->mean[i + j] += joined[i] * scheme->columns[i * scheme->bands + j];
    }
    s->square_mean = base_dot(n, s->mean, s->mean);
    /* The largest |C x|^2 over all patterns: best_i = max(best_{i+1}, |c_i|^2 + best_{i+b}). */
    double *best = s->root;
    for (int64_t i = n - 1; i >= 0; i--) {
        const double skip = i + 1 < n ? best[i + 1] : 0, join = s->squares[i] + (i + b < n ? best[i + b] : 0);
        best[i] = fmax(skip, join);
    }
    s->largest = best[0];
    return DPMF_OK;
}

dpmf_status montecarlo_draws_create(const montecarlo_scheme *scheme, montecarlo_draws *out) {
    montecarlo_draws s = {.scheme = *scheme, .kernels = kernels_sample_get()};
    dpmf_status status = check_scheme(scheme);
    if (status == DPMF_OK) status = scheme->kind == MONTECARLO_SCHEME_BINS ? prepare_bins(&s) : prepare_separated(&s);
    if (status == DPMF_OK && !(s.largest / (scheme->sigma * scheme->sigma) <= LOSS_MOST))
        status = base_fail(DPMF_ERROR_NUMERICAL,
                           "sigma = %g is too small for columns of norm %g: simulations would overflow", scheme->sigma,
                           sqrt(s.largest));
    if (status != DPMF_OK) {
        montecarlo_draws_free(&s);
        return status;
    }
    *out = s;
    montecarlo_draws_aim(out, scheme->sigma, 0, 0);
    return DPMF_OK;
}

void montecarlo_draws_free(montecarlo_draws *draws) {
    base_free(draws->squares);
    base_free(draws->mean);
    base_free(draws->root);
    base_free(draws->first);
    *draws = (montecarlo_draws){.scheme = draws->scheme};
}

dpmf_status montecarlo_scheme_log_ratio(const montecarlo_scheme *scheme, const double *outcome, double *out) {
    TRY(check_scheme(scheme));
    if (scheme->kind == MONTECARLO_SCHEME_BINS) {
        if (!finite_all(scheme->bins, outcome)) return base_fail(DPMF_ERROR_ARGUMENT, "the outcome is not finite");
        const int64_t b = scheme->bins;
        const double precision = 1 / (scheme->sigma * scheme->sigma);
        double sum = -INFINITY;
        for (int64_t j = 0; j < b; j++)
            sum = base_log_add(sum, (outcome[j] - 0.5 * scheme->gram[j * b + j]) * precision);
        *out = sum - log((double)b);
        return DPMF_OK;
    }
    montecarlo_draws s = {.scheme = *scheme};
    double *scaled = NULL, *window = NULL;
    dpmf_status status = DPMF_OK;
    if (!finite_all(scheme->steps, outcome)) return base_fail(DPMF_ERROR_ARGUMENT, "the outcome is not finite");
    TRY_DONE(prepare_separated(&s));
    TRY_DONE(base_alloc_doubles(scheme->steps, "an outcome", &scaled));
    TRY_DONE(base_alloc_doubles(ring_size(scheme), "an outcome's window", &window));
    for (int64_t i = 0; i < scheme->steps; i++)
        scaled[i] = outcome[i] / scheme->sigma;
    *out = montecarlo_separated_log_ratio(&s, 1, scaled, 1, window);
done:
    base_free(window);
    base_free(scaled);
    montecarlo_draws_free(&s);
    return status;
}

/*
 * ---- balls in bins ----
 *
 * Samples of balls in bins, in the space of the b numbers u_j = <m_j, y>.
 *
 * In units: a = A z / sigma with A A' = G and z standard normal is the noise of u / sigma^2, and v_j = a_j + shift_j
 * - G_jj / (2 sigma^2). The shift is s G_jJ / sigma^2 for the remove direction and bin J, -t <m_j, mbar> / sigma^2 for
 * the add direction (below). Both directions use the same a: each is bounded on its own.
 *
 * Block g takes bin J = g mod b, so that b blocks make a stratified sample of the mixture: independent samples whose
 * means average to delta, which is all that the bounds need.
 *
 * Nearly every sample is 0: remove needs sum_j e^{v_j} > b e^epsilon and add needs it below b e^-epsilon. Since v_j is
 * a_j and a constant, one vector of e^{a_j} serves both directions, and logarithms are taken of the samples that pass.
 */

enum { LANES = MONTECARLO_LANES };

/* v_j - a_j, j < bins, for a shift. */
static double constant(const montecarlo_draws *draws, double shift_scale, const double *shift, int64_t j) {
    return 0.5 / (draws->scheme.sigma * draws->scheme.sigma) * (2 * shift_scale * shift[j] - draws->squares[j]);
}

/* sum[i] = sum_j e^{v_j} of sample i, given the e^{a_j}; factors: room for a number of each bin. */
static void add_exponentials(const montecarlo_draws *draws, const double *e, double shift_scale, const double *shift,
                             double *factors, double sum[LANES]) {
    for (int64_t j = 0; j < draws->scheme.bins; j++)
        factors[j] = constant(draws, shift_scale, shift, j);
    draws->kernels->exponentials(draws->scheme.bins, factors, factors);
    draws->kernels->add_up(draws->scheme.bins, factors, e, sum);
}

/* v of the sample whose a_j are at a[j * LANES]. */
static void move(const montecarlo_draws *draws, const double *a, double shift_scale, const double *shift, double *v) {
    for (int64_t j = 0; j < draws->scheme.bins; j++)
        v[j] = a[j * LANES] + constant(draws, shift_scale, shift, j);
}

/* May the sums be formed without overflow? If not, every sample is looked at in logarithms. */
static int is_tame(const montecarlo_draws *draws) {
    const double width = sqrt(draws->largest) / draws->scheme.sigma;
    return 9 * width < MONTECARLO_EXPONENT_MAX && /* normals end at 8.57 */
           fmax(draws->tilt_remove, draws->tilt_add) * width * width < MONTECARLO_EXPONENT_MAX;
}

/* ln (1/b) sum_j exp(s v_j - s (s-1) G_jj / (2 sigma^2)) of one sample; s = 1: L. */
static double log_mean(const montecarlo_draws *draws, double s, const double *v) {
    const int64_t b = draws->scheme.bins;
    const double factor = 0.5 * s * (s - 1) / (draws->scheme.sigma * draws->scheme.sigma);
    double largest = -INFINITY, sum = 0;
    for (int64_t j = 0; j < b; j++)
        largest = fmax(largest, s * v[j] - factor * draws->squares[j]);
    for (int64_t j = 0; j < b; j++)
        sum += exp(s * v[j] - factor * draws->squares[j] - largest);
    return largest + log(sum / (double)b);
}

static double remove_value(const montecarlo_draws *draws, const double *v) {
    const double ratio = log_mean(draws, 1, v), s = draws->tilt_remove;
    if (ratio <= draws->epsilon) return 0;
    const double log_weight = s > 1 ? ratio - log_mean(draws, s, v) : 0;
    return montecarlo_draws_value(ratio - draws->epsilon, log_weight, draws->log_most_remove);
}

static double add_value(const montecarlo_draws *draws, const double *v) {
    const double ratio = log_mean(draws, 1, v), t = draws->tilt_add;
    if (-ratio <= draws->epsilon) return 0;
    const double half_precision = 0.5 / (draws->scheme.sigma * draws->scheme.sigma);
    double sum = 0;
    for (int64_t j = 0; j < draws->scheme.bins; j++)
        sum += v[j];
    const double projection = sum / (double)draws->scheme.bins + half_precision * draws->mean_square;
    const double log_weight = t * projection + t * t * half_precision * draws->square_mean;
    return montecarlo_draws_value(-ratio - draws->epsilon, log_weight, draws->log_most_add);
}

static void block_of_bins(const montecarlo_draws *draws, uint64_t seed, uint64_t stream, int64_t block, double *scratch,
                          double remove[LANES], double add[LANES]) {
    const int64_t b = draws->scheme.bins;
    const int tame = is_tame(draws);
    const double *bin = draws->scheme.gram + (block % b) * b, slack = 1e-9; /* of rounding in the sums */
    double *z = scratch, *a = z + b * LANES, *v = a + b * LANES, *factors = v + b, high[LANES], low[LANES];
    draws->kernels->normals(seed, stream, b * LANES, z);
    draws->kernels->triangle(b, draws->first, draws->root, 1 / draws->scheme.sigma, z, a);
    if (tame) {
        double *e = z; /* z has been used */
        draws->kernels->exponentials(b * LANES, a, e);
        add_exponentials(draws, e, draws->tilt_remove, bin, factors, high);
        add_exponentials(draws, e, -draws->tilt_add, draws->mean, factors, low);
    }
    const double least = (double)b * exp(draws->epsilon) * (1 - slack);
    const double most = (double)b * exp(-draws->epsilon) * (1 + slack);
    for (int i = 0; i < LANES; i++) {
        remove[i] = add[i] = 0;
        if (!tame || high[i] > least) {
            move(draws, a + i, draws->tilt_remove, bin, v);
            remove[i] = remove_value(draws, v);
        }
        if (!tame || low[i] < most) {
            move(draws, a + i, -draws->tilt_add, draws->mean, v);
            add[i] = add_value(draws, v);
        }
    }
}

void montecarlo_draws_block(const montecarlo_draws *draws, uint64_t seed, int64_t run, int64_t block, double *scratch,
                            double remove[LANES], double add[LANES]) {
    /* The lowest of the stream's bits below the block separates normals from uniforms. */
    const uint64_t stream = (uint64_t)run << 41 | (uint64_t)block << 1;
    if (draws->scheme.kind == MONTECARLO_SCHEME_BINS) {
        block_of_bins(draws, seed, stream, block, scratch, remove, add);
    } else {
        montecarlo_draws_block_separated(draws, seed, stream, scratch, remove, add);
    }
}

/*
 * ---- importance sampling ----
 *
 * Large privacy losses are found by importance sampling whose weights have a proven bound.
 *
 * With P = sum_x pi(x) N(m_x, sigma^2), Q = N(0, sigma^2), v_x = (<m_x, y> - |m_x|^2/2) / sigma^2, L = ln sum_x pi(x)
 * e^{v_x} (above), the two directions are
 *
 *     remove   delta = E_P (1 - e^{epsilon - L})_+          add   delta = E_Q (1 - e^{epsilon + L})_+.
 *
 * For delta = 1e-6 a plain sample is 0 a million times before it is something. Any R that covers P gives delta =
 * E_R[dP/dR (1 - e^{epsilon - L})_+], and a confidence bound for the mean stays rigorous if the values have a known
 * bound M; its width goes with sqrt(M delta), so a small M is worth 1/M times more samples.
 *
 * Remove: R = sum_x pi(x) N(s m_x, sigma^2), s >= 1, dR/dQ = sum_x pi(x) e^{s v_x - s(s-1)|m_x|^2 / (2 sigma^2)}.
 * Hoelder's inequality with exponents s and s/(s-1) gives e^L <= (dR/dQ)^{1/s} K(s)^{(s-1)/s}, K(s) = E_pi e^{s |m|^2 /
 * (2 sigma^2)}. So dP/dR <= (K(s) e^{-L})^{s-1}, and since the greatest value of e^{-(s-1) x} (1 - e^{-x}) is
 * ((s-1)/s)^{s-1} / s,
 *
 *     M = ((s-1)/s)^{s-1} / s (K(s) e^{-epsilon})^{s-1}.
 *
 * Add: R = N(-t mbar, sigma^2), mbar = E_pi m. By Jensen L >= <mbar, y>/sigma^2 - E|m|^2 / (2 sigma^2), so dQ/dR =
 * exp((2 t <mbar, y> + t^2 |mbar|^2) / (2 sigma^2)) is at most exp(t L + (t E|m|^2 + t^2 |mbar|^2) / (2 sigma^2)), and
 *
 *     M = (t/(t+1))^t / (t+1) exp(-t epsilon + (t E|m|^2 + t^2 |mbar|^2) / (2 sigma^2)).
 *
 * s and t are those of the least M, found before anything is sampled; s = 1 and t = 0 are plain sampling with M = 1.
 * With few bins, or bins that overlap, M comes within a small factor of delta itself. Where amplification is strong
 * (many bins) both inequalities are far from equality and plain sampling it is.
 */

/* ln K(s), K(s) = E exp(s |m|^2 / (2 sigma^2)) over the mixture. */
static double log_moment(const montecarlo_draws *draws, double s) {
    const montecarlo_scheme *scheme = &draws->scheme;
    if (scheme->kind == MONTECARLO_SCHEME_SEPARATED)
        return montecarlo_separated_log_ratio(draws, s, NULL, 0, draws->root);
    const double half_precision = 0.5 / (scheme->sigma * scheme->sigma);
    double sum = -INFINITY;
    for (int64_t j = 0; j < scheme->bins; j++)
        sum = base_log_add(sum, s * draws->squares[j] * half_precision);
    return sum - log((double)scheme->bins);
}

/* x ln(x / (x+1)) - ln(x+1): the greatest of e^{-x z} (1 - e^{-z}) over z >= 0. */
static double log_peak(double x) {
    return x > 0 ? x * log(x / (x + 1)) - log1p(x) : 0;
}

/* ln M with x = s - 1 (remove) and x = t (add). */
static double log_most_remove(const montecarlo_draws *draws, double x) {
    return log_peak(x) + x * (log_moment(draws, 1 + x) - draws->epsilon);
}

static double log_most_add(const montecarlo_draws *draws, double x) {
    const double half_precision = 0.5 / (draws->scheme.sigma * draws->scheme.sigma);
    return log_peak(x) + x * (half_precision * (draws->mean_square + x * draws->square_mean) - draws->epsilon);
}

typedef double (*log_most)(const montecarlo_draws *draws, double x);

/* The x >= 0 of the least bound, by a coarse search and a golden section; any x is valid, so none need be exact. */
static double best_tilt(const montecarlo_draws *draws, log_most most, double *least) {
    static const double golden = 0.61803398874989484820;
    /* Below this gain the weights cost more than they save: (1 - e^-z)_+ alone has a variance far below its bound. */
    static const double worth_it = -1.4; /* M < 1/4 */
    double best = 0;
    *least = 0;
    for (double x = 1.0 / 64; x <= 1024; x *= 2) {
        const double value = most(draws, x);
        if (value < *least) *least = value, best = x;
    }
    if (*least > worth_it) {
        *least = 0;
        return 0;
    }
    double low = 0.5 * best, high = 2 * best;
    while (high - low > 1e-2 * high) {
        const double left = high - golden * (high - low), right = low + golden * (high - low);
        if (most(draws, left) < most(draws, right))
            high = right;
        else
            low = left;
    }
    const double refined = 0.5 * (low + high), value = most(draws, refined);
    if (!(value < *least)) return best;
    *least = value;
    return refined;
}

void montecarlo_draws_aim(montecarlo_draws *draws, double sigma, double epsilon, int tilted) {
    draws->scheme.sigma = sigma;
    draws->epsilon = epsilon;
    draws->tilt_remove = 1;
    draws->tilt_add = 0;
    draws->log_most_remove = draws->log_most_add = 0;
    if (!tilted) return;
    draws->tilt_remove = 1 + best_tilt(draws, log_most_remove, &draws->log_most_remove);
    draws->tilt_add = best_tilt(draws, log_most_add, &draws->log_most_add);
}
