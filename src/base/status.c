/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status names, the thread's message, the version and the progress callback.
 *
 * Messages are formatted in the "C" locale, so that numbers in them read the same everywhere, and in a buffer of their
 * own, so that an argument may be the current message itself ("reading %s: %s", path, dpmf_last_error()).
 */
#include "base/status.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Room for a path of a few hundred bytes and a sentence about it. */
enum { MESSAGE_SIZE = 1024 };

static _Thread_local char message[MESSAGE_SIZE];

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

/* Keeps what fits; a text that was cut ends in "..." and never in the middle of a UTF-8 character. */
static void keep_message(const char *text) {
    static const char dots[] = "...";
    const size_t length = strlen(text);
    if (length < MESSAGE_SIZE) {
        memmove(message, text, length + 1);
        return;
    }
    size_t cut = MESSAGE_SIZE - sizeof dots;
    while (cut > 0 && ((unsigned char)text[cut] & 0xC0) == 0x80) {
        cut--;
    }
    memmove(message, text, cut);
    memcpy(message + cut, dots, sizeof dots);
}

/* A message is one line, even if a file or a path put line breaks into it. */
static void make_one_line(void) {
    for (char *at = message; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) *at = '?';
}

void base_set_message(const char *text) {
    keep_message(text);
}

dpmf_status base_fail(dpmf_status status, const char *format, ...) {
    /* One byte more than is kept, plus the terminator, so that `keep_message` can see that the text was cut. */
    char text[MESSAGE_SIZE + 1];
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    const locale_t callers = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
    va_list arguments;
    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0) text[0] = '\0';
    va_end(arguments);
    if (plain != (locale_t)0) {
        uselocale(callers);
        freelocale(plain);
    }
    keep_message(text);
    make_one_line();
    return status;
}

dpmf_run dpmf_run_defaults(void) {
    return (dpmf_run){.threads = 0, .progress = NULL, .context = NULL};
}

dpmf_status base_progress(const dpmf_run *run, const char *what, double done) {
    if (run == NULL || run->progress == NULL || run->progress(run->context, what, done) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_CANCELLED, "cancelled by the progress callback while %s", what);
}
