/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures and the progress callback.
 *
 * Messages are formatted in the "C" locale, so that numbers in them read the same everywhere, and in a buffer of their
 * own, so that an argument may be the current message itself ("reading %s: %s", path, dpmf_last_error()).
 */
#include "base/status.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>

dpmf_status base_fail(dpmf_status status, const char *format, ...) {
    char text[BASE_MESSAGE_SIZE + 1]; /* one byte more than is kept, so that a cut is seen */
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
    dpmf_set_last_error(text);
    return status;
}

dpmf_status base_progress(const dpmf_run *run, const char *what, double done) {
    if (run == NULL || run->progress == NULL || run->progress(run->context, what, done) == 0) return DPMF_OK;
    return base_fail(DPMF_ERROR_CANCELLED, "cancelled by the progress callback while %s", what);
}
