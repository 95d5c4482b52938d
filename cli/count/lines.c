/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A line of input to a row of numbers. Plain lines are numbers separated by spaces, tabs or commas. CSV is as people have
 * it: a byte order mark, a header or none, commas, semicolons or tabs (the most frequent one in the first line), quotes with
 * quotes doubled in them, spaces around fields. A quoted field ends on its line: a quote that was left open could otherwise
 * swallow every line that follows.
 *
 * Messages about numbers are the same for any mistake: they name the place, and reveal nothing of its text.
 */
#include "count/count.h"

#include "options/options.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MOST_COLUMNS = 1000000, UNWANTED = -1, TIME = -2 };

/* ---- options ---- */

/* Words of a list, ended by zeros in place; empty ones only after the last comma. */
static int read_list(char *list, line_reader *reader) {
    char shown[SHOWN];
    int64_t count = 1;
    for (const char *at = list; *at != '\0'; ++at)
        count += *at == ',';
    reader->name = allocate(count, sizeof *reader->name);
    if (reader->name == NULL) return fail_memory();
    for (char *at = list; at != NULL;) {
        char *comma = strchr(at, ',');
        if (comma != NULL) *comma = '\0';
        if (*at == '\0' && (comma != NULL || reader->columns == 0))
            return fail(EXIT_USAGE, "--columns: a name or a number is accepted between commas");
        for (int64_t i = 0; *at != '\0' && i < reader->columns; ++i)
            if (strcmp(at, reader->name[i]) == 0)
                return fail(EXIT_USAGE, "--columns: %s is named twice", show(at, shown));
        if (*at != '\0') reader->name[reader->columns++] = at;
        at = comma != NULL ? comma + 1 : NULL;
    }
    return reader->columns <= MOST_COLUMNS ? 0 : fail(EXIT_USAGE, "--columns: at most 1000000 are accepted");
}

int lines_open(const arguments *given, line_reader *reader) {
    const char *text = option_given(given, OPTION_COLUMNS) ? option_text(given, OPTION_COLUMNS) : "1";
    char shown[SHOWN];
    const bool number = strchr("+-0123456789.", text[0]) != NULL && strchr(text, ',') == NULL;
    reader->time = given->text[OPTION_TIME];
    reader->csv = reader->time != NULL || !number;
    reader->separator = ',';
    if (number) {
        if (!read_count(text, &reader->columns) || reader->columns < 1 || reader->columns > MOST_COLUMNS)
            return fail(EXIT_USAGE, "--columns %s: a whole number from 1 to 1000000 is accepted, or a list of columns",
                        show(text, shown));
        return 0;
    }
    reader->list = allocate((int64_t)strlen(text) + 1, 1);
    if (reader->list == NULL) return fail_memory();
    strcpy(reader->list, text);
    return read_list(reader->list, reader);
}

void lines_close(line_reader *reader) {
    free(reader->list);
    free(reader->name);
    free(reader->place);
    text_free(&reader->titles);
    text_free(&reader->spare);
}

/* ---- fields of CSV ---- */

static bool is_space(const line_cutter *c, char letter) {
    return letter == ' ' || (letter == '\t' && c->separator != '\t');
}

bool lines_cut(line_cutter *c, slice *field) {
    if (!c->more) return false;
    while (c->at < c->end && is_space(c, *c->at))
        ++c->at;
    if (c->at < c->end && *c->at == '"') {
        const char *at = ++c->at;
        while (at < c->end && (*at != '"' || (at + 1 < c->end && at[1] == '"')))
            at += *at == '"' ? 2 : 1;
        *field = (slice){c->at, (size_t)(at - c->at)};
        if (at >= c->end) c->wrong = "a quote is not closed on its line";
        for (c->at = at + (at < c->end); c->at < c->end && is_space(c, *c->at);)
            ++c->at;
        if (c->at < c->end && *c->at != c->separator) c->wrong = "there is text after a closing quote";
    } else {
        const char *end = memchr(c->at, c->separator, (size_t)(c->end - c->at));
        const char *last = end = end != NULL ? end : c->end;
        while (last > c->at && is_space(c, last[-1]))
            --last;
        *field = (slice){c->at, (size_t)(last - c->at)};
        c->at = end;
    }
    c->more = c->at < c->end && *c->at == c->separator;
    c->at += c->more;
    return c->wrong == NULL;
}

static line_cutter cutter_of(const line_reader *reader, const char *line, size_t length) {
    return (line_cutter){.at = line, .end = line + length, .separator = reader->separator, .more = true};
}

char lines_separator(const char *line, size_t length) {
    static const char known[] = {',', ';', '\t'};
    size_t count[3] = {0}, best = 0;
    bool quoted = false;
    for (size_t i = 0; i < length; ++i) {
        quoted = quoted != (line[i] == '"');
        for (size_t k = 0; k < 3; ++k)
            count[k] += !quoted && line[i] == known[k];
    }
    for (size_t k = 1; k < 3; ++k)
        if (count[k] > count[best]) best = k;
    return known[best];
}

