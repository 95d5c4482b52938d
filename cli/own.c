/* SPDX-License-Identifier: Apache-2.0 */
#include "own.h"

#include "output.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool takes_own_matrix(const dpmf_family *kind) {
    return strcmp(kind->parameters, "matrix") == 0 || strcmp(kind->parameters, RECURRENCE) == 0;
}

const char *decoder_path(const arguments *given) {
    static const char prefix[] = "file:";
    const char *text = option_given(given, OPTION_DECODER) ? option_text(given, OPTION_DECODER) : "";
    return strncmp(text, prefix, strlen(prefix)) == 0 ? text + strlen(prefix) : NULL;
}

/* {"matrix": [[...], ...], "u": [...], "v": [...]}: values has the rows of the matrix, then u, then v. */
int read_recurrence(const cJSON *tree, numbers *n) {
    const cJSON *matrix = cJSON_GetObjectItemCaseSensitive(tree, "matrix"), *list;
    const cJSON *u = cJSON_GetObjectItemCaseSensitive(tree, "u"), *v = cJSON_GetObjectItemCaseSensitive(tree, "v");
    char problem[160];
    n->key = RECURRENCE;
    if (!cJSON_IsArray(matrix) || !cJSON_IsArray(u) || !cJSON_IsArray(v) || cJSON_GetArraySize(tree) != 3)
        return bad_file(n->path, "not a JSON object with three lists: matrix, u and v");
    const int64_t d = n->count = n->width = cJSON_GetArraySize(matrix);
    if (d < 1 || d > DPMF_RECURRENT_MAX || cJSON_GetArraySize(u) != d || cJSON_GetArraySize(v) != d) {
        snprintf(problem, sizeof problem,
                 "a matrix of %" PRId64 " rows, u of %d numbers and v of %d, accepted are as many of each, 1 to %d", d,
                 cJSON_GetArraySize(u), cJSON_GetArraySize(v), DPMF_RECURRENT_MAX);
        return bad_file(n->path, problem);
    }
    int code = check_lengths(matrix, n, d, 0);
    if (code != 0) return code;
    n->values = allocate(d + 2, d * (int64_t)sizeof *n->values);
    if (n->values == NULL) return fail_memory();
    double *row = n->values;
    cJSON_ArrayForEach(list, matrix) {
        if (code == 0) code = read_list(list, n, row, 1);
        row += d;
    }
    if (code == 0) code = read_list(u, n, row, 1);
    return code != 0 ? code : read_list(v, n, row + d, 1);
}

/* B as .npy: a row for each step of a stamp, a column for each row of C. */
static int read_decoder(const char *path, int64_t steps, int64_t rows, dpmf_array *out) {
    char shown[SHOWN], about[SHOWN + 20] = "--decoder file:";
    show(path, about + strlen(about));
    dpmf_status status = dpmf_array_load(path, out);
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file, not in the command */
    if (status != DPMF_OK) return fail_status(status, about);
    if (out->dimensions == 2 && out->shape[0] == steps && out->shape[1] == rows) return 0;
    return fail(EXIT_UNABLE,
                "--decoder file:%s: %" PRId64 " x %" PRId64 ", accepted is %" PRId64 " x %" PRId64
                " (the steps and the rows of C)",
                show(path, shown), out->shape[0], out->dimensions == 2 ? out->shape[1] : 1, steps, rows);
}

static bool is_lower_triangular(const numbers *n) {
    for (int64_t i = 0; i < n->count; i++)
        for (int64_t j = i + 1; j < n->width; j++)
            if (n->values[i * n->width + j] != 0) return false;
    return n->count == n->width;
}

int make_own(const arguments *given, const dpmf_family *kind, const dpmf_workload *workload,
             const strategy_shape *shape, dpmf_strategy **out) {
    char about[SHOWN + 16] = "--parameters ";
    const char *decoder = decoder_path(given);
    const int64_t block = dpmf_workload_get(workload).steps / shape->stamps;
    numbers n;
    dpmf_array b = {0};
    int code = read_numbers(option_text(given, OPTION_PARAMETERS), kind, block, &n);
    const bool recurrent = code == 0 && strcmp(n.key, RECURRENCE) == 0;
    if (code == 0 && decoder != NULL) code = read_decoder(decoder, block, n.count, &b);
    if (code == 0) {
        dpmf_strategy_options o = dpmf_strategy_options_defaults();
        o.stamps = shape->stamps;
        o.column_normalize = shape->normalize;
        o.matrix_rows = n.count;
        o.matrix = n.values;
        o.decoder_matrix = b.values;
        if (recurrent) o.v = (o.u = n.values + n.count * n.count) + n.count;
        dpmf_status status = dpmf_strategy_create(kind->name, workload, &o, out);
        show(n.path, about + strlen(about));
        if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the file's fault */
        if (status != DPMF_OK) code = fail_status(status, about);
    }
    if (code == 0 && shape->made_by != NULL && !recurrent && !is_lower_triangular(&n))
        snprintf(shape->made_by, MADE_BY, "lower-triangular form of a given %" PRId64 " x %" PRId64 " C, %s", n.count,
                 n.width, b.values != NULL ? "decoder given" : "pseudo-inverse");
    dpmf_array_free(&b);
    free(n.values);
    return code;
}
