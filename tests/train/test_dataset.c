/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets: IDX plain and in gzip, CSV, copies and slices; refusals with their place. */
#include "base/memory.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { IMAGES = 5, SIDE_A = 3, SIDE_B = 2, FEATURES = SIDE_A * SIDE_B };

/* ---- IDX ---- */

static size_t make_idx(int dimensions, const uint32_t *shape, size_t payload, uint8_t *out) {
    size_t size = 0;
    out[size++] = 0;
    out[size++] = 0;
    out[size++] = 8;
    out[size++] = (uint8_t)dimensions;
    for (int i = 0; i < dimensions; i++)
        for (int shift = 24; shift >= 0; shift -= 8)
            out[size++] = (uint8_t)(shape[i] >> shift);
    for (size_t i = 0; i < payload; i++)
        out[size++] = (uint8_t)(dimensions == 1 ? (i * 3) % 7 : i * 37);
    return size;
}

static size_t make_gzip(const uint8_t *in, size_t size, uint8_t *out, size_t room) {
    z_stream stream = {0};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    stream.next_in = (Bytef *)(uintptr_t)in;
    stream.avail_in = (uInt)size;
    stream.next_out = out;
    stream.avail_out = (uInt)room;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    deflateEnd(&stream);
    return room - stream.avail_out;
}

static dpmf_status decode(const uint8_t *bytes, size_t size, int dimensions) {
    int64_t shape[3];
    uint8_t *payload = NULL;
    dpmf_status status = train_idx_decode(bytes, size, "a file", dimensions, shape, &payload);
    base_free(payload);
    return status;
}

static void test_idx_is_read_plain_and_packed_and_refused_when_cut(void **unused) {
    const uint32_t shape[] = {IMAGES, SIDE_A, SIDE_B};
    uint8_t plain[200], packed[300];
    int64_t found[3] = {0};
    uint8_t *payload = NULL;
    (void)unused;
    const size_t size = make_idx(3, shape, IMAGES * FEATURES, plain);
    const size_t packed_size = make_gzip(plain, size, packed, sizeof packed);
    check_ok(train_idx_decode(plain, size, "x", 3, found, &payload));
    assert_true(found[0] == IMAGES && found[1] == SIDE_A && found[2] == SIDE_B);
    assert_memory_equal(payload, plain + 16, IMAGES * FEATURES);
    base_free(payload);
    check_ok(train_idx_decode(packed, packed_size, "x", 3, found, &payload));
    assert_memory_equal(payload, plain + 16, IMAGES * FEATURES);
    base_free(payload);
    /* Cut anywhere, or one byte longer. */
    for (size_t cut = 0; cut < size; cut++)
        check_fails(DPMF_ERROR_FORMAT, decode(plain, cut, 3));
    for (size_t cut = 0; cut < packed_size; cut++)
        check_fails(DPMF_ERROR_FORMAT, decode(packed, cut, 3));
    plain[size] = 0;
    packed[packed_size] = 0;
    check_fails(DPMF_ERROR_FORMAT, decode(plain, size + 1, 3));
    check_message("more bytes");
    check_fails(DPMF_ERROR_FORMAT, decode(packed, packed_size + 1, 3));
    check_message("more bytes");
    check_fails(DPMF_ERROR_FORMAT, decode(plain, size, 1));
    check_message("0x00000801");
    for (int i = 0; i < 4; i++) { /* the magic */
        plain[i] ^= 1;
        check_fails(DPMF_ERROR_FORMAT, decode(plain, size, 3));
        plain[i] ^= 1;
    }
    check_ok(decode(plain, size, 3));
}

