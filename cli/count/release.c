/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the answers of count go, and what a state file promises of them. A batch of lines leaves in this order:
 *
 *     1  the lines before it are synced in the output file
 *     2  the state file has the sums, and the lines of this batch with their place in the output, synced
 *     3  the lines are written
 *
 * So after a kill or a power cut the output is at most a part of one batch behind the state, and that batch is in the
 * state: the program that goes on writes what is missing of it, the same bytes. An output that is longer than the state
 * knows, or has other bytes where the last batch goes, belongs to another state and is refused. What arrived on standard
 * output is not known: the last batch is printed again unless the program that printed it ended well.
 */
#include "count/count.h"

#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "lines 1";
enum { SYNC_APART = 1 << 20 };

static int fail_output(const release *r, int error) {
    char shown[SHOWN];
    return fail(EXIT_UNABLE, "cannot write %s: %s", show(r->path, shown), strerror(error));
}

/* ---- the output file of a run with a state file ---- */

static int write_file(release *r, const char *bytes, size_t size) {
    r->written = r->written || size > 0;
    const int error = file_put(r->file, r->note.offset, bytes, size);
    if (error != 0) return fail_output(r, error);
    r->note.offset += (int64_t)size;
    return 0;
}

/* 0 or an errno, as the thread's answer. */
static void *sync_apart(void *file) {
    return (void *)(intptr_t)(fdatasync(*(const int *)file) == 0 ? 0 : errno);
}

static int sync_file(release *r) {
    void *error = NULL;
    if (!r->written) return 0;
    if (r->syncing) {
        pthread_join(r->thread, &error);
        r->syncing = false;
        if (error != NULL) return fail_output(r, (int)(intptr_t)error);
    } else if (fdatasync(r->file) != 0) {
        return fail_output(r, errno);
    }
    r->written = false;
    return 0;
}

/* Refuses an output that does not hold the beginning of the batch at the batch's place. */
static int compare_tail(const release *r, const char *text, size_t size) {
    char shown[SHOWN], piece[4096];
    for (size_t done = 0; done < size;) {
        const size_t some = size - done < sizeof piece ? size - done : sizeof piece;
        size_t got = 0;
        const int error = file_get(r->file, r->note.offset + (int64_t)done, piece, some, &got);
        if (error != 0 || got < some) return fail_output(r, error != 0 ? error : EIO);
        if (memcmp(piece, text + done, some) != 0)
            return fail(EXIT_UNABLE,
                        "%s was changed: its last lines are not those of the state file, and nothing is released",
                        show(r->path, shown));
        done += some;
    }
    return 0;
}

/* Brings the output to where the state is; `text` is its last batch. */
static int mend_file(release *r, const char *text, size_t size, int64_t step) {
    struct stat info;
    char shown[SHOWN];
    if (fstat(r->file, &info) != 0) return fail_output(r, errno);
    const int64_t length = info.st_size, known = r->note.offset + (int64_t)size;
    show(r->path, shown);
    if (step == 0 && length > 0)
        return fail(EXIT_UNABLE, "%s exists, but the state file has no line: it belongs to another run", shown);
    if (step > 0 && size == 0 && length == 0 && r->note.offset > 0) {
        fail(0, "%s is a new file: lines up to %lld are elsewhere", shown, (long long)step);
        r->note.offset = 0;
        return 0;
    }
    if (length > known)
        return fail(EXIT_UNABLE,
                    "%s has %lld bytes, but the state file records %lld: the state file is an older copy, and its rows "
                    "would be used again",
                    shown, (long long)length, (long long)known);
    if (length < r->note.offset)
        return fail(EXIT_UNABLE, "%s has %lld bytes, but the state file records %lld: lines are missing", shown,
                    (long long)length, (long long)known);
    const size_t there = (size_t)(length - r->note.offset);
    int code = compare_tail(r, text, there);
    if (code != 0) return code;
    r->note.offset = length;
    r->written = true;
    return size > there ? write_file(r, text + there, size - there) : 0;
}

