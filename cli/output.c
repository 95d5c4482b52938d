/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "progress.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failures -------------------------------------------------------------------------------------------------- */

/* A message may quote anything a user or a file holds: control characters must not break the line or the terminal. */
static void make_one_line(char *line) {
    for (char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

static ssize_t write_all(int file, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(file, bytes, length);
        if (written < 0 && errno == EINTR && !interrupted()) continue;
        if (written < 0) return -1;
        bytes += written;
        length -= (size_t)written;
    }
    return 0;
}

int fail(int code, const char *format, ...) {
    char line[2000] = "dpmf: ";
    size_t start = strlen(line);
    va_list values;
    va_start(values, format);
    vsnprintf(line + start, sizeof line - start - 1, format, values);
    va_end(values);
    make_one_line(line);
    progress_clear();
    size_t length = strlen(line);
    line[length++] = '\n';
    (void)write_all(STDERR_FILENO, line, length); /* stderr is closed too: no message is possible */
    return code;
}

int fail_memory(void) {
    return fail(EXIT_UNABLE, "out of memory");
}

void *allocate(int64_t count, int64_t size) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double machine = pages > 0 && page > 0 ? (double)pages * (double)page : HUGE_VAL;
    if ((double)count * (double)size > machine) return NULL;
    return calloc((size_t)count, (size_t)size);
}

