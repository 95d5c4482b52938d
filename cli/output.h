/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program's output. Answers are gathered in a text and printed only when everything has succeeded; a failure is one
 * line on stderr and an exit code.
 */
#ifndef DPMF_CLI_OUTPUT_H
#define DPMF_CLI_OUTPUT_H

#include "dpmf.h"
#include "fixed.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_DONE = 0, EXIT_UNABLE = 1, EXIT_USAGE = 2, EXIT_NEGATIVE = 3, EXIT_CANCELLED = 130 };

#if defined(__GNUC__)
#define PRINTF_LIKE(at, first) __attribute__((format(printf, at, first)))
#else
#define PRINTF_LIKE(at, first)
#endif

/* Prints "dpmf: MESSAGE" as one line on stderr, even if the message has line breaks, and returns `code`. */
int fail(int code, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * The same for a library call that failed, with its exit code; `about` is NULL or the option at fault ("--workload x").
 */
int fail_status(dpmf_status status, const char *about);

int fail_memory(void);

/* Zeroed memory for free(); NULL if there is none, also where the system would promise more than the machine has. */
void *allocate(int64_t count, int64_t size);

/* `text` as a message shows it: quoted when it is empty or has spaces, cut when it is long. Returns `out`. */
enum { SHOWN = 72 };
const char *show(const char *text, char out[SHOWN]);

/* The length of the character at `at` if it is valid UTF-8 (no overlong forms, no surrogates) before `end`, else 0. */
size_t utf8_length(const char *at, const char *end);

/* A growing text. Running out of memory sticks, and text_print reports it. */
typedef struct text_buffer {
    char *bytes;
    size_t length, capacity;
    bool failed, need_comma;
} text_buffer;

void text_add(text_buffer *t, const char *format, ...) PRINTF_LIKE(2, 3);
void text_add_bytes(text_buffer *t, const char *bytes, size_t length);
char *text_room(text_buffer *t, size_t more); /* NULL: no memory; then call text_used with the bytes written */
void text_used(text_buffer *t, size_t length);
void text_free(text_buffer *t);

/* Writes it to stdout and returns the exit code: 0, or 1 after a message. text_finish frees it too. */
int text_print(const text_buffer *t);
int text_finish(text_buffer *t);

/* JSON, in the order of the calls. `key` is NULL inside an array. Infinity is the string "inf", NaN null. */
void json_begin(text_buffer *t); /* the outer object, with "schema" and "version" */
void json_end(text_buffer *t);
void json_open(text_buffer *t, const char *key, char bracket);      /* '{' or '[' */
void json_close(text_buffer *t, char bracket);                      /* '}' or ']' */
void json_text(text_buffer *t, const char *key, const char *value); /* NULL: null */
void json_integer(text_buffer *t, const char *key, int64_t value);
void json_double(text_buffer *t, const char *key, double value);
void json_doubles(text_buffer *t, const char *key, int64_t count, const double *values);
void json_known(text_buffer *t, const char *key, double value); /* 0 or less is not known: null */
void json_count_known(text_buffer *t, const char *key, int64_t value);
void json_bool(text_buffer *t, const char *key, bool value);
void json_null(text_buffer *t, const char *key);
void json_sensitivity(text_buffer *t, dpmf_sensitivity value);  /* the member "sensitivity" */
void json_losses(text_buffer *t, const dpmf_evaluation *value); /* the three losses */
void json_lower_bound(text_buffer *t, dpmf_lower_bound value);  /* the member "lower_bound" */

/* Does delta allow one of this many units to be published in full? With `units` 0, not known, it does not. */
bool delta_too_large(double delta, int64_t units);
extern const char DELTA_TOO_LARGE[]; /* the warning for that case */

/*
 * Tables for people: a name, a value, and its certainty (NULL: no remark). A figure has nine digits: of an exact one or an upper bound
 * not below the value, of a lower bound not above it. table_upper and table_lower are for other remarks.
 */
enum { DIGITS = 9 };
int side_of(const char *kind); /* 1, -1, or 0 for the nearest */
/* The kind; "exact, rounded up" where a figure is known exactly and these are not all of its digits. */
void add_kind(text_buffer *t, double value, double shown, const char *kind);
void table_text(text_buffer *t, const char *name, const char *value);
void table_integer(text_buffer *t, const char *name, int64_t value);
void table_double(text_buffer *t, const char *name, double value, const char *kind);
void table_upper(text_buffer *t, const char *name, double value, const char *kind);
void table_lower(text_buffer *t, const char *name, double value, const char *kind);
void table_sensitivity(text_buffer *t, dpmf_sensitivity value);
void table_losses(text_buffer *t, const dpmf_strategy *s, const dpmf_evaluation *value);
/* Like the others, but for an estimate that did not look at every step. */
const char *max_loss_kind(const dpmf_strategy *s, const dpmf_evaluation *value);
void table_lower_bound(text_buffer *t, dpmf_lower_bound value);

/* "1.5 GiB"; returns `out`. */
enum { BYTES_SHOWN = 24 };
const char *show_bytes(uint64_t bytes, char out[BYTES_SHOWN]);

/*
 * Greek letters in sentences for people. The library writes "epsilon", "delta", "sigma" and "x" for a product; readers of
 * a UTF-8 terminal or of a page get the letters. JSON and files keep the words.
 */

typedef enum alphabet { ALPHABET_ASCII, ALPHABET_GREEK } alphabet;

/* GREEK where the locale of the environment (LC_ALL, LC_CTYPE, LANG) is UTF-8. The program's own locale stays "C". */
alphabet terminal_alphabet(void);

/* text_add, and with GREEK the words above as letters: whole words alone, neither options (--delta) nor parts of names. */
void add_words(text_buffer *t, alphabet how, const char *format, ...) PRINTF_LIKE(3, 4);

/* Long work: a progress bar on a terminal, else a line now and then, and Ctrl-C. */

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

/* A clock that only goes forward. */
double seconds_now(void);

/* For loops that are the program's own: part `done` of `what`, in [0, 1]. */
void progress_show(const char *what, double done);

/* Removes the progress line, if one is shown, before anything else is printed. */
void progress_clear(void);

#endif
