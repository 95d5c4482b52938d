/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid of a clipped sum. Purpose: the sums of two data sets that differ in one unit differ by at most clip, exactly.
 * A sum in floating point does not have that: a unit that moves the running sum over a power of two changes how all later
 * units are rounded, and their differences add up, to many times the clip norm for large batches.
 *
 * Notation. xi: the grid's step, a power of two. R = floor(clip/xi). A unit adds xi q, q a vector of integers with
 * |q| <= R, so |xi q| <= clip; sums of up to `units` such vectors and a row of noise are 64-bit integers, which are exact
 * in any order, by any number of threads or processes. The noise is put on the grid too: floor(n/xi + 1/2) + S is the
 * rounding of n/xi + S, because S is whole, so what is released is a function of the exact sum plus the noise.
 *
 * Examples. The gradient of a layer is d x', d the derivatives by its m outputs, x its inputs and a 1 for the bias. Inputs
 * are put on a grid of their own, x = beta b with b whole and |b| about 2^21 (beta a power of two that follows |x|; for the
 * features once, when they are loaded). Derivatives become d' = a xi/beta with a = rint(f d beta/xi). Then every product
 * d'_i x_j = xi a_i b_j is on the grid, and the norm of what the example adds is known in integers without forming it:
 *
 *     |q|^2 = sum over layers |a|^2 |b|^2  <=  R^2                                          (certificate)
 *
 * |a|^2 and |b|^2 are sums of squares below 2^53, exact in double; their products are compared in 128-bit integers. The
 * factor: |a| <= f |d| beta/xi + sqrt(m)/2, so with G = |gradient|/xi and E = (sum over layers m |b|^2)^(1/2)/2 the
 * triangle inequality gives |q| <= f G + E, and f = min(1, (R - E - 1)/G) meets the certificate but for the rounding of
 * the double arithmetic, for which it is taken 2^-40 smaller; if it is not met all the same, f shrinks until it is.
 * R is near 2^42 and E near 2^21 sqrt(m)/2: of the clip norm 2^-20 sqrt(m)/2 is given away.
 *
 * Products are summed in double, 512 examples at a time: |a_i b_j| <= R < 2^42, so that all partial sums are whole numbers
 * below 2^51 times xi: exact (train/kernels/exact/exact.h).
 *
 * Users. The gradient of a user is the mean of its examples' and is formed, v/n, with its rounding errors: a function
 * of that user's data. q = rint(s v) with s = min(1/(n xi), (R - sqrt(dim)/2 - 1)(1 - dim 2^-49)/|v|): |q| <= s|v| +
 * sqrt(dim)/2. Here |q|^2 is a sum in double of dim rounded terms, at most dim 2^-52 below the true one, so the
 * certificate is fl(|q|^2)(1 + dim 2^-50) <= R^2.
 *
 * Normalised (gamma > 0: AUTO-S of Bu, Wang, Zha and Karypis 2023): f = (R - E - 1)/(G + gamma/xi) and
 * s = (R - sqrt(dim)/2 - 1)(1 - dim 2^-49)/(|v| + n gamma), which may be above 1 and above 1/(n xi): every unit adds nearly clip. The
 * bounds hold for f G and s |v| as before, and the certificates are the same. gamma is at least 2^-100, so that both are finite.
 *
 * Not finite. A norm that is not finite gives a = 0, q = 0: such a unit adds nothing, and nothing shows it.
 */
#include "train/train.h"

#include <float.h>
#include <math.h>

enum {
    INPUT_BITS = 21,  /* |b| is about 2^21 at most: exact in float, and its square in double */
    RADIUS_BITS = 42, /* R is below 2^42: 512 examples sum up to below 2^51 */
    SUM_BITS = 61,    /* of the sum of all units, and of the noise */
    NOISE_BITS = 48,  /* of the noise's standard deviation: 2^13 of them are below 2^61 */
    TRIES = 64        /* of the certificate; a second one has not been seen */
};

