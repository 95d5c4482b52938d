/* SPDX-License-Identifier: Apache-2.0 */
/* Features in place of the pixels of a data set, and the file that keeps them; parts that share rows; CIFAR-10's format. */
#include "base/memory.h"
#include "support/check.h"
#include "support/failing_allocator.h"
#include "train/scattering.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { COUNT = 600, SIDE = 8, PIXELS = SIDE * SIDE, BROKEN = 17 }; /* three blocks of the file, the last one shorter */

static char directory[] = "/tmp/dpmf-features-XXXXXX", second[64];

static int make_directories(void **unused) {
    (void)unused;
    if (mkdtemp(directory) == NULL) return -1;
    snprintf(second, sizeof second, "%s/second", directory);
    return mkdir(second, 0700);
}

static glob_t files_in(const char *where) {
    char pattern[128];
    glob_t found = {0};
    snprintf(pattern, sizeof pattern, "%s/dpmf-features-*", where);
    glob(pattern, 0, NULL, &found);
    return found;
}

static void remove_files(void) {
    for (int i = 0; i < 2; i++) {
        glob_t found = files_in(i == 0 ? directory : second);
        for (size_t k = 0; k < found.gl_pathc; k++)
            unlink(found.gl_pathv[k]);
        globfree(&found);
    }
}

static int remove_directories(void **unused) {
    (void)unused;
    remove_files();
    rmdir(second);
    return rmdir(directory);
}

/* Random images, one of which is not finite. */
static dpmf_dataset *make_images(int64_t count) {
    float *x = calloc((size_t)(count * PIXELS), sizeof *x);
    int32_t *label = calloc((size_t)count, sizeof *label);
    dpmf_dataset *data = NULL;
    uint64_t seed = 3;
    assert_true(x != NULL && label != NULL);
    for (int64_t i = 0; i < count * PIXELS; i++)
        x[i] = (float)check_random(&seed);
    if (count > BROKEN) x[BROKEN * PIXELS + 5] = NAN;
    check_ok(dpmf_dataset_create(count, PIXELS, 2, x, label, NULL, &data));
    check_ok(dpmf_dataset_set_shape(data, (const int64_t[]){1, SIDE, SIDE}));
    free(x);
    free(label);
    return data;
}

static dpmf_dataset *scattered(const char *first, const char *other, int threads, dpmf_scattering_result *result) {
    dpmf_scattering_options how = dpmf_scattering_options_defaults();
    dpmf_dataset *data = make_images(COUNT);
    how.scales = 1;
    how.angles = 4;
    how.cache[0] = first;
    how.cache[1] = other;
    how.run.threads = threads;
    check_ok(dpmf_dataset_scatter(data, &how, result));
    return data;
}

static void check_equal(const dpmf_dataset *a, const dpmf_dataset *b) {
    assert_true(a->count == b->count && a->features == b->features);
    assert_memory_equal(a->x, b->x, (size_t)(a->count * a->features) * sizeof *a->x);
    assert_memory_equal(a->input, b->input, (size_t)a->count * sizeof *a->input);
    assert_string_equal(a->digest, b->digest);
}

static void test_features_replace_pixels_for_any_number_of_threads(void **unused) {
    dpmf_scattering_result result;
    dpmf_dataset *pixels = make_images(COUNT), *one = scattered(NULL, NULL, 1, &result);
    int64_t shape[3];
    (void)unused;
    assert_true(result.cache == DPMF_CACHE_UNUSED && result.note[0] == '\0');
    /* 8 pixels of scale 1: padded to 12, four outputs; 1 + 4 paths. */
    assert_true(dpmf_dataset_features(one) == 5 * 16 && strcmp(one->digest, pixels->digest) != 0);
    dpmf_dataset_shape(one, shape);
    assert_true(shape[0] == 0 && shape[1] == 0 && shape[2] == 0);
    for (int threads = 2; threads <= 3; threads++) {
        dpmf_dataset *many = scattered(NULL, NULL, threads, NULL);
        check_equal(one, many);
        dpmf_dataset_free(many);
    }
    for (int64_t i = 0; i < COUNT; i++) { /* two groups of mean 0 and variance near 1 */
        const float *x = one->x + i * 80;
        double sum = 0, square = 0;
        for (int64_t j = 0; j < 48; j++) {
            sum += (double)x[j];
            square += (double)x[j] * (double)x[j];
        }
        assert_true(isnan(one->input[i].square) == (i == BROKEN));
        if (i == BROKEN)
            assert_true(square == 0);
        else
            assert_true(fabs(sum) < 0.01 && fabs(square * 80 / 47 - 1) < 0.01);
    }
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_scatter(one, NULL, NULL)); /* they are no image */
    dpmf_dataset_free(pixels);
    dpmf_dataset_free(one);
}

