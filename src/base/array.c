/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays on disk: NumPy's .npy (NEP 1), as far as numbers for this library need it.
 *
 *     6 bytes       "\x93NUMPY"
 *     2 bytes       version, 1.0 or 2.0
 *     2 or 4 bytes  length of the header, little-endian
 *     header        a Python dictionary: {'descr': '<f8', 'fortran_order': False, 'shape': (3, 4), }, spaces, newline
 *     values
 *
 * A parser for just these three keys and their values reads the dictionary. It accepts float64, float32, int64 and
 * int32, rows or columns first. It refuses everything else, among it whole numbers beyond 2^53, which a double cannot
 * hold, and big-endian numbers.
 */
#include "base/file.h"
#include "base/memory.h"
#include "base/status.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "values are copied as they are: the machine must be little-endian");

static const char magic[] = "\x93NUMPY";

/* NumPy itself refuses headers of more than 10000 bytes; two dimensions need about 100. */
enum { MAGIC_LENGTH = 6, HEADER_MAX = 10000, WRITTEN_HEADER_MAX = 256, WRITTEN_ALIGNMENT = 64 };

typedef struct npy_header {
    size_t item_size;  /* 8, 4 or 1; 0: not seen yet */
    int whole;         /* int64, int32, uint8 or bool */
    int fortran_order; /* -1: not seen yet */
    int dimensions;    /* 0: not seen yet */
    int64_t shape[2];
} npy_header;

typedef struct cursor {
    const char *at, *end;
} cursor;

static dpmf_status refuse_array(const char *problem) {
    return base_fail(DPMF_ERROR_FORMAT, "not an array this library reads: %s", problem);
}

static void skip_spaces(cursor *c) {
    while (c->at < c->end && *c->at == ' ')
        c->at++;
}

/* Skips spaces, and takes the next character if it is this one. */
static int take_character(cursor *c, char wanted) {
    skip_spaces(c);
    if (c->at == c->end || *c->at != wanted) return 0;
    c->at++;
    return 1;
}

