/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line on any words: a word is a line of the input, the first the verb. Accepted words must be within the
 * bounds of the table of options, and the library's readers of texts must survive any words. Nothing is run.
 */
#include "cases.h"

#include "options/options.h"
#include "output.h"

#include <math.h>

uint64_t fuzz_accepted;

enum { WORDS_MAX = 200 };

static void be_quiet(void) {
    if (fuzz_messages != STDERR_FILENO) return;
    fuzz_messages = dup(STDERR_FILENO);
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    REQUIRE(fuzz_messages >= 0 && nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    close(nowhere);
}

static void check_options(const arguments *given) {
    for (int i = 0; i < OPTION_TOTAL; i++) {
        const option_row *o = &options[i];
        if (given->text[i] == NULL) continue;
        REQUIRE(option_of_verb((option_id)i, given->verb));
        if (o->kind == KIND_COUNT || o->kind == KIND_BYTES)
            REQUIRE((given->count[i] >= o->count_low && given->count[i] <= option_count_high(o)) ||
                    (o->word != NULL && given->count[i] == -1));
        if (o->kind == KIND_NUMBER)
            REQUIRE(
                (given->number[i] >= o->number_low && (given->number[i] < o->number_high || isinf(o->number_high))) ||
                (o->word != NULL && given->number[i] == -1.0));
        if (o->kind == KIND_TEXT || o->kind == KIND_FILE) REQUIRE(given->text[i][0] != '\0');
    }
    REQUIRE(given->operand_count >= 0 && given->operand_count <= OPERANDS_MAX);
}

/* Texts whose meaning the library reads; those that name files are left alone. */
static void read_texts(const arguments *given) {
    const char *text = given->text[OPTION_WORKLOAD];
    dpmf_workload *workload = NULL;
    dpmf_participation *participation = NULL;
    dpmf_sampling sampling;
    dpmf_sampler *sampler = NULL;
    uint8_t key[DPMF_KEY_SIZE];
    if (text != NULL && strstr(text, "file:") == NULL && strstr(text, "lr:") == NULL)
        if (dpmf_workload_parse(text, CASE_STEPS, &workload) == DPMF_OK)
            REQUIRE(dpmf_workload_get(workload).steps == CASE_STEPS);
    text = given->text[OPTION_PARTICIPATION];
    if (text != NULL && dpmf_participation_parse(text, CASE_STEPS, &participation) == DPMF_OK)
        REQUIRE(dpmf_participation_get(participation).text[0] != '\0');
    text = given->text[OPTION_SAMPLING];
    if (text != NULL && dpmf_sampling_parse(text, &sampling) == DPMF_OK) {
        case_key(key);
        if (dpmf_sampler_create(text, CASE_UNITS, CASE_STEPS, key, NULL, &sampler) == DPMF_OK)
            REQUIRE(dpmf_sampler_get(sampler).capacity <= CASE_UNITS);
    }
    dpmf_sampler_free(sampler);
    dpmf_participation_free(participation);
    dpmf_workload_free(workload);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *words = malloc(size + 1), *argv[WORDS_MAX + 1];
    int argc = 0;
    const uint64_t before = dpmf_memory_in_use();
    be_quiet();
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    REQUIRE(words != NULL);
    memcpy(words, data, size);
    words[size] = '\0';
    for (char *at = words; at != NULL && argc < WORDS_MAX;) {
        char *end = strchr(at, '\n');
        if (end != NULL) *end++ = '\0';
        argv[argc++] = at;
        at = end;
    }
    argv[argc] = NULL;
    verb_id verb;
    const char *closest = NULL;
    arguments given;
    if (find_verb(argv[0], &verb, &closest)) {
        const int code = parse_arguments(argc, argv, 1, verb, &given);
        REQUIRE(code == 0 || code == EXIT_USAGE);
        fuzz_accepted += code == 0;
        if (code == 0) check_options(&given);
        if (code == 0) read_texts(&given);
    } else {
        REQUIRE(closest == NULL || find_verb(closest, &verb, &closest));
    }
    free(words);
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}

/* A word of the tables in the place of one of the line, or one more. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    uint64_t random = ((uint64_t)seed << 1 | 1) * 0x9e3779b97f4a7c15u;
    char word[64];
    if (fuzz_below(&random, 2) == 0) return LLVMFuzzerMutate(data, size, max_size);
    const option_row *o = &options[fuzz_below(&random, OPTION_TOTAL)];
    const char *dashes = fuzz_below(&random, 8) == 0 ? "-" : "--";
    const int length = snprintf(word, sizeof word, "%s%.40s%s", dashes, o->name, fuzz_below(&random, 4) ? "\n" : "=");
    size_t at = fuzz_below(&random, size + 1);
    while (at > 0 && at < size && data[at - 1] != '\n')
        at++;
    if (size + (size_t)length > max_size) return size;
    memmove(data + at + length, data + at, size - at);
    memcpy(data + at, word, (size_t)length);
    return size + (size_t)length;
}
