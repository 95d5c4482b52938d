/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns in files: the text of a named participation written out, and a participation read from a text. */
#ifndef DPMF_TESTS_PATTERNS_FILES_H
#define DPMF_TESTS_PATTERNS_FILES_H

#include "support/check.h"
#include "workload/workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads `size` bytes as a file of patterns. */
static inline dpmf_status patterns_read(const void *bytes, size_t size, int64_t steps, dpmf_participation **out) {
    char path[] = "/tmp/dpmf_patterns_XXXXXX", text[64];
    const int file = mkstemp(path);
    assert_true(file >= 0);
    assert_true(write(file, bytes, size) == (ssize_t)size);
    close(file);
    snprintf(text, sizeof text, "file:%s", path);
    const dpmf_status status = dpmf_participation_parse(text, steps, out);
    unlink(path);
    return status;
}

static inline dpmf_participation *patterns_of_text(const char *text, int64_t steps) {
    dpmf_participation *p = NULL;
    check_ok(patterns_read(text, strlen(text), steps, &p));
    return p;
}

/* All patterns, also those that are part of others: from `steps[0..size)` on. */
static inline void patterns_extend(const dpmf_participation *p, int64_t size, int64_t *steps, FILE *out) {
    for (int64_t i = 0; i < size; i++)
        fprintf(out, "%lld ", (long long)steps[i]);
    fprintf(out, "\n");
    if (size == p->count) return;
    int64_t from = size == 0 ? 0 : steps[size - 1] + p->separation, to = p->steps;
    if (p->pattern == WORKLOAD_EPOCHS) {
        from = size * p->separation;
        to = from + p->separation < p->steps ? from + p->separation : p->steps;
    }
    if (p->pattern == WORKLOAD_FIXED && size > 0) to = from + 1 < p->steps ? from + 1 : p->steps;
    for (int64_t t = from; t < to; t++) {
        steps[size] = t;
        patterns_extend(p, size + 1, steps, out);
    }
}

/* The same participation from a file that has every pattern. */
static inline dpmf_participation *patterns_written_out(const char *named, int64_t steps) {
    dpmf_participation *p = NULL, *listed = NULL;
    int64_t room[64];
    char *text = NULL;
    size_t size = 0;
    check_ok(dpmf_participation_parse(named, steps, &p));
    assert_true(p->count <= 64);
    FILE *out = open_memstream(&text, &size);
    patterns_extend(p, 0, room, out);
    fclose(out);
    check_ok(patterns_read(text, size, steps, &listed));
    free(text);
    dpmf_participation_free(p);
    return listed;
}

#endif
