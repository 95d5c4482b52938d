/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The safetensors container, in one canonical form:
 *
 *     8 bytes     length of the header, little-endian, a multiple of 8
 *     header      {"__metadata__":{"dpmf":TEXT,"sha256":DIGEST},NAME:{"dtype":"F64","shape":[R,C],
 *                 "data_offsets":[BEGIN,END]},...} and spaces
 *     arrays      float64, little-endian, one after the other; nothing after the last
 *
 * The reader takes the numbers out of the header with every check that hostile bytes need. It then writes the header of
 * what it found and compares the bytes, which refuses every other spelling (spaces, escapes, 1e3, another order). With
 * the digest, which covers the text and the arrays, no byte is free to change.
 */
#include "base/safetensors.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/status.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "arrays are used in place: the machine must be little-endian");
_Static_assert(sizeof(double) == 8, "float64 is double");

enum { LENGTH_WORD = 8, HEADER_MAX = 16 << 20, HEADER_DEPTH = 3, DIGEST_LENGTH = 64 };

static const char file_what[] = "mechanism file"; /* in messages */

static void put_word(uint8_t *out, uint64_t word) {
    for (int i = 0; i < 8; i++)
        out[i] = (uint8_t)(word >> (8 * i));
}

static uint64_t get_word(const uint8_t *bytes) {
    uint64_t word = 0;
    for (int i = 0; i < 8; i++)
        word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

static int64_t value_count(const base_tensor *tensor) {
    return tensor->dimensions == 1 ? tensor->shape[0] : tensor->shape[0] * tensor->shape[1];
}

void base_tensors_add(base_tensors *tensors, const char *name, int64_t rows, int64_t columns, const double *values) {
    assert(tensors->count < BASE_TENSORS_MAX && strlen(name) > 0 && strlen(name) < BASE_TENSOR_NAME_MAX);
    assert(rows > 0 && columns >= 0 && rows <= INT64_MAX / 8 / (columns > 0 ? columns : 1));
    base_tensor *tensor = &tensors->tensor[tensors->count++];
    memset(tensor, 0, sizeof *tensor);
    memcpy(tensor->name, name, strlen(name) + 1);
    tensor->dimensions = columns > 0 ? 2 : 1;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
    tensor->values = values;
}

const base_tensor *base_tensors_find(const base_tensors *tensors, const char *name) {
    for (int i = 0; i < tensors->count; i++)
        if (strcmp(tensors->tensor[i].name, name) == 0) return &tensors->tensor[i];
    return NULL;
}

dpmf_status base_safetensors_digest(const char *text, const base_tensors *tensors, char digest[65]) {
    base_part parts[1 + 3 * BASE_TENSORS_MAX];
    uint8_t words[BASE_TENSORS_MAX][24];
    int count = 0;
    parts[count++] = (base_part){text, strlen(text)};
    for (int i = 0; i < tensors->count; i++) {
        const base_tensor *tensor = &tensors->tensor[i];
        put_word(words[i], (uint64_t)tensor->dimensions);
        put_word(words[i] + 8, (uint64_t)tensor->shape[0]);
        put_word(words[i] + 16, (uint64_t)tensor->shape[1]);
        parts[count++] = (base_part){tensor->name, strlen(tensor->name) + 1};
        parts[count++] = (base_part){words[i], 8 + 8 * (size_t)tensor->dimensions};
        parts[count++] = (base_part){tensor->values, 8 * (size_t)value_count(tensor)};
    }
    return base_sha256(count, parts, digest);
}

static void write_header_json(base_writer *w, const char *text, const char *digest, const base_tensors *tensors) {
    int64_t offset = 0;
    base_json_open(w, NULL, '{');
    base_json_open(w, "__metadata__", '{');
    base_json_text(w, "dpmf", text);
    base_json_text(w, "sha256", digest);
    base_json_close(w, '}');
    for (int i = 0; i < tensors->count; i++) {
        const base_tensor *tensor = &tensors->tensor[i];
        base_json_open(w, tensor->name, '{');
        base_json_text(w, "dtype", "F64");
        base_json_open(w, "shape", '[');
        for (int d = 0; d < tensor->dimensions; d++)
            base_json_integer(w, NULL, tensor->shape[d]);
        base_json_close(w, ']');
        base_json_open(w, "data_offsets", '[');
        base_json_integer(w, NULL, offset);
        offset += 8 * value_count(tensor);
        base_json_integer(w, NULL, offset);
        base_json_close(w, ']');
        base_json_close(w, '}');
    }
    base_json_close(w, '}');
}

dpmf_status base_safetensors_header(const char *text, const char *digest, const base_tensors *tensors, uint8_t **header,
                                    size_t *size) {
    dpmf_status status = DPMF_OK;
    base_writer w = {0};
    void *memory = NULL;
    write_header_json(&w, text, digest, tensors);
    TRY_DONE(w.status);
    size_t padded = (w.length + 7) / 8 * 8;
    if (padded > HEADER_MAX) {
        status = base_fail(DPMF_ERROR_ARGUMENT, "the header of a %s has %zu bytes; at most %d are accepted", file_what,
                           padded, HEADER_MAX);
        goto done;
    }
    TRY_DONE(base_alloc((int64_t)(LENGTH_WORD + padded), 1, "a file header", &memory));
    put_word(memory, padded);
    memset((uint8_t *)memory + LENGTH_WORD, ' ', padded);
    memcpy((uint8_t *)memory + LENGTH_WORD, w.text, w.length);
    *header = memory;
    *size = LENGTH_WORD + padded;
done:
    base_writer_free(&w);
    return status;
}

/* ---- reading ---- */

static dpmf_status refuse_file(const char *problem) {
    return base_fail(DPMF_ERROR_FORMAT, "%s: %s", file_what, problem);
}

static dpmf_status refuse_array(const char *name, const char *problem) {
    char shown[64];
    return base_fail(DPMF_ERROR_FORMAT, "%s: array \"%s\": %s", file_what, base_show(name, strlen(name), shown),
                     problem);
}

/* Whole numbers from 0 to 2^53 in a JSON array of one or two. */
static int get_numbers(const cJSON *array, int *count, int64_t out[2]) {
    int found = 0;
    if (!cJSON_IsArray(array)) return 0;
    for (const cJSON *item = array->child; item != NULL; item = item->next) {
        double value = item->valuedouble;
        if (found == 2 || !cJSON_IsNumber(item) || !(value >= 0 && value <= 9007199254740992.0)) return 0;
        if (value != floor(value)) return 0;
        out[found++] = (int64_t)value;
    }
    *count = found;
    return found > 0;
}

/* Adds the entry {"dtype","shape","data_offsets"} to `tensors`. `offset` is where it must begin, then its end. */
static dpmf_status read_entry(const cJSON *entry, const uint8_t *data, int64_t data_size, int64_t *offset,
                              base_tensors *tensors) {
    const char *name = entry->string;
    int dimensions = 0, ends = 0;
    int64_t shape[2] = {0, 0}, range[2] = {0, 0};
    if (name[0] == '\0' || strlen(name) >= BASE_TENSOR_NAME_MAX)
        return base_fail(DPMF_ERROR_FORMAT, "%s: an array name of %zu bytes; 1 to %d are accepted", file_what,
                         strlen(name), BASE_TENSOR_NAME_MAX - 1);
    if (tensors->count == BASE_TENSORS_MAX) return refuse_array(name, "more arrays than the 16 that are accepted");
    if (!cJSON_IsObject(entry) || cJSON_GetArraySize(entry) != 3)
        return refuse_array(name, "no dtype, shape and offsets");
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(entry, "dtype");
    if (!cJSON_IsString(type) || strcmp(type->valuestring, "F64") != 0)
        return refuse_array(name, "its type is not F64, the only one accepted");
    if (!get_numbers(cJSON_GetObjectItemCaseSensitive(entry, "shape"), &dimensions, shape) || shape[0] < 1 ||
        (dimensions == 2 && shape[1] < 1))
        return refuse_array(name, "its shape is not one or two positive whole numbers");
    if (!get_numbers(cJSON_GetObjectItemCaseSensitive(entry, "data_offsets"), &ends, range) || ends != 2)
        return refuse_array(name, "its offsets are not two whole numbers");
    if (range[0] != *offset) return refuse_array(name, "it does not begin where the one before it ends");
    if (range[1] < range[0]) return refuse_array(name, "it ends before it begins");
    if (range[1] > data_size) return refuse_array(name, "the file is truncated: it does not end within it");
    /* Divides, since a product of hostile numbers could overflow. */
    const int64_t values = (range[1] - range[0]) / 8, columns = dimensions == 2 ? shape[1] : 1;
    if ((range[1] - range[0]) % 8 != 0 || values % columns != 0 || values / columns != shape[0])
        return refuse_array(name, "its shape and its offsets disagree");
    const void *begin = data + range[0];
    base_tensors_add(tensors, name, shape[0], dimensions == 2 ? shape[1] : 0, begin);
    *offset = range[1];
    return DPMF_OK;
}

static dpmf_status read_metadata(const cJSON *entry, const char **text, const char **digest) {
    if (entry == NULL || strcmp(entry->string, "__metadata__") != 0 || !cJSON_IsObject(entry))
        return refuse_file("it does not begin with \"__metadata__\", so dpmf did not write it");
    if (cJSON_GetArraySize(entry) != 2) return refuse_file("its metadata are not exactly \"dpmf\" and \"sha256\"");
    TRY(base_json_get_text(entry, "dpmf", file_what, text));
    TRY(base_json_get_text(entry, "sha256", file_what, digest));
    if (strlen(*digest) != DIGEST_LENGTH || strspn(*digest, "0123456789abcdef") != DIGEST_LENGTH)
        return refuse_file("\"sha256\" is not 64 hexadecimal digits in lower case");
    return DPMF_OK;
}

static dpmf_status check_canonical(const uint8_t *bytes, size_t size, const char *text, const char *digest,
                                   const base_tensors *tensors) {
    uint8_t *header = NULL;
    size_t header_size = 0;
    TRY(base_safetensors_header(text, digest, tensors, &header, &header_size));
    int same = header_size <= size && memcmp(header, bytes, header_size) == 0;
    base_free(header);
    return same ? DPMF_OK : refuse_file("its header is not in the form that dpmf writes");
}

static dpmf_status read_header(const cJSON *tree, const uint8_t *bytes, size_t size, size_t header_size, char **text,
                               char digest[65], base_tensors *tensors) {
    const char *found_text = NULL, *found_digest = NULL;
    const int64_t data_size = (int64_t)(size - header_size);
    int64_t offset = 0;
    base_tensors found = {0};
    TRY(read_metadata(tree->child, &found_text, &found_digest));
    for (const cJSON *entry = tree->child->next; entry != NULL; entry = entry->next)
        TRY(read_entry(entry, bytes + header_size, data_size, &offset, &found));
    if (offset != data_size) return refuse_file("bytes after the last array");
    TRY(check_canonical(bytes, size, found_text, found_digest, &found));
    char contents[DIGEST_LENGTH + 1];
    TRY(base_safetensors_digest(found_text, &found, contents));
    if (strcmp(contents, found_digest) != 0)
        return base_fail(DPMF_ERROR_FORMAT, "%s: its digest is %s but its contents have %s: it was changed or damaged",
                         file_what, found_digest, contents);
    for (const base_tensor *t = found.tensor; t < found.tensor + found.count; t++)
        for (int64_t j = 0; j < value_count(t); j++)
            if (!isfinite(t->values[j])) return refuse_array(t->name, "a value that is not finite");
    TRY(base_copy_text(found_text, text));
    memcpy(digest, found_digest, DIGEST_LENGTH + 1);
    *tensors = found;
    return DPMF_OK;
}

dpmf_status base_safetensors_read(const uint8_t *bytes, size_t size, char **text, char digest[65],
                                  base_tensors *tensors) {
    assert((uintptr_t)bytes % sizeof(double) == 0);
    cJSON *tree = NULL;
    if (size == 0) return refuse_file("the file is empty");
    if (size < LENGTH_WORD) return refuse_file("truncated: shorter than 8 bytes");
    const uint64_t length = get_word(bytes);
    if (length <= HEADER_MAX && length % 8 == 0 && length > size - LENGTH_WORD &&
        (size == LENGTH_WORD || bytes[LENGTH_WORD] == '{'))
        return base_fail(DPMF_ERROR_FORMAT, "%s: truncated: its header has %" PRIu64 " bytes, the file only %zu",
                         file_what, length, size);
    if (length > HEADER_MAX || length > size - LENGTH_WORD || length % 8 != 0)
        return base_fail(DPMF_ERROR_FORMAT,
                         "%s: this is no mechanism file: it does not begin as design, evaluate, optimize and calibrate "
                         "write one with -o",
                         file_what);
    TRY(base_json_parse((const char *)bytes + LENGTH_WORD, (size_t)length, HEADER_DEPTH, file_what, &tree));
    dpmf_status status = read_header(tree, bytes, size, LENGTH_WORD + (size_t)length, text, digest, tensors);
    cJSON_Delete(tree);
    return status;
}

int base_safetensors_is_container(const uint8_t *bytes, size_t size) {
    cJSON *tree = NULL;
    const char *text = NULL, *digest = NULL;
    base_tensors found = {0};
    int64_t offset = 0;
    if (size < LENGTH_WORD) return 0;
    const uint64_t length = get_word(bytes);
    if (length > HEADER_MAX || length > size - LENGTH_WORD || length % 8 != 0) return 0;
    const size_t header_size = LENGTH_WORD + (size_t)length;
    const int64_t data_size = (int64_t)(size - header_size);
    char message[BASE_MESSAGE_SIZE];
    snprintf(message, sizeof message, "%s", dpmf_last_error()); /* a file of another kind is no failure here */
    dpmf_status status =
        base_json_parse((const char *)bytes + LENGTH_WORD, (size_t)length, HEADER_DEPTH, file_what, &tree);
    if (status == DPMF_OK) status = read_metadata(tree->child, &text, &digest);
    for (const cJSON *e = status == DPMF_OK ? tree->child->next : NULL; e != NULL && status == DPMF_OK; e = e->next)
        status = read_entry(e, bytes + header_size, data_size, &offset, &found);
    cJSON_Delete(tree);
    dpmf_set_last_error(message);
    return status == DPMF_OK && offset == data_size;
}
