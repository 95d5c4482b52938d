/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Workloads from text and from a mechanism file.
 *
 *     prefix | identity | momentum:B | nesterov:B | decay:L | lr:FILE.npy | schedules (below)   joined by commas
 *     file:PATH.npy | mean | window:W | decay-power:P                                alone
 *     W1 + 0.3*W2 + ...                                                               a sum of all these
 *
 * mean is prefix sums with learning rates 1/(t+1) and decay 1: o_t = t/(t+1) o_{t-1} + g_t/(t+1). The last two are Toeplitz
 * matrices, held whole: their inverses have no few bands.
 *
 * The + of a sum has spaces around it, since numbers and paths may hold one. A path may hold any character but a comma, and no " + ". Each part may stand once, except schedules, which multiply.
 */
#include "base/linalg.h"
#include "base/memory.h"
#include "base/schedule.h"
#include "base/status.h"
#include "workload/workload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- text ---- */

static const char ACCEPTED[] = "accepted: prefix, identity, momentum:B, nesterov:B, decay:L, lr:FILE.npy, "
                               "cooldown:FRACTION:FLOOR, linear:FLOOR, cosine:FLOOR, warmup:FRACTION, "
                               "step:EVERY:FACTOR joined by commas, or mean, "
                               "window:W, decay-power:P or file:PATH.npy, or a sum 'W1 + 0.3*W2' of these";

typedef struct parsed {
    dpmf_workload_options options;
    double *rates;        /* NULL until a schedule is named */
    base_writer schedule; /* its canonical text */
    int momentum_given, decay_given;
} parsed;

typedef struct slice {
    const char *text;
    size_t length;
} slice;

/* Does `part` begin with `name` and a colon? Then *rest is the rest. */
static int starts(slice part, const char *name, slice *rest) {
    size_t length = strlen(name);
    if (part.length < length + 1 || memcmp(part.text, name, length) != 0 || part.text[length] != ':') return 0;
    *rest = (slice){part.text + length + 1, part.length - length - 1};
    return 1;
}

static dpmf_status number(slice text, const char *what, double *out) {
    char shown[64];
    if (!base_parse_double(text.text, text.length, out))
        return base_fail(DPMF_ERROR_ARGUMENT, "workload: %s = '%s', accepted: a number", what,
                         base_show(text.text, text.length, shown));
    return DPMF_OK;
}

static dpmf_status need_rates(parsed *p, int64_t steps) {
    if (p->rates != NULL) return DPMF_OK;
    TRY(base_alloc_doubles(steps, "the learning rates", &p->rates));
    for (int64_t t = 0; t < steps; t++)
        p->rates[t] = 1;
    return DPMF_OK;
}

static void note_schedule(parsed *p, const char *text) {
    if (p->schedule.length > 0) base_write_raw(&p->schedule, ",");
    base_write_raw(&p->schedule, text);
}

static dpmf_status load_array(slice path, const char *what, dpmf_array *out) {
    char *copy = NULL;
    TRY(base_alloc((int64_t)path.length + 1, 1, what, (void **)&copy));
    memcpy(copy, path.text, path.length);
    dpmf_status status = dpmf_array_load(copy, out);
    base_free(copy);
    return status;
}

static dpmf_status parse_rates(slice path, int64_t steps, parsed *p) {
    dpmf_array array = {0};
    dpmf_status status = DPMF_OK;
    TRY(load_array(path, "learning rates", &array));
    if (array.dimensions != 1 || array.shape[0] != steps) {
        status = base_fail(DPMF_ERROR_ARGUMENT,
                           "workload: the lr file has %" PRId64
                           " numbers in %d dimension(s), accepted: one for each of %" PRId64 " "
                           "steps",
                           array.shape[0] * array.shape[1], array.dimensions, steps);
        goto done;
    }
    TRY_DONE(need_rates(p, steps));
    for (int64_t t = 0; t < steps; t++)
        p->rates[t] *= array.values[t];
    note_schedule(p, "lr");
done:
    dpmf_array_free(&array);
    return status;
}

static int is_word(slice part, const char *word) {
    return part.length == strlen(word) && memcmp(part.text, word, part.length) == 0;
}

/* A workload that is another one under its own name: with all of the past forgotten, o_t = g_t. */
static const struct { const char *name, *meaning; } ITSELF = {.name = "identity", .meaning = "decay:1"};

