/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scattering features of images: a fixed function of one image, so that they cost no privacy.
 *
 * Notation. J scales, L angles. For a scale j and an angle theta, sigma_j = 0.8 2^j, xi_j = (3 pi/4) 2^-j, slant = 4/L,
 * c and s the cosine and sine of the angle, and for a place (y, x), y down:
 *
 *     a = c y + s x,  b = -s y + c x
 *     gauss(y, x)  = slant/(2 pi sigma^2) exp(-(a^2 + slant^2 b^2)/(2 sigma^2))
 *     psi_(j,theta) = gauss (e^(i xi a) - K),  K such that psi sums to 0
 *     phi(y, x)    = 1/(2 pi sigma^2) exp(-(y^2 + x^2)/(2 sigma^2)),  sigma = 0.8 2^(J-1)
 *
 * all summed over the periods of the padded image. Features of one channel x, each taken at every 2^J-th place:
 *
 *     x * phi;   |x * psi_1| * phi for each filter;   ||x * psi_1| * psi_2| * phi for scales j_1 < j_2
 *
 * in this order: the image; each (j_1, theta_1), and after it its (j_2, theta_2). Angles: (L/2 - 1 - t) pi/L for t = 0 to
 * L - 1, L/2 rounded down. Morlet filters and constants as in Andreux et al. 2020 (Kymatio); scattering: Oyallon and Mallat
 * 2015; for private training: Tramer and Boneh 2021.
 *
 * Padding. The output has Q/2^J places along an axis, Q the least multiple of 2^(J+1) that is not below its size S. If Q - S
 * >= 2^J, the image is padded to Q by reflection; else to Q + 2^(J+1), and the outermost outputs are dropped. For J = 2:
 * 28 is padded to 32, 32 to 40, and both have 8 outputs.
 *
 * Normalisation. Channels of the features (those of all colours one after the other) in groups of three, the last group
 * with one or two if three does not divide their number: v <- (v - mean)/sqrt(variance + 1e-5), the variance with n - 1.
 * Or each path to the scale that it has over images of noise (train/pink.c), which keeps the contrast of an image.
 *
 * Route. Filters are real in frequency, because psi(-y, -x) is the conjugate of psi(y, x). They are made once per plan in double;
 * the rest is the kernel's (train/kernels/scatter/body.inc). Everything is made of basic operations, so that machines agree.
 */
#include "train/scattering.h"

#include "base/memory.h"
#include "train/basic.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { SCALES_MAX = 6, ANGLES_MAX = 16, SIDE_MAX = 512 };
static const double FAR = 40.0;       /* exponents beyond it are left out: e^-40 is below the last place of double */
static const double TAP_LEAST = 1e-9; /* of the middle tap: below the last place of float */
static const float ADDED = 1e-5f;     /* to the variance */
static const double TWO_PI = 6.283185307179586;

/* ---- filters ---- */

typedef struct filter_shape {
    double sigma, xi_turns, slant, cosine, sine; /* xi/(2 pi) */
} filter_shape;

/* A Gaussian and its wave at one place, all periods together. */
static void sum_periods(const filter_shape *f, const int64_t size[2], int64_t y0, int64_t x0, double out[3]) {
    const double wide = f->slant < 1.0 ? f->sigma / f->slant : f->sigma;
    const double reach = sqrt(2.0 * FAR) * wide, scale = 1.0 / (2.0 * f->sigma * f->sigma);
    const int64_t rows = (int64_t)ceil(reach / (double)size[0]), columns = (int64_t)ceil(reach / (double)size[1]);
    out[0] = out[1] = out[2] = 0.0;
    for (int64_t i = -rows; i <= rows; i++)
        for (int64_t j = -columns; j <= columns; j++) {
            const double y = (double)(y0 + i * size[0]), x = (double)(x0 + j * size[1]);
            const double a = f->cosine * y + f->sine * x, b = f->slant * (f->cosine * x - f->sine * y);
            const double exponent = (a * a + b * b) * scale;
            double c = 0.0, s = 0.0;
            if (exponent > FAR) continue;
            const double g = train_exp_negative(-exponent) * f->slant * scale / (0.5 * TWO_PI);
            train_turn(f->xi_turns * a, &c, &s);
            out[0] += g * c;
            out[1] += g * s;
            out[2] += g;
        }
}