static int open_file(release *r, const char *text, size_t size, int64_t step) {
    struct stat info;
    char shown[SHOWN];
    r->file = open(r->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
    if (r->file < 0 || fstat(r->file, &info) != 0) return fail_output(r, errno);
    if (!S_ISREG(info.st_mode))
        return fail(EXIT_UNABLE, "cannot write %s: it is not a regular file", show(r->path, shown));
    const int error = file_sync_directory(r->path);
    if (error != 0) return fail_output(r, error);
    return mend_file(r, text, size, step);
}

/* ---- opening ---- */

/* What the last program left: its note, and the lines of its last batch. */
static void read_note(release *r, const char **text, size_t *size) {
    int64_t all = 0;
    const char *bytes = dpmf_counter_note(r->counter, &all);
    *text = NULL;
    *size = 0;
    memcpy(r->note.magic, MAGIC, sizeof MAGIC);
    if (bytes == NULL || dpmf_counter_get(r->counter).step == 0) return;
    if (all < (int64_t)sizeof r->note || memcmp(bytes, MAGIC, sizeof MAGIC) != 0) {
        r->note.lines = dpmf_counter_get(r->counter).step; /* another program counted, and has its last answer */
        return;
    }
    memcpy(&r->note, bytes, sizeof r->note);
    *text = bytes + sizeof r->note;
    *size = (size_t)all - sizeof r->note - (size_t)r->note.time;
    if (r->note.time > 0) text_add_bytes(&r->time, *text + *size, (size_t)r->note.time);
}

int release_open(release *r, dpmf_counter *counter, const char *path, bool kept) {
    const char *text;
    size_t size;
    r->counter = counter;
    r->path = path;
    r->kept = kept;
    r->file = -1;
    if (!kept) return rows_open(path, false, &r->rows);
    const int64_t step = dpmf_counter_get(counter).step;
    read_note(r, &text, &size);
    if (size > 0 && r->note.to_file != (path != NULL))
        return fail(EXIT_UNABLE, "the last lines of the state file must first go %s",
                    path != NULL ? "to standard output" : "to a file (--out)");
    r->note.to_file = path != NULL;
    if (path != NULL) return open_file(r, text, size, step);
    const int code = rows_open(NULL, false, &r->rows);
    if (code != 0 || size == 0) return code;
    fail(0, "the last lines before %lld may have been printed: they are printed again", (long long)step + 1);
    return rows_write(&r->rows, text, size);
}

/* ---- lines ---- */

/* r->text is the note, for which room is left, and then lines; the last time joins them for the state file. */
static int commit(release *r) {
    const size_t length = r->text.length;
    if (!r->kept) return 0;
    r->note.time = (int32_t)r->time.length;
    if (r->time.length > 0) text_add_bytes(&r->text, r->time.bytes, r->time.length);
    if (r->text.failed || r->time.failed) return fail_memory();
    memcpy(r->text.bytes, &r->note, sizeof r->note);
    dpmf_status status = dpmf_counter_commit(r->counter, r->text.bytes, (int64_t)r->text.length);
    r->text.length = length;
    return status == DPMF_OK ? 0 : fail_status(status == DPMF_ERROR_ARGUMENT ? DPMF_ERROR_IO : status, NULL);
}

int release_lines(release *r) {
    int code = 0;
    if (r->text.failed) return fail_memory();
    if (r->text.length <= sizeof r->note) return 0;
    if (r->file >= 0) code = sync_file(r);
    if (code == 0) code = commit(r);
    const char *lines = r->text.bytes + sizeof r->note;
    const size_t size = r->text.length - sizeof r->note;
    if (code == 0) code = r->file >= 0 ? write_file(r, lines, size) : rows_write(&r->rows, lines, size);
    if (code == 0 && r->file >= 0 && size >= SYNC_APART) /* the disk may begin while the next batch is computed */
        r->syncing = pthread_create(&r->thread, NULL, sync_apart, &r->file) == 0;
    r->text.length = sizeof r->note;
    return code;
}

int release_close(release *r, bool done, bool all_out) {
    int code = 0;
    const bool begun = r->kept && all_out && dpmf_counter_get(r->counter).step > 0;
    if (r->file >= 0) {
        code = sync_file(r);
        close(r->file);
        r->file = -1;
    } else if (done) {
        code = rows_finish(&r->rows);
    }
    rows_close(&r->rows);
    if (code == 0 && begun) {
        r->text.length = sizeof r->note; /* no line is left to be written */
        code = commit(r);
    }
    return code;
}

/* ---- a line of answers ---- */

/* Four digits beyond the first one that the noise leaves uncertain; more would only show rounding. */
static int decimals_of(double error) {
    if (!(error > 0.0)) return 17;
    int digits = 4 - (int)floor(log10(error));
    return digits < 0 ? 0 : digits > 18 ? 18 : digits;
}

/* The numbers, with `separator` between them. */
static void add_numbers(text_buffer *t, const line_reader *reader, char separator, const fixed *sums, int decimals) {
    char *at = text_room(t, (size_t)reader->columns * (FIXED_TEXT + 1));
    if (at == NULL) return;
    char *const start = at;
    for (int64_t i = 0; i < reader->columns; ++i) {
        if (i > 0) *at++ = separator;
        at = fixed_print(at, sums[i], reader->grid, decimals);
    }
    text_used(t, (size_t)(at - start));
}

/* Quoted where it has to be; `also` is a letter that needs quotes too. */
static void add_field(text_buffer *t, slice field, char also) {
    bool quotes = field.length == 0;
    for (size_t i = 0; i < field.length; ++i)
        quotes = quotes || field.start[i] == '"' || field.start[i] == ',' || field.start[i] == also;
    if (!quotes) {
        text_add_bytes(t, field.start, field.length);
        return;
    }
    text_add_bytes(t, "\"", 1);
    for (size_t i = 0; i < field.length; ++i)
        text_add_bytes(t, field.start[i] == '"' ? "\"\"" : field.start + i, field.start[i] == '"' ? 2 : 1);
    text_add_bytes(t, "\"", 1);
}

static void add_json_text(text_buffer *t, slice field) {
    text_add_bytes(t, "\"", 1);
    for (size_t i = 0; i < field.length; ++i) {
        const unsigned char letter = (unsigned char)field.start[i];
        if (letter == '"' || letter == '\\')
            text_add(t, "\\%c", letter);
        else if (letter < 0x20)
            text_add(t, "\\u%04x", letter);
        else
            text_add_bytes(t, field.start + i, 1);
    }
    text_add_bytes(t, "\"", 1);
}

void print_titles(text_buffer *t, const line_reader *reader) {
    const char *title = reader->titles.bytes;
    const int64_t count = reader->columns + (reader->time != NULL);
    text_add(t, "step");
    for (int64_t i = 0; i < count; ++i) {
        text_add_bytes(t, ",", 1);
        add_field(t, (slice){title, strlen(title)}, ',');
        title += strlen(title) + 1;
    }
    text_add(t, ",standard_deviation\n");
}

void print_sums(text_buffer *t, line_format format, const line_reader *reader, int64_t step, slice time,
                const fixed *sums, double error) {
    const int decimals = decimals_of(error);
    if (format == FORMAT_JSONL) {
        text_add(t, "{\"step\":%lld,", (long long)step);
        if (reader->time != NULL) {
            text_add(t, "\"time\":");
            add_json_text(t, time);
            text_add(t, ",");
        }
        text_add(t, "\"sums\":[");
        add_numbers(t, reader, ',', sums, decimals);
        text_add(t, "],\"standard_deviation\":%.6g}\n", safe_digits(error, 6, 1));
        return;
    }
    const char separator = format == FORMAT_CSV ? ',' : ' ';
    if (format == FORMAT_CSV) text_add(t, "%lld,", (long long)step);
    if (reader->time != NULL) {
        add_field(t, time, separator);
        text_add_bytes(t, &separator, 1);
    }
    add_numbers(t, reader, separator, sums, decimals);
    text_add(t, "%c%.6g\n", separator, safe_digits(error, 6, 1));
}
