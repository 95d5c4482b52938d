/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status and message: every function that can fail returns a dpmf_status; the text is thread-local.
 *
 * House style: functions that own something have one `done:` label; TRY_DONE jumps to it. `status` is the local name.
 */
#ifndef DPMF_BASE_STATUS_H
#define DPMF_BASE_STATUS_H

#define DPMF_EXPERIMENTAL
#include "dpmf_experimental.h"

/* Sets this thread's message and returns `status`. Name the value and the accepted range. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3), cold))
#endif
dpmf_status
base_fail(dpmf_status status, const char *format, ...);

/* Sets this thread's message to a copy of `text` (used to carry a worker's message to its caller). */
void base_set_message(const char *text);

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        dpmf_status try_status_ = (call);                                                                              \
        if (try_status_ != DPMF_OK) return try_status_;                                                                \
    } while (0)

#define TRY_DONE(call)                                                                                                 \
    do {                                                                                                               \
        status = (call);                                                                                               \
        if (status != DPMF_OK) goto done;                                                                              \
    } while (0)

/* Calls the progress function; DPMF_ERROR_CANCELLED if it wants to stop. `run` may be NULL. */
dpmf_status base_progress(const dpmf_run *run, const char *what, double done);

#endif