static dpmf_status parse_part(slice part, int64_t steps, parsed *p) {
    slice rest = {0};
    char shown[64];
    if (is_word(part, "prefix")) return DPMF_OK;
    if (is_word(part, ITSELF.name)) part = (slice){ITSELF.meaning, strlen(ITSELF.meaning)};
    int nesterov = starts(part, "nesterov", &rest);
    if (nesterov || starts(part, "momentum", &rest)) {
        if (p->momentum_given)
            return base_fail(DPMF_ERROR_ARGUMENT, "workload: momentum or nesterov is given twice, accepted once");
        p->momentum_given = 1;
        p->options.nesterov = nesterov;
        return number(rest, nesterov ? "nesterov" : "momentum", &p->options.momentum);
    }
    if (starts(part, "decay", &rest)) {
        if (p->decay_given) return base_fail(DPMF_ERROR_ARGUMENT, "workload: decay is given twice, accepted once");
        p->decay_given = 1;
        return number(rest, "decay", &p->options.decay);
    }
    char text[BASE_SCHEDULE_TEXT];
    if (starts(part, "lr", &rest)) return parse_rates(rest, steps, p);
    if (base_schedule_knows(part.text, part.length)) {
        TRY(need_rates(p, steps));
        TRY(base_schedule_apply("workload", 1, part.text, part.length, steps, p->rates, text));
        note_schedule(p, text);
        return DPMF_OK;
    }
    return base_fail(DPMF_ERROR_ARGUMENT, "workload: '%s', %s", base_show(part.text, part.length, shown), ACCEPTED);
}

static dpmf_status parse_matrix(slice path, int64_t steps, dpmf_workload **out) {
    dpmf_array array = {0};
    dpmf_status status = DPMF_OK;
    TRY(load_array(path, "the workload matrix", &array));
    const dpmf_workload_options any = {.rows = array.shape[0], .matrix = array.values};
    if (array.dimensions != 2 || array.shape[1] != steps)
        status = base_fail(DPMF_ERROR_ARGUMENT,
                           "workload: the matrix file is %" PRId64 " x %" PRId64
                           " in %d dimension(s), accepted: rows of %" PRId64 " numbers (the steps)",
                           array.shape[0], array.shape[1], array.dimensions, steps);
    else
        status = dpmf_workload_create(steps, &any, out);
    dpmf_array_free(&array);
    return status;
}

/* o_t is the mean of g_0..g_t. */
static dpmf_status parse_mean(int64_t steps, dpmf_workload **out) {
    dpmf_workload_options options = {.decay = 1};
    double *rates = NULL;
    TRY(base_alloc_doubles(steps, "the learning rates", &rates));
    for (int64_t t = 0; t < steps; t++)
        rates[t] = 1 / (double)(t + 1);
    options.learning_rate = rates;
    dpmf_status status = workload_create_named(steps, &options, WORKLOAD_MEAN, out);
    base_free(rates);
    return status;
}

/* The Toeplitz matrix of this first column, under this name. */
static dpmf_status make_toeplitz(int64_t steps, const double *column, const char *text, dpmf_workload **out) {
    double *matrix = NULL;
    dpmf_workload *w = NULL;
    char *name = NULL;
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc_square(steps, "the workload matrix", &matrix));
    for (int64_t t = 0; t < steps; t++)
        for (int64_t u = 0; u <= t; u++)
            matrix[t * steps + u] = column[t - u];
    TRY_DONE(dpmf_workload_create_dense(steps, matrix, &w));
    TRY_DONE(base_copy_text(text, &name));
    base_free(w->text);
    w->text = name;
    *out = w;
    w = NULL;
done:
    base_free(matrix);
    dpmf_workload_free(w);
    return status;
}

static dpmf_status parse_window(slice rest, int64_t steps, dpmf_workload **out) {
    char text[64];
    double width = 0, *column = NULL;
    TRY(number(rest, "window", &width));
    if (!(width >= 1 && width == floor(width) && width <= 0x1p53))
        return base_fail(DPMF_ERROR_ARGUMENT, "workload: window = %g steps, accepted: a whole number from 1", width);
    TRY(base_alloc_doubles(steps, "a column", &column));
    for (int64_t t = 0; t < steps; t++)
        column[t] = (double)t < width;
    snprintf(text, sizeof text, "window:%.0f", width);
    dpmf_status status = make_toeplitz(steps, column, text, out);
    base_free(column);
    return status;
}

