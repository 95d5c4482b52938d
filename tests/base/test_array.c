/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .npy files. With DPMF_TEST_DIR set (python/check_safetensors.py does), the exchange with NumPy is tested too: the
 * arrays that it saved there are read, and ours are written there for it.
 */
#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "support/failing_allocator.h"

#define HEADER_3 "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n"
static const double three[3] = {1.5, -0.0, 5e-324};

typedef struct file {
    uint8_t *bytes; /* exactly `size`, so that the address sanitizer sees any read past the end */
    size_t size;
} file;

static file make_bytes(const char *start, size_t start_size, const char *header, size_t header_size, const void *data,
                       size_t data_size) {
    file f = {malloc(start_size + header_size + data_size), start_size + header_size + data_size};
    assert_non_null(f.bytes);
    memcpy(f.bytes, start, start_size);
    memcpy(f.bytes + start_size, header, header_size);
    if (data_size > 0) memcpy(f.bytes + start_size + header_size, data, data_size);
    return f;
}

static file make(int version, const char *header, const void *data, size_t data_size) {
    size_t length = strlen(header);
    char start[12] = {'\x93', 'N', 'U', 'M', 'P', 'Y', (char)version, 0, (char)length, (char)(length >> 8), 0, 0};
    return make_bytes(start, version == 1 ? 10 : 12, header, length, data, data_size);
}

static void expect_refused(file f, const char *reason) {
    dpmf_array array = {.dimensions = -5};
    const uint64_t before = dpmf_memory_in_use();
    dpmf_status status = dpmf_array_decode(f.bytes, f.size, &array);
    if (status != DPMF_ERROR_FORMAT) fail_msg("status %d, expected a refusal with \"%s\"", (int)status, reason);
    if (strstr(dpmf_last_error(), reason) == NULL) fail_msg("\"%s\" lacks \"%s\"", dpmf_last_error(), reason);
    assert_int_equal(array.dimensions, -5);
    assert_int_equal(dpmf_memory_in_use(), before);
}

static void expect_three(int version, const char *header) {
    file f = make(version, header, three, sizeof three);
    dpmf_array array = {0};
    if (dpmf_array_decode(f.bytes, f.size, &array) != DPMF_OK) fail_msg("%s: %s", header, dpmf_last_error());
    assert_true(array.dimensions == 1 && array.shape[0] == 3 && array.shape[1] == 1);
    assert_memory_equal(array.values, three, sizeof three);
    dpmf_array_free(&array);
    assert_null(array.values);
    free(f.bytes);
}

static void test_every_way_to_write_a_header_is_read(void **state) {
    (void)state;
    for (int version = 1; version <= 2; version++) {
        expect_three(version, HEADER_3);
        expect_three(version, "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }              \n");
        expect_three(version, "{'shape':(3,),'fortran_order':False,'descr':'<f8'}\n");
        expect_three(version, "  { 'shape' : ( 3 , ) , 'descr' : '<f8' , 'fortran_order' : True }  \n");
        expect_three(version, "{\"descr\": \"<f8\", \"fortran_order\": False, \"shape\": (3,)}\n");
    }
}

static void test_two_dimensions_and_float32_are_read(void **state) {
    static const float values[6] = {0.1f, 2, 3, -4, 5, 1e-45f};
    static const char *const shapes[] = {"(2, 3)", "(2,3,)", "( 2 , 3 )"};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char header[100];
        dpmf_array array = {0};
        snprintf(header, sizeof header, "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }\n", shapes[i]);
        file f = make(1, header, values, sizeof values);
        assert_int_equal(dpmf_array_decode(f.bytes, f.size, &array), DPMF_OK);
        assert_true(array.dimensions == 2 && array.shape[0] == 2 && array.shape[1] == 3);
        for (int j = 0; j < 6; j++)
            assert_true(array.values[j] == (double)values[j]);
        dpmf_array_free(&array);
        free(f.bytes);
    }
}