/* Cosines and sines of 2 pi i/length, i < length. */
static void fill_circle(int64_t length, double *circle) {
    for (int64_t i = 0; i < length; i++)
        train_turn((double)i / (double)length, &circle[2 * i], &circle[2 * i + 1]);
}

/* The real part of the transform of re + i im, which is real but for rounding, times `factor`. Both are overwritten. */
static void transform(const int64_t size[2], const double *circle[2], double factor, double *re, double *im,
                      double *line, float *out) {
    for (int axis = 1; axis >= 0; axis--) {
        const int64_t length = size[axis], lines = size[1 - axis];
        const int64_t step = axis == 1 ? 1 : size[1], next = axis == 1 ? size[1] : 1;
        for (int64_t i = 0; i < lines; i++) {
            double *r = re + i * next, *m = im + i * next;
            for (int64_t k = 0; k < length; k++) {
                double sum_re = 0.0, sum_im = 0.0;
                for (int64_t n = 0, at = 0; n < length; n++, at = (at + k) % length) {
                    const double c = circle[axis][2 * at], s = circle[axis][2 * at + 1];
                    sum_re += r[n * step] * c + m[n * step] * s;
                    sum_im += m[n * step] * c - r[n * step] * s;
                }
                line[2 * k] = sum_re;
                line[2 * k + 1] = sum_im;
            }
            for (int64_t k = 0; k < length; k++) {
                r[k * step] = line[2 * k];
                m[k * step] = line[2 * k + 1];
            }
        }
    }
    for (int64_t i = 0; i < size[0] * size[1]; i++)
        out[i] = (float)(re[i] * factor);
}

static dpmf_status fill_filters(train_scattering *plan) {
    dpmf_status status = DPMF_OK;
    const int64_t size[2] = {plan->kernel.rows.length, plan->kernel.columns.length}, all = size[0] * size[1];
    const int64_t scales = plan->kernel.scales, angles = plan->kernel.angles;
    double *re = NULL, *im = NULL, *gauss = NULL, *line = NULL, *rows = NULL, *columns = NULL;
    const int64_t longest = size[0] > size[1] ? size[0] : size[1];
    TRY_DONE(BASE_ARRAYS("the filters", {&re, all}, {&im, all}, {&gauss, all}, {&line, 2 * longest},
                         {&rows, 2 * size[0]}, {&columns, 2 * size[1]}));
    fill_circle(size[0], rows);
    fill_circle(size[1], columns);
    const double *circle[2] = {rows, columns};
    for (int64_t j = 0; j < scales; j++)
        for (int64_t t = 0; t < angles; t++) {
            const double power = (double)((int64_t)1 << j);
            filter_shape f = {.sigma = 0.8 * power, .xi_turns = 0.375 / power, .slant = 4.0 / (double)angles};
            train_turn((double)(angles / 2 - 1 - t) / (double)(2 * angles), &f.cosine, &f.sine);
            double wave = 0.0, mass = 0.0;
            for (int64_t i = 0; i < all; i++) {
                double sums[3];
                sum_periods(&f, size, i / size[1], i % size[1], sums);
                re[i] = sums[0];
                im[i] = sums[1];
                gauss[i] = sums[2];
                wave += sums[0];
                mass += sums[2];
            }
            for (int64_t i = 0; i < all; i++)
                re[i] -= gauss[i] * (wave / mass);
            transform(size, circle, 1.0 / (double)all, re, im, line, plan->filters + (j * angles + t) * all);
        }
done:
    base_free(re);
    return status;
}

/* ---- an axis: how it is padded, its transform, its low pass ---- */

static void place_axis(int64_t size, int64_t scales, kernels_scatter_axis *axis, int64_t *before) {
    const int64_t step = (int64_t)1 << scales, whole = (size + 2 * step - 1) / (2 * step) * (2 * step);
    const int narrow = whole - size < step;
    axis->length = whole + (narrow ? 2 * step : 0);
    axis->outputs = whole / step;
    axis->first = narrow ? step : 0;
    axis->step = step;
    *before = (axis->length - size) / 2;
    axis->passes = 0;
    int64_t rest = axis->length;
    for (int64_t p = 8; p > 1; p /= 2)
        for (; rest % p == 0; rest /= p)
            axis->radix[axis->passes++] = p;
    for (int64_t p = 3; rest > 1; p += 2)
        for (; rest % p == 0; rest /= p)
            axis->radix[axis->passes++] = p;
}

