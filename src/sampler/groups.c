/* SPDX-License-Identifier: Apache-2.0 */
/* Units in groups, each with its members in rising order: a counting sort by group. */
#include "sampler/sampler.h"

#include "base/memory.h"
#include "crypto/crypto.h"

#include <string.h>

void sampler_release(void *memory, int64_t count, size_t size) {
    if (memory != NULL) crypto_wipe(memory, (size_t)count * size);
    base_free(memory);
}

dpmf_status sampler_groups_create(int64_t units, int64_t count, sampler_groups *out) {
    sampler_groups made = {.units = units, .count = count};
    dpmf_status status = DPMF_OK;
    TRY_DONE(base_alloc(units, sizeof *made.of, "the group of each unit", (void **)&made.of));
    TRY_DONE(base_alloc(units, sizeof *made.member, "the units of the groups", (void **)&made.member));
    TRY_DONE(base_alloc(count + 2, sizeof *made.start, "the groups", (void **)&made.start));
    *out = made;
    return DPMF_OK;
done:
    sampler_groups_free(&made);
    return status;
}

void sampler_groups_free(sampler_groups *groups) {
    sampler_release(groups->of, groups->units, sizeof *groups->of);
    sampler_release(groups->member, groups->units, sizeof *groups->member);
    sampler_release(groups->start, groups->count + 2, sizeof *groups->start);
    *groups = (sampler_groups){0};
}

/* start[j + 2] counts group j, then start[j + 1] is where its next member goes, and ends as the start of j + 1. */
void sampler_groups_collect(sampler_groups *groups) {
    int64_t *start = groups->start;
    memset(start, 0, (size_t)(groups->count + 2) * sizeof *start);
    for (int64_t u = 0; u < groups->units; u++)
        start[groups->of[u] + 2]++;
    for (int64_t j = 2; j < groups->count + 2; j++)
        start[j] += start[j - 1];
    for (int64_t u = 0; u < groups->units; u++)
        groups->member[start[groups->of[u] + 1]++] = u;
}
