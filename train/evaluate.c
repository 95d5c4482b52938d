/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How good a model is: the part of the examples that it puts right, and its mean cross-entropy ln(sum e^z) - z[label]; and
 * what it answers, each with its probability e^z / sum e^z.
 */
#include "train/train.h"

#include "base/memory.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

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

/* The first of the largest logits is the answer; NaN is no answer. */
static void judge(const evaluation *e, const float *z, int64_t lane, int64_t example, int64_t *right, double *loss) {
    const int32_t label = e->data->label[example];
    int32_t best = -1;
    double largest = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < e->model->classes; i++)
        if ((double)z[i * TRAIN_LANES + lane] > largest) {
            largest = (double)z[i * TRAIN_LANES + lane];
            best = (int32_t)i;
        }
    for (int64_t i = 0; i < e->model->classes; i++)
        sum += exp((double)z[i * TRAIN_LANES + lane] - largest);
    if (e->answer != NULL) e->answer[example] = best;
    if (e->probability != NULL) e->probability[example] = best < 0 ? 0.0 : 1.0 / sum;
    *right += best == label;
    if (label < e->model->classes) *loss += log(sum) + largest - (double)z[label * TRAIN_LANES + lane];
}

static dpmf_status judge_chunk(void *context, int64_t item, int worker) {
    evaluation *e = context;
    const float *x[TRAIN_LANES] = {NULL};
    const int64_t from = item * TRAIN_LANES, left = e->data->count - from;
    const int64_t count = left < TRAIN_LANES ? left : TRAIN_LANES;
    for (int64_t l = 0; l < count; l++)
        x[l] = e->data->x + (from + l) * e->data->features;
    const float *z = train_model_forward(e->model, e->weights, &e->turned, count, x, &e->lanes[worker]);
    for (int64_t l = 0; l < count; l++)
        judge(e, z, l, from + l, &e->right[item], &e->loss[item]);
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
