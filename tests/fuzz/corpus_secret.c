/* SPDX-License-Identifier: Apache-2.0 */
/* The corpus of the files that belong to a key: states, checkpoints, keys and a ledger; before each the letters of its target. */
#include "cases.h"
#include "corpus.h"

static const char *root;

/* `letters` and the bytes of the file `from`, which goes. */
static void move(const char *folder, const char *name, const char *letters, const char *from) {
    char path[4096];
    uint8_t bytes[1 << 18];
    snprintf(path, sizeof path, "%s/%s/%s.data", root, folder, name);
    FILE *in = fopen(from, "rb"), *out = fopen(path, "wb");
    REQUIRE(in != NULL && out != NULL);
    const size_t size = fread(bytes, 1, sizeof bytes, in);
    REQUIRE(size < sizeof bytes && fwrite(letters, strlen(letters), 1, out) <= 1 && fwrite(bytes, size, 1, out) == 1);
    REQUIRE(fclose(out) == 0);
    fclose(in);
    unlink(from);
}

static const char *temporary(void) {
    static char path[4096];
    snprintf(path, sizeof path, "%s/made", root);
    unlink(path);
    return path;
}

/* A stream's state after `rows` rows, some of them bound to a sum. */
static void make_state(const char *name, int rows, int bound) {
    const char *path = temporary();
    uint8_t digest[DPMF_DIGEST_SIZE] = {1};
    float row[CASE_DIM];
    dpmf_mechanism *mechanism = case_mechanism(0);
    dpmf_noise *noise = case_noise(mechanism, path);
    for (int t = 0; t < rows; t++) {
        if (bound) MUST(dpmf_noise_bind_sum(noise, digest));
        MUST(dpmf_noise_next(noise, row));
    }
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    move("state", name, rows == 3 ? "r" : "s", path);
}

static void make_counter(int which, int commits) {
    const char *path = temporary();
    char name[40], letters[3] = {'c', (char)('0' + which), 0};
    const double values[2] = {1, -0.5};
    double sums[2];
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_counter_options options = dpmf_counter_options_defaults();
    dpmf_mechanism *mechanism = case_mechanism(('0' + which) % CASES);
    dpmf_counter *counter = NULL;
    case_key(key);
    options.state = path;
    MUST(dpmf_counter_create(mechanism, 2, 1.0, key, &options, &counter));
    for (int i = 0; i < commits; i++)
        MUST(dpmf_counter_add(counter, 1, values, sums));
    dpmf_counter_free(counter);
    dpmf_mechanism_free(mechanism);
    snprintf(name, sizeof name, "counter%d_%d", which, commits);
    move("state", name, letters, path);
}

static void make_noise(int which) {
    const char *path = temporary();
    char name[40], letters[3] = {'n', (char)('0' + which), 0};
    float row[CASE_DIM];
    dpmf_mechanism *mechanism = case_mechanism(('0' + which) % CASES);
    dpmf_noise *noise = case_noise(mechanism, NULL);
    for (int t = 0; t < 5; t++)
        MUST(dpmf_noise_next(noise, row));
    MUST(dpmf_noise_save(noise, path));
    dpmf_noise_free(noise);
    dpmf_mechanism_free(mechanism);
    snprintf(name, sizeof name, "noise%d", which);
    move("checkpoint", name, letters, path);
}

static void make_training(void) {
    const char *path = temporary();
    case_training c = case_trainer();
    for (int t = 0; t < 4; t++)
        MUST(dpmf_trainer_next(c.trainer));
    MUST(dpmf_trainer_save(c.trainer, path));
    dpmf_trainer_free(c.trainer);
    dpmf_sampler_free(c.sampler);
    dpmf_mechanism_free(c.mechanism);
    dpmf_dataset_free(c.data);
    move("checkpoint", "training", "t0", path);
}

static void make_sampler(int which) {
    const char *path = temporary();
    char name[40], letters[3] = {'p', (char)('0' + which), 0};
    dpmf_sampler *sampler = case_sampler(('0' + which) % CASE_SAMPLERS);
    int64_t batch[CASE_UNITS], count = 0;
    uint8_t *bytes = NULL;
    size_t size = 0;
    for (int t = 0; t < 4; t++)
        MUST(dpmf_sampler_next(sampler, batch, &count));
    MUST(dpmf_sampler_encode(sampler, &bytes, &size));
    FILE *out = fopen(path, "wb");
    REQUIRE(out != NULL && fwrite(bytes, size, 1, out) == 1 && fclose(out) == 0);
    dpmf_bytes_free(bytes);
    dpmf_sampler_free(sampler);
    snprintf(name, sizeof name, "sampler%d", which);
    move("checkpoint", name, letters, path);
}

static void make_ledger(const char *name, double budget, const char *const *sampling, int count) {
    const char *path = temporary();
    dpmf_ledger_options options = dpmf_ledger_options_defaults();
    options.budget_epsilon = budget;
    options.budget_delta = budget > 0 ? 1e-5 : 0;
    for (int i = 0; i < count; i++) {
        dpmf_account_options how = dpmf_account_options_defaults();
        char run[8] = {'r', (char)('0' + i), 0};
        MUST(dpmf_sampling_parse(sampling[i], &how.sampling));
        how.compositions = i == 0 ? 1 : 10;
        if (strncmp(sampling[i], "allocation", 10) == 0) how.epochs = 1;
        MUST(dpmf_ledger_enter_account(path, run, 20.0 + i, &how, &options, NULL));
    }
    move("ledger", name, "", path);
}

void corpus_make_secret(const char *directory) {
    static const char *const sampling[] = {"none", "poisson:0.01", "allocation:1,10"};
    const char *path = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    root = directory;
    make_state("one", 1, 0);
    make_state("replayed", 3, 0);
    make_state("bound", 4, 1);
    make_state("whole", CASE_STEPS, 0);
    for (int i = 0; i < CASES; i++) {
        make_counter(i, 1);
        make_noise(i);
    }
    make_counter(0, 2);
    make_training();
    for (int i = 0; i < CASE_SAMPLERS; i++)
        make_sampler(i);
    path = temporary();
    MUST(dpmf_key_load(path, 1, key));
    move("state", "key", "k", path);
    make_ledger("plain", 0, sampling, 1);
    make_ledger("several", 8, sampling, 3);
}
