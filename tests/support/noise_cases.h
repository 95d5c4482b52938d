/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of the noise stream: small mechanisms, streams that must open, a separate directory. */
#ifndef DPMF_TESTS_NOISE_CASES_H
#define DPMF_TESTS_NOISE_CASES_H

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CASE_STEPS = 12, CASE_DIM = 21, CASE_BYTES = CASE_DIM * (int)sizeof(float) };

static char case_directory[64];
static uint8_t case_key[DPMF_KEY_SIZE];
static const uint8_t case_salt[DPMF_SALT_SIZE] = {1, 2,
                                                  3}; /* streams with and without a state file have the same rows */

static inline int case_setup(void **unused) {
    (void)unused;
    snprintf(case_directory, sizeof case_directory, "/tmp/dpmf-noise-XXXXXX");
    return mkdtemp(case_directory) != NULL && dpmf_key_testing(7, case_key) == DPMF_OK ? 0 : -1;
}

static inline int case_teardown(void **unused) {
    char command[100];
    (void)unused;
    snprintf(command, sizeof command, "rm -rf %s", case_directory);
    return system(command);
}

/* A path in the tests' directory; the next call but three writes over it. */
static inline const char *case_path(const char *name) {
    static char paths[4][128];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", case_directory, name);
    return path;
}

static inline dpmf_mechanism *case_mechanism(const char *family, int64_t steps, double sigma) {
    dpmf_workload *a = NULL;
    dpmf_strategy *c = NULL;
    dpmf_mechanism *m = NULL;
    dpmf_strategy_options s = dpmf_strategy_options_defaults();
    dpmf_mechanism_options o = dpmf_mechanism_options_defaults();
    const double scale[2] = {0.3, 0.2}, decay[2] = {0.9, 0.5};
    s.bands = strcmp(family, "bsr") == 0 || strcmp(family, "bisr") == 0 ? 4 : 0;
    o.sigma = sigma;
    check_ok(dpmf_workload_parse("prefix", steps, &a));
    if (strcmp(family, "blt") == 0)
        check_ok(dpmf_strategy_create_blt(steps, 2, scale, decay, NULL, &c));
    else
        check_ok(dpmf_strategy_create(family, a, &s, &c));
    check_ok(dpmf_mechanism_create(a, NULL, c, &o, &m));
    dpmf_workload_free(a);
    dpmf_strategy_free(c);
    return m;
}

static inline dpmf_noise_options case_options(void) {
    dpmf_noise_options o = dpmf_noise_options_defaults();
    o.run.threads = 1;
    o.salt = case_salt;
    return o;
}

/* Rows first .. last-1 into `rows`, CASE_DIM floats each, by a stream without a state file. */
static inline void case_rows(const dpmf_mechanism *m, int64_t first, int64_t last, float *rows) {
    dpmf_noise_options o = case_options();
    dpmf_noise *noise = NULL;
    check_ok(dpmf_noise_create(m, CASE_DIM, 2.0, case_key, &o, &noise));
    check_ok(dpmf_noise_seek(noise, first));
    for (int64_t t = first; t < last; t++)
        check_ok(dpmf_noise_next(noise, rows + (t - first) * CASE_DIM));
    dpmf_noise_free(noise);
}

#endif
