/* SPDX-License-Identifier: Apache-2.0 */
/* dpmf train: the data and the model. */
#include "options/options.h"
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- directories of data files ---- */

/* The formats that a directory may have: the files of the training data, and those of the test data. */
typedef struct file_names {
    int count[2];
    const char *name[2][CIFAR_FILES];
} file_names;
static const file_names idx = {
    {2, 2},
    {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}, {"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"}}};
static const file_names cifar = {
    {CIFAR_FILES, 1},
    {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
     {"test_batch.bin"}}};

/* DIR/NAME, or DIR/NAME.gz where only that is there. */
static bool find_file(const char *directory, const char *name, char out[TRAINING_PATH]) {
    for (int packed = 0; packed < 2; ++packed) {
        const int length = snprintf(out, TRAINING_PATH, "%s/%s%s", directory, name, packed ? ".gz" : "");
        if (length < TRAINING_PATH && access(out, F_OK) == 0) return true;
    }
    return false;
}

/* CIFAR-10 where one of its files is there and none of IDX is. */
static const file_names *names_of(const char *directory) {
    char path[TRAINING_PATH];
    for (int test = 0; test < 2; test++)
        for (int i = 0; i < idx.count[test]; i++)
            if (find_file(directory, idx.name[test][i], path)) return &idx;
    for (int test = 0; test < 2; test++)
        for (int i = 0; i < cifar.count[test]; i++)
            if (find_file(directory, cifar.name[test][i], path)) return &cifar;
    return NULL;
}

int training_files(const arguments *given, bool test, training_paths *out) {
    const char *directory = given->text[OPTION_DATA];
    const file_names *names = names_of(directory);
    char shown[SHOWN];
    out->cifar = names == &cifar;
    if (strlen(directory) > TRAINING_PATH - 64)
        return fail(EXIT_USAGE, "--data %s: the name is too long", show(directory, shown));
    if (names == NULL)
        return fail(EXIT_UNABLE, "--data %s: there is neither %s (IDX) nor %s (CIFAR-10) in it, nor one with .gz",
                    show(directory, shown), idx.name[test][0], cifar.name[test][0]);
    out->count = names->count[test];
    for (int i = 0; i < out->count; i++)
        if (!find_file(directory, names->name[test][i], out->path[i]))
            return fail(EXIT_UNABLE, "--data %s: there is neither %s nor %s.gz in it", show(directory, shown),
                        names->name[test][i], names->name[test][i]);
    return 0;
}

static int load_directory(const training *t, bool test, dpmf_dataset **out) {
    training_paths files;
    const char *paths[CIFAR_FILES] = {NULL};
    int code = training_files(t->given, test, &files);
    if (code != 0) return code;
    for (int i = 0; i < files.count; i++)
        paths[i] = files.path[i];
    dpmf_status status =
        files.cifar ? dpmf_dataset_load_cifar(files.count, paths, out) : dpmf_dataset_load_idx(paths[0], paths[1], out);
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

/*
 * --scale: none, rows, or a .npy of two rows, what is subtracted from each feature and what it is then multiplied with.
 * Numbers computed from the data here would not be private, so none are.
 */
static int scale(const training *t, dpmf_dataset *data) {
    const char *text = option_text(t->given, OPTION_SCALE);
    dpmf_array numbers = {0};
    dpmf_status status = DPMF_OK;
    if (strcmp(text, "none") == 0) return 0;
    if (strcmp(text, "rows") == 0) {
        status = dpmf_dataset_scale(data, NULL, NULL);
        return status == DPMF_OK ? 0 : fail_status(status, "--scale");
    }
    status = dpmf_array_load(text, &numbers);
    if (status != DPMF_OK) return fail_status(status, "--scale");
    int code = 0;
    const int64_t features = dpmf_dataset_features(data);
    if (numbers.dimensions != 2 || numbers.shape[0] != 2 || numbers.shape[1] != features)
        code =
            fail(EXIT_UNABLE, "--scale: %lld x %lld numbers, accepted: 2 x %lld, offsets and factors of the features",
                 (long long)numbers.shape[0], (long long)numbers.shape[1], (long long)features);
    if (code == 0) status = dpmf_dataset_scale(data, numbers.values, numbers.values + features);
    if (status != DPMF_OK) code = fail_status(status, "--scale");
    dpmf_array_free(&numbers);
    return code;
}

bool training_has_directory(const arguments *given) {
    struct stat info;
    return stat(given->text[OPTION_DATA], &info) == 0 && S_ISDIR(info.st_mode);
}

static int load_csv(const training *t, option_id id, dpmf_dataset **out) {
    const char *label = option_text(t->given, OPTION_LABEL), *user = t->given->text[OPTION_USER];
    dpmf_status status = dpmf_dataset_load_csv(t->given->text[id], label, user, out);
    return status == DPMF_OK ? 0 : fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status, NULL);
}

