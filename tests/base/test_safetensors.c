/* SPDX-License-Identifier: Apache-2.0 */
/* The container: what is written comes back, and any other bytes are refused. */
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/failing_allocator.h"

static const char sample_text[] = "{\"a\":\"\xc3\xa9 \\\"\\n\",\"n\":3}";
static const double vector[3] = {1.0, -0.0, 5e-324};
static const double matrix[2 * 2] = {0.1, -1e308, 3.0, 4.0};

typedef struct file {
    uint8_t *bytes; /* malloc: 8-byte aligned, exactly `size` */
    size_t size;
} file;

static base_tensors sample_tensors(void) {
    base_tensors tensors = {0};
    base_tensors_add(&tensors, "v", 3, 0, vector);
    base_tensors_add(&tensors, "m\"\xc3\xa9", 2, 2, matrix);
    return tensors;
}

/* The header given, then the arrays. */
static file join(const uint8_t *header, size_t header_size, const base_tensors *tensors) {
    file f = {NULL, header_size};
    for (int i = 0; i < tensors->count; i++) {
        const base_tensor *t = &tensors->tensor[i];
        f.size += 8 * (size_t)(t->dimensions == 1 ? t->shape[0] : t->shape[0] * t->shape[1]);
    }
    f.bytes = malloc(f.size > 0 ? f.size : 1);
    assert_non_null(f.bytes);
    memcpy(f.bytes, header, header_size);
    size_t at = header_size;
    for (int i = 0; i < tensors->count; i++) {
        const base_tensor *t = &tensors->tensor[i];
        size_t size = 8 * (size_t)(t->dimensions == 1 ? t->shape[0] : t->shape[0] * t->shape[1]);
        memcpy(f.bytes + at, t->values, size);
        at += size;
    }
    return f;
}

static file make(const char *text, const base_tensors *tensors) {
    char digest[65];
    uint8_t *header = NULL;
    size_t header_size = 0;
    assert_int_equal(base_safetensors_digest(text, tensors, digest), DPMF_OK);
    assert_int_equal(base_safetensors_header(text, digest, tensors, &header, &header_size), DPMF_OK);
    assert_int_equal(header_size % 8, 0);
    file f = join(header, header_size, tensors);
    base_free(header);
    return f;
}

/* A file with this JSON as its header, spaces added to a multiple of 8, and `data_size` zero bytes of arrays. */
static file make_raw(const char *json, size_t data_size) {
    size_t length = strlen(json), padded = (length + 7) / 8 * 8;
    file f = {calloc(1, 8 + padded + data_size), 8 + padded + data_size};
    assert_non_null(f.bytes);
    for (int i = 0; i < 8; i++)
        f.bytes[i] = (uint8_t)(padded >> (8 * i));
    memset(f.bytes + 8, ' ', padded);
    memcpy(f.bytes + 8, json, length);
    return f;
}

static dpmf_status read_file(file f, char **text, char digest[65], base_tensors *tensors) {
    return base_safetensors_read(f.bytes, f.size, text, digest, tensors);
}

/* Refused as a bad format, with the outputs as they were and no memory kept. */
static void expect_refused(file f, const char *reason) {
    char *text = NULL, digest[65] = "unchanged";
    base_tensors tensors = {.count = -7};
    const uint64_t before = dpmf_memory_in_use();
    dpmf_status status = read_file(f, &text, digest, &tensors);
    if (status != DPMF_ERROR_FORMAT) fail_msg("status %d, expected a refusal with \"%s\"", (int)status, reason);
    if (strstr(dpmf_last_error(), reason) == NULL) fail_msg("\"%s\" lacks \"%s\"", dpmf_last_error(), reason);
    assert_true(text == NULL && tensors.count == -7);
    assert_string_equal(digest, "unchanged");
    assert_int_equal(dpmf_memory_in_use(), before);
    assert_null(strchr(dpmf_last_error(), '\n'));
}

static void test_what_is_written_comes_back(void **state) {
    base_tensors tensors = sample_tensors(), back = {0};
    char *text = NULL, digest[65], expected[65];
    (void)state;
    file f = make(sample_text, &tensors);
    assert_int_equal(base_safetensors_digest(sample_text, &tensors, expected), DPMF_OK);
    assert_int_equal(read_file(f, &text, digest, &back), DPMF_OK);
    assert_string_equal(text, sample_text);
    assert_string_equal(digest, expected);
    assert_int_equal(back.count, 2);
    const base_tensor *v = base_tensors_find(&back, "v"), *m = base_tensors_find(&back, "m\"\xc3\xa9");
    assert_null(base_tensors_find(&back, "V"));
    assert_non_null(v);
    assert_non_null(m);
    assert_true(v->dimensions == 1 && v->shape[0] == 3 && v->shape[1] == 0);
    assert_true(m->dimensions == 2 && m->shape[0] == 2 && m->shape[1] == 2);
    assert_memory_equal(v->values, vector, sizeof vector);
    assert_memory_equal(m->values, matrix, sizeof matrix);
    assert_true((const uint8_t *)m->values == f.bytes + f.size - sizeof matrix); /* in place */
    base_free(text);
    free(f.bytes);
}

