/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Softmax regression, and one hidden layer: forward and backward, TRAIN_LANES examples side by side.
 *
 *     z = W x + b,  p = softmax(z),  loss = -ln p[label],      d loss / d z = p - e_label =: d
 *     a = tanh(W1 x + b1),  z = W2 a + b2,                     d loss / d (W1 x + b1) = (W2' d) (1 - a^2)
 *
 * Sums have one order each (train/kernels/multiply/multiply.h), and exp and tanh are our own, of basic operations alone, so that a
 * training run has the same bits on every machine; mathematical libraries differ in the last place.
 */
#include "train/train.h"

#include "base/memory.h"
#include "base/random.h"
#include "train/basic.h"

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
    for (int64_t i = 0; i < all; i++)
        made.rows[i] = made.memory + i * TRAIN_LANES;
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

enum { TURNED = 16 }; /* lanes that are filled together: a cache line */

/* Row i of `out` = bias i + sum over rows k of turned[k, i] in[k], in as many lanes as `count` examples take; others: bias i. */
static void apply_layer(int64_t inputs, int64_t outputs, int64_t count, const float *turned, const float *bias,
                        const float *const *rows, float *out) {
    for (int64_t i = 0; i < outputs; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            out[i * TRAIN_LANES + l] = bias[i];
    const kernels_product job = {.rows = outputs,
                                 .columns = (count + TURNED - 1) / TURNED * TURNED,
                                 .terms = inputs,
                                 .a = turned,
                                 .a_stride = outputs,
                                 .b = rows,
                                 .c = out,
                                 .c_stride = TRAIN_LANES};
    kernels_multiply_get()->multiply(&job);
}

float *train_model_forward(const train_model *m, const float *weights, const train_turned *turned, int64_t count,
                           const float *const *x, train_lanes *lanes) {
    assert(count >= 1 && count <= TRAIN_LANES);
    /* Columns of lanes->x = the examples, sixteen at a time, so that few rows are read side by side; without one: zeros. */
    enum { TILE = 4 };
    for (int64_t l = 0; l < count; l += TURNED) {
        const int64_t wide = count - l < TURNED ? count - l : TURNED;
        float block[TILE][TURNED] = {{0}};
        for (int64_t j = 0; j < m->features; j += TILE) {
            const int64_t tall = m->features - j < TILE ? m->features - j : TILE;
            for (int64_t i = 0; i < wide; i++)
                for (int64_t k = 0; k < tall; k++)
                    block[k][i] = x[l + i][j + k];
            for (int64_t k = 0; k < tall; k++)
                memcpy(lanes->x + (j + k) * TRAIN_LANES + l, block[k], sizeof block[k]);
        }
    }
    apply_layer(m->features, m->outputs, count, turned->first, weights + m->first_bias, lanes->x_rows, lanes->first);
    if (m->hidden == 0) return lanes->first;
    for (int64_t i = 0; i < m->hidden; i++) { /* tanh */
        float *row = lanes->first + i * TRAIN_LANES;
        for (int l = 0; l < TRAIN_LANES; l++) {
            const double value = (double)row[l], e = train_exp_negative(-2.0 * fabs(value));
            const double t = (1.0 - e) / (1.0 + e);
            row[l] = (float)(value < 0.0 ? -t : t);
        }
    }
    apply_layer(m->hidden, m->classes, count, turned->second, weights + m->second_bias, lanes->first_rows,
                lanes->second);
    return lanes->second;
}

void train_model_backward(const train_model *m, const float *weights, int64_t count, const int32_t *label,
                          train_lanes *lanes) {
    float *z = m->hidden > 0 ? lanes->second : lanes->first;
    /* Columns of z become their softmax. A number that is not finite makes its column NaN. */
    float largest[TRAIN_LANES];
    double sum[TRAIN_LANES] = {0};
    memcpy(largest, z, sizeof largest);
    for (int64_t i = 1; i < m->classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            largest[l] = z[i * TRAIN_LANES + l] > largest[l] ? z[i * TRAIN_LANES + l] : largest[l];
    for (int64_t i = 0; i < m->classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++)
            sum[l] += train_exp_negative((double)z[i * TRAIN_LANES + l] - (double)largest[l]);
    for (int64_t i = 0; i < m->classes; i++)
        for (int l = 0; l < TRAIN_LANES; l++) {
            float *at = z + i * TRAIN_LANES + l;
            *at = (float)(train_exp_negative((double)*at - (double)largest[l]) / sum[l]);
        }
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

/* ---- evaluation: the part that is right, the mean cross-entropy ln(sum e^z) - z[label], answers with e^z / sum e^z ---- */

typedef struct evaluation {
    const train_model *model;
    const float *weights;
    const dpmf_dataset *data;
    train_turned turned;
    train_lanes *lanes; /* one per thread */
    int64_t *right;     /* of each chunk of TRAIN_LANES examples */
    double *loss;
    int32_t *answer; /* of each example; NULL: not asked */
    double *probability;
} evaluation;

static dpmf_status judge_chunk(void *context, int64_t item, int worker) {
    evaluation *e = context;
    const float *x[TRAIN_LANES] = {NULL};
    const int64_t from = item * TRAIN_LANES, left = e->data->count - from;
    const int64_t count = left < TRAIN_LANES ? left : TRAIN_LANES;
    for (int64_t l = 0; l < count; l++)
        x[l] = e->data->x + (from + l) * e->data->features;
    const float *z = train_model_forward(e->model, e->weights, &e->turned, count, x, &e->lanes[worker]);
    for (int64_t l = 0; l < count; l++) {
        /* The first of the largest logits is the answer; NaN is no answer. */
        const int32_t label = e->data->label[from + l];
        int32_t best = -1;
        double largest = -INFINITY, sum = 0.0;
        for (int64_t i = 0; i < e->model->classes; i++)
            if ((double)z[i * TRAIN_LANES + l] > largest) {
                largest = (double)z[i * TRAIN_LANES + l];
                best = (int32_t)i;
            }
        for (int64_t i = 0; i < e->model->classes; i++)
            sum += exp((double)z[i * TRAIN_LANES + l] - largest);
        if (e->answer != NULL) e->answer[from + l] = best;
        if (e->probability != NULL) e->probability[from + l] = best < 0 ? 0.0 : 1.0 / sum;
        e->right[item] += best == label;
        if (label < e->model->classes) e->loss[item] += log(sum) + largest - (double)z[label * TRAIN_LANES + l];
    }
    return DPMF_OK;
}

/* Accuracy and mean loss over a data set whose features fit, and answers where `asked` has room for them. */
static dpmf_status evaluate(const train_model *model, const float *weights, const dpmf_dataset *data, base_pool *pool,
                            const evaluation *asked, double *accuracy, double *loss) {
    dpmf_status status = DPMF_OK;
    evaluation e = {.model = model, .weights = weights, .data = data};
    if (asked != NULL) e.answer = asked->answer, e.probability = asked->probability;
    const int threads = base_pool_threads(pool);
    const int64_t chunks = (data->count + TRAIN_LANES - 1) / TRAIN_LANES;
    int64_t right = 0;
    double sum = 0.0;
    if (data->features != model->features || (asked == NULL && data->classes > model->classes))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "a data set of %" PRId64 " features and %" PRId64 " classes, accepted by this model: %" PRId64
                         " features, at most %" PRId64 " classes",
                         data->features, data->classes, model->features, model->classes);
    if (asked == NULL && accuracy == NULL && loss == NULL) return DPMF_OK; /* the question was whether they fit */
    TRY_DONE(base_alloc(model->outputs * model->features, sizeof(float), "the model", (void **)&e.turned.first));
    TRY_DONE(base_alloc(model->classes * model->hidden, sizeof(float), "the model", (void **)&e.turned.second));
    TRY_DONE(base_alloc(threads, sizeof *e.lanes, "examples", (void **)&e.lanes));
    TRY_DONE(base_alloc(chunks, sizeof *e.right, "the evaluation", (void **)&e.right));
    TRY_DONE(base_alloc_doubles(chunks, "the evaluation", &e.loss));
    for (int i = 0; i < threads; i++)
        TRY_DONE(train_lanes_create(model, &e.lanes[i]));
    train_model_turn(model, weights, &e.turned);
    TRY_DONE(base_pool_run(pool, chunks, judge_chunk, &e));
    for (int64_t i = 0; i < chunks; i++) {
        right += e.right[i];
        sum += e.loss[i];
    }
    if (accuracy != NULL) *accuracy = (double)right / (double)data->count;
    if (loss != NULL) *loss = sum / (double)data->count;
done:
    for (int i = 0; e.lanes != NULL && i < threads; i++)
        train_lanes_free(&e.lanes[i]);
    base_free(e.lanes);
    base_free(e.turned.first);
    base_free(e.turned.second);
    base_free(e.right);
    base_free(e.loss);
    return status;
}

dpmf_status dpmf_trainer_evaluate(const dpmf_trainer *trainer, const dpmf_dataset *dataset, double *accuracy,
                                  double *loss) {
    if (trainer == NULL || dataset == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_trainer_evaluate: the trainer or the data set is NULL");
    const char *own = trainer->data->names, *other = dataset->names;
    if (*own != '\0' && *other != '\0' && strcmp(own, other) != 0)
        return base_fail(DPMF_ERROR_ARGUMENT, "the features of the data set have other names, or another order, than "
                                              "those that the model was trained with");
    return evaluate(&trainer->model, trainer->weights, dataset, trainer->pool, NULL, accuracy, loss);
}

int64_t dpmf_model_classes(int64_t features, int64_t hidden, int64_t weights) {
    const int64_t most = (int64_t)1 << 24;
    if (features < 1 || features > TRAIN_FEATURES_MAX || hidden < 0 || hidden > most || weights < 1) return 0;
    const int64_t first = hidden * (features + 1), each = hidden > 0 ? hidden + 1 : features + 1;
    const int64_t classes = (weights - first) / each;
    return classes >= 1 && classes <= TRAIN_CLASSES_MAX && classes * each == weights - first ? classes : 0;
}

dpmf_status dpmf_model_predict(const dpmf_dataset *dataset, int64_t hidden, int64_t count, const float *weights,
                               const dpmf_run *run, int32_t *label, double *probability) {
    dpmf_status status = DPMF_OK;
    base_pool *pool = NULL;
    train_model model;
    const evaluation asked = {.answer = label, .probability = probability};
    if (dataset == NULL || weights == NULL || label == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "dpmf_model_predict: the data set, weights or label is NULL");
    const int64_t classes = dpmf_model_classes(dataset->features, hidden, count);
    if (classes == 0)
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "no model of %" PRId64 " features and %" PRId64 " hidden units has %" PRId64 " weights",
                         dataset->features, hidden, count);
    TRY(train_model_of(dataset->features, hidden, classes, &model));
    TRY(base_pool_create(run != NULL ? run->threads : 0, &pool));
    status = evaluate(&model, weights, dataset, pool, &asked, NULL, NULL);
    base_pool_free(pool);
    return status;
}