static void test_whole_numbers_and_columns_first_are_read(void **state) {
    static const int64_t large[6] = {1, -2, 3, 9007199254740992, -9007199254740992, 0};
    static const int32_t small[6] = {1, -2, 3, INT32_MAX, INT32_MIN, 0};
    (void)state;
    for (int fortran = 0; fortran < 2; fortran++) {
        for (int size = 4; size <= 8; size += 4) {
            char header[100];
            dpmf_array array = {0};
            snprintf(header, sizeof header, "{'descr': '<i%d', 'fortran_order': %s, 'shape': (2, 3), }\n", size,
                     fortran ? "True" : "False");
            file f = make(1, header, size == 8 ? (const void *)large : small, 6 * (size_t)size);
            assert_int_equal(dpmf_array_decode(f.bytes, f.size, &array), DPMF_OK);
            for (int i = 0; i < 2; i++)
                for (int j = 0; j < 3; j++) {
                    const int from = fortran ? 2 * j + i : 3 * i + j;
                    assert_true(array.values[3 * i + j] == (size == 8 ? (double)large[from] : small[from]));
                }
            dpmf_array_free(&array);
            free(f.bytes);
        }
    }
}

static void test_any_other_header_is_refused(void **state) {
    static const struct {
        const char *header, *reason;
    } cases[] = {
        {"", "newline"},
        {"\n", "not a dictionary"},
        {"{}\n", "no 'descr'"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }", "newline"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n\n", "after the dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), } x\n", "after the dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), \n", "not a dictionary"},
        {"{'descr': '<f8', 'fortran_order': False 'shape': (3,), }\n", "not a dictionary"},
        {"{, 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", "not a dictionary"},
        {"{'descr': '<f8',, 'fortran_order': False, 'shape': (3,), }\n", "not a dictionary"},
        {"['descr', '<f8']\n", "not a dictionary"},
        {"{'fortran_order': False, 'shape': (3,), }\n", "no 'descr'"},
        {"{'descr': '<f8', 'shape': (3,), }\n", "no 'fortran_order'"},
        {"{'descr': '<f8', 'fortran_order': False, }\n", "no 'shape'"},
        {"{'descr': '<f8', 'descr': '<f8', 'fortran_order': False, 'shape': (3,), }\n", "'descr' twice"},
        {"{'descr': '<f8', 'fortran_order': False, 'fortran_order': False, 'shape': (3,), }\n",
         "'fortran_order' twice"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'shape': (3,), }\n", "'shape' twice"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,), 'more': 1, }\n", "unknown key 'more'"},
        {"{'descr': '<u8', 'fortran_order': False, 'shape': (3,), }\n", "the type is '<u8'; '<f8', '<f4', '<i8'"},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (3,), }\n", "beyond 2^53"},
        {"{'descr': '>f8', 'fortran_order': False, 'shape': (3,), }\n", "the type is '>f8'"},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (3,), }\n", "the type is '|i1'"},
        {"{'descr': 'f8', 'fortran_order': False, 'shape': (3,), }\n", "the type is 'f8'"},
        {"{'descr': '<f8 ', 'fortran_order': False, 'shape': (3,), }\n", "the type is '<f8 '"},
        {"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,), }\n", "'descr' is not"},
        {"{'descr': '<f8\", 'fortran_order': False, 'shape': (3,), }\n", "the type is"},
        {"{'descr': '<f\\x38', 'fortran_order': False, 'shape': (3,), }\n", "'descr' is not"},
        {"{'descr': '<f8, \n", "'descr' is not"},
        {"{'descr': '<f8', 'fortran_order': 0, 'shape': (3,), }\n", "'fortran_order' is neither"},
        {"{'descr': '<f8', 'fortran_order': false, 'shape': (3,), }\n", "'fortran_order' is neither"},
        {"{'descr': '<f8', 'fortran_order': Falsey, 'shape': (3,), }\n", "not a dictionary"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': 3, }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': [3], }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3 1), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3,,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (-3,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (+3,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (03,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3.0,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3e0,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3L,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0x3,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (18446744073709551619,), }\n", "not a tuple"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }\n", "no dimension"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 1, 1), }\n", "more than 2 dimensions"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (0,), }\n", "it is empty"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (3, 0), }\n", "it is empty"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }\n", "2 x 1 values of 8 bytes, and 24 bytes follow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4,), }\n", "24 bytes follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n", "24 bytes follow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n", "24 bytes follow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (9007199254740992, 2048), }\n", "24 bytes follow"},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (2305843009213693955,), }\n", "not a tuple"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file f = make(1, cases[i].header, three, sizeof three);
        expect_refused(f, cases[i].reason);
        free(f.bytes);
    }
}