static int take_word(cursor *c, const char *word) {
    size_t length = strlen(word);
    skip_spaces(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return 0;
    c->at += length;
    return 1;
}

/* Reads 'text' or "text" without escapes; returns 0 if there is none. */
static int take_string(cursor *c, const char **text, size_t *length) {
    skip_spaces(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return 0;
    const char quote = *c->at++;
    *text = c->at;
    while (c->at < c->end && *c->at != quote && *c->at != '\\')
        c->at++;
    if (c->at == c->end || *c->at != quote) return 0;
    *length = (size_t)(c->at - *text);
    c->at++;
    return 1;
}

/* Digits without a leading zero, up to 2^53. */
static int take_size(cursor *c, int64_t *out) {
    skip_spaces(c);
    const char *from = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    if (c->at == from || (*from == '0' && c->at - from > 1)) return 0;
    return base_parse_integer(from, (size_t)(c->at - from), out);
}

static dpmf_status read_type(cursor *c, npy_header *h) {
    const char *text = NULL;
    size_t length = 0;
    char shown[64];
    if (h->item_size != 0) return refuse_array("the header has 'descr' twice");
    if (!take_string(c, &text, &length)) return refuse_array("'descr' is not a text");
    const int known =
        length == 3 && text[0] == '<' && (text[1] == 'f' || text[1] == 'i') && (text[2] == '8' || text[2] == '4');
    const int bytes = length == 3 && text[0] == '|' && (text[1] == 'b' || text[1] == 'u') && text[2] == '1';
    if (!known && !bytes)
        return base_fail(
            DPMF_ERROR_FORMAT,
            "not an array this library reads: the type is '%s'; '<f8', '<f4', '<i8', '<i4', '|u1' and '|b1' "
            "(little-endian float64, float32, int64 and int32, uint8 and bool) are accepted",
            base_show(text, length, shown));
    h->item_size = (size_t)(text[2] - '0');
    h->whole = text[1] != 'f';
    return DPMF_OK;
}

static dpmf_status read_order(cursor *c, npy_header *h) {
    if (h->fortran_order >= 0) return refuse_array("the header has 'fortran_order' twice");
    if (take_word(c, "False"))
        h->fortran_order = 0;
    else if (take_word(c, "True"))
        h->fortran_order = 1;
    else
        return refuse_array("'fortran_order' is neither True nor False");
    return DPMF_OK;
}

/* (3,) or (3, 4) or (3, 4,). */
static dpmf_status read_shape(cursor *c, npy_header *h) {
    static const char problem[] = "the shape is not a tuple of whole numbers";
    int comma = 0;
    if (h->dimensions != 0) return refuse_array("the header has 'shape' twice");
    if (!take_character(c, '(')) return refuse_array(problem);
    while (!take_character(c, ')')) {
        if (h->dimensions > 0 && !comma) return refuse_array(problem);
        if (h->dimensions == 2) return refuse_array("it has more than 2 dimensions; 1 and 2 are accepted");
        if (!take_size(c, &h->shape[h->dimensions])) return refuse_array(problem);
        h->dimensions++;
        comma = take_character(c, ',');
    }
    if (h->dimensions == 0) return refuse_array("it has no dimension; 1 and 2 are accepted");
    if (h->dimensions == 1 && !comma) return refuse_array(problem); /* (3) is a number, not a tuple */
    if (h->dimensions == 1) h->shape[1] = 1;
    return DPMF_OK;
}

static dpmf_status read_member(cursor *c, npy_header *h) {
    const char *key = NULL;
    size_t length = 0;
    char shown[64];
    if (!take_string(c, &key, &length) || !take_character(c, ':'))
        return refuse_array("the header is not a dictionary");
    if (length == 5 && memcmp(key, "descr", length) == 0) return read_type(c, h);
    if (length == 13 && memcmp(key, "fortran_order", length) == 0) return read_order(c, h);
    if (length == 5 && memcmp(key, "shape", length) == 0) return read_shape(c, h);
    return base_fail(DPMF_ERROR_FORMAT, "not an array this library reads: the header has an unknown key '%s'",
                     base_show(key, length, shown));
}

static dpmf_status read_dictionary(const char *text, size_t length, npy_header *h) {
    cursor c = {text, text + length};
    int comma = 1;
    if (length == 0 || text[length - 1] != '\n') return refuse_array("the header does not end in a newline");
    if (!take_character(&c, '{')) return refuse_array("the header is not a dictionary");
    while (!take_character(&c, '}')) {
        if (!comma) return refuse_array("the header is not a dictionary");
        TRY(read_member(&c, h));
        comma = take_character(&c, ',');
    }
    skip_spaces(&c);
    if (c.at != c.end - 1) return refuse_array("something after the dictionary in the header");
    if (h->item_size == 0) return refuse_array("the header has no 'descr'");
    if (h->fortran_order < 0) return refuse_array("the header has no 'fortran_order'");
    if (h->dimensions == 0) return refuse_array("the header has no 'shape'");
    return DPMF_OK;
}

/* Reads everything before the values; *used is the number of bytes of that. */
static dpmf_status read_header(const uint8_t *bytes, size_t size, npy_header *h, size_t *used) {
    if (size < MAGIC_LENGTH + 4 || memcmp(bytes, magic, MAGIC_LENGTH) != 0)
        return refuse_array("it does not begin like a .npy file");
    const int version = bytes[6];
    if ((version != 1 && version != 2) || bytes[7] != 0)
        return base_fail(DPMF_ERROR_FORMAT,
                         "not an array this library reads: .npy version %d.%d; 1.0 and 2.0 are accepted", version,
                         bytes[7]);
    size_t prefix = version == 1 ? 10 : 12, length = (size_t)bytes[8] | (size_t)bytes[9] << 8;
    if (size < prefix) return refuse_array("it ends within the header");
    if (version == 2) length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    if (length > HEADER_MAX || length > size - prefix)
        return base_fail(DPMF_ERROR_FORMAT,
                         "not an array this library reads: a header of %zu bytes; at most %d are accepted, and no "
                         "more than the file has",
                         length, HEADER_MAX);
    TRY(read_dictionary((const char *)bytes + prefix, length, h));
    *used = prefix + length;
    return DPMF_OK;
}

/* Compares the shape with the bytes that are there. Divides, since a product of hostile numbers could overflow. */
static dpmf_status check_size(const npy_header *h, size_t left) {
    if (h->shape[0] == 0 || h->shape[1] == 0) return refuse_array("it is empty");
    const uint64_t rows = (uint64_t)h->shape[0], columns = (uint64_t)h->shape[1], items = left / h->item_size;
    if (left % h->item_size == 0 && items % columns == 0 && items / columns == rows) return DPMF_OK;
    return base_fail(DPMF_ERROR_FORMAT,
                     "not an array this library reads: the header promises %" PRIu64 " x %" PRIu64
                     " values of %zu bytes, and %zu bytes follow it",
                     rows, columns, h->item_size, left);
}

static dpmf_status check_finite(dpmf_status status, const dpmf_array *array) {
    const int64_t count = array->shape[0] * array->shape[1];
    for (int64_t i = 0; i < count; i++) {
        if (isfinite(array->values[i])) continue;
        const char *found = isnan(array->values[i]) ? "not a number" : "infinite";
        if (array->dimensions == 1) return base_fail(status, "value [%" PRId64 "] of the array is %s", i, found);
        return base_fail(status, "value [%" PRId64 ", %" PRId64 "] of the array is %s", i / array->shape[1],
                         i % array->shape[1], found);
    }
    return DPMF_OK;
}

/* Item i of the file as a double. Returns 0 for an integer that no double holds. */
static int get_item(const npy_header *h, const uint8_t *items, int64_t i, double *out) {
    const uint8_t *at = items + h->item_size * (size_t)i;
    float single;
    int32_t half;
    int64_t whole;
    if (h->whole && h->item_size == 8) {
        memcpy(&whole, at, 8);
        *out = (double)whole;
        return whole >= -9007199254740992 && whole <= 9007199254740992;
    }
    if (h->item_size == 1) {
        *out = *at;
    } else if (h->whole) {
        memcpy(&half, at, 4);
        *out = half;
    } else if (h->item_size == 8) {
        memcpy(out, at, 8);
    } else {
        memcpy(&single, at, 4);
        *out = single;
    }
    return 1;
}

static dpmf_status read_values(const npy_header *h, const uint8_t *items, double *out) {
    const int64_t rows = h->shape[0], columns = h->shape[1];
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            const int64_t from = h->fortran_order ? j * rows + i : i * columns + j;
            if (!get_item(h, items, from, &out[i * columns + j]))
                return refuse_array("a whole number beyond 2^53, which a double cannot hold");
        }
    }
    return DPMF_OK;
}