static void test_changed_bytes_in_gzip_are_refused(void **unused) {
    const uint32_t shape[] = {IMAGES, SIDE_A, SIDE_B};
    uint8_t plain[200], packed[300], changed[300];
    (void)unused;
    const size_t size = make_idx(3, shape, IMAGES * FEATURES, plain);
    const size_t packed_size = make_gzip(plain, size, packed, sizeof packed);
    for (size_t i = 0; i < packed_size; i++) { /* header time and flags of the file aside, every byte is checked */
        if (i >= 3 && i < 10) continue;
        memcpy(changed, packed, packed_size);
        changed[i] ^= 0x10;
        check_fails(DPMF_ERROR_FORMAT, decode(changed, packed_size, 3));
    }
    /* A payload longer or shorter than in the header, packed correctly. */
    for (int by = -1; by <= 1; by += 2) {
        const size_t other = make_gzip(plain, (size_t)((int)size + by), packed, sizeof packed);
        check_fails(DPMF_ERROR_FORMAT, decode(packed, other, 3));
    }
    /* Two streams, one after the other. */
    const size_t once = make_gzip(plain, size, packed, sizeof packed);
    memcpy(changed, packed, once);
    memcpy(changed + once, packed, once);
    check_fails(DPMF_ERROR_FORMAT, decode(changed, 2 * once, 3));
}

/* A header that promises more than the file can hold takes no memory. */
static void test_a_header_that_promises_too_much_takes_no_memory(void **unused) {
    const uint32_t huge[] = {0xffffffffu, 0xffffffffu, 2}, large[] = {1000000, 1000, 10}, none[] = {0, 3, 2};
    const uint32_t large_labels[] = {4000000000u};
    uint8_t plain[200], packed[300];
    (void)unused;
    check_fails(DPMF_ERROR_FORMAT, decode(plain, make_idx(3, huge, 9, plain), 3));
    check_fails(DPMF_ERROR_FORMAT, decode(plain, make_idx(3, none, 9, plain), 3));
    const uint64_t before = dpmf_memory_in_use();
    dpmf_memory_set_limit(before + (1 << 20));
    check_fails(DPMF_ERROR_FORMAT, decode(packed, make_gzip(plain, make_idx(3, large, 9, plain), packed, 300), 3));
    check_message("announces 10000000000 bytes");
    check_fails(DPMF_ERROR_FORMAT,
                decode(packed, make_gzip(plain, make_idx(1, large_labels, 9, plain), packed, 300), 1));
    dpmf_memory_set_limit(0);
    /* A true bomb: 8 MB of zeros in a few kB, where the header says 30 bytes. */
    const uint32_t shape[] = {IMAGES, SIDE_A, SIDE_B};
    uint8_t *zeros = calloc(1, 8 << 20);
    make_idx(3, shape, 30, zeros);
    uint8_t *bomb = malloc(1 << 16);
    const size_t size = make_gzip(zeros, 8 << 20, bomb, 1 << 16);
    check_fails(DPMF_ERROR_FORMAT, decode(bomb, size, 3));
    check_message("more bytes");
    free(zeros);
    free(bomb);
}