int fail_status(dpmf_status status, const char *about) {
    if (status == DPMF_ERROR_CANCELLED || interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    int code = status == DPMF_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_UNABLE;
    if (about == NULL) return fail(code, "%s", dpmf_last_error());
    return fail(code, "%s: %s", about, dpmf_last_error());
}

const char *show(const char *value, char out[SHOWN]) {
    size_t length = strlen(value), most = SHOWN - 8; /* room for two quotes, three dots and the zero */
    const char *dots = length > most ? "..." : "";
    if (length > most)
        for (length = most; length > 0 && ((unsigned char)value[length] & 0xc0) == 0x80; length--) {
        } /* not in the middle of a UTF-8 character */
    const char *quote = length == 0 || strpbrk(value, " '\t\n") != NULL ? "'" : "";
    snprintf(out, SHOWN, "%s%.*s%s%s", quote, (int)length, value, dots, quote);
    return out;
}

/* ---- the growing text ------------------------------------------------------------------------------------------ */

static bool text_reserve(text_buffer *t, size_t more) {
    if (t->failed) return false;
    if (t->capacity - t->length > more) return true;
    size_t capacity = t->capacity;
    do {
        capacity = capacity == 0 ? 1024 : capacity + capacity / 2;
    } while (capacity - t->length <= more);
    char *bytes = realloc(t->bytes, capacity);
    if (bytes == NULL) {
        t->failed = true;
        return false;
    }
    t->bytes = bytes;
    t->capacity = capacity;
    return true;
}

void text_add_bytes(text_buffer *t, const char *bytes, size_t length) {
    if (!text_reserve(t, length)) return;
    memcpy(t->bytes + t->length, bytes, length);
    t->length += length;
    t->bytes[t->length] = '\0';
}

const char DELTA_TOO_LARGE[] =
    "delta is 1/units or more: this allows publishing all data of one unit; use a smaller delta";

bool delta_too_large(double delta, int64_t units) {
    return units > 0 && delta * (double)units >= 1.0;
}

double rounded_up(double value) {
    if (!(value > 0.0) || !isfinite(value)) return value;
    const double unit = pow(10.0, floor(log10(value)) - 5.0);
    return ceil(value / unit * (1.0 - 1e-14)) * unit;
}

void text_add(text_buffer *t, const char *format, ...) {
    char small[400]; /* a line or a number; longer ones are written a second time in place */
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    int length = vsnprintf(small, sizeof small, format, values);
    if (length < 0) {
        t->failed = true;
    } else if ((size_t)length < sizeof small) {
        text_add_bytes(t, small, (size_t)length);
    } else if (text_reserve(t, (size_t)length + 1)) {
        vsnprintf(t->bytes + t->length, (size_t)length + 1, format, again);
        t->length += (size_t)length;
    }
    va_end(again);
    va_end(values);
}

char *text_room(text_buffer *t, size_t more) {
    return text_reserve(t, more) ? t->bytes + t->length : NULL;
}

void text_used(text_buffer *t, size_t length) {
    t->length += length;
    t->bytes[t->length] = '\0';
}

void text_free(text_buffer *t) {
    free(t->bytes);
    memset(t, 0, sizeof *t);
}

int text_print(const text_buffer *t) {
    end_later(); /* the answer is printed whole */
    if (t->failed) return fail_memory();
    progress_clear();
    /* Some file systems only report a full disk when the file is closed. */
    if (write_all(STDOUT_FILENO, t->bytes, t->length) == 0 && close(STDOUT_FILENO) == 0) return EXIT_DONE;
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    return fail(EXIT_UNABLE, "cannot write to standard output: %s", strerror(errno));
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void json_string(text_buffer *t, const char *value) {
    text_add_bytes(t, "\"", 1);
    for (const char *c = value; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\')
            text_add(t, "\\%c", *c);
        else if ((unsigned char)*c < 0x20)
            text_add(t, "\\u%04x", (unsigned)*c);
        else
            text_add_bytes(t, c, 1);
    }
    text_add_bytes(t, "\"", 1);
}

static void json_key(text_buffer *t, const char *key) {
    if (t->need_comma) text_add_bytes(t, ",", 1);
    t->need_comma = true;
    if (key == NULL) return;
    json_string(t, key);
    text_add_bytes(t, ":", 1);
}

void json_open(text_buffer *t, const char *key, char bracket) {
    json_key(t, key);
    text_add_bytes(t, &bracket, 1);
    t->need_comma = false;
}

void json_close(text_buffer *t, char bracket) {
    text_add_bytes(t, &bracket, 1);
    t->need_comma = true;
}

void json_begin(text_buffer *t) {
    json_open(t, NULL, '{');
    json_integer(t, "schema", 1);
    json_text(t, "version", dpmf_version());
}

void json_end(text_buffer *t) {
    json_close(t, '}');
    text_add_bytes(t, "\n", 1);
}

void json_text(text_buffer *t, const char *key, const char *value) {
    json_key(t, key);
    json_string(t, value);
}

void json_integer(text_buffer *t, const char *key, int64_t value) {
    json_key(t, key);
    text_add(t, "%" PRId64, value);
}

void json_double(text_buffer *t, const char *key, double value) {
    json_key(t, key);
    if (value != value)
        text_add(t, "null");
    else if (value - value != 0.0)
        text_add(t, value > 0.0 ? "\"inf\"" : "\"-inf\"");
    else
        text_add(t, "%.17g", value);
}

void json_count_known(text_buffer *t, const char *key, int64_t value) {
    if (value > 0)
        json_integer(t, key, value);
    else
        json_null(t, key);
}

void json_bool(text_buffer *t, const char *key, bool value) {
    json_key(t, key);
    text_add(t, value ? "true" : "false");
}

void json_null(text_buffer *t, const char *key) {
    json_key(t, key);
    text_add(t, "null");
}

void json_sensitivity(text_buffer *t, dpmf_sensitivity value) {
    json_open(t, "sensitivity", '{');
    json_double(t, "value", value.value);
    json_text(t, "kind", dpmf_kind_name(value.kind));
    json_text(t, "of", value.of == DPMF_SENSITIVITY_COLUMN ? "column" : "participation");
    json_text(t, "method", value.method);
    json_close(t, '}');
}

void json_losses(text_buffer *t, const dpmf_evaluation *value) {
    json_double(t, "rms_loss", value->rms_loss);
    json_double(t, "max_loss", value->max_loss);
    json_double(t, "total_squared_loss", value->total_squared_loss);
}

void json_known(text_buffer *t, const char *key, double value) {
    if (value > 0.0)
        json_double(t, key, value);
    else
        json_null(t, key);
}

void json_lower_bound(text_buffer *t, dpmf_lower_bound value) {
    if (value.scope == NULL) {
        json_null(t, "lower_bound");
        return;
    }
    json_open(t, "lower_bound", '{');
    json_known(t, "rms_loss", value.rms_loss);
    json_known(t, "max_loss", value.max_loss);
    json_text(t, "scope", value.scope);
    json_close(t, '}');
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

enum { NAME_WIDTH = 20, VALUE_WIDTH = 16 };

void table_text(text_buffer *t, const char *name, const char *value) {
    text_add(t, "%-*s%s\n", NAME_WIDTH, name, value);
}

void table_integer(text_buffer *t, const char *name, int64_t value) {
    text_add(t, "%-*s%" PRId64 "\n", NAME_WIDTH, name, value);
}

/* Nine digits of a bound on its safe side: what is printed is a bound too. side: 1 not below, -1 not above, 0 nearest. */
void digits_of(double value, int side, char text[DIGITS_LENGTH]) {
    enum { DIGITS = 9 };
    snprintf(text, DIGITS_LENGTH, "%.*g", DIGITS, value);
    if (side == 0 || value == 0.0 || !isfinite(value) || side * strtod(text, NULL) >= side * value) return;
    const double unit = pow(10.0, floor(log10(fabs(value))) - (DIGITS - 1));
    snprintf(text, DIGITS_LENGTH, "%.*g", DIGITS, value + side * unit);
}

static int side_of(const char *kind) {
    const char *upper = dpmf_kind_name(DPMF_UPPER_BOUND), *lower = dpmf_kind_name(DPMF_LOWER_BOUND);
    if (strncmp(kind, upper, strlen(upper)) == 0) return 1;
    return strncmp(kind, lower, strlen(lower)) == 0 ? -1 : 0;
}

void table_double(text_buffer *t, const char *name, double value, const char *kind) {
    char text[DIGITS_LENGTH];
    digits_of(value, kind == NULL ? 0 : side_of(kind), text);
    if (kind == NULL)
        text_add(t, "%-*s%s\n", NAME_WIDTH, name, text);
    else
        text_add(t, "%-*s%-*s%s\n", NAME_WIDTH, name, VALUE_WIDTH, text, kind);
}

void table_sensitivity(text_buffer *t, dpmf_sensitivity value) {
    char kind[200];
    snprintf(kind, sizeof kind, "%s%s%s%s%s", dpmf_kind_name(value.kind),
             value.of == DPMF_SENSITIVITY_COLUMN ? ", largest column" : "", value.method != NULL ? " (" : "",
             value.method != NULL ? value.method : "", value.method != NULL ? ")" : "");
    table_double(t, "sensitivity", value.value, kind);
}

/* Above this many steps of a stream without a horizon the library looks for the largest error at some steps only. */
static const int64_t ALL_STEPS = (int64_t)1 << 24;

const char *max_loss_kind(const dpmf_strategy *s, const dpmf_evaluation *value) {
    if (strcmp(dpmf_strategy_get(s).family, DPMF_FAMILY_UNBOUNDED) == 0 && dpmf_strategy_get(s).steps > ALL_STEPS)
        return dpmf_kind_name(DPMF_ESTIMATE);
    return dpmf_kind_name(value->sensitivity.kind);
}

/* A loss is the sensitivity times a norm that is computed exactly, so it is of the same kind. */
void table_losses(text_buffer *t, const dpmf_strategy *s, const dpmf_evaluation *value) {
    const char *kind = dpmf_kind_name(value->sensitivity.kind);
    table_double(t, "RMS loss", value->rms_loss, kind);
    table_double(t, "max loss", value->max_loss, max_loss_kind(s, value));
    table_double(t, "total squared loss", value->total_squared_loss, kind);
}

void table_lower_bound(text_buffer *t, dpmf_lower_bound value) {
    if (value.scope == NULL) {
        table_text(t, "lower bound", "none known, or not requested");
        return;
    }
    if (value.rms_loss > 0.0) table_double(t, "RMS lower bound", value.rms_loss, value.scope);
    if (value.max_loss > 0.0) table_double(t, "max lower bound", value.max_loss, value.scope);
}

/* ---- a design's constraints in words ---- */

const char *show_bytes(uint64_t bytes, char out[BYTES_SHOWN]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int i = 0;
    for (; value >= 1024.0 && i < 6; i++)
        value /= 1024.0;
    snprintf(out, BYTES_SHOWN, "%.3g %s", value, units[i]);
    return out;
}

const char *designed_words(const dpmf_design_limits *d, char out[DESIGNED_MAX]) {
    char bytes[BYTES_SHOWN], memory[60] = "any memory", time[80] = "any time", range[60] = "";
    if (d->memory > 0) snprintf(memory, sizeof memory, "memory at most %s", show_bytes(d->memory, bytes));
    if (d->max_overhead > 0.0)
        snprintf(time, sizeof time, "at most %g times the time of independent noise", d->max_overhead);
    if (d->separation_high > 0) snprintf(range, sizeof range, ", separations up to %" PRId64, d->separation_high);
    snprintf(out, DESIGNED_MAX, "rows of %" PRId64 " numbers, %s, %s, least %s noise%s", d->dim, memory, time,
             d->loss == DPMF_LOSS_MAX ? "max" : "RMS", range);
    return out;
}