/* ---- which fields ---- */

static bool is_number_of_column(const char *name, int64_t *out) {
    return strspn(name, "0123456789") == strlen(name) && read_count(name, out) && *out >= 1;
}

/* A word for a column, and neither a number nor one of those that stand for a missing one. */
static bool is_title(slice field) {
    static const char *const missing[] = {"nan", "na", "n/a", "null", "none", "nil", "inf", "infinity", "missing", "?"};
    if (field.length == 0 || strchr("+-.0123456789", field.start[0]) != NULL) return false;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; ++i)
        if (strlen(missing[i]) == field.length && strncasecmp(field.start, missing[i], field.length) == 0) return false;
    return true;
}

/* Field `index` of the first line, wanted as `name` (a name, or its number)? */
static bool is_wanted(const char *name, int64_t index, slice field) {
    int64_t number = 0;
    if (is_number_of_column(name, &number)) return number == index + 1;
    return strlen(name) == field.length && memcmp(field.start, name, field.length) == 0;
}

/* What field `index` is: a column, the time, or nothing. */
static int64_t place_of(const line_reader *reader, int64_t index, slice field, int64_t *others) {
    if (reader->time != NULL && is_wanted(reader->time, index, field)) return TIME;
    if (reader->name == NULL) return *others < reader->columns ? (*others)++ : UNWANTED;
    for (int64_t i = 0; i < reader->columns; ++i)
        if (is_wanted(reader->name[i], index, field)) return i;
    return UNWANTED;
}

static bool names_are_numbers(const line_reader *reader) {
    int64_t number;
    bool all = reader->time == NULL || is_number_of_column(reader->time, &number);
    for (int64_t i = 0; reader->name != NULL && i < reader->columns; ++i)
        all = all && is_number_of_column(reader->name[i], &number);
    return all;
}

/* Titles of the answers: those of the header, or column numbers. */
static void add_title(line_reader *reader, bool header, int64_t index, slice field) {
    if (header)
        text_add_bytes(&reader->titles, field.start, field.length);
    else
        text_add(&reader->titles, "column %lld", (long long)index + 1);
    text_add_bytes(&reader->titles, "", 1);
}

/* where[i]: the field of column i, then of the time. False, and why, if one is missing. */
static bool find_fields(line_reader *reader, int64_t count, const slice *fields, int64_t *where, char why[WHY]) {
    char shown[SHOWN];
    int64_t others = 0;
    for (int64_t i = 0; i <= reader->columns; ++i)
        where[i] = -1;
    for (int64_t i = 0; i < count; ++i) {
        reader->place[i] = place_of(reader, i, fields[i], &others);
        int64_t *const of = reader->place[i] == TIME ? &where[reader->columns] : &where[reader->place[i]];
        if (reader->place[i] == UNWANTED) continue;
        if (*of >= 0) {
            snprintf(why, WHY, "it names the column of field %lld twice", (long long)i + 1);
            return false;
        }
        *of = i;
    }
    for (int64_t i = 0; i < reader->columns + (reader->time != NULL); ++i) {
        const char *name = i == reader->columns ? reader->time : reader->name != NULL ? reader->name[i] : NULL;
        if (where[i] >= 0) continue;
        snprintf(why, WHY, "it has %lld field%s, but no column %s", (long long)count, count == 1 ? "" : "s",
                 name != NULL ? show(name, shown) : "for each number");
        return false;
    }
    return true;
}

/* The first line decides where the columns are. 1: it is a header, 0: it is not, -1: it cannot be used, and why. */
static int arrange(line_reader *reader, const char *line, size_t length, char why[WHY]) {
    int64_t count = 0, room = 1;
    int answer = -1;
    reader->separator = lines_separator(line, length);
    for (size_t i = 0; i < length; ++i)
        room += line[i] == reader->separator;
    slice *fields = allocate(room, sizeof *fields);
    int64_t *where = allocate(reader->columns + 1, sizeof *where);
    free(reader->place);
    reader->place = allocate(room, sizeof *reader->place);
    snprintf(why, WHY, "there is no memory for its fields");
    if (fields == NULL || where == NULL || reader->place == NULL) goto done;
    line_cutter c = cutter_of(reader, line, length);
    while (lines_cut(&c, &fields[count]))
        ++count;
    snprintf(why, WHY, "%s", c.wrong != NULL ? c.wrong : "");
    if (c.wrong != NULL || !find_fields(reader, count, fields, where, why)) goto done;
    bool titles = true;
    for (int64_t i = 0; i < reader->columns; ++i)
        titles = titles && is_title(fields[where[i]]);
    const bool header = titles || !names_are_numbers(reader);
    reader->titles.length = 0;
    if (reader->time != NULL) add_title(reader, header, where[reader->columns], fields[where[reader->columns]]);
    for (int64_t i = 0; i < reader->columns; ++i)
        add_title(reader, header, where[i], fields[where[i]]);
    if (reader->titles.failed) goto done;
    reader->places = count;
    answer = header;
done:
    free(fields);
    free(where);
    return answer;
}

