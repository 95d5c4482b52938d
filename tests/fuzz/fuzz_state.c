/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that record used rows, on any bytes: s: the state file of a stream, c: that of a counter, k: a key file.
 * The first byte chooses the kind; for a counter the second chooses the mechanism. A stream must be able to continue
 * from an accepted state, and no memory may be left in use.
 *
 * Every byte of a state is authenticated. The mutator knows the key of the corpus and makes the codes fit what it has
 * changed: a holder of the key, or damage before the code was computed, must not cause a crash either.
 */
#include "cases.h"

#include "noise/record.h"

uint64_t fuzz_accepted;

enum { RECORD = NOISE_RECORD, BODY = NOISE_RECORD_BODY, MAC = NOISE_MAC };

static noise_binding binding; /* of the stream of case 0 */
static dpmf_mechanism *mechanism[CASES];

static void set_up(void) {
    uint8_t key[DPMF_KEY_SIZE];
    if (mechanism[0] != NULL) return;
    case_key(key);
    for (int i = 0; i < CASES; i++)
        mechanism[i] = case_mechanism(i);
    binding.steps = CASE_STEPS;
    binding.dim = binding.count = CASE_DIM;
    binding.clip = 1.0;
    binding.precision = DPMF_FLOAT32;
    memcpy(binding.digest, dpmf_mechanism_get(mechanism[0]).digest, 64);
    MUST(noise_binding_keys(key, &binding));
}

/* ---- the targets ---- */

static dpmf_status read_state(const uint8_t *data, size_t size, int replay) {
    const char *path = fuzz_file(data, size);
    noise_state *state = NULL;
    dpmf_status status = noise_state_open(path, &binding, replay, &state);
    if (status != DPMF_OK) {
        REQUIRE(state == NULL);
        return status;
    }
    const int64_t reserved = noise_state_reserved(state), arrived = noise_state_arrived(state);
    REQUIRE(0 <= arrived && arrived <= reserved && reserved <= CASE_STEPS);
    uint8_t mark[MAC];
    int found = 0;
    for (int64_t row = 0; row < reserved; row++)
        MUST(noise_state_marked(state, row, mark, &found));
    if (reserved < CASE_STEPS) { /* it continues, and the next program sees it */
        MUST(noise_state_reserve(state, NULL));
        REQUIRE(noise_state_reserved(state) == reserved + 1);
    }
    noise_state_close(state, 1);
    if (!replay) { /* a damaged record that was forgiven may still be there */
        MUST(noise_state_open(path, &binding, 0, &state));
        REQUIRE(noise_state_reserved(state) == reserved + (reserved < CASE_STEPS));
        noise_state_close(state, 0);
    }
    return DPMF_OK;
}

static dpmf_status read_counter(const uint8_t *data, size_t size) {
    dpmf_counter_options options = dpmf_counter_options_defaults();
    uint8_t key[DPMF_KEY_SIZE];
    dpmf_counter *counter = NULL;
    if (size == 0) return DPMF_ERROR_FORMAT;
    case_key(key);
    options.state = fuzz_file(data + 1, size - 1);
    options.run.threads = 1;
    dpmf_status status = dpmf_counter_create(mechanism[data[0] % CASES], 2, 1.0, key, &options, &counter);
    if (status != DPMF_OK) {
        REQUIRE(counter == NULL);
        return status;
    }
    const int64_t step = dpmf_counter_get(counter).step;
    int64_t note_size = 0;
    REQUIRE(step >= 0 && step <= CASE_STEPS);
    const uint8_t *note = dpmf_counter_note(counter, &note_size);
    for (int64_t i = 0; i < note_size; i++)
        REQUIRE(note[i] <= 255); /* every byte is there to be read */
    double sums[2 * CASE_STEPS];
    const int64_t last = dpmf_counter_get(counter).last_rows;
    REQUIRE(last >= 0 && last <= CASE_STEPS);
    if (last > 0) (void)!dpmf_counter_last(counter, sums);
    dpmf_counter_free(counter);
    return DPMF_OK;
}

