/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process has once: the message of each thread, the allocator and the count of the bytes in use. A library with
 * copies of the other objects of base/ in it reaches this one through the public calls. Besides: status names, the version.
 *
 * Each block is taken from the allocator with room for a header and for alignment:
 *
 *     | slack | header (64 bytes) | the caller's bytes, 64-byte aligned ... |
 *
 * The header stores the size and the allocator, so the count is exact and a block is released by the allocator that
 * made it. The count includes header and slack, since they take memory too. The default allocator is calloc, whose
 * large blocks are fresh pages: zeroed, and not touched until used.
 */
#include "base/memory.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ALIGNMENT = 64, OVERHEAD = 2 * ALIGNMENT };

typedef struct block_header {
    size_t taken;
    void *start; /* what the allocator returned */
    void (*release)(void *context, void *memory);
    void *context;
} block_header;

_Static_assert(sizeof(block_header) <= ALIGNMENT, "the header must fit in front of an aligned block");

static void *default_allocate(void *context, size_t bytes) {
    (void)context;
    return calloc(1, bytes);
}

static void default_release(void *context, void *memory) {
    (void)context;
    free(memory);
}

/* base_fail without its care for the locale, which these messages, of whole numbers, do not need: it calls this file. */
__attribute__((format(printf, 2, 3), cold)) static dpmf_status fail(dpmf_status status, const char *format, ...) {
    char text[BASE_MESSAGE_SIZE + 1]; /* one byte more than is kept, so that a cut is seen */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    dpmf_set_last_error(text);
    return status;
}

static dpmf_allocator current = {default_allocate, default_release, NULL};
static atomic_uint_fast64_t limit_set; /* 0: physical memory */
static atomic_uint_fast64_t in_use;

void dpmf_memory_set_allocator(const dpmf_allocator *allocator) {
    const dpmf_allocator standard = {default_allocate, default_release, NULL};
    current = allocator != NULL ? *allocator : standard;
}

void dpmf_memory_set_limit(uint64_t bytes) {
    atomic_store(&limit_set, bytes);
}

uint64_t dpmf_memory_in_use(void) {
    return atomic_load(&in_use);
}

uint64_t base_memory_limit(void) {
    const uint64_t limit = atomic_load(&limit_set);
    if (limit != 0) return limit;
    const long pages = sysconf(_SC_PHYS_PAGES);
    const long page_size = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_size <= 0) return UINT64_MAX; /* unknown: the allocator decides */
    return (uint64_t)pages * (uint64_t)page_size;
}

/* "123 bytes", "4.5 MiB": whole numbers only, so no locale can change it. Returns `out`. */
static const char *readable(uint64_t bytes, char out[32]) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int unit = 0;
    uint64_t whole = bytes, rest = 0;
    while (whole >= 1024) {
        rest = whole % 1024;
        whole /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(out, 32, "%" PRIu64 " bytes", whole);
    else
        snprintf(out, 32, "%" PRIu64 ".%" PRIu64 " %s", whole, rest * 10 / 1024, units[unit]);
    return out;
}

static dpmf_status reserve_bytes(uint64_t bytes, const char *what) {
    const uint64_t limit = base_memory_limit();
    uint_fast64_t used = atomic_load(&in_use);
    do {
        if (used > limit || bytes > limit - used) {
            char need[32], now[32], most[32];
            return fail(DPMF_ERROR_MEMORY, "no memory for %s: it needs %s and %s are in use, of a limit of %s", what,
                        readable(bytes, need), readable(used, now), readable(limit, most));
        }
    } while (!atomic_compare_exchange_weak(&in_use, &used, used + bytes));
    return DPMF_OK;
}

dpmf_status dpmf_bytes_allocate(int64_t count, size_t size, const char *what, void **out) {
    if (count < 0 || size == 0 || what == NULL || out == NULL)
        return fail(DPMF_ERROR_ARGUMENT, "memory for %" PRId64 " items of %zu bytes, accepted: 0 or more of 1 or more",
                    count, size);
    const uint64_t most = (uint64_t)PTRDIFF_MAX - OVERHEAD;
    if ((uint64_t)count > most / size)
        return fail(DPMF_ERROR_MEMORY,
                    "no memory for %s: %" PRId64 " items of %zu bytes are more than can be addressed", what, count,
                    size);
    const size_t bytes = (size_t)count * size;
    const size_t taken = bytes + OVERHEAD;
    TRY(reserve_bytes(taken, what));

    const dpmf_allocator allocator = current;
    unsigned char *start = allocator.allocate(allocator.context, taken);
    if (start == NULL) {
        atomic_fetch_sub(&in_use, taken);
        char need[32];
        return fail(DPMF_ERROR_MEMORY, "no memory for %s: the allocator refused %s", what, readable(taken, need));
    }
    unsigned char *memory = start + ALIGNMENT;
    memory += (ALIGNMENT - (uintptr_t)memory % ALIGNMENT) % ALIGNMENT;
    if (allocator.allocate != default_allocate) memset(memory, 0, bytes);
    const block_header header = {taken, start, allocator.release, allocator.context};
    memcpy(memory - ALIGNMENT, &header, sizeof header);
    *out = memory;
    return DPMF_OK;
}

void dpmf_bytes_free(uint8_t *memory) {
    if (memory == NULL) return;
    block_header header;
    memcpy(&header, memory - ALIGNMENT, sizeof header);
    assert(header.taken >= OVERHEAD);
    header.release(header.context, header.start);
    atomic_fetch_sub(&in_use, header.taken);
}

static _Thread_local char message[BASE_MESSAGE_SIZE];

const char *dpmf_version(void) {
    return DPMF_VERSION;
}

const char *dpmf_status_name(dpmf_status status) {
    static const char *const names[] = {
        [DPMF_OK] = "ok",
        [DPMF_ERROR_ARGUMENT] = "argument",
        [DPMF_ERROR_MEMORY] = "memory",
        [DPMF_ERROR_IO] = "io",
        [DPMF_ERROR_FORMAT] = "format",
        [DPMF_ERROR_NUMERICAL] = "numerical",
        [DPMF_ERROR_UNSUPPORTED] = "unsupported",
        [DPMF_ERROR_CANCELLED] = "cancelled",
    };
    const size_t index = (size_t)status;
    return index < sizeof names / sizeof names[0] ? names[index] : "unknown";
}

const char *dpmf_last_error(void) {
    return message;
}

void dpmf_set_last_error(const char *text) {
    static const char dots[] = "...";
    const size_t length = strlen(text);
    size_t cut = BASE_MESSAGE_SIZE - sizeof dots;
    if (length < BASE_MESSAGE_SIZE) {
        memmove(message, text, length + 1);
    } else { /* a text that is cut ends in "..." and never in the middle of a UTF-8 character */
        while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80)
            cut--;
        memmove(message, text, cut);
        memcpy(message + cut, dots, sizeof dots);
    }
    /* A message is one line, even if a file or a path put line breaks into it. */
    for (char *at = message; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
}

dpmf_run dpmf_run_defaults(void) {
    return (dpmf_run){.threads = 0, .progress = NULL, .context = NULL};
}
