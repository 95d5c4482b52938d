/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf predict: the predictions of a trained model. The weights are private; the inputs and the predictions are not
 * protected.
 */
#include "options/verbs.h"
#include "output.h"
#include "rows.h"
#include "train/train.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

typedef struct prediction {
    training data; /* test, hidden */
    bool labelled; /* the classes are known, so the accuracy is computed */
    float *weights;
    int64_t dim;
    int32_t *label;
    double *probability;
} prediction;

static int read_weights(const arguments *given, prediction *p) {
    dpmf_array array = {0};
    char shown[SHOWN];
    dpmf_status status = dpmf_array_load(given->operand, &array);
    if (status != DPMF_OK) return fail_status(status, NULL);
    int code = 0;
    p->dim = array.shape[0] * array.shape[1];
    p->weights = allocate(p->dim, sizeof *p->weights);
    if (p->weights == NULL) code = fail_memory();
    for (int64_t i = 0; code == 0 && i < p->dim; i++)
        p->weights[i] = (float)array.values[i];
    dpmf_array_free(&array);
    if (code == 0 && dpmf_model_classes(dpmf_dataset_features(p->data.test), p->data.hidden, p->dim) == 0)
        code = fail(EXIT_UNABLE, "%s has %" PRId64 " weights: no model %s with %" PRId64 " features has this number",
                    show(given->operand, shown), p->dim, option_text(given, OPTION_MODEL),
                    dpmf_dataset_features(p->data.test));
    return code;
}

static int answer(const arguments *given, prediction *p) {
    const int64_t count = dpmf_dataset_count(p->data.test);
    const dpmf_run run = run_with((int)given->count[OPTION_THREADS]);
    p->label = allocate(count, sizeof *p->label);
    p->probability = allocate(count, sizeof *p->probability);
    if (p->label == NULL || p->probability == NULL) return fail_memory();
    dpmf_status status =
        dpmf_model_predict(p->data.test, p->data.hidden, p->dim, p->weights, &run, p->label, p->probability);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

static double accuracy_of(const prediction *p) {
    const int64_t count = dpmf_dataset_count(p->data.test);
    const int32_t *known = dpmf_dataset_labels(p->data.test);
    int64_t right = 0;
    for (int64_t i = 0; i < count; i++)
        right += p->label[i] == known[i];
    return (double)right / (double)count;
}

static void add_json(text_buffer *t, const prediction *p) {
    const int64_t count = dpmf_dataset_count(p->data.test);
    json_begin(t);
    json_integer(t, "examples", count);
    json_double(t, "accuracy", p->labelled ? accuracy_of(p) : NAN);
    json_open(t, "class", '[');
    for (int64_t i = 0; i < count; i++)
        json_integer(t, NULL, p->label[i]);
    json_close(t, ']');
    json_doubles(t, "probability", count, p->probability);
    json_end(t);
}

/* Writes --out completely or not at all, else standard output. */
static int print(const arguments *given, const prediction *p) {
    text_buffer t = {0};
    row_output out = {0};
    const char *path = given->text[OPTION_OUT];
    if (option_given(given, OPTION_JSON))
        add_json(&t, p);
    else {
        text_add(&t, "class,probability\n");
        for (int64_t i = 0; i < dpmf_dataset_count(p->data.test); i++)
            text_add(&t, "%d,%.6g\n", (int)p->label[i], p->probability[i]);
    }
    int code = path == NULL || t.failed ? text_print(&t) : rows_open(path, true, &out);
    if (code == 0 && path != NULL) code = rows_write(&out, t.bytes, t.length);
    if (code == 0 && path != NULL) code = rows_finish(&out);
    rows_close(&out);
    text_free(&t);
    if (code == 0 && path != NULL && p->labelled)
        fail(0, "%.2f %% of %" PRId64 " examples are correct", 100.0 * accuracy_of(p),
             dpmf_dataset_count(p->data.test));
    return code;
}

int cmd_predict(const arguments *given) {
    prediction p = {.data.given = given};
    int code = end_at_once(NULL) ? training_test_data(&p.data, &p.labelled) : fail(EXIT_CANCELLED, "cancelled");
    if (code == 0) code = read_weights(given, &p);
    if (code == 0) code = answer(given, &p);
    if (code == 0) code = print(given, &p);
    dpmf_dataset_free(p.data.test);
    free(p.weights);
    free(p.label);
    free(p.probability);
    return code;
}