static void fill_taps(const kernels_scatter_axis *axis, double sigma, double *tap) {
    const int64_t half = axis->length / 2, periods = (int64_t)ceil(sqrt(2.0 * FAR) * sigma / (double)axis->length);
    for (int64_t d = 0; d <= half; d++) {
        tap[d] = 0.0;
        for (int64_t k = -periods; k <= periods; k++) {
            const double at = (double)(d + k * axis->length), exponent = at * at / (2.0 * sigma * sigma);
            if (exponent <= FAR) tap[d] += train_exp_negative(-exponent) / (sigma * sqrt(TWO_PI));
        }
    }
    if (axis->length % 2 == 0) tap[half] *= 0.5; /* the same place from both sides */
}

/* The numbers of tables that an axis takes; with `tables`, fills them in. */
static int64_t fill_axis(kernels_scatter_axis *axis, int64_t scales, float *tables) {
    double taps[SIDE_MAX + 4 * (1 << SCALES_MAX)] = {0}, c = 0.0, s = 0.0;
    int64_t used = 0, n = axis->length;
    fill_taps(axis, 0.8 * (double)((int64_t)1 << (scales - 1)), taps);
    axis->reach = axis->length / 2;
    while (axis->reach > 0 && taps[axis->reach] < TAP_LEAST * taps[0])
        axis->reach--;
    for (int64_t d = 0; tables != NULL && d <= axis->reach; d++)
        tables[d] = (float)taps[d];
    axis->tap = tables;
    used += axis->reach + 1;
    for (int64_t i = 0; i < axis->passes; i++) {
        const int64_t p = axis->radix[i], m = n / p;
        for (int64_t k = 0; tables != NULL && k < m; k++)
            for (int64_t j = 0; j < p; j++) {
                train_turn((double)(j * k) / (double)n, &c, &s);
                tables[used + 2 * (k * p + j)] = (float)c;
                tables[used + 2 * (k * p + j) + 1] = (float)s;
            }
        axis->turn[i] = tables != NULL ? tables + used : NULL;
        used += 2 * m * p;
        for (int64_t j = 0; tables != NULL && p % 2 != 0 && j < p; j++)
            for (int64_t k = 0; k < p; k++) {
                train_turn((double)(j * k) / (double)p, &c, &s);
                tables[used + 2 * (j * p + k)] = (float)c;
                tables[used + 2 * (j * p + k) + 1] = (float)s;
            }
        axis->prime[i] = tables != NULL ? tables + used : NULL;
        used += p % 2 != 0 ? 2 * p * p : 0;
        n = m;
    }
    return used;
}

/* ---- the plan ---- */

static dpmf_status check_shape(int64_t channels, int64_t height, int64_t width, int64_t scales, int64_t angles) {
    const int64_t smaller = height < width ? height : width;
    if (channels < 1 || height < 1 || width < 1)
        return base_fail(DPMF_ERROR_ARGUMENT, "scattering needs images, and this data set has numbers without a shape");
    if (scales < 1 || scales > SCALES_MAX || (int64_t)1 << scales > smaller)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "scattering with %" PRId64 " scales of images of %" PRId64 " x %" PRId64
                         ", accepted: 1 to %d, and 2^scales not above a side",
                         scales, height, width, SCALES_MAX);
    if (angles < 1 || angles > ANGLES_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT, "scattering with %" PRId64 " angles, accepted: 1 to %d", angles,
                         ANGLES_MAX);
    if (height > SIDE_MAX || width > SIDE_MAX)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "scattering of images of %" PRId64 " x %" PRId64 ", accepted: sides of up to %d", height,
                         width, SIDE_MAX);
    return DPMF_OK;
}

