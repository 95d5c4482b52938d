/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax regression, and one hidden layer: forward and backward, TRAIN_LANES examples side by side.
 *
 *     z = W x + b,  p = softmax(z),  loss = -ln p[label],      d loss / d z = p - e_label =: d
 *     a = tanh(W1 x + b1),  z = W2 a + b2,                     d loss / d (W1 x + b1) = (W2' d) (1 - a^2)
 *
 * Sums have one order each (kernels/multiply/multiply.h), and exp and tanh are our own, of basic operations alone, so that a
 * training run has the same bits on every machine; mathematical libraries differ in the last place.
 */
#include "train/train.h"

#include "base/memory.h"
#include "base/random.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

dpmf_status train_model_of(int64_t features, int64_t hidden, int64_t classes, train_model *out) {
    const int64_t most = (int64_t)1 << 24; /* so that no product of two passes 2^48 */
    assert(features >= 1 && features <= TRAIN_FEATURES_MAX && classes >= 1 && classes <= TRAIN_CLASSES_MAX);
    if (hidden < 0 || hidden > most)
        return base_fail(DPMF_ERROR_ARGUMENT, "hidden = %" PRId64 ", accepted: 0 (softmax regression) to %" PRId64,
                         hidden, most);
    train_model m = {.features = features, .hidden = hidden, .classes = classes};
    m.outputs = hidden > 0 ? hidden : classes;
    m.first_bias = m.outputs * features;
    m.second = m.first_bias + m.outputs;
    m.second_bias = m.second + classes * hidden;
    m.dim = hidden > 0 ? m.second_bias + classes : m.second;
    *out = m;
    return DPMF_OK;
}

/* Numbers 0 .. count - 1 of a stream in +-scale, a piece at a time. */
static dpmf_status fill_uniform(uint64_t seed, uint64_t stream, int64_t count, double scale, float *out) {
    double *numbers = NULL;
    TRY(base_alloc_doubles(count, "the initial weights", &numbers));
    base_random_uniforms(seed, stream, count, numbers);
    for (int64_t i = 0; i < count; i++)
        out[i] = (float)(scale * (2.0 * numbers[i] - 1.0));
    base_free(numbers);
    return DPMF_OK;
}

dpmf_status train_model_start(const train_model *m, uint64_t seed, float *weights) {
    memset(weights, 0, (size_t)m->dim * sizeof *weights);
    if (m->hidden == 0) return DPMF_OK;
    const double first = sqrt(6.0 / (double)(m->features + m->hidden));
    const double second = sqrt(6.0 / (double)(m->hidden + m->classes));
    TRY(fill_uniform(seed, 1, m->hidden * m->features, first, weights));
    return fill_uniform(seed, 2, m->classes * m->hidden, second, weights + m->second);
}

/* out[j * rows + i] = in[i * columns + j] */
static void turn(int64_t rows, int64_t columns, const float *in, float *out) {
    enum { TILE = 16 };
    for (int64_t i = 0; i < rows; i += TILE)
        for (int64_t j = 0; j < columns; j++)
            for (int64_t k = i; k < rows && k < i + TILE; k++)
                out[j * rows + k] = in[k * columns + j];
}

void train_model_turn(const train_model *m, const float *weights, train_turned *turned) {
    turn(m->outputs, m->features, weights, turned->first);
    if (m->hidden > 0) turn(m->classes, m->hidden, weights + m->second, turned->second);
}

/* ---- room ---- */

static void point_rows(int64_t rows, const float *memory, const float **out) {
    for (int64_t i = 0; i < rows; i++)
        out[i] = memory + i * TRAIN_LANES;
}

dpmf_status train_lanes_create(const train_model *m, train_lanes *out) {
    dpmf_status status = DPMF_OK;
    train_lanes made = {0};
    const int64_t all = m->features + m->outputs + m->classes;
    TRY_DONE(base_alloc((all + m->hidden) * TRAIN_LANES, sizeof(float), "examples", (void **)&made.memory));
    TRY_DONE(base_alloc(all, sizeof(float *), "examples", (void **)&made.rows));
    made.x = made.memory;
    made.first = made.x + m->features * TRAIN_LANES;
    made.second = made.first + m->outputs * TRAIN_LANES;
    made.back = made.second + m->classes * TRAIN_LANES;
    made.x_rows = made.rows;
    made.first_rows = made.x_rows + m->features;
    made.second_rows = made.first_rows + m->outputs;
    point_rows(all, made.memory, made.rows);
done:
    if (status == DPMF_OK)
        *out = made;
    else
        train_lanes_free(&made);
    return status;
}

void train_lanes_free(train_lanes *lanes) {
    base_free(lanes->memory);
    base_free((void *)lanes->rows);
    *lanes = (train_lanes){0};
}

/* ---- forward ---- */

/*
 * e^x for x <= 0 to some 1e-16: x = k ln 2 + r, |r| <= ln 2 / 2, and the Taylor series of e^r to r^12. No branches, so
 * that compilers do several at once; NaN stays NaN.
 */
static inline double exp_negative(double x) {
    static const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33; /* k ln2_high is exact */
    const double within = x >= -700.0 ? x : -700.0;
    const double k = (double)(int)(within * 1.4426950408889634 - 0.5);
    const double r = (within - k * ln2_high) - k * ln2_low;
    double sum = 1.0 / 479001600.0;
    sum = sum * r + 1.0 / 39916800.0;
    sum = sum * r + 1.0 / 3628800.0;
    sum = sum * r + 1.0 / 362880.0;
    sum = sum * r + 1.0 / 40320.0;
    sum = sum * r + 1.0 / 5040.0;
    sum = sum * r + 1.0 / 720.0;
    sum = sum * r + 1.0 / 120.0;
    sum = sum * r + 1.0 / 24.0;
    sum = sum * r + 1.0 / 6.0;
    sum = sum * r + 0.5;
    sum = sum * r + 1.0;
    sum = sum * r + 1.0;
    const double shifted = k + 0x1.00000000003ffp52; /* 2^52 + 1023 + k: its low bits are the exponent of 2^k */
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52; /* k >= -1011: a normal number */
    double power;
    memcpy(&power, &bits, sizeof power);
    const double small = x < -700.0 ? 0.0 : x; /* or NaN */
    return x >= -700.0 ? sum * power : small;
}

static void tanh_of(float *row) {
    for (int l = 0; l < TRAIN_LANES; l++) {
        const double x = (double)row[l], e = exp_negative(-2.0 * fabs(x));
        const double t = (1.0 - e) / (1.0 + e);
        row[l] = (float)(x < 0.0 ? -t : t);
    }
}

/* Row i of `out` = bias i + sum over rows k of turned[k, i] in[k]. */
static void apply_layer(int64_t inputs, int64_t outputs, const float *turned, const float *bias,
                        const float *const *rows, float *out) {
    for (int64_t i = 0; i < outputs; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            out[i * TRAIN_LANES + l] = bias[i];
    const kernels_product job = {.rows = outputs,
                                 .columns = TRAIN_LANES,
                                 .terms = inputs,
                                 .a = turned,
                                 .a_stride = outputs,
                                 .b = rows,
                                 .c = out,
                                 .c_stride = TRAIN_LANES};
    kernels_multiply_get()->multiply(&job);
}

/* Columns of lanes->x = the examples, four by four; lanes without one are zero. */
static void load_lanes(int64_t features, int64_t count, const float *const *x, float *out) {
    enum { TILE = 4, TURNED = 16 };
    float block[TILE][TURNED];
    if (count < TRAIN_LANES) memset(out, 0, (size_t)features * TRAIN_LANES * sizeof *out);
    for (int64_t j = 0; j < features; j += TILE)
        for (int64_t l = 0; l < count; l += TURNED) {
            const int64_t wide = count - l < TURNED ? count - l : TURNED,
                          tall = features - j < TILE ? features - j : TILE;
            for (int64_t i = 0; i < wide; i++)
                for (int64_t k = 0; k < tall; k++)
                    block[k][i] = x[l + i][j + k];
            for (int64_t k = 0; k < tall; k++)
                memcpy(out + (j + k) * TRAIN_LANES + l, block[k], (size_t)wide * sizeof(float));
        }
}

float *train_model_forward(const train_model *m, const float *weights, const train_turned *turned, int64_t count,
                           const float *const *x, train_lanes *lanes) {
    assert(count >= 1 && count <= TRAIN_LANES);
    load_lanes(m->features, count, x, lanes->x);
    apply_layer(m->features, m->outputs, turned->first, weights + m->first_bias, lanes->x_rows, lanes->first);
    if (m->hidden == 0) return lanes->first;
    for (int64_t i = 0; i < m->hidden; i++)
        tanh_of(lanes->first + i * TRAIN_LANES);
    apply_layer(m->hidden, m->classes, turned->second, weights + m->second_bias, lanes->first_rows, lanes->second);
    return lanes->second;
}

/* ---- backward ---- */

/* Columns of z become their softmax. A number that is not finite makes its column NaN. */
static void softmax(int64_t classes, float *z) {
    float largest[TRAIN_LANES];
    double sum[TRAIN_LANES] = {0};
    memcpy(largest, z, sizeof largest);
    for (int64_t i = 1; i < classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            largest[l] = z[i * TRAIN_LANES + l] > largest[l] ? z[i * TRAIN_LANES + l] : largest[l];
    for (int64_t i = 0; i < classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            sum[l] += exp_negative((double)z[i * TRAIN_LANES + l] - (double)largest[l]);
    for (int64_t i = 0; i < classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++) {
            float *at = z + i * TRAIN_LANES + l;
            *at = (float)(exp_negative((double)*at - (double)largest[l]) / sum[l]);
        }
}

void train_model_backward(const train_model *m, const float *weights, int64_t count, const int32_t *label,
                          train_lanes *lanes) {
    float *z = m->hidden > 0 ? lanes->second : lanes->first;
    softmax(m->classes, z);
    for (int64_t l = 0; l < count; l++)
        z[label[l] * TRAIN_LANES + l] -= 1.0f;
    if (m->hidden == 0) return;
    memset(lanes->back, 0, (size_t)(m->hidden * TRAIN_LANES) * sizeof(float));
    const kernels_product job = {.rows = m->hidden,
                                 .columns = TRAIN_LANES,
                                 .terms = m->classes,
                                 .a = weights + m->second,
                                 .a_stride = m->hidden,
                                 .b = lanes->second_rows,
                                 .c = lanes->back,
                                 .c_stride = TRAIN_LANES};
    kernels_multiply_get()->multiply(&job);
    for (int64_t i = 0; i < m->hidden * TRAIN_LANES; i++)
        lanes->back[i] *= 1.0f - lanes->first[i] * lanes->first[i];
}