/* A feature is a half divided by the root of their number, then put on the grid of its row. */
static void test_features_are_rounded_to_half_precision(void **unused) {
    dpmf_dataset *pixels = make_images(8), *data = make_images(8);
    train_scattering *plan = NULL;
    const kernels_scatter_set *set = kernels_scatter_find("ref");
    float *room = NULL;
    (void)unused;
    check_ok(dpmf_dataset_scatter(data, &(dpmf_scattering_options){.scales = 1, .angles = 4}, NULL));
    check_ok(train_scattering_create(1, SIDE, SIDE, 1, 4, &plan));
    check_ok(train_scattering_room(plan, set, &room));
    for (int64_t i = 0; i < 8; i++) {
        train_scattering_apply(plan, set, 1, pixels->x + i * PIXELS, room);
        for (int64_t j = 0; j < 80; j++) {
            const double v = (double)room[j * set->lanes], unit = ldexp(1, ilogb(fmax(fabs(v), 0x1p-14)) - 10);
            const double half = rint(v / unit) * unit;
            assert_true(fabs((double)data->x[i * 80 + j] - half / sqrt(80)) < 2 * data->input[i].step);
        }
    }
    base_free(room);
    train_scattering_free(plan);
    dpmf_dataset_free(pixels);
    dpmf_dataset_free(data);
}

static void flip_byte(const char *path, long place) {
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, place, place < 0 ? SEEK_END : SEEK_SET), 0);
    const int byte = fgetc(file);
    assert_int_equal(fseek(file, -1, SEEK_CUR), 0);
    assert_int_equal(fputc(byte ^ 1, file), byte ^ 1);
    assert_int_equal(fclose(file), 0);
}

static void test_a_kept_file_is_read_and_a_changed_one_is_not_used(void **unused) {
    dpmf_scattering_result result;
    dpmf_dataset *plain = scattered(NULL, NULL, 1, NULL), *data = scattered(directory, NULL, 2, &result);
    struct stat info;
    (void)unused;
    assert_true(result.cache == DPMF_CACHE_WRITTEN && result.note[0] == '\0');
    check_equal(plain, data);
    dpmf_dataset_free(data);
    glob_t found = files_in(directory);
    assert_int_equal(found.gl_pathc, 1);
    const char *path = found.gl_pathv[0];
    assert_int_equal(stat(path, &info), 0);
    assert_true((info.st_mode & 0777) == 0600 && info.st_size == 128 + COUNT * 80 * 2 + 3 * 32 + 32);
    for (int threads = 1; threads <= 2; threads++) {
        data = scattered(directory, NULL, threads, &result);
        assert_true(result.cache == DPMF_CACHE_READ && result.note[0] == '\0');
        check_equal(plain, data);
        dpmf_dataset_free(data);
    }
    /* The head, its end, a number of each block, digests, the last byte; then cut short, longer, empty, of other data. */
    const long places[] = {0, 20, 90, 120, 128, 128 + 300 * 160, 128 + 599 * 160, -100, -40, -1};
    for (size_t i = 0; i < sizeof places / sizeof *places + 3; i++) {
        const size_t others = sizeof places / sizeof *places;
        const off_t cut[] = {info.st_size - 1, info.st_size + 1, 0};
        if (i < others)
            flip_byte(path, places[i]);
        else
            assert_int_equal(truncate(path, cut[i - others]), 0);
        data = scattered(directory, NULL, 2, &result);
        if (result.cache != DPMF_CACHE_WRITTEN || strstr(result.note, "computed again") == NULL)
            fail_msg("change %zu: use %d, note '%s'", i, (int)result.cache, result.note);
        check_equal(plain, data);
        dpmf_dataset_free(data);
        data = scattered(directory, NULL, 1, &result); /* the file is whole again */
        assert_int_equal(result.cache, DPMF_CACHE_READ);
        check_equal(plain, data);
        dpmf_dataset_free(data);
    }
    globfree(&found);
    remove_files();
    dpmf_dataset_free(plain);
}

/*
 * An attacker writes a whole file with other numbers under the name of a data set's features. Its digests fit, and it was read as the same data,
 * so that two runs with one key had the same noise over different sums. Now the numbers are part of the data set's digest.
 */
