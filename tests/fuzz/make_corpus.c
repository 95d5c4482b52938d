/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Valid files to start fuzzing from, made with the public calls alone: make_corpus DIRECTORY writes
 * DIRECTORY/array/NAME.npy, DIRECTORY/mechanism/NAME.safetensors and DIRECTORY/dataset/NAME.data, a few of each form that
 * the readers know.
 */
#include "corpus.h"
#include "dpmf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { STEPS = 12 };

static const char *directory;

static void check(dpmf_status status, const char *what) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "make_corpus: %s: %s\n", what, dpmf_last_error());
    exit(1);
}

static const char *place(const char *folder, const char *name, const char *extension) {
    static char path[4096];
    if (snprintf(path, sizeof path, "%s/%s/%s.%s", directory, folder, name, extension) >= (int)sizeof path) exit(1);
    return path;
}

/* ---- arrays ---- */

static void save_array(const char *name, int dimensions, int64_t rows, int64_t columns) {
    double values[64];
    const dpmf_array array = {dimensions, {rows, columns}, values};
    for (int i = 0; i < rows * columns; i++)
        values[i] = (double)(i % 7) - 0.1 * i;
    check(dpmf_array_save(place("array", name, "npy"), &array), name);
}

/* Forms that the library reads and never writes. */
static void save_bytes(const char *name, int version, const char *header, const void *data, size_t data_size) {
    const size_t length = strlen(header);
    const unsigned char start[12] = {0x93, 'N', 'U', 'M', 'P', 'Y', (unsigned char)version, 0, (unsigned char)length,
                                     0};
    FILE *file = fopen(place("array", name, "npy"), "wb");
    if (file == NULL || fwrite(start, version == 1 ? 10 : 12, 1, file) != 1 || fwrite(header, length, 1, file) != 1 ||
        fwrite(data, data_size, 1, file) != 1 || fclose(file) != 0) {
        fprintf(stderr, "make_corpus: cannot write %s\n", name);
        exit(1);
    }
}

