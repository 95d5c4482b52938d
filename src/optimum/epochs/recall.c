/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounds over several participations that were found before. A bound depends on the workload, the epochs and the weights
 * alone, never on the strategy, and takes a climb: whoever evaluates many strategies for one run, designs and then
 * verifies, asks the same question again and again. Answers are remembered by the digest of the question, for the life of
 * the process.
 */
#include "base/file.h"
#include "optimum/epochs/epochs.h"
#include "workload/workload.h"

#include <pthread.h>
#include <string.h>

enum { KEPT = 64 };

typedef struct answer {
    int known;
    uint8_t digest[32];
    epochs_lower found;
} answer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static answer answers[KEPT];
static int next_answer;

dpmf_status epochs_digest(const dpmf_workload *a, int64_t k, int64_t b, const double *weights, uint8_t digest[32]) {
    const int64_t counts[] = {
        a->steps, k, b, (int64_t)a->form, a->nesterov, a->learning_rate != NULL, a->matrix != NULL, weights != NULL};
    const double numbers[] = {a->momentum, a->decay};
    const size_t steps = (size_t)a->steps;
    const base_part parts[] = {
        {counts, sizeof counts},
        {numbers, sizeof numbers},
        {a->learning_rate, a->learning_rate == NULL ? 0 : steps * sizeof *a->learning_rate},
        {a->matrix, a->matrix == NULL ? 0 : steps * steps * sizeof *a->matrix},
        {weights, weights == NULL ? 0 : steps * sizeof *weights},
    };
    return base_sha256_bytes(sizeof parts / sizeof parts[0], parts, digest);
}

/* Where the answer is, -1: nowhere. The lock is held. */
static int place_of(const uint8_t digest[32]) {
    for (int i = 0; i < KEPT; i++)
        if (answers[i].known && memcmp(answers[i].digest, digest, sizeof answers[i].digest) == 0) return i;
    return -1;
}

int epochs_recall(const uint8_t digest[32], epochs_lower *out) {
    pthread_mutex_lock(&lock);
    const int at = place_of(digest);
    if (at >= 0) *out = answers[at].found;
    pthread_mutex_unlock(&lock);
    return at >= 0;
}

void epochs_remember(const uint8_t digest[32], const epochs_lower *found) {
    pthread_mutex_lock(&lock);
    int at = place_of(digest);
    if (at < 0) {
        at = next_answer;
        next_answer = (next_answer + 1) % KEPT;
    }
    answer *to = &answers[at];
    memcpy(to->digest, digest, sizeof to->digest);
    to->found = *found;
    to->known = 1;
    pthread_mutex_unlock(&lock);
}