dpmf_status train_scattering_create(int64_t channels, int64_t height, int64_t width, int64_t scales, int64_t angles,
                                    train_scattering **out) {
    dpmf_status status = DPMF_OK;
    train_scattering *made = NULL;
    TRY(check_shape(channels, height, width, scales, angles));
    TRY(base_alloc(1, sizeof *made, "the filters", (void **)&made));
    kernels_scatter_plan *k = &made->kernel;
    made->channels = channels;
    made->height = height;
    made->width = width;
    k->scales = scales;
    k->angles = angles;
    place_axis(height, scales, &k->rows, &made->above);
    place_axis(width, scales, &k->columns, &made->left);
    made->channel = kernels_scatter_paths(k) * k->rows.outputs * k->columns.outputs;
    if (channels > TRAIN_FEATURES_MAX / made->channel) {
        status = base_fail(DPMF_ERROR_ARGUMENT,
                           "scattering would make %" PRId64 " features of each of %" PRId64
                           " channels, accepted: at most 2^24 in all",
                           made->channel, channels);
        goto done;
    }
    made->features = channels * made->channel;
    const int64_t rows = fill_axis(&k->rows, scales, NULL), columns = fill_axis(&k->columns, scales, NULL);
    TRY_DONE(base_alloc(rows + columns, sizeof(float), "the filters", (void **)&made->tables));
    TRY_DONE(base_alloc(scales * angles * k->rows.length * k->columns.length, sizeof(float), "the filters",
                        (void **)&made->filters));
    fill_axis(&k->rows, scales, made->tables);
    fill_axis(&k->columns, scales, made->tables + rows);
    k->filter = made->filters;
    TRY_DONE(fill_filters(made));
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_scattering_free(made);
    return status;
}

void train_scattering_free(train_scattering *plan) {
    if (plan == NULL) return;
    base_free(plan->usual);
    base_free(plan->filters);
    base_free(plan->tables);
    base_free(plan);
}

/* ---- images ---- */

dpmf_status train_scattering_room(const train_scattering *plan, const kernels_scatter_set *set, float **out) {
    const int64_t image = plan->kernel.rows.length * plan->kernel.columns.length;
    return base_alloc((plan->features + image + kernels_scatter_room(&plan->kernel)) * set->lanes, sizeof(float),
                      "scattering", (void **)out);
}

/* Place i of an image of this size, reflected at its first and last number, which are not repeated. */
static int64_t reflect(int64_t i, int64_t size) {
    const int64_t period = size > 1 ? 2 * (size - 1) : 1;
    const int64_t within = ((i % period) + period) % period;
    return within < size ? within : period - within;
}

/* Every path of every colour to the scale that it has over images of noise. */
static void scale_paths(const train_scattering *plan, int64_t lanes, float *numbers) {
    const int64_t paths = kernels_scatter_paths(&plan->kernel), many = plan->channel / paths * lanes;
    for (int64_t i = 0; i < plan->channels * paths; i++, numbers += many)
        for (int64_t j = 0; j < many; j++)
            numbers[j] = (numbers[j] - plan->usual[i % paths]) * plan->usual[paths + i % paths];
}

void train_scattering_apply(const train_scattering *plan, const kernels_scatter_set *set, int64_t count, const float *x,
                            float *room) {
    const kernels_scatter_plan *k = &plan->kernel;
    const int64_t rows = k->rows.length, columns = k->columns.length, lanes = set->lanes;
    const int64_t pixels = plan->height * plan->width, size = plan->channels * pixels;
    float *image = room + plan->features * lanes, *scratch = image + rows * columns * lanes;
    memset(image, 0, (size_t)(rows * columns * lanes) * sizeof *image);
    for (int64_t c = 0; c < plan->channels; c++) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                const int64_t from = c * pixels + reflect(i - plan->above, plan->height) * plan->width +
                                     reflect(j - plan->left, plan->width);
                for (int64_t l = 0; l < count; l++)
                    image[(i * columns + j) * lanes + l] = x[l * size + from];
            }
        set->scatter(k, image, scratch, room + c * plan->channel * lanes);
    }
    if (plan->usual != NULL)
        scale_paths(plan, lanes, room);
    else
        set->normalise(plan->features, TRAIN_SCATTERING_GROUP * k->rows.outputs * k->columns.outputs, ADDED, room);
}
