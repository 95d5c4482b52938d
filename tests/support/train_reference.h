/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients by their definition, in double: formed one by one, clipped, and added. */
#ifndef DPMF_TESTS_TRAIN_REFERENCE_H
#define DPMF_TESTS_TRAIN_REFERENCE_H

#include "support/train_cases.h"

#include <stdlib.h>

/* Adds scale x the gradient of one example to `out`. */
static inline void add_gradient(const dpmf_dataset *data, int64_t hidden, const float *w, int64_t example, double scale,
                                double *out) {
    const int64_t d = data->features, c = data->classes, u = hidden > 0 ? hidden : c;
    const float *x = data->x + example * d;
    double first[64] = {0}, z[64] = {0}, back[64] = {0}, sum = 0, *at = out;
    for (int64_t i = 0; i < u; i++) {
        first[i] = (double)w[u * d + i];
        for (int64_t j = 0; j < d; j++)
            first[i] += (double)w[i * d + j] * (double)x[j];
    }
    const float *w2 = w + u * d + u;
    for (int64_t i = 0; i < c; i++) {
        z[i] = hidden > 0 ? (double)w2[c * hidden + i] : first[i];
        for (int64_t j = 0; j < hidden; j++)
            z[i] += (double)w2[i * hidden + j] * tanh(first[j]);
        sum += exp(z[i]);
    }
    for (int64_t i = 0; i < c; i++)
        z[i] = exp(z[i]) / sum - (i == data->label[example]);
    for (int64_t j = 0; j < u; j++) {
        back[j] = hidden > 0 ? 0 : z[j];
        for (int64_t i = 0; hidden > 0 && i < c; i++)
            back[j] += (double)w2[i * hidden + j] * z[i] * (1 - tanh(first[j]) * tanh(first[j]));
    }
    for (int64_t i = 0; i < u; i++)
        for (int64_t j = 0; j < d; j++)
            *at++ += scale * back[i] * (double)x[j];
    for (int64_t i = 0; i < u; i++)
        *at++ += scale * back[i];
    for (int64_t i = 0; hidden > 0 && i < c; i++)
        for (int64_t j = 0; j < hidden; j++)
            *at++ += scale * z[i] * tanh(first[j]);
    for (int64_t i = 0; hidden > 0 && i < c; i++)
        *at++ += scale * z[i];
}

static inline double norm_of(int64_t count, const double *x) {
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

/* Adds a unit's clipped gradient, formed whole; returns its norm. */
static inline double add_unit(const dpmf_dataset *data, const train_clip *clip, int64_t hidden, int64_t dim,
                              const float *w, int64_t unit, double *out) {
    double *own = calloc((size_t)dim, sizeof *own);
    int64_t size = 0;
    for (int64_t i = 0; i < data->count; i++)
        if ((clip->by_unit ? data->unit[i] : i) == unit) size++;
    for (int64_t i = 0; i < data->count; i++)
        if ((clip->by_unit ? data->unit[i] : i) == unit) add_gradient(data, hidden, w, i, 1.0 / (double)size, own);
    const double norm = norm_of(dim, own);
    double factor = norm > clip->clip ? clip->clip / norm : 1;
    if (clip->gamma > 0) factor = clip->clip / (norm + clip->gamma);
    if (clip->zero_above > 0 && norm > clip->zero_above) factor = 0;
    for (int64_t i = 0; i < dim; i++)
        out[i] += factor * own[i];
    free(own);
    return norm;
}

#endif