static const char *write_file(const char *name, const void *bytes, size_t size) {
    static char path[2][128];
    static int which;
    which ^= 1;
    snprintf(path[which], sizeof path[which], "test_dataset.%ld.%s", (long)getpid(), name);
    FILE *file = fopen(path[which], "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
    return path[which];
}

static void test_images_and_labels_make_a_data_set(void **unused) {
    const uint32_t shape[] = {IMAGES, SIDE_A, SIDE_B}, count[] = {IMAGES}, other[] = {IMAGES - 1};
    uint8_t images[200], labels[300], packed[300];
    dpmf_dataset *data = NULL, *again = NULL;
    (void)unused;
    const size_t size = make_idx(3, shape, IMAGES * FEATURES, images);
    const size_t label_size = make_idx(1, count, IMAGES, labels);
    const char *image_path = write_file("images", images, size);
    const char *label_path = write_file("labels", labels, label_size);
    FAIL_EACH(dpmf_dataset_load_idx(image_path, label_path, &data));
    assert_int_equal(dpmf_dataset_count(data), IMAGES);
    assert_int_equal(dpmf_dataset_features(data), FEATURES);
    assert_int_equal(dpmf_dataset_classes(data), 7); /* labels 0 3 6 2 5 */
    assert_int_equal(dpmf_dataset_units(data), IMAGES);
    for (int i = 0; i < IMAGES * FEATURES; i++)
        check_near((double)data->x[i], (double)((float)(uint8_t)(i * 37) / 255.0f), 1e-5); /* to the row's grid */
    assert_int_equal(data->label[2], 6);
    unlink(image_path);
    image_path = write_file("images", packed, make_gzip(images, size, packed, sizeof packed));
    FAIL_EACH(dpmf_dataset_load_idx(image_path, label_path, &again));
    assert_string_equal(data->digest, again->digest);
    dpmf_dataset_free(again);
    unlink(label_path);
    label_path = write_file("labels", labels, make_idx(1, other, IMAGES - 1, labels));
    check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_idx(image_path, label_path, &again));
    check_message("5 images");
    check_message("4 labels");
    check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_idx(label_path, image_path, &again));
    unlink(image_path);
    check_fails(DPMF_ERROR_IO, dpmf_dataset_load_idx(image_path, label_path, &again));
    unlink(label_path);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_load_idx(NULL, label_path, &again));
    dpmf_dataset_free(data);
}

/* ---- CSV ---- */

static dpmf_status csv(const char *text, const char *unit, dpmf_dataset **out) {
    return train_csv_decode(text, strlen(text), "x.csv", "label", unit, out);
}

static void refuse_csv(const char *text, const char *says) {
    dpmf_dataset *none = NULL;
    check_fails(DPMF_ERROR_FORMAT, csv(text, NULL, &none));
    check_message(says);
    assert_null(none);
}

static void test_csv_columns_become_features_labels_and_users(void **unused) {
    const char *text = "a,label,who,b\r\n1,0,eve,-2.5\n3e-1,2,bob,4\n0,1,eve,.5\n7,0,al,8";
    const float x[] = {1, -2.5f, 0.3f, 4, 0, .5f, 7, 8};
    dpmf_dataset *data = NULL, *again = NULL;
    (void)unused;
    FAIL_EACH(csv(text, "who", &data));
    assert_int_equal(data->count, 4);
    assert_int_equal(data->features, 2);
    assert_int_equal(data->classes, 3);
    assert_int_equal(data->units, 3);
    for (int i = 0; i < 8; i++)
        check_near((double)data->x[i], (double)x[i], 1e-5); /* to the row's grid */
    assert_true(data->unit[0] == 0 && data->unit[1] == 1 && data->unit[2] == 0 && data->unit[3] == 2);
    const char *path = write_file("csv", text, strlen(text));
    check_ok(dpmf_dataset_load_csv(path, "label", "who", &again));
    assert_string_equal(data->digest, again->digest);
    assert_string_equal(data->names, again->names);
    unlink(path);
    dpmf_dataset_free(again);
    check_ok(csv("\xEF\xBB\xBF"
                 "a,b,label\n1,0,1\n",
                 NULL, &again)); /* a byte order mark belongs to no name */
    assert_string_equal(data->names, again->names);
    dpmf_dataset_free(again);
    check_ok(csv("b,label,a\n1,0,1\n", NULL, &again)); /* the same features in another order */
    assert_string_not_equal(data->names, again->names);
    dpmf_dataset_free(again);
    check_ok(csv("a,b,label\n1,0,1\n", NULL, &again));
    assert_string_equal(data->names, again->names);
    dpmf_dataset_free(again);
    dpmf_dataset_free(data);
}