static void test_the_bytes_are_these(void **state) {
    static const char expected[] = "{\"__metadata__\":{\"dpmf\":\"{\\\"a\\\":1}\",\"sha256\":"
                                   "\"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\"},"
                                   "\"v\":{\"dtype\":\"F64\",\"shape\":[3],\"data_offsets\":[0,24]},"
                                   "\"m\\\"\xc3\xa9\":{\"dtype\":\"F64\",\"shape\":[2,2],\"data_offsets\":[24,56]}}";
    const char digest[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    base_tensors tensors = sample_tensors();
    uint8_t *header = NULL;
    size_t size = 0;
    (void)state;
    assert_int_equal(base_safetensors_header("{\"a\":1}", digest, &tensors, &header, &size), DPMF_OK);
    size_t length = sizeof expected - 1, padded = (length + 7) / 8 * 8;
    assert_int_equal(size, 8 + padded);
    for (int i = 0; i < 8; i++)
        assert_int_equal(header[i], padded >> (8 * i) & 0xff);
    assert_memory_equal(header + 8, expected, length);
    for (size_t i = length; i < padded; i++)
        assert_int_equal(header[8 + i], ' ');
    base_free(header);
}

/* The digest over bytes laid out by hand, as base/safetensors.h says. */
static void test_the_digest_covers_what_it_says(void **state) {
    static const uint8_t expected[] = "{}v\0"
                                      "\1\0\0\0\0\0\0\0"
                                      "\3\0\0\0\0\0\0\0";
    static const uint8_t expected_matrix[] = "w\0"
                                             "\2\0\0\0\0\0\0\0"
                                             "\1\0\0\0\0\0\0\0"
                                             "\4\0\0\0\0\0\0\0";
    const base_part parts[] = {{expected, 20}, {vector, sizeof vector}, {expected_matrix, 26}, {matrix, sizeof matrix}};
    char by_hand[65], digest[65];
    base_tensors tensors = {0};
    (void)state;
    base_tensors_add(&tensors, "v", 3, 0, vector);
    base_tensors_add(&tensors, "w", 1, 4, matrix);
    assert_int_equal(base_sha256(4, parts, by_hand), DPMF_OK);
    assert_int_equal(base_safetensors_digest("{}", &tensors, digest), DPMF_OK);
    assert_string_equal(digest, by_hand);
}

/* Every other value of every byte: 255 changed files for each byte of the sample. */
static void test_every_changed_byte_is_refused(void **state) {
    base_tensors tensors = sample_tensors();
    file f = make(sample_text, &tensors);
    (void)state;
    for (size_t i = 0; i < f.size; i++) {
        for (int change = 1; change < 256; change++) {
            f.bytes[i] ^= (uint8_t)change;
            expect_refused(f, "");
            f.bytes[i] ^= (uint8_t)change;
        }
    }
    free(f.bytes);
}

static void test_every_cut_and_every_tail_of_a_container_is_refused(void **state) {
    base_tensors tensors = sample_tensors();
    file f = make(sample_text, &tensors);
    (void)state;
    for (size_t size = 0; size < f.size; size++) {
        file cut = {malloc(size > 0 ? size : 1), size};
        assert_non_null(cut.bytes);
        memcpy(cut.bytes, f.bytes, size);
        expect_refused(cut, "");
        free(cut.bytes);
    }
    for (size_t more = 1; more <= 17; more++) {
        file longer = {calloc(1, f.size + more), f.size + more};
        assert_non_null(longer.bytes);
        memcpy(longer.bytes, f.bytes, f.size);
        expect_refused(longer, "bytes after the last array");
        free(longer.bytes);
    }
    free(f.bytes);
}

static void test_header_lengths_are_bounded(void **state) {
    static const uint64_t lengths[] = {0,
                                       1,
                                       2,
                                       7,
                                       9,
                                       16,
                                       (16 << 20) + 8,
                                       (uint64_t)1 << 31,
                                       (uint64_t)1 << 32,
                                       (uint64_t)1 << 63,
                                       UINT64_MAX - 7,
                                       UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        file f = make_raw("{}", 0);
        memcpy(f.bytes, &lengths[i], 8);
        expect_refused(f, lengths[i] == 0 ? "no object" : lengths[i] == 16 ? "truncated" : "this is no mechanism file");
        free(f.bytes);
    }
}

/* A header of 16 MiB is read (and its trailing spaces refused as not ours); one of 8 more is not looked at. */
static void test_the_largest_header_is_16_mebibytes(void **state) {
    for (size_t extra = 0; extra <= 8; extra += 8) {
        size_t length = ((size_t)16 << 20) + extra;
        file f = {malloc(8 + length), 8 + length};
        (void)state;
        assert_non_null(f.bytes);
        memset(f.bytes, ' ', f.size);
        for (int i = 0; i < 8; i++)
            f.bytes[i] = (uint8_t)(length >> (8 * i));
        memcpy(f.bytes + 8, "{\"__metadata__\":{\"dpmf\":\"{}\",\"sha256\":\"\"}}", 42);
        expect_refused(f, extra == 0 ? "\"sha256\" is not 64" : "this is no mechanism file");
        free(f.bytes);
    }
}

#define DIGITS "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define META "{\"__metadata__\":{\"dpmf\":\"{}\",\"sha256\":\"" DIGITS "\"}"

static void test_hostile_headers_are_refused(void **state) {
    static const struct {
        const char *json;
        size_t data_size;
        const char *reason;
    } cases[] = {
        {"{}", 0, "does not begin with \"__metadata__\""},
        {"{\"a\":1}", 0, "does not begin with \"__metadata__\""},
        {"{\"__metadata__\":1}", 0, "does not begin with \"__metadata__\""},
        {"{\"__metadata__\":{}}", 0, "not exactly"},
        {"{\"__metadata__\":{\"dpmf\":\"{}\"}}", 0, "not exactly"},
        {"{\"__metadata__\":{\"dpmf\":\"{}\",\"sha1\":\"\"}}", 0, "\"sha256\" is missing"},
        {"{\"__metadata__\":{\"dpmf\":1,\"sha256\":\"" DIGITS "\"}}", 0, "\"dpmf\" is not a string"},
        {"{\"__metadata__\":{\"dpmf\":\"{}\",\"sha256\":\"" DIGITS "\",\"x\":\"\"}}", 0, "not exactly"},
        {"{\"__metadata__\":{\"dpmf\":\"{}\",\"sha256\":\"" DIGITS "0\"}}", 0, "not 64 hexadecimal"},
        {"{\"__metadata__\":{\"dpmf\":\"{}\",\"sha256\":\"A" DIGITS "\"}}", 0, "not 64 hexadecimal"},
        {META "}", 0, "digest"},
        {META "}", 8, "bytes after the last array"},
        {META ",\"__metadata__\":{}}", 0, "occurs twice"},
        {META ",\"v\":1}", 0, "no dtype"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1]}}", 8, "no dtype"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8],\"x\":0}}", 8, "no dtype"},
        {META ",\"v\":{\"dtype\":\"F64\",\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "occurs twice"},
        {META ",\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "not F64"},
        {META ",\"v\":{\"dtype\":64,\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "not F64"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[0],\"data_offsets\":[0,0]}}", 0, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1,0],\"data_offsets\":[0,0]}}", 0, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1,1,1],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[-1],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1.5],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[\"1\"],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":1,\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1e300],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[9007199254740992,2048],\"data_offsets\":[0,0]}}", 0, "disagree"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967297],\"data_offsets\":[0,8]}}", 8, "disagree"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[2305843009213693953],\"data_offsets\":[0,8]}}", 8, "its shape"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "disagree"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,9]}}", 9, "disagree"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,7]}}", 7, "disagree"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}", 16, "does not begin"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,0]}}", 8, "does not begin"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8,8]}}", 8, "its offsets"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8]}}", 8, "its offsets"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,-8]}}", 8, "its offsets"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[2],\"data_offsets\":[0,16]}}", 8, "does not end within"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1125899906842624],\"data_offsets\":[0,9007199254740992]}}", 8,
         "does not end within"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
              "\"w\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}",
         8, "does not begin"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
              "\"w\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[16,24]}}",
         24, "does not begin"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]},"
              "\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[8,16]}}",
         16, "occurs twice"},
        {META ",\"\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "an array name of 0"},
        {META ",\"\\n\\u001b\":1}", 8, "array \"??\""},
        {META ",\"0123456789012345678901234567890123456789012345678901234567890123\":{}}", 0, "an array name of 64"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[[1]],\"data_offsets\":[0,8]}}", 8, "too deep"},
        {META ",\"v\":{\"dtype\":\"\xc0\x80\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "not valid UTF-8"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1e0],\"data_offsets\":[0,8]}}", 8, "not in the form"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8.0]}}", 8, "not in the form"},
        {META ",\"v\":{\"shape\":[1],\"dtype\":\"F64\",\"data_offsets\":[0,8]}}", 8, "not in the form"},
        {META ", \"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "not in the form"},
        {META ",\"\\u0076\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "not in the form"},
        {META "}         ", 0, "not in the form"},
        {META ",\"v\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}}", 8, "its digest is"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        file f = make_raw(cases[i].json, cases[i].data_size);
        expect_refused(f, cases[i].reason);
        free(f.bytes);
    }
}

static void test_deep_nesting_is_refused(void **state) {
    enum { LEVELS = 1000000 };
    char *json = malloc(LEVELS + 16);
    (void)state;
    assert_non_null(json);
    memset(json, '[', LEVELS);
    memcpy(json, "{\"a\":", 5);
    json[LEVELS] = '\0';
    file f = make_raw(json, 0);
    expect_refused(f, "too deep");
    free(f.bytes);
    free(json);
}

static void test_values_of_a_container_must_be_finite(void **state) {
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        double values[4] = {1, 2, bad[i], 4};
        base_tensors tensors = {0};
        base_tensors_add(&tensors, "v", 4, 0, values);
        file f = make("{}", &tensors); /* with a digest that fits */
        expect_refused(f, "array \"v\": a value that is not finite");
        free(f.bytes);
    }
}

