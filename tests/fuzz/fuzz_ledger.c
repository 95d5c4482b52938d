/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf_ledger_load on any bytes. What it accepts must have a budget that makes sense, or none, and no memory may be left in
 * use. A ledger is text without a code: the general mutations change numbers, and the ones here words.
 */
#include "cases.h"

uint64_t fuzz_accepted;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    const uint64_t before = dpmf_memory_in_use();
    const char *path = fuzz_file(data, size);
    dpmf_ledger *ledger = NULL;
    dpmf_status status = dpmf_ledger_load(path, &ledger);
    if (status != DPMF_OK) {
        REQUIRE(ledger == NULL);
        fuzz_refused(status);
    } else {
        const double epsilon = dpmf_ledger_get(ledger).budget_epsilon, delta = dpmf_ledger_get(ledger).budget_delta;
        fuzz_accepted++;
        REQUIRE(epsilon == 0 || (epsilon > 0 && delta > 0 && delta < 1));
        dpmf_ledger_free(ledger);
    }
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}

/* A word of a ledger in the place of another of the same kind, or somewhere. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    static const char *const word[] = {"\"poisson:0.01\"",
                                       "\"none\"",
                                       "\"allocation:2,10\"",
                                       "\"balls-in-bins:5\"",
                                       "\"min-sep:0.1,3\"",
                                       "\"block-cyclic:0.1,4\"",
                                       "\"add-remove\"",
                                       "\"replace-one\"",
                                       "null",
                                       "[]",
                                       "{}",
                                       "\"\"",
                                       "true"};
    uint64_t random = ((uint64_t)seed << 1 | 1) * 0x9e3779b97f4a7c15u;
    if (size == 0 || fuzz_below(&random, 2) == 0) return LLVMFuzzerMutate(data, size, max_size);
    const char *put = word[fuzz_below(&random, sizeof word / sizeof *word)];
    const size_t length = strlen(put);
    size_t at = fuzz_below(&random, size), end;
    while (at < size && data[at] != ':')
        at++;
    if (at == size) return size;
    for (end = ++at; end < size && data[end] != ',' && data[end] != '}';)
        end++;
    if (size - (end - at) + length > max_size) return size;
    memmove(data + at + length, data + end, size - end);
    memcpy(data + at, put, length);
    return size - (end - at) + length;
}
