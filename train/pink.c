/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The usual mean and deviation of every path of scattering, from images of noise that are made here: no data set enters, so that
 * features on this scale are a fixed function of one image and cost no privacy.
 *
 * Notation. H x W the padded image, f = (k/H, l/W) a frequency, each part within half a turn, |f| its length; at f = 0 instead
 * the least length of any other frequency. a and b independent, of mean 0 and variance 1:
 *
 *     x(p) = 1/2 + (1/4) sum_f |f|^-1 (a_f cos 2 pi f.p + b_f sin 2 pi f.p) / sqrt(sum_f |f|^-2)
 *
 * so x has mean 1/2, deviation 1/4 and a power that falls as 1/|f|^2, as in photographs (Field 1987). a and b are sums of twelve
 * uniform numbers minus 6. Of IMAGES such images and all outputs of a path: mean m, deviation s. The feature is (v - m)/s.
 *
 * Why: orders and scales of scattering differ in size by a factor of a hundred. Groups of one image (train/scattering.c) make
 * them alike but remove the contrast of the image, which costs a linear model on colour photographs several points. Tramer
 * and Boneh 2021 take means and deviations of the private data with noise; these here need none.
 */
#include "train/scattering.h"

#include "base/memory.h"
#include "train/basic.h"

#include <math.h>

enum { IMAGES = 256, UNIFORMS = 12 };
static const double MEAN = 0.5, DEVIATION = 0.25;

typedef struct pink_noise {
    const train_scattering *plan;
    int64_t size[2];
    double *amplitude, *re, *im, *line, *circle[2]; /* circle: cosine and sine of 2 pi i/length */
    double *sum, *square;                           /* of each path */
    uint64_t state;
} pink_noise;

/* SplitMix64 (Steele, Lea, Flood 2014): integers alone, so that every machine has the same images. */
static uint64_t next_word(pink_noise *p) {
    uint64_t z = p->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static double next_normal(pink_noise *p) {
    uint64_t sum = 0;
    for (int i = 0; i < UNIFORMS; i++)
        sum += next_word(p) >> 32;
    return (double)sum * 0x1p-32 - 0.5 * UNIFORMS;
}

static void fill_spectrum(pink_noise *p) {
    const int64_t rows = p->size[0], columns = p->size[1], longest = rows > columns ? rows : columns;
    double power = 0.0;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            const double y = (double)(2 * i <= rows ? i : i - rows) / (double)rows;
            const double x = (double)(2 * j <= columns ? j : j - columns) / (double)columns;
            const double least = 1.0 / (double)longest, length = i + j > 0 ? sqrt(y * y + x * x) : least;
            p->amplitude[i * columns + j] = 1.0 / length;
            power += 1.0 / (length * length);
        }
    const double factor = DEVIATION / sqrt(power);
    for (int64_t i = 0; i < rows * columns; i++)
        p->amplitude[i] *= factor;
    for (int axis = 0; axis < 2; axis++)
        for (int64_t i = 0; i < p->size[axis]; i++)
            train_turn((double)i / (double)p->size[axis], &p->circle[axis][2 * i], &p->circle[axis][2 * i + 1]);
}

/* One line of complex numbers `step` apart becomes its transform. */
static void turn_line(const pink_noise *p, int axis, double *re, double *im, int64_t step) {
    const int64_t length = p->size[axis];
    const double *circle = p->circle[axis];
    for (int64_t k = 0; k < length; k++) {
        double sum_re = 0.0, sum_im = 0.0;
        for (int64_t n = 0, at = 0; n < length; n++, at = at + k < length ? at + k : at + k - length) {
            const double c = circle[2 * at], s = circle[2 * at + 1], r = re[n * step], m = im[n * step];
            sum_re += r * c + m * s;
            sum_im += m * c - r * s;
        }
        p->line[2 * k] = sum_re;
        p->line[2 * k + 1] = sum_im;
    }
    for (int64_t k = 0; k < length; k++) {
        re[k * step] = p->line[2 * k];
        im[k * step] = p->line[2 * k + 1];
    }
}

