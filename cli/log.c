/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include "output.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER = 1 << 16, ROUND_DIGITS = 16, LINES_BETWEEN_LOOKS = 1 << 16 };

/* ---- lines ---- */

typedef struct reader {
    FILE *file;
    const char *path;
    int64_t line; /* the number of the last one given, from 1 */
    size_t at, have;
    bool ended;
    char bytes[BUFFER];
} reader;

typedef struct text_span {
    const char *start;
    size_t length;
} text_span;

typedef enum got { GOT_LINE, GOT_END, GOT_TOO_LONG, GOT_ERROR } got;

/* The next line without its end (\n or \r\n); the last one may lack it. */
static got next_line(reader *r, text_span *out) {
    for (;;) {
        char *start = r->bytes + r->at, *end = memchr(start, '\n', r->have - r->at);
        if (end == NULL && r->ended) end = r->bytes + r->have;
        if (end != NULL && (!r->ended || r->at < r->have)) {
            size_t length = (size_t)(end - start);
            r->at += length + 1 < r->have - r->at ? length + 1 : r->have - r->at;
            if (length > 0 && start[length - 1] == '\r') length--;
            *out = (text_span){start, length};
            r->line++;
            return GOT_LINE;
        }
        if (r->ended) return GOT_END;
        memmove(r->bytes, start, r->have - r->at);
        r->have -= r->at;
        r->at = 0;
        if (r->have == BUFFER) return GOT_TOO_LONG;
        size_t read = fread(r->bytes + r->have, 1, BUFFER - r->have, r->file);
        if (read == 0 && ferror(r->file)) return GOT_ERROR;
        if (read == 0) r->ended = true;
        r->have += read;
    }
}

static int fail_line(const reader *r, const char *why) {
    return fail(EXIT_UNABLE, "%s, line %" PRId64 ": %s", r->path, r->line, why);
}

/* ---- fields ---- */

/* Valid UTF-8, no control characters and no quotes? */
static bool plain_text(text_span s) {
    size_t length = 0;
    for (const char *c = s.start, *end = c + s.length; c < end; c += length) {
        const unsigned char first = (unsigned char)c[0];
        length = utf8_length(c, end);
        if (length == 0 || first < 0x20 || first == 0x7f || first == '"') return false;
        if (first == 0xc2 && (unsigned char)c[1] < 0xa0) return false; /* control characters again */
    }
    return true;
}

static int read_round(const reader *r, text_span s, int64_t steps, int64_t *out) {
    int64_t value = 0;
    if (s.length == 0 || s.length > ROUND_DIGITS) return fail_line(r, "the round is not a whole number");
    for (size_t i = 0; i < s.length; i++) {
        if (s.start[i] < '0' || s.start[i] > '9') return fail_line(r, "the round is not a whole number");
        value = 10 * value + (s.start[i] - '0');
    }
    if (value >= steps)
        return fail(EXIT_UNABLE,
                    "%s, line %" PRId64 ": round %" PRId64 ", accepted 0 to %" PRId64 " (the steps of the mechanism)",
                    r->path, r->line, value, steps - 1);
    *out = value;
    return 0;
}

static int split(const reader *r, text_span line, text_span *client, text_span *round) {
    const char *comma = memchr(line.start, ',', line.length);
    if (comma == NULL) return fail_line(r, "client,round is required");
    *client = (text_span){line.start, (size_t)(comma - line.start)};
    *round = (text_span){comma + 1, line.length - client->length - 1};
    if (memchr(round->start, ',', round->length) != NULL) return fail_line(r, "more than two columns");
    if (client->length == 0) return fail_line(r, "the client has no name");
    if (client->length > CLIENT_MAX) return fail_line(r, "the client's name is longer than 200 bytes");
    if (client->start[0] == ' ' || client->start[client->length - 1] == ' ')
        return fail_line(r, "the client's name begins or ends with a space"); /* one client would count as two */
    return 0;
}

/* ---- clients by name ---- */

typedef struct directory {
    participation_log *log;
    int64_t client_room, round_room, begin_room, name_room;
    int64_t *table, places; /* client + 1, 0: free; a power of 2 */
} directory;

