/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C side of test_noise.py: rows of a mechanism under the testing key 7, as raw numbers on standard output.
 *
 *     program MECHANISM DIM CLIP PRECISION FIRST COUNT [load PATH | save PATH]
 *
 * save: after the rows the buffers go to PATH. load: from there before them; FIRST must then be where it stands.
 */
#include <dpmf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(dpmf_status status) {
    if (status == DPMF_OK) return;
    fprintf(stderr, "%s\n", dpmf_last_error());
    exit(1);
}

int main(int count, char **word) {
    if (count < 7) return 2;
    dpmf_mechanism *mechanism = NULL;
    dpmf_noise *noise = NULL;
    dpmf_noise_options options = dpmf_noise_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    const long dim = atol(word[2]), first = atol(word[5]), rows = atol(word[6]);
    const int wide = strcmp(word[4], "float64") == 0;
    const char *what = count > 8 ? word[7] : "";
    options.precision = wide ? DPMF_FLOAT64 : DPMF_FLOAT32;
    must(dpmf_mechanism_load(word[1], &mechanism));
    must(dpmf_key_testing(7, key));
    must(dpmf_noise_create(mechanism, dim, atof(word[3]), key, &options, &noise));
    if (strcmp(what, "load") == 0)
        must(dpmf_noise_load(noise, word[8]));
    else
        must(dpmf_noise_seek(noise, first));
    if (dpmf_noise_get(noise).step != first) return 3;
    const size_t bytes = (size_t)dim * (wide ? sizeof(double) : sizeof(float));
    void *row = malloc(bytes);
    if (row == NULL) return 4;
    for (long t = 0; t < rows; t++) {
        must(dpmf_noise_next(noise, row));
        if (fwrite(row, 1, bytes, stdout) != bytes) return 5;
    }
    if (strcmp(what, "save") == 0) must(dpmf_noise_save(noise, word[8]));
    free(row);
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    return 0;
}
