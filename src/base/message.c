/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread's message, status names, the version. The message is the state of the process that base_fail writes: it stands
 * apart from base_fail, so that a library with a copy of base_fail reaches the same message through the public call.
 */
#include "base/status.h"

#include <string.h>

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