static void test_csv_lines_that_do_not_fit_are_refused_by_number(void **unused) {
    dpmf_dataset *none = NULL;
    (void)unused;
    refuse_csv("", "no header");
    refuse_csv("\n", "no header");
    refuse_csv("a,b\n1,2\n", "no column 'label'");
    refuse_csv("label\n1\n", "no columns of features");
    refuse_csv("a,label\n", "no examples");
    refuse_csv("a,a,label\n1,2,0\n", "'a'");
    refuse_csv("a,,label\n1,2,0\n", "no name");
    refuse_csv("a,label\n1,0\n2,0,3\n", "line 3 has 3 fields");
    refuse_csv("a,label\n1,0\n\n2,0\n", "line 3 has 1 fields");
    refuse_csv("a,label\n1,0\nnano,0\n", "line 3: 'nano'");
    refuse_csv("a,label\n1,0\n1e,0\n", "line 3: '1e'");
    refuse_csv("a,label\n1,0\n0x1,0\n", "line 3: '0x1'");
    refuse_csv("a,label\n1,0\n ,0\n", "line 3: ' '");
    refuse_csv("a,label\n1,-1\n", "line 2: '-1'");
    refuse_csv("a,label\n1,65536\n", "line 2: '65536'");
    refuse_csv("a,label\n1,1.5\n", "line 2: '1.5'");
    refuse_csv("a,label\n\"1\",0\n", "line 2 has a quotation mark");
    refuse_csv("a,label\n1,0\xff\n", "UTF-8");
    check_fails(DPMF_ERROR_FORMAT, csv("a,label,u\n1,0,\n", "u", &none));
    check_message("user's name");
    check_fails(DPMF_ERROR_ARGUMENT, csv("a,label\n1,0\n", "label", &none));
    check_fails(DPMF_ERROR_FORMAT, csv("a,label\n1,0\n", "who", &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_load_csv(NULL, "label", NULL, &none));
    check_fails(DPMF_ERROR_IO, dpmf_dataset_load_csv("none.csv", "label", NULL, &none));
}

/* ---- memory ---- */

static void test_a_data_set_copies_slices_and_refuses_bad_labels(void **unused) {
    float x[] = {1, 2, 3, 4, 5, 6};
    int32_t label[] = {0, 2, 1};
    int64_t unit[] = {4, 0, 4};
    dpmf_dataset *data = NULL, *part = NULL, *none = NULL;
    (void)unused;
    FAIL_EACH(dpmf_dataset_create(3, 2, 3, x, label, unit, &data));
    assert_int_equal(dpmf_dataset_units(data), 5);
    FAIL_EACH(dpmf_dataset_slice(data, 1, 2, &part));
    assert_int_equal(part->count, 2);
    assert_int_equal(part->classes, 3);
    assert_int_equal(part->units, 5);
    assert_true(part->x[0] == 3.0f && part->label[1] == 1 && part->unit[1] == 4);
    assert_string_not_equal(part->digest, data->digest);
    for (int i = 0; i < 5; i++) {
        const int64_t ranges[][2] = {{-1, 1}, {0, 0}, {0, 4}, {3, 1}, {INT64_MAX, INT64_MAX}};
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_slice(data, ranges[i][0], ranges[i][1], &none));
    }
    label[1] = 3;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 2, 3, x, label, unit, &none));
    check_message("example 1 has label 3, accepted: 0 to 2");
    label[1] = -1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 2, 3, x, label, unit, &none));
    label[1] = 2;
    unit[2] = -1;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 2, 3, x, label, unit, &none));
    unit[2] = 4;
    x[3] = NAN; /* accepted: it is the sums that leave it out */
    check_ok(dpmf_dataset_create(3, 2, 3, x, label, unit, &none));
    assert_true(isnan(none->input[1].square) && none->x[2] == 0 && none->x[3] == 0);
    dpmf_dataset_free(none);
    none = NULL;
    x[3] = 4;
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(0, 2, 3, x, label, unit, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 0, 3, x, label, unit, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 2, 0, x, label, unit, &none));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_create(3, 2, 3, NULL, label, unit, &none));
    assert_null(none);
    dpmf_dataset_free(part);
    dpmf_dataset_free(data);
    dpmf_dataset_free(NULL);
    assert_int_equal(dpmf_dataset_count(NULL), 0);
}

