/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dpmf count: input (count/input.c) is cut into lines, a line into numbers (count/lines.c), a row of numbers becomes a row
 * of sums in the library, which is printed and given to where it goes (count/release.c), after the state file has it.
 */
#ifndef DPMF_CLI_COUNT_H
#define DPMF_CLI_COUNT_H

#include "dpmf.h"
#include "fixed.h"
#include "options/options.h"
#include "output.h"
#include "rows.h"

#include <pthread.h>

enum { WHY = 240 };

typedef struct slice {
    const char *start;
    size_t length;
} slice;

typedef enum bad_lines { BAD_STOP, BAD_ZERO, BAD_SKIP } bad_lines;
typedef enum line_format { FORMAT_TEXT, FORMAT_CSV, FORMAT_JSONL } line_format;

/* ---- lines (count/lines.c) ---- */

/* Which fields of a line are wanted. A plain line is `columns` numbers and nothing else. */
typedef struct line_reader {
    bool csv;        /* fields with names or numbers, a header, quotes */
    int64_t columns; /* numbers of a row */
    char *list;      /* CSV: a copy of --columns, its words ended by zeros; NULL: all but the time, from the first on */
    const char **name;  /* CSV: the words, `columns` of them; NULL: as above */
    const char *time;   /* NULL: none */
    bool header;        /* a header has been read */
    bool ready;         /* the places below are known */
    char separator;     /* CSV: one of , ; tab */
    int64_t *place;     /* CSV: field i is column place[i], -1: not wanted, -2: the time */
    int64_t places;     /* as many */
    text_buffer titles; /* of the columns, each ended with a zero; the time's first, if there is one */
    text_buffer spare;  /* a time without its doubled quotes */
    int grid;           /* numbers are multiples of 2^-grid ... */
    fixed limit;        /* ... and below this */
} line_reader;

/* --columns and --time; 0, or the exit code after a message. */
int lines_open(const arguments *given, line_reader *reader);
void lines_close(line_reader *reader);

typedef enum line_kind { LINE_ROW, LINE_HEADER, LINE_BAD } line_kind;

/*
 * A line without its end. LINE_ROW: `row` has its numbers, `time` is its time. LINE_BAD: `why` has the reason. The first
 * line may be a header: LINE_HEADER.
 */
line_kind lines_read(line_reader *reader, const char *line, size_t length, bool first, fixed *row, slice *time,
                     char why[WHY]);

/* The fields of one line of CSV, one after the other. */
typedef struct line_cutter {
    const char *at, *end;
    char separator;
    bool more;         /* another field follows; true at the start */
    const char *wrong; /* NULL: nothing */
} line_cutter;

/* The next field, without its quotes and the spaces around it; false: no more. Doubled quotes stay, until lines_unquote. */
bool lines_cut(line_cutter *cutter, slice *field);
slice lines_unquote(text_buffer *spare, slice field);
char lines_separator(const char *line, size_t length); /* the most frequent of , ; tab */

/* ---- answers (count/release.c) ---- */

void print_titles(text_buffer *t, const line_reader *reader); /* the header of a CSV */

/* One row of sums; `step` counts from 1. */
void print_sums(text_buffer *t, line_format format, const line_reader *reader, int64_t step, slice time,
                const fixed *sums, double error);

/* ---- where answers go (count/release.c) ---- */

/* What the state file says of the answers and of the input, before the text of the last batch itself. */
typedef struct count_note {
    char magic[8];
    int64_t offset; /* in the output file, where that text begins */
    int64_t lines;  /* of input, all that were taken */
    int32_t to_file, open_line, header;
    int32_t time; /* bytes of the time of the last line, which follow the text; 0: none */
} count_note;

typedef struct release {
    dpmf_counter *counter;
    const char *path; /* --out; NULL: standard output */
    bool kept;        /* there is a state file */
    row_output rows;  /* where there is none */
    int file;         /* with one: the output, open for appending */
    bool written;     /* it has lines that are not synced */
    bool syncing;     /* a thread is at it */
    pthread_t thread;
    text_buffer text; /* a note and the lines that are not released yet */
    text_buffer time; /* of the last line (--time) */
    count_note note;  /* of the next commit; offset is the end of the output */
} release;

/* Opens the output; with a state file, brings it to where that says. 0, or the exit code after a message. */
int release_open(release *r, dpmf_counter *counter, const char *path, bool kept);

/* The lines in r->text, after the state file has them. */
int release_lines(release *r);

/*
 * `done`: the output is complete; without it, and without a state file, a file that is not complete goes. `all_out`: no line
 * was left over by a failure, and the state file may say so.
 */
int release_close(release *r, bool done, bool all_out);

/* ---- input (count/input.c) ---- */

typedef struct input {
    int file;
    const char *path; /* --follow; NULL: standard input */
    bool follow, whole;
    bool unknown; /* a pipe without --input: it does not show where it begins */
    bool rest;    /* --input rest: its lines come after those that were counted */
    char *bytes;
    size_t used, room; /* bytes[taken..used) have not been taken yet */
    size_t taken;
    size_t hashed;    /* bytes[0..hashed) are in the library's hash */
    size_t longest;   /* of a line */
    int64_t position; /* of bytes[0] in the file */
    bool ended;
} input;

int input_open(input *in, const arguments *given, int64_t columns);
void input_close(input *in);

/*
 * Bytes 0 to dpmf_counter_input_size again, if the input begins at its start; `first` is then the first line of them, for
 * free(), else NULL. `lines`: those that were counted. A pipe is refused unless --input gives its beginning.
 */
int input_resume(input *in, dpmf_counter *counter, int64_t step, int64_t lines, slice *first);

/* More bytes; waits for the first of them. in->ended: there are none. */
int input_fill(input *in);

/* The next whole line, or false. At the end also one without its end (*open). */
bool input_line(input *in, slice *line, bool *open);

/* What has been taken goes into the hash of the next commit. */
int input_taken(input *in, dpmf_counter *counter);

#endif