static void test_there_is_room_for_sixteen_arrays(void **state) {
    base_tensors tensors = {0}, back = {0};
    char name[BASE_TENSOR_NAME_MAX], *text = NULL, digest[65];
    (void)state;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < BASE_TENSORS_MAX; i++) {
        name[0] = (char)('a' + i);
        base_tensors_add(&tensors, name, 1, 1, vector);
    }
    file f = make("{}", &tensors);
    assert_int_equal(read_file(f, &text, digest, &back), DPMF_OK);
    assert_int_equal(back.count, BASE_TENSORS_MAX);
    base_free(text);
    free(f.bytes);
    char json[4000] = META;
    for (int i = 0; i <= BASE_TENSORS_MAX; i++)
        snprintf(json + strlen(json), sizeof json - strlen(json),
                 ",\"%c\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[%d,%d]}", 'a' + i, 8 * i, 8 * i + 8);
    strcat(json, "}");
    f = make_raw(json, 8 * 17);
    expect_refused(f, "more arrays than the 16");
    free(f.bytes);
}

static void test_a_file_without_arrays_is_fine(void **state) {
    base_tensors tensors = {0}, back = {.count = 5};
    char *text = NULL, digest[65];
    (void)state;
    file f = make("{}", &tensors);
    assert_int_equal(read_file(f, &text, digest, &back), DPMF_OK);
    assert_int_equal(back.count, 0);
    base_free(text);
    free(f.bytes);
}