static void test_scaled_features_are_another_data_set(void **unused) {
    const float x[] = {3, 4, 0, 0, NAN, 1};
    const int32_t label[] = {0, 1, 0};
    const double offset[] = {1, -2}, factor[] = {2, 0.5}, wrong[] = {0, INFINITY};
    dpmf_dataset *rows = NULL, *columns = NULL;
    char before[65];
    (void)unused;
    check_ok(dpmf_dataset_create(3, 2, 2, x, label, NULL, &rows));
    check_ok(dpmf_dataset_create(3, 2, 2, x, label, NULL, &columns));
    memcpy(before, rows->digest, sizeof before);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_scale(rows, offset, wrong));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_scale(rows, offset, NULL));
    assert_string_equal(before, rows->digest); /* a refusal changes nothing */
    check_near((double)rows->x[0], 3, 1e-5);
    check_ok(dpmf_dataset_scale(rows, NULL, NULL));
    check_ok(dpmf_dataset_scale(columns, offset, factor));
    const double by_row[] = {0.6, 0.8, 0, 0, 0, 0}, by_column[] = {4, 3, -2, 1, 0, 0};
    for (int i = 0; i < 6; i++) {
        check_near((double)rows->x[i], by_row[i], 1e-5);
        check_near((double)columns->x[i], by_column[i], 1e-5);
    }
    assert_true(isnan(rows->input[2].square) && isnan(columns->input[2].square)); /* it still adds 0 to every sum */
    assert_string_not_equal(before, rows->digest);
    assert_string_not_equal(rows->digest, columns->digest);
    dpmf_dataset_free(rows);
    dpmf_dataset_free(columns);
}

/* 2 features, 2 classes: weights 2 x 2, then 2 biases. */
static void test_a_model_answers_with_its_class_and_probability(void **unused) {
    const float x[] = {1, 0, 0, 1, 2, 2}, weights[] = {1, 0, 0, 1, 0, 0.5f};
    const int32_t label[] = {0, 0, 0};
    int32_t answer[3];
    double probability[3];
    dpmf_dataset *data = NULL;
    (void)unused;
    check_ok(dpmf_dataset_create(3, 2, 1, x, label, NULL, &data));
    check_ok(dpmf_model_predict(data, 0, 6, weights, NULL, answer, probability));
    assert_true(answer[0] == 0 && answer[1] == 1 && answer[2] == 1);
    check_near(probability[0], 1 / (1 + exp(-0.5)), 1e-5);
    check_near(probability[1], 1 / (1 + exp(-1.5)), 1e-5);
    check_near(probability[2], 1 / (1 + exp(-0.5)), 1e-5);
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_model_predict(data, 0, 7, weights, NULL, answer, NULL));
    assert_true(dpmf_model_classes(2, 0, 6) == 2 && dpmf_model_classes(2, 0, 7) == 0);
    assert_true(dpmf_model_classes(2, 3, 9 + 4 * 5) == 5 && dpmf_model_classes(2, 3, 9) == 0);
    dpmf_dataset_free(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idx_is_read_plain_and_packed_and_refused_when_cut),
        cmocka_unit_test(test_changed_bytes_in_gzip_are_refused),
        cmocka_unit_test(test_a_header_that_promises_too_much_takes_no_memory),
        cmocka_unit_test(test_images_and_labels_make_a_data_set),
        cmocka_unit_test(test_csv_columns_become_features_labels_and_users),
        cmocka_unit_test(test_csv_lines_that_do_not_fit_are_refused_by_number),
        cmocka_unit_test(test_scaled_features_are_another_data_set),
        cmocka_unit_test(test_a_model_answers_with_its_class_and_probability),
        cmocka_unit_test(test_a_data_set_copies_slices_and_refuses_bad_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