static dpmf_status parse_decay_power(slice rest, int64_t steps, dpmf_workload **out) {
    char text[64] = "decay-power:", shown[32];
    double power = 0, *column = NULL;
    TRY(number(rest, "decay-power", &power));
    if (!(power >= 0 && power <= 10))
        return base_fail(DPMF_ERROR_ARGUMENT, "workload: decay-power = %g, accepted 0 to 10", power);
    TRY(base_alloc_doubles(steps, "a column", &column));
    for (int64_t t = 0; t < steps; t++)
        column[t] = pow((double)(t + 1), -power);
    base_format_double(power, shown);
    strcat(text, shown);
    dpmf_status status = make_toeplitz(steps, column, text, out);
    base_free(column);
    return status;
}

static dpmf_status parse_plain(const char *text, int64_t steps, dpmf_workload **out) {
    parsed p = {0};
    dpmf_status status = DPMF_OK;
    slice whole = {text, strlen(text)}, rest = {0};
    if (starts(whole, "file", &rest)) return parse_matrix(rest, steps, out);
    if (starts(whole, "window", &rest)) return parse_window(rest, steps, out);
    if (starts(whole, "decay-power", &rest)) return parse_decay_power(rest, steps, out);
    if (strcmp(text, WORKLOAD_MEAN) == 0) return parse_mean(steps, out);
    for (const char *at = text; at != NULL; at = *at == '\0' ? NULL : at + 1) {
        const size_t length = strcspn(at, ",");
        TRY_DONE(parse_part((slice){at, length}, steps, &p));
        at += length;
    }
    TRY_DONE(p.schedule.status);
    p.options.learning_rate = p.rates;
    TRY_DONE(workload_create_named(steps, &p.options, p.schedule.text, out));
done:
    base_free(p.rates);
    base_writer_free(&p.schedule);
    return status;
}

static const char PLUS[] = " + ";

/* "0.3*W": the weight and the rest; without a star the weight is 1. */
static dpmf_status split_weight(char *part, double *weight, char **rest) {
    char *star = strchr(part, '*'), *colon = strchr(part, ':');
    *weight = 1;
    *rest = part;
    if (star == NULL || (colon != NULL && colon < star)) return DPMF_OK; /* a star in a path is part of it */
    TRY(number((slice){part, (size_t)(star - part)}, "a weight of a sum", weight));
    TRY(workload_check_weight(*weight));
    *rest = star + 1;
    return DPMF_OK;
}

static dpmf_status parse_sum(char *text, int64_t steps, dpmf_workload **out) {
    dpmf_workload *part[WORKLOAD_PARTS_MAX] = {0};
    double weight[WORKLOAD_PARTS_MAX] = {0};
    int parts = 0;
    dpmf_status status = DPMF_OK;
    for (char *at = text, *next = NULL; at != NULL; at = next) {
        char *rest = NULL;
        next = strstr(at, PLUS);
        if (next != NULL) {
            *next = '\0';
            next += sizeof PLUS - 1;
        }
        if (parts == WORKLOAD_PARTS_MAX) {
            status =
                base_fail(DPMF_ERROR_ARGUMENT, "workload: a sum of more than %d parts, accepted 1 to %d", parts, parts);
            goto done;
        }
        TRY_DONE(split_weight(at, &weight[parts], &rest));
        TRY_DONE(parse_plain(rest, steps, &part[parts]));
        parts++;
    }
    const dpmf_workload_options o = {
        .parts = parts, .part = (const dpmf_workload *const *)part, .part_weights = weight};
    TRY_DONE(dpmf_workload_create(steps, &o, out));
done:
    for (int i = 0; i < WORKLOAD_PARTS_MAX; i++)
        dpmf_workload_free(part[i]);
    return status;
}

dpmf_status dpmf_workload_parse(const char *text, int64_t steps, dpmf_workload **out) {
    char *copy = NULL;
    if (text == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "workload: NULL, %s", ACCEPTED);
    if (steps < 1) return base_fail(DPMF_ERROR_ARGUMENT, "steps = %" PRId64 ", accepted 1 to 2^53", steps);
    TRY(base_copy_text(text, &copy));
    const dpmf_status status = parse_sum(copy, steps, out);
    base_free(copy);
    return status;
}

/* ---- the mechanism file ---- */

static const char *array_name(const char *prefix, const char *name, char out[BASE_TENSOR_NAME_MAX]) {
    snprintf(out, BASE_TENSOR_NAME_MAX, "%s.%s", prefix, name);
    return out;
}