static void test_a_forged_file_is_other_data(void **unused) {
    static const uint16_t forged[COUNT * 80];
    dpmf_dataset *plain = scattered(directory, NULL, 1, NULL);
    train_features_name name = {.count = COUNT, .features = 80};
    train_features_writer *writer = NULL;
    dpmf_scattering_result result;
    int lost = 1;
    (void)unused;
    glob_t found = files_in(directory);
    const char *path = found.gl_pathv[0];
    FILE *file = fopen(path, "rb");
    assert_true(file != NULL && fseek(file, 16, SEEK_SET) == 0 && fread(name.digest, 1, 64, file) == 64);
    fclose(file);
    check_ok(train_features_begin(path, &name, &writer));
    check_ok(train_features_write(writer, COUNT, forged, &lost));
    assert_int_equal(lost, 0);
    check_ok(train_features_commit(writer));
    train_features_close(writer);
    dpmf_dataset *data = scattered(directory, NULL, 1, &result);
    assert_int_equal(result.cache, DPMF_CACHE_READ);
    assert_string_not_equal(plain->digest, data->digest);
    dpmf_dataset_free(data);
    /* A file that others may write to is not read at all. */
    assert_int_equal(chmod(path, 0620), 0);
    data = scattered(directory, NULL, 1, &result);
    assert_non_null(strstr(result.note, "others may write to it"));
    check_equal(plain, data);
    dpmf_dataset_free(data);
    dpmf_dataset_free(plain);
    globfree(&found);
    remove_files();
}

static void test_other_options_and_data_have_other_files_and_digests(void **unused) {
    const int64_t how[][2] = {{1, 4}, {2, 4}, {1, 5}};
    char digest[4][65];
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        dpmf_dataset *data = make_images(i < 3 ? 40 : 41);
        dpmf_scattering_options options = dpmf_scattering_options_defaults();
        dpmf_scattering_result result;
        options.scales = how[i % 3][0];
        options.angles = how[i % 3][1];
        options.cache[0] = directory;
        check_ok(dpmf_dataset_scatter(data, &options, &result));
        assert_int_equal(result.cache, DPMF_CACHE_WRITTEN);
        memcpy(digest[i], data->digest, sizeof digest[i]);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(digest[k], digest[i]);
        dpmf_dataset_free(data);
    }
    glob_t found = files_in(directory);
    assert_int_equal(found.gl_pathc, 4);
    globfree(&found);
    /* The same bytes as images of another shape are other data. */
    dpmf_dataset *data = make_images(40);
    check_ok(dpmf_dataset_set_shape(data, (const int64_t[]){1, 4, 16}));
    check_ok(dpmf_dataset_scatter(data, &(dpmf_scattering_options){.scales = 1, .angles = 4}, NULL));
    assert_string_not_equal(data->digest, digest[0]);
    dpmf_dataset_free(data);
    remove_files();
}

static void test_the_second_directory_serves_where_the_first_cannot(void **unused) {
    dpmf_scattering_result result;
    char missing[128], deep[128];
    snprintf(missing, sizeof missing, "%s/missing", directory);
    snprintf(deep, sizeof deep, "%s/missing/too", directory);
    dpmf_dataset *plain = scattered(NULL, NULL, 1, NULL);
    const char *const pairs[][2] = {{missing, second}, {missing, second}, {directory, second}, {missing, deep}};
    const dpmf_cache_use use[] = {DPMF_CACHE_WRITTEN, DPMF_CACHE_READ, DPMF_CACHE_READ, DPMF_CACHE_FAILED};
    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        dpmf_dataset *data = scattered(pairs[i][0], pairs[i][1], 1, &result);
        assert_int_equal(result.cache, use[i]);
        assert_true((result.note[0] != '\0') == (use[i] == DPMF_CACHE_FAILED));
        check_equal(plain, data);
        dpmf_dataset_free(data);
    }
    assert_non_null(strstr(result.note, "not kept"));
    /* A changed file in the first directory is passed over for a whole one in the second. */
    dpmf_dataset_free(scattered(directory, NULL, 1, &result));
    assert_int_equal(result.cache, DPMF_CACHE_WRITTEN);
    glob_t found = files_in(directory);
    flip_byte(found.gl_pathv[0], 200);
    globfree(&found);
    dpmf_dataset *data = scattered(directory, second, 1, &result);
    assert_int_equal(result.cache, DPMF_CACHE_READ);
    assert_true(strstr(result.note, "is not used") != NULL && strstr(result.note, "computed again") == NULL);
    check_equal(plain, data);
    dpmf_dataset_free(data);
    remove_files();
    dpmf_dataset_free(plain);
}

static int stop_at_once(void *context, const char *what, double done) {
    (void)what;
    (void)done;
    ++*(int *)context;
    return 1;
}