/* ---- rows ---- */

static void refuse_number(const line_reader *reader, int64_t index, char why[WHY]) {
    snprintf(why, WHY, "number %lld is not a finite decimal number below %.3g in size", (long long)index + 1,
             fixed_value(reader->limit, reader->grid));
}

static bool is_separator(char letter) {
    return letter == ' ' || letter == '\t' || letter == ',';
}

static bool read_plain(const line_reader *reader, const char *line, size_t length, fixed *row, char why[WHY]) {
    const char *at = line, *const end = line + length;
    int64_t found = 0;
    for (;; ++found) {
        fixed value = 0;
        while (at < end && is_separator(*at))
            ++at;
        if (at == end) break;
        const char *word = at;
        while (at < end && !is_separator(*at))
            ++at;
        if (!fixed_read(word, (size_t)(at - word), reader->grid, reader->limit, &value)) {
            refuse_number(reader, found, why);
            return false;
        }
        if (found < reader->columns) row[found] = value;
    }
    snprintf(why, WHY, "it has %lld number%s, and %lld must be there (--columns)", (long long)found,
             found == 1 ? "" : "s", (long long)reader->columns);
    return found == reader->columns;
}

slice lines_unquote(text_buffer *spare, slice field) {
    if (memchr(field.start, '"', field.length) == NULL) return field;
    spare->length = 0;
    for (size_t i = 0; i < field.length; ++i) {
        text_add_bytes(spare, field.start + i, 1);
        i += field.start[i] == '"';
    }
    return (slice){spare->bytes, spare->length};
}

static bool read_fields(line_reader *reader, const char *line, size_t length, fixed *row, slice *time, char why[WHY]) {
    line_cutter c = cutter_of(reader, line, length);
    slice field;
    int64_t index = 0, found = 0, bad = -1;
    for (; index < reader->places && lines_cut(&c, &field); ++index) {
        const int64_t place = reader->place[index];
        if (place == TIME) {
            *time = lines_unquote(&reader->spare, field);
        } else if (place >= 0) {
            ++found;
            if (!fixed_read(field.start, field.length, reader->grid, reader->limit, &row[place]) && bad < 0)
                bad = index;
        }
    }
    if (c.wrong != NULL) {
        snprintf(why, WHY, "field %lld: %s", (long long)index + 1, c.wrong);
        return false;
    }
    if (c.more) { /* a decimal comma or a forgotten quote: its numbers are not where the first line has them */
        while (lines_cut(&c, &field))
            ++index;
        snprintf(why, WHY, "it has %lld fields, and the first line has %lld", (long long)index,
                 (long long)reader->places);
        return false;
    }
    if (bad >= 0) {
        snprintf(why, WHY, "field %lld is not a finite decimal number below %.3g in size", (long long)bad + 1,
                 fixed_value(reader->limit, reader->grid));
        return false;
    }
    snprintf(why, WHY, "it has %lld field%s, and a requested column is missing", (long long)index,
             index == 1 ? "" : "s");
    if (found != reader->columns || (reader->time != NULL && time->start == NULL)) return false;
    snprintf(why, WHY, "its time is not UTF-8"); /* which JSON could not hold */
    for (size_t at = 0, letter = 0; at < time->length; at += letter) {
        letter = utf8_length(time->start + at, time->start + time->length);
        if (letter == 0) return false;
    }
    return true;
}

line_kind lines_read(line_reader *reader, const char *line, size_t length, bool first, fixed *row, slice *time,
                     char why[WHY]) {
    *time = (slice){NULL, 0};
    if (length > 0 && line[length - 1] == '\r') --length;
    if (first && length >= 3 && memcmp(line, "\xef\xbb\xbf", 3) == 0) line += 3, length -= 3;
    reader->ready = reader->ready || !reader->csv; /* plain lines need no arranging */
    snprintf(why, WHY, "it has a zero byte: numbers are accepted");
    if (memchr(line, '\0', length) != NULL) return LINE_BAD;
    if (!reader->csv) return read_plain(reader, line, length, row, why) ? LINE_ROW : LINE_BAD;
    if (!reader->ready) {
        const int header = arrange(reader, line, length, why);
        if (header < 0) return LINE_BAD;
        reader->ready = true;
        reader->header = header == 1;
        if (header == 1) return LINE_HEADER;
    }
    return read_fields(reader, line, length, row, time, why) ? LINE_ROW : LINE_BAD;
}