static void test_magic_version_and_header_length_are_checked(void **state) {
    static const struct {
        int at;
        char byte;
        const char *reason;
    } cases[] = {
        {0, 'x', "does not begin"}, {5, 'y', "does not begin"}, {6, 0, "version 0.0"}, {6, 3, "version 3.0; 1.0 and"},
        {7, 1, "version 1.1"},      {6, 2, "a header of"},      {9, 1, "a header of"}, {9, '\xff', "a header of"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file f = make(1, HEADER_3, three, sizeof three);
        f.bytes[cases[i].at] = (uint8_t)cases[i].byte;
        expect_refused(f, cases[i].reason);
        free(f.bytes);
    }
    static char large[10100];
    memset(large, ' ', sizeof large);
    memcpy(large + 10, HEADER_3, strlen(HEADER_3) - 1);
    for (size_t length = 10000; length <= 10001; length++) { /* the longest header, and one more */
        large[length - 1] = '\n';
        char start[12] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 2, 0, (char)length, (char)(length >> 8), 0, 0};
        file f = make_bytes(start, 12, large, length, three, sizeof three);
        dpmf_array array = {0};
        if (length == 10000) {
            assert_int_equal(dpmf_array_decode(f.bytes, f.size, &array), DPMF_OK);
            dpmf_array_free(&array);
            large[length - 1] = ' ';
        } else {
            expect_refused(f, "a header of 10001");
        }
        free(f.bytes);
    }
    const char huge[12] = {'\x93', 'N', 'U', 'M', 'P', 'Y', 2, 0, '\xff', '\xff', '\xff', '\xff'};
    file f = make_bytes(huge, 12, HEADER_3, strlen(HEADER_3), three, sizeof three);
    expect_refused(f, "a header of 4294967295");
    free(f.bytes);
}

static void test_every_cut_and_every_tail_of_an_array_is_refused(void **state) {
    (void)state;
    for (int version = 1; version <= 2; version++) {
        file f = make(version, HEADER_3, three, sizeof three);
        for (size_t size = 0; size < f.size; size++) {
            file cut = {malloc(size > 0 ? size : 1), size};
            assert_non_null(cut.bytes);
            memcpy(cut.bytes, f.bytes, size);
            expect_refused(cut, "");
            free(cut.bytes);
        }
        for (size_t more = 1; more < 20; more++) {
            file longer = {calloc(1, f.size + more), f.size + more};
            assert_non_null(longer.bytes);
            memcpy(longer.bytes, f.bytes, f.size);
            expect_refused(longer, "bytes follow it");
            free(longer.bytes);
        }
        free(f.bytes);
    }
}

/* Any change of any byte is refused or read as another array that fits the file; the sanitizers watch. */
static void test_changed_bytes_of_an_array_do_no_harm(void **state) {
    file f = make(1, HEADER_3, three, sizeof three);
    int refused = 0;
    (void)state;
    for (size_t i = 0; i < f.size; i++) {
        for (int change = 1; change < 256; change++) {
            dpmf_array array = {0};
            f.bytes[i] ^= (uint8_t)change;
            if (dpmf_array_decode(f.bytes, f.size, &array) == DPMF_OK) {
                assert_true(array.dimensions == 1 && array.shape[0] == 3 && array.shape[1] == 1);
                dpmf_array_free(&array);
            } else {
                refused++;
            }
            f.bytes[i] ^= (uint8_t)change;
        }
    }
    assert_true(refused > 50 * 255); /* all but a few of the first 68 bytes */
    free(f.bytes);
}