static void test_texts_that_cannot_be_held_are_refused(void **state) {
    base_tensors tensors = {0};
    uint8_t *header = NULL;
    size_t size = 0;
    char *large = malloc((16 << 20) + 1);
    (void)state;
    assert_non_null(large);
    memset(large, 'x', 16 << 20);
    large[16 << 20] = '\0';
    assert_int_equal(base_safetensors_header(large, DIGITS, &tensors, &header, &size), DPMF_ERROR_ARGUMENT);
    assert_int_equal(base_safetensors_header("\xff", DIGITS, &tensors, &header, &size), DPMF_ERROR_ARGUMENT);
    assert_null(header);
    free(large);
}

static void test_any_allocation_for_a_container_may_fail(void **state) {
    base_tensors tensors = sample_tensors(), back = {0};
    char *text = NULL, digest[65];
    uint8_t *header = NULL;
    size_t size = 0;
    (void)state;
    file f = make(sample_text, &tensors);
    const uint64_t before = dpmf_memory_in_use();
    FAIL_EACH(base_safetensors_header(sample_text, DIGITS, &tensors, &header, &size));
    base_free(header);
    FAIL_EACH(read_file(f, &text, digest, &back));
    base_free(text);
    assert_int_equal(dpmf_memory_in_use(), before);
    free(f.bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_comes_back),
        cmocka_unit_test(test_the_bytes_are_these),
        cmocka_unit_test(test_the_digest_covers_what_it_says),
        cmocka_unit_test(test_every_changed_byte_is_refused),
        cmocka_unit_test(test_every_cut_and_every_tail_of_a_container_is_refused),
        cmocka_unit_test(test_header_lengths_are_bounded),
        cmocka_unit_test(test_the_largest_header_is_16_mebibytes),
        cmocka_unit_test(test_hostile_headers_are_refused),
        cmocka_unit_test(test_deep_nesting_is_refused),
        cmocka_unit_test(test_values_of_a_container_must_be_finite),
        cmocka_unit_test(test_there_is_room_for_sixteen_arrays),
        cmocka_unit_test(test_a_file_without_arrays_is_fine),
        cmocka_unit_test(test_texts_that_cannot_be_held_are_refused),
        cmocka_unit_test(test_any_allocation_for_a_container_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
