/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's readers of text on any bytes. The first chooses the reader: p, v, w: lines for count (plain, CSV, CSV
 * with a time), g: a log of participations, q: a stream that count released, j: a file of parameters. Accepted data
 * must be complete and within bounds; a refusal is an exit code of 1 or 2.
 */
#include "cases.h"

#include "count/count.h"
#include "family.h"
#include "log.h"
#include "released.h"

#include <math.h>

uint64_t fuzz_accepted;

static arguments query, plain, table, timed;
static char mechanism_path[96];

static void parse(arguments *out, int argc, const char *const *argv) {
    verb_id verb;
    const char *closest = NULL;
    REQUIRE(find_verb(argv[0], &verb, &closest));
    REQUIRE(parse_arguments(argc, (char **)(uintptr_t)argv, 1, verb, out) == 0);
}

static void remove_mechanism(void) {
    unlink(mechanism_path);
}

static void set_up(void) {
    if (mechanism_path[0] != '\0') return;
    const char *path = fuzz_file((const uint8_t *)"", 0);
    snprintf(mechanism_path, sizeof mechanism_path, "%s-mechanism", path);
    dpmf_mechanism *mechanism = case_mechanism(1);
    MUST(dpmf_mechanism_save(mechanism, mechanism_path));
    atexit(remove_mechanism);
    dpmf_mechanism_free(mechanism);
    const char *const asked[] = {"query", path, "--mechanism", mechanism_path, "--range", "1:2"};
    const char *const two[] = {"count", "m", "--columns", "2"};
    const char *const named[] = {"count", "m", "--columns", "a,b"};
    const char *const day[] = {"count", "m", "--columns", "a,b", "--time", "time"};
    static const char *kept[6];
    memcpy(kept, asked, sizeof kept);
    parse(&query, 6, kept);
    parse(&plain, 4, two);
    parse(&table, 4, named);
    parse(&timed, 6, day);
    fuzz_messages = dup(STDERR_FILENO); /* a million refusals are printed there */
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    REQUIRE(fuzz_messages >= 0 && nowhere >= 0 && dup2(nowhere, STDERR_FILENO) >= 0);
    close(nowhere);
}

/* ---- the targets: 0 or an exit code ---- */

static int read_rows(const arguments *given, const uint8_t *data, size_t size) {
    line_reader reader = {.grid = 20, .limit = (fixed)1 << 60};
    int bad = 0;
    REQUIRE(lines_open(given, &reader) == 0 && reader.columns == 2);
    for (size_t at = 0, line = 0; at < size; line++) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        const size_t length = end != NULL ? (size_t)(end - data) - at : size - at;
        fixed row[2] = {0};
        slice time = {0};
        char why[WHY] = "", *exact = malloc(length + 1); /* no byte to spare behind the line */
        REQUIRE(exact != NULL);
        memcpy(exact, data + at, length);
        exact = realloc(exact, length > 0 ? length : 1);
        const line_kind kind = lines_read(&reader, exact, length, line == 0, row, &time, why);
        if (kind == LINE_ROW)
            for (int i = 0; i < 2; i++)
                REQUIRE(row[i] < (fixed)1 << 60 && row[i] > -((fixed)1 << 60));
        if (kind == LINE_BAD) REQUIRE(why[0] != '\0' && memchr(why, '\0', WHY) != NULL);
        bad += kind == LINE_BAD;
        free(exact);
        at += length + 1;
    }
    lines_close(&reader);
    return bad > 0 ? EXIT_USAGE : 0;
}

static int read_log(const uint8_t *data, size_t size) {
    participation_log log = {0};
    int64_t later = -1;
    const int code = log_read(fuzz_file(data, size), CASE_STEPS, &log);
    if (code != 0) {
        REQUIRE(log.count == 0 && log.client == NULL);
        return code;
    }
    REQUIRE(log.count > 0 && (uint64_t)log.count < size && log.clients > 0 && log.clients <= log.count);
    for (int64_t i = 0; i < log.count; i++) {
        REQUIRE(log.client[i] >= 0 && log.client[i] < log.clients && log.round[i] >= 0 && log.round[i] < CASE_STEPS);
        REQUIRE(strlen(log_client(&log, log.client[i])) <= CLIENT_MAX);
    }
    REQUIRE(log_find_repeat(&log, &later) <= 1 && later < log.count);
    log_free(&log);
    return 0;
}

static int read_stream(const uint8_t *data, size_t size) {
    released r = {0};
    fuzz_file(data, size);
    const int code = released_read(&query, &r);
    if (code == 0) REQUIRE(r.lines > 0 && r.lines <= CASE_STEPS && isfinite(r.scale));
    for (int64_t t = 0; code == 0 && t < r.lines; t++)
        REQUIRE(isfinite(r.total[t]) && r.error[t] > 0);
    released_free(&r);
    return code;
}

static int read_parameters(const uint8_t *data, size_t size) {
    const dpmf_family *kind = find_family("banded-toeplitz");
    dpmf_strategy *strategy = NULL;
    int64_t bands = -1;
    REQUIRE(kind != NULL);
    const int code = read_strategy(fuzz_file(data, size), kind, CASE_STEPS, &bands, &strategy);
    if (code == 0) REQUIRE(strategy != NULL && dpmf_strategy_get(strategy).steps == CASE_STEPS && bands > 0);
    dpmf_strategy_free(strategy);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    dpmf_memory_set_limit(FUZZ_MEMORY_LIMIT);
    set_up();
    const uint64_t before = dpmf_memory_in_use();
    int code = EXIT_USAGE;
    if (size == 0) return 0;
    switch (data[0]) {
    case 'v':
        code = read_rows(&table, data + 1, size - 1);
        break;
    case 'w':
        code = read_rows(&timed, data + 1, size - 1);
        break;
    case 'g':
        code = read_log(data + 1, size - 1);
        break;
    case 'q':
        code = read_stream(data + 1, size - 1);
        break;
    case 'j':
        code = read_parameters(data + 1, size - 1);
        break;
    default:
        code = read_rows(&plain, data + 1, size - 1);
    }
    REQUIRE(code == 0 || code == EXIT_UNABLE || code == EXIT_USAGE);
    fuzz_accepted += code == 0;
    REQUIRE(dpmf_memory_in_use() == before);
    return 0;
}