static void test_values_of_an_array_must_be_finite(void **state) {
    const double row[3] = {1, 2, NAN};
    const float square[4] = {1, 2, -INFINITY, 4};
    (void)state;
    file f = make(1, HEADER_3, row, sizeof row);
    expect_refused(f, "value [2] of the array is not a number");
    free(f.bytes);
    f = make(1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), }\n", square, sizeof square);
    expect_refused(f, "value [1, 0] of the array is infinite");
    free(f.bytes);
}

static void test_bad_shapes_and_null_are_refused(void **state) {
    double values[4] = {1, 2, 3, 4};
    const dpmf_array bad[] = {
        {0, {4, 1}, values},  {3, {4, 1}, values},         {1, {4, 0}, values},
        {1, {2, 2}, values},  {1, {0, 1}, values},         {2, {-1, 4}, values},
        {2, {4, -1}, values}, {2, {INT64_MAX, 2}, values}, {2, {(int64_t)1 << 60, 16}, values},
    };
    dpmf_array out = {0};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(dpmf_array_save("/tmp/dpmf-test-array-never", &bad[i]), DPMF_ERROR_ARGUMENT);
    const dpmf_array none = {1, {4, 1}, NULL};
    assert_int_equal(dpmf_array_save("/tmp/dpmf-test-array-never", &none), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_array_save("/tmp/dpmf-test-array-never", NULL), DPMF_ERROR_ARGUMENT);
    values[3] = INFINITY;
    const dpmf_array infinite = {2, {2, 2}, values};
    assert_int_equal(dpmf_array_save("/tmp/dpmf-test-array-never", &infinite), DPMF_ERROR_ARGUMENT);
    assert_non_null(strstr(dpmf_last_error(), "value [1, 1]"));
    assert_int_equal(access("/tmp/dpmf-test-array-never", F_OK), -1);
    assert_int_equal(dpmf_array_decode(NULL, 5, &out), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_array_decode((const uint8_t *)"", 0, NULL), DPMF_ERROR_ARGUMENT);
    assert_int_equal(dpmf_array_decode(NULL, 0, &out), DPMF_ERROR_FORMAT);
    assert_int_equal(dpmf_array_load(NULL, &out), DPMF_ERROR_ARGUMENT);
    dpmf_array_free(NULL);
    dpmf_array_free(&out);
}

/* The number at (i, j) of the arrays that are exchanged with NumPy; python/check_safetensors.py has the same. */
static double exchanged(int64_t i, int64_t j) {
    return ((double)(7 * i) - (double)(3 * j)) / 16.0;
}

static void fill(dpmf_array *array) {
    for (int64_t i = 0; i < array->shape[0]; i++) {
        for (int64_t j = 0; j < array->shape[1]; j++)
            array->values[i * array->shape[1] + j] = exchanged(i, j);
    }
}

static void expect_exchanged(const char *path, int dimensions, int64_t rows, int64_t columns) {
    dpmf_array array = {0};
    if (dpmf_array_load(path, &array) != DPMF_OK) fail_msg("%s", dpmf_last_error());
    assert_true(array.dimensions == dimensions && array.shape[0] == rows && array.shape[1] == columns);
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++)
            assert_true(array.values[i * columns + j] == exchanged(i, j));
    }
    dpmf_array_free(&array);
}

