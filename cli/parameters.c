/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of --parameters. One JSON object with one key, or two for a BLT, which gives the meaning of the numbers:
 *
 *     {"coefficients": [c_0, c_1, ...]}           first column of a Toeplitz C, zeros follow
 *     {"inverse_coefficients": [w_0, w_1, ...]}   first column of a Toeplitz C^-1, zeros follow
 *     {"diagonals": [[main], [first below], ...]} of a banded C: lengths n, n-1, ...
 *     {"matrix": [[row 0], [row 1], ...]}         C itself, n columns and n or more rows
 *     {"matrix": [[...], ...], "u": [...], "v": [...]}   of constant-recurrent coefficients (cli/own.c)
 *     {"scale": [...], "decay": [...]}            of a BLT; or "gap", 1 - decay, which keeps its digits near 1
 *     {"decay": [...], "inverse_decay": [...]}    of a BLT and its inverse; or "gap" and "inverse_gap"
 *
 * or a .npy array: one dimension for coefficients (of C or C^-1, as the family has it), two for a matrix.
 */
#include "family.h"
#include "output.h"
#include "own.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char scale_and_decay[] = "scale and decay"; /* the key of a BLT; of its gaps: */
static const char scale_and_gap[] = "scale and gap";
static const char decay_and_inverse[] = "decay and inverse_decay"; /* of C and of its inverse */
static const char gap_and_inverse[] = "gap and inverse_gap";
static const char *const keys[] = {"coefficients", "inverse_coefficients", "diagonals", "matrix"};

int bad_file(const char *path, const char *problem) {
    char shown[SHOWN];
    return fail(EXIT_UNABLE, "--parameters %s: %s", show(path, shown), problem);
}

/* ---- the bytes ------------------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 1 << 30 }; /* about forty million numbers; more belong in a .npy workload or a mechanism file */

static int read_open_file(int file, const char *path, char **bytes, size_t *size) {
    size_t capacity = 1 << 16, length = 0;
    char *buffer = malloc(capacity + 1);
    int code = buffer == NULL ? fail_memory() : 0;
    while (code == 0) {
        ssize_t got = wait_readable(file) ? read(file, buffer + length, capacity - length) : -1;
        if (interrupted()) {
            code = fail(EXIT_CANCELLED, "cancelled");
        } else if (got < 0) {
            code = bad_file(path, strerror(errno));
        } else if (got == 0) {
            break; /* the end */
        } else if ((length += (size_t)got) < capacity) {
            continue;
        } else if (capacity >= MOST_BYTES) {
            code = bad_file(path, "larger than 1 GiB, the largest accepted size");
        } else {
            char *larger = realloc(buffer, 2 * capacity + 1);
            if (larger == NULL) {
                code = fail_memory();
            } else {
                buffer = larger;
                capacity *= 2;
            }
        }
    }
    if (code != 0) {
        free(buffer);
        return code;
    }
    buffer[length] = '\0';
    *bytes = buffer;
    *size = length;
    return 0;
}

static int read_file(const char *path, char **bytes, size_t *size) {
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (file < 0) return interrupted() ? fail(EXIT_CANCELLED, "cancelled") : bad_file(path, strerror(errno));
    int code = read_open_file(file, path, bytes, size);
    close(file);
    return code;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

/* The numbers of one list to values[0], values[stride], ... */
int read_list(const cJSON *list, numbers *n, double *values, int64_t stride) {
    char problem[120];
    int64_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) {
            snprintf(problem, sizeof problem, "%s: entry %" PRId64 " of a list is not a finite number", n->key, i);
            return bad_file(n->path, problem);
        }
        values[i++ * stride] = item->valuedouble;
    }
    return 0;
}

/* Lists of lists: each must be a list of `first - shrink * j` numbers. */
int check_lengths(const cJSON *lists, const numbers *n, int64_t first, int64_t shrink) {
    char problem[160];
    int64_t j = 0, expected = first;
    const cJSON *list;
    cJSON_ArrayForEach(list, lists) {
        if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != expected) {
            snprintf(problem, sizeof problem, "%s: list %" PRId64 " has %d numbers, accepted are %" PRId64, n->key, j,
                     cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0, expected);
            return bad_file(n->path, problem);
        }
        j++;
        expected -= shrink;
    }
    return 0;
}