static void test_a_cancelled_extraction_leaves_the_data_set_and_no_file(void **unused) {
    int calls = 0;
    dpmf_dataset *data = make_images(COUNT), *same = make_images(COUNT);
    dpmf_scattering_options how = dpmf_scattering_options_defaults();
    (void)unused;
    how.cache[0] = directory;
    how.run.progress = stop_at_once;
    how.run.context = &calls;
    check_fails(DPMF_ERROR_CANCELLED, dpmf_dataset_scatter(data, &how, NULL));
    assert_int_equal(calls, 1);
    check_equal(data, same);
    glob_t found = files_in(directory);
    assert_int_equal(found.gl_pathc, 0);
    globfree(&found);
    dpmf_dataset_free(data);
    dpmf_dataset_free(same);
}

static void test_any_allocation_of_an_extraction_may_fail(void **unused) {
    dpmf_dataset *data = make_images(20);
    const dpmf_scattering_options how = {.scales = 1, .angles = 2, .run = {.threads = 1}};
    (void)unused;
    FAIL_EACH(dpmf_dataset_scatter(data, &how, NULL));
    assert_int_equal(dpmf_dataset_features(data), 3 * 16);
    dpmf_dataset_free(data);
}

static void test_a_shape_has_the_product_of_the_features(void **unused) {
    dpmf_dataset *data = make_images(2);
    const int64_t wrong[][3] = {{1, 8, 7}, {0, 8, 8}, {-1, -8, 8}, {1, 64, 2}, {64, 1, 0}};
    int64_t shape[3];
    (void)unused;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_set_shape(data, wrong[i]));
        check_message("accepted: a product of 64");
    }
    check_ok(dpmf_dataset_set_shape(data, (const int64_t[]){4, 2, 8}));
    dpmf_dataset_shape(data, shape);
    assert_true(shape[0] == 4 && shape[1] == 2 && shape[2] == 8);
    dpmf_dataset_free(data);
}

/* A part has no copy of its rows until they are changed, and outlives the whole. */
static void test_parts_share_rows_and_change_alone(void **unused) {
    dpmf_dataset *data = make_images(100), *part = NULL, *left = NULL, *held = NULL, *copy = make_images(100);
    const uint64_t before = dpmf_memory_in_use();
    int64_t shape[3];
    (void)unused;
    check_ok(dpmf_dataset_slice(data, 30, 50, &part));
    assert_true(dpmf_memory_in_use() - before < 100 * PIXELS * sizeof(float) / 4);
    assert_ptr_equal(part->x, data->x + 30 * PIXELS);
    dpmf_dataset_shape(part, shape);
    assert_true(shape[1] == SIDE && shape[2] == SIDE);
    check_ok(dpmf_dataset_split(part, 10, 0, &left, &held));
    dpmf_dataset_free(part);
    check_ok(dpmf_dataset_scale(held, NULL, NULL));
    check_ok(dpmf_dataset_scatter(left, &(dpmf_scattering_options){.scales = 1, .angles = 4}, NULL));
    assert_memory_equal(data->x, copy->x, 100 * PIXELS * sizeof(float));
    assert_memory_not_equal(held->x, copy->x + 70 * PIXELS, 10 * PIXELS * sizeof(float));
    dpmf_dataset_free(data);
    for (int64_t i = 0; i < 10; i++)
        check_near(sqrt(train_square_of(PIXELS, held->x + i * PIXELS)), 1.0, 1e-5);
    check_ok(dpmf_dataset_scatter(copy, &(dpmf_scattering_options){.scales = 1, .angles = 4}, NULL));
    assert_memory_equal(left->x, copy->x + 30 * 80, 40 * 80 * sizeof(float));
    dpmf_dataset_free(left);
    dpmf_dataset_free(held);
    dpmf_dataset_free(copy);
}

/* ---- CIFAR-10 ---- */

enum { RECORD = 3073, RECORDS = 1500 }; /* more than the reader takes at a time */

static void write_records(const char *path, int packed, int count, size_t size, int first_label) {
    uint8_t *bytes = calloc((size_t)count + 1, RECORD);
    assert_non_null(bytes);
    for (int i = 0; i < count; i++) {
        bytes[i * RECORD] = (uint8_t)(i == 3 ? first_label : i % 7);
        for (int j = 1; j < RECORD; j++)
            bytes[i * RECORD + j] = (uint8_t)(i * 31 + j * 7 + j / 1024);
    }
    if (packed) {
        gzFile file = gzopen(path, "wb1");
        assert_int_equal(gzwrite(file, bytes, (unsigned)size), (int)size);
        assert_int_equal(gzclose(file), Z_OK);
    } else {
        FILE *file = fopen(path, "wb");
        assert_true(file != NULL && fwrite(bytes, 1, size, file) == size && fclose(file) == 0);
    }
    free(bytes);
}

