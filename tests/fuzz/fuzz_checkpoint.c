/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checkpoints on any bytes: n: of a noise stream (the second byte chooses the mechanism), t: of a training run, p: the
 * state of a sampler (the second byte chooses it). After acceptance the run must continue, a refusal must leave
 * everything as it was, and no memory may be left in use. As in fuzz_state.c, the mutator makes the codes fit what it
 * has changed.
 */
#include "cases.h"

#include "noise/noise.h"
#include "sampler/sampler.h"
#include "train/train.h"

uint64_t fuzz_accepted;

enum { MAC = NOISE_MAC };

static dpmf_mechanism *mechanism[CASES];
static dpmf_noise *noise[CASES];
static dpmf_sampler *sampler[CASE_SAMPLERS];
static case_training training;

static void set_up(void) {
    if (training.trainer != NULL) return;
    for (int i = 0; i < CASES; i++) {
        mechanism[i] = case_mechanism(i);
        noise[i] = case_noise(mechanism[i], NULL);
    }
    for (int i = 0; i < CASE_SAMPLERS; i++)
        sampler[i] = case_sampler(i);
    training = case_trainer();
}

/* ---- the targets ---- */

static dpmf_status read_noise(int which, const uint8_t *data, size_t size) {
    float row[CASE_DIM];
    const int64_t before = dpmf_noise_get(noise[which]).step;
    dpmf_status status = dpmf_noise_load(noise[which], fuzz_file(data, size));
    const int64_t step = dpmf_noise_get(noise[which]).step;
    REQUIRE(status == DPMF_OK || step == before);
    REQUIRE(step >= 0 && step <= CASE_STEPS);
    if (status == DPMF_OK && step < CASE_STEPS) MUST(dpmf_noise_next(noise[which], row));
    return status;
}

static dpmf_status read_training(const uint8_t *data, size_t size) {
    dpmf_trainer *t = training.trainer;
    const int64_t before = dpmf_trainer_step(t);
    float weights[6];
    REQUIRE(t->model.dim == 6);
    memcpy(weights, t->weights, sizeof weights);
    dpmf_status status = dpmf_trainer_load(t, fuzz_file(data, size));
    const int64_t step = dpmf_trainer_step(t);
    REQUIRE(step >= 0 && step <= CASE_STEPS);
    REQUIRE(status == DPMF_OK || (step == before && memcmp(weights, t->weights, sizeof weights) == 0));
    if (step < CASE_STEPS) { /* weights of the file may make the next step fail */
        dpmf_status next = dpmf_trainer_next(t);
        REQUIRE(next == DPMF_OK || next == DPMF_ERROR_NUMERICAL);
    }
    return status;
}

static dpmf_status read_sampler(int which, const uint8_t *data, size_t size) {
    dpmf_sampler *s = sampler[which];
    int64_t batch[CASE_UNITS], count = -1;
    const int64_t before = dpmf_sampler_get(s).step;
    dpmf_status status = dpmf_sampler_decode(s, data, size);
    const int64_t step = dpmf_sampler_get(s).step;
    REQUIRE(step >= 0 && step <= CASE_STEPS && (status == DPMF_OK || step == before));
    if (step == CASE_STEPS) return status;
    MUST(dpmf_sampler_next(s, batch, &count));
    REQUIRE(count >= 0 && count <= CASE_UNITS);
    for (int64_t i = 0; i < count; i++)
        REQUIRE(batch[i] >= 0 && batch[i] < CASE_UNITS);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    set_up();
    const uint64_t before = dpmf_memory_in_use();
    if (size < 2) return 0;
    dpmf_status status = data[0] == 'p'   ? read_sampler(data[1] % CASE_SAMPLERS, data + 2, size - 2)
                         : data[0] == 't' ? read_training(data + 2, size - 2)
                                          : read_noise(data[1] % CASES, data + 2, size - 2);
    if (status == DPMF_OK)
        fuzz_accepted++;
    else
        fuzz_refused(status);
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}

/* ---- the mutator ---- */

static void seal_last(const uint8_t key[32], uint8_t *bytes, size_t size) {
    if (size < MAC) return;
    MUST(noise_mac(key, bytes, size - MAC, bytes + size - MAC));
}

static void seal_noise(uint8_t *file, size_t size) {
    const uint8_t *key = noise[0]->binding.mac_key; /* of the master key alone: the same for all */
    if (size < NOISE_RECORD) return;
    MUST(noise_mac(key, file, NOISE_RECORD_BODY, file + NOISE_RECORD_BODY));
    seal_last(key, file, size);
}

/* The sampler's state is a piece of it, with its own code. */
static void seal_training(uint8_t *file, size_t size) {
    int64_t piece[5], at = 64;
    if (size < 64 + MAC) return;
    memcpy(piece, file + 16, sizeof piece);
    for (int i = 0; i < 3 && at >= 0; i++)
        at = piece[i] < 0 || piece[i] > (int64_t)size - at ? -1 : at + piece[i];
    if (at >= 0 && piece[3] >= 0 && piece[3] <= (int64_t)size - at)
        seal_last(training.sampler->mac_key, file + at, (size_t)piece[3]);
    seal_last(training.trainer->mac_key, file, size);
}

/* A word at a multiple of 8, where all the numbers of these files are. */
static void change_word(uint8_t *file, size_t size, uint64_t *random) {
    static const int64_t value[] = {-1, 0, 1, 2, 11, 12, 13, 24, 36, 64, INT64_MAX, INT64_MIN};
    if (size < 8) return;
    const size_t at = 8 * fuzz_below(random, size / 8);
    int64_t number = 0;
    memcpy(&number, file + at, 8);
    if (fuzz_below(random, 2) == 0)
        number = (int64_t)((uint64_t)number + fuzz_below(random, 5) - 2);
    else
        number = value[fuzz_below(random, sizeof value / sizeof *value)];
    memcpy(file + at, &number, 8);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint64_t random = ((uint64_t)seed << 1 | 1) * 0x9e3779b97f4a7c15u;
    set_up();
    if (size <= 2) return LLVMFuzzerMutate(data, size, max_size);
    if (fuzz_below(&random, 4) == 0)
        size = 2 + LLVMFuzzerMutate(data + 2, size - 2, max_size - 2);
    else
        change_word(data + 2, size - 2, &random);
    if (data[0] == 'p')
        seal_last(sampler[0]->mac_key, data + 2, size - 2);
    else if (data[0] == 't')
        seal_training(data + 2, size - 2);
    else
        seal_noise(data + 2, size - 2);
    return size;
}
