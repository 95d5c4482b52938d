/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input of count: standard input, or a file that grows. What has come is cut into lines at once, however little it is; a
 * pipe that has more is read until the buffer is full, so that one write of the state file serves many lines.
 */
#include "count/count.h"

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PIECE = 1 << 16, LONGEST_NUMBER = 400, READ_AHEAD = 1 << 22 };

static int fail_read(const input *in, int error) {
    char shown[SHOWN];
    return fail(EXIT_UNABLE, "cannot read %s: %s", in->path != NULL ? show(in->path, shown) : "standard input",
                strerror(error));
}

int input_open(input *in, const arguments *given, int64_t columns) {
    struct stat info;
    in->path = given->text[OPTION_FOLLOW];
    in->follow = in->path != NULL;
    in->file = in->follow ? open(in->path, O_RDONLY | O_CLOEXEC) : STDIN_FILENO;
    if (in->file < 0 || fstat(in->file, &info) != 0) return fail_read(in, errno);
    if (in->follow && S_ISDIR(info.st_mode)) return fail_read(in, EISDIR);
    in->rest = option_is(given, OPTION_INPUT, "rest");
    in->whole = option_given(given, OPTION_INPUT) ? option_is(given, OPTION_INPUT, "whole") : S_ISREG(info.st_mode);
    in->unknown = !option_given(given, OPTION_INPUT) && !in->whole;
    in->longest = PIECE + (size_t)columns * LONGEST_NUMBER;
    in->room = in->longest + READ_AHEAD;
    in->bytes = allocate((int64_t)in->room, 1);
    return in->bytes != NULL ? 0 : fail_memory();
}

void input_close(input *in) {
    if (in->follow && in->file >= 0) close(in->file);
    free(in->bytes);
    in->bytes = NULL;
}

/* One read; 0 and in->ended at the end of what there is. */
static int read_some(input *in) {
    for (;;) {
        const ssize_t got = read(in->file, in->bytes + in->used, in->room - in->used);
        if (got < 0 && errno == EINTR && !interrupted()) continue;
        if (got < 0 && errno == EINTR) return fail(EXIT_CANCELLED, "cancelled");
        if (got < 0) return fail_read(in, errno);
        in->used += (size_t)got;
        in->ended = got == 0;
        return 0;
    }
}

static bool has_more(const input *in) {
    struct pollfd wanted = {.fd = in->file, .events = POLLIN};
    return !in->ended && in->used < in->room && poll(&wanted, 1, 0) > 0;
}

/* The file has not grown: waits a little. A file that was cut is another file. */
static int wait_growth(const input *in) {
    const struct timespec pause = {.tv_nsec = 50000000};
    const int64_t read_to = in->position + (int64_t)in->used;
    char shown[SHOWN];
    struct stat info;
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (fstat(in->file, &info) == 0 && S_ISREG(info.st_mode) && info.st_size < read_to)
        return fail(EXIT_UNABLE, "%s is now shorter than the %lld bytes that were read from it", show(in->path, shown),
                    (long long)read_to);
    nanosleep(&pause, NULL); /* a signal ends it */
    return 0;
}

static void move_rest(input *in) {
    in->used -= in->taken;
    memmove(in->bytes, in->bytes + in->taken, in->used);
    in->position += (int64_t)in->taken;
    in->taken = in->hashed = 0;
}

int input_fill(input *in) {
    int code = 0;
    move_rest(in);
    in->ended = false;
    if (!in->follow && !wait_readable(in->file)) return fail(EXIT_CANCELLED, "cancelled");
    code = read_some(in);
    while (code == 0 && in->follow && in->ended) {
        code = wait_growth(in);
        if (code == 0) code = read_some(in);
    }
    while (code == 0 && has_more(in))
        code = read_some(in);
    if (in->follow) in->ended = false; /* it may grow */
    return code;
}

bool input_line(input *in, slice *line, bool *open) {
    char *start = in->bytes + in->taken;
    const size_t left = in->used - in->taken;
    const char *end = left > 0 ? memchr(start, '\n', left) : NULL;
    *open = end == NULL;
    *line = (slice){start, end != NULL ? (size_t)(end - start) : left};
    if (end != NULL) in->taken += line->length + 1;
    if (end == NULL && in->ended && !in->follow && left > 0) {
        in->taken = in->used; /* a last line without its end */
        return true;
    }
    return end != NULL;
}

int input_taken(input *in, dpmf_counter *counter) {
    dpmf_status status =
        dpmf_counter_input(counter, DPMF_INPUT_COUNT, in->bytes + in->hashed, (int64_t)(in->taken - in->hashed));
    in->hashed = in->taken;
    return status == DPMF_OK ? 0 : fail_status(status, NULL);
}

int input_resume(input *in, dpmf_counter *counter, int64_t step, int64_t lines, slice *first) {
    const int64_t wanted = dpmf_counter_get(counter).input_size;
    int64_t seen = 0;
    *first = (slice){NULL, 0};
    if (step == 0) return 0;
    if (in->unknown)
        return fail(EXIT_USAGE,
                    "%lld lines were counted, and a pipe does not show where it begins: use --input whole if it begins "
                    "at its start again (what was counted is compared and skipped), --input rest if it begins after "
                    "line %lld",
                    (long long)lines, (long long)lines);
    if (!in->whole) {
        dpmf_status status = dpmf_counter_input(counter, DPMF_INPUT_RESTART, NULL, 0);
        return status == DPMF_OK ? 0 : fail_status(status, NULL);
    }
    if (wanted == 0)
        return fail(EXIT_UNABLE,
                    "the state file does not record which input its %lld rows came from: use --input rest if this "
                    "input begins after them",
                    (long long)step);
    while (seen < wanted) {
        int code = interrupted() ? fail(EXIT_CANCELLED, "cancelled") : read_some(in);
        if (code != 0) return code;
        if (in->ended)
            return fail(EXIT_UNABLE,
                        "the input has %lld bytes, but %lld were counted: give the input from its start, or use "
                        "--input rest if it begins later",
                        (long long)seen, (long long)wanted);
        /* The first line stays in memory for its header; what follows is read over it. */
        const size_t fresh = in->used - in->taken;
        const int64_t part = wanted - seen < (int64_t)fresh ? wanted - seen : (int64_t)fresh;
        dpmf_status status = dpmf_counter_input(counter, DPMF_INPUT_VERIFY, in->bytes + in->taken, part);
        if (status != DPMF_OK) return fail_status(DPMF_ERROR_IO, NULL);
        seen += part;
        in->taken += (size_t)part;
        if (first->start == NULL) {
            const char *end = memchr(in->bytes, '\n', in->used);
            if (end == NULL && seen < wanted) continue;
            first->length = end != NULL ? (size_t)(end - in->bytes) : in->used;
            char *copy = allocate((int64_t)first->length + 1, 1);
            if (copy == NULL) return fail_memory();
            memcpy(copy, in->bytes, first->length);
            first->start = copy;
        }
        move_rest(in);
    }
    return 0;
}
