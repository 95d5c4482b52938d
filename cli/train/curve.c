/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf train --public-test-curve: loss and accuracy now and then during the run, as CSV.
 *
 * They are computed on the test data alone. On the training data they would tell of each example, exactly, and no noise
 * hides that: there is no option for it. Of the training data the numbers say no more than the models along the way do,
 * which the guarantee covers together. The guarantee does not cover the test data, and many exact figures reveal individual
 * test examples: the name of the option declares that the test data are public.
 *
 * The file is written whole, with every checkpoint and at the end. A run that goes on keeps the rows up to its checkpoint;
 * those after it are computed again, and are the same.
 */
#include "rows.h"
#include "train/train.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char HEAD[] = "step,loss,accuracy\n";
enum { POINTS = 50, LINE_MOST = 200 };

static bool is_same_file(const char *one, const char *other) {
    struct stat a, b;
    return one != NULL && other != NULL && stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

int curve_check(const arguments *given) {
    if (option_given(given, OPTION_PUBLIC_TEST_CURVE) &&
        is_same_file(given->text[OPTION_DATA], given->text[OPTION_TEST_DATA]))
        return fail(EXIT_USAGE, "--public-test-curve: --test-data is the training file, and a curve on training data "
                                "is not private");
    return 0;
}

/* One of several processes writes for all. */
static bool is_mine(const training *t) {
    return option_given(t->given, OPTION_PUBLIC_TEST_CURVE) &&
           (training_together == NULL || training_together->part == 0);
}

/* The rows of an earlier part of this run, up to its checkpoint. */
int curve_open(training *t) {
    const char *path = t->given->text[OPTION_PUBLIC_TEST_CURVE];
    char line[LINE_MOST], shown[SHOWN];
    if (!is_mine(t)) return 0;
    text_add(&t->curve, "%s", HEAD);
    FILE *file = t->resumed_at > 0 ? fopen(path, "r") : NULL;
    if (file == NULL) return 0; /* none was kept, or none is needed */
    bool good = fgets(line, sizeof line, file) != NULL && strcmp(line, HEAD) == 0;
    while (good && fgets(line, sizeof line, file) != NULL) {
        char *end = NULL;
        errno = 0;
        const long long step = strtoll(line, &end, 10);
        good = errno == 0 && step > 0 && *end == ',' && strchr(line, '\n') != NULL;
        if (good && step <= t->resumed_at) text_add(&t->curve, "%s", line);
    }
    fclose(file);
    return good ? 0
                : fail(EXIT_UNABLE,
                       "--public-test-curve %s: not the curve of this run, which goes on: name another file",
                       show(path, shown));
}

int curve_point(training *t) {
    const int64_t step = dpmf_trainer_step(t->trainer);
    const int64_t every = t->steps > POINTS ? t->steps / POINTS : 1;
    double accuracy = 0.0, loss = 0.0;
    if (!is_mine(t) || (step % every != 0 && step != t->steps)) return 0;
    dpmf_status status = dpmf_trainer_evaluate(t->trainer, t->test, &accuracy, &loss);
    if (status != DPMF_OK) return fail_status(status, "--public-test-curve");
    text_add(&t->curve, "%lld,%.10g,%.10g\n", (long long)step, loss, accuracy);
    return 0;
}

int curve_write(const training *t) {
    row_output out;
    if (!is_mine(t) || t->curve.length == 0) return 0;
    if (t->curve.failed) return fail_memory();
    int code = rows_open(t->given->text[OPTION_PUBLIC_TEST_CURVE], false, &out);
    if (code == 0) code = rows_write(&out, t->curve.bytes, t->curve.length);
    if (code == 0) code = rows_finish(&out);
    rows_close(&out);
    return code;
}