static void test_cifar_records_become_images_of_three_colours(void **unused) {
    char plain[128], packed[128];
    dpmf_dataset *data = NULL, *other = NULL;
    int64_t shape[3];
    (void)unused;
    snprintf(plain, sizeof plain, "%s/plain.bin", directory);
    snprintf(packed, sizeof packed, "%s/packed.bin.gz", directory);
    write_records(plain, 0, RECORDS, (size_t)RECORDS * RECORD, 3);
    write_records(packed, 1, RECORDS, (size_t)RECORDS * RECORD, 3);
    check_ok(dpmf_dataset_load_cifar(2, (const char *const[]){plain, packed}, &data));
    dpmf_dataset_shape(data, shape);
    assert_true(data->count == 2 * RECORDS && data->features == 3072 && data->classes == 10);
    assert_true(shape[0] == 3 && shape[1] == 32 && shape[2] == 32);
    for (int i = 0; i < 2 * RECORDS; i += 97) {
        const int n = i % RECORDS;
        assert_int_equal(data->label[i], n % 7);
        for (int j = 1; j < RECORD; j += 13)
            check_near((double)data->x[i * 3072 + j - 1], (uint8_t)(n * 31 + j * 7 + j / 1024) / 255.0, 1e-4);
    }
    check_ok(dpmf_dataset_load_cifar(2, (const char *const[]){packed, plain}, &other));
    assert_string_equal(data->digest, other->digest);
    dpmf_dataset_free(other);
    check_ok(dpmf_dataset_load_cifar(1, (const char *const[]){packed}, &other));
    assert_string_not_equal(data->digest, other->digest);
    dpmf_dataset_free(other);
    dpmf_dataset_free(data);
    unlink(plain);
    unlink(packed);
}

static void test_cifar_files_that_are_cut_or_have_bad_labels_are_refused(void **unused) {
    char path[128];
    const char *const paths[] = {path, NULL};
    dpmf_dataset *data = NULL;
    (void)unused;
    snprintf(path, sizeof path, "%s/wrong.bin", directory);
    for (int packed = 0; packed < 2; packed++) {
        write_records(path, packed, 5, 5 * RECORD - 1, 3);
        check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
        check_message("3072 bytes follow its 4 whole records");
        write_records(path, packed, 5, 5 * RECORD + 1, 3);
        check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
        check_message("1 bytes follow its 5 whole records");
        write_records(path, packed, 5, 5 * RECORD, 10);
        check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
        check_message("label 10 in record 3, accepted: 0 to 9");
        write_records(path, packed, 5, 0, 3);
        check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
    }
    write_records(path, 1, 5, 5 * RECORD, 3); /* the gzip stream itself cut, and one more after it */
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(truncate(path, info.st_size - 5), 0);
    check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
    check_message("does not end");
    write_records(path, 1, 5, 5 * RECORD, 3);
    FILE *file = fopen(path, "ab");
    assert_true(file != NULL && fputc('x', file) == 'x' && fclose(file) == 0);
    check_fails(DPMF_ERROR_FORMAT, dpmf_dataset_load_cifar(1, paths, &data));
    check_message("more bytes");
    unlink(path);
    check_fails(DPMF_ERROR_IO, dpmf_dataset_load_cifar(1, paths, &data));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_load_cifar(1, paths + 1, &data));
    check_fails(DPMF_ERROR_ARGUMENT, dpmf_dataset_load_cifar(0, paths, &data));
    assert_null(data);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_features_replace_pixels_for_any_number_of_threads),
        cmocka_unit_test(test_features_are_rounded_to_half_precision),
        cmocka_unit_test(test_a_kept_file_is_read_and_a_changed_one_is_not_used),
        cmocka_unit_test(test_a_forged_file_is_other_data),
        cmocka_unit_test(test_other_options_and_data_have_other_files_and_digests),
        cmocka_unit_test(test_the_second_directory_serves_where_the_first_cannot),
        cmocka_unit_test(test_a_cancelled_extraction_leaves_the_data_set_and_no_file),
        cmocka_unit_test(test_any_allocation_of_an_extraction_may_fail),
        cmocka_unit_test(test_a_shape_has_the_product_of_the_features),
        cmocka_unit_test(test_parts_share_rows_and_change_alone),
        cmocka_unit_test(test_cifar_records_become_images_of_three_colours),
        cmocka_unit_test(test_cifar_files_that_are_cut_or_have_bad_labels_are_refused),
    };
    return cmocka_run_group_tests(tests, make_directories, remove_directories);
}