/* Four sums at a time. */
double train_square_of(int64_t count, const float *x) {
    double sum[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += (double)x[i + k] * (double)x[i + k];
    for (; i < count; i++)
        sum[0] += (double)x[i] * (double)x[i];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double train_one_of(const train_input *input) {
    return train_whole(1 / input->step) * input->step; /* 1, or 0 where the inputs are beyond 2^22 */
}

train_input train_round_inputs(int64_t count, float *x) {
    const double norm = sqrt(train_square_of(count, x) + 1);
    int exponent = 0;
    if (!isfinite(norm)) {
        memset(x, 0, (size_t)count * sizeof *x);
        return (train_input){NAN, 1};
    }
    frexp(norm, &exponent); /* norm < 2^exponent */
    train_input made = {0, ldexp(1, exponent - INPUT_BITS)};
    const double per_step = 1 / made.step;
    for (int64_t i = 0; exponent < FLT_MAX_EXP && i < count; i++)
        x[i] = (float)(train_whole((double)x[i] * per_step) * made.step);
    for (int64_t i = 0; exponent >= FLT_MAX_EXP && i < count;
         i++) { /* rounded up, it might leave the range of floats */
        double b = train_whole((double)x[i] * per_step);
        if (fabs(b * made.step) > (double)FLT_MAX) b += b > 0 ? -1 : 1;
        x[i] = (float)(b * made.step);
    }
    made.square = train_square_of(count, x) * (per_step * per_step); /* whole numbers: exact */
    const double one = train_one_of(&made) * per_step;
    made.square += one * one;
    return made;
}

dpmf_status train_grid_choose(double clip, int64_t units, double noise, double given, int64_t outputs,
                              train_grid *out) {
    int exponent = 0;
    if (!(clip >= TRAIN_CLIP_MIN && clip <= TRAIN_CLIP_MAX))
        return base_fail(DPMF_ERROR_ARGUMENT, "clip = %g, accepted: %g to %g", clip, TRAIN_CLIP_MIN, TRAIN_CLIP_MAX);
    frexp(clip, &exponent); /* clip < 2^exponent */
    int step = given > 0 ? ilogb(given) : exponent - RADIUS_BITS;
    if (given > 0 && (step < exponent - RADIUS_BITS || (double)units * clip > ldexp(1, step + SUM_BITS)))
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sums of %lld units do not fit the grid %g of the exact release (clip = %g)", (long long)units,
                         given, clip);
    while ((double)units * clip > ldexp(1, step + SUM_BITS))
        step++;
    while (given == 0 && noise > ldexp(1, step + NOISE_BITS))
        step++;
    *out = (train_grid){ldexp(1, step), ldexp(1, -step), floor(ldexp(clip, -step)), 0};
    /* What rounding the derivatives may give away, against all there is. */
    if (sqrt((double)outputs) * ldexp(1, INPUT_BITS) > 0.01 * out->radius)
        return base_fail(DPMF_ERROR_UNSUPPORTED,
                         "sums of %lld units with noise of %g clip norms leave too few digits for a model of %lld "
                         "outputs",
                         (long long)units, noise / clip, (long long)outputs);
    return DPMF_OK;
}

/* ---- examples ---- */

/* a of every layer at factor f; does the certificate hold? */
static int try_factor(const train_grid *grid, double f, int layers, const train_layer *layer) {
    unsigned __int128 sum = 0;
    for (int l = 0; l < layers; l++) {
        const double scale = f * layer[l].input.step * grid->per_step;
        double square = 0;
        for (int64_t i = 0; i < layer[l].outputs; i++) {
            layer[l].out[i] = train_whole((double)layer[l].d[i] * scale);
            square += layer[l].out[i] * layer[l].out[i];
        }
        if (!(square < 0x1p53)) return 0;
        sum += (unsigned __int128)square * (unsigned __int128)layer[l].input.square;
    }
    return sum <= (unsigned __int128)grid->radius * (unsigned __int128)grid->radius;
}

static void scale_layer(const train_layer *l, double factor) {
    for (int64_t i = 0; i < l->outputs; i++)
        l->out[i] *= factor;
}

/* |gradient|^2 with the inputs as they are now, and E^2. */
static double norms_of(int layers, const train_layer *layer, double *given_away) {
    double norm = 0, away = 0;
    for (int l = 0; l < layers; l++) {
        const train_input *in = &layer[l].input;
        norm += train_square_of(layer[l].outputs, layer[l].d) * (in->square * in->step * in->step);
        away += 0.25 * (double)layer[l].outputs * in->square;
    }
    *given_away = sqrt(away);
    return sqrt(norm);
}

/* Numbers that are not finite are for the norm to find. */
static double largest_of(int64_t count, const float *v) {
    float largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fabsf(v[i]) > largest ? fabsf(v[i]) : largest;
    return (double)largest;
}

/* The largest coordinate of d x': the largest derivative times the largest input, or times the bias's 1. */
static double largest_of_layers(int layers, const train_layer *layer) {
    double largest = 0;
    for (int l = 0; l < layers; l++)
        largest = fmax(largest, largest_of(layer[l].outputs, layer[l].d) *
                                    fmax(largest_of(layer[l].inputs, layer[l].x), train_one_of(&layer[l].input)));
    return largest;
}

void train_clip_layers(const train_grid *grid, train_zero zero, int layers, const train_layer *layer, int *clipped) {
    double away = 0, f = 1;
    const double norm = norms_of(layers, layer, &away);
    const double size = zero.above > 0 && zero.largest ? largest_of_layers(layers, layer) : norm;
    int met = isfinite(norm) && !(zero.above > 0 && size > zero.above);
    const double most = (grid->radius - away - 1) * (1 - 0x1p-40) * grid->step;
    if (norm > most || grid->gamma > 0) f = most / (norm + grid->gamma);
    if (met) {
        met = try_factor(grid, f, layers, layer);
        for (int i = 0; !met && i < TRIES; i++)
            met = try_factor(grid, f *= 1 - 0x1p-20, layers, layer);
    }
    for (int l = 0; l < layers; l++)
        if (met)
            scale_layer(&layer[l], grid->step / layer[l].input.step);
        else
            memset(layer[l].out, 0, (size_t)layer[l].outputs * sizeof(double));
    *clipped = !met || f < 1;
}

/* ---- vectors ---- */

enum { SLICE = 4096 }; /* terms of one sum before it is added to another: short sums round less */

static double square_on_grid(int64_t dim, const float *v, double factor) {
    double sum[4] = {0};
    for (int64_t i = 0; i < dim; i++) {
        const double q = train_whole((double)v[i] * factor);
        sum[i % 4] += q * q;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void train_clip_vector(const train_grid *grid, train_zero zero, int64_t dim, const float *v, int64_t count,
                       double *factor, int *clipped) {
    double sum = 0;
    for (int64_t from = 0; from < dim; from += SLICE)
        sum += train_square_of(dim - from < SLICE ? dim - from : SLICE, v + from);
    const double norm = sqrt(sum), size = (double)dim;
    const double most = (grid->radius - 0.5 * sqrt(size) - 1) * (1 - size * 0x1p-49);
    const double whole = grid->per_step / (double)count, limit = grid->radius * grid->radius;
    double s = norm * whole > most ? most / norm : whole;
    if (grid->gamma > 0) s = most / (norm + grid->gamma * (double)count);
    const double compared = (zero.above > 0 && zero.largest ? largest_of(dim, v) : norm) / (double)count;
    int met = isfinite(norm) && most > 0 && !(zero.above > 0 && compared > zero.above);
    if (met) {
        met = square_on_grid(dim, v, s) * (1 + size * 0x1p-50) <= limit;
        for (int i = 0; !met && i < TRIES; i++) {
            s *= 1 - 0x1p-20;
            met = square_on_grid(dim, v, s) * (1 + size * 0x1p-50) <= limit;
        }
    }
    *factor = met ? s : 0;
    *clipped = !met || s < whole;
}