static void test_saved_arrays_are_loaded_again(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 1000, 1}, {2, 1, 1}, {2, 3, 5}, {2, 100, 1}, {2, 1, 12345}};
    char directory[] = "/tmp/dpmf-test-array-XXXXXX", path[100];
    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a.npy", directory);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        dpmf_array array = {(int)shapes[i][0], {shapes[i][1], shapes[i][2]}, NULL};
        array.values = malloc(sizeof(double) * (size_t)(shapes[i][1] * shapes[i][2]));
        assert_non_null(array.values);
        fill(&array);
        assert_int_equal(dpmf_array_save(path, &array), DPMF_OK);
        expect_exchanged(path, array.dimensions, array.shape[0], array.shape[1]);
        free(array.values);
    }
    unlink(path);
    dpmf_array none = {0};
    assert_int_equal(dpmf_array_load(path, &none), DPMF_ERROR_IO);
    assert_non_null(strstr(dpmf_last_error(), path));
    FILE *text = fopen(path, "w");
    assert_non_null(text);
    fputs("1 2 3\n4 5 6\n", text);
    fclose(text);
    assert_int_equal(dpmf_array_load(path, &none), DPMF_ERROR_FORMAT);
    assert_non_null(strstr(dpmf_last_error(), path));
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

/* numpy_DIMENSIONS_ROWS_COLUMNS_ANYTHING.npy are NumPy's; dpmf_DIMENSIONS_ROWS_COLUMNS.npy are ours. */
static void test_numpy_and_we_read_each_others_arrays(void **state) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {1, 1000, 1}, {2, 1, 1}, {2, 3, 5}, {2, 100, 1}, {2, 12345, 7}};
    const char *directory = getenv("DPMF_TEST_DIR");
    char path[4096];
    int found = 0;
    (void)state;
    if (directory == NULL) skip();
    DIR *list = opendir(directory);
    assert_non_null(list);
    for (struct dirent *entry = readdir(list); entry != NULL; entry = readdir(list)) {
        int dimensions = 0, rows = 0, columns = 0;
        if (sscanf(entry->d_name, "numpy_%d_%d_%d_", &dimensions, &rows, &columns) != 3) continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        expect_exchanged(path, dimensions, rows, columns);
        found++;
    }
    closedir(list);
    assert_true(found > 0);
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        dpmf_array array = {(int)shapes[i][0], {shapes[i][1], shapes[i][2]}, NULL};
        array.values = malloc(sizeof(double) * (size_t)(shapes[i][1] * shapes[i][2]));
        assert_non_null(array.values);
        fill(&array);
        snprintf(path, sizeof path, "%s/dpmf_%d_%d_%d.npy", directory, array.dimensions, (int)array.shape[0],
                 (int)array.shape[1]);
        assert_int_equal(dpmf_array_save(path, &array), DPMF_OK);
        free(array.values);
    }
}

static void test_any_allocation_for_an_array_may_fail(void **state) {
    char directory[] = "/tmp/dpmf-test-array-XXXXXX", path[100];
    double values[3] = {1, 2, 3};
    dpmf_array array = {1, {3, 1}, values}, back = {0}, again = {0};
    (void)state;
    file f = make(1, HEADER_3, three, sizeof three);
    const uint64_t before = dpmf_memory_in_use();
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof path, "%s/a.npy", directory);
    NEEDS_NO_MEMORY(dpmf_array_save(path, &array));
    FAIL_EACH(dpmf_array_load(path, &back));
    dpmf_array_free(&back);
    FAIL_EACH(dpmf_array_decode(f.bytes, f.size, &again));
    dpmf_array_free(&again);
    assert_int_equal(dpmf_memory_in_use(), before);
    free(f.bytes);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_way_to_write_a_header_is_read),
        cmocka_unit_test(test_two_dimensions_and_float32_are_read),
        cmocka_unit_test(test_whole_numbers_and_columns_first_are_read),
        cmocka_unit_test(test_any_other_header_is_refused),
        cmocka_unit_test(test_magic_version_and_header_length_are_checked),
        cmocka_unit_test(test_every_cut_and_every_tail_of_an_array_is_refused),
        cmocka_unit_test(test_changed_bytes_of_an_array_do_no_harm),
        cmocka_unit_test(test_values_of_an_array_must_be_finite),
        cmocka_unit_test(test_bad_shapes_and_null_are_refused),
        cmocka_unit_test(test_saved_arrays_are_loaded_again),
        cmocka_unit_test(test_numpy_and_we_read_each_others_arrays),
        cmocka_unit_test(test_any_allocation_for_an_array_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