/* Where the name is, or would be. Reading CLIENT_MAX bytes behind the last name is fine: add_name leaves that room. */
static int64_t *place_of(const directory *d, text_span name) {
    uint64_t h = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < name.length; i++)
        h = (h ^ (unsigned char)name.start[i]) * 1099511628211u;
    for (h ^= h >> 32;; h++) {
        int64_t *place = &d->table[h & (uint64_t)(d->places - 1)];
        if (*place == 0) return place;
        const char *known = log_client(d->log, *place - 1);
        if (memcmp(known, name.start, name.length) == 0 && known[name.length] == '\0') return place;
    }
}

static bool grow(int64_t **array, int64_t *room, int64_t wanted) {
    if (wanted <= *room) return true;
    int64_t more = *room < 1024 ? 1024 : 2 * *room, *bigger = realloc(*array, (size_t)more * sizeof *bigger);
    if (bigger == NULL) return false;
    *array = bigger;
    *room = more;
    return true;
}

static bool grow_table(directory *d) {
    if (2 * d->log->clients < d->places) return true;
    int64_t places = d->places == 0 ? 4096 : 2 * d->places;
    int64_t *table = allocate(places, (int64_t)sizeof *table);
    if (table == NULL) return false;
    free(d->table);
    d->table = table;
    d->places = places;
    for (int64_t i = 0; i < d->log->clients; i++) {
        const char *name = log_client(d->log, i);
        *place_of(d, (text_span){name, strlen(name)}) = i + 1;
    }
    return true;
}

static bool add_name(directory *d, text_span name) {
    participation_log *log = d->log;
    int64_t begin = log->bytes, end = begin + (int64_t)name.length + 1;
    if (!grow(&log->begins, &d->begin_room, log->clients + 1)) return false;
    if (end + CLIENT_MAX + 1 > d->name_room) {
        int64_t more = 2 * d->name_room + (1 << 16);
        char *bigger = realloc(log->names, (size_t)more);
        if (bigger == NULL) return false;
        memset(bigger + d->name_room, 0, (size_t)(more - d->name_room));
        log->names = bigger;
        d->name_room = more;
    }
    memcpy(log->names + begin, name.start, name.length);
    log->begins[log->clients++] = begin;
    log->bytes = end;
    return true;
}

/* The client of this name, a new one if need be. */
static int find_client(directory *d, const reader *r, text_span name, int64_t *out) {
    if (!grow_table(d)) return fail_memory();
    int64_t *place = place_of(d, name);
    if (*place == 0) {
        if (!plain_text(name))
            return fail_line(r, "the client's name is not plain UTF-8 text without quotes and control characters");
        if (!add_name(d, name)) return fail_memory();
        *place = d->log->clients;
    }
    *out = *place - 1;
    return 0;
}

/* ---- the file ---- */

static int read_line(directory *d, const reader *r, text_span line, int64_t steps) {
    participation_log *log = d->log;
    text_span client = {0}, round = {0};
    int code = split(r, line, &client, &round);
    if (code != 0) return code;
    if (!grow(&log->client, &d->client_room, log->count + 1) || !grow(&log->round, &d->round_room, log->count + 1))
        return fail_memory();
    code = find_client(d, r, client, &log->client[log->count]);
    if (code == 0) code = read_round(r, round, steps, &log->round[log->count]);
    if (code == 0) log->count++;
    return code;
}

static int read_lines(directory *d, reader *r, int64_t steps) {
    static const char header[] = "client,round";
    text_span line = {0};
    for (;;) {
        got what = next_line(r, &line);
        if (what == GOT_ERROR) return fail(EXIT_UNABLE, "%s: %s", r->path, strerror(errno));
        if (what == GOT_TOO_LONG) return fail(EXIT_UNABLE, "%s: line %" PRId64 " is too long", r->path, r->line + 1);
        if (what == GOT_END) break;
        if (r->line == 1 && line.length >= 3 && memcmp(line.start, "\xEF\xBB\xBF", 3) == 0)
            line = (text_span){line.start + 3, line.length - 3}; /* the byte order mark of spreadsheets */
        if (r->line % LINES_BETWEEN_LOOKS == 0 && interrupted()) return fail(EXIT_CANCELLED, "cancelled");
        if (r->line > 1) {
            int code = read_line(d, r, line, steps);
            if (code != 0) return code;
        } else if (line.length != sizeof header - 1 || memcmp(line.start, header, line.length) != 0) {
            return fail_line(r, "the header client,round is required");
        }
    }
    return d->log->count > 0 ? 0 : fail(EXIT_UNABLE, "%s: no participations", r->path);
}

