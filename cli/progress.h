/* SPDX-License-Identifier: Apache-2.0 */
/* Long work: a progress bar on a terminal, else a line now and then, and Ctrl-C. */
#ifndef DPMF_CLI_PROGRESS_H
#define DPMF_CLI_PROGRESS_H

#include "dpmf.h"

#include <stdbool.h>

/* Handles SIGINT, SIGTERM and SIGHUP (unless ignored) and ignores SIGPIPE: a closed pipe is then a write error. */
void watch_signals(void);

/*
 * From now on one of them ends the program at once and removes the file `leaving` (NULL: none); the string must stay
 * valid. For work that calls no progress function for long and leaves no incomplete file. False if a signal came
 * before: then the caller stops.
 */
bool end_at_once(const char *leaving);

/* From now on they are only noted again: before anything is written that should be whole. rows_open and text_print call it. */
void end_later(void);

/* Has one of them asked to stop? */
bool interrupted(void);

/* Waits until `file` has something to read; false if one of the signals came first. */
bool wait_readable(int file);

/* How library calls are to run: `threads` (0: one per processor), progress shown, cancelled by a signal. */
dpmf_run run_with(int threads);

/* For loops that are the program's own: part `done` of `what`, in [0, 1]. */
void progress_show(const char *what, double done);

/* Removes the progress line, if one is shown, before anything else is printed. */
void progress_clear(void);

#endif