static void make_arrays(void) {
    static const float single[6] = {1.0f, -2.5f, 3e-40f, 0.0f, -0.0f, 1e38f};
    static const double value[2] = {1.5, -1e-300};
    save_array("one", 1, 1, 1);
    save_array("vector", 1, 9, 1);
    save_array("matrix", 2, 4, 3);
    save_array("column", 2, 10, 1);
    save_bytes("float32", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", single, sizeof single);
    save_bytes("version2", 2, "{'descr': '<f8', 'fortran_order': False, 'shape': (2,), }        \n", value,
               sizeof value);
    save_bytes("tight", 1, "{'shape':(2,),'fortran_order':True,\"descr\":'<f8'}\n", value, sizeof value);
}

/* ---- data sets: a letter for the reader (i: images, l: labels, b: CIFAR-10, c: CSV), then the file ---- */

static void save_data(const char *name, char letter, const void *data, size_t size) {
    FILE *file = fopen(place("dataset", name, "data"), "wb");
    if (file == NULL || fputc(letter, file) == EOF || fwrite(data, size, 1, file) != 1 || fclose(file) != 0) {
        fprintf(stderr, "make_corpus: cannot write %s\n", name);
        exit(1);
    }
}

static void make_data(void) {
    static const unsigned char images[] = {0x00, 0x00, 0x08, 0x03, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00,
                                           0x00, 0x02, 0x00, 0x00, 0x00, 0x03, 0x00, 0x14, 0x28, 0x3c,
                                           0x50, 0x64, 0x78, 0x8c, 0xa0, 0xb4, 0xc8, 0xdc};
    static const unsigned char labels[] = {0x00, 0x00, 0x08, 0x01, 0x00, 0x00, 0x00,
                                           0x05, 0x00, 0x01, 0x02, 0x01, 0x00};
    static const unsigned char packed[] = {/* the images in gzip */ 0x1f,
                                           0x8b,
                                           0x08,
                                           0x00,
                                           0x00,
                                           0x00,
                                           0x00,
                                           0x00,
                                           0x02,
                                           0x03,
                                           0x63,
                                           0x60,
                                           0xe0,
                                           0x60,
                                           0x66,
                                           0x60,
                                           0x60,
                                           0x60,
                                           0x82,
                                           0x62,
                                           0x66,
                                           0x06,
                                           0x11,
                                           0x0d,
                                           0x9b,
                                           0x80,
                                           0x94,
                                           0x8a,
                                           0x9e,
                                           0x05,
                                           0x5b,
                                           0x4e,
                                           0xdc,
                                           0x01,
                                           0x00,
                                           0xa6,
                                           0x13,
                                           0xe4,
                                           0x5d,
                                           0x1c,
                                           0x00,
                                           0x00,
                                           0x00};
    static const unsigned char records[2 * 3073] = {7, 1, 2, 250, [3073] = 9, 255};
    static const unsigned char packed_records[] = {/* two of class 3, black, in gzip */ 0x1f,
                                                   0x8b,
                                                   0x08,
                                                   0x00,
                                                   0x00,
                                                   0x00,
                                                   0x00,
                                                   0x00,
                                                   0x02,
                                                   0x03,
                                                   0xed,
                                                   0xd0,
                                                   0x01,
                                                   0x09,
                                                   0x00,
                                                   0x00,
                                                   0x00,
                                                   0x02,
                                                   0xa0,
                                                   0xa0,
                                                   0xff,
                                                   0x9f,
                                                   0x1b,
                                                   0x92,
                                                   0x4e,
                                                   0xb0,
                                                   0x01,
                                                   0x00,
                                                   0x00,
                                                   0x6e,
                                                   0x54,
                                                   0x01,
                                                   0x00,
                                                   0x00,
                                                   0xfc,
                                                   0x18,
                                                   0xb7,
                                                   0x56,
                                                   0x1b,
                                                   0xb1,
                                                   0x02,
                                                   0x18,
                                                   0x00,
                                                   0x00};
    static const char table[] = "a,label,u,b\r\n1,0,eve,-2.5\r\n3e-1,2,bob,4\n0,1,eve,.5\n7,0,al,8";
    save_data("images", 'i', images, sizeof images);
    save_data("labels", 'l', labels, sizeof labels);
    save_data("packed", 'i', packed, sizeof packed);
    save_data("records", 'b', records, sizeof records);
    save_data("packed_records", 'b', packed_records, sizeof packed_records);
    save_data("table", 'c', table, sizeof table - 1);
}

/* ---- mechanisms ---- */

/* Takes ownership of the strategy and the workload. NULL options: the defaults. */
static void save(const char *name, dpmf_workload *workload, const char *participation, dpmf_strategy *strategy,
                 const dpmf_mechanism_options *options) {
    dpmf_participation *parsed = NULL;
    dpmf_mechanism *mechanism = NULL;
    check(dpmf_participation_parse(participation, dpmf_workload_get(workload).steps, &parsed), name);
    check(dpmf_mechanism_create(workload, parsed, strategy, options, &mechanism), name);
    check(dpmf_mechanism_save(mechanism, place("mechanism", name, "safetensors")), name);
    dpmf_mechanism_free(mechanism);
    dpmf_participation_free(parsed);
    dpmf_strategy_free(strategy);
    dpmf_workload_free(workload);
}

static dpmf_workload *workload_of(const char *text) {
    dpmf_workload *workload = NULL;
    check(dpmf_workload_parse(text, STEPS, &workload), text);
    return workload;
}

static dpmf_strategy *strategy_of(const char *family, const dpmf_workload *workload, int64_t bands, double nu,
                                  int normalize) {
    dpmf_strategy_options options = dpmf_strategy_options_defaults();
    dpmf_strategy *strategy = NULL;
    options.bands = bands;
    options.nu = nu;
    options.column_normalize = normalize;
    check(dpmf_strategy_create(family, workload, &options, &strategy), family);
    return strategy;
}

static void save_named(const char *name, const char *workload_text, const char *participation, const char *family,
                       int64_t bands, double nu, int normalize) {
    dpmf_workload *workload = workload_of(workload_text);
    save(name, workload, participation, strategy_of(family, workload, bands, nu, normalize), NULL);
}

static void make_named(void) {
    save_named("identity", "prefix", "single", "identity", 0, 0, 0);
    save_named("workload", "momentum:0.9", "single", "workload", 0, 0, 0);
    save_named("toeplitz", "prefix", "cyclic:1,12", "toeplitz", 0, 0, 0);
    save_named("damped", "prefix", "single", "toeplitz", 0, 0.05, 0);
    save_named("bsr", "prefix", "minsep:1,4", "bsr", 4, 0, 0);
    save_named("bisr", "nesterov:0.5", "shuffled:1,12", "bisr", 3, 0, 0);
    save_named("normalized", "decay:0.1", "single", "bsr", 4, 0, 1);
    save_named("normalized_toeplitz", "prefix", "single", "toeplitz", 0, 0, 1);
    save_named("tree", "prefix", "single", "tree", 0, 0, 0);
    save_named("tree_online", "prefix", "full", "tree-online", 0, 0, 0);
    save_named("tree_full", "decay:0.1", "single", "tree-full", 0, 0, 1);
    save_named("blt_rational", "prefix", "single", "blt-rational", 0, 0, 0);
    save_named("blt_tree", "prefix", "cyclic:2,6", "blt-tree", 0, 0, 0);
    save_named("smooth", "prefix", "single", "smooth-binary", 0, 0, 0);
    save_named("fft", "prefix", "single", "fft", 0, 0, 0);
    save_named("fft_opt", "momentum:0.9", "single", "fft-opt", 0, 0, 0);
    save_named("cooldown", "momentum:0.5,cooldown:0.5:0.1", "single", "identity", 0, 0, 0);
}

/* Repeated strategies, several participations, a bound by name. */
static void make_stamped(void) {
    static const char *const families[] = {"tree", "tree-online", "tree-full", "fft", "fft-opt", "bsr"};
    for (int i = 0; i < 6; i++) {
        dpmf_strategy_options options = dpmf_strategy_options_defaults();
        dpmf_mechanism_options saved = dpmf_mechanism_options_defaults();
        dpmf_strategy *strategy = NULL;
        dpmf_workload *workload = workload_of(i % 2 == 0 ? "prefix" : "momentum:0.5");
        char name[40];
        options.stamps = 3;
        options.bands = i == 5 ? 2 : 0;
        options.branching = i == 1 ? 3 : 0;
        options.column_normalize = i == 2;
        saved.evaluate.sensitivity = i == 3 ? DPMF_BOUND_SPECTRAL : DPMF_BOUND_AUTO;
        saved.evaluate.lower_bound = i == 1 ? DPMF_LOWER_BOUND_NONE : DPMF_LOWER_BOUND_AUTO;
        check(dpmf_strategy_create(families[i], workload, &options, &strategy), families[i]);
        snprintf(name, sizeof name, "stamped_%s", families[i]);
        save(name, workload, i == 4 ? "minsep:2,5" : "cyclic:3,4", strategy, &saved);
    }
}

/* Strategies and workloads that come with arrays. */
static void make_given(void) {
    double coefficients[3] = {1.0, 0.5, 0.25}, rows[STEPS * 2], matrix[STEPS * STEPS] = {0}, rate[STEPS];
    dpmf_workload *workload = workload_of("prefix");
    dpmf_strategy *strategy = NULL;
    for (int i = 0; i < STEPS; i++) {
        rate[i] = 1.0 / (1 + i);
        rows[2 * i] = 1.0 + 0.01 * i;
        rows[2 * i + 1] = i > 0 ? 0.5 : 0.0;
        for (int j = 0; j <= i; j++)
            matrix[i * STEPS + j] = 1.0 / (1 + i - j);
    }
    check(dpmf_strategy_create_toeplitz(STEPS, DPMF_TOEPLITZ, 3, coefficients, &strategy), "toeplitz");
    save("given_toeplitz", workload, "minsep:1,3", strategy, NULL);
    workload = workload_of("prefix");
    check(dpmf_strategy_create_toeplitz(STEPS, DPMF_TOEPLITZ_INVERSE, 3, coefficients, &strategy), "inverse toeplitz");
    save("given_inverse", workload, "single", strategy, NULL);
    workload = workload_of("prefix");
    check(dpmf_strategy_create_banded(STEPS, 2, rows, &strategy), "banded");
    save("banded", workload, "cyclic:1,12", strategy, NULL);
    workload = workload_of("prefix");
    check(dpmf_strategy_create_dense(STEPS, matrix, &strategy), "dense");
    save("dense", workload, "single", strategy, NULL);

    dpmf_workload_options options = dpmf_workload_options_defaults();
    options.learning_rate = rate;
    options.momentum = 0.5;
    check(dpmf_workload_create(STEPS, &options, &workload), "learning rate");
    save("learning_rate", workload, "single", strategy_of("workload", workload, 0, 0, 0), NULL);
    check(dpmf_workload_create_dense(STEPS, matrix, &workload), "dense workload");
    save("dense_workload", workload, "single", strategy_of("identity", workload, 0, 0, 0), NULL);
}

/* Patterns: read from a file of the corpus' own, which the mechanism then holds. */
static void make_patterns(void) {
    char text[4200];
    const char *path = place("mechanism", "patterns", "txt");
    FILE *file = fopen(path, "w");
    if (file == NULL || fputs("0 2\n1-3:2\n2\n", file) < 0 || fclose(file) != 0) exit(1);
    snprintf(text, sizeof text, "file:%s", path);
    dpmf_workload *workload = workload_of("prefix");
    save("patterns", workload, text, strategy_of("identity", workload, 0, 0, 0), NULL);
    remove(text + 5);
}

static void make_weighted(void) {
    double weights[STEPS];
    dpmf_mechanism_options options = dpmf_mechanism_options_defaults();
    for (int i = 0; i < STEPS; i++)
        weights[i] = i % 3;
    options.evaluate.weights = weights;
    options.evaluate.adjacency = DPMF_ADJACENCY_REPLACE_ONE;
    options.sigma = 1.25;
    options.made_by = "by hand, for tests: \"\xc3\xa9\"";
    options.designed = (dpmf_design_limits){.dim = 1000, .memory = 1 << 20, .max_overhead = 4};
    dpmf_workload *workload = workload_of("prefix");
    save("weights", workload, "single", strategy_of("bsr", workload, 2, 0, 1), &options);
}

int main(int argc, char **argv) {
    static const char *const folders[] = {"",        "/array", "/mechanism", "/dataset", "/state", "/checkpoint",
                                          "/ledger", "/log",   "/command"};
    if (argc != 2) {
        fprintf(stderr, "usage: make_corpus DIRECTORY\n");
        return 2;
    }
    directory = argv[1];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s%s", directory, folders[i]);
        if (mkdir(path, 0777) != 0 && errno != EEXIST) {
            fprintf(stderr, "make_corpus: cannot make %s: %s\n", path, strerror(errno));
            return 1;
        }
    }
    make_arrays();
    make_data();
    make_named();
    make_stamped();
    make_given();
    make_weighted();
    make_patterns();
    corpus_make_secret(directory);
    corpus_make_text(directory);
    return 0;
}
