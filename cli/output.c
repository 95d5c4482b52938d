/* SPDX-License-Identifier: Apache-2.0 */
#include "output.h"

#include "options/options.h"

#include <errno.h>
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- failures -------------------------------------------------------------------------------------------------- */

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
    /* A message may quote anything a user or a file holds: control characters must not break the line or the terminal. */
    for (char *c = line; *c != '\0'; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
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

size_t utf8_length(const char *at, const char *end) {
    const unsigned char *c = (const unsigned char *)at;
    const size_t length = *c < 0x80 ? 1 : *c >= 0xf0 ? 4 : *c >= 0xe0 ? 3 : 2;
    if ((*c >= 0x80 && *c < 0xc2) || *c > 0xf4 || (size_t)(end - at) < length) return 0;
    for (size_t i = 1; i < length; i++)
        if ((c[i] & 0xc0) != 0x80) return 0;
    const bool too_long = (c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xf0 && c[1] < 0x90);
    const bool outside = (c[0] == 0xed && c[1] >= 0xa0) || (c[0] == 0xf4 && c[1] >= 0x90);
    return too_long || outside ? 0 : length;
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

int text_finish(text_buffer *t) {
    const int code = text_print(t);
    text_free(t);
    return code;
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
    if (value != NULL)
        json_string(t, value);
    else
        text_add(t, "null");
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
    json_text(t, "kind", dpmf_certainty_name(value.kind));
    json_text(t, "of", value.of == DPMF_SENSITIVITY_COLUMN ? "column" : "participation");
    json_text(t, "method", value.method);
    json_count_known(t, "columns", value.columns); /* null: any number */
    json_close(t, '}');
}

void json_losses(text_buffer *t, const dpmf_evaluation *value) {
    json_double(t, "rms_loss", value->rms_loss);
    json_double(t, "max_loss", value->max_loss);
    json_double(t, "total_squared_loss", value->total_squared_loss);
}

void json_doubles(text_buffer *t, const char *key, int64_t count, const double *values) {
    json_open(t, key, '[');
    for (int64_t i = 0; i < count; i++)
        json_double(t, NULL, values[i]);
    json_close(t, ']');
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

static bool is_exact(const char *kind) {
    const char *exact = dpmf_certainty_name(DPMF_EXACT);
    return kind != NULL && strncmp(kind, exact, strlen(exact)) == 0;
}

int side_of(const char *kind) {
    const char *upper = dpmf_certainty_name(DPMF_UPPER_BOUND), *lower = dpmf_certainty_name(DPMF_LOWER_BOUND);
    if (kind == NULL) return 0;
    if (is_exact(kind) || strncmp(kind, upper, strlen(upper)) == 0) return 1;
    return strncmp(kind, lower, strlen(lower)) == 0 ? -1 : 0;
}

void add_kind(text_buffer *t, double value, double shown, const char *kind) {
    const size_t exact = is_exact(kind) && shown != value ? strlen(dpmf_certainty_name(DPMF_EXACT)) : 0;
    text_add(t, "%.*s%s%s", (int)exact, kind,
             exact == 0      ? ""
             : shown < value ? ", rounded down"
                             : ", rounded up",
             kind + exact);
}

static void add_figure(text_buffer *t, const char *name, double value, int side, const char *kind) {
    char text[32];
    const double shown = safe_digits(value, DIGITS, side);
    snprintf(text, sizeof text, "%.*g", DIGITS, shown);
    if (kind == NULL) {
        text_add(t, "%-*s%s\n", NAME_WIDTH, name, text);
        return;
    }
    text_add(t, "%-*s%-*s", NAME_WIDTH, name, VALUE_WIDTH, text);
    add_kind(t, value, shown, kind);
    text_add(t, "\n");
}

void table_double(text_buffer *t, const char *name, double value, const char *kind) {
    add_figure(t, name, value, side_of(kind), kind);
}

void table_upper(text_buffer *t, const char *name, double value, const char *kind) {
    add_figure(t, name, value, 1, kind);
}

void table_lower(text_buffer *t, const char *name, double value, const char *kind) {
    add_figure(t, name, value, -1, kind);
}

void table_sensitivity(text_buffer *t, dpmf_sensitivity value) {
    char kind[200];
    snprintf(kind, sizeof kind, "%s%s%s%s%s%s", dpmf_certainty_name(value.kind),
             value.columns == 1 ? ", for one column alone" : "",
             value.of == DPMF_SENSITIVITY_COLUMN ? ", largest column" : "", value.method != NULL ? " (" : "",
             value.method != NULL ? value.method : "", value.method != NULL ? ")" : "");
    table_double(t, "sensitivity", value.value, kind);
}

/* Above this many steps of a stream without a horizon the library looks for the largest error at some steps only. */
static const int64_t ALL_STEPS = (int64_t)1 << 24;

const char *max_loss_kind(const dpmf_strategy *s, const dpmf_evaluation *value) {
    if (strcmp(dpmf_strategy_get(s).family, DPMF_FAMILY_UNBOUNDED) == 0 && dpmf_strategy_get(s).steps > ALL_STEPS)
        return dpmf_certainty_name(DPMF_ESTIMATE);
    return dpmf_certainty_name(value->sensitivity.kind);
}

/* A loss is the sensitivity times a norm that is computed exactly, so it is of the same kind. */
void table_losses(text_buffer *t, const dpmf_strategy *s, const dpmf_evaluation *value) {
    const char *kind = dpmf_certainty_name(value->sensitivity.kind);
    table_double(t, "RMS loss", value->rms_loss, kind);
    table_double(t, "max loss", value->max_loss, max_loss_kind(s, value));
    table_double(t, "total squared loss", value->total_squared_loss, kind);
}

void table_lower_bound(text_buffer *t, dpmf_lower_bound value) {
    if (value.scope == NULL) {
        table_text(t, "lower bound", "none known, or not requested");
        return;
    }
    if (value.rms_loss > 0.0) table_lower(t, "RMS lower bound", value.rms_loss, value.scope);
    if (value.max_loss > 0.0) table_lower(t, "max lower bound", value.max_loss, value.scope);
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

/* ---- letters ---- */

alphabet terminal_alphabet(void) {
    static int known = -1; /* the locale of a process does not change */
    if (known < 0) {
        const bool set = setlocale(LC_CTYPE, "") != NULL;
        known = set && strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
        setlocale(LC_CTYPE, "C"); /* no parser may depend on the user's letters; LC_NUMERIC was never touched */
    }
    return known ? ALPHABET_GREEK : ALPHABET_ASCII;
}

/* Does `c` belong to a name, a path or an option, so that the word beside it is no word of its own? */
static bool joins(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("-_/\\@~=", c) != NULL) || ((unsigned char)c & 0x80) != 0;
}

/* The letter for the word at `at`, or NULL; `before` is the character in front of it. `length`: of the word. */
static const char *letter_of(const char *at, char before, size_t *length) {
    static const struct {
        const char *word, *letter;
    } table[] = {{"epsilon", "ε"}, {"delta", "δ"}, {"sigma", "σ"}, {"x", "×"}};
    if (joins(before)) return NULL;
    for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
        *length = strlen(table[i].word);
        if (strncmp(at, table[i].word, *length) != 0) continue;
        const char *after = at + *length;
        if (joins(after[0]) || (after[0] == '.' && joins(after[1]))) return NULL; /* delta.npy */
        if (*length == 1 && (before != ' ' || after[0] != ' ')) return NULL;      /* a product has spaces around it */
        return table[i].letter;
    }
    return NULL;
}

static void add_greek(text_buffer *t, const char *text) {
    char before = ' ';
    while (*text != '\0') {
        size_t length = 1;
        const char *letter = letter_of(text, before, &length);
        if (letter == NULL) length = 1;
        text_add_bytes(t, letter != NULL ? letter : text, letter != NULL ? strlen(letter) : 1);
        before = text[length - 1];
        text += length;
    }
}

void add_words(text_buffer *t, alphabet how, const char *format, ...) {
    text_buffer ascii = {0};
    va_list values, again;
    va_start(values, format);
    va_copy(again, values);
    const int length = vsnprintf(NULL, 0, format, values);
    char *room = length < 0 ? NULL : text_room(&ascii, (size_t)length + 1);
    if (room != NULL) {
        vsnprintf(room, (size_t)length + 1, format, again);
        text_used(&ascii, (size_t)length);
        if (how == ALPHABET_GREEK)
            add_greek(t, ascii.bytes);
        else
            text_add_bytes(t, ascii.bytes, ascii.length);
    } else {
        t->failed = true;
    }
    va_end(again);
    va_end(values);
    text_free(&ascii);
}

/* ---- long work and signals ---- */

static volatile sig_atomic_t stop_asked, ends_at_once, line_shown;
static const char *volatile left_behind; /* NULL, or a file to remove when the program ends at once */
static double last_shown = -1.0;

static void ask_stop(int number) {
    static const char CLEAR[] = "\r\033[K", MESSAGE[] = "dpmf: cancelled\n";
    (void)number;
    stop_asked = 1;
    if (!ends_at_once) return;
    if (left_behind != NULL) unlink(left_behind);
    if (line_shown && write(STDERR_FILENO, CLEAR, sizeof CLEAR - 1) < 0) {}
    if (write(STDERR_FILENO, MESSAGE, sizeof MESSAGE - 1) < 0) {} /* stderr has no reader: the exit code must suffice */
    _exit(EXIT_CANCELLED);
}

bool end_at_once(const char *leaving) {
    left_behind = leaving;
    ends_at_once = 1;
    return !interrupted();
}

void end_later(void) {
    ends_at_once = 0;
}

void watch_signals(void) {
    static const int stops[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action;
    memset(&action, 0, sizeof action);
    sigemptyset(&action.sa_mask);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, NULL);
    /* Not SA_RESTART: a read that waits must end. A second signal finds the default handler, and kills. */
    action.sa_handler = ask_stop;
    action.sa_flags = (int)SA_RESETHAND;
    for (size_t i = 0; i < sizeof stops / sizeof *stops; i++) {
        struct sigaction before;
        if (sigaction(stops[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(stops[i], &action, NULL); /* one that the shell ignores for us (nohup, &) stays ignored */
    }
}

bool interrupted(void) {
    return stop_asked != 0;
}

bool wait_readable(int file) {
    struct pollfd wanted = {.fd = file, .events = POLLIN};
    /* A signal may come just before the wait and not end it, so no wait is long. */
    while (!interrupted()) {
        int ready = poll(&wanted, 1, 100);
        if (ready > 0 || (ready < 0 && errno != EINTR)) return true; /* the read will report the failure */
    }
    return false;
}

double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/*
 * On a terminal a bar that is drawn over, else a line: standard error may be a log. DPMF_PROGRESS has the seconds between
 * lines, 0 for none, 10 without it; it is read once, since every call needs it.
 */
static bool is_time(bool terminal) {
    static double between_lines = -1.0;
    const char *text = between_lines < 0.0 ? getenv("DPMF_PROGRESS") : NULL;
    if (between_lines < 0.0 && (text == NULL || !read_number(text, &between_lines) || !(between_lines >= 0.0)))
        between_lines = 10.0;
    const double now = seconds_now(), between = terminal ? 0.2 : between_lines;
    if (last_shown < 0.0) last_shown = now; /* nothing is shown for work that ends at once */
    if (between == 0.0 || now - last_shown < between) return false;
    last_shown = now;
    return true;
}

void progress_show(const char *what, double done) {
    const bool terminal = isatty(STDERR_FILENO) != 0;
    if (!is_time(terminal)) return;
    if (!terminal) {
        if (done >= 0.0)
            fprintf(stderr, "dpmf: %3d.%d%% %.70s\n", (int)(100.0 * done), (int)(1000.0 * done) % 10, what);
        else
            fprintf(stderr, "dpmf: %.70s\n", what);
        return;
    }
    line_shown = 1;
    if (done >= 0.0) {
        static const char full[] = "##############################", empty[] = "..............................";
        int filled = done >= 1.0 ? 30 : (int)(30.0 * done);
        fprintf(stderr, "\r\033[K%.*s%.*s %3d%% %.40s", filled, full, 30 - filled, empty, (int)(100.0 * done), what);
    } else {
        fprintf(stderr, "\r\033[K%.70s", what);
    }
    fflush(stderr);
}

static int report_progress(void *context, const char *what, double done) {
    (void)context;
    if (interrupted()) return 1;
    progress_show(what, done);
    return 0;
}

dpmf_run run_with(int threads) {
    dpmf_run run = dpmf_run_defaults();
    run.threads = threads;
    run.progress = report_progress;
    return run;
}

void progress_clear(void) {
    if (!line_shown) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line_shown = 0;
}