int log_read(const char *path, int64_t steps, participation_log *out) {
    participation_log log = {0};
    directory d = {.log = &log};
    reader *r = allocate(1, (int64_t)sizeof *r);
    if (r == NULL) return fail_memory();
    r->path = path;
    r->file = fopen(path, "rb");
    int code = r->file == NULL ? fail(EXIT_UNABLE, "%s: %s", path, strerror(errno)) : read_lines(&d, r, steps);
    if (r->file != NULL) fclose(r->file);
    free(r);
    free(d.table);
    if (code != 0)
        log_free(&log);
    else
        *out = log;
    return code;
}

void log_free(participation_log *log) {
    free(log->client);
    free(log->round);
    free(log->begins);
    free(log->names);
    *log = (participation_log){0};
}

const char *log_client(const participation_log *log, int64_t client) {
    return log->names + log->begins[client];
}

int log_find_repeat(const participation_log *log, int64_t *later) {
    int64_t places = 2;
    while (places < 2 * log->count)
        places *= 2;
    int64_t *table = allocate(places, (int64_t)sizeof *table); /* participation + 1, 0: free */
    int found = table == NULL ? -1 : 0;
    for (int64_t i = 0; i < log->count && found == 0; i++) {
        uint64_t h = ((uint64_t)log->client[i] * 0x9E3779B97F4A7C15u ^ (uint64_t)log->round[i]) * 0x9E3779B97F4A7C15u;
        for (h ^= h >> 31;; h++) {
            int64_t *place = &table[h & (uint64_t)(places - 1)], other = *place - 1;
            if (other < 0) *place = i + 1;
            if (other < 0) break;
            found = log->client[other] == log->client[i] && log->round[other] == log->round[i];
            if (found) *later = i;
            if (found) break;
        }
    }
    free(table);
    return found;
}

/* ---- the privacy of the actual run ---- */

/*
 * The noise of a run is sigma x s, s the sensitivity in the file, for any participation. With the sensitivity s' of the
 * actual participations it is sigma s/s' times s': the account uses this multiplier.
 */

/* The library counts units; people use clients and lines. */
static int fail_observed(dpmf_status status, const char *path, const participation_log *log) {
    int64_t later = 0;
    if (status == DPMF_ERROR_ARGUMENT && log_find_repeat(log, &later) == 1) {
        char name[SHOWN];
        return fail(EXIT_UNABLE, "%s, line %" PRId64 ": client %s takes part twice in round %" PRId64, path, later + 2,
                    show(log_client(log, log->client[later]), name), log->round[later]);
    }
    return fail_status(status, path);
}

int observed_open(const char *path, const dpmf_mechanism *mechanism, dpmf_run run, observed_run *out) {
    const dpmf_strategy *strategy = dpmf_mechanism_get(mechanism).strategy;
    dpmf_evaluate_options o = dpmf_evaluate_options_defaults();
    int code = log_read(path, dpmf_strategy_get(strategy).steps, &out->log);
    if (code != 0) return code;
    o.adjacency = dpmf_mechanism_get(mechanism).adjacency;
    o.columns = dpmf_mechanism_get(mechanism).evaluation.sensitivity.columns;
    o.run = run;
    dpmf_status status = dpmf_sensitivity_observed(strategy, out->log.count, out->log.client, out->log.round, &o,
                                                   &out->sensitivity, &out->worst);
    if (interrupted()) return fail(EXIT_CANCELLED, "cancelled");
    if (status != DPMF_OK) return fail_observed(status, path, &out->log);
    out->designed = dpmf_mechanism_get(mechanism).evaluation.sensitivity;
    out->asked = true;
    return 0;
}

void observed_close(observed_run *o) {
    log_free(&o->log);
}

dpmf_status observed_account(observed_run *o, double sigma, const dpmf_privacy *designed,
                             const dpmf_account_options *how) {
    o->sigma = sigma * (o->designed.value / o->sensitivity.value);
    dpmf_status status = o->of_delta ? dpmf_account_delta(o->sigma, designed->epsilon, how, &o->privacy)
                                     : dpmf_account_epsilon(o->sigma, designed->delta, how, &o->privacy);
    if (o->sensitivity.kind != DPMF_EXACT) o->privacy.kind = DPMF_UPPER_BOUND;
    return status;
}