static dpmf_status read_key(const uint8_t *data, size_t size) {
    uint8_t key[DPMF_KEY_SIZE], before[DPMF_KEY_SIZE];
    memset(key, 0xa5, sizeof key);
    memcpy(before, key, sizeof key);
    dpmf_status status = dpmf_key_load(fuzz_file(data, size), 0, key);
    int constant = size == DPMF_KEY_SIZE; /* one byte repeated is refused */
    for (size_t i = 1; i < size && constant; i++)
        constant = data[i] == data[0];
    REQUIRE((status == DPMF_OK) == (size == DPMF_KEY_SIZE && !constant));
    REQUIRE(memcmp(key, status == DPMF_OK ? data : before, sizeof key) == 0);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    set_up();
    const uint64_t before = dpmf_memory_in_use();
    if (size == 0) return 0;
    dpmf_status status = data[0] == 'c'   ? read_counter(data + 1, size - 1)
                         : data[0] == 'k' ? read_key(data + 1, size - 1)
                                          : read_state(data + 1, size - 1, data[0] == 'r');
    if (status == DPMF_OK)
        fuzz_accepted++;
    else if (size > 1)
        fuzz_refused(status);
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}

/* ---- the mutator: codes that fit ---- */

static void seal_head(uint8_t *file) {
    MUST(noise_mac(binding.mac_key, file, BODY, file + BODY));
}

static void seal_state(uint8_t *file, size_t size) {
    uint8_t covered[MAC + BODY];
    if (size < 3 * RECORD) return;
    seal_head(file);
    memcpy(covered, file + BODY, MAC);
    for (int i = 1; i < 3; i++) {
        memcpy(covered + MAC, file + i * RECORD, BODY);
        MUST(noise_mac(binding.mac_key, covered, sizeof covered, file + i * RECORD + BODY));
    }
}

/* The room and the seal: a number with its place. */
static void seal_number(uint8_t *file, int64_t place) {
    uint8_t covered[MAC + 8 + BODY];
    memcpy(covered, file + BODY, MAC);
    memcpy(covered + MAC, &place, 8);
    memcpy(covered + MAC + 8, file + place, BODY);
    MUST(noise_mac(binding.mac_key, covered, sizeof covered, file + place + BODY));
}

static void seal_slot(const uint8_t *head_mac, uint8_t *slot, size_t left) {
    int64_t size = 0;
    if (left < 16) return;
    memcpy(&size, slot + 8, 8);
    if (size < MAC || (uint64_t)size > left) return;
    uint8_t *covered = malloc((size_t)size);
    REQUIRE(covered != NULL);
    memcpy(covered, head_mac, MAC);
    memcpy(covered + MAC, slot, (size_t)size - MAC);
    MUST(noise_mac(binding.mac_key, covered, (size_t)size, slot + size - MAC));
    free(covered);
}

static void seal_counter(uint8_t *file, size_t size) {
    uint64_t room = 0;
    if (size < 4096) return;
    seal_head(file);
    seal_number(file, 512);
    seal_number(file, 1024);
    memcpy(&room, file + 512, 8);
    seal_slot(file + BODY, file + 4096, size - 4096);
    if (room < size - 4096) seal_slot(file + BODY, file + 4096 + room, size - 4096 - room);
}

/* One of the numbers that mean something; the rest is left to the general mutations. */
static void change_field(uint8_t *file, size_t size, int counter, uint64_t *random) {
    static const size_t state[] = {16, 24, 28, 32, 40, 64, 512, 520, 528, 1024, 1032, 1040};
    static const size_t slots[] = {16, 32, 512, 1024, 4096, 4104, 4112, 4120, 4128, 4136, 4176};
    static const int64_t value[] = {-1, 0, 1, 2, 11, 12, 13, 80, 112, 65536, INT64_MAX, INT64_MIN, 1 << 20};
    const size_t at = counter ? slots[fuzz_below(random, sizeof slots / sizeof *slots)]
                              : state[fuzz_below(random, sizeof state / sizeof *state)];
    int64_t number = 0;
    if (at + 8 > size) return;
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
    const int counter = size > 0 && data[0] == 'c';
    const size_t start = counter ? 2 : 1;
    if (size <= start || data[0] == 'k') return LLVMFuzzerMutate(data, size, max_size);
    if (fuzz_below(&random, 4) == 0)
        size = start + LLVMFuzzerMutate(data + start, size - start, max_size - start);
    else
        change_field(data + start, size - start, counter, &random);
    if (counter)
        seal_counter(data + start, size - start);
    else
        seal_state(data + start, size - start);
    return size;
}