static int read_lists(const cJSON *value, int64_t steps, numbers *n) {
    char problem[160];
    bool banded = strcmp(n->key, "diagonals") == 0;
    if (banded && n->count > steps) {
        snprintf(problem, sizeof problem, "%s: %" PRId64 " lists, accepted are 1 to %" PRId64 " (the steps)", n->key,
                 n->count, steps);
        return bad_file(n->path, problem);
    }
    int code = check_lengths(value, n, steps, banded ? 1 : 0);
    if (code != 0) return code;
    /* The lengths are checked, so this is at most twice the numbers that the file has. */
    n->width = banded ? n->count : steps;
    n->values = allocate(banded ? steps : n->count, n->width * (int64_t)sizeof *n->values);
    if (n->values == NULL) return fail_memory();
    int64_t j = 0;
    const cJSON *list;
    cJSON_ArrayForEach(list, value) {
        /* Diagonal j starts in row j, and goes down a column of `values`; a row of a matrix goes along. */
        double *start = n->values + (banded ? j * n->width + j : j * n->width);
        code = read_list(list, n, start, banded ? n->width : 1);
        if (code != 0) return code;
        j++;
    }
    return 0;
}

/* Numbers for another family are a mistake in the command, with any lengths. */
static int check_key(const numbers *n, const dpmf_family *kind) {
    char shown[SHOWN];
    if (strcmp(n->key, kind->parameters) == 0) return 0;
    return fail(EXIT_USAGE, "--parameters %s: it holds %s, but family %s takes %s", show(n->path, shown), n->key,
                kind->name, kind->parameters);
}

/* The list of that key, or NULL; `seen` counts the members that are known. */
static const cJSON *find_list(const cJSON *tree, const char *key, int *seen) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(tree, key);
    if (list != NULL) ++*seen;
    return list;
}

static bool is_blt(const numbers *n) {
    return n->key == scale_and_decay || n->key == scale_and_gap || n->key == decay_and_inverse ||
           n->key == gap_and_inverse;
}

static int blt_lists(const cJSON *scale, const cJSON *second, numbers *n) {
    char problem[160];
    if (!cJSON_IsArray(scale) || !cJSON_IsArray(second))
        return bad_file(n->path, "its values are not lists of numbers");
    n->count = cJSON_GetArraySize(scale);
    if (cJSON_GetArraySize(second) != n->count || n->count < 1 || n->count > DPMF_BLT_BUFFERS_MAX) {
        snprintf(problem, sizeof problem,
                 "%s: lists of %" PRId64 " and %d numbers, accepted are two of the same length, 1 to %d", n->key,
                 n->count, cJSON_GetArraySize(second), DPMF_BLT_BUFFERS_MAX);
        return bad_file(n->path, problem);
    }
    n->width = 2;
    n->values = allocate(2 * n->count, sizeof *n->values);
    if (n->values == NULL) return fail_memory();
    int code = read_list(scale, n, n->values, 1);
    return code != 0 ? code : read_list(second, n, n->values + n->count, 1);
}

static const char blt_forms[] = "not a JSON object with the keys scale and decay, scale and gap, decay and "
                                "inverse_decay, or gap and inverse_gap";

/* The numbers of the inverse as 'dpmf optimize' prints them beside the scales: kept, to be compared. NULL stands for none. */
static int keep_inverse(const cJSON *list, int which, numbers *n) {
    if (list == NULL || cJSON_IsNull(list)) return 0;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != n->count)
        return bad_file(n->path, "the numbers of the inverse are not lists of the same length as the others");
    n->inverses |= 1 << which;
    return read_list(list, n, n->inverse[which], 1);
}

/*
 * Where a decay and a gap are both given, as 'dpmf optimize' prints them, the gap counts and the decay must agree; so must the
 * numbers of the inverse where there are scales. Without scales the inverse determines them.
 */
static int read_blt(const cJSON *tree, numbers *n) {
    int seen = 0;
    const cJSON *scale = find_list(tree, "scale", &seen), *decay = find_list(tree, "decay", &seen);
    const cJSON *gap = find_list(tree, "gap", &seen), *buffers = find_list(tree, "buffers", &seen);
    const cJSON *inverse_scale = find_list(tree, "inverse_scale", &seen);
    const cJSON *inverse_gap = find_list(tree, "inverse_gap", &seen);
    const cJSON *inverse_decay = find_list(tree, "inverse_decay", &seen);
    const bool known = cJSON_GetArraySize(tree) == seen;
    const bool by_gaps = scale == NULL && gap != NULL && inverse_gap != NULL && seen == 2 + (buffers != NULL);
    const bool by_decays = scale == NULL && decay != NULL && inverse_decay != NULL && seen == 2 + (buffers != NULL);
    if (!known || !(by_gaps || by_decays || (scale != NULL && (decay != NULL || gap != NULL))))
        return bad_file(n->path, blt_forms);
    n->key = by_gaps ? gap_and_inverse : by_decays ? decay_and_inverse : gap != NULL ? scale_and_gap : scale_and_decay;
    int code = by_gaps     ? blt_lists(gap, inverse_gap, n)
               : by_decays ? blt_lists(decay, inverse_decay, n)
                           : blt_lists(scale, gap != NULL ? gap : decay, n);
    if (code == 0 && scale != NULL) code = keep_inverse(inverse_scale, 0, n);
    if (code == 0 && scale != NULL) code = keep_inverse(inverse_gap, 1, n);
    if (code == 0 && scale != NULL) code = keep_inverse(inverse_decay, 2, n);
    if (code != 0) return code;
    if (buffers != NULL && (!cJSON_IsNumber(buffers) || buffers->valuedouble != (double)n->count))
        return bad_file(n->path, "buffers: differs from the length of its lists");
    if (scale == NULL || gap == NULL || decay == NULL) return 0;
    if (!cJSON_IsArray(decay) || cJSON_GetArraySize(decay) != n->count)
        return bad_file(n->path, "decay and gap: not two lists of the same length");
    int64_t i = n->count;
    const cJSON *item;
    cJSON_ArrayForEach(item, decay) {
        if (!cJSON_IsNumber(item) || !(fabs(1 - n->values[i++] - item->valuedouble) <= 1e-15))
            return bad_file(n->path, "decay and gap: a decay is not 1 - gap");
    }
    return 0;
}