/* Is it above the file's assumption, beyond rounding? */
static bool exceeds(const observed_run *o) {
    return o->sensitivity.value > o->designed.value * (1 + 1e-9);
}

void observed_json(text_buffer *t, const observed_run *o) {
    json_open(t, "observed", '{');
    json_double(t, "sensitivity", o->sensitivity.value);
    json_text(t, "kind", dpmf_certainty_name(o->sensitivity.kind));
    json_integer(t, "clients", o->log.clients);
    json_integer(t, "participations", o->log.count);
    json_text(t, "worst_client", log_client(&o->log, o->worst));
    json_double(t, "sigma", o->sigma);
    json_double(t, "epsilon", o->privacy.epsilon);
    json_double(t, "delta", o->privacy.delta);
    json_text(t, "method", o->sensitivity.method);
    json_double(t, "designed_sensitivity", o->designed.value);
    json_bool(t, "exceeds_design", exceeds(o));
    text_buffer statement = {0};
    observed_statement(&statement, o, ALPHABET_ASCII);
    if (statement.failed || statement.bytes == NULL) t->failed = true;
    if (!t->failed) json_text(t, "statement", statement.bytes);
    text_free(&statement);
    json_close(t, '}');
}

/* Rows of the table, with room for the longest of these names. */
static void add_row(text_buffer *t, const char *name, double value, const char *kind) {
    text_add(t, "%-22s%-16.9g%s\n", name, value, kind);
}

void observed_table(text_buffer *t, const observed_run *o) {
    const char *kind = dpmf_certainty_name(o->privacy.kind);
    text_add(t, "\nThe actual run: %" PRId64 " participations of %" PRId64 " client%s\n", o->log.count, o->log.clients,
             o->log.clients == 1 ? "" : "s");
    add_row(t, "observed sensitivity", o->sensitivity.value, dpmf_certainty_name(o->sensitivity.kind));
    add_row(t, "designed sensitivity", o->designed.value, dpmf_certainty_name(o->designed.kind));
    text_add(t, "%-22s%s\n", "worst client", log_client(&o->log, o->worst));
    add_row(t, "observed sigma", o->sigma, "the same noise divided by the observed sensitivity");
    add_row(t, "observed epsilon", o->privacy.epsilon, o->of_delta ? "as asked" : kind);
    add_row(t, "observed delta", o->privacy.delta, o->of_delta ? kind : "as asked");
    if (exceeds(o))
        text_add(t, "%-22s%s\n", "warning",
                 o->sensitivity.kind == DPMF_EXACT
                     ? "the run breaks an assumption of the design: its guarantee does not hold"
                     : "it is not proven that the run satisfies the assumptions of the design");
}

bool observed_breaks(const observed_run *o) {
    return o->log.count > 0 && exceeds(o) && o->sensitivity.kind == DPMF_EXACT;
}

void observed_statement(text_buffer *t, const observed_run *o, alphabet how) {
    add_words(t, how,
              "The actual run: with the %" PRId64 " participations of the log, the sensitivity is %.9g (%s; client ",
              o->log.count, safe_digits(o->sensitivity.value, DIGITS, 1), dpmf_certainty_name(o->sensitivity.kind));
    text_add(t, "%s", log_client(&o->log, o->worst)); /* a name stays as it is */
    add_words(
        t, how,
        ") instead of %.9g, and the same noise gives epsilon = %.4g at delta = %.4g%s. This figure takes the log as "
        "given: it holds if who takes part in which round does not depend on anybody's data. It protects neither "
        "the log nor anything that was decided by looking at the data. A guarantee made before the run needs a "
        "participation that certainly holds: the one above.",
        safe_digits(o->designed.value, DIGITS, 1), safe_digits(o->privacy.epsilon, 4, 1),
        safe_digits(o->privacy.delta, 4, 1), o->privacy.kind == DPMF_EXACT ? "" : " (an upper bound)");
    if (observed_breaks(o))
        text_add(t, " Here the log breaks the participation that the design assumes, and its guarantee does not hold.");
}
