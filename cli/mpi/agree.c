/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf-mpi train: does everybody run the same? Processes may be started with different words, or on machines with
 * different files. Mechanism, key, dim and clip are libdpmf_mpi's to compare; here the rest of what the values of a run
 * depend on, as lines "name: value", rank 0's against everybody's. Data are compared by the bytes of their files.
 */
#include "team.h"

#include "dpmf_mpi.h"
#include "output.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TERMS_MAX = 4096, PATH_ROOM = 4096 };

/* ---- the data ---- */

/* Adds a file to the digest; 0 if it cannot be read. */
static int add_file(EVP_MD_CTX *digest, const char *path) {
    unsigned char bytes[1 << 14];
    size_t count = 0;
    FILE *file = fopen(path, "rb");
    if (file == NULL) return 0;
    while ((count = fread(bytes, 1, sizeof bytes, file)) > 0)
        EVP_DigestUpdate(digest, bytes, count);
    const int fine = !ferror(file);
    fclose(file);
    return fine;
}

/* The file that train/data.c reads: NAME, or NAME.gz where only that is there. */
static int add_idx(EVP_MD_CTX *digest, const char *directory, const char *name) {
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if (add_file(digest, path)) return 1;
    snprintf(path, sizeof path, "%s/%s.gz", directory, name);
    return add_file(digest, path);
}

static int digest_data(const training *t, char out[65]) {
    const char *data = t->given->text[OPTION_DATA];
    unsigned char sum[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_MD_CTX *digest = EVP_MD_CTX_new();
    if (digest == NULL) return fail_memory();
    int fine = EVP_DigestInit_ex(digest, EVP_sha256(), NULL);
    if (fine && training_has_directory(t->given))
        fine = add_idx(digest, data, "train-images-idx3-ubyte") && add_idx(digest, data, "train-labels-idx1-ubyte");
    else if (fine)
        fine = add_file(digest, data);
    if (fine) fine = EVP_DigestFinal_ex(digest, sum, &length) && length == 32;
    EVP_MD_CTX_free(digest);
    for (unsigned int i = 0; fine && i < 32; i++)
        snprintf(out + 2 * i, 3, "%02x", sum[i]);
    return fine ? 0 : fail(EXIT_UNABLE, "the training data cannot be read a second time");
}

/* ---- the terms ---- */

/* A number of the schedule that depends on all of it. */
static double schedule_sum(const training *t) {
    double sum = 0.0;
    for (int64_t i = 0; t->schedule != NULL && i < t->steps; i++)
        sum += t->schedule[i] * (double)(i + 1);
    return sum;
}

static int write_terms(const training *t, char out[TERMS_MAX]) {
    const dpmf_trainer_options *o = &t->how;
    const char *label = t->given->text[OPTION_LABEL], *user = t->given->text[OPTION_USER];
    char data[65] = "";
    int code = digest_data(t, data);
    if (code != 0) return code;
    int length =
        snprintf(out, TERMS_MAX,
                 "training data: %s\nexamples: %lld\nlabel: %.100s\nuser: %.100s\nunit: %s\nunits: %lld\n"
                 "sampler: %s\nsteps: %lld\nmodel: %lld\nclip: %.17g\nzero-above: %.17g\noptimizer: %d\n"
                 "learning rate: %.17g\nmomentum: %.17g\ndecay: %.17g\nschedule: %.17g\nseed: %llu\n"
                 "noiseless: %d\ncheckpoint: %s\nevery: %lld\ntest curve: %s\n",
                 data, (long long)dpmf_dataset_count(t->train), label == NULL ? "" : label, user == NULL ? "" : user,
                 o->by_unit ? "user" : "example", (long long)t->units, dpmf_sampler_get(t->sampler).text,
                 (long long)t->steps, (long long)t->hidden, o->clip, o->zero_above, (int)o->optimizer, o->learning_rate,
                 o->momentum, o->decay, schedule_sum(t), (unsigned long long)o->seed, o->noiseless,
                 option_given(t->given, OPTION_CHECKPOINT) ? "kept" : "none", (long long)t->given->count[OPTION_EVERY],
                 option_given(t->given, OPTION_PUBLIC_TEST_CURVE) ? "kept" : "none");
    return length > 0 && length < TERMS_MAX ? 0 : fail(EXIT_UNABLE, "the names of columns are too long");
}

static int compare_lines(const char *own, const char *first) {
    while (*own != '\0' || *first != '\0') {
        const size_t a = strcspn(own, "\n"), b = strcspn(first, "\n");
        if (a != b || memcmp(own, first, a) != 0)
            return fail(EXIT_USAGE, "not the run of rank 0: '%.*s' here, '%.*s' there", (int)a, own, (int)b, first);
        own += a + (own[a] != '\0');
        first += b + (first[b] != '\0');
    }
    return 0;
}

/* libdpmf_mpi has told everybody who differs, in the same words: rank 0's are enough. */
static int agree_on_noise(const training *t) {
    dpmf_status status = dpmf_mpi_agree(MPI_COMM_WORLD, t->mechanism, t->dim, t->how.clip, t->key, NULL, 0);
    return status == DPMF_OK ? 0 : fail(EXIT_USAGE, "%s", dpmf_mpi_last_error());
}

int team_agree(training *t) {
    char own[TERMS_MAX] = "", first[TERMS_MAX];
    int code = team_all(agree_on_noise(t));
    if (code == 0) code = team_all(write_terms(t, own));
    if (code != 0) return code;
    memcpy(first, own, sizeof first);
    team_send(first, sizeof first);
    return team_all(compare_lines(own, first));
}