static int read_members(const cJSON *tree, const dpmf_family *kind, int64_t steps, numbers *n) {
    const cJSON *value = cJSON_IsObject(tree) ? tree->child : NULL;
    bool blt = strcmp(kind->parameters, scale_and_decay) == 0;
    if (strcmp(kind->parameters, RECURRENCE) == 0 && value != NULL && value->next != NULL)
        return read_recurrence(tree, n);
    if (blt && value != NULL && value->next != NULL) return read_blt(tree, n);
    if (value == NULL || value->next != NULL)
        return bad_file(
            n->path, blt ? blt_forms
                         : "not a JSON object with one key: coefficients, inverse_coefficients, diagonals or matrix");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i], value->string) == 0) n->key = keys[i];
    if (n->key == NULL)
        return bad_file(n->path, "unknown key: coefficients, inverse_coefficients, diagonals and matrix are accepted");
    int code = check_key(n, kind);
    if (code != 0) return code;
    if (!cJSON_IsArray(value) || value->child == NULL) return bad_file(n->path, "its value is not a list of numbers");
    n->count = cJSON_GetArraySize(value);
    if (strcmp(n->key, "diagonals") == 0 || strcmp(n->key, "matrix") == 0) return read_lists(value, steps, n);
    n->width = 1;
    n->values = allocate(n->count, sizeof *n->values);
    return n->values == NULL ? fail_memory() : read_list(value, n, n->values, 1);
}

static int read_json(const char *bytes, size_t size, const dpmf_family *kind, int64_t steps, numbers *n) {
    if (memchr(bytes, '\0', size) != NULL) return bad_file(n->path, "not JSON: it has a zero byte");
    cJSON *tree = cJSON_ParseWithLengthOpts(bytes, size + 1, NULL, 1); /* 1: nothing may follow */
    if (tree == NULL) return bad_file(n->path, "neither valid JSON nor .npy");
    int code = read_members(tree, kind, steps, n);
    cJSON_Delete(tree);
    return code;
}

/* ---- .npy ------------------------------------------------------------------------------------------------------ */

static int read_npy(const char *bytes, size_t size, const dpmf_family *kind, numbers *n) {
    char about[SHOWN + 16] = "--parameters ";
    dpmf_array array;
    dpmf_status status = dpmf_array_decode((const uint8_t *)bytes, size, &array);
    show(n->path, about + strlen(about));
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* the fault is in the file, not in the command */
    if (status != DPMF_OK) return fail_status(status, about);
    bool inverse = strcmp(kind->parameters, "inverse_coefficients") == 0;
    n->key = array.dimensions == 2 ? "matrix" : inverse ? "inverse_coefficients" : "coefficients";
    n->count = array.shape[0];
    n->width = array.dimensions == 2 ? array.shape[1] : 1;
    n->values = allocate(n->count, n->width * (int64_t)sizeof *n->values);
    if (n->values != NULL) memcpy(n->values, array.values, (size_t)n->count * (size_t)n->width * sizeof *n->values);
    dpmf_array_free(&array);
    return n->values == NULL ? fail_memory() : check_key(n, kind);
}

/* ---- the strategy ---------------------------------------------------------------------------------------------- */

static int check_numbers(const numbers *n, int64_t steps) {
    char problem[200];
    bool matrix = strcmp(n->key, "matrix") == 0;
    if (matrix && n->width != steps) {
        snprintf(problem, sizeof problem,
                 "the matrix is %" PRId64 " x %" PRId64 ", accepted are %" PRId64 " columns (the steps)", n->count,
                 n->width, steps);
        return bad_file(n->path, problem);
    }
    if (matrix) return 0; /* the library knows which rows are needed */
    if (n->count < 1 || n->count > steps) {
        snprintf(problem, sizeof problem, "%s: %" PRId64 " of them, accepted are 1 to %" PRId64 " (the steps)", n->key,
                 n->count, steps);
        return bad_file(n->path, problem);
    }
    return 0;
}