/* A matrix that follows from its text is not in the file: its reader would make one of any size for a few bytes. */
static dpmf_status check_made(int64_t steps) {
    enum { STEPS_MAX = 4096 }; /* 128 MB */
    if (steps <= STEPS_MAX) return DPMF_OK;
    return base_fail(DPMF_ERROR_UNSUPPORTED,
                     "a file with a workload of windows or of powers has up to %d steps, not %" PRId64
                     ": give the matrix itself, file:PATH.npy",
                     STEPS_MAX, steps);
}

/* The parts of a sum as objects of an array, with arrays named by their place. */
static void write_parts(const dpmf_workload *w, const char *prefix, base_writer *out, base_tensors *tensors) {
    base_json_open(out, "parts", '[');
    for (int i = 0; i < w->parts; i++) {
        char name[BASE_TENSOR_NAME_MAX];
        snprintf(name, sizeof name, "%s.%d", prefix, i);
        base_json_open(out, NULL, '{');
        base_json_double(out, "weight", w->weight[i]);
        workload_write(w->part[i], name, out, tensors);
        base_json_close(out, '}');
    }
    base_json_close(out, ']');
}

void workload_write(const dpmf_workload *w, const char *prefix, base_writer *out, base_tensors *tensors) {
    char name[BASE_TENSOR_NAME_MAX];
    if (w->form == WORKLOAD_OPERATOR) {
        out->status = base_fail(DPMF_ERROR_UNSUPPORTED, "a user's operator cannot be saved in a file");
        return;
    }
    if (w->form == WORKLOAD_DENSE && strcmp(w->text, "file") != 0) out->status = check_made(w->steps);
    base_json_text(out, "text", w->text);
    if (w->form == WORKLOAD_SUM) write_parts(w, prefix, out, tensors);
    if (w->form == WORKLOAD_ROWS)
        base_tensors_add(tensors, array_name(prefix, "rows", name), w->rows, w->steps, w->matrix);
    if (w->form == WORKLOAD_NAMED) {
        base_json_double(out, "momentum", w->momentum);
        base_json_bool(out, "nesterov", w->nesterov);
        base_json_double(out, "decay", w->decay);
    }
    if (w->schedule != NULL) base_json_text(out, "schedule", w->schedule);
    if (w->learning_rate != NULL)
        base_tensors_add(tensors, array_name(prefix, "learning_rate", name), w->steps, 0, w->learning_rate);
    if (w->form == WORKLOAD_DENSE && strcmp(w->text, "file") == 0) /* the text determines the others */
        base_tensors_add(tensors, array_name(prefix, "matrix", name), w->steps, w->steps, w->matrix);
}

static dpmf_status find_array(const base_tensors *tensors, const char *prefix, const char *suffix, int64_t rows,
                              int64_t columns, const base_tensor **out) {
    char name[BASE_TENSOR_NAME_MAX];
    const base_tensor *t = base_tensors_find(tensors, array_name(prefix, suffix, name));
    if (t == NULL || t->dimensions != (columns == 0 ? 1 : 2) || t->shape[0] != rows ||
        (columns != 0 && t->shape[1] != columns))
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %s is missing or does not fit %" PRId64 " steps", name,
                         rows);
    *out = t;
    return DPMF_OK;
}

/* A matrix that follows from its text: no other text is accepted here. */
static dpmf_status read_toeplitz(const char *text, int64_t steps, dpmf_workload **out) {
    slice whole = {text, strlen(text)}, rest = {0};
    dpmf_workload *w = NULL;
    if (!starts(whole, "window", &rest) && !starts(whole, "decay-power", &rest))
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the workload has no numbers of its own");
    TRY(check_made(steps));
    TRY(dpmf_workload_parse(text, steps, &w));
    if (strcmp(w->text, text) == 0) {
        *out = w;
        return DPMF_OK;
    }
    dpmf_workload_free(w);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: the workload's text is not in its shortest form");
}

static dpmf_status read_rows(const base_tensors *tensors, const char *prefix, int64_t steps, dpmf_workload **out) {
    char name[BASE_TENSOR_NAME_MAX];
    dpmf_workload *w = NULL;
    const base_tensor *t = base_tensors_find(tensors, array_name(prefix, "rows", name));
    if (t == NULL || t->dimensions != 2 || t->shape[1] != steps)
        return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %s is missing or does not fit %" PRId64 " steps", name,
                         steps);
    const dpmf_workload_options o = {.rows = t->shape[0], .matrix = t->values};
    TRY(dpmf_workload_create(steps, &o, &w));
    if (w->form == WORKLOAD_ROWS && memcmp(w->matrix, t->values, (size_t)(w->rows * steps) * sizeof(double)) == 0) {
        *out = w;
        return DPMF_OK;
    }
    dpmf_workload_free(w);
    return base_fail(DPMF_ERROR_FORMAT, "mechanism file: %s is lower triangular or not in the order of release", name);
}