/* The next image, into a lane of `image`. */
static void make_image(pink_noise *p, int64_t lanes, float *image) {
    const int64_t rows = p->size[0], columns = p->size[1];
    for (int64_t i = 0; i < rows * columns; i++) {
        p->re[i] = p->amplitude[i] * next_normal(p);
        p->im[i] = p->amplitude[i] * next_normal(p);
    }
    for (int64_t i = 0; i < rows; i++)
        turn_line(p, 1, p->re + i * columns, p->im + i * columns, 1);
    for (int64_t j = 0; j < columns; j++)
        turn_line(p, 0, p->re + j, p->im + j, columns);
    for (int64_t i = 0; i < rows * columns; i++)
        image[i * lanes] = (float)(MEAN + p->re[i]);
}

/* Adds the outputs of one image, in one order for any number of lanes. */
static void add_outputs(pink_noise *p, int64_t lanes, const float *out) {
    const kernels_scatter_plan *k = &p->plan->kernel;
    const int64_t paths = kernels_scatter_paths(k), places = k->rows.outputs * k->columns.outputs;
    for (int64_t i = 0; i < paths; i++)
        for (int64_t j = 0; j < places; j++) {
            const double v = (double)out[(i * places + j) * lanes];
            p->sum[i] += v;
            p->square[i] += v * v;
        }
}

static dpmf_status allocate(pink_noise *p) {
    const int64_t all = p->size[0] * p->size[1], paths = kernels_scatter_paths(&p->plan->kernel);
    const int64_t longest = p->size[0] > p->size[1] ? p->size[0] : p->size[1];
    return BASE_ARRAYS("the noise of scattering", {&p->amplitude, all}, {&p->re, all}, {&p->im, all},
                       {&p->line, 2 * longest}, {&p->circle[0], 2 * p->size[0]}, {&p->circle[1], 2 * p->size[1]},
                       {&p->sum, paths}, {&p->square, paths});
}

dpmf_status train_scattering_measure(train_scattering *plan, const kernels_scatter_set *set) {
    dpmf_status status = DPMF_OK;
    const kernels_scatter_plan *k = &plan->kernel;
    pink_noise p = {.plan = plan, .size = {k->rows.length, k->columns.length}, .state = 1};
    const int64_t paths = kernels_scatter_paths(k), lanes = set->lanes;
    const int64_t outputs = paths * k->rows.outputs * k->columns.outputs, pixels = p.size[0] * p.size[1];
    float *room = NULL, *usual = NULL;
    TRY_DONE(allocate(&p));
    TRY_DONE(
        base_alloc((outputs + pixels + kernels_scatter_room(k)) * lanes, sizeof(float), "scattering", (void **)&room));
    TRY_DONE(base_alloc(2 * paths, sizeof(float), "scattering", (void **)&usual));
    fill_spectrum(&p);
    for (int64_t first = 0; first < IMAGES; first += lanes) { /* the lanes of every set divide IMAGES */
        float *image = room + outputs * lanes;
        for (int64_t l = 0; l < lanes; l++)
            make_image(&p, lanes, image + l);
        set->scatter(k, image, image + pixels * lanes, room);
        for (int64_t l = 0; l < lanes; l++)
            add_outputs(&p, lanes, room + l);
    }
    const double count = (double)IMAGES * (double)(k->rows.outputs * k->columns.outputs);
    for (int64_t i = 0; i < paths; i++) {
        const double mean = p.sum[i] / count, variance = p.square[i] / count - mean * mean;
        usual[i] = (float)mean;
        usual[paths + i] = (float)(1.0 / sqrt(variance));
    }
    base_free(plan->usual);
    plan->usual = usual;
    usual = NULL;
done:
    base_free(usual);
    base_free(room);
    base_free(p.amplitude);
    return status;
}