/* toeplitz has all its coefficients, of which a file may leave out the zeros at the end. */
static int pad(numbers *n, int64_t steps) {
    double *values = allocate(steps, sizeof *values);
    if (values == NULL) return fail_memory();
    memcpy(values, n->values, (size_t)n->count * sizeof *values);
    free(n->values);
    n->values = values;
    n->count = steps;
    return 0;
}

/* Are the numbers of the inverse those of the BLT? */
static int check_inverse(const numbers *n, const dpmf_strategy *strategy) {
    const dpmf_strategy_info info = dpmf_strategy_get(strategy);
    for (int which = 0; which < 3; which++)
        for (int i = 0; (n->inverses >> which & 1) && i < info.blt_buffers; i++) {
            const double *held = which == 0 ? info.blt_inverse_scale : info.blt_inverse_gap;
            const double expected = held == NULL ? NAN : which == 2 ? 1 - held[i] : held[i];
            if (!(fabs(n->inverse[which][i] - expected) <= 1e-9 * fmax(fabs(expected), which == 2)))
                return bad_file(n->path, "inverse_scale, inverse_gap or inverse_decay: not those of the inverse");
        }
    return 0;
}

static int make_from_numbers(const numbers *n, const dpmf_family *kind, int64_t steps, dpmf_strategy **out) {
    char about[SHOWN + 16] = "--parameters ";
    dpmf_status status;
    if (n->key == scale_and_decay)
        status = dpmf_strategy_create_blt(steps, (int)n->count, n->values, n->values + n->count, NULL, out);
    else if (n->key == scale_and_gap)
        status = dpmf_strategy_create_blt(steps, (int)n->count, n->values, NULL, n->values + n->count, out);
    else if (n->key == decay_and_inverse)
        status = dpmf_strategy_create_blt(steps, (int)n->count, NULL, n->values, NULL, out);
    else if (n->key == gap_and_inverse)
        status = dpmf_strategy_create_blt(steps, (int)n->count, NULL, NULL, n->values, out);
    else if (strcmp(kind->name, DPMF_FAMILY_BANDED_TOEPLITZ) == 0)
        status = dpmf_strategy_create_toeplitz(steps, DPMF_TOEPLITZ_BANDED, n->count, n->values, out);
    else if (strcmp(n->key, "coefficients") == 0)
        status = dpmf_strategy_create_toeplitz(steps, DPMF_TOEPLITZ, n->count, n->values, out);
    else if (strcmp(n->key, "inverse_coefficients") == 0)
        status = dpmf_strategy_create_toeplitz(steps, DPMF_TOEPLITZ_INVERSE, n->count, n->values, out);
    else
        status = dpmf_strategy_create_banded(steps, n->width, n->values, out);
    if (status == DPMF_OK) {
        const int code = is_blt(n) ? check_inverse(n, *out) : 0;
        if (code == 0) return 0;
        dpmf_strategy_free(*out);
        *out = NULL;
        return code;
    }
    show(n->path, about + strlen(about));
    if (status == DPMF_ERROR_ARGUMENT) status = DPMF_ERROR_FORMAT; /* a zero diagonal, say: the file's fault */
    return fail_status(status, about);
}

int read_numbers(const char *path, const dpmf_family *kind, int64_t steps, numbers *n) {
    char *bytes = NULL;
    size_t size = 0;
    *n = (numbers){.path = path};
    int code = read_file(path, &bytes, &size);
    if (code != 0) return code;
    if (size >= 6 && memcmp(bytes, "\x93NUMPY", 6) == 0)
        code = read_npy(bytes, size, kind, n);
    else
        code = read_json(bytes, size, kind, steps, n);
    free(bytes);
    const bool own =
        is_blt(n) || (n->key != NULL && strcmp(n->key, RECURRENCE) == 0); /* lengths that the steps do not determine */
    return code == 0 && !own ? check_numbers(n, steps) : code;
}

int read_strategy(const char *path, const dpmf_family *kind, int64_t steps, int64_t *bands, dpmf_strategy **out) {
    numbers n;
    int code = read_numbers(path, kind, steps, &n);
    if (code == 0 && strcmp(kind->name, DPMF_FAMILY_TOEPLITZ) == 0) code = pad(&n, steps);
    if (code == 0) code = make_from_numbers(&n, kind, steps, out);
    if (code == 0) *bands = n.count;
    free(n.values);
    return code;
}