static dpmf_status read_sum(const cJSON *list, const char *text, int64_t steps, const char *prefix,
                            const base_tensors *tensors, dpmf_workload **out) {
    const int parts = cJSON_GetArraySize(list);
    dpmf_workload *part[WORKLOAD_PARTS_MAX] = {0}, *w = NULL;
    double weight[WORKLOAD_PARTS_MAX] = {0};
    dpmf_status status = DPMF_OK;
    if (!cJSON_IsArray(list) || parts < 1 || parts > WORKLOAD_PARTS_MAX || strchr(prefix, '.') != NULL)
        return base_fail(DPMF_ERROR_FORMAT,
                         "mechanism file: the workload is a sum of %d parts, accepted 1 to %d, no sum in a sum", parts,
                         WORKLOAD_PARTS_MAX);
    for (int i = 0; i < parts; i++) {
        char name[BASE_TENSOR_NAME_MAX];
        const cJSON *object = cJSON_GetArrayItem(list, i);
        snprintf(name, sizeof name, "%s.%d", prefix, i);
        TRY_DONE(base_json_get_double(object, "weight", "workload", &weight[i]));
        TRY_DONE(workload_read(object, steps, name, tensors, &part[i]));
    }
    const dpmf_workload_options o = {
        .parts = parts, .part = (const dpmf_workload *const *)part, .part_weights = weight};
    TRY_DONE(dpmf_workload_create(steps, &o, &w));
    if (w->form != WORKLOAD_SUM || strcmp(w->text, text) != 0) {
        status = base_fail(DPMF_ERROR_FORMAT, "mechanism file: the workload's text is not that of its parts");
        goto done;
    }
    *out = w;
    w = NULL;
done:
    for (int i = 0; i < WORKLOAD_PARTS_MAX; i++)
        dpmf_workload_free(part[i]);
    dpmf_workload_free(w);
    return status;
}

dpmf_status workload_read(const cJSON *object, int64_t steps, const char *prefix, const base_tensors *tensors,
                          dpmf_workload **out) {
    const char *text = NULL, *schedule = NULL;
    const base_tensor *array = NULL;
    dpmf_workload_options options = dpmf_workload_options_defaults();
    dpmf_workload *w = NULL;
    TRY(base_json_get_text(object, "text", "workload", &text));
    if (strcmp(text, "file") == 0) {
        TRY(find_array(tensors, prefix, "matrix", steps, steps, &array));
        return dpmf_workload_create_dense(steps, array->values, out);
    }
    if (strcmp(text, "rows") == 0) return read_rows(tensors, prefix, steps, out);
    if (cJSON_HasObjectItem(object, "parts"))
        return read_sum(cJSON_GetObjectItemCaseSensitive(object, "parts"), text, steps, prefix, tensors, out);
    if (!cJSON_HasObjectItem(object, "momentum")) return read_toeplitz(text, steps, out);
    TRY(base_json_get_double(object, "momentum", "workload", &options.momentum));
    TRY(base_json_get_double(object, "decay", "workload", &options.decay));
    options.nesterov = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(object, "nesterov")) != 0;
    if (cJSON_HasObjectItem(object, "schedule")) {
        TRY(base_json_get_text(object, "schedule", "workload", &schedule));
        TRY(find_array(tensors, prefix, "learning_rate", steps, 0, &array));
        options.learning_rate = array->values;
    }
    TRY(workload_create_named(steps, &options, schedule, &w));
    /* The text must mean the same workload without the arrays, unless part of it is in an array only. */
    dpmf_workload *again = NULL;
    dpmf_status status = DPMF_OK;
    if (w->schedule == NULL || strstr(w->schedule, "lr") == NULL)
        status = dpmf_workload_parse(w->text, w->steps, &again);
    if (again != NULL && !workload_equal(w, again))
        status = base_fail(DPMF_ERROR_FORMAT, "mechanism file: the learning rates are not those of its workload text");
    dpmf_workload_free(again);
    if (status == DPMF_OK)
        *out = w;
    else
        dpmf_workload_free(w);
    return status;
}