dpmf_status dpmf_array_decode(const uint8_t *bytes, size_t size, dpmf_array *out) {
    dpmf_status status = DPMF_OK;
    npy_header h = {.fortran_order = -1};
    dpmf_array array = {0};
    size_t used = 0;
    if (out == NULL || (bytes == NULL && size > 0)) return base_fail(DPMF_ERROR_ARGUMENT, "an array pointer is NULL");
    TRY(read_header(bytes, size, &h, &used));
    TRY(check_size(&h, size - used));
    const int64_t count = h.shape[0] * h.shape[1];
    array.dimensions = h.dimensions;
    array.shape[0] = h.shape[0];
    array.shape[1] = h.shape[1];
    TRY_DONE(base_alloc_doubles(count, "the values of an array", &array.values));
    TRY_DONE(read_values(&h, bytes + used, array.values));
    TRY_DONE(check_finite(DPMF_ERROR_FORMAT, &array));
    *out = array;
    array.values = NULL;
done:
    base_free(array.values);
    return status;
}

dpmf_status dpmf_array_load(const char *path, dpmf_array *out) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    if (path == NULL || out == NULL) return base_fail(DPMF_ERROR_ARGUMENT, "an array pointer is NULL");
    TRY(base_file_read(path, "array file", &bytes, &size));
    dpmf_status status = dpmf_array_decode(bytes, size, out);
    base_free(bytes);
    if (status == DPMF_ERROR_FORMAT) { /* the end of a long path is the more useful part */
        const size_t length = strlen(path), from = length > 60 ? length - 60 : 0;
        char shown[64];
        return base_fail(status, "'%s%s': %s", from > 0 ? "..." : "", base_show(path + from, length - from, shown),
                         dpmf_last_error());
    }
    return status;
}

/* The header that numpy.save writes, byte for byte: room for 21 digits of the first dimension, values at a multiple of 64. */
static size_t write_header(const dpmf_array *array, char out[WRITTEN_HEADER_MAX]) {
    char text[WRITTEN_HEADER_MAX], rows[24], columns[24] = "";
    int digits = snprintf(rows, sizeof rows, "%" PRId64, array->shape[0]);
    if (array->dimensions == 2) snprintf(columns, sizeof columns, " %" PRId64, array->shape[1]);
    int length =
        snprintf(text, sizeof text, "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,%s), }", rows, columns);
    size_t total = 10 + (size_t)length + (size_t)(21 - digits) + 1;
    total += WRITTEN_ALIGNMENT - total % WRITTEN_ALIGNMENT;
    memset(out, ' ', total);
    memcpy(out, magic, MAGIC_LENGTH);
    memcpy(out + MAGIC_LENGTH, (const char[]){1, 0, (char)((total - 10) & 0xff), (char)((total - 10) >> 8)}, 4);
    memcpy(out + 10, text, (size_t)length);
    out[total - 1] = '\n';
    return total;
}

dpmf_status dpmf_array_save(const char *path, const dpmf_array *array) {
    char header[WRITTEN_HEADER_MAX];
    if (path == NULL || array == NULL || array->values == NULL)
        return base_fail(DPMF_ERROR_ARGUMENT, "an array pointer is NULL");
    if (array->dimensions != 1 && array->dimensions != 2)
        return base_fail(DPMF_ERROR_ARGUMENT, "an array has %d dimensions; 1 and 2 are accepted", array->dimensions);
    const int64_t rows = array->shape[0], columns = array->shape[1];
    if (rows < 1 || columns < 1 || rows > INT64_MAX / 8 / columns || (array->dimensions == 1 && columns != 1))
        return base_fail(DPMF_ERROR_ARGUMENT,
                         "an array of %d dimensions has shape %" PRId64 " x %" PRId64
                         "; positive sizes are accepted, the second being 1 for a vector",
                         array->dimensions, rows, columns);
    TRY(check_finite(DPMF_ERROR_ARGUMENT, array));
    const base_part parts[] = {{header, write_header(array, header)}, {array->values, 8 * (size_t)(rows * columns)}};
    return base_file_write(path, "array file", 2, parts);
}

void dpmf_array_free(dpmf_array *array) {
    if (array == NULL) return;
    base_free(array->values);
    memset(array, 0, sizeof *array);
}