static int check_usage(const arguments *given, bool by_user) {
    char shown[SHOWN];
    bool test = option_given(given, OPTION_TEST_DATA), held = option_given(given, OPTION_HOLD_OUT);
    if (!option_given(given, OPTION_DATA)) return fail(EXIT_USAGE, "train needs --data, a directory or a CSV file");
    if (access(given->text[OPTION_DATA], F_OK) != 0)
        return fail(EXIT_UNABLE, "--data %s: %s", show(given->text[OPTION_DATA], shown), strerror(errno));
    const bool directory = training_has_directory(given);
    if (directory && (test || option_given(given, OPTION_USER) || option_given(given, OPTION_LABEL)))
        return fail(EXIT_USAGE, "--test-data, --label and --user belong to a CSV file, but --data is a directory");
    if (!directory && test == held)
        return fail(EXIT_USAGE, "--data of a CSV file needs one of --test-data FILE and --hold-out N, to evaluate on");
    if (by_user && !option_given(given, OPTION_USER))
        return fail(EXIT_USAGE, "--unit user needs --user COLUMN, the column with the user of each example");
    return 0;
}

/* The last N examples become the test data, or, where the unit is the user, all those of the last users. */
static int hold_out(training *t) {
    const int64_t all = dpmf_dataset_count(t->train), held = t->given->count[OPTION_HOLD_OUT];
    const bool users = training_by_user(t);
    dpmf_dataset *first = NULL;
    if (held >= all)
        return fail(EXIT_USAGE, "--hold-out %s: fewer than the %lld training examples are accepted",
                    t->given->text[OPTION_HOLD_OUT], (long long)all);
    dpmf_status status = dpmf_dataset_split(t->train, held, users, &first, &t->test);
    if (status != DPMF_OK) return fail_status(status, "--hold-out");
    dpmf_dataset_free(t->train);
    t->train = first;
    return 0;
}

static int read_model(training *t) {
    const char *text = option_text(t->given, OPTION_MODEL);
    char shown[SHOWN];
    t->hidden = 0;
    if (strcmp(text, "softmax") != 0 &&
        (strncmp(text, "mlp:", 4) != 0 || !read_count(text + 4, &t->hidden) || t->hidden < 1 || t->hidden > 1 << 20))
        return fail(EXIT_USAGE, "--model %s: softmax and mlp:H are accepted, H from 1 to %d", show(text, shown),
                    1 << 20);
    return 0;
}

/* A file without the column of --label has no classes, unless the option was given. */
static int load_unlabelled(training *t, bool *labelled) {
    const char *path = t->given->text[OPTION_DATA], *user = t->given->text[OPTION_USER];
    const char *label = option_text(t->given, OPTION_LABEL);
    *labelled = true;
    if (dpmf_dataset_load_csv(path, label, user, &t->test) == DPMF_OK) return 0;
    *labelled = option_given(t->given, OPTION_LABEL);
    if (*labelled) return load_csv(t, OPTION_DATA, &t->test);
    dpmf_status status = dpmf_dataset_load_csv(path, NULL, user, &t->test);
    return status == DPMF_OK ? 0 : fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_FORMAT : status, NULL);
}

int training_test_data(training *t, bool *labelled) {
    if (!option_given(t->given, OPTION_DATA))
        return fail(EXIT_USAGE, "predict needs --data, a directory or a CSV file");
    *labelled = true;
    int code = read_model(t);
    if (code == 0)
        code = training_has_directory(t->given) ? load_directory(t, true, &t->test) : load_unlabelled(t, labelled);
    if (code == 0) code = training_features(t, t->test);
    return code == 0 ? scale(t, t->test) : code;
}

int training_data(training *t) {
    int code = check_usage(t->given, training_by_user(t));
    if (code == 0) code = read_model(t);
    if (code != 0) return code;
    const bool held = option_given(t->given, OPTION_HOLD_OUT);
    if (training_has_directory(t->given)) {
        code = load_directory(t, false, &t->train);
        if (code == 0 && !held) code = load_directory(t, true, &t->test);
    } else {
        code = load_csv(t, OPTION_DATA, &t->train);
        if (code == 0 && !held) code = load_csv(t, OPTION_TEST_DATA, &t->test);
    }
    if (code == 0) code = training_features(t, t->train);
    if (code == 0 && !held) code = training_features(t, t->test);
    if (code == 0 && held) code = hold_out(t);
    if (code == 0) code = scale(t, t->train);
    if (code == 0) code = scale(t, t->test);
    if (code != 0) return code;
    if (dpmf_dataset_features(t->test) != dpmf_dataset_features(t->train) ||
        dpmf_dataset_classes(t->test) > dpmf_dataset_classes(t->train))
        return fail(EXIT_UNABLE, "the test data have %lld features and %lld classes, the training data %lld and %lld",
                    (long long)dpmf_dataset_features(t->test), (long long)dpmf_dataset_classes(t->test),
                    (long long)dpmf_dataset_features(t->train), (long long)dpmf_dataset_classes(t->train));
    t->dim = dpmf_trainer_dim(t->train, t->hidden);
    t->units = training_by_user(t) ? dpmf_dataset_units(t->train) : dpmf_dataset_count(t->train);
    return 0;
}
