/* SPDX-License-Identifier: Apache-2.0 */
/* The grid that sums of gradients lie on: whole numbers, so that sums are exact in any order. */
#ifndef TRAIN_GRID_H
#define TRAIN_GRID_H

#include "base/status.h"

#include <string.h>

/* ---- numbers on a grid (train/grid.c has the mathematics) ---- */

/* x to the nearest whole number, ties to even, |x| < 2^51: as a double, and as an integer. */
static inline double train_whole(double x) {
    const double middle = 6755399441055744.0; /* 1.5 x 2^52: what is added to it loses its fraction */
    return (x + middle) - middle;
}

static inline int64_t train_integer(double x) {
    const double shifted = x + 6755399441055744.0;
    int64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    return bits - INT64_C(0x4338000000000000);
}

/* |x|^2 in double: no float overflows it. */
double train_square_of(int64_t count, const float *x);

/* Inputs of a layer, with the 1 of the bias, on a grid of their own. */
typedef struct train_input {
    double square; /* |b|^2 as an integer, the 1 included; NaN: an input is not finite, and all of them are 0 now */
    double step;   /* x = b step, a power of two */
} train_input;

/* Rounds the inputs to multiples of `step`, 2^-20 to 2^-21 of their norm. */
train_input train_round_inputs(int64_t count, float *x);

/* The whole number that stands for the bias's 1, times `step`. */
double train_one_of(const train_input *input);

/* Beyond these the grid of a sum leaves the range of floats; the noise has the same bounds. */
#define TRAIN_CLIP_MIN 0x1p-100
#define TRAIN_CLIP_MAX 0x1p100

typedef struct train_grid {
    double step, per_step; /* xi, a power of two, and 1/xi */
    double radius;         /* floor(clip/xi): the largest norm, in steps, that a unit may add */
} train_grid;

/*
 * For a clip norm, sums of up to `units` units, and noise of standard deviation `noise` (0: none). Refuses what no grid
 * holds; `outputs`: of all layers together.
 */
DPMF_MUST_CHECK dpmf_status train_grid_choose(double clip, int64_t units, double noise, double given, int64_t outputs,
                                              train_grid *out);

/* A layer of one example: its derivatives, and its inputs on their grid. */
typedef struct train_layer {
    int64_t outputs;
    const float *d;
    train_input input;
    double *out; /* the derivatives as they are to be multiplied with the inputs: products on the grid */
} train_layer;

/*
 * Clips the gradient sum over `layers` of d x': fills `out` so that the products have a norm of at most radius, exactly.
 * All zeros if a number is not finite, or if the norm is above zero_above > 0. *clipped: 1 if it is not the gradient as
 * it was.
 */
void train_clip_layers(const train_grid *grid, double zero_above, int layers, const train_layer *layer, int *clipped);

/*
 * The same for a vector v/count that has been formed: *factor so that rint(factor v) has a norm of at most radius, and
 * not finite numbers give 0.
 */
void train_clip_vector(const train_grid *grid, double zero_above, int64_t dim, const float *v, int64_t count,
                       double *factor, int *clipped);

#endif
